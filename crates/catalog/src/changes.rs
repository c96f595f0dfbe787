//! What DDL has changed, so that caches and plans that do not depend on it stay as they are.
//!
//! Invariants
//! 1. What is not understood here counts as everything.
//! 2. A row's old and new form are both noted.

use super::builtin::FIRST_USER_OID;
use super::ids::*;
use super::model::Table;
use super::row_security::PlanRole;
use super::store::shape;
use kilndb_base::Oid;
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_types::Datum;
use kilndb_types::row::encode_row;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub struct Changes {
    pub everything: bool,
    /// Relations and types.
    pub objects: HashSet<Oid>,
    /// Relations of which nothing but statistics has changed.
    pub statistics: HashSet<Oid>,
    /// Indexes whose own rows have changed: the tables they are of have, too.
    pub indexes: HashSet<Oid>,
    /// Names that something has or had, with the schema.
    pub names: HashSet<(Oid, String)>,
    /// Tables whose set of partitions has changed.
    pub maps: HashSet<Oid>,
    pub foreign_keys: bool,
    /// Roles, their memberships, or who owns a database.
    pub roles: bool,
}

impl Default for Changes {
    fn default() -> Changes {
        let (objects, indexes, names, maps) = (HashSet::new(), HashSet::new(), HashSet::new(), HashSet::new());
        let (everything, statistics) = (false, HashSet::new());
        Changes { everything, objects, statistics, indexes, names, maps, foreign_keys: false, roles: false }
    }
}

impl Changes {
    /// A row of a system table was written. `is_new`: it was not there before.
    pub fn note(&mut self, table: Oid, row: &[Datum], is_new: bool) {
        let Ok(shape) = shape(table) else {
            self.everything = true;
            return;
        };
        let value = |name: &str| shape.table.column(name).and_then(|i| row.get(i));
        let oid = |name: &str| if let Some(Datum::Oid(oid)) = value(name) { *oid } else { 0 };
        let letter = |name: &str| if let Some(Datum::Char(c)) = value(name) { *c } else { 0 };
        let text = |name: &str| if let Some(Datum::Text(s)) = value(name) { s.to_string() } else { String::new() };
        match table {
            PG_CLASS => {
                self.objects.insert(oid("oid"));
                self.names.insert((oid("relnamespace"), text("relname")));
                // Plans do not say which of the system's relations they use.
                self.everything |= !is_new && oid("oid") < FIRST_USER_OID;
                if !is_new && matches!(letter("relkind"), b'i' | b'I') {
                    self.indexes.insert(oid("oid"));
                }
            }
            PG_TYPE => {
                self.objects.insert(oid("oid"));
                self.names.insert((oid("typnamespace"), text("typname")));
                // What is made of other types may be stored anywhere.
                self.everything |= !is_new && letter("typtype") != b'c' && letter("typcategory") != b'A';
            }
            PG_ATTRIBUTE => self.note_one(oid("attrelid")),
            PG_ATTRDEF => self.note_one(oid("adrelid")),
            PG_REWRITE => self.note_one(oid("ev_class")),
            PG_POLICY => self.note_one(oid("polrelid")),
            PG_SEQUENCE => self.note_one(oid("seqrelid")),
            PG_TRIGGER => {
                self.note_one(oid("tgrelid"));
                self.foreign_keys |= super::trigger::is_key_function(oid("tgfoid"));
            }
            PG_INDEX => {
                self.objects.insert(oid("indexrelid"));
                self.objects.insert(oid("indrelid"));
            }
            PG_CONSTRAINT => {
                self.objects.insert(oid("conrelid"));
                self.objects.insert(oid("confrelid"));
                self.foreign_keys |= letter("contype") == b'f';
                // What is made of a domain may be anywhere.
                self.everything |= oid("contypid") != 0;
            }
            PG_INHERITS => {
                self.objects.insert(oid("inhrelid"));
                self.indexes.insert(oid("inhrelid"));
                self.maps.insert(oid("inhparent"));
            }
            PG_PARTITIONED_TABLE => {
                self.objects.insert(oid("partrelid"));
                self.maps.insert(oid("partrelid"));
            }
            PG_DEPEND => {
                self.objects.insert(oid("objid"));
                // A column's sequence.
                if matches!(letter("deptype"), b'i' | b'a') && !matches!(value("refobjsubid"), Some(Datum::Int4(0))) {
                    self.objects.insert(oid("refobjid"));
                }
            }
            PG_STATISTIC_EXT => self.note_one(oid("stxrelid")),
            PG_AUTHID | PG_AUTH_MEMBERS | PG_DATABASE => self.roles = true,
            // Nobody keeps what is read of them. What ANALYZE writes comes with a new row of pg_class.
            PG_DESCRIPTION
            | PG_STATISTIC
            | PG_STATISTIC_EXT_DATA
            | PG_SHDEPEND
            | PG_SHDESCRIPTION
            | PG_DEFAULT_ACL
            | PG_INIT_PRIVS
            | PG_DB_ROLE_SETTING
            | PG_PARAMETER_ACL
            | PG_LARGEOBJECT
            | PG_LARGEOBJECT_METADATA => {}
            _ => self.everything = true,
        }
    }

    /// A row of a system table was replaced.
    pub fn note_update(&mut self, table: Oid, old: &[Datum], new: &[Datum]) {
        if table == PG_CLASS && differs_in_sizes_alone(old, new) {
            if let Some(Datum::Oid(oid)) = old.first() {
                self.statistics.insert(*oid);
            }
            return;
        }
        self.note(table, old, false);
        self.note(table, new, false);
    }

    fn note_one(&mut self, oid: Oid) {
        self.objects.insert(oid);
    }

    pub fn add(&mut self, other: &Changes) {
        self.everything |= other.everything;
        self.roles |= other.roles;
        self.foreign_keys |= other.foreign_keys;
        self.objects.extend(&other.objects);
        self.statistics.extend(&other.statistics);
        self.indexes.extend(&other.indexes);
        self.maps.extend(&other.maps);
        self.names.extend(other.names.iter().cloned());
    }

    /// Whether ANALYZE is all that has written.
    pub fn is_of_statistics(&self) -> bool {
        let others = [&self.objects, &self.indexes, &self.maps];
        let defines = self.everything || self.roles || self.foreign_keys || !self.names.is_empty();
        !defines && !self.statistics.is_empty() && others.iter().all(|set| set.is_empty())
    }

    /// Whether the changes matter to what uses these objects, which are in order, and these names to find them.
    pub fn concerns(&self, objects: &[Oid], names: &[String]) -> bool {
        self.redefines(objects, names) || has_any(&self.statistics, objects)
    }

    /// The same, but for what ANALYZE writes.
    pub fn redefines(&self, objects: &[Oid], names: &[String]) -> bool {
        self.everything
            || has_any(&self.objects, objects)
            || has_any(&self.indexes, objects)
            || self.names.iter().any(|(_, changed)| names.iter().any(|n| n == changed))
    }
}

/// Whether one of these objects, which are in order, is in a set. A plan of a partitioned table has thousands of them,
/// and ANALYZE changes one.
fn has_any(set: &HashSet<Oid>, objects: &[Oid]) -> bool {
    if set.len() < objects.len() {
        set.iter().any(|o| objects.binary_search(o).is_ok())
    } else {
        objects.iter().any(|o| set.contains(o))
    }
}

/// Whether two rows of pg_class differ in how large the relation was found to be, if in anything.
fn differs_in_sizes_alone(old: &[Datum], new: &[Datum]) -> bool {
    let Ok(shape) = shape(PG_CLASS) else { return false };
    let without_sizes = |row: &[Datum]| {
        let mut row = row.to_vec();
        for (name, zero) in
            [("relpages", Datum::Int4(0)), ("reltuples", Datum::Float4(0.0)), ("relallvisible", Datum::Int4(0))]
        {
            if let Some(value) = shape.table.column(name).and_then(|at| row.get_mut(at)) {
                *value = zero;
            }
        }
        let mut bytes = Vec::new();
        encode_row(&shape.descriptor, &row, &mut bytes).ok().map(|()| bytes)
    };
    without_sizes(old).is_some_and(|old| without_sizes(new).is_some_and(|new| old == new))
}

/// The latest changes, by the version of the catalogs that they led to.
#[derive(Default)]
pub struct ChangeLog(Mutex<VecDeque<(u64, Arc<Changes>)>>);

/// Whoever has not looked for longer starts anew.
const CHANGES_KEPT: usize = 4096;

impl ChangeLog {
    pub fn push(&self, version: u64, changes: Arc<Changes>) {
        let mut list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if list.len() >= CHANGES_KEPT {
            list.pop_front();
        }
        list.push_back((version, changes));
    }
    /// All that led from one version to another; None: no longer known.
    pub fn between(&self, from: u64, to: u64) -> Option<Vec<Arc<Changes>>> {
        if from == to {
            return Some(Vec::new());
        }
        let list = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = list.front()?.0;
        // Each version follows the one before it.
        let at = |version: u64| usize::try_from((version + 1).checked_sub(first)?).ok().filter(|i| *i <= list.len());
        Some(list.range(at(from)?..at(to)?).map(|(_, changes)| changes.clone()).collect())
    }
}

/// What a plan depends on besides the shared catalogs.
#[derive(Default)]
pub struct PlanDependencies {
    /// Names that were looked up without a schema: a temporary object of such a name would be found instead.
    pub names: RefCell<Vec<String>>,
    /// Something temporary was found.
    pub is_private: Cell<bool>,
    /// Relations and types that were looked up.
    pub objects: RefCell<HashSet<Oid>>,
    /// Schemas that were named.
    pub schemas: RefCell<HashSet<Oid>>,
    /// What is read is a definition's text, whose schemas need not be the statement's user's to use.
    pub is_trusting: Cell<bool>,
    /// The tables among them as they were, if they are to be kept.
    pub tables: RefCell<Option<Vec<Arc<Table>>>>,
    /// A literal means what it does at this moment: it was read by the transaction's clock, such as 'now', or names a
    /// role.
    pub reads_moment: Cell<bool>,
    /// For whom the plan is, if policies make it another one for others.
    pub role: Cell<Option<PlanRole>>,
}

impl PlanDependencies {
    /// The objects in order, which are the plan's from now on.
    pub fn take_objects(&self) -> Vec<Oid> {
        let mut objects: Vec<Oid> = self.objects.take().into_iter().collect();
        objects.sort_unstable();
        objects
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_between_versions_are_those_in_between() {
        let log = ChangeLog::default();
        let oids = |from, to| -> Option<Vec<Oid>> {
            let found = log.between(from, to)?;
            Some(found.iter().flat_map(|c| c.objects.iter().copied()).collect())
        };
        assert_eq!(oids(1, 1), Some(vec![]));
        assert_eq!(oids(1, 2), None);
        for version in 2..=4 + CHANGES_KEPT as u64 {
            log.push(
                version,
                Arc::new(Changes { objects: HashSet::from_iter([version as Oid]), ..Changes::default() }),
            );
        }
        let last = 4 + CHANGES_KEPT as u64;
        assert_eq!(oids(last - 2, last), Some(vec![last as Oid - 1, last as Oid]));
        assert_eq!(oids(last, last), Some(vec![]));
        assert_eq!(oids(4, 6), Some(vec![5, 6]));
        // The changes to these have been forgotten.
        assert_eq!(oids(3, 6), None);
        assert_eq!(oids(last, last + 1), None);
    }

    #[test]
    fn a_policy_and_its_switch_redefine_the_table() {
        let row_of = |table: Oid, values: &[(&str, Datum)]| {
            let shape = shape(table).expect("a system table");
            let mut row = vec![Datum::Null; shape.table.columns.len()];
            for (name, value) in values {
                row[shape.table.column(name).expect("a column")] = value.clone();
            }
            row
        };
        let mut changes = Changes::default();
        changes.note(PG_POLICY, &row_of(PG_POLICY, &[("oid", Datum::Oid(8)), ("polrelid", Datum::Oid(7))]), true);
        assert!(changes.redefines(&[7], &[]) && !changes.redefines(&[8, 9], &[]));
        let class = |is_on| row_of(PG_CLASS, &[("oid", Datum::Oid(20000)), ("relrowsecurity", Datum::Bool(is_on))]);
        let mut changes = Changes::default();
        changes.note_update(PG_CLASS, &class(false), &class(true));
        assert!(changes.redefines(&[20000], &[]) && !changes.everything);
    }

    #[test]
    fn statistics_alone_define_nothing() {
        let of_statistics = Changes { statistics: HashSet::from_iter([7]), ..Changes::default() };
        assert!(of_statistics.is_of_statistics());
        assert!(of_statistics.concerns(&[5, 7, 9], &[]) && !of_statistics.concerns(&[5, 9], &[]));
        assert!(!of_statistics.redefines(&[7], &[]));
        let mut more = of_statistics.clone();
        more.objects.insert(8);
        assert!(!more.is_of_statistics() && more.redefines(&[5, 8, 9], &[]));
        assert!(!Changes::default().is_of_statistics());
    }
}
