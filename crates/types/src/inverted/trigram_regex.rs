//! Trigrams that a text must have to match a regular expression.
//!
//! Invariants
//! 1. What is found is necessary, never sufficient: where a part is too complicated, less is asked for.
//! 2. The pattern is read as the matcher reads it, so that the two cannot differ.
//!
//! Of each part is known what symbols it matches (if these are few), or what these begin and end with. Parts that
//! follow one another have the trigrams that are across the seam.

use super::{TermCollector, TermCondition, trigrams};
use crate::functions::regex::translated;
use crate::trigram::{GAP, symbol};
use fancy_regex::{Assertion, Expr};
use kilndb_base::Result;
use regex_syntax::hir::{ClassUnicode, ClassUnicodeRange, HirKind};

/// Different texts that one part may stand for, and how long they may be.
const TEXTS_MAX: usize = 100;
const TEXT_MAX: usize = 30;
/// Members of a class that are looked at, and different symbols among them.
const MEMBERS_MAX: u32 = 3000;
const SYMBOLS_MAX: usize = 40;
/// Repetitions that are written out.
const COPIES_MAX: usize = 6;
const DEPTH_MAX: usize = 100;

/// Symbols of which each match has one as what this is about. With the empty text among them nothing is known.
type TextSet = Vec<String>;

#[derive(Clone)]
enum MatchedTexts {
    /// Whole matches.
    Exact(TextSet),
    /// The beginnings and the ends of matches.
    Ends(TextSet, TextSet),
}

#[derive(Clone)]
struct RegexPart {
    matched: MatchedTexts,
    need: TermCondition,
}

pub fn need(pattern: &str, any_case: bool, terms: &mut TermCollector) -> Result<TermCondition> {
    let text = translated(pattern, any_case)?;
    // What is no regular expression is told when rows are matched.
    let Ok(tree) = Expr::parse_tree(&text) else { return Ok(TermCondition::Anything) };
    let mut reader = TrigramExtractor { terms, has_calls: tree.contains_subroutines };
    let part = reader.part(&tree.expr, 0);
    Ok(reader.opened(part).need)
}

fn unknown() -> RegexPart {
    RegexPart { matched: MatchedTexts::Ends(vec![String::new()], vec![String::new()]), need: TermCondition::Anything }
}
fn exactly(texts: TextSet) -> RegexPart {
    RegexPart { matched: MatchedTexts::Exact(texts), need: TermCondition::Anything }
}
fn nothing() -> RegexPart {
    exactly(vec![String::new()])
}

fn in_order(mut texts: TextSet) -> TextSet {
    texts.sort_unstable();
    texts.dedup();
    texts
}
fn joined(a: &TextSet, b: &TextSet) -> Option<TextSet> {
    if a.len() * b.len() > TEXTS_MAX {
        return None;
    }
    Some(in_order(a.iter().flat_map(|a| b.iter().map(move |b| format!("{a}{b}"))).collect()))
}

/// The last (or first) two symbols of each: what a trigram across a seam needs.
fn cut(texts: &TextSet, at_end: bool) -> TextSet {
    let cut = |text: &String| -> String {
        let count = text.chars().count();
        if at_end { text.chars().skip(count.saturating_sub(2)).collect() } else { text.chars().take(2).collect() }
    };
    let texts = in_order(texts.iter().map(cut).collect());
    if texts.len() > TEXTS_MAX || texts.first().is_some_and(String::is_empty) { vec![String::new()] } else { texts }
}

struct TrigramExtractor<'t> {
    terms: &'t mut TermCollector,
    /// Groups may be run from elsewhere.
    has_calls: bool,
}

impl TrigramExtractor<'_> {
    fn part(&mut self, e: &Expr, depth: usize) -> RegexPart {
        if depth > DEPTH_MAX || self.has_calls {
            return unknown();
        }
        match e {
            Expr::Empty | Expr::LookAround(..) => nothing(),
            Expr::Assertion(
                Assertion::StartText | Assertion::EndText | Assertion::StartLine { .. } | Assertion::EndLine { .. },
            ) => exactly(vec![GAP.to_string()]),
            Expr::Assertion(_) => nothing(),
            Expr::Literal { val, casei } => {
                let mut all = nothing();
                for c in val.chars() {
                    let one = if *casei {
                        self.class_of(ClassUnicode::new([ClassUnicodeRange::new(c, c)]), true)
                    } else {
                        exactly(vec![symbol(c).to_string()])
                    };
                    all = self.followed(all, one);
                }
                all
            }
            Expr::Concat(list) => {
                let mut all = nothing();
                for e in list {
                    let one = self.part(e, depth + 1);
                    all = self.followed(all, one);
                }
                all
            }
            Expr::Alt(list) => {
                let parts: Vec<RegexPart> = list.iter().map(|e| self.part(e, depth + 1)).collect();
                self.one_of(parts)
            }
            Expr::Group(e) => self.part(e, depth + 1),
            Expr::Repeat { child, lo, hi, .. } => self.repeated(child, *lo, *hi, depth),
            Expr::Delegate { inner, casei } => self.class(inner, *casei),
            _ => unknown(),
        }
    }

    fn repeated(&mut self, child: &Expr, lo: usize, hi: usize, depth: usize) -> RegexPart {
        let one = self.part(child, depth + 1);
        if (lo, hi) == (0, 1) {
            return self.one_of(vec![one, nothing()]);
        }
        let mut all = nothing();
        for _ in 0..lo.min(COPIES_MAX) {
            all = self.followed(all, one.clone());
        }
        if lo == hi && lo <= COPIES_MAX {
            return all;
        }
        if lo == 0 {
            return unknown();
        }
        // It ends with the last copy, whichever that is.
        let all = self.followed(all, unknown());
        let ends = self.opened(one);
        match (all.matched, ends.matched) {
            (MatchedTexts::Ends(begins, _), MatchedTexts::Ends(_, ends)) => {
                RegexPart { matched: MatchedTexts::Ends(begins, ends), need: all.need }
            }
            (matched, _) => RegexPart { matched, need: all.need },
        }
    }

    /// A class of characters.
    fn class(&mut self, inner: &str, any_case: bool) -> RegexPart {
        let parsed = regex_syntax::ParserBuilder::new().case_insensitive(any_case).build().parse(inner);
        match parsed.map(|hir| hir.into_kind()) {
            Ok(HirKind::Class(regex_syntax::hir::Class::Unicode(class))) => self.class_of(class, false),
            Ok(HirKind::Literal(literal)) => match std::str::from_utf8(&literal.0) {
                Ok(text) => exactly(vec![text.chars().map(symbol).collect()]),
                Err(_) => unknown(),
            },
            _ => unknown(),
        }
    }

    fn class_of(&mut self, mut class: ClassUnicode, fold: bool) -> RegexPart {
        if fold && class.try_case_fold_simple().is_err() {
            return unknown();
        }
        let members: u32 =
            class.ranges().iter().map(|r| r.end() as u32 - r.start() as u32 + 1).fold(0, u32::saturating_add);
        if members > MEMBERS_MAX {
            return unknown();
        }
        let symbols = in_order(
            class.ranges().iter().flat_map(|r| (r.start()..=r.end()).map(|c| symbol(c).to_string())).collect(),
        );
        if symbols.len() > SYMBOLS_MAX { unknown() } else { exactly(symbols) }
    }

    fn any_of(&mut self, texts: &TextSet) -> TermCondition {
        if texts.first().is_some_and(String::is_empty) {
            return TermCondition::Anything;
        }
        // These texts are too short for others to get their turn in one of them, which is all that fails.
        let of_run = |text: &String| trigrams::of_run(text, self.terms).unwrap_or(TermCondition::Anything);
        TermCondition::any(texts.iter().map(of_run).collect())
    }

    /// A part of which only the ends are kept, and the trigrams that it needs.
    fn opened(&mut self, part: RegexPart) -> RegexPart {
        let MatchedTexts::Exact(texts) = part.matched else { return part };
        let need = self.any_of(&texts);
        RegexPart {
            matched: MatchedTexts::Ends(cut(&texts, false), cut(&texts, true)),
            need: TermCondition::all(vec![part.need, need]),
        }
    }

    fn followed(&mut self, a: RegexPart, b: RegexPart) -> RegexPart {
        let mut needs = vec![a.need.clone(), b.need.clone()];
        if let (MatchedTexts::Exact(x), MatchedTexts::Exact(y)) = (&a.matched, &b.matched)
            && let Some(texts) = joined(x, y).filter(|texts| texts.iter().all(|t| t.chars().count() <= TEXT_MAX))
        {
            return RegexPart { matched: MatchedTexts::Exact(texts), need: TermCondition::all(needs) };
        }
        let is_empty = |m: &MatchedTexts| matches!(m, MatchedTexts::Exact(texts) if texts.iter().any(String::is_empty));
        let (a_may_be_empty, b_may_be_empty) = (is_empty(&a.matched), is_empty(&b.matched));
        let begins = match (&a.matched, &b.matched) {
            (MatchedTexts::Exact(x), MatchedTexts::Ends(begins, _)) => joined(x, begins),
            _ => None,
        };
        let ends = match (&a.matched, &b.matched) {
            (MatchedTexts::Ends(_, ends), MatchedTexts::Exact(y)) => joined(ends, y),
            _ => None,
        };
        for texts in begins.iter().chain(&ends) {
            needs.push(self.any_of(texts));
        }
        let (a, b) = (self.opened(a), self.opened(b));
        needs.extend([a.need, b.need]);
        let (MatchedTexts::Ends(a_begins, a_ends), MatchedTexts::Ends(b_begins, b_ends)) = (a.matched, b.matched)
        else {
            return unknown();
        };
        if let Some(seam) = joined(&a_ends, &b_begins) {
            needs.push(self.any_of(&seam));
        }
        let lost = || vec![String::new()];
        let begins = begins.map_or(if a_may_be_empty { lost() } else { a_begins }, |texts| cut(&texts, false));
        let ends = ends.map_or(if b_may_be_empty { lost() } else { b_ends }, |texts| cut(&texts, true));
        RegexPart { matched: MatchedTexts::Ends(begins, ends), need: TermCondition::all(needs) }
    }

    fn one_of(&mut self, parts: Vec<RegexPart>) -> RegexPart {
        let mut exact = Vec::new();
        let all_exact = parts.iter().all(|p| match &p.matched {
            MatchedTexts::Exact(texts) if p.need == TermCondition::Anything => {
                exact.extend(texts.iter().cloned());
                true
            }
            _ => false,
        });
        if all_exact && exact.len() <= TEXTS_MAX {
            return exactly(in_order(exact));
        }
        let (mut begins, mut ends, mut needs) = (Vec::new(), Vec::new(), Vec::new());
        for part in parts {
            let part = self.opened(part);
            needs.push(part.need);
            if let MatchedTexts::Ends(b, e) = part.matched {
                begins.extend(b);
                ends.extend(e);
            }
        }
        RegexPart {
            matched: MatchedTexts::Ends(cut(&in_order(begins), false), cut(&in_order(ends), true)),
            need: TermCondition::any(needs),
        }
    }
}
