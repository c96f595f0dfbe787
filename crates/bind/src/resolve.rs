//! Which function or operator a name means for given argument types.

use super::Binder;
use super::coerce::is_polymorphic;
use super::ir::*;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::{CastContext, FunctionInfo, OperatorInfo};
use kilndb_types::oids;
use std::sync::Arc;

/// One way to call one function: `order[i]` is the parameter that the i-th given argument goes to.
#[derive(Clone)]
pub(crate) struct Candidate {
    pub info: Arc<FunctionInfo>,
    pub args: Vec<Oid>,
    pub order: Vec<usize>,
    /// How many given arguments are gathered into the VARIADIC array; 0: none.
    pub variadic_count: usize,
    pub defaults_used: bool,
}

impl Candidate {
    /// The call of a plain function. `is_variadic`: VARIADIC was written before the last argument.
    pub fn call(&self, args: Vec<Expr>, is_variadic: bool, ty: Oid) -> Expr {
        let info = &self.info;
        let func = FuncExpr {
            oid: info.oid,
            name: info.name.as_str().into(),
            args,
            strict: info.strict,
            volatility: info.volatility,
            returns_set: info.returns_set,
            form: FuncForm::Call,
            operator: 0,
            variadic: self.variadic_count > 0 || is_variadic,
            internal: info.language == "internal",
            expected: None,
        };
        Expr::new(ExprKind::Func(Box::new(func)), ty)
    }
}

pub(crate) enum CandidateChoice<T> {
    One(T),
    None,
    Ambiguous,
}

impl Binder<'_> {
    /// PostgreSQL's rules for choosing among candidates that all can be called.
    fn select_candidate(&self, types: &[Oid], candidates: Vec<(usize, &[Oid])>) -> Option<usize> {
        let base: Vec<Oid> = types.iter().map(|t| self.base_type(*t)).collect();
        let known = |i: usize| base[i] != oids::UNKNOWN;
        let unknowns = base.iter().filter(|t| **t == oids::UNKNOWN).count();
        let keep_best = |list: Vec<(usize, &[Oid])>, score: &dyn Fn(&[Oid]) -> usize| -> Vec<(usize, Vec<Oid>)> {
            let best = list.iter().map(|c| score(c.1)).max().unwrap_or(0);
            list.into_iter().filter(|c| score(c.1) == best).map(|c| (c.0, c.1.to_vec())).collect()
        };
        let left = keep_best(candidates, &|args| (0..args.len()).filter(|i| known(*i) && args[*i] == base[*i]).count());
        if let [one] = left.as_slice() {
            return Some(one.0);
        }
        let categories: Vec<u8> = base.iter().map(|t| self.category(*t).0).collect();
        let refs = left.iter().map(|c| (c.0, c.1.as_slice())).collect();
        let mut left = keep_best(refs, &|args| {
            (0..args.len())
                .filter(|i| {
                    known(*i)
                        && (args[*i] == base[*i] || {
                            let (c, p) = self.category(args[*i]);
                            p && c == categories[*i]
                        })
                })
                .count()
        });
        if let [one] = left.as_slice() {
            return Some(one.0);
        }
        if unknowns == 0 {
            return None;
        }
        // Categories for the unknown positions.
        let mut slots: Vec<Option<(u8, bool)>> = vec![None; base.len()];
        let mut resolved = true;
        for (i, slot) in slots.iter_mut().enumerate() {
            if known(i) {
                continue;
            }
            let mut category: Option<u8> = None;
            let mut preferred = false;
            let mut conflict = false;
            for c in &left {
                let (cc, p) = self.category(c.1[i]);
                match category {
                    None => (category, preferred) = (Some(cc), p),
                    Some(have) if have == cc => preferred |= p,
                    Some(_) if cc == b'S' => (category, preferred) = (Some(cc), p),
                    Some(b'S') => {}
                    Some(_) => conflict = true,
                }
            }
            if conflict && category != Some(b'S') {
                resolved = false;
                break;
            }
            *slot = category.map(|c| (c, preferred));
        }
        if resolved {
            let accepts = |args: &[Oid]| {
                (0..args.len()).all(|i| match slots[i] {
                    None => true,
                    Some((category, preferred)) => {
                        let (c, p) = self.category(args[i]);
                        c == category && (!preferred || p)
                    }
                })
            };
            let kept: Vec<_> = left.iter().filter(|c| accepts(&c.1)).cloned().collect();
            if !kept.is_empty() {
                left = kept;
            }
            if let [one] = left.as_slice() {
                return Some(one.0);
            }
        }
        // Assume that unknowns are what all known ones are.
        if unknowns < base.len() {
            let mut same: Option<Oid> = None;
            for t in base.iter().filter(|t| **t != oids::UNKNOWN) {
                match same {
                    None => same = Some(*t),
                    Some(s) if s == *t => {}
                    Some(_) => return None,
                }
            }
            let same = same?;
            let fits: Vec<_> =
                left.iter().filter(|c| self.matches(&vec![same; c.1.len()], &c.1).unwrap_or(false)).collect();
            if let [one] = fits.as_slice() {
                return Some(one.0);
            }
        }
        None
    }

    fn matches(&self, types: &[Oid], declared: &[Oid]) -> Result<bool> {
        for (t, d) in types.iter().zip(declared) {
            if !self.can_coerce(*t, *d, CastContext::Implicit)? || !self.polymorphic_fits(*t, *d) {
                return Ok(false);
            }
        }
        // All anyelement/anyarray uses must agree.
        let (mut element, mut range) = (0, 0);
        for (t, d) in types.iter().zip(declared) {
            if matches!(*d, oids::ANYRANGE | oids::ANYMULTIRANGE) && *t != oids::UNKNOWN {
                let r = self.range_type(*t).map_or(0, |r| r.oid);
                if range != 0 && range != r {
                    return Ok(false);
                }
                range = r;
            }
            let e = match *d {
                oids::ANYELEMENT | oids::ANYNONARRAY | oids::ANYENUM if *t != oids::UNKNOWN => *t,
                oids::ANYARRAY if *t != oids::UNKNOWN => self.element_of(*t),
                oids::ANYRANGE | oids::ANYMULTIRANGE if *t != oids::UNKNOWN => {
                    self.range_type(*t).map_or(0, |r| r.subtype)
                }
                _ => continue,
            };
            if element != 0 && element != e {
                return Ok(false);
            }
            element = e;
        }
        Ok(self.compatible_fits(types, declared))
    }

    /// Do the anycompatible arguments (and arrays' elements) have a common type?
    fn compatible_fits(&self, types: &[Oid], declared: &[Oid]) -> bool {
        let mut members: Vec<Expr> = Vec::new();
        let mut non_array = false;
        let mut range: Option<kilndb_types::range::RangeType> = None;
        for (t, d) in types.iter().zip(declared) {
            non_array |= *d == oids::ANYCOMPATIBLENONARRAY;
            let member = match *d {
                oids::ANYCOMPATIBLE | oids::ANYCOMPATIBLENONARRAY => *t,
                oids::ANYCOMPATIBLEARRAY => self.element_of(self.base_type(*t)),
                oids::ANYCOMPATIBLERANGE | oids::ANYCOMPATIBLEMULTIRANGE if *t != oids::UNKNOWN => {
                    let this = self.range_type(*t);
                    if range.is_some() && range != this {
                        return false;
                    }
                    range = this;
                    this.map_or(0, |r| r.subtype)
                }
                _ => continue,
            };
            if member != oids::UNKNOWN && member != 0 {
                members.push(Expr::null(member));
            }
        }
        if members.len() < 2 {
            return true;
        }
        let refs: Vec<&Expr> = members.iter().collect();
        match self.common_type(&refs, "arguments") {
            Ok(common) => {
                let castable = |m: &Expr| self.can_coerce(m.ty, common, CastContext::Implicit).unwrap_or(false);
                members.iter().all(castable)
                    && range.is_none_or(|r| r.subtype == common)
                    && !(non_array && self.element_of(common) != 0)
            }
            Err(_) => false,
        }
    }

    fn polymorphic_fits(&self, actual: Oid, declared: Oid) -> bool {
        if actual == oids::UNKNOWN {
            return true;
        }
        match declared {
            oids::ANYARRAY | oids::ANYCOMPATIBLEARRAY => actual == oids::ANYARRAY || self.element_of(actual) != 0,
            oids::ANYNONARRAY | oids::ANYCOMPATIBLENONARRAY => self.element_of(actual) == 0,
            oids::ANYENUM => self.catalog.type_by_oid(actual).ok().flatten().is_some_and(|t| t.kind == b'e'),
            oids::ANYRANGE | oids::ANYCOMPATIBLERANGE => self.range_of(actual).is_some(),
            oids::ANYMULTIRANGE | oids::ANYCOMPATIBLEMULTIRANGE => self.multirange_of(actual).is_some(),
            _ => true,
        }
    }

    fn select<T>(&self, types: &[Oid], list: Vec<T>, args: impl Fn(&T) -> &[Oid]) -> Result<CandidateChoice<T>> {
        let mut fits = Vec::new();
        for c in list {
            if self.matches(types, args(&c))? {
                fits.push(c);
            }
        }
        if fits.len() <= 1 {
            return Ok(fits.pop().map_or(CandidateChoice::None, CandidateChoice::One));
        }
        let view = fits.iter().enumerate().map(|(i, c)| (i, args(c))).collect();
        Ok(match self.select_candidate(types, view) {
            Some(i) => CandidateChoice::One(fits.swap_remove(i)),
            None => CandidateChoice::Ambiguous,
        })
    }

    /// The operator for operand types; `left` None: prefix.
    pub(crate) fn find_operator(
        &self,
        schema: Option<&str>,
        name: &str,
        left: Option<Oid>,
        right: Oid,
        loc: i32,
    ) -> Result<Arc<OperatorInfo>> {
        match self.try_operator(schema, name, left, right)? {
            CandidateChoice::One(o) => {
                self.note_operator(schema, &o, loc);
                Ok(o)
            }
            other => {
                let shown = schema.map_or_else(|| name.to_string(), |s| format!("{s}.{name}"));
                let signature = match left {
                    Some(l) => format!("{} {shown} {}", self.type_name(l), self.type_name(right)),
                    None => format!("{shown} {}", self.type_name(right)),
                };
                let ambiguous = matches!(other, CandidateChoice::Ambiguous);
                let e = if ambiguous {
                    Error::new(sqlstate::AMBIGUOUS_FUNCTION, format!("operator is not unique: {signature}")).with_hint(
                        "Could not choose a best candidate operator. You might need to add explicit type casts.",
                    )
                } else {
                    Error::new(sqlstate::UNDEFINED_FUNCTION, format!("operator does not exist: {signature}")).with_hint(
                        if left.is_some() {
                            "No operator matches the given name and argument types. You might need to add explicit type casts."
                        } else {
                            "No operator matches the given name and argument type. You might need to add an explicit type cast."
                        },
                    )
                };
                Err(self.at(e, loc))
            }
        }
    }

    pub(crate) fn try_operator(
        &self,
        schema: Option<&str>,
        name: &str,
        left: Option<Oid>,
        right: Oid,
    ) -> Result<CandidateChoice<Arc<OperatorInfo>>> {
        let all = self.catalog.operators(schema, name)?;
        if let Some(left) = left {
            let (mut l, mut r) = (left, right);
            if l == oids::UNKNOWN && r != 0 {
                l = r;
            } else if r == oids::UNKNOWN {
                r = l;
            }
            if let Some(o) = all.iter().find(|o| o.left == l && o.right == r) {
                return Ok(CandidateChoice::One(o.clone()));
            }
            // An unknown beside a domain takes the domain's base type.
            if left == oids::UNKNOWN || right == oids::UNKNOWN {
                let base = self.base_type(l);
                if base != l
                    && let Some(o) = all.iter().find(|o| o.left == base && o.right == base)
                {
                    return Ok(CandidateChoice::One(o.clone()));
                }
            }
            let list: Vec<_> = all.into_iter().filter(|o| o.left != 0).map(|o| ([o.left, o.right], o)).collect();
            Ok(match self.select(&[left, right], list, |c| &c.0)? {
                CandidateChoice::One(c) => CandidateChoice::One(c.1),
                CandidateChoice::None => CandidateChoice::None,
                CandidateChoice::Ambiguous => CandidateChoice::Ambiguous,
            })
        } else {
            if let Some(o) = all.iter().find(|o| o.left == 0 && o.right == right) {
                return Ok(CandidateChoice::One(o.clone()));
            }
            let list: Vec<_> = all.into_iter().filter(|o| o.left == 0).map(|o| ([o.right], o)).collect();
            Ok(match self.select(&[right], list, |c| &c.0)? {
                CandidateChoice::One(c) => CandidateChoice::One(c.1),
                CandidateChoice::None => CandidateChoice::None,
                CandidateChoice::Ambiguous => CandidateChoice::Ambiguous,
            })
        }
    }

    /// A call of an operator, arguments coerced.
    pub fn make_operator(
        &self,
        schema: Option<&str>,
        name: &str,
        left: Option<Expr>,
        right: Expr,
        loc: i32,
    ) -> Result<Expr> {
        let op = self.find_operator(schema, name, left.as_ref().map(|l| l.ty), right.ty, loc)?;
        let (args, declared) = match left {
            Some(l) => (vec![l, right], vec![op.left, op.right]),
            None => (vec![right], vec![op.right]),
        };
        self.operator_call(&op, args, declared, loc)
    }

    pub(crate) fn operator_call(
        &self,
        op: &OperatorInfo,
        args: Vec<Expr>,
        declared: Vec<Oid>,
        loc: i32,
    ) -> Result<Expr> {
        let Some(info) = self.catalog.function_by_oid(op.function)? else {
            return Err(Error::internal(format!("function {} of operator {} is missing", op.function, op.name)));
        };
        let mut declared = declared;
        let ty = self.resolve_polymorphic(&args, &mut declared, op.result).map_err(|e| self.at(e, loc))?;
        let args = args
            .into_iter()
            .zip(&declared)
            .map(|(a, d)| self.coerce(a, *d, CastContext::Implicit))
            .collect::<Result<Vec<_>>>()?;
        let func = FuncExpr {
            oid: op.function,
            name: op.name.as_str().into(),
            args,
            strict: info.strict,
            volatility: info.volatility,
            returns_set: info.returns_set,
            form: FuncForm::Operator,
            operator: op.oid,
            variadic: false,
            internal: info.language == "internal",
            expected: None,
        };
        Ok(Expr::new(ExprKind::Func(Box::new(func)), ty).at(loc))
    }

    /// The ways to call `name` with these arguments.
    pub(crate) fn candidates(
        &self,
        schema: Option<&str>,
        name: &str,
        count: usize,
        names: &[Option<String>],
        variadic_call: bool,
    ) -> Result<Vec<Candidate>> {
        self.candidates_of(self.catalog.functions(schema, name)?, count, names, variadic_call)
    }

    /// The candidates as [`Binder::candidates`] finds them, out of functions that are at hand.
    pub(crate) fn candidates_of(
        &self,
        known: Vec<Arc<FunctionInfo>>,
        count: usize,
        names: &[Option<String>],
        variadic_call: bool,
    ) -> Result<Vec<Candidate>> {
        let mut out: Vec<Candidate> = Vec::new();
        for info in known {
            let params = info.arg_types.len();
            let positional = names.iter().filter(|n| n.is_none()).count();
            let has_named = positional < names.len();
            let variadic = info.variadic != 0 && !variadic_call && !has_named;
            if !has_named && count == params {
                // VARIADIC functions called with an array only do so by the keyword, except for "any".
                if !(variadic && info.variadic != oids::ANY) && !(variadic_call && info.variadic == 0) {
                    out.push(Candidate {
                        args: info.arg_types.clone(),
                        order: (0..count).collect(),
                        variadic_count: 0,
                        defaults_used: false,
                        info: info.clone(),
                    });
                    continue;
                }
            }
            if variadic && count + 1 >= params && params > 0 {
                let fixed = params - 1;
                if count >= fixed {
                    let gathered = count - fixed;
                    if gathered == 0 && info.defaults.is_empty() {
                        if info.variadic != oids::ANY { /* no element: only callable with a default */ }
                        continue;
                    }
                    let mut args: Vec<Oid> = info.arg_types[..fixed].to_vec();
                    args.extend(std::iter::repeat_n(info.variadic, gathered));
                    let order = (0..count).collect();
                    let n = if info.variadic == oids::ANY { 0 } else { gathered };
                    out.push(Candidate { args, order, variadic_count: n, defaults_used: false, info: info.clone() });
                    continue;
                }
            }
            if variadic_call && info.variadic == 0 {
                continue;
            }
            if count <= params && params - count <= info.defaults.len() || has_named && count <= params {
                let first_default = params - info.defaults.len().min(params);
                let mut order: Vec<usize> = Vec::with_capacity(count);
                let mut ok = true;
                for (i, n) in names.iter().enumerate().take(count) {
                    let position = match n {
                        None => Some(i),
                        Some(n) => input_names(&info).iter().position(|p| p == n),
                    };
                    match position {
                        Some(p) if !order.contains(&p) && p < params => order.push(p),
                        _ => ok = false,
                    }
                }
                if !ok || (0..params).any(|p| !order.contains(&p) && p < first_default) {
                    continue;
                }
                let args = order.iter().map(|p| info.arg_types[*p]).collect();
                out.push(Candidate {
                    args,
                    order,
                    variadic_count: 0,
                    defaults_used: count < params,
                    info: info.clone(),
                });
            }
        }
        // Among candidates of the same argument types, the earlier schema wins, then the plain over the variadic form,
        // then the one that needs no defaults.
        let mut kept: Vec<Candidate> = Vec::new();
        for c in out {
            match kept.iter_mut().find(|k| k.args == c.args && k.info.kind == c.info.kind) {
                Some(k) => {
                    let better =
                        (c.variadic_count == 0 && k.variadic_count > 0) || (!c.defaults_used && k.defaults_used);
                    if better {
                        *k = c;
                    }
                }
                None => kept.push(c),
            }
        }
        Ok(kept)
    }

    pub(crate) fn choose_function(&self, types: &[Oid], list: Vec<Candidate>) -> Result<CandidateChoice<Candidate>> {
        if let Some(c) = list.iter().find(|c| c.args == types && !c.args.iter().any(|t| is_polymorphic(*t))) {
            return Ok(CandidateChoice::One(c.clone()));
        }
        self.select(types, list, |c| &c.args)
    }
}

/// Names of the input parameters, in order.
pub(super) fn input_names(info: &FunctionInfo) -> Vec<String> {
    if info.arg_modes.is_empty() {
        return info.arg_names.clone();
    }
    info.arg_names
        .iter()
        .zip(&info.arg_modes)
        .filter(|(_, m)| matches!(m, b'i' | b'b' | b'v'))
        .map(|(n, _)| n.clone())
        .collect()
}
