//! How a partitioned table's rows are divided: its key, its partitions with their bounds, and which of them a key
//! belongs to.
//!
//! Invariants
//! 1. A map is read-only and shared; what changes a partition set makes another map. Bounds are shared between maps.
//! 2. Partitions stand in PostgreSQL's order: hash by modulus and remainder, list by their least value, range by their
//!    lower bound; the default one last.
//! 3. Bounds are stored as text that depends on no setting: every value a quoted literal in the form of default
//!    settings.
//!
//! Must not know: plans, storage, expressions other than as text.

use super::builtin::{FILES, number};
use super::operator_class::{EQUAL, SupportFunctionCaller, UserOperatorClass};
use super::{CatalogView, Table};
use kilndb_base::{Error, Oid, Result};
use kilndb_types::{Datum, io, key, partition_hash};
use std::cmp::Ordering;
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PartitionStrategy {
    Hash,
    List,
    Range,
}

impl PartitionStrategy {
    pub fn letter(self) -> u8 {
        match self {
            PartitionStrategy::Hash => b'h',
            PartitionStrategy::List => b'l',
            PartitionStrategy::Range => b'r',
        }
    }
    pub fn of(letter: u8) -> PartitionStrategy {
        match letter {
            b'h' => PartitionStrategy::Hash,
            b'l' => PartitionStrategy::List,
            _ => PartitionStrategy::Range,
        }
    }
    pub fn word(self) -> &'static str {
        match self {
            PartitionStrategy::Hash => "hash",
            PartitionStrategy::List => "list",
            PartitionStrategy::Range => "range",
        }
    }
}

#[derive(Clone, Debug)]
pub struct PartitionKeyPart {
    /// The column's number; 0 for an expression.
    pub attnum: i16,
    pub expression_sql: Option<String>,
    pub type_oid: Oid,
    /// The type by which values are held: of a domain, the type that it is over.
    pub base_type: Oid,
    pub typmod: i32,
    pub collation: Oid,
    pub opclass: Oid,
    /// The key column's operator class, if a user has made it.
    pub class: Option<Arc<UserOperatorClass>>,
}

impl PartitionKeyPart {
    /// Is what this operator, an equality of values, finds equal also equal to the key's class?
    #[inline]
    pub fn is_equality(&self, operator: Oid) -> bool {
        self.class.as_ref().is_none_or(|class| class.strategy(operator) == Some(EQUAL))
    }
}

#[derive(Clone, Debug)]
pub struct PartitionKey {
    pub strategy: PartitionStrategy,
    pub parts: Vec<PartitionKeyPart>,
}

impl PartitionKey {
    pub fn has_expressions(&self) -> bool {
        self.parts.iter().any(|p| p.attnum == 0)
    }
    /// Whether placing a row calls functions of users.
    pub fn has_user_classes(&self) -> bool {
        self.parts.iter().any(|p| p.class.is_some())
    }
    pub fn uses(&self, attnum: i16) -> bool {
        self.parts.iter().any(|p| p.attnum == attnum)
    }
    /// The hash that tells a row's hash partition.
    pub fn hash(&self, values: &[&Datum], functions: &mut dyn SupportFunctionCaller) -> Result<u64> {
        if !self.has_user_classes() {
            return partition_hash::row_hash(self.parts.iter().map(|p| p.base_type).zip(values.iter().copied()));
        }
        let mut all = 0;
        for (part, value) in self.parts.iter().zip(values).filter(|(_, value)| !value.is_null()) {
            let hash = match &part.class {
                Some(class) => class.hash(value, functions)?,
                None => partition_hash::value_hash(part.base_type, value, partition_hash::SEED)?,
            };
            all = partition_hash::combine(all, hash);
        }
        Ok(all)
    }
    /// The order of two values of a column of the key, neither of them NULL.
    pub fn compare(
        &self,
        at: usize,
        a: &Datum,
        b: &Datum,
        functions: &mut dyn SupportFunctionCaller,
    ) -> Result<Ordering> {
        match self.parts.get(at) {
            Some(PartitionKeyPart { class: Some(class), .. }) => class.compare(a, b, functions),
            Some(part) => Ok(key::compare(part.base_type, a, b)),
            None => Ok(Ordering::Equal),
        }
    }
    /// The order of two ends of ranges.
    pub fn compare_edges(
        &self,
        a: &[RangeEdge],
        b: &[RangeEdge],
        functions: &mut dyn SupportFunctionCaller,
    ) -> Result<Ordering> {
        for (at, (x, y)) in a.iter().zip(b).enumerate() {
            let order = match (x, y) {
                (RangeEdge::Min, RangeEdge::Min) | (RangeEdge::Max, RangeEdge::Max) => return Ok(Ordering::Equal),
                (RangeEdge::Min, _) | (_, RangeEdge::Max) => Ordering::Less,
                (_, RangeEdge::Min) | (RangeEdge::Max, _) => Ordering::Greater,
                (RangeEdge::Value(x), RangeEdge::Value(y)) => self.compare(at, x, y, functions)?,
            };
            if order.is_ne() {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }
}

/// One end of a range, for one column of the key.
#[derive(Clone, Debug)]
pub enum RangeEdge {
    Min,
    Value(Datum),
    Max,
}

#[derive(Clone, Debug)]
pub enum PartitionBound {
    Default,
    Hash { modulus: u32, remainder: u32 },
    List(Vec<Datum>),
    Range { lower: Vec<RangeEdge>, upper: Vec<RangeEdge> },
}

pub struct Partition {
    pub oid: Oid,
    pub bound: Arc<PartitionBound>,
    /// Whether the partition is partitioned itself.
    pub is_partitioned: bool,
    /// DETACH CONCURRENTLY has begun.
    pub is_pending: bool,
}

enum PartitionLookup {
    /// For each remainder of the greatest modulus, the partition that has it.
    Hash(Vec<u32>),
    /// Sorted by value.
    List(Vec<(Datum, u32)>),
    /// Partition and the place of its bounds, by lower bound: they do not overlap.
    Range,
}

const NONE: u32 = u32::MAX;

pub struct PartitionMap {
    pub table: Oid,
    pub key: Arc<PartitionKey>,
    pub partitions: Vec<Partition>,
    /// The partitions that are being detached: no row is looked for in them.
    pub pending: Vec<Partition>,
    lookup: PartitionLookup,
    null_partition: Option<usize>,
    default: Option<usize>,
    /// The key's classes are users', some of them.
    calls_functions: bool,
}

/// The partition of a hash, out of so many.
#[inline]
pub fn remainder(hash: u64, count: usize) -> usize {
    let count = count as u64;
    // A division takes as long as the rest.
    (if count.is_power_of_two() { hash & (count - 1) } else { hash % count }) as usize
}

/// How `a` compares with `b` as keys; each may be shorter than the other where only a prefix is known.
fn compare_edge(ty: Oid, edge: &RangeEdge, value: &Datum) -> Ordering {
    match edge {
        RangeEdge::Min => Ordering::Less,
        RangeEdge::Max => Ordering::Greater,
        RangeEdge::Value(d) => key::compare(ty, d, value),
    }
}

fn compare_edges(key: &PartitionKey, a: &[RangeEdge], b: &[RangeEdge]) -> Ordering {
    for ((part, x), y) in key.parts.iter().zip(a).zip(b) {
        let order = match (x, y) {
            (RangeEdge::Min, RangeEdge::Min) | (RangeEdge::Max, RangeEdge::Max) => return Ordering::Equal,
            (RangeEdge::Min, _) | (_, RangeEdge::Max) => Ordering::Less,
            (_, RangeEdge::Min) | (RangeEdge::Max, _) => Ordering::Greater,
            (RangeEdge::Value(x), RangeEdge::Value(y)) => key::compare(part.base_type, x, y),
        };
        if order.is_ne() {
            return order;
        }
    }
    Ordering::Equal
}

impl PartitionMap {
    pub fn new(table: Oid, key: Arc<PartitionKey>, partitions: Vec<Partition>) -> PartitionMap {
        let (pending, mut partitions): (Vec<Partition>, Vec<Partition>) =
            partitions.into_iter().partition(|p| p.is_pending);
        let least = |list: &[Datum]| -> Option<Datum> {
            let ty = key.parts.first().map_or(0, |p| p.base_type);
            list.iter().filter(|d| !d.is_null()).min_by(|a, b| key::compare(ty, a, b)).cloned()
        };
        partitions.sort_by(|a, b| match (&*a.bound, &*b.bound) {
            (PartitionBound::Default, PartitionBound::Default) => Ordering::Equal,
            (PartitionBound::Default, _) => Ordering::Greater,
            (_, PartitionBound::Default) => Ordering::Less,
            (PartitionBound::Hash { modulus, remainder }, PartitionBound::Hash { modulus: m, remainder: r }) => {
                (modulus, remainder).cmp(&(m, r))
            }
            (PartitionBound::List(x), PartitionBound::List(y)) => match (least(x), least(y)) {
                (Some(x), Some(y)) => key::compare(key.parts[0].base_type, &x, &y),
                (None, Some(_)) => Ordering::Greater,
                (Some(_), None) => Ordering::Less,
                (None, None) => Ordering::Equal,
            },
            (PartitionBound::Range { lower: x, .. }, PartitionBound::Range { lower: y, .. }) => {
                compare_edges(&key, x, y)
            }
            _ => Ordering::Equal,
        });
        let default = partitions.iter().position(|p| matches!(*p.bound, PartitionBound::Default));
        let mut null_partition = None;
        let lookup = match key.strategy {
            PartitionStrategy::Hash => {
                let greatest = partitions
                    .iter()
                    .map(|p| if let PartitionBound::Hash { modulus, .. } = &*p.bound { *modulus } else { 1 })
                    .max()
                    .unwrap_or(1);
                let mut slots = vec![NONE; greatest.max(1) as usize];
                for (i, p) in partitions.iter().enumerate() {
                    if let PartitionBound::Hash { modulus, remainder } = &*p.bound {
                        (*remainder..greatest)
                            .step_by((*modulus).max(1) as usize)
                            .for_each(|slot| slots[slot as usize] = i as u32);
                    }
                }
                PartitionLookup::Hash(slots)
            }
            PartitionStrategy::List => {
                let mut values = Vec::new();
                for (i, p) in partitions.iter().enumerate() {
                    let PartitionBound::List(list) = &*p.bound else { continue };
                    for d in list {
                        if d.is_null() { null_partition = Some(i) } else { values.push((d.clone(), i as u32)) }
                    }
                }
                let ty = key.parts.first().map_or(0, |p| p.base_type);
                values.sort_by(|a, b| key::compare(ty, &a.0, &b.0));
                PartitionLookup::List(values)
            }
            PartitionStrategy::Range => PartitionLookup::Range,
        };
        let calls_functions = key.has_user_classes();
        PartitionMap { table, key, partitions, pending, lookup, null_partition, default, calls_functions }
    }

    /// Ranges alone: no default partition, and none with partitions of its own.
    pub fn has_plain_ranges(&self) -> bool {
        matches!(self.lookup, PartitionLookup::Range)
            && !self.calls_functions
            && self.default.is_none()
            && !self.partitions.iter().any(|p| p.is_partitioned)
    }

    /// Is a key in the partition of the same number, whichever of the two maps says so?
    pub fn is_divided_like(&self, other: &PartitionMap) -> bool {
        let same_part = |(a, b): (&PartitionKeyPart, &PartitionKeyPart)| {
            (a.base_type, a.collation, a.opclass) == (b.base_type, b.collation, b.opclass)
        };
        let same_bound = |(a, b): (&Partition, &Partition)| match (&*a.bound, &*b.bound) {
            (PartitionBound::Default, PartitionBound::Default) => true,
            (PartitionBound::Hash { modulus, remainder }, PartitionBound::Hash { modulus: m, remainder: r }) => {
                (modulus, remainder) == (m, r)
            }
            (PartitionBound::List(x), PartitionBound::List(y)) => {
                let ty = self.key.parts.first().map_or(0, |p| p.base_type);
                let has = |list: &[Datum], d: &Datum| {
                    list.iter()
                        .any(|e| if d.is_null() { e.is_null() } else { !e.is_null() && key::compare(ty, e, d).is_eq() })
                };
                x.iter().all(|d| has(y, d)) && y.iter().all(|d| has(x, d))
            }
            (PartitionBound::Range { lower, upper }, PartitionBound::Range { lower: l, upper: u }) => {
                compare_edges(&self.key, lower, l).is_eq() && compare_edges(&self.key, upper, u).is_eq()
            }
            _ => false,
        };
        self.key.strategy == other.key.strategy
            && self.key.parts.len() == other.key.parts.len()
            && self.key.parts.iter().zip(&other.key.parts).all(same_part)
            && self.partitions.len() == other.partitions.len()
            && self.partitions.iter().zip(&other.partitions).all(same_bound)
            && self.pending.is_empty()
            && other.pending.is_empty()
    }

    pub fn default_partition(&self) -> Option<usize> {
        self.default
    }

    /// Which partition the key belongs to, as its position in `partitions`.
    pub fn find(&self, values: &[&Datum], functions: &mut dyn SupportFunctionCaller) -> Result<Option<usize>> {
        if self.calls_functions {
            return self.find_by_calls(values, functions);
        }
        Ok(match &self.lookup {
            PartitionLookup::Hash(slots) => {
                let hash =
                    partition_hash::row_hash(self.key.parts.iter().map(|p| p.base_type).zip(values.iter().copied()))?;
                self.at_hash(slots, hash)
            }
            PartitionLookup::List(list) => {
                let Some(value) = values.first() else { return Ok(self.default) };
                if value.is_null() {
                    return Ok(self.null_partition.or(self.default));
                }
                let ty = self.key.parts[0].base_type;
                let at = list.binary_search_by(|(d, _)| key::compare(ty, d, value)).ok();
                at.map(|i| list[i].1 as usize).or(self.default)
            }
            PartitionLookup::Range if values.iter().any(|v| v.is_null()) => self.default,
            PartitionLookup::Range => self.find_range(values).or(self.default),
        })
    }

    fn at_hash(&self, slots: &[u32], hash: u64) -> Option<usize> {
        let remainder = remainder(hash, slots.len());
        // As many as there are remainders: each has one, and that is their order.
        if self.partitions.len() == slots.len() {
            return Some(remainder);
        }
        let slot = slots[remainder];
        (slot != NONE).then_some(slot as usize)
    }

    /// Whether the partition of a hash is the one at the hash's remainder.
    pub fn is_by_remainder(&self) -> bool {
        matches!(&self.lookup, PartitionLookup::Hash(slots) if slots.len() == self.partitions.len())
            && !self.calls_functions
    }

    /// Finds a partition as [`PartitionMap::find`] does, by functions of users: the order that partitions stand in
    /// means nothing to these, so all are looked at.
    fn find_by_calls(&self, values: &[&Datum], functions: &mut dyn SupportFunctionCaller) -> Result<Option<usize>> {
        if let PartitionLookup::Hash(slots) = &self.lookup {
            return Ok(self.at_hash(slots, self.key.hash(values, functions)?));
        }
        match (&self.lookup, values) {
            (PartitionLookup::List(_), [value]) if value.is_null() => return Ok(self.null_partition.or(self.default)),
            _ if values.iter().any(|v| v.is_null()) => return Ok(self.default),
            (PartitionLookup::List(list), [value]) => {
                for (d, at) in list {
                    if self.key.compare(0, d, value, functions)?.is_eq() {
                        return Ok(Some(*at as usize));
                    }
                }
            }
            _ => {
                let edges: Vec<RangeEdge> = values.iter().map(|v| RangeEdge::Value((*v).clone())).collect();
                for (at, partition) in self.partitions[..self.bounded()].iter().enumerate() {
                    let PartitionBound::Range { lower, upper } = &*partition.bound else { continue };
                    if self.key.compare_edges(lower, &edges, functions)?.is_le()
                        && self.key.compare_edges(upper, &edges, functions)?.is_gt()
                    {
                        return Ok(Some(at));
                    }
                }
            }
        }
        Ok(self.default)
    }

    /// How many of the partitions have bounds: all but the default.
    fn bounded(&self) -> usize {
        self.partitions.len() - usize::from(self.default.is_some())
    }

    fn compare_to(&self, edges: &[RangeEdge], values: &[&Datum]) -> Ordering {
        for ((part, edge), value) in self.key.parts.iter().zip(edges).zip(values) {
            match compare_edge(part.base_type, edge, value) {
                Ordering::Equal => {}
                other => return other,
            }
        }
        Ordering::Equal
    }

    fn find_range(&self, values: &[&Datum]) -> Option<usize> {
        let below = |p: &Partition| matches!(&*p.bound, PartitionBound::Range { lower, .. } if self.compare_to(lower, values).is_le());
        let at = self.partitions[..self.bounded()].partition_point(below).checked_sub(1)?;
        match &*self.partitions[at].bound {
            PartitionBound::Range { upper, .. } if self.compare_to(upper, values).is_gt() => Some(at),
            _ => None,
        }
    }

    /// The partitions that may have keys whose first column (those of a list or range) lies between two values, each
    /// with whether it counts itself. `equal`: values of the columns before. The default one is among them unless the
    /// range is within one partition.
    pub fn between(
        &self,
        equal: &[&Datum],
        lower: Option<(&Datum, bool)>,
        upper: Option<(&Datum, bool)>,
        out: &mut Vec<usize>,
    ) {
        match &self.lookup {
            PartitionLookup::Hash(_) => out.extend(0..self.partitions.len()),
            PartitionLookup::List(list) => {
                let ty = self.key.parts[0].base_type;
                let from = lower.map_or(0, |(v, inclusive)| {
                    list.partition_point(|(d, _)| {
                        key::compare(ty, d, v).is_lt() || (!inclusive && key::compare(ty, d, v).is_eq())
                    })
                });
                let to = upper.map_or(list.len(), |(v, inclusive)| {
                    list.partition_point(|(d, _)| {
                        key::compare(ty, d, v).is_lt() || (inclusive && key::compare(ty, d, v).is_eq())
                    })
                });
                out.extend(list.get(from..to.max(from)).unwrap_or(&[]).iter().map(|(_, i)| *i as usize));
                out.extend(self.default);
                out.sort_unstable();
                out.dedup();
            }
            PartitionLookup::Range => {
                let mut low: Vec<&Datum> = equal.to_vec();
                low.extend(lower.map(|(v, _)| v));
                let mut high: Vec<&Datum> = equal.to_vec();
                high.extend(upper.map(|(v, _)| v));
                let low_counts = lower.is_none_or(|(_, inclusive)| inclusive);
                let high_counts = upper.is_none_or(|(_, inclusive)| inclusive);
                let before = out.len();
                for (i, p) in self.partitions[..self.bounded()].iter().enumerate() {
                    let PartitionBound::Range { lower: from, upper: to } = &*p.bound else { continue };
                    // Upper bounds are exclusive; a prefix that equals one may go on below it.
                    let ends_before = match self.prefix_order(to, &low) {
                        _ if low.is_empty() => false,
                        Ordering::Less => true,
                        Ordering::Equal => !low_counts || to.get(low.len()).is_none_or(|e| matches!(e, RangeEdge::Min)),
                        Ordering::Greater => false,
                    };
                    let begins_after = match self.prefix_order(from, &high) {
                        _ if high.is_empty() => false,
                        Ordering::Greater => true,
                        Ordering::Equal => !high_counts,
                        Ordering::Less => false,
                    };
                    if !ends_before && !begins_after {
                        out.push(i);
                    }
                }
                // A column of the key that nothing is said of may be NULL.
                let all_said = equal.len() + 1 == self.key.parts.len();
                if !(all_said && self.is_covered(&out[before..], &low, (&high, high_counts))) {
                    out.extend(self.default);
                }
            }
        }
    }

    /// Is everything between the two prefixes in these partitions?
    fn is_covered(&self, partitions: &[usize], low: &[&Datum], (high, high_counts): (&[&Datum], bool)) -> bool {
        let bounds = |i: &usize| match &*self.partitions[*i].bound {
            PartitionBound::Range { lower, upper } => Some((lower, upper)),
            _ => None,
        };
        let (Some((first, _)), Some((_, last))) =
            (partitions.first().and_then(bounds), partitions.last().and_then(bounds))
        else {
            return false;
        };
        let gapless = partitions.windows(2).all(|pair| match (bounds(&pair[0]), bounds(&pair[1])) {
            (Some((_, upper)), Some((lower, _))) => compare_edges(&self.key, upper, lower).is_eq(),
            _ => false,
        });
        let from_start = match self.prefix_order(first, low) {
            Ordering::Less => true,
            Ordering::Equal => first.get(low.len()).is_none_or(|e| matches!(e, RangeEdge::Min)),
            Ordering::Greater => false,
        };
        let to_end = match self.prefix_order(last, high) {
            Ordering::Greater => true,
            Ordering::Equal if high.len() == self.key.parts.len() => !high_counts,
            Ordering::Equal => matches!(last.get(high.len()), Some(RangeEdge::Max)),
            Ordering::Less => false,
        };
        gapless && from_start && to_end
    }

    /// The order of an edge and a prefix, as far as the prefix goes.
    fn prefix_order(&self, edges: &[RangeEdge], prefix: &[&Datum]) -> Ordering {
        self.compare_to(&edges[..prefix.len().min(edges.len())], prefix)
    }

    /// Partitions whose key may be NULL in a column.
    pub fn with_nulls(&self, out: &mut Vec<usize>) {
        match self.key.strategy {
            PartitionStrategy::Hash => out.extend(0..self.partitions.len()),
            PartitionStrategy::List => out.extend(self.null_partition.or(self.default)),
            PartitionStrategy::Range => out.extend(self.default),
        }
    }

    /// Partitions whose key may be other than NULL.
    pub fn without_nulls(&self, out: &mut Vec<usize>) {
        let only_null =
            |p: &Partition| matches!(&*p.bound, PartitionBound::List(list) if list.iter().all(Datum::is_null));
        out.extend((0..self.partitions.len()).filter(|i| !only_null(&self.partitions[*i])));
    }

    /// The map with one partition more. If nobody else has it and the partition comes last, as when many are made one
    /// after the other, nothing is copied.
    pub fn with(self: Arc<PartitionMap>, added: Partition) -> PartitionMap {
        let mut own = match Arc::try_unwrap(self) {
            Ok(own) => own,
            Err(shared) => {
                let mut list = shared.copies(0);
                list.push(added);
                return PartitionMap::new(shared.table, shared.key.clone(), list);
            }
        };
        if own.append_slot(&added.bound) {
            own.partitions.push(added);
            return own;
        }
        own.partitions.push(added);
        own.partitions.append(&mut own.pending);
        PartitionMap::new(own.table, own.key, own.partitions)
    }
    /// The map as if nothing were being detached.
    pub fn whole(&self) -> PartitionMap {
        let mut all = self.copies(0);
        all.iter_mut().for_each(|p| p.is_pending = false);
        PartitionMap::new(self.table, self.key.clone(), all)
    }
    pub fn bound_of(&self, oid: Oid) -> Option<&Arc<PartitionBound>> {
        self.partitions.iter().chain(&self.pending).find(|p| p.oid == oid).map(|p| &p.bound)
    }
    /// Hash: if the partition comes last and the greatest modulus stays, notes where it will be.
    fn append_slot(&mut self, bound: &PartitionBound) -> bool {
        let (PartitionBound::Hash { modulus, remainder }, PartitionLookup::Hash(slots)) = (bound, &mut self.lookup)
        else {
            return false;
        };
        let comes_last = self.partitions.last().is_some_and(
            |last| matches!(&*last.bound, PartitionBound::Hash { modulus: m, remainder: r } if (m, r) < (modulus, remainder)),
        );
        if !comes_last || slots.len() != *modulus as usize {
            return false;
        }
        let Some(slot) = slots.get_mut(*remainder as usize) else { return false };
        *slot = self.partitions.len() as u32;
        true
    }
    pub fn without(&self, oid: Oid) -> PartitionMap {
        PartitionMap::new(self.table, self.key.clone(), self.copies(oid))
    }
    fn copies(&self, except: Oid) -> Vec<Partition> {
        let copy = |p: &Partition| Partition {
            oid: p.oid,
            bound: p.bound.clone(),
            is_partitioned: p.is_partitioned,
            is_pending: p.is_pending,
        };
        self.partitions.iter().chain(&self.pending).filter(|p| p.oid != except).map(copy).collect()
    }

    /// The partition that a new bound would overlap with, and for ranges the place in the new bound that errors point
    /// at (0: lower).
    pub fn overlap(&self, bound: &PartitionBound, functions: &mut dyn SupportFunctionCaller) -> Result<Option<usize>> {
        Ok(match bound {
            PartitionBound::Default => self.default,
            PartitionBound::Hash { modulus, remainder } => {
                let PartitionLookup::Hash(slots) = &self.lookup else { return Ok(None) };
                let greatest = slots.len() as u32;
                if *modulus <= greatest {
                    (*remainder..greatest)
                        .step_by(*modulus as usize)
                        .map(|s| slots[s as usize])
                        .find(|s| *s != NONE)
                        .map(|s| s as usize)
                } else {
                    Some(slots[(*remainder % greatest) as usize]).filter(|s| *s != NONE).map(|s| s as usize)
                }
            }
            PartitionBound::List(list) => {
                for d in list {
                    let found = if d.is_null() {
                        self.null_partition
                    } else {
                        self.find(&[d], functions)?.filter(|i| Some(*i) != self.default)
                    };
                    if found.is_some() {
                        return Ok(found);
                    }
                }
                None
            }
            PartitionBound::Range { lower, upper } => {
                for (at, p) in self.partitions[..self.bounded()].iter().enumerate() {
                    let PartitionBound::Range { lower: l, upper: u } = &*p.bound else { continue };
                    if self.key.compare_edges(lower, u, functions)?.is_lt()
                        && self.key.compare_edges(l, upper, functions)?.is_lt()
                    {
                        return Ok(Some(at));
                    }
                }
                None
            }
        })
    }

    /// Hash: the neighbours of a modulus among those that there are: the last that is not greater, the first that is
    /// not less.
    pub fn moduli_around(&self, modulus: u32) -> [Option<(u32, Oid)>; 2] {
        let of = |p: &Partition| if let PartitionBound::Hash { modulus, .. } = &*p.bound { *modulus } else { u32::MAX };
        let at = |i: Option<usize>| i.and_then(|i| self.partitions.get(i)).map(|p| (of(p), p.oid));
        let (first, end) = (
            self.partitions.partition_point(|p| of(p) < modulus),
            self.partitions.partition_point(|p| of(p) <= modulus),
        );
        [at(end.checked_sub(1)), at(Some(first))]
    }
}

/// A value as a literal that depends on no setting.
pub fn quoted(ty: Oid, value: &Datum, catalog: &dyn CatalogView) -> Result<String> {
    let text = super::value_host::with_context(catalog, |cx| io::output_string(ty, value, cx))?;
    Ok(format!("'{}'", text.replace('\'', "''")))
}

/// A bound as it is stored.
pub fn bound_text(key: &PartitionKey, bound: &PartitionBound, catalog: &dyn CatalogView) -> Result<String> {
    let value = |i: usize, d: &Datum| -> Result<String> {
        let Some(part) = key.parts.get(i) else { return Err(Error::internal("a bound of too many columns")) };
        if d.is_null() { Ok("NULL".into()) } else { quoted(part.base_type, d, catalog) }
    };
    let edges = |list: &[RangeEdge]| -> Result<String> {
        let texts = list.iter().enumerate().map(|(i, e)| match e {
            RangeEdge::Min => Ok("MINVALUE".to_string()),
            RangeEdge::Max => Ok("MAXVALUE".to_string()),
            RangeEdge::Value(d) => value(i, d),
        });
        Ok(texts.collect::<Result<Vec<_>>>()?.join(", "))
    };
    Ok(match bound {
        PartitionBound::Default => "DEFAULT".into(),
        PartitionBound::Hash { modulus, remainder } => {
            format!("FOR VALUES WITH (modulus {modulus}, remainder {remainder})")
        }
        PartitionBound::List(list) => {
            let texts = list.iter().map(|d| value(0, d)).collect::<Result<Vec<_>>>()?;
            format!("FOR VALUES IN ({})", texts.join(", "))
        }
        PartitionBound::Range { lower, upper } => format!("FOR VALUES FROM ({}) TO ({})", edges(lower)?, edges(upper)?),
    })
}

/// Splits a literal, or a word, off the start of `text`; the second part of the result is what follows.
fn token(text: &str) -> Option<(Option<String>, &str, &str)> {
    let text = text.trim_start_matches([' ', ',']);
    let Some(rest) = text.strip_prefix('\'') else {
        let end = text.find([',', ')', ' ']).unwrap_or(text.len());
        return Some((None, text.get(..end)?, text.get(end..)?));
    };
    let (mut value, mut at) = (String::new(), 0);
    loop {
        let end = at + rest.get(at..)?.find('\'')?;
        value.push_str(&rest[at..end]);
        if rest[end + 1..].starts_with('\'') {
            value.push('\'');
            at = end + 2;
        } else {
            return Some((Some(value), "", &rest[end + 1..]));
        }
    }
}

/// The values of a parenthesis; what follows it.
fn list<'t>(
    key: &PartitionKey,
    text: &'t str,
    one_column: bool,
    catalog: &dyn CatalogView,
) -> Option<(Vec<RangeEdge>, &'t str)> {
    let mut rest = text.trim_start().strip_prefix('(')?;
    let mut out = Vec::new();
    loop {
        if let Some(after) = rest.trim_start().strip_prefix(')') {
            return Some((out, after));
        }
        let (literal, word, after) = token(rest)?;
        let part = key.parts.get(if one_column { 0 } else { out.len() })?;
        out.push(match literal {
            Some(text) => RangeEdge::Value(
                super::value_host::with_context(catalog, |cx| io::input(part.base_type, &text, -1, cx)).ok()?,
            ),
            None if word == "MINVALUE" => RangeEdge::Min,
            None if word == "MAXVALUE" => RangeEdge::Max,
            None if word == "NULL" => RangeEdge::Value(Datum::Null),
            None => return None,
        });
        rest = after;
    }
}

/// Reads what [`bound_text`] has written.
pub fn read_bound(key: &PartitionKey, text: &str, catalog: &dyn CatalogView) -> Result<PartitionBound> {
    read(key, text, catalog).ok_or_else(|| Error::internal(format!("a partition bound cannot be read: {text}")))
}

fn read(key: &PartitionKey, text: &str, catalog: &dyn CatalogView) -> Option<PartitionBound> {
    if text == "DEFAULT" {
        return Some(PartitionBound::Default);
    }
    let rest = text.strip_prefix("FOR VALUES ")?;
    if let Some(rest) = rest.strip_prefix("WITH (modulus ") {
        let (modulus, rest) = rest.split_once(", remainder ")?;
        let remainder = rest.strip_suffix(')')?;
        return Some(PartitionBound::Hash { modulus: modulus.parse().ok()?, remainder: remainder.parse().ok()? });
    }
    if let Some(rest) = rest.strip_prefix("IN ") {
        let value = |e: RangeEdge| if let RangeEdge::Value(d) = e { Some(d) } else { None };
        return list(key, rest, true, catalog)?
            .0
            .into_iter()
            .map(value)
            .collect::<Option<Vec<_>>>()
            .map(PartitionBound::List);
    }
    let (lower, rest) = list(key, rest.strip_prefix("FROM ")?, false, catalog)?;
    let (upper, _) = list(key, rest.strip_prefix(" TO ")?, false, catalog)?;
    Some(PartitionBound::Range { lower, upper })
}

/// One of PostgreSQL's operator classes.
pub struct BuiltinOperatorClass {
    pub oid: Oid,
    pub method: Oid,
    pub name: &'static str,
    pub input_type: Oid,
    pub is_default: bool,
}

pub fn operator_classes() -> impl Iterator<Item = BuiltinOperatorClass> {
    [&FILES.pg_opclass, &FILES.extension_opclass].into_iter().flat_map(|file| {
        let place = |name: &str| file.column(name);
        let (oid, method, name, input, default) =
            (place("oid"), place("opcmethod"), place("opcname"), place("opcintype"), place("opcdefault"));
        file.rows.iter().map(move |r| BuiltinOperatorClass {
            oid: number(r[oid]),
            method: number(r[method]),
            name: r[name].unwrap_or(""),
            input_type: number(r[input]),
            is_default: r[default] == Some("t"),
        })
    })
}

/// A partition's columns by those of the table that it is a partition of (at whatever distance), by name. None: they
/// are the same.
pub fn column_map(ancestor: &Table, partition: &Table) -> Option<Arc<[Option<usize>]>> {
    let same = ancestor.columns.len() == partition.columns.len()
        && ancestor
            .columns
            .iter()
            .zip(&partition.columns)
            .all(|(a, b)| a.dropped == b.dropped && (a.dropped || a.name == b.name) && a.type_oid == b.type_oid);
    if same {
        return None;
    }
    let place = |name: &str| partition.columns.iter().position(|c| !c.dropped && c.name == name);
    Some(ancestor.columns.iter().map(|c| if c.dropped { None } else { place(&c.name) }).collect())
}
