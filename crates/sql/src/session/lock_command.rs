//! LOCK TABLE: of tables, and of views with all that they read.

use super::Session;
use crate::client::Runtime;
use crate::privileges::{permission_denied, relation_word};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::ViewStatement;
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::{LockMode, WaitPolicy};
use kilndb_syntax::{Node, nodes};

impl Session {
    pub(super) fn lock_command(&mut self, s: &nodes::LockStmt, runtime: &dyn Runtime) -> Result<String> {
        if !self.context.lives_longer_than_statement() {
            return Err(Error::new(
                sqlstate::NO_ACTIVE_SQL_TRANSACTION,
                "LOCK TABLE can only be used in transaction blocks",
            ));
        }
        let mode = usize::try_from(s.mode - 1).ok().and_then(|i| LockMode::ALL.get(i)).copied();
        let mode = mode.ok_or_else(|| Error::internal("an unknown lock mode"))?;
        let wait = if s.nowait { WaitPolicy::NoWait } else { WaitPolicy::Wait };
        for relation in s.relations() {
            let Node::RangeVar(r) = relation else { continue };
            let relation = self.context.relation_of(r, runtime)?;
            if !matches!(relation.kind, TableKind::Table | TableKind::Partitioned | TableKind::View) {
                let message = format!("cannot lock relation \"{}\"", relation.name);
                let detail = format!("This operation is not supported for {}.", relation.kind.plural());
                return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_detail(detail));
            }
            self.lock_as(self.context.identity.current_role, &relation, (mode, wait), runtime)?;
            if relation.kind == TableKind::View {
                self.lock_behind(&relation, (mode, wait), runtime)?;
            }
        }
        Ok("LOCK TABLE".to_string())
    }

    /// Locks what a view reads, views behind it included, each as whoever it is read for.
    fn lock_behind(&mut self, view: &Table, lock: (LockMode, WaitPolicy), runtime: &dyn Runtime) -> Result<()> {
        let sql = format!("SELECT * FROM {}.{}", quote_identifier(&view.schema_name), quote_identifier(&view.name));
        let plan = self.context.plan_engine_query(&ViewStatement { sql: &sql, into: None, maintained: 0 }, runtime)?;
        let current = self.context.identity.current_role;
        for access in &plan.access.relations {
            // The system's own tables are never locked against their readers.
            let is_locked = matches!(access.table.kind, TableKind::Table | TableKind::Partitioned | TableKind::View);
            if is_locked && !access.table.is_catalog {
                self.lock_as(access.check_as.unwrap_or(current), &access.table, lock, runtime)?;
            }
        }
        Ok(())
    }

    fn lock_as(
        &mut self,
        role: Oid,
        table: &Table,
        (mode, wait): (LockMode, WaitPolicy),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        self.require_lock(role, table, mode)?;
        if self.context.lock_table(table.oid, mode, wait, runtime)? {
            return Ok(());
        }
        let message = format!("could not obtain lock on relation \"{}\"", table.name);
        Err(Error::new(sqlstate::LOCK_NOT_AVAILABLE, message))
    }

    /// 42501 unless a role may lock a table so: who may change rows may keep others from it, who may read them may see
    /// to it that they stay.
    fn require_lock(&mut self, role: Oid, table: &Table, mode: LockMode) -> Result<()> {
        let changing = privilege::UPDATE | privilege::DELETE | privilege::TRUNCATE | privilege::MAINTAIN;
        let wanted = match mode {
            LockMode::AccessShare => privilege::SELECT | privilege::INSERT | changing,
            LockMode::RowShare | LockMode::RowExclusive => privilege::INSERT | changing,
            _ => changing,
        };
        if self.context.with_roles(|roles| table.privileges().has_any(role, wanted, roles))? {
            return Ok(());
        }
        Err(permission_denied(relation_word(table), &table.name))
    }
}
