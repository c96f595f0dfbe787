//! New-Order (clause 2.4).

use super::{Ended, Terminal};
use crate::client::ClientError;
use crate::random::RowRandom;
use crate::tpcc::choices::{one_of, other_warehouse, percent, some_customer, some_item};
use crate::tpcc::session::Parameter::{Money, Number, Text};
use crate::tpcc::session::TpccSession;
use crate::tpcc::statement::{
    COMMIT, COUNT_ORDER, CUSTOMER_AND_TAX, INSERT_NEW_ORDER, INSERT_ORDER, INSERT_ORDER_LINE, ITEM, LOCK_DISTRICT,
    LOCK_STOCK, UPDATE_STOCK,
};
use crate::tpcc::{DISTRICTS, TpccSize};
use std::collections::BTreeMap;

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

/// An order under way.
struct NewOrder {
    warehouse: u32,
    district: u32,
    customer: u32,
    items: Vec<OrderedItem>,
}

pub(super) async fn enter(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<Ended, ClientError> {
    let district = one_of(terminal.random, DISTRICTS);
    let customer = some_customer(terminal.random, &terminal.size);
    let items = ordered_items(terminal.random, &terminal.size, warehouse);
    NewOrder { warehouse, district, customer, items }.enter(terminal.session).await
}

impl NewOrder {
    async fn enter(&self, session: &mut TpccSession) -> Result<Ended, ClientError> {
        let (home, place, customer) = (Number(self.warehouse), Number(self.district), Number(self.customer));
        session.queue(&CUSTOMER_AND_TAX, &[home, place, customer]).await?;
        let district = session.run(&LOCK_DISTRICT, &[home, place]).await?;
        let order = session.number(district, 0, 0)?;
        session.queue(&COUNT_ORDER, &[home, place]).await?;
        let is_local = self.items.iter().all(|line| line.supplier == self.warehouse);
        let (count, local) = (Number(self.items.len() as u32), Number(u32::from(is_local)));
        session.queue(&INSERT_ORDER, &[home, place, Number(order), customer, count, local]).await?;
        let first = 1 + session.queue(&INSERT_NEW_ORDER, &[home, place, Number(order)]).await?;
        for line in &self.items {
            session.queue(&ITEM, &[Number(line.item)]).await?;
        }
        session.send().await?;
        let mut amounts = Vec::with_capacity(self.items.len());
        for (answer, line) in (first..).zip(&self.items) {
            if session.row_count(answer) == 0 {
                return Ok(Ended::GivenUp);
            }
            amounts.push(session.money(answer, 0, 0)? * i64::from(line.quantity));
        }
        self.take_from_stock(session, order, &amounts).await?;
        Ok(Ended::Entered((self.warehouse, self.district, order)))
    }

    async fn take_from_stock(&self, session: &mut TpccSession, order: u32, amounts: &[i64]) -> Result<(), ClientError> {
        for line in &self.items {
            session.queue(&LOCK_STOCK, &[Number(line.supplier), Number(line.item)]).await?;
        }
        session.send().await?;
        let mut in_stock = Vec::with_capacity(self.items.len());
        for answer in 0..self.items.len() {
            let info = session.text(answer, 0, (BEFORE_DISTRICTS + self.district) as usize)?;
            in_stock.push((session.number(answer, 0, 0)?, info.to_owned()));
        }
        let mut left = BTreeMap::new();
        for (line, (quantity, _)) in self.items.iter().zip(&in_stock) {
            let left = left.entry((line.supplier, line.item)).or_insert(*quantity);
            *left = quantity_left(*left, line.quantity);
            let is_remote = u32::from(line.supplier != self.warehouse);
            let change = [line.supplier, line.item, *left, line.quantity, is_remote].map(Number);
            session.queue(&UPDATE_STOCK, &change).await?;
        }
        for ((number, line), (amount, (_, info))) in (1..).zip(&self.items).zip(amounts.iter().zip(&in_stock)) {
            let [home, place, order, number] = [self.warehouse, self.district, order, number].map(Number);
            let [item, supplier, quantity] = [line.item, line.supplier, line.quantity].map(Number);
            let line = [home, place, order, number, item, supplier, quantity, Money(*amount), Text(info)];
            session.queue(&INSERT_ORDER_LINE, &line).await?;
        }
        session.run(&COMMIT, &[]).await.map(drop)
    }
}

/// Stock is filled up before it falls below ten.
fn quantity_left(in_stock: u32, ordered: u32) -> u32 {
    if in_stock >= ordered + 10 { in_stock - ordered } else { in_stock + 91 - ordered }
}
