//! EXPLAIN's results.

mod measured;
mod structured;
mod text;
pub use measured::{Measurements, Serializer};
pub use structured::document;
pub use text::{lines, shape};
