//! Visiting and rewriting bound expressions.

use super::ir::*;
use kilndb_base::{Oid, Result, work};
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::extension;
use kilndb_types::functions::{self, FunctionKind, descriptor::Support};

impl Expr {
    /// Calls `f` on each direct child (not into subqueries, but into a sublink's left sides and test).
    pub fn for_children<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match &self.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column(_)
            | ExprKind::CaseArg
            | ExprKind::SqlValue(_)
            | ExprKind::Default
            | ExprKind::CurrentOf(_)
            | ExprKind::MergeAction => {}
            ExprKind::Func(x) | ExprKind::NullIf(x) => x.args.iter().for_each(f),
            ExprKind::IsDistinct { eq, .. } => eq.args.iter().for_each(f),
            ExprKind::ScalarArray { func, .. } => func.args.iter().for_each(f),
            ExprKind::Cast { arg, .. }
            | ExprKind::Not(arg)
            | ExprKind::IsNull { arg, .. }
            | ExprKind::BoolTest { arg, .. }
            | ExprKind::Field { arg, .. }
            | ExprKind::Collate { arg, .. } => f(arg),
            ExprKind::And(l) | ExprKind::Or(l) | ExprKind::Coalesce(l) | ExprKind::Grouping(l) => l.iter().for_each(f),
            ExprKind::MinMax { args, .. } => args.iter().for_each(f),
            ExprKind::Array { elements, .. } => elements.iter().for_each(f),
            ExprKind::Row { fields, .. } => fields.iter().for_each(f),
            ExprKind::Case { arg, whens, otherwise } => {
                if let Some(a) = arg {
                    f(a);
                }
                for (w, t) in whens {
                    f(w);
                    f(t);
                }
                if let Some(o) = otherwise {
                    f(o);
                }
            }
            ExprKind::Subscript { arg, subscripts, .. } => {
                f(arg);
                for s in subscripts {
                    s.lower.iter().for_each(&mut *f);
                    s.upper.iter().for_each(&mut *f);
                }
            }
            ExprKind::SubscriptAssign { arg, subscripts, value, .. } => {
                f(arg);
                for s in subscripts {
                    s.lower.iter().for_each(&mut *f);
                    s.upper.iter().for_each(&mut *f);
                }
                f(value);
            }
            ExprKind::FieldAssign { arg, value, .. } => {
                f(arg);
                f(value);
            }
            ExprKind::RowCompare { left, right, .. } => {
                left.iter().for_each(&mut *f);
                right.iter().for_each(f);
            }
            ExprKind::SubLink(s) => {
                s.left.iter().for_each(&mut *f);
                if let Some(t) = &s.test {
                    f(t);
                }
            }
            ExprKind::Agg(a) => {
                a.args.iter().for_each(&mut *f);
                a.order.iter().for_each(|k| f(&k.expr));
                if let Some(x) = &a.filter {
                    f(x);
                }
            }
            ExprKind::Window(w) => {
                w.args.iter().for_each(&mut *f);
                if let Some(x) = &w.filter {
                    f(x);
                }
            }
        }
    }

    pub fn for_children_mut(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        let many = |l: &mut Vec<Expr>, f: &mut dyn FnMut(&mut Expr) -> Result<()>| l.iter_mut().try_for_each(f);
        match &mut self.kind {
            ExprKind::Const(_)
            | ExprKind::Param(_)
            | ExprKind::Column(_)
            | ExprKind::CaseArg
            | ExprKind::SqlValue(_)
            | ExprKind::Default
            | ExprKind::CurrentOf(_)
            | ExprKind::MergeAction => Ok(()),
            ExprKind::Func(x) | ExprKind::NullIf(x) => many(&mut x.args, f),
            ExprKind::IsDistinct { eq, .. } => many(&mut eq.args, f),
            ExprKind::ScalarArray { func, .. } => many(&mut func.args, f),
            ExprKind::Cast { arg, .. }
            | ExprKind::Not(arg)
            | ExprKind::IsNull { arg, .. }
            | ExprKind::BoolTest { arg, .. }
            | ExprKind::Field { arg, .. }
            | ExprKind::Collate { arg, .. } => f(arg),
            ExprKind::And(l) | ExprKind::Or(l) | ExprKind::Coalesce(l) | ExprKind::Grouping(l) => many(l, f),
            ExprKind::MinMax { args, .. } => many(args, f),
            ExprKind::Array { elements, .. } => many(elements, f),
            ExprKind::Row { fields, .. } => many(fields, f),
            ExprKind::Case { arg, whens, otherwise } => {
                if let Some(a) = arg {
                    f(a)?;
                }
                for (w, t) in whens {
                    f(w)?;
                    f(t)?;
                }
                otherwise.as_mut().map_or(Ok(()), |o| f(o))
            }
            ExprKind::Subscript { arg, subscripts, .. } => {
                f(arg)?;
                subscripts.iter_mut().flat_map(|s| s.lower.iter_mut().chain(s.upper.iter_mut())).try_for_each(f)
            }
            ExprKind::SubscriptAssign { arg, subscripts, value, .. } => {
                f(arg)?;
                subscripts
                    .iter_mut()
                    .flat_map(|s| s.lower.iter_mut().chain(s.upper.iter_mut()))
                    .try_for_each(&mut *f)?;
                f(value)
            }
            ExprKind::FieldAssign { arg, value, .. } => {
                f(arg)?;
                f(value)
            }
            ExprKind::RowCompare { left, right, .. } => {
                many(left, f)?;
                many(right, f)
            }
            ExprKind::SubLink(s) => {
                many(&mut s.left, f)?;
                s.test.as_mut().map_or(Ok(()), |t| f(t))
            }
            ExprKind::Agg(a) => {
                many(&mut a.args, f)?;
                for k in &mut a.order {
                    f(&mut k.expr)?;
                }
                a.filter.as_mut().map_or(Ok(()), |x| f(x))
            }
            ExprKind::Window(w) => {
                many(&mut w.args, f)?;
                w.filter.as_mut().map_or(Ok(()), |x| f(x))
            }
        }
    }

    /// Pre-order search, not into subqueries.
    pub fn any(&self, test: &dyn Fn(&Expr) -> bool) -> bool {
        if test(self) {
            return true;
        }
        let mut found = false;
        self.for_children(&mut |c| found = found || c.any(test));
        found
    }

    /// Columns used, correlated ones of subqueries included.
    pub fn columns(&self, out: &mut Vec<ColId>) {
        match &self.kind {
            ExprKind::Column(c) => out.push(*c),
            ExprKind::SubLink(s) => {
                s.query.outer_columns(out);
                s.left.iter().for_each(|e| e.columns(out));
                if let Some(test) = &s.test {
                    let mut used = Vec::new();
                    test.columns(&mut used);
                    out.extend(used.into_iter().filter(|c| c.rel != s.test_rel));
                }
                return;
            }
            _ => {}
        }
        self.for_children(&mut |c| c.columns(out));
    }
    /// WITH queries that subqueries in it read and that are defined outside of them.
    pub fn outer_ctes(&self, out: &mut Vec<u32>) {
        if let ExprKind::SubLink(s) = &self.kind {
            s.query.outer_ctes(out);
        }
        self.for_children(&mut |c| c.outer_ctes(out));
    }
    /// The function that this node itself calls for each row.
    pub fn called_function(&self) -> Option<&FuncExpr> {
        match &self.kind {
            ExprKind::Func(f)
            | ExprKind::NullIf(f)
            | ExprKind::IsDistinct { eq: f, .. }
            | ExprKind::ScalarArray { func: f, .. } => Some(f),
            _ => None,
        }
    }
    /// Whether the value must be the same whenever it is computed from the same row, which it need not be if it depends
    /// on settings, the clock or other rows.
    pub fn is_immutable(&self) -> bool {
        !self.any(&|e| match &e.kind {
            ExprKind::SqlValue(_) | ExprKind::SubLink(_) => true,
            _ => e.called_function().is_some_and(|f| f.volatility != b'i'),
        })
    }
    /// Functions that may go, those in subqueries too, each once; an extension's operator stands for its function.
    pub fn user_functions(&self, out: &mut Vec<kilndb_base::Oid>) {
        let function = match self.called_function() {
            Some(f) if extension::is_member(f.operator) => f.operator,
            Some(f) => f.oid,
            None => 0,
        };
        if extension::may_go(function) && !out.contains(&function) {
            out.push(function);
        }
        if let ExprKind::SubLink(s) = &self.kind {
            s.query.user_functions(out);
        }
        self.for_children(&mut |c| c.user_functions(out));
    }
    pub fn is_volatile(&self) -> bool {
        self.any(&|e| match &e.kind {
            ExprKind::Func(f) => f.volatility == b'v',
            ExprKind::SubLink(s) => s.query.is_volatile(),
            _ => false,
        })
    }
    /// Whether two rows may get different values from the expression. Unlike in `is_volatile`, a subquery that depends
    /// on nothing outside is a value: it runs once in a statement.
    pub fn varies(&self) -> bool {
        self.any(&|e| match &e.kind {
            ExprKind::Func(f) => f.volatility == b'v',
            ExprKind::SubLink(s) => s.query.is_volatile() && s.is_correlated(),
            _ => false,
        })
    }
    /// Whether the value depends on nothing but the row, the parameters and the settings of formats: not on catalogs,
    /// the session, the clock or chance.
    pub fn is_self_contained(&self) -> bool {
        self.is_contained(&|f| is_pure(f) || shows_plain_values(f), &has_plain_values)
    }
    /// Whether the expression calls nothing but immutable built-in functions: a session that knows types and settings
    /// can tell the value for given columns and parameters.
    pub fn is_immutable_builtin(&self) -> bool {
        self.is_contained(&is_immutable_builtin, &|_| true)
    }
    /// Whether the expression is self-contained but for what time it is: it may call now(), transaction_timestamp(),
    /// statement_timestamp() and clock_timestamp().
    pub fn is_of_moment(&self) -> bool {
        let is_clock = |f: &FuncExpr| f.internal && functions::support(f.oid) == Support::Clock;
        let function = |f: &FuncExpr| is_pure(f) || shows_plain_values(f) || is_clock(f);
        self.is_contained(&function, &has_plain_values)
    }
    /// Whether there is nothing in the expression but simple kinds of nodes, such functions and such types.
    fn is_contained(&self, function: &dyn Fn(&FuncExpr) -> bool, of_type: &dyn Fn(Oid) -> bool) -> bool {
        !self.any(&|e| {
            let kind = match &e.kind {
                ExprKind::Func(f)
                | ExprKind::NullIf(f)
                | ExprKind::IsDistinct { eq: f, .. }
                | ExprKind::ScalarArray { func: f, .. } => function(f),
                ExprKind::Cast { kind: CastKind::InOut, arg, .. } => {
                    kilndb_types::context::is_self_contained(e.ty) && kilndb_types::context::is_self_contained(arg.ty)
                }
                ExprKind::Cast { kind, .. } => matches!(kind, CastKind::Relabel | CastKind::Typmod),
                ExprKind::Const(_)
                | ExprKind::Param(_)
                | ExprKind::Column(_)
                | ExprKind::And(_)
                | ExprKind::Or(_)
                | ExprKind::Not(_)
                | ExprKind::IsNull { .. }
                | ExprKind::BoolTest { .. }
                | ExprKind::Case { .. }
                | ExprKind::CaseArg
                | ExprKind::Array { .. }
                | ExprKind::Coalesce(_)
                | ExprKind::MinMax { .. }
                | ExprKind::Collate { .. } => true,
                _ => false,
            };
            !kind || !of_type(e.ty)
        })
    }
    pub fn has_sublink(&self) -> bool {
        self.any(&|e| matches!(e.kind, ExprKind::SubLink(_)))
    }
    pub fn has_agg(&self) -> bool {
        self.any(&|e| matches!(e.kind, ExprKind::Agg(_) | ExprKind::Grouping(_)))
    }
    pub fn has_window(&self) -> bool {
        self.any(&|e| matches!(e.kind, ExprKind::Window(_)))
    }
    pub fn has_srf(&self) -> bool {
        self.any(&|e| matches!(&e.kind, ExprKind::Func(f) if f.returns_set))
    }

    /// Rewrites bottom-up, subqueries included: `f` may replace each node.
    pub fn rewrite(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        self.for_children_mut(&mut |c| c.rewrite(f))?;
        if let ExprKind::SubLink(s) = &mut self.kind {
            s.query.rewrite(f)?;
        }
        f(self)
    }
}

impl SubLink {
    /// Whether the subquery uses columns from outside.
    pub(crate) fn is_correlated(&self) -> bool {
        let mut outer = Vec::new();
        self.query.outer_columns(&mut outer);
        !outer.is_empty()
    }
}

impl Query {
    /// All expressions of this level (not of nested queries).
    pub fn for_exprs<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        self.for_written_exprs(f);
        self.for_security_exprs(&mut |_, e| f(e));
    }

    /// What row security has added to this level, with the table that it is about.
    pub fn for_security_exprs<'a>(&'a self, f: &mut dyn FnMut(u32, &'a Expr)) {
        for rel in &self.rels {
            rel.security_quals.iter().for_each(|e| f(rel.id, e));
        }
        if let QueryBody::Dml(d) = &self.body {
            d.row_checks.iter().for_each(|check| f(d.rel, &check.condition));
        }
    }

    /// The expressions of this level that the statement itself, or a view, has.
    pub(crate) fn for_written_exprs<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        fn tree<'a>(t: &'a JoinTree, f: &mut dyn FnMut(&'a Expr)) {
            if let JoinTree::Join { left, right, on, .. } = t {
                tree(left, f);
                tree(right, f);
                on.iter().for_each(f);
            }
        }
        // Some are asked for at every level of nested queries, and then walk all below it.
        work::owe(30);
        self.from.iter().for_each(|t| tree(t, f));
        self.filter.iter().for_each(&mut *f);
        self.targets.iter().for_each(|t| f(&t.expr));
        self.group_by.iter().for_each(&mut *f);
        self.outer_aggs.iter().for_each(&mut *f);
        self.having.iter().for_each(&mut *f);
        self.order_by.iter().for_each(|k| f(&k.expr));
        self.limit.iter().for_each(&mut *f);
        self.offset.iter().for_each(&mut *f);
        if let Distinct::On(l) = &self.distinct {
            l.iter().for_each(&mut *f);
        }
        for w in &self.windows {
            w.partition.iter().for_each(&mut *f);
            w.order.iter().for_each(|k| f(&k.expr));
            for b in [&w.start, &w.end] {
                if let FrameBound::Preceding(e) | FrameBound::Following(e) = b {
                    f(e);
                }
            }
        }
        for r in &self.rels {
            match &r.kind {
                RelKind::Function { calls, .. } => calls.iter().for_each(|c| f(&c.expr)),
                RelKind::Values(rows) => rows.iter().flatten().for_each(&mut *f),
                _ => {}
            }
        }
        match &self.body {
            QueryBody::Values(rows) => rows.iter().flatten().for_each(f),
            QueryBody::Dml(d) => {
                d.assignments.iter().for_each(|a| f(&a.expr));
                d.returning.iter().for_each(|t| f(&t.expr));
                if let Some(OnConflict { update: Some(u), .. }) = &d.on_conflict {
                    u.assignments.iter().for_each(|a| f(&a.expr));
                    u.filter.iter().for_each(&mut *f);
                }
                d.merge_on.iter().for_each(&mut *f);
                for m in &d.merge {
                    m.condition.iter().for_each(&mut *f);
                    if let MergeCommand::Update(l) | MergeCommand::Insert(l) = &m.action {
                        l.iter().for_each(|a| f(&a.expr));
                    }
                }
            }
            _ => {}
        }
    }

    pub fn for_subqueries<'a>(&'a self, f: &mut dyn FnMut(&'a Query)) {
        self.ctes.iter().for_each(|c| f(&c.query));
        match &self.body {
            QueryBody::SetOp { left, right, .. } => {
                f(left);
                f(right);
            }
            QueryBody::Dml(d) => d.source.iter().for_each(|q| f(q)),
            _ => {}
        }
        for r in &self.rels {
            if let RelKind::Subquery(q) = &r.kind {
                f(q);
            }
        }
    }

    /// Functions that are not built in and that it calls at any level.
    pub fn user_functions(&self, out: &mut Vec<kilndb_base::Oid>) {
        self.for_exprs(&mut |e| e.user_functions(out));
        self.for_subqueries(&mut |q| q.user_functions(out));
    }
    /// Whether any expression of this or a nested level is volatile.
    pub fn is_volatile(&self) -> bool {
        let mut found = false;
        self.for_exprs(&mut |e| found = found || e.is_volatile());
        self.for_subqueries(&mut |q| found = found || q.is_volatile());
        found
    }

    fn collect_rels(&self, out: &mut Vec<u32>) {
        out.extend(self.rels.iter().map(|r| r.id));
        out.extend((self.outer_agg_rel != 0).then_some(self.outer_agg_rel));
        match &self.body {
            QueryBody::SetOp { rel, .. } => out.push(*rel),
            QueryBody::Dml(d) => {
                out.extend([d.rel, d.excluded_rel, d.old_rel, d.new_rel, d.source_rel, d.old_values_rel])
            }
            _ => {}
        }
    }

    /// The numbers that relations of this level stand under.
    pub(crate) fn own_rels(&self) -> Vec<u32> {
        let mut own = Vec::new();
        self.collect_rels(&mut own);
        own
    }

    /// Columns of relations that are not this query's own (nor of its nested queries).
    pub fn outer_columns(&self, out: &mut Vec<ColId>) {
        let mut own = Vec::new();
        self.collect_rels(&mut own);
        let mut all = Vec::new();
        self.for_exprs(&mut |e| {
            e.columns(&mut all);
        });
        self.for_subqueries(&mut |q| q.outer_columns(&mut all));
        out.extend(all.into_iter().filter(|c| !own.contains(&c.rel)));
    }

    /// WITH queries that it reads at any level and that are defined outside of it.
    pub fn outer_ctes(&self, out: &mut Vec<u32>) {
        let mut all: Vec<u32> = self
            .rels
            .iter()
            .filter_map(|r| if let RelKind::Cte { cte, .. } = &r.kind { Some(*cte) } else { None })
            .collect();
        self.for_exprs(&mut |e| e.outer_ctes(&mut all));
        self.for_subqueries(&mut |q| q.outer_ctes(&mut all));
        out.extend(all.into_iter().filter(|id| !self.ctes.iter().any(|c| c.id == *id)));
    }

    /// Rewrites the expressions of this and all nested levels, each bottom-up.
    pub fn rewrite(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        self.for_exprs_mut(&mut |e| e.rewrite(f))?;
        self.for_subqueries_mut(&mut |q| q.rewrite(f))
    }

    /// Calls `f` on all expressions of this level, not on those of nested queries.
    pub fn for_exprs_mut(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        self.for_conditions_mut(f)?;
        for e in [&mut self.having, &mut self.limit, &mut self.offset].into_iter().flatten() {
            f(e)?;
        }
        self.targets.iter_mut().try_for_each(|t| f(&mut t.expr))?;
        self.group_by.iter_mut().chain(&mut self.outer_aggs).try_for_each(&mut *f)?;
        self.order_by.iter_mut().try_for_each(|k| f(&mut k.expr))?;
        if let Distinct::On(l) = &mut self.distinct {
            l.iter_mut().try_for_each(&mut *f)?;
        }
        for w in &mut self.windows {
            w.partition.iter_mut().try_for_each(&mut *f)?;
            w.order.iter_mut().try_for_each(|k| f(&mut k.expr))?;
            for b in [&mut w.start, &mut w.end] {
                if let FrameBound::Preceding(e) | FrameBound::Following(e) = b {
                    f(e)?;
                }
            }
        }
        for r in &mut self.rels {
            r.security_quals.iter_mut().try_for_each(&mut *f)?;
            match &mut r.kind {
                RelKind::Function { calls, .. } => calls.iter_mut().try_for_each(|c| f(&mut c.expr))?,
                RelKind::Values(rows) => rows.iter_mut().flatten().try_for_each(&mut *f)?,
                _ => {}
            }
        }
        match &mut self.body {
            QueryBody::Select | QueryBody::SetOp { .. } => Ok(()),
            QueryBody::Values(rows) => rows.iter_mut().flatten().try_for_each(f),
            QueryBody::Dml(d) => d.for_exprs_mut(f),
        }
    }

    /// Calls `f` on WHERE and the conditions of joins.
    pub fn for_conditions_mut(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        fn tree(t: &mut JoinTree, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
            let JoinTree::Join { left, right, on, .. } = t else { return Ok(()) };
            tree(left, f)?;
            tree(right, f)?;
            on.iter_mut().try_for_each(f)
        }
        self.from.iter_mut().try_for_each(|t| tree(t, f))?;
        self.filter.iter_mut().try_for_each(f)
    }

    /// Calls `f` on the queries nested in this one, apart from those in expressions.
    pub fn for_subqueries_mut(&mut self, f: &mut dyn FnMut(&mut Query) -> Result<()>) -> Result<()> {
        for r in &mut self.rels {
            if let RelKind::Subquery(q) = &mut r.kind {
                f(q)?;
            }
        }
        self.ctes.iter_mut().try_for_each(|c| f(&mut c.query))?;
        match &mut self.body {
            QueryBody::SetOp { left, right, .. } => {
                f(left)?;
                f(right)
            }
            QueryBody::Dml(d) => d.source.as_mut().map_or(Ok(()), |source| f(source)),
            _ => Ok(()),
        }
    }
}

impl Dml {
    pub(super) fn rewrite(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        if let Some(q) = &mut self.source {
            q.rewrite(f)?;
        }
        self.for_exprs_mut(&mut |e| e.rewrite(f))
    }

    fn for_exprs_mut(&mut self, f: &mut dyn FnMut(&mut Expr) -> Result<()>) -> Result<()> {
        self.assignments.iter_mut().try_for_each(|a| f(&mut a.expr))?;
        self.returning.iter_mut().try_for_each(|t| f(&mut t.expr))?;
        self.row_filter.iter_mut().try_for_each(&mut *f)?;
        self.row_checks.iter_mut().try_for_each(|check| f(&mut check.condition))?;
        if let Some(OnConflict { update: Some(u), .. }) = &mut self.on_conflict {
            u.assignments.iter_mut().try_for_each(|a| f(&mut a.expr))?;
            u.filter.iter_mut().try_for_each(&mut *f)?;
        }
        self.merge_on.iter_mut().try_for_each(&mut *f)?;
        for m in &mut self.merge {
            m.condition.iter_mut().try_for_each(&mut *f)?;
            if let MergeCommand::Update(l) | MergeCommand::Insert(l) = &mut m.action {
                l.iter_mut().try_for_each(|a| f(&mut a.expr))?;
            }
        }
        Ok(())
    }
}

fn is_immutable_builtin(f: &FuncExpr) -> bool {
    f.volatility == b'i' && f.internal && !f.returns_set && f.oid < FIRST_USER_OID
}

/// An immutable function that is computed from its arguments alone: some ask the session all the same.
fn is_pure(f: &FuncExpr) -> bool {
    let kind = functions::descriptor(f.oid).map(|d| d.kind);
    is_immutable_builtin(f) && kind.is_none_or(|kind| matches!(kind, FunctionKind::Scalar(_)))
}

/// A function of the text forms of its arguments, which is called stable because of types whose text depends on more
/// than the value and the settings: these arguments are of other types.
fn shows_plain_values(f: &FuncExpr) -> bool {
    let is_plain = |e: &Expr| kilndb_types::context::is_self_contained(e.ty);
    functions::support(f.oid) == Support::ShowsArguments && f.args.iter().all(is_plain)
}

/// Types whose values mean the same to everybody, once they have been read.
fn has_plain_values(type_oid: Oid) -> bool {
    use kilndb_types::oids::*;
    kilndb_types::context::is_self_contained(type_oid)
        || matches!(type_oid, DATE | TIME | TIMESTAMP | TIMESTAMPTZ | INTERVAL)
        // What IN lists and arrays that are parameters mostly consist of.
        || matches!(
            type_oid,
            BOOL_ARRAY | INT2_ARRAY | INT4_ARRAY | INT8_ARRAY | FLOAT8_ARRAY | NUMERIC_ARRAY | TEXT_ARRAY | VARCHAR_ARRAY
        )
        || matches!(type_oid, BPCHAR_ARRAY | UUID_ARRAY | DATE_ARRAY | TIMESTAMP_ARRAY | TIMESTAMPTZ_ARRAY)
}
