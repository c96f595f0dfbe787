//! Compiles bound expressions to expression programs.

use super::Planner;
use super::exists_table::PlannedExistsTable;
use super::expression::RoutineCall;
use super::expression::{CExpr, CSubscript, ExistsTable, Expression, RowComparison, ScalarCall};
use super::expression::{SubPlanKind, SubPlanUse};
use kilndb_base::{Error, Oid, Result};
use kilndb_bind::collation::of_arguments;
use kilndb_bind::ir::*;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_types::functions::descriptor::{IntOp, IntWidth, Support};
use kilndb_types::functions::{self, FunctionKind, ScalarFn};
use kilndb_types::io::is_reg_type;
use kilndb_types::types::{HeldAs, KeySubscript};
use kilndb_types::{Datum, cast, oids};
use std::sync::Arc;

/// The columns of the row that an expression is evaluated over. It is searched from the front.
#[derive(Clone, Debug, Default)]
pub struct Layout(pub Vec<ColId>);

impl Layout {
    pub fn find(&self, c: ColId) -> Option<usize> {
        self.0.iter().position(|x| *x == c)
    }
    pub fn join(&self, other: &Layout) -> Layout {
        Layout(self.0.iter().chain(&other.0).copied().collect())
    }
}

/// The comparison of integers that a function is.
pub fn int_compare(oid: Oid) -> Option<IntOp> {
    match functions::support(oid) {
        Support::CompareIntegers(op) => Some(op),
        _ => None,
    }
}

fn is_int(ty: Oid) -> bool {
    matches!(ty, oids::INT2 | oids::INT4 | oids::INT8)
}

/// The subplan of a subquery that depends on columns outside of it.
#[derive(Clone)]
pub(crate) struct CorrelatedSubplan {
    /// Which sub-link it is of, and its query then: rewriting gives copies of one sub-link queries of their own.
    sublink: u32,
    query: SharedQuery,
    index: usize,
    width: usize,
    /// The WITH queries inside of it that depend on something outside of themselves.
    ctes: Vec<usize>,
    /// What it becomes if it is run for many rows.
    table: Option<PlannedExistsTable>,
}

impl Planner<'_> {
    pub fn compile(&self, e: &Expr, layout: &Layout) -> Result<CExpr> {
        kilndb_base::stack::check()?;
        Ok(match &e.kind {
            ExprKind::Const(d) => CExpr::Const(d.clone()),
            ExprKind::Param(n) => CExpr::Param(*n as usize),
            ExprKind::Column(c) => match layout.find(*c) {
                Some(i) => CExpr::Slot(i),
                None => CExpr::ExecParam(self.exec_param(*c)),
            },
            ExprKind::Func(f) => self.compile_func(f, e, layout)?,
            ExprKind::Cast { arg, kind, explicit } => self.compile_cast(e, arg, *kind, *explicit, layout)?,
            ExprKind::And(l) => CExpr::And(self.compile_all(l, layout)?),
            ExprKind::Or(l) => CExpr::Or(self.compile_all(l, layout)?),
            ExprKind::Not(a) => CExpr::Not(Box::new(self.compile(a, layout)?)),
            ExprKind::IsNull { arg, negated } => {
                let row =
                    matches!(arg.kind, ExprKind::Row { .. }) || arg.ty == oids::RECORD || self.is_composite(arg.ty);
                CExpr::IsNull { arg: Box::new(self.compile(arg, layout)?), negated: *negated, row }
            }
            ExprKind::BoolTest { arg, test } => {
                CExpr::BoolTest { arg: Box::new(self.compile(arg, layout)?), test: *test }
            }
            ExprKind::IsDistinct { .. } | ExprKind::NullIf(_) | ExprKind::ScalarArray { .. }
                if !e.collation.collation.is_deterministic() =>
            {
                self.compile_by_rules(e, layout)?
            }
            ExprKind::IsDistinct { eq, negated } => {
                let [l, r] = self.two(&eq.args, layout)?;
                CExpr::IsDistinct { left: Box::new(l), right: Box::new(r), eq: self.function(eq)?, negated: *negated }
            }
            ExprKind::NullIf(eq) => {
                CExpr::NullIf { eq: self.function(eq)?, args: Box::new(self.two(&eq.args, layout)?) }
            }
            ExprKind::Case { arg, whens, otherwise } => {
                let arg = match arg {
                    Some(a) => Some(Box::new(self.compile(a, layout)?)),
                    None => None,
                };
                let whens = whens
                    .iter()
                    .map(|(w, t)| Ok((self.compile(w, layout)?, self.compile(t, layout)?)))
                    .collect::<Result<Vec<_>>>()?;
                let otherwise = match otherwise {
                    Some(o) => self.compile(o, layout)?,
                    None => CExpr::Const(Datum::Null),
                };
                CExpr::Case { arg, whens: whens.into(), otherwise: Box::new(otherwise) }
            }
            ExprKind::CaseArg => CExpr::CaseArg,
            ExprKind::Coalesce(l) => match self.compile_all(l, layout)? {
                // Arguments behind a constant that is not NULL are never evaluated.
                list if matches!(list.first(), Some(CExpr::Const(d)) if !d.is_null()) => list.into_vec().swap_remove(0),
                list => CExpr::Coalesce(list),
            },
            ExprKind::MinMax { greatest, args } => {
                CExpr::MinMax { ty: self.compared_type(e)?, greatest: *greatest, args: self.compile_all(args, layout)? }
            }
            ExprKind::Array { elements, element_type, multidim } => {
                let args = self.compile_all(elements, layout)?;
                let c = CExpr::Array { element: *element_type, multidim: *multidim, args };
                self.constant_array(c)
            }
            ExprKind::Row { fields, names } => CExpr::Row {
                names: (e.ty == oids::RECORD && !names.is_empty()).then(|| Arc::from(names.as_slice())),
                ty: e.ty,
                types: fields.iter().map(|f| if f.ty == oids::UNKNOWN { oids::TEXT } else { f.ty }).collect(),
                args: self.compile_all(fields, layout)?,
            },
            ExprKind::Field { arg, index, .. } => {
                CExpr::Field { index: *index, arg: Box::new(self.compile(arg, layout)?) }
            }
            ExprKind::Subscript { arg, subscripts, .. } | ExprKind::SubscriptAssign { arg, subscripts, .. }
                if self.key_subscript(arg.ty).is_some() =>
            {
                self.compile_key_subscript(e, arg, subscripts, layout)?
            }
            ExprKind::Subscript { arg, subscripts, slice } => {
                let subs = self.compile_subscripts(subscripts, layout)?;
                let inner = Box::new(self.compile(arg, layout)?);
                if self.base_type(arg.ty) == oids::JSONB {
                    CExpr::JsonSubscript { arg: inner, subs }
                } else {
                    CExpr::Subscript { arg: inner, subs, slice: *slice }
                }
            }
            ExprKind::SubscriptAssign { arg, subscripts, value, .. } if self.base_type(arg.ty) == oids::JSONB => {
                CExpr::JsonSubscriptAssign {
                    arg: Box::new(self.compile(arg, layout)?),
                    subs: self.compile_subscripts(subscripts, layout)?,
                    value: Box::new(self.compile(value, layout)?),
                }
            }
            ExprKind::SubscriptAssign { arg, subscripts, slice, value } => CExpr::SubscriptAssign {
                element: self.element_type(e.ty),
                arg: Box::new(self.compile(arg, layout)?),
                subs: self.compile_subscripts(subscripts, layout)?,
                slice: *slice,
                value: Box::new(self.compile(value, layout)?),
            },
            ExprKind::FieldAssign { arg, index, value, types, .. } => CExpr::FieldAssign {
                ty: e.ty,
                types: types.clone().into(),
                index: *index,
                arg: Box::new(self.compile(arg, layout)?),
                value: Box::new(self.compile(value, layout)?),
            },
            ExprKind::ScalarArray { func, any } => self.compile_scalar_array(e, func, *any, layout)?,
            ExprKind::RowCompare { kind, left, right } => CExpr::RowCompare(Box::new(RowComparison {
                kind: *kind,
                types: left.iter().zip(right).map(|(l, r)| self.pair_type(l, r)).collect::<Result<_>>()?,
                left: self.compile_all(left, layout)?,
                right: self.compile_all(right, layout)?,
            })),
            ExprKind::SubLink(s) => self.compile_sublink(s, e.ty, layout)?,
            ExprKind::SqlValue(v) => CExpr::SqlValue(*v),
            ExprKind::Collate { arg, .. } => self.compile(arg, layout)?,
            ExprKind::MergeAction => return Err(Error::internal("merge_action() outside of a MERGE's RETURNING")),
            ExprKind::Agg(a) => return Err(Error::unsupported(format!("aggregate {} in this place", a.name))),
            ExprKind::Window(w) => return Err(Error::unsupported(format!("window function {} in this place", w.name))),
            ExprKind::Grouping(_) => return Err(Error::unsupported("GROUPING in this place")),
            ExprKind::Default => {
                return Err(Error::new(kilndb_base::sqlstate::SYNTAX_ERROR, "DEFAULT is not allowed in this context"));
            }
            ExprKind::CurrentOf(_) => return Err(Error::unsupported("WHERE CURRENT OF")),
        })
    }

    /// As [`Planner::compile`], for an expression that is no part of another one.
    pub(crate) fn expression(&self, e: &Expr, layout: &Layout) -> Result<Expression> {
        self.compile(e, layout).map(Expression::from)
    }

    pub(crate) fn compile_all(&self, list: &[Expr], layout: &Layout) -> Result<Box<[CExpr]>> {
        list.iter().map(|e| self.compile(e, layout)).collect()
    }

    fn two(&self, list: &[Expr], layout: &Layout) -> Result<[CExpr; 2]> {
        match list {
            [a, b] => Ok([self.compile(a, layout)?, self.compile(b, layout)?]),
            _ => Err(Error::internal("comparison without two sides")),
        }
    }

    /// How values of the type are subscripted by keys.
    fn key_subscript(&self, container: Oid) -> Option<&'static KeySubscript> {
        kilndb_types::types::descriptor(self.base_type(container)).and_then(|ty| ty.subscript)
    }

    #[inline(never)]
    fn compile_key_subscript(&self, e: &Expr, arg: &Expr, list: &[Subscript], layout: &Layout) -> Result<CExpr> {
        let (Some(by), [Subscript { upper: Some(key), .. }]) = (self.key_subscript(arg.ty), list) else {
            return Err(Error::internal("subscripts by key of another number"));
        };
        let (arg, key) = (Box::new(self.compile(arg, layout)?), Box::new(self.compile(key, layout)?));
        Ok(match &e.kind {
            ExprKind::SubscriptAssign { value, .. } => {
                CExpr::KeySubscriptAssign { by, arg, key, value: Box::new(self.compile(value, layout)?) }
            }
            _ => CExpr::KeySubscript { by, arg, key },
        })
    }

    fn compile_subscripts(&self, list: &[Subscript], layout: &Layout) -> Result<Box<[CSubscript]>> {
        list.iter()
            .map(|s| {
                let one = |e: &Option<Expr>| e.as_ref().map(|e| self.compile(e, layout)).transpose();
                Ok(CSubscript { lower: one(&s.lower)?, upper: one(&s.upper)? })
            })
            .collect()
    }

    fn function(&self, f: &FuncExpr) -> Result<ScalarFn> {
        functions::lookup(f.oid).ok_or_else(|| Error::unsupported(format!("function {} is not supported", f.name)))
    }

    #[inline(never)]
    fn compile_func(&self, f: &FuncExpr, e: &Expr, layout: &Layout) -> Result<CExpr> {
        if f.returns_set {
            return Err(Error::unsupported("set-returning functions are not allowed in this place"));
        }
        if let ([l, r], Some(op)) = (f.args.as_slice(), int_compare(f.oid))
            && is_int(l.ty)
            && is_int(r.ty)
        {
            return Ok(CExpr::CompareInt { op, args: Box::new(self.two(&f.args, layout)?) });
        }
        if let Some(cast) = self.compile_cast_call(f, e.ty, -1, layout)? {
            return Ok(cast);
        }
        if e.collation.needs_care()
            && let Some(compiled) = self.compile_collated(f, e, layout)?
        {
            return Ok(compiled);
        }
        let mut args = self.compile_all(&f.args, layout)?;
        let mut strict = f.strict;
        let descriptor = functions::descriptor(f.oid);
        let support = descriptor.map_or(Support::Plain, |d| d.support);
        if support == Support::WantsTypes {
            args = Box::new([self.with_types(f, args)]);
            strict = false;
        } else if support == Support::ShowsArguments {
            args = self.shown_arguments(f, args);
            // VARIADIC NULL leaves nothing to show, but for format a text without arguments.
            strict |= f.variadic && f.oid != FORMAT;
        }
        if let Some(call) = self.range_constructor(f, e) {
            let (func, types) = call;
            let args = types.map(CExpr::Const).into_iter().chain(args).collect();
            return self.fold(CExpr::Call { call: ScalarCall::plain(func, f.strict), args }, false);
        }
        if let Some(call) = self.routine_call(f, e, false) {
            return Ok(CExpr::Routine { call, args });
        }
        let func = match descriptor.map(|d| d.kind) {
            Some(FunctionKind::Scalar(func)) => func,
            Some(FunctionKind::HashPartition) => {
                return Ok(CExpr::SatisfiesHash {
                    types: f.args.iter().map(|a| a.ty).collect(),
                    variadic: f.variadic,
                    args,
                });
            }
            kind => {
                let function = match kind {
                    Some(FunctionKind::Session(function)) => Some(function),
                    _ => None,
                };
                return Ok(CExpr::Session { function, name: f.name.clone(), strict: f.strict, args });
            }
        };
        let immutable = f.volatility == b'i' && support != Support::SessionZone;
        let call = scalar_call(f, func, strict);
        let c = match <Box<[CExpr; 1]>>::try_from(args) {
            Ok(one) => {
                let [arg] = *one;
                CExpr::Call1 { call, arg: Box::new(arg) }
            }
            Err(args) => match <Box<[CExpr; 2]>>::try_from(args) {
                Ok(two) => CExpr::Call2 { call, args: two },
                Err(args) => CExpr::Call { call, args },
            },
        };
        let c = if support == Support::MakesArray {
            CExpr::RetagArray { element: self.element_type(self.base_type(e.ty)), arg: Box::new(c) }
        } else {
            c
        };
        match (if immutable { self.fold(c, false)? } else { c }, support) {
            (CExpr::Call2 { call, args }, Support::IntegerArithmetic(op, width)) if call.strict => {
                let f = op.function(width).unwrap_or(call.f);
                Ok(CExpr::Arithmetic { op, wide: width == IntWidth::Int8, f, args })
            }
            (c, _) => Ok(c),
        }
    }

    /// One record of the arguments, for functions that ask what type they are of.
    fn with_types(&self, f: &FuncExpr, args: Box<[CExpr]>) -> CExpr {
        let type_of = |a: &Expr| match &a.kind {
            // A row keeps its type where any row will do.
            ExprKind::Cast { arg, kind: CastKind::Relabel, .. } if a.ty == oids::RECORD => arg.ty,
            _ if a.ty == oids::UNKNOWN => oids::TEXT,
            _ => a.ty,
        };
        let mut types: Vec<Oid> = f.args.iter().map(type_of).collect();
        let mut args = args.into_vec();
        if let Some(shape) = &f.expected {
            // The columns of a definition list: their modifiers, beside their types.
            let columns = &shape.columns;
            types.push(oids::RECORD);
            args.push(CExpr::Row {
                ty: oids::RECORD,
                types: columns.iter().map(|c| c.type_oid).collect(),
                args: columns.iter().map(|c| CExpr::Const(Datum::Int4(c.typmod))).collect(),
                names: Some(columns.iter().map(|c| c.name.clone()).collect()),
            });
        }
        let ty = if f.variadic { oids::ANYARRAY } else { oids::RECORD };
        CExpr::Row { ty, types: types.into(), args: args.into(), names: None }
    }

    /// The arguments of a function that shows them, as [`Support::ShowsArguments`] says.
    fn shown_arguments(&self, f: &FuncExpr, args: Box<[CExpr]>) -> Box<[CExpr]> {
        let last = args.len().saturating_sub(1);
        let shown = |(i, arg): (usize, CExpr)| {
            let from = self.base_type(f.args.get(i).map_or(oids::UNKNOWN, |a| a.ty));
            let element = self.base_type(self.element_type(from));
            if f.variadic && i == last && element != 0 {
                let (func, to) = (cast::lookup_cast(element, oids::TEXT), oids::TEXT);
                let list = match tells_its_type(element) {
                    true => arg,
                    false => CExpr::ArrayCast { from: element, to, func, explicit: true, arg: Box::new(arg) },
                };
                let none = CExpr::Const(kilndb_catalog::store::array(to, Vec::new()));
                return if f.oid == FORMAT { CExpr::Coalesce(Box::new([list, none])) } else { list };
            }
            if tells_its_type(from) {
                return arg;
            }
            match cast::lookup_cast(from, oids::TEXT) {
                Some(f) => CExpr::Cast { f, typmod: -1, explicit: true, vector: None, arg: Box::new(arg) },
                None => CExpr::InOut { from, to: oids::TEXT, typmod: -1, explicit: true, arg: Box::new(arg) },
            }
        };
        args.into_vec().into_iter().enumerate().map(shown).collect()
    }

    fn is_polymorphic(&self, function: Oid) -> bool {
        let polymorphic = kilndb_bind::is_polymorphic;
        self.catalog.function_by_oid(function).ok().flatten().is_some_and(|f| {
            polymorphic(f.return_type) || f.arg_types.iter().chain(&f.all_arg_types).any(|t| polymorphic(*t))
        })
    }

    /// A constructor of ranges or multiranges, and what tells it the type to make.
    fn range_constructor(&self, f: &FuncExpr, e: &Expr) -> Option<(ScalarFn, [Datum; 3])> {
        let ty = self.catalog.type_by_oid(self.base_type(e.ty)).ok().flatten()?.range?;
        let info = self.catalog.function_by_oid(f.oid).ok().flatten().filter(|info| info.language == "internal")?;
        Some((functions::range::constructor(&info.source)?, functions::range::type_arguments(ty)))
    }

    /// The call of a function that is not built in, or that runs statements.
    pub(crate) fn routine_call(&self, f: &FuncExpr, e: &Expr, spread: bool) -> Option<Arc<RoutineCall>> {
        (f.oid >= FIRST_USER_OID || functions::is_routine(f.oid)).then(|| {
            Arc::new(RoutineCall {
                oid: f.oid,
                name: f.name.clone(),
                strict: f.strict,
                returns_set: f.returns_set,
                argument_types: f.args.iter().map(|a| a.ty).collect(),
                collation: of_arguments(&f.args).oid,
                result_type: e.ty,
                is_polymorphic: self.is_polymorphic(f.oid),
                expected: f.expected.clone(),
                variadic: f.variadic,
                spread,
            })
        })
    }

    /// A call that stands for a cast.
    fn compile_cast_call(&self, f: &FuncExpr, to: Oid, typmod: i32, layout: &Layout) -> Result<Option<CExpr>> {
        if !matches!(f.form, FuncForm::ImplicitCast | FuncForm::ExplicitCast) {
            return Ok(None);
        }
        let Some((first, c)) = f.args.first().and_then(|first| Some((first, cast::lookup_cast(first.ty, to)?))) else {
            return Ok(None);
        };
        let arg = Box::new(self.compile(first, layout)?);
        let vector = functions::descriptor(f.oid).and_then(|d| d.vector);
        let explicit = f.form == FuncForm::ExplicitCast;
        let c = self.fold(CExpr::Cast { f: c, typmod, explicit, vector, arg }, true)?;
        Ok(Some(self.cast_once(c)))
    }

    /// Runs a call of constants now, if that succeeds without settings and catalogs.
    pub(super) fn fold(&self, c: CExpr, cast: bool) -> Result<CExpr> {
        let constant = |e: &CExpr| match e {
            CExpr::Const(d) => Some(d.clone()),
            _ => None,
        };
        let value = kilndb_catalog::value_host::with_context(self.catalog, |cx| match &c {
            CExpr::Call1 { call, arg } => {
                let a = [constant(arg)?];
                Some(if call.strict && a[0].is_null() { Ok(Datum::Null) } else { (call.f)(cx, &a) })
            }
            CExpr::Call2 { call, args } => {
                let a = [constant(&args[0])?, constant(&args[1])?];
                Some(if call.strict && a.iter().any(Datum::is_null) { Ok(Datum::Null) } else { (call.f)(cx, &a) })
            }
            CExpr::Call { call, args } => {
                let a: Vec<Datum> = args.iter().map(constant).collect::<Option<_>>()?;
                Some(if call.strict && a.iter().any(Datum::is_null) { Ok(Datum::Null) } else { (call.f)(cx, &a) })
            }
            CExpr::Cast { f, typmod, explicit, arg, .. } => {
                let a = constant(arg)?;
                let simple = matches!(
                    a,
                    Datum::Int2(_)
                        | Datum::Int4(_)
                        | Datum::Int8(_)
                        | Datum::Numeric(_)
                        | Datum::Float8(_)
                        | Datum::Float4(_)
                        | Datum::Bool(_)
                );
                if a.is_null() {
                    Some(Ok(Datum::Null))
                } else {
                    (simple && cast).then(|| f(&a, *typmod, *explicit, cx))
                }
            }
            _ => None,
        });
        match value {
            Some(Ok(value)) => Ok(CExpr::Const(value)),
            Some(Err(e)) if e.is_interruption() => Err(e),
            // Other errors are raised by the execution, which may never reach this call.
            _ => Ok(c),
        }
    }

    fn constant_array(&self, c: CExpr) -> CExpr {
        if let CExpr::Array { element, multidim: false, args } = &c {
            let values: Option<Vec<Datum>> =
                args.iter().map(|a| if let CExpr::Const(d) = a { Some(d.clone()) } else { None }).collect();
            if let Some(values) = values {
                return CExpr::Const(kilndb_catalog::store::array(*element, values));
            }
        }
        c
    }

    #[inline(never)]
    fn compile_cast(&self, e: &Expr, arg: &Expr, kind: CastKind, explicit: bool, layout: &Layout) -> Result<CExpr> {
        let (from, to) = (self.base_type(arg.ty), self.base_type(e.ty));
        let with_length = match &arg.kind {
            // The cast itself depends on the number of bits, so the call is left as it is.
            ExprKind::Func(f) if kind == CastKind::Typmod && to == oids::BIT => {
                self.compile_cast_call(f, to, e.typmod, layout)?
            }
            _ => None,
        };
        let boxed = Box::new(with_length.map_or_else(|| self.compile(arg, layout), Ok)?);
        Ok(match kind {
            CastKind::Relabel => {
                if matches!(to, oids::BPCHAR) && from != to || matches!((from, to), (oids::BPCHAR, _)) && from != to {
                    return Ok(match cast::lookup_cast(from, to) {
                        Some(f) => CExpr::Cast { f, typmod: -1, explicit, vector: None, arg: boxed },
                        None => *boxed,
                    });
                }
                // Variants differ for some binary-compatible pairs (integers and oids, for one).
                match cast::lookup_cast(from, to) {
                    Some(f) if !same_datum(from, to) => {
                        self.fold(CExpr::Cast { f, typmod: -1, explicit, vector: None, arg: boxed }, true)?
                    }
                    _ if self.is_composite(to) => CExpr::Retag { ty: to, arg: boxed },
                    // Elements are shown as what the array says that they are.
                    _ => match self.catalog.type_by_oid(to)?.map_or(0, |t| t.element) {
                        element if is_reg_type(element) && from != to => CExpr::RetagArray { element, arg: boxed },
                        _ => *boxed,
                    },
                }
            }
            CastKind::InOut => {
                let c = match cast::lookup_cast(from, to) {
                    Some(f) if from != oids::UNKNOWN => {
                        CExpr::Cast { f, typmod: -1, explicit, vector: None, arg: boxed }
                    }
                    _ => CExpr::InOut {
                        from,
                        to,
                        typmod: if to == oids::INTERVAL { e.typmod } else { -1 },
                        explicit,
                        arg: boxed,
                    },
                };
                self.cast_once(c)
            }
            CastKind::Typmod => {
                let element = self.element_type(to);
                if element != 0 {
                    CExpr::ArrayTypmod { element, typmod: e.typmod, explicit, arg: boxed }
                } else {
                    CExpr::Typmod { ty: to, typmod: e.typmod, explicit, arg: boxed }
                }
            }
            CastKind::Array if self.base_type(self.element_type(to)) != self.element_type(to) => {
                let element = self.element_type(to);
                let (base, typmod) = kilndb_catalog::user_types::shown_type(element, -1, self.catalog);
                let value = if typmod < 0 {
                    CExpr::Slot(0)
                } else {
                    CExpr::Typmod { ty: base, typmod, explicit, arg: Box::new(CExpr::Slot(0)) }
                };
                CExpr::ArrayMap { to: element, element: Box::new(self.compile_domain(element, value)?), arg: boxed }
            }
            CastKind::Array => {
                let (f, t) = (self.element_type(from), self.element_type(to));
                CExpr::ArrayCast { from: f, to: t, func: cast::lookup_cast(f, t), explicit, arg: boxed }
            }
            CastKind::Row => CExpr::Retag { ty: to, arg: boxed },
            CastKind::Domain => self.compile_domain(e.ty, *boxed)?,
        })
    }

    /// The conditions of a domain on `arg`.
    fn compile_domain(&self, domain: Oid, arg: CExpr) -> Result<CExpr> {
        use kilndb_bind::domain::{DomainCondition, VALUE_REL, conditions};
        let row = Layout(vec![ColId { rel: VALUE_REL, att: 1 }]);
        let (mut not_null, mut checks) = (false, Vec::new());
        for condition in conditions(domain, self.catalog)? {
            match condition {
                DomainCondition::NotNull => not_null = true,
                DomainCondition::Check(name, mut check) => {
                    super::inline::inline_in_expression(&mut check, self.catalog)?;
                    checks.push((name, self.compile(&check, &row)?));
                }
            }
        }
        if !not_null && checks.is_empty() {
            return Ok(arg);
        }
        let name = self.catalog.format_type(domain, -1).into();
        Ok(CExpr::Domain { name, not_null, checks: checks.into(), arg: Box::new(arg) })
    }

    /// A cast of a constant that could not be folded, or of a parameter (a literal of a statement in the simple protocol is
    /// one too), is computed once a run.
    fn cast_once(&self, c: CExpr) -> CExpr {
        let (CExpr::Cast { arg, .. } | CExpr::InOut { arg, .. }) = &c else { return c };
        if matches!(**arg, CExpr::Const(_) | CExpr::Param(_)) { self.once(c) } else { c }
    }

    fn once(&self, c: CExpr) -> CExpr {
        if self.is_detached {
            return c;
        }
        let index = self.once_count.get();
        self.once_count.set(index + 1);
        CExpr::Once { index, arg: Box::new(c) }
    }

    #[inline(never)]
    fn compile_scalar_array(&self, e: &Expr, func: &FuncExpr, any: bool, layout: &Layout) -> Result<CExpr> {
        if e.collation.needs_care()
            && !matches!(func.name.as_ref(), "=" | "<>")
            && super::collated::kind_of(func).is_some()
        {
            e.collation.check_known("string comparison")?;
            return Err(Error::unsupported("ordering of ANY or ALL elements by this collation is not supported"));
        }
        let f = self.function(func)?;
        let args = self.two(&func.args, layout)?;
        let ty = func.args.first().map_or(0, |a| a.ty);
        let negator = &*func.name == "<>" && !any;
        let positive = &*func.name == "=" && any;
        if let (CExpr::Const(Datum::Array(a)), true) = (&args[1], positive || negator)
            && a.elements.len() > 8
            && a.element_type == ty
        {
            let a = a.clone();
            let [arg, _] = args;
            return super::collated::member_of_constants(ty, arg, &a.elements, negator);
        }
        Ok(CExpr::ScalarArray { call: scalar_call(func, f, func.strict), any, args: Box::new(args) })
    }

    /// The subplan of a subquery. A condition is compiled for each plan that is compared, and all have the same one.
    fn subplan_of(&self, s: &SubLink, independent: bool) -> Result<CorrelatedSubplan> {
        let is_same = |known: &&CorrelatedSubplan| known.sublink == s.id && known.query.is_shared_with(&s.query);
        if let Some(known) = self.correlated_subplans.borrow().iter().find(is_same) {
            return Ok(known.clone());
        }
        let first_cte = self.correlated_ctes.borrow().len();
        let (index, width) = self.plan_sublink(s, independent)?;
        let mut ctes: Vec<usize> = self.correlated_ctes.borrow().iter().skip(first_cte).map(|c| c.1).collect();
        ctes.dedup();
        let table = match s.kind == SubKind::Exists && !independent {
            true => {
                let node = self.subplans.borrow()[index].clone();
                self.exists_table(s, &node)?
            }
            false => None,
        };
        let planned = CorrelatedSubplan { sublink: s.id, query: s.query.clone(), index, width, ctes, table };
        // Of one that is independent the query level where it is used has to be told each time.
        if !independent {
            self.correlated_subplans.borrow_mut().push(planned.clone());
        }
        Ok(planned)
    }

    #[inline(never)]
    fn compile_sublink(&self, s: &SubLink, ty: Oid, layout: &Layout) -> Result<CExpr> {
        let outer = self.outer_columns(&s.query);
        let CorrelatedSubplan { index, width, ctes, table, .. } = self.subplan_of(s, outer.is_empty())?;
        let table = table.map(|t| self.compile_exists_table(t, layout)).transpose()?;
        let mut set = Vec::new();
        let mut depends = Vec::new();
        for c in &outer {
            let param = self.exec_param(*c);
            depends.push(param);
            if let Some(slot) = layout.find(*c) {
                set.push((param, slot));
            }
        }
        let kind = match s.kind {
            SubKind::Exists => SubPlanKind::Exists,
            SubKind::Scalar => SubPlanKind::Scalar,
            SubKind::Row => SubPlanKind::Row(s.query.targets.iter().filter(|t| !t.junk).map(|t| t.expr.ty).collect()),
            SubKind::Array => SubPlanKind::Array(self.element_type(ty)),
            SubKind::Any => SubPlanKind::Any,
            SubKind::All => SubPlanKind::All,
            SubKind::RowCompare => SubPlanKind::RowCompare,
        };
        let mut test = None;
        let mut test_params = Vec::new();
        let mut hash = None;
        if let Some(t) = &s.test {
            for i in 0..width {
                test_params.push(self.exec_param(ColId { rel: s.test_rel, att: i as i16 + 1 }));
            }
            test = Some(self.expression(t, layout)?);
            if s.kind == SubKind::Any && depends.is_empty() && s.equality {
                hash = self.hashable_test(t, s.test_rel, layout)?;
                if let Some(names) = self.names.as_ref().filter(|_| hash.is_some()) {
                    names.name_subplan(s.id, format!("hashed SubPlan {}", index + 1));
                }
            }
        }
        Ok(CExpr::SubPlan(Box::new(SubPlanUse {
            index,
            kind,
            set,
            ctes,
            cacheable: depends.is_empty(),
            test,
            test_params,
            hash,
            table,
        })))
    }

    fn compile_exists_table(&self, table: PlannedExistsTable, layout: &Layout) -> Result<ExistsTable> {
        let PlannedExistsTable { index, outer, types, after_calls } = table;
        let keys = outer.iter().map(|e| self.expression(e, layout)).collect::<Result<Vec<Expression>>>()?;
        Ok(ExistsTable { index, keys, types, after_calls })
    }

    /// `a = col1 AND b = col2 …` as keys: (left side, subquery column, type).
    fn hashable_test(&self, t: &Expr, rel: u32, layout: &Layout) -> Result<Option<Vec<(Expression, usize, Oid)>>> {
        let mut parts = Vec::new();
        t.clone().conjuncts(&mut parts);
        let mut out = Vec::new();
        for p in &parts {
            let ExprKind::Func(f) = &p.kind else { return Ok(None) };
            let [l, r] = f.args.as_slice() else { return Ok(None) };
            let ExprKind::Column(c) = &r.kind else { return Ok(None) };
            if c.rel != rel || l.ty != r.ty || &*f.name != "=" || !p.collation.collation.is_deterministic() {
                return Ok(None);
            }
            let mut used = Vec::new();
            l.columns(&mut used);
            if used.iter().any(|u| u.rel == rel) {
                return Ok(None);
            }
            out.push((self.expression(l, layout)?, c.att as usize - 1, l.ty));
        }
        Ok(Some(out))
    }
}

/// The call of a built-in function, which may be strict or made to look at NULLs itself.
fn scalar_call(f: &FuncExpr, function: ScalarFn, strict: bool) -> ScalarCall {
    let vector = functions::descriptor(f.oid).and_then(|d| d.vector).filter(|_| strict);
    ScalarCall { f: function, strict, is_volatile: f.volatility == b'v', vector }
}

/// Do values of both types use the same variant of Datum?
fn same_datum(from: Oid, to: Oid) -> bool {
    let class = |t: Oid| match kilndb_types::types::descriptor(t).map(|ty| ty.held_as) {
        Some(HeldAs::Text) => 1,
        Some(HeldAs::Oid | HeldAs::NamedOid) => 2,
        Some(HeldAs::Itself) | None => 0,
    };
    from == to || class(from) != 0 && class(from) == class(to)
}

/// format(text, VARIADIC "any").
const FORMAT: Oid = 3539;

/// Whether the values of a built-in type are shown rightly by whoever does not know what type they are of.
fn tells_its_type(ty: Oid) -> bool {
    use oids::*;
    matches!(ty, UNKNOWN | TEXT | VARCHAR | BPCHAR | NAME | BOOL | INT2 | INT4 | INT8 | FLOAT4 | FLOAT8 | NUMERIC | OID)
        || matches!(ty, DATE | TIME | TIMETZ | TIMESTAMP | TIMESTAMPTZ | INTERVAL)
        || matches!(ty, BYTEA | UUID | JSONB | INET | CIDR | MACADDR | MACADDR8 | TSVECTOR | TSQUERY)
}
