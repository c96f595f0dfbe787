//! What an OR over several relations says of one of them: PostgreSQL's extract_restriction_or_clauses.
//!
//! `(a.x = 1 AND b.y = 2) OR (a.x = 3 AND b.y = 4)` is a condition of a join, but no row of `a` is worth joining for
//! which `a.x = 1 OR a.x = 3` is not true. That follows from the condition, which stays, and is added beside it.

use super::super::join::used_rels;
use super::*;

pub(super) fn extract(q: &mut Query) {
    let level: Vec<u32> = q.rels.iter().map(|r| r.id).collect();
    add_implied(&mut q.filter, &level, &level);
    q.from.iter_mut().for_each(|t| of_tree(t, &level));
}

fn of_tree(t: &mut JoinTree, level: &[u32]) {
    if let JoinTree::Join { kind, left, right, on } = t {
        of_tree(left, level);
        of_tree(right, level);
        match kind {
            JoinKind::Inner => add_implied(on, level, level),
            // Rows of the left side are kept whatever is said of them.
            JoinKind::Left | JoinKind::Anti => add_implied(on, level, &relations_of(right)),
            _ => {}
        }
    }
}

/// `wanted`: the relations that it is of use to say something of.
fn add_implied(condition: &mut Option<Expr>, level: &[u32], wanted: &[u32]) {
    let conjuncts = match condition.as_ref().map(|e| &e.kind) {
        Some(ExprKind::And(list)) => list.as_slice(),
        Some(ExprKind::Or(_)) => condition.as_slice(),
        _ => return,
    };
    let mut added: Vec<Expr> = Vec::new();
    for e in conjuncts {
        for (_, e) in said_of_each(e, level).into_iter().filter(|(rel, _)| wanted.contains(rel)) {
            if !conjuncts.iter().chain(&added).any(|x| kilndb_bind::same(x, &e)) {
                added.push(e);
            }
        }
    }
    if !added.is_empty() {
        let mut all = take_conjuncts(condition);
        all.extend(added);
        *condition = Expr::and_all(all);
    }
}

/// What an OR over several relations of the level says of each of them alone.
pub(in super::super) fn said_of_each(e: &Expr, level: &[u32]) -> Vec<(u32, Expr)> {
    let ExprKind::Or(alternatives) = &e.kind else { return Vec::new() };
    let rels = used_rels(e, level);
    if rels.len() < 2 {
        return Vec::new();
    }
    rels.into_iter().filter_map(|rel| Some((rel, of_relation(alternatives, rel, level)?))).collect()
}

/// What all alternatives together say of the relation; None if one of them says nothing.
fn of_relation(alternatives: &[Expr], rel: u32, level: &[u32]) -> Option<Expr> {
    let about = |e: &Expr| used_rels(e, level) == [rel] && !e.is_volatile() && !e.has_sublink();
    let said = |alternative: &Expr| {
        let parts = match &alternative.kind {
            ExprKind::And(list) => list.as_slice(),
            _ => std::slice::from_ref(alternative),
        };
        Expr::and_all(parts.iter().filter(|e| about(e)).cloned().collect())
    };
    let list: Vec<Expr> = alternatives.iter().map(said).collect::<Option<_>>()?;
    Some(Expr::new(ExprKind::Or(list), kilndb_types::oids::BOOL))
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_types::oids;

    fn and(list: &[u32]) -> Expr {
        let column = |rel: &u32| Expr::column(ColId { rel: *rel, att: 1 }, oids::BOOL, -1);
        Expr::and_all(list.iter().map(column).collect()).expect("conditions")
    }
    fn said(alternatives: &[&[u32]]) -> Vec<u32> {
        let e = Expr::new(ExprKind::Or(alternatives.iter().map(|list| and(list)).collect()), oids::BOOL);
        said_of_each(&e, &[1, 2, 3]).into_iter().map(|(rel, _)| rel).collect()
    }

    #[test]
    fn each_alternative_has_to_say_something() {
        assert_eq!(said(&[&[1, 2], &[1, 2, 2]]), [1, 2]);
        assert_eq!(said(&[&[1, 2], &[1]]), [1]);
        assert_eq!(said(&[&[1], &[2]]), [0; 0]);
        // It is a condition on one relation itself.
        assert_eq!(said(&[&[1], &[1, 1]]), [0; 0]);
    }
}
