//! A script that runs once, statement by statement: what each takes, what it answers, how many rows pass through its plan.
//!
//! 1. A statement that is refused is told with its figures, and the script goes on; what has no name has no figures in a script with names,
//!    and the script needs it.
//! 2. What is counted (rows of plans) is counted outside of what is timed.
//! 3. The rows of a COPY are taken in as they come, and their sum is the answer: whatever their order.
//!
//! Must not know: experiments.

use super::answers::{StatementAnswer, rows_of};
use super::estimates;
use super::session::ScriptSession;
use crate::client::{Answer, ClientError, first_value};
use crate::driver::changed_rows_of_tag;
use crate::explained::produced_rows;
use crate::process::TempDir;
use crate::results::{EstimateResults, StatementResults};
use crate::script::{Script, ScriptCommand, SqlText, VariableNames};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::time::Instant;

/// Characters of a statement that results show.
pub(super) const STATEMENT_CHARS: usize = 200;
/// What is sent in a message of COPY.
const CHUNK_BYTES: usize = 1 << 16;
const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The signature, flags and the length of an extension that nobody has.
const BINARY_HEADER_BYTES: usize = 19;

/// What a script has come to.
#[derive(Default)]
pub(super) struct TimedScript {
    pub statements: Vec<StatementResults>,
    /// Of all statements that were done.
    pub answers: Vec<StatementAnswer>,
    /// As command tags say.
    pub changed_rows: u64,
    /// How many statements have been run.
    run: usize,
}

/// What is found out about each statement that has a name, beside its time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PlanQuestion {
    Nothing,
    /// How many rows pass through all nodes of its plan: EXPLAIN ANALYZE comes behind it.
    Rows,
    /// How near its estimates and its plan come to the best; its time is then that of EXPLAIN ANALYZE.
    Estimates,
}

/// What one statement has done.
#[derive(Default)]
struct Done {
    answers: Vec<Answer>,
    estimates: Option<(f64, EstimateResults)>,
    /// What a COPY has sent.
    copied: Option<CopySums>,
}

/// What came out of a server, whatever the order of its rows. Each row is a message.
#[derive(Clone, Copy, Default)]
struct CopySums {
    bytes: u64,
    sum: u64,
}

impl CopySums {
    fn add(&mut self, message: &[u8]) {
        self.bytes += message.len() as u64;
        // A scan of a large table may begin anywhere, and the first row comes behind the header of the binary format.
        let header = if message.starts_with(BINARY_SIGNATURE) { BINARY_HEADER_BYTES } else { 0 };
        let row = message.get(header..).unwrap_or(message);
        let (words, rest) = row.as_chunks::<8>();
        let mut hash = 0;
        let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| mix(u64::from(*byte)));
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// Runs a script. Errors: a statement without a name is refused, or the connection is lost.
pub(super) fn run(
    session: &mut ScriptSession,
    (script, names): (&Script, &VariableNames),
    question: PlanQuestion,
) -> Result<TimedScript, String> {
    let has_names = script.commands.iter().any(|command| command.notes.name.is_some());
    let folder = TempDir::new("lab-copy").map_err(|e| e.to_string())?;
    let mut timed = TimedScript::default();
    session.run_with(script, names, &mut |session, command, sql| {
        let text = session.text_of(sql, names);
        let has_figure = command.notes.name.is_some() || !has_names;
        timed.run += 1;
        let began = Instant::now();
        let is_asked = command.notes.name.is_some() && !command.notes.is_value;
        let done = match question {
            PlanQuestion::Estimates if is_asked => estimated(session, &text),
            _ => one(session, command, &text, &folder),
        };
        let taken = began.elapsed();
        let mut results = StatementResults {
            text: sql.in_one_line(names, STATEMENT_CHARS),
            name: command.notes.name.clone().unwrap_or_default(),
            count: 1,
            mean_us: taken.as_secs_f64() * 1e6,
            ..StatementResults::default()
        };
        match done {
            Ok(mut done) => {
                if let Some((chosen_ms, estimates)) = done.estimates.take() {
                    (results.mean_us, results.estimates) = (chosen_ms * 1e3, Some(estimates));
                }
                if command.notes.is_value {
                    results.value = Some(number(&done.answers).ok_or("the answer is no number")?);
                }
                if question == PlanQuestion::Rows && is_asked {
                    results.plan_rows = plan_rows(session, &text);
                }
                let figure = has_figure.then_some(timed.statements.len());
                timed.take_in(session, (command, sql, names), (figure, results.title()), done)?;
            }
            Err(e @ ClientError::Server(_)) if command.notes.name.is_some() => results.problem = Some(e.to_string()),
            Err(e) => return Err(e.to_string()),
        }
        if has_figure {
            timed.statements.push(results);
        }
        Ok(())
    })?;
    Ok(timed)
}

impl TimedScript {
    fn take_in(
        &mut self,
        session: &mut ScriptSession,
        (command, sql, names): (&ScriptCommand, &SqlText, &VariableNames),
        (figure, title): (Option<usize>, &str),
        done: Done,
    ) -> Result<(), String> {
        self.changed_rows += done.answers.iter().map(|answer| changed_rows_of_tag(&answer.tag)).sum::<u64>();
        session.keep(&sql.results, &done.answers, names)?;
        let rows = match done.copied {
            Some(sums) => vec![vec![Some(sums.bytes.to_string()), Some(sums.sum.to_string())]],
            // A value is each server's own.
            None if command.notes.is_value => Vec::new(),
            None => rows_of(done.answers, command.notes.is_in_order),
        };
        self.answers.push(StatementAnswer { number: self.run, figure, title: title.to_string(), rows });
        Ok(())
    }
}

fn one(
    session: &mut ScriptSession,
    command: &ScriptCommand,
    text: &str,
    folder: &TempDir,
) -> Result<Done, ClientError> {
    let file = command.notes.file.as_ref().map(|name| folder.path().join(name));
    match copy_direction(text) {
        Some(CopyDirection::Out) => {
            let mut sums = CopySums::default();
            match file {
                Some(path) => {
                    let mut file = BufWriter::new(File::create(path)?);
                    session.client.copy_out(text, |row| {
                        sums.add(row);
                        file.write_all(row)
                    })?;
                    file.flush()?;
                }
                None => session.client.copy_out(text, |row| {
                    sums.add(row);
                    Ok(())
                })?,
            }
            Ok(Done { copied: Some(sums), ..Done::default() })
        }
        Some(CopyDirection::In) => {
            let path = file.ok_or_else(|| io::Error::other("COPY FROM STDIN needs a note `-- file: NAME`"))?;
            let mut file = File::open(path)?;
            session.client.copy_in(text, |out| copy_all(&mut file, out))?;
            Ok(Done::default())
        }
        None => Ok(Done { answers: session.client.query(text)?, ..Done::default() }),
    }
}

fn copy_all(file: &mut File, out: &mut dyn Write) -> io::Result<()> {
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(()),
            length => out.write_all(&chunk[..length])?,
        }
    }
}

#[derive(Debug, PartialEq)]
enum CopyDirection {
    In,
    Out,
}

/// Whose data are between the client and the server.
fn copy_direction(text: &str) -> Option<CopyDirection> {
    let mut words = text.split_whitespace().map(str::to_ascii_lowercase).peekable();
    if words.next()? != "copy" {
        return None;
    }
    let mut before = String::new();
    for word in words {
        match (before.as_str(), word.as_str()) {
            ("to", "stdout") => return Some(CopyDirection::Out),
            ("from", "stdin") => return Some(CopyDirection::In),
            _ => before = word,
        }
    }
    None
}

fn estimated(session: &mut ScriptSession, text: &str) -> Result<Done, ClientError> {
    let query = estimates::measure(&mut session.client, text)?;
    Ok(Done { answers: query.answers, estimates: Some((query.chosen_ms, query.estimates)), copied: None })
}

/// None: the server does not say.
fn plan_rows(session: &mut ScriptSession, text: &str) -> Option<f64> {
    produced_rows(&estimates::explain_analyze(&mut session.client, text).ok()?)
}

fn number(answers: &[Answer]) -> Option<f64> {
    first_value(answers)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copy_is_known_by_its_words() {
        for (text, direction) in [
            ("copy t to stdout", Some(CopyDirection::Out)),
            ("COPY (select 1)\n TO  STDOUT (format binary)", Some(CopyDirection::Out)),
            ("copy t from stdin", Some(CopyDirection::In)),
            ("copy t to '/tmp/x'", None),
            ("select 'copy t to stdout'", None),
            ("select * from stdin", None),
        ] {
            assert_eq!(copy_direction(text), direction, "{text}");
        }
    }

    #[test]
    fn sums_of_rows_do_not_depend_on_their_order() {
        let sums = |rows: &[&[u8]]| {
            let mut sums = CopySums::default();
            rows.iter().for_each(|row| sums.add(row));
            (sums.bytes, sums.sum)
        };
        assert_eq!(sums(&[b"a row of some length\n", b"b\n"]), sums(&[b"b\n", b"a row of some length\n"]));
        assert_ne!(sums(&[b"ab\n"]), sums(&[b"ba\n"]));
        let header: Vec<u8> = [BINARY_SIGNATURE, &[0; 8], b"row"].concat();
        assert_eq!(sums(&[&header]).1, sums(&[b"row"]).1);
    }

    #[test]
    fn a_value_is_the_number_of_the_last_answer() {
        let answer = |value: Option<&str>| Answer { rows: vec![vec![value.map(str::to_string)]], ..Answer::default() };
        assert_eq!(number(&[answer(Some("1")), answer(Some("4.3"))]), Some(4.3));
        assert_eq!((number(&[answer(None)]), number(&[]), number(&[answer(Some("x"))])), (None, None, None));
    }
}
