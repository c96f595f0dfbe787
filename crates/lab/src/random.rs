//! Numbers that look random and are the same each time.

/// A sequence of numbers (SplitMix64). Each row has its own, so rows can be made in any order.
pub struct RowRandom(u64);

impl RowRandom {
    /// The sequence of a seed.
    pub fn of_seed(seed: u64) -> RowRandom {
        RowRandom(seed)
    }
    /// The sequence of a row: the table's seed and the row's key.
    pub fn of_row(seed: u64, key: u64) -> RowRandom {
        let mut random = RowRandom(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ key);
        // Neighbouring keys begin far from each other.
        let begin = random.bits();
        RowRandom(begin)
    }

    /// Any number at all.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = high.abs_diff(low) + 1;
        low + (self.bits() % span) as i64
    }

    pub fn index(&mut self, length: usize) -> usize {
        (self.bits() % length as u64) as usize
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.index(times) == 0
    }

    pub fn choice<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.index(list.len())]
    }
}
