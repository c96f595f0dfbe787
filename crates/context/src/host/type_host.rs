//! What reading and writing values asks a session about domains: their conditions.
//!
//! Invariant: a check that must call what only a running statement can call is refused here, never left out.
//! (Conversions that a statement says are computed by its plan, `bind::domain`, and have no such limit.)

use super::StatementHost;
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::domain::{DomainCondition, conditions};
use kilndb_bind::ir::{BoundStatement, CastKind, Expr, ExprKind, Query, SharedQuery, Target};
use kilndb_catalog::CatalogView;
use kilndb_catalog::user_types::under_domain;
use kilndb_exec::{ExecContext, Execution, RowSink, TransactionSlot};
use kilndb_plan::Plan;
use kilndb_types::{Datum, functions};
use std::sync::Arc;

struct Ignore;
impl RowSink for Ignore {
    fn row(&mut self, _values: &[Datum]) -> Result<()> {
        Ok(())
    }
}

impl StatementHost<'_> {
    pub fn check_value(&self, domain: Oid, value: &Datum) -> Result<()> {
        let known = self.domains.borrow().get(&domain).cloned();
        let plan = match known {
            Some(plan) => plan,
            None => {
                let plan = self.plan_check(domain)?;
                self.domains.borrow_mut().insert(domain, plan.clone());
                plan
            }
        };
        let Some(plan) = plan else { return Ok(()) };
        let (mut pending, mut usage, mut txn) = (Default::default(), Default::default(), TransactionSlot::empty());
        let mut cx = ExecContext {
            engine: &self.cluster.engine,
            txn: &mut txn,
            snapshot: self.reader.snapshot.clone().into(),
            park: self.runtime,
            eval: self.eval(),
            catalog: &self.reader,
            session: self,
            work_mem_bytes: 0,
            hash_mem_bytes: 0,
            temp: &self.reader.database.temp,
            source: None,
            pending: &mut pending,
            helpers: None,
            usage: &mut usage,
            routines: None,
        };
        let mut run = Execution::start(plan, std::slice::from_ref(value), &mut cx)?;
        run.run(&mut cx, None, &mut Ignore).map(|_| ())
    }

    /// None: it has no conditions.
    fn plan_check(&self, domain: Oid) -> Result<Option<Arc<Plan>>> {
        let all = conditions(domain, &self.reader)?;
        let Some((mut base, _)) = under_domain(&self.reader, domain) else { return Ok(None) };
        while let Some((under, _)) = under_domain(&self.reader, base) {
            base = under;
        }
        for condition in &all {
            if let DomainCondition::Check(name, e) = condition
                && e.any(&|e| e.called_function().is_some_and(|f| functions::lookup(f.oid).is_none()))
            {
                let shown = self.reader.format_type(domain, -1);
                return Err(Error::unsupported(format!(
                    "constraint \"{name}\" of domain {shown} calls a function that cannot be called while a value is read"
                )));
            }
        }
        if all.is_empty() {
            return Ok(None);
        }
        let value = Expr::new(ExprKind::Param(0), base);
        let expr = Expr::new(ExprKind::Cast { arg: Box::new(value), kind: CastKind::Domain, explicit: false }, domain);
        let targets = vec![Target { expr, name: String::new(), junk: false, table_oid: 0, attnum: 0 }];
        let query = Query { targets, ..Query::default() };
        kilndb_plan::plan_with(
            BoundStatement::Query(SharedQuery::new(query)),
            vec![base],
            &self.reader,
            &self.cluster.engine,
        )
        .map(Some)
    }
}
