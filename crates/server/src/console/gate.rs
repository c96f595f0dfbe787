//! The way in: a session of the server for whoever asks, over a pair of sockets one end of which is dealt to the workers as any
//! connection is, with the address of the browser. So it is let in, and shown in pg_stat_activity and in the log, as that client.
//!
//! Invariants
//! 1. Without a name nobody is let in but over an address that no page of another site can be reached by: a browser on this
//!    machine runs whatever the web gives it.
//! 2. A visitor keeps his session as long as his connection, and logs in again if he comes with another name.
//!
//! Must not know: what is asked.

use super::DATABASE;
use super::http::{HttpRequest, HttpResponse};
use crate::connection::{ConsoleCall, ConsolePeer, Socket};
use crate::listen::ConnectionDealer;
use crate::shared::ServerShared;
use kilndb_base::Severity;
use kilndb_base::env::Env;
use kilndb_lab::client::{Client, ClientError, Proof};
use std::io;
use std::net::IpAddr;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::Duration;

/// Who comes without a name: the role that each cluster has.
const NAMELESS: &str = "postgres";
/// The database of a session, unless the request names another one.
const DATABASE_AT_FIRST: &str = "postgres";
/// A session that does not answer is given up.
const ANSWER_MAX: Duration = Duration::from_secs(20);
/// What a session begins with. A question may not take long: the next one comes a second later.
const BEGIN: &str = "set application_name = 'kilndb console'; set default_transaction_read_only = on; \
    set statement_timeout = '5s'; set lock_timeout = '1s'; set search_path = pg_catalog";
const AFTER_FAILURE: Duration = Duration::from_millis(50);

pub(super) struct ConsoleGate {
    dealer: Arc<ConnectionDealer>,
    shared: Arc<ServerShared>,
}

/// Whose session it is, and in which database.
#[derive(PartialEq, Eq, Clone)]
struct SessionKey {
    credentials: Option<(String, String)>,
    database: String,
}

/// Somebody who has a connection to the console.
pub(super) struct ConsoleVisitor {
    peer: ConsolePeer,
    session: Option<(SessionKey, Client)>,
}

impl ConsoleVisitor {
    pub fn new(peer: ConsolePeer) -> ConsoleVisitor {
        ConsoleVisitor { peer, session: None }
    }
    /// The session has failed, or its answers are not to be trusted any more.
    pub fn leave(&mut self) {
        self.session = None;
    }
}

impl ConsoleGate {
    pub fn new(dealer: Arc<ConnectionDealer>, shared: Arc<ServerShared>) -> ConsoleGate {
        ConsoleGate { dealer, shared }
    }
    pub fn env(&self) -> Arc<dyn Env> {
        self.shared.env.clone()
    }
    pub fn is_stopping(&self) -> bool {
        self.shared.stopping()
    }
    pub fn not_accepted(&self, e: &io::Error) {
        if !self.is_stopping() {
            let message = format!("the console could not accept a connection: {e}");
            self.shared.instance.cluster.log(Severity::Log, &message);
            self.shared.env.sleep(AFTER_FAILURE);
        }
    }

    /// The visitor's session. The error is what he is answered.
    pub fn session<'v>(
        &self,
        request: &HttpRequest,
        visitor: &'v mut ConsoleVisitor,
    ) -> Result<&'v mut Client, HttpResponse> {
        if request.credentials.is_none() && visitor.peer.ends.is_some() && !is_own_name(&request.host) {
            return Err(HttpResponse::text(403, "the console is reached by an address, or with a name and a password"));
        }
        let database = request.database.clone().unwrap_or_else(|| DATABASE_AT_FIRST.to_string());
        let key = SessionKey { credentials: request.credentials.clone(), database };
        if visitor.session.as_ref().is_some_and(|(known, _)| *known != key) {
            visitor.session = None;
        }
        let (_, client) = match &mut visitor.session {
            Some(known) => known,
            empty => {
                let client = self.log_in(&key, visitor.peer).map_err(|e| refusal(&e))?;
                empty.insert((key, client))
            }
        };
        Ok(client)
    }

    fn log_in(&self, key: &SessionKey, peer: ConsolePeer) -> Result<Client, ClientError> {
        let (own, theirs) = UnixStream::pair()?;
        theirs.set_nonblocking(true)?;
        own.set_read_timeout(Some(ANSWER_MAX))?;
        let call = Box::new(ConsoleCall { peer, database: key.database.clone() });
        self.shared.connection_begins();
        self.dealer.deal(Socket::Console(mio::net::UnixStream::from_std(theirs), call));
        let (name, password) = match &key.credentials {
            Some((name, password)) => (name.as_str(), Some(password.clone())),
            None => (NAMELESS, None),
        };
        let mut client = Client::over_with(own, name, DATABASE, Proof { password, ..Proof::default() })?;
        client.query(BEGIN)?;
        Ok(client)
    }
}

/// A name that the web gives to no other machine: an address, or `localhost`.
fn is_own_name(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(v6) => v6.split(']').next().unwrap_or(""),
        None => host.split(':').next().unwrap_or(""),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok()
}

fn refusal(e: &ClientError) -> HttpResponse {
    match e {
        // Class 28: invalid authorization. Who was asked for a password and had none is told so by our own client.
        ClientError::Server(e) if e.code.starts_with("28") => HttpResponse::who_are_you(&e.message),
        ClientError::Io(e) if !matches!(e.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
            HttpResponse::who_are_you("a name and a password are needed")
        }
        e => HttpResponse::text(503, e.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_web_are_not_our_own() {
        for own in ["127.0.0.1:8008", "localhost", "[::1]:8008", "10.0.0.7"] {
            assert!(is_own_name(own), "{own}");
        }
        for other in ["evil.example:8008", "127.0.0.1.evil.example", "", "localhost.example"] {
            assert!(!is_own_name(other), "{other}");
        }
    }
}
