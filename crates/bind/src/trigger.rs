//! WHEN conditions of triggers, and the tables of changed rows that trigger functions read.

use super::Binder;
use super::from::{UnnamedCall, rows_of_unnamed, table_columns};
use super::ir::*;
use super::scope::{ClauseKind, NsItem, Scope};
use kilndb_base::{Oid, Result};
use kilndb_catalog::Table;
use kilndb_catalog::trigger::Trigger;
use kilndb_syntax::Node;
use kilndb_types::Datum;
use std::sync::Arc;

/// Stand for a function whose rows are those of the running trigger's OLD TABLE and NEW TABLE.
pub const OLD_TABLE_ROWS: Oid = Oid::MAX - 1;
pub const NEW_TABLE_ROWS: Oid = Oid::MAX;

/// A trigger that a statement may fire. Its condition is over the old row (`Dml::old_values_rel`) and the new one
/// (`Dml::new_rel`).
#[derive(Clone, Debug)]
pub struct BoundTrigger {
    pub trigger: Arc<Trigger>,
    pub when: Option<Expr>,
}

impl Binder<'_> {
    /// A condition over OLD and NEW.
    pub fn bind_when(&self, node: Node<'_>, table: &Table, old_rel: u32, new_rel: u32) -> Result<Expr> {
        let mut scope = Scope::new(None);
        scope.clause = ClauseKind::Where;
        for (rel, name) in [(old_rel, "old"), (new_rel, "new")] {
            let mut item = NsItem::of_table(rel, table, name);
            item.cols_visible = false;
            scope.items.push(item);
        }
        let e = self.bind_expr(node, &scope)?;
        self.coerce_bool(e, "WHEN")
    }

    pub fn bind_when_sql(&self, sql: &str, table: &Table, old_rel: u32, new_rel: u32) -> Result<Expr> {
        let text = format!("SELECT {sql}");
        let script = kilndb_syntax::parse(&text)?;
        let statements = script.statements();
        let Some(Node::SelectStmt(s)) = statements.first().map(|s| s.node()) else {
            return Err(kilndb_base::Error::internal("a trigger's condition is not an expression"));
        };
        let Some(first) = s.target_list().first() else {
            return Err(kilndb_base::Error::internal("a trigger's condition is empty"));
        };
        let saved = self.source.replace(Arc::from(text.as_str()));
        let bound = self.bind_when(first.val(), table, old_rel, new_rel);
        self.source.replace(saved);
        bound
    }

    /// The triggers of the table that the statement may fire.
    pub(crate) fn bind_triggers(&self, dml: &mut Dml) -> Result<()> {
        use kilndb_catalog::trigger::{DELETE, INSERT, UPDATE};
        let updates_conflicting = dml.on_conflict.as_ref().is_some_and(|c| c.update.is_some());
        let events = match dml.kind {
            DmlKind::Insert => INSERT | if updates_conflicting { UPDATE } else { 0 },
            DmlKind::Update => UPDATE,
            DmlKind::Delete => DELETE,
            DmlKind::Merge => dml.merge.iter().fold(0, |events, a| events | a.action.event()),
        };
        let table = dml.table.clone();
        for trigger in table.triggers.iter().filter(|t| t.kind & events != 0 && t.enabled != b'D') {
            let bound = self.bind_trigger(trigger, &table, dml.old_values_rel, dml.new_rel)?;
            dml.triggers.push(bound);
        }
        Ok(())
    }

    pub fn bind_trigger(
        &self,
        trigger: &Arc<Trigger>,
        table: &Table,
        old_rel: u32,
        new_rel: u32,
    ) -> Result<BoundTrigger> {
        let when = match &trigger.when_sql {
            Some(sql) => {
                let mut when = self.bind_when_sql(sql, table, old_rel, new_rel)?;
                when.rewrite(&mut |e| {
                    if matches!(e.kind, ExprKind::Column(c) if c.att == ATT_TABLEOID) {
                        e.kind = ExprKind::Const(Datum::Oid(table.oid));
                    }
                    Ok(())
                })?;
                Some(when)
            }
            None => None,
        };
        Ok(BoundTrigger { trigger: trigger.clone(), when })
    }

    /// The running trigger's table of changed rows, as a FROM item.
    pub(super) fn transition_rel(&self, table: &Table, is_new: bool) -> (RelKind, Vec<RelColumn>, Oid) {
        let mut columns = table_columns(table);
        let mut dropped = table.columns.iter().map(|c| c.dropped);
        columns.retain(|_| !dropped.next().unwrap_or(false));
        let (function, shown) = match is_new {
            true => (NEW_TABLE_ROWS, "new table"),
            false => (OLD_TABLE_ROWS, "old table"),
        };
        let call = UnnamedCall { function, shown, args: Vec::new(), returns_set: true };
        (rows_of_unnamed(call, columns.len()), columns, table.type_oid)
    }
}
