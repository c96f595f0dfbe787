//! crypt(3) of DES, in its first form (two characters of salt) and its extended one (`_`, rounds, salt).
//!
//! Crates of DES do not have the salt, which swaps bits in the midst of each round: so the cipher is here, for this alone.
//! The tables are those of FIPS 46-3.

use super::{CRYPT_DIGITS, invalid};
use kilndb_base::sync::LazyLock;
use kilndb_base::{Result, work};

/// What encrypting a block is taken for.
const UNITS_PER_BLOCK: usize = 200;

/// Which bit of the input each bit of the output is, the highest bit being 1.
const FINAL_PERMUTATION: [u8; 64] = [
    40, 8, 48, 16, 56, 24, 64, 32, 39, 7, 47, 15, 55, 23, 63, 31, 38, 6, 46, 14, 54, 22, 62, 30, 37, 5, 45, 13, 53, 21,
    61, 29, 36, 4, 44, 12, 52, 20, 60, 28, 35, 3, 43, 11, 51, 19, 59, 27, 34, 2, 42, 10, 50, 18, 58, 26, 33, 1, 41, 9,
    49, 17, 57, 25,
];
const INITIAL_PERMUTATION: [u8; 64] = [
    58, 50, 42, 34, 26, 18, 10, 2, 60, 52, 44, 36, 28, 20, 12, 4, 62, 54, 46, 38, 30, 22, 14, 6, 64, 56, 48, 40, 32,
    24, 16, 8, 57, 49, 41, 33, 25, 17, 9, 1, 59, 51, 43, 35, 27, 19, 11, 3, 61, 53, 45, 37, 29, 21, 13, 5, 63, 55, 47,
    39, 31, 23, 15, 7,
];
const KEY_CHOICE: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44, 36, 63, 55,
    47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12, 4,
];
const ROUND_KEY_CHOICE: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, 41, 52, 31, 37, 47, 55, 30,
    40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];
const KEY_SHIFTS: [u32; 16] = [1, 1, 2, 2, 2, 2, 2, 2, 1, 2, 2, 2, 2, 2, 2, 1];
const ROUND_PERMUTATION: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6, 22, 11, 4,
    25,
];
#[rustfmt::skip]
const SUBSTITUTIONS: [[u8; 64]; 8] = [
    [14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, 0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8,
     4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, 15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13],
    [15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, 3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5,
     0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, 13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9],
    [10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, 13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1,
     13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, 1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12],
    [7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, 13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9,
     10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, 3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14],
    [2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, 14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6,
     4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, 11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3],
    [12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, 10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8,
     9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, 4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13],
    [4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, 13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6,
     1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, 6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12],
    [13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, 1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2,
     7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, 2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11],
];

/// The bits of a value of so many bits that a table names, in its order.
fn chosen(value: u64, bits: u32, table: &[u8]) -> u64 {
    table.iter().fold(0, |out, at| out << 1 | value >> (bits - u32::from(*at)) & 1)
}

/// What six bits become, by their place, with the permutation that follows.
static SUBSTITUTED: LazyLock<[[u32; 64]; 8]> = LazyLock::new(|| {
    std::array::from_fn(|place| {
        std::array::from_fn(|six| {
            let (row, column) = (six >> 4 & 2 | six & 1, six >> 1 & 15);
            let four = u64::from(SUBSTITUTIONS[place][row * 16 + column]) << (28 - 4 * place);
            chosen(four, 32, &ROUND_PERMUTATION) as u32
        })
    })
});

/// The cipher with a key and a salt.
struct SaltedDes {
    round_keys: [u64; 16],
    /// Of the bits that it names, those of the two halves of an expanded block change places.
    salt: u64,
}

impl SaltedDes {
    fn new(key: u64, salt: u32) -> SaltedDes {
        const HALF: u32 = (1 << 28) - 1;
        let bits = chosen(key, 64, &KEY_CHOICE);
        let (mut left, mut right) = ((bits >> 28) as u32, bits as u32 & HALF);
        let rotated = |half: u32, by: u32| (half << by | half >> (28 - by)) & HALF;
        let round_keys = KEY_SHIFTS.map(|by| {
            (left, right) = (rotated(left, by), rotated(right, by));
            chosen(u64::from(left) << 28 | u64::from(right), 56, &ROUND_KEY_CHOICE)
        });
        // The lowest bit of the salt stands for the highest one of the halves.
        SaltedDes { round_keys, salt: u64::from(salt.reverse_bits() >> 8) }
    }
    fn round(&self, half: u32, key: u64) -> u32 {
        // Each group of four bits with its neighbours.
        let around = half.rotate_right(1);
        let expanded = (0..8).fold(0, |out, group| out << 6 | u64::from(around.rotate_left(4 * group) >> 26));
        let swapped = (expanded >> 24 ^ expanded) & self.salt;
        let mixed = expanded ^ (swapped << 24 | swapped) ^ key;
        let parts = SUBSTITUTED.iter().enumerate();
        parts.fold(0, |out, (place, table)| out | table[(mixed >> (42 - 6 * place) & 63) as usize])
    }
    /// The block, encrypted so many times over.
    fn encrypt(&self, block: u64, times: u32) -> Result<u64> {
        let start = chosen(block, 64, &INITIAL_PERMUTATION);
        let (mut left, mut right) = ((start >> 32) as u32, start as u32);
        for _ in 0..times {
            work::step(UNITS_PER_BLOCK)?;
            for key in self.round_keys {
                (left, right) = (right, left ^ self.round(right, key));
            }
            // What ends one encryption and begins the next comes to this.
            (left, right) = (right, left);
        }
        Ok(chosen(u64::from(left) << 32 | u64::from(right), 64, &FINAL_PERMUTATION))
    }
}

/// The number that a character of a salt stands for; others stand for 0.
fn value_of(character: u8) -> u32 {
    match character {
        b'.'..=b'9' => u32::from(character - b'.'),
        b'A'..=b'Z' => u32::from(character - b'A') + 12,
        b'a'..=b'z' => u32::from(character - b'a') + 38,
        _ => 0,
    }
}
fn number_of(characters: &[u8]) -> u32 {
    characters.iter().rev().fold(0, |out, c| out << 6 | value_of(*c))
}

/// Eight characters of a password, of seven bits each.
fn key_of(characters: &[u8]) -> u64 {
    let byte = |at: usize| characters.get(at).map_or(0, |c| c << 1);
    u64::from_be_bytes(std::array::from_fn(byte))
}

fn push_block(out: &mut Vec<u8>, block: u64) {
    let bits = u128::from(block) << 2;
    out.extend((0..11).rev().map(|digit| CRYPT_DIGITS[(bits >> (6 * digit) & 63) as usize]));
}

/// None: the extended form with no rounds at all.
pub(super) fn crypt(password: &[u8], setting: &[u8]) -> Result<Option<Vec<u8>>> {
    let wrong = || invalid("invalid salt");
    let mut key = key_of(password);
    if !setting.starts_with(b"_") {
        let salt = setting.get(..2).ok_or_else(wrong)?;
        let mut out = salt.to_vec();
        push_block(&mut out, SaltedDes::new(key, number_of(salt)).encrypt(0, 25)?);
        return Ok(Some(out));
    }
    let setting = setting.get(..9).ok_or_else(wrong)?;
    let (rounds, salt) = (number_of(&setting[1..5]), number_of(&setting[5..]));
    // What is behind the first eight characters counts too.
    for more in password.get(8..).unwrap_or(&[]).chunks(8) {
        key = SaltedDes::new(key, 0).encrypt(key, 1)? ^ key_of(more);
    }
    if rounds == 0 {
        return Ok(None);
    }
    let mut out = setting.to_vec();
    push_block(&mut out, SaltedDes::new(key, salt).encrypt(0, rounds)?);
    Ok(Some(out))
}
