//! Routines: functions, procedures, inline blocks and triggers, whatever language they are written in.
//!
//! Invariants
//! 1. A routine runs on its caller's coroutine, in its caller's transaction; while it runs, the session is its own
//!    (docs/decisions/0016).
//! 2. What was compiled is read-only and may be shared by sessions; values, plans in use and positions belong to a
//!    call.
//!
//! Must not know: any language but SQL. Others come through [`language::ProceduralLanguage`].

mod blocks;
pub(crate) mod built_in;
pub(crate) mod cache;
mod call;
mod collect;
pub mod context;
mod cursors;
pub(crate) mod held;
pub mod language;
mod plans;
pub mod slot_expression;
pub mod spi;
pub(crate) mod sql_language;
mod statement;
mod text;
mod trigger;
pub(crate) mod types;
mod value_plans;

pub(crate) use cache::RoutinesByDatabase;
pub(crate) use call::Routines;
pub use context::ContextSource;
pub use kilndb_exec::RowSink;
pub use kilndb_exec::integer_program::{IntegerProgram, VariableValues};
pub use language::*;
pub use slot_expression::SlotExpression;
pub use spi::*;

use crate::plan_guard::GuardedStatements;
use cache::RoutineCache;
use kilndb_base::sync::Arc;
use kilndb_plan::Plan;
use plans::RoutinePlans;
use std::rc::Rc;

/// The routines of a session: what they have been made into, and which are running.
#[derive(Default)]
pub(crate) struct RoutineState {
    plans: RoutinePlans,
    cache: RoutineCache,
    /// Outer ones first.
    running: Vec<Rc<dyn ContextSource>>,
    /// Of statements that are running while a routine runs others.
    pub running_plans: Vec<Arc<Plan>>,
}

impl RoutineState {
    pub fn new(guards: Arc<GuardedStatements>) -> RoutineState {
        RoutineState { plans: RoutinePlans { guards, ..RoutinePlans::default() }, ..RoutineState::default() }
    }
}
