//! DEFERRABLE, INITIALLY DEFERRED, ENFORCED and the like behind a column's constraint: which may stand behind which.

use kilndb_base::{Error, Result, sqlstate};
use kilndb_syntax::nodes;
use kilndb_syntax::raw::ConstrType as C;

/// What has been said behind a constraint.
#[derive(Default)]
struct Said {
    /// NOT DEFERRABLE: false.
    deferrable: Option<bool>,
    /// INITIALLY IMMEDIATE: false.
    deferred: Option<bool>,
    enforceability: bool,
}

fn can_be_deferred(constraint: Option<C::Type>) -> bool {
    matches!(constraint, Some(C::CONSTR_PRIMARY | C::CONSTR_UNIQUE | C::CONSTR_EXCLUSION | C::CONSTR_FOREIGN))
}

/// 42601 if one of them is out of place.
pub(super) fn check<'c>(constraints: impl IntoIterator<Item = &'c nodes::Constraint>, source: &str) -> Result<()> {
    let (mut of, mut said) = (None, Said::default());
    for c in constraints {
        let refused = |message: &str| {
            Err(Error::new(sqlstate::SYNTAX_ERROR, message).or_position(kilndb_syntax::position_of(source, c.location)))
        };
        let must_be_deferrable = "constraint declared INITIALLY DEFERRED must be DEFERRABLE";
        match c.contype {
            C::CONSTR_ATTR_DEFERRABLE | C::CONSTR_ATTR_NOT_DEFERRABLE => {
                let is_deferrable = c.contype == C::CONSTR_ATTR_DEFERRABLE;
                if !can_be_deferred(of) {
                    return refused(if is_deferrable {
                        "misplaced DEFERRABLE clause"
                    } else {
                        "misplaced NOT DEFERRABLE clause"
                    });
                }
                if said.deferrable.replace(is_deferrable).is_some() {
                    return refused("multiple DEFERRABLE/NOT DEFERRABLE clauses not allowed");
                }
                if !is_deferrable && said.deferred == Some(true) {
                    return refused(must_be_deferrable);
                }
            }
            C::CONSTR_ATTR_DEFERRED | C::CONSTR_ATTR_IMMEDIATE => {
                let is_deferred = c.contype == C::CONSTR_ATTR_DEFERRED;
                if !can_be_deferred(of) {
                    return refused(if is_deferred {
                        "misplaced INITIALLY DEFERRED clause"
                    } else {
                        "misplaced INITIALLY IMMEDIATE clause"
                    });
                }
                if said.deferred.replace(is_deferred).is_some() {
                    return refused("multiple INITIALLY IMMEDIATE/DEFERRED clauses not allowed");
                }
                if is_deferred && said.deferrable == Some(false) {
                    return refused(must_be_deferrable);
                }
            }
            C::CONSTR_ATTR_ENFORCED | C::CONSTR_ATTR_NOT_ENFORCED => {
                if !matches!(of, Some(C::CONSTR_CHECK | C::CONSTR_FOREIGN)) {
                    return refused(if c.contype == C::CONSTR_ATTR_ENFORCED {
                        "misplaced ENFORCED clause"
                    } else {
                        "misplaced NOT ENFORCED clause"
                    });
                }
                if std::mem::replace(&mut said.enforceability, true) {
                    return refused("multiple ENFORCED/NOT ENFORCED clauses not allowed");
                }
            }
            kind => (of, said) = (Some(kind), Said::default()),
        }
    }
    Ok(())
}
