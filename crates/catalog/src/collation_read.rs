//! Collations as the catalogs have them: by OID, and by name.
//!
//! Must not know: how texts are compared (`kilndb_types::collation`).

use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::format_type::quote_identifier;
use super::ids::*;
use super::model::CatalogView;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::Datum;
use kilndb_types::collation::{self, C_COLLATION, Collation, DEFAULT_COLLATION};

/// pg_collation.collprovider: ICU's data; the server's own; the operating system's; the database's, whichever it is.
pub const ICU: u8 = b'i';
pub const BUILTIN: u8 = b'b';
pub const LIBC: u8 = b'c';

/// The encoding of all databases, as catalogs number them.
pub const UTF8: i32 = 6;

/// A row of pg_collation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CollationInfo {
    pub oid: Oid,
    pub name: String,
    pub schema_oid: Oid,
    pub provider: u8,
    pub is_deterministic: bool,
    /// The locale of a collation of ICU's or of the server's own.
    pub locale: Option<String>,
}

impl CollationInfo {
    fn new(row: &CatalogRow) -> CollationInfo {
        CollationInfo {
            oid: row.oid("oid"),
            name: row.text("collname").unwrap_or("").to_string(),
            schema_oid: row.oid("collnamespace"),
            provider: row.char("collprovider"),
            is_deterministic: row.bool("collisdeterministic"),
            locale: row.text("colllocale").map(str::to_string),
        }
    }
    /// What texts of the collation are compared by. Errors: those of [`collation::rules`].
    pub fn collation(&self) -> Result<Collation> {
        let rules = match (self.provider, &self.locale) {
            (ICU, Some(locale)) => Some(collation::rules(locale, self.is_deterministic)?),
            // All other locales that there are compare bytes.
            _ => None,
        };
        Ok(Collation { oid: self.oid, rules })
    }
}

/// 42704, of a collation as it was written.
pub fn unknown_collation(name: &str) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("collation \"{name}\" for encoding \"UTF8\" does not exist"))
}

/// 42804, of a type as it is shown.
pub fn not_collatable(type_name: &str) -> Error {
    Error::new(sqlstate::DATATYPE_MISMATCH, format!("collations are not supported by type {type_name}"))
}

/// How a collation is written: with its schema where the name alone does not find it.
pub fn collation_shown(catalog: &dyn CatalogView, info: &CollationInfo) -> Result<String> {
    let name = quote_identifier(&info.name);
    if catalog.collation_by_name(None, &info.name)?.is_some_and(|found| found.oid == info.oid) {
        return Ok(name);
    }
    let schema = catalog.schema_name_of(info.schema_oid);
    Ok(schema.map_or_else(|| name.clone(), |schema| format!("{}.{name}", quote_identifier(&schema))))
}

impl CatalogReader<'_> {
    /// The row of a collation.
    pub fn collation_info(&self, oid: Oid) -> Result<Option<CollationInfo>> {
        let rows = self.lookup(PG_COLLATION, PG_COLLATION_OID_INDEX, &[Datum::Oid(oid)])?;
        Ok(rows.first().map(CollationInfo::new))
    }

    /// What is compared by the collation with this OID. 0 is that of types without collations.
    pub(super) fn collation_of(&self, oid: Oid) -> Result<Collation> {
        if matches!(oid, 0 | DEFAULT_COLLATION | C_COLLATION) {
            return Ok(Collation::of_bytes(oid));
        }
        match self.collation_info(oid)? {
            Some(info) => info.collation(),
            None => Err(Error::internal(format!("cache lookup failed for collation {oid}"))),
        }
    }

    /// What values of the type are compared as by this collation: domains as what they are over.
    pub fn order_type(&self, type_oid: Oid, collation: Oid) -> Result<Oid> {
        let collation = self.collation_of(collation)?;
        match collation.rules {
            Some(_) => Ok(collation.order_type(super::user_types::shown_type(type_oid, -1, self).0)),
            None => Ok(type_oid),
        }
    }

    /// The collation of a name, by the search path unless the schema is given.
    pub fn collation_named(&self, schema: Option<&str>, name: &str) -> Result<Option<CollationInfo>> {
        self.note_asked(schema, name);
        let rows = self.lookup(PG_COLLATION, PG_COLLATION_NAME_ENC_NSP_INDEX, &[Datum::text(name)])?;
        for schema in self.schemas_to_search(schema, false)? {
            let is_it = |row: &&CatalogRow| {
                row.oid("collnamespace") == schema && [-1, i64::from(UTF8)].contains(&row.int("collencoding"))
            };
            if let Some(row) = rows.iter().find(is_it) {
                let info = CollationInfo::new(row);
                self.note_found(info.oid);
                return Ok(Some(info));
            }
        }
        Ok(None)
    }
}
