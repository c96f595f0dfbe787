//! PARTITION BY, PARTITION OF: partition keys and bounds, and what a partition gets from the table that it is a part
//! of.

use super::Definitions;
use super::constraint::NewConstraint;
use super::create_table::NewColumn;
use super::index::NewIndex;
use super::text_search;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::{CallQuery, RowCondition, ValueQuery, ValueSource};
use kilndb_bind::names::VisibleColumns;
use kilndb_catalog::cache::EXPRESSION_SEPARATOR;
use kilndb_catalog::ids::*;
use kilndb_catalog::operator_class::{self, SupportFunctionCaller, UserOperatorClass};
use kilndb_catalog::partition::{
    self, Partition, PartitionBound, PartitionKey, PartitionKeyPart, PartitionMap, PartitionStrategy, RangeEdge,
    column_map,
};
use kilndb_catalog::store::vector;
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{CatalogView, FunctionInfo, Index, Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// The greatest modulus of hash partitions. A map of partitions has a place for each remainder of it.
const MODULUS_MAX: i32 = 1 << 20;

/// One column or expression of a key that is to be stored.
struct NewKeyPart {
    attnum: i16,
    expression_sql: Option<String>,
    type_oid: Oid,
    collation: Oid,
    opclass: Oid,
}

fn definition(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message.into())
}

fn malformed(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_TABLE_DEFINITION, message.into())
}

/// A part of a table's partition key.
#[derive(Clone, Copy)]
struct KeyPosition<'a> {
    parent: &'a Table,
    part: &'a PartitionKeyPart,
}

/// Calls functions of users' operator classes.
struct Calls<'s, 'd> {
    definitions: &'s mut Definitions<'d>,
    runtime: &'s dyn Runtime,
}

impl SupportFunctionCaller for Calls<'_, '_> {
    fn call(&mut self, function: &FunctionInfo, class: &UserOperatorClass, arguments: [&Datum; 2]) -> Result<Datum> {
        let types = operator_class::argument_types(function, class);
        let arguments = types.into_iter().zip(arguments.into_iter().cloned()).collect();
        self.definitions.value_of(&CallQuery { function, arguments }, self.runtime)
    }
}

/// A place among the partitions of a table that a new one takes.
pub(super) struct NewPartition {
    pub bound: PartitionBound,
    /// Those that are there.
    pub map: Arc<PartitionMap>,
    pub is_partitioned: bool,
}

impl Definitions<'_> {
    /// Stores the partition key of a new table.
    pub(super) fn insert_partition_key(
        &mut self,
        table: Oid,
        spec: &nodes::PartitionSpec,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let table = self.context_mut().table_by_oid(table, runtime)?;
        let strategy = PartitionStrategy::of(spec.strategy as u8);
        let elements: Vec<&nodes::PartitionElem> = spec.part_params().iter().collect();
        if strategy == PartitionStrategy::List && elements.len() > 1 {
            return Err(definition("cannot use \"list\" partition strategy with more than one column"));
        }
        if elements.len() > 32 {
            return Err(Error::new(sqlstate::TOO_MANY_COLUMNS, "cannot partition using more than 32 columns"));
        }
        let mut parts = Vec::new();
        for e in elements {
            let part = self.key_part(&table, strategy, e, runtime);
            parts.push(part.map_err(|err| match err.sqlstate() {
                sqlstate::UNDEFINED_COLUMN | sqlstate::INVALID_OBJECT_DEFINITION if e.name().is_some() => {
                    err.or_position(kilndb_syntax::position_of(source, e.location))
                }
                _ => err,
            })?);
        }
        let oids_of =
            |f: &dyn Fn(&NewKeyPart) -> Oid| vector(oids::OID, parts.iter().map(|p| Datum::Oid(f(p))).collect());
        let expressions: Vec<String> =
            parts.iter().filter_map(|p| p.expression_sql.as_ref().map(|sql| format!("{}:{sql}", p.type_oid))).collect();
        let mut row = vec![
            ("partrelid", Datum::Oid(table.oid)),
            ("partstrat", Datum::Char(strategy.letter())),
            ("partnatts", Datum::Int2(parts.len() as i16)),
            ("partattrs", vector(oids::INT2, parts.iter().map(|p| Datum::Int2(p.attnum)).collect())),
            ("partclass", oids_of(&|p| p.opclass)),
            ("partcollation", oids_of(&|p| p.collation)),
        ];
        if !expressions.is_empty() {
            row.push(("partexprs", Datum::text(expressions.join(&EXPRESSION_SEPARATOR.to_string()))));
        }
        self.write_catalog(runtime, |w| w.insert(PG_PARTITIONED_TABLE, &row).map(|_| ()))?;
        Ok(())
    }

    fn key_part(
        &mut self,
        table: &Arc<Table>,
        strategy: PartitionStrategy,
        e: &nodes::PartitionElem,
        runtime: &dyn Runtime,
    ) -> Result<NewKeyPart> {
        let (attnum, expression_sql, type_oid, mut collation) = match e.name() {
            Some(name) => {
                if kilndb_bind::is_system_column(name) {
                    return Err(definition(format!("cannot use system column \"{name}\" in partition key")));
                }
                let column = table.columns.iter().find(|c| !c.dropped && c.name == name).ok_or_else(|| {
                    Error::new(
                        sqlstate::UNDEFINED_COLUMN,
                        format!("column \"{name}\" named in partition key does not exist"),
                    )
                })?;
                if column.generated != 0 {
                    return Err(definition("cannot use generated column in partition key")
                        .with_detail(format!("Column \"{name}\" is a generated column.")));
                }
                (column.attnum, None, column.type_oid, column.collation.oid)
            }
            None => {
                let sql = kilndb_syntax::expression_sql(e.expr())?;
                let (type_oid, volatile, sets, used) = self.key_expression(&sql, table, runtime)?;
                if sets {
                    return Err(Error::unsupported(
                        "set-returning functions are not allowed in partition key expressions",
                    ));
                }
                let sql = self.stored_expression(&sql, VisibleColumns::Table(table), runtime)?;
                if volatile {
                    return Err(definition("functions in partition key expression must be marked IMMUTABLE"));
                }
                if used.is_empty() {
                    return Err(definition("cannot use constant expression as partition key"));
                }
                if used.iter().any(|a| table.columns.get((*a - 1).max(0) as usize).is_some_and(|c| c.generated != 0)) {
                    return Err(definition("cannot use generated column in partition key"));
                }
                (0, Some(sql), type_oid, self.type_info(type_oid, runtime)?.collation)
            }
        };
        let info = self.type_info(type_oid, runtime)?;
        if !e.collation().is_empty() {
            if info.collation == 0 {
                let shown =
                    self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
                return Err(Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("collations are not supported by type {shown}"),
                ));
            }
            collation = self.collation_oid(
                &super::strings(e.collation()).iter().map(|s| s.to_string()).collect::<Vec<_>>(),
                runtime,
            )?;
        }
        self.refuse_rules_of_key(strategy, collation, runtime)?;
        let opclass = self.key_opclass(strategy, type_oid, e, runtime)?;
        Ok(NewKeyPart { attnum, expression_sql, type_oid, collation, opclass })
    }

    /// 0A000 for keys whose partitions are told by another order or another equality than that of bytes.
    fn refuse_rules_of_key(
        &mut self,
        strategy: PartitionStrategy,
        collation: Oid,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.collation(collation))?;
        let is_by_bytes = match strategy {
            PartitionStrategy::Range => found.rules.is_none(),
            _ => found.is_deterministic(),
        };
        match is_by_bytes {
            true => Ok(()),
            false => Err(Error::unsupported("partition keys by this collation are not supported")),
        }
    }

    /// Type, whether it may change by itself, whether it returns sets, columns used.
    fn key_expression(
        &mut self,
        sql: &str,
        table: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, bool, bool, Vec<i16>)> {
        self.context_mut().with_catalog(runtime, |host| {
            let found = kilndb_bind::bind_expression(sql, Some(table), &host.reader, None).and_then(|b| {
                if !is_temporary(table.oid) {
                    super::depend::refuse_temporary_routines(&b.expr)?;
                }
                let mut used = Vec::new();
                b.expr.columns(&mut used);
                let sets = b.expr.any(&|e| matches!(&e.kind, kilndb_bind::ir::ExprKind::Func(f) if f.returns_set));
                Ok((b.expr.ty, !b.expr.is_immutable(), sets, used.iter().map(|c| c.att).collect()))
            });
            found.map_err(|mut e| {
                e.0.position = None;
                e
            })
        })
    }

    fn key_opclass(
        &mut self,
        strategy: PartitionStrategy,
        type_oid: Oid,
        e: &nodes::PartitionElem,
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let (method, word) = if strategy == PartitionStrategy::Hash { (405, "hash") } else { (403, "btree") };
        let mut base = self.type_info(type_oid, runtime)?;
        while base.kind == b'd' {
            base = self.type_info(base.base_type, runtime)?;
        }
        let stand_in = match base.kind {
            b'e' => oids::ANYENUM,
            b'c' => oids::RECORD,
            b'r' => oids::ANYRANGE,
            b'm' => oids::ANYMULTIRANGE,
            _ if base.category == b'A' => oids::ANYARRAY,
            _ if base.oid == oids::VARCHAR => oids::TEXT,
            _ if base.oid == oids::CIDR => oids::INET,
            // The types of names of objects are held as OIDs.
            _ if is_object_name(base.oid) => oids::OID,
            _ => base.oid,
        };
        let fits = |input: Oid| input == base.oid || input == stand_in;
        let wanted = super::strings(e.opclass());
        let found = match text_search::split(&wanted) {
            (_, "") => partition::operator_classes()
                .find(|class| class.method == method && fits(class.input_type) && class.is_default)
                .map(|class| class.oid),
            (schema, name) => Some(self.named_class(schema, name, method, type_oid, runtime)?),
        };
        let usable = if strategy == PartitionStrategy::Hash {
            kilndb_types::partition_hash::is_hashable(base.oid)
        } else {
            kilndb_types::key::is_indexable(base.oid)
        };
        if let Some(class) = found
            && super::is_user_object(class)
        {
            // Bounds stand in the order of the type's own.
            if strategy == PartitionStrategy::Hash || usable {
                return Ok(class);
            }
        } else if let (Some(class), true) = (found, usable) {
            return Ok(class);
        }
        let shown = self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(type_oid, -1)))?;
        if found.is_some() {
            return Err(Error::unsupported(format!("partitioning by {word} of type {shown} is not supported")));
        }
        Err(Error::new(
            sqlstate::UNDEFINED_OBJECT,
            format!("data type {shown} has no default operator class for access method \"{word}\""),
        )
        .with_hint(format!(
            "You must specify a {word} operator class or define a default {word} operator class for the data type."
        )))
    }

    /// The table that a new one is to be a partition of, locked.
    pub(super) fn parent_of_partition(
        &mut self,
        s: &nodes::CreateStmt,
        temporary: bool,
        runtime: &dyn Runtime,
    ) -> Result<Arc<Table>> {
        let Some(Node::RangeVar(r)) = s.inh_relations().iter().next() else {
            return Err(Error::internal("PARTITION OF without a table"));
        };
        let parent = self.context_mut().relation_of(r, runtime)?;
        self.require_table_owner(&parent)?;
        let parent = self.lock_for_ddl(&parent, LockMode::AccessExclusive, runtime)?;
        if parent.kind != TableKind::Partitioned {
            return Err(definition(format!("\"{}\" is not partitioned", parent.name)));
        }
        let of_temporary = parent.persistence == b't';
        if of_temporary && !temporary {
            let message =
                format!("cannot create a permanent relation as partition of temporary relation \"{}\"", parent.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        if temporary && !of_temporary {
            let message =
                format!("cannot create a temporary relation as partition of permanent relation \"{}\"", parent.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        Ok(parent)
    }

    /// The columns that a partition gets.
    pub(super) fn partition_columns(&mut self, parent: &Table) -> Vec<NewColumn> {
        let live = parent.columns.iter().filter(|c| !c.dropped);
        live.map(|c| NewColumn {
            name: c.name.clone(),
            type_oid: c.type_oid,
            typmod: c.typmod,
            collation: c.collation.oid,
            not_null: c.not_null,
            default_sql: c.default_sql.clone(),
            identity: c.identity,
            generated: c.generated,
            is_inherited: true,
            ..NewColumn::default()
        })
        .collect()
    }

    pub(crate) fn partition_map(&mut self, table: Oid, runtime: &dyn Runtime) -> Result<Arc<PartitionMap>> {
        self.context_mut().with_catalog(runtime, |host| host.reader.partition_map(table))
    }

    /// A bound, checked against the key.
    pub(super) fn bound_of(
        &mut self,
        parent: &Table,
        name: &str,
        b: &nodes::PartitionBoundSpec,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<PartitionBound> {
        let key = parent
            .partition_key
            .clone()
            .ok_or_else(|| definition(format!("\"{}\" is not partitioned", parent.name)))?;
        for class in key.parts.iter().filter_map(|p| p.class.as_ref()) {
            class.function()?;
        }
        let here = |e: Error| e.or_position(kilndb_syntax::position_of(source, b.location));
        if b.is_default {
            return match key.strategy {
                PartitionStrategy::Hash => Err(malformed("a hash-partitioned table may not have a default partition")),
                _ => Ok(PartitionBound::Default),
            };
        }
        if b.strategy as u8 != key.strategy.letter() {
            return Err(here(malformed(format!(
                "invalid bound specification for a {} partition",
                key.strategy.word()
            ))));
        }
        match key.strategy {
            PartitionStrategy::Hash => {
                if b.modulus <= 0 {
                    return Err(malformed("modulus for hash partition must be an integer value greater than zero"));
                }
                if b.remainder < 0 {
                    return Err(malformed(
                        "remainder for hash partition must be an integer value greater than or equal to zero",
                    ));
                }
                if b.modulus > MODULUS_MAX {
                    let message = format!("a modulus above {MODULUS_MAX} for hash partitions is not supported");
                    return Err(here(Error::unsupported(message)));
                }
                if b.remainder >= b.modulus {
                    return Err(malformed("remainder for hash partition must be less than modulus"));
                }
                Ok(PartitionBound::Hash { modulus: b.modulus as u32, remainder: b.remainder as u32 })
            }
            PartitionStrategy::List => {
                let mut list: Vec<Datum> = Vec::new();
                for node in b.listdatums() {
                    let part = KeyPosition { parent, part: &key.parts[0] };
                    let value = self.bound_value(part, node, source, runtime)?;
                    let mut is_known = false;
                    for known in &list {
                        is_known |= match (known.is_null(), value.is_null()) {
                            (false, false) => {
                                key.compare(0, known, &value, &mut Calls { definitions: self, runtime })?.is_eq()
                            }
                            (a, b) => a == b,
                        };
                    }
                    if !is_known {
                        list.push(value);
                    }
                }
                Ok(PartitionBound::List(list))
            }
            PartitionStrategy::Range => {
                let count = key.parts.len();
                for (list, word) in [(b.lowerdatums(), "FROM"), (b.upperdatums(), "TO")] {
                    if list.len() != count {
                        return Err(malformed(format!(
                            "{word} must specify exactly one value per partitioning column"
                        )));
                    }
                }
                let lower = self.bound_edges((parent, &key), b.lowerdatums(), source, runtime)?;
                let upper = self.bound_edges((parent, &key), b.upperdatums(), source, runtime)?;
                if key.compare_edges(&lower, &upper, &mut Calls { definitions: self, runtime })?.is_ge() {
                    let texts = self.context_mut().with_catalog(runtime, |host| {
                        let text = |edges: &[RangeEdge]| host.shown_edges(&key, edges);
                        Ok((text(&lower)?, text(&upper)?))
                    })?;
                    return Err(here(
                        definition(format!("empty range bound specified for partition \"{name}\"")).with_detail(
                            format!(
                                "Specified lower bound ({}) is greater than or equal to upper bound ({}).",
                                texts.0, texts.1
                            ),
                        ),
                    ));
                }
                Ok(PartitionBound::Range { lower, upper })
            }
        }
    }

    fn bound_edges(
        &mut self,
        (parent, key): (&Table, &PartitionKey),
        list: &kilndb_syntax::NodeList,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Vec<RangeEdge>> {
        let mut out: Vec<RangeEdge> = Vec::new();
        for node in list {
            let word = match node {
                Node::ColumnRef(c) => match c.fields().iter().next() {
                    Some(Node::String(s)) if c.fields().len() == 1 => s.sval().map(str::to_string),
                    _ => None,
                },
                _ => None,
            };
            let edge = match word.as_deref() {
                Some("minvalue") => RangeEdge::Min,
                Some("maxvalue") => RangeEdge::Max,
                _ => {
                    let part = KeyPosition { parent, part: &key.parts[out.len()] };
                    let value = self.bound_value(part, node, source, runtime)?;
                    if value.is_null() {
                        return Err(definition("cannot specify NULL in range bound"));
                    }
                    RangeEdge::Value(value)
                }
            };
            let breaks = match (out.last(), &edge) {
                (Some(RangeEdge::Min), e) if !matches!(e, RangeEdge::Min) => Some("MINVALUE"),
                (Some(RangeEdge::Max), e) if !matches!(e, RangeEdge::Max) => Some("MAXVALUE"),
                _ => None,
            };
            if let Some(word) = breaks {
                let e = Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("every bound following {word} must also be {word}"),
                );
                return Err(e.or_position(kilndb_syntax::position_of(source, kilndb_bind::location_of(node))));
            }
            out.push(edge);
        }
        Ok(out)
    }

    fn bound_value(
        &mut self,
        KeyPosition { parent, part }: KeyPosition<'_>,
        node: Node<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Datum> {
        let position = kilndb_syntax::position_of(source, kilndb_bind::location_of(node));
        if let Node::ColumnRef(_) = node {
            return Err(
                Error::unsupported("cannot use column reference in partition bound expression").or_position(position)
            );
        }
        let shown = self.context_mut().with_catalog(runtime, |host| Ok(bound_type(part.base_type, &host.reader)))?;
        let column = parent.columns.iter().find(|c| c.attnum == part.attnum);
        let name = column.map_or(part.expression_sql.as_deref().unwrap_or(""), |c| &c.name);
        let mismatch = |_: &str| {
            let message = format!("specified value cannot be cast to type {shown} for column \"{name}\"");
            Error::new(sqlstate::DATATYPE_MISMATCH, message)
        };
        let query =
            ValueQuery { source: ValueSource::Statement(node, source), ty: (part.base_type, -1), mismatch: &mismatch };
        self.value_of(&query, runtime).map_err(|e| e.or_position(position))
    }

    /// 42P17 if the bound does not fit beside those that there are.
    pub(super) fn check_bound(
        &mut self,
        parent: &Table,
        name: &str,
        bound: &PartitionBound,
        location: Option<u32>,
        runtime: &dyn Runtime,
    ) -> Result<Arc<PartitionMap>> {
        let map = self.partition_map(parent.oid, runtime)?;
        if let PartitionBound::Hash { modulus, .. } = bound {
            self.check_modulus(&map, *modulus, runtime).map_err(|e| e.or_position(location))?;
        }
        // The place of a partition that is being detached is taken.
        let whole = if map.pending.is_empty() { map.clone() } else { Arc::new(map.whole()) };
        if let Some(at) = whole.overlap(bound, &mut Calls { definitions: self, runtime })? {
            let other = self.context_mut().table_by_oid(whole.partitions[at].oid, runtime)?;
            let message = match bound {
                PartitionBound::Default => {
                    format!("partition \"{name}\" conflicts with existing default partition \"{}\"", other.name)
                }
                _ => format!("partition \"{name}\" would overlap partition \"{}\"", other.name),
            };
            return Err(definition(message).or_position(location));
        }
        Ok(map)
    }

    fn check_modulus(&mut self, map: &PartitionMap, modulus: u32, runtime: &dyn Runtime) -> Result<()> {
        let [smaller, larger] = map.moduli_around(modulus);
        let e = || definition("every hash partition modulus must be a factor of the next larger modulus");
        if let Some((m, oid)) = smaller
            && !modulus.is_multiple_of(m)
        {
            let other = self.context_mut().table_by_oid(oid, runtime)?;
            return Err(e().with_detail(format!(
                "The new modulus {modulus} is not divisible by {m}, the modulus of existing partition \"{}\".",
                other.name
            )));
        }
        if let Some((m, oid)) = larger
            && m % modulus != 0
        {
            let other = self.context_mut().table_by_oid(oid, runtime)?;
            return Err(e().with_detail(format!(
                "The new modulus {modulus} is not a factor of {m}, the modulus of existing partition \"{}\".",
                other.name
            )));
        }
        Ok(())
    }

    /// What pg_class says of a partition beside what it says of the table.
    pub(super) fn partition_columns_of_class(
        &mut self,
        new: &NewPartition,
        runtime: &dyn Runtime,
    ) -> Result<Vec<(&'static str, Datum)>> {
        let text = self
            .context_mut()
            .with_catalog(runtime, |host| partition::bound_text(&new.map.key, &new.bound, &host.reader))?;
        Ok(vec![("relispartition", Datum::Bool(true)), ("relpartbound", Datum::text(&text))])
    }

    /// Makes a table (that has what the parent has, and whose row in pg_class says that it is a partition) a partition,
    /// in the catalogs.
    pub(super) fn insert_partition(
        &mut self,
        parent: &Table,
        child: Oid,
        new: NewPartition,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let NewPartition { bound, map, is_partitioned } = new;
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_INHERITS,
                &[
                    ("inhrelid", Datum::Oid(child)),
                    ("inhparent", Datum::Oid(parent.oid)),
                    ("inhseqno", Datum::Int4(1)),
                    ("inhdetachpending", Datum::Bool(false)),
                ],
            )
            .map(|_| ())
        })?;
        self.mark_parent(parent.oid, runtime)?;
        if matches!(bound, PartitionBound::Default) {
            self.set_default_partition(parent.oid, child, runtime)?;
        }
        if is_partitioned {
            // Plans may have counted on partitions that are not.
            let mut changes = kilndb_catalog::changes::Changes::default();
            changes.objects.insert(parent.oid);
            self.context_mut().catalog_changed(&changes);
        }
        let added = Partition { oid: child, bound: Arc::new(bound), is_partitioned, is_pending: false };
        let map = Arc::new(map.with(added));
        self.context_mut().with_catalog(runtime, |host| {
            host.reader.set_partition_map(map);
            Ok(())
        })
    }

    fn mark_parent(&mut self, parent: Oid, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(parent)])?;
        if rows.first().is_some_and(|r| !r.bool("relhassubclass")) {
            self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, parent, runtime, |row| {
                row.set("relhassubclass", Datum::Bool(true))
            })?;
        }
        Ok(())
    }

    pub(super) fn set_default_partition(&mut self, parent: Oid, child: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.update_row(PG_PARTITIONED_TABLE, PG_PARTITIONED_TABLE_PARTRELID_INDEX, parent, runtime, |row| {
            row.set("partdefid", Datum::Oid(child))
        })
    }

    /// Rows of the default partition that belong to a new one stand in its way.
    pub(super) fn check_default_partition(
        &mut self,
        map: &PartitionMap,
        bound: &PartitionBound,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let (Some(at), false) = (map.default_partition(), matches!(bound, PartitionBound::Default)) else {
            return Ok(());
        };
        let default = self.context_mut().table_by_oid(map.partitions[at].oid, runtime)?;
        let default = self.lock_for_ddl(&default, LockMode::AccessExclusive, runtime)?;
        let parent = self.context_mut().table_by_oid(map.table, runtime)?;
        let condition =
            self.context_mut().with_catalog(runtime, |host| host.bound_condition(&parent, &map.key, bound))?;
        if self.table_with_row(&default, RowCondition::True(&condition), runtime)?.is_none() {
            return Ok(());
        }
        let message = format!(
            "updated partition constraint for default partition \"{}\" would be violated by some row",
            default.name
        );
        Err(Error::new(sqlstate::CHECK_VIOLATION, message).with_table(&default.schema_name, &default.name))
    }

    /// Checks, not-null constraints and keys of the parent, for a new partition.
    pub(super) fn copy_to_partition(&mut self, parent: &Arc<Table>, child: Oid, runtime: &dyn Runtime) -> Result<()> {
        let mut described: Option<Arc<Table>> = None;
        for row in
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(parent.oid)])?
        {
            if !matches!(row.char("contype"), b'c' | b'n') {
                continue;
            }
            let table = match described.take() {
                Some(table) => table,
                None => self.context_mut().table_by_oid(child, runtime)?,
            };
            let name = row.text("conname").unwrap_or("");
            match row.char("contype") {
                b'c' if !row.bool("connoinherit") => {
                    let mut new = NewConstraint::inherited(name, b'c', &table, &[], true);
                    new.expression = row.text("conbin");
                    new.enforced = row.bool("conenforced");
                    new.validated = new.enforced;
                    self.insert_constraint(&new, runtime)?;
                    let checks = table.checks.len() as i16 + 1;
                    self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, child, runtime, |row| {
                        row.set("relchecks", Datum::Int2(checks))
                    })?;
                }
                b'n' => {
                    let own = own_columns(parent, &table, &row.numbers("conkey"));
                    self.insert_constraint(
                        &NewConstraint::inherited(name, b'n', &table, &own, row.bool("convalidated")),
                        runtime,
                    )?;
                    // That its column is not null the description said before.
                    described = Some(table);
                }
                _ => {}
            }
        }
        for index in &parent.indexes {
            let table = match described.take() {
                Some(table) => table,
                None => self.context_mut().table_by_oid(child, runtime)?,
            };
            self.copy_index_to(parent, index, &table, runtime)?;
        }
        self.copy_references(parent, child, runtime)?;
        self.copy_foreign_keys(parent, child, runtime)
    }

    fn copy_foreign_keys(&mut self, parent: &Arc<Table>, child: Oid, runtime: &dyn Runtime) -> Result<()> {
        for key in &parent.foreign_keys {
            self.copy_foreign_key(parent, key.oid, child, runtime)?;
        }
        Ok(())
    }

    /// The foreign key of a partitioned table, as one of a partition.
    pub(super) fn copy_foreign_key(
        &mut self,
        parent: &Arc<Table>,
        key: Oid,
        child: Oid,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, &[Datum::Oid(key)])?;
        let Some(row) = rows.first() else { return Ok(()) };
        let table = self.context_mut().table_by_oid(child, runtime)?;
        if let Some(whole) = parent.foreign_keys.iter().find(|k| k.oid == key)
            && self.adopt_foreign_key(parent, whole, &table, runtime)?
        {
            return Ok(());
        }
        let own = own_columns(parent, &table, &row.numbers("conkey"));
        let oid = self.new_oid(child)?;
        let mut copy = row.clone();
        copy.set("oid", Datum::Oid(oid));
        copy.set("conrelid", Datum::Oid(child));
        copy.set("connamespace", Datum::Oid(table.schema_oid));
        copy.set("conkey", kilndb_catalog::store::array(oids::INT2, own.iter().map(|n| Datum::Int2(*n)).collect()));
        let chosen = own_columns(parent, &table, &row.numbers("confdelsetcols"));
        if !chosen.is_empty() {
            copy.set(
                "confdelsetcols",
                kilndb_catalog::store::array(oids::INT2, chosen.into_iter().map(Datum::Int2).collect()),
            );
        }
        copy.set("conparentid", Datum::Oid(key));
        copy.set("conislocal", Datum::Bool(false));
        copy.set("coninhcount", Datum::Int2(1));
        copy.set("connoinherit", Datum::Bool(false));
        self.write_catalog(runtime, |w| w.insert_row(PG_CONSTRAINT, copy.values()).map(|_| ()))?;
        self.settle_key_triggers(oid, runtime)?;
        if table.kind == TableKind::Partitioned {
            let table = self.context_mut().table_by_oid(child, runtime)?;
            for partition in self.partition_oids(child, runtime)? {
                self.copy_foreign_key(&table, oid, partition, runtime)?;
            }
        }
        Ok(())
    }

    pub(super) fn partition_oids(&mut self, table: Oid, runtime: &dyn Runtime) -> Result<Vec<Oid>> {
        Ok(self.partition_map(table, runtime)?.partitions.iter().map(|p| p.oid).collect())
    }

    /// The part of a partitioned table's index that a partition has: one that is like it, or a new one.
    pub(super) fn copy_index_to(
        &mut self,
        parent: &Arc<Table>,
        index: &Arc<Index>,
        child: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let new = self.index_for(parent, index, child, runtime)?;
        if index.is_global {
            super::global_index::refuse_partition(child)?;
        }
        let like = child.indexes.iter().find(|i| i.part_of == 0 && is_alike(i, &new, index) && i.valid).cloned();
        if let Some(own) = like {
            self.mark_part(own.oid, runtime)?;
            self.make_part(index, own.oid, child, runtime)?;
            return if index.is_global { self.move_into_whole(child, &own, index.storage, runtime) } else { Ok(()) };
        }
        let oid = self.insert_index(child, &new, runtime)?;
        if index.is_constraint {
            let columns: Vec<i16> = new.keys.iter().map(|k| k.attnum).collect();
            let mut constraint =
                NewConstraint::inherited(&new.name, if index.primary { b'p' } else { b'u' }, child, &columns, true);
            constraint.index = oid;
            constraint.deferrable = index.deferrable;
            constraint.deferred = index.initially_deferred;
            constraint.part_of = index.constraint;
            self.insert_constraint(&constraint, runtime)?;
        }
        self.make_part(index, oid, child, runtime)?;
        if child.kind.has_rows() && !index.is_global {
            return Ok(());
        }
        let child = self.context_mut().table_by_oid(child.oid, runtime)?;
        if let Some(part) =
            child.indexes.iter().find(|i| i.oid == oid && i.is_in_whole && child.kind == TableKind::Table).cloned()
        {
            return self.build_index(&child, &part, runtime);
        }
        self.index_partitions(&child, oid, false, runtime)
    }

    /// The index's row in pg_class says that it is a part of another.
    pub(super) fn mark_part(&mut self, part: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, part, runtime, |row| row.set("relispartition", Datum::Bool(true)))
    }

    /// An index whose row in pg_class says that it is a part of another becomes a part of this one.
    pub(super) fn make_part(
        &mut self,
        whole: &Index,
        part: Oid,
        table: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_INHERITS,
                &[
                    ("inhrelid", Datum::Oid(part)),
                    ("inhparent", Datum::Oid(whole.oid)),
                    ("inhseqno", Datum::Int4(1)),
                    ("inhdetachpending", Datum::Bool(false)),
                ],
            )
            .map(|_| ())
        })?;
        self.mark_parent(whole.oid, runtime)?;
        // A constraint of the partition that was its own belongs to the whole now.
        if let (Some(own), true) =
            (table.indexes.iter().find(|i| i.oid == part && i.constraint != 0), whole.constraint != 0)
        {
            let parent = whole.constraint;
            self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, own.constraint, runtime, |row| {
                row.set("conparentid", Datum::Oid(parent));
                row.set("conislocal", Datum::Bool(false));
                row.set("coninhcount", Datum::Int2(1));
            })?;
        }
        Ok(())
    }

    fn index_for(
        &mut self,
        parent: &Arc<Table>,
        index: &Index,
        child: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<NewIndex> {
        let map = column_map(parent, child);
        let own = |attnum: i16| match (&map, attnum) {
            (_, 0) | (None, _) => attnum,
            (Some(map), n) => map.get(n as usize - 1).copied().flatten().map_or(0, |i| i as i16 + 1),
        };
        let mut keys = index.keys.clone();
        keys.iter_mut().for_each(|k| k.attnum = own(k.attnum));
        let names: Vec<String> = keys
            .iter()
            .map(|k| match k.attnum {
                0 => super::index::expression_column_name(k.expression_sql.as_deref().unwrap_or("")),
                n => Ok(child.columns[n as usize - 1].name.clone()),
            })
            .collect::<Result<_>>()?;
        let suffix = if index.primary {
            "pkey"
        } else if index.is_constraint {
            "key"
        } else {
            "idx"
        };
        let name = self.free_name(child, if index.primary { &[] } else { &names }, suffix, runtime)?;
        let options = self.context_mut().with_catalog(runtime, |host| {
            Ok(host.reader.class_row(index.oid)?.map(|c| c.texts("reloptions")).unwrap_or_default())
        })?;
        Ok(NewIndex {
            name,
            keys,
            include: index.include.iter().map(|n| own(*n)).collect(),
            unique: index.unique,
            primary: index.primary,
            nulls_not_distinct: index.nulls_not_distinct,
            immediate: !index.deferrable,
            predicate: index.predicate_sql.clone(),
            options,
            method: index.method.oid,
            in_whole: index.is_global,
            is_part: true,
        })
    }

    /// Is an index of a partition like one of its parent's?
    pub(super) fn is_like_part(
        &mut self,
        parent: &Arc<Table>,
        whole: &Arc<Index>,
        child: &Arc<Table>,
        own: &Index,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        let new = self.index_for(parent, whole, child, runtime)?;
        let mut alike = own.clone();
        alike.is_constraint = whole.is_constraint;
        Ok(is_alike(&alike, &new, whole))
    }
}

/// Are the keys, the condition and the kind of an index those of one to be made?
fn is_alike(own: &Index, new: &NewIndex, whole: &Index) -> bool {
    own.method.oid == new.method
        && own.unique == new.unique
        && own.nulls_not_distinct == new.nulls_not_distinct
        && own.include == new.include
        && own.predicate_sql == new.predicate
        && own.keys.len() == new.keys.len()
        && own.is_constraint == whole.is_constraint
        && (!whole.primary || own.primary)
        && own.keys.iter().zip(&new.keys).all(|(a, b)| {
            a.attnum == b.attnum
                && a.expression_sql == b.expression_sql
                && a.opclass == b.opclass
                && a.collation == b.collation
                && a.descending == b.descending
                && a.nulls_first == b.nulls_first
        })
}

/// Columns of a partition by the numbers of its parent's.
pub(super) fn own_columns(parent: &Table, child: &Table, numbers: &[i64]) -> Vec<i16> {
    let name =
        |n: &i64| usize::try_from(*n - 1).ok().and_then(|i| parent.columns.get(i)).map_or("", |c| c.name.as_str());
    numbers
        .iter()
        .filter_map(|n| child.columns.iter().find(|c| !c.dropped && c.name == name(n)).map(|c| c.attnum))
        .collect()
}

/// `ONLY`, for commands that would go through the partitions.
pub(super) fn says_only(r: &nodes::RangeVar) -> bool {
    !r.inh
}

/// Is it CREATE TABLE … PARTITION OF?
pub(super) fn is_partition(s: &nodes::CreateStmt) -> bool {
    s.partbound().is_some()
}

/// A type's name, for casts. (Of char without a length it would mean another.)
fn bound_type(type_oid: Oid, catalog: &dyn CatalogView) -> String {
    if type_oid == oids::BPCHAR { "bpchar".into() } else { catalog.format_type(type_oid, -1) }
}

/// regproc, regclass and the like.
fn is_object_name(ty: Oid) -> bool {
    matches!(ty, 24 | 2202..=2206 | 3734 | 3769 | 4089 | 4096 | 4191)
}
