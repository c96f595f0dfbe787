//! Filling an index from its table, and queries that DDL asks of its own database.

use super::Definitions;
use super::key_merge::{BuiltEntries, KEYS_AHEAD_MIN, with_merged};
use super::key_sort::KeySorter;
use super::older_keys::OlderKeys;
use super::online::{COPYING, PacedRuntime};
use crate::client::{ProgressKind, ProgressSlot, Runtime};
use crate::host::RowsSink;
use kilndb_base::park::Park;
use kilndb_base::sync::atomic::{AtomicU32, Ordering};
use kilndb_base::{Error, RelationId, Result, RowId, sqlstate};
use kilndb_bind::engine_query::{EngineQuery, RowCondition, RowValue, TableQuery};
use kilndb_catalog::inverted::inverted_class;
use kilndb_catalog::{Index, Table};
use kilndb_exec::RowSink;
use kilndb_plan::Plan;
use kilndb_storage::{Fetched, Relation, RowBatch, Snapshot};
use kilndb_types::Datum;
use kilndb_types::inverted::InvertedClass;
use kilndb_types::key::encode_key;
use kilndb_types::row::ColumnFetch;
use kilndb_types::stored_columns::{StoredColumns, StoredRows};
use kilndb_types::vector::{Rows, Vector};
use std::sync::Arc;

/// Places in pg_stat_progress_create_index's numbers.
const COMMAND: usize = 0;
const INDEX: usize = 6;
const METHOD: usize = 8;
const PHASE: usize = 9;
/// Of the index method: 2 reads the table, 3 sorts, 5 fills the tree.
const STEP: usize = 10;
const ROWS_TOTAL: usize = 11;
pub(super) const ROWS_DONE: usize = 12;
const BLOCKS_TOTAL: usize = 15;
const BLOCKS_DONE: usize = 16;
const CREATE_INDEX: i64 = 1;
pub(super) const REINDEX: i64 = 3;

/// Which rows' keys are gathered.
#[derive(Clone, Copy, Default)]
pub(super) struct KeysOf<'a> {
    /// What sees the rows; None: all that is there now.
    pub snapshot: Option<&'a Snapshot>,
    /// Only those in these places.
    pub rows: Option<&'a [RowId]>,
}

struct KeySink<'a> {
    sorter: &'a mut KeySorter,
    index: &'a Index,
    classes: &'a [InvertedClass],
    key: Vec<u8>,
}

/// The key of a row, or in an index of terms, whose classes these are, its terms: as the index keeps them.
fn push_entries(
    index: &Index,
    classes: &[InvertedClass],
    values: &[Datum],
    rid: RowId,
    key: &mut Vec<u8>,
    sorter: &mut KeySorter,
) -> Result<()> {
    let kind = index.storage_kind();
    if classes.is_empty() {
        let has_null = encode_entry(index, values, key)?;
        return sorter.push(&kind.kept_key(key), rid, has_null);
    }
    let mut terms = Vec::new();
    for ((column, class), value) in (0..).zip(classes).zip(values) {
        class.terms(column, value, &mut terms)?;
    }
    terms.iter().try_for_each(|term| sorter.push(&kind.kept_term(term), rid, false))
}

fn encode_entry(index: &Index, values: &[Datum], key: &mut Vec<u8>) -> Result<bool> {
    key.clear();
    let mut has_null = false;
    for (k, value) in index.keys.iter().zip(values) {
        has_null |= value.is_null();
        encode_key(k.order_type, value, k.descending, k.nulls_first, key)?;
    }
    Ok(has_null && !index.nulls_not_distinct)
}

/// A table whose keys several threads gather: each takes the blocks that the others have not.
struct KeyScan {
    table: Arc<Table>,
    index: Arc<Index>,
    classes: Vec<InvertedClass>,
    heap: Arc<Relation>,
    snapshot: Snapshot,
    next_block: AtomicU32,
}

/// Smaller tables are read before a helper has begun.
const BLOCKS_PER_HELPER: u32 = 1024;

/// Buffers that are kept from some rows to the next.
struct KeyScratch {
    needed: Vec<ColumnFetch>,
    stored: StoredColumns,
    /// By key of the index.
    vectors: Vec<Vector>,
    keys: Vec<Datum>,
    key: Vec<u8>,
}

impl KeyScratch {
    fn of(scan: &KeyScan) -> KeyScratch {
        let mut needed = vec![ColumnFetch::Nothing; scan.table.columns.len()];
        scan.index.keys.iter().for_each(|k| needed[k.attnum as usize - 1] = ColumnFetch::Value);
        let vectors = vec![Vector::default(); scan.index.keys.len()];
        KeyScratch { needed, stored: StoredColumns::default(), vectors, keys: Vec::new(), key: Vec::new() }
    }
}

/// So many rows, or bytes of rows, are read before their keys are.
const ROWS_TOGETHER: usize = 1024;
const BYTES_TOGETHER: usize = 1 << 18;

fn is_full(batch: &RowBatch) -> bool {
    batch.rows.len() >= ROWS_TOGETHER || batch.bytes.len() >= BYTES_TOGETHER
}

impl KeyScan {
    /// The keys of the rows in these places alone.
    fn collect_among(&self, rows: &[RowId], sorter: &mut KeySorter) -> Result<()> {
        let (mut bytes, mut batch, mut scratch) = (Vec::new(), RowBatch::default(), KeyScratch::of(self));
        for rid in rows {
            if self.heap.fetch(*rid, &self.snapshot, &mut bytes)? != Fetched::Invisible {
                batch.push(*rid, &bytes);
            }
            if is_full(&batch) {
                self.push_rows(&batch, &mut scratch, sorter)?;
                batch.clear();
            }
        }
        self.push_rows(&batch, &mut scratch, sorter)
    }

    /// `progress`: where it is told how far all are.
    fn collect(&self, sorter: &mut KeySorter, park: &dyn Park, progress: Option<&ProgressSlot>) -> Result<()> {
        let (mut batch, mut scratch) = (RowBatch::default(), KeyScratch::of(self));
        loop {
            let block = self.next_block.fetch_add(1, Ordering::Relaxed);
            let is_last = block >= self.heap.pages();
            if !is_last {
                self.heap.append_block(block, &self.snapshot, &mut batch)?;
            }
            if is_last || is_full(&batch) {
                self.push_rows(&batch, &mut scratch, sorter)?;
                batch.clear();
            }
            if is_last {
                return Ok(());
            }
            // Blocks may be empty, so that it takes many to fill a batch.
            if block.is_multiple_of(16) {
                progress.inspect(|p| p.set(BLOCKS_DONE, i64::from(block)));
                park.checkpoint()?;
            }
        }
    }

    /// The keys of some rows: a column of all of them after the other.
    fn push_rows(&self, batch: &RowBatch, s: &mut KeyScratch, sorter: &mut KeySorter) -> Result<()> {
        let desc = &self.table.descriptor;
        let stored = StoredRows { bytes: &batch.bytes, rows: &batch.rows };
        let rows = Rows::All(batch.rows.len());
        let positions = || self.index.keys.iter().map(|k| k.attnum as usize - 1);
        s.stored.begin(desc, stored)?;
        s.stored.find(desc, (positions().max().unwrap_or(0), &s.needed), stored, rows)?;
        for (at, vector) in positions().zip(&mut s.vectors) {
            vector.start(batch.rows.len());
            let missing = &self.table.columns[at].missing;
            s.stored.read((&desc.columns[at], at), missing, stored, rows, vector)?;
        }
        for (row, (rid, ..)) in batch.rows.iter().enumerate() {
            s.keys.clear();
            for vector in &s.vectors {
                s.keys.push(vector.get(row)?);
            }
            push_entries(&self.index, &self.classes, &s.keys, *rid, &mut s.key, sorter)?;
        }
        Ok(())
    }
}

impl RowSink for KeySink<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let (Some(Datum::Tid(block, slot)), Some(keys)) = (values.first(), values.get(1..)) else {
            return Err(Error::internal("an index build row without a row id"));
        };
        push_entries(self.index, self.classes, keys, RowId { block: *block, slot: *slot }, &mut self.key, self.sorter)
    }
}

impl Definitions<'_> {
    /// Runs a query of the engine's own, on all that there is by now, and returns its rows.
    pub(crate) fn rows_of(&mut self, query: &dyn EngineQuery, runtime: &dyn Runtime) -> Result<Vec<Vec<Datum>>> {
        let mut sink = RowsSink::default();
        self.rows_into(query, runtime, &mut sink)?;
        Ok(sink.rows)
    }

    /// As [`Definitions::rows_of`], of a query that is not expected to have any. Keeps the first.
    pub(crate) fn first_row_of(
        &mut self,
        query: &dyn EngineQuery,
        runtime: &dyn Runtime,
    ) -> Result<Option<Vec<Datum>>> {
        let mut sink = FirstRowSink::default();
        self.rows_into(query, runtime, &mut sink)?;
        Ok(sink.0)
    }

    /// As [`Definitions::rows_of`], of a query of one row and one value.
    pub(crate) fn value_of(&mut self, query: &dyn EngineQuery, runtime: &dyn Runtime) -> Result<Datum> {
        let row = self.rows_of(query, runtime)?.pop();
        Ok(row.and_then(|mut row| row.pop()).unwrap_or_default())
    }

    /// As [`Definitions::rows_of`], row by row. Returns how many there were, or how many were changed.
    pub(crate) fn rows_into(
        &mut self,
        query: &dyn EngineQuery,
        runtime: &dyn Runtime,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let plan = self.context_mut().plan_engine_query(query, runtime)?;
        self.run_at_newest(&plan, runtime, sink)
    }

    /// As [`Definitions::rows_into`], on what the snapshot sees.
    pub(crate) fn rows_at(
        &mut self,
        query: &dyn EngineQuery,
        snapshot: Snapshot,
        runtime: &dyn Runtime,
        sink: &mut dyn RowSink,
    ) -> Result<u64> {
        let context = self.context_mut();
        let plan = context.plan_engine_query(query, runtime)?;
        context.check_read_only(&plan)?;
        context.lock_tables(&plan, runtime)?;
        self.host.run_plan(&plan, snapshot, runtime, sink)
    }

    /// The table, or of a partitioned one the partition, that some row fulfilling the condition is in. None: there is no
    /// such row.
    pub(crate) fn table_with_row(
        &mut self,
        table: &Arc<Table>,
        condition: RowCondition<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<Table>>> {
        if self.has_no_page(table)? {
            return Ok(None);
        }
        let query = TableQuery { table, values: vec![RowValue::TableOid], condition, is_one: true };
        match self.rows_of(&query, runtime)?.first().and_then(|row| row.first()) {
            Some(Datum::Oid(oid)) if *oid != table.oid => self.context_mut().table_by_oid(*oid, runtime).map(Some),
            Some(_) => Ok(Some(table.clone())),
            None => Ok(None),
        }
    }

    /// 42501 unless the role in force may call the functions of an expression or a condition of a table's rows. PostgreSQL
    /// asks whether there are rows or not; a partitioned table has none of its own.
    pub(super) fn require_calls(
        &mut self,
        table: &Arc<Table>,
        (value, condition): (RowValue<'_>, RowCondition<'_>),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if table.storage.0 == 0 {
            return Ok(());
        }
        let query = TableQuery { table, values: vec![value], condition, is_one: true };
        let context = self.context_mut();
        let plan = context.plan_engine_query(&query, runtime)?;
        context.check_access(&plan)
    }

    /// Asks the predicate of an index on a table without a row: the role in force must be allowed to call its functions, and one
    /// that uses no column is judged once, as by PostgreSQL. The index's expressions are not asked about.
    fn ask_predicate(&mut self, table: &Arc<Table>, index: &Index, runtime: &dyn Runtime) -> Result<()> {
        let Some(sql) = &index.predicate_sql else { return Ok(()) };
        if table.storage.0 == 0 {
            return Ok(());
        }
        let heap_alone = without_indexes(table);
        let (values, condition) = (vec![RowValue::Place], RowCondition::True(sql));
        let query = TableQuery { table: &heap_alone, values, condition, is_one: true };
        self.rows_into(&query, runtime, &mut FirstRowSink::default()).map(drop)
    }

    /// Whether a table has never had a row.
    pub(super) fn has_no_page(&self, table: &Table) -> Result<bool> {
        if table.storage.0 == 0 {
            return Ok(false);
        }
        let context = self.context();
        Ok(context.shared.temporary.relation(&context.cluster.engine, table.storage)?.pages() == 0)
    }

    /// The same of a table whose rows are all gone.
    fn has_no_row(&mut self, table: &Arc<Table>, of: &KeysOf<'_>, runtime: &dyn Runtime) -> Result<bool> {
        let heap_alone = without_indexes(table);
        let values = vec![RowValue::Place];
        let condition = of.rows.map_or(RowCondition::All, RowCondition::Among);
        let query = TableQuery { table: &heap_alone, values, condition, is_one: true };
        let mut sink = FirstRowSink::default();
        match of.snapshot {
            Some(snapshot) => self.rows_at(&query, snapshot.clone(), runtime, &mut sink)?,
            None => self.rows_into(&query, runtime, &mut sink)?,
        };
        Ok(sink.0.is_none())
    }

    /// Runs a plan on what the transaction's statements see.
    pub fn run_seen(&mut self, plan: &Arc<Plan>, runtime: &dyn Runtime, sink: &mut dyn RowSink) -> Result<u64> {
        let context = self.context_mut();
        context.check_read_only(plan)?;
        context.lock_tables(plan, runtime)?;
        let snapshot = context.take_snapshot(runtime)?;
        self.host.run_plan(plan, snapshot, runtime, sink)
    }

    /// A definition concerns all rows that there are, also those that a snapshot which the transaction keeps does not
    /// see: what it stores anew, checks or enters in an index is there for others.
    fn run_at_newest(&mut self, plan: &Arc<Plan>, runtime: &dyn Runtime, sink: &mut dyn RowSink) -> Result<u64> {
        let context = self.context_mut();
        context.check_read_only(plan)?;
        context.lock_tables(plan, runtime)?;
        let snapshot = context.catalog_snapshot()?;
        self.host.run_plan(plan, snapshot, runtime, sink)
    }

    /// Sorts the keys of all rows and builds the tree from them.
    pub(crate) fn build_index(&mut self, table: &Arc<Table>, index: &Arc<Index>, runtime: &dyn Runtime) -> Result<()> {
        self.build_index_for(CREATE_INDEX, table, index, runtime)
    }

    /// Tells the storage of a new index which table it is of. True: the table has no page yet, so the index is built.
    /// `is_of_all_rows`: the index has no predicate.
    pub(super) fn is_index_of_nothing(&self, table: &Table, storage: RelationId, is_of_all_rows: bool) -> Result<bool> {
        let relation = |id| self.context().shared.temporary.relation(&self.context().cluster.engine, id);
        let (heap, tree) = (relation(table.storage)?, relation(storage)?);
        if is_of_all_rows && tree.kind().method().is_some_and(|m| m.leads_to_all_rows) {
            tree.set_heap_of_all_rows(table.storage);
        } else {
            tree.set_heap(table.storage);
        }
        Ok(heap.pages() == 0)
    }

    /// `command`: whose progress is shown.
    pub(super) fn build_index_for(
        &mut self,
        command: i64,
        table: &Arc<Table>,
        index: &Arc<Index>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let heap = self.context().shared.temporary.relation(&self.context().cluster.engine, table.storage)?;
        let is_empty = match index.is_in_whole {
            true => heap.pages() == 0,
            false => self.is_index_of_nothing(table, index.storage, index.predicate_sql.is_none())?,
        };
        let follows = self.is_online(table);
        if is_empty && !follows {
            return self.ask_predicate(table, index, runtime);
        }
        let progress = &runtime.control().progress;
        progress.begin(ProgressKind::CreateIndex, table.oid);
        progress.set(COMMAND, command);
        // Of a copy that follows its table too.
        let paced = PacedRuntime::new(runtime, &self.context().cluster.engine, COPYING);
        let pace: &dyn Runtime = if self.online.is_some() { &paced } else { runtime };
        let built = self.build_index_now(table, index, heap.pages(), pace);
        if follows && built.is_ok() {
            self.follow_with_index(table, index);
        }
        progress.end();
        self.note_built_size(table, index, built?, runtime)
    }

    /// How many entries the index has then, those of older versions of rows left out.
    fn build_index_now(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        blocks: u32,
        runtime: &dyn Runtime,
    ) -> Result<u64> {
        let progress = &runtime.control().progress;
        progress.set(INDEX, i64::from(index.oid));
        progress.set(METHOD, i64::from(index.method.oid));
        progress.set(PHASE, 2);
        progress.set(STEP, 2);
        progress.set(BLOCKS_TOTAL, i64::from(blocks));
        if index.is_in_whole {
            return self.enter_rows(table, index, runtime).map(|()| 0);
        }
        // All that is there now, whatever the transaction's snapshot: others will look for it here.
        let seen = match self.is_online(table) {
            true => self.followed_snapshot(table, runtime)?,
            false => self.newest_snapshot()?,
        };
        let of = KeysOf { snapshot: Some(&seen), rows: None };
        let sorters = self.gather_keys(table, index, &of, runtime)?;
        progress.set(BLOCKS_DONE, i64::from(blocks));
        progress.set(STEP, 3);
        let count = sorters.iter().map(|s| s.count).sum::<u64>();
        progress.set(ROWS_TOTAL, count as i64);
        let tree = self.context().shared.temporary.relation(&self.context().cluster.engine, index.storage)?;
        let (pool, helpers) = (self.context().cluster.helpers.clone(), self.context().settings.helpers_per_index);
        let txn = self
            .context_mut()
            .transaction
            .txn
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction to build an index in"))?;
        if tree.kind() != index.storage_kind() {
            return Err(Error::internal("an index is built in storage of another kind"));
        }
        let helpers = if count >= KEYS_AHEAD_MIN { helpers } else { 0 };
        progress.set(STEP, 5);
        let mut duplicate = None;
        let built = with_merged(sorters, (&pool, helpers), runtime, |keys| {
            let (is_unique, previous) = (index.unique, Vec::new());
            let mut entries = BuiltEntries { keys, progress, is_unique, loaded: 0, previous, duplicate: None };
            let built = tree.index_build(txn, &mut entries, runtime);
            duplicate = entries.duplicate;
            built
        });
        if let Some(rid) = duplicate {
            return Err(self.duplicate_error(table, index, rid, runtime)?);
        }
        built?;
        self.add_older_keys(table, index, OlderKeys { than: &seen, since: None }, runtime)?;
        Ok(count)
    }

    /// The keys of rows, to be merged.
    pub(super) fn gather_keys(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        of: &KeysOf<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<KeySorter>> {
        if index.predicate_sql.is_none() && index.keys.iter().all(|k| k.attnum != 0) {
            return self.collect_column_keys(table, index, of, runtime);
        }
        if index.is_in_whole
            && self.context().transaction.txn.as_ref().is_some_and(|txn| txn.isolation().keeps_snapshot())
        {
            // The query would not see rows that are newer than the snapshot.
            self.refuse_for_global(index, "at this isolation level, moving rows")?;
        }
        let mut sorter = self.new_key_sorter(1)();
        if self.has_no_page(table)? || self.has_no_row(table, of, runtime)? {
            self.ask_predicate(table, index, runtime)?;
            return Ok(vec![sorter]);
        }
        let keys = index.keys.iter().map(|k| match &k.expression_sql {
            Some(sql) => RowValue::Expression(sql),
            None => RowValue::Column(k.attnum),
        });
        // The rows are looked for in the heap: the index itself would lead to none.
        let heap_alone = without_indexes(table);
        let query = TableQuery {
            table: &heap_alone,
            values: std::iter::once(RowValue::Place).chain(keys).collect(),
            condition: match (index.predicate_sql.as_deref(), of.rows) {
                (None, None) => RowCondition::All,
                (Some(sql), None) => RowCondition::True(sql),
                (None, Some(rows)) => RowCondition::Among(rows),
                (Some(sql), Some(rows)) => RowCondition::TrueAmong(sql, rows),
            },
            is_one: false,
        };
        let classes = self.inverted_classes(index, runtime)?;
        let mut sink = KeySink { sorter: &mut sorter, index, classes: &classes, key: Vec::new() };
        match of.snapshot {
            Some(snapshot) => self.rows_at(&query, snapshot.clone(), runtime, &mut sink)?,
            None => self.rows_into(&query, runtime, &mut sink)?,
        };
        Ok(vec![sorter])
    }

    /// The keys of an index on columns: of a large table, helpers sort those of a part of its blocks.
    fn collect_column_keys(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        of: &KeysOf<'_>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<KeySorter>> {
        let heap = self.context().shared.temporary.relation(&self.context().cluster.engine, table.storage)?;
        let classes = self.inverted_classes(index, runtime)?;
        let txn = self
            .context_mut()
            .transaction
            .txn
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction to build an index in"))?;
        let snapshot = match of.snapshot {
            Some(snapshot) => snapshot.clone(),
            // All that is there now, whatever the transaction's snapshot: others will look for it here.
            None => {
                txn.next_command();
                txn.catalog_snapshot()
            }
        };
        let is_large = of.rows.is_none() && heap.pages() >= BLOCKS_PER_HELPER;
        let shared = matches!(table.persistence, b'p' | b'u') && is_large;
        let helpers = if shared { self.context().settings.helpers_per_index } else { 0 };
        let new_sorter = self.new_key_sorter(1 + helpers);
        let part = Arc::new(KeyScan {
            table: table.clone(),
            index: index.clone(),
            classes,
            heap,
            snapshot,
            next_block: AtomicU32::new(0),
        });
        let team = {
            let (part, new_sorter) = (part.clone(), new_sorter.clone());
            self.context().cluster.helpers.start(helpers, runtime.wake_handle(), move |park| {
                let mut sorter = new_sorter();
                part.collect(&mut sorter, park, None)?;
                sorter.sort_now()?;
                Ok(sorter)
            })
        };
        let mut sorter = new_sorter();
        if let Some(rows) = of.rows {
            part.collect_among(rows, &mut sorter)?;
            return Ok(vec![sorter]);
        }
        part.collect(&mut sorter, runtime, Some(&runtime.control().progress))?;
        let mut sorters = vec![sorter];
        if let Some(team) = team {
            sorters.extend(team.finish(runtime)?);
        }
        Ok(sorters)
    }

    /// Of the columns of an index of terms; of another index none.
    fn inverted_classes(&mut self, index: &Index, runtime: &dyn Runtime) -> Result<Vec<InvertedClass>> {
        let keys = index.keys.iter().filter(|_| index.has_terms());
        self.context_mut()
            .with_catalog(runtime, |host| keys.map(|k| inverted_class(k.opclass, k.type_oid, &host.reader)).collect())
    }

    /// Makes sorters, so many of which share the memory that maintenance may take.
    pub(super) fn new_key_sorter(&self, sharers: usize) -> impl Fn() -> KeySorter + Clone + Send + Sync + 'static {
        let (env, folder) = (self.context().cluster.env.clone(), self.context().cluster.data_dir.clone());
        let budget_bytes = self.context().settings.maintenance_work_mem_bytes as usize / sharers;
        move || KeySorter::new(env.clone(), &folder, budget_bytes)
    }

    /// What PostgreSQL says of two rows with one key.
    pub(super) fn duplicate_error(
        &mut self,
        table: &Arc<Table>,
        index: &Arc<Index>,
        rid: RowId,
        runtime: &dyn Runtime,
    ) -> Result<Error> {
        let quote = kilndb_catalog::format_type::quote_identifier;
        let shown: Vec<String> = index
            .keys
            .iter()
            .map(|k| {
                k.expression_sql.clone().unwrap_or_else(|| quote(&table.columns[(k.attnum - 1).max(0) as usize].name))
            })
            .collect();
        let keys: Vec<RowValue<'_>> = index
            .keys
            .iter()
            .map(|k| k.expression_sql.as_deref().map_or(RowValue::Column(k.attnum), RowValue::Expression))
            .collect();
        let query = TableQuery {
            table,
            values: keys.iter().map(RowValue::Text).collect(),
            condition: RowCondition::At(rid),
            is_one: true,
        };
        let row = self.rows_of(&query, runtime)?.pop().unwrap_or_default();
        let values: Vec<String> = row.iter().map(key_text).collect();
        Ok(Error::new(sqlstate::UNIQUE_VIOLATION, format!("could not create unique index \"{}\"", index.name))
            .with_detail(format!("Key ({})=({}) is duplicated.", shown.join(", "), values.join(", ")))
            .with_table(&table.schema_name, &table.name)
            .with_constraint(&index.name))
    }
}

/// A key's value, which a query has given as a text, as messages show it.
pub(super) fn key_text(value: &Datum) -> String {
    if let Datum::Text(text) = value { text.to_string() } else { "null".to_string() }
}

/// A table as a query reads it that is to look for rows in the heap, whatever indexes there are.
pub(crate) fn without_indexes(table: &Table) -> Arc<Table> {
    Arc::new(Table { indexes: Vec::new(), ..table.clone() })
}

#[derive(Default)]
struct FirstRowSink(Option<Vec<Datum>>);

impl RowSink for FirstRowSink {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        self.0.get_or_insert_with(|| values.to_vec());
        Ok(())
    }
}
