//! What all workers share: the database instance, the list of sessions, the stop flag.

use crate::apart::SideThreads;
use crate::guesses::Guesses;
use crate::machine::UserNames;
use crate::runtime::{ConnectionWake, IdleSessionWake};
use crate::tls::TlsSwitch;
use kilndb_base::env::Env;
use kilndb_base::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};
use kilndb_base::sync::{Arc, Mutex, MutexGuard};
use kilndb_base::{Error, Result, sqlstate};
use kilndb_context::client::{Activity, SessionControl};
use kilndb_sql::Instance;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// Microseconds from 1970 to 2000.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

pub struct ServerShared {
    pub instance: Arc<Instance>,
    pub env: Arc<dyn Env>,
    pub apart: SideThreads,
    pub guesses: Guesses,
    pub user_names: UserNames,
    pub tls: Arc<TlsSwitch>,
    stop: AtomicBool,
    next_process_id: AtomicI32,
    /// Sessions that have proved who they are.
    admitted: Mutex<usize>,
    /// Sockets that were accepted and are not closed.
    connections: AtomicUsize,
    /// The connections that have not proved who they are, by process id, which is by age.
    strangers: Mutex<BTreeMap<i32, Arc<SessionControl>>>,
}

impl ServerShared {
    pub fn new(instance: Arc<Instance>, env: Arc<dyn Env>, tls: Arc<TlsSwitch>) -> ServerShared {
        ServerShared {
            instance,
            apart: SideThreads::new(env.clone()),
            env,
            guesses: Guesses::default(),
            user_names: UserNames::default(),
            tls,
            stop: AtomicBool::new(false),
            next_process_id: AtomicI32::new(1000),
            admitted: Mutex::new(0),
            connections: AtomicUsize::new(0),
            strangers: Mutex::default(),
        }
    }
    pub fn stop(&self) {
        self.stop.store(true, Ordering::SeqCst);
    }
    pub fn stopping(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }

    pub fn register_session(
        &self,
        wake: Arc<ConnectionWake>,
        attention: Arc<IdleSessionWake>,
        ends: Option<(SocketAddr, SocketAddr)>,
    ) -> Arc<SessionControl> {
        let process_id = self.next_process_id.fetch_add(1, Ordering::Relaxed) & 0x7fff_ffff;
        let mut secret = vec![0; 32];
        self.env.random_bytes(&mut secret);
        let (client, server) = ends.unzip();
        let activity = Activity {
            client_addr: client.map(|a| a.ip().to_string()),
            client_port: client.map(|a| i32::from(a.port())),
            server_addr: server.map(|a| a.ip().to_string()),
            backend_start: self.env.unix_micros() - POSTGRES_EPOCH_MICROS,
            ..Activity::default()
        };
        let control = Arc::new(SessionControl::new(process_id, secret, wake, attention, activity));
        self.instance.cluster.sessions().add(control.clone());
        self.strangers().insert(process_id, control.clone());
        control
    }

    pub fn unregister_session(&self, process_id: i32) {
        self.instance.cluster.sessions().remove(process_id);
        self.introduced(process_id);
    }

    /// Answers how many there are now.
    pub fn connection_begins(&self) -> usize {
        self.connections.fetch_add(1, Ordering::Relaxed) + 1
    }
    pub fn connection_ends(&self) {
        self.connections.fetch_sub(1, Ordering::Relaxed);
    }
    fn strangers(&self) -> MutexGuard<'_, BTreeMap<i32, Arc<SessionControl>>> {
        self.strangers.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// A session has proved who it is, or is gone.
    pub fn introduced(&self, process_id: i32) {
        self.strangers().remove(&process_id);
    }
    /// Ends the connection that has not proved who it is for longest. False: there is none.
    pub fn close_oldest_stranger(&self) -> bool {
        let oldest = self.strangers().pop_first();
        oldest.inspect(|(_, control)| control.request_terminate()).is_some()
    }
    /// Takes one of max_connections' places. Answers how many are left.
    pub fn admit(&self) -> Result<usize> {
        let mut admitted = self.admitted.lock().unwrap_or_else(|e| e.into_inner());
        let Some(left) = self.instance.cluster.max_connections().checked_sub(*admitted + 1) else {
            return Err(Error::new(sqlstate::TOO_MANY_CONNECTIONS, "sorry, too many clients already"));
        };
        *admitted += 1;
        Ok(left)
    }
    pub fn dismiss(&self) {
        *self.admitted.lock().unwrap_or_else(|e| e.into_inner()) -= 1;
    }

    /// A CancelRequest: the secret must be what the session's client was told (4 bytes by protocol 3.0).
    pub fn cancel(&self, process_id: i32, secret: &[u8]) {
        if let Some(control) = self.instance.cluster.sessions().get(process_id)
            && control.has_told_secret(secret)
        {
            control.request_cancel();
        }
    }
}
