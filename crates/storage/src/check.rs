//! The offline verifier: pages, extents, heaps, trees, index ↔ heap, undo reachability.
//!
//! Invariants
//! 1. Nothing is written.
//! 2. Structures are judged only after a clean shutdown; after a crash, open (and shut down) first: until then only
//!    checksums mean anything, and torn pages are expected.
//!
//! Must not know: SQL.

use crate::api::{Persistence, RelationKind};
use crate::btree::node::{self, Key};
use crate::buffer::doublewrite::Area;
use crate::control::{self, Checkpoint};
use crate::core::Core;
use crate::directory::{HEAP_NAME_BYTES, Relation, extent_pages};
use crate::engine::{Purpose, lock_cluster};
use crate::heap::page as hp;
use crate::image::{self, ImageEntry};
use crate::page::{self, HEADER, PAGE, PageBytes, View, at, get16};
use crate::recovery::LogReader;
use crate::undo::CHUNK;
use crate::wal::end;
use crate::wal::segment::{Segments, failed};
use kilndb_base::env::{Env, File, Lock, Open};
use kilndb_base::{Result, RowId, Severity};
use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

/// Verifies every structure of a cluster that no server has open; returns what is wrong. It needs no right to write.
pub fn check(env: Arc<dyn Env>, data_dir: PathBuf) -> Result<Vec<String>> {
    let _locked = lock_cluster(&*env, &data_dir, Lock::Shared)?;
    let mut wrong = Vec::new();
    let Some(found) = control::read(&env, &data_dir)? else { return Ok(vec!["there is no cluster here".into()]) };
    wrong.extend(found.damage);
    let c = found.checkpoint;
    let file = env.open(&data_dir.join("pages"), Open::ReadOnly).map_err(|e| failed("open", "pages", e))?;
    if !env.exists(&data_dir.join("doublewrite")).map_err(|e| failed("open", "doublewrite", e))? {
        wrong.push("file \"doublewrite\" is missing; the next start makes it anew".into());
    }
    // After a proper stop nobody needs it.
    if !c.clean
        && let Err(e) = check_log(&env, &data_dir, &c)
    {
        wrong.push(e.message().to_string());
    }
    for r in &c.relations {
        if let Some(image) = &r.image {
            check_image(&*env, &data_dir, r.id, image, &mut wrong)?;
        }
        if [2, 4].contains(&r.persistence) && !c.clean {
            continue;
        }
        for (index, start) in r.extents.iter().enumerate() {
            for pid in *start..*start + extent_pages(index) {
                if !page::is_intact(&*load(&*file, pid)?) {
                    wrong.push(format!(
                        "page {pid} of storage relation {}: wrong checksum (file \"pages\", offset {})",
                        r.id,
                        u64::from(pid) * PAGE as u64
                    ));
                }
            }
        }
    }
    if !c.clean {
        wrong.push("the cluster was not shut down cleanly: structures were not checked".into());
        return Ok(wrong);
    }
    if !wrong.is_empty() {
        return Ok(wrong);
    }
    let config = crate::api::EngineConfig {
        data_dir,
        shared_buffers_bytes: 64 << 20,
        huge_pages: false,
        wal_buffers_bytes: 1 << 20,
        max_wal_size_bytes: 1 << 30,
        checkpoint_timeout_s: 3600,
        checkpoint_completion_target: 0.9,
        wal_writer_delay_ms: 200,
        startup_progress_interval_ms: 0,
        limits: Default::default(),
        fsync: true,
        accept_lost_log: false,
        workers: 1,
        log: Arc::new(|_: Severity, _: &str| {}),
    };
    let core = crate::engine::build_core(env, config, &c, Purpose::Inspect)?;
    core.load_checkpoint(&c)?;
    if let Err(e) = core.rebuild_space() {
        wrong.push(e.message().to_string());
    }
    for r in core.directory.list() {
        let outcome = match r.kind {
            RelationKind::Heap => check_heap(&core, &r, &mut wrong),
            RelationKind::BTree => check_tree(&core, &r, &mut wrong),
            RelationKind::Inverted => {
                check_tree(&core, &r, &mut wrong).and_then(|()| crate::inverted::check::check(&core, &r, &mut wrong))
            }
            RelationKind::Cell => r.cell_read().map(|_| ()),
        };
        if let Err(e) = outcome {
            wrong.push(format!("storage relation {}: {}", r.id, e.message()));
        }
    }
    for (xid, _, _) in &c.unfinished {
        wrong.push(format!("transaction {xid} is unfinished after a clean shutdown"));
    }
    core.directory.clear();
    Ok(wrong)
}
/// Reads the log as recovery would.
fn check_log(env: &Arc<dyn Env>, dir: &Path, c: &Checkpoint) -> Result<()> {
    let area = dir.join("doublewrite");
    let mut known = c.durable;
    if env.exists(&area).map_err(|e| failed("open", "doublewrite", e))? {
        let area = env.open(&area, Open::ReadOnly).map_err(|e| failed("open", "doublewrite", e))?;
        known = known.max(Area::read(&*area)?.newest_lsn());
    }
    let segments = Segments::to_read(env.clone(), dir.join("wal"));
    let mut reader = LogReader::new(&segments, c.redo);
    while reader.next_record()?.is_some() {}
    end::judge(&segments, reader.lsn, known)
}
fn check_image(env: &dyn Env, dir: &Path, rel: u32, entry: &ImageEntry, wrong: &mut Vec<String>) -> Result<()> {
    let Some(file) = image::open(env, dir, rel)? else {
        if entry.blocks > 0 {
            wrong.push(format!("file \"images/{rel:08x}\" is missing"));
        }
        return Ok(());
    };
    for block in 0..entry.blocks {
        if let Err(e) = image::read_block(&*file, rel, block, entry) {
            wrong.push(e.message().to_string());
        }
    }
    Ok(())
}
fn load(file: &dyn File, pid: u32) -> Result<Box<PageBytes>> {
    let mut bytes = Box::new([0u8; PAGE]);
    let got = file.read_at(&mut bytes[..], u64::from(pid) * PAGE as u64)?;
    bytes[got..].fill(0);
    Ok(bytes)
}

fn check_heap(core: &Core, r: &Relation, wrong: &mut Vec<String>) -> Result<()> {
    let horizon = core.undo.next_chunk.load(Relaxed) * CHUNK;
    let mut pieces = HashSet::new();
    let mut reached = HashSet::new();
    let mut say = |block: u32, what: String| wrong.push(format!("heap {} block {block}: {what}", r.id));
    for block in 0..r.pages() {
        let page = core.pool.write(r.pid(block)?)?;
        let p = *page.page();
        drop(page);
        let v = View::of(&p);
        if !v.is(page::KIND_HEAP, r.id, block) {
            say(block, "page header names another page".into());
            continue;
        }
        let (count, upper) = (get16(&p, at::COUNT), get16(&p, at::UPPER));
        let mut spans = Vec::new();
        let mut free = 0;
        for slot in 1..=count {
            if get16(&p, HEADER + 4 * (slot - 1)) == 0 {
                free += 1;
                continue;
            }
            let Some((off, len)) = hp::item(v, slot) else {
                say(block, format!("slot {slot} is out of bounds"));
                continue;
            };
            spans.push((off, off + hp::space_of(len)));
            let word = v.u64(off);
            if word & hp::PIECE != 0 {
                pieces.insert(RowId { block, slot: slot as u16 });
                continue;
            }
            if word & hp::ADDRESS >= horizon {
                say(block, format!("slot {slot} points to undo that does not exist"));
            }
            if word & hp::DELETED != 0 {
                say(block, format!("slot {slot} is deleted but was not purged"));
            }
            if word & hp::FORWARD != 0 {
                let mut payload = p[off + hp::WORD..off + len].to_vec();
                let mut next = crate::heap::pieces::pointer_to(&payload);
                while let Some(rid) = next {
                    if !reached.insert(rid) {
                        say(block, format!("slot {slot}: piece ({},{}) is used twice", rid.block, rid.slot));
                        break;
                    }
                    next = core.pool.read(r.pid(rid.block)?, |v| {
                        let (off, len) = hp::item(v, usize::from(rid.slot))?;
                        crate::heap::pieces::pointer_to(v.bytes(off + hp::WORD + 4, len.checked_sub(hp::WORD + 4)?)?)
                    })?;
                }
                r.load_pieces(&mut payload)?;
            }
        }
        spans.sort_unstable();
        if spans.windows(2).any(|w| w[0].1 > w[1].0) || spans.first().is_some_and(|s| s.0 < upper) {
            say(block, "items overlap".into());
        }
        let used: usize = spans.iter().map(|s| s.1 - s.0).sum();
        if count > 0 && (PAGE - upper) != used + get16(&p, at::GARBAGE) {
            say(block, "space accounting is wrong".into());
        }
        if count > 0 && free != get16(&p, at::AUX) {
            say(block, "count of free slots is wrong".into());
        }
    }
    for rid in reached.difference(&pieces) {
        wrong.push(format!("heap {}: piece ({},{}) does not exist", r.id, rid.block, rid.slot));
    }
    Ok(())
}

fn owned(e: Option<node::Entry<'_>>) -> Option<(Vec<u8>, u64)> {
    e.map(|e| (e.key.to_vec(), e.rid))
}
fn check_tree(core: &Core, r: &Relation, wrong: &mut Vec<String>) -> Result<()> {
    let heap_of = |id: u32| core.directory.get(id).filter(|h| h.persistence != Persistence::Temporary);
    // What an inverted index's entries lead to is in them.
    let mut heap = if r.kind == RelationKind::Inverted { None } else { heap_of(r.heap.load(Relaxed)) };
    let mut reached = r.has_all_rows().then(Rows::default);
    let mut seen = HashSet::new();
    let mut leftmost = Some(0u32);
    let mut below: Option<u8> = None;
    while let Some(start) = leftmost {
        leftmost = None;
        let mut block = start;
        let mut low: Option<(Vec<u8>, u64)> = None;
        loop {
            let mut say = |what: &str| wrong.push(format!("index {} block {block}: {what}", r.id));
            if !seen.insert(block) {
                say("is linked twice");
                break;
            }
            let page = core.pool.write(r.pid(block)?)?;
            let p = *page.page();
            drop(page);
            let v = View::of(&p);
            if !v.is(page::KIND_TREE, r.id, block) {
                say("page header names another page");
                break;
            }
            if below.is_some_and(|b| node::level(&v) + 1 != b) {
                say("is on the wrong level");
            }
            if owned(node::low(&v)) != low {
                say("low fence differs from the left sibling's high fence");
            }
            let mut previous: Option<(Vec<u8>, u64)> = None;
            for i in 0..node::count(&v) {
                let Some(e) = node::entry(&v, i) else {
                    say("an entry is damaged");
                    break;
                };
                if node::side(&v, Key(e.key, e.rid)) != node::Side::Inside && !(node::level(&v) > 0 && i == 0) {
                    say("an entry is outside of the fences");
                }
                if previous.as_ref().is_some_and(|p| node::compare(&e, Key(&p.0, p.1)) != Ordering::Greater) {
                    say("entries are out of order");
                }
                previous = Some((e.key.to_vec(), e.rid));
                if node::level(&v) > 0 {
                    if i == 0 && low.is_none() {
                        leftmost = Some(e.child);
                    }
                    if e.child == 0 || e.child >= r.pages() {
                        say("a child does not exist");
                    }
                    continue;
                }
                if r.entries_name_heap() {
                    let id = r.heap_of_entry(e.key);
                    if heap.as_ref().is_none_or(|h| h.id != id) {
                        // One that was dropped may have left entries.
                        heap = heap_of(id);
                    }
                    if e.key.len() < HEAP_NAME_BYTES || id >= core.directory.next_id.load(Relaxed) {
                        say("an entry names a heap that never was");
                    }
                }
                if let Some(heap) = &heap {
                    let rid = RowId::from_u64(e.rid);
                    let word = match heap.pid(rid.block) {
                        Ok(pid) => core.pool.read(pid, |v| hp::word(v, usize::from(rid.slot)))?,
                        Err(_) => None,
                    };
                    if word.is_none_or(|w| w & (hp::DELETED | hp::PIECE) != 0) {
                        say(&format!("an entry leads to no row ({},{})", rid.block, rid.slot));
                    }
                    if e.stamp & node::RETIRED != 0 {
                        say("a retired entry was not purged");
                    } else if reached.as_mut().is_some_and(|reached| !reached.add(rid)) {
                        say(&format!("row ({},{}) has two entries", rid.block, rid.slot));
                    }
                }
            }
            low = owned(node::high(&v));
            let right = node::right(&v);
            if low.is_some() != (right != 0) {
                say("right sibling and high fence disagree");
                break;
            }
            if right == 0 {
                below = Some(node::level(&v));
                break;
            }
            block = right;
        }
        if below == Some(0) {
            break;
        }
    }
    match (heap, reached) {
        (Some(heap), Some(reached)) => check_rows_reached(core, r, &heap, &reached, wrong),
        _ => Ok(()),
    }
}

/// Rows by their ids.
#[derive(Default)]
struct Rows(HashMap<u64, u64>);
impl Rows {
    /// False: it was there.
    fn add(&mut self, rid: RowId) -> bool {
        let word = self.0.entry(rid.to_u64() / 64).or_default();
        let bit = 1 << (rid.to_u64() % 64);
        let is_new = *word & bit == 0;
        *word |= bit;
        is_new
    }
    fn has(&self, rid: RowId) -> bool {
        self.0.get(&(rid.to_u64() / 64)).is_some_and(|word| word >> (rid.to_u64() % 64) & 1 != 0)
    }
}
/// From heap to index: no row is missing from an index that has all.
fn check_rows_reached(
    core: &Core,
    index: &Relation,
    heap: &Relation,
    reached: &Rows,
    wrong: &mut Vec<String>,
) -> Result<()> {
    for block in 0..heap.pages() {
        let page = core.pool.write(heap.pid(block)?)?;
        for slot in 1..=get16(page.page(), at::COUNT) {
            let rid = RowId { block, slot: slot as u16 };
            let is_row = hp::word(page.view(), slot).is_some_and(|word| word & (hp::DELETED | hp::PIECE) == 0);
            if is_row && !reached.has(rid) {
                wrong.push(format!("index {}: row ({block},{slot}) of heap {} has no entry", index.id, heap.id));
            }
        }
    }
    Ok(())
}
