//! What the rest of this crate asks of the catalogs.
pub mod model;
pub use model::*;
