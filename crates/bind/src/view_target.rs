//! INSERT, UPDATE, DELETE and MERGE of views: a statement that is bound against a view becomes one that changes the
//! relation which the view reads (PostgreSQL's `rewriteTargetView`; docs/decisions/0059).
//!
//! Invariants
//! 1. A statement on a view is bound as if the view were a table; only then do the view's columns become expressions over
//!    the rows of its relation. What the statement reads of the view is therefore known, and errors of the statement come
//!    before those of the view.
//! 2. It is done again as long as the relation is a view without INSTEAD OF triggers for the statement. Defaults stay
//!    [`ExprKind::Default`] meanwhile: that of the outermost view that has one counts, then the table's.
//! 3. The user needs the privileges on the view that the statement names, the owner of each view (or the user, if the view
//!    says so) those on what it reads. What the view's own definition reads is part of them if the statement reads at all.
//! 4. Conditions of views with a security barrier are the target's security quals, an outer view's behind an inner one's.

use super::Binder;
use super::access::{RelationAccess, columns_read};
use super::from::table_columns;
use super::ir::*;
use super::onconflict::ConflictInference;
use super::updatable::{NO_COLUMN, Obstacle, ViewOfRelation, has_instead};
use super::view_columns::ColumnSubstitution;
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::trigger::{DELETE, INSERT, UPDATE};
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::raw::OverridingKind;

/// A statement on its way from the view that it names to the table whose rows it changes.
pub(super) struct ViewChange<'s> {
    /// The query that the change is the body of. MERGE has its target not in it yet.
    pub query: &'s mut Query,
    pub dml: &'s mut Dml,
    /// Columns that an INSERT, or MERGE's, gives values for, by number.
    pub inserted: Vec<i16>,
    /// OVERRIDING of an INSERT, or of each of MERGE's actions.
    pub overriding: Vec<OverridingKind::Type>,
    /// What conflicts are looked for by.
    pub inference: Option<&'s mut ConflictInference>,
}

/// The target at the end of the way.
#[derive(Default)]
pub(super) struct SettledTarget {
    pub alias: String,
    pub security_quals: Vec<Expr>,
}

/// Of a view's conditions and check options, what later views of the way depend on.
struct Way {
    target: SettledTarget,
    /// A view further out checks rows against the conditions of all views below it.
    is_cascaded: bool,
}

/// How a list of assignments came to be.
#[derive(Clone, Copy)]
pub(super) enum ListKind {
    Update,
    Insert(OverridingKind::Type),
}

impl ViewChange<'_> {
    /// Whether the triggers of the view itself do all that the statement does.
    fn is_done_by_triggers(&self) -> bool {
        let has = |event: i16| has_instead(&self.dml.table, event);
        match self.dml.kind {
            DmlKind::Insert => has(INSERT),
            DmlKind::Update => has(UPDATE),
            DmlKind::Delete => has(DELETE),
            DmlKind::Merge => self.dml.merge.iter().map(|a| a.action.event()).all(|event| event == 0 || has(event)),
        }
    }

    /// Whether rows get new values.
    fn writes(&self) -> bool {
        match self.dml.kind {
            DmlKind::Insert | DmlKind::Update => true,
            DmlKind::Delete => false,
            DmlKind::Merge => self.dml.merge.iter().any(|a| a.action.event() & (INSERT | UPDATE) != 0),
        }
    }

    /// Calls `f` on each list of assignments.
    pub(super) fn for_lists(&mut self, f: &mut dyn FnMut(ListKind, &mut Vec<Assignment>) -> Result<()>) -> Result<()> {
        let overriding = |n: usize| self.overriding.get(n).copied().unwrap_or(OverridingKind::OVERRIDING_NOT_SET);
        match self.dml.kind {
            DmlKind::Insert => f(ListKind::Insert(overriding(0)), &mut self.dml.assignments)?,
            DmlKind::Update => f(ListKind::Update, &mut self.dml.assignments)?,
            _ => {}
        }
        if let Some(OnConflict { update: Some(update), .. }) = &mut self.dml.on_conflict {
            f(ListKind::Update, &mut update.assignments)?;
        }
        for (n, action) in self.dml.merge.iter_mut().enumerate() {
            match &mut action.action {
                MergeCommand::Update(list) => f(ListKind::Update, list)?,
                MergeCommand::Insert(list) => f(ListKind::Insert(overriding(n)), list)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The first column of the view, in the view's order, that gets a value and cannot have one.
    fn refused_column(&mut self, view: &ViewOfRelation) -> Result<Option<(usize, Obstacle)>> {
        let mut written: Vec<usize> = self.inserted.iter().filter_map(|c| usize::try_from(c - 1).ok()).collect();
        self.for_lists(&mut |_, list| {
            written.extend(list.iter().map(|a| a.column));
            Ok(())
        })?;
        written.sort_unstable();
        Ok(written.into_iter().find_map(|position| view.base_column(position).err().map(|why| (position, why))))
    }

    fn refuse(&self, obstacle: Obstacle) -> Error {
        let (name, merges) = (&self.dml.table.name, self.dml.kind == DmlKind::Merge);
        let event = match self.dml.kind {
            DmlKind::Insert => INSERT,
            DmlKind::Update => UPDATE,
            DmlKind::Delete => DELETE,
            DmlKind::Merge => {
                let events = self.dml.merge.iter().map(|a| a.action.event());
                events.into_iter().find(|e| *e != 0 && !has_instead(&self.dml.table, *e)).unwrap_or_default()
            }
        };
        let (verb, doing, event) = match event {
            INSERT => ("insert into", "inserting into", "INSERT"),
            UPDATE => ("update", "updating", "UPDATE"),
            _ => ("delete from", "deleting from", "DELETE"),
        };
        let hint = match merges {
            true => format!("To enable {doing} the view using MERGE, provide an INSTEAD OF {event} trigger."),
            false => format!(
                "To enable {doing} the view, provide an INSTEAD OF {event} trigger or an unconditional ON {event} DO INSTEAD rule."
            ),
        };
        Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, format!("cannot {verb} view \"{name}\""))
            .with_detail(obstacle)
            .with_hint(hint)
    }

    fn refuse_column(&self, position: usize, obstacle: Obstacle) -> Error {
        let view = &self.dml.table;
        let column = view.columns.get(position).map_or("", |c| &c.name);
        let verb = match self.dml.kind {
            DmlKind::Insert => "insert into",
            DmlKind::Merge => "merge into",
            _ => "update",
        };
        let message = format!("cannot {verb} column \"{column}\" of view \"{}\"", view.name);
        Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message).with_detail(obstacle)
    }

    /// The view's triggers do some of MERGE's actions: the others cannot be done beside them.
    fn refuse_some_triggers(&self) -> Result<()> {
        let events = self.dml.merge.iter().map(|a| a.action.event());
        if !events.into_iter().any(|event| event != 0 && has_instead(&self.dml.table, event)) {
            return Ok(());
        }
        let message = format!("cannot merge into view \"{}\"", self.dml.table.name);
        Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message)
            .with_detail("MERGE is not supported for views with INSTEAD OF triggers for some actions but not all.")
            .with_hint("To enable merging into the view, either provide a full set of INSTEAD OF triggers or drop the existing INSTEAD OF triggers."))
    }
}

impl Binder<'_> {
    /// Brings a statement on a view to the table whose rows it changes, or to a view whose triggers do that.
    pub(super) fn settle_view(&self, mut s: ViewChange<'_>) -> Result<SettledTarget> {
        let (named, noted) = (s.dml.rel, self.noted_accesses());
        let mut access = self.named_access(&mut s)?;
        let target = SettledTarget { alias: s.dml.alias.clone(), ..SettledTarget::default() };
        let mut way = Way { target, is_cascaded: false };
        let mut views = Vec::new();
        while s.dml.table.kind == TableKind::View && !s.is_done_by_triggers() {
            let below = self.step_down(&mut s, &mut way, &access)?;
            views.push(std::mem::replace(&mut access, below));
        }
        if s.dml.table.kind == TableKind::View {
            self.add_view_defaults(&mut s)?;
            mark_view_rows(s.dml)?;
        }
        s.dml.alias = way.target.alias.clone();
        self.finish_lists(&mut s)?;
        self.forget_unused(noted, &mut s, &mut way.target)?;
        // The relation at the end of the way stands for all of them.
        for view in &mut views {
            (view.rel, view.other_rels) = (self.new_rel(), vec![s.dml.rel]);
        }
        self.note_accesses(views.into_iter().chain([access]));
        self.place_target(named, &mut s, &way.target)?;
        Ok(way.target)
    }

    /// What the statement does to the view that it names.
    fn named_access(&self, s: &mut ViewChange<'_>) -> Result<RelationAccess> {
        let mut access = self.access_of_change(s.dml, &s.inserted);
        // The change is in its query while that is looked at.
        let empty = self.new_dml(s.dml.kind, s.dml.table.clone());
        let before = std::mem::replace(&mut s.query.body, QueryBody::Dml(Box::new(std::mem::replace(s.dml, empty))));
        let read = columns_read(s.query);
        if let QueryBody::Dml(dml) = std::mem::replace(&mut s.query.body, before) {
            *s.dml = *dml;
        }
        let mut read = read?;
        if let Some(inference) = &s.inference {
            let mut used = Vec::new();
            inference.exprs().for_each(|e| e.columns(&mut used));
            used.iter().for_each(|c| read.entry(c.rel).or_default().push(c.att));
        }
        access.add_selected(&read);
        access.is_complete = true;
        if !access.selected.is_empty() {
            access.required |= privilege::SELECT;
        }
        Ok(access)
    }

    /// Replaces the view that the statement changes by the relation that the view reads. `access`: what is done to the
    /// view; what is done to the relation is returned.
    fn step_down(&self, s: &mut ViewChange<'_>, way: &mut Way, access: &RelationAccess) -> Result<RelationAccess> {
        kilndb_base::stack::check()?;
        let view = s.dml.table.clone();
        self.add_view_defaults(s)?;
        let writes = s.writes();
        let of = match self.view_of_relation(&view)? {
            Ok(of) if !writes || of.has_updatable_column() => of,
            Ok(_) => return Err(s.refuse(NO_COLUMN)),
            Err(obstacle) => return Err(s.refuse(obstacle)),
        };
        if writes && let Some((position, obstacle)) = s.refused_column(&of)? {
            return Err(s.refuse_column(position, obstacle));
        }
        s.refuse_some_triggers()?;
        self.refuse_catalog(&of.base)?;
        let below = self.access_below(&view, &of, access)?;
        let substitution = ColumnSubstitution::new(self, s.dml, of, &view);
        substitution.apply(s, &mut way.target)?;
        let of = substitution.finish(s)?;
        way.target.alias = of.alias;
        if let Some(condition) = of.condition {
            let condition = moved(condition, of.rel, s.dml.rel)?;
            self.add_condition(s, &mut way.target, &view, condition);
        }
        if writes {
            self.add_check(s, way, &view)?;
        }
        Ok(RelationAccess {
            rel: s.dml.rel,
            other_rels: vec![s.dml.old_rel, s.dml.new_rel, s.dml.excluded_rel],
            ..below
        })
    }

    /// What whoever the view reads for needs on its relation.
    fn access_below(&self, view: &Table, of: &ViewOfRelation, access: &RelationAccess) -> Result<RelationAccess> {
        let mapped = |columns: &[i16]| {
            let mut mapped: Vec<i16> = Vec::new();
            for column in columns {
                let base = usize::try_from(column - 1).ok().and_then(|position| of.base_column(position).ok());
                mapped.extend(base.filter(|base| !mapped.contains(base)));
            }
            mapped
        };
        let selected = if access.required & privilege::SELECT != 0 { of.read.clone() } else { Vec::new() };
        self.for_owner_of(view, || {
            Ok(RelationAccess {
                table: of.base.clone(),
                check_as: self.bound_for(),
                selected,
                inserted: mapped(&access.inserted),
                updated: mapped(&access.updated),
                ..access.clone()
            })
        })
    }

    /// A row must meet the view's condition to be found through the view.
    fn add_condition(&self, s: &mut ViewChange<'_>, target: &mut SettledTarget, view: &Table, condition: Expr) {
        match s.dml.kind {
            DmlKind::Insert => {}
            // Rows of the target without a partner must meet it, too: it is asked before the join.
            DmlKind::Merge => target.security_quals.insert(0, condition),
            _ if view.is_security_barrier => target.security_quals.insert(0, condition),
            _ => {
                let mut all = Vec::new();
                s.query.filter.take().into_iter().chain([condition]).for_each(|e| e.conjuncts(&mut all));
                s.query.filter = Expr::and_all(all);
            }
        }
    }

    /// WITH CHECK OPTION of the view, or of one further out that means all below it. Inner views are checked first.
    fn add_check(&self, s: &mut ViewChange<'_>, way: &mut Way, view: &Table) -> Result<()> {
        use kilndb_catalog::CheckOption;
        way.is_cascaded |= view.check_option == Some(CheckOption::Cascaded);
        if view.check_option.is_none() && !way.is_cascaded {
            return Ok(());
        }
        // The condition is another one than that by which rows are found: numbers of relations are never used twice.
        let Ok(of) = self.view_of_relation(view)? else { return Ok(()) };
        let Some(condition) = of.condition else { return Ok(()) };
        let new_rel = s.dml.new_rel;
        let condition = moved(condition, of.rel, new_rel)?;
        let mut used = Vec::new();
        condition.columns(&mut used);
        if used.iter().any(|c| c.rel == new_rel && c.att < 0) {
            return Err(Error::unsupported(format!(
                "WITH CHECK OPTION of view \"{}\", whose condition is about system columns, is not supported",
                view.name
            )));
        }
        let kind = RowCheckKind::View;
        s.dml.row_checks.insert(0, RowCheck { kind, policy: Some(view.name.clone()), condition });
        Ok(())
    }

    /// Gives columns the view's own defaults: those that a statement names DEFAULT for, and those that an INSERT names
    /// not at all. Where the view has none, an INSERT leaves it to the relation below; an UPDATE sets NULL.
    fn add_view_defaults(&self, s: &mut ViewChange<'_>) -> Result<()> {
        let (view, rel) = (s.dml.table.clone(), s.dml.new_rel);
        let mut defaults = Vec::new();
        for (position, column) in view.columns.iter().enumerate().filter(|(_, c)| !c.dropped) {
            if let Some(e) = self.own_default(&view, column, rel)? {
                defaults.push((position, e));
            }
        }
        for (position, e) in &defaults {
            for cell in cells_of(s.dml, *position).filter(|cell| matches!(cell.kind, ExprKind::Default)) {
                *cell = e.clone();
            }
        }
        s.for_lists(&mut |kind, list| {
            for (position, e) in &defaults {
                match list.iter_mut().find(|a| a.column == *position) {
                    Some(a) if matches!(a.expr.kind, ExprKind::Default) => a.expr = e.clone(),
                    Some(_) => {}
                    None if matches!(kind, ListKind::Insert(_)) => {
                        list.push(Assignment { column: *position, expr: e.clone() });
                    }
                    None => {}
                }
            }
            if matches!(kind, ListKind::Update) {
                for a in list.iter_mut().filter(|a| matches!(a.expr.kind, ExprKind::Default)) {
                    a.expr = self.null_of(&view.columns[a.column]);
                }
            }
            Ok(())
        })
    }

    /// The rules that the columns of the table have for values: what may be given, and what the rest gets.
    fn finish_lists(&self, s: &mut ViewChange<'_>) -> Result<()> {
        let (table, new_rel, rel) = (s.dml.table.clone(), s.dml.new_rel, s.dml.rel);
        if s.dml.kind == DmlKind::Insert {
            let overriding = s.overriding.first().copied().unwrap_or(OverridingKind::OVERRIDING_NOT_SET);
            for (position, column) in table.columns.iter().enumerate() {
                for cell in cells_of(s.dml, position) {
                    if super::insert::wants_default(cell, column, overriding) {
                        *cell = self.final_default(&table, position, new_rel)?;
                    } else {
                        super::insert::refuse_value(column, overriding)?;
                    }
                }
            }
        }
        let source_rel = s.dml.source_rel;
        let of_values = has_cells(s.dml);
        s.for_lists(&mut |kind, list| {
            for a in list.iter_mut() {
                let column = &table.columns[a.column];
                match kind {
                    ListKind::Update => {
                        super::dml::refuse_update(column, &a.expr)?;
                        if matches!(a.expr.kind, ExprKind::Default) {
                            a.expr = self.final_default(&table, a.column, rel)?;
                        }
                    }
                    ListKind::Insert(_) if of_values && cell_number(&a.expr, source_rel).is_some() => {}
                    ListKind::Insert(overriding) => {
                        if super::insert::wants_default(&a.expr, column, overriding) {
                            a.expr = self.final_default(&table, a.column, new_rel)?;
                        } else {
                            super::insert::refuse_value(column, overriding)?;
                        }
                    }
                }
            }
            let given: Vec<usize> = list.iter().map(|a| a.column).collect();
            list.retain(|a| table.columns[a.column].generated == 0);
            match kind {
                ListKind::Insert(_) => self.add_defaults(&table, &given, new_rel, list),
                ListKind::Update => Ok(()),
            }
        })
    }

    /// The default of the relation at the end of the way; a view with triggers has none but its own.
    fn final_default(&self, table: &Table, position: usize, rel: u32) -> Result<Expr> {
        let column = &table.columns[position];
        if table.kind != TableKind::View {
            return self.default_of(table, column, rel);
        }
        Ok(self.own_default(table, column, rel)?.unwrap_or_else(|| self.null_of(column)))
    }

    /// Forgets relations of subqueries of views that the statement has no use for.
    fn forget_unused(&self, noted: usize, s: &mut ViewChange<'_>, target: &mut SettledTarget) -> Result<()> {
        if self.noted_accesses() == noted {
            return Ok(());
        }
        let mut used = HashSet::default();
        let mut visit = |e: &mut Expr| {
            if let ExprKind::SubLink(link) = &e.kind {
                collect_rels(&link.query, &mut used);
            }
            Ok(())
        };
        s.query.filter.iter_mut().chain(&mut target.security_quals).try_for_each(|e| e.rewrite(&mut visit))?;
        s.dml.rewrite(&mut visit)?;
        self.retain_accesses(noted, |access| used.contains(&access.rel));
        Ok(())
    }

    /// Makes the relation at the end of the way the target of UPDATE and DELETE.
    fn place_target(&self, named: u32, s: &mut ViewChange<'_>, target: &SettledTarget) -> Result<()> {
        if let Some(rel) = s.query.rels.iter_mut().find(|rel| rel.id == named) {
            *rel = self.settled_rel(s.dml, target)?;
            let tree = s.query.from.iter_mut().find(|tree| matches!(tree, JoinTree::Rel(id) if *id == named));
            if let Some(tree) = tree {
                *tree = JoinTree::Rel(s.dml.rel);
            }
        }
        Ok(())
    }

    /// The target as a FROM item.
    fn settled_rel(&self, dml: &Dml, target: &SettledTarget) -> Result<Rel> {
        let kind = match &dml.table.view_sql {
            Some(sql) if dml.table.kind == TableKind::View => {
                RelKind::Subquery(SharedQuery::new(self.bind_view(&dml.table, sql)?))
            }
            _ => RelKind::Table(dml.table.clone()),
        };
        Ok(Rel {
            id: dml.rel,
            alias: target.alias.clone(),
            columns: table_columns(&dml.table),
            kind,
            lateral: false,
            security_quals: target.security_quals.clone(),
        })
    }
}

/// Rows of a view have no place: those that MERGE joins are known by a column behind the view's own.
fn mark_view_rows(dml: &mut Dml) -> Result<()> {
    let (rel, marker) = (dml.rel, dml.table.columns.len() as i16 + 1);
    let is_merge = dml.kind == DmlKind::Merge;
    dml.returning.iter_mut().filter(|_| is_merge).try_for_each(|t| {
        t.expr.rewrite(&mut |e| {
            if matches!(e.kind, ExprKind::Column(c) if c.rel == rel && c.att == ATT_CTID) {
                *e = Expr::column(ColId { rel, att: marker }, kilndb_types::oids::BOOL, -1);
            }
            Ok(())
        })
    })
}

/// An expression over the rows of `from` as one over those of `to`.
fn moved(mut e: Expr, from: u32, to: u32) -> Result<Expr> {
    e.rewrite(&mut |e| {
        if let ExprKind::Column(c) = &mut e.kind
            && c.rel == from
        {
            c.rel = to;
        }
        Ok(())
    })?;
    Ok(e)
}

/// All relations that a query reads, those of its expressions aside.
fn collect_rels(query: &Query, out: &mut HashSet<u32>) {
    out.extend(query.rels.iter().map(|rel| rel.id));
    query.for_subqueries(&mut |inner| collect_rels(inner, out));
}

/// Which column of VALUES an expression is.
fn cell_number(e: &Expr, source_rel: u32) -> Option<usize> {
    match &e.kind {
        ExprKind::Column(c) if c.rel == source_rel => usize::try_from(c.att - 1).ok(),
        _ => None,
    }
}

/// Whether the statement inserts lists of VALUES.
fn has_cells(dml: &Dml) -> bool {
    let values = |rel: &Rel| rel.id == dml.source_rel && matches!(rel.kind, RelKind::Values(_));
    dml.source.as_ref().is_some_and(|source| source.rels.iter().any(values))
}

/// What lists of VALUES give the column at `position`.
fn cells_of(dml: &mut Dml, position: usize) -> impl Iterator<Item = &mut Expr> {
    let source_rel = dml.source_rel;
    let assigned = dml.assignments.iter().find(|a| a.column == position);
    let number = assigned.and_then(|a| cell_number(&a.expr, source_rel)).filter(|_| has_cells(dml));
    let rels = dml.source.as_mut().filter(|_| number.is_some()).map(|source| &mut source.rels);
    let rows = rels.into_iter().flatten().filter_map(|rel| match &mut rel.kind {
        RelKind::Values(rows) => Some(rows),
        _ => None,
    });
    rows.flatten().filter_map(move |row| row.get_mut(number?))
}
