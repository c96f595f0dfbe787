//! ALTER TABLE.

use super::add_column::definition_of;
use super::constraint::key_pair;
use super::persistence::{LOGGED, UNLOGGED};
use super::{Definitions, table_rewrite};
use crate::client::Runtime;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::array;
use kilndb_catalog::{Table, TableKind};
use kilndb_storage::LockMode;
use kilndb_syntax::raw::{AlterTableType as A, DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// ALTER MATERIALIZED VIEW of something else.
pub(super) fn refuse_plain(kind: O::Type, table: &Table) -> Result<()> {
    if kind == O::OBJECT_MATVIEW && table.kind != TableKind::Materialized {
        let message = format!("\"{}\" is not a materialized view", table.name);
        return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
    }
    Ok(())
}

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
        if s.objtype == O::OBJECT_TABLE && table.kind == TableKind::Composite {
            let message = format!("\"{}\" is a composite type", table.name);
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message).with_hint("Use ALTER TYPE instead."));
        }
        refuse_plain(s.objtype, &table)?;
        // Attaching, and detaching concurrently, let others go on with the table.
        match super::partition_detach::lock_for_partitions(s) {
            Some(mode) => self.lock_for_ddl(&table, mode, runtime)?,
            None if super::online::is_long_for_tree(s) => {
                self.lock_tree_online(&table, LockMode::AccessExclusive, runtime)?
            }
            None if super::online::is_long(s) || table_rewrite::may_be_online(s) => {
                self.lock_online(&table, LockMode::AccessExclusive, runtime)?
            }
            None => self.lock_for_ddl(&table, lock_of(s), runtime)?,
        };
        let parts = table_rewrite::parts_in_order(s);
        let rewrites_once = table.kind == TableKind::Table && parts.len() > 1;
        let mut parts = parts.into_iter().peekable();
        let alter = |this: &mut Self, c: &nodes::AlterTableCmd| -> Result<()> {
            let now = this.context_mut().table_by_oid(table.oid, runtime)?;
            if matches!(c.subtype, A::AT_SetLogged | A::AT_SetUnLogged) && now.persistence != table.persistence {
                return Err(Error::unsupported("cannot change persistence setting twice"));
            }
            this.alter_tree(&now, c, super::partition::says_only(r), false, source, runtime)
        };
        while let Some(c) = parts.next_if(|c| table_rewrite::is_drop(c)) {
            alter(self, c)?;
        }
        if rewrites_once && parts.peek().is_some_and(|c| table_rewrite::is_of_column(c)) {
            self.begin_rewrite(table.oid, runtime)?;
            let mut of_columns = Vec::new();
            while let Some(c) = parts.next_if(|c| table_rewrite::is_of_column(c)) {
                alter(self, c)?;
                of_columns.push(c);
            }
            for column in self.finish_rewrite(runtime)? {
                let definition = of_columns.iter().find_map(|c| definition_of(c, &column.name));
                let definition = definition.ok_or_else(|| Error::internal("a new column without a definition"))?;
                self.constrain_column(table.oid, &column, definition, source, runtime)?;
            }
        }
        parts.try_for_each(|c| alter(self, c))?;
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
        if table.kind == TableKind::Materialized {
            super::materialized_view::refuse_alter(table, c)?;
        }
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
                let role = c.newowner().ok_or_else(|| Error::internal("OWNER TO without a role"))?;
                let owner = self.role_by_spec(role)?.oid;
                self.give_relation(table, owner, runtime)
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
            A::AT_EnableRowSecurity | A::AT_DisableRowSecurity | A::AT_ForceRowSecurity | A::AT_NoForceRowSecurity => {
                self.switch_row_security(table, c.subtype, runtime)
            }
            A::AT_AddInherit | A::AT_DropInherit => Err(Error::unsupported("table inheritance is not supported")),
            _ => Err(Error::unsupported("this form of ALTER TABLE is not supported")),
        }
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
            TableKind::View => {
                let options = super::view::view_options(list)?;
                self.require_check_option(&options, table.view_sql.as_deref().unwrap_or_default(), runtime)?;
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
