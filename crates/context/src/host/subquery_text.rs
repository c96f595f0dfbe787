//! Subqueries within expressions as PostgreSQL prints them: a plain SELECT of tables and joins of them, whose columns are
//! told by their relations.
//!
//! Invariants
//! 1. What has no rule here (None) is shown as it was written, and the whole expression with it.
//! 2. A relation's name is one that no relation around it has: where it is taken, a number is put behind it.

use super::describe::qualified;
use super::expression_text::{Printer, without_implicit_casts};
use kilndb_bind::ir::*;
use kilndb_catalog::Table;
use kilndb_catalog::format_type::quote_identifier as quote;

/// How much further inside each subquery is.
const INDENT: usize = 8;

/// A relation that can be named where something is printed.
pub(super) struct NamedRelation {
    rel: u32,
    name: String,
    columns: Vec<String>,
}

impl Printer<'_> {
    /// A subquery's column, or one of what is around the subquery, with its relation's name.
    pub(super) fn told_column(&self, c: &ColId) -> Option<String> {
        let relations = self.relations.borrow();
        let relation = relations.iter().rev().find(|relation| relation.rel == c.rel)?;
        let column = relation.columns.get(usize::try_from(c.att).ok()?.checked_sub(1)?)?;
        Some(format!("{}.{}", quote(&relation.name), quote(column)))
    }

    pub(super) fn relation_name(&self, rel: u32) -> Option<String> {
        let relations = self.relations.borrow();
        relations.iter().rev().find(|relation| relation.rel == rel).map(|relation| relation.name.clone())
    }

    pub(super) fn sublink(&self, link: &SubLink, parent: &Expr) -> Option<String> {
        let test = || self.comparison(link, parent);
        let query = || self.query(&link.query);
        Some(match link.kind {
            SubKind::Exists => format!("(EXISTS ({}))", query()?),
            SubKind::Scalar => format!("({})", query()?),
            SubKind::Array => format!("ARRAY({})", query()?),
            SubKind::Any => match test()? {
                (left, operator) if operator == "=" => format!("({left} IN ({}))", query()?),
                (left, operator) => format!("({left} {operator} ANY ({}))", query()?),
            },
            SubKind::All => {
                let (left, operator) = test()?;
                format!("({left} {operator} ALL ({}))", query()?)
            }
            SubKind::RowCompare | SubKind::Row => return None,
        })
    }

    /// What is compared with the subquery's columns as they stand, and the operator.
    fn comparison(&self, link: &SubLink, parent: &Expr) -> Option<(String, String)> {
        let one = |e: &Expr, number: i16| -> Option<(String, String)> {
            let ExprKind::Func(f) = &e.kind else { return None };
            let (FuncForm::Operator, [left, right]) = (f.form, f.args.as_slice()) else { return None };
            let column = ColId { rel: link.test_rel, att: number };
            let is_column = matches!(&without_implicit_casts(right).kind, ExprKind::Column(c) if *c == column);
            Some((self.operand(left, parent)?, self.operator_text(f.operator)?)).filter(|_| is_column)
        };
        let test = link.test.as_ref()?;
        let ExprKind::And(parts) = &test.kind else { return one(test, 1) };
        let parts: Option<Vec<_>> = parts.iter().zip(1..).map(|(part, number)| one(part, number)).collect();
        let (values, operators): (Vec<String>, Vec<String>) = parts?.into_iter().unzip();
        let operator = operators.first()?;
        operators.iter().all(|o| o == operator).then(|| (format!("({})", values.join(", ")), operator.clone()))
    }

    fn query(&self, q: &Query) -> Option<String> {
        let is_plain = matches!(q.body, QueryBody::Select)
            && matches!(q.distinct, Distinct::No)
            && q.ctes.is_empty()
            && q.group_by.is_empty()
            && q.grouping_sets.is_none()
            && q.having.is_none()
            && q.outer_aggs.is_empty()
            && q.windows.is_empty()
            && q.order_by.is_empty()
            && q.limit.is_none()
            && q.offset.is_none()
            && q.locks.is_empty();
        if !is_plain {
            return None;
        }
        let known = self.enter(q)?;
        let depth = self.depth.replace(self.depth.get() + 1);
        let text = self.plain_query(q, depth * INDENT);
        self.depth.set(depth);
        self.relations.borrow_mut().truncate(known);
        text
    }

    /// Names the relations of a subquery. Returns how many were named before.
    fn enter(&self, q: &Query) -> Option<usize> {
        let mut relations = self.relations.borrow_mut();
        let known = relations.len();
        if known == 0 && !self.table.columns.is_empty() {
            let columns = self.table.columns.iter().map(|c| c.name.clone()).collect();
            relations.push(NamedRelation { rel: self.rel, name: self.table.name.clone(), columns });
        }
        for rel in &q.rels {
            let mut name = rel.alias.clone();
            let mut number = 0;
            while relations.iter().any(|known| known.name == name) {
                number += 1;
                name = format!("{}_{number}", rel.alias);
            }
            let columns = rel.columns.iter().map(|c| c.name.clone()).collect();
            relations.push(NamedRelation { rel: rel.id, name, columns });
        }
        Some(known)
    }

    /// `indent`: how far inside what is around the query stands.
    fn plain_query(&self, q: &Query, indent: usize) -> Option<String> {
        let further = format!(",\n{:1$}", "", indent + 4);
        let targets: Option<Vec<String>> = q.targets.iter().filter(|t| !t.junk).map(|t| self.target(t)).collect();
        let mut text = format!(" SELECT {}", targets?.join(&further));
        if !q.from.is_empty() {
            let items: Option<Vec<String>> = q.from.iter().map(|item| self.item_text(q, item, indent)).collect();
            text += &format!("\n{:1$} FROM {2}", "", indent + 2, items?.join(&further));
        }
        if let Some(filter) = &q.filter {
            text += &format!("\n{:1$} WHERE {2}", "", indent + 1, self.expr(filter, None)?);
        }
        Some(text)
    }

    fn target(&self, target: &Target) -> Option<String> {
        let text = self.expr(&target.expr, None)?;
        let shows_name = match &target.expr.kind {
            ExprKind::Column(c) => {
                let relations = self.relations.borrow();
                let relation = relations.iter().rev().find(|relation| relation.rel == c.rel)?;
                relation.columns.get(usize::try_from(c.att).ok()?.checked_sub(1)?) != Some(&target.name)
            }
            _ => target.name != "?column?",
        };
        Some(if shows_name { format!("{text} AS {}", quote(&target.name)) } else { text })
    }

    fn item_text(&self, q: &Query, item: &JoinTree, indent: usize) -> Option<String> {
        match item {
            JoinTree::Rel(id) => {
                let rel = q.rels.iter().find(|rel| rel.id == *id)?;
                let RelKind::Table(table) = &rel.kind else { return None };
                self.table_in_from(rel.id, table)
            }
            JoinTree::Join { kind, left, right, on } => {
                let word = match (kind, on) {
                    (JoinKind::Inner, None) => "CROSS JOIN",
                    (JoinKind::Inner, _) => "JOIN",
                    (JoinKind::Left, _) => "LEFT JOIN",
                    (JoinKind::Right, _) => "RIGHT JOIN",
                    (JoinKind::Full, _) => "FULL JOIN",
                    (JoinKind::Semi | JoinKind::Anti, _) => return None,
                };
                let (left, right) = (self.item_text(q, left, indent)?, self.item_text(q, right, indent)?);
                let on = match on {
                    Some(on) => format!(" ON {}", self.wrap(self.expr(on, None)?)),
                    None => String::new(),
                };
                Some(self.wrap(format!("{left}\n{:1$} {word} {right}{on}", "", indent + 4)))
            }
        }
    }

    fn table_in_from(&self, rel: u32, table: &Table) -> Option<String> {
        let name = self.relation_name(rel)?;
        let shown = qualified(self.host, table.schema_oid, &table.name).ok()?;
        Some(if name == table.name { shown } else { format!("{shown} {}", quote(&name)) })
    }

    /// An aggregate of plain arguments.
    pub(super) fn aggregate(&self, call: &AggCall) -> Option<String> {
        let is_plain = !call.distinct && call.filter.is_none() && call.order.is_empty() && call.direct_args == 0;
        if !is_plain {
            return None;
        }
        let name = self.function_name(call.oid)?;
        let arguments = if call.star { "*".to_string() } else { self.list(&call.args)? };
        Some(format!("{name}({arguments})"))
    }
}
