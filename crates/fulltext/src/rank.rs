//! ts_rank and ts_rank_cd. The arithmetic is PostgreSQL's, in its mixture of single and double precision.

use crate::execute::{MatchPositions, TernaryAnswer, WordFinder};
use crate::query::{QueryItem, QueryOperand, QueryOperator, TsQuery};
use crate::vector::{TsVector, position, weight};
use kilndb_base::{Error, Result, sqlstate};

pub const DEFAULT_WEIGHTS: [f32; 4] = [0.1, 0.2, 0.4, 1.0];

const LOG_LENGTH: i32 = 1;
const LENGTH: i32 = 2;
const EXTENT_DISTANCE: i32 = 4;
const UNIQUE: i32 = 8;
const LOG_UNIQUE: i32 = 16;
const OVER_PLUS_ONE: i32 = 32;

/// The weights of D, C, B and A; a negative one means the default.
pub fn checked_weights(given: &[f32]) -> Result<[f32; 4]> {
    if given.len() < 4 {
        return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, "array of weight is too short"));
    }
    let mut weights = DEFAULT_WEIGHTS;
    for (w, g) in weights.iter_mut().zip(given) {
        if *g >= 0.0 {
            *w = *g;
        }
        if *w > 1.0 {
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "weight out of range"));
        }
    }
    Ok(weights)
}

fn word_distance(w: i32) -> f32 {
    if w > 100 {
        return 1e-30;
    }
    (1.0 / (1.005 + 0.05 * (f64::from(w as f32) / 1.5 - 2.0).exp())) as f32
}

/// The query's words, sorted, each once.
fn unique_operands(query: &TsQuery) -> Vec<&QueryOperand> {
    let mut operands: Vec<&QueryOperand> = query.operands().collect();
    if operands.len() > 1 {
        operands.sort_by(|a, b| a.word.as_bytes().cmp(b.word.as_bytes()));
        operands.dedup_by(|a, b| a.word == b.word);
    }
    operands
}

fn weight_of(weights: &[f32; 4], p: u16) -> f32 {
    weights[usize::from(weight(p))]
}

fn rank_and(weights: &[f32; 4], vector: &TsVector, query: &TsQuery) -> f32 {
    /// The positions of a lexeme that has none.
    const NOWHERE: &[u16] = &[16383];
    let operands = unique_operands(query);
    if operands.len() < 2 {
        return rank_or(weights, vector, query);
    }
    let mut result = -1.0f32;
    let mut seen: Vec<Option<(&[u16], bool)>> = Vec::new();
    for operand in &operands {
        let mut last = None;
        for lexeme in vector.lexemes.get(vector.matching(&operand.word, operand.prefix)).unwrap_or_default() {
            let is_nowhere = lexeme.positions.is_empty();
            let places = if is_nowhere { NOWHERE } else { lexeme.positions.as_slice() };
            last = Some((places, is_nowhere));
            for (others, other_is_nowhere) in seen.iter().flatten() {
                for (a, b) in places.iter().flat_map(|a| others.iter().map(move |b| (*a, *b))) {
                    let mut distance = (i32::from(position(a)) - i32::from(position(b))).abs();
                    if distance == 0 && !(is_nowhere || *other_is_nowhere) {
                        continue;
                    }
                    if distance == 0 {
                        distance = 16384;
                    }
                    let product = weight_of(weights, a) * weight_of(weights, b) * word_distance(distance);
                    let w = f64::from(product).sqrt() as f32;
                    result =
                        if result < 0.0 { w } else { (1.0 - (1.0 - f64::from(result)) * (1.0 - f64::from(w))) as f32 };
                }
            }
        }
        seen.push(last);
    }
    result
}

fn rank_or(weights: &[f32; 4], vector: &TsVector, query: &TsQuery) -> f32 {
    let operands = unique_operands(query);
    let mut result = 0.0f32;
    for operand in &operands {
        for lexeme in vector.lexemes.get(vector.matching(&operand.word, operand.prefix)).unwrap_or_default() {
            let places = if lexeme.positions.is_empty() { &[0][..] } else { lexeme.positions.as_slice() };
            let (mut sum, mut best, mut best_at) = (0.0f32, -1.0f32, 0i32);
            for (j, p) in places.iter().enumerate() {
                let (w, j) = (weight_of(weights, *p), j as i32);
                sum += w / ((j + 1) * (j + 1)) as f32;
                if w > best {
                    (best, best_at) = (w, j);
                }
            }
            let whole = best + sum - best / ((best_at + 1) * (best_at + 1)) as f32;
            result = (f64::from(result) + f64::from(whole) / 1.64493406685) as f32;
        }
    }
    if operands.is_empty() { result } else { result / operands.len() as f32 }
}

pub fn rank(weights: &[f32; 4], vector: &TsVector, query: &TsQuery, method: i32) -> f32 {
    let Some(first) = query.items.first() else { return 0.0 };
    if vector.lexemes.is_empty() {
        return 0.0;
    }
    let is_and = matches!(first, QueryItem::Operator { operator: QueryOperator::And | QueryOperator::Phrase, .. });
    let mut result = if is_and { rank_and(weights, vector, query) } else { rank_or(weights, vector, query) };
    if result < 0.0 {
        result = 1e-20;
    }
    let (length, unique) = (vector.occurrences(), vector.lexemes.len());
    let over = |r: f32, by: f64| (f64::from(r) / by) as f32;
    if method & LOG_LENGTH != 0 {
        result = over(result, ((length + 1) as f64).ln() / 2f64.ln());
    }
    if method & LENGTH != 0 && length > 0 {
        result /= length as f32;
    }
    if method & UNIQUE != 0 {
        result /= unique as f32;
    }
    if method & LOG_UNIQUE != 0 {
        result = over(result, ((unique + 1) as f64).ln() / 2f64.ln());
    }
    if method & OVER_PLUS_ONE != 0 {
        result /= result + 1.0;
    }
    result
}

/// One place in the document, and the query's items that are there.
struct QueryOccurrence {
    position: u16,
    items: Vec<usize>,
}

/// Where a query's words are in order of the document.
fn spots(vector: &TsVector, query: &TsQuery) -> Vec<QueryOccurrence> {
    // (position, weight, lexeme, item)
    let mut all: Vec<(u16, u16, usize, usize)> = Vec::new();
    for (index, item) in query.items.iter().enumerate() {
        let QueryItem::Operand(operand) = item else { continue };
        for at in vector.matching(&operand.word, operand.prefix) {
            let positions = vector.lexemes.get(at).map(|l| l.positions.as_slice()).unwrap_or_default();
            for p in positions.iter().filter(|p| operand.weights == 0 || operand.weights & 1 << weight(**p) != 0) {
                all.push((position(*p), weight(*p), at, index));
            }
        }
    }
    all.sort_unstable();
    let mut out: Vec<QueryOccurrence> = Vec::new();
    let mut last = None;
    for (p, w, lexeme, item) in all {
        match out.last_mut() {
            Some(spot) if last == Some((p, w, lexeme)) => spot.items.push(item),
            _ => out.push(QueryOccurrence { position: p | w << 14, items: vec![item] }),
        }
        last = Some((p, w, lexeme));
    }
    out
}

/// The words of a stretch of the document.
struct DocumentStretch {
    /// Ascending, or descending while one goes backwards.
    positions: Vec<Vec<u16>>,
    backwards: bool,
}
impl DocumentStretch {
    fn clear(&mut self, backwards: bool) {
        self.positions.iter_mut().for_each(Vec::clear);
        self.backwards = backwards;
    }
    fn add(&mut self, spot: &QueryOccurrence) {
        for item in &spot.items {
            let Some(list) = self.positions.get_mut(*item) else { continue };
            if list.last().is_none_or(|last| position(*last) != position(spot.position)) {
                list.push(spot.position);
            }
        }
    }
}
impl WordFinder for DocumentStretch {
    fn find(&self, index: usize, _operand: &QueryOperand, places: Option<&mut MatchPositions>) -> TernaryAnswer {
        let Some(list) = self.positions.get(index).filter(|l| !l.is_empty()) else { return TernaryAnswer::No };
        if let Some(places) = places {
            places.positions.extend_from_slice(list);
            if self.backwards {
                places.positions.reverse();
            }
        }
        TernaryAnswer::Yes
    }
}

/// The next shortest stretch that satisfies the query, from `from` on: first and last spot.
fn cover(
    spots: &[QueryOccurrence],
    query: &TsQuery,
    stretch: &mut DocumentStretch,
    from: &mut usize,
) -> Option<(usize, usize)> {
    loop {
        stretch.clear(false);
        let mut last = None;
        for (i, spot) in spots.iter().enumerate().skip(*from) {
            stretch.add(spot);
            if query.matches(stretch) {
                last = Some(i).filter(|_| position(spot.position) > 0);
                break;
            }
        }
        let last = last?;
        stretch.clear(true);
        for i in (*from..=last).rev() {
            let spot = spots.get(i)?;
            stretch.add(spot);
            if query.matches(stretch) {
                *from = i + 1;
                return Some((i, last));
            }
        }
        *from += 1;
    }
}

pub fn rank_cover(weights: &[f32; 4], vector: &TsVector, query: &TsQuery, method: i32) -> f32 {
    let inverse = weights.map(|w| 1.0 / f64::from(w));
    let spots = spots(vector, query);
    let mut stretch = DocumentStretch { positions: vec![Vec::new(); query.items.len()], backwards: false };
    let (mut from, mut result, mut distances, mut previous, mut extents) = (0, 0.0f64, 0.0f64, 0.0f64, 0u32);
    while let Some((first, last)) = cover(&spots, query, &mut stretch, &mut from) {
        let inside = spots.get(first..=last).unwrap_or_default();
        let sum = inside.iter().fold(0.0, |s, spot| s + inverse[usize::from(weight(spot.position))]);
        let ends = [first, last].map(|i| spots.get(i).map_or(0, |s| i64::from(position(s.position))));
        let between = (last - first) as i64;
        let mut noise = (ends[1] - ends[0]) - between;
        if noise < 0 {
            noise = between / 2;
        }
        result += (between + 1) as f64 / sum / (1 + noise) as f64;
        let middle = (ends[1] + ends[0]) as f64 / 2.0;
        if extents > 0 && middle > previous {
            distances += 1.0 / (middle - previous);
        }
        previous = middle;
        extents += 1;
    }
    let (length, unique) = (vector.occurrences(), vector.lexemes.len());
    if method & LOG_LENGTH != 0 && unique > 0 {
        result /= ((length + 1) as f64).ln();
    }
    if method & LENGTH != 0 && length > 0 {
        result /= length as f64;
    }
    if method & EXTENT_DISTANCE != 0 && extents > 0 && distances > 0.0 {
        result /= f64::from(extents) / distances;
    }
    if method & UNIQUE != 0 && unique > 0 {
        result /= unique as f64;
    }
    if method & LOG_UNIQUE != 0 && unique > 0 {
        result /= ((unique + 1) as f64).ln() / 2f64.ln();
    }
    if method & OVER_PLUS_ONE != 0 {
        result /= result + 1.0;
    }
    result as f32
}
