//! What is local to a task: in a build with simulation many tasks share one thread.
//!
//! [`crate::task_local!`] has the form of `std::thread_local!`, and is it in production. With the feature `simulation` a
//! value belongs to the task that runs, or, where none does, to the thread.
//!
//! Must not know: who switches between tasks, and when.

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The values of one task, by the address of their [`TaskLocal`].
pub(super) type LocalValues = Vec<(usize, Rc<dyn Any>)>;

thread_local! {
    static PRESENT: RefCell<LocalValues> = const { RefCell::new(Vec::new()) };
}

/// Puts another task's values in place; returns those that were.
pub(super) fn replace_values(next: LocalValues) -> LocalValues {
    PRESENT.replace(next)
}

/// A name for one value in each task. It has the functions of `std::thread::LocalKey` that the engine uses.
pub struct TaskLocal<T: 'static> {
    make: fn() -> T,
}

impl<T: 'static> TaskLocal<T> {
    pub const fn new(make: fn() -> T) -> TaskLocal<T> {
        TaskLocal { make }
    }
    fn value(&'static self) -> Rc<T> {
        let key = std::ptr::from_ref(self).addr();
        let found = PRESENT.with_borrow(|values| values.iter().find(|(of, _)| *of == key).map(|(_, v)| v.clone()));
        let value = found.unwrap_or_else(|| {
            let value: Rc<dyn Any> = Rc::new((self.make)());
            PRESENT.with_borrow_mut(|values| values.push((key, value.clone())));
            value
        });
        value.downcast::<T>().unwrap_or_else(|_| unreachable!("an address is of one type"))
    }
    pub fn with<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.value())
    }
}

impl<T: 'static> TaskLocal<Cell<T>> {
    pub fn get(&'static self) -> T
    where
        T: Copy,
    {
        self.value().get()
    }
    pub fn set(&'static self, value: T) {
        self.value().set(value);
    }
    pub fn replace(&'static self, value: T) -> T {
        self.value().replace(value)
    }
}

impl<T: 'static> TaskLocal<RefCell<T>> {
    pub fn with_borrow<R>(&'static self, f: impl FnOnce(&T) -> R) -> R {
        f(&self.value().borrow())
    }
    pub fn with_borrow_mut<R>(&'static self, f: impl FnOnce(&mut T) -> R) -> R {
        f(&mut self.value().borrow_mut())
    }
    pub fn set(&'static self, value: T) {
        self.value().replace(value);
    }
}
