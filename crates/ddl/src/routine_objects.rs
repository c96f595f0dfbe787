//! DROP, ALTER and COMMENT ON of functions and procedures: which one is meant, and who needs it.

use super::Definitions;
use super::function::{invalid, set_config};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::privileges::privilege;
use kilndb_catalog::store::array;
use kilndb_catalog::temporary::is_temporary;
use kilndb_catalog::{CatalogView, FunctionInfo};
use kilndb_syntax::raw::{DropBehavior, ObjectType as O};
use kilndb_syntax::{Node, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// What a statement calls a routine of the kind that it names.
pub(super) fn word_of(kind: O::Type) -> &'static str {
    match kind {
        O::OBJECT_PROCEDURE => "procedure",
        O::OBJECT_ROUTINE => "routine",
        O::OBJECT_AGGREGATE => "aggregate",
        _ => "function",
    }
}

/// Argument types as the parser has left them: a type that a keyword names has its schema.
fn written_types(o: &nodes::ObjectWithArgs) -> String {
    let written = |argument: Node<'_>| {
        let Node::TypeName(t) = argument else { return String::new() };
        let names: Vec<&str> = t.names().iter().filter_map(|s| s.sval()).collect();
        let percent = if t.pct_type { "%TYPE" } else { "" };
        let brackets = if t.array_bounds().is_empty() { "" } else { "[]" };
        format!("{}{percent}{brackets}", names.join("."))
    };
    o.objargs().iter().map(written).collect::<Vec<_>>().join(",")
}

fn tag_of(kind: O::Type) -> &'static str {
    match kind {
        O::OBJECT_PROCEDURE => "PROCEDURE",
        O::OBJECT_ROUTINE => "ROUTINE",
        O::OBJECT_AGGREGATE => "AGGREGATE",
        _ => "FUNCTION",
    }
}

impl Definitions<'_> {
    /// The routine that a name with argument types means. None: there is none, and that is all right.
    pub(super) fn routine_named(
        &mut self,
        o: &nodes::ObjectWithArgs,
        kind: O::Type,
        missing_ok: bool,
        runtime: &dyn Runtime,
    ) -> Result<Option<Arc<FunctionInfo>>> {
        let names: Vec<String> = super::strings(o.objname()).into_iter().map(str::to_string).collect();
        let (schema, name) = match names.as_slice() {
            [name] => (None, name.clone()),
            [.., schema, name] => (Some(schema.clone()), name.clone()),
            [] => return Err(Error::internal("a routine without a name")),
        };
        let word = word_of(kind);
        if let Some(schema) = &schema
            && !self.context_mut().with_catalog(runtime, |host| host.reader.schema_exists(schema))?
        {
            return if missing_ok {
                self.context().notice(Severity::Notice, format!("schema \"{schema}\" does not exist, skipping"));
                Ok(None)
            } else {
                Err(Error::new(sqlstate::INVALID_SCHEMA_NAME, format!("schema \"{schema}\" does not exist")))
            };
        }
        let mut types = Vec::new();
        for argument in o.objargs() {
            let Node::TypeName(t) = argument else { continue };
            match self.context_mut().resolve_type(t, &Arc::from(""), runtime) {
                Ok((ty, _)) => types.push(ty),
                Err(mut e) => {
                    e.0.position = None;
                    if missing_ok && e.sqlstate() == sqlstate::UNDEFINED_OBJECT {
                        self.context().notice(Severity::Notice, format!("{}, skipping", e.message()));
                        return Ok(None);
                    }
                    return Err(e);
                }
            }
        }
        let all = self.context_mut().with_catalog(runtime, |host| host.reader.functions(schema.as_deref(), &name))?;
        let is_kind = |f: &FunctionInfo| match kind {
            O::OBJECT_PROCEDURE => f.kind == b'p',
            O::OBJECT_ROUTINE => true,
            O::OBJECT_AGGREGATE => f.kind == b'a',
            _ => f.kind != b'p',
        };
        let shown = self.context_mut().with_catalog(runtime, |host| {
            let list: Vec<String> = types.iter().map(|t| host.reader.format_type(*t, -1)).collect();
            let qualified = schema.as_ref().map_or(name.clone(), |s| format!("{s}.{name}"));
            Ok((
                qualified.clone(),
                format!("{qualified}({})", list.join(", ")),
                format!("{qualified}({})", list.join(",")),
            ))
        })?;
        if o.args_unspecified {
            let mut fitting = all.iter().filter(|f| is_kind(f));
            let first = fitting.next().cloned();
            if fitting.next().is_some() {
                return Err(Error::new(
                    sqlstate::AMBIGUOUS_FUNCTION,
                    format!("{word} name \"{}\" is not unique", shown.0),
                )
                .with_hint(format!("Specify the argument list to select the {word} unambiguously.")));
            }
            if first.is_none() {
                if missing_ok {
                    self.context().notice(Severity::Notice, format!("{word} {}() does not exist, skipping", shown.0));
                    return Ok(None);
                }
                return Err(Error::new(
                    sqlstate::UNDEFINED_FUNCTION,
                    format!("could not find a {word} named \"{}\"", shown.0),
                ));
            }
            return Ok(first);
        }
        let by_inputs = all.iter().find(|f| f.arg_types == types);
        let by_all = || all.iter().find(|f| f.kind == b'p' && f.all_arg_types == types);
        let found = match by_inputs {
            Some(f) if is_kind(f) => Some(f.clone()),
            other => by_all().filter(|f| is_kind(f)).or(other).cloned(),
        };
        match found {
            Some(f) if is_kind(&f) => Ok(Some(f)),
            Some(_) => Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("{} is not {} {word}", shown.2, if word == "aggregate" { "an" } else { "a" }),
            )),
            None if missing_ok => {
                let types = written_types(o);
                self.context()
                    .notice(Severity::Notice, format!("{word} {}({types}) does not exist, skipping", shown.0));
                Ok(None)
            }
            None => Err(Error::new(sqlstate::UNDEFINED_FUNCTION, format!("{word} {} does not exist", shown.1))),
        }
    }

    /// `named`: what the routine is called in the message, and its name.
    fn owned_routine(&mut self, f: &FunctionInfo, (word, shown): (&str, &str)) -> Result<()> {
        match self.context().owns(f.owner) {
            true => Ok(()),
            false => Err(crate::privileges::not_owner(word, shown)),
        }
    }

    /// A routine that its owner may change. Those of the system are part of the program and stay as they are.
    fn changeable_routine(&mut self, f: &FunctionInfo, named: (&str, &str)) -> Result<()> {
        self.owned_routine(f, named)?;
        if kilndb_catalog::extension::may_go(f.oid) {
            return Ok(());
        }
        Err(Error::unsupported(format!("changing function {}, which is the system's own, is not supported", f.name)))
    }

    pub(super) fn drop_routines(&mut self, s: &nodes::DropStmt, runtime: &dyn Runtime) -> Result<String> {
        let mut targets = Vec::new();
        for object in s.objects() {
            let Node::ObjectWithArgs(o) = object else { continue };
            if let Some(f) = self.routine_named(o, s.remove_type, s.missing_ok, runtime)? {
                if !self.owns_schema(f.schema_oid)? {
                    self.owned_routine(&f, (word_of(s.remove_type), &super::strings(o.objname()).join(".")))?;
                }
                targets.push(f);
            }
        }
        let named: Vec<ObjectAddress> = targets.iter().map(|f| ObjectAddress::object(PG_PROC, f.oid)).collect();
        self.delete_objects(&named, s.behavior == DropBehavior::DROP_CASCADE, runtime)?;
        Ok(format!("DROP {}", tag_of(s.remove_type)))
    }

    pub fn alter_function(
        &mut self,
        s: &nodes::AlterFunctionStmt,
        source: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let tag = format!("ALTER {}", tag_of(s.objtype));
        let o = s.func().ok_or_else(|| Error::internal("ALTER FUNCTION without a function"))?;
        let Some(f) = self.routine_named(o, s.objtype, false, runtime)? else { return Ok(tag) };
        self.changeable_routine(&f, (word_of(s.objtype), &super::strings(o.objname()).join(".")))?;
        if f.kind == b'a' {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is an aggregate function", f.name)));
        }
        let c = self.routine_clauses(s.actions().iter(), f.kind == b'p', source)?;
        if c.rows.is_some() && !f.returns_set {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                "ROWS is not applicable when function does not return a set",
            ));
        }
        self.refuse_leakproof(&c)?;
        let config = set_config(&f.config, &c.config);
        self.update_row(PG_PROC, PG_PROC_OID_INDEX, f.oid, runtime, |row: &mut CatalogRow| {
            let changes = [
                ("provolatile", c.volatility.map(Datum::Char)),
                ("proisstrict", c.strict.map(Datum::Bool)),
                ("prosecdef", c.security_definer.map(Datum::Bool)),
                ("proleakproof", c.leakproof.map(Datum::Bool)),
                ("proparallel", c.parallel.map(Datum::Char)),
                ("procost", c.cost.map(Datum::Float4)),
                ("prorows", c.rows.map(Datum::Float4)),
            ];
            for (name, value) in changes {
                if let Some(value) = value {
                    row.set(name, value);
                }
            }
            if !c.config.is_empty() {
                let value = if config.is_empty() {
                    Datum::Null
                } else {
                    array(oids::TEXT, config.iter().map(Datum::text).collect())
                };
                row.set("proconfig", value);
            }
        })?;
        Ok(tag)
    }

    fn refuse_same_signature(
        &mut self,
        f: &FunctionInfo,
        schema: Oid,
        name: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let rows = self.context_mut().catalog_lookup(PG_PROC, PG_PROC_PRONAME_ARGS_NSP_INDEX, &[Datum::text(name)])?;
        let exists = rows.iter().any(|r| {
            r.oid("pronamespace") == schema
                && r.numbers("proargtypes").iter().map(|n| *n as Oid).eq(f.arg_types.iter().copied())
        });
        if !exists {
            return Ok(());
        }
        let schema = self.context_mut().catalog_lookup(PG_NAMESPACE, PG_NAMESPACE_OID_INDEX, &[Datum::Oid(schema)])?;
        let schema = schema.first().and_then(|r| r.text("nspname")).unwrap_or("").to_string();
        let types = self.context_mut().with_catalog(runtime, |host| {
            Ok(f.arg_types.iter().map(|t| host.reader.format_type(*t, -1)).collect::<Vec<_>>().join(", "))
        })?;
        Err(Error::new(
            sqlstate::DUPLICATE_FUNCTION,
            format!("function {name}({types}) already exists in schema \"{schema}\""),
        ))
    }

    pub(super) fn rename_routine(
        &mut self,
        s: &nodes::RenameStmt,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let tag = format!("ALTER {}", tag_of(s.rename_type));
        let Node::ObjectWithArgs(o) = s.object() else { return Err(Error::internal("a rename without a routine")) };
        let Some(f) = self.routine_named(o, s.rename_type, false, runtime)? else { return Ok(tag) };
        self.changeable_routine(&f, ("function", &f.name))?;
        if !self.context().is_superuser() {
            self.require_on_schema(f.schema_oid, privilege::CREATE, runtime)?;
        }
        self.refuse_same_signature(&f, f.schema_oid, new_name, runtime)?;
        self.update_row(PG_PROC, PG_PROC_OID_INDEX, f.oid, runtime, |row| row.set("proname", Datum::text(new_name)))?;
        Ok(tag)
    }

    pub(super) fn move_routine(&mut self, s: &nodes::AlterObjectSchemaStmt, runtime: &dyn Runtime) -> Result<String> {
        let tag = format!("ALTER {}", tag_of(s.object_type));
        let Node::ObjectWithArgs(o) = s.object() else { return Err(Error::internal("SET SCHEMA without a routine")) };
        let Some(f) = self.routine_named(o, s.object_type, false, runtime)? else { return Ok(tag) };
        let (schema, _) = self.creation_schema(s.newschema(), false, runtime)?;
        if schema == f.schema_oid {
            return Ok(tag);
        }
        self.changeable_routine(&f, ("function", &f.name))?;
        if is_temporary(schema) != is_temporary(f.schema_oid) {
            return Err(Error::unsupported("cannot move objects into or out of temporary schemas"));
        }
        if schema != f.schema_oid {
            self.refuse_same_signature(&f, schema, &f.name, runtime)?;
            self.update_row(PG_PROC, PG_PROC_OID_INDEX, f.oid, runtime, |row| {
                row.set("pronamespace", Datum::Oid(schema))
            })?;
        }
        Ok(tag)
    }

    pub(super) fn give_routine(
        &mut self,
        s: &nodes::AlterOwnerStmt,
        owner: Oid,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let tag = format!("ALTER {}", tag_of(s.object_type));
        let Node::ObjectWithArgs(o) = s.object() else { return Err(Error::internal("OWNER TO without a routine")) };
        let Some(f) = self.routine_named(o, s.object_type, false, runtime)? else { return Ok(tag) };
        if f.owner == owner {
            return Ok(tag);
        }
        self.changeable_routine(&f, ("function", &f.name))?;
        self.require_new_owner(owner, Some(f.schema_oid), runtime)?;
        self.update_row(PG_PROC, PG_PROC_OID_INDEX, f.oid, runtime, |row| row.set("proowner", Datum::Oid(owner)))?;
        Ok(tag)
    }

    pub(super) fn commented_routine(&mut self, object: Node<'_>, kind: O::Type, runtime: &dyn Runtime) -> Result<Oid> {
        let Node::ObjectWithArgs(o) = object else {
            return Err(Error::internal("COMMENT ON FUNCTION without a function"));
        };
        let found = self.routine_named(o, kind, false, runtime)?;
        found.map(|f| f.oid).ok_or_else(|| invalid("no such routine"))
    }
}
