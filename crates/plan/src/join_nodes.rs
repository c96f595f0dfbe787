//! The nodes of joins: loops, hash joins, merge joins, and the cache of a loop's inner side.
//!
//! Must not know: which join is the best one.

use super::expression::{CExpr, Expression};
use super::join::FromPlan;
use super::row_order::RowOrder;
use super::*;
use kilndb_catalog::operator_class::EQUAL;
use kilndb_types::collation::same_rules;

/// How a hash join or a merge join finds the rows that belong together.
#[derive(Clone)]
pub(super) struct HashCondition {
    /// What is equal: an expression over the probe (outer) side, one over the build (inner) side.
    pub keys: Vec<(Expr, Expr)>,
    /// The other conditions of the join.
    pub residual: Vec<Expr>,
}

impl HashCondition {
    fn is_self_contained(&self) -> bool {
        let keys = self.keys.iter().flat_map(|(of_probe, of_build)| [of_probe, of_build]);
        keys.chain(&self.residual).all(Expr::is_self_contained)
    }
}

/// Is it the inner side of a loop that is looked up in an index, for which no session is needed?
fn is_looked_up(inner: &Op) -> bool {
    match inner {
        Op::IndexScan { scan, .. } => scan.heap.is_some() && inner.reads_one_table(),
        Op::Memoize { input, .. } => is_looked_up(&input.op),
        _ => false,
    }
}

/// What a merge join compares, and the order in which both sides have it.
#[derive(Clone)]
pub(super) struct MergeKey {
    pub sides: (Expr, Expr),
    pub descending: bool,
    pub nulls_first: bool,
}

impl MergeKey {
    pub fn ascending(sides: (Expr, Expr)) -> MergeKey {
        MergeKey { sides, descending: false, nulls_first: false }
    }
}

/// The inner side of a nested loop.
pub(super) struct LoopInner<'a> {
    plan: FromPlan,
    /// Columns of the outer side that it uses.
    uses: &'a [ColId],
    may_materialize: bool,
    table: Option<TableInstead>,
}

/// A table that a loop makes of its whole inner side when the outer side turns out to be large.
pub(super) struct TableInstead {
    pub build: FromPlan,
    pub condition: HashCondition,
    /// See [`LoopSwitch::after_steps`].
    pub after_steps: f64,
}

/// The keys of a join by hash, and what else is to hold for a pair.
struct CompiledKeys {
    probe: Vec<Expression>,
    build: Vec<Expression>,
    types: Vec<Oid>,
    on: Option<Expression>,
}

impl<'a> LoopInner<'a> {
    /// It runs once per outer row, with these columns of it.
    pub(crate) fn per_row(plan: FromPlan, uses: &'a [ColId]) -> LoopInner<'a> {
        LoopInner { plan, uses, may_materialize: false, table: None }
    }
    /// It may become a table.
    pub fn or_table(self, table: Option<TableInstead>) -> LoopInner<'a> {
        LoopInner { table, ..self }
    }
    /// It runs once, and its rows are kept.
    pub fn once(plan: FromPlan) -> LoopInner<'a> {
        LoopInner { plan, uses: &[], may_materialize: true, table: None }
    }
}

impl Planner<'_> {
    /// Slots of `outer` that expressions of the inner side take as parameters.
    fn loop_params(&self, inner_uses: &[ColId], outer: &Layout) -> Vec<(usize, usize)> {
        let mut out: Vec<(usize, usize)> = Vec::new();
        for c in inner_uses {
            if let Some(slot) = outer.find(*c) {
                let param = self.exec_param(*c);
                if !out.iter().any(|x| x.0 == param) {
                    out.push((param, slot));
                }
            }
        }
        out
    }

    /// The two sides of an equality that a merge join can compare.
    pub(super) fn merged_sides<'x>(&self, e: &'x Expr) -> Option<(&'x Expr, &'x Expr)> {
        let ExprKind::Func(f) = &e.kind else { return None };
        let [l, r] = f.args.as_slice() else { return None };
        let has_columns = |e: &Expr| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty() && !e.has_sublink() && !e.is_volatile()
        };
        let is_builtin = f.operator != 0 && f.operator < kilndb_catalog::builtin::FIRST_USER_OID;
        let is_equality = is_builtin && self.catalog.btree_strategy(f.operator).ok().flatten() == Some(EQUAL);
        let rules = e.collation.collation.rules;
        let is_sorted_so = |side: &Expr| same_rules(side.collation.collation.rules, rules) || !is_collatable(side.ty);
        let alike = || {
            (self.base_type(l.ty) == self.base_type(r.ty) || int_pair(l.ty, r.ty)) && is_sorted_so(l) && is_sorted_so(r)
        };
        (is_equality && alike() && has_columns(l) && has_columns(r)).then_some((l, r))
    }

    /// The two sides of an equality whose values can be hashed.
    pub(super) fn hashed_sides<'x>(&self, e: &'x Expr) -> Option<(&'x Expr, &'x Expr)> {
        let ExprKind::Func(f) = &e.kind else { return None };
        let [l, r] = f.args.as_slice() else { return None };
        let operator = (f.operator != 0).then(|| self.catalog.operator_by_oid(f.operator).ok().flatten()).flatten()?;
        let are_alike = self.base_type(l.ty) == self.base_type(r.ty) || int_pair(l.ty, r.ty);
        (operator.can_hash && operator.name == "=" && are_alike).then_some((l, r))
    }

    /// Splits into `left = right` keys and the rest; None without any key.
    pub(super) fn hash_keys(&self, joins: &[Expr], left: &Layout, right: &Layout) -> Option<HashCondition> {
        let mut keys = Vec::new();
        let mut residual = Vec::new();
        let on_side = |e: &Expr, own: &Layout, other: &Layout| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty()
                && used.iter().all(|c| own.find(*c).is_some())
                && !used.iter().any(|c| other.find(*c).is_some())
                && !e.has_sublink()
        };
        for j in joins {
            if let Some((l, r)) = self.hashed_sides(j) {
                if on_side(l, left, right) && on_side(r, right, left) {
                    keys.push((l.clone(), r.clone()));
                    continue;
                }
                if on_side(r, left, right) && on_side(l, right, left) {
                    keys.push((r.clone(), l.clone()));
                    continue;
                }
            }
            residual.push(j.clone());
        }
        if keys.is_empty() { None } else { Some(HashCondition { keys, residual }) }
    }

    /// Two expressions that a join compares, each over its side's rows, and the type that both have then.
    fn compile_equal(
        &self,
        (l, left): (&Expr, &Layout),
        (r, right): (&Expr, &Layout),
    ) -> Result<(Oid, Expression, Expression)> {
        let int = int_pair(l.ty, r.ty) && l.ty != r.ty;
        let ty = if int { kilndb_types::oids::INT8 } else { self.base_type(l.ty) };
        let ty = of_pair(l, r).order_type(ty)?;
        let (of_left, of_right) = (self.compile(l, left)?, self.compile(r, right)?);
        Ok((ty, widen(of_left, int, l.ty).into(), widen(of_right, int, r.ty).into()))
    }

    fn compile_keys(&self, condition: &HashCondition, probe: &Layout, build: &Layout) -> Result<CompiledKeys> {
        let mut compiled = CompiledKeys { probe: Vec::new(), build: Vec::new(), types: Vec::new(), on: None };
        for (l, r) in &condition.keys {
            let (ty, of_probe, of_build) = self.compile_equal((l, probe), (r, build))?;
            compiled.types.push(ty);
            compiled.probe.push(of_probe);
            compiled.build.push(of_build);
        }
        let on = Expr::and_all(condition.residual.clone());
        compiled.on = on.map(|e| self.expression(&e, &probe.join(build))).transpose()?;
        Ok(compiled)
    }

    fn loop_switch(&self, table: TableInstead, outer: &Layout) -> Result<LoopSwitch> {
        let TableInstead { build, condition, after_steps } = table;
        let build = self.by_partition(build.planned);
        let CompiledKeys { probe, build: build_keys, types, on } =
            self.compile_keys(&condition, outer, &build.layout)?;
        let after_steps = after_steps.ceil() as u64;
        let is_self_contained = condition.is_self_contained() && build.node.op.reads_one_table();
        let build = build.node;
        Ok(LoopSwitch { after_steps, build, outer_keys: probe, build_keys, types, on, is_self_contained })
    }

    /// `order`: the probe side's, if the result is to have it.
    pub(super) fn hash_join(
        &self,
        probe: PlannedNode,
        (build, order): (PlannedNode, RowOrder),
        kind: JoinKind,
        condition: HashCondition,
        estimate: Estimate,
    ) -> Result<FromPlan> {
        let compiled = self.compile_keys(&condition, &probe.layout, &build.layout)?;
        let CompiledKeys { probe: probe_keys, build: build_keys, types, on } = compiled;
        let is_self_contained = condition.is_self_contained();
        let HashCondition { keys, residual } = condition;
        let layout = probe.layout.join(&build.layout);
        let info = self.join_info("Hash Cond", &keys, &residual);
        let label = join_label("Hash", kind);
        let width = layout.0.len();
        let division = self.joined_division(&probe.node, &build.node, kind, &keys);
        let (probe, build) =
            if division.is_some() { (probe, build) } else { (self.by_partition(probe), self.by_partition(build)) };
        // A join that is run partition by partition has no order.
        let order = if division.is_some() { RowOrder::default() } else { order };
        let keeps_order = !order.keys.is_empty();
        let (probe, build) = (probe.node, build.node);
        let op = Op::HashJoin {
            probe,
            build,
            kind,
            probe_keys,
            build_keys,
            types,
            on,
            keeps_order,
            is_self_contained,
            program: Default::default(),
        };
        let node = self.node_with(op, width, estimate, label, info);
        if let Some(division) = division {
            self.note_division(&node, division);
        }
        Ok(FromPlan { order, ..FromPlan::of(PlannedNode { node, layout }, estimate) })
    }

    pub(super) fn nest_loop(
        &self,
        outer: PlannedNode,
        inner: LoopInner<'_>,
        kind: JoinKind,
        on: &[Expr],
        estimate: Estimate,
    ) -> Result<FromPlan> {
        let LoopInner { plan: inner, uses, may_materialize, table } = inner;
        let (outer, inner) = (self.by_partition(outer), self.by_partition(inner.planned));
        let layout = outer.layout.join(&inner.layout);
        let params = self.loop_params(uses, &outer.layout);
        let condition = match Expr::and_all(on.to_vec()) {
            Some(e) => Some(self.expression(&e, &layout)?),
            None => None,
        };
        let mut info = Vec::new();
        if self.explains() && !on.is_empty() {
            let text: Vec<String> = on.iter().map(|e| self.show(e)).collect();
            info.push(format!("Join Filter: {}", super::shown_text::and_text(&text)));
        }
        let label = join_label("Nested Loop", kind);
        let width = layout.0.len();
        let keeps = self.catalog.planner_settings().material || kind == JoinKind::Full;
        let materialize = may_materialize && params.is_empty() && keeps;
        let switch = table.map(|table| self.loop_switch(table, &outer.layout)).transpose()?.map(Box::new);
        let (outer, inner) = (outer.node, inner.node);
        // Without parameters the inner side is the same for all outer rows, and is kept.
        let is_self_contained = is_looked_up(&inner.op)
            && !params.is_empty()
            && switch.as_ref().is_none_or(|switch| switch.is_self_contained)
            && on.iter().all(Expr::is_self_contained);
        let program = Box::default();
        let op =
            Op::NestLoop { outer, inner, kind, on: condition, params, materialize, switch, is_self_contained, program };
        let node = self.node_with(op, width, estimate, label, info);
        Ok(FromPlan::of(PlannedNode { node, layout }, estimate))
    }

    /// A nested loop, which keeps the order of its outer side.
    pub(super) fn loop_over(
        &self,
        outer: FromPlan,
        inner: LoopInner<'_>,
        kind: JoinKind,
        on: &[Expr],
        estimate: Estimate,
    ) -> Result<FromPlan> {
        let order = if kind == JoinKind::Full { RowOrder::default() } else { outer.order };
        // A divided join is run partition by partition here.
        let is_divided = self.divisions.borrow().contains_key(&outer.planned.node.id);
        let joined = self.nest_loop(outer.planned, inner, kind, on, estimate)?;
        Ok(FromPlan { order: if is_divided { RowOrder::default() } else { order }, ..joined })
    }

    pub(super) fn merge_join(
        &self,
        outer: PlannedNode,
        inner: PlannedNode,
        kind: JoinKind,
        (keys, residual): (&[MergeKey], Vec<Expr>),
        estimate: Estimate,
    ) -> Result<FromPlan> {
        let layout = outer.layout.join(&inner.layout);
        let (mut kinds, mut outer_keys, mut inner_keys) = (Vec::new(), Vec::new(), Vec::new());
        for MergeKey { sides: (l, r), descending, .. } in keys {
            let (ty, of_outer, of_inner) = self.compile_equal((l, &outer.layout), (r, &inner.layout))?;
            kinds.push(MergeKeyKind { ty, descending: *descending });
            outer_keys.push(of_outer);
            inner_keys.push(of_inner);
        }
        let on = Expr::and_all(residual.clone()).map(|e| self.expression(&e, &layout)).transpose()?;
        let sides: Vec<(Expr, Expr)> = keys.iter().map(|k| k.sides.clone()).collect();
        let info = self.join_info("Merge Cond", &sides, &residual);
        let label = join_label("Merge", kind);
        let op = Op::MergeJoin { outer: outer.node, inner: inner.node, kind, outer_keys, inner_keys, kinds, on };
        let node = self.node_with(op, layout.0.len(), estimate, label, info);
        Ok(FromPlan::of(PlannedNode { node, layout }, estimate))
    }

    /// The lines of EXPLAIN for a join by keys.
    fn join_info(&self, name: &str, keys: &[(Expr, Expr)], residual: &[Expr]) -> Vec<String> {
        if !self.explains() {
            return Vec::new();
        }
        let equal: Vec<String> = keys.iter().map(|(l, r)| format!("({} = {})", self.show(l), self.show(r))).collect();
        let mut info = vec![format!("{name}: {}", super::shown_text::and_text(&equal))];
        if !residual.is_empty() {
            let text: Vec<String> = residual.iter().map(|e| self.show(e)).collect();
            info.push(format!("Join Filter: {}", super::shown_text::and_text(&text)));
        }
        info
    }

    /// Rows of the inner side of a nested loop, kept by the values of the outer side's columns that its conditions use.
    pub(super) fn memoize(
        &self,
        inner: FromPlan,
        conditions: &[Expr],
        outer: &Layout,
        kind: JoinKind,
    ) -> Result<FromPlan> {
        let mut columns: Vec<Expr> = Vec::new();
        conditions.iter().for_each(|e| outer_columns(e, outer, &mut columns));
        let param = |e: &Expr| if let ExprKind::Column(c) = e.kind { Some(self.exec_param(c)) } else { None };
        let params = columns.iter().filter_map(param).collect();
        let mut info = Vec::new();
        if self.explains() {
            let shown: Vec<String> = columns.iter().map(|e| super::shown_text::bare(self.show(e))).collect();
            let mode = if conditions.iter().all(|e| self.merged_sides(e).is_some()) { "logical" } else { "binary" };
            info = vec![format!("Cache Key: {}", shown.join(", ")), format!("Cache Mode: {mode}")];
        }
        let single = matches!(kind, JoinKind::Semi | JoinKind::Anti);
        let FromPlan { planned, rows, cost, .. } = inner;
        let width = planned.layout.0.len();
        let op = Op::Memoize { input: planned.node, params, single };
        let node = self.node_with(op, width, Estimate { rows, cost }, "Memoize", info);
        Ok(FromPlan::of(PlannedNode { node, layout: planned.layout }, Estimate { rows, cost }))
    }
}

/// The columns of the outer side in an expression, each once.
fn outer_columns(e: &Expr, outer: &Layout, out: &mut Vec<Expr>) {
    if let ExprKind::Column(c) = e.kind
        && outer.find(c).is_some()
        && !super::row_order::has_same(out, e)
    {
        out.push(e.clone());
    }
    e.for_children(&mut |child| outer_columns(child, outer, out));
}

/// What EXPLAIN calls a join.
fn join_label(method: &str, kind: JoinKind) -> String {
    match kind {
        JoinKind::Inner if method == "Nested Loop" => method.to_string(),
        JoinKind::Inner => format!("{method} Join"),
        kind => format!("{method} {kind:?} Join"),
    }
}

pub(super) fn int_pair(a: Oid, b: Oid) -> bool {
    use kilndb_types::oids::{INT2, INT4, INT8};
    matches!(a, INT2 | INT4 | INT8) && matches!(b, INT2 | INT4 | INT8)
}

pub(super) fn widen(e: CExpr, int: bool, from: Oid) -> CExpr {
    use kilndb_types::oids::INT8;
    if !int || from == INT8 {
        return e;
    }
    match kilndb_types::cast::lookup_cast(from, INT8) {
        Some(f) => CExpr::Cast { f, typmod: -1, explicit: false, vector: None, arg: Box::new(e) },
        None => e,
    }
}
