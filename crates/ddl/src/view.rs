//! CREATE VIEW: the query is kept as text and bound anew wherever the view is used.

use super::Definitions;
use super::create_table::{NewColumn, NewTable};
use crate::client::Runtime;
use crate::context::PlanRequest;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::collation::CollationStrength;
use kilndb_bind::updatable::check_option_obstacle;
use kilndb_catalog::ids::*;
use kilndb_catalog::{CheckOption, Table, TableKind};
use kilndb_plan::Plan;
use kilndb_storage::LockMode;
use kilndb_syntax::raw::ViewCheckOption;
use kilndb_syntax::{Node, NodeList, nodes};
use kilndb_types::{Datum, oids};
use std::sync::Arc;

/// Columns of a query's result, named by `aliases` as far as these go; `too_many`: what is said if they go further.
pub(super) fn result_columns(plan: &Plan, aliases: &[&str], too_many: &str) -> Result<Vec<NewColumn>> {
    if aliases.len() > plan.columns.len() {
        return Err(Error::new(sqlstate::SYNTAX_ERROR, too_many));
    }
    let mut columns: Vec<NewColumn> = Vec::new();
    for (i, c) in plan.columns.iter().enumerate() {
        let name = aliases.get(i).map_or(c.name.clone(), |a| a.to_string());
        let type_oid = if c.type_oid == oids::UNKNOWN { oids::TEXT } else { c.type_oid };
        let shown = if c.shown_type == oids::UNKNOWN { oids::TEXT } else { c.shown_type };
        let collation = match kilndb_catalog::extension::collation_of_type(shown) {
            own if own == 0 || c.collation.collation.oid == 0 => own,
            _ if c.collation.strength == CollationStrength::Conflict => return Err(no_collation(&name, shown)),
            _ => c.collation.collation.oid,
        };
        columns.push(NewColumn { name, type_oid, typmod: c.typmod, collation, ..NewColumn::default() });
    }
    Ok(columns)
}

/// 42701 if two columns of a new relation have the same name.
pub(super) fn refuse_same_names(columns: &[NewColumn]) -> Result<()> {
    for (n, column) in columns.iter().enumerate() {
        if columns[..n].iter().any(|known| known.name == column.name) {
            let message = format!("column \"{}\" specified more than once", column.name);
            return Err(Error::new(sqlstate::DUPLICATE_COLUMN, message));
        }
    }
    Ok(())
}

fn no_collation(column: &str, type_oid: Oid) -> Error {
    let type_name = match type_oid {
        oids::VARCHAR => "character varying",
        oids::BPCHAR => "character",
        oids::NAME => "name",
        _ => "text",
    };
    let message = format!("no collation was derived for column \"{column}\" with collatable type {type_name}");
    Error::new(sqlstate::INDETERMINATE_COLLATION, message)
        .with_hint("Use the COLLATE clause to set the collation explicitly.")
}

impl Definitions<'_> {
    pub fn create_view(&mut self, s: &nodes::ViewStmt, source: &Arc<str>, runtime: &dyn Runtime) -> Result<()> {
        let r = s.view().ok_or_else(|| Error::internal("CREATE VIEW without a name"))?;
        let plan = self
            .context_mut()
            .plan_with(&PlanRequest { is_definition: true, ..PlanRequest::of(s.query(), source) }, runtime)?;
        if !plan.param_types.is_empty() {
            return Err(Error::new(sqlstate::UNDEFINED_PARAMETER, "there is no parameter $1"));
        }
        let aliases = super::strings(s.aliases());
        let columns = result_columns(&plan, &aliases, "CREATE VIEW specifies more column names than columns")?;
        let uses_temporary = self.uses_temporary(&plan, runtime)?;
        let asked = self.will_be_temporary(r, runtime)?;
        let temporary = asked || uses_temporary;
        if uses_temporary && !asked {
            self.context().notice(
                kilndb_base::Severity::Notice,
                format!("view \"{}\" will be a temporary view", r.relname().unwrap_or("")),
            );
        }
        let (schema, _) = self.creation_schema(r.schemaname(), temporary, runtime)?;
        let name = r.relname().unwrap_or("").to_string();
        let text = self.view_text(s.query(), !aliases.is_empty(), &columns, runtime)?;
        let mut options = view_options(s.options())?;
        match s.with_check_option {
            ViewCheckOption::LOCAL_CHECK_OPTION => options.push("check_option=local".to_string()),
            ViewCheckOption::CASCADED_CHECK_OPTION => options.push("check_option=cascaded".to_string()),
            _ => {}
        }
        let mut names: Vec<&str> = options.iter().filter_map(|option| option.split('=').next()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            let message = format!("parameter \"{}\" specified more than once", twice[0]);
            return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
        }
        self.require_check_option(&options, &kilndb_syntax::statement_sql(s.query())?, runtime)?;
        let existing = self.context_mut().with_catalog(runtime, |host| host.reader.relation_oid(schema, &name))?;
        let oid = match existing {
            Some(oid) if s.replace => self.replace_view(oid, &columns, &options, runtime)?,
            Some(_) => {
                refuse_same_names(&columns)?;
                return Err(Error::new(sqlstate::DUPLICATE_TABLE, format!("relation \"{name}\" already exists")));
            }
            None => {
                refuse_same_names(&columns)?;
                let persistence = if temporary { b't' } else { b'p' };
                self.insert_table(
                    &NewTable { name, schema, kind: b'v', persistence, columns, options, class_columns: Vec::new() },
                    runtime,
                )?
            }
        };
        self.insert_rule(oid, &text, runtime)
    }

    /// Keeps the query of a view, plain or materialized.
    pub(super) fn insert_rule(&mut self, view: Oid, text: &str, runtime: &dyn Runtime) -> Result<()> {
        let rule = self.new_oid(view)?;
        self.write_catalog(runtime, |w| {
            w.insert(
                PG_REWRITE,
                &[
                    ("oid", Datum::Oid(rule)),
                    ("rulename", Datum::text("_RETURN")),
                    ("ev_class", Datum::Oid(view)),
                    ("ev_type", Datum::Char(b'1')),
                    ("ev_enabled", Datum::Char(b'O')),
                    ("is_instead", Datum::Bool(true)),
                    ("ev_qual", Datum::text("<>")),
                    ("ev_action", Datum::text(text)),
                ],
            )
            .map(|_| ())
        })
    }

    pub(super) fn uses_temporary(&mut self, plan: &Plan, runtime: &dyn Runtime) -> Result<bool> {
        for (oid, _) in &plan.locks {
            if super::is_user_object(*oid) && self.context_mut().table_by_oid(*oid, runtime)?.persistence == b't' {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The query's text, with column names of its own if the view was given some.
    pub(super) fn view_text(
        &mut self,
        query: Node<'_>,
        is_named: bool,
        columns: &[NewColumn],
        runtime: &dyn Runtime,
    ) -> Result<String> {
        let text = self.stored_query(&kilndb_syntax::statement_sql(query)?, runtime)?;
        if !is_named {
            return Ok(text);
        }
        let plain: Vec<&str> = columns.iter().map(|c| c.name.as_str()).collect();
        if let Some(renamed) = kilndb_syntax::select_with_names(&text, &plain)? {
            return Ok(renamed);
        }
        let quote = kilndb_catalog::format_type::quote_identifier;
        let names: Vec<String> = columns.iter().map(|c| quote(&c.name)).collect();
        let shown = names.join(", ");
        Ok(format!("SELECT {shown} FROM ({text}) v({shown})"))
    }

    /// Rows can be checked against a view's condition if they are those of one relation.
    pub(super) fn require_check_option(
        &mut self,
        options: &[String],
        query: &str,
        runtime: &dyn Runtime,
    ) -> Result<()> {
        if CheckOption::of_options(options).is_none() {
            return Ok(());
        }
        let obstacle = self.context_mut().with_catalog(runtime, |host| check_option_obstacle(query, &host.reader))?;
        match obstacle {
            None => Ok(()),
            Some(obstacle) => {
                let message = "WITH CHECK OPTION is supported only on automatically updatable views";
                Err(Error::new(sqlstate::FEATURE_NOT_SUPPORTED, message).with_hint(obstacle))
            }
        }
    }

    /// CREATE OR REPLACE: the old columns must stay as they are; new ones may follow.
    fn replace_view(
        &mut self,
        oid: Oid,
        columns: &[NewColumn],
        options: &[String],
        runtime: &dyn Runtime,
    ) -> Result<Oid> {
        let view: Arc<Table> = self.context_mut().table_by_oid(oid, runtime)?;
        self.require_table_owner(&view)?;
        if view.kind != TableKind::View {
            return Err(Error::new(sqlstate::WRONG_OBJECT_TYPE, format!("\"{}\" is not a view", view.name)));
        }
        let view = self.lock_for_ddl(&view, LockMode::AccessExclusive, runtime)?;
        if columns.len() < view.columns.len() {
            return Err(Error::new(sqlstate::INVALID_TABLE_DEFINITION, "cannot drop columns from view"));
        }
        for (old, new) in view.columns.iter().zip(columns) {
            if old.name != new.name {
                return Err(Error::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    format!("cannot change name of view column \"{}\" to \"{}\"", old.name, new.name),
                )
                .with_hint("Use ALTER VIEW ... RENAME COLUMN ... to change name of view column instead."));
            }
            if (old.type_oid, old.typmod) != (new.type_oid, new.typmod) {
                use kilndb_catalog::CatalogView;
                let (a, b) = self.context_mut().with_catalog(runtime, |host| {
                    Ok((
                        host.reader.format_type(old.type_oid, old.typmod),
                        host.reader.format_type(new.type_oid, new.typmod),
                    ))
                })?;
                return Err(Error::new(
                    sqlstate::INVALID_TABLE_DEFINITION,
                    format!("cannot change data type of view column \"{}\" from {a} to {b}", old.name),
                ));
            }
        }
        let added = &columns[view.columns.len()..];
        for (n, column) in added.iter().enumerate() {
            if columns[..view.columns.len() + n].iter().any(|known| known.name == column.name) {
                let message = format!("column \"{}\" of relation \"{}\" already exists", column.name, view.name);
                return Err(Error::new(sqlstate::DUPLICATE_COLUMN, message));
            }
        }
        let storages = self.column_storages(added, runtime)?;
        self.write_catalog(runtime, |w| {
            super::create_table::insert_attributes(w, oid, view.columns.len() as i16 + 1, added, &storages)
        })?;
        let count = columns.len() as i16;
        self.update_row(PG_CLASS, PG_CLASS_OID_INDEX, oid, runtime, |row| {
            row.set("relnatts", Datum::Int2(count));
            let value = match options {
                [] => Datum::Null,
                options => kilndb_catalog::store::array(oids::TEXT, options.iter().map(Datum::text).collect()),
            };
            row.set("reloptions", value);
        })?;
        self.delete_rows(PG_REWRITE, PG_REWRITE_REL_RULENAME_INDEX, &[Datum::Oid(oid)], runtime)?;
        Ok(oid)
    }
}

/// Options of a view as pg_class keeps them.
pub(super) fn view_options(list: &NodeList) -> Result<Vec<String>> {
    let mut options = Vec::new();
    for option in list {
        let Node::DefElem(d) = option else { continue };
        let invalid = |message: String| Error::new(sqlstate::INVALID_PARAMETER_VALUE, message);
        match d.defname() {
            Some(name @ ("security_barrier" | "security_invoker")) => {
                let shown = option_text(d.arg());
                let is_on = super::vacuum::flag(name, d.arg())
                    .map_err(|_| invalid(format!("invalid value for boolean option \"{name}\": {shown}")))?;
                options.push(format!("{name}={is_on}"));
            }
            Some("check_option") => match option_text(d.arg()).to_ascii_lowercase() {
                value if value == "local" || value == "cascaded" => options.push(format!("check_option={value}")),
                _ => {
                    let shown = option_text(d.arg());
                    return Err(invalid(format!("invalid value for enum option \"check_option\": {shown}"))
                        .with_detail("Valid values are \"local\" and \"cascaded\"."));
                }
            },
            other => {
                let name = other.unwrap_or("");
                return Err(invalid(format!("unrecognized parameter \"{name}\"")));
            }
        }
    }
    Ok(options)
}

/// An option's value as it is written.
fn option_text(value: Node<'_>) -> String {
    match value {
        Node::None => "true".to_string(),
        Node::Integer(i) => i.ival.to_string(),
        Node::Boolean(b) => b.boolval.to_string(),
        Node::TypeName(t) => t.names().iter().filter_map(|n| n.sval()).next_back().unwrap_or("").to_string(),
        other => other.as_str().unwrap_or("").to_string(),
    }
}
