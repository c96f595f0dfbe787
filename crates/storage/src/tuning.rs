//! Settings that may change while the engine runs.
//!
//! Must not know: where they come from.

use crate::api::EngineConfig;
use kilndb_base::sync::RwLock;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tuning {
    pub max_wal_size_bytes: u64,
    pub min_wal_size_bytes: u64,
    pub checkpoint_timeout_s: u64,
    pub checkpoint_completion_target: f64,
    /// Checkpoints because of the log's volume that come closer together are warned of; 0: never.
    pub checkpoint_warning_s: u64,
    pub log_checkpoints: bool,
    pub wal_writer_delay_ms: u64,
    /// The bytes of log that no session waits for (wal_writer_flush_after) which are written before the delay is over;
    /// 0: each commit wakes the flusher.
    pub wal_writer_flush_after_bytes: u64,
    pub fsync: bool,
}

impl Tuning {
    /// The settings of `config`, with PostgreSQL's defaults for the rest.
    pub fn of(config: &EngineConfig) -> Tuning {
        Tuning {
            max_wal_size_bytes: config.max_wal_size_bytes,
            min_wal_size_bytes: 80 << 20,
            checkpoint_timeout_s: config.checkpoint_timeout_s,
            checkpoint_completion_target: config.checkpoint_completion_target,
            checkpoint_warning_s: 30,
            log_checkpoints: true,
            wal_writer_delay_ms: config.wal_writer_delay_ms,
            wal_writer_flush_after_bytes: 1 << 20,
            fsync: config.fsync,
        }
    }
    /// The bytes of log after which a checkpoint is due, chosen so that it ends before the log reaches `max_wal_size`.
    pub(crate) fn wal_between_checkpoints(&self) -> u64 {
        let distance = self.max_wal_size_bytes as f64 / (1.0 + self.checkpoint_completion_target.clamp(0.0, 1.0));
        (distance as u64).max(crate::wal::frame::SEGMENT)
    }
    /// Bytes of log that recovery would need, from which on bulk changes wait for a checkpoint: the segment that is
    /// written and the one that recovery begins in may be in use only in part.
    pub(crate) fn wal_before_bulk_waits(&self) -> u64 {
        self.max_wal_size_bytes.saturating_sub(3 * crate::wal::frame::SEGMENT).max(2 * crate::wal::frame::SEGMENT)
    }
}

pub(crate) struct TuningCell(RwLock<Tuning>);
impl TuningCell {
    pub fn new(tuning: Tuning) -> TuningCell {
        TuningCell(RwLock::new(tuning))
    }
    pub fn get(&self) -> Tuning {
        *self.0.read().unwrap_or_else(|e| e.into_inner())
    }
    pub fn set(&self, tuning: Tuning) {
        *self.0.write().unwrap_or_else(|e| e.into_inner()) = tuning;
    }
}
