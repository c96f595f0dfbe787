//! TPC-H: tables made after its specification (4.2.3), the same from run to run, and loaded by COPY.
//!
//! Must not know: who asks which queries.

mod rows;
mod text;
mod words;

use crate::client::Client;
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
    query(client, TABLES)?;
    let data = TpchData::new(scale);
    for table in rows::TABLES {
        let copy = format!("copy {table} from stdin (delimiter '|')");
        client.copy_in(&copy, |out| data.write(table, out)).map_err(|e| format!("{copy}: {e}"))?;
    }
    query(client, INDEXES)?;
    query(client, &format!("vacuum analyze {}", rows::TABLES.join(", ")))
}

fn query(client: &mut Client, sql: &str) -> Result<(), String> {
    client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}"))
}
