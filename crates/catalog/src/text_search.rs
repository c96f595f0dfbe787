//! Text search configurations and dictionaries, read from their system tables and kept with the other objects.

use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::ids::*;
use kilndb_base::env::{Env, OpenMode};
use kilndb_base::hash::HashMap;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_fulltext::dictionary::{nested_thesaurus, parse_options};
use kilndb_fulltext::files::DictionarySource;
use kilndb_fulltext::{Config, ConfigEntry, Dictionary};
use kilndb_types::{Datum, oids};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The dictionaries of a database that were made of files, and where the users' files are.
///
/// A dictionary is read once, when it is first used, and again when it is made or altered.
pub(super) struct TextSearchFiles {
    env: Arc<dyn Env>,
    folder: PathBuf,
    /// Dictionaries that were loaded, with the template and the options that they were made of.
    loaded: Mutex<HashMap<Oid, (Oid, String, Arc<Dictionary>)>>,
}

impl TextSearchFiles {
    pub fn new(env: Arc<dyn Env>, data_dir: &Path) -> TextSearchFiles {
        TextSearchFiles { env, folder: data_dir.join("tsearch_data"), loaded: Mutex::default() }
    }
    fn read(&self, name: &str) -> Result<Option<Vec<u8>>> {
        let failed = |e: std::io::Error| {
            let message = format!("could not read file \"tsearch_data/{name}\": {e}");
            Error::new(sqlstate::CONFIG_FILE_ERROR, message)
        };
        let file = match self.env.open(&self.folder.join(name), OpenMode::ReadOnly) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed(e)),
        };
        let mut bytes = vec![0; file.len().map_err(failed)? as usize];
        let mut done = 0;
        while let Some(rest) = bytes.get_mut(done..).filter(|rest| !rest.is_empty()) {
            match file.read_at(rest, done as u64).map_err(failed)? {
                0 => break,
                n => done += n,
            }
        }
        bytes.truncate(done);
        Ok(Some(bytes))
    }
    fn known(&self, oid: Oid, template: Oid, options: &str) -> Option<Arc<Dictionary>> {
        let loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.get(&oid).filter(|(t, o, _)| *t == template && o == options).map(|(_, _, d)| d.clone())
    }
    fn keep(&self, oid: Oid, template: Oid, options: &str, dictionary: &Arc<Dictionary>) {
        let mut loaded = self.loaded.lock().unwrap_or_else(PoisonError::into_inner);
        loaded.insert(oid, (template, options.to_string(), dictionary.clone()));
    }
}

/// The function of the template that the extension unaccent brings.
const UNACCENT_LEXIZE: Oid = 15953;

/// What a template's function makes; the name that [`Dictionary::new`] knows it by.
pub fn template_kind(lexize: Oid) -> Option<&'static str> {
    Some(match lexize {
        3726 => "simple",
        3729 => "synonym",
        3732 => "ispell",
        3741 => "thesaurus",
        12361 => "snowball",
        UNACCENT_LEXIZE => "unaccent",
        _ => return None,
    })
}

/// A kind of text search object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TextSearchKind {
    Config,
    Dictionary,
    Parser,
    Template,
}

impl TextSearchKind {
    pub fn word(self) -> &'static str {
        match self {
            TextSearchKind::Config => "text search configuration",
            TextSearchKind::Dictionary => "text search dictionary",
            TextSearchKind::Parser => "text search parser",
            TextSearchKind::Template => "text search template",
        }
    }
    /// The system table, its indexes by name and by OID, and the columns of name and schema.
    pub fn table(self) -> (Oid, Oid, Oid, &'static str, &'static str) {
        match self {
            TextSearchKind::Config => {
                (PG_TS_CONFIG, PG_TS_CONFIG_CFGNAME_INDEX, PG_TS_CONFIG_OID_INDEX, "cfgname", "cfgnamespace")
            }
            TextSearchKind::Dictionary => {
                (PG_TS_DICT, PG_TS_DICT_DICTNAME_INDEX, PG_TS_DICT_OID_INDEX, "dictname", "dictnamespace")
            }
            TextSearchKind::Parser => {
                (PG_TS_PARSER, PG_TS_PARSER_PRSNAME_INDEX, PG_TS_PARSER_OID_INDEX, "prsname", "prsnamespace")
            }
            TextSearchKind::Template => {
                (PG_TS_TEMPLATE, PG_TS_TEMPLATE_TMPLNAME_INDEX, PG_TS_TEMPLATE_OID_INDEX, "tmplname", "tmplnamespace")
            }
        }
    }
    /// The kind of object that values of a reg… type name.
    pub fn of_reg_type(type_oid: Oid) -> TextSearchKind {
        if type_oid == oids::REGDICTIONARY { TextSearchKind::Dictionary } else { TextSearchKind::Config }
    }
}

/// 42704.
pub fn missing(kind: TextSearchKind, shown: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("{} \"{shown}\" does not exist", kind.word()))
}

impl CatalogReader<'_> {
    /// An object by its name in a text, as functions take it.
    pub fn text_search_named(&self, kind: TextSearchKind, text: &str) -> Result<Oid> {
        let (schema, name) = super::qualified_name::object_name(text, &self.database.name)?;
        if let Some(schema) = &schema
            && self.schema_oid(schema)?.is_none()
        {
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let shown = || schema.iter().chain([&name]).map(String::as_str).collect::<Vec<_>>().join(".");
        self.text_search_object(kind, schema.as_deref(), &name)?.ok_or_else(|| missing(kind, &shown()))
    }
    /// An object by its name, in one schema or along the path.
    pub fn text_search_object(&self, kind: TextSearchKind, schema: Option<&str>, name: &str) -> Result<Option<Oid>> {
        let (table, index, ..) = kind.table();
        for schema in self.schemas_to_search(schema, false)? {
            let rows = self.lookup(table, index, &[Datum::text(name), Datum::Oid(schema)])?;
            if let Some(row) = rows.first() {
                return Ok(Some(row.oid("oid")));
            }
        }
        Ok(None)
    }
    pub fn text_search_row(&self, kind: TextSearchKind, oid: Oid) -> Result<Option<CatalogRow>> {
        let (table, _, index, ..) = kind.table();
        Ok(self.lookup(table, index, &[Datum::Oid(oid)])?.into_iter().next())
    }
    fn known_text_search_row(&self, kind: TextSearchKind, oid: Oid) -> Result<CatalogRow> {
        let found = self.text_search_row(kind, oid)?;
        found.ok_or_else(|| Error::internal(format!("cache lookup failed for {} {oid}", kind.word())))
    }
    /// Would its name alone find it?
    pub fn text_search_is_visible(&self, kind: TextSearchKind, row: &CatalogRow) -> Result<bool> {
        let name = row.text(kind.table().3).unwrap_or("");
        Ok(self.text_search_object(kind, None, name)? == Some(row.oid("oid")))
    }

    pub fn text_search_dictionary(&self, oid: Oid) -> Result<Arc<Dictionary>> {
        if let Some(known) = self.objects(oid).text_search_dictionaries.get(&oid) {
            return Ok(known.clone());
        }
        let row = self.known_text_search_row(TextSearchKind::Dictionary, oid)?;
        let (template, options) = (row.oid("dicttemplate"), row.text("dictinitoption").unwrap_or(""));
        let made = match self.database.text_search.known(oid, template, options) {
            Some(known) => known,
            None => {
                let made = self.new_text_search_dictionary(template, options)?;
                self.keep_text_search_dictionary(oid, template, options, &made);
                made
            }
        };
        self.objects(oid).text_search_dictionaries.insert(oid, made.clone());
        Ok(made)
    }
    /// Made anew, of files as they are now.
    pub fn new_text_search_dictionary(&self, template: Oid, options: &str) -> Result<Arc<Dictionary>> {
        let row = self.known_text_search_row(TextSearchKind::Template, template)?;
        let name = row.text("tmplname").unwrap_or("");
        let given = parse_options(options)?;
        if row.oid("tmplinit") == 0 && !given.is_empty() {
            let message = format!("text search template \"{name}\" does not accept options");
            return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
        }
        Dictionary::new(template_kind(row.oid("tmpllexize")).unwrap_or(name), &given, self).map(Arc::new)
    }
    /// Keeps a dictionary for all sessions, unless it is a thesaurus: that is made of another dictionary as well, which
    /// may change.
    pub fn keep_text_search_dictionary(&self, oid: Oid, template: Oid, options: &str, dictionary: &Arc<Dictionary>) {
        if !dictionary.is_thesaurus() {
            self.database.text_search.keep(oid, template, options, dictionary);
        }
    }
    pub fn text_search_config(&self, oid: Oid) -> Result<Arc<Config>> {
        if let Some(known) = self.objects(oid).text_search_configs.get(&oid) {
            return Ok(known.clone());
        }
        self.known_text_search_row(TextSearchKind::Config, oid)?;
        let mut config = Config::default();
        // The index has them in their order.
        for row in self.lookup(PG_TS_CONFIG_MAP, PG_TS_CONFIG_MAP_INDEX, &[Datum::Oid(oid)])? {
            let dictionary = row.oid("mapdict");
            let kind = usize::try_from(row.int("maptokentype")).unwrap_or(usize::MAX);
            config.add(kind, ConfigEntry { oid: dictionary, dictionary: self.text_search_dictionary(dictionary)? });
        }
        let made = Arc::new(config);
        self.objects(oid).text_search_configs.insert(oid, made.clone());
        Ok(made)
    }
}

impl DictionarySource for CatalogReader<'_> {
    fn file(&self, name: &str) -> Result<Option<Vec<u8>>> {
        self.database.text_search.read(name)
    }
    fn dictionary(&self, name: &str) -> Result<Arc<Dictionary>> {
        let kind = TextSearchKind::Dictionary;
        let oid = self.text_search_named(kind, name)?;
        let row = self.known_text_search_row(kind, oid)?;
        let template = self.known_text_search_row(TextSearchKind::Template, row.oid("dicttemplate"))?;
        if template_kind(template.oid("tmpllexize")) == Some("thesaurus") {
            return Err(nested_thesaurus());
        }
        self.text_search_dictionary(oid)
    }
}
