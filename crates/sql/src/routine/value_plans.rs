//! Statements of routines that are planned for the values of their variables (plan_cache_mode).

use super::plans::{PlanKind, RoutinePlans, SpiPlan};
use super::spi::*;
use crate::context::MeasuredPlan;
use crate::plan_guard::FormerPlan;
use crate::session::plan_choice::may_prefer_values;
use kilndb_base::Result;
use kilndb_base::sync::Arc;
use kilndb_plan::Plan;

impl Spi<'_> {
    /// The plan of an execution with the variables' values as they are: one for them alone, or `planned`'s, which is
    /// the one for all values. None: the statement has no plan. The locks of `planned` are held already.
    pub(super) fn choose_plan(
        &mut self,
        prepared: &SpiPrepared,
        planned: &SpiPlan,
        scope: &dyn VariableScope,
    ) -> Result<Option<Arc<Plan>>> {
        let Some(generic) = &planned.plan else { return Ok(None) };
        if let Some(plan) = self.former_plan(prepared, planned, scope)? {
            return Ok(Some(plan));
        }
        if planned.uses.is_empty() || planned.is_for_values {
            return Ok(Some(generic.clone()));
        }
        let mode = self.session.context.settings.plan_cache_mode;
        if !may_prefer_values(generic, mode) {
            return Ok(Some(generic.clone()));
        }
        let known = self.session.routines.plans.statements.get(&prepared.id).map(|known| known.value_plans);
        if !known.unwrap_or_default().prefer_values(generic, mode) {
            return Ok(Some(generic.clone()));
        }
        let measured = generic.measured.as_ref().map(|measured| MeasuredPlan { measured, former: None });
        let kind = PlanKind { for_values: true, tells_places: !generic.places.is_empty(), measured };
        let made = RoutinePlans::make_plan(prepared, scope, kind, &mut self.session.context, self.runtime)?;
        let Some(plan) = made.plan.clone() else { return Ok(None) };
        self.session.context.lock_tables(&plan, self.runtime)?;
        let cpu_operator_cost = self.session.context.settings.switches.costs.cpu_operator;
        if let Some(known) = self.session.routines.plans.statements.get_mut(&prepared.id) {
            known.value_plans.note(&plan, cpu_operator_cost);
        }
        Ok(Some(plan))
    }

    /// What plan_guard has run instead of the present plan, if anything.
    fn former_plan(
        &mut self,
        prepared: &SpiPrepared,
        planned: &SpiPlan,
        scope: &dyn VariableScope,
    ) -> Result<Option<Arc<Plan>>> {
        let context = &self.session.context;
        let known = self.session.routines.plans.statements.get(&prepared.id);
        let guard = known.and_then(|known| known.guard.clone());
        let is_on = context.settings.plan_guard && !context.catalogs.has_ddl && !planned.is_for_values;
        let Some(guard) = guard.filter(|_| is_on) else { return Ok(None) };
        let Some(former) = guard.former(context) else { return Ok(None) };
        let FormerPlan { plan: generic, measured, statistics, value_plans } = former;
        let mode = context.settings.plan_cache_mode;
        if planned.uses.is_empty() || !value_plans.prefer_values(&generic, mode) {
            self.session.context.lock_tables(&generic, self.runtime)?;
            return Ok(Some(generic));
        }
        let measured = Some(MeasuredPlan { measured: &measured, former: Some(&statistics) });
        let kind = PlanKind { for_values: true, tells_places: !generic.places.is_empty(), measured };
        let made = RoutinePlans::make_plan(prepared, scope, kind, &mut self.session.context, self.runtime)?;
        let Some(plan) = made.plan.clone() else { return Ok(None) };
        self.session.context.lock_tables(&plan, self.runtime)?;
        guard.note_former(&plan, self.session.context.settings.switches.costs.cpu_operator);
        Ok(Some(plan))
    }
}
