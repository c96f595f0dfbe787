//! A statement's present plan and the one before, and which of them runs.

use super::comparison::{EXECUTIONS, is_better, is_suspect};
use crate::context::SessionContext;
use crate::session::plan_choice::ValuePlanCosts;
use kilndb_base::sync::{Arc, Mutex, PoisonError};
use kilndb_base::{Oid, Severity};
use kilndb_catalog::cache::Database;
use kilndb_catalog::column_statistics::FormerStatistics;
use kilndb_exec::plan_shape;
use kilndb_plan::Plan;
use kilndb_plan::measured::MeasuredCost;
use kilndb_types::Datum;

/// A plan for all values, and what its executions have cost, together with those of plans for values under the same
/// statistics.
#[derive(Clone)]
pub(crate) struct GuardedPlan {
    pub plan: Arc<Plan>,
    pub measured: Arc<MeasuredCost>,
    /// Of the catalogs.
    version: u64,
    value_plans: ValuePlanCosts,
    /// The pages of its tables when another one took its place.
    pages: u64,
}

/// Which plan an execution takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// There is nothing to compare the present plan with.
    Settled,
    /// The present plan runs, beside what is known of the former one.
    Watched,
    /// The former plan runs again, to see what it costs now. `from`: its executions until then.
    Tried { from: u64 },
    /// The former plan has turned out to be the better one.
    Returned,
}

struct Plans {
    present: Option<GuardedPlan>,
    former: Option<GuardedPlan>,
    phase: Phase,
}

pub(crate) struct StatementGuard {
    database: Oid,
    sql: Arc<str>,
    plans: Mutex<Plans>,
}

/// What runs instead of the present plan.
pub(crate) struct FormerPlan {
    pub plan: Arc<Plan>,
    pub measured: Arc<MeasuredCost>,
    pub statistics: Arc<FormerStatistics>,
    pub value_plans: ValuePlanCosts,
}

impl GuardedPlan {
    /// The version that its definitions are of, none of which has changed since; None: some have.
    fn still_defined(&mut self, database: &Database) -> bool {
        match database.is_defined_alike(self.version, &self.plan.objects, &self.plan.names) {
            Some(version) => {
                self.version = version;
                true
            }
            None => false,
        }
    }

    /// The pages of its tables now.
    fn count_pages(&self, context: &SessionContext) -> u64 {
        let tables = self.plan.statistics.iter().flat_map(|s| s.tables());
        let heaps = tables.filter_map(|table| context.cluster.engine.relation(table.storage).ok());
        heaps.map(|heap| u64::from(heap.pages())).sum()
    }
}

impl StatementGuard {
    pub fn new(database: Oid, sql: Arc<str>) -> StatementGuard {
        let plans = Plans { present: None, former: None, phase: Phase::Settled };
        StatementGuard { database, sql, plans: Mutex::new(plans) }
    }

    /// Where the executions of a plan are measured that is about to be made: with those of the present one, if that is as
    /// good as new.
    pub fn measure_next(&self, context: &SessionContext) -> Arc<MeasuredCost> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let is_same =
            |p: &&GuardedPlan| context.database.still_fits(p.version, &p.plan.objects, &p.plan.names).is_some();
        plans.present.as_ref().filter(is_same).map(|p| p.measured.clone()).unwrap_or_default()
    }

    /// The executions of a plan that was just made, and that nobody else has yet, are measured with those of former plans.
    /// `version`: of the catalogs, as it was before.
    pub fn watch(&self, plan: &mut Arc<Plan>, version: u64, context: &SessionContext) {
        if let Some(plan) = Arc::get_mut(plan) {
            plan.measured = Some(self.measure_next(context));
        }
        self.adopt(plan, version, context);
    }

    /// A plan was made for all values. `version`: of the catalogs, as it was before.
    pub fn adopt(&self, plan: &Arc<Plan>, version: u64, context: &SessionContext) {
        let Some(measured) = plan.measured.clone() else { return };
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let value_plans = ValuePlanCosts::default();
        let next = GuardedPlan { plan: plan.clone(), measured, version, value_plans, pages: 0 };
        let Some(mut before) = plans.present.replace(next.clone()) else { return };
        if Arc::ptr_eq(&before.measured, &next.measured) {
            return;
        }
        let depends_on_values = plan.is_better_for_values() || before.plan.is_better_for_values();
        if !depends_on_values && before.still_defined(&context.database) && plan_shape(&before.plan) == plan_shape(plan)
        {
            next.measured.continue_from(&before.measured);
            return;
        }
        let is_known = before.measured.executions() >= EXECUTIONS;
        if matches!(plans.phase, Phase::Settled | Phase::Watched) && is_known {
            before.pages = before.count_pages(context);
            plans.former = Some(before);
        }
        plans.phase = if plans.former.is_some() { Phase::Watched } else { Phase::Settled };
    }

    /// Forgets a former plan whose definitions have changed. False: there is none that could run now.
    fn has_former(&self, plans: &mut Plans, context: &SessionContext) -> bool {
        let Some(former) = &mut plans.former else { return false };
        if former.still_defined(&context.database) {
            return true;
        }
        // While definitions are being changed nobody knows whether it is by them.
        if context.database.settled_version().is_some() {
            plans.former = None;
            plans.phase = Phase::Settled;
        }
        false
    }

    /// The plan that runs instead of the present one; None: the present one.
    pub fn former(&self, context: &SessionContext) -> Option<FormerPlan> {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if plans.phase == Phase::Settled || !self.has_former(&mut plans, context) {
            return None;
        }
        self.decide(&mut plans, context);
        let former = plans.former.as_ref().filter(|_| matches!(plans.phase, Phase::Tried { .. } | Phase::Returned))?;
        Some(FormerPlan {
            plan: former.plan.clone(),
            measured: former.measured.clone(),
            statistics: former.plan.statistics.clone().unwrap_or_default(),
            value_plans: former.value_plans,
        })
    }

    /// A plan for values was made under the former statistics.
    pub fn note_former(&self, made: &Plan, cpu_operator_cost: f64) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(former) = &mut plans.former {
            former.value_plans.note(made, cpu_operator_cost);
        }
    }

    /// Rows of kiln_stat_plans(): the present plan, and the former one if it may return.
    pub fn rows(&self) -> Vec<Vec<Datum>> {
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        let former_runs = matches!(plans.phase, Phase::Tried { .. } | Phase::Returned);
        let known = [("present", &plans.present, !former_runs), ("former", &plans.former, former_runs)];
        let rows = known.into_iter().filter_map(|(name, plan, is_used)| {
            let GuardedPlan { plan, measured, .. } = plan.as_ref()?;
            let median = measured.summary();
            Some(vec![
                Datum::Oid(self.database),
                Datum::text(&*self.sql),
                Datum::text(name),
                Datum::Bool(is_used),
                Datum::Int8(i64::try_from(measured.executions()).unwrap_or(i64::MAX)),
                Datum::Float8(measured.total_nanos() as f64 / 1e6),
                if median.executions == 0 { Datum::Null } else { Datum::Float8(median.median_nanos as f64 / 1e6) },
                Datum::Float8(plan.root.cost),
                Datum::text(plan_shape(plan).join("\n")),
            ])
        });
        rows.collect()
    }

    fn decide(&self, plans: &mut Plans, context: &SessionContext) {
        let (Some(present), Some(former)) = (&plans.present, &plans.former) else { return };
        match plans.phase {
            Phase::Watched if is_suspect(present.measured.summary(), former.measured.summary()) => {
                // What was good for a small table may take for ever now.
                if former.count_pages(context) > 2 * former.pages + 100 {
                    plans.former = None;
                    plans.phase = Phase::Settled;
                } else {
                    plans.phase = Phase::Tried { from: former.measured.executions() };
                }
            }
            Phase::Tried { from } if former.measured.executions() >= from + EXECUTIONS => {
                let (tried, new) = (former.measured.since(from), present.measured.summary());
                if is_better(tried, new) {
                    let (slow, quick) = (new.median_nanos as f64 / 1e6, tried.median_nanos as f64 / 1e6);
                    let message = format!(
                        "the former plan of a statement has returned: it takes {quick:.3} ms, the one by new \
                         statistics {slow:.3} ms: {}",
                        self.sql
                    );
                    context.cluster.log(Severity::Log, &message);
                    plans.phase = Phase::Returned;
                } else {
                    plans.former = None;
                    plans.phase = Phase::Settled;
                }
            }
            _ => {}
        }
    }
}
