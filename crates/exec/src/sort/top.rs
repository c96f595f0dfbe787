//! The first rows of a sort, where a LIMIT follows.

use kilndb_base::Result;
use kilndb_spill::{Sorter, SpillIo, row_bytes};
use kilndb_types::Datum;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// When a row has come: the number of its morsel, 0 where there are none, and its place in what a thread has read.
type Arrival = (u32, u64);

/// A row of the first N, by its key and then its arrival.
struct TopRow {
    key: Vec<u8>,
    arrival: Arrival,
    row: Vec<Datum>,
}

impl PartialEq for TopRow {
    fn eq(&self, other: &TopRow) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for TopRow {}
impl PartialOrd for TopRow {
    fn partial_cmp(&self, other: &TopRow) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for TopRow {
    fn cmp(&self, other: &TopRow) -> Ordering {
        self.key.cmp(&other.key).then(self.arrival.cmp(&other.arrival))
    }
}

/// The first rows of a sort, in a heap whose top is the last of them.
pub(super) struct TopRows {
    pub limit: u64,
    budget_bytes: usize,
    pub bytes: usize,
    count: u64,
    heap: BinaryHeap<TopRow>,
    /// The rows after the end of the input, the last one first.
    sorted: Vec<TopRow>,
}

impl TopRows {
    pub fn new(limit: u64, budget_bytes: usize) -> TopRows {
        TopRows { limit, budget_bytes, bytes: 0, count: 0, heap: BinaryHeap::new(), sorted: Vec::new() }
    }
    /// Takes the row of a morsel if it belongs to the first ones; false if these do not fit the budget any more.
    pub fn offer(&mut self, key: &[u8], row: &[Datum], morsel: u32) -> bool {
        self.count += 1;
        self.take_in(key, row, (morsel, self.count))
    }
    fn take_in(&mut self, key: &[u8], row: &[Datum], arrival: Arrival) -> bool {
        if self.heap.len() as u64 >= self.limit {
            let Some(mut last) = self.heap.peek_mut() else { return true };
            if (key, arrival) >= (last.key.as_slice(), last.arrival) {
                return true;
            }
            self.bytes -= row_bytes(&last.row) + last.key.len();
            last.key.clear();
            last.key.extend_from_slice(key);
            last.row.clear();
            last.row.extend_from_slice(row);
            last.arrival = arrival;
        } else {
            self.bytes += size_of::<TopRow>();
            self.heap.push(TopRow { key: key.to_vec(), arrival, row: row.to_vec() });
        }
        self.bytes += row_bytes(row) + key.len();
        self.bytes <= self.budget_bytes
    }
    /// Takes those of another thread's rows that belong to the first ones.
    pub fn absorb(&mut self, other: TopRows) {
        for row in other.heap {
            self.take_in(&row.key, &row.row, row.arrival);
        }
    }
    /// Hands all rows over, in the order of their arrival.
    pub fn give_to(&mut self, sorter: &mut Sorter, io: SpillIo<'_>) -> Result<()> {
        let mut rows = std::mem::take(&mut self.heap).into_vec();
        rows.sort_unstable_by_key(|r| r.arrival);
        rows.iter().try_for_each(|r| {
            sorter.begin_morsel(r.arrival.0);
            sorter.push(&r.key, &r.row, io)
        })
    }
    pub fn finish(&mut self) {
        self.sorted = std::mem::take(&mut self.heap).into_sorted_vec();
        self.sorted.reverse();
    }
    pub fn next(&mut self) -> Option<Vec<Datum>> {
        self.sorted.pop().map(|r| r.row)
    }
}
