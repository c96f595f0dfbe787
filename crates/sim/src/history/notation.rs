//! Histories by hand. Words, one line after the other in the order of the clock:
//!
//! ```text
//! T1 rr                     READ COMMITTED is rc, REPEATABLE READ rr, SERIALIZABLE ser; the transaction's number is its place here
//! T1 r x[1 2] y[]           a SELECT of two keys and what it saw
//! T1 w x 3                  an append; with what RETURNING showed: T1 w x[1 2] 3; to several: T1 w x y 3
//! T1 l x[1 2]               FOR UPDATE
//! T1 m x[1 2] 3             delete and insert: 3 is appended
//! T1 u x[1 2] 3             insert on conflict do update
//! T1 miss x 3               an append that found no row
//! T1 savepoint, T1 back     and back to it; T1 release forgets it
//! T1 commit, T1 abort, T1 lost    the last: no answer to the commit
//! T1> w x 3 ... T1<         sent here, answered there
//! last x[1 2] y[]           how it ends
//! ```

use super::model::*;

pub fn history(text: &str) -> History {
    let mut history = History::default();
    let mut names: Vec<String> = Vec::new();
    let mut tick = 0;
    for line in text.lines().map(str::trim).filter(|l| !l.is_empty()) {
        let (who, what) = line.split_once(' ').unwrap_or((line, ""));
        if who == "last" {
            history.last = rows(what).into_iter().map(|(key, seen)| (key, seen.expect("a list"))).collect();
            continue;
        }
        let at = names.iter().position(|n| n == who.trim_matches(['<', '>']));
        let Some(at) = at else {
            let level = match what {
                "rc" => IsolationLevel::ReadCommitted,
                "rr" => IsolationLevel::RepeatableRead,
                _ => IsolationLevel::Serializable,
            };
            names.push(who.to_string());
            let end = Interval { from: 0, to: 0 };
            let session = names.len() as u32;
            history.transactions.push(Transaction {
                session,
                level,
                steps: Vec::new(),
                outcome: TransactionOutcome::Aborted,
                end,
            });
            continue;
        };
        tick += 2;
        let mut during = Interval { from: tick, to: tick + 1 };
        let transaction = &mut history.transactions[at];
        if who.ends_with('<') {
            let last = if transaction.end.to == Tick::MAX {
                &mut transaction.end
            } else {
                &mut transaction.steps.last_mut().expect("a step").during
            };
            last.to = during.to;
            continue;
        }
        if who.ends_with('>') {
            during.to = Tick::MAX;
        }
        let (verb, rest) = what.split_once(' ').unwrap_or((what, ""));
        let outcome = match verb {
            "commit" => Some(TransactionOutcome::Committed),
            "abort" => Some(TransactionOutcome::Aborted),
            "lost" => Some(TransactionOutcome::Unknown),
            _ => None,
        };
        match outcome {
            Some(outcome) => (transaction.outcome, transaction.end) = (outcome, during),
            None => transaction.steps.push(TransactionStep { action: action(verb, rest), during }),
        }
    }
    history
}

fn action(verb: &str, rest: &str) -> StepAction {
    match verb {
        "r" => StepAction::Select(rows(rest).into_iter().map(|(key, seen)| (key, seen.expect("a list"))).collect()),
        "l" => StepAction::Modify { value: None, rows: touched(rest), way: WriteWay::Plain },
        "savepoint" => StepAction::Savepoint,
        "back" => StepAction::RollbackToSavepoint,
        "release" => StepAction::Release,
        "w" | "m" | "u" | "miss" => {
            let (keys, value) = rest.rsplit_once(' ').expect("a key and a value");
            let value: Value = value.parse().expect("a value");
            let mut rows = touched(keys);
            for (_, touch) in &mut rows {
                match touch {
                    _ if verb == "miss" => *touch = RowTouch::Missed,
                    RowTouch::Saw(seen) => seen.push(value),
                    _ => {}
                }
            }
            let way = if verb == "m" {
                WriteWay::Moved
            } else if verb == "u" {
                WriteWay::OnConflict
            } else {
                WriteWay::Plain
            };
            StepAction::Modify { value: Some(value), rows, way }
        }
        _ => panic!("{verb}?"),
    }
}

fn touched(text: &str) -> Vec<(Key, RowTouch)> {
    rows(text).into_iter().map(|(key, seen)| (key, seen.map_or(RowTouch::Unseen, RowTouch::Saw))).collect()
}

/// `x[1 2] y`: keys are letters, what was seen is in brackets.
fn rows(text: &str) -> Vec<(Key, Option<Vec<Value>>)> {
    let mut found: Vec<(Key, Option<Vec<Value>>)> = Vec::new();
    let mut rest = text.trim();
    while let Some(letter) = rest.chars().next() {
        rest = &rest[1..];
        let mut seen = None;
        if let Some(inside) = rest.strip_prefix('[') {
            let (values, after) = inside.split_once(']').expect("a closing bracket");
            seen = Some(values.split_whitespace().map(|v| v.parse().expect("a value")).collect());
            rest = after;
        }
        found.push((letter as Key, seen));
        rest = rest.trim_start();
    }
    found
}
