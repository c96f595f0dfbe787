//! MERGE: each of its actions is an INSERT, UPDATE or DELETE over the rows of the same join (docs/decisions/0020).

use super::*;
use kilndb_base::Error;
use kilndb_types::Datum;

impl Planner<'_> {
    pub(super) fn merge_plan(
        &self,
        d: &Dml,
        input: &PlannedNode,
        triggers: Option<Arc<TriggerPlan>>,
    ) -> Result<ModifyPlan> {
        let mut steps = Vec::with_capacity(d.merge.len());
        for action in &d.merge {
            let condition = action.condition.as_ref().map(|e| self.expression(e, &input.layout)).transpose()?;
            let change = match Self::as_statement(d, &action.action) {
                Some(mut own) => {
                    self.returning_of_action(&mut own)?;
                    self.checks_of_action(&mut own)?;
                    Some(self.change_plan(&own, input, RowRecheck::default(), triggers.clone())?)
                }
                None => None,
            };
            steps.push(MergeStep { when: action.when, condition, change });
        }
        let Some(on) = &d.merge_on else { return Err(Error::internal("MERGE without a condition")) };
        let by_source = d.merge.iter().any(|a| a.when == MergeWhen::NotMatchedBySource);
        let target = input.layout.0.iter().enumerate().filter(|(_, c)| c.rel == d.rel).map(|(slot, _)| slot).collect();
        let first = self.subplans.borrow().len();
        let on = self.expression(on, &input.layout)?;
        self.hidden_subplans.borrow_mut().extend(first..self.subplans.borrow().len());
        // Plans what is the same for all actions of the statement, and the number of columns that it returns.
        let mut whole = d.clone();
        whole.row_checks.clear();
        whole.returning.iter_mut().for_each(|t| t.expr = Expr::null(t.expr.ty));
        let mut plan = self.change_plan(&whole, input, RowRecheck::default(), triggers)?;
        let Some(statement) = Arc::get_mut(&mut plan.statement) else {
            return Err(Error::internal("a plan in use before it is made"));
        };
        statement.merge = Some(Arc::new(MergePlan { steps, on, by_source, target }));
        Ok(plan)
    }

    fn as_statement(d: &Dml, action: &MergeCommand) -> Option<Dml> {
        let (kind, assignments) = match action {
            MergeCommand::Nothing => return None,
            MergeCommand::Delete => (DmlKind::Delete, Vec::new()),
            MergeCommand::Update(list) => (DmlKind::Update, list.clone()),
            MergeCommand::Insert(list) => (DmlKind::Insert, list.clone()),
        };
        Some(Dml { kind, assignments, merge: Vec::new(), merge_on: None, ..d.clone() })
    }

    /// Leaves the checks of rows that are one action's, with subqueries of its own.
    fn checks_of_action(&self, d: &mut Dml) -> Result<()> {
        let kinds: &[RowCheckKind] = match d.kind {
            DmlKind::Insert => &[RowCheckKind::Insert, RowCheckKind::View],
            DmlKind::Delete => &[RowCheckKind::MergeDelete],
            _ => &[RowCheckKind::MergeUpdate, RowCheckKind::Update, RowCheckKind::View],
        };
        d.row_checks.retain(|check| kinds.contains(&check.kind));
        for check in &mut d.row_checks {
            check.condition.rewrite(&mut |e| {
                if let ExprKind::SubLink(s) = &mut e.kind {
                    s.id = self.new_rel();
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Replaces the target's columns and merge_action() in RETURNING by what they are for one action.
    fn returning_of_action(&self, d: &mut Dml) -> Result<()> {
        let (row, name) = match d.kind {
            DmlKind::Insert => (d.new_rel, "INSERT"),
            DmlKind::Delete => (d.rel, "DELETE"),
            _ => (d.new_rel, "UPDATE"),
        };
        let named = d.excluded_rel;
        for t in &mut d.returning {
            t.expr.rewrite(&mut |e| {
                match &mut e.kind {
                    ExprKind::Column(c) if c.rel == named => c.rel = row,
                    ExprKind::MergeAction => e.kind = ExprKind::Const(Datum::text(name)),
                    // A subquery gets another id in each action, because each has a plan of its own.
                    ExprKind::SubLink(s) => s.id = self.new_rel(),
                    _ => {}
                }
                Ok(())
            })?;
        }
        Ok(())
    }
}
