//! anyelement, anyarray, anyrange and their families: what they stand for in one call.

use super::Binder;
use super::coerce::is_polymorphic;
use super::ir::Expr;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_types::oids;
use kilndb_types::range::RangeType;

/// What the arguments of one family say; 0: nothing.
#[derive(Default)]
struct PolymorphicFamily {
    element: Oid,
    array: Oid,
    range: Oid,
    multirange: Oid,
    saw_unknown: bool,
}

impl Binder<'_> {
    /// The range type that a type (or what is under a domain) is, itself or as its multirange.
    pub(crate) fn range_type(&self, oid: Oid) -> Option<RangeType> {
        self.catalog.type_by_oid(self.base_type(oid)).ok().flatten().and_then(|t| t.range)
    }
    pub(crate) fn range_of(&self, oid: Oid) -> Option<RangeType> {
        self.range_type(oid).filter(|t| t.oid == self.base_type(oid))
    }
    pub(crate) fn multirange_of(&self, oid: Oid) -> Option<RangeType> {
        self.range_type(oid).filter(|t| t.multirange == self.base_type(oid))
    }

    /// Replaces polymorphic types in `declared` by what the actual arguments say; returns the result type.
    pub(crate) fn resolve_polymorphic(&self, args: &[Expr], declared: &mut [Oid], result: Oid) -> Result<Oid> {
        if !is_polymorphic(result) && !declared.iter().any(|t| is_polymorphic(*t)) {
            return Ok(result);
        }
        let any = self.any_family(args, declared, result)?;
        let compatible = self.compatible_family(args, declared)?;
        let replace = |t: Oid| match t {
            oids::ANYELEMENT | oids::ANYNONARRAY | oids::ANYENUM => any.element,
            oids::ANYARRAY => any.array,
            oids::ANYRANGE => any.range,
            oids::ANYMULTIRANGE => any.multirange,
            oids::ANYCOMPATIBLE | oids::ANYCOMPATIBLENONARRAY => compatible.element,
            oids::ANYCOMPATIBLEARRAY => compatible.array,
            oids::ANYCOMPATIBLERANGE => compatible.range,
            oids::ANYCOMPATIBLEMULTIRANGE => compatible.multirange,
            other => other,
        };
        for t in declared.iter().chain([&result]) {
            let name = match *t {
                oids::ANYRANGE => "anyrange",
                oids::ANYMULTIRANGE => "anymultirange",
                oids::ANYCOMPATIBLERANGE => "anycompatiblerange",
                oids::ANYCOMPATIBLEMULTIRANGE => "anycompatiblemultirange",
                _ => continue,
            };
            if replace(*t) == 0 {
                let message = format!("could not determine polymorphic type {name} because input has type unknown");
                return Err(Error::new(sqlstate::DATATYPE_MISMATCH, message));
            }
        }
        for d in declared.iter_mut() {
            *d = replace(*d);
        }
        let out = replace(result);
        if out == 0 {
            return Err(Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("could not find array type for data type {}", self.type_name(any.element)),
            ));
        }
        Ok(out)
    }

    /// anyelement, anyarray, anynonarray, anyenum, anyrange, anymultirange.
    fn any_family(&self, args: &[Expr], declared: &[Oid], result: Oid) -> Result<PolymorphicFamily> {
        let mut f = PolymorphicFamily::default();
        for (d, a) in declared.iter().zip(args) {
            let (place, name, ty) = match *d {
                oids::ANYELEMENT | oids::ANYNONARRAY | oids::ANYENUM => (&mut f.element, "anyelement", a.ty),
                oids::ANYARRAY => (&mut f.array, "anyarray", self.base_type(a.ty)),
                oids::ANYRANGE => (&mut f.range, "anyrange", self.base_type(a.ty)),
                oids::ANYMULTIRANGE => (&mut f.multirange, "anymultirange", self.base_type(a.ty)),
                _ => continue,
            };
            if a.ty == oids::UNKNOWN {
                f.saw_unknown = true;
            } else if *place != 0 && *place != ty {
                return Err(self.mismatch(name, *place, ty, a.loc));
            } else {
                *place = ty;
            }
        }
        if f.array != 0 {
            let e = self.element_of(f.array);
            if e == 0 && f.array != oids::ANYARRAY {
                return self.err(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("argument declared anyarray is not an array but type {}", self.type_name(f.array)),
                    -1,
                );
            }
            if f.element == 0 {
                f.element = e;
            } else if e != f.element && f.array != oids::ANYARRAY {
                return Err(self.inconsistent("anyarray", "anyelement", f.array, f.element));
            }
        }
        self.settle_ranges(&mut f, ["anyrange", "anymultirange", "anyelement"])?;
        let needs_any = |t: Oid| matches!(t, oids::ANYELEMENT | oids::ANYARRAY | oids::ANYNONARRAY | oids::ANYENUM);
        let needs_range = |t: Oid| matches!(t, oids::ANYRANGE | oids::ANYMULTIRANGE);
        let has = |needs: &dyn Fn(Oid) -> bool| declared.iter().any(|t| needs(*t)) || needs(result);
        if f.element == 0 && (has(&needs_any) || has(&needs_range)) {
            let without_ranges = !has(&needs_range);
            if without_ranges && (f.saw_unknown && declared.contains(&oids::ANYELEMENT) || f.array == oids::ANYARRAY) {
                f.element = oids::TEXT;
            } else {
                return Err(Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    "could not determine polymorphic type because input has type unknown",
                ));
            }
        }
        if f.array == 0 && f.element != 0 {
            f.array = self.array_of(f.element);
        }
        Ok(f)
    }

    /// A range type says its multirange type and its subtype, and the other way round.
    fn settle_ranges(&self, f: &mut PolymorphicFamily, names: [&str; 3]) -> Result<()> {
        let [range_name, multirange_name, element_name] = names;
        let wrong = |name: &str, what: &str, ty: Oid| {
            Error::new(
                sqlstate::DATATYPE_MISMATCH,
                format!("argument declared {name} is not a {what} type but type {}", self.type_name(ty)),
            )
        };
        if f.multirange != 0 {
            let ty =
                self.multirange_of(f.multirange).ok_or_else(|| wrong(multirange_name, "multirange", f.multirange))?;
            if f.range == 0 {
                f.range = ty.oid;
            } else if f.range != ty.oid {
                return Err(self.inconsistent(multirange_name, range_name, f.multirange, f.range));
            }
        }
        if f.range != 0 {
            let ty = self.range_of(f.range).ok_or_else(|| wrong(range_name, "range", f.range))?;
            f.multirange = ty.multirange;
            if f.element == 0 {
                f.element = ty.subtype;
            } else if f.element != ty.subtype {
                return Err(self.inconsistent(range_name, element_name, f.range, f.element));
            }
        }
        Ok(())
    }

    /// anycompatible, anycompatiblearray, anycompatiblenonarray, anycompatiblerange, anycompatiblemultirange.
    fn compatible_family(&self, args: &[Expr], declared: &[Oid]) -> Result<PolymorphicFamily> {
        let mut f = PolymorphicFamily::default();
        let mut members: Vec<Expr> = Vec::new();
        let mut is_used = false;
        for (d, a) in declared.iter().zip(args) {
            match *d {
                oids::ANYCOMPATIBLE | oids::ANYCOMPATIBLENONARRAY => members.push(a.clone()),
                oids::ANYCOMPATIBLEARRAY => {
                    is_used = true;
                    if a.ty != oids::UNKNOWN {
                        let e = self.element_of(a.ty);
                        if e == 0 && a.ty != oids::ANYARRAY {
                            let message = format!(
                                "argument declared anycompatiblearray is not an array but type {}",
                                self.type_name(a.ty)
                            );
                            return self.err(sqlstate::DATATYPE_MISMATCH, message, a.loc);
                        }
                        members.push(stand_in(e, a.loc));
                    }
                }
                oids::ANYCOMPATIBLERANGE | oids::ANYCOMPATIBLEMULTIRANGE if a.ty != oids::UNKNOWN => {
                    let (place, name) = if *d == oids::ANYCOMPATIBLERANGE {
                        (&mut f.range, "anycompatiblerange")
                    } else {
                        (&mut f.multirange, "anycompatiblemultirange")
                    };
                    let ty = self.base_type(a.ty);
                    if *place != 0 && *place != ty {
                        return Err(self.mismatch(name, *place, ty, a.loc));
                    }
                    *place = ty;
                }
                _ => {}
            }
        }
        self.settle_ranges(&mut f, ["anycompatiblerange", "anycompatiblemultirange", "anycompatible"])?;
        let subtype = std::mem::take(&mut f.element);
        if subtype != 0 {
            members.push(stand_in(subtype, -1));
        }
        if !members.is_empty() || is_used {
            let refs: Vec<&Expr> = members.iter().collect();
            f.element = self.common_type(&refs, "arguments of anycompatible family")?;
            f.array = self.array_of(f.element);
        }
        if subtype != 0 && subtype != f.element {
            let message = format!(
                "anycompatiblerange type {} does not match anycompatible type {}",
                self.type_name(f.range),
                self.type_name(f.element)
            );
            return Err(Error::new(sqlstate::DATATYPE_MISMATCH, message));
        }
        Ok(f)
    }

    /// Types of all arguments of a routine, output ones included, if its input arguments have these types.
    pub fn settle_polymorphic(
        &self,
        arguments: &[kilndb_catalog::routine::Argument],
        inputs: &[Oid],
    ) -> Result<Vec<Oid>> {
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
    fn inconsistent(&self, family: &str, other: &str, a: Oid, b: Oid) -> Error {
        Error::new(
            sqlstate::DATATYPE_MISMATCH,
            format!("argument declared {family} is not consistent with argument declared {other}"),
        )
        .with_detail(format!("{} versus {}", self.type_name(a), self.type_name(b)))
    }
}

/// Something of that type at that place.
fn stand_in(ty: Oid, loc: i32) -> Expr {
    let mut e = Expr::null(ty);
    e.loc = loc;
    e
}
