//! MERGE: a join of source and target, and what is done with each of its rows.
//!
//! Invariants
//! 1. Which rows of either side stay without a partner is decided by the kind of the join: only those that some WHEN
//!    clause asks for.
//! 2. RETURNING is bound once, with `Dml::excluded_rel` for the target's columns; what they are depends on the action.

use super::Binder;
use super::from::{own_rows, table_columns};
use super::insert::refuse_value;
use super::ir::*;
use super::scope::{ClauseKind, Scope, TargetName};
use super::view_target::{SettledTarget, ViewChange};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::trigger::{DELETE, INSERT, UPDATE};
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::{Node, nodes, raw};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

impl MergeCommand {
    /// The event of triggers.
    pub fn event(&self) -> i16 {
        match self {
            MergeCommand::Nothing => 0,
            MergeCommand::Delete => DELETE,
            MergeCommand::Update(_) => UPDATE,
            MergeCommand::Insert(_) => INSERT,
        }
    }
}

fn event_of(clause: &nodes::MergeWhenClause) -> i16 {
    match clause.command_type {
        raw::CmdType::CMD_INSERT => INSERT,
        raw::CmdType::CMD_UPDATE => UPDATE,
        raw::CmdType::CMD_DELETE => DELETE,
        _ => 0,
    }
}

fn when_of(clause: &nodes::MergeWhenClause) -> MergeWhen {
    match clause.match_kind {
        raw::MergeMatchKind::MERGE_WHEN_MATCHED => MergeWhen::Matched,
        raw::MergeMatchKind::MERGE_WHEN_NOT_MATCHED_BY_SOURCE => MergeWhen::NotMatchedBySource,
        _ => MergeWhen::NotMatchedByTarget,
    }
}

/// A clause behind an unconditional one of its kind would never be reached.
fn refuse_unreachable(clauses: &[&nodes::MergeWhenClause]) -> Result<()> {
    for (n, clause) in clauses.iter().enumerate() {
        if clauses[..n].iter().any(|c| c.match_kind == clause.match_kind && matches!(c.condition(), Node::None)) {
            return Err(Error::new(
                sqlstate::SYNTAX_ERROR,
                "unreachable WHEN clause specified after unconditional WHEN clause",
            ));
        }
    }
    Ok(())
}

impl Binder<'_> {
    pub(crate) fn bind_merge_action(&self, m: &nodes::MergeSupportFunc, scope: &Scope<'_>) -> Result<Expr> {
        let mut level = Some(scope);
        while let Some(s) = level {
            if s.clause == ClauseKind::MergeReturning {
                return Ok(Expr::new(ExprKind::MergeAction, oids::TEXT).at(m.location));
            }
            level = s.parent;
        }
        self.err(
            sqlstate::SYNTAX_ERROR,
            "MERGE_ACTION() can only be used in the RETURNING list of a MERGE command",
            m.location,
        )
    }

    fn merge_target(&self, s: &nodes::MergeStmt) -> Result<Arc<Table>> {
        let Some(v) = s.relation() else { return Err(Error::internal("MERGE without a target")) };
        let table = self.find_table(v)?;
        self.note_written(&table);
        match table.kind {
            TableKind::Table | TableKind::Partitioned | TableKind::View => {}
            TableKind::Sequence | TableKind::Materialized => {
                let message = format!("cannot execute MERGE on relation \"{}\"", table.name);
                return Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
                    .with_detail(format!("This operation is not supported for {}.", table.kind.plural())));
            }
            _ => {
                return Err(Error::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("cannot open relation \"{}\"", table.name),
                ));
            }
        }
        self.refuse_catalog(&table)?;
        Ok(table)
    }

    pub(crate) fn bind_merge(&self, s: &nodes::MergeStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            if w.recursive {
                return Err(Error::new(sqlstate::SYNTAX_ERROR, "WITH RECURSIVE is not supported for MERGE statement"));
            }
            self.bind_with(w, &mut scope, &mut q)?;
        }
        let clauses: Vec<&nodes::MergeWhenClause> = s.merge_when_clauses().iter().collect();
        refuse_unreachable(&clauses)?;
        let table = self.merge_target(s)?;
        let target = TargetName::new(s.relation(), &table);
        let mut dml = self.new_dml(DmlKind::Merge, table.clone()).called(target);
        let (source, items) = self.bind_from_item(s.source_relation(), &scope, &mut q)?;
        if items.iter().any(|i| i.rel_visible && i.alias.as_deref() == Some(target.name)) {
            return Err(Error::new(
                sqlstate::DUPLICATE_ALIAS,
                format!("name \"{}\" specified more than once", target.name),
            )
            .with_detail("The name is used both as MERGE target table and data source."));
        }
        scope.items = items;
        scope.items.push(target.item(dml.rel, &table));
        scope.clause = ClauseKind::On;
        let Some(mut on) = self.bind_condition(s.join_condition(), &scope, "JOIN/ON")? else {
            return Err(Error::internal("MERGE without a condition"));
        };
        self.bind_returning(s.returning_clause(), target, dml.excluded_rel, &scope, &mut dml)?;
        for clause in &clauses {
            let action = self.bind_merge_clause(clause, &scope, &dml)?;
            dml.merge.push(action);
        }
        let inserted = self.merge_inserts(&clauses, &table)?;
        let mut settled = SettledTarget { alias: dml.alias.clone(), security_quals: Vec::new() };
        if table.kind == TableKind::View {
            let overriding = clauses.iter().map(|clause| clause.override_).collect();
            dml.merge_on = Some(on);
            settled =
                self.settle_view(ViewChange { query: &mut q, dml: &mut dml, inserted, overriding, inference: None })?;
            on = dml.merge_on.take().unwrap_or_else(|| Expr::bool(true));
        } else {
            self.note_change(&dml, &inserted);
        }
        self.row_rules(&dml.table.clone(), dml.new_rel, &mut dml)?;
        self.bind_triggers(&mut dml)?;
        let has = |when: MergeWhen| dml.merge.iter().any(|a| a.when == when);
        let by_source = has(MergeWhen::NotMatchedBySource);
        let join_kind = match (by_source, has(MergeWhen::NotMatchedByTarget)) {
            (false, false) => None,
            (true, true) => Some(JoinKind::Full),
            (true, false) => Some(JoinKind::Right),
            (false, true) => Some(JoinKind::Left),
        };
        // Rows without a source must be told from those whose source is all NULLs.
        let (source, marker) = if by_source { self.mark_source(&mut q, source)? } else { (source, None) };
        let moved = marker.as_ref().and_then(|m| m.moved.as_ref());
        let mut place = |e: &mut Expr| moved.map_or(Ok(()), |moved| moved.place(e));
        on.rewrite(&mut place)?;
        dml.rewrite(&mut place)?;
        let mut target_rel = self.merge_target_rel(&settled, &dml)?;
        target_rel.security_quals.extend(s.relation().map_or_else(Vec::new, |named| own_rows(named, &dml.table)));
        q.rels.push(target_rel);
        join_target(&mut q, dml.rel, source, join_kind, on.clone());
        if let Some(moved) = moved {
            moved.finish(&mut q);
        }
        let present = marker
            .as_ref()
            .map(|m| Expr::new(ExprKind::IsNull { arg: Box::new(m.expr.clone()), negated: true }, oids::BOOL));
        // A newer version of a row may not be one of the view's any more.
        dml.merge_on = Expr::and_all(present.into_iter().chain([on]).collect());
        self.ask_again(&mut dml, &settled.security_quals)?;
        q.body = QueryBody::Dml(Box::new(dml));
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }

    /// Has these conditions asked of newer versions of the target's rows, before all else: a row that does not meet them
    /// is none that the source's row matches.
    pub(super) fn ask_again(&self, dml: &mut Dml, conditions: &[Expr]) -> Result<()> {
        if conditions.is_empty() {
            return Ok(());
        }
        let of_target = dml.merge.iter_mut().filter(|a| a.when == MergeWhen::NotMatchedBySource);
        for condition in of_target.map(|action| &mut action.condition).chain([&mut dml.merge_on]) {
            let quals = self.asked_again(conditions)?;
            let mut all = Vec::new();
            quals.into_iter().chain(condition.take()).for_each(|e| e.conjuncts(&mut all));
            *condition = Expr::and_all(all);
        }
        Ok(())
    }

    /// Copies of conditions, for another place of the plan: their subqueries are others there.
    fn asked_again(&self, conditions: &[Expr]) -> Result<Vec<Expr>> {
        let mut copies = conditions.to_vec();
        for copy in &mut copies {
            copy.rewrite(&mut |e| {
                if let ExprKind::SubLink(link) = &mut e.kind {
                    link.id = self.new_rel();
                }
                Ok(())
            })?;
        }
        Ok(copies)
    }

    /// The columns that INSERT actions give values for.
    fn merge_inserts(&self, clauses: &[&nodes::MergeWhenClause], table: &Table) -> Result<Vec<i16>> {
        let mut inserted = Vec::new();
        for clause in clauses.iter().filter(|clause| event_of(clause) == INSERT) {
            let columns = self.insert_columns(clause.target_list().iter(), table)?;
            let given = columns.list.iter().take(clause.values().len());
            inserted.extend(given.map(|c| table.columns[c.position].attnum));
        }
        Ok(inserted)
    }

    /// The target as a FROM item. Of a view it has a column more, which is NULL where no row of the view stands.
    fn merge_target_rel(&self, settled: &SettledTarget, dml: &Dml) -> Result<Rel> {
        let kind = match &dml.table.view_sql {
            Some(sql) if dml.table.kind == TableKind::View => {
                RelKind::Subquery(SharedQuery::new(self.marked_view(&dml.table, sql)?))
            }
            _ => RelKind::Table(dml.table.clone()),
        };
        let mut columns = table_columns(&dml.table);
        if dml.table.kind == TableKind::View {
            columns.push(RelColumn::plain("", oids::BOOL, -1));
        }
        let (alias, security_quals) = (settled.alias.clone(), settled.security_quals.clone());
        Ok(Rel { id: dml.rel, alias, columns, kind, lateral: false, security_quals })
    }

    /// The rows of a view, and a column that is true.
    fn marked_view(&self, table: &Table, sql: &str) -> Result<Query> {
        let rel = self.new_rel();
        let mut q = Query::default();
        let columns = table_columns(table);
        for (i, c) in columns.iter().enumerate() {
            let expr = c.expr(ColId { rel, att: i as i16 + 1 });
            q.targets.push(Target { expr, name: c.name.clone(), junk: false, table_oid: 0, attnum: 0 });
        }
        q.targets.push(Target { expr: Expr::bool(true), name: String::new(), junk: false, table_oid: 0, attnum: 0 });
        q.rels.push(Rel {
            id: rel,
            alias: table.name.clone(),
            columns,
            kind: RelKind::Subquery(SharedQuery::new(self.bind_view(table, sql)?)),
            lateral: false,
            security_quals: Vec::new(),
        });
        q.from.push(JoinTree::Rel(rel));
        Ok(q)
    }

    /// Finds, or makes, a column of the source that is never NULL.
    fn mark_source(&self, q: &mut Query, source: JoinTree) -> Result<(JoinTree, Option<SourceMarker>)> {
        if let JoinTree::Rel(id) = source
            && q.rels.iter().any(|r| r.id == id && matches!(r.kind, RelKind::Table(_)))
        {
            let expr = Expr::column(ColId { rel: id, att: ATT_CTID }, oids::TID, -1);
            return Ok((source, Some(SourceMarker { expr, moved: None })));
        }
        let rel = self.new_rel();
        let mut inner = Query { rels: std::mem::take(&mut q.rels), from: vec![source], ..Query::default() };
        inner.targets.push(Target {
            expr: Expr::bool(true),
            name: String::new(),
            junk: false,
            table_oid: 0,
            attnum: 0,
        });
        let alias = match inner.rels.as_slice() {
            [one] => one.alias.clone(),
            _ => "source".into(),
        };
        let own = inner.rels.iter().map(|r| r.id).collect();
        q.rels.push(Rel {
            id: rel,
            alias,
            columns: Vec::new(),
            kind: RelKind::Subquery(SharedQuery::new(inner)),
            lateral: false,
            security_quals: Vec::new(),
        });
        let moved = MovedSource { rel, own, columns: Default::default() };
        let expr = Expr::column(ColId { rel, att: 1 }, oids::BOOL, -1);
        Ok((JoinTree::Rel(rel), Some(SourceMarker { expr, moved: Some(moved) })))
    }

    fn bind_merge_clause(&self, clause: &nodes::MergeWhenClause, scope: &Scope<'_>, dml: &Dml) -> Result<MergeAction> {
        let when = when_of(clause);
        let mut here = Scope {
            clause: ClauseKind::MergeWhen,
            ctes: scope.ctes.clone(),
            items: scope.items.clone(),
            ..Scope::new(scope.parent)
        };
        for item in &mut here.items {
            let hidden = if item.rel == dml.rel {
                when == MergeWhen::NotMatchedByTarget
            } else {
                when == MergeWhen::NotMatchedBySource
            };
            if hidden {
                item.rel_visible = false;
                item.cols_visible = false;
            }
        }
        let condition = self.bind_condition(clause.condition(), &here, "WHEN")?;
        if let Some(e) = &condition {
            self.refuse_system_columns(e)?;
        }
        let action = match clause.command_type {
            raw::CmdType::CMD_INSERT => {
                here.clause = ClauseKind::Values;
                MergeCommand::Insert(self.bind_merge_insert(clause, &here, dml)?)
            }
            raw::CmdType::CMD_UPDATE => {
                here.clause = ClauseKind::UpdateSource;
                let list =
                    clause.target_list().iter().filter_map(|n| if let Node::ResTarget(t) = n { Some(t) } else { None });
                MergeCommand::Update(self.bind_set(list, &dml.table, dml.rel, &here)?)
            }
            raw::CmdType::CMD_DELETE => MergeCommand::Delete,
            _ => MergeCommand::Nothing,
        };
        Ok(MergeAction { when, condition, action })
    }

    fn refuse_system_columns(&self, e: &Expr) -> Result<()> {
        if let ExprKind::Column(c) = &e.kind
            && c.att < 0
            && c.att != ATT_TABLEOID
        {
            let name = super::scope::system_column_name(c.att);
            return self.err(
                sqlstate::INVALID_COLUMN_REFERENCE,
                format!("cannot use system column \"{name}\" in MERGE WHEN condition"),
                e.loc,
            );
        }
        let mut refused = Ok(());
        e.for_children(&mut |child| {
            if refused.is_ok() {
                refused = self.refuse_system_columns(child);
            }
        });
        refused
    }

    fn bind_merge_insert(
        &self,
        clause: &nodes::MergeWhenClause,
        scope: &Scope<'_>,
        dml: &Dml,
    ) -> Result<Vec<Assignment>> {
        let table = &dml.table;
        let columns = self.insert_columns(clause.target_list().iter(), table)?;
        if columns.list.iter().any(|c| !c.indirection.is_empty()) {
            return Err(Error::unsupported("INSERT into an array element or a field by MERGE"));
        }
        let values = clause.values();
        let mut bound = Vec::with_capacity(values.len());
        for node in values {
            bound.push(self.bind_value(node, scope)?);
        }
        let given = bound.len();
        // INSERT DEFAULT VALUES gives none.
        if given > 0 {
            let extra_location = bound.get(columns.list.len()).map_or(-1, |e| e.loc);
            self.check_insert_count(&columns, given, extra_location)?;
        }
        let overriding_user = clause.override_ == raw::OverridingKind::OVERRIDING_USER_VALUE;
        let mut assignments = Vec::with_capacity(columns.list.len());
        for (e, column) in bound.into_iter().zip(&columns.list) {
            let c = &table.columns[column.position];
            let is_default = matches!(e.kind, ExprKind::Default);
            let expr = if is_default || overriding_user && c.identity != 0 {
                self.default_of(table, c, dml.new_rel)?
            } else {
                refuse_value(c, clause.override_)?;
                self.assign(e, c, table)?
            };
            let is_null = matches!(expr.as_const(), Some(Datum::Null));
            // Through a view a column that is given NULL is told from one that is given nothing.
            if c.generated == 0 && (!is_null || table.kind == TableKind::View) {
                assignments.push(Assignment { column: column.position, expr });
            }
        }
        let positions: Vec<usize> = columns.list[..given].iter().map(|c| c.position).collect();
        self.add_defaults(table, &positions, dml.new_rel, &mut assignments)?;
        Ok(assignments)
    }
}

/// Makes FROM and WHERE of `q` the join of `source` with the target `rel`. `kind` is that of the outer join when
/// actions ask for rows without a partner, with the source as its left side.
fn join_target(q: &mut Query, rel: u32, source: JoinTree, kind: Option<JoinKind>, on: Expr) {
    let target = JoinTree::Rel(rel);
    let (kind, left, right) = match kind {
        None => {
            q.from = vec![target, source];
            q.filter = Some(on);
            return;
        }
        Some(JoinKind::Left) => (JoinKind::Left, source, target),
        // Rows of the target are kept by a left join with the sides exchanged.
        Some(JoinKind::Right) => (JoinKind::Left, target, source),
        Some(kind) => (kind, target, source),
    };
    q.from = vec![JoinTree::Join { kind, left: Box::new(left), right: Box::new(right), on: Some(on) }];
}

/// How a row without a source is known.
struct SourceMarker {
    /// NULL in such a row.
    expr: Expr,
    moved: Option<MovedSource>,
}

/// A source that has become a subquery: its columns are that one's.
struct MovedSource {
    rel: u32,
    own: Vec<u32>,
    /// The columns that are used, in the order of the subquery's, behind the marker.
    columns: std::cell::RefCell<Vec<Expr>>,
}

impl MovedSource {
    fn place(&self, e: &mut Expr) -> Result<()> {
        if let ExprKind::Column(c) = &e.kind
            && self.own.contains(&c.rel)
        {
            let mut columns = self.columns.borrow_mut();
            let known = columns.iter().position(|x| matches!(&x.kind, ExprKind::Column(known) if known == c));
            let position = known.unwrap_or_else(|| {
                columns.push(e.clone());
                columns.len() - 1
            });
            e.kind = ExprKind::Column(ColId { rel: self.rel, att: position as i16 + 2 });
        }
        Ok(())
    }
    /// Gives the subquery the columns that are used.
    fn finish(&self, q: &mut Query) {
        let Some(rel) = q.rels.iter_mut().find(|r| r.id == self.rel) else { return };
        let RelKind::Subquery(inner) = &mut rel.kind else { return };
        for e in self.columns.borrow().iter() {
            inner.targets.push(Target { expr: e.clone(), name: String::new(), junk: false, table_oid: 0, attnum: 0 });
        }
        let columns = inner.targets.iter().map(|t| t.expr.rel_column(&t.name));
        rel.columns = columns.collect();
    }
}
