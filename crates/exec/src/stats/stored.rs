//! Counters as the file that an orderly stop leaves has them.
//!
//! Invariants
//! 1. A file that is not whole, or of another version, counts as none: counters begin anew.
//!
//! Must not know: where the file is, who reads and writes it.

use super::{DatabaseTotals, RelationTotals, RelationUsage, Statistics};
use kilndb_base::Oid;
use kilndb_base::hash::HashMap;

/// The first bytes of the file; the digit is the version of what follows.
const MAGIC: &[u8; 8] = b"KILNSTA1";
const RELATION_NUMBERS: usize = 20;
const DATABASE_NUMBERS: usize = 12;

/// All counters at one moment.
#[derive(Default, Debug)]
pub struct StoredStatistics {
    relations: HashMap<(Oid, Oid), RelationTotals>,
    databases: HashMap<Oid, DatabaseTotals>,
    resets: HashMap<Oid, i64>,
}

fn relation_numbers(t: &RelationTotals) -> [u64; RELATION_NUMBERS] {
    let u = &t.usage;
    [
        u.scans,
        u.read,
        u.fetched,
        u.inserted,
        u.updated,
        u.deleted,
        u.entries,
        u.live as u64,
        t.modified_since_analyze as u64,
        t.inserted_since_vacuum as u64,
        t.last_scan as u64,
        t.last_vacuum as u64,
        t.last_analyze as u64,
        t.last_autoanalyze as u64,
        t.vacuums,
        t.analyzes,
        t.autoanalyzes,
        t.vacuum_ms.to_bits(),
        t.analyze_ms.to_bits(),
        t.autoanalyze_ms.to_bits(),
    ]
}

fn relation_totals(n: &[u64; RELATION_NUMBERS]) -> RelationTotals {
    RelationTotals {
        usage: RelationUsage {
            scans: n[0],
            read: n[1],
            fetched: n[2],
            inserted: n[3],
            updated: n[4],
            deleted: n[5],
            entries: n[6],
            live: n[7] as i64,
            ..RelationUsage::default()
        },
        modified_since_analyze: n[8] as i64,
        inserted_since_vacuum: n[9] as i64,
        last_scan: n[10] as i64,
        last_vacuum: n[11] as i64,
        last_analyze: n[12] as i64,
        last_autoanalyze: n[13] as i64,
        vacuums: n[14],
        analyzes: n[15],
        autoanalyzes: n[16],
        vacuum_ms: f64::from_bits(n[17]),
        analyze_ms: f64::from_bits(n[18]),
        autoanalyze_ms: f64::from_bits(n[19]),
    }
}

fn database_numbers(d: &DatabaseTotals) -> [u64; DATABASE_NUMBERS] {
    [
        d.commits,
        d.rollbacks,
        d.returned,
        d.fetched,
        d.inserted,
        d.updated,
        d.deleted,
        d.deadlocks,
        d.sessions,
        d.session_us,
        d.active_us,
        d.idle_in_transaction_us,
    ]
}

fn database_totals(n: &[u64; DATABASE_NUMBERS]) -> DatabaseTotals {
    DatabaseTotals {
        commits: n[0],
        rollbacks: n[1],
        returned: n[2],
        fetched: n[3],
        inserted: n[4],
        updated: n[5],
        deleted: n[6],
        deadlocks: n[7],
        sessions: n[8],
        session_us: n[9],
        active_us: n[10],
        idle_in_transaction_us: n[11],
    }
}

/// Takes numbers from the front of the bytes.
struct NumberReader<'a>(&'a [u8]);

impl NumberReader<'_> {
    fn number(&mut self) -> Option<u64> {
        let (first, rest) = self.0.split_first_chunk::<8>()?;
        self.0 = rest;
        Some(u64::from_le_bytes(*first))
    }
    fn oid(&mut self) -> Option<Oid> {
        Oid::try_from(self.number()?).ok()
    }
    fn numbers<const N: usize>(&mut self) -> Option<[u64; N]> {
        let mut all = [0; N];
        for number in &mut all {
            *number = self.number()?;
        }
        Some(all)
    }
}

fn checksum(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xCBF2_9CE4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01B3))
}

impl StoredStatistics {
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut numbers = vec![self.relations.len() as u64];
        for ((database, relation), totals) in &self.relations {
            numbers.extend([u64::from(*database), u64::from(*relation)]);
            numbers.extend(relation_numbers(totals));
        }
        numbers.push(self.databases.len() as u64);
        for (database, totals) in &self.databases {
            numbers.push(u64::from(*database));
            numbers.extend(database_numbers(totals));
        }
        numbers.push(self.resets.len() as u64);
        for (database, at) in &self.resets {
            numbers.extend([u64::from(*database), *at as u64]);
        }
        let mut bytes = MAGIC.to_vec();
        bytes.extend(numbers.iter().flat_map(|n| n.to_le_bytes()));
        let sum = checksum(&bytes);
        bytes.extend(sum.to_le_bytes());
        bytes
    }

    /// None: the bytes are not whole, or of another version.
    pub fn from_bytes(bytes: &[u8]) -> Option<StoredStatistics> {
        let (content, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(content) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = NumberReader(content.strip_prefix(MAGIC)?);
        let mut stored = StoredStatistics::default();
        for _ in 0..reader.number()? {
            let relation = (reader.oid()?, reader.oid()?);
            stored.relations.insert(relation, relation_totals(&reader.numbers()?));
        }
        for _ in 0..reader.number()? {
            stored.databases.insert(reader.oid()?, database_totals(&reader.numbers()?));
        }
        for _ in 0..reader.number()? {
            stored.resets.insert(reader.oid()?, reader.number()? as i64);
        }
        Some(stored)
    }
}

impl Statistics {
    /// All counters, for the file that an orderly stop leaves.
    pub fn to_stored(&self) -> StoredStatistics {
        let mut stored = StoredStatistics::default();
        self.each(|part| {
            for (relation, place) in &part.relations.places {
                stored.relations.entry(*relation).or_default().merge(&part.relations.totals[*place as usize]);
            }
            for (database, totals) in &part.databases {
                stored.databases.entry(*database).or_default().merge(totals);
            }
        });
        stored.resets.extend(self.resets.lock().unwrap_or_else(|e| e.into_inner()).iter().map(|(d, at)| (*d, *at)));
        stored
    }

    /// Goes on with the counters of an earlier run.
    pub fn resume(&self, stored: StoredStatistics) {
        let mut part = self.part(0);
        for (relation, totals) in stored.relations {
            *part.relations.of(relation) = totals;
        }
        part.databases.extend(stored.databases);
        drop(part);
        self.resets.lock().unwrap_or_else(|e| e.into_inner()).extend(stored.resets);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Maintenance, Usage};
    use super::*;

    #[test]
    fn counters_come_back_as_they_were_and_damaged_ones_do_not() {
        let before = Statistics::new(2);
        let mut usage = Usage::default();
        usage.changed(20_000, 10, 2, 1);
        before.transaction_ended(1, 5, &mut usage, true, 77);
        before.maintained(5, 20_000, Maintenance::AutoAnalyze, 78, 1.5, Some(9));
        usage.changed(20_000, 3, 0, 0);
        before.transaction_ended(0, 5, &mut usage, true, 79);
        before.reset_relation(6, 20_001, 80);
        let mut bytes = before.to_stored().to_bytes();
        let after = Statistics::new(1);
        after.resume(StoredStatistics::from_bytes(&bytes).expect("they are whole"));
        let (old, new) = (before.relation(5, 20_000), after.relation(5, 20_000));
        assert_eq!(format!("{old:?}"), format!("{new:?}"));
        assert_eq!((new.modified_since_analyze, new.autoanalyzes, new.usage.live), (3, 1, 12));
        assert_eq!(format!("{:?}", before.database(5)), format!("{:?}", after.database(5)));
        assert_eq!(after.reset_time(6), Some(80));
        bytes[30] ^= 1;
        assert!(StoredStatistics::from_bytes(&bytes).is_none());
        assert!(StoredStatistics::from_bytes(&bytes[..20]).is_none());
    }
}
