//! What names mean at a place of the statement.

use super::Binder;
use super::ir::*;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::nodes;
use kilndb_types::oids;

#[derive(Clone)]
pub struct NsColumn {
    pub name: String,
    pub expr: Expr,
    pub table_oid: Oid,
    pub attnum: i16,
    /// The text gives it the name.
    pub is_named_here: bool,
}

/// One name of the FROM clause, or an unnamed join.
#[derive(Clone)]
pub struct NsItem {
    pub alias: Option<String>,
    pub schema: Option<String>,
    pub rel: u32,
    pub columns: Vec<NsColumn>,
    /// The composite type of the whole row, or RECORD.
    pub row_type: Oid,
    pub is_table: bool,
    pub table_oid: Oid,
    pub rel_visible: bool,
    pub cols_visible: bool,
    /// Visible only to LATERAL items.
    pub lateral_only: bool,
    pub lateral_ok: bool,
    /// A function that returns one scalar column: its name stands for the column.
    pub scalar_function: bool,
}

impl NsItem {
    pub fn new(alias: Option<String>, rel: u32, columns: Vec<NsColumn>) -> NsItem {
        NsItem {
            alias,
            schema: None,
            rel,
            columns,
            row_type: oids::RECORD,
            is_table: false,
            table_oid: 0,
            rel_visible: true,
            cols_visible: true,
            lateral_only: false,
            lateral_ok: true,
            scalar_function: false,
        }
    }
    /// Whether the item is a table that goes by its own name, in the schema that is called so.
    fn is_in_schema(&self, schema: &str) -> bool {
        let own = self.schema.as_deref();
        own == Some(schema) || schema == "pg_temp" && own.is_some_and(|own| own.starts_with("pg_temp_"))
    }
    /// Says which relation the item stands for: a view or a sequence, whose rows come from elsewhere.
    pub fn stands_for(&mut self, table: &Table, is_alias: bool) {
        self.schema = (!is_alias).then(|| table.schema_name.clone());
        self.table_oid = table.oid;
        for (column, of) in self.columns.iter_mut().zip(table.columns.iter().filter(|c| !c.dropped)) {
            column.table_oid = table.oid;
            column.attnum = of.attnum;
        }
    }
    pub fn of_table(rel: u32, table: &Table, alias: &str) -> NsItem {
        let columns = table
            .columns
            .iter()
            .filter(|c| !c.dropped)
            .map(|c| NsColumn {
                name: c.name.clone(),
                expr: Expr::of_column(rel, c),
                table_oid: table.oid,
                attnum: c.attnum,
                is_named_here: false,
            })
            .collect();
        let mut item = NsItem::new(Some(alias.to_string()), rel, columns);
        item.row_type = table.type_oid;
        // A view has no system columns.
        item.is_table = table.kind != TableKind::View;
        item.table_oid = table.oid;
        item
    }
}

/// What a statement calls the table that it changes. An alias hides the table's schema.
#[derive(Clone, Copy)]
pub struct TargetName<'a> {
    pub name: &'a str,
    pub is_alias: bool,
}

impl<'a> TargetName<'a> {
    pub fn new(target: Option<&'a nodes::RangeVar>, table: &'a Table) -> TargetName<'a> {
        let alias = target.and_then(|r| r.alias()).and_then(|a| a.aliasname());
        TargetName { name: alias.unwrap_or(&table.name), is_alias: alias.is_some() }
    }
    /// The table's rows under this name.
    pub fn item(self, rel: u32, table: &Table) -> NsItem {
        let schema = (!self.is_alias).then(|| table.schema_name.clone());
        NsItem { schema, ..NsItem::of_table(rel, table, self.name) }
    }
}

#[derive(Clone)]
pub struct CteRef {
    pub name: String,
    pub id: u32,
    pub columns: Vec<RelColumn>,
    /// Inside the recursive term: a scan of the working table.
    pub recursive_self: bool,
    /// Whether the CTE changes rows and returns none, so that nobody can read it.
    pub is_silent: bool,
}

/// Where an expression stands: decides whether aggregates and the like may appear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClauseKind {
    Other,
    /// The FROM clause, as far as it is no expression of its own.
    FromClause,
    Where,
    Having,
    GroupBy,
    On,
    Limit,
    Offset,
    Values,
    Returning,
    From,
    Target,
    OrderBy,
    UpdateSource,
    CopyWhere,
    MergeWhen,
    MergeReturning,
    Policy,
}

impl ClauseKind {
    /// What errors call a clause that has neither aggregates nor window functions in it.
    pub fn without_aggregates(self) -> Option<&'static str> {
        match self {
            ClauseKind::Where => Some("WHERE"),
            ClauseKind::On => Some("JOIN conditions"),
            ClauseKind::GroupBy => Some("GROUP BY"),
            ClauseKind::Limit => Some("LIMIT"),
            ClauseKind::Offset => Some("OFFSET"),
            ClauseKind::Values => Some("VALUES"),
            ClauseKind::Returning | ClauseKind::MergeReturning => Some("RETURNING"),
            ClauseKind::MergeWhen => Some("MERGE WHEN conditions"),
            ClauseKind::UpdateSource => Some("UPDATE"),
            ClauseKind::CopyWhere => Some("COPY FROM WHERE conditions"),
            ClauseKind::Policy => Some("policy expressions"),
            _ => None,
        }
    }
}

pub struct Scope<'p> {
    pub parent: Option<&'p Scope<'p>>,
    pub items: Vec<NsItem>,
    pub ctes: Vec<CteRef>,
    pub clause: ClauseKind,
    /// Named windows of this level, and those made for OVER (…).
    pub windows: std::cell::RefCell<Vec<WindowSpec>>,
    pub saw_agg: std::cell::Cell<bool>,
    /// Aggregates of this level that stand in subqueries, and the relation whose columns they are there.
    pub outer_aggs: std::cell::RefCell<Vec<Expr>>,
    pub outer_agg_rel: std::cell::Cell<u32>,
    pub saw_srf: std::cell::Cell<bool>,
}

impl<'p> Scope<'p> {
    pub fn new(parent: Option<&'p Scope<'p>>) -> Scope<'p> {
        Scope {
            parent,
            items: Vec::new(),
            ctes: Vec::new(),
            clause: ClauseKind::Other,
            windows: Default::default(),
            saw_agg: Default::default(),
            outer_aggs: Default::default(),
            outer_agg_rel: Default::default(),
            saw_srf: Default::default(),
        }
    }
    /// Whether a column belongs to this level.
    pub(crate) fn owns(&self, id: ColId) -> bool {
        let of_item = |item: &NsItem| {
            item.rel == id.rel
                || item.columns.iter().any(|c| match &c.expr.kind {
                    ExprKind::Column(x) => x.rel == id.rel,
                    _ => c.expr.any(&|e| matches!(&e.kind, ExprKind::Column(x) if x.rel == id.rel)),
                })
        };
        id.rel == self.outer_agg_rel.get() || self.items.iter().any(of_item)
    }
    /// Are there columns here, or at a level around it?
    pub fn has_relations(&self) -> bool {
        !self.items.is_empty() || self.parent.is_some_and(|parent| parent.has_relations())
    }
    /// Does each of the names mean at `inner`, a level within this one, the relation that has it here?
    pub fn is_told_by(&self, names: &[&str], inner: &Scope<'_>) -> bool {
        let count = |scope: &Scope<'_>, name: &str| {
            scope.items.iter().filter(|item| item.rel_visible && item.alias.as_deref() == Some(name)).count()
        };
        let mut level = Some(inner);
        while let Some(s) = level.filter(|s| !std::ptr::eq(*s as *const _ as *const u8, self as *const _ as *const u8))
        {
            if names.iter().any(|name| count(s, name) > 0) {
                return false;
            }
            level = s.parent;
        }
        names.iter().all(|name| count(self, name) == 1)
    }
    /// The innermost level that one of the columns belongs to; this one if none does.
    pub(crate) fn level_of(&self, columns: &[ColId]) -> &Scope<'p> {
        let mut level = Some(self);
        while let Some(s) = level {
            if columns.iter().any(|c| s.owns(*c)) {
                return s;
            }
            level = s.parent;
        }
        self
    }
    /// A WITH query of this level, or of one between it and `level`, among those given.
    pub(crate) fn cte_below(&self, level: &Scope<'p>, ids: &[u32]) -> Option<&CteRef> {
        let mut scope = Some(self);
        while let Some(s) = scope.filter(|s| !std::ptr::eq(*s, level)) {
            if let Some(c) = s.ctes.iter().find(|c| ids.contains(&c.id)) {
                return Some(c);
            }
            scope = s.parent;
        }
        None
    }
    pub(crate) fn find_cte(&self, name: &str) -> Option<&CteRef> {
        let mut scope = Some(self);
        while let Some(s) = scope {
            if let Some(c) = s.ctes.iter().rev().find(|c| c.name == name) {
                return Some(c);
            }
            scope = s.parent;
        }
        None
    }
}

const SYSTEM_COLUMNS: &[(&str, i16, Oid)] = &[
    ("ctid", -1, oids::TID),
    ("xmin", -2, oids::XID),
    ("cmin", -3, oids::CID),
    ("xmax", -4, oids::XID),
    ("cmax", -5, oids::CID),
    ("tableoid", -6, oids::OID),
];

pub(crate) fn system_column(name: &str) -> Option<(i16, Oid)> {
    SYSTEM_COLUMNS.iter().find(|c| c.0 == name).map(|c| (c.1, c.2))
}

pub(crate) fn system_column_name(att: i16) -> &'static str {
    SYSTEM_COLUMNS.iter().find(|c| c.1 == att).map_or("?", |c| c.0)
}

impl Binder<'_> {
    fn check_lateral(&self, item: &NsItem, name: &str, loc: i32) -> Result<()> {
        if item.lateral_only && !item.lateral_ok {
            let alias = item.alias.as_deref().unwrap_or(name);
            let e = Error::new(
                sqlstate::INVALID_COLUMN_REFERENCE,
                format!("invalid reference to FROM-clause entry for table \"{alias}\""),
            )
            .with_detail("The combining JOIN type must be INNER or LEFT for a LATERAL reference.");
            return Err(self.at(e, loc));
        }
        Ok(())
    }

    /// `name` without qualification.
    pub(crate) fn resolve_column(&self, scope: &Scope<'_>, name: &str, loc: i32) -> Result<Option<Expr>> {
        let mut level = Some(scope);
        while let Some(s) = level {
            let mut found: Option<Expr> = None;
            for item in s.items.iter().filter(|i| i.cols_visible) {
                let mut in_item = item.columns.iter().filter(|c| c.name == name);
                if let Some(c) = in_item.next() {
                    if in_item.next().is_some() || found.is_some() {
                        return self.err(
                            sqlstate::AMBIGUOUS_COLUMN,
                            format!("column reference \"{name}\" is ambiguous"),
                            loc,
                        );
                    }
                    self.check_lateral(item, name, loc)?;
                    self.note_column(c, loc);
                    self.note_unqualified(c, item, (scope, s), loc);
                    found = Some(c.expr.clone().at(loc));
                }
            }
            if found.is_none()
                && let Some((att, ty)) = system_column(name)
            {
                for item in s.items.iter().filter(|i| i.cols_visible && i.is_table) {
                    if found.is_some() {
                        return self.err(
                            sqlstate::AMBIGUOUS_COLUMN,
                            format!("column reference \"{name}\" is ambiguous"),
                            loc,
                        );
                    }
                    found = Some(Expr::column(ColId { rel: item.rel, att }, ty, -1).at(loc));
                }
            }
            if found.is_some() {
                return Ok(found);
            }
            level = s.parent;
        }
        Ok(None)
    }

    /// The FROM item called `alias` (`schema.alias`).
    pub(crate) fn resolve_item<'s>(
        &self,
        scope: &'s Scope<'s>,
        schema: Option<&str>,
        alias: &str,
        loc: i32,
    ) -> Result<Option<&'s NsItem>> {
        let mut level = Some(scope);
        while let Some(s) = level {
            let mut found: Option<&NsItem> = None;
            for item in s.items.iter().filter(|i| i.rel_visible && i.alias.as_deref() == Some(alias)) {
                if schema.is_some_and(|s| !item.is_in_schema(s)) {
                    continue;
                }
                if found.is_some() {
                    return self.err(
                        sqlstate::AMBIGUOUS_ALIAS,
                        format!("table reference \"{alias}\" is ambiguous"),
                        loc,
                    );
                }
                self.check_lateral(item, alias, loc)?;
                found = Some(item);
            }
            if found.is_some() {
                return Ok(found);
            }
            level = s.parent;
        }
        Ok(None)
    }

    pub(crate) fn item_column(&self, item: &NsItem, name: &str, loc: i32) -> Result<Option<Expr>> {
        let mut hits = item.columns.iter().filter(|c| c.name == name);
        if let Some(c) = hits.next() {
            if hits.next().is_some() {
                return self.err(sqlstate::AMBIGUOUS_COLUMN, format!("column reference \"{name}\" is ambiguous"), loc);
            }
            self.note_column(c, loc);
            return Ok(Some(c.expr.clone().at(loc)));
        }
        if item.is_table
            && let Some((att, ty)) = system_column(name)
        {
            return Ok(Some(Expr::column(ColId { rel: item.rel, att }, ty, -1).at(loc)));
        }
        Ok(None)
    }

    /// The row of a FROM item as one value.
    pub(crate) fn whole_row(&self, item: &NsItem, loc: i32) -> Expr {
        if item.scalar_function && item.columns.len() == 1 {
            return item.columns[0].expr.clone().at(loc);
        }
        let fields = item.columns.iter().map(|c| c.expr.clone()).collect();
        let names = item.columns.iter().map(|c| c.name.clone()).collect();
        Expr::new(ExprKind::Row { fields, names }, item.row_type).at(loc)
    }

    /// 42809 for a sequence, whose rows have no type.
    pub(crate) fn refuse_sequence_row(&self, item: &NsItem) -> Result<()> {
        if item.table_oid == 0 || item.row_type != oids::RECORD {
            return Ok(());
        }
        let name = self.catalog.table_by_oid(item.table_oid)?.map_or_else(String::new, |table| table.name.clone());
        let message = format!("relation \"{name}\" does not have a composite type");
        Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message))
    }

    pub(crate) fn missing_table(&self, scope: &Scope<'_>, schema: Option<&str>, name: &str, loc: i32) -> Error {
        // A table that is there under an alias, or not reachable from here.
        let mut level = Some(scope);
        while let Some(s) = level {
            for i in &s.items {
                let real = self.catalog.table_by_oid(i.table_oid).ok().flatten();
                if i.is_table && real.as_ref().is_some_and(|t| t.name == name) && i.alias.as_deref() != Some(name) {
                    let alias = i.alias.clone().unwrap_or_default();
                    let e = Error::new(
                        sqlstate::UNDEFINED_TABLE,
                        format!("invalid reference to FROM-clause entry for table \"{name}\""),
                    )
                    .with_hint(format!("Perhaps you meant to reference the table alias \"{alias}\"."));
                    return self.at(e, loc);
                }
                if i.alias.as_deref() == Some(name) && (!i.rel_visible || schema.is_some()) {
                    let e = Error::new(
                        sqlstate::UNDEFINED_TABLE,
                        format!("invalid reference to FROM-clause entry for table \"{name}\""),
                    )
                    .with_detail(format!("There is an entry for table \"{name}\", but it cannot be referenced from this part of the query."));
                    return self.at(e, loc);
                }
            }
            level = s.parent;
        }
        self.at(Error::new(sqlstate::UNDEFINED_TABLE, format!("missing FROM-clause entry for table \"{name}\"")), loc)
    }

    /// 42703, with a hint if there is a similar name.
    pub(crate) fn missing_column(&self, scope: &Scope<'_>, table: Option<&str>, name: &str, loc: i32) -> Error {
        let message = match table {
            Some(t) => format!("column {t}.{name} does not exist"),
            None => format!("column \"{name}\" does not exist"),
        };
        let mut e = Error::new(sqlstate::UNDEFINED_COLUMN, message);
        let mut best: Vec<(usize, String)> = Vec::new();
        let mut level = Some(scope);
        while let Some(s) = level {
            for i in s.items.iter().filter(|i| i.rel_visible || i.cols_visible) {
                let Some(alias) = i.alias.as_deref() else { continue };
                let penalty = table.map_or(0, |t| distance(t, alias));
                for c in &i.columns {
                    let d = distance(name, &c.name) + penalty;
                    if d <= 3 && d <= name.len() / 2 {
                        best.push((d, format!("{alias}.{}", c.name)));
                    }
                }
            }
            level = s.parent;
        }
        best.sort();
        if let Some((d, first)) = best.first() {
            let same: Vec<_> = best.iter().filter(|b| b.0 == *d).collect();
            match same.len() {
                1 => e = e.with_hint(format!("Perhaps you meant to reference the column \"{first}\".")),
                2 => {
                    e = e.with_hint(format!(
                        "Perhaps you meant to reference the column \"{first}\" or the column \"{}\".",
                        same[1].1
                    ));
                }
                _ => {}
            }
        }
        self.at(e, loc)
    }
}

/// Levenshtein distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, ca) in a.chars().enumerate() {
        let mut previous = row[0];
        row[0] = i + 1;
        for (j, cb) in b.iter().enumerate() {
            let cost = if ca == *cb { previous } else { previous + 1 };
            previous = row[j + 1];
            row[j + 1] = cost.min(previous + 1).min(row[j] + 1);
        }
    }
    row.last().copied().unwrap_or(0)
}
