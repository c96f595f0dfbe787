//! Large objects: the functions of PostgreSQL's that make, open, read and write them. What they write is in
//! [`kilndb_catalog::large_object`].
//!
//! Invariants
//! 1. A descriptor ends with its transaction, and with a rollback to before it was opened ([`Descriptors`]).
//! 2. What was opened for reading alone is read as of the snapshot of the statement that has opened it; what is open for
//!    writing is read as it is now.
//! 3. Nothing of this changes what is cached of the catalogs: large objects are no part of it.

mod descriptors;
pub(super) mod files;

pub use descriptors::Descriptors;

use super::StatementHost;
use super::session_function::{Call, session_functions};
use descriptors::Descriptor;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::large_object::{self, MOST_BYTES};
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::secured_objects::LARGE_OBJECTS;
use kilndb_catalog::store::{CatalogStore, CatalogWriter};
use kilndb_catalog::temporary::is_temporary;
use kilndb_storage::Snapshot;
use kilndb_types::Datum;

/// Flags of lo_open.
const WRITES: i64 = 0x20000;
const READS: i64 = 0x40000;

/// The largest value there is, with the four bytes of its length.
const MOST_VALUE_BYTES: i64 = 0x3fff_ffff;

session_functions! {
    fn lo_creat(call) = { refuse_read_only(call, "lo_creat()")?; create(call, 0).map(Datum::Oid) };
    fn lo_create(call) = { refuse_read_only(call, "lo_create()")?; create(call, call.oid(0)).map(Datum::Oid) };
    fn lo_open(call) = open_descriptor(call, call.oid(0), call.int(1));
    fn lo_close(call) = {
        let at = number(call);
        call.host.scratch.large_objects.borrow_mut().close(at).map(|()| Datum::Int4(0))
    };
    fn loread(call) = read_descriptor(call, number(call), call.int(1));
    fn lowrite(call) = write_descriptor(call, number(call));
    fn lo_lseek(call) = seek_descriptor(call, number(call)).and_then(|position| narrow(call, position, "lo_lseek"));
    fn lo_lseek64(call) = seek_descriptor(call, number(call)).map(Datum::Int8);
    fn lo_tell(call) = tell_descriptor(call, number(call)).and_then(|position| narrow(call, position, "lo_tell"));
    fn lo_tell64(call) = tell_descriptor(call, number(call)).map(Datum::Int8);
    fn lo_truncate(call) = truncate_descriptor(call, "lo_truncate()");
    fn lo_truncate64(call) = truncate_descriptor(call, "lo_truncate64()");
    fn lo_unlink(call) = unlink(call, call.oid(0));
    fn lo_get(call) = get(call);
    fn lo_put(call) = put(call);
    fn lo_from_bytea(call) = from_bytea(call);
}

fn invalid(message: String) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

fn permission_denied(object: Oid) -> Error {
    Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, format!("permission denied for large object {object}"))
}

/// A descriptor as a call's first argument.
fn number(call: &Call<'_, '_>) -> i32 {
    call.int(0) as i32
}

fn store<'h>(host: &'h StatementHost<'_>) -> &'h CatalogStore {
    &host.database().store
}

fn writer<'w>(call: &'w mut Call<'_, '_>) -> CatalogWriter<'w> {
    let (database, env) = (call.host.database(), &mut *call.env);
    CatalogWriter { grants_defaults: true, ..CatalogWriter::plain(&database.store, database.oid, env.txn, env.park) }
}

fn refuse_read_only(call: &Call<'_, '_>, what: &str) -> Result<()> {
    if !call.host.facts.read_only {
        return Ok(());
    }
    let message = format!("cannot execute {what} in a read-only transaction");
    Err(Error::new(sqlstate::READ_ONLY_SQL_TRANSACTION, message))
}

/// lo_compat_privileges: as before PostgreSQL 9.0, everybody may do everything with them.
pub(super) fn asks_nobody(host: &StatementHost<'_>) -> bool {
    host.settings.get("lo_compat_privileges") == Some("on")
}

/// Whether the role in force has a privilege on an object.
fn may(host: &StatementHost<'_>, row: &CatalogRow, wanted: u64) -> Result<bool> {
    let roles = host.roles()?;
    let seen = roles.seen_from(host.database().oid);
    Ok(LARGE_OBJECTS.privileges(row).has_all(host.facts.current_role, wanted, seen))
}

/// Makes an object; 0: of an OID that nobody has.
fn create(call: &mut Call<'_, '_>, wanted: Oid) -> Result<Oid> {
    let host = call.host;
    if is_temporary(wanted) {
        let message = format!("large objects with OIDs of temporary objects ({wanted}) are not supported");
        return Err(Error::unsupported(message));
    }
    let owner = host.facts.current_role;
    let mut object = wanted;
    while object == 0 {
        let free = host.cluster.next_oid()?;
        let snapshot = call.env.txn.catalog_snapshot();
        if large_object::find(store(host), free, &snapshot)?.is_none() {
            object = free;
        }
    }
    large_object::create(&mut writer(call), object, owner)?;
    Ok(object)
}

/// What may be done with an object, and where it begins; an error if that may not be.
fn open(call: &mut Call<'_, '_>, object: Oid, flags: i64) -> Result<Descriptor> {
    let (writes, reads) = (flags & WRITES != 0, flags & READS != 0);
    if !writes && !reads {
        return Err(invalid(format!("invalid flags for opening a large object: {}", flags as i32)));
    }
    let snapshot = if writes { call.env.txn.catalog_snapshot() } else { call.env.snapshot.clone().untracked() };
    let found = large_object::find(store(call.host), object, &snapshot)?;
    let row = found.ok_or_else(|| large_object::missing(object))?;
    if !asks_nobody(call.host) {
        // Whoever writes may read, too.
        let wanted = if writes { privilege::SELECT | privilege::UPDATE } else { privilege::SELECT };
        if !may(call.host, &row, wanted)? {
            return Err(permission_denied(object));
        }
    }
    Ok(Descriptor { object, position: 0, snapshot: (!writes).then_some(snapshot) })
}

/// What an open object is read with.
fn seen_by(call: &mut Call<'_, '_>, descriptor: &Descriptor) -> Snapshot {
    match &descriptor.snapshot {
        Some(snapshot) => snapshot.clone(),
        None => call.env.txn.catalog_snapshot(),
    }
}

impl Descriptor {
    fn read(&mut self, call: &mut Call<'_, '_>, most: usize) -> Result<Vec<u8>> {
        let snapshot = seen_by(call, self);
        let bytes = large_object::read(store(call.host), self.object, self.position, most, &snapshot)?;
        self.position += bytes.len() as i64;
        Ok(bytes)
    }

    fn write(&mut self, call: &mut Call<'_, '_>, bytes: &[u8]) -> Result<()> {
        if self.position + bytes.len() as i64 > MOST_BYTES {
            return Err(invalid(format!("invalid large object write request size: {}", bytes.len())));
        }
        large_object::write(&mut writer(call), self.object, self.position, bytes)?;
        self.position += bytes.len() as i64;
        Ok(())
    }

    fn length(&self, call: &mut Call<'_, '_>) -> Result<i64> {
        let snapshot = seen_by(call, self);
        large_object::length(store(call.host), self.object, &snapshot)
    }

    fn seek(&mut self, call: &mut Call<'_, '_>, offset: i64, whence: i64) -> Result<i64> {
        let from = match whence {
            0 => 0,
            1 => self.position,
            2 => self.length(call)?,
            other => return Err(invalid(format!("invalid whence setting: {other}"))),
        };
        let target = from.wrapping_add(offset);
        if !(0..=MOST_BYTES).contains(&target) {
            return Err(invalid(format!("invalid large object seek target: {target}")));
        }
        self.position = target;
        Ok(target)
    }
}

fn open_descriptor(call: &mut Call<'_, '_>, object: Oid, flags: i64) -> Result<Datum> {
    if flags & WRITES != 0 {
        refuse_read_only(call, "lo_open(INV_WRITE)")?;
    }
    let descriptor = open(call, object, flags)?;
    Ok(Datum::Int4(call.host.scratch.large_objects.borrow_mut().add(descriptor)))
}

/// The descriptor of a number, taken out while it is used: nothing stays borrowed while the session waits.
fn with_descriptor<R>(
    call: &mut Call<'_, '_>,
    number: i32,
    use_it: impl FnOnce(&mut Call<'_, '_>, &mut Descriptor) -> Result<R>,
) -> Result<R> {
    let mut descriptor = call.host.scratch.large_objects.borrow().get(number)?;
    let done = use_it(call, &mut descriptor);
    call.host.scratch.large_objects.borrow_mut().move_to(number, descriptor.position);
    done
}

fn refuse_unless_written(number: i32, descriptor: &Descriptor) -> Result<()> {
    if descriptor.snapshot.is_none() {
        return Ok(());
    }
    let message = format!("large object descriptor {number} was not opened for writing");
    Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message))
}

fn read_descriptor(call: &mut Call<'_, '_>, number: i32, length: i64) -> Result<Datum> {
    with_descriptor(call, number, |call, descriptor| {
        if length > MOST_VALUE_BYTES - 4 {
            return Err(Error::internal(format!("invalid memory alloc request size {}", length + 4)));
        }
        let bytes = descriptor.read(call, usize::try_from(length).unwrap_or(0))?;
        Ok(Datum::Bytea(bytes.into()))
    })
}

fn write_descriptor(call: &mut Call<'_, '_>, number: i32) -> Result<Datum> {
    refuse_read_only(call, "lowrite()")?;
    let Some(Datum::Bytea(bytes)) = call.arg(1) else { return Ok(Datum::Null) };
    with_descriptor(call, number, |call, descriptor| {
        refuse_unless_written(number, descriptor)?;
        descriptor.write(call, bytes)?;
        Ok(Datum::Int4(bytes.len() as i32))
    })
}

fn seek_descriptor(call: &mut Call<'_, '_>, number: i32) -> Result<i64> {
    let (offset, whence) = (call.int(1), call.int(2));
    with_descriptor(call, number, |call, descriptor| descriptor.seek(call, offset, whence))
}

fn tell_descriptor(call: &mut Call<'_, '_>, number: i32) -> Result<i64> {
    with_descriptor(call, number, |_, descriptor| Ok(descriptor.position))
}

/// A position as a function gives it that knows nothing past 2 GB.
fn narrow(call: &Call<'_, '_>, position: i64, function: &str) -> Result<Datum> {
    i32::try_from(position).map(Datum::Int4).map_err(|_| {
        let message = format!("{function} result out of range for large-object descriptor {}", number(call));
        Error::new(sqlstate::NUMERIC_VALUE_OUT_OF_RANGE, message)
    })
}

fn truncate_descriptor(call: &mut Call<'_, '_>, function: &str) -> Result<Datum> {
    refuse_read_only(call, function)?;
    let (number, length) = (number(call), call.int(1));
    with_descriptor(call, number, |call, descriptor| {
        refuse_unless_written(number, descriptor)?;
        if !(0..=MOST_BYTES).contains(&length) {
            return Err(invalid(format!("invalid large object truncation target: {length}")));
        }
        large_object::truncate(&mut writer(call), descriptor.object, length)?;
        Ok(Datum::Int4(0))
    })
}

fn unlink(call: &mut Call<'_, '_>, object: Oid) -> Result<Datum> {
    refuse_read_only(call, "lo_unlink()")?;
    let (host, snapshot) = (call.host, call.env.txn.catalog_snapshot());
    let row = large_object::find(store(host), object, &snapshot)?.ok_or_else(|| large_object::missing(object))?;
    if !asks_nobody(host) && !host.has_privileges_of(row.oid(LARGE_OBJECTS.owner))? {
        let message = format!("must be owner of large object {object}");
        return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
    }
    host.scratch.large_objects.borrow_mut().close_all_of(object);
    large_object::drop(&mut writer(call), object)?;
    Ok(Datum::Int4(1))
}

fn get(call: &mut Call<'_, '_>) -> Result<Datum> {
    let is_part = call.args.len() > 1;
    let (offset, wanted) = (call.int(1), call.int(2));
    if is_part && wanted < 0 {
        return Err(invalid("requested length cannot be negative".to_string()));
    }
    let mut descriptor = open(call, call.oid(0), READS)?;
    let rest = descriptor.length(call)?.saturating_sub(offset).max(0);
    let length = if is_part { wanted.min(rest) } else { rest };
    if length > MOST_VALUE_BYTES - 4 {
        let message = "large object read request is too large";
        return Err(Error::new(sqlstate::PROGRAM_LIMIT_EXCEEDED, message));
    }
    descriptor.seek(call, offset, 0)?;
    Ok(Datum::Bytea(descriptor.read(call, length as usize)?.into()))
}

fn put(call: &mut Call<'_, '_>) -> Result<Datum> {
    refuse_read_only(call, "lo_put()")?;
    let Some(Datum::Bytea(bytes)) = call.arg(2) else { return Ok(Datum::Null) };
    let (object, offset) = (call.oid(0), call.int(1));
    let mut descriptor = open(call, object, WRITES)?;
    descriptor.seek(call, offset, 0)?;
    descriptor.write(call, bytes)?;
    Ok(Datum::text(""))
}

fn from_bytea(call: &mut Call<'_, '_>) -> Result<Datum> {
    refuse_read_only(call, "lo_from_bytea()")?;
    let Some(Datum::Bytea(bytes)) = call.arg(1) else { return Ok(Datum::Null) };
    let object = create(call, call.oid(0))?;
    let mut descriptor = open(call, object, WRITES)?;
    descriptor.write(call, bytes)?;
    Ok(Datum::Oid(object))
}
