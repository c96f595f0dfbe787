//! Does one condition follow from others? For the predicates of partial indexes: a scan may use such an index, and
//! ON CONFLICT may choose it, if the statement's conditions imply its predicate.
//!
//! Invariants
//! 1. "Implies" means: in every row in which all given conditions are true, the wanted one is true. What cannot be
//!    proved is not implied, whether it is so or not.
//! 2. What is proved: a condition implies itself; AND, OR and lists of constants are taken apart; comparisons of one
//!    expression with two constants, or of the same two expressions, imply each other as btree orders them; a condition
//!    that is not true of a NULL implies IS NOT NULL.
//! 3. A parameter's value is not known: nothing follows from it.

use super::ir::*;
use super::{Binder, same};
use kilndb_base::Oid;
use kilndb_catalog::CatalogView;
use kilndb_catalog::builtin::FIRST_USER_OID;
use kilndb_catalog::extension::is_member;
use kilndb_catalog::value_host::with_context;
use kilndb_types::{Datum, cast, functions, io, key, oids};

/// Do the conditions `given`, which are all true, imply `wanted`?
pub fn implies(catalog: &dyn CatalogView, given: &[Expr], wanted: &Expr) -> bool {
    let prover = Prover { catalog };
    let given = PredicateClause::And(given.iter().map(|e| prover.clause(e, false)).collect());
    prover.follows(&given, &prover.clause(wanted, false))
}

/// A condition as its AND and OR structure, without NOT where an operator says the same.
enum PredicateClause {
    And(Vec<PredicateClause>),
    Or(Vec<PredicateClause>),
    Atom(Expr),
}

/// Longer lists of constants are not taken apart.
const ELEMENTS_MAX: usize = 100;

/// Strategies of btree, and the negation of its equality.
const LESS: u8 = 1;
const LESS_EQUAL: u8 = 2;
const EQUAL: u8 = 3;
const GREATER_EQUAL: u8 = 4;
const GREATER: u8 = 5;
const NOT_EQUAL: u8 = 6;

/// `left op right` with an operator of btree.
struct BtreeComparison<'a> {
    left: &'a Expr,
    right: &'a Expr,
    strategy: u8,
}

impl<'a> BtreeComparison<'a> {
    fn swapped(&self) -> BtreeComparison<'a> {
        let strategy = match self.strategy {
            LESS => GREATER,
            LESS_EQUAL => GREATER_EQUAL,
            GREATER_EQUAL => LESS_EQUAL,
            GREATER => LESS,
            other => other,
        };
        BtreeComparison { left: self.right, right: self.left, strategy }
    }
}

struct Prover<'a> {
    catalog: &'a dyn CatalogView,
}

impl Prover<'_> {
    fn clause(&self, e: &Expr, negated: bool) -> PredicateClause {
        let list = |l: &[Expr]| l.iter().map(|x| self.clause(x, negated)).collect();
        match &e.kind {
            ExprKind::And(l) if !negated => PredicateClause::And(list(l)),
            ExprKind::And(l) => PredicateClause::Or(list(l)),
            ExprKind::Or(l) if !negated => PredicateClause::Or(list(l)),
            ExprKind::Or(l) => PredicateClause::And(list(l)),
            ExprKind::Not(inner) => self.clause(inner, !negated),
            ExprKind::ScalarArray { func, any } => {
                let Some(func) = self.negated_call(func, negated) else { return not(e) };
                match elements(&func) {
                    Some(parts) if *any != negated => PredicateClause::Or(parts),
                    Some(parts) => PredicateClause::And(parts),
                    None if negated => not(e),
                    None => PredicateClause::Atom(e.clone()),
                }
            }
            _ if !negated => PredicateClause::Atom(e.clone()),
            ExprKind::Func(f) => match self.negated_call(f, true) {
                Some(f) => PredicateClause::Atom(Expr { kind: ExprKind::Func(Box::new(f)), ..e.clone() }),
                None => not(e),
            },
            // Of a row both IS NULL and IS NOT NULL may be false.
            ExprKind::IsNull { arg, negated } if !self.is_row(arg) => PredicateClause::Atom(Expr {
                kind: ExprKind::IsNull { arg: arg.clone(), negated: !negated },
                ..e.clone()
            }),
            _ => not(e),
        }
    }

    /// Is IS NULL asked of each field of the value?
    fn is_row(&self, e: &Expr) -> bool {
        let mut ty = e.ty;
        while let Ok(Some(info)) = self.catalog.type_by_oid(ty) {
            match info.kind {
                b'd' => ty = info.base_type,
                kind => return kind == b'c' || ty == oids::RECORD,
            }
        }
        matches!(e.kind, ExprKind::Row { .. }) || ty == oids::RECORD
    }

    /// The call as it is, or of the operator that says the opposite.
    fn negated_call(&self, f: &FuncExpr, negated: bool) -> Option<FuncExpr> {
        if !negated {
            return Some(f.clone());
        }
        let negator = self.catalog.operator_by_oid(f.operator).ok()??.negator;
        let operator = self.catalog.operator_by_oid(negator).ok()??;
        let name = operator.name.as_str().into();
        Some(FuncExpr { oid: operator.function, operator: negator, name, ..f.clone() })
    }

    fn follows(&self, given: &PredicateClause, wanted: &PredicateClause) -> bool {
        match (given, wanted) {
            (_, PredicateClause::And(parts)) => parts.iter().all(|w| self.follows(given, w)),
            (PredicateClause::Or(parts), _) => !parts.is_empty() && parts.iter().all(|g| self.follows(g, wanted)),
            (PredicateClause::And(parts), _) if parts.iter().any(|g| self.follows(g, wanted)) => true,
            (_, PredicateClause::Or(parts)) => parts.iter().any(|w| self.follows(given, w)),
            (PredicateClause::Atom(g), PredicateClause::Atom(w)) => self.atom_follows(g, w),
            (PredicateClause::And(_), PredicateClause::Atom(_)) => false,
        }
    }

    fn atom_follows(&self, given: &Expr, wanted: &Expr) -> bool {
        if same(given, wanted) {
            return true;
        }
        if let ExprKind::IsNull { arg, negated: true } = &wanted.kind
            && !self.is_row(arg)
            && is_strict_for(given, arg, true)
        {
            return true;
        }
        let (Some(g), Some(w)) = (self.comparison(given), self.comparison(wanted)) else {
            return self.is_boolean_of(given, wanted);
        };
        self.comparison_follows(&g, &w) || self.comparison_follows(&g.swapped(), &w)
    }

    /// `x = true` implies `x`, `x = false` implies `NOT x`.
    fn is_boolean_of(&self, given: &Expr, wanted: &Expr) -> bool {
        let Some(BtreeComparison { left, right, strategy: EQUAL }) = self.comparison(given) else { return false };
        match (&right.kind, &wanted.kind) {
            (ExprKind::Const(Datum::Bool(true)), _) => same(left, wanted),
            (ExprKind::Const(Datum::Bool(false)), ExprKind::Not(inner)) => same(left, inner),
            _ => false,
        }
    }

    fn comparison<'e>(&self, e: &'e Expr) -> Option<BtreeComparison<'e>> {
        let ExprKind::Func(f) = &e.kind else { return None };
        let [left, right] = f.args.as_slice() else { return None };
        // What is known of constants is known of their bytes.
        if f.operator == 0 || f.operator >= FIRST_USER_OID || e.collation.collation.rules.is_some() {
            return None;
        }
        let operator = self.catalog.operator_by_oid(f.operator).ok()??;
        let strategy = |operator: Oid| self.catalog.btree_strategy(operator).ok().flatten();
        let strategy = match operator.name.as_str() {
            "<" | "<=" | "=" | ">=" | ">" => strategy(f.operator)?,
            "<>" if strategy(operator.negator) == Some(EQUAL) => NOT_EQUAL,
            _ => return None,
        };
        Some(BtreeComparison { left, right, strategy })
    }

    /// Both with the same left side.
    fn comparison_follows(&self, given: &BtreeComparison<'_>, wanted: &BtreeComparison<'_>) -> bool {
        let wanted = match (same(given.left, wanted.left), same(given.left, wanted.right)) {
            (true, _) => BtreeComparison { ..*wanted },
            (false, true) => wanted.swapped(),
            _ => return false,
        };
        if same(given.right, wanted.right) {
            return operators_follow(given.strategy, wanted.strategy);
        }
        let (Some(g), Some(w)) = (self.constant(given.right), self.constant(wanted.right)) else { return false };
        match constants_must_be(given.strategy, wanted.strategy) {
            Some(name) => self.holds(name, g, w),
            None => false,
        }
    }

    /// Is `a name b` true?
    fn holds(&self, name: &str, a: Expr, b: Expr) -> bool {
        let binder = Binder::new(self.catalog, "".into(), Vec::new());
        let ty = binder.base_type(a.ty);
        // The operators of an extension's type may be in a schema that no path has.
        if is_member(ty) && ty == binder.base_type(b.ty) {
            let (Some(a), Some(b)) = (a.as_const(), b.as_const()) else { return false };
            let order = key::compare(ty, a, b);
            return match name {
                "<" => order.is_lt(),
                "<=" => order.is_le(),
                "=" => order.is_eq(),
                ">=" => order.is_ge(),
                ">" => order.is_gt(),
                _ => order.is_ne(),
            };
        }
        let Ok(comparison) = binder.make_operator(None, name, Some(a), b, -1) else { return false };
        matches!(self.constant(&comparison).as_ref().and_then(Expr::as_const), Some(Datum::Bool(true)))
    }

    /// The value of an expression without columns and parameters, as a constant that is not NULL.
    fn constant(&self, e: &Expr) -> Option<Expr> {
        let value = match &e.kind {
            ExprKind::Const(d) => d.clone(),
            ExprKind::Func(f) if f.volatility == b'i' && f.internal && !f.returns_set => {
                let args: Option<Vec<Datum>> = f.args.iter().map(|a| self.constant(a)?.as_const().cloned()).collect();
                let (function, args) = (functions::lookup(f.oid)?, args?);
                with_context(self.catalog, |cx| function(cx, &args).ok())?
            }
            ExprKind::Cast { arg, kind: CastKind::InOut, .. } if arg.ty == oids::UNKNOWN => {
                let Datum::Text(text) = self.constant(arg)?.as_const()?.clone() else { return None };
                if !means_the_same_everywhere(e.ty, &text) {
                    return None;
                }
                with_context(self.catalog, |cx| io::input(e.ty, &text, -1, cx).ok())?
            }
            ExprKind::Cast { arg, kind: CastKind::Relabel, .. } => {
                let value = self.constant(arg)?.as_const()?.clone();
                match cast::lookup_cast(arg.ty, e.ty) {
                    Some(f) => with_context(self.catalog, |cx| f(&value, -1, false, cx).ok())?,
                    None => value,
                }
            }
            _ => return None,
        };
        (!value.is_null()).then(|| Expr { kind: ExprKind::Const(value), ..e.clone() })
    }
}

fn not(e: &Expr) -> PredicateClause {
    PredicateClause::Atom(Expr::new(ExprKind::Not(Box::new(e.clone())), oids::BOOL))
}

/// A comparison with each element of a list of constants.
fn elements(f: &FuncExpr) -> Option<Vec<PredicateClause>> {
    let [scalar, array] = f.args.as_slice() else { return None };
    let elements: Vec<Expr> = match &array.kind {
        ExprKind::Const(Datum::Array(a)) => {
            a.elements.iter().map(|d| Expr::new(ExprKind::Const(d.clone()), a.element_type)).collect()
        }
        ExprKind::Array { elements, multidim: false, .. } => elements.clone(),
        _ => return None,
    };
    if elements.is_empty() || elements.len() > ELEMENTS_MAX {
        return None;
    }
    let compare = |element: Expr| {
        let call = FuncExpr { args: vec![scalar.clone(), element], ..f.clone() };
        PredicateClause::Atom(Expr::new(ExprKind::Func(Box::new(call)), oids::BOOL))
    };
    Some(elements.into_iter().map(compare).collect())
}

/// Is the condition anything but true where `part` is NULL? `may_be_false`: false is as good as NULL.
fn is_strict_for(e: &Expr, part: &Expr, may_be_false: bool) -> bool {
    if same(e, part) || same(unlabelled(e), unlabelled(part)) {
        return true;
    }
    match &e.kind {
        ExprKind::Func(f) => f.strict && f.args.iter().any(|a| is_strict_for(a, part, false)),
        ExprKind::Cast { arg, .. } => is_strict_for(arg, part, false),
        ExprKind::ScalarArray { func, any: true } => {
            func.strict && may_be_false && func.args.first().is_some_and(|a| is_strict_for(a, part, false))
        }
        _ => false,
    }
}

fn unlabelled(e: &Expr) -> &Expr {
    match &e.kind {
        ExprKind::Cast { arg, kind: CastKind::Relabel, .. } => arg,
        _ => e,
    }
}

/// Whether a comparison of two values implies another comparison of the same two. Both are strategies of btree.
fn operators_follow(given: u8, wanted: u8) -> bool {
    given == wanted
        || matches!(
            (given, wanted),
            (LESS, LESS_EQUAL | NOT_EQUAL) | (EQUAL, LESS_EQUAL | GREATER_EQUAL) | (GREATER, GREATER_EQUAL | NOT_EQUAL)
        )
}

/// How the constant of `x given g` must compare with that of `x wanted w` for the second to follow.
fn constants_must_be(given: u8, wanted: u8) -> Option<&'static str> {
    Some(match (given, wanted) {
        (LESS, LESS | LESS_EQUAL | NOT_EQUAL) | (LESS_EQUAL, LESS_EQUAL) => "<=",
        (LESS_EQUAL, LESS | NOT_EQUAL) => "<",
        (GREATER, GREATER | GREATER_EQUAL | NOT_EQUAL) | (GREATER_EQUAL, GREATER_EQUAL) => ">=",
        (GREATER_EQUAL, GREATER | NOT_EQUAL) => ">",
        (EQUAL, LESS) => "<",
        (EQUAL, LESS_EQUAL) => "<=",
        (EQUAL, EQUAL) | (NOT_EQUAL, NOT_EQUAL) => "=",
        (EQUAL, GREATER_EQUAL) => ">=",
        (EQUAL, GREATER) => ">",
        (EQUAL, NOT_EQUAL) => "<>",
        _ => return None,
    })
}

/// Whether a text means the same value under all settings though the type's texts depend on them: dates that begin with
/// the year do.
fn means_the_same_everywhere(type_oid: Oid, text: &str) -> bool {
    let year_first = text.len() >= 5 && text.bytes().take(4).all(|b| b.is_ascii_digit()) && text.as_bytes()[4] == b'-';
    matches!(type_oid, oids::DATE | oids::TIMESTAMP) && year_first
}
