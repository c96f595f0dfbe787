//! Statistics objects (extended statistics): CREATE, ALTER, DROP STATISTICS. What they hold is computed by ANALYZE.
//!
//! Invariants
//! 1. A statistics object goes with any of its columns, and with its table.
//!
//! Must not know: what is computed of which kind, what estimates make of it.

use super::Definitions;
use super::constraint::object_name;
use super::text_search::split;
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::names::VisibleColumns;
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::cache::EXPRESSION_SEPARATOR;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::store::{array, vector};
use kilndb_catalog::{CatalogView, Table};
use kilndb_storage::LockMode;
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// PostgreSQL's limits.
const MOST_COLUMNS: usize = 8;
const MOST_TARGET: i32 = 10_000;

/// What a new object is of.
#[derive(Default)]
struct Members {
    columns: Vec<i16>,
    expressions: Vec<String>,
}

fn names_of(object: Node<'_>) -> Vec<&str> {
    match object {
        Node::NodeList(list) => super::strings(list),
        Node::String(s) => vec![s.sval().unwrap_or("")],
        _ => Vec::new(),
    }
}

fn missing(names: &[&str]) -> Error {
    Error::new(sqlstate::UNDEFINED_OBJECT, format!("statistics object \"{}\" does not exist", names.join(".")))
}

/// The name of the column that an element is, alone or in parentheses.
fn column_name(element: &nodes::StatsElem) -> Option<&str> {
    match element.expr() {
        Node::ColumnRef(c) => match super::strings(c.fields()).as_slice() {
            [name] if c.fields().len() == 1 => Some(name),
            _ => None,
        },
        _ => element.name(),
    }
}

/// The letters of stxkind.
fn kinds_of(s: &nodes::CreateStatsStmt, members: &Members) -> Result<Vec<u8>> {
    const KINDS: [(&str, u8); 3] = [("ndistinct", b'd'), ("dependencies", b'f'), ("mcv", b'm')];
    let count = members.columns.len() + members.expressions.len();
    let wanted: Vec<&str> = s.stat_types().iter().filter_map(|n| n.sval()).collect();
    if count == 1 && members.expressions.len() == 1 && !wanted.is_empty() {
        let message = "when building statistics on a single expression, statistics kinds may not be specified";
        return Err(Error::unsupported(message));
    }
    if let Some(unknown) = wanted.iter().find(|w| !KINDS.iter().any(|(word, _)| word == *w)) {
        return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("unrecognized statistics kind \"{unknown}\"")));
    }
    let is_wanted = |word: &str| wanted.contains(&word) || wanted.is_empty() && count >= 2;
    let mut kinds: Vec<u8> = KINDS.iter().filter(|(word, _)| is_wanted(word)).map(|(_, letter)| *letter).collect();
    if !members.expressions.is_empty() {
        kinds.push(b'e');
    }
    if count < 2 && members.expressions.len() != 1 {
        let message = "extended statistics require at least 2 columns";
        return Err(Error::new(sqlstate::INVALID_OBJECT_DEFINITION, message));
    }
    Ok(kinds)
}

fn refuse_duplicates(members: &Members) -> Result<()> {
    let twice = |what: &str| {
        let message = format!("duplicate {what} in statistics definition");
        Err(Error::new(sqlstate::DUPLICATE_COLUMN, message))
    };
    if members.columns.windows(2).any(|pair| pair[0] == pair[1]) {
        return twice("column name");
    }
    let is_repeated = |(i, text): (usize, &String)| members.expressions[..i].contains(text);
    if members.expressions.iter().enumerate().any(is_repeated) {
        return twice("expression");
    }
    Ok(())
}

impl Definitions<'_> {
    pub fn create_statistics(&mut self, s: &nodes::CreateStatsStmt, runtime: &dyn Runtime) -> Result<()> {
        let relations = kilndb_syntax::nodes_of(s.relations());
        let Some(Node::RangeVar(relation)) = relations.get(0) else {
            let message = "CREATE STATISTICS only supports relation names in the FROM clause";
            return Err(Error::unsupported(message));
        };
        if relations.len() != 1 {
            return Err(Error::unsupported("only a single relation is allowed in CREATE STATISTICS"));
        }
        let table = self.context_mut().relation_of(relation, runtime)?;
        if !table.kind.keeps_rows() {
            let message = format!("cannot define statistics for relation \"{}\"", table.name);
            let e = Error::new(sqlstate::WRONG_OBJECT_TYPE, message);
            return Err(e.with_detail(super::identity::not_for(table.kind)));
        }
        let table = self.lock_for_ddl(&table, LockMode::ShareUpdateExclusive, runtime)?;
        let names: Vec<&str> = s.defnames().iter().filter_map(|n| n.sval()).collect();
        let (schema, name) = match split(&names) {
            (_, "") => (table.schema_oid, self.free_statistics_name(&table, s)?),
            (schema, name) => (self.creation_schema(schema, false, runtime)?.0, name.to_string()),
        };
        if !self.statistics_in(schema, &name)?.is_empty() {
            let message = format!("statistics object \"{name}\" already exists");
            if !s.if_not_exists {
                return Err(Error::new(sqlstate::DUPLICATE_OBJECT, message));
            }
            let notice = Error::notice(sqlstate::DUPLICATE_OBJECT, Severity::Notice, format!("{message}, skipping"));
            self.context().shared.scratch.notices.borrow_mut().push(notice);
            return Ok(());
        }
        let members = self.statistics_members(s, &table, runtime)?;
        let kinds = kinds_of(s, &members)?;
        refuse_duplicates(&members)?;
        self.insert_statistics(&table, (schema, &name), &members, &kinds, runtime)
    }

    fn insert_statistics(
        &mut self,
        table: &Table,
        (schema, name): (Oid, &str),
        members: &Members,
        kinds: &[u8],
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let mut row = vec![
            ("oid", Datum::Oid(self.new_oid(table.oid)?)),
            ("stxrelid", Datum::Oid(table.oid)),
            ("stxname", Datum::text(name)),
            ("stxnamespace", Datum::Oid(schema)),
            ("stxowner", Datum::Oid(self.context().identity.current_role)),
            ("stxkeys", vector(oids::INT2, members.columns.iter().map(|n| Datum::Int2(*n)).collect())),
            ("stxkind", array(oids::CHAR, kinds.iter().map(|k| Datum::Char(*k)).collect())),
        ];
        if !members.expressions.is_empty() {
            let text = members.expressions.join(&EXPRESSION_SEPARATOR.to_string());
            row.push(("stxexprs", Datum::text(text)));
        }
        self.write_catalog(runtime, |w| w.insert(PG_STATISTIC_EXT, &row).map(|_| ()))
    }

    fn statistics_members(
        &mut self,
        s: &nodes::CreateStatsStmt,
        table: &Arc<Table>,
        runtime: &dyn Runtime,
    ) -> Result<Members> {
        let count = s.exprs().len();
        if count > MOST_COLUMNS {
            let message = format!("cannot have more than {MOST_COLUMNS} columns in statistics");
            return Err(Error::new(sqlstate::TOO_MANY_COLUMNS, message));
        }
        let mut members = Members::default();
        for element in s.exprs().iter() {
            let Node::StatsElem(element) = element else { continue };
            match column_name(element) {
                Some(name) => members.columns.push(self.statistics_column(table, name, runtime)?),
                None => {
                    let sql = kilndb_syntax::expression_sql(element.expr())?;
                    members.expressions.push(self.statistics_expression(table, &sql, count, runtime)?);
                }
            }
        }
        members.columns.sort_unstable();
        Ok(members)
    }

    fn has_order(&mut self, type_oid: Oid, runtime: &dyn Runtime) -> Result<bool> {
        self.context_mut().with_catalog(runtime, |host| Ok(host.reader.ordering_operators(type_oid)?.is_some()))
    }

    fn statistics_column(&mut self, table: &Table, name: &str, runtime: &dyn Runtime) -> Result<i16> {
        let Some(column) = table.columns.iter().find(|c| !c.dropped && c.name == name) else {
            if ["tableoid", "ctid", "xmin", "xmax", "cmin", "cmax"].contains(&name) {
                return Err(Error::unsupported("statistics creation on system columns is not supported"));
            }
            return Err(Error::new(sqlstate::UNDEFINED_COLUMN, format!("column \"{name}\" does not exist")));
        };
        if column.generated == b'v' {
            return Err(Error::unsupported("statistics creation on virtual generated columns is not supported"));
        }
        if !self.has_order(column.type_oid, runtime)? {
            let ty =
                self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(column.type_oid, -1)))?;
            let reason = format!("its type {ty} has no default btree operator class");
            return Err(Error::unsupported(format!("column \"{name}\" cannot be used in statistics because {reason}")));
        }
        Ok(column.attnum)
    }

    /// An expression as it is kept.
    fn statistics_expression(
        &mut self,
        table: &Arc<Table>,
        sql: &str,
        count: usize,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let (ty, name) = self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::bind_expression(sql, Some(table), &host.reader, None).map_err(|mut e| {
                e.0.position = None;
                e
            })?;
            Ok((bound.expr.ty, host.reader.format_type(bound.expr.ty, -1)))
        })?;
        if count > 1 && !self.has_order(ty, runtime)? {
            let reason = format!("its type {name} has no default btree operator class");
            let message = format!("expression cannot be used in multivariate statistics because {reason}");
            return Err(Error::unsupported(message));
        }
        self.stored_expression(sql, VisibleColumns::Table(table), runtime)
    }

    /// `table_a_b_stat`, with a number if that is taken.
    fn free_statistics_name(&mut self, table: &Table, s: &nodes::CreateStatsStmt) -> Result<String> {
        let names: Vec<&str> = s
            .exprs()
            .iter()
            .filter_map(|n| if let Node::StatsElem(e) = n { Some(e.name().unwrap_or("expr")) } else { None })
            .collect();
        for number in 0.. {
            let label = if number == 0 { "stat".to_string() } else { format!("stat{number}") };
            let name = object_name(&table.name, &names.join("_"), &label);
            if self.statistics_in(table.schema_oid, &name)?.is_empty() {
                return Ok(name);
            }
        }
        Err(Error::internal("no free name"))
    }

    fn statistics_in(&mut self, schema: Oid, name: &str) -> Result<Vec<CatalogRow>> {
        let key = [Datum::text(name), Datum::Oid(schema)];
        self.context_mut().catalog_lookup(PG_STATISTIC_EXT, PG_STATISTIC_EXT_NAME_INDEX, &key)
    }

    /// The row of the object of that name.
    fn find_statistics(&mut self, names: &[&str], runtime: &dyn Runtime) -> Result<Option<CatalogRow>> {
        let (schema, name) = split(names);
        let schemas = self.context_mut().with_catalog(runtime, |host| match schema {
            Some(schema) => Ok(host.reader.schema_oid(schema)?.into_iter().collect()),
            None => host.reader.schemas_to_search(None, false).map(|found| found.to_vec()),
        })?;
        for schema in schemas {
            if let Some(row) = self.statistics_in(schema, name)?.pop() {
                return Ok(Some(row));
            }
        }
        Ok(None)
    }

    pub(super) fn statistics_object(&mut self, names: &[&str], runtime: &dyn Runtime) -> Result<CatalogRow> {
        if let (Some(schema), _) = split(names)
            && self.context_mut().with_catalog(runtime, |host| host.reader.schema_oid(schema))?.is_none()
        {
            return Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")));
        }
        let row = self.find_statistics(names, runtime)?.ok_or_else(|| missing(names))?;
        if !self.context().owns(row.oid("stxowner")) {
            return Err(crate::privileges::not_owner("statistics object", &names.join(".")));
        }
        Ok(row)
    }

    /// The object that COMMENT names.
    pub(super) fn commented_statistics(&mut self, object: Node<'_>, runtime: &dyn Runtime) -> Result<Oid> {
        Ok(self.statistics_object(&names_of(object), runtime)?.oid("oid"))
    }

    fn change_statistics(
        &mut self,
        oid: Oid,
        (column, value): (&'static str, Datum),
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let index = PG_STATISTIC_EXT_OID_INDEX;
        self.update_row(PG_STATISTIC_EXT, index, oid, runtime, |row| row.set(column, value))?;
        Ok("ALTER STATISTICS".to_string())
    }

    pub fn alter_statistics(&mut self, s: &nodes::AlterStatsStmt, runtime: &dyn Runtime) -> Result<()> {
        let target = match s.stxstattarget() {
            Node::Integer(i) if i.ival != -1 => Some(i.ival),
            _ => None,
        };
        if let Some(target) = target.filter(|t| *t < 0) {
            let message = format!("statistics target {target} is too low");
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        if target.is_some_and(|t| t > MOST_TARGET) {
            let message = format!("lowering statistics target to {MOST_TARGET}");
            let warning = Error::notice(sqlstate::INVALID_PARAMETER_VALUE, Severity::Warning, message);
            self.context().shared.scratch.notices.borrow_mut().push(warning);
        }
        let names: Vec<&str> = s.defnames().iter().filter_map(|n| n.sval()).collect();
        if s.missing_ok && self.find_statistics(&names, runtime)?.is_none() {
            self.context().notice(Severity::Notice, format!("{}, skipping", missing(&names).message()));
            return Ok(());
        }
        let oid = self.statistics_object(&names, runtime)?.oid("oid");
        let value = target.map_or(Datum::Null, |t| Datum::Int2(t.min(MOST_TARGET) as i16));
        self.change_statistics(oid, ("stxstattarget", value), runtime).map(|_| ())
    }

    fn refuse_same_statistics(&mut self, schema: Oid, name: &str, runtime: &dyn Runtime) -> Result<()> {
        if self.statistics_in(schema, name)?.is_empty() {
            return Ok(());
        }
        let schema = self.context_mut().with_catalog(runtime, |host| host.reader.schema_name(schema))?;
        let schema = schema.unwrap_or_default();
        let message = format!("statistics object \"{name}\" already exists in schema \"{schema}\"");
        Err(Error::new(sqlstate::DUPLICATE_OBJECT, message))
    }

    pub(super) fn rename_statistics(
        &mut self,
        s: &nodes::RenameStmt,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let row = self.statistics_object(&names_of(s.object()), runtime)?;
        self.refuse_same_statistics(row.oid("stxnamespace"), new_name, runtime)?;
        self.change_statistics(row.oid("oid"), ("stxname", Datum::text(new_name)), runtime)
    }

    pub(super) fn move_statistics(
        &mut self,
        s: &nodes::AlterObjectSchemaStmt,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let row = self.statistics_object(&names_of(s.object()), runtime)?;
        let (schema, _) = self.creation_schema(s.newschema(), false, runtime)?;
        if schema != row.oid("stxnamespace") {
            self.refuse_same_statistics(schema, row.text("stxname").unwrap_or(""), runtime)?;
        }
        self.change_statistics(row.oid("oid"), ("stxnamespace", Datum::Oid(schema)), runtime)
    }

    pub(super) fn give_statistics(
        &mut self,
        s: &nodes::AlterOwnerStmt,
        owner: Oid,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let row = self.statistics_object(&names_of(s.object()), runtime)?;
        self.require_new_owner(owner, Some(row.oid("stxnamespace")), runtime)?;
        self.change_statistics(row.oid("oid"), ("stxowner", Datum::Oid(owner)), runtime)
    }

    pub(super) fn drop_statistics(
        &mut self,
        s: &nodes::DropStmt,
        cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let mut named = Vec::new();
        for object in s.objects() {
            let names = names_of(object);
            let is_gone = match self.statistics_object(&names, runtime) {
                Ok(row) => {
                    let object = ObjectAddress::object(PG_STATISTIC_EXT, row.oid("oid"));
                    if !named.contains(&object) {
                        named.push(object);
                    }
                    continue;
                }
                Err(e) => e,
            };
            let is_missing = [sqlstate::UNDEFINED_OBJECT, sqlstate::INVALID_SCHEMA_NAME].contains(&is_gone.sqlstate());
            if !s.missing_ok || !is_missing {
                return Err(is_gone);
            }
            self.context().notice(Severity::Notice, format!("{}, skipping", is_gone.message()));
        }
        self.delete_objects(&named, cascade, runtime)?;
        Ok("DROP STATISTICS".to_string())
    }

    /// Removes what ANALYZE has found for the objects that have a column in them, and notes anew what their expressions
    /// refer to: the column gets another type.
    pub(super) fn clear_statistics_objects(&mut self, table: Oid, attnum: i16, runtime: &dyn Runtime) -> Result<()> {
        let dependents = self.dependents(PG_CLASS, table, i32::from(attnum))?;
        let mut objects: Vec<Oid> = dependents
            .iter()
            .filter(|row| row.oid("classid") == PG_STATISTIC_EXT)
            .map(|row| row.oid("objid"))
            .collect();
        objects.sort_unstable();
        objects.dedup();
        for oid in objects {
            let key = [Datum::Oid(oid)];
            self.delete_rows(PG_STATISTIC_EXT_DATA, PG_STATISTIC_EXT_DATA_STXOID_INH_INDEX, &key, runtime)?;
            self.delete_statistics(oid, None, runtime)?;
            self.update_row(PG_STATISTIC_EXT, PG_STATISTIC_EXT_OID_INDEX, oid, runtime, |row| {
                let expressions = row.get("stxexprs").clone();
                row.set("stxexprs", expressions)
            })?;
        }
        Ok(())
    }

    /// The rows of an object that goes, and those that ANALYZE has written for it.
    pub(super) fn delete_statistics_object(&mut self, oid: Oid, runtime: &dyn Runtime) -> Result<()> {
        let key = [Datum::Oid(oid)];
        self.delete_rows(PG_STATISTIC_EXT_DATA, PG_STATISTIC_EXT_DATA_STXOID_INH_INDEX, &key, runtime)?;
        self.delete_statistics(oid, None, runtime)?;
        let comments = [Datum::Oid(oid), Datum::Oid(PG_STATISTIC_EXT)];
        self.delete_rows(PG_DESCRIPTION, PG_DESCRIPTION_O_C_O_INDEX, &comments, runtime)?;
        self.delete_rows(PG_STATISTIC_EXT, PG_STATISTIC_EXT_OID_INDEX, &key, runtime)
    }
}
