//! The variables of a routine that the query of its running utility command uses (EXPLAIN, CREATE TABLE AS, DECLARE
//! CURSOR), as they were when it began: plans get values in the place of parameters.

use kilndb_base::{Error, Result};
use kilndb_bind::variables::{Variable, VariableConflict, VariableScope};
use kilndb_catalog::routine::TupleDescriptor;
use kilndb_types::Datum;
use std::sync::Arc;

#[derive(Default)]
pub struct HeldVariables {
    /// Parts of a name, whether a star follows, and what it means.
    pub names: Vec<(Vec<String>, bool, Variable)>,
    pub numbered: Vec<(u32, Variable)>,
    pub rows: Vec<(u32, Option<Arc<TupleDescriptor>>)>,
    pub values: Vec<(u32, Datum)>,
    pub conflict: VariableConflict,
    pub language: &'static str,
}

impl VariableScope for HeldVariables {
    fn resolve(&self, parts: &[&str], star: bool, _required: bool) -> Result<Option<Variable>> {
        Ok(self.names.iter().find(|(known, with_star, _)| *with_star == star && known.iter().eq(parts)).map(|n| n.2))
    }
    fn parameter(&self, number: u32) -> Option<Variable> {
        self.numbered.iter().find(|n| n.0 == number).map(|n| n.1)
    }
    fn conflict(&self) -> VariableConflict {
        self.conflict
    }
    fn language(&self) -> &'static str {
        self.language
    }
    fn row_of(&self, variable: u32) -> Result<Option<Arc<TupleDescriptor>>> {
        Ok(self.rows.iter().find(|r| r.0 == variable).and_then(|r| r.1.clone()))
    }
    fn value(&self, variable: u32) -> Result<Datum> {
        let found = self.values.iter().find(|v| v.0 == variable);
        found.map(|v| v.1.clone()).ok_or_else(|| Error::internal("a variable without a value"))
    }
}
