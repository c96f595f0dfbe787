//! CREATE DATABASE, DROP DATABASE.

use super::Definitions;
use crate::client::{BackendKind, Runtime, SessionControl};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::bootstrap;
use kilndb_catalog::ids::*;
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;

impl Definitions<'_> {
    pub fn create_database(&mut self, s: &nodes::CreatedbStmt, runtime: &dyn Runtime) -> Result<()> {
        let name = s.dbname().unwrap_or("").to_string();
        let mut template = "template1".to_string();
        let mut owner = self.context().identity.current_role;
        let (mut connection_limit, mut allow_connections, mut is_template) = (-1, true, false);
        for option in s.options() {
            let text = option_text(option.arg());
            match option.defname().unwrap_or("") {
                "template" => {
                    if let Some(text) = text {
                        template = text;
                    }
                }
                "owner" => {
                    if let Some(text) = text {
                        owner = self.role_oid(&text)?;
                    }
                }
                "encoding" => {
                    if let Some(text) = text
                        && !matches!(text.to_ascii_lowercase().as_str(), "utf8" | "utf-8" | "unicode" | "6")
                    {
                        return Err(Error::unsupported(format!("encoding \"{text}\" is not supported: only UTF8 is")));
                    }
                }
                // Collation is C in every database; the names are accepted where they mean that or the default.
                "locale" | "lc_collate" | "lc_ctype" | "locale_provider" | "builtin_locale" | "icu_locale"
                | "icu_rules" | "collation_version" | "tablespace" | "strategy" | "oid" => {}
                "connection_limit" => connection_limit = super::role::connection_limit(option.arg())?,
                name @ ("is_template" | "allow_connections") => {
                    let arg = option.arg();
                    let is_on = matches!(arg, Node::None) || super::vacuum::flag(name, arg)?;
                    if name == "is_template" { is_template = is_on } else { allow_connections = is_on }
                }
                other => return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("option \"{other}\" not recognized"))),
            }
        }
        if self.context().cluster.database_row(&name)?.is_some() {
            return Err(Error::new(sqlstate::DUPLICATE_DATABASE, format!("database \"{name}\" already exists")));
        }
        let source = self.context().cluster.database_row(&template)?;
        let source = source.ok_or_else(|| {
            Error::new(sqlstate::INVALID_CATALOG_NAME, format!("template database \"{template}\" does not exist"))
        })?;
        if !self.context().is_superuser() {
            self.require_set_role(owner)?;
            if !source.bool("datistemplate") && !self.context().owns(source.oid("datdba")) {
                let message = format!("permission denied to copy database \"{template}\"");
                return Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message));
            }
        }
        let oid = self.context().cluster.next_oid()?;
        let map = bootstrap::read_boot_map(&self.context().cluster.engine)?;
        let source = bootstrap::open_store(&self.context().cluster.engine, &map, source.oid("oid"))?;
        let engine = self.context().cluster.engine.clone();
        let context = self.context_mut();
        let txn = context.transaction.txn.as_mut();
        let txn = txn.ok_or_else(|| Error::internal("no transaction to make a database in"))?;
        bootstrap::copy_database(&engine, txn, &source, oid, runtime)?;
        let name = name.as_str();
        let new = bootstrap::NewDatabase { oid, name, owner, allow_connections, is_template, connection_limit };
        self.write_catalog(runtime, |w| bootstrap::insert_database(w, &new))?;
        self.finish_implicit(runtime)
    }

    fn connected_to(&self, database: Oid, kind: BackendKind) -> Vec<Arc<SessionControl>> {
        let is_there = |c: &Arc<SessionControl>| {
            let activity = c.activity.lock().unwrap_or_else(|e| e.into_inner());
            activity.database_oid == database && activity.kind == kind
        };
        self.context().cluster.sessions().all().into_iter().filter(is_there).collect()
    }

    /// ANALYZE by itself holds nobody up: it ends, and is waited for.
    fn end_analysis_of(&self, database: Oid, runtime: &dyn Runtime) -> Result<()> {
        /// Between two looks whether it has ended.
        const PAUSE_NANOS: u64 = 2_000_000;
        loop {
            let analyzing = self.connected_to(database, BackendKind::Autoanalyze);
            if analyzing.is_empty() {
                return Ok(());
            }
            analyzing.iter().for_each(|c| c.request_terminate());
            runtime.park(Some(process_monotonic_nanos() + PAUSE_NANOS))?;
        }
    }

    /// How many sessions of a database are left: those that are about to end, because their client has gone or somebody has ended them,
    /// are given some time.
    fn sessions_that_stay(&self, database: Oid, runtime: &dyn Runtime) -> Result<usize> {
        const PATIENCE_NANOS: u64 = 5_000_000_000;
        const PAUSE_NANOS: u64 = 20_000_000;
        let end = process_monotonic_nanos() + PATIENCE_NANOS;
        loop {
            let number = self.connected_to(database, BackendKind::Client).len();
            if number == 0 || process_monotonic_nanos() >= end {
                return Ok(number);
            }
            runtime.park(Some(process_monotonic_nanos() + PAUSE_NANOS))?;
        }
    }

    pub fn drop_database(&mut self, s: &nodes::DropdbStmt, runtime: &dyn Runtime) -> Result<()> {
        let name = s.dbname().unwrap_or("").to_string();
        let force = s.options().iter().any(|o| matches!(o, Node::DefElem(d) if d.defname() == Some("force")));
        let Some(row) = self.context().cluster.database_row(&name)? else {
            if s.missing_ok {
                self.context().notice(Severity::Notice, format!("database \"{name}\" does not exist, skipping"));
                return Ok(());
            }
            return Err(Error::new(sqlstate::INVALID_CATALOG_NAME, format!("database \"{name}\" does not exist")));
        };
        let oid = row.oid("oid");
        if oid == self.context().database.oid {
            return Err(Error::new(sqlstate::OBJECT_IN_USE, "cannot drop the currently open database"));
        }
        if row.bool("datistemplate") {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, "cannot drop a template database"));
        }
        self.end_analysis_of(oid, runtime)?;
        let connected = self.connected_to(oid, BackendKind::Client);
        if force {
            connected.iter().for_each(|c| c.request_terminate());
        } else if let n @ 1.. = self.sessions_that_stay(oid, runtime)? {
            let detail = if n == 1 {
                "There is 1 other session using the database.".to_string()
            } else {
                format!("There are {n} other sessions using the database.")
            };
            return Err(Error::new(
                sqlstate::OBJECT_IN_USE,
                format!("database \"{name}\" is being accessed by other users"),
            )
            .with_detail(detail));
        }
        let engine = self.context().cluster.engine.clone();
        let map = bootstrap::read_boot_map(&engine)?;
        let store = bootstrap::open_store(&engine, &map, oid)?;
        let snapshot = self.context_mut().catalog_snapshot()?;
        let classes = store.scan(PG_CLASS, &snapshot)?;
        let txn = self
            .context_mut()
            .transaction
            .txn
            .as_mut()
            .ok_or_else(|| Error::internal("no transaction to drop a database in"))?;
        for class in classes.iter().filter(|c| !c.bool("relisshared") && c.oid("relfilenode") != 0) {
            engine.drop_relation(txn, kilndb_base::RelationId(class.oid("relfilenode")))?;
        }
        bootstrap::remove_from_boot_map(&engine, txn, oid, runtime)?;
        self.drop_stored("setdatabase", oid, runtime)?;
        self.delete_rows(PG_SHDEPEND, PG_SHDEPEND_DEPENDER_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.delete_rows(PG_DATABASE, PG_DATABASE_OID_INDEX, &[Datum::Oid(oid)], runtime)?;
        self.finish_implicit(runtime)?;
        self.host.forget_database(oid);
        Ok(())
    }
}

fn option_text(node: Node<'_>) -> Option<String> {
    match node {
        Node::String(s) => s.sval().map(str::to_string),
        Node::Integer(i) => Some(i.ival.to_string()),
        Node::RoleSpec(r) => r.rolename().map(str::to_string),
        _ => None,
    }
}
