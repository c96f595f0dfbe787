//! Runs programs of integers and truth values over variables, as loops and conditions of routines have them: where the variables
//! are, without a statement, a session or an allocation.
//!
//! Invariants
//! 1. What is computed here is what a run of the program for a row would have computed ([`super::row_program`]). Where that may
//!    be an error, NULL or another type, the answer is None, and the program is run that way.
//! 2. A variable's value is looked at only if it is of the type that the program was made for: types of records' fields may
//!    change.
//!
//! Must not know: routines, and where variables are kept.

use kilndb_base::Oid;
use kilndb_bind::ir::BoolTestKind;
use kilndb_plan::expression::{Arithmetic, Expression, IntOp, compare_int, int_of};
use kilndb_plan::operation::Operation;
use kilndb_plan::program::{Computation, ConstantSource, Operand, Operands, Program, Step, Truth};
use kilndb_types::{Datum, oids};

/// A program with more registers is run for a row.
const REGISTERS_MAX: usize = 8;

/// Where values of variables are.
pub trait VariableValues {
    /// None: the variable is no scalar.
    fn scalar(&self, variable: u32) -> Option<&Datum>;
}

/// An expression over variables whose program takes nothing but integers and truth values.
#[derive(Clone)]
pub struct IntegerProgram {
    /// Of a truth value that of the condition.
    program: WordProgram,
    type_oid: Oid,
}

impl IntegerProgram {
    /// `expression`: over the slots of variables, which have these types. None: it takes more than integers and truth values.
    pub fn of(expression: &Expression, type_oid: Oid, variables: &[(u32, Oid)]) -> Option<IntegerProgram> {
        if !matches!(type_oid, oids::INT2 | oids::INT4 | oids::INT8 | oids::BOOL) {
            return None;
        }
        let program = if type_oid == oids::BOOL { expression.condition() } else { expression.program() };
        let program = WordCompiler { program, types: variables }.program()?;
        Some(IntegerProgram { program, type_oid })
    }
    pub fn type_oid(&self) -> Oid {
        self.type_oid
    }
    /// The value; None: the long way finds it.
    #[inline]
    pub fn evaluate(&self, values: &impl VariableValues) -> Option<Datum> {
        if self.type_oid == oids::BOOL {
            return self.truth(values).map(Datum::Bool);
        }
        let value = self.int(values)?;
        Some(match self.type_oid {
            oids::INT4 => Datum::Int4(value as i32),
            oids::INT8 => Datum::Int8(value),
            _ => Datum::Int2(value as i16),
        })
    }
    /// The value of an integer expression.
    #[inline]
    pub fn int(&self, values: &impl VariableValues) -> Option<i64> {
        if self.type_oid == oids::BOOL { None } else { self.program.run(values) }
    }
    #[inline]
    pub fn truth(&self, values: &impl VariableValues) -> Option<bool> {
        if self.type_oid == oids::BOOL { self.program.run(values).map(|value| value != 0) } else { None }
    }
}

/// A program as machine words have it: truth values are 0 and 1, and there is no NULL.
#[derive(Clone)]
enum WordProgram {
    /// As most are: nothing else has to be looked up.
    Step(WordStep),
    Steps {
        steps: Box<[WordStep]>,
        /// If the last step's value is not it. A condition that has come to its end is true.
        result: WordOperand,
    },
}

/// Where an operand is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordPlace {
    Word,
    Register,
    /// In a variable, which is looked at as a value of the type that it had when the program was made.
    Int8,
    Int4,
    Int2,
    Bool,
}

#[derive(Clone, Copy)]
struct WordOperand {
    place: WordPlace,
    /// Of the variable or register.
    number: u32,
    word: i64,
}

#[derive(Clone, Copy)]
enum WordOperation {
    Arithmetic {
        op: Arithmetic,
        wide: bool,
    },
    Compare(IntOp),
    And,
    Or,
    /// The first operand, or its opposite.
    Same,
    Not,
    IsNull {
        variable: u32,
        negated: bool,
    },
}

/// What becomes of a step's value.
#[derive(Clone, Copy, PartialEq, Eq)]
enum WordUse {
    Register(u8),
    /// It is the result.
    Result,
    /// Unless it is what is wanted, the program goes on at the step with this number; behind the last step the condition is not
    /// true.
    Narrow {
        wanted: bool,
        if_not: u32,
    },
}

#[derive(Clone, Copy)]
struct WordStep {
    operation: WordOperation,
    left: WordOperand,
    right: WordOperand,
    then: WordUse,
}

impl WordOperand {
    fn word(word: i64) -> WordOperand {
        WordOperand { place: WordPlace::Word, number: 0, word }
    }
    fn register(number: u8) -> WordOperand {
        WordOperand { place: WordPlace::Register, number: u32::from(number), word: 0 }
    }
    #[inline(always)]
    fn get(self, registers: &[i64; REGISTERS_MAX], values: &impl VariableValues) -> Option<i64> {
        match self.place {
            WordPlace::Word => Some(self.word),
            WordPlace::Register => registers.get(self.number as usize).copied(),
            place => match (values.scalar(self.number)?, place) {
                (Datum::Int8(v), WordPlace::Int8) => Some(*v),
                (Datum::Int4(v), WordPlace::Int4) => Some(i64::from(*v)),
                (Datum::Int2(v), WordPlace::Int2) => Some(i64::from(*v)),
                (Datum::Bool(v), WordPlace::Bool) => Some(i64::from(*v)),
                _ => None,
            },
        }
    }
}

impl WordProgram {
    #[inline(always)]
    fn run(&self, values: &impl VariableValues) -> Option<i64> {
        match self {
            WordProgram::Step(WordStep { operation, left, right, .. }) => {
                operation.value([*left, *right], &[0; REGISTERS_MAX], values)
            }
            WordProgram::Steps { steps, result } => run_steps(steps, *result, values),
        }
    }
}

#[inline(never)]
fn run_steps(steps: &[WordStep], result: WordOperand, values: &impl VariableValues) -> Option<i64> {
    let mut registers = [0; REGISTERS_MAX];
    let mut next = 0;
    while let Some(step) = steps.get(next) {
        next += 1;
        let value = step.operation.value([step.left, step.right], &registers, values)?;
        match step.then {
            WordUse::Narrow { wanted, .. } if (value != 0) == wanted => {}
            WordUse::Narrow { if_not, .. } => {
                next = if_not as usize;
                if next >= steps.len() {
                    return Some(0);
                }
            }
            WordUse::Register(register) => {
                if let Some(register) = registers.get_mut(usize::from(register)) {
                    *register = value;
                }
            }
            WordUse::Result => return Some(value),
        }
    }
    result.get(&registers, values)
}

impl WordOperation {
    #[inline(always)]
    fn value(
        self,
        [left, right]: [WordOperand; 2],
        registers: &[i64; REGISTERS_MAX],
        values: &impl VariableValues,
    ) -> Option<i64> {
        let left = |values| left.get(registers, values);
        let right = |values| right.get(registers, values);
        Some(match self {
            WordOperation::Arithmetic { op, wide } => op.within(wide, left(values)?, right(values)?)?,
            WordOperation::Compare(op) => i64::from(compare_int(op, left(values)?, right(values)?)),
            WordOperation::And => left(values)? & right(values)?,
            WordOperation::Or => left(values)? | right(values)?,
            WordOperation::Same => left(values)?,
            WordOperation::Not => i64::from(left(values)? == 0),
            WordOperation::IsNull { variable, negated } => match values.scalar(variable)? {
                // Which may be NULL in all its fields.
                Datum::Record(_) => return None,
                value => i64::from(value.is_null() != negated),
            },
        })
    }
}

/// Makes a program of words of a program.
struct WordCompiler<'p> {
    program: &'p Program,
    /// The types of variables.
    types: &'p [(u32, Oid)],
}

impl WordCompiler<'_> {
    /// None: it has steps of other values.
    fn program(&self) -> Option<WordProgram> {
        let steps = self.steps()?;
        if let [step @ WordStep { then: WordUse::Result, .. }] = steps[..] {
            return Some(WordProgram::Step(step));
        }
        let result = match self.program.results.first() {
            Some(result) => self.operand(*result)?,
            None => WordOperand::word(1),
        };
        Some(WordProgram::Steps { steps: steps.into(), result })
    }

    fn steps(&self) -> Option<Vec<WordStep>> {
        let mut steps: Vec<WordStep> = Vec::new();
        // For each step of the program where it begins.
        let mut begins = Vec::new();
        for step in &self.program.steps {
            begins.push(u32::try_from(steps.len()).ok()?);
            match step {
                Step::Compute { into, what } => {
                    let is_result = self.program.written_last == Some(*into);
                    let register = word_register(*into)?;
                    let then = if is_result { WordUse::Result } else { WordUse::Register(register) };
                    steps.push(self.computed(what, Some(register), then)?);
                }
                Step::Narrow { by, to, if_none } => {
                    let (left, right) = (self.operand(*by)?, WordOperand::word(0));
                    let then = narrowing(*to, *if_none)?;
                    steps.push(WordStep { operation: WordOperation::Same, left, right, then });
                }
                Step::Decide { what, to, if_none } => {
                    steps.push(self.computed(what, None, narrowing(*to, *if_none)?)?)
                }
                // Nothing is done: the rows are those that there were.
                Step::Widen | Step::Load { .. } => {}
            }
        }
        begins.push(u32::try_from(steps.len()).ok()?);
        for step in &mut steps {
            if let WordUse::Narrow { if_not, .. } = &mut step.then {
                *if_not = *begins.get(*if_not as usize)?;
            }
        }
        Some(steps)
    }

    fn operand(&self, at: Operand) -> Option<WordOperand> {
        Some(match at {
            Operand::Column(column) => {
                let place = match self.types.iter().find(|(variable, _)| *variable == column)?.1 {
                    oids::INT8 => WordPlace::Int8,
                    oids::INT4 => WordPlace::Int4,
                    oids::INT2 => WordPlace::Int2,
                    oids::BOOL => WordPlace::Bool,
                    _ => return None,
                };
                WordOperand { place, number: column, word: 0 }
            }
            Operand::Register(register) | Operand::Taken(register) => WordOperand::register(word_register(register)?),
            Operand::Constant(constant) => match self.program.constants.get(constant as usize)? {
                ConstantSource::Value(Datum::Bool(v)) => WordOperand::word(i64::from(*v)),
                ConstantSource::Value(value) => WordOperand::word(int_of(value)?),
                ConstantSource::Parameter(_) | ConstantSource::ExecParameter(_) => return None,
            },
        })
    }

    /// `register`: the one that is written.
    fn computed(&self, what: &Computation, register: Option<u8>, then: WordUse) -> Option<WordStep> {
        let nothing = WordOperand::word(0);
        let (operation, left, right) = match what {
            Computation::Call { operation, args: Operands::Two([l, r]) } => {
                let operation = match operation {
                    Operation::Arithmetic { op, wide, .. } => WordOperation::Arithmetic { op: *op, wide: *wide },
                    Operation::CompareInt(op) => WordOperation::Compare(*op),
                    _ => return None,
                };
                (operation, self.operand(*l)?, self.operand(*r)?)
            }
            Computation::Not(arg) => (WordOperation::Not, self.operand(*arg)?, nothing),
            Computation::IsNull { arg: Operand::Column(column), negated } => {
                (WordOperation::IsNull { variable: *column, negated: *negated }, nothing, nothing)
            }
            Computation::BoolTest { arg, test } => {
                let operation = match test {
                    BoolTestKind::True | BoolTestKind::NotFalse => WordOperation::Same,
                    BoolTestKind::False | BoolTestKind::NotTrue => WordOperation::Not,
                    BoolTestKind::Unknown | BoolTestKind::NotUnknown => return None,
                };
                (operation, self.operand(*arg)?, nothing)
            }
            Computation::Join { is_and, from } => {
                let operation = if *is_and { WordOperation::And } else { WordOperation::Or };
                (operation, WordOperand::register(register?), self.operand(*from)?)
            }
            Computation::Blend(from) => (WordOperation::Same, self.operand(*from)?, nothing),
            _ => return None,
        };
        Some(WordStep { operation, left, right, then })
    }
}

/// What becomes of the rows' narrowing. None: it asks for NULL, which no word is.
fn narrowing(to: Truth, if_none: u32) -> Option<WordUse> {
    // Without NULL, what is not false is true.
    let wanted = match to {
        Truth::True | Truth::NotFalse => true,
        Truth::NotTrue => false,
        Truth::Null => return None,
    };
    Some(WordUse::Narrow { wanted, if_not: if_none })
}

fn word_register(register: u32) -> Option<u8> {
    u8::try_from(register).ok().filter(|register| usize::from(*register) < REGISTERS_MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_plan::expression::CExpr;

    struct Values(Vec<Datum>);

    impl VariableValues for Values {
        fn scalar(&self, variable: u32) -> Option<&Datum> {
            self.0.get(variable as usize)
        }
    }

    fn arithmetic(op: Arithmetic, l: usize, r: usize) -> CExpr {
        CExpr::Arithmetic {
            op,
            wide: false,
            f: |_, _| Ok(Datum::Null),
            args: Box::new([CExpr::Slot(l), CExpr::Slot(r)]),
        }
    }
    fn equal(l: usize, r: usize) -> CExpr {
        CExpr::CompareInt { op: IntOp::Eq, args: Box::new([CExpr::Slot(l), CExpr::Slot(r)]) }
    }
    fn is_null(slot: usize) -> CExpr {
        CExpr::IsNull { arg: Box::new(CExpr::Slot(slot)), negated: false, row: false }
    }
    fn program(e: CExpr, type_oid: Oid, types: &[Oid]) -> IntegerProgram {
        let variables: Vec<(u32, Oid)> = types.iter().enumerate().map(|(at, oid)| (at as u32, *oid)).collect();
        IntegerProgram::of(&e.into(), type_oid, &variables).expect("a program of integers")
    }

    #[test]
    fn a_value_of_another_type_is_left_alone() {
        let sum = program(arithmetic(Arithmetic::Plus, 0, 1), oids::INT4, &[oids::INT4, oids::INT4]);
        assert_eq!(sum.int(&Values(vec![Datum::Int4(7), Datum::Int4(7)])), Some(14));
        assert_eq!(sum.int(&Values(vec![Datum::Int4(7), Datum::Int8(7)])), None);
    }

    #[test]
    fn what_is_no_plain_integer_is_left_alone() {
        let of = |op, l, r| {
            let values = Values(vec![l, r]);
            program(arithmetic(op, 0, 1), oids::INT4, &[oids::INT4, oids::INT4]).evaluate(&values)
        };
        let seven = || Datum::Int4(7);
        assert!(matches!(of(Arithmetic::Modulo, seven(), Datum::Int4(4)), Some(Datum::Int4(3))));
        assert!(of(Arithmetic::Plus, seven(), Datum::Int4(i32::MAX)).is_none());
        assert!(of(Arithmetic::Plus, seven(), Datum::Null).is_none());
        assert!(of(Arithmetic::Divide, seven(), Datum::Int4(0)).is_none());
        assert!(of(Arithmetic::Modulo, seven(), Datum::Int4(0)).is_none());
    }

    #[test]
    fn conditions_know_null_from_false() {
        let values = Values(vec![Datum::Int4(7), Datum::Null, Datum::Int4(8)]);
        let truth = |e: CExpr| program(e, oids::BOOL, &[oids::INT4; 3]).truth(&values);
        assert_eq!(truth(equal(0, 0)), Some(true));
        assert_eq!(truth(equal(0, 2)), Some(false));
        assert_eq!(truth(equal(0, 1)), None);
        assert_eq!(truth(is_null(1)), Some(true));
        assert_eq!(truth(CExpr::Not(Box::new(equal(0, 0)))), Some(false));
        assert_eq!(truth(CExpr::And(Box::new([equal(0, 0), equal(0, 1)]))), None);
        assert_eq!(truth(CExpr::And(Box::new([equal(0, 2), equal(0, 1)]))), Some(false));
        assert_eq!(truth(CExpr::Or(Box::new([equal(0, 2), is_null(0), equal(0, 0)]))), Some(true));
        assert_eq!(truth(CExpr::Or(Box::new([equal(0, 2), is_null(0)]))), Some(false));
        let all = |list: [CExpr; 2]| CExpr::And(Box::new(list));
        let one_of = |list: [CExpr; 2]| CExpr::Or(Box::new(list));
        assert_eq!(truth(all([one_of([equal(0, 0), equal(0, 1)]), equal(2, 2)])), Some(true));
        assert_eq!(truth(all([one_of([equal(0, 0), is_null(0)]), equal(0, 2)])), Some(false));
        assert_eq!(truth(all([one_of([all([equal(0, 2), equal(0, 1)]), is_null(0)]), equal(0, 0)])), Some(false));
        assert_eq!(truth(one_of([all([one_of([is_null(1), equal(0, 1)]), equal(0, 0)]), equal(0, 1)])), Some(true));
        // The first step is one of two of the planner's, so that all jumps lead elsewhere than they did.
        let case = |when: CExpr, then: CExpr| {
            let whens = vec![(when, then)].into();
            CExpr::Case { arg: None, whens, otherwise: Box::new(equal(2, 2)) }
        };
        assert_eq!(truth(all([equal(0, 0), case(equal(0, 2), equal(0, 1))])), Some(true));
        assert_eq!(truth(all([equal(0, 0), case(equal(0, 0), equal(0, 2))])), Some(false));
        assert_eq!(truth(all([case(is_null(1), equal(0, 0)), equal(0, 2)])), Some(false));
    }
}
