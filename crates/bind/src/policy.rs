//! Expressions of policies (row security): conditions over one row of the policy's table, which may have subqueries.
//!
//! Invariants
//! 1. The row's columns are those of the relation that the caller gives a number; the table's name tells them, too.
//!
//! Must not know: which policies count for whom, and where their conditions go.

use super::Binder;
use super::ir::Expr;
use super::scope::{ClauseKind, NsItem, Scope};
use kilndb_base::{Error, Result};
use kilndb_catalog::Table;
use kilndb_syntax::Node;
use std::sync::Arc;

impl Binder<'_> {
    /// What USING or WITH CHECK of a policy says.
    pub fn bind_policy_condition(&self, node: Node<'_>, table: &Table, rel: u32) -> Result<Expr> {
        let mut scope = Scope::new(None);
        scope.clause = ClauseKind::Policy;
        let schema = Some(table.schema_name.clone());
        scope.items.push(NsItem { schema, ..NsItem::of_table(rel, table, &table.name) });
        let e = self.bind_expr(node, &scope)?;
        self.coerce_bool(e, "POLICY")
    }

    /// The same, of a policy's kept text.
    pub fn bind_policy_sql(&self, sql: &str, table: &Table, rel: u32) -> Result<Expr> {
        let text = format!("SELECT {sql}");
        let script = kilndb_syntax::parse(&text)?;
        let statements = script.statements();
        let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else {
            return Err(Error::internal("a policy's condition is not an expression"));
        };
        let Some(first) = select.target_list().first() else {
            return Err(Error::internal("a policy's condition is empty"));
        };
        let saved = self.source.replace(Arc::from(text.as_str()));
        let bound = self.bind_policy_condition(first.val(), table, rel);
        self.source.replace(saved);
        bound
    }
}
