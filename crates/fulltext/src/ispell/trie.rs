//! Byte strings by their prefixes: a tree in one array, a node's entries side by side in the order of their bytes.

/// The entries below a prefix.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TrieNode {
    first: u32,
    count: u16,
}
impl TrieNode {
    pub fn is_empty(self) -> bool {
        self.count == 0
    }
}

#[derive(Clone, Copy, Debug)]
struct TrieEntry {
    byte: u8,
    /// The number of the key that ends here, from 1 on; 0: none does.
    key: u32,
    below: TrieNode,
}

#[derive(Debug)]
pub(super) struct Trie<T> {
    entries: Vec<TrieEntry>,
    values: Vec<T>,
    root: TrieNode,
}

impl<T> Trie<T> {
    /// A trie of keys that are in order, each of them once.
    pub fn new(keys: Vec<(Vec<u8>, T)>) -> Trie<T> {
        let mut entries: Vec<TrieEntry> = Vec::new();
        let mut root = TrieNode::default();
        // Keys that share their first bytes, and the entry whose node they make.
        let mut waiting = std::collections::VecDeque::from([(0, keys.len(), 0, None::<usize>)]);
        while let Some((low, high, level, parent)) = waiting.pop_front() {
            let first = entries.len();
            let mut at = low;
            while let Some(byte) = keys.get(at).filter(|_| at < high).map(|k| k.0.get(level).copied()) {
                let Some(byte) = byte else {
                    at += 1;
                    continue;
                };
                let same = keys.get(at..high).unwrap_or_default();
                let end = at + same.partition_point(|k| k.0.get(level) == Some(&byte));
                let ends_here = same.first().is_some_and(|k| k.0.len() == level + 1);
                let below = at + usize::from(ends_here);
                if below < end {
                    waiting.push_back((below, end, level + 1, Some(entries.len())));
                }
                entries.push(TrieEntry {
                    byte,
                    key: if ends_here { at as u32 + 1 } else { 0 },
                    below: TrieNode::default(),
                });
                at = end;
            }
            let node = TrieNode { first: first as u32, count: (entries.len() - first) as u16 };
            match parent.and_then(|p| entries.get_mut(p)) {
                Some(entry) => entry.below = node,
                None => root = node,
            }
        }
        Trie { entries, values: keys.into_iter().map(|k| k.1).collect(), root }
    }
    pub fn root(&self) -> TrieNode {
        self.root
    }
    /// What a byte leads to, and the value of the key that ends there.
    pub fn step(&self, node: TrieNode, byte: u8) -> Option<(TrieNode, Option<&T>)> {
        let first = node.first as usize;
        let entries = self.entries.get(first..first + usize::from(node.count))?;
        let entry = entries.get(entries.binary_search_by_key(&byte, |e| e.byte).ok()?)?;
        Some((entry.below, (entry.key as usize).checked_sub(1).and_then(|i| self.values.get(i))))
    }
    pub fn get(&self, key: &[u8]) -> Option<&T> {
        let (last, before) = key.split_last()?;
        let node = before.iter().try_fold(self.root, |node, b| self.step(node, *b).map(|s| s.0))?;
        self.step(node, *last)?.1
    }
    /// The values of all keys that the bytes begin with, shortest first.
    pub fn prefixes<'t>(&'t self, bytes: impl Iterator<Item = u8> + 't) -> impl Iterator<Item = &'t T> {
        let mut node = Some(self.root);
        bytes
            .map_while(move |b| {
                let (below, value) = self.step(node?, b)?;
                node = Some(below);
                Some(value)
            })
            .flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::Trie;

    #[test]
    fn keys_are_found_and_nothing_else() {
        let mut words = vec!["a", "ab", "abc", "abd", "b", "bcd", "\u{e4}rger", "zz"];
        words.sort();
        let trie = Trie::new(words.iter().map(|w| (w.as_bytes().to_vec(), *w)).collect());
        for word in &words {
            assert_eq!(trie.get(word.as_bytes()), Some(word));
        }
        for other in ["", "bc", "abcd", "c", "z", "zzz"] {
            assert_eq!(trie.get(other.as_bytes()), None, "{other}");
        }
        assert_eq!(trie.prefixes("abde".bytes()).copied().collect::<Vec<_>>(), ["a", "ab", "abd"]);
        assert_eq!(Trie::<()>::new(Vec::new()).get(b"a"), None);
    }
}
