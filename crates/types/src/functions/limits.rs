//! How large a value may get: PostgreSQL's 1 GB. What multiplies its arguments asks before it makes the result.

use crate::pieces;
use kilndb_base::{Error, Result, sqlstate, work};

/// Bytes that a string under construction may have.
pub(crate) const LONGEST_STRING: usize = 0x3fff_ffff;

/// Fails when there is no room for `more` bytes behind `have`.
pub(crate) fn room(have: usize, more: usize) -> Result<()> {
    if have.saturating_add(more) < LONGEST_STRING {
        return Ok(());
    }
    Err(Error::new(
        sqlstate::PROGRAM_LIMIT_EXCEEDED,
        format!("string buffer exceeds maximum allowed length ({LONGEST_STRING} bytes)"),
    )
    .with_detail(format!("Cannot enlarge string buffer containing {have} bytes by {more} more bytes.")))
}

/// Two values joined: refused in the words of an allocation that is too large.
pub(crate) fn joined(a: usize, b: usize) -> Result<()> {
    let size = a.saturating_add(b).saturating_add(4);
    if size <= LONGEST_STRING {
        return Ok(());
    }
    Err(Error::new(sqlstate::INTERNAL_ERROR, format!("invalid memory alloc request size {size}")))
}

/// All occurrences of a text replaced.
pub(crate) fn replace_all(s: &str, from: &str, to: &str) -> Result<String> {
    if from.is_empty() {
        return Ok(s.to_string());
    }
    let growth = to.len().saturating_sub(from.len());
    if growth > 0 && s.len().saturating_mul(to.len()) / from.len() >= LONGEST_STRING {
        // Counting ends where it is known to be too much.
        let mut count = 0usize;
        for _ in s.matches(from).take(LONGEST_STRING / growth + 1) {
            work::step(from.len() + 5)?;
            count += 1;
        }
        room(s.len(), count.saturating_mul(growth))?;
    }
    let mut out = String::with_capacity(s.len());
    let mut rest = s;
    while let Some(at) = pieces::find(rest, from)? {
        work::step(10 + to.len())?;
        pieces::append_text(&mut out, &rest[..at])?;
        out.push_str(to);
        rest = &rest[at + from.len()..];
    }
    pieces::append_text(&mut out, rest)?;
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_not_fit_is_refused_before_it_is_made() {
        let (long, wide) = ("a".repeat(1_000_000), "b".repeat(2000));
        assert!(replace_all(&long, "a", &wide).is_err());
        assert_eq!(replace_all(&long, "aa", "b").map(|s| s.len()).ok(), Some(500_000));
        assert!(room(1 << 29, 1 << 29).is_err());
        assert!(joined(10, 20).is_ok());
    }
}
