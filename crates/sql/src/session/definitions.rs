//! Sessions as definitions have them.

use super::Session;
use super::command::command_of;
use super::run::{PlanRun, SinkMaker};
use crate::client::Runtime;
use crate::context::SessionContext;
use crate::ddl::{DefinitionHost, DefinitionStatement, Definitions};
use crate::host::routine_definition::Definition;
use crate::routine::Spi;
use kilndb_base::{Oid, Result};
use kilndb_catalog::trigger::TriggerOperation;
use kilndb_catalog::{FunctionInfo, Table};
use kilndb_exec::RowSink;
use kilndb_plan::Plan;
use kilndb_storage::Snapshot;
use std::sync::Arc;

impl Session {
    /// For what a session has done to the catalogs besides definitions: at the end of a transaction, in VACUUM.
    pub(crate) fn definitions(&mut self, command: &'static str) -> Definitions<'_> {
        Definitions::new(self, command, None)
    }
}

impl DefinitionHost for Session {
    fn context(&self) -> &SessionContext {
        &self.context
    }
    fn context_mut(&mut self) -> &mut SessionContext {
        &mut self.context
    }
    fn run_plan(
        &mut self,
        plan: &Arc<Plan>,
        snapshot: Snapshot,
        runtime: &dyn Runtime,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let progress = self.advance(PlanRun::whole(plan, &[], snapshot), &mut None, runtime, SinkMaker::Sink(sink))?;
        Ok(progress.rows)
    }
    fn any_running(&self, uses: &dyn Fn(&Plan) -> bool) -> bool {
        self.routines.running_plans.iter().any(|plan| uses(plan)) || self.statements.portals.any_open(uses)
    }
    fn commit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        Session::commit(self, runtime)
    }
    fn define(&mut self, definition: &DefinitionStatement<'_>) -> Result<String> {
        self.run_definition(command_of(&definition.node), definition)
    }
    fn fire_statement_triggers(
        &mut self,
        table: &Arc<Table>,
        operation: TriggerOperation,
        bits: i16,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        Session::fire_statement_triggers(self, table, operation, bits, runtime)
    }
    fn check_routine(&mut self, definition: &Definition, info: &FunctionInfo, runtime: &dyn Runtime) -> Result<()> {
        let language = self.language_of(&info.language)?;
        // Its maker is asked, not whoever it will run as.
        let info = FunctionInfo { security_definer: false, ..info.clone() };
        self.within_clauses(&info, |session| {
            let mut spi = Spi { session, runtime, read_only: false, atomic: true, snapshot: None };
            language.validate(definition, &mut spi)
        })
    }
    fn forget_database(&self, database: Oid) {
        self.context.cluster.forget_database(database);
        self.instance.routines.forget(database);
    }
}
