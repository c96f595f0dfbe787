//! Stops: places in the midst of a change at which a unit test does something of its own, where the code asks nothing of
//! `Env` that a test could hold up.
//!
//! Must not know: what the places are in.

mod tests;

use std::cell::RefCell;

type Visitor = Box<dyn FnMut(StopPoint)>;

/// Where a thread is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum StopPoint {
    /// The log says that a relation's creation was rolled back; the directory has the relation still.
    RelationGoneInLog,
    /// The log has what a commit will drop, and not the commit.
    DropsLogged,
    /// A commit that drops relations is in the log; the directory has them still.
    DropsCommitted,
    /// A checkpoint has come to a page that another thread is writing.
    PageIsBusy(u32),
    /// It tries again to take that page.
    PageWasBusy(u32),
    /// Somebody is still writing it, or again.
    PageIsBusyAgain(u32),
}

thread_local! {
    static VISITOR: RefCell<Option<Visitor>> = const { RefCell::new(None) };
}

/// This thread has come to the place.
pub(crate) fn reach(stop: StopPoint) {
    // What the visitor does comes to such places without a visit.
    let Some(mut visitor) = VISITOR.take() else { return };
    visitor(stop);
    VISITOR.set(Some(visitor));
}
/// Runs `change`, and `visitor` at each stop that it comes to.
fn visiting<R>(visitor: impl FnMut(StopPoint) + 'static, change: impl FnOnce() -> R) -> R {
    VISITOR.set(Some(Box::new(visitor)));
    let result = change();
    VISITOR.set(None);
    result
}
