//! What the open transaction has asked for with LISTEN, NOTIFY and UNLISTEN, and who the session listens to.

use super::Scratch;
use super::session_function::session_functions;
use crate::cluster::Cluster;
use crate::notify::{Listener, Notification};
use kilndb_base::hash::HashSet;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, sqlstate};
use kilndb_types::Datum;
use std::cell::RefCell;

const CHANNEL_BYTES_MAX: usize = 63;
const PAYLOAD_BYTES_MAX: usize = 7999;
/// `max_notify_queue_pages` counts pages of so many bytes.
const PAGE_BYTES: u64 = 8192;

pub enum ListenRequest {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// What the open transaction has asked for, and who the session listens to.
#[derive(Default)]
pub struct Listening {
    pub requests: Vec<ListenRequest>,
    pub sent: Vec<Arc<Notification>>,
    /// The same, to find duplicates.
    pub known: HashSet<Arc<Notification>>,
    pub listener: Option<Listener>,
}

/// Where [`Listening`] goes back to when a savepoint is rolled back.
pub type ListeningMark = (usize, usize);

impl Listening {
    pub fn mark(&self) -> ListeningMark {
        (self.requests.len(), self.sent.len())
    }
    pub fn rollback_to(&mut self, mark: ListeningMark) {
        self.requests.truncate(mark.0);
        for undone in self.sent.drain(mark.1.min(self.sent.len())..) {
            self.known.remove(&undone);
        }
    }
}

pub fn notify(scratch: &Scratch, channel: &str, payload: &str) -> Result<()> {
    let refused = |message: &str| Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
    if channel.is_empty() {
        return refused("channel name cannot be empty");
    }
    if channel.len() > CHANNEL_BYTES_MAX {
        return refused("channel name too long");
    }
    if payload.len() > PAYLOAD_BYTES_MAX {
        return refused("payload string too long");
    }
    let mut listening = scratch.listening.borrow_mut();
    let one: Arc<Notification> = Arc::new((channel.into(), payload.into()));
    if listening.known.insert(one.clone()) {
        listening.sent.push(one);
    }
    Ok(())
}

/// Rows of pg_listening_channels().
pub fn channels(listening: &RefCell<Listening>) -> Vec<Vec<Datum>> {
    let listening = listening.borrow();
    let channels = listening.listener.iter().flat_map(|l| l.channels());
    channels.map(|c| vec![Datum::text(&**c)]).collect()
}

session_functions! {
    fn pg_notify(call) = {
        notify(call.host.scratch, &call.text(0), &call.text(1)).map(|()| Datum::text(""))
    };
    fn pg_notification_queue_usage(call) = Ok(Datum::Float8(queue_usage(call.host.cluster)));
}

/// The part of the queue's whole pages that is used.
pub(crate) fn queue_usage(cluster: &Cluster) -> f64 {
    let pages = cluster.notifications.used_bytes() / PAGE_BYTES;
    pages as f64 / cluster.settings().real("max_notify_queue_pages")
}

pub fn queue_limit_bytes(cluster: &Cluster) -> u64 {
    (cluster.settings().number("max_notify_queue_pages") as u64).saturating_mul(PAGE_BYTES)
}
