//! Whether an execution takes the plan for all values of the parameters or one for its own values: PostgreSQL's rule
//! (PREPARE, "Notes"; plan_cache_mode), but that a plan which no value would change is taken from the start.

use kilndb_context::settings::PlanCacheMode;
use kilndb_plan::Plan;

/// So many plans for given values tell what they cost on average.
const PLANS_FOR_VALUES: u32 = 5;
/// What the planning of a statement costs, in calls of an operator for each of its relations and one more.
const PLANNING_CALLS: f64 = 1000.0;

/// What the plans for given values of a statement have cost so far, as estimated.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct ValuePlanCosts {
    plans: u32,
    total: f64,
}

/// Is a plan for given values in question at all, beside the plan for all of them?
pub(crate) fn may_prefer_values(generic: &Plan, mode: PlanCacheMode) -> bool {
    match mode {
        PlanCacheMode::ForceGenericPlan => false,
        PlanCacheMode::ForceCustomPlan => true,
        PlanCacheMode::Auto => generic.is_better_for_values(),
    }
}

impl ValuePlanCosts {
    /// Does the next execution of a statement with parameters take a plan for their values? `generic`: the plan for all
    /// of them.
    pub fn prefer_values(&self, generic: &Plan, mode: PlanCacheMode) -> bool {
        let is_cheaper = || self.plans < PLANS_FOR_VALUES || generic.root.cost >= self.total / f64::from(self.plans);
        may_prefer_values(generic, mode) && (mode == PlanCacheMode::ForceCustomPlan || is_cheaper())
    }

    /// A plan for given values was made. `cpu_operator_cost`: as the setting is.
    pub fn note(&mut self, plan: &Plan, cpu_operator_cost: f64) {
        let planning = PLANNING_CALLS * cpu_operator_cost * (plan.relations as f64 + 1.0);
        self.plans = self.plans.saturating_add(1);
        self.total += plan.root.cost + planning;
    }
}
