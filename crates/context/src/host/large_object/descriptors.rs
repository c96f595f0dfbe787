//! The large objects that a transaction has open.
//!
//! Invariants
//! 1. A descriptor is known by the lowest number that was free when it was opened.
//! 2. Each has a serial number: what was opened after a savepoint has one that is not below the savepoint's.

use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_storage::Snapshot;

/// An open large object.
#[derive(Clone)]
pub(super) struct Descriptor {
    pub object: Oid,
    pub position: i64,
    /// What it is read with. None: it is open for writing, and read as it is now.
    pub snapshot: Option<Snapshot>,
}

/// See the module.
#[derive(Default)]
pub struct Descriptors {
    open: Vec<Option<(u64, Descriptor)>>,
    next_serial: u64,
}

impl Descriptors {
    pub(super) fn add(&mut self, descriptor: Descriptor) -> i32 {
        let entry = Some((self.next_serial, descriptor));
        self.next_serial += 1;
        let free = self.open.iter().position(Option::is_none);
        match free {
            Some(at) => self.open[at] = entry,
            None => self.open.push(entry),
        }
        free.unwrap_or(self.open.len() - 1) as i32
    }

    fn place(&self, number: i32) -> Result<usize> {
        let at = usize::try_from(number).ok().filter(|at| self.open.get(*at).is_some_and(Option::is_some));
        at.ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("invalid large-object descriptor: {number}")))
    }

    pub(super) fn get(&self, number: i32) -> Result<Descriptor> {
        let found = self.open.get(self.place(number)?).and_then(Option::as_ref);
        found.map(|(_, descriptor)| descriptor.clone()).ok_or_else(|| Error::internal("a descriptor that is none"))
    }

    pub(super) fn move_to(&mut self, number: i32, position: i64) {
        if let Ok(at) = self.place(number)
            && let Some((_, descriptor)) = &mut self.open[at]
        {
            descriptor.position = position;
        }
    }

    pub(super) fn close(&mut self, number: i32) -> Result<()> {
        let at = self.place(number)?;
        self.open[at] = None;
        Ok(())
    }

    pub(super) fn close_all_of(&mut self, object: Oid) {
        self.open.iter_mut().filter(|e| e.as_ref().is_some_and(|(_, d)| d.object == object)).for_each(|e| *e = None);
    }

    /// What a savepoint remembers of them.
    pub fn mark(&self) -> u64 {
        self.next_serial
    }

    /// Closes what was opened since the savepoint.
    pub fn rollback_to(&mut self, mark: u64) {
        self.open.iter_mut().filter(|e| e.as_ref().is_some_and(|(serial, _)| *serial >= mark)).for_each(|e| *e = None);
    }

    /// The transaction is over.
    pub fn clear(&mut self) {
        self.open = Vec::new();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(object: Oid) -> Descriptor {
        Descriptor { object, position: 0, snapshot: None }
    }

    #[test]
    fn descriptors_end_with_the_savepoint_that_they_were_opened_after() {
        let mut open = Descriptors::default();
        assert_eq!((open.add(of(7)), open.add(of(8))), (0, 1));
        open.close(0).unwrap();
        let mark = open.mark();
        // The lowest free number, though it was opened last.
        assert_eq!((open.add(of(9)), open.add(of(8))), (0, 2));
        open.move_to(1, 5);
        open.rollback_to(mark);
        assert_eq!(open.get(1).map(|d| (d.object, d.position)).unwrap(), (8, 5));
        for number in [-1, 0, 2, 3] {
            assert!(open.get(number).is_err() && open.close(number).is_err(), "{number}");
        }
        open.close_all_of(8);
        assert!(open.get(1).is_err());
    }
}
