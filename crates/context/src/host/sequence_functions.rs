//! nextval, currval, setval, lastval.

use super::StatementHost;
use super::functions::require_sequence;
use super::identifiers::record;
use super::sequence::{SequenceReserve, SequenceState, take_values};
use super::session_function::session_functions;
use crate::privileges::permission_denied;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{CatalogView, SequenceOptions, Table, TableKind};
use kilndb_storage::Transaction;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

fn sequence(host: &StatementHost<'_>, d: Option<&Datum>) -> Result<Arc<Table>> {
    let oid = match d {
        Some(Datum::Oid(oid)) => *oid,
        _ => 0,
    };
    let table = host.reader.table_by_oid(oid)?;
    let table = table
        .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("could not open relation with OID {oid}")))?;
    require_sequence(&table)?;
    Ok(table)
}

/// As the statement sees the catalogs: the table is forgotten when its row of pg_sequence changes.
fn options(table: &Table) -> Result<&SequenceOptions> {
    table.sequence.as_ref().ok_or_else(|| Error::internal(format!("sequence {} has no definition", table.oid)))
}

session_functions! {
    fn nextval(call) = {
        let table = sequence(call.host, call.arg(0))?;
        if call.args.len() == 1 {
            require(call.host, &table, privilege::USAGE | privilege::UPDATE)?;
        }
        next_value(call.host, &table, call.env.txn)
    };
    fn currval(call) = {
        let table = sequence(call.host, call.arg(0))?;
        require(call.host, &table, privilege::USAGE | privilege::SELECT)?;
        current_value(call.host, &table)
    };
    fn lastval(call) = {
        let last = call.host.scratch.last_sequence.get();
        let table = last.map(|oid| call.host.reader.table_by_oid(oid)).transpose()?.flatten();
        // One that has been dropped is not remembered.
        let last = last.filter(|_| table.is_some());
        if let Some(table) = table {
            require(call.host, &table, privilege::USAGE | privilege::SELECT)?;
        }
        let value = last.and_then(|oid| call.host.scratch.currval.borrow().get(&oid).copied());
        value.map(Datum::Int8).ok_or_else(|| {
            Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "lastval is not yet defined in this session")
        })
    };
    fn setval(call) = set_value(call.host, call.args, call.env.txn);
    fn pg_sequence_last_value(call) = {
        let table = sequence(call.host, call.arg(0))?;
        if !may(call.host, &table, privilege::USAGE | privilege::SELECT)? {
            return Ok(Datum::Null);
        }
        let state = state_of(call.host, &table)?;
        Ok(if state.is_called { Datum::Int8(state.last_value) } else { Datum::Null })
    };
    fn p9915_sequence_row(call) = sequence_row(call.host, call.arg(0));
    fn pg_get_sequence_data(call) = sequence_data(call.host, call.arg(0));
}

/// 42501 unless the role in force has one of these privileges on a sequence.
fn require(host: &StatementHost<'_>, sequence: &Table, wanted: u64) -> Result<()> {
    match may(host, sequence, wanted)? {
        true => Ok(()),
        false => Err(permission_denied("sequence", &sequence.name)),
    }
}

/// Whether the role in force has one of these privileges on a sequence.
fn may(host: &StatementHost<'_>, sequence: &Table, wanted: u64) -> Result<bool> {
    let roles = host.roles()?;
    Ok(sequence.privileges().has_any(host.facts.current_role, wanted, roles.seen_from(host.database().oid)))
}

fn state_of(host: &StatementHost<'_>, table: &Table) -> Result<SequenceState> {
    SequenceState::decode(&host.reader.temporary.relation(&host.cluster.engine, table.storage)?.cell_read()?)
}

fn current_value(host: &StatementHost<'_>, table: &Table) -> Result<Datum> {
    let known = host.scratch.currval.borrow().get(&table.oid).copied();
    known.map(Datum::Int8).ok_or_else(|| {
        Error::new(
            sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
            format!("currval of sequence \"{}\" is not yet defined in this session", table.name),
        )
    })
}

/// The row of a sequence that a FROM clause names: (last_value, log_cnt, is_called). Whoever runs the statement has been
/// asked about already. A crash takes no values back here, so there are none that the log has beforehand.
fn sequence_row(host: &StatementHost<'_>, relation: Option<&Datum>) -> Result<Datum> {
    let state = state_of(host, &*sequence(host, relation)?)?;
    let (last, logged) = (Datum::Int8(state.last_value), Datum::Int8(0));
    Ok(record(vec![(oids::INT8, last), (oids::INT8, logged), (oids::BOOL, Datum::Bool(state.is_called))]))
}

/// pg_get_sequence_data: (last_value, is_called); NULLs of what is no sequence or may not be read.
fn sequence_data(host: &StatementHost<'_>, relation: Option<&Datum>) -> Result<Datum> {
    let table = match relation {
        Some(Datum::Oid(oid)) => host.reader.table_by_oid(*oid)?,
        _ => None,
    };
    let table = match table.filter(|t| t.kind == TableKind::Sequence) {
        Some(table) if may(host, &table, privilege::SELECT)? => Some(table),
        _ => None,
    };
    let (last, is_called) = match table {
        Some(table) => {
            let state = state_of(host, &table)?;
            (Datum::Int8(state.last_value), Datum::Bool(state.is_called))
        }
        None => (Datum::Null, Datum::Null),
    };
    Ok(record(vec![(oids::INT8, last), (oids::BOOL, is_called)]))
}

fn refuse_read_only(host: &StatementHost<'_>, table: &Table, what: &str) -> Result<()> {
    if host.facts.read_only && table.persistence != b't' {
        return Err(Error::new(
            sqlstate::READ_ONLY_SQL_TRANSACTION,
            format!("cannot execute {what}() in a read-only transaction"),
        ));
    }
    Ok(())
}

/// The sequence's next value, from the session's own reserve if CACHE has left some.
fn next_value(host: &StatementHost<'_>, table: &Table, txn: &mut Transaction) -> Result<Datum> {
    refuse_read_only(host, table, "nextval")?;
    let mut cache = host.scratch.sequence_cache.borrow_mut();
    let value = match cache.get_mut(&table.oid) {
        Some(reserve) if reserve.left > 0 => {
            let value = reserve.next;
            reserve.next = value.wrapping_add(reserve.step);
            reserve.left -= 1;
            txn.rest_on(reserve.lsn);
            value
        }
        _ => {
            let options = options(table)?;
            let cell = host.reader.temporary.relation(&host.cluster.engine, table.storage)?;
            let ((first, left), lsn) = take_values(&cell, &table.name, options)?;
            txn.rest_on(lsn);
            if left > 0 {
                let (next, step) = (first.wrapping_add(options.increment), options.increment);
                cache.insert(table.oid, SequenceReserve { next, left, step, lsn });
            }
            first
        }
    };
    host.scratch.currval.borrow_mut().insert(table.oid, value);
    host.scratch.last_sequence.set(Some(table.oid));
    Ok(Datum::Int8(value))
}

fn set_value(host: &StatementHost<'_>, args: &[Datum], txn: &mut Transaction) -> Result<Datum> {
    let table = sequence(host, args.first())?;
    require(host, &table, privilege::UPDATE)?;
    refuse_read_only(host, &table, "setval")?;
    let value = match args.get(1) {
        Some(Datum::Int8(v)) => *v,
        _ => return Ok(Datum::Null),
    };
    let is_called = !matches!(args.get(2), Some(Datum::Bool(false)));
    let o = options(&table)?;
    if value < o.min || value > o.max {
        return Err(Error::new(
            sqlstate::NUMERIC_VALUE_OUT_OF_RANGE,
            format!("setval: value {value} is out of bounds for sequence \"{}\" ({}..{})", table.name, o.min, o.max),
        ));
    }
    let cell = host.reader.temporary.relation(&host.cluster.engine, table.storage)?;
    let ((), lsn) = cell.cell_modify(&mut |bytes| {
        SequenceState { last_value: value, is_called, log_count: 0 }.encode(bytes);
        Ok(((), true))
    })?;
    txn.rest_on(lsn);
    host.scratch.sequence_cache.borrow_mut().remove(&table.oid);
    if is_called {
        host.scratch.currval.borrow_mut().insert(table.oid, value);
    }
    Ok(Datum::Int8(value))
}
