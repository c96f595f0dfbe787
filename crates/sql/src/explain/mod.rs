//! EXPLAIN's results, and expressions as SQL for them.

mod measured;
mod structured;
mod text;
pub use measured::{Measured, Serializer};
pub use structured::document;
pub use text::{
    and_text, bare, expr_text, lines, name_columns, name_like, name_subplan, qualified_text, relation_name, scan_text,
};
