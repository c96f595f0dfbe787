//! Text search configurations and dictionaries, read from their system tables and kept with the other objects.

use super::cache::CatalogReader;
use super::ids::*;
use super::store::CatalogRow;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_fulltext::dictionary::parse_options;
use kilndb_fulltext::{Config, ConfigEntry, Dictionary};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

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
            TextSearchKind::Config => (PG_TS_CONFIG, PG_TS_CONFIG_CFGNAME_INDEX, PG_TS_CONFIG_OID_INDEX, "cfgname", "cfgnamespace"),
            TextSearchKind::Dictionary => (PG_TS_DICT, PG_TS_DICT_DICTNAME_INDEX, PG_TS_DICT_OID_INDEX, "dictname", "dictnamespace"),
            TextSearchKind::Parser => (PG_TS_PARSER, PG_TS_PARSER_PRSNAME_INDEX, PG_TS_PARSER_OID_INDEX, "prsname", "prsnamespace"),
            TextSearchKind::Template => (PG_TS_TEMPLATE, PG_TS_TEMPLATE_TMPLNAME_INDEX, PG_TS_TEMPLATE_OID_INDEX, "tmplname", "tmplnamespace"),
        }
    }
    /// Of the type that names them.
    pub fn of_reg_type(type_oid: Oid) -> TextSearchKind {
        if type_oid == oids::REGDICTIONARY { TextSearchKind::Dictionary } else { TextSearchKind::Config }
    }
}

/// 42704.
pub fn missing(kind: TextSearchKind, shown: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("{} \"{shown}\" does not exist", kind.word()))
}

impl CatalogReader<'_> {
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
        found.ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("cache lookup failed for {} {oid}", kind.word())))
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
        let template = self.known_text_search_row(TextSearchKind::Template, row.oid("dicttemplate"))?;
        let options = parse_options(row.text("dictinitoption").unwrap_or(""))?;
        let made = Arc::new(Dictionary::new(template.text("tmplname").unwrap_or(""), &options)?);
        self.objects(oid).text_search_dictionaries.insert(oid, made.clone());
        Ok(made)
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
            if let Some(list) = config.map.get_mut(kind) {
                list.push(ConfigEntry { oid: dictionary, dictionary: self.text_search_dictionary(dictionary)? });
            }
        }
        let made = Arc::new(config);
        self.objects(oid).text_search_configs.insert(oid, made.clone());
        Ok(made)
    }
}
