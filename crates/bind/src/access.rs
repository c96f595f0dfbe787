//! What a statement does to relations and which functions it calls, which its user must be allowed to.
//!
//! Invariants
//! 1. Every relation that a statement names is in the list once for each time that it is named, as are those that its
//!    views name. What a view does is allowed to the view's owner, unless the view says that it is its user's: that is
//!    whoever runs the statement, not the owner of another view that names it.
//! 2. What the engine does for a statement (checks, generated columns, index expressions, foreign keys) needs no
//!    privilege on relations. Functions that it calls for a changed row are asked about when there is one
//!    ([`super::ir::Dml::rule_functions`]).
//! 3. The columns that are read are those of the bound query before it is planned: none has been optimised away.
//!    Subqueries and functions of results that nobody reads are not asked about ([`super::access_collector`]).
//! 4. They are asked about in PostgreSQL's order: views, then tables; of both a query's own, the changed one first, as it
//!    names them, then what its views and subqueries name, then the subqueries of its expressions.
//!
//! Must not know: who asks, roles, how privileges are decided (`kilndb_catalog::privileges`).

use super::Binder;
use super::access_collector::AccessCollector;
use super::ir::*;
use kilndb_base::hash::{HashMap, HashSet};
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::privileges::{Privileges, privilege};
use kilndb_catalog::{CatalogView, Table, TableKind};
use std::sync::Arc;

/// What a statement does to a relation.
#[derive(Clone, Debug)]
pub struct RelationAccess {
    /// The number that it stands under in the statement.
    pub rel: u32,
    /// The same relation as rows before and after a change.
    pub other_rels: Vec<u32>,
    pub table: Arc<Table>,
    /// The owner of the view that names it; None: whoever runs the statement.
    pub check_as: Option<Oid>,
    pub required: u64,
    /// Columns by number, each once: read, inserted, updated. 0 is the whole row.
    pub selected: Vec<i16>,
    pub inserted: Vec<i16>,
    pub updated: Vec<i16>,
    /// What is read of it is known: what a view's columns and conditions have become reads nothing more.
    pub is_complete: bool,
}

impl RelationAccess {
    /// Adds the columns that the statement reads of the relation, of those that it reads at all.
    pub(super) fn add_selected(&mut self, read: &HashMap<u32, Vec<i16>>) {
        if self.is_complete {
            return;
        }
        for columns in std::iter::once(&self.rel).chain(&self.other_rels).filter_map(|rel| read.get(rel)) {
            for column in columns {
                if !self.selected.contains(column) {
                    self.selected.push(*column);
                }
            }
        }
    }
}

/// A function that not everybody may call.
#[derive(Clone, Debug)]
pub struct FunctionAccess {
    pub oid: Oid,
    pub name: String,
    /// 'f', 'a', 'w', 'p' as in pg_proc.
    pub kind: u8,
    pub privileges: Privileges,
}

/// All that a statement needs privileges for.
#[derive(Clone, Debug, Default)]
pub struct StatementAccess {
    pub relations: Vec<RelationAccess>,
    pub functions: Vec<FunctionAccess>,
    /// Schemas that it names, with their names.
    pub schemas: Vec<(String, Privileges)>,
    /// Why rows that it locks cannot be locked: told to who may use its views.
    pub unlockable: Option<Error>,
    /// It calls functions that are not built in, whose bodies may take the calls' places.
    pub calls_routines: bool,
}

impl Binder<'_> {
    /// Notes that the statement does this to a relation that it names.
    pub(crate) fn note_access(&self, rel: u32, table: &Arc<Table>, required: u64) {
        let access = self.new_access(rel, table, required);
        self.accesses.borrow_mut().push(access);
    }

    fn new_access(&self, rel: u32, table: &Arc<Table>, required: u64) -> RelationAccess {
        RelationAccess {
            rel,
            other_rels: Vec::new(),
            table: table.clone(),
            check_as: self.check_as.get(),
            required,
            selected: Vec::new(),
            inserted: Vec::new(),
            updated: Vec::new(),
            is_complete: false,
        }
    }

    /// How many accesses have been noted.
    pub(super) fn noted_accesses(&self) -> usize {
        self.accesses.borrow().len()
    }

    /// Of the accesses noted since there were `from`, forgets those that are not `wanted`.
    pub(super) fn retain_accesses(&self, from: usize, wanted: impl Fn(&RelationAccess) -> bool) {
        let mut accesses = self.accesses.borrow_mut();
        let from = from.min(accesses.len());
        let later = accesses.split_off(from);
        accesses.extend(later.into_iter().filter(wanted));
    }

    /// Notes what a statement that changes rows does to its table.
    pub(crate) fn note_change(&self, dml: &Dml, inserted: &[i16]) {
        let access = self.access_of_change(dml, inserted);
        self.accesses.borrow_mut().push(access);
    }

    /// What a statement that changes rows does to the relation that it names.
    pub(super) fn access_of_change(&self, dml: &Dml, inserted: &[i16]) -> RelationAccess {
        let column = |a: &Assignment| dml.table.columns[a.column].attnum;
        let mut updated: Vec<i16> = Vec::new();
        let mut required = match dml.kind {
            DmlKind::Insert => privilege::INSERT,
            DmlKind::Update => privilege::UPDATE,
            DmlKind::Delete => privilege::DELETE,
            DmlKind::Merge => 0,
        };
        if dml.kind == DmlKind::Update {
            updated.extend(dml.assignments.iter().map(column));
        }
        if let Some(OnConflict { update: Some(update), .. }) = &dml.on_conflict {
            required |= privilege::UPDATE;
            updated.extend(update.assignments.iter().map(column));
        }
        for action in &dml.merge {
            match &action.action {
                MergeCommand::Nothing => {}
                MergeCommand::Delete => required |= privilege::DELETE,
                MergeCommand::Insert(_) => required |= privilege::INSERT,
                MergeCommand::Update(assignments) => {
                    required |= privilege::UPDATE;
                    updated.extend(assignments.iter().map(column));
                }
            }
        }
        let mut access = self.new_access(dml.rel, &dml.table, required);
        access.other_rels = vec![dml.old_rel, dml.new_rel, dml.excluded_rel];
        // The columns that conflicts are looked for by are read.
        let arbiters = dml.on_conflict.iter().flat_map(|on_conflict| &on_conflict.arbiters);
        for attnum in arbiters.flat_map(|index| &index.keys).map(|key| key.attnum) {
            if attnum != 0 && !access.selected.contains(&attnum) {
                access.selected.push(attnum);
            }
        }
        access.inserted = inserted.to_vec();
        access.updated = updated;
        access
    }

    /// Rows that are locked may be about to be changed: UPDATE is needed on their relation.
    pub(super) fn note_locked(&self, rel: u32) {
        for access in self.accesses.borrow_mut().iter_mut().filter(|access| access.rel == rel) {
            access.required |= privilege::UPDATE;
        }
    }

    /// Whether the relation is one that has a name in the catalogs: a table, or a view as the query that it is.
    pub(super) fn is_accessed(&self, rel: u32) -> bool {
        self.accesses.borrow().iter().any(|access| access.rel == rel)
    }

    pub(super) fn note_accesses(&self, accesses: impl IntoIterator<Item = RelationAccess>) {
        self.accesses.borrow_mut().extend(accesses);
    }

    /// Whom what is bound is for.
    pub(super) fn bound_for(&self) -> Option<Oid> {
        self.check_as.get()
    }

    /// The whole statement with the policies of its tables, and its relations, for whoever plans it.
    pub(crate) fn with_accesses(&self, mut query: Query) -> Result<Query> {
        self.apply_row_security(&mut query)?;
        query.accesses.extend(self.accesses.take());
        Ok(query)
    }

    /// The columns that an access reads are those that it has, whatever is in its statement later.
    pub(crate) fn settle_selected(&self, settled: RelationAccess) {
        if let Some(access) = self.accesses.borrow_mut().iter_mut().find(|access| access.rel == settled.rel) {
            let required = if settled.selected.is_empty() { 0 } else { privilege::SELECT };
            *access = RelationAccess { is_complete: true, required: settled.required | required, ..settled };
        }
    }

    /// Whom what is bound next is for, and who it was before.
    pub(crate) fn replace_check_as(&self, check_as: Option<Oid>) -> Option<Oid> {
        self.check_as.replace(check_as)
    }

    /// Has `bind` bind a definition's text, which may name what the statement's user may not look for.
    pub(crate) fn trusting<R>(&self, bind: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = self.catalog.trust_names(true);
        let bound = bind();
        self.catalog.trust_names(before);
        bound
    }

    /// The same of a text in which the variables of the routine that runs the statement have no meaning.
    pub(crate) fn without_variables<R>(&self, bind: impl FnOnce() -> Result<R>) -> Result<R> {
        let before = self.hides_variables.replace(true);
        let bound = self.trusting(bind);
        self.hides_variables.set(before);
        bound
    }

    /// Has `bind` bind what belongs to a view, for its owner. What a view does for its user is that of whoever runs the
    /// statement, even where the view is named by another one.
    pub(crate) fn for_owner_of<R>(&self, view: &Table, bind: impl FnOnce() -> Result<R>) -> Result<R> {
        let outer = self.check_as.get();
        self.check_as.set((!view.is_security_invoker).then_some(view.owner));
        let bound = bind();
        self.check_as.set(outer);
        bound
    }
}

impl StatementAccess {
    /// With what the same statement needs once bodies of functions have taken the places of calls: what it read in the
    /// calls' arguments is read all the same.
    pub fn with_bodies(mut self, inlined: StatementAccess) -> StatementAccess {
        let known: HashSet<u32> = self.relations.iter().map(|access| access.rel).collect();
        self.relations.extend(inlined.relations.into_iter().filter(|access| !known.contains(&access.rel)));
        let called: HashSet<Oid> = self.functions.iter().map(|f| f.oid).collect();
        self.functions.extend(inlined.functions.into_iter().filter(|f| !called.contains(&f.oid)));
        self
    }
}

/// The columns that the statement reads, by relation.
pub(crate) fn columns_read(query: &Query) -> Result<HashMap<u32, Vec<i16>>> {
    Ok(AccessCollector::of(query)?.columns)
}

/// What the query needs privileges for.
pub fn statement_access(query: &Query, catalog: &dyn CatalogView) -> Result<StatementAccess> {
    let mut found = AccessCollector::of(query)?;
    let places = &found.places;
    found.accesses.sort_by_key(|access| {
        // A view whose rows are changed stands where the table does that has them.
        let rels = std::iter::once(&access.rel).chain(&access.other_rels);
        let place = rels.filter_map(|rel| places.get(rel)).next();
        (access.table.kind != TableKind::View, place.copied().unwrap_or(usize::MAX))
    });
    let mut relations = Vec::with_capacity(found.accesses.len());
    for access in found.accesses.iter().filter(|access| !found.unread.contains(&access.rel)) {
        let mut access = (*access).clone();
        access.add_selected(&found.columns);
        if !access.selected.is_empty() {
            access.required |= privilege::SELECT;
        }
        // The sequence behind an identity column and the like are no relations of the statement.
        if access.table.kind != TableKind::Index {
            relations.push(access);
        }
    }
    let calls_routines = found.functions.iter().any(|oid| *oid >= FIRST_USER_OID);
    let mut functions = restricted_functions(&found.functions, catalog)?;
    // PostgreSQL calls an aggregate over a window a function.
    functions.iter_mut().filter(|f| found.windowed.contains(&f.oid)).for_each(|f| f.kind = b'f');
    Ok(StatementAccess { relations, functions, calls_routines, ..StatementAccess::default() })
}

/// The columns of the table that COPY FROM … WHERE reads.
pub fn filter_columns(bound: &BoundStatement) -> Vec<i16> {
    let BoundStatement::Query(query) = bound else { return Vec::new() };
    let QueryBody::Dml(dml) = &query.body else { return Vec::new() };
    let mut used = Vec::new();
    if let Some(filter) = &dml.row_filter {
        filter.columns(&mut used);
    }
    used.into_iter().filter(|c| c.rel == dml.new_rel).map(|c| c.att).collect()
}

/// The same of the functions of a changed row's rules.
pub fn restricted_rules(
    functions: &RuleFunctions<Vec<Oid>>,
    catalog: &dyn CatalogView,
) -> Result<RuleFunctions<Arc<[FunctionAccess]>>> {
    functions.try_map(|functions| Ok(restricted_functions(functions, catalog)?.into()))
}

/// Those of the functions whose privileges somebody has changed.
pub fn restricted_functions(functions: &[Oid], catalog: &dyn CatalogView) -> Result<Vec<FunctionAccess>> {
    let mut restricted = Vec::new();
    for oid in functions {
        if let Some(privileges) = catalog.function_privileges(*oid)?
            && let Some(info) = catalog.function_by_oid(*oid)?
        {
            let (name, kind) = (info.name.clone(), info.kind);
            restricted.push(FunctionAccess { oid: *oid, name, kind, privileges });
        }
    }
    Ok(restricted)
}
