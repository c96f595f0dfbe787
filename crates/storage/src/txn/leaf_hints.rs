//! Where a transaction has changed trees last: a statement that changes many rows often goes through an index in its
//! order, and finds the next entry beside the last one.
//!
//! Must not know: what entries are.

/// Trees whose places are kept. Those of more trees drive each other out.
const TREES: usize = 2;
/// The position is near the last one if it differs by no more: a statement puts an entry in, and goes on behind it.
const NEAR: usize = 8;

/// The place of the last entry in one tree.
#[derive(Clone, Copy, Default)]
pub(crate) struct LeafHint {
    tree: u32,
    pub block: u32,
    idx: u32,
    /// The last two entries were on the same leaf.
    pub is_leaf_likely: bool,
    /// And near each other.
    is_place_likely: bool,
}

impl LeafHint {
    /// Notes the leaf of an entry.
    #[inline]
    pub fn found_leaf(&mut self, block: u32) {
        self.is_leaf_likely = block == self.block;
        self.block = block;
    }
    /// The likely position of an entry on the leaf that was noted.
    #[inline]
    pub fn place(&self) -> Option<usize> {
        (self.is_leaf_likely && self.is_place_likely).then_some(self.idx as usize)
    }
    #[inline]
    pub fn found_place(&mut self, idx: usize) {
        self.is_place_likely = idx.abs_diff(self.idx as usize) <= NEAR;
        self.idx = idx as u32;
    }
}

/// The places of the last entries that were put in, or those of the last ones retired.
#[derive(Clone, Copy, Default)]
pub(crate) struct LeafHints([LeafHint; TREES]);

impl LeafHints {
    #[inline]
    pub fn get(&self, tree: u32) -> LeafHint {
        let hint = self.0[tree as usize % TREES];
        if hint.tree == tree { hint } else { LeafHint { tree, ..LeafHint::default() } }
    }
    #[inline]
    pub fn set(&mut self, hint: LeafHint) {
        self.0[hint.tree as usize % TREES] = hint;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_is_of_its_tree_and_of_the_same_leaf_twice() {
        let mut hints = LeafHints::default();
        let mut hint = hints.get(5);
        let steps =
            [(9, 100, None), (9, 101, Some(101)), (8, 101, None), (8, 103, Some(103)), (8, 3, None), (8, 4, Some(4))];
        for (block, idx, expected) in steps {
            hint.found_leaf(block);
            hint.found_place(idx);
            hints.set(hint);
            hint = hints.get(5);
            assert_eq!(hint.place(), expected, "block {block}, index {idx}");
        }
        assert_eq!((hints.get(5).block, hints.get(7).block), (8, 0));
        assert!(hints.get(5).is_leaf_likely && !hints.get(7).is_leaf_likely);
    }
}
