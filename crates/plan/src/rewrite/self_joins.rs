//! Inner joins of a table with itself by a unique key, of which one table is enough: PostgreSQL's
//! remove_useless_self_joins (`enable_self_join_elimination`).
//!
//! Both rows are the same one. The table that comes later in the statement stays, and what is said of the other one is
//! said of it.
//!
//! Invariants
//! 1. Both tables are on the same side of every outer join, and the conditions that make their keys equal hold in all
//!    rows of that side which are of use.
//! 2. A key that was compared with itself is not NULL.

use super::*;
use kilndb_catalog::Table;
use kilndb_catalog::builtin::FIRST_USER_OID;

pub(super) fn eliminate(q: &mut Query, catalog: &dyn CatalogView) -> Result<()> {
    let may_join = match &q.body {
        QueryBody::Select => true,
        QueryBody::Dml(d) => matches!(d.kind, DmlKind::Update | DmlKind::Delete),
        _ => false,
    };
    // Above grouping sets columns are told apart by how they are written.
    if !may_join || q.grouping_sets.is_some() || !catalog.planner_settings().self_join_elimination {
        return Ok(());
    }
    while let Some((removed, kept)) = find(q, catalog)? {
        remove(q, removed, kept)?;
    }
    Ok(())
}

/// Relations that inner joins alone join, and conditions that their rows meet.
struct JoinGroup {
    rels: Vec<u32>,
    conditions: Vec<Expr>,
}

/// The groups of these trees, with conditions on all of them.
fn groups(trees: &[&JoinTree], conditions: &[Expr], out: &mut Vec<JoinGroup>) {
    let mut group = JoinGroup { rels: Vec::new(), conditions: conditions.to_vec() };
    let mut units = Vec::new();
    trees.iter().for_each(|t| flatten(t, &mut group, &mut units));
    for unit in units {
        let JoinTree::Join { kind, left, right, .. } = unit else { continue };
        let (of_left, of_right): (&[Expr], &[Expr]) = match kind {
            JoinKind::Left | JoinKind::Semi | JoinKind::Anti => (&group.conditions, &[]),
            JoinKind::Right => (&[], &group.conditions),
            _ => (&[], &[]),
        };
        groups(&[left], of_left, out);
        groups(&[right], of_right, out);
    }
    out.push(group);
}

fn flatten<'t>(t: &'t JoinTree, group: &mut JoinGroup, units: &mut Vec<&'t JoinTree>) {
    match t {
        JoinTree::Rel(rel) => group.rels.push(*rel),
        JoinTree::Join { kind: JoinKind::Inner, left, right, on } => {
            flatten(left, group, units);
            flatten(right, group, units);
            group.conditions.extend(take_conjuncts(&mut on.clone()));
        }
        JoinTree::Join { .. } => units.push(t),
    }
}

/// Is there a table twice in a FROM clause?
fn is_repeated(q: &Query) -> bool {
    let table = |r: &Rel| if let RelKind::Table(t) = &r.kind { Some(t.oid) } else { None };
    q.rels.iter().enumerate().any(|(n, a)| table(a).is_some() && q.rels[n + 1..].iter().any(|b| table(b) == table(a)))
}

/// A table that may go, and the one that stands for it.
fn find(q: &Query, catalog: &dyn CatalogView) -> Result<Option<(u32, u32)>> {
    if !is_repeated(q) {
        return Ok(None);
    }
    let filter = take_conjuncts(&mut q.filter.clone());
    let mut found = Vec::new();
    groups(&q.from.iter().collect::<Vec<_>>(), &filter, &mut found);
    for group in found {
        let is_of_group = |r: &&Rel| group.rels.contains(&r.id) && may_go(q, r);
        let rels: Vec<&Rel> = q.rels.iter().filter(is_of_group).collect();
        let mut known = None;
        for (n, a) in rels.iter().enumerate() {
            for b in &rels[n + 1..] {
                let (RelKind::Table(table), RelKind::Table(other)) = (&a.kind, &b.kind) else { continue };
                if table.oid != other.oid || !locked_alike(q, a.id, b.id) {
                    continue;
                }
                let equal = match &known {
                    Some(equal) => equal,
                    None => known.insert(EqualColumns::of(&group.conditions, catalog)?),
                };
                if equal.by_key(table, a.id, b.id) {
                    return Ok(Some((a.id, b.id)));
                }
            }
        }
    }
    Ok(None)
}

fn may_go(q: &Query, rel: &Rel) -> bool {
    let is_changed = matches!(&q.body, QueryBody::Dml(d) if d.rel == rel.id);
    let is_plain = matches!(&rel.kind, RelKind::Table(t) if t.kind.has_rows() && t.partition_key.is_none());
    is_plain && !is_changed && rel.security_quals.is_empty()
}

fn locked_alike(q: &Query, a: u32, b: u32) -> bool {
    let lock = |rel| q.locks.iter().find(|l| l.rel == rel).map(|l| (l.strength, l.wait));
    lock(a) == lock(b)
}

/// What conditions say columns are equal to.
struct EqualColumns {
    /// Columns that are equal to one another.
    classes: Vec<Vec<ColId>>,
    /// Columns that are equal to a value of no row.
    values: Vec<(ColId, Expr)>,
}

impl EqualColumns {
    fn of(conditions: &[Expr], catalog: &dyn CatalogView) -> Result<EqualColumns> {
        let mut equal = EqualColumns { classes: Vec::new(), values: Vec::new() };
        for e in conditions {
            let ExprKind::Func(f) = &e.kind else { continue };
            let [l, r] = f.args.as_slice() else { continue };
            let is_builtin = f.operator != 0 && f.operator < FIRST_USER_OID;
            if !(is_builtin && e.collation.collation.is_deterministic())
                || l.ty != r.ty
                || catalog.btree_strategy(f.operator)? != Some(3)
            {
                continue;
            }
            let is_value = |e: &Expr| matches!(e.kind, ExprKind::Const(_) | ExprKind::Param(_));
            match (column_of(l), column_of(r)) {
                (Some(a), Some(b)) => equal.join(a, b),
                (Some(c), None) if is_value(r) => equal.values.push((c, r.clone())),
                (None, Some(c)) if is_value(l) => equal.values.push((c, l.clone())),
                _ => {}
            }
        }
        Ok(equal)
    }

    fn join(&mut self, a: ColId, b: ColId) {
        let (with, without): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.classes).into_iter().partition(|class| class.contains(&a) || class.contains(&b));
        let mut joined: Vec<ColId> = with.into_iter().flatten().collect();
        joined.extend([a, b]);
        self.classes = without;
        self.classes.push(joined);
    }

    fn are_equal(&self, a: ColId, b: ColId) -> bool {
        let values = |c: ColId| self.values.iter().filter(move |(of, _)| *of == c).map(|(_, value)| value);
        self.classes.iter().any(|class| class.contains(&a) && class.contains(&b))
            || values(a).any(|x| values(b).any(|y| x.ty == y.ty && kilndb_bind::same(x, y)))
    }

    /// Are all columns of a unique key of the table equal in both?
    fn by_key(&self, table: &Table, a: u32, b: u32) -> bool {
        let is_equal = |att: i16| self.are_equal(ColId { rel: a, att }, ColId { rel: b, att });
        table
            .indexes
            .iter()
            .any(|index| index.tells_rows_apart() && !index.deferrable && index.keys.iter().all(|k| is_equal(k.attnum)))
    }
}

fn column_of(e: &Expr) -> Option<ColId> {
    match &super::super::access::strip(e).kind {
        ExprKind::Column(c) if c.att > 0 => Some(*c),
        _ => None,
    }
}

fn remove(q: &mut Query, removed: u32, kept: u32) -> Result<()> {
    q.from.retain(|t| !matches!(t, JoinTree::Rel(rel) if *rel == removed));
    q.from.iter_mut().for_each(|t| take_out(t, removed));
    q.locks.retain(|l| l.rel != removed);
    q.rels.retain(|r| r.id != removed);
    q.rewrite(&mut |e| {
        if let ExprKind::Column(c) = &mut e.kind
            && c.rel == removed
        {
            c.rel = kept;
        }
        Ok(())
    })?;
    let not_null: Vec<i16> = match q.rels.iter().find(|r| r.id == kept).map(|r| &r.kind) {
        Some(RelKind::Table(t)) => t.columns.iter().filter(|c| c.is_never_null).map(|c| c.attnum).collect(),
        _ => Vec::new(),
    };
    let is_not_null = |c: ColId| c.rel == kept && not_null.contains(&c.att);
    let mut first = Vec::new();
    q.from.iter_mut().for_each(|t| simplify_joins(t, kept, &is_not_null, Some(&mut first)));
    let (mut not_null, mut others) = simplified(&mut q.filter, kept, &is_not_null);
    first.retain(|e| !not_null.iter().any(|known| kilndb_bind::same(known, e)));
    not_null.extend(first);
    others.retain(|e| !not_null.iter().any(|known| kilndb_bind::same(known, e)));
    not_null.extend(others);
    q.filter = Expr::and_all(not_null);
    Ok(())
}

/// Takes a relation out of the inner join that it stands in; the condition of the join stays.
fn take_out(t: &mut JoinTree, rel: u32) {
    let JoinTree::Join { left, right, on, .. } = t else { return };
    let is_it = |t: &JoinTree| matches!(t, JoinTree::Rel(r) if *r == rel);
    let (left_is, right_is) = (is_it(left), is_it(right));
    if !left_is && !right_is {
        take_out(left, rel);
        take_out(right, rel);
        return;
    }
    let other = std::mem::replace(&mut **(if left_is { right } else { left }), JoinTree::Rel(0));
    *t = match on.take() {
        None => other,
        on => JoinTree::Join { kind: JoinKind::Inner, left: Box::new(other), right: Box::new(JoinTree::Rel(0)), on },
    };
}

/// `above`: where conditions may go that all rows of the FROM clause have to meet.
fn simplify_joins(t: &mut JoinTree, kept: u32, is_not_null: &dyn Fn(ColId) -> bool, mut above: Option<&mut Vec<Expr>>) {
    let JoinTree::Join { kind, left, right, on } = t else { return };
    if *kind != JoinKind::Inner {
        above = None;
    }
    simplify_joins(left, kept, is_not_null, above.as_deref_mut());
    simplify_joins(right, kept, is_not_null, above.as_deref_mut());
    if *kind == JoinKind::Inner {
        let (mut all, others) = simplified(on, kept, is_not_null);
        if let Some(above) = above {
            above.append(&mut all);
        }
        all.extend(others);
        *on = Expr::and_all(all);
    }
}

/// A column of the table that equals itself is not NULL, and what is said twice is said once: what is not NULL, and the
/// other conditions.
fn simplified(condition: &mut Option<Expr>, kept: u32, is_not_null: &dyn Fn(ColId) -> bool) -> (Vec<Expr>, Vec<Expr>) {
    let (mut first, mut others): (Vec<Expr>, Vec<Expr>) = Default::default();
    for e in take_conjuncts(condition) {
        let (e, list) = match itself(&e).filter(|c| c.rel == kept) {
            Some(c) if is_not_null(c) => continue,
            Some(_) => (not_null(e), &mut first),
            None => (e, &mut others),
        };
        if e.is_volatile() || !list.iter().any(|known| kilndb_bind::same(known, &e)) {
            list.push(e);
        }
    }
    (first, others)
}

/// The column that a condition compares with itself.
fn itself(e: &Expr) -> Option<ColId> {
    let ExprKind::Func(f) = &e.kind else { return None };
    let [l, r] = f.args.as_slice() else { return None };
    let is_equality = f.operator != 0 && f.operator < FIRST_USER_OID && &*f.name == "=" && f.strict;
    let (a, b) = (column_of(l)?, column_of(r)?);
    (is_equality && a == b && l.ty == r.ty).then_some(a)
}

/// `a = a` as `a IS NOT NULL`.
fn not_null(e: Expr) -> Expr {
    let (ty, loc) = (e.ty, e.loc);
    match e.kind {
        ExprKind::Func(mut f) if !f.args.is_empty() => {
            let arg = Box::new(f.args.swap_remove(0));
            Expr::new(ExprKind::IsNull { arg, negated: true }, ty).at(loc)
        }
        kind => Expr::new(kind, ty).at(loc),
    }
}
