//! pg_snapshot and txid_snapshot: `xmin:xmax:xip,xip,…`. A value is held as its text, which has one form.

use crate::io::invalid_syntax;
use kilndb_base::Result;

/// What transactions a snapshot sees.
pub struct SnapshotText {
    pub xmin: u64,
    pub xmax: u64,
    /// Those between the two that it does not see, in order.
    pub running: Vec<u64>,
}

/// A number as strtoul reads it: no digits are 0.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    // As PostgreSQL has it, numbers are those of bigint.
    let value = if end == 0 { 0 } else { u64::try_from(text[..end].parse::<i64>().ok()?).ok()? };
    Some((value, &text[end..]))
}
fn parts(text: &str) -> Option<SnapshotText> {
    let (xmin, rest) = number(text)?;
    let (xmax, rest) = number(rest.strip_prefix(':')?)?;
    let mut rest = rest.strip_prefix(':')?;
    if xmin == 0 || xmax < xmin {
        return None;
    }
    let mut running: Vec<u64> = Vec::new();
    while !rest.is_empty() {
        let (value, behind) = number(rest)?;
        let last = running.last().copied().unwrap_or(0);
        if value < xmin || value >= xmax || value < last {
            return None;
        }
        if value != last {
            running.push(value);
        }
        rest = match behind.strip_prefix(',') {
            Some(more) => more,
            None if behind.is_empty() => behind,
            None => return None,
        };
    }
    Some(SnapshotText { xmin, xmax, running })
}

impl SnapshotText {
    pub fn parse(text: &str) -> Result<SnapshotText> {
        parts(text).ok_or_else(|| invalid_syntax("pg_snapshot", text))
    }
    pub fn text(&self) -> String {
        let list: Vec<String> = self.running.iter().map(u64::to_string).collect();
        format!("{}:{}:{}", self.xmin, self.xmax, list.join(","))
    }
    pub fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || xid < self.xmax && self.running.binary_search(&xid).is_err()
    }
    pub fn send(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&(self.running.len() as u32).to_be_bytes());
        for v in [self.xmin, self.xmax].iter().chain(&self.running) {
            out.extend_from_slice(&v.to_be_bytes());
        }
    }
    /// None: these are not a snapshot's bytes.
    pub fn receive(bytes: &[u8]) -> Option<SnapshotText> {
        let (count, rest) = bytes.split_first_chunk::<4>()?;
        let numbers: Vec<u64> =
            rest.chunks_exact(8).map(|c| u64::from_be_bytes(c.try_into().unwrap_or_default())).collect();
        let [xmin, xmax, running @ ..] = &numbers[..] else { return None };
        if rest.len() % 8 != 0 || running.len() != u32::from_be_bytes(*count) as usize {
            return None;
        }
        let list: Vec<String> = running.iter().map(u64::to_string).collect();
        parts(&format!("{xmin}:{xmax}:{}", list.join(",")))
    }
}
