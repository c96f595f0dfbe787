//! EXPLAIN's text, and expressions as SQL for it.

mod text;
pub use text::{and_text, bare, expr_text, lines, name_columns, name_like};
