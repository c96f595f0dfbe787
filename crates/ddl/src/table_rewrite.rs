//! An ALTER TABLE of several parts: they are done in PostgreSQL's order, whatever order they are written in, and those
//! that change columns write the rows anew but once.
//!
//! Invariants
//! 1. What a part reads of the rows has all columns' new values: constraints come after the rewrite.
//! 2. Beside others a table is copied at most once, and what is done after that concerns the copy.

use super::Definitions;
use super::add_column::AddedColumn;
use super::alter_type::RetypedColumn;
use super::create_table::NewColumn;
use super::online::OwnedChange;
use crate::client::Runtime;
use kilndb_base::{Oid, Result};
use kilndb_bind::engine_query::{ColumnChange, FillValue};
use kilndb_catalog::Table;
use kilndb_syntax::raw::{AlterTableType as A, ConstrType};
use kilndb_syntax::{Node, nodes};
use std::sync::Arc;

/// The columns of one table that one command changes.
pub(super) struct TableRewrite {
    /// The table as it was before.
    pub source: Arc<Table>,
    pub changes: Vec<OwnedChange>,
    pub retyped: Vec<RetypedColumn>,
    pub added: Vec<AddedColumn>,
}

/// When a part has its turn (AlterTablePass in PostgreSQL's tablecmds.c).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Pass {
    Drop,
    AlterType,
    AddColumn,
    ColumnAttributes,
    AddIndex,
    AddConstraint,
    Other,
}

fn pass_of(c: &nodes::AlterTableCmd) -> Pass {
    match (c.subtype, c.def()) {
        (A::AT_DropColumn | A::AT_DropConstraint | A::AT_DropNotNull | A::AT_DropIdentity, _) => Pass::Drop,
        (A::AT_DropExpression | A::AT_ColumnDefault, Node::None) => Pass::Drop,
        (A::AT_AlterColumnType, _) => Pass::AlterType,
        (A::AT_AddColumn, _) => Pass::AddColumn,
        (A::AT_SetNotNull, _) => Pass::ColumnAttributes,
        (A::AT_AddConstraint, Node::Constraint(k)) if is_key(k) => Pass::AddIndex,
        (A::AT_AddConstraint | A::AT_ColumnDefault | A::AT_AddIdentity, _) => Pass::AddConstraint,
        _ => Pass::Other,
    }
}

fn is_key(k: &nodes::Constraint) -> bool {
    matches!(k.contype, ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE)
}

pub(super) fn is_drop(c: &nodes::AlterTableCmd) -> bool {
    pass_of(c) == Pass::Drop
}

/// Whether the part changes the columns that there are, and with them the rows.
pub(super) fn is_of_column(c: &nodes::AlterTableCmd) -> bool {
    matches!(pass_of(c), Pass::AlterType | Pass::AddColumn)
}

/// The parts in the order in which they are done.
pub(super) fn parts_in_order(s: &nodes::AlterTableStmt) -> Vec<&nodes::AlterTableCmd> {
    let part = |node| if let Node::AlterTableCmd(c) = node { Some(c) } else { None };
    let mut parts: Vec<&nodes::AlterTableCmd> = s.cmds().iter().filter_map(part).collect();
    parts.sort_by_key(|c| pass_of(c));
    parts
}

/// Whether some part changes columns and the others touch neither rows nor storage that others use: indexes are built on
/// the copy, or under the lock if there is none.
pub(super) fn may_be_online(s: &nodes::AlterTableStmt) -> bool {
    let parts = parts_in_order(s);
    let is_harmless = |c: &&nodes::AlterTableCmd| match (c.subtype, c.def()) {
        (A::AT_AddConstraint, Node::Constraint(k)) => is_key(k) && k.indexname().is_none(),
        (A::AT_ColumnDefault | A::AT_SetStatistics | A::AT_SetStorage | A::AT_SetCompression, _) => true,
        (A::AT_SetOptions | A::AT_ResetOptions, _) => true,
        _ => is_of_column(c),
    };
    parts.iter().any(|c| is_of_column(c)) && parts.iter().all(is_harmless)
}

impl Definitions<'_> {
    /// Parts that change columns follow.
    pub(super) fn begin_rewrite(&mut self, table: Oid, runtime: &dyn Runtime) -> Result<()> {
        let source = self.context_mut().table_by_oid(table, runtime)?;
        let (changes, retyped, added) = (Vec::new(), Vec::new(), Vec::new());
        self.rewrite = Some(TableRewrite { source, changes, retyped, added });
        Ok(())
    }

    /// The rows get the columns' new values. Returns the columns that are new: what holds for them is not looked at yet.
    pub(super) fn finish_rewrite(&mut self, runtime: &dyn Runtime) -> Result<Vec<NewColumn>> {
        let Some(TableRewrite { source, mut changes, retyped, added }) = self.rewrite.take() else {
            return Ok(Vec::new());
        };
        let writes_rows = !changes.is_empty() || added.iter().any(|column| column.is_filled_row_by_row);
        if writes_rows {
            let new_value = |column: &AddedColumn| OwnedChange::Added {
                attnum: column.attnum,
                value: column.fill_value().unwrap_or(FillValue::Default),
            };
            changes.extend(added.iter().map(new_value));
            let changes: Vec<ColumnChange<'_>> = changes.iter().map(OwnedChange::borrowed).collect();
            self.move_rows_with(&source, (&changes, &[]), runtime)?;
            retyped.iter().try_for_each(|column| self.validate_again(source.oid, column, runtime))?;
        } else {
            // Beside others rows may come at any time, until the lock is there.
            self.finish_online(runtime)?;
        }
        for column in &added {
            if !writes_rows {
                let table = self.context_mut().table_by_oid(source.oid, runtime)?;
                self.fill_column(&table, column, runtime)?;
            }
            self.settle_column(source.oid, column, runtime)?;
        }
        Ok(added.into_iter().map(|added| added.column).collect())
    }
}
