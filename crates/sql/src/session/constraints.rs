//! Constraint checks that wait for the end of the transaction, and SET CONSTRAINTS.
//!
//! A pending check of a foreign key names a key; when it runs it asks whether a referencing row with that key exists by
//! now and whether the referenced row does. One of a unique constraint names a row. It is right whenever it runs, so
//! running one twice does no harm.

use super::Session;
use super::run::PlanRun;
use super::run::SinkMaker;
use crate::client::Runtime;
use crate::context::SessionContext;
use crate::host::RowsSink;
use kilndb_base::hash::{HashMap, HashMapExt, HashSet, HashSetExt};
use kilndb_base::{Error, Oid, RelationId, Result, RowId, sqlstate};
use kilndb_bind::engine_query::{KeyAction, KeyQuery};
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Column, ForeignKey, Table, column_places};
use kilndb_exec::PendingCheck;
use kilndb_exec::constraint::{UniqueIndex, check_only_one};
use kilndb_plan::Plan;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::collections::hash_map::Entry;
use std::sync::Arc;

/// What the checks of one foreign key need.
struct KeyChecks {
    key: Arc<ForeignKey>,
    child: Arc<Table>,
    parent: Arc<Table>,
    find_child: Arc<Plan>,
    find_parent: Arc<Plan>,
}

fn columns_of<'t>(table: &'t Table, attnums: &[i16]) -> impl Iterator<Item = &'t Column> {
    column_places(attnums).into_iter().filter_map(|place| table.columns.get(place))
}

fn column_names(table: &Table, attnums: &[i16]) -> Vec<String> {
    columns_of(table, attnums).map(|c| c.name.clone()).collect()
}

fn column_types(table: &Table, attnums: &[i16]) -> Vec<Oid> {
    columns_of(table, attnums).map(|c| c.type_oid).collect()
}

/// The statement that looks for a row with a key of these types, and locks it if it is one that others reference.
fn probe<'t>(table: &'t Arc<Table>, places: &'t [usize], types: &[Oid], locks: bool) -> KeyQuery<'t> {
    KeyQuery { table, columns: places, parameters: types.to_vec(), action: KeyAction::Find { locks } }
}

impl Session {
    /// Runs the pending checks of the constraints `only` (all without it) and forgets them.
    pub(super) fn run_pending_checks(&mut self, only: Option<&HashSet<Oid>>, runtime: &dyn Runtime) -> Result<()> {
        if self.context.transaction.pending.checks.is_empty() {
            return Ok(());
        }
        if let Some(txn) = &mut self.context.transaction.txn {
            txn.next_command();
        }
        let due = |c: &PendingCheck| only.is_none_or(|o| o.contains(&c.constraint));
        let checks: Vec<PendingCheck> =
            self.context.transaction.pending.checks.iter().filter(|c| due(c)).cloned().collect();
        let mut known: HashMap<(Oid, bool), Option<KeyChecks>> = HashMap::new();
        for check in &checks {
            runtime.checkpoint()?;
            if let Some((storage, rid)) = check.twin {
                check_twin(&mut self.context, check, storage, rid, runtime)?;
                continue;
            }
            let entry = (check.constraint, check.parent_gone);
            let parts = match known.entry(entry) {
                Entry::Occupied(prepared) => prepared.into_mut(),
                Entry::Vacant(missing) => missing.insert(prepare_checks(&mut self.context, check, runtime)?),
            };
            if let Some(parts) = parts {
                self.run_check(parts, check, runtime)?;
            }
        }
        // A rollback to a savepoint may bring back the state before: what was checked inside one is checked again.
        if self.context.transaction.savepoints.is_empty() {
            self.context.transaction.pending.checks.retain(|c| !due(c));
        }
        Ok(())
    }

    fn run_check(&mut self, parts: &KeyChecks, check: &PendingCheck, runtime: &dyn Runtime) -> Result<()> {
        let (key, child, parent) = (&parts.key, &parts.child, &parts.parent);
        let nulls = check.key.iter().filter(|d| d.is_null()).count();
        let violation = |detail: String| {
            let message = if check.parent_gone {
                format!(
                    "update or delete on table \"{}\" violates foreign key constraint \"{}\" on table \"{}\"",
                    parent.name, key.name, child.name
                )
            } else {
                format!("insert or update on table \"{}\" violates foreign key constraint \"{}\"", child.name, key.name)
            };
            Error::new(sqlstate::FOREIGN_KEY_VIOLATION, message)
                .with_detail(detail)
                .with_table(child.schema_name.clone(), child.name.clone())
                .with_constraint(key.name.clone())
        };
        if nulls > 0 {
            if key.match_type == b'f' && nulls < check.key.len() && !check.parent_gone {
                return Err(violation("MATCH FULL does not allow mixing of null and nonnull key values.".to_string()));
            }
            return Ok(());
        }
        // Also children that an old snapshot does not see keep their parent.
        let newest = check.parent_gone;
        if !self.has_row(&parts.find_child, &check.key, newest, runtime)?
            || self.has_row(&parts.find_parent, &check.key, newest, runtime)?
        {
            return Ok(());
        }
        let (table, columns) =
            if check.parent_gone { (parent, &key.referenced_columns) } else { (child, &key.columns) };
        let (names, types) = (column_names(table, columns).join(", "), column_types(table, columns));
        let shown = self.context.with_catalog(runtime, |host| {
            let eval = host.eval();
            Ok(types
                .iter()
                .zip(&check.key)
                .map(|(t, v)| kilndb_exec::write::show(*t, -1, v, &eval))
                .collect::<Vec<_>>()
                .join(", "))
        })?;
        Err(violation(if check.parent_gone {
            format!("Key ({names})=({shown}) is still referenced from table \"{}\".", child.name)
        } else {
            format!("Key ({names})=({shown}) is not present in table \"{}\".", parent.name)
        }))
    }

    /// `newest`: what is committed by now, at every isolation level.
    fn has_row(&mut self, plan: &Arc<Plan>, key: &[Datum], newest: bool, runtime: &dyn Runtime) -> Result<bool> {
        let mut sink = RowsSink::default();
        self.context.lock_tables(plan, runtime)?;
        let txn = self
            .context
            .transaction
            .txn
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction to check a constraint in"))?;
        let snapshot = if newest { txn.catalog_snapshot() } else { txn.take_snapshot().untracked() };
        self.advance(PlanRun::whole(plan, key, snapshot), &mut None, runtime, SinkMaker::Sink(&mut sink))?;
        Ok(!sink.rows.is_empty())
    }

    /// SET CONSTRAINTS.
    pub(super) fn set_constraints(&mut self, s: &nodes::ConstraintsSetStmt, runtime: &dyn Runtime) -> Result<String> {
        if !self.context.in_explicit_block() {
            self.context.shared.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                kilndb_base::Severity::Warning,
                "SET CONSTRAINTS can only be used in transaction blocks",
            ));
        }
        self.context.begin_statement(runtime)?;
        if s.constraints().is_empty() {
            self.context.transaction.pending.modes.clear();
            self.context.transaction.pending.modes.insert(0, s.deferred);
            if !s.deferred {
                self.run_pending_checks(None, runtime)?;
                self.fire_pending_triggers(None, runtime)?;
            }
            return Ok("SET CONSTRAINTS".to_string());
        }
        let mut named = HashSet::new();
        for node in s.constraints() {
            let Node::RangeVar(r) = node else { continue };
            named.extend(find_constraints(&mut self.context, r, runtime)?);
        }
        for oid in &named {
            self.context.transaction.pending.modes.insert(*oid, s.deferred);
        }
        if !s.deferred {
            self.run_pending_checks(Some(&named), runtime)?;
            self.fire_pending_triggers(Some(&named), runtime)?;
        }
        Ok("SET CONSTRAINTS".to_string())
    }
}

/// Is the row the only one of its key in a unique index?
fn check_twin(
    context: &mut SessionContext,
    check: &PendingCheck,
    storage: RelationId,
    rid: RowId,
    runtime: &dyn Runtime,
) -> Result<()> {
    let table = context.with_catalog(runtime, |host| host.reader.table_by_oid(check.table))?;
    // A table that was rewritten has had its indexes built anew, with a check.
    let Some(table) = table.filter(|t| t.storage == storage) else { return Ok(()) };
    let Some(index) = table.indexes.iter().find(|i| i.constraint == check.constraint).cloned() else {
        return Ok(());
    };
    let (heap, tree) = (
        context.shared.temporary.relation(&context.cluster.engine, storage)?,
        context.shared.temporary.relation(&context.cluster.engine, index.storage)?,
    );
    let environment = context.environment(runtime)?;
    let host = environment.host();
    let txn =
        context.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction to check constraints in"))?;
    let unique = UniqueIndex { table: &table, index: &index, heap: &heap, tree: &tree, session: &host };
    check_only_one(unique, rid, txn, runtime, &host.eval())
}

fn prepare_checks(
    context: &mut SessionContext,
    check: &PendingCheck,
    runtime: &dyn Runtime,
) -> Result<Option<KeyChecks>> {
    let found = context.with_catalog(runtime, |host| {
        // A table or constraint dropped meanwhile needs no check.
        let Some(table) = host.reader.table_by_oid(check.table)? else { return Ok(None) };
        let keys = if check.parent_gone { &table.referenced_by } else { &table.foreign_keys };
        let Some(key) = keys.iter().find(|k| k.oid == check.constraint).cloned() else { return Ok(None) };
        let (child, parent) = (host.reader.table_by_oid(key.table)?, host.reader.table_by_oid(key.referenced_table)?);
        Ok(child.zip(parent).map(|(child, parent)| (key, child, parent)))
    })?;
    let Some((key, child, parent)) = found else { return Ok(None) };
    let types = if check.parent_gone {
        column_types(&parent, &key.referenced_columns)
    } else {
        column_types(&child, &key.columns)
    };
    let (child_key, parent_key) = (column_places(&key.columns), column_places(&key.referenced_columns));
    let find_child = context.plan_engine_query(&probe(&child, &child_key, &types, false), runtime)?;
    let find_parent = context.plan_engine_query(&probe(&parent, &parent_key, &types, true), runtime)?;
    Ok(Some(KeyChecks { key, child, parent, find_child, find_parent }))
}

/// The constraints of that name in the schema, or in the first schema of the path that has one.
fn find_constraints(context: &mut SessionContext, r: &nodes::RangeVar, runtime: &dyn Runtime) -> Result<Vec<Oid>> {
    let name = r.relname().unwrap_or("");
    let schemas = context.with_catalog(runtime, |host| host.reader.schemas_to_search(r.schemaname(), true))?;
    let rows = context.catalog_scan(PG_CONSTRAINT)?;
    for schema in schemas {
        let found: Vec<_> =
            rows.iter().filter(|c| c.oid("connamespace") == schema && c.text("conname") == Some(name)).collect();
        if found.is_empty() {
            continue;
        }
        if found.iter().all(|c| !c.bool("condeferrable")) {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("constraint \"{name}\" is not deferrable")));
        }
        // With those of partitions that point at them.
        let mut oids: Vec<Oid> = found.iter().filter(|c| c.bool("condeferrable")).map(|c| c.oid("oid")).collect();
        let mut at = 0;
        while at < oids.len() {
            let parts = rows.iter().filter(|c| c.oid("conparentid") == oids[at]).map(|c| c.oid("oid"));
            let parts: Vec<Oid> = parts.filter(|oid| !oids.contains(oid)).collect();
            oids.extend(parts);
            at += 1;
        }
        return Ok(oids);
    }
    Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("constraint \"{name}\" does not exist")))
}
