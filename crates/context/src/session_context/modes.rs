//! The modes of a transaction: isolation level, READ ONLY, DEFERRABLE.
//!
//! Invariants
//! 1. A transaction's modes are the defaults of the moment it began, and what was set in it; defaults that change
//!    meanwhile are for later ones.
//! 2. After the first snapshot a transaction cannot become stricter or looser about what it sees, nor READ WRITE again.

use super::Block;
use super::SessionContext;
use crate::client::Runtime;
use crate::settings::{SetBy, SettingScope, check_value, definition};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_storage::{Isolation, SerializableModes, Snapshot};
use kilndb_syntax::Node;

#[derive(Clone, Copy)]
pub struct Modes {
    pub isolation: &'static str,
    pub read_only: bool,
    pub deferrable: bool,
}
impl Default for Modes {
    fn default() -> Modes {
        Modes { isolation: "read committed", read_only: false, deferrable: false }
    }
}

pub(crate) fn isolation_of(name: &str) -> Isolation {
    match name {
        "serializable" => Isolation::Serializable,
        "repeatable read" => Isolation::RepeatableRead,
        _ => Isolation::ReadCommitted,
    }
}

fn too_late(message: &str) -> Error {
    Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, message)
}

impl SessionContext {
    /// Those of the open transaction, or of the next one.
    pub fn modes(&self) -> Modes {
        let defaults = match self.transaction.block {
            Block::None => self.default_modes(),
            _ => self.transaction.modes_at_begin,
        };
        Modes {
            isolation: self.settings.transaction_isolation.unwrap_or(defaults.isolation),
            read_only: self.settings.transaction_read_only.unwrap_or(defaults.read_only),
            deferrable: self.settings.transaction_deferrable.unwrap_or(defaults.deferrable),
        }
    }
    pub(crate) fn default_modes(&self) -> Modes {
        Modes {
            isolation: self.settings.default_isolation,
            read_only: self.settings.default_read_only,
            deferrable: self.settings.default_deferrable,
        }
    }
    pub(crate) fn isolation_name(&self) -> &'static str {
        self.modes().isolation
    }
    pub fn is_read_only(&self) -> bool {
        self.settings.transaction_read_only.unwrap_or(match self.transaction.block {
            Block::None => self.settings.default_read_only,
            _ => self.transaction.modes_at_begin.read_only,
        })
    }

    /// ISOLATION LEVEL, READ ONLY, DEFERRABLE of BEGIN and SET TRANSACTION.
    pub fn transaction_modes<'n>(&mut self, options: impl IntoIterator<Item = Node<'n>>) -> Result<()> {
        for (name, value) in mode_options(options) {
            if !definition(&name).is_some_and(|d| d.descriptor.set_by == SetBy::TransactionMode) {
                return Err(Error::unsupported(format!("transaction mode {name} is not supported")));
            }
            self.set_mode(&name, &value)?;
        }
        Ok(())
    }

    /// SET SESSION CHARACTERISTICS AS TRANSACTION.
    pub fn session_modes<'n>(&mut self, options: impl IntoIterator<Item = Node<'n>>) -> Result<()> {
        for (name, value) in mode_options(options) {
            self.settings.set(&format!("default_{name}"), &value, SettingScope::Session)?;
        }
        Ok(())
    }

    /// Sets a mode of the open transaction.
    pub(crate) fn set_mode(&mut self, name: &str, value: &str) -> Result<()> {
        let Some(definition) = definition(name) else { return Ok(()) };
        let value = check_value(definition, value)?;
        let inside = !self.transaction.savepoints.is_empty();
        let has_snapshot = self.transaction.txn.as_ref().is_some_and(|t| t.has_snapshot());
        match name {
            "transaction_isolation" if value != self.isolation_name() => {
                if has_snapshot {
                    return Err(too_late("SET TRANSACTION ISOLATION LEVEL must be called before any query"));
                }
                if inside {
                    return Err(too_late("SET TRANSACTION ISOLATION LEVEL must not be called in a subtransaction"));
                }
                if let Some(txn) = &mut self.transaction.txn {
                    txn.set_isolation(isolation_of(&value));
                }
            }
            "transaction_read_only" if value == "off" && self.is_read_only() => {
                if inside {
                    return Err(too_late("cannot set transaction read-write mode inside a read-only transaction"));
                }
                if has_snapshot {
                    return Err(too_late("transaction read-write mode must be set before any query"));
                }
            }
            "transaction_deferrable" if inside => {
                return Err(too_late("SET TRANSACTION [NOT] DEFERRABLE cannot be called within a subtransaction"));
            }
            "transaction_deferrable" if has_snapshot => {
                return Err(too_late("SET TRANSACTION [NOT] DEFERRABLE must be called before any query"));
            }
            _ => {}
        }
        self.settings.set(name, &value, SettingScope::Local)
    }

    /// The modes of the transaction before, for AND CHAIN.
    pub fn continue_modes(&mut self, modes: Modes) -> Result<()> {
        self.set_mode("transaction_isolation", modes.isolation)?;
        self.set_mode("transaction_read_only", if modes.read_only { "on" } else { "off" })?;
        self.set_mode("transaction_deferrable", if modes.deferrable { "on" } else { "off" })
    }

    /// The snapshot for a statement. The first of a SERIALIZABLE READ ONLY DEFERRABLE transaction may take its time.
    pub fn take_snapshot(&mut self, runtime: &dyn Runtime) -> Result<Snapshot> {
        let txn =
            self.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction to take a snapshot in"))?;
        if let Some(store) = self.shared.temporary.store() {
            txn.attach(store);
        }
        if txn.isolation() == Isolation::Serializable && !txn.has_snapshot() {
            return self.begin_serializable(runtime);
        }
        Ok(txn.take_snapshot())
    }

    /// Fixes what a transaction that keeps its snapshot sees, before its first statement waits for anything: as in
    /// PostgreSQL, which takes a snapshot to analyze the statement with.
    pub fn fix_snapshot(&mut self, runtime: &dyn Runtime) -> Result<()> {
        match &self.transaction.txn {
            Some(txn) if txn.isolation().keeps_snapshot() && !txn.has_snapshot() => {
                self.take_snapshot(runtime).map(|_| ())
            }
            _ => Ok(()),
        }
    }

    #[cold]
    fn begin_serializable(&mut self, runtime: &dyn Runtime) -> Result<Snapshot> {
        let modes = self.modes();
        let txn =
            self.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction to take a snapshot in"))?;
        txn.set_serializable_modes(SerializableModes {
            read_only: modes.read_only,
            domain: u64::from(self.database.oid),
            session: self.process_id as u64,
        });
        if modes.read_only && modes.deferrable {
            txn.await_safe_snapshot(runtime)?;
        }
        Ok(txn.take_snapshot())
    }
}

/// Names and values of BEGIN's options.
fn mode_options<'n>(options: impl IntoIterator<Item = Node<'n>>) -> Vec<(String, String)> {
    let option = |node: Node<'n>| {
        let Node::DefElem(d) = node else { return None };
        let value = match d.arg() {
            Node::A_Const(c) => super::settings::const_text(c),
            _ => String::new(),
        };
        Some((d.defname().unwrap_or("").to_string(), value))
    };
    options.into_iter().filter_map(option).collect()
}
