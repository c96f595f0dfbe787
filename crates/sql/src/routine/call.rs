//! Calls: the session is handed to a routine, and taken back.

use super::language::ResultRows;
use crate::client::Runtime;
use crate::exec::{Held, RoutineCall, RoutineHost};
use crate::session::Session;
use kilndb_base::{Error, Result};
use kilndb_types::Datum;

/// The session as the plan of one of its statements has it.
pub(crate) struct Routines<'s> {
    pub session: &'s mut Session,
    pub runtime: &'s dyn Runtime,
}

impl RoutineHost for Routines<'_> {
    fn call_routine(&mut self, call: &RoutineCall, arguments: &[Datum], rows: Option<&mut dyn ResultRows>, held: Held<'_>) -> Result<Datum> {
        self.session.txn = held.txn.take();
        std::mem::swap(&mut self.session.pending, held.pending);
        std::mem::swap(&mut self.session.usage, held.usage);
        let done = self.session.call_routine(call, arguments, rows, held.snapshot, self.runtime);
        std::mem::swap(&mut self.session.pending, held.pending);
        std::mem::swap(&mut self.session.usage, held.usage);
        held.txn.put_back(self.session.txn.take());
        done
    }
}

impl Session {
    fn call_routine(&mut self, call: &RoutineCall, arguments: &[Datum], rows: Option<&mut dyn ResultRows>, snapshot: &kilndb_storage::Snapshot, runtime: &dyn Runtime) -> Result<Datum> {
        let _ = (arguments, rows, snapshot, runtime);
        Err(Error::unsupported(format!("function {} is not supported", call.name)))
    }
}
