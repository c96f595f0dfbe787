//! Window definitions and calls.

use super::Binder;
use super::ir::*;
use super::resolve::Candidate;
use super::scope::{ClauseKind, Scope};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_syntax::{Node, NodeList, nodes};
use kilndb_types::oids;

impl Binder<'_> {
    pub(crate) fn bind_window_clause(&self, list: &NodeList, scope: &mut Scope<'_>) -> Result<()> {
        for n in list {
            let Node::WindowDef(w) = n else { continue };
            let name = w.name().unwrap_or("").to_string();
            if scope.windows.borrow().iter().any(|x| x.name.as_deref() == Some(&name)) {
                return self.err(
                    sqlstate::WINDOWING_ERROR,
                    format!("window \"{name}\" is already defined"),
                    w.location,
                );
            }
            let mut spec = self.bind_window_spec(w, scope)?;
            spec.name = Some(name);
            scope.windows.borrow_mut().push(spec);
        }
        Ok(())
    }

    fn bind_window_spec(&self, w: &nodes::WindowDef, scope: &Scope<'_>) -> Result<WindowSpec> {
        let mut partition = Vec::new();
        for n in w.partition_clause() {
            let e = self.bind_expr(n, scope)?;
            let e = self.resolve_unknown(e)?;
            self.require_ordering(&e)?;
            partition.push(e);
        }
        let mut order = Vec::new();
        for s in w.order_clause() {
            order.push(self.bind_sort_expr(s, scope)?);
        }
        if let Some(r) = w.refname() {
            let base = scope.windows.borrow().iter().find(|x| x.name.as_deref() == Some(r)).cloned();
            let Some(base) = base else {
                return self.err(sqlstate::UNDEFINED_OBJECT, format!("window \"{r}\" does not exist"), w.location);
            };
            if !partition.is_empty() {
                return self.err(
                    sqlstate::WINDOWING_ERROR,
                    format!("cannot override PARTITION BY clause of window \"{r}\""),
                    w.location,
                );
            }
            if !order.is_empty() && !base.order.is_empty() {
                return self.err(
                    sqlstate::WINDOWING_ERROR,
                    format!("cannot override ORDER BY clause of window \"{r}\""),
                    w.location,
                );
            }
            partition = base.partition;
            if order.is_empty() {
                order = base.order;
            }
        }
        let o = w.frame_options as u32;
        let mode = if o & 4 != 0 {
            FrameMode::Rows
        } else if o & 8 != 0 {
            FrameMode::Groups
        } else {
            FrameMode::Range
        };
        let offset = |node: Node<'_>| self.frame_offset(node, (mode, &order), scope);
        // FRAMEOPTION bits: 0x10 BETWEEN, 0x20 start unbounded preceding, 0x40 end unbounded preceding, 0x80 / 0x100 unbounded
        // following, 0x200 / 0x400 current row, 0x800 / 0x1000 offset preceding, 0x2000 / 0x4000 offset following.
        let start = if o & 0x20 != 0 {
            FrameBound::UnboundedPreceding
        } else if o & 0x800 != 0 {
            FrameBound::Preceding(offset(w.start_offset())?)
        } else if o & 0x2000 != 0 {
            FrameBound::Following(offset(w.start_offset())?)
        } else {
            FrameBound::CurrentRow
        };
        let end = if o & 0x100 != 0 {
            FrameBound::UnboundedFollowing
        } else if o & 0x1000 != 0 {
            FrameBound::Preceding(offset(w.end_offset())?)
        } else if o & 0x4000 != 0 {
            FrameBound::Following(offset(w.end_offset())?)
        } else {
            FrameBound::CurrentRow
        };
        let exclude = if o & 0x8000 != 0 {
            1
        } else if o & 0x10000 != 0 {
            2
        } else if o & 0x20000 != 0 {
            3
        } else {
            0
        };
        if mode == FrameMode::Range
            && (matches!(start, FrameBound::Preceding(_) | FrameBound::Following(_))
                || matches!(end, FrameBound::Preceding(_) | FrameBound::Following(_)))
            && order.len() != 1
        {
            return self.err(
                sqlstate::WINDOWING_ERROR,
                "RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column",
                w.location,
            );
        }
        Ok(WindowSpec {
            name: None,
            partition,
            order,
            mode,
            start,
            end,
            exclude,
            default_frame: o & 1 == 0,
            is_between: o & 0x10 != 0,
        })
    }

    /// The offset of a frame's edge, of a window sorted by these keys.
    fn frame_offset(&self, node: Node<'_>, (mode, order): (FrameMode, &[SortKey]), scope: &Scope<'_>) -> Result<Expr> {
        let e = self.bind_expr(node, scope)?;
        let name = match mode {
            FrameMode::Rows => "ROWS",
            FrameMode::Groups => "GROUPS",
            FrameMode::Range => "RANGE",
        };
        let e = match mode {
            FrameMode::Range => self.range_offset(e, order)?,
            _ => match self.coerce_to_target(e, oids::INT8, -1, kilndb_catalog::CastContext::Assignment, false)? {
                Ok(e) => e,
                Err(e) => {
                    let message = format!("argument of {name} must be type bigint, not type {}", self.type_name(e.ty));
                    return self.err(sqlstate::DATATYPE_MISMATCH, message, e.loc);
                }
            },
        };
        match variable_of(&e, scope) {
            Some(loc) => {
                let message = format!("argument of {name} must not contain variables");
                self.err(sqlstate::INVALID_COLUMN_REFERENCE, message, loc)
            }
            None => Ok(e),
        }
    }

    /// The offset of a RANGE frame as the type that the sort column's in_range function takes.
    fn range_offset(&self, offset: Expr, order: &[SortKey]) -> Result<Expr> {
        use kilndb_catalog::CastContext::{Assignment, Implicit};
        let [key] = order else { return self.resolve_unknown(offset) };
        let (column, given, loc) = (self.base_type(key.expr.ty), offset.ty, offset.loc);
        let refuse = |detail: String, hint: Option<&str>| {
            let e = Error::unsupported(format!("RANGE with offset PRECEDING/FOLLOWING {detail}"));
            Err(self.at(hint.map_or(e.clone(), |h| e.with_hint(h)), loc))
        };
        let types = in_range_types(column);
        if types.is_empty() {
            return refuse(format!("is not supported for column type {}", self.type_name(column)), None);
        }
        let preferred = if given == oids::UNKNOWN { column } else { given };
        let mut fitting = Vec::new();
        for to in types {
            if self.can_coerce(given, *to, Implicit)? {
                fitting.push(*to);
            }
        }
        let both = format!("for column type {} and offset type {}", self.type_name(column), self.type_name(given));
        let to = match fitting.as_slice() {
            [] => {
                return refuse(
                    format!("is not supported {both}"),
                    Some("Cast the offset value to an appropriate type."),
                );
            }
            many if many.contains(&preferred) => preferred,
            [one] => *one,
            _ => {
                let hint = "Cast the offset value to the exact intended type.";
                return refuse(format!("has multiple interpretations {both}"), Some(hint));
            }
        };
        let offset = self.coerce(offset, to, Implicit)?;
        // The frame's edge is computed in the column's own type.
        let is_integer = matches!(column, oids::INT2 | oids::INT4 | oids::INT8);
        if is_integer && to != column { self.coerce(offset, column, Assignment) } else { Ok(offset) }
    }

    pub(crate) fn bind_window_call(
        &self,
        f: &nodes::FuncCall,
        c: &Candidate,
        args: Vec<Expr>,
        ty: Oid,
        scope: &Scope<'_>,
    ) -> Result<Expr> {
        let loc = f.location;
        let Some(over) = f.over() else { return Err(Error::internal("OVER")) };
        let what = match scope.clause {
            ClauseKind::Having => Some("HAVING"),
            ClauseKind::From => Some("functions in FROM"),
            clause => clause.without_aggregates(),
        };
        if let Some(what) = what {
            return self.err(sqlstate::WINDOWING_ERROR, format!("window functions are not allowed in {what}"), loc);
        }
        if f.agg_distinct {
            return self.err(sqlstate::FEATURE_NOT_SUPPORTED, "DISTINCT is not implemented for window functions", loc);
        }
        if !f.agg_order().is_empty() {
            return self.err(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "aggregate ORDER BY is not implemented for window functions",
                loc,
            );
        }
        if args.iter().any(Expr::has_window) {
            return self.err(sqlstate::WINDOWING_ERROR, "window function calls cannot be nested", loc);
        }
        let filter = match f.agg_filter() {
            Node::None => None,
            node => {
                let e = self.bind_expr(node, scope)?;
                Some(Box::new(self.coerce_bool(e, "FILTER")?))
            }
        };
        let window = match over.name() {
            Some(n) => {
                let found = scope.windows.borrow().iter().position(|w| w.name.as_deref() == Some(n));
                match found {
                    Some(i) => i,
                    None => {
                        return self.err(
                            sqlstate::UNDEFINED_OBJECT,
                            format!("window \"{n}\" does not exist"),
                            over.location,
                        );
                    }
                }
            }
            None => {
                let spec = self.bind_window_spec(over, scope)?;
                let mut windows = scope.windows.borrow_mut();
                let text = format!("{:?}", strip(&spec));
                match windows.iter().position(|w| w.name.is_none() && format!("{:?}", strip(w)) == text) {
                    Some(i) => i,
                    None => {
                        windows.push(spec);
                        windows.len() - 1
                    }
                }
            }
        };
        let call = WindowCall {
            oid: c.info.oid,
            name: c.info.name.as_str().into(),
            args,
            is_aggregate: c.info.kind == b'a',
            filter,
            window,
            star: f.agg_star,
        };
        Ok(Expr::new(ExprKind::Window(Box::new(call)), ty).at(loc))
    }
}

/// Where the first column of this level in the expression stands.
fn variable_of(e: &Expr, scope: &Scope<'_>) -> Option<i32> {
    if let ExprKind::Column(c) = e.kind {
        return scope.owns(c).then_some(e.loc);
    }
    let mut found = None;
    e.for_children(&mut |child| found = found.or_else(|| variable_of(child, scope)));
    found.or_else(|| {
        let mut columns = Vec::new();
        e.columns(&mut columns);
        columns.iter().any(|c| scope.owns(*c)).then_some(e.loc)
    })
}

/// The window's definition without places in the text, to be compared with others.
fn strip(w: &WindowSpec) -> WindowSpec {
    let mut w = w.clone();
    let mut clear = |e: &mut Expr| {
        let _ = e.rewrite(&mut |x| {
            x.loc = -1;
            Ok(())
        });
    };
    w.partition.iter_mut().for_each(&mut clear);
    w.order.iter_mut().for_each(|k| clear(&mut k.expr));
    for b in [&mut w.start, &mut w.end] {
        if let FrameBound::Preceding(e) | FrameBound::Following(e) = b {
            clear(e);
        }
    }
    w
}

/// Types of offsets that RANGE frames over a column of a type may have (pg_amproc's in_range functions).
fn in_range_types(column: Oid) -> &'static [Oid] {
    match column {
        oids::INT2 | oids::INT4 => &[oids::INT8, oids::INT2, oids::INT4],
        oids::INT8 => &[oids::INT8],
        oids::FLOAT4 | oids::FLOAT8 => &[oids::FLOAT8],
        oids::NUMERIC => &[oids::NUMERIC],
        oids::DATE | oids::TIMESTAMP | oids::TIMESTAMPTZ | oids::TIME | oids::TIMETZ | oids::INTERVAL => {
            &[oids::INTERVAL]
        }
        _ => &[],
    }
}
