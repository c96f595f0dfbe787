//! Shows a page: its header, and its contents by its kind.
//!
//! Must not know: which relation it should be of.

use super::words::{hex, record, row, undo_place, version};
use super::{Inspector, LineSink, about};
use crate::btree::node;
use crate::heap::page as hp;
use crate::page::{self, HEADER, PAGE, PageBytes, PageView, at, get16, get32};
use crate::undo::record::UndoRecord;
use crate::wal::frame::shown_lsn;
use kilndb_base::{RelationId, Result};

impl Inspector {
    /// A block of a relation: its place in the file, the page's header, its slots or entries.
    pub fn page(&self, relation: RelationId, block: u32, lines: &mut LineSink<'_>) -> Result<()> {
        let r = self.relation(relation)?;
        let pid = Inspector::pid_of(r, block)?;
        let page = self.load(pid)?;
        lines(format!("storage relation {} ({}), block {block}", r.id, about(r)));
        lines(format!("page {pid}: file \"pages\", offset {}", u64::from(pid) * PAGE as u64));
        if get32(&page, at::REL) != r.id || get32(&page, at::BLOCK) != block {
            lines(format!(
                "the header names another page: relation {}, block {}",
                get32(&page, at::REL),
                get32(&page, at::BLOCK)
            ));
        }
        show(&page, lines);
        Ok(())
    }
}

pub(super) fn kind_name(kind: u8) -> &'static str {
    match kind {
        0 => "none: the page was never written",
        page::KIND_HEAP => "heap",
        page::KIND_TREE => "tree",
        page::KIND_CELL => "cell",
        page::KIND_UNDO => "undo",
        page::KIND_FREE => "free",
        _ => "unknown",
    }
}

/// Shows the header and what follows it.
pub(super) fn show(p: &PageBytes, lines: &mut LineSink<'_>) {
    let flags = match p[at::FLAGS] {
        0 => "none".to_string(),
        page::FLAG_UNLOGGED => "unlogged".to_string(),
        page::FLAG_TEMPORARY => "temporary".to_string(),
        other => format!("{other:#x}"),
    };
    let checksum = if page::is_intact(p) { "right" } else { "wrong" };
    lines(format!(
        "kind {}, flags {flags}, LSN {}, checksum {:08x} ({checksum})",
        kind_name(p[at::KIND]),
        shown_lsn(page::lsn(p)),
        get32(p, at::CRC)
    ));
    match p[at::KIND] {
        page::KIND_HEAP => show_heap(p, lines),
        page::KIND_TREE => show_node(p, lines),
        page::KIND_CELL => {
            let end = (HEADER + get16(p, at::COUNT)).min(PAGE);
            lines(format!("{} bytes: {}", end - HEADER, hex(&p[HEADER..end])));
        }
        page::KIND_UNDO => show_undo(p, lines),
        _ => {}
    }
}

fn show_heap(p: &PageBytes, lines: &mut LineSink<'_>) {
    let (count, upper, garbage) = (get16(p, at::COUNT), get16(p, at::UPPER), get16(p, at::GARBAGE));
    lines(format!(
        "{count} slots, {} of them free; items from offset {upper} on, {garbage} bytes of them unused; room for {} bytes",
        get16(p, at::AUX),
        hp::room(p)
    ));
    let v = PageView::of(p);
    for slot in 1..=count {
        let Some((offset, len)) = hp::item(v, slot) else {
            let is_free = v.u16(HEADER + 4 * (slot - 1)) == 0;
            lines(format!("slot {slot}: {}", if is_free { "free" } else { "out of bounds" }));
            continue;
        };
        let word = v.u64(offset);
        let payload = v.bytes(offset + hp::WORD, len - hp::WORD).unwrap_or(&[]);
        lines(format!("slot {slot}: item at {offset}, {} bytes, {}: {}", payload.len(), version(word), hex(payload)));
    }
}
fn show_node(p: &PageBytes, lines: &mut LineSink<'_>) {
    let v = PageView::of(p);
    lines(format!("level {}, {}", node::level(&v), node_summary(p)));
    for idx in 0..node::count(&v) {
        match node::entry(&v, idx) {
            Some(e) => lines(format!("entry {idx}: {}", entry(&e, node::level(&v)))),
            None => lines(format!("entry {idx}: damaged")),
        }
    }
}
/// Entries, fill, fences and right sibling of a tree's node.
pub(super) fn node_summary(p: &PageBytes) -> String {
    let v = PageView::of(p);
    let used = (PAGE - node::SLOTS).saturating_sub(node::room(p));
    let fence = |e: Option<node::NodeEntry<'_>>| e.map_or("none".into(), |e| format!("{} {}", hex(e.key), row(e.rid)));
    format!(
        "{} entries, {} % full, from {} to {}, right sibling {}",
        node::count(&v),
        used * 100 / (PAGE - node::SLOTS),
        fence(node::low(&v)),
        fence(node::high(&v)),
        match node::right(&v) {
            0 => "none".into(),
            block => format!("block {block}"),
        }
    )
}
pub(super) fn entry(e: &node::NodeEntry<'_>, level: u8) -> String {
    let to = if level > 0 { format!("to block {}", e.child) } else { format!("row {}", row(e.rid)) };
    let stamp = match e.stamp {
        0 => String::new(),
        stamp if stamp & node::RETIRED != 0 => format!(", retired by {}", undo_place(stamp & hp::ADDRESS)),
        stamp => format!(", revived by {}", undo_place(stamp & hp::ADDRESS)),
    };
    format!("key {} {to}{stamp}", hex(e.key))
}

fn show_undo(p: &PageBytes, lines: &mut LineSink<'_>) {
    lines(format!("page {} of the chunk whose number ends with {:#x}", get32(p, at::BLOCK), get32(p, at::REL)));
    let mut offset = HEADER;
    while offset + 2 <= PAGE && get16(p, offset) != 0 {
        let len = get16(p, offset);
        match p.get(offset..offset + len).and_then(UndoRecord::parse) {
            Some(found) => lines(format!("offset {offset}: {}", record(&found))),
            None => return lines(format!("offset {offset}: no undo record, {len} bytes")),
        }
        offset += len;
    }
}
