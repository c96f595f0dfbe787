//! Portals: a bound statement between its messages.

use super::prepared::Prepared;
use crate::exec::Execution;
use crate::plan::Plan;
use kilndb_storage::Snapshot;
use kilndb_types::Datum;
use std::sync::Arc;

pub(crate) struct Portal {
    pub prepared: Arc<Prepared>,
    pub params: Vec<Datum>,
    pub result_formats: Vec<i16>,
    pub plan: Option<Arc<Plan>>,
    pub state: PortalState,
    /// DECLARE CURSOR's portals: name is known to SQL.
    pub cursor: Option<super::cursor::CursorInfo>,
}

pub(crate) enum PortalState {
    Ready,
    Running { execution: Box<Execution>, snapshot: Snapshot },
    Finished,
}

impl Portal {
    /// WITH HOLD cursors outlive their transaction once their rows are stored.
    pub fn holds(&self) -> bool {
        self.cursor.as_ref().is_some_and(|c| c.is_held())
    }
}
