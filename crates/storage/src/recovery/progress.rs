//! Reports the progress of recovery now and then.

use crate::core::Core;

/// Says when it is time to tell how far recovery is.
pub(super) struct ProgressTimer {
    started: u64,
    next: u64,
}
impl ProgressTimer {
    pub(super) fn new(core: &Core, started: u64) -> ProgressTimer {
        ProgressTimer { started, next: started + core.config.startup_progress_interval_ms * 1_000_000 }
    }
    /// The elapsed time as a text, if it is due to be reported.
    pub(super) fn due(&mut self, core: &Core) -> Option<String> {
        let interval = core.config.startup_progress_interval_ms * 1_000_000;
        let now = core.env.monotonic_nanos();
        if interval == 0 || now < self.next {
            return None;
        }
        self.next = now + interval;
        Some(seconds_since(core, self.started))
    }
}
pub(super) fn seconds_since(core: &Core, started: u64) -> String {
    let hundredths = (core.env.monotonic_nanos() - started) / 10_000_000;
    format!("{}.{:02}", hundredths / 100, hundredths % 100)
}
