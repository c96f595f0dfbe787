//! Order-Status (clause 2.6).

use super::{Terminal, customer};
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::one_of;
use crate::tpcc::session::Parameter::Number;
use crate::tpcc::statement::{CUSTOMER, LAST_ORDER, ORDER_LINES};

pub(super) async fn look(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<(), ClientError> {
    let district = one_of(terminal.random, DISTRICTS);
    let customer = customer::find(terminal, warehouse, district).await?;
    let key = [Number(warehouse), Number(district), Number(customer)];
    terminal.session.run(&CUSTOMER, &key).await?;
    terminal.session.run(&LAST_ORDER, &key).await?;
    let order = terminal.session.number(0, 0)?;
    terminal.session.run(&ORDER_LINES, &[Number(warehouse), Number(district), Number(order)]).await?;
    Ok(())
}
