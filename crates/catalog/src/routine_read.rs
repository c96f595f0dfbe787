//! Functions and procedures: those that are built in, those that rows of pg_proc describe, and the session's own in
//! pg_temp.
//!
//! Invariant: a temporary function is found by its schema or its OID alone, and what was made with one is not for other
//! sessions.

use super::builtin::{BUILTINS, FIRST_EXTENSION_OID, FIRST_USER_OID, PG_CATALOG};
use super::cache::{CatalogReader, split_expressions};
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::FunctionInfo;
use super::privileges::Privileges;
use super::secured_objects::ROUTINES;
use super::temporary::{TEMPORARY_SCHEMA, is_temporary};
use kilndb_base::{Oid, Result};
use kilndb_types::Datum;
use std::sync::Arc;

impl CatalogReader<'_> {
    pub fn function_info(&self, row: &CatalogRow) -> FunctionInfo {
        let arg_types = row.numbers("proargtypes").iter().map(|n| *n as Oid).collect();
        FunctionInfo {
            oid: row.oid("oid"),
            name: row.text("proname").unwrap_or("").to_string(),
            schema_oid: row.oid("pronamespace"),
            kind: row.char("prokind"),
            strict: row.bool("proisstrict"),
            returns_set: row.bool("proretset"),
            volatility: row.char("provolatile"),
            return_type: row.oid("prorettype"),
            arg_types,
            arg_names: row.texts("proargnames"),
            all_arg_types: row.numbers("proallargtypes").iter().map(|n| *n as Oid).collect(),
            arg_modes: row.numbers("proargmodes").iter().map(|n| *n as u8).collect(),
            variadic: row.oid("provariadic"),
            defaults: row.text("proargdefaults").map(split_expressions).unwrap_or_default(),
            language: match row.oid("prolang") {
                14 => "sql",
                12 => "internal",
                // An extension's functions are in this program.
                13 if row.oid("oid") < FIRST_USER_OID => "internal",
                13 => "c",
                _ => "plpgsql",
            }
            .to_string(),
            source: row.text("prosqlbody").or(row.text("prosrc")).unwrap_or("").to_string(),
            is_sql_body: row.text("prosqlbody").is_some(),
            cost: row.float4("procost"),
            rows: row.float4("prorows"),
            owner: row.oid("proowner"),
            security_definer: row.bool("prosecdef"),
            config: row.texts("proconfig"),
        }
    }

    /// The functions of this name that users and extensions have made and all sessions see.
    fn user_functions(&self, name: &str) -> Result<Vec<Arc<FunctionInfo>>> {
        if let Some(found) = self.cache.lock().functions.get(name) {
            return Ok(found.clone());
        }
        let rows = self.store().lookup(PG_PROC, PG_PROC_PRONAME_ARGS_NSP_INDEX, &[Datum::text(name)], self.snapshot)?;
        let user = rows.iter().filter(|r| r.oid("oid") >= FIRST_EXTENSION_OID);
        let found: Vec<_> = user.map(|r| Arc::new(self.function_info(r))).collect();
        self.cache.lock().functions.insert(name.to_string(), found.clone());
        Ok(found)
    }

    /// A temporary one was found.
    fn note_private(&self) {
        if let Some(asked) = self.asked {
            asked.is_private.set(true);
        }
    }

    /// All of that name in the schema, or in those of the path: an earlier one hides the same signature in a later one.
    pub(super) fn functions_named(&self, schema: Option<&str>, name: &str) -> Result<Vec<Arc<FunctionInfo>>> {
        let schemas = self.schemas_to_search(schema, false)?;
        if schemas == [TEMPORARY_SCHEMA] {
            self.note_private();
            let rows = self.temporary.lookup(PG_PROC, PG_PROC_PRONAME_ARGS_NSP_INDEX, &[Datum::text(name)])?;
            return Ok(rows.iter().map(|r| Arc::new(self.function_info(r))).collect());
        }
        let user = self.user_functions(name)?;
        let mut found: Vec<Arc<FunctionInfo>> = Vec::new();
        for schema in schemas {
            if schema == PG_CATALOG
                && let Some(builtin) = BUILTINS.functions_by_name.get(name)
            {
                found.extend(builtin.iter().cloned());
            }
            for f in user.iter().filter(|f| f.schema_oid == schema) {
                if !found.iter().any(|known| known.arg_types == f.arg_types) {
                    found.push(f.clone());
                }
            }
        }
        Ok(found)
    }

    /// A function's privileges if somebody has granted or revoked it. A built-in one's are in its row alone.
    pub(super) fn restricted_function(&self, oid: Oid) -> Result<Option<Privileges>> {
        if let Some(found) = self.objects(oid).function_privileges.get(&oid) {
            return Ok(found.clone());
        }
        let rows = self.lookup(PG_PROC, PG_PROC_OID_INDEX, &[Datum::Oid(oid)])?;
        let found = rows.first().map(|row| ROUTINES.privileges(row)).filter(|of| of.list.is_some());
        self.objects(oid).function_privileges.insert(oid, found.clone());
        Ok(found)
    }

    pub(super) fn function(&self, oid: Oid) -> Result<Option<Arc<FunctionInfo>>> {
        if let Some(builtin) = BUILTINS.functions.get(&oid) {
            return Ok(Some(builtin.clone()));
        }
        if is_temporary(oid) {
            self.note_private();
        }
        if let Some(found) = self.objects(oid).functions_by_oid.get(&oid) {
            return Ok(found.clone());
        }
        let rows = self.lookup(PG_PROC, PG_PROC_OID_INDEX, &[Datum::Oid(oid)])?;
        let found = rows.first().map(|r| Arc::new(self.function_info(r)));
        self.objects(oid).functions_by_oid.insert(oid, found.clone());
        Ok(found)
    }
}
