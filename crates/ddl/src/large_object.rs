//! Large objects in statements: which one is meant, ALTER LARGE OBJECT … OWNER TO, COMMENT ON.
//!
//! Must not know: their bytes (`kilndb_catalog::large_object`).

use super::Definitions;
use crate::client::Runtime;
use crate::privileges::not_owner;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::large_object::missing;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

/// The OID that a statement names a large object by.
fn oid_of(node: Node<'_>) -> Result<Oid> {
    let text = match node {
        // What is negative counts from the other end, as everywhere in PostgreSQL.
        Node::Integer(n) => return Ok(n.ival as Oid),
        Node::Float(n) => n.fval().unwrap_or(""),
        _ => return Err(Error::internal("a large object without an OID")),
    };
    if let Ok(oid) = text.parse() {
        return Ok(oid);
    }
    if text.bytes().all(|b| b.is_ascii_digit()) {
        let message = format!("value \"{text}\" is out of range for type oid");
        return Err(Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message));
    }
    let message = format!("invalid input syntax for type oid: \"{text}\"");
    Err(Error::new(sqlstate::INVALID_TEXT_REPRESENTATION, message))
}

impl Definitions<'_> {
    /// The row of pg_largeobject_metadata of the object that a statement names; 42704 if there is none.
    pub(super) fn large_object_named(&mut self, node: Node<'_>) -> Result<CatalogRow> {
        let oid = oid_of(node)?;
        let (table, index) = (PG_LARGEOBJECT_METADATA, PG_LARGEOBJECT_METADATA_OID_INDEX);
        self.context_mut().catalog_lookup(table, index, &[Datum::Oid(oid)])?.pop().ok_or_else(|| missing(oid))
    }

    pub(super) fn commented_large_object(&mut self, node: Node<'_>) -> Result<Oid> {
        let row = self.large_object_named(node)?;
        let asks_nobody = self.context().settings.get("lo_compat_privileges") == Some("on");
        if !asks_nobody && !self.context().owns(row.oid("lomowner")) {
            return Err(not_owner("large object", &row.oid("oid").to_string()));
        }
        Ok(row.oid("oid"))
    }

    pub(super) fn give_large_object(
        &mut self,
        s: &nodes::AlterOwnerStmt,
        owner: Oid,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let row = self.large_object_named(s.object())?;
        if row.oid("lomowner") != owner {
            if !self.context().owns(row.oid("lomowner")) {
                return Err(not_owner("large object", &row.oid("oid").to_string()));
            }
            self.require_new_owner(owner, None, runtime)?;
            self.rewrite_row(&row, runtime, |row| row.set("lomowner", Datum::Oid(owner)))?;
        }
        Ok("ALTER LARGE OBJECT".to_string())
    }
}
