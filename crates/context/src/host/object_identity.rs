//! Objects by names that tell them apart everywhere: pg_identify_object, pg_identify_object_as_address,
//! pg_get_object_address.
//!
//! Invariants
//! 1. What pg_identify_object_as_address says of an object, pg_get_object_address finds it by.
//! 2. Relations and their columns, what belongs to relations (policies, triggers, rules, constraints), schemas, roles and
//!    large objects are known here. Anything else is an error that says so.

use super::StatementHost;
use super::identifiers::record;
use super::session_function::{Call, session_functions};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

session_functions! {
    fn pg_identify_object(call) = {
        let found = identity(call.host, address(call))?;
        let text = |value: Option<&String>| value.map_or(Datum::Null, Datum::text);
        let values = [text(found.schema.as_ref()), text(found.name.as_ref()), text(found.identity.as_ref())];
        Ok(record([Datum::text(&found.kind)].into_iter().chain(values).map(|v| (oids::TEXT, v)).collect()))
    };
    fn pg_identify_object_as_address(call) = {
        let found = identity(call.host, address(call))?;
        let list = |names: &[String]| match found.identity {
            Some(_) => array(oids::TEXT, names.iter().map(Datum::text).collect()),
            None => Datum::Null,
        };
        Ok(record(vec![
            (oids::TEXT, Datum::text(&found.kind)),
            (TEXT_ARRAY, list(&found.path)),
            (TEXT_ARRAY, list(&[])),
        ]))
    };
    fn pg_get_object_address(call) = {
        let names = names_of(call.arg(1))?;
        names_of(call.arg(2))?;
        if names.is_empty() && call.text(0) != "large object" {
            return Err(invalid("name list length must be at least 1"));
        }
        let (class, object, column) = named(call.host, &call.text(0), &names)?;
        let values = vec![(oids::OID, Datum::Oid(class)), (oids::OID, Datum::Oid(object))];
        Ok(record(values.into_iter().chain([(oids::INT4, Datum::Int4(column))]).collect()))
    };
}

const TEXT_ARRAY: Oid = 1009;

fn invalid(message: &str) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn address(call: &Call<'_, '_>) -> (Oid, Oid, i16) {
    (call.oid(0), call.oid(1), call.int(2) as i16)
}

/// How an object can be told from all others; without `identity`: there is none.
#[derive(Default)]
struct Identity {
    kind: String,
    schema: Option<String>,
    name: Option<String>,
    identity: Option<String>,
    path: Vec<String>,
}

/// What belongs to a relation and has a name there: the system table, its columns of the name and the relation, what
/// it is called, what errors call the relation that does not have it.
struct PartKind {
    class: Oid,
    name: &'static str,
    relation: &'static str,
    kind: &'static str,
    word: &'static str,
    of: &'static str,
}

const PARTS: [PartKind; 4] = [
    PartKind { class: PG_POLICY, name: "polname", relation: "polrelid", kind: "policy", word: "policy", of: "table" },
    PartKind { class: PG_TRIGGER, name: "tgname", relation: "tgrelid", kind: "trigger", word: "trigger", of: "table" },
    PartKind { class: PG_REWRITE, name: "rulename", relation: "ev_class", kind: "rule", word: "rule", of: "relation" },
    PartKind {
        class: PG_CONSTRAINT,
        name: "conname",
        relation: "conrelid",
        kind: "table constraint",
        word: "constraint",
        of: "table",
    },
];

/// What relations of these kinds are called.
const RELATIONS: [(&str, &[TableKind]); 6] = [
    ("table", &[TableKind::Table, TableKind::Partitioned]),
    ("view", &[TableKind::View]),
    ("materialized view", &[TableKind::Materialized]),
    ("sequence", &[TableKind::Sequence]),
    ("index", &[TableKind::Index]),
    ("composite type", &[TableKind::Composite]),
];

fn relation_kind(table: &Table) -> &'static str {
    RELATIONS.iter().find(|(_, kinds)| kinds.contains(&table.kind)).map_or("relation", |(word, _)| word)
}

fn identity(host: &StatementHost<'_>, (class, object, column): (Oid, Oid, i16)) -> Result<Identity> {
    match class {
        PG_CLASS => relation_identity(host, object, column),
        PG_LARGEOBJECT => {
            let kind = "large object".to_string();
            if !has_large_object(host, object)? {
                return Ok(Identity { kind, ..Identity::default() });
            }
            let shown = object.to_string();
            Ok(Identity { kind, identity: Some(shown.clone()), path: vec![shown], ..Identity::default() })
        }
        PG_NAMESPACE => Ok(named_identity("schema", host.reader.schema_name(object)?)),
        PG_AUTHID => {
            let known = host.reader.scan(PG_AUTHID)?.into_iter().find(|row| row.oid("oid") == object);
            Ok(named_identity("role", known.and_then(|row| row.text("rolname").map(str::to_string))))
        }
        _ => match PARTS.iter().find(|part| part.class == class) {
            Some(part) => part_identity(host, part, object),
            None => {
                let message = format!("pg_identify_object of objects of catalog {class} is not supported");
                Err(Error::unsupported(message))
            }
        },
    }
}

fn has_large_object(host: &StatementHost<'_>, object: Oid) -> Result<bool> {
    let (index, key) = (PG_LARGEOBJECT_METADATA_OID_INDEX, [Datum::Oid(object)]);
    Ok(!host.reader.lookup(PG_LARGEOBJECT_METADATA, index, &key)?.is_empty())
}

fn named_identity(kind: &str, name: Option<String>) -> Identity {
    let shown = name.as_deref().map(quote);
    Identity {
        kind: kind.to_string(),
        schema: None,
        name: shown.clone(),
        identity: shown,
        path: name.into_iter().collect(),
    }
}

fn relation_identity(host: &StatementHost<'_>, relation: Oid, column: i16) -> Result<Identity> {
    let suffix = if column == 0 { "" } else { " column" };
    let Some(table) = host.reader.table_by_oid(relation)? else {
        return Ok(Identity { kind: "relation".to_string(), ..Identity::default() });
    };
    let mut path = vec![table.schema_name.clone(), table.name.clone()];
    let kind = format!("{}{suffix}", relation_kind(&table));
    if column != 0 {
        match table.columns.iter().find(|c| c.attnum == column && !c.dropped) {
            Some(found) => path.push(found.name.clone()),
            None => return Ok(Identity { kind, ..Identity::default() }),
        }
    }
    Ok(Identity {
        kind,
        schema: Some(quote(&table.schema_name)),
        name: Some(quote(&table.name)),
        identity: Some(path.iter().map(|part| quote(part)).collect::<Vec<_>>().join(".")),
        path,
    })
}

fn part_identity(host: &StatementHost<'_>, part: &PartKind, object: Oid) -> Result<Identity> {
    let missing = Identity { kind: part.kind.to_string(), ..Identity::default() };
    let Some(row) = host.reader.scan(part.class)?.into_iter().find(|row| row.oid("oid") == object) else {
        return Ok(missing);
    };
    let Some(table) = host.reader.table_by_oid(row.oid(part.relation))? else {
        let message = "pg_identify_object of constraints of domains is not supported";
        return if part.class == PG_CONSTRAINT { Err(Error::unsupported(message)) } else { Ok(missing) };
    };
    let name = row.text(part.name).unwrap_or("").to_string();
    let shown = format!("{} on {}.{}", quote(&name), quote(&table.schema_name), quote(&table.name));
    Ok(Identity {
        // Constraints alone have a schema.
        schema: (part.class == PG_CONSTRAINT).then(|| quote(&table.schema_name)),
        identity: Some(shown),
        path: vec![table.schema_name.clone(), table.name.clone(), name],
        ..missing
    })
}

fn names_of(list: Option<&Datum>) -> Result<Vec<String>> {
    let Some(Datum::Array(list)) = list else { return Ok(Vec::new()) };
    let text = |value: &Datum| match value {
        Datum::Text(text) => Ok(text.to_string()),
        _ => Err(invalid("name or argument lists may not contain nulls")),
    };
    list.elements.iter().map(text).collect()
}

/// The address of the object that has these names.
fn named(host: &StatementHost<'_>, kind: &str, names: &[String]) -> Result<(Oid, Oid, i32)> {
    if let Some(part) = PARTS.iter().find(|part| part.kind == kind) {
        return named_part(host, part, names);
    }
    let (of, is_column) = match kind.strip_suffix(" column") {
        Some(of) => (of, true),
        None => (kind, false),
    };
    let is_known = match of {
        "composite type" | "toast table" => false,
        "index" | "sequence" => !is_column,
        _ => true,
    };
    if !is_known {
        return Err(invalid(&format!("unsupported object type \"{kind}\"")));
    }
    match RELATIONS.iter().find(|(word, _)| *word == of) {
        Some(_) if is_column => {
            let [relation @ .., column] = names else { return Err(invalid("name list length must be at least 1")) };
            if relation.is_empty() {
                return Err(Error::new(sqlstate::SYNTAX_ERROR, "column name must be qualified"));
            }
            let table = named_relation(host, relation)?;
            let found = table.columns.iter().find(|c| c.name == *column && !c.dropped);
            let missing = format!("column \"{column}\" of relation \"{}\" does not exist", relation.join("."));
            let found = found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_COLUMN, missing))?;
            Ok((PG_CLASS, table.oid, i32::from(found.attnum)))
        }
        Some((word, _)) => {
            let table = named_relation(host, names)?;
            require_kind(&table, word)?;
            Ok((PG_CLASS, table.oid, 0))
        }
        None => named_alone(host, kind, names),
    }
}

fn named_alone(host: &StatementHost<'_>, kind: &str, names: &[String]) -> Result<(Oid, Oid, i32)> {
    let only = || match names {
        [name] => Ok(name.as_str()),
        _ => Err(invalid("name list length must be exactly 1")),
    };
    match kind {
        "schema" => {
            let name = only()?;
            let missing = || Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{name}\" does not exist"));
            Ok((PG_NAMESPACE, host.reader.schema_oid(name)?.ok_or_else(missing)?, 0))
        }
        "role" => {
            let name = only()?;
            let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("role \"{name}\" does not exist"));
            Ok((PG_AUTHID, host.roles()?.named(name).ok_or_else(missing)?.oid, 0))
        }
        "large object" => {
            let name = only()?;
            let object: Oid = name.trim().parse().map_err(|_| {
                let message = format!("invalid input syntax for type oid: \"{name}\"");
                Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, message)
            })?;
            match has_large_object(host, object)? {
                true => Ok((PG_LARGEOBJECT, object, 0)),
                false => Err(kilndb_catalog::large_object::missing(object)),
            }
        }
        _ if OTHER_KINDS.split(',').any(|known| known == kind) => {
            Err(Error::unsupported(format!("pg_get_object_address of objects of type \"{kind}\" is not supported")))
        }
        _ => Err(invalid(&format!("unrecognized object type \"{kind}\""))),
    }
}

/// What else PostgreSQL knows by this function.
const OTHER_KINDS: &str = "foreign table,foreign table column,aggregate,function,procedure,routine,type,\
    cast,collation,domain constraint,conversion,default value,domain,operator,operator class,operator family,\
    operator of access method,function of access method,access method,event trigger,extension,foreign-data wrapper,server,\
    user mapping,text search parser,text search dictionary,text search template,text search configuration,tablespace,\
    database,publication,publication namespace,publication relation,subscription,transform,statistics object,default acl,\
    language,parameter ACL";

fn named_relation(host: &StatementHost<'_>, names: &[String]) -> Result<Arc<Table>> {
    let (schema, name) = match names {
        [name] => (None, name),
        [.., schema, name] => (Some(schema.as_str()), name),
        [] => return Err(invalid("name list length must be at least 1")),
    };
    let missing = || {
        let message = format!("relation \"{}\" does not exist", names.join("."));
        Error::new(sqlstate::UNDEFINED_TABLE, message)
    };
    host.reader.table_by_name(schema, name)?.ok_or_else(missing)
}

fn require_kind(table: &Table, word: &str) -> Result<()> {
    if relation_kind(table) == word {
        return Ok(());
    }
    let article = if word.starts_with('i') { "an" } else { "a" };
    Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not {article} {word}", table.name)))
}

fn named_part(host: &StatementHost<'_>, part: &PartKind, names: &[String]) -> Result<(Oid, Oid, i32)> {
    let [relation @ .., name] = names else { return Err(invalid("name list length must be at least 1")) };
    if relation.is_empty() {
        return Err(Error::new(sqlstate::SYNTAX_ERROR, "must specify relation and object name"));
    }
    let table = named_relation(host, relation)?;
    let rows = host.reader.scan(part.class)?;
    let found = rows.iter().find(|r| r.oid(part.relation) == table.oid && r.text(part.name) == Some(name.as_str()));
    let missing = || {
        let message = format!("{} \"{name}\" for {} \"{}\" does not exist", part.word, part.of, table.name);
        Error::new(sqlstate::UNDEFINED_OBJECT, message)
    };
    Ok((part.class, found.ok_or_else(missing)?.oid("oid"), 0))
}
