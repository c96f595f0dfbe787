//! Files of SQL with expected results, in sqllogictest's format (`.slt`).
//!
//! What is understood: `statement ok`, `statement count N`, `statement error SQLSTATE MESSAGE`, `query TYPES [rowsort]`
//! with `----`, `connection NAME` (which session the next record uses; `connection NAME as ROLE`
//! for one that a role begins), `skipif` and `onlyif` with the name of an
//! engine (`kilndb`, `postgres`), and comments. Values of a row are joined by a space, null is `NULL`, an empty
//! string `(empty)`.

use crate::client::{Address, Answer, Client, ClientError};
use std::collections::HashMap;
use std::fmt::Write;
use std::path::Path;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expectation {
    Ok,
    Count(u64),
    /// SQLSTATE and message; the message may be left out.
    Error(String),
    Rows {
        types: String,
        sorted: bool,
        rows: Vec<String>,
    },
}

#[derive(Clone, Debug)]
pub struct Record {
    /// First line in the file, from 1.
    pub line: usize,
    pub connection: String,
    pub only: Option<String>,
    pub skip: Option<String>,
    /// Comments and conditions before the record, as they are.
    pub preamble: String,
    pub sql: String,
    pub expect: Expectation,
}

pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut records = Vec::new();
    let (mut preamble, mut only, mut skip, mut connection) = (String::new(), None, None, "default".to_string());
    let mut at = 0;
    while at < lines.len() {
        let line = lines[at];
        let words: Vec<&str> = line.split_whitespace().collect();
        let start = at;
        at += 1;
        let expect = match words[..] {
            ["statement", "ok"] => Expectation::Ok,
            ["statement", "count", n] => {
                Expectation::Count(n.parse().map_err(|_| format!("line {}: bad count", start + 1))?)
            }
            ["statement", "error", ..] => {
                Expectation::Error(line.trim_start_matches("statement error").trim().to_string())
            }
            ["query", ..] => Expectation::Rows {
                types: words.get(1).unwrap_or(&"").to_string(),
                sorted: words.get(2) == Some(&"rowsort"),
                rows: Vec::new(),
            },
            _ => {
                match words[..] {
                    [] => {}
                    ["onlyif", name] => only = Some(name.to_string()),
                    ["skipif", name] => skip = Some(name.to_string()),
                    ["connection", name] => connection = name.to_string(),
                    ["connection", name, "as", role] => connection = format!("{name} as {role}"),
                    [word, ..] if word.starts_with('#') => {}
                    _ => return Err(format!("line {}: not understood: {line}", start + 1)),
                }
                preamble.push_str(line);
                preamble.push('\n');
                continue;
            }
        };
        let mut sql = Vec::new();
        while at < lines.len() && !lines[at].trim().is_empty() && lines[at] != "----" {
            sql.push(lines[at]);
            at += 1;
        }
        let mut record = Record {
            line: start + 1,
            connection: std::mem::replace(&mut connection, "default".into()),
            only: only.take(),
            skip: skip.take(),
            preamble: std::mem::take(&mut preamble),
            sql: sql.join("\n"),
            expect,
        };
        if let Expectation::Rows { rows, .. } = &mut record.expect
            && lines.get(at) == Some(&"----")
        {
            at += 1;
            while at < lines.len() && !lines[at].is_empty() {
                rows.push(lines[at].to_string());
                at += 1;
            }
        }
        records.push(record);
    }
    Ok(records)
}

/// Runs a file in a database of its own. Answers the number of records run, or the first differences.
pub fn run_file(path: &Path, address: &Address, engine: &str) -> Result<usize, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let records = parse(&text)?;
    let mut sessions = Sessions::new(path, address)?;
    let mut failures = String::new();
    let (mut run, mut failed) = (0, 0);
    for record in records.iter().filter(|r| applies(r, engine)) {
        run += 1;
        let found = sessions.run(record)?;
        if let Err(difference) = compare(&record.expect, &found) {
            failed += 1;
            let _ = writeln!(failures, "{}:{}: {}\n{difference}", path.display(), record.line, record.sql);
            if failed == 20 {
                break;
            }
        }
    }
    sessions.finish();
    if failed == 0 { Ok(run) } else { Err(failures) }
}

/// Runs a file and answers its text with the results found in place of those expected.
pub fn record_file(path: &Path, address: &Address, engine: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let records = parse(&text)?;
    let mut sessions = Sessions::new(path, address)?;
    let mut output = String::new();
    for record in &records {
        let expect = if applies(record, engine) {
            observed(&record.expect, &sessions.run(record)?)
        } else {
            record.expect.clone()
        };
        output.push_str(&record.preamble);
        let head = match &expect {
            Expectation::Ok => "statement ok".to_string(),
            Expectation::Count(n) => format!("statement count {n}"),
            Expectation::Error(e) => format!("statement error {e}"),
            Expectation::Rows { types, sorted, .. } => {
                format!("query {types}{}", if *sorted { " rowsort" } else { "" })
            }
        };
        output.push_str(&head);
        output.push('\n');
        output.push_str(&record.sql);
        output.push('\n');
        if let Expectation::Rows { rows, .. } = expect {
            output.push_str("----\n");
            for row in rows {
                output.push_str(&row);
                output.push('\n');
            }
        }
    }
    sessions.finish();
    Ok(output)
}

fn applies(record: &Record, engine: &str) -> bool {
    record.only.as_deref().is_none_or(|name| name == engine) && record.skip.as_deref() != Some(engine)
}

type RecordOutcome = Result<Answer, String>;

/// The sessions of one file, by name.
struct Sessions<'a> {
    address: &'a Address,
    database: String,
    open: HashMap<String, Client>,
}

impl<'a> Sessions<'a> {
    fn new(path: &Path, address: &'a Address) -> Result<Self, String> {
        let topic = path.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
        let database = format!("slt_{}", topic.replace('-', "_"));
        let mut admin = Client::connect(address, "postgres").map_err(|e| e.to_string())?;
        admin.query(&format!("drop database if exists {database}")).map_err(|e| e.to_string())?;
        admin.query(&format!("create database {database}")).map_err(|e| e.to_string())?;
        Ok(Sessions { address, database, open: HashMap::new() })
    }

    fn run(&mut self, record: &Record) -> Result<RecordOutcome, String> {
        if !self.open.contains_key(&record.connection) {
            let mut address = self.address.clone();
            if let Some((_, role)) = record.connection.split_once(" as ") {
                address.user = role.to_string();
            }
            let client = Client::connect(&address, &self.database).map_err(|e| e.to_string())?;
            self.open.insert(record.connection.clone(), client);
        }
        let Some(client) = self.open.get_mut(&record.connection) else {
            return Err("no session".into());
        };
        match client.query(&record.sql) {
            Ok(answers) => Ok(Ok(answers.into_iter().next_back().unwrap_or_default())),
            Err(ClientError::Server(e)) if e.severity == "ERROR" => Ok(Err(format!("{} {}", e.code, e.message))),
            Err(e) => Err(format!("line {}: {e}: {}", record.line, record.sql)),
        }
    }

    fn finish(mut self) {
        self.open.clear();
        if let Ok(mut admin) = Client::connect(self.address, "postgres") {
            // The server goes away anyway; a shared one keeps a database at worst.
            let _ = admin.query(&format!("drop database if exists {}", self.database));
        }
    }
}

fn compare(expect: &Expectation, found: &RecordOutcome) -> Result<(), String> {
    let seen = observed(expect, found);
    let same = match (expect, &seen) {
        (Expectation::Ok, Expectation::Count(_)) => true,
        // A code alone stands for any message.
        (Expectation::Error(code), Expectation::Error(error)) if !code.contains(' ') => {
            error.starts_with(code.as_str())
        }
        (Expectation::Rows { rows, .. }, Expectation::Rows { rows: found, .. }) => rows == found,
        _ => *expect == seen,
    };
    if same { Ok(()) } else { Err(format!("  expected {}\n  found    {}\n", show(expect), show(&seen))) }
}

fn show(expect: &Expectation) -> String {
    match expect {
        Expectation::Ok => "success".into(),
        Expectation::Count(n) => format!("{n} rows"),
        Expectation::Error(e) => format!("error {e}"),
        Expectation::Rows { rows, .. } => rows.iter().map(|r| format!("\n    {r}")).collect(),
    }
}

/// What was found, in the form of what was expected.
fn observed(expect: &Expectation, found: &RecordOutcome) -> Expectation {
    let answer = match found {
        Err(error) => return Expectation::Error(error.clone()),
        Ok(answer) => answer,
    };
    match expect {
        Expectation::Count(_) => {
            Expectation::Count(answer.tag.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap_or(0))
        }
        Expectation::Rows { sorted, .. } => {
            let mut rows: Vec<String> = answer.rows.iter().map(|row| show_row(row)).collect();
            if *sorted {
                rows.sort();
            }
            Expectation::Rows {
                types: answer.columns.iter().map(|c| type_letter(c.1)).collect(),
                sorted: *sorted,
                rows,
            }
        }
        Expectation::Ok | Expectation::Error(_) => Expectation::Ok,
    }
}

fn show_row(row: &[Option<String>]) -> String {
    let values: Vec<String> = row
        .iter()
        .map(|value| match value.as_deref() {
            None => "NULL".to_string(),
            Some("") => "(empty)".to_string(),
            Some(text) => text.replace('\n', "\\n"),
        })
        .collect();
    values.join(" ")
}

fn type_letter(oid: u32) -> char {
    match oid {
        20 | 21 | 23 | 26 => 'I',
        700 | 701 | 1700 => 'R',
        _ => 'T',
    }
}
