//! LANGUAGE sql, for calls that are not inlined: the statements of the body one after the other, the last one's rows
//! the result.

use super::language::*;
use super::spi::*;
use crate::host::routine_definition::Arguments;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::{Binder, is_polymorphic};
use kilndb_catalog::CastContext;
use kilndb_exec::RowSink;
use kilndb_syntax::Node;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

pub(crate) struct SqlLanguage;

struct SqlRoutine {
    statements: Vec<Arc<SpiPrepared>>,
}

/// 0A000 for what may not stand in a function.
fn check_statement(node: &Node<'_>) -> Result<()> {
    use kilndb_syntax::raw::TransactionStmtKind as T;
    match node {
        Node::TransactionStmt(t) => {
            let command = match t.kind {
                T::TRANS_STMT_BEGIN => "BEGIN",
                T::TRANS_STMT_START => "START TRANSACTION",
                T::TRANS_STMT_COMMIT => "COMMIT",
                T::TRANS_STMT_ROLLBACK | T::TRANS_STMT_ROLLBACK_TO => "ROLLBACK",
                T::TRANS_STMT_SAVEPOINT => "SAVEPOINT",
                T::TRANS_STMT_RELEASE => "RELEASE",
                _ => "PREPARE TRANSACTION",
            };
            Err(Error::unsupported(format!("{command} is not allowed in an SQL function")))
        }
        Node::CopyStmt(c) if c.filename().is_none() => {
            Err(Error::unsupported("cannot COPY to/from client in an SQL function"))
        }
        _ => Ok(()),
    }
}

/// What a result column becomes.
struct Converted<'a, 's, 'r> {
    spi: &'a mut Spi<'s>,
    call: &'a mut Call<'r>,
    /// Types of the statement's columns.
    from: Vec<(Oid, i32)>,
    /// Of the result's; empty: as they are.
    to: Vec<(Oid, i32)>,
    /// The only column is the whole row.
    is_whole_row: bool,
}

impl Converted<'_, '_, '_> {
    fn row(&mut self, values: &[Datum]) -> Result<Vec<Datum>> {
        if self.is_whole_row {
            return Ok(match values.first() {
                Some(Datum::Record(r)) => r.fields.iter().map(|f| f.1.clone()).collect(),
                _ => vec![Datum::Null],
            });
        }
        let mut out = Vec::with_capacity(values.len());
        for (i, value) in values.iter().enumerate() {
            out.push(match (self.from.get(i), self.to.get(i)) {
                (Some(from), Some(to)) if from.0 != to.0 => self.spi.convert(value.clone(), *from, *to)?,
                _ => value.clone(),
            });
        }
        Ok(out)
    }
}

/// Keeps what a statement returns, which may use the session no more than the executor does.
#[derive(Default)]
struct Rows(Vec<Vec<Datum>>);
impl RowSink for Rows {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.0.push(values.to_vec());
        Ok(())
    }
}

struct Nowhere;
impl RowSink for Nowhere {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }
}

/// Hands rows on as they are.
struct PassOn<'a>(&'a mut dyn ResultRows);
impl RowSink for PassOn<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.0.push(values)
    }
}

fn context(definition: &Definition, what: &str) -> String {
    format!("SQL function \"{}\"{what}", definition.name)
}

fn parse_body(definition: &Definition, spi: &mut Spi<'_>) -> Result<Vec<Arc<SpiPrepared>>> {
    let statements = spi.parse_script(&definition.body)?;
    for s in &statements {
        check_statement(&s.statement().node())?;
    }
    Ok(statements)
}

fn invalid_result(definition: &Definition, spi: &mut Spi<'_>, detail: impl Into<String>) -> Result<Error> {
    let name = spi.format_type(definition.result_type, -1)?;
    Ok(Error::new(
        sqlstate::INVALID_FUNCTION_DEFINITION,
        format!("return type mismatch in function declared to return {name}"),
    )
    .with_detail(detail))
}

fn mismatch(definition: &Definition, spi: &mut Spi<'_>, detail: impl Into<String>) -> Result<()> {
    Err(invalid_result(definition, spi, detail)?)
}

fn is_assignable(spi: &mut Spi<'_>, from: Oid, to: Oid) -> Result<bool> {
    spi.session.context.with_catalog(spi.runtime, |host| {
        let binder = Binder::new(&host.reader, Arc::from(""), Vec::new());
        Ok(from == to || binder.can_coerce(from, to, CastContext::Assignment)?)
    })
}

/// Does the last statement return what the definition says?
fn check_result(definition: &Definition, last: Option<&Arc<SpiPrepared>>, spi: &mut Spi<'_>) -> Result<()> {
    let returns_nothing = definition.result_type == oids::VOID;
    if returns_nothing {
        return Ok(());
    }
    const NO_ROWS: &str = "Function's final statement must be SELECT or INSERT/UPDATE/DELETE/MERGE RETURNING.";
    let scope = Arguments { definition, values: &[] };
    let row = match last {
        Some(last) if last.is_plannable() => spi.describe(last, &scope)?,
        _ => None,
    };
    let Some(row) = row else { return mismatch(definition, spi, NO_ROWS) };
    let kind = spi.type_kind(definition.result_type)?;
    if definition.row.is_none() && definition.result_type != oids::RECORD {
        if kind == b'p' {
            let name = spi.format_type(definition.result_type, -1)?;
            return Err(Error::new(
                sqlstate::INVALID_FUNCTION_DEFINITION,
                format!("return type {name} is not supported for SQL functions"),
            ));
        }
        let [column] = row.columns.as_slice() else {
            return mismatch(definition, spi, "Final statement must return exactly one column.");
        };
        if !is_assignable(spi, column.type_oid, definition.result_type)? {
            let actual = spi.format_type(column.type_oid, -1)?;
            return mismatch(definition, spi, format!("Actual return type is {actual}."));
        }
        return Ok(());
    }
    if let ([column], true) = (row.columns.as_slice(), definition.kind != RoutineKind::Procedure)
        && definition.result_type != oids::RECORD
        && is_assignable(spi, column.type_oid, definition.result_type)?
    {
        return Ok(());
    }
    let Some(wanted) = &definition.row else { return Ok(()) };
    for (i, column) in row.columns.iter().enumerate() {
        let Some(w) = wanted.columns.get(i) else {
            return mismatch(definition, spi, "Final statement returns too many columns.");
        };
        if !is_assignable(spi, column.type_oid, w.type_oid)? {
            let (actual, w) = (spi.format_type(column.type_oid, -1)?, spi.format_type(w.type_oid, -1)?);
            return mismatch(
                definition,
                spi,
                format!("Final statement returns {actual} instead of {w} at column {}.", i + 1),
            );
        }
    }
    if row.columns.len() < wanted.columns.len() {
        return mismatch(definition, spi, "Final statement returns too few columns.");
    }
    Ok(())
}

impl ProceduralLanguage for SqlLanguage {
    fn name(&self) -> &'static str {
        "sql"
    }

    fn validate(&self, definition: &Definition, spi: &mut Spi<'_>) -> Result<()> {
        let invalid = |message: String| Err(Error::new(sqlstate::INVALID_FUNCTION_DEFINITION, message));
        let mut polymorphic = is_polymorphic(definition.result_type);
        let may_return = matches!(definition.result_type, oids::RECORD | oids::VOID) || polymorphic;
        if !may_return && spi.type_kind(definition.result_type)? == b'p' {
            return invalid(format!(
                "SQL functions cannot return type {}",
                spi.format_type(definition.result_type, -1)?
            ));
        }
        for argument in &definition.arguments {
            if is_polymorphic(argument.type_oid) {
                polymorphic = true;
            } else if spi.type_kind(argument.type_oid)? == b'p' {
                return invalid(format!(
                    "SQL functions cannot have arguments of type {}",
                    spi.format_type(argument.type_oid, -1)?
                ));
            }
        }
        if spi.setting("check_function_bodies").as_deref() == Some("off") {
            return Ok(());
        }
        let checked = parse_body(definition, spi).and_then(|statements| {
            if polymorphic {
                return Ok(());
            }
            let scope = Arguments { definition, values: &[] };
            for s in &statements {
                spi.describe(s, &scope)?;
            }
            check_result(definition, statements.last(), spi)
        });
        checked.map_err(|mut e| {
            // With a position it is shown where it is in the statement.
            if e.0.internal_position.is_none() {
                e.add_context(&context(definition, ""));
            }
            e
        })
    }

    fn compile(&self, definition: &Arc<Definition>, spi: &mut Spi<'_>) -> Result<Arc<dyn CompiledRoutine>> {
        let compiled = parse_body(definition, spi).and_then(|statements| {
            check_result(definition, statements.last(), spi)?;
            Ok(statements)
        });
        let statements = compiled.map_err(|mut e| {
            e.add_context(&context(definition, " during startup"));
            e
        })?;
        Ok(Arc::new(SqlRoutine { statements }))
    }
}

impl CompiledRoutine for SqlRoutine {
    fn call(&self, call: &mut Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
        let definition = call.definition;
        let scope = Arguments { definition, values: call.arguments };
        let in_statement = |mut e: Error, number: usize| {
            e.add_context(&context(definition, &format!(" statement {number}")));
            e
        };
        let last = self.statements.len();
        for (i, s) in self.statements.iter().enumerate().take(last.saturating_sub(1)) {
            spi.run_bare(s, &scope, 0, &mut Nowhere).map_err(|e| in_statement(e, i + 1))?;
        }
        let Some(statement) = self.statements.last() else { return Ok(Datum::Null) };
        if definition.result_type == oids::VOID {
            spi.run_bare(statement, &scope, 0, &mut Nowhere).map_err(|e| in_statement(e, last))?;
            return Ok(Datum::Null);
        }
        run_last(statement, &scope, call, spi).map_err(|e| in_statement(e, last))
    }
}

/// How the columns of the last statement become the result's.
fn conversion_of(
    row: &TupleDescriptor,
    definition: &Definition,
    expected: Option<&TupleDescriptor>,
) -> (Vec<(Oid, i32)>, bool) {
    let wanted = definition.row.as_deref().or(expected);
    match wanted {
        Some(wanted) => {
            let is_whole_row = match row.columns.as_slice() {
                [only] => {
                    definition.kind != RoutineKind::Procedure
                        && definition.row.is_some()
                        && only.type_oid == definition.result_type
                        && definition.result_type != oids::RECORD
                }
                _ => false,
            };
            (wanted.columns.iter().map(|c| (c.type_oid, -1)).collect(), is_whole_row)
        }
        None if definition.result_type == oids::RECORD => (Vec::new(), false),
        None => (vec![(definition.result_type, -1)], false),
    }
}

fn run_last(
    statement: &Arc<SpiPrepared>,
    scope: &Arguments<'_>,
    call: &mut Call<'_>,
    spi: &mut Spi<'_>,
) -> Result<Datum> {
    let definition = call.definition;
    let row = spi.describe(statement, scope)?.ok_or_else(|| Error::internal("a statement without columns"))?;
    if let (Some(expected), None) = (call.expected, &definition.row) {
        let count = row.columns.len().cmp(&expected.columns.len());
        if count.is_ne() {
            let which = if count.is_gt() { "many" } else { "few" };
            return Err(invalid_result(definition, spi, format!("Final statement returns too {which} columns."))?);
        }
        for (i, (have, want)) in row.columns.iter().zip(&expected.columns).enumerate() {
            if !is_assignable(spi, have.type_oid, want.type_oid)? {
                let (have, want) = (spi.format_type(have.type_oid, -1)?, spi.format_type(want.type_oid, -1)?);
                return Err(invalid_result(
                    definition,
                    spi,
                    format!("Final statement returns {have} instead of {want} at column {}.", i + 1),
                )?);
            }
        }
    }
    let (to, is_whole_row) = conversion_of(&row, definition, call.expected);
    let from: Vec<(Oid, i32)> = row.columns.iter().map(|c| (c.type_oid, c.typmod)).collect();
    let as_it_is = !is_whole_row && (to.is_empty() || from.iter().map(|f| f.0).eq(to.iter().map(|t| t.0)));
    if let (true, true, Some(rows)) = (definition.returns_set, as_it_is, call.rows.as_deref_mut()) {
        spi.run_bare(statement, scope, 0, &mut PassOn(rows))?;
        return Ok(Datum::Null);
    }
    let mut kept = Rows::default();
    spi.run_bare(statement, scope, u64::from(!definition.returns_set), &mut kept)?;
    let mut converted = Converted { spi, call, from, to, is_whole_row };
    let mut result = Datum::Null;
    for values in kept.0 {
        let values = converted.row(&values)?;
        if definition.returns_set {
            if let Some(rows) = converted.call.rows.as_deref_mut() {
                rows.push(&values)?;
            }
            continue;
        }
        let is_row = definition.row.is_some() || definition.result_type == oids::RECORD;
        let shape = definition.row.as_deref().unwrap_or(&row);
        let is_null = converted.is_whole_row && values.len() == 1 && values[0].is_null();
        result = if is_row && !is_null {
            Spi::record(shape, &values)
        } else {
            values.into_iter().next().unwrap_or_default()
        };
    }
    Ok(result)
}
