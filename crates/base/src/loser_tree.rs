//! The order of a merge: which of several sorted sources has the record that comes next.
//!
//! Must not know: what sources are, and what their records have but the first bytes of a key.

/// A source by the first bytes of its present record's key, as a number that orders like them: most records need no more to
/// be told apart. A source without a record comes last.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct SourceHead {
    is_done: bool,
    prefix: u64,
}

impl SourceHead {
    fn of(prefix: Option<u64>) -> SourceHead {
        SourceHead { is_done: prefix.is_none(), prefix: prefix.unwrap_or(0) }
    }
}

/// A tree of losers (Knuth, The Art of Computer Programming 3, 5.4.1) over the sources: each node has the source that lost
/// there, so that a new record is compared with one source on each level. Whoever asks the tree to order them says which of
/// two sources with the same prefix comes first.
#[derive(Default)]
pub struct LoserTree {
    heads: Vec<SourceHead>,
    /// By node, from 1 on, the loser; at 0 the source that comes next. The node above the leaf of source n, of k, has
    /// number (n + k) / 2, and that above a node half its number.
    nodes: Vec<u32>,
}

impl LoserTree {
    /// The sources 0, 1, … by the prefixes of their first records; None: a source has no record.
    pub fn of(prefixes: impl IntoIterator<Item = Option<u64>>, comes_first: impl Fn(u32, u32) -> bool) -> LoserTree {
        let heads: Vec<SourceHead> = prefixes.into_iter().map(SourceHead::of).collect();
        let nobody = heads.len() as u32;
        let mut tree = LoserTree { nodes: vec![nobody; heads.len()], heads };
        // Who comes to a node first waits there for the one from the other side.
        for source in 0..nobody {
            let mut winner = source;
            let mut node = (source + nobody) / 2;
            while node > 0 && tree.nodes[node as usize] != nobody {
                winner = tree.play(node, winner, &comes_first);
                node /= 2;
            }
            tree.nodes[node as usize] = winner;
        }
        tree
    }
    /// The source whose record comes next.
    #[inline]
    pub fn first(&self) -> Option<u32> {
        self.nodes.first().copied().filter(|first| !self.heads[*first as usize].is_done)
    }
    /// The source that came next has gone on to a record with this prefix; None: it has no more.
    #[inline]
    pub fn replace_first(&mut self, prefix: Option<u64>, comes_first: impl Fn(u32, u32) -> bool) {
        let Some(&first) = self.nodes.first() else { return };
        self.heads[first as usize] = SourceHead::of(prefix);
        let mut winner = first;
        let mut node = (first + self.heads.len() as u32) / 2;
        while node > 0 {
            winner = self.play(node, winner, &comes_first);
            node /= 2;
        }
        self.nodes[0] = winner;
    }
    /// Leaves the loser at the node, and returns the winner.
    #[inline]
    fn play(&mut self, node: u32, source: u32, comes_first: &impl Fn(u32, u32) -> bool) -> u32 {
        let there = self.nodes[node as usize];
        let (a, b) = (self.heads[there as usize], self.heads[source as usize]);
        let is_there_first = if a == b { !a.is_done && comes_first(there, source) } else { a < b };
        if is_there_first {
            self.nodes[node as usize] = source;
            there
        } else {
            source
        }
    }
}

#[cfg(test)]
mod tests {
    use super::LoserTree;

    #[test]
    fn sources_are_merged_in_order() {
        let sources = [vec![1, 4, 4, 9], vec![], vec![4, 5], vec![0, 4, 10, 11, 12]];
        let mut read = [0; 4];
        let by_number = |a: u32, b: u32| a < b;
        let mut tree = LoserTree::of(sources.iter().map(|source| source.first().copied()), by_number);
        let mut merged = Vec::new();
        while let Some(source) = tree.first() {
            let at = source as usize;
            merged.push((sources[at][read[at]], source));
            read[at] += 1;
            tree.replace_first(sources[at].get(read[at]).copied(), by_number);
        }
        assert_eq!(merged, [(0, 3), (1, 0), (4, 0), (4, 0), (4, 2), (4, 3), (5, 2), (9, 0), (10, 3), (11, 3), (12, 3)]);
        tree.replace_first(None, by_number);
        assert_eq!(tree.first(), None);
        assert_eq!(LoserTree::of([], by_number).first(), None);
    }

    /// Random sources, from none to many: what is merged is sorted, of equal records those of a lower source first.
    #[test]
    fn any_number_of_sources() {
        let mut state = 3u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        for count in 0..40 {
            let sources: Vec<Vec<u64>> = (0..count)
                .map(|_| {
                    let mut source: Vec<u64> = (0..next(30)).map(|_| next(20)).collect();
                    source.sort_unstable();
                    source
                })
                .collect();
            let mut read = vec![0; count];
            let mut tree = LoserTree::of(sources.iter().map(|source| source.first().copied()), |a, b| a < b);
            let mut merged = Vec::new();
            while let Some(source) = tree.first() {
                let at = source as usize;
                merged.push((sources[at][read[at]], source));
                read[at] += 1;
                tree.replace_first(sources[at].get(read[at]).copied(), |a, b| a < b);
            }
            let all = sources.iter().zip(0..).flat_map(|(source, n)| source.iter().map(move |value| (*value, n)));
            let mut expected: Vec<(u64, u32)> = all.collect();
            expected.sort_unstable();
            assert!(merged == expected, "{count} sources");
        }
    }
}
