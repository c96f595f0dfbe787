//! How much of a worker's time short turns take: those of sessions that are not in the middle of a long statement.
//!
//! Must not know: sessions, and the clock.

/// All of the time.
const WHOLE: u64 = 1024;
/// What happened longer ago counts little.
const WINDOW_NANOS: u64 = 10_000_000;

/// Which part of a worker's time goes to messages and short turns, by the last windows.
#[derive(Default)]
pub struct ShortLoad {
    /// When the window began, and how much of it short turns have taken.
    since_nanos: u64,
    busy_nanos: u64,
    /// The part before this window, of [`WHOLE`].
    share: u64,
    /// When there was a short turn last.
    turn_nanos: u64,
}

impl ShortLoad {
    /// Counts what messages and short turns have taken of a round of the worker, if it had any. True: the load has become
    /// heavy, or is no longer.
    pub fn add(&mut self, busy_nanos: u64, now_nanos: u64, has_turns: bool) -> bool {
        let was_heavy = self.is_heavy();
        self.busy_nanos += busy_nanos;
        if has_turns {
            self.turn_nanos = now_nanos;
        }
        let window = now_nanos.saturating_sub(self.since_nanos);
        if window >= WINDOW_NANOS {
            let share = (self.busy_nanos * WHOLE / window).min(WHOLE);
            // After a sleep the windows before it say nothing.
            self.share = if window >= 4 * WINDOW_NANOS { share } else { (self.share + share) / 2 };
            (self.since_nanos, self.busy_nanos) = (now_nanos, 0);
        }
        self.is_heavy() != was_heavy
    }
    /// There has been no short turn for a while.
    pub fn is_over(&self, now_nanos: u64) -> bool {
        now_nanos >= self.turn_nanos + WINDOW_NANOS
    }
    /// Short turns take so much that they would feel all of a long statement's.
    pub fn is_heavy(&self) -> bool {
        self.share >= WHOLE / 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Rounds of 1 ms of which `busy_us` are short turns.
    fn rounds(load: &mut ShortLoad, from_ms: u64, count: u64, busy_us: u64) -> usize {
        let round = |n| load.add(busy_us * 1000, n * MS + busy_us * 1000, busy_us > 0);
        (from_ms..from_ms + count).map(round).filter(|told| *told).count()
    }

    #[test]
    fn a_load_is_heavy_from_an_eighth_on_and_forgotten_soon() {
        let mut load = ShortLoad::default();
        assert_eq!(rounds(&mut load, 1000, 100, 100), 0);
        assert!(!load.is_heavy());
        assert_eq!(rounds(&mut load, 1100, 100, 200), 1);
        assert!(load.is_heavy());
        assert!(!load.is_over(1200 * MS));
        assert_eq!(rounds(&mut load, 1200, 30, 0), 1);
        assert!(!load.is_heavy());
        assert!(load.is_over(1230 * MS));
    }

    #[test]
    fn one_busy_round_after_a_sleep_is_no_load() {
        let mut load = ShortLoad::default();
        rounds(&mut load, 1000, 100, 900);
        assert!(load.is_heavy());
        load.add(MS, 5001 * MS, true);
        assert!(!load.is_heavy());
    }
}
