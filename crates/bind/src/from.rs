//! FROM: tables, views, subqueries, functions, joins.

use super::Binder;
use super::ir::*;
use super::scope::{ClauseKind, NsColumn, NsItem, Scope};
use super::with::output_columns;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::privileges::privilege::SELECT;
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::{Node, NodeList, nodes, raw};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// The OID of the function behind a sequence that a FROM clause names. No statement can name it.
const SEQUENCE_ROW: Oid = 9915;

impl Binder<'_> {
    pub(crate) fn bind_from(&self, list: &NodeList, scope: &mut Scope<'_>, q: &mut Query) -> Result<()> {
        let clause = std::mem::replace(&mut scope.clause, ClauseKind::FromClause);
        for node in list {
            let (tree, items) = self.bind_from_item(node, scope, q)?;
            self.add_items(scope, items)?;
            q.from.push(tree);
        }
        scope.clause = clause;
        Ok(())
    }

    fn add_items(&self, scope: &mut Scope<'_>, items: Vec<NsItem>) -> Result<()> {
        self.check_aliases(&scope.items, &items)?;
        scope.items.extend(items);
        Ok(())
    }

    fn check_aliases(&self, have: &[NsItem], new: &[NsItem]) -> Result<()> {
        for n in new.iter().filter(|n| n.rel_visible) {
            let clash = have.iter().any(|h| {
                h.rel_visible
                    && h.alias.is_some()
                    && h.alias == n.alias
                    && (h.schema == n.schema || h.schema.is_none() || n.schema.is_none() || !h.is_table || !n.is_table)
            });
            if clash {
                return Err(Error::new(
                    sqlstate::DUPLICATE_ALIAS,
                    format!("table name \"{}\" specified more than once", n.alias.as_deref().unwrap_or("")),
                ));
            }
        }
        Ok(())
    }

    pub(super) fn bind_from_item(
        &self,
        node: Node<'_>,
        scope: &Scope<'_>,
        q: &mut Query,
    ) -> Result<(JoinTree, Vec<NsItem>)> {
        kilndb_base::stack::check()?;
        match node {
            Node::RangeVar(v) => self.bind_range_var(v, scope, q),
            Node::RangeSubselect(s) => self.bind_range_subselect(s, scope, q),
            Node::RangeFunction(f) => self.bind_range_function(f, scope, q),
            Node::JoinExpr(j) => self.bind_join(j, scope, q),
            Node::RangeTableSample(_) => Err(Error::unsupported("TABLESAMPLE")),
            Node::RangeTableFunc(_) => Err(Error::unsupported("XMLTABLE")),
            Node::JsonTable(_) => Err(Error::unsupported("JSON_TABLE")),
            _ => Err(Error::unsupported("this kind of FROM item")),
        }
    }

    /// The table a RangeVar names; errors as PostgreSQL's.
    pub(crate) fn find_table(&self, v: &nodes::RangeVar) -> Result<Arc<Table>> {
        let name = v.relname().unwrap_or("");
        let schema = v.schemaname();
        refuse_other_database(v, self.catalog.database_name()).map_err(|e| self.at(e, v.location))?;
        if let Some(t) = self.catalog.table_by_name(schema, name)? {
            self.note_table(schema, &t, v.alias().is_none(), v.location);
            return Ok(t);
        }
        let shown = schema.map_or_else(|| name.to_string(), |s| format!("{s}.{name}"));
        self.err(sqlstate::UNDEFINED_TABLE, format!("relation \"{shown}\" does not exist"), v.location)
    }

    #[inline(never)]
    fn bind_range_var(&self, v: &nodes::RangeVar, scope: &Scope<'_>, q: &mut Query) -> Result<(JoinTree, Vec<NsItem>)> {
        let is_opaque = self.opaque_view.take();
        let name = v.relname().unwrap_or("");
        let alias = v.alias().and_then(|a| a.aliasname()).unwrap_or(name).to_string();
        if v.schemaname().is_none()
            && let Some(cte) = scope.find_cte(name)
        {
            if cte.is_silent {
                return self.err(
                    sqlstate::FEATURE_NOT_SUPPORTED,
                    format!("WITH query \"{name}\" does not have a RETURNING clause"),
                    v.location,
                );
            }
            let kind = RelKind::Cte { cte: cte.id, recursive_self: cte.recursive_self };
            let rel = Rel {
                id: self.new_rel(),
                alias,
                columns: cte.columns.clone(),
                kind,
                lateral: false,
                security_quals: Vec::new(),
            };
            return self.add_rel(q, rel, v.alias(), oids::RECORD);
        }
        if v.schemaname().is_none()
            && let Some((table, is_new)) = self.catalog.transition_table(name)
        {
            let (kind, columns, row_type) = self.transition_rel(&table, is_new);
            let rel = Rel { id: self.new_rel(), alias, columns, kind, lateral: false, security_quals: Vec::new() };
            return self.add_rel(q, rel, v.alias(), row_type);
        }
        let table = self.find_table(v)?;
        self.note_from(v, &table);
        let rel = self.new_rel();
        if !matches!(table.kind, TableKind::Index | TableKind::Composite) {
            self.note_access(rel, &table, SELECT);
        }
        match table.kind {
            TableKind::View if !is_opaque && !self.keeps_views => {
                let sql = table.view_sql.clone().unwrap_or_default();
                let inner = self.bind_view(&table, &sql)?;
                let columns: Vec<RelColumn> =
                    table.columns.iter().filter(|c| !c.dropped).map(RelColumn::from).collect();
                let kind = RelKind::Subquery(SharedQuery::new(inner));
                let rel = Rel { id: rel, alias, columns, kind, lateral: false, security_quals: Vec::new() };
                let (tree, mut items) = self.add_rel(q, rel, v.alias(), table.type_oid)?;
                if let Some(item) = items.first_mut() {
                    item.stands_for(&table, v.alias().is_some());
                }
                Ok((tree, items))
            }
            TableKind::Sequence => {
                let rel = sequence_rel(rel, alias, &table);
                let (tree, mut items) = self.add_rel(q, rel, v.alias(), oids::RECORD)?;
                if let Some(item) = items.first_mut() {
                    item.stands_for(&table, v.alias().is_some());
                }
                Ok((tree, items))
            }
            TableKind::Index | TableKind::Composite => {
                let e = Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("cannot open relation \"{name}\""))
                    .with_detail(format!("This operation is not supported for {}.", table.kind.plural()));
                Err(self.at(e, v.location))
            }
            _ => {
                let mut item = NsItem::of_table(rel, &table, &alias);
                item.schema = if v.alias().is_none() { Some(table.schema_name.clone()) } else { None };
                self.rename_columns(&mut item, v.alias())?;
                q.rels.push(Rel {
                    id: rel,
                    alias,
                    columns: table_columns(&table),
                    security_quals: own_rows(v, &table),
                    kind: RelKind::Table(table),
                    lateral: false,
                });
                Ok((JoinTree::Rel(rel), vec![item]))
            }
        }
    }

    pub(super) fn bind_view(&self, table: &Table, sql: &str) -> Result<Query> {
        let mut bound = self.with_view_query(table, sql, |select| self.bind_select(select, None))?;
        bound.is_barrier = table.is_security_barrier;
        Ok(bound)
    }

    /// Has `bind` bind the query of a view, for whom the view reads its relations.
    pub(super) fn with_view_query<R>(
        &self,
        table: &Table,
        sql: &str,
        bind: impl FnOnce(&nodes::SelectStmt) -> Result<R>,
    ) -> Result<R> {
        let script = kilndb_syntax::parse(sql)?;
        let statements = script.statements();
        let Some(Node::SelectStmt(s)) = statements.first().map(|s| s.node()) else {
            return Err(Error::internal(format!("view \"{}\" has no SELECT", table.name)));
        };
        let saved = self.source.replace(Arc::from(sql));
        let bound = self.for_owner_of(table, || self.without_variables(|| bind(s)));
        self.source.replace(saved);
        bound
    }

    fn rename_columns(&self, item: &mut NsItem, alias: Option<&nodes::Alias>) -> Result<()> {
        let Some(alias) = alias else { return Ok(()) };
        let names: Vec<&str> = alias.colnames().iter().filter_map(|n| n.as_str()).collect();
        if names.len() > item.columns.len() {
            return Err(Error::new(
                sqlstate::INVALID_COLUMN_REFERENCE,
                format!(
                    "table \"{}\" has {} columns available but {} columns specified",
                    alias.aliasname().unwrap_or(""),
                    item.columns.len(),
                    names.len()
                ),
            ));
        }
        for (c, n) in item.columns.iter_mut().zip(names) {
            c.name = n.to_string();
            c.is_named_here = true;
        }
        Ok(())
    }

    /// Adds `rel` to the query's FROM items, under the names that `alias` gives its columns. `row_type` is the type of
    /// its rows as whole values.
    fn add_rel(
        &self,
        q: &mut Query,
        rel: Rel,
        alias: Option<&nodes::Alias>,
        row_type: kilndb_base::Oid,
    ) -> Result<(JoinTree, Vec<NsItem>)> {
        let id = rel.id;
        let ns = rel
            .columns
            .iter()
            .enumerate()
            .map(|(i, c)| NsColumn {
                name: c.name.clone(),
                expr: c.expr(ColId { rel: id, att: i as i16 + 1 }),
                table_oid: 0,
                attnum: 0,
                is_named_here: false,
            })
            .collect();
        let mut item = NsItem::new(Some(rel.alias.clone()), id, ns);
        item.row_type = row_type;
        self.rename_columns(&mut item, alias)?;
        q.rels.push(rel);
        Ok((JoinTree::Rel(id), vec![item]))
    }

    /// A scope for a FROM item: with or without its left neighbours.
    fn item_scope<'s>(scope: &'s Scope<'s>, lateral: bool) -> Scope<'s> {
        if lateral {
            let mut s = Scope::new(Some(scope));
            s.clause = ClauseKind::From;
            return s;
        }
        let mut s = Scope::new(scope.parent);
        s.ctes = scope.ctes.clone();
        s
    }

    #[inline(never)]
    fn bind_range_subselect(
        &self,
        s: &nodes::RangeSubselect,
        scope: &Scope<'_>,
        q: &mut Query,
    ) -> Result<(JoinTree, Vec<NsItem>)> {
        let Node::SelectStmt(select) = s.subquery() else { return Err(Error::internal("subquery")) };
        let outer = Self::item_scope(scope, s.lateral);
        let inner = self.bind_select(select, Some(&outer))?;
        let columns = output_columns(&inner);
        let alias = s.alias().and_then(|a| a.aliasname()).unwrap_or("unnamed_subquery").to_string();
        let unnamed = s.alias().is_none();
        let kind = RelKind::Subquery(SharedQuery::new(inner));
        let rel = Rel { id: self.new_rel(), alias, columns, kind, lateral: s.lateral, security_quals: Vec::new() };
        let (tree, mut items) = self.add_rel(q, rel, s.alias(), oids::RECORD)?;
        if unnamed && let Some(i) = items.first_mut() {
            i.alias = None;
        }
        Ok((tree, items))
    }

    #[inline(never)]
    fn bind_range_function(
        &self,
        f: &nodes::RangeFunction,
        scope: &Scope<'_>,
        q: &mut Query,
    ) -> Result<(JoinTree, Vec<NsItem>)> {
        let inner = Self::item_scope(scope, true);
        let mut calls = Vec::new();
        let mut columns: Vec<RelColumn> = Vec::new();
        let mut alias = None;
        let mut scalar = false;
        let functions = listed_functions(f);
        let single = functions.len() == 1;
        let mut row_type = oids::RECORD;
        for function in functions {
            let ListedFunction { node, own_defs, unnest_at } = function;
            let node_name = if unnest_at.is_some() { "unnest".to_string() } else { super::select::figure_name(node) };
            alias.get_or_insert(node_name.clone());
            let mut expr = match unnest_at {
                Some(loc) => self.bind_unnest(node, &inner, loc)?,
                None => self.bind_expr(node, &inner)?,
            };
            let mut defs: Vec<RelColumn> = Vec::new();
            let mut define = |d: &nodes::ColumnDef| -> Result<()> {
                let Some(t) = d.type_name() else { return Ok(()) };
                let (ty, typmod) = self.resolve_type(t)?;
                let name = d.colname().unwrap_or("").to_string();
                defs.push(RelColumn::plain(name, ty, typmod));
                Ok(())
            };
            for d in f.coldeflist() {
                define(d)?;
            }
            if let Some(Node::NodeList(l)) = own_defs {
                for d in l {
                    if let Node::ColumnDef(d) = d {
                        define(d)?;
                    }
                }
            }
            if let (ExprKind::Func(x), false) = (&mut expr.kind, defs.is_empty()) {
                let columns = defs
                    .iter()
                    .map(|d| kilndb_catalog::routine::RowColumn {
                        name: d.name.clone(),
                        type_oid: d.ty,
                        typmod: d.typmod,
                    })
                    .collect();
                x.expected = Some(std::sync::Arc::new(kilndb_catalog::routine::TupleDescriptor {
                    type_oid: oids::RECORD,
                    columns,
                }));
            }
            let fields = self.fields_of(&expr)?;
            let (list, composite) = if !defs.is_empty() {
                (defs, true)
            } else if let (Some(fields), true) =
                (fields, expr.ty == oids::RECORD || self.is_composite(self.base_type(expr.ty)))
            {
                row_type = expr.ty;
                (fields.into_iter().map(|(name, ty, typmod)| RelColumn::plain(name, ty, typmod)).collect(), true)
            } else {
                if expr.ty == oids::RECORD {
                    return self.err(
                        sqlstate::SYNTAX_ERROR,
                        "a column definition list is required for functions returning \"record\"",
                        expr.loc,
                    );
                }
                scalar = single;
                let out_name = match &expr.kind {
                    ExprKind::Func(x) => self.catalog.function_by_oid(x.oid)?.and_then(|i| {
                        i.arg_modes
                            .iter()
                            .position(|m| matches!(m, b'o' | b't'))
                            .and_then(|p| i.arg_names.get(p).cloned())
                    }),
                    _ => None,
                };
                let named = f.alias().and_then(|a| a.aliasname()).filter(|_| single);
                let name = match (out_name.filter(|n| !n.is_empty()), named) {
                    (Some(n), _) => n,
                    (None, Some(n)) => n.to_string(),
                    (None, None) => node_name,
                };
                (vec![expr.rel_column(name)], false)
            };
            calls.push(TableFunc { expr, columns: list.len(), composite });
            columns.extend(list);
        }
        if f.ordinality {
            columns.push(RelColumn::plain("ordinality", oids::INT8, -1));
            scalar = false;
        }
        let alias = f.alias().and_then(|a| a.aliasname()).map_or_else(|| alias.unwrap_or_default(), str::to_string);
        let kind = RelKind::Function { calls, ordinality: f.ordinality };
        let rel = Rel { id: self.new_rel(), alias, columns, kind, lateral: true, security_quals: Vec::new() };
        let (tree, mut items) = self.add_rel(q, rel, f.alias(), row_type)?;
        if let Some(i) = items.first_mut() {
            i.scalar_function = scalar;
        }
        Ok((tree, items))
    }

    #[inline(never)]
    fn bind_join(&self, j: &nodes::JoinExpr, scope: &Scope<'_>, q: &mut Query) -> Result<(JoinTree, Vec<NsItem>)> {
        let kind = match j.jointype {
            raw::JoinType::JOIN_LEFT => JoinKind::Left,
            raw::JoinType::JOIN_RIGHT => JoinKind::Right,
            raw::JoinType::JOIN_FULL => JoinKind::Full,
            _ => JoinKind::Inner,
        };
        let (left_tree, mut left) = self.bind_from_item(j.larg(), scope, q)?;
        // The right side sees the left one if it is LATERAL.
        let (right_tree, mut right) = {
            let mut inner = Scope::new(scope.parent);
            inner.clause = ClauseKind::FromClause;
            inner.ctes = scope.ctes.clone();
            inner.items = scope.items.clone();
            let ok = matches!(kind, JoinKind::Inner | JoinKind::Left);
            inner.items.extend(left.iter().cloned().map(|mut i| {
                i.lateral_only = true;
                i.lateral_ok = ok;
                i
            }));
            self.bind_from_item(j.rarg(), &inner, q)?
        };
        self.check_aliases(&left, &right)?;
        let mut using: Vec<String> = j.using_clause().iter().filter_map(|s| s.sval().map(str::to_string)).collect();
        let visible = |items: &[NsItem]| -> Vec<NsColumn> {
            items.iter().filter(|i| i.cols_visible).flat_map(|i| i.columns.clone()).collect()
        };
        let (left_columns, right_columns) = (visible(&left), visible(&right));
        if j.is_natural {
            // A new name could make two columns one.
            left_columns.iter().chain(&right_columns).for_each(|column| self.note_joined_column(column));
            using = left_columns
                .iter()
                .filter(|l| right_columns.iter().any(|r| r.name == l.name))
                .map(|l| l.name.clone())
                .collect();
            self.note_natural(j.rarg(), &using);
        }
        let mut on = None;
        let mut merged: Vec<NsColumn> = Vec::new();
        if !using.is_empty() {
            let mut parts = Vec::new();
            for (n, name) in using.iter().enumerate() {
                if using[..n].contains(name) {
                    return Err(Error::new(
                        sqlstate::DUPLICATE_COLUMN,
                        format!("column name \"{name}\" appears more than once in USING clause"),
                    ));
                }
                let find = |columns: &[NsColumn], side: &str| -> Result<NsColumn> {
                    let mut hits = columns.iter().filter(|c| c.name == *name);
                    let Some(first) = hits.next() else {
                        return Err(Error::new(
                            sqlstate::UNDEFINED_COLUMN,
                            format!("column \"{name}\" specified in USING clause does not exist in {side} table"),
                        ));
                    };
                    if hits.next().is_some() {
                        return Err(Error::new(
                            sqlstate::AMBIGUOUS_COLUMN,
                            format!("common column name \"{name}\" appears more than once in {side} table"),
                        ));
                    }
                    Ok(first.clone())
                };
                let (l, r) = (find(&left_columns, "left")?, find(&right_columns, "right")?);
                self.note_joined_column(&l);
                self.note_joined_column(&r);
                parts.push(self.make_operator(None, "=", Some(l.expr.clone()), r.expr.clone(), -1)?);
                let ty = self.common_type(&[&l.expr, &r.expr], "JOIN/USING")?;
                let le = self.coerce_to_common(l.expr.clone(), ty, "JOIN/USING")?;
                let re = self.coerce_to_common(r.expr.clone(), ty, "JOIN/USING")?;
                let expr = match kind {
                    JoinKind::Full => Expr::new(ExprKind::Coalesce(vec![le, re]), ty),
                    JoinKind::Right => re,
                    _ => le,
                };
                let from = if kind == JoinKind::Right { &r } else { &l };
                merged.push(NsColumn { expr, ..from.clone() });
            }
            on = Expr::and_all(parts);
        } else if !matches!(j.quals(), Node::None) {
            let mut inner = Scope::new(scope.parent);
            inner.ctes = scope.ctes.clone();
            inner.clause = ClauseKind::On;
            inner.items.extend(left.iter().cloned());
            inner.items.extend(right.iter().cloned());
            on = self.bind_condition(j.quals(), &inner, "JOIN/ON")?;
        }
        let (kind, left_tree, right_tree) = match kind {
            JoinKind::Right => (JoinKind::Left, right_tree, left_tree),
            k => (k, left_tree, right_tree),
        };
        let tree = JoinTree::Join { kind, left: Box::new(left_tree), right: Box::new(right_tree), on };
        let mut items = Vec::new();
        let alias = j.alias().and_then(|a| a.aliasname()).map(str::to_string);
        if !merged.is_empty() || alias.is_some() {
            let mut columns = merged.clone();
            columns.extend(left_columns.into_iter().filter(|c| !using.contains(&c.name)));
            columns.extend(right_columns.into_iter().filter(|c| !using.contains(&c.name)));
            let rel = self.new_rel();
            let mut item = NsItem::new(alias.clone(), rel, columns);
            self.rename_columns(&mut item, j.alias())?;
            item.rel_visible = alias.is_some();
            for i in left.iter_mut().chain(right.iter_mut()) {
                i.cols_visible = false;
                if alias.is_some() {
                    i.rel_visible = false;
                }
            }
            items.append(&mut left);
            items.append(&mut right);
            items.push(item);
        } else {
            items.append(&mut left);
            items.append(&mut right);
        }
        if let Some(a) = j.join_using_alias() {
            let mut item = NsItem::new(a.aliasname().map(str::to_string), self.new_rel(), merged);
            item.cols_visible = false;
            items.push(item);
        }
        Ok((tree, items))
    }
}

pub(crate) fn table_columns(table: &Table) -> Vec<RelColumn> {
    table.columns.iter().map(RelColumn::from).collect()
}

/// 0A000 for a relation of another database than `database`, the session's.
pub fn refuse_other_database(r: &nodes::RangeVar, database: &str) -> Result<()> {
    match r.catalogname() {
        Some(other) if other != database => {
            let names = [Some(other), r.schemaname(), r.relname()].map(Option::unwrap_or_default);
            Err(kilndb_catalog::qualified_name::other_database(&format!("\"{}\"", names.join("."))))
        }
        _ => Ok(()),
    }
}

/// A FROM item that a function gives which no statement can name: rows of a record with these columns.
pub(super) fn rows_of_unnamed(call: UnnamedCall<'_>, columns: usize) -> RelKind {
    let call = FuncExpr {
        oid: call.function,
        name: call.shown.into(),
        args: call.args,
        strict: false,
        volatility: b'v',
        returns_set: call.returns_set,
        form: FuncForm::Call,
        operator: 0,
        variadic: false,
        internal: false,
        expected: None,
    };
    let expr = Expr::new(ExprKind::Func(Box::new(call)), oids::RECORD);
    RelKind::Function { calls: vec![TableFunc { expr, columns, composite: true }], ordinality: false }
}

/// A call of a function that pg_proc does not have. `shown`: its name in plans.
pub(super) struct UnnamedCall<'a> {
    pub function: Oid,
    pub shown: &'a str,
    pub args: Vec<Expr>,
    pub returns_set: bool,
}

/// The one row of a sequence.
fn sequence_rel(id: u32, alias: String, sequence: &Table) -> Rel {
    let columns = table_columns(sequence);
    let sequence_oid = Expr::new(ExprKind::Const(Datum::Oid(sequence.oid)), oids::REGCLASS);
    let call =
        UnnamedCall { function: SEQUENCE_ROW, shown: &sequence.name, args: vec![sequence_oid], returns_set: false };
    let kind = rows_of_unnamed(call, columns.len());
    Rel { id, alias, columns, kind, lateral: false, security_quals: Vec::new() }
}

/// A function of FROM, or of ROWS FROM.
struct ListedFunction<'a> {
    node: Node<'a>,
    own_defs: Option<Node<'a>>,
    /// The node is but the argument of an `unnest` that stands here.
    unnest_at: Option<i32>,
}

/// The functions whose results stand beside one another. `unnest(a, b, …)` means one `unnest` for each argument, if
/// nothing but the name and the arguments is there (PostgreSQL's transformRangeFunction).
fn listed_functions<'a>(f: &'a nodes::RangeFunction) -> Vec<ListedFunction<'a>> {
    let mut list = Vec::new();
    for pair in f.functions() {
        let (node, own_defs) = match pair.as_node_list() {
            Some(l) => (l.get(0).unwrap_or(Node::None), l.get(1)),
            None => (pair, None),
        };
        let is_defined = f.coldeflist().iter().next().is_some() || matches!(own_defs, Some(Node::NodeList(_)));
        match node {
            Node::FuncCall(call) if !is_defined && is_plain_unnest(call) => {
                let unnest_at = Some(call.location);
                list.extend(call.args().iter().map(|node| ListedFunction { node, own_defs: None, unnest_at }));
            }
            _ => list.push(ListedFunction { node, own_defs, unnest_at: None }),
        }
    }
    list
}

fn is_plain_unnest(call: &nodes::FuncCall) -> bool {
    let names: Vec<&str> = call.funcname().iter().filter_map(|n| n.as_str()).collect();
    names == ["unnest"]
        && call.args().len() > 1
        && call.agg_order().is_empty()
        && matches!(call.agg_filter(), Node::None)
        && call.over().is_none()
        && !(call.agg_star || call.agg_distinct || call.agg_within_group || call.func_variadic)
}

/// ONLY of a partitioned table: all rows are in its partitions, so none is there.
pub(crate) fn own_rows(named: &nodes::RangeVar, table: &Table) -> Vec<Expr> {
    let has_none = !named.inh && table.kind == TableKind::Partitioned;
    has_none.then(|| Expr::bool(false)).into_iter().collect()
}
