//! What the sessions do: random transactions over a few rows, and the statements they are made of.
//!
//! The table has a row for each key: `k`, the generation `g` that the key belongs to, the list `v` as text (`,1,2`) and
//! its length `n`. An index on (g, n) makes every append change a key of an index. When a generation's lists are long,
//! the next one begins, so that rows are also inserted and statements stay short.

use super::model::*;
use crate::random::Random;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

pub const TABLE: &str =
    "create table t (k int primary key, g int not null, n int not null, v text not null); create index on t (g, n)";
/// Everything, in two ways that find rows through different structures.
pub const EVERYTHING: [&str; 2] =
    ["select k, n, v from t", "select k, n, v from t where g >= 0 and n >= 0 order by g, n"];

const KEYS_PER_GENERATION: u32 = 6;
/// The number of keys that are asked for as often as all together.
const HOT_KEYS: u32 = 2;
const LENGTH_MAX: usize = 50;
/// The values of this one are long, so that its row does not fit in a page for ever.
const WIDE_KEY: u32 = 5;

/// What all sessions share.
#[derive(Default)]
pub struct SharedCounters {
    clock: AtomicU64,
    values: AtomicU32,
    generation: AtomicU32,
    pub stop: AtomicBool,
}

impl SharedCounters {
    pub(crate) fn tick(&self) -> Tick {
        self.clock.fetch_add(1, Ordering::SeqCst)
    }

    pub fn value(&self) -> Value {
        self.values.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub fn generation(&self) -> u32 {
        self.generation.load(Ordering::Relaxed)
    }

    /// Somebody has seen a list.
    pub fn seen(&self, key: Key, list: &[Value]) {
        if list.len() >= LENGTH_MAX {
            self.generation.fetch_max(key / 10 + 1, Ordering::Relaxed);
        }
    }
}

/// The rows that a statement is about.
#[derive(Clone, Debug)]
pub struct StatementRows {
    pub keys: Vec<Key>,
    condition: Condition,
}

#[derive(Clone, Copy, Debug)]
enum Condition {
    Keys,
    Generation,
    Range,
}

#[derive(Clone, Debug)]
pub enum Operation {
    Select(StatementRows),
    Append(StatementRows),
    Lock(StatementRows),
    Upsert(Key),
    /// FOR UPDATE, then an UPDATE with a value that the client has made.
    LockAndSet(Key),
    /// Reads a row without a lock and sets it: only where the snapshot guards it.
    ReadAndSet(Key),
    /// DELETE and INSERT.
    Move(Key),
    Savepoint,
    RollbackToSavepoint,
    Release,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionForm {
    /// Statement by statement.
    Steps,
    /// The transaction is one text with BEGIN and COMMIT.
    Batch,
    /// The transaction is one text without BEGIN and COMMIT: the server makes a transaction of it. With one operation,
    /// this is a statement on its own.
    Implicit,
}

#[derive(Clone, Debug)]
pub struct TransactionPlan {
    pub level: IsolationLevel,
    pub form: TransactionForm,
    pub read_only: bool,
    pub gives_up: bool,
    /// Rests between its statements: for snapshots that many others' commits come after.
    pub rests: bool,
    pub operations: Vec<Operation>,
}

impl TransactionPlan {
    pub fn begin(&self, level: IsolationLevel, random: &mut Random) -> String {
        let deferrable = self.read_only && level == IsolationLevel::Serializable && random.one_in(4);
        let mode = if deferrable {
            " read only, deferrable"
        } else if self.read_only {
            " read only"
        } else {
            ""
        };
        format!("begin isolation level {}{mode}", level.sql())
    }
}

fn key(random: &mut Random, generation: u32) -> Key {
    let keys = if random.one_in(2) { HOT_KEYS } else { KEYS_PER_GENERATION };
    generation * 10 + random.below(u64::from(keys)) as u32
}

fn rows(random: &mut Random, generation: u32, at_most: u64) -> StatementRows {
    if at_most > 1 && random.one_in(8) {
        let condition = if random.one_in(2) { Condition::Generation } else { Condition::Range };
        return StatementRows {
            keys: (0..KEYS_PER_GENERATION).map(|slot| generation * 10 + slot).collect(),
            condition,
        };
    }
    let mut keys = Vec::new();
    for _ in 0..=random.below(at_most) {
        let key = key(random, generation);
        if !keys.contains(&key) {
            keys.push(key);
        }
    }
    StatementRows { keys, condition: Condition::Keys }
}

/// An operation that needs nothing from an earlier answer.
fn simple_operation(random: &mut Random, generation: u32) -> Operation {
    match random.below(16) {
        0..4 => Operation::Select(rows(random, generation, 1)),
        4..8 => Operation::Select(rows(random, generation, 3)),
        8..11 => Operation::Append(rows(random, generation, 1)),
        11..13 => Operation::Append(rows(random, generation, 3)),
        13 => Operation::Lock(rows(random, generation, 3)),
        _ => Operation::Upsert(key(random, generation)),
    }
}

pub fn plan(random: &mut Random, levels: &[IsolationLevel], board: &SharedCounters) -> TransactionPlan {
    let level = levels[random.below(levels.len() as u64) as usize];
    let generation = board.generation();
    let form = match random.below(8) {
        0 => TransactionForm::Batch,
        1 => TransactionForm::Implicit,
        _ => TransactionForm::Steps,
    };
    let read_only = random.one_in(10);
    let mut operations = Vec::new();
    let mut depth = 0;
    let rests = form == TransactionForm::Steps && random.one_in(if read_only { 3 } else { 200 });
    let wanted = if rests { 8 } else { 1 + random.below(5) as usize };
    while operations.len() < wanted {
        operations.push(match random.below(12) {
            _ if read_only => Operation::Select(rows(random, generation, 3)),
            0 if form != TransactionForm::Implicit => {
                depth += 1;
                Operation::Savepoint
            }
            1 | 2 if depth > 0 => Operation::RollbackToSavepoint,
            3 if depth > 0 => {
                depth -= 1;
                Operation::Release
            }
            4 if form == TransactionForm::Steps => Operation::LockAndSet(key(random, generation)),
            5 if form == TransactionForm::Steps && level.keeps_snapshot() => {
                Operation::ReadAndSet(key(random, generation))
            }
            6 if form == TransactionForm::Steps => Operation::Move(key(random, generation)),
            _ => simple_operation(random, generation),
        });
    }
    TransactionPlan {
        level,
        form,
        read_only: read_only && form != TransactionForm::Implicit,
        gives_up: random.one_in(15),
        rests,
        operations,
    }
}

/// A statement with its parameters.
#[derive(Clone, Debug)]
pub struct Statement {
    pub text: String,
    pub parameters: Vec<String>,
}

impl Statement {
    fn new(text: String, parameters: Vec<String>) -> Statement {
        Statement { text, parameters }
    }

    /// The statement with its parameters as literals.
    pub fn literal(&self) -> String {
        let mut text = self.text.clone();
        for (at, parameter) in self.parameters.iter().enumerate().rev() {
            let number = !parameter.is_empty() && parameter.bytes().all(|b| b.is_ascii_digit());
            let literal = if number { parameter.clone() } else { format!("'{parameter}'") };
            text = text.replace(&format!("${}", at + 1), &literal);
        }
        text
    }
}

impl StatementRows {
    pub fn one(key: Key) -> StatementRows {
        StatementRows { keys: vec![key], condition: Condition::Keys }
    }

    /// The condition, its parameters behind those that are there.
    fn condition(&self, parameters: &mut Vec<String>) -> String {
        let mut parameter = |value: u32| {
            parameters.push(value.to_string());
            format!("${}", parameters.len())
        };
        match self.condition {
            Condition::Generation => format!("g = {}", parameter(self.keys[0] / 10)),
            Condition::Range => {
                format!("k between {} and {}", parameter(self.keys[0]), parameter(self.keys[self.keys.len() - 1]))
            }
            Condition::Keys if self.keys.len() == 1 => format!("k = {}", parameter(self.keys[0])),
            Condition::Keys => {
                let list: Vec<String> = self.keys.iter().map(|k| parameter(*k)).collect();
                format!("k in ({})", list.join(", "))
            }
        }
    }
}

/// A value as it stands in a list.
pub fn element(key: Key, value: Value) -> String {
    match key % 10 {
        WIDE_KEY => format!(",{value}:{}", "wide".repeat(100)),
        _ => format!(",{value}"),
    }
}

/// The values of a list; none if it is not one.
pub fn parse(text: &str) -> Option<Vec<Value>> {
    if text.is_empty() {
        return Some(Vec::new());
    }
    text.strip_prefix(',')?.split(',').map(|e| e.split(':').next().unwrap_or(e).parse().ok()).collect()
}

const RETURNING: &str = " returning k, n, v";

pub fn select(rows: &StatementRows, lock: &str) -> Statement {
    let mut parameters = Vec::new();
    let condition = rows.condition(&mut parameters);
    Statement::new(format!("select k, n, v from t where {condition}{lock}"), parameters)
}

/// Shows what it has written if there may be a question of which rows it found, or if asked to.
pub fn append(rows: &StatementRows, value: Value, show: bool) -> Statement {
    let element = if let [key] = rows.keys[..] { element(key, value) } else { format!(",{value}") };
    let mut parameters = vec![element];
    let condition = rows.condition(&mut parameters);
    let returning = if show || rows.keys.len() > 1 { RETURNING } else { "" };
    Statement::new(format!("update t set v = v || $1, n = n + 1 where {condition}{returning}"), parameters)
}

pub fn upsert(key: Key, value: Value, show: bool) -> Statement {
    let returning = if show { RETURNING } else { "" };
    Statement::new(
        format!(
            "insert into t as t values ($1, $2, 1, $3) on conflict (k) do update set v = t.v || excluded.v, n = t.n + 1{returning}"
        ),
        vec![key.to_string(), (key / 10).to_string(), element(key, value)],
    )
}

pub fn set(key: Key, length: usize, list: String, show: bool) -> Statement {
    let returning = if show { RETURNING } else { "" };
    Statement::new(
        format!("update t set v = $1, n = $2 where k = $3{returning}"),
        vec![list, length.to_string(), key.to_string()],
    )
}

pub fn delete(key: Key) -> Statement {
    Statement::new(format!("delete from t where k = $1{RETURNING}"), vec![key.to_string()])
}

pub fn insert(key: Key, length: usize, list: String, show: bool) -> Statement {
    let returning = if show { RETURNING } else { "" };
    let parameters = vec![key.to_string(), (key / 10).to_string(), length.to_string(), list];
    Statement::new(format!("insert into t values ($1, $2, $3, $4){returning}"), parameters)
}
