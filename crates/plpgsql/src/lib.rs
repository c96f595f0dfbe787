//! PL/pgSQL: text to tree ([`parser`]), names to slots ([`namespace`]), and a walk over the tree ([`run`]).
//!
//! Invariants
//! 1. PostgreSQL 18 decides texts of errors, their SQLSTATEs, positions and lines of CONTEXT.
//! 2. What is compiled is read-only and shared by sessions; a call's values are its own.
//!
//! Must not know: plans, storage, sockets. Statements and expressions are the session's to run
//! ([`kilndb_sql::routine::Spi`]).

mod compile;
mod conditions;
mod keywords;
mod namespace;
mod parser;
mod run;
mod scanner;
mod tree;
mod values;

use kilndb_base::{Result, SqlState};
use kilndb_sql::routine::{Call, CompiledRoutine, Definition, ProceduralLanguage, Spi};
use kilndb_types::Datum;
use std::sync::Arc;

pub(crate) const ERROR_IN_ASSIGNMENT: SqlState = SqlState::new("22005");

/// The language, to be plugged into an instance.
pub struct PlPgSql;

impl ProceduralLanguage for PlPgSql {
    fn name(&self) -> &'static str {
        "plpgsql"
    }
    fn validate(&self, definition: &Definition, spi: &mut Spi<'_>) -> Result<()> {
        compile::check_types(definition, spi)?;
        if spi.setting("check_function_bodies").is_some_and(|v| v == "off") {
            return Ok(());
        }
        compile::compile(&Arc::new(definition.clone()), spi).map(|_| ())
    }
    fn compile(&self, definition: &Arc<Definition>, spi: &mut Spi<'_>) -> Result<Arc<dyn CompiledRoutine>> {
        Ok(Arc::new(Compiled(compile::compile(definition, spi)?)))
    }
}

struct Compiled(compile::Routine);

impl CompiledRoutine for Compiled {
    fn call(&self, call: &mut Call<'_>, spi: &mut Spi<'_>) -> Result<Datum> {
        run::call(&self.0, call, spi)
    }
}
