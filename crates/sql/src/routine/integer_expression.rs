//! Expressions of integers and truth values over variables, as loops and conditions of routines have them: computed
//! where the variables are, without a session, a list of parameters or an allocation.
//!
//! Invariants
//! 1. What is computed here is what the long way would have computed. Where that may be an error, NULL or another type,
//!    the answer is None, and the long way is taken.
//! 2. Only built-in functions are in it, so that no change of the catalogs changes its meaning.
//! 3. A variable's value is looked at only if it is of the type that the expression was made for: types of records'
//!    fields may change.

use super::spi::Variable;
use kilndb_base::Oid;
use kilndb_bind::ir::{BoolTestKind, Expr, ExprKind, FuncExpr};
use kilndb_plan::expression::IntOp;
use kilndb_plan::int_compare;
use kilndb_types::{Datum, oids};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Plus,
    Minus,
    Times,
    Divide,
    Modulo,
}

/// A variable of an integer type of so many bits, or a truth value (0).
#[derive(Clone, Copy, Debug)]
struct VariableSlot {
    number: u32,
    bits: u32,
}

#[derive(Clone, Debug)]
enum IntegerOperation {
    Int(i64),
    Bool(bool),
    Variable(VariableSlot),
    /// What loops are made of: `variable op variable`, `variable op constant`.
    OfTwo {
        op: Op,
        bits: u32,
        left: VariableSlot,
        right: VariableSlot,
    },
    WithConst {
        op: Op,
        bits: u32,
        left: VariableSlot,
        right: i64,
    },
    CompareTwo {
        op: IntOp,
        left: VariableSlot,
        right: VariableSlot,
    },
    CompareConst {
        op: IntOp,
        left: VariableSlot,
        right: i64,
    },
    /// In the range of so many bits.
    Arithmetic {
        op: Op,
        bits: u32,
        args: Box<[IntegerOperation; 2]>,
    },
    Negate {
        bits: u32,
        arg: Box<IntegerOperation>,
    },
    /// To so many bits.
    Narrow {
        bits: u32,
        arg: Box<IntegerOperation>,
    },
    Compare {
        op: IntOp,
        args: Box<[IntegerOperation; 2]>,
    },
    And(Box<[IntegerOperation]>),
    Or(Box<[IntegerOperation]>),
    Not(Box<IntegerOperation>),
    IsNull {
        variable: u32,
        negated: bool,
    },
    IsTrue {
        arg: Box<IntegerOperation>,
        wanted: bool,
    },
}

/// A small expression, and the type of its value.
#[derive(Clone, Debug)]
pub struct IntegerExpression {
    node: IntegerOperation,
    type_oid: Oid,
}

/// Where values of variables are.
pub trait VariableValues {
    /// None: the variable is no scalar.
    fn scalar(&self, variable: u32) -> Option<&Datum>;
}

impl VariableSlot {
    fn of(n: u32, type_oid: Oid, uses: &[Variable]) -> Option<VariableSlot> {
        let bits = if type_oid == oids::BOOL { 0 } else { bits_of(type_oid)? };
        Some(VariableSlot { number: uses.get(n as usize)?.number, bits })
    }
    #[inline(always)]
    fn int(self, values: &impl VariableValues) -> Option<i64> {
        match (values.scalar(self.number)?, self.bits) {
            (Datum::Int8(v), 64) => Some(*v),
            (Datum::Int4(v), 32) => Some(i64::from(*v)),
            (Datum::Int2(v), 16) => Some(i64::from(*v)),
            _ => None,
        }
    }
}

fn bits_of(type_oid: Oid) -> Option<u32> {
    match type_oid {
        oids::INT2 => Some(16),
        oids::INT4 => Some(32),
        oids::INT8 => Some(64),
        _ => None,
    }
}

/// Two-argument functions of integers by pg_proc OID.
fn arithmetic(oid: Oid) -> Option<Op> {
    Some(match oid {
        177 | 463 | 176 | 178 | 179 | 841 | 837 | 1278 | 1274 => Op::Plus,
        181 | 464 | 180 | 182 | 183 | 942 | 838 | 1279 | 1275 => Op::Minus,
        141 | 465 | 152 | 170 | 171 | 943 | 839 | 1280 | 1276 => Op::Times,
        154 | 466 | 153 | 172 | 173 | 948 | 840 | 1281 | 1277 => Op::Divide,
        156 | 941 | 155 | 940 | 945 | 947 => Op::Modulo,
        _ => return None,
    })
}

fn within(bits: u32, v: i64) -> Option<i64> {
    match bits {
        16 => i16::try_from(v).is_ok().then_some(v),
        32 => i32::try_from(v).is_ok().then_some(v),
        _ => Some(v),
    }
}

impl Op {
    #[inline]
    fn of(self, bits: u32, l: i64, r: i64) -> Option<i64> {
        let v = match self {
            Op::Plus => l.checked_add(r),
            Op::Minus => l.checked_sub(r),
            Op::Times => l.checked_mul(r),
            Op::Divide => l.checked_div(r),
            Op::Modulo => l.checked_rem(r),
        };
        within(bits, v?)
    }
}

fn compare(op: IntOp, l: i64, r: i64) -> bool {
    match op {
        IntOp::Eq => l == r,
        IntOp::Ne => l != r,
        IntOp::Lt => l < r,
        IntOp::Le => l <= r,
        IntOp::Gt => l > r,
        IntOp::Ge => l >= r,
    }
}

impl IntegerOperation {
    fn of(e: &Expr, uses: &[Variable]) -> Option<IntegerOperation> {
        Some(match &e.kind {
            ExprKind::Const(Datum::Int2(v)) if e.ty == oids::INT2 => IntegerOperation::Int(i64::from(*v)),
            ExprKind::Const(Datum::Int4(v)) if e.ty == oids::INT4 => IntegerOperation::Int(i64::from(*v)),
            ExprKind::Const(Datum::Int8(v)) if e.ty == oids::INT8 => IntegerOperation::Int(*v),
            ExprKind::Const(Datum::Bool(v)) => IntegerOperation::Bool(*v),
            ExprKind::Param(n) => IntegerOperation::Variable(VariableSlot::of(*n, e.ty, uses)?),
            ExprKind::Func(f) if !f.returns_set => IntegerOperation::of_function(f, e.ty, uses)?,
            ExprKind::And(list) => {
                IntegerOperation::And(list.iter().map(|e| IntegerOperation::of(e, uses)).collect::<Option<_>>()?)
            }
            ExprKind::Or(list) => {
                IntegerOperation::Or(list.iter().map(|e| IntegerOperation::of(e, uses)).collect::<Option<_>>()?)
            }
            ExprKind::Not(arg) => IntegerOperation::Not(Box::new(IntegerOperation::of(arg, uses)?)),
            ExprKind::IsNull { arg, negated } => match arg.kind {
                ExprKind::Param(n) if arg.ty != oids::RECORD => {
                    IntegerOperation::IsNull { variable: uses.get(n as usize)?.number, negated: *negated }
                }
                _ => return None,
            },
            ExprKind::BoolTest { arg, test: test @ (BoolTestKind::True | BoolTestKind::False) } => {
                IntegerOperation::IsTrue {
                    arg: Box::new(IntegerOperation::of(arg, uses)?),
                    wanted: *test == BoolTestKind::True,
                }
            }
            _ => return None,
        })
    }

    fn of_function(f: &FuncExpr, result: Oid, uses: &[Variable]) -> Option<IntegerOperation> {
        match f.args.as_slice() {
            [l, r] => {
                bits_of(l.ty)?;
                bits_of(r.ty)?;
                let args = [IntegerOperation::of(l, uses)?, IntegerOperation::of(r, uses)?];
                if let Some(op) = int_compare(f.oid) {
                    return Some(match args {
                        [IntegerOperation::Variable(left), IntegerOperation::Variable(right)] => {
                            IntegerOperation::CompareTwo { op, left, right }
                        }
                        [IntegerOperation::Variable(left), IntegerOperation::Int(right)] => {
                            IntegerOperation::CompareConst { op, left, right }
                        }
                        args => IntegerOperation::Compare { op, args: Box::new(args) },
                    });
                }
                let (op, bits) = (arithmetic(f.oid)?, bits_of(result)?);
                Some(match args {
                    [IntegerOperation::Variable(left), IntegerOperation::Variable(right)] => {
                        IntegerOperation::OfTwo { op, bits, left, right }
                    }
                    [IntegerOperation::Variable(left), IntegerOperation::Int(right)] => {
                        IntegerOperation::WithConst { op, bits, left, right }
                    }
                    args => IntegerOperation::Arithmetic { op, bits, args: Box::new(args) },
                })
            }
            [arg] => {
                let (bits, of) = (bits_of(result)?, Box::new(IntegerOperation::of(arg, uses)?));
                match f.oid {
                    // Unary minus.
                    212 | 213 | 462 => Some(IntegerOperation::Negate { bits, arg: of }),
                    // Conversions among integers.
                    313 | 314 | 480 | 481 | 714 | 754 => Some(IntegerOperation::Narrow { bits, arg: of }),
                    _ => None,
                }
            }
            _ => None,
        }
    }

    #[inline]
    fn int(&self, values: &impl VariableValues) -> Option<i64> {
        match self {
            IntegerOperation::OfTwo { op, bits, left, right } => op.of(*bits, left.int(values)?, right.int(values)?),
            IntegerOperation::WithConst { op, bits, left, right } => op.of(*bits, left.int(values)?, *right),
            IntegerOperation::Variable(place) => place.int(values),
            IntegerOperation::Int(v) => Some(*v),
            other => other.deeper_int(values),
        }
    }

    #[inline(never)]
    fn deeper_int(&self, values: &impl VariableValues) -> Option<i64> {
        match self {
            IntegerOperation::Arithmetic { op, bits, args } => op.of(*bits, args[0].int(values)?, args[1].int(values)?),
            IntegerOperation::Negate { bits, arg } => within(*bits, arg.int(values)?.checked_neg()?),
            IntegerOperation::Narrow { bits, arg } => within(*bits, arg.int(values)?),
            _ => None,
        }
    }

    #[inline]
    fn truth(&self, values: &impl VariableValues) -> Option<bool> {
        match self {
            IntegerOperation::Compare { op, args } => Some(compare(*op, args[0].int(values)?, args[1].int(values)?)),
            IntegerOperation::CompareTwo { op, left, right } => {
                Some(compare(*op, left.int(values)?, right.int(values)?))
            }
            IntegerOperation::CompareConst { op, left, right } => Some(compare(*op, left.int(values)?, *right)),
            IntegerOperation::Bool(v) => Some(*v),
            IntegerOperation::Variable(place) => match values.scalar(place.number)? {
                Datum::Bool(v) => Some(*v),
                _ => None,
            },
            IntegerOperation::And(list) => {
                for e in list {
                    if !e.truth(values)? {
                        return Some(false);
                    }
                }
                Some(true)
            }
            IntegerOperation::Or(list) => {
                for e in list {
                    if e.truth(values)? {
                        return Some(true);
                    }
                }
                Some(false)
            }
            IntegerOperation::Not(arg) => arg.truth(values).map(|v| !v),
            IntegerOperation::IsNull { variable, negated } => match values.scalar(*variable)? {
                // Which may be NULL in all its fields.
                Datum::Record(_) => None,
                value => Some(value.is_null() != *negated),
            },
            IntegerOperation::IsTrue { arg, wanted } => Some(arg.truth(values)? == *wanted),
            _ => None,
        }
    }
}

impl IntegerExpression {
    /// None: it takes more than integers and truth values. `uses`: the variables that parameters stand for.
    pub(crate) fn of(e: &Expr, uses: &[Variable]) -> Option<IntegerExpression> {
        if bits_of(e.ty).is_none() && e.ty != oids::BOOL {
            return None;
        }
        Some(IntegerExpression { node: IntegerOperation::of(e, uses)?, type_oid: e.ty })
    }
    pub fn type_oid(&self) -> Oid {
        self.type_oid
    }
    /// The value; None: the long way finds it.
    #[inline]
    pub fn evaluate(&self, values: &impl VariableValues) -> Option<Datum> {
        Some(match self.type_oid {
            oids::INT4 => Datum::Int4(self.node.int(values)? as i32),
            oids::INT8 => Datum::Int8(self.node.int(values)?),
            oids::INT2 => Datum::Int2(self.node.int(values)? as i16),
            _ => Datum::Bool(self.node.truth(values)?),
        })
    }
    /// The value of an integer expression.
    #[inline]
    pub fn int(&self, values: &impl VariableValues) -> Option<i64> {
        if self.type_oid == oids::BOOL { None } else { self.node.int(values) }
    }
    #[inline]
    pub fn truth(&self, values: &impl VariableValues) -> Option<bool> {
        if self.type_oid == oids::BOOL { self.node.truth(values) } else { None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Values(Vec<Datum>);

    impl VariableValues for Values {
        fn scalar(&self, variable: u32) -> Option<&Datum> {
            self.0.get(variable as usize)
        }
    }

    fn variable(n: u32) -> IntegerOperation {
        IntegerOperation::Variable(VariableSlot { number: n, bits: 32 })
    }

    #[test]
    fn a_value_of_another_type_is_left_alone() {
        let values = Values(vec![Datum::Int4(7), Datum::Int8(7)]);
        let sum = |left, right| IntegerOperation::OfTwo {
            op: Op::Plus,
            bits: 32,
            left: VariableSlot { number: left, bits: 32 },
            right: VariableSlot { number: right, bits: 32 },
        };
        assert_eq!(sum(0, 0).int(&values), Some(14));
        assert_eq!(sum(0, 1).int(&values), None);
    }

    #[test]
    fn what_is_no_plain_integer_is_left_alone() {
        let values = Values(vec![Datum::Int4(7), Datum::Int4(i32::MAX), Datum::Null, Datum::Int4(0)]);
        let of = |op, l, r| IntegerExpression {
            node: IntegerOperation::Arithmetic { op, bits: 32, args: Box::new([variable(l), variable(r)]) },
            type_oid: oids::INT4,
        };
        assert!(matches!(of(Op::Plus, 0, 0).evaluate(&values), Some(Datum::Int4(14))));
        assert!(of(Op::Plus, 0, 1).evaluate(&values).is_none());
        assert!(of(Op::Plus, 0, 2).evaluate(&values).is_none());
        assert!(of(Op::Divide, 0, 3).evaluate(&values).is_none());
        assert!(of(Op::Modulo, 0, 3).evaluate(&values).is_none());
    }

    #[test]
    fn conditions_know_null_from_false() {
        let values = Values(vec![Datum::Int4(7), Datum::Null]);
        let quick = |node| IntegerExpression { node, type_oid: oids::BOOL };
        let equal = |l, r| IntegerOperation::Compare { op: IntOp::Eq, args: Box::new([variable(l), variable(r)]) };
        assert_eq!(quick(equal(0, 0)).truth(&values), Some(true));
        assert_eq!(quick(equal(0, 1)).truth(&values), None);
        assert_eq!(quick(IntegerOperation::IsNull { variable: 1, negated: false }).truth(&values), Some(true));
        assert_eq!(quick(IntegerOperation::Not(Box::new(equal(0, 0)))).truth(&values), Some(false));
        assert_eq!(quick(IntegerOperation::And(Box::new([equal(0, 0), equal(0, 1)]))).truth(&values), None);
    }
}
