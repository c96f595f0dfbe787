//! What else a language asks: cursors that are open, and where a procedure's output goes.

use super::spi::{Spi, VariableScope};
use super::statement::SpiPrepared;
use kilndb_base::Result;
use kilndb_syntax::Node;
use std::sync::Arc;

/// An output argument of a CALL.
#[derive(Clone, Debug)]
pub struct CallOutput {
    pub name: String,
    /// The variable that was given for it; None: something else was.
    pub variable: Option<u32>,
}

impl Spi<'_> {
    /// There is a cursor of that name.
    pub fn cursor_exists(&self, name: &str) -> bool {
        self.session.own.portals.contains(name)
    }

    /// The output arguments of a CALL, in the order of its result's columns.
    pub fn call_outputs(&mut self, prepared: &Arc<SpiPrepared>, scope: &dyn VariableScope) -> Result<Vec<CallOutput>> {
        match prepared.statement().node() {
            Node::CallStmt(s) => Ok(self.session.bind_procedure(s, prepared.statement().source(), scope, self.runtime)?.outputs),
            _ => Ok(Vec::new()),
        }
    }
}
