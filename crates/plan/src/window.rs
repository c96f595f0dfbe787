//! Window functions.

use super::row_order::RowOrder;
use super::*;
use kilndb_types::{functions, oids};

impl Planner<'_> {
    pub(crate) fn plan_windows(
        &self,
        windows: &[WindowSpec],
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
                    *e = Expr::column(ColId { rel, att: i as i16 + 1 }, e.ty, e.typmod);
                }
                Ok(())
            };
            for t in targets.iter_mut() {
                t.expr.rewrite(&mut lift)?;
            }
            for k in order.iter_mut() {
                k.expr.rewrite(&mut lift)?;
            }
            if let Distinct::On(l) = distinct {
                for e in l {
                    e.rewrite(&mut lift)?;
                }
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
                list.push(WindowFn {
                    oid: call.oid,
                    function: functions::descriptor(call.oid).map(|d| d.kind),
                    name: call.name.clone(),
                    args: call.args.iter().map(|a| self.compile(a, &input.layout)).collect::<Result<_>>()?,
                    arg_types: call.args.iter().map(|a| self.base_type(a.ty)).collect(),
                    result: c.ty,
                    is_aggregate: call.is_aggregate,
                    filter: match &call.filter {
                        Some(f) => Some(self.compile(f, &input.layout)?),
                        None => None,
                    },
                    star: call.star,
                });
            }
            let bound = |b: &FrameBound| -> Result<CFrameBound> {
                Ok(match b {
                    FrameBound::UnboundedPreceding => CFrameBound::UnboundedPreceding,
                    FrameBound::UnboundedFollowing => CFrameBound::UnboundedFollowing,
                    FrameBound::CurrentRow => CFrameBound::CurrentRow,
                    FrameBound::Preceding(e) => CFrameBound::Preceding(self.compile(e, &input.layout)?),
                    FrameBound::Following(e) => CFrameBound::Following(self.compile(e, &input.layout)?),
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
            };
            let mut layout = input.layout.clone();
            layout.0.extend((0..calls.len()).map(|i| ColId { rel, att: i as i16 + 1 }));
            let (rows, cost) = (input.node.rows, input.node.cost + input.node.rows * 0.02);
            let width = layout.0.len();
            let node = self.node(Op::Window { input: input.node, plan }, width, rows, cost, "WindowAgg");
            input = PlannedNode { node, layout };
        }
        Ok((input, rows_order))
    }
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
