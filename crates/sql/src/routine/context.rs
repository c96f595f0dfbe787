//! Which routines are running, for those who ask in the middle (GET DIAGNOSTICS, messages). Errors gather their lines
//! as they unwind.

use super::spi::Spi;
use std::rc::Rc;

/// A running routine. What it is doing when it calls another is for it to keep up to date.
pub trait ContextSource {
    /// Lines of CONTEXT, inner ones first.
    fn add_lines(&self, lines: &mut Vec<String>);
}

impl Spi<'_> {
    /// A routine begins. [`Spi::leave`] must follow, whatever happens.
    pub fn enter(&mut self, source: Rc<dyn ContextSource>) {
        self.session.routines.running.push(source);
    }
    pub fn leave(&mut self) {
        self.session.routines.running.pop();
    }
    /// There is a cursor of that name.
    pub fn cursor_exists(&self, name: &str) -> bool {
        self.session.statements.portals.contains(name)
    }
    /// Lines of those that have called the innermost routine.
    pub fn callers(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for source in self.session.routines.running.iter().rev().skip(1) {
            source.add_lines(&mut lines);
        }
        lines
    }
}
