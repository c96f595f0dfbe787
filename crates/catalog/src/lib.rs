//! The catalogs: PostgreSQL's built-in facts, the system tables, and the cache that turns rows into objects.
//!
//! Invariants
//! 1. What is read of the catalogs is as of a snapshot; an object that is given out never changes ([`cache`]).
//! 2. Whoever needs a catalog asks a [`CatalogView`]; nobody else reads system tables to find an object by its name.
//! 3. A session's temporary objects are in its own [`temporary::TemporaryCatalog`], never in what sessions share.
//!
//! Must not know: statements and their syntax, plans, what is kept of an opened partition, sessions and their settings.
//! Of storage it knows what system tables are kept in: relations, snapshots, transactions that write rows.

pub mod access_method;
pub mod bootstrap;
pub mod builtin;
pub mod cache;
pub mod catalog_row;
pub mod changes;
pub mod collation_read;
pub mod column_statistics;
pub mod default_grants;
pub mod definition_rows;
pub mod extended_statistics;
pub mod extension;
pub mod format_type;
pub mod functions;
pub mod global;
pub mod ids;
pub mod initial_grants;
pub mod inverted;
pub mod key_range;
pub mod known_partitions;
pub mod large_object;
pub mod lock_class;
pub mod logged_changes;
pub mod model;
pub mod operator_class;
mod operator_read;
pub mod partition;
mod partition_read;
pub mod planner_settings;
pub mod privileges;
pub mod qualified_name;
pub mod roles;
pub mod routine;
mod routine_read;
pub mod row_security;
pub mod row_shape;
mod rows;
pub mod secured_objects;
pub mod shared_dependencies;
pub mod storage_parameters;
pub mod store;
mod table_read;
pub mod temporary;
pub mod text_search;
pub mod trigger;
mod type_read;
pub mod user_types;
pub mod value_host;
pub use access_method::{AccessMethod, BTREE_METHOD, HASH_METHOD, OptionValue};
pub use model::*;
pub use planner_settings::PlannerSettings;
