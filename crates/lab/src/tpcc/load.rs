//! The database and its tables: created, filled by COPY, and given their keys.

use super::data::{TABLES, TpccData};
use super::{DATABASE, TpccSize};
use crate::client::{Address, Client};
use crate::filled_tables::{FilledTables, query};

const CREATE: &str = include_str!("../../tpcc/tables.sql");
const KEYS: &str = include_str!("../../tpcc/keys.sql");

/// Creates the database with its rows, the same for each seed, its keys and its statistics.
pub fn create(address: &Address, size: TpccSize, seed: u64) -> Result<(), String> {
    let connect = |database: &str| Client::connect(address, database).map_err(|e| format!("{database}: {e}"));
    query(&mut connect("postgres")?, &format!("create database {DATABASE}"))?;
    let mut client = connect(DATABASE)?;
    fill(&mut client, size, seed)?;
    query(&mut client, "checkpoint")
}

/// Creates and fills the tables where a session creates tables.
pub fn fill(client: &mut Client, size: TpccSize, seed: u64) -> Result<(), String> {
    let data = TpccData { size, seed };
    let tables = FilledTables { create: CREATE, names: &TABLES, copy_options: "", keys: KEYS };
    tables.fill(client, |table, out| data.write(table, out))
}
