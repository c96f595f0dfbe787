//! pg_depend: what objects need each other for, and what goes with what.
//!
//! Invariants
//! 1. The rows of an object whose class is one of [`derived_classes`] are those that [`derived::dependencies_of`] finds,
//!    from the end of the command that defines the object on. No command writes them itself: writing a defining row
//!    notes the object, and [`Definitions::settle_dependencies`] brings its rows up to date.
//! 2. Declared rows are the exception: who owns a sequence, what belongs to an extension, and members of operator
//!    families. Commands write them, and they go with the object.
//! 3. An object is deleted only by [`Definitions::delete_objects`], after all that needs it.
//!
//! Must not know: the syntax of commands.

mod check;
mod delete;
pub(super) mod derived;
mod walk;

use super::Definitions;
use crate::client::Runtime;
use derived::{AUTO, EXTENSION, INTERNAL, RowsRead, dependencies_of};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::builtin::{FIRST_USER_OID, PUBLIC};
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::definition_rows::derived_classes;
use kilndb_catalog::ids::*;
use kilndb_catalog::temporary::is_temporary;
use kilndb_types::Datum;
use std::collections::BTreeSet;

/// Objects with smaller OIDs are part of the system for good (PostgreSQL's FirstUnpinnedObjectId).
const FIRST_UNPINNED_OID: Oid = 12000;

/// A row of pg_depend.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct Dependency {
    pub dependent: ObjectAddress,
    pub referenced: ObjectAddress,
    /// pg_depend.deptype.
    pub kind: u8,
}

impl Dependency {
    fn of_row(row: &CatalogRow) -> Dependency {
        let address = |[class, object, column]: [&str; 3]| ObjectAddress {
            class: row.oid(class),
            object: row.oid(object),
            column: row.int(column) as i16,
        };
        Dependency {
            dependent: address(["classid", "objid", "objsubid"]),
            referenced: address(["refclassid", "refobjid", "refobjsubid"]),
            kind: row.char("deptype"),
        }
    }

    const COLUMNS: [&'static str; 7] =
        ["classid", "objid", "objsubid", "refclassid", "refobjid", "refobjsubid", "deptype"];

    /// Values of [`Dependency::COLUMNS`].
    fn values(&self) -> Vec<Datum> {
        vec![
            Datum::Oid(self.dependent.class),
            Datum::Oid(self.dependent.object),
            Datum::Int4(i32::from(self.dependent.column)),
            Datum::Oid(self.referenced.class),
            Datum::Oid(self.referenced.object),
            Datum::Int4(i32::from(self.referenced.column)),
            Datum::Char(self.kind),
        ]
    }

    /// A command has written it; it does not follow from the object's definition. `owner_kind`: the kind of relation
    /// (pg_class.relkind) that the dependent object is, if it is one.
    fn is_declared(&self, relation_kind: u8) -> bool {
        let is_sequence_of_column = relation_kind == b'S'
            && self.referenced.class == PG_CLASS
            && self.referenced.column != 0
            && matches!(self.kind, AUTO | INTERNAL);
        self.kind == EXTENSION || is_sequence_of_column
    }
}

/// Does it belong to the system for good?
pub(super) fn is_pinned(object: ObjectAddress) -> bool {
    // Users choose the OIDs of large objects.
    let is_system = object.object < FIRST_UNPINNED_OID && object.class != PG_LARGEOBJECT;
    is_system && (object.class, object.object) != (PG_NAMESPACE, PUBLIC)
}

/// Are the object's rows kept? Those of what the system has made itself are not, text search objects aside.
fn is_tracked(class: Oid, object: Oid) -> bool {
    let is_text_search = [PG_TS_CONFIG, PG_TS_DICT, PG_TS_PARSER, PG_TS_TEMPLATE].contains(&class);
    object >= if is_text_search { FIRST_UNPINNED_OID } else { FIRST_USER_OID }
}

pub(super) fn temporary_routine() -> Error {
    Error::unsupported("temporary functions in the definition of a permanent object are not supported")
}

/// A permanent object cannot need something temporary, which would go with the session. What commands refuse themselves
/// is not asked about here.
fn refusal_of_temporary(of: ObjectAddress, on: ObjectAddress) -> Option<Error> {
    match (of.class, on.class) {
        (_, PG_PROC) => Some(temporary_routine()),
        (PG_POLICY, _) => {
            Some(Error::unsupported("temporary objects in policies of permanent tables are not supported"))
        }
        _ => None,
    }
}

/// The stored rows of an object that follow from its definition, and those that it should have.
struct Compared {
    stored: Vec<CatalogRow>,
    derived: BTreeSet<Dependency>,
}

impl Compared {
    /// `is_new`: the object was not there when the command began.
    fn of(read: &RowsRead<'_, '_>, class: Oid, object: Oid, is_new: bool) -> Result<Compared> {
        let key = [Datum::Oid(class), Datum::Oid(object)];
        let derived = dependencies_of(read, class, object)?;
        let mut stored = match &derived {
            Some(_) if is_new => Vec::new(),
            _ => read.host.reader.lookup(PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, &key)?,
        };
        let Some(derived) = derived else {
            // Of an object that is gone nothing stays.
            return Ok(Compared { stored, derived: BTreeSet::new() });
        };
        let kind = match class {
            PG_CLASS => read.relation_kind(object)?.unwrap_or(0),
            _ => 0,
        };
        stored.retain(|row| !Dependency::of_row(row).is_declared(kind));
        Ok(Compared { stored, derived })
    }

    fn missing(&self) -> BTreeSet<Dependency> {
        let stored: BTreeSet<Dependency> = self.stored.iter().map(Dependency::of_row).collect();
        self.derived.difference(&stored).copied().collect()
    }

    /// Rows that do not follow from the definition, or that are there twice.
    fn superfluous(&self) -> Vec<CatalogRow> {
        let mut seen = BTreeSet::new();
        let is_superfluous = |row: &&CatalogRow| {
            let dependency = Dependency::of_row(row);
            !self.derived.contains(&dependency) || !seen.insert(dependency)
        };
        self.stored.iter().filter(is_superfluous).cloned().collect()
    }
}

impl Definitions<'_> {
    /// Brings pg_depend up to date for all objects that have been defined, changed or deleted since the last call.
    pub fn settle_dependencies(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let changed = std::mem::take(&mut self.changed);
        let created = std::mem::take(&mut self.created);
        if changed.is_empty() {
            return Ok(());
        }
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        let compared = self.context_mut().with_trusted_catalog(runtime, |host| {
            let read = RowsRead::new(host);
            let tracked = changed.iter().filter(|(class, object)| is_tracked(*class, *object));
            tracked
                .map(|changed @ (class, object)| Compared::of(&read, *class, *object, created.contains(changed)))
                .collect::<Result<Vec<_>>>()
        })?;
        let mut refused = None;
        self.write_catalog(runtime, |w| {
            let mut missing = Vec::new();
            for object in &compared {
                for row in object.superfluous() {
                    w.delete(&row)?;
                }
                for dependency in object.missing() {
                    let (on, of) = (dependency.referenced, dependency.dependent);
                    if refused.is_none() && is_temporary(on.object) && !is_temporary(of.object) {
                        refused = refusal_of_temporary(of, on);
                    }
                    missing.push(dependency.values());
                }
            }
            w.insert_many(PG_DEPEND, &Dependency::COLUMNS, &missing)
        })?;
        // What is temporary would have to go with the session, and the permanent object with it.
        refused.map_or(Ok(()), Err)
    }

    /// A sequence goes with a column: with letter 'i' as an identity's, with 'a' as what OWNED BY names.
    pub(super) fn tie_sequence(
        &mut self,
        sequence: Oid,
        column: ObjectAddress,
        kind: u8,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let dependent = ObjectAddress::object(PG_CLASS, sequence);
        self.declare_dependency(Dependency { dependent, referenced: column, kind }, runtime)
    }

    /// A row of pg_depend that follows from no definition ([`Dependency::is_declared`], and members of operator
    /// families).
    pub(super) fn declare_dependency(&mut self, dependency: Dependency, runtime: &dyn Runtime) -> Result<()> {
        self.write_catalog(runtime, |w| w.insert_many(PG_DEPEND, &Dependency::COLUMNS, &[dependency.values()]))
    }

    /// All objects whose dependencies follow from their definitions.
    fn all_definitions(&mut self) -> Result<Vec<ObjectAddress>> {
        let mut all = Vec::new();
        for class in derived_classes() {
            let rows = self.context_mut().catalog_scan(class)?;
            let tracked = rows.iter().map(|row| row.oid("oid")).filter(|oid| is_tracked(class, *oid));
            all.extend(tracked.map(|oid| ObjectAddress::object(class, oid)));
        }
        Ok(all)
    }

    /// Brings the rows of all objects up to date, in a database of a build that kept fewer. Returns what cannot be bound.
    pub fn settle_all_definitions(&mut self, runtime: &dyn Runtime) -> Result<Vec<String>> {
        let mut problems = Vec::new();
        for object in self.all_definitions()? {
            match self.compare_definition(object, runtime) {
                Ok(_) => {
                    self.changed.insert((object.class, object.object));
                    self.settle_dependencies(runtime)?;
                }
                Err(e) => problems.push(self.unbound(object, &e, runtime)?),
            }
        }
        Ok(problems)
    }

    fn compare_definition(&mut self, object: ObjectAddress, runtime: &dyn Runtime) -> Result<Compared> {
        self.context_mut().with_trusted_catalog(runtime, |host| {
            Compared::of(&RowsRead::new(host), object.class, object.object, false)
        })
    }

    fn unbound(&mut self, object: ObjectAddress, e: &Error, runtime: &dyn Runtime) -> Result<String> {
        let shown = self.object_shown(object, runtime)?;
        Ok(format!("the definition of {shown} cannot be bound: {}", e.message()))
    }
}
