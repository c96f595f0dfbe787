//! Objects as messages call them, and pg_describe_object.

use super::StatementHost;
use super::session_function::{Call, session_functions};
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, TableKind};
use kilndb_types::Datum;

session_functions! {
    fn pg_describe_object(call) = {
        let (table, oid, column) = (call.oid(0), call.oid(1), call.int(2) as i16);
        if table == 0 && oid == 0 {
            return Ok(Datum::Null);
        }
        Ok(shown(call.host, table, oid, column)?.map_or(Datum::Null, Datum::text))
    };
    fn pg_operator_is_visible(call) = is_visible(call, PG_OPERATOR, ["oprname", "oprnamespace"], &["oprleft", "oprright"]);
    fn pg_opclass_is_visible(call) = is_visible(call, PG_OPCLASS, ["opcname", "opcnamespace"], &["opcmethod"]);
    fn pg_opfamily_is_visible(call) = is_visible(call, PG_OPFAMILY, ["opfname", "opfnamespace"], &["opfmethod"]);
    fn pg_collation_is_visible(call) = is_visible(call, PG_COLLATION, ["collname", "collnamespace"], &[]);
    fn pg_statistics_obj_is_visible(call) = is_visible(call, PG_STATISTIC_EXT, ["stxname", "stxnamespace"], &[]);
    // Nobody can make conversions.
    fn pg_conversion_is_visible(_call) = Ok(Datum::Null);
}

/// `name`, or `schema.name` if the name alone would not find it.
pub fn qualified(host: &StatementHost<'_>, schema: Oid, name: &str) -> Result<String> {
    if host.reader.schemas_to_search(None, true)?.contains(&schema) {
        return Ok(quote(name));
    }
    Ok(format!("{}.{}", quote(&host.reader.schema_name(schema)?.unwrap_or_default()), quote(name)))
}

/// The name of a collation; None: there is none.
pub fn collation_name(host: &StatementHost<'_>, oid: Oid) -> Result<Option<String>> {
    let Some(info) = host.reader.collation_info(oid)? else { return Ok(None) };
    kilndb_catalog::collation_read::collation_shown(&host.reader, &info).map(Some)
}

/// What an object is called; None: there is no such object.
pub fn shown(host: &StatementHost<'_>, table: Oid, oid: Oid, column: i16) -> Result<Option<String>> {
    let row = |index: Oid| host.reader.lookup(table, index, &[Datum::Oid(oid)]).map(|mut rows| rows.pop());
    let of_method = |index: Oid, word: &str, columns: [&str; 3]| -> Result<Option<String>> {
        let Some(r) = row(index)? else { return Ok(None) };
        let methods = host.reader.scan(PG_AM)?;
        let method = methods
            .iter()
            .find(|m| m.oid("oid") == r.oid(columns[0]))
            .and_then(|m| m.text("amname"))
            .unwrap_or("")
            .to_string();
        let name = qualified(host, r.oid(columns[1]), r.text(columns[2]).unwrap_or(""))?;
        Ok(Some(format!("{word} {name} for access method {method}")))
    };
    Ok(match table {
        PG_PROC => {
            let Some(f) = host.reader.function_by_oid(oid)? else { return Ok(None) };
            // PostgreSQL calls procedures and aggregates functions here, too.
            Some(format!("function {}", super::routine_definition::signature_of(host, &f)?))
        }
        PG_OPERATOR => {
            let Some(o) = host.reader.operator_by_oid(oid)? else { return Ok(None) };
            let side = |t: Oid| if t == 0 { "NONE".to_string() } else { super::definitions::plain_type(host, t) };
            let is_found = host.reader.schemas_to_search(None, false)?.contains(&o.schema_oid);
            let schema = if is_found {
                String::new()
            } else {
                format!("{}.", quote(&host.reader.schema_name(o.schema_oid)?.unwrap_or_default()))
            };
            Some(format!("operator {schema}{}({},{})", o.name, side(o.left), side(o.right)))
        }
        PG_OPCLASS => of_method(PG_OPCLASS_OID_INDEX, "operator class", ["opcmethod", "opcnamespace", "opcname"])?,
        PG_OPFAMILY => of_method(PG_OPFAMILY_OID_INDEX, "operator family", ["opfmethod", "opfnamespace", "opfname"])?,
        PG_TYPE => host.reader.type_by_oid(oid)?.map(|_| format!("type {}", super::definitions::plain_type(host, oid))),
        PG_NAMESPACE => host.reader.schema_name(oid)?.map(|name| format!("schema {name}")),
        PG_EXTENSION => row(PG_EXTENSION_OID_INDEX)?.map(|r| format!("extension {}", r.text("extname").unwrap_or(""))),
        PG_LANGUAGE => named(host, table, oid, "lanname", "language")?,
        PG_CLASS => {
            let Some(t) = host.reader.table_by_oid(oid)? else { return Ok(None) };
            let name = qualified(host, t.schema_oid, &t.name)?;
            let whole = match t.kind {
                TableKind::Table | TableKind::Partitioned => format!("table {name}"),
                TableKind::View => format!("view {name}"),
                TableKind::Materialized => format!("materialized view {name}"),
                TableKind::Sequence => format!("sequence {name}"),
                TableKind::Index => format!("index {name}"),
                TableKind::Composite => format!("composite type {name}"),
            };
            match t.columns.iter().find(|c| c.attnum == column && column != 0) {
                Some(c) => Some(format!("column {} of {whole}", c.name)),
                None => Some(whole),
            }
        }
        PG_CONSTRAINT => {
            let Some(r) = row(PG_CONSTRAINT_OID_INDEX)? else { return Ok(None) };
            let name = r.text("conname").unwrap_or("");
            match (r.oid("conrelid"), shown(host, PG_CLASS, r.oid("conrelid"), 0)?) {
                (0, _) | (_, None) => Some(format!("constraint {name}")),
                (_, Some(table)) => Some(format!("constraint {name} on {table}")),
            }
        }
        PG_TRIGGER => on_table(host, table, oid, ("tgname", "tgrelid"), "trigger")?,
        PG_POLICY => on_table(host, table, oid, ("polname", "polrelid"), "policy")?,
        PG_REWRITE => on_table(host, table, oid, ("rulename", "ev_class"), "rule")?,
        PG_ATTRDEF => {
            let Some(r) = row_of(host, table, oid)? else { return Ok(None) };
            shown(host, PG_CLASS, r.oid("adrelid"), r.int("adnum") as i16)?
                .map(|column| format!("default value for {column}"))
        }
        PG_CAST => {
            let named = |ty: Oid| super::definitions::plain_type(host, ty);
            row_of(host, table, oid)?
                .map(|r| format!("cast from {} to {}", named(r.oid("castsource")), named(r.oid("casttarget"))))
        }
        PG_AM => named(host, table, oid, "amname", "access method")?,
        PG_AUTHID => named(host, table, oid, "rolname", "role")?,
        PG_AUTH_MEMBERS => row_of(host, table, oid)?
            .map(|r| {
                let roles = host.roles()?;
                let (member, role) = (roles.name(r.oid("member")), roles.name(r.oid("roleid")));
                Ok::<_, Error>(format!("membership of role {member} in role {role}"))
            })
            .transpose()?,
        PG_DEFAULT_ACL => row_of(host, table, oid)?.map(|r| default_privileges(host, &r)).transpose()?,
        PG_LARGEOBJECT => {
            let (index, key) = (PG_LARGEOBJECT_METADATA_OID_INDEX, [Datum::Oid(oid)]);
            let found = host.reader.lookup(PG_LARGEOBJECT_METADATA, index, &key)?.pop();
            found.map(|_| format!("large object {oid}"))
        }
        PG_PARAMETER_ACL => named(host, table, oid, "parname", "parameter")?,
        PG_DATABASE => named(host, table, oid, "datname", "database")?,
        PG_TABLESPACE => named(host, table, oid, "spcname", "tablespace")?,
        PG_COLLATION => in_schema(host, table, oid, ("collname", "collnamespace"), "collation")?,
        PG_STATISTIC_EXT => in_schema(host, table, oid, ("stxname", "stxnamespace"), "statistics object")?,
        PG_TS_CONFIG => in_schema(host, table, oid, ("cfgname", "cfgnamespace"), "text search configuration")?,
        PG_TS_DICT => in_schema(host, table, oid, ("dictname", "dictnamespace"), "text search dictionary")?,
        PG_TS_PARSER => in_schema(host, table, oid, ("prsname", "prsnamespace"), "text search parser")?,
        PG_TS_TEMPLATE => in_schema(host, table, oid, ("tmplname", "tmplnamespace"), "text search template")?,
        _ => {
            return Err(Error::unsupported(format!(
                "pg_describe_object of objects of catalog {table} is not supported"
            )));
        }
    })
}

/// What a row of pg_default_acl is called.
fn default_privileges(host: &StatementHost<'_>, row: &CatalogRow) -> Result<String> {
    let what = match row.char("defaclobjtype") {
        b'r' => "relations",
        b'S' => "sequences",
        b'f' => "functions",
        b'T' => "types",
        b'n' => "schemas",
        _ => "large objects",
    };
    let role = host.roles()?.name(row.oid("defaclrole"));
    let shown = format!("default privileges on new {what} belonging to role {role}");
    Ok(match host.reader.schema_name(row.oid("defaclnamespace"))? {
        Some(schema) => format!("{shown} in schema {schema}"),
        None => shown,
    })
}

/// The row of an object in a small system table.
fn row_of(host: &StatementHost<'_>, table: Oid, oid: Oid) -> Result<Option<CatalogRow>> {
    Ok(host.reader.scan(table)?.into_iter().find(|r| r.oid("oid") == oid))
}

fn named(host: &StatementHost<'_>, table: Oid, oid: Oid, name: &str, word: &str) -> Result<Option<String>> {
    Ok(row_of(host, table, oid)?.map(|r| format!("{word} {}", r.text(name).unwrap_or(""))))
}

fn in_schema(
    host: &StatementHost<'_>,
    table: Oid,
    oid: Oid,
    (name, schema): (&str, &str),
    word: &str,
) -> Result<Option<String>> {
    let Some(r) = row_of(host, table, oid)? else { return Ok(None) };
    Ok(Some(format!("{word} {}", qualified(host, r.oid(schema), r.text(name).unwrap_or(""))?)))
}

fn on_table(
    host: &StatementHost<'_>,
    table: Oid,
    oid: Oid,
    (name, relation): (&str, &str),
    word: &str,
) -> Result<Option<String>> {
    let Some(r) = row_of(host, table, oid)? else { return Ok(None) };
    let whole = shown(host, PG_CLASS, r.oid(relation), 0)?.unwrap_or_default();
    Ok(Some(format!("{word} {} on {whole}", r.text(name).unwrap_or(""))))
}

/// What has a schema and a name is visible if it is the first of its name on the search path; of its kind are those that
/// agree in `also`. NULL: there is no such object.
fn is_visible(call: &Call<'_, '_>, table: Oid, [name, schema]: [&str; 2], also: &[&str]) -> Result<Datum> {
    let (host, oid) = (call.host, call.oid(0));
    let rows = host.reader.scan(table)?;
    let Some(row) = rows.iter().find(|r| r.oid("oid") == oid) else { return Ok(Datum::Null) };
    let same: Vec<_> =
        rows.iter().filter(|r| r.text(name) == row.text(name) && also.iter().all(|c| r.oid(c) == row.oid(c))).collect();
    let path = host.reader.schemas_to_search(None, false)?;
    let first = path.iter().find_map(|s| same.iter().find(|r| r.oid(schema) == *s));
    Ok(Datum::Bool(first.is_some_and(|r| r.oid("oid") == oid)))
}
