//! Expressions as PostgreSQL prints them: types of constants and implicit casts shown, parentheses by its rules.
//!
//! Invariants
//! 1. Expressions are kept as the text the user wrote, so this binds the text first; what has no rule here (None) is
//!    shown as it was written.
//! 2. `pretty` leaves out the parentheses that precedence makes needless; without it every operator has its own.

use super::StatementHost;
use super::subquery_text::NamedRelation;
use kilndb_base::Oid;
use kilndb_bind::ir::*;
use kilndb_catalog::format_type::quote_identifier as quote;
use kilndb_catalog::{CatalogView, Table};
use kilndb_types::{Datum, oids};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The text of an expression over `table`; `target`: the column that it is the default of.
pub fn canonical(
    host: &StatementHost<'_>,
    sql: &str,
    table: &Arc<Table>,
    target: Option<(Oid, i32)>,
    pretty: bool,
) -> String {
    let Ok(bound) = kilndb_bind::bind_shown_expression(sql, Some(table), &host.reader, target) else {
        return sql.to_string();
    };
    let printer = Printer::new(host, table, bound.rel, pretty);
    match printer.expr(without_implicit_casts(&bound.expr), None) {
        Some(text) => text,
        None if bound.expr.has_sublink() => super::definitions::shown_condition(host, sql, table),
        None => sql.to_string(),
    }
}

/// A domain's check.
pub(crate) fn canonical_check(host: &StatementHost<'_>, sql: &str, domain: Oid, pretty: bool) -> String {
    let (Ok(Some(table)), Ok(Some(info))) =
        (host.reader.table_by_oid(kilndb_catalog::ids::PG_CLASS), host.reader.type_by_oid(domain))
    else {
        return sql.to_string();
    };
    let Ok(bound) = kilndb_bind::domain::check(sql, info.base_type, &host.reader) else { return sql.to_string() };
    let printer = Printer::new(host, &table, u32::MAX, pretty);
    printer.expr(without_implicit_casts(&bound), None).unwrap_or_else(|| sql.to_string())
}

/// A trigger's condition.
pub(crate) fn canonical_condition(host: &StatementHost<'_>, sql: &str, table: &Arc<Table>, pretty: bool) -> String {
    let binder = kilndb_bind::Binder::new(&host.reader, Arc::from(""), Vec::new());
    let rows = (binder.new_rel(), binder.new_rel());
    let Ok(bound) = binder.bind_when_sql(sql, table, rows.0, rows.1) else { return sql.to_string() };
    let printer = Printer { rows: Some(rows), ..Printer::new(host, table, u32::MAX, pretty) };
    printer.expr(without_implicit_casts(&bound), None).unwrap_or_else(|| sql.to_string())
}

/// The default of a function's argument.
pub(crate) fn canonical_default(host: &StatementHost<'_>, sql: &str, type_oid: Oid) -> String {
    use kilndb_catalog::CatalogView;
    // Any table will do: a default names no columns.
    let Ok(Some(table)) = host.reader.table_by_oid(kilndb_catalog::ids::PG_CLASS) else { return sql.to_string() };
    let target = (!kilndb_bind::is_polymorphic(type_oid)).then_some((type_oid, -1));
    canonical(host, sql, &table, target, false)
}

/// A value as it stands in an expression; `label`: with its type where that is not plain.
pub(crate) fn shown_constant(host: &StatementHost<'_>, value: &Datum, ty: Oid, label: bool) -> String {
    let table = host.reader.table_by_oid(kilndb_catalog::ids::PG_CLASS).ok().flatten();
    let shown = table.and_then(|table| Printer::new(host, &table, 0, false).constant(value, ty, -1, label));
    shown.unwrap_or_default()
}

fn is_unknown_literal(e: &Expr) -> bool {
    e.ty == oids::UNKNOWN && matches!(e.kind, ExprKind::Const(Datum::Text(_)))
}

pub(super) fn without_implicit_casts(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Cast { arg, .. } if is_unknown_literal(arg) => e,
        ExprKind::Cast { arg, explicit: false, .. } => without_implicit_casts(arg),
        ExprKind::Func(f) if f.form == FuncForm::ImplicitCast => f.args.first().map_or(e, without_implicit_casts),
        _ => e,
    }
}

pub(super) struct Printer<'p> {
    pub(super) host: &'p StatementHost<'p>,
    pub(super) table: &'p Arc<Table>,
    pub(super) rel: u32,
    /// OLD and NEW, in a trigger's condition.
    rows: Option<(u32, u32)>,
    pretty: bool,
    /// In a subquery: its relations and those around it, inner ones last.
    pub(super) relations: RefCell<Vec<NamedRelation>>,
    /// Of how many subqueries what is printed is a part.
    pub(super) depth: Cell<usize>,
}

/// A string constant as PostgreSQL's deparser writes it: never with E.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// A cast, however it is carried out: its operand.
fn cast_operand(e: &Expr) -> Option<&Expr> {
    match &e.kind {
        ExprKind::Cast { arg, .. } => Some(arg),
        ExprKind::Func(f) if matches!(f.form, FuncForm::ImplicitCast | FuncForm::ExplicitCast) => f.args.first(),
        _ => None,
    }
}

fn is_operator(e: &Expr) -> bool {
    matches!(&e.kind, ExprKind::Func(f) if f.form == FuncForm::Operator)
}

impl<'p> Printer<'p> {
    fn new(host: &'p StatementHost<'p>, table: &'p Arc<Table>, rel: u32, pretty: bool) -> Printer<'p> {
        Printer { host, table, rel, rows: None, pretty, relations: RefCell::default(), depth: Cell::default() }
    }
}

impl Printer<'_> {
    fn operator_name(&self, oid: Oid) -> Option<String> {
        Some(self.host.reader.operator_by_oid(oid).ok()??.name.clone())
    }

    /// As it stands between its operands: with its schema if it is not found without.
    pub(super) fn operator_text(&self, oid: Oid) -> Option<String> {
        let o = self.host.reader.operator_by_oid(oid).ok()??;
        if self.host.reader.search_path.contains(&o.schema_oid) {
            return Some(o.name.clone());
        }
        Some(format!("OPERATOR({}.{})", quote(&self.host.reader.schema_name(o.schema_oid).ok()??), o.name))
    }

    pub(super) fn wrap(&self, text: String) -> String {
        if self.pretty { text } else { format!("({text})") }
    }

    /// An operand: in parentheses if it needs them beside its parent.
    pub(super) fn operand(&self, e: &Expr, parent: &Expr) -> Option<String> {
        let text = self.expr(e, Some(parent))?;
        Some(if self.pretty && !self.is_simple(e, parent) { format!("({text})") } else { text })
    }

    fn is_simple(&self, e: &Expr, parent: &Expr) -> bool {
        // Parents that delimit their operands.
        let delimits = match &parent.kind {
            ExprKind::Func(f) => f.form == FuncForm::Call,
            ExprKind::And(_) | ExprKind::Or(_) | ExprKind::Not(_) => true,
            ExprKind::Subscript { .. } | ExprKind::Array { .. } | ExprKind::Row { .. } | ExprKind::Coalesce(_) => true,
            ExprKind::MinMax { .. } | ExprKind::NullIf(_) | ExprKind::Case { .. } => true,
            _ => false,
        };
        match &e.kind {
            ExprKind::Func(f) if f.form == FuncForm::Operator => {
                if is_operator(parent) {
                    self.binds_tighter(e, parent)
                } else {
                    delimits
                }
            }
            ExprKind::Cast { arg, .. } => self.is_simple(arg, e),
            ExprKind::IsNull { .. } | ExprKind::BoolTest { .. } | ExprKind::IsDistinct { .. } => delimits,
            ExprKind::And(_) | ExprKind::Not(_) => match &parent.kind {
                ExprKind::And(_) | ExprKind::Or(_) => true,
                ExprKind::Not(_) => false,
                _ => delimits,
            },
            ExprKind::Or(_) => match &parent.kind {
                ExprKind::Or(_) => true,
                ExprKind::And(_) | ExprKind::Not(_) => false,
                _ => delimits,
            },
            ExprKind::ScalarArray { .. } => false,
            ExprKind::Collate { .. } => false,
            _ => true,
        }
    }

    fn binds_tighter(&self, e: &Expr, parent: &Expr) -> bool {
        let priority = |e: &Expr| match &e.kind {
            ExprKind::Func(f) if f.args.len() == 2 => match self.operator_name(f.operator)?.as_str() {
                "+" | "-" => Some(1),
                "*" | "/" | "%" => Some(2),
                _ => None,
            },
            _ => None,
        };
        let (Some(own), Some(outer)) = (priority(e), priority(parent)) else { return false };
        let ExprKind::Func(p) = &parent.kind else { return false };
        own > outer || (own == outer && p.args.first().is_some_and(|first| std::ptr::eq(first, e)))
    }

    fn constant(&self, value: &Datum, ty: Oid, typmod: i32, label: bool) -> Option<String> {
        let type_name = self.host.reader.format_type(ty, typmod);
        if value.is_null() {
            return Some(format!("NULL::{type_name}"));
        }
        let mut bytes = Vec::new();
        kilndb_types::io::output_typmod(ty, typmod, value, &mut bytes, &self.host.eval()).ok()?;
        let text = String::from_utf8(bytes).ok()?;
        let digits = text.starts_with(|c: char| c.is_ascii_digit());
        let (shown, needs_label) = match ty {
            oids::INT4 if !text.starts_with('-') => (text, false),
            oids::NUMERIC if digits && text.contains(['.', 'e', 'E']) => (text, typmod >= 0),
            oids::BOOL => ((if text == "t" { "true" } else { "false" }).to_string(), false),
            oids::UNKNOWN => (literal(&text), false),
            _ => (literal(&text), true),
        };
        Some(if label && needs_label { format!("{shown}::{type_name}") } else { shown })
    }

    pub(super) fn list(&self, list: &[Expr]) -> Option<String> {
        let parts: Option<Vec<String>> = list.iter().map(|e| self.expr(e, None)).collect();
        Some(parts?.join(", "))
    }

    fn cast(&self, e: &Expr, arg: &Expr) -> Option<String> {
        // Several steps of one cast (to the type, then to its length) show as one.
        let arg = match (&e.kind, cast_operand(arg)) {
            (ExprKind::Cast { kind: CastKind::Typmod, .. }, Some(inner)) if arg.ty == e.ty => inner,
            _ => arg,
        };
        if let ExprKind::Const(Datum::Text(text)) = &arg.kind
            && arg.ty == oids::UNKNOWN
        {
            let value = kilndb_types::io::input(e.ty, text, -1, &self.host.eval()).ok()?;
            return self.constant(&value, e.ty, -1, true);
        }
        let target = self.host.reader.format_type(e.ty, e.typmod);
        if let ExprKind::Const(value) = &arg.kind
            && arg.ty == e.ty
            && arg.typmod == -1
        {
            return Some(format!("{}::{target}", self.constant(value, arg.ty, -1, false)?));
        }
        let text = self.operand(arg, e)?;
        Some(format!("{}::{target}", self.wrap(text)))
    }

    /// With its schema if it is not found without.
    pub(super) fn function_name(&self, oid: Oid) -> Option<String> {
        let info = self.host.reader.function_by_oid(oid).ok()??;
        if self.host.reader.search_path.contains(&info.schema_oid) {
            return Some(quote(&info.name));
        }
        Some(format!("{}.{}", quote(&self.host.reader.schema_name(info.schema_oid).ok()??), quote(&info.name)))
    }

    fn function(&self, e: &Expr, f: &FuncExpr) -> Option<String> {
        match (f.form, f.args.as_slice()) {
            (FuncForm::Operator, [arg]) => {
                Some(self.wrap(format!("{} {}", self.operator_text(f.operator)?, self.operand(arg, e)?)))
            }
            (FuncForm::Operator, [left, right]) => {
                let name = self.operator_text(f.operator)?;
                Some(self.wrap(format!("{} {name} {}", self.operand(left, e)?, self.operand(right, e)?)))
            }
            (FuncForm::ImplicitCast | FuncForm::ExplicitCast, [arg, ..]) => self.cast(e, arg),
            (FuncForm::Call, args) if !f.variadic => {
                Some(format!("{}({})", self.function_name(f.oid)?, self.list(args)?))
            }
            _ => None,
        }
    }

    fn joined(&self, e: &Expr, list: &[Expr], word: &str) -> Option<String> {
        let parts: Option<Vec<String>> = list.iter().map(|p| self.operand(p, e)).collect();
        Some(self.wrap(parts?.join(word)))
    }

    /// The relation whose row these fields are as a whole.
    fn whole_row(&self, e: &Expr, fields: &[Expr]) -> Option<String> {
        let first = fields.first().and_then(|field| match &field.kind {
            ExprKind::Column(c) => Some(c.rel),
            _ => None,
        })?;
        let is_own = |field: &Expr| matches!(&field.kind, ExprKind::Column(c) if c.rel == first);
        if e.ty == oids::RECORD || !fields.iter().all(is_own) {
            return None;
        }
        match (self.depth.get(), self.rows) {
            (0, Some((old, _))) if first == old => Some("old".to_string()),
            (0, Some((_, new))) if first == new => Some("new".to_string()),
            (0, _) => (first == self.rel).then(|| self.table.name.clone()),
            _ => self.relation_name(first),
        }
    }

    pub(super) fn expr(&self, e: &Expr, _parent: Option<&Expr>) -> Option<String> {
        match &e.kind {
            ExprKind::Const(value) => self.constant(value, e.ty, e.typmod, true),
            ExprKind::Column(c) if c.rel == kilndb_bind::domain::VALUE_REL => Some("VALUE".to_string()),
            ExprKind::Column(c) if self.depth.get() > 0 => self.told_column(c),
            ExprKind::SubLink(link) => self.sublink(link, e),
            ExprKind::Agg(call) if self.depth.get() > 0 => self.aggregate(call),
            ExprKind::Column(c) if c.rel == self.rel && c.att > 0 => {
                Some(quote(&self.table.columns.get(c.att as usize - 1)?.name))
            }
            ExprKind::Column(c) if c.att > 0 && self.rows.is_some_and(|(old, new)| c.rel == old || c.rel == new) => {
                let row = if self.rows.is_some_and(|(old, _)| c.rel == old) { "old" } else { "new" };
                Some(format!("{row}.{}", quote(&self.table.columns.get(c.att as usize - 1)?.name)))
            }
            ExprKind::Func(f) => self.function(e, f),
            // A row is a record as it stands.
            ExprKind::Cast { arg, explicit: false, .. } if e.ty == oids::RECORD => self.expr(arg, Some(e)),
            ExprKind::Cast { arg, .. } => self.cast(e, arg),
            ExprKind::And(list) => self.joined(e, list, " AND "),
            ExprKind::Or(list) => self.joined(e, list, " OR "),
            ExprKind::Not(arg) => Some(self.wrap(format!("NOT {}", self.operand(arg, e)?))),
            ExprKind::IsNull { arg, negated } => {
                let test = if *negated { "IS NOT NULL" } else { "IS NULL" };
                Some(self.wrap(format!("{} {test}", self.operand(arg, e)?)))
            }
            ExprKind::BoolTest { arg, test } => {
                let test = match test {
                    BoolTestKind::True => "IS TRUE",
                    BoolTestKind::NotTrue => "IS NOT TRUE",
                    BoolTestKind::False => "IS FALSE",
                    BoolTestKind::NotFalse => "IS NOT FALSE",
                    BoolTestKind::Unknown => "IS UNKNOWN",
                    BoolTestKind::NotUnknown => "IS NOT UNKNOWN",
                };
                Some(self.wrap(format!("{} {test}", self.operand(arg, e)?)))
            }
            ExprKind::IsDistinct { eq, negated } => {
                let [left, right] = eq.args.as_slice() else { return None };
                let text = format!("{} IS DISTINCT FROM {}", self.operand(left, e)?, self.operand(right, e)?);
                Some(if *negated { self.wrap(format!("NOT {}", self.wrap(text))) } else { self.wrap(text) })
            }
            ExprKind::NullIf(f) => Some(format!("NULLIF({})", self.list(&f.args)?)),
            ExprKind::Coalesce(list) => Some(format!("COALESCE({})", self.list(list)?)),
            ExprKind::MinMax { greatest, args } => {
                Some(format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, self.list(args)?))
            }
            ExprKind::Array { elements, .. } if elements.is_empty() => {
                Some(format!("ARRAY[]::{}", self.host.reader.format_type(e.ty, -1)))
            }
            ExprKind::Array { elements, .. } => Some(format!("ARRAY[{}]", self.list(elements)?)),
            ExprKind::Row { fields, .. } => match self.whole_row(e, fields) {
                Some(relation) => Some(format!("{}.*", quote(&relation))),
                None => Some(format!("ROW({})", self.list(fields)?)),
            },
            ExprKind::Field { arg, name, .. } if !name.is_empty() => {
                Some(format!("({}).{}", self.expr(arg, Some(e))?, quote(name)))
            }
            ExprKind::Subscript { arg, subscripts, slice: false } => {
                let base = self.expr(arg, Some(e))?;
                let base = if matches!(arg.kind, ExprKind::Column(_)) { base } else { format!("({base})") };
                let parts: Option<Vec<String>> =
                    subscripts.iter().map(|s| Some(format!("[{}]", self.expr(s.upper.as_ref()?, None)?))).collect();
                Some(format!("{base}{}", parts?.concat()))
            }
            ExprKind::ScalarArray { func, any } => {
                let [left, right] = func.args.as_slice() else { return None };
                let word = if *any { "ANY" } else { "ALL" };
                let (left, name) = (self.operand(left, e)?, self.operator_text(func.operator)?);
                Some(self.wrap(format!("{left} {name} {word} ({})", self.operand(right, e)?)))
            }
            ExprKind::SqlValue(v) => {
                let word = v.keyword();
                Some(if e.typmod >= 0 { format!("{word}({})", e.typmod) } else { word.to_string() })
            }
            ExprKind::Collate { arg, name, .. } => Some(self.wrap(format!("{} COLLATE {name}", self.operand(arg, e)?))),
            _ => None,
        }
    }
}
