//! Full-text search: documents as sorted lexemes, queries, the default parser, dictionaries, ranking and headlines.
//!
//! Invariants
//! 1. PostgreSQL 18 decides every result, error text and SQLSTATE.
//! 2. No document makes any of this quadratic in its length.
//! 3. What recurses recurses over a [`TsQuery`], whose depth is limited where it is made.
//!
//! Must not know: SQL values, catalogs, sessions. A configuration comes as a [`Config`], complete.

pub mod config;
pub mod dictionary;
pub mod execute;
pub mod files;
pub mod headline;
mod ispell;
mod lexeme_scan;
mod lexize;
pub mod parser;
pub mod query;
mod query_parse;
pub mod rank;
mod remembered;
pub mod rewrite;
pub mod statistics;
pub mod stored;
mod synonym;
mod thesaurus;
mod unaccent;
pub mod vector;
pub mod vector_ops;

pub use config::{Config, ConfigEntry};
pub use dictionary::Dictionary;
pub use query::TsQuery;
pub use vector::{Lexeme, TsVector};
