//! Changes of a table's structure beside the load: what takes long (copying rows, filling an index) is done while others
//! read and write, and follows what they change; the lock that the command needs is taken for the last step alone.
//! (PostgreSQL has nothing like it but CREATE INDEX and REINDEX CONCURRENTLY.)
//!
//! Invariants
//! 1. Everything happens in one transaction. Nobody sees any of it before its commit, and a crash, an error or a cancel
//!    at any moment leaves the table as it was.
//! 2. Until the last step the command holds SHARE UPDATE EXCLUSIVE: no other definition of the table, but any statement.
//! 3. A follower (an index, a copy) is what the snapshot of the last round says: all rows that have changed since are
//!    noted by the watch ([`kilndb_storage::ChangeWatch`]). With the lock held and no row noted it is up to date.
//! 4. What others use (the old storage, its read locks) is touched only with the lock held.
//!
//! Must not know: what a command changes in the system tables.

mod copy;
mod index;
mod lock;
mod pace;
mod progress;

pub(crate) use copy::{CopiedTable, OwnedChange};
pub(crate) use pace::{COPYING, PacedRuntime};

use super::Definitions;
use crate::client::Runtime;
use crate::context::Block;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::{Oid, RelationId, Result};
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_catalog::{Index, Table, TableKind};
use kilndb_storage::{ChangeWatch, LockMode, LockTag, Snapshot, WaitPolicy, is_private};
use kilndb_syntax::raw::{AlterTableType as A, ConstrType};
use kilndb_syntax::{Node, nodes};
use std::sync::Arc;

/// With so few changed rows in a round the rest is left to the last step.
const FEW_ROWS: usize = 200;
/// Rounds before the last step, if writers are as fast as this follows them.
const MOST_ROUNDS: usize = 30;
/// While a command goes from partition to partition, those that are done are brought up to date so often.
const CATCHES_UP_EVERY_NANOS: u64 = 1_000_000_000;
/// Rows that one plan looks up by their places.
const ROWS_AT_ONCE: usize = 1024;

/// A change beside the load that has begun.
pub(crate) struct OnlineChange {
    /// The table that the command names, and of a partitioned one those partitions that the command has come to.
    tables: Vec<OnlineTable>,
    /// Other tables that the last step locks.
    other_locks: Vec<(Oid, LockMode)>,
    /// Storage that others use until the last step, and what takes its place.
    replaced: Vec<(RelationId, Vec<RelationId>)>,
    /// When the followers of the tables that are done were last brought up to date.
    caught_up_nanos: u64,
}

/// A table that others go on using.
struct OnlineTable {
    /// The table as others have it.
    source: Arc<Table>,
    /// The lock that the last step takes.
    lock: LockMode,
    watch: Option<Watched>,
    followers: Vec<Follower>,
}

impl OnlineTable {
    fn new(source: Arc<Table>, lock: LockMode) -> OnlineTable {
        OnlineTable { source, lock, watch: None, followers: Vec::new() }
    }
    /// Whether the table's rows are in this storage: a partitioned table has none.
    fn has_rows_in(&self, storage: RelationId) -> bool {
        self.source.kind.has_rows() && self.source.storage == storage
    }
}

impl OnlineChange {
    pub(crate) fn is_of(&self, table: Oid) -> bool {
        self.tables.iter().any(|t| t.source.oid == table)
    }
    fn with_rows_in(&self, storage: RelationId) -> Option<&OnlineTable> {
        self.tables.iter().find(|t| t.has_rows_in(storage))
    }
    fn with_rows_in_mut(&mut self, storage: RelationId) -> Option<&mut OnlineTable> {
        self.tables.iter_mut().find(|t| t.has_rows_in(storage))
    }
}

/// The table's heap is watched.
struct Watched {
    watch: ChangeWatch,
    /// The snapshot that the followers are up to date with.
    seen: Snapshot,
}

/// What follows the table's rows.
enum Follower {
    /// An index that is new, or has new storage, on the table's own heap.
    Index(Oid),
    /// The table's new heap, with its indexes.
    Copy(CopiedTable),
}

/// Whether an ALTER TABLE has one part, and that may read or write all rows.
pub(super) fn is_long(s: &nodes::AlterTableStmt) -> bool {
    let mut parts = s.cmds().iter();
    let (Some(Node::AlterTableCmd(c)), None) = (parts.next(), parts.next()) else { return false };
    match (c.subtype, c.def()) {
        (A::AT_AddColumn | A::AT_AlterColumnType | A::AT_SetLogged | A::AT_SetUnLogged, _) => true,
        (A::AT_AddConstraint, Node::Constraint(k)) => {
            matches!(k.contype, ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE) && k.indexname().is_none()
        }
        _ => false,
    }
}

/// Whether an ALTER TABLE is long that can be done to all partitions of a table beside others, too: they must be changed
/// but once, and a primary key looks at their rows for NULLs before it has a lock on them.
pub(super) fn is_long_for_tree(s: &nodes::AlterTableStmt) -> bool {
    let mut parts = s.cmds().iter();
    let (Some(Node::AlterTableCmd(c)), None) = (parts.next(), parts.next()) else { return false };
    let is_key = |k: &nodes::Constraint| k.contype == ConstrType::CONSTR_PRIMARY;
    match (c.subtype, c.def()) {
        (A::AT_AlterColumnType, _) => true,
        (A::AT_AddColumn, Node::ColumnDef(column)) => {
            !column.constraints().iter().any(|k| matches!(k, Node::Constraint(k) if is_key(k)))
        }
        (A::AT_AddConstraint, Node::Constraint(k)) => !is_key(k) && is_long(s),
        _ => false,
    }
}

impl Definitions<'_> {
    /// Locks a table for a command that needs the lock `full`, for its last step alone if it can do the rest beside
    /// others.
    pub(super) fn lock_online(&mut self, table: &Table, full: LockMode, runtime: &dyn Runtime) -> Result<Arc<Table>> {
        self.lock_online_at(0, table, full, runtime)
    }

    /// As [`Definitions::lock_online`], for a command that is so many routines deep.
    pub(super) fn lock_online_at(
        &mut self,
        depth: usize,
        table: &Table,
        full: LockMode,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Table>> {
        let is_fit = table.kind.has_rows() && self.may_begin_online(depth) && self.can_follow(table);
        self.begin_online(table, full, is_fit, runtime)
    }

    /// As [`Definitions::lock_online`], also for a partitioned table, of whose partitions the command makes the same
    /// ([`Definitions::lock_part_online`]).
    pub(super) fn lock_tree_online(
        &mut self,
        table: &Table,
        full: LockMode,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Table>> {
        let is_fit = self.may_begin_online(0) && self.can_follow(table);
        self.begin_online(table, full, is_fit, runtime)
    }

    /// Locks a partition for a command about the whole table: as the whole is locked, if the command can do with the
    /// partition's rows what takes long beside others.
    pub(super) fn lock_part_online(
        &mut self,
        table: &Table,
        full: LockMode,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Table>> {
        match &self.online {
            Some(online) if online.is_of(table.oid) => return self.context_mut().table_by_oid(table.oid, runtime),
            Some(_) if self.can_follow(table) => {}
            _ => {
                // With a full lock on a part, the whole's cannot be waited for: its writers may wait for the part.
                self.finish_online(runtime)?;
                return self.lock_for_ddl(table, full, runtime);
            }
        }
        self.catch_up_now_and_then(runtime)?;
        self.refuse_if_running(table, full)?;
        self.context_mut().lock_table(table.oid, LockMode::ShareUpdateExclusive, WaitPolicy::Wait, runtime)?;
        let source = self.context_mut().table_by_oid(table.oid, runtime)?;
        if !self.can_follow(&source) {
            self.finish_online(runtime)?;
            return self.lock_for_ddl(table, full, runtime);
        }
        if let Some(online) = &mut self.online {
            online.tables.push(OnlineTable::new(source.clone(), full));
        }
        Ok(source)
    }

    fn begin_online(
        &mut self,
        table: &Table,
        full: LockMode,
        is_fit: bool,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Table>> {
        if !is_fit {
            return self.lock_for_ddl(table, full, runtime);
        }
        self.refuse_if_running(table, full)?;
        let weak = LockMode::ShareUpdateExclusive;
        if !self.context_mut().lock_table(table.oid, weak, WaitPolicy::NoWait, runtime)? {
            // Who has a lock that this one alone conflicts with, and not the one that the command is known for, is not
            // waited for.
            if full == LockMode::Share && self.is_shared_alone(table.oid) {
                return self.lock_for_ddl(table, full, runtime);
            }
            self.context_mut().lock_table(table.oid, weak, WaitPolicy::Wait, runtime)?;
        }
        let source = self.context_mut().table_by_oid(table.oid, runtime)?;
        if source.kind != table.kind || !self.can_follow(&source) {
            return self.lock_for_ddl(table, full, runtime);
        }
        self.online = Some(OnlineChange {
            tables: vec![OnlineTable::new(source.clone(), full)],
            other_locks: Vec::new(),
            replaced: Vec::new(),
            caught_up_nanos: process_monotonic_nanos(),
        });
        Ok(source)
    }

    /// Whether all who hold more than a writer's lock on the table hold SHARE.
    fn is_shared_alone(&self, table: Oid) -> bool {
        let tag = LockTag(RELATION_LOCK, u64::from(self.context().database.oid), u64::from(table));
        let held = self.context().cluster.engine.locks_snapshot().into_iter();
        held.filter(|lock| lock.granted && lock.tag == tag && lock.mode > LockMode::RowExclusive)
            .all(|lock| lock.mode == LockMode::Share)
    }

    /// Whether a command can be done beside others: by itself, not in a block whose later statements would find a lock
    /// that they did not ask for.
    fn may_begin_online(&self, depth: usize) -> bool {
        let context = self.context();
        let is_alone = context.transaction.block == Block::Implicit && context.routine_depth == depth;
        context.settings.online_ddl && is_alone && self.online.is_none()
    }

    /// Whether there is a way to follow what others do to the table's rows.
    fn can_follow(&self, table: &Table) -> bool {
        let has_storage = table.kind.has_rows() && !is_private(table.storage);
        (has_storage || table.kind == TableKind::Partitioned)
            && matches!(table.persistence, b'p' | b'u')
            && !table.is_catalog
            && !table.indexes.iter().any(|index| index.is_in_whole || index.is_global)
    }

    /// Whether the heap that this description of the table has is one that others go on writing to.
    pub(super) fn is_online(&self, table: &Table) -> bool {
        self.online.as_ref().is_some_and(|online| online.with_rows_in(table.storage).is_some())
    }

    /// The snapshot of the watched table that a follower begins with.
    pub(super) fn followed_snapshot(&mut self, table: &Table, runtime: &dyn Runtime) -> Result<Snapshot> {
        let internal = || kilndb_base::Error::internal("no change of this table is going on beside others");
        let online = self.online.as_ref().and_then(|online| online.with_rows_in(table.storage));
        if let Some(watched) = &online.ok_or_else(internal)?.watch {
            return Ok(watched.seen.clone());
        }
        let heap = self.context().cluster.engine.relation(table.storage)?;
        let watch = heap.watch_changes()?;
        let seen = self.newest_snapshot()?;
        watch.note_unsettled(&seen, &PacedRuntime::new(runtime, &self.context().cluster.engine, COPYING))?;
        let online = self.online.as_mut().and_then(|online| online.with_rows_in_mut(table.storage));
        online.ok_or_else(internal)?.watch = Some(Watched { watch, seen: seen.clone() });
        Ok(seen)
    }

    /// All that is committed by now, and what the transaction has done itself.
    pub(super) fn newest_snapshot(&mut self) -> Result<Snapshot> {
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        self.context_mut().catalog_snapshot()
    }

    /// The index is filled with what the first snapshot of its table has, and is kept up to date from now on.
    pub(super) fn follow_with_index(&mut self, table: &Table, index: &Index) {
        self.follow_with(table.storage, Follower::Index(index.oid));
    }

    /// The copy is filled with what the first snapshot has, and is kept up to date from now on.
    pub(super) fn follow_with_copy(&mut self, copy: CopiedTable) {
        self.follow_with(copy.source.storage, Follower::Copy(copy));
    }

    fn follow_with(&mut self, storage: RelationId, follower: Follower) {
        if let Some(table) = self.online.as_mut().and_then(|online| online.with_rows_in_mut(storage)) {
            table.followers.push(follower);
        }
    }

    /// Another table is locked in the last step too. False: there is no last step, so it is to be locked now.
    pub(super) fn lock_later(&mut self, table: Oid, mode: LockMode) -> bool {
        let Some(online) = &mut self.online else { return false };
        online.other_locks.push((table, mode));
        true
    }

    /// Old storage goes with the last step. False: nobody else uses it, so it can go now.
    pub(super) fn replace_later(&mut self, old: RelationId, new: &[RelationId]) -> bool {
        let Some(online) = &mut self.online else { return false };
        let is_used = online
            .tables
            .iter()
            .any(|table| table.has_rows_in(old) || table.source.indexes.iter().any(|index| index.storage == old));
        if is_used {
            online.replaced.push((old, new.to_vec()));
        }
        is_used
    }

    /// The last step: the lock, what has changed since the last round, and the end of the old storage.
    pub(super) fn finish_online(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let Some(online) = self.online.take() else { return Ok(()) };
        self.begin_catching_up(&online, runtime);
        let keeping_up = runtime.control().keep_up();
        let done = self.take_last_step(online, runtime);
        drop(keeping_up);
        runtime.control().progress.end();
        done
    }

    fn take_last_step(&mut self, mut online: OnlineChange, runtime: &dyn Runtime) -> Result<()> {
        self.catch_up(&mut online, runtime)?;
        self.take_full_lock(&mut online, runtime)?;
        while online.tables.iter().filter_map(|t| t.watch.as_ref()).any(|watched| !watched.watch.is_empty()) {
            self.follow_changes(&mut online, runtime)?;
        }
        for (old, new) in std::mem::take(&mut online.replaced) {
            self.drop_replaced(old, &new)?;
        }
        for follower in online.tables.into_iter().flat_map(|table| table.followers) {
            if let Follower::Copy(copy) = follower {
                self.drop_storage(copy.places)?;
            }
        }
        Ok(())
    }

    /// Storage goes with the commit. Who has read of it has read of what takes its place.
    pub(super) fn drop_replaced(&mut self, old: RelationId, new: &[RelationId]) -> Result<()> {
        for new in new {
            self.context().cluster.engine.move_read_locks(old, *new)?;
        }
        self.drop_storage(old)
    }

    /// Partitions that are done do not fall far behind while the command goes on with the next ones.
    fn catch_up_now_and_then(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let now = process_monotonic_nanos();
        if self.online.as_ref().is_none_or(|online| now < online.caught_up_nanos + CATCHES_UP_EVERY_NANOS) {
            return Ok(());
        }
        let Some(mut online) = self.online.take() else { return Ok(()) };
        self.catch_up(&mut online, runtime)?;
        online.caught_up_nanos = process_monotonic_nanos();
        self.online = Some(online);
        Ok(())
    }

    /// Rounds until little is left.
    fn catch_up(&mut self, online: &mut OnlineChange, runtime: &dyn Runtime) -> Result<()> {
        if online.tables.iter().all(|table| table.watch.is_none()) {
            return Ok(());
        }
        let runtime = &PacedRuntime::new(runtime, &self.context().cluster.engine, pace::FOLLOWING);
        for _ in 0..MOST_ROUNDS {
            if self.follow_changes(online, runtime)? <= FEW_ROWS {
                break;
            }
        }
        Ok(())
    }

    /// A round: the followers become what the newest snapshot says. Returns how many rows were looked at.
    fn follow_changes(&mut self, online: &mut OnlineChange, runtime: &dyn Runtime) -> Result<usize> {
        let now = self.newest_snapshot()?;
        let mut count = 0;
        for table in &mut online.tables {
            let Some(watched) = &mut table.watch else { continue };
            let rows = watched.watch.take();
            for follower in table.followers.iter().filter(|_| !rows.is_empty()) {
                match follower {
                    Follower::Index(index) => self.follow_index(*index, &rows, (&watched.seen, &now), runtime)?,
                    Follower::Copy(copy) => self.follow_copy(copy, &rows, &now, runtime)?,
                }
            }
            for rid in &rows {
                watched.watch.note_if_unsettled(*rid, &now)?;
            }
            watched.seen = now.clone();
            count += rows.len();
        }
        Ok(count)
    }
}
