//! Order-Status (clause 2.6).

use super::{Terminal, customer};
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::one_of;
use crate::tpcc::session::Parameter::Number;
use crate::tpcc::statement::{COMMIT, CUSTOMER, LAST_ORDER, ORDER_LINES};

pub(super) async fn look(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<(), ClientError> {
    let district = one_of(terminal.random, DISTRICTS);
    let meant = customer::find(terminal, warehouse, district).await?;
    let session = &mut *terminal.session;
    session.send().await?;
    let key = [warehouse, district, meant.number(session)?].map(Number);
    session.queue(&CUSTOMER, &key).await?;
    let last = session.run(&LAST_ORDER, &key).await?;
    let order = session.number(last, 0, 0)?;
    session.queue(&ORDER_LINES, &[warehouse, district, order].map(Number)).await?;
    session.run(&COMMIT, &[]).await.map(drop)
}
