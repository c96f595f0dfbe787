//! ts_headline: the parts of a document that show best where a query matches, with its words marked.
//!
//! Invariant: finding the next cover is a binary search in the words that the query has, whatever the document's
//! length.

use crate::config::Config;
use crate::execute::{MatchPositions, TernaryAnswer, WordFinder};
use crate::parser::{Token, token};
use crate::query::{QueryItem, QueryOperand, TsQuery};
use crate::vector::limited;
use kilndb_base::{Error, Result, sqlstate};

struct HeadlineOptions {
    words_min: i32,
    words_max: i32,
    short_word: usize,
    fragments_max: i32,
    highlight_all: bool,
    start: String,
    stop: String,
    delimiter: String,
}

fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_PARAMETER_VALUE, message)
}

impl HeadlineOptions {
    fn new(given: &[(String, String)]) -> Result<HeadlineOptions> {
        let mut o = HeadlineOptions {
            words_min: 15,
            words_max: 35,
            short_word: 3,
            fragments_max: 0,
            highlight_all: false,
            start: "<b>".into(),
            stop: "</b>".into(),
            delimiter: " ... ".into(),
        };
        let mut short_word = 3;
        for (name, value) in given {
            let number = || {
                let bad = || {
                    Error::new(
                        sqlstate::INVALID_TEXT_REPRESENTATION,
                        format!("invalid input syntax for type integer: \"{value}\""),
                    )
                };
                value.trim().parse::<i32>().map_err(|_| bad())
            };
            match name.to_ascii_lowercase().as_str() {
                "maxwords" => o.words_max = number()?,
                "minwords" => o.words_min = number()?,
                "shortword" => short_word = number()?,
                "maxfragments" => o.fragments_max = number()?,
                "startsel" => o.start.clone_from(value),
                "stopsel" => o.stop.clone_from(value),
                "fragmentdelimiter" => o.delimiter.clone_from(value),
                "highlightall" => {
                    o.highlight_all =
                        matches!(value.to_ascii_lowercase().as_str(), "1" | "on" | "true" | "t" | "y" | "yes");
                }
                _ => return Err(invalid(format!("unrecognized headline parameter: \"{name}\""))),
            }
        }
        if !o.highlight_all {
            if o.words_min >= o.words_max {
                return Err(invalid("MinWords must be less than MaxWords"));
            }
            if o.words_min <= 0 {
                return Err(invalid("MinWords must be positive"));
            }
            for (name, value) in [("ShortWord", short_word), ("MaxFragments", o.fragments_max)] {
                if value < 0 {
                    return Err(invalid(format!("{name} must be >= 0")));
                }
            }
        }
        o.short_word = usize::try_from(short_word).unwrap_or(0);
        for (name, value) in [("StartSel", &o.start), ("StopSel", &o.stop), ("FragmentDelimiter", &o.delimiter)] {
            if value.len() > i16::MAX as usize {
                return Err(invalid(format!("value for \"{name}\" is too long")));
            }
        }
        Ok(o)
    }
}

#[derive(Clone, Copy)]
struct HeadlineWord<'a> {
    text: &'a str,
    kind: u8,
    position: u16,
    /// The number of the query's item that the word satisfies.
    item: Option<usize>,
    /// Whether the word stands here once more because it satisfies another item too.
    repeated: bool,
    selected: bool,
    shown: bool,
    replaced: bool,
    skipped: bool,
}

impl<'a> HeadlineWord<'a> {
    fn new(token: Token<'a>) -> HeadlineWord<'a> {
        HeadlineWord {
            text: token.text,
            kind: token.kind,
            position: 0,
            item: None,
            repeated: false,
            selected: false,
            shown: false,
            replaced: false,
            skipped: false,
        }
    }
}

fn is_compound(kind: u8) -> bool {
    matches!(kind, token::URL | token::NUM_COMPOUND | token::ASCII_COMPOUND | token::COMPOUND)
}
fn is_no_word(kind: u8) -> bool {
    matches!(kind, token::BLANK | token::TAG) || is_compound(kind)
}
fn is_no_end(kind: u8) -> bool {
    is_no_word(kind)
        || matches!(
            kind,
            token::SCIENTIFIC
                | token::VERSION
                | token::DECIMAL
                | token::SIGNED
                | token::UNSIGNED
                | token::PROTOCOL
                | token::ENTITY
        )
}

struct HeadlineDocument<'a> {
    words: Vec<HeadlineWord<'a>>,
    /// Indexes of the words that belong to the query, in order.
    hits: Vec<usize>,
    options: HeadlineOptions,
}

/// Some of the hits as something to search in.
struct HitStretch<'a, 'b> {
    words: &'b [HeadlineWord<'a>],
    hits: &'b [usize],
}
impl WordFinder for HitStretch<'_, '_> {
    fn find(&self, index: usize, _operand: &QueryOperand, places: Option<&mut MatchPositions>) -> TernaryAnswer {
        let mut found =
            self.hits.iter().filter_map(|h| self.words.get(*h)).filter(|w| w.item == Some(index)).peekable();
        if found.peek().is_none() {
            return TernaryAnswer::No;
        }
        if let Some(places) = places {
            for w in found {
                if places.positions.last().is_none_or(|last| *last < w.position) {
                    places.positions.push(w.position);
                }
            }
        }
        TernaryAnswer::Yes
    }
}

impl<'a> HeadlineDocument<'a> {
    fn new(
        config: &Config,
        text: &'a str,
        query: &TsQuery,
        options: HeadlineOptions,
        notices: &mut Vec<Error>,
    ) -> Result<HeadlineDocument<'a>> {
        let operands: Vec<(usize, &QueryOperand)> = query
            .items
            .iter()
            .enumerate()
            .filter_map(|(i, item)| if let QueryItem::Operand(o) = item { Some((i, o)) } else { None })
            .collect();
        let (mut words, mut hits, mut position) = (Vec::new(), Vec::new(), 0u32);
        config.each_group(config.tokens(text, notices), &mut |group| {
            position += u32::from(group.lexemes.is_some());
            let lexemes = group.lexemes.unwrap_or_default();
            for token in group.tokens {
                let mut place = position;
                words.push(HeadlineWord::new(token));
                for lexeme in &lexemes {
                    place += u32::from(lexeme.adds_position);
                    let is_meant = |o: &QueryOperand| {
                        if o.prefix { lexeme.word.starts_with(&*o.word) } else { *lexeme.word == *o.word }
                    };
                    let Some(mut entry) = words.last().copied() else { continue };
                    entry.position = limited(place);
                    words.pop();
                    words.push(entry);
                    for (index, _) in operands.iter().filter(|(_, o)| is_meant(o)) {
                        if entry.item.is_some() {
                            entry.repeated = true;
                        } else {
                            words.pop();
                        }
                        entry.item = Some(*index);
                        hits.push(words.len());
                        words.push(entry);
                    }
                }
            }
            position += lexemes.iter().filter(|l| l.adds_position).count() as u32;
            Ok(())
        })?;
        Ok(HeadlineDocument { words, hits, options })
    }
    fn word(&self, at: usize) -> Option<&HeadlineWord<'a>> {
        self.words.get(at)
    }
    fn counts(&self, at: usize) -> bool {
        self.word(at).is_some_and(|w| !is_no_word(w.kind))
    }
    fn is_interesting(&self, at: usize) -> bool {
        self.word(at).is_some_and(|w| w.item.is_some() && !w.repeated)
    }
    fn is_bad_end(&self, at: usize) -> bool {
        self.word(at).is_some_and(|w| is_no_end(w.kind) || w.text.len() <= self.options.short_word)
            && !self.is_interesting(at)
    }

    /// The next cover from a position on: first and last word.
    fn cover(&self, query: &TsQuery, locations: &[MatchPositions], next: &mut i64) -> Option<(usize, usize)> {
        let mut from = *next;
        loop {
            let mut end = -1i64;
            for l in locations {
                let at = l.positions.partition_point(|p| i64::from(*p) < from);
                end = end.max(i64::from(*l.positions.get(at)?));
            }
            if end < 0 {
                return None;
            }
            let mut start = i64::MAX - 1;
            for l in locations {
                let width = i64::from(l.width);
                let n = l.positions.partition_point(|p| i64::from(*p) - width <= end);
                let last = n.checked_sub(1).and_then(|i| l.positions.get(i)).map_or(-1, |p| i64::from(*p) - width);
                start = start.min(last);
            }
            let start = start.max(from);
            if start <= end {
                let place = |h: &usize| self.word(*h).map_or(0, |w| i64::from(w.position));
                let first = self.hits.partition_point(|h| place(h) < start);
                let last = self.hits.partition_point(|h| place(h) <= end);
                if let Some(hits) = self.hits.get(first..last)
                    && let (Some(p), Some(q)) = (hits.first(), hits.last())
                    && query.matches(&HitStretch { words: &self.words, hits })
                {
                    *next = start + 1;
                    return Some((*p, *q));
                }
            }
            from = start + 1;
        }
    }

    fn mark(&mut self, start: usize, end: usize) {
        let all = self.options.highlight_all;
        for w in self.words.get_mut(start..end).into_iter().flatten() {
            w.selected = w.item.is_some();
            w.replaced = !all && w.kind == token::TAG;
            w.skipped = is_compound(w.kind);
            w.shown = !w.repeated;
        }
    }
    /// The first words, where nothing matches: how far they reach.
    fn beginning(&self) -> usize {
        let (mut at, mut count) = (0, 0);
        while at < self.words.len() && count < self.options.words_min {
            count += i32::from(self.counts(at));
            at += 1;
        }
        at
    }

    fn mark_words(&mut self, query: &TsQuery, locations: &[MatchPositions]) {
        if self.options.highlight_all {
            return self.mark(0, self.words.len());
        }
        let mut best: Option<(usize, usize, i32, bool)> = None;
        let mut next = 0;
        while let Some((p, q)) = self.cover(query, locations, &mut next) {
            let (begin, end, interesting) = self.extent(p, q);
            let whole = begin <= p && end >= q;
            let is_better = best.is_none_or(|(_, best_end, best_interesting, best_whole)| {
                (whole && !best_whole)
                    || (whole == best_whole && interesting > best_interesting)
                    || (whole == best_whole
                        && interesting == best_interesting
                        && !self.is_bad_end(end)
                        && self.is_bad_end(best_end))
            });
            if is_better {
                best = Some((begin, end, interesting, whole));
            }
        }
        match best {
            Some((begin, end, ..)) => self.mark(begin, end + 1),
            None => self.mark(0, self.beginning()),
        }
    }
    /// A headline around a cover: first and last word, and how many interesting words are in it.
    fn extent(&self, p: usize, q: usize) -> (usize, usize, i32) {
        let (min, max) = (self.options.words_min, self.options.words_max);
        let (mut count, mut interesting, mut begin, mut end) = (0, 0, p, p);
        let mut at = p;
        while at <= q && count < max {
            count += i32::from(self.counts(at));
            interesting += i32::from(self.is_interesting(at));
            end = at;
            at += 1;
        }
        if count >= max {
            // No room: rather shorter than with a bad end.
            at = at.min(q);
            while count > min && self.is_bad_end(at) {
                count -= i32::from(self.counts(at));
                interesting -= i32::from(self.is_interesting(at));
                end = at.saturating_sub(1);
                at = end;
            }
            return (begin, end, interesting);
        }
        at -= 1;
        while at < self.words.len() && count < max {
            if at > q {
                count += i32::from(self.counts(at));
                interesting += i32::from(self.is_interesting(at));
            }
            end = at;
            if !self.is_bad_end(at) && count >= min {
                break;
            }
            at += 1;
        }
        if count < min {
            // The text is at its end: to the left, then.
            begin = 0;
            for i in (0..p).rev() {
                count += i32::from(self.counts(i));
                interesting += i32::from(self.is_interesting(i));
                if count >= max || (!self.is_bad_end(i) && count >= min) {
                    begin = i;
                    break;
                }
            }
        }
        (begin, end, interesting)
    }

    /// The next piece of a cover that is not longer than a headline: bounds, words, interesting words.
    fn piece(&self, mut start: usize, mut end: usize) -> HeadlineFragment {
        while start < end && !self.is_interesting(start) {
            start += 1;
        }
        let (mut count, mut interesting, mut at) = (0, 0, start);
        while at <= end && count < self.options.words_max {
            count += i32::from(self.counts(at));
            interesting += i32::from(self.is_interesting(at));
            at += 1;
        }
        if end > at {
            end = at;
            for i in (start..=at).rev() {
                end = i;
                if self.is_interesting(i) {
                    break;
                }
                count -= i32::from(self.counts(i));
            }
        }
        HeadlineFragment { start, end, count, interesting, gone: false }
    }
    fn mark_fragments(&mut self, query: &TsQuery, locations: &[MatchPositions]) {
        let mut fragments: Vec<HeadlineFragment> = Vec::new();
        let mut next = 0;
        while let Some((mut p, q)) = self.cover(query, locations, &mut next) {
            while p <= q {
                let piece = self.piece(p, q);
                p = piece.end + 1;
                fragments.push(piece);
            }
        }
        let mut any = false;
        for _ in 0..self.options.fragments_max {
            let (mut best, mut most, mut least) = (None, 0, i32::MAX);
            for (i, f) in fragments.iter().enumerate().filter(|(_, f)| !f.gone) {
                if most < f.interesting || (most == f.interesting && least > f.count) {
                    (best, most, least) = (Some(i), f.interesting, f.count);
                }
            }
            let Some((start, end)) = best.and_then(|i| fragments.get(i)).map(|f| self.stretched(f)) else { break };
            self.mark(start, end + 1);
            any = true;
            for (i, f) in fragments.iter_mut().enumerate() {
                f.gone |= Some(i) == best || (f.start <= end && f.end >= start);
            }
        }
        if !any {
            self.mark(0, self.beginning());
        }
    }
    /// A fragment with as many words around it as there is room for.
    fn stretched(&self, f: &HeadlineFragment) -> (usize, usize) {
        let max = self.options.words_max;
        let (mut start, mut end, mut count) = (f.start, f.end, f.count);
        if count >= max {
            return (start, end);
        }
        let is_free = |at: usize| self.word(at).is_some_and(|w| !w.shown);
        let (room, mut stretch) = ((max - count) / 2, 0);
        while start > 0 && stretch < room && is_free(start - 1) {
            start -= 1;
            stretch += i32::from(self.counts(start));
        }
        count += stretch;
        while start < f.start && self.is_bad_end(start) {
            count -= i32::from(self.counts(start));
            start += 1;
        }
        while count < max && is_free(end + 1) {
            end += 1;
            count += i32::from(self.counts(end));
        }
        while end > f.end && self.is_bad_end(end) {
            end -= 1;
        }
        (start, end)
    }

    fn write(&self) -> String {
        let (mut out, mut fragments, mut inside) = (String::new(), 0, false);
        for w in &self.words {
            if w.repeated {
                continue;
            }
            if !w.shown {
                inside = false;
                continue;
            }
            if !inside {
                inside = true;
                fragments += 1;
                if fragments > 1 {
                    out.push_str(&self.options.delimiter);
                }
            }
            if w.replaced {
                out.push(' ');
            } else if !w.skipped {
                let marks =
                    if w.selected { [self.options.start.as_str(), self.options.stop.as_str()] } else { ["", ""] };
                out.push_str(marks[0]);
                out.push_str(w.text);
                out.push_str(marks[1]);
            }
        }
        out
    }
}

struct HeadlineFragment {
    start: usize,
    end: usize,
    count: i32,
    interesting: i32,
    /// Chosen, or overlapped by a chosen one.
    gone: bool,
}

pub fn headline(
    config: &Config,
    text: &str,
    query: &TsQuery,
    options: &[(String, String)],
    notices: &mut Vec<Error>,
) -> Result<String> {
    let options = HeadlineOptions::new(options)?;
    let mut document = HeadlineDocument::new(config, text, query, options, notices)?;
    let all = HitStretch { words: &document.words, hits: &document.hits };
    let locations = query.locations(&all).unwrap_or_default();
    if document.options.fragments_max == 0 {
        document.mark_words(query, &locations);
    } else {
        document.mark_fragments(query, &locations);
    }
    Ok(document.write())
}
