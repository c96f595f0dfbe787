//! Evicts pages to make room (the clock) and writes dirty pages (for checkpoints and the background writer).
//!
//! Must not know: when checkpoints happen.

use super::*;
use crate::page::{FLAG_TEMPORARY, FLAG_UNLOGGED, at};

const BATCH: usize = 64;
/// Pages let go of together: their memory goes back with one system call.
const RUN: usize = 32;

/// Which dirty pages a pass writes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum DirtyFilter {
    /// Pages of logged relations.
    Logged,
    /// Pages of unlogged relations too, at a clean shutdown.
    Durable,
}

/// The outcome of an attempt to copy a page for writing.
enum CopyOutcome {
    /// The copy is to be written: the page counts as clean, and as being written.
    Copied(Box<PageBytes>),
    /// Another thread is writing the page, maybe in an older state, or has latched it.
    Busy,
    /// The page is clean, or not to be written in this pass.
    NothingToWrite,
}

impl Pool {
    fn frame_count(&self) -> usize {
        self.frames.count()
    }
    /// Evicts until below the limit, or as far as it gets. Fails only when pages cannot be written and no frame is left
    /// to go on with.
    pub(super) fn make_room(&self) -> Result<()> {
        let mut rounds = 0;
        while self.resident.load(Relaxed) >= self.capacity && rounds < 16 {
            rounds += 1;
            let want = (self.resident.load(Relaxed) + 1)
                .saturating_sub(self.capacity)
                .clamp(RUN.min(self.capacity / 16), BATCH);
            let mut dirty = Vec::new();
            if self.sweep(want, &mut dirty) >= want {
                return Ok(());
            }
            if !dirty.is_empty()
                && let Err(e) = self.write_out(&dirty)
            {
                let spent = self.resident.load(Relaxed) + SLACK / 2 >= self.frame_count();
                return if spent { Err(e) } else { Ok(()) };
            }
        }
        Ok(())
    }
    /// Advances the clock hand: marks pages, evicts clean marked ones, gathers dirty marked ones for writing.
    fn sweep(&self, want: usize, dirty: &mut Vec<u32>) -> usize {
        let mut freed = 0;
        let mut victims = Vec::with_capacity(RUN);
        for _ in 0..self.frame_count() * 2 {
            if victims.len() == RUN {
                freed += self.let_go(&mut victims);
            }
            if freed + victims.len() >= want || dirty.len() >= BATCH {
                break;
            }
            let index = self.hand.fetch_add(1, Relaxed) % self.frame_count();
            let entry = self.frames.get(index).load(Acquire);
            let pid = entry as u32;
            if pid == 0 {
                continue;
            }
            let state = self.state(pid);
            let now = state.load(Relaxed);
            match now & STATE {
                EVICTED => freed += usize::from(self.free_frame(index, entry)),
                UNLOCKED => {
                    let _ = state.compare_exchange(now, (now & !STATE) | MARKED, Relaxed, Relaxed);
                }
                MARKED if now & WRITING != 0 => {}
                MARKED if now & DIRTY != 0 => dirty.push(pid),
                MARKED if state.compare_exchange(now, (now & !STATE) | LATCHED, Acquire, Relaxed).is_ok() => {
                    victims.push((pid, index, entry));
                }
                _ => {}
            }
        }
        freed + self.let_go(&mut victims)
    }
    /// Pages that are latched here: their memory goes, and their frames become free. How many did. Nothing is waited
    /// for in between, so holding many latches cannot make a circle.
    fn let_go(&self, victims: &mut Vec<(u32, usize, u64)>) -> usize {
        victims.sort_unstable();
        victims.iter().for_each(|&(pid, ..)| self.leave_dense(pid));
        self.give_back(&victims.iter().map(|&(pid, ..)| pid).collect::<Vec<_>>());
        self.stats.count(self.object, IoEvent::Evict, victims.len() as u64, (victims.len() * PAGE) as u64);
        victims.drain(..).filter(|&(_, index, entry)| self.free_frame(index, entry)).count()
    }
    /// The memory of pages that the caller has latched, in ascending order, goes back to the system; they are evicted, and
    /// not latched any more.
    pub(super) fn give_back(&self, latched: &[u32]) {
        let bytes = |run: &[u32]| run[0] as usize * PAGE..(run[0] as usize + run.len()) * PAGE;
        let runs: Vec<_> = latched.chunk_by(|a, b| a + 1 == *b).map(bytes).collect();
        self.memory.forget_all(&runs);
        latched.iter().for_each(|pid| self.set_evicted(*pid));
    }
    pub(super) fn free_frame(&self, index: usize, entry: u64) -> bool {
        let empty = entry & !u64::from(u32::MAX);
        let won = self.frames.get(index).compare_exchange(entry, empty, AcqRel, Relaxed).is_ok();
        if won {
            self.resident.fetch_sub(1, Relaxed);
            crate::lock(&self.free_frames).push(index as u32);
        }
        won
    }
    /// Copies a dirty page for writing: clears DIRTY, sets WRITING. It waits for nobody: an evictor may hold latches
    /// itself, and who has pages WRITING already must not wait for a latch, whose holder may be waiting for these.
    fn copy_for_write(&self, pid: u32, which: Option<DirtyFilter>) -> CopyOutcome {
        let mut copy: Box<PageBytes> = Box::new([0; PAGE]);
        let state = self.state(pid);
        loop {
            let now = state.load(Acquire);
            // For a checkpoint a latched page counts as dirty: its holder may have logged a change without having
            // marked the page yet.
            if now & WRITING != 0 || (now & STATE == LATCHED && which.is_some()) {
                return CopyOutcome::Busy;
            }
            if now & DIRTY == 0 || now & STATE == EVICTED || now & STATE == LATCHED {
                return CopyOutcome::NothingToWrite;
            }
            // SAFETY: a resident page; a racing writer makes the exchange below fail.
            unsafe { std::ptr::copy_nonoverlapping(self.address(pid), copy.as_mut_ptr(), PAGE) };
            fence(Acquire);
            let skip = match which {
                Some(DirtyFilter::Logged) => copy[at::FLAGS] & (FLAG_UNLOGGED | FLAG_TEMPORARY) != 0,
                Some(DirtyFilter::Durable) => copy[at::FLAGS] & FLAG_TEMPORARY != 0,
                None => false,
            };
            if skip && state.load(Relaxed) == now {
                return CopyOutcome::NothingToWrite;
            }
            if state.compare_exchange(now, (now & !DIRTY) | WRITING, AcqRel, Relaxed).is_ok() {
                return CopyOutcome::Copied(copy);
            }
        }
    }
    fn write_out(&self, pids: &[u32]) -> Result<usize> {
        let mut batch = Vec::with_capacity(pids.len());
        for &pid in pids {
            if let CopyOutcome::Copied(copy) = self.copy_for_write(pid, None) {
                batch.push((pid, copy));
            }
        }
        self.write_batch(batch)
    }
    /// Writes a batch of pages; how many were written.
    fn write_batch(&self, mut batch: Vec<(u32, Box<PageBytes>)>) -> Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        let newest = batch.iter().map(|(_, p)| page::lsn(p)).max().unwrap_or(0);
        let outcome = self.log.flush_blocking(newest).and_then(|()| {
            batch.sort_by_key(|(pid, _)| *pid);
            for (_, p) in &mut batch {
                page::seal(p);
            }
            match &self.double_write {
                Some(area) => area.write(&*self.file, &self.log, &batch, &self.stats),
                None => self.write_runs(&batch),
            }
        });
        self.stats.count(self.object, IoEvent::Write, batch.len() as u64, (batch.len() * PAGE) as u64);
        self.count(AccessKind::Written, batch.len() as u64);
        for (pid, _) in &batch {
            let again = if outcome.is_err() { DIRTY } else { 0 };
            let state = self.state(*pid);
            let _ = state.fetch_update(AcqRel, Relaxed, |s| Some((s & !WRITING) | again));
        }
        outcome.map(|()| batch.len())
    }
    /// Writes neighbouring pages with one system call.
    fn write_runs(&self, batch: &[(u32, Box<PageBytes>)]) -> Result<()> {
        for run in batch.chunk_by(|(a, _), (b, _)| a + 1 == *b) {
            let mut bytes = Vec::with_capacity(run.len() * PAGE);
            run.iter().for_each(|(_, page)| bytes.extend_from_slice(&page[..]));
            let Some((first, _)) = run.first() else { continue };
            self.file
                .write_at(&bytes, u64::from(*first) * PAGE as u64)
                .map_err(|e| failed("write to", "temporary pages", e))?;
        }
        Ok(())
    }
    /// Page ids that are dirty, being changed, or on their way to the disk, now. Those last ones are not dirty any
    /// more, but a checkpoint that did not wait for them would sync before they are written.
    pub(crate) fn dirty_pages(&self) -> Vec<u32> {
        let mut pids = Vec::new();
        for index in 0..self.frame_count() {
            let pid = self.frames.get(index).load(Acquire) as u32;
            let state = self.state(pid).load(Acquire);
            if pid != 0 && (state & (DIRTY | WRITING) != 0 || state & STATE == LATCHED) {
                pids.push(pid);
            }
        }
        pids.sort_unstable();
        pids.dedup();
        pids
    }
    /// Writes those of `pids` that are still dirty. A page that another thread writes or has latched is waited for, once
    /// those that could be copied are written.
    pub(crate) fn write_pages(&self, pids: &[u32], which: DirtyFilter) -> Result<usize> {
        let mut batch = Vec::with_capacity(pids.len());
        let mut busy = Vec::new();
        for &pid in pids {
            match self.copy_for_write(pid, Some(which)) {
                CopyOutcome::Copied(copy) => batch.push((pid, copy)),
                CopyOutcome::Busy => {
                    #[cfg(test)]
                    crate::stops::reach(crate::stops::StopPoint::PageIsBusy(pid));
                    busy.push(pid);
                }
                CopyOutcome::NothingToWrite => {}
            }
        }
        let mut written = self.write_batch(batch)?;
        let mut spins = 0;
        while !busy.is_empty() {
            let mut batch = Vec::new();
            busy.retain(|&pid| {
                #[cfg(test)]
                crate::stops::reach(crate::stops::StopPoint::PageWasBusy(pid));
                match self.copy_for_write(pid, Some(which)) {
                    CopyOutcome::Copied(copy) => batch.push((pid, copy)),
                    // The state that the other thread writes may be older: then the page is still dirty.
                    CopyOutcome::Busy => {
                        #[cfg(test)]
                        crate::stops::reach(crate::stops::StopPoint::PageIsBusyAgain(pid));
                        return true;
                    }
                    CopyOutcome::NothingToWrite => {}
                }
                false
            });
            match batch.is_empty() {
                true => backoff(&mut spins),
                false => written += self.write_batch(batch)?,
            }
        }
        Ok(written)
    }
    /// For the background writer: keeps clean victims ahead of the hand when the pool is nearly full.
    pub(crate) fn clean_ahead(&self) {
        if self.resident.load(Relaxed) + self.capacity / 16 < self.capacity {
            return;
        }
        let mut dirty = Vec::new();
        self.sweep(self.capacity / 64 + 1, &mut dirty);
        let cleaned = self.write_out(&dirty).unwrap_or(0);
        self.stats.buffers_clean.fetch_add(cleaned as u64, Relaxed);
    }
}
