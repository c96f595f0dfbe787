use super::super::arith::{long_division, schoolbook_product};
use super::*;

/// A small generator of numbers: the same ones in every run.
pub(super) struct Random(pub(super) u64);
impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }
    /// A number of `len` groups, the first one not 0: any digits, only nines, a one and zeros, or runs of both.
    pub(super) fn groups(&mut self, len: usize) -> Vec<i16> {
        let shape = self.below(6);
        let mut run = 0;
        let mut groups: Vec<i16> = (0..len)
            .map(|_| {
                if self.below(8) == 0 {
                    run = 9999 - run;
                }
                match shape {
                    0 => 9999,
                    1 => 0,
                    2 => run,
                    _ => self.below(10_000) as i16,
                }
            })
            .collect();
        if groups[0] == 0 {
            groups[0] = if self.below(2) == 0 { 1 } else { 5000 };
        }
        groups
    }
    /// A length around one of the thresholds, or any.
    fn len(&mut self) -> usize {
        let edges = [1, 2, 3, MUL_THRESHOLD_GROUPS, DIV_THRESHOLD_GROUPS, 75, 96, 150, 192, 300, 384];
        match self.below(3) {
            0 => 1 + self.below(40),
            1 => 1 + self.below(600),
            _ => (edges[self.below(edges.len())] + self.below(5)).saturating_sub(2).max(1),
        }
    }
}
fn add_groups(a: &[i16], b: &[i16]) -> Vec<i16> {
    let n = a.len().max(b.len()) + 1;
    let (mut x, y) = (to_limbs(a), to_limbs(b));
    x.resize(n.max(y.len()) + 2, 0);
    assert!(!add_to(&mut x, &y));
    to_groups(&x, n)
}
fn stripped(a: &[i16]) -> &[i16] {
    &a[a.iter().take_while(|d| **d == 0).count()..]
}

#[test]
fn limbs_and_groups() {
    let mut random = Random(1);
    for len in 1..50 {
        let groups = random.groups(len);
        assert_eq!(to_groups(&to_limbs(&groups), len), groups);
    }
}

#[test]
fn products() {
    let mut random = Random(2);
    for _ in 0..1500 {
        let (n, m) = (random.len(), random.len());
        let (a, b) = (random.groups(n), random.groups(m));
        assert_eq!(mul_groups(&a, &b), schoolbook_product(&a, &b), "{n} by {m} groups");
        assert_eq!(mul_groups(&a, &a), schoolbook_product(&a, &a), "square of {n} groups");
    }
}

#[test]
fn long_products() {
    let mut random = Random(3);
    for (n, m) in [(40, 9000), (97, 4000), (98, 5555), (3000, 3000), (5000, 700)] {
        let (a, b) = (random.groups(n), random.groups(m));
        assert_eq!(mul_groups(&a, &b), schoolbook_product(&a, &b), "{n} by {m} groups");
    }
    // The largest columns that there are.
    let nines = vec![9999i16; 36_900];
    let mut square = vec![9999i16; 73_800];
    square[36_899] = 9998;
    square[36_900..73_799].fill(0);
    square[73_799] = 1;
    assert_eq!(mul_groups(&nines, &nines.clone()), square);
}

#[test]
fn quotients() {
    let mut random = Random(4);
    for _ in 0..2000 {
        let (n, m, count) = (random.len(), random.len(), random.len());
        let (a, b) = (random.groups(n), random.groups(m));
        assert_eq!(div_groups(&a, &b, count), long_division(&a, &b, count), "{count} groups of {n} by {m}");
    }
}

#[test]
fn exact_divisions_and_their_neighbours() {
    let mut random = Random(5);
    for _ in 0..1500 {
        let (n, m) = (random.len(), random.len());
        let (quotient, divisor) = (random.groups(n), random.groups(m));
        let exact = schoolbook_product(&quotient, &divisor);
        let one_less = {
            let mut d = to_limbs(&divisor);
            sub_from(&mut d, &[1]);
            to_groups(&d, m)
        };
        for rest in [vec![0], one_less] {
            let (q, r) = divide::divide(&to_limbs(&add_groups(&exact, &rest)), &to_limbs(&divisor));
            assert_eq!(to_groups(&q, n), quotient, "{n} by {m} groups");
            assert_eq!(stripped(&to_groups(&r, m)), stripped(&rest), "{n} by {m} groups");
        }
    }
}

#[test]
fn roots() {
    let mut random = Random(6);
    for _ in 0..1500 {
        let n = random.len();
        let root = random.groups(n);
        let square = schoolbook_product(&root, &root);
        let found = |a: &[i16]| to_groups(&sqrt_floor(&to_limbs(a)), n);
        assert_eq!(found(&square), root, "{n} groups");
        // (root + 1)² − 1 is the last number with this root, and root² − 1 has the one before.
        assert_eq!(found(&add_groups(&square, &add_groups(&root, &root))), root, "{n} groups");
        let mut before = to_limbs(&square);
        sub_from(&mut before, &[1]);
        let mut one_less = to_limbs(&root);
        sub_from(&mut one_less, &[1]);
        assert_eq!(found(&to_groups(&before, 2 * n)), to_groups(&one_less, n), "{n} groups");
        let any = random.groups(n);
        let floor = to_groups(&sqrt_floor(&to_limbs(&any)), n);
        assert!(stripped(&schoolbook_product(&floor, &floor)).len() <= n);
        let next = add_groups(&floor, &[1]);
        let (low, high) = (schoolbook_product(&floor, &floor), schoolbook_product(&next, &next));
        let order = |a: &[i16]| {
            let a = stripped(a).to_vec();
            (a.len(), a)
        };
        assert!(order(&low) <= order(&any) && order(&any) < order(&high), "{n} groups");
    }
}

#[test]
fn common_divisors() {
    let mut random = Random(7);
    let euclid = |a: &[i16], b: &[i16]| {
        let (mut x, mut y) = (to_limbs(a), to_limbs(b));
        while !trimmed(&y).is_empty() {
            let rest = divide::divide(&x, &y).1;
            x = std::mem::replace(&mut y, rest);
        }
        stripped(&to_groups(&x, a.len().max(b.len()) + 3)).to_vec()
    };
    for _ in 0..400 {
        let (n, m, k) = (random.len() / 4 + 1, random.len() / 4 + 1, random.len() / 4 + 1);
        let common = random.groups(k);
        let a = schoolbook_product(&random.groups(n), &common);
        let b = schoolbook_product(&random.groups(m), &common);
        assert_eq!(gcd_groups(&a, &b).unwrap(), euclid(&a, &b), "{n}, {m} and {k} groups");
    }
    assert_eq!(gcd_groups(&[0, 12], &[]).unwrap(), [12]);
    assert_eq!(gcd_groups(&[], &[12, 0]).unwrap(), [12, 0]);
    assert!(gcd_groups(&[], &[0]).unwrap().is_empty());
}
