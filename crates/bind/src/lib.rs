//! Name resolution and typing, after PostgreSQL's parse analysis.
//!
//! Invariants
//! 1. Error texts, hints and positions are PostgreSQL's.
//! 2. Recursion over user input is bounded by the stack used since the start (54001).
//! 3. A [`ir::ColId`] names the same column everywhere in a statement: relation numbers are never reused.
//!
//! Must not know: plans, storage, sessions and their settings. What it binds is told by the catalogs, and by whoever runs a
//! routine whose variables a statement names ([`variables::VariableScope`]).

pub mod access;
mod access_collector;
mod agg;
mod assign;
mod call;
mod coerce;
pub mod collation;
mod const_eval;
pub mod current_of;
pub(crate) mod dml;
pub mod domain;
pub mod engine_query;
mod expr;
mod expr_ops;
mod from;
mod func;
mod implication;
pub mod inline;
mod insert;
pub mod ir;
mod json_constructor;
pub mod lifting;
pub mod locking;
mod merge;
pub mod names;
pub mod object_address;
mod onconflict;
pub mod policy;
mod polymorphic;
mod resolve;
pub mod row_security;
mod row_source;
mod same;
mod scope;
mod select;
mod setop;
mod sublink;
mod text_scan;
pub mod tracked_text;
pub mod trigger;
mod typename;
pub mod updatable;
pub mod variables;
mod view_columns;
mod view_target;
pub mod walk;
mod window;
mod with;

use ir::*;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::{CatalogView, Table};
use kilndb_syntax::Node;
use kilndb_types::{EvalContext, oids};
use scope::Scope;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

pub use call::bind_call;
pub use coerce::is_polymorphic;
pub use from::refuse_other_database;
pub use implication::implies;
pub use row_source::bind_row_source;
pub use same::same;
pub use select::{is_constant, output_name};
pub use typename::type_of_text;

/// State of binding one statement.
pub struct Binder<'a> {
    pub catalog: &'a dyn CatalogView,
    /// The parameters' types; 0 for one that is not known yet.
    params: RefCell<Vec<Oid>>,
    /// Parameters may be referred to at all, and new ones appear by use.
    allow_params: bool,
    next_rel: Cell<u32>,
    next_cte: Cell<u32>,
    source: RefCell<Arc<str>>,
    lifting: Option<&'a lifting::Lifting>,
    /// The variables of the routine that runs the statement.
    variables: Option<&'a variables::Variables<'a>>,
    /// Reads the statement's own literals of types that depend on the session; without it they are read when it runs.
    eval: Option<&'a EvalContext<'a>>,
    /// Where names of the text are noted, if somebody wants them.
    names: Option<&'a names::TextNames>,
    /// The materialized view whose rows the statement may change, 0 if there is none.
    maintained: Oid,
    /// What the statement does to the relations that it names.
    accesses: RefCell<Vec<access::RelationAccess>>,
    /// The owner of the view that is being bound.
    check_as: Cell<Option<Oid>>,
    /// A view that the next relation of FROM names is not looked into: nothing but its columns is wanted.
    opaque_view: Cell<bool>,
    /// What is bound is a definition's text, which knows no variables of the routine that runs the statement.
    hides_variables: Cell<bool>,
    /// Views are taken for tables, for who wants to see what is written.
    keeps_views: bool,
}

impl<'a> Binder<'a> {
    pub fn new(catalog: &'a dyn CatalogView, source: Arc<str>, params: Vec<Oid>) -> Binder<'a> {
        Binder {
            catalog,
            params: RefCell::new(params),
            allow_params: true,
            next_rel: Cell::new(1),
            next_cte: Cell::new(0),
            source: RefCell::new(source),
            lifting: None,
            variables: None,
            eval: None,
            names: None,
            maintained: 0,
            accesses: RefCell::default(),
            check_as: Cell::new(None),
            opaque_view: Cell::new(false),
            hides_variables: Cell::new(false),
            keeps_views: false,
        }
    }
    pub fn new_rel(&self) -> u32 {
        let n = self.next_rel.get();
        self.next_rel.set(n + 1);
        n
    }
    fn new_cte(&self) -> u32 {
        let n = self.next_cte.get();
        self.next_cte.set(n + 1);
        n
    }
    /// Adds the position of a node, unless the error has one.
    pub fn at(&self, e: Error, loc: i32) -> Error {
        e.or_position(kilndb_syntax::position_of(&self.source.borrow(), loc))
    }
    pub(crate) fn err<T>(&self, state: kilndb_base::SqlState, message: impl Into<String>, loc: i32) -> Result<T> {
        Err(self.at(Error::new(state, message), loc))
    }
    pub(crate) fn type_name(&self, oid: Oid) -> String {
        self.catalog.format_type(oid, -1)
    }
    fn finish_params(self) -> Result<Vec<Oid>> {
        let params = self.params.into_inner();
        if let Some(i) = params.iter().position(|t| *t == 0 || *t == oids::UNKNOWN) {
            return Err(Error::new(
                sqlstate::INDETERMINATE_DATATYPE,
                format!("could not determine data type of parameter ${}", i + 1),
            ));
        }
        Ok(params)
    }
}

/// Whether `name` is that of a column which every table has.
pub fn is_system_column(name: &str) -> bool {
    scope::system_column(name).is_some()
}

/// Where an expression begins in its text, as far as its own node tells; -1 unknown.
pub fn location_of(node: Node<'_>) -> i32 {
    match node {
        Node::A_Const(c) => c.location,
        Node::ColumnRef(c) => c.location,
        Node::FuncCall(c) => c.location,
        Node::TypeCast(c) => Some(location_of(c.arg())).filter(|l| *l >= 0).unwrap_or(c.location),
        Node::A_Expr(c) => c.location,
        Node::ParamRef(c) => c.location,
        Node::SubLink(c) => c.location,
        _ => -1,
    }
}

/// Binds SELECT, VALUES, INSERT, UPDATE, DELETE, MERGE and EXPLAIN of one of them. `param_types`: 0 = to be found out.
pub fn bind(
    statement: &kilndb_syntax::Statement,
    catalog: &dyn CatalogView,
    param_types: &mut Vec<Oid>,
) -> Result<BoundStatement> {
    bind_node(statement.node(), statement.source().clone(), catalog, param_types, None, None)
}

/// Binds as [`bind`] does a node inside of another statement (DECLARE CURSOR, CREATE TABLE AS, COPY (…), PREPARE). With
/// `lifting`, which excludes parameters of the statement's own, literals become parameters.
pub fn bind_node(
    node: Node<'_>,
    source: Arc<str>,
    catalog: &dyn CatalogView,
    param_types: &mut Vec<Oid>,
    lifting: Option<&lifting::Lifting>,
    eval: Option<&EvalContext<'_>>,
) -> Result<BoundStatement> {
    let binder = Binder { lifting, eval, ..Binder::new(catalog, source, std::mem::take(param_types)) };
    let bound = if let Node::ExplainStmt(x) = node {
        let options = explain_options(&binder, x)?;
        BoundStatement::Explain { options, inner: SharedQuery::new(binder.bind_whole(explained_query(x))?) }
    } else {
        BoundStatement::Query(SharedQuery::new(binder.bind_whole(node)?))
    };
    *param_types = binder.finish_params()?;
    Ok(bound)
}

/// EXPLAIN EXECUTE: what was prepared, to be explained as this statement says.
pub fn explained(
    x: &kilndb_syntax::nodes::ExplainStmt,
    source: &Arc<str>,
    bound: BoundStatement,
    catalog: &dyn CatalogView,
) -> Result<BoundStatement> {
    let options = explain_options(&Binder::new(catalog, source.clone(), Vec::new()), x)?;
    let (BoundStatement::Query(inner) | BoundStatement::Explain { inner, .. }) = bound;
    Ok(BoundStatement::Explain { options, inner })
}

/// The statement with values in the place of its parameters, of which `value_of` has the number (from 0); one without
/// a value stays a parameter.
pub fn with_values(
    mut bound: BoundStatement,
    value_of: &dyn Fn(u32) -> Result<Option<kilndb_types::Datum>>,
) -> Result<BoundStatement> {
    let (BoundStatement::Query(query) | BoundStatement::Explain { inner: query, .. }) = &mut bound;
    query.rewrite(&mut |e| {
        if let ExprKind::Param(n) = &e.kind
            && let Some(value) = value_of(*n)?
        {
            e.kind = ExprKind::Const(value);
        }
        Ok(())
    })?;
    Ok(bound)
}

/// Binds as [`bind_node`] does a statement of a routine: its parameters are the variables that it uses.
pub fn bind_with_variables(
    node: Node<'_>,
    source: Arc<str>,
    catalog: &dyn CatalogView,
    variables: &variables::Variables<'_>,
    eval: Option<&EvalContext<'_>>,
) -> Result<BoundStatement> {
    let binder = Binder { variables: Some(variables), eval, ..Binder::new(catalog, source, Vec::new()) };
    if let Node::ExplainStmt(x) = node {
        let options = explain_options(&binder, x)?;
        return Ok(BoundStatement::Explain {
            options,
            inner: SharedQuery::new(binder.bind_whole(explained_query(x))?),
        });
    }
    Ok(BoundStatement::Query(SharedQuery::new(binder.bind_whole(node)?)))
}

/// A query of parameter 1 converted as an assignment does, and whether it is self-contained. None: there is no such
/// conversion.
pub fn bind_conversion(from: Oid, to: Oid, typmod: i32, catalog: &dyn CatalogView) -> Result<Option<(Query, bool)>> {
    let binder = Binder::new(catalog, Arc::from(""), vec![from]);
    let value = Expr::new(ExprKind::Param(0), from);
    let Ok(expr) = binder.coerce_to_target(value, to, typmod, kilndb_catalog::CastContext::Assignment, false)? else {
        return Ok(None);
    };
    let is_self_contained = expr.is_self_contained();
    let targets = vec![Target { expr, name: String::new(), junk: false, table_oid: 0, attnum: 0 }];
    Ok(Some((Query { targets, ..Query::default() }, is_self_contained)))
}

/// `UPDATE … SET target = value` of a routine's text: the new value of the whole variable, as the only target of a
/// query.
pub fn bind_assignment(
    target: &kilndb_syntax::nodes::ResTarget,
    names: usize,
    source: Arc<str>,
    catalog: &dyn CatalogView,
    variables: &variables::Variables<'_>,
    eval: Option<&EvalContext<'_>>,
) -> Result<BoundStatement> {
    let binder = Binder { variables: Some(variables), eval, ..Binder::new(catalog, source, Vec::new()) };
    let query = binder.with_accesses(binder.bind_assignment_target(target, names)?)?;
    Ok(BoundStatement::Query(SharedQuery::new(query)))
}

/// What EXPLAIN shows the plan of: of DECLARE the cursor's query.
pub fn explained_query<'n>(x: &'n kilndb_syntax::nodes::ExplainStmt) -> Node<'n> {
    match x.query() {
        Node::DeclareCursorStmt(cursor) => cursor.query(),
        query => query,
    }
}

fn explain_options(binder: &Binder<'_>, x: &kilndb_syntax::nodes::ExplainStmt) -> Result<ExplainOptions> {
    let mut o = ExplainOptions { costs: true, ..Default::default() };
    let (mut timing, mut summary, mut buffers) = (None, None, None);
    for def in x.options() {
        let name = def.defname().unwrap_or("");
        let text = match def.arg() {
            Node::String(s) => s.sval().unwrap_or("").to_ascii_lowercase(),
            Node::Integer(i) => i.ival.to_string(),
            Node::Boolean(b) => b.boolval.to_string(),
            _ => "true".into(),
        };
        let on = match text.as_str() {
            "true" | "on" | "1" => Some(true),
            "false" | "off" | "0" => Some(false),
            _ => None,
        };
        let flag = || on.ok_or_else(|| Error::new(sqlstate::SYNTAX_ERROR, format!("{name} requires a Boolean value")));
        let unrecognized = || {
            let message = format!("unrecognized value for EXPLAIN option \"{name}\": \"{text}\"");
            binder.err(sqlstate::INVALID_PARAMETER_VALUE, message, def.location)
        };
        match name {
            "analyze" => o.analyze = flag()?,
            "verbose" => o.verbose = flag()?,
            "costs" => o.costs = flag()?,
            "buffers" => buffers = Some(flag()?),
            "timing" => timing = Some(flag()?),
            "summary" => summary = Some(flag()?),
            "wal" => o.wal = flag()?,
            "settings" => o.settings = flag()?,
            "generic_plan" => o.generic_plan = flag()?,
            "memory" => {
                if flag()? {
                    return Err(Error::unsupported("EXPLAIN option MEMORY is not supported"));
                }
            }
            "serialize" => {
                o.serialize = match (def.arg(), text.as_str()) {
                    (Node::Boolean(_) | Node::String(_) | Node::Integer(_), "off" | "none") => ExplainSerialize::None,
                    (Node::String(_), "binary") => ExplainSerialize::Binary,
                    (Node::String(_), "text") => ExplainSerialize::Text,
                    (Node::Boolean(_) | Node::String(_) | Node::Integer(_), _) => return unrecognized(),
                    _ => ExplainSerialize::Text,
                }
            }
            "format" => match text.as_str() {
                "text" => o.format = ExplainFormat::Text,
                "json" => o.format = ExplainFormat::Json,
                "yaml" => o.format = ExplainFormat::Yaml,
                "xml" => o.format = ExplainFormat::Xml,
                _ => return unrecognized(),
            },
            _ => {
                return binder.err(
                    sqlstate::SYNTAX_ERROR,
                    format!("unrecognized EXPLAIN option \"{name}\""),
                    def.location,
                );
            }
        }
    }
    let invalid = |message: String| Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
    let of_a_run =
        [("WAL", o.wal), ("TIMING", timing == Some(true)), ("SERIALIZE", o.serialize != ExplainSerialize::None)];
    if let Some((option, _)) = of_a_run.iter().find(|(_, is_on)| *is_on && !o.analyze) {
        return invalid(format!("EXPLAIN option {option} requires ANALYZE"));
    }
    if o.generic_plan && o.analyze {
        return invalid("EXPLAIN options ANALYZE and GENERIC_PLAN cannot be used together".to_string());
    }
    o.timing = timing.unwrap_or(o.analyze);
    o.summary = summary.unwrap_or(o.analyze);
    o.buffers = buffers.unwrap_or(o.analyze);
    Ok(o)
}

impl Binder<'_> {
    /// A statement with what it needs privileges for.
    pub(crate) fn bind_whole(&self, node: Node<'_>) -> Result<Query> {
        self.with_accesses(self.bind_statement(node, None)?)
    }

    /// A statement or a query of a CTE.
    fn bind_statement(&self, node: Node<'_>, outer: Option<&Scope<'_>>) -> Result<Query> {
        match node {
            Node::SelectStmt(s) => self.bind_select(s, outer),
            Node::InsertStmt(s) => self.bind_insert(s, outer),
            Node::UpdateStmt(s) => self.bind_update(s, outer),
            Node::DeleteStmt(s) => self.bind_delete(s, outer),
            Node::MergeStmt(s) => self.bind_merge(s, outer),
            _ => Err(Error::unsupported("a utility statement here cannot be planned")),
        }
    }
}

/// An expression over one table's row, for defaults, checks, index expressions and the like.
pub struct BoundExpression {
    pub expr: Expr,
    /// The table's columns are `ColId { rel, att: attnum }`.
    pub rel: u32,
}

/// The condition of COPY FROM … WHERE over a table's row, whose columns are those of relation `rel`.
pub(crate) fn bind_row_filter(
    node: Node<'_>,
    source: &Arc<str>,
    table: &Arc<Table>,
    rel: u32,
    catalog: &dyn CatalogView,
) -> Result<Option<Expr>> {
    let binder = Binder::new(catalog, source.clone(), Vec::new());
    let mut scope = Scope { clause: scope::ClauseKind::CopyWhere, ..Scope::new(None) };
    scope.items.push(scope::NsItem::of_table(rel, table, &table.name));
    let filter = binder.bind_condition(node, &scope, "WHERE")?;
    let mut used = Vec::new();
    filter.iter().for_each(|e| e.columns(&mut used));
    for c in used {
        if c.att < 0 {
            return Err(Error::new(
                sqlstate::INVALID_COLUMN_REFERENCE,
                "system columns are not supported in COPY FROM WHERE conditions",
            ));
        }
        let column = usize::try_from(c.att - 1).ok().and_then(|i| table.columns.get(i)).filter(|c| c.generated != 0);
        if let Some(column) = column {
            return Err(Error::new(
                sqlstate::INVALID_COLUMN_REFERENCE,
                "generated columns are not supported in COPY FROM WHERE conditions",
            )
            .with_detail(format!("Column \"{}\" is a generated column.", column.name)));
        }
    }
    Ok(filter)
}

/// Binds expression text over `table`. `target`: coerce the result by assignment rules.
pub fn bind_expression(
    sql: &str,
    table: Option<&Arc<Table>>,
    catalog: &dyn CatalogView,
    target: Option<(Oid, i32)>,
) -> Result<BoundExpression> {
    bind_expression_by(Binder::new(catalog, Arc::from(""), Vec::new()), sql, table, target)
}

/// The same of a definition's text that is to be shown: its views stay what they are called, and whoever looks need not
/// be allowed to use the schemas that it names.
pub fn bind_shown_expression(
    sql: &str,
    table: Option<&Arc<Table>>,
    catalog: &dyn CatalogView,
    target: Option<(Oid, i32)>,
) -> Result<BoundExpression> {
    let binder = Binder { keeps_views: true, ..Binder::new(catalog, Arc::from(""), Vec::new()) };
    let before = catalog.trust_names(true);
    let bound = bind_expression_by(binder, sql, table, target);
    catalog.trust_names(before);
    bound
}

fn bind_expression_by(
    binder: Binder<'_>,
    sql: &str,
    table: Option<&Arc<Table>>,
    target: Option<(Oid, i32)>,
) -> Result<BoundExpression> {
    let text = format!("SELECT {sql}");
    let script = kilndb_syntax::parse(&text)?;
    let statements = script.statements();
    binder.source.replace(Arc::from(text));
    let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else {
        return Err(Error::internal("expression text is not an expression"));
    };
    let Some(first) = select.target_list().first() else {
        return Err(Error::internal("expression text is empty"));
    };
    bind_expression_node(&binder, first.val(), table, target)
}

/// Whether the text is a literal that takes the type of whatever it is used as.
pub fn is_untyped_literal(sql: &str, catalog: &dyn CatalogView) -> Result<bool> {
    let binder = Binder::new(catalog, Arc::from(""), Vec::new());
    Ok(binder.bind_sql_text(sql, &Scope::new(None))?.ty == oids::UNKNOWN)
}

/// Binds as [`bind_expression`] does an expression that is parsed already; positions are relative to the binder's text.
pub fn bind_expression_node(
    binder: &Binder<'_>,
    node: Node<'_>,
    table: Option<&Arc<Table>>,
    target: Option<(Oid, i32)>,
) -> Result<BoundExpression> {
    let mut scope = Scope::new(None);
    let rel = binder.new_rel();
    if let Some(t) = table {
        scope.items.push(scope::NsItem::of_table(rel, t, &t.name));
    }
    let expr = binder.bind_expr(node, &scope)?;
    Ok(BoundExpression { expr: binder.converted(expr, target)?, rel })
}

impl Binder<'_> {
    /// An expression in the type and modifier wanted, as an assignment converts it; without one, in a type of its own.
    fn converted(&self, expr: Expr, target: Option<(Oid, i32)>) -> Result<Expr> {
        let Some((ty, typmod)) = target else { return self.resolve_unknown(expr) };
        self.coerce_to_target(expr, ty, typmod, kilndb_catalog::CastContext::Assignment, false)?.map_err(|e| {
            let (found, wanted) = (self.type_name(e.ty), self.type_name(ty));
            Error::new(sqlstate::DATATYPE_MISMATCH, format!("expression is of type {found} but should be {wanted}"))
        })
    }
}
