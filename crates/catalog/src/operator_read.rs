//! Operators: those that are built in, and those that rows of pg_operator describe.

use super::builtin::{BUILTINS, FIRST_EXTENSION_OID, PG_CATALOG};
use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::OperatorInfo;
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;
use std::sync::Arc;

fn operator_info(row: &CatalogRow) -> OperatorInfo {
    OperatorInfo {
        oid: row.oid("oid"),
        name: row.text("oprname").unwrap_or("").to_string(),
        schema_oid: row.oid("oprnamespace"),
        left: row.oid("oprleft"),
        right: row.oid("oprright"),
        result: row.oid("oprresult"),
        function: row.oid("oprcode"),
        commutator: row.oid("oprcom"),
        negator: row.oid("oprnegate"),
        can_hash: row.bool("oprcanhash"),
        can_merge: row.bool("oprcanmerge"),
        restriction: row.oid("oprrest"),
        join: row.oid("oprjoin"),
    }
}

impl CatalogReader<'_> {
    fn user_operators(&self, name: &str) -> Result<Vec<Arc<OperatorInfo>>> {
        if let Some(found) = self.cache.lock().operators.get(name) {
            return Ok(found.clone());
        }
        let rows =
            self.store().lookup(PG_OPERATOR, PG_OPERATOR_OPRNAME_L_R_N_INDEX, &[Datum::text(name)], self.snapshot)?;
        let found: Vec<_> =
            rows.iter().filter(|r| r.oid("oid") >= FIRST_EXTENSION_OID).map(|r| Arc::new(operator_info(r))).collect();
        self.cache.lock().operators.insert(name.to_string(), found.clone());
        Ok(found)
    }

    /// All of that name in the schema, or in those of the path: an earlier one hides what a later one has for the same
    /// types.
    pub(super) fn operators_named(&self, schema: Option<&str>, name: &str) -> Result<Vec<Arc<OperatorInfo>>> {
        let built_in = BUILTINS.operators_by_name.get(name);
        let user = self.user_operators(name)?;
        if user.is_empty() {
            return Ok(built_in.filter(|_| schema.is_none_or(|s| s == "pg_catalog")).cloned().unwrap_or_default());
        }
        let mut found: Vec<Arc<OperatorInfo>> = Vec::new();
        for schema in self.schemas_to_search(schema, false)? {
            found.extend(built_in.into_iter().flatten().filter(|_| schema == PG_CATALOG).cloned());
            for o in user.iter().filter(|o| o.schema_oid == schema) {
                if !found.iter().any(|known| (known.left, known.right) == (o.left, o.right)) {
                    found.push(o.clone());
                }
            }
        }
        Ok(found)
    }

    pub(super) fn operator(&self, oid: Oid) -> Result<Option<Arc<OperatorInfo>>> {
        if oid < FIRST_EXTENSION_OID {
            return Ok(BUILTINS.operators.get(&oid).cloned());
        }
        if let Some(found) = self.cache.lock().operators_by_oid.get(&oid) {
            return Ok(found.clone());
        }
        let rows = self.store().lookup(PG_OPERATOR, PG_OPERATOR_OID_INDEX, &[Datum::Oid(oid)], self.snapshot)?;
        let found = rows.first().map(|r| Arc::new(operator_info(r)));
        self.cache.lock().operators_by_oid.insert(oid, found.clone());
        Ok(found)
    }
}
