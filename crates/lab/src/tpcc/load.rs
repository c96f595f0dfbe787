//! The database and its tables: created, filled by COPY, and given their keys.

use super::data::{TABLES, TpccData};
use super::{DATABASE, TpccSize};
use crate::client::{Address, Client};

const CREATE: &str = include_str!("../../tpcc/tables.sql");
const KEYS: &str = include_str!("../../tpcc/keys.sql");

/// Creates the database with its rows, the same for each seed, its keys and its statistics.
pub fn create(address: &Address, size: TpccSize, seed: u64) -> Result<(), String> {
    let create = format!("create database {DATABASE}");
    query(&mut connect(address, "postgres")?, &create)?;
    let mut client = connect(address, DATABASE)?;
    query(&mut client, CREATE)?;
    let data = TpccData { size, seed };
    for table in TABLES {
        let copy = format!("copy {table} from stdin");
        client.copy_in(&copy, |out| data.write(table, out)).map_err(|e| format!("{copy}: {e}"))?;
    }
    query(&mut client, KEYS)?;
    query(&mut client, "vacuum analyze")?;
    query(&mut client, "checkpoint")
}

pub fn drop_database(address: &Address) -> Result<(), String> {
    query(&mut connect(address, "postgres")?, &format!("drop database if exists {DATABASE}"))
}

fn connect(address: &Address, database: &str) -> Result<Client, String> {
    Client::connect(address, database).map_err(|e| format!("{database}: {e}"))
}

fn query(client: &mut Client, sql: &str) -> Result<(), String> {
    client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}"))
}
