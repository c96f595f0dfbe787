//! Long computations give way and can be cancelled, wherever they are.
//!
//! A function over values (a digest, a regular expression, an array's elements) does not know the session that it
//! computes for. It says how much it has done ([`step`]); after so much the session is asked, through the [`Park`] that
//! it is under ([`under`]): others get their turn, and a cancelled statement fails.
//!
//! Invariants
//! 1. A thread's present park is that of the computation that runs on it: who suspends a computation puts it [`aside`].
//! 2. Between two looks lie at most [`UNITS_PER_LOOK`] and the units of one step.
//! 3. What runs [`apart`] is over, on whichever thread, when the call returns.
//!
//! Must not know: sessions, clocks.

use crate::memory::{self, MemoryAccount};
use crate::park::Park;
use crate::{Error, Result};
use std::cell::Cell;
use std::cmp::Ordering;
use std::ptr::NonNull;

/// A unit is about a nanosecond's work: a few bytes copied, one byte looked at with care. After so many the session is
/// asked.
pub const UNITS_PER_LOOK: i64 = 200_000;
/// A library's call is given at most so many bytes at once where it can be given them in pieces.
pub const PIECE_BYTES: usize = 64 << 10;

/// What a thread computes for.
#[derive(Clone, Copy)]
struct Computation {
    park: Option<NonNull<dyn Park>>,
    units_left: i64,
    memory: MemoryAccount,
}

const NOBODYS: Computation = Computation { park: None, units_left: UNITS_PER_LOOK, memory: memory::EMPTY };

crate::task_local! {
    static PRESENT: Cell<Computation> = const { Cell::new(NOBODYS) };
    /// How many units are left until the next look.
    static UNITS_LEFT: Cell<i64> = const { Cell::new(UNITS_PER_LOOK) };
}

fn replace(next: Computation) -> Computation {
    let mut before = PRESENT.replace(next);
    before.units_left = UNITS_LEFT.replace(next.units_left);
    before.memory = memory::replace(next.memory);
    before
}

/// Puts a computation back when it goes out of scope, also by a panic.
struct ComputationGuard(Computation);
impl Drop for ComputationGuard {
    fn drop(&mut self) {
        replace(self.0);
    }
}

/// Runs `f` under `park`, which is asked now and then, with an empty account of memory.
pub fn under<T>(park: &dyn Park, f: impl FnOnce() -> T) -> T {
    // SAFETY: only the lifetime changes. The pointer is taken away, by `ComputationGuard`, before this function ends, which the
    // reference outlives; who suspends the computation in between takes it away as well (invariant 1).
    let park: NonNull<dyn Park + 'static> = unsafe { std::mem::transmute(NonNull::from(park)) };
    let _before = ComputationGuard(replace(Computation { park: Some(park), ..NOBODYS }));
    f()
}

/// Runs `f`, in which the thread turns to other computations and comes back to this one.
pub fn aside<T>(f: impl FnOnce() -> T) -> T {
    let _before = ComputationGuard(replace(NOBODYS));
    f()
}

/// The session is asked at the next step, however small.
pub(crate) fn look_at_next_step() {
    UNITS_LEFT.set(0);
}

/// So much has been done since the last call. Fails if the statement is cancelled.
#[inline]
pub fn step(units: usize) -> Result<()> {
    let left = UNITS_LEFT.get().saturating_sub(units as i64);
    UNITS_LEFT.set(left);
    if left > 0 { Ok(()) } else { look() }
}

/// So much has been done where nobody can fail: the session is asked at a later [`step`] that much sooner.
#[inline]
pub fn owe(units: usize) {
    UNITS_LEFT.set(UNITS_LEFT.get().saturating_sub(units as i64));
}

#[cold]
fn look() -> Result<()> {
    UNITS_LEFT.set(UNITS_PER_LOOK);
    present_park().map_or(Ok(()), |park| park.checkpoint())
}

/// The session that the thread computes for.
fn present_park<'a>() -> Option<&'a dyn Park> {
    // SAFETY: the park outlives the call of `under` that has put it there, which every caller is within, and callers let
    // go of the reference before they return.
    PRESENT.get().park.map(|park| unsafe { park.as_ref() })
}

/// Runs `f` where it takes nobody's turn, as on a thread of its own: for what takes long, and can neither give way nor be
/// cancelled. Others have their turns meanwhile. Its memory counts for the present computation. Fails if the statement
/// is cancelled before `f` has begun.
pub fn apart<T: Send>(f: impl FnOnce() -> T + Send) -> Result<T> {
    let Some(park) = present_park() else { return Ok(f()) };
    let mut account = memory::account();
    let (mut f, mut done) = (Some(f), None);
    park.run_apart(&mut || {
        if let Some(f) = f.take() {
            let of_thread = memory::replace(account);
            done = Some(f());
            account = memory::replace(of_thread);
        }
    })?;
    memory::set_held(account.held_bytes);
    done.ok_or_else(|| Error::internal("what was to run apart has not run"))
}

/// Counts small steps in a place of its own, which costs a loop over bytes less than [`step`] does.
#[derive(Default)]
pub struct SmallSteps {
    units: usize,
}

impl SmallSteps {
    #[inline(always)]
    pub fn step(&mut self, units: usize) -> Result<()> {
        self.units += units;
        if self.units < 1 << 14 { Ok(()) } else { step(std::mem::take(&mut self.units)) }
    }
}

/// The items, with a step of so many units for each, an error in place of the rest.
pub fn steps<I: IntoIterator>(items: I, units_each: usize) -> impl Iterator<Item = Result<I::Item>> {
    items.into_iter().map(move |item| step(units_each).map(|()| item))
}

/// Appends items that only are copied.
fn append<T>(list: &mut Vec<T>, mut items: impl Iterator<Item = T>) -> Result<()> {
    list.reserve(items.size_hint().0);
    loop {
        let before = list.len();
        list.extend(items.by_ref().take(SORTED_AT_ONCE));
        if list.len() == before {
            return Ok(());
        }
        step((list.len() - before) * (1 + size_of::<T>() / 8))?;
    }
}

/// Elements that are sorted between two steps.
const SORTED_AT_ONCE: usize = 4096;

/// Sorts as `slice::sort_by` does: what is equal stays in its order.
pub fn sort_by<T>(list: &mut Vec<T>, mut order: impl FnMut(&T, &T) -> Ordering) -> Result<()> {
    let mut length = SORTED_AT_ONCE;
    for run in list.chunks_mut(length) {
        step(run.len() * 200)?;
        run.sort_by(&mut order);
    }
    // Runs of that length are in order; two at a time become one.
    while length < list.len() {
        let mut merged = Vec::with_capacity(list.len());
        let mut items = std::mem::take(list).into_iter().peekable();
        while items.peek().is_some() {
            let (mut left, mut right) = (Vec::new(), Vec::new());
            append(&mut left, items.by_ref().take(length))?;
            append(&mut right, items.by_ref().take(length))?;
            let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
            while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
                step(20)?;
                let next = if order(b, a).is_lt() { right.next() } else { left.next() };
                merged.extend(next);
            }
            append(&mut merged, left)?;
            append(&mut merged, right)?;
        }
        *list = merged;
        length *= 2;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::park::WakeHandle;
    use crate::sqlstate;

    /// Counts who asks; fails from a number of looks on.
    struct CountingPark {
        looks: Cell<u32>,
        fails_from: u32,
    }
    impl CountingPark {
        fn new(fails_from: u32) -> CountingPark {
            CountingPark { looks: Cell::new(0), fails_from }
        }
    }
    impl Park for CountingPark {
        fn wake_handle(&self) -> WakeHandle {
            unreachable!("nobody waits here")
        }
        fn park(&self, _deadline_nanos: Option<u64>) -> Result<()> {
            Ok(())
        }
        fn park_uninterruptible(&self) {}
        fn checkpoint(&self) -> Result<()> {
            self.looks.set(self.looks.get() + 1);
            if self.looks.get() >= self.fails_from {
                return Err(Error::new(sqlstate::QUERY_CANCELED, "canceled"));
            }
            Ok(())
        }
    }

    #[test]
    fn the_session_is_asked_after_so_much_work() {
        let park = CountingPark::new(u32::MAX);
        under(&park, || (0..10 * UNITS_PER_LOOK / 100).try_for_each(|_| step(100))).unwrap();
        assert_eq!(park.looks.get(), 10);
        // Nobody's work asks nobody.
        step(usize::MAX / 4).unwrap();
        assert_eq!(park.looks.get(), 10);
    }

    #[test]
    fn a_cancelled_computation_ends() {
        let park = CountingPark::new(3);
        let mut done = 0;
        let ended =
            under(&park, || steps(0..1000, UNITS_PER_LOOK as usize).try_for_each(|item| item.map(|_| done += 1)));
        assert!(ended.is_err());
        assert_eq!(done, 2);
    }

    #[test]
    fn what_is_put_aside_is_not_asked_for_others() {
        let (own, other) = (CountingPark::new(u32::MAX), CountingPark::new(u32::MAX));
        under(&own, || {
            aside(|| {
                step(2 * UNITS_PER_LOOK as usize).unwrap();
                under(&other, || step(2 * UNITS_PER_LOOK as usize)).unwrap();
            });
            step(2 * UNITS_PER_LOOK as usize).unwrap();
        });
        assert_eq!((own.looks.get(), other.looks.get()), (1, 1));
    }

    #[test]
    fn sorting_is_stable() {
        for count in [0usize, 1, 4095, 4097, 30_000] {
            let mut list: Vec<(usize, usize)> = (0..count).map(|i| (i * 7919 % 100, i)).collect();
            let mut wanted = list.clone();
            wanted.sort_by_key(|x| x.0);
            sort_by(&mut list, |a, b| a.0.cmp(&b.0)).unwrap();
            assert_eq!(list, wanted);
        }
    }
}
