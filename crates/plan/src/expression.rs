//! Expression programs: slots and function pointers are resolved, so that nothing is looked up per row.
//!
//! Must not know: how a program is run, which the executor knows.

use super::program::Program;
use kilndb_base::Oid;
use kilndb_base::sync::OnceLock;
use kilndb_bind::ir::{BoolTestKind, CompareKind, SqlValue};
use kilndb_catalog::FunctionInfo;
use kilndb_catalog::routine::TupleDescriptor;
pub use kilndb_types::functions::descriptor::{Arithmetic, IntOp};
use kilndb_types::functions::{ScalarFn, SessionFunction};
use kilndb_types::types::KeySubscript;
use kilndb_types::vector::VectorFn;
use kilndb_types::{Datum, cast};
use std::sync::Arc;

/// A function that computes its result from its arguments, and what is known of it.
#[derive(Clone, Copy)]
pub struct ScalarCall {
    pub f: ScalarFn,
    /// A NULL among the arguments makes the result NULL without a call.
    pub strict: bool,
    /// Two calls with the same arguments may have different results.
    pub is_volatile: bool,
    /// Computes the function for many rows at a time.
    pub vector: Option<VectorFn>,
}

impl ScalarCall {
    /// A function that no descriptor has, whose result depends on its arguments alone.
    pub fn plain(f: ScalarFn, strict: bool) -> ScalarCall {
        ScalarCall { f, strict, is_volatile: false, vector: None }
    }
}

#[derive(Clone)]
pub struct CSubscript {
    pub lower: Option<CExpr>,
    pub upper: Option<CExpr>,
}

/// `(a, b) < (c, d)`: the first pair of values that differ decides.
#[derive(Clone)]
pub struct RowComparison {
    pub kind: CompareKind,
    /// The type of each pair.
    pub types: Box<[Oid]>,
    pub left: Box<[CExpr]>,
    pub right: Box<[CExpr]>,
}

#[derive(Clone)]
pub enum CExpr {
    Const(Datum),
    Param(usize),
    ExecParam(usize),
    Slot(usize),
    Call {
        call: ScalarCall,
        args: Box<[CExpr]>,
    },
    Call1 {
        call: ScalarCall,
        arg: Box<CExpr>,
    },
    Call2 {
        call: ScalarCall,
        args: Box<[CExpr; 2]>,
    },
    /// A function of the session's own; None: there is no such function in this build, which a call tells.
    Session {
        function: Option<SessionFunction>,
        name: Arc<str>,
        strict: bool,
        args: Box<[CExpr]>,
    },
    Routine {
        call: Arc<RoutineCall>,
        args: Box<[CExpr]>,
    },
    /// satisfies_hash_partition, with the types of its arguments.
    SatisfiesHash {
        types: Box<[Oid]>,
        variadic: bool,
        args: Box<[CExpr]>,
    },
    /// A domain's conditions on the value of `arg`: the checks are of a row that is the value.
    Domain {
        name: Arc<str>,
        not_null: bool,
        checks: Box<[(String, CExpr)]>,
        arg: Box<CExpr>,
    },
    /// Converts each element of an array with `element`, whose row is the element.
    ArrayMap {
        to: Oid,
        element: Box<CExpr>,
        arg: Box<CExpr>,
    },
    CompareInt {
        op: IntOp,
        args: Box<[CExpr; 2]>,
    },
    /// An operation on two integers of the same type; `f` is called for others, and raises their errors.
    Arithmetic {
        op: Arithmetic,
        wide: bool,
        f: ScalarFn,
        args: Box<[CExpr; 2]>,
    },
    Cast {
        f: cast::CastFn,
        typmod: i32,
        explicit: bool,
        /// Casts many values at a time.
        vector: Option<VectorFn>,
        arg: Box<CExpr>,
    },
    InOut {
        from: Oid,
        to: Oid,
        typmod: i32,
        explicit: bool,
        arg: Box<CExpr>,
    },
    Typmod {
        ty: Oid,
        typmod: i32,
        explicit: bool,
        arg: Box<CExpr>,
    },
    ArrayCast {
        from: Oid,
        to: Oid,
        func: Option<cast::CastFn>,
        explicit: bool,
        arg: Box<CExpr>,
    },
    ArrayTypmod {
        element: Oid,
        typmod: i32,
        explicit: bool,
        arg: Box<CExpr>,
    },
    /// An array whose element type its function could not know.
    RetagArray {
        element: Oid,
        arg: Box<CExpr>,
    },
    /// Sets the type of a record or array value.
    Retag {
        ty: Oid,
        arg: Box<CExpr>,
    },
    And(Box<[CExpr]>),
    Or(Box<[CExpr]>),
    Not(Box<CExpr>),
    IsNull {
        arg: Box<CExpr>,
        negated: bool,
        row: bool,
    },
    BoolTest {
        arg: Box<CExpr>,
        test: BoolTestKind,
    },
    IsDistinct {
        left: Box<CExpr>,
        right: Box<CExpr>,
        eq: ScalarFn,
        negated: bool,
    },
    NullIf {
        eq: ScalarFn,
        args: Box<[CExpr; 2]>,
    },
    Case {
        arg: Option<Box<CExpr>>,
        whens: Box<[(CExpr, CExpr)]>,
        otherwise: Box<CExpr>,
    },
    CaseArg,
    Coalesce(Box<[CExpr]>),
    MinMax {
        ty: Oid,
        greatest: bool,
        args: Box<[CExpr]>,
    },
    Array {
        element: Oid,
        multidim: bool,
        args: Box<[CExpr]>,
    },
    Row {
        ty: Oid,
        types: Box<[Oid]>,
        args: Box<[CExpr]>,
        names: Option<Arc<[String]>>,
    },
    Field {
        index: usize,
        arg: Box<CExpr>,
    },
    Subscript {
        arg: Box<CExpr>,
        subs: Box<[CSubscript]>,
        slice: bool,
    },
    JsonSubscript {
        arg: Box<CExpr>,
        subs: Box<[CSubscript]>,
    },
    JsonSubscriptAssign {
        arg: Box<CExpr>,
        subs: Box<[CSubscript]>,
        value: Box<CExpr>,
    },
    /// A part of a value that its type finds by a key.
    KeySubscript {
        by: &'static KeySubscript,
        arg: Box<CExpr>,
        key: Box<CExpr>,
    },
    KeySubscriptAssign {
        by: &'static KeySubscript,
        arg: Box<CExpr>,
        key: Box<CExpr>,
        value: Box<CExpr>,
    },
    SubscriptAssign {
        element: Oid,
        arg: Box<CExpr>,
        subs: Box<[CSubscript]>,
        slice: bool,
        value: Box<CExpr>,
    },
    FieldAssign {
        ty: Oid,
        types: Box<[Oid]>,
        index: usize,
        arg: Box<CExpr>,
        value: Box<CExpr>,
    },
    ScalarArray {
        call: ScalarCall,
        any: bool,
        args: Box<[CExpr; 2]>,
    },
    /// `x = ANY (constant array)`, looked up in a hash table.
    InSet {
        ty: Oid,
        arg: Box<CExpr>,
        set: Arc<kilndb_base::hash::HashSet<Vec<u8>>>,
        has_null: bool,
        negated: bool,
    },
    RowCompare(Box<RowComparison>),
    SubPlan(Box<SubPlanUse>),
    SqlValue(SqlValue),
    /// An expression that is evaluated once per run.
    Once {
        index: usize,
        arg: Box<CExpr>,
    },
}

/// An expression that is evaluated: the tree that the planner has made, and the programs it is evaluated by for one row, each
/// made when it is first wanted.
pub struct Expression {
    tree: CExpr,
    value: OnceLock<Arc<Program>>,
    condition: OnceLock<Arc<Program>>,
}

impl Clone for Expression {
    /// What has been made of it is shared.
    fn clone(&self) -> Expression {
        Expression { tree: self.tree.clone(), value: self.value.clone(), condition: self.condition.clone() }
    }
}

impl Expression {
    #[inline]
    pub fn tree(&self) -> &CExpr {
        &self.tree
    }
    /// Does it do more than hand a value on that is there?
    pub fn has_program(&self) -> bool {
        !matches!(self.tree, CExpr::Slot(_) | CExpr::Const(_) | CExpr::Param(_) | CExpr::ExecParam(_))
    }
    /// The program that computes the value.
    #[inline]
    pub fn program(&self) -> &Arc<Program> {
        self.value.get_or_init(|| Arc::new(Program::of_value(&self.tree)))
    }
    /// The program that comes to its end if the condition is true.
    #[inline]
    pub fn condition(&self) -> &Arc<Program> {
        self.condition.get_or_init(|| Arc::new(Program::of_condition(&self.tree)))
    }
}

impl From<CExpr> for Expression {
    fn from(tree: CExpr) -> Expression {
        Expression { tree, value: OnceLock::new(), condition: OnceLock::new() }
    }
}

impl std::ops::Deref for Expression {
    type Target = CExpr;
    #[inline]
    fn deref(&self) -> &CExpr {
        &self.tree
    }
}

/// The expressions with these trees.
pub fn expressions(list: impl IntoIterator<Item = CExpr>) -> Vec<Expression> {
    list.into_iter().map(Expression::from).collect()
}

#[inline]
pub fn int_of(d: &Datum) -> Option<i64> {
    match d {
        Datum::Int4(v) => Some(i64::from(*v)),
        Datum::Int8(v) => Some(*v),
        Datum::Int2(v) => Some(i64::from(*v)),
        _ => None,
    }
}

impl CExpr {
    /// Does the expression consist of constants, parameters of the statement, and functions of these, so that it needs
    /// no row?
    pub fn is_known_at_start(&self) -> bool {
        match self {
            CExpr::Const(_) | CExpr::Param(_) | CExpr::SqlValue(_) => true,
            CExpr::Call { args, .. } | CExpr::Session { args, .. } | CExpr::Array { args, .. } => {
                args.iter().all(CExpr::is_known_at_start)
            }
            CExpr::Call1 { arg, .. }
            | CExpr::Cast { arg, .. }
            | CExpr::InOut { arg, .. }
            | CExpr::Typmod { arg, .. }
            | CExpr::Once { arg, .. } => arg.is_known_at_start(),
            CExpr::Call2 { args, .. } | CExpr::Arithmetic { args, .. } => args.iter().all(CExpr::is_known_at_start),
            _ => false,
        }
    }
}

#[inline]
pub fn compare_int(op: IntOp, l: i64, r: i64) -> bool {
    match op {
        IntOp::Eq => l == r,
        IntOp::Ne => l != r,
        IntOp::Lt => l < r,
        IntOp::Le => l <= r,
        IntOp::Gt => l > r,
        IntOp::Ge => l >= r,
    }
}

#[derive(Clone)]
pub enum SubPlanKind {
    Exists,
    Scalar,
    Row(Vec<Oid>),
    Array(Oid),
    Any,
    All,
    RowCompare,
}

#[derive(Clone)]
pub struct SubPlanUse {
    pub index: usize,
    pub kind: SubPlanKind,
    /// The execution parameters to set, each with the slot of the outer row.
    pub set: Vec<(usize, usize)>,
    /// WITH queries inside of it that depend on something outside of themselves: they start anew with it.
    pub ctes: Vec<usize>,
    /// Depends on nothing outside: one run serves all rows.
    pub cacheable: bool,
    pub test: Option<Expression>,
    pub test_params: Vec<usize>,
    pub hash: Option<Vec<(Expression, usize, Oid)>>,
    pub table: Option<ExistsTable>,
}

/// The table that EXISTS looks in once it has been asked for many rows: the keys of all rows of a subplan, which depends on
/// nothing outside.
#[derive(Clone)]
pub struct ExistsTable {
    pub index: usize,
    /// What a row looks for.
    pub keys: Vec<Expression>,
    pub types: Vec<Oid>,
    pub after_calls: u64,
}

/// A call of a routine in a plan.
#[derive(Debug)]
pub struct RoutineCall {
    pub oid: Oid,
    pub name: Arc<str>,
    pub strict: bool,
    pub returns_set: bool,
    /// The types of the arguments in this call.
    pub argument_types: Vec<Oid>,
    /// What its parameters are compared by, if it is not what their types say; 0: it is.
    pub collation: Oid,
    pub result_type: Oid,
    pub is_polymorphic: bool,
    /// The columns that the caller wants of a routine that returns RECORD.
    pub expected: Option<Arc<TupleDescriptor>>,
    /// Rows are wanted as their columns, not as one composite value.
    pub spread: bool,
    /// The last argument is an array given with VARIADIC.
    pub variadic: bool,
}

impl RoutineCall {
    /// A call of a function of one value with arguments of these types, which is none of the statement's own.
    pub fn of(function: &FunctionInfo, argument_types: Vec<Oid>) -> RoutineCall {
        let polymorphic = kilndb_bind::is_polymorphic;
        RoutineCall {
            oid: function.oid,
            name: Arc::from(function.name.as_str()),
            strict: function.strict,
            returns_set: false,
            argument_types,
            collation: 0,
            result_type: function.return_type,
            is_polymorphic: polymorphic(function.return_type) || function.arg_types.iter().any(|t| polymorphic(*t)),
            expected: None,
            spread: false,
            variadic: false,
        }
    }
    /// The types that resolve polymorphic ones: those of the arguments, then that of the result.
    pub fn types(&self) -> Vec<Oid> {
        if !self.is_polymorphic {
            return Vec::new();
        }
        self.argument_types.iter().copied().chain([self.result_type]).collect()
    }
}
