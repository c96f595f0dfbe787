//! What has been sent to channels that the session listens to, on its way to the client.

use super::Session;
use crate::client::{Client, Runtime};
use crate::context::Block;
use kilndb_base::Result;

impl Session {
    /// Tells the client what has been sent to channels it listens to, unless a transaction is open.
    pub fn deliver_notifications(&mut self, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        if self.context.transaction.txn.is_some()
            || self.context.transaction.block != Block::None
            || !runtime.control().take_notified()
        {
            return Ok(());
        }
        loop {
            let message = {
                let mut listening = self.context.shared.scratch.listening.borrow_mut();
                let Some(listener) = &mut listening.listener else { return Ok(()) };
                let Some(message) = listener.read() else { return Ok(()) };
                let channels = listener.channels();
                for (channel, payload) in message.notifications.iter().filter(|n| channels.contains(&n.0)) {
                    client.notification(message.sender, channel, payload);
                }
                message
            };
            drop(message);
            client.throttle()?;
        }
    }
}
