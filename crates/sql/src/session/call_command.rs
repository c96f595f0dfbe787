//! CALL.

use super::Session;
use super::run::SinkMaker;
use crate::bind;
use crate::bind::variables::Variables;
use crate::client::{Client, FieldInfo, Runtime};
use crate::exec::RowSink;
use crate::plan::Plan;
use crate::routine::cache::RoutineKey;
use crate::routine::{Call, NoVariables, RowShape, Variable, VariableScope};
use kilndb_base::{Error, Oid, Result};
use kilndb_syntax::nodes;
use kilndb_types::{Datum, io};
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
    uses: Vec<Variable>,
    outputs: Vec<(String, Option<u32>)>,
}

impl Session {
    pub(super) fn call_command(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<String> {
        self.begin_statement(runtime)?;
        let atomic = self.in_explicit_block() || self.routine_depth > 0;
        if let Some((row, values)) = self.call_procedure(s, source, &NoVariables, atomic, runtime)? {
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
    ) -> Result<Option<(Arc<RowShape>, Vec<Datum>)>> {
        let planned = self.plan_call(s, source, scope, runtime)?;
        let params = planned.uses.iter().map(|v| scope.checked_value(v)).collect::<Result<Vec<_>>>()?;
        let mut arguments = Arguments(Vec::new());
        self.run_to_sink(&planned.plan, &params, runtime, SinkMaker::Sink(&mut arguments))?;
        let key = RoutineKey { oid: planned.oid, types: planned.types, table: 0, trigger: 0 };
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
        Ok(self.plan_call(s, source, scope, runtime)?.outputs)
    }

    fn plan_call(
        &mut self,
        s: &nodes::CallStmt,
        source: &Arc<str>,
        scope: &dyn VariableScope,
        runtime: &dyn Runtime,
    ) -> Result<PlannedCall> {
        let call = s.funccall().ok_or_else(|| Error::internal("CALL without a procedure"))?;
        let environment = self.environment(runtime)?;
        let host = environment.host();
        let variables = Variables::new(scope);
        let mut planned = Err(Error::internal("a CALL was not planned"));
        runtime.on_large_stack(&mut || {
            planned = bind::bind_call(call, source.clone(), &host.reader, Some(&variables), Some(&host.eval()))
                .and_then(|bound| {
                    let plan = crate::plan::plan(
                        bound.arguments,
                        Vec::new(),
                        &host.reader,
                        &self.instance.engine,
                        &host.eval(),
                    )?;
                    Ok((bound.oid, bound.types, plan, bound.outputs))
                });
        });
        let (oid, types, plan, outputs) = planned?;
        let uses = variables.into_used();
        let outputs = outputs
            .into_iter()
            .map(|(name, p)| (name, p.and_then(|p| uses.get(p as usize)).map(|v| v.number)))
            .collect();
        Ok(PlannedCall { oid, types, plan, uses, outputs })
    }

    fn send_output_row(
        &mut self,
        row: &RowShape,
        values: &[Datum],
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<()> {
        let formats = std::mem::take(&mut self.utility_formats);
        let format = |i: usize| super::run::format_of(&formats, i);
        let mut fields = Vec::new();
        let lengths = |oid: Oid| crate::catalog::builtin::BUILTINS.types.get(&oid).map_or(-1, |t| t.len);
        for (i, c) in row.columns.iter().enumerate() {
            fields.push(FieldInfo {
                name: &c.name,
                table_oid: 0,
                attnum: 0,
                type_oid: c.type_oid,
                type_len: lengths(c.type_oid),
                typmod: c.typmod,
                format: format(i),
            });
        }
        client.row_description(&fields);
        let environment = self.environment(runtime)?;
        let host = environment.host();
        let eval = host.eval();
        client.data_row(row.columns.len(), &mut |i, out| {
            let (Some(value), Some(column)) = (values.get(i).filter(|v| !v.is_null()), row.columns.get(i)) else {
                return Ok(false);
            };
            if format(i) == 0 {
                io::output_typmod(column.type_oid, column.typmod, value, out, &eval)?;
            } else {
                io::send_typmod(column.type_oid, column.typmod, value, out, &eval)?;
            }
            Ok(true)
        })
    }
}
