//! Conversions to domains: to the base type as any other conversion, then the domain's conditions.
//!
//! Invariants
//! 1. A value has a domain's type only behind a [`CastKind::Domain`], as a column, or as a parameter whose value was
//!    checked.
//! 2. Conditions of a domain under a domain come first, as does NOT NULL.

use super::Binder;
use super::ir::*;
use super::scope::{NsColumn, NsItem, Scope};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::{CastContext, CatalogView};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// What a value must be to belong to a domain.
pub enum DomainCondition {
    NotNull,
    /// A check's name and condition; the value is column 1 of relation [`VALUE_REL`].
    Check(String, Expr),
}

/// The relation whose only column is VALUE.
pub const VALUE_REL: u32 = 0x3fff_ffff;

/// Where VALUE, of type `base`, can be named.
pub(super) fn scope_of(base: Oid) -> Scope<'static> {
    let mut scope = Scope::new(None);
    let expr = Expr::column(ColId { rel: VALUE_REL, att: 1 }, base, -1);
    scope.items.push(NsItem::new(
        None,
        VALUE_REL,
        vec![NsColumn { name: "value".to_string(), expr, table_oid: 0, attnum: 0, is_named_here: false }],
    ));
    scope
}

/// Binds a check's text; VALUE is of type `base`.
pub fn check(sql: &str, base: Oid, catalog: &dyn CatalogView) -> Result<Expr> {
    let binder = Binder::new(catalog, Arc::from(format!("SELECT {sql}")), Vec::new());
    let scope = scope_of(base);
    let bound = binder.bind_sql_text(sql, &scope)?;
    if bound.has_sublink() {
        return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "cannot use subquery in check constraint"));
    }
    binder.coerce_bool(bound, "CHECK")
}

/// All conditions of a domain and of those under it, in the order they are looked at.
pub fn conditions(domain: Oid, catalog: &dyn CatalogView) -> Result<Vec<DomainCondition>> {
    let (mut checks, mut not_null, mut ty) = (Vec::new(), false, domain);
    while let Some(info) = catalog.type_by_oid(ty)? {
        let Some(own) = &info.domain else { break };
        not_null |= own.not_null;
        let mut list = Vec::new();
        for c in &own.checks {
            list.push(DomainCondition::Check(c.name.clone(), check(&c.sql, info.base_type, catalog)?));
        }
        list.append(&mut checks);
        checks = list;
        ty = info.base_type;
    }
    let first = not_null.then_some(DomainCondition::NotNull);
    Ok(first.into_iter().chain(checks).collect())
}

impl Binder<'_> {
    /// The type right under a domain, with its modifier; None: it is none.
    pub(crate) fn under_domain(&self, oid: Oid) -> Option<(Oid, i32)> {
        if oid < kilndb_catalog::builtin::FIRST_USER_OID {
            return None;
        }
        self.catalog.type_by_oid(oid).ok().flatten().filter(|t| t.kind == b'd').map(|t| (t.base_type, t.typmod))
    }

    /// The type under all domains, with the modifier that the lowest of them gives.
    pub(crate) fn under_domains(&self, oid: Oid) -> (Oid, i32) {
        let (mut ty, mut modifier) = (oid, -1);
        while let Some((base, typmod)) = self.under_domain(ty) {
            (ty, modifier) = (base, typmod);
        }
        (ty, modifier)
    }

    /// An expression of a domain's base type as one of the domain.
    pub(crate) fn to_domain(&self, expr: Expr, domain: Oid, explicit: bool) -> Expr {
        let loc = expr.loc;
        Expr::new(ExprKind::Cast { arg: Box::new(expr), kind: CastKind::Domain, explicit }, domain).at(loc)
    }

    /// Functions of enums' types rather than of their values.
    pub(super) fn enum_function(&self, function: Oid, args: &[Expr], ty: Oid) -> Result<Option<Expr>> {
        let element = match function {
            3528 | 3529 => self.base_type(ty),
            3530 | 3531 => self.element_of(ty),
            _ => return Ok(None),
        };
        let info = self.type_info(element)?;
        let value = |l: Option<&kilndb_catalog::EnumLabel>| {
            Expr::new(ExprKind::Const(l.map_or(Datum::Null, |l| l.value())), ty)
        };
        let all = || {
            Expr::new(
                ExprKind::Const(kilndb_catalog::store::array(element, info.labels.iter().map(|l| l.value()).collect())),
                ty,
            )
        };
        Ok(Some(match function {
            3528 => value(info.labels.first()),
            3529 => value(info.labels.last()),
            3531 => all(),
            _ => {
                let args = args.iter().cloned().chain([all()]).collect();
                let call = FuncExpr::internal(function, "enum_range".into(), args, false, b's');
                Expr::new(ExprKind::Func(Box::new(call)), ty)
            }
        }))
    }

    /// Converts to a domain, modifier of the base type included.
    pub(super) fn coerce_to_domain(&self, expr: Expr, domain: Oid, context: CastContext) -> Result<Expr> {
        let (base, typmod) = self.under_domains(domain);
        let explicit = context == CastContext::Explicit;
        // A parameter has the domain's type for those who describe the statement.
        if let (ExprKind::Param(n), oids::UNKNOWN) = (&expr.kind, expr.ty) {
            let mut param = self.set_param(*n, domain, expr.loc)?;
            param.ty = base;
            return Ok(self.to_domain(param, domain, explicit));
        }
        match self.coerce_to_target(expr, base, typmod, context, explicit)? {
            Ok(e) => Ok(self.to_domain(e, domain, explicit)),
            Err(e) => {
                let message = format!("cannot cast type {} to {}", self.type_name(e.ty), self.type_name(domain));
                self.err(sqlstate::CANNOT_COERCE, message, e.loc)
            }
        }
    }

    /// Arrays of a domain from arrays of anything else: element by element.
    pub(super) fn coerce_to_domain_array(&self, expr: Expr, to: Oid, context: CastContext) -> Result<Expr> {
        let (loc, explicit) = (expr.loc, context == CastContext::Explicit);
        let element = self.element_of(to);
        let base = self.array_of(self.base_type(element));
        let arg = if self.base_type(expr.ty) == base { expr } else { self.coerce(expr, base, context)? };
        Ok(Expr::new(ExprKind::Cast { arg: Box::new(arg), kind: CastKind::Array, explicit }, to).at(loc))
    }
}
