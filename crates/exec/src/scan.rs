//! Scans of tables: sequential, by index, by bitmap, by row id.

mod bitmap;
mod columns;
mod index;

use self::columns::GatheredRows;
use self::index::IndexCursor;
use super::columns::ColumnBatch;
use super::context::*;
use super::expr::Evaluate;
use super::partition::{self, LeafPartition, OpenPartition};
use super::row_set::RowIdSet;
use kilndb_base::sync::atomic::{AtomicU32, Ordering};
use kilndb_base::{Error, Oid, Result, RowId};
use kilndb_catalog::Table;
use kilndb_catalog::temporary::is_temporary_row;
use kilndb_fulltext::TsQuery;
use kilndb_plan::{Op, PlanNode, Scan, ScanOutput};
use kilndb_storage::{Fetched, Relation, RowBatch, RowLockMode};
use kilndb_types::row::{ColumnFetch, StoredVector};
use kilndb_types::{Datum, row};
use std::ops::Range;
use std::sync::Arc;

/// Where a row's bytes are.
#[derive(Clone, Copy)]
enum RowBytes {
    Fetched,
    /// In the batch of the block.
    Scanned(u32, u32),
}
impl RowBytes {
    fn bytes<'r>(self, fetched: &'r [u8], scanned: &'r RowBatch) -> &'r [u8] {
        match self {
            RowBytes::Fetched => fetched,
            RowBytes::Scanned(from, to) => scanned.bytes.get(from as usize..to as usize).unwrap_or(&[]),
        }
    }
}

pub(crate) struct ScanState {
    pub node: Arc<PlanNode>,
    reading: ScanProgress,
}

/// What changes while the node is read: apart from it, so that calls need no reference to it of their own, whose count
/// all workers that run the plan would share.
#[derive(Default)]
struct ScanProgress {
    block: u32,
    rows: RowBatch,
    next: usize,
    started: bool,
    done: bool,
    cursor: IndexCursor,
    bytes: Vec<u8>,
    tids: Vec<RowId>,
    /// What a bitmap scan's indexes have found, and how far it has been read.
    found: RowIdSet,
    found_read: usize,
    /// Rows are gathered from what has been found, not from all blocks.
    gathers_found: bool,
    /// Blocks of which some rows, and of which all were looked at, and the last one.
    blocks: (u64, u64),
    last_block: Option<u32>,
    /// The indexes cannot tell which rows qualify, so the whole table is read.
    reads_all: bool,
    /// The queries of the scan's tests; None stands for NULL.
    queries: Vec<Option<Arc<TsQuery>>>,
    scratch: Vec<Datum>,
    /// A node above locks the rows. Rows that this filter rules out need not be emitted.
    to_lock: Option<LockFilter>,
    /// The session's own rows of a system table, which come after those of the shared table, have been read.
    own_read: bool,
    /// The next block to be read, by whoever reads the table together; None: this scan alone.
    shared_blocks: Option<Arc<AtomicU32>>,
    /// The scan reads a part of the table, which ends before this block.
    part_end: Option<u32>,
    /// Only the rows of the block that is being read are still wanted.
    ends_with_block: bool,
    tally: AccessCounts,
    /// How many searches of the index all calls have made.
    searches: u64,
    /// The partition that is being read, if the plan's scan is of a partitioned table.
    partition: Option<OpenPartition>,
    /// The outputs of that partition, if its columns are not the named table's.
    own: Option<PartitionOutputs>,
    /// Rows that were read together, once there have been any.
    gathered: Option<Box<GatheredRows>>,
    /// All blocks of the table have been read.
    is_read: bool,
}

/// Where a scan's rows go.
enum ScanTarget<'a> {
    Rows(&'a mut Batch),
    /// Only these columns are wanted.
    Columns(&'a mut ColumnBatch, &'a [bool]),
}

/// The table that a scan reads: the plan's, or a partition of it.
#[derive(Clone, Copy)]
struct ScanSource<'a> {
    scan: &'a Scan,
    leaf: Option<&'a Arc<LeafPartition>>,
}

/// Columns of a partition that has others than the table that is read.
struct PartitionOutputs {
    outputs: Vec<ScanOutput>,
    needed: Vec<ColumnFetch>,
}

/// What one call of [`ScanState::next`] has done.
#[derive(Clone, Copy, Default)]
struct AccessCounts {
    scans: u64,
    read: u64,
    fetched: u64,
}

/// Which rows a node above is not going to lock.
#[derive(Clone, Copy)]
pub(crate) struct LockFilter {
    /// SKIP LOCKED: rows that are locked in conflict with this mode are skipped.
    pub skip: Option<RowLockMode>,
}

/// Appends the scan's columns of a stored row to `out`.
pub fn emit(scan: &Scan, bytes: &[u8], rid: RowId, out: &mut Vec<Datum>, scratch: &mut Vec<Datum>) -> Result<()> {
    let (outputs, needed, leading) = (&*scan.outputs, &*scan.needed, scan.leading);
    RowOutputs { table: &scan.table, oid: scan.table.oid, outputs, needed, leading }.append(bytes, rid, out, scratch)
}

/// What a scan yields of the rows of one table.
struct RowOutputs<'a> {
    /// A table whose rows are stored in the same way.
    table: &'a Table,
    oid: Oid,
    outputs: &'a [ScanOutput],
    /// What is decoded of each column.
    needed: &'a [ColumnFetch],
    /// How many of the outputs, at their beginning, are the decoded columns.
    leading: usize,
}

impl RowOutputs<'_> {
    /// Appends the outputs of a stored row to `out`.
    fn append(&self, bytes: &[u8], rid: RowId, out: &mut Vec<Datum>, scratch: &mut Vec<Datum>) -> Result<()> {
        let RowOutputs { table, oid, mut outputs, needed, leading } = *self;
        if leading > 0 && row::decode_needed(&table.descriptor, bytes, needed, out)? {
            outputs = &outputs[leading..];
        } else if outputs.iter().any(|o| matches!(o, ScanOutput::Column(_))) {
            scratch.clear();
            row::decode_row(&table.descriptor, bytes, Some(needed), scratch)?;
            fill_missing(table, bytes, scratch)?;
        }
        for o in outputs {
            match o {
                ScanOutput::Column(i) => out.push(scratch.get_mut(*i).map(std::mem::take).unwrap_or_default()),
                ScanOutput::Ctid => out.push(Datum::Tid(rid.block, rid.slot)),
                ScanOutput::TableOid => out.push(Datum::Oid(oid)),
                ScanOutput::Fixed(n) => out.push(Datum::Oid(*n)),
                ScanOutput::Nothing => out.push(Datum::Null),
            }
        }
        Ok(())
    }
}

/// Columns added after the row was stored have their missing value.
fn fill_missing(table: &Table, bytes: &[u8], values: &mut Vec<Datum>) -> Result<()> {
    let stored = row::stored_column_count(bytes)?;
    let count = table.columns.len();
    if stored < count {
        values.resize(count, Datum::Null);
        for (value, column) in values.iter_mut().zip(&table.columns).skip(stored) {
            *value = column.missing.clone();
        }
    }
    Ok(())
}

/// All columns of a stored row, by position in the table.
pub(crate) fn decode_all(table: &kilndb_catalog::Table, bytes: &[u8], out: &mut Vec<Datum>) -> Result<()> {
    out.clear();
    row::decode_row(&table.descriptor, bytes, None, out)?;
    fill_missing(table, bytes, out)
}

impl ScanState {
    pub fn new(node: &Arc<PlanNode>) -> ScanState {
        ScanState { node: node.clone(), reading: ScanProgress::default() }
    }
    /// The plan's scan is of a partitioned table: reads this partition next.
    pub(crate) fn read_partition(&mut self, partition: OpenPartition) -> Result<()> {
        let (Op::SeqScan(scan) | Op::IndexScan { scan, .. } | Op::TidScan { scan, .. } | Op::BitmapScan { scan, .. }) =
            &self.node.op
        else {
            return Err(Error::internal("a partition is read by something other than a scan"));
        };
        let leaf = match &partition {
            OpenPartition::Held(leaf) => Some(leaf),
            OpenPartition::Shared(_) => None,
        };
        self.reading.own = leaf.and_then(|leaf| Some((leaf, leaf.columns.as_ref()?))).map(|(leaf, columns)| {
            let mut needed = vec![ColumnFetch::Nothing; leaf.table.columns.len()];
            let own = |o: &ScanOutput| match o {
                ScanOutput::Column(i) => {
                    columns.own.get(*i).copied().flatten().map_or(ScanOutput::Nothing, ScanOutput::Column)
                }
                other => *other,
            };
            let outputs: Vec<ScanOutput> = scan.outputs.iter().map(own).collect();
            outputs.iter().for_each(|o| {
                if let ScanOutput::Column(i) = o {
                    needed[*i] = ColumnFetch::Value
                }
            });
            PartitionOutputs { outputs, needed }
        });
        self.reading.partition = Some(partition);
        Ok(())
    }
    /// Reads those blocks of the table that the others with the same counter do not.
    pub fn share(&mut self, blocks: Arc<AtomicU32>) {
        self.reading.shared_blocks = Some(blocks);
    }
    /// Reads these blocks next, as a scan that has read no others.
    pub(crate) fn begin_part(&mut self, blocks: Range<u32>) {
        let reading = &mut self.reading;
        reading.rescan();
        (reading.block, reading.part_end) = (blocks.start, Some(blocks.end));
    }
    /// Makes the scan end after the block that it is reading, until this is called with false.
    pub(crate) fn end_with_block(&mut self, ends: bool) {
        self.reading.ends_with_block = ends;
    }
    pub(crate) fn pass_over(&mut self, to_lock: LockFilter) {
        self.reading.to_lock = Some(to_lock);
    }
    pub(crate) fn rescan(&mut self) {
        self.reading.rescan();
    }
    /// How often it has searched its index.
    pub fn searches(&self) -> u64 {
        self.reading.searches
    }
    pub fn next(&mut self, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        self.next_as(ScanTarget::Rows(out), rt, cx)
    }
    /// Can it hand on its rows as columns?
    pub fn has_columns(&self) -> bool {
        let (Op::SeqScan(scan) | Op::BitmapScan { scan, .. }) = &self.node.op else { return false };
        self.reading.gathers(scan)
    }
    /// The next rows as columns, of which only those in `is_used` are there. No row: there are no more.
    pub fn next_columns(
        &mut self,
        out: &mut ColumnBatch,
        is_used: &[bool],
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        self.next_as(ScanTarget::Columns(out, is_used), rt, cx)
    }
    fn next_as(&mut self, out: ScanTarget<'_>, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        let (removed, searches) = (rt.removed, self.reading.searches);
        let done = match (&self.node.op, out) {
            (Op::CountScan { .. }, ScanTarget::Rows(out)) => self.reading.count(&self.node, out, rt, cx),
            (op, out) => self.reading.next(op, out, rt, cx),
        };
        if rt.counters.is_some() {
            rt.count_removed(self.node.id, removed);
            rt.count_searches(self.node.id, self.reading.searches - searches);
            let (exact, lossy) = self.reading.blocks;
            if exact + lossy > 0 {
                rt.report(self.node.id, NodeReport::Blocks { exact, lossy });
            }
        }
        done
    }
}

impl ScanProgress {
    fn heap<'s>(&self, scan: &'s Scan, leaf: Option<&'s Arc<LeafPartition>>) -> Result<&'s Arc<Relation>> {
        leaf.map_or_else(|| scan.heap(), |leaf| Ok(&leaf.heap))
    }
    fn emit(&mut self, source: ScanSource<'_>, bytes_of: RowBytes, rid: RowId, out: &mut Vec<Datum>) -> Result<()> {
        let ScanSource { scan, leaf } = source;
        let bytes = bytes_of.bytes(&self.bytes, &self.rows);
        match (leaf, &self.own) {
            (None, _) => emit(scan, bytes, rid, out, &mut self.scratch),
            (Some(leaf), None) => {
                let table = if leaf.is_alike { &scan.table } else { &leaf.table };
                let (outputs, needed, leading) = (&*scan.outputs, &*scan.needed, scan.leading);
                RowOutputs { table, oid: leaf.oid, outputs, needed, leading }.append(bytes, rid, out, &mut self.scratch)
            }
            (Some(leaf), Some(own)) => {
                let (outputs, needed) = (&*own.outputs, &*own.needed);
                RowOutputs { table: &leaf.table, oid: leaf.oid, outputs, needed, leading: 0 }.append(
                    bytes,
                    rid,
                    out,
                    &mut self.scratch,
                )
            }
        }
    }
    /// The heap whose blocks are read, whose scan begins with the first of them.
    fn begin_blocks<'s>(&mut self, source: ScanSource<'s>, cx: &ExecContext<'_>) -> Result<&'s Arc<Relation>> {
        let heap = self.heap(source.scan, source.leaf)?;
        // Who gives out parts has begun the scan.
        if self.block == 0 && self.part_end.is_none() {
            heap.begin_scan(&cx.snapshot)?;
            self.tally.scans += 1;
        }
        Ok(heap)
    }
    fn next_block(&mut self) -> u32 {
        match (&self.shared_blocks, self.part_end) {
            (Some(blocks), _) => blocks.fetch_add(1, Ordering::Relaxed),
            (None, Some(end)) if self.block >= end => u32::MAX,
            (None, _) => self.block,
        }
    }
    fn fetch(&mut self, scan: &Scan, heap: &Relation, rid: RowId, cx: &ExecContext<'_>) -> Result<Fetched> {
        if scan.table.is_catalog && is_temporary_row(rid) {
            let Some(row) = cx.catalog.temporary().and_then(|own| own.row(scan.table.oid, rid)) else {
                return Ok(Fetched::Invisible);
            };
            self.bytes.clear();
            row::encode_row(&scan.table.descriptor, row.values(), &mut self.bytes)?;
            return Ok(Fetched::Visible { recheck: false });
        }
        match self.to_lock {
            Some(LockFilter { skip }) if !heap.can_lock(cx.txn, rid, skip)? => Ok(Fetched::Invisible),
            _ => heap.fetch(rid, &cx.snapshot, &mut self.bytes),
        }
    }
    fn rescan(&mut self) {
        self.block = 0;
        self.rows.rows.clear();
        self.next = 0;
        self.started = false;
        self.done = false;
        self.own_read = false;
        self.reads_all = false;
        self.found = RowIdSet::default();
        self.gathers_found = false;
        self.last_block = None;
        self.queries.clear();
        self.shared_blocks = None;
        self.part_end = None;
        self.is_read = false;
        if let Some(gathered) = &mut self.gathered {
            gathered.rescan();
        }
        self.cursor.scan = None;
        self.cursor.own.clear();
    }

    /// The session's own rows of the system table.
    fn read_own(&mut self, scan: &Scan, cx: &ExecContext<'_>) -> Result<()> {
        let Some(own) = cx.catalog.temporary() else { return Ok(()) };
        let mut bytes = Vec::new();
        for row in own.scan(scan.table.oid) {
            bytes.clear();
            row::encode_row(&scan.table.descriptor, row.values(), &mut bytes)?;
            self.rows.push(row.rid, &bytes);
        }
        Ok(())
    }

    fn next(&mut self, op: &Op, out: ScanTarget<'_>, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if self.done {
            return Ok(());
        }
        let (Op::SeqScan(scan) | Op::IndexScan { scan, .. } | Op::TidScan { scan, .. } | Op::BitmapScan { scan, .. }) =
            op
        else {
            return Err(Error::internal("scan node"));
        };
        let open = self.partition.take();
        let catalog = cx.catalog;
        let anew;
        let leaf = match &open {
            None => None,
            Some(OpenPartition::Held(leaf)) => Some(leaf),
            Some(OpenPartition::Shared(place)) => match place.known(&scan.table, catalog) {
                Some(leaf) => Some(leaf),
                // The catalog objects are others than when it was opened.
                None => {
                    anew = partition::open(&scan.table, place.oid, kilndb_storage::LockMode::AccessShare, cx)?;
                    anew.as_ref()
                }
            },
        };
        let done = self.read(op, ScanSource { scan, leaf }, out, rt, cx);
        self.partition = open;
        done
    }

    fn read(
        &mut self,
        op: &Op,
        source: ScanSource<'_>,
        out: ScanTarget<'_>,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ScanSource { scan, leaf } = source;
        let out = match out {
            ScanTarget::Rows(out) => out,
            ScanTarget::Columns(out, is_used) => {
                if let Op::BitmapScan { bitmap, .. } = op
                    && !std::mem::replace(&mut self.started, true)
                {
                    self.gathers_found = self.find_rows(source, bitmap, rt, cx)?;
                }
                let done = self.next_columns(source, (out, is_used), rt, cx);
                self.count_seq(source, cx);
                return done;
            }
        };
        match op {
            Op::IndexScan { access, .. } => {
                let done = self.index(source, access, out, rt, cx);
                let AccessCounts { scans, read, fetched } = std::mem::take(&mut self.tally);
                self.searches += scans;
                let index =
                    leaf.and_then(|leaf| leaf.index(access.index.oid).ok()).map_or(access.index.oid, |own| own.oid);
                cx.usage.scanned(index, scans, read, fetched);
                done
            }
            Op::TidScan { tids, .. } => self.tid(source, tids, out, rt, cx),
            Op::BitmapScan { bitmap, .. } if !self.reads_all => {
                let done = self.bitmap(source, bitmap, out, rt, cx);
                let AccessCounts { fetched, .. } = std::mem::take(&mut self.tally);
                cx.usage.scanned(leaf.map_or(scan.table.oid, |leaf| leaf.oid), 0, 0, fetched);
                done
            }
            _ => {
                let done = self.seq(source, out, rt, cx);
                self.count_seq(source, cx);
                done
            }
        }
    }
    fn count_seq(&mut self, ScanSource { scan, leaf }: ScanSource<'_>, cx: &mut ExecContext<'_>) {
        let AccessCounts { scans, read, fetched } = std::mem::take(&mut self.tally);
        cx.usage.scanned(leaf.map_or(scan.table.oid, |leaf| leaf.oid), scans, read, fetched);
    }

    fn count(&mut self, node: &PlanNode, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        match &node.op {
            Op::CountScan { .. } if self.done => Ok(()),
            Op::CountScan { heap, table, is_system } => {
                heap.begin_scan(&cx.snapshot)?;
                let mut total: i64 =
                    super::parts::count(std::slice::from_ref(heap), node.id, rt, cx)?.into_iter().sum();
                self.done = true;
                if *is_system && let Some(own) = cx.catalog.temporary() {
                    total += own.count(*table) as i64;
                }
                cx.usage.scanned(*table, 1, total as u64, 0);
                out.push(&[Datum::Int8(total)]);
                Ok(())
            }
            _ => Err(Error::internal("scan node")),
        }
    }

    fn keep(scan: &Scan, out: &mut Batch, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        if let Some(f) = &scan.filter {
            let from = out.rows * out.width;
            if !f.is_true(&out.data[from..], rt, cx)? {
                out.cancel_row();
                rt.removed += 1;
                return Ok(());
            }
        }
        out.end_row();
        Ok(())
    }

    /// Emits a visible row if it passes the scan's tests and filter.
    #[inline]
    fn offer(
        &mut self,
        source: ScanSource<'_>,
        (row, rid): (RowBytes, RowId),
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ScanSource { scan, leaf } = source;
        if !scan.tests.is_empty() && !self.passes(scan, leaf, row.bytes(&self.bytes, &self.rows))? {
            rt.removed += 1;
            return Ok(());
        }
        self.emit(source, row, rid, &mut out.data)?;
        Self::keep(scan, out, rt, cx)
    }

    fn seq(
        &mut self,
        source: ScanSource<'_>,
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ScanSource { scan, .. } = source;
        if scan.filter.is_some() && self.gathers(scan) {
            return self.seq_gathered(source, out, rt, cx);
        }
        self.read_queries(scan, rt, cx)?;
        let heap = self.begin_blocks(source, cx)?;
        while !out.full() {
            if self.next >= self.rows.rows.len() {
                if self.ends_with_block {
                    return Ok(());
                }
                let block = self.next_block();
                if block >= heap.pages() {
                    if !scan.table.is_catalog || self.own_read {
                        self.done = true;
                        return Ok(());
                    }
                    self.own_read = true;
                    self.rows.clear();
                    self.next = 0;
                    self.read_own(scan, cx)?;
                    continue;
                }
                heap.scan_block(block, &cx.snapshot, &mut self.rows)?;
                self.tally.read += self.rows.rows.len() as u64;
                self.block = block + 1;
                self.next = 0;
                if self.block.is_multiple_of(16) {
                    cx.park.checkpoint()?;
                }
                continue;
            }
            let (rid, from, to) = self.rows.rows[self.next];
            self.next += 1;
            self.offer(source, (RowBytes::Scanned(from, to), rid), out, rt, cx)?;
        }
        Ok(())
    }

    fn tid(
        &mut self,
        source: ScanSource<'_>,
        tids: &[kilndb_plan::expression::Expression],
        out: &mut Batch,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<()> {
        let ScanSource { scan, leaf } = source;
        let heap = self.heap(scan, leaf)?;
        if !self.started {
            self.started = true;
            self.tids.clear();
            self.next = 0;
            for e in tids {
                match e.eval(&[], rt, cx)? {
                    Datum::Tid(block, slot) => self.tids.push(RowId { block, slot }),
                    Datum::Array(a) => self.tids.extend(a.elements.iter().filter_map(|d| match d {
                        Datum::Tid(block, slot) => Some(RowId { block: *block, slot: *slot }),
                        _ => None,
                    })),
                    _ => {}
                }
            }
            self.tids.sort();
            self.tids.dedup();
        }
        while !out.full() {
            let Some(rid) = self.tids.get(self.next).copied() else {
                self.done = true;
                return Ok(());
            };
            self.next += 1;
            if rid.block >= heap.pages() && !(scan.table.is_catalog && is_temporary_row(rid)) {
                continue;
            }
            if let Fetched::Visible { .. } = self.fetch(scan, heap, rid, cx)? {
                self.emit(source, RowBytes::Fetched, rid, &mut out.data)?;
                Self::keep(scan, out, rt, cx)?;
            }
        }
        Ok(())
    }

    /// What the scan's tests look for, once a scan.
    fn read_queries(&mut self, scan: &Scan, rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<()> {
        for test in &scan.tests[self.queries.len()..] {
            self.queries.push(if let Datum::TsQuery(q) = test.query.eval(&[], rt, cx)? { Some(q) } else { None });
        }
        Ok(())
    }

    /// Does a stored row satisfy the scan's tests?
    fn passes(&self, scan: &Scan, leaf: Option<&Arc<LeafPartition>>, bytes: &[u8]) -> Result<bool> {
        for (test, query) in scan.tests.iter().zip(&self.queries) {
            let Some(query) = query else { return Ok(false) };
            let (table, column) = match leaf {
                None => (&scan.table, Some(test.column)),
                Some(leaf) => (
                    &leaf.table,
                    leaf.columns.as_ref().map_or(Some(test.column), |c| c.own.get(test.column).copied().flatten()),
                ),
            };
            let column = column.ok_or_else(|| Error::internal("a partition without a column of its table"))?;
            let found = match row::stored_vector(&table.descriptor, bytes, column)? {
                StoredVector::Bytes(document) => kilndb_fulltext::stored::matches(document, query)?,
                StoredVector::Plain(document) => query.matches(&kilndb_fulltext::TsVector::receive(document)?),
                StoredVector::Null => false,
                StoredVector::Missing => {
                    matches!(&table.columns[column].missing, Datum::TsVector(v) if query.matches(&**v))
                }
            };
            if !found {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
