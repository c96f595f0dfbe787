//! Built-in functions that run statements or fire as triggers: ts_stat, ts_rewrite of a query's text, the triggers that
//! keep a tsvector column.

use super::language::*;
use super::spi::*;
use crate::host::functions::reg_lookup;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::functions::*;
use kilndb_ddl::partition_table::{NewPartitions, PartitioningRequest};
use kilndb_exec::RowSink;
use kilndb_fulltext::TsQuery;
use kilndb_fulltext::config::DocumentWords;
use kilndb_fulltext::rewrite::Rewriter;
use kilndb_fulltext::statistics::Statistics;
use kilndb_fulltext::vector_ops::parse_weight;
use kilndb_types::context::TextSearchCatalog;
use kilndb_types::functions::get;
use kilndb_types::{Datum, Record, oids};
use std::sync::Arc;

pub(crate) struct BuiltIn;

impl ProceduralLanguage for BuiltIn {
    fn name(&self) -> &'static str {
        "internal"
    }
    fn validate(&self, _definition: &Definition, _spi: &mut Spi<'_>) -> Result<()> {
        Err(Error::unsupported("language \"internal\" is not supported"))
    }
    fn compile(&self, _definition: &Arc<Definition>, _spi: &mut Spi<'_>) -> Result<Arc<dyn CompiledRoutine>> {
        Ok(Arc::new(BuiltIn))
    }
}

impl CompiledRoutine for BuiltIn {
    fn call(&self, call: &mut Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
        match call.definition.oid {
            REWRITE => rewrite(call.arguments, spi),
            STATISTICS | STATISTICS_OF_WEIGHTS => statistics(call, spi),
            UPDATE_BY_NAME | UPDATE_BY_COLUMN => update(call, spi),
            PARTITION_TABLE | PARTITION_TABLE_BY_HASH => partition_table(call, spi),
            oid => Err(Error::internal(format!("function {oid} is no routine"))),
        }
    }
}

/// CALL kiln_partition_table(table, by, partitions).
fn partition_table(call: &Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
    let [table, by, partitions] = call.arguments else { return Err(Error::internal("an argument is missing")) };
    let null = || Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "arguments of kiln_partition_table must not be null");
    if table.is_null() || by.is_null() || partitions.is_null() {
        return Err(null());
    }
    let partitions = match partitions {
        Datum::Array(list) => {
            let texts = list.elements.iter().map(|text| if text.is_null() { Err(null()) } else { get::text(text) });
            NewPartitions::Listed(texts.map(|text| text.map(str::to_string)).collect::<Result<_>>()?)
        }
        count => NewPartitions::ByHash(get::int4(count)?),
    };
    let request =
        PartitioningRequest { table: get::oid(table)?, by: get::text(by)?, partitions, is_alone: !spi.is_atomic() };
    let runtime = spi.runtime;
    let mut definitions = spi.session.definitions("CALL");
    let done = definitions.partition_table(&request, runtime).map(|()| String::new());
    definitions.finish_command(done, runtime)?;
    Ok(Datum::Null)
}

fn invalid(message: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

/// Runs a query whose columns must be of a type.
fn query(text: &Datum, types: &[Oid], complaint: &str, spi: &mut Spi<'_>, sink: &mut dyn RowSink) -> Result<()> {
    let prepared = spi.prepare(get::text(text)?, ParseMode::Statement, &NoVariables)?;
    let row = spi.describe(&prepared, &NoVariables)?.ok_or_else(|| invalid(complaint))?;
    let mut found = Vec::new();
    for column in &row.columns {
        found.push(spi.base_type(column.type_oid)?);
    }
    if found != types {
        return Err(invalid(complaint));
    }
    spi.run(&prepared, &NoVariables, 0, sink).map(|_| ())
}

struct Counted(Statistics);
impl RowSink for Counted {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        match values.first() {
            Some(Datum::Null) | None => Ok(()),
            Some(value) => {
                self.0.add(get::tsvector(value)?);
                Ok(())
            }
        }
    }
}
fn statistics(call: &mut Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
    let weights = match call.arguments.get(1) {
        // What is no weight is passed over.
        Some(letters) => {
            get::text(letters)?.bytes().filter_map(|b| parse_weight(b).ok()).fold(0, |mask, weight| mask | 1 << weight)
        }
        None => 0,
    };
    let mut counted = Counted(Statistics::new(weights));
    query(
        get::arg(call.arguments, 0)?,
        &[oids::TSVECTOR],
        "ts_stat query must return one tsvector column",
        spi,
        &mut counted,
    )?;
    let number = |n: u32| Datum::Int4(i32::try_from(n).unwrap_or(i32::MAX));
    for (word, documents, entries) in counted.0.rows() {
        if let Some(rows) = call.rows.as_deref_mut() {
            rows.push(&[Datum::text(word), number(documents), number(entries)])?;
        }
    }
    Ok(Datum::Null)
}

struct Rewritten(Rewriter);
impl RowSink for Rewritten {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        if let [what @ Datum::TsQuery(_), by @ Datum::TsQuery(_)] = values {
            let what: &TsQuery = get::tsquery(what)?;
            if !what.is_empty() && self.0.replace(what, get::tsquery(by)?)? {
                self.0.settle()?;
            }
        }
        Ok(())
    }
}
fn rewrite(arguments: &[Datum], spi: &mut Spi<'_>) -> Result<Datum> {
    let original = get::arg(arguments, 0)?;
    let parsed: &TsQuery = get::tsquery(original)?;
    if parsed.is_empty() {
        return Ok(original.clone());
    }
    let mut rewritten = Rewritten(Rewriter::new(parsed)?);
    let complaint = "ts_rewrite query must return two tsquery columns";
    query(get::arg(arguments, 1)?, &[oids::TSQUERY, oids::TSQUERY], complaint, spi, &mut rewritten)?;
    Ok(Datum::TsQuery(Arc::new(rewritten.0.finish()?)))
}

/// A row on its way into a table.
struct Row<'a> {
    table: &'a TriggerTable,
    record: &'a Record,
}

impl Row<'_> {
    /// The place of a column that must be of a type.
    fn place(&self, name: &str, kind: &str, wanted: &[Oid], what: &str, spi: &mut Spi<'_>) -> Result<usize> {
        let missing = || Error::new(sqlstate::UNDEFINED_COLUMN, format!("{kind} \"{name}\" does not exist"));
        let at = self.table.row.columns.iter().position(|c| c.name == name).ok_or_else(missing)?;
        let ty = spi.base_type(self.table.row.columns.get(at).map_or(0, |c| c.type_oid))?;
        if !wanted.contains(&ty) {
            return Err(Error::new(sqlstate::DATATYPE_MISMATCH, format!("column \"{name}\" is not of {what} type")));
        }
        Ok(at)
    }
    fn value(&self, at: usize) -> &Datum {
        self.record.fields.get(at).map_or(&Datum::Null, |f| &f.1)
    }
}

fn update(call: &Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
    let wrong = |what: &str| Error::internal(format!("tsvector_update_trigger: {what}"));
    let (Some(event), Some(table)) = (call.trigger, &call.definition.trigger_table) else {
        return Err(wrong("not fired by trigger manager"));
    };
    if !event.for_each_row {
        return Err(wrong("must be fired for row"));
    }
    if event.time != TriggerTime::Before {
        return Err(wrong("must be fired BEFORE event"));
    }
    let new = match (event.operation, &event.new) {
        (TriggerOperation::Insert | TriggerOperation::Update, Some(Datum::Record(new))) => new,
        _ => return Err(wrong("must be fired for INSERT or UPDATE")),
    };
    let [target, config, columns @ ..] = event.arguments else {
        return Err(wrong("arguments must be tsvector_field, ts_config, text_field1, ...)"));
    };
    if columns.is_empty() {
        return Err(wrong("arguments must be tsvector_field, ts_config, text_field1, ...)"));
    }
    let row = Row { table, record: new };
    let target = row.place(target, "tsvector column", &[oids::TSVECTOR], "tsvector", spi)?;
    let config = match call.definition.oid {
        UPDATE_BY_COLUMN => {
            let at = row.place(config, "configuration column", &[oids::REGCONFIG], "regconfig", spi)?;
            let null = || {
                Error::new(
                    sqlstate::NULL_VALUE_NOT_ALLOWED,
                    format!("configuration column \"{config}\" must not be null"),
                )
            };
            if row.value(at).is_null() {
                return Err(null());
            }
            get::oid(row.value(at))?
        }
        _ => named_config(config, spi)?,
    };
    let mut changed = event.operation == TriggerOperation::Insert;
    let mut texts = Vec::new();
    for column in columns {
        let at = row.place(column, "column", &[oids::TEXT, oids::VARCHAR], "a character", spi)?;
        if let Some(Datum::Record(old)) = &event.old {
            let before = old.fields.get(at).map_or(&Datum::Null, |f| &f.1);
            let shown =
                |value: &Datum| if value.is_null() { Ok(None) } else { get::text(value).map(|t| Some(t.to_string())) };
            changed |= shown(before)? != shown(row.value(at))?;
        }
        texts.push(row.value(at));
    }
    if !changed {
        return Ok(Datum::Record(new.clone()));
    }
    let (mut words, mut notices) = (DocumentWords::default(), Vec::new());
    let config = spi.session.context.with_catalog(spi.runtime, |host| host.text_search_config(config))?;
    for text in texts.into_iter().filter(|t| !t.is_null()) {
        words.add(&config, get::text(text)?, &mut notices)?;
    }
    for notice in notices {
        spi.notice(notice)?;
    }
    let mut made = Record::clone(new);
    if let Some(field) = made.fields.get_mut(target) {
        field.1 = Datum::TsVector(Arc::new(words.into_vector()?));
    }
    Ok(Datum::Record(Arc::new(made)))
}
/// With its schema, so that it does not depend on the search path.
fn named_config(name: &str, spi: &mut Spi<'_>) -> Result<Oid> {
    if kilndb_catalog::qualified_name::split_qualified(name).is_none_or(|parts| parts.len() < 2) {
        return Err(invalid(&format!("text search configuration name \"{name}\" must be schema-qualified")));
    }
    spi.session.context.with_catalog(spi.runtime, |host| reg_lookup(host, oids::REGCONFIG, name))
}
