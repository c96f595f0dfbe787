//! Cursors: variables of type refcursor hold their names.

use super::{Flow, Run, Typed};
use crate::tree::*;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_sql::routine::{Direction as FetchDirection, Scroll as SpiScroll};
use kilndb_types::{Datum, oids};

fn scroll_of(scroll: Scroll) -> SpiScroll {
    match scroll {
        Scroll::Default => SpiScroll::Default,
        Scroll::Wanted => SpiScroll::Scroll,
        Scroll::Refused => SpiScroll::NoScroll,
    }
}

impl<'r> Run<'r, '_> {
    fn cursor_variable(&self, slot: Slot) -> Result<&'r ScalarVariable> {
        match self.vars.variable(slot)? {
            Variable::Scalar(v) => Ok(v),
            _ => Err(Error::internal("a cursor variable was expected")),
        }
    }

    /// The portal's name; None: the variable is NULL.
    fn cursor_name(&self, slot: Slot) -> Result<Option<String>> {
        Ok(match self.vars.get(slot)? {
            Datum::Text(name) => Some(name.to_string()),
            _ => None,
        })
    }

    fn open_name(&self, slot: Slot) -> Result<String> {
        let variable = self.cursor_variable(slot)?;
        self.cursor_name(slot)?.ok_or_else(|| {
            Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("cursor variable \"{}\" is null", variable.name))
        })
    }

    /// 42P03 if there is an open cursor of that name.
    fn refuse_open(&mut self, name: Option<&str>) -> Result<()> {
        match name {
            Some(name) if self.spi.cursor_exists(name) => {
                Err(Error::new(sqlstate::DUPLICATE_CURSOR, format!("cursor \"{name}\" already in use")))
            }
            _ => Ok(()),
        }
    }

    fn keep_name(&mut self, slot: Slot, had_name: bool, name: &str) -> Result<()> {
        if had_name {
            return Ok(());
        }
        let variable = self.cursor_variable(slot)?;
        if variable.constant {
            return Err(Error::new(
                crate::ERROR_IN_ASSIGNMENT,
                format!("variable \"{}\" is declared CONSTANT", variable.name),
            ));
        }
        self.vars.set(slot, Datum::text(name));
        Ok(())
    }

    pub(crate) fn open(&mut self, slot: Slot, scroll: Scroll, source: &'r OpenSource) -> Result<()> {
        let known = self.cursor_name(slot)?;
        self.refuse_open(known.as_deref())?;
        let name = match source {
            OpenSource::Query(query) => {
                let prepared = self.prepared(query)?;
                self.spi.open_cursor(known.as_deref(), &prepared, &self.vars.scope(query.place), scroll_of(scroll))?
            }
            OpenSource::Dynamic { query, params } => {
                let (text, values) = self.dynamic_query(query, params)?;
                self.spi.open_cursor_on_text(known.as_deref(), &text, &values, scroll_of(scroll))?
            }
            OpenSource::Bound(args) => self.open_bound(slot, args.as_ref(), known.as_deref())?,
        };
        self.keep_name(slot, known.is_some(), &name)
    }

    fn open_bound(&mut self, slot: Slot, args: Option<&'r Expr>, known: Option<&str>) -> Result<String> {
        let Some(cursor) = &self.cursor_variable(slot)?.cursor else {
            return Err(Error::internal("an unbound cursor"));
        };
        if let (Some(args), Some(target)) = (args, cursor.args) {
            let (shape, first) = self.rows_of(args, 1)?;
            let shape = shape.unwrap_or_default();
            self.assign_row(target, &shape, (first.count > 0).then_some(first.values.as_slice()))?;
        }
        let query = &cursor.query;
        let prepared = self.prepared(query)?;
        self.spi.open_cursor(known, &prepared, &self.vars.scope(query.place), scroll_of(cursor.scroll))
    }

    pub(crate) fn for_cursor(
        &mut self,
        label: Option<&'r str>,
        slot: Slot,
        args: Option<&'r Expr>,
        record: Slot,
        body: &'r [Stmt],
    ) -> Result<Flow> {
        let known = self.cursor_name(slot)?;
        self.refuse_open(known.as_deref())?;
        let name = self.open_bound(slot, args, known.as_deref())?;
        self.keep_name(slot, known.is_some(), &name)?;
        // Not ahead of the body, which may look at where the cursor is (WHERE CURRENT OF).
        let flow = self.for_rows(label, record, &name, body, false)?;
        self.spi.close_cursor(&name)?;
        if known.is_none() {
            self.vars.set(slot, Datum::Null);
        }
        Ok(flow)
    }

    pub(crate) fn fetch(
        &mut self,
        slot: Slot,
        target: Option<Slot>,
        direction: Direction,
        count: &'r FetchCount,
    ) -> Result<()> {
        let name = self.open_name(slot)?;
        let shape = self.spi.cursor_row(&name)?;
        let count = match count {
            FetchCount::Number(n) => *n,
            FetchCount::All => i64::MAX,
            FetchCount::Expr(expr) => {
                let n = self.integer(expr)?;
                i64::from(n.ok_or_else(|| {
                    Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "relative or absolute cursor position is null")
                })?)
            }
        };
        let direction = match direction {
            Direction::Forward => FetchDirection::Forward(count),
            Direction::Backward => FetchDirection::Backward(count),
            Direction::Absolute => FetchDirection::Absolute(count),
            Direction::Relative => FetchDirection::Relative(count),
        };
        let mut first = super::sql::FirstRow::default();
        let n = self.spi.fetch(&name, direction, target.is_none(), &mut first)?;
        if let Some(target) = target {
            self.assign_row(target, &shape, (first.count > 0).then_some(first.values.as_slice()))?;
        }
        self.row_count = n;
        self.set_found(n != 0);
        Ok(())
    }

    pub(crate) fn close(&mut self, slot: Slot) -> Result<()> {
        let name = self.open_name(slot)?;
        self.spi.close_cursor(&name)
    }

    /// The variables that stand for output arguments of a CALL.
    pub(crate) fn output_slots(
        &mut self,
        query: &'r Expr,
        prepared: &std::sync::Arc<kilndb_sql::routine::SpiPrepared>,
    ) -> Result<Vec<Slot>> {
        let outputs = self.spi.outputs_of_call(prepared, &self.vars.scope(query.place))?;
        let mut slots = Vec::with_capacity(outputs.len());
        for (name, variable) in outputs {
            let Some(number) = variable else {
                let message = format!(
                    "procedure parameter \"{name}\" is an output parameter but corresponding argument is not writable"
                );
                return Err(Error::new(sqlstate::SYNTAX_ERROR, message));
            };
            let slot = number as Slot;
            if let Variable::Scalar(v) = self.vars.variable(slot)?
                && v.constant
            {
                return Err(Error::new(
                    crate::ERROR_IN_ASSIGNMENT,
                    format!("variable \"{}\" is declared CONSTANT", v.name),
                ));
            }
            slots.push(slot);
        }
        Ok(slots)
    }

    /// Results of CALL to those variables.
    pub(crate) fn take_outputs(
        &mut self,
        slots: &[Slot],
        shape: &kilndb_sql::routine::TupleDescriptor,
        values: &[Datum],
    ) -> Result<()> {
        for (i, slot) in slots.iter().enumerate() {
            let (oid, typmod) = shape.columns.get(i).map_or((oids::UNKNOWN, -1), |c| (c.type_oid, c.typmod));
            self.assign(*slot, Typed { value: values.get(i).cloned().unwrap_or_default(), oid, typmod })?;
        }
        Ok(())
    }
}
