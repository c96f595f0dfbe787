//! Where a value stands among others of its type: comparisons of values of kindred types, places within a histogram.

use kilndb_base::Oid;
use kilndb_base::sync::Arc;
use kilndb_catalog::column_statistics::ColumnStatistics;
use kilndb_types::Datum;
use kilndb_types::key::compare;
use std::cmp::Ordering;

/// The order of two values; None: their types are not kindred.
pub(super) fn order(ty: Oid, a: &Datum, b: &Datum) -> Option<Ordering> {
    if std::mem::discriminant(a) == std::mem::discriminant(b) {
        return Some(compare(ty, a, b));
    }
    scalar(a)?.partial_cmp(&scalar(b)?)
}

/// A number that grows with the value, of types that have one.
fn scalar(value: &Datum) -> Option<f64> {
    const DAY_MICROS: f64 = 86_400e6;
    Some(match value {
        Datum::Bool(b) => f64::from(u8::from(*b)),
        Datum::Char(c) => f64::from(*c),
        Datum::Int2(n) => f64::from(*n),
        Datum::Int4(n) => f64::from(*n),
        Datum::Int8(n) => *n as f64,
        Datum::Float4(n) => f64::from(*n),
        Datum::Float8(n) => *n,
        Datum::Oid(n) => f64::from(*n),
        Datum::Numeric(n) => n.to_f64(),
        Datum::Date(days) => f64::from(*days) * DAY_MICROS,
        Datum::Time(micros) | Datum::Timestamp(micros) | Datum::TimestampTz(micros) => *micros as f64,
        Datum::TimeTz(micros, zone) => *micros as f64 + f64::from(*zone) * 1e6,
        Datum::U64(n) => *n as f64,
        _ => return None,
    })
}

/// The bytes of a value whose order is that of its bytes.
fn bytes(value: &Datum) -> Option<&[u8]> {
    Some(match value {
        Datum::Text(text) => text.as_bytes(),
        Datum::Bytea(bytes) => bytes,
        Datum::Uuid(bytes) => bytes,
        Datum::MacAddr(bytes) => bytes,
        Datum::MacAddr8(bytes) => bytes,
        _ => return None,
    })
}

/// How far between two bounds a value stands: from 0 to 1.
fn position_between(low: &Datum, high: &Datum, value: &Datum) -> f64 {
    let numbers = match (scalar(low), scalar(high), scalar(value)) {
        (Some(low), Some(high), Some(value)) => Some((low, high, value)),
        _ => match (bytes(low), bytes(high), bytes(value)) {
            (Some(low), Some(high), Some(value)) => {
                let common = low.iter().zip(high).take_while(|(a, b)| a == b).count();
                let number = |bytes: &[u8]| {
                    (0..8).fold(0.0, |sum, i| sum * 256.0 + bytes.get(common + i).copied().map_or(0.0, f64::from))
                };
                Some((number(low), number(high), number(value)))
            }
            _ => None,
        },
    };
    match numbers {
        Some((low, high, value)) if high > low && (high - low).is_finite() => {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        }
        _ => 0.5,
    }
}

/// The share of the histogram's values that are less than a value; None: they cannot be compared with it.
pub(super) fn share_below(ty: Oid, histogram: &[Datum], value: &Datum) -> Option<f64> {
    let (first, parts) = (histogram.first()?, histogram.len().checked_sub(1).filter(|n| *n > 0)?);
    order(ty, first, value)?;
    let below = histogram.partition_point(|bound| order(ty, bound, value) == Some(Ordering::Less));
    let share = match below {
        0 => 0.0,
        n if n > parts => 1.0,
        n => (n as f64 - 1.0 + position_between(&histogram[n - 1], &histogram[n], value)) / parts as f64,
    };
    // The table may have values beyond the sample's.
    let cutoff = 0.01 / parts as f64;
    Some(share.clamp(cutoff, 1.0 - cutoff))
}

/// The statistics of parts of a table, each with its number of rows, as those of the whole. `divided`: the number of
/// parts, if each value belongs to one of them.
pub(super) fn merged(
    ty: Oid,
    parts: &[(f64, Arc<ColumnStatistics>)],
    divided: Option<usize>,
) -> Option<Arc<ColumnStatistics>> {
    let all: f64 = parts.iter().map(|(rows, _)| rows).sum();
    let average = |of: &dyn Fn(&ColumnStatistics) -> f64| parts.iter().map(|(rows, s)| rows / all * of(s)).sum();
    let (_, first) = parts.first()?;
    let mut whole = ColumnStatistics {
        null_fraction: average(&|s| s.null_fraction),
        width_bytes: average(&|s| s.width_bytes),
        distinct: merged_distinct(parts, divided),
        correlation: average(&|s| s.correlation),
        elements: first.elements.clone(),
        ..ColumnStatistics::default()
    };
    let mut common: Vec<(Datum, f64)> = Vec::new();
    let mut bounds: Vec<(Datum, f64)> = Vec::new();
    for (rows, s) in parts {
        for (value, frequency) in s.common.iter().zip(&s.frequencies) {
            match common.iter_mut().find(|(known, _)| compare(ty, known, value).is_eq()) {
                Some((_, sum)) => *sum += frequency * rows / all,
                None => common.push((value.clone(), frequency * rows / all)),
            }
        }
        let rest = super::share_of_others(s) * rows;
        bounds.extend(s.histogram.iter().map(|b| (b.clone(), rest / s.histogram.len() as f64)));
    }
    common.sort_by(|a, b| b.1.total_cmp(&a.1));
    // What is not kept as a common value is a part of what the histogram describes.
    let cut_off = common.split_off(common.len().min(MERGED_VALUES));
    bounds.extend(cut_off.into_iter().map(|(value, frequency)| (value, frequency * all)));
    (whole.common, whole.frequencies) = common.into_iter().unzip();
    whole.histogram = merged_histogram(ty, bounds);
    Some(Arc::new(whole))
}

/// How many common values and parts of a histogram are kept of a partitioned table's column.
const MERGED_VALUES: usize = 100;

fn merged_distinct(parts: &[(f64, Arc<ColumnStatistics>)], divided: Option<usize>) -> f64 {
    let most = parts.iter().map(|(_, s)| s.distinct).fold(f64::NEG_INFINITY, f64::max);
    match divided {
        _ if parts.iter().any(|(_, s)| s.distinct < 0.0) => {
            parts.iter().map(|(_, s)| s.distinct).fold(f64::INFINITY, f64::min)
        }
        Some(all) => parts.iter().map(|(_, s)| s.distinct).sum::<f64>() * all as f64 / parts.len() as f64,
        None => most,
    }
}

fn merged_histogram(ty: Oid, mut bounds: Vec<(Datum, f64)>) -> Vec<Datum> {
    bounds.sort_by(|a, b| compare(ty, &a.0, &b.0));
    let all: f64 = bounds.iter().map(|(_, weight)| weight).sum();
    let Some((last, _)) = bounds.last().cloned() else { return Vec::new() };
    let (mut kept, mut sum) = (Vec::new(), 0.0);
    for (value, weight) in bounds {
        if sum >= all * kept.len() as f64 / MERGED_VALUES as f64 {
            kept.push(value);
        }
        sum += weight;
    }
    kept.push(last);
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::oids;

    #[test]
    fn a_value_stands_between_bounds() {
        let histogram: Vec<Datum> = [0, 10, 20, 30, 40].map(Datum::Int4).to_vec();
        let share = |value| share_below(oids::INT4, &histogram, &value);
        assert_eq!(share(Datum::Int4(15)), Some(0.375));
        assert_eq!(share(Datum::Int8(20)), Some(0.5));
        assert_eq!(share(Datum::Int4(-5)), Some(0.0025));
        assert_eq!(share(Datum::Int4(99)), Some(0.9975));
        assert_eq!(share(Datum::text("a")), None);
        let texts: Vec<Datum> = ["aa", "ac"].map(Datum::text).to_vec();
        let share = share_below(oids::TEXT, &texts, &Datum::text("ab")).expect("texts have places");
        assert!((share - 0.5).abs() < 0.01, "{share}");
    }

    /// Two halves of a table, one of which has the lesser values.
    #[test]
    fn parts_make_a_whole() {
        let part = |from: i32| {
            let histogram = (0..=100).map(|i| Datum::Int4(from + i * 10)).collect();
            let common = (vec![Datum::Int4(7)], vec![0.5]);
            let (common, frequencies) = common;
            (
                1000.0,
                Arc::new(ColumnStatistics { distinct: 40.0, common, frequencies, histogram, ..Default::default() }),
            )
        };
        let whole = merged(oids::INT4, &[part(0), part(1000)], Some(2)).expect("there are parts");
        assert_eq!((whole.distinct, whole.frequencies[0]), (80.0, 0.5));
        let below = share_below(oids::INT4, &whole.histogram, &Datum::Int4(1000)).expect("a place");
        assert!((below - 0.5).abs() < 0.02, "{below}");
    }

    /// Each part has common values alone, and all of them are more than are kept.
    #[test]
    fn common_values_that_are_too_many_make_a_histogram() {
        let part = |from: i32| {
            let common: Vec<Datum> = (0..60).map(|i| Datum::Int4(from + i)).collect();
            let frequencies = vec![1.0 / 60.0; 60];
            (1000.0, Arc::new(ColumnStatistics { distinct: 60.0, common, frequencies, ..Default::default() }))
        };
        let parts: Vec<_> = (0..6).map(|n| part(n * 60)).collect();
        let whole = merged(oids::INT4, &parts, Some(6)).expect("there are parts");
        let common: f64 = whole.frequencies.iter().sum();
        let of_common = |below: i32| {
            let is_below = |(value, _): &(&Datum, &f64)| matches!(value, Datum::Int4(n) if *n < below);
            whole.common.iter().zip(&whole.frequencies).filter(is_below).map(|(_, f)| f).sum::<f64>()
        };
        let below = share_below(oids::INT4, &whole.histogram, &Datum::Int4(180)).expect("a place");
        let share = of_common(180) + (1.0 - common) * below;
        assert!((share - 0.5).abs() < 0.05, "{share}");
    }
}
