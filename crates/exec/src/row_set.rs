//! Sets of row ids that indexes have found. A set that grows too large forgets slots and keeps whole blocks.
//!
//! Invariants
//! 1. The ids are in ascending order, each once.
//! 2. Slot 0, which no row has, stands for all rows of its block; then none of these stands in the list.
//! 3. Whatever is forgotten, no row is missing: a set has the rows that were found, and maybe others of their blocks.
//!
//! Must not know: indexes, what is looked for.

use kilndb_base::RowId;

const SLOT: u64 = 0xffff;
const ROW_BYTES: usize = size_of::<u64>();

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowIdSet {
    rows: Vec<u64>,
    /// Some entries stand for whole blocks.
    is_lossy: bool,
}

/// The next thing to read of a set.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum RowOrBlock {
    Row(RowId),
    Block(u32),
}

fn block(row: u64) -> u64 {
    row & !SLOT
}

/// Collects row ids for a set.
pub(crate) struct RowIdCollector {
    rows: Vec<u64>,
    budget: usize,
    is_lossy: bool,
}

impl RowIdCollector {
    /// `budget_bytes`: from there on slots are forgotten. A set of blocks may become larger.
    pub fn new(budget_bytes: usize) -> RowIdCollector {
        RowIdCollector { rows: Vec::new(), budget: (budget_bytes / ROW_BYTES).max(16), is_lossy: false }
    }
    #[inline]
    pub fn add(&mut self, rows: &[u64]) {
        self.rows.extend_from_slice(rows);
        self.fit();
    }
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    #[inline]
    fn fit(&mut self) {
        if self.rows.len() > self.budget {
            self.forget();
        }
    }
    #[cold]
    fn forget(&mut self) {
        let whole = std::mem::take(self).whole(usize::MAX);
        let found = if whole.rows.len() > self.budget / 2 { whole.of_blocks() } else { whole };
        // What does not become shorter is not looked at again for each row that comes.
        self.budget = self.budget.max(found.rows.len() * 2);
        (self.rows, self.is_lossy) = (found.rows, found.is_lossy);
    }
    fn whole(self, budget: usize) -> RowIdSet {
        let mut rows = self.rows;
        if !rows.is_sorted_by(|a, b| a < b) {
            rows.sort_unstable();
            rows.dedup();
        }
        let mut set = RowIdSet { rows, is_lossy: self.is_lossy };
        if set.is_lossy {
            set.leave_blocks_alone();
        }
        if set.rows.len() > budget { set.of_blocks() } else { set }
    }
    pub fn done(self) -> RowIdSet {
        let budget = self.budget;
        self.whole(budget)
    }
}

impl Default for RowIdCollector {
    fn default() -> RowIdCollector {
        RowIdCollector::new(0)
    }
}

impl RowIdSet {
    pub fn len(&self) -> usize {
        self.rows.len()
    }
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
    pub fn get(&self, at: usize) -> Option<RowOrBlock> {
        self.rows.get(at).map(|row| {
            if row & SLOT == 0 { RowOrBlock::Block((row >> 16) as u32) } else { RowOrBlock::Row(RowId::from_u64(*row)) }
        })
    }
    pub fn retain(&mut self, mut keep: impl FnMut() -> bool) {
        self.rows.retain(|_| keep());
    }

    /// A block's rows are no more than the block.
    fn leave_blocks_alone(&mut self) {
        let mut last = None;
        self.rows.retain(|row| {
            if row & SLOT == 0 {
                last = Some(*row);
                return true;
            }
            last != Some(block(*row))
        });
    }
    /// Where a block has several rows, the block.
    fn of_blocks(self) -> RowIdSet {
        let rows = self
            .rows
            .chunk_by(|a, b| block(*a) == block(*b))
            .map(|same| if let [one] = same { *one } else { block(same[0]) })
            .collect();
        RowIdSet { rows, is_lossy: true }
    }

    /// The intersection of two sets; `self` should be the shorter one.
    pub fn and(self, other: &RowIdSet) -> RowIdSet {
        if self.is_lossy || other.is_lossy {
            return self.and_lossy(other);
        }
        let mut rows = self.rows;
        let mut rest = other.rows.as_slice();
        rows.retain(|row| {
            rest = from(rest, *row);
            rest.first() == Some(row)
        });
        RowIdSet { rows, is_lossy: false }
    }
    fn and_lossy(self, other: &RowIdSet) -> RowIdSet {
        let mut rows = Vec::new();
        let mut rest = other.rows.as_slice();
        for mine in self.rows.chunk_by(|a, b| block(*a) == block(*b)) {
            let of = block(mine[0]);
            rest = from(rest, of);
            let theirs = &rest[..rest.partition_point(|row| block(*row) == of)];
            match (mine, theirs) {
                (_, []) => {}
                ([all], _) if *all == of => rows.extend(theirs),
                (_, [all, ..]) if *all == of => rows.extend(mine),
                _ => rows.extend(mine.iter().filter(|row| theirs.binary_search(row).is_ok())),
            }
        }
        RowIdSet { rows, is_lossy: true }
    }

    pub fn or(sets: impl IntoIterator<Item = RowIdSet>, budget_bytes: usize) -> RowIdSet {
        let mut all = RowIdCollector::new(budget_bytes);
        for set in sets {
            all.is_lossy |= set.is_lossy;
            if all.rows.is_empty() {
                all.rows = set.rows;
            } else {
                all.rows.extend(set.rows);
            }
            all.fit();
        }
        all.done()
    }

    /// The rows that are in at least so many of the sets.
    pub fn at_least(count: usize, sets: Vec<RowIdSet>) -> RowIdSet {
        let is_lossy = sets.iter().any(|set| set.is_lossy);
        let mut all: Vec<u64> = sets.into_iter().flat_map(|set| set.rows).collect();
        all.sort_unstable();
        let mut rows = Vec::new();
        for of_block in all.chunk_by(|a, b| block(*a) == block(*b)) {
            let whole = of_block.iter().take_while(|row| *row & SLOT == 0).count();
            if whole >= count {
                rows.push(of_block[0]);
                continue;
            }
            rows.extend(
                of_block[whole..]
                    .chunk_by(|a, b| a == b)
                    .filter(|same| same.len() + whole >= count)
                    .map(|same| same[0]),
            );
        }
        RowIdSet { rows, is_lossy }
    }
}

/// What is left of a sorted list from a row on.
fn from(list: &[u64], row: u64) -> &[u64] {
    // Doubling steps, then halving: most of a long list is never looked at.
    let mut step = 1;
    while step < list.len() && list[step] < row {
        step *= 2;
    }
    let at = step / 2;
    let to = list.len().min(step + 1);
    let at = at.min(to);
    &list[at + list[at..to].partition_point(|r| *r < row)..]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    struct Chance(u64);
    impl Chance {
        fn next(&mut self, below: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (self.0 >> 33) % below
        }
        /// Rows of a few blocks, some given twice.
        fn rows(&mut self, count: u64, blocks: u64) -> Vec<u64> {
            (0..count).map(|_| (self.next(blocks) << 16) | (1 + self.next(6))).collect()
        }
    }
    fn set(rows: &[u64], budget: usize) -> RowIdSet {
        let mut all = RowIdCollector { rows: Vec::new(), budget, is_lossy: false };
        for row in rows {
            all.add(&[*row]);
        }
        all.done()
    }
    fn has(set: &RowIdSet, row: u64) -> bool {
        set.rows.contains(&row) || set.rows.contains(&block(row))
    }
    fn is_in_order(set: &RowIdSet) -> bool {
        let whole: Vec<u64> = set.rows.iter().copied().filter(|row| row & SLOT == 0).collect();
        set.rows.is_sorted_by(|a, b| a < b)
            && set.rows.iter().all(|row| row & SLOT == 0 || !whole.contains(&block(*row)))
    }

    #[test]
    fn exact_sets_are_sets() {
        let mut chance = Chance(1);
        for _ in 0..2000 {
            let lists: Vec<Vec<u64>> = (0..3)
                .map(|n| {
                    let count = chance.next([9, 200, 60][n]);
                    chance.rows(count, 12)
                })
                .collect();
            let sets: Vec<RowIdSet> = lists.iter().map(|l| set(l, usize::MAX)).collect();
            let plain: Vec<BTreeSet<u64>> = lists.iter().map(|l| l.iter().copied().collect()).collect();
            let list = |s: &BTreeSet<u64>| s.iter().copied().collect::<Vec<_>>();
            assert_eq!(sets[0].clone().and(&sets[1]).rows, list(&(&plain[0] & &plain[1])));
            assert_eq!(sets[1].clone().and(&sets[0]).rows, list(&(&plain[0] & &plain[1])));
            assert_eq!(RowIdSet::or(sets.clone(), 1 << 20).rows, list(&(&(&plain[0] | &plain[1]) | &plain[2])));
            let all: BTreeSet<u64> = plain.iter().flatten().copied().collect();
            let twice = all
                .iter()
                .copied()
                .filter(|row| plain.iter().filter(|p| p.contains(row)).count() >= 2)
                .collect::<Vec<_>>();
            assert_eq!(RowIdSet::at_least(2, sets).rows, twice);
        }
    }
    #[test]
    fn no_row_is_missing_of_a_lossy_set() {
        let mut chance = Chance(2);
        let mut lossy = 0;
        for _ in 0..3000 {
            let lists: Vec<Vec<u64>> = (0..3)
                .map(|_| {
                    let count = chance.next(90);
                    chance.rows(count, 30)
                })
                .collect();
            let budgets: Vec<usize> = (0..3).map(|_| 8 + chance.next(80) as usize).collect();
            let sets: Vec<RowIdSet> = lists.iter().zip(&budgets).map(|(l, budget)| set(l, *budget)).collect();
            lossy += usize::from(sets.iter().any(|s| s.is_lossy));
            let member = |n: usize, row: u64| lists[n].contains(&row);
            let (both, any, two) =
                (sets[0].clone().and(&sets[1]), RowIdSet::or(sets.clone(), 64), RowIdSet::at_least(2, sets.clone()));
            for result in [&both, &any, &two] {
                assert!(is_in_order(result), "{result:?}");
            }
            for row in lists.iter().flatten() {
                let found = (0..3).filter(|n| member(*n, *row)).count();
                assert!(has(&any, *row));
                assert!(found < 2 || has(&two, *row));
                assert!(!(member(0, *row) && member(1, *row)) || has(&both, *row));
                // Nor is anything there that none of the sets has.
                assert!(!has(&both, *row) || has(&sets[0], *row) && has(&sets[1], *row));
                assert!(!has(&two, *row) || sets.iter().filter(|s| has(s, *row)).count() >= 2);
            }
        }
        assert!(lossy > 1000);
    }
    #[test]
    fn long_lists_keep_blocks() {
        let rows: Vec<u64> = (0..100_000u64).map(|n| ((n % 100) << 16) | (1 + n / 100)).collect();
        let set = set(&rows, 1000);
        assert_eq!((set.len(), set.get(7)), (100, Some(RowOrBlock::Block(7))));
        // Rows that are alone in their blocks take no more room than these.
        let rows: Vec<u64> = (0..1000u64).map(|n| (n << 16) | 3).collect();
        assert_eq!(super::tests::set(&rows, 100).get(5), Some(RowOrBlock::Row(RowId { block: 5, slot: 3 })));
    }
}
