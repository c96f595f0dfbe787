//! Window functions.

use super::row_order::RowOrder;
use super::*;
use kilndb_catalog::format_type::quote_identifier;
use kilndb_types::functions::FunctionKind;
use kilndb_types::{functions, oids};

impl Planner<'_> {
    /// `written`: the windows as the query has them, where `windows` have columns of the grouped rows.
    pub(crate) fn plan_windows(
        &self,
        (windows, written, runs): (&[WindowSpec], &[WindowSpec], &[RunBound]),
        (input, rows_order): (PlannedNode, RowOrder),
        targets: &mut [Target],
        order: &mut [SortKey],
        distinct: &mut Distinct,
    ) -> Result<(PlannedNode, RowOrder)> {
        let (mut input, mut rows_order) = (input, rows_order);
        for (number, w) in windows.iter().enumerate() {
            let rel = self.new_rel();
            let mut calls: Vec<Expr> = Vec::new();
            let mut lift = |e: &mut Expr| -> Result<()> {
                if matches!(&e.kind, ExprKind::Window(c) if c.window == number) {
                    let i = match calls.iter().position(|c| kilndb_bind::same(c, e)) {
                        Some(i) => i,
                        None => {
                            calls.push(e.clone());
                            calls.len() - 1
                        }
                    };
                    *e = e.as_column(ColId { rel, att: i as i16 + 1 });
                }
                Ok(())
            };
            targets.iter_mut().try_for_each(|t| for_level(&mut t.expr, &mut lift))?;
            order.iter_mut().try_for_each(|k| for_level(&mut k.expr, &mut lift))?;
            if let Distinct::On(l) = distinct {
                l.iter_mut().try_for_each(|e| for_level(e, &mut lift))?;
            }
            if calls.is_empty() {
                continue;
            }
            let mut keys: Vec<SortKey> = w
                .partition
                .iter()
                .map(|e| SortKey { expr: e.clone(), descending: false, nulls_first: false })
                .collect();
            let partition = self.sort_specs(&keys, &input.layout)?;
            let order_specs = self.sort_specs(&w.order, &input.layout)?;
            keys.extend(w.order.iter().cloned());
            if !keys.is_empty() {
                input = self.sort(input, &keys, &rows_order)?;
                if !rows_order.gives(&keys) {
                    rows_order = RowOrder::of_keys(&keys);
                }
            }
            let mut list = Vec::new();
            for c in &calls {
                let ExprKind::Window(call) = &c.kind else { continue };
                let function = functions::descriptor(call.oid).map(|d| d.kind);
                let arg_types = self.argument_types(&call.name, &call.args)?;
                let outlives_value =
                    matches!(function, Some(FunctionKind::Aggregate(make)) if make(&arg_types).outlives_finish());
                list.push(WindowFn {
                    oid: call.oid,
                    function,
                    name: call.name.clone(),
                    args: call.args.iter().map(|a| self.expression(a, &input.layout)).collect::<Result<_>>()?,
                    arg_types,
                    result: c.ty,
                    is_aggregate: call.is_aggregate,
                    filter: match &call.filter {
                        Some(f) => Some(self.expression(f, &input.layout)?),
                        None => None,
                    },
                    star: call.star,
                    outlives_value,
                    varies: call.args.iter().chain(call.filter.as_deref()).any(|e| e.is_volatile() || e.has_sublink()),
                });
            }
            let bound = |b: &FrameBound| -> Result<CFrameBound> {
                Ok(match b {
                    FrameBound::UnboundedPreceding => CFrameBound::UnboundedPreceding,
                    FrameBound::UnboundedFollowing => CFrameBound::UnboundedFollowing,
                    FrameBound::CurrentRow => CFrameBound::CurrentRow,
                    FrameBound::Preceding(e) => CFrameBound::Preceding(self.expression(e, &input.layout)?),
                    FrameBound::Following(e) => CFrameBound::Following(self.expression(e, &input.layout)?),
                })
            };
            let (mut plus, mut minus) = (None, None);
            if let (FrameMode::Range, [k]) = (w.mode, w.order.as_slice()) {
                let (p, m) = range_functions(self.base_type(k.expr.ty));
                plus = functions::lookup(p);
                minus = functions::lookup(m);
            }
            let plan = WindowPlan {
                partition,
                order: order_specs,
                mode: w.mode,
                start: bound(&w.start)?,
                end: bound(&w.end)?,
                range_plus: plus,
                range_minus: minus,
                exclude: w.exclude,
                functions: list,
                run: self.run_of(runs, &calls)?,
            };
            let mut layout = input.layout.clone();
            layout.0.extend((0..calls.len()).map(|i| ColId { rel, att: i as i16 + 1 }));
            let (rows, cost) = (input.node.rows, input.node.cost + input.node.rows * 0.02);
            let width = layout.0.len();
            let mut info = Vec::new();
            if self.explains() {
                let is_computed_below = matches!(input.node.op, Op::Sort { .. } | Op::Window { .. });
                info.push(self.window_text(written.get(number).unwrap_or(w), is_computed_below));
            }
            info.extend(self.run_text(runs, w));
            let op = Op::Window { input: input.node, plan };
            let node = self.node_with(op, width, Estimate { rows, cost }, "WindowAgg", info);
            input = PlannedNode { node, layout };
        }
        Ok((input, rows_order))
    }
}

/// Calls `f` on an expression and its parts, the innermost first, but not on those of queries in it: their windows are
/// their own.
fn for_level(e: &mut Expr, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
    e.for_children_mut(&mut |c| for_level(c, f))?;
    f(e)
}

/// `function < most` of a subquery's only window.
#[derive(Clone)]
pub(crate) struct RunBound {
    function: Expr,
    most: Expr,
    is_inclusive: bool,
}

impl Planner<'_> {
    /// The conditions on a subquery's rows that say up to which value of a window function they are of use, and the
    /// conditions that are to be judged above it.
    pub(crate) fn run_bounds(&self, q: &Query, rel: u32, conditions: &[Expr]) -> (Vec<RunBound>, Vec<Expr>) {
        let is_plain = matches!(q.body, QueryBody::Select)
            && q.windows.len() == 1
            && q.ctes.is_empty()
            && !q.has_srf
            && q.limit.is_none()
            && q.offset.is_none()
            && q.locks.is_empty()
            && matches!(q.distinct, Distinct::No);
        let (mut bounds, mut left) = (Vec::new(), Vec::new());
        for condition in conditions {
            let bound = if is_plain { self.run_bound(q, rel, condition) } else { None };
            let (bound, is_exact) = bound.unzip();
            bounds.extend(bound);
            if is_exact != Some(true) {
                left.push(condition.clone());
            }
        }
        (bounds, left)
    }

    /// The bound that a condition sets; true: it says no more than that.
    fn run_bound(&self, q: &Query, rel: u32, condition: &Expr) -> Option<(RunBound, bool)> {
        let ExprKind::Func(f) = &condition.kind else { return None };
        let [l, r] = f.args.as_slice() else { return None };
        let is_builtin = f.operator != 0 && f.operator < kilndb_catalog::builtin::FIRST_USER_OID;
        let strategy = self.catalog.btree_strategy(f.operator).ok().flatten().filter(|_| is_builtin)?;
        let of_rel = |e: &Expr| matches!(e.kind, ExprKind::Column(c) if c.rel == rel);
        let (column, most, strategy) = match (of_rel(l), of_rel(r)) {
            (true, false) => (l, r, strategy),
            (false, true) => (r, l, 6 - strategy),
            _ => return None,
        };
        let mut used = Vec::new();
        most.columns(&mut used);
        let is_number = matches!(most.ty, oids::INT2 | oids::INT4 | oids::INT8);
        if !used.is_empty() || !is_number || most.is_volatile() || most.has_sublink() || !(1..=3).contains(&strategy) {
            return None;
        }
        let ExprKind::Column(c) = column.kind else { return None };
        let at = usize::try_from(c.att - 1).ok()?;
        let function = &q.targets.iter().filter(|t| !t.junk).nth(at)?.expr;
        let ExprKind::Window(call) = &function.kind else { return None };
        let spec = q.windows.get(call.window)?;
        let counts = matches!(call.oid, 2803 | 2147) && spec.exclude == 0;
        let grows = counts && matches!(spec.start, FrameBound::UnboundedPreceding);
        // row_number, rank, dense_rank, count.
        if !(matches!(call.oid, 3100..=3102) || grows) {
            return None;
        }
        let bound = RunBound { function: function.clone(), most: most.clone(), is_inclusive: strategy > 1 };
        Some((bound, strategy < 3))
    }

    fn run_of(&self, runs: &[RunBound], calls: &[Expr]) -> Result<Vec<RunCondition>> {
        let mut found = Vec::new();
        for run in runs {
            let Some(function) = calls.iter().position(|c| kilndb_bind::same(c, &run.function)) else {
                return Err(kilndb_base::Error::internal("a window function is not computed"));
            };
            let most = self.expression(&run.most, &Layout::default())?;
            found.push(RunCondition { function, most, is_inclusive: run.is_inclusive });
        }
        Ok(found)
    }

    /// The line of EXPLAIN that says what a window is. `is_computed_below`: another node computes what it sorts by.
    fn window_text(&self, w: &WindowSpec, is_computed_below: bool) -> String {
        let key = |e: &Expr| if is_computed_below { self.show_computed(e) } else { self.show(e) };
        let keys = |list: &[Expr]| list.iter().map(key).collect::<Vec<_>>().join(", ");
        let mut parts = Vec::new();
        if !w.partition.is_empty() {
            parts.push(format!("PARTITION BY {}", keys(&w.partition)));
        }
        if !w.order.is_empty() {
            let order: Vec<Expr> = w.order.iter().map(|k| k.expr.clone()).collect();
            parts.push(format!("ORDER BY {}", keys(&order)));
        }
        parts.extend((!w.default_frame).then(|| self.frame_text(w)));
        format!("Window: {} AS ({})", window_name(w), parts.join(" "))
    }

    fn frame_text(&self, w: &WindowSpec) -> String {
        let bound = |b: &FrameBound| match b {
            FrameBound::UnboundedPreceding => "UNBOUNDED PRECEDING".to_string(),
            FrameBound::UnboundedFollowing => "UNBOUNDED FOLLOWING".to_string(),
            FrameBound::CurrentRow => "CURRENT ROW".to_string(),
            FrameBound::Preceding(e) => format!("{} PRECEDING", self.show(e)),
            FrameBound::Following(e) => format!("{} FOLLOWING", self.show(e)),
        };
        let mode = match w.mode {
            FrameMode::Rows => "ROWS",
            FrameMode::Range => "RANGE",
            FrameMode::Groups => "GROUPS",
        };
        let bounds = match w.is_between {
            true => format!("BETWEEN {} AND {}", bound(&w.start), bound(&w.end)),
            false => bound(&w.start),
        };
        let exclude = match w.exclude {
            1 => " EXCLUDE CURRENT ROW",
            2 => " EXCLUDE GROUP",
            3 => " EXCLUDE TIES",
            _ => "",
        };
        format!("{mode} {bounds}{exclude}")
    }

    fn run_text(&self, runs: &[RunBound], w: &WindowSpec) -> Vec<String> {
        if !self.explains() || runs.is_empty() {
            return Vec::new();
        }
        let text = |run: &RunBound| {
            let operator = if run.is_inclusive { "<=" } else { "<" };
            let ExprKind::Window(call) = &run.function.kind else { return String::new() };
            let argument = if call.star { "*".to_string() } else { call.args.iter().map(|a| self.show(a)).collect() };
            format!("({}({argument}) OVER {} {operator} {})", call.name, window_name(w), self.show(&run.most))
        };
        let all: Vec<String> = runs.iter().map(text).collect();
        vec![format!("Run Condition: {}", super::shown_text::and_text(&all))]
    }
}

fn window_name(w: &WindowSpec) -> String {
    quote_identifier(w.name.as_deref().unwrap_or_default())
}

/// The functions that compute key + offset and key - offset.
fn range_functions(ty: Oid) -> (Oid, Oid) {
    match ty {
        oids::INT2 => (176, 180),
        oids::INT4 => (177, 181),
        oids::INT8 => (463, 464),
        oids::NUMERIC => (1724, 1725),
        oids::FLOAT8 => (218, 219),
        oids::DATE => (2071, 2072),
        oids::TIMESTAMP => (2032, 2033),
        oids::TIMESTAMPTZ => (1189, 1190),
        _ => (0, 0),
    }
}
