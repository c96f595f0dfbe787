//! Blocks with exception handlers, and COMMIT and ROLLBACK in procedures.

use super::spi::{Spi, Subtransaction};
use kilndb_base::{Error, Result, sqlstate};

impl Spi<'_> {
    /// Costs no log record and nothing shared.
    pub fn begin_subtransaction(&mut self) -> Result<Subtransaction> {
        let depth = self.session.context.transaction.savepoints.len();
        self.session.context.push_savepoint("");
        self.snapshot = None;
        Ok(Subtransaction { depth })
    }
    pub fn release(&mut self, mark: Subtransaction) -> Result<()> {
        self.session.context.transaction.savepoints.truncate(mark.depth);
        self.session.context.transaction.pending.keep_triggers(mark.depth);
        self.session.statements.portals.keep_from(mark.depth);
        Ok(())
    }
    /// Undoes what was done since; the error's own fields are the caller's to keep.
    pub fn roll_back_to(&mut self, mark: Subtransaction) -> Result<()> {
        self.session.undo_to_savepoint(mark.depth, self.runtime)?;
        self.session.context.transaction.savepoints.truncate(mark.depth);
        self.snapshot = None;
        Ok(())
    }
    fn refuse_end(&self) -> Result<()> {
        let refused = |message: &str| Err(Error::new(sqlstate::INVALID_TRANSACTION_TERMINATION, message));
        if self.atomic {
            return refused("invalid transaction termination");
        }
        if !self.session.context.transaction.savepoints.is_empty() {
            return refused("cannot commit while a subtransaction is active");
        }
        Ok(())
    }
    /// 2D000 in an atomic call or inside an exception block.
    pub fn commit(&mut self, chain: bool) -> Result<()> {
        self.refuse_end()?;
        self.snapshot = None;
        self.hold_open_cursors()?;
        self.session.commit_within(chain, self.runtime)
    }
    pub fn roll_back(&mut self, chain: bool) -> Result<()> {
        self.refuse_end().map_err(|mut e| {
            if e.message().starts_with("cannot commit") {
                e.0.message = "cannot roll back while a subtransaction is active".to_string();
            }
            e
        })?;
        self.snapshot = None;
        self.hold_open_cursors()?;
        self.session.roll_back_within(chain, self.runtime)
    }
}
