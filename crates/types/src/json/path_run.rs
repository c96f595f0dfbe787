//! jsonpath run over a value.
//!
//! Invariants
//! 1. Items come one by one: who needs only the first one stops there, and sees no error that later ones would give.
//! 2. An error of the data inside a condition makes the condition unknown.

use super::path_parse::{Expr, JsonPath, Op, Step};
use super::value::Value;
use crate::numeric::Numeric;
use crate::{Datum, EvalContext, functions};
use kilndb_base::{Error, Result, SqlState, sqlstate, work};
use std::sync::Arc;

/// Why a run ends before its end.
enum Halt {
    /// Enough has been found.
    Stop,
    /// What `silent` hides.
    Data(Error),
    Hard(Error),
}
type Run<T> = Result<T, Halt>;
type Sink<'s> = dyn FnMut(Value) -> Run<()> + 's;

#[derive(Clone, Copy, PartialEq)]
enum Truth {
    True,
    False,
    Unknown,
}

struct Context<'a> {
    root: &'a Value,
    vars: Option<&'a Value>,
    lax: bool,
    eval: &'a EvalContext<'a>,
}

/// Where an expression is: the item of the filter, the length of the innermost array, whether a missing part is no
/// error.
#[derive(Clone, Copy)]
struct At<'a> {
    current: &'a Value,
    length: Option<usize>,
    forgiving: bool,
}

/// What looking at an item costs.
const UNITS_OF_ITEM: usize = 30;

/// No `silent` hides that the statement is cancelled.
fn step(units: usize) -> Run<()> {
    work::step(units).map_err(Halt::Hard)
}
fn data<T>(state: SqlState, message: impl Into<String>) -> Run<T> {
    Err(Halt::Data(Error::new(state, message)))
}

/// All items; those before an error if `silent` hides it.
pub fn query(
    path: &JsonPath,
    root: &Value,
    vars: Option<&Value>,
    silent: bool,
    eval: &EvalContext,
) -> Result<Vec<Value>> {
    let mut all = Vec::new();
    let cx = context(path, root, vars, eval)?;
    let at = At { current: root, length: None, forgiving: path.lax };
    match cx.run(&path.expr, at, &mut |v| {
        all.push(v);
        Ok(())
    }) {
        Ok(()) | Err(Halt::Stop) => Ok(all),
        // What was found before the error counts.
        Err(Halt::Data(_)) if silent => Ok(all),
        Err(Halt::Data(e) | Halt::Hard(e)) => Err(e),
    }
}
/// Is there an item? None: unknown.
pub fn exists(
    path: &JsonPath,
    root: &Value,
    vars: Option<&Value>,
    silent: bool,
    eval: &EvalContext,
) -> Result<Option<bool>> {
    let cx = context(path, root, vars, eval)?;
    match cx.any(&path.expr, At { current: root, length: None, forgiving: path.lax }) {
        Ok(found) => Ok(Some(found)),
        Err(Halt::Stop) => Ok(Some(true)),
        Err(Halt::Data(_)) if silent => Ok(None),
        Err(Halt::Data(e) | Halt::Hard(e)) => Err(e),
    }
}
fn context<'a>(
    path: &JsonPath,
    root: &'a Value,
    vars: Option<&'a Value>,
    eval: &'a EvalContext<'a>,
) -> Result<Context<'a>> {
    if vars.is_some_and(|v| !matches!(v, Value::Object(_))) {
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "\"vars\" argument is not an object")
            .with_detail("Jsonpath parameters should be encoded as key-value pairs of \"vars\" object."));
    }
    Ok(Context { root, vars, lax: path.lax, eval })
}

impl Context<'_> {
    fn any(&self, e: &Expr, at: At<'_>) -> Run<bool> {
        // A sign before a sequence: where only the number of items counts, those that are no numbers are none.
        if let (true, Expr::Plus(inner) | Expr::Minus(inner)) = (self.lax, e) {
            return Ok(self.unwrapped(inner, at)?.iter().any(|v| matches!(v, Value::Number(_))));
        }
        let mut found = false;
        // In strict mode no error may be missed.
        let result = self.run(e, at, &mut |_| {
            found = true;
            if self.lax { Err(Halt::Stop) } else { Ok(()) }
        });
        match result {
            Ok(()) | Err(Halt::Stop) => Ok(found),
            Err(other) => Err(other),
        }
    }
    fn list(&self, e: &Expr, at: At<'_>) -> Run<Vec<Value>> {
        let mut all = Vec::new();
        self.run(e, at, &mut |v| {
            all.push(v);
            Ok(())
        })?;
        Ok(all)
    }
    /// The items, in lax mode those of arrays instead of the arrays.
    fn unwrapped(&self, e: &Expr, at: At<'_>) -> Run<Vec<Value>> {
        let list = self.list(e, at)?;
        if !self.lax {
            return Ok(list);
        }
        Ok(list.into_iter().flat_map(|v| if let Value::Array(inner) = v { inner } else { vec![v] }).collect())
    }

    fn run(&self, e: &Expr, at: At<'_>, sink: &mut Sink<'_>) -> Run<()> {
        match e {
            Expr::Null => sink(Value::Null),
            Expr::Bool(b) => sink(Value::Bool(*b)),
            Expr::Number(n) => sink(Value::Number(n.clone())),
            Expr::String(s) => sink(Value::String(s.clone())),
            Expr::Variable(name) => match self.vars.and_then(|v| v.get(name)) {
                Some(v) => sink(v.clone()),
                None => Err(Halt::Hard(Error::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("could not find jsonpath variable \"{name}\""),
                ))),
            },
            Expr::Root => sink(self.root.clone()),
            Expr::Current => sink(at.current.clone()),
            Expr::Last => match at.length {
                Some(n) => sink(Value::Number(Numeric::from(n as i64 - 1))),
                None => Err(Halt::Hard(Error::internal("evaluating jsonpath LAST outside of array subscript"))),
            },
            Expr::Chain(base, steps) => match &**base {
                Expr::Root => self.steps(steps, self.root, at, self.lax, sink),
                Expr::Current => self.steps(steps, at.current, at, self.lax, sink),
                base => self.run(base, at, &mut |v| self.steps(steps, &v, at, self.lax, sink)),
            },
            Expr::Plus(inner) | Expr::Minus(inner) => {
                let minus = matches!(e, Expr::Minus(_));
                for v in self.unwrapped(inner, at)? {
                    match v {
                        Value::Number(n) => sink(Value::Number(if minus { n.neg() } else { n }))?,
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
            Expr::Binary(op @ (Op::Add | Op::Sub | Op::Mul | Op::Div | Op::Mod), l, r) => {
                let v = self.arithmetic(*op, l, r, at)?;
                sink(Value::Number(v))
            }
            condition => match self.truth(condition, at)? {
                Truth::True => sink(Value::Bool(true)),
                Truth::False => sink(Value::Bool(false)),
                Truth::Unknown => sink(Value::Null),
            },
        }
    }

    fn arithmetic(&self, op: Op, l: &Expr, r: &Expr, at: At<'_>) -> Run<Numeric> {
        let sign = match op {
            Op::Add => "+",
            Op::Sub => "-",
            Op::Mul => "*",
            Op::Div => "/",
            _ => "%",
        };
        let (left, right) = (self.unwrapped(l, at)?, self.unwrapped(r, at)?);
        let single = |list: &[Value], side: &str| match list {
            [Value::Number(n)] => Ok(n.clone()),
            _ => data(
                sqlstate::SINGLETON_SQL_JSON_ITEM_REQUIRED,
                format!("{side} operand of jsonpath operator {sign} is not a single numeric value"),
            ),
        };
        let (a, b) = (single(&left, "left")?, single(&right, "right")?);
        let result = match op {
            Op::Add => a.add(&b).checked(),
            Op::Sub => a.sub(&b).checked(),
            Op::Mul => a.mul(&b).checked(),
            Op::Div => a.div(&b),
            _ => a.rem(&b),
        };
        result.map_err(Halt::Data)
    }

    /// A condition; errors of the data make it unknown.
    fn truth(&self, e: &Expr, at: At<'_>) -> Run<Truth> {
        Ok(match e {
            Expr::Binary(Op::And, l, r) => match self.truth(l, at)? {
                Truth::False => Truth::False,
                left => match self.truth(r, at)? {
                    Truth::True => left,
                    right => right,
                },
            },
            Expr::Binary(Op::Or, l, r) => match self.truth(l, at)? {
                Truth::True => Truth::True,
                left => match self.truth(r, at)? {
                    Truth::False => left,
                    right => right,
                },
            },
            Expr::Not(inner) => match self.truth(inner, at)? {
                Truth::True => Truth::False,
                Truth::False => Truth::True,
                Truth::Unknown => Truth::Unknown,
            },
            Expr::IsUnknown(inner) => {
                if self.truth(inner, at)? == Truth::Unknown {
                    Truth::True
                } else {
                    Truth::False
                }
            }
            Expr::Exists(inner) => match self.any(inner, at) {
                Ok(true) => Truth::True,
                Ok(false) => Truth::False,
                Err(Halt::Data(_)) => Truth::Unknown,
                Err(other) => return Err(other),
            },
            Expr::Binary(op, l, r) => {
                self.predicate(l, Some((r, *op != Op::StartsWith)), at, &|a, b| Ok(compare(*op, a, b)))?
            }
            Expr::LikeRegex(l, pattern, flags) => {
                self.predicate(l, None, at, &|a, _| self.matches(a, pattern, flags))?
            }
            _ => return Err(Halt::Hard(Error::internal("jsonpath condition"))),
        })
    }
    fn predicate(
        &self,
        l: &Expr,
        r: Option<(&Expr, bool)>,
        at: At<'_>,
        test: &dyn Fn(&Value, &Value) -> Run<Truth>,
    ) -> Run<Truth> {
        let sides = self.unwrapped(l, at).and_then(|left| {
            let right = match r {
                None => vec![Value::Null],
                Some((r, true)) => self.unwrapped(r, at)?,
                Some((r, false)) => self.list(r, at)?,
            };
            Ok((left, right))
        });
        let (left, right) = match sides {
            Ok(sides) => sides,
            Err(Halt::Data(_)) => return Ok(Truth::Unknown),
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
    fn matches(&self, v: &Value, pattern: &str, flags: &str) -> Run<Truth> {
        let Value::String(s) = v else { return Ok(Truth::Unknown) };
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
            Err(e) => Err(Halt::Hard(e)),
        }
    }

    /// The steps from an item on. `unwrap`: an array stands for its elements where the step wants none.
    fn steps(&self, steps: &[Step], v: &Value, at: At<'_>, unwrap: bool, sink: &mut Sink<'_>) -> Run<()> {
        step(UNITS_OF_ITEM)?;
        let Some((step, rest)) = steps.split_first() else { return sink(v.clone()) };
        let takes_arrays = match step {
            Step::AnyArray | Step::Index(_) | Step::Any(..) => true,
            Step::Method(name, _) => matches!(name.as_str(), "type" | "size"),
            Step::Key(_) | Step::AnyKey | Step::Filter(_) => false,
        };
        if let (Value::Array(list), true, false) = (v, unwrap, takes_arrays) {
            return list.iter().try_for_each(|v| self.steps(steps, v, at, false, sink));
        }
        let next = |v: &Value, at: At<'_>, sink: &mut Sink<'_>| self.steps(rest, v, at, self.lax, sink);
        match step {
            Step::Key(key) => match (v, v.get(key)) {
                (_, Some(found)) => next(found, at, sink),
                _ if at.forgiving => Ok(()),
                (Value::Object(_), None) => {
                    data(sqlstate::SQL_JSON_MEMBER_NOT_FOUND, format!("JSON object does not contain key \"{key}\""))
                }
                _ => data(
                    sqlstate::SQL_JSON_MEMBER_NOT_FOUND,
                    "jsonpath member accessor can only be applied to an object",
                ),
            },
            Step::AnyKey => match v {
                Value::Object(list) => list.iter().try_for_each(|(_, v)| next(v, at, sink)),
                _ if at.forgiving => Ok(()),
                _ => data(
                    sqlstate::SQL_JSON_OBJECT_NOT_FOUND,
                    "jsonpath wildcard member accessor can only be applied to an object",
                ),
            },
            Step::AnyArray => match v {
                Value::Array(list) => list.iter().try_for_each(|v| next(v, at, sink)),
                v if self.lax => next(v, at, sink),
                _ if at.forgiving => Ok(()),
                _ => data(
                    sqlstate::SQL_JSON_ARRAY_NOT_FOUND,
                    "jsonpath wildcard array accessor can only be applied to an array",
                ),
            },
            Step::Index(list) => self.elements(list, v, at, &mut |v| next(v, at, sink)),
            Step::Any(first, last) => {
                let at = At { forgiving: true, ..at };
                if *first == Some(0) {
                    next(v, at, sink)?;
                }
                self.descend(v, 1, (*first, *last), &mut |v| next(v, at, sink))
            }
            Step::Filter(condition) => match self.truth(condition, At { current: v, ..at })? {
                Truth::True => next(v, at, sink),
                _ => Ok(()),
            },
            Step::Method(name, args) => {
                let result = super::path_method::call(name, args, v, self.lax || at.forgiving, self.eval).map_err(
                    |e| match e.sqlstate() {
                        sqlstate::FEATURE_NOT_SUPPORTED => Halt::Hard(e),
                        _ if e.is_interruption() => Halt::Hard(e),
                        _ => Halt::Data(e),
                    },
                )?;
                next(&result, at, sink)
            }
        }
    }

    fn descend(
        &self,
        v: &Value,
        level: u32,
        range: (Option<u32>, Option<u32>),
        sink: &mut dyn FnMut(&Value) -> Run<()>,
    ) -> Run<()> {
        let (first, last) = (range.0.unwrap_or(u32::MAX), range.1.unwrap_or(u32::MAX));
        if level > last {
            return Ok(());
        }
        let children: Vec<&Value> = match v {
            Value::Array(list) => list.iter().collect(),
            Value::Object(list) => list.iter().map(|p| &p.1).collect(),
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
        list: &[(Expr, Option<Expr>)],
        v: &Value,
        at: At<'_>,
        sink: &mut dyn FnMut(&Value) -> Run<()>,
    ) -> Run<()> {
        let one = std::slice::from_ref(v);
        let items: &[Value] = match v {
            Value::Array(items) => items,
            _ if self.lax => one,
            _ => {
                return data(
                    sqlstate::SQL_JSON_ARRAY_NOT_FOUND,
                    "jsonpath array accessor can only be applied to an array",
                );
            }
        };
        let inner = At { length: Some(items.len()), ..at };
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
    fn index(&self, e: &Expr, _: &Value, at: At<'_>) -> Run<i64> {
        match self.list(e, at)?.as_slice() {
            [Value::Number(n)] => match n.trunc_to(0).to_i64().filter(|i| i32::try_from(*i).is_ok()) {
                Some(i) => Ok(i),
                None => data(sqlstate::INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is out of integer range"),
            },
            _ => data(sqlstate::INVALID_SQL_JSON_SUBSCRIPT, "jsonpath array subscript is not a single numeric value"),
        }
    }
}

fn compare(op: Op, a: &Value, b: &Value) -> Truth {
    let known = |b: bool| if b { Truth::True } else { Truth::False };
    if op == Op::StartsWith {
        return match (a, b) {
            (Value::String(a), Value::String(b)) => known(a.starts_with(b.as_str())),
            _ => Truth::Unknown,
        };
    }
    let order = match (a, b) {
        (Value::Null, Value::Null) => std::cmp::Ordering::Equal,
        (Value::Null, _) | (_, Value::Null) => return known(op == Op::Ne),
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Number(a), Value::Number(b)) => a.cmp(b),
        // In the order of UTF-16, as the standard has it.
        (Value::String(a), Value::String(b)) => a.encode_utf16().cmp(b.encode_utf16()),
        _ => return Truth::Unknown,
    };
    known(match op {
        Op::Eq => order.is_eq(),
        Op::Ne => order.is_ne(),
        Op::Lt => order.is_lt(),
        Op::Gt => order.is_gt(),
        Op::Le => order.is_le(),
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
        let document = Value::parse(&format!("[{}1]", "0, ".repeat(count))).unwrap();
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
