//! Compound words: the ways in which a word is made of others.

use super::flags::*;
use super::trie::TrieNode;
use super::{AffixRule, CompoundJoint, Ispell, WORD_BYTES_MAX};

/// What PostgreSQL does not limit; no word of a language comes near.
const PARTINGS_MAX: usize = 4096;
const DEPTH_MAX: u32 = 128;

/// The shortest texts that may join parts.
pub(super) fn joints(affixes: &[AffixRule]) -> Vec<CompoundJoint> {
    let mut joints: Vec<CompoundJoint> = Vec::new();
    // An affix whose flag no word has joins nothing.
    let is_used = |a: &AffixRule| a.flag != Some(u32::MAX);
    for a in affixes.iter().filter(|a| a.rule.bits & COMPOUND_ANY != 0 && !a.rule.replacement.is_empty() && is_used(a))
    {
        let is_longer =
            |last: &CompoundJoint| last.is_suffix == a.rule.is_suffix && a.rule.replacement.ends_with(&*last.text);
        if !joints.last().is_some_and(is_longer) {
            joints.push(CompoundJoint { text: a.rule.replacement.clone(), is_suffix: a.rule.is_suffix });
        }
    }
    joints
}

/// Where a search for parts stands.
struct CompoundSearch<'a> {
    word: &'a str,
    parts: Vec<String>,
    /// Where the part begins that is being looked for.
    start: usize,
    /// The part ends behind this byte; None: anywhere.
    behind: Option<usize>,
    /// The words that begin as the part does; None: from the start on.
    node: Option<TrieNode>,
    depth: u32,
}

impl Ispell {
    /// The parts of a word, the last one as it stands there, in all ways.
    pub(super) fn parted(&self, word: &str) -> Vec<Vec<String>> {
        let Some(joints) = &self.joints else { return Vec::new() };
        let mut found = 0;
        self.part(
            joints,
            CompoundSearch { word, parts: Vec::new(), start: 0, behind: None, node: None, depth: 0 },
            &mut found,
        )
    }

    fn part(&self, joints: &[CompoundJoint], search: CompoundSearch<'_>, found: &mut usize) -> Vec<Vec<String>> {
        let CompoundSearch { word, mut parts, mut start, behind, depth, .. } = search;
        let bytes = word.as_bytes();
        let mut level = if search.node.is_some() { behind.unwrap_or(0) } else { start };
        let begin = Some(self.words.root()).filter(|n| !n.is_empty());
        let mut node = search.node.or(begin);
        let mut is_open = vec![true; bytes.len()];
        let mut others = Vec::new();
        *found += 1;
        if *found > PARTINGS_MAX || depth > DEPTH_MAX {
            return Vec::new();
        }
        while let Some(byte) = bytes.get(level) {
            if level > start {
                for (end, reach) in joints_at(joints, word, level, node.is_some()) {
                    // As PostgreSQL has it, the place is counted twice here.
                    let is_short = behind.is_some_and(|b| level + (level - start + reach) - 1 <= b);
                    let Some(open) =
                        is_open.get_mut(end - 1).filter(|open| **open && !is_short && end - start < WORD_BYTES_MAX)
                    else {
                        continue;
                    };
                    let place = if level == bytes.len() - 1 { COMPOUND_LAST } else { COMPOUND_MIDDLE };
                    let forms = word.get(start..end).map(|part| self.forms(part, place)).unwrap_or_default();
                    if !forms.is_empty() {
                        *open = false;
                        let parts = parts.iter().cloned().chain(forms).collect();
                        others.extend(self.part(
                            joints,
                            CompoundSearch { word, parts, start: end, behind: Some(end), node: None, depth: depth + 1 },
                            found,
                        ));
                    }
                }
            }
            let Some(from) = node else { break };
            let step = self.words.step(from, *byte);
            if let Some((_, Some(entry))) = step {
                let place = match () {
                    () if start == 0 => COMPOUND_BEGIN,
                    () if level == bytes.len() - 1 => COMPOUND_LAST,
                    () => COMPOUND_MIDDLE,
                };
                let may_end =
                    entry.bits & place != 0 && is_open.get(level) == Some(&true) && behind.is_none_or(|b| level > b);
                let part = word.get(start..=level).filter(|_| may_end);
                if let Some(part) = part {
                    if level + 1 == bytes.len() {
                        parts.push(part.to_string());
                        others.insert(0, parts);
                        return others;
                    }
                    // A longer word may begin here as well.
                    let longer = CompoundSearch {
                        word,
                        parts: parts.clone(),
                        start,
                        behind: Some(level),
                        node: Some(from),
                        depth: depth + 1,
                    };
                    others.extend(self.part(joints, longer, found));
                    parts.push(part.to_string());
                    level += 1;
                    (node, start) = (begin, level);
                    continue;
                }
            }
            node = step.map(|s| s.0).filter(|n| !n.is_empty());
            level += 1;
        }
        parts.push(word.get(start..).unwrap_or_default().to_string());
        others.insert(0, parts);
        others
    }
}

/// Where a part ends that one of the joints closes, at a place or, if need be, behind it; and how far from the place.
fn joints_at(joints: &[CompoundJoint], word: &str, level: usize, in_place: bool) -> Vec<(usize, usize)> {
    let Some(rest) = word.get(level..) else { return Vec::new() };
    let ends = joints.iter().filter(|j| j.text.len() < rest.len()).filter_map(|j| {
        let at = if in_place { rest.starts_with(&*j.text).then_some(0) } else { rest.find(&*j.text) }?;
        let reach = if j.is_suffix { at + j.text.len() } else { 0 };
        Some((level + reach, reach))
    });
    ends.collect()
}
