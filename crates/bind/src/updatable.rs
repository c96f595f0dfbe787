//! Which views can be changed as if they were tables, and what such a view is made of (PostgreSQL's
//! `view_query_is_auto_updatable`; docs/decisions/0059).
//!
//! Invariants
//! 1. Only the view's own definition is looked at: whether the relation that it reads can be changed is a question of
//!    its own, since it may be a view again.
//! 2. The definition is bound for the view's owner, or whoever runs the statement if the view says so.

use super::Binder;
use super::ir::*;
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::trigger::{DELETE, INSERT, INSTEAD, UPDATE};
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_syntax::{Node, nodes, raw};
use std::sync::Arc;

/// Why rows cannot be changed through a view, or one of its columns: the DETAIL of errors.
pub(super) type Obstacle = &'static str;

const NOT_OF_ONE_RELATION: Obstacle =
    "Views that do not select from a single table or view are not automatically updatable.";

pub(super) const NO_COLUMN: Obstacle = "Views that have no updatable columns are not automatically updatable.";

/// A view as columns and a condition over the rows of the one relation that it reads.
pub(super) struct ViewOfRelation {
    pub base: Arc<Table>,
    /// What the relation is called in the view's definition.
    pub alias: String,
    /// The number that the relation stands under in what follows.
    pub rel: u32,
    /// The view's columns.
    pub columns: Vec<Expr>,
    pub condition: Option<Expr>,
    /// All columns of the relation that the definition reads.
    pub read: Vec<i16>,
}

impl ViewOfRelation {
    /// The column of the relation that a column of the view is, by position, or why it is none.
    pub fn base_column(&self, position: usize) -> std::result::Result<i16, Obstacle> {
        match self.columns.get(position).map(|e| &e.kind) {
            Some(ExprKind::Column(c)) if c.rel == self.rel && c.att > 0 => Ok(c.att),
            Some(ExprKind::Column(c)) if c.rel == self.rel && c.att < 0 => {
                Err("View columns that refer to system columns are not updatable.")
            }
            // A whole row is the row of all columns by now.
            Some(ExprKind::Row { .. }) if self.is_whole_row(position) => {
                Err("View columns that return whole-row references are not updatable.")
            }
            _ => Err("View columns that are not columns of their base relation are not updatable."),
        }
    }

    fn is_whole_row(&self, position: usize) -> bool {
        self.columns.get(position).is_some_and(|e| e.ty == self.base.type_oid)
    }

    pub fn has_updatable_column(&self) -> bool {
        (0..self.columns.len()).any(|position| self.base_column(position).is_ok())
    }
}

/// What of the clauses of a view's SELECT keeps its rows from being rows of one relation.
fn refused_clause(s: &nodes::SelectStmt) -> Option<Obstacle> {
    let is_set_operation = s.op != raw::SetOperation::SETOP_NONE;
    if !s.distinct_clause().is_empty() {
        return Some("Views containing DISTINCT are not automatically updatable.");
    }
    if !s.group_clause().is_empty() {
        return Some("Views containing GROUP BY are not automatically updatable.");
    }
    if !matches!(s.having_clause(), Node::None) {
        return Some("Views containing HAVING are not automatically updatable.");
    }
    if is_set_operation {
        return Some("Views containing UNION, INTERSECT, or EXCEPT are not automatically updatable.");
    }
    if s.with_clause().is_some() {
        return Some("Views containing WITH are not automatically updatable.");
    }
    if !matches!(s.limit_count(), Node::None) || !matches!(s.limit_offset(), Node::None) {
        return Some("Views containing LIMIT or OFFSET are not automatically updatable.");
    }
    None
}

/// The same of what stands in the list of a bound SELECT.
fn refused_target(q: &Query) -> Option<Obstacle> {
    if q.has_aggs {
        return Some("Views that return aggregate functions are not automatically updatable.");
    }
    let sorted = q.order_by.iter().map(|key| &key.expr);
    if q.targets.iter().map(|t| &t.expr).chain(sorted).any(Expr::has_window) {
        return Some("Views that return window functions are not automatically updatable.");
    }
    q.has_srf.then_some("Views that return set-returning functions are not automatically updatable.")
}

impl Binder<'_> {
    /// What a view is made of, if its rows are rows of one relation. The relations that its subqueries read are noted
    /// as the statement's.
    pub(super) fn view_of_relation(&self, view: &Table) -> Result<std::result::Result<ViewOfRelation, Obstacle>> {
        let sql = view.view_sql.as_deref().unwrap_or_default();
        self.with_view_query(view, sql, |select| self.query_of_relation(select))
    }

    fn query_of_relation(&self, select: &nodes::SelectStmt) -> Result<std::result::Result<ViewOfRelation, Obstacle>> {
        if let Some(obstacle) = refused_clause(select) {
            return Ok(Err(obstacle));
        }
        let (noted, from) = (self.noted_accesses(), select.from_clause());
        // Of a view in FROM nothing but its columns is wanted here.
        self.opaque_view.set(from.len() == 1 && matches!(from.first(), Some(Node::RangeVar(_))));
        let bound = self.bind_select(select, None);
        self.opaque_view.set(false);
        let q = bound?;
        if let Some(obstacle) = refused_target(&q) {
            return Ok(Err(obstacle));
        }
        let ([rel], [JoinTree::Rel(_)]) = (q.rels.as_slice(), q.from.as_slice()) else {
            return Ok(Err(NOT_OF_ONE_RELATION));
        };
        let RelKind::Table(base) = &rel.kind else { return Ok(Err(NOT_OF_ONE_RELATION)) };
        if !matches!(base.kind, TableKind::Table | TableKind::Partitioned | TableKind::View) {
            return Ok(Err(NOT_OF_ONE_RELATION));
        }
        let read = super::access::columns_read(&q)?.remove(&rel.id).unwrap_or_default();
        self.retain_accesses(noted, |access| access.rel != rel.id);
        let (base, alias, rel) = (base.clone(), rel.alias.clone(), rel.id);
        let columns = q.targets.into_iter().filter(|t| !t.junk).map(|t| t.expr).collect();
        Ok(Ok(ViewOfRelation { base, alias, rel, columns, condition: q.filter, read }))
    }
}

/// Has the view a trigger that takes the place of the event?
pub(super) fn has_instead(view: &Table, event: i16) -> bool {
    view.triggers.iter().any(|t| t.is(INSTEAD | event) && t.enabled != b'D')
}

/// Why WITH CHECK OPTION does not suit a view with this query; None: it does.
pub fn check_option_obstacle(sql: &str, catalog: &dyn CatalogView) -> Result<Option<&'static str>> {
    let script = kilndb_syntax::parse(sql)?;
    let statements = script.statements();
    let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else {
        return Err(Error::internal("a view without a SELECT"));
    };
    let binder = Binder::new(catalog, Arc::from(sql), Vec::new());
    Ok(match binder.trusting(|| binder.query_of_relation(select))? {
        Ok(of) if !of.has_updatable_column() => Some(NO_COLUMN),
        Ok(_) => None,
        Err(obstacle) => Some(obstacle),
    })
}

/// Which events a relation supports (pg_relation_is_updatable, pg_column_is_updatable), as bits of PostgreSQL's CmdType.
/// `columns`: only these count; None: all.
pub fn updatable_events(
    relation: Oid,
    with_triggers: bool,
    columns: Option<&[i16]>,
    catalog: &dyn CatalogView,
) -> Result<i32> {
    let binder = Binder::new(catalog, Arc::from(""), Vec::new());
    binder.trusting(|| binder.updatable_events(relation, with_triggers, columns, &mut Vec::new()))
}

/// 1 << CMD_UPDATE, CMD_INSERT, CMD_DELETE.
const UPDATE_BIT: i32 = 1 << 2;
const INSERT_BIT: i32 = 1 << 3;
const DELETE_BIT: i32 = 1 << 4;
/// What information_schema calls updatable.
pub const UPDATE_AND_DELETE: i32 = UPDATE_BIT | DELETE_BIT;
const ALL_BITS: i32 = UPDATE_BIT | INSERT_BIT | DELETE_BIT;

impl Binder<'_> {
    /// `outer`: the views that are being looked into.
    fn updatable_events(
        &self,
        relation: Oid,
        with_triggers: bool,
        columns: Option<&[i16]>,
        outer: &mut Vec<Oid>,
    ) -> Result<i32> {
        kilndb_base::stack::check()?;
        let Some(table) = self.catalog.table_by_oid(relation)?.filter(|table| !outer.contains(&table.oid)) else {
            return Ok(0);
        };
        match table.kind {
            TableKind::Table | TableKind::Partitioned => return Ok(ALL_BITS),
            TableKind::View => {}
            _ => return Ok(0),
        }
        let mut events = 0;
        if with_triggers {
            for (event, bit) in [(UPDATE, UPDATE_BIT), (INSERT, INSERT_BIT), (DELETE, DELETE_BIT)] {
                // A disabled trigger counts here, as in PostgreSQL.
                if table.triggers.iter().any(|t| t.is(INSTEAD | event)) {
                    events |= bit;
                }
            }
        }
        let Ok(view) = self.view_of_relation(&table)? else { return Ok(events) };
        let wanted = |position: usize| columns.is_none_or(|c| c.contains(&(position as i16 + 1)));
        let base_columns: Vec<i16> = (0..view.columns.len())
            .filter(|position| wanted(*position))
            .filter_map(|position| view.base_column(position).ok())
            .collect();
        let mut own = if base_columns.is_empty() { DELETE_BIT } else { ALL_BITS };
        if view.base.kind == TableKind::View {
            outer.push(table.oid);
            own &= self.updatable_events(view.base.oid, with_triggers, Some(&base_columns), outer)?;
            outer.pop();
        }
        Ok(events | own)
    }
}
