//! The windows that a query's calls use, in the order in which they are computed, each with a name: PostgreSQL's
//! optimize_window_clauses, select_active_windows and name_active_windows.
//!
//! Windows that can share a sort follow one another, the one that sorts by most first.

use super::*;
use std::cmp::Ordering;

/// Functions that look at the whole partition, whatever the frame: row_number, rank, dense_rank, percent_rank, cume_dist,
/// ntile.
const WITHOUT_FRAME: std::ops::RangeInclusive<u32> = 3100..=3105;

/// A query's windows become those that are used, and calls name them by their new places.
pub(super) fn arrange(q: &mut Query) -> Result<()> {
    if q.windows.is_empty() {
        return Ok(());
    }
    let mut functions: Vec<Vec<kilndb_base::Oid>> = vec![Vec::new(); q.windows.len()];
    q.for_exprs(&mut |e| functions_of(e, &mut functions));
    let mut stands_for: Vec<usize> = (0..q.windows.len()).collect();
    for number in 0..q.windows.len() {
        let all = &functions[number];
        if !all.is_empty() && all.iter().all(|f| WITHOUT_FRAME.contains(f)) && take_least_frame(&mut q.windows[number])
        {
            let is_same = |other: &usize| *other != number && is_same(&q.windows[*other], &q.windows[number]);
            if let Some(other) = (0..q.windows.len()).find(is_same) {
                stands_for.iter_mut().filter(|n| **n == number).for_each(|n| *n = other);
                let moved = std::mem::take(&mut functions[number]);
                functions[other].extend(moved);
            }
        }
    }
    let numbers = sort_numbers(q);
    let mut used: Vec<usize> = (0..q.windows.len()).filter(|n| !functions[*n].is_empty()).collect();
    used.sort_by(|a, b| compare(&q.windows[*a], &q.windows[*b], &numbers));
    let place: Vec<usize> = stands_for.iter().map(|n| used.iter().position(|u| u == n).unwrap_or_default()).collect();
    q.for_exprs_mut(&mut |e| renumber(e, &place))?;
    q.windows = used.iter().map(|n| q.windows[*n].clone()).collect();
    name(&mut q.windows);
    Ok(())
}

/// Adds the functions in an expression to those of their windows.
fn functions_of(e: &Expr, functions: &mut [Vec<kilndb_base::Oid>]) {
    if let ExprKind::Window(call) = &e.kind
        && let Some(list) = functions.get_mut(call.window)
    {
        list.push(call.oid);
    }
    e.for_children(&mut |c| functions_of(c, functions));
}

fn renumber(e: &mut Expr, place: &[usize]) -> Result<()> {
    e.for_children_mut(&mut |c| renumber(c, place))?;
    if let ExprKind::Window(call) = &mut e.kind
        && let Some(new) = place.get(call.window)
    {
        call.window = *new;
    }
    Ok(())
}

/// Gives a window the frame that takes the least work; false: it has it.
fn take_least_frame(w: &mut WindowSpec) -> bool {
    let has_it =
        matches!((w.mode, &w.start, &w.end), (FrameMode::Rows, FrameBound::UnboundedPreceding, FrameBound::CurrentRow))
            && w.exclude == 0
            && !w.default_frame
            && !w.is_between;
    w.mode = FrameMode::Rows;
    (w.start, w.end) = (FrameBound::UnboundedPreceding, FrameBound::CurrentRow);
    w.exclude = 0;
    (w.default_frame, w.is_between) = (false, false);
    !has_it
}

/// Are two windows the same but for their names?
fn is_same(a: &WindowSpec, b: &WindowSpec) -> bool {
    let same_keys = a.order.len() == b.order.len()
        && a.order.iter().zip(&b.order).all(|(x, y)| {
            kilndb_bind::same(&x.expr, &y.expr) && x.descending == y.descending && x.nulls_first == y.nulls_first
        });
    let same_partition = a.partition.len() == b.partition.len()
        && a.partition.iter().zip(&b.partition).all(|(x, y)| kilndb_bind::same(x, y));
    let same_bound = |x: &FrameBound, y: &FrameBound| match (x, y) {
        (FrameBound::Preceding(x), FrameBound::Preceding(y)) | (FrameBound::Following(x), FrameBound::Following(y)) => {
            kilndb_bind::same(x, y)
        }
        (x, y) => std::mem::discriminant(x) == std::mem::discriminant(y),
    };
    let same_frame =
        (a.mode, a.exclude, a.default_frame, a.is_between) == (b.mode, b.exclude, b.default_frame, b.is_between);
    same_keys && same_partition && same_frame && same_bound(&a.start, &b.start) && same_bound(&a.end, &b.end)
}

/// What the query sorts and groups by, in the order in which PostgreSQL numbers it.
fn sort_numbers(q: &Query) -> Vec<Expr> {
    let mut numbers: Vec<Expr> = Vec::new();
    let mut add = |e: &Expr| {
        if !numbers.iter().any(|known| kilndb_bind::same(known, e)) {
            numbers.push(e.clone());
        }
    };
    q.order_by.iter().for_each(|k| add(&k.expr));
    q.group_by.iter().for_each(&mut add);
    match &q.distinct {
        Distinct::No => {}
        Distinct::All => q.targets.iter().filter(|t| !t.junk).for_each(|t| add(&t.expr)),
        Distinct::On(list) => list.iter().for_each(&mut add),
    }
    for w in &q.windows {
        w.order.iter().for_each(|k| add(&k.expr));
        w.partition.iter().for_each(&mut add);
    }
    numbers
}

fn compare(a: &WindowSpec, b: &WindowSpec, numbers: &[Expr]) -> Ordering {
    let keys = |w: &WindowSpec| {
        let mut keys: Vec<(usize, bool, bool)> = Vec::new();
        let partition = w.partition.iter().map(|e| (e, false, false));
        let order = w.order.iter().map(|k| (&k.expr, k.descending, k.nulls_first));
        for (e, descending, nulls_first) in partition.chain(order) {
            let number = numbers.iter().position(|known| kilndb_bind::same(known, e)).unwrap_or_default();
            if !keys.contains(&(number, descending, nulls_first)) {
                keys.push((number, descending, nulls_first));
            }
        }
        keys
    };
    let (a, b) = (keys(a), keys(b));
    let differ = a.iter().zip(&b).find(|(x, y)| x != y);
    // Of one expression, ascending and descending orders are told apart in any way that keeps the same ones together.
    differ.map_or_else(|| b.len().cmp(&a.len()), |(x, y)| y.cmp(x))
}

/// Windows without a name get one that no other has.
fn name(windows: &mut [WindowSpec]) {
    let mut next = 1;
    for at in 0..windows.len() {
        while windows[at].name.is_none() {
            let name = format!("w{next}");
            next += 1;
            if !windows.iter().any(|w| w.name.as_deref() == Some(&name)) {
                windows[at].name = Some(name);
            }
        }
    }
}
