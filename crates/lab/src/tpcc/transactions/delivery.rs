//! Delivery (clause 2.7): the oldest order of each district that has one.

use super::Terminal;
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::one_of;
use crate::tpcc::session::Parameter::{Money, Number};
use crate::tpcc::statement::{
    AMOUNT_OF_ORDER, CHARGE, CUSTOMER_OF_ORDER, DELETE_NEW_ORDER, DELIVER_LINES, GIVE_TO_CARRIER, OLDEST_NEW_ORDER,
};

pub(super) async fn deliver(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<(), ClientError> {
    let carrier = Number(one_of(terminal.random, 10));
    let session = &mut *terminal.session;
    for district in 1..=DISTRICTS {
        let (home, place) = (Number(warehouse), Number(district));
        if session.run(&OLDEST_NEW_ORDER, &[home, place]).await? == 0 {
            continue;
        }
        let order = Number(session.number(0, 0)?);
        let key = [home, place, order];
        session.run(&DELETE_NEW_ORDER, &key).await?;
        session.run(&CUSTOMER_OF_ORDER, &key).await?;
        let customer = Number(session.number(0, 0)?);
        session.run(&GIVE_TO_CARRIER, &[home, place, order, carrier]).await?;
        session.run(&DELIVER_LINES, &key).await?;
        session.run(&AMOUNT_OF_ORDER, &key).await?;
        let amount = Money(session.money(0, 0)?);
        session.run(&CHARGE, &[home, place, customer, amount]).await?;
    }
    Ok(())
}
