//! Counters of what sessions have done to relations and databases, for the statistics views.
//!
//! Invariants
//! 1. A session counts for itself ([`Usage`]): scans add once for each batch of rows, writes once for each statement.
//!    What a transaction has counted goes into the part of its own worker ([`Statistics`]) when it ends, so no two
//!    threads write to the same cache line.
//! 2. A reader of the statistics adds up the workers' parts.
//! 3. Counters begin with the cluster's first start, with one after a crash, or with their reset: an orderly stop keeps
//!    them in a file ([`StoredStatistics`]).
//!
//! Must not know: plans, pages, how the figures are shown.

mod stored;

use kilndb_base::Oid;
use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::sync::{Mutex, MutexGuard};
use kilndb_catalog::temporary::is_temporary;
pub use stored::StoredStatistics;

/// The counters of one transaction for one relation (for an index: scans, entries read, rows fetched).
#[derive(Clone, Copy, Default, Debug)]
pub struct RelationUsage {
    pub scans: u64,
    pub read: u64,
    pub fetched: u64,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    /// For an index: the rows for which something was written to it.
    pub entries: u64,
    /// Rows changed in any way, if the transaction commits.
    pub modified: i64,
    /// Rows more than before, if the transaction commits.
    pub live: i64,
    /// The relation was emptied: all earlier rows are gone if the transaction commits.
    pub emptied: bool,
}

/// The counters of a session's open transaction.
#[derive(Default)]
pub struct Usage {
    relations: Vec<(Oid, RelationUsage)>,
    dropped: Vec<Oid>,
    /// How long the session has existed, run statements, and been idle within a transaction block.
    pub session_us: u64,
    pub active_us: u64,
    pub idle_in_transaction_us: u64,
}

/// The counters that a rollback to a savepoint goes back to: rows added (or emptied) and rows changed, by relation.
pub type UsageMark = Vec<(Oid, i64, bool, i64)>;

impl Usage {
    fn of(&mut self, relation: Oid) -> Option<&mut RelationUsage> {
        if is_temporary(relation) {
            return None;
        }
        let at = match self.relations.iter().position(|(oid, _)| *oid == relation) {
            Some(at) => at,
            None => {
                self.relations.push((relation, RelationUsage::default()));
                self.relations.len() - 1
            }
        };
        self.relations.get_mut(at).map(|(_, usage)| usage)
    }
    /// Adds what a helper has read to the session's own scans.
    pub(crate) fn read_by_helpers(&mut self, theirs: &Usage) {
        for (relation, usage) in &theirs.relations {
            self.scanned(*relation, 0, usage.read, usage.fetched);
        }
    }
    pub fn scanned(&mut self, relation: Oid, scans: u64, read: u64, fetched: u64) {
        if let Some(usage) = self.of(relation) {
            usage.scans += scans;
            usage.read += read;
            usage.fetched += fetched;
        }
    }
    pub fn changed(&mut self, relation: Oid, inserted: u64, updated: u64, deleted: u64) {
        if inserted + updated + deleted == 0 {
            return;
        }
        if let Some(usage) = self.of(relation) {
            usage.inserted += inserted;
            usage.updated += updated;
            usage.deleted += deleted;
            usage.live += inserted as i64 - deleted as i64;
            usage.modified += (inserted + updated + deleted) as i64;
        }
    }
    pub(crate) fn wrote_index(&mut self, index: Oid, rows: u64) {
        if let Some(usage) = self.of(index) {
            usage.entries += rows;
        }
    }
    pub fn emptied(&mut self, relation: Oid) {
        if let Some(usage) = self.of(relation) {
            usage.live = 0;
            usage.modified = 0;
            usage.emptied = true;
        }
    }
    /// Leaves what was done to relations uncounted (track_counts = off).
    pub fn forget_relations(&mut self) {
        self.relations.clear();
    }
    pub fn dropped(&mut self, relation: Oid) {
        self.dropped.push(relation);
    }
    pub fn mark(&self) -> UsageMark {
        self.relations.iter().map(|(oid, usage)| (*oid, usage.live, usage.emptied, usage.modified)).collect()
    }
    pub fn rollback_to(&mut self, mark: &UsageMark) {
        for (oid, usage) in &mut self.relations {
            let before = mark.iter().find(|m| m.0 == *oid);
            (usage.live, usage.emptied, usage.modified) = before.map_or((0, false, 0), |m| (m.1, m.2, m.3));
        }
    }
}

/// The totals of a relation.
#[derive(Clone, Copy, Default, Debug)]
pub struct RelationTotals {
    pub usage: RelationUsage,
    pub modified_since_analyze: i64,
    pub inserted_since_vacuum: i64,
    /// Microseconds since 2000, of the transaction that scanned last; 0: never.
    pub last_scan: i64,
    pub last_vacuum: i64,
    pub last_analyze: i64,
    pub last_autoanalyze: i64,
    pub vacuums: u64,
    pub analyzes: u64,
    pub autoanalyzes: u64,
    pub vacuum_ms: f64,
    pub analyze_ms: f64,
    pub autoanalyze_ms: f64,
}

#[derive(Clone, Copy, Default, Debug)]
pub struct DatabaseTotals {
    pub commits: u64,
    pub rollbacks: u64,
    pub returned: u64,
    pub fetched: u64,
    pub inserted: u64,
    pub updated: u64,
    pub deleted: u64,
    pub deadlocks: u64,
    pub sessions: u64,
    pub session_us: u64,
    pub active_us: u64,
    pub idle_in_transaction_us: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Maintenance {
    Vacuum,
    Analyze,
    /// ANALYZE that nobody has asked for.
    AutoAnalyze,
}

#[derive(Default)]
struct StatisticsShard {
    databases: HashMap<Oid, DatabaseTotals>,
    /// The totals without entries that are still in the log: [`StatisticsShard::settle`] adds these before anything is
    /// looked up.
    relations: RelationTotalsTable,
    log: Vec<UsageEntry>,
}

/// The counters of one transaction for one relation, waiting to be added to the totals. Totals of many relations are in
/// no cache: if many are added at a time, the processor fetches several at once.
struct UsageEntry {
    relation: (Oid, Oid),
    usage: SmallUsage,
    committed: bool,
    now: i64,
}

/// [`RelationUsage`] of a transaction that has not done much.
struct SmallUsage {
    scans: u32,
    read: u32,
    fetched: u32,
    inserted: u32,
    updated: u32,
    deleted: u32,
    entries: u32,
    modified: i32,
    live: i32,
}

impl SmallUsage {
    /// None: the counters do not fit.
    fn of(usage: &RelationUsage) -> Option<SmallUsage> {
        let small = |n: u64| u32::try_from(n).ok();
        Some(SmallUsage {
            scans: small(usage.scans)?,
            read: small(usage.read)?,
            fetched: small(usage.fetched)?,
            inserted: small(usage.inserted)?,
            updated: small(usage.updated)?,
            deleted: small(usage.deleted)?,
            entries: small(usage.entries)?,
            modified: i32::try_from(usage.modified).ok()?,
            live: i32::try_from(usage.live).ok()?,
        })
    }
    fn whole(&self) -> RelationUsage {
        RelationUsage {
            scans: self.scans.into(),
            read: self.read.into(),
            fetched: self.fetched.into(),
            inserted: self.inserted.into(),
            updated: self.updated.into(),
            deleted: self.deleted.into(),
            entries: self.entries.into(),
            modified: self.modified.into(),
            live: self.live.into(),
            emptied: false,
        }
    }
}

const LOG_ENTRIES_MAX: usize = 64;

impl StatisticsShard {
    fn add(&mut self, relation: (Oid, Oid), usage: &RelationUsage, committed: bool, now: i64) {
        match SmallUsage::of(usage).filter(|_| !usage.emptied) {
            Some(usage) => self.log.push(UsageEntry { relation, usage, committed, now }),
            None => self.relations.of(relation).add(usage, committed, now),
        }
        if self.log.len() >= LOG_ENTRIES_MAX {
            self.settle();
        }
    }
    fn settle(&mut self) {
        let mut places = [0; LOG_ENTRIES_MAX];
        for (place, e) in places.iter_mut().zip(&self.log) {
            *place = self.relations.place(e.relation);
            let totals = std::ptr::from_ref(&self.relations.totals[*place]) as usize;
            kilndb_storage::ahead::fetch_range(totals, size_of::<RelationTotals>());
        }
        for (place, e) in places.into_iter().zip(self.log.drain(..)) {
            self.relations.totals[place].add(&e.usage.whole(), e.committed, e.now);
        }
    }
}

/// Places are found without looking at the totals, so that many of these can be fetched at once.
#[derive(Default)]
struct RelationTotalsTable {
    places: HashMap<(Oid, Oid), u32>,
    totals: Vec<RelationTotals>,
    /// The places that are free.
    free: Vec<usize>,
}

impl RelationTotalsTable {
    fn place(&mut self, relation: (Oid, Oid)) -> usize {
        if let Some(place) = self.places.get(&relation) {
            return *place as usize;
        }
        let place = self.free.pop().unwrap_or_else(|| {
            self.totals.push(RelationTotals::default());
            self.totals.len() - 1
        });
        self.places.insert(relation, place as u32);
        place
    }
    fn of(&mut self, relation: (Oid, Oid)) -> &mut RelationTotals {
        let place = self.place(relation);
        &mut self.totals[place]
    }
    fn get(&self, relation: &(Oid, Oid)) -> Option<&RelationTotals> {
        self.places.get(relation).map(|place| &self.totals[*place as usize])
    }
    fn get_mut(&mut self, relation: &(Oid, Oid)) -> Option<&mut RelationTotals> {
        self.places.get(relation).map(|place| &mut self.totals[*place as usize])
    }
    fn remove(&mut self, relation: &(Oid, Oid)) {
        if let Some(place) = self.places.remove(relation) {
            self.totals[place as usize] = RelationTotals::default();
            self.free.push(place as usize);
        }
    }
    fn retain(&mut self, keep: impl Fn(&(Oid, Oid)) -> bool) {
        let gone: Vec<(Oid, Oid)> = self.places.keys().filter(|relation| !keep(relation)).copied().collect();
        gone.iter().for_each(|relation| self.remove(relation));
    }
}

/// A worker's shard, in cache lines of its own so that workers do not share any.
#[repr(align(128))]
#[derive(Default)]
struct WorkerShard(Mutex<StatisticsShard>);

pub struct Statistics {
    parts: Vec<WorkerShard>,
    /// When a database was reset last, microseconds since 2000.
    resets: Mutex<HashMap<Oid, i64>>,
}

impl Statistics {
    pub fn new(workers: usize) -> Statistics {
        Statistics {
            parts: (0..workers.max(1)).map(|_| WorkerShard::default()).collect(),
            resets: Mutex::new(HashMap::new()),
        }
    }
    fn part(&self, worker: usize) -> MutexGuard<'_, StatisticsShard> {
        self.parts[worker % self.parts.len()].0.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn each(&self, mut f: impl FnMut(&mut StatisticsShard)) {
        for worker in 0..self.parts.len() {
            let mut part = self.part(worker);
            part.settle();
            f(&mut part);
        }
    }

    pub fn database_of(&self, worker: usize, database: Oid, change: impl FnOnce(&mut DatabaseTotals)) {
        change(self.part(worker).databases.entry(database).or_default());
    }

    /// The transaction has ended: what it counted becomes known.
    pub fn transaction_ended(&self, worker: usize, database: Oid, usage: &mut Usage, committed: bool, now: i64) {
        let emptied: Vec<Oid> =
            usage.relations.iter().filter(|(_, u)| committed && u.emptied).map(|(oid, _)| *oid).collect();
        if !emptied.is_empty() {
            self.each(|part| {
                for oid in &emptied {
                    if let Some(totals) = part.relations.get_mut(&(database, *oid)) {
                        totals.usage.live = 0;
                    }
                }
            });
        }
        let mut part = self.part(worker);
        for (oid, usage) in &usage.relations {
            part.add((database, *oid), usage, committed, now);
        }
        let totals = part.databases.entry(database).or_default();
        *if committed { &mut totals.commits } else { &mut totals.rollbacks } += 1;
        totals.add_times(usage);
        for (_, usage) in usage.relations.drain(..) {
            totals.returned += usage.read;
            totals.fetched += usage.fetched;
            totals.inserted += usage.inserted;
            totals.updated += usage.updated;
            totals.deleted += usage.deleted;
        }
        drop(part);
        if !usage.dropped.is_empty() {
            let dropped = std::mem::take(&mut usage.dropped);
            if committed {
                self.each(|part| part.relations.retain(|(d, oid)| *d != database || !dropped.contains(oid)));
            }
        }
    }

    /// Adds what a session has counted outside of its transactions, when it ends.
    pub fn session_ended(&self, worker: usize, database: Oid, usage: &mut Usage) {
        self.database_of(worker, database, |totals| totals.add_times(usage));
    }

    /// VACUUM or ANALYZE of a relation has ended; `rows` is what ANALYZE thinks there is.
    pub fn maintained(
        &self,
        database: Oid,
        relation: Oid,
        what: Maintenance,
        now: i64,
        took_ms: f64,
        rows: Option<i64>,
    ) {
        self.each(|part| {
            let Some(totals) = part.relations.get_mut(&(database, relation)) else { return };
            match what {
                Maintenance::Vacuum => totals.inserted_since_vacuum = 0,
                Maintenance::Analyze | Maintenance::AutoAnalyze => totals.modified_since_analyze = 0,
            }
            if rows.is_some() {
                totals.usage.live = 0;
            }
        });
        let mut part = self.part(0);
        part.settle();
        let totals = part.relations.of((database, relation));
        totals.usage.live += rows.unwrap_or(0);
        let (last, count, ms) = match what {
            Maintenance::Vacuum => (&mut totals.last_vacuum, &mut totals.vacuums, &mut totals.vacuum_ms),
            Maintenance::Analyze => (&mut totals.last_analyze, &mut totals.analyzes, &mut totals.analyze_ms),
            Maintenance::AutoAnalyze => {
                (&mut totals.last_autoanalyze, &mut totals.autoanalyzes, &mut totals.autoanalyze_ms)
            }
        };
        *last = now;
        *count += 1;
        *ms += took_ms;
    }

    /// The relations of a database that were changed since their last ANALYZE.
    pub fn changed_relations(&self, database: Oid) -> Vec<Oid> {
        let mut changed: HashMap<Oid, i64> = HashMap::new();
        self.each(|part| {
            for ((_, relation), place) in part.relations.places.iter().filter(|((d, _), _)| *d == database) {
                let modified = part.relations.totals[*place as usize].modified_since_analyze;
                if modified != 0 {
                    *changed.entry(*relation).or_default() += modified;
                }
            }
        });
        let mut changed: Vec<Oid> = changed.into_iter().filter(|(_, n)| *n > 0).map(|(oid, _)| oid).collect();
        changed.sort_unstable();
        changed
    }
    pub fn relation(&self, database: Oid, relation: Oid) -> RelationTotals {
        let mut sum = RelationTotals::default();
        self.each(|part| part.relations.get(&(database, relation)).into_iter().for_each(|t| sum.merge(t)));
        sum
    }
    pub fn database(&self, database: Oid) -> DatabaseTotals {
        let mut sum = DatabaseTotals::default();
        self.each(|part| part.databases.get(&database).into_iter().for_each(|t| sum.merge(t)));
        sum
    }
    /// When the statistics of a database were last reset as a whole; None: never.
    pub fn reset_time(&self, database: Oid) -> Option<i64> {
        self.resets.lock().unwrap_or_else(|e| e.into_inner()).get(&database).copied()
    }
    pub fn reset_database(&self, database: Oid, now: i64) {
        self.forget_database(database);
        self.resets.lock().unwrap_or_else(|e| e.into_inner()).insert(database, now);
    }
    pub fn reset_relation(&self, database: Oid, relation: Oid, now: i64) {
        self.each(|part| part.relations.retain(|key| *key != (database, relation)));
        self.resets.lock().unwrap_or_else(|e| e.into_inner()).insert(database, now);
    }
    /// Forgets a database that was dropped.
    pub fn forget_database(&self, database: Oid) {
        self.each(|part| {
            part.databases.remove(&database);
            part.relations.retain(|key| key.0 != database);
        });
        self.resets.lock().unwrap_or_else(|e| e.into_inner()).remove(&database);
    }
}

impl RelationUsage {
    /// Adds what counts whether the transaction commits or not.
    fn count(&mut self, other: &RelationUsage) {
        self.scans += other.scans;
        self.read += other.read;
        self.fetched += other.fetched;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.entries += other.entries;
    }
}

impl RelationTotals {
    fn add(&mut self, usage: &RelationUsage, committed: bool, now: i64) {
        let total = &mut self.usage;
        total.count(usage);
        if committed {
            total.live += usage.live;
            self.modified_since_analyze += usage.modified;
        }
        self.inserted_since_vacuum += usage.inserted as i64;
        if usage.scans > 0 {
            self.last_scan = now;
        }
    }
    fn merge(&mut self, other: &RelationTotals) {
        let total = &mut self.usage;
        total.count(&other.usage);
        total.live += other.usage.live;
        self.modified_since_analyze += other.modified_since_analyze;
        self.inserted_since_vacuum += other.inserted_since_vacuum;
        self.last_scan = self.last_scan.max(other.last_scan);
        self.last_vacuum = self.last_vacuum.max(other.last_vacuum);
        self.last_analyze = self.last_analyze.max(other.last_analyze);
        self.last_autoanalyze = self.last_autoanalyze.max(other.last_autoanalyze);
        self.vacuums += other.vacuums;
        self.analyzes += other.analyzes;
        self.autoanalyzes += other.autoanalyzes;
        self.vacuum_ms += other.vacuum_ms;
        self.analyze_ms += other.analyze_ms;
        self.autoanalyze_ms += other.autoanalyze_ms;
    }
}

impl DatabaseTotals {
    fn add_times(&mut self, usage: &mut Usage) {
        self.session_us += std::mem::take(&mut usage.session_us);
        self.active_us += std::mem::take(&mut usage.active_us);
        self.idle_in_transaction_us += std::mem::take(&mut usage.idle_in_transaction_us);
    }
    fn merge(&mut self, other: &DatabaseTotals) {
        self.commits += other.commits;
        self.rollbacks += other.rollbacks;
        self.returned += other.returned;
        self.fetched += other.fetched;
        self.inserted += other.inserted;
        self.updated += other.updated;
        self.deleted += other.deleted;
        self.deadlocks += other.deadlocks;
        self.sessions += other.sessions;
        self.session_us += other.session_us;
        self.active_us += other.active_us;
        self.idle_in_transaction_us += other.idle_in_transaction_us;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATABASE: Oid = 5;
    const TABLE: Oid = 20_000;

    #[test]
    fn only_commits_change_the_number_of_rows() {
        let statistics = Statistics::new(2);
        let mut usage = Usage::default();
        usage.changed(TABLE, 10, 0, 0);
        statistics.transaction_ended(0, DATABASE, &mut usage, true, 1);
        usage.changed(TABLE, 5, 0, 3);
        statistics.transaction_ended(1, DATABASE, &mut usage, false, 2);
        usage.changed(TABLE, 0, 2, 4);
        statistics.transaction_ended(1, DATABASE, &mut usage, true, 3);
        let totals = statistics.relation(DATABASE, TABLE);
        assert_eq!(
            (totals.usage.inserted, totals.usage.updated, totals.usage.deleted, totals.usage.live),
            (15, 2, 7, 6)
        );
        let database = statistics.database(DATABASE);
        assert_eq!((database.commits, database.rollbacks, database.inserted), (2, 1, 15));
    }

    #[test]
    fn a_savepoint_takes_its_rows_back_and_truncate_all_of_them() {
        let statistics = Statistics::new(2);
        let mut usage = Usage::default();
        usage.changed(TABLE, 10, 0, 0);
        let mark = usage.mark();
        usage.emptied(TABLE);
        usage.changed(TABLE, 3, 0, 0);
        usage.rollback_to(&mark);
        statistics.transaction_ended(0, DATABASE, &mut usage, true, 1);
        assert_eq!(statistics.relation(DATABASE, TABLE).usage.live, 10);
        usage.emptied(TABLE);
        usage.changed(TABLE, 4, 0, 0);
        statistics.transaction_ended(1, DATABASE, &mut usage, true, 1);
        assert_eq!(statistics.relation(DATABASE, TABLE).usage.live, 4);
    }

    #[test]
    fn what_was_dropped_is_forgotten() {
        let statistics = Statistics::new(2);
        let mut usage = Usage::default();
        usage.changed(TABLE, 10, 0, 0);
        usage.dropped(TABLE);
        statistics.transaction_ended(0, DATABASE, &mut usage, true, 1);
        assert!(statistics.part(0).relations.places.is_empty());
    }
}
