//! The share of texts that match a pattern (LIKE, regular expressions, `^@`): what a fixed beginning says by the
//! histogram, and what the rest of the pattern is good for, by PostgreSQL's rules of thumb (`like_support.c`). Where
//! there is a good sample of values these are matched with the pattern instead.
//!
//! Must not know: how patterns are matched.

use super::ordering::share_below;
use super::restriction::{BOUNDS_FOR_PATTERN, PATTERN};
use super::*;
use crate::access::prefix::{TextPrefix, after_all};

const FIXED_CHAR: f64 = 0.2;
const CHAR_RANGE: f64 = 0.25;
const ANY_CHAR: f64 = 0.9;
const FULL_WILDCARD: f64 = 5.0;
const PARTIAL_WILDCARD: f64 = 2.0;
/// A histogram of so many bounds is a good sample.
const GOOD_SAMPLE: usize = 100;
/// No pattern is taken to match fewer than this share, nor all but this share.
const LEAST: f64 = 0.0001;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum PatternKind {
    Like,
    LikeAnyCase,
    Regex,
    RegexAnyCase,
    Beginning,
}

impl PatternKind {
    /// By the operator's name, and whether it is true of what does not match.
    pub fn of(name: &str) -> Option<(PatternKind, bool)> {
        let (name, negated) = match name.strip_prefix('!') {
            Some(rest) => (rest, true),
            None => (name, false),
        };
        let kind = match name {
            "~~" => PatternKind::Like,
            "~~*" => PatternKind::LikeAnyCase,
            "~" => PatternKind::Regex,
            "~*" => PatternKind::RegexAnyCase,
            "^@" if !negated => PatternKind::Beginning,
            _ => return None,
        };
        Some((kind, negated))
    }
    pub fn default_share(negated: bool) -> f64 {
        if negated { 1.0 - PATTERN } else { PATTERN }
    }

    /// How matching texts begin, and the share of those that begin so which match the rest.
    fn parts(self, pattern: &str) -> (TextPrefix, f64) {
        match self {
            PatternKind::Beginning => (TextPrefix::new(pattern, false), 1.0),
            PatternKind::Like | PatternKind::LikeAnyCase => {
                let (prefix, rest) = TextPrefix::of_like(pattern, self == PatternKind::LikeAnyCase);
                (prefix, like_rest(rest))
            }
            PatternKind::Regex => {
                let prefix = TextPrefix::of_regex(pattern).unwrap_or_else(|| TextPrefix::new("", false));
                let rest = regex_share(pattern, prefix.text().chars().count());
                (prefix, rest)
            }
            PatternKind::RegexAnyCase => (TextPrefix::new("", false), regex_share(pattern, 0)),
        }
    }
}

impl Planner<'_> {
    /// The share of the rows of `rel` whose text matches a known pattern. None: it is no such condition, the pattern has
    /// no value yet, or nothing is known of the texts.
    pub(super) fn pattern_selectivity(&self, rel: u32, f: &FuncExpr, e: &Expr) -> Option<f64> {
        let (kind, negated) = PatternKind::of(&f.name)?;
        let [column, pattern] = f.args.as_slice() else { return None };
        if access::foreign(column, rel) || !access::foreign(pattern, rel) {
            return None;
        }
        // The beginning of a pattern may be a range of an index, so its value always matters.
        let pattern = match self.value_of(pattern, true)? {
            Datum::Null => return Some(0.0),
            Datum::Text(pattern) => pattern,
            _ => return None,
        };
        let variable = self.variable(column);
        let s = variable.statistics.as_ref()?;
        let (prefix, rest) = kind.parts(&pattern);
        let share = if prefix.is_whole() {
            self.equal_to(&variable, Some(&Datum::text(prefix.text())))
        } else {
            let beginning = self.prefix_share(&variable, s, &prefix);
            let thumb = (beginning * rest).clamp(LEAST, 1.0 - LEAST);
            let (of_common, of_bounds) = self.observed_shares(rel, e)?;
            let common: f64 = s.frequencies.iter().sum();
            let (of_common, of_bounds) =
                if negated { (common - of_common, 1.0 - of_bounds) } else { (of_common, of_bounds) };
            of_common + share_of_others(s) * blended(of_bounds, s.histogram.len(), thumb)
        };
        let share = if negated { 1.0 - share - s.null_fraction } else { share };
        Some(share.clamp(0.0, 1.0))
    }

    /// The share of the texts in the histogram that begin so.
    fn prefix_share(&self, variable: &Variable, s: &ColumnStatistics, prefix: &TextPrefix) -> f64 {
        if prefix.text().is_empty() {
            return 1.0;
        }
        let below = |text: &str| share_below(variable.ty, &s.histogram, &Datum::text(text));
        let Some(from) = below(prefix.text()) else { return PATTERN };
        let to = after_all(prefix.text()).and_then(|after| below(&after)).unwrap_or(1.0);
        (to - from).max(self.equal_to(variable, Some(&Datum::text(prefix.text())))).max(1e-10)
    }
}

/// What a sample and the rule of thumb say together. Where none of a good sample matches, the rule says how rare it is.
fn blended(sampled: f64, bounds: usize, thumb: f64) -> f64 {
    let share = match bounds {
        n if n < BOUNDS_FOR_PATTERN => thumb,
        n if sampled == 0.0 => thumb.min(0.5 / n as f64),
        n if n < GOOD_SAMPLE => {
            let weight = n as f64 / GOOD_SAMPLE as f64;
            sampled * weight + thumb * (1.0 - weight)
        }
        _ => sampled,
    };
    share.clamp(LEAST, 1.0 - LEAST)
}

/// The share of texts that match what of a LIKE pattern comes after its fixed beginning.
fn like_rest(rest: &str) -> f64 {
    // Wildcards at the beginning have been counted for the beginning.
    let mut chars = rest.trim_start_matches(['%', '_']).chars();
    let mut share = 1.0;
    while let Some(c) = chars.next() {
        share *= match c {
            '%' => FULL_WILDCARD,
            '_' => ANY_CHAR,
            '\\' => chars.next().map_or(1.0, |_| FIXED_CHAR),
            _ => FIXED_CHAR,
        };
    }
    share.min(1.0)
}

/// The share of texts that match a regular expression, of those that begin as it says.
fn regex_share(pattern: &str, prefix_chars: usize) -> f64 {
    let chars: Vec<char> = pattern.chars().collect();
    let mut share = regex_part(&chars);
    let is_anchored = pattern.ends_with('$') && !pattern.ends_with("\\$");
    if !is_anchored {
        share *= FULL_WILDCARD;
    }
    share /= FIXED_CHAR.powi(i32::try_from(prefix_chars).unwrap_or(i32::MAX));
    share.clamp(0.0, 1.0)
}

/// The same of a part without regard to what is around it.
fn regex_part(chars: &[char]) -> f64 {
    let (mut share, mut depth, mut open) = (1.0, 0usize, 0);
    let mut at = 0;
    while let Some(c) = chars.get(at) {
        let outside = depth == 0;
        match c {
            '(' => {
                if outside {
                    open = at + 1;
                }
                depth += 1;
            }
            ')' if depth > 0 => {
                depth -= 1;
                if depth == 0 {
                    share *= regex_part(&chars[open..at]);
                }
            }
            '|' if outside => return (share + regex_part(&chars[at + 1..])).min(1.0),
            '[' => {
                let negated = chars.get(at + 1) == Some(&'^');
                // A bracket at the beginning of a set is one of its characters.
                let first = at + 1 + usize::from(negated);
                let end = chars.iter().skip(first + 1).position(|c| *c == ']').map_or(chars.len(), |n| first + 1 + n);
                at = end;
                if outside {
                    share *= if negated { 1.0 - CHAR_RANGE } else { CHAR_RANGE };
                }
            }
            '.' if outside => share *= ANY_CHAR,
            '*' | '?' | '+' if outside => share *= PARTIAL_WILDCARD,
            '{' => {
                at += chars[at..].iter().position(|c| *c == '}').unwrap_or(chars.len() - at);
                if outside {
                    share *= PARTIAL_WILDCARD;
                }
            }
            '^' | '$' => {}
            '\\' => {
                at += 1;
                if outside {
                    share *= FIXED_CHAR;
                }
            }
            _ if outside => share *= FIXED_CHAR,
            _ => {}
        }
        at += 1;
    }
    share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operators_are_patterns() {
        assert_eq!(PatternKind::of("!~~*"), Some((PatternKind::LikeAnyCase, true)));
        assert_eq!(PatternKind::of("^@"), Some((PatternKind::Beginning, false)));
        assert_eq!(PatternKind::of("="), None);
    }

    #[test]
    fn more_letters_are_rarer() {
        let like = |pattern: &str| PatternKind::Like.parts(pattern);
        let (prefix, rest) = like("ab%cd%");
        assert_eq!((prefix.text(), prefix.is_whole()), ("ab", false));
        assert!((rest - FIXED_CHAR * FIXED_CHAR * FULL_WILDCARD).abs() < 1e-9, "{rest}");
        assert!(like("abc").0.is_whole());
        assert_eq!(PatternKind::LikeAnyCase.parts("12ab%").0.text(), "12");
        let regex = |pattern: &str| PatternKind::Regex.parts(pattern).1;
        assert!((regex("^ab") - 1.0).abs() < 1e-9);
        assert!((regex("^ab[cd]$") - CHAR_RANGE).abs() < 1e-9);
        assert!((regex("^(ab|cde)$") - (FIXED_CHAR.powi(2) + FIXED_CHAR.powi(3))).abs() < 1e-9);
        assert!((regex("^[^a-z]x{3}$") - (1.0 - CHAR_RANGE) * FIXED_CHAR * PARTIAL_WILDCARD).abs() < 1e-9);
        assert!(regex("[") <= 1.0 && regex("(") <= 1.0 && regex("{") <= 1.0 && regex("\\") <= 1.0);
    }

    #[test]
    fn a_sample_counts_by_its_size() {
        assert_eq!(blended(0.4, 5, 0.01), 0.01);
        assert!((blended(0.4, 50, 0.02) - 0.21).abs() < 1e-9);
        assert_eq!(blended(0.4, 101, 0.02), 0.4);
        assert_eq!(blended(0.0, 101, 0.001), 0.001);
    }
}
