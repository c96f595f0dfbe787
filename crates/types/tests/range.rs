//! Ranges and multiranges against sets of numbers: their operations, the order of their keys, what is stored of them.

use kilndb_types::acl::AclItem;
use kilndb_types::network::Inet;
use kilndb_types::range::{BUILT_IN, Multirange, Range, RangeBound, RangeType};
use kilndb_types::{Datum, key, oids, row};
use std::collections::BTreeSet;

const TY: RangeType = BUILT_IN[0];
/// Numbers that are looked at.
const SPAN: i32 = 24;

struct Random(u64);
impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
    fn range(&mut self) -> Range {
        let value = |r: &mut Random| if r.below(8) == 0 { None } else { Some(r.below(SPAN as u64) as i32) };
        let (mut a, mut b) = (value(self), value(self));
        if let (Some(x), Some(y)) = (a, b)
            && x > y
        {
            std::mem::swap(&mut a, &mut b);
        }
        let datum = |v: Option<i32>| v.map_or(Datum::Null, Datum::Int4);
        let (lower, upper) =
            (RangeBound::lower(datum(a), self.below(2) == 0), RangeBound::upper(datum(b), self.below(2) == 0));
        Range::make(TY, lower, upper).expect("a range")
    }
    fn multirange(&mut self) -> Multirange {
        let count = self.below(5);
        let ranges = (0..count).map(|_| self.range()).collect();
        Multirange::make(TY, ranges).expect("a multirange")
    }
}
/// The numbers from one beyond the bounds that there are to one beyond.
fn set(contains: impl Fn(&Datum) -> bool) -> BTreeSet<i32> {
    (-2..SPAN + 3).filter(|v| contains(&Datum::Int4(*v))).collect()
}
fn of_range(r: &Range) -> BTreeSet<i32> {
    set(|v| r.contains_value(v))
}
fn of_multirange(m: &Multirange) -> BTreeSet<i32> {
    set(|v| m.contains_value(v))
}

#[test]
fn ranges_are_sets() {
    let mut random = Random(7);
    for _ in 0..20_000 {
        let (a, b) = (random.range(), random.range());
        let (x, y) = (of_range(&a), of_range(&b));
        assert_eq!(a.is_empty(), x.is_empty());
        assert_eq!(a.contains(&b), y.is_subset(&x), "{a:?} {b:?}");
        assert_eq!(a.overlaps(&b), !x.is_disjoint(&y), "{a:?} {b:?}");
        assert_eq!(of_range(&a.intersect(&b).expect("always there")), &x & &y);
        let both = &x | &y;
        let is_one = |s: &BTreeSet<i32>| s.iter().zip(s.iter().skip(1)).all(|(a, b)| a + 1 == *b);
        assert_eq!(a.union(&b, true).map(|r| of_range(&r)).ok(), is_one(&both).then_some(both), "{a:?} {b:?}");
        let rest = &x - &y;
        assert_eq!(a.minus(&b).map(|r| of_range(&r)).ok(), is_one(&rest).then_some(rest), "{a:?} {b:?}");
        if !a.is_empty() && !b.is_empty() {
            assert_eq!(a.is_before(&b), x.last() < y.first());
            assert_eq!(a.ends_within(&b), x.last() <= y.last());
            assert_eq!(a.starts_within(&b), x.first() >= y.first());
            assert_eq!(a.is_adjacent(&b), x.is_disjoint(&y) && is_one(&(&x | &y)), "{a:?} {b:?}");
        }
    }
}

#[test]
fn multiranges_are_sets() {
    let mut random = Random(11);
    for _ in 0..20_000 {
        let (a, b, r) = (random.multirange(), random.multirange(), random.range());
        let (x, y, z) = (of_multirange(&a), of_multirange(&b), of_range(&r));
        assert_eq!(of_multirange(&a.union(&b).expect("a union")), &x | &y);
        assert_eq!(of_multirange(&a.intersect(&b).expect("an intersection")), &x & &y, "{a:?} {b:?}");
        assert_eq!(of_multirange(&a.minus(&b).expect("a difference")), &x - &y, "{a:?} {b:?}");
        assert_eq!(a.contains(&b).expect("an answer"), y.is_subset(&x));
        assert_eq!(a.contains_range(&r), z.is_subset(&x));
        assert_eq!(a.overlaps(&b).expect("an answer"), !x.is_disjoint(&y));
        assert_eq!(a.overlaps_range(&r), !x.is_disjoint(&z));
        assert_eq!(a.compare(&b).is_eq(), x == y);
    }
}

fn key_of(d: &Datum) -> Vec<u8> {
    let mut out = Vec::new();
    key::encode_key(0, d, false, false, &mut out).expect("a key");
    out
}
#[test]
fn keys_sort_as_values() {
    let mut random = Random(13);
    let number = |text: &str| Datum::Numeric(kilndb_types::numeric::Numeric::parse(text).expect("a number"));
    for _ in 0..20_000 {
        let pairs = [
            (random.range().datum(), random.range().datum()),
            (random.multirange().datum(), random.multirange().datum()),
        ];
        for (a, b) in pairs {
            assert_eq!(key_of(&a).cmp(&key_of(&b)), key::compare(0, &a, &b), "{a:?} {b:?}");
        }
    }
    // Of a type that is not discrete every kind of bound stays.
    let values = ["-1.5", "0", "0.5", "10"];
    let mut all = vec![Range::empty(BUILT_IN[1])];
    for (i, low) in values.iter().enumerate() {
        for high in &values[i..] {
            for kind in 0..4 {
                let (lower, upper) =
                    (RangeBound::lower(number(low), kind & 1 == 0), RangeBound::upper(number(high), kind & 2 == 0));
                all.push(Range::make(BUILT_IN[1], lower.clone(), upper.clone()).expect("a range"));
                all.push(Range::make(BUILT_IN[1], lower, RangeBound::upper(Datum::Null, false)).expect("a range"));
                all.push(Range::make(BUILT_IN[1], RangeBound::lower(Datum::Null, false), upper).expect("a range"));
            }
        }
    }
    for a in &all {
        for b in &all {
            let (a, b) = (a.clone().datum(), b.clone().datum());
            assert_eq!(key_of(&a).cmp(&key_of(&b)), key::compare(oids::NUMRANGE, &a, &b), "{a:?} {b:?}");
        }
    }
}

#[test]
fn stored_values_come_back_and_damage_is_reported() {
    let mut random = Random(17);
    let other = RangeType { oid: 20_000, multirange: 20_001, subtype: oids::INT4 };
    let mut values = vec![
        Datum::Inet(Inet::parse("10.1.2.3/8", false).expect("an address")),
        Datum::Inet(Inet::parse("2001:db8::1", false).expect("an address")),
        Datum::MacAddr([1, 2, 3, 4, 5, 6]),
        Datum::MacAddr8([1, 2, 3, 4, 5, 6, 7, 8]),
        Datum::AclItem(AclItem { grantee: 0, grantor: 10, privileges: 3 << 32 | 3 }),
        Range { ty: other, ..random.range() }.datum(),
        Range::empty(TY).datum(),
    ];
    values.extend((0..50).flat_map(|_| [random.range().datum(), random.multirange().datum()]));
    for value in &values {
        let mut bytes = Vec::new();
        row::encode_self_describing(std::slice::from_ref(value), &mut bytes);
        let mut back = Vec::new();
        row::decode_self_describing(&bytes, 1, &mut back).expect("what was written");
        assert_eq!(format!("{value:?}"), format!("{:?}", back[0]));
        for cut in 0..bytes.len() {
            assert!(row::decode_self_describing(&bytes[..cut], 1, &mut Vec::new()).is_err());
        }
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0xff;
            let _ = row::decode_self_describing(&damaged, 1, &mut Vec::new());
        }
    }
    let types = [oids::INET, oids::MACADDR, oids::MACADDR8, oids::ACLITEM, oids::INT4RANGE];
    let desc = row::RowDescriptor::new(&types).expect("a description");
    let of = [values[0].clone(), values[2].clone(), values[3].clone(), values[4].clone(), values[6].clone()];
    let (mut bytes, mut back) = (Vec::new(), Vec::new());
    row::encode_row(&desc, &of, &mut bytes).expect("a row");
    row::decode_row(&desc, &bytes, None, &mut back).expect("the row");
    assert_eq!(format!("{of:?}"), format!("{back:?}"));
}
