//! A script on two servers, turn by turn.

use super::super::turns::{ComparedServer, sync_files};
use super::report::{ExecutionRow, RowFigures};
use super::script::{RowBounds, Script, Step, StepFigure};
use super::{SCHEMA, session};
use crate::bench::plans::answers::{AnswerRow, difference, rows_of};
use kilndb_lab::client::{Answer, Client};
use std::time::Instant;

/// What a server has done in a turn, statement by statement.
#[derive(Default)]
pub(super) struct TurnDone {
    /// What the statements answered, for a comparison. A figure of a server's own is not among them.
    pub answers: Vec<(String, Vec<AnswerRow>)>,
    pub figures: Vec<(RowBounds, StepFigure, f64)>,
}

impl TurnDone {
    pub(super) fn time(&mut self, bounds: &RowBounds, seconds: f64) {
        self.figures.push((bounds.clone(), StepFigure::Time, seconds));
    }
}

/// Two servers with a session each.
pub(super) struct SessionPair<'a> {
    sides: [&'a ComparedServer; 2],
    clients: [Client; 2],
    rows: Vec<ExecutionRow>,
}

impl<'a> SessionPair<'a> {
    pub(super) fn new(sides: [&'a ComparedServer; 2]) -> Result<SessionPair<'a>, String> {
        let open = |side: &ComparedServer| side.alone(|| session(side)).map_err(|e| format!("{}: {e}", side.name));
        Ok(SessionPair { sides, clients: [open(sides[0])?, open(sides[1])?], rows: Vec::new() })
    }

    /// Does something on one server after the other, each while the other one stands still.
    pub(super) fn each<T>(
        &mut self,
        reversed: bool,
        mut action: impl FnMut(&mut Client, usize) -> Result<T, String>,
    ) -> Result<[T; 2], String> {
        let mut on = |n: usize| {
            sync_files();
            let client = &mut self.clients[n];
            let done = self.sides[n].alone(|| action(client, n));
            done.map_err(|e| format!("{}: {e}", self.sides[n].name))
        };
        if reversed {
            let other = on(1)?;
            return Ok([on(0)?, other]);
        }
        Ok([on(0)?, on(1)?])
    }

    /// Runs so many turns, the first of which may not count, and compares the answers of each.
    pub(super) fn turns(
        &mut self,
        turns: usize,
        is_warm: bool,
        mut turn: impl FnMut(&mut Client, usize) -> Result<TurnDone, String>,
    ) -> Result<(), String> {
        for n in 0..turns + usize::from(is_warm) {
            let [base, other] = self.each(n % 2 == 1, &mut turn)?;
            compare(&base, &other)?;
            if n > 0 || !is_warm {
                self.keep(base, other);
            }
        }
        Ok(())
    }

    fn keep(&mut self, base: TurnDone, other: TurnDone) {
        for ((bounds, figure, base), (_, _, other)) in base.figures.into_iter().zip(other.figures) {
            let known = self.rows.iter().position(|row| row.bounds == bounds);
            let at = known.unwrap_or_else(|| {
                let figures = match figure {
                    StepFigure::Time => RowFigures::Times([Vec::new(), Vec::new()]),
                    StepFigure::Value => RowFigures::Own([Vec::new(), Vec::new()]),
                };
                self.rows.push(ExecutionRow { bounds, figures });
                self.rows.len() - 1
            });
            self.rows[at].figures.add(base, other);
        }
    }

    pub(super) fn into_rows(self) -> Vec<ExecutionRow> {
        self.rows
    }
}

/// Measures a script. What it has created goes away with its schema if it fails.
pub(super) fn run(sides: [&ComparedServer; 2], script: &Script, turns: usize) -> Result<Vec<ExecutionRow>, String> {
    let mut pair = SessionPair::new(sides)?;
    eprintln!("{}: loading", script.name);
    pair.each(false, |client, _| statements(client, &script.once))?;
    let turns = script.turns.unwrap_or(turns);
    pair.turns(turns, script.is_warm, |client, _| steps(client, &script.turn))?;
    pair.each(false, |client, _| statements(client, &script.end))?;
    Ok(pair.into_rows())
}

pub(super) fn statements(client: &mut Client, steps: &[Step]) -> Result<(), String> {
    steps.iter().try_for_each(|step| ask(client, &step.sql).map(drop))
}

fn steps(client: &mut Client, steps: &[Step]) -> Result<TurnDone, String> {
    let mut done = TurnDone::default();
    for step in steps {
        let began = Instant::now();
        let answers = ask(client, &step.sql)?;
        let seconds = began.elapsed().as_secs_f64();
        let what = step.row.as_ref().map_or(step.sql.as_str(), |(bounds, _)| bounds.name.as_str());
        match &step.row {
            Some((bounds, StepFigure::Value)) => {
                let value = number(&answers).ok_or_else(|| format!("{what}: no number"))?;
                done.figures.push((bounds.clone(), StepFigure::Value, value));
                continue;
            }
            Some((bounds, StepFigure::Time)) => done.time(bounds, seconds),
            None => {}
        }
        // Rows without a total order are compared as a set; one answer without rows is like the other.
        done.answers.push((what.to_string(), rows_of(answers, false)));
    }
    Ok(done)
}

/// Runs a statement, and names it if it fails.
pub(super) fn ask(client: &mut Client, sql: &str) -> Result<Vec<Answer>, String> {
    client.query(sql).map_err(|e| format!("{sql}: {e}"))
}

fn number(answers: &[Answer]) -> Option<f64> {
    answers.last()?.rows.first()?.first()?.as_ref()?.parse().ok()
}

/// Both servers have answered the same.
fn compare(base: &TurnDone, other: &TurnDone) -> Result<(), String> {
    let both = base.answers.iter().zip(&other.answers);
    let mut different = both.filter_map(|((what, base), (_, other))| Some((what, difference(base, other)?)));
    different.next().map_or(Ok(()), |(what, difference)| Err(format!("{what}: another answer: {difference}")))
}

/// Drops whatever the part has created, and creates its schema again.
pub(super) fn begin_anew(sides: [&ComparedServer; 2]) -> Result<(), String> {
    drop_all(sides)?;
    let create = format!("create schema {SCHEMA}");
    sides.iter().try_for_each(|side| side.alone(|| ask(&mut session(side)?, &create).map(drop)))
}

pub(super) fn drop_all(sides: [&ComparedServer; 2]) -> Result<(), String> {
    let drop_schema = format!("drop schema if exists {SCHEMA} cascade");
    sides.iter().try_for_each(|side| side.alone(|| ask(&mut session(side)?, &drop_schema).map(drop)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn done(value: &str) -> TurnDone {
        TurnDone { answers: vec![("sums".into(), vec![vec![Some(value.into())]])], figures: Vec::new() }
    }

    #[test]
    fn another_answer_is_told_with_its_statement() {
        assert_eq!(compare(&done("1.50"), &done("1.5")), Ok(()));
        let error = compare(&done("1"), &done("2")).unwrap_err();
        assert_eq!(error, "sums: another answer: row 1: (2) instead of (1)");
    }

    #[test]
    fn a_value_is_the_number_of_the_last_answer() {
        let answer = |value: Option<&str>| Answer { rows: vec![vec![value.map(str::to_string)]], ..Answer::default() };
        assert_eq!(number(&[answer(Some("1")), answer(Some("4.3"))]), Some(4.3));
        assert_eq!((number(&[answer(None)]), number(&[]), number(&[answer(Some("x"))])), (None, None, None));
    }
}
