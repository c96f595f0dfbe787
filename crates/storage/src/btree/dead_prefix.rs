//! Dead prefixes: stretches of entries whose rows are all deleted, as a queue leaves them behind, and where scans may
//! begin instead.
//!
//! Purge takes such entries out when no snapshot needs them; a snapshot that is held open for long keeps them all, and
//! every scan from the left would pass over them. So a scan that has passed over many notes how far they reach, and as
//! of which CSN. This is kept in memory only.
//!
//! Invariants
//! 1. All entries in [start, end) of a generation lead to rows whose deletion had committed by its CSN. So a scan that
//!    starts there sees nothing in them if its snapshot is as new, or if it wants rows in their newest state only.
//! 2. An insertion into the stretch shortens it: an insertion looks here after its entry is in the leaf, and a
//!    measuring scan is noted here before it reads the first leaf. So one of the two sees the other.
//!
//! Must not know: rows.

use kilndb_base::sync::atomic::{AtomicU64, Ordering::*, fence};
use kilndb_base::sync::{Mutex, OnceLock};

pub(crate) type FullKey = (Vec<u8>, u64);

/// Entries passed over before a scan measures.
pub(crate) const WORTHWHILE: u32 = 32;
const PREFIXES: usize = 8;
const GENERATIONS: usize = 16;

/// The dead prefixes of one index: none until a scan measures one. Then every insertion into the index looks here.
#[derive(Default)]
pub(crate) struct DeadPrefixes(OnceLock<Box<NotedPrefixes>>);

#[derive(Default)]
struct NotedPrefixes {
    tickets: AtomicU64,
    list: Mutex<Vec<DeadPrefix>>,
}
struct DeadPrefix {
    start: FullKey,
    /// The newest measurement, and older ones with growing gaps, for snapshots that are not quite new.
    generations: [Option<PrefixGeneration>; GENERATIONS],
    measured: u64,
    measuring: Option<PrefixMeasurement>,
}
#[derive(Clone)]
struct PrefixGeneration {
    end: FullKey,
    csn: u64,
}
struct PrefixMeasurement {
    ticket: u64,
    /// The first entry that was inserted meanwhile.
    inserted: Option<FullKey>,
}

impl DeadPrefix {
    fn best(&self, csn: Option<u64>) -> Option<(FullKey, u64)> {
        let usable = self.generations.iter().flatten().filter(|g| csn.is_none_or(|csn| g.csn <= csn));
        usable.max_by(|a, b| a.end.cmp(&b.end)).map(|g| (g.end.clone(), g.csn))
    }
}

impl DeadPrefixes {
    /// The key where a scan from `start` may begin instead, and the CSN as of which that holds. `csn` is that of the
    /// scan's snapshot; None: any will do.
    pub fn begin(&self, start: &FullKey, csn: Option<u64>) -> Option<(FullKey, u64)> {
        crate::lock(&self.0.get()?.list).iter().find(|p| p.start == *start)?.best(csn)
    }
    /// A number for [`DeadPrefixes::finish`], and what [`DeadPrefixes::begin`] says now: the scan is to begin there
    /// once more, since what it has left out may have been shortened. None: another scan measures already.
    pub fn measure(&self, start: &FullKey, csn: Option<u64>) -> Option<(u64, Option<(FullKey, u64)>)> {
        let noted = self.0.get_or_init(Box::default);
        let mut list = crate::lock(&noted.list);
        let at = match list.iter().position(|p| p.start == *start) {
            Some(at) => at,
            None => {
                if list.len() == PREFIXES {
                    list.remove(0);
                }
                list.push(DeadPrefix {
                    start: start.clone(),
                    generations: Default::default(),
                    measured: 0,
                    measuring: None,
                });
                list.len() - 1
            }
        };
        let prefix = list.get_mut(at)?;
        if prefix.measuring.is_some() {
            return None;
        }
        let ticket = noted.tickets.fetch_add(1, Relaxed) + 1;
        prefix.measuring = Some(PrefixMeasurement { ticket, inserted: None });
        let from = prefix.best(csn);
        drop(list);
        // The note must be visible before the first leaf is read (invariant 2).
        fence(SeqCst);
        Some((ticket, from))
    }
    /// The entries before `end` are as the invariant says. None: it was not found out.
    pub fn finish(&self, start: &FullKey, ticket: u64, found: Option<(FullKey, u64)>) {
        let Some(noted) = self.0.get() else { return };
        let mut list = crate::lock(&noted.list);
        let Some(prefix) = list.iter_mut().find(|p| p.measuring.as_ref().is_some_and(|m| m.ticket == ticket)) else {
            return;
        };
        debug_assert!(prefix.start == *start);
        let inserted = prefix.measuring.take().and_then(|m| m.inserted);
        if let Some((end, csn)) = found {
            let end = inserted.map_or(end.clone(), |i| i.min(end));
            if end > prefix.start {
                prefix.measured += 1;
                let slot = (prefix.measured.trailing_zeros() as usize).min(GENERATIONS - 1);
                prefix.generations[slot] = Some(PrefixGeneration { end, csn });
            }
        }
    }
    /// An entry was put into a leaf, which is still latched.
    #[inline]
    pub fn inserted(&self, key: &[u8], rid: u64) {
        fence(SeqCst);
        if let Some(noted) = self.0.get() {
            noted.shorten(key, rid);
        }
    }
}

impl NotedPrefixes {
    fn shorten(&self, key: &[u8], rid: u64) {
        let at = |end: &FullKey| (key, rid) < (end.0.as_slice(), end.1);
        for prefix in crate::lock(&self.list).iter_mut() {
            if at(&prefix.start) {
                continue;
            }
            if let Some(m) = &mut prefix.measuring
                && m.inserted.as_ref().is_none_or(at)
            {
                m.inserted = Some((key.to_vec(), rid));
            }
            for generation in prefix.generations.iter_mut().flatten().filter(|g| at(&g.end)) {
                generation.end = (key.to_vec(), rid);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u8) -> FullKey {
        (vec![n], 0)
    }

    #[test]
    fn insertions_shorten_and_old_snapshots_get_less() {
        let p = DeadPrefixes::default();
        let start = key(0);
        for (end, csn) in [(10, 100), (20, 200), (30, 300)] {
            let (ticket, _) = p.measure(&start, None).unwrap();
            assert_eq!(p.measure(&start, None), None);
            p.finish(&start, ticket, Some((key(end), csn)));
        }
        assert_eq!(p.begin(&start, None), Some((key(30), 300)));
        assert_eq!(p.begin(&start, Some(299)), Some((key(20), 200)));
        assert_eq!(p.begin(&start, Some(99)), None);
        assert_eq!(p.begin(&key(1), None), None);
        p.inserted(&[25], 7);
        assert_eq!(p.begin(&start, None), Some(((vec![25], 7), 300)));
        let (ticket, from) = p.measure(&start, Some(250)).unwrap();
        assert_eq!(from, Some((key(20), 200)));
        p.inserted(&[35], 1);
        p.inserted(&[33], 1);
        p.inserted(&[34], 1);
        p.finish(&start, ticket, Some((key(40), 400)));
        assert_eq!(p.begin(&start, Some(400)), Some(((vec![33], 1), 400)));
        let (ticket, _) = p.measure(&start, None).unwrap();
        p.finish(&start, ticket, None);
        p.inserted(&[0], 0);
        assert_eq!(p.begin(&start, None), Some((key(0), 400)));
    }

    #[test]
    fn older_generations_stay_with_growing_gaps() {
        let p = DeadPrefixes::default();
        let start = (vec![], 0);
        for n in 1..=1000u64 {
            let (ticket, _) = p.measure(&start, None).unwrap();
            p.finish(&start, ticket, Some((((n as u16).to_be_bytes().to_vec(), 0), n)));
        }
        for lag in [0, 1, 10, 100, 400] {
            let (_, csn) = p.begin(&start, Some(1000 - lag)).unwrap();
            assert!(csn + lag * 2 + 2 >= 1000 - lag, "lag {lag}: {csn}");
        }
    }
}
