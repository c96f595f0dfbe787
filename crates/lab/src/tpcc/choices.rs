//! What is drawn at random, by clause 2.1.6 and 4.3.2 of the specification.

use super::TpccSize;
use crate::random::RowRandom;

const SYLLABLES: [&str; 10] = ["BAR", "OUGHT", "ABLE", "PRI", "PRES", "ESE", "ANTI", "CALLY", "ATION", "EING"];
/// Last names are made of three syllables each, one for each digit of their number.
const LAST_NAMES: u32 = 1000;
/// The constants C of the non-uniform numbers. Those of last names differ between load and run as clause 2.1.6.1 wants it.
const C_LAST_LOAD: i64 = 86;
const C_LAST_RUN: i64 = 173;
const C_CUSTOMER: i64 = 511;
const C_ITEM: i64 = 4_013;

pub(super) fn last_name(number: u32) -> String {
    let syllable = |digit: u32| SYLLABLES[(digit % 10) as usize];
    [syllable(number / 100), syllable(number / 10), syllable(number)].concat()
}

/// A number from `low` to `high`, of which some are far more frequent than others. `a` is one less than a power of two.
fn non_uniform(random: &mut RowRandom, a: i64, c: i64, (low, high): (i64, i64)) -> i64 {
    ((random.between(0, a) | random.between(low, high)) + c) % (high - low + 1) + low
}

/// The last name of a district's customer: the first thousand have all names there are, the others frequent ones.
pub(super) fn name_of_customer(random: &mut RowRandom, customer: u32) -> String {
    let drawn = non_uniform(random, 255, C_LAST_LOAD, (0, i64::from(LAST_NAMES) - 1)) as u32;
    last_name(if customer <= LAST_NAMES { customer - 1 } else { drawn })
}

/// A last name that a district has.
pub(super) fn some_name(random: &mut RowRandom, size: &TpccSize) -> String {
    let drawn = non_uniform(random, 255, C_LAST_RUN, (0, i64::from(LAST_NAMES) - 1)) as u32;
    last_name(drawn % size.customers.min(LAST_NAMES))
}

pub(super) fn some_customer(random: &mut RowRandom, size: &TpccSize) -> u32 {
    non_uniform(random, 1_023, C_CUSTOMER, (1, i64::from(size.customers))) as u32
}

pub(super) fn some_item(random: &mut RowRandom, size: &TpccSize) -> u32 {
    non_uniform(random, 8_191, C_ITEM, (1, i64::from(size.items))) as u32
}

/// True in so many of a hundred times.
pub(super) fn percent(random: &mut RowRandom, times: i64) -> bool {
    random.between(1, 100) <= times
}

/// A number from 1 to `count`.
pub(super) fn one_of(random: &mut RowRandom, count: u32) -> u32 {
    random.between(1, i64::from(count)) as u32
}

/// Another warehouse than `home`; `home` if there is no other.
pub(super) fn other_warehouse(random: &mut RowRandom, size: &TpccSize, home: u32) -> u32 {
    if size.warehouses < 2 {
        return home;
    }
    let other = one_of(random, size.warehouses - 1);
    if other >= home { other + 1 } else { other }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_made_of_syllables() {
        // The example of clause 4.3.2.3.
        assert_eq!(last_name(371), "PRICALLYOUGHT");
        assert_eq!(last_name(40), "BARPRESBAR");
    }

    #[test]
    fn numbers_stay_in_their_ranges_and_reach_both_ends() {
        let size = TpccSize { warehouses: 3, items: 20, customers: 30 };
        let mut random = RowRandom::of_row(1, 1);
        let mut seen = std::collections::BTreeSet::new();
        let mut others = std::collections::BTreeSet::new();
        for _ in 0..2_000 {
            seen.insert(some_customer(&mut random, &size));
            assert!((1..=20).contains(&some_item(&mut random, &size)));
            others.insert(other_warehouse(&mut random, &size, 2));
        }
        assert_eq!((seen.first(), seen.last()), (Some(&1), Some(&30)));
        assert_eq!(others.into_iter().collect::<Vec<_>>(), [1, 3]);
        assert_eq!(other_warehouse(&mut random, &TpccSize { warehouses: 1, ..size }, 1), 1);
    }
}
