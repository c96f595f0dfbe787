//! Statistics objects as SQL text, and what their lists of common combinations hold.

use super::StatementHost;
use super::definitions::is_call;
use super::describe::qualified;
use super::expression_text::canonical;
use super::session_function::{session_functions, session_rows};
use kilndb_base::{Oid, Result};
use kilndb_catalog::CatalogView;
use kilndb_catalog::cache::split_expressions;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::extended_statistics::{CombinationList, EXPRESSIONS};
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_types::{Datum, oids};

session_functions! {
    fn pg_get_statisticsobjdef(call) = {
        let Some(row) = object_row(call.host, call.oid(0))? else { return Ok(Datum::Null) };
        definition(call.host, &row).map(Datum::text)
    };
    fn pg_get_statisticsobjdef_columns(call) = {
        let Some(row) = object_row(call.host, call.oid(0))? else { return Ok(Datum::Null) };
        Ok(Datum::text(members(call.host, &row)?.join(", ")))
    };
    fn pg_get_statisticsobjdef_expressions(call) = {
        let Some(row) = object_row(call.host, call.oid(0))? else { return Ok(Datum::Null) };
        let shown = expressions(call.host, &row, false)?;
        Ok(if shown.is_empty() { Datum::Null } else { array(oids::TEXT, shown.iter().map(Datum::text).collect()) })
    };
}
session_rows! {
    fn pg_mcv_list_items(call) = items(call.host, call.args);
}

fn object_row(host: &StatementHost<'_>, oid: Oid) -> Result<Option<CatalogRow>> {
    Ok(host.reader.lookup(PG_STATISTIC_EXT, PG_STATISTIC_EXT_OID_INDEX, &[Datum::Oid(oid)])?.pop())
}

fn expressions(host: &StatementHost<'_>, row: &CatalogRow, pretty: bool) -> Result<Vec<String>> {
    let Some(table) = host.reader.table_by_oid(row.oid("stxrelid"))? else { return Ok(Vec::new()) };
    let kept = row.text("stxexprs").map(split_expressions).unwrap_or_default();
    Ok(kept.iter().map(|sql| canonical(host, sql, &table, None, pretty)).collect())
}

/// Columns and expressions, as a definition has them.
fn members(host: &StatementHost<'_>, row: &CatalogRow) -> Result<Vec<String>> {
    let Some(table) = host.reader.table_by_oid(row.oid("stxrelid"))? else { return Ok(Vec::new()) };
    let column = |n: i64| table.columns.iter().find(|c| i64::from(c.attnum) == n).map(|c| quote(&c.name));
    let mut shown: Vec<String> = row.numbers("stxkeys").into_iter().filter_map(column).collect();
    shown.extend(
        expressions(host, row, true)?.into_iter().map(|sql| if is_call(&sql) { sql } else { format!("({sql})") }),
    );
    Ok(shown)
}

fn definition(host: &StatementHost<'_>, row: &CatalogRow) -> Result<String> {
    let schema = host.reader.schema_name(row.oid("stxnamespace"))?.unwrap_or_default();
    let letter = |k: &Datum| if let Datum::Char(k) = k { *k } else { 0 };
    let kinds: Vec<u8> = match row.get("stxkind") {
        Datum::Array(list) => list.elements.iter().map(letter).filter(|k| *k != EXPRESSIONS).collect(),
        _ => Vec::new(),
    };
    let words = [(b'd', "ndistinct"), (b'f', "dependencies"), (b'm', "mcv")];
    let members = members(host, row)?;
    let shown_kinds: Vec<&str> = words.iter().filter(|(letter, _)| kinds.contains(letter)).map(|(_, w)| *w).collect();
    let kinds = match members.len() > 1 && shown_kinds.len() < words.len() {
        true => format!(" ({})", shown_kinds.join(", ")),
        false => String::new(),
    };
    let table = match host.reader.table_by_oid(row.oid("stxrelid"))? {
        Some(table) => qualified(host, table.schema_oid, &table.name)?,
        None => String::new(),
    };
    let name = quote(row.text("stxname").unwrap_or(""));
    Ok(format!("CREATE STATISTICS {}.{name}{kinds} ON {} FROM {table}", quote(&schema), members.join(", ")))
}

/// Number, values as texts, which of them are NULL, frequency, and frequency if values were independent.
fn items(host: &StatementHost<'_>, args: &[Datum]) -> Result<Vec<Vec<Datum>>> {
    let Some(Datum::Bytea(bytes)) = args.first() else { return Ok(Vec::new()) };
    let list = CombinationList::from_bytes(bytes)?;
    let mut rows = Vec::with_capacity(list.items.len());
    for (i, item) in list.items.iter().enumerate() {
        let mut texts = Vec::with_capacity(item.values.len());
        for (ty, value) in list.types.iter().zip(&item.values) {
            let mut text = Vec::new();
            if !value.is_null() {
                kilndb_types::io::output_typmod(*ty, -1, value, &mut text, &host.eval())?;
            }
            texts.push(if value.is_null() { Datum::Null } else { Datum::text(String::from_utf8_lossy(&text)) });
        }
        rows.push(vec![
            Datum::Int4(i as i32),
            array(oids::TEXT, texts),
            array(oids::BOOL, item.values.iter().map(|v| Datum::Bool(v.is_null())).collect()),
            Datum::Float8(item.frequency),
            Datum::Float8(item.base_frequency),
        ]);
    }
    Ok(rows)
}
