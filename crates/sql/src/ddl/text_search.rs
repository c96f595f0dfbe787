//! TEXT SEARCH CONFIGURATION and DICTIONARY: CREATE, ALTER … MAPPING, DROP.
//!
//! Parsers and templates are PostgreSQL's own; there are no functions to make others of.

use super::Session;
use crate::catalog::ids::*;
use crate::catalog::text_search::{TextSearchKind, missing};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_fulltext::Dictionary;
use kilndb_fulltext::parser::TOKEN_TYPES;
use kilndb_syntax::raw::{AlterTSConfigType as Alter, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// Schema and name of a list of names.
fn split<'a>(names: &[&'a str]) -> (Option<&'a str>, &'a str) {
    match names {
        [name] => (None, name),
        [.., schema, name] => (Some(schema), name),
        [] => (None, ""),
    }
}

/// An option's value: a word, a number, a string, or a name with its schema.
fn option_names(d: &nodes::DefElem) -> Vec<String> {
    match d.arg() {
        Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval().map(str::to_string)).collect(),
        Node::NodeList(list) => super::strings(list).iter().map(|s| s.to_string()).collect(),
        Node::String(s) => vec![s.sval().unwrap_or("").to_string()],
        Node::Integer(n) => vec![n.ival.to_string()],
        Node::Boolean(b) => vec![b.boolval.to_string()],
        _ => Vec::new(),
    }
}

/// As pg_ts_dict has options: `name = 'value', …`.
fn options_text(options: &[(String, String)]) -> Option<String> {
    let one = |(name, value): &(String, String)| {
        let escape = if value.contains('\\') { "E" } else { "" };
        let value = value.replace('\\', "\\\\").replace('\'', "''");
        format!("{} = {escape}'{value}'", crate::catalog::format_type::quote_identifier(name))
    };
    (!options.is_empty()).then(|| options.iter().map(one).collect::<Vec<_>>().join(", "))
}

pub(super) fn kind_of(object: O::Type) -> Option<TextSearchKind> {
    Some(match object {
        O::OBJECT_TSCONFIGURATION => TextSearchKind::Config,
        O::OBJECT_TSDICTIONARY => TextSearchKind::Dictionary,
        O::OBJECT_TSPARSER => TextSearchKind::Parser,
        O::OBJECT_TSTEMPLATE => TextSearchKind::Template,
        _ => return None,
    })
}

impl Session {
    fn text_search_named(&mut self, kind: TextSearchKind, names: &[&str], runtime: &dyn Runtime) -> Result<Oid> {
        let (schema, name) = split(names);
        if let Some(schema) = schema
            && self.with_catalog(runtime, |host| host.reader.schema_oid(schema))?.is_none()
        {
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let found = self.with_catalog(runtime, |host| host.reader.text_search_object(kind, schema, name))?;
        found.ok_or_else(|| missing(kind, &names.join(".")))
    }
    pub(super) fn commented_text_search(&mut self, kind: TextSearchKind, object: Node<'_>, runtime: &dyn Runtime) -> Result<(Oid, Oid)> {
        let Node::NodeList(list) = object else { return Err(Error::internal("a text search object without a name")) };
        let oid = self.text_search_named(kind, &super::strings(list), runtime)?;
        Ok((kind.table().0, oid))
    }
    /// Where a new object goes; 42710 if there is one of its name.
    fn new_text_search_place(&mut self, kind: TextSearchKind, names: &[&str], runtime: &dyn Runtime) -> Result<Oid> {
        let (schema, name) = split(names);
        let (schema, _) = self.creation_schema(schema, false, runtime)?;
        let (table, index, ..) = kind.table();
        if !self.catalog_lookup(table, index, &[Datum::text(name), Datum::Oid(schema)])?.is_empty() {
            let what = match kind {
                TextSearchKind::Config => "pg_ts_config_cfgname_index",
                _ => "pg_ts_dict_dictname_index",
            };
            let column = if kind == TextSearchKind::Config { "cfgname, cfgnamespace" } else { "dictname, dictnamespace" };
            return Err(Error::new(sqlstate::UNIQUE_VIOLATION, format!("duplicate key value violates unique constraint \"{what}\""))
                .with_detail(format!("Key ({column})=({name}, {schema}) already exists.")));
        }
        Ok(schema)
    }

    pub(super) fn define_text_search(&mut self, s: &nodes::DefineStmt, runtime: &dyn Runtime) -> Result<String> {
        let names: Vec<&str> = s.defnames().iter().filter_map(|n| n.sval()).collect();
        let options: Vec<(String, Vec<String>)> =
            s.definition().iter().map(|d| (d.defname().unwrap_or("").to_string(), option_names(d))).collect();
        match kind_of(s.kind) {
            Some(TextSearchKind::Config) => self.create_config(&names, &options, runtime).map(|()| "CREATE TEXT SEARCH CONFIGURATION".into()),
            Some(TextSearchKind::Dictionary) => self.create_dictionary(&names, &options, runtime).map(|()| "CREATE TEXT SEARCH DICTIONARY".into()),
            Some(kind) => Err(Error::unsupported(format!("CREATE {} is not supported", kind.word().to_uppercase()))),
            None => Err(Error::unsupported("CREATE AGGREGATE, OPERATOR, TYPE or COLLATION is not supported")),
        }
    }

    fn create_config(&mut self, names: &[&str], options: &[(String, Vec<String>)], runtime: &dyn Runtime) -> Result<()> {
        let schema = self.new_text_search_place(TextSearchKind::Config, names, runtime)?;
        let (mut parser, mut source) = (None, None);
        for (name, value) in options {
            let value: Vec<&str> = value.iter().map(String::as_str).collect();
            match name.as_str() {
                "parser" => parser = Some(self.text_search_named(TextSearchKind::Parser, &value, runtime)?),
                "copy" => source = Some(self.text_search_named(TextSearchKind::Config, &value, runtime)?),
                _ => {
                    let message = format!("text search configuration parameter \"{name}\" not recognized");
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
                }
            }
        }
        if parser.is_some() && source.is_some() {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "cannot specify both PARSER and COPY options"));
        }
        let mut rows = Vec::new();
        if let Some(source) = source {
            let row = self.catalog_lookup(PG_TS_CONFIG, PG_TS_CONFIG_OID_INDEX, &[Datum::Oid(source)])?;
            parser = row.first().map(|r| r.oid("cfgparser"));
            rows = self.catalog_lookup(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(source)])?;
        }
        let invalid = || Error::new(sqlstate::INVALID_OBJECT_DEFINITION, "text search parser is required");
        let (parser, oid, owner) = (parser.ok_or_else(invalid)?, self.new_oid(schema)?, self.current_role);
        let name = Datum::text(split(names).1);
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_TS_CONFIG,
                &[
                    ("oid", Datum::Oid(oid)),
                    ("cfgname", name),
                    ("cfgnamespace", Datum::Oid(schema)),
                    ("cfgowner", Datum::Oid(owner)),
                    ("cfgparser", Datum::Oid(parser)),
                ],
            )
            .map(|_| ())
        })?;
        self.add_dependency((PG_TS_CONFIG, oid, 0), (PG_NAMESPACE, schema, 0), b'n', runtime)?;
        for row in rows {
            self.insert_mapping(oid, row.int("maptokentype") as i32, row.int("mapseqno") as i32, row.oid("mapdict"), runtime)?;
        }
        Ok(())
    }
    fn insert_mapping(&mut self, config: Oid, kind: i32, place: i32, dictionary: Oid, runtime: &dyn Runtime) -> Result<()> {
        let values =
            [("mapcfg", Datum::Oid(config)), ("maptokentype", Datum::Int4(kind)), ("mapseqno", Datum::Int4(place)), ("mapdict", Datum::Oid(dictionary))];
        self.write_catalog(runtime, |w| w.insert(PG_TS_CONFIG_MAP, &values).map(|_| ()))
    }

    fn create_dictionary(&mut self, names: &[&str], options: &[(String, Vec<String>)], runtime: &dyn Runtime) -> Result<()> {
        let schema = self.new_text_search_place(TextSearchKind::Dictionary, names, runtime)?;
        let (mut template, mut given) = (None, Vec::new());
        for (name, value) in options {
            if name == "template" {
                let value: Vec<&str> = value.iter().map(String::as_str).collect();
                template = Some(self.text_search_named(TextSearchKind::Template, &value, runtime)?);
            } else {
                given.push((name.clone(), value.join(".")));
            }
        }
        let required = || Error::new(sqlstate::INVALID_OBJECT_DEFINITION, "text search template is required");
        let template = template.ok_or_else(required)?;
        self.check_dictionary(template, &given)?;
        let (oid, owner, name) = (self.new_oid(schema)?, self.current_role, Datum::text(split(names).1));
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_TS_DICT,
                &[
                    ("oid", Datum::Oid(oid)),
                    ("dictname", name),
                    ("dictnamespace", Datum::Oid(schema)),
                    ("dictowner", Datum::Oid(owner)),
                    ("dicttemplate", Datum::Oid(template)),
                    ("dictinitoption", options_text(&given).map_or(Datum::Null, Datum::text)),
                ],
            )
            .map(|_| ())
        })?;
        self.add_dependency((PG_TS_DICT, oid, 0), (PG_NAMESPACE, schema, 0), b'n', runtime)
    }
    /// An error unless the template takes the options.
    fn check_dictionary(&mut self, template: Oid, options: &[(String, String)]) -> Result<()> {
        let rows = self.catalog_lookup(PG_TS_TEMPLATE, PG_TS_TEMPLATE_OID_INDEX, &[Datum::Oid(template)])?;
        let name = rows.first().and_then(|r| r.text("tmplname")).unwrap_or("");
        Dictionary::new(name, options).map(|_| ())
    }

    pub(super) fn alter_config(&mut self, s: &nodes::AlterTSConfigurationStmt, runtime: &dyn Runtime) -> Result<String> {
        let names: Vec<&str> = s.cfgname().iter().filter_map(|n| n.sval()).collect();
        let config = self.text_search_named(TextSearchKind::Config, &names, runtime)?;
        if config < crate::catalog::builtin::FIRST_USER_OID && !self.allow_system_objects {
            return Err(Error::unsupported("changes of built-in text search configurations are not supported").with_hint("Make a copy."));
        }
        let mut kinds = Vec::new();
        for name in super::strings(s.tokentype()) {
            let found = TOKEN_TYPES.iter().position(|(alias, _)| *alias == name);
            let unknown = || Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("token type \"{name}\" does not exist"));
            let kind = found.ok_or_else(unknown)? as i32 + 1;
            if !kinds.iter().any(|(k, _)| *k == kind) {
                kinds.push((kind, name.to_string()));
            }
        }
        let mut dictionaries = Vec::new();
        for object in s.dicts() {
            let Node::NodeList(list) = object else { continue };
            dictionaries.push(self.text_search_named(TextSearchKind::Dictionary, &super::strings(list), runtime)?);
        }
        match s.kind {
            Alter::ALTER_TSCONFIG_DROP_MAPPING => {
                for (kind, name) in &kinds {
                    if self.remove_mappings(config, *kind, runtime)? == 0 {
                        let message = format!("mapping for token type \"{name}\" does not exist");
                        if !s.missing_ok {
                            return Err(Error::new(sqlstate::UNDEFINED_OBJECT, message));
                        }
                        self.notice(Severity::Notice, format!("{message}, skipping"));
                    }
                }
            }
            Alter::ALTER_TSCONFIG_REPLACE_DICT | Alter::ALTER_TSCONFIG_REPLACE_DICT_FOR_TOKEN => {
                let [old, new] = dictionaries[..] else { return Err(Error::internal("REPLACE wants two dictionaries")) };
                let rows = self.catalog_lookup(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(config)])?;
                let is_meant = |kind: i64| kinds.is_empty() || kinds.iter().any(|(k, _)| i64::from(*k) == kind);
                for row in rows.iter().filter(|r| r.oid("mapdict") == old && is_meant(r.int("maptokentype"))) {
                    let mut changed = row.clone();
                    changed.set("mapdict", Datum::Oid(new));
                    self.write_catalog(runtime, |w| w.update(row, &changed.values))?;
                }
            }
            _ => {
                for (kind, name) in &kinds {
                    if s.override_ {
                        self.remove_mappings(config, *kind, runtime)?;
                    } else if !self.catalog_lookup(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(config), Datum::Int4(*kind)])?.is_empty() {
                        let message = format!("mapping for token type \"{name}\" already exists");
                        return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
                    }
                    for (i, dictionary) in dictionaries.iter().enumerate() {
                        self.insert_mapping(config, *kind, i as i32 + 1, *dictionary, runtime)?;
                    }
                }
            }
        }
        Ok("ALTER TEXT SEARCH CONFIGURATION".to_string())
    }
    fn remove_mappings(&mut self, config: Oid, kind: i32, runtime: &dyn Runtime) -> Result<usize> {
        let rows = self.catalog_lookup(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(config), Datum::Int4(kind)])?;
        for row in &rows {
            self.write_catalog(runtime, |w| w.delete(row))?;
        }
        Ok(rows.len())
    }

    pub(super) fn drop_text_search(&mut self, s: &nodes::DropStmt, kind: TextSearchKind, runtime: &dyn Runtime) -> Result<String> {
        for object in s.objects() {
            let Node::NodeList(list) = object else { continue };
            let names = super::strings(list);
            let (schema, name) = split(&names);
            let found = self.with_catalog(runtime, |host| host.reader.text_search_object(kind, schema, name))?;
            let Some(oid) = found else {
                let error = missing(kind, &names.join("."));
                if !s.missing_ok {
                    return Err(error);
                }
                self.notice(Severity::Notice, format!("{}, skipping", error.message()));
                continue;
            };
            self.drop_one_text_search(kind, oid, name, runtime)?;
        }
        Ok(format!("DROP {}", kind.word().to_uppercase()))
    }
    fn drop_one_text_search(&mut self, kind: TextSearchKind, oid: Oid, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let (table, _, index, ..) = kind.table();
        if oid < crate::catalog::builtin::FIRST_USER_OID {
            let message = format!("cannot drop {} {name} because it is required by the database system", kind.word());
            return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        if kind == TextSearchKind::Config {
            self.delete_rows(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(oid)], runtime)?;
        } else if self.catalog_scan(PG_TS_CONFIG_MAP)?.iter().any(|r| r.oid("mapdict") == oid) {
            let message = format!("cannot drop {} {name} because other objects depend on it", kind.word());
            return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
                .with_detail("A text search configuration maps tokens to it.")
                .with_hint("Drop its mappings first."));
        }
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &[Datum::Oid(oid), Datum::Oid(table)], runtime)?;
        self.remove_dependencies((table, oid), None, runtime)?;
        self.delete_rows(table, index, &[Datum::Oid(oid)], runtime)
    }
}
