//! `kilndb top`: what the console shows, in a terminal, of any server that speaks the protocol.
//!
//! 1. It asks in SQL with the rights of whoever logs in, in a read-only session, once an interval.
//! 2. A question that a server cannot answer (PostgreSQL has no hot rows) is left out; the others are shown.
//! 3. Where standard output is no terminal, or with `--once`, it prints one screen and ends.
//!
//! Must not know: how a server counts.

use crate::client::{Answer, Client, ClientError};
use crate::commit_latency::CommitLatency;
use crate::questions::ServerQuestion;
use crate::run::{StopWatch, is_stopped};
use crate::target::TargetUri;
use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

pub const HELP: &str = "\
Usage:
  kilndb top [URI] [--interval SECONDS] [--once]

shows what a server does, until Ctrl-C: commits and changes a second, how long commits take, the hottest rows, sessions by
state and wait, open transactions, undo, statements, queues, pending rows of inverted indexes. URI is postgresql://user:password@host:port/database (without one: the user `postgres` at
127.0.0.1:5432)
";

/// Rows of a table on the screen.
const ROWS_MAX: usize = 8;
const CELL_CHARS_MAX: usize = 60;

/// The tables on the screen: titles, and the questions that they answer.
const TABLES: [(&str, &str); 8] = [
    ("Hottest rows", "hot_rows"),
    ("Sessions", "sessions"),
    ("Open transactions, the oldest first", "snapshots"),
    ("Undo", "undo"),
    ("Statements that run, the longest first", "statements"),
    ("Queues", "queues"),
    ("Inverted indexes", "inverted_indexes"),
    ("Slowest statements", "slow_statements"),
];

/// Columns that a line of a screen has no room for.
const NOT_SHOWN: [&str; 1] = ["plan"];

/// The columns of the question about throughput that are shown.
const COUNTERS: [&str; 6] = ["commits", "rollbacks", "inserted", "updated", "deleted", "fetched"];

/// Counters as they stood then.
#[derive(Clone)]
struct CounterMarks {
    at: Instant,
    counts: Vec<f64>,
    /// Empty where the server does not tell.
    latency: CommitLatency,
}

/// What `top` is asked.
struct TopRequest {
    uri: TargetUri,
    interval: Duration,
    once: bool,
}

pub fn run(arguments: &[String]) -> Result<(), String> {
    if arguments.iter().any(|word| matches!(word.as_str(), "help" | "--help" | "-h")) {
        print!("{HELP}");
        return Ok(());
    }
    let request = request(arguments)?;
    let mut client = connect(&request.uri).map_err(|e| format!("{}: {e}", request.uri.shown()))?;
    let version = client.value("select version()").map_err(|e| e.to_string())?.unwrap_or_default();
    let version = version.split(',').next().unwrap_or_default().to_string();
    let is_live = !request.once && std::io::stdout().is_terminal();
    let _watch = StopWatch::new();
    let mut before = marks(&mut client).map_err(|e| e.to_string())?;
    loop {
        let next = Instant::now() + request.interval;
        while Instant::now() < next && !is_stopped() {
            std::thread::sleep(Duration::from_millis(50));
        }
        if is_stopped() {
            return Ok(());
        }
        let now = marks(&mut client).map_err(|e| e.to_string())?;
        let figures = format!("{}{}", rates(&before, &now), latencies(&before, &now));
        let mut screen = format!("{version}   {}\n\n{figures}\n", request.uri.shown());
        for (title, name) in TABLES {
            match ask(name, &mut client) {
                Ok(answer) => screen.push_str(&shown(title, &answer)),
                Err(ClientError::Server(_)) => {}
                Err(e) => return Err(e.to_string()),
            }
        }
        before = now;
        // To the top left, then what was below.
        let text = if is_live { format!("\x1b[H\x1b[J{screen}") } else { screen };
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| e.to_string())?;
        if !is_live {
            return Ok(());
        }
    }
}

fn request(arguments: &[String]) -> Result<TopRequest, String> {
    let mut request = TopRequest {
        uri: TargetUri::read("postgresql://postgres@127.0.0.1:5432/postgres")?,
        interval: Duration::from_secs(1),
        once: false,
    };
    let mut rest = arguments.iter();
    while let Some(word) = rest.next() {
        match word.as_str() {
            "--once" => request.once = true,
            "--interval" => {
                let seconds = rest.next().and_then(|text| text.parse::<f64>().ok());
                let seconds = seconds.filter(|seconds| (0.1..=3600.0).contains(seconds));
                request.interval =
                    Duration::from_secs_f64(seconds.ok_or("--interval needs seconds, from 0.1 to 3600")?);
            }
            option if option.starts_with("--") => return Err(format!("unknown option {option}")),
            uri => request.uri = TargetUri::read(uri)?,
        }
    }
    Ok(request)
}

fn connect(uri: &TargetUri) -> Result<Client, ClientError> {
    let mut client = Client::log_in(&uri.address, &uri.database, uri.password.as_deref())?;
    client.query(
        "set application_name = 'kilndb top'; set default_transaction_read_only = on; set statement_timeout = '5s'",
    )?;
    Ok(client)
}

fn ask(name: &str, client: &mut Client) -> Result<Answer, ClientError> {
    ServerQuestion::find(name).map_or_else(|| Ok(Answer::default()), |question| question.ask(client))
}

fn marks(client: &mut Client) -> Result<CounterMarks, ClientError> {
    let answer = ask("throughput", client)?;
    let count = |name: &&str| {
        let at = answer.columns.iter().position(|(column, _)| column == name)?;
        answer.rows.first()?.get(at)?.as_deref()?.parse::<f64>().ok()
    };
    let counts = COUNTERS.iter().map(|name| count(name).unwrap_or(0.0)).collect();
    let latency = match ask("commits", client) {
        Ok(answer) => CommitLatency::of(&answer),
        Err(ClientError::Server(_)) => CommitLatency::default(),
        Err(e) => return Err(e),
    };
    Ok(CounterMarks { at: Instant::now(), counts, latency })
}

/// `   commit p50 0.31 ms   p99 2.40 ms`, if any was timed.
fn latencies(before: &CounterMarks, now: &CounterMarks) -> String {
    let since = now.latency.since(&before.latency);
    let percentiles = since.percentile_us(50.0).zip(since.percentile_us(99.0));
    percentiles.map_or_else(String::new, |(median_us, most_us)| {
        format!("   commit p50 {:.2} ms   p99 {:.2} ms", median_us / 1e3, most_us / 1e3)
    })
}

/// `commits 1200/s   rollbacks 0/s   …`
fn rates(before: &CounterMarks, now: &CounterMarks) -> String {
    let seconds = now.at.saturating_duration_since(before.at).as_secs_f64().max(1e-3);
    let rate = |(then, now): (&f64, &f64)| (now - then).max(0.0) / seconds;
    let rates = before.counts.iter().zip(&now.counts).map(rate);
    let told: Vec<String> = COUNTERS.iter().zip(rates).map(|(name, rate)| format!("{name} {rate:.0}/s")).collect();
    told.join("   ")
}

/// A table with its columns aligned. What nobody is in is not shown.
fn shown(title: &str, answer: &Answer) -> String {
    if answer.rows.is_empty() {
        return String::new();
    }
    let is_shown = |at: &usize| !NOT_SHOWN.contains(&answer.columns[*at].0.as_str());
    let columns: Vec<usize> = (0..answer.columns.len()).filter(is_shown).collect();
    let header = columns.iter().map(|at| answer.columns[*at].0.clone()).collect();
    let cell =
        |row: &Vec<Option<String>>, at: usize| printable(row.get(at).and_then(Option::as_deref).unwrap_or_default());
    let rows = answer.rows.iter().take(ROWS_MAX).map(|row| columns.iter().map(|at| cell(row, *at)).collect());
    let lines: Vec<Vec<String>> = std::iter::once(header).chain(rows).collect();
    let width =
        |at: usize| lines.iter().filter_map(|line| line.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = format!("\n{title}\n");
    for line in &lines {
        let cells: Vec<String> = line.iter().zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        text.push_str("  ");
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

/// What a statement says must not steer the terminal.
fn printable(text: &str) -> String {
    let line: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    match line.char_indices().nth(CELL_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_shown_is_asked_for() {
        for (title, name) in TABLES {
            assert!(ServerQuestion::find(name).is_some(), "{title}");
        }
        let throughput = ServerQuestion::find("throughput").expect("a question");
        assert!(COUNTERS.iter().all(|name| throughput.sql.contains(&format!(" as {name}"))));
    }

    #[test]
    fn rates_are_by_second() {
        let at = Instant::now();
        let before = CounterMarks { at, counts: vec![100.0, 5.0], latency: CommitLatency::default() };
        let now = CounterMarks { at: at + Duration::from_secs(2), counts: vec![300.0, 1.0], ..before.clone() };
        // A server that was started anew counts from the beginning.
        assert_eq!(rates(&before, &now), "commits 100/s   rollbacks 0/s");
    }

    #[test]
    fn a_table_is_aligned_and_harmless() {
        let answer = Answer {
            columns: vec![("pid".into(), 23), ("statement".into(), 25)],
            rows: vec![
                vec![Some("7".into()), Some("select 1\x1b[2J\nfrom t".into())],
                vec![Some("1234".into()), Some("x".repeat(100))],
            ],
            tag: String::new(),
        };
        let text = shown("Statements", &answer);
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[..3], ["", "Statements", "  pid   statement"]);
        assert_eq!(lines[3], "  7     select 1 [2J from t");
        assert!(lines[4].ends_with("x…") && lines[4].chars().count() == 8 + CELL_CHARS_MAX + 1, "{}", lines[4]);
        assert_eq!(shown("Nothing", &Answer::default()), "");
    }
}
