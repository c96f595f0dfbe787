//! How far a change is, for pg_stat_progress_cluster and, of indexes, pg_stat_progress_create_index.

use super::{Follower, OnlineChange};
use crate::Definitions;
use crate::client::{ProgressKind, Runtime};
use kilndb_base::Oid;

/// Places in the numbers of pg_stat_progress_cluster.
const COMMAND: usize = 0;
const PHASE: usize = 1;
const ROWS_READ: usize = 3;
const ROWS_WRITTEN: usize = 4;
const BLOCKS_TOTAL: usize = 5;
/// The phases that there are here: "seq scanning heap", "performing final cleanup".
const COPIES: i64 = 1;
const CATCHES_UP: i64 = 7;
/// Of pg_stat_progress_create_index: the place of the phase, and "index validation: scanning table".
const INDEX_PHASE: usize = 9;
const VALIDATES: i64 = 6;

impl Definitions<'_> {
    /// The rows of a table are going to be copied.
    pub(super) fn begin_copying(&self, table: Oid, blocks: u32, runtime: &dyn Runtime) {
        let progress = &runtime.control().progress;
        progress.begin(ProgressKind::Cluster, table);
        progress.set(COMMAND, self.command_number());
        progress.set(PHASE, COPIES);
        progress.set(BLOCKS_TOTAL, i64::from(blocks));
    }

    /// The number that pg_stat_progress_cluster has for the command.
    fn command_number(&self) -> i64 {
        match self.command {
            "CLUSTER" => 1,
            "VACUUM" => 2,
            "CALL" => 4,
            _ => 3,
        }
    }

    pub(super) fn begin_catching_up(&self, online: &OnlineChange, runtime: &dyn Runtime) {
        let progress = &runtime.control().progress;
        let followed = online.tables.iter().find_map(|table| Some((table.source.oid, table.followers.first()?)));
        match followed {
            None => {}
            Some((table, Follower::Index(_))) => {
                progress.begin(ProgressKind::CreateIndex, table);
                // CREATE INDEX CONCURRENTLY, REINDEX CONCURRENTLY.
                progress.set(COMMAND, if self.command == "REINDEX" { 4 } else { 2 });
                progress.set(INDEX_PHASE, VALIDATES);
            }
            Some((table, Follower::Copy(_))) => {
                progress.begin(ProgressKind::Cluster, table);
                progress.set(COMMAND, self.command_number());
                progress.set(PHASE, CATCHES_UP);
            }
        }
    }
}

/// Another row was copied.
pub(super) fn count_row(runtime: &dyn Runtime) {
    let progress = &runtime.control().progress;
    progress.add(ROWS_READ, 1);
    progress.add(ROWS_WRITTEN, 1);
}
