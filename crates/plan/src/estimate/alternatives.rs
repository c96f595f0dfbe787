//! What alternatives over several relations say of one of them: of `a.x = 1 AND b.y = 2 OR a.x = 3 AND b.y = 4` that
//! `a.x = 1 OR a.x = 3`. [`super::super::rewrite`] has added it to the conditions, so the estimate of a join counts it once.

use super::*;

/// The condition on the relations `rels` that the alternatives imply; None: one of the alternatives says nothing of them.
pub(crate) fn restriction_on(rels: &[u32], alternatives: &[Expr]) -> Option<Expr> {
    let mut restrictions = Vec::with_capacity(alternatives.len());
    for alternative in alternatives {
        let mut parts = Vec::new();
        alternative.clone().conjuncts(&mut parts);
        parts.retain(|e| {
            let mut used = Vec::new();
            e.columns(&mut used);
            !used.is_empty() && used.iter().all(|c| rels.contains(&c.rel)) && !e.varies() && !e.has_sublink()
        });
        restrictions.push(Expr::and_all(parts)?);
    }
    Some(Expr::new(ExprKind::Or(restrictions), kilndb_types::oids::BOOL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::oids;

    fn column(rel: u32) -> Expr {
        Expr::column(ColId { rel, att: 1 }, oids::BOOL, -1)
    }
    fn and(list: &[u32]) -> Expr {
        Expr::and_all(list.iter().map(|rel| column(*rel)).collect()).expect("conditions")
    }

    #[test]
    fn each_alternative_has_to_say_something() {
        let both = [and(&[1, 2]), and(&[1, 2, 2])];
        let of_second = restriction_on(&[2], &both).expect("a condition");
        assert!(matches!(&of_second.kind, ExprKind::Or(list) if list.len() == 2));
        assert!(restriction_on(&[3], &both).is_none());
        assert!(restriction_on(&[2], &[and(&[1, 2]), and(&[1])]).is_none());
    }
}
