//! What a worker knows of its lulls, the times in which none of its sessions can run: whether it pays to look for the
//! next message rather than to sleep until it comes.
//!
//! To sleep and to be woken costs two switches of the processor, an interrupt from one core to another and, in a virtual
//! machine, an exit from it for each. Where messages follow one another closely, a worker that looks at its sockets
//! again and again has the next one for less than that.
//!
//! Invariants
//! 1. A worker looks for messages only while most of its lulls are shorter than it would look: what looking in vain
//!    costs is bounded, and a worker whose clients take their time sleeps at once.
//!
//! Must not know: sockets, sessions, and the clock.

/// So long a worker looks for a message before it sleeps.
const LOOKING_NANOS: u64 = 100_000;
/// All lulls.
const WHOLE: u32 = 1024;
/// The part that the newest lull has in the average.
const NEWEST_PART: u32 = 16;

/// How many of a worker's lulls are short, the newest ones counting most.
#[derive(Default)]
pub struct LullWatch {
    /// Of [`WHOLE`].
    short_share: u32,
}

impl LullWatch {
    /// A lull is over, whether the worker has looked or slept.
    pub fn note(&mut self, lasted_nanos: u64) {
        let newest = if lasted_nanos < LOOKING_NANOS { WHOLE } else { 0 };
        self.short_share = (self.short_share * (NEWEST_PART - 1) + newest) / NEWEST_PART;
    }
    /// For how long it pays to look for messages before sleeping; 0: not at all.
    pub fn looking_nanos(&self) -> u64 {
        if self.short_share >= WHOLE / 2 { LOOKING_NANOS } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(lulls: impl IntoIterator<Item = u64>) -> u64 {
        let mut watch = LullWatch::default();
        lulls.into_iter().for_each(|nanos| watch.note(nanos));
        watch.looking_nanos()
    }

    #[test]
    fn a_worker_looks_while_most_lulls_are_short() {
        assert_eq!(after([]), 0);
        assert_eq!(after([20_000; 100]), LOOKING_NANOS);
        assert_eq!(after([LOOKING_NANOS; 100]), 0);
        // A client that waits for its commit after each six statements.
        assert_eq!(after((0..100).map(|n| if n % 7 == 6 { 500_000 } else { 20_000 })), LOOKING_NANOS);
        assert_eq!(after((0..100).map(|n| if n % 3 == 2 { 20_000 } else { 500_000 })), 0);
    }

    #[test]
    fn what_was_long_ago_counts_little() {
        let (short, long) = ([20_000; 1000], [5_000_000_000; 20]);
        assert_eq!(after(short.into_iter().chain(long)), 0);
        assert_eq!(after(long.into_iter().chain([20_000; 20])), LOOKING_NANOS);
        // One long rest, and the load goes on.
        assert_eq!(after(short.into_iter().chain([5_000_000_000])), LOOKING_NANOS);
    }
}
