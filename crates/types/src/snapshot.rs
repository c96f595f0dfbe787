//! pg_snapshot and txid_snapshot: `xmin:xmax:xip,xip,…`. A value is held as its text, which has one form.

use crate::io::invalid_syntax;
use kilndb_base::{Result, work};

/// What transactions a snapshot sees.
pub struct SnapshotText {
    pub xmin: u64,
    pub xmax: u64,
    /// The transactions between the two that the snapshot does not see, in order.
    pub running: Vec<u64>,
}

/// A number as strtoul reads it: no digits are 0.
fn number(text: &str) -> Option<(u64, &str)> {
    let end = text.bytes().position(|b| !b.is_ascii_digit()).unwrap_or(text.len());
    // As PostgreSQL has it, numbers are those of bigint.
    let value = if end == 0 { 0 } else { u64::try_from(text[..end].parse::<i64>().ok()?).ok()? };
    Some((value, &text[end..]))
}
/// xmin, xmax and the list behind them.
fn head(text: &str) -> Option<(u64, u64, &str)> {
    let (xmin, rest) = number(text)?;
    let (xmax, rest) = number(rest.strip_prefix(':')?)?;
    Some((xmin, xmax, rest.strip_prefix(':')?)).filter(|_| xmin != 0 && xmax >= xmin)
}
fn parts(text: &str) -> Result<Option<SnapshotText>> {
    let Some((xmin, xmax, mut rest)) = head(text) else { return Ok(None) };
    let mut running: Vec<u64> = Vec::new();
    while !rest.is_empty() {
        work::step(30)?;
        let Some((value, behind)) = number(rest) else { return Ok(None) };
        let last = running.last().copied().unwrap_or(0);
        if value < xmin || value >= xmax || value < last {
            return Ok(None);
        }
        if value != last {
            running.push(value);
        }
        rest = match behind.strip_prefix(',') {
            Some(more) => more,
            None if behind.is_empty() => behind,
            None => return Ok(None),
        };
    }
    Ok(Some(SnapshotText { xmin, xmax, running }))
}

impl SnapshotText {
    pub fn parse(text: &str) -> Result<SnapshotText> {
        parts(text)?.ok_or_else(|| invalid_syntax("pg_snapshot", text))
    }
    pub fn text(&self) -> Result<String> {
        let mut out = format!("{}:{}:", self.xmin, self.xmax);
        for (i, xid) in self.running.iter().enumerate() {
            work::step(50)?;
            if i > 0 {
                out.push(',');
            }
            out.push_str(&xid.to_string());
        }
        Ok(out)
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
    pub fn receive(bytes: &[u8]) -> Result<Option<SnapshotText>> {
        let Some((count, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let numbers: Vec<u64> =
            rest.chunks_exact(8).map(|c| u64::from_be_bytes(c.try_into().unwrap_or_default())).collect();
        let [xmin, xmax, running @ ..] = &numbers[..] else { return Ok(None) };
        if rest.len() % 8 != 0 || running.len() != u32::from_be_bytes(*count) as usize {
            return Ok(None);
        }
        parts(&SnapshotText { xmin: *xmin, xmax: *xmax, running: running.to_vec() }.text()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn long_lists_give_way() {
        let text = format!("1:{}:{}", 100_002, (1..=100_000).map(|i| format!("{i},")).collect::<String>());
        asks(worth(100_000 * 30), |_| SnapshotText::parse(&text).map(|s| s.running.len()));
        asks(worth(100_000 * 80), |_| SnapshotText::parse(&text)?.text());
        assert_eq!(SnapshotText::parse("3:9:4,4,7").unwrap().text().unwrap(), "3:9:4,7");
        assert!(["", "0:1:", "3:2:", "3:9:10", "3:9:5,4"].iter().all(|bad| SnapshotText::parse(bad).is_err()));
    }
}
