//! How a transaction finds its customer (clause 2.5.2.2).

use super::Terminal;
use crate::client::ClientError;
use crate::tpcc::choices::{percent, some_customer, some_name};
use crate::tpcc::session::Parameter::{Number, Text};
use crate::tpcc::session::TpccSession;
use crate::tpcc::statement::CUSTOMERS_BY_NAME;

/// A customer that a transaction is about.
pub(super) enum MeantCustomer {
    Number(u32),
    /// The answer in the current batch with the customers of a last name: the one in the middle is meant.
    InAnswer(usize),
}

/// A customer of a district: in 60 of 100 times by a last name.
pub(super) async fn find(
    terminal: &mut Terminal<'_>,
    warehouse: u32,
    district: u32,
) -> Result<MeantCustomer, ClientError> {
    if !percent(terminal.random, 60) {
        return Ok(MeantCustomer::Number(some_customer(terminal.random, &terminal.size)));
    }
    let name = some_name(terminal.random, &terminal.size);
    let place = [Number(warehouse), Number(district), Text(&name)];
    terminal.session.queue(&CUSTOMERS_BY_NAME, &place).await.map(MeantCustomer::InAnswer)
}

impl MeantCustomer {
    /// The customer's number, once the batch has been answered.
    pub(super) fn number(&self, session: &TpccSession) -> Result<u32, ClientError> {
        match *self {
            MeantCustomer::Number(number) => Ok(number),
            MeantCustomer::InAnswer(answer) => {
                session.number(answer, session.row_count(answer).div_ceil(2).saturating_sub(1), 0)
            }
        }
    }
}
