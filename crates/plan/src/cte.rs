//! Common table expressions that are not merged into their parents.

use super::*;
use kilndb_base::Error;

impl Planner<'_> {
    pub(crate) fn plan_cte(&self, c: &Cte) -> Result<()> {
        let number = self.ctes.borrow().len();
        let placeholder = self.node(Op::Result { filter: None }, 0, 1.0, 0.0, "Result");
        self.ctes.borrow_mut().push(CtePlan {
            id: c.id,
            name: c.name.clone(),
            node: placeholder,
            recursive: None,
            union_all: false,
            types: Vec::new(),
            width: 0,
            inner: 0..0,
        });
        self.cte_numbers.borrow_mut().insert(c.id, number);
        let outer = self.outer_columns(&c.query);
        self.correlated_ctes.borrow_mut().extend(outer.iter().map(|column| (self.exec_param(*column), number)));
        self.cte_outer.borrow_mut().insert(c.id, outer);
        let targets = match &c.query.body {
            QueryBody::Dml(d) => &d.returning,
            _ => &c.query.targets,
        };
        let types: Vec<Oid> =
            targets.iter().filter(|t| !t.junk).map(|t| self.told_apart_type(&t.expr)).collect::<Result<_>>()?;
        let width = types.len();
        let mut inner = 0..0;
        let (node, recursive, union_all) = match (&c.query.body, c.recursive) {
            (QueryBody::SetOp { left, right, all, .. }, true) => {
                for inner in &c.query.ctes {
                    self.plan_cte(inner)?;
                }
                if !c.query.order_by.is_empty() || c.query.limit.is_some() || c.query.offset.is_some() {
                    return Err(Error::unsupported("ORDER BY, LIMIT or OFFSET in a recursive query"));
                }
                if !*all && types.iter().any(|t| !is_hashable(*t)) {
                    return Err(Error::new(
                        kilndb_base::sqlstate::FEATURE_NOT_SUPPORTED,
                        "could not implement recursive UNION",
                    )
                    .with_detail("All column datatypes must be hashable."));
                }
                let first = self.plan_query(left, 0)?;
                let start = self.ctes.borrow().len();
                let next = self.plan_query(right, 0)?;
                inner = start..self.ctes.borrow().len();
                (first.node, Some(next.node), *all)
            }
            _ => (self.plan_query(&c.query, 0)?.node, None, false),
        };
        if matches!(c.query.body, QueryBody::Dml(_)) {
            self.run_always.borrow_mut().push(number);
        }
        if let Some(slot) = self.ctes.borrow_mut().get_mut(number) {
            *slot = CtePlan { id: c.id, name: c.name.clone(), node, recursive, union_all, types, width, inner };
        }
        Ok(())
    }

    pub(crate) fn plan_cte_scan(&self, cte: u32, working: bool, rel: &Rel) -> Result<PlannedNode> {
        let Some(number) = self.cte_numbers.borrow().get(&cte).copied() else {
            return Err(Error::internal("WITH query is not planned"));
        };
        let rows = self.ctes.borrow().get(number).map_or(100.0, |c| c.node.rows);
        let name = &rel.alias;
        let (op, label) = if working {
            (Op::WorkTable { cte: number }, format!("WorkTable Scan on {name}"))
        } else {
            (Op::CteScan { cte: number }, format!("CTE Scan on {name}"))
        };
        let node = self.node(op, rel.columns.len(), rows, rows * 0.02, label);
        Ok(PlannedNode { node, layout: super::query::all_columns(rel) })
    }
}

/// PostgreSQL has hash functions for all but these of the types that have an order.
fn is_hashable(type_oid: Oid) -> bool {
    use kilndb_types::oids::{BIT, MONEY, VARBIT};
    !matches!(type_oid, BIT | VARBIT | MONEY)
}
