//! Tasks as coroutines of one thread: each has a stack of its own, and a switch costs nanoseconds.
//!
//! Invariants
//! 1. A task runs only inside of [`run`], on the thread that called it; one at a time.
//! 2. A task that is not resumed any more stays as it is until the process ends: its stack is neither unwound nor freed.
//! 3. What is local to a task ([`super::TaskLocal`]) is in place while it runs, and only then.
//!
//! Must not know: which task is next, and why.

use super::local::{self, LocalValues};
use crate::stack::{STACK_BYTES, StackLimit};
use corosensei::stack::{DefaultStack, Stack};
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

/// Dropping a suspended one would unwind its stack (invariant 2).
type TaskCoroutine = ManuallyDrop<Coroutine<(), (), (), DefaultStack>>;

/// The lowest pages of a stack, of which one is its guard, are not for checked code.
const GUARD_BYTES: usize = 64 << 10;

thread_local! {
    /// The suspended tasks by their numbers. None: the task runs, or has come to its end.
    static SUSPENDED: RefCell<Vec<Option<TaskCoroutine>>> = const { RefCell::new(Vec::new()) };
    /// Stacks of tasks that have come to their ends.
    static SPARE_STACKS: RefCell<Vec<DefaultStack>> = const { RefCell::new(Vec::new()) };
    /// The way back to the scheduler for the task that runs.
    static YIELDER: Cell<*const Yielder<(), ()>> = const { Cell::new(std::ptr::null()) };
    /// Whoever is resumed only says where it is.
    static TELLS_WHERE: Cell<bool> = const { Cell::new(false) };
}

/// Makes the task of that number, the next one, which will run `body` once it is resumed.
pub(super) fn add(number: usize, body: impl FnOnce() + 'static) -> std::io::Result<()> {
    let spare = SPARE_STACKS.with_borrow_mut(Vec::pop);
    let stack = spare.map_or_else(|| DefaultStack::new(STACK_BYTES + GUARD_BYTES), Ok)?;
    let limit = StackLimit::new(stack.base().get(), stack.limit().get() + GUARD_BYTES, usize::MAX);
    let coroutine = Coroutine::with_stack(stack, move |yielder, ()| {
        YIELDER.set(yielder);
        limit.enter();
        body();
        local::replace_values(LocalValues::new());
    });
    SUSPENDED.with_borrow_mut(|tasks| {
        assert_eq!(tasks.len(), number, "tasks come in the order of their numbers");
        tasks.push(Some(ManuallyDrop::new(coroutine)));
    });
    Ok(())
}

/// Resumes whom `next` names, again and again, until the first task has come to its end or `next` names nobody.
pub(super) fn run(next: impl Fn() -> Option<usize>) {
    let of_thread = local::replace_values(LocalValues::new());
    while let Some(number) = next() {
        let suspended = SUSPENDED.with_borrow_mut(|tasks| tasks[number].take());
        let mut task = suspended.expect("who runs again has been suspended");
        match task.resume(()) {
            CoroutineResult::Yield(()) => SUSPENDED.with_borrow_mut(|tasks| tasks[number] = Some(task)),
            CoroutineResult::Return(()) => {
                let stack = ManuallyDrop::into_inner(task).into_stack();
                SPARE_STACKS.with_borrow_mut(|spare| spare.push(stack));
                if number == 0 {
                    break;
                }
            }
        }
    }
    local::replace_values(of_thread);
}

/// Leaves tasks that have not come to their ends where they are, for ever.
pub(super) fn forget_all() {
    SUSPENDED.take();
}

/// The task that runs stops here until it is resumed.
pub(super) fn suspend() {
    let yielder = YIELDER.get();
    assert!(!yielder.is_null(), "only a task is suspended");
    let values = local::replace_values(LocalValues::new());
    loop {
        // SAFETY: the pointer was set by the coroutine that runs now, whose frame below this one has the yielder, either
        // as it began or when it was resumed here.
        unsafe { &*yielder }.suspend(());
        YIELDER.set(yielder);
        if !TELLS_WHERE.get() {
            break;
        }
        eprintln!("{}", std::backtrace::Backtrace::force_capture());
    }
    local::replace_values(values);
}

/// Writes to stderr where the tasks of these names and numbers are suspended. Nobody runs meanwhile.
pub(super) fn tell_where(tasks: &[(String, usize)]) {
    TELLS_WHERE.set(true);
    for (name, number) in tasks {
        let suspended = SUSPENDED.with_borrow_mut(|tasks| tasks[*number].take());
        let Some(mut task) = suspended else { continue };
        eprintln!("{name}:");
        if task.started() {
            task.resume(());
        }
        SUSPENDED.with_borrow_mut(|tasks| tasks[*number] = Some(task));
    }
    TELLS_WHERE.set(false);
}
