//! Triggers as the binder, planner and executor see them, and the tables of changed rows that running ones can read.

use super::cache::CatalogReader;
use super::catalog_row::CatalogRow;
use super::ids::*;
use super::model::Table;
use kilndb_base::{Oid, Result};
use kilndb_spill::RowStore;
use kilndb_types::Datum;
use std::sync::Arc;

/// Bits of pg_trigger.tgtype.
pub const ROW: i16 = 1;
pub const BEFORE: i16 = 2;
pub const INSERT: i16 = 4;
pub const DELETE: i16 = 8;
pub const UPDATE: i16 = 16;
pub const TRUNCATE: i16 = 32;
pub const INSTEAD: i16 = 64;

/// What happens to rows of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TriggerOperation {
    Insert,
    Update,
    Delete,
    Truncate,
}

#[derive(Clone, Debug)]
pub struct Trigger {
    pub oid: Oid,
    /// The partitioned table's trigger that it is a copy of, or 0.
    pub parent: Oid,
    pub name: String,
    pub function: Oid,
    pub kind: i16,
    /// 'O' origin and local, 'R' replica, 'A' always, 'D' disabled.
    pub enabled: u8,
    pub is_internal: bool,
    /// The trigger's row of pg_constraint, or 0.
    pub constraint: Oid,
    /// The other table of a constraint trigger, or 0.
    pub other_table: Oid,
    pub deferrable: bool,
    pub initially_deferred: bool,
    /// UPDATE OF: attnums; empty: any.
    pub columns: Vec<i16>,
    pub arguments: Vec<String>,
    pub when_sql: Option<String>,
    pub old_table: Option<String>,
    pub new_table: Option<String>,
}

impl Trigger {
    pub fn of_row(row: &CatalogRow) -> Trigger {
        let name = |column: &str| row.text(column).map(str::to_string);
        Trigger {
            oid: row.oid("oid"),
            parent: row.oid("tgparentid"),
            name: name("tgname").unwrap_or_default(),
            function: row.oid("tgfoid"),
            kind: row.int("tgtype") as i16,
            enabled: row.char("tgenabled"),
            is_internal: row.bool("tgisinternal"),
            constraint: row.oid("tgconstraint"),
            other_table: row.oid("tgconstrrelid"),
            deferrable: row.bool("tgdeferrable"),
            initially_deferred: row.bool("tginitdeferred"),
            columns: row.numbers("tgattr").iter().map(|n| *n as i16).collect(),
            arguments: match row.get("tgargs") {
                Datum::Bytea(bytes) => split_arguments(bytes),
                _ => Vec::new(),
            },
            when_sql: name("tgqual"),
            old_table: name("tgoldtable"),
            new_table: name("tgnewtable"),
        }
    }
    #[inline]
    pub fn is(&self, bits: i16) -> bool {
        self.kind & bits == bits
    }
    #[inline]
    pub fn for_each_row(&self) -> bool {
        self.is(ROW)
    }
    pub fn is_after(&self) -> bool {
        self.kind & (BEFORE | INSTEAD) == 0
    }
    pub fn has_transition_tables(&self) -> bool {
        self.old_table.is_some() || self.new_table.is_some()
    }
    /// Whether the trigger fires under this session_replication_role.
    pub fn fires_as(&self, is_replica: bool) -> bool {
        fires(self.enabled, is_replica)
    }
}

/// Whether the trigger is one of a foreign key's, which are never called: the executor looks after keys.
pub fn is_of_key(row: &CatalogRow) -> bool {
    is_key_function(row.oid("tgfoid"))
}

/// RI_FKey_check_ins and those after it.
pub fn is_key_function(oid: Oid) -> bool {
    (FIRST_KEY_FUNCTION..=LAST_KEY_FUNCTION).contains(&oid)
}
pub(crate) const FIRST_KEY_FUNCTION: Oid = 1644;
pub(crate) const LAST_KEY_FUNCTION: Oid = 1655;

/// When the executor looks after a foreign key: as the `tgenabled` of its triggers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForeignKeyFiring {
    /// New rows of the referencing table.
    pub insert: u8,
    /// Changed ones.
    pub update: u8,
    /// Changed rows of the referenced table.
    pub changed: u8,
    /// Rows of it that are gone.
    pub gone: u8,
}

impl Default for ForeignKeyFiring {
    fn default() -> ForeignKeyFiring {
        ForeignKeyFiring { insert: b'O', update: b'O', changed: b'O', gone: b'O' }
    }
}

impl ForeignKeyFiring {
    /// How a foreign key fires by the rows of pg_trigger that it has. A cluster of an earlier build has none.
    pub fn of_rows<'r>(rows: impl Iterator<Item = &'r CatalogRow>) -> ForeignKeyFiring {
        let mut found = ForeignKeyFiring::default();
        for row in rows.filter(|row| is_of_key(row)) {
            let enabled = row.char("tgenabled");
            match (row.oid("tgfoid"), row.int("tgtype") as i16 & (INSERT | DELETE | UPDATE)) {
                (FIRST_KEY_FUNCTION, _) => found.insert = enabled,
                (1645, _) => found.update = enabled,
                (_, DELETE) => found.gone = enabled,
                _ => found.changed = enabled,
            }
        }
        found
    }
}

/// Whether a trigger with this `tgenabled` fires under this session_replication_role.
pub fn fires(enabled: u8, is_replica: bool) -> bool {
    match enabled {
        b'D' => false,
        b'A' => true,
        b'R' => is_replica,
        _ => !is_replica,
    }
}

/// Each argument ends with a zero byte.
fn split_arguments(bytes: &[u8]) -> Vec<String> {
    let Some(bytes) = bytes.strip_suffix(&[0]) else { return Vec::new() };
    bytes.split(|b| *b == 0).map(|part| String::from_utf8_lossy(part).into_owned()).collect()
}

pub fn join_arguments(arguments: &[&str]) -> Vec<u8> {
    arguments.iter().flat_map(|a| a.bytes().chain([0])).collect()
}

impl CatalogReader<'_> {
    /// The triggers of a relation that users have made, in the order of their names.
    pub(super) fn load_triggers(&self, table: Oid) -> Result<Vec<Arc<Trigger>>> {
        let rows = self.lookup(PG_TRIGGER, PG_TRIGGER_TGRELID_TGNAME_INDEX, &[Datum::Oid(table)])?;
        let mut triggers: Vec<Arc<Trigger>> =
            rows.iter().filter(|row| !is_of_key(row)).map(|row| Arc::new(Trigger::of_row(row))).collect();
        triggers.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(triggers)
    }
}

/// The rows that a statement has changed, as they were and as they are.
#[derive(Default)]
pub struct TransitionRows {
    pub old: Option<RowStore>,
    pub new: Option<RowStore>,
}

/// What a running trigger function can read by the names that its trigger gives. A function that is no trigger's has an
/// empty one, so that it does not see its caller's.
#[derive(Default)]
pub struct TransitionTables {
    pub table: Option<Arc<Table>>,
    pub old_name: Option<String>,
    pub new_name: Option<String>,
    pub rows: TransitionRows,
}
