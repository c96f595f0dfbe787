//! One session: it runs random transactions and writes down what it asked and what it was told.

use super::model::*;
use super::workload::{self, Operation, SharedCounters, Statement, StatementRows, TransactionForm, TransactionPlan};
use crate::random::Random;
use kilndb_lab::client::{Answer, ClientError, Connection};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// What is made wrong on purpose, to see that it is found. All of it happens in the server: the driver only claims
/// something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlantedFault {
    Nothing,
    /// One session's transactions run at the next weaker level.
    WeakerLevel,
    /// Some commits of one session are rollbacks.
    FalseCommit,
    /// Commits are acknowledged before they are durable.
    AsynchronousCommit,
}

const REST_MAX_MS: u64 = 30;

/// Why a transaction did not go on.
enum SessionFault {
    /// 40001 or 40P01.
    Refused,
    Lost,
    /// Nothing that may happen.
    Wrong(String),
}

type SessionResult<T> = Result<T, SessionFault>;

impl From<ClientError> for SessionFault {
    fn from(error: ClientError) -> SessionFault {
        match error {
            ClientError::Io(_) => SessionFault::Lost,
            ClientError::Server(e) if e.severity == "FATAL" || e.severity == "PANIC" => SessionFault::Lost,
            ClientError::Server(e) if ["40001", "40P01"].contains(&e.code.as_str()) => SessionFault::Refused,
            ClientError::Server(e) => SessionFault::Wrong(format!("{} {}", e.code, e.message)),
        }
    }
}

/// How a session came to its end.
#[derive(Debug, PartialEq, Eq)]
pub enum SessionEnd {
    Asked,
    Lost,
    Wrong(String),
}

pub struct Session<'a, C> {
    number: u32,
    client: C,
    random: Random,
    board: &'a SharedCounters,
    levels: &'a [IsolationLevel],
    plant: PlantedFault,
    prepared: HashMap<String, String>,
    default_level: Option<IsolationLevel>,
    pub transactions: Vec<Transaction>,
}

/// A row as it was shown: the list, and its text.
type ShownRow = (Key, Vec<Value>, String);

impl<'a, C: Connection> Session<'a, C> {
    pub fn new(
        mut client: C,
        number: u32,
        mut random: Random,
        (board, levels, plant): (&'a SharedCounters, &'a [IsolationLevel], PlantedFault),
    ) -> Result<Session<'a, C>, ClientError> {
        client.query("set deadlock_timeout = '10ms'")?;
        client.query(if plant == PlantedFault::AsynchronousCommit {
            "set synchronous_commit = off"
        } else {
            "set synchronous_commit = on"
        })?;
        if random.one_in(2) {
            client.query("set enable_seqscan = off")?;
        }
        let (prepared, transactions) = (HashMap::new(), Vec::new());
        Ok(Session { number, client, random, board, levels, plant, prepared, default_level: None, transactions })
    }

    /// Until the board says stop, or the connection breaks.
    pub fn run(&mut self) -> SessionEnd {
        while !self.board.stop.load(Ordering::Relaxed) {
            let plan = workload::plan(&mut self.random, self.levels, self.board);
            let now = self.now();
            let mut transaction = Transaction {
                session: self.number,
                level: plan.level,
                steps: Vec::new(),
                outcome: TransactionOutcome::Aborted,
                end: now,
            };
            let done = match plan.form {
                TransactionForm::Steps => self.steps(&plan, &mut transaction),
                TransactionForm::Batch | TransactionForm::Implicit => self.batch(&plan, &mut transaction),
            };
            let text = transaction.to_string();
            self.transactions.push(transaction);
            match done {
                Ok(()) | Err(SessionFault::Refused) => {}
                Err(SessionFault::Lost) => return SessionEnd::Lost,
                Err(SessionFault::Wrong(message)) => {
                    return SessionEnd::Wrong(format!("session {}: {message}\n    {text}", self.number));
                }
            }
        }
        SessionEnd::Asked
    }

    fn now(&self) -> Interval {
        Interval { from: self.board.tick(), to: self.board.tick() }
    }

    /// The level that is asked of the server.
    fn level(&self, plan: &TransactionPlan) -> IsolationLevel {
        match plan.level {
            level if self.plant != PlantedFault::WeakerLevel || self.number != 0 => level,
            IsolationLevel::Serializable => IsolationLevel::RepeatableRead,
            _ => IsolationLevel::ReadCommitted,
        }
    }

    fn steps(&mut self, plan: &TransactionPlan, transaction: &mut Transaction) -> SessionResult<()> {
        let begin = plan.begin(self.level(plan), &mut self.random);
        let from = self.board.tick();
        let begun = self.client.query(&begin);
        transaction.end = Interval { from, to: self.board.tick() };
        begun?;
        let mut depth = 0;
        for operation in &plan.operations {
            if plan.rests {
                self.client.pause(Duration::from_millis(self.random.below(REST_MAX_MS)));
            }
            let from = self.board.tick();
            match self.operate(operation, &mut depth, transaction) {
                Ok(()) => continue,
                Err(SessionFault::Refused) => {}
                Err(fault) => {
                    transaction.end = Interval { from, to: self.board.tick() };
                    return Err(fault);
                }
            }
            // A savepoint saves a transaction that was refused something.
            let saved = depth > 0 && self.random.one_in(2);
            let back = if saved {
                self.control(StepAction::RollbackToSavepoint, transaction)
            } else {
                self.client.query("rollback").map(|_| ())
            };
            transaction.end = Interval { from, to: self.board.tick() };
            back?;
            if !saved {
                return Ok(());
            }
        }
        let from = self.board.tick();
        let done = self.finish(plan.gives_up);
        transaction.end = Interval { from, to: self.board.tick() };
        transaction.outcome = match done {
            Ok(()) if plan.gives_up => TransactionOutcome::Aborted,
            Ok(()) => TransactionOutcome::Committed,
            Err(SessionFault::Lost) if !plan.gives_up => TransactionOutcome::Unknown,
            Err(_) => TransactionOutcome::Aborted,
        };
        done
    }

    fn finish(&mut self, gives_up: bool) -> SessionResult<()> {
        let lies = self.plant == PlantedFault::FalseCommit && self.number == 0 && self.random.one_in(10);
        let word = if gives_up || lies { "rollback" } else { "commit" };
        let answers = self.client.query(word)?;
        match answers.last() {
            Some(answer) if answer.tag.eq_ignore_ascii_case(word) => Ok(()),
            answer => Err(SessionFault::Wrong(format!("{word} was answered with {:?}", answer.map(|a| &a.tag)))),
        }
    }

    fn control(&mut self, action: StepAction, transaction: &mut Transaction) -> Result<(), ClientError> {
        let from = self.board.tick();
        let done = self.client.query(control_text(&action));
        transaction.steps.push(TransactionStep { action, during: Interval { from, to: self.board.tick() } });
        done.map(|_| ())
    }

    fn operate(&mut self, operation: &Operation, depth: &mut u32, transaction: &mut Transaction) -> SessionResult<()> {
        match operation {
            Operation::Savepoint => {
                self.control(StepAction::Savepoint, transaction)?;
                *depth += 1;
            }
            Operation::RollbackToSavepoint => self.control(StepAction::RollbackToSavepoint, transaction)?,
            Operation::Release => {
                self.control(StepAction::Release, transaction)?;
                *depth -= 1;
            }
            Operation::LockAndSet(key) => self.read_and_set(*key, true, transaction)?,
            Operation::ReadAndSet(key) => self.read_and_set(*key, false, transaction)?,
            Operation::Move(key) => self.take_and_put(*key, transaction)?,
            simple => {
                let value = self.board.value();
                let statement = self.statement(simple, value);
                self.ask(&statement, &attempt(simple, value), transaction)?;
            }
        }
        Ok(())
    }

    fn statement(&mut self, operation: &Operation, value: Value) -> Statement {
        let show = self.random.one_in(2);
        match operation {
            Operation::Append(rows) => workload::append(rows, value, show),
            Operation::Upsert(key) => workload::upsert(*key, value, show),
            Operation::Lock(rows) => workload::select(rows, if show { " for update" } else { " for no key update" }),
            Operation::Select(rows) => workload::select(rows, ""),
            other => Statement { text: control_text(&control_action(other)).to_string(), parameters: Vec::new() },
        }
    }

    /// Runs a statement and writes down its answer, or that there was none. Answers the rows it showed.
    fn ask(
        &mut self,
        statement: &Statement,
        attempted: &StepAction,
        transaction: &mut Transaction,
    ) -> SessionResult<Vec<ShownRow>> {
        let from = self.board.tick();
        let answers = self.send(statement);
        let during = Interval { from, to: self.board.tick() };
        let told = answers.map_err(SessionFault::from).and_then(|answers| {
            let answer = answers.into_iter().next_back().ok_or_else(|| SessionFault::Wrong("no answer".into()))?;
            self.told(attempted, &answer).map_err(|e| SessionFault::Wrong(format!("{}: {e}", statement.literal())))
        });
        match told {
            Ok((action, shown)) => {
                transaction.steps.push(TransactionStep { action, during });
                Ok(shown)
            }
            Err(fault) => {
                transaction.steps.push(TransactionStep { action: unanswered(attempted.clone()), during });
                Err(fault)
            }
        }
    }

    /// Sends a statement in one of the two protocols.
    fn send(&mut self, statement: &Statement) -> Result<Vec<Answer>, ClientError> {
        if self.random.one_in(2) {
            return self.client.query(&statement.literal());
        }
        if !self.prepared.contains_key(&statement.text) {
            let name = format!("s{}", self.prepared.len());
            self.client.prepare(&name, &statement.text)?;
            self.prepared.insert(statement.text.clone(), name);
        }
        self.client.execute(&self.prepared[&statement.text], &statement.parameters)
    }

    /// What an answer says of the rows asked for.
    fn told(&self, attempted: &StepAction, answer: &Answer) -> Result<(StepAction, Vec<ShownRow>), String> {
        let shown = shown_rows(answer)?;
        for (key, list, _) in &shown {
            self.board.seen(*key, list);
        }
        let asked: Vec<Key> = match attempted {
            StepAction::Select(rows) => rows.iter().map(|(key, _)| *key).collect(),
            StepAction::Modify { rows, .. } => rows.iter().map(|(key, _)| *key).collect(),
            _ => Vec::new(),
        };
        for (at, (key, ..)) in shown.iter().enumerate() {
            if !asked.contains(key) || shown[..at].iter().any(|(k, ..)| k == key) {
                return Err(format!("a row that was not asked for, or the same twice: {answer:?}"));
            }
        }
        let find = |key: Key| shown.iter().find(|(k, ..)| *k == key).map(|(_, list, _)| list.clone());
        let action = match attempted {
            StepAction::Select(_) => {
                StepAction::Select(asked.iter().map(|key| (*key, find(*key).unwrap_or_default())).collect())
            }
            StepAction::Modify { value, way, .. } => {
                let count: usize =
                    answer.tag.rsplit(' ').next().and_then(|n| n.parse().ok()).ok_or("a tag without a number")?;
                let blind = answer.columns.is_empty();
                if count > asked.len() || !blind && count != shown.len() || blind && asked.len() > 1 {
                    return Err(format!(
                        "{} rows shown, {} asked for, and the tag {}",
                        shown.len(),
                        asked.len(),
                        answer.tag
                    ));
                }
                let touch = |key: Key| match find(key) {
                    Some(list) => RowTouch::Saw(list),
                    None if blind && count > 0 => RowTouch::Unseen,
                    None => RowTouch::Missed,
                };
                let rows = asked.iter().map(|key| (*key, touch(*key))).collect();
                StepAction::Modify { value: *value, rows, way: *way }
            }
            other => other.clone(),
        };
        Ok((action, shown))
    }

    fn read_and_set(&mut self, key: Key, lock: bool, transaction: &mut Transaction) -> SessionResult<()> {
        let rows = StatementRows::one(key);
        let asked = if lock { Operation::Lock(rows) } else { Operation::Select(rows) };
        let statement = self.statement(&asked, 0);
        let shown = self.ask(&statement, &attempt(&asked, 0), transaction)?;
        let Some((_, list, text)) = shown.into_iter().next() else { return Ok(()) };
        let value = self.board.value();
        let show = self.random.one_in(2);
        let statement = workload::set(key, list.len() + 1, text + &workload::element(key, value), show);
        self.ask(&statement, &modify(key, Some(value), WriteWay::Plain), transaction).map(|_| ())
    }

    fn take_and_put(&mut self, key: Key, transaction: &mut Transaction) -> SessionResult<()> {
        let shown = self.ask(&workload::delete(key), &modify(key, None, WriteWay::Plain), transaction)?;
        let Some((_, list, text)) = shown.into_iter().next() else { return Ok(()) };
        let value = self.board.value();
        let show = self.random.one_in(2);
        let statement = workload::insert(key, list.len() + 1, text + &workload::element(key, value), show);
        self.ask(&statement, &modify(key, Some(value), WriteWay::Moved), transaction).map(|_| ())
    }

    /// The whole transaction as one text.
    fn batch(&mut self, plan: &TransactionPlan, transaction: &mut Transaction) -> SessionResult<()> {
        let level = self.level(plan);
        if plan.form == TransactionForm::Implicit && self.default_level != Some(level) {
            self.client.query(&format!("set default_transaction_isolation = '{}'", level.sql()))?;
            self.default_level = Some(level);
        }
        let explicit = plan.form == TransactionForm::Batch;
        let gives_up = plan.gives_up && explicit;
        let mut texts = Vec::new();
        let mut attempts = Vec::new();
        for operation in &plan.operations {
            let value = self.board.value();
            texts.push(self.statement(operation, value).literal());
            attempts.push(attempt(operation, value));
        }
        if explicit {
            texts.insert(0, plan.begin(level, &mut self.random));
            texts.push(if gives_up { "rollback" } else { "commit" }.to_string());
        }
        let from = self.board.tick();
        let done = self.client.query(&texts.join("; ")).map_err(SessionFault::from);
        let during = Interval { from, to: self.board.tick() };
        transaction.end = during;
        let answers = match done {
            Ok(answers) => answers,
            Err(fault) => {
                transaction.steps =
                    attempts.into_iter().map(|action| TransactionStep { action: unanswered(action), during }).collect();
                if matches!(fault, SessionFault::Lost) && !gives_up {
                    transaction.outcome = TransactionOutcome::Unknown;
                }
                if matches!(fault, SessionFault::Refused) && explicit {
                    self.client.query("rollback")?;
                }
                return Err(fault);
            }
        };
        if answers.len() != texts.len() {
            return Err(SessionFault::Wrong(format!("{} answers to {}", answers.len(), texts.join("; "))));
        }
        for (attempted, answer) in attempts.iter().zip(&answers[usize::from(explicit)..]) {
            let (action, _) =
                self.told(attempted, answer).map_err(|e| SessionFault::Wrong(format!("{}: {e}", texts.join("; "))))?;
            transaction.steps.push(TransactionStep { action, during });
        }
        if !gives_up {
            transaction.outcome = TransactionOutcome::Committed;
        }
        Ok(())
    }
}

/// Rows of k, n and v; n must be the length of v.
fn shown_rows(answer: &Answer) -> Result<Vec<ShownRow>, String> {
    let mut shown = Vec::new();
    for row in &answer.rows {
        let [Some(key), Some(length), Some(text)] = &row[..] else { return Err(format!("not a row: {row:?}")) };
        let list = workload::parse(text).ok_or_else(|| format!("not a list: {text}"))?;
        if length.parse() != Ok(list.len()) {
            return Err(format!("a row of two versions: n is {length}, v is {text}"));
        }
        shown.push((key.parse().map_err(|_| format!("not a key: {key}"))?, list, text.clone()));
    }
    Ok(shown)
}

/// The lists at the end.
pub fn read_everything(client: &mut dyn Connection) -> Result<std::collections::BTreeMap<Key, Vec<Value>>, String> {
    let mut found: Vec<std::collections::BTreeMap<Key, Vec<Value>>> = Vec::new();
    for sql in workload::EVERYTHING {
        let answers = client.query(sql).map_err(|e| format!("{sql}: {e}"))?;
        let answer = answers.last().ok_or("no answer")?;
        let lists: std::collections::BTreeMap<_, _> =
            shown_rows(answer)?.into_iter().map(|(key, list, _)| (key, list)).collect();
        if lists.len() != answer.rows.len() {
            return Err(format!("{sql} shows a key twice"));
        }
        found.push(lists);
    }
    let last = found.pop().unwrap_or_default();
    match found.iter().all(|other| *other == last) {
        true => Ok(last),
        false => Err(format!("table and index differ: {found:?} {last:?}")),
    }
}

fn modify(key: Key, value: Option<Value>, way: WriteWay) -> StepAction {
    StepAction::Modify { value, rows: vec![(key, RowTouch::Attempted)], way }
}

fn control_action(operation: &Operation) -> StepAction {
    match operation {
        Operation::Savepoint => StepAction::Savepoint,
        Operation::Release => StepAction::Release,
        _ => StepAction::RollbackToSavepoint,
    }
}

fn control_text(action: &StepAction) -> &'static str {
    match action {
        StepAction::Savepoint => "savepoint s",
        StepAction::Release => "release s",
        _ => "rollback to s",
    }
}

/// What is written down of a statement without an answer: a SELECT has shown nothing.
fn unanswered(attempted: StepAction) -> StepAction {
    match attempted {
        StepAction::Select(_) => StepAction::Select(Vec::new()),
        other => other,
    }
}

/// A simple operation before it has an answer.
fn attempt(operation: &Operation, value: Value) -> StepAction {
    let touched = |rows: &StatementRows| rows.keys.iter().map(|key| (*key, RowTouch::Attempted)).collect();
    match operation {
        Operation::Select(rows) => StepAction::Select(rows.keys.iter().map(|key| (*key, Vec::new())).collect()),
        Operation::Append(rows) => StepAction::Modify { value: Some(value), rows: touched(rows), way: WriteWay::Plain },
        Operation::Lock(rows) => StepAction::Modify { value: None, rows: touched(rows), way: WriteWay::Plain },
        Operation::Upsert(key) => modify(*key, Some(value), WriteWay::OnConflict),
        other => control_action(other),
    }
}
