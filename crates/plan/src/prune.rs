//! Pruning: the partitions that conditions leave.
//!
//! Invariant: a partition that is left out has no row for which the conditions are true.

use super::expression::Expression;
use super::partition::{PruneCondition, PruneSubject};
use kilndb_base::Result;
use kilndb_catalog::operator_class::{EQUAL, SupportFunctionCaller};
use kilndb_catalog::partition::{PartitionMap, PartitionStrategy};
use kilndb_types::{Datum, key};

/// Gives conditions' values, and calls functions of users' operator classes with them.
pub trait PruneValues: SupportFunctionCaller {
    /// The value of an expression; None: it is not known yet.
    fn value(&mut self, e: &Expression) -> Result<Option<Datum>>;
}

/// What the conditions say about one column of the key.
#[derive(Default)]
struct ColumnConditions {
    equal: Option<Datum>,
    lower: Option<(Datum, bool)>,
    upper: Option<(Datum, bool)>,
    any_of: Option<Vec<Datum>>,
    is_null: bool,
    not_null: bool,
}

/// Positions of partitions, in order. `columns`: where the columns that conditions speak of are in the map's table;
/// None: the same. `is_named`: the conditions' expressions are those of this map's key.
pub fn candidates(
    map: &PartitionMap,
    prune: &PruneCondition,
    columns: Option<&[Option<usize>]>,
    is_named: bool,
    values: &mut dyn PruneValues,
) -> Result<Vec<usize>> {
    let found = level(map, prune, columns, is_named, values)?;
    Ok(found.unwrap_or_else(|| (0..map.partitions.len()).collect()))
}

/// The partition, if the conditions say nothing but what the key's only column equals. None: they say more, or less.
#[inline]
pub fn only(map: &PartitionMap, prune: &PruneCondition, values: &mut dyn PruneValues) -> Result<Option<Option<usize>>> {
    let (PruneCondition::All(parts), [key]) = (prune, map.key.parts.as_slice()) else { return Ok(None) };
    match parts.as_slice() {
        [PruneCondition::Compare { subject: PruneSubject::Column(attnum), strategy: EQUAL, operator, value }]
            if *attnum == key.attnum && key.is_equality(*operator) =>
        {
            let Some(value) = values.value(value)? else { return Ok(None) };
            if value.is_null() { Ok(Some(None)) } else { map.find(&[&value], values).map(Some) }
        }
        _ => Ok(None),
    }
}

/// The partitions that are left; None: all.
fn level(
    map: &PartitionMap,
    prune: &PruneCondition,
    columns: Option<&[Option<usize>]>,
    is_named: bool,
    values: &mut dyn PruneValues,
) -> Result<Option<Vec<usize>>> {
    let alone;
    let parts = match prune {
        PruneCondition::All(parts) => parts.as_slice(),
        PruneCondition::Any(parts) => {
            let mut all = Vec::new();
            for part in parts {
                match level(map, part, columns, is_named, values)? {
                    Some(some) => all.extend(some),
                    None => return Ok(None),
                }
            }
            all.sort_unstable();
            all.dedup();
            return Ok(Some(all));
        }
        one => {
            alone = std::slice::from_ref(one);
            alone
        }
    };
    let place = |subject: &PruneSubject| match *subject {
        PruneSubject::Expression(i) => Some(i).filter(|_| is_named),
        PruneSubject::Column(attnum) => {
            let own = match columns {
                None => attnum,
                Some(map) => map.get(attnum as usize - 1).copied().flatten()? as i16 + 1,
            };
            map.key.parts.iter().position(|p| p.attnum == own)
        }
    };
    let mut known: Vec<ColumnConditions> = map.key.parts.iter().map(|_| ColumnConditions::default()).collect();
    let mut result: Option<Vec<usize>> = None;
    for part in parts {
        match part {
            PruneCondition::Compare { subject, strategy, operator, value } => {
                let Some(at) = place(subject) else { continue };
                if map.key.parts[at].class.is_some()
                    && !(*strategy == EQUAL && map.key.parts[at].is_equality(*operator))
                {
                    continue;
                }
                let Some(value) = values.value(value)? else { continue };
                if value.is_null() {
                    return Ok(Some(Vec::new()));
                }
                known[at].compare(*strategy, value, map.key.parts[at].base_type);
            }
            PruneCondition::AnyOf { subject, operator, array } => {
                let Some(at) = place(subject).filter(|at| map.key.parts[*at].is_equality(*operator)) else { continue };
                match values.value(array)? {
                    Some(Datum::Array(list)) => {
                        known[at].any_of = Some(list.elements.iter().filter(|d| !d.is_null()).cloned().collect())
                    }
                    Some(_) => return Ok(Some(Vec::new())),
                    None => {}
                }
            }
            PruneCondition::Null { subject, negated } => {
                if let Some(at) = place(subject) {
                    if *negated { known[at].not_null = true } else { known[at].is_null = true }
                }
            }
            nested => {
                if let Some(some) = level(map, nested, columns, is_named, values)? {
                    result = Some(both(result, some));
                }
            }
        }
    }
    if let Some(some) = by_key(map, &mut known, values)? {
        result = Some(both(result, some));
    }
    Ok(result)
}

fn both(a: Option<Vec<usize>>, b: Vec<usize>) -> Vec<usize> {
    match a {
        Some(a) => a.into_iter().filter(|i| b.contains(i)).collect(),
        None => b,
    }
}

impl ColumnConditions {
    fn compare(&mut self, strategy: u8, value: Datum, ty: kilndb_base::Oid) {
        let tighter = |old: &Option<(Datum, bool)>, higher: bool| {
            old.as_ref().is_none_or(|(known, _)| {
                if higher { key::compare(ty, &value, known).is_ge() } else { key::compare(ty, &value, known).is_le() }
            })
        };
        match strategy {
            EQUAL => self.equal = Some(value),
            1 | 2 if tighter(&self.upper, false) => self.upper = Some((value, strategy == 2)),
            4 | 5 if tighter(&self.lower, true) => self.lower = Some((value, strategy == 4)),
            _ => {}
        }
    }
    fn says_something(&self) -> bool {
        self.equal.is_some()
            || self.lower.is_some()
            || self.upper.is_some()
            || self.any_of.is_some()
            || self.is_null
            || self.not_null
    }
}

fn by_key(
    map: &PartitionMap,
    known: &mut [ColumnConditions],
    functions: &mut dyn PruneValues,
) -> Result<Option<Vec<usize>>> {
    if !known.iter().any(ColumnConditions::says_something) {
        return Ok(None);
    }
    if known.iter().any(|k| {
        k.is_null && (k.not_null || k.equal.is_some() || k.lower.is_some() || k.upper.is_some() || k.any_of.is_some())
    }) {
        return Ok(Some(Vec::new()));
    }
    // The elements of the first array are looked up one after the other.
    if let Some(at) = known.iter().position(|k| k.equal.is_none() && k.any_of.is_some()) {
        let list = known[at].any_of.take().unwrap_or_default();
        let mut all = Vec::new();
        for value in list {
            known[at].equal = Some(value);
            match by_key(map, known, functions)? {
                Some(some) => all.extend(some),
                None => return Ok(None),
            }
        }
        all.sort_unstable();
        all.dedup();
        return Ok(Some(all));
    }
    let mut out = Vec::new();
    let null = Datum::Null;
    let whole: Option<Vec<&Datum>> =
        known.iter().map(|k| if k.is_null { Some(&null) } else { k.equal.as_ref() }).collect();
    if let Some(values) = whole {
        out.extend(map.find(&values, functions)?);
        return Ok(Some(out));
    }
    match map.key.strategy {
        PartitionStrategy::Hash => return Ok(None),
        PartitionStrategy::Range if known.iter().any(|k| k.is_null) => map.with_nulls(&mut out),
        // The order of such values is known only to the functions of their classes.
        PartitionStrategy::Range if map.key.has_user_classes() => return Ok(None),
        PartitionStrategy::Range => {
            let equal: Vec<&Datum> = known.iter().map_while(|k| k.equal.as_ref()).collect();
            let Some(next) = known.get(equal.len()) else { return Ok(None) };
            if equal.is_empty() && next.lower.is_none() && next.upper.is_none() {
                return Ok(None);
            }
            let bound = |b: &'_ Option<(Datum, bool)>| b.as_ref().map(|(d, inclusive)| (d.clone(), *inclusive));
            let (lower, upper) = (bound(&next.lower), bound(&next.upper));
            map.between(&equal, lower.as_ref().map(|(d, i)| (d, *i)), upper.as_ref().map(|(d, i)| (d, *i)), &mut out);
        }
        PartitionStrategy::List => {
            let Some(only) = known.first() else { return Ok(None) };
            if only.lower.is_some() || only.upper.is_some() {
                map.between(
                    &[],
                    only.lower.as_ref().map(|(d, i)| (d, *i)),
                    only.upper.as_ref().map(|(d, i)| (d, *i)),
                    &mut out,
                );
            } else if only.not_null {
                map.without_nulls(&mut out);
            } else {
                return Ok(None);
            }
        }
    }
    Ok(Some(out))
}
