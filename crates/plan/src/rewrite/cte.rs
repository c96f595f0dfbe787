//! WITH queries that become subqueries.

use super::*;
use kilndb_base::hash::{HashMap, HashMapExt};

/// Moves WITH queries that are subqueries rather to where they are used.
pub(super) fn inline_ctes(q: &mut Query) -> Result<()> {
    let mut moved: HashMap<u32, Query> = HashMap::new();
    let mut kept = Vec::new();
    for c in std::mem::take(&mut q.ctes) {
        if c.becomes_subquery() {
            moved.insert(c.id, c.query.into_inner());
        } else if !c.is_unused() {
            kept.push(c);
        }
    }
    q.ctes = kept;
    if moved.is_empty() {
        return Ok(());
    }
    // A subquery may use another one, so columns are replaced inside the moved ones too.
    replace_in(q, &mut moved);
    Ok(())
}

fn replace_in(q: &mut Query, moved: &mut HashMap<u32, Query>) {
    for r in &mut q.rels {
        if let RelKind::Cte { cte, recursive_self: false } = &r.kind
            && let Some(mut inner) = moved.remove(cte)
        {
            replace_in(&mut inner, moved);
            r.kind = RelKind::Subquery(SharedQuery::new(inner));
        } else if let RelKind::Subquery(s) = &mut r.kind {
            replace_in(s, moved);
        }
    }
    for c in &mut q.ctes {
        replace_in(&mut c.query, moved);
    }
    match &mut q.body {
        QueryBody::SetOp { left, right, .. } => {
            replace_in(left, moved);
            replace_in(right, moved);
        }
        QueryBody::Dml(d) => {
            if let Some(s) = &mut d.source {
                replace_in(s, moved);
            }
        }
        _ => {}
    }
    let _ = q.rewrite(&mut |e| {
        if let ExprKind::SubLink(s) = &mut e.kind {
            replace_in(&mut s.query, moved);
        }
        Ok(())
    });
}
