//! Which collation an expression has, and what is compared by it: PostgreSQL's rules of derivation (section 23.2.1).
//!
//! An expression of a type with collations has the one that its value has; an expression of any other type has the one
//! that its inputs have, which is what a comparison compares by.
//!
//! Invariants
//! 1. Whoever makes an expression of others makes its collation with it ([`derived`]); later changes of the others
//!    leave it.
//!
//! Must not know: rules of languages, catalogs.

use super::Binder;
use super::ir::*;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::collation_read::{collation_shown, not_collatable, unknown_collation};
use kilndb_syntax::nodes;
use kilndb_types::citext::CITEXT;
use kilndb_types::collation::{C_COLLATION, Collation, DEFAULT_COLLATION};
use kilndb_types::oids;

/// How much a collation counts beside another, least first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum CollationStrength {
    #[default]
    None,
    /// A column's or a type's.
    Implicit,
    /// Two inputs have different implicit ones: whoever needs to know fails.
    Conflict,
    /// COLLATE says so.
    Explicit,
    /// Two COLLATE clauses say different things.
    Mismatch,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct DerivedCollation {
    pub collation: Collation,
    pub strength: CollationStrength,
    /// Of a conflict or a mismatch: the other collation.
    pub other: Oid,
    /// Where the COLLATE clause stands.
    pub loc: i32,
}

impl From<Collation> for DerivedCollation {
    fn from(collation: Collation) -> DerivedCollation {
        let strength = if collation.oid == 0 { CollationStrength::None } else { CollationStrength::Implicit };
        DerivedCollation { collation, strength, other: 0, loc: -1 }
    }
}

impl DerivedCollation {
    pub fn explicit(collation: Collation, loc: i32) -> DerivedCollation {
        DerivedCollation { collation, strength: CollationStrength::Explicit, other: 0, loc }
    }
    /// Of a column whose values have been computed elsewhere.
    pub fn implicit(self) -> DerivedCollation {
        match self.strength {
            CollationStrength::Explicit => self.collation.into(),
            _ => self,
        }
    }
    /// That of an expression with these two inputs.
    fn merged(self, next: DerivedCollation) -> DerivedCollation {
        use CollationStrength::{Conflict, Explicit, Implicit, Mismatch};
        let (own, other) = (self.collation.oid, next.collation.oid);
        if self.strength != next.strength || own == other {
            return if next.strength > self.strength { next } else { self };
        }
        match self.strength {
            Implicit if own == DEFAULT_COLLATION => next,
            Implicit if other == DEFAULT_COLLATION => self,
            Implicit => DerivedCollation { strength: Conflict, other, ..self },
            Explicit => DerivedCollation { strength: Mismatch, other, loc: next.loc, ..self },
            _ => self,
        }
    }
    /// What values of the type are compared as. Errors: 42P22 where it is not known by which collation.
    pub fn order_type(self, type_oid: Oid) -> Result<Oid> {
        self.check_known("string comparison")?;
        Ok(self.collation.order_type(type_oid))
    }
    /// Whether a comparison is something else than one of bytes, or fails.
    pub fn needs_care(self) -> bool {
        self.collation.rules.is_some() || self.strength == CollationStrength::Conflict
    }
    /// 42P22 where a use needs to know the collation, and it is not known.
    pub fn check_known(self, of: &str) -> Result<()> {
        if self.strength != CollationStrength::Conflict {
            return Ok(());
        }
        Err(Error::new(
            sqlstate::INDETERMINATE_COLLATION,
            format!("could not determine which collation to use for {of}"),
        )
        .with_hint("Use the COLLATE clause to set the collation explicitly."))
    }
}

/// Whether values of the type may have a collation. Of users' types nothing is known here.
pub fn is_collatable(ty: Oid) -> bool {
    const CITEXT_ARRAY: Oid = CITEXT + 1;
    matches!(
        ty,
        oids::TEXT
            | oids::VARCHAR
            | oids::BPCHAR
            | oids::NAME
            | oids::UNKNOWN
            | CITEXT
            | CITEXT_ARRAY
            | oids::TEXT_ARRAY
            | oids::VARCHAR_ARRAY
            | oids::BPCHAR_ARRAY
            | oids::NAME_ARRAY
    ) || ty >= kilndb_catalog::builtin::FIRST_USER_OID
}

/// The collation of a type's values.
pub fn of_type(ty: Oid) -> DerivedCollation {
    let oid = match ty {
        oids::NAME | oids::NAME_ARRAY => C_COLLATION,
        ty if is_collatable(ty) => DEFAULT_COLLATION,
        _ => 0,
    };
    Collation::of_bytes(oid).into()
}

/// What expressions that give the same value have in common.
pub(crate) fn merged<'a>(inputs: impl IntoIterator<Item = &'a Expr>) -> DerivedCollation {
    let inputs = inputs.into_iter().filter(|e| is_collatable(e.ty));
    inputs.fold(DerivedCollation::default(), |known, e| known.merged(e.collation))
}

/// The collation of an expression of this kind and type.
pub fn derived(kind: &ExprKind, ty: Oid) -> DerivedCollation {
    let found = match kind {
        ExprKind::Collate { collation, arg, .. } => DerivedCollation::explicit(*collation, arg.loc),
        ExprKind::Func(f) | ExprKind::NullIf(f) => merged(&f.args),
        ExprKind::IsDistinct { eq, .. } => merged(&eq.args),
        ExprKind::ScalarArray { func, .. } => merged(&func.args),
        ExprKind::Cast { arg, .. } | ExprKind::Subscript { arg, .. } | ExprKind::SubscriptAssign { arg, .. } => {
            merged([&**arg])
        }
        ExprKind::Case { whens, otherwise, .. } => {
            merged(whens.iter().map(|(_, result)| result).chain(otherwise.as_deref()))
        }
        ExprKind::Coalesce(list) | ExprKind::MinMax { args: list, .. } | ExprKind::Array { elements: list, .. } => {
            merged(list)
        }
        ExprKind::Agg(call) => merged(&call.args),
        ExprKind::Window(call) => merged(&call.args),
        ExprKind::SubLink(link) if matches!(link.kind, SubKind::Scalar | SubKind::Array) => {
            let first = link.query.targets.iter().find(|t| !t.junk);
            first.map_or_else(DerivedCollation::default, |t| t.expr.collation.implicit())
        }
        _ => DerivedCollation::default(),
    };
    if found.strength == CollationStrength::None { of_type(ty) } else { found }
}

/// What a routine that is called with these arguments compares its parameters by; none: by their types' own.
pub fn of_arguments(args: &[Expr]) -> Collation {
    let found = merged(args);
    let is_own = found.collation.oid == DEFAULT_COLLATION || found.strength == CollationStrength::Conflict;
    if is_own { Collation::default() } else { found.collation }
}

/// By what two sides are compared.
pub fn of_pair(left: &Expr, right: &Expr) -> DerivedCollation {
    merged([left, right])
}

impl Binder<'_> {
    /// 42P21 where COLLATE clauses contradict each other.
    pub(crate) fn check_collation(&self, e: &Expr) -> Result<()> {
        if e.collation.strength != CollationStrength::Mismatch {
            return Ok(());
        }
        let message = format!(
            "collation mismatch between explicit collations \"{}\" and \"{}\"",
            self.collation_name(e.collation.collation.oid)?,
            self.collation_name(e.collation.other)?
        );
        self.err(sqlstate::COLLATION_MISMATCH, message, e.collation.loc)
    }

    /// The collation that a clause names, and how it is shown.
    pub(crate) fn collation_written(&self, c: &nodes::CollateClause) -> Result<(Collation, String)> {
        let parts: Vec<&str> = c.collname().iter().filter_map(|n| n.as_str()).collect();
        let (schema, name) = match parts.as_slice() {
            [name] => (None, *name),
            [schema, name] => (Some(*schema), *name),
            _ => {
                let message = format!("improper qualified name (too many dotted names): {}", parts.join("."));
                return self.err(sqlstate::SYNTAX_ERROR, message, c.location);
            }
        };
        let found = self.catalog.collation_by_name(schema, name)?;
        let Some(info) = found else {
            return Err(self.at(unknown_collation(&parts.join(".")), c.location));
        };
        self.note_collation(schema, &info, c.location);
        let shown = collation_shown(self.catalog, &info)?;
        Ok((info.collation()?, shown))
    }

    /// The name of an expression's collation, if it has one; `given`: its type as it was written. Errors: 42804 for types
    /// without collations.
    pub(crate) fn collation_shown(&self, e: &Expr, given: Oid) -> Result<Option<String>> {
        if given == oids::UNKNOWN && e.collation.strength != CollationStrength::Explicit {
            return Ok(None);
        }
        if !is_collatable(self.base_type(e.ty)) {
            return Err(not_collatable(&self.type_name(e.ty)));
        }
        if e.collation.strength == CollationStrength::Conflict {
            return Ok(None);
        }
        let Some(info) = self.catalog.collation_info_by_oid(e.collation.collation.oid)? else { return Ok(None) };
        collation_shown(self.catalog, &info).map(Some)
    }

    /// That of a column of a set operation. Errors: 42P21 where the two sides have different ones, and rows are compared.
    pub(crate) fn common_collation(&self, sides: [&Target; 2], all: bool) -> Result<DerivedCollation> {
        let found = merged(sides.map(|t| &t.expr));
        if !all {
            self.refuse_conflict(found, sides[1].expr.loc)?;
        }
        Ok(found.implicit())
    }

    /// 42P21 where two implicit collations meet in what rows are told apart or sorted by.
    pub(crate) fn refuse_conflict(&self, found: DerivedCollation, loc: i32) -> Result<()> {
        if found.strength == CollationStrength::Conflict {
            let message = format!(
                "collation mismatch between implicit collations \"{}\" and \"{}\"",
                self.collation_name(found.collation.oid)?,
                self.collation_name(found.other)?
            );
            let error = Error::new(sqlstate::COLLATION_MISMATCH, message)
                .with_hint("You can choose the collation by applying the COLLATE clause to one or both expressions.");
            return Err(self.at(error, loc));
        }
        Ok(())
    }

    pub(crate) fn collation_name(&self, oid: Oid) -> Result<String> {
        Ok(self.catalog.collation_info_by_oid(oid)?.map_or_else(String::new, |info| info.name))
    }
}
