//! EXPLAIN's results.

mod measured;
mod structured;
mod text;
pub use measured::{Measured, Serializer};
pub use structured::document;
pub use text::lines;
