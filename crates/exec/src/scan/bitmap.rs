//! Rows that indexes have found together (bitmap scans): one after the other, or gathered for [`super::columns`].

use super::columns::GATHERED_BYTES_MAX;
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

    /// The next row or block that has been found; None: there are no more.
    fn next_found(&mut self, cx: &ExecContext<'_>) -> Result<Option<RowOrBlock>> {
        let Some(part) = self.found.get(self.found_read) else { return Ok(None) };
        self.found_read += 1;
        if self.found_read.is_multiple_of(256) {
            cx.park.checkpoint()?;
        }
        match &part {
            RowOrBlock::Block(_) => self.blocks.1 += 1,
            RowOrBlock::Row(rid) => {
                self.blocks.0 += u64::from(self.last_block.replace(rid.block) != Some(rid.block));
            }
        }
        Ok(Some(part))
    }

    /// Reads more of the rows that indexes have found. False: there are no more.
    pub(super) fn gather_found(&mut self, source: ScanSource<'_>, cx: &mut ExecContext<'_>) -> Result<bool> {
        let heap = self.heap(source.scan, source.leaf)?;
        while self.rows.rows.len() < BATCH_ROWS && self.rows.bytes.len() < GATHERED_BYTES_MAX {
            let Some(part) = self.next_found(cx)? else {
                self.is_read = true;
                break;
            };
            match part {
                RowOrBlock::Block(block) => {
                    heap.append_block(block, &cx.snapshot, &mut self.rows)?;
                    cx.park.step()?;
                }
                RowOrBlock::Row(rid) => {
                    self.bytes.clear();
                    if let Fetched::Visible { .. } = heap.fetch(rid, &cx.snapshot, &mut self.bytes)? {
                        self.rows.push(rid, &self.bytes);
                    }
                }
            }
        }
        self.tally.fetched += self.rows.rows.len() as u64;
        Ok(!self.rows.rows.is_empty())
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
            let Some(part) = self.next_found(cx)? else {
                self.done = true;
                return Ok(());
            };
            match part {
                RowOrBlock::Block(block) => {
                    self.next = 0;
                    heap.scan_block(block, &cx.snapshot, &mut self.rows)?;
                    cx.park.step()?;
                }
                RowOrBlock::Row(rid) => {
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
