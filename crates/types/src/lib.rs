//! SQL values: their text and binary formats, casts, operators and functions, the row format, and the
//! key encoding under which bytes sort as the values do.
//!
//! Invariants
//! 1. PostgreSQL 18 decides every result, error text and SQLSTATE.
//! 2. `key` encodes so that memcmp is the type's btree order.
//! 3. Functions are found by PostgreSQL's pg_proc OID; what is not in [`functions::lookup`] does not exist.
//!
//! Must not know: pages, transactions, sessions, plans, catalogs (it asks [`ValueHost`] for what it needs of them).

pub mod acl;
pub mod aggregates;
pub mod cast;
pub mod citext;
pub mod collated_like;
pub mod collation;
pub mod context;
pub mod datetime;
pub mod datum;
pub mod functions;
pub mod hash;
pub mod hstore;
pub mod inverted;
pub mod io;
pub mod json;
pub mod key;
pub mod locale_case;
#[cfg(test)]
mod looks;
pub mod network;
pub mod numeric;
pub mod oids;
pub mod partition_hash;
pub mod pattern;
mod pgcrypto;
pub mod pieces;
pub mod range;
pub(crate) mod range_aggregate;
pub mod row;
pub mod row_columns;
pub mod row_shape;
pub mod snapshot;
pub mod stored_columns;
pub mod template;
pub mod trigram;
pub mod types;
pub mod vector;
pub mod width;

pub use context::{EvalContext, FormatSettings, ValueHost};
pub use datum::{Array, Datum, Interval, Record};
