//! What a sample says of several columns together, by PostgreSQL's rules: numbers of different combinations, functional
//! dependencies, the most common combinations.
//!
//! Invariants
//! 1. Values are compared once, column by column: from then on they are numbers in the order of the values, NULLs last.
//!
//! Must not know: catalogs, sessions, storage.

use super::compute::{SLICE, WIDEST_BYTES};
use kilndb_base::{Oid, Result};
use kilndb_catalog::extended_statistics::{CombinationCount, CombinationList, CommonCombination, FunctionalDependency};
use kilndb_types::Datum;
use kilndb_types::key::compare;
use kilndb_types::width::plain_width;
use std::cmp::Ordering;

/// The sample's values of one member of a statistics object.
pub(super) struct MemberValues {
    /// The column's number, or that of an expression, which is negative.
    pub number: i16,
    pub type_oid: Oid,
    /// As pg_type.typlen.
    pub len: i16,
    pub values: Vec<Datum>,
}

/// A sample of rows in numbers.
pub(super) struct CodedSample<'a> {
    members: &'a [MemberValues],
    /// By member and row.
    codes: Vec<Vec<u32>>,
    /// Rows none of whose values is too wide to be compared.
    narrow: Vec<u32>,
    rows: usize,
    total_rows: f64,
    checkpoint: &'a dyn Fn() -> Result<()>,
}

/// Equal combinations: a row that has it, and how many do.
struct CombinationGroup {
    row: u32,
    count: usize,
}

impl<'a> CodedSample<'a> {
    /// `members`: with as many values each.
    pub(super) fn of(
        members: &'a [MemberValues],
        total_rows: f64,
        checkpoint: &'a dyn Fn() -> Result<()>,
    ) -> Result<CodedSample<'a>> {
        let rows = members.first().map_or(0, |m| m.values.len());
        let mut codes = Vec::with_capacity(members.len());
        for member in members {
            codes.push(coded(member, checkpoint)?);
        }
        let is_wide = |m: &MemberValues, row: usize| {
            m.len < 0 && !m.values[row].is_null() && plain_width(m.type_oid, &m.values[row]) > WIDEST_BYTES
        };
        let narrow = (0..rows).filter(|row| !members.iter().any(|m| is_wide(m, *row))).map(|row| row as u32).collect();
        Ok(CodedSample { members, codes, narrow, rows, total_rows, checkpoint })
    }

    /// Rows in the order of these members.
    fn sorted(&self, rows: &[u32], members: &[usize]) -> Result<Vec<u32>> {
        (self.checkpoint)()?;
        let mut rows = rows.to_vec();
        rows.sort_unstable_by(|a, b| self.order(*a, *b, members).then(a.cmp(b)));
        (self.checkpoint)()?;
        Ok(rows)
    }

    fn order(&self, a: u32, b: u32, members: &[usize]) -> Ordering {
        let orders = members.iter().map(|m| self.codes[*m][a as usize].cmp(&self.codes[*m][b as usize]));
        orders.into_iter().find(|o| o.is_ne()).unwrap_or(Ordering::Equal)
    }

    fn groups(&self, rows: &[u32], members: &[usize]) -> Result<Vec<CombinationGroup>> {
        let mut groups: Vec<CombinationGroup> = Vec::new();
        for row in self.sorted(rows, members)? {
            match groups.last_mut() {
                Some(last) if self.order(last.row, row, members).is_eq() => last.count += 1,
                _ => groups.push(CombinationGroup { row, count: 1 }),
            }
        }
        Ok(groups)
    }

    fn numbers(&self, members: &[usize]) -> Vec<i16> {
        members.iter().map(|m| self.members[*m].number).collect()
    }

    /// The numbers of different combinations of all sets of two members or more.
    pub(super) fn counts(&self) -> Result<Vec<CombinationCount>> {
        let all: Vec<u32> = (0..self.rows as u32).collect();
        let mut found = Vec::new();
        for size in 2..=self.members.len() {
            for members in combinations(self.members.len(), size) {
                let groups = self.groups(&all, &members)?;
                let once = groups.iter().filter(|g| g.count == 1).count() as f64;
                let distinct = self.estimated(groups.len() as f64, once);
                found.push(CombinationCount { members: self.numbers(&members), distinct });
            }
        }
        Ok(found)
    }

    /// Haas and Stokes' Duj1.
    fn estimated(&self, distinct: f64, once: f64) -> f64 {
        let sampled = self.rows as f64;
        let estimate = sampled * distinct / ((sampled - once) + once * sampled / self.total_rows);
        (estimate.max(distinct).min(self.total_rows.max(distinct)) + 0.5).floor()
    }

    /// Of all members and sets of others, in how far the set tells the member's value.
    pub(super) fn dependencies(&self) -> Result<Vec<FunctionalDependency>> {
        let mut found = Vec::new();
        let count = self.members.len();
        for size in 2..=count {
            for from in combinations(count, size - 1) {
                for to in (0..count).filter(|to| !from.contains(to)) {
                    let degree = self.degree(&from, to)?;
                    if degree > 0.0 {
                        let (from, to) = (self.numbers(&from), self.members[to].number);
                        found.push(FunctionalDependency { from, to, degree });
                    }
                }
            }
        }
        Ok(found)
    }

    fn degree(&self, from: &[usize], to: usize) -> Result<f64> {
        let order = [from, &[to]].concat();
        let rows = self.sorted(&self.narrow, &order)?;
        let (mut supporting, mut at) = (0, 0);
        while at < rows.len() {
            let alike = rows[at..].iter().take_while(|row| self.order(rows[at], **row, from).is_eq()).count();
            let last = rows[at + alike - 1];
            if self.order(rows[at], last, &[to]).is_eq() {
                supporting += alike;
            }
            at += alike;
        }
        Ok(if rows.is_empty() { 0.0 } else { supporting as f64 / rows.len() as f64 })
    }

    /// The most common combinations, at most so many: those that are more frequent in the sample than chance explains.
    pub(super) fn common(&self, most: usize) -> Result<CombinationList> {
        let all: Vec<usize> = (0..self.members.len()).collect();
        let mut groups = self.groups(&self.narrow, &all)?;
        groups.sort_by_key(|g| std::cmp::Reverse(g.count));
        let sampled = self.narrow.len() as f64;
        let least = least_count(sampled, self.total_rows);
        let mut shares = Vec::with_capacity(all.len());
        for member in &all {
            shares.push(self.value_shares(*member)?);
        }
        let items = groups.iter().take(most).take_while(|g| g.count as f64 >= least).map(|group| {
            let row = group.row as usize;
            CommonCombination {
                values: self.members.iter().map(|m| m.values[row].clone()).collect(),
                frequency: group.count as f64 / sampled,
                base_frequency: all.iter().map(|m| shares[*m][self.codes[*m][row] as usize]).product(),
            }
        });
        Ok(CombinationList { types: self.members.iter().map(|m| m.type_oid).collect(), items: items.collect() })
    }

    /// The share of the rows with each of a member's values, by their codes.
    fn value_shares(&self, member: usize) -> Result<Vec<f64>> {
        (self.checkpoint)()?;
        let codes = &self.codes[member];
        let most = codes.iter().max().map_or(0, |m| *m as usize + 1);
        let mut counts = vec![0u32; most];
        self.narrow.iter().for_each(|row| counts[codes[*row as usize] as usize] += 1);
        let rows = (self.narrow.len() as f64).max(1.0);
        Ok(counts.into_iter().map(|count| f64::from(count) / rows).collect())
    }
}

/// PostgreSQL's get_mincount_for_mcv_list: below it the relative standard error of a frequency is over 20 %.
fn least_count(sampled: f64, total: f64) -> f64 {
    let denominator = total - sampled + 0.04 * sampled * (total - 1.0);
    if denominator == 0.0 { 0.0 } else { sampled * (total - sampled) / denominator }
}

/// Numbers in the order of the values, equal ones for equal values.
fn coded(member: &MemberValues, checkpoint: &dyn Fn() -> Result<()>) -> Result<Vec<u32>> {
    let value = |row: u32| &member.values[row as usize];
    let order = |a: u32, b: u32| match (value(a).is_null(), value(b).is_null()) {
        (false, false) => compare(member.type_oid, value(a), value(b)),
        (a, b) => a.cmp(&b),
    };
    let mut rows: Vec<u32> = (0..member.values.len() as u32).collect();
    for part in rows.chunks_mut(SLICE) {
        part.sort_unstable_by(|a, b| order(*a, *b));
        checkpoint()?;
    }
    // Sorted runs are merged at little cost.
    rows.sort_by(|a, b| order(*a, *b));
    checkpoint()?;
    let mut codes = vec![0; rows.len()];
    let mut code = 0;
    for (i, row) in rows.iter().enumerate() {
        if i > 0 && order(rows[i - 1], *row).is_ne() {
            code += 1;
        }
        codes[*row as usize] = code;
    }
    Ok(codes)
}

/// The sets of so many of the first numbers, each in ascending order.
fn combinations(count: usize, size: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    for _ in 0..size {
        let grow = |set: &Vec<usize>| {
            let first = set.last().map_or(0, |last| last + 1);
            (first..count).map(|next| [set.as_slice(), &[next]].concat()).collect::<Vec<_>>()
        };
        sets = sets.iter().flat_map(grow).collect();
    }
    sets
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::oids;

    fn member(number: i16, values: impl Iterator<Item = i32>) -> MemberValues {
        let values = values.map(|v| if v < 0 { Datum::Null } else { Datum::Int4(v) }).collect();
        MemberValues { number, type_oid: oids::INT4, len: 4, values }
    }

    #[test]
    fn combinations_are_counted_and_dependencies_found() {
        // The second is the first divided by ten, the third is independent of both.
        let rows = 0..1000;
        let members = [
            member(1, rows.clone().map(|i| i % 100)),
            member(2, rows.clone().map(|i| i % 100 / 10)),
            member(-1, rows.map(|i| i / 100 - 1)),
        ];
        let checkpoint = || Ok(());
        let sample = CodedSample::of(&members, 1000.0, &checkpoint).expect("coded");
        let counts = sample.counts().expect("counted");
        let shown: Vec<(Vec<i16>, f64)> = counts.into_iter().map(|c| (c.members, c.distinct)).collect();
        assert_eq!(shown, [(vec![1, 2], 100.0), (vec![1, -1], 1000.0), (vec![2, -1], 100.0), (vec![1, 2, -1], 1000.0)]);
        let dependencies = sample.dependencies().expect("found");
        let degree = |from: &[i16], to: i16| {
            dependencies.iter().find(|d| d.from == from && d.to == to).map_or(0.0, |d| d.degree)
        };
        assert_eq!(degree(&[1], 2), 1.0);
        assert_eq!(degree(&[2], 1), 0.0);
        assert_eq!(degree(&[1, -1], 2), 1.0);
        let common = sample.common(50).expect("common ones");
        // Each combination is there once: all of the table was seen, so one is enough.
        assert_eq!(common.items.len(), 50);
        assert!(common.items.iter().all(|i| (i.frequency - 0.001).abs() < 1e-9));
        assert!(common.items.iter().all(|i| (i.base_frequency - 0.0001).abs() < 1e-9));
    }

    #[test]
    fn sets_are_made_in_order() {
        assert_eq!(combinations(3, 2), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(combinations(4, 4), [[0, 1, 2, 3]]);
    }
}
