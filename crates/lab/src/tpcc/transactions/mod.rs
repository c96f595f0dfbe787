//! The five transactions. Each draws its input, runs its statements and commits; a batch ends where an answer is needed.

mod customer;
mod delivery;
mod new_order;
mod order_status;
mod payment;
mod stock_level;

use super::TpccSize;
use super::choices::one_of;
use super::run::TpccKind;
use super::session::TpccSession;
use super::statement::{BEGIN, ROLLBACK};
use crate::client::ClientError;
use crate::random::RowRandom;

/// Warehouse, district and number.
pub type OrderKey = (u32, u32, u32);

/// What a client's transactions work with.
pub(super) struct Terminal<'a> {
    pub session: &'a mut TpccSession,
    pub random: &'a mut RowRandom,
    pub size: TpccSize,
}

/// How a transaction ended.
pub(super) enum Ended {
    Committed,
    /// The order that a New-Order has entered.
    Entered(OrderKey),
    /// One New-Order of a hundred asks for an item that there is not, and is given up.
    GivenUp,
}

impl Terminal<'_> {
    pub(super) async fn transact(&mut self, kind: TpccKind) -> Result<Ended, ClientError> {
        let warehouse = one_of(self.random, self.size.warehouses);
        self.session.queue(&BEGIN, &[]).await?;
        let ended = match kind {
            TpccKind::NewOrder => new_order::enter(self, warehouse).await,
            TpccKind::Payment => payment::pay(self, warehouse).await.map(|()| Ended::Committed),
            TpccKind::OrderStatus => order_status::look(self, warehouse).await.map(|()| Ended::Committed),
            TpccKind::Delivery => delivery::deliver(self, warehouse).await.map(|()| Ended::Committed),
            TpccKind::StockLevel => stock_level::count(self, warehouse).await.map(|()| Ended::Committed),
        };
        if !matches!(ended, Ok(Ended::Committed | Ended::Entered(_))) {
            // A connection that is lost is lost for the rollback too.
            self.session.run(&ROLLBACK, &[]).await?;
        }
        ended
    }
}
