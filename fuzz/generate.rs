//! Repeatable random inputs for the fuzz targets, where no fuzzer drives them.

/// Bytes that mean something to many a parser.
const SIGNS: &[u8] = b"0123456789.-+eE'\"\\{}()[], :/;T";

pub struct Generator(pub u64);

impl Generator {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 20) as usize % n.max(1)
    }
    pub fn byte(&mut self) -> u8 {
        self.next() as u8
    }
    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most)).map(|_| self.byte()).collect()
    }
    pub fn one_of<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
    /// Changes a few bytes, takes parts out or doubles them, and puts parts of others in.
    pub fn mutate(&mut self, input: &mut Vec<u8>, others: &[&[u8]]) {
        for _ in 0..1 + self.below(4) {
            let at = self.below(input.len() + 1);
            let end = (at + self.below(8)).min(input.len());
            match self.below(6) {
                0 => drop(input.drain(at..end)),
                1 => {
                    let part = input[at..end].to_vec();
                    input.splice(at..at, part);
                }
                2 => input.insert(at, self.byte()),
                3 => {
                    let other = self.one_of(others);
                    let from = self.below(other.len() + 1);
                    let to = (from + self.below(16)).min(other.len());
                    input.splice(at..end, other[from..to].iter().copied());
                }
                4 => input.insert(at, SIGNS[self.below(SIGNS.len())]),
                _ => {
                    if let Some(byte) = input.get_mut(at) {
                        *byte ^= 1 << self.below(8);
                    }
                }
            }
        }
    }
}
