//! Blocks, branches and loops.

use super::{Flow, Run};
use crate::conditions;
use crate::tree::*;
use kilndb_base::{Error, Result, Severity, SqlState, sqlstate};
use kilndb_types::{Array, Datum};
use std::sync::Arc;

pub(crate) const ASSERT_FAILURE: SqlState = SqlState::new("P0004");

/// Some conditions are caught only by name.
fn takes(handler: &Handler, state: SqlState) -> bool {
    handler.conditions.iter().any(|c| match c {
        Condition::Others => state != sqlstate::QUERY_CANCELED && state != ASSERT_FAILURE,
        Condition::State(wanted) => conditions::covers(*wanted, state),
    })
}

/// What a loop does after its body has run.
enum Turn {
    Again,
    Leave(Flow),
}

impl<'r> Run<'r, '_> {
    pub(crate) fn block(&mut self, block: &'r Block) -> Result<Flow> {
        self.declare(&block.declared)?;
        let flow = match &block.exceptions {
            None => {
                self.phase = None;
                self.statements(&block.body)?
            }
            Some(exceptions) => self.guarded(block, exceptions)?,
        };
        self.phase = None;
        match (flow, self.label, &block.label) {
            (Flow::Exit, Some(wanted), Some(label)) if wanted == label => {
                self.label = None;
                Ok(Flow::Next)
            }
            _ => Ok(flow),
        }
    }

    /// Variables of a block start anew.
    fn declare(&mut self, slots: &[Slot]) -> Result<()> {
        self.phase = Some("during statement block local variable initialization");
        for slot in slots {
            match self.vars.variable(*slot)? {
                Variable::Scalar(v) => {
                    self.declaring = Some(v.line);
                    self.vars.set(*slot, Datum::Null);
                    if let Some(default) = &v.default {
                        self.assign_expr(*slot, default)?;
                    }
                }
                Variable::Record(r) => {
                    self.declaring = Some(r.line);
                    self.vars.set_record(*slot, None);
                    if let Some(default) = &r.default {
                        self.assign_expr(*slot, default)?;
                    }
                }
                _ => {}
            }
        }
        self.declaring = None;
        Ok(())
    }

    /// The body in a subtransaction, and a handler if it fails.
    fn guarded(&mut self, block: &'r Block, exceptions: &'r Exceptions) -> Result<Flow> {
        self.phase = Some("during statement block entry");
        let mark = self.spi.begin_subtransaction()?;
        self.phase = None;
        let at = self.current;
        let depth = self.handled.len();
        let e = match self.statements(&block.body) {
            Ok(flow) => {
                self.phase = Some("during statement block exit");
                self.spi.release(mark)?;
                return Ok(flow);
            }
            Err(e) => e,
        };
        // The session ends: nobody catches that.
        if e.0.severity > Severity::Error {
            return Err(e);
        }
        let e = self.complete(e);
        self.handled.truncate(depth);
        (self.phase, self.declaring, self.current) = (Some("during exception cleanup"), None, at);
        self.spi.roll_back_to(mark)?;
        let Some(handler) = exceptions.handlers.iter().find(|h| takes(h, e.sqlstate())) else {
            self.told = true;
            return Err(e);
        };
        self.vars.set(exceptions.sqlstate, Datum::text(e.sqlstate().as_str()));
        self.vars.set(exceptions.sqlerrm, Datum::text(e.message()));
        self.handled.push(e);
        self.phase = None;
        let flow = self.statements(&handler.body);
        if flow.is_ok() {
            self.handled.truncate(depth);
        }
        flow
    }

    pub(crate) fn if_statement(&mut self, arms: &'r [(Expr, Vec<Stmt>)], otherwise: &'r [Stmt]) -> Result<Flow> {
        for (condition, body) in arms {
            if self.condition(condition)? == Some(true) {
                return self.statements(body);
            }
        }
        self.statements(otherwise)
    }

    pub(crate) fn case(
        &mut self,
        test: Option<&'r (Expr, Slot)>,
        whens: &'r [(Expr, Vec<Stmt>)],
        otherwise: Option<&'r [Stmt]>,
    ) -> Result<Flow> {
        if let Some((expr, slot)) = test {
            let typed = self.evaluate(expr)?;
            let typmod = typed.typmod;
            self.vars.case_types.retain(|(s, ..)| s != slot);
            self.vars.case_types.push((*slot, typed.oid, typmod));
            self.vars.set(*slot, typed.value);
        }
        for (condition, body) in whens {
            if self.condition(condition)? == Some(true) {
                self.forget_case(test);
                return self.statements(body);
            }
        }
        self.forget_case(test);
        match otherwise {
            Some(body) => self.statements(body),
            None => {
                Err(Error::new(SqlState::new("20000"), "case not found")
                    .with_hint("CASE statement is missing ELSE part."))
            }
        }
    }

    fn forget_case(&mut self, test: Option<&'r (Expr, Slot)>) {
        if let Some((_, slot)) = test {
            self.vars.set(*slot, Datum::Null);
        }
    }

    /// What the flow of a loop's body means for the loop.
    fn turn(&mut self, flow: Flow, label: Option<&str>) -> Turn {
        let is_mine = match (self.label, label) {
            (None, _) => true,
            (Some(wanted), Some(label)) => wanted == label,
            (Some(_), None) => false,
        };
        match flow {
            Flow::Next => Turn::Again,
            Flow::Return => Turn::Leave(Flow::Return),
            Flow::Exit if is_mine => {
                self.label = None;
                Turn::Leave(Flow::Next)
            }
            Flow::Continue if is_mine => {
                self.label = None;
                Turn::Again
            }
            other => Turn::Leave(other),
        }
    }

    /// Runs a loop's body once. Some: the loop is over.
    pub(crate) fn once(&mut self, label: Option<&str>, body: &'r [Stmt]) -> Result<Option<Flow>> {
        let flow = self.statements(body)?;
        if flow == Flow::Next {
            return Ok(None);
        }
        Ok(match self.turn(flow, label) {
            Turn::Again => None,
            Turn::Leave(flow) => Some(flow),
        })
    }

    pub(crate) fn endless_loop(&mut self, label: Option<&'r str>, body: &'r [Stmt]) -> Result<Flow> {
        loop {
            if let Some(flow) = self.once(label, body)? {
                return Ok(flow);
            }
        }
    }

    pub(crate) fn while_loop(&mut self, label: Option<&'r str>, condition: &'r Expr, body: &'r [Stmt]) -> Result<Flow> {
        while self.condition(condition)? == Some(true) {
            if let Some(flow) = self.once(label, body)? {
                return Ok(flow);
            }
        }
        Ok(Flow::Next)
    }

    fn bound(&mut self, expr: &'r Expr, what: &str) -> Result<i32> {
        self.integer(expr)?
            .ok_or_else(|| Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, format!("{what} of FOR loop cannot be null")))
    }

    pub(crate) fn for_integer(
        &mut self,
        label: Option<&'r str>,
        var: Slot,
        (lower, upper, step): (&'r Expr, &'r Expr, Option<&'r Expr>),
        reverse: bool,
        body: &'r [Stmt],
    ) -> Result<Flow> {
        let mut value = self.bound(lower, "lower bound")?;
        let end = self.bound(upper, "upper bound")?;
        let step = match step {
            Some(expr) => self.bound(expr, "BY value")?,
            None => 1,
        };
        if step <= 0 {
            return Err(Error::new(
                sqlstate::INVALID_PARAMETER_VALUE,
                "BY value of FOR loop must be greater than zero",
            ));
        }
        let mut found = false;
        let mut result = Flow::Next;
        loop {
            if if reverse { value < end } else { value > end } {
                break;
            }
            found = true;
            self.vars.set_int(var, 32, i64::from(value));
            if let Some(flow) = self.once(label, body)? {
                result = flow;
                break;
            }
            // Past the ends of integers there is nothing more to do.
            let next = if reverse { value.checked_sub(step) } else { value.checked_add(step) };
            let Some(next) = next else { break };
            value = next;
        }
        self.set_found(found);
        Ok(result)
    }

    pub(crate) fn for_each(
        &mut self,
        label: Option<&'r str>,
        target: Slot,
        slice: i64,
        array: &'r Expr,
        body: &'r [Stmt],
    ) -> Result<Flow> {
        let typed = self.evaluate(array)?;
        if typed.value.is_null() {
            return Err(Error::new(sqlstate::NULL_VALUE_NOT_ALLOWED, "FOREACH expression must not be null"));
        }
        let element = self.spi.element_type(typed.oid)?;
        let Datum::Array(values) = &typed.value else {
            let name = self.spi.format_type(typed.oid, -1)?;
            return Err(Error::new(
                sqlstate::DATATYPE_MISMATCH,
                format!("FOREACH expression must yield an array, not type {name}"),
            ));
        };
        let dims = values.dims.len();
        if slice < 0 || slice as usize > dims {
            let message = format!("slice dimension ({slice}) is out of the valid range 0..{dims}");
            return Err(Error::new(sqlstate::ARRAY_SUBSCRIPT_ERROR, message));
        }
        let slice = slice as usize;
        let is_array = match self.vars.variable(target)? {
            Variable::Scalar(v) => self.spi.element_type(v.ty.oid)? != 0,
            Variable::Field { .. } => {
                let (oid, _) = self.vars.type_of(target)?;
                self.spi.element_type(oid)? != 0
            }
            _ => false,
        };
        if slice > 0 && !is_array {
            return Err(Error::new(
                sqlstate::DATATYPE_MISMATCH,
                "FOREACH ... SLICE loop variable must be of an array type",
            ));
        }
        if slice == 0 && is_array {
            return Err(Error::new(sqlstate::DATATYPE_MISMATCH, "FOREACH loop variable must not be of an array type"));
        }
        let values = values.clone();
        let (mut found, mut result) = (false, Flow::Next);
        for part in parts_of(&values, slice) {
            found = true;
            let (oid, typmod) = if slice == 0 { (element, typed.typmod) } else { (typed.oid, typed.typmod) };
            self.assign(target, super::Typed { value: part, oid, typmod })?;
            if let Some(flow) = self.once(label, body)? {
                result = flow;
                break;
            }
        }
        self.set_found(found);
        Ok(result)
    }

    pub(crate) fn exit(&mut self, is_exit: bool, label: Option<&'r str>, condition: Option<&'r Expr>) -> Result<Flow> {
        if let Some(condition) = condition
            && self.condition(condition)? != Some(true)
        {
            return Ok(Flow::Next);
        }
        self.label = label;
        Ok(if is_exit { Flow::Exit } else { Flow::Continue })
    }
}

/// The elements, or the slices of the last `slice` dimensions.
fn parts_of(array: &Array, slice: usize) -> Vec<Datum> {
    if slice == 0 {
        return array.elements.clone();
    }
    let dims = array.dims.get(array.dims.len().saturating_sub(slice)..).unwrap_or_default().to_vec();
    let size: usize = dims.iter().map(|(_, len)| *len as usize).product();
    if size == 0 {
        return Vec::new();
    }
    let part = |elements: &[Datum]| {
        Datum::Array(Arc::new(Array {
            element_type: array.element_type,
            dims: dims.clone(),
            elements: elements.to_vec(),
        }))
    };
    array.elements.chunks(size).map(part).collect()
}
