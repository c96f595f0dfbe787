//! How a transaction finds its customer (clause 2.5.2.2).

use super::Terminal;
use crate::client::ClientError;
use crate::tpcc::choices::{percent, some_customer, some_name};
use crate::tpcc::session::Parameter::{Number, Text};
use crate::tpcc::statement::CUSTOMERS_BY_NAME;

/// A customer of a district: in 60 of 100 times by a last name, of whose customers the one in the middle is meant.
pub(super) async fn find(terminal: &mut Terminal<'_>, warehouse: u32, district: u32) -> Result<u32, ClientError> {
    if !percent(terminal.random, 60) {
        return Ok(some_customer(terminal.random, &terminal.size));
    }
    let name = some_name(terminal.random, &terminal.size);
    let place = [Number(warehouse), Number(district), Text(&name)];
    let found = terminal.session.run(&CUSTOMERS_BY_NAME, &place).await?;
    terminal.session.number(found.div_ceil(2).saturating_sub(1), 0)
}
