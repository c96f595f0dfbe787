//! pg_get_…def(): definitions as SQL text.

use super::expression_text::canonical;
use super::session_function::session_functions;
use super::{StatementHost, relation_by_text};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::names::{BoundText, VisibleColumns};
use kilndb_bind::tracked_text::NamedObject;
use kilndb_bind::updatable::{UPDATE_AND_DELETE, updatable_events};
use kilndb_catalog::IndexKey;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::extension::is_member;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Index, Table, TableKind};
use kilndb_syntax::Node;
use kilndb_types::Datum;
use kilndb_types::context::ObjectNames;
use std::sync::Arc;

session_functions! {
    fn pg_get_expr(call) = {
        let (host, Some(Datum::Text(sql))) = (call.host, call.arg(0)) else { return Ok(Datum::Null) };
        let Some(table) = host.reader.table_by_oid(call.oid(1))? else { return Ok(Datum::text(&**sql)) };
        if table.partition_of != 0 && (&**sql == "DEFAULT" || sql.starts_with("FOR VALUES ")) {
            return Ok(Datum::text(host.shown_bound(&table, sql)?));
        }
        let default = table.columns.iter().find(|c| c.default_sql.as_deref() == Some(sql)).map(|c| (c.type_oid, -1));
        Ok(Datum::text(canonical(host, sql, &table, default, call.flag(2))))
    };
    fn pg_get_indexdef(call) = {
        let Some((table, index)) = find_index(call.host, call.oid(0))? else { return Ok(Datum::Null) };
        let pretty = call.flag(2);
        match usize::try_from(call.int(1)) {
            Ok(0) => Ok(Datum::text(index_definition(call.host, &table, &index, pretty)?)),
            Ok(n) if n <= index.keys.len() => {
                key_text(call.host, &table, &index, n - 1, false, pretty).map(Datum::text)
            }
            Ok(n) => {
                let included =
                    index.include.get(n - 1 - index.keys.len()).and_then(|a| table.columns.get(*a as usize - 1));
                Ok(included.map_or(Datum::text(""), |c| Datum::text(quote(&c.name))))
            }
            Err(_) => Ok(Datum::Null),
        }
    };
    fn pg_get_constraintdef(call) = {
        let key = [Datum::Oid(call.oid(0))];
        let rows = call.host.reader.lookup(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, &key)?;
        match rows.first() {
            Some(row) => Ok(Datum::text(constraint_definition(call.host, row, call.flag(1))?)),
            None => Ok(Datum::Null),
        }
    };
    fn pg_get_viewdef(call) = {
        let oid = match call.arg(0) {
            Some(Datum::Text(name)) => relation_by_text(call.host, name)?,
            _ => call.oid(0),
        };
        let sql = call.host.reader.table_by_oid(oid)?.and_then(|v| v.view_sql.clone());
        Ok(sql.map_or(Datum::Null, |sql| Datum::text(format!(" {};", shown_query(call.host, &sql)))))
    };
    fn pg_relation_is_updatable(call) = {
        updatable_events(call.oid(0), call.flag(1), None, &call.host.reader).map(Datum::Int4)
    };
    fn pg_column_is_updatable(call) = {
        let column = i16::try_from(call.int(1)).unwrap_or_default();
        if column <= 0 {
            return Ok(Datum::Bool(false));
        }
        let events = updatable_events(call.oid(0), call.flag(2), Some(&[column]), &call.host.reader)?;
        Ok(Datum::Bool(events & UPDATE_AND_DELETE == UPDATE_AND_DELETE))
    };
    fn pg_get_partkeydef(call) = {
        let table = call.host.reader.table_by_oid(call.oid(0))?;
        Ok(table.map_or(Ok(None), |t| call.host.partition_key_text(&t))?.map_or(Datum::Null, Datum::text))
    };
    fn pg_get_partition_constraintdef(call) = {
        let table = call.host.reader.table_by_oid(call.oid(0))?;
        Ok(table.map_or(Ok(None), |t| call.host.partition_condition(&t))?.map_or(Datum::Null, Datum::text))
    };
    fn pg_partition_root(call) = {
        Ok(call.host.partition_ancestors(call.oid(0))?.last().map_or(Datum::Null, |o| Datum::Oid(*o)))
    };
    fn pg_get_serial_sequence(call) = serial_sequence(call.host, &call.text(0), &call.text(1));
    fn pg_get_function_result(call) = function_text(call.host, FunctionText::Result, call.oid(0));
    fn pg_get_function_arguments(call) = function_text(call.host, FunctionText::Arguments, call.oid(0));
    fn pg_get_function_identity_arguments(call) = {
        function_text(call.host, FunctionText::IdentityArguments, call.oid(0))
    };
    fn pg_get_function_sqlbody(call) = {
        let key = [Datum::Oid(call.oid(0))];
        let rows = call.host.reader.lookup(PG_PROC, PG_PROC_OID_INDEX, &key)?;
        Ok(rows.first().and_then(sql_body).map_or(Datum::Null, Datum::text))
    };
    fn pg_get_functiondef(call) = function_definition(call.host, call.oid(0));
}

/// A part of a function's definition.
#[derive(Clone, Copy, PartialEq, Eq)]
enum FunctionText {
    Result,
    Arguments,
    /// Without defaults.
    IdentityArguments,
}

/// A view's text without the schemas that the search path makes needless.
fn shown_query(host: &StatementHost<'_>, sql: &str) -> String {
    // A name alone might be that of a WITH query.
    let has_with = sql.contains("WITH ");
    let shown_name = |named: &NamedObject| {
        if has_with && matches!(named, NamedObject::Relation(..)) { None } else { visible_name(host, named) }
    };
    shown_text(host, BoundText::queries(sql, &host.reader, None), &shown_name).unwrap_or_else(|| sql.to_string())
}

/// A policy's condition with subqueries, with names as they are found by themselves.
pub(super) fn shown_condition(host: &StatementHost<'_>, sql: &str, table: &Table) -> String {
    let bound = BoundText::expression(sql, VisibleColumns::Policy(table), &host.reader);
    shown_text(host, bound, &|named| visible_name(host, named)).unwrap_or_else(|| sql.to_string())
}

fn shown_text(
    host: &StatementHost<'_>,
    bound: Result<BoundText>,
    name: &dyn Fn(&NamedObject) -> Option<String>,
) -> Option<String> {
    let read = |kind: Oid, text: &str| host.reg_input(kind, text).ok();
    Some(bound.ok()?.tracked(&read).with_names(name, false))
}

/// A name that is found without its schema; None: with it alone.
fn visible_name(host: &StatementHost<'_>, named: &NamedObject) -> Option<String> {
    match named {
        NamedObject::Relation(oid, _) => {
            let table = host.reader.table_by_oid(*oid).ok()??;
            (host.reader.find_relation(None, &table.name).ok()? == Some(*oid)).then(|| quote(&table.name))
        }
        NamedObject::Function(oid) => {
            let f = host.reader.function_by_oid(*oid).ok()??;
            let found = host.reader.functions(None, &f.name).ok()?;
            found
                .iter()
                .find(|known| known.arg_types == f.arg_types)
                .filter(|known| known.oid == *oid)
                .map(|_| quote(&f.name))
        }
        NamedObject::Type(oid) => {
            let info = host.reader.type_by_oid(*oid).ok()??;
            host.reader
                .type_by_name(None, &info.name)
                .ok()?
                .filter(|known| known.oid == *oid)
                .map(|_| quote(&info.name))
        }
        NamedObject::Collation(oid) => {
            let info = host.reader.collation_info(*oid).ok()??;
            let found = host.reader.collation_named(None, &info.name).ok()?;
            found.filter(|known| known.oid == *oid).map(|_| quote(&info.name))
        }
        NamedObject::Operator(oid) => {
            let o = host.reader.operator_by_oid(*oid).ok()??;
            host.reader.search_path.contains(&o.schema_oid).then(|| o.name.clone())
        }
        NamedObject::Column(_) | NamedObject::Value(..) | NamedObject::RowTable(_) => None,
        NamedObject::Constant(kind, oid) => Some(super::expression_text::literal(&host.reg_output(*kind, *oid))),
    }
}

fn find_index(host: &StatementHost<'_>, oid: Oid) -> Result<Option<(Arc<Table>, Arc<Index>)>> {
    let rows = host.reader.lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &[Datum::Oid(oid)])?;
    let Some(row) = rows.first() else { return Ok(None) };
    let Some(table) = host.reader.table_by_oid(row.oid("indrelid"))? else { return Ok(None) };
    let index = table.indexes.iter().find(|i| i.oid == oid).cloned();
    Ok(index.map(|i| (table, i)))
}

fn key_text(
    host: &StatementHost<'_>,
    table: &Arc<Table>,
    index: &Index,
    position: usize,
    with_order: bool,
    pretty: bool,
) -> Result<String> {
    let key = &index.keys[position];
    let mut text = match &key.expression_sql {
        Some(sql) => {
            let shown = canonical(host, sql, table, None, pretty);
            if is_call(&shown) { shown } else { format!("({shown})") }
        }
        None => quote(&table.columns[key.attnum as usize - 1].name),
    };
    if with_order {
        if let Some(collation) = collation_text(host, table, key)? {
            text.push_str(" COLLATE ");
            text.push_str(&collation);
        }
        if let Some(class) = class_text(host, index, key)? {
            text.push(' ');
            text.push_str(&class);
        }
        match (key.descending, key.nulls_first) {
            (true, true) => text.push_str(" DESC"),
            (true, false) => text.push_str(" DESC NULLS LAST"),
            (false, true) => text.push_str(" NULLS FIRST"),
            (false, false) => {}
        }
    }
    Ok(text)
}

/// The name of a key's collation, if that is not the one of the column or the expression.
fn collation_text(host: &StatementHost<'_>, table: &Arc<Table>, key: &IndexKey) -> Result<Option<String>> {
    let own = match &key.expression_sql {
        None => table.columns[key.attnum as usize - 1].collation.oid,
        Some(_) if key.collation == 0 => 0,
        Some(sql) => kilndb_bind::bind_expression(sql, Some(table), &host.reader, None)?.expr.collation.collation.oid,
    };
    if key.collation == 0 || key.collation == own {
        return Ok(None);
    }
    super::describe::collation_name(host, key.collation)
}

/// A function call needs no parentheses around it.
pub fn is_call(sql: &str) -> bool {
    let name_end = sql.find('(').unwrap_or(0);
    let is_name = name_end > 0 && sql[..name_end].chars().all(|c| c.is_alphanumeric() || c == '_' || c == '.');
    let mut depth = 0;
    let closes_at_end = sql.char_indices().find_map(|(i, c)| {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        (c == ')' && depth == 0).then_some(i)
    }) == Some(sql.len().saturating_sub(1));
    is_name && closes_at_end
}

/// `name=value`, in quotes if it is no plain word.
fn option_text(option: &str) -> String {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    if quote(value) == value { option.to_string() } else { format!("{name}='{}'", value.replace('\'', "''")) }
}

/// The name of a key's operator class, if that is not the default one.
fn class_text(host: &StatementHost<'_>, index: &Index, key: &IndexKey) -> Result<Option<String>> {
    let default = super::default_class(index.method.oid, key.type_oid, &host.reader)?;
    if key.opclass == 0 || default == Some(key.opclass) {
        return Ok(None);
    }
    let rows = host.reader.scan(PG_OPCLASS)?;
    let Some(row) = rows.iter().find(|r| r.oid("oid") == key.opclass) else { return Ok(None) };
    // What is known of an expression is the type that the index stores, which need not be the expression's.
    if key.attnum == 0 && row.bool("opcdefault") {
        return Ok(None);
    }
    super::describe::qualified(host, row.oid("opcnamespace"), row.text("opcname").unwrap_or("")).map(Some)
}

fn index_definition(host: &StatementHost<'_>, table: &Arc<Table>, index: &Index, pretty: bool) -> Result<String> {
    let keys =
        (0..index.keys.len()).map(|i| key_text(host, table, index, i, true, pretty)).collect::<Result<Vec<_>>>()?;
    let mut text = format!(
        "CREATE {}INDEX {} ON {}{}.{} USING {} ({})",
        if index.unique { "UNIQUE " } else { "" },
        quote(&index.name),
        if table.kind == TableKind::Partitioned { "ONLY " } else { "" },
        quote(table.shown_schema()),
        quote(&table.name),
        index.method.name,
        keys.join(", ")
    );
    if !index.include.is_empty() {
        let names: Vec<String> = index.include.iter().map(|n| quote(&table.columns[*n as usize - 1].name)).collect();
        text.push_str(&format!(" INCLUDE ({})", names.join(", ")));
    }
    if index.nulls_not_distinct {
        text.push_str(" NULLS NOT DISTINCT");
    }
    if let Some(class) = host.reader.class_row(index.oid)? {
        let options = class.texts("reloptions");
        if !options.is_empty() {
            let shown: Vec<String> = options.iter().map(|o| option_text(o)).collect();
            text.push_str(&format!(" WITH ({})", shown.join(", ")));
        }
    }
    if let Some(predicate) = &index.predicate_sql {
        text.push_str(&format!(" WHERE {}", canonical(host, predicate, table, None, pretty)));
    }
    Ok(text)
}

fn column_list(table: &Table, numbers: &[i64]) -> String {
    let names: Vec<String> = numbers
        .iter()
        .filter_map(|n| usize::try_from(*n - 1).ok().and_then(|i| table.columns.get(i)))
        .map(|c| quote(&c.name))
        .collect();
    names.join(", ")
}

fn constraint_definition(host: &StatementHost<'_>, row: &CatalogRow, pretty: bool) -> Result<String> {
    if row.oid("contypid") != 0 {
        let sql = row.text("conbin").unwrap_or("");
        let shown = if row.char("contype") == b'n' {
            "NOT NULL".to_string()
        } else {
            format!("CHECK ({})", super::expression_text::canonical_check(host, sql, row.oid("contypid"), pretty))
        };
        return Ok(if row.bool("convalidated") { shown } else { format!("{shown} NOT VALID") });
    }
    let table = host.reader.table_by_oid(row.oid("conrelid"))?;
    let table = table.ok_or_else(|| Error::internal("a constraint without its table"))?;
    let mut text = match row.char("contype") {
        b'p' | b'u' => {
            let index = table.indexes.iter().find(|i| i.oid == row.oid("conindid"));
            let word = if row.char("contype") == b'p' { "PRIMARY KEY" } else { "UNIQUE" };
            let distinct = if index.is_some_and(|i| i.nulls_not_distinct) { " NULLS NOT DISTINCT" } else { "" };
            let include: Vec<i64> =
                index.map(|i| i.include.iter().map(|n| i64::from(*n)).collect()).unwrap_or_default();
            let mut text = format!("{word}{distinct} ({})", column_list(&table, &row.numbers("conkey")));
            if !include.is_empty() {
                text.push_str(&format!(" INCLUDE ({})", column_list(&table, &include)));
            }
            text
        }
        b'c' => format!("CHECK ({})", canonical(host, row.text("conbin").unwrap_or(""), &table, None, pretty)),
        b'n' => format!("NOT NULL {}", column_list(&table, &row.numbers("conkey"))),
        b'f' => foreign_definition(host, row, &table)?,
        b't' => "TRIGGER".to_string(),
        other => return Err(Error::unsupported(format!("constraints of type {} are not supported", other as char))),
    };
    if row.bool("connoinherit") && row.char("contype") == b'c' {
        text.push_str(" NO INHERIT");
    }
    if row.bool("condeferrable") {
        text.push_str(" DEFERRABLE");
    }
    if row.bool("condeferred") {
        text.push_str(" INITIALLY DEFERRED");
    }
    if !row.bool("conenforced") {
        text.push_str(" NOT ENFORCED");
    } else if !row.bool("convalidated") {
        text.push_str(" NOT VALID");
    }
    Ok(text)
}

fn foreign_definition(host: &StatementHost<'_>, row: &CatalogRow, table: &Table) -> Result<String> {
    let target = host.reader.table_by_oid(row.oid("confrelid"))?;
    let target = target.ok_or_else(|| Error::internal("a foreign key without its target"))?;
    let visible = host.reader.find_relation(None, &target.name)? == Some(target.oid);
    let name =
        if visible { quote(&target.name) } else { format!("{}.{}", quote(target.shown_schema()), quote(&target.name)) };
    let mut text = format!(
        "FOREIGN KEY ({}) REFERENCES {name}({})",
        column_list(table, &row.numbers("conkey")),
        column_list(&target, &row.numbers("confkey"))
    );
    if row.char("confmatchtype") == b'f' {
        text.push_str(" MATCH FULL");
    }
    let action = |letter: u8| match letter {
        b'r' => Some("RESTRICT"),
        b'c' => Some("CASCADE"),
        b'n' => Some("SET NULL"),
        b'd' => Some("SET DEFAULT"),
        _ => None,
    };
    for (event, column) in [("UPDATE", "confupdtype"), ("DELETE", "confdeltype")] {
        if let Some(action) = action(row.char(column)) {
            text.push_str(&format!(" ON {event} {action}"));
        }
    }
    let chosen = row.numbers("confdelsetcols");
    if !chosen.is_empty() {
        text.push_str(&format!(" ({})", column_list(table, &chosen)));
    }
    Ok(text)
}

fn serial_sequence(host: &StatementHost<'_>, table: &str, column: &str) -> Result<Datum> {
    let oid = relation_by_text(host, table)?;
    let found = host.reader.table_by_oid(oid)?.ok_or_else(|| Error::internal("a relation vanished"))?;
    let attnum = found.columns.iter().find(|c| !c.dropped && c.name == column).map(|c| c.attnum).ok_or_else(|| {
        Error::new(
            sqlstate::UNDEFINED_COLUMN,
            format!("column \"{column}\" of relation \"{}\" does not exist", found.name),
        )
    })?;
    let Some(sequence) = host.reader.owned_sequence(oid, attnum)? else { return Ok(Datum::Null) };
    let Some(sequence) = host.reader.table_by_oid(sequence)? else { return Ok(Datum::Null) };
    Ok(Datum::text(format!("{}.{}", quote(sequence.shown_schema()), quote(&sequence.name))))
}

/// A type without any modifier.
pub fn plain_type(host: &StatementHost<'_>, oid: Oid) -> String {
    kilndb_catalog::format_type::format_type(&host.reader, oid, None)
}

fn function_text(host: &StatementHost<'_>, part: FunctionText, oid: Oid) -> Result<Datum> {
    use kilndb_catalog::routine::{ArgumentMode, declared_arguments};
    let Some(f) = host.reader.function_by_oid(oid)? else { return Ok(Datum::Null) };
    let arguments = declared_arguments(&f);
    let named = |name: &str, type_oid: Oid| {
        let shown = plain_type(host, type_oid);
        if name.is_empty() { shown } else { format!("{} {shown}", quote(name)) }
    };
    if part == FunctionText::Result {
        if f.kind == b'p' {
            return Ok(Datum::Null);
        }
        let table: Vec<String> =
            arguments.iter().filter(|a| a.mode == ArgumentMode::Table).map(|a| named(&a.name, a.type_oid)).collect();
        if !table.is_empty() {
            return Ok(Datum::text(format!("TABLE({})", table.join(", "))));
        }
        let shown = plain_type(host, f.return_type);
        return Ok(Datum::text(if f.returns_set { format!("SETOF {shown}") } else { shown }));
    }
    let identity = part == FunctionText::IdentityArguments;
    let mut parts = Vec::new();
    let first_default = f.arg_types.len().saturating_sub(f.defaults.len());
    let mut input = 0;
    for a in arguments.iter().filter(|a| a.mode != ArgumentMode::Table) {
        let is_input = a.mode.is_input();
        let prefix = match a.mode {
            ArgumentMode::Out => "OUT ",
            ArgumentMode::InOut => "INOUT ",
            ArgumentMode::Variadic => "VARIADIC ",
            // A procedure says so, to tell its arguments from the output ones.
            ArgumentMode::In if f.kind == b'p' => "IN ",
            _ => "",
        };
        let mut part = format!("{prefix}{}", named(&a.name, a.type_oid));
        if is_input {
            if !identity
                && input >= first_default
                && let Some(default) = f.defaults.get(input - first_default)
            {
                part.push_str(&format!(
                    " DEFAULT {}",
                    super::expression_text::canonical_default(host, default, a.type_oid)
                ));
            }
            input += 1;
        }
        parts.push(part);
    }
    Ok(Datum::text(parts.join(", ")))
}

/// A body in SQL syntax as it stands in CREATE FUNCTION.
fn sql_body(row: &CatalogRow) -> Option<String> {
    let body = row.text("prosqlbody")?;
    // Those of extensions are kept as PostgreSQL writes them.
    if let Some(e) = body.strip_prefix("SELECT ").filter(|_| is_member(row.oid("oid"))) {
        return Some(format!("RETURN {e}"));
    }
    let returned = returned_expression(body).filter(|_| row.char("prokind") != b'p');
    Some(returned.map_or_else(|| format!("BEGIN ATOMIC\n {body};\nEND"), |e| format!("RETURN {e}")))
}

/// The expression of a body that is one query of nothing else.
fn returned_expression(body: &str) -> Option<String> {
    let script = kilndb_syntax::parse(body).ok()?;
    let statements = script.statements();
    let [statement] = statements.as_slice() else { return None };
    let Node::SelectStmt(select) = statement.node() else { return None };
    let expression = kilndb_syntax::expression_sql(select.target_list().first()?.val()).ok()?;
    (body == format!("SELECT {expression}")).then_some(expression)
}

/// CREATE FUNCTION, from the function's row.
fn function_definition(host: &StatementHost<'_>, oid: Oid) -> Result<Datum> {
    let rows = host.reader.lookup(PG_PROC, PG_PROC_OID_INDEX, &[Datum::Oid(oid)])?;
    let Some(row) = rows.first() else { return Ok(Datum::Null) };
    let name = row.text("proname").unwrap_or("");
    if row.char("prokind") == b'a' {
        return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{name}\" is an aggregate function")));
    }
    let text_part = |which: FunctionText| -> Result<String> {
        Ok(match function_text(host, which, oid)? {
            Datum::Text(t) => t.to_string(),
            _ => String::new(),
        })
    };
    let schema = host.reader.schema_name(row.oid("pronamespace"))?.unwrap_or_default();
    let languages = host.reader.scan(PG_LANGUAGE)?;
    let language =
        languages.iter().find(|l| l.oid("oid") == row.oid("prolang")).and_then(|l| l.text("lanname")).unwrap_or("");
    let is_procedure = row.char("prokind") == b'p';
    let word = if is_procedure { "PROCEDURE" } else { "FUNCTION" };
    let mut text = format!(
        "CREATE OR REPLACE {word} {}.{}({})\n",
        quote(&schema),
        quote(name),
        text_part(FunctionText::Arguments)?
    );
    if !is_procedure {
        text.push_str(&format!(" RETURNS {}\n", text_part(FunctionText::Result)?));
    }
    text.push_str(&format!(" LANGUAGE {}\n", quote(language)));
    let mut words: Vec<String> = Vec::new();
    if row.char("prokind") == b'w' {
        words.push("WINDOW".to_string());
    }
    match row.char("provolatile") {
        b'i' => words.push("IMMUTABLE".to_string()),
        b's' => words.push("STABLE".to_string()),
        _ => {}
    }
    match row.char("proparallel") {
        b's' => words.push("PARALLEL SAFE".to_string()),
        b'r' => words.push("PARALLEL RESTRICTED".to_string()),
        _ => {}
    }
    for (column, word) in [("proisstrict", "STRICT"), ("prosecdef", "SECURITY DEFINER"), ("proleakproof", "LEAKPROOF")]
    {
        if row.bool(column) {
            words.push(word.to_string());
        }
    }
    let usual_cost = if matches!(language, "internal" | "c") { 1.0 } else { 100.0 };
    if row.float4("procost") != usual_cost && row.float4("procost") > 0.0 {
        words.push(format!("COST {}", row.float4("procost")));
    }
    if row.bool("proretset") && row.float4("prorows") != 1000.0 && row.float4("prorows") > 0.0 {
        words.push(format!("ROWS {}", row.float4("prorows")));
    }
    if !words.is_empty() {
        text.push_str(&format!(" {}\n", words.join(" ")));
    }
    for item in row.texts("proconfig") {
        let Some((name, value)) = item.split_once('=') else { continue };
        let is_list = matches!(
            name.to_ascii_lowercase().as_str(),
            "search_path" | "temp_tablespaces" | "local_preload_libraries"
        );
        let literal = |v: &str| format!("'{}'", v.replace('\'', "''"));
        let shown = if is_list {
            crate::settings::parse_search_path(value).iter().map(|v| literal(v)).collect::<Vec<_>>().join(", ")
        } else {
            literal(value)
        };
        text.push_str(&format!(" SET {} TO {shown}\n", quote(name)));
    }
    if let Some(body) = sql_body(row) {
        text.push_str(&format!("{body}\n"));
        return Ok(Datum::text(text));
    }
    let body = row.text("prosrc").unwrap_or("");
    let mut tag = if is_procedure { "procedure".to_string() } else { "function".to_string() };
    while body.contains(&format!("${tag}$")) {
        tag.push('x');
    }
    text.push_str(&format!("AS ${tag}${body}${tag}$\n"));
    Ok(Datum::text(text))
}
