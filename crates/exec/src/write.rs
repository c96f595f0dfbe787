//! The steps of writing rows: constraints, encoding, index entries.

use super::context::*;
use super::expr::Evaluate;
use super::modify_row::StoredRow;
use super::{index, inverted, scan};
use kilndb_base::{Error, Result, RowId, sqlstate};
use kilndb_bind::access::{FunctionAccess, RelationAccess};
use kilndb_bind::ir::{DmlKind, RowCheckKind};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{Index, Table, TableKind};
use kilndb_plan::{IndexPlan, ModifyPlan};
use kilndb_storage::{IndexInsert, RowBatch, Uniqueness};
use kilndb_types::{Datum, EvalContext, io, row};

/// A value as DETAIL lines show it.
pub fn show(ty: kilndb_base::Oid, typmod: i32, d: &Datum, cx: &EvalContext<'_>) -> String {
    if d.is_null() {
        return "null".into();
    }
    let mut out = Vec::new();
    match io::output_typmod(ty, typmod, d, &mut out, cx) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => "?".into(),
    }
}

/// The value of the column at `position`, which may have gone unread from one version of the row to the next.
fn shown_value(t: &Table, position: usize, value: &Datum, cx: &EvalContext<'_>) -> String {
    let (column, layout) = (&t.columns[position], t.descriptor.columns.get(position));
    let decoded = match (value, layout) {
        (Datum::Stored(bytes), Some(layout)) => row::decode_at(layout, bytes, 0).ok(),
        _ => None,
    };
    let shown = show(column.type_oid, column.typmod, decoded.as_ref().unwrap_or(value), cx);
    if shown.len() > 64 { format!("{}...", shown.chars().take(64).collect::<String>()) } else { shown }
}

/// A row that breaks a rule, as DETAIL shows it. Who may not read the table is shown what the statement itself has given
/// and the columns that it may read; if there are none, the error has no detail.
fn with_failing_row(error: Error, t: &Table, values: &[Datum], rt: &RunState, cx: &ExecContext<'_>) -> Error {
    let named = changed_relation(rt);
    let target = named.map_or(t, |access| &access.table);
    if cx.session.may_read(target, &[]) {
        let columns = values.iter().take(t.columns.len()).enumerate().filter(|(at, _)| !t.columns[*at].dropped);
        let list: Vec<String> = columns.map(|(at, value)| shown_value(t, at, value, &cx.eval)).collect();
        return error.with_detail(format!("Failing row contains ({}).", list.join(", ")));
    }
    if cx.session.hides_rows(target) {
        return error;
    }
    let given =
        |attnum: i16| named.is_some_and(|access| access.inserted.contains(&attnum) || access.updated.contains(&attnum));
    let (mut names, mut list) = (Vec::new(), Vec::new());
    for column in target.columns.iter().filter(|c| !c.dropped) {
        let at = t.columns.iter().position(|c| !c.dropped && c.name == column.name);
        let Some((at, value)) = at.and_then(|at| values.get(at).map(|value| (at, value))) else { continue };
        if given(column.attnum) || cx.session.may_read(target, &[column.attnum]) {
            names.push(column.name.clone());
            list.push(shown_value(t, at, value, &cx.eval));
        }
    }
    if names.is_empty() {
        return error;
    }
    error.with_detail(format!("Failing row contains ({}) = ({}).", names.join(", "), list.join(", ")))
}

/// The same of a row of the table that the statement changes, whichever partition it is in.
pub(super) fn with_named_row(
    error: Error,
    m: &ModifyPlan,
    values: &[Datum],
    rt: &RunState,
    cx: &ExecContext<'_>,
) -> Error {
    let named = changed_relation(rt).map(|access| access.table.clone());
    with_failing_row(error, named.as_ref().unwrap_or(&m.table), values, rt, cx)
}

/// The table whose rows the statement writes, not a view that it names.
fn changed_relation(rt: &RunState) -> Option<&RelationAccess> {
    let is_written = |access: &&RelationAccess| access.required & CHANGES != 0 && access.table.kind != TableKind::View;
    rt.plan.access.relations.iter().find(is_written)
}

/// What makes a statement's relation the one whose rows it writes.
const CHANGES: u64 = privilege::INSERT | privilege::UPDATE;

/// Computes generated columns, and checks row security, NOT NULL, CHECK constraints and partition bounds.
pub fn complete(m: &ModifyPlan, values: &mut [Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    complete_as(m, check_kind(m), values, rt, cx)
}

/// What the statement's own rows are checked as.
fn check_kind(m: &ModifyPlan) -> RowCheckKind {
    match m.statement.kind {
        DmlKind::Insert => RowCheckKind::Insert,
        _ => RowCheckKind::Update,
    }
}

/// The same of a row that ON CONFLICT DO UPDATE changes, or is written as the statement's kind says.
pub fn complete_as(
    m: &ModifyPlan,
    kind: RowCheckKind,
    values: &mut [Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    require_functions(m, &m.functions.generated, cx)?;
    for (column, e) in &*m.generated {
        values[*column] = e.eval(values, rt, cx)?;
    }
    check_as(m, kind, values, rt, cx)
}

/// The same of a row of which nothing is generated.
pub fn check(m: &ModifyPlan, values: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
    require_functions(m, &m.functions.generated, cx)?;
    check_as(m, check_kind(m), values, rt, cx)
}

fn check_as(
    m: &ModifyPlan,
    kind: RowCheckKind,
    values: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    if !m.statement.row_checks.is_empty() {
        match &m.columns {
            Some(columns) => super::row_security::check(m, kind, &columns.to_named(values), rt, cx)?,
            None => super::row_security::check(m, kind, values, rt, cx)?,
        }
    }
    for &i in &*m.not_null {
        if values.get(i).is_none_or(Datum::is_null) {
            let name = m.table.columns[i].name.clone();
            let error = Error::new(
                sqlstate::NOT_NULL_VIOLATION,
                format!(
                    "null value in column \"{name}\" of relation \"{}\" violates not-null constraint",
                    m.table.name
                ),
            );
            return Err(with_failing_row(error, &m.table, values, rt, cx)
                .with_table(m.table.schema_name.clone(), m.table.name.clone())
                .with_column(name));
        }
    }
    require_functions(m, &m.functions.checks, cx)?;
    for (name, e) in &*m.checks {
        if matches!(e.eval(values, rt, cx)?, Datum::Bool(false)) {
            let error = Error::new(
                sqlstate::CHECK_VIOLATION,
                format!("new row for relation \"{}\" violates check constraint \"{name}\"", m.table.name),
            );
            return Err(with_failing_row(error, &m.table, values, rt, cx)
                .with_table(m.table.schema_name.clone(), m.table.name.clone())
                .with_constraint(name.clone()));
        }
    }
    check_belongs(m, values, rt, cx)?;
    require_functions(m, &m.functions.indexes, cx)
}

/// 42501 unless whoever writes the rows may call the functions of their rules. What foreign keys change is the table
/// owner's doing.
fn require_functions(m: &ModifyPlan, functions: &[FunctionAccess], cx: &ExecContext<'_>) -> Result<()> {
    if functions.is_empty() {
        return Ok(());
    }
    let owner = m.statement.is_of_key.then_some(m.table.owner);
    cx.session.require_functions(functions, owner)
}

pub(crate) fn not_within_bounds(partition: &Table, values: &[Datum], rt: &RunState, cx: &ExecContext<'_>) -> Error {
    let error = Error::new(
        sqlstate::CHECK_VIOLATION,
        format!("new row for relation \"{}\" violates partition constraint", partition.name),
    );
    with_failing_row(error, partition, values, rt, cx).with_table(partition.schema_name.clone(), partition.name.clone())
}

/// A new row of a partition that the statement names must be within its bounds.
pub(crate) fn check_belongs(
    m: &ModifyPlan,
    values: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<()> {
    if m.must_belong && !super::partition::belongs(&m.table, values, rt, cx)? {
        return Err(not_within_bounds(&m.table, values, rt, cx));
    }
    Ok(())
}

pub fn encode(m: &ModifyPlan, values: &[Datum], out: &mut Vec<u8>) -> Result<()> {
    out.clear();
    row::encode_row(&m.stored_as.descriptor, values, out)
}

/// An error that tells a key of an index to who may read its columns.
pub(crate) fn with_key(error: Error, detail: String, table: &Table, index: &Index, session: &dyn SessionHost) -> Error {
    let columns: Vec<i16> = index.keys.iter().map(|key| key.attnum).collect();
    // An expression may be about all of the row.
    let columns = if columns.contains(&0) { &[] } else { columns.as_slice() };
    if session.may_read(table, columns) { error.with_detail(detail) } else { error }
}

pub fn duplicate(
    m: &ModifyPlan,
    position: usize,
    values: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Error {
    let p = &m.indexes[position];
    let mut names = Vec::new();
    let mut shown = Vec::new();
    for (k, e) in p.shape.keys.iter().zip(&p.shape.values) {
        names.push(
            match (&k.expression_sql, usize::try_from(k.attnum - 1).ok().and_then(|i| m.table.columns.get(i))) {
                (_, Some(c)) => c.name.clone(),
                (Some(sql), None) => sql.clone(),
                _ => "?".into(),
            },
        );
        let d = e.eval(values, rt, cx).unwrap_or_default();
        shown.push(show(k.type_oid, -1, &d, &cx.eval));
    }
    let error = Error::new(
        sqlstate::UNIQUE_VIOLATION,
        format!("duplicate key value violates unique constraint \"{}\"", p.index.name),
    );
    let detail = format!("Key ({})=({}) already exists.", names.join(", "), shown.join(", "));
    with_key(error, detail, &m.table, &p.index, cx.session)
        .with_table(m.table.schema_name.clone(), m.table.name.clone())
        .with_constraint(p.index.name.clone())
}

/// Index entries of a new row; the index in which another conflicts, if any. `twins` gets what is to be looked at
/// again when the statement or the transaction ends.
pub(super) fn insert_entries(
    m: &ModifyPlan,
    row: StoredRow<'_>,
    only: Option<&[bool]>,
    twins: &mut Vec<(usize, RowId)>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<usize>> {
    for (n, p) in m.indexes.iter().enumerate() {
        if only.is_some_and(|o| !o[n]) {
            continue;
        }
        if p.has_terms() {
            inverted::insert(p, row.values, row.rid, rt, cx)?;
            continue;
        }
        let Some((key, null)) = index::entry(p, row.values, rt, cx)? else { continue };
        match p.relation.index_insert(cx.txn, m.heap()?, &key, row.rid, uniqueness(p, null), cx.park)? {
            IndexInsert::Inserted => cx.usage.wrote_index(p.oid, 1),
            // A deferrable constraint may be broken for a while.
            IndexInsert::Conflict(_) | IndexInsert::Elsewhere(..) if p.shape.deferrable => {
                p.relation.index_insert(cx.txn, m.heap()?, &key, row.rid, Uniqueness::NotUnique, cx.park)?;
                cx.usage.wrote_index(p.oid, 1);
                twins.push((n, row.rid));
            }
            IndexInsert::Conflict(_) | IndexInsert::Elsewhere(..) => return Ok(Some(n)),
        }
    }
    Ok(None)
}

fn uniqueness(p: &IndexPlan, null: bool) -> Uniqueness {
    if p.shape.unique && (!null || p.shape.nulls_not_distinct) { Uniqueness::Unique } else { Uniqueness::NotUnique }
}

/// Values of new rows of one table, one row after the other.
#[derive(Clone, Copy)]
pub(crate) struct NewRows<'a> {
    pub values: &'a [Datum],
    pub width: usize,
    pub rids: &'a [RowId],
}
impl<'a> NewRows<'a> {
    pub fn row(&self, n: usize) -> &'a [Datum] {
        self.values.get(n * self.width..(n + 1) * self.width).unwrap_or(&[])
    }
}

/// Index entries of new rows, an index after the other: the first row that conflicts, and in which index.
pub(crate) fn insert_entries_of(
    m: &ModifyPlan,
    rows: NewRows<'_>,
    keys: &mut RowBatch,
    twins: &mut Vec<(usize, RowId)>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<(usize, usize)>> {
    // A single row is done alone, and so are rows of a table with deferrable constraints.
    if rows.rids.len() < 2 || m.indexes.iter().any(|p| p.shape.deferrable) {
        for (n, rid) in rows.rids.iter().enumerate() {
            if let Some(index) =
                insert_entries(m, StoredRow { rid: *rid, values: rows.row(n), input: &[] }, None, twins, rt, cx)?
            {
                return Ok(Some((n, index)));
            }
        }
        return Ok(None);
    }
    let mut conflict = None;
    for (index, p) in m.indexes.iter().enumerate() {
        // Rows behind one that conflicts need no entries: the statement fails at that one.
        let before = conflict.map_or(rows.rids.len(), |(row, _)| row);
        let wanted = NewRows { rids: &rows.rids[..before], ..rows };
        if let Some(row) = insert_entries_into(p, m, wanted, keys, rt, cx)? {
            conflict = Some((row, index));
        }
    }
    Ok(conflict)
}

/// Inserts the entries of rows into one index; the first row that conflicts.
fn insert_entries_into(
    p: &IndexPlan,
    m: &ModifyPlan,
    rows: NewRows<'_>,
    keys: &mut RowBatch,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Option<usize>> {
    let mut from = 0;
    while from < rows.rids.len() {
        // Rows whose uniqueness is judged in the same way are inserted together.
        keys.clear();
        let mut alike = None;
        let mut numbers = Vec::new();
        while let Some(rid) = rows.rids.get(from) {
            if p.has_terms() {
                inverted::insert(p, rows.row(from), *rid, rt, cx)?;
            } else {
                let start = keys.bytes.len();
                if let Some(null) = index::put_entry(p, rows.row(from), &mut keys.bytes, rt, cx)? {
                    if *alike.get_or_insert(uniqueness(p, null)) != uniqueness(p, null) {
                        keys.bytes.truncate(start);
                        break;
                    }
                    keys.rows.push((*rid, start as u32, keys.bytes.len() as u32));
                    numbers.push(from);
                }
            }
            from += 1;
        }
        if let Some(uniqueness) = alike
            && let Some((n, _)) = p.relation.index_insert_many(cx.txn, m.heap()?, keys, uniqueness, cx.park)?
        {
            return Ok(numbers.get(n).copied());
        }
        cx.usage.wrote_index(p.oid, keys.rows.len() as u64);
    }
    Ok(None)
}

/// The newest version of a row, decoded; false if it is gone.
pub fn latest(
    m: &ModifyPlan,
    rid: RowId,
    bytes: &mut Vec<u8>,
    values: &mut Vec<Datum>,
    cx: &mut ExecContext<'_>,
) -> Result<bool> {
    if !m.heap()?.fetch_latest(cx.txn, rid, bytes)? {
        return Ok(false);
    }
    scan::decode_all(&m.table, bytes, values)?;
    Ok(true)
}
