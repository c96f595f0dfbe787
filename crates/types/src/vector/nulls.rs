//! Which positions of a vector are NULL.

/// A bit for each position, in words that exist only once there is a NULL.
#[derive(Clone, Debug, Default)]
pub struct NullMask {
    words: Vec<u64>,
    positions: usize,
    has_any: bool,
}

impl NullMask {
    /// No position of so many is NULL.
    pub fn clear(&mut self, positions: usize) {
        self.positions = positions;
        self.has_any = false;
    }
    /// So many positions more, none of which is NULL.
    pub fn grow(&mut self, positions: usize) {
        self.positions += positions;
        if self.has_any {
            self.words.resize(self.positions.div_ceil(64), 0);
        }
    }
    pub(super) fn heap_bytes(&self) -> usize {
        self.words.len() * 8
    }
    /// May there be a NULL?
    #[inline]
    pub fn has_any(&self) -> bool {
        self.has_any
    }
    #[inline]
    pub fn is_null(&self, at: usize) -> bool {
        self.has_any && self.words[at / 64] >> (at % 64) & 1 == 1
    }
    #[inline]
    pub fn set(&mut self, at: usize) {
        if !self.has_any {
            self.words.clear();
            self.words.resize(self.positions.div_ceil(64), 0);
            self.has_any = true;
        }
        self.words[at / 64] |= 1 << (at % 64);
    }
    #[inline]
    pub fn unset(&mut self, at: usize) {
        if self.has_any {
            self.words[at / 64] &= !(1 << (at % 64));
        }
    }
}
