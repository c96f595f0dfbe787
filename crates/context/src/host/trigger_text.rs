//! pg_get_triggerdef(): a trigger as SQL text.

use super::StatementHost;
use super::expression_text::canonical_condition;
use super::session_function::session_functions;
use kilndb_base::{Oid, Result};
use kilndb_catalog::CatalogView;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::trigger::*;
use kilndb_types::Datum;

session_functions! {
    fn pg_get_triggerdef(call) = definition(call.host, call.oid(0), call.flag(1));
}

fn definition(host: &StatementHost<'_>, oid: Oid, pretty: bool) -> Result<Datum> {
    let rows = host.reader.lookup(PG_TRIGGER, PG_TRIGGER_OID_INDEX, &[Datum::Oid(oid)])?;
    let Some(row) = rows.first() else { return Ok(Datum::Null) };
    let t = Trigger::of_row(row);
    let Some(table) = host.reader.table_by_oid(row.oid("tgrelid"))? else { return Ok(Datum::Null) };
    let relation = |schema: &str, name: &str, oid: Oid| -> Result<String> {
        let visible = pretty && host.reader.find_relation(None, name)? == Some(oid);
        Ok(if visible { quote(name) } else { format!("{}.{}", quote(schema), quote(name)) })
    };
    let time = match t.kind & (BEFORE | INSTEAD) {
        BEFORE => "BEFORE",
        0 => "AFTER",
        _ => "INSTEAD OF",
    };
    let update = match t.columns.is_empty() {
        true => "UPDATE".to_string(),
        false => {
            let names =
                t.columns.iter().filter_map(|n| table.columns.get((*n - 1).max(0) as usize)).map(|c| quote(&c.name));
            format!("UPDATE OF {}", names.collect::<Vec<_>>().join(", "))
        }
    };
    let events = [(INSERT, "INSERT"), (DELETE, "DELETE"), (UPDATE, update.as_str()), (TRUNCATE, "TRUNCATE")];
    let events: Vec<&str> = events.into_iter().filter(|(bit, _)| t.is(*bit)).map(|(_, word)| word).collect();
    let constraint = if t.constraint != 0 { "CONSTRAINT " } else { "" };
    let name = relation(table.shown_schema(), &table.name, table.oid)?;
    let mut text = format!("CREATE {constraint}TRIGGER {} {time} {} ON {name} ", quote(&t.name), events.join(" OR "));
    if t.constraint != 0 {
        if let Some(other) = host.reader.table_by_oid(t.other_table)? {
            let visible = host.reader.find_relation(None, &other.name)? == Some(other.oid);
            let name = if visible {
                quote(&other.name)
            } else {
                format!("{}.{}", quote(other.shown_schema()), quote(&other.name))
            };
            text.push_str(&format!("FROM {name} "));
        }
        let (not, time) =
            (if t.deferrable { "" } else { "NOT " }, if t.initially_deferred { "DEFERRED" } else { "IMMEDIATE" });
        text.push_str(&format!("{not}DEFERRABLE INITIALLY {time} "));
    }
    if t.has_transition_tables() {
        text.push_str("REFERENCING ");
        for (word, name) in [("OLD", &t.old_table), ("NEW", &t.new_table)] {
            if let Some(name) = name {
                text.push_str(&format!("{word} TABLE AS {} ", quote(name)));
            }
        }
    }
    text.push_str(if t.for_each_row() { "FOR EACH ROW " } else { "FOR EACH STATEMENT " });
    if let Some(sql) = &t.when_sql {
        text.push_str(&format!("WHEN ({}) ", canonical_condition(host, sql, &table, pretty)));
    }
    let function = match host.reader.function_by_oid(t.function)? {
        Some(f) => {
            let schema = host.reader.schema_name(f.schema_oid)?.unwrap_or_default();
            let visible = host.reader.functions(None, &f.name)?.iter().any(|other| other.oid == f.oid);
            if visible { quote(&f.name) } else { format!("{}.{}", quote(&schema), quote(&f.name)) }
        }
        None => t.function.to_string(),
    };
    let arguments: Vec<String> = t.arguments.iter().map(|a| super::expression_text::literal(a)).collect();
    text.push_str(&format!("EXECUTE FUNCTION {function}({})", arguments.join(", ")));
    Ok(Datum::text(text))
}
