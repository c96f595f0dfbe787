//! What somebody who waits for experiments sees: a line for each run, with its seconds as a sparkline while it lasts.
//!
//! 1. Where standard error is no terminal, a line is written when a run has ended, and nothing before.
//!
//! Must not know: servers.

use std::io::{IsTerminal, Write};

const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
/// Seconds that a sparkline shows.
const SECONDS_MAX: usize = 40;

pub(super) struct LabProgress {
    is_terminal: bool,
    run: String,
    /// Transactions by second.
    seconds: Vec<u64>,
    ended: u64,
}

impl LabProgress {
    pub fn new() -> LabProgress {
        let is_terminal = std::io::stderr().is_terminal();
        LabProgress { is_terminal, run: String::new(), seconds: Vec::new(), ended: 0 }
    }
    pub fn experiment(&mut self, title: &str) {
        self.line(&format!("\n{title}"));
    }
    pub fn preparing(&mut self, cell: &str) {
        self.show(&format!("  setting up {cell}"));
    }
    /// `round`: None of a warm-up.
    pub fn begin(&mut self, cell: &str, clients: usize, round: Option<usize>) {
        let round = round.map_or_else(|| "warming up".to_string(), |round| format!("round {round}"));
        self.run = format!("  {cell}, {clients} clients, {round}");
        (self.seconds, self.ended) = (Vec::new(), 0);
        let run = self.run.clone();
        self.show(&run);
    }
    /// `ended`: transactions so far.
    pub fn second(&mut self, ended: u64) {
        let before = std::mem::replace(&mut self.ended, ended);
        let new = ended.saturating_sub(before);
        self.seconds.push(new);
        let line = format!("{} {} {new} transactions/s", self.run, sparkline(&self.seconds));
        self.show(&line);
    }
    pub fn end(&mut self, rate: Option<f64>) {
        let rate = rate.map_or_else(String::new, |rate| format!(": {rate:.0}/s"));
        let line = format!("{}{rate} {}", self.run, sparkline(&self.seconds));
        self.line(&line);
    }
    /// What went wrong with a cell when none of its runs was at work.
    pub fn problem_of(&mut self, cell: &str, what: &str) {
        let line = format!("  {cell}: {what}");
        self.line(&line);
    }
    pub fn problem(&mut self, what: &str) {
        let line = format!("{}: {what}", self.run);
        self.line(&line);
    }

    /// A line that the next one takes the place of.
    fn show(&mut self, line: &str) {
        if self.is_terminal {
            self.write(&format!("\r\x1b[K{line}"));
        }
    }
    fn line(&mut self, line: &str) {
        let begin = if self.is_terminal { "\r\x1b[K" } else { "" };
        self.write(&format!("{begin}{line}\n"));
    }
    fn write(&mut self, text: &str) {
        // Nobody who looks on is no reason to stop.
        let mut stderr = std::io::stderr().lock();
        let _ = stderr.write_all(text.as_bytes()).and_then(|()| stderr.flush());
    }
}

fn sparkline(seconds: &[u64]) -> String {
    let last = &seconds[seconds.len().saturating_sub(SECONDS_MAX)..];
    let most = last.iter().copied().max().unwrap_or(0).max(1);
    last.iter().map(|count| BARS[(count * (BARS.len() as u64 - 1)).div_ceil(most) as usize]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sparkline_has_a_bar_for_each_second() {
        assert_eq!(sparkline(&[0, 1, 50, 100]), "▁▂▅█");
        assert_eq!(sparkline(&[]), "");
        assert_eq!(sparkline(&[0, 0]), "▁▁");
        assert_eq!(sparkline(&[7; 100]).chars().count(), SECONDS_MAX);
    }
}
