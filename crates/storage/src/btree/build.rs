//! Building an index from sorted entries, bottom up, one log record per page.
//!
//! Invariants
//! 1. The root is written last; until then the index looks empty.
//!
//! Must not know: where the entries come from.

use super::node::{self, MAX_KEY};
use crate::directory::Relation;
use crate::method::IndexEntries;
use crate::page::PAGE;
use crate::txn::Transaction;
use crate::wal::record::PageOp;
use kilndb_base::bytes::put_prefixed;
use kilndb_base::park::Park;
use kilndb_base::{Error, Result, sqlstate};

const FILL: usize = PAGE * 9 / 10 - 64;

#[derive(Default)]
struct TreeLevel {
    block: Option<u32>,
    low: Vec<u8>,
    /// The entries of the node that is being filled, as its image has them, and how many they are.
    entries: Vec<u8>,
    count: usize,
    /// What they take on the page.
    bytes: usize,
    last_key: Vec<u8>,
}

impl TreeLevel {
    fn has_room(&self, entry: &[u8]) -> bool {
        self.bytes + entry.len() + 2 <= FILL || self.count <= 1
    }
    fn push(&mut self, entry: &[u8]) {
        self.bytes += entry.len() + 2;
        self.count += 1;
        put_prefixed(&mut self.entries, entry);
    }
}

impl Relation {
    /// Builds an empty tree from entries sorted by (key, rid). Replaces its contents.
    pub(crate) fn tree_build(
        &self,
        txn: &mut Transaction,
        entries: &mut dyn IndexEntries,
        park: &dyn Park,
    ) -> Result<()> {
        let txn = txn.of(self)?;
        txn.begin_write()?;
        txn.logged_work |= self.logged();
        let mut levels = vec![TreeLevel::default()];
        let (mut n, mut bytes) = (0u64, Vec::new());
        while let Some((key, rid)) = entries.next_entry()? {
            if key.len() > MAX_KEY {
                return Err(Error::new(
                    sqlstate::PROGRAM_LIMIT_EXCEEDED,
                    format!("index row size {} exceeds btree maximum {MAX_KEY}", key.len()),
                ));
            }
            let rid = rid.to_u64();
            let level = &levels[0];
            assert!(level.count == 0 || level.last_key.as_slice() <= key, "an index is built from entries in order");
            bytes.clear();
            node::build_into(&mut bytes, key, rid, None, 0);
            if !levels[0].has_room(&bytes) {
                let last = &levels[0].last_key;
                let p = last.iter().zip(key).take_while(|(a, b)| a == b).count();
                let separator = if p < key.len() { (key[..=p].to_vec(), 0) } else { (key.to_vec(), rid) };
                self.close_node(&mut levels, 0, separator)?;
            }
            let level = &mut levels[0];
            level.push(&bytes);
            level.last_key.clear();
            level.last_key.extend_from_slice(key);
            n += 1;
            if n.is_multiple_of(4096) {
                park.checkpoint()?;
            }
        }
        // Close every level; the highest becomes the root.
        let mut at = 0;
        loop {
            let level = std::mem::take(&mut levels[at]);
            let image = node::image_of(0, &level.low, &[], &level.entries);
            if at + 1 == levels.len() && level.block.is_none() {
                return self.write_node(0, at as u8, &image, None);
            }
            let block = level.block.ok_or_else(|| Error::internal("index build: a node has no block"))?;
            self.write_node(block, at as u8, &image, None)?;
            at += 1;
        }
    }
    fn write_node(&self, block: u32, level: u8, image: &[u8], _reserved: Option<()>) -> Result<()> {
        let mut page = self.core.pool.write(self.pid(block)?)?;
        let ops = [(self.target(block), PageOp::TreeImage { level, image })];
        self.core.emit_plain(self, 0, &ops, &[0], &mut [&mut page])
    }
    /// Writes the level's current node, which ends before `separator`; a new one begins there.
    fn close_node(&self, levels: &mut Vec<TreeLevel>, at: usize, separator: (Vec<u8>, u64)) -> Result<()> {
        let fence = node::build(&separator.0, separator.1, None, 0);
        let new_block = |level: usize| self.extend(level as u8).map(|(block, _)| block);
        let first = levels[at].block.is_none();
        let block = match levels[at].block {
            Some(b) => b,
            None => new_block(at)?,
        };
        let next = new_block(at)?;
        let old = std::mem::replace(
            &mut levels[at],
            TreeLevel { block: Some(next), low: fence.clone(), ..TreeLevel::default() },
        );
        let image = node::image_of(next, &old.low, &fence, &old.entries);
        self.write_node(block, at as u8, &image, None)?;
        if levels.len() == at + 1 {
            levels.push(TreeLevel::default());
        }
        if first {
            levels[at + 1].push(&node::build(&[], 0, Some(block), 0));
        }
        let entry = node::build(&separator.0, separator.1, Some(next), 0);
        if !levels[at + 1].has_room(&entry) {
            self.close_node(levels, at + 1, separator)?;
        }
        levels[at + 1].push(&entry);
        Ok(())
    }
}
