//! TEXT SEARCH CONFIGURATION and DICTIONARY: CREATE, and ALTER of what they do. Parsers and templates, names, owners
//! and DROP are in `text_search_objects`.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_catalog::text_search::{TextSearchKind, missing};
use kilndb_fulltext::dictionary::{DictionaryOption, parse_given_options};
use kilndb_fulltext::parser::TOKEN_TYPES;
use kilndb_syntax::raw::{AlterTSConfigType as Alter, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// Objects below cannot be dropped.
pub(super) const FIRST_UNPINNED_OID: Oid = 12000;

/// Schema and name of a list of names.
pub(super) fn split<'a>(names: &[&'a str]) -> (Option<&'a str>, &'a str) {
    match names {
        [name] => (None, name),
        [.., schema, name] => (Some(schema), name),
        [] => (None, ""),
    }
}

/// An option's value: a word, a number, a string, or a name with its schema.
pub(super) fn option_names(d: &nodes::DefElem) -> Vec<String> {
    match d.arg() {
        Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval().map(str::to_string)).collect(),
        Node::NodeList(list) => super::strings(list).iter().map(|s| s.to_string()).collect(),
        Node::String(s) => vec![s.sval().unwrap_or("").to_string()],
        Node::Integer(n) => vec![n.ival.to_string()],
        Node::Float(n) => vec![n.fval().unwrap_or("").to_string()],
        Node::Boolean(b) => vec![b.boolval.to_string()],
        _ => Vec::new(),
    }
}
/// None: there is no value.
fn given_option(d: &nodes::DefElem) -> Option<DictionaryOption> {
    let is_number = matches!(d.arg(), Node::Integer(_) | Node::Float(_));
    let value = option_names(d).join(".");
    (!matches!(d.arg(), Node::None)).then(|| DictionaryOption {
        name: d.defname().unwrap_or("").to_string(),
        value,
        is_number,
    })
}

/// As pg_ts_dict has options: `name = 'value', …`.
fn options_text(options: &[DictionaryOption]) -> String {
    let one = |option: &DictionaryOption| {
        let escape = if option.value.contains('\\') { "E" } else { "" };
        let value = match option.is_number {
            true => option.value.clone(),
            false => format!("{escape}'{}'", option.value.replace('\\', "\\\\").replace('\'', "''")),
        };
        format!("{} = {value}", kilndb_catalog::format_type::quote_identifier(&option.name))
    };
    options.iter().map(one).collect::<Vec<_>>().join(", ")
}
fn text_or_null(text: &str) -> Datum {
    if text.is_empty() { Datum::Null } else { Datum::text(text) }
}

pub fn kind_of(object: O::Type) -> Option<TextSearchKind> {
    Some(match object {
        O::OBJECT_TSCONFIGURATION => TextSearchKind::Config,
        O::OBJECT_TSDICTIONARY => TextSearchKind::Dictionary,
        O::OBJECT_TSPARSER => TextSearchKind::Parser,
        O::OBJECT_TSTEMPLATE => TextSearchKind::Template,
        _ => return None,
    })
}

impl Definitions<'_> {
    pub(super) fn text_search_named(
        &mut self,
        kind: TextSearchKind,
        names: &[&str],
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let (schema, name) = split(names);
        if let Some(schema) = schema
            && self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(schema))?.is_none()
        {
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let found =
            self.context_mut().with_catalog(runtime, |host| host.reader.text_search_object(kind, schema, name))?;
        found.ok_or_else(|| missing(kind, &names.join(".")))
    }
    pub(super) fn commented_text_search(
        &mut self,
        kind: TextSearchKind,
        object: Node<'_>,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, Oid)> {
        let Node::NodeList(list) = object else { return Err(Error::internal("a text search object without a name")) };
        let oid = self.text_search_named(kind, &super::strings(list), runtime)?;
        Ok((kind.table().0, oid))
    }
    /// Where a new object goes; 23505 if there is one of its name.
    pub(super) fn new_text_search_place(
        &mut self,
        kind: TextSearchKind,
        names: &[&str],
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let (schema, name) = split(names);
        let (schema, _) = self.creation_schema(schema, false, runtime)?;
        self.refuse_taken_text_search(kind, schema, name)?;
        Ok(schema)
    }
    /// 23505 if the schema has such an object of that name.
    pub(super) fn refuse_taken_text_search(&mut self, kind: TextSearchKind, schema: Oid, name: &str) -> Result<()> {
        let (table, index, _, name_column, schema_column) = kind.table();
        if !self.context_mut().catalog_lookup(table, index, &[Datum::text(name), Datum::Oid(schema)])?.is_empty() {
            let table_name = match kind {
                TextSearchKind::Config => "pg_ts_config",
                TextSearchKind::Dictionary => "pg_ts_dict",
                TextSearchKind::Parser => "pg_ts_parser",
                TextSearchKind::Template => "pg_ts_template",
            };
            let message =
                format!("duplicate key value violates unique constraint \"{table_name}_{name_column}_index\"");
            return Err(Error::new(sqlstate::UNIQUE_VIOLATION, message)
                .with_detail(format!("Key ({name_column}, {schema_column})=({name}, {schema}) already exists.")));
        }
        Ok(())
    }

    pub fn define_text_search(&mut self, s: &nodes::DefineStmt, runtime: &dyn Runtime) -> Result<String> {
        let names: Vec<&str> = s.defnames().iter().filter_map(|n| n.sval()).collect();
        let options: Vec<(String, Vec<String>)> =
            s.definition().iter().map(|d| (d.defname().unwrap_or("").to_string(), option_names(d))).collect();
        match kind_of(s.kind) {
            Some(TextSearchKind::Config) => {
                self.create_config(&names, &options, runtime).map(|()| "CREATE TEXT SEARCH CONFIGURATION".into())
            }
            Some(TextSearchKind::Dictionary) => self
                .create_dictionary(&names, s.definition().iter(), runtime)
                .map(|()| "CREATE TEXT SEARCH DICTIONARY".into()),
            Some(kind) => self.create_parser_or_template(kind, &names, &options, runtime),
            None => Err(Error::unsupported("CREATE AGGREGATE, OPERATOR or TYPE is not supported")),
        }
    }

    fn create_config(
        &mut self,
        names: &[&str],
        options: &[(String, Vec<String>)],
        runtime: &dyn Runtime,
    ) -> Result<()> {
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
            let row = self.context_mut().catalog_lookup(PG_TS_CONFIG, PG_TS_CONFIG_OID_INDEX, &[Datum::Oid(source)])?;
            parser = row.first().map(|r| r.oid("cfgparser"));
            rows =
                self.context_mut().catalog_lookup(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(source)])?;
        }
        let invalid = || Error::new(sqlstate::INVALID_OBJECT_DEFINITION, "text search parser is required");
        let (parser, oid, owner) =
            (parser.ok_or_else(invalid)?, self.new_oid(schema)?, self.context().identity.current_role);
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
        for row in rows {
            self.insert_mapping(
                oid,
                row.int("maptokentype") as i32,
                row.int("mapseqno") as i32,
                row.oid("mapdict"),
                runtime,
            )?;
        }
        Ok(())
    }
    fn insert_mapping(
        &mut self,
        config: Oid,
        kind: i32,
        place: i32,
        dictionary: Oid,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let values = [
            ("mapcfg", Datum::Oid(config)),
            ("maptokentype", Datum::Int4(kind)),
            ("mapseqno", Datum::Int4(place)),
            ("mapdict", Datum::Oid(dictionary)),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_TS_CONFIG_MAP, &values).map(|_| ()))
    }

    fn create_dictionary<'a>(
        &mut self,
        names: &[&str],
        options: impl Iterator<Item = &'a nodes::DefElem>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let schema = self.new_text_search_place(TextSearchKind::Dictionary, names, runtime)?;
        let (mut template, mut given) = (None, Vec::new());
        for d in options {
            if d.defname() == Some("template") {
                let value = option_names(d);
                let value: Vec<&str> = value.iter().map(String::as_str).collect();
                template = Some(self.text_search_named(TextSearchKind::Template, &value, runtime)?);
            } else {
                let missing = || {
                    Error::new(sqlstate::SYNTAX_ERROR, format!("{} requires a parameter", d.defname().unwrap_or("")))
                };
                given.push(given_option(d).ok_or_else(missing)?);
            }
        }
        let required = || Error::new(sqlstate::INVALID_OBJECT_DEFINITION, "text search template is required");
        let template = template.ok_or_else(required)?;
        let options = options_text(&given);
        let made = self
            .context_mut()
            .with_catalog(runtime, |host| host.reader.new_text_search_dictionary(template, &options))?;
        let (oid, owner, name) =
            (self.new_oid(schema)?, self.context().identity.current_role, Datum::text(split(names).1));
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_TS_DICT,
                &[
                    ("oid", Datum::Oid(oid)),
                    ("dictname", name),
                    ("dictnamespace", Datum::Oid(schema)),
                    ("dictowner", Datum::Oid(owner)),
                    ("dicttemplate", Datum::Oid(template)),
                    ("dictinitoption", text_or_null(&options)),
                ],
            )
            .map(|_| ())
        })?;
        self.context_mut().with_catalog(runtime, |host| {
            host.reader.keep_text_search_dictionary(oid, template, &options, &made);
            Ok(())
        })
    }
    /// Files are read again, whatever the options.
    pub fn alter_dictionary(&mut self, s: &nodes::AlterTSDictionaryStmt, runtime: &dyn Runtime) -> Result<String> {
        let kind = TextSearchKind::Dictionary;
        let names: Vec<&str> = s.dictname().iter().filter_map(|n| n.sval()).collect();
        let oid = self.text_search_named(kind, &names, runtime)?;
        let row = self.owned_text_search(kind, oid, &names)?;
        let mut options = parse_given_options(row.text("dictinitoption").unwrap_or(""))?;
        for d in s.options() {
            options.retain(|o| Some(o.name.as_str()) != d.defname());
            options.extend(given_option(d));
        }
        let (template, text) = (row.oid("dicttemplate"), options_text(&options));
        let made =
            self.context_mut().with_catalog(runtime, |host| host.reader.new_text_search_dictionary(template, &text))?;
        self.update_row(PG_TS_DICT, PG_TS_DICT_OID_INDEX, oid, runtime, |row| {
            row.set("dictinitoption", text_or_null(&text))
        })?;
        self.context_mut().with_catalog(runtime, |host| {
            host.reader.keep_text_search_dictionary(oid, template, &text, &made);
            Ok(())
        })?;
        Ok("ALTER TEXT SEARCH DICTIONARY".to_string())
    }

    pub fn alter_config(&mut self, s: &nodes::AlterTSConfigurationStmt, runtime: &dyn Runtime) -> Result<String> {
        let names: Vec<&str> = s.cfgname().iter().filter_map(|n| n.sval()).collect();
        let config = self.text_search_named(TextSearchKind::Config, &names, runtime)?;
        self.owned_text_search(TextSearchKind::Config, config, &names)?;
        let mut kinds = Vec::new();
        for name in super::strings(s.tokentype()) {
            let found = TOKEN_TYPES.iter().position(|(alias, _)| *alias == name);
            let unknown =
                || Error::new(sqlstate::INVALID_PARAMETER_VALUE, format!("token type \"{name}\" does not exist"));
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
                        self.context().notice(Severity::Notice, format!("{message}, skipping"));
                    }
                }
            }
            Alter::ALTER_TSCONFIG_REPLACE_DICT | Alter::ALTER_TSCONFIG_REPLACE_DICT_FOR_TOKEN => {
                let [old, new] = dictionaries[..] else {
                    return Err(Error::internal("REPLACE wants two dictionaries"));
                };
                let rows = self.context_mut().catalog_lookup(
                    PG_TS_CONFIG_MAP,
                    PG_TS_CONFIG_MAP_INDEX,
                    &[Datum::Oid(config)],
                )?;
                let is_meant = |kind: i64| kinds.is_empty() || kinds.iter().any(|(k, _)| i64::from(*k) == kind);
                for row in rows.iter().filter(|r| r.oid("mapdict") == old && is_meant(r.int("maptokentype"))) {
                    let mut changed = row.clone();
                    changed.set("mapdict", Datum::Oid(new));
                    self.write_catalog(runtime, |w| w.update(row, changed.values()))?;
                }
            }
            _ => {
                for (kind, _) in &kinds {
                    if s.override_ {
                        self.remove_mappings(config, *kind, runtime)?;
                    } else if !self
                        .context_mut()
                        .catalog_lookup(
                            PG_TS_CONFIG_MAP,
                            PG_TS_CONFIG_MAP_INDEX,
                            &[Datum::Oid(config), Datum::Int4(*kind)],
                        )?
                        .is_empty()
                    {
                        let message = "duplicate key value violates unique constraint \"pg_ts_config_map_index\"";
                        return Err(Error::new(sqlstate::UNIQUE_VIOLATION, message).with_detail(format!(
                            "Key (mapcfg, maptokentype, mapseqno)=({config}, {kind}, 1) already exists."
                        )));
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
        let rows = self.context_mut().catalog_lookup(
            PG_TS_CONFIG_MAP,
            PG_TS_CONFIG_MAP_INDEX,
            &[Datum::Oid(config), Datum::Int4(kind)],
        )?;
        for row in &rows {
            self.write_catalog(runtime, |w| w.delete(row))?;
        }
        Ok(rows.len())
    }
}
