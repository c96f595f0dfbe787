//! Foreign keys: checks of new children, and what happens to the children of parents that go or change; keys of
//! deferrable unique constraints. All run when the statement's rows are written; deferred ones at the end of the
//! transaction.

use super::context::*;
use super::{Execution, write};
use kilndb_base::park::Park;
use kilndb_base::{Error, Oid, Result, RowId, sqlstate};
use kilndb_bind::engine_query::{EngineQuery, KeyAction, KeyQuery, NewKeyValue};
use kilndb_catalog::format_type::quote_identifier;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::trigger::fires;
use kilndb_catalog::{Column, Index, Table, TableKind, column_places};
use kilndb_plan::partition::PartitionColumns;
use kilndb_plan::{ForeignKeyPlan, ModifyPlan, Plan, ReferencedPlan};
use kilndb_storage::{
    Fetched, IndexInsert, Relation, RowLockMode, Snapshot, Transaction, Uniqueness, WaitPolicy, WriteOptions,
    WriteOutcome,
};
use kilndb_types::{Datum, EvalContext, key, oids, row};
use std::ops::Bound;
use std::sync::Arc;

/// The checks and actions that are due at the end of a statement.
#[derive(Default)]
pub(crate) struct ConstraintQueue {
    /// (foreign key, whether the row is new, values).
    children: Vec<(usize, bool, Vec<Datum>)>,
    /// (referencing key, old values, new values).
    parents: Vec<(usize, Vec<Datum>, Option<Vec<Datum>>)>,
    /// Rows whose key another row had when they got their entry in a deferrable unique index: (position of the index,
    /// row).
    pub twins: Vec<(usize, RowId)>,
}

fn pick(columns: &[usize], row: &[Datum]) -> Vec<Datum> {
    columns.iter().map(|c| row.get(*c).cloned().unwrap_or_default()).collect()
}

impl ConstraintQueue {
    pub fn is_empty(&self) -> bool {
        self.children.is_empty() && self.parents.is_empty() && self.twins.is_empty()
    }
    pub(crate) fn child_row(&mut self, m: &ModifyPlan, row: &[Datum]) {
        for (n, f) in m.foreign_keys.iter().enumerate() {
            self.children.push((n, true, pick(&f.columns, row)));
        }
    }
    pub(crate) fn changed_row(&mut self, m: &ModifyPlan, old: &[Datum], new: Option<&[Datum]>) {
        if let Some(new) = new {
            for (n, f) in m.foreign_keys.iter().enumerate() {
                let (before, after) = (pick(&f.columns, old), pick(&f.columns, new));
                if !equal(&m.table, &f.columns, &before, &after) {
                    self.children.push((n, false, after));
                }
            }
        }
        self.note_parents(m, old, new, |_| true);
    }
    /// Notes that a row has moved to another partition.
    pub(crate) fn moved_row(&mut self, m: &ModifyPlan, old: &[Datum], new: &[Datum]) {
        self.note_parents(m, old, Some(new), |_| true);
    }
    /// Notes that a row has left this partition: for foreign keys that reference just the partition it has gone.
    pub(crate) fn left_row(&mut self, m: &ModifyPlan, old: &[Datum]) {
        self.note_parents(m, old, None, |r| r.key.part_of == 0);
    }
    fn note_parents(
        &mut self,
        m: &ModifyPlan,
        old: &[Datum],
        new: Option<&[Datum]>,
        wanted: impl Fn(&ReferencedPlan) -> bool,
    ) {
        for (n, r) in m.referenced_by.iter().enumerate().filter(|(_, r)| wanted(r)) {
            let before = pick(&r.columns, old);
            if before.iter().any(Datum::is_null) {
                continue;
            }
            let after = new.map(|new| pick(&r.columns, new));
            // A key that looks different is another one to those that follow it, though it compares equal.
            let is_kept = |a: &Vec<Datum>| {
                equal(&m.table, &r.columns, &before, a) && before.iter().zip(a).all(|(x, y)| row::looks_the_same(x, y))
            };
            if !after.as_ref().is_some_and(is_kept) {
                self.parents.push((n, before, after));
            }
        }
    }

    /// Runs one statement's checks and actions; what the actions owe in turn is added to the cascade.
    pub(super) fn run(&mut self, m: &ModifyPlan, cx: &mut ExecContext<'_>) -> Result<()> {
        for (n, rid) in std::mem::take(&mut self.twins) {
            let p = &m.indexes[n];
            if is_deferred(p.index.constraint, p.index.deferrable, p.index.initially_deferred, cx) {
                let twin = Some((m.table.storage, rid));
                cx.pending.checks.push(PendingCheck {
                    constraint: p.index.constraint,
                    table: m.table.oid,
                    key: Vec::new(),
                    parent_gone: false,
                    twin,
                });
                continue;
            }
            let session = cx.session;
            let unique = UniqueIndex { table: &m.table, index: &p.index, heap: m.heap()?, tree: &p.relation, session };
            check_only_one(unique, rid, cx.txn, cx.park, &cx.eval)?;
        }
        if self.children.is_empty() && self.parents.is_empty() {
            return Ok(());
        }
        // Foreign keys are triggers, so session_replication_role decides whether they fire.
        let is_replica = cx.session.is_replica();
        self.children.retain(|(n, is_new, _)| {
            let firing = &m.foreign_keys[*n].key.firing;
            fires(if *is_new { firing.insert } else { firing.update }, is_replica)
        });
        self.parents.retain(|(n, _, new)| {
            let firing = &m.referenced_by[*n].key.firing;
            fires(if new.is_some() { firing.changed } else { firing.gone }, is_replica)
        });
        if self.children.is_empty() && self.parents.is_empty() {
            return Ok(());
        }
        // The checks and actions see what this statement has changed.
        cx.txn.next_command();
        if !self.parents.is_empty() {
            let saved = std::mem::replace(&mut cx.snapshot, cx.txn.take_snapshot().into());
            let mut result = Ok(());
            for (n, old, new) in std::mem::take(&mut self.parents) {
                result = parent_changed(m, &m.referenced_by[n], &old, new.as_deref(), cx);
                if result.is_err() {
                    break;
                }
            }
            cx.snapshot = saved;
            result?;
        }
        for (n, _, values) in std::mem::take(&mut self.children) {
            let f = &m.foreign_keys[n];
            if is_deferred(f.key.oid, f.key.deferrable, f.key.initially_deferred, cx) {
                cx.pending.checks.push(PendingCheck {
                    constraint: f.key.oid,
                    table: m.table.oid,
                    key: values,
                    parent_gone: false,
                    twin: None,
                });
                continue;
            }
            check_child(&m.table, f, &values, cx)?;
        }
        Ok(())
    }
}

/// A unique index with its table, and what they are stored in.
#[derive(Clone, Copy)]
pub struct UniqueIndex<'a> {
    pub table: &'a Table,
    pub index: &'a Index,
    pub heap: &'a Relation,
    pub tree: &'a Relation,
    /// Who is told of a conflict.
    pub session: &'a dyn SessionHost,
}

/// Fails unless the row, if it is still there, is the only one with its key in a deferrable unique index. Waits for
/// other transactions' rows with that key.
pub fn check_only_one(
    unique: UniqueIndex<'_>,
    rid: RowId,
    txn: &mut Transaction,
    park: &dyn Park,
    eval: &EvalContext<'_>,
) -> Result<()> {
    let UniqueIndex { table, index, heap, tree, session } = unique;
    let (mut bytes, mut values, mut k) = (Vec::new(), Vec::new(), Vec::new());
    if !heap.fetch_latest(txn, rid, &mut bytes)? {
        return Ok(());
    }
    super::scan::decode_all(table, &bytes, &mut values)?;
    let columns: Vec<usize> = index.keys.iter().filter_map(|k| usize::try_from(k.attnum - 1).ok()).collect();
    let key = pick(&columns, &values);
    if key.iter().any(Datum::is_null) && !index.nulls_not_distinct {
        return Ok(());
    }
    for (part, value) in index.keys.iter().zip(&key) {
        super::index::append(part, value, &mut k)?;
    }
    if index.is_global {
        k.extend_from_slice(&Relation::heap_name(heap.id()));
    }
    // The entry is there already: inserting it again only looks for others.
    match tree.index_insert(txn, heap, &k, rid, Uniqueness::Unique, park)? {
        IndexInsert::Inserted => Ok(()),
        IndexInsert::Conflict(_) | IndexInsert::Elsewhere(..) => {
            let shown: Vec<String> =
                index.keys.iter().zip(&key).map(|(part, value)| write::show(part.type_oid, -1, value, eval)).collect();
            let error = Error::new(
                sqlstate::UNIQUE_VIOLATION,
                format!("duplicate key value violates unique constraint \"{}\"", index.name),
            );
            let detail = format!("Key ({})=({}) already exists.", names(table, &columns), shown.join(", "));
            Err(write::with_key(error, detail, table, index, session)
                .with_table(table.schema_name.clone(), table.name.clone())
                .with_constraint(index.name.clone()))
        }
    }
}

pub(super) fn is_deferred(oid: Oid, deferrable: bool, initially: bool, cx: &ExecContext<'_>) -> bool {
    deferrable && cx.pending.modes.get(&oid).or(cx.pending.modes.get(&0)).copied().unwrap_or(initially)
}

fn equal(t: &Table, columns: &[usize], a: &[Datum], b: &[Datum]) -> bool {
    columns.iter().zip(a).zip(b).all(|((c, x), y)| match (x.is_null(), y.is_null()) {
        (true, true) => true,
        (false, false) => t.columns.get(*c).is_some_and(|c| key::compare(c.type_oid, x, y).is_eq()),
        _ => false,
    })
}

fn names(t: &Table, columns: &[usize]) -> String {
    columns.iter().filter_map(|c| t.columns.get(*c)).map(|c| c.name.clone()).collect::<Vec<_>>().join(", ")
}

fn shown(t: &Table, columns: &[usize], values: &[Datum], cx: &ExecContext<'_>) -> String {
    let list: Vec<String> = columns
        .iter()
        .zip(values)
        .filter_map(|(c, v)| t.columns.get(*c).map(|c| write::show(c.type_oid, c.typmod, v, &cx.eval)))
        .collect();
    list.join(", ")
}

/// Fails unless the parent row exists, and locks it so that it stays until this transaction ends.
pub(crate) fn check_child(table: &Table, f: &ForeignKeyPlan, values: &[Datum], cx: &mut ExecContext<'_>) -> Result<()> {
    let nulls = values.iter().filter(|v| v.is_null()).count();
    if f.key.match_type == b'f' && nulls > 0 && nulls < values.len() {
        return Err(Error::new(
            sqlstate::FOREIGN_KEY_VIOLATION,
            format!("insert or update on table \"{}\" violates foreign key constraint \"{}\"", table.name, f.key.name),
        )
        .with_detail("MATCH FULL does not allow mixing of null and nonnull key values."));
    }
    if nulls > 0 {
        return Ok(());
    }
    owner_may(&f.parent, &f.key.referenced_columns, privilege::SELECT | privilege::UPDATE, cx)?;
    let mut k = Vec::new();
    let mut converted = values.to_vec();
    for (position, ty, descending, nulls_first) in &f.index_keys {
        let d = convert(*ty, &values[*position]);
        key::encode_key(*ty, &d, *descending, *nulls_first, &mut k)?;
        converted[*position] = d;
    }
    loop {
        cx.park.checkpoint()?;
        let (leaves, seen_with) = match &f.target {
            Some(_) => Default::default(),
            None => super::partition::leaves_of_key(
                &f.parent,
                (&f.key.referenced_columns, f.key.referenced_index),
                &converted,
                &k,
                cx,
            )?,
        };
        let mut targets = Vec::with_capacity(1);
        if let Some((heap, tree)) = &f.target {
            targets.push(KeyLookup { table: &f.parent, heap, tree, columns: None });
        }
        for leaf in &leaves {
            let place = leaf.index(f.key.referenced_index)?;
            targets.push(KeyLookup {
                table: &leaf.table,
                heap: &leaf.heap,
                tree: &place.relation,
                columns: leaf.columns.as_deref(),
            });
        }
        // At READ COMMITTED each attempt takes a new snapshot: the transaction that was waited for may have changed the
        // row. The row lock protects what is found: SERIALIZABLE need not note that it was read.
        let snapshot = seen_with.unwrap_or_else(|| cx.txn.take_snapshot().untracked());
        let mut found = None;
        for target in &targets {
            if let Some(rid) = visible_parent(f, target, &k, &snapshot)? {
                found = Some((target.heap, rid));
                break;
            }
        }
        let Some((heap, rid)) = found else {
            return Err(Error::new(
                sqlstate::FOREIGN_KEY_VIOLATION,
                format!(
                    "insert or update on table \"{}\" violates foreign key constraint \"{}\"",
                    table.name, f.key.name
                ),
            )
            .with_detail(match may_read(table, &f.columns, cx) {
                true => format!(
                    "Key ({})=({}) is not present in table \"{}\".",
                    names(table, &f.columns),
                    shown(table, &f.columns, values, cx),
                    f.parent.name
                ),
                false => format!("Key is not present in table \"{}\".", f.parent.name),
            })
            .with_table(table.schema_name.clone(), table.name.clone())
            .with_constraint(f.key.name.clone()));
        };
        let options = WriteOptions { wait: WaitPolicy::Wait, latest: false, key_update: false };
        match heap.lock_row(cx.txn, rid, RowLockMode::KeyShare, &options.with(&snapshot, cx.park))? {
            WriteOutcome::Changed | WriteOutcome::Deleted | WriteOutcome::Skipped => {}
            WriteOutcome::Done | WriteOutcome::SelfModified => return Ok(()),
        }
    }
}

/// Where the row with a key is looked for: the referenced table, or one of its partitions that the key leads to.
struct KeyLookup<'a> {
    table: &'a Table,
    heap: &'a Relation,
    tree: &'a Arc<Relation>,
    columns: Option<&'a PartitionColumns>,
}

/// The row with this key that the snapshot sees. A parent that somebody else has not committed is none.
fn visible_parent(f: &ForeignKeyPlan, target: &KeyLookup<'_>, k: &[u8], snapshot: &Snapshot) -> Result<Option<RowId>> {
    let mut whole = k.to_vec();
    if target.tree.entries_name_heap() {
        whole.extend_from_slice(&Relation::heap_name(target.heap.id()));
    }
    let bound = || Bound::Included(whole.clone());
    let mut scan = target.tree.index_scan(bound(), bound(), false);
    let (mut keys, mut ends, mut rids) = (Vec::new(), Vec::new(), Vec::new());
    let (mut bytes, mut values) = (Vec::new(), Vec::new());
    loop {
        rids.clear();
        let more = scan.next_batch(&mut keys, &mut ends, &mut rids)?;
        for (at, rid) in rids.iter().enumerate() {
            let Fetched::Visible { recheck } = target.heap.fetch(*rid, snapshot, &mut bytes)? else { continue };
            let recheck = recheck || scan.is_retired(at);
            if recheck {
                super::scan::decode_all(target.table, &bytes, &mut values)?;
                if let Some(columns) = target.columns {
                    values = columns.to_named(&values);
                }
            }
            if !recheck || parent_key(f, &values)? == k {
                return Ok(Some(*rid));
            }
        }
        if !more {
            return Ok(None);
        }
    }
}

/// 42501 unless the owner of a table may look at its keys, or change them: as in PostgreSQL, the owner's queries do that.
fn owner_may(table: &Table, columns: &[i16], wanted: u64, cx: &ExecContext<'_>) -> Result<()> {
    let Some(grants) = &table.grants else { return Ok(()) };
    if grants.iter().any(|item| item.grantee == table.owner && item.privileges & wanted == wanted) {
        return Ok(());
    }
    cx.session.require_of_owner(table, wanted, columns)
}

fn parent_key(f: &ForeignKeyPlan, values: &[Datum]) -> Result<Vec<u8>> {
    let mut k = Vec::new();
    for (position, ty, descending, nulls_first) in &f.index_keys {
        let column = f.key.referenced_columns.get(*position).and_then(|n| usize::try_from(*n - 1).ok());
        let d = column.and_then(|c| values.get(c)).unwrap_or(&Datum::Null);
        key::encode_key(*ty, d, *descending, *nulls_first, &mut k)?;
    }
    Ok(k)
}

fn convert(ty: Oid, d: &Datum) -> Datum {
    let wide = match d {
        Datum::Int2(v) => i64::from(*v),
        Datum::Int4(v) => i64::from(*v),
        Datum::Int8(v) => *v,
        _ => return d.clone(),
    };
    match ty {
        oids::NUMERIC => Datum::Numeric(wide.into()),
        oids::FLOAT8 => Datum::Float8(wide as f64),
        oids::FLOAT4 => Datum::Float4(wide as f32),
        oids::INT2 => i16::try_from(wide).map_or_else(|_| d.clone(), Datum::Int2),
        oids::INT4 => i32::try_from(wide).map_or_else(|_| d.clone(), Datum::Int4),
        oids::INT8 => Datum::Int8(wide),
        _ => d.clone(),
    }
}

fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// The statement that deals with the children; parameters: old key values, then new ones.
fn action_query<'r>(r: &'r ReferencedPlan, parameters: Vec<Oid>, action: u8, update: bool) -> KeyQuery<'r> {
    let count = r.child_columns.len();
    // ON DELETE SET NULL (…)
    let chosen = column_places(&r.key.delete_columns);
    let changed = if update || chosen.is_empty() { &r.child_columns } else { &chosen };
    let reset = |value: NewKeyValue| KeyAction::Set(changed.iter().map(|place| (*place, value)).collect());
    let action = match action {
        b'c' if update => KeyAction::Set(
            r.child_columns.iter().enumerate().map(|(i, place)| (*place, NewKeyValue::Parameter(count + i))).collect(),
        ),
        b'c' => KeyAction::Delete,
        b'n' => reset(NewKeyValue::Null),
        b'd' => reset(NewKeyValue::Default),
        _ => KeyAction::Find { locks: true },
    };
    KeyQuery { table: &r.child, columns: &r.child_columns, parameters, action }
}

/// An action's statement as PostgreSQL has it, for errors in it.
fn shown_action((m, r, update): (&ModifyPlan, &ReferencedPlan, bool), cx: &ExecContext<'_>) -> String {
    let action = if update { r.key.on_update } else { r.key.on_delete };
    let only = if r.child.kind == TableKind::Partitioned { "" } else { "ONLY " };
    let child = format!("{only}{}.{}", quote(&r.child.schema_name), quote(&r.child.name));
    let columns: Vec<&Column> = r.child_columns.iter().filter_map(|c| r.child.columns.get(*c)).collect();
    // PostgreSQL numbers the parameters of the new key first.
    let first = if update && action == b'c' { columns.len() } else { 0 };
    let condition = |(i, column): (usize, &&Column)| {
        let referenced = r.columns.get(i).and_then(|c| m.table.columns.get(*c)).map_or(column.type_oid, |c| c.type_oid);
        let (left, right) = compared_as(referenced, column.type_oid, cx);
        let name = quote(&column.name);
        format!("${}{left} OPERATOR(pg_catalog.=) {name}{right}", first + i + 1)
    };
    let conditions = columns.iter().enumerate().map(condition).collect::<Vec<_>>().join(" AND ");
    let is_set =
        |column: &&&Column| update || r.key.delete_columns.is_empty() || r.key.delete_columns.contains(&column.attnum);
    let assigned = |(i, column): (usize, &&Column)| {
        let value = match action {
            b'c' => format!("${}", i + 1),
            b'd' => "DEFAULT".to_string(),
            _ => "NULL".to_string(),
        };
        format!("{} = {value}", quote(&column.name))
    };
    if action == b'c' && !update {
        return format!("DELETE FROM {child} WHERE {conditions}");
    }
    let assignments: Vec<String> = columns.iter().filter(is_set).enumerate().map(assigned).collect();
    format!("UPDATE {child} SET {} WHERE {conditions}", assignments.join(", "))
}

/// The casts that comparing a referenced column's value to a referencing column's takes, as they are written.
fn compared_as(referenced: Oid, referencing: Oid, cx: &ExecContext<'_>) -> (String, String) {
    let base = |oid: Oid| match cx.catalog.type_by_oid(oid) {
        Ok(Some(t)) if t.base_type != 0 => t.base_type,
        _ => oid,
    };
    let operators = cx.catalog.operators(Some("pg_catalog"), "=").unwrap_or_default();
    let has = |left: Oid, right: Oid| operators.iter().any(|o| o.left == left && o.right == right);
    let (left, right) = (base(referenced), base(referencing));
    let operands = match (has(left, right), has(left, left)) {
        (true, _) => (left, right),
        (_, true) => (left, left),
        // varchar has no operator of its own: it is compared as text.
        _ if left == oids::VARCHAR => (oids::TEXT, oids::TEXT),
        _ => return Default::default(),
    };
    let cast = |from: Oid, to: Oid| {
        let name = || cx.catalog.type_by_oid(to).ok().flatten().map_or_else(String::new, |t| quote_identifier(&t.name));
        if from == to { String::new() } else { format!("::pg_catalog.{}", name()) }
    };
    (cast(referenced, operands.0), cast(referencing, operands.1))
}

struct Count(u64);
impl RowSink for Count {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        self.0 += 1;
        Ok(())
    }
}

fn run_sql(plan: &Arc<Plan>, params: &[Datum], cx: &mut ExecContext<'_>) -> Result<u64> {
    let mut sink = Count(0);
    let mut execution = Execution::start(plan.clone(), params, cx)?;
    execution.run(cx, None, &mut sink)?;
    Ok(sink.0)
}

fn parent_changed(
    m: &ModifyPlan,
    r: &ReferencedPlan,
    old: &[Datum],
    new: Option<&[Datum]>,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    let action = if new.is_some() { r.key.on_update } else { r.key.on_delete };
    let update = new.is_some();
    let checks = !matches!(action, b'c' | b'n' | b'd');
    if checks && action != b'r' && is_deferred(r.key.oid, r.key.deferrable, r.key.initially_deferred, cx) {
        cx.pending.checks.push(PendingCheck {
            constraint: r.key.oid,
            table: m.table.oid,
            key: old.to_vec(),
            parent_gone: true,
            twin: None,
        });
        return Ok(());
    }
    let to_do = match action {
        b'c' if !update => privilege::DELETE,
        _ => privilege::UPDATE,
    };
    owner_may(&r.child, &r.key.columns, privilege::SELECT | to_do, cx)?;
    let plan = plan_action(m, r, action, update, cx)?;
    let mut params = old.to_vec();
    if let (Some(new), b'c') = (new, action) {
        params.extend_from_slice(new);
    }
    // Children that an old snapshot does not see keep their parent too, so the newest ones are looked at.
    let mut rows =
        if checks { run_at_newest(&plan, &params, cx)? } else { run_action((m, r, update), (&plan, &params), cx)? };
    if !checks && cx.txn.isolation().keeps_snapshot() {
        refuse_unseen_children(m, r, old, cx)?;
    }
    // The default may be the key that has gone: such children have not changed.
    let is_default = action == b'd';
    if is_default {
        let plan = plan_action(m, r, b'a', false, cx)?;
        cx.txn.next_command();
        rows = run_at_newest(&plan, old, cx)?;
    }
    if (checks || is_default) && rows > 0 {
        // NO ACTION is satisfied if another row has the key by now.
        if action != b'r' && parent_exists(m, r, old, cx)? {
            return Ok(());
        }
        return Err(still_referenced(m, r, old, action == b'r', cx));
    }
    Ok(())
}

/// At REPEATABLE READ an action leaves children alone that its snapshot does not see. If there are any, the parent may
/// not go.
fn refuse_unseen_children(m: &ModifyPlan, r: &ReferencedPlan, old: &[Datum], cx: &mut ExecContext<'_>) -> Result<()> {
    let plan = plan_action(m, r, b'a', false, cx)?;
    // The check sees what the action has done.
    cx.txn.next_command();
    if run_at_newest(&plan, old, cx)? > 0 {
        return Err(Error::new(sqlstate::SERIALIZATION_FAILURE, "could not serialize access due to concurrent update"));
    }
    Ok(())
}

/// Runs with a snapshot that sees what other actions of the statement have done, and what the isolation level shows by
/// now.
fn run_action(
    of: (&ModifyPlan, &ReferencedPlan, bool),
    (plan, params): (&Arc<Plan>, &[Datum]),
    cx: &mut ExecContext<'_>,
) -> Result<u64> {
    cx.txn.next_command();
    let now = cx.txn.take_snapshot();
    let saved = std::mem::replace(&mut cx.snapshot, now.into());
    cx.pending.failed_behind = false;
    let rows = run_sql(plan, params, cx);
    cx.snapshot = saved;
    // PostgreSQL runs what follows an action after the client's statement, when the action is over: errors do not name
    // it.
    let is_own = !std::mem::take(&mut cx.pending.failed_behind);
    rows.map_err(|mut e| {
        if is_own {
            e.add_context(&format!("SQL statement \"{}\"", shown_action(of, cx)));
        }
        e
    })
}

/// Runs with a snapshot that sees what is committed by now, also when the transaction's own snapshot is old.
fn run_at_newest(plan: &Arc<Plan>, params: &[Datum], cx: &mut ExecContext<'_>) -> Result<u64> {
    let newest = cx.txn.catalog_snapshot();
    let saved = std::mem::replace(&mut cx.snapshot, newest.into());
    let rows = run_sql(plan, params, cx);
    cx.snapshot = saved;
    rows
}

fn plan_action(
    m: &ModifyPlan,
    r: &ReferencedPlan,
    action: u8,
    update: bool,
    cx: &mut ExecContext<'_>,
) -> Result<Arc<Plan>> {
    let key = (r.key.oid, m.table.oid, action, update);
    if let Some(plan) = cx.pending.cascade.as_deref().and_then(|cascade| cascade.plan(&key)) {
        return Ok(plan);
    }
    let types = r.columns.iter().map(|c| m.table.columns[*c].type_oid);
    let mut params: Vec<Oid> = types.clone().collect();
    if update && action == b'c' {
        params.extend(types);
    }
    let plan = plan_query(&action_query(r, params, action, update), cx)?;
    if let Some(cascade) = cx.pending.cascade.as_deref_mut() {
        cascade.keep_plan(key, plan.clone());
    }
    Ok(plan)
}

fn plan_query(query: &KeyQuery<'_>, cx: &ExecContext<'_>) -> Result<Arc<Plan>> {
    kilndb_plan::plan_with(query.bind(cx.catalog)?, query.parameter_types(), cx.catalog, cx.engine)
}

/// Whether an error may tell the values of these columns.
fn may_read(table: &Table, columns: &[usize], cx: &ExecContext<'_>) -> bool {
    let attnums: Vec<i16> = columns.iter().filter_map(|at| table.columns.get(*at)).map(|c| c.attnum).collect();
    cx.session.may_read(table, &attnums)
}

fn still_referenced(m: &ModifyPlan, r: &ReferencedPlan, old: &[Datum], restrict: bool, cx: &ExecContext<'_>) -> Error {
    let (state, by) = if restrict {
        (sqlstate::RESTRICT_VIOLATION, "violates RESTRICT setting of foreign key constraint")
    } else {
        (sqlstate::FOREIGN_KEY_VIOLATION, "violates foreign key constraint")
    };
    Error::new(
        state,
        format!("update or delete on table \"{}\" {by} \"{}\" on table \"{}\"", m.table.name, r.key.name, r.child.name),
    )
    .with_detail(match (may_read(&m.table, &r.columns, cx), if restrict { "referenced" } else { "still referenced" }) {
        (true, how) => format!(
            "Key ({})=({}) is {how} from table \"{}\".",
            names(&m.table, &r.columns),
            shown(&m.table, &r.columns, old, cx),
            r.child.name
        ),
        (false, how) => format!("Key is {how} from table \"{}\".", r.child.name),
    })
    .with_table(r.child.schema_name.clone(), r.child.name.clone())
    .with_constraint(r.key.name.clone())
}

fn parent_exists(m: &ModifyPlan, r: &ReferencedPlan, old: &[Datum], cx: &mut ExecContext<'_>) -> Result<bool> {
    if m.routing().is_some() {
        let parameters = r.columns.iter().map(|c| m.table.columns[*c].type_oid).collect();
        let action = KeyAction::Find { locks: true };
        let plan = plan_query(&KeyQuery { table: &m.table, columns: &r.columns, parameters, action }, cx)?;
        return Ok(run_at_newest(&plan, old, cx)? > 0);
    }
    let Some(p) =
        m.indexes.iter().find(|i| i.index.oid == r.key.referenced_index || i.index.part_of == r.key.referenced_index)
    else {
        return Ok(false);
    };
    let mut k = Vec::new();
    for key in &p.index.keys {
        let position = r.key.referenced_columns.iter().position(|c| *c == key.attnum);
        let Some(v) = position.and_then(|i| old.get(i)) else { return Ok(false) };
        super::index::append(key, v, &mut k)?;
    }
    k.extend_from_slice(p.suffix.as_ref().map_or(&[], |name| name));
    Ok(p.relation.index_find_live(cx.txn, m.heap()?, &k, cx.park)?.is_some())
}
