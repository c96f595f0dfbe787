//! The catalogs: PostgreSQL's built-in facts, the system tables, and the cache that turns rows into objects.

pub mod bootstrap;
pub mod builtin;
pub mod cache;
pub mod changes;
pub mod element_statistics;
pub mod extension;
pub mod format_type;
pub mod global;
pub mod ids;
pub mod inverted;
pub mod known_partitions;
pub mod model;
pub mod operator_class;
mod operator_read;
pub mod partition;
mod partition_read;
mod routine_read;
mod rows;
pub mod store;
pub mod temporary;
pub mod text_search;
pub mod trigger;
mod type_read;
pub use model::*;
