//! A value that a running statement keeps as it was, while functions that it calls change it for those that follow.

use std::ops::{Deref, DerefMut};
use std::rc::Rc;

pub struct CopyOnWrite<T>(Rc<T>);

impl<T> CopyOnWrite<T> {
    pub fn new(value: T) -> CopyOnWrite<T> {
        CopyOnWrite(Rc::new(value))
    }
    /// As it is now, for as long as it is held.
    pub fn held(&self) -> Rc<T> {
        self.0.clone()
    }
}

impl<T> Deref for CopyOnWrite<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T: Clone> DerefMut for CopyOnWrite<T> {
    fn deref_mut(&mut self) -> &mut T {
        Rc::make_mut(&mut self.0)
    }
}
