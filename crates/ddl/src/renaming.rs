//! Objects that get another name or another schema: definitions that are kept as text are written again with the new
//! one.
//!
//! Invariants
//! 1. What a text means is looked up before the change, by the names that it has; what it is written with afterwards,
//!    by OID.

use super::Definitions;
use crate::client::Runtime;
use crate::host::StatementHost;
use crate::host::routine_definition::Arguments;
use crate::host::routine_definition::{RoutineKey, definition_of};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::names::{BoundText, ColumnName, Named, Over, Tracked};
use kilndb_bind::reference::Reference;
use kilndb_bind::variables::Variables;
use kilndb_catalog::cache::EXPRESSION_SEPARATOR;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::partition::{self, Bound, PartitionKey};
use kilndb_catalog::store::CatalogRow;
use kilndb_catalog::{CatalogView, builtin::PG_CATALOG};
use kilndb_types::{Datum, Host};
use std::sync::Arc;

/// System tables with texts: the table, the column that tells rows apart, columns of texts.
const TEXTS: [(Oid, &str, &[&str]); 8] = [
    (PG_REWRITE, "oid", &["ev_action"]),
    (PG_ATTRDEF, "oid", &["adbin"]),
    (PG_CONSTRAINT, "oid", &["conbin"]),
    (PG_INDEX, "indexrelid", &["indexprs", "indpred"]),
    (PG_PARTITIONED_TABLE, "partrelid", &["partexprs"]),
    (PG_TRIGGER, "oid", &["tgqual"]),
    (PG_TYPE, "oid", &["typdefault", "typdefaultbin"]),
    (PG_PROC, "oid", &["proargdefaults", "prosqlbody"]),
];

/// A text of a row.
struct KeptText {
    table: Oid,
    key: (&'static str, Oid),
    column: &'static str,
    meaning: Meaning,
}

/// What a text says, by OIDs and values.
enum Meaning {
    Expressions(Vec<Tracked>),
    PartitionBound(Arc<PartitionKey>, Arc<Bound>),
}

impl Meaning {
    /// The text that says it now.
    fn written(&self, host: &StatementHost<'_>) -> Result<String> {
        match self {
            Meaning::Expressions(parts) => {
                let parts: Vec<String> =
                    parts.iter().map(|part| part.with_names(&|named| current_name(host, named))).collect();
                Ok(parts.join(&EXPRESSION_SEPARATOR.to_string()))
            }
            Meaning::PartitionBound(key, bound) => partition::bound_text(key, bound, &host.reader),
        }
    }
}

impl Definitions<'_> {
    /// Changes names by `change`. `words`: a text that has none of them in it does not name what changes. `columns`: what
    /// gets another name, with the present one.
    pub(super) fn with_texts_renamed<R>(
        &mut self,
        words: &[String],
        columns: &[(Reference, String)],
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut Definitions<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut kept = Vec::new();
        for (table, key, texts) in TEXTS {
            for row in self
                .context_mut()
                .catalog_scan(table)?
                .iter()
                .filter(|row| row.oid(key) >= kilndb_catalog::builtin::FIRST_USER_OID)
            {
                for column in texts {
                    let is_natural = |text: &str| !columns.is_empty() && text.to_ascii_uppercase().contains("NATURAL");
                    let may_name =
                        |text: &&str| words.iter().any(|word| text.contains(word.as_str())) || is_natural(text);
                    let Some(text) = row.text(column).filter(may_name) else { continue };
                    // What cannot be bound any more is left as it is.
                    if let Ok(parts) =
                        self.context_mut().with_catalog(runtime, |host| tracked_parts(host, table, row, column, text))
                    {
                        refuse_nameless(&parts, columns)?;
                        let meaning = Meaning::Expressions(parts);
                        kept.push(KeptText { table, key: (key, row.oid(key)), column, meaning });
                    }
                }
            }
        }
        kept.extend(self.partition_bounds_with(words, runtime)?);
        let done = change(self)?;
        if kept.is_empty() {
            return Ok(done);
        }
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        for text in kept {
            let new = self.context_mut().with_catalog(runtime, |host| text.meaning.written(host))?;
            let rows = self.context_mut().catalog_scan(text.table)?;
            let Some(row) =
                rows.iter().find(|row| row.oid(text.key.0) == text.key.1 && row.text(text.column) != Some(&new))
            else {
                continue;
            };
            let mut changed = row.clone();
            changed.set(text.column, Datum::text(&new));
            self.write_catalog(runtime, |w| w.update(row, &changed.values))?;
        }
        Ok(done)
    }
}

impl Definitions<'_> {
    /// Bounds of partitions that have one of the words in them.
    fn partition_bounds_with(&mut self, words: &[String], runtime: &dyn Runtime) -> Result<Vec<KeptText>> {
        let mut bounds = Vec::new();
        for row in self.context_mut().catalog_scan(PG_CLASS)? {
            let has_word = |text: &str| words.iter().any(|word| text.contains(word.as_str()));
            if !row.text("relpartbound").is_some_and(has_word) {
                continue;
            }
            let partition = row.oid("oid");
            let meaning = self.context_mut().with_catalog(runtime, |host| {
                let map = host.reader.partition_map(host.reader.partition_parent(partition)?)?;
                Ok(map.bound_of(partition).map(|bound| Meaning::PartitionBound(map.key.clone(), bound.clone())))
            })?;
            let key = ("oid", partition);
            bounds.extend(meaning.map(|meaning| KeptText { table: PG_CLASS, key, column: "relpartbound", meaning }));
        }
        Ok(bounds)
    }
}

/// A text in which a column's name is not to be found (USING, a field of a row) keeps the column from getting another.
fn refuse_nameless(parts: &[Tracked], columns: &[(Reference, String)]) -> Result<()> {
    for (column, name) in columns {
        if !parts.iter().all(|part| part.can_rename(*column, name)) {
            return Err(Error::unsupported(format!(
                "renaming column \"{name}\", which a definition uses by USING, NATURAL, ON CONFLICT, as a field of a row or as the name of a result, is not supported"
            )));
        }
    }
    Ok(())
}

fn tracked_parts(
    host: &StatementHost<'_>,
    table: Oid,
    row: &CatalogRow,
    column: &str,
    text: &str,
) -> Result<Vec<Tracked>> {
    let read =
        |kind: Oid, text: &str| if text.trim().parse::<u32>().is_ok() { None } else { host.reg_input(kind, text).ok() };
    let parts = bound_parts(host, table, row, column, text)?;
    Ok(parts.into_iter().map(|(before, part)| part.tracked(&read).after(before)).collect())
}

/// The parts of a kept text, bound, each with what stands before it.
pub(super) fn bound_parts<'t>(
    host: &StatementHost<'_>,
    table: Oid,
    row: &CatalogRow,
    column: &str,
    text: &'t str,
) -> Result<Vec<(&'t str, BoundText)>> {
    let catalog = &host.reader;
    let expressions = |over: Over<'_>| -> Result<Vec<(&'t str, BoundText)>> {
        let one = |part| Ok(("", BoundText::expression(part, over, catalog)?));
        text.split(EXPRESSION_SEPARATOR).map(one).collect()
    };
    // Each with its type before it.
    let key_expressions = |over: Over<'_>| -> Result<Vec<(&'t str, BoundText)>> {
        let one = |part: &'t str| {
            let at = part.find(':').map_or(0, |at| at + 1);
            Ok((&part[..at], BoundText::expression(&part[at..], over, catalog)?))
        };
        text.split(EXPRESSION_SEPARATOR).map(one).collect()
    };
    let relation = match table {
        PG_ATTRDEF => row.oid("adrelid"),
        PG_CONSTRAINT => row.oid("conrelid"),
        PG_INDEX => row.oid("indrelid"),
        PG_PARTITIONED_TABLE => row.oid("partrelid"),
        PG_TRIGGER => row.oid("tgrelid"),
        _ => 0,
    };
    let relation = host.reader.table_by_oid(relation)?;
    match (table, relation) {
        (PG_REWRITE, _) => Ok(vec![("", BoundText::queries(text, catalog, None)?)]),
        (PG_PROC, _) if column == "prosqlbody" => {
            let missing = || Error::internal("a function vanished");
            let info = catalog.function_by_oid(row.oid("oid"))?.ok_or_else(missing)?;
            let key = RoutineKey { oid: info.oid, types: Vec::new(), table: 0, trigger: 0 };
            let definition = definition_of(host, &info, &key, true)?;
            let arguments = Arguments { definition: &definition, values: &[] };
            Ok(vec![("", BoundText::queries(text, catalog, Some(&Variables::new(&arguments)))?)])
        }
        (PG_PARTITIONED_TABLE, Some(relation)) => key_expressions(Over::Table(&relation)),
        (PG_TRIGGER, Some(relation)) => expressions(Over::Rows(&relation)),
        (PG_ATTRDEF, Some(relation)) => {
            let column = relation.columns.iter().find(|c| i32::from(c.attnum) == row.int("adnum") as i32);
            let column = column.ok_or_else(|| Error::internal("a default without a column"))?;
            expressions(Over::Default(Some(&relation), (column.type_oid, column.typmod)))
        }
        (PG_TYPE, _) => expressions(Over::Default(None, (row.oid("typbasetype"), row.int("typtypmod") as i32))),
        (PG_PROC, _) => {
            let missing = || Error::internal("a function vanished");
            let info = catalog.function_by_oid(row.oid("oid"))?.ok_or_else(missing)?;
            let texts: Vec<&str> = text.split(EXPRESSION_SEPARATOR).collect();
            let first = info.arg_types.len().saturating_sub(texts.len());
            let types = info.arg_types.iter().skip(first);
            let one = |(part, ty): (&'t str, &Oid)| {
                let is_polymorphic = catalog.type_by_oid(*ty)?.is_some_and(|info| info.kind == b'p');
                let over = if is_polymorphic { Over::Nothing } else { Over::Default(None, (*ty, -1)) };
                Ok(("", BoundText::expression(part, over, catalog)?))
            };
            texts.into_iter().zip(types).map(one).collect()
        }
        (_, Some(relation)) => expressions(Over::Table(&relation)),
        (PG_CONSTRAINT, None) => {
            let base = catalog.type_by_oid(row.oid("contypid"))?.map_or(0, |info| info.base_type);
            expressions(Over::Domain(base))
        }
        (_, None) => expressions(Over::Nothing),
    }
}

/// What an object is called now, in full.
fn current_name(host: &StatementHost<'_>, named: &Named) -> Option<String> {
    let in_schema =
        |schema: Oid, name: &str| Some(format!("{}.{}", quote(&host.reader.schema_name_of(schema)?), quote(name)));
    match named {
        Named::Relation(oid, own_name) => {
            let table = host.reader.table_by_oid(*oid).ok()??;
            let name = in_schema(table.schema_oid, &table.name)?;
            // Its columns go on by the old name.
            Some(match own_name.as_ref().filter(|own| **own != table.name) {
                Some(own) => format!("{name} AS {}", quote(own)),
                None => name,
            })
        }
        Named::Function(oid) => host.reader.function_by_oid(*oid).ok()?.and_then(|f| in_schema(f.schema_oid, &f.name)),
        Named::Type(oid) => host.reader.type_by_oid(*oid).ok()?.and_then(|t| in_schema(t.schema_oid, &t.name)),
        Named::Operator(oid) => {
            let o = host.reader.operator_by_oid(*oid).ok()??;
            Some(format!("OPERATOR({}.{})", quote(&host.reader.schema_name_of(o.schema_oid)?), o.name))
        }
        Named::Column(ColumnName { reference, name, is_output }) => {
            let table = host.reader.table_by_oid(reference.object).ok()??;
            let column = table.columns.iter().find(|c| c.attnum == reference.column && !c.dropped)?;
            match (column.name == *name, is_output) {
                (true, _) => None,
                (false, true) => Some(format!("{} AS {}", quote(&column.name), quote(name))),
                (false, false) => Some(quote(&column.name)),
            }
        }
        Named::Value(ty, value) => partition::quoted(*ty, value, &host.reader).ok(),
        Named::Constant(kind, oid) => {
            let shown = host.with_path(&[PG_CATALOG]).reg_output(*kind, *oid);
            Some(format!("'{}'", shown.replace('\'', "''")))
        }
    }
}
