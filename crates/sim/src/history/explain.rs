//! Anomalies in words.

use super::events::EdgeLabel;
use super::model::*;
use super::versions::Versions;
use std::fmt::{self, Write};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AnomalyKind {
    /// G0: two transactions write over each other.
    DirtyWrite,
    /// G1a: something that was rolled back (or lost in a crash) was seen, or is there at the end.
    AbortedRead,
    /// A crash took away what somebody had seen who did not commit either. PostgreSQL shows nothing that is not on
    /// disk; a server that lets go of rows before may show it inside of a transaction, and lets nobody commit before
    /// what he saw is there.
    UnconfirmedRead,
    /// G1b: a state that its writer has written over was seen.
    IntermediateRead,
    /// G1c: what two transactions saw and wrote of each other makes a circle.
    CircularInformation,
    /// G-single, both dependencies of one key: a transaction has written over what it had not seen.
    LostUpdate,
    /// G-single: a snapshot that shows a part of somebody's writes, or two moments.
    ReadSkew,
    /// G-nonadjacent, and other circles with two rw-dependencies that one order of snapshots and commits does not
    /// allow: two transactions saw the commits of others in different orders.
    LongFork,
    /// A row was written while somebody had it locked.
    LockBroken,
    /// G2 of serializable transactions: no serial order.
    NotSerializable,
    /// A commit that had been acknowledged, or seen, was not seen afterwards; or something was seen before it was
    /// begun.
    Stale,
    /// A serial order, but only one against the clock.
    NotStrict,
    /// An acknowledged write is not there.
    LostCommit,
    /// Some of a transaction's writes are there and some are not.
    TornCommit,
    /// A value that nobody wrote, or one that is there twice.
    Garbage,
    /// Two states of a list of which neither is the beginning of the other.
    Disorder,
    /// A transaction does not see its own writes, or has not its own order.
    NotOwnWrites,
    /// A statement did not find a row that must have been there.
    MissedRow,
}

#[derive(Clone, Debug)]
pub struct Anomaly {
    pub kind: AnomalyKind,
    /// Numbers in the history.
    pub transactions: Vec<usize>,
    pub message: String,
}

/// One edge of a cycle.
pub struct CycleEdge {
    pub from: Option<usize>,
    pub to: Option<usize>,
    pub label: EdgeLabel,
}

impl Anomaly {
    pub fn new(kind: AnomalyKind, history: &History, transactions: &[usize], message: String) -> Anomaly {
        let mut known: Vec<usize> = Vec::new();
        for number in transactions {
            if !known.contains(number) {
                known.push(*number);
            }
        }
        let mut message = message;
        for number in &known {
            let _ = write!(message, "\n    {}: {}", name(*number), history.transactions[*number]);
        }
        Anomaly { kind, transactions: known, message }
    }
}

impl fmt::Display for Anomaly {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.kind, self.message)
    }
}

pub fn name(transaction: usize) -> String {
    format!("T{transaction}")
}

/// The end of a list: the beginning says little.
pub fn list(values: &[Value]) -> String {
    const SHOWN: usize = 8;
    let shown: Vec<String> = values[values.len().saturating_sub(SHOWN)..].iter().map(u32::to_string).collect();
    let cut = if values.len() > SHOWN { format!("({} before) ", values.len() - SHOWN) } else { String::new() };
    format!("[{cut}{}]", shown.join(" "))
}

/// The anomaly that a circle of events or places in the serial order is.
pub fn circle(history: &History, versions: &Versions, links: &[CycleEdge]) -> Anomaly {
    let mut message = String::from("a circle of what must have come before what");
    let mut transactions = Vec::new();
    // Ticks are nobody's: what leads from one transaction's event over ticks to another's is one step.
    let mut waiting = None;
    let first = links.iter().position(|l| l.from.is_some()).unwrap_or(0);
    for link in links[first..].iter().chain(&links[..first]) {
        transactions.extend(link.from);
        let value = |key: Key, at: u32| {
            versions.lists.get(&key).and_then(|l| l.get(at as usize)).map_or(0, |(value, _)| *value)
        };
        if let Some(from) = link.from.filter(|_| link.to.is_none()) {
            waiting = Some(from);
            continue;
        }
        let (Some(to), Some(from)) = (link.to, link.from.or(waiting)) else { continue };
        let (a, b) = (name(from), name(to));
        let line = match link.label {
            EdgeLabel::Ww(key, at) => {
                format!("{a} -ww-> {b}: in key {key}, {b}'s {} follows {a}'s {}", value(key, at), value(key, at - 1))
            }
            EdgeLabel::Wr(key, at) => format!("{a} -wr-> {b}: in key {key}, {b} saw {a}'s {}", value(key, at - 1)),
            EdgeLabel::Rw(key, at) | EdgeLabel::SerialRw(key, at) => {
                format!("{a} -rw-> {b}: in key {key}, {a} did not see {b}'s {}", value(key, at))
            }
            EdgeLabel::Lock(key, at) => {
                format!("{a} -lock-> {b}: {a} had locked key {key} before {b} wrote {}", value(key, at))
            }
            EdgeLabel::Began => format!("{a} -clock-> {b}: something of {a} had ended when something of {b} began"),
            EdgeLabel::Program | EdgeLabel::Place | EdgeLabel::Passed => continue,
        };
        let _ = write!(message, "\n    {line}");
    }
    Anomaly::new(classify(links), history, &transactions, message)
}

fn classify(links: &[CycleEdge]) -> AnomalyKind {
    let has = |what: fn(&EdgeLabel) -> bool| links.iter().any(|l| what(&l.label));
    let clock = has(|l| matches!(l, EdgeLabel::Began));
    if has(|l| matches!(l, EdgeLabel::SerialRw(..) | EdgeLabel::Place)) {
        return if clock { AnomalyKind::NotStrict } else { AnomalyKind::NotSerializable };
    }
    if has(|l| matches!(l, EdgeLabel::Lock(..))) {
        return AnomalyKind::LockBroken;
    }
    if clock {
        return AnomalyKind::Stale;
    }
    let missed: Vec<Key> =
        links.iter().filter_map(|l| if let EdgeLabel::Rw(key, _) = l.label { Some(key) } else { None }).collect();
    let written: Vec<Key> =
        links.iter().filter_map(|l| if let EdgeLabel::Ww(key, _) = l.label { Some(key) } else { None }).collect();
    let wr = has(|l| matches!(l, EdgeLabel::Wr(..)));
    match missed[..] {
        [] if wr => AnomalyKind::CircularInformation,
        [] => AnomalyKind::DirtyWrite,
        [key] if written == [key] && !wr => AnomalyKind::LostUpdate,
        [_] => AnomalyKind::ReadSkew,
        _ => AnomalyKind::LongFork,
    }
}

impl fmt::Display for Transaction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "session {}, {}", self.session, self.level.sql())?;
        for (step, undone) in self.steps.iter().zip(self.undone()) {
            write!(f, "; ")?;
            match &step.action {
                StepAction::Select(rows) => {
                    write!(f, "select")?;
                    for (key, values) in rows {
                        write!(f, " {key}={}", list(values))?;
                    }
                    if rows.is_empty() {
                        write!(f, " without an answer")?;
                    }
                }
                StepAction::Modify { value, rows, way } => {
                    match (value, way) {
                        (Some(value), WriteWay::Plain) => write!(f, "append {value} to")?,
                        (Some(value), WriteWay::Moved) => write!(f, "delete and insert, append {value} to")?,
                        (Some(value), WriteWay::OnConflict) => write!(f, "insert or append {value} to")?,
                        (None, _) => write!(f, "lock")?,
                    }
                    for (key, touch) in rows {
                        match touch {
                            RowTouch::Missed => write!(f, " {key} (no row)")?,
                            RowTouch::Unseen => write!(f, " {key}")?,
                            RowTouch::Saw(values) => write!(f, " {key}={}", list(values))?,
                            RowTouch::Attempted => write!(f, " {key} (no answer)")?,
                        }
                    }
                }
                StepAction::Savepoint => write!(f, "savepoint")?,
                StepAction::RollbackToSavepoint => write!(f, "rollback to savepoint")?,
                StepAction::Release => write!(f, "release savepoint")?,
            }
            write!(f, " @{}-{}{}", step.during.from, step.during.to, if undone { " (undone)" } else { "" })?;
        }
        write!(f, "; {:?} @{}-{}", self.outcome, self.end.from, self.end.to)
    }
}
