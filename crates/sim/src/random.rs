//! A small generator: the same seed gives the same choices (not the same interleaving).

/// Never zero.
pub struct Random(pub u64);

impl Random {
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    pub fn below(&mut self, n: u64) -> u64 {
        (self.number() >> 11) % n
    }

    /// True once in so many times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// Somebody who chooses.
pub trait Chooser {
    /// A number below `n`.
    fn below(&mut self, n: u64) -> u64;
}

impl Chooser for Random {
    fn below(&mut self, n: u64) -> u64 {
        Random::below(self, n)
    }
}
