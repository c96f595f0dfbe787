//! A client of a load: its place in its script, and what it waits for.

use super::figures::EndedTransaction;
use super::link::{LoadLink, Reply};
use super::{LoadFigures, LoadLength, LoadPlan, LoadProtocol};
use crate::client::{Fields, extended};
use crate::script::{
    ScriptEnvironment, ScriptRandom, ScriptStep, ShellWord, SleepTime, SqlResults, SqlText, VariableNames, Variables,
};
use std::io;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a client is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientState {
    /// The next transaction may begin.
    Between,
    /// It begins then.
    Due(Instant),
    Running,
    /// So many ReadyForQuery are still to come.
    Waiting,
    /// The same, of the statement that ends what has failed.
    RollingBack,
    Sleeping(Instant),
    Ended,
}

/// What a client shares with the others of its thread.
pub(super) struct ThreadShare<'t> {
    pub plan: &'t LoadPlan,
    pub figures: LoadFigures,
    /// When clients began to run.
    pub began: Instant,
    pub ends: Option<Instant>,
    /// With a rate: when the thread's next transaction is due.
    pub next_due: Instant,
    pub random: ScriptRandom,
    /// Room for a statement's text.
    pub text: String,
    /// Of the transactions that have ended, how many the plan's counter knows.
    pub shown: u64,
    pub ended: u64,
}

impl ThreadShare<'_> {
    /// When the next transaction is due, which is then taken. The thread has its share of the rate.
    fn take_due(&mut self) -> Option<Instant> {
        let rate = self.plan.rate? / self.plan.threads.max(1) as f64;
        let due = self.next_due;
        self.next_due = due + Duration::from_secs_f64(self.random.interval(1.0 / rate));
        Some(due)
    }
    fn at(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
    /// Tells the plan's counter what has ended, once in a turn of the thread's loop: threads that counted each transaction there
    /// would wait for each other.
    pub fn show_ended(&mut self) {
        let new = self.ended - std::mem::replace(&mut self.shown, self.ended);
        if new > 0 {
            self.plan.ended.fetch_add(new, Ordering::Relaxed);
        }
    }
}

pub(super) struct LoadClient {
    pub link: LoadLink,
    pub state: ClientState,
    variables: Variables,
    random: ScriptRandom,
    default_seed: i64,
    /// By script and command: has the server parsed the statement?
    parsed: Vec<Vec<bool>>,
    script: usize,
    at: usize,
    /// When the statement that is waited for was sent. None: it is part of a pipeline.
    sent: Option<Instant>,
    transactions: u64,
    transaction: RunningTransaction,
    is_in_pipeline: bool,
    /// ReadyForQuery that are to come.
    outstanding: usize,
    /// What the last ReadyForQuery said.
    status: u8,
    rows: ReadRows,
}

struct RunningTransaction {
    /// When it began, or was due.
    began: Instant,
    changed_rows: u64,
    tries: u32,
    /// As they were when it began, if it may be tried again.
    variables_before: Option<Variables>,
    /// The SQLSTATE, or `script`, and what was said.
    failure: Option<(String, String)>,
}

/// The rows that become variables.
#[derive(Default)]
struct ReadRows {
    columns: Vec<String>,
    last: Vec<Option<String>>,
    count: usize,
}

impl LoadClient {
    /// `number`: the client's among all.
    pub fn new(link: LoadLink, number: usize, plan: &LoadPlan) -> LoadClient {
        let mut variables = Variables::default();
        let mut set = |name: &str, text: String| {
            if let Some(variable) = plan.names.find(name) {
                variables.set_text(variable, text);
            }
        };
        let default_seed = ScriptRandom::of_seed(plan.seed).bits() as i64;
        set("client_id", number.to_string());
        set("random_seed", plan.seed.to_string());
        set("default_seed", default_seed.to_string());
        set("scale", "1".into());
        plan.presets.iter().for_each(|(name, text)| set(name, text.clone()));
        let given = plan.presets.iter().find(|(name, _)| name == "default_seed");
        let began = Instant::now();
        LoadClient {
            link,
            state: ClientState::Between,
            variables,
            random: ScriptRandom::of_seed(plan.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number as u64),
            default_seed: given.and_then(|(_, text)| text.parse().ok()).unwrap_or(default_seed),
            parsed: plan.scripts.iter().map(|(script, _)| vec![false; script.commands.len()]).collect(),
            script: 0,
            at: 0,
            sent: None,
            transactions: 0,
            transaction: RunningTransaction { began, changed_rows: 0, tries: 0, variables_before: None, failure: None },
            is_in_pipeline: false,
            outstanding: 0,
            status: b'I',
            rows: ReadRows::default(),
        }
    }

    /// The connection is gone.
    pub fn lost(&mut self, why: &str, share: &mut ThreadShare<'_>) {
        if self.state != ClientState::Ended {
            let at = share.at(Instant::now());
            share.figures.failed(at, "08006", why);
            self.state = ClientState::Ended;
        }
    }

    /// Goes on as far as it can without waiting.
    pub fn go_on(&mut self, now: Instant, share: &mut ThreadShare<'_>) {
        loop {
            match self.state {
                ClientState::Between => self.next_transaction(now, share),
                ClientState::Due(when) | ClientState::Sleeping(when) if when > now => return,
                ClientState::Due(_) => self.begin_transaction(share),
                ClientState::Sleeping(_) => self.state = ClientState::Running,
                ClientState::Running => self.command(share),
                ClientState::Waiting | ClientState::RollingBack if self.outstanding > 0 => return,
                ClientState::Waiting if self.transaction.failure.is_some() => self.fail(share),
                ClientState::Waiting => {
                    if let Some(sent) = self.sent.take() {
                        let time = now.saturating_duration_since(sent);
                        share.figures.statement_ended((self.script, self.at - 1), time);
                    }
                    self.state = ClientState::Running;
                }
                ClientState::RollingBack => self.try_again(),
                ClientState::Ended => return,
            }
        }
    }

    fn next_transaction(&mut self, now: Instant, share: &mut ThreadShare<'_>) {
        let is_done = matches!(share.plan.length, LoadLength::Transactions(count) if self.transactions >= count);
        if is_done || share.ends.is_some_and(|ends| now >= ends) {
            self.end();
            return;
        }
        self.script = chosen_script(share.plan, &mut self.random);
        match share.take_due() {
            // What is due after the end is not begun.
            Some(due) if share.ends.is_some_and(|ends| due >= ends) => self.end(),
            Some(due) => {
                self.transaction.began = due;
                self.state = ClientState::Due(due);
            }
            None => {
                self.transaction.began = now;
                self.begin_transaction(share);
            }
        }
    }
    fn end(&mut self) {
        self.link.output.extend_from_slice(b"X\0\0\0\x04");
        self.state = ClientState::Ended;
    }
    fn begin_transaction(&mut self, share: &ThreadShare<'_>) {
        let transaction = &mut self.transaction;
        (transaction.changed_rows, transaction.tries, transaction.failure) = (0, 1, None);
        transaction.variables_before = (share.plan.tries > 1).then(|| self.variables.clone());
        self.at = 0;
        self.state = ClientState::Running;
    }

    /// The present command of the script, or its end.
    fn command(&mut self, share: &mut ThreadShare<'_>) {
        let plan = share.plan;
        let Some(command) = plan.scripts[self.script].0.commands.get(self.at) else {
            self.end_transaction(share);
            return;
        };
        self.at += 1;
        let done = match &command.step {
            ScriptStep::Sql(sql) => self.send(sql, share),
            ScriptStep::Set { variable, expression } => {
                self.environment(&plan.names, |env| expression.evaluate(env)).map(|value| {
                    self.variables.set(*variable, value);
                })
            }
            ScriptStep::Unless { condition, go_on_at } => {
                self.environment(&plan.names, |env| condition.evaluate(env)).map(|value| {
                    if !value.is_true() {
                        self.at = *go_on_at;
                    }
                })
            }
            ScriptStep::Jump { to } => {
                self.at = *to;
                Ok(())
            }
            ScriptStep::Sleep(time) => self.sleep(time, &plan.names),
            ScriptStep::Shell { words, into } => self.shell(words, *into, &plan.names),
            ScriptStep::StartPipeline if self.is_in_pipeline => Err("already in pipeline mode".into()),
            ScriptStep::StartPipeline if plan.protocol == LoadProtocol::Simple => {
                Err("cannot use pipeline mode with the simple query protocol".into())
            }
            ScriptStep::StartPipeline => {
                self.is_in_pipeline = true;
                Ok(())
            }
            ScriptStep::SyncPipeline | ScriptStep::EndPipeline if !self.is_in_pipeline => {
                Err("not in pipeline mode".into())
            }
            ScriptStep::SyncPipeline => {
                self.sync();
                Ok(())
            }
            ScriptStep::EndPipeline => {
                self.sync();
                self.is_in_pipeline = false;
                self.state = ClientState::Waiting;
                Ok(())
            }
        };
        if let Err(message) = done {
            self.note_failure("script", &format!("line {}: {message}", command.line));
            self.leave_pipeline();
            self.state = ClientState::Waiting;
        }
    }

    fn environment<T>(&mut self, names: &VariableNames, f: impl FnOnce(&mut ScriptEnvironment<'_>) -> T) -> T {
        f(&mut ScriptEnvironment {
            variables: &self.variables,
            names,
            random: &mut self.random,
            default_seed: self.default_seed,
        })
    }

    fn sleep(&mut self, time: &SleepTime, names: &VariableNames) -> Result<(), String> {
        let time = time.length(&self.variables, names)?;
        self.state = ClientState::Sleeping(Instant::now() + time);
        Ok(())
    }

    /// Runs a command of the shell, for which the whole thread waits, as pgbench's does.
    fn shell(&mut self, words: &[ShellWord], into: Option<usize>, names: &VariableNames) -> Result<(), String> {
        let mut command = String::new();
        for word in words {
            if !command.is_empty() {
                command.push(' ');
            }
            match word {
                ShellWord::Text(text) => command.push_str(text),
                ShellWord::Variable(variable) => {
                    if !self.variables.write(*variable, &mut command) {
                        return Err(format!("undefined variable \"{}\"", names.name(*variable)));
                    }
                }
            }
        }
        let output = std::process::Command::new("sh").args(["-c", &command]).output().map_err(|e| e.to_string())?;
        if !output.status.success() {
            return Err("could not launch shell command".into());
        }
        let Some(variable) = into else { return Ok(()) };
        let printed = String::from_utf8_lossy(&output.stdout);
        let number: i64 = printed.trim().parse().map_err(|_| "shell command must return an integer".to_string())?;
        self.variables.set_text(variable, number.to_string());
        Ok(())
    }

    fn sync(&mut self) {
        extended(&mut self.link.output, b'S', b"");
        self.outstanding += 1;
    }
    /// What was sent in a pipeline that has failed is answered once it has its end.
    fn leave_pipeline(&mut self) {
        if std::mem::take(&mut self.is_in_pipeline) {
            self.sync();
        }
    }

    fn send(&mut self, sql: &SqlText, share: &mut ThreadShare<'_>) -> Result<(), String> {
        if self.is_in_pipeline && sql.results != SqlResults::Ignored {
            return Err("\\gset and \\aset are not allowed in pipeline mode".into());
        }
        self.rows = ReadRows::default();
        match share.plan.protocol {
            LoadProtocol::Simple => {
                share.text.clear();
                sql.write_with_values(&self.variables, &share.plan.names, &mut share.text);
                share.text.push('\0');
                extended(&mut self.link.output, b'Q', share.text.as_bytes());
                self.outstanding += 1;
            }
            LoadProtocol::Extended => {
                self.parse("", sql);
                self.bind("", sql, share);
            }
            LoadProtocol::Prepared => {
                let (script, command) = (self.script, self.at - 1);
                let name = format!("P{script}_{command}");
                if !std::mem::replace(&mut self.parsed[script][command], true) {
                    self.parse(&name, sql);
                }
                self.bind(&name, sql, share);
            }
        }
        if !self.is_in_pipeline {
            if share.plan.protocol != LoadProtocol::Simple {
                self.sync();
            }
            self.state = ClientState::Waiting;
            self.sent = Some(Instant::now());
        }
        Ok(())
    }
    fn parse(&mut self, name: &str, sql: &SqlText) {
        let body = format!("{name}\0{}\0\0\0", sql.with_parameters());
        extended(&mut self.link.output, b'P', body.as_bytes());
    }
    fn bind(&mut self, name: &str, sql: &SqlText, share: &mut ThreadShare<'_>) {
        let mut body = Vec::with_capacity(64);
        body.push(0);
        body.extend_from_slice(name.as_bytes());
        body.extend_from_slice(&[0, 0, 0]);
        body.extend_from_slice(&(sql.variables().len() as u16).to_be_bytes());
        for variable in sql.variables() {
            share.text.clear();
            match self.variables.write(*variable, &mut share.text) {
                true => {
                    body.extend_from_slice(&(share.text.len() as u32).to_be_bytes());
                    body.extend_from_slice(share.text.as_bytes());
                }
                // NULL.
                false => body.extend_from_slice(&u32::MAX.to_be_bytes()),
            }
        }
        body.extend_from_slice(&[0, 0]);
        let output = &mut self.link.output;
        extended(output, b'B', &body);
        extended(output, b'D', b"P\0");
        extended(output, b'E', &[0; 5]);
    }

    /// Takes in the replies that are there.
    pub fn take_replies(&mut self, plan: &LoadPlan) {
        loop {
            let wanted = match plan.scripts[self.script].0.commands.get(self.at.wrapping_sub(1)).map(|c| &c.step) {
                Some(ScriptStep::Sql(sql)) if self.state == ClientState::Waiting => &sql.results,
                _ => &SqlResults::Ignored,
            };
            let Some(reply) = self.link.next_reply() else { return };
            let kind = reply.kind;
            let malformed = |e: io::Error| Taken { failure: Some(("08P01".into(), e.to_string())), ..Taken::default() };
            let Taken { failure, changed_rows, ready } = take(&reply, wanted, &mut self.rows).unwrap_or_else(malformed);
            self.transaction.changed_rows += changed_rows;
            if kind == b'C' && matches!(wanted, SqlResults::LastRows { .. }) {
                set_variables(&mut self.rows, wanted, &plan.names, &mut self.variables);
            }
            if let Some((sqlstate, message)) = failure {
                self.note_failure(&sqlstate, &message);
            }
            let Some(status) = ready else { continue };
            self.status = status;
            self.outstanding = self.outstanding.saturating_sub(1);
            if matches!(wanted, SqlResults::OneRow { .. }) && self.transaction.failure.is_none() {
                match self.rows.count {
                    1 => set_variables(&mut self.rows, wanted, &plan.names, &mut self.variables),
                    count => self.note_failure("script", &format!("expected one row, got {count}")),
                }
            }
        }
    }

    /// The first failure of a transaction is the one that counts: what follows it fails because of it.
    fn note_failure(&mut self, sqlstate: &str, message: &str) {
        let failure = &mut self.transaction.failure;
        if failure.is_none() {
            *failure = Some((sqlstate.to_string(), message.to_string()));
        }
    }

    fn end_transaction(&mut self, share: &mut ThreadShare<'_>) {
        if self.is_in_pipeline {
            self.note_failure("script", "end of script reached with pipeline open");
            self.leave_pipeline();
            self.state = ClientState::Waiting;
            return;
        }
        if self.status != b'I' {
            self.note_failure("script", "end of script reached without completing the last transaction");
            self.fail(share);
            return;
        }
        let now = Instant::now();
        let latency = now.saturating_duration_since(self.transaction.began);
        let ended = EndedTransaction { at: share.at(now), latency, changed_rows: self.transaction.changed_rows };
        share.figures.ended(&ended);
        share.ended += 1;
        self.transactions += 1;
        self.state = ClientState::Between;
    }

    /// What has failed is tried again, if others are to blame, or counted. Its transaction block is left first.
    fn fail(&mut self, share: &mut ThreadShare<'_>) {
        let transaction = &mut self.transaction;
        let Some((sqlstate, message)) = transaction.failure.take() else { return };
        self.sent = None;
        let is_of_others = matches!(sqlstate.as_str(), "40001" | "40P01");
        match is_of_others && transaction.tries < share.plan.tries {
            true => {
                transaction.tries += 1;
                transaction.changed_rows = 0;
                if let Some(before) = &transaction.variables_before {
                    self.variables = before.clone();
                }
                self.at = 0;
            }
            false => {
                let at = share.at(Instant::now());
                share.figures.failed(at, &sqlstate, &message);
                self.transactions += 1;
                transaction.tries = 0;
            }
        }
        self.state = ClientState::RollingBack;
        if self.status != b'I' {
            extended(&mut self.link.output, b'Q', b"rollback\0");
            self.outstanding += 1;
        }
    }
    fn try_again(&mut self) {
        self.state = if self.transaction.tries > 0 { ClientState::Running } else { ClientState::Between };
    }
}

/// What a reply says.
#[derive(Default)]
struct Taken {
    failure: Option<(String, String)>,
    changed_rows: u64,
    /// The status of a ReadyForQuery.
    ready: Option<u8>,
}

/// Errors: the message is malformed.
fn take(reply: &Reply<'_>, wanted: &SqlResults, rows: &mut ReadRows) -> io::Result<Taken> {
    let are_wanted = *wanted != SqlResults::Ignored;
    let (mut taken, mut fields) = (Taken::default(), Fields(reply.body));
    match reply.kind {
        b'T' if are_wanted => {
            let columns = fields.row_description()?.into_iter().map(|(name, _)| name).collect();
            *rows = ReadRows { columns, ..ReadRows::default() };
        }
        b'D' if are_wanted => {
            rows.count += 1;
            rows.last = fields.data_row()?;
        }
        b'C' => {
            let tag = std::str::from_utf8(reply.body).unwrap_or_default();
            taken.changed_rows = changed_rows_of_tag(tag.trim_end_matches('\0'));
        }
        b'E' => {
            let error = fields.error()?;
            taken.failure = Some((error.code, error.message));
        }
        b'Z' => taken.ready = Some(reply.body.first().copied().unwrap_or(b'I')),
        _ => {}
    }
    Ok(taken)
}

/// How many rows a command tag says were changed; those that are only read do not count.
pub(crate) fn changed_rows_of_tag(tag: &str) -> u64 {
    match tag.split(' ').next() {
        Some("INSERT" | "UPDATE" | "DELETE" | "MERGE" | "COPY") => {
            tag.rsplit(' ').next().and_then(|count| count.parse().ok()).unwrap_or(0)
        }
        _ => 0,
    }
}

/// The columns of the last row become variables, of those that scripts mention.
fn set_variables(rows: &mut ReadRows, wanted: &SqlResults, names: &VariableNames, variables: &mut Variables) {
    let (SqlResults::OneRow { prefix } | SqlResults::LastRows { prefix }) = wanted else { return };
    let values = std::mem::take(&mut rows.last);
    for (column, value) in rows.columns.iter().zip(values) {
        if let Some(variable) = names.find(&format!("{prefix}{column}")) {
            variables.set_text(variable, value.unwrap_or_default());
        }
    }
}

fn chosen_script(plan: &LoadPlan, random: &mut ScriptRandom) -> usize {
    if plan.scripts.len() < 2 {
        return 0;
    }
    let all: i64 = plan.scripts.iter().map(|(_, weight)| i64::from(*weight)).sum();
    let mut drawn = random.uniform(0, (all - 1).max(0));
    for (number, (_, weight)) in plan.scripts.iter().enumerate() {
        drawn -= i64::from(*weight);
        if drawn < 0 {
            return number;
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_tell_what_has_changed() {
        for (tag, rows) in [("UPDATE 3", 3), ("INSERT 0 2", 2), ("SELECT 7", 0), ("BEGIN", 0), ("DELETE 0", 0)] {
            assert_eq!(changed_rows_of_tag(tag), rows, "{tag}");
        }
    }
}
