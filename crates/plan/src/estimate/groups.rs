//! How many groups rows fall into.

use super::*;

impl Planner<'_> {
    /// The number of different combinations of these expressions' values among so many rows.
    pub(crate) fn group_count(&self, expressions: &[Expr], input_rows: f64) -> f64 {
        let mut by_relation: HashMap<Option<u32>, Vec<(Expr, f64)>> = HashMap::new();
        let mut seen: Vec<ColId> = Vec::new();
        for e in expressions {
            self.add_distinct(e, &mut seen, &mut by_relation);
        }
        let mut groups = 1.0;
        for (rel, mut members) in by_relation {
            let mut distinct = Vec::new();
            while let Some(together) = rel.and_then(|rel| self.counted_together(rel, &mut members)) {
                distinct.push(together);
            }
            distinct.extend(members.into_iter().map(|(_, distinct)| distinct));
            let relations = self.relations.borrow();
            let mut of_relation: f64 = distinct.iter().product();
            if let Some(facts) = rel.and_then(|rel| relations.get(&rel)).filter(|facts| facts.total_rows > 0.0) {
                let most = distinct.iter().copied().fold(1.0, f64::max);
                // Columns of one table are seldom independent.
                let limit = match distinct.len() {
                    0 | 1 => facts.total_rows,
                    _ => (facts.total_rows * 0.1).max(most).min(facts.total_rows),
                };
                of_relation = of_relation.min(limit).max(1.0);
                if facts.rows < facts.total_rows {
                    let left_out = ((facts.total_rows - facts.rows) / facts.total_rows).clamp(0.0, 1.0);
                    of_relation *= 1.0 - left_out.powf(facts.total_rows / of_relation);
                }
            }
            groups *= of_relation.max(1.0);
        }
        groups.min(input_rows).max(1.0)
    }

    /// Whether [`Planner::group_count`] follows from what is known of each of these expressions.
    pub(crate) fn knows_group_count(&self, expressions: &[Expr]) -> bool {
        expressions.iter().all(|e| self.variable(e).knows_distinct())
    }

    fn add_distinct(&self, e: &Expr, seen: &mut Vec<ColId>, by_relation: &mut HashMap<Option<u32>, Vec<(Expr, f64)>>) {
        let e = access::strip(e);
        if e.as_const().is_some() {
            return;
        }
        if let ExprKind::Column(c) = &e.kind {
            if !seen.contains(c) {
                seen.push(*c);
                by_relation.entry(Some(c.rel)).or_default().push((e.clone(), self.variable(e).distinct()));
            }
            return;
        }
        let mut columns = Vec::new();
        e.columns(&mut columns);
        let variable = self.variable(e);
        if let Some(first) = columns.first().filter(|_| variable.statistics.is_some() || variable.is_unique) {
            by_relation.entry(Some(first.rel)).or_default().push((e.clone(), variable.distinct()));
            return;
        }
        if self.base_type(e.ty) == oids::BOOL {
            by_relation.entry(None).or_default().push((e.clone(), 2.0));
            return;
        }
        // There are at most as many results as there are combinations of what they are made of.
        for c in columns {
            if !seen.contains(&c) {
                seen.push(c);
                let column = Expr::column(c, oids::TEXT, -1);
                by_relation
                    .entry(Some(c.rel))
                    .or_default()
                    .push((column, self.column_variable(c, oids::TEXT).distinct()));
            }
        }
    }
}
