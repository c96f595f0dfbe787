//! Type conversion rules: what converts to what, in which context, and how.

use super::Binder;
use super::ir::*;
use super::object_address::ObjectAddress;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::{CastContext, CastMethod, TypeInfo};
use kilndb_types::oids;
use std::sync::Arc;

pub fn is_polymorphic(ty: Oid) -> bool {
    matches!(
        ty,
        oids::ANYELEMENT
            | oids::ANYARRAY
            | oids::ANYNONARRAY
            | oids::ANYENUM
            | oids::ANYRANGE
            | 4537
            | oids::ANYCOMPATIBLE
            | oids::ANYCOMPATIBLEARRAY
            | oids::ANYCOMPATIBLENONARRAY
            | 5080
            | 4538
    )
}

const TABLE_AM_HANDLER: Oid = 269;
const INDEX_AM_HANDLER: Oid = 325;
const LANGUAGE_HANDLER: Oid = 2280;
const FDW_HANDLER: Oid = 3115;
const TSM_HANDLER: Oid = 3310;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum CoercionPath {
    None,
    Relabel,
    InOut,
    Array,
    Function(Oid),
}

impl Binder<'_> {
    pub(crate) fn type_info(&self, oid: Oid) -> Result<Arc<TypeInfo>> {
        self.catalog
            .type_by_oid(oid)?
            .ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("cache lookup failed for type {oid}")))
    }
    /// The type under a domain.
    pub fn base_type(&self, oid: Oid) -> Oid {
        let mut oid = oid;
        for _ in 0..32 {
            if oid < 10_000 {
                return oid;
            }
            match self.catalog.type_by_oid(oid) {
                Ok(Some(t)) if t.kind == b'd' => oid = t.base_type,
                _ => return oid,
            }
        }
        oid
    }
    pub(crate) fn category(&self, oid: Oid) -> (u8, bool) {
        if oid == oids::UNKNOWN {
            return (b'X', false);
        }
        self.catalog.type_by_oid(oid).ok().flatten().map_or((b'U', false), |t| (t.category, t.preferred))
    }
    pub(crate) fn element_of(&self, oid: Oid) -> Oid {
        match self.catalog.type_by_oid(self.base_type(oid)) {
            Ok(Some(t)) if t.category == b'A' => t.element,
            _ => 0,
        }
    }
    pub(crate) fn array_of(&self, oid: Oid) -> Oid {
        self.catalog.type_by_oid(oid).ok().flatten().map_or(0, |t| t.array)
    }
    pub(crate) fn is_composite(&self, oid: Oid) -> bool {
        self.catalog.type_by_oid(oid).ok().flatten().is_some_and(|t| t.kind == b'c')
    }

    /// How a value of `from` becomes one of `to`, or None if it does not in this context.
    pub(crate) fn find_path(&self, from: Oid, to: Oid, context: CastContext) -> Result<CoercionPath> {
        let (from, to) = (self.base_type(from), self.base_type(to));
        if from == to {
            return Ok(CoercionPath::Relabel);
        }
        if let Some(cast) = self.catalog.cast(from, to)? {
            let allowed = match cast.context {
                CastContext::Implicit => true,
                CastContext::Assignment => context != CastContext::Implicit,
                CastContext::Explicit => context == CastContext::Explicit,
            };
            if !allowed {
                return Ok(CoercionPath::None);
            }
            return Ok(match cast.method {
                CastMethod::Binary => CoercionPath::Relabel,
                CastMethod::InOut => CoercionPath::InOut,
                CastMethod::Function(f) => CoercionPath::Function(f),
            });
        }
        if to != oids::OIDVECTOR && to != oids::INT2VECTOR {
            let (fe, te) = (self.element_of(from), self.element_of(to));
            if fe != 0 && te != 0 {
                return Ok(match self.find_path(fe, te, context)? {
                    CoercionPath::None => CoercionPath::None,
                    CoercionPath::Relabel => CoercionPath::Relabel,
                    _ => CoercionPath::Array,
                });
            }
        }
        let (from_category, to_category) = (self.category(from).0, self.category(to).0);
        if context != CastContext::Implicit && to_category == b'S' {
            return Ok(CoercionPath::InOut);
        }
        if context == CastContext::Explicit && from_category == b'S' {
            return Ok(CoercionPath::InOut);
        }
        Ok(CoercionPath::None)
    }

    pub fn can_coerce(&self, from: Oid, to: Oid, context: CastContext) -> Result<bool> {
        if from == to || to == oids::ANY || from == oids::UNKNOWN || from == 0 {
            return Ok(true);
        }
        if is_polymorphic(to) {
            return Ok(true);
        }
        if self.find_path(from, to, context)? != CoercionPath::None {
            return Ok(true);
        }
        if from == oids::RECORD && self.is_composite(self.base_type(to))
            || to == oids::RECORD && self.is_composite(from)
        {
            return Ok(true);
        }
        if to == oids::RECORD_ARRAY && self.element_of(from) != 0 && self.is_composite(self.element_of(from)) {
            return Ok(true);
        }
        Ok(false)
    }

    /// Converts without length coercion. The conversion must exist.
    pub(crate) fn coerce(&self, expr: Expr, to: Oid, context: CastContext) -> Result<Expr> {
        let from = expr.ty;
        let loc = expr.loc;
        let explicit = context == CastContext::Explicit;
        if from == to || to == oids::ANY {
            return Ok(expr);
        }
        if is_polymorphic(to) {
            return if from == oids::UNKNOWN { self.resolve_unknown(expr) } else { Ok(expr) };
        }
        if let ExprKind::Collate { arg, collation, name } = expr.kind {
            let arg = self.coerce(*arg, to, context)?;
            let ty = arg.ty;
            // What has no collation any more needs none.
            if !super::collation::is_collatable(ty) {
                return Ok(arg);
            }
            let e = Expr::new(ExprKind::Collate { arg: Box::new(arg), collation, name }, ty).at(loc);
            return Ok(Expr { collation: expr.collation, ..e });
        }
        if self.under_domain(to).is_some() {
            return self.coerce_to_domain(expr, to, context);
        }
        let of_domain =
            to >= kilndb_catalog::builtin::FIRST_USER_OID && self.under_domain(self.element_of(to)).is_some();
        if of_domain
            && !matches!(expr.kind, ExprKind::Param(_))
            && !matches!(expr.kind, ExprKind::Const(kilndb_types::Datum::Null))
            && self.element_of(from) != self.element_of(to)
        {
            return self.coerce_to_domain_array(expr, to, context);
        }
        if from == oids::UNKNOWN {
            match &expr.kind {
                ExprKind::Const(d) => {
                    return match d {
                        kilndb_types::Datum::Text(t) => {
                            if let Some(param) = self.lift_string(to, loc) {
                                return Ok(param);
                            }
                            let base = self.base_type(to);
                            let mut e = self.literal(t, base, loc)?;
                            e.ty = to;
                            Ok(e)
                        }
                        _ => Ok(Expr::null(to).at(loc)),
                    };
                }
                ExprKind::Param(n) => return self.set_param(*n, to, loc),
                _ => {}
            }
            return Ok(Expr::new(ExprKind::Cast { arg: Box::new(expr), kind: CastKind::InOut, explicit }, to).at(loc));
        }
        let path = self.find_path(from, to, context)?;
        let cast = |arg: Expr, kind: CastKind| {
            let typmod = if kind == CastKind::Relabel { arg.typmod } else { -1 };
            let same_family = kind == CastKind::Relabel && (self.base_type(from) == self.base_type(to));
            let typmod = if same_family { typmod } else { -1 };
            Expr::new(ExprKind::Cast { arg: Box::new(arg), kind, explicit }, to).with_typmod(typmod).at(loc)
        };
        Ok(match path {
            CoercionPath::Relabel => match &expr.kind {
                ExprKind::Const(kilndb_types::Datum::Inet(v)) if to == oids::INET => {
                    Expr::new(ExprKind::Const(kilndb_types::Datum::Inet(v.as_cidr(false))), to).at(loc)
                }
                _ => cast(expr, CastKind::Relabel),
            },
            CoercionPath::InOut => cast(expr, CastKind::InOut),
            CoercionPath::Array => cast(expr, CastKind::Array),
            CoercionPath::Function(oid) => {
                let Some(info) = self.catalog.function_by_oid(oid)? else {
                    return Err(Error::internal(format!("cast function {oid} is missing")));
                };
                let mut args = vec![expr];
                if info.arg_types.len() >= 2 {
                    args.push(Expr::new(ExprKind::Const(kilndb_types::Datum::Int4(-1)), oids::INT4));
                }
                if info.arg_types.len() >= 3 {
                    args.push(Expr::bool(explicit));
                }
                let func = FuncExpr {
                    oid,
                    name: info.name.as_str().into(),
                    args,
                    strict: info.strict,
                    volatility: info.volatility,
                    returns_set: false,
                    form: if explicit { FuncForm::ExplicitCast } else { FuncForm::ImplicitCast },
                    operator: 0,
                    variadic: false,
                    internal: true,
                    expected: None,
                };
                Expr::new(ExprKind::Func(Box::new(func)), to).at(loc)
            }
            CoercionPath::None => {
                if from == oids::RECORD && self.is_composite(to) {
                    return self.coerce_row(expr, to, context);
                }
                if to == oids::RECORD || to == oids::RECORD_ARRAY {
                    return Ok(cast(expr, CastKind::Relabel));
                }
                return self.err(
                    sqlstate::CANNOT_COERCE,
                    format!("cannot cast type {} to {}", self.type_name(from), self.type_name(to)),
                    loc,
                );
            }
        })
    }

    fn coerce_row(&self, expr: Expr, to: Oid, context: CastContext) -> Result<Expr> {
        let loc = expr.loc;
        let info = self.type_info(to)?;
        let table = self.catalog.table_by_oid(info.table_oid)?;
        let wanted: Vec<(Oid, i32)> = table
            .iter()
            .flat_map(|t| t.columns.iter().filter(|c| !c.dropped).map(|c| (c.type_oid, c.typmod)))
            .collect();
        let ExprKind::Row { fields, names } = expr.kind else {
            return Ok(
                Expr::new(ExprKind::Cast { arg: Box::new(expr), kind: CastKind::Row, explicit: false }, to).at(loc)
            );
        };
        if fields.len() != wanted.len() {
            let detail =
                if fields.len() < wanted.len() { "Input has too few columns." } else { "Input has too many columns." };
            let e = Error::new(sqlstate::CANNOT_COERCE, format!("cannot cast type record to {}", self.type_name(to)))
                .with_detail(detail);
            return Err(self.at(e, loc));
        }
        // The text has a value for each of them: it means something else with another number of columns.
        if let Some(table) = &table {
            for column in table.columns.iter().filter(|c| !c.dropped) {
                self.note_reference(ObjectAddress::column(table.oid, column.attnum));
            }
        }
        let mut out = Vec::with_capacity(fields.len());
        for (i, (f, (ty, typmod))) in fields.into_iter().zip(wanted).enumerate() {
            match self.coerce_to_target(f, ty, typmod, context, false)? {
                Ok(f) => out.push(f),
                Err(f) => {
                    let e = Error::new(
                        sqlstate::CANNOT_COERCE,
                        format!("cannot cast type record to {}", self.type_name(to)),
                    )
                    .with_detail(format!(
                        "Cannot cast type {} to {} in column {}.",
                        self.type_name(f.ty),
                        self.type_name(ty),
                        i + 1
                    ));
                    return Err(self.at(e, loc));
                }
            }
        }
        Ok(Expr::new(ExprKind::Row { fields: out, names }, to).at(loc))
    }

    /// Converts, length coercion included. `Err(expr)` gives the expression back if there is no conversion.
    pub(crate) fn coerce_to_target(
        &self,
        expr: Expr,
        to: Oid,
        typmod: i32,
        context: CastContext,
        explicit: bool,
    ) -> Result<Result<Expr, Expr>> {
        if !self.can_coerce(expr.ty, to, context)? {
            return Ok(Err(expr));
        }
        let base = self.base_type(to);
        if base != to && self.under_domain(to).is_some() {
            return Ok(Ok(self.coerce(expr, to, context)?));
        }
        // How an interval is read depends on its fields: a number without a unit is one of the last of them.
        if let (oids::INTERVAL, true, ExprKind::Const(kilndb_types::Datum::Text(text))) =
            (base, typmod >= 0 && expr.ty == oids::UNKNOWN, &expr.kind)
        {
            let mut e = self.literal_typmod(text, base, typmod, expr.loc)?;
            (e.ty, e.typmod) = (to, typmod);
            return Ok(Ok(e));
        }
        let e = self.coerce(expr, to, context)?;
        Ok(Ok(self.apply_typmod(e, base, typmod, explicit)?))
    }

    fn apply_typmod(&self, e: Expr, base: Oid, typmod: i32, explicit: bool) -> Result<Expr> {
        if typmod < 0 || e.typmod == typmod {
            return Ok(e);
        }
        let element = self.element_of(base);
        let has_length = |t: Oid| kilndb_types::types::descriptor(t).is_some_and(|ty| ty.modifier.is_some());
        if !has_length(base) && !has_length(element) {
            return Ok(e);
        }
        let (ty, loc) = (e.ty, e.loc);
        if let ExprKind::Const(d) = &e.kind
            && !matches!(base, oids::INTERVAL)
        {
            let d = d.clone();
            let value = kilndb_types::cast::apply_typmod(base, d, typmod, explicit);
            // An overflow is an error of execution, not of analysis.
            if let Ok(value) = value {
                return Ok(Expr::new(ExprKind::Const(value), ty).with_typmod(typmod).at(loc));
            }
        }
        Ok(Expr::new(ExprKind::Cast { arg: Box::new(e), kind: CastKind::Typmod, explicit }, ty)
            .with_typmod(typmod)
            .at(loc))
    }

    /// `expr::type`.
    pub(crate) fn explicit_cast(&self, expr: Expr, to: Oid, typmod: i32, loc: i32) -> Result<Expr> {
        self.check_pseudo_cast(&expr, to, loc)?;
        match self.coerce_to_target(expr, to, typmod, CastContext::Explicit, true)? {
            Ok(e) => Ok(e),
            Err(e) => self.err(
                sqlstate::CANNOT_COERCE,
                format!("cannot cast type {} to {}", self.type_name(e.ty), self.type_name(to)),
                loc,
            ),
        }
    }

    /// Casts to pseudo-types: polymorphic ones take what their family takes, and values of the others cannot be written.
    fn check_pseudo_cast(&self, e: &Expr, to: Oid, loc: i32) -> Result<()> {
        let from = self.base_type(e.ty);
        let unknown = from == oids::UNKNOWN;
        let fits = match to {
            _ if from == to => true,
            oids::INTERNAL => false,
            oids::ANYENUM => self.category(from).0 == b'E',
            oids::ANYARRAY | oids::ANYCOMPATIBLEARRAY => unknown || self.element_of(from) != 0,
            oids::ANYNONARRAY | oids::ANYCOMPATIBLENONARRAY => self.element_of(from) == 0,
            oids::ANYRANGE | oids::ANYCOMPATIBLERANGE => unknown || self.range_of(from).is_some(),
            oids::ANYMULTIRANGE | oids::ANYCOMPATIBLEMULTIRANGE => unknown || self.multirange_of(from).is_some(),
            _ => true,
        };
        if !fits {
            let message = format!("cannot cast type {} to {}", self.type_name(e.ty), self.type_name(to));
            return self.err(sqlstate::CANNOT_COERCE, message, loc);
        }
        let ExprKind::Const(value) = &e.kind else { return Ok(()) };
        // The input functions of the second kind are not even strict.
        let refuses = match to {
            oids::ANYARRAY
            | oids::ANYCOMPATIBLEARRAY
            | oids::ANYRANGE
            | oids::ANYCOMPATIBLERANGE
            | oids::ANYMULTIRANGE
            | oids::ANYCOMPATIBLEMULTIRANGE => !value.is_null(),
            oids::TRIGGER | oids::EVENT_TRIGGER | LANGUAGE_HANDLER | FDW_HANDLER => true,
            TABLE_AM_HANDLER | INDEX_AM_HANDLER | TSM_HANDLER => true,
            _ => false,
        };
        if unknown && refuses {
            let message = format!("cannot accept a value of type {}", self.type_name(to));
            return self.err(sqlstate::FEATURE_NOT_SUPPORTED, message, e.loc);
        }
        Ok(())
    }

    /// A literal or parameter that nothing gave a type becomes text.
    pub(crate) fn resolve_unknown(&self, expr: Expr) -> Result<Expr> {
        if expr.ty == oids::UNKNOWN { self.coerce(expr, oids::TEXT, CastContext::Implicit) } else { Ok(expr) }
    }

    pub(crate) fn set_param(&self, n: u32, to: Oid, loc: i32) -> Result<Expr> {
        let mut params = self.params.borrow_mut();
        let Some(slot) = params.get_mut(n as usize) else {
            drop(params);
            return self.err(sqlstate::UNDEFINED_PARAMETER, format!("there is no parameter ${}", n + 1), loc);
        };
        if *slot == 0 || *slot == oids::UNKNOWN {
            *slot = to;
        } else if *slot != to {
            let e = Error::new(
                sqlstate::AMBIGUOUS_PARAMETER,
                format!("inconsistent types deduced for parameter ${}", n + 1),
            )
            .with_detail(format!("{} versus {}", self.type_name(*slot), self.type_name(to)));
            drop(params);
            return Err(self.at(e, loc));
        }
        Ok(Expr::new(ExprKind::Param(n), to).at(loc))
    }

    pub(crate) fn coerce_bool(&self, expr: Expr, construct: &str) -> Result<Expr> {
        let loc = expr.loc;
        match self.coerce_to_target(expr, oids::BOOL, -1, CastContext::Assignment, false)? {
            Ok(e) if !e.has_srf() => Ok(e),
            Ok(_) => {
                self.err(sqlstate::DATATYPE_MISMATCH, format!("argument of {construct} must not return a set"), loc)
            }
            Err(e) => self.err(
                sqlstate::DATATYPE_MISMATCH,
                format!("argument of {construct} must be type boolean, not type {}", self.type_name(e.ty)),
                loc,
            ),
        }
    }

    /// The type that a list of expressions (UNION columns, CASE results, VALUES …) meets at.
    pub(crate) fn common_type(&self, exprs: &[&Expr], context: &str) -> Result<Oid> {
        let Some(first) = exprs.first() else { return Ok(oids::TEXT) };
        if first.ty != oids::UNKNOWN && exprs.iter().all(|e| e.ty == first.ty) {
            return Ok(first.ty);
        }
        let mut chosen = self.base_type(first.ty);
        let (mut category, mut preferred) = self.category(chosen);
        for e in &exprs[1..] {
            let ty = self.base_type(e.ty);
            if ty == oids::UNKNOWN || ty == chosen {
                continue;
            }
            let (c, p) = self.category(ty);
            if chosen == oids::UNKNOWN {
                (chosen, category, preferred) = (ty, c, p);
            } else if c != category {
                if context.is_empty() {
                    return Ok(0);
                }
                return self.err(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("{context} types {} and {} cannot be matched", self.type_name(chosen), self.type_name(ty)),
                    e.loc,
                );
            } else if !preferred
                && self.can_coerce(chosen, ty, CastContext::Implicit)?
                && !self.can_coerce(ty, chosen, CastContext::Implicit)?
            {
                (chosen, category, preferred) = (ty, c, p);
            }
        }
        Ok(if chosen == oids::UNKNOWN { oids::TEXT } else { chosen })
    }

    pub(crate) fn coerce_to_common(&self, expr: Expr, ty: Oid, context: &str) -> Result<Expr> {
        if expr.ty == ty {
            return Ok(expr);
        }
        if !self.can_coerce(expr.ty, ty, CastContext::Implicit)? {
            return self.err(
                sqlstate::CANNOT_COERCE,
                format!("{context} could not convert type {} to {}", self.type_name(expr.ty), self.type_name(ty)),
                expr.loc,
            );
        }
        self.coerce(expr, ty, CastContext::Implicit)
    }

    /// The typmod all of them share, or -1.
    pub(crate) fn common_typmod(exprs: &[Expr], ty: Oid) -> i32 {
        let Some(first) = exprs.first() else { return -1 };
        if exprs.iter().all(|e| e.ty == ty && e.typmod == first.typmod) { first.typmod } else { -1 }
    }
}
