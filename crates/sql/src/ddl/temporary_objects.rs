//! A session's temporary schema, what happens to temporary tables at commit, and their end.

use super::Session;
use crate::catalog::builtin::BOOTSTRAP_SUPERUSER;
use crate::catalog::ids::*;
use crate::catalog::temporary::{TEMPORARY_SCHEMA, is_temporary};
use crate::catalog::{CatalogView, Table};
use crate::client::Runtime;
use crate::session::OnCommit;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::Datum;

impl Session {
    /// `pg_temp_N`, made at first use.
    pub(super) fn own_temporary_schema(&mut self, runtime: &dyn Runtime) -> Result<Oid> {
        if self.temporary.schema().is_none() {
            let name = Datum::text(format!("pg_temp_{}", self.process_id));
            self.write_catalog(runtime, |w| {
                let row = [("oid", Datum::Oid(TEMPORARY_SCHEMA)), ("nspname", name), ("nspowner", Datum::Oid(BOOTSTRAP_SUPERUSER))];
                w.insert(PG_NAMESPACE, &row).map(|_| ())
            })?;
            // The search path may name it.
            self.forget_path();
        }
        Ok(TEMPORARY_SCHEMA)
    }

    /// An OID for a new object: the session's own for one of (or in) something temporary.
    pub(crate) fn new_oid(&mut self, belongs_to: Oid) -> Result<Oid> {
        if is_temporary(belongs_to) { Ok(self.temporary.new_oid()) } else { self.instance.next_oid() }
    }

    /// ON COMMIT of a new table.
    pub(super) fn note_on_commit(&mut self, table: Oid, action: kilndb_syntax::raw::OnCommitAction::Type, persistence: u8) -> Result<()> {
        use kilndb_syntax::raw::OnCommitAction as A;
        if action != A::ONCOMMIT_NOOP && persistence != b't' {
            return Err(Error::new(sqlstate::INVALID_TABLE_DEFINITION, "ON COMMIT can only be used on temporary tables"));
        }
        match action {
            A::ONCOMMIT_DROP => self.on_commit.push((table, OnCommit::Drop)),
            A::ONCOMMIT_DELETE_ROWS => self.on_commit.push((table, OnCommit::DeleteRows)),
            _ => {}
        }
        Ok(())
    }

    /// What is due at the commit for temporary tables.
    pub(crate) fn run_on_commit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.on_commit.is_empty() {
            return Ok(());
        }
        let due = self.on_commit.clone();
        let mut emptied = Vec::new();
        for (oid, action) in &due {
            if let Some(table) = self.with_catalog(runtime, |host| host.reader.table_by_oid(*oid))?
                && *action == OnCommit::DeleteRows
            {
                emptied.push(table);
            }
        }
        for table in &emptied {
            self.refuse_to_empty(table, &due, runtime)?;
        }
        for table in &emptied {
            if self.temporary.relation(&self.instance.engine, table.storage)?.pages() > 0 {
                self.empty_table(table, runtime)?;
            }
        }
        for (oid, action) in due {
            if action == OnCommit::Drop {
                self.drop_table_by_oid(oid, runtime)?;
            }
        }
        Ok(())
    }

    /// A table that is emptied, with a foreign key to it from one that is not.
    fn refuse_to_empty(&mut self, table: &Table, due: &[(Oid, OnCommit)], runtime: &dyn Runtime) -> Result<()> {
        for key in &table.referenced_by {
            if due.contains(&(key.table, OnCommit::DeleteRows)) {
                continue;
            }
            let other = self.table_by_oid(key.table, runtime)?;
            return Err(Error::unsupported("unsupported ON COMMIT and foreign key combination").with_detail(format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                other.name, table.name
            )));
        }
        Ok(())
    }

    /// DISCARD TEMP: all temporary tables, views and sequences of the session.
    pub(crate) fn drop_own_temporary_objects(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let inside: Vec<Oid> = self.temporary.scan(PG_CLASS).iter().filter(|r| r.char("relkind") != b'i').map(|r| r.oid("oid")).collect();
        for oid in &inside {
            if let Some(table) = self.with_catalog(runtime, |host| host.reader.table_by_oid(*oid))? {
                self.drop_relation(&table, true, &inside, runtime)?;
            }
        }
        // Cascades within one's own scratch space are nobody's news.
        self.scratch.notices.borrow_mut().clear();
        Ok(())
    }

    /// The end of the session, whose transaction is over: nobody else knows of its objects.
    pub(crate) fn drop_temporary_objects(&mut self) {
        self.prepared.clear();
        self.temporary.close();
    }
}
