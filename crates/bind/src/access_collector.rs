//! Which relations, columns and functions a statement reads: the walk over its bound query.
//!
//! Invariants
//! 1. What is left out here is computed by no plan: results of subqueries, of WITH queries that become subqueries and of
//!    EXISTS that nobody reads, and WITH queries that nobody uses.
//! 2. A statement that changes or locks rows reads whole rows of the subqueries beside them, as PostgreSQL does, which
//!    keeps those for when a row turns out to have changed. Subqueries that are merged are not there any more then.

use super::access::RelationAccess;
use super::ir::*;
use kilndb_base::hash::{HashMap, HashSet};
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;

/// Who wants the results of a query.
#[derive(Clone, Copy)]
enum Wanted<'a> {
    All,
    /// These columns are read.
    Columns(&'a [i16]),
    /// It only matters whether there is a row.
    Existence,
}

/// What is found of a statement on the way through it.
#[derive(Default)]
pub(super) struct AccessCollector<'q> {
    pub accesses: Vec<&'q RelationAccess>,
    /// Where each relation stands in the order in which privileges are asked about.
    pub places: HashMap<u32, usize>,
    pub columns: HashMap<u32, Vec<i16>>,
    /// Those of them whose values somebody wants.
    computed: HashMap<u32, Vec<i16>>,
    /// How many results that nobody reads are around what is looked at: no function of theirs is called, no subquery
    /// run.
    unread_depth: usize,
    /// How many conditions are around what is looked at of which no row is asked: no function of theirs is called.
    idle_depth: usize,
    /// Relations of such subqueries.
    pub unread: HashSet<u32>,
    pub functions: Vec<Oid>,
    /// Those of them that are called over windows.
    pub windowed: HashSet<Oid>,
    known: HashSet<Oid>,
    /// WITH queries that become subqueries where they are named.
    inlined: HashMap<u32, &'q Query>,
    /// The rows that what is looked at has are changed or locked.
    is_marked: bool,
}

impl<'q> AccessCollector<'q> {
    pub fn of(query: &'q Query) -> Result<AccessCollector<'q>> {
        let mut found = AccessCollector::default();
        found.query(query, Wanted::All)?;
        Ok(found)
    }

    fn query(&mut self, query: &'q Query, wanted: Wanted<'_>) -> Result<()> {
        kilndb_base::stack::check()?;
        self.accesses.extend(&query.accesses);
        self.place_all(query);
        self.inlined.extend(query.ctes.iter().filter(|cte| cte.becomes_subquery()).map(|cte| (cte.id, &*cte.query)));
        let unread = unread_results(query, wanted);
        let places = query.targets.len() - query.told_places.min(query.targets.len());
        let has_no_rows = query.from.iter().any(|item| matches!(item, JoinTree::Rel(id) if is_empty(query, *id)));
        let mut done = Ok(());
        query.for_written_exprs(&mut |e| {
            let is_place = query.targets[places..].iter().any(|target| std::ptr::eq(&target.expr, e));
            if done.is_ok() && !is_place {
                let is_unread = unread.iter().any(|result| std::ptr::eq(*result, e));
                let is_idle = has_no_rows && query.filter.as_ref().is_some_and(|filter| std::ptr::eq(filter, e));
                self.unread_depth += usize::from(is_unread);
                self.idle_depth += usize::from(is_idle);
                done = self.expression(e);
                self.idle_depth -= usize::from(is_idle);
                self.unread_depth -= usize::from(is_unread);
            }
        });
        done?;
        self.policies(query)?;
        self.with_queries(query)?;
        self.arms(query, wanted)?;
        self.subqueries(query)
    }

    fn place_all(&mut self, query: &'q Query) {
        if let QueryBody::Dml(dml) = &query.body {
            self.place(dml.rel);
        }
        query.rels.iter().for_each(|rel| self.place(rel.id));
        if let QueryBody::Dml(dml) = &query.body
            && let Some(source) = &dml.source
        {
            source.rels.iter().for_each(|rel| self.place(rel.id));
        }
    }

    /// WITH queries that stay what they are. Those that nobody uses are not run.
    fn with_queries(&mut self, query: &'q Query) -> Result<()> {
        let is_marked = std::mem::take(&mut self.is_marked);
        let mut done = Ok(());
        for cte in query.ctes.iter().filter(|cte| !cte.becomes_subquery()) {
            let is_unused = usize::from(cte.is_unused());
            self.unread_depth += is_unused;
            done = done.and_then(|()| self.query(&cte.query, Wanted::All));
            self.unread_depth -= is_unused;
        }
        self.is_marked = is_marked;
        done
    }

    /// The arms of a set operation, and the query whose rows are written.
    fn arms(&mut self, query: &'q Query, wanted: Wanted<'_>) -> Result<()> {
        let is_marked = std::mem::take(&mut self.is_marked);
        let done = match &query.body {
            QueryBody::SetOp { op, all, left, right, .. } => {
                // What is not computed of a UNION ALL is not computed of its arms.
                let is_append = *op == SetOp::Union && *all && query.rels.is_empty() && query.ctes.is_empty();
                let wanted = if is_append { wanted } else { Wanted::All };
                self.query(left, wanted).and_then(|()| self.query(right, wanted))
            }
            QueryBody::Dml(dml) => dml.source.iter().try_for_each(|source| self.query(source, Wanted::All)),
            _ => Ok(()),
        };
        self.is_marked = is_marked;
        done
    }

    fn subqueries(&mut self, query: &'q Query) -> Result<()> {
        let is_lateral = query.rels.iter().any(|rel| rel.lateral);
        let outer_is_marked = self.is_marked;
        let is_marked = outer_is_marked || query.marks_rows();
        let mut done = Ok(());
        for rel in &query.rels {
            let inner = match &rel.kind {
                RelKind::Subquery(inner) => &**inner,
                RelKind::Cte { cte, recursive_self: false } => match self.inlined.get(cte).copied() {
                    Some(inner) => inner,
                    None => continue,
                },
                _ => continue,
            };
            let is_merged = inner.may_be_merged();
            let computed = self.computed.get(&rel.id).cloned().unwrap_or_default();
            let reads_all = is_lateral || is_marked && !is_merged;
            let wanted = if reads_all { Wanted::All } else { Wanted::Columns(&computed) };
            self.is_marked = is_marked && is_merged;
            done = done.and_then(|()| self.query(inner, wanted));
        }
        self.is_marked = outer_is_marked;
        done
    }

    /// Policies read their own table's columns for nobody. What their subqueries read, and the functions that they call,
    /// are asked about as if the statement had them.
    fn policies(&mut self, query: &'q Query) -> Result<()> {
        let own: Vec<u32> = query.own_rels();
        let before: Vec<(u32, Option<Vec<i16>>)> =
            own.iter().map(|rel| (*rel, self.columns.get(rel).cloned())).collect();
        let mut done = Ok(());
        query.for_security_exprs(&mut |_, e| {
            if done.is_ok() {
                done = self.expression(e);
            }
        });
        for (rel, columns) in before {
            match columns {
                Some(columns) => self.columns.insert(rel, columns),
                None => self.columns.remove(&rel),
            };
        }
        done
    }

    fn place(&mut self, rel: u32) {
        let next = self.places.len();
        self.places.entry(rel).or_insert(next);
        if self.unread_depth > 0 {
            self.unread.insert(rel);
        }
    }

    fn expression(&mut self, e: &'q Expr) -> Result<()> {
        kilndb_base::stack::check()?;
        if let ExprKind::Column(c) = &e.kind {
            let maps = [Some(&mut self.columns), Some(&mut self.computed).filter(|_| self.unread_depth == 0)];
            for columns in maps.into_iter().flatten().map(|map| map.entry(c.rel).or_default()) {
                if !columns.contains(&c.att) {
                    columns.push(c.att);
                }
            }
            return Ok(());
        }
        let function = match &e.kind {
            ExprKind::Agg(a) => a.oid,
            ExprKind::Window(w) => {
                self.windowed.insert(w.oid);
                w.oid
            }
            _ => e.called_function().map_or(0, |f| f.oid),
        };
        if function != 0 && self.unread_depth == 0 && self.idle_depth == 0 && self.known.insert(function) {
            self.functions.push(function);
        }
        if let ExprKind::SubLink(s) = &e.kind {
            let is_marked = std::mem::take(&mut self.is_marked);
            let exists = s.kind == SubKind::Exists && s.query.only_conditions();
            self.query(&s.query, if exists { Wanted::Existence } else { Wanted::All })?;
            self.is_marked = is_marked;
        }
        // The column whose element or field is assigned is not read by the user.
        let assigned = match &e.kind {
            ExprKind::SubscriptAssign { arg, .. } | ExprKind::FieldAssign { arg, .. } => Some(&**arg),
            _ => None,
        };
        let mut done = Ok(());
        e.for_children(&mut |child| {
            let is_assigned = assigned.is_some_and(|arg| std::ptr::eq(arg, child));
            if done.is_ok() && !(is_assigned && matches!(child.kind, ExprKind::Column(_))) {
                done = self.expression(child);
            }
        });
        done
    }
}

/// Whether policies let no row of a table through.
fn is_empty(query: &Query, rel: u32) -> bool {
    let is_false = |e: &Expr| matches!(e.as_const(), Some(Datum::Bool(false)));
    query.rels.iter().any(|r| r.id == rel && r.security_quals.iter().any(is_false))
}

/// What a query is said to give and does not compute, since nobody reads it.
fn unread_results<'q>(query: &'q Query, wanted: Wanted<'_>) -> Vec<&'q Expr> {
    let is_plain = matches!(query.body, QueryBody::Select) && matches!(query.distinct, Distinct::No);
    let used = match wanted {
        Wanted::Columns(used) if is_plain && !used.contains(&0) => used,
        Wanted::Existence => {
            let keys = query.order_by.iter().map(|key| &key.expr);
            return query.targets.iter().map(|target| &target.expr).chain(keys).collect();
        }
        _ => return Vec::new(),
    };
    let visible = query.targets.iter().filter(|target| !target.junk).zip(1_i16..);
    let unread =
        visible.filter(|(target, n)| !used.contains(n) && !target.expr.is_volatile() && !target.expr.has_srf());
    unread.map(|(target, _)| &target.expr).collect()
}

impl Query {
    /// Whether it changes or locks rows.
    fn marks_rows(&self) -> bool {
        match &self.body {
            QueryBody::Dml(dml) => dml.kind != DmlKind::Insert,
            _ => !self.locks.is_empty(),
        }
    }

    /// Whether PostgreSQL merges it with the query that it is a relation of.
    fn may_be_merged(&self) -> bool {
        !self.is_barrier
            && self.only_conditions()
            && matches!(self.distinct, Distinct::No)
            && self.order_by.is_empty()
            && !self.targets.iter().any(|target| target.expr.is_volatile())
    }
}
