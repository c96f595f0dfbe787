//! Threads and what they share: mutexes, condition variables, atomics, waiting, starting and joining.
//!
//! The engine takes all of it from here instead of `std`. In production each name is `std`'s own. With the feature
//! `simulation` the types ask a [`scheduler::Scheduler`] before they do anything that another thread could see, if one of
//! its tasks makes the call; then one task runs at a time, and a seed says which. Threads that are no tasks (tests of
//! the same build) are treated as by `std`.
//!
//! Invariants
//! 1. With the feature off nothing here exists at run time: every item is a re-export, or an inlined call of `std`.
//! 2. A task waits for another one only through this module; waiting in any other way (a channel of `std`, a socket)
//!    would stop the simulation.
//! 3. What is local to a thread there is local to a task here ([`crate::task_local!`]).
//! 4. What runs inside [`OnceLock::get_or_init`] and [`LazyLock`] is not interrupted by other tasks.
//!
//! Must not know: pages, sessions, files.

#[cfg(feature = "simulation")]
mod local;
#[cfg(feature = "simulation")]
pub mod scheduler;
#[cfg(feature = "simulation")]
mod simulated;
#[cfg(feature = "simulation")]
mod tasks;

pub use std::sync::{Arc, LockResult, PoisonError, TryLockError, TryLockResult, Weak};

#[cfg(not(feature = "simulation"))]
mod real {
    pub use std::hint::spin_loop;
    pub use std::sync::{
        Condvar, LazyLock, Mutex, MutexGuard, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard, WaitTimeoutResult,
        atomic,
    };
    pub use std::thread::{JoinHandle, sleep, yield_now};
}
#[cfg(feature = "simulation")]
pub use local::TaskLocal;
#[cfg(not(feature = "simulation"))]
pub use real::*;
#[cfg(feature = "simulation")]
pub use simulated::*;

/// Declares what each thread (in a simulation: each task) has for itself, as `std::thread_local!` does.
#[cfg(not(feature = "simulation"))]
#[macro_export]
macro_rules! task_local {
    ($($declarations:tt)*) => {
        ::std::thread_local! { $($declarations)* }
    };
}
/// Declares what each thread (in a simulation: each task) has for itself, as `std::thread_local!` does.
#[cfg(feature = "simulation")]
#[macro_export]
macro_rules! task_local {
    ($($(#[$attribute:meta])* $visibility:vis static $name:ident: $type:ty = $make:expr;)+) => {$(
        $(#[$attribute])*
        $visibility static $name: $crate::sync::TaskLocal<$type> = $crate::sync::TaskLocal::new(|| $make);
    )+};
}
