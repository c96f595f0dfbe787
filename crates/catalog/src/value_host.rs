//! Values read and written where there are catalogs, but no session.

use super::model::CatalogView;
use super::user_types;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::context::{ObjectNames, SessionEnvironment, TextSearchCatalog, TypeCatalog};
use kilndb_types::{Datum, EvalContext, FormatSettings};
use std::cell::Cell;

/// What value code may ask where there are catalogs, but no session.
pub struct CatalogHost<'a>(pub &'a dyn CatalogView);

impl ObjectNames for CatalogHost<'_> {
    fn format_type(&self, oid: Oid, typmod: i32) -> String {
        self.0.format_type(oid, typmod)
    }
    fn reg_input(&self, _kind: Oid, text: &str) -> Result<Oid> {
        Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("\"{text}\" cannot be looked up here")))
    }
    fn reg_output(&self, _kind: Oid, oid: Oid) -> String {
        oid.to_string()
    }
}

impl TypeCatalog for CatalogHost<'_> {
    fn element_type(&self, oid: Oid) -> Oid {
        match self.0.type_by_oid(oid) {
            Ok(Some(t)) if t.category == b'A' => t.element,
            _ => 0,
        }
    }
    fn array_type(&self, oid: Oid) -> Oid {
        self.0.type_by_oid(oid).ok().flatten().map_or(0, |t| t.array)
    }
    fn composite_fields(&self, oid: Oid) -> Option<Vec<(String, Oid, i32)>> {
        let t = self.0.type_by_oid(oid).ok().flatten()?;
        let table = self.0.table_by_oid(t.table_oid).ok().flatten()?;
        Some(table.columns.iter().filter(|c| !c.dropped).map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect())
    }
    fn range_type(&self, oid: Oid) -> Option<kilndb_types::range::RangeType> {
        self.0.type_by_oid(oid).ok().flatten().and_then(|t| t.range)
    }
    fn under_domain(&self, oid: Oid) -> Option<(Oid, i32)> {
        user_types::under_domain(self.0, oid)
    }
    fn check_domain(&self, _oid: Oid, _value: &Datum) -> Result<()> {
        Err(Error::internal("a domain's value cannot be checked here"))
    }
    fn enum_value(&self, oid: Oid, label: &str) -> Option<Result<Datum>> {
        user_types::enum_value(self.0, oid, label)
    }
    fn enum_label(&self, oid: Oid, value: u64) -> Option<String> {
        user_types::enum_label(self.0, oid, value)
    }
}

impl TextSearchCatalog for CatalogHost<'_> {}

impl SessionEnvironment for CatalogHost<'_> {
    fn clock_unix_micros(&self) -> i64 {
        0
    }
    fn random_bytes(&self, _buf: &mut [u8]) {}
    fn notice(&self, _notice: Error) {}
}

/// Calls `f` with default settings and a clock that stands still: for values that depend on neither.
pub fn with_context<R>(catalog: &dyn CatalogView, f: impl FnOnce(&EvalContext<'_>) -> R) -> R {
    let host = CatalogHost(catalog);
    let format = FormatSettings::default();
    let random_state = Cell::new([1, 2]);
    f(&EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &host,
        random_state: &random_state,
        clock_was_read: None,
    })
}
