//! CALL.

use super::Session;
use super::run::{ClientSink, SinkMaker};
use crate::client::{Client, Runtime};
use crate::host::routine_definition::RoutineKey;
use crate::routine::language::RowColumn;
use crate::routine::{Call, NoVariables, TupleDescriptor, Variable, VariableScope};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::variables::Variables;
use kilndb_exec::RowSink;
use kilndb_plan::Plan;
use kilndb_plan::node::OutputColumn;
use kilndb_syntax::nodes;
use kilndb_types::Datum;
use std::sync::Arc;

/// Keeps the arguments.
struct Arguments(Vec<Datum>);
impl RowSink for Arguments {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.0 = values.to_vec();
        Ok(())
    }
}

struct PlannedCall {
    oid: Oid,
    types: Vec<Oid>,
    /// Of the input arguments.
    plan: Arc<Plan>,
    /// The client's parameters.
    param_types: Vec<Oid>,
    /// The variables that are parameters of the plan.
    uses: Vec<Variable>,
    outputs: Vec<(String, Option<u32>)>,
}

/// Where the parameters among a CALL's arguments come from.
#[derive(Clone, Copy)]
enum CallParameters<'a> {
    /// They are variables of the routine that calls.
    OfRoutine(&'a dyn VariableScope),
    /// A client binds them: their types as far as they are declared.
    OfClient(&'a [Oid]),
}

impl Session {
    pub(super) fn call_command(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        self.context.begin_statement(runtime)?;
        let atomic = self.context.in_explicit_block() || self.context.routine_depth > 0;
        // What the procedure runs is not what the client has bound.
        let formats = self.utility_formats.take();
        let (types, params): (Vec<Oid>, Vec<Datum>) = std::mem::take(&mut self.utility_parameters).into_iter().unzip();
        // Who has bound none has none.
        let given = match types.is_empty() {
            true => CallParameters::OfRoutine(&NoVariables),
            false => CallParameters::OfClient(&types),
        };
        let planned = self.plan_call(s, source, given, runtime)?;
        if let Some((row, values)) = self.run_call(planned, &params, atomic, runtime)? {
            self.utility_formats = formats;
            self.send_output_row(&row, &values, runtime, client)?;
        }
        Ok("CALL".to_string())
    }

    /// Returns the output arguments, if the procedure has any. `scope`: the variables of the routine that calls.
    pub(crate) fn call_procedure(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        scope: &dyn VariableScope,
        atomic: bool,
        runtime: &dyn Runtime,
    ) -> Result<Option<(Arc<TupleDescriptor>, Vec<Datum>)>> {
        let planned = self.plan_call(s, source, CallParameters::OfRoutine(scope), runtime)?;
        let params = planned.uses.iter().map(|v| scope.checked_value(v)).collect::<Result<Vec<_>>>()?;
        self.run_call(planned, &params, atomic, runtime)
    }

    fn run_call(
        &mut self,
        planned: PlannedCall,
        params: &[Datum],
        atomic: bool,
        runtime: &dyn Runtime,
    ) -> Result<Option<(Arc<TupleDescriptor>, Vec<Datum>)>> {
        self.context.require_call(planned.oid, None, runtime)?;
        let mut arguments = Arguments(Vec::new());
        self.run_to_sink(&planned.plan, params, runtime, SinkMaker::Sink(&mut arguments))?;
        let key = RoutineKey { oid: planned.oid, types: planned.types, collation: 0, table: 0, trigger: 0 };
        let compiled = self.compiled(&key, runtime)?;
        let definition = compiled.definition.clone();
        // What is to be restored at its end, it must not end itself.
        let atomic = atomic || compiled.info.security_definer || !compiled.info.config.is_empty();
        let mut call = Call {
            definition: &definition,
            arguments: &arguments.0,
            expected: None,
            rows: None,
            trigger: None,
            atomic,
        };
        let result = self.call_compiled(&compiled, &mut call, None, runtime)?;
        let Some(row) = definition.row.clone() else { return Ok(None) };
        let values = match result {
            Datum::Record(r) => r.fields.iter().map(|f| f.1.clone()).collect(),
            _ => vec![Datum::Null; row.columns.len()],
        };
        Ok(Some((row, values)))
    }

    /// Of each output argument of a CALL, in their order: its name, and the variable that was given for it.
    pub(crate) fn outputs_of_call(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        scope: &dyn VariableScope,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(String, Option<u32>)>> {
        Ok(self.plan_call(s, source, CallParameters::OfRoutine(scope), runtime)?.outputs)
    }

    /// The types of a client's parameters in a CALL, of which some may be declared, and what it answers with, if anything.
    pub(super) fn describe_call(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        declared_types: &[Oid],
        runtime: &dyn Runtime,
    ) -> Result<(Vec<Oid>, Option<Vec<OutputColumn>>)> {
        self.context.begin_statement(runtime)?;
        let planned = self.plan_call(s, source, CallParameters::OfClient(declared_types), runtime)?;
        let key = RoutineKey { oid: planned.oid, types: planned.types, collation: 0, table: 0, trigger: 0 };
        let compiled = self.compiled(&key, runtime)?;
        Ok((planned.param_types, compiled.definition.row.as_ref().map(|row| output_columns(row))))
    }

    fn plan_call(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        parameters: CallParameters<'_>,
        runtime: &dyn Runtime,
    ) -> Result<PlannedCall> {
        let call = s.funccall().ok_or_else(|| Error::internal("CALL without a procedure"))?;
        let environment = self.context.environment(runtime)?;
        let host = environment.host();
        let (scope, declared_types): (&dyn VariableScope, &[Oid]) = match parameters {
            CallParameters::OfRoutine(scope) => (scope, &[]),
            CallParameters::OfClient(types) => (&NoVariables, types),
        };
        let variables = Variables::new(scope);
        let given = Some(&variables).filter(|_| matches!(parameters, CallParameters::OfRoutine(_)));
        let eval = host.eval();
        let bound = kilndb_bind::bind_call(call, source.clone(), &host.reader, (given, declared_types), Some(&eval))?;
        let engine = &self.context.cluster.engine;
        let plan = kilndb_plan::plan(bound.arguments, bound.param_types.clone(), &host.reader, engine, &eval)?;
        let uses = variables.into_used();
        let outputs = bound
            .outputs
            .into_iter()
            .map(|(name, p)| (name, p.and_then(|p| uses.get(p as usize)).map(|v| v.number)))
            .collect();
        let (oid, types, param_types) = (bound.oid, bound.types, bound.param_types);
        Ok(PlannedCall { oid, types, plan, param_types, uses, outputs })
    }

    fn send_output_row(
        &mut self,
        row: &TupleDescriptor,
        values: &[Datum],
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        let columns = output_columns(row);
        let formats = self.begin_rows(&columns, &[], client);
        let environment = self.context.environment(runtime)?;
        let host = environment.host();
        ClientSink { client, columns: &columns, formats: &formats, eval: host.eval() }.row(values)
    }
}

/// The row of a procedure's output arguments, as clients are told of it.
fn output_columns(row: &TupleDescriptor) -> Vec<OutputColumn> {
    let length = |oid: Oid| kilndb_catalog::builtin::BUILTINS.types.get(&oid).map_or(-1, |t| t.len);
    let column = |c: &RowColumn| OutputColumn {
        name: c.name.clone(),
        type_oid: c.type_oid,
        typmod: c.typmod,
        collation: Default::default(),
        type_len: length(c.type_oid),
        shown_type: c.type_oid,
        shown_typmod: c.typmod,
        table_oid: 0,
        attnum: 0,
    };
    row.columns.iter().map(column).collect()
}
