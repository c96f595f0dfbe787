//! DETACH PARTITION, also CONCURRENTLY and FINALIZE.
//!
//! Invariants
//! 1. CONCURRENTLY never holds a lock on the parent that stands in the way of those who read or write it, nor waits in
//!    line for one.
//! 2. A partition whose detaching is pending is none for statements that begin, except for a transaction that keeps an
//!    older snapshot (`exec::partition::seen_map`). Its bound still holds for who names it, and its place is taken.
//! 3. What makes it a table of its own is done when all are gone that held a lock on the parent when it became pending.

use super::Definitions;
use super::constraint::NewConstraint;
use super::partition_attach::wrong_object;
use super::partition_keys::is_reference_part;
use crate::client::{Runtime, SessionControl};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::names::{BoundText, VisibleColumns};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_catalog::partition::{PartitionMap, PartitionStrategy};
use kilndb_catalog::{CatalogView, Column, Table, TableKind};
use kilndb_storage::{LockMode, LockTag};
use kilndb_syntax::raw::AlterTableType as A;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// How often it is looked whether those who are waited for have gone.
const LOOK_AGAIN_NANOS: u64 = 5_000_000;

const FINALIZE_HINT: &str =
    "Use ALTER TABLE ... DETACH PARTITION ... FINALIZE to complete the pending detach operation.";

fn state(message: String) -> Error {
    Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message)
}

/// Does the command consist of a DETACH … CONCURRENTLY?
pub fn detaches_concurrently(s: &nodes::AlterTableStmt) -> bool {
    s.cmds().iter().any(|n| matches!(n, Node::AlterTableCmd(c) if c.subtype == A::AT_DetachPartition && matches!(c.def(), Node::PartitionCmd(p) if p.concurrent)))
}

/// The lock on the table that ALTER TABLE takes for its partitions' sake; None: it does other things too.
pub(super) fn lock_for_partitions(s: &nodes::AlterTableStmt) -> Option<LockMode> {
    let is_light =
        |c: &nodes::AlterTableCmd| matches!(c.subtype, A::AT_AttachPartition | A::AT_DetachPartitionFinalize);
    let light = s.cmds().iter().all(|n| matches!(n, Node::AlterTableCmd(c) if is_light(c)));
    (light || detaches_concurrently(s)).then_some(LockMode::ShareUpdateExclusive)
}

/// A wait that the locks' own graph does not have, shown by pg_blocking_pids until it is over.
struct ShownWait<'a>(&'a SessionControl);

impl ShownWait<'_> {
    fn is_for(&self, owners: &HashSet<u64>) {
        self.0.activity.lock().unwrap_or_else(|e| e.into_inner()).waits_for_owners = owners.iter().copied().collect();
    }
}

impl Drop for ShownWait<'_> {
    fn drop(&mut self) {
        self.is_for(&HashSet::new());
    }
}

impl Definitions<'_> {
    /// The relation that an action on a partitioned table names.
    fn detached_relation(
        &mut self,
        parent: &Table,
        p: &nodes::PartitionCmd,
        action: &str,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Table>> {
        let r = p.name().ok_or_else(|| Error::internal("DETACH PARTITION without a table"))?;
        if parent.kind != TableKind::Partitioned {
            let message = format!("ALTER action {action} cannot be performed on relation \"{}\"", parent.name);
            return Err(wrong_object(message).with_detail("This operation is not supported for tables."));
        }
        self.context_mut().relation_of(r, runtime)
    }

    pub(super) fn detach_partition(
        &mut self,
        parent: &Arc<Table>,
        p: &nodes::PartitionCmd,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let child = self.detached_relation(parent, p, "DETACH PARTITION", runtime)?;
        let map = self.partition_map(parent.oid, runtime)?;
        if p.concurrent && map.default_partition().is_some() {
            return Err(state("cannot detach partitions concurrently when a default partition exists".into()));
        }
        refuse_stranger(parent, &child)?;
        if p.concurrent {
            return self.detach_concurrently(parent, &child, &map, runtime);
        }
        if map.pending.iter().any(|p| p.oid == child.oid) {
            return Err(state(format!("cannot detach partition \"{}\"", child.name))
                .with_detail("The partition is being detached concurrently or has an unfinished detach.")
                .with_hint(FINALIZE_HINT));
        }
        let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
        if map.default_partition().is_some_and(|at| map.partitions[at].oid == child.oid) {
            self.set_default_partition(parent.oid, 0, runtime)?;
        }
        self.detach_now(parent, &child, runtime)
    }

    /// DETACH … FINALIZE: what is left to do after a DETACH CONCURRENTLY that was broken off.
    pub(super) fn finalize_detach(
        &mut self,
        parent: &Arc<Table>,
        p: &nodes::PartitionCmd,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let child = self.detached_relation(parent, p, "DETACH PARTITION ... FINALIZE", runtime)?;
        refuse_stranger(parent, &child)?;
        let map = self.partition_map(parent.oid, runtime)?;
        if !map.pending.iter().any(|p| p.oid == child.oid) {
            return Err(state(format!("cannot complete detaching partition \"{}\"", child.name))
                .with_detail("There's no pending concurrent detach."));
        }
        // Whoever broke it off has not waited for all of them.
        let own = self.context().transaction.txn.as_ref().map(|txn| txn.lock_owner_id());
        self.wait_for_holders(parent.oid, own, runtime)?;
        let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
        self.detach_now(parent, &child, runtime)
    }

    fn detach_concurrently(
        &mut self,
        parent: &Arc<Table>,
        child: &Arc<Table>,
        map: &PartitionMap,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if let Some(other) = map.pending.first() {
            let other = self.context_mut().table_by_oid(other.oid, runtime)?;
            return Err(state(format!(
                "partition \"{}\" already pending detach in partitioned table \"{}.{}\"",
                other.name, parent.schema_name, parent.name
            ))
            .with_hint(FINALIZE_HINT));
        }
        let child = self.lock_for_ddl(child, LockMode::ShareUpdateExclusive, runtime)?;
        for row in
            self.context_mut().catalog_lookup(PG_INHERITS, PG_INHERITS_RELID_SEQNO_INDEX, &[Datum::Oid(child.oid)])?
        {
            let mut pending = row.clone();
            pending.set("inhdetachpending", Datum::Bool(true));
            self.write_catalog(runtime, |w| w.update(&row, pending.values()))?;
        }
        if parent.partition_key.as_ref().is_some_and(|k| k.strategy != PartitionStrategy::Hash) {
            self.keep_bound_as_check(&child, runtime)?;
        }
        self.host.commit(runtime)?;
        self.wait_for_holders(parent.oid, None, runtime)?;
        self.context_mut().begin_statement(runtime)?;
        let [parent_now, child_now] =
            [parent, &child].map(|t| self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(t.oid)));
        let parent = parent_now?
            .ok_or_else(|| state(format!("partitioned table \"{}\" was removed concurrently", parent.name)))?;
        let child =
            child_now?.ok_or_else(|| state(format!("partition \"{}\" was removed concurrently", child.name)))?;
        let parent = self.lock_for_ddl(&parent, LockMode::ShareUpdateExclusive, runtime)?;
        let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
        if !self.partition_map(parent.oid, runtime)?.pending.iter().any(|p| p.oid == child.oid) {
            return Err(state(format!("cannot complete detaching partition \"{}\"", child.name))
                .with_detail("There's no pending concurrent detach."));
        }
        self.detach_now(&parent, &child, runtime)
    }

    /// The bound as a check of the partition's own, unless it has that check already.
    fn keep_bound_as_check(&mut self, child: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        let Some(condition) = self.context_mut().with_catalog(runtime, |host| host.partition_condition(child))? else {
            return Ok(());
        };
        if child.checks.iter().any(|k| k.sql == condition || format!("({})", k.sql) == condition) {
            return Ok(());
        }
        let used: Vec<String> = self.context_mut().with_catalog(runtime, |host| {
            let bound = BoundText::expression(&condition, VisibleColumns::Table(child), &host.reader)?;
            let is_used = |c: &&Column| !c.dropped && bound.refers_to(ObjectAddress::column(child.oid, c.attnum));
            Ok(child.columns.iter().filter(is_used).map(|c| c.name.clone()).collect())
        })?;
        let part = if used.len() == 1 { used } else { Vec::new() };
        let name = self.free_constraint_name(child, &part, "check", &[], runtime)?;
        self.add_bound_check(child, &name, &condition, false, runtime)
    }

    /// A check that all rows fulfil, of a table and of its partitions.
    fn add_bound_check(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        condition: &str,
        is_inherited: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        match table.checks.iter().find(|k| k.name == name) {
            Some(own) if own.sql == condition => {
                let count = own.inherited + 1;
                self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, own.oid, runtime, |row| {
                    row.set("coninhcount", Datum::Int2(count))
                })?;
            }
            Some(_) => {
                return Err(Error::new(
                    sqlstate::DUPLICATE_OBJECT,
                    format!("constraint \"{name}\" for relation \"{}\" already exists", table.name),
                ));
            }
            None => {
                let mut new = NewConstraint::inherited(name, b'c', table, &[], true);
                new.expression = Some(condition);
                new.is_inherited = is_inherited;
                self.insert_constraint(&new, runtime)?;
                let checks = table.checks.len() as i16 + 1;
                self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
                    row.set("relchecks", Datum::Int2(checks))
                })?;
            }
        }
        if table.kind == TableKind::Partitioned {
            for partition in self.partition_oids(table.oid, runtime)? {
                let child = self.context_mut().table_by_oid(partition, runtime)?;
                let child = self.lock_for_ddl(&child, LockMode::ShareUpdateExclusive, runtime)?;
                self.add_bound_check(&child, name, condition, true, runtime)?;
            }
        }
        Ok(())
    }

    /// Waits until all are gone that hold a lock on the table now. Who comes later is not waited for, and waits for
    /// nobody.
    fn wait_for_holders(&mut self, table: Oid, own: Option<u64>, runtime: &dyn Runtime) -> Result<()> {
        let tag = LockTag(RELATION_LOCK, u64::from(self.context().database.oid), u64::from(table));
        let engine = self.context().cluster.engine.clone();
        let holders = || -> HashSet<u64> {
            let locks = engine.locks_snapshot().into_iter();
            locks.filter(|l| l.granted && l.tag == tag && Some(l.owner) != own).map(|l| l.owner).collect()
        };
        let mut left = holders();
        let shown = ShownWait(runtime.control());
        let limit = runtime.control().lock_timeout_nanos.load(Ordering::Relaxed);
        let begun = process_monotonic_nanos();
        while !left.is_empty() {
            shown.is_for(&left);
            let now = process_monotonic_nanos();
            if limit != 0 && now - begun >= limit {
                return Err(Error::new(sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
            }
            runtime.park_for_lock(now + LOOK_AGAIN_NANOS)?;
            let now = holders();
            left.retain(|owner| now.contains(owner));
            // This wait is in no graph.
            if own.is_some_and(|own| left.iter().any(|owner| engine.blockers_of(*owner).contains(&own))) {
                return Err(Error::new(sqlstate::DEADLOCK_DETECTED, "deadlock detected"));
            }
        }
        Ok(())
    }

    /// The partition, locked, becomes a table of its own.
    fn detach_now(&mut self, parent: &Arc<Table>, child: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        let left = self.leave_references(parent, child, runtime)?;
        self.retire_rows(child, runtime)?;
        self.delete_rows(PG_INHERITS, PG_INHERITS_RELID_SEQNO_INDEX, &[Datum::Oid(child.oid)], runtime)?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, child.oid, runtime, |row| {
            row.set("relispartition", Datum::Bool(false));
            row.set("relpartbound", Datum::Null);
        })?;
        self.drop_cloned_triggers(child.oid, runtime)?;
        for column in child.columns.iter().filter(|c| !c.dropped) {
            self.update_attribute(child.oid, column.attnum, runtime, |row| {
                row.set("attislocal", Datum::Bool(true));
                row.set("attinhcount", Datum::Int2(0));
                if column.identity != 0 {
                    row.set("attidentity", Datum::Char(0));
                }
            })?;
        }
        let own =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(child.oid)])?;
        for row in &own {
            if row.int("coninhcount") > 0 && !is_reference_part(row, &own) {
                self.change_constraint(row, runtime, |row| {
                    row.set("coninhcount", Datum::Int2(0));
                    row.set("conislocal", Datum::Bool(true));
                    row.set("conparentid", Datum::Oid(0));
                })?;
                self.settle_key_triggers(row.oid("oid"), runtime)?;
            }
        }
        for index in child.indexes.iter().filter(|i| i.part_of != 0) {
            self.delete_rows(PG_INHERITS, PG_INHERITS_RELID_SEQNO_INDEX, &[Datum::Oid(index.oid)], runtime)?;
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, index.oid, runtime, |row| {
                row.set("relispartition", Datum::Bool(false))
            })?;
        }
        self.leave_whole(child, runtime)?;
        let map = self.partition_map(parent.oid, runtime)?;
        let map = Arc::new(map.without(child.oid));
        self.context_mut().with_catalog(runtime, |host| {
            host.reader.set_partition_map(map);
            Ok(())
        })?;
        self.own_foreign_keys(child, runtime)?;
        for key in left {
            self.delete_constraint(key, runtime)?;
        }
        Ok(())
    }
}

fn refuse_stranger(parent: &Table, child: &Table) -> Result<()> {
    if child.partition_of == parent.oid {
        return Ok(());
    }
    Err(Error::new(
        sqlstate::UNDEFINED_TABLE,
        format!("relation \"{}\" is not a partition of relation \"{}\"", child.name, parent.name),
    ))
}
