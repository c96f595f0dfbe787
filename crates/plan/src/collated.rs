//! Programs of what depends on a collation: comparisons, patterns, cases of letters.
//!
//! Must not know: how texts are compared, which `kilndb_types::collation` knows.

use super::expression::{CExpr, RowComparison, ScalarCall};
use super::*;
use kilndb_base::Error;
use kilndb_bind::collation::of_pair;
use kilndb_types::Datum;
use kilndb_types::{collated_like, locale_case};

/// What a comparison operator of texts, or of arrays of them, asks; None: it is another operator.
pub(super) fn kind_of(f: &FuncExpr) -> Option<CompareKind> {
    let is_own = f.operator != 0 && f.oid < kilndb_catalog::builtin::FIRST_USER_OID;
    if !is_own || !f.args.iter().all(|a| is_collatable(a.ty)) {
        return None;
    }
    CompareKind::of_operator(&f.name)
}

/// What of texts cannot be done by a collation under which different texts are equal, as errors call it.
fn unsupported_use(f: &FuncExpr) -> Option<&'static str> {
    Some(match f.name.as_ref() {
        "~~*" | "!~~*" => "ILIKE",
        "~" | "!~" | "~*" | "!~*" => "regular expressions",
        name if name.starts_with("regexp_") || name == "similar_to_escape" => "regular expressions",
        "strpos" | "position" | "replace" | "split_part" | "string_to_array" | "string_to_table" | "starts_with"
        | "^@" => "substring searches",
        _ => return None,
    })
}

impl Planner<'_> {
    /// What the values of two expressions are compared as. Errors: 42P22 where their collation is not known.
    pub(super) fn pair_type(&self, left: &Expr, right: &Expr) -> Result<Oid> {
        of_pair(left, right).order_type(self.base_type(left.ty))
    }

    /// A call whose result depends on the collation of its inputs; None: it does not.
    pub(super) fn compile_collated(&self, f: &FuncExpr, e: &Expr, layout: &Layout) -> Result<Option<CExpr>> {
        if let (Some(kind), [left, right]) = (kind_of(f), f.args.as_slice()) {
            let is_by_bytes = matches!(kind, CompareKind::Eq | CompareKind::Ne)
                && e.collation.strength != CollationStrength::Conflict
                && e.collation.collation.is_deterministic();
            return if is_by_bytes { Ok(None) } else { self.compare_by_rules(kind, left, right, layout).map(Some) };
        }
        let Some(rules) = e.collation.collation.rules else { return Ok(None) };
        if let Some(what) = unsupported_use(f).filter(|_| !rules.is_deterministic) {
            return Err(Error::unsupported(format!("nondeterministic collations are not supported for {what}")));
        }
        let like = collated_like::by_rules(f.oid).filter(|_| !rules.is_deterministic);
        let Some(call) = like.or_else(|| locale_case::by_locale(f.oid)) else { return Ok(None) };
        let by = CExpr::Const(Datum::Oid(rules.order_type(kilndb_types::oids::TEXT)));
        let args = self.compile_all(&f.args, layout)?.into_vec().into_iter().chain([by]).collect();
        self.fold(CExpr::Call { call: ScalarCall::plain(call, f.strict), args }, false).map(Some)
    }

    fn compare_by_rules(&self, kind: CompareKind, left: &Expr, right: &Expr, layout: &Layout) -> Result<CExpr> {
        let ty = self.pair_type(left, right)?;
        Ok(CExpr::RowCompare(Box::new(RowComparison {
            kind,
            types: [ty].into(),
            left: [self.compile(left, layout)?].into(),
            right: [self.compile(right, layout)?].into(),
        })))
    }

    /// IS DISTINCT FROM, NULLIF, and ANY and ALL of arrays, where equal texts may have different bytes.
    pub(super) fn compile_by_rules(&self, e: &Expr, layout: &Layout) -> Result<CExpr> {
        let refused = || Error::unsupported("ANY and ALL of arrays by nondeterministic collations are not supported");
        let not_null = |e: &Expr, negated| -> Result<CExpr> {
            Ok(CExpr::IsNull { arg: Box::new(self.compile(e, layout)?), negated, row: false })
        };
        match &e.kind {
            ExprKind::NullIf(f) => {
                let [l, r] = f.args.as_slice() else { return Err(refused()) };
                let equal = self.compare_by_rules(CompareKind::Eq, l, r, layout)?;
                let otherwise = Box::new(self.compile(l, layout)?);
                Ok(CExpr::Case { arg: None, whens: [(equal, CExpr::Const(Datum::Null))].into(), otherwise })
            }
            ExprKind::IsDistinct { eq, negated } => {
                let [l, r] = eq.args.as_slice() else { return Err(refused()) };
                let kind = if *negated { CompareKind::Eq } else { CompareKind::Ne };
                let whens = [
                    (not_null(l, false)?, not_null(r, !*negated)?),
                    (not_null(r, false)?, CExpr::Const(Datum::Bool(!*negated))),
                ];
                let otherwise = Box::new(self.compare_by_rules(kind, l, r, layout)?);
                Ok(CExpr::Case { arg: None, whens: whens.into(), otherwise })
            }
            ExprKind::ScalarArray { func, any } => {
                let [l, r] = func.args.as_slice() else { return Err(refused()) };
                self.any_by_rules(func, *any, self.pair_type(l, r)?, layout)
            }
            _ => Err(refused()),
        }
    }

    /// `x = ANY (array)` and `x <> ALL (array)`: the array is one that is known.
    fn any_by_rules(&self, func: &FuncExpr, any: bool, ty: Oid, layout: &Layout) -> Result<CExpr> {
        let [l, r] = func.args.as_slice() else { return Err(Error::internal("ANY without two sides")) };
        let negated = match (func.name.as_ref(), any) {
            ("=", true) => false,
            ("<>", false) => true,
            _ => return Err(Error::unsupported("this ANY or ALL by a nondeterministic collation is not supported")),
        };
        let CExpr::Const(Datum::Array(list)) = self.compile(r, layout)? else {
            return Err(Error::unsupported("ANY and ALL of arrays by nondeterministic collations are not supported"));
        };
        let arg = self.compile(l, layout)?;
        member_of_constants(ty, arg, &list.elements, negated)
    }
}

/// Whether the argument is among constants, which are told apart as values of the type.
pub(super) fn member_of_constants(ty: Oid, arg: CExpr, elements: &[Datum], negated: bool) -> Result<CExpr> {
    let mut set = kilndb_base::hash::HashSet::default();
    for d in elements.iter().filter(|d| !d.is_null()) {
        let mut k = Vec::new();
        kilndb_types::key::hash_equal_key(ty, d, &mut k)?;
        set.insert(k);
    }
    let has_null = elements.iter().any(Datum::is_null);
    Ok(CExpr::InSet { ty, arg: Box::new(arg), set: Arc::new(set), has_null, negated })
}
