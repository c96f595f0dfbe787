//! What goes when objects go: the walk through pg_depend from the objects that a command names.
//!
//! Invariants
//! 1. An object comes after all that needs it, and only once; of what needs one object, what has the larger OID comes
//!    first (PostgreSQL's order, which its messages show).
//! 2. A part of another object (an index of a constraint, the rule of a view) is never deleted without it: the walk goes
//!    on from the whole.
//! 3. A relation is locked before anybody asks who needs it.
//!
//! Must not know: how an object of a class is deleted.

use super::derived::{AUTO, EXTENSION, INTERNAL, PARTITION_PRIMARY, PARTITION_SECONDARY};
use super::{Dependency, is_pinned};
use crate::Definitions;
use crate::client::Runtime;
use crate::host::describe;
use kilndb_base::hash::HashMap;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, TableKind};
use kilndb_storage::LockMode;
use kilndb_types::Datum;

/// Why an object goes: a set of reasons.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
struct Reasons(u16);

impl Reasons {
    const NONE: Reasons = Reasons(0);
    /// The command names it.
    const NAMED: Reasons = Reasons(1);
    /// Something that goes is needed by it.
    const NEEDS: Reasons = Reasons(2);
    /// It is there only for something that goes.
    const ACCESSORY: Reasons = Reasons(4);
    /// It belongs to a whole that goes: an index to its constraint, a member to its extension, what a partition has to
    /// what the partitioned table has.
    const PART: Reasons = Reasons(8);
    /// The part of a partition, whose whole goes.
    const PARTITION_PART: Reasons = Reasons(16);
    /// A part of it goes, which cannot go alone.
    const WHOLE_OF_PART: Reasons = Reasons(32);
    /// It must not go unless what it is a partition's part of goes.
    const IS_PARTITION_PART: Reasons = Reasons(64);
    /// A column of a relation that goes as a whole.
    const COLUMN_OF_WHOLE: Reasons = Reasons(128);

    fn any(self, of: Reasons) -> bool {
        self.0 & of.0 != 0
    }
    fn add(&mut self, more: Reasons) {
        self.0 |= more.0;
    }
    fn with(mut self, more: Reasons) -> Reasons {
        self.add(more);
        self
    }
    /// Nobody needs to be told.
    fn is_implied(self) -> bool {
        self.any(Reasons(Reasons::ACCESSORY.0 | Reasons::PART.0 | Reasons::PARTITION_PART.0))
    }
}

/// An object that goes.
struct Doomed {
    object: ObjectAddress,
    reasons: Reasons,
    /// What it needs that goes, or what it is a part of.
    needs: Option<ObjectAddress>,
}

/// Objects that go, in the order in which they may be deleted.
#[derive(Default)]
pub(super) struct DeletionPlan {
    doomed: Vec<Doomed>,
    /// By class and OID: where they and their columns are in the list.
    places: HashMap<(Oid, Oid), Vec<usize>>,
}

impl DeletionPlan {
    pub fn objects(&self) -> impl Iterator<Item = ObjectAddress> + '_ {
        self.doomed.iter().map(|d| d.object)
    }

    fn push(&mut self, doomed: Doomed) {
        self.places.entry((doomed.object.class, doomed.object.object)).or_default().push(self.doomed.len());
        self.doomed.push(doomed);
    }

    /// Is the object, or the relation that it is a column of, in the list? The reasons are added to its own.
    fn contains(&mut self, object: ObjectAddress, reasons: Reasons) -> bool {
        let mut is_there = false;
        for place in self.places.get(&(object.class, object.object)).into_iter().flatten() {
            let Some(known) = self.doomed.get_mut(*place) else { continue };
            if known.object.column == object.column {
                known.reasons.add(reasons);
                is_there = true;
            } else if known.object.column == 0 {
                is_there = true;
            } else if object.column == 0 && reasons != Reasons::NONE {
                known.reasons.add(reasons.with(Reasons::COLUMN_OF_WHOLE));
            }
        }
        is_there
    }
}

/// What an object is a part of, by its own rows of pg_depend.
#[derive(Default)]
struct Wholes {
    /// It goes with these only.
    owner: Option<Dependency>,
    /// What it has as a partition's part comes from these.
    partition: Option<Dependency>,
}

/// The walk: what it has found, and the way to where it is.
struct DeletionWalk<'n> {
    /// What the command names.
    named: &'n [ObjectAddress],
    plan: DeletionPlan,
    /// From the object named to the one whose dependents are being looked at.
    path: Vec<(ObjectAddress, Reasons)>,
}

impl DeletionWalk<'_> {
    /// Is the object, or its relation as a whole, on the way here? The reasons are added to its own.
    fn is_on_path(&mut self, object: ObjectAddress, reasons: Reasons) -> bool {
        for (on_path, why) in self.path.iter_mut().rev() {
            if (on_path.class, on_path.object) == (object.class, object.object) {
                if on_path.column == object.column {
                    why.add(reasons);
                    return true;
                }
                if on_path.column == 0 {
                    return true;
                }
            }
        }
        false
    }

    /// Adds an object after all that needs it.
    fn visit(
        &mut self,
        definitions: &mut Definitions<'_>,
        object: ObjectAddress,
        mut reasons: Reasons,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        kilndb_base::stack::check()?;
        runtime.checkpoint()?;
        if self.is_on_path(object, reasons) || self.plan.contains(object, reasons) {
            return Ok(());
        }
        if is_pinned(object) {
            let shown = definitions.object_shown(object, runtime)?;
            let message = format!("cannot drop {shown} because it is required by the database system");
            return Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message));
        }
        let wholes = self.wholes_of(definitions, object)?;
        if wholes.partition.is_some() {
            reasons.add(Reasons::IS_PARTITION_PART);
        }
        if let Some(owner) = wholes.owner {
            if !self.path.is_empty() {
                return self.visit_whole(definitions, object, owner.referenced, reasons, runtime);
            }
            let whole = owner.referenced;
            if self.named.iter().any(|n| *n == whole || *n == ObjectAddress::object(whole.class, whole.object)) {
                // It goes when the command's list comes to that.
                return Ok(());
            }
            let required_by = wholes.partition.map_or(owner.referenced, |p| p.referenced);
            return Err(definitions.required_by(object, required_by, runtime)?);
        }
        let needs = match wholes.partition {
            Some(whole) => Some(whole.referenced),
            None => self.path.last().map(|(object, _)| *object),
        };
        self.path.push((object, reasons));
        for (dependent, why) in definitions.dependents_in_order(object, runtime)? {
            self.visit(definitions, dependent, why, runtime)?;
        }
        let reasons = self.path.pop().map_or(reasons, |(_, reasons)| reasons);
        self.plan.push(Doomed { object, reasons, needs });
        Ok(())
    }

    /// What `object` is a part of, if that is not on the way here already.
    fn wholes_of(&mut self, definitions: &mut Definitions<'_>, object: ObjectAddress) -> Result<Wholes> {
        let key = [Datum::Oid(object.class), Datum::Oid(object.object), Datum::Int4(i32::from(object.column))];
        let key = &key[..if object.column == 0 { 2 } else { 3 }];
        let mut wholes = Wholes::default();
        for row in definitions.context_mut().catalog_lookup(PG_DEPEND, PG_DEPEND_DEPENDER_INDEX, key)? {
            let dependency = Dependency::of_row(&row);
            let whole = dependency.referenced;
            // A relation's column that is a part of the relation.
            if object.column == 0 && (whole.class, whole.object) == (object.class, object.object) {
                continue;
            }
            match dependency.kind {
                INTERNAL | EXTENSION if !self.path.is_empty() && self.is_on_path(whole, Reasons::NONE) => {}
                INTERNAL if wholes.owner.is_none() => wholes.owner = Some(dependency),
                EXTENSION => wholes.owner = Some(dependency),
                PARTITION_PRIMARY => wholes.partition = Some(dependency),
                PARTITION_SECONDARY if wholes.partition.is_none() => wholes.partition = Some(dependency),
                _ => {}
            }
        }
        Ok(wholes)
    }

    /// A part cannot go alone: goes on from the whole, as if that had been come to in the part's place.
    fn visit_whole(
        &mut self,
        definitions: &mut Definitions<'_>,
        part: ObjectAddress,
        whole: ObjectAddress,
        reasons: Reasons,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if definitions.lock_to_delete(whole, runtime)? {
            self.visit(definitions, whole, Reasons::WHOLE_OF_PART, runtime)?;
            if !self.plan.contains(part, reasons) && !self.is_on_path(part, reasons) {
                return Err(Error::internal(format!("{part:?} does not go with {whole:?}, whose part it is")));
            }
        }
        Ok(())
    }
}

/// As many dependents as a message lists.
const REPORTED_MAX: usize = 100;

impl Definitions<'_> {
    /// The objects that go with those that a command names; without `cascade` an error (2BP01) if that is more than
    /// follows of itself.
    pub(super) fn plan_deletion(
        &mut self,
        named: &[ObjectAddress],
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<DeletionPlan> {
        let mut walk = DeletionWalk { named, plan: DeletionPlan::default(), path: Vec::new() };
        for object in named {
            walk.visit(self, *object, Reasons::NAMED, runtime)?;
        }
        self.report_deletion(&walk.plan, named, cascade, runtime)?;
        Ok(walk.plan)
    }

    fn report_deletion(
        &mut self,
        plan: &DeletionPlan,
        named: &[ObjectAddress],
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for part in &plan.doomed {
            if let Some(whole) = part.needs
                && part.reasons.any(Reasons::IS_PARTITION_PART)
                && !part.reasons.any(Reasons::PARTITION_PART)
            {
                return Err(self.required_by(part.object, whole, runtime)?);
            }
        }
        let quiet = Reasons(Reasons::NAMED.0 | Reasons::COLUMN_OF_WHOLE.0);
        let told: Vec<&Doomed> =
            plan.doomed.iter().rev().filter(|d| !d.reasons.any(quiet) && !d.reasons.is_implied()).collect();
        if told.is_empty() {
            return Ok(());
        }
        let mut lines = Vec::new();
        for doomed in told.iter().take(REPORTED_MAX) {
            let shown = self.object_shown(doomed.object, runtime)?;
            lines.push(match doomed.needs.filter(|_| !cascade) {
                Some(needs) => format!("{shown} depends on {}", self.object_shown(needs, runtime)?),
                None => format!("drop cascades to {shown}"),
            });
        }
        if let Some(more) = told.len().checked_sub(REPORTED_MAX).filter(|more| *more > 0) {
            let objects = if more == 1 { "object" } else { "objects" };
            lines.push(format!("and {more} other {objects} (see server log for list)"));
        }
        if cascade {
            self.tell_cascade(told.len(), &lines);
            return Ok(());
        }
        let message = match named {
            [only] => format!("cannot drop {} because other objects depend on it", self.object_shown(*only, runtime)?),
            _ => "cannot drop desired object(s) because other objects depend on them".to_string(),
        };
        Err(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_detail(lines.join("\n"))
            .with_hint("Use DROP ... CASCADE to drop the dependent objects too."))
    }

    fn tell_cascade(&mut self, count: usize, lines: &[String]) {
        if let [only] = lines {
            return self.context().notice(Severity::Notice, only.clone());
        }
        let notice = Error::notice(
            sqlstate::SUCCESSFUL_COMPLETION,
            Severity::Notice,
            format!("drop cascades to {count} other objects"),
        );
        self.context().shared.scratch.notices.borrow_mut().push(notice.with_detail(lines.join("\n")));
    }

    fn required_by(&mut self, part: ObjectAddress, whole: ObjectAddress, runtime: &dyn Runtime) -> Result<Error> {
        let (part, whole) = (self.object_shown(part, runtime)?, self.object_shown(whole, runtime)?);
        let message = format!("cannot drop {part} because {whole} requires it");
        Ok(Error::new(sqlstate::DEPENDENT_OBJECTS_STILL_EXIST, message)
            .with_hint(format!("You can drop {whole} instead.")))
    }

    /// An object as messages call it.
    pub(crate) fn object_shown(&mut self, object: ObjectAddress, runtime: &dyn Runtime) -> Result<String> {
        let shown = self
            .context_mut()
            .with_catalog(runtime, |host| describe::shown(host, object.class, object.object, object.column))?;
        Ok(shown.unwrap_or_else(|| format!("object {} of catalog {}", object.object, object.class)))
    }

    /// Who needs an object, each once, in the order in which they are gone on with. Relations among them are locked.
    fn dependents_in_order(
        &mut self,
        object: ObjectAddress,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(ObjectAddress, Reasons)>> {
        let mut dependents: Vec<(ObjectAddress, Reasons)> = Vec::new();
        for row in self.dependents(object.class, object.object, i32::from(object.column))? {
            let Dependency { dependent, kind, .. } = Dependency::of_row(&row);
            // A relation's column that is a part of the relation.
            if object.column == 0 && (dependent.class, dependent.object) == (object.class, object.object) {
                continue;
            }
            let why = match kind {
                AUTO => Reasons::ACCESSORY,
                INTERNAL | EXTENSION => Reasons::PART,
                PARTITION_PRIMARY | PARTITION_SECONDARY => Reasons::PARTITION_PART,
                _ => Reasons::NEEDS,
            };
            dependents.push((dependent, why));
        }
        dependents.sort_by_key(|(d, why)| (std::cmp::Reverse(d.object), d.class, d.column, why.0));
        let mut found = Vec::with_capacity(dependents.len());
        for (dependent, why) in dependents {
            if self.lock_to_delete(dependent, runtime)? {
                found.push((dependent, why));
            }
        }
        Ok(found)
    }

    /// Locks an object that is about to go; false: somebody else has deleted it meanwhile. Only relations have locks.
    fn lock_to_delete(&mut self, object: ObjectAddress, runtime: &dyn Runtime) -> Result<bool> {
        if object.class != PG_CLASS {
            return Ok(true);
        }
        let Some(table) = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(object.object))?
        else {
            return Ok(false);
        };
        // An index is locked by its table.
        if table.kind == TableKind::Index {
            return Ok(true);
        }
        match self.lock_for_ddl(&table, LockMode::AccessExclusive, runtime) {
            Ok(_) => Ok(true),
            Err(e) if e.sqlstate() == sqlstate::UNDEFINED_TABLE => Ok(false),
            Err(e) => Err(e),
        }
    }
}
