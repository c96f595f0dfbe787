//! SELECT and VALUES.

use super::Binder;
use super::ir::*;
use super::same::same;
use super::scope::{ClauseKind, Scope};
use kilndb_base::{Error, Result, sqlstate, work};
use kilndb_catalog::CastContext;
use kilndb_syntax::{ConstValue, Node, NodeList, nodes, raw};
use kilndb_types::{Datum, oids};

impl Binder<'_> {
    pub(crate) fn bind_select(&self, s: &nodes::SelectStmt, outer: Option<&Scope<'_>>) -> Result<Query> {
        self.bind_select_as(s, outer, true)
    }

    /// `resolve`: output columns of unknown type become text (not where a type comes from outside).
    pub(crate) fn bind_select_as(
        &self,
        s: &nodes::SelectStmt,
        outer: Option<&Scope<'_>>,
        resolve: bool,
    ) -> Result<Query> {
        kilndb_base::stack::check()?;
        if s.op != raw::SetOperation::SETOP_NONE {
            return self.bind_set_operation(s, outer);
        }
        if !s.values_lists().is_empty() {
            return self.bind_values_query(s, outer, resolve);
        }
        self.bind_plain_select(s, outer, resolve)
    }

    #[inline(never)]
    fn bind_plain_select(&self, s: &nodes::SelectStmt, outer: Option<&Scope<'_>>, resolve: bool) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut scope, &mut q)?;
        }
        self.bind_from(s.from_clause(), &mut scope, &mut q)?;
        self.bind_window_clause(s.window_clause(), &mut scope)?;
        scope.clause = ClauseKind::Target;
        let mut targets = self.bind_targets(s.target_list().iter(), &scope)?;
        scope.clause = ClauseKind::Where;
        q.filter = self.bind_condition(s.where_clause(), &scope, "WHERE")?;
        scope.clause = ClauseKind::Having;
        q.having = self.bind_condition(s.having_clause(), &scope, "HAVING")?;
        if resolve {
            for t in &mut targets {
                self.resolve_target(t)?;
            }
        }
        scope.clause = ClauseKind::OrderBy;
        for sort in s.sort_clause() {
            let key = self.bind_order_item(sort, &scope, &targets, false)?;
            if !q.order_by.iter().any(|k| same(&k.expr, &key.expr)) {
                q.order_by.push(key);
            }
        }
        scope.clause = ClauseKind::GroupBy;
        self.bind_group_by(s, &scope, &mut targets, &mut q)?;
        scope.clause = ClauseKind::OrderBy;
        q.targets = targets;
        self.bind_distinct_clause(s.distinct_clause(), &scope, &mut q)?;
        self.bind_limit(s, &mut scope, &mut q)?;
        q.windows = scope.windows.take();
        q.has_aggs = scope.saw_agg.get();
        q.outer_aggs = scope.outer_aggs.take();
        q.outer_agg_rel = scope.outer_agg_rel.get();
        q.has_srf = q.targets.iter().any(|t| t.expr.has_srf());
        if q.has_aggs || !q.group_by.is_empty() || q.having.is_some() || q.grouping_sets.is_some() {
            self.check_grouping(&mut q, &scope)?;
        }
        self.bind_locks(s, &scope, &mut q)?;
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }

    pub(crate) fn resolve_target(&self, t: &mut Target) -> Result<()> {
        if t.expr.ty == oids::UNKNOWN {
            let e = std::mem::replace(&mut t.expr, Expr::bool(true));
            t.expr = self.resolve_unknown(e)?;
        }
        Ok(())
    }

    pub(crate) fn bind_condition(&self, node: Node<'_>, scope: &Scope<'_>, what: &str) -> Result<Option<Expr>> {
        if matches!(node, Node::None) {
            return Ok(None);
        }
        let e = self.bind_expr(node, scope)?;
        Ok(Some(self.coerce_bool(e, what)?))
    }

    /// `t.*` or `*`.
    pub(crate) fn expand_star(&self, c: &nodes::ColumnRef, scope: &Scope<'_>) -> Result<Vec<Target>> {
        let names: Vec<&str> = c.fields().iter().filter_map(|f| f.as_str()).collect();
        let loc = c.location;
        self.refuse_other_database(&names, true, loc)?;
        let mut out = Vec::new();
        let push = |item: &super::scope::NsItem, out: &mut Vec<Target>| {
            for col in &item.columns {
                out.push(Target {
                    expr: col.expr.clone().at(loc),
                    name: col.name.clone(),
                    junk: false,
                    table_oid: col.table_oid,
                    attnum: col.attnum,
                });
            }
        };
        match names.as_slice() {
            [] => {
                let mut any = false;
                for item in scope.items.iter().filter(|i| i.cols_visible) {
                    any = true;
                    push(item, &mut out);
                }
                self.note_star(&scope.items.iter().filter(|i| i.cols_visible).collect::<Vec<_>>(), scope, loc);
                if !any {
                    return self.err(sqlstate::SYNTAX_ERROR, "SELECT * with no tables specified is not valid", loc);
                }
            }
            names => {
                let (schema, table) = match names {
                    [t] => (None, *t),
                    [.., s, t] => (Some(*s), *t),
                    [] => (None, ""),
                };
                match self.resolve_item(scope, schema, table, loc)? {
                    Some(item) => {
                        self.note_star(&[item], scope, loc);
                        push(item, &mut out);
                    }
                    None => {
                        // A composite column: its fields.
                        if schema.is_none()
                            && let Some(e) = self.resolve_column(scope, table, loc)?
                            && let Some(fields) = self.fields_of(&e)?
                        {
                            return Ok(self.field_targets(e, fields, loc));
                        }
                        if let Some(row) = self.row_variable(names, loc)?
                            && let Some(fields) = self.fields_of(&row)?
                        {
                            return Ok(self.field_targets(row, fields, loc));
                        }
                        return Err(self.missing_table(scope, schema, table, loc));
                    }
                }
            }
        }
        Ok(out)
    }

    fn field_targets(&self, e: Expr, fields: Vec<(String, kilndb_base::Oid, i32)>, loc: i32) -> Vec<Target> {
        fields
            .into_iter()
            .enumerate()
            .map(|(index, (name, ty, typmod))| Target {
                expr: Expr::new(ExprKind::Field { arg: Box::new(e.clone()), index, name: name.clone() }, ty)
                    .with_typmod(typmod)
                    .at(loc),
                name,
                junk: false,
                table_oid: 0,
                attnum: 0,
            })
            .collect()
    }

    pub(crate) fn bind_targets<'n>(
        &self,
        list: impl Iterator<Item = &'n nodes::ResTarget>,
        scope: &Scope<'_>,
    ) -> Result<Vec<Target>> {
        let mut out = Vec::new();
        for t in list {
            match t.val() {
                Node::ColumnRef(c) if c.fields().iter().any(|f| matches!(f, Node::A_Star(_))) => {
                    out.extend(self.expand_star(c, scope)?);
                    continue;
                }
                Node::A_Indirection(i) if i.indirection().iter().any(|f| matches!(f, Node::A_Star(_))) => {
                    let e = self.bind_expr(i.arg(), scope)?;
                    let loc = e.loc;
                    let Some(fields) = self.fields_of(&e)? else {
                        return self.err(
                            sqlstate::WRONG_OBJECT_TYPE,
                            format!("type {} is not composite", self.type_name(e.ty)),
                            loc,
                        );
                    };
                    out.extend(self.field_targets(e, fields, loc));
                    continue;
                }
                node => {
                    let expr = self.bind_expr(node, scope)?;
                    let name = t.name().map_or_else(|| figure_name(node), str::to_string);
                    if t.name().is_none() {
                        self.note_unnamed_output(node, &name, t.location);
                    }
                    work::step(0)?;
                    let (table_oid, attnum) = self.origin(&expr, scope);
                    out.push(Target { expr, name, junk: false, table_oid, attnum });
                }
            }
        }
        Ok(out)
    }

    /// The table column that an expression is, for RowDescription.
    fn origin(&self, e: &Expr, scope: &Scope<'_>) -> (kilndb_base::Oid, i16) {
        let ExprKind::Column(id) = &e.kind else { return (0, 0) };
        for item in &scope.items {
            if id.att < 0 && item.rel == id.rel {
                return (item.table_oid, id.att);
            }
            for c in &item.columns {
                if matches!(&c.expr.kind, ExprKind::Column(x) if x == id) {
                    return (c.table_oid, c.attnum);
                }
            }
        }
        (0, 0)
    }

    /// A sort expression bound as an ordinary expression (inside aggregates and windows).
    pub(crate) fn bind_sort_expr(&self, s: &nodes::SortBy, scope: &Scope<'_>) -> Result<SortKey> {
        let expr = self.bind_expr(s.node(), scope)?;
        let expr = self.resolve_unknown(expr)?;
        self.sort_key(expr, s)
    }

    pub(crate) fn sort_key(&self, expr: Expr, s: &nodes::SortBy) -> Result<SortKey> {
        let descending = match s.sortby_dir {
            raw::SortByDir::SORTBY_DESC => true,
            raw::SortByDir::SORTBY_USING => {
                let name = s.use_op().iter().filter_map(|n| n.as_str()).next_back().unwrap_or("");
                match name {
                    "<" | "~<~" => false,
                    ">" | "~>~" => true,
                    _ => {
                        let e = Error::new(
                            sqlstate::WRONG_OBJECT_TYPE,
                            format!("operator {name} is not a valid ordering operator"),
                        )
                        .with_hint("Ordering operators must be \"<\" or \">\" members of btree operator families.");
                        return Err(self.at(e, s.location));
                    }
                }
            }
            _ => false,
        };
        let nulls_first = match s.sortby_nulls {
            raw::SortByNulls::SORTBY_NULLS_FIRST => true,
            raw::SortByNulls::SORTBY_NULLS_LAST => false,
            _ => descending,
        };
        self.require_ordering(&expr)?;
        if super::collation::is_collatable(expr.ty) {
            self.refuse_conflict(expr.collation, expr.loc)?;
        }
        Ok(SortKey { expr, descending, nulls_first })
    }

    /// Refuses an expression whose type cannot be grouped. An equality that can be hashed is enough for GROUP BY and
    /// DISTINCT.
    fn require_grouping(&self, e: &Expr) -> Result<()> {
        if matches!(self.base_type(e.ty), oids::XID | oids::CID | oids::ACLITEM) || self.require_ordering(e).is_ok() {
            return Ok(());
        }
        let message = format!("could not identify an equality operator for type {}", self.type_name(e.ty));
        Err(self.at(Error::new(sqlstate::UNDEFINED_FUNCTION, message), e.loc))
    }

    pub(crate) fn require_ordering(&self, e: &Expr) -> Result<()> {
        if e.ty == oids::RECORD || self.catalog.ordering_operators(self.base_type(e.ty))?.is_some() {
            return Ok(());
        }
        let element = self.element_of(e.ty);
        if element != 0 || self.is_composite(e.ty) || self.category(e.ty).0 == b'E' {
            return Ok(());
        }
        let err = Error::new(
            sqlstate::UNDEFINED_FUNCTION,
            format!("could not identify an ordering operator for type {}", self.type_name(e.ty)),
        )
        .with_hint("Use an explicit ordering operator or modify the query.");
        Err(self.at(err, e.loc))
    }

    /// A number or a name that means an output column.
    fn output_reference(
        &self,
        node: Node<'_>,
        scope: &Scope<'_>,
        targets: &[Target],
        clause: &str,
        columns_first: bool,
    ) -> Result<Option<Expr>> {
        match node {
            Node::A_Const(c) => match c.val() {
                Some(ConstValue::Integer(n)) if !c.isnull => {
                    let visible: Vec<&Target> = targets.iter().filter(|t| !t.junk).collect();
                    match usize::try_from(n).ok().and_then(|n| n.checked_sub(1)).and_then(|n| visible.get(n)) {
                        Some(t) => Ok(Some(t.expr.clone())),
                        None => self.err(
                            sqlstate::INVALID_COLUMN_REFERENCE,
                            format!("{clause} position {n} is not in select list"),
                            c.location,
                        ),
                    }
                }
                _ if c.isnull => Ok(None),
                _ => self.err(sqlstate::SYNTAX_ERROR, format!("non-integer constant in {clause}"), c.location),
            },
            Node::ColumnRef(c) if c.fields().len() == 1 => {
                let Some(name) = c.fields().first().and_then(|f| f.as_str()) else { return Ok(None) };
                if columns_first {
                    let own = Scope { parent: None, items: scope.items.clone(), ..Scope::new(None) };
                    if self.resolve_column(&own, name, c.location)?.is_some() {
                        return Ok(None);
                    }
                }
                let mut found: Option<&Target> = None;
                for t in targets.iter().filter(|t| !t.junk && t.name == name) {
                    if let Some(f) = found {
                        if !same(&f.expr, &t.expr) {
                            return self.err(
                                sqlstate::AMBIGUOUS_COLUMN,
                                format!("{clause} \"{name}\" is ambiguous"),
                                c.location,
                            );
                        }
                    } else {
                        found = Some(t);
                    }
                }
                Ok(found.map(|t| t.expr.clone()))
            }
            _ => Ok(None),
        }
    }

    pub(crate) fn bind_order_item(
        &self,
        s: &nodes::SortBy,
        scope: &Scope<'_>,
        targets: &[Target],
        _set_operation: bool,
    ) -> Result<SortKey> {
        let expr = match self.output_reference(s.node(), scope, targets, "ORDER BY", false)? {
            Some(e) => e,
            None => self.bind_expr(s.node(), scope)?,
        };
        let expr = self.resolve_unknown(expr)?;
        self.sort_key(expr, s)
    }

    fn bind_group_item(&self, node: Node<'_>, scope: &Scope<'_>, targets: &mut [Target]) -> Result<Expr> {
        let e = match self.output_reference(node, scope, targets, "GROUP BY", true)? {
            Some(e) => {
                if let Some(loc) = self.aggregate_in(&e, scope) {
                    return self.err(sqlstate::GROUPING_ERROR, "aggregate functions are not allowed in GROUP BY", loc);
                }
                if e.has_window() {
                    return self.err(sqlstate::WINDOWING_ERROR, "window functions are not allowed in GROUP BY", e.loc);
                }
                e
            }
            None => self.bind_expr(node, scope)?,
        };
        let e = self.resolve_unknown(e)?;
        self.require_grouping(&e)?;
        Ok(e)
    }

    fn bind_group_by(
        &self,
        s: &nodes::SelectStmt,
        scope: &Scope<'_>,
        targets: &mut [Target],
        q: &mut Query,
    ) -> Result<()> {
        let mut sets: Vec<Vec<Vec<usize>>> = Vec::new();
        let mut has_sets = false;
        for node in s.group_clause() {
            if let Node::GroupingSet(g) = node {
                has_sets = true;
                sets.push(self.bind_grouping_set(g, scope, targets, q)?);
            } else {
                let list = self.group_exprs(node, scope, targets, q)?;
                sets.push(vec![list]);
            }
        }
        if has_sets {
            // The cross product of all items.
            let mut product: Vec<Vec<usize>> = vec![Vec::new()];
            for item in sets {
                let mut next = Vec::new();
                for p in &product {
                    for i in &item {
                        let mut set = p.clone();
                        set.extend(i.iter().filter(|x| !p.contains(x)));
                        next.push(set);
                    }
                }
                product = next;
                if product.len() > 4096 {
                    return Err(Error::new(
                        sqlstate::STATEMENT_TOO_COMPLEX,
                        "too many grouping sets present (maximum 4096)",
                    ));
                }
            }
            if s.group_distinct {
                let mut seen: Vec<Vec<usize>> = Vec::new();
                product.retain(|p| {
                    let mut sorted = p.clone();
                    sorted.sort_unstable();
                    let new = !seen.contains(&sorted);
                    seen.push(sorted);
                    new
                });
            }
            q.grouping_sets = Some(product);
        }
        Ok(())
    }

    /// The number of a grouping expression, which is added if it is new.
    fn add_group(&self, node: Node<'_>, e: Expr, targets: &[Target], q: &mut Query) -> Result<usize> {
        if self.has_lifted(&e) {
            return Err(Error::internal("a grouping expression with a literal in it needs the literal"));
        }
        if is_constant(&e) {
            return Ok(self.add_constant_group(node, e, targets, q));
        }
        if let Some(i) = q.group_by.iter().position(|g| same(g, &e)) {
            return Ok(i);
        }
        q.group_by.push(e);
        Ok(q.group_by.len() - 1)
    }

    /// A constant is grouped as the target that it is: the one that is named, or the first that is equal.
    fn add_constant_group(&self, node: Node<'_>, e: Expr, targets: &[Target], q: &mut Query) -> usize {
        let named = match node {
            Node::A_Const(c) => match c.val() {
                Some(ConstValue::Integer(n)) => usize::try_from(n).ok().and_then(|n| n.checked_sub(1)),
                _ => None,
            },
            Node::ColumnRef(c) => {
                let name = c.fields().first().and_then(|f| f.as_str());
                targets.iter().position(|t| Some(t.name.as_str()) == name)
            }
            _ => None,
        };
        let target = named.or_else(|| targets.iter().position(|t| same(&t.expr, &e)));
        let known = match target {
            Some(target) => q.constant_keys.iter().find(|k| k.0 == target).map(|k| k.1),
            None => q.group_by.iter().position(|g| same(g, &e)),
        };
        known.unwrap_or_else(|| {
            q.constant_keys.extend(target.map(|t| (t, q.group_by.len())));
            q.group_by.push(e);
            q.group_by.len() - 1
        })
    }

    fn group_exprs(
        &self,
        node: Node<'_>,
        scope: &Scope<'_>,
        targets: &mut [Target],
        q: &mut Query,
    ) -> Result<Vec<usize>> {
        if let Node::RowExpr(r) = node
            && r.row_format == raw::CoercionForm::COERCE_IMPLICIT_CAST
        {
            let mut out = Vec::new();
            for a in r.args() {
                let e = self.bind_group_item(a, scope, targets)?;
                out.push(self.add_group(a, e, targets, q)?);
            }
            return Ok(out);
        }
        let e = self.bind_group_item(node, scope, targets)?;
        Ok(vec![self.add_group(node, e, targets, q)?])
    }

    fn bind_grouping_set(
        &self,
        g: &nodes::GroupingSet,
        scope: &Scope<'_>,
        targets: &mut [Target],
        q: &mut Query,
    ) -> Result<Vec<Vec<usize>>> {
        kilndb_base::stack::check()?;
        use raw::GroupingSetKind as K;
        match g.kind {
            K::GROUPING_SET_EMPTY => Ok(vec![Vec::new()]),
            K::GROUPING_SET_ROLLUP | K::GROUPING_SET_CUBE => {
                let mut parts = Vec::new();
                for n in g.content() {
                    parts.push(self.group_exprs(n, scope, targets, q)?);
                }
                if g.kind == K::GROUPING_SET_ROLLUP {
                    return Ok((0..=parts.len()).rev().map(|n| parts[..n].concat()).collect());
                }
                if parts.len() > 12 {
                    return self.err(sqlstate::TOO_MANY_COLUMNS, "CUBE is limited to 12 elements", g.location);
                }
                let all = 1usize << parts.len();
                Ok((0..all)
                    .map(|mask| {
                        let chosen = parts.iter().enumerate().filter(|(i, _)| mask >> (parts.len() - 1 - i) & 1 == 0);
                        chosen.flat_map(|(_, p)| p.clone()).collect()
                    })
                    .collect())
            }
            _ => {
                let mut out = Vec::new();
                for n in g.content() {
                    if let Node::GroupingSet(inner) = n {
                        out.extend(self.bind_grouping_set(inner, scope, targets, q)?);
                    } else {
                        out.push(self.group_exprs(n, scope, targets, q)?);
                    }
                }
                Ok(out)
            }
        }
    }

    fn bind_distinct_clause(&self, list: &NodeList, scope: &Scope<'_>, q: &mut Query) -> Result<()> {
        if list.is_empty() {
            return Ok(());
        }
        let on: Vec<Node<'_>> = list.iter().filter(|n| !matches!(n, Node::None)).collect();
        if on.is_empty() {
            q.distinct = Distinct::All;
            for t in q.targets.iter().filter(|t| !t.junk) {
                self.require_grouping(&t.expr)?;
            }
            for k in &q.order_by {
                if !q.targets.iter().any(|t| same(&t.expr, &k.expr)) {
                    return self.err(
                        sqlstate::INVALID_COLUMN_REFERENCE,
                        "for SELECT DISTINCT, ORDER BY expressions must appear in select list",
                        k.expr.loc,
                    );
                }
            }
            return Ok(());
        }
        let mut exprs = Vec::new();
        for node in on {
            let e = match self.output_reference(node, scope, &q.targets, "SELECT DISTINCT ON", false)? {
                Some(e) => e,
                None => self.bind_expr(node, scope)?,
            };
            exprs.push(self.resolve_unknown(e)?);
        }
        let covered = q.order_by.iter().take_while(|k| exprs.iter().any(|e| same(e, &k.expr))).count();
        if covered < q.order_by.len() && exprs.iter().any(|e| !q.order_by[..covered].iter().any(|k| same(e, &k.expr))) {
            let loc = q.order_by[covered].expr.loc;
            return self.err(
                sqlstate::INVALID_COLUMN_REFERENCE,
                "SELECT DISTINCT ON expressions must match initial ORDER BY expressions",
                loc,
            );
        }
        q.distinct = Distinct::On(exprs);
        Ok(())
    }

    pub(crate) fn bind_limit(&self, s: &nodes::SelectStmt, scope: &mut Scope<'_>, q: &mut Query) -> Result<()> {
        let bare = Scope { ctes: scope.ctes.clone(), ..Scope::new(scope.parent) };
        let mut one = |node: Node<'_>, name: &str, clause: ClauseKind| -> Result<Option<Expr>> {
            if matches!(node, Node::None) {
                return Ok(None);
            }
            let here = Scope { clause, ctes: bare.ctes.clone(), ..Scope::new(bare.parent) };
            let e = self.bind_expr(node, &here).map_err(|e| {
                if e.sqlstate() != sqlstate::UNDEFINED_COLUMN {
                    return e;
                }
                scope.clause = clause;
                match self.bind_expr(node, scope) {
                    Ok(_) => {
                        let mut e = e;
                        e.0.sqlstate = sqlstate::INVALID_COLUMN_REFERENCE;
                        e.0.message = format!("argument of {name} must not contain variables");
                        e
                    }
                    Err(other) if other.sqlstate() == sqlstate::GROUPING_ERROR => other,
                    Err(_) => e,
                }
            })?;
            if matches!(e.as_const(), Some(Datum::Null)) {
                return Ok(None);
            }
            match self.coerce_to_target(e, oids::INT8, -1, CastContext::Assignment, false)? {
                Ok(e) => Ok(Some(e)),
                Err(e) => self.err(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("argument of {name} must be type bigint, not type {}", self.type_name(e.ty)),
                    e.loc,
                ),
            }
        };
        q.offset = one(s.limit_offset(), "OFFSET", ClauseKind::Offset)?;
        q.limit = one(s.limit_count(), "LIMIT", ClauseKind::Limit)?;
        q.with_ties = s.limit_option == raw::LimitOption::LIMIT_OPTION_WITH_TIES;
        if q.with_ties && q.order_by.is_empty() {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "WITH TIES cannot be specified without ORDER BY clause"));
        }
        Ok(())
    }

    #[inline(never)]
    fn bind_values_query(&self, s: &nodes::SelectStmt, outer: Option<&Scope<'_>>, resolve: bool) -> Result<Query> {
        let mut q = Query::default();
        let mut scope = Scope::new(outer);
        if let Some(w) = s.with_clause() {
            self.bind_with(w, &mut scope, &mut q)?;
        }
        scope.clause = ClauseKind::Values;
        let mut rows: Vec<Vec<Expr>> = Vec::new();
        for list in s.values_lists() {
            let Some(list) = list.as_node_list() else { continue };
            let row = self.bind_exprs(list, &scope)?;
            if let Some(first) = rows.first()
                && first.len() != row.len()
            {
                let loc = row.first().map_or(-1, |e| e.loc);
                return self.err(sqlstate::SYNTAX_ERROR, "VALUES lists must all be the same length", loc);
            }
            if let Some(e) = row.iter().find(|e| matches!(e.kind, ExprKind::Default)) {
                return self.err(sqlstate::SYNTAX_ERROR, "DEFAULT is not allowed in this context", e.loc);
            }
            rows.push(row);
        }
        let width = rows.first().map_or(0, Vec::len);
        let rel = self.new_rel();
        let mut columns = Vec::new();
        for c in 0..width {
            let column: Vec<&Expr> = rows.iter().map(|r| &r[c]).collect();
            let all_unknown = column.iter().all(|e| e.ty == oids::UNKNOWN);
            let ty = if all_unknown && !resolve { oids::UNKNOWN } else { self.common_type(&column, "VALUES")? };
            for r in &mut rows {
                let e = std::mem::replace(&mut r[c], Expr::bool(true));
                r[c] = if ty == oids::UNKNOWN { e } else { self.coerce_to_common(e, ty, "VALUES")? };
            }
            let typmod = rows.first().map_or(-1, |r| r[c].typmod);
            let typmod = if rows.iter().all(|r| r[c].typmod == typmod) { typmod } else { -1 };
            let name = format!("column{}", c + 1);
            let collation = super::collation::merged(rows.iter().map(|r| &r[c])).implicit();
            let column = RelColumn { name: name.clone(), ty, typmod, collation };
            let expr = column.expr(ColId { rel, att: c as i16 + 1 });
            q.targets.push(Target { expr, name, junk: false, table_oid: 0, attnum: 0 });
            columns.push(column);
        }
        q.rels.push(Rel {
            id: rel,
            alias: "*VALUES*".into(),
            columns,
            kind: RelKind::Values(rows),
            lateral: false,
            security_quals: Vec::new(),
        });
        q.from.push(JoinTree::Rel(rel));
        scope.clause = ClauseKind::OrderBy;
        for sort in s.sort_clause() {
            let key = self.bind_order_item(sort, &scope, &q.targets, false)?;
            q.order_by.push(key);
        }
        self.bind_limit(s, &mut scope, &mut q)?;
        self.note_cte_uses(&scope, &mut q);
        Ok(q)
    }
}

/// A value that no row has a part in.
pub fn is_constant(e: &Expr) -> bool {
    matches!(e.kind, ExprKind::Const(_) | ExprKind::Param(_))
}

/// The name PostgreSQL gives to an output column.
/// What a query calls an output that is this expression; None: it has no name for it.
pub fn output_name(sql: &str) -> Result<Option<String>> {
    let script = kilndb_syntax::parse(&format!("SELECT {sql}"))?;
    let statements = script.statements();
    let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else { return Ok(None) };
    Ok(select.target_list().first().and_then(|first| figure(first.val())).map(|(name, _)| name))
}

pub(crate) fn figure_name(node: Node<'_>) -> String {
    figure(node).map_or_else(|| "?column?".to_string(), |f| f.0)
}

/// Name and strength: a cast's own name is weak.
fn figure(node: Node<'_>) -> Option<(String, u8)> {
    // Each level of nested queries asks for the names below it once more.
    work::owe(20);
    let strong = |s: &str| Some((s.to_string(), 2));
    match node {
        Node::ColumnRef(c) => c.fields().iter().filter_map(|f| f.as_str()).next_back().and_then(strong),
        Node::A_Indirection(i) => {
            i.indirection().iter().filter_map(|f| f.as_str()).next_back().and_then(strong).or_else(|| figure(i.arg()))
        }
        Node::FuncCall(f) => f.funcname().iter().filter_map(|f| f.as_str()).next_back().and_then(strong),
        Node::A_Expr(x) if x.kind == raw::A_Expr_Kind::AEXPR_NULLIF => strong("nullif"),
        Node::TypeCast(c) => match figure(c.arg()) {
            Some((n, 2)) => Some((n, 2)),
            other => c
                .type_name()
                .and_then(|t| t.names().iter().filter_map(|n| n.sval()).next_back().map(|n| (n.to_string(), 1)))
                .or(other),
        },
        Node::CollateClause(c) => figure(c.arg()),
        Node::GroupingFunc(_) => strong("grouping"),
        Node::MergeSupportFunc(_) => strong("merge_action"),
        Node::SubLink(s) => match s.sub_link_type {
            raw::SubLinkType::EXISTS_SUBLINK => strong("exists"),
            raw::SubLinkType::ARRAY_SUBLINK => strong("array"),
            raw::SubLinkType::EXPR_SUBLINK => {
                let Node::SelectStmt(q) = s.subselect() else { return None };
                let mut q = q;
                while let Some(l) = q.larg() {
                    q = l;
                }
                let t = q.target_list().first()?;
                t.name().and_then(strong).or_else(|| {
                    let name = figure_name(t.val());
                    Some((name, 2))
                })
            }
            _ => None,
        },
        Node::CaseExpr(c) => match figure(c.defresult()) {
            Some((n, 2)) => Some((n, 2)),
            _ => Some(("case".into(), 1)),
        },
        Node::A_ArrayExpr(_) => strong("array"),
        Node::RowExpr(_) => strong("row"),
        Node::JsonObjectConstructor(_) => strong("json_object"),
        Node::JsonArrayConstructor(_) => strong("json_array"),
        Node::CoalesceExpr(_) => strong("coalesce"),
        Node::MinMaxExpr(m) => strong(if m.op == raw::MinMaxOp::IS_GREATEST { "greatest" } else { "least" }),
        Node::SQLValueFunction(f) => {
            use raw::SQLValueFunctionOp as S;
            strong(match f.op {
                S::SVFOP_CURRENT_DATE => "current_date",
                S::SVFOP_CURRENT_TIME | S::SVFOP_CURRENT_TIME_N => "current_time",
                S::SVFOP_CURRENT_TIMESTAMP | S::SVFOP_CURRENT_TIMESTAMP_N => "current_timestamp",
                S::SVFOP_LOCALTIME | S::SVFOP_LOCALTIME_N => "localtime",
                S::SVFOP_LOCALTIMESTAMP | S::SVFOP_LOCALTIMESTAMP_N => "localtimestamp",
                S::SVFOP_CURRENT_ROLE => "current_role",
                S::SVFOP_CURRENT_USER => "current_user",
                S::SVFOP_USER => "user",
                S::SVFOP_SESSION_USER => "session_user",
                S::SVFOP_CURRENT_CATALOG => "current_catalog",
                _ => "current_schema",
            })
        }
        _ => None,
    }
}
