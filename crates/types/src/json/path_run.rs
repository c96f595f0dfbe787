//! jsonpath run over a value.
//!
//! Invariants
//! 1. Items come one by one: who needs only the first one stops there, and sees no error that later ones would give.
//! 2. An error of the data inside a condition makes the condition unknown.

use super::path_parse::{JsonPath, PathAccessor, PathExpr, PathOperator};
use super::value::JsonValue;
use crate::numeric::Numeric;
use crate::{Datum, EvalContext, functions};
use kilndb_base::{Error, Result, SqlState, sqlstate, work};
use std::sync::Arc;

/// Why a run ends before its end.
enum PathHalt {
    /// Enough has been found.
    Stop,
    /// What `silent` hides.
    Data(Error),
    Hard(Error),
}
type PathResult<T> = Result<T, PathHalt>;
type ItemSink<'s> = dyn FnMut(JsonValue) -> PathResult<()> + 's;

#[derive(Clone, Copy, PartialEq)]
enum Truth {
    True,
    False,
    Unknown,
}

struct PathContext<'a> {
    root: &'a JsonValue,
    vars: Option<&'a JsonValue>,
    lax: bool,
    eval: &'a EvalContext<'a>,
}

/// Where an expression is: the item of the filter, the length of the innermost array, whether a missing part is no
/// error.
#[derive(Clone, Copy)]
struct FilterScope<'a> {
    current: &'a JsonValue,
    length: Option<usize>,
    forgiving: bool,
}

/// What looking at an item costs.
const UNITS_OF_ITEM: usize = 30;

/// No `silent` hides that the statement is cancelled.
fn step(units: usize) -> PathResult<()> {
    work::step(units).map_err(PathHalt::Hard)
}
fn data<T>(state: SqlState, message: impl Into<String>) -> PathResult<T> {
    Err(PathHalt::Data(Error::new(state, message)))
}

/// All items; those before an error if `silent` hides it.
pub fn query(
    path: &JsonPath,
    root: &JsonValue,
    vars: Option<&JsonValue>,
    silent: bool,
    eval: &EvalContext,
) -> Result<Vec<JsonValue>> {
    let mut all = Vec::new();
    let cx = context(path, root, vars, eval)?;
    let at = FilterScope { current: root, length: None, forgiving: path.lax };
    match cx.run(&path.expr, at, &mut |v| {
        all.push(v);
        Ok(())
    }) {
        Ok(()) | Err(PathHalt::Stop) => Ok(all),
        // What was found before the error counts.
        Err(PathHalt::Data(_)) if silent => Ok(all),
        Err(PathHalt::Data(e) | PathHalt::Hard(e)) => Err(e),
    }
}
/// Whether the path finds an item; None: unknown.
pub fn exists(
    path: &JsonPath,
    root: &JsonValue,
    vars: Option<&JsonValue>,
    silent: bool,
    eval: &EvalContext,
) -> Result<Option<bool>> {
    let cx = context(path, root, vars, eval)?;
    match cx.any(&path.expr, FilterScope { current: root, length: None, forgiving: path.lax }) {
        Ok(found) => Ok(Some(found)),
        Err(PathHalt::Stop) => Ok(Some(true)),
        Err(PathHalt::Data(_)) if silent => Ok(None),
        Err(PathHalt::Data(e) | PathHalt::Hard(e)) => Err(e),
    }
}
fn context<'a>(
    path: &JsonPath,
    root: &'a JsonValue,
    vars: Option<&'a JsonValue>,
    eval: &'a EvalContext<'a>,
) -> Result<PathContext<'a>> {
    if vars.is_some_and(|v| !matches!(v, JsonValue::Object(_))) {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "\"vars\" argument is not an object")
            .with_detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    Ok(PathContext { root, vars, lax: path.lax, eval })
}

impl PathContext<'_> {
    fn any(&self, e: &PathExpr, at: FilterScope<'_>) -> PathResult<bool> {
        // A sign before a sequence: where only the number of items counts, those that are no numbers are none.
        if let (true, PathExpr::Plus(inner) | PathExpr::Minus(inner)) = (self.lax, e) {
            return Ok(self.unwrapped(inner, at)?.iter().any(|v| matches!(v, JsonValue::Number(_))));
        }
        let mut found = false;
        // In strict mode no error may be missed.
        let result = self.run(e, at, &mut |_| {
            found = true;
            if self.lax { Err(PathHalt::Stop) } else { Ok(()) }
        });
        match result {
            Ok(()) | Err(PathHalt::Stop) => Ok(found),
            Err(other) => Err(other),
        }
    }
    fn list(&self, e: &PathExpr, at: FilterScope<'_>) -> PathResult<Vec<JsonValue>> {
        let mut all = Vec::new();
        self.run(e, at, &mut |v| {
            all.push(v);
            Ok(())
        })?;
        Ok(all)
    }
    /// The items, in lax mode those of arrays instead of the arrays.
    fn unwrapped(&self, e: &PathExpr, at: FilterScope<'_>) -> PathResult<Vec<JsonValue>> {
        let list = self.list(e, at)?;
        if !self.lax {
            return Ok(list);
        }
        Ok(list.into_iter().flat_map(|v| if let JsonValue::Array(inner) = v { inner } else { vec![v] }).collect())
    }

    fn run(&self, e: &PathExpr, at: FilterScope<'_>, sink: &mut ItemSink<'_>) -> PathResult<()> {
        match e {
            PathExpr::Null => sink(JsonValue::Null),
            PathExpr::Bool(b) => sink(JsonValue::Bool(*b)),
            PathExpr::Number(n) => sink(JsonValue::Number(n.clone())),
            PathExpr::String(s) => sink(JsonValue::String(s.clone())),
            PathExpr::Variable(name) => match self.vars.and_then(|v| v.get(name)) {
                Some(v) => sink(v.clone()),
                None => Err(PathHalt::Hard(Error::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("could not find jsonpath variable \"{name}\""),
                ))),
            },
            PathExpr::Root => sink(self.root.clone()),
            PathExpr::Current => sink(at.current.clone()),
            PathExpr::Last => match at.length {
                Some(n) => sink(JsonValue::Number(Numeric::from(n as i64 - 1))),
                None => Err(PathHalt::Hard(Error::internal("evaluating jsonpath LAST outside of array subscript"))),
            },
            PathExpr::Chain(base, steps) => match &**base {
                PathExpr::Root => self.steps(steps, self.root, at, self.lax, sink),
                PathExpr::Current => self.steps(steps, at.current, at, self.lax, sink),
                base => self.run(base, at, &mut |v| self.steps(steps, &v, at, self.lax, sink)),
            },
            PathExpr::Plus(inner) | PathExpr::Minus(inner) => {
                let minus = matches!(e, PathExpr::Minus(_));
                for v in self.unwrapped(inner, at)? {
                    match v {
                        JsonValue::Number(n) => sink(JsonValue::Number(if minus { n.neg() } else { n }))?,
                        _ => {
                            let sign = if minus { "-" } else { "+" };
                            return data(
                                sqlstate::SQL_JSON_NUMBER_NOT_FOUND,
                                format!("operand of unary jsonpath operator {sign} is not a numeric value"),
                            );
                        }
                    }
                }
                Ok(())
            }
            PathExpr::Binary(
                op
                @ (PathOperator::Add | PathOperator::Sub | PathOperator::Mul | PathOperator::Div | PathOperator::Mod),
                l,
                r,
            ) => {
                let v = self.arithmetic(*op, l, r, at)?;
                sink(JsonValue::Number(v))
            }
            condition => match self.truth(condition, at)? {
                Truth::True => sink(JsonValue::Bool(true)),
                Truth::False => sink(JsonValue::Bool(false)),
                Truth::Unknown => sink(JsonValue::Null),
            },
        }
    }

    fn arithmetic(&self, op: PathOperator, l: &PathExpr, r: &PathExpr, at: FilterScope<'_>) -> PathResult<Numeric> {
        let sign = match op {
            PathOperator::Add => "+",
            PathOperator::Sub => "-",
            PathOperator::Mul => "*",
            PathOperator::Div => "/",
            _ => "%",
        };
        let (left, right) = (self.unwrapped(l, at)?, self.unwrapped(r, at)?);
        let single = |list: &[JsonValue], side: &str| match list {
            [JsonValue::Number(n)] => Ok(n.clone()),
            _ => data(
                sqlstate::SINGLETON_SQL_JSON_ITEM_REQUIRED,
                format!("{side} operand of jsonpath operator {sign} is not a single numeric value"),
            ),
        };
        let (a, b) = (single(&left, "left")?, single(&right, "right")?);
        let result = match op {
            PathOperator::Add => a.add(&b).checked(),
            PathOperator::Sub => a.sub(&b).checked(),
            PathOperator::Mul => a.mul(&b).checked(),
            PathOperator::Div => a.div(&b),
            _ => a.rem(&b),
        };
        result.map_err(PathHalt::Data)
    }

    /// A condition; errors of the data make it unknown.
    fn truth(&self, e: &PathExpr, at: FilterScope<'_>) -> PathResult<Truth> {
        Ok(match e {
            PathExpr::Binary(PathOperator::And, l, r) => match self.truth(l, at)? {
                Truth::False => Truth::False,
                left => match self.truth(r, at)? {
                    Truth::True => left,
                    right => right,
                },
            },
            PathExpr::Binary(PathOperator::Or, l, r) => match self.truth(l, at)? {
                Truth::True => Truth::True,
                left => match self.truth(r, at)? {
                    Truth::False => left,
                    right => right,
                },
            },
            PathExpr::Not(inner) => match self.truth(inner, at)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            },
            PathExpr::IsUnknown(inner) => {
                if self.truth(inner, at)? == Truth::Unknown {
                    Truth::True
                } else {
                    Truth::False
                }
            }
            PathExpr::Exists(inner) => match self.any(inner, at) {
                Ok(true) => Truth::True,
                Ok(false) => Truth::False,
                Err(PathHalt::Data(_)) => Truth::Unknown,
                Err(other) => return Err(other),
            },
            PathExpr::Binary(op, l, r) => {
                self.predicate(l, Some((r, *op != PathOperator::StartsWith)), at, &|a, b| Ok(compare(*op, a, b)))?
            }
            PathExpr::LikeRegex(l, pattern, flags) => {
                self.predicate(l, None, at, &|a, _| self.matches(a, pattern, flags))?
            }
            _ => return Err(PathHalt::Hard(Error::internal("jsonpath condition"))),
        })
    }
    fn predicate(
        &self,
        l: &PathExpr,
        r: Option<(&PathExpr, bool)>,
        at: FilterScope<'_>,
        test: &dyn Fn(&JsonValue, &JsonValue) -> PathResult<Truth>,
    ) -> PathResult<Truth> {
        let sides = self.unwrapped(l, at).and_then(|left| {
            let right = match r {
                None => vec![JsonValue::Null],
                Some((r, true)) => self.unwrapped(r, at)?,
                Some((r, false)) => self.list(r, at)?,
            };
            Ok((left, right))
        });
        let (left, right) = match sides {
            Ok(sides) => sides,
            Err(PathHalt::Data(_)) => return Ok(Truth::Unknown),
            Err(other) => return Err(other),
        };
        let (mut found, mut unknown) = (false, false);
        for a in &left {
            for b in &right {
                step(UNITS_OF_ITEM)?;
                match test(a, b)? {
                    Truth::Unknown if !self.lax => return Ok(Truth::Unknown),
                    Truth::Unknown => unknown = true,
                    Truth::True if self.lax => return Ok(Truth::True),
                    Truth::True => found = true,
                    Truth::False => {}
                }
            }
        }
        Ok(if found {
            Truth::True
        } else if unknown {
            Truth::Unknown
        } else {
            Truth::False
        })
    }
    fn matches(&self, v: &JsonValue, pattern: &str, flags: &str) -> PathResult<Truth> {
        let JsonValue::String(s) = v else { return Ok(Truth::Unknown) };
        let mut options = String::new();
        if flags.contains('i') {
            options.push('i');
        }
        match (flags.contains('q'), flags.contains('s'), flags.contains('m')) {
            (true, ..) => options.push('q'),
            (_, true, true) => options.push('w'),
            (_, true, false) => options.push('s'),
            (_, false, true) => options.push('n'),
            (_, false, false) => options.push('p'),
        }
        let arguments = [Datum::text(s), Datum::text(pattern), Datum::Text(Arc::from(options))];
        match functions::regex::regexp_like(self.eval, &arguments) {
            Ok(Datum::Bool(true)) => Ok(Truth::True),
            Ok(_) => Ok(Truth::False),
            Err(e) => Err(PathHalt::Hard(e)),
        }
    }

    /// The steps from an item on. `unwrap`: an array stands for its elements where the step wants none.
    fn steps(
        &self,
        steps: &[PathAccessor],
        v: &JsonValue,
        at: FilterScope<'_>,
        unwrap: bool,
        sink: &mut ItemSink<'_>,
    ) -> PathResult<()> {
        step(UNITS_OF_ITEM)?;
        let Some((step, rest)) = steps.split_first() else { return sink(v.clone()) };
        let takes_arrays = match step {
            PathAccessor::AnyArray | PathAccessor::Index(_) | PathAccessor::Any(..) => true,
            PathAccessor::Method(name, _) => matches!(name.as_str(), "type" | "size"),
            PathAccessor::Key(_) | PathAccessor::AnyKey | PathAccessor::Filter(_) => false,
        };
        if let (JsonValue::Array(list), true, false) = (v, unwrap, takes_arrays) {
            return list.iter().try_for_each(|v| self.steps(steps, v, at, false, sink));
        }
        let next =
            |v: &JsonValue, at: FilterScope<'_>, sink: &mut ItemSink<'_>| self.steps(rest, v, at, self.lax, sink);
        match step {
            PathAccessor::Key(key) => match (v, v.get(key)) {
                (_, Some(found)) => next(found, at, sink),
                _ if at.forgiving => Ok(()),
                (JsonValue::Object(_), None) => {
                    data(sqlstate::SQL_JSON_MEMBER_NOT_FOUND, format!("JSON object does not contain key \"{key}\""))
                }
                _ => data(
                    sqlstate::SQL_JSON_MEMBER_NOT_FOUND,
                    "jsonpath member accessor can only be applied to an object",
                ),
            },
            PathAccessor::AnyKey => match v {
                JsonValue::Object(list) => list.iter().try_for_each(|(_, v)| next(v, at, sink)),
                _ if at.forgiving => Ok(()),
                _ => data(
                    sqlstate::SQL_JSON_OBJECT_NOT_FOUND,
                    "jsonpath wildcard member accessor can only be applied to an object",
                ),
            },
            PathAccessor::AnyArray => match v {
                JsonValue::Array(list) => list.iter().try_for_each(|v| next(v, at, sink)),
                v if self.lax => next(v, at, sink),
                _ if at.forgiving => Ok(()),
                _ => data(
                    sqlstate::SQL_JSON_ARRAY_NOT_FOUND,
                    "jsonpath wildcard array accessor can only be applied to an array",
                ),
            },
            PathAccessor::Index(list) => self.elements(list, v, at, &mut |v| next(v, at, sink)),
            PathAccessor::Any(first, last) => {
                let at = FilterScope { forgiving: true, ..at };
                if *first == Some(0) {
                    next(v, at, sink)?;
                }
                self.descend(v, 1, (*first, *last), &mut |v| next(v, at, sink))
            }
            PathAccessor::Filter(condition) => match self.truth(condition, FilterScope { current: v, ..at })? {
                Truth::True => next(v, at, sink),
                _ => Ok(()),
            },
            PathAccessor::Method(name, args) => {
                let result = super::path_method::call(name, args, v, self.lax || at.forgiving, self.eval).map_err(
                    |e| match e.sqlstate() {
                        sqlstate::FEATURE_NOT_SUPPORTED => PathHalt::Hard(e),
                        _ if e.is_interruption() => PathHalt::Hard(e),
                        _ => PathHalt::Data(e),
                    },
                )?;
                next(&result, at, sink)
            }
        }
    }

    fn descend(
        &self,
        v: &JsonValue,
        level: u32,
        range: (Option<u32>, Option<u32>),
        sink: &mut dyn FnMut(&JsonValue) -> PathResult<()>,
    ) -> PathResult<()> {
        let (first, last) = (range.0.unwrap_or(u32::MAX), range.1.unwrap_or(u32::MAX));
        if level > last {
            return Ok(());
        }
        let children: Vec<&JsonValue> = match v {
            JsonValue::Array(list) => list.iter().collect(),
            JsonValue::Object(list) => list.iter().map(|p| &p.1).collect(),
            _ => return Ok(()),
        };
        for child in children {
            step(UNITS_OF_ITEM)?;
            if level >= first || first == u32::MAX && last == u32::MAX && child.is_scalar() {
                sink(child)?;
            }
            self.descend(child, level + 1, range, sink)?;
        }
        Ok(())
    }

    fn elements(
        &self,
        list: &[(PathExpr, Option<PathExpr>)],
        v: &JsonValue,
        at: FilterScope<'_>,
        sink: &mut dyn FnMut(&JsonValue) -> PathResult<()>,
    ) -> PathResult<()> {
        let one = std::slice::from_ref(v);
        let items: &[JsonValue] = match v {
            JsonValue::Array(items) => items,
            _ if self.lax => one,
            _ => {
                return data(
                    sqlstate::SQL_JSON_ARRAY_NOT_FOUND,
                    "jsonpath array accessor can only be applied to an array",
                );
            }
        };
        let inner = FilterScope { length: Some(items.len()), ..at };
        for (from, to) in list {
            let first = self.index(from, v, inner)?;
            let last = match to {
                Some(to) => self.index(to, v, inner)?,
                None => first,
            };
            if !at.forgiving && (first < 0 || first > last || last >= items.len() as i64) {
                return data(sqlstate::INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is out of bounds");
            }
            let last = last.min(items.len() as i64 - 1);
            for i in first.max(0)..=last {
                if let Some(item) = usize::try_from(i).ok().and_then(|i| items.get(i)) {
                    sink(item)?;
                }
            }
        }
        Ok(())
    }
    fn index(&self, e: &PathExpr, _: &JsonValue, at: FilterScope<'_>) -> PathResult<i64> {
        match self.list(e, at)?.as_slice() {
            [JsonValue::Number(n)] => match n.trunc_to(0).to_i64().filter(|i| i32::try_from(*i).is_ok()) {
                Some(i) => Ok(i),
                None => data(sqlstate::INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is out of integer range"),
            },
            _ => data(sqlstate::INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is not a single numeric value"),
        }
    }
}

fn compare(op: PathOperator, a: &JsonValue, b: &JsonValue) -> Truth {
    let known = |b: bool| if b { Truth::True } else { Truth::False };
    if op == PathOperator::StartsWith {
        return match (a, b) {
            (JsonValue::String(a), JsonValue::String(b)) => known(a.starts_with(b.as_str())),
            _ => Truth::Unknown,
        };
    }
    let order = match (a, b) {
        (JsonValue::Null, JsonValue::Null) => std::cmp::Ordering::Equal,
        (JsonValue::Null, _) | (_, JsonValue::Null) => return known(op == PathOperator::Ne),
        (JsonValue::Bool(a), JsonValue::Bool(b)) => a.cmp(b),
        (JsonValue::Number(a), JsonValue::Number(b)) => a.cmp(b),
        // In the order of UTF-16, as the standard has it.
        (JsonValue::String(a), JsonValue::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        _ => return Truth::Unknown,
    };
    known(match op {
        PathOperator::Eq => order.is_eq(),
        PathOperator::Ne => order.is_ne(),
        PathOperator::Lt => order.is_lt(),
        PathOperator::Gt => order.is_gt(),
        PathOperator::Le => order.is_le(),
        _ => order.is_ge(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::path_parse::parse;
    use super::*;
    use crate::looks::{asks, worth};

    #[test]
    fn many_items_give_way() {
        let count = 50_000;
        let document = JsonValue::parse(&format!("[{}1]", "0, ".repeat(count))).unwrap();
        for path in ["$[*]", "$.**", "strict $[*] ? (@ > 5)", "$ ? (@[*] == 2)"] {
            asks(worth(count * UNITS_OF_ITEM), |cx| query(&parse(path)?, &document, None, true, cx));
        }
    }

    #[test]
    fn long_paths_give_way() {
        for path in
            ["$.a".repeat(100_000), format!("$.\"{}\"", "a".repeat(1_000_000)), format!("{}$", " ".repeat(1_000_000))]
        {
            asks(worth(path.len()), |_| parse(&path));
        }
    }
}
