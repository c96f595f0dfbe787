//! Values of literals, and folding of calls whose result can never change.

use super::Binder;
use super::ir::*;
use crate::catalog::CatalogView;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::{Datum, EvalContext, FormatSettings, Host, io, oids};
use std::cell::Cell;

/// What value code may ask while a statement is bound: the catalogs, but no session.
pub struct BindHost<'a>(pub &'a dyn CatalogView);

impl Host for BindHost<'_> {
    fn format_type(&self, oid: Oid, typmod: i32) -> String {
        self.0.format_type(oid, typmod)
    }
    fn reg_input(&self, _kind: Oid, text: &str) -> Result<Oid> {
        Err(Error::new(sqlstate::UNDEFINED_OBJECT, format!("\"{text}\" cannot be looked up here")))
    }
    fn reg_output(&self, _kind: Oid, oid: Oid) -> String {
        oid.to_string()
    }
    fn element_type(&self, oid: Oid) -> Oid {
        match self.0.type_by_oid(oid) {
            Ok(Some(t)) if t.category == b'A' => t.element,
            _ => 0,
        }
    }
    fn array_type(&self, oid: Oid) -> Oid {
        self.0.type_by_oid(oid).ok().flatten().map_or(0, |t| t.array)
    }
    fn composite_fields(&self, oid: Oid) -> Option<Vec<(String, Oid, i32)>> {
        let t = self.0.type_by_oid(oid).ok().flatten()?;
        let table = self.0.table_by_oid(t.table_oid).ok().flatten()?;
        Some(table.columns.iter().filter(|c| !c.dropped).map(|c| (c.name.clone(), c.type_oid, c.typmod)).collect())
    }
    fn range_type(&self, oid: Oid) -> Option<kilndb_types::range::RangeType> {
        self.0.type_by_oid(oid).ok().flatten().and_then(|t| t.range)
    }
    fn under_domain(&self, oid: Oid) -> Option<(Oid, i32)> {
        crate::session::type_host::under_domain(self.0, oid)
    }
    fn check_domain(&self, _oid: Oid, _value: &Datum) -> Result<()> {
        Err(Error::internal("a domain's value cannot be checked here"))
    }
    fn enum_value(&self, oid: Oid, label: &str) -> Option<Result<Datum>> {
        crate::session::type_host::enum_value(self.0, oid, label)
    }
    fn enum_label(&self, oid: Oid, value: u64) -> Option<String> {
        crate::session::type_host::enum_label(self.0, oid, value)
    }
    fn clock_unix_micros(&self) -> i64 {
        0
    }
    fn random_bytes(&self, _buf: &mut [u8]) {}
    fn notice(&self, _notice: Error) {}
}

/// Types whose text form means the same under all settings and needs no name look-up.
fn settings_free(oid: Oid) -> bool {
    matches!(
        oid,
        oids::BOOL
            | oids::BYTEA
            | oids::CHAR
            | oids::NAME
            | oids::INT8
            | oids::INT2
            | oids::INT4
            | oids::TEXT
            | oids::OID
            | oids::TID
            | oids::JSON
            | oids::FLOAT4
            | oids::FLOAT8
            | oids::BPCHAR
            | oids::VARCHAR
            | oids::NUMERIC
            | oids::UUID
            | oids::XID
            | oids::CID
            | oids::PG_LSN
            | oids::XID8
            | oids::JSONB
            | oids::BIT
            | oids::VARBIT
            | oids::CSTRING
            | oids::INET
            | oids::CIDR
            | oids::MACADDR
            | oids::MACADDR8
            | oids::INT4RANGE
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

pub(crate) fn with_context<R>(catalog: &dyn CatalogView, f: impl FnOnce(&EvalContext<'_>) -> R) -> R {
    let host = BindHost(catalog);
    let format = FormatSettings::default();
    let random_state = Cell::new([1, 2]);
    f(&EvalContext {
        format: &format,
        transaction_timestamp: 0,
        statement_timestamp: 0,
        host: &host,
        random_state: &random_state,
    })
}

impl Binder<'_> {
    /// The literal `text` as a value of type `ty`.
    pub(crate) fn literal(&self, text: &str, ty: Oid, loc: i32) -> Result<Expr> {
        self.literal_typmod(text, ty, -1, loc)
    }

    /// As [`Binder::literal`], with the type modifier that the type's input function gets to see.
    pub(crate) fn literal_typmod(&self, text: &str, ty: Oid, typmod: i32, loc: i32) -> Result<Expr> {
        self.note_literal(ty, text, loc);
        self.note_label(ty, text, loc);
        if matches!(ty, oids::TEXT | oids::VARCHAR | oids::UNKNOWN | oids::CSTRING) {
            return Ok(Expr::new(ExprKind::Const(Datum::text(text)), ty).at(loc));
        }
        if ty >= crate::catalog::builtin::FIRST_USER_OID
            && let Some(value) = crate::session::type_host::enum_value(self.catalog, ty, text)
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
