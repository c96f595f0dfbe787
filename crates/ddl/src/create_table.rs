//! CREATE TABLE: columns, types, defaults, then constraints.

use super::Definitions;
use super::like::{Likes, NewPlace};
use super::not_null::{NotNullClause, not_null_of};
use super::partition::NewPartition;
use super::sequence::ColumnTable;
use super::temporary_objects::{on_commit_option, refuse_in_temporary_schema, says_global};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, RelationId, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::{AccessMethod, CatalogView, TypeInfo};
use kilndb_storage::{Persistence, RelationKind};
use kilndb_syntax::raw::ConstrType as C;
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// A column to be made.
#[derive(Clone, Debug, Default)]
pub(crate) struct NewColumn {
    pub name: String,
    pub type_oid: Oid,
    pub typmod: i32,
    pub collation: Oid,
    pub not_null: bool,
    /// Name and attributes of its NOT NULL constraint.
    pub not_null_clause: NotNullClause,
    /// Default or generation expression as SQL.
    pub default_sql: Option<String>,
    pub identity: u8,
    pub generated: u8,
    /// A sequence that belongs to the column: made before the table, tied to it after.
    pub sequence: Option<Oid>,
    /// A partition has it from its parent.
    pub is_inherited: bool,
    /// The partition's definition says something of it.
    pub has_options: bool,
}

/// A relation to be made: a table, a view's row, a sequence's.
pub(crate) struct NewTable {
    pub name: String,
    pub schema: Oid,
    pub kind: u8,
    /// 'p', 'u', 't', 'g' as in pg_class.
    pub persistence: u8,
    pub columns: Vec<NewColumn>,
    pub options: Vec<String>,
    /// More of its row in pg_class: what is known of the table before it is made, so that the row need not be changed.
    pub class_columns: Vec<(&'static str, Datum)>,
}

/// In place of pg_class's 'u' where storage is made: unlogged, kept at checkpoints (`unlogged_recovery = checkpoint`).
pub(crate) const KEPT: u8 = b'k';

pub(crate) fn storage_persistence(letter: u8) -> Persistence {
    match letter {
        b'u' => Persistence::Unlogged,
        KEPT => Persistence::Kept,
        _ => Persistence::Logged,
    }
}

/// No column of a table is called as those that every table has.
pub(super) fn refuse_system_name(name: &str) -> Result<()> {
    if !matches!(name, "ctid" | "xmin" | "xmax" | "cmin" | "cmax" | "tableoid") {
        return Ok(());
    }
    let message = format!("column name \"{name}\" conflicts with a system column name");
    Err(Error::new(sqlstate::DUPLICATE_COLUMN, message))
}

impl Definitions<'_> {
    pub fn create_table(&mut self, s: &nodes::CreateStmt, source: &Arc<str>, runtime: &dyn Runtime) -> Result<()> {
        let relation = s.relation().ok_or_else(|| Error::internal("CREATE TABLE without a name"))?;
        let is_partition = super::partition::is_partition(s);
        if !s.inh_relations().is_empty() && !is_partition {
            return Err(Error::unsupported("table inheritance (INHERITS) is not supported"));
        }
        if s.of_typename().is_some() {
            return Err(Error::unsupported("typed tables (CREATE TABLE OF) are not supported"));
        }
        let name = relation.relname().unwrap_or("").to_string();
        let persistence = relation.relpersistence as u8;
        let global = persistence == b't' && says_global(source, relation.location);
        let here = |e: Error| e.or_position(kilndb_syntax::position_of(source, relation.location));
        let temporary = !global && self.will_be_temporary(relation, runtime).map_err(here)?;
        let persistence = if global {
            GLOBAL
        } else if temporary {
            b't'
        } else {
            persistence
        };
        let (schema, _) = self.creation_schema(relation.schemaname(), temporary, runtime).map_err(here)?;
        if global {
            refuse_in_temporary_schema(schema).map_err(here)?;
        }
        if self.name_is_taken(schema, &name, "relation", s.if_not_exists, runtime)? {
            return Ok(());
        }
        let parent = if is_partition { Some(self.parent_of_partition(s, persistence == b't', runtime)?) } else { None };
        if (is_partition || s.partspec().is_some()) && global {
            return Err(Error::unsupported("global temporary tables cannot be partitioned"));
        }
        let mut columns = parent.as_ref().map(|p| self.partition_columns(p)).unwrap_or_default();
        let mut constraints: Vec<(&nodes::Constraint, Option<String>)> = Vec::new();
        let mut likes = Likes::default();
        let of = ColumnTable { name: &name, schema, persistence, owner: None };
        for element in s.table_elts() {
            match element {
                Node::ColumnDef(c) if is_partition => {
                    self.partition_column(c, &mut columns, of, source, runtime)?;
                    let own =
                        c.constraints().iter().filter_map(|k| if let Node::Constraint(k) = k { Some(k) } else { None });
                    constraints.extend(own.map(|k| (k, c.colname().map(str::to_string))));
                }
                Node::ColumnDef(c) => {
                    let column = self.new_column(c, of, source, runtime)?;
                    if columns.iter().any(|known: &NewColumn| known.name == column.name) {
                        let message = format!("column \"{}\" specified more than once", column.name);
                        return Err(Error::new(sqlstate::DUPLICATE_COLUMN, message));
                    }
                    for constraint in c.constraints() {
                        if let Node::Constraint(constraint) = constraint {
                            constraints.push((constraint, Some(column.name.clone())));
                        }
                    }
                    columns.push(column);
                }
                Node::Constraint(c) => constraints.push((c, None)),
                Node::TableLikeClause(like) => {
                    likes.add(self, like, &mut columns, &NewPlace { table: &name, schema, persistence }, runtime)?
                }
                _ => return Err(Error::unsupported("this element of CREATE TABLE is not supported")),
            }
        }
        mark_not_null(&name, &mut columns, &constraints)?;
        let mut options = self.storage_options(s.options())?;
        if global {
            options.push(on_commit_option(s.oncommit)?);
        }
        if s.partspec().is_some() && !options.is_empty() {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                "cannot specify storage parameters for a partitioned table",
            )
            .with_hint("Specify storage parameters for its leaf partitions instead."));
        }
        let kind = if s.partspec().is_some() { b'p' } else { b'r' };
        let mut new =
            NewTable { name: name.clone(), schema, kind, persistence, columns, options, class_columns: Vec::new() };
        let mut place = None;
        if let (Some(parent), Some(bound)) = (&parent, s.partbound()) {
            let location = kilndb_syntax::position_of(source, bound.location);
            let bound = self.bound_of(parent, &name, bound, source, runtime)?;
            let map = self.check_bound(parent, &name, &bound, location, runtime)?;
            self.check_default_partition(&map, &bound, runtime)?;
            let place = place.insert(NewPartition { bound, map, is_partitioned: kind == b'p' });
            new.class_columns = self.partition_columns_of_class(place, runtime)?;
            new.class_columns.push(("relhasindex", Datum::Bool(!parent.indexes.is_empty())));
        }
        let oid = self.insert_table(&new, runtime)?;
        if let (Some(parent), Some(place)) = (&parent, place) {
            self.insert_partition(parent, oid, place, runtime)?;
        }
        self.own_sequences(oid, &new, runtime)?;
        if let Some(spec) = s.partspec() {
            self.insert_partition_key(oid, spec, source, runtime)?;
        }
        if let Some(parent) = &parent {
            self.copy_to_partition(parent, oid, runtime)?;
            self.clone_triggers(parent, oid, runtime)?;
        }
        for pass in [
            C::CONSTR_CHECK,
            C::CONSTR_NOTNULL,
            C::CONSTR_PRIMARY,
            C::CONSTR_UNIQUE,
            C::CONSTR_FOREIGN,
            C::CONSTR_EXCLUSION,
        ] {
            if pass == C::CONSTR_NOTNULL {
                likes.copy_checks(self, oid, runtime)?;
                self.insert_not_nulls(oid, &new.columns, runtime)?;
                continue;
            }
            if pass == C::CONSTR_PRIMARY && persistence != b't' {
                let is_looked_up = likes.look_up_table()
                    || new.columns.iter().any(|column| column.sequence.is_some())
                    || constraints.iter().any(|(constraint, _)| is_added_later(constraint));
                self.require_to_name(schema, is_looked_up, runtime)?;
            }
            for (constraint, column) in constraints.iter().filter(|(c, _)| c.contype == pass) {
                self.add_constraint(
                    oid,
                    constraint,
                    column.as_deref(),
                    &constraints_of(&constraints),
                    source,
                    runtime,
                )?;
            }
        }
        likes.copy_rest(self, oid, runtime)?;
        if global { Ok(()) } else { self.note_on_commit(oid, s.oncommit, persistence) }
    }

    /// `column WITH OPTIONS …` of a partition.
    fn partition_column(
        &mut self,
        c: &nodes::ColumnDef,
        columns: &mut [NewColumn],
        of: ColumnTable<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let name = c.colname().unwrap_or("");
        let Some(column) = columns.iter_mut().find(|k| k.name == name) else {
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")));
        };
        if column.has_options {
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, format!("column \"{name}\" specified more than once")));
        }
        column.has_options = true;
        for k in c.constraints() {
            let Node::Constraint(k) = k else { continue };
            match k.contype {
                C::CONSTR_IDENTITY => {
                    return Err(Error::unsupported("identity columns are not supported on partitions"));
                }
                C::CONSTR_GENERATED if column.generated == 0 => {
                    let message = format!("child column \"{name}\" specifies generation expression");
                    return Err(Error::new(sqlstate::INVALID_COLUMN_DEFINITION, message)
                        .with_hint("A child table column cannot be generated unless its parent column is."));
                }
                C::CONSTR_DEFAULT if column.generated != 0 => {
                    let message = format!("column \"{name}\" inherits from generated column but specifies default");
                    return Err(Error::new(sqlstate::INVALID_COLUMN_DEFINITION, message));
                }
                _ => self.column_constraint(column, k, of, source, runtime)?,
            }
        }
        Ok(())
    }

    /// Is there a relation of that name in the schema? With IF NOT EXISTS a notice, else 42P07.
    pub(super) fn name_is_taken(
        &mut self,
        schema: Oid,
        name: &str,
        word: &str,
        if_not_exists: bool,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        let taken = self.context_mut().with_catalog(runtime, |host| host.reader.relation_oid(schema, name))?.is_some();
        if taken && if_not_exists {
            self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::DUPLICATE_TABLE,
                Severity::Notice,
                format!("{word} \"{name}\" already exists, skipping"),
            ));
        } else if taken {
            return Err(Error::new(sqlstate::DUPLICATE_TABLE, format!("{word} \"{name}\" already exists")));
        }
        Ok(taken)
    }

    pub(super) fn new_column(
        &mut self,
        c: &nodes::ColumnDef,
        of: ColumnTable<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<NewColumn> {
        let name = c.colname().unwrap_or("").to_string();
        refuse_system_name(&name)?;
        let t = c.type_name().ok_or_else(|| Error::internal("a column without a type"))?;
        let names: Vec<&str> = t.names().iter().filter_map(|n| n.sval()).collect();
        let serial = match names.last().copied() {
            Some("serial" | "serial4") => Some(oids::INT4),
            Some("bigserial" | "serial8") => Some(oids::INT8),
            Some("smallserial" | "serial2") => Some(oids::INT2),
            _ => None,
        };
        super::identity::check_column_clauses(c, of.name, serial.is_some(), source)?;
        let mut column = NewColumn { name: name.clone(), typmod: -1, ..NewColumn::default() };
        if let Some(type_oid) = serial {
            if !t.array_bounds().is_empty() {
                return Err(Error::unsupported("array of serial is not implemented"));
            }
            let sequence = self.column_sequence(of, (&name, type_oid), (&[], source), runtime)?;
            column.type_oid = type_oid;
            column.not_null = true;
            column.default_sql = Some(super::default::nextval_of(sequence));
            column.sequence = Some(sequence);
        } else {
            (column.type_oid, column.typmod) = self.context_mut().resolve_type(t, source, runtime)?;
        }
        let info = self.type_info(column.type_oid, runtime)?;
        if info.kind == b'p' && column.type_oid != oids::RECORD_ARRAY {
            return Err(Error::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                format!("column \"{name}\" has pseudo-type {}", info.name),
            ));
        }
        column.collation = info.collation;
        if let Some(clause) = c.coll_clause() {
            let names: Vec<&str> = clause.collname().iter().filter_map(|n| n.as_str()).collect();
            column.collation = self
                .collation_for(column.type_oid, &names, runtime)
                .map_err(|e| e.or_position(kilndb_syntax::position_of(source, clause.location)))?;
        }
        super::constraint_attributes::check(
            c.constraints().iter().filter_map(|n| if let Node::Constraint(k) = n { Some(k) } else { None }),
            source,
        )?;
        for constraint in c.constraints() {
            let Node::Constraint(k) = constraint else { continue };
            self.column_constraint(&mut column, k, of, source, runtime)?;
        }
        Ok(column)
    }

    fn column_constraint(
        &mut self,
        column: &mut NewColumn,
        k: &nodes::Constraint,
        of: ColumnTable<'_>,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        match k.contype {
            C::CONSTR_NOTNULL => {
                column.not_null = true;
                merge_clause(&mut column.not_null_clause, NotNullClause::of(k))?;
            }
            C::CONSTR_DEFAULT => {
                let sql = kilndb_syntax::expression_sql(k.raw_expr())?;
                self.check_default(&sql, &column.name, (column.type_oid, column.typmod), runtime)?;
                column.default_sql = Some(sql);
            }
            C::CONSTR_IDENTITY => {
                super::identity::identity_type(column.type_oid)?;
                let options: Vec<Node<'_>> = k.options().iter().collect();
                let name = column.name.clone();
                let sequence = self.column_sequence(of, (&name, column.type_oid), (&options, source), runtime)?;
                column.identity = k.generated_when as u8;
                column.not_null = true;
                column.sequence = Some(sequence);
            }
            C::CONSTR_GENERATED => {
                if k.generated_kind as u8 == b'v' {
                    return Err(Error::unsupported("virtual generated columns are not supported"));
                }
                column.default_sql = Some(kilndb_syntax::expression_sql(k.raw_expr())?);
                column.generated = b's';
            }
            _ => {}
        }
        Ok(())
    }

    pub(crate) fn type_info(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<Arc<TypeInfo>> {
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.type_by_oid(oid))?;
        found.ok_or_else(|| Error::internal(format!("type {oid} does not exist")))
    }

    fn insert_not_nulls(&mut self, table: Oid, columns: &[NewColumn], runtime: &dyn Runtime) -> Result<()> {
        let mut wanted: Vec<(i16, &NewColumn)> = (1..).zip(columns).filter(|(_, c)| c.not_null).collect();
        // What comes from the parent has its constraint already.
        if wanted.iter().any(|(_, column)| column.is_inherited) {
            let known = self.not_null_rows(table)?;
            wanted.retain(|(attnum, column)| !column.is_inherited || not_null_of(&known, *attnum).is_none());
        }
        if wanted.is_empty() {
            return Ok(());
        }
        // Names that were chosen come first: the others get names that are free.
        wanted.sort_by_key(|(_, column)| column.not_null_clause.name.is_none());
        let table = self.context_mut().table_by_oid(table, runtime)?;
        for (attnum, column) in wanted {
            self.insert_not_null(&table, attnum, &column.not_null_clause, runtime)?;
        }
        Ok(())
    }

    /// WITH (…): accepted and shown back; what has no meaning here changes nothing.
    pub(super) fn storage_options<'n>(&mut self, options: impl IntoIterator<Item = Node<'n>>) -> Result<Vec<String>> {
        self.known_options(options, false)
    }

    fn known_options<'n>(
        &mut self,
        options: impl IntoIterator<Item = Node<'n>>,
        is_index: bool,
    ) -> Result<Vec<String>> {
        let mut shown = Vec::new();
        for option in options {
            let Node::DefElem(d) = option else { continue };
            let name = d.defname().unwrap_or("");
            if name == "oids" {
                continue;
            }
            let is_known = KNOWN_OPTIONS.contains(&name) || is_index && AccessMethod::some_has_option(name);
            if !is_known && d.defnamespace() != Some("toast") {
                return Err(Error::new(
                    sqlstate::INVALID_PARAMETER_VALUE,
                    format!("unrecognized parameter \"{name}\""),
                ));
            }
            let value = match d.arg() {
                Node::None => "true".to_string(),
                Node::Integer(i) => i.ival.to_string(),
                Node::Float(f) => f.fval().unwrap_or("").to_string(),
                Node::String(s) => s.sval().unwrap_or("").to_string(),
                Node::Boolean(b) => b.boolval.to_string(),
                Node::TypeName(t) => t.names().first().and_then(|n| n.sval()).unwrap_or("").to_string(),
                _ => String::new(),
            };
            if name == super::persistence::RECOVERY {
                super::persistence::check_recovery(&value)?;
            }
            shown.push(format!("{name}={value}"));
        }
        Ok(shown)
    }

    /// The same for an index, which is as its table in what a crash leaves of it.
    pub(super) fn index_options<'n>(&mut self, options: impl IntoIterator<Item = Node<'n>>) -> Result<Vec<String>> {
        let shown = self.known_options(options, true)?;
        let recovery = super::persistence::RECOVERY;
        if shown.iter().any(|o| o.split('=').next() == Some(recovery)) {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("unrecognized parameter \"{recovery}\""),
            ));
        }
        Ok(shown)
    }

    /// Writes pg_class, pg_type, pg_attribute and pg_attrdef rows, and makes the storage of an ordinary table.
    pub(crate) fn insert_table(&mut self, new: &NewTable, runtime: &dyn Runtime) -> Result<Oid> {
        if new.columns.len() > 1600 {
            return Err(Error::new(sqlstate::TOO_MANY_COLUMNS, "tables can have at most 1600 columns"));
        }
        let (oid, type_oid, array_oid) =
            (self.new_oid(new.schema)?, self.new_oid(new.schema)?, self.new_oid(new.schema)?);
        let storage = match new.kind {
            b'r' | b'm' => {
                self.new_storage(RelationKind::Heap, super::persistence::storage_letter(new.persistence, &new.options))?
            }
            _ => RelationId(0),
        };
        for column in &new.columns {
            self.require_type(column.type_oid, runtime)?;
        }
        let owner = self.context().identity.current_role;
        let storages = self.column_storages(&new.columns, runtime)?;
        self.write_catalog(runtime, |w| {
            let mut class = vec![
                ("oid", Datum::Oid(oid)),
                ("relname", Datum::text(&new.name)),
                ("relnamespace", Datum::Oid(new.schema)),
                ("reltype", Datum::Oid(type_oid)),
                ("relowner", Datum::Oid(owner)),
                ("relam", Datum::Oid(if matches!(new.kind, b'r' | b'm') { 2 } else { 0 })),
                ("relfilenode", Datum::Oid(storage.0)),
                ("reltuples", Datum::Float4(-1.0)),
                ("relpersistence", Datum::Char(new.persistence)),
                ("relkind", Datum::Char(new.kind)),
                ("relnatts", Datum::Int2(new.columns.len() as i16)),
                ("relispopulated", Datum::Bool(new.kind != b'm')),
                ("relreplident", Datum::Char(b'd')),
                ("relhasrules", Datum::Bool(matches!(new.kind, b'v' | b'm'))),
            ];
            class.extend(new.class_columns.iter().cloned());
            if !new.options.is_empty() {
                let options = new.options.iter().map(Datum::text).collect();
                class.push(("reloptions", kilndb_catalog::store::array(oids::TEXT, options)));
            }
            w.insert(PG_CLASS, &class)?;
            insert_row_type(w, new, oid, type_oid, array_oid, owner)?;
            insert_attributes(w, oid, 1, &new.columns, &storages)
        })?;
        for (i, column) in new.columns.iter().enumerate() {
            if let Some(sql) = column.default_sql.as_ref().filter(|_| !super::default::says_nothing(column)) {
                self.insert_default(oid, i as i16 + 1, sql, runtime)?;
            }
        }
        Ok(oid)
    }

    pub(crate) fn new_storage(&mut self, kind: RelationKind, persistence: u8) -> Result<RelationId> {
        let context = self.context_mut();
        let txn = context.transaction.txn.as_mut();
        let txn = txn.ok_or_else(|| Error::internal("no transaction to make storage in"))?;
        match persistence {
            // Every session will have its own.
            GLOBAL => return Ok(RelationId(0)),
            b't' => {
                let store = context.shared.temporary.open_store()?;
                txn.attach(store);
                return Ok(store.create_relation(txn, kind)?.id());
            }
            _ => {}
        }
        Ok(context.cluster.engine.create_relation(txn, kind, storage_persistence(persistence))?.id())
    }

    /// 42501 if something is added to a new table by its name, in a schema that whoever makes it may not look into.
    fn require_to_name(&mut self, schema: Oid, is_looked_up: bool, runtime: &dyn Runtime) -> Result<()> {
        if is_looked_up { self.require_on_schema(schema, privilege::USAGE, runtime) } else { Ok(()) }
    }

    /// Ties serial and identity columns' sequences to their columns.
    pub(super) fn own_sequences(&mut self, table: Oid, new: &NewTable, runtime: &dyn Runtime) -> Result<()> {
        for (i, column) in new.columns.iter().enumerate() {
            if let Some(sequence) = column.sequence {
                let kind = if column.identity != 0 { b'i' } else { b'a' };
                self.tie_sequence(sequence, ObjectAddress::column(table, i as i16 + 1), kind, runtime)?;
                self.keep_with_table(sequence, table, runtime)?;
            }
        }
        Ok(())
    }
}

/// Constraints that PostgreSQL adds when the table is there.
fn is_added_later(constraint: &nodes::Constraint) -> bool {
    matches!(constraint.contype, C::CONSTR_PRIMARY | C::CONSTR_UNIQUE | C::CONSTR_EXCLUSION | C::CONSTR_FOREIGN)
}

fn constraints_of<'a>(all: &[(&'a nodes::Constraint, Option<String>)]) -> Vec<&'a nodes::Constraint> {
    all.iter().map(|(c, _)| *c).collect()
}

/// Two clauses for one column: they may not have different names.
fn merge_clause(known: &mut NotNullClause, other: NotNullClause) -> Result<()> {
    if let (Some(a), Some(b)) = (&known.name, &other.name)
        && a != b
    {
        return Err(Error::new(
            sqlstate::SYNTAX_ERROR,
            format!("conflicting not-null constraint names \"{a}\" and \"{b}\""),
        ));
    }
    known.name = other.name.or(known.name.take());
    known.no_inherit |= other.no_inherit;
    Ok(())
}

/// Columns of primary keys and table-level NOT NULL constraints may not be null.
fn mark_not_null(
    table: &str,
    columns: &mut [NewColumn],
    constraints: &[(&nodes::Constraint, Option<String>)],
) -> Result<()> {
    for (constraint, column) in constraints {
        let keys: Vec<String> = match (constraint.contype, column) {
            (C::CONSTR_PRIMARY, Some(column)) => vec![column.clone()],
            (C::CONSTR_PRIMARY | C::CONSTR_NOTNULL, None) => {
                super::strings(constraint.keys()).iter().map(|s| s.to_string()).collect()
            }
            _ => continue,
        };
        for key in keys {
            let found = columns.iter_mut().find(|c| c.name == key);
            let found = found.ok_or_else(|| {
                let message = match constraint.contype {
                    C::CONSTR_NOTNULL => format!("column \"{key}\" of relation \"{table}\" does not exist"),
                    _ => format!("column \"{key}\" named in key does not exist"),
                };
                Error::new(sqlstate::UNDEFINED_COLUMN, message)
            })?;
            found.not_null = true;
            if constraint.contype == C::CONSTR_NOTNULL {
                merge_clause(&mut found.not_null_clause, NotNullClause::of(constraint))?;
            }
        }
    }
    Ok(())
}

fn insert_row_type(
    w: &mut kilndb_catalog::store::CatalogWriter<'_>,
    new: &NewTable,
    table: Oid,
    type_oid: Oid,
    array_oid: Oid,
    owner: Oid,
) -> Result<()> {
    let common = |oid: Oid, name: String, category: u8| {
        vec![
            ("oid", Datum::Oid(oid)),
            ("typname", Datum::text(name)),
            ("typnamespace", Datum::Oid(new.schema)),
            ("typowner", Datum::Oid(owner)),
            ("typlen", Datum::Int2(-1)),
            ("typcategory", Datum::Char(category)),
            ("typisdefined", Datum::Bool(true)),
            ("typdelim", Datum::Char(b',')),
            ("typalign", Datum::Char(b'd')),
            ("typstorage", Datum::Char(b'x')),
            ("typtypmod", Datum::Int4(-1)),
        ]
    };
    let mut row = common(type_oid, new.name.clone(), b'C');
    row.extend([
        ("typtype", Datum::Char(b'c')),
        ("typrelid", Datum::Oid(table)),
        ("typarray", Datum::Oid(array_oid)),
        ("typinput", Datum::Oid(2290)),
        ("typoutput", Datum::Oid(2291)),
        ("typreceive", Datum::Oid(2402)),
        ("typsend", Datum::Oid(2403)),
    ]);
    w.insert(PG_TYPE, &row)?;
    let mut row = common(array_oid, format!("_{}", new.name.chars().take(62).collect::<String>()), b'A');
    row.extend([
        ("typtype", Datum::Char(b'b')),
        ("typelem", Datum::Oid(type_oid)),
        ("typinput", Datum::Oid(750)),
        ("typoutput", Datum::Oid(751)),
        ("typreceive", Datum::Oid(2400)),
        ("typsend", Datum::Oid(2401)),
        ("typsubscript", Datum::Oid(6179)),
    ]);
    w.insert(PG_TYPE, &row)?;
    Ok(())
}

const ATTRIBUTE_COLUMNS: [&str; 15] = [
    "attrelid",
    "attname",
    "atttypid",
    "attlen",
    "attnum",
    "atttypmod",
    "attalign",
    "attstorage",
    "attnotnull",
    "atthasdef",
    "attidentity",
    "attgenerated",
    "attislocal",
    "attinhcount",
    "attcollation",
];

/// Rows of pg_attribute for new columns, whose numbers follow on each other from `first` on. `storages`: length and
/// letter of storage of each one's type.
pub(super) fn insert_attributes(
    w: &mut kilndb_catalog::store::CatalogWriter<'_>,
    table: Oid,
    first: i16,
    columns: &[NewColumn],
    storages: &[(i16, u8)],
) -> Result<()> {
    let values = |((column, (len, storage)), attnum): ((&NewColumn, &(i16, u8)), i16)| {
        vec![
            Datum::Oid(table),
            Datum::text(&column.name),
            Datum::Oid(column.type_oid),
            Datum::Int2(*len),
            Datum::Int2(attnum),
            Datum::Int4(column.typmod),
            Datum::Char(b'i'),
            Datum::Char(*storage),
            Datum::Bool(column.not_null),
            Datum::Bool(column.default_sql.is_some() && !super::default::says_nothing(column)),
            Datum::Char(column.identity),
            Datum::Char(column.generated),
            Datum::Bool(!column.is_inherited),
            Datum::Int2(i16::from(column.is_inherited)),
            Datum::Oid(column.collation),
        ]
    };
    let rows: Vec<Vec<Datum>> = columns.iter().zip(storages).zip(first..).map(values).collect();
    w.insert_many(PG_ATTRIBUTE, &ATTRIBUTE_COLUMNS, &rows)
}

/// Storage parameters that PostgreSQL knows; here they are kept and shown.
pub(super) const KNOWN_OPTIONS: &[&str] = &[
    "fillfactor",
    "parallel_workers",
    "autovacuum_enabled",
    "vacuum_index_cleanup",
    "vacuum_truncate",
    "vacuum_max_eager_freeze_failure_rate",
    "autovacuum_vacuum_threshold",
    "autovacuum_vacuum_max_threshold",
    "autovacuum_vacuum_scale_factor",
    "autovacuum_vacuum_insert_threshold",
    "autovacuum_vacuum_insert_scale_factor",
    "autovacuum_analyze_threshold",
    "autovacuum_analyze_scale_factor",
    "autovacuum_vacuum_cost_delay",
    "autovacuum_vacuum_cost_limit",
    "autovacuum_freeze_min_age",
    "autovacuum_freeze_max_age",
    "autovacuum_freeze_table_age",
    "autovacuum_multixact_freeze_min_age",
    "autovacuum_multixact_freeze_max_age",
    "autovacuum_multixact_freeze_table_age",
    "log_autovacuum_min_duration",
    "user_catalog_table",
    "toast_tuple_target",
    // Of KilnDB alone.
    super::persistence::RECOVERY,
];
