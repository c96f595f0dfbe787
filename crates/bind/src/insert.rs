//! INSERT: the columns that it names, and the values that VALUES or a query gives them.

use super::Binder;
use super::ir::*;
use super::scope::{ClauseKind, Scope, TargetName};
use super::view_target::ViewChange;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_catalog::{CastContext, Column, Table, TableKind};
use kilndb_syntax::{Node, nodes, raw};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// One column that an INSERT gives a value for.
pub(super) struct InsertColumn<'n> {
    /// The position among the table's columns, from 0.
    pub position: usize,
    /// Where the statement names the column; -1 when it names none.
    pub location: i32,
    /// The fields and subscripts behind the column's name; empty when the whole column is given.
    pub indirection: Vec<Node<'n>>,
}

/// The columns that an INSERT gives values for, in the order of the values.
pub(super) struct InsertColumns<'n> {
    pub list: Vec<InsertColumn<'n>>,
    /// Whether the statement lists the columns, so that a value is wanted for each.
    pub explicit: bool,
}

/// One value of a VALUES row: stars are bound while the row's length is counted, the rest afterwards.
enum InsertValue<'n> {
    Syntax(Node<'n>),
    Bound(Expr),
}

/// What binding the source of one INSERT works with.
struct InsertSource<'b, 'c, 'n> {
    binder: &'b Binder<'c>,
    scope: &'b Scope<'b>,
    table: &'b Arc<Table>,
    columns: &'b InsertColumns<'n>,
    overriding: raw::OverridingKind::Type,
}

impl Binder<'_> {
    pub(crate) fn bind_insert(&self, s: &nodes::InsertStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut scope, &mut q)?;
        }
        let table = self.dml_target(s.relation())?;
        let target = TargetName::new(s.relation(), &table);
        let mut dml = self.new_dml(DmlKind::Insert, table.clone()).called(target);
        let columns = self.insert_columns(s.cols().iter(), &table)?;
        let given = match s.select_stmt() {
            Node::None => 0,
            Node::SelectStmt(select) => {
                let source = InsertSource {
                    binder: self,
                    scope: &scope,
                    table: &table,
                    columns: &columns,
                    overriding: s.override_,
                };
                if is_plain_values(select) {
                    source.bind_values(select, &mut dml)?
                } else {
                    source.bind_query(select, &mut dml)?
                }
            }
            _ => return Err(Error::internal("INSERT without a source")),
        };
        let mut inference = match s.on_conflict_clause() {
            Some(c) => self.bind_on_conflict(c, target, &scope, &mut dml)?,
            None => None,
        };
        self.bind_returning(s.returning_clause(), target, dml.new_rel, &scope, &mut dml)?;
        let positions: Vec<usize> = columns.list[..given].iter().map(|c| c.position).collect();
        let inserted: Vec<i16> = positions.iter().map(|position| table.columns[*position].attnum).collect();
        if table.kind == TableKind::View {
            let overriding = vec![s.override_];
            let inference = inference.as_mut();
            self.settle_view(ViewChange {
                query: &mut q,
                dml: &mut dml,
                inserted: inserted.clone(),
                overriding,
                inference,
            })?;
        } else {
            self.add_defaults(&table, &positions, dml.new_rel, &mut dml.assignments)?;
        }
        self.row_rules(&dml.table.clone(), dml.new_rel, &mut dml)?;
        if let Some(inference) = inference {
            self.infer_arbiters(&inference, &mut dml)?;
        }
        self.bind_triggers(&mut dml)?;
        if table.kind != TableKind::View {
            self.note_change(&dml, &inserted);
        }
        q.body = QueryBody::Dml(Box::new(dml));
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }

    /// The columns that an INSERT's list names; of an empty list, all of the table's.
    pub(super) fn insert_columns<'n>(
        &self,
        names: impl Iterator<Item = Node<'n>>,
        table: &Table,
    ) -> Result<InsertColumns<'n>> {
        let mut list: Vec<InsertColumn<'n>> = Vec::new();
        for name in names {
            let Node::ResTarget(t) = name else { continue };
            let position = self.find_column(table, t.name().unwrap_or(""), t.location)?;
            let indirection: Vec<Node<'n>> = t.indirection().iter().collect();
            let clashes =
                |c: &InsertColumn<'_>| c.position == position && (indirection.is_empty() || c.indirection.is_empty());
            if list.iter().any(clashes) {
                return self.err(
                    sqlstate::DUPLICATE_COLUMN,
                    format!("column \"{}\" specified more than once", table.columns[position].name),
                    t.location,
                );
            }
            list.push(InsertColumn { position, location: t.location, indirection });
        }
        let explicit = !list.is_empty();
        if !explicit {
            let all = table.columns.iter().enumerate().filter(|(_, c)| !c.dropped);
            list = all.map(|(position, _)| InsertColumn { position, location: -1, indirection: Vec::new() }).collect();
        }
        Ok(InsertColumns { list, explicit })
    }

    /// Adds the defaults of the columns that no value is given for, by position. Those of a view are its own business.
    pub(super) fn add_defaults(
        &self,
        table: &Table,
        given: &[usize],
        rel: u32,
        assignments: &mut Vec<Assignment>,
    ) -> Result<()> {
        for (i, c) in table.columns.iter().enumerate() {
            if c.dropped || c.generated != 0 || given.contains(&i) || table.kind == TableKind::View {
                continue;
            }
            let expr = self.default_of(table, c, rel)?;
            if !matches!(expr.as_const(), Some(Datum::Null)) {
                assignments.push(Assignment { column: i, expr });
            }
        }
        Ok(())
    }

    /// Refuses a source of `count` values, the first of which too many stands at `extra_location`.
    pub(super) fn check_insert_count(
        &self,
        columns: &InsertColumns<'_>,
        count: usize,
        extra_location: i32,
    ) -> Result<()> {
        if count > columns.list.len() {
            let message = "INSERT has more expressions than target columns";
            return self.err(sqlstate::SYNTAX_ERROR, message, extra_location);
        }
        match columns.list.get(count) {
            Some(missing) if columns.explicit => {
                self.err(sqlstate::SYNTAX_ERROR, "INSERT has more target columns than expressions", missing.location)
            }
            _ => Ok(()),
        }
    }
}

impl<'n> InsertSource<'_, '_, 'n> {
    /// Binds lists of VALUES, and returns how many columns get a value.
    fn bind_values(&self, select: &'n nodes::SelectStmt, dml: &mut Dml) -> Result<usize> {
        let scope =
            Scope { clause: ClauseKind::Values, ctes: self.scope.ctes.clone(), ..Scope::new(self.scope.parent) };
        let mut rows: Vec<Vec<Expr>> = Vec::new();
        for list in select.values_lists() {
            let Some(list) = list.as_node_list() else { continue };
            let mut values: Vec<InsertValue<'n>> = Vec::with_capacity(list.len());
            for node in list {
                match node {
                    Node::ColumnRef(c) if c.fields().iter().any(|f| matches!(f, Node::A_Star(_))) => {
                        let columns = self.binder.expand_star(c, &scope)?;
                        values.extend(columns.into_iter().map(|t| InsertValue::Bound(t.expr)));
                    }
                    node => values.push(InsertValue::Syntax(node)),
                }
            }
            if rows.first().is_some_and(|first| first.len() != values.len()) {
                return self.binder.err(sqlstate::SYNTAX_ERROR, "VALUES lists must all be the same length", -1);
            }
            let row = self.bind_values_row(values, &scope, dml.new_rel)?;
            self.binder.check_insert_count(self.columns, row.len(), -1)?;
            rows.push(row);
        }
        let given = rows.first().map_or(0, Vec::len);
        let columns = (0..given).map(|n| self.values_column(n)).collect::<Result<Vec<RelColumn>>>()?;
        let rel = dml.source_rel;
        let mut source = Query::default();
        for (n, c) in columns.iter().enumerate() {
            let expr = c.expr(ColId { rel, att: n as i16 + 1 });
            if self.column(n).generated == 0 {
                self.assign(n, expr.clone(), &mut dml.assignments)?;
            }
            source.targets.push(Target { expr, name: c.name.clone(), junk: false, table_oid: 0, attnum: 0 });
        }
        let kind = RelKind::Values(rows);
        source.rels.push(Rel {
            id: rel,
            alias: "*VALUES*".into(),
            columns,
            kind,
            lateral: false,
            security_quals: Vec::new(),
        });
        source.from.push(JoinTree::Rel(rel));
        dml.source = Some(SharedQuery::new(source));
        Ok(given)
    }

    fn bind_values_row(&self, values: Vec<InsertValue<'n>>, scope: &Scope<'_>, new_rel: u32) -> Result<Vec<Expr>> {
        let mut row = Vec::with_capacity(values.len());
        for (n, value) in values.into_iter().enumerate() {
            let is_extra = n >= self.columns.list.len();
            let e = match value {
                InsertValue::Bound(e) => e,
                InsertValue::Syntax(node) if is_extra => self.binder.bind_expr(node, scope)?,
                InsertValue::Syntax(node) => self.binder.bind_value(node, scope)?,
            };
            if is_extra {
                self.binder.check_insert_count(self.columns, n + 1, e.loc)?;
            }
            row.push(self.value_of_column(n, e, new_rel)?);
        }
        Ok(row)
    }

    /// What VALUES gives column `n`, with the type of what is assigned there.
    fn value_of_column(&self, n: usize, e: Expr, new_rel: u32) -> Result<Expr> {
        let c = self.column(n);
        let indirection = self.columns.list[n].indirection.as_slice();
        if matches!(e.kind, ExprKind::Default) || self.is_overridden_by_default(c) {
            let message = match indirection.first() {
                None => return self.binder.default_of(self.table, c, new_rel),
                Some(Node::String(_)) => "cannot set a subfield to DEFAULT",
                Some(_) => "cannot set an array element to DEFAULT",
            };
            return self.binder.err(sqlstate::FEATURE_NOT_SUPPORTED, message, e.loc);
        }
        self.refuse_value(c)?;
        if indirection.is_empty() {
            return self.binder.assign(e, c, self.table);
        }
        let (ty, typmod) = self.type_of_part(n)?;
        match self.binder.coerce_to_target(e, ty, typmod, CastContext::Assignment, false)? {
            Ok(e) => Ok(e),
            // The assignment of what does not fit says what is wrong with it.
            Err(e) => {
                let null = Expr::null(c.type_oid);
                self.binder.assign_steps(null, indirection, e, &c.name, None, self.scope)
            }
        }
    }

    /// Binds a query whose rows are inserted, and returns how many columns get a value.
    fn bind_query(&self, select: &'n nodes::SelectStmt, dml: &mut Dml) -> Result<usize> {
        let mut source = self.binder.bind_select_as(select, Some(self.scope), false)?;
        let count = source.targets.iter().filter(|t| !t.junk).count();
        let extra_location = source.targets.get(self.columns.list.len()).map_or(-1, |t| t.expr.loc);
        self.binder.check_insert_count(self.columns, count, extra_location)?;
        for n in 0..count {
            let c = self.column(n);
            let value = if self.is_overridden_by_default(c) {
                self.binder.default_of(self.table, c, dml.new_rel)?
            } else {
                self.refuse_value(c)?;
                self.query_column(&mut source, n, dml.source_rel)?
            };
            self.assign(n, value, &mut dml.assignments)?;
        }
        dml.source = Some(SharedQuery::new(source));
        Ok(count)
    }

    /// Column `n` of the rows of `source`; a literal there gets the type of what it is assigned to.
    fn query_column(&self, source: &mut Query, n: usize, source_rel: u32) -> Result<Expr> {
        let c = self.column(n);
        let is_whole = self.columns.list[n].indirection.is_empty();
        let Some(given) = source.targets.iter().filter(|t| !t.junk).nth(n) else {
            return Err(Error::internal("INSERT source"));
        };
        let (mut ty, mut typmod, loc) = (given.expr.ty, given.expr.typmod, given.expr.loc);
        if ty == oids::UNKNOWN {
            ty = self.binder.base_type(if is_whole { c.type_oid } else { self.type_of_part(n)?.0 });
            self.binder.coerce_output(source, n, ty, "INSERT")?;
            typmod = -1;
        }
        let value = Expr::column(ColId { rel: source_rel, att: n as i16 + 1 }, ty, typmod).at(loc);
        if is_whole { self.binder.assign(value, c, self.table) } else { Ok(value) }
    }

    fn column(&self, n: usize) -> &Column {
        &self.table.columns[self.columns.list[n].position]
    }

    fn is_overridden_by_default(&self, c: &Column) -> bool {
        is_overridden_by_default(c, self.overriding)
    }

    fn refuse_value(&self, c: &Column) -> Result<()> {
        refuse_value(c, self.overriding)
    }

    /// Type and modifier of the part of column `n` that is assigned to. Nothing was given for the column before, so
    /// that its part is one of NULL.
    fn type_of_part(&self, n: usize) -> Result<(kilndb_base::Oid, i32)> {
        let c = self.column(n);
        self.binder.part_type(Expr::null(c.type_oid), &self.columns.list[n].indirection, &c.name, self.scope)
    }

    fn values_column(&self, n: usize) -> Result<RelColumn> {
        let c = self.column(n);
        let is_whole = self.columns.list[n].indirection.is_empty();
        let (ty, typmod) = if is_whole { (c.type_oid, c.typmod) } else { self.type_of_part(n)? };
        Ok(RelColumn { name: c.name.clone(), ty, typmod, collation: c.collation.into() })
    }

    /// Assigns `value` to column `n`, or to a part of what the column has been given before.
    fn assign(&self, n: usize, value: Expr, assignments: &mut Vec<Assignment>) -> Result<()> {
        let InsertColumn { position, ref indirection, .. } = self.columns.list[n];
        let c = &self.table.columns[position];
        let expr = if indirection.is_empty() {
            value
        } else {
            let before = assignments.iter().position(|a| a.column == position).map(|at| assignments.remove(at).expr);
            let base = before.unwrap_or_else(|| Expr::null(c.type_oid));
            self.binder.assign_steps(base, indirection, value, &c.name, None, self.scope)?
        };
        assignments.push(Assignment { column: position, expr });
        Ok(())
    }
}

/// Whether `select` is lists of VALUES and nothing else.
fn is_plain_values(select: &nodes::SelectStmt) -> bool {
    !select.values_lists().is_empty()
        && select.sort_clause().is_empty()
        && matches!(select.limit_count(), Node::None)
        && matches!(select.limit_offset(), Node::None)
        && select.with_clause().is_none()
}

/// A value is ignored in favour of the column's default under OVERRIDING USER VALUE.
fn is_overridden_by_default(c: &Column, overriding: raw::OverridingKind::Type) -> bool {
    overriding == raw::OverridingKind::OVERRIDING_USER_VALUE && c.identity != 0
}

/// Whether what is given for a column stands for the column's default.
pub(super) fn wants_default(e: &Expr, c: &Column, overriding: raw::OverridingKind::Type) -> bool {
    matches!(e.kind, ExprKind::Default) || is_overridden_by_default(c, overriding)
}

/// Refuses a value for a column that the user may not give one for.
pub(super) fn refuse_value(c: &Column, overriding: raw::OverridingKind::Type) -> Result<()> {
    let base = |detail: String| {
        Error::new(sqlstate::GENERATED_ALWAYS, format!("cannot insert a non-DEFAULT value into column \"{}\"", c.name))
            .with_detail(detail)
    };
    if c.generated != 0 {
        return Err(base(format!("Column \"{}\" is a generated column.", c.name)));
    }
    if c.identity == b'a' && overriding != raw::OverridingKind::OVERRIDING_SYSTEM_VALUE {
        return Err(base(format!("Column \"{}\" is an identity column defined as GENERATED ALWAYS.", c.name))
            .with_hint("Use OVERRIDING SYSTEM VALUE to override."));
    }
    Ok(())
}
