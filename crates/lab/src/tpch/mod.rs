//! TPC-H: tables made after its specification (4.2.3), the same from run to run, and loaded by COPY.
//!
//! Must not know: who asks which queries.

mod rows;
mod text;
mod words;

use crate::client::Client;
use crate::filled_tables::FilledTables;
use rows::TpchData;

const TABLES: &str = include_str!("schema.sql");
const INDEXES: &str = include_str!("indexes.sql");

/// Below this there would not be a supplier of each kind.
pub const SCALE_MIN: f64 = 0.01;
/// Beyond this the numbers of parts outgrow what is measured here.
pub const SCALE_MAX: f64 = 10.0;

/// Creates and fills the tables where a session creates tables, those that are referred to first, and then their keys, indexes and
/// statistics.
pub fn fill(client: &mut Client, scale: f64) -> Result<(), String> {
    let data = TpchData::new(scale);
    let tables = FilledTables { create: TABLES, names: &rows::TABLES, copy_options: "(delimiter '|')", keys: INDEXES };
    tables.fill(client, |table, out| data.write(table, out))
}
