//! The family of has_…_privilege and pg_has_role: what a role may do, answered from owners and lists of grants.
//!
//! Invariants
//! 1. A list of privileges is had if one of them is. An object that is not there gives NULL if it is given by its OID,
//!    and an error if it is given by its name.

use super::StatementHost;
use super::arguments::{int_of, oid_of, text_of};
use super::session_function::{Call, session_functions};
use crate::privileges::has_on_columns;
use kilndb_base::{Error, Oid, Result, sqlstate, work::SmallSteps};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::large_object;
use kilndb_catalog::privileges::{PUBLIC_ROLE, Privileges, SecuredKind, grant_options, privilege};
use kilndb_catalog::roles::RolesInDatabase;
use kilndb_catalog::secured_objects::{
    DATABASES, LANGUAGES, LARGE_OBJECTS, ROUTINES, SCHEMAS, SecuredTable, TABLESPACES, TYPES,
};
use kilndb_catalog::shared_dependencies::{owned_table, table_of_class};
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_types::Datum;
use kilndb_types::oids;
use std::sync::Arc;

session_functions! {
    fn has_table_privilege(call) = on_relation(call, false);
    fn has_any_column_privilege(call) = on_relation(call, true);
    fn has_sequence_privilege(call) = on_sequence(call);
    fn has_column_privilege(call) = on_column(call);
    fn has_database_privilege(call) = on_object(call, &DATABASE);
    fn has_schema_privilege(call) = on_object(call, &SCHEMA);
    fn has_function_privilege(call) = on_object(call, &FUNCTION);
    fn has_type_privilege(call) = on_object(call, &TYPE);
    fn has_language_privilege(call) = on_object(call, &LANGUAGE);
    fn has_tablespace_privilege(call) = on_object(call, &TABLESPACE);
    fn has_largeobject_privilege(call) = on_large_object(call);
    fn has_parameter_privilege(call) = on_parameter(call);
    fn pg_has_role(call) = on_role(call);
    fn pg_get_acl(call) = grants_of(call.host, call.oid(0), call.oid(1), call.int(2));
}

/// Words of privileges and their bits.
type Words = &'static [(&'static str, u64)];

const RELATION: Words = &[
    ("SELECT", privilege::SELECT),
    ("INSERT", privilege::INSERT),
    ("UPDATE", privilege::UPDATE),
    ("DELETE", privilege::DELETE),
    ("TRUNCATE", privilege::TRUNCATE),
    ("REFERENCES", privilege::REFERENCES),
    ("TRIGGER", privilege::TRIGGER),
    ("MAINTAIN", privilege::MAINTAIN),
];
const COLUMN: Words = &[
    ("SELECT", privilege::SELECT),
    ("INSERT", privilege::INSERT),
    ("UPDATE", privilege::UPDATE),
    ("REFERENCES", privilege::REFERENCES),
];
const SEQUENCE: Words = &[("USAGE", privilege::USAGE), ("SELECT", privilege::SELECT), ("UPDATE", privilege::UPDATE)];
const LARGE_OBJECT: Words = &[("SELECT", privilege::SELECT), ("UPDATE", privilege::UPDATE)];
const PARAMETER: Words = &[("SET", privilege::SET), ("ALTER SYSTEM", privilege::ALTER_SYSTEM)];
/// Of roles: being a member is CREATE.
const ROLE: Words = &[("USAGE", privilege::USAGE), ("MEMBER", privilege::CREATE), ("SET", privilege::SET)];

/// The privileges that a text lists, grant options among them.
fn wanted(text: &str, words: Words, is_of_role: bool) -> Result<Vec<u64>> {
    let mut steps = SmallSteps::default();
    let mut found = Vec::new();
    for part in text.split(',') {
        steps.step(100)?;
        let part = part.trim_matches(|c: char| c.is_ascii_whitespace() || c == '\u{b}');
        let option = [" WITH GRANT OPTION", " WITH ADMIN OPTION"].into_iter().take(if is_of_role { 2 } else { 1 });
        let upper = part.to_ascii_uppercase();
        let plain = option.into_iter().find_map(|suffix| upper.strip_suffix(suffix));
        let word = plain.unwrap_or(&upper);
        let bit = words.iter().find(|(known, _)| *known == word).map(|(_, bit)| *bit);
        let bit = bit.ok_or_else(|| {
            Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("unrecognized privilege type: \"{part}\""))
        })?;
        found.push(match plain {
            Some(_) if is_of_role => grant_options(privilege::CREATE),
            Some(_) => grant_options(bit),
            None => bit,
        });
    }
    Ok(found)
}

/// The arguments of a call without its role, which comes first, or is the one in force.
struct Question<'c> {
    role: Oid,
    object: Option<&'c Datum>,
    column: Option<&'c Datum>,
    privileges: String,
}

fn missing_role(name: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"))
}

/// None: an argument is NULL. `parts`: how many arguments there are besides the role.
fn question<'c>(call: &Call<'c, '_>, parts: usize, knows_public: bool) -> Result<Option<Question<'c>>> {
    if call.args.iter().any(Datum::is_null) {
        return Ok(None);
    }
    let first = call.args.len().saturating_sub(parts);
    let role = match call.args.first().filter(|_| first > 0) {
        None => call.host.facts.current_role,
        Some(Datum::Text(name)) if knows_public && &**name == "public" => PUBLIC_ROLE,
        Some(Datum::Text(name)) => call.host.roles()?.named(name).ok_or_else(|| missing_role(name))?.oid,
        other => oid_of(other),
    };
    let column = if parts == 3 { call.args.get(first + 1) } else { None };
    Ok(Some(Question { role, object: call.args.get(first), column, privileges: text_of(call.args.last()) }))
}

fn with_roles<R>(host: &StatementHost<'_>, ask: impl FnOnce(RolesInDatabase<'_>) -> R) -> Result<R> {
    let roles = host.roles()?;
    Ok(ask(roles.seen_from(host.database().oid)))
}

fn answer(host: &StatementHost<'_>, role: Oid, privileges: &Privileges, wanted: &[u64]) -> Result<Datum> {
    with_roles(host, |roles| Datum::Bool(wanted.iter().any(|bit| privileges.has_any(role, *bit, roles))))
}

fn relation(host: &StatementHost<'_>, object: Option<&Datum>) -> Result<Option<Arc<Table>>> {
    let oid = match object {
        Some(Datum::Text(text)) => super::relation_by_text(host, text)?,
        other => oid_of(other),
    };
    host.reader.table_by_oid(oid)
}

fn on_relation(call: &Call<'_, '_>, any_column: bool) -> Result<Datum> {
    let Some(q) = question(call, 2, true)? else { return Ok(Datum::Null) };
    let wanted = wanted(&q.privileges, if any_column { COLUMN } else { RELATION }, false)?;
    let Some(table) = relation(call.host, q.object)? else { return Ok(Datum::Null) };
    with_roles(call.host, |roles| {
        Datum::Bool(wanted.iter().any(|bit| {
            table.privileges().has_any(q.role, *bit, roles)
                || (any_column && has_on_columns(q.role, &table, &[], *bit, roles))
        }))
    })
}

fn on_sequence(call: &Call<'_, '_>) -> Result<Datum> {
    let Some(q) = question(call, 2, true)? else { return Ok(Datum::Null) };
    let wanted = wanted(&q.privileges, SEQUENCE, false)?;
    let Some(table) = relation(call.host, q.object)? else { return Ok(Datum::Null) };
    if table.kind != TableKind::Sequence {
        let shown = if let Some(Datum::Text(text)) = q.object { text.to_string() } else { table.name.clone() };
        return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{shown}\" is not a sequence")));
    }
    answer(call.host, q.role, &table.privileges(), &wanted)
}

fn on_column(call: &Call<'_, '_>) -> Result<Datum> {
    let Some(q) = question(call, 3, true)? else { return Ok(Datum::Null) };
    let Some(table) = relation(call.host, q.object)? else { return Ok(Datum::Null) };
    let attnum = match q.column {
        Some(Datum::Text(name)) => {
            let column = table.columns.iter().find(|c| *c.name == **name);
            let missing = || {
                let message = format!("column \"{name}\" of relation \"{}\" does not exist", table.name);
                Error::new(sqlstate::UNDEFINED_COLUMN, message)
            };
            column.ok_or_else(missing)?.attnum
        }
        other => int_of(other) as i16,
    };
    let wanted = wanted(&q.privileges, COLUMN, false)?;
    if !table.columns.iter().any(|c| !c.dropped && c.attnum == attnum) {
        return Ok(Datum::Null);
    }
    with_roles(call.host, |roles| {
        Datum::Bool(wanted.iter().any(|bit| {
            table.privileges().has_any(q.role, *bit, roles) || has_on_columns(q.role, &table, &[attnum], *bit, roles)
        }))
    })
}

/// Objects that a row of a system table stands for, as a function asks about them.
struct RowQuestion {
    secured: &'static SecuredTable,
    words: Words,
    /// The type whose input finds an object by its text; 0: the name is looked up as it is.
    input: Oid,
}

const DATABASE: RowQuestion = RowQuestion {
    secured: &DATABASES,
    words: &[
        ("CREATE", privilege::CREATE),
        ("TEMPORARY", privilege::TEMPORARY),
        ("TEMP", privilege::TEMPORARY),
        ("CONNECT", privilege::CONNECT),
    ],
    input: 0,
};
const SCHEMA: RowQuestion =
    RowQuestion { secured: &SCHEMAS, words: &[("CREATE", privilege::CREATE), ("USAGE", privilege::USAGE)], input: 0 };
const LANGUAGE: RowQuestion = RowQuestion { secured: &LANGUAGES, words: &[("USAGE", privilege::USAGE)], input: 0 };
const TABLESPACE: RowQuestion =
    RowQuestion { secured: &TABLESPACES, words: &[("CREATE", privilege::CREATE)], input: 0 };
const FUNCTION: RowQuestion =
    RowQuestion { secured: &ROUTINES, words: &[("EXECUTE", privilege::EXECUTE)], input: oids::REGPROCEDURE };
const TYPE: RowQuestion = RowQuestion { secured: &TYPES, words: &[("USAGE", privilege::USAGE)], input: oids::REGTYPE };

fn row_of(host: &StatementHost<'_>, asked: &RowQuestion, object: Option<&Datum>) -> Result<Option<CatalogRow>> {
    let secured = asked.secured;
    let oid = match object {
        Some(Datum::Text(text)) if asked.input != 0 => super::functions::reg_lookup(host, asked.input, text)?,
        Some(Datum::Text(name)) => {
            let row = host.reader.lookup(secured.table, secured.by_name, &[Datum::text(&**name)])?.pop();
            let missing = || Error::new(secured.missing, format!("{} \"{name}\" does not exist", secured.kind.word()));
            return row.ok_or_else(missing).map(Some);
        }
        other => oid_of(other),
    };
    Ok(host.reader.lookup(secured.table, secured.by_oid, &[Datum::Oid(oid)])?.pop())
}

fn on_object(call: &Call<'_, '_>, asked: &RowQuestion) -> Result<Datum> {
    let Some(q) = question(call, 2, true)? else { return Ok(Datum::Null) };
    let wanted = wanted(&q.privileges, asked.words, false)?;
    let Some(row) = row_of(call.host, asked, q.object)? else { return Ok(Datum::Null) };
    let mut privileges = asked.secured.privileges(&row);
    if asked.secured.table == PG_TYPE {
        privileges = of_element(call.host, &row, privileges)?;
    }
    answer(call.host, q.role, &privileges, &wanted)
}

/// An array is its element's, a multirange its range's.
fn of_element(host: &StatementHost<'_>, row: &CatalogRow, own: Privileges) -> Result<Privileges> {
    let element = row.oid("typelem");
    if row.char("typcategory") != b'A' || element == 0 {
        return Ok(own);
    }
    let found = host.reader.lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(element)])?.pop();
    Ok(found.map_or(own, |row| TYPES.privileges(&row)))
}

/// The list of grants of an object or of a column; NULL if it has none, or is not there.
fn grants_of(host: &StatementHost<'_>, class: Oid, object: Oid, part: i64) -> Result<Datum> {
    if class == PG_CLASS && part != 0 {
        let key = [Datum::Oid(object), Datum::Int2(part as i16)];
        let row = host.reader.lookup(PG_ATTRIBUTE, PG_ATTRIBUTE_RELID_ATTNUM_INDEX, &key)?.pop();
        return Ok(row.map_or(Datum::Null, |row| row.get("attacl").clone()));
    }
    let class = table_of_class(class);
    let Some(grants) = owned_table(class).and_then(|owned| owned.grants) else { return Ok(Datum::Null) };
    let row = host.reader.scan(class)?.into_iter().find(|row| row.oid("oid") == object);
    Ok(row.map_or(Datum::Null, |row| row.get(grants).clone()))
}

/// Each privilege is asked as of the moment that the object would be opened with for it.
fn on_large_object(call: &mut Call<'_, '_>) -> Result<Datum> {
    let Some(q) = question(call, 2, true)? else { return Ok(Datum::Null) };
    let wanted = wanted(&q.privileges, LARGE_OBJECT, false)?;
    let (object, host) = (oid_of(q.object), call.host);
    let mut has = false;
    for bit in wanted {
        let snapshot = match bit & privilege::UPDATE {
            0 => call.env.snapshot.clone().untracked(),
            _ => call.env.txn.catalog_snapshot(),
        };
        let Some(row) = large_object::find(&host.database().store, object, &snapshot)? else { return Ok(Datum::Null) };
        let privileges = LARGE_OBJECTS.privileges(&row);
        has =
            super::large_object::asks_nobody(host) || with_roles(host, |roles| privileges.has_any(q.role, bit, roles))?;
        if has {
            break;
        }
    }
    Ok(Datum::Bool(has))
}

fn on_parameter(call: &Call<'_, '_>) -> Result<Datum> {
    let Some(q) = question(call, 2, true)? else { return Ok(Datum::Null) };
    let wanted = wanted(&q.privileges, PARAMETER, false)?;
    let name = text_of(q.object);
    let owner = kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
    let known = call.host.cluster.parameter_privileges(&name)?;
    let privileges = known.unwrap_or(Privileges { kind: SecuredKind::Parameter, owner, list: None });
    answer(call.host, q.role, &privileges, &wanted)
}

fn on_role(call: &Call<'_, '_>) -> Result<Datum> {
    let Some(q) = question(call, 2, false)? else { return Ok(Datum::Null) };
    let role = match q.object {
        Some(Datum::Text(name)) => call.host.roles()?.named(name).ok_or_else(|| missing_role(name))?.oid,
        other => oid_of(other),
    };
    let wanted = wanted(&q.privileges, ROLE, true)?;
    with_roles(call.host, |roles| {
        Datum::Bool(wanted.iter().any(|bit| match *bit {
            privilege::USAGE => roles.has_privileges_of(q.role, role),
            privilege::CREATE => roles.is_member(q.role, role),
            privilege::SET => roles.may_set(q.role, role),
            _ => roles.is_admin(q.role, role),
        }))
    })
}
