//! Partitions while a plan runs: they are found, locked and opened one by one, as rows lead to them.
//!
//! Invariants
//! 1. A partition is locked before it is looked at, and looked at anew if the catalogs have changed since the statement
//!    began.
//! 2. What is kept of a partition ([`LeafPartition`]) is shared by all sessions, with the other catalog objects, and goes when
//!    they do.

use super::context::*;
use super::expr::Evaluate;
use super::modify_partitions::PartitionedPlan;
use super::opened_partitions::opened;
use kilndb_base::sync::{Arc, OnceLock};
use kilndb_base::{Error, Oid, RelationId, Result, sqlstate};
use kilndb_catalog::known_partitions::CachedPartition;
use kilndb_catalog::lock_class::RELATION_LOCK;
use kilndb_catalog::operator_class::{self, SupportFunctionCaller, UserOperatorClass};
use kilndb_catalog::partition::{PartitionMap, PartitionStrategy, column_map};
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{CastContext, CastInfo, CastMethod, CatalogView, FunctionInfo, Index, Table};
use kilndb_plan::expression::RoutineCall;
use kilndb_plan::partition::{PartitionColumns, Routing, TableRules, TargetKey, index_is_part_of};
use kilndb_plan::{ConflictPlan, IndexPlan, ModifyPlan, ModifyTarget, TargetRules};
use kilndb_storage::{LockMode, LockTag, Relation, Snapshot, WaitPolicy, ahead};
use kilndb_types::{Datum, functions};
use std::any::Any;

/// A partition that has rows, as a part of the table that a statement names.
///
/// Among thousands of partitions each is in no cache: what a point query needs stands together, and the table's
/// description is not needed where the named table's does.
#[repr(C, align(64))]
pub(crate) struct LeafPartition {
    pub oid: Oid,
    /// The table that the statement names.
    pub ancestor: Oid,
    pub heap: Arc<Relation>,
    /// Indexes, by the index of the named table that they are parts of.
    pub first: Option<LeafIndex>,
    /// How its columns map to those of the named table; None: they are the same.
    pub columns: Option<Arc<PartitionColumns>>,
    /// Its rows are decoded with the named table's description.
    pub is_alike: bool,
    more: Box<[LeafIndex]>,
    pub table: Arc<Table>,
    rules: OnceLock<Arc<TableRules>>,
    /// What it is to statements that run often, the first ones of so many kinds: nobody writes here who only looks for
    /// his own.
    targets: [OnceLock<(Arc<TargetKey>, Arc<ModifyTarget>)>; TARGETS_KEPT],
}

/// An index of the partition, as a part of an index of the named table.
const TARGETS_KEPT: usize = 8;

pub(crate) struct LeafIndex {
    pub whole: Oid,
    pub oid: Oid,
    pub relation: Arc<Relation>,
    pub index: Arc<Index>,
}

/// Which partition: its OID, and where it is in the named table's map, if it is in that.
#[derive(Clone, Copy)]
pub(crate) struct PartitionRoute {
    pub oid: Oid,
    pub at: Option<u32>,
}

impl From<Oid> for PartitionRoute {
    fn from(oid: Oid) -> PartitionRoute {
        PartitionRoute { oid, at: None }
    }
}

const _: () = assert!(std::mem::offset_of!(LeafPartition, more) <= 64);

impl CachedPartition for LeafPartition {
    fn ancestor(&self) -> Oid {
        self.ancestor
    }
    fn table(&self) -> &Arc<Table> {
        &self.table
    }
}

/// The key under which plans for partitions are kept: all statements of one form share one, which is compared by its
/// address first. None: a plan of this statement cannot be shared.
fn shared_shape(of: &ModifyPlan, catalog: &dyn CatalogView) -> Option<Arc<TargetKey>> {
    let shape = TargetKey::of(of)?;
    Some(match opened(of.table.oid, catalog) {
        Some(opened) => opened.target_shape(shape),
        None => Arc::new(shape),
    })
}

impl LeafPartition {
    pub fn indexes(&self) -> impl Iterator<Item = &LeafIndex> {
        self.first.iter().chain(&self.more)
    }

    /// Where [`LeafPartition::plan`] looks first.
    pub(crate) fn kept_targets(&self) -> usize {
        self.targets.as_ptr() as usize
    }
    pub fn index(&self, whole: Oid) -> Result<&LeafIndex> {
        self.indexes().find(|i| i.whole == whole).ok_or_else(|| {
            Error::internal(format!("partition \"{}\" has no index that is a part of index {whole}", self.table.name))
        })
    }

    /// The plan of a table that the partition is of, for its rows. `keep`: it will be wanted again.
    pub fn plan(&self, of: &ModifyPlan, routing: &Routing, keep: bool, cx: &mut ExecContext<'_>) -> Result<ModifyPlan> {
        let target = self.target(of, routing, keep, cx)?;
        for (table, mode) in &*target.locks {
            lock(*table, *mode, cx)?;
        }
        Ok(ModifyPlan { statement: of.statement.clone(), target })
    }

    fn target(
        &self,
        of: &ModifyPlan,
        routing: &Routing,
        keep: bool,
        cx: &mut ExecContext<'_>,
    ) -> Result<Arc<ModifyTarget>> {
        let shape = routing.shape(|| shared_shape(of, cx.catalog));
        if let Some(shape) = shape
            && let Some((_, known)) = self.targets.iter().map_while(OnceLock::get).find(|(s, _)| s == shape)
        {
            // The list is short and read from one end to the other.
            ahead::fetch_range(Arc::as_ptr(known) as usize, size_of::<ModifyTarget>());
            return Ok(known.clone());
        }
        let rules = self.rules(cx)?;
        let made = Arc::new(target_of(of, self, &rules, cx)?);
        if let (true, Some(shape)) = (keep, shape)
            && let Some(free) = self.targets.iter().find(|place| place.get().is_none())
        {
            // Another session may have just taken the place: then this plan is not kept.
            let _ = free.set((shape.clone(), made.clone()));
        }
        Ok(made)
    }

    pub fn rules(&self, cx: &mut ExecContext<'_>) -> Result<Arc<TableRules>> {
        if let Some(known) = self.rules.get() {
            return Ok(known.clone());
        }
        let made = Arc::new(cx.session.table_rules(&self.table)?);
        Ok(self.rules.get_or_init(|| made).clone())
    }
}

pub fn lock(table: Oid, mode: LockMode, cx: &mut ExecContext<'_>) -> Result<()> {
    if is_temporary(table) {
        return Ok(());
    }
    let tag = LockTag(RELATION_LOCK, u64::from(cx.catalog.database_oid()), u64::from(table));
    cx.txn.lock(tag, mode, WaitPolicy::Wait, cx.park).map(|_| ())
}

pub(super) fn relation(id: RelationId, cx: &ExecContext<'_>) -> Result<Arc<Relation>> {
    match cx.catalog.temporary() {
        Some(own) => own.relation(cx.engine, id),
        None => cx.engine.relation(id),
    }
}

/// A partition that is being read. Sessions on other processors read it too: to count references to it would be to take
/// it from them and back, so that is left out where it stays with the catalog objects.
pub(crate) enum OpenPartition {
    Held(Arc<LeafPartition>),
    /// Its columns are the named table's.
    Shared(PartitionRoute),
}

impl PartitionRoute {
    /// The position is that among the named table's partitions.
    pub fn known<'c>(&self, named: &Table, catalog: &'c dyn CatalogView) -> Option<&'c Arc<LeafPartition>> {
        let known = opened(named.oid, catalog)?.known(self.at? as usize)?;
        (known.oid == self.oid).then_some(&known.leaf)
    }
}

/// A partition with rows, locked; None: the partition is gone.
pub(crate) fn open(
    named: &Arc<Table>,
    partition: impl Into<PartitionRoute>,
    mode: LockMode,
    cx: &mut ExecContext<'_>,
) -> Result<Option<Arc<LeafPartition>>> {
    Ok(match find_locked(named, partition.into(), mode, cx)? {
        FoundPartition::Known(leaf) => Some(leaf.clone()),
        FoundPartition::Opened(leaf) => leaf,
    })
}

/// Opens a partition for one use, without keeping it.
pub(crate) fn open_to_read(
    named: &Arc<Table>,
    place: PartitionRoute,
    mode: LockMode,
    cx: &mut ExecContext<'_>,
) -> Result<Option<OpenPartition>> {
    Ok(match find_locked(named, place, mode, cx)? {
        FoundPartition::Known(leaf) if leaf.columns.is_none() => Some(OpenPartition::Shared(place)),
        FoundPartition::Known(leaf) => Some(OpenPartition::Held(leaf.clone())),
        FoundPartition::Opened(leaf) => leaf.map(OpenPartition::Held),
    })
}

pub(crate) enum FoundPartition<'c> {
    Known(&'c Arc<LeafPartition>),
    /// None: the partition is gone.
    Opened(Option<Arc<LeafPartition>>),
}

pub(crate) fn find_locked<'c>(
    named: &Arc<Table>,
    place: PartitionRoute,
    mode: LockMode,
    cx: &mut ExecContext<'c>,
) -> Result<FoundPartition<'c>> {
    let catalog = cx.catalog;
    let shared = place.at.and_then(|at| Some((opened(named.oid, catalog)?, at as usize)));
    let known = shared.and_then(|(shared, at)| shared.known(at)).filter(|known| known.oid == place.oid);
    if let Some(known) = known {
        known.fetch_ahead(mode >= LockMode::RowExclusive);
    }
    lock(place.oid, mode, cx)?;
    let is_stale = catalog.is_stale();
    let shared = shared.filter(|_| !is_stale);
    if let Some(known) = known.filter(|_| !is_stale) {
        return Ok(FoundPartition::Known(&known.leaf));
    }
    let found = open_anew(named, place.oid, is_stale, cx)?;
    if let (Some((shared, at)), Some(leaf)) = (shared, &found)
        && shared.map.partitions.get(at).is_some_and(|p| p.oid == leaf.oid)
    {
        shared.keep(at, leaf);
    }
    Ok(FoundPartition::Opened(found))
}

fn open_anew(
    named: &Arc<Table>,
    partition: Oid,
    is_stale: bool,
    cx: &mut ExecContext<'_>,
) -> Result<Option<Arc<LeafPartition>>> {
    let kept = if is_stale { None } else { cx.catalog.kept_partition(named.oid, partition) };
    if let Some(Ok(leaf)) = kept.map(|kept| (kept as Arc<dyn Any + Send + Sync>).downcast::<LeafPartition>()) {
        return Ok(Some(leaf));
    }
    let table = if is_stale {
        let now = cx.txn.catalog_snapshot();
        cx.catalog.table_now(partition, &now)?
    } else {
        cx.catalog.table_by_oid(partition)?
    };
    // A partition that was detached while its lock was waited for is gone too: its indexes are no longer parts of the
    // table's.
    let Some(table) = table.filter(|t| !is_stale || t.partition_of != 0) else { return Ok(None) };
    let mut indexes = Vec::new();
    for whole in &named.indexes {
        for own in &table.indexes {
            if own.part_of == whole.oid || own.part_of != 0 && index_is_part_of(cx.catalog, own, whole.oid)? {
                indexes.push(LeafIndex {
                    whole: whole.oid,
                    oid: own.oid,
                    relation: relation(own.storage, cx)?,
                    index: own.clone(),
                });
            }
        }
    }
    let columns = column_map(named, &table).map(|own| Arc::new(PartitionColumns::new(own, table.columns.len())));
    let heap = relation(table.storage, cx)?;
    let is_alike = columns.is_none() && is_read_alike(named, &table);
    let more = indexes.split_off(indexes.len().min(1)).into();
    let leaf = LeafPartition {
        oid: table.oid,
        ancestor: named.oid,
        heap,
        first: indexes.pop(),
        more,
        columns,
        is_alike,
        table,
        rules: OnceLock::new(),
        targets: Default::default(),
    };
    let leaf = Arc::new(leaf);
    if !is_stale {
        cx.catalog.keep_partition(leaf.clone());
    }
    Ok(Some(leaf))
}

/// Are rows of two tables with the same columns stored the same way, and complete?
fn is_read_alike(a: &Table, b: &Table) -> bool {
    let complete = |t: &Table| t.columns.iter().all(|c| c.missing.is_null());
    let layout = |t: &Table| t.descriptor.columns.iter().map(|c| (c.type_oid, c.storage)).collect::<Vec<_>>();
    complete(a) && complete(b) && layout(a) == layout(b)
}

pub(super) fn gone(partition: Oid) -> Error {
    Error::new(sqlstate::UNDEFINED_TABLE, format!("relation with OID {partition} does not exist"))
}

/// The values that a row of a table is assigned to a partition by.
fn key_of<'r>(
    map: &PartitionMap,
    expressions: &[Option<kilndb_plan::expression::Expression>],
    row: &'r [Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Vec<std::borrow::Cow<'r, Datum>>> {
    use std::borrow::Cow;
    let mut values = Vec::with_capacity(map.key.parts.len());
    for (i, part) in map.key.parts.iter().enumerate() {
        values.push(match expressions.get(i) {
            Some(Some(e)) => Cow::Owned(e.eval(row, rt, cx)?),
            _ => row
                .get(usize::try_from(part.attnum - 1).unwrap_or(usize::MAX))
                .map_or(Cow::Owned(Datum::Null), Cow::Borrowed),
        });
    }
    Ok(values)
}

fn find(map: &PartitionMap, values: &[std::borrow::Cow<'_, Datum>], cx: &mut ExecContext<'_>) -> Result<Option<usize>> {
    // This is the usual case: a key of one column.
    if let [one] = values {
        return map.find(&[one], cx);
    }
    map.find(&values.iter().map(|v| &**v).collect::<Vec<_>>(), cx)
}

impl SupportFunctionCaller for ExecContext<'_> {
    fn call(&mut self, function: &FunctionInfo, class: &UserOperatorClass, arguments: [&Datum; 2]) -> Result<Datum> {
        let arguments = arguments.map(Clone::clone);
        if let Some(f) = functions::lookup(function.oid) {
            return f(&self.eval, &arguments);
        }
        let argument_types = operator_class::argument_types(function, class);
        let call = RoutineCall::of(function, argument_types.to_vec());
        super::routine::call(&call, &arguments, self)
    }
}

/// satisfies_hash_partition(parent, modulus, remainder, key…). `given`: the types of the arguments, and whether the
/// last one is an array of the key's values.
pub fn satisfies(arguments: &[Datum], (types, is_variadic): (&[Oid], bool), cx: &mut ExecContext<'_>) -> Result<Datum> {
    use kilndb_base::sqlstate::INVALID_PARAMETER_VALUE as INVALID;
    let (Some(Datum::Oid(parent)), Some(Datum::Int4(modulus)), Some(Datum::Int4(remainder))) =
        (arguments.first(), arguments.get(1), arguments.get(2))
    else {
        return Ok(Datum::Bool(false));
    };
    if *modulus <= 0 {
        return Err(Error::new(INVALID, "modulus for hash partition must be an integer value greater than zero"));
    }
    if *remainder < 0 {
        return Err(Error::new(
            INVALID,
            "remainder for hash partition must be an integer value greater than or equal to zero",
        ));
    }
    if remainder >= modulus {
        return Err(Error::new(INVALID, "remainder for hash partition must be less than modulus"));
    }
    let table = cx.catalog.table_by_oid(*parent)?;
    let table = table
        .ok_or_else(|| Error::new(sqlstate::UNDEFINED_TABLE, format!("could not open relation with OID {parent}")))?;
    let Some(key) = table.partition_key.as_ref().filter(|k| k.strategy == PartitionStrategy::Hash) else {
        return Err(Error::new(INVALID, format!("\"{}\" is not a hash partitioned table", table.name)));
    };
    let values = match arguments.get(3) {
        Some(Datum::Array(list)) if is_variadic => {
            let type_oid = list.element_type;
            if let Some((i, part)) = key.parts.iter().enumerate().find(|(_, part)| part.type_oid != type_oid) {
                let shown = [part.type_oid, type_oid].map(|t| cx.catalog.format_type(t, -1));
                let message = format!(
                    "column {} of the partition key has type \"{}\", but supplied value is of type \"{}\"",
                    i + 1,
                    shown[0],
                    shown[1]
                );
                return Err(Error::new(INVALID, message));
            }
            list.elements.as_slice()
        }
        _ if is_variadic => return Ok(Datum::Bool(false)),
        _ => arguments.get(3..).unwrap_or(&[]),
    };
    if values.len() != key.parts.len() {
        let message = format!(
            "number of partitioning columns ({}) does not match number of partition keys provided ({})",
            key.parts.len(),
            values.len()
        );
        return Err(Error::new(INVALID, message));
    }
    for (i, (part, type_oid)) in
        key.parts.iter().zip(types.get(3..).unwrap_or(&[])).enumerate().filter(|_| !is_variadic)
    {
        let is_held_alike = |cast: Option<CastInfo>| {
            cast.is_some_and(|c| matches!(c, CastInfo { method: CastMethod::Binary, context: CastContext::Implicit }))
        };
        if part.type_oid != *type_oid && !is_held_alike(cx.catalog.cast(*type_oid, part.type_oid)?) {
            let shown = [part.type_oid, *type_oid].map(|t| cx.catalog.format_type(t, -1));
            let message = format!(
                "column {} of the partition key has type {}, but supplied value is of type {}",
                i + 1,
                shown[0],
                shown[1]
            );
            return Err(Error::new(INVALID, message));
        }
    }
    let hash = key.hash(&values.iter().collect::<Vec<_>>(), cx)?;
    Ok(Datum::Bool(hash % *modulus as u64 == *remainder as u64))
}

/// Expressions of the key of a table that the statement does not name.
fn expressions_of(
    table: &Arc<Table>,
    cx: &mut ExecContext<'_>,
) -> Result<Vec<Option<kilndb_plan::expression::Expression>>> {
    if !table.partition_key.as_ref().is_some_and(|k| k.has_expressions()) {
        return Ok(Vec::new());
    }
    cx.session.key_expressions(table)
}

/// The partitions of a table: as the statement sees the catalogs, or as they are at a later moment.
pub(crate) fn map_at(table: Oid, now: Option<&Snapshot>, cx: &ExecContext<'_>) -> Result<Arc<PartitionMap>> {
    now.map_or_else(|| seen_map(table, cx), |now| cx.catalog.partition_map_now(table, now))
}

/// The partitions of a table as the statement sees them: one that is being detached is still seen by a transaction that
/// keeps a snapshot from before.
pub fn seen_map(table: Oid, cx: &ExecContext<'_>) -> Result<Arc<PartitionMap>> {
    let map = cx.catalog.partition_map(table)?;
    if keeps_pending(&map, cx) { cx.catalog.partition_map_now(table, &cx.snapshot) } else { Ok(map) }
}

pub(crate) fn keeps_pending(map: &PartitionMap, cx: &ExecContext<'_>) -> bool {
    !map.pending.is_empty() && cx.txn.isolation().keeps_snapshot()
}

/// A partition was opened after the catalogs had changed: is it still where this row belongs? The partition is locked,
/// so the answer does not change any more. Returns the partitions of the named table as they are now.
pub(crate) fn route_again(
    table: PartitionedPlan<'_>,
    of: &ModifyPlan,
    row: &[Datum],
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<Arc<PartitionMap>> {
    let now = cx.txn.catalog_snapshot();
    let map = map_at(table.plan.table.oid, Some(&now), cx)?;
    if route(table, &map, row, Some(&now), rt, cx).ok().is_some_and(|place| place.oid == of.table.oid) {
        return Ok(map);
    }
    let own = of.columns.as_ref().map(|columns| columns.to_own(row));
    Err(super::write::not_within_bounds(&of.table, own.as_deref().unwrap_or(row), rt, cx))
}

/// The partition that a row of the named table belongs to. `now`: as the catalogs are at that moment.
pub(crate) fn route(
    table: PartitionedPlan<'_>,
    top: &PartitionMap,
    row: &[Datum],
    now: Option<&Snapshot>,
    rt: &mut RunState,
    cx: &mut ExecContext<'_>,
) -> Result<PartitionRoute> {
    let (named, routing) = (&table.plan.table, table.routing);
    let values = key_of(top, &routing.key, row, rt, cx)?;
    let Some(at) = find(top, &values, cx)? else { return Err(no_partition(named, top, &values, cx)) };
    // What has been opened is one that has rows, and is looked at in a moment anyway.
    let shared = opened(named.oid, cx.catalog).filter(|shared| std::ptr::eq(&*shared.map, top));
    if let Some(known) = shared.and_then(|shared| shared.known(at)) {
        return Ok(PartitionRoute { oid: known.oid, at: Some(at as u32) });
    }
    let partition = &top.partitions[at];
    if !partition.is_partitioned {
        return Ok(PartitionRoute { oid: partition.oid, at: Some(at as u32) });
    }
    let mut oid = partition.oid;
    loop {
        lock(oid, LockMode::RowExclusive, cx)?;
        let table = match now {
            Some(now) => cx.catalog.table_now(oid, now)?,
            None => cx.catalog.table_by_oid(oid)?,
        };
        let table = table.ok_or_else(|| gone(oid))?;
        let map = map_at(oid, now, cx)?;
        let own = column_map(named, &table).map(|own| PartitionColumns::new(own, table.columns.len()).to_own(row));
        let expressions = expressions_of(&table, cx)?;
        let values = key_of(&map, &expressions, own.as_deref().unwrap_or(row), rt, cx)?;
        let Some(at) = find(&map, &values, cx)? else { return Err(no_partition(&table, &map, &values, cx)) };
        oid = map.partitions[at].oid;
        if !map.partitions[at].is_partitioned {
            return Ok(oid.into());
        }
    }
}

/// The partitions in which a row with these values of a unique key may be, locked and opened. If the key has all of the
/// partition key, there is one at most. Otherwise these are the partitions that have entries for `key`, with the
/// snapshot for which a visible row is in one of them.
pub(crate) fn leaves_of_key(
    named: &Arc<Table>,
    (columns, index): (&[i16], Oid),
    values: &[Datum],
    key: &[u8],
    cx: &mut ExecContext<'_>,
) -> Result<(Vec<Arc<LeafPartition>>, Option<Snapshot>)> {
    let mut row = vec![Datum::Null; named.columns.len()];
    for (attnum, value) in columns.iter().zip(values) {
        row[(*attnum - 1).max(0) as usize] = value.clone();
    }
    let mut now = None;
    loop {
        cx.park.checkpoint()?;
        if cx.catalog.is_stale() {
            now = Some(cx.txn.catalog_snapshot());
        }
        let (places, seen_with) = places_of_key(named, (&row, index, key), now.as_ref(), cx)?;
        let mut leaves = Vec::with_capacity(places.len());
        for place in &places {
            leaves.extend(open(named, *place, LockMode::RowShare, cx)?);
        }
        if leaves.len() < places.len() {
            continue;
        }
        // A partition may have been detached while its lock was waited for.
        if !cx.catalog.is_stale() {
            return Ok((leaves, seen_with));
        }
        let later = cx.txn.catalog_snapshot();
        let (again, seen_with) = places_of_key(named, (&row, index, key), Some(&later), cx)?;
        if again.iter().map(|p| p.oid).eq(leaves.iter().map(|l| l.oid)) {
            return Ok((leaves, seen_with));
        }
    }
}

fn table_at(oid: Oid, now: Option<&Snapshot>, cx: &ExecContext<'_>) -> Result<Arc<Table>> {
    let found = match now {
        Some(now) => cx.catalog.table_now(oid, now)?,
        None => cx.catalog.table_by_oid(oid)?,
    };
    found.ok_or_else(|| gone(oid))
}

fn places_of_key(
    named: &Arc<Table>,
    (row, index, key): (&[Datum], Oid, &[u8]),
    now: Option<&Snapshot>,
    cx: &mut ExecContext<'_>,
) -> Result<(Vec<PartitionRoute>, Option<Snapshot>)> {
    let mut table = named.clone();
    loop {
        for own in table.indexes.iter().filter(|i| i.is_global) {
            if own.oid == index || index_is_part_of(cx.catalog, own, index)? {
                // The snapshot is taken before the tree is read, so that a row that moves meanwhile is seen where it
                // was.
                let snapshot = cx.txn.take_snapshot().untracked();
                let heaps = relation(own.storage, cx)?.heaps_with(&snapshot, key)?;
                return Ok((places_with(&table, &heaps, now, cx)?, Some(snapshot)));
            }
        }
        let map = map_at(table.oid, now, cx)?;
        let is_named = table.oid == named.oid;
        let own = if is_named {
            None
        } else {
            column_map(named, &table).map(|own| PartitionColumns::new(own, table.columns.len()).to_own(row))
        };
        let row = own.as_deref().unwrap_or(row);
        let values: Vec<_> = map
            .key
            .parts
            .iter()
            .map(|part| std::borrow::Cow::Borrowed(&row[(part.attnum - 1).max(0) as usize]))
            .collect();
        let Some(at) = find(&map, &values, cx)? else { return Ok(Default::default()) };
        let partition = &map.partitions[at];
        if !partition.is_partitioned {
            return Ok((vec![PartitionRoute { oid: partition.oid, at: is_named.then_some(at as u32) }], None));
        }
        lock(partition.oid, LockMode::RowShare, cx)?;
        table = table_at(partition.oid, now, cx)?;
    }
}

/// The partitions below `table` whose rows are in these heaps. A heap that no partition has was dropped, or belongs to
/// a partition whose creation is not committed.
fn places_with(
    table: &Arc<Table>,
    heaps: &[RelationId],
    now: Option<&Snapshot>,
    cx: &mut ExecContext<'_>,
) -> Result<Vec<PartitionRoute>> {
    let (mut tables, mut places) = (vec![table.oid], Vec::new());
    while let Some(table) = tables.pop().filter(|_| places.len() < heaps.len()) {
        for partition in &map_at(table, now, cx)?.partitions {
            if partition.is_partitioned {
                tables.push(partition.oid);
            } else if heaps.contains(&table_at(partition.oid, now, cx)?.storage) {
                places.push(partition.oid.into());
            }
        }
    }
    Ok(places)
}

fn no_partition(
    table: &Table,
    map: &PartitionMap,
    values: &[std::borrow::Cow<'_, Datum>],
    cx: &ExecContext<'_>,
) -> Error {
    let names: Vec<String> = map
        .key
        .parts
        .iter()
        .map(|part| match &part.expression_sql {
            Some(sql) => cx.session.shown_expression(sql, table),
            None => table.columns.get((part.attnum - 1).max(0) as usize).map_or("?".into(), |c| c.name.clone()),
        })
        .collect();
    let shown: Vec<String> = map
        .key
        .parts
        .iter()
        .zip(values)
        .map(|(part, v)| super::write::show(part.base_type, part.typmod, v, &cx.eval))
        .collect();
    let message = format!("no partition of relation \"{}\" found for row", table.name);
    let error =
        Error::new(sqlstate::CHECK_VIOLATION, message).with_table(table.schema_name.clone(), table.name.clone());
    // Of a key that is computed only who may read the whole table is told.
    let mut columns: Vec<i16> = map.key.parts.iter().map(|part| part.attnum).collect();
    if columns.contains(&0) {
        columns.clear();
    }
    match cx.session.may_read(table, &columns) {
        true => error.with_detail(format!(
            "Partition key of the failing row contains ({}) = ({}).",
            names.join(", "),
            shown.join(", ")
        )),
        false => error,
    }
}

/// Does a row of a partition belong to it, and to what it is a part of?
pub fn belongs(table: &Arc<Table>, row: &[Datum], rt: &mut RunState, cx: &mut ExecContext<'_>) -> Result<bool> {
    let mut at = table.clone();
    while at.partition_of != 0 {
        let above = cx.catalog.table_by_oid(at.partition_of)?.ok_or_else(|| gone(at.partition_of))?;
        let mut map = cx.catalog.partition_map(above.oid)?;
        // The bound of a partition that is being detached still holds.
        if !map.pending.is_empty() {
            map = Arc::new(map.whole());
        }
        let named = column_map(&above, table).map(|own| PartitionColumns::new(own, table.columns.len()).to_named(row));
        let expressions = expressions_of(&above, cx)?;
        let values = key_of(&map, &expressions, named.as_deref().unwrap_or(row), rt, cx)?;
        if find(&map, &values, cx)?.map(|i| map.partitions[i].oid) != Some(at.oid) {
            return Ok(false);
        }
        at = above;
    }
    Ok(true)
}

/// The place of a partition below the named table.
fn target_of(m: &ModifyPlan, leaf: &LeafPartition, rules: &TableRules, cx: &ExecContext<'_>) -> Result<ModifyTarget> {
    let arbiters = match &m.statement.conflict {
        None => Vec::new(),
        Some(c) if c.arbiters.is_empty() => ConflictPlan::positions(&[], &rules.indexes),
        Some(c) => {
            let own: Vec<Oid> = leaf.indexes().filter(|i| c.arbiters.contains(&i.whole)).map(|i| i.oid).collect();
            if own.is_empty() {
                return Err(Error::internal(format!("no arbiter index in partition \"{}\"", leaf.table.name)));
            }
            ConflictPlan::positions(&own, &rules.indexes)
        }
    };
    let moves_rows = m.statement.moves_rows;
    let triggers = if moves_rows { None } else { m.partition_triggers(leaf.columns.as_deref(), rules) };
    let (mut changed, old_columns) = match &leaf.columns {
        None => (m.changed.clone(), m.old_columns.clone()),
        Some(columns) => {
            let insert = m.statement.kind == kilndb_bind::ir::DmlKind::Insert;
            let changed = columns.named.iter().map(|i| i.map_or(insert, |i| m.changed[i])).collect();
            (changed, columns.named.iter().map(|i| i.and_then(|i| m.old_columns[i])).collect())
        }
    };
    if triggers.as_ref().is_some_and(|t| t.may_change_row) {
        changed = changed.iter().map(|_| true).collect();
    }
    // What the partition has as the named table or other partitions have it is in the caches already.
    let shared = opened(m.table.oid, cx.catalog).filter(|_| leaf.columns.is_none());
    let shape_of = |p: &IndexPlan| shared.map_or_else(|| p.shape.clone(), |shared| shared.index_shape(p));
    let indexes = rules.indexes.iter().map(|p| IndexPlan { shape: shape_of(p), ..p.clone() }).collect();
    let not_null = if rules.not_null == m.not_null { m.not_null.clone() } else { rules.not_null.clone() };
    let target_rules = TargetRules {
        is_named: false,
        at_once: m.statement.ahead
            && triggers.is_none()
            && leaf.columns.is_none()
            && rules.indexes.iter().all(|p| p.lets_store_at_once(&changed, m.statement.recheck.is_volatile)),
        generated: rules.generated.clone(),
        checks: rules.checks.clone(),
        functions: match m.statement.kind {
            kilndb_bind::ir::DmlKind::Update => m.functions.clone(),
            _ => rules.functions.clone(),
        },
        not_null,
        foreign_keys: if moves_rows { Arc::default() } else { rules.foreign_keys.clone() },
        referenced_by: if moves_rows { Arc::default() } else { rules.referenced_by.clone() },
        columns: leaf.columns.clone(),
        triggers,
        must_belong: false,
        arbiters: arbiters.into(),
        changed,
        old_columns,
        locks: rules.locks.clone(),
    };
    Ok(ModifyTarget {
        table: leaf.table.clone(),
        stored_as: if leaf.is_alike { m.table.clone() } else { leaf.table.clone() },
        heap: Some(leaf.heap.clone()),
        indexes,
        rules: match shared {
            Some(shared) => shared.target_rules(target_rules),
            None => Arc::new(target_rules),
        },
    })
}
