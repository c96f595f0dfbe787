//! The statements that took longest lately, with their plans.
//!
//! Invariants
//! 1. A statement that was quick is not told of; one that was not takes the mutex for a moment.
//! 2. There are at most [`STATEMENTS_MAX`]: the quickest of them gives way, and who was not slow for an hour.
//!
//! Must not know: what a plan is, who may see statements.

use kilndb_base::Oid;
use kilndb_base::sync::{Mutex, PoisonError};

/// What takes less is not slow.
pub const SLOW_MICROS: i64 = 10_000;
const STATEMENTS_MAX: usize = 64;
const MEMORY_MICROS: i64 = 3_600_000_000;

/// An execution that took long.
pub struct SlowExecution<'a> {
    pub database: Oid,
    pub user: Oid,
    pub text: &'a str,
    /// Microseconds since 2000.
    pub ended: i64,
    pub micros: i64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SlowStatement {
    pub database: Oid,
    pub user: Oid,
    pub text: String,
    /// Those that took long.
    pub executions: u64,
    pub total_micros: i64,
    pub longest_micros: i64,
    /// When the last of them ended.
    pub last: i64,
    /// That of the longest one.
    pub plan: String,
}

#[derive(Default)]
pub struct SlowStatements(Mutex<Vec<SlowStatement>>);

impl SlowStatements {
    /// `plan`: asked for if it is going to be kept.
    pub fn note(&self, seen: &SlowExecution<'_>, plan: impl FnOnce() -> String) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same = |known: &SlowStatement| {
            known.database == seen.database && known.user == seen.user && known.text == seen.text
        };
        if let Some(known) = all.iter_mut().find(|known| is_same(known)) {
            known.executions += 1;
            known.total_micros = known.total_micros.saturating_add(seen.micros);
            known.last = seen.ended;
            if known.longest_micros < seen.micros {
                known.longest_micros = seen.micros;
                known.plan = plan();
            }
            return;
        }
        all.retain(|known| known.last >= seen.ended.saturating_sub(MEMORY_MICROS));
        if all.len() >= STATEMENTS_MAX {
            let quickest = all.iter().enumerate().min_by_key(|(_, known)| known.longest_micros);
            let Some((at, _)) = quickest.filter(|(_, known)| known.longest_micros < seen.micros) else { return };
            all.swap_remove(at);
        }
        all.push(SlowStatement {
            database: seen.database,
            user: seen.user,
            text: seen.text.to_string(),
            executions: 1,
            total_micros: seen.micros,
            longest_micros: seen.micros,
            last: seen.ended,
            plan: plan(),
        });
    }

    pub fn all(&self) -> Vec<SlowStatement> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(text: &str, ended: i64, micros: i64) -> SlowExecution<'_> {
        SlowExecution { database: 5, user: 10, text, ended, micros }
    }

    #[test]
    fn executions_of_a_text_are_one_statement_with_the_plan_of_the_longest() {
        let statements = SlowStatements::default();
        statements.note(&seen("a", 1, 20_000), || "first".into());
        statements.note(&seen("a", 2, 30_000), || "second".into());
        statements.note(&seen("a", 3, 25_000), || unreachable!("it is not kept"));
        statements.note(&SlowExecution { user: 11, ..seen("a", 3, 25_000) }, || "of another".into());
        let all = statements.all();
        assert_eq!(all.len(), 2);
        let expected = SlowStatement {
            database: 5,
            user: 10,
            text: "a".into(),
            executions: 3,
            total_micros: 75_000,
            longest_micros: 30_000,
            last: 3,
            plan: "second".into(),
        };
        assert_eq!(all[0], expected);
    }

    #[test]
    fn the_slowest_are_kept_and_those_of_long_ago_are_not() {
        let statements = SlowStatements::default();
        let texts: Vec<String> = (0..STATEMENTS_MAX as i64 + 8).map(|n| n.to_string()).collect();
        for (text, n) in texts.iter().zip(1..) {
            statements.note(&seen(text, n, n * SLOW_MICROS), String::new);
        }
        statements.note(&seen("quick", 100, SLOW_MICROS), String::new);
        let all = statements.all();
        assert_eq!(all.len(), STATEMENTS_MAX);
        assert!(all.iter().all(|known| known.longest_micros > 8 * SLOW_MICROS && known.text != "quick"));
        statements.note(&seen("later", MEMORY_MICROS + 1000, SLOW_MICROS), String::new);
        assert_eq!(statements.all().len(), 1);
    }
}
