//! Payment (clause 2.5).

use super::{Terminal, customer};
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::{one_of, other_warehouse, percent};
use crate::tpcc::data::Cents;
use crate::tpcc::session::Parameter::{Money, Number, Text};
use crate::tpcc::statement::{
    CUSTOMER_DATA, DISTRICT, INSERT_HISTORY, LOCK_CUSTOMER, PAY, PAY_DISTRICT, PAY_WAREHOUSE, PAY_WITH_DATA, WAREHOUSE,
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
    terminal.session.run(&PAY_WAREHOUSE, &[home, paid]).await?;
    terminal.session.run(&WAREHOUSE, &[home]).await?;
    let mut history = terminal.session.text(0, 0)?.to_owned();
    terminal.session.run(&PAY_DISTRICT, &[home, place, paid]).await?;
    terminal.session.run(&DISTRICT, &[home, place]).await?;
    history = format!("{history}    {}", terminal.session.text(0, 0)?);
    let customer = customer::find(terminal, c_warehouse, c_district).await?;
    let session = &mut *terminal.session;
    let key = [Number(c_warehouse), Number(c_district), Number(customer)];
    let [c_home, c_place, c_number] = key;
    session.run(&LOCK_CUSTOMER, &key).await?;
    if session.text(0, CREDIT)? == "BC" {
        session.run(&CUSTOMER_DATA, &key).await?;
        let mut data = format!(
            "{customer} {c_district} {c_warehouse} {district} {warehouse} {} {}",
            Cents(amount),
            session.text(0, 0)?
        );
        data.truncate(DATA_LENGTH_MAX);
        session.run(&PAY_WITH_DATA, &[c_home, c_place, c_number, paid, Text(&data)]).await?;
    } else {
        session.run(&PAY, &[c_home, c_place, c_number, paid]).await?;
    }
    session.run(&INSERT_HISTORY, &[c_number, c_place, c_home, place, home, paid, Text(&history)]).await?;
    Ok(())
}
