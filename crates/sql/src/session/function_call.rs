//! The protocol's FunctionCall message, which libpq's functions for large objects use: one function of pg_proc, by its
//! OID.
//!
//! Invariants
//! 1. A call is a statement like any other, with its own transaction outside of a block: it is run as a query of that
//!    function alone, whose plan sessions share.
//! 2. The client's own unnamed statement and portal stay as they are.

use super::Session;
use super::extended::{Given, given_value};
use super::prepared::{CacheKey, Prepared};
use super::run::{Format, SinkMaker, known_format};
use crate::client::{Client, Runtime};
use crate::host::RowsSink;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_types::{Datum, EvalContext, io};
use std::sync::Arc;

/// A FunctionCall message.
pub struct FunctionCallRequest<'a> {
    pub function: Oid,
    pub argument_formats: &'a [i16],
    pub arguments: &'a [Option<&'a [u8]>],
    pub result_format: i16,
}

impl FunctionCallRequest<'_> {
    fn check_counts(&self, wanted: usize) -> Result<()> {
        let (given, formats) = (self.arguments.len(), self.argument_formats.len());
        let violation = |message: String| Err(Error::new(sqlstate::PROTOCOL_VIOLATION, message));
        if given != wanted {
            return violation(format!(
                "function call message contains {given} arguments but function requires {wanted}"
            ));
        }
        if formats > 1 && formats != given {
            return violation(format!(
                "function call message contains {formats} argument formats but {given} arguments"
            ));
        }
        Ok(())
    }

    fn decode(&self, types: &[Oid], eval: &EvalContext<'_>) -> Result<Vec<Datum>> {
        let value = |(i, (bytes, type_oid)): (usize, (&Option<&[u8]>, &Oid))| {
            let (mut base, mut typmod) = (*type_oid, -1);
            // Whether a domain's value belongs to it is looked at with the call.
            while let Some(under) = eval.host.under_domain(base) {
                (base, typmod) = under;
            }
            match given_value(known_format(self.argument_formats, i)?, *bytes)? {
                Given::Null => Ok(Datum::Null),
                Given::Binary(bytes) => io::receive(base, bytes, typmod, eval).map_err(|e| in_argument(e, i)),
                Given::Text(text) => io::input(base, text, typmod, eval),
            }
        };
        self.arguments.iter().zip(types).enumerate().map(value).collect()
    }
}

/// Says which argument has too many bytes.
fn in_argument(e: Error, index: usize) -> Error {
    const WRONG_FORMAT: &str = "incorrect binary data format";
    if e.sqlstate() != sqlstate::INVALID_BINARY_REPRESENTATION || e.message() != WRONG_FORMAT {
        return e;
    }
    Error::new(e.sqlstate(), format!("{WRONG_FORMAT} in function argument {}", index + 1))
}

impl Session {
    /// What the function gives, in the format asked for; None: NULL.
    pub fn function_call(
        &mut self,
        request: &FunctionCallRequest<'_>,
        runtime: &dyn Runtime,
        client: &mut dyn Client,
    ) -> Result<Option<Vec<u8>>> {
        self.statement_started("<FASTPATH> function call", None, runtime);
        self.note_command("FUNCTION CALL", runtime);
        let done = self.run_function(request, runtime);
        let done = done.and_then(|value| self.finish_implicit(runtime).map(|()| value));
        self.send_notices(client);
        self.statement_ended(runtime);
        if done.is_ok() {
            self.log.end();
        }
        done
    }

    fn run_function(&mut self, request: &FunctionCallRequest<'_>, runtime: &dyn Runtime) -> Result<Option<Vec<u8>>> {
        self.context.refuse_if_failed()?;
        self.context.begin_statement(runtime)?;
        self.context.fix_snapshot(runtime)?;
        let (function, sql) = self.called_function(request, runtime)?;
        let version = self.context.database.version();
        let prepared = self.prepared_call(&sql, &function.arg_types, runtime)?;
        let mut plan = prepared.plan_in(&mut self.context, runtime)?;
        self.context.check_access(&plan)?;
        let types = &function.arg_types;
        let values =
            self.context.with_value_context(types.iter().copied(), runtime, |eval| request.decode(types, eval))?;
        let again =
            self.context.lock_or_replan(&plan, version, runtime, |context| prepared.plan_in(context, runtime))?;
        plan = again.unwrap_or(plan);
        let mut sink = RowsSink::default();
        self.run_locked(&plan, &values, runtime, SinkMaker::Sink(&mut sink))?;
        let value = sink.rows.pop().and_then(|mut row| row.pop()).unwrap_or_default();
        if value.is_null() {
            return Ok(None);
        }
        let format = known_format(&[request.result_format], 0)?;
        let result = function.return_type;
        self.context.with_value_context([result].into_iter(), runtime, |eval| {
            let mut out = Vec::new();
            match format {
                Format::Text => io::output_typmod(result, -1, &value, &mut out, eval)?,
                Format::Binary => io::send_typmod(result, -1, &value, &mut out, eval)?,
            }
            Ok(Some(out))
        })
    }

    /// The function that is meant, and the query that calls it.
    fn called_function(
        &mut self,
        request: &FunctionCallRequest<'_>,
        runtime: &dyn Runtime,
    ) -> Result<(Arc<FunctionInfo>, String)> {
        let oid = request.function;
        self.context.with_catalog(runtime, |host| {
            let missing =
                || Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function with OID {oid} does not exist"));
            let function = host.reader.function_by_oid(oid)?.ok_or_else(missing)?;
            if function.kind != b'f' || function.returns_set {
                let message = format!("cannot call function \"{}\" via fastpath interface", function.name);
                return Err(Error::unsupported(message));
            }
            request.check_counts(function.arg_types.len())?;
            for ty in &function.arg_types {
                if let Some(info) = host.reader.type_by_oid(*ty)?.filter(|info| info.kind == b'p') {
                    return Err(Error::unsupported(format!("cannot accept a value of type {}", info.name)));
                }
            }
            let schema = host.reader.schema_name(function.schema_oid)?.unwrap_or_default();
            let count = function.arg_types.len();
            let argument = |i: usize| match function.variadic != 0 && i == count {
                true => format!("VARIADIC ${i}"),
                false => format!("${i}"),
            };
            let arguments = (1..=count).map(argument).collect::<Vec<_>>().join(", ");
            let sql = format!("SELECT {}.{}({arguments})", quote(&schema), quote(&function.name));
            Ok((function, sql))
        })
    }

    fn prepared_call(&mut self, sql: &str, types: &[Oid], runtime: &dyn Runtime) -> Result<Arc<Prepared>> {
        let key = CacheKey::of(sql, types, &self.context);
        if let Some(known) = key.as_ref().and_then(|key| self.instance.statements.get(key))
            && known.may_be_taken_in(&mut self.context)
        {
            return Ok(known);
        }
        let script = kilndb_syntax::parse(sql)?;
        let prepared = Prepared::new(sql, script.statements().pop(), types, self.context.now());
        let prepared = self.prepare_statement(prepared, runtime)?;
        self.instance.statements.share(key, &prepared, &self.context);
        Ok(prepared)
    }
}
