//! The share of the rows whose network address lies in a known one, or the other way round: PostgreSQL's
//! `network_selfuncs.c`.
//!
//! Must not know: how histograms are computed.

use super::*;
use kilndb_types::network::Inet;
use std::cmp::Ordering;

/// Which of two addresses contains the other one, from the column's point of view.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Inclusion {
    Contains,
    ContainsOrEquals,
    Overlaps,
    ContainedOrEquals,
    Contained,
}

impl Inclusion {
    fn of(operator: &str, is_left: bool) -> Option<Inclusion> {
        Some(match (operator, is_left) {
            (">>", true) | ("<<", false) => Inclusion::Contains,
            (">>=", true) | ("<<=", false) => Inclusion::ContainsOrEquals,
            ("&&", _) => Inclusion::Overlaps,
            ("<<=", true) | (">>=", false) => Inclusion::ContainedOrEquals,
            ("<<", true) | (">>", false) => Inclusion::Contained,
            _ => return None,
        })
    }
    fn default_share(self) -> f64 {
        if self == Inclusion::Overlaps { 0.01 } else { 0.005 }
    }
    /// Where a value stands by the lengths of the two networks: equal if they can be included in one another so.
    fn of_lengths(self, value: &Inet, known: &Inet) -> Ordering {
        let fits = match self {
            Inclusion::Contains => value.bits < known.bits,
            Inclusion::ContainsOrEquals => value.bits <= known.bits,
            Inclusion::Overlaps => true,
            Inclusion::ContainedOrEquals => value.bits >= known.bits,
            Inclusion::Contained => value.bits > known.bits,
        };
        match self {
            _ if fits => Ordering::Equal,
            Inclusion::Contains | Inclusion::ContainsOrEquals => Ordering::Less,
            _ => Ordering::Greater,
        }
    }
    /// Where a value stands: equal if the condition is true of it.
    fn of_values(self, value: &Inet, known: &Inet) -> Ordering {
        if value.is_v6 != known.is_v6 {
            return value.is_v6.cmp(&known.is_v6);
        }
        let common = value.bits.min(known.bits);
        let network = |a: &Inet| leading(a, common);
        network(value).cmp(&network(known)).then_with(|| self.of_lengths(value, known))
    }
    /// How many bits would have to be others for the condition to be true of a bound; None: they never can.
    fn missing_bits(self, bound: &Inet, known: &Inet) -> Option<u8> {
        if bound.is_v6 != known.is_v6 || self.of_lengths(bound, known).is_ne() {
            return None;
        }
        let least = bound.bits.min(known.bits);
        let decisive = match self {
            Inclusion::Contains | Inclusion::ContainsOrEquals => bound.bits,
            Inclusion::Overlaps => least,
            Inclusion::ContainedOrEquals | Inclusion::Contained => known.bits,
        };
        let common = (0..least).take_while(|bit| leading(bound, bit + 1) == leading(known, bit + 1)).count() as u8;
        Some(decisive - common)
    }
    /// The share of the histogram's parts that satisfy the condition, each with its two bounds.
    fn of_histogram(self, bounds: &[Inet], known: &Inet) -> Option<f64> {
        let parts = bounds.len().checked_sub(1).filter(|n| *n > 0)?;
        let share = |pair: &[Inet]| {
            let (left, right) = (self.of_values(&pair[0], known), self.of_values(&pair[1], known));
            if left.is_eq() && right.is_eq() {
                return 1.0;
            }
            let lies_between = left.is_le() && right.is_ge() || left.is_ge() && right.is_le();
            let missing = self.missing_bits(&pair[0], known).max(self.missing_bits(&pair[1], known));
            missing.filter(|_| lies_between).map_or(0.0, |bits| 0.5f64.powi(i32::from(bits)))
        };
        Some(bounds.windows(2).map(share).sum::<f64>() / parts as f64)
    }
}

/// The first bits of an address as a number.
fn leading(address: &Inet, bits: u8) -> u128 {
    let number = u128::from_be_bytes(address.address);
    if bits == 0 { 0 } else { number >> (128 - u32::from(bits)) }
}

impl Planner<'_> {
    /// None: it is no condition on a column and a known address, or nothing is known of the column.
    pub(super) fn network_selectivity(&self, rel: u32, f: &FuncExpr, e: &Expr) -> Option<f64> {
        let [l, r] = f.args.as_slice() else { return None };
        let (column, value, is_left) = match (access::foreign(l, rel), access::foreign(r, rel)) {
            (false, true) => (l, r, true),
            (true, false) => (r, l, false),
            _ => return None,
        };
        let inclusion = Inclusion::of(&f.name, is_left)?;
        let variable = self.variable(column);
        let known = match self.value_of(value, variable.has_histogram())? {
            Datum::Inet(known) => known,
            Datum::Null => return Some(0.0),
            _ => return None,
        };
        let s = variable.statistics.as_ref()?;
        let bounds: Vec<Inet> =
            s.histogram.iter().filter_map(|bound| if let Datum::Inet(a) = bound { Some(*a) } else { None }).collect();
        let (of_common, _) = self.observed_shares(rel, e)?;
        let share = inclusion.of_histogram(&bounds, &known).unwrap_or_else(|| inclusion.default_share());
        Some((of_common + share_of_others(s) * share).clamp(0.0, 1.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(bytes: [u8; 4], bits: u8) -> Inet {
        let mut address = Inet { bits, ..Inet::new(false) };
        address.address[..4].copy_from_slice(&bytes);
        address
    }

    #[test]
    fn a_quarter_of_the_addresses_lies_in_a_network() {
        let bounds: Vec<Inet> = (0..=100).map(|i| address([10, i * 2, 0, 0], 32)).collect();
        let share = |bytes, bits, inclusion: Inclusion| inclusion.of_histogram(&bounds, &address(bytes, bits)).unwrap();
        let quarter = share([10, 64, 0, 0], 10, Inclusion::Contained);
        assert!((0.3..0.34).contains(&quarter), "{quarter}");
        assert_eq!(share([10, 0, 0, 0], 8, Inclusion::ContainedOrEquals), 1.0);
        assert!(share([10, 7, 7, 7], 32, Inclusion::ContainedOrEquals) < 0.01);
        assert_eq!(share([192, 168, 0, 0], 16, Inclusion::Contained), 0.0);
        assert_eq!(share([10, 0, 0, 0], 8, Inclusion::Contains), 0.0);
    }
}
