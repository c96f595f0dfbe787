//! ALTER TABLE through a tree of partitions: what is allowed on a partition by itself, and what the partitions do after
//! their parent.

use super::Definitions;
use super::constraint::NewConstraint;
use super::partition::own_columns;
use super::trigger_clone::firing_mode;
use crate::client::Runtime;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::raw::{AlterTableType as A, ConstrType};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

fn malformed(message: String) -> Error {
    Error::new(sqlstate::INVALID_TABLE_DEFINITION, message)
}

impl Definitions<'_> {
    /// One command on a table and its partitions. `recursing`: the parent's command goes on here.
    pub(super) fn alter_tree(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        only: bool,
        recursing: bool,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if table.partition_of != 0 && !recursing {
            self.refuse_on_partition(table, c, runtime)?;
        }
        if table.kind != TableKind::Partitioned {
            return self.alter_command(table, c, source, runtime);
        }
        self.refuse_on_partitioned(table, c, runtime)?;
        if only && c.subtype == A::AT_AlterConstraint {
            return Err(malformed("constraint must be altered in child tables too".into())
                .with_hint("Do not specify the ONLY keyword."));
        }
        if let (true, A::AT_AddConstraint, Node::Constraint(k)) = (only, c.subtype, c.def())
            && let Some(target) = k.pktable().filter(|_| k.contype == ConstrType::CONSTR_FOREIGN)
        {
            let message = format!(
                "cannot use ONLY for foreign key on partitioned table \"{}\" referencing relation \"{}\"",
                table.name,
                target.relname().unwrap_or("")
            );
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
        }
        let partitions = self.partition_oids(table.oid, runtime)?;
        if only {
            refuse_only_identity(c)?;
        }
        if only && !partitions.is_empty() {
            refuse_only(table, c)?;
        }
        if let (true, A::AT_AddConstraint, Node::Constraint(k)) = (only, c.subtype, c.def())
            && matches!(k.contype, ConstrType::CONSTR_PRIMARY | ConstrType::CONSTR_UNIQUE)
        {
            return self.add_key_only(table, k, runtime);
        }
        // Foreign keys know their parts.
        let of_key = c.subtype == A::AT_ValidateConstraint
            && table.foreign_keys.iter().any(|k| Some(k.name.as_str()) == c.name());
        if !only && !recursing && !of_key && changes_partitions(c) {
            for partition in self.with_partitions(table, runtime)? {
                self.require_table_owner(&partition)?;
            }
        }
        let before = self.context_mut().table_by_oid(table.oid, runtime)?;
        self.alter_command(table, c, source, runtime)?;
        let after = self.context_mut().table_by_oid(table.oid, runtime)?;
        if !only && recurses(c) && !of_key {
            self.alter_below(&partitions, c, source, runtime)?;
        }
        if c.subtype == A::AT_AlterColumnType {
            self.validate_tree_keys(table.oid, c.name().unwrap_or(""), runtime)?;
        }
        if let (Some((mode, which)), false) = (firing_mode(c.subtype, c.name().unwrap_or("")), only) {
            return self.enable_clones(table, which, mode, runtime);
        }
        match (c.subtype, c.def()) {
            (A::AT_AddConstraint, Node::Constraint(k)) if k.contype == ConstrType::CONSTR_CHECK && !k.is_no_inherit => {
                self.pass_on_checks(&before, &after, runtime)
            }
            (A::AT_AddConstraint, Node::Constraint(k)) if k.contype == ConstrType::CONSTR_FOREIGN => {
                self.pass_on_foreign_keys(&before, &after, &partitions, runtime)
            }
            (A::AT_SetNotNull, _) | (A::AT_AddConstraint, _) => self.pass_on_not_nulls(&after, runtime),
            (A::AT_AddColumn, _) if after.columns.len() > before.columns.len() => {
                self.pass_on_checks(&before, &after, runtime)?;
                self.pass_on_foreign_keys(&before, &after, &partitions, runtime)?;
                self.pass_on_not_nulls(&after, runtime)
            }
            (A::AT_AddIdentity | A::AT_SetIdentity | A::AT_DropIdentity, _) => {
                self.pass_on_identity(&after, c.name().unwrap_or(""), runtime)
            }
            _ => Ok(()),
        }
    }

    fn pass_on_foreign_keys(
        &mut self,
        before: &Table,
        after: &Arc<Table>,
        partitions: &[kilndb_base::Oid],
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for key in after.foreign_keys.iter().filter(|k| !before.foreign_keys.iter().any(|b| b.oid == k.oid)) {
            for partition in partitions {
                self.copy_foreign_key(after, key.oid, *partition, runtime)?;
            }
        }
        Ok(())
    }

    /// Partitions' columns are identity columns as the parent's is, and draw from its sequence.
    fn pass_on_identity(&mut self, parent: &Table, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let identity = super::alter_table::column_of(parent, name)?.identity;
        for partition in self.partition_oids(parent.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
            let column = super::alter_table::column_of(&child, name)?;
            if identity != 0 && column.identity == 0 && column.default_sql.is_some() {
                return Err(Error::new(
                    sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE,
                    format!("column \"{name}\" of relation \"{}\" already has a default value", child.name),
                ));
            }
            self.update_attribute(child.oid, column.attnum, runtime, |row| {
                row.set("attidentity", Datum::Char(identity))
            })?;
            if child.kind == TableKind::Partitioned {
                let child = self.context_mut().table_by_oid(child.oid, runtime)?;
                self.pass_on_identity(&child, name, runtime)?;
            }
        }
        Ok(())
    }

    /// ADD COLUMN in the partitions, once their parent has the column.
    pub(super) fn add_column_below(
        &mut self,
        parent: &Table,
        column: &super::create_table::NewColumn,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for partition in self.partition_oids(parent.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            let child = self.lock_part_online(&child, LockMode::AccessExclusive, runtime)?;
            if child.columns.iter().any(|k| !k.dropped && k.name == column.name) {
                return Err(Error::new(
                    sqlstate::DUPLICATE_COLUMN,
                    format!("column \"{}\" of relation \"{}\" already exists", column.name, child.name),
                ));
            }
            let attnum = self.attach_column(&child, column, true, runtime)?;
            self.update_attribute(child.oid, attnum, runtime, |row| {
                row.set("attislocal", Datum::Bool(false));
                row.set("attinhcount", Datum::Int2(1));
            })?;
            if child.kind == TableKind::Partitioned {
                self.add_column_below(&child, column, runtime)?;
            }
        }
        Ok(())
    }

    fn alter_below(
        &mut self,
        partitions: &[kilndb_base::Oid],
        c: &nodes::AlterTableCmd,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for partition in partitions {
            let child = self.context_mut().table_by_oid(*partition, runtime)?;
            let child = self.lock_part_online(&child, LockMode::AccessExclusive, runtime)?;
            self.alter_tree(&child, c, false, true, source, runtime)?;
        }
        Ok(())
    }

    /// New checks of a partitioned table, whose rows have been looked at already.
    fn pass_on_checks(&mut self, before: &Table, after: &Table, runtime: &dyn Runtime) -> Result<()> {
        for check in after.checks.iter().filter(|k| !before.checks.iter().any(|b| b.oid == k.oid)) {
            self.pass_on_check(after, check, runtime)?;
        }
        Ok(())
    }

    fn pass_on_check(
        &mut self,
        parent: &Table,
        check: &kilndb_catalog::CheckConstraint,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for partition in self.partition_oids(parent.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
            match child.checks.iter().find(|k| k.name == check.name) {
                Some(own) if own.sql == check.sql => {
                    let conflict = |what: &str| {
                        let message = format!(
                            "constraint \"{}\" conflicts with {what} constraint on relation \"{}\"",
                            own.name, child.name
                        );
                        Err(Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message))
                    };
                    if check.validated && own.enforced && !own.validated {
                        return conflict("NOT VALID");
                    }
                    if check.enforced && !own.enforced {
                        return conflict("NOT ENFORCED");
                    }
                    let count = own.inherited + 1;
                    self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, own.oid, runtime, |row| {
                        row.set("coninhcount", Datum::Int2(count));
                        row.set("conislocal", Datum::Bool(false));
                    })?;
                }
                Some(own) => {
                    return Err(Error::new(
                        sqlstate::DUPLICATE_OBJECT,
                        format!("constraint \"{}\" for relation \"{}\" already exists", own.name, child.name),
                    ));
                }
                None => {
                    let mut new = NewConstraint::inherited(&check.name, b'c', &child, &[], check.validated);
                    new.expression = Some(&check.sql);
                    new.enforced = check.enforced;
                    self.insert_constraint(&new, runtime)?;
                    let checks = child.checks.len() as i16 + 1;
                    self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, child.oid, runtime, |row| {
                        row.set("relchecks", Datum::Int2(checks))
                    })?;
                }
            }
            if child.kind == TableKind::Partitioned {
                let child = self.context_mut().table_by_oid(child.oid, runtime)?;
                if let Some(own) = child.checks.iter().find(|k| k.name == check.name).cloned() {
                    self.pass_on_check(&child, &own, runtime)?;
                }
            }
        }
        Ok(())
    }

    /// Not-null constraints that a partitioned table has and its partitions do not.
    pub(super) fn pass_on_not_nulls(&mut self, parent: &Table, runtime: &dyn Runtime) -> Result<()> {
        for row in
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONRELID_INDEX, &[Datum::Oid(parent.oid)])?
        {
            if row.char("contype") != b'n' {
                continue;
            }
            for partition in self.partition_oids(parent.oid, runtime)? {
                let child = self.context_mut().table_by_oid(partition, runtime)?;
                let own = own_columns(parent, &child, &row.numbers("conkey"));
                let Some(attnum) = own.first().copied() else { continue };
                match self.not_null_row(&child, attnum)? {
                    Some(known) if known.int("coninhcount") == 0 => {
                        self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, known.oid("oid"), runtime, |row| {
                            row.set("coninhcount", Datum::Int2(1))
                        })?;
                    }
                    Some(_) => {}
                    None => {
                        self.update_attribute(child.oid, attnum, runtime, |row| {
                            row.set("attnotnull", Datum::Bool(true))
                        })?;
                        let name = row.text("conname").unwrap_or("");
                        self.insert_constraint(
                            &NewConstraint::inherited(name, b'n', &child, &[attnum], row.bool("convalidated")),
                            runtime,
                        )?;
                    }
                }
            }
        }
        for partition in self.partition_oids(parent.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            if child.kind == TableKind::Partitioned {
                self.pass_on_not_nulls(&child, runtime)?;
            }
        }
        Ok(())
    }

    /// The partitions' parts of a constraint that goes.
    pub(super) fn drop_inherited(
        &mut self,
        parent: &Table,
        row: &kilndb_catalog::catalog_row::CatalogRow,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for partition in self.partition_oids(parent.oid, runtime)? {
            let child = self.context_mut().table_by_oid(partition, runtime)?;
            let child = self.lock_for_ddl(&child, LockMode::AccessExclusive, runtime)?;
            let own = self.context_mut().catalog_lookup(
                PG_CONSTRAINT,
                PG_CONSTRAINT_CONRELID_INDEX,
                &[Datum::Oid(child.oid)],
            )?;
            let columns: Vec<i64> =
                own_columns(parent, &child, &row.numbers("conkey")).iter().map(|n| i64::from(*n)).collect();
            let found = own.iter().find(|r| {
                r.char("contype") == row.char("contype")
                    && match row.char("contype") {
                        b'f' => r.oid("conparentid") == row.oid("oid"),
                        b'n' => r.numbers("conkey") == columns,
                        _ => r.text("conname") == row.text("conname"),
                    }
            });
            let Some(found) = found else { continue };
            if found.bool("conislocal") {
                self.update_row(PG_CONSTRAINT, PG_CONSTRAINT_OID_INDEX, found.oid("oid"), runtime, |row| {
                    row.set("coninhcount", Datum::Int2(0))
                })?;
                continue;
            }
            if child.kind == TableKind::Partitioned {
                self.drop_inherited(&child, found, runtime)?;
            }
            if found.char("contype") == b'n' {
                self.release_not_null(&child, found, runtime)?;
            }
            self.delete_constraint(found.oid("oid"), runtime)?;
        }
        Ok(())
    }

    /// What the parent alone may decide.
    fn refuse_on_partition(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let name = c.name().unwrap_or("");
        let exists = table.columns.iter().any(|k| !k.dropped && k.name == name);
        match c.subtype {
            A::AT_AddColumn => Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, "cannot add column to a partition")),
            A::AT_DropColumn if exists => Err(malformed(format!("cannot drop inherited column \"{name}\""))),
            A::AT_AlterColumnType if exists => Err(malformed(format!("cannot alter inherited column \"{name}\""))),
            A::AT_AddIdentity | A::AT_SetIdentity | A::AT_DropIdentity => Err(malformed(match c.subtype {
                A::AT_AddIdentity => "cannot add identity to a column of a partition".into(),
                A::AT_SetIdentity => "cannot change identity column of a partition".into(),
                _ => "cannot drop identity from a column of a partition".into(),
            })),
            A::AT_DropNotNull if exists => {
                let parent = self.context_mut().table_by_oid(table.partition_of, runtime)?;
                if parent.columns.iter().any(|k| !k.dropped && k.name == name && k.not_null) {
                    return Err(malformed(format!("column \"{name}\" is marked NOT NULL in parent table")));
                }
                Ok(())
            }
            A::AT_DropConstraint => {
                let rows = self.context_mut().catalog_lookup(
                    PG_CONSTRAINT,
                    PG_CONSTRAINT_CONRELID_INDEX,
                    &[Datum::Oid(table.oid)],
                )?;
                match rows.iter().find(|r| r.text("conname") == Some(name)) {
                    Some(row) if row.int("coninhcount") > 0 => Err(malformed(format!(
                        "cannot drop inherited constraint \"{name}\" of relation \"{}\"",
                        table.name
                    ))),
                    _ => Ok(()),
                }
            }
            _ => Ok(()),
        }
    }

    fn refuse_on_partitioned(&mut self, table: &Table, c: &nodes::AlterTableCmd, _runtime: &dyn Runtime) -> Result<()> {
        let name = c.name().unwrap_or("");
        let column = table.columns.iter().find(|k| !k.dropped && k.name == name);
        let column = column.filter(|_| matches!(c.subtype, A::AT_DropColumn | A::AT_AlterColumnType));
        let in_key = match (column, table.partition_key.as_ref()) {
            (Some(column), Some(key)) => key.uses(column.attnum) || self.is_in_key_expression(table, column.attnum)?,
            _ => false,
        };
        match c.subtype {
            A::AT_DropColumn if in_key => Err(malformed(format!(
                "cannot drop column \"{name}\" because it is part of the partition key of relation \"{}\"",
                table.name
            ))),
            A::AT_AlterColumnType if in_key => Err(malformed(format!(
                "cannot alter column \"{name}\" because it is part of the partition key of relation \"{}\"",
                table.name
            ))),
            A::AT_SetLogged | A::AT_SetUnLogged => {
                let word = if c.subtype == A::AT_SetLogged { "LOGGED" } else { "UNLOGGED" };
                Err(Error::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("ALTER action SET {word} cannot be performed on relation \"{}\"", table.name),
                )
                .with_detail("This operation is not supported for partitioned tables."))
            }
            A::AT_SetRelOptions => Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                "cannot specify storage parameters for a partitioned table",
            )
            .with_hint("Specify storage parameters for its leaf partitions instead.")),
            _ => Ok(()),
        }
    }
}

fn refuse_only(table: &Table, c: &nodes::AlterTableCmd) -> Result<()> {
    let name = c.name().unwrap_or("");
    // Their parts go with them in any case.
    let is_key = table.indexes.iter().any(|i| i.is_constraint && i.name == name)
        || table.foreign_keys.iter().any(|k| k.name == name);
    match (c.subtype, c.def()) {
        (A::AT_DropConstraint, _) if is_key => Ok(()),
        (A::AT_AddColumn, _) => Err(malformed("column must be added to child tables too".into())),
        (A::AT_AlterColumnType, _) => Err(malformed(format!(
            "type of inherited column \"{}\" must be changed in child tables too",
            c.name().unwrap_or("")
        ))),
        (A::AT_DropColumn, _) => {
            Err(malformed("cannot drop column from only the partitioned table when partitions exist".into())
                .with_hint("Do not specify the ONLY keyword."))
        }
        (A::AT_AddConstraint, Node::Constraint(k)) if k.contype == ConstrType::CONSTR_CHECK && !k.is_no_inherit => {
            Err(malformed("constraint must be added to child tables too".into()))
        }
        (A::AT_SetNotNull, _) => Err(malformed("constraint must be added to child tables too".into())
            .with_hint("Do not specify the ONLY keyword.")),
        (A::AT_DropConstraint | A::AT_DropNotNull, _) => {
            Err(malformed("cannot remove constraint from only the partitioned table when partitions exist".into())
                .with_hint("Do not specify the ONLY keyword."))
        }
        _ => Ok(()),
    }
}

fn refuse_only_identity(c: &nodes::AlterTableCmd) -> Result<()> {
    let message = match c.subtype {
        A::AT_AddIdentity => "cannot add identity to a column of only the partitioned table",
        A::AT_SetIdentity => "cannot change identity column of only the partitioned table",
        A::AT_DropIdentity => "cannot drop identity from a column of only the partitioned table",
        _ => return Ok(()),
    };
    Err(malformed(message.into()).with_hint("Do not specify the ONLY keyword."))
}

/// Does a command change the partitions too, whose owners must be asked then?
fn changes_partitions(c: &nodes::AlterTableCmd) -> bool {
    match (c.subtype, c.def()) {
        (A::AT_AddColumn | A::AT_DropColumn | A::AT_DropConstraint | A::AT_SetNotNull, _) => true,
        (A::AT_AddIdentity | A::AT_SetIdentity | A::AT_DropIdentity, _) => true,
        (A::AT_ValidateConstraint, _) => false,
        (A::AT_AddConstraint, Node::Constraint(k)) => {
            matches!(k.contype, ConstrType::CONSTR_CHECK | ConstrType::CONSTR_NOTNULL) && !k.is_no_inherit
        }
        _ => recurses(c),
    }
}

/// Commands that the partitions carry out as they stand.
fn recurses(c: &nodes::AlterTableCmd) -> bool {
    matches!(
        c.subtype,
        A::AT_AlterColumnType
            | A::AT_ColumnDefault
            | A::AT_DropNotNull
            | A::AT_SetStatistics
            | A::AT_SetStorage
            | A::AT_ValidateConstraint
    )
}
