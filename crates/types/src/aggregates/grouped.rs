//! The states of one aggregate for many groups.
//!
//! Groups are numbered from 0 on, and their states stand one behind the other: there are as many of them as groups, so they are
//! small, and without a box each where their kind allows ([`Accumulator::grouped`]).
//!
//! Must not know: what the groups' keys are.

use super::{Accumulator, AggregateFn, PartialAggregate};
use crate::vector::{Rows, Vector};
use crate::{Datum, EvalContext};
use kilndb_base::{Oid, Result};

/// Rows of a group that are fewer than this are not listed for it.
const LISTED_ROWS_MIN: usize = 4;
/// With more groups than these no rows are listed: it would cost as much as it saves.
const LISTED_GROUPS_MAX: usize = 4096;
/// What the memory manager and the pointer take of a state that has a box of its own, with a state of common size.
const BOXED_BYTES: usize = 112;

pub trait GroupedAccumulator: Send {
    /// Appends the state of a group that has no rows.
    fn push_group(&mut self);
    /// Forgets all groups.
    fn clear(&mut self);
    /// Takes in rows, each for its group.
    fn add_rows(&mut self, rows: &GroupedRows, args: &[&Vector], ctx: &EvalContext) -> Result<()>;
    /// The state of one group.
    fn state(&mut self, group: usize) -> &mut dyn Accumulator;
    /// The memory of a group, with its part of what is kept free for more of them.
    fn group_bytes(&self) -> usize;
}

/// As many states as wanted of the aggregate that `make` makes one state of.
pub fn grouped(make: AggregateFn, types: &[Oid]) -> Box<dyn GroupedAccumulator> {
    make(types).grouped().unwrap_or_else(|| {
        let types = types.to_vec();
        Box::new(GroupStates { new_state: move || make(&types), states: Vec::new(), bytes: BOXED_BYTES })
    })
}

/// States like this one, which has no rows.
pub(super) fn states_of<A: GroupState + Clone + 'static>(empty: A) -> Box<dyn GroupedAccumulator> {
    // A vector that grows has between one and two times the room that it needs.
    let bytes = size_of::<A>() * 3 / 2;
    Box::new(GroupStates { new_state: move || empty.clone(), states: Vec::new(), bytes })
}

/// A state that can be one of many in a list.
pub(super) trait GroupState: Accumulator + Sized {
    /// Takes in rows, each for the state whose number stands beside it. False: it has no way of its own to do that with such
    /// vectors, and has taken in none.
    fn add_pairs(states: &mut [Self], pairs: &[(u32, u32)], args: &[&Vector]) -> Result<bool> {
        let _ = (states, pairs, args);
        Ok(false)
    }
}

impl GroupState for Box<dyn Accumulator> {}

struct GroupStates<A, M> {
    new_state: M,
    states: Vec<A>,
    bytes: usize,
}

impl<A: GroupState, M: Fn() -> A + Send> GroupedAccumulator for GroupStates<A, M> {
    fn push_group(&mut self) {
        self.states.push((self.new_state)());
    }
    fn clear(&mut self) {
        self.states.clear();
    }
    fn add_rows(&mut self, rows: &GroupedRows, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        if let Some(mut lists) = rows.lists() {
            return lists.try_for_each(|(group, rows)| self.states[group].add_vectors(rows, args, ctx));
        }
        if A::add_pairs(&mut self.states, &rows.pairs, args)? {
            return Ok(());
        }
        let mut values: Vec<Datum> = Vec::with_capacity(args.len());
        for (row, group) in &rows.pairs {
            values.clear();
            for arg in args {
                values.push(arg.get(*row as usize)?);
            }
            self.states[*group as usize].add(&values, ctx)?;
        }
        Ok(())
    }
    fn state(&mut self, group: usize) -> &mut dyn Accumulator {
        &mut self.states[group]
    }
    fn group_bytes(&self) -> usize {
        self.bytes
    }
}

impl Accumulator for Box<dyn Accumulator> {
    fn add(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<()> {
        (**self).add(args, ctx)
    }
    fn finish(&mut self, ctx: &EvalContext) -> Result<Datum> {
        (**self).finish(ctx)
    }
    fn outlives_finish(&self) -> bool {
        (**self).outlives_finish()
    }
    fn remove(&mut self, args: &[Datum], ctx: &EvalContext) -> Result<bool> {
        (**self).remove(args, ctx)
    }
    fn for_moving_frames(&self) -> Option<Box<dyn Accumulator>> {
        (**self).for_moving_frames()
    }
    fn grouped(&self) -> Option<Box<dyn GroupedAccumulator>> {
        (**self).grouped()
    }
    fn add_vectors(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        (**self).add_vectors(rows, args, ctx)
    }
    fn add_each(&mut self, rows: Rows<'_>, args: &[&Vector], ctx: &EvalContext) -> Result<()> {
        (**self).add_each(rows, args, ctx)
    }
    fn partial(&self) -> Option<PartialAggregate> {
        (**self).partial()
    }
    fn absorb(&mut self, other: PartialAggregate, ctx: &EvalContext) -> Result<()> {
        (**self).absorb(other, ctx)
    }
}

/// Rows of a batch, each with the number of its group.
#[derive(Default)]
pub struct GroupedRows {
    /// Rows and groups, in the order of the rows.
    pairs: Vec<(u32, u32)>,
    positions: usize,
    has_lists: bool,
    /// The groups that have rows, and these rows, if they are listed.
    listed: Vec<u32>,
    lists: Vec<Vec<u32>>,
    /// By group: its list, and the number of the batch that this is of.
    list_of: Vec<(u32, u32)>,
    batch_number: u32,
}

impl GroupedRows {
    /// Has no rows, of a batch with so many positions.
    pub fn start(&mut self, positions: usize) {
        self.pairs.clear();
        self.positions = positions;
        self.has_lists = false;
    }
    #[inline]
    pub fn push(&mut self, row: usize, group: u32) {
        self.pairs.push((row as u32, group));
    }
    /// Rows with the numbers of their groups.
    pub fn pairs(&self) -> &[(u32, u32)] {
        &self.pairs
    }
    pub fn positions(&self) -> usize {
        self.positions
    }
    /// Has those rows of another one for which `f` is true. They are not listed.
    pub fn take_where(&mut self, all: &GroupedRows, f: impl Fn(usize) -> bool) {
        self.start(all.positions);
        self.pairs.extend(all.pairs.iter().filter(|(row, _)| f(*row as usize)));
    }
    /// Lists each group's rows, once all are there, unless so many of the `groups` that there are have rows in this batch that
    /// it is not worth while.
    pub fn list(&mut self, groups: usize) {
        self.listed.clear();
        if groups > LISTED_GROUPS_MAX {
            return;
        }
        self.list_of.resize(groups.max(self.list_of.len()), (0, 0));
        self.batch_number = self.batch_number.wrapping_add(1);
        if self.batch_number == 0 {
            // Numbers of batches come again: those of the groups must be older.
            self.list_of.fill((0, 0));
            self.batch_number = 1;
        }
        let most = self.pairs.len() / LISTED_ROWS_MIN;
        for (row, group) in &self.pairs {
            let (list, of_batch) = &mut self.list_of[*group as usize];
            if *of_batch != self.batch_number {
                if self.listed.len() > most {
                    return;
                }
                (*list, *of_batch) = (self.listed.len() as u32, self.batch_number);
                self.listed.push(*group);
                if self.lists.len() < self.listed.len() {
                    self.lists.push(Vec::new());
                }
                self.lists[*list as usize].clear();
            }
            self.lists[*list as usize].push(*row);
        }
        self.has_lists = true;
    }
    /// The groups with their rows, if these are listed.
    pub fn lists(&self) -> Option<impl Iterator<Item = (usize, Rows<'_>)>> {
        let each = self.listed.iter().zip(&self.lists);
        self.has_lists.then(|| each.map(|(group, list)| (*group as usize, Rows::Listed(list, self.positions))))
    }
}
