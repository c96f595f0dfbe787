//! Grouping and aggregates.

use super::computed_below::GroupedExpressions;
use super::finished_cost::PathCost;
use super::row_order::RowOrder;
use super::scan::{WantedGroups, WantedRows};
use super::*;
use kilndb_bind::is_constant;

/// The rows that are grouped.
pub(crate) struct GroupInput<'a> {
    pub planned: PlannedNode,
    /// As the rows are sorted.
    pub order: RowOrder,
    /// The order in which groups follow one another, if they can.
    pub wanted: WantedRows<'a>,
}

/// The order in which rows can be grouped one group after the other.
pub(crate) struct GroupOrder {
    pub keys: Vec<SortKey>,
    pub groups: WantedGroups,
    /// How many groups are wanted.
    pub limit: f64,
}

impl GroupOrder {
    pub fn wanted(&self) -> WantedRows<'_> {
        WantedRows { order: &self.keys, limit: self.limit, groups: Some(self.groups) }
    }
}

impl Planner<'_> {
    /// The types of an aggregate's arguments: those that it compares as they are compared.
    pub(crate) fn argument_types(&self, name: &str, args: &[Expr]) -> Result<Vec<Oid>> {
        let compares = matches!(name, "min" | "max");
        args.iter().map(|x| if compares { self.compared_type(x) } else { Ok(self.base_type(x.ty)) }).collect()
    }

    /// The order that groups of a query's rows, or its distinct rows, come one after the other in; None: they are
    /// hashed whatever the order.
    pub(crate) fn group_order(&self, q: &Query, expressions: &[Expr]) -> Result<Option<GroupOrder>> {
        let varies = |e: &Expr| e.is_volatile() || e.has_sublink() || e.has_srf();
        if expressions.is_empty() || q.grouping_sets.is_some() || expressions.iter().any(varies) {
            return Ok(None);
        }
        for e in expressions {
            if self.catalog.ordering_operators(self.base_type(e.ty))?.is_none() {
                return Ok(None);
            }
        }
        let is_group = |e: &Expr| expressions.iter().any(|g| kilndb_bind::same(g, e));
        let in_order = !q.order_by.is_empty() && q.order_by.iter().all(|k| is_group(&k.expr));
        let settings = self.catalog.planner_settings();
        let may_reorder =
            if q.group_by.is_empty() { settings.distinct_reordering } else { settings.group_by_reordering };
        let mut keys = match in_order {
            true => q.order_by.clone(),
            false if may_reorder => self.index_order(q, expressions),
            false => Vec::new(),
        };
        for group in expressions {
            if !keys.iter().any(|k| kilndb_bind::same(&k.expr, group)) {
                keys.push(SortKey { expr: group.clone(), descending: false, nulls_first: false });
            }
        }
        let mut aggregates = Vec::new();
        let all = q.targets.iter().map(|t| &t.expr).chain(&q.having).chain(q.order_by.iter().map(|k| &k.expr));
        all.for_each(|e| collect_aggregates(e, &mut aggregates));
        let sorts = aggregates.iter().any(|a| a.distinct || !a.order.is_empty());
        let ends_early = q.windows.is_empty() && !q.has_srf && (in_order || q.order_by.is_empty());
        let ends_early = ends_early && (q.group_by.is_empty() || matches!(q.distinct, Distinct::No));
        let groups = WantedGroups {
            aggregates: aggregates.len(),
            may_hash: !sorts,
            in_order,
            passing: if q.having.is_some() { 1.0 / 3.0 } else { 1.0 },
        };
        let limit = if ends_early { super::query::limit_of(q) } else { f64::INFINITY };
        Ok(Some(GroupOrder { keys, groups, limit }))
    }

    /// The order of the index that begins with most of these expressions.
    fn index_order(&self, q: &Query, expressions: &[Expr]) -> Vec<SortKey> {
        let mut best: Vec<SortKey> = Vec::new();
        for rel in &q.rels {
            let RelKind::Table(table) = &rel.kind else { continue };
            for index in table.indexes.iter().filter(|i| i.method.is_ordered) {
                let of_key = |k: &kilndb_catalog::IndexKey| {
                    let is_it = |e: &&Expr| k.attnum != 0 && access::is_key(e, rel.id, k, None);
                    let expr = expressions.iter().find(is_it)?.clone();
                    Some(SortKey { expr, descending: k.descending, nulls_first: k.nulls_first })
                };
                let keys: Vec<SortKey> = index.keys.iter().map_while(of_key).collect();
                if keys.len() > best.len() {
                    best = keys;
                }
            }
        }
        best
    }

    /// Replaces aggregates and grouped expressions above by columns of the aggregation's result.
    pub(crate) fn plan_aggregate(
        &self,
        q: &Query,
        input: GroupInput<'_>,
        targets: &mut [Target],
        order: &mut [SortKey],
        distinct: &mut Distinct,
        windows: &mut [WindowSpec],
    ) -> Result<(PlannedNode, RowOrder)> {
        let GroupInput { planned: mut input, order: rows_order, wanted } = input;
        let rel = self.new_rel();
        let groups: Vec<Expr> = q.group_by.clone();
        let mut aggs: Vec<Expr> = Vec::new();
        let mut groupings: Vec<Vec<usize>> = Vec::new();
        let mut having = q.having.clone();
        let group_count = groups.len();
        let mut columns = AggColumns {
            rel,
            groups: &groups,
            aggs: &mut aggs,
            groupings: &mut groupings,
            outer_rel: q.outer_agg_rel,
            outer: Vec::new(),
        };
        let mut outer = q.outer_aggs.clone();
        outer.iter_mut().for_each(|e| columns.replace(e));
        columns.outer = outer;
        for (i, t) in targets.iter_mut().enumerate() {
            match q.constant_keys.iter().find(|k| k.0 == i) {
                Some((_, group)) => columns.replace_by_group(&mut t.expr, *group),
                None => columns.replace(&mut t.expr),
            }
        }
        for k in order.iter_mut() {
            columns.replace_key(&mut k.expr);
        }
        if let Some(h) = &mut having {
            columns.replace(h);
        }
        if let Distinct::On(l) = distinct {
            l.iter_mut().for_each(|e| columns.replace_key(e));
        }
        for w in windows.iter_mut() {
            w.partition.iter_mut().for_each(|e| columns.replace_key(e));
            w.order.iter_mut().for_each(|k| columns.replace_key(&mut k.expr));
        }
        let own = PathCost { rows: input.node.rows, first: input.node.startup, cost: input.node.cost };
        let presorted = rows_order.presorted(wanted.order);
        // Aggregates that sort their input do so for one group after the other.
        let sorts = aggs.iter().any(|a| matches!(&a.kind, ExprKind::Agg(c) if c.distinct || !c.order.is_empty()));
        let may_sort = !groups.is_empty() && q.grouping_sets.is_none() && !groups.iter().any(Expr::is_volatile);
        let sorted = may_sort && (sorts || wanted.groups.is_some() && self.groups_sorted(wanted, own, presorted));
        let is_divided =
            !sorted && !groups.is_empty() && q.grouping_sets.is_none() && self.divides_groups(&input.node, &groups);
        let mut rows_order = rows_order;
        if !is_divided {
            let whole = input.node.id;
            input = self.by_partition(input);
            if input.node.id != whole {
                rows_order = RowOrder::default();
            }
        }
        let mut made_order = RowOrder::default();
        let rows = if groups.is_empty() { 1.0 } else { self.group_count(&groups, input.node.rows) };
        // Within a group the rows are sorted by this, if they are sorted.
        let mut presorted_by = Vec::new();
        // What is computed may be columns of what was computed below. EXPLAIN shows it as it was written.
        let mut computed = GroupedExpressions { groups: groups.clone(), aggs: aggs.clone(), keys: Vec::new() };
        if sorted {
            let ascending = |g: &Expr| SortKey { expr: g.clone(), descending: false, nulls_first: false };
            let mut keys: Vec<SortKey> = match wanted.groups {
                Some(_) => wanted.order.to_vec(),
                None => groups.iter().map(ascending).collect(),
            };
            presorted_by = self.common_order(&aggs);
            let are_new = |k: &&SortKey| !groups.iter().any(|g| kilndb_bind::same(g, &k.expr));
            keys.extend(presorted_by.iter().filter(are_new).cloned());
            computed.keys.clone_from(&keys);
            // Who wants few groups does not want the arguments of all, one of which may fail.
            if rows_order.presorted(&keys) == 0
                && wanted.limit == f64::INFINITY
                && let Some((below, above)) = self.compute_below(&input, &computed)?
            {
                (input, rows_order, computed) = (below, RowOrder::default(), above);
            }
            input = self.sort(input, &computed.keys, &rows_order)?;
            let column = |k: &SortKey| {
                let at = groups.iter().position(|g| kilndb_bind::same(g, &k.expr))?;
                let id = ColId { rel, att: at as i16 + 1 };
                Some(SortKey { expr: k.expr.as_column(id), ..k.clone() })
            };
            made_order = RowOrder::of_keys(&keys.iter().map_while(column).collect::<Vec<_>>());
        }
        let mut specs = Vec::new();
        for (a, written) in computed.aggs.iter().zip(&aggs) {
            let (ExprKind::Agg(call), ExprKind::Agg(written)) = (&a.kind, &written.kind) else { continue };
            let is_presorted = !written.distinct && begins_with(&presorted_by, &written.order);
            let order = if is_presorted { &[] } else { &call.order[..] };
            let args = call.args.iter().map(|x| self.expression(x, &input.layout)).collect::<Result<Vec<_>>>()?;
            let filter = match &call.filter {
                Some(f) => Some(self.expression(f, &input.layout)?),
                None => None,
            };
            let make = kilndb_types::functions::aggregate(call.oid);
            let arg_types = self.argument_types(&call.name, &call.args)?;
            // Arguments that are told apart or sorted are kept until all are there.
            let is_plain = !call.distinct && order.is_empty() && call.direct_args == 0;
            let partial = make.filter(|_| is_plain).and_then(|make| make(&arg_types).partial());
            specs.push(AggSpec {
                oid: call.oid,
                make,
                partial,
                name: call.name.clone(),
                arg_types,
                told_apart_types: call.args.iter().map(|x| self.told_apart_type(x)).collect::<Result<_>>()?,
                args,
                result: a.ty,
                filter,
                distinct: call.distinct,
                order: self.sort_specs(order, &input.layout)?,
                direct_args: call.direct_args,
                within_group: call.direct_args < call.args.len()
                    && !call.order.is_empty()
                    && self.is_ordered_set(call.oid),
                star: call.star,
            });
        }
        let group_exprs =
            computed.groups.iter().map(|g| self.expression(g, &input.layout)).collect::<Result<Vec<_>>>()?;
        let types = groups.iter().map(|g| self.told_apart_type(g)).collect::<Result<_>>()?;
        let width = group_count + specs.len() + groupings.len();
        let costs = self.costs();
        let grouped = match sorted {
            true => costs.sorted_groups(input.node.rows, rows, group_count, specs.len()),
            false => costs.hash_groups(input.node.rows, rows, group_count, specs.len()),
        };
        let cost = input.node.cost + grouped;
        // Of what HAVING says nothing is known.
        let rows = if q.having.is_some() { (rows / 3.0).max(1.0) } else { rows };
        let label = match (groups.is_empty(), sorted) {
            (true, _) => "Aggregate",
            (false, true) => "GroupAggregate",
            (false, false) => "HashAggregate",
        };
        let mut info = Vec::new();
        if let Some(names) = self.names.as_ref().filter(|_| !groups.is_empty()) {
            let is_computed_below = matches!(input.node.op, Op::Sort { .. });
            let show = |g| match is_divided {
                true => names.qualified_text(g, self.value_names()),
                false if is_computed_below => self.show_computed(g),
                false => names.text(g, self.value_names()),
            };
            let text: Vec<String> = groups.iter().map(show).collect();
            info.push(format!("Group Key: {}", text.join(", ")));
        }
        if let Some(h) = q.having.as_ref().filter(|_| self.explains()) {
            info.push(format!("Filter: {}", self.show(h)));
        }
        self.name_grouped(rel, &groups, &aggs);
        // The columns are: groups, aggregates, GROUPING values.
        let mut layout = Layout::default();
        for i in 0..group_count {
            layout.0.push(ColId { rel, att: i as i16 + 1 });
        }
        for i in 0..specs.len() {
            layout.0.push(ColId { rel, att: 2000 + i as i16 });
        }
        for i in 0..groupings.len() {
            layout.0.push(ColId { rel, att: 4000 + i as i16 });
        }
        let sets = q.grouping_sets.clone();
        let in_parts = !sorted
            && input.node.op.reads_whole_table()
            && groups.iter().all(Expr::is_self_contained)
            && specs.iter().all(|spec| spec.partial.is_some())
            && aggs.iter().all(has_plain_arguments);
        let below = input.node.clone();
        let op = Op::Aggregate {
            input: input.node,
            groups: group_exprs,
            types,
            sets,
            aggs: specs,
            groupings,
            sorted,
            in_parts,
            program: Default::default(),
        };
        let node = self.node_with(op, width, Estimate { rows, cost }, label, info);
        if is_divided {
            self.note_divided_like(&node, &below);
        }
        let mut planned = PlannedNode { node, layout };
        if let Some(h) = having {
            // EXPLAIN shows the condition with the aggregate.
            planned = self.filter_as(planned, &h, rows, "")?;
        }
        Ok((self.by_partition(planned), made_order))
    }

    /// The order that the rows of a group are wanted in by the first aggregate that wants one: others may want the same. None: that
    /// cannot be told before.
    fn common_order(&self, aggs: &[Expr]) -> Vec<SortKey> {
        let of = |a: &Expr| match &a.kind {
            ExprKind::Agg(call) if !call.distinct && call.direct_args == 0 && !call.order.is_empty() => {
                // Of rows that FILTER leaves out nothing is computed.
                let is_plain = |k: &SortKey| matches!(access::strip(&k.expr).kind, ExprKind::Column(_));
                (call.filter.is_none() || call.order.iter().all(is_plain)).then(|| call.order.clone())
            }
            _ => None,
        };
        let is_known = |order: &Vec<SortKey>| !order.iter().any(|k| k.expr.is_volatile() || k.expr.has_sublink());
        let may = self.catalog.planner_settings().presorted_aggregate;
        aggs.iter().find_map(of).filter(|order| may && is_known(order)).unwrap_or_default()
    }

    /// The nodes above show the columns of grouped rows as what they stand for.
    fn name_grouped(&self, rel: u32, groups: &[Expr], aggs: &[Expr]) {
        let Some(names) = &self.names else { return };
        let columns = groups.iter().zip(1..).chain(aggs.iter().zip(2000..));
        for (e, att) in columns {
            let column = ColId { rel, att };
            match e.kind {
                ExprKind::Column(of) => names.name_like(column, of),
                _ => names.name_as(column, self.show_computed(e)),
            }
        }
    }

    fn is_ordered_set(&self, oid: Oid) -> bool {
        // mode, percentile_*, rank family: the aggregates of kinds 'o' and 'h'.
        matches!(oid, 3972..=3996 | 4010..=4060)
    }
}

/// The aggregates of an expression that `out` does not have yet.
pub(super) fn distinct_aggregates(e: &Expr, out: &mut Vec<Expr>) {
    if matches!(e.kind, ExprKind::Agg(_)) {
        if !out.iter().any(|known| kilndb_bind::same(known, e)) {
            out.push(e.clone());
        }
        return;
    }
    e.for_children(&mut |c| distinct_aggregates(c, out));
}

/// Are rows that are sorted by `order` sorted by `wanted`, too?
fn begins_with(order: &[SortKey], wanted: &[SortKey]) -> bool {
    let is_same = |(a, b): (&SortKey, &SortKey)| {
        (a.descending, a.nulls_first) == (b.descending, b.nulls_first) && kilndb_bind::same(&a.expr, &b.expr)
    };
    wanted.len() <= order.len() && order.iter().zip(wanted).all(is_same)
}

fn collect_aggregates<'e>(e: &'e Expr, out: &mut Vec<&'e AggCall>) {
    if let ExprKind::Agg(call) = &e.kind {
        out.push(call);
        return;
    }
    e.for_children(&mut |c| collect_aggregates(c, out));
}

/// Can any thread evaluate the aggregate's arguments?
fn has_plain_arguments(aggregate: &Expr) -> bool {
    let ExprKind::Agg(call) = &aggregate.kind else { return false };
    call.args.iter().chain(call.filter.as_deref()).all(Expr::is_self_contained)
}

struct AggColumns<'x> {
    rel: u32,
    groups: &'x [Expr],
    aggs: &'x mut Vec<Expr>,
    groupings: &'x mut Vec<Vec<usize>>,
    /// The relation whose columns stand for this level's aggregates in subqueries, and the aggregates.
    outer_rel: u32,
    outer: Vec<Expr>,
}

impl AggColumns<'_> {
    fn replace_by_group(&self, e: &mut Expr, group: usize) {
        let loc = e.loc;
        *e = e.as_column(ColId { rel: self.rel, att: group as i16 + 1 }).at(loc);
    }
    /// A constant that is sorted by may as well be the grouped one.
    fn replace_key(&mut self, e: &mut Expr) {
        match self.groups.iter().position(|g| is_constant(e) && kilndb_bind::same(g, e)) {
            Some(i) => self.replace_by_group(e, i),
            None => self.replace(e),
        }
    }
    /// The aggregate of this level that a column in a subquery stands for.
    fn outer_aggregate(&self, id: ColId) -> Option<Expr> {
        if id.rel != self.outer_rel || self.outer_rel == 0 {
            return None;
        }
        usize::try_from(id.att - 1).ok().and_then(|i| self.outer.get(i)).cloned()
    }
    /// Top-down, so that a grouped expression is found before its parts are replaced.
    fn replace(&mut self, e: &mut Expr) {
        // A constant is itself, in every grouping set, unless it is the target that is grouped.
        if !is_constant(e)
            && let Some(i) = self.groups.iter().position(|g| kilndb_bind::same(g, e))
        {
            return self.replace_by_group(e, i);
        }
        match &mut e.kind {
            ExprKind::Agg(_) => {
                let i = match self.aggs.iter().position(|a| kilndb_bind::same(a, e)) {
                    Some(i) => i,
                    None => {
                        self.aggs.push(e.clone());
                        self.aggs.len() - 1
                    }
                };
                *e = e.as_column(ColId { rel: self.rel, att: 2000 + i as i16 });
                return;
            }
            ExprKind::Grouping(args) => {
                let list: Vec<usize> =
                    args.iter().filter_map(|a| self.groups.iter().position(|g| kilndb_bind::same(g, a))).collect();
                self.groupings.push(list);
                *e = Expr::column(ColId { rel: self.rel, att: 4000 + self.groupings.len() as i16 - 1 }, e.ty, -1);
                return;
            }
            ExprKind::SubLink(s) => {
                // Correlated columns of the grouped level are replaced by columns of its result.
                let _ = s.query.rewrite(&mut |x| {
                    let ExprKind::Column(id) = &x.kind else { return Ok(()) };
                    if let Some(made) = self.outer_aggregate(*id) {
                        *x = made;
                    } else if let Some(i) = self.groups.iter().position(|g| kilndb_bind::same(g, x)) {
                        self.replace_by_group(x, i);
                    }
                    Ok(())
                });
            }
            _ => {}
        }
        let _ = e.for_children_mut(&mut |c| {
            self.replace(c);
            Ok(())
        });
    }
}
