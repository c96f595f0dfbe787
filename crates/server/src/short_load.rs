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
    /// Whose turns there were in this window, and in the one before it.
    by: TurnsBy,
    before_by: TurnsBy,
    /// What [`ShortLoad::add`] has told last.
    told: TurnsBy,
}

/// Whose short turns a load consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TurnsBy {
    #[default]
    Nobody,
    One(usize),
    Several,
}

impl TurnsBy {
    fn and(self, who: usize) -> TurnsBy {
        match self {
            TurnsBy::Nobody => TurnsBy::One(who),
            TurnsBy::One(one) if one == who => self,
            _ => TurnsBy::Several,
        }
    }
    fn with(self, others: TurnsBy) -> TurnsBy {
        match others {
            TurnsBy::Nobody => self,
            TurnsBy::One(who) => self.and(who),
            TurnsBy::Several => others,
        }
    }
    fn has_others(self, who: usize) -> bool {
        !matches!(self, TurnsBy::Nobody) && self != TurnsBy::One(who)
    }
}

impl ShortLoad {
    /// Counts what messages and short turns have taken of a round of the worker, if it had any. Says who makes the load
    /// heavy, if that is not what it said before.
    pub fn add(&mut self, busy_nanos: u64, now_nanos: u64, has_turns: bool) -> Option<TurnsBy> {
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
            self.before_by = if window >= 4 * WINDOW_NANOS { TurnsBy::Nobody } else { self.by };
            self.by = TurnsBy::Nobody;
        }
        let heavy_by = if self.is_heavy() { self.before_by.with(self.by) } else { TurnsBy::Nobody };
        (std::mem::replace(&mut self.told, heavy_by) != heavy_by).then_some(heavy_by)
    }
    /// Somebody, known by a number, has had a short turn.
    pub fn note_turn(&mut self, who: usize) {
        self.by = self.by.and(who);
    }
    /// The load is heavy, and not just what the same one had to do before the long statement that it has come to.
    pub fn is_heavy_for(&self, who: usize) -> bool {
        self.is_heavy() && (self.by.has_others(who) || self.before_by.has_others(who))
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

    /// Rounds of 1 ms of which `busy_us` are short turns of session 7. What is told in them.
    fn rounds(load: &mut ShortLoad, from_ms: u64, count: u64, busy_us: u64) -> Vec<TurnsBy> {
        let round = |n| {
            if busy_us > 0 {
                load.note_turn(7);
            }
            load.add(busy_us * 1000, n * MS + busy_us * 1000, busy_us > 0)
        };
        (from_ms..from_ms + count).filter_map(round).collect()
    }

    #[test]
    fn a_load_is_heavy_from_an_eighth_on_and_forgotten_soon() {
        let mut load = ShortLoad::default();
        assert_eq!(rounds(&mut load, 1000, 100, 100), []);
        assert!(!load.is_heavy());
        assert_eq!(rounds(&mut load, 1100, 100, 200), [TurnsBy::One(7)]);
        assert!(load.is_heavy());
        assert!(!load.is_over(1200 * MS));
        assert_eq!(rounds(&mut load, 1200, 30, 0), [TurnsBy::Nobody]);
        assert!(!load.is_heavy());
        assert!(load.is_over(1230 * MS));
    }

    #[test]
    fn nobody_stands_back_behind_what_it_did_before() {
        let mut load = ShortLoad::default();
        for n in 0..30 {
            load.note_turn(7);
            load.add(MS / 2, (1000 + n) * MS, true);
        }
        assert!(load.is_heavy() && load.is_heavy_for(8) && !load.is_heavy_for(7));
        load.note_turn(8);
        assert!(load.is_heavy_for(7) && load.is_heavy_for(8));
        assert_eq!(load.add(MS / 2, 1030 * MS, true), Some(TurnsBy::Several));
        // The window after the next one knows nothing of it.
        for n in 30..60 {
            load.note_turn(7);
            load.add(MS / 2, (1000 + n) * MS, true);
        }
        assert!(load.is_heavy() && !load.is_heavy_for(7));
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
