//! LISTEN, NOTIFY and UNLISTEN: what a transaction has asked for is done at its commit, in full or not at all.

use super::SessionContext;
use crate::client::Runtime;
use crate::host::{ListenRequest, notify, queue_limit_bytes};
use crate::notify::{Appended, Notification, Room};
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_storage::CommitMode;
use kilndb_syntax::nodes;

/// Notifications with room in the queue.
pub type PreparedNotifications = Option<(Vec<Arc<Notification>>, Room)>;

impl SessionContext {
    pub fn listen_command(&mut self, s: &nodes::ListenStmt, runtime: &dyn Runtime) -> Result<String> {
        self.request(ListenRequest::Listen(s.conditionname().unwrap_or("").to_string()), runtime)?;
        Ok("LISTEN".into())
    }

    pub fn unlisten_command(&mut self, s: &nodes::UnlistenStmt, runtime: &dyn Runtime) -> Result<String> {
        self.request(
            s.conditionname().map_or(ListenRequest::UnlistenAll, |name| ListenRequest::Unlisten(name.to_string())),
            runtime,
        )?;
        Ok("UNLISTEN".into())
    }

    pub fn notify_command(&mut self, s: &nodes::NotifyStmt, runtime: &dyn Runtime) -> Result<String> {
        self.begin_statement(runtime)?;
        notify(&self.shared.scratch, s.conditionname().unwrap_or(""), s.payload().unwrap_or(""))?;
        Ok("NOTIFY".into())
    }

    pub fn unlisten_all(&mut self, runtime: &dyn Runtime) -> Result<()> {
        self.request(ListenRequest::UnlistenAll, runtime)
    }

    fn request(&mut self, request: ListenRequest, runtime: &dyn Runtime) -> Result<()> {
        self.begin_statement(runtime)?;
        self.shared.scratch.listening.borrow_mut().requests.push(request);
        Ok(())
    }

    /// Before the commit: whatever may fail. A listener is registered now, so that it misses nothing that is committed
    /// after it.
    #[inline]
    pub fn prepare_notifications(&mut self) -> Result<PreparedNotifications> {
        let has_none = {
            let listening = self.shared.scratch.listening.borrow();
            listening.requests.is_empty() && listening.sent.is_empty()
        };
        if has_none { Ok(None) } else { self.prepare_sent() }
    }

    fn prepare_sent(&mut self) -> Result<PreparedNotifications> {
        let mut listening = self.shared.scratch.listening.borrow_mut();
        let queue = self.cluster.notifications.queue(self.database.oid);
        let listens = listening.requests.iter().any(|r| matches!(r, ListenRequest::Listen(_)));
        if listens && listening.listener.is_none() {
            let control = self.cluster.sessions().get(self.process_id);
            let control = control.ok_or_else(|| Error::internal("a session that is not registered"))?;
            listening.listener = Some(queue.listen(control));
        }
        if listening.sent.is_empty() {
            return Ok(None);
        }
        listening.known.clear();
        let sent = std::mem::take(&mut listening.sent);
        drop(listening);
        let limit_bytes = queue_limit_bytes(&self.cluster);
        let room = queue.reserve(&sent, limit_bytes)?;
        if let Some(full) = queue.fullness(limit_bytes, kilndb_base::env::process_monotonic_nanos()) {
            self.warn_of_full_queue(&full);
        }
        Ok(Some((sent, room)))
    }

    fn warn_of_full_queue(&self, full: &crate::notify::Fullness) {
        let message = format!("NOTIFY queue is {:.0}% full", full.percent);
        self.cluster.log(Severity::Warning, &message);
        let mut warning = Error::notice(sqlstate::WARNING, Severity::Warning, message);
        if let Some(pid) = full.slowest {
            warning = warning
                .with_detail(format!("The server process with PID {pid} is among those with the oldest transactions."))
                .with_hint("The NOTIFY queue cannot be emptied until that process ends its current transaction.");
        }
        self.shared.scratch.notices.borrow_mut().push(warning);
    }

    /// Ends the transaction, its notifications taking their place in the queue with it.
    pub fn commit_and_notify(
        &self,
        txn: &mut kilndb_storage::Transaction,
        mode: CommitMode,
        prepared: PreparedNotifications,
        runtime: &dyn Runtime,
    ) -> (Result<Option<kilndb_base::Lsn>>, Option<Appended>) {
        let Some((sent, room)) = prepared else { return (txn.commit(mode, runtime), None) };
        let queue = self.cluster.notifications.queue(self.database.oid);
        let (committed, appended) = queue.append(self.process_id, sent, room, || txn.commit(mode, runtime));
        (committed, Some(appended))
    }

    /// After the end of a transaction: what it asked for is done or forgotten.
    pub fn end_listening(&mut self, committed: bool) {
        let mut listening = self.shared.scratch.listening.borrow_mut();
        listening.known.clear();
        listening.sent.clear();
        if listening.requests.is_empty() {
            return;
        }
        let requests = std::mem::take(&mut listening.requests);
        let Some(mut listener) = listening.listener.take() else { return };
        for request in requests.into_iter().filter(|_| committed) {
            match request {
                ListenRequest::Listen(channel) => listener.add(&channel),
                ListenRequest::Unlisten(channel) => listener.remove(&channel),
                ListenRequest::UnlistenAll => listener.channels().to_vec().iter().for_each(|c| listener.remove(c)),
            }
        }
        if !listener.channels().is_empty() {
            // What came between the registration and now has woken nobody.
            listener.look_again();
            listening.listener = Some(listener);
        }
    }
}
