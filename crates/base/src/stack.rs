//! How deep a computation may go on the stack that it runs on.
//!
//! A statement that recurses (a parser, a binder, an executor's node, a routine that calls itself) asks [`check`] at
//! each level. Beyond the limit that is SQLSTATE 54001, as PostgreSQL's `check_stack_depth` has it, never a signal. The
//! limit is `max_stack_depth`; what lies below it, [`RESERVE_BYTES`], is for code that cannot ask: destructors, the C
//! parser, a library.
//!
//! Invariants
//! 1. The bounds in force are those of the stack that the thread runs on: whoever switches stacks goes through
//!    [`on_stack`]. A thread that nobody has told of a stack finds out about its own.
//! 2. Between the limit and the end of a stack that the server made lie at least [`RESERVE_BYTES`].
//!
//! Must not know: coroutines, SQL.

use crate::{Error, Result, sqlstate, work};
use std::cell::Cell;

/// Size of the stacks that threads and statements run on. Only what is touched costs memory.
pub const STACK_BYTES: usize = 64 << 20;
/// What a stack has beyond the deepest that checked code may go.
pub(crate) const RESERVE_BYTES: usize = 24 << 20;
/// The largest limit that holds on stacks of that size.
pub const DEPTH_MAX_BYTES: usize = STACK_BYTES - RESERVE_BYTES;
/// A computation that has gone beyond so much has been deep: its stack holds memory worth giving back.
pub const SHALLOW_BYTES: usize = 256 << 10;

/// The bounds of one stack, which grows from `base` downwards to `end`, and how far checked code may go.
#[derive(Clone, Copy, Debug)]
pub struct StackLimit {
    /// The address above the stack's first byte.
    base: usize,
    /// The address of its last usable byte.
    end: usize,
    /// The limit lies so many bytes below `base`, unless the stack's end comes earlier.
    depth_bytes: usize,
    was_deep: bool,
}

/// The thread has not looked at its own stack yet.
const UNKNOWN: StackLimit = StackLimit { base: 0, end: 0, depth_bytes: usize::MAX, was_deep: false };

crate::task_local! {
    static CURRENT: Cell<StackLimit> = const { Cell::new(UNKNOWN) };
    /// The lowest address at which [`check`] need not look further; that of `CURRENT`, or above all addresses.
    static LOOK_FROM: Cell<usize> = const { Cell::new(usize::MAX) };
}

impl StackLimit {
    /// The limit of a stack between two addresses of which checked code may use `depth_bytes`.
    pub fn new(base: usize, end: usize, depth_bytes: usize) -> StackLimit {
        StackLimit { base, end, depth_bytes, was_deep: false }
    }
    /// The limit that was set, in bytes.
    pub fn depth_bytes(&self) -> usize {
        self.depth_bytes
    }
    /// Whether a computation has gone beyond [`SHALLOW_BYTES`] here.
    pub fn was_deep(&self) -> bool {
        self.was_deep
    }
    /// The lowest address that checked code may reach.
    fn lowest(&self) -> usize {
        let reserve = RESERVE_BYTES.min((self.base - self.end) / 2);
        self.base.saturating_sub(self.depth_bytes).max(self.end + reserve)
    }
    fn look_from(&self) -> usize {
        match (self.base, self.was_deep) {
            (0, _) => usize::MAX,
            (_, true) => self.lowest(),
            (_, false) => self.lowest().max(self.base.saturating_sub(SHALLOW_BYTES)),
        }
    }
    /// The limit of the calling thread's own stack. Without knowledge of the stack there is no limit.
    fn of_thread() -> StackLimit {
        // SAFETY: the attributes are initialised by the first call, read by the second while they are, and destroyed.
        let bounds = unsafe {
            let mut attributes: libc::pthread_attr_t = std::mem::zeroed();
            if libc::pthread_getattr_np(libc::pthread_self(), &mut attributes) != 0 {
                None
            } else {
                let (mut end, mut size) = (std::ptr::null_mut(), 0);
                let got = libc::pthread_attr_getstack(&attributes, &mut end, &mut size);
                libc::pthread_attr_destroy(&mut attributes);
                (got == 0).then_some((end as usize, size))
            }
        };
        match bounds {
            Some((end, size)) => StackLimit::new(end + size, end, usize::MAX),
            None => StackLimit::new(usize::MAX, 0, usize::MAX),
        }
    }
    pub(crate) fn enter(self) {
        CURRENT.set(self);
        LOOK_FROM.set(self.look_from());
    }
}

#[inline(always)]
fn stack_pointer() -> usize {
    let here = 0u8;
    std::hint::black_box(std::ptr::from_ref(&here)) as usize
}

/// What a level of a recursion is taken for, in units of [`work::step`].
const UNITS_PER_LEVEL: usize = 200;

/// Fails with 54001 when the stack is used up to its limit. Each level of a recursion asks, before it does anything. That
/// is a step of a long computation too: a tree may be wide as well as deep.
#[inline]
pub fn check() -> Result<()> {
    if stack_pointer() < LOOK_FROM.get() {
        look()?;
    }
    work::step(UNITS_PER_LEVEL)
}

#[cold]
fn look() -> Result<()> {
    let here = stack_pointer();
    let mut limit = CURRENT.get();
    if limit.base == 0 {
        limit = StackLimit { depth_bytes: limit.depth_bytes, ..StackLimit::of_thread() };
        limit.enter();
    }
    if !limit.was_deep && here < limit.base.saturating_sub(SHALLOW_BYTES) {
        limit.was_deep = true;
        limit.enter();
    }
    if here >= limit.lowest() { Ok(()) } else { Err(too_deep()) }
}

/// The error of a computation that would go beyond the limit.
pub fn too_deep() -> Error {
    let limit = CURRENT.get();
    let depth_bytes = if limit.base == 0 { 0 } else { limit.base - limit.lowest() };
    Error::new(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded").with_hint(format!(
        "Increase the configuration parameter \"max_stack_depth\" (currently {}kB), after ensuring the platform's stack depth limit is adequate.",
        depth_bytes >> 10
    ))
}

/// Lets checked code use `depth_bytes` of the stack that the caller runs on from now on, if there are so many.
pub fn limit_depth(depth_bytes: usize) {
    let limit = StackLimit { depth_bytes, ..CURRENT.get() };
    limit.enter();
}

/// Runs `f`, which goes on on the stack that `limit` describes; that is then told what limit was set there and whether
/// it was deep.
pub fn on_stack<T>(limit: &mut StackLimit, f: impl FnOnce() -> T) -> T {
    /// The bounds of the caller's stack hold again also when `f` panics.
    struct StackGuard(StackLimit);
    impl Drop for StackGuard {
        fn drop(&mut self) {
            self.0.enter();
        }
    }
    let left = StackGuard(CURRENT.get());
    limit.enter();
    let done = f();
    *limit = CURRENT.get();
    drop(left);
    done
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many levels of about a kilobyte there are before the check refuses.
    fn levels() -> usize {
        let room = std::hint::black_box([0u8; 1000]);
        match check() {
            Ok(()) => 1 + levels() + usize::from(room[7]),
            Err(e) => {
                assert_eq!(e.sqlstate(), sqlstate::STATEMENT_TOO_COMPLEX);
                0
            }
        }
    }
    fn on_thread<T: Send + 'static>(stack_bytes: usize, f: impl FnOnce() -> T + Send + 'static) -> T {
        std::thread::Builder::new().stack_size(stack_bytes).spawn(f).unwrap().join().unwrap()
    }

    #[test]
    fn a_thread_finds_out_about_its_own_stack() {
        let small = on_thread(1 << 20, levels);
        let large = on_thread(64 << 20, levels);
        assert!((100..1024).contains(&small), "{small}");
        // All but the reserve.
        assert!((8_000..41_000).contains(&large), "{large}");
    }

    #[test]
    fn the_limit_that_is_set_holds_and_deep_is_told() {
        on_thread(64 << 20, || {
            limit_depth(1 << 20);
            let few = levels();
            assert!((100..1024).contains(&few), "{few}");
            assert!(too_deep().0.hint.unwrap().contains("(currently 1024kB)"));
            assert!(CURRENT.get().was_deep());
            // No limit reaches into the reserve.
            limit_depth(1 << 30);
            assert!((8_000..41_000).contains(&levels()));
            assert!(too_deep().0.hint.unwrap().contains("(currently 40960kB)"));
        });
    }

    #[test]
    fn who_comes_back_to_a_stack_finds_its_bounds() {
        on_thread(64 << 20, || {
            check().unwrap();
            let own = CURRENT.get();
            // A stack of which the thread has used nearly all: here, not a real one.
            let mut other = StackLimit::new(own.base, own.end, 1);
            on_stack(&mut other, || {
                assert!(check().is_err());
                limit_depth(32 << 20);
                check().unwrap();
            });
            assert_eq!(other.depth_bytes(), 32 << 20);
            assert_eq!(CURRENT.get().depth_bytes, own.depth_bytes);
            let gone = std::panic::catch_unwind(|| on_stack(&mut { other }, || panic!("planted")));
            assert!(gone.is_err());
            assert_eq!(CURRENT.get().depth_bytes, own.depth_bytes);
        });
    }
}
