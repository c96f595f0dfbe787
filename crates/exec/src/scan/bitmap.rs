//! Rows that indexes have found together (bitmap scans), one after the other. As columns they are read by
//! [`super::columns`].

use super::{RowBytes, ScanProgress, ScanSource};
use crate::bitmap::BitmapRows;
use crate::context::*;
use crate::row_set::RowOrBlock;
use kilndb_base::Result;
use kilndb_plan::Bitmap;
use kilndb_storage::Fetched;

impl ScanProgress {
    /// Asks the bitmap scan's indexes for its rows. False: they cannot tell, so that the whole table is to be read.
    pub(super) fn find_rows(
        &mut self,
        ScanSource { scan, leaf }: ScanSource<'_>,
        bitmap: &Bitmap,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<bool> {
        self.rows.clear();
        (self.next, self.found_read) = (0, 0);
        self.read_queries(scan, rt, cx)?;
        match crate::bitmap::rows(bitmap, leaf, rt, cx)? {
            BitmapRows::Rows(rows) => self.found = rows,
            BitmapRows::Everything => self.reads_all = true,
        }
        Ok(!self.reads_all)
    }

    pub(super) fn bitmap(
        &mut self,
        source: ScanSource<'_>,
        bitmap: &Bitmap,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ScanSource { scan, leaf } = source;
        if !std::mem::replace(&mut self.started, true) && !self.find_rows(source, bitmap, rt, cx)? {
            return self.seq(source, out, rt, cx);
        }
        let heap = self.heap(scan, leaf)?;
        while !out.full() {
            if let Some((rid, from, to)) = self.rows.rows.get(self.next).copied() {
                // The row belongs to a block that is read as a whole.
                self.next += 1;
                self.tally.fetched += 1;
                self.offer(source, (RowBytes::Scanned(from, to), rid), out, rt, cx)?;
                continue;
            }
            let Some(part) = self.found.get(self.found_read) else {
                self.done = true;
                return Ok(());
            };
            self.found_read += 1;
            if self.found_read.is_multiple_of(256) {
                cx.park.checkpoint()?;
            }
            match part {
                RowOrBlock::Block(block) => {
                    self.next = 0;
                    self.blocks.1 += 1;
                    heap.scan_block(block, &cx.snapshot, &mut self.rows)?;
                    cx.park.step()?;
                }
                RowOrBlock::Row(rid) => {
                    self.blocks.0 += u64::from(self.last_block.replace(rid.block) != Some(rid.block));
                    if let Fetched::Visible { .. } = self.fetch(scan, heap, rid, cx)? {
                        self.tally.fetched += 1;
                        self.offer(source, (RowBytes::Fetched, rid), out, rt, cx)?;
                    }
                }
            }
        }
        Ok(())
    }
}
