//! UPDATE and DELETE, and what all statements that change rows have in common: their table, its rules, RETURNING.

use super::Binder;
use super::from::{own_rows, table_columns};
use super::ir::*;
use super::scope::{ClauseKind, NsItem, Scope, TargetName};
use super::view_target::ViewChange;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::trigger::{BEFORE, ROW, UPDATE};
use kilndb_catalog::{CastContext, Column, Table, TableKind};
use kilndb_syntax::{Node, nodes, raw};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

impl Binder<'_> {
    pub(super) fn dml_target(&self, v: Option<&nodes::RangeVar>) -> Result<Arc<Table>> {
        let Some(v) = v else { return Err(Error::internal("statement without a table")) };
        let table = self.find_table(v)?;
        self.note_written(&table);
        match table.kind {
            TableKind::Table | TableKind::Partitioned => {}
            TableKind::Materialized if self.maintained == table.oid => {}
            TableKind::Materialized => {
                let message = format!("cannot change materialized view \"{}\"", table.name);
                return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, message));
            }
            TableKind::View => {}
            TableKind::Sequence => {
                return Err(Error::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("cannot change sequence \"{}\"", table.name),
                ));
            }
            _ => {
                return Err(Error::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    format!("cannot open relation \"{}\"", table.name),
                ));
            }
        }
        self.refuse_catalog(&table)?;
        Ok(table)
    }

    /// Binds SQL text of the catalogs over the row `rel` of `table`.
    pub fn bind_catalog_sql(&self, sql: &str, table: &Table, rel: u32) -> Result<Expr> {
        let mut scope = Scope::new(None);
        scope.items.push(NsItem::of_table(rel, table, &table.name));
        self.bind_sql_text(sql, &scope)
    }

    pub(crate) fn bind_sql_text(&self, sql: &str, scope: &Scope<'_>) -> Result<Expr> {
        let text = format!("SELECT {sql}");
        let script = kilndb_syntax::parse(&text)?;
        let statements = script.statements();
        let Some(Node::SelectStmt(s)) = statements.first().map(|s| s.node()) else {
            return Err(Error::internal("expression text is not an expression"));
        };
        let Some(first) = s.target_list().first() else { return Err(Error::internal("expression text is empty")) };
        let saved = self.source.replace(Arc::from(text.as_str()));
        let bound = self.without_variables(|| self.bind_expr(first.val(), scope));
        self.source.replace(saved);
        bound
    }

    /// The value a column gets when none is given. That of a view's column is not known before it is clear whose column
    /// it is.
    pub(crate) fn default_of(&self, table: &Table, column: &Column, rel: u32) -> Result<Expr> {
        if table.kind == TableKind::View {
            return Ok(Expr::new(ExprKind::Default, column.type_oid));
        }
        if let Some(sequence) = column.identity_sequence {
            return self.assign(next_value(sequence), column, table);
        }
        match (&column.default_sql, column.generated) {
            (Some(sql), 0) => {
                let e = self.bind_catalog_sql(sql, table, rel)?;
                self.assign(e, column, table)
            }
            (_, 0) => self.default_of_domain(table, column, rel),
            _ => Ok(Expr::null(column.type_oid)),
        }
    }

    /// The default that a view's column has by itself, or by its type.
    pub(super) fn own_default(&self, view: &Table, column: &Column, rel: u32) -> Result<Option<Expr>> {
        match &column.default_sql {
            Some(sql) => {
                let e = self.bind_catalog_sql(sql, view, rel)?;
                self.assign(e, column, view).map(Some)
            }
            None => self.domain_default(view, column, rel),
        }
    }

    /// The default of the column's type; a domain may not be content with NULL.
    fn default_of_domain(&self, table: &Table, column: &Column, rel: u32) -> Result<Expr> {
        if let Some(e) = self.domain_default(table, column, rel)? {
            return Ok(e);
        }
        Ok(self.null_of(column))
    }

    pub(super) fn null_of(&self, column: &Column) -> Expr {
        let ty = self.base_type(column.type_oid);
        let null = Expr::null(ty);
        if ty == column.type_oid { null } else { self.to_domain(null, column.type_oid, false) }
    }

    fn domain_default(&self, table: &Table, column: &Column, rel: u32) -> Result<Option<Expr>> {
        let mut ty = column.type_oid;
        while self.under_domain(ty).is_some() {
            let info = self.type_info(ty)?;
            if let Some(sql) = info.domain.as_ref().and_then(|d| d.default_sql.as_ref()) {
                let e = self.bind_catalog_sql(sql, table, rel)?;
                return self.assign(e, column, table).map(Some);
            }
            ty = info.base_type;
        }
        Ok(None)
    }

    /// Assignment conversion to a column's type.
    pub(crate) fn assign(&self, e: Expr, column: &Column, _table: &Table) -> Result<Expr> {
        match self.coerce_to_target(e, column.type_oid, column.typmod, CastContext::Assignment, false)? {
            Ok(e) => Ok(e),
            Err(e) => {
                let err = Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    format!(
                        "column \"{}\" is of type {} but expression is of type {}",
                        column.name,
                        self.catalog.format_type(column.type_oid, -1),
                        self.type_name(e.ty)
                    ),
                )
                .with_hint("You will need to rewrite or cast the expression.");
                Err(self.at(err, e.loc))
            }
        }
    }

    /// Generated columns, checks and index expressions over `rel`.
    pub(super) fn row_rules(&self, table: &Arc<Table>, rel: u32, dml: &mut Dml) -> Result<()> {
        for (i, c) in table.columns.iter().enumerate() {
            if c.dropped || c.generated != b's' {
                continue;
            }
            if let Some(sql) = &c.default_sql {
                let e = self.bind_catalog_sql(sql, table, rel)?;
                dml.generated.push(Assignment { column: i, expr: self.assign(e, c, table)? });
            }
        }
        for check in table.checks.iter().filter(|check| check.enforced) {
            let e = self.bind_catalog_sql(&check.sql, table, rel)?;
            dml.checks.push((check.name.clone(), self.coerce_bool(e, "CHECK")?));
        }
        dml.indexes = self.bind_indexes(table, rel)?;
        dml.rule_functions = rule_functions(dml);
        Ok(())
    }

    /// Generated columns, checks and index expressions of a table that no statement names, over `rel`.
    pub fn bind_rules(&self, table: &Arc<Table>, rel: u32) -> Result<Dml> {
        let mut dml = self.new_dml(DmlKind::Insert, table.clone());
        self.row_rules(table, rel, &mut dml)?;
        Ok(dml)
    }

    pub(crate) fn bind_indexes(&self, table: &Arc<Table>, rel: u32) -> Result<Vec<BoundIndex>> {
        let mut out = Vec::new();
        for index in &table.indexes {
            let mut expressions = Vec::new();
            for k in &index.keys {
                expressions.push(match &k.expression_sql {
                    Some(sql) if k.attnum == 0 => Some(self.resolve_unknown(self.bind_catalog_sql(sql, table, rel)?)?),
                    _ => None,
                });
            }
            let predicate = match &index.predicate_sql {
                Some(sql) => Some(self.coerce_bool(self.bind_catalog_sql(sql, table, rel)?, "WHERE")?),
                None => None,
            };
            out.push(BoundIndex { index: index.clone(), expressions, predicate });
        }
        Ok(out)
    }

    pub(super) fn new_dml(&self, kind: DmlKind, table: Arc<Table>) -> Dml {
        let rel = self.new_rel();
        let has_triggers = !table.triggers.is_empty();
        Dml {
            kind,
            alias: table.name.clone(),
            table,
            rel,
            excluded_rel: self.new_rel(),
            old_rel: rel,
            new_rel: self.new_rel(),
            source: None,
            source_rel: self.new_rel(),
            assignments: Vec::new(),
            generated: Vec::new(),
            checks: Vec::new(),
            row_checks: Vec::new(),
            rule_functions: RuleFunctions::default(),
            on_conflict: None,
            merge: Vec::new(),
            merge_on: None,
            returning: Vec::new(),
            row_filter: None,
            moves_rows: false,
            is_of_key: false,
            triggers: Vec::new(),
            old_values_rel: if has_triggers { self.new_rel() } else { rel },
            indexes: Vec::new(),
        }
    }

    pub(crate) fn find_column(&self, table: &Table, name: &str, loc: i32) -> Result<usize> {
        match table.columns.iter().position(|c| !c.dropped && c.name == name) {
            Some(i) => {
                self.note_attribute(table.oid, table.columns[i].attnum, name, loc);
                Ok(i)
            }
            None if super::scope::system_column(name).is_some() => {
                self.err(sqlstate::FEATURE_NOT_SUPPORTED, format!("cannot assign to system column \"{name}\""), loc)
            }
            None => self.err(
                sqlstate::UNDEFINED_COLUMN,
                format!("column \"{name}\" of relation \"{}\" does not exist", table.name),
                loc,
            ),
        }
    }

    pub(crate) fn bind_returning(
        &self,
        clause: Option<&nodes::ReturningClause>,
        target: TargetName<'_>,
        visible_rel: u32,
        scope: &Scope<'_>,
        dml: &mut Dml,
    ) -> Result<()> {
        let Some(clause) = clause else { return Ok(()) };
        let is_merge = dml.kind == DmlKind::Merge;
        let returning = if is_merge { ClauseKind::MergeReturning } else { ClauseKind::Returning };
        let mut here = Scope { clause: returning, ctes: scope.ctes.clone(), ..Scope::new(scope.parent) };
        here.items.extend(scope.items.iter().filter(|i| i.rel != dml.rel).cloned());
        let at = if is_merge { here.items.len() } else { 0 };
        here.items.insert(at, target.item(visible_rel, &dml.table));
        let mut old_name = "old".to_string();
        let mut new_name = "new".to_string();
        for o in clause.options() {
            let value = o.value().unwrap_or("").to_string();
            if o.option == raw::ReturningOptionKind::RETURNING_OPTION_OLD { old_name = value } else { new_name = value }
        }
        for (name, rel) in [(old_name, dml.old_rel), (new_name, dml.new_rel)] {
            if here.items.iter().any(|i| i.alias.as_deref() == Some(&name)) {
                continue;
            }
            let mut item = NsItem::of_table(rel, &dml.table, &name);
            item.cols_visible = false;
            here.items.push(item);
        }
        let mut list = Vec::new();
        for n in clause.exprs() {
            if let Node::ResTarget(t) = n {
                list.push(t);
            }
        }
        let mut targets = self.bind_targets(list.into_iter(), &here)?;
        for t in &mut targets {
            self.resolve_target(t)?;
        }
        dml.returning = targets;
        Ok(())
    }

    /// SET lists of UPDATE, ON CONFLICT and MERGE. `rel` is where the current row is.
    pub(crate) fn bind_set<'n>(
        &self,
        list: impl Iterator<Item = &'n nodes::ResTarget>,
        table: &Arc<Table>,
        rel: u32,
        scope: &Scope<'_>,
    ) -> Result<Vec<Assignment>> {
        let mut out: Vec<Assignment> = Vec::new();
        for t in list {
            let name = t.name().unwrap_or("");
            let i = self.find_column(table, name, t.location)?;
            let c = &table.columns[i];
            let e = match t.val() {
                Node::MultiAssignRef(m) => self.multi_assign(m, scope)?,
                node => self.bind_value(node, scope)?,
            };
            let is_default = matches!(e.kind, ExprKind::Default);
            refuse_update(c, &e)?;
            if c.generated != 0 {
                continue;
            }
            let previous = out.iter().position(|a| a.column == i);
            if previous.is_some() && t.indirection().is_empty() {
                return self.err(sqlstate::SYNTAX_ERROR, format!("multiple assignments to same column \"{name}\""), -1);
            }
            let expr = if !t.indirection().is_empty() {
                let base = match previous {
                    Some(p) => out.remove(p).expr,
                    None => Expr::of_column(rel, c),
                };
                self.assign_steps(base, &t.indirection().iter().collect::<Vec<_>>(), e, name, None, scope)?
            } else if is_default {
                self.default_of(table, c, rel)?
            } else {
                self.assign(e, c, table)?
            };
            out.push(Assignment { column: i, expr });
        }
        Ok(out)
    }

    /// The value of one column of `(a, b) = (…)`.
    fn multi_assign(&self, m: &nodes::MultiAssignRef, scope: &Scope<'_>) -> Result<Expr> {
        let index = usize::try_from(m.colno - 1).unwrap_or(0);
        let count = usize::try_from(m.ncolumns).unwrap_or(0);
        match m.source() {
            Node::RowExpr(r) => {
                let mut fields = self.bind_row_fields(r, scope)?;
                if fields.len() != count {
                    return self.err(
                        sqlstate::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                        r.location,
                    );
                }
                Ok(fields.swap_remove(index))
            }
            Node::SubLink(s) if s.sub_link_type == raw::SubLinkType::EXPR_SUBLINK => {
                let Node::SelectStmt(select) = s.subselect() else { return Err(Error::internal("subquery")) };
                let query = self.bind_select(select, Some(scope))?;
                let visible: Vec<(Oid, i32)> =
                    query.targets.iter().filter(|t| !t.junk).map(|t| (t.expr.ty, t.expr.typmod)).collect();
                if visible.len() != count {
                    return self.err(
                        sqlstate::SYNTAX_ERROR,
                        "number of columns does not match number of values",
                        s.location,
                    );
                }
                let (ty, typmod) = visible[index];
                let link = SubLink {
                    id: self.new_rel(),
                    kind: SubKind::Row,
                    query: SharedQuery::new(query),
                    left: Vec::new(),
                    test: None,
                    test_rel: 0,
                    equality: false,
                };
                let row = Expr::new(ExprKind::SubLink(Box::new(link)), oids::RECORD);
                let kind = ExprKind::Field { arg: Box::new(row), index, name: String::new() };
                Ok(Expr::new(kind, ty).with_typmod(typmod).at(s.location))
            }
            _ => Err(Error::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "source for a multiple-column UPDATE item must be a sub-SELECT or ROW() expression",
            )),
        }
    }

    pub(super) fn target_rel(
        &self,
        dml: &Dml,
        (target, named): (TargetName<'_>, Option<&nodes::RangeVar>),
        q: &mut Query,
        scope: &mut Scope<'_>,
    ) -> Result<()> {
        scope.items.push(target.item(dml.rel, &dml.table));
        // What stands for a view is decided when the statement is known.
        let kind = match dml.table.kind {
            TableKind::View => RelKind::Pseudo,
            _ => RelKind::Table(dml.table.clone()),
        };
        q.rels.push(Rel {
            id: dml.rel,
            alias: target.name.to_string(),
            columns: table_columns(&dml.table),
            kind,
            lateral: false,
            security_quals: named.map_or_else(Vec::new, |named| own_rows(named, &dml.table)),
        });
        q.from.push(JoinTree::Rel(dml.rel));
        Ok(())
    }

    fn bind_where(&self, node: Node<'_>, scope: &Scope<'_>, dml: &Dml) -> Result<Option<Expr>> {
        match node {
            Node::CurrentOfExpr(_) if dml.table.kind == TableKind::View => {
                Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, "WHERE CURRENT OF on a view is not implemented"))
            }
            Node::CurrentOfExpr(c) => self.current_of(c, dml.rel, &dml.table),
            node => self.bind_condition(node, scope, "WHERE"),
        }
    }

    /// Finds out whose rows an UPDATE or DELETE changes, and notes it.
    fn settle(&self, q: &mut Query, dml: &mut Dml) -> Result<()> {
        if dml.table.kind != TableKind::View {
            self.note_change(dml, &[]);
            return Ok(());
        }
        self.settle_view(ViewChange { query: q, dml, inserted: Vec::new(), overriding: Vec::new(), inference: None })?;
        Ok(())
    }

    pub(crate) fn bind_update(&self, s: &nodes::UpdateStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut scope, &mut q)?;
        }
        let table = self.dml_target(s.relation())?;
        let target = TargetName::new(s.relation(), &table);
        let mut dml = self.new_dml(DmlKind::Update, table.clone()).called(target);
        self.target_rel(&dml, (target, s.relation()), &mut q, &mut scope)?;
        self.bind_from(s.from_clause(), &mut scope, &mut q)?;
        scope.clause = ClauseKind::UpdateSource;
        dml.assignments = self.bind_set(s.target_list().iter(), &table, dml.rel, &scope)?;
        scope.clause = ClauseKind::Where;
        q.filter = self.bind_where(s.where_clause(), &scope, &dml)?;
        self.bind_returning(s.returning_clause(), target, dml.new_rel, &scope, &mut dml)?;
        self.settle(&mut q, &mut dml)?;
        self.row_rules(&dml.table.clone(), dml.new_rel, &mut dml)?;
        self.bind_triggers(&mut dml)?;
        q.body = QueryBody::Dml(Box::new(dml));
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }

    pub(crate) fn bind_delete(&self, s: &nodes::DeleteStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut scope, &mut q)?;
        }
        let table = self.dml_target(s.relation())?;
        let target = TargetName::new(s.relation(), &table);
        let mut dml = self.new_dml(DmlKind::Delete, table.clone()).called(target);
        self.target_rel(&dml, (target, s.relation()), &mut q, &mut scope)?;
        self.bind_from(s.using_clause(), &mut scope, &mut q)?;
        scope.clause = ClauseKind::Where;
        q.filter = self.bind_where(s.where_clause(), &scope, &dml)?;
        self.bind_returning(s.returning_clause(), target, dml.rel, &scope, &mut dml)?;
        self.settle(&mut q, &mut dml)?;
        dml.indexes = self.bind_indexes(&dml.table, dml.new_rel)?;
        self.bind_triggers(&mut dml)?;
        q.body = QueryBody::Dml(Box::new(dml));
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }
}

/// Refuses a value for a column that an UPDATE may not give one for.
pub(super) fn refuse_update(c: &Column, e: &Expr) -> Result<()> {
    let name = &c.name;
    let why = match c {
        _ if matches!(e.kind, ExprKind::Default) => return Ok(()),
        c if c.generated != 0 => format!("Column \"{name}\" is a generated column."),
        c if c.identity == b'a' => format!("Column \"{name}\" is an identity column defined as GENERATED ALWAYS."),
        _ => return Ok(()),
    };
    let message = format!("column \"{name}\" can only be updated to DEFAULT");
    Err(Error::new(sqlstate::GENERATED_ALWAYS, message).with_detail(why))
}

impl Dml {
    /// With the name that the statement gives its table.
    pub(super) fn called(self, target: TargetName<'_>) -> Dml {
        Dml { alias: target.name.to_string(), ..self }
    }
}

/// The functions that a changed row's rules call. Of an UPDATE those of generated columns whose sources it assigns;
/// indexes have new entries only for other values.
fn rule_functions(dml: &Dml) -> RuleFunctions<Vec<Oid>> {
    let mut functions = RuleFunctions::<Vec<Oid>>::default();
    let merges = |wanted: fn(&MergeCommand) -> bool| dml.merge.iter().any(|merge| wanted(&merge.action));
    let is_update = match dml.kind {
        DmlKind::Merge => !merges(|command| matches!(command, MergeCommand::Insert(_))),
        kind => kind == DmlKind::Update,
    };
    let merged = dml.merge.iter().filter_map(|merge| match &merge.action {
        MergeCommand::Update(assignments) => Some(assignments),
        _ => None,
    });
    let assignments: Vec<&Assignment> = dml.assignments.iter().chain(merged.flatten()).collect();
    // A trigger may change the sources too.
    let is_triggered = dml.table.triggers.iter().any(|t| t.is(ROW | BEFORE | UPDATE) && t.enabled != b'D');
    let assigned = |attnum: i16| assignments.iter().any(|a| dml.table.columns[a.column].attnum == attnum);
    for generated in &dml.generated {
        let mut used = Vec::new();
        generated.expr.columns(&mut used);
        if !is_update || is_triggered || used.iter().any(|c| assigned(c.att)) {
            generated.expr.user_functions(&mut functions.generated);
        }
    }
    dml.checks.iter().for_each(|(_, check)| check.user_functions(&mut functions.checks));
    if !is_update {
        let parts = dml.indexes.iter().flat_map(|index| index.expressions.iter().flatten().chain(&index.predicate));
        parts.for_each(|part| part.user_functions(&mut functions.indexes));
    }
    functions
}

/// The next value of an identity column's sequence: whoever may write to the table may have it. That is what the second
/// argument says, which nobody can write.
pub(super) fn next_value(sequence: Oid) -> Expr {
    let arg = Expr::new(ExprKind::Const(Datum::Oid(sequence)), oids::REGCLASS);
    let of_identity = Expr::new(ExprKind::Const(Datum::Bool(true)), oids::BOOL);
    let call = FuncExpr::internal(1574, "nextval".into(), vec![arg, of_identity], true, b'v');
    Expr::new(ExprKind::Func(Box::new(call)), oids::INT8)
}

impl Binder<'_> {
    /// Nobody writes to system tables but definitions; who is no superuser would not be allowed to either.
    pub(super) fn refuse_catalog(&self, table: &Table) -> Result<()> {
        // A view's relation is looked at in its turn.
        if !table.is_catalog || table.kind == TableKind::View {
            return Ok(());
        }
        let message = match self.catalog.is_for_superuser() {
            true => format!("permission denied: \"{}\" is a system catalog", table.name),
            false => format!("permission denied for table {}", table.name),
        };
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, message))
    }
}
