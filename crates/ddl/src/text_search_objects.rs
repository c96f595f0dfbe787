//! What text search objects of all kinds have: names, schemas, owners, DROP. And parsers and templates, which are made
//! of functions: there are PostgreSQL's own.

use super::Definitions;
use super::text_search::split;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::CatalogView;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::text_search::{TextSearchKind, missing, template_kind};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};

pub(super) type Object = (TextSearchKind, Oid);

/// A function that a parser or a template wants: parameter, column, arguments, the function that there is (0: several),
/// and what it is called if it is missing.
struct FunctionOption {
    parameter: &'static str,
    column: &'static str,
    arguments: &'static [Oid],
    only: Oid,
    required: Option<&'static str>,
}
const fn part(
    parameter: &'static str,
    column: &'static str,
    arguments: &'static [Oid],
    only: Oid,
    required: Option<&'static str>,
) -> FunctionOption {
    FunctionOption { parameter, column, arguments, only, required }
}
const INTERNAL: Oid = 2281;
const PARSER_PARTS: &[FunctionOption] = &[
    part("start", "prsstart", &[INTERNAL, oids::INT4], 3717, Some("start")),
    part("gettoken", "prstoken", &[INTERNAL, INTERNAL, INTERNAL], 3718, Some("gettoken")),
    part("end", "prsend", &[INTERNAL], 3719, Some("end")),
    part("headline", "prsheadline", &[INTERNAL, INTERNAL, oids::TSQUERY], 3720, None),
    part("lextypes", "prslextype", &[INTERNAL], 3721, Some("lextypes")),
];
const TEMPLATE_PARTS: &[FunctionOption] = &[
    part("init", "tmplinit", &[INTERNAL], 0, None),
    part("lexize", "tmpllexize", &[INTERNAL, INTERNAL, INTERNAL, INTERNAL], 0, Some("lexize")),
];

fn owner_column(kind: TextSearchKind) -> Option<&'static str> {
    match kind {
        TextSearchKind::Config => Some("cfgowner"),
        TextSearchKind::Dictionary => Some("dictowner"),
        TextSearchKind::Parser | TextSearchKind::Template => None,
    }
}
fn tag(verb: &str, kind: TextSearchKind) -> String {
    format!("{verb} {}", kind.word().to_uppercase())
}
pub(super) fn names_of<'a>(object: Node<'a>) -> Vec<&'a str> {
    if let Node::NodeList(list) = object { super::strings(list) } else { Vec::new() }
}

impl Definitions<'_> {
    /// The row of an object that the session's role may change.
    pub(super) fn owned_text_search(&mut self, kind: TextSearchKind, oid: Oid, names: &[&str]) -> Result<CatalogRow> {
        let (table, _, index, ..) = kind.table();
        let rows = self.context_mut().catalog_lookup(table, index, &[Datum::Oid(oid)])?;
        let row = rows.into_iter().next().ok_or_else(|| missing(kind, &names.join(".")))?;
        let is_owner = owner_column(kind).is_some_and(|column| self.context().owns(row.oid(column)));
        if is_owner || self.context().is_superuser() {
            return Ok(row);
        }
        let message = match owner_column(kind) {
            Some(_) => format!("must be owner of {} {}", kind.word(), names.join(".")),
            None => format!("must be superuser to rename {}s", kind.word()),
        };
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }

    pub(super) fn rename_text_search(
        &mut self,
        s: &nodes::RenameStmt,
        kind: TextSearchKind,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let names = names_of(s.object());
        let oid = self.text_search_named(kind, &names, runtime)?;
        let row = self.owned_text_search(kind, oid, &names)?;
        let (table, _, index, name_column, schema_column) = kind.table();
        self.refuse_same_text_search(kind, row.oid(schema_column), new_name)?;
        self.update_row(table, index, oid, runtime, |row| row.set(name_column, Datum::text(new_name)))?;
        Ok(tag("ALTER", kind))
    }
    fn refuse_same_text_search(&mut self, kind: TextSearchKind, schema: Oid, name: &str) -> Result<()> {
        let (table, index, ..) = kind.table();
        if self.context_mut().catalog_lookup(table, index, &[Datum::text(name), Datum::Oid(schema)])?.is_empty() {
            return Ok(());
        }
        let rows = self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(schema)])?;
        let schema = rows.first().and_then(|r| r.text("nspname")).unwrap_or("");
        Err(Error::new(
            sqlstate::DUPLICATE_OBJECT,
            format!("{} \"{name}\" already exists in schema \"{schema}\"", kind.word()),
        ))
    }
    pub(super) fn move_text_search(
        &mut self,
        s: &nodes::AlterObjectSchemaStmt,
        kind: TextSearchKind,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let names = names_of(s.object());
        let oid = self.text_search_named(kind, &names, runtime)?;
        let (schema, _) = self.creation_schema(s.newschema(), false, runtime)?;
        let row = self.owned_text_search(kind, oid, &names)?;
        let (table, _, index, name_column, schema_column) = kind.table();
        let old = row.oid(schema_column);
        if schema != old {
            self.refuse_same_text_search(kind, schema, row.text(name_column).unwrap_or(""))?;
            self.update_row(table, index, oid, runtime, |row| row.set(schema_column, Datum::Oid(schema)))?;
        }
        Ok(tag("ALTER", kind))
    }
    pub(super) fn give_text_search(
        &mut self,
        s: &nodes::AlterOwnerStmt,
        kind: TextSearchKind,
        owner: Oid,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let names = names_of(s.object());
        let oid = self.text_search_named(kind, &names, runtime)?;
        self.owned_text_search(kind, oid, &names)?;
        self.require_new_owner(owner, None, runtime)?;
        let (table, _, index, ..) = kind.table();
        let column = owner_column(kind).ok_or_else(|| Error::unsupported(format!("a {} has no owner", kind.word())))?;
        self.update_row(table, index, oid, runtime, |row| row.set(column, Datum::Oid(owner)))?;
        Ok(tag("ALTER", kind))
    }

    pub(super) fn create_parser_or_template(
        &mut self,
        kind: TextSearchKind,
        names: &[&str],
        options: &[(String, Vec<String>)],
        runtime: &dyn Runtime,
    ) -> Result<String> {
        if !self.context().is_superuser() {
            return Err(Error::new(
                sqlstate::INSUFFICIENT_PRIVILEGE,
                format!("must be superuser to create {}s", kind.word()),
            ));
        }
        let schema = self.new_text_search_place(kind, names, runtime)?;
        let parts = if kind == TextSearchKind::Parser { PARSER_PARTS } else { TEMPLATE_PARTS };
        let mut functions = vec![0; parts.len()];
        for (name, value) in options {
            let Some(at) = parts.iter().position(|p| p.parameter == name) else {
                return Err(Error::new(
                    sqlstate::SYNTAX_ERROR,
                    format!("{} parameter \"{name}\" not recognized", kind.word()),
                ));
            };
            let (Some(part), Some(place)) = (parts.get(at), functions.get_mut(at)) else { continue };
            *place = self.part_function(part, value, runtime)?;
        }
        for (part, function) in parts.iter().zip(&functions) {
            if let Some(word) = part.required.filter(|_| *function == 0) {
                return Err(Error::new(
                    sqlstate::INVALID_OBJECT_DEFINITION,
                    format!("{} {word} method is required", kind.word()),
                ));
            }
            let is_known = *function == 0 || part.only == *function || part.only == 0;
            let makes_lexemes = part.parameter != "lexize" || template_kind(*function).is_some();
            if !is_known || !makes_lexemes {
                let message =
                    format!("{}s with other functions than those that are built in are not supported", kind.word());
                return Err(Error::unsupported(message));
            }
        }
        let (table, _, _, name_column, schema_column) = kind.table();
        let oid = self.new_oid(schema)?;
        let mut values = vec![
            ("oid", Datum::Oid(oid)),
            (name_column, Datum::text(split(names).1)),
            (schema_column, Datum::Oid(schema)),
        ];
        values.extend(parts.iter().zip(&functions).map(|(part, function)| (part.column, Datum::Oid(*function))));
        self.write_catalog(runtime, |w| w.insert(table, &values).map(|_| ()))?;
        Ok(tag("CREATE", kind))
    }
    /// The function that a parameter names.
    fn part_function(&mut self, part: &FunctionOption, value: &[String], runtime: &dyn Runtime) -> Result<Oid> {
        let value: Vec<&str> = value.iter().map(String::as_str).collect();
        let (schema, name) = split(&value);
        self.context_mut().with_catalog(runtime, |host| {
            let found =
                host.reader.functions(schema, name)?.iter().find(|f| f.arg_types == part.arguments).map(|f| f.oid);
            let unknown = || {
                let types: Vec<String> = part.arguments.iter().map(|t| host.reader.format_type(*t, -1)).collect();
                Error::new(
                    sqlstate::UNDEFINED_FUNCTION,
                    format!("function {}({}) does not exist", value.join("."), types.join(", ")),
                )
            };
            found.ok_or_else(unknown)
        })
    }

    pub(super) fn drop_text_search(
        &mut self,
        s: &nodes::DropStmt,
        kind: TextSearchKind,
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let mut targets: Vec<Object> = Vec::new();
        for object in s.objects() {
            let names = names_of(object);
            let (schema, name) = split(&names);
            if let Some(schema) = schema
                && self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(schema))?.is_none()
            {
                let message = format!("schema \"{schema}\" does not exist");
                if !s.missing_ok {
                    return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, message));
                }
                self.context().notice(Severity::Notice, format!("{message}, skipping"));
                continue;
            }
            let Some(oid) =
                self.context_mut().with_catalog(runtime, |host| host.reader.text_search_object(kind, schema, name))?
            else {
                let error = missing(kind, &names.join("."));
                if !s.missing_ok {
                    return Err(error);
                }
                self.context().notice(Severity::Notice, format!("{}, skipping", error.message()));
                continue;
            };
            self.owned_text_search(kind, oid, &names)?;
            if !targets.contains(&(kind, oid)) {
                targets.push((kind, oid));
            }
        }
        let named: Vec<ObjectAddress> =
            targets.into_iter().map(|(kind, oid)| ObjectAddress::object(kind.table().0, oid)).collect();
        self.delete_objects(&named, cascade, runtime)?;
        Ok(tag("DROP", kind))
    }
    pub(super) fn delete_text_search(&mut self, kind: TextSearchKind, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        let (table, _, index, ..) = kind.table();
        if kind == TextSearchKind::Config {
            self.delete_rows(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(oid)], runtime)?;
        }
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &[Datum::Oid(oid), Datum::Oid(table)], runtime)?;
        self.delete_rows(table, index, &[Datum::Oid(oid)], runtime)
    }
}
