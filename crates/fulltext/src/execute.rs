//! Does a document satisfy a query? Phrases by the positions of their words.

use crate::query::{QueryItem, QueryOperand, QueryOperator, TsQuery};
use crate::vector::{TsVector, position, weight};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TernaryAnswer {
    No,
    Yes,
    /// Positions would be needed, and there are none.
    Maybe,
}

/// Where something matches: the positions of its last lexeme.
#[derive(Clone, Debug, Default)]
pub struct MatchPositions {
    pub positions: Vec<u16>,
    /// The positions are those where it does not match.
    pub negated: bool,
    /// How far before its last lexeme the match begins.
    pub width: u32,
}

/// Finds a query's words in something.
pub trait WordFinder {
    /// `index` is the operand's among the query's items. `places` is None where positions are not asked for.
    fn find(&self, index: usize, operand: &QueryOperand, places: Option<&mut MatchPositions>) -> TernaryAnswer;
}

#[derive(Clone, Copy)]
struct EmittedSides {
    left: bool,
    right: bool,
    both: bool,
}
const BOTH: EmittedSides = EmittedSides { left: false, right: false, both: true };
const LEFT: EmittedSides = EmittedSides { left: true, right: false, both: false };
const RIGHT: EmittedSides = EmittedSides { left: false, right: true, both: false };
const ANY: EmittedSides = EmittedSides { left: true, right: true, both: true };

/// Merges two ascending lists, moved by their offsets; what is in the left, the right or both is given as `emit` says.
fn merge(
    left: &MatchPositions,
    right: &MatchPositions,
    emit: EmittedSides,
    left_offset: u32,
    right_offset: u32,
) -> Vec<u16> {
    let at = |p: u16, offset: u32| u32::from(position(p)) + offset;
    let mut a = left.positions.iter().map(|p| at(*p, left_offset)).peekable();
    let mut b = right.positions.iter().map(|p| at(*p, right_offset)).peekable();
    let mut out = Vec::new();
    loop {
        let (given, p) = match (a.peek().copied(), b.peek().copied()) {
            (None, None) => break,
            (Some(x), y) if y.is_none_or(|y| x < y) => {
                a.next();
                (emit.left, x)
            }
            (Some(x), Some(y)) if x == y => {
                a.next();
                b.next();
                (emit.both, x)
            }
            (_, y) => {
                b.next();
                (emit.right, y.unwrap_or_default())
            }
        };
        if given && p > 0 {
            out.push(p.min(u32::from(u16::MAX)) as u16);
        }
    }
    out
}

impl TsQuery {
    pub fn matches(&self, words: &dyn WordFinder) -> bool {
        !self.is_empty() && self.answer(0, words) != TernaryAnswer::No
    }
    fn answer(&self, at: usize, words: &dyn WordFinder) -> TernaryAnswer {
        let (operator, left) = match self.items.get(at) {
            None => return TernaryAnswer::No,
            Some(QueryItem::Operand(o)) => return words.find(at, o, None),
            Some(QueryItem::Operator { operator, left, .. }) => (*operator, at + left),
        };
        match operator {
            QueryOperator::Not => match self.answer(at + 1, words) {
                TernaryAnswer::No => TernaryAnswer::Yes,
                TernaryAnswer::Yes => TernaryAnswer::No,
                TernaryAnswer::Maybe => TernaryAnswer::Maybe,
            },
            QueryOperator::And => match self.answer(left, words) {
                TernaryAnswer::No => TernaryAnswer::No,
                first => match self.answer(at + 1, words) {
                    TernaryAnswer::Yes => first,
                    second => second,
                },
            },
            QueryOperator::Or => match self.answer(left, words) {
                TernaryAnswer::Yes => TernaryAnswer::Yes,
                first => match self.answer(at + 1, words) {
                    TernaryAnswer::No => first,
                    second => second,
                },
            },
            QueryOperator::Phrase => match self.places(at, words).0 {
                TernaryAnswer::Yes => TernaryAnswer::Yes,
                // Without positions no phrase is there.
                _ => TernaryAnswer::No,
            },
        }
    }

    fn places(&self, at: usize, words: &dyn WordFinder) -> (TernaryAnswer, MatchPositions) {
        let mut places = MatchPositions::default();
        let (operator, distance, left_at) = match self.items.get(at) {
            None => return (TernaryAnswer::No, places),
            Some(QueryItem::Operand(o)) => {
                let answer = words.find(at, o, Some(&mut places));
                return (answer, places);
            }
            Some(QueryItem::Operator { operator, distance, left }) => (*operator, u32::from(*distance), at + left),
        };
        if operator == QueryOperator::Not {
            return self.not_places(at, words);
        }
        let (left_answer, mut left) = self.places(left_at, words);
        if operator != QueryOperator::Or && left_answer == TernaryAnswer::No {
            return (TernaryAnswer::No, places);
        }
        let (right_answer, mut right) = self.places(at + 1, words);
        match (left_answer, right_answer) {
            (TernaryAnswer::No, TernaryAnswer::No) => return (TernaryAnswer::No, places),
            (_, TernaryAnswer::No) if operator != QueryOperator::Or => return (TernaryAnswer::No, places),
            (TernaryAnswer::Maybe, _) | (_, TernaryAnswer::Maybe) => return (TernaryAnswer::Maybe, places),
            _ => {}
        }
        if left_answer == TernaryAnswer::No {
            left.width = 0;
        }
        if right_answer == TernaryAnswer::No {
            right.width = 0;
        }
        let (left_offset, right_offset) = if operator == QueryOperator::Phrase {
            places.width = distance + left.width + right.width;
            (distance + right.width, 0)
        } else {
            places.width = left.width.max(right.width);
            (places.width - left.width, places.width - right.width)
        };
        let emit = match (operator == QueryOperator::Or, left.negated, right.negated) {
            (false, true, true) => ANY,
            (false, true, false) => RIGHT,
            (false, false, true) => LEFT,
            (false, false, false) => BOTH,
            (true, true, true) => BOTH,
            (true, true, false) => LEFT,
            (true, false, true) => RIGHT,
            (true, false, false) => ANY,
        };
        places.negated =
            if operator == QueryOperator::Or { left.negated || right.negated } else { left.negated && right.negated };
        places.positions = merge(&left, &right, emit, left_offset, right_offset);
        let found = places.negated || !places.positions.is_empty();
        (if found { TernaryAnswer::Yes } else { TernaryAnswer::No }, places)
    }
    fn not_places(&self, at: usize, words: &dyn WordFinder) -> (TernaryAnswer, MatchPositions) {
        let (answer, mut places) = self.places(at + 1, words);
        match answer {
            TernaryAnswer::No => (TernaryAnswer::Yes, MatchPositions { negated: true, ..places }),
            TernaryAnswer::Maybe => (TernaryAnswer::Maybe, places),
            TernaryAnswer::Yes if !places.positions.is_empty() => {
                places.negated = !places.negated;
                (TernaryAnswer::Yes, places)
            }
            TernaryAnswer::Yes => {
                let was_everywhere = std::mem::take(&mut places.negated);
                (if was_everywhere { TernaryAnswer::No } else { TernaryAnswer::Yes }, places)
            }
        }
    }

    /// Where the terms of a query that have to be there are: what headlines look for. None: the query is not satisfied.
    pub fn locations(&self, words: &dyn WordFinder) -> Option<Vec<MatchPositions>> {
        if self.is_empty() { None } else { self.locations_at(0, words) }
    }
    fn locations_at(&self, at: usize, words: &dyn WordFinder) -> Option<Vec<MatchPositions>> {
        match self.items.get(at)? {
            QueryItem::Operand(o) => {
                let mut places = MatchPositions::default();
                (words.find(at, o, Some(&mut places)) == TernaryAnswer::Yes).then(|| vec![places])
            }
            QueryItem::Operator { operator: QueryOperator::Not, .. } => match self.locations_at(at + 1, words) {
                None => Some(Vec::new()),
                Some(_) => None,
            },
            QueryItem::Operator { operator: QueryOperator::And, left, .. } => {
                let mut all = self.locations_at(at + left, words)?;
                all.extend(self.locations_at(at + 1, words)?);
                Some(all)
            }
            QueryItem::Operator { operator: QueryOperator::Or, left, .. } => {
                match (self.locations_at(at + left, words), self.locations_at(at + 1, words)) {
                    (None, None) => None,
                    (Some(a), b) if b.as_ref().is_none_or(Vec::is_empty) => Some(a),
                    (a, Some(b)) if a.as_ref().is_none_or(Vec::is_empty) => Some(b),
                    (a, b) => Some(either(&a.unwrap_or_default(), &b.unwrap_or_default())),
                }
            }
            QueryItem::Operator { operator: QueryOperator::Phrase, .. } => match self.places(at, words) {
                (TernaryAnswer::Yes, places) if places.negated => Some(Vec::new()),
                (TernaryAnswer::Yes, places) => Some(vec![places]),
                _ => None,
            },
        }
    }
}

/// The matches of an OR: one of the left or one of the right; every pair of them is needed.
fn either(left: &[MatchPositions], right: &[MatchPositions]) -> Vec<MatchPositions> {
    let mut all = Vec::with_capacity(left.len() * right.len());
    for a in left {
        for b in right {
            all.push(MatchPositions { positions: merge(a, b, ANY, 0, 0), negated: false, width: a.width.max(b.width) });
        }
    }
    all
}

impl WordFinder for TsVector {
    fn find(&self, _index: usize, operand: &QueryOperand, places: Option<&mut MatchPositions>) -> TernaryAnswer {
        let found = self.lexemes.get(self.matching(&operand.word, operand.prefix)).unwrap_or_default();
        let fits = |p: u16| operand.weights == 0 || operand.weights & 1 << weight(p) != 0;
        let Some(places) = places else {
            let is_there = found.iter().any(|l| l.positions.is_empty() || l.positions.iter().any(|p| fits(*p)));
            return if is_there { TernaryAnswer::Yes } else { TernaryAnswer::No };
        };
        for l in found {
            if l.positions.is_empty() {
                places.positions.clear();
                return TernaryAnswer::Maybe;
            }
            places.positions.extend(l.positions.iter().filter(|p| fits(**p)).map(|p| position(*p)));
        }
        if found.len() > 1 {
            places.positions.sort_unstable();
            places.positions.dedup();
        }
        if places.positions.is_empty() { TernaryAnswer::No } else { TernaryAnswer::Yes }
    }
}
