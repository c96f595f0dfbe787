//! Plans one query level: the clauses above FROM and WHERE.

use super::agg::GroupInput;
use super::expression::{CExpr, Expression};
use super::finished_cost::PathCost;
use super::node::ShownFunction;
use super::row_order::{OrderKey, RowOrder, has_same};
use super::scan::WantedRows;
use super::sort::distinct_order;
use super::*;
use kilndb_base::Error;
use kilndb_catalog::format_type::quote_identifier;
use kilndb_types::functions::{self, descriptor::Support};

impl Planner<'_> {
    /// Plans a query; its result columns are `(out_rel, 1…)`.
    pub(crate) fn plan_query(&self, q: &Query, out_rel: u32) -> Result<PlannedNode> {
        self.level_init_plans.borrow_mut().push(Vec::new());
        let planned = self.plan_level(q, out_rel);
        let used = self.level_init_plans.borrow_mut().pop().unwrap_or_default();
        let planned = planned?;
        if !used.is_empty() {
            self.node_init_plans.borrow_mut().entry(planned.node.id).or_default().extend(used);
        }
        if self.explains() && !q.ctes.is_empty() {
            let numbers = self.cte_numbers.borrow();
            let own = q.ctes.iter().filter_map(|c| numbers.get(&c.id).copied());
            self.node_ctes.borrow_mut().entry(planned.node.id).or_default().extend(own);
        }
        Ok(planned)
    }

    /// The subplan of a subquery in an expression. All copies of one that depends on nothing outside share it, and so
    /// its result.
    pub(crate) fn plan_sublink(&self, s: &SubLink, independent: bool) -> Result<(usize, usize)> {
        let known = self.init_plans.borrow().get(&s.id).copied();
        let made = match known {
            Some(made) => made,
            None => {
                let planned = self.plan_query(&s.query, s.test_rel.max(1))?;
                let width = planned.node.width;
                (self.add_subplan(planned.node), width)
            }
        };
        let once = independent && !matches!(s.kind, SubKind::Any | SubKind::All);
        if independent {
            self.init_plans.borrow_mut().insert(s.id, made);
        }
        if once
            && let Some(level) = self.level_init_plans.borrow_mut().last_mut()
            && !level.contains(&made.0)
        {
            level.push(made.0);
        }
        if let Some(names) = &self.names {
            let kind = if once { "InitPlan" } else { "SubPlan" };
            names.name_subplan(s.id, format!("{kind} {}", made.0 + 1));
        }
        Ok(made)
    }

    fn plan_level(&self, q: &Query, out_rel: u32) -> Result<PlannedNode> {
        kilndb_base::stack::check()?;
        self.note_unlockable(q);
        for c in &q.ctes {
            self.plan_cte(c)?;
        }
        match &q.body {
            QueryBody::Dml(d) => self.plan_dml(q, d, out_rel),
            QueryBody::SetOp { op, all, left, right, rel } => {
                let input = self.plan_set_op(*op, *all, left, right, *rel)?;
                let result = (q.targets.clone(), q.order_by.clone());
                self.finish(q, (input, RowOrder::default()), result, None, out_rel)
            }
            QueryBody::Select | QueryBody::Values(_) => self.plan_select(q, out_rel),
        }
    }

    fn plan_set_op(&self, op: SetOp, all: bool, left: &Query, right: &Query, rel: u32) -> Result<PlannedNode> {
        let l = self.plan_query(left, rel)?;
        let r = self.plan_query(right, rel)?;
        self.name_results(rel, left);
        let pairs = left.targets.iter().filter(|t| !t.junk).zip(right.targets.iter().filter(|t| !t.junk));
        // Rows of UNION ALL are not compared.
        let types = pairs.map(|(l, r)| match (op, all) {
            (SetOp::Union, true) => Ok(self.base_type(l.expr.ty)),
            _ => self.told_apart_as(&l.expr, of_pair(&l.expr, &r.expr)),
        });
        let types = types.collect::<Result<_>>()?;
        let width = l.layout.0.len();
        let (rows, cost) = (l.node.rows + r.node.rows, l.node.cost + r.node.cost);
        let label = match (op, all) {
            (SetOp::Union, true) => "Append",
            (SetOp::Union, false) => "HashAggregate Append",
            (SetOp::Intersect, _) => "HashSetOp Intersect",
            (SetOp::Except, _) => "HashSetOp Except",
        };
        let node = self.node(Op::SetOp { op, all, left: l.node, right: r.node, types }, width, rows, cost, label);
        Ok(PlannedNode { node, layout: l.layout })
    }

    /// Above a query EXPLAIN shows its results as what they are made of.
    pub(super) fn name_results(&self, rel: u32, q: &Query) {
        let Some(names) = &self.names else { return };
        for (t, att) in q.targets.iter().filter(|t| !t.junk).zip(1..) {
            let column = ColId { rel, att };
            match t.expr.kind {
                ExprKind::Column(of) => names.name_like(column, of),
                _ => names.name_as(column, self.show_computed(&t.expr)),
            }
        }
    }

    pub(super) fn plan_select(&self, q: &Query, out_rel: u32) -> Result<PlannedNode> {
        let runs = std::mem::take(&mut *self.run_conditions.borrow_mut());
        if let Some(p) = self.count_only(q, out_rel)? {
            return Ok(p);
        }
        if let Some(rewritten) = self.min_max_by_index(q)? {
            return self.plan_select(&rewritten, out_rel);
        }
        let aggregates = q.has_aggs || !q.group_by.is_empty() || q.having.is_some() || q.grouping_sets.is_some();
        let is_distinct = matches!(q.distinct, Distinct::All) && !aggregates && q.windows.is_empty() && !q.has_srf;
        let grouping = if aggregates {
            self.group_order(q, &q.group_by)?
        } else if is_distinct {
            let visible = q.targets.iter().filter(|t| !t.junk).map(|t| t.expr.clone());
            self.group_order(q, &visible.collect::<Vec<_>>())?
        } else {
            None
        };
        let order = if aggregates { Vec::new() } else { self.wanted_order(q) };
        let is_plain = !aggregates && q.windows.is_empty() && !q.has_srf && matches!(q.distinct, Distinct::No);
        // The first rows are not the first ones of an order that is made above.
        let is_ordered = q.order_by.is_empty() || !order.is_empty();
        let limit = if is_plain && is_ordered { limit_of(q) } else { f64::INFINITY };
        let wanted = match &grouping {
            Some(grouping) => grouping.wanted(),
            None => WantedRows { order: &order, limit, groups: None },
        };
        if is_plain && let Some(planned) = self.plan_result_joins(q, wanted, out_rel)? {
            return Ok(planned);
        }
        let from = self.plan_from(q, wanted)?;
        let mut rows_order = from.order;
        let mut input = from.planned;
        let mut targets = q.targets.clone();
        let mut order = q.order_by.clone();
        let mut distinct = q.distinct.clone();
        let mut windows = q.windows.clone();
        if aggregates {
            let grouped = GroupInput { planned: input, order: rows_order, wanted };
            (input, rows_order) =
                self.plan_aggregate(q, grouped, &mut targets, &mut order, &mut distinct, &mut windows)?;
        } else {
            let divided = input.node.id;
            input = self.by_partition(input);
            if input.node.id != divided {
                rows_order = RowOrder::default();
            }
        }
        if !windows.is_empty() {
            (input, rows_order) = self.plan_windows(
                (&windows, &q.windows, &runs),
                (input, rows_order),
                &mut targets,
                &mut order,
                &mut distinct,
            )?;
        }
        if targets.iter().any(|t| t.expr.has_srf()) {
            input = self.plan_project_set(input, &mut targets, &mut order, &mut distinct)?;
        }
        let level = Query { targets: Vec::new(), ..shallow(q, distinct) };
        let distinct_wanted = (is_distinct && grouping.is_some()).then_some(wanted);
        self.finish(&level, (input, rows_order), (targets, order), distinct_wanted, out_rel)
    }

    /// DISTINCT, ORDER BY, row locks, LIMIT and the projection. `distinct_wanted`: the order in which rows that are the
    /// same may follow one another.
    fn finish(
        &self,
        q: &Query,
        (input, rows_order): (PlannedNode, RowOrder),
        (targets, order): (Vec<Target>, Vec<SortKey>),
        distinct_wanted: Option<WantedRows<'_>>,
        out_rel: u32,
    ) -> Result<PlannedNode> {
        let mut input = input;
        let mut rows_order = rows_order;
        let visible: Vec<&Target> = targets.iter().filter(|t| !t.junk).collect();
        let out_layout = Layout((0..visible.len()).map(|i| ColId { rel: out_rel, att: i as i16 + 1 }).collect());
        let mut order = order;
        let mut projected = false;
        match &q.distinct {
            Distinct::No => {}
            Distinct::All => {
                let by_order = distinct_wanted.filter(|wanted| {
                    let own = PathCost { rows: input.node.rows, first: input.node.startup, cost: input.node.cost };
                    self.groups_sorted(*wanted, own, rows_order.presorted(wanted.order))
                });
                if let Some(wanted) = by_order {
                    input = self.sort(input, wanted.order, &rows_order)?;
                    let column = |k: &SortKey| {
                        let at = visible.iter().position(|t| kilndb_bind::same(&t.expr, &k.expr))?;
                        Some(SortKey { expr: k.expr.as_column(out_layout.0[at]), ..k.clone() })
                    };
                    rows_order = RowOrder::of_keys(&wanted.order.iter().map_while(column).collect::<Vec<_>>());
                }
                input = self.project(input, &visible, &out_layout)?;
                projected = true;
                // The sort keys are among the outputs.
                for k in &mut order {
                    if let Some(i) = visible.iter().position(|t| kilndb_bind::same(&t.expr, &k.expr)) {
                        k.expr = k.expr.as_column(out_layout.0[i]);
                    }
                }
                let keys: Vec<SortKey> = visible
                    .iter()
                    .zip(&out_layout.0)
                    .map(|(t, c)| SortKey {
                        expr: Expr::column(*c, t.expr.ty, -1).collated(t.expr.collation),
                        descending: false,
                        nulls_first: false,
                    })
                    .collect();
                let specs = self.sort_specs(&keys, &input.layout)?;
                let results: Vec<Expr> = visible.iter().map(|t| t.expr.clone()).collect();
                let rows = self.group_count(&results, input.node.rows);
                let sorted = by_order.is_some();
                let grouped = match sorted {
                    true => self.costs().sorted_groups(input.node.rows, rows, results.len(), 0),
                    false => self.costs().hash_groups(input.node.rows, rows, results.len(), 0),
                };
                let (cost, width) = (input.node.cost + grouped, input.layout.0.len());
                if !sorted {
                    rows_order = RowOrder::default();
                }
                let label = if sorted { "Unique" } else { "HashAggregate" };
                let node = self.node(Op::Distinct { input: input.node, keys: specs, sorted }, width, rows, cost, label);
                input = PlannedNode { node, layout: input.layout };
            }
            Distinct::On(exprs) => {
                // Sorted by the expressions, in the order that ORDER BY asks for.
                let keys = distinct_order(&order, exprs);
                input = self.sort(input, &keys, &rows_order)?;
                if !rows_order.gives(&keys) {
                    rows_order = RowOrder::of_keys(&keys);
                }
                let on: Vec<SortKey> =
                    exprs.iter().map(|e| SortKey { expr: e.clone(), descending: false, nulls_first: false }).collect();
                let specs = self.sort_specs(&on, &input.layout)?;
                let (rows, cost, width) = (input.node.rows, input.node.cost, input.layout.0.len());
                let node = self.node(
                    Op::Distinct { input: input.node, keys: specs, sorted: true },
                    width,
                    rows,
                    cost,
                    "Unique",
                );
                input = PlannedNode { node, layout: input.layout };
                order.clear();
            }
        }
        if !order.is_empty() {
            input = self.sort(input, &order, &rows_order)?;
            if !rows_order.gives(&order) {
                rows_order = RowOrder::of_keys(&order);
            }
        }
        if !q.locks.is_empty() {
            input = self.lock_rows(q, input)?;
            // A row may have changed since it was sorted.
            rows_order = RowOrder::default();
        }
        let (limit, offset) = (row_limit(q), rows_to_skip(q));
        if limit.is_some() || offset.is_some() {
            let empty = Layout::default();
            let one = |e: Option<&Expr>| e.map(|e| self.expression(e, &empty)).transpose();
            let (limit, offset) = (one(limit)?, one(offset)?);
            let ties = if q.with_ties { Some(self.sort_specs(&order, &input.layout)?) } else { None };
            let width = input.layout.0.len();
            let rows = match q.limit.as_ref().and_then(|e| e.as_const()) {
                Some(kilndb_types::Datum::Int8(n)) => (*n as f64).min(input.node.rows),
                _ => input.node.rows,
            };
            let cost = input.node.cost;
            let node = self.node(Op::Limit { input: input.node, limit, offset, ties }, width, rows, cost, "Limit");
            input = PlannedNode { node, layout: input.layout };
        }
        let planned = match projected {
            true => PlannedNode { node: input.node, layout: out_layout },
            false => self.project(input, &visible, &out_layout)?,
        };
        self.note_order(&planned, &rows_order, &visible);
        Ok(planned)
    }

    /// Notes in which order the rows of a query come, as its results say it, for the query around it.
    fn note_order(&self, planned: &PlannedNode, order: &RowOrder, visible: &[&Target]) {
        let result = |expressions: &[Expr]| {
            let is_it = |(t, c): &(&&Target, &ColId)| {
                let column = t.expr.as_column(**c);
                has_same(expressions, &column) || !t.expr.is_volatile() && has_same(expressions, &t.expr)
            };
            let (t, c) = visible.iter().zip(&planned.layout.0).find(is_it)?;
            Some(t.expr.as_column(*c))
        };
        let key = |k: &OrderKey| Some(OrderKey { expressions: vec![result(&k.expressions)?], ..k.clone() });
        let keys: Vec<OrderKey> = order.keys.iter().map_while(key).collect();
        let fixed = order.fixed.iter().filter_map(|e| result(std::slice::from_ref(e))).collect();
        if !keys.is_empty() {
            self.query_orders.borrow_mut().insert(planned.node.id, RowOrder { keys, fixed });
        }
    }

    fn project(&self, input: PlannedNode, visible: &[&Target], out: &Layout) -> Result<PlannedNode> {
        let exprs: Vec<Expression> =
            visible.iter().map(|t| self.expression(&t.expr, &input.layout)).collect::<Result<_>>()?;
        let identity = exprs.len() == input.layout.0.len()
            && exprs.iter().enumerate().all(|(i, e)| matches!(e.tree(), CExpr::Slot(s) if *s == i));
        if identity {
            return Ok(PlannedNode { node: input.node, layout: out.clone() });
        }
        let (rows, cost) = (input.node.rows, input.node.cost);
        let width = exprs.len();
        let is_self_contained = visible.iter().all(|t| t.expr.is_self_contained());
        let op = Op::Project { input: input.node, exprs, is_self_contained, program: Default::default() };
        let node = self.node(op, width, rows, cost, "Project");
        Ok(PlannedNode { node, layout: out.clone() })
    }

    /// The plan of `SELECT count(*) FROM t`, which counts rows in storage.
    fn count_only(&self, q: &Query, out_rel: u32) -> Result<Option<PlannedNode>> {
        let ([t], [r], [JoinTree::Rel(_)]) = (q.targets.as_slice(), q.rels.as_slice(), q.from.as_slice()) else {
            return Ok(None);
        };
        let ExprKind::Agg(a) = &t.expr.kind else { return Ok(None) };
        let RelKind::Table(table) = &r.kind else { return Ok(None) };
        let simple = a.oid == 2803
            && a.filter.is_none()
            && q.filter.is_none()
            && q.group_by.is_empty()
            && q.grouping_sets.is_none()
            && q.having.is_none()
            && q.order_by.is_empty()
            && q.limit.is_none()
            && q.offset.is_none()
            && matches!(q.distinct, Distinct::No)
            && r.security_quals.is_empty()
            && table.kind.has_rows();
        if !simple {
            return Ok(None);
        }
        self.read_table(table);
        let heap = self.relation(table.storage)?;
        let cost = f64::from(heap.pages());
        let node = self.node(
            Op::CountScan { heap, table: table.oid, is_system: table.is_catalog },
            1,
            1.0,
            cost,
            format!("Count Scan on {}", table.name),
        );
        Ok(Some(PlannedNode { node, layout: Layout(vec![ColId { rel: out_rel, att: 1 }]) }))
    }

    fn plan_project_set(
        &self,
        input: PlannedNode,
        targets: &mut [Target],
        order: &mut [SortKey],
        distinct: &mut Distinct,
    ) -> Result<PlannedNode> {
        let rel = self.new_rel();
        let mut items: Vec<ProjectItem> =
            (0..input.layout.0.len()).map(|i| ProjectItem::Expr(CExpr::Slot(i).into())).collect();
        let mut layout = input.layout.clone();
        let mut calls: Vec<(Expr, ColId)> = Vec::new();
        let mut lift = |e: &mut Expr| -> Result<()> {
            if matches!(&e.kind, ExprKind::Func(f) if f.returns_set) {
                let id = match calls.iter().find(|c| kilndb_bind::same(&c.0, e)) {
                    Some(c) => c.1,
                    None => {
                        let ExprKind::Func(f) = &e.kind else { return Ok(()) };
                        if f.args.iter().any(|a| a.has_srf()) {
                            return Err(Error::unsupported("nested set-returning functions in the select list"));
                        }
                        items.push(ProjectItem::Set(self.function_call(e, 1, false, &input.layout)?));
                        let id = ColId { rel, att: calls.len() as i16 + 1 };
                        layout.0.push(id);
                        calls.push((e.clone(), id));
                        id
                    }
                };
                *e = e.as_column(id);
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
        let width = layout.0.len();
        let each = calls.iter().map(|(call, _)| self.function_rows(call)).fold(1.0, f64::max);
        let rows = input.node.rows * each;
        let cost = input.node.cost + rows * 0.01;
        let node = self.node(Op::ProjectSet { input: input.node, items }, width, rows, cost, "ProjectSet");
        Ok(PlannedNode { node, layout })
    }

    /// Compiles a call in FROM or the select list.
    pub(crate) fn function_call(
        &self,
        e: &Expr,
        columns: usize,
        composite: bool,
        layout: &Layout,
    ) -> Result<FunctionCall> {
        if let ExprKind::Func(f) = &e.kind
            && f.returns_set
        {
            let args = f.args.iter().map(|a| self.expression(a, layout)).collect::<Result<Vec<_>>>()?;
            let descriptor = functions::descriptor(f.oid);
            let sees_domains = descriptor.is_some_and(|d| d.support == Support::SeesDomains);
            return Ok(FunctionCall {
                function: descriptor.map(|d| d.kind),
                name: f.name.clone(),
                arg_types: f.args.iter().map(|a| if sees_domains { a.ty } else { self.base_type(a.ty) }).collect(),
                args,
                strict: f.strict,
                returns_set: true,
                scalar: None,
                columns,
                composite,
                shape: f.expected.clone(),
                routine: self.routine_call(f, e, composite),
            });
        }
        Ok(FunctionCall {
            function: None,
            name: "".into(),
            args: Vec::new(),
            arg_types: Vec::new(),
            strict: false,
            returns_set: false,
            scalar: Some(self.expression(e, layout)?),
            columns,
            composite,
            shape: None,
            routine: None,
        })
    }

    pub(crate) fn plan_function(&self, rel: &Rel, calls: &[TableFunc], ordinality: bool) -> Result<PlannedNode> {
        let empty = Layout::default();
        let compiled = calls
            .iter()
            .map(|c| self.function_call(&c.expr, c.columns, c.composite, &empty))
            .collect::<Result<Vec<_>>>()?;
        let width = rel.columns.len();
        let rows = calls.iter().map(|c| self.function_rows(&c.expr)).fold(1.0, f64::max);
        let shown = self.explains().then(|| Box::new(self.shown_function(rel, calls)));
        let (label, info) = shown.as_ref().map_or_else(Default::default, |shown| self.function_text(shown, calls));
        let node = self.node_with(
            Op::Function { calls: compiled, ordinality, shown },
            width,
            Estimate { rows, cost: rows * 0.01 },
            label,
            info,
        );
        Ok(PlannedNode { node, layout: all_columns(rel) })
    }

    fn shown_function(&self, rel: &Rel, calls: &[TableFunc]) -> ShownFunction {
        let name = match calls {
            [TableFunc { expr: Expr { kind: ExprKind::Func(f), .. }, .. }] => {
                self.catalog.function_by_oid(f.oid).ok().flatten()
            }
            _ => None,
        };
        let name = name.map(|f| (self.catalog.schema_name_of(f.schema_oid).unwrap_or_default(), f.name.clone()));
        ShownFunction { name, alias: self.shown_relation(rel) }
    }

    /// The label of a function scan in EXPLAIN, and the lines below it.
    fn function_text(&self, shown: &ShownFunction, calls: &[TableFunc]) -> (String, Vec<String>) {
        let mut label = "Function Scan on".to_string();
        if let Some((schema, name)) = &shown.name {
            let schema = if self.verbose { format!("{}.", quote_identifier(schema)) } else { String::new() };
            label += &format!(" {schema}{}", quote_identifier(name));
        }
        if shown.name.as_ref().is_none_or(|(_, name)| *name != shown.alias) {
            label += &format!(" {}", quote_identifier(&shown.alias));
        }
        let texts: Vec<String> = calls.iter().filter(|_| self.verbose).map(|c| self.show(&c.expr)).collect();
        let calls = (!texts.is_empty()).then(|| format!("Function Call: {}", texts.join(", ")));
        (label, calls.into_iter().collect())
    }

    pub(crate) fn plan_values(&self, rel: &Rel, rows: &[Vec<Expr>]) -> Result<PlannedNode> {
        let empty = Layout::default();
        let compiled = rows
            .iter()
            .map(|r| r.iter().map(|e| self.expression(e, &empty)).collect::<Result<Vec<_>>>())
            .collect::<Result<Vec<_>>>()?;
        let count = rows.len() as f64;
        let label = format!("Values Scan on {}", quote_identifier(&self.shown_relation(rel)));
        let node = self.node(Op::Values { rows: compiled }, rel.columns.len(), count, count * 0.01, label);
        Ok(PlannedNode { node, layout: all_columns(rel) })
    }

    pub fn recheck(&self, q: &Query, layout: &Layout) -> Result<RowRecheck> {
        let (mut all, mut joins) = (Vec::new(), Vec::new());
        if let Some(f) = &q.filter {
            f.clone().conjuncts(&mut all);
        }
        q.from.iter().for_each(|t| join_conditions(t, &mut all, &mut joins));
        let mut outer = Vec::new();
        q.outer_ctes(&mut outer);
        // A WITH query of a statement around this one may do anything while it is read.
        let is_volatile = q.is_volatile() || !outer.is_empty();
        let mut recheck = RowRecheck { is_volatile, ..RowRecheck::default() };
        let first = self.subplans.borrow().len();
        recheck.security =
            Expr::and_all(self.rechecked_security(q)).map(|e| self.expression(&e, layout)).transpose()?;
        let level: Vec<u32> = q.rels.iter().map(|r| r.id).collect();
        let (semi, all): (Vec<Expr>, Vec<Expr>) =
            all.into_iter().partition(|e| super::semijoin::semi_of(e.clone(), &level).is_ok());
        for e in semi {
            let mut used = Vec::new();
            e.columns(&mut used);
            let slots = used.iter().filter_map(|c| layout.find(*c)).collect();
            recheck.semi.push((slots, self.expression(&e, layout)?));
        }
        for (conditions, rels) in joins {
            let slots =
                layout.0.iter().enumerate().filter(|(_, c)| rels.contains(&c.rel)).map(|(slot, _)| slot).collect();
            if let Some(e) = Expr::and_all(conditions) {
                recheck.outer.push((self.expression(&e, layout)?, slots));
            }
        }
        if let Some(e) = Expr::and_all(all) {
            recheck.filter = Some(self.expression(&e, layout)?);
        }
        self.hidden_subplans.borrow_mut().extend(first..self.subplans.borrow().len());
        Ok(recheck)
    }
}

/// The conditions of a join tree that rows are judged by again. `filter`: those that a row must meet; `outer`: those of
/// outer joins with the relations that are null where they are not met.
fn join_conditions(t: &JoinTree, filter: &mut Vec<Expr>, outer: &mut Vec<(Vec<Expr>, Vec<u32>)>) {
    let JoinTree::Join { kind, left, right, on } = t else { return };
    let (kept, nullable) = if *kind == JoinKind::Right { (right, left) } else { (left, right) };
    match kind {
        JoinKind::Inner => {
            join_conditions(left, filter, outer);
            join_conditions(right, filter, outer);
            on.iter().for_each(|e| e.clone().conjuncts(filter));
        }
        JoinKind::Left | JoinKind::Right => {
            join_conditions(kept, filter, outer);
            let mut conditions = Vec::new();
            join_conditions(nullable, &mut conditions, outer);
            on.iter().for_each(|e| e.clone().conjuncts(&mut conditions));
            let mut rels = Vec::new();
            super::join::rels_of(nullable, &mut rels);
            outer.push((conditions, rels));
        }
        JoinKind::Semi | JoinKind::Anti => join_conditions(left, filter, outer),
        // Rows of a FULL join cannot be locked on either side.
        JoinKind::Full => {}
    }
}

pub(crate) fn all_columns(rel: &Rel) -> Layout {
    Layout((0..rel.columns.len()).map(|i| ColId { rel: rel.id, att: i as i16 + 1 }).collect())
}

/// What [`Planner::finish`] looks at.
fn shallow(q: &Query, distinct: Distinct) -> Query {
    Query {
        distinct,
        limit: q.limit.clone(),
        offset: q.offset.clone(),
        with_ties: q.with_ties,
        locks: q.locks.clone(),
        rels: if q.locks.is_empty() { Vec::new() } else { q.rels.clone() },
        from: if q.locks.is_empty() { Vec::new() } else { q.from.clone() },
        filter: if q.locks.is_empty() { None } else { q.filter.clone() },
        ..Query::default()
    }
}

/// LIMIT, if there is one: LIMIT NULL is none.
fn row_limit(q: &Query) -> Option<&Expr> {
    q.limit.as_ref().filter(|e| q.with_ties || !e.as_const().is_some_and(kilndb_types::Datum::is_null))
}

/// OFFSET, if it leaves any row out.
fn rows_to_skip(q: &Query) -> Option<&Expr> {
    use kilndb_types::Datum;
    q.offset.as_ref().filter(|e| !matches!(e.as_const(), Some(Datum::Null | Datum::Int8(0))))
}

/// How many rows of a query are wanted: those of LIMIT and OFFSET; infinitely many without LIMIT.
pub(super) fn limit_of(q: &Query) -> f64 {
    /// What a LIMIT is taken for that is known only when the plan runs.
    const UNKNOWN: f64 = 100.0;
    let count = |e: &Option<Expr>| match e.as_ref().map(|e| e.as_const()) {
        Some(Some(kilndb_types::Datum::Int8(n))) => Some(*n as f64),
        Some(Some(kilndb_types::Datum::Null)) | None => None,
        Some(_) => Some(UNKNOWN),
    };
    count(&q.limit).map_or(f64::INFINITY, |limit| (limit + count(&q.offset).unwrap_or(0.0)).max(1.0))
}
