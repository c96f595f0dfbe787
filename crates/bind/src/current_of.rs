//! WHERE CURRENT OF: the row that a cursor stands on, as a condition on `ctid`; and what a cursor's query gives besides
//! its columns, so that it can be told.

use super::Binder;
use super::ir::*;
use kilndb_base::{Oid, Result};
use kilndb_catalog::{Table, TableKind};
use kilndb_syntax::nodes;
use kilndb_types::{Datum, oids};

/// The session's function: a cursor's name, the table that the statement names, the table that the row is of. No
/// function of pg_proc.
pub(crate) const CURRENT_OF: &str = "current of";

impl Binder<'_> {
    pub(super) fn current_of(&self, c: &nodes::CurrentOfExpr, rel: u32, table: &Table) -> Result<Option<Expr>> {
        let name = c.cursor_name().unwrap_or("");
        let variable = match self.variables {
            Some(variables) => variables
                .scope
                .resolve(&[name], false, false)?
                .filter(|v| v.type_oid == oids::REFCURSOR)
                .map(|v| variables.use_of(v)),
            None => None,
        };
        let name = variable.unwrap_or_else(|| Expr::new(ExprKind::Const(Datum::text(name)), oids::TEXT));
        let root = Expr::new(ExprKind::Const(Datum::Oid(table.oid)), oids::OID);
        let row_table = if table.kind == TableKind::Partitioned {
            Expr::column(ColId { rel, att: ATT_TABLEOID }, oids::OID, -1)
        } else {
            root.clone()
        };
        let call = FuncExpr::internal(0, CURRENT_OF.into(), vec![name, root, row_table], true, b's');
        let place = Expr::new(ExprKind::Func(Box::new(call)), oids::TID);
        let ctid = Expr::column(ColId { rel, att: ATT_CTID }, oids::TID, -1);
        self.make_operator(None, "=", Some(ctid), place, -1).map(Some)
    }
}

/// Adds to a cursor's query, behind its columns, `ctid` and `tableoid` of each table that CURRENT OF may name; returns
/// those tables.
pub fn add_places(bound: &mut BoundStatement) -> Vec<Oid> {
    let BoundStatement::Query(q) = bound else { return Vec::new() };
    let plain = matches!(q.body, QueryBody::Select)
        && q.group_by.is_empty()
        && q.grouping_sets.is_none()
        && q.having.is_none()
        && !q.has_aggs
        && q.windows.is_empty()
        && matches!(q.distinct, Distinct::No)
        && !q.has_srf;
    // Without FOR UPDATE PostgreSQL knows the row of a scan alone.
    if !plain || q.locks.is_empty() && (q.rels.len() != 1 || !q.order_by.is_empty()) {
        return Vec::new();
    }
    let (mut tables, mut targets) = (Vec::new(), Vec::new());
    for rel in &q.rels {
        let RelKind::Table(table) = &rel.kind else { continue };
        if !matches!(table.kind, TableKind::Table | TableKind::Partitioned)
            || !q.locks.is_empty() && !q.locks.iter().any(|l| l.rel == rel.id)
        {
            continue;
        }
        for (att, ty) in [(ATT_CTID, oids::TID), (ATT_TABLEOID, oids::OID)] {
            let expr = Expr::column(ColId { rel: rel.id, att }, ty, -1);
            targets.push(Target { expr, name: String::new(), junk: false, table_oid: 0, attnum: 0 });
        }
        tables.push(table.oid);
    }
    q.told_places = targets.len();
    q.targets.extend(targets);
    tables
}
