//! RAISE, ASSERT and GET DIAGNOSTICS.

use super::block::ASSERT_FAILURE;
use super::{Run, Typed};
use crate::compile::severity;
use crate::conditions;
use crate::tree::*;
use kilndb_base::{Error, Result, Severity, SqlState, sqlstate};
use kilndb_types::{Datum, oids};

const RAISE_EXCEPTION: SqlState = SqlState::new("P0001");
const NO_HANDLER: SqlState = SqlState::new("0Z002");

/// What options have said so far.
#[derive(Default)]
struct Options {
    values: Vec<(RaiseOption, String)>,
}

impl Options {
    fn get(&self, option: RaiseOption) -> Option<String> {
        self.values.iter().find(|(o, _)| *o == option).map(|(_, v)| v.clone())
    }
    fn add(&mut self, option: RaiseOption, value: String) -> Result<()> {
        if self.get(option).is_some() {
            let name = format!("{option:?}").to_ascii_uppercase();
            return Err(Error::new(sqlstate::SYNTAX_ERROR, format!("RAISE option already specified: {name}")));
        }
        self.values.push((option, value));
        Ok(())
    }
}

fn state_of(name: &str) -> Result<SqlState> {
    if conditions::is_sqlstate(name) {
        return Ok(conditions::sqlstate_of(name));
    }
    conditions::first(name)
        .ok_or_else(|| Error::new(sqlstate::UNDEFINED_OBJECT, format!("unrecognized exception condition \"{name}\"")))
}

impl<'r> Run<'r, '_> {
    pub(crate) fn raise(&mut self, raise: &'r Raise) -> Result<()> {
        if raise.is_again() {
            let Some(e) = self.handled.last().cloned() else {
                return Err(Error::new(
                    NO_HANDLER,
                    "RAISE without parameters cannot be used outside an exception handler",
                ));
            };
            self.told = true;
            return Err(e);
        }
        let mut options = Options::default();
        let mut condition = raise.condition.clone();
        let mut state = condition.as_deref().map(state_of).transpose()?;
        if let Some(format) = &raise.message {
            let message = self.formatted(format, &raise.params)?;
            options.add(RaiseOption::Message, message)?;
        }
        for (option, expr) in &raise.options {
            let value = self
                .text(expr)?
                .ok_or_else(|| Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "RAISE statement option cannot be null"))?;
            if *option == RaiseOption::Errcode {
                if state.is_some() {
                    return Err(Error::new(sqlstate::SYNTAX_ERROR, "RAISE option already specified: ERRCODE"));
                }
                state = Some(state_of(&value)?);
                condition = Some(value);
            } else {
                options.add(*option, value)?;
            }
        }
        let level = severity(raise.level);
        if state.is_none() && level == Severity::Error {
            state = Some(RAISE_EXCEPTION);
        }
        // Without a message the condition's name is one, without that the code.
        let message = options
            .get(RaiseOption::Message)
            .or(condition)
            .unwrap_or_else(|| state.map_or("00000".to_string(), |s| s.as_str().to_string()));
        let default = if level == Severity::Warning { sqlstate::WARNING } else { sqlstate::SUCCESSFUL_COMPLETION };
        let mut error = Error::new(state.unwrap_or(default), message).with_severity(level);
        error.0.detail = options.get(RaiseOption::Detail);
        error.0.hint = options.get(RaiseOption::Hint);
        error.0.column = options.get(RaiseOption::Column);
        error.0.constraint = options.get(RaiseOption::Constraint);
        error.0.data_type = options.get(RaiseOption::Datatype);
        error.0.table = options.get(RaiseOption::Table);
        error.0.schema = options.get(RaiseOption::Schema);
        if level == Severity::Error {
            return Err(error);
        }
        self.notice(error)
    }

    /// A message below an error, with where it comes from.
    pub(crate) fn notice(&mut self, mut notice: Error) -> Result<()> {
        notice.add_context(&self.whole_context());
        self.spi.notice(notice)
    }

    fn formatted(&mut self, format: &str, params: &'r [Expr]) -> Result<String> {
        let mut message = String::new();
        let mut params = params.iter();
        let mut rest = format;
        while let Some(at) = rest.find('%') {
            message.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            if let Some(more) = rest.strip_prefix('%') {
                message.push('%');
                rest = more;
                continue;
            }
            let Some(expr) = params.next() else {
                return Err(Error::internal("unexpected RAISE parameter list length"));
            };
            match self.text(expr)? {
                Some(text) => message.push_str(&text),
                None => message.push_str("<NULL>"),
            }
        }
        message.push_str(rest);
        Ok(message)
    }

    pub(crate) fn assert(&mut self, condition: &'r Expr, message: Option<&'r Expr>) -> Result<()> {
        if self.spi.setting("plpgsql.check_asserts").is_some_and(|v| v == "off")
            || self.condition(condition)? == Some(true)
        {
            return Ok(());
        }
        let message = match message {
            Some(expr) => self.text(expr)?,
            None => None,
        };
        Err(Error::new(ASSERT_FAILURE, message.unwrap_or_else(|| "assertion failed".to_string())))
    }

    pub(crate) fn diagnostics(&mut self, stacked: bool, items: &'r [(Slot, DiagnosticItem)]) -> Result<()> {
        if stacked && self.handled.is_empty() {
            return Err(Error::new(NO_HANDLER, "GET STACKED DIAGNOSTICS cannot be used outside an exception handler"));
        }
        for (target, item) in items {
            let typed = self.diagnostic(*item);
            self.assign(*target, typed)?;
        }
        Ok(())
    }

    fn diagnostic(&self, item: DiagnosticItem) -> Typed {
        let text = |value: Option<String>| Typed {
            value: Datum::text(value.unwrap_or_default()),
            oid: oids::TEXT,
            typmod: -1,
        };
        let error = self.handled.last().map(|e| &e.0);
        let field = |read: fn(&kilndb_base::error::ErrorFields) -> Option<String>| text(error.and_then(|e| read(e)));
        match item {
            DiagnosticItem::RowCount => {
                Typed { value: Datum::Int8(self.row_count as i64), oid: oids::INT8, typmod: -1 }
            }
            DiagnosticItem::RoutineOid => {
                Typed { value: Datum::Oid(self.routine.definition.oid), oid: oids::OID, typmod: -1 }
            }
            DiagnosticItem::Context => text(Some(self.whole_context())),
            DiagnosticItem::ExceptionContext => {
                let own = error.and_then(|e| e.context.clone());
                text(Some(own.into_iter().chain(self.spi.callers()).collect::<Vec<_>>().join("\n")))
            }
            DiagnosticItem::ExceptionDetail => field(|e| e.detail.clone()),
            DiagnosticItem::ExceptionHint => field(|e| e.hint.clone()),
            DiagnosticItem::ReturnedSqlstate => field(|e| Some(e.sqlstate.as_str().to_string())),
            DiagnosticItem::ColumnName => field(|e| e.column.clone()),
            DiagnosticItem::ConstraintName => field(|e| e.constraint.clone()),
            DiagnosticItem::DatatypeName => field(|e| e.data_type.clone()),
            DiagnosticItem::MessageText => field(|e| Some(e.message.clone())),
            DiagnosticItem::TableName => field(|e| e.table.clone()),
            DiagnosticItem::SchemaName => field(|e| e.schema.clone()),
        }
    }
}
