//! CREATE DOMAIN and ALTER DOMAIN.
//!
//! Invariants
//! 1. Checks are kept as text over VALUE (`conbin`), and looked at again by whoever binds a conversion to the domain.
//! 2. A constraint is added only once all stored values keep it.

use super::Definitions;
use super::types::{NewType, insert_type};
use crate::client::Runtime;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::engine_query::RowCondition;
use kilndb_bind::names::VisibleColumns;
use kilndb_catalog::catalog_row::CatalogRow;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CatalogView, Table, TableKind, TypeInfo};
use kilndb_syntax::raw::{ConstrType as C, DropBehavior};
use kilndb_syntax::{Node, nodes};
use kilndb_types::Datum;
use std::sync::Arc;

/// What the constraints of CREATE DOMAIN say.
#[derive(Default)]
struct Clauses {
    default: Option<Option<String>>,
    /// NULL (false) or NOT NULL (true), with the constraint's name.
    not_null: Option<(bool, Option<String>)>,
    checks: Vec<(Option<String>, String, bool)>,
}

fn domain_clauses(s: &nodes::CreateDomainStmt, source: &str) -> Result<Clauses> {
    let mut clauses = Clauses::default();
    for k in s.constraints() {
        let at = |e: Error| e.or_position(kilndb_syntax::position_of(source, k.location));
        match k.contype {
            C::CONSTR_DEFAULT => {
                if clauses.default.is_some() {
                    return Err(at(Error::new(sqlstate::SYNTAX_ERROR, "multiple default expressions")));
                }
                let is_null = matches!(k.raw_expr(), Node::A_Const(c) if c.val().is_none());
                clauses.default = Some(if is_null { None } else { Some(kilndb_syntax::expression_sql(k.raw_expr())?) });
            }
            C::CONSTR_NOTNULL | C::CONSTR_NULL => {
                let is_not = k.contype == C::CONSTR_NOTNULL;
                if is_not && k.is_no_inherit {
                    return Err(at(Error::new(
                        sqlstate::INVALID_OBJECT_DEFINITION,
                        "not-null constraints for domains cannot be marked NO INHERIT",
                    )));
                }
                match &clauses.not_null {
                    Some((known, _)) if *known != is_not => {
                        return Err(at(Error::new(sqlstate::SYNTAX_ERROR, "conflicting NULL/NOT NULL constraints")));
                    }
                    Some((true, _)) => {
                        return Err(at(Error::new(
                            sqlstate::INVALID_OBJECT_DEFINITION,
                            "redundant NOT NULL constraint definition",
                        )));
                    }
                    _ => clauses.not_null = Some((is_not, k.conname().map(str::to_string))),
                }
            }
            C::CONSTR_CHECK => {
                if k.is_no_inherit {
                    return Err(at(Error::new(
                        sqlstate::INVALID_OBJECT_DEFINITION,
                        "check constraints for domains cannot be marked NO INHERIT",
                    )));
                }
                let sql = kilndb_syntax::expression_sql(k.raw_expr())?;
                clauses.checks.push((k.conname().map(str::to_string), sql, true));
            }
            other => return Err(at(impossible(other))),
        }
    }
    Ok(clauses)
}

/// A constraint of a domain that is to be stored.
struct NewDomainConstraint<'a> {
    domain: Oid,
    schema: Oid,
    name: &'a str,
    /// None: NOT NULL.
    check: Option<&'a str>,
    /// False: values that are there need not fulfil it.
    is_validated: bool,
}

impl Definitions<'_> {
    pub fn create_domain(
        &mut self,
        s: &nodes::CreateDomainStmt,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let names: Vec<String> = s.domainname().iter().filter_map(|n| n.sval().map(str::to_string)).collect();
        let (schema, name) = self.new_type_name(&names, runtime)?;
        let t = s.type_name().ok_or_else(|| Error::internal("a domain without a type"))?;
        let (base, typmod) = self.context_mut().resolve_type(t, source, runtime)?;
        self.require_type(base, runtime)?;
        let info = self.type_info(base, runtime)?;
        if !matches!(info.kind, b'b' | b'c' | b'd' | b'e' | b'r' | b'm') {
            let shown = self.type_shown(base, runtime)?;
            let e =
                Error::new(sqlstate::DATATYPE_MISMATCH, format!("\"{shown}\" is not a valid base type for a domain"));
            return Err(e.or_position(kilndb_syntax::position_of(source, t.location)));
        }
        let mut collation = info.collation;
        if let Some(clause) = s.coll_clause() {
            if collation == 0 {
                let shown = self.type_shown(base, runtime)?;
                return Err(Error::new(
                    sqlstate::DATATYPE_MISMATCH,
                    format!("collations are not supported by type {shown}"),
                ));
            }
            collation = self.collation_oid(
                &clause.collname().iter().filter_map(|n| n.as_str().map(str::to_string)).collect::<Vec<_>>(),
                runtime,
            )?;
        }
        let clauses = domain_clauses(s, source)?;
        if let Some(Some(sql)) = &clauses.default {
            self.check_default(sql, &name, (base, typmod), runtime)?;
        }
        super::types::refuse_temporary(schema)?;
        let (oid, array, owner) = (self.new_oid(schema)?, self.new_oid(schema)?, self.context().identity.current_role);
        let rows = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(base)])?;
        let like = rows.first().ok_or_else(|| Error::internal("a type without a row"))?;
        let mut columns: Vec<(&'static str, Datum)> = [
            "typlen",
            "typbyval",
            "typalign",
            "typstorage",
            "typcategory",
            "typoutput",
            "typsend",
            "typanalyze",
            "typdelim",
        ]
        .into_iter()
        .map(|c| (c, like.get(c).clone()))
        .collect();
        columns.extend([
            ("typtype", Datum::Char(b'd')),
            ("typinput", Datum::Oid(2597)),
            ("typreceive", Datum::Oid(2598)),
            ("typbasetype", Datum::Oid(base)),
            ("typtypmod", Datum::Int4(typmod)),
            ("typndims", Datum::Int4(t.array_bounds().len() as i32)),
            ("typcollation", Datum::Oid(collation)),
            ("typnotnull", Datum::Bool(clauses.not_null.as_ref().is_some_and(|n| n.0))),
        ]);
        if let Some(Some(sql)) = &clauses.default {
            let sql = self.stored_expression(sql, VisibleColumns::Default(None, (base, typmod)), runtime)?;
            columns.extend([("typdefault", Datum::text(&sql)), ("typdefaultbin", Datum::text(&sql))]);
        }
        self.write_catalog(runtime, |w| insert_type(w, &NewType { oid, name: &name, schema, owner, array, columns }))?;
        if let Some((true, given)) = &clauses.not_null {
            let name = self.domain_constraint_name(oid, &name, given.as_deref(), "not_null")?;
            let new = NewDomainConstraint { domain: oid, schema, name: &name, check: None, is_validated: true };
            self.insert_domain_constraint(new, runtime)?;
        }
        for (given, sql, _) in &clauses.checks {
            self.check_domain_check(sql, base, runtime)?;
            let sql = self.stored_expression(sql, VisibleColumns::Domain(base), runtime)?;
            let name = self.domain_constraint_name(oid, &name, given.as_deref(), "check")?;
            let new = NewDomainConstraint { domain: oid, schema, name: &name, check: Some(&sql), is_validated: true };
            self.insert_domain_constraint(new, runtime)?;
        }
        Ok(())
    }

    /// The check must be a condition on VALUE alone.
    fn check_domain_check(&mut self, sql: &str, base: Oid, runtime: &dyn Runtime) -> Result<()> {
        self.context_mut().with_catalog(runtime, |host| {
            let bound = kilndb_bind::domain::check(sql, base, &host.reader)
                .and_then(|e| super::depend::refuse_temporary_routines(&e));
            bound.map_err(|mut e| {
                e.0.position = None;
                e
            })
        })
    }

    fn domain_constraint_name(&mut self, domain: Oid, name: &str, given: Option<&str>, suffix: &str) -> Result<String> {
        let rows =
            self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONTYPID_INDEX, &[Datum::Oid(domain)])?;
        let is_taken = |name: &str| rows.iter().any(|r| r.text("conname") == Some(name));
        if let Some(given) = given {
            if is_taken(given) {
                return Err(Error::new(
                    sqlstate::DUPLICATE_OBJECT,
                    format!("constraint \"{given}\" for domain \"{name}\" already exists"),
                ));
            }
            return Ok(given.to_string());
        }
        let names = (0..).map(|n| {
            super::constraint::object_name(name, "", &if n == 0 { suffix.to_string() } else { format!("{suffix}{n}") })
        });
        names.into_iter().find(|n| !is_taken(n)).ok_or_else(|| Error::internal("no free name"))
    }

    fn insert_domain_constraint(&mut self, new: NewDomainConstraint<'_>, runtime: &dyn Runtime) -> Result<()> {
        let NewDomainConstraint { domain, schema, name, check, is_validated } = new;
        let kind = if check.is_some() { b'c' } else { b'n' };
        let oid = self.new_oid(domain)?;
        let mut row = vec![
            ("oid", Datum::Oid(oid)),
            ("conname", Datum::text(name)),
            ("connamespace", Datum::Oid(schema)),
            ("contype", Datum::Char(kind)),
            ("conenforced", Datum::Bool(true)),
            ("convalidated", Datum::Bool(is_validated)),
            ("contypid", Datum::Oid(domain)),
            ("conislocal", Datum::Bool(true)),
            ("confupdtype", Datum::Char(b' ')),
            ("confdeltype", Datum::Char(b' ')),
            ("confmatchtype", Datum::Char(b' ')),
        ];
        row.extend(check.map(|sql| ("conbin", Datum::text(sql))));
        self.write_catalog(runtime, |w| w.insert(PG_CONSTRAINT, &row).map(|_| ()))
    }

    pub fn alter_domain(&mut self, s: &nodes::AlterDomainStmt, source: &Arc<str>, runtime: &dyn Runtime) -> Result<()> {
        let names: Vec<String> = super::strings(s.type_name()).into_iter().map(str::to_string).collect();
        let info = self.domain_named(&names, runtime)?;
        match s.subtype as u8 {
            b'T' => self.alter_domain_default(&info, s.def(), runtime),
            b'N' => self.drop_domain_not_null(&info, runtime),
            b'O' => self.set_domain_not_null(&info, None, runtime),
            b'C' => match s.def() {
                Node::Constraint(k) => self.add_domain_constraint(&info, k, source, runtime),
                _ => Err(Error::internal("ADD without a constraint")),
            },
            b'X' => self.drop_domain_constraint(
                &info,
                s.name().unwrap_or(""),
                s.missing_ok,
                s.behavior == DropBehavior::DROP_CASCADE,
                runtime,
            ),
            b'V' => self.validate_domain_constraint(&info, s.name().unwrap_or(""), runtime),
            _ => Err(Error::unsupported("this form of ALTER DOMAIN is not supported")),
        }
    }

    fn domain_named(&mut self, names: &[String], runtime: &dyn Runtime) -> Result<Arc<TypeInfo>> {
        let info = self.type_named(names, runtime)?;
        if info.kind != b'd' {
            let shown = self.type_shown(info.oid, runtime)?;
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("{shown} is not a domain")));
        }
        self.refuse_other_owner_of_type(info.oid, runtime)?;
        Ok(info)
    }

    fn alter_domain_default(&mut self, info: &TypeInfo, def: Node<'_>, runtime: &dyn Runtime) -> Result<()> {
        let sql = match def {
            Node::None => None,
            Node::A_Const(c) if c.val().is_none() => None,
            node => Some(kilndb_syntax::expression_sql(node)?),
        };
        if let Some(sql) = &sql {
            self.check_default(sql, &info.name, (info.base_type, info.typmod), runtime)?;
        }
        let over = VisibleColumns::Default(None, (info.base_type, info.typmod));
        let sql = sql.map(|sql| self.stored_expression(&sql, over, runtime)).transpose()?;
        self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |row| {
            let value = sql.as_ref().map_or(Datum::Null, Datum::text);
            row.set("typdefault", value.clone());
            row.set("typdefaultbin", value);
        })
    }

    fn domain_constraints(&mut self, domain: Oid) -> Result<Vec<CatalogRow>> {
        self.context_mut().catalog_lookup(PG_CONSTRAINT, PG_CONSTRAINT_CONTYPID_INDEX, &[Datum::Oid(domain)])
    }

    fn drop_domain_not_null(&mut self, info: &TypeInfo, runtime: &dyn Runtime) -> Result<()> {
        for row in self.domain_constraints(info.oid)?.iter().filter(|r| r.char("contype") == b'n') {
            self.delete_constraint(row.oid("oid"), runtime)?;
        }
        self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |row| row.set("typnotnull", Datum::Bool(false)))
    }

    fn set_domain_not_null(&mut self, info: &TypeInfo, given: Option<&str>, runtime: &dyn Runtime) -> Result<()> {
        if info.domain.as_ref().is_some_and(|d| d.not_null) {
            return Ok(());
        }
        for (table, column) in self.columns_of_domain(info.oid, runtime)? {
            let Some(attnum) = table.columns.iter().find(|c| c.name == column).map(|c| c.attnum) else { continue };
            if self.table_with_row(&table, RowCondition::Null(attnum), runtime)?.is_some() {
                return Err(Error::new(
                    sqlstate::NOT_NULL_VIOLATION,
                    format!("column \"{column}\" of table \"{}\" contains null values", table.name),
                ));
            }
        }
        let name = self.domain_constraint_name(info.oid, &info.name, given, "not_null")?;
        let (domain, schema) = (info.oid, info.schema_oid);
        let new = NewDomainConstraint { domain, schema, name: &name, check: None, is_validated: true };
        self.insert_domain_constraint(new, runtime)?;
        self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |row| row.set("typnotnull", Datum::Bool(true)))
    }

    fn add_domain_constraint(
        &mut self,
        info: &TypeInfo,
        k: &nodes::Constraint,
        source: &Arc<str>,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        match k.contype {
            C::CONSTR_NOTNULL => self.set_domain_not_null(info, k.conname(), runtime),
            C::CONSTR_CHECK => {
                let sql = kilndb_syntax::expression_sql(k.raw_expr())?;
                self.check_domain_check(&sql, info.base_type, runtime)?;
                let sql = self.stored_expression(&sql, VisibleColumns::Domain(info.base_type), runtime)?;
                let name = self.domain_constraint_name(info.oid, &info.name, k.conname(), "check")?;
                if !k.skip_validation {
                    self.validate_domain_check(info, &sql, runtime)?;
                }
                let new = NewDomainConstraint {
                    domain: info.oid,
                    schema: info.schema_oid,
                    name: &name,
                    check: Some(&sql),
                    is_validated: !k.skip_validation,
                };
                self.insert_domain_constraint(new, runtime)?;
                // Whoever keeps the type looks at it again.
                self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |_| {})
            }
            other => Err(impossible(other).or_position(kilndb_syntax::position_of(source, k.location))),
        }
    }

    fn drop_domain_constraint(
        &mut self,
        info: &TypeInfo,
        name: &str,
        missing_ok: bool,
        _cascade: bool,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        let rows = self.domain_constraints(info.oid)?;
        let Some(row) = rows.iter().find(|r| r.text("conname") == Some(name)) else {
            let message = format!("constraint \"{name}\" of domain \"{}\" does not exist", info.name);
            if missing_ok {
                self.context().notice(kilndb_base::Severity::Notice, format!("{message}, skipping"));
                return Ok(());
            }
            return Err(Error::new(sqlstate::UNDEFINED_OBJECT, message));
        };
        if row.char("contype") == b'n' {
            return self.drop_domain_not_null(info, runtime);
        }
        self.delete_constraint(row.oid("oid"), runtime)?;
        self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |_| {})
    }

    fn validate_domain_constraint(&mut self, info: &TypeInfo, name: &str, runtime: &dyn Runtime) -> Result<()> {
        let rows = self.domain_constraints(info.oid)?;
        let Some(row) = rows.iter().find(|r| r.text("conname") == Some(name)) else {
            return Err(Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{name}\" of domain \"{}\" does not exist", info.name),
            ));
        };
        let Some(sql) = row.text("conbin").filter(|_| row.char("contype") == b'c') else {
            return Err(Error::new(
                sqlstate::WRONG_OBJECT_TYPE,
                format!("constraint \"{name}\" of domain \"{}\" is not a check constraint", info.name),
            ));
        };
        self.validate_domain_check(info, sql, runtime)?;
        let mut changed = row.clone();
        changed.set("convalidated", Datum::Bool(true));
        self.write_catalog(runtime, |w| w.update(row, changed.values()))
    }

    /// Do all stored values keep a check? VALUE is the name of the only column of what it is asked of.
    fn validate_domain_check(&mut self, info: &TypeInfo, sql: &str, runtime: &dyn Runtime) -> Result<()> {
        for (table, column) in self.columns_of_domain(info.oid, runtime)? {
            let attnum = table.columns.iter().find(|c| !c.dropped && c.name == column).map_or(0, |c| c.attnum);
            let condition = RowCondition::DomainFalse { attnum, base: info.base_type, check: sql };
            if self.table_with_row(&table, condition, runtime)?.is_some() {
                let message = format!(
                    "column \"{column}\" of table \"{}\" contains values that violate the new constraint",
                    table.name
                );
                return Err(Error::new(sqlstate::CHECK_VIOLATION, message));
            }
        }
        Ok(())
    }

    /// Columns of tables that are of the domain or of one over it. Values inside of others cannot be looked at.
    fn columns_of_domain(&mut self, domain: Oid, runtime: &dyn Runtime) -> Result<Vec<(Arc<Table>, String)>> {
        let mut columns = Vec::new();
        for row in self.dependents(PG_TYPE, domain, 0)? {
            let object = row.oid("objid");
            match row.oid("classid") {
                PG_TYPE => columns.extend(self.columns_of_domain(object, runtime)?),
                PG_CLASS => {
                    let Some(table) =
                        self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(object))?
                    else {
                        continue;
                    };
                    let column =
                        table.columns.get(row.int("objsubid") as usize - 1).map(|c| c.name.clone()).unwrap_or_default();
                    match table.kind {
                        kind if kind.keeps_rows() => columns.push((table, column)),
                        TableKind::Composite => self.refuse_contained(&table, domain, runtime)?,
                        _ => {}
                    }
                }
                _ => {}
            }
        }
        let rows = self.context_mut().catalog_lookup(PG_TYPE, PG_TYPE_OID_INDEX, &[Datum::Oid(domain)])?;
        let array = rows.first().map_or(0, |r| r.oid("typarray"));
        for row in self.dependents(PG_TYPE, array, 0)? {
            let object = row.oid("objid");
            if let Some(table) = self
                .context_mut()
                .with_catalog(runtime, |host| host.reader.table_by_oid(object))?
                .filter(|_| row.oid("classid") == PG_CLASS)
                && table.kind.keeps_rows()
            {
                let column =
                    table.columns.get(row.int("objsubid") as usize - 1).map(|c| c.name.clone()).unwrap_or_default();
                return Err(self.contained(&table, &column, domain, runtime)?);
            }
        }
        Ok(columns)
    }

    fn contained(&mut self, table: &Table, column: &str, domain: Oid, runtime: &dyn Runtime) -> Result<Error> {
        let shown = self.type_shown(domain, runtime)?;
        Ok(Error::unsupported(format!(
            "cannot alter type \"{shown}\" because column \"{}.{column}\" uses it",
            table.name
        )))
    }

    fn refuse_contained(&mut self, composite: &Table, domain: Oid, runtime: &dyn Runtime) -> Result<()> {
        for ty in self.row_types(composite)? {
            for row in self.dependents(PG_TYPE, ty, 0)?.into_iter().filter(|r| r.oid("classid") == PG_CLASS) {
                let object = row.oid("objid");
                let user = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(object))?;
                if let Some(user) = user.filter(|t| t.kind.keeps_rows()) {
                    let column =
                        user.columns.get(row.int("objsubid") as usize - 1).map(|c| c.name.clone()).unwrap_or_default();
                    return Err(self.contained(&user, &column, domain, runtime)?);
                }
            }
        }
        Ok(())
    }

    pub(super) fn rename_domain_constraint(
        &mut self,
        s: &nodes::RenameStmt,
        new_name: &str,
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let names: Vec<String> = match s.object() {
            Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval().map(str::to_string)).collect(),
            Node::NodeList(list) => super::strings(list).into_iter().map(str::to_string).collect(),
            _ => Vec::new(),
        };
        let info = self.domain_named(&names, runtime)?;
        let old = s.subname().unwrap_or("");
        let rows = self.domain_constraints(info.oid)?;
        let Some(row) = rows.iter().find(|r| r.text("conname") == Some(old)) else {
            return Err(Error::new(
                sqlstate::UNDEFINED_OBJECT,
                format!("constraint \"{old}\" for domain {} does not exist", info.name),
            ));
        };
        let mut changed = row.clone();
        changed.set("conname", Datum::text(new_name));
        self.write_catalog(runtime, |w| w.update(row, changed.values()))?;
        self.update_row(PG_TYPE, PG_TYPE_OID_INDEX, info.oid, runtime, |_| {})?;
        Ok("ALTER DOMAIN".to_string())
    }
}

/// A constraint that domains cannot have.
fn impossible(kind: C::Type) -> Error {
    let message = match kind {
        C::CONSTR_UNIQUE => "unique constraints not possible for domains",
        C::CONSTR_PRIMARY => "primary key constraints not possible for domains",
        C::CONSTR_EXCLUSION => "exclusion constraints not possible for domains",
        C::CONSTR_FOREIGN => "foreign key constraints not possible for domains",
        C::CONSTR_IDENTITY => "specifying GENERATED not supported for domains",
        C::CONSTR_GENERATED => "specifying GENERATED not supported for domains",
        C::CONSTR_ATTR_ENFORCED | C::CONSTR_ATTR_NOT_ENFORCED => {
            return Error::new(
                sqlstate::INVALID_OBJECT_DEFINITION,
                "specifying constraint enforceability not supported for domains",
            );
        }
        _ => {
            return Error::new(
                sqlstate::FEATURE_NOT_SUPPORTED,
                "specifying constraint deferrability not supported for domains",
            );
        }
    };
    let state = if matches!(kind, C::CONSTR_IDENTITY | C::CONSTR_GENERATED) {
        sqlstate::FEATURE_NOT_SUPPORTED
    } else {
        sqlstate::SYNTAX_ERROR
    };
    Error::new(state, message)
}
