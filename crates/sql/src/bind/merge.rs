//! MERGE.

use super::Binder;
use super::ir::Query;
use super::scope::Scope;
use kilndb_base::{Error, Result};
use kilndb_syntax::nodes;

impl Binder<'_> {
    pub(crate) fn bind_merge(&self, s: &nodes::MergeStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let _ = (s, outer);
        Err(Error::unsupported("MERGE is not supported yet"))
    }
}
