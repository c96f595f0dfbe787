//! Transaction blocks, savepoints, commit and rollback.

use super::Session;
use super::modes::isolation_of;
use super::portal::Portal;
use crate::client::Runtime;
use crate::settings::SessionSettings;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_catalog::logged_changes;
use kilndb_storage::{CommitMode, Savepoint};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Block {
    None,
    /// One statement's, one script's or one pipeline's own transaction.
    Implicit,
    Explicit,
    /// An explicit one in which a statement has failed.
    Failed,
}

pub(crate) struct SavepointEntry {
    pub name: String,
    pub storage: Savepoint,
    pub settings_mark: usize,
    /// Pending constraint checks, and SET CONSTRAINTS, as they were.
    pub pending_checks: usize,
    pub pending_triggers: usize,
    pub constraint_modes: kilndb_base::hash::HashMap<kilndb_base::Oid, bool>,
    pub listening: super::listen::Mark,
    /// Changes of the catalog of temporary objects until then.
    pub temporary: usize,
    pub usage: kilndb_exec::stats::Mark,
}

impl Session {
    /// Starts a transaction if none is open, and the statement's clock.
    pub(crate) fn begin_statement(&mut self, runtime: &dyn Runtime) -> Result<()> {
        // What a routine runs is part of the client's statement.
        if self.routine_depth == 0 {
            self.statement_timestamp = self.now();
        }
        if self.txn.is_none() {
            self.transaction_timestamp = self.statement_timestamp;
            self.modes_at_begin = self.default_modes();
            self.sample_transaction();
            let isolation = isolation_of(self.modes_at_begin.isolation);
            let engine = &self.instance.engine;
            // A session with locks of its own does not stand in its own way.
            let txn = match &*self.own.scratch.advisory.borrow() {
                Some(session) => engine.begin_for(session, isolation, runtime.worker()),
                None => engine.begin(isolation, runtime.worker()),
            };
            let limit = super::simple::deadline_after(self.settings.transaction_timeout_ms);
            runtime.control().transaction_deadline_nanos.store(limit, kilndb_base::sync::atomic::Ordering::Relaxed);
            let (owner, start) = (txn.lock_owner_id(), self.transaction_timestamp);
            self.update_activity(runtime, |a| {
                a.lock_owner = Some(owner);
                a.xact_start = Some(start);
            });
            self.own.temporary.buffer_bytes.set(self.settings.temp_buffers_bytes);
            self.txn = Some(txn);
            self.block = Block::Implicit;
        }
        Ok(())
    }

    pub(crate) fn in_explicit_block(&self) -> bool {
        matches!(self.block, Block::Explicit | Block::Failed)
    }

    /// What only a transaction block has room for may run here: in one, or in a routine.
    pub(crate) fn lives_longer_than_statement(&self) -> bool {
        self.in_explicit_block() || self.routine_depth > 0
    }

    pub(super) fn in_explicit_failure(&self) -> bool {
        self.block == Block::Failed
    }

    /// 25P02 unless the statement may run in a failed transaction.
    pub(super) fn refuse_if_failed(&self) -> Result<()> {
        if self.block == Block::Failed {
            return Err(Error::new(
                sqlstate::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Ends an implicit transaction after its last statement.
    pub(crate) fn finish_implicit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.block == Block::Implicit { self.commit(runtime) } else { Ok(()) }
    }

    pub(crate) fn commit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        self.own.portals.retain(Portal::holds);
        let done = self.before_commit(runtime).and_then(|()| self.prepare_notifications());
        let Some(mut txn) = self.txn.take() else { return done.map(|_| ()) };
        let notifications = match done {
            Ok(notifications) => notifications,
            Err(e) => {
                txn.rollback(runtime)?;
                self.after_end(false);
                return Err(e);
            }
        };
        let mode = if self.settings.synchronous_commit { CommitMode::Sync } else { CommitMode::Async };
        if self.has_ddl {
            let room = txn.most_catalog_changes();
            txn.set_catalog_changes(logged_changes::encode(&self.ddl_changes, self.database.oid, room));
            self.database.begin_publish();
        }
        let (mut committed, sent) = self.commit_and_notify(&mut txn, mode, notifications, runtime);
        if committed.is_err() {
            // SERIALIZABLE: it may not commit.
            committed = txn.rollback(runtime).and(committed);
        }
        if self.has_ddl {
            let changes = std::mem::take(&mut self.ddl_changes);
            let own =
                self.private_cache.as_ref().filter(|_| committed.is_ok()).map(|(cache, version)| (&**cache, *version));
            self.database.publish(changes, self.instance.engine.last_csn(), own);
        }
        self.after_end(committed.is_ok());
        let wait = committed?.or_else(|| txn.unflushed_seen());
        let flushed = match wait {
            Some(lsn) if mode == CommitMode::Sync => {
                self.instance.engine.wait_flushed_together(lsn, self.settings.commit_delay, runtime)
            }
            _ => Ok(()),
        };
        if let Some(sent) = sent {
            sent.committed();
        }
        flushed
    }

    /// Work that belongs to the transaction but is due at its end.
    fn before_commit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.txn.is_none() {
            return Ok(());
        }
        // The savepoints are over: what is checked now is checked for good.
        self.savepoints.clear();
        self.pending.keep_triggers(0);
        self.run_pending_checks(None, runtime)?;
        while self.fire_pending_triggers(None, runtime)? {
            self.run_pending_checks(None, runtime)?;
        }
        self.run_on_commit(runtime)?;
        match &self.txn {
            Some(txn) if txn.needs_checkpoint() => self.instance.engine.checkpoint_for(txn, runtime),
            _ => Ok(()),
        }
    }

    pub(crate) fn rollback(&mut self, runtime: &dyn Runtime) -> Result<()> {
        self.own.portals.clear();
        let result = match self.txn.take() {
            Some(mut txn) => txn.rollback(runtime),
            None => Ok(()),
        };
        self.after_end(false);
        result
    }

    /// Temporary objects are as they were at the mark.
    fn undo_temporary(&mut self, mark: usize) {
        if self.own.temporary.mark() <= mark {
            return;
        }
        let had_schema = self.own.temporary.schema().is_some();
        if let Err(e) = self.own.temporary.undo_to(mark) {
            self.instance.log(
                Severity::Warning,
                &format!("the catalog of temporary objects of session {} is damaged: {e}", self.process_id),
            );
        }
        if self.own.temporary.schema().is_some() != had_schema {
            self.forget_path();
        }
    }

    fn after_end(&mut self, committed: bool) {
        if self.block != Block::None {
            let (database, now) = (self.database.oid, self.statement_timestamp);
            self.instance.statistics.transaction_ended(self.worker, database, &mut self.usage, committed, now);
        }
        self.block = Block::None;
        self.savepoints.clear();
        self.pending.checks.clear();
        self.pending.triggers.clear();
        self.pending.modes.clear();
        self.end_listening(committed);
        self.own.scratch.exported.borrow_mut().clear();
        let touched_temporary = self.own.temporary.mark() > 0;
        if committed {
            self.change_settings_back(SessionSettings::commit);
            self.own.temporary.commit();
        } else {
            self.change_settings_back(|settings| settings.rollback_to(0));
            self.undo_temporary(0);
        }
        if touched_temporary {
            self.forget_gone_sequences();
        }
        self.own.temporary.end_transaction(!committed && self.has_ddl);
        if !self.on_commit.is_empty() {
            let temporary = &self.own.temporary;
            self.on_commit.retain(|(oid, _)| temporary.has_relation(*oid));
        }
        if self.has_ddl {
            self.has_ddl = false;
            self.ddl_changes = Default::default();
            self.forget_catalog();
        }
    }

    /// A statement has failed: undo what must be undone now.
    pub fn abort_statement(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let undone = self.undo_statement(runtime);
        // Others see that the transaction has failed, and the settings as they are again.
        self.statement_ended(runtime);
        self.log.end();
        undone
    }

    fn undo_statement(&mut self, runtime: &dyn Runtime) -> Result<()> {
        match self.block {
            Block::None | Block::Failed => Ok(()),
            Block::Implicit => self.rollback(runtime),
            Block::Explicit => {
                self.own.portals.clear();
                let mark = self.savepoints.last().map_or(0, |s| s.settings_mark);
                self.change_settings_back(|settings| settings.rollback_to(mark));
                self.undo_temporary(self.savepoints.last().map_or(0, |s| s.temporary));
                let undone = match (self.savepoints.last(), &mut self.txn) {
                    // Locks and changes before the savepoint stay until the user decides.
                    (Some(entry), Some(txn)) => {
                        self.pending.checks.truncate(entry.pending_checks);
                        self.pending.undo_triggers(entry.pending_triggers, self.savepoints.len());
                        self.own.scratch.listening.borrow_mut().rollback_to(entry.listening);
                        txn.rollback_to(&entry.storage, runtime)
                    }
                    (None, txn) => match txn.take() {
                        Some(mut txn) => {
                            self.own.scratch.listening.borrow_mut().rollback_to((0, 0));
                            txn.rollback(runtime)
                        }
                        None => Ok(()),
                    },
                    (Some(_), None) => Ok(()),
                };
                if self.has_ddl {
                    self.forget_catalog();
                }
                self.block = Block::Failed;
                undone
            }
        }
    }

    pub(crate) fn begin_block(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.block == Block::Explicit {
            self.notice(Severity::Warning, "there is already a transaction in progress");
            return Ok(());
        }
        self.begin_statement(runtime)?;
        if let Some(txn) = &mut self.txn {
            txn.begin_block();
        }
        self.block = Block::Explicit;
        Ok(())
    }

    /// Returns the command tag: a COMMIT of a failed transaction is a ROLLBACK.
    pub(super) fn commit_block(&mut self, runtime: &dyn Runtime) -> Result<&'static str> {
        match self.block {
            Block::Explicit => self.commit(runtime).map(|()| "COMMIT"),
            Block::Failed => self.rollback(runtime).map(|()| "ROLLBACK"),
            Block::None | Block::Implicit => {
                self.own.scratch.notices.borrow_mut().push(Error::notice(
                    sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                    Severity::Warning,
                    "there is no transaction in progress",
                ));
                self.finish_implicit(runtime).map(|()| "COMMIT")
            }
        }
    }

    pub(super) fn rollback_block(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if !self.in_explicit_block() {
            self.own.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                Severity::Warning,
                "there is no transaction in progress",
            ));
        }
        self.rollback(runtime)
    }

    fn require_block(&self, what: &str) -> Result<()> {
        if self.in_explicit_block() {
            return Ok(());
        }
        Err(Error::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, format!("{what} can only be used in transaction blocks")))
    }

    pub(super) fn savepoint(&mut self, name: &str) -> Result<()> {
        self.require_block("SAVEPOINT")?;
        self.push_savepoint(name);
        Ok(())
    }

    pub(crate) fn push_savepoint(&mut self, name: &str) {
        let Some(txn) = &mut self.txn else { return };
        let storage = txn.savepoint();
        let settings_mark = self.settings.mark();
        self.savepoints.push(SavepointEntry {
            name: name.to_string(),
            storage,
            settings_mark,
            pending_checks: self.pending.checks.len(),
            pending_triggers: self.pending.triggers.len(),
            constraint_modes: self.pending.modes.clone(),
            listening: self.own.scratch.listening.borrow().mark(),
            temporary: self.own.temporary.mark(),
            usage: self.usage.mark(),
        });
    }

    fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            Error::new(sqlstate::INVALID_SAVEPOINT_SPECIFICATION, format!("savepoint \"{name}\" does not exist"))
        })
    }

    pub(super) fn release_savepoint(&mut self, name: &str) -> Result<()> {
        self.require_block("RELEASE SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.savepoints.truncate(at);
        self.pending.keep_triggers(at);
        Ok(())
    }

    pub(super) fn rollback_to_savepoint(&mut self, name: &str, runtime: &dyn Runtime) -> Result<()> {
        self.require_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.undo_to_savepoint(at, runtime)?;
        self.own.portals.clear();
        self.block = Block::Explicit;
        Ok(())
    }

    /// Undoes what was done since savepoint number `at`, which stays.
    pub(crate) fn undo_to_savepoint(&mut self, at: usize, runtime: &dyn Runtime) -> Result<()> {
        self.savepoints.truncate(at + 1);
        let (entry, txn) = match (self.savepoints.last(), &mut self.txn) {
            (Some(entry), Some(txn)) => (entry, txn),
            _ => return Err(Error::internal("a savepoint without a transaction")),
        };
        txn.rollback_to(&entry.storage, runtime)?;
        let mark = entry.settings_mark;
        self.change_settings_back(|settings| settings.rollback_to(mark));
        let Some(entry) = self.savepoints.last() else { return Ok(()) };
        self.pending.checks.truncate(entry.pending_checks);
        self.pending.undo_triggers(entry.pending_triggers, at + 1);
        self.own.scratch.listening.borrow_mut().rollback_to(entry.listening);
        self.pending.modes = entry.constraint_modes.clone();
        self.usage.rollback_to(&entry.usage);
        let mark = entry.temporary;
        self.undo_temporary(mark);
        self.own.portals.retain(|p| p.level <= at);
        if self.has_ddl {
            self.forget_catalog();
        }
        Ok(())
    }

    /// COMMIT in a procedure: another transaction of the same kind begins.
    pub(crate) fn commit_within(&mut self, chain: bool, runtime: &dyn Runtime) -> Result<()> {
        let modes = self.modes();
        self.commit(runtime)?;
        self.begin_again(chain.then_some(modes), runtime)
    }

    pub(crate) fn roll_back_within(&mut self, chain: bool, runtime: &dyn Runtime) -> Result<()> {
        let modes = self.modes();
        let result = match self.txn.take() {
            Some(mut txn) => txn.rollback(runtime),
            None => Ok(()),
        };
        self.own.portals.retain(Portal::holds);
        self.after_end(false);
        result?;
        self.begin_again(chain.then_some(modes), runtime)
    }

    fn begin_again(&mut self, modes: Option<super::modes::Modes>, runtime: &dyn Runtime) -> Result<()> {
        let statement_timestamp = self.statement_timestamp;
        self.begin_statement(runtime)?;
        // The statement's clock goes on; that of the transaction begins.
        self.statement_timestamp = statement_timestamp;
        match modes {
            Some(modes) => self.continue_modes(modes),
            None => Ok(()),
        }
    }

    /// VACUUM, CREATE DATABASE and the like.
    pub(crate) fn refuse_in_block(&self, what: &str) -> Result<()> {
        if self.routine_depth > 0 {
            return Err(Error::new(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot be executed from a function"),
            ));
        }
        if self.in_explicit_block() {
            return Err(Error::new(
                sqlstate::ACTIVE_SQL_TRANSACTION,
                format!("{what} cannot run inside a transaction block"),
            ));
        }
        Ok(())
    }

    /// 25006 in a read-only transaction.
    pub(crate) fn refuse_if_read_only(&self, command: &str) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::new(
                sqlstate::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {command} in a read-only transaction"),
            ));
        }
        Ok(())
    }
}
