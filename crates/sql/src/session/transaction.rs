//! Transaction blocks, savepoints, commit and rollback.

use super::Session;
use super::portal::Portal;
use crate::client::Runtime;
use crate::context::Block;
use crate::settings::SessionSettings;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_catalog::logged_changes;
use kilndb_storage::{CommitMode, Transaction};

impl Session {
    /// Ends an implicit transaction after its last statement.
    pub(crate) fn finish_implicit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.context.transaction.block == Block::Implicit { self.commit(runtime) } else { Ok(()) }
    }

    pub(crate) fn commit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let began_nanos = self.time_commit();
        let committed = self.commit_now(runtime);
        if let (Some(began_nanos), Ok(())) = (began_nanos, &committed) {
            self.context.cluster.engine.note_commit(self.context.worker, began_nanos);
        }
        committed
    }

    /// When the commit begins, if it is one that is timed: it has something to commit, and it is its turn.
    #[inline]
    fn time_commit(&self) -> Option<u64> {
        self.context.transaction.txn.as_ref().and_then(Transaction::xid)?;
        self.context.cluster.engine.time_commit(self.context.worker, self.context.transaction.statement_timestamp)
    }

    fn commit_now(&mut self, runtime: &dyn Runtime) -> Result<()> {
        self.statements.portals.retain(Portal::holds);
        let done = self.before_commit(runtime).and_then(|()| self.context.prepare_notifications());
        let Some(mut txn) = self.context.transaction.txn.take() else { return done.map(|_| ()) };
        let notifications = match done {
            Ok(notifications) => notifications,
            Err(e) => {
                txn.rollback(runtime)?;
                self.after_end(false);
                return Err(e);
            }
        };
        let mode = if self.context.settings.synchronous_commit { CommitMode::Sync } else { CommitMode::Async };
        let defines = self.context.catalogs.has_ddl && !self.context.catalogs.ddl_changes.is_of_statistics();
        if self.context.catalogs.has_ddl {
            let (database, room) = (self.context.database.oid, txn.most_catalog_changes());
            txn.set_catalog_changes(logged_changes::encode(&self.context.catalogs.ddl_changes, database, room));
        }
        if defines {
            self.context.database.begin_publish();
        }
        let (mut committed, sent) = self.context.commit_and_notify(&mut txn, mode, notifications, runtime);
        if committed.is_err() {
            // SERIALIZABLE: it may not commit.
            committed = txn.rollback(runtime).and(committed);
        }
        if self.context.catalogs.has_ddl {
            let changes = std::mem::take(&mut self.context.catalogs.ddl_changes);
            let csn = self.context.cluster.engine.last_csn();
            if changes.roles {
                self.context.cluster.role_directory.forget();
            }
            let own = self.context.catalogs.private_cache.as_ref().filter(|_| committed.is_ok());
            if defines {
                self.context.database.publish(changes, csn, own.map(|(cache, version)| (&**cache, *version)));
            } else {
                self.context.database.publish_statistics(changes, csn);
            }
        }
        self.after_end(committed.is_ok());
        let wait = committed?.or_else(|| txn.unflushed_seen());
        let flushed = match wait {
            Some(lsn) if mode == CommitMode::Sync => {
                self.context.cluster.engine.wait_flushed_together(lsn, self.context.settings.commit_delay, runtime)
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
        if self.context.transaction.txn.is_none() {
            return Ok(());
        }
        // The savepoints are over: what is checked now is checked for good.
        self.context.transaction.savepoints.clear();
        self.context.transaction.pending.keep_triggers(0);
        self.run_pending_checks(None, runtime)?;
        while self.fire_pending_triggers(None, runtime)? {
            self.run_pending_checks(None, runtime)?;
        }
        self.definitions("COMMIT").run_on_commit(runtime)?;
        match &self.context.transaction.txn {
            Some(txn) if txn.needs_checkpoint() => self.context.cluster.engine.checkpoint_for(txn, runtime),
            _ => Ok(()),
        }
    }

    pub(crate) fn rollback(&mut self, runtime: &dyn Runtime) -> Result<()> {
        self.statements.portals.clear();
        let result = match self.context.transaction.txn.take() {
            Some(mut txn) => txn.rollback(runtime),
            None => Ok(()),
        };
        self.after_end(false);
        result
    }

    fn after_end(&mut self, committed: bool) {
        if self.context.transaction.block != Block::None {
            let (database, now) = (self.context.database.oid, self.context.transaction.statement_timestamp);
            if !self.context.settings.track_counts {
                self.context.transaction.usage.forget_relations();
            }
            self.context.cluster.statistics.transaction_ended(
                self.context.worker,
                database,
                &mut self.context.transaction.usage,
                committed,
                now,
            );
        }
        self.context.transaction.block = Block::None;
        self.context.transaction.savepoints.clear();
        self.context.transaction.pending.checks.clear();
        self.context.transaction.pending.triggers.clear();
        self.context.transaction.pending.modes.clear();
        self.context.end_listening(committed);
        self.context.shared.scratch.exported.borrow_mut().clear();
        self.context.shared.scratch.large_objects.borrow_mut().clear();
        let touched_temporary = self.context.shared.temporary.mark() > 0;
        if committed {
            self.context.change_settings_back(SessionSettings::commit);
            self.context.shared.temporary.commit();
        } else {
            self.context.change_settings_back(|settings| settings.rollback_to(0));
            self.context.undo_temporary(0);
        }
        if touched_temporary {
            self.context.forget_gone_sequences();
        }
        self.context.shared.temporary.end_transaction(!committed && self.context.catalogs.has_ddl);
        if !self.context.transaction.on_commit.is_empty() {
            let temporary = &self.context.shared.temporary;
            self.context.transaction.on_commit.retain(|(oid, _)| temporary.has_relation(*oid));
        }
        if self.context.catalogs.has_ddl {
            self.context.catalogs.has_ddl = false;
            self.context.catalogs.ddl_changes = Default::default();
            self.context.shared.roles.end_transaction();
            self.context.forget_catalog();
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
        match self.context.transaction.block {
            Block::None | Block::Failed => Ok(()),
            Block::Implicit => self.rollback(runtime),
            Block::Explicit => {
                self.statements.portals.clear();
                let mark = self.context.transaction.savepoints.last().map_or(0, |s| s.settings_mark);
                self.context.change_settings_back(|settings| settings.rollback_to(mark));
                self.context.undo_temporary(self.context.transaction.savepoints.last().map_or(0, |s| s.temporary));
                let undone = match (self.context.transaction.savepoints.last(), &mut self.context.transaction.txn) {
                    // Locks and changes before the savepoint stay until the user decides.
                    (Some(entry), Some(txn)) => {
                        self.context.transaction.pending.checks.truncate(entry.pending_checks);
                        self.context
                            .transaction
                            .pending
                            .undo_triggers(entry.pending_triggers, self.context.transaction.savepoints.len());
                        self.context.shared.scratch.listening.borrow_mut().rollback_to(entry.listening);
                        self.context.shared.scratch.large_objects.borrow_mut().rollback_to(entry.large_objects);
                        txn.rollback_to(&entry.storage, runtime)
                    }
                    (None, txn) => match txn.take() {
                        Some(mut txn) => {
                            self.context.shared.scratch.listening.borrow_mut().rollback_to((0, 0));
                            self.context.shared.scratch.large_objects.borrow_mut().clear();
                            txn.rollback(runtime)
                        }
                        None => Ok(()),
                    },
                    (Some(_), None) => Ok(()),
                };
                if self.context.catalogs.has_ddl {
                    self.context.forget_catalog();
                }
                self.context.transaction.block = Block::Failed;
                undone
            }
        }
    }

    pub(crate) fn begin_block(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.context.transaction.block == Block::Explicit {
            self.context.notice(Severity::Warning, "there is already a transaction in progress");
            return Ok(());
        }
        self.context.begin_statement(runtime)?;
        if let Some(txn) = &mut self.context.transaction.txn {
            txn.begin_block();
        }
        self.context.transaction.block = Block::Explicit;
        Ok(())
    }

    /// Returns the command tag: a COMMIT of a failed transaction is a ROLLBACK.
    pub(super) fn commit_block(&mut self, runtime: &dyn Runtime) -> Result<&'static str> {
        match self.context.transaction.block {
            Block::Explicit => self.commit(runtime).map(|()| "COMMIT"),
            Block::Failed => self.rollback(runtime).map(|()| "ROLLBACK"),
            Block::None | Block::Implicit => {
                self.context.shared.scratch.notices.borrow_mut().push(Error::notice(
                    sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                    Severity::Warning,
                    "there is no transaction in progress",
                ));
                self.finish_implicit(runtime).map(|()| "COMMIT")
            }
        }
    }

    pub(super) fn rollback_block(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if !self.context.in_explicit_block() {
            self.context.shared.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                Severity::Warning,
                "there is no transaction in progress",
            ));
        }
        self.rollback(runtime)
    }

    pub(super) fn rollback_to_savepoint(&mut self, name: &str, runtime: &dyn Runtime) -> Result<()> {
        self.context.require_block("ROLLBACK TO SAVEPOINT")?;
        let at = self.context.find_savepoint(name)?;
        self.undo_to_savepoint(at, runtime)?;
        self.statements.portals.clear();
        self.context.transaction.block = Block::Explicit;
        Ok(())
    }

    /// Undoes what was done since savepoint number `at`, which stays.
    pub(crate) fn undo_to_savepoint(&mut self, at: usize, runtime: &dyn Runtime) -> Result<()> {
        self.context.transaction.savepoints.truncate(at + 1);
        let (entry, txn) = match (self.context.transaction.savepoints.last(), &mut self.context.transaction.txn) {
            (Some(entry), Some(txn)) => (entry, txn),
            _ => return Err(Error::internal("a savepoint without a transaction")),
        };
        txn.rollback_to(&entry.storage, runtime)?;
        let mark = entry.settings_mark;
        self.context.change_settings_back(|settings| settings.rollback_to(mark));
        let Some(entry) = self.context.transaction.savepoints.last() else { return Ok(()) };
        self.context.transaction.pending.checks.truncate(entry.pending_checks);
        self.context.transaction.pending.undo_triggers(entry.pending_triggers, at + 1);
        self.context.shared.scratch.listening.borrow_mut().rollback_to(entry.listening);
        self.context.shared.scratch.large_objects.borrow_mut().rollback_to(entry.large_objects);
        self.context.transaction.pending.modes = entry.constraint_modes.clone();
        self.context.transaction.usage.rollback_to(&entry.usage);
        let mark = entry.temporary;
        self.context.undo_temporary(mark);
        self.statements.portals.retain(|p| p.level <= at);
        if self.context.catalogs.has_ddl {
            self.context.forget_catalog();
        }
        Ok(())
    }

    /// COMMIT in a procedure: another transaction of the same kind begins.
    pub(crate) fn commit_within(&mut self, chain: bool, runtime: &dyn Runtime) -> Result<()> {
        let modes = self.context.modes();
        self.commit(runtime)?;
        self.begin_again(chain.then_some(modes), runtime)
    }

    pub(crate) fn roll_back_within(&mut self, chain: bool, runtime: &dyn Runtime) -> Result<()> {
        let modes = self.context.modes();
        let result = match self.context.transaction.txn.take() {
            Some(mut txn) => txn.rollback(runtime),
            None => Ok(()),
        };
        self.statements.portals.retain(Portal::holds);
        self.after_end(false);
        result?;
        self.begin_again(chain.then_some(modes), runtime)
    }

    fn begin_again(&mut self, modes: Option<crate::context::modes::Modes>, runtime: &dyn Runtime) -> Result<()> {
        let statement_timestamp = self.context.transaction.statement_timestamp;
        self.context.begin_statement(runtime)?;
        // The statement's clock goes on; that of the transaction begins.
        self.context.transaction.statement_timestamp = statement_timestamp;
        match modes {
            Some(modes) => self.context.continue_modes(modes),
            None => Ok(()),
        }
    }
}
