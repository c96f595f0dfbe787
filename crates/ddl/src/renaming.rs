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
use kilndb_bind::names::{BoundText, VisibleColumns, has_labels};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_bind::tracked_text::{ColumnName, NamedObject, TrackedText};
use kilndb_bind::variables::Variables;
use kilndb_catalog::CatalogView;
use kilndb_catalog::builtin::{FIRST_USER_OID, PG_CATALOG};
use kilndb_catalog::cache::EXPRESSION_SEPARATOR;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::partition::{self, PartitionBound, PartitionKey};
use kilndb_types::Datum;
use kilndb_types::context::ObjectNames;
use std::collections::BTreeSet;
use std::sync::Arc;

/// A system table with texts.
struct TextTable {
    table: Oid,
    /// The column that tells rows apart, and the index on it.
    key: &'static str,
    index: Oid,
    columns: &'static [&'static str],
}

const fn texts(table: Oid, key: &'static str, index: Oid, columns: &'static [&'static str]) -> TextTable {
    TextTable { table, key, index, columns }
}

const TEXT_TABLES: [TextTable; 11] = [
    texts(PG_CLASS, "oid", PG_CLASS_OID_INDEX, &["relpartbound"]),
    texts(PG_REWRITE, "oid", PG_REWRITE_OID_INDEX, &["ev_action"]),
    texts(PG_ATTRDEF, "oid", PG_ATTRDEF_OID_INDEX, &["adbin"]),
    texts(PG_CONSTRAINT, "oid", PG_CONSTRAINT_OID_INDEX, &["conbin"]),
    texts(PG_INDEX, "indexrelid", PG_INDEX_INDEXRELID_INDEX, &["indexprs", "indpred"]),
    texts(PG_PARTITIONED_TABLE, "partrelid", PG_PARTITIONED_TABLE_PARTRELID_INDEX, &["partexprs"]),
    texts(PG_STATISTIC_EXT, "oid", PG_STATISTIC_EXT_OID_INDEX, &["stxexprs"]),
    texts(PG_POLICY, "oid", PG_POLICY_OID_INDEX, &["polqual", "polwithcheck"]),
    texts(PG_TRIGGER, "oid", PG_TRIGGER_OID_INDEX, &["tgqual"]),
    texts(PG_TYPE, "oid", PG_TYPE_OID_INDEX, &["typdefault", "typdefaultbin"]),
    texts(PG_PROC, "oid", PG_PROC_OID_INDEX, &["proargdefaults", "prosqlbody"]),
];

/// A text of a row.
struct KeptText {
    table: &'static TextTable,
    row: Oid,
    column: &'static str,
    text: String,
    meaning: Meaning,
}

/// What a text says, by OIDs and values.
enum Meaning {
    /// With the objects and columns that they refer to.
    Expressions(Vec<TrackedText>, BTreeSet<ObjectAddress>),
    PartitionBound(Arc<PartitionKey>, Arc<PartitionBound>),
}

impl Meaning {
    /// None: nothing in the text can get another name, or it cannot be bound any more and is left as it is.
    fn of(host: &StatementHost<'_>, table: Oid, row: &CatalogRow, column: &str, text: &str) -> Result<Option<Meaning>> {
        if table != PG_CLASS {
            let Ok((parts, references)) = tracked_parts(host, table, row, column, text) else { return Ok(None) };
            return Ok(Some(Meaning::Expressions(parts, references)));
        }
        let partition = row.oid("oid");
        let map = host.reader.partition_map(host.reader.partition_parent(partition)?)?;
        let has_labels = map.key.parts.iter().any(|part| has_labels(part.base_type, &host.reader));
        let bound = map.bound_of(partition).filter(|_| has_labels);
        Ok(bound.map(|bound| Meaning::PartitionBound(map.key.clone(), bound.clone())))
    }

    /// The text that says it now; how, see [`TrackedText::with_names`].
    fn written(&self, host: &StatementHost<'_>, in_from: bool) -> Result<String> {
        match self {
            Meaning::Expressions(parts, _) => {
                let names = |part: &TrackedText| part.with_names(&|named| current_name(host, named), in_from);
                Ok(parts.iter().map(names).collect::<Vec<_>>().join(&EXPRESSION_SEPARATOR.to_string()))
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
        columns: &[(ObjectAddress, String)],
        runtime: &dyn Runtime,
        change: impl FnOnce(&mut Definitions<'_>) -> Result<R>,
    ) -> Result<R> {
        let mut kept = Vec::new();
        for table in &TEXT_TABLES {
            for row in
                self.context_mut().catalog_scan(table.table)?.iter().filter(|row| row.oid(table.key) >= FIRST_USER_OID)
            {
                for column in table.columns {
                    let is_natural = |text: &str| !columns.is_empty() && text.to_ascii_uppercase().contains("NATURAL");
                    let may_name =
                        |text: &&str| words.iter().any(|word| text.contains(word.as_str())) || is_natural(text);
                    let Some(text) = row.text(column).filter(may_name) else { continue };
                    let meaning = self
                        .context_mut()
                        .with_trusted_catalog(runtime, |host| Meaning::of(host, table.table, row, column, text))?;
                    let Some(meaning) = meaning else { continue };
                    if let Meaning::Expressions(parts, _) = &meaning {
                        refuse_nameless(parts, columns)?;
                    }
                    kept.push(KeptText { table, row: row.oid(table.key), column, text: text.to_string(), meaning });
                }
            }
        }
        let done = change(self)?;
        if kept.is_empty() {
            return Ok(done);
        }
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        for text in &kept {
            let new = self.context_mut().with_trusted_catalog(runtime, |host| text.meaning.written(host, false))?;
            if new != text.text {
                self.store_text(text, &new, runtime)?;
            }
        }
        // Texts that use others can be bound once those are right.
        let mut unsettled: Vec<&KeptText> = kept.iter().collect();
        unsettled.sort_by_key(|text| text.row);
        loop {
            let (before, mut problem) = (unsettled.len(), None);
            let mut left = Vec::new();
            for text in unsettled {
                if let Some(found) = self.settle_text(text, runtime)? {
                    problem = problem.or(Some(found));
                    left.push(text);
                }
            }
            match problem {
                None => return Ok(done),
                Some(problem) if left.len() == before => {
                    let message = "renaming what a definition uses in this way is not supported";
                    return Err(Error::unsupported(message).with_detail(problem));
                }
                Some(_) => unsettled = left,
            }
        }
    }

    /// A text as it is to be after the change; how, see [`TrackedText::with_names`].
    fn write_text(&mut self, kept: &KeptText, in_from: bool, runtime: &dyn Runtime) -> Result<()> {
        let new = self.context_mut().with_trusted_catalog(runtime, |host| kept.meaning.written(host, in_from))?;
        self.store_text(kept, &new, runtime)
    }

    /// The row that the text is in; None: another session has dropped the object meanwhile.
    fn row_of(&mut self, kept: &KeptText) -> Result<Option<CatalogRow>> {
        let TextTable { table, index, .. } = *kept.table;
        Ok(self.context_mut().catalog_lookup(table, index, &[Datum::Oid(kept.row)])?.pop())
    }

    fn store_text(&mut self, kept: &KeptText, new: &str, runtime: &dyn Runtime) -> Result<()> {
        let Some(row) = self.row_of(kept)? else { return Ok(()) };
        self.rewrite_row(&row, runtime, |row| row.set(kept.column, Datum::text(new)))
    }

    /// Sees that a text which has been written refers to what it referred to before: a new name may be one that
    /// something else in the text has, and then FROM gives the column its old one. Returns what is wrong with it still.
    fn settle_text(&mut self, kept: &KeptText, runtime: &dyn Runtime) -> Result<Option<String>> {
        let Some(problem) = self.problem_of(kept, runtime)? else { return Ok(None) };
        self.write_text(kept, true, runtime)?;
        if self.problem_of(kept, runtime)?.is_none() {
            return Ok(None);
        }
        self.write_text(kept, false, runtime)?;
        Ok(Some(problem))
    }

    fn problem_of(&mut self, kept: &KeptText, runtime: &dyn Runtime) -> Result<Option<String>> {
        let Meaning::Expressions(_, references) = &kept.meaning else { return Ok(None) };
        let Some(row) = self.row_of(kept)? else { return Ok(None) };
        let (table, text) = (kept.table.table, row.text(kept.column).unwrap_or(""));
        let bound = self.context_mut().with_trusted_catalog(runtime, |host| {
            let parts = bound_parts(host, table, &row, kept.column, text)?;
            Ok(parts.iter().flat_map(|(_, part)| part.references()).collect::<BTreeSet<_>>())
        });
        Ok(match bound {
            Ok(now) if now == *references => None,
            Ok(_) => Some(format!("\"{text}\" would refer to something else.")),
            Err(e) => Some(format!("\"{text}\": {}", e.message())),
        })
    }
}

/// A text in which a column's name is not to be found keeps the column from getting another.
fn refuse_nameless(parts: &[TrackedText], columns: &[(ObjectAddress, String)]) -> Result<()> {
    for (column, name) in columns {
        if !parts.iter().all(|part| part.can_rename(*column, name)) {
            return Err(Error::unsupported(format!(
                "renaming column \"{name}\", which a definition uses where its name cannot be told apart, is not supported"
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
) -> Result<(Vec<TrackedText>, BTreeSet<ObjectAddress>)> {
    let read =
        |kind: Oid, text: &str| if text.trim().parse::<u32>().is_ok() { None } else { host.reg_input(kind, text).ok() };
    let parts = bound_parts(host, table, row, column, text)?;
    let references = parts.iter().flat_map(|(_, part)| part.references()).collect();
    Ok((parts.into_iter().map(|(before, part)| part.tracked(&read).after(before)).collect(), references))
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
    let expressions = |over: VisibleColumns<'_>| -> Result<Vec<(&'t str, BoundText)>> {
        let one = |part| Ok(("", BoundText::expression(part, over, catalog)?));
        text.split(EXPRESSION_SEPARATOR).map(one).collect()
    };
    // Each with its type before it.
    let key_expressions = |over: VisibleColumns<'_>| -> Result<Vec<(&'t str, BoundText)>> {
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
        PG_STATISTIC_EXT => row.oid("stxrelid"),
        PG_PARTITIONED_TABLE => row.oid("partrelid"),
        PG_TRIGGER => row.oid("tgrelid"),
        PG_POLICY => row.oid("polrelid"),
        _ => 0,
    };
    let relation = host.reader.table_by_oid(relation)?;
    match (table, relation) {
        (PG_REWRITE, _) => Ok(vec![("", BoundText::queries(text, catalog, None)?)]),
        (PG_PROC, _) if column == "prosqlbody" => {
            let missing = || Error::internal("a function vanished");
            let info = catalog.function_by_oid(row.oid("oid"))?.ok_or_else(missing)?;
            let key = RoutineKey { oid: info.oid, types: Vec::new(), collation: 0, table: 0, trigger: 0 };
            let definition = definition_of(host, &info, &key, true)?;
            let arguments = Arguments { definition: &definition, values: &[] };
            Ok(vec![("", BoundText::queries(text, catalog, Some(&Variables::new(&arguments)))?)])
        }
        (PG_PARTITIONED_TABLE, Some(relation)) => key_expressions(VisibleColumns::Table(&relation)),
        (PG_POLICY, Some(relation)) => expressions(VisibleColumns::Policy(&relation)),
        (PG_TRIGGER, Some(relation)) => expressions(VisibleColumns::Rows(&relation)),
        (PG_ATTRDEF, Some(relation)) => {
            let column = relation.columns.iter().find(|c| i32::from(c.attnum) == row.int("adnum") as i32);
            let column = column.ok_or_else(|| Error::internal("a default without a column"))?;
            expressions(VisibleColumns::Default(Some(&relation), (column.type_oid, column.typmod)))
        }
        (PG_TYPE, _) => {
            expressions(VisibleColumns::Default(None, (row.oid("typbasetype"), row.int("typtypmod") as i32)))
        }
        (PG_PROC, _) => {
            let missing = || Error::internal("a function vanished");
            let info = catalog.function_by_oid(row.oid("oid"))?.ok_or_else(missing)?;
            let texts: Vec<&str> = text.split(EXPRESSION_SEPARATOR).collect();
            let first = info.arg_types.len().saturating_sub(texts.len());
            let types = info.arg_types.iter().skip(first);
            let one = |(part, ty): (&'t str, &Oid)| {
                let is_polymorphic = catalog.type_by_oid(*ty)?.is_some_and(|info| info.kind == b'p');
                let over =
                    if is_polymorphic { VisibleColumns::Nothing } else { VisibleColumns::Default(None, (*ty, -1)) };
                Ok(("", BoundText::expression(part, over, catalog)?))
            };
            texts.into_iter().zip(types).map(one).collect()
        }
        (_, Some(relation)) => expressions(VisibleColumns::Table(&relation)),
        (PG_CONSTRAINT, None) => {
            let base = catalog.type_by_oid(row.oid("contypid"))?.map_or(0, |info| info.base_type);
            expressions(VisibleColumns::Domain(base))
        }
        (_, None) => expressions(VisibleColumns::Nothing),
    }
}

/// What an object is called now, in full.
fn current_name(host: &StatementHost<'_>, named: &NamedObject) -> Option<String> {
    let in_schema =
        |schema: Oid, name: &str| Some(format!("{}.{}", quote(&host.reader.schema_name_of(schema)?), quote(name)));
    match named {
        NamedObject::Relation(oid, own_name) => {
            let table = host.reader.table_by_oid(*oid).ok()??;
            let name = in_schema(table.schema_oid, &table.name)?;
            // Its columns go on by the old name.
            Some(match own_name.as_ref().filter(|own| **own != table.name) {
                Some(own) => format!("{name} AS {}", quote(own)),
                None => name,
            })
        }
        NamedObject::RowTable(oid) => host.reader.table_by_oid(*oid).ok()?.map(|table| quote(&table.name)),
        NamedObject::Function(oid) => {
            host.reader.function_by_oid(*oid).ok()?.and_then(|f| in_schema(f.schema_oid, &f.name))
        }
        NamedObject::Type(oid) => host.reader.type_by_oid(*oid).ok()?.and_then(|t| in_schema(t.schema_oid, &t.name)),
        NamedObject::Collation(oid) => {
            host.reader.collation_info(*oid).ok()?.and_then(|info| in_schema(info.schema_oid, &info.name))
        }
        NamedObject::Operator(oid) => {
            let o = host.reader.operator_by_oid(*oid).ok()??;
            Some(format!("OPERATOR({}.{})", quote(&host.reader.schema_name_of(o.schema_oid)?), o.name))
        }
        NamedObject::Column(ColumnName { reference, name, is_output, .. }) => {
            let table = host.reader.table_by_oid(reference.object).ok()??;
            let column = table.columns.iter().find(|c| c.attnum == reference.column && !c.dropped)?;
            match (column.name == *name, is_output) {
                (true, _) => None,
                (false, true) => Some(format!("{} AS {}", quote(&column.name), quote(name))),
                (false, false) => Some(quote(&column.name)),
            }
        }
        NamedObject::Value(ty, value) => partition::quoted(*ty, value, &host.reader).ok(),
        NamedObject::Constant(kind, oid) => {
            let shown = host.with_path(&[PG_CATALOG]).reg_output(*kind, *oid);
            Some(format!("'{}'", shown.replace('\'', "''")))
        }
    }
}
