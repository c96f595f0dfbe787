//! Conditions that say how a text begins, as bounds of its order.
//!
//! Texts are sorted by their bytes, so those that begin with a prefix are one after the other.

use super::super::*;
use kilndb_bind::Binder;
use kilndb_types::collation::{C_COLLATION, Collation};
use kilndb_types::{Datum, oids};

/// `text LIKE pattern`.
const TEXT_LIKE: Oid = 850;
/// `text ~ pattern`.
const TEXT_REGEX: Oid = 1254;
const STARTS_WITH: Oid = 3696;

/// How texts begin that a condition is true of.
pub(crate) struct TextPrefix {
    text: String,
    /// It is the whole text.
    is_whole: bool,
}

/// The prefix that a call of this function asks for, if its pattern is known and begins with one.
pub(crate) fn prefix_of(function: Oid, pattern: &Expr) -> Option<TextPrefix> {
    let ExprKind::Const(Datum::Text(pattern)) = &pattern.kind else { return None };
    let prefix = match function {
        TEXT_LIKE => TextPrefix::of_like(pattern, false).0,
        TEXT_REGEX => TextPrefix::of_regex(pattern)?,
        STARTS_WITH => TextPrefix::new(pattern, false),
        _ => return None,
    };
    (!prefix.text.is_empty()).then_some(prefix)
}

impl TextPrefix {
    pub fn new(text: &str, is_whole: bool) -> TextPrefix {
        TextPrefix { text: text.to_string(), is_whole }
    }
    pub fn text(&self) -> &str {
        &self.text
    }
    pub fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// What comes before the first wildcard of a LIKE pattern, and the pattern from there on. `any_case`: letters stand
    /// for others, too, so none of them is fixed.
    pub fn of_like(pattern: &str, any_case: bool) -> (TextPrefix, &str) {
        let mut text = String::new();
        let mut chars = pattern.chars();
        loop {
            let rest = chars.as_str();
            let fixed = match chars.next() {
                None => return (TextPrefix { text, is_whole: true }, ""),
                Some('%' | '_') => None,
                Some('\\') => match chars.next() {
                    Some(escaped) => Some(escaped),
                    // The pattern is wrong, which is said when it is used.
                    None => return (TextPrefix { text: String::new(), is_whole: false }, ""),
                },
                Some(c) => Some(c),
            };
            match fixed.filter(|c| !any_case || !c.is_alphabetic()) {
                Some(c) => text.push(c),
                None => return (TextPrefix { text, is_whole: false }, rest),
            }
        }
    }

    /// The letters and digits after `^`, if nothing in the pattern makes them optional.
    pub fn of_regex(pattern: &str) -> Option<TextPrefix> {
        let rest = pattern.strip_prefix('^')?;
        let is_plain = |c: char| c.is_alphanumeric() || c == ' ' || c == '_' || c == '-' || c == '/';
        let mut text: String = rest.chars().take_while(|c| is_plain(*c)).collect();
        if pattern.contains('|') {
            return None;
        }
        if rest[text.len()..].starts_with(['*', '?', '{', '+']) {
            text.pop();
        }
        Some(TextPrefix { text, is_whole: false })
    }
}

/// The text that comes after all that begin with `prefix`, if there is one.
pub(crate) fn after_all(prefix: &str) -> Option<String> {
    let mut text = prefix.to_string();
    while let Some(last) = text.pop() {
        // There are no characters between these two.
        let next = if last == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(last as u32 + 1) };
        if let Some(next) = next {
            text.push(next);
            return Some(text);
        }
    }
    None
}

/// The expression, compared by its bytes whatever its collation.
fn by_bytes(e: &Expr) -> Expr {
    if e.collation.collation.rules.is_none() {
        return e.clone();
    }
    let (collation, name) = (Collation::of_bytes(C_COLLATION), "\"C\"".to_string());
    Expr::new(ExprKind::Collate { arg: Box::new(e.clone()), collation, name }, e.ty)
}

/// Appends the bounds of what begins with the prefix.
pub(crate) fn prefix_bounds(planner: &Planner<'_>, of: &Expr, prefix: &TextPrefix, out: &mut Vec<Expr>) -> Result<()> {
    let binder = Binder::new(planner.catalog, Arc::from(""), Vec::new());
    let of = by_bytes(of);
    let mut bound = |operator: &str, text: String| -> Result<()> {
        let value = Expr::new(ExprKind::Const(Datum::Text(text.as_str().into())), oids::TEXT);
        out.push(binder.make_operator(None, operator, Some(of.clone()), value, -1)?);
        Ok(())
    };
    if prefix.is_whole {
        return bound("=", prefix.text.clone());
    }
    bound(">=", prefix.text.clone())?;
    match after_all(&prefix.text) {
        Some(after) => bound("<", after),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_have_prefixes() {
        let like = |pattern: &str| {
            let (TextPrefix { text, is_whole }, _) = TextPrefix::of_like(pattern, false);
            (text, is_whole)
        };
        assert_eq!(like("abc%"), ("abc".to_string(), false));
        assert_eq!(like("a\\%b_c"), ("a%b".to_string(), false));
        assert_eq!(like("abc"), ("abc".to_string(), true));
        assert_eq!(like("abc\\"), (String::new(), false));
        let (prefix, rest) = TextPrefix::of_like("1\\%ab%", true);
        assert_eq!((prefix.text(), rest), ("1%", "ab%"));
        let regex = |pattern: &str| TextPrefix::of_regex(pattern).map(|p| p.text);
        assert_eq!(regex("^abc"), Some("abc".to_string()));
        assert_eq!(regex("^abc*d"), Some("ab".to_string()));
        assert_eq!(regex("^abc{0}"), Some("ab".to_string()));
        assert_eq!(regex("^abc|d"), None);
        assert_eq!(regex("abc"), None);
    }

    #[test]
    fn the_text_after_a_prefix_is_above_all_that_begin_with_it() {
        assert_eq!(after_all("abc").as_deref(), Some("abd"));
        assert_eq!(after_all("a\u{d7ff}").as_deref(), Some("a\u{e000}"));
        assert_eq!(after_all("a\u{10ffff}").as_deref(), Some("b"));
        assert_eq!(after_all("\u{10ffff}"), None);
    }
}
