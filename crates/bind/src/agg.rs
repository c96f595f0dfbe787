//! Aggregates, and the check that everything else is grouped.

use super::Binder;
use super::ir::*;
use super::object_address::ObjectAddress;
use super::resolve::Candidate;
use super::same::same;
use super::scope::{ClauseKind, Scope};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::ids::PG_CONSTRAINT;
use kilndb_syntax::{Node, nodes};
use kilndb_types::oids;

/// The arguments of an aggregate call as the parameters want them.
pub(crate) struct AggregateArguments {
    pub args: Vec<Expr>,
    /// How many of `args` stand in the parentheses of a call with WITHIN GROUP; the others are that clause's.
    pub direct_args: usize,
    /// The keys of WITHIN GROUP.
    pub order: Vec<SortKey>,
    /// The type of the result.
    pub ty: Oid,
}

impl Binder<'_> {
    pub(crate) fn bind_aggregate(
        &self,
        f: &nodes::FuncCall,
        c: &Candidate,
        arguments: AggregateArguments,
        scope: &Scope<'_>,
    ) -> Result<Expr> {
        let AggregateArguments { args, direct_args, mut order, ty } = arguments;
        let loc = f.location;
        if !f.agg_star && args.is_empty() {
            return self.err(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("{}(*) must be used to call a parameterless aggregate function", c.info.name),
                loc,
            );
        }
        if !f.agg_within_group {
            for s in f.agg_order() {
                order.push(self.bind_sort_expr(s, scope)?);
            }
        } else {
            for (k, a) in order.iter_mut().zip(args.iter().skip(direct_args)) {
                k.expr = a.clone();
            }
        }
        if f.agg_distinct {
            for k in &order {
                if !args.iter().any(|a| same(a, &k.expr)) {
                    return self.err(
                        sqlstate::INVALID_COLUMN_REFERENCE,
                        "in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list",
                        k.expr.loc,
                    );
                }
            }
            for a in &args {
                self.require_ordering(a)?;
            }
        }
        let filter = match f.agg_filter() {
            Node::None => None,
            node => {
                let e = self.bind_expr(node, scope)?;
                let e = self.coerce_bool(e, "FILTER")?;
                if let Some(nested) = self.aggregate_in(&e, scope) {
                    return self.err(sqlstate::GROUPING_ERROR, "aggregate functions are not allowed in FILTER", nested);
                }
                Some(Box::new(e))
            }
        };
        let call = AggCall {
            oid: c.info.oid,
            name: c.info.name.as_str().into(),
            direct_args: if f.agg_within_group { direct_args } else { 0 },
            args,
            distinct: f.agg_distinct,
            order,
            filter,
            star: f.agg_star,
        };
        self.at_its_level(Expr::new(ExprKind::Agg(Box::new(call)), ty).at(loc), scope)
    }

    /// Where an aggregate of the level `scope` stands in `e`.
    pub(crate) fn aggregate_in(&self, e: &Expr, scope: &Scope<'_>) -> Option<i32> {
        if e.has_agg() {
            return Some(e.loc);
        }
        let mut used = Vec::new();
        e.columns(&mut used);
        let rel = scope.outer_agg_rel.get();
        (rel != 0 && used.iter().any(|c| c.rel == rel)).then_some(e.loc)
    }

    /// An aggregate, or GROUPING(…), belongs to the innermost query whose columns it uses. In a subquery of that query
    /// it is then a column from outside.
    fn at_its_level(&self, call: Expr, scope: &Scope<'_>) -> Result<Expr> {
        let mut used = Vec::new();
        call.columns(&mut used);
        let level = scope.level_of(&used);
        self.check_aggregate_place(&call, scope, level)?;
        level.saw_agg.set(true);
        if std::ptr::eq(level, scope) {
            return Ok(call);
        }
        let mut read = Vec::new();
        call.outer_ctes(&mut read);
        if let Some(cte) = scope.cte_below(level, &read) {
            let e = Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "outer-level aggregate cannot use a nested CTE")
                .with_detail(format!("CTE \"{}\" is below the aggregate's semantic level.", cte.name));
            return Err(self.at(e, call.loc));
        }
        if level.outer_agg_rel.get() == 0 {
            level.outer_agg_rel.set(self.new_rel());
        }
        let mut aggs = level.outer_aggs.borrow_mut();
        let at = aggs.iter().position(|a| same(a, &call)).unwrap_or(aggs.len());
        let column = ColId { rel: level.outer_agg_rel.get(), att: at as i16 + 1 };
        let here = call.as_column(column).at(call.loc);
        if at == aggs.len() {
            aggs.push(call);
        }
        Ok(here)
    }

    /// May `level` have aggregates where `call`, or the subquery that it stands in, is?
    fn check_aggregate_place(&self, call: &Expr, scope: &Scope<'_>, level: &Scope<'_>) -> Result<()> {
        let is_grouping = matches!(call.kind, ExprKind::Grouping(_));
        let refuse = |message: String| self.err(sqlstate::GROUPING_ERROR, message, call.loc);
        let functions = if is_grouping { "grouping operations" } else { "aggregate functions" };
        let what = match level.clause {
            // A function in FROM is bound a level further inside.
            _ if scope.clause == ClauseKind::From => Some("functions in FROM"),
            ClauseKind::FromClause => Some("FROM clause of their own query level"),
            clause => clause.without_aggregates(),
        };
        if let Some(what) = what {
            return refuse(format!("{functions} are not allowed in {what}"));
        }
        let mut nested = None;
        let mut has_window = false;
        call.for_children(&mut |c| {
            nested = nested.or_else(|| self.aggregate_in(c, level));
            has_window |= c.has_window();
        });
        match (nested, is_grouping) {
            (Some(loc), false) => self.err(sqlstate::GROUPING_ERROR, "aggregate function calls cannot be nested", loc),
            _ if has_window && !is_grouping => {
                refuse("aggregate function calls cannot contain window function calls".into())
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn bind_grouping(&self, g: &nodes::GroupingFunc, scope: &Scope<'_>) -> Result<Expr> {
        let args = self.bind_exprs(g.args(), scope)?;
        if args.len() > 31 {
            return self.err(sqlstate::TOO_MANY_ARGUMENTS, "GROUPING must have fewer than 32 arguments", g.location);
        }
        self.at_its_level(Expr::new(ExprKind::Grouping(args), oids::INT4).at(g.location), scope)
    }

    /// Every column outside of aggregates must be grouped, or depend on a grouped primary key (it is then
    /// added to the grouping: that changes no group).
    pub(crate) fn check_grouping(&self, q: &mut Query, scope: &Scope<'_>) -> Result<()> {
        let mut added: Vec<Expr> = Vec::new();
        let own: Vec<u32> = q.rels.iter().map(|r| r.id).collect();
        {
            let check = |e: &Expr, added: &mut Vec<Expr>| self.check_grouped(e, q, scope, &own, added);
            for t in &q.targets {
                check(&t.expr, &mut added)?;
            }
            if let Some(h) = &q.having {
                check(h, &mut added)?;
            }
            for e in &q.outer_aggs {
                check(e, &mut added)?;
            }
            for k in &q.order_by {
                check(&k.expr, &mut added)?;
            }
            if let Distinct::On(l) = &q.distinct {
                for e in l {
                    check(e, &mut added)?;
                }
            }
            for w in &q.windows {
                for e in w.partition.iter().chain(w.order.iter().map(|k| &k.expr)) {
                    check(e, &mut added)?;
                }
            }
        }
        let first = q.group_by.len();
        let extra: Vec<usize> = (first..first + added.len()).collect();
        q.group_by.extend(added);
        if let Some(sets) = &mut q.grouping_sets {
            for s in sets {
                s.extend(&extra);
            }
        }
        Ok(())
    }

    fn check_grouped(&self, e: &Expr, q: &Query, scope: &Scope<'_>, own: &[u32], added: &mut Vec<Expr>) -> Result<()> {
        kilndb_base::stack::check()?;
        if q.group_by.iter().any(|g| same(g, e)) {
            return Ok(());
        }
        match &e.kind {
            ExprKind::Agg(_) => return Ok(()),
            ExprKind::Grouping(args) => {
                if args.iter().any(|a| !q.group_by.iter().any(|g| same(g, a))) {
                    return self.err(
                        sqlstate::GROUPING_ERROR,
                        "arguments to GROUPING must be grouping expressions of the associated query level",
                        e.loc,
                    );
                }
                return Ok(());
            }
            ExprKind::Column(id) if own.contains(&id.rel) => {
                if self.depends_on_key(*id, q) {
                    if !added.iter().any(|a| same(a, e)) {
                        added.push(e.clone());
                    }
                    return Ok(());
                }
                return Err(self.ungrouped(*id, q, scope, e.loc, false));
            }
            ExprKind::SubLink(s) => {
                let mut used = Vec::new();
                s.query.outer_columns(&mut used);
                for id in used.into_iter().filter(|c| own.contains(&c.rel)) {
                    let grouped = q.group_by.iter().any(|g| matches!(&g.kind, ExprKind::Column(c) if *c == id));
                    if grouped {
                        continue;
                    }
                    if self.depends_on_key(id, q) {
                        let ty = q
                            .rels
                            .iter()
                            .find(|r| r.id == id.rel)
                            .and_then(|r| r.columns.get(id.att.max(1) as usize - 1));
                        if let Some(c) = ty {
                            let column = c.expr(id);
                            if !added.iter().any(|a| same(a, &column)) {
                                added.push(column);
                            }
                            continue;
                        }
                    }
                    return Err(self.ungrouped(id, q, scope, e.loc, true));
                }
            }
            _ => {}
        }
        let mut result = Ok(());
        e.for_children(&mut |c| {
            if result.is_ok() {
                result = self.check_grouped(c, q, scope, own, added);
            }
        });
        result
    }

    fn ungrouped(&self, id: ColId, q: &Query, scope: &Scope<'_>, loc: i32, in_subquery: bool) -> Error {
        let item = scope.items.iter().find(|i| i.rel == id.rel);
        let rel = q.rels.iter().find(|r| r.id == id.rel);
        let alias = item.and_then(|i| i.alias.clone()).or_else(|| rel.map(|r| r.alias.clone())).unwrap_or_default();
        let named =
            item.and_then(|i| i.columns.iter().find(|c| matches!(&c.expr.kind, ExprKind::Column(x) if *x == id)));
        let column = match named {
            Some(c) => c.name.clone(),
            None if id.att == ATT_CTID => "ctid".into(),
            None => rel
                .and_then(|r| usize::try_from(id.att - 1).ok().and_then(|i| r.columns.get(i)))
                .map_or_else(String::new, |c| c.name.clone()),
        };
        let message = if in_subquery {
            format!("subquery uses ungrouped column \"{alias}.{column}\" from outer query")
        } else {
            format!(
                "column \"{alias}.{column}\" must appear in the GROUP BY clause or be used in an aggregate function"
            )
        };
        self.at(Error::new(sqlstate::GROUPING_ERROR, message), loc)
    }

    fn depends_on_key(&self, id: ColId, q: &Query) -> bool {
        let Some(Rel { kind: RelKind::Table(t), .. }) = q.rels.iter().find(|r| r.id == id.rel) else { return false };
        if q.group_by.is_empty() || q.grouping_sets.is_some() {
            return false;
        }
        let is_grouped = |att: i16| {
            let key = ColId { rel: id.rel, att };
            q.group_by.iter().any(|g| matches!(&g.kind, ExprKind::Column(c) if *c == key))
        };
        let grouped_key = t.indexes.iter().find(|i| i.primary && i.keys.iter().all(|k| is_grouped(k.attnum)));
        if let Some(key) = grouped_key {
            // Without the primary key the text would not bind.
            self.note_reference(ObjectAddress::object(PG_CONSTRAINT, key.constraint));
        }
        grouped_key.is_some()
    }
}
