//! New-Order (clause 2.4).

use super::{Ended, Terminal};
use crate::client::ClientError;
use crate::random::RowRandom;
use crate::tpcc::choices::{one_of, other_warehouse, percent, some_customer, some_item};
use crate::tpcc::session::Parameter::{Money, Number, Text};
use crate::tpcc::statement::{
    COUNT_ORDER, CUSTOMER_AND_TAX, INSERT_NEW_ORDER, INSERT_ORDER, INSERT_ORDER_LINE, ITEM, LOCK_DISTRICT, LOCK_STOCK,
    UPDATE_STOCK,
};
use crate::tpcc::{DISTRICTS, TpccSize};

/// The column of LOCK_STOCK's rows that comes before those of the districts.
const BEFORE_DISTRICTS: u32 = 1;

struct OrderedItem {
    supplier: u32,
    item: u32,
    quantity: u32,
}

/// What is ordered, in the order of its stock's key: terminals that want the same never wait for each other in a circle.
fn ordered_items(random: &mut RowRandom, size: &TpccSize, home: u32) -> Vec<OrderedItem> {
    let count = 4 + one_of(random, 11);
    let mut items: Vec<OrderedItem> = (0..count)
        .map(|_| OrderedItem {
            supplier: if percent(random, 1) { other_warehouse(random, size, home) } else { home },
            item: some_item(random, size),
            quantity: one_of(random, 10),
        })
        .collect();
    items.sort_by_key(|line| (line.supplier, line.item));
    if percent(random, 1)
        && let Some(last) = items.last_mut()
    {
        last.item = size.items + 1;
    }
    items
}

pub(super) async fn enter(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<Ended, ClientError> {
    let district = one_of(terminal.random, DISTRICTS);
    let customer = some_customer(terminal.random, &terminal.size);
    let items = ordered_items(terminal.random, &terminal.size, warehouse);
    let (home, place) = (Number(warehouse), Number(district));
    let session = &mut *terminal.session;
    session.run(&CUSTOMER_AND_TAX, &[home, place, Number(customer)]).await?;
    session.run(&LOCK_DISTRICT, &[home, place]).await?;
    let order = session.number(0, 0)?;
    session.run(&COUNT_ORDER, &[home, place]).await?;
    let is_local = items.iter().all(|line| line.supplier == warehouse);
    let (count, local) = (Number(items.len() as u32), Number(u32::from(is_local)));
    session.run(&INSERT_ORDER, &[home, place, Number(order), Number(customer), count, local]).await?;
    session.run(&INSERT_NEW_ORDER, &[home, place, Number(order)]).await?;
    for (number, line) in (1..).zip(&items) {
        if session.run(&ITEM, &[Number(line.item)]).await? == 0 {
            return Ok(Ended::GivenUp);
        }
        let amount = session.money(0, 0)? * i64::from(line.quantity);
        let (supplier, item, quantity) = (Number(line.supplier), Number(line.item), Number(line.quantity));
        session.run(&LOCK_STOCK, &[supplier, item]).await?;
        let left = quantity_left(session.number(0, 0)?, line.quantity);
        let info = session.text(0, (BEFORE_DISTRICTS + district) as usize)?.to_owned();
        let is_remote = Number(u32::from(line.supplier != warehouse));
        session.run(&UPDATE_STOCK, &[supplier, item, Number(left), quantity, is_remote]).await?;
        let (order, number) = (Number(order), Number(number));
        let line = [home, place, order, number, item, supplier, quantity, Money(amount), Text(&info)];
        session.run(&INSERT_ORDER_LINE, &line).await?;
    }
    Ok(Ended::Entered((warehouse, district, order)))
}

/// Stock is filled up before it falls below ten.
fn quantity_left(in_stock: u32, ordered: u32) -> u32 {
    if in_stock >= ordered + 10 { in_stock - ordered } else { in_stock + 91 - ordered }
}
