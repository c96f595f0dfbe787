//! Passes that make a tree as small as its entries allow, after many of them have been taken out: in the background, some
//! nodes at a time.
//!
//! An UPDATE of a whole table puts a second entry for each row into an index on a changed column, and purge takes the
//! first ones out: the leaves are half empty then, in a file that has grown to several times its size
//! (docs/decisions/0063).
//!
//! Invariants
//! 1. A pass can be cut off anywhere, by a crash too: each of its steps leaves a tree in order. What it has not done is
//!    left to the next one.
//! 2. A pass remembers keys, not nodes: the tree changes between two rounds.
//!
//! Must not know: rows, transactions.

use super::merge::{ChangeOutcome, ROOM_KEPT, SeenNode};
use super::shrink_queue::{LEAST_BLOCKS, QueuedTree, ShrinkPass, ShrinkPhase};
use crate::api::RelationKind;
use crate::core::Core;
use crate::directory::Relation;
use crate::page::PAGE;
use kilndb_base::Result;
use kilndb_base::sync::Arc;
use kilndb_base::sync::atomic::Ordering::Relaxed;

/// Nodes that one round looks at.
const NODES_AT_ONCE: usize = 64;
/// Blocks that one round looks at, or gives up.
const BLOCKS_AT_ONCE: u32 = 1024;
/// A pass begins when nothing was taken out of the tree, and nothing split, for so long: a statement that goes on would
/// fill the nodes again.
const QUIET_NS: u64 = 250_000_000;
/// Or when the tree has waited for so long.
const LONGEST_WAIT_NS: u64 = 5_000_000_000;
/// After so many splits a pass that merges nodes is cut off, unless the tree had waited too long for it: somebody puts
/// many entries in, and another one will be due.
const MOST_SPLITS: u64 = 64;
/// A tree with at most so many hundredths of the blocks that its entries need stays as it is: leaves that entries come to
/// and go from at random are two thirds full, and would soon be so again.
const WORTHWHILE_PERCENT: u64 = 140;
/// The bytes of entries that a full node has.
const FULL: u64 = (PAGE - ROOM_KEPT) as u64;
/// A pass keeps one free block in so many, for the splits that come.
const BLOCKS_PER_SPARE: u32 = 64;
const LEAST_SPARE: u32 = 2;
/// How often the nodes at the end are moved: meanwhile others may have come there.
const RELOCATIONS: u32 = 3;

impl Core {
    /// Does a part of a pass through the next tree; false if there is nothing to do now.
    pub(crate) fn shrink_round(&self) -> bool {
        if self.shrinks.is_idle() {
            return false;
        }
        let taken = crate::lock(&self.shrinks.pass).take();
        let Some(mut pass) = taken.or_else(|| self.next_pass()) else { return false };
        let Some(tree) = self.directory.get(pass.id) else { return true };
        if tree.tree_changes.splits() > pass.most_splits && matches!(pass.phase, ShrinkPhase::Merge { .. }) {
            self.shrinks.push(pass.id);
            return true;
        }
        match tree.shrink_step(&mut pass) {
            Ok(true) => *crate::lock(&self.shrinks.pass) = Some(pass),
            Ok(false) => {}
            // The tree was dropped meanwhile; or the next pass does what is left.
            Err(e) if self.directory.get(pass.id).is_some() => {
                self.tell(kilndb_base::Severity::Warning, &format!("shrinking index {}: {}", pass.id, e.message()));
            }
            Err(_) => {}
        }
        true
    }
    /// The next of the trees that are at rest.
    fn next_pass(&self) -> Option<ShrinkPass> {
        let now = self.env.monotonic_nanos();
        let mut trees = crate::lock(&self.shrinks.trees);
        trees.retain(|tree| self.directory.get(tree.id).is_some());
        let ready = trees.iter_mut().position(|queued| {
            let Some(tree) = self.directory.get(queued.id) else { return false };
            if queued.is_asked_for {
                return true;
            }
            if queued.since_ns == 0 {
                (queued.since_ns, queued.looked_ns) = (now.max(1), now);
                queued.events = tree.tree_changes.events();
                return false;
            }
            if now.saturating_sub(queued.looked_ns) < QUIET_NS {
                return false;
            }
            let events = std::mem::replace(&mut queued.events, tree.tree_changes.events());
            queued.looked_ns = now;
            events == queued.events || now.saturating_sub(queued.since_ns) > LONGEST_WAIT_NS
        })?;
        let QueuedTree { id, is_asked_for, since_ns, .. } = trees.remove(ready)?;
        let has_waited = is_asked_for || now.saturating_sub(since_ns) > LONGEST_WAIT_NS;
        let tree = self.directory.get(id)?;
        tree.tree_changes.begin_pass();
        let phase = ShrinkPhase::Measure { bytes: 0, leaves: 0 };
        let most_splits = match has_waited {
            false => tree.tree_changes.splits() + MOST_SPLITS,
            true => u64::MAX,
        };
        let pass = ShrinkPass { id, is_asked_for, most_splits, phase, at: Default::default(), tries: RELOCATIONS };
        tree.can_shrink().then_some(pass)
    }
}

/// What a step of a walk through a level has come to.
enum WalkStep {
    More,
    EndOfLevel,
}

impl Relation {
    /// Asks for a pass through an index that makes it as small as its entries allow, whether or not entries have been
    /// taken out of it. It runs in the background.
    pub fn shrink_soon(&self) {
        self.core.shrinks.ask(self.id);
    }
    fn can_shrink(&self) -> bool {
        // The blocks of a relation that is kept at checkpoints have their places in its image. A tree that is being built
        // has blocks that no node names yet.
        matches!(self.kind, RelationKind::BTree | RelationKind::Hash)
            && self.image.is_none()
            && self.creator.load(Relaxed) == 0
            && self.pages() >= LEAST_BLOCKS
    }
    /// Does a part of the pass. False: it is over.
    fn shrink_step(self: &Arc<Self>, pass: &mut ShrinkPass) -> Result<bool> {
        let root_level = self.root_level()?;
        match &mut pass.phase {
            ShrinkPhase::Measure { .. } => self.measure_leaves(pass),
            ShrinkPhase::Merge { level } if *level >= root_level => {
                pass.phase = ShrinkPhase::Count { next: 0, free: Vec::new() };
                Ok(true)
            }
            ShrinkPhase::Merge { level } => {
                if let WalkStep::EndOfLevel = self.merge_level(*level, &mut pass.at)? {
                    *level += 1;
                    pass.at = Default::default();
                }
                Ok(true)
            }
            ShrinkPhase::Count { next, free } => {
                let end = next.saturating_add(BLOCKS_AT_ONCE).min(self.pages());
                self.gather_free(*next..end, free)?;
                *next = end;
                let is_over = end >= self.pages();
                Ok(!is_over || self.begin_relocation(pass))
            }
            ShrinkPhase::Relocate { level, target } if *level >= root_level => {
                pass.phase = ShrinkPhase::Truncate { target: *target };
                Ok(true)
            }
            ShrinkPhase::Relocate { level, target } => {
                if let WalkStep::EndOfLevel = self.relocate_level(*level, *target, &mut pass.at)? {
                    *level += 1;
                    pass.at = Default::default();
                }
                Ok(true)
            }
            ShrinkPhase::Truncate { target } => {
                if self.cut_free_end(*target, BLOCKS_AT_ONCE)? {
                    return Ok(true);
                }
                pass.tries -= 1;
                let is_done = self.pages() <= *target || pass.tries == 0;
                pass.phase = ShrinkPhase::Count { next: 0, free: Vec::new() };
                Ok(!is_done)
            }
        }
    }
    /// Adds up what some leaves have in use; at the end of the level it is known whether the pass is worthwhile.
    fn measure_leaves(&self, pass: &mut ShrinkPass) -> Result<bool> {
        let ShrinkPhase::Measure { bytes, leaves } = &mut pass.phase else { return Ok(false) };
        for _ in 0..NODES_AT_ONCE {
            let seen = self.see_node(0, &pass.at)?;
            *bytes += seen.used as u64;
            *leaves += 1;
            let Some(high) = seen.high else {
                let needed = *bytes / FULL + 1;
                let is_worthwhile = u64::from(self.pages()) * 100 > needed * WORTHWHILE_PERCENT;
                pass.phase = ShrinkPhase::Merge { level: 0 };
                pass.at = Default::default();
                return Ok(is_worthwhile || pass.is_asked_for);
            };
            pass.at = high;
        }
        Ok(true)
    }
    fn merge_level(&self, level: u8, at: &mut (Vec<u8>, u64)) -> Result<WalkStep> {
        for _ in 0..NODES_AT_ONCE {
            let seen = self.see_node(level, at)?;
            match self.pull_left(level, &seen)? {
                // There may be room for more.
                ChangeOutcome::Absorbed => {}
                // The right sibling begins further right now.
                ChangeOutcome::Done => match self.see_node(level, at)?.high {
                    Some(high) => *at = high,
                    None => return Ok(WalkStep::EndOfLevel),
                },
                _ => match seen.high {
                    Some(high) => *at = high,
                    None => return Ok(WalkStep::EndOfLevel),
                },
            }
        }
        Ok(WalkStep::More)
    }
    /// Knows by now which blocks are free. False: none of the others need be moved.
    fn begin_relocation(&self, pass: &mut ShrinkPass) -> bool {
        let ShrinkPhase::Count { free, .. } = &mut pass.phase else { return false };
        let blocks = self.pages();
        let used = blocks.saturating_sub(free.len() as u32);
        let target = used + (used / BLOCKS_PER_SPARE).max(LEAST_SPARE);
        self.set_free(std::mem::take(free));
        pass.phase = ShrinkPhase::Relocate { level: 0, target };
        pass.at = Default::default();
        target < blocks
    }
    fn relocate_level(&self, level: u8, target: u32, at: &mut (Vec<u8>, u64)) -> Result<WalkStep> {
        for _ in 0..NODES_AT_ONCE {
            let mut seen = self.see_node(level, at)?;
            if at.0.is_empty() && at.1 == 0 && seen.block >= target {
                if let ChangeOutcome::NoBlock = self.relocate(level, None, seen.block, target)? {
                    return Ok(WalkStep::EndOfLevel);
                }
                seen = self.see_node(level, at)?;
            }
            let Some(high) = &seen.high else { return Ok(WalkStep::EndOfLevel) };
            if seen.right >= target && !self.move_right_sibling(level, &seen, target)? {
                return Ok(WalkStep::EndOfLevel);
            }
            at.clone_from(high);
        }
        Ok(WalkStep::More)
    }
    /// Moves the right sibling of a node; false: there is no free block for it.
    fn move_right_sibling(&self, level: u8, seen: &SeenNode, target: u32) -> Result<bool> {
        let outcome = self.relocate(level, Some(seen), seen.right, target)?;
        if let (ChangeOutcome::Unchanged, Some(high)) = (&outcome, &seen.high) {
            self.complete_split(level, high, seen.right)?;
            return Ok(!matches!(self.relocate(level, Some(seen), seen.right, target)?, ChangeOutcome::NoBlock));
        }
        Ok(!matches!(outcome, ChangeOutcome::NoBlock))
    }
}
