//! Finding the bytes that have a meaning in COPY's text formats, eight at a time: most values are shorter than what a
//! search for one byte after the other pays off for.

const LOW: u64 = 0x7f7f_7f7f_7f7f_7f7f;
const ONES: u64 = 0x0101_0101_0101_0101;

/// Bytes looked for: the line's end, the delimiter, the backslash or the quote, and zero, which no value may have.
pub(super) struct MarkedBytes {
    delimiter: u8,
    /// What follows a backslash belongs to the value.
    has_escapes: bool,
    patterns: [u64; 4],
}

/// A line's marks as far as it has been looked at. Positions count from the line's start.
#[derive(Default)]
pub(super) struct LineMarks {
    pub delimiters: Vec<usize>,
    /// The line has backslashes or quotes, or zeros.
    pub is_special: bool,
    looked_at: usize,
    /// The byte here follows a backslash, so that it belongs to the value.
    escaped_at: Option<usize>,
}

impl LineMarks {
    pub fn clear(&mut self) {
        self.delimiters.clear();
        self.is_special = false;
        self.looked_at = 0;
        self.escaped_at = None;
    }
}

impl MarkedBytes {
    /// Those of the text format.
    pub fn of_text(delimiter: u8) -> MarkedBytes {
        MarkedBytes::new(delimiter, b'\\', true)
    }
    /// Those of CSV. From the first quote on a line's end may be within a value, which is not known here.
    pub fn of_csv(delimiter: u8, quote: u8) -> MarkedBytes {
        MarkedBytes::new(delimiter, quote, false)
    }
    fn new(delimiter: u8, special: u8, has_escapes: bool) -> MarkedBytes {
        let patterns = [b'\n', delimiter, special, 0].map(|byte| u64::from(byte) * ONES);
        MarkedBytes { delimiter, has_escapes, patterns }
    }

    /// The highest bit of each byte of `word` that is one of those looked for, and no other bit.
    #[inline]
    fn found_in(&self, word: u64) -> u64 {
        self.patterns.iter().fold(0, |found, pattern| {
            let difference = word ^ pattern;
            // Exact for each byte: nothing is carried from one to the next.
            found | !(((difference & LOW) + LOW) | difference | LOW)
        })
    }

    /// Looks on in a line, of which `text` has all that is there: where it ends, or None if its end is not there.
    pub fn line_end(&self, text: &[u8], marks: &mut LineMarks) -> Option<usize> {
        let mut words = text[marks.looked_at..].chunks_exact(8);
        for bytes in &mut words {
            let mut word = [0; 8];
            word.copy_from_slice(bytes);
            let found = self.found_in(u64::from_le_bytes(word));
            if found != 0
                && let Some(end) = self.note(found, text, marks)
            {
                return Some(end);
            }
            marks.looked_at += 8;
        }
        let mut last = [b' '; 8];
        let rest = words.remainder();
        last[..rest.len()].copy_from_slice(rest);
        // Bytes after the end of the text must not be marks, whatever the delimiter.
        let is_there = (1u64 << (8 * rest.len())) - 1;
        let found = self.found_in(u64::from_le_bytes(last)) & is_there;
        let end = self.note(found, text, marks);
        marks.looked_at += rest.len();
        end
    }

    #[inline]
    fn note(&self, mut found: u64, text: &[u8], marks: &mut LineMarks) -> Option<usize> {
        while found != 0 {
            let at = marks.looked_at + found.trailing_zeros() as usize / 8;
            found &= found - 1;
            if marks.escaped_at == Some(at) {
                continue;
            }
            match text[at] {
                b'\n' => return Some(at),
                byte if byte == self.delimiter => marks.delimiters.push(at),
                byte => {
                    marks.is_special = true;
                    if byte == b'\\' && self.has_escapes {
                        marks.escaped_at = Some(at + 1);
                    }
                }
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &[u8], pieces: usize) -> (Option<usize>, Vec<usize>, bool) {
        let (marked, mut marks) = (MarkedBytes::of_text(b'\t'), LineMarks::default());
        let mut end = None;
        for there in (0..=text.len()).step_by(pieces).chain([text.len()]) {
            end = marked.line_end(&text[..there], &mut marks);
            if end.is_some() {
                break;
            }
        }
        (end, marks.delimiters, marks.is_special)
    }

    #[test]
    fn quotes_are_marks_of_csv() {
        let marked = MarkedBytes::of_csv(b',', b'"');
        let of = |text: &[u8]| {
            let mut marks = LineMarks::default();
            (marked.line_end(text, &mut marks), marks.delimiters, marks.is_special)
        };
        assert_eq!(of(b"1,a\\,2\\\n"), (Some(7), vec![1, 4], false));
        assert_eq!(of(b"1,\"a\"\n"), (Some(5), vec![1], true));
        assert!(of(b"1,a\0\n").2);
    }

    /// However the text arrives, the marks are the same as looking at byte after byte finds.
    #[test]
    fn marks_are_found_in_pieces() {
        let texts: [(&[u8], Option<usize>, &[usize], bool); 7] = [
            (b"", None, &[], false),
            (b"\n\t", Some(0), &[], false),
            (b"1\t22\t\t333333333333333\n4\t\n", Some(21), &[1, 4, 5], false),
            (b"a\\\nb\\\\\nc", Some(6), &[], true),
            (b"1234567\\\t\t\x008\t9", None, &[9, 12], true),
            ("ä\u{80}\u{ff}\u{10a}\tö\n".as_bytes(), Some(11), &[8], false),
            (b"12345678\n", Some(8), &[], false),
        ];
        for (text, end, delimiters, is_special) in texts {
            for pieces in 1..=17 {
                assert_eq!(line(text, pieces), (end, delimiters.to_vec(), is_special), "{text:?} by {pieces}");
            }
        }
    }
}
