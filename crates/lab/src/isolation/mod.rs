//! Specs of concurrent sessions: named steps in given orders, compared with what a real PostgreSQL did.
//!
//! A spec (`tests/isolation/NAME.spec`; what it must give stands in `NAME.out` beside it):
//!
//! ```text
//! # A comment.
//! setup
//!     create table t (id int primary key, v int);
//! each mode
//!     for update
//!     a label: for share
//! session a
//!     setup: begin
//!     a1: select * from t {mode}
//!     a2: commit
//! session b
//!     b1: update t set v = v + 1
//! order a1 b1 a2
//! report b1
//! ```
//!
//! `setup` runs before every order in an empty schema; a session's own `setup` as it connects. A line indented deeper
//! continues the one above. Each order runs once for every choice of values of the `each` placeholders. A step that
//! waits for a lock lets the next step begin, and its result is told after the step that let it go on; with `!`
//! after its name the order waits for its end. With `report`, a run is one line with the results of these steps.
//! `only kilndb` on a line of its own keeps a spec from PostgreSQL, for what PostgreSQL leaves to chance.
//!
//! Notifications are told with the result of the session's next step.
//!
//! In results, process ids stand as the session's name, other numbers that differ from run to run as `#`.

mod run;
mod spec;

pub use run::{record_file, run_file};
