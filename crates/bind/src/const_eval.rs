//! Values of literals, and folding of calls whose result can never change.

use super::Binder;
use super::ir::*;
use kilndb_base::{Oid, Result};
use kilndb_catalog::value_host::with_context;
use kilndb_types::{Datum, io, oids};

/// Types whose text form means the same under all settings and needs no name look-up.
fn settings_free(oid: Oid) -> bool {
    if let Some(ty) = kilndb_types::types::descriptor(oid) {
        return ty.is_settings_free;
    }
    matches!(
        oid,
        oids::INT4RANGE
            | oids::INT8RANGE
            | oids::NUMRANGE
            | oids::BOOL_ARRAY
            | oids::BYTEA_ARRAY
            | oids::CHAR_ARRAY
            | oids::NAME_ARRAY
            | oids::INT2_ARRAY
            | oids::INT4_ARRAY
            | oids::TEXT_ARRAY
            | oids::OID_ARRAY
            | oids::BPCHAR_ARRAY
            | oids::VARCHAR_ARRAY
            | oids::INT8_ARRAY
            | oids::FLOAT4_ARRAY
            | oids::FLOAT8_ARRAY
            | oids::NUMERIC_ARRAY
            | oids::UUID_ARRAY
    )
}

impl Binder<'_> {
    /// The literal `text` as a value of type `ty`.
    pub(crate) fn literal(&self, text: &str, ty: Oid, loc: i32) -> Result<Expr> {
        self.literal_typmod(text, ty, -1, loc)
    }

    /// A literal as [`Binder::literal`] makes it, with the type modifier that the type's input function gets to see.
    pub(crate) fn literal_typmod(&self, text: &str, ty: Oid, typmod: i32, loc: i32) -> Result<Expr> {
        self.note_literal((ty, typmod), text, loc);
        self.note_value(ty, text, loc)?;
        if matches!(ty, oids::TEXT | oids::VARCHAR | oids::UNKNOWN | oids::CSTRING) {
            return Ok(Expr::new(ExprKind::Const(Datum::text(text)), ty).at(loc));
        }
        if ty >= kilndb_catalog::builtin::FIRST_USER_OID
            && let Some(value) = kilndb_catalog::user_types::enum_value(self.catalog, ty, text)
        {
            return Ok(Expr::new(ExprKind::Const(value.map_err(|e| self.at(e, loc))?), ty).at(loc));
        }
        if settings_free(ty) {
            let value =
                with_context(self.catalog, |cx| io::input(ty, text, typmod, cx)).map_err(|e| self.at(e, loc))?;
            return Ok(Expr::new(ExprKind::Const(value), ty).at(loc));
        }
        if let Some(eval) = self.eval {
            let value = io::input(ty, text, typmod, eval).map_err(|e| self.at(e, loc))?;
            return Ok(Expr::new(ExprKind::Const(value), ty).at(loc));
        }
        let inner = Expr::new(ExprKind::Const(Datum::text(text)), oids::UNKNOWN).at(loc);
        Ok(Expr::new(ExprKind::Cast { arg: Box::new(inner), kind: CastKind::InOut, explicit: false }, ty).at(loc))
    }
}
