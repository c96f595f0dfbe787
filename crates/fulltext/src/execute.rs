//! Does a document satisfy a query? Phrases by the positions of their words.

use crate::query::{Item, Operand, Operator, TsQuery};
use crate::vector::{TsVector, position, weight};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    No,
    Yes,
    /// Positions would be needed, and there are none.
    Maybe,
}

/// Where something matches: the positions of its last lexeme.
#[derive(Clone, Debug, Default)]
pub struct Places {
    pub positions: Vec<u16>,
    /// The positions are those where it does not match.
    pub negated: bool,
    /// How far before its last lexeme the match begins.
    pub width: u32,
}

/// Finds a query's words in something.
pub trait Words {
    /// `index` is the operand's among the query's items. `places` is None where positions are not asked for.
    fn find(&self, index: usize, operand: &Operand, places: Option<&mut Places>) -> Answer;
}

#[derive(Clone, Copy)]
struct Emit {
    left: bool,
    right: bool,
    both: bool,
}
const BOTH: Emit = Emit { left: false, right: false, both: true };
const LEFT: Emit = Emit { left: true, right: false, both: false };
const RIGHT: Emit = Emit { left: false, right: true, both: false };
const ANY: Emit = Emit { left: true, right: true, both: true };

/// Merges two ascending lists, moved by their offsets; what is in the left, the right or both is given as `emit` says.
fn merge(left: &Places, right: &Places, emit: Emit, left_offset: u32, right_offset: u32) -> Vec<u16> {
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
    pub fn matches(&self, words: &dyn Words) -> bool {
        !self.is_empty() && self.answer(0, words) != Answer::No
    }
    fn answer(&self, at: usize, words: &dyn Words) -> Answer {
        let (operator, left) = match self.items.get(at) {
            None => return Answer::No,
            Some(Item::Operand(o)) => return words.find(at, o, None),
            Some(Item::Operator { operator, left, .. }) => (*operator, at + left),
        };
        match operator {
            Operator::Not => match self.answer(at + 1, words) {
                Answer::No => Answer::Yes,
                Answer::Yes => Answer::No,
                Answer::Maybe => Answer::Maybe,
            },
            Operator::And => match self.answer(left, words) {
                Answer::No => Answer::No,
                first => match self.answer(at + 1, words) {
                    Answer::Yes => first,
                    second => second,
                },
            },
            Operator::Or => match self.answer(left, words) {
                Answer::Yes => Answer::Yes,
                first => match self.answer(at + 1, words) {
                    Answer::No => first,
                    second => second,
                },
            },
            Operator::Phrase => match self.places(at, words).0 {
                Answer::Yes => Answer::Yes,
                // Without positions no phrase is there.
                _ => Answer::No,
            },
        }
    }

    fn places(&self, at: usize, words: &dyn Words) -> (Answer, Places) {
        let mut places = Places::default();
        let (operator, distance, left_at) = match self.items.get(at) {
            None => return (Answer::No, places),
            Some(Item::Operand(o)) => {
                let answer = words.find(at, o, Some(&mut places));
                return (answer, places);
            }
            Some(Item::Operator { operator, distance, left }) => (*operator, u32::from(*distance), at + left),
        };
        if operator == Operator::Not {
            return self.not_places(at, words);
        }
        let (left_answer, mut left) = self.places(left_at, words);
        if operator != Operator::Or && left_answer == Answer::No {
            return (Answer::No, places);
        }
        let (right_answer, mut right) = self.places(at + 1, words);
        match (left_answer, right_answer) {
            (Answer::No, Answer::No) => return (Answer::No, places),
            (_, Answer::No) if operator != Operator::Or => return (Answer::No, places),
            (Answer::Maybe, _) | (_, Answer::Maybe) => return (Answer::Maybe, places),
            _ => {}
        }
        if left_answer == Answer::No {
            left.width = 0;
        }
        if right_answer == Answer::No {
            right.width = 0;
        }
        let (left_offset, right_offset) = if operator == Operator::Phrase {
            places.width = distance + left.width + right.width;
            (distance + right.width, 0)
        } else {
            places.width = left.width.max(right.width);
            (places.width - left.width, places.width - right.width)
        };
        let emit = match (operator == Operator::Or, left.negated, right.negated) {
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
            if operator == Operator::Or { left.negated || right.negated } else { left.negated && right.negated };
        places.positions = merge(&left, &right, emit, left_offset, right_offset);
        let found = places.negated || !places.positions.is_empty();
        (if found { Answer::Yes } else { Answer::No }, places)
    }
    fn not_places(&self, at: usize, words: &dyn Words) -> (Answer, Places) {
        let (answer, mut places) = self.places(at + 1, words);
        match answer {
            Answer::No => (Answer::Yes, Places { negated: true, ..places }),
            Answer::Maybe => (Answer::Maybe, places),
            Answer::Yes if !places.positions.is_empty() => {
                places.negated = !places.negated;
                (Answer::Yes, places)
            }
            Answer::Yes => {
                let was_everywhere = std::mem::take(&mut places.negated);
                (if was_everywhere { Answer::No } else { Answer::Yes }, places)
            }
        }
    }

    /// Where the terms of a query that have to be there are: what headlines look for. None: the query is not satisfied.
    pub fn locations(&self, words: &dyn Words) -> Option<Vec<Places>> {
        if self.is_empty() { None } else { self.locations_at(0, words) }
    }
    fn locations_at(&self, at: usize, words: &dyn Words) -> Option<Vec<Places>> {
        match self.items.get(at)? {
            Item::Operand(o) => {
                let mut places = Places::default();
                (words.find(at, o, Some(&mut places)) == Answer::Yes).then(|| vec![places])
            }
            Item::Operator { operator: Operator::Not, .. } => match self.locations_at(at + 1, words) {
                None => Some(Vec::new()),
                Some(_) => None,
            },
            Item::Operator { operator: Operator::And, left, .. } => {
                let mut all = self.locations_at(at + left, words)?;
                all.extend(self.locations_at(at + 1, words)?);
                Some(all)
            }
            Item::Operator { operator: Operator::Or, left, .. } => {
                match (self.locations_at(at + left, words), self.locations_at(at + 1, words)) {
                    (None, None) => None,
                    (Some(a), b) if b.as_ref().is_none_or(Vec::is_empty) => Some(a),
                    (a, Some(b)) if a.as_ref().is_none_or(Vec::is_empty) => Some(b),
                    (a, b) => Some(either(&a.unwrap_or_default(), &b.unwrap_or_default())),
                }
            }
            Item::Operator { operator: Operator::Phrase, .. } => match self.places(at, words) {
                (Answer::Yes, places) if places.negated => Some(Vec::new()),
                (Answer::Yes, places) => Some(vec![places]),
                _ => None,
            },
        }
    }
}

/// One of the left or one of the right: every pair of them is needed.
fn either(left: &[Places], right: &[Places]) -> Vec<Places> {
    let mut all = Vec::with_capacity(left.len() * right.len());
    for a in left {
        for b in right {
            all.push(Places { positions: merge(a, b, ANY, 0, 0), negated: false, width: a.width.max(b.width) });
        }
    }
    all
}

impl Words for TsVector {
    fn find(&self, _index: usize, operand: &Operand, places: Option<&mut Places>) -> Answer {
        let found = self.lexemes.get(self.matching(&operand.word, operand.prefix)).unwrap_or_default();
        let fits = |p: u16| operand.weights == 0 || operand.weights & 1 << weight(p) != 0;
        let Some(places) = places else {
            let is_there = found.iter().any(|l| l.positions.is_empty() || l.positions.iter().any(|p| fits(*p)));
            return if is_there { Answer::Yes } else { Answer::No };
        };
        for l in found {
            if l.positions.is_empty() {
                places.positions.clear();
                return Answer::Maybe;
            }
            places.positions.extend(l.positions.iter().filter(|p| fits(**p)).map(|p| position(*p)));
        }
        if found.len() > 1 {
            places.positions.sort_unstable();
            places.positions.dedup();
        }
        if places.positions.is_empty() { Answer::No } else { Answer::Yes }
    }
}
