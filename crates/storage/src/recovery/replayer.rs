//! Replays the log: it is fed records, in their order, and can pause behind any of them.
//!
//! Recovery feeds it what the reader finds until the log ends. Whoever keeps a copy of a cluster up to date feeds it for
//! as long as there is more.
//!
//! Invariants
//! 1. Behind each record, what has been replayed is as it was when that record was written, but for pages that knew of
//!    later ones already.
//!
//! Must not know: what is done about what the log leaves open.

use super::replay::RedoState;
use crate::control::Checkpoint;
use crate::core::Core;
use crate::wal::end::LogEnd;
use crate::wal::frame::frame;
use crate::wal::reader::{LogRead, LogReader, LogRecord};
use crate::wal::record::Record;
use kilndb_base::Result;
use std::ops::ControlFlow;
use std::sync::Arc;

/// The receiver of events that layers above storage may want to know.
pub(crate) trait ReplayObserver {
    /// A transaction has committed; its commit record ends at `lsn`. `catalog_changes`: see [`Record::Commit`]. Break:
    /// replaying is to pause here.
    fn committed(&mut self, xid: u64, lsn: u64, catalog_changes: &[u8]) -> ControlFlow<()>;
}
/// While an engine recovers there is nobody yet who has looked at anything.
pub(crate) struct NobodyLooks;
impl ReplayObserver for NobodyLooks {
    fn committed(&mut self, _xid: u64, _lsn: u64, _catalog_changes: &[u8]) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// Why a replayer has paused.
#[derive(Debug)]
pub(crate) enum ReplayStop {
    /// The replayer has reached the LSN where it should stop.
    Reached,
    /// The observer of a commit has asked for it.
    ByObserver,
    End(LogEnd),
}

pub(crate) struct Replayer<'a> {
    core: &'a Arc<Core>,
    observer: &'a mut dyn ReplayObserver,
    redo: RedoState,
    records: u64,
    /// The LSN of the last record.
    lsn: u64,
}
impl<'a> Replayer<'a> {
    /// Makes a replayer for a core that has loaded the checkpoint.
    pub(crate) fn new(core: &'a Arc<Core>, c: &Checkpoint, observer: &'a mut dyn ReplayObserver) -> Replayer<'a> {
        let mut redo = RedoState { max_xid: c.next_xid.saturating_sub(1), ..RedoState::default() };
        for r in c.relations.iter().filter(|r| r.creator != 0) {
            redo.made.entry(r.creator).or_default().push(r.id);
        }
        redo.ending = c.unended.iter().filter(|t| t.ending).map(|t| t.xid).collect();
        for (xid, head, purge) in &c.unfinished {
            redo.txns.insert(*xid, (*head, *purge));
        }
        Replayer { core, observer, redo, records: 0, lsn: c.redo }
    }
    /// Does what the record says. Break: the observer has asked to pause here.
    pub(crate) fn apply(&mut self, record: &LogRecord) -> Result<ControlFlow<()>> {
        assert!(record.start >= self.lsn && record.end > record.start, "the log goes forward");
        self.lsn = record.end;
        let decoded = record.decode()?;
        if let Record::Link { .. } = decoded {
            // The sync of this part may have failed: then it is in the system's memory only.
            let segments = self.core.log.segments();
            segments.write(record.start, &frame(&record.body, record.start))?;
            segments.sync(record.start, record.end)?;
            return Ok(ControlFlow::Continue(()));
        }
        let lsn = record.end;
        let committed = match decoded {
            Record::Commit { xid, catalog_changes, .. } => Some((xid, catalog_changes)),
            _ => None,
        };
        self.core.redo_record(lsn, decoded, &mut self.redo)?;
        self.records += 1;
        let flow = committed.map(|(xid, catalog_changes)| self.observer.committed(xid, lsn, catalog_changes));
        Ok(flow.unwrap_or(ControlFlow::Continue(())))
    }
    /// Replays what the reader finds, until everything that ends at or before `lsn` is replayed. It can be called again.
    pub(crate) fn replay_to(&mut self, reader: &mut LogReader<'_>, lsn: u64) -> Result<ReplayStop> {
        while reader.lsn() < lsn {
            match reader.read_next()? {
                LogRead::Record(record) => {
                    let flow = self.apply(&record)?;
                    // Pages are written after the log.
                    reader.was_durable_to(self.redo.newest_page_lsn);
                    if flow.is_break() {
                        return Ok(ReplayStop::ByObserver);
                    }
                }
                LogRead::End(end) => return Ok(ReplayStop::End(end)),
            }
        }
        Ok(ReplayStop::Reached)
    }
    /// The number of records that were replayed, and what they leave open.
    pub(super) fn finish(self) -> (u64, RedoState) {
        (self.records, self.redo)
    }
}
