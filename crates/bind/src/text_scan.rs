//! Where in the text of a kept definition a thing stands: names, aliases, constants, the end of an expression. The grammar
//! tells where an expression begins, and not where its parts end.
//!
//! Invariants
//! 1. The texts are those that the grammar's own deparser has written: they parse, and there are no comments in them.

/// Bytes of the name of several parts that a text begins with; None: it begins with no such name.
pub(super) fn dotted_length(text: &str) -> Option<usize> {
    let mut at = 0;
    let mut parts = 0;
    loop {
        let rest = &text[at..];
        at += match rest.starts_with('"') {
            true => quoted_length(rest, b'"')?,
            false => rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len()),
        };
        parts += 1;
        match text[at..].strip_prefix('.') {
            Some(_) => at += 1,
            None => return (parts > 1).then_some(at),
        }
    }
}

/// Bytes of the first part of the name that a text begins with.
pub(super) fn first_part_length(text: &str) -> Option<usize> {
    let length = match text.starts_with('"') {
        true => quoted_length(text, b'"')?,
        false => text.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(text.len()),
    };
    (length > 0).then_some(length)
}

/// Of the name of one or more parts that a text begins with: the bytes before the last part, that part's bytes, and what
/// it names.
pub(super) fn last_part(text: &str) -> Option<(usize, usize, String)> {
    let mut at = 0;
    loop {
        let rest = &text[at..];
        let length = match rest.starts_with('"') {
            true => quoted_length(rest, b'"')?,
            false => rest.find(|c: char| !(c.is_alphanumeric() || c == '_' || c == '$')).unwrap_or(rest.len()),
        };
        if length == 0 {
            return None;
        }
        if rest[length..].starts_with('.') {
            at += length + 1;
            continue;
        }
        let part = &rest[..length];
        let name = match part.strip_prefix('"').and_then(|inner| inner.strip_suffix('"')) {
            Some(inner) => inner.replace("\"\"", "\""),
            None => part.to_lowercase(),
        };
        return Some((at, length, name));
    }
}

/// Bytes of what a text has between quotes at its beginning, which stand double within, with these; None: it does not
/// begin so.
pub(super) fn quoted_length(text: &str, quote: u8) -> Option<usize> {
    let mut bytes = text.bytes().enumerate().peekable();
    bytes.next_if(|(_, first)| *first == quote)?;
    loop {
        let (at, b) = bytes.next()?;
        if b == quote && bytes.next_if(|(_, next)| *next == quote).is_none() {
            return Some(at + 1);
        }
    }
}

/// The length of a string constant: `'…'`, or `E'…'` with backslashes.
pub(super) fn literal_length(text: &str) -> Option<usize> {
    let Some(escaped) = text.strip_prefix(['E', 'e']) else { return quoted_length(text, b'\'') };
    let mut bytes = escaped.bytes().enumerate().skip(1).peekable();
    loop {
        match bytes.next()? {
            (_, b'\\') => drop(bytes.next()),
            (at, b'\'') if bytes.next_if(|(_, next)| *next == b'\'').is_none() => return Some(at + 2),
            _ => {}
        }
    }
}

/// A piece of a text that cannot be divided: a name, a constant, or a sign of one byte.
struct Token<'t> {
    at: usize,
    text: &'t str,
}

/// The tokens of a text from `at` on.
fn tokens(text: &str, mut at: usize) -> impl Iterator<Item = Token<'_>> {
    std::iter::from_fn(move || {
        let rest = text.get(at..)?;
        at += rest.len() - rest.trim_start().len();
        let rest = text.get(at..).filter(|rest| !rest.is_empty())?;
        let is_word = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
        let is_literal = rest.trim_start_matches(['E', 'e']).starts_with('\'') && rest.find('\'') <= Some(1);
        let length = literal_length(rest)
            .filter(|_| is_literal)
            .or_else(|| quoted_length(rest, b'"'))
            .or_else(|| rest.find(|c| !is_word(c)).or(Some(rest.len())).filter(|length| *length > 0))
            .or_else(|| rest.chars().next().map(char::len_utf8))?;
        let token = Token { at, text: rest.get(..length)? };
        at += length;
        Some(token)
    })
}

/// Where the alias that stands at `at` ends, if there is one of that name.
pub(super) fn alias_end(text: &str, at: usize, alias: &str) -> Option<usize> {
    let mut list = tokens(text, at);
    let mut token = list.next()?;
    if token.text.eq_ignore_ascii_case("as") {
        token = list.next()?;
    }
    let (_, length, name) = last_part(token.text)?;
    (name == alias && length == token.text.len()).then_some(token.at + length)
}

/// Where NATURAL stands of a join whose right side is the relation named at `at`, and its bytes with the space behind
/// it. None: something else stands between.
pub(super) fn natural_before(text: &str, at: usize) -> Option<(usize, usize)> {
    let before: Vec<Token<'_>> = tokens(text.get(..at)?, 0).collect();
    let join = &before[before.iter().rposition(|token| token.text.eq_ignore_ascii_case("natural"))?..];
    let words = ["natural", "inner", "left", "right", "full", "outer", "join", "only"];
    let is_whole = join.iter().all(|token| words.iter().any(|word| token.text.eq_ignore_ascii_case(word)));
    let next = join.get(1).filter(|_| is_whole)?;
    Some((join[0].at, next.at - join[0].at))
}

/// Where the parenthesis is that closes the one which is the next token from `at` on.
pub(super) fn closing_parenthesis(text: &str, at: usize) -> Option<usize> {
    let mut depth = 0;
    for token in tokens(text, at) {
        match token.text {
            "(" => depth += 1,
            ")" if depth == 1 => return Some(token.at),
            ")" => depth -= 1,
            _ if depth == 0 => return None,
            _ => {}
        }
    }
    None
}

/// Where the elements begin of the list in parentheses that stands at `at`.
pub(super) fn list_elements(text: &str, at: usize) -> Vec<usize> {
    let (mut depth, mut starts, mut is_start) = (0, Vec::new(), false);
    for token in tokens(text, at) {
        if std::mem::take(&mut is_start) {
            starts.push(token.at);
        }
        match token.text {
            "(" => {
                depth += 1;
                is_start = depth == 1;
            }
            ")" => depth -= 1,
            "," => is_start = depth == 1,
            _ => {}
        }
        if depth == 0 {
            break;
        }
    }
    starts
}

/// Where `name` stands as a field of what is in parentheses before it, or of a parameter.
pub(super) fn fields_named(text: &str, name: &str) -> Vec<(usize, usize)> {
    let list: Vec<Token<'_>> = tokens(text, 0).collect();
    // What a chain of names after dots begins with.
    let owner_of = |mut at: usize| {
        while at >= 2 && list[at - 1].text == "." {
            at -= 2;
        }
        list[at].text
    };
    let is_field = |at: &usize| {
        *at >= 2 && list[*at - 1].text == "." && matches!(owner_of(*at).as_bytes(), [b')' | b']'] | [b'$', ..])
    };
    let fields = (0..list.len()).filter(is_field).map(|at| &list[at]);
    let named = fields.filter(|field| last_part(field.text).is_some_and(|(_, _, found)| found == name));
    named.map(|field| (field.at, field.text.len())).collect()
}

/// Where the output of a query ends that begins at `at`: before the comma, the parenthesis or the clause behind it.
pub(super) fn output_end(text: &str, at: usize) -> usize {
    /// Words that begin what may follow a list of outputs, and cannot stand within an expression but in parentheses.
    const CLAUSES: [&str; 14] = [
        "FROM",
        "INTO",
        "WHERE",
        "GROUP",
        "HAVING",
        "WINDOW",
        "UNION",
        "INTERSECT",
        "EXCEPT",
        "ORDER",
        "LIMIT",
        "OFFSET",
        "FETCH",
        "FOR",
    ];
    let (mut depth, mut end, mut before) = (0, at, "");
    for token in tokens(text, at) {
        let is_clause = CLAUSES.iter().any(|word| token.text.eq_ignore_ascii_case(word))
            // IS DISTINCT FROM, WITHIN GROUP (…)
            && !["DISTINCT", "WITHIN"].iter().any(|word| before.eq_ignore_ascii_case(word));
        if depth == 0 && (matches!(token.text, "," | ")" | "]" | ";") || is_clause) {
            break;
        }
        match token.text {
            "(" | "[" => depth += 1,
            ")" | "]" => depth -= 1,
            _ => {}
        }
        (end, before) = (token.at + token.text.len(), token.text);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outputs_end_before_what_follows() {
        let end = |text: &str| text[..output_end(text, 7)].to_string();
        assert_eq!(end("SELECT lower(a, b), c"), "SELECT lower(a, b)");
        assert_eq!(end("SELECT a IS DISTINCT FROM b FROM t"), "SELECT a IS DISTINCT FROM b");
        assert_eq!(end("SELECT x[1, 2] ORDER BY 1"), "SELECT x[1, 2]");
        assert_eq!(end("SELECT ' FROM ' || \"from\" UNION SELECT 1"), "SELECT ' FROM ' || \"from\"");
        assert_eq!(
            end("SELECT percentile_cont(1) WITHIN GROUP (ORDER BY a) FILTER (WHERE b) FROM t"),
            "SELECT percentile_cont(1) WITHIN GROUP (ORDER BY a) FILTER (WHERE b)"
        );
        assert_eq!(
            end("SELECT CASE WHEN a THEN 'x' ELSE E'\\\\' END FROM t"),
            "SELECT CASE WHEN a THEN 'x' ELSE E'\\\\' END"
        );
        assert_eq!(end("SELECT (SELECT a FROM t)) x"), "SELECT (SELECT a FROM t)");
    }

    #[test]
    fn aliases_lists_and_fields_are_found() {
        assert_eq!(alias_end("t AS \"X y\" (a)", 1, "X y"), Some(10));
        assert_eq!(alias_end("t JOIN u", 1, "u"), None);
        assert_eq!(closing_parenthesis(" (a, (b)) c", 0), Some(8));
        assert_eq!(list_elements("(a, lower(b, c), d) DO", 0), [1, 4, 17]);
        assert_eq!(fields_named("(x.y).a + $1.\"a\" + t.a + ').a'", "a"), [(6, 1), (13, 3)]);
    }
}
