//! Stock-Level (clause 2.8).

use super::Terminal;
use crate::client::ClientError;
use crate::tpcc::DISTRICTS;
use crate::tpcc::choices::one_of;
use crate::tpcc::session::Parameter::Number;
use crate::tpcc::statement::{COMMIT, LOW_STOCK, NEXT_ORDER};

pub(super) async fn count(terminal: &mut Terminal<'_>, warehouse: u32) -> Result<(), ClientError> {
    let district = Number(one_of(terminal.random, DISTRICTS));
    let threshold = Number(9 + one_of(terminal.random, 11));
    let session = &mut *terminal.session;
    let found = session.run(&NEXT_ORDER, &[Number(warehouse), district]).await?;
    let next = Number(session.number(found, 0, 0)?);
    session.queue(&LOW_STOCK, &[Number(warehouse), district, next, threshold]).await?;
    session.run(&COMMIT, &[]).await.map(drop)
}
