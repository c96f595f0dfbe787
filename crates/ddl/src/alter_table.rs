//! ALTER TABLE.

use super::Definitions;
use super::constraint::key_pair;
use super::persistence::{LOGGED, UNLOGGED};
use super::sequence::ColumnTable;
use crate::client::Runtime;
use crate::host::NullSink;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_bind::engine_query::{ColumnChange, FillColumn, FillValue, RowCondition, ValueQuery, ValueSource};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::raw::{AlterTableType as A, DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

impl Definitions<'_> {
    pub fn alter_table(
        &mut self,
        s: &nodes::AlterTableStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let word = super::object_word(s.objtype);
        let tag = format!("ALTER {}", word.to_uppercase());
        let r = s.relation().ok_or_else(|| Error::internal("ALTER TABLE without a table"))?;
        let Some(table) = self.relation_if_any(r, s.missing_ok, runtime)? else { return Ok(tag) };
        if s.objtype == O::OBJECT_TABLE && table.kind == TableKind::Index {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a table", table.name)));
        }
        // Attaching, and detaching concurrently, let others go on with the table.
        match super::partition_detach::lock_for_partitions(s) {
            Some(mode) => self.lock_for_ddl(&table, mode, runtime)?,
            None if super::online::is_long(s) => self.lock_online(&table, LockMode::AccessExclusive, runtime)?,
            None => self.lock_for_ddl(&table, lock_of(s), runtime)?,
        };
        if super::alter_type::has_several_types(s) {
            self.begin_type_rewrite(table.oid, runtime)?;
        }
        for node in s.cmds() {
            let Node::AlterTableCmd(c) = node else { continue };
            let now = self.context_mut().table_by_oid(table.oid, runtime)?;
            if matches!(c.subtype, A::AT_SetLogged | A::AT_SetUnLogged) && now.persistence != table.persistence {
                return Err(Error::unsupported("cannot change persistence setting twice"));
            }
            self.alter_tree(&now, c, super::partition::says_only(r), false, source, runtime)?;
        }
        self.finish_type_rewrite(runtime)?;
        Ok(tag)
    }

    pub(super) fn alter_command(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let name = c.name().unwrap_or("");
        match c.subtype {
            A::AT_AddColumn => self.add_column(table, c, source, runtime),
            A::AT_DropColumn => {
                self.drop_column(table, name, c.behavior == DropBehavior::DROP_CASCADE, c.missing_ok, runtime)
            }
            A::AT_ColumnDefault => self.alter_default(table, name, c.def(), runtime),
            A::AT_SetNotNull => {
                let attnum = column_of(table, name)?.attnum;
                self.set_not_null(table, &[attnum], runtime)
            }
            A::AT_DropNotNull => self.drop_not_null(table, name, runtime),
            A::AT_AlterColumnType => self.alter_type(table, c, source, runtime),
            A::AT_AddConstraint => match c.def() {
                Node::Constraint(constraint)
                    if constraint.contype == kilndb_syntax::raw::ConstrType::CONSTR_NOTNULL =>
                {
                    self.add_not_null_constraint(table, constraint, runtime)
                }
                Node::Constraint(constraint) => self.add_constraint(table.oid, constraint, None, &[], source, runtime),
                _ => Err(Error::internal("ADD CONSTRAINT without a constraint")),
            },
            A::AT_DropConstraint => {
                self.drop_constraint(table, name, c.behavior == DropBehavior::DROP_CASCADE, c.missing_ok, runtime)
            }
            A::AT_AlterConstraint => match c.def() {
                Node::ATAlterConstraint(a) => self.alter_constraint(table, a, runtime),
                _ => Err(Error::internal("ALTER CONSTRAINT without a constraint")),
            },
            A::AT_ValidateConstraint => self.validate_constraint(table, name, runtime),
            A::AT_SetRelOptions | A::AT_ResetRelOptions => self.alter_options(table, c, runtime),
            A::AT_SetStatistics => self.set_statistics_target(table, c, runtime),
            A::AT_SetStorage => self.set_column_storage(table, name, c.def(), runtime),
            A::AT_SetCompression => self.set_column_compression(table, name, c.def(), runtime),
            A::AT_SetOptions | A::AT_ResetOptions => self.set_column_options(table, name, c, runtime),
            A::AT_ChangeOwner => {
                let owner = self.role_oid(
                    c.newowner().and_then(|r| r.rolename()).unwrap_or(&self.context().identity.role_name.clone()),
                )?;
                self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
                    row.set("relowner", Datum::Oid(owner))
                })
            }
            A::AT_ClusterOn => self.mark_clustered(table, Some(name), runtime),
            A::AT_DropCluster => self.mark_clustered(table, None, runtime),
            A::AT_ReplicaIdentity => match c.def() {
                Node::ReplicaIdentityStmt(s) => self.set_replica_identity(table, s, runtime),
                _ => Err(Error::internal("REPLICA IDENTITY without an identity")),
            },
            A::AT_SetAccessMethod | A::AT_DropOids => {
                Err(Error::unsupported("this form of ALTER TABLE is not supported"))
            }
            A::AT_SetTableSpace => Err(Error::unsupported("tablespaces are not supported")),
            A::AT_SetLogged => self.set_persistence(table, LOGGED, runtime),
            A::AT_SetUnLogged => self.set_persistence(table, UNLOGGED, runtime),
            A::AT_AddIdentity => self.add_identity(table, name, c.def(), source, runtime),
            A::AT_SetIdentity => self.set_identity(table, name, c.def(), source, runtime),
            A::AT_DropIdentity => self.drop_identity(table, name, c.missing_ok, runtime),
            A::AT_AttachPartition | A::AT_DetachPartition => match c.def() {
                Node::PartitionCmd(p) if c.subtype == A::AT_AttachPartition => {
                    self.attach_partition(table, p, source, runtime)
                }
                Node::PartitionCmd(p) => self.detach_partition(table, p, runtime),
                _ => Err(Error::internal("ATTACH or DETACH without a partition")),
            },
            A::AT_DetachPartitionFinalize => match c.def() {
                Node::PartitionCmd(p) => self.finalize_detach(table, p, runtime),
                _ => Err(Error::internal("DETACH without a partition")),
            },
            subtype if let Some((mode, which)) = super::trigger_clone::firing_mode(subtype, name) => {
                self.enable_trigger(table, which, mode, runtime)
            }
            A::AT_AddInherit | A::AT_DropInherit => Err(Error::unsupported("table inheritance is not supported")),
            _ => Err(Error::unsupported("this form of ALTER TABLE is not supported")),
        }
    }

    fn add_column(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let Node::ColumnDef(definition) = c.def() else { return Err(Error::internal("ADD COLUMN without a column")) };
        let name = definition.colname().unwrap_or("");
        if table.columns.iter().any(|k| !k.dropped && k.name == name) {
            let message = format!("column \"{name}\" of relation \"{}\" already exists", table.name);
            if c.missing_ok {
                self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                    sqlstate::DUPLICATE_COLUMN,
                    Severity::Notice,
                    format!("{message}, skipping"),
                ));
                return Ok(());
            }
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, message));
        }
        let mut column = self.new_column(definition, ColumnTable::of(table), source, runtime)?;
        let is_primary = definition
            .constraints()
            .iter()
            .any(|k| matches!(k, Node::Constraint(k) if k.contype == kilndb_syntax::raw::ConstrType::CONSTR_PRIMARY));
        column.not_null |= is_primary;
        self.refuse_inner_self(table.type_oid, column.type_oid, 0, runtime)?;
        let not_null = column.not_null;
        let attnum = self.attach_column(table, &column, false, runtime)?;
        if table.kind == TableKind::Partitioned {
            self.add_column_below(table, &column, runtime)?;
        }
        let table = self.context_mut().table_by_oid(table.oid, runtime)?;
        if not_null {
            self.add_not_null(&table, attnum, &column.not_null_clause, runtime)?;
        }
        let mut all: Vec<&nodes::Constraint> = Vec::new();
        for constraint in definition.constraints() {
            if let Node::Constraint(k) = constraint {
                all.push(k);
            }
        }
        for k in &all {
            if k.contype == kilndb_syntax::raw::ConstrType::CONSTR_FOREIGN {
                // References are compared with the rows of another table, which would have to be followed too.
                self.finish_online(runtime)?;
            }
            self.add_constraint(table.oid, k, Some(&column.name), &all, source, runtime)?;
        }
        Ok(())
    }

    /// The column itself, and its values in the rows that there are. `is_part`: of a partition, which draws from its
    /// parent's sequence.
    pub(super) fn attach_column(
        &mut self,
        table: &Arc<Table>,
        column: &super::create_table::NewColumn,
        is_part: bool,
        runtime: &dyn Runtime,
    ) -> Result<i16> {
        let mut column = column.clone();
        let attnum = table.columns.len() as i16 + 1;
        let storage = self.type_storage(column.type_oid, runtime)?;
        // NOT NULL is checked once the existing rows have their value; as an identity it could not be given one.
        column.not_null = false;
        let identity = std::mem::take(&mut column.identity);
        // Beside others rows may come at any time, until the lock is there.
        let needs_lock = self.is_online(table) && !self.is_filled_row_by_row(&column, identity, runtime)?;
        if needs_lock {
            self.finish_online(runtime)?;
        }
        let has_rows = self.is_online(table)
            || !matches!(table.kind, TableKind::Partitioned | TableKind::Composite)
                && self.table_with_row(table, RowCondition::All, runtime)?.is_some();
        let has_domain = self.type_info(column.type_oid, runtime)?.kind == b'd';
        if table.kind == TableKind::Table && self.has_own_value(&column, identity, runtime)? {
            self.refuse_stored_rows(table, runtime)?;
        }
        let constant = match &column.default_sql {
            Some(sql) if has_rows && column.generated == 0 && identity == 0 && column.sequence.is_none() => {
                self.constant_default(sql, column.type_oid, column.typmod, runtime)?
            }
            _ => None,
        };
        self.write_catalog(runtime, |w| {
            super::create_table::insert_attributes(w, table.oid, attnum, std::slice::from_ref(&column), &[storage])
        })?;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("relnatts", Datum::Int2(attnum))
        })?;
        if let Some(sql) = column.default_sql.as_ref().filter(|_| !super::default::says_nothing(&column)) {
            self.insert_default(table.oid, attnum, sql, runtime)?;
        }
        if let (Some(sequence), false) = (column.sequence, is_part) {
            let kind = if identity != 0 { b'i' } else { b'a' };
            self.tie_sequence(sequence, ObjectAddress::column(table.oid, attnum), kind, runtime)?;
            self.keep_with_table(sequence, table.oid, runtime)?;
        }
        if let Some(value) = constant {
            let value = self.context_mut().with_catalog(runtime, |host| {
                let shape = host.reader.stored_shape(column.type_oid, &mut Vec::new())?;
                Ok(shape.map_or(value.clone(), |shape| shape.written(value)))
            })?;
            let missing = array(column.type_oid, vec![value]);
            self.update_attribute(table.oid, attnum, runtime, |row| {
                row.set("atthasmissing", Datum::Bool(true));
                row.set("attmissingval", missing);
            })?;
        } else if has_rows && (column.default_sql.is_some() || column.sequence.is_some() || has_domain) {
            let value = match (column.generated, identity, column.sequence) {
                (0, identity, Some(sequence)) if identity != 0 => FillValue::Sequence(sequence),
                _ => FillValue::Default,
            };
            if self.is_online(table) {
                self.move_rows_with(table, (&[ColumnChange::Added { attnum, value }], &[]), runtime)?;
            } else {
                let table = self.context_mut().table_by_oid(table.oid, runtime)?;
                self.rows_into(&FillColumn { table: &table, attnum, value }, runtime, &mut NullSink)?;
            }
        }
        if identity != 0 {
            self.update_attribute(table.oid, attnum, runtime, |row| row.set("attidentity", Datum::Char(identity)))?;
        }
        self.follow_row_type(table.oid, runtime)?;
        Ok(attnum)
    }

    /// Whether each row gets a value of its own for a new column, so that all are written anew.
    fn is_filled_row_by_row(
        &mut self,
        column: &super::create_table::NewColumn,
        identity: u8,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        if column.generated != 0 || identity != 0 || column.sequence.is_some() {
            return Ok(true);
        }
        match &column.default_sql {
            Some(sql) => self.is_volatile(sql, (column.type_oid, column.typmod), runtime),
            None => Ok(false),
        }
    }

    fn is_volatile(&mut self, sql: &str, ty: (u32, i32), runtime: &dyn Runtime) -> Result<bool> {
        self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::bind_expression(sql, None, &host.reader, Some(ty))?;
            Ok(bound.expr.is_volatile())
        })
    }

    /// Whether rows get another value than NULL for a new column, or one that its domain must be asked about.
    fn has_own_value(
        &mut self,
        column: &super::create_table::NewColumn,
        identity: u8,
        runtime: &dyn Runtime,
    ) -> Result<bool> {
        if column.generated != 0 || identity != 0 || column.sequence.is_some() {
            return Ok(true);
        }
        if column.default_sql.is_some() {
            return Ok(!super::default::says_nothing(column));
        }
        let mut info = self.type_info(column.type_oid, runtime)?;
        while let Some(domain) = info.domain.clone() {
            if domain.not_null || domain.default_sql.is_some() || !domain.checks.is_empty() {
                return Ok(true);
            }
            info = self.type_info(info.base_type, runtime)?;
        }
        Ok(false)
    }

    /// The value of a default that is the same for every row; None if it must be computed for each.
    fn constant_default(
        &mut self,
        sql: &str,
        type_oid: u32,
        typmod: i32,
        runtime: &dyn Runtime,
    ) -> Result<Option<Datum>> {
        if self.is_volatile(sql, (type_oid, typmod), runtime)? {
            return Ok(None);
        }
        let mismatch = |from: &str| Error::internal(format!("a default of type {from}"));
        let query = ValueQuery { source: ValueSource::Kept(sql), ty: (type_oid, typmod), mismatch: &mismatch };
        Ok(Some(self.value_of(&query, runtime)?).filter(|value| !value.is_null()))
    }

    fn drop_constraint(
        &mut self,
        table: &Arc<Table>,
        name: &str,
        cascade: bool,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        let Some(row) = rows.iter().find(|r| r.text("conname") == Some(name)) else {
            let message = format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name);
            if missing_ok {
                self.context().notice(Severity::Notice, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(sqlstate::UNDEFINED_OBJECT, message));
        };
        if table.kind == TableKind::Partitioned && b"cn".contains(&row.char("contype")) {
            self.drop_inherited(table, row, runtime)?;
        }
        if row.char("contype") == b'n' {
            self.release_not_null(table, row, runtime)?;
        }
        self.delete_objects(&[ObjectAddress::object(PG_CONSTRAINT, row.oid("oid"))], cascade, runtime)
    }

    fn validate_constraint(&mut self, table: &Arc<Table>, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let not_enforced =
            || Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, "cannot validate NOT ENFORCED constraint");
        if let Some(check) = table.checks.iter().find(|c| c.name == name) {
            if !check.enforced {
                return Err(not_enforced());
            }
            self.validate_check(table, name, &check.sql.clone(), runtime)?;
            return self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, check.oid, runtime, |row| {
                row.set("convalidated", Datum::Bool(true))
            });
        }
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(table.oid)])?;
        if let Some(row) = rows.iter().find(|r| r.text("conname") == Some(name) && r.char("contype") == b'n') {
            return self.validate_not_null(table, row, runtime);
        }
        let key = table.foreign_keys.iter().find(|k| k.name == name).cloned().ok_or_else(|| {
            Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" of relation \"{}\" does not exist", table.name),
            )
        })?;
        if !key.enforced {
            return Err(not_enforced());
        }
        let target = self.context_mut().table_by_oid(key.referenced_table, runtime)?;
        self.validate_foreign_key(key_pair(&key, table, &target), name, runtime)?;
        self.mark_key_valid(key.oid, runtime)
    }

    fn alter_options(&mut self, table: &Arc<Table>, c: &nodes::AlterTableCmd, runtime: &dyn Runtime) -> Result<()> {
        let Node::NodeList(list) = c.def() else { return Ok(()) };
        let names: Vec<String> = list
            .iter()
            .filter_map(|n| if let Node::DefElem(d) = n { d.defname().map(str::to_string) } else { None })
            .collect();
        let reset = c.subtype == A::AT_ResetRelOptions;
        // What is taken back need not be known.
        let changed = match table.kind {
            _ if reset => Vec::new(),
            TableKind::Index => {
                let rows = self.context_mut().catalog_lookup(PG_CLASS, PG_CLASS_OID_INDEX, &[Datum::Oid(table.oid)])?;
                let options = self.index_options(list)?;
                super::index_class::check_options(rows.first().map_or(0, |row| row.oid("relam")), &options)?;
                options
            }
            _ => self.storage_options(list)?,
        };
        if reset && list.iter().any(|n| matches!(n, Node::DefElem(d) if !matches!(d.arg(), Node::None))) {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "RESET must not include values for parameters"));
        }
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            let mut options: Vec<String> = row
                .texts("reloptions")
                .into_iter()
                .filter(|o| !names.iter().any(|n| o.split('=').next() == Some(n)))
                .collect();
            options.extend(changed);
            let value = if options.is_empty() {
                Datum::Null
            } else {
                array(oids::TEXT, options.iter().map(Datum::text).collect())
            };
            row.set("reloptions", value);
        })?;
        let now = self.context_mut().table_by_oid(table.oid, runtime)?;
        self.follow_recovery(&now, runtime)
    }
}

/// The lock that a command's parts need: VALIDATE looks at rows that are checked when they are written, a foreign key and
/// triggers are nothing to those who only read.
fn lock_of(s: &nodes::AlterTableStmt) -> LockMode {
    let of_part = |node: Node<'_>| match node {
        Node::AlterTableCmd(c) => match (c.subtype, c.def()) {
            (A::AT_ValidateConstraint, _) => LockMode::ShareUpdateExclusive,
            (
                A::AT_EnableTrig
                | A::AT_EnableAlwaysTrig
                | A::AT_EnableReplicaTrig
                | A::AT_EnableTrigAll
                | A::AT_EnableTrigUser
                | A::AT_DisableTrig
                | A::AT_DisableTrigAll
                | A::AT_DisableTrigUser,
                _,
            ) => LockMode::ShareRowExclusive,
            (A::AT_AddConstraint, Node::Constraint(constraint))
                if constraint.contype == kilndb_syntax::raw::ConstrType::CONSTR_FOREIGN =>
            {
                LockMode::ShareRowExclusive
            }
            _ => LockMode::AccessExclusive,
        },
        _ => LockMode::AccessExclusive,
    };
    s.cmds().iter().map(of_part).max().unwrap_or(LockMode::AccessExclusive)
}

pub(super) fn column_of<'t>(table: &'t Table, name: &str) -> Result<&'t kilndb_catalog::Column> {
    table.columns.iter().find(|c| !c.dropped && c.name == name).ok_or_else(|| {
        Error::new(
            sqlstate::UNDEFINED_COLUMN,
            format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
        )
    })
}
