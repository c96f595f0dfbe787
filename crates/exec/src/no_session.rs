//! What stands where a thread has no catalogs and no session: whoever asks it has been given to that thread by mistake.

use super::context::{CallEnv, SessionHost};
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result};
use kilndb_catalog::CatalogView;
use kilndb_catalog::model::{CastInfo, FunctionInfo, OperatorInfo, OrderingOperators, Table, TypeInfo};
use kilndb_types::Datum;
use kilndb_types::functions::SessionFunction;

/// Stands where a helper has no catalogs and no session. Expressions that would need them are not given to helpers.
pub struct NoSession;

fn not_here<T>() -> Result<T> {
    Err(Error::internal("a helper thread has no session"))
}

impl CatalogView for NoSession {
    fn table_by_name(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<Table>>> {
        not_here()
    }
    fn table_by_oid(&self, _: Oid) -> Result<Option<Arc<Table>>> {
        not_here()
    }
    fn schema_exists(&self, _: &str) -> Result<bool> {
        not_here()
    }
    fn database_name(&self) -> &str {
        ""
    }
    fn type_by_name(&self, _: Option<&str>, _: &str) -> Result<Option<Arc<TypeInfo>>> {
        not_here()
    }
    fn type_by_oid(&self, _: Oid) -> Result<Option<Arc<TypeInfo>>> {
        not_here()
    }
    fn functions(&self, _: Option<&str>, _: &str) -> Result<Vec<Arc<FunctionInfo>>> {
        not_here()
    }
    fn function_by_oid(&self, _: Oid) -> Result<Option<Arc<FunctionInfo>>> {
        not_here()
    }
    fn operators(&self, _: Option<&str>, _: &str) -> Result<Vec<Arc<OperatorInfo>>> {
        not_here()
    }
    fn operator_by_oid(&self, _: Oid) -> Result<Option<Arc<OperatorInfo>>> {
        not_here()
    }
    fn cast(&self, _: Oid, _: Oid) -> Result<Option<CastInfo>> {
        not_here()
    }
    fn ordering_operators(&self, _: Oid) -> Result<Option<OrderingOperators>> {
        not_here()
    }
    fn btree_strategy(&self, _: Oid) -> Result<Option<u8>> {
        not_here()
    }
    fn format_type(&self, oid: Oid, _: i32) -> String {
        oid.to_string()
    }
    fn schema_name_of(&self, _: Oid) -> Option<String> {
        None
    }
    fn current_schema(&self) -> Option<String> {
        None
    }
}

impl SessionHost for NoSession {
    fn call_function(&self, _: SessionFunction, _: &[Datum], _: &mut CallEnv<'_>) -> Result<Datum> {
        not_here()
    }
    fn call_for_rows(&self, _: SessionFunction, _: &[Datum], _: &mut CallEnv<'_>) -> Result<Vec<Vec<Datum>>> {
        not_here()
    }
    fn current_user(&self) -> String {
        String::new()
    }
    fn session_user(&self) -> String {
        String::new()
    }
    fn current_database(&self) -> String {
        String::new()
    }
    fn current_schema(&self) -> Option<String> {
        None
    }
}
