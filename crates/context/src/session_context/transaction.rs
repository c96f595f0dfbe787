//! The transaction that a session's statements run in: its begin, its savepoints, and what may not run in it.

use super::SessionContext;
use super::modes::{Modes, isolation_of};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_exec::PendingChecks;
use kilndb_exec::stats::Usage;
use kilndb_storage::{Savepoint, Transaction};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Block {
    #[default]
    None,
    /// One statement's, one script's or one pipeline's own transaction.
    Implicit,
    Explicit,
    /// An explicit one in which a statement has failed.
    Failed,
}

pub struct SavepointEntry {
    pub name: String,
    pub storage: Savepoint,
    pub settings_mark: usize,
    /// Pending constraint checks, and SET CONSTRAINTS, as they were.
    pub pending_checks: usize,
    pub pending_triggers: usize,
    pub constraint_modes: kilndb_base::hash::HashMap<kilndb_base::Oid, bool>,
    pub listening: crate::host::ListeningMark,
    /// Large objects that were opened until then.
    pub large_objects: u64,
    /// Changes of the catalog of temporary objects until then.
    pub temporary: usize,
    pub usage: kilndb_exec::stats::UsageMark,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OnCommit {
    DeleteRows,
    Drop,
}

/// The open transaction, and what is due at its end.
#[derive(Default)]
pub struct TransactionState {
    pub txn: Option<Transaction>,
    pub block: Block,
    /// The defaults when the open transaction began.
    pub modes_at_begin: Modes,
    pub savepoints: Vec<SavepointEntry>,
    pub transaction_timestamp: i64,
    pub statement_timestamp: i64,
    /// What happens at commit to temporary tables.
    pub on_commit: Vec<(Oid, OnCommit)>,
    /// Constraint checks put off to the end of the transaction.
    pub pending: PendingChecks,
    /// What the open transaction has done, for the statistics views.
    pub usage: Usage,
    /// All of its statements are told to the log.
    pub is_sampled: bool,
}

impl SessionContext {
    /// Starts a transaction if none is open, and the statement's clock.
    pub fn begin_statement(&mut self, runtime: &dyn Runtime) -> Result<()> {
        // What a routine runs is part of the client's statement.
        if self.routine_depth == 0 {
            self.transaction.statement_timestamp = self.now();
        }
        if self.transaction.txn.is_none() {
            self.transaction.transaction_timestamp = self.transaction.statement_timestamp;
            self.transaction.modes_at_begin = self.default_modes();
            let rate = self.settings.log.transaction_sample_rate;
            self.transaction.is_sampled = rate > 0.0 && self.is_drawn(rate);
            let isolation = isolation_of(self.transaction.modes_at_begin.isolation);
            let engine = &self.cluster.engine;
            // A session with locks of its own does not stand in its own way.
            let txn = match &*self.shared.scratch.advisory.borrow() {
                Some(session) => engine.begin_for(session, isolation, runtime.worker()),
                None => engine.begin(isolation, runtime.worker()),
            };
            let limit = crate::client::deadline_after(self.settings.transaction_timeout_ms);
            runtime.control().transaction_deadline_nanos.store(limit, kilndb_base::sync::atomic::Ordering::Relaxed);
            let (owner, start) = (txn.lock_owner_id(), self.transaction.transaction_timestamp);
            self.update_activity(runtime, |a| {
                a.lock_owner = Some(owner);
                a.xact_start = Some(start);
            });
            self.shared.temporary.buffer_bytes.set(self.settings.temp_buffers_bytes);
            self.transaction.txn = Some(txn);
            self.transaction.block = Block::Implicit;
        }
        Ok(())
    }

    pub fn in_explicit_block(&self) -> bool {
        matches!(self.transaction.block, Block::Explicit | Block::Failed)
    }

    /// What only a transaction block has room for may run here: in one, or in a routine.
    pub fn lives_longer_than_statement(&self) -> bool {
        self.in_explicit_block() || self.routine_depth > 0
    }

    pub fn in_explicit_failure(&self) -> bool {
        self.transaction.block == Block::Failed
    }

    /// 25P02 unless the statement may run in a failed transaction.
    pub fn refuse_if_failed(&self) -> Result<()> {
        if self.transaction.block == Block::Failed {
            return Err(Error::new(
                sqlstate::IN_FAILED_SQL_TRANSACTION,
                "current transaction is aborted, commands ignored until end of transaction block",
            ));
        }
        Ok(())
    }

    /// Temporary objects are as they were at the mark.
    pub fn undo_temporary(&mut self, mark: usize) {
        if self.shared.temporary.mark() <= mark {
            return;
        }
        let had_schema = self.shared.temporary.schema().is_some();
        if let Err(e) = self.shared.temporary.undo_to(mark) {
            self.cluster.log(
                Severity::Warning,
                &format!("the catalog of temporary objects of session {} is damaged: {e}", self.process_id),
            );
        }
        if self.shared.temporary.schema().is_some() != had_schema {
            self.forget_path();
        }
    }

    pub fn require_block(&self, what: &str) -> Result<()> {
        if self.in_explicit_block() {
            return Ok(());
        }
        Err(Error::new(sqlstate::NO_ACTIVE_SQL_TRANSACTION, format!("{what} can only be used in transaction blocks")))
    }

    pub fn savepoint(&mut self, name: &str) -> Result<()> {
        self.require_block("SAVEPOINT")?;
        self.push_savepoint(name);
        Ok(())
    }

    pub fn push_savepoint(&mut self, name: &str) {
        let Some(txn) = &mut self.transaction.txn else { return };
        let storage = txn.savepoint();
        let settings_mark = self.settings.mark();
        self.transaction.savepoints.push(SavepointEntry {
            name: name.to_string(),
            storage,
            settings_mark,
            pending_checks: self.transaction.pending.checks.len(),
            pending_triggers: self.transaction.pending.triggers.len(),
            constraint_modes: self.transaction.pending.modes.clone(),
            listening: self.shared.scratch.listening.borrow().mark(),
            large_objects: self.shared.scratch.large_objects.borrow().mark(),
            temporary: self.shared.temporary.mark(),
            usage: self.transaction.usage.mark(),
        });
    }

    pub fn find_savepoint(&self, name: &str) -> Result<usize> {
        self.transaction.savepoints.iter().rposition(|s| s.name == name).ok_or_else(|| {
            Error::new(sqlstate::INVALID_SAVEPOINT_SPECIFICATION, format!("savepoint \"{name}\" does not exist"))
        })
    }

    pub fn release_savepoint(&mut self, name: &str) -> Result<()> {
        self.require_block("RELEASE SAVEPOINT")?;
        let at = self.find_savepoint(name)?;
        self.transaction.savepoints.truncate(at);
        self.transaction.pending.keep_triggers(at);
        Ok(())
    }

    /// VACUUM, CREATE DATABASE and the like.
    pub fn refuse_in_block(&self, what: &str) -> Result<()> {
        let place = match (self.in_explicit_block(), self.routine_depth > 0) {
            (true, _) => "run inside a transaction block",
            (false, true) => "be executed from a function",
            (false, false) => return Ok(()),
        };
        Err(Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, format!("{what} cannot {place}")))
    }

    /// 25006 in a read-only transaction.
    pub fn refuse_if_read_only(&self, command: &str) -> Result<()> {
        if self.is_read_only() {
            return Err(Error::new(
                sqlstate::READ_ONLY_SQL_TRANSACTION,
                format!("cannot execute {command} in a read-only transaction"),
            ));
        }
        Ok(())
    }

    /// True with this probability.
    pub fn is_drawn(&self, rate: f64) -> bool {
        rate >= 1.0 || ((self.cluster.env.random_u64() >> 11) as f64) < rate * (1u64 << 53) as f64
    }
}
