//! TPC-C (revision 5.11 of its specification): its nine tables, the five transactions in their mix, and the conditions
//! that must hold between the tables whatever has happened.
//!
//! What differs from the specification: terminals neither think nor key anything in, and as few of them stand for all of
//! a warehouse's, each transaction is for a warehouse drawn at random. What a terminal would show is asked for and not
//! composed. A load and a client's choices come from a seed.
//!
//! The client is made to cost little beside the servers that it measures: a thread serves many sessions, statements are
//! prepared once, and values are read where they arrived.

mod choices;
pub mod consistency;
mod data;
mod executor;
mod load;
mod run;
mod session;
mod statement;
mod transactions;

pub use load::{create, fill};
pub use run::{OrderEntry, TpccControl, TpccKind, TpccLoad, TpccRun, run};
pub use session::RoundTrips;
pub use transactions::OrderKey;

/// The texts of all statements, for whoever reads what is run.
pub fn statement_texts() -> String {
    statement::ALL.iter().map(|statement| format!("{};\n", statement.sql)).collect()
}

/// The database that [`create`] makes.
pub const DATABASE: &str = "tpcc";

/// How much data there is.
#[derive(Clone, Copy, Debug)]
pub struct TpccSize {
    pub warehouses: u32,
    pub items: u32,
    /// The customers of a district. Each has one order at the beginning, of which the last three tenths are not delivered.
    pub customers: u32,
}

/// Each warehouse has so many districts.
pub(crate) const DISTRICTS: u32 = 10;

impl TpccSize {
    /// The specification's size.
    pub fn standard(warehouses: u32) -> TpccSize {
        TpccSize { warehouses, items: 100_000, customers: 3_000 }
    }

    /// Orders of a district that are not delivered at the beginning.
    pub(crate) fn undelivered(&self) -> u32 {
        self.customers * 3 / 10
    }
}
