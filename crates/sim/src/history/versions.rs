//! The order of each key's versions, and all about a history that needs no other order: whose each value is, whether
//! what was seen is a state of the list, whether what was acknowledged is there.

use super::explain::{Anomaly, AnomalyKind, list, name};
use super::model::*;
use std::collections::{BTreeMap, HashMap, HashSet};

#[derive(Clone, Copy)]
pub struct ValueWriter {
    pub transaction: usize,
    pub step: usize,
    undone: bool,
    /// The server has said that the row was there to be written.
    certain: bool,
}

/// What one statement has seen of one key, its own transaction's values aside.
pub struct KeyRead {
    pub transaction: usize,
    pub step: usize,
    pub key: Key,
    /// How many values of the key's list were seen, in its order at the end.
    pub length: usize,
    /// Whether the statement found the transaction's own version, which had been written over that state.
    pub own: bool,
}

pub struct Versions {
    /// Who has committed, also of those who never heard of it.
    pub committed: Vec<bool>,
    /// For each key, its values in order and who wrote them (nobody, if that has been reported).
    pub lists: BTreeMap<Key, Vec<(Value, Option<ValueWriter>)>>,
    pub reads: Vec<KeyRead>,
}

struct Checker<'a> {
    history: &'a History,
    writers: HashMap<(Key, Value), ValueWriter>,
    committed: Vec<bool>,
    /// The transactions that have taken a row away and put it back, by key.
    movers: HashMap<Key, Vec<usize>>,
    reads: Vec<KeyRead>,
    anomalies: &'a mut Vec<Anomaly>,
}

impl Versions {
    pub fn of(history: &History, anomalies: &mut Vec<Anomaly>) -> Versions {
        let mut checker = Checker {
            history,
            writers: HashMap::new(),
            committed: history.transactions.iter().map(|t| t.outcome == TransactionOutcome::Committed).collect(),
            movers: HashMap::new(),
            reads: Vec::new(),
            anomalies,
        };
        checker.collect_writers();
        let lists = checker.final_lists();
        checker.all_or_nothing();
        for number in 0..history.transactions.len() {
            checker.follow(number);
        }
        Versions { committed: checker.committed, lists, reads: checker.reads }
    }
}

impl Checker<'_> {
    fn report(&mut self, kind: AnomalyKind, transactions: &[usize], message: String) {
        self.anomalies.push(Anomaly::new(kind, self.history, transactions, message));
    }

    fn collect_writers(&mut self) {
        let history = self.history;
        for (transaction, t) in history.transactions.iter().enumerate() {
            let undone = t.undone();
            for (step, s) in t.steps.iter().enumerate() {
                let StepAction::Modify { value: Some(value), rows, way } = &s.action else { continue };
                for (key, touch) in rows.iter().filter(|(_, touch)| *touch != RowTouch::Missed) {
                    let writer =
                        ValueWriter { transaction, step, undone: undone[step], certain: *touch != RowTouch::Attempted };
                    if let Some(other) = self.writers.insert((*key, *value), writer) {
                        let both = [other.transaction, transaction];
                        self.report(
                            AnomalyKind::Garbage,
                            &both,
                            format!("the history is not one: {value} is appended to key {key} twice"),
                        );
                    }
                    if *way == WriteWay::Moved && !undone[step] {
                        self.movers.entry(*key).or_default().push(transaction);
                    }
                }
            }
        }
    }

    /// Who wrote the values at the end: a writer of one of them has committed, whatever its client knows.
    fn final_lists(&mut self) -> BTreeMap<Key, Vec<(Value, Option<ValueWriter>)>> {
        let history = self.history;
        let mut lists = BTreeMap::new();
        for (key, values) in &history.last {
            let mut known = HashSet::new();
            let mut result = Vec::new();
            for value in values {
                let mut writer = self.writers.get(&(*key, *value)).copied();
                if !known.insert(*value) {
                    let whose: Vec<usize> = writer.iter().map(|w| w.transaction).collect();
                    self.report(
                        AnomalyKind::Garbage,
                        &whose,
                        format!("key {key} ends as {}: {value} is there twice", list(values)),
                    );
                    writer = None;
                }
                match writer {
                    None => self.report(
                        AnomalyKind::Garbage,
                        &[],
                        format!("key {key} ends with {value}, which nobody wrote"),
                    ),
                    Some(w)
                        if w.undone || history.transactions[w.transaction].outcome == TransactionOutcome::Aborted =>
                    {
                        let message =
                            format!("key {key} ends with {value}, which {} has rolled back", name(w.transaction));
                        self.report(AnomalyKind::AbortedRead, &[w.transaction], message);
                        writer = None;
                    }
                    Some(w) => self.committed[w.transaction] = true,
                }
                result.push((*value, writer));
            }
            lists.insert(*key, result);
        }
        lists
    }

    fn all_or_nothing(&mut self) {
        let history = self.history;
        let mut lost = Vec::new();
        for ((key, value), writer) in &self.writers {
            let there = history.last.get(key).is_some_and(|values| values.contains(value));
            if self.committed[writer.transaction] && writer.certain && !writer.undone && !there {
                lost.push((writer.transaction, *key, *value));
            }
        }
        lost.sort_unstable();
        for (transaction, key, value) in lost {
            let (kind, what) = match history.transactions[transaction].outcome {
                TransactionOutcome::Committed => (AnomalyKind::LostCommit, "was acknowledged"),
                _ => (AnomalyKind::TornCommit, "has committed (others of its values are there)"),
            };
            let message = format!("{} {what}, but its {value} is not in key {key} at the end", name(transaction));
            self.report(kind, &[transaction], message);
        }
    }

    /// Walks through a transaction with what it has written itself.
    fn follow(&mut self, number: usize) {
        let history = self.history;
        let transaction = &history.transactions[number];
        let mut own: HashMap<Key, Vec<Value>> = HashMap::new();
        let mut saved = Vec::new();
        for (step, s) in transaction.steps.iter().enumerate() {
            match &s.action {
                StepAction::Select(rows) => {
                    for (key, seen) in rows {
                        self.saw(number, step, *key, seen, own.get(key).map_or(&[], Vec::as_slice));
                    }
                }
                StepAction::Modify { value, rows, .. } => {
                    for (key, touch) in rows {
                        let mine = own.entry(*key).or_default();
                        if matches!(touch, RowTouch::Unseen | RowTouch::Saw(_)) {
                            mine.extend(value);
                        }
                        match touch {
                            RowTouch::Saw(seen) => self.saw(number, step, *key, seen, mine),
                            RowTouch::Missed => self.missed(number, step, *key, mine),
                            RowTouch::Unseen | RowTouch::Attempted => {}
                        }
                    }
                }
                StepAction::Savepoint => saved.push(own.clone()),
                StepAction::RollbackToSavepoint => own = saved.last().cloned().unwrap_or_default(),
                StepAction::Release => {
                    saved.pop();
                }
            }
        }
    }

    /// `own` is what the transaction has appended so far.
    fn saw(&mut self, transaction: usize, step: usize, key: Key, seen: &[Value], own: &[Value]) {
        let history = self.history;
        let who = name(transaction);
        let Some(others) = seen.strip_suffix(own) else {
            let message = format!("{who} has appended {} to key {key}, but sees {}", list(own), list(seen));
            return self.report(AnomalyKind::NotOwnWrites, &[transaction], message);
        };
        let last = history.last.get(&key).map_or(&[][..], Vec::as_slice);
        for (at, value) in others.iter().enumerate() {
            let Some(writer) = self.writers.get(&(key, *value)).copied() else {
                return self.report(
                    AnomalyKind::Garbage,
                    &[transaction],
                    format!("{who} saw {value} in key {key}, which nobody wrote"),
                );
            };
            let both = [transaction, writer.transaction];
            let whose = name(writer.transaction);
            if writer.transaction == transaction {
                let message =
                    format!("{who} sees {} in key {key}, in which its own {value} should be last or gone", list(seen));
                return self.report(AnomalyKind::NotOwnWrites, &[transaction], message);
            }
            if writer.undone || !self.committed[writer.transaction] {
                let lost = history.transactions[writer.transaction].outcome == TransactionOutcome::Unknown;
                let kind = if lost && !self.committed[transaction] {
                    AnomalyKind::UnconfirmedRead
                } else {
                    AnomalyKind::AbortedRead
                };
                let message = match lost {
                    true => format!("{who} saw {value} in key {key}, but {whose}, who wrote it, was lost in the crash"),
                    false => format!("{who} saw {value} in key {key}, which {whose} has rolled back"),
                };
                return self.report(kind, &both, message);
            }
            if last.get(at) != Some(value) {
                let message = format!("{who} saw key {key} as {}, but it ends as {}", list(seen), list(last));
                return self.report(AnomalyKind::Disorder, &both, message);
            }
        }
        let length = others.len();
        let writer_at =
            |at: usize| last.get(at).and_then(|value| self.writers.get(&(key, *value))).map(|w| w.transaction);
        if length > 0 && writer_at(length - 1).is_some() && writer_at(length - 1) == writer_at(length) {
            let writer = writer_at(length).unwrap_or(transaction);
            let message = format!(
                "{who} saw key {key} as {}, in the middle of {}, whose {} comes next",
                list(seen),
                name(writer),
                last[length]
            );
            return self.report(AnomalyKind::IntermediateRead, &[transaction, writer], message);
        }
        let written = match &history.transactions[transaction].steps[step].action {
            StepAction::Modify { value: Some(_), .. } => 1,
            _ => 0,
        };
        self.reads.push(KeyRead { transaction, step, key, length, own: own.len() > written });
    }

    /// A statement that locks or writes found no row. At READ COMMITTED the row may have been moved away under its
    /// eyes.
    fn missed(&mut self, transaction: usize, step: usize, key: Key, own: &[Value]) {
        let history = self.history;
        let t = &history.transactions[transaction];
        if t.level.keeps_snapshot() || !own.is_empty() {
            return self.saw(transaction, step, key, &[], own);
        }
        let during = t.steps[step].during;
        let Some(first) =
            history.last.get(&key).and_then(|values| values.first()).and_then(|v| self.writers.get(&(key, *v)))
        else {
            return;
        };
        let there = self.committed[first.transaction] && history.transactions[first.transaction].end.to < during.from;
        let movers = self.movers.get(&key).map_or(&[][..], Vec::as_slice);
        let mut may_have_moved = movers.iter().filter(|mover| {
            let end = history.transactions[**mover].end;
            **mover != transaction && end.to > during.from && end.from < during.to
        });
        if there && !may_have_moved.clone().any(|mover| self.committed[*mover]) {
            // As with values that were seen: whoever moved it may have been lost in the crash.
            let lost = may_have_moved.any(|mover| history.transactions[*mover].outcome == TransactionOutcome::Unknown);
            let kind = if lost && !self.committed[transaction] {
                AnomalyKind::UnconfirmedRead
            } else {
                AnomalyKind::MissedRow
            };
            let both = [transaction, first.transaction];
            let message =
                format!("{} found no row of key {key}, which is there since {}", name(transaction), name(both[1]));
            self.report(kind, &both, message);
        }
    }
}
