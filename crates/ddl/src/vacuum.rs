//! VACUUM and ANALYZE: options, and which tables. There is nothing to vacuum, but VACUUM waits until what is pending in
//! inverted indexes is merged, and asks that other indexes be made as small as they can be.
//!
//! Invariants
//! 1. A command that is neither in a transaction block nor shares its message with others has a transaction for each
//!    table, so locks do not pile up; any other is a part of the transaction that it finds.

use super::Definitions;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::global::GLOBAL;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table, TableKind};
use kilndb_exec::stats::Maintenance;
use kilndb_storage::{LockMode, WaitPolicy};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

#[derive(Default)]
struct Options {
    vacuum: bool,
    analyze: bool,
    full: bool,
    verbose: bool,
    skip_locked: bool,
    only_database_stats: bool,
}

/// A table and the columns that were named.
type Target<'a> = (Oid, String, Vec<&'a str>);

impl Definitions<'_> {
    pub fn vacuum(
        &mut self,
        s: &nodes::VacuumStmt,
        alone: bool,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let word = if s.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
        let options = options(s, source)?;
        self.context_mut().begin_statement(runtime)?;
        let targets = self.vacuum_targets(s, &options, runtime)?;
        for (i, (oid, name, columns)) in targets.into_iter().enumerate() {
            if alone && i > 0 {
                self.finish_implicit(runtime)?;
                self.context_mut().begin_statement(runtime)?;
            }
            self.vacuum_one(oid, &name, &columns, &options, runtime)?;
        }
        if alone {
            self.finish_implicit(runtime)?;
        }
        Ok(word.to_string())
    }

    /// ANALYZE of a table that has changed, in a transaction that the caller ends. False: somebody else has the table,
    /// it is gone, or it is none that is analyzed.
    pub fn analyze_by_itself(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<bool> {
        if !self.context_mut().lock_table(oid, LockMode::ShareUpdateExclusive, WaitPolicy::SkipLocked, runtime)? {
            return Ok(false);
        }
        match self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(oid))? {
            Some(table) if is_analyzed(&table) => {
                self.analyze_and_count(&table, &[], (false, Maintenance::AutoAnalyze), runtime)?;
                Ok(true)
            }
            _ => Ok(false),
        }
    }

    fn analyze_and_count(
        &mut self,
        table: &Arc<Table>,
        columns: &[&str],
        (verbose, what): (bool, Maintenance),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let began = self.context().now();
        let rows = self.analyze_table(table, columns, verbose, runtime)?;
        let ended = self.context().now();
        let took_ms = (ended - began) as f64 / 1000.0;
        let context = self.context();
        context.cluster.statistics.maintained(context.database.oid, table.oid, what, ended, took_ms, Some(rows));
        Ok(())
    }

    fn vacuum_targets<'a>(
        &mut self,
        s: &'a nodes::VacuumStmt,
        options: &Options,
        runtime: &dyn Runtime,
    ) -> Result<Vec<Target<'a>>> {
        let mut targets = Vec::new();
        for target in s.rels() {
            if let Some(r) = target.relation() {
                let table = self.context_mut().relation_of(r, runtime)?;
                if table.kind == TableKind::Partitioned && r.inh {
                    self.add_partitions(&table, target, &mut targets, runtime)?;
                }
                targets.push((table.oid, table.name.clone(), super::strings(target.va_cols())));
            }
        }
        if s.rels().is_empty() && options.analyze && !options.only_database_stats {
            // Partitioned tables after their partitions.
            let rows = self.context_mut().catalog_scan(PG_CLASS)?;
            for kinds in [&b"rm"[..], b"p"] {
                for row in
                    rows.iter().filter(|row| kinds.contains(&row.char("relkind")) && row.oid("oid") >= FIRST_USER_OID)
                {
                    targets.push((row.oid("oid"), row.text("relname").unwrap_or("").to_string(), Vec::new()));
                }
            }
        }
        Ok(targets)
    }

    /// The tables below a partitioned one, each after those below it.
    fn add_partitions<'a>(
        &mut self,
        table: &Arc<Table>,
        target: &'a nodes::VacuumRelation,
        targets: &mut Vec<Target<'a>>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        for oid in self.partition_oids(table.oid, runtime)? {
            let partition = self.context_mut().table_by_oid(oid, runtime)?;
            if partition.kind == TableKind::Partitioned {
                self.add_partitions(&partition, target, targets, runtime)?;
            }
            targets.push((oid, partition.name.clone(), super::strings(target.va_cols())));
        }
        Ok(())
    }

    /// ANALYZE of a partitioned table: its size is that of its partitions together, which have been looked at before.
    fn add_up_partitions(&mut self, table: &Arc<Table>, runtime: &dyn Runtime) -> Result<()> {
        let mut rows = 0.0;
        for oid in self.partition_oids(table.oid, runtime)? {
            rows += self.context_mut().table_by_oid(oid, runtime)?.reltuples.max(0.0);
        }
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, table.oid, runtime, |row| {
            row.set("reltuples", Datum::Float4(rows));
            row.set("relpages", Datum::Int4(-1));
        })
    }

    fn vacuum_one(
        &mut self,
        oid: Oid,
        name: &str,
        columns: &[&str],
        options: &Options,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        // Definitions and other ANALYZEs change the same rows of the system tables.
        let mode = if options.full { LockMode::AccessExclusive } else { LockMode::ShareUpdateExclusive };
        let verb = if options.vacuum { "vacuum" } else { "analyze" };
        let wait = if options.skip_locked { WaitPolicy::SkipLocked } else { WaitPolicy::Wait };
        if !self.context_mut().lock_table(oid, mode, wait, runtime)? {
            let message = format!("skipping {verb} of \"{name}\" --- lock not available");
            self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::LOCK_NOT_AVAILABLE,
                Severity::Warning,
                message,
            ));
            return Ok(());
        }
        // It may be gone meanwhile, or be another thing.
        let Some(table) = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(oid))? else {
            return Ok(());
        };
        if !self.context().is_superuser() && !self.may_maintain(&table, verb)? {
            return Ok(());
        }
        if table.kind == TableKind::Partitioned {
            check_columns(&table, columns)?;
            return if options.analyze { self.add_up_partitions(&table, runtime) } else { Ok(()) };
        }
        if !table.kind.has_rows() {
            self.context().notice(
                Severity::Warning,
                format!("skipping \"{name}\" --- cannot {verb} non-tables or special system tables"),
            );
            return Ok(());
        }
        check_columns(&table, columns)?;
        if options.analyze && is_analyzed(&table) {
            self.analyze_and_count(&table, columns, (options.verbose, Maintenance::Analyze), runtime)?;
        }
        if options.vacuum && table.persistence != GLOBAL {
            if table.storage.0 != 0 {
                let heap = self.context().shared.temporary.relation(&self.context().cluster.engine, table.storage)?;
                heap.note_settled_blocks(runtime)?;
            }
            for index in table.indexes.iter().filter(|i| i.storage.0 != 0) {
                let relation =
                    self.context().shared.temporary.relation(&self.context().cluster.engine, index.storage)?;
                match index.has_terms() {
                    true => _ = relation.index_flush(runtime)?,
                    false => relation.shrink_soon(),
                }
            }
        }
        if options.vacuum {
            let ended = self.context().now();
            self.context().cluster.statistics.maintained(
                self.context().database.oid,
                oid,
                Maintenance::Vacuum,
                ended,
                0.0,
                None,
            );
        }
        Ok(())
    }

    /// ALTER INDEX … ALTER COLUMN … SET STATISTICS: the column must be an expression.
    fn expression_column(&mut self, index: &Table, number: i32) -> Result<i16> {
        let Some(column) = index.columns.iter().find(|c| i32::from(c.attnum) == number) else {
            let message = format!("column number {number} of relation \"{}\" does not exist", index.name);
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, message));
        };
        let key = [Datum::Oid(index.oid)];
        let row = self.context_mut().catalog_lookup(PG_INDEX, PG_INDEX_INDEXRELID_INDEX, &key)?.pop();
        let (keys, count) = row.map_or((Vec::new(), 0), |row| (row.numbers("indkey"), row.int("indnkeyatts")));
        let words = format!("column \"{}\" of index \"{}\"", column.name, index.name);
        if i64::from(number) > count {
            return Err(Error::unsupported(format!("cannot alter statistics on included {words}")));
        }
        if keys.get(number as usize - 1) != Some(&0) {
            let e = Error::unsupported(format!("cannot alter statistics on non-expression {words}"));
            return Err(e.with_hint("Alter statistics on table column instead."));
        }
        Ok(column.attnum)
    }

    /// ALTER TABLE … ALTER COLUMN … SET STATISTICS.
    pub(super) fn set_statistics_target(
        &mut self,
        table: &Arc<Table>,
        c: &nodes::AlterTableCmd,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        /// PostgreSQL's limit.
        const MOST: i32 = 10_000;
        if c.name().is_none() && table.kind != TableKind::Index {
            return Err(Error::unsupported("cannot refer to non-index column by number"));
        }
        let target = match c.def() {
            Node::Integer(i) if i.ival != -1 => Some(i.ival),
            _ => None,
        };
        if let Some(target) = target.filter(|t| *t < 0) {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                format!("statistics target {target} is too low"),
            ));
        }
        if target.is_some_and(|t| t > MOST) {
            let message = format!("lowering statistics target to {MOST}");
            self.context().shared.scratch.notices.borrow_mut().push(Error::notice(
                sqlstate::INVALID_PARAMETER_VALUE,
                Severity::Warning,
                message,
            ));
        }
        let attnum = match c.name() {
            None => self.expression_column(table, i32::from(c.num))?,
            Some(name) => {
                let column = super::alter_table::column_of(table, name)?;
                if column.generated == b'v' {
                    let message = format!("cannot alter statistics on virtual generated column \"{name}\"");
                    return Err(Error::unsupported(message));
                }
                match table.kind {
                    TableKind::Index => self.expression_column(table, i32::from(column.attnum))?,
                    _ => column.attnum,
                }
            }
        };
        let value = target.map_or(Datum::Null, |t| Datum::Int2(t.min(MOST) as i16));
        self.update_attribute(table.oid, attnum, runtime, |row| row.set("attstattarget", value))
    }
}

/// What one session has in a global temporary table says nothing about the others'.
fn is_analyzed(table: &Table) -> bool {
    table.kind.has_rows() && !table.is_catalog && table.persistence != GLOBAL
}

fn check_columns(table: &Table, columns: &[&str]) -> Result<()> {
    for (i, column) in columns.iter().enumerate() {
        if !table.columns.iter().any(|c| !c.dropped && c.name == *column) {
            let message = format!("column \"{column}\" of relation \"{}\" does not exist", table.name);
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, message));
        }
        if columns[..i].contains(column) {
            let message = format!("column \"{column}\" of relation \"{}\" appears more than once", table.name);
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn options(s: &nodes::VacuumStmt, source: &str) -> Result<Options> {
    let word = if s.is_vacuumcmd { "VACUUM" } else { "ANALYZE" };
    let mut options = Options { vacuum: s.is_vacuumcmd, analyze: !s.is_vacuumcmd, ..Options::default() };
    let (mut no_skipping, mut toast, mut parallel, mut has_limit) = (false, true, false, false);
    for option in s.options() {
        let name = option.defname().unwrap_or("");
        match name {
            "verbose" => options.verbose = flag(name, option.arg())?,
            "skip_locked" => options.skip_locked = flag(name, option.arg())?,
            "buffer_usage_limit" => {
                check_limit(option.arg())?;
                has_limit = true;
            }
            "analyze" if s.is_vacuumcmd => options.analyze = flag(name, option.arg())?,
            "full" if s.is_vacuumcmd => options.full = flag(name, option.arg())?,
            "disable_page_skipping" if s.is_vacuumcmd => no_skipping = flag(name, option.arg())?,
            "process_toast" if s.is_vacuumcmd => toast = flag(name, option.arg())?,
            "only_database_stats" if s.is_vacuumcmd => options.only_database_stats = flag(name, option.arg())?,
            "freeze" | "process_main" | "truncate" | "skip_database_stats" if s.is_vacuumcmd => {
                flag(name, option.arg())?;
            }
            "index_cleanup" if s.is_vacuumcmd => {
                if !option.arg().as_str().is_some_and(|v| v.eq_ignore_ascii_case("auto")) {
                    flag(name, option.arg())?;
                }
            }
            "parallel" if s.is_vacuumcmd => {
                parallel = workers(option.arg())
                    .map_err(|e| e.or_position(kilndb_syntax::position_of(source, option.location)))?
                    > 0;
            }
            other => {
                let e = Error::new(sqlstate::SYNTAX_ERROR, format!("unrecognized {word} option \"{other}\""));
                return Err(e.or_position(kilndb_syntax::position_of(source, option.location)));
            }
        }
    }
    let refused = |message: &str| Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message));
    if options.full && parallel {
        return refused("VACUUM FULL cannot be performed in parallel");
    }
    if options.full && has_limit && !options.analyze {
        return refused("BUFFER_USAGE_LIMIT cannot be specified for VACUUM FULL");
    }
    if !options.analyze && s.rels().iter().any(|r| !r.va_cols().is_empty()) {
        return refused("ANALYZE option must be specified when a column list is provided");
    }
    if options.full && no_skipping {
        return refused("VACUUM option DISABLE_PAGE_SKIPPING cannot be used with FULL");
    }
    if options.full && !toast {
        return refused("PROCESS_TOAST required with VACUUM FULL");
    }
    if options.only_database_stats && !s.rels().is_empty() {
        return refused("ONLY_DATABASE_STATS cannot be specified with a list of tables");
    }
    Ok(options)
}

pub(super) fn flag(name: &str, value: Node<'_>) -> Result<bool> {
    let text = match value {
        Node::None => return Ok(true),
        Node::Integer(i) => i.ival.to_string(),
        Node::Boolean(b) => b.boolval.to_string(),
        other => other.as_str().unwrap_or("").to_ascii_lowercase(),
    };
    match text.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => Err(Error::new(sqlstate::SYNTAX_ERROR, format!("{name} requires a Boolean value"))),
    }
}

/// How many are wanted for PARALLEL; there are none.
fn workers(value: Node<'_>) -> Result<i32> {
    let wrong = |message| Err(Error::new(sqlstate::SYNTAX_ERROR, message));
    match value {
        Node::Integer(i) if (0..=1024).contains(&i.ival) => Ok(i.ival),
        Node::Integer(_) => wrong("parallel workers for vacuum must be between 0 and 1024"),
        Node::None => wrong("parallel option requires a value between 0 and 1024"),
        _ => wrong("parallel requires an integer value"),
    }
}

/// BUFFER_USAGE_LIMIT, which has no meaning here: a number of kB, or with a unit.
fn check_limit(value: Node<'_>) -> Result<()> {
    const SMALLEST_KB: f64 = 128.0;
    const LARGEST_KB: f64 = 16_777_216.0;
    let text = match value {
        Node::Integer(i) => i.ival.to_string(),
        other => other.as_str().unwrap_or("").to_string(),
    };
    let number = text.trim().trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match text.trim()[number.len()..].trim() {
        "" | "kB" => Some(1.0),
        "B" => Some(1.0 / 1024.0),
        "MB" => Some(1024.0),
        "GB" => Some(1024.0 * 1024.0),
        "TB" => Some(1024.0 * 1024.0 * 1024.0),
        _ => None,
    };
    let size = number.trim().parse::<f64>().ok().zip(scale).map(|(n, scale)| (n * scale).round());
    if size.is_some_and(|kb| kb == 0.0 || (SMALLEST_KB..=LARGEST_KB).contains(&kb)) {
        return Ok(());
    }
    let e = Error::new(
        sqlstate::INVALID_PARAMETER_VALUE,
        "BUFFER_USAGE_LIMIT option must be 0 or between 128 kB and 16777216 kB",
    );
    let units = "Valid units for this parameter are \"B\", \"kB\", \"MB\", \"GB\", and \"TB\".";
    Err(if scale.is_none() { e.with_hint(units) } else { e })
}
