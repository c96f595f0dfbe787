//! What the executor asks a session about partitions: it parses and binds on the thread's large stack.

use super::environment::StatementHost;
use crate::catalog::Table;
use crate::exec::expr::CExpr;
use crate::plan::partition::{self, TableRules};
use kilndb_base::{Error, Result};
use std::sync::Arc;

impl StatementHost<'_> {
    pub(super) fn rules_of(&self, table: &Arc<Table>) -> Result<TableRules> {
        if !partition::rules_have_expressions(table) {
            return partition::table_rules(table, &self.reader, &self.instance.engine);
        }
        let mut found = Err(Error::internal("rules were not found"));
        self.runtime.on_large_stack(&mut || found = partition::table_rules(table, &self.reader, &self.instance.engine));
        found
    }

    pub(super) fn key_expressions_of(&self, table: &Table) -> Result<Vec<Option<CExpr>>> {
        let mut found = Err(Error::internal("a key was not found"));
        self.runtime
            .on_large_stack(&mut || found = partition::key_expressions(table, &self.reader, &self.instance.engine));
        found
    }
}
