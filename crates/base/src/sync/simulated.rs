//! The types of [`super`] as they are in a build with simulation.

use super::scheduler::{self, TaskWait};
use super::{LockResult, PoisonError, TryLockError, TryLockResult};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// What names a lock or condition variable to the scheduler: its address, which is the same while anybody waits for it.
fn address<T: ?Sized>(of: &T) -> usize {
    std::ptr::from_ref(of).cast::<()>() as usize
}

#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    inner: std::sync::Mutex<T>,
}

/// `None` only while the guard is taken apart.
pub struct MutexGuard<'a, T: ?Sized> {
    inner: Option<std::sync::MutexGuard<'a, T>>,
    of: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub const fn new(value: T) -> Mutex<T> {
        Mutex { inner: std::sync::Mutex::new(value) }
    }
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    fn guard<'a>(&'a self, inner: std::sync::MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        MutexGuard { inner: Some(inner), of: self }
    }
    fn guarded<'a>(&'a self, taken: LockResult<std::sync::MutexGuard<'a, T>>) -> LockResult<MutexGuard<'a, T>> {
        match taken {
            Ok(inner) => Ok(self.guard(inner)),
            Err(poisoned) => Err(PoisonError::new(self.guard(poisoned.into_inner()))),
        }
    }
    pub fn lock(&self) -> LockResult<MutexGuard<'_, T>> {
        scheduler::point();
        if !scheduler::is_task() {
            return self.guarded(self.inner.lock());
        }
        loop {
            match self.inner.try_lock() {
                Ok(inner) => return Ok(self.guard(inner)),
                Err(TryLockError::Poisoned(poisoned)) => return self.guarded(Err(poisoned)),
                Err(TryLockError::WouldBlock) => {
                    scheduler::wait(TaskWait { address: address(&self.inner), deadline_nanos: None });
                }
            }
        }
    }
    pub fn try_lock(&self) -> TryLockResult<MutexGuard<'_, T>> {
        scheduler::point();
        match self.inner.try_lock() {
            Ok(inner) => Ok(self.guard(inner)),
            Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
            Err(TryLockError::Poisoned(poisoned)) => {
                Err(TryLockError::Poisoned(PoisonError::new(self.guard(poisoned.into_inner()))))
            }
        }
    }
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
    pub fn is_poisoned(&self) -> bool {
        self.inner.is_poisoned()
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}
impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;
    fn deref(&self) -> &T {
        self.inner.as_ref().expect("a guard that is taken apart is not used")
    }
}
impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a guard that is taken apart is not used")
    }
}
impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    fn drop(&mut self) {
        if self.inner.take().is_some() {
            scheduler::wake(address(&self.of.inner), usize::MAX);
        }
    }
}
impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[derive(Default)]
pub struct RwLock<T: ?Sized> {
    inner: std::sync::RwLock<T>,
}

macro_rules! rwlock_guard {
    ($guard:ident, $std:ident) => {
        pub struct $guard<'a, T: ?Sized> {
            inner: Option<std::sync::$std<'a, T>>,
            of: &'a RwLock<T>,
        }
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;
            fn deref(&self) -> &T {
                self.inner.as_ref().expect("a guard has its lock until it is dropped")
            }
        }
        impl<T: ?Sized> Drop for $guard<'_, T> {
            fn drop(&mut self) {
                self.inner = None;
                scheduler::wake(address(&self.of.inner), usize::MAX);
            }
        }
    };
}
rwlock_guard!(RwLockReadGuard, RwLockReadGuard);
rwlock_guard!(RwLockWriteGuard, RwLockWriteGuard);
impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.inner.as_mut().expect("a guard has its lock until it is dropped")
    }
}

macro_rules! rwlock_take {
    ($lock:ident, $try_lock:ident, $guard:ident) => {
        pub fn $lock(&self) -> LockResult<$guard<'_, T>> {
            scheduler::point();
            let guard = |inner| $guard { inner: Some(inner), of: self };
            if !scheduler::is_task() {
                return self.inner.$lock().map(guard).map_err(|e| PoisonError::new(guard(e.into_inner())));
            }
            loop {
                match self.inner.$try_lock() {
                    Ok(inner) => return Ok(guard(inner)),
                    Err(TryLockError::Poisoned(e)) => return Err(PoisonError::new(guard(e.into_inner()))),
                    Err(TryLockError::WouldBlock) => {
                        scheduler::wait(TaskWait { address: address(&self.inner), deadline_nanos: None });
                    }
                }
            }
        }
        pub fn $try_lock(&self) -> TryLockResult<$guard<'_, T>> {
            scheduler::point();
            let guard = |inner| $guard { inner: Some(inner), of: self };
            match self.inner.$try_lock() {
                Ok(inner) => Ok(guard(inner)),
                Err(TryLockError::WouldBlock) => Err(TryLockError::WouldBlock),
                Err(TryLockError::Poisoned(e)) => Err(TryLockError::Poisoned(PoisonError::new(guard(e.into_inner())))),
            }
        }
    };
}

impl<T> RwLock<T> {
    pub const fn new(value: T) -> RwLock<T> {
        RwLock { inner: std::sync::RwLock::new(value) }
    }
    pub fn into_inner(self) -> LockResult<T> {
        self.inner.into_inner()
    }
}
impl<T: ?Sized> RwLock<T> {
    rwlock_take!(read, try_read, RwLockReadGuard);
    rwlock_take!(write, try_write, RwLockWriteGuard);
    pub fn get_mut(&mut self) -> LockResult<&mut T> {
        self.inner.get_mut()
    }
}

#[derive(Default)]
pub struct Condvar {
    inner: std::sync::Condvar,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitTimeoutResult(bool);
impl WaitTimeoutResult {
    pub fn timed_out(&self) -> bool {
        self.0
    }
}

impl Condvar {
    pub const fn new() -> Condvar {
        Condvar { inner: std::sync::Condvar::new() }
    }
    pub fn wait<'a, T>(&self, mut guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        let of = guard.of;
        if scheduler::is_task() {
            drop(guard);
            scheduler::wait(TaskWait { address: address(&self.inner), deadline_nanos: None });
            return of.lock();
        }
        let inner = guard.inner.take().expect("a guard that is taken apart is not used");
        of.guarded(self.inner.wait(inner))
    }
    pub fn wait_timeout<'a, T>(
        &self,
        mut guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, WaitTimeoutResult)> {
        let of = guard.of;
        if scheduler::is_task() {
            let deadline = scheduler::now_nanos().saturating_add(limit.as_nanos() as u64);
            drop(guard);
            let woken = scheduler::wait(TaskWait { address: address(&self.inner), deadline_nanos: Some(deadline) });
            return match of.lock() {
                Ok(guard) => Ok((guard, WaitTimeoutResult(!woken))),
                Err(e) => Err(PoisonError::new((e.into_inner(), WaitTimeoutResult(!woken)))),
            };
        }
        let inner = guard.inner.take().expect("a guard that is taken apart is not used");
        match self.inner.wait_timeout(inner, limit) {
            Ok((inner, result)) => Ok((of.guard(inner), WaitTimeoutResult(result.timed_out()))),
            Err(e) => {
                let (inner, result) = e.into_inner();
                Err(PoisonError::new((of.guard(inner), WaitTimeoutResult(result.timed_out()))))
            }
        }
    }
    pub fn notify_one(&self) {
        scheduler::wake(address(&self.inner), 1);
        self.inner.notify_one();
    }
    pub fn notify_all(&self) {
        scheduler::wake(address(&self.inner), usize::MAX);
        self.inner.notify_all();
    }
}

/// As `std`'s; others do not run during the initialization (a task would wait for another in a way that the scheduler
/// does not see).
pub struct OnceLock<T> {
    inner: std::sync::OnceLock<T>,
}
impl<T> OnceLock<T> {
    pub const fn new() -> OnceLock<T> {
        OnceLock { inner: std::sync::OnceLock::new() }
    }
    pub fn get(&self) -> Option<&T> {
        scheduler::point();
        self.inner.get()
    }
    pub fn get_mut(&mut self) -> Option<&mut T> {
        self.inner.get_mut()
    }
    pub fn set(&self, value: T) -> Result<(), T> {
        scheduler::point();
        self.inner.set(value)
    }
    pub fn get_or_init(&self, make: impl FnOnce() -> T) -> &T {
        scheduler::point();
        scheduler::uninterrupted(|| self.inner.get_or_init(make))
    }
    pub fn into_inner(self) -> Option<T> {
        self.inner.into_inner()
    }
    pub fn take(&mut self) -> Option<T> {
        self.inner.take()
    }
}
impl<T> Default for OnceLock<T> {
    fn default() -> OnceLock<T> {
        OnceLock::new()
    }
}
impl<T> From<T> for OnceLock<T> {
    fn from(value: T) -> OnceLock<T> {
        OnceLock { inner: value.into() }
    }
}
impl<T: Clone> Clone for OnceLock<T> {
    fn clone(&self) -> OnceLock<T> {
        OnceLock { inner: self.inner.clone() }
    }
}
impl<T: fmt::Debug> fmt::Debug for OnceLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

pub struct LazyLock<T, F = fn() -> T> {
    inner: std::sync::LazyLock<T, F>,
}
impl<T, F: FnOnce() -> T> LazyLock<T, F> {
    pub const fn new(make: F) -> LazyLock<T, F> {
        LazyLock { inner: std::sync::LazyLock::new(make) }
    }
    pub fn force(this: &LazyLock<T, F>) -> &T {
        scheduler::uninterrupted(|| std::sync::LazyLock::force(&this.inner))
    }
}
impl<T, F: FnOnce() -> T> Deref for LazyLock<T, F> {
    type Target = T;
    fn deref(&self) -> &T {
        LazyLock::force(self)
    }
}

/// How a task ended, once it has.
type TaskResult<T> = std::sync::Arc<std::sync::Mutex<Option<std::thread::Result<T>>>>;

/// A thread or task that can be waited for.
pub struct JoinHandle<T> {
    inner: JoinSource<T>,
}
enum JoinSource<T> {
    Thread(std::thread::JoinHandle<T>),
    Task(scheduler::TaskId, TaskResult<T>),
}
impl<T> JoinHandle<T> {
    pub(super) fn of_task(task: scheduler::TaskId, result: TaskResult<T>) -> JoinHandle<T> {
        JoinHandle { inner: JoinSource::Task(task, result) }
    }
    pub fn join(self) -> std::thread::Result<T> {
        match self.inner {
            JoinSource::Thread(thread) => thread.join(),
            JoinSource::Task(task, result) => {
                scheduler::wait_for_end(task);
                let result = result.lock().unwrap_or_else(|e| e.into_inner()).take();
                result.unwrap_or_else(|| Err(Box::new("it was waited for by what is no task")))
            }
        }
    }
    pub fn is_finished(&self) -> bool {
        match &self.inner {
            JoinSource::Thread(thread) => thread.is_finished(),
            JoinSource::Task(task, _) => scheduler::has_ended(*task),
        }
    }
}
impl<T> From<std::thread::JoinHandle<T>> for JoinHandle<T> {
    fn from(thread: std::thread::JoinHandle<T>) -> JoinHandle<T> {
        JoinHandle { inner: JoinSource::Thread(thread) }
    }
}

/// Gives another task its turn, for a loop that waits for another thread's store.
pub fn spin_loop() {
    if !scheduler::give_way() {
        std::hint::spin_loop();
    }
}
pub fn yield_now() {
    if !scheduler::give_way() {
        std::thread::yield_now();
    }
}
pub fn sleep(duration: Duration) {
    if !scheduler::sleep(duration) {
        std::thread::sleep(duration);
    }
}

/// Atomics: each access is a place where another task may get its turn.
pub mod atomic {
    use crate::sync::scheduler::point;
    pub use std::sync::atomic::{Ordering, fence};

    macro_rules! atomic {
        ($name:ident, $value:ty $(, $numeric:ident)?) => {
            #[derive(Default)]
            #[repr(transparent)]
            pub struct $name {
                inner: std::sync::atomic::$name,
            }
            impl $name {
                pub const fn new(value: $value) -> $name {
                    $name { inner: std::sync::atomic::$name::new(value) }
                }
                /// # Safety
                /// As of `std`'s function of this name.
                pub const unsafe fn from_ptr<'a>(at: *mut $value) -> &'a $name {
                    // SAFETY: the caller's promise is the one that is asked for, and the type is transparent.
                    unsafe { &*at.cast::<$name>() }
                }
                pub const fn as_ptr(&self) -> *mut $value {
                    self.inner.as_ptr()
                }
                pub fn get_mut(&mut self) -> &mut $value {
                    self.inner.get_mut()
                }
                pub fn into_inner(self) -> $value {
                    self.inner.into_inner()
                }
                pub fn load(&self, order: Ordering) -> $value {
                    point();
                    self.inner.load(order)
                }
                pub fn store(&self, value: $value, order: Ordering) {
                    point();
                    self.inner.store(value, order);
                }
                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.inner.swap(value, order)
                }
                pub fn compare_exchange(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    point();
                    self.inner.compare_exchange(old, new, success, failure)
                }
                pub fn compare_exchange_weak(
                    &self,
                    old: $value,
                    new: $value,
                    success: Ordering,
                    failure: Ordering,
                ) -> Result<$value, $value> {
                    // A weak one may fail for no reason, which would not be the same in a replay.
                    self.compare_exchange(old, new, success, failure)
                }
                pub fn fetch_update(
                    &self,
                    set: Ordering,
                    fetch: Ordering,
                    f: impl FnMut($value) -> Option<$value>,
                ) -> Result<$value, $value> {
                    point();
                    self.inner.fetch_update(set, fetch, f)
                }
                pub fn fetch_and(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.inner.fetch_and(value, order)
                }
                pub fn fetch_or(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.inner.fetch_or(value, order)
                }
                pub fn fetch_xor(&self, value: $value, order: Ordering) -> $value {
                    point();
                    self.inner.fetch_xor(value, order)
                }
                $(atomic!(@$numeric $value);)?
            }
            impl std::fmt::Debug for $name {
                fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                    self.inner.fmt(f)
                }
            }
            impl From<$value> for $name {
                fn from(value: $value) -> $name {
                    $name::new(value)
                }
            }
        };
        (@numeric $value:ty) => {
            pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                point();
                self.inner.fetch_add(value, order)
            }
            pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                point();
                self.inner.fetch_sub(value, order)
            }
            pub fn fetch_max(&self, value: $value, order: Ordering) -> $value {
                point();
                self.inner.fetch_max(value, order)
            }
            pub fn fetch_min(&self, value: $value, order: Ordering) -> $value {
                point();
                self.inner.fetch_min(value, order)
            }
        };
    }
    atomic!(AtomicBool, bool);
    atomic!(AtomicU8, u8, numeric);
    atomic!(AtomicU16, u16, numeric);
    atomic!(AtomicU32, u32, numeric);
    atomic!(AtomicU64, u64, numeric);
    atomic!(AtomicUsize, usize, numeric);
    atomic!(AtomicI32, i32, numeric);
    atomic!(AtomicI64, i64, numeric);
}
