//! Numbers of sequences: none is told twice, over all lives of the server.

use super::{WorkloadResult, pause, wrong};
use kilndb_base::sync::Arc;
use kilndb_lab::client::Connection;
use kilndb_sim::random::Random;
use std::collections::BTreeSet;
use std::sync::Mutex;

pub const SEQUENCES: &str = "create sequence numbers; create sequence cached cache 7";

/// What clients have been told of the sequences' numbers.
#[derive(Clone, Default)]
pub struct ToldNumbers(Arc<Mutex<BTreeSet<(usize, i64)>>>);

impl ToldNumbers {
    fn told(&self, sequence: usize, number: i64) -> WorkloadResult {
        let is_new = self.0.lock().unwrap_or_else(|e| e.into_inner()).insert((sequence, number));
        if is_new { Ok(()) } else { Err(wrong(format!("sequence {sequence} gives {number} again"))) }
    }

    /// Draws numbers until the connection breaks. A number counts as told when its transaction has been acknowledged.
    pub fn draw(&self, client: &mut dyn Connection, random: &mut Random) -> WorkloadResult {
        loop {
            let sequence = random.below(2) as usize;
            let next = format!("select nextval('{}')", ["numbers", "cached"][sequence]);
            if random.one_in(3) {
                client.query("begin")?;
                let number = client.integer(&next)?;
                if random.one_in(4) {
                    client.query("rollback")?;
                    continue;
                }
                client.query("commit")?;
                self.told(sequence, number)?;
            } else {
                let number = client.integer(&next)?;
                self.told(sequence, number)?;
            }
            pause(client, random, 2000);
        }
    }
}
