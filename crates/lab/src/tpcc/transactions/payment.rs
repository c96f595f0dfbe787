//! Payment (clause 2.5).

use super::{Terminal, customer};
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::{one_of, other_warehouse, percent};
use crate::tpcc::data::Cents;
use crate::tpcc::session::Parameter::{Money, Number, Text};
use crate::tpcc::statement::{
    COMMIT, CUSTOMER_DATA, DISTRICT, INSERT_HISTORY, LOCK_CUSTOMER, PAY, PAY_DISTRICT, PAY_WAREHOUSE, PAY_WITH_DATA,
    WAREHOUSE,
};

/// The column of LOCK_CUSTOMER's rows that says whether the customer has bad credit.
const CREDIT: usize = 9;
const DATA_LENGTH_MAX: usize = 500;

pub(super) async fn pay(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<(), ClientError> {
    let district = one_of(terminal.random, DISTRICTS);
    let amount = terminal.random.between(100, 500_000);
    let (home, place, paid) = (Number(warehouse), Number(district), Money(amount));
    // Of 100 customers 15 are of another warehouse.
    let (c_warehouse, c_district) = match percent(terminal.random, 85) {
        true => (warehouse, district),
        false => (other_warehouse(terminal.random, &terminal.size, warehouse), one_of(terminal.random, DISTRICTS)),
    };
    terminal.session.queue(&PAY_WAREHOUSE, &[home, paid]).await?;
    let of_warehouse = terminal.session.queue(&WAREHOUSE, &[home]).await?;
    terminal.session.queue(&PAY_DISTRICT, &[home, place, paid]).await?;
    let of_district = terminal.session.queue(&DISTRICT, &[home, place]).await?;
    let meant = customer::find(terminal, c_warehouse, c_district).await?;
    let session = &mut *terminal.session;
    session.send().await?;
    let history = format!("{}    {}", session.text(of_warehouse, 0, 0)?, session.text(of_district, 0, 0)?);
    let customer = meant.number(session)?;
    let key = [c_warehouse, c_district, customer].map(Number);
    let [c_home, c_place, c_number] = key;
    let found = session.run(&LOCK_CUSTOMER, &key).await?;
    if session.text(found, 0, CREDIT)? == "BC" {
        let found = session.run(&CUSTOMER_DATA, &key).await?;
        let mut data = format!(
            "{customer} {c_district} {c_warehouse} {district} {warehouse} {} {}",
            Cents(amount),
            session.text(found, 0, 0)?
        );
        data.truncate(DATA_LENGTH_MAX);
        session.queue(&PAY_WITH_DATA, &[c_home, c_place, c_number, paid, Text(&data)]).await?;
    } else {
        session.queue(&PAY, &[c_home, c_place, c_number, paid]).await?;
    }
    session.queue(&INSERT_HISTORY, &[c_number, c_place, c_home, place, home, paid, Text(&history)]).await?;
    session.run(&COMMIT, &[]).await.map(drop)
}
