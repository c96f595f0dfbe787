//! The heap of a merge: which of several sorted sources has the record that comes next.
//!
//! Must not know: what sources are, and what their records have but the first bytes of a key.

/// A source by the first bytes of its present record's key, as a number that orders like them: most records need no more to
/// be told apart.
#[derive(Clone, Copy)]
struct HeapEntry {
    prefix: u64,
    source: u32,
}

/// A binary heap of those sources that have a record. Whoever asks it to order them says which of two sources with the
/// same prefix comes first.
#[derive(Default)]
pub struct MergeHeap {
    entries: Vec<HeapEntry>,
}

impl MergeHeap {
    /// The sources 0, 1, … by the prefixes of their first records; None: a source has no record.
    pub fn of(prefixes: impl IntoIterator<Item = Option<u64>>, comes_first: impl Fn(u32, u32) -> bool) -> MergeHeap {
        let entries = (0..).zip(prefixes).filter_map(|(source, prefix)| Some(HeapEntry { prefix: prefix?, source }));
        let mut heap = MergeHeap { entries: entries.collect() };
        for at in (0..heap.entries.len() / 2).rev() {
            heap.sift_down(at, &comes_first);
        }
        heap
    }
    /// The source whose record comes next.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.entries.first().map(|entry| entry.source)
    }
    /// The source that came next has gone on to a record with this prefix; None: it has no more.
    pub fn replace_first(&mut self, prefix: Option<u64>, comes_first: impl Fn(u32, u32) -> bool) {
        match (prefix, self.entries.first_mut()) {
            (Some(prefix), Some(first)) => first.prefix = prefix,
            (None, Some(_)) => drop(self.entries.swap_remove(0)),
            (_, None) => return,
        }
        self.sift_down(0, &comes_first);
    }
    fn sift_down(&mut self, mut at: usize, comes_first: &impl Fn(u32, u32) -> bool) {
        let is_less = |a: HeapEntry, b: HeapEntry| {
            if a.prefix == b.prefix { comes_first(a.source, b.source) } else { a.prefix < b.prefix }
        };
        loop {
            let mut least = at;
            for child in [2 * at + 1, 2 * at + 2] {
                if child < self.entries.len() && is_less(self.entries[child], self.entries[least]) {
                    least = child;
                }
            }
            if least == at {
                return;
            }
            self.entries.swap(at, least);
            at = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::MergeHeap;

    #[test]
    fn sources_are_merged_in_order() {
        let sources = [vec![1, 4, 4, 9], vec![], vec![4, 5], vec![0, 4, 10, 11, 12]];
        let mut read = [0; 4];
        let by_number = |a: u32, b: u32| a < b;
        let mut heap = MergeHeap::of(sources.iter().map(|source| source.first().copied()), by_number);
        let mut merged = Vec::new();
        while let Some(source) = heap.first() {
            let at = source as usize;
            merged.push((sources[at][read[at]], source));
            read[at] += 1;
            heap.replace_first(sources[at].get(read[at]).copied(), by_number);
        }
        assert_eq!(merged, [(0, 3), (1, 0), (4, 0), (4, 0), (4, 2), (4, 3), (5, 2), (9, 0), (10, 3), (11, 3), (12, 3)]);
        heap.replace_first(None, by_number);
    }
}
