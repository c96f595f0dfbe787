//! Bulk insert: fills whole pages, with one log record and one undo record for each.
//!
//! Must not know: where the rows come from.

use super::page::{self as hp, MAX_INLINE, WORD};
use crate::api::{RowBatch, RowLockMode};
use crate::directory::Relation;
use crate::txn::Transaction;
use crate::undo::record::UndoKind;
use crate::wal::record::PageOp;
use kilndb_base::bytes::put_prefixed;
use kilndb_base::{Result, RowId};

impl Relation {
    /// Bulk form: fills whole pages, one log record each. Row ids in order.
    pub fn insert_many(&self, txn: &mut Transaction, rows: &RowBatch, out: &mut Vec<RowId>) -> Result<()> {
        let txn = txn.of(self)?;
        out.clear();
        txn.begin_write()?;
        let count = rows.rows.len();
        let mut packed = Vec::new();
        let mut next = 0;
        while next < count {
            let row = rows.row(next);
            if row.len() > MAX_INLINE {
                out.push(self.insert(txn, row)?);
                next += 1;
                continue;
            }
            let (block, mut page) = self.page_with_room(txn.worker, WORD + row.len())?;
            // Consecutive slots: free ones, and new ones behind the last.
            let first = hp::next_slot(page.page(), WORD + row.len());
            let (free, most) = hp::free_slots(page.page(), first);
            let mut room = hp::PageRoom::of(page.page()).left();
            packed.clear();
            let mut taken = 0;
            while next + taken < count && taken < most {
                let row = rows.row(next + taken);
                let need = hp::space_of(WORD + row.len()) + if taken < free { 0 } else { 4 };
                if row.len() > MAX_INLINE || need > room {
                    break;
                }
                room -= need;
                put_prefixed(&mut packed, row);
                taken += 1;
            }
            if taken <= 1 {
                drop(page);
                out.push(self.insert(txn, row)?);
                next += 1;
                continue;
            }
            let last = first + taken - 1;
            let mut record = txn.record(self, UndoKind::InsertRange, RowLockMode::Update as u8, 0, block, first as u16);
            record.data = (last as u16).to_le_bytes().to_vec();
            let target = self.target(block);
            let build = |a| vec![(target, PageOp::PutMany { first, word: a, rows: &packed })];
            txn.change(self, &record, build, &[0], &mut [&mut page])?;
            out.extend((first..=last).map(|slot| RowId { block, slot: slot as u16 }));
            next += taken;
        }
        // For SERIALIZABLE only readers of the whole table matter, so noting one of the rows is enough.
        out.last().map_or(Ok(()), |rid| txn.wrote_row(self, *rid, None))
    }
}
