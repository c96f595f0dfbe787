//! CREATE FUNCTION and CREATE PROCEDURE.
//!
//! Invariants
//! 1. A body in SQL syntax (RETURN, BEGIN ATOMIC) is kept as text too (`prosqlbody`), and needs what it names to stay.
//! 2. What REPLACE leaves is callable by whoever could call what was there: same kind, result, names of input
//!    arguments.

use super::Definitions;
use crate::client::Runtime;
use crate::host::routine_definition::{RoutineKey, definition_of};
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::names::VisibleColumns;
use kilndb_bind::{self, is_polymorphic};
use kilndb_catalog::cache::EXPRESSION_SEPARATOR;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::routine::ArgumentMode;
use kilndb_catalog::store::{array, vector};
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_syntax::raw::VariableSetKind as V;
use kilndb_syntax::{ConstValue, Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

pub(super) fn invalid(message: impl Into<String>) -> Error {
    Error::new(sqlstate::INVALID_FUNCTION_DEFINITION, message)
}

fn at(e: Error, source: &str, location: i32) -> Error {
    e.or_position(kilndb_syntax::position_of(source, location))
}

/// Arguments as declared.
#[derive(Default)]
struct Signature {
    /// Types of the input arguments.
    inputs: Vec<Oid>,
    all: Vec<(Oid, ArgumentMode, String)>,
    defaults: Vec<String>,
    variadic: Oid,
    /// What the output arguments alone make of the result.
    output: Option<Oid>,
}

impl Signature {
    fn has_outputs(&self) -> bool {
        self.all.iter().any(|a| a.1 != ArgumentMode::In)
    }
    fn letter(mode: ArgumentMode) -> u8 {
        match mode {
            ArgumentMode::In => b'i',
            ArgumentMode::Out => b'o',
            ArgumentMode::InOut => b'b',
            ArgumentMode::Variadic => b'v',
            ArgumentMode::Table => b't',
        }
    }
}

/// The clauses behind the arguments; None: not given.
#[derive(Default)]
pub(super) struct Clauses {
    pub language: Option<String>,
    pub body: Option<(String, Option<String>)>,
    pub volatility: Option<u8>,
    pub strict: Option<bool>,
    pub security_definer: Option<bool>,
    pub leakproof: Option<bool>,
    pub parallel: Option<u8>,
    pub cost: Option<f32>,
    pub rows: Option<f32>,
    /// In the order given: name and value, None to reset; no name: RESET ALL.
    pub config: Vec<(Option<String>, Option<String>)>,
    is_window: bool,
}

fn string_of(d: &nodes::DefElem) -> String {
    match d.arg() {
        Node::String(s) => s.sval().unwrap_or("").to_string(),
        Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval()).next_back().unwrap_or("").to_string(),
        _ => String::new(),
    }
}

fn flag_of(d: &nodes::DefElem) -> bool {
    match d.arg() {
        Node::Boolean(b) => b.boolval,
        Node::Integer(i) => i.ival != 0,
        _ => true,
    }
}

fn number_of(d: &nodes::DefElem) -> f32 {
    match d.arg() {
        Node::Integer(i) => i.ival as f32,
        Node::Float(f) => f.fval().and_then(|v| v.parse().ok()).unwrap_or(0.0),
        Node::A_Const(c) => match c.val() {
            Some(ConstValue::Integer(i)) => i as f32,
            Some(ConstValue::Float(f)) => f.parse().unwrap_or(0.0),
            _ => 0.0,
        },
        _ => 0.0,
    }
}

/// `prosrc`, and `prosqlbody` of a body in SQL syntax.
fn routine_body(s: &nodes::CreateFunctionStmt, clauses: &Clauses, language: &str) -> Result<(String, Option<String>)> {
    let text = |node: Node<'_>| match node {
        Node::ReturnStmt(r) => kilndb_syntax::expression_sql(r.returnval()).map(|e| format!("SELECT {e}")),
        other => kilndb_syntax::statement_sql(other),
    };
    let body = s.sql_body();
    match (&clauses.body, &body) {
        (None, Node::None) => Err(invalid("no function body specified")),
        (Some(_), node) if !matches!(node, Node::None) => Err(invalid("duplicate function body specified")),
        (Some((body, link)), _) => {
            if link.is_some() {
                return Err(invalid(format!("only one AS item needed for language \"{language}\"")));
            }
            Ok((body.clone(), None))
        }
        (None, _) if language != "sql" => Err(invalid("inline SQL function body only valid for language SQL")),
        (None, Node::NodeList(outer)) => {
            let mut statements = Vec::new();
            for list in outer.iter() {
                match list {
                    Node::NodeList(inner) => {
                        for statement in inner.iter() {
                            statements.push(text(statement)?);
                        }
                    }
                    other => statements.push(text(other)?),
                }
            }
            Ok((String::new(), Some(statements.join(";\n "))))
        }
        (None, node) => Ok((String::new(), Some(text(*node)?))),
    }
}

impl Definitions<'_> {
    /// `is_procedure`: what a procedure has not is refused.
    pub(super) fn routine_clauses<'n>(
        &mut self,
        options: impl Iterator<Item = &'n nodes::DefElem>,
        is_procedure: bool,
        source: &str,
    ) -> Result<Clauses> {
        let mut c = Clauses::default();
        let mut seen: Vec<&str> = Vec::new();
        for d in options {
            let name = d.defname().unwrap_or("");
            if name != "set" {
                if seen.contains(&name) {
                    return Err(at(
                        Error::new(sqlstate::SYNTAX_ERROR, "conflicting or redundant options"),
                        source,
                        d.location,
                    ));
                }
                seen.push(name);
            }
            if is_procedure
                && matches!(
                    name,
                    "volatility" | "strict" | "leakproof" | "cost" | "rows" | "parallel" | "support" | "window"
                )
            {
                return Err(at(invalid("invalid attribute in procedure definition"), source, d.location));
            }
            match name {
                "language" => c.language = Some(string_of(d)),
                "as" => {
                    let parts = match d.arg() {
                        Node::NodeList(list) => super::strings(list).into_iter().map(str::to_string).collect(),
                        _ => vec![string_of(d)],
                    };
                    let mut parts = parts.into_iter();
                    c.body = Some((parts.next().unwrap_or_default(), parts.next()));
                }
                "volatility" => {
                    c.volatility = Some(match string_of(d).as_str() {
                        "immutable" => b'i',
                        "stable" => b's',
                        _ => b'v',
                    });
                }
                "strict" => c.strict = Some(flag_of(d)),
                "security" => c.security_definer = Some(flag_of(d)),
                "leakproof" => c.leakproof = Some(flag_of(d)),
                "parallel" => {
                    c.parallel = Some(match string_of(d).as_str() {
                        "safe" => b's',
                        "unsafe" => b'u',
                        "restricted" => b'r',
                        _ => {
                            return Err(Error::new(
                                sqlstate::SYNTAX_ERROR,
                                "parameter \"parallel\" must be SAFE, RESTRICTED, or UNSAFE",
                            ));
                        }
                    });
                }
                "cost" => {
                    let cost = number_of(d);
                    if cost <= 0.0 {
                        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "COST must be positive"));
                    }
                    c.cost = Some(cost);
                }
                "rows" => {
                    let rows = number_of(d);
                    if rows <= 0.0 {
                        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, "ROWS must be positive"));
                    }
                    c.rows = Some(rows);
                }
                "set" => {
                    let Node::VariableSetStmt(s) = d.arg() else { continue };
                    let change = self.config_change(s)?;
                    c.config.push(change);
                }
                "window" => c.is_window = true,
                "support" => return Err(Error::unsupported("SUPPORT functions are not supported")),
                "transform" => return Err(Error::unsupported("TRANSFORM is not supported")),
                other => return Err(Error::unsupported(format!("option \"{other}\" of a function is not supported"))),
            }
        }
        if c.is_window {
            return Err(Error::unsupported("window functions of one's own are not supported"));
        }
        Ok(c)
    }

    fn config_change(&mut self, s: &nodes::VariableSetStmt) -> Result<(Option<String>, Option<String>)> {
        let name = s.name().unwrap_or("").to_string();
        let value = match s.kind {
            V::VAR_RESET_ALL => return Ok((None, None)),
            V::VAR_SET_VALUE => Some(crate::context::settings::given_value(s)?),
            V::VAR_SET_CURRENT => Some(
                self.context().settings.get(&name).ok_or_else(|| crate::settings::unrecognized(&name))?.to_string(),
            ),
            _ => None,
        };
        crate::settings::check_setting(&name, value.as_deref())?;
        let name = crate::settings::definition(&name).map_or(name.clone(), |d| d.name.to_string());
        Ok((Some(name), value))
    }

    pub fn create_function(
        &mut self,
        s: &nodes::CreateFunctionStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let names: Vec<&str> = super::strings(s.funcname());
        let (schema_name, name) = match names.as_slice() {
            [name] => (None, *name),
            [.., schema, name] => (Some(*schema), *name),
            [] => return Err(Error::internal("CREATE FUNCTION without a name")),
        };
        let temporary = self.is_own_temporary_schema(schema_name, runtime)?;
        let (schema, _) = self.creation_schema(schema_name, temporary, runtime)?;
        let clauses = self.routine_clauses(s.options().iter(), s.is_procedure, source)?;
        let language = match (&clauses.language, matches!(s.sql_body(), Node::None)) {
            (Some(language), _) => language.clone(),
            (None, false) => "sql".to_string(),
            (None, true) => return Err(invalid("no language specified")),
        };
        let language_oid = self.language_oid(&language)?;
        self.refuse_leakproof(&clauses)?;
        let signature = self.signature(s, source, runtime)?;
        let (result, returns_set) = self.result_type(s, &signature, source, runtime)?;
        self.check_polymorphic(&signature, result)?;
        let (body, sql_body) = routine_body(s, &clauses, &language)?;
        if clauses.rows.is_some() && !returns_set {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                "ROWS is not applicable when function does not return a set",
            ));
        }
        let existing = self.same_signature(schema, name, &signature.inputs)?;
        if let Some(old) = &existing {
            if kilndb_catalog::extension::is_member(old.oid("oid")) && s.replace {
                return Err(Error::unsupported(format!(
                    "replacing function {name}, which belongs to an extension, is not supported"
                )));
            }
            let old = old.clone();
            self.refuse_replacement((s, name), &old, &signature, (result, returns_set), runtime)?;
        }
        let oid = match &existing {
            Some(old) => old.oid("oid"),
            None => self.new_oid(schema)?,
        };
        let default_cost = if matches!(language.as_str(), "internal" | "c") { 1.0 } else { 100.0 };
        let has_names = signature.all.iter().any(|a| !a.2.is_empty());
        let text = |s: &str| Datum::text(s);
        let config = set_config(&[], &clauses.config);
        let mut values = vec![
            ("proname", text(name)),
            ("pronamespace", Datum::Oid(schema)),
            (
                "proowner",
                Datum::Oid(existing.as_ref().map_or(self.context().identity.current_role, |old| old.oid("proowner"))),
            ),
            ("prolang", Datum::Oid(language_oid)),
            ("procost", Datum::Float4(clauses.cost.unwrap_or(default_cost))),
            ("prorows", Datum::Float4(if returns_set { clauses.rows.unwrap_or(1000.0) } else { 0.0 })),
            ("provariadic", Datum::Oid(signature.variadic)),
            ("prokind", Datum::Char(if s.is_procedure { b'p' } else { b'f' })),
            ("prosecdef", Datum::Bool(clauses.security_definer.unwrap_or(false))),
            ("proleakproof", Datum::Bool(clauses.leakproof.unwrap_or(false))),
            ("proisstrict", Datum::Bool(clauses.strict.unwrap_or(false))),
            ("proretset", Datum::Bool(returns_set)),
            ("provolatile", Datum::Char(clauses.volatility.unwrap_or(b'v'))),
            ("proparallel", Datum::Char(clauses.parallel.unwrap_or(b'u'))),
            ("pronargs", Datum::Int2(signature.inputs.len() as i16)),
            ("pronargdefaults", Datum::Int2(signature.defaults.len() as i16)),
            ("prorettype", Datum::Oid(result)),
            ("proargtypes", vector(oids::OID, signature.inputs.iter().map(|t| Datum::Oid(*t)).collect())),
            ("prosrc", text(&body)),
        ];
        let separator = EXPRESSION_SEPARATOR.to_string();
        let optional = [
            (
                "proallargtypes",
                signature
                    .has_outputs()
                    .then(|| array(oids::OID, signature.all.iter().map(|a| Datum::Oid(a.0)).collect())),
            ),
            (
                "proargmodes",
                signature.has_outputs().then(|| {
                    array(oids::CHAR, signature.all.iter().map(|a| Datum::Char(Signature::letter(a.1))).collect())
                }),
            ),
            ("proargnames", has_names.then(|| array(oids::TEXT, signature.all.iter().map(|a| text(&a.2)).collect()))),
            ("proargdefaults", (!signature.defaults.is_empty()).then(|| text(&signature.defaults.join(&separator)))),
            ("prosqlbody", sql_body.as_deref().map(text)),
            ("proconfig", (!config.is_empty()).then(|| array(oids::TEXT, config.iter().map(|c| text(c)).collect()))),
        ];
        values.extend(optional.into_iter().map(|(name, value)| (name, value.unwrap_or_default())));
        match &existing {
            Some(old) => {
                let mut new = old.clone();
                values.into_iter().for_each(|(name, value)| new.set(name, value));
                self.write_catalog(runtime, |w| w.update(old, new.values()))?;
            }
            None => {
                values.insert(0, ("oid", Datum::Oid(oid)));
                self.write_catalog(runtime, |w| w.insert(PG_PROC, &values).map(|_| ()))?;
            }
        }
        if let Some(txn) = &mut self.context_mut().transaction.txn {
            txn.next_command();
        }
        self.validate_routine(oid, source, &body, runtime)?;
        if let Some(body) = &sql_body {
            self.keep_body(oid, body, runtime)?;
        }
        Ok(())
    }

    pub(super) fn language_oid(&mut self, name: &str) -> Result<Oid> {
        let rows = self.context_mut().catalog_scan(PG_LANGUAGE)?;
        let found = rows.iter().find(|r| r.text("lanname") == Some(name));
        let missing = || Error::new(sqlstate::UNDEFINED_OBJECT, format!("language \"{name}\" does not exist"));
        let row = found.ok_or_else(missing)?;
        let oid = row.oid("oid");
        self.context_mut().require_language(name)?;
        if matches!(name, "c" | "internal") {
            return Err(Error::unsupported(format!("functions in language \"{name}\" are not supported")));
        }
        Ok(oid)
    }

    fn same_signature(&mut self, schema: Oid, name: &str, inputs: &[Oid]) -> Result<Option<CatalogRow>> {
        let rows = self.context_mut().catalog_lookup(PG_PROC, PG_PROC_PRONAME_ARGS_NSP_INDEX, &[Datum::text(name)])?;
        let same = |r: &CatalogRow| {
            r.oid("pronamespace") == schema
                && r.numbers("proargtypes").iter().map(|n| *n as Oid).eq(inputs.iter().copied())
        };
        Ok(rows.into_iter().find(same))
    }

    fn signature(
        &mut self,
        s: &nodes::CreateFunctionStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<Signature> {
        use kilndb_syntax::raw::FunctionParameterMode as M;
        let mut out = Signature::default();
        let (mut outputs, mut tables) = (Vec::new(), 0);
        for p in s.parameters() {
            let mode = match p.mode {
                M::FUNC_PARAM_OUT => ArgumentMode::Out,
                M::FUNC_PARAM_INOUT => ArgumentMode::InOut,
                M::FUNC_PARAM_VARIADIC => ArgumentMode::Variadic,
                M::FUNC_PARAM_TABLE => ArgumentMode::Table,
                _ => ArgumentMode::In,
            };
            let t = p.arg_type().ok_or_else(|| Error::internal("an argument without a type"))?;
            let (ty, _) = self.context_mut().resolve_type(t, source, runtime)?;
            self.require_type(ty, runtime)?;
            if t.setof {
                return Err(at(
                    invalid(if s.is_procedure {
                        "procedures cannot accept set arguments"
                    } else {
                        "functions cannot accept set arguments"
                    }),
                    source,
                    p.location,
                ));
            }
            let name = p.name().unwrap_or("").to_string();
            if mode.is_input() {
                if out.variadic != 0 {
                    return Err(at(invalid("VARIADIC parameter must be the last input parameter"), source, p.location));
                }
                out.inputs.push(ty);
            }
            if mode.is_output() {
                if mode != ArgumentMode::Table && s.is_procedure && out.variadic != 0 {
                    return Err(at(invalid("VARIADIC parameter must be the last parameter"), source, p.location));
                }
                outputs.push(ty);
                tables += usize::from(mode == ArgumentMode::Table);
            }
            if mode == ArgumentMode::Variadic {
                out.variadic = self.variadic_element(ty, source, p.location, runtime)?;
            }
            if !name.is_empty()
                && out
                    .all
                    .iter()
                    .any(|a| a.2 == name && (a.1.is_input() == mode.is_input() || a.1.is_output() == mode.is_output()))
            {
                return Err(at(invalid(format!("parameter name \"{name}\" used more than once")), source, p.location));
            }
            if !matches!(p.defexpr(), Node::None) {
                if !mode.is_input() {
                    return Err(at(invalid("only input parameters can have default values"), source, p.location));
                }
                let sql = self.argument_default(p.defexpr(), ty, source, runtime)?;
                out.defaults.push(sql);
            } else if mode.is_input() && !out.defaults.is_empty() {
                return Err(at(
                    invalid("input parameters after one with a default value must also have defaults"),
                    source,
                    p.location,
                ));
            }
            out.all.push((ty, mode, name));
        }
        out.output = match outputs.as_slice() {
            [] => s.is_procedure.then_some(oids::VOID),
            [one] if tables <= 1 && !s.is_procedure => Some(*one),
            _ => Some(oids::RECORD),
        };
        Ok(out)
    }

    fn variadic_element(&mut self, ty: Oid, source: &str, location: i32, runtime: &dyn Runtime) -> Result<Oid> {
        let element = match ty {
            oids::ANY => oids::ANY,
            oids::ANYARRAY => oids::ANYELEMENT,
            oids::ANYCOMPATIBLEARRAY => oids::ANYCOMPATIBLE,
            _ => self.context_mut().with_catalog(runtime, |host| {
                Ok(host.reader.type_by_oid(ty)?.filter(|t| t.category == b'A').map_or(0, |t| t.element))
            })?,
        };
        if element == 0 {
            return Err(at(invalid("VARIADIC parameter must be an array"), source, location));
        }
        Ok(element)
    }

    fn argument_default(
        &mut self,
        node: Node<'_>,
        ty: Oid,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let sql = kilndb_syntax::expression_sql(node)?;
        let target = (!is_polymorphic(ty)).then_some((ty, -1));
        self.context_mut().with_catalog(runtime, |host| {
            let binder = kilndb_bind::Binder::new(&host.reader, source.clone(), Vec::new());
            kilndb_bind::bind_expression_node(&binder, node, None, target).map(|_| ()).map_err(|mut e| {
                if e.sqlstate() == sqlstate::UNDEFINED_COLUMN {
                    e = Error::new(
                        sqlstate::INVALID_COLUMN_REFERENCE,
                        "cannot use table references in parameter default value",
                    )
                    .or_position(e.0.position);
                }
                e
            })
        })?;
        let over = target.map_or(VisibleColumns::Nothing, |target| VisibleColumns::Default(None, target));
        self.stored_expression(&sql, over, runtime)
    }

    fn result_type(
        &mut self,
        s: &nodes::CreateFunctionStmt,
        signature: &Signature,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<(Oid, bool)> {
        if s.is_procedure {
            return Ok((signature.output.unwrap_or(oids::VOID), false));
        }
        let Some(t) = s.return_type() else {
            return signature
                .output
                .map(|ty| (ty, false))
                .ok_or_else(|| invalid("function result type must be specified"));
        };
        let (ty, _) = self.context_mut().resolve_type(t, source, runtime)?;
        self.require_type(ty, runtime)?;
        if let Some(output) = signature.output
            && output != ty
        {
            let name = self.context_mut().with_catalog(runtime, |host| Ok(host.reader.format_type(output, -1)))?;
            return Err(invalid(format!("function result type must be {name} because of OUT parameters")));
        }
        Ok((ty, t.setof))
    }

    fn check_polymorphic(&self, signature: &Signature, result: Oid) -> Result<()> {
        let has = |family: &[Oid]| signature.inputs.iter().any(|t| family.contains(t));
        let any = [oids::ANYELEMENT, oids::ANYARRAY, oids::ANYNONARRAY, oids::ANYENUM, oids::ANYRANGE, 4537];
        let compatible = [oids::ANYCOMPATIBLE, oids::ANYCOMPATIBLEARRAY, oids::ANYCOMPATIBLENONARRAY, 5080, 4538];
        let outputs = signature.all.iter().filter(|a| a.1.is_output()).map(|a| a.0).chain([result]);
        for ty in outputs.filter(|t| is_polymorphic(*t)) {
            let name = match ty {
                oids::ANYELEMENT => "anyelement",
                oids::ANYARRAY => "anyarray",
                oids::ANYNONARRAY => "anynonarray",
                oids::ANYENUM => "anyenum",
                oids::ANYRANGE => "anyrange",
                4537 => "anymultirange",
                oids::ANYCOMPATIBLE => "anycompatible",
                oids::ANYCOMPATIBLEARRAY => "anycompatiblearray",
                oids::ANYCOMPATIBLENONARRAY => "anycompatiblenonarray",
                5080 => "anycompatiblerange",
                _ => "anycompatiblemultirange",
            };
            let (family, wanted): (&[Oid], &str) = match ty {
                oids::ANYRANGE | 4537 => (&[oids::ANYRANGE, 4537], "anyrange or anymultirange"),
                5080 | 4538 => (&[5080, 4538], "anycompatiblerange or anycompatiblemultirange"),
                t if any.contains(&t) => {
                    (&any, "anyelement, anyarray, anynonarray, anyenum, anyrange, or anymultirange")
                }
                _ => (
                    &compatible,
                    "anycompatible, anycompatiblearray, anycompatiblenonarray, anycompatiblerange, or anycompatiblemultirange",
                ),
            };
            if !has(family) {
                return Err(invalid("cannot determine result data type")
                    .with_detail(format!("A result of type {name} requires at least one input of type {wanted}.")));
            }
        }
        Ok(())
    }

    /// Views and policies let leakproof functions see rows that their user may not.
    pub(super) fn refuse_leakproof(&self, clauses: &Clauses) -> Result<()> {
        if clauses.leakproof != Some(true) || self.context().is_superuser() {
            return Ok(());
        }
        Err(Error::new(sqlstate::INSUFFICIENT_PRIVILEGE, "only superuser can define a leakproof function"))
    }

    fn refuse_replacement(
        &mut self,
        (s, name): (&nodes::CreateFunctionStmt, &str),
        old: &CatalogRow,
        new: &Signature,
        result: (Oid, bool),
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if !s.replace {
            return Err(Error::new(
                sqlstate::DUPLICATE_FUNCTION,
                format!("function \"{name}\" already exists with same argument types"),
            ));
        }
        if !self.context().owns(old.oid("proowner")) {
            return Err(crate::privileges::not_owner("function", name));
        }
        let kind = if s.is_procedure { b'p' } else { b'f' };
        if old.char("prokind") != kind {
            let word = match old.char("prokind") {
                b'a' => "an aggregate function",
                b'p' => "a procedure",
                b'w' => "a window function",
                _ => "a function",
            };
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, "cannot change routine kind")
                .with_detail(format!("\"{name}\" is {word}.")));
        }
        let (info, shown) = self.context_mut().with_catalog(runtime, |host| {
            let info = host.reader.function_info(old);
            let types: Vec<String> = info.arg_types.iter().map(|t| host.reader.format_type(*t, -1)).collect();
            Ok((info, format!("{name}({})", types.join(","))))
        })?;
        let word = if s.is_procedure { "PROCEDURE" } else { "FUNCTION" };
        let hint = format!("Use DROP {word} {shown} first.");
        if info.return_type != result.0 || info.returns_set != result.1 {
            let message = if s.is_procedure {
                "cannot change whether a procedure has output parameters"
            } else {
                "cannot change return type of existing function"
            };
            return Err(invalid(message).with_hint(hint));
        }
        let outputs = |list: Vec<(Oid, ArgumentMode, String)>| -> Vec<(Oid, String)> {
            list.into_iter().filter(|a| a.1.is_output()).map(|a| (a.0, a.2)).collect()
        };
        let declared = |info: &FunctionInfo| {
            kilndb_catalog::routine::declared_arguments(info)
                .into_iter()
                .map(|a| (a.type_oid, a.mode, a.name))
                .collect::<Vec<_>>()
        };
        if result.0 == oids::RECORD && outputs(declared(&info)) != outputs(new.all.clone()) {
            return Err(invalid("cannot change return type of existing function")
                .with_detail("Row type defined by OUT parameters is different.")
                .with_hint(hint));
        }
        let inputs = |list: &[(Oid, ArgumentMode, String)]| -> Vec<String> {
            list.iter().filter(|a| a.1.is_input()).map(|a| a.2.clone()).collect()
        };
        for (before, after) in inputs(&declared(&info)).iter().zip(&inputs(&new.all)) {
            if !before.is_empty() && before != after {
                return Err(invalid(format!("cannot change name of input parameter \"{before}\"")).with_hint(hint));
            }
        }
        if info.defaults.len() > new.defaults.len() {
            return Err(invalid("cannot remove parameter defaults from existing function").with_hint(hint));
        }
        Ok(())
    }

    /// A body in SQL syntax names the same under every search path.
    fn keep_body(&mut self, oid: Oid, body: &str, runtime: &dyn Runtime) -> Result<()> {
        let key = RoutineKey { oid, types: Vec::new(), collation: 0, table: 0, trigger: 0 };
        let definition = self.context_mut().with_catalog(runtime, |host| {
            let info = host.reader.function_by_oid(oid)?.ok_or_else(|| Error::internal("a function vanished"))?;
            definition_of(host, &info, &key, true)
        })?;
        let kept = self.stored_body(body, &definition, runtime)?;
        if kept == body {
            return Ok(());
        }
        self.update_row(PG_PROC, PG_PROC_OID_INDEX, oid, runtime, |row| row.set("prosqlbody", Datum::text(&kept)))
    }

    /// Has the language check the body.
    fn validate_routine(&mut self, oid: Oid, source: &str, body: &str, runtime: &dyn Runtime) -> Result<()> {
        let key = RoutineKey { oid, types: Vec::new(), collation: 0, table: 0, trigger: 0 };
        let (definition, info) = self.context_mut().with_catalog(runtime, |host| {
            let info = host.reader.function_by_oid(oid)?.ok_or_else(|| Error::internal("a function vanished"))?;
            Ok((definition_of(host, &info, &key, true)?, info))
        })?;
        let checked = self.host.check_routine(&definition, &info, runtime);
        checked.map_err(|e| transposed(e, source, body))
    }
}

/// A position in the body becomes one in the statement that has the body as a literal, if it is there as it is.
pub fn transposed(mut e: Error, source: &str, body: &str) -> Error {
    let Some(position) = e.0.internal_position.filter(|_| e.0.internal_query.as_deref() == Some(body)) else {
        return e;
    };
    let Some(at) = source.find(body).filter(|_| !body.is_empty()) else { return e };
    let before = source[..at].chars().count() as u32;
    // A quote within the literal moves what follows; then the position is told within the body.
    if source[..at].ends_with('$') || source[..at].ends_with('\'') {
        e.0.position = Some(before + position);
        e.0.internal_position = None;
        e.0.internal_query = None;
    }
    e
}

/// `proconfig` with changes applied.
pub(super) fn set_config(old: &[String], changes: &[(Option<String>, Option<String>)]) -> Vec<String> {
    let mut items = old.to_vec();
    for (name, value) in changes {
        let Some(name) = name else {
            items.clear();
            continue;
        };
        let at = items.iter().position(|i| i.split_once('=').is_some_and(|(n, _)| n == name));
        match (at, value) {
            (Some(at), Some(value)) => items[at] = format!("{name}={value}"),
            (Some(at), None) => {
                items.remove(at);
            }
            (None, Some(value)) => items.push(format!("{name}={value}")),
            (None, None) => {}
        }
    }
    items
}
