//! The offline verifier: pages, extents, heaps, trees, index ↔ heap, undo reachability. docs/faults.md says what it looks at.
//!
//! Invariants
//! 1. Nothing is written.
//! 2. Structures are judged only after a clean shutdown; after a crash, open (and shut down) first: until then only
//!    checksums mean anything, and torn pages are expected.
//!
//! Must not know: SQL. So it does not compare keys with rows, and says so.

use crate::api::RelationKind;
use crate::buffer::doublewrite::DoubleWriteArea;
use crate::control::{self, Checkpoint};
use crate::core::Core;
use crate::directory::{Relation, block_at, extent_pages};
use crate::engine::{CorePurpose, lock_cluster};
use crate::heap::page as hp;
use crate::image::{self, ImageEntry};
use crate::page::{self, HEADER, PAGE, PageBytes, PageView, at, get16};
use crate::report::CheckReport;
use crate::undo::record::CHUNK;
use crate::wal::end::LogEnd;
use crate::wal::reader::{LogRead, LogReader};
use crate::wal::segment::{LogSegments, failed};
use kilndb_base::env::{Env, File, FolderLock, OpenMode};
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::sync::atomic::Ordering::Relaxed;
use kilndb_base::{Result, RowId, Severity};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Verifies every structure of a cluster that no server has open; returns what is wrong. It needs no right to write.
pub fn check(env: Arc<dyn Env>, data_dir: PathBuf) -> Result<Vec<String>> {
    check_report(env, data_dir).map(|report| report.problems)
}
/// Checks a cluster; the report also lists what could not be checked.
pub fn check_report(env: Arc<dyn Env>, data_dir: PathBuf) -> Result<CheckReport> {
    let mut report = CheckReport::default();
    check_cluster(env, data_dir, &mut report)?;
    Ok(report)
}
fn check_cluster(env: Arc<dyn Env>, data_dir: PathBuf, report: &mut CheckReport) -> Result<()> {
    let _locked = lock_cluster(&*env, &data_dir, FolderLock::Shared)?;
    let wrong = &mut report.problems;
    let Some(found) = control::read(&env, &data_dir)? else {
        wrong.push("there is no cluster here".into());
        return Ok(());
    };
    wrong.extend(found.damage);
    let c = found.checkpoint;
    let file = env.open(&data_dir.join("pages"), OpenMode::ReadOnly).map_err(|e| failed("open", "pages", e))?;
    if !env.exists(&data_dir.join("doublewrite")).map_err(|e| failed("open", "doublewrite", e))? {
        wrong.push("file \"doublewrite\" is missing; the next start makes it anew".into());
    }
    // After a proper stop the log is not needed.
    if !c.clean
        && let Err(e) = check_log(&env, &data_dir, &c)
    {
        wrong.push(e.message().to_string());
    }
    for r in &c.relations {
        if let Some(image) = &r.image {
            check_image(&*env, &data_dir, r.id, image, wrong)?;
        }
        if [2, 4].contains(&r.persistence) && !c.clean {
            continue;
        }
        for (index, start) in r.extents.iter().enumerate() {
            for offset in 0..extent_pages(index) {
                if block_at(index, offset) >= r.blocks {
                    // The block was never written for the relation. The bytes that an earlier owner has left may be
                    // torn.
                    break;
                }
                let pid = start + offset;
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
        return Ok(());
    }
    if !wrong.is_empty() {
        report.unchecked.push("structures, since there is damage to what they are in".into());
        return Ok(());
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
    let core = crate::engine::build_core(env, config, &c, CorePurpose::Inspect)?;
    core.load_checkpoint(&c)?;
    if let Err(e) = core.rebuild_space() {
        wrong.push(e.message().to_string());
    }
    check_relations(&core, report);
    for (xid, _, _) in &c.unfinished {
        report.problems.push(format!("transaction {xid} is unfinished after a clean shutdown"));
    }
    core.directory.clear();
    Ok(())
}
fn check_relations(core: &Core, report: &mut CheckReport) {
    let (mut indexes, mut of_several_heaps) = (0u64, 0u64);
    for r in core.directory.list() {
        indexes += u64::from(r.kind.is_index());
        of_several_heaps += u64::from(r.entries_name_heap());
        let outcome = match r.kind {
            RelationKind::Heap => check_heap(core, &r, &mut report.problems),
            RelationKind::Cell => r.cell_read().map(|_| ()),
            _ => core.check_index(&r, report),
        };
        if let Err(e) = outcome {
            report.problems.push(format!("storage relation {}: {}", r.id, e.message()));
        }
    }
    if indexes > 0 {
        report
            .unchecked
            .push(format!("whether the keys and terms of {indexes} indexes are those of their rows, and unique"));
    }
    if of_several_heaps > 0 {
        report
            .unchecked
            .push(format!("heaps of which {of_several_heaps} indexes of several heaps have no entry at all"));
    }
}
/// Reads the log as recovery would.
fn check_log(env: &Arc<dyn Env>, dir: &Path, c: &Checkpoint) -> Result<()> {
    let area = dir.join("doublewrite");
    let mut known = c.durable;
    if env.exists(&area).map_err(|e| failed("open", "doublewrite", e))? {
        let area = env.open(&area, OpenMode::ReadOnly).map_err(|e| failed("open", "doublewrite", e))?;
        known = known.max(DoubleWriteArea::read(&*area)?.newest_lsn());
    }
    let segments = LogSegments::to_read(env.clone(), dir.join("wal"));
    let mut reader = LogReader::new(&segments, c.redo, known);
    loop {
        match reader.read_next()? {
            LogRead::Record(_) => {}
            LogRead::End(LogEnd::Ordinary) => return Ok(()),
            LogRead::End(LogEnd::Damaged(damage)) => return Err(damage.error()),
        }
    }
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
        let v = PageView::of(&p);
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
