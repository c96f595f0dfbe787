//! Type names of the grammar, with their modifiers.

use super::Binder;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::CatalogView;
use kilndb_syntax::{ConstValue, Node, nodes};
use std::sync::Arc;

/// OID and typmod of a type that stands in a text by itself: `integer`, `numeric(10,2)[]`, `public.t`, `t.c%TYPE`.
/// Errors have no position.
pub fn type_of_text(text: &str, catalog: &dyn CatalogView) -> Result<(Oid, i32)> {
    let source: Arc<str> = Arc::from(format!("SELECT CAST(NULL AS {text})"));
    let bound = || {
        let script = kilndb_syntax::parse(&source)?;
        let statements = script.statements();
        let invalid = || Error::new(sqlstate::SYNTAX_ERROR, format!("invalid type name \"{text}\""));
        let Some(Node::SelectStmt(select)) = statements.first().map(|s| s.node()) else { return Err(invalid()) };
        // A text with more in it than a type's name would end the cast early.
        if select.target_list().len() != 1 || !select.from_clause().is_empty() {
            return Err(invalid());
        }
        let Some(Node::TypeCast(c)) = select.target_list().first().map(|t| t.val()) else { return Err(invalid()) };
        let name = c.type_name().ok_or_else(invalid)?;
        Binder::new(catalog, source.clone(), Vec::new()).resolve_type(name)
    };
    bound().map_err(|mut e: Error| {
        e.0.position = None;
        e
    })
}

impl Binder<'_> {
    /// OID and typmod of a TypeName.
    pub fn resolve_type(&self, t: &nodes::TypeName) -> Result<(Oid, i32)> {
        let names: Vec<&str> = t.names().iter().filter_map(|s| s.sval()).collect();
        let (schema, name) = match names.as_slice() {
            [n] => (None, *n),
            [.., s, n] => (Some(*s), *n),
            [] if t.type_oid != 0 => return Ok((t.type_oid, t.typemod)),
            [] => return Err(Error::internal("a type without a name")),
        };
        let found = if t.pct_type {
            return self.percent_type(&names, t.location);
        } else {
            self.catalog.type_by_name(schema, name)?
        };
        let Some(info) = found else {
            if let Some(s) = schema
                && !self.catalog.schema_exists(s)?
            {
                return self.err(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{s}\" does not exist"), t.location);
            }
            let shown = names.join(".");
            let brackets = if t.array_bounds().is_empty() { "" } else { "[]" };
            return self.err(
                sqlstate::UNDEFINED_OBJECT,
                format!("type \"{shown}{brackets}\" does not exist"),
                t.location,
            );
        };
        self.note_type(schema, &info, t.location);
        let typmod = self.type_modifier(info.oid, t)?;
        if t.array_bounds().is_empty() {
            return Ok((info.oid, typmod));
        }
        if info.array == 0 {
            return self.err(
                sqlstate::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", self.type_name(info.oid)),
                t.location,
            );
        }
        Ok((info.array, typmod))
    }

    fn percent_type(&self, names: &[&str], loc: i32) -> Result<(Oid, i32)> {
        let (schema, table, column) = match names {
            [t, c] => (None, *t, *c),
            [.., s, t, c] => (Some(*s), *t, *c),
            _ => return self.err(sqlstate::SYNTAX_ERROR, "improper %TYPE reference (too few dotted names)", loc),
        };
        let Some(t) = self.catalog.table_by_name(schema, table)? else {
            return self.err(sqlstate::UNDEFINED_TABLE, format!("relation \"{table}\" does not exist"), loc);
        };
        match t.columns.iter().find(|c| !c.dropped && c.name == column) {
            Some(c) => Ok((c.type_oid, c.typmod)),
            None => self.err(
                sqlstate::UNDEFINED_COLUMN,
                format!("column \"{column}\" of relation \"{table}\" does not exist"),
                loc,
            ),
        }
    }

    fn type_modifier(&self, ty: Oid, t: &nodes::TypeName) -> Result<i32> {
        if t.typmods().is_empty() {
            return Ok(match ty {
                // char is char(1), as the grammar says it; a bare bpchar has no typmod.
                _ if t.typemod >= 0 => t.typemod,
                _ => -1,
            });
        }
        let mut mods = Vec::new();
        for m in t.typmods() {
            match m {
                Node::A_Const(c) => match c.val() {
                    Some(ConstValue::Integer(i)) => mods.push(i),
                    _ => {
                        return self.err(
                            sqlstate::INVALID_PARAMETER_VALUE,
                            "type modifiers must be simple constants or identifiers",
                            t.location,
                        );
                    }
                },
                Node::A_Expr(x) => {
                    // A negative scale.
                    match (x.lexpr(), x.rexpr()) {
                        (Node::None, Node::A_Const(c)) => match c.val() {
                            Some(ConstValue::Integer(i)) => mods.push(-i),
                            _ => return Err(Error::unsupported("type modifier")),
                        },
                        _ => return Err(Error::unsupported("type modifier")),
                    }
                }
                _ => {
                    return self.err(
                        sqlstate::INVALID_PARAMETER_VALUE,
                        "type modifiers must be simple constants or identifiers",
                        t.location,
                    );
                }
            }
        }
        self.modifier_of(ty, &mods, t.location)
    }

    fn modifier_of(&self, ty: Oid, mods: &[i32], loc: i32) -> Result<i32> {
        let read = match kilndb_types::types::descriptor(ty).and_then(|t| t.modifier) {
            Some(modifier) => (modifier.read)(mods),
            None => Err(format!("type modifier is not allowed for type \"{}\"", self.type_name(ty))),
        };
        read.or_else(|message| self.err(sqlstate::INVALID_PARAMETER_VALUE, message, loc))
    }
}
