//! Expressions as SQL, with the names that EXPLAIN shows columns, relations and subplans by.

use kilndb_base::hash::HashMap;
use kilndb_bind::ir::*;
use kilndb_catalog::CatalogView;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::format_type::{quote_identifier, schema_name};
use kilndb_types::{Datum, EvalContext, oids};
use std::cell::RefCell;

/// PostgreSQL's name of a VALUES list in FROM, whatever the statement calls it.
const VALUES_ALIAS: &str = "*VALUES*";
const MOST_NAME_BYTES: usize = 63;

/// Joins conditions with AND; a single one stays as it is.
pub(crate) fn and_text(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        many => format!("({})", many.join(" AND ")),
    }
}

/// Removes one pair of parentheses around the whole text.
pub fn bare(text: String) -> String {
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) if !inner.contains('(') && !inner.contains(')') && !inner.contains(' ') => inner.to_string(),
        _ => text,
    }
}

/// What tells how values and the names of objects are written.
#[derive(Clone, Copy)]
pub struct ValueNames<'a> {
    pub catalog: &'a dyn CatalogView,
    /// The session's ways to write values, where there is a session.
    pub eval: Option<&'a EvalContext<'a>>,
}

fn constant(d: &Datum, ty: kilndb_base::Oid, names: ValueNames<'_>) -> String {
    let catalog = names.catalog;
    if d.is_null() {
        return format!("NULL::{}", catalog.format_type(ty, -1));
    }
    let mut out = Vec::new();
    let written = match names.eval {
        Some(cx) => kilndb_types::io::output(ty, d, &mut out, cx),
        None => kilndb_catalog::value_host::with_context(catalog, |cx| kilndb_types::io::output(ty, d, &mut out, cx)),
    };
    let text = match written {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => format!("{d:?}"),
    };
    match ty {
        oids::INT4 if !text.starts_with('-') => text,
        oids::NUMERIC if text.starts_with(|c: char| c.is_ascii_digit()) && text.contains(['.', 'e', 'E']) => text,
        oids::BOOL => {
            if text == "t" {
                "true".into()
            } else {
                "false".into()
            }
        }
        _ => format!("'{}'::{}", text.replace('\'', "''"), catalog.format_type(ty, -1)),
    }
}

/// The names that EXPLAIN shows a statement's columns, relations and subplans by.
pub struct ShownNames {
    /// For each column its relation (0: none) and its name.
    columns: RefCell<HashMap<ColId, (u32, String)>>,
    aliases: HashMap<u32, String>,
    /// A table of the statement is partitioned: its partitions are relations too.
    has_partitions: bool,
    /// The names of subplans, by `SubLink::id`.
    subplans: RefCell<HashMap<u32, String>>,
}

impl ShownNames {
    pub fn of_query(q: &Query) -> ShownNames {
        let mut names = CollectedNames::default();
        collect(q, &mut names);
        ShownNames {
            columns: RefCell::new(names.columns),
            aliases: names.aliases,
            has_partitions: names.has_partitions,
            subplans: RefCell::default(),
        }
    }

    /// The name of a relation of the statement, unlike those of all others.
    pub fn relation(&self, rel: u32) -> Option<&str> {
        self.aliases.get(&rel).map(String::as_str)
    }

    /// The name of the subplan of the subquery with that `SubLink::id`.
    pub fn name_subplan(&self, id: u32, name: String) {
        self.subplans.borrow_mut().insert(id, name);
    }

    /// A column that the planner has made gets another's name.
    pub(crate) fn name_like(&self, column: ColId, other: ColId) {
        let mut columns = self.columns.borrow_mut();
        if let Some(name) = columns.get(&other).cloned() {
            columns.insert(column, name);
        }
    }

    /// A column that the planner has made is shown as this text.
    pub(crate) fn name_as(&self, column: ColId, text: String) {
        self.columns.borrow_mut().insert(column, (0, text));
    }

    /// An expression as SQL.
    pub fn text(&self, e: &Expr, values: ValueNames<'_>) -> String {
        ExpressionText { names: self, values, scanned: None, is_qualified: false }.of(e)
    }

    /// An expression of a node that reads one relation, whose columns are not qualified.
    pub(crate) fn scan_text(&self, e: &Expr, rel: u32, values: ValueNames<'_>) -> String {
        ExpressionText { names: self, values, scanned: Some(rel), is_qualified: false }.of(e)
    }

    /// An expression with its columns qualified, where there are partitions to tell apart.
    pub fn qualified_text(&self, e: &Expr, values: ValueNames<'_>) -> String {
        ExpressionText { names: self, values, scanned: None, is_qualified: true }.of(e)
    }
}

/// How one node of a plan shows its expressions.
struct ExpressionText<'a> {
    names: &'a ShownNames,
    values: ValueNames<'a>,
    /// The relation that the node reads.
    scanned: Option<u32>,
    /// Columns are shown with their relation, even if there is but one.
    is_qualified: bool,
}

impl ExpressionText<'_> {
    fn column(&self, c: ColId) -> String {
        let columns = self.names.columns.borrow();
        let Some((rel, name)) = columns.get(&c) else { return format!("r{}.c{}", c.rel, c.att) };
        let is_one = self.names.aliases.len() < 2 && !self.names.has_partitions;
        let is_bare = is_one && !self.is_qualified || self.scanned == Some(*rel);
        match self.names.aliases.get(rel) {
            Some(alias) if !is_bare => format!("{}.{}", quote_identifier(alias), quote_identifier(name)),
            Some(_) => quote_identifier(name),
            None => name.clone(),
        }
    }

    fn list(&self, expressions: &[Expr], separator: &str) -> String {
        expressions.iter().map(|e| self.of(e)).collect::<Vec<_>>().join(separator)
    }

    fn of(&self, e: &Expr) -> String {
        let (catalog, values) = (self.values.catalog, self.values);
        let sub = |x: &Expr| self.of(x);
        let list = |l: &[Expr]| self.list(l, ", ");
        match &e.kind {
            ExprKind::Const(d) => constant(d, e.ty, values),
            ExprKind::Param(n) => format!("${}", n + 1),
            ExprKind::Column(c) => self.column(*c),
            ExprKind::Func(f) => match (f.form, f.args.as_slice()) {
                (FuncForm::Operator, [l, r]) => format!("({} {} {})", sub(l), f.name, sub(r)),
                (FuncForm::Operator, [r]) => format!("({} {})", f.name, sub(r)),
                (FuncForm::ExplicitCast | FuncForm::ImplicitCast, [a, ..]) => {
                    format!("({})::{}", sub(a), catalog.format_type(e.ty, e.typmod))
                }
                _ => format!("{}({})", function_name(f, catalog), list(&f.args)),
            },
            ExprKind::Cast { arg, .. } => format!("({})::{}", sub(arg), catalog.format_type(e.ty, e.typmod)),
            ExprKind::And(l) => format!("({})", self.list(l, " AND ")),
            ExprKind::Or(l) => format!("({})", self.list(l, " OR ")),
            ExprKind::Not(a) => format!("(NOT {})", sub(a)),
            ExprKind::IsNull { arg, negated } => {
                format!("({} IS {}NULL)", sub(arg), if *negated { "NOT " } else { "" })
            }
            ExprKind::ScalarArray { func, any } => match func.args.as_slice() {
                [l, r] => format!("({} {} {} ({}))", sub(l), func.name, if *any { "ANY" } else { "ALL" }, sub(r)),
                _ => "?".into(),
            },
            ExprKind::Coalesce(l) => format!("COALESCE({})", list(l)),
            ExprKind::MinMax { greatest, args } => {
                format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, list(args))
            }
            ExprKind::Array { elements, element_type, multidim: false }
                if elements.iter().all(|x| x.as_const().is_some()) =>
            {
                let list = elements.iter().filter_map(|x| x.as_const().cloned()).collect();
                constant(&kilndb_catalog::store::array(*element_type, list), e.ty, values)
            }
            ExprKind::Array { elements, .. } => format!("ARRAY[{}]", list(elements)),
            ExprKind::Row { fields, .. } => format!("ROW({})", list(fields)),
            ExprKind::RowCompare { kind, left, right } => {
                let operator = match kind {
                    CompareKind::Lt => "<",
                    CompareKind::Le => "<=",
                    CompareKind::Ge => ">=",
                    CompareKind::Gt => ">",
                    CompareKind::Eq => "=",
                    CompareKind::Ne => "<>",
                };
                format!("(ROW({}) {operator} ROW({}))", list(left), list(right))
            }
            ExprKind::Collate { arg, name, .. } => format!("({} COLLATE {name})", sub(arg)),
            ExprKind::SubLink(s) => self.sublink(s),
            ExprKind::Case { arg, whens, otherwise } => self.case(arg.as_deref(), whens, otherwise.as_deref()),
            ExprKind::BoolTest { arg, test } => format!("({} IS {})", sub(arg), test_name(*test)),
            ExprKind::SqlValue(value) => value.keyword().into(),
            ExprKind::Agg(a) => format!("{}({})", a.name, if a.star { "*".into() } else { list(&a.args) }),
            _ => "(…)".into(),
        }
    }

    fn case(&self, arg: Option<&Expr>, whens: &[(Expr, Expr)], otherwise: Option<&Expr>) -> String {
        let mut text = "CASE".to_string();
        if let Some(arg) = arg {
            text += &format!(" {}", self.of(arg));
        }
        for (when, then) in whens {
            // With an argument, what is written is what it is compared with.
            let when = match &when.kind {
                ExprKind::Func(f) if arg.is_some() => f.args.get(1).unwrap_or(when),
                _ => when,
            };
            text += &format!(" WHEN {} THEN {}", self.of(when), self.of(then));
        }
        let otherwise = otherwise.map_or_else(|| "NULL".to_string(), |e| self.of(e));
        text + &format!(" ELSE {otherwise} END")
    }

    fn sublink(&self, s: &SubLink) -> String {
        let name = self.names.subplans.borrow().get(&s.id).cloned().unwrap_or_else(|| "SubPlan".into());
        match s.kind {
            _ if name.starts_with("InitPlan") => format!("({name}).col1"),
            SubKind::Exists => format!("EXISTS({name})"),
            SubKind::Array => format!("ARRAY({name})"),
            SubKind::Any | SubKind::All => {
                let count = s.query.targets.iter().filter(|t| !t.junk).count();
                for i in 1..=count {
                    let column = ColId { rel: s.test_rel, att: i as i16 };
                    self.names.columns.borrow_mut().insert(column, (0, format!("({name}).col{i}")));
                }
                let test = s.test.as_ref().map_or_else(String::new, |t| self.of(t));
                format!("({} {test})", if s.kind == SubKind::Any { "ANY" } else { "ALL" })
            }
            _ => format!("({name})"),
        }
    }
}

fn test_name(test: BoolTestKind) -> &'static str {
    match test {
        BoolTestKind::True => "TRUE",
        BoolTestKind::NotTrue => "NOT TRUE",
        BoolTestKind::False => "FALSE",
        BoolTestKind::NotFalse => "NOT FALSE",
        BoolTestKind::Unknown => "UNKNOWN",
        BoolTestKind::NotUnknown => "NOT UNKNOWN",
    }
}

/// A user's function with its schema where the search path does not lead to it.
fn function_name(f: &FuncExpr, catalog: &dyn CatalogView) -> String {
    let info = if f.oid < FIRST_USER_OID { None } else { catalog.function_by_oid(f.oid).ok().flatten() };
    let Some(info) = info else { return quote_identifier(&f.name) };
    let is_visible =
        catalog.functions(None, &info.name).is_ok_and(|found| found.iter().any(|other| other.oid == f.oid));
    let name = quote_identifier(&info.name);
    match schema_name(catalog, info.schema_oid).filter(|_| !is_visible) {
        Some(schema) => format!("{}.{name}", quote_identifier(&schema)),
        None => name,
    }
}

/// The names that were collected from a query.
#[derive(Default)]
struct CollectedNames {
    columns: HashMap<ColId, (u32, String)>,
    aliases: HashMap<u32, String>,
    has_partitions: bool,
}

/// The name of a relation that is not the first of that name. It is no longer than names may be.
fn numbered(name: &str, number: usize) -> String {
    let suffix = format!("_{number}");
    let mut end = name.len().min(MOST_NAME_BYTES - suffix.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    format!("{}{suffix}", &name[..end])
}

fn collect(q: &Query, n: &mut CollectedNames) {
    for r in &q.rels {
        let taken = |name: &String| n.aliases.values().any(|a| a == name);
        let is_values = matches!(r.kind, RelKind::Values(_));
        let given = if is_values { VALUES_ALIAS } else { r.alias.as_str() };
        let mut alias = given.to_string();
        let mut number = 0;
        while taken(&alias) {
            number += 1;
            alias = numbered(given, number);
        }
        for (i, c) in r.columns.iter().enumerate() {
            let name = if is_values { format!("column{}", i + 1) } else { c.name.clone() };
            n.columns.insert(ColId { rel: r.id, att: i as i16 + 1 }, (r.id, name));
        }
        n.has_partitions |= matches!(&r.kind, RelKind::Table(t) if t.partition_key.is_some());
        n.columns.insert(ColId { rel: r.id, att: ATT_CTID }, (r.id, "ctid".into()));
        n.aliases.insert(r.id, alias);
    }
    if let QueryBody::Dml(d) = &q.body
        && !d.row_checks.is_empty()
    {
        // Checks of new rows name the table's columns in subqueries.
        for c in &d.table.columns {
            n.columns.insert(ColId { rel: d.new_rel, att: c.attnum }, (0, format!("{}.{}", d.alias, c.name)));
        }
    }
    q.for_subqueries(&mut |s| collect(s, n));
    q.for_exprs(&mut |e| in_expr(e, n));
}

fn in_expr(e: &Expr, n: &mut CollectedNames) {
    if let ExprKind::SubLink(s) = &e.kind {
        collect(&s.query, n);
    }
    e.for_children(&mut |c| in_expr(c, n));
}
