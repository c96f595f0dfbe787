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
pub mod model;
pub mod known_partitions;
pub mod partition;
pub mod operator_class;
mod operator_read;
mod partition_read;
mod routine_read;
mod rows;
mod type_read;
pub mod store;
pub mod temporary;
pub mod text_search;
pub mod trigger;
pub use model::*;
