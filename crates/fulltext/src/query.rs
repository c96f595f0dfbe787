//! tsquery: a search condition, held as its items in prefix order.
//!
//! Invariants
//! 1. An operator's right operand comes right behind it, the left one `left` items behind it (NOT has only the first).
//! 2. The tree is no deeper than [`DEPTH_MAX`].

use crate::vector::{Reader, write_quoted};
use kilndb_base::{Error, Result, sqlstate};
use std::cmp::Ordering;

/// What a session's stack takes with room to spare.
pub const DEPTH_MAX: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum QueryOperator {
    Not = 1,
    And = 2,
    Or = 3,
    Phrase = 4,
}
impl QueryOperator {
    pub(crate) fn priority(self) -> i32 {
        match self {
            QueryOperator::Or => 1,
            QueryOperator::And => 2,
            QueryOperator::Phrase => 3,
            QueryOperator::Not => 4,
        }
    }
    fn from_code(code: u8) -> Result<QueryOperator> {
        Ok(match code {
            1 => QueryOperator::Not,
            2 => QueryOperator::And,
            3 => QueryOperator::Or,
            4 => QueryOperator::Phrase,
            _ => return Err(Error::internal(format!("invalid tsquery: unrecognized operator type {}", code as i8))),
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct QueryOperand {
    pub word: Box<str>,
    /// A bit per weight; 0: any.
    pub weights: u8,
    pub prefix: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QueryItem {
    Operand(QueryOperand),
    Operator { operator: QueryOperator, distance: u16, left: usize },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TsQuery {
    pub items: Vec<QueryItem>,
}

#[cold]
pub(crate) fn too_deep() -> Error {
    Error::new(sqlstate::STATEMENT_TOO_COMPLEX, "stack depth limit exceeded")
        .with_hint(format!("A tsquery may be {DEPTH_MAX} operators deep."))
}

/// PostgreSQL's old CRC-32, which decides the order of operands.
pub(crate) fn legacy_crc(bytes: &[u8]) -> i32 {
    const fn table() -> [u32; 256] {
        let mut table = [0u32; 256];
        let mut i = 0;
        while i < 256 {
            let mut v = i as u32;
            let mut k = 0;
            while k < 8 {
                v = if v & 1 == 1 { v >> 1 ^ 0xedb8_8320 } else { v >> 1 };
                k += 1;
            }
            table[i] = v;
            i += 1;
        }
        table
    }
    static TABLE: [u32; 256] = table();
    // The table is the reflected one, the register is not.
    let crc = bytes.iter().fold(u32::MAX, |crc, b| TABLE[usize::from((crc >> 24) as u8 ^ *b)] ^ crc << 8);
    !crc as i32
}

impl TsQuery {
    /// A query of items whose `left` is not yet known.
    pub(crate) fn link(mut items: Vec<QueryItem>) -> Result<TsQuery> {
        // From the end: how long the subtree that begins at an item is, and how deep.
        let mut sizes: Vec<(usize, usize)> = vec![(0, 0); items.len() + 1];
        let malformed = || Error::internal("malformed tsquery: operand not found");
        for at in (0..items.len()).rev() {
            let (size, depth) = match &mut items[at] {
                QueryItem::Operand(_) => (1, 1),
                QueryItem::Operator { operator, left, .. } => {
                    let (right_size, right_depth) = sizes[at + 1];
                    if right_size == 0 {
                        return Err(malformed());
                    }
                    if *operator == QueryOperator::Not {
                        *left = 1;
                        (1 + right_size, 1 + right_depth)
                    } else {
                        *left = 1 + right_size;
                        let (left_size, left_depth) = *sizes.get(at + *left).ok_or_else(malformed)?;
                        if left_size == 0 {
                            return Err(malformed());
                        }
                        (1 + right_size + left_size, 1 + right_depth.max(left_depth))
                    }
                }
            };
            if depth > DEPTH_MAX {
                return Err(too_deep());
            }
            sizes[at] = (size, depth);
        }
        if sizes[0].0 != items.len() {
            return Err(Error::internal("malformed tsquery: extra nodes"));
        }
        Ok(TsQuery { items })
    }
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }
    pub fn operands(&self) -> impl Iterator<Item = &QueryOperand> {
        self.items.iter().filter_map(|i| match i {
            QueryItem::Operand(o) => Some(o),
            QueryItem::Operator { .. } => None,
        })
    }

    pub fn write(&self, out: &mut Vec<u8>) {
        if !self.is_empty() {
            self.write_item(0, -1, false, out);
        }
    }
    fn write_item(&self, at: usize, parent: i32, is_right_of_phrase: bool, out: &mut Vec<u8>) {
        match self.items.get(at) {
            None => {}
            Some(QueryItem::Operand(o)) => {
                write_quoted(&o.word, out);
                if o.weights != 0 || o.prefix {
                    out.push(b':');
                }
                if o.prefix {
                    out.push(b'*');
                }
                for (bit, letter) in [(3, b'A'), (2, b'B'), (1, b'C'), (0, b'D')] {
                    if o.weights & 1 << bit != 0 {
                        out.push(letter);
                    }
                }
            }
            Some(QueryItem::Operator { operator, distance, left }) => {
                let priority = operator.priority();
                let parentheses = priority < parent || (*operator == QueryOperator::Phrase && is_right_of_phrase);
                if parentheses {
                    out.extend_from_slice(b"( ");
                }
                if *operator == QueryOperator::Not {
                    out.push(b'!');
                    self.write_item(at + 1, priority, false, out);
                } else {
                    self.write_item(at + left, priority, false, out);
                    match operator {
                        QueryOperator::Or => out.extend_from_slice(b" | "),
                        QueryOperator::And => out.extend_from_slice(b" & "),
                        _ if *distance == 1 => out.extend_from_slice(b" <-> "),
                        _ => out.extend_from_slice(format!(" <{distance}> ").as_bytes()),
                    }
                    self.write_item(at + 1, priority, *operator == QueryOperator::Phrase, out);
                }
                if parentheses {
                    out.extend_from_slice(b" )");
                }
            }
        }
    }

    pub fn send(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.items.len() as u32).to_be_bytes());
        for item in &self.items {
            match item {
                QueryItem::Operand(o) => {
                    out.extend_from_slice(&[1, o.weights, u8::from(o.prefix)]);
                    out.extend_from_slice(o.word.as_bytes());
                    out.push(0);
                }
                QueryItem::Operator { operator, distance, .. } => {
                    out.extend_from_slice(&[2, *operator as u8]);
                    if *operator == QueryOperator::Phrase {
                        out.extend_from_slice(&distance.to_be_bytes());
                    }
                }
            }
        }
    }
    /// The binary form as a client (or a stored row) has it.
    pub fn receive(bytes: &[u8]) -> Result<TsQuery> {
        let mut r = Reader(bytes);
        let count = r.u32()?;
        if count > 0x3fff_ffff / 12 {
            return Err(Error::internal("invalid size of tsquery"));
        }
        let mut items = Vec::new();
        for i in 0..count {
            match r.u8()? {
                1 => {
                    let (weights, prefix, word) = (r.u8()?, r.u8()? != 0, r.text()?);
                    if weights > 0xf {
                        return Err(Error::internal("invalid tsquery: invalid weight bitmap"));
                    }
                    if word.len() > crate::lexeme_scan::LEXEME_BYTES {
                        return Err(Error::internal("invalid tsquery: operand too long"));
                    }
                    items.push(QueryItem::Operand(QueryOperand { word: word.into(), weights, prefix }));
                }
                2 => {
                    let operator = QueryOperator::from_code(r.u8()?)?;
                    if i + 1 == count {
                        return Err(Error::internal("invalid pointer to right operand"));
                    }
                    let distance = if operator == QueryOperator::Phrase { r.u16()? } else { 0 };
                    items.push(QueryItem::Operator { operator, distance, left: 0 });
                }
                other => return Err(Error::internal(format!("unrecognized tsquery node type: {other}"))),
            }
        }
        r.end()?;
        if items.is_empty() { Ok(TsQuery::default()) } else { TsQuery::link(items) }
    }

    /// Bytes in PostgreSQL's form, without its length word.
    pub fn stored_bytes(&self) -> usize {
        4 + 12 * self.items.len() + self.operands().map(|o| o.word.len() + 1).sum::<usize>()
    }

    pub fn compare(&self, other: &TsQuery) -> Ordering {
        let (mut a, mut b) = (Vec::new(), Vec::new());
        self.sort_key(&mut a);
        other.sort_key(&mut b);
        a.cmp(&b)
    }
    /// Bytes that sort as the values do; weights and prefixes do not count.
    pub fn sort_key(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.items.len() as u32).to_be_bytes());
        let bytes: usize = self.operands().map(|o| o.word.len() + 1).sum();
        out.extend_from_slice(&(bytes as u32).to_be_bytes());
        if !self.is_empty() {
            self.item_key(0, out);
        }
    }
    fn item_key(&self, at: usize, out: &mut Vec<u8>) {
        match self.items.get(at) {
            None => {}
            Some(QueryItem::Operand(o)) => {
                out.push(1);
                out.extend_from_slice(&(!(legacy_crc(o.word.as_bytes()) as u32 ^ 0x8000_0000)).to_be_bytes());
                out.extend_from_slice(o.word.as_bytes());
                out.push(0);
            }
            Some(QueryItem::Operator { operator, distance, left }) => {
                out.extend_from_slice(&[0, !(*operator as u8)]);
                self.item_key(at + 1, out);
                if *operator != QueryOperator::Not {
                    self.item_key(at + left, out);
                }
                if *operator == QueryOperator::Phrase {
                    out.extend_from_slice(&(!distance).to_be_bytes());
                }
            }
        }
    }

    /// `left operator right`; an empty query gives the other one.
    pub fn join(&self, operator: QueryOperator, right: &TsQuery, distance: i32) -> Result<TsQuery> {
        if operator == QueryOperator::Phrase && !(0..=16384).contains(&distance) {
            return Err(bad_distance());
        }
        if self.is_empty() {
            return Ok(right.clone());
        }
        if right.is_empty() {
            return Ok(self.clone());
        }
        let distance = if operator == QueryOperator::Phrase { distance as u16 } else { 0 };
        let mut items = vec![QueryItem::Operator { operator, distance, left: 0 }];
        items.extend(right.items.iter().cloned());
        items.extend(self.items.iter().cloned());
        TsQuery::link(items)
    }
    pub fn negate(&self) -> Result<TsQuery> {
        if self.is_empty() {
            return Ok(TsQuery::default());
        }
        let mut items = vec![QueryItem::Operator { operator: QueryOperator::Not, distance: 0, left: 0 }];
        items.extend(self.items.iter().cloned());
        TsQuery::link(items)
    }
    /// True if all words of the other are among this one's.
    pub fn contains(&self, other: &TsQuery) -> bool {
        let mut mine: Vec<&str> = self.operands().map(|o| &*o.word).collect();
        mine.sort_unstable();
        other.operands().all(|o| mine.binary_search(&&*o.word).is_ok())
    }

    /// What an index could look for: without NOT. `T` if nothing is left.
    pub fn indexable_text(&self) -> String {
        if self.is_empty() {
            return String::new();
        }
        let mut kept = Vec::new();
        if !self.without_not(0, &mut kept) {
            return "T".into();
        }
        let mut out = Vec::new();
        if let Ok(query) = TsQuery::link(kept) {
            query.write(&mut out);
        }
        String::from_utf8(out).unwrap_or_default()
    }
    /// Appends the subtree without its NOTs; false (and nothing appended) if nothing is left.
    fn without_not(&self, at: usize, out: &mut Vec<QueryItem>) -> bool {
        match self.items.get(at) {
            None => false,
            Some(item @ QueryItem::Operand(_)) => {
                out.push(item.clone());
                true
            }
            Some(QueryItem::Operator { operator: QueryOperator::Not, .. }) => false,
            Some(QueryItem::Operator { operator, distance, left }) => {
                let start = out.len();
                out.push(QueryItem::Operator { operator: *operator, distance: *distance, left: 0 });
                let right = self.without_not(at + 1, out);
                let left = self.without_not(at + left, out);
                if right && left {
                    return true;
                }
                if *operator == QueryOperator::Or || !(right || left) {
                    out.truncate(start);
                    return false;
                }
                out.remove(start);
                true
            }
        }
    }
}

#[cold]
pub(crate) fn bad_distance() -> Error {
    let message = "distance in phrase operator must be an integer value between zero and 16384 inclusive";
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}
