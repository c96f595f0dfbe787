//! TPC-H: tables made after its specification (4.2.3), the same from run to run, and loaded by COPY.

pub(super) mod random;
mod rows;
mod text;
mod words;

use super::queries::statements;
use crate::bench::turns::execute;
use kilndb_lab::client::Client;
use rows::TpchData;

const TABLES: &str = include_str!("../../../../plans/tpch/schema.sql");
const INDEXES: &str = include_str!("../../../../plans/tpch/indexes.sql");

/// Creates and fills the tables, those that are referred to first, and then their keys and indexes.
pub(super) fn load(client: &mut Client, scale: f64) -> Result<(), String> {
    statements(TABLES).try_for_each(|sql| execute(client, &[sql]))?;
    let data = TpchData::new(scale);
    for table in rows::TABLES {
        let copy = format!("copy {table} from stdin (delimiter '|')");
        client.copy_in(&copy, |out| data.write(table, out)).map_err(|e| format!("{copy}: {e}"))?;
    }
    statements(INDEXES).try_for_each(|sql| execute(client, &[sql]))
}
