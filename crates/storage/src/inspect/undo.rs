//! Shows a row's versions: the one in its page, and its undo chain from the newest record to the oldest.
//!
//! Must not know: which of them a snapshot sees.

use super::words::{hex, record, row, undo_place, version};
use super::{Inspector, LineSink, about};
use crate::heap::page as hp;
use crate::page::{self, KIND_UNDO, PAGE, PageView};
use crate::undo::record::{CHUNK, UndoKind, UndoRecord};
use kilndb_base::hash::{HashSet, HashSetExt};
use kilndb_base::{Error, RelationId, Result, RowId, sqlstate};

impl Inspector {
    /// The row's item, and the records that lead to its older versions.
    pub fn undo(&self, relation: RelationId, rid: RowId, lines: &mut LineSink<'_>) -> Result<()> {
        let r = self.relation(relation)?;
        let page = self.load(Inspector::pid_of(r, rid.block)?)?;
        let (v, slot) = (PageView::of(&page), usize::from(rid.slot));
        let Some((offset, len)) = hp::item(v, slot).filter(|_| v.is(page::KIND_HEAP, r.id, rid.block)) else {
            let message = format!("storage relation {} ({}) has no row {}", r.id, about(r), row(rid.to_u64()));
            return Err(Error::new(sqlstate::UNDEFINED_OBJECT, message));
        };
        let word = v.u64(offset);
        let payload = v.bytes(offset + hp::WORD, len - hp::WORD).unwrap_or(&[]);
        lines(format!("row {} of storage relation {} ({})", row(rid.to_u64()), r.id, about(r)));
        lines(format!("{}: {}", version(word), hex(payload)));
        if word & hp::PIECE != 0 {
            return Ok(());
        }
        let mut address = word & hp::ADDRESS;
        let mut seen = HashSet::new();
        while address != 0 {
            if !seen.insert(address) {
                lines(format!("{}: the chain goes in a circle", undo_place(address)));
                break;
            }
            let Some((pid, page)) = self.load_undo(address)? else {
                lines(format!("{}: gone; the version before it is visible to all", undo_place(address)));
                break;
            };
            let at = (address % PAGE as u64) as usize;
            let undo_page = PageView::of(&page);
            let bytes = undo_page.bytes(at, undo_page.u16(at)).unwrap_or(&[]);
            let is_its_chunk =
                undo_page.u8(page::at::KIND) == KIND_UNDO && undo_page.u32(page::at::REL) == (address / CHUNK) as u32;
            let Some(found) = UndoRecord::parse_row(bytes, slot).filter(|_| is_its_chunk) else {
                let place = format!("page {pid}: file \"pages\", offset {}", u64::from(pid) * PAGE as u64);
                lines(format!("{}: no record there ({place}); it may be in the log only", undo_place(address)));
                break;
            };
            lines(format!("{}: {}", undo_place(address), record(&found)));
            address = match found.kind {
                UndoKind::Insert | UndoKind::InsertRange => 0,
                _ => found.old_word & hp::ADDRESS,
            };
        }
        lines("that is all".into());
        Ok(())
    }
}
