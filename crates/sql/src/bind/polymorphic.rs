//! anyelement, anyarray and their families: what they stand for in one call.

use super::Binder;
use super::coerce::is_polymorphic;
use super::ir::Expr;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::oids;

impl Binder<'_> {
    /// Replaces polymorphic types in `declared` by what the actual arguments say; returns the result type.
    pub(crate) fn resolve_polymorphic(
        &self,
        args: &[Expr],
        declared: &mut [Oid],
        result: Oid,
    ) -> Result<Oid> {
        if !is_polymorphic(result) && !declared.iter().any(|t| is_polymorphic(*t)) {
            return Ok(result);
        }
        let mut element: Oid = 0;
        let mut array: Oid = 0;
        let mut saw_unknown = false;
        let mut compatible: Vec<Expr> = Vec::new();
        let mut compatible_arrays = false;
        for (d, a) in declared.iter().zip(args) {
            let ty = a.ty;
            match *d {
                oids::ANYELEMENT | oids::ANYNONARRAY | oids::ANYENUM => {
                    if ty == oids::UNKNOWN {
                        saw_unknown = true;
                    } else if element != 0 && element != ty {
                        return Err(self.mismatch("anyelement", element, ty, a.loc));
                    } else {
                        element = ty;
                    }
                }
                oids::ANYARRAY => {
                    if ty == oids::UNKNOWN {
                        saw_unknown = true;
                    } else {
                        let base = self.base_type(ty);
                        if array != 0 && array != base {
                            return Err(self.mismatch("anyarray", array, base, a.loc));
                        }
                        array = base;
                    }
                }
                oids::ANYCOMPATIBLE | oids::ANYCOMPATIBLENONARRAY => compatible.push(a.clone()),
                oids::ANYCOMPATIBLEARRAY => {
                    compatible_arrays = true;
                    if ty == oids::UNKNOWN {
                        saw_unknown = true;
                    } else {
                        let e = self.element_of(ty);
                        if e == 0 && ty != oids::ANYARRAY {
                            return self.err(
                                sqlstate::DATATYPE_MISMATCH,
                                format!("argument declared anycompatiblearray is not an array but type {}", self.type_name(ty)),
                                a.loc,
                            );
                        }
                        let mut stand_in = Expr::null(e);
                        stand_in.loc = a.loc;
                        compatible.push(stand_in);
                    }
                }
                _ => {}
            }
        }
        if array != 0 {
            let e = self.element_of(array);
            if e == 0 && array != oids::ANYARRAY {
                return self.err(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("argument declared anyarray is not an array but type {}", self.type_name(array)),
                    -1,
                );
            }
            if element == 0 {
                element = e;
            } else if e != element && array != oids::ANYARRAY {
                let err = Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    "argument declared anyarray is not consistent with argument declared anyelement",
                )
                .with_detail(format!("{} versus {}", self.type_name(array), self.type_name(element)));
                return Err(err);
            }
        }
        let needs_any = |t: Oid| matches!(t, oids::ANYELEMENT | oids::ANYARRAY | oids::ANYNONARRAY | oids::ANYENUM);
        if element == 0 && (declared.iter().any(|t| needs_any(*t)) || needs_any(result)) {
            if saw_unknown && declared.iter().any(|t| *t == oids::ANYELEMENT) {
                element = oids::TEXT;
            } else if array == oids::ANYARRAY {
                element = oids::TEXT;
            } else {
                return Err(Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    "could not determine polymorphic type because input has type unknown",
                ));
            }
        }
        if array == 0 && element != 0 {
            array = self.array_of(element);
        }
        let mut common: Oid = 0;
        if !compatible.is_empty() || compatible_arrays {
            let refs: Vec<&Expr> = compatible.iter().collect();
            common = self.common_type(&refs, "arguments of anycompatible family")?;
        }
        let common_array = if common == 0 { 0 } else { self.array_of(common) };
        let replace = |t: Oid| match t {
            oids::ANYELEMENT | oids::ANYNONARRAY | oids::ANYENUM => element,
            oids::ANYARRAY => array,
            oids::ANYCOMPATIBLE | oids::ANYCOMPATIBLENONARRAY => common,
            oids::ANYCOMPATIBLEARRAY => common_array,
            other => other,
        };
        for d in declared.iter_mut() {
            *d = replace(*d);
        }
        let out = replace(result);
        if out == 0 {
            return Err(Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", self.type_name(element)),
            ));
        }
        Ok(out)
    }

    /// Types of all arguments of a routine, output ones included, if its input arguments have these types.
    pub(crate) fn settle_polymorphic(&self, arguments: &[crate::routine::Argument], inputs: &[Oid]) -> Result<Vec<Oid>> {
        let declared: Vec<Oid> = arguments.iter().filter(|a| a.mode.is_input()).map(|a| a.type_oid).collect();
        let given: Vec<Expr> = inputs.iter().map(|t| Expr::null(*t)).collect();
        let mut given_types = inputs.iter();
        arguments
            .iter()
            .map(|a| {
                if a.mode.is_input() {
                    let actual = given_types.next().copied().unwrap_or(a.type_oid);
                    return Ok(if is_polymorphic(a.type_oid) { actual } else { a.type_oid });
                }
                self.resolve_polymorphic(&given, &mut declared.clone(), a.type_oid)
            })
            .collect()
    }

    fn mismatch(&self, family: &str, a: Oid, b: Oid, loc: i32) -> Error {
        let e = Error::new(sqlstate::DATATYPE_MISMATCH, format!("arguments declared \"{family}\" are not all alike"))
            .with_detail(format!("{} versus {}", self.type_name(a), self.type_name(b)));
        self.at(e, loc)
    }
}
