//! Scans, parses and writes back a text as the simple protocol does: any bytes give statements or an error that points
//! into the text.

use kilndb_base::Error;
use kilndb_syntax::literals::{LITERALS_MAX, LiteralKind, Scanned};
use kilndb_syntax::{parse, statement_sql};

pub fn run(data: &[u8]) {
    // What is no UTF-8 never gets as far as the parser; what it would be with the bad bytes replaced does.
    let sql = String::from_utf8_lossy(data);
    scan(&sql);
    match parse(&sql) {
        Err(e) => check_position(&e, &sql),
        Ok(script) => {
            for statement in script.statements() {
                assert!(sql.contains(statement.text()));
                // The text that a view keeps. What the deparser cannot write is an error.
                let _ = statement_sql(statement.node());
            }
        }
    }
}

/// Positions are counted in characters from 1; one past the last is the end of the text.
pub fn check_position(e: &Error, sql: &str) {
    if let Some(position) = e.0.position {
        let end = sql.chars().count() as u32 + 1;
        assert!((1..=end).contains(&position), "position {position} of {end}: {e:?}");
    }
}

/// The literals lie in the text, one after the other, and others of their kind in their places give the same shape.
fn scan(sql: &str) {
    let mut scanned = Scanned::default();
    if !scanned.scan(sql) {
        return;
    }
    assert!(scanned.literals.len() <= LITERALS_MAX);
    let mut other = String::new();
    let mut end = 0;
    for literal in &scanned.literals {
        assert!(end <= literal.start as usize && literal.start < literal.end);
        let text = literal.text(sql);
        let replacement = match literal.kind {
            LiteralKind::Int4 => {
                assert_eq!(text.parse::<i64>().ok(), Some(literal.number));
                assert!(i32::try_from(literal.number).is_ok());
                "7"
            }
            LiteralKind::Int8 => {
                assert_eq!(text.parse::<i64>().ok(), Some(literal.number));
                "5000000000"
            }
            LiteralKind::String => {
                let value = literal.string(sql);
                assert_eq!(format!("'{}'", value.replace('\'', "''")), text);
                "'it''s'"
            }
        };
        if let Some(minus) = literal.minus_at {
            assert_eq!(sql.as_bytes().get(minus as usize), Some(&b'-'));
            assert!(minus < literal.start);
        }
        other.push_str(&sql[end..literal.start as usize]);
        other.push_str(replacement);
        end = literal.end as usize;
    }
    other.push_str(&sql[end..]);
    let mut again = Scanned::default();
    assert!(again.scan(&other), "{other}");
    assert_eq!(scanned.shape, again.shape);
    let kinds = |s: &Scanned| s.literals.iter().map(|l| (l.kind, l.minus_at.is_some())).collect::<Vec<_>>();
    assert_eq!(kinds(&scanned), kinds(&again));
}
