//! Answers to wrong passwords come the later the more of them an address has given, which costs the server a timer each.
//!
//! Who opens many connections at once waits on all of them; who has the right password does not wait.
//!
//! Invariants
//! 1. The table has at most [`ADDRESSES_MAX`] entries.
//!
//! Must not know: what an answer says.

use kilndb_base::hash::{HashMap, HashMapExt};
use kilndb_base::sync::Mutex;
use std::net::{IpAddr, Ipv6Addr};

const ADDRESSES_MAX: usize = 10_000;
/// An address that has given no wrong password for so long begins anew.
const FORGOTTEN_NANOS: u64 = 60_000_000_000;
/// The second wrong password waits so long, each further one twice as long.
const FIRST_DELAY_NANOS: u64 = 50_000_000;

#[derive(Clone, Copy)]
struct WrongAnswers {
    count: u32,
    last_nanos: u64,
}

pub struct Guesses {
    by_address: Mutex<HashMap<Option<IpAddr>, WrongAnswers>>,
}

impl Default for Guesses {
    fn default() -> Guesses {
        Guesses { by_address: Mutex::new(HashMap::new()) }
    }
}

/// Whoever has one address of such a network has all of them.
fn network_of(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(address),
        IpAddr::V6(address) => IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() >> 64 << 64)),
    }
}

impl Guesses {
    /// Notes a wrong password; answers how long the reply is to wait. `address`: None through the Unix socket.
    pub fn wrong(&self, address: Option<IpAddr>, now_nanos: u64, most_nanos: u64) -> u64 {
        let address = address.map(network_of);
        let mut all = self.by_address.lock().unwrap_or_else(|e| e.into_inner());
        if all.len() >= ADDRESSES_MAX && !all.contains_key(&address) {
            all.retain(|_, known| now_nanos.saturating_sub(known.last_nanos) < FORGOTTEN_NANOS);
            let oldest = all.iter().min_by_key(|(_, known)| known.last_nanos).map(|(address, _)| *address);
            if let Some(oldest) = oldest.filter(|_| all.len() >= ADDRESSES_MAX) {
                all.remove(&oldest);
            }
        }
        let known = all.entry(address).or_insert(WrongAnswers { count: 0, last_nanos: now_nanos });
        if now_nanos.saturating_sub(known.last_nanos) >= FORGOTTEN_NANOS {
            known.count = 0;
        }
        known.last_nanos = now_nanos;
        known.count = known.count.saturating_add(1);
        match known.count {
            1 => 0,
            count => (FIRST_DELAY_NANOS << (count - 2).min(20)).min(most_nanos),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn delays_grow_up_to_a_limit_and_are_forgotten() {
        let guesses = Guesses::default();
        let from = |text: &str| Some(text.parse().unwrap());
        let mut delays = Vec::new();
        for _ in 0..9 {
            delays.push(guesses.wrong(from("10.0.0.1"), SECOND, 5 * SECOND) / 1_000_000);
        }
        assert_eq!(delays, [0, 50, 100, 200, 400, 800, 1600, 3200, 5000]);
        assert_eq!(guesses.wrong(from("10.0.0.2"), SECOND, 5 * SECOND), 0);
        assert_eq!(guesses.wrong(None, SECOND, 5 * SECOND), 0);
        assert_eq!(guesses.wrong(from("10.0.0.1"), 62 * SECOND, 5 * SECOND), 0);
        assert_eq!(guesses.wrong(from("fd00::1"), SECOND, 5 * SECOND), 0);
        assert_eq!(guesses.wrong(from("fd00::2"), SECOND, 5 * SECOND), FIRST_DELAY_NANOS);
        assert_eq!(guesses.wrong(from("fd00::2"), SECOND, 0), 0);
    }

    #[test]
    fn the_table_does_not_grow_for_ever() {
        let guesses = Guesses::default();
        for i in 0..ADDRESSES_MAX as u32 + 100 {
            guesses.wrong(Some(IpAddr::V4(i.into())), SECOND + u64::from(i), SECOND);
        }
        assert_eq!(guesses.by_address.lock().unwrap().len(), ADDRESSES_MAX);
    }
}
