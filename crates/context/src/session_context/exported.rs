//! SET TRANSACTION SNAPSHOT: a transaction reads with a snapshot that another has exported.

use super::SessionContext;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_storage::Isolation;

impl SessionContext {
    /// SET TRANSACTION SNAPSHOT.
    pub fn import_snapshot(&mut self, name: &str) -> Result<()> {
        let too_late =
            || Error::new(sqlstate::ACTIVE_SQL_TRANSACTION, "SET TRANSACTION SNAPSHOT must be called before any query");
        let in_savepoint = !self.transaction.savepoints.is_empty();
        let database = self.database.oid;
        let txn =
            self.transaction.txn.as_mut().ok_or_else(|| Error::internal("no transaction to set the snapshot of"))?;
        if txn.has_snapshot() || txn.xid().is_some() || in_savepoint {
            return Err(too_late());
        }
        if txn.isolation() == Isolation::ReadCommitted {
            return Err(Error::unsupported(
                "a snapshot-importing transaction must have isolation level SERIALIZABLE or REPEATABLE READ",
            ));
        }
        if !name.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'A'..=b'F' | b'-')) {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("invalid snapshot identifier: \"{name}\""),
            ));
        }
        let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("snapshot \"{name}\" does not exist"));
        let exported = self.cluster.exports.find(name).ok_or_else(missing)?;
        if txn.isolation() == Isolation::Serializable {
            return Err(Error::unsupported(match exported.is_serializable {
                true => "importing a snapshot into a serializable transaction is not supported",
                false => "a serializable transaction cannot import a snapshot from a non-serializable transaction",
            }));
        }
        if exported.database != database {
            return Err(Error::unsupported("cannot import a snapshot from a different database"));
        }
        if txn.adopt_snapshot(&exported.snapshot) { Ok(()) } else { Err(too_late()) }
    }
}
