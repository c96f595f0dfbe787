//! Constants that columns are equal to, told of all columns that are equal to them: the simplest part of what
//! PostgreSQL's equivalence classes are for.
//!
//! `a.x = b.x AND b.x = 5` says that `a.x = 5`, which an index of `a` may answer; `a.x = b.x` then follows from the
//! others and goes. Only equality operators on two values of one type count, and they must be the same operator.

use super::*;
use kilndb_types::Datum;

/// `column = value`, where the value is a constant or a parameter.
struct FixedColumn {
    column: ColId,
    condition: Expr,
}

pub(super) fn derive(q: &mut Query, catalog: &dyn CatalogView) -> Result<()> {
    let mut conditions = Vec::new();
    q.filter.iter().for_each(|e| each(e, &mut conditions));
    let mut trees: Vec<&JoinTree> = q.from.iter().collect();
    while let Some(t) = trees.pop() {
        if let JoinTree::Join { kind: JoinKind::Inner, left, right, on } = t {
            trees.extend([&**left, &**right]);
            on.iter().for_each(|e| each(e, &mut conditions));
        }
    }
    let mut fixed: Vec<FixedColumn> = Vec::new();
    for e in &conditions {
        if let Some(column) = fixed_column(e, catalog)? {
            fixed.push(FixedColumn { column, condition: (*e).clone() });
        }
    }
    if fixed.is_empty() {
        return Ok(());
    }
    let mut pairs: Vec<(ColId, ColId, u32)> = conditions.iter().filter_map(|e| equal_columns(e)).collect();
    let mut added = Vec::new();
    let mut used = true;
    while std::mem::take(&mut used) {
        for (a, b, operator) in &pairs {
            for (from, to) in [(a, b), (b, a)] {
                if !is_fixed(&fixed, *to, *operator)
                    && let Some(known) =
                        fixed.iter().find(|f| f.column == *from && operator_of(&f.condition) == *operator)
                {
                    let condition = about(&known.condition, *from, *to);
                    added.push(condition.clone());
                    fixed.push(FixedColumn { column: *to, condition });
                    used = true;
                }
            }
        }
    }
    // What both sides of an equality equal is the same value only if it came from one condition.
    pairs.retain(|(a, b, operator)| {
        let value = |c: &ColId| fixed.iter().find(|f| f.column == *c && operator_of(&f.condition) == *operator);
        match (value(a), value(b)) {
            (Some(x), Some(y)) => kilndb_bind::same(&about(&x.condition, *a, *b), &y.condition),
            _ => false,
        }
    });
    let is_needless = |e: &Expr| equal_columns(e).is_some_and(|pair| pairs.contains(&pair));
    if !added.is_empty() {
        let mut all = take_conjuncts(&mut q.filter);
        all.retain(|e| !is_needless(e));
        all.extend(added);
        q.filter = Expr::and_all(all);
        q.from.iter_mut().for_each(|t| drop_needless(t, &is_needless));
    }
    q.from.iter_mut().for_each(|t| tell_outer_joins(t, &fixed));
    Ok(())
}

/// The right side of a LEFT join is asked only for rows that can match.
fn tell_outer_joins(t: &mut JoinTree, fixed: &[FixedColumn]) {
    let JoinTree::Join { kind, left, right, on } = t else { return };
    let fills_right = matches!(kind, JoinKind::Left | JoinKind::Anti);
    if *kind == JoinKind::Inner || fills_right {
        tell_outer_joins(left, fixed);
    }
    if *kind == JoinKind::Inner {
        tell_outer_joins(right, fixed);
    }
    if !fills_right {
        return;
    }
    let (outside, inside) = (relations_of(left), relations_of(right));
    let mut conditions = take_conjuncts(on);
    let mut added: Vec<Expr> = Vec::new();
    for (a, b, operator) in conditions.iter().filter_map(equal_columns) {
        for (from, to) in [(a, b), (b, a)] {
            if outside.contains(&from.rel)
                && inside.contains(&to.rel)
                && let Some(known) = fixed.iter().find(|f| f.column == from && operator_of(&f.condition) == operator)
            {
                added.push(about(&known.condition, from, to));
            }
        }
    }
    added.retain(|e| !conditions.iter().any(|c| kilndb_bind::same(c, e)));
    conditions.extend(added);
    *on = Expr::and_all(conditions);
}

fn drop_needless(t: &mut JoinTree, is_needless: &dyn Fn(&Expr) -> bool) {
    if let JoinTree::Join { kind: JoinKind::Inner, left, right, on } = t {
        drop_needless(left, is_needless);
        drop_needless(right, is_needless);
        let mut list = take_conjuncts(on);
        list.retain(|e| !is_needless(e));
        *on = Expr::and_all(list);
    }
}

fn each<'e>(e: &'e Expr, out: &mut Vec<&'e Expr>) {
    match &e.kind {
        ExprKind::And(list) => list.iter().for_each(|x| each(x, out)),
        _ => out.push(e),
    }
}

fn operator_of(e: &Expr) -> u32 {
    match &e.kind {
        ExprKind::Func(f) => f.operator,
        _ => 0,
    }
}

fn is_fixed(fixed: &[FixedColumn], column: ColId, operator: u32) -> bool {
    fixed.iter().any(|f| f.column == column && operator_of(&f.condition) == operator)
}

/// `column = value` for `from`, said of `to`.
fn about(condition: &Expr, from: ColId, to: ColId) -> Expr {
    let mut condition = condition.clone();
    if let ExprKind::Func(f) = &mut condition.kind {
        for a in &mut f.args {
            if matches!(&a.kind, ExprKind::Column(c) if *c == from) {
                a.kind = ExprKind::Column(to);
            }
        }
    }
    condition
}

/// The arguments of an equality of two values of one type.
fn equality(e: &Expr) -> Option<(&FuncExpr, &Expr, &Expr)> {
    let ExprKind::Func(f) = &e.kind else { return None };
    let [l, r] = f.args.as_slice() else { return None };
    (f.operator != 0 && &*f.name == "=" && f.strict && f.volatility == b'i' && l.ty == r.ty).then_some((f, l, r))
}

fn column_of(e: &Expr) -> Option<ColId> {
    match &e.kind {
        ExprKind::Column(c) if c.att > 0 => Some(*c),
        _ => None,
    }
}

fn equal_columns(e: &Expr) -> Option<(ColId, ColId, u32)> {
    let (f, l, r) = equality(e)?;
    let (a, b) = (column_of(l)?, column_of(r)?);
    (a.rel != b.rel).then_some((a, b, f.operator))
}

fn fixed_column(e: &Expr, catalog: &dyn CatalogView) -> Result<Option<ColId>> {
    let Some((f, l, r)) = equality(e) else { return Ok(None) };
    let is_value = |e: &Expr| match &e.kind {
        ExprKind::Const(value) => !matches!(value, Datum::Null),
        ExprKind::Param(_) => true,
        _ => false,
    };
    let column = match (column_of(l), column_of(r)) {
        (Some(c), None) if is_value(r) => c,
        (None, Some(c)) if is_value(l) => c,
        _ => return Ok(None),
    };
    let is_equality = e.collation.collation.is_deterministic() && catalog.btree_strategy(f.operator)? == Some(3);
    Ok(is_equality.then_some(column))
}
