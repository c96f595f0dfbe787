//! What storage has done, in lines. What is no property of the statement is left out: transaction ids, places in the
//! log, lengths of records, room that is given to relations and to undo, reads of system tables (they depend on what
//! caches know).

use kilndb_base::{RelationId, RowId};
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_storage::trace::{PageOperation, TracedOperation};
use kilndb_storage::{CommitMode, LockTag};
use std::collections::BTreeMap;

/// More rows than these are told by their number.
const ROWS_SHOWN: usize = 8;

/// What relations are called, by the numbers that storage has for them.
#[derive(Default)]
pub struct RelationNames {
    by_storage: BTreeMap<u32, (String, bool)>,
    by_oid: BTreeMap<u32, String>,
}

impl RelationNames {
    /// What [`RelationNames::add`] takes.
    pub const QUERY: &str = "select pg_relation_filenode(oid), oid::int8, relname from pg_class order by oid";

    pub fn add(&mut self, rows: &[Vec<String>]) {
        for row in rows {
            let [storage, oid, name] = row.as_slice() else { continue };
            let oid = oid.parse().unwrap_or(0);
            self.by_oid.insert(oid, name.clone());
            if let Ok(storage) = storage.parse() {
                self.by_storage.insert(storage, (name.clone(), oid < FIRST_USER_OID));
            }
        }
    }
    fn of(&self, relation: RelationId) -> &str {
        self.by_storage.get(&relation.0).map_or("a relation without a name", |(name, _)| name)
    }
    fn is_of_system(&self, relation: RelationId) -> bool {
        self.by_storage.get(&relation.0).is_some_and(|(_, is_of_system)| *is_of_system)
    }
    fn of_lock(&self, tag: LockTag) -> String {
        let table = u32::try_from(tag.2).ok().filter(|_| tag.0 == RELATION_LOCK).and_then(|oid| self.by_oid.get(&oid));
        table.cloned().unwrap_or_else(|| format!("lock of class {}", tag.0))
    }
}

/// A line that grows with operations of the same kind on the same relation.
struct Line {
    subject: String,
    rows: Vec<RowId>,
    /// How often, and how much in all.
    times: usize,
    sum: usize,
    unit: &'static str,
}

impl Line {
    fn text(&self) -> String {
        let Line { subject, rows, times, sum, unit } = self;
        if !rows.is_empty() {
            let shown: Vec<String> =
                rows.iter().take(ROWS_SHOWN).map(|r| format!("({},{})", r.block, r.slot)).collect();
            let more = if rows.len() > ROWS_SHOWN { format!(" … {} rows", rows.len()) } else { String::new() };
            return format!("{subject} {}{more}", shown.join(" "));
        }
        let repeated = if *times > 1 { format!(" × {times}") } else { String::new() };
        match *unit {
            "" => format!("{subject}{repeated}"),
            unit if *sum == 1 => format!("{subject}{repeated}: 1 {}", one_of(unit)),
            unit => format!("{subject}{repeated}: {sum} {unit}"),
        }
    }
}

/// The word for one of what `plural` counts.
fn one_of(plural: &str) -> &str {
    if plural == "entries" { "entry" } else { "row" }
}

/// The name of a variant in words: `IndexInsert` as "index insert".
fn in_words(variant: &str) -> String {
    let mut words = String::new();
    for c in variant.chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}

fn pages_text(pages: &[PageOperation], names: &RelationNames) -> String {
    let parts = pages.iter().map(|page| match names.of(page.relation) {
        // Where a row of a system table goes depends on what was done before.
        name if names.is_of_system(page.relation) => format!("{} in {name}", page.words),
        name => format!("{} in {name} block {}", page.words, page.block),
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn line_of(operation: &TracedOperation, names: &RelationNames) -> Option<Line> {
    let line = |subject: String, sum: usize, unit| Some(Line { subject, rows: Vec::new(), times: 1, sum, unit });
    match operation {
        TracedOperation::ReadRow { heap, row, is_newest, is_found } if !names.is_of_system(*heap) => {
            let version = if *is_newest { ", newest version" } else { "" };
            let found = if *is_found { "" } else { ", not visible" };
            let subject = format!("read row of {}{version}{found}:", names.of(*heap));
            Some(Line { subject, rows: vec![*row], times: 1, sum: 0, unit: "" })
        }
        TracedOperation::ReadBlock { heap, rows, is_count, .. } if !names.is_of_system(*heap) => {
            let what = if *is_count { "count block" } else { "read block" };
            line(format!("{what} of {}", names.of(*heap)), *rows, "rows")
        }
        TracedOperation::ReadEntries { tree, entries, is_backward } if !names.is_of_system(*tree) => {
            let direction = if *is_backward { ", backward" } else { "" };
            line(format!("scan {}{direction}", names.of(*tree)), *entries, "entries")
        }
        TracedOperation::FindKey { tree, entries } if !names.is_of_system(*tree) => {
            line(format!("look up a key in {}", names.of(*tree)), *entries, "entries")
        }
        TracedOperation::ScanTerms { index } => line(format!("scan terms of {}", names.of(*index)), 0, ""),
        TracedOperation::Lock { tag, mode, is_granted } => {
            let refused = if *is_granted { "" } else { ", not granted" };
            line(format!("lock {} in {}{refused}", names.of_lock(*tag), in_words(&format!("{mode:?}"))), 0, "")
        }
        TracedOperation::Change { pages, .. }
            if pages.iter().any(|p| p.words == "init" && names.is_of_system(p.relation)) =>
        {
            None
        }
        TracedOperation::Change { is_logged, undo, pages } => {
            let log = if *is_logged { "log" } else { "without log" };
            let undo = undo.as_ref().map_or(String::new(), |undo| format!(", undo {}", in_words(undo)));
            let pages = if pages.is_empty() { "no page".into() } else { pages_text(pages, names) };
            line(format!("{log}: {pages}{undo}"), 0, "")
        }
        TracedOperation::LogRecord { kind: "extent" | "undo chunk" } => None,
        TracedOperation::LogRecord { kind } => line(format!("log: {kind}"), 0, ""),
        TracedOperation::Commit { mode, is_waited_for } => {
            let mode = match mode {
                CommitMode::Sync => "",
                CommitMode::Async => ", synchronous_commit off",
            };
            let flush = if *is_waited_for { ", waits for the log" } else { ", nothing to wait for" };
            line(format!("commit{mode}{flush}"), 0, "")
        }
        _ => None,
    }
}

/// One line for each operation, or for several of a kind that follow each other.
pub fn lines(operations: &[TracedOperation], names: &RelationNames) -> Vec<String> {
    let mut lines: Vec<Line> = Vec::new();
    for line in operations.iter().filter_map(|operation| line_of(operation, names)) {
        match lines.last_mut().filter(|last| last.subject == line.subject) {
            Some(last) => {
                last.rows.extend(line.rows);
                last.times += line.times;
                last.sum += line.sum;
            }
            None => lines.push(line),
        }
    }
    lines.iter().map(Line::text).collect()
}
