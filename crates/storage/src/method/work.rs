//! The background thread's rounds through indexes whose methods have work for it.
//!
//! Must not know: what the work is.

use super::IndexWorker;
use crate::api::RelationKind;
use crate::core::Core;
use kilndb_base::Severity;
use kilndb_base::sync::atomic::Ordering::Acquire;

/// The state that the thread keeps from round to round: a worker for each method that has work.
#[derive(Default)]
pub(crate) struct IndexWorkers(Vec<(RelationKind, Box<dyn IndexWorker>)>);

impl IndexWorkers {
    fn of(&mut self, kind: RelationKind) -> Option<&mut dyn IndexWorker> {
        if !self.0.iter().any(|(of, _)| *of == kind) {
            self.0.push((kind, kind.worker()?));
        }
        let worker = self.0.iter_mut().find(|(of, _)| *of == kind)?;
        Some(&mut *worker.1)
    }
}

impl Core {
    /// Does one round through the indexes that may have background work; true if there is more to do.
    pub(crate) fn index_work_round(&self, workers: &mut IndexWorkers) -> bool {
        let ids = crate::lock(&self.worked_indexes).clone();
        let mut busy = false;
        for id in ids {
            if self.stop.load(Acquire) {
                return false;
            }
            let Some(index) = self.directory.get(id) else {
                crate::lock(&self.worked_indexes).retain(|other| *other != id);
                continue;
            };
            let Some(worker) = workers.of(index.kind).filter(|_| index.pages() > 0) else { continue };
            match worker.step(&index) {
                Ok(more) => busy |= more,
                // Dropped meanwhile; or what is left to do stays so.
                Err(e) if self.directory.get(id).is_some() => {
                    let name = index.kind.method().map_or("", |method| method.name);
                    self.tell(Severity::Warning, &format!("{name} index {id}: {}", e.message()));
                }
                Err(_) => {}
            }
        }
        busy
    }
}
