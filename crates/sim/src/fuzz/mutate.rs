//! Randomness that a seed repeats, and mutations of bytes.

use super::Corpus;

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// A few changes of single bytes and short pieces, some of them pieces of another text.
pub fn bytes(random: &mut Random, corpus: &Corpus, bytes: &mut Vec<u8>) {
    for _ in 0..=random.below(4) {
        let at = random.below(bytes.len() + 1);
        match random.below(6) {
            0 if at < bytes.len() => bytes[at] = random.next() as u8,
            1 if at < bytes.len() => {
                bytes.remove(at);
            }
            2 => {
                const MARKS: &[u8] = b"'\"()[]{};,.$\\%*+-/<>=~ \t\n0123456789eE";
                bytes.insert(at, MARKS[random.below(MARKS.len())]);
            }
            3 => {
                let end = (at + random.below(20)).min(bytes.len());
                let part = bytes[at.min(end)..end].to_vec();
                let to = random.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            4 => {
                let end = (at + random.below(30)).min(bytes.len());
                bytes.drain(at.min(end)..end);
            }
            _ => {
                let other = corpus.any(random).as_bytes();
                let from = random.below(other.len());
                let to = (from + random.below(25)).min(other.len());
                bytes.splice(at..at, other[from..to].iter().copied());
            }
        }
    }
}

/// Words, numbers, strings, operators and marks of a text, each with the white space behind it: what mutations that
/// keep most texts well-formed exchange.
fn tokens(text: &str) -> Vec<&str> {
    const OPERATOR: &str = "+-*/<>=~!@#%^&|?:";
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_alphanumeric() || c == '_';
        let span = |belongs: &dyn Fn(char) -> bool| rest.find(|c| !belongs(c)).unwrap_or(rest.len());
        let length = if first.is_ascii_digit() {
            span(&|c| word(c) || c == '.')
        } else if word(first) || first == '$' {
            span(&|c| word(c) || c == '$')
        } else if first == '\'' {
            rest[1..].find('\'').map_or(rest.len(), |end| end + 2)
        } else if OPERATOR.contains(first) {
            span(&|c| OPERATOR.contains(c))
        } else {
            first.len_utf8()
        };
        let blanks = rest[length..].find(|c: char| !c.is_whitespace()).unwrap_or(rest.len() - length);
        let (token, after) = rest.split_at(length + blanks);
        found.push(token);
        rest = after;
    }
    found
}

const INTERESTING: &[&str] = &[
    "0",
    "-1",
    "1",
    "2147483647",
    "-2147483648",
    "2147483648",
    "9223372036854775807",
    "(-9223372036854775808)",
    "1e308",
    "1e-400",
    "'NaN'::float8",
    "'infinity'::timestamp",
    "'-infinity'::date",
    "null",
    "''",
    "'x'",
    "'é𝄞'",
    "'{}'::int[]",
    "array[1,null]",
    "true",
    "(select 1)",
    "(select a from t)",
    "a",
    "t",
    "*",
    "t.*",
    "$1",
    "'2020-02-30'",
    "interval '1 month'",
    "'\\xff'::bytea",
    "distinct",
    "not",
    "all",
    "any",
    "over ()",
    "::text",
    "::int",
    "::numeric(1000,1000)",
    "::date",
    "::interval",
    "::int[]",
    "::bit(3)",
    "'[2147483647:2147483647]={1}'::int[]",
    "'178000000 years'::interval",
    "row(1,2)",
    "collate \"C\"",
    "at time zone 'x'",
    "pg_class",
];

/// Exchanges, drops, doubles and inserts whole words.
fn words(random: &mut Random, corpus: &Corpus, text: &str) -> String {
    let mut tokens = tokens(text);
    for _ in 0..=random.below(8) / 5 {
        let at = random.below(tokens.len() + 1);
        match random.below(12) {
            // Most statements stay well-formed when one value takes another's place.
            5.. => {
                let literal = |t: &str| t.starts_with(|c: char| c == '\'' || c.is_ascii_digit());
                let places: Vec<usize> = (0..tokens.len()).filter(|i| literal(tokens[*i])).collect();
                let others: Vec<&str> = self::tokens(corpus.any(random)).into_iter().filter(|t| literal(t)).collect();
                if let Some(place) = places.get(random.below(places.len())) {
                    tokens[*place] = match others.get(random.below(others.len())) {
                        Some(other) if random.below(2) == 0 => other,
                        _ => INTERESTING[random.below(INTERESTING.len())],
                    };
                    tokens.insert(place + 1, " ");
                }
            }
            0 if at < tokens.len() => {
                tokens[at] = INTERESTING[random.below(INTERESTING.len())];
                tokens.insert(at + 1, " ");
            }
            1 => {
                tokens.insert(at, " ");
                tokens.insert(at, INTERESTING[random.below(INTERESTING.len())]);
                tokens.insert(at, " ");
            }
            2 if at < tokens.len() => {
                tokens.remove(at);
            }
            3 if at < tokens.len() => {
                let other = random.below(tokens.len());
                tokens.swap(at, other);
            }
            _ => {
                let other = self::tokens(corpus.any(random));
                let from = random.below(other.len());
                let to = (from + 1 + random.below(8)).min(other.len());
                let end = (at + random.below(3)).min(tokens.len());
                tokens.splice(at.min(end)..end, other[from.min(to)..to].iter().copied());
            }
        }
    }
    tokens.concat()
}

/// A text of the corpus with changes; no byte of it is zero.
pub fn text(random: &mut Random, corpus: &Corpus) -> String {
    let text = corpus.any(random);
    if random.below(3) > 0 {
        return words(random, corpus, text).replace('\0', " ");
    }
    let mut raw = text.as_bytes().to_vec();
    bytes(random, corpus, &mut raw);
    raw.retain(|b| *b != 0);
    String::from_utf8_lossy(&raw).into_owned()
}
