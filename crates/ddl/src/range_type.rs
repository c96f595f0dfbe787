//! CREATE TYPE … AS RANGE: the type, its multirange type, their constructors and the cast between them.
//!
//! Invariant: multirange type, constructors and cast depend on the range type internally ('i') and go with it.

use super::Definitions;
use super::types::{NewType, insert_type, refuse_temporary};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_catalog::ids::*;
use kilndb_catalog::store::{array, vector};
use kilndb_catalog::{BTREE_METHOD, CatalogView};
use kilndb_syntax::{Node, nodes};
use kilndb_types::range::RangeType;
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// What the statement says.
#[derive(Default)]
struct Definition {
    subtype: Option<Oid>,
    opclass: Option<Vec<String>>,
    collation: Option<Vec<String>>,
    canonical: Option<Vec<String>>,
    subtype_diff: Option<Vec<String>>,
    multirange: Option<Vec<String>>,
}

/// The name that an option is given, in its parts. `what` it is to be a name of.
fn names_of(d: &nodes::DefElem, what: &str) -> Result<Vec<String>> {
    let option = d.defname().unwrap_or("");
    let problem = match d.arg() {
        Node::TypeName(t) => return Ok(t.names().iter().filter_map(|n| n.sval().map(str::to_string)).collect()),
        Node::NodeList(list) if what == NAME => {
            return Ok(super::strings(list).iter().map(|s| s.to_string()).collect());
        }
        Node::String(s) => return Ok(vec![s.sval().unwrap_or("").to_string()]),
        Node::None => format!("{option} requires a parameter"),
        _ => format!("argument of {option} must be {what}"),
    };
    Err(Error::new(sqlstate::SYNTAX_ERROR, problem))
}
const NAME: &str = "a name";
const TYPE_NAME: &str = "a type name";
fn set<T>(place: &mut Option<T>, value: T, d: &nodes::DefElem) -> Result<()> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options")
            .with_position(d.location.max(0) as u32 + 1)),
    }
}

/// `…range…` becomes `…multirange…`; other names get `_multirange` at their end.
fn multirange_name(range: &str) -> String {
    let (name, suffix) = match range.find("range") {
        Some(at) => return shortened(&format!("{}multi", &range[..at]), &range[at..]),
        None => (range, "_multirange"),
    };
    shortened(name, suffix)
}
/// A name of at most 63 bytes: its begin is cut, not its end.
fn shortened(begin: &str, end: &str) -> String {
    let mut begin = begin;
    while begin.len() + end.len() > 63 {
        let Some((at, _)) = begin.char_indices().next_back() else { break };
        begin = &begin[..at];
    }
    let mut whole = format!("{begin}{end}");
    while whole.len() > 63 {
        whole.pop();
    }
    whole
}

struct Constructor<'a> {
    schema: Oid,
    name: &'a str,
    result: Oid,
    arguments: Vec<Oid>,
    variadic: Oid,
    source: &'static str,
    is_strict: bool,
}

impl Definitions<'_> {
    pub fn create_range_type(
        &mut self,
        s: &nodes::CreateRangeStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let names: Vec<String> = s.type_name().iter().filter_map(|n| n.sval().map(str::to_string)).collect();
        let (schema, name) = self.new_type_name(&names, runtime)?;
        refuse_temporary(schema)?;
        let definition = self.range_definition(s, source, runtime)?;
        let Some(subtype) = definition.subtype else {
            return Err(Error::new(sqlstate::SYNTAX_ERROR, "type attribute \"subtype\" is required"));
        };
        let info = self.type_info(subtype, runtime)?;
        if info.kind == b'p' {
            let shown = self.type_shown(subtype, runtime)?;
            return Err(Error::new(sqlstate::DATATYPE_MISMATCH, format!("range subtype cannot be {shown}")));
        }
        let opclass = self.subtype_opclass(definition.opclass.as_deref(), subtype, runtime)?;
        let collation = match (&definition.collation, info.collation) {
            (Some(_), 0) => {
                return Err(Error::new(
                    sqlstate::WRONG_OBJECT_TYPE,
                    "range collation specified but subtype does not support collation",
                ));
            }
            (Some(named), _) => self.collation_oid(named, runtime)?,
            (None, own) => own,
        };
        if definition.canonical.is_some() {
            return Err(Error::new(sqlstate::INVALID_OBJECT_DEFINITION, "cannot specify a canonical function without a pre-created shell type")
                .with_hint("Create the type as a shell type, then create its canonicalization function, then do a full CREATE TYPE."));
        }
        let difference = match &definition.subtype_diff {
            Some(named) => self.subtype_diff(named, subtype, runtime)?,
            None => 0,
        };
        let (multirange_schema, multirange_name) = match &definition.multirange {
            Some(named) => {
                if let [_, .., name] = &named[..]
                    && self.type_named(named, runtime).is_ok()
                {
                    return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
                }
                self.new_type_name(named, runtime)?
            }
            None => {
                let made = multirange_name(&name);
                if !self
                    .context_mut()
                    .catalog_lookup(PG_TYPE, PG_TYPE_TYPNAME_NSP_INDEX, &[Datum::text(&made), Datum::Oid(schema)])?
                    .is_empty()
                {
                    return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("type \"{made}\" already exists"))
                        .with_detail(format!("Failed while creating a multirange type for type \"{name}\"."))
                        .with_hint("You can manually specify a multirange type name using the \"multirange_type_name\" attribute."));
                }
                (schema, made)
            }
        };
        refuse_temporary(multirange_schema)?;
        if multirange_schema == schema && multirange_name == name {
            return Err(Error::new(sqlstate::DUPLICATE_OBJECT, format!("type \"{name}\" already exists")));
        }
        let mut new_oid = || self.new_oid(schema);
        let (array_oid, multirange, multirange_array, oid) = (new_oid()?, new_oid()?, new_oid()?, new_oid()?);
        let owner = self.context().identity.current_role;
        let align = self
            .context_mut()
            .catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(subtype)])?
            .first()
            .map_or(b'i', |r| r.char("typalign"));
        let align = if align == b'd' { b'd' } else { b'i' };
        let columns = |kind: u8, functions: [Oid; 5]| {
            let mut columns = vec![
                ("typlen", Datum::Int2(-1)),
                ("typtype", Datum::Char(kind)),
                ("typcategory", Datum::Char(b'R')),
                ("typalign", Datum::Char(align)),
                ("typstorage", Datum::Char(b'x')),
            ];
            columns.extend(
                ["typinput", "typoutput", "typreceive", "typsend", "typanalyze"]
                    .into_iter()
                    .zip(functions.map(Datum::Oid)),
            );
            columns
        };
        let range_columns = columns(b'r', [3834, 3835, 3836, 3837, 3916]);
        let multirange_columns = columns(b'm', [4231, 4232, 4233, 4234, 4242]);
        let range_row = [
            ("rngtypid", Datum::Oid(oid)),
            ("rngsubtype", Datum::Oid(subtype)),
            ("rngmultitypid", Datum::Oid(multirange)),
            ("rngcollation", Datum::Oid(collation)),
            ("rngsubopc", Datum::Oid(opclass)),
            ("rngcanonical", Datum::Oid(0)),
            ("rngsubdiff", Datum::Oid(difference)),
        ];
        self.write_catalog(runtime, |w| {
            insert_type(w, &NewType { oid, name: &name, schema, owner, array: array_oid, columns: range_columns })?;
            insert_type(
                w,
                &NewType {
                    oid: multirange,
                    name: &multirange_name,
                    schema: multirange_schema,
                    owner,
                    array: multirange_array,
                    columns: multirange_columns,
                },
            )?;
            w.insert(PG_RANGE, &range_row).map(|_| ())
        })?;
        let of_range = |arguments, source| Constructor {
            schema,
            name: &name,
            result: oid,
            arguments,
            variadic: 0,
            source,
            is_strict: false,
        };
        self.insert_constructor(of_range(vec![subtype, subtype], "range_constructor2"), runtime)?;
        self.insert_constructor(of_range(vec![subtype, subtype, oids::TEXT], "range_constructor3"), runtime)?;
        let of_multirange = |arguments, variadic, source| Constructor {
            schema: multirange_schema,
            name: &multirange_name,
            result: multirange,
            arguments,
            variadic,
            source,
            is_strict: true,
        };
        self.insert_constructor(of_multirange(Vec::new(), 0, "multirange_constructor0"), runtime)?;
        let of_one = self.insert_constructor(of_multirange(vec![oid], 0, "multirange_constructor1"), runtime)?;
        self.insert_constructor(of_multirange(vec![array_oid], oid, "multirange_constructor2"), runtime)?;
        let cast = self.new_oid(schema)?;
        let row = [
            ("oid", Datum::Oid(cast)),
            ("castsource", Datum::Oid(oid)),
            ("casttarget", Datum::Oid(multirange)),
            ("castfunc", Datum::Oid(of_one)),
            ("castcontext", Datum::Char(b'e')),
            ("castmethod", Datum::Char(b'f')),
        ];
        self.write_catalog(runtime, |w| w.insert(PG_CAST, &row).map(|_| ()))
    }

    fn range_definition(
        &mut self,
        s: &nodes::CreateRangeStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Definition> {
        let mut definition = Definition::default();
        for d in s.params() {
            match d.defname().unwrap_or("") {
                "subtype" => {
                    let ty = match d.arg() {
                        Node::TypeName(t) => self.context_mut().resolve_type(t, source, runtime)?.0,
                        _ => self.type_named(&names_of(d, TYPE_NAME)?, runtime)?.oid,
                    };
                    set(&mut definition.subtype, ty, d)?;
                }
                "subtype_opclass" => set(&mut definition.opclass, names_of(d, NAME)?, d)?,
                "collation" => set(&mut definition.collation, names_of(d, NAME)?, d)?,
                "canonical" => set(&mut definition.canonical, names_of(d, NAME)?, d)?,
                "subtype_diff" => set(&mut definition.subtype_diff, names_of(d, NAME)?, d)?,
                "multirange_type_name" => set(&mut definition.multirange, names_of(d, NAME)?, d)?,
                other => {
                    return Err(Error::new(
                        sqlstate::SYNTAX_ERROR,
                        format!("type attribute \"{other}\" not recognized"),
                    ));
                }
            }
        }
        Ok(definition)
    }

    fn subtype_opclass(&mut self, named: Option<&[String]>, subtype: Oid, runtime: &dyn Runtime) -> Result<Oid> {
        let found = self
            .context_mut()
            .with_catalog(runtime, |host| crate::host::default_class(BTREE_METHOD, subtype, &host.reader))?;
        let shown = self.type_shown(subtype, runtime)?;
        if let Some(name) = named.and_then(|n| n.last()) {
            let rows = self.context_mut().catalog_scan(PG_OPCLASS)?;
            let mut classes =
                rows.iter().filter(|r| r.text("opcname") == Some(name) && r.oid("opcmethod") == 403).peekable();
            if classes.peek().is_none() {
                return Err(Error::new(
                    sqlstate::UNDEFINED_OBJECT,
                    format!("operator class \"{name}\" does not exist for access method \"btree\""),
                ));
            }
            let default_input = rows.iter().find(|r| Some(r.oid("oid")) == found).map(|r| r.oid("opcintype"));
            let class = classes
                .find(|r| r.oid("opcintype") == subtype || Some(r.oid("opcintype")) == default_input)
                .map(|r| r.oid("oid"));
            if class.is_some_and(super::is_user_object) {
                return Err(Error::unsupported(format!(
                    "ranges with operator class \"{name}\", which users have made, are not supported"
                )));
            }
            return class.ok_or_else(|| {
                Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("operator class \"{name}\" does not accept data type {shown}"),
                )
            });
        }
        let usable = kilndb_types::key::is_indexable(subtype);
        found.filter(|_| usable).ok_or_else(|| {
            Error::new(sqlstate::UNDEFINED_OBJECT, format!("data type {shown} has no default operator class for access method \"btree\""))
                .with_hint("You must specify an operator class for the range type or define a default operator class for the subtype.")
        })
    }

    fn subtype_diff(&mut self, named: &[String], subtype: Oid, runtime: &dyn Runtime) -> Result<Oid> {
        let (schema, name) = match named {
            [.., schema, name] => (Some(schema.as_str()), name.as_str()),
            [name] => (None, name.as_str()),
            [] => (None, ""),
        };
        let found = self.context_mut().with_catalog(runtime, |host| host.reader.functions(schema, name))?;
        let shown = self.type_shown(subtype, runtime)?;
        let signature = format!("{}({shown}, {shown})", named.join("."));
        let Some(f) = found.iter().find(|f| f.arg_types == [subtype, subtype]) else {
            return Err(Error::new(sqlstate::UNDEFINED_FUNCTION, format!("function {signature} does not exist")));
        };
        if f.return_type != oids::FLOAT8 {
            return Err(Error::new(
                sqlstate::INVALID_OBJECT_DEFINITION,
                format!("range subtype diff function {signature} must return type double precision"),
            ));
        }
        if f.volatility != b'i' {
            return Err(Error::new(
                sqlstate::INVALID_OBJECT_DEFINITION,
                format!("range subtype diff function {signature} must be immutable"),
            ));
        }
        Ok(f.oid)
    }

    fn insert_constructor(&mut self, c: Constructor<'_>, runtime: &dyn Runtime) -> Result<Oid> {
        let oid = self.new_oid(c.schema)?;
        let mut row = vec![
            ("oid", Datum::Oid(oid)),
            ("proname", Datum::text(c.name)),
            ("pronamespace", Datum::Oid(c.schema)),
            ("proowner", Datum::Oid(self.context().identity.current_role)),
            ("prolang", Datum::Oid(12)),
            ("procost", Datum::Float4(1.0)),
            ("prorows", Datum::Float4(0.0)),
            ("provariadic", Datum::Oid(c.variadic)),
            ("prokind", Datum::Char(b'f')),
            ("proisstrict", Datum::Bool(c.is_strict)),
            ("provolatile", Datum::Char(b'i')),
            ("proparallel", Datum::Char(b's')),
            ("pronargs", Datum::Int2(c.arguments.len() as i16)),
            ("prorettype", Datum::Oid(c.result)),
            ("proargtypes", vector(oids::OID, c.arguments.iter().map(|t| Datum::Oid(*t)).collect())),
            ("prosrc", Datum::text(c.source)),
        ];
        if c.variadic != 0 {
            row.push(("proallargtypes", array(oids::OID, c.arguments.iter().map(|t| Datum::Oid(*t)).collect())));
            row.push(("proargmodes", array(oids::CHAR, vec![Datum::Char(b'v')])));
        }
        self.write_catalog(runtime, |w| w.insert(PG_PROC, &row).map(|_| ()))?;
        Ok(oid)
    }

    /// The rows that only a range type has: what it is a range of, and the cast to its multirange type.
    pub(super) fn delete_range_rows(&mut self, ty: RangeType, runtime: &dyn Runtime) -> Result<()> {
        self.delete_rows(
            PG_CAST,
            PG_CAST_SOURCE_TARGET_INDEX,
            &[Datum::Oid(ty.oid), Datum::Oid(ty.multirange)],
            runtime,
        )?;
        self.delete_rows(PG_RANGE, PG_RANGE_RNGTYPID_INDEX, &[Datum::Oid(ty.oid)], runtime)?;
        Ok(())
    }
}
