//! What one session knows of its tables, and the random transactions that change both.
//!
//! A transaction is made up before it runs: its statements, and the model as it is once they are committed. Whoever
//! runs it then knows the state before and the state after, and needs nothing of the server's answers but whether the
//! commit was acknowledged.

use crate::random::Random;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Ids of a table: so many from its base on.
pub const WIDTH: i64 = 1_000_000;
/// A session has at most so many tables, each with a range of ids to itself.
const TABLES: i64 = 6;
/// Tables that all sessions write to.
pub const SHARED: usize = 2;

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Row {
    pub v: i64,
    /// Tells versions of a row apart.
    pub n: u64,
    pub len: usize,
    pub x: i64,
}
impl Row {
    pub fn t(&self, id: i64) -> String {
        format!("k{id}-{}", self.n)
    }
    pub fn w(&self) -> String {
        char::from(b'a' + (self.n % 26) as u8).to_string().repeat(self.len)
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Index {
    Key,
    V,
    UniqueT,
    Expression,
    Partial,
}
impl Index {
    /// Out of what the server shows of an index.
    pub fn of(definition: &str) -> Option<Index> {
        let (_, columns) = definition.split_once(" USING ")?;
        match columns {
            "btree (id)" => Some(Index::Key),
            "btree (v)" => Some(Index::V),
            "btree (t)" => Some(Index::UniqueT),
            _ if columns.contains(" WHERE ") => Some(Index::Partial),
            _ if columns.contains('%') => Some(Index::Expression),
            _ => None,
        }
    }
    /// A condition that all rows of the index meet, and that leads through it.
    pub fn condition(self) -> &'static str {
        match self {
            Index::Key => "id >= -1",
            Index::V => "v >= -1",
            Index::UniqueT => "t >= ''",
            Index::Expression => "(v % 7) >= -1",
            Index::Partial => "(v + 1) >= -1 and v % 2 = 0",
        }
    }
    fn create(self, table: &str) -> String {
        match self {
            Index::Key => format!("alter table {table} add primary key (id)"),
            Index::V => format!("create index on {table} (v)"),
            Index::UniqueT => format!("alter table {table} add constraint {table}_unique unique (t)"),
            Index::Expression => format!("create index {table}_expression on {table} ((v % 7))"),
            Index::Partial => format!("create index {table}_partial on {table} ((v + 1)) where v % 2 = 0"),
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Table {
    /// Which of the session's ranges of ids.
    pub slot: i64,
    pub base: i64,
    pub rows: BTreeMap<i64, Row>,
    pub has_x: bool,
    pub has_check: bool,
    pub is_numeric: bool,
    pub is_unlogged: bool,
    pub is_attached: bool,
    /// The table's indexes, each with the name that it was given when it was made.
    pub indexes: BTreeSet<Index>,
    /// The names of indexes and constraints begin with this: the table's first name.
    pub first_name: String,
}
impl Table {
    pub fn new(slot: i64, base: i64, name: &str) -> Table {
        Table {
            slot,
            base,
            rows: BTreeMap::new(),
            has_x: false,
            has_check: false,
            is_numeric: false,
            is_unlogged: false,
            is_attached: false,
            indexes: BTreeSet::new(),
            first_name: name.to_string(),
        }
    }
    fn has_expressions(&self) -> bool {
        self.indexes.contains(&Index::Expression) || self.indexes.contains(&Index::Partial)
    }
    /// As the catalogs are to have it.
    pub fn definition(&self) -> String {
        let columns = if self.has_x { "id,t,v,w,x" } else { "id,t,v,w" };
        let of = if self.is_numeric { "numeric" } else { "bigint" };
        let checks = i32::from(self.has_check);
        format!(
            "{columns} v={of} unlogged={} attached={} checks={checks} {:?}",
            self.is_unlogged, self.is_attached, self.indexes
        )
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Model {
    /// How many transactions of the session are in it.
    pub number: u64,
    pub tables: BTreeMap<String, Arc<Table>>,
    /// The session's own rows of the shared tables.
    pub shared: Vec<Arc<Table>>,
}
impl Model {
    pub fn new(session: usize) -> Model {
        let base = (session as i64 + 1) * 100 * WIDTH;
        let shared = (0..SHARED).map(|n| Arc::new(Table::new(0, base, &shared_name(n)))).collect();
        Model { number: 0, tables: BTreeMap::new(), shared }
    }
    /// What is left after a crash.
    pub(crate) fn after_crash(mut self) -> Model {
        for table in self.tables.values_mut().filter(|t| t.is_unlogged) {
            Arc::make_mut(table).rows.clear();
        }
        self
    }
}
pub(crate) fn shared_name(n: usize) -> String {
    format!("shared_{n}")
}
fn is_shared(name: &str) -> bool {
    name.starts_with("shared_")
}
/// What adds to rows of a shared table, in the three ways in which a session keeps plans: as text, prepared, in a routine.
fn addition(n: usize) -> String {
    format!("update {} set v = v + $1 where id between $2 and $3", shared_name(n))
}
pub(crate) fn prepare_addition(n: usize) -> String {
    format!("prepare {}_add (bigint, bigint, bigint) as {}", shared_name(n), addition(n))
}
pub(crate) fn create_addition(n: usize) -> String {
    let name = shared_name(n);
    format!(
        "create function {name}_add(bigint, bigint, bigint) returns void language plpgsql as $$ begin {}; end $$",
        addition(n)
    )
}
pub(crate) fn parent_name(session: usize) -> String {
    format!("s{session}_all")
}

/// A transaction that may be run.
pub struct PlannedTransaction {
    pub statements: Vec<String>,
    pub commits: bool,
    pub after: Model,
}

pub struct TransactionPlanner<'a> {
    pub session: usize,
    pub random: &'a mut Random,
    /// Names are not used twice.
    pub next_name: &'a mut u64,
    statements: Vec<String>,
    model: Model,
}

impl<'a> TransactionPlanner<'a> {
    pub fn new(
        session: usize,
        random: &'a mut Random,
        next_name: &'a mut u64,
        model: &Model,
    ) -> TransactionPlanner<'a> {
        TransactionPlanner { session, random, next_name, statements: Vec::new(), model: model.clone() }
    }

    pub fn transaction(mut self) -> PlannedTransaction {
        let mut saved: Vec<Model> = Vec::new();
        for _ in 0..1 + self.random.below(6) {
            match self.random.below(12) {
                0 => {
                    self.say(format!("savepoint s{}", saved.len()));
                    saved.push(self.model.clone());
                }
                1 if !saved.is_empty() => {
                    let to = self.random.below(saved.len() as u64) as usize;
                    self.say(format!("rollback to s{to}"));
                    self.model = saved[to].clone();
                    saved.truncate(to + 1);
                }
                2 | 3 => self.change_shared(),
                4 => self.create(),
                5 | 6 => self.define(),
                _ => self.change_rows(),
            }
        }
        // Large, so that what is rolled back has many pages to give away.
        let commits = !self.random.one_in(4);
        if !commits && self.random.one_in(2) {
            self.say(format!("create table s{}_large (id bigint primary key, w text)", self.session));
            let (session, rows) = (self.session, 200 + self.random.below(2000));
            self.say(format!(
                "insert into s{session}_large select g, repeat('l', 1500) from generate_series(1, {rows}) g"
            ));
        }
        self.model.number += 1;
        let (session, number) = (self.session, self.model.number);
        self.say(format!("update ledger set number = {number} where session = {session}"));
        PlannedTransaction { statements: self.statements, commits, after: self.model }
    }
    fn say(&mut self, sql: String) {
        self.statements.push(sql);
    }
    fn pick(&mut self) -> Option<(String, Arc<Table>)> {
        let at = self.random.below(self.model.tables.len().max(1) as u64) as usize;
        self.model.tables.iter().nth(at).map(|(name, table)| (name.clone(), table.clone()))
    }
    fn new_name(&mut self) -> String {
        *self.next_name += 1;
        format!("s{}_{}", self.session, self.next_name)
    }
    fn free_slot(&self) -> Option<i64> {
        (0..TABLES).find(|slot| self.model.tables.values().all(|t| t.slot != *slot))
    }
    fn base(&self, slot: i64) -> i64 {
        (self.session as i64 * 10 + slot) * WIDTH
    }

    /// A table, empty or as a copy of another.
    fn create(&mut self) {
        let Some(slot) = self.free_slot() else { return self.drop_one() };
        let name = self.new_name();
        let mut table = Table::new(slot, self.base(slot), &name);
        table.is_unlogged = self.random.one_in(5);
        let kind = if table.is_unlogged { "unlogged " } else { "" };
        table.indexes.insert(Index::Key);
        let source = if self.random.one_in(3) { self.pick() } else { None };
        match source {
            Some((source, of)) => {
                let moved = table.base - of.base;
                self.say(format!(
                    "create {kind}table {name} as select id + {moved} as id, v, 'k' || (id + {moved}) || '-' || split_part(t, '-', 2) as t, w from {source}"
                ));
                self.say(Index::Key.create(&name));
                table.is_numeric = of.is_numeric;
                table.rows = of.rows.iter().map(|(id, row)| (id + moved, Row { x: 0, ..row.clone() })).collect();
            }
            None => self.say(format!("create {kind}table {name} (id bigint primary key, v bigint, t text, w text)")),
        }
        if self.random.one_in(2) {
            self.insert(&name, &mut table);
        }
        self.model.tables.insert(name, Arc::new(table));
    }
    fn drop_one(&mut self) {
        if let Some((name, _)) = self.pick() {
            self.say(format!("drop table {name}"));
            self.model.tables.remove(&name);
        }
    }

    /// Changes one definition of one table.
    fn define(&mut self) {
        let Some((name, table)) = self.pick() else { return self.create() };
        let mut t = Table::clone(&table);
        let mut new_name = name.clone();
        match self.random.below(10) {
            0 => return self.drop_one(),
            1 if !t.is_attached => self.toggle_column(&name, &mut t),
            2 => {
                self.say(if t.has_check {
                    format!("alter table {name} drop constraint {}_check", t.first_name)
                } else {
                    format!("alter table {name} add constraint {}_check check (v > -1)", t.first_name)
                });
                t.has_check = !t.has_check;
            }
            3 => {
                new_name = self.new_name();
                self.say(format!("alter table {name} rename to {new_name}"));
            }
            4 if !t.is_attached => {
                self.say(format!("alter table {name} set {}", if t.is_unlogged { "logged" } else { "unlogged" }));
                t.is_unlogged = !t.is_unlogged;
            }
            // A column that an expression reads keeps its type.
            5 if !t.is_attached && !t.has_check && !t.has_expressions() => {
                let to = if t.is_numeric { "bigint" } else { "numeric" };
                self.say(format!("alter table {name} alter column v type {to}"));
                t.is_numeric = !t.is_numeric;
            }
            6 => {
                self.say(format!("truncate {name}"));
                t.rows.clear();
            }
            7 | 8 => self.toggle_index(&name, &mut t),
            _ => self.toggle_partition(&name, &mut t),
        }
        self.model.tables.remove(&name);
        self.model.tables.insert(new_name, Arc::new(t));
    }
    fn toggle_column(&mut self, name: &str, t: &mut Table) {
        t.has_x = !t.has_x;
        if !t.has_x {
            return self.say(format!("alter table {name} drop column x"));
        }
        let value = self.random.below(100) as i64;
        self.say(format!("alter table {name} add column x bigint not null default {value}"));
        t.rows.values_mut().for_each(|row| row.x = value);
    }
    fn toggle_index(&mut self, name: &str, t: &mut Table) {
        let index = [Index::V, Index::UniqueT, Index::Expression, Index::Partial][self.random.below(4) as usize];
        if t.indexes.insert(index) {
            let create = index.create(name);
            return self.say(create.replace(&format!("{name}_"), &format!("{}_", t.first_name)));
        }
        let first = &t.first_name;
        match index {
            // The server has named it, and it may belong to an index of the parent.
            Index::V | Index::Key => return,
            Index::UniqueT => self.statements.push(format!("alter table {name} drop constraint {first}_unique")),
            Index::Expression => self.statements.push(format!("drop index {first}_expression")),
            Index::Partial => self.statements.push(format!("drop index {first}_partial")),
        }
        t.indexes.remove(&index);
    }
    fn toggle_partition(&mut self, name: &str, t: &mut Table) {
        let parent = parent_name(self.session);
        if t.is_attached {
            self.say(format!("alter table {parent} detach partition {name}"));
            t.is_attached = false;
        } else if !t.has_x && !t.is_numeric {
            let (from, to) = (t.base, t.base + WIDTH);
            self.say(format!("alter table {parent} attach partition {name} for values from ({from}) to ({to})"));
            t.is_attached = true;
            t.indexes.insert(Index::V);
        }
    }

    fn change_rows(&mut self) {
        let Some((name, table)) = self.pick() else { return self.create() };
        let mut t = Table::clone(&table);
        // Through the partitioned table it is the same row.
        let through = if t.is_attached && self.random.one_in(2) { parent_name(self.session) } else { name.clone() };
        self.change(&through, &mut t);
        self.model.tables.insert(name, Arc::new(t));
    }
    fn change_shared(&mut self) {
        let n = self.random.below(SHARED as u64) as usize;
        let mut t = Table::clone(&self.model.shared[n]);
        self.change(&shared_name(n), &mut t);
        self.model.shared[n] = Arc::new(t);
    }
    fn change(&mut self, name: &str, t: &mut Table) {
        let (from, to) = {
            let (a, b) = (self.random.below(300) as i64, self.random.below(300) as i64);
            (t.base + a.min(b), t.base + a.max(b))
        };
        let n = self.random.below(1000);
        match self.random.below(6) {
            0..=2 => self.insert(name, t),
            3 => {
                let way = self.random.below(3);
                self.say(match way {
                    0 if is_shared(name) => format!("execute {name}_add({n}, {from}, {to})"),
                    1 if is_shared(name) => format!("select {name}_add({n}, {from}, {to})"),
                    _ => format!("update {name} set v = v + {n} where id between {from} and {to}"),
                });
                t.rows.range_mut(from..=to).for_each(|(_, row)| row.v += n as i64);
            }
            4 => {
                let len = self.length();
                let letter = char::from(b'a' + (n % 26) as u8);
                self.say(format!(
                    "update {name} set t = 'k' || id || '-{n}', w = repeat('{letter}', {len}) where id between {from} and {to}"
                ));
                t.rows.range_mut(from..=to).for_each(|(_, row)| (row.n, row.len) = (n, len));
            }
            _ => {
                self.say(format!("delete from {name} where id between {from} and {to}"));
                t.rows.retain(|id, _| *id < from || *id > to);
            }
        }
    }
    fn length(&mut self) -> usize {
        match self.random.below(12) {
            0 => self.random.below(12_000) as usize,
            1 | 2 => self.random.below(1500) as usize,
            _ => self.random.below(80) as usize,
        }
    }
    /// Rows with new ids of the first 300.
    fn insert(&mut self, name: &str, t: &mut Table) {
        let most = [3, 20, 120][self.random.below(3) as usize];
        let (from, count) = (t.base + self.random.below(300) as i64, 1 + self.random.below(most) as i64);
        let (v, n, len, x) = (self.random.below(50) as i64, self.random.below(1000), self.length(), 5);
        let letter = char::from(b'a' + (n % 26) as u8);
        let (last, base) = ((from + count - 1).min(t.base + 299), t.base);
        let (column, value) = if t.has_x { (", x", format!(", {x}")) } else { ("", String::new()) };
        self.say(format!(
            "insert into {name} (id, v, t, w{column}) select g, g - {base} + {v}, 'k' || g || '-{n}', repeat('{letter}', {len}){value} from generate_series({from}, {last}) g where not exists (select from {name} where id = g)"
        ));
        for id in from..=last {
            t.rows.entry(id).or_insert(Row { v: id - base + v, n, len, x });
        }
    }
}
