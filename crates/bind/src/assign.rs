//! Assignment to a part of a column or variable: a field, an element, a slice, and parts of those.

use super::Binder;
use super::ir::{Expr, ExprKind, Subscript};
use super::scope::Scope;
use kilndb_base::{Result, sqlstate};
use kilndb_catalog::CastContext;
use kilndb_syntax::Node;

impl Binder<'_> {
    /// The new value of `base`, of which `steps` lead to the part that gets `value`. `name`: the column's or
    /// variable's; `field`: the field that `base` is of something larger.
    pub(super) fn assign_steps(
        &self,
        base: Expr,
        steps: &[Node<'_>],
        value: Expr,
        name: &str,
        field: Option<&str>,
        scope: &Scope<'_>,
    ) -> Result<Expr> {
        let (ty, container) = (base.ty, self.base_type(base.ty));
        let whole = |kind: ExprKind| {
            let e = Expr::new(kind, container);
            if ty == container { e } else { self.to_domain(e, ty, false) }
        };
        match steps {
            [] => self.assign_leaf(base, value, name, field),
            [Node::String(step), rest @ ..] => {
                let step = step.sval().unwrap_or("");
                let fields = if self.is_composite(container) || container == kilndb_types::oids::RECORD {
                    self.fields_of(&base)?
                } else {
                    None
                };
                let Some(fields) = fields else {
                    let message = format!(
                        "cannot assign to field \"{step}\" of column \"{name}\" because its type {} is not a composite type",
                        self.type_name(ty)
                    );
                    return self.err(sqlstate::DATATYPE_MISMATCH, message, -1);
                };
                let Some(index) = fields.iter().position(|f| f.0 == step) else {
                    let message = format!(
                        "cannot assign to field \"{step}\" of column \"{name}\" because there is no such column in data type {}",
                        self.type_name(ty)
                    );
                    return self.err(sqlstate::UNDEFINED_COLUMN, message, -1);
                };
                let types = fields.iter().map(|f| f.1).collect();
                let inner = ExprKind::Field { arg: Box::new(base.clone()), index, name: step.to_string() };
                let inner = Expr::new(inner, fields[index].1).with_typmod(fields[index].2);
                let value = Box::new(self.assign_steps(inner, rest, value, name, Some(step), scope)?);
                Ok(whole(ExprKind::FieldAssign { arg: Box::new(base), index, value, count: fields.len(), types }))
            }
            steps => {
                let (mut subscripts, mut slice) = (Vec::new(), false);
                let count = steps.iter().take_while(|s| matches!(s, Node::A_Indices(_))).count();
                for step in &steps[..count] {
                    if let Node::A_Indices(ix) = step {
                        let (lower, upper, is_slice) = self.bind_indices(ix, scope, ty)?;
                        slice |= is_slice;
                        subscripts.push(Subscript { lower, upper });
                    }
                }
                if let Some(by) = self.key_subscript(container) {
                    let element = self.part_by_key(by, subscripts.len(), slice)?;
                    let part =
                        ExprKind::Subscript { arg: Box::new(base.clone()), subscripts: subscripts.clone(), slice };
                    let value =
                        self.assign_steps(Expr::new(part, element), &steps[count..], value, name, None, scope)?;
                    let value = Box::new(value);
                    return Ok(whole(ExprKind::SubscriptAssign { arg: Box::new(base), subscripts, slice, value }));
                }
                let is_json = container == kilndb_types::oids::JSONB;
                if is_json && slice {
                    return self.err(sqlstate::DATATYPE_MISMATCH, "jsonb subscript does not support slices", value.loc);
                }
                let element = if is_json { container } else { self.element_of(container) };
                if element == 0 || count == 0 {
                    let message = format!(
                        "cannot subscript type {} because it does not support subscripting",
                        self.type_name(ty)
                    );
                    return self.err(sqlstate::DATATYPE_MISMATCH, message, value.loc);
                }
                let part = ExprKind::Subscript { arg: Box::new(base.clone()), subscripts: subscripts.clone(), slice };
                let part = Expr::new(part, if slice { container } else { element }).with_typmod(base.typmod);
                let value = Box::new(self.assign_steps(part, &steps[count..], value, name, None, scope)?);
                Ok(whole(ExprKind::SubscriptAssign { arg: Box::new(base), subscripts, slice, value }))
            }
        }
    }

    fn assign_leaf(&self, part: Expr, value: Expr, name: &str, field: Option<&str>) -> Result<Expr> {
        let (ty, typmod) = (part.ty, part.typmod);
        self.coerce_to_target(value, ty, typmod, CastContext::Assignment, false)?.or_else(|v| {
            let (wanted, given) = (self.type_name(ty), self.type_name(v.ty));
            let message = match field {
                Some(field) => format!("subfield \"{field}\" is of type {wanted} but expression is of type {given}"),
                None => format!(
                    "subscripted assignment to \"{name}\" requires type {wanted} but expression is of type {given}"
                ),
            };
            self.err(sqlstate::DATATYPE_MISMATCH, message, v.loc)
        })
    }

    /// The type that a part of a column has, for values that come from elsewhere.
    pub(super) fn part_type(
        &self,
        base: Expr,
        steps: &[Node<'_>],
        name: &str,
        scope: &Scope<'_>,
    ) -> Result<(kilndb_base::Oid, i32)> {
        let groups = steps
            .iter()
            .enumerate()
            .filter(|(i, s)| {
                !matches!(s, Node::A_Indices(_))
                    || !matches!(i.checked_sub(1).and_then(|p| steps.get(p)), Some(Node::A_Indices(_)))
            })
            .count();
        let unknown = Expr::null(kilndb_types::oids::UNKNOWN);
        let mut e = self.assign_steps(base, steps, unknown, name, None, scope)?;
        for _ in 0..groups {
            if let ExprKind::Cast { arg, kind: super::ir::CastKind::Domain, .. } = e.kind {
                e = *arg;
            }
            e = match e.kind {
                ExprKind::FieldAssign { value, .. } | ExprKind::SubscriptAssign { value, .. } => *value,
                _ => break,
            };
        }
        Ok((e.ty, e.typmod))
    }
}
