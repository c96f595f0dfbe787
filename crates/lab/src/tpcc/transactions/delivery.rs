//! Delivery (clause 2.7): the oldest order of each district that has one.

use super::Terminal;
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::one_of;
use crate::tpcc::session::Parameter::{Money, Number};
use crate::tpcc::statement::{
    AMOUNT_OF_ORDER, CHARGE, COMMIT, CUSTOMER_OF_ORDER, DELETE_NEW_ORDER, DELIVER_LINES, GIVE_TO_CARRIER,
    OLDEST_NEW_ORDER,
};

pub(super) async fn deliver(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<(), ClientError> {
    let carrier = one_of(terminal.random, 10);
    let session = &mut *terminal.session;
    let mut oldest = Vec::new();
    for district in 1..=DISTRICTS {
        oldest.push((district, session.queue(&OLDEST_NEW_ORDER, &[warehouse, district].map(Number)).await?));
    }
    session.send().await?;
    // The districts that have nothing to deliver are left out.
    oldest.retain(|(_, answer)| session.row_count(*answer) > 0);
    let mut delivered = Vec::new();
    for (district, answer) in oldest {
        delivered.push((district, session.number(answer, 0, 0)?));
    }
    let mut charged = Vec::new();
    for &(district, order) in &delivered {
        let key = [warehouse, district, order].map(Number);
        session.queue(&DELETE_NEW_ORDER, &key).await?;
        let customer = session.queue(&CUSTOMER_OF_ORDER, &key).await?;
        session.queue(&GIVE_TO_CARRIER, &[warehouse, district, order, carrier].map(Number)).await?;
        session.queue(&DELIVER_LINES, &key).await?;
        charged.push((district, customer, session.queue(&AMOUNT_OF_ORDER, &key).await?));
    }
    session.send().await?;
    let mut charges = Vec::new();
    for (district, customer, amount) in charged {
        charges.push((district, session.number(customer, 0, 0)?, session.money(amount, 0, 0)?));
    }
    for (district, customer, amount) in charges {
        let [home, place, customer] = [warehouse, district, customer].map(Number);
        session.queue(&CHARGE, &[home, place, customer, Money(amount)]).await?;
    }
    session.run(&COMMIT, &[]).await.map(drop)
}
