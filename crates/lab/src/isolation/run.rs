//! Runs the orders of a spec.

use super::spec::{self, Spec};
use crate::client::{Address, Answer, Client, ClientError, Notification, ServerError};
use std::collections::VecDeque;
use std::fmt::Write;
use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

/// How long a session must be seen to wait for a lock until the next step begins.
const SETTLED: Duration = Duration::from_millis(25);
/// How long a session must be seen to wait in a second run, after a first one that differed: a busy machine may be slow
/// to go on.
const SETTLED_SLOWLY: Duration = Duration::from_millis(700);
/// The longest that a step may take.
const PATIENCE: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(6);

/// Compares a spec's results with those recorded. Answers the number of orders run.
pub fn run_file(path: &Path, address: &Address, engine: &str) -> Result<usize, String> {
    let Some(mut runner) = Runner::new(path, address, engine)? else { return Ok(0) };
    let expected_path = path.with_extension("out");
    let expected = std::fs::read_to_string(&expected_path).map_err(|e| format!("{}: {e}", expected_path.display()))?;
    let expected: Vec<&str> = expected.split_inclusive('\n').collect();
    let mut at = 0;
    let mut differences = String::new();
    let runs = runner.runs();
    for (order, chosen) in &runs {
        let fits = |text: &str| {
            let lines: Vec<&str> = text.split_inclusive('\n').collect();
            expected.get(at..at + lines.len()) == Some(&lines[..])
        };
        let mut found = runner.run(*order, chosen, SETTLED)?;
        if !fits(&found) {
            found = runner.run(*order, chosen, SETTLED_SLOWLY)?;
        }
        if fits(&found) {
            at += found.lines().count();
            continue;
        }
        let length = runner.length(&expected[at.min(expected.len())..]);
        let _ = writeln!(
            differences,
            "expected:\n{}found:\n{found}",
            expected[at.min(expected.len())..][..length].concat()
        );
        at += length;
    }
    if at != expected.len() {
        let _ = writeln!(differences, "{} has more than was found", expected_path.display());
    }
    if differences.is_empty() { Ok(runs.len()) } else { Err(format!("{}\n{differences}", path.display())) }
}

/// Writes down what a spec gives.
pub fn record_file(path: &Path, address: &Address, engine: &str) -> Result<usize, String> {
    let Some(mut runner) = Runner::new(path, address, engine)? else { return Ok(0) };
    let runs = runner.runs();
    let mut text = String::new();
    for (order, chosen) in &runs {
        text.push_str(&runner.run(*order, chosen, SETTLED * 8)?);
    }
    std::fs::write(path.with_extension("out"), text).map_err(|e| e.to_string())?;
    Ok(runs.len())
}

struct Runner {
    spec: Spec,
    address: Address,
    database: String,
    control: Client,
}

/// A session's thread: statements go in, results come out of the channel all share.
struct Session {
    pid: String,
    statements: Sender<String>,
    /// The step that has not ended yet.
    busy: Option<usize>,
    waited: bool,
    /// Steps whose turn came while an earlier one of this session had not ended.
    later: VecDeque<usize>,
}

struct StepOutcome {
    session: usize,
    result: Result<Vec<Answer>, ClientError>,
    notices: Vec<ServerError>,
    notifications: Vec<Notification>,
}

fn text_of(e: ClientError) -> String {
    e.to_string()
}

impl Runner {
    /// None: the spec is not for this engine.
    fn new(path: &Path, address: &Address, engine: &str) -> Result<Option<Runner>, String> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let spec = spec::parse(&text).map_err(|e| format!("{}: {e}", path.display()))?;
        if spec.only.as_deref().is_some_and(|only| only != engine) {
            return Ok(None);
        }
        let name: String =
            path.file_stem().unwrap_or_default().to_string_lossy().replace(|c: char| !c.is_alphanumeric(), "_");
        let database = format!("isolation_{name}");
        let mut maker = Client::connect(address, "postgres").map_err(text_of)?;
        maker.query(&format!("drop database if exists {database}")).map_err(text_of)?;
        maker.query(&format!("create database {database}")).map_err(text_of)?;
        let control = Client::connect(address, &database).map_err(text_of)?;
        Ok(Some(Runner { spec, address: address.clone(), database, control }))
    }

    /// (order, values of placeholders) of every run.
    fn runs(&self) -> Vec<(usize, Vec<usize>)> {
        let combinations = self.spec.combinations();
        (0..self.spec.orders.len())
            .flat_map(|order| combinations.iter().map(move |chosen| (order, chosen.clone())))
            .collect()
    }

    /// How many of these lines tell of the first run.
    fn length(&self, lines: &[&str]) -> usize {
        if !self.spec.report.is_empty() {
            return lines.len().min(1);
        }
        let next = lines.iter().skip(1).position(|line| line.starts_with("order "));
        next.map_or(lines.len(), |n| n + 1)
    }

    fn run(&mut self, order: usize, chosen: &[usize], settled: Duration) -> Result<String, String> {
        // Sessions of the run before may still be on their way out.
        self.control
            .query("set lock_timeout = '10s'; drop schema if exists spec cascade; create schema spec")
            .map_err(text_of)?;
        let mut maker = Client::connect(&self.address, &self.database).map_err(text_of)?;
        maker.query("set search_path = spec").map_err(text_of)?;
        if !self.spec.setup.is_empty() {
            let setup = self.spec.fill(&self.spec.setup, chosen);
            maker.query(&setup).map_err(|e| format!("setup: {e}"))?;
        }
        drop(maker);
        let (sender, outcomes) = mpsc::channel();
        let mut sessions = Vec::new();
        for (number, session) in self.spec.sessions.iter().enumerate() {
            let mut client = Client::connect(&self.address, &self.database).map_err(text_of)?;
            client.query("set search_path = spec").map_err(text_of)?;
            if let Some(setup) = &session.setup {
                client.query(&self.spec.fill(setup, chosen)).map_err(|e| format!("setup of {}: {e}", session.name))?;
            }
            let pid = client.value("select pg_backend_pid()").map_err(text_of)?.unwrap_or_default();
            let (statements, inbox) = mpsc::channel();
            let sender = sender.clone();
            std::thread::spawn(move || serve(number, client, &inbox, &sender));
            sessions.push(Session { pid, statements, busy: None, waited: false, later: VecDeque::new() });
        }
        let mut turns =
            PermutationRun { runner: self, chosen, sessions, outcomes, settled, told: Vec::new(), unended: 0 };
        let result = turns.take(order);
        // Whoever still waits must end, or it would disturb the next run.
        let stuck: Vec<String> = turns.sessions.iter().filter(|s| s.busy.is_some()).map(|s| s.pid.clone()).collect();
        let told = std::mem::take(&mut turns.told);
        drop(turns);
        for pid in &stuck {
            self.control.query(&format!("select pg_terminate_backend({pid})")).map_err(text_of)?;
        }
        result?;
        Ok(self.text(order, chosen, &told, !stuck.is_empty()))
    }

    fn text(&self, order: usize, chosen: &[usize], told: &[(usize, String)], stuck: bool) -> String {
        let labels = self.spec.labels(chosen);
        if self.spec.report.is_empty() {
            let names: Vec<&str> =
                self.spec.orders[order].iter().map(|t| self.spec.steps[t.step].name.as_str()).collect();
            let mut text = format!("order {}{}{labels}\n", names.join(" "), if labels.is_empty() { "" } else { ": " });
            for (step, result) in told {
                let _ = writeln!(text, "{}: {result}", self.spec.steps[*step].name);
            }
            if stuck {
                text.push_str("(somebody waits at the end)\n");
            }
            return text + "\n";
        }
        let results = self.spec.report.iter().map(|step| {
            let of_step: Vec<String> =
                told.iter().filter(|(s, _)| s == step).map(|(_, result)| result.replace("\n    ", " / ")).collect();
            format!("{} {}", self.spec.steps[*step].name, of_step.join(", "))
        });
        let line =
            std::iter::once(labels).filter(|l| !l.is_empty()).chain(results).collect::<Vec<String>>().join(" | ");
        line + "\n"
    }
}

fn serve(session: usize, mut client: Client, inbox: &Receiver<String>, outcomes: &Sender<StepOutcome>) {
    while let Ok(sql) = inbox.recv() {
        let result = client.query(&sql);
        let notices = std::mem::take(&mut client.notices);
        let notifications = std::mem::take(&mut client.notifications);
        if outcomes.send(StepOutcome { session, result, notices, notifications }).is_err() {
            return;
        }
    }
}

/// One run of an order.
struct PermutationRun<'a> {
    runner: &'a mut Runner,
    chosen: &'a [usize],
    sessions: Vec<Session>,
    outcomes: Receiver<StepOutcome>,
    settled: Duration,
    told: Vec<(usize, String)>,
    /// Results that came since the last step began are told in the order of the file.
    unended: usize,
}

impl PermutationRun<'_> {
    fn take(&mut self, order: usize) -> Result<(), String> {
        let turns: Vec<(usize, bool)> = self.runner.spec.orders[order].iter().map(|t| (t.step, t.to_the_end)).collect();
        for (step, to_the_end) in turns {
            let session = self.runner.spec.steps[step].session;
            self.unended = self.told.len();
            match self.sessions[session].busy {
                Some(_) => self.sessions[session].later.push_back(step),
                None => self.begin(step)?,
            }
            self.settle(to_the_end.then_some(step))?;
            self.told[self.unended..].sort_by_key(|(s, _)| (*s != step, *s));
            for session in &mut self.sessions {
                if let (Some(step), false) = (session.busy, session.waited) {
                    session.waited = true;
                    self.told.push((step, "waits".into()));
                }
            }
        }
        Ok(())
    }

    fn begin(&mut self, step: usize) -> Result<(), String> {
        let sql = self.runner.spec.fill(&self.runner.spec.steps[step].sql, self.chosen);
        let session = &mut self.sessions[self.runner.spec.steps[step].session];
        session.busy = Some(step);
        session.waited = false;
        session.statements.send(sql).map_err(|_| "a session's thread has ended".to_string())
    }

    /// Until every session has ended its step or waits for a lock.
    fn settle(&mut self, to_the_end: Option<usize>) -> Result<(), String> {
        let begin = Instant::now();
        let mut waiting_since = None;
        while self.sessions.iter().any(|s| s.busy.is_some()) {
            match self.outcomes.recv_timeout(POLL) {
                Ok(outcome) => {
                    self.ended(outcome)?;
                    waiting_since = None;
                    continue;
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Err("every session's thread has ended".into()),
            }
            let unended =
                to_the_end.filter(|step| self.sessions.iter().any(|s| s.busy == Some(*step) || s.later.contains(step)));
            if begin.elapsed() > PATIENCE {
                let stuck =
                    self.sessions.iter().filter_map(|s| s.busy).map(|step| self.runner.spec.steps[step].name.as_str());
                return Err(format!("no end of: {}", stuck.collect::<Vec<_>>().join(" ")));
            }
            if unended.is_some() || !self.all_wait_for_locks()? {
                waiting_since = None;
            } else if waiting_since.get_or_insert_with(Instant::now).elapsed() >= self.settled {
                return Ok(());
            }
        }
        Ok(())
    }

    fn all_wait_for_locks(&mut self) -> Result<bool, String> {
        let pids: Vec<&str> = self.sessions.iter().filter(|s| s.busy.is_some()).map(|s| s.pid.as_str()).collect();
        let sql = format!(
            "select count(*) from pg_stat_activity where (wait_event_type = 'Lock' or wait_event = 'SafeSnapshot') and pid in ({})",
            pids.join(", ")
        );
        Ok(self.runner.control.integer(&sql).map_err(text_of)? == pids.len() as i64)
    }

    fn ended(&mut self, outcome: StepOutcome) -> Result<(), String> {
        let Some(step) = self.sessions[outcome.session].busy.take() else { return Ok(()) };
        let result = self.describe(&outcome);
        let went_on =
            if self.sessions[outcome.session].waited && self.runner.spec.report.is_empty() { "goes on: " } else { "" };
        self.told.push((step, format!("{went_on}{result}")));
        match self.sessions[outcome.session].later.pop_front() {
            Some(next) => self.begin(next),
            None => Ok(()),
        }
    }

    fn describe(&self, outcome: &StepOutcome) -> String {
        let mut lines = Vec::new();
        for notice in &outcome.notices {
            lines.push(format!("{}: {}", notice.severity, notice.message));
        }
        match &outcome.result {
            Ok(answers) => {
                for answer in answers {
                    lines.push(answer.tag.clone());
                    lines.extend(answer.rows.iter().map(|row| {
                        let values: Vec<String> = row.iter().map(|v| self.value(v.as_deref())).collect();
                        format!("    {}", values.join(" "))
                    }));
                }
            }
            Err(ClientError::Server(e)) => {
                lines.push(format!("{} {}: {}", e.severity, e.code, e.message));
                let detail = e.detail.iter().flat_map(|d| d.lines());
                lines.extend(detail.map(|line| format!("    {}", self.mask(line))));
            }
            Err(ClientError::Io(_)) => lines.push("the connection is closed".into()),
        }
        for n in &outcome.notifications {
            lines.push(format!(
                "    notified of {} by {}: {}",
                n.channel,
                self.value(Some(&n.sender.to_string())),
                self.value(Some(&shortened(&n.payload)))
            ));
        }
        lines.join("\n")
    }

    fn value(&self, value: Option<&str>) -> String {
        match value {
            None => "NULL".into(),
            Some("") => "(empty)".into(),
            Some(text) => match self.sessions.iter().position(|s| s.pid == text) {
                Some(n) => self.runner.spec.sessions[n].name.clone(),
                None => text.to_string(),
            },
        }
    }

    /// Details of errors without what differs from run to run.
    fn mask(&self, line: &str) -> String {
        let mut words: Vec<String> = line.split(' ').map(str::to_string).collect();
        for at in 1..words.len() {
            let before = words[at - 1].to_lowercase();
            let word = words[at].clone();
            let bare = word.trim_end_matches([';', '.', ',', ':']);
            let tail = &word[bare.len()..];
            if before == "process" {
                words[at] = format!("{}{tail}", self.value(Some(bare)));
            } else if matches!(before.as_str(), "transaction" | "pivot" | "tuple" | "relation" | "database" | "[")
                || bare.starts_with('[')
            {
                words[at] = format!("#{tail}");
            }
        }
        words.join(" ")
    }
}

/// A long text's beginning and length.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(60) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text.to_string(),
    }
}
