//! What a statement's foreign keys still have to do: actions change rows whose foreign keys have actions of their own.
//!
//! They wait in one queue and run one after another, as PostgreSQL's trigger events do: a chain of rows that refer to
//! one another costs a place in the queue for each, not a level of the stack.
//!
//! Invariants
//! 1. The first statement of a cascade owns it; actions only add to it. It is gone when that statement ends, whether it
//!    failed or not.
//! 2. What a routine runs in the midst of a cascade (a trigger's statements) is none of its actions: who calls a
//!    routine takes the cascade out of its sight, and such a statement has its own.
//! 3. An action is planned once a cascade.

use super::constraint::ConstraintQueue;
use super::context::ExecContext;
use kilndb_base::hash::HashMap;
use kilndb_base::{Oid, Result};
use kilndb_plan::{ModifyPlan, Plan};
use std::collections::VecDeque;
use std::sync::Arc;

/// Which statement an action is: the foreign key, the referenced table that changes (a partition's columns may stand
/// elsewhere), the action's letter, and whether the key changes or goes.
pub(crate) type ActionKey = (Oid, Oid, u8, bool);

#[derive(Default)]
pub struct Cascade {
    waiting: VecDeque<(ModifyPlan, ConstraintQueue)>,
    plans: HashMap<ActionKey, Arc<Plan>>,
}

impl Cascade {
    pub fn plan(&self, key: &ActionKey) -> Option<Arc<Plan>> {
        self.plans.get(key).cloned()
    }
    pub(crate) fn keep_plan(&mut self, key: ActionKey, plan: Arc<Plan>) {
        self.plans.insert(key, plan);
    }
}

/// Runs what a statement owes its foreign keys, or lets it wait if the statement is an action of a cascade.
pub fn run(queue: ConstraintQueue, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
    if queue.is_empty() {
        return Ok(());
    }
    match cx.pending.cascade.as_deref_mut() {
        Some(cascade) => {
            cascade.waiting.push_back((m.clone(), queue));
            Ok(())
        }
        None => run_now(queue, m, cx),
    }
}

/// Runs what a statement owes its foreign keys to the end, with all that follows from it: its AFTER triggers see it done.
pub(crate) fn run_now(queue: ConstraintQueue, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
    if queue.is_empty() {
        return Ok(());
    }
    let outer = cx.pending.cascade.replace(Box::default());
    let done = run_all(queue, m, cx);
    cx.pending.cascade = outer;
    cx.pending.failed_behind |= done.is_err();
    done
}

fn run_all(mut queue: ConstraintQueue, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
    queue.run(m, cx)?;
    while let Some((m, mut queue)) = cx.pending.cascade.as_deref_mut().and_then(|c| c.waiting.pop_front()) {
        cx.park.checkpoint()?;
        // In PostgreSQL the action that caused these checks is over: its command is not shown in errors.
        cx.pending.failed_behind = false;
        queue.run(&m, cx)?;
    }
    Ok(())
}
