//! Plan trees as PostgreSQL draws them.

use crate::bind::ir::*;
use crate::catalog::CatalogView;
use crate::exec::{Counter, Report};
use crate::plan::{Node, Op, Plan};
use kilndb_types::{Datum, oids};
use std::fmt::Write;

/// Conditions joined; one stays as it is.
pub fn and_text(parts: &[String]) -> String {
    match parts {
        [one] => one.clone(),
        many => format!("({})", many.join(" AND ")),
    }
}

/// Without one pair of parentheses around all of it.
pub fn bare(text: String) -> String {
    match text.strip_prefix('(').and_then(|t| t.strip_suffix(')')) {
        Some(inner) if !inner.contains('(') && !inner.contains(')') && !inner.contains(' ') => inner.to_string(),
        _ => text,
    }
}

fn constant(d: &Datum, ty: kilndb_base::Oid, catalog: &dyn CatalogView) -> String {
    if d.is_null() {
        return format!("NULL::{}", catalog.format_type(ty, -1));
    }
    let mut out = Vec::new();
    let text = match crate::bind::with_context(catalog, |cx| kilndb_types::io::output(ty, d, &mut out, cx)) {
        Ok(()) => String::from_utf8_lossy(&out).into_owned(),
        Err(_) => format!("{d:?}"),
    };
    match ty {
        oids::INT4 | oids::NUMERIC | oids::FLOAT8 if !text.starts_with('-') => text,
        oids::BOOL => if text == "t" { "true".into() } else { "false".into() },
        _ => format!("'{}'::{}", text.replace('\'', "''"), catalog.format_type(ty, -1)),
    }
}

/// An expression as SQL (columns by relation number where no name is known).
pub fn expr_text(e: &Expr, catalog: &dyn CatalogView) -> String {
    let sub = |x: &Expr| expr_text(x, catalog);
    let list = |l: &[Expr]| l.iter().map(sub).collect::<Vec<_>>().join(", ");
    match &e.kind {
        ExprKind::Const(d) => constant(d, e.ty, catalog),
        ExprKind::Param(n) => format!("${}", n + 1),
        ExprKind::Column(c) => COLUMN_NAMES.with_borrow(|m| m.get(c).cloned()).unwrap_or_else(|| match c.att {
            ATT_CTID => "ctid".into(),
            a => format!("r{}.c{a}", c.rel),
        }),
        ExprKind::Func(f) => match (f.form, f.args.as_slice()) {
            (FuncForm::Operator, [l, r]) => format!("({} {} {})", sub(l), f.name, sub(r)),
            (FuncForm::Operator, [r]) => format!("({} {})", f.name, sub(r)),
            (FuncForm::ExplicitCast | FuncForm::ImplicitCast, [a, ..]) => {
                format!("({})::{}", sub(a), catalog.format_type(e.ty, e.typmod))
            }
            _ => format!("{}({})", f.name, list(&f.args)),
        },
        ExprKind::Cast { arg, .. } => format!("({})::{}", sub(arg), catalog.format_type(e.ty, e.typmod)),
        ExprKind::And(l) => format!("({})", l.iter().map(sub).collect::<Vec<_>>().join(" AND ")),
        ExprKind::Or(l) => format!("({})", l.iter().map(sub).collect::<Vec<_>>().join(" OR ")),
        ExprKind::Not(a) => format!("(NOT {})", sub(a)),
        ExprKind::IsNull { arg, negated } => format!("({} IS {}NULL)", sub(arg), if *negated { "NOT " } else { "" }),
        ExprKind::ScalarArray { func, any } => match func.args.as_slice() {
            [l, r] => format!("({} {} {} ({}))", sub(l), func.name, if *any { "ANY" } else { "ALL" }, sub(r)),
            _ => "?".into(),
        },
        ExprKind::Coalesce(l) => format!("COALESCE({})", list(l)),
        ExprKind::MinMax { greatest, args } => format!("{}({})", if *greatest { "GREATEST" } else { "LEAST" }, list(args)),
        ExprKind::Array { elements, .. } => format!("ARRAY[{}]", list(elements)),
        ExprKind::Row { fields, .. } => format!("ROW({})", list(fields)),
        ExprKind::Collate { arg, name } => format!("({} COLLATE \"{name}\")", sub(arg)),
        ExprKind::SubLink(_) => "(SubPlan)".into(),
        ExprKind::Case { .. } => "CASE".into(),
        ExprKind::Agg(a) => format!("{}({})", a.name, if a.star { "*".into() } else { list(&a.args) }),
        _ => "(…)".into(),
    }
}

thread_local! {
    /// Names of the columns of the statement being planned for EXPLAIN.
    static COLUMN_NAMES: std::cell::RefCell<std::collections::HashMap<ColId, String>> = Default::default();
}

/// Sets the names that [`expr_text`] shows columns by.
pub fn name_columns(q: &Query) {
    COLUMN_NAMES.with_borrow_mut(|m| {
        m.clear();
        collect(q, m);
    });
}

/// A column that the planner has made gets another's name.
pub fn name_like(column: ColId, other: ColId) {
    COLUMN_NAMES.with_borrow_mut(|m| {
        if let Some(name) = m.get(&other).cloned() {
            m.insert(column, name);
        }
    });
}

fn collect(q: &Query, m: &mut std::collections::HashMap<ColId, String>) {
    let qualify = q.rels.len() > 1;
    for r in &q.rels {
        for (i, c) in r.columns.iter().enumerate() {
            let name = if qualify { format!("{}.{}", r.alias, c.name) } else { c.name.clone() };
            m.insert(ColId { rel: r.id, att: i as i16 + 1 }, name);
        }
    }
    q.for_subqueries(&mut |s| collect(s, m));
    q.for_exprs(&mut |e| in_expr(e, m));
}

fn in_expr(e: &Expr, m: &mut std::collections::HashMap<ColId, String>) {
    if let ExprKind::SubLink(s) = &e.kind {
        collect(&s.query, m);
    }
    e.for_children(&mut |c| in_expr(c, m));
}

struct Printer<'a> {
    options: &'a ExplainOptions,
    counters: Option<&'a [Counter]>,
    out: Vec<String>,
}

/// The lines of EXPLAIN in text format.
pub fn lines(plan: &Plan, counters: Option<&[Counter]>, planning_ms: Option<f64>, execution_ms: Option<f64>) -> Vec<String> {
    let default = ExplainOptions::default();
    let options = plan.explain.as_ref().unwrap_or(&default);
    let mut p = Printer { options, counters, out: Vec::new() };
    p.node(&plan.root, 0);
    for c in &plan.ctes {
        p.out.push(format!("  CTE {}", c.name));
        p.node(&c.node, 2);
        if let Some(r) = &c.recursive {
            p.node(r, 2);
        }
    }
    for (i, s) in plan.subplans.iter().enumerate() {
        p.out.push(format!("  SubPlan {}", i + 1));
        p.node(s, 2);
    }
    if options.summary {
        if let Some(ms) = planning_ms {
            p.out.push(format!("Planning Time: {ms:.3} ms"));
        }
        if let Some(ms) = execution_ms {
            p.out.push(format!("Execution Time: {ms:.3} ms"));
        }
    }
    p.out
}

fn report_text(report: &Report) -> Option<String> {
    let kilobytes = |bytes: u64| bytes.div_ceil(1024);
    match *report {
        Report::None => None,
        Report::Sort { method, on_disk, bytes } => {
            let place = if on_disk { "Disk" } else { "Memory" };
            Some(format!("Sort Method: {method}  {place}: {}kB", kilobytes(bytes)))
        }
        Report::Hash { batches, memory, disk } => {
            let mut text = format!("Batches: {batches}  Memory Usage: {}kB", kilobytes(memory));
            if disk > 0 {
                let _ = write!(text, "  Disk Usage: {}kB", kilobytes(disk));
            }
            Some(text)
        }
    }
}

impl Printer<'_> {
    fn node(&mut self, n: &Node, depth: usize) {
        // Projections are shown by PostgreSQL as part of the node below.
        if let Op::Project { input, .. } = &n.op {
            return self.node(input, depth);
        }
        let mut line = if depth == 0 { String::new() } else { format!("{}->  ", " ".repeat(depth * 6 - 4)) };
        line.push_str(&n.label);
        if self.options.costs {
            let width = n.width * 8;
            let _ = write!(line, "  (cost={:.2}..{:.2} rows={:.0} width={width})", n.startup, n.cost.max(0.01), n.rows);
        }
        if let Some(c) = self.counters.and_then(|c| c.get(n.id)) {
            if c.loops == 0 {
                line.push_str(" (never executed)");
            } else {
                let loops = c.loops as f64;
                let rows = c.rows as f64 / loops;
                if self.options.timing {
                    let ms = |n: u64| n as f64 / 1e6 / loops;
                    let _ = write!(line, " (actual time={:.3}..{:.3} rows={rows:.2} loops={})", ms(c.startup_nanos), ms(c.nanos), c.loops);
                } else {
                    let _ = write!(line, " (actual rows={rows:.2} loops={})", c.loops);
                }
            }
        }
        self.out.push(line);
        let indent = " ".repeat(depth * 6 + 2);
        for i in &n.info {
            self.out.push(format!("{indent}{i}"));
        }
        if let Some(line) = self.counters.and_then(|c| c.get(n.id)).and_then(|c| report_text(&c.report)) {
            self.out.push(format!("{indent}{line}"));
        }
        for c in n.children() {
            self.node(c, depth + 1);
        }
    }
}
