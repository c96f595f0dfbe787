//! LISTEN, NOTIFY and UNLISTEN: what a transaction has asked for is done at its commit, in full or not at all.

use super::functions::session_functions;
use super::{Scratch, Session};
use crate::client::{Client, Runtime};
use crate::notify::{Appended, Listener, Notification, Room};
use crate::session::transaction::Block;
use kilndb_base::hash::HashSet;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_storage::CommitMode;
use kilndb_syntax::nodes;
use kilndb_types::Datum;
use std::cell::RefCell;
use std::sync::Arc;

const CHANNEL_BYTES_MAX: usize = 63;
const PAYLOAD_BYTES_MAX: usize = 7999;
/// `max_notify_queue_pages` counts pages of so many bytes.
const PAGE_BYTES: u64 = 8192;

enum Request {
    Listen(String),
    Unlisten(String),
    UnlistenAll,
}

/// What the open transaction has asked for, and who the session listens to.
#[derive(Default)]
pub(crate) struct Listening {
    requests: Vec<Request>,
    sent: Vec<Arc<Notification>>,
    /// The same, to find duplicates.
    known: HashSet<Arc<Notification>>,
    pub listener: Option<Listener>,
}

/// Where [`Listening`] goes back to when a savepoint is rolled back.
pub(crate) type Mark = (usize, usize);

impl Listening {
    pub fn mark(&self) -> Mark {
        (self.requests.len(), self.sent.len())
    }
    pub fn rollback_to(&mut self, mark: Mark) {
        self.requests.truncate(mark.0);
        for undone in self.sent.drain(mark.1.min(self.sent.len())..) {
            self.known.remove(&undone);
        }
    }
}

pub(super) fn notify(scratch: &Scratch, channel: &str, payload: &str) -> Result<()> {
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
pub(super) fn channels(listening: &RefCell<Listening>) -> Vec<Vec<Datum>> {
    let listening = listening.borrow();
    let channels = listening.listener.iter().flat_map(|l| l.channels());
    channels.map(|c| vec![Datum::text(&**c)]).collect()
}

/// Notifications with room in the queue.
pub(super) type Prepared = Option<(Vec<Arc<Notification>>, Room)>;

impl Session {
    pub(super) fn listen_command(&mut self, s: &nodes::ListenStmt, runtime: &dyn Runtime) -> Result<String> {
        self.request(Request::Listen(s.conditionname().unwrap_or("").to_string()), runtime)?;
        Ok("LISTEN".into())
    }

    pub(super) fn unlisten_command(&mut self, s: &nodes::UnlistenStmt, runtime: &dyn Runtime) -> Result<String> {
        self.request(
            s.conditionname().map_or(Request::UnlistenAll, |name| Request::Unlisten(name.to_string())),
            runtime,
        )?;
        Ok("UNLISTEN".into())
    }

    pub(super) fn notify_command(&mut self, s: &nodes::NotifyStmt, runtime: &dyn Runtime) -> Result<String> {
        self.begin_statement(runtime)?;
        notify(&self.own.scratch, s.conditionname().unwrap_or(""), s.payload().unwrap_or(""))?;
        Ok("NOTIFY".into())
    }

    pub(super) fn unlisten_all(&mut self, runtime: &dyn Runtime) -> Result<()> {
        self.request(Request::UnlistenAll, runtime)
    }

    fn request(&mut self, request: Request, runtime: &dyn Runtime) -> Result<()> {
        self.begin_statement(runtime)?;
        self.own.scratch.listening.borrow_mut().requests.push(request);
        Ok(())
    }

    fn queue_limit_bytes(&self) -> u64 {
        queue_limit_bytes(&self.instance)
    }

    /// Before the commit: whatever may fail. A listener is registered now, so that it misses nothing that is committed
    /// after it.
    pub(super) fn prepare_notifications(&mut self) -> Result<Prepared> {
        let mut listening = self.own.scratch.listening.borrow_mut();
        if listening.requests.is_empty() && listening.sent.is_empty() {
            return Ok(None);
        }
        let queue = self.instance.notifications.queue(self.database.oid);
        let listens = listening.requests.iter().any(|r| matches!(r, Request::Listen(_)));
        if listens && listening.listener.is_none() {
            let control = self.instance.sessions().get(self.process_id);
            let control = control.ok_or_else(|| Error::internal("a session that is not registered"))?;
            listening.listener = Some(queue.listen(control));
        }
        if listening.sent.is_empty() {
            return Ok(None);
        }
        listening.known.clear();
        let sent = std::mem::take(&mut listening.sent);
        drop(listening);
        let limit_bytes = self.queue_limit_bytes();
        let room = queue.reserve(&sent, limit_bytes)?;
        if let Some(full) = queue.fullness(limit_bytes, kilndb_base::env::process_monotonic_nanos()) {
            self.warn_of_full_queue(&full);
        }
        Ok(Some((sent, room)))
    }

    fn warn_of_full_queue(&self, full: &crate::notify::Fullness) {
        let message = format!("NOTIFY queue is {:.0}% full", full.percent);
        self.instance.log(Severity::Warning, &message);
        let mut warning = Error::notice(sqlstate::WARNING, Severity::Warning, message);
        if let Some(pid) = full.slowest {
            warning = warning
                .with_detail(format!("The server process with PID {pid} is among those with the oldest transactions."))
                .with_hint("The NOTIFY queue cannot be emptied until that process ends its current transaction.");
        }
        self.own.scratch.notices.borrow_mut().push(warning);
    }

    /// Ends the transaction, its notifications taking their place in the queue with it.
    pub(super) fn commit_and_notify(
        &self,
        txn: &mut kilndb_storage::Transaction,
        mode: CommitMode,
        prepared: Prepared,
        runtime: &dyn Runtime,
    ) -> (Result<Option<kilndb_base::Lsn>>, Option<Appended>) {
        let Some((sent, room)) = prepared else { return (txn.commit(mode, runtime), None) };
        let queue = self.instance.notifications.queue(self.database.oid);
        let (committed, appended) = queue.append(self.process_id, sent, room, || txn.commit(mode, runtime));
        (committed, Some(appended))
    }

    /// After the end of a transaction: what it asked for is done or forgotten.
    pub(super) fn end_listening(&mut self, committed: bool) {
        let mut listening = self.own.scratch.listening.borrow_mut();
        listening.known.clear();
        listening.sent.clear();
        if listening.requests.is_empty() {
            return;
        }
        let requests = std::mem::take(&mut listening.requests);
        let Some(mut listener) = listening.listener.take() else { return };
        for request in requests.into_iter().filter(|_| committed) {
            match request {
                Request::Listen(channel) => listener.add(&channel),
                Request::Unlisten(channel) => listener.remove(&channel),
                Request::UnlistenAll => listener.channels().to_vec().iter().for_each(|c| listener.remove(c)),
            }
        }
        if !listener.channels().is_empty() {
            // What came between the registration and now has woken nobody.
            listener.look_again();
            listening.listener = Some(listener);
        }
    }

    /// Tells the client what has been sent to channels it listens to, unless a transaction is open.
    pub fn deliver_notifications(&mut self, runtime: &dyn Runtime, client: &mut dyn Client) -> Result<()> {
        if self.txn.is_some() || self.block != Block::None || !runtime.control().take_notified() {
            return Ok(());
        }
        loop {
            let message = {
                let mut listening = self.own.scratch.listening.borrow_mut();
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

session_functions! {
    fn pg_notify(call) = {
        notify(call.host.scratch, &call.text(0), &call.text(1)).map(|()| Datum::text(""))
    };
    fn pg_notification_queue_usage(call) = Ok(Datum::Float8(queue_usage(call.host.instance)));
}

/// The part of the queue's whole pages that is used.
fn queue_usage(instance: &crate::Instance) -> f64 {
    let pages = instance.notifications.used_bytes() / PAGE_BYTES;
    pages as f64 / instance.settings().real("max_notify_queue_pages")
}

fn queue_limit_bytes(instance: &crate::Instance) -> u64 {
    (instance.settings().number("max_notify_queue_pages") as u64).saturating_mul(PAGE_BYTES)
}
