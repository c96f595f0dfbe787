//! The lines that COPY FROM has made rows of and the executor is not done with: their numbers and how they begin, to be
//! told of errors in them.

use kilndb_exec::RowPlace;

/// Of longer texts errors tell only the beginning.
const SHOWN_BYTES: usize = 100;

#[derive(Default)]
pub(super) struct KeptLines {
    /// The line's number, and where its text ends in `texts`.
    lines: Vec<(u64, usize)>,
    /// As much of each line as tells [`shown`] what to show of it.
    texts: Vec<u8>,
    /// Rows before the first of `lines`.
    before: u64,
    /// Where the last batch begins among `lines`.
    batch: usize,
}

impl KeptLines {
    pub fn begin_batch(&mut self) {
        self.batch = self.lines.len();
    }
    pub fn push(&mut self, number: u64, text: &[u8]) {
        self.texts.extend_from_slice(&text[..text.len().min(SHOWN_BYTES + 1)]);
        self.lines.push((number, self.texts.len()));
    }
    /// Adds lines that have been counted from the one behind the line with this number.
    pub fn append(&mut self, others: &KeptLines, before: u64) {
        let start = self.texts.len();
        self.texts.extend_from_slice(&others.texts);
        self.lines.extend(others.lines.iter().map(|(number, end)| (before + number, start + end)));
    }
    /// The rows so far are done with.
    pub fn forget(&mut self) {
        self.before += self.lines.len() as u64;
        self.lines.clear();
        self.texts.clear();
        self.batch = 0;
    }
    /// A row's line: its number and its text as errors show it.
    pub fn get(&self, place: RowPlace) -> Option<(u64, String)> {
        let index = match place {
            RowPlace::OfBatch(index) => self.batch + index,
            RowPlace::Number(number) => usize::try_from(number.checked_sub(self.before)?).ok()?,
        };
        let (number, end) = *self.lines.get(index)?;
        let start = index.checked_sub(1).and_then(|i| self.lines.get(i)).map_or(0, |(_, end)| *end);
        Some((number, shown(self.texts.get(start..end)?)))
    }
}

/// A text as errors show it.
pub(super) fn shown(text: &[u8]) -> String {
    if text.len() <= SHOWN_BYTES {
        return String::from_utf8_lossy(text).into_owned();
    }
    // Not in the middle of a character.
    let end = (0..=SHOWN_BYTES).rev().find(|end| text[*end] & 0xc0 != 0x80).unwrap_or(SHOWN_BYTES);
    format!("{}...", String::from_utf8_lossy(&text[..end]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_find_their_lines() {
        let mut lines = KeptLines::default();
        lines.begin_batch();
        lines.push(1, b"a");
        lines.push(3, b"bc");
        lines.begin_batch();
        lines.push(4, b"");
        assert_eq!(lines.get(RowPlace::OfBatch(0)), Some((4, "".to_string())));
        assert_eq!(lines.get(RowPlace::Number(1)), Some((3, "bc".to_string())));
        lines.forget();
        lines.begin_batch();
        lines.push(5, b"d");
        assert_eq!(lines.get(RowPlace::Number(3)), Some((5, "d".to_string())));
        assert_eq!(lines.get(RowPlace::Number(0)), None);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        assert_eq!(shown("x".repeat(100).as_bytes()), "x".repeat(100));
        assert_eq!(shown(format!("{}äb", "x".repeat(99)).as_bytes()), format!("{}...", "x".repeat(99)));
    }
}
