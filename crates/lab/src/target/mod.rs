//! Targets: servers that experiments run on, given ones and temporary ones.
//!
//! 1. A target that cannot be reached is a target with a problem, and no error: experiments on the others go on.
//! 2. Temporary servers stand still (SIGSTOP) unless it is their turn, and go with this value.
//! 3. What a session of the lab begins with says who it is, so that all of them can be ended.
//!
//! Must not know: experiments.

mod certificate;
mod temporary;
mod uri;
mod usage;

pub use temporary::{TemporaryNeeds, own_kilndb};
pub use uri::{TargetUri, percent_decoded};
pub use usage::ProcessUse;

use crate::canned;
use crate::client::{Address, Client, ClientError};
use crate::experiment::{ConnectionName, ProductName};
use crate::process::{Server, TempDir};
use crate::results::TargetFacts;
use crate::tls::TlsChoice;
use std::path::PathBuf;
use temporary::TemporaryServer;

const WIRE_LIMIT: &str = "wire limit";

/// What a process of PostgreSQL has for itself once it has run a few statements, or somewhat more.
const PROCESS_BYTES: u64 = 3 << 20;

/// A server that experiments run on.
pub struct Target {
    pub name: String,
    pub uri: TargetUri,
    pub facts: TargetFacts,
    /// None: neither of those that experiments know apart.
    pub product: Option<ProductName>,
    /// The lab's own server, with its folders.
    running: Option<TemporaryServer>,
    /// The folder of the socket that the wire limit listens on.
    wire: Option<TempDir>,
}

/// What a temporary server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TemporaryProduct {
    /// A build of KilnDB: its program.
    KilnDb(PathBuf),
    Postgres,
}

impl Target {
    /// A server that somebody has given. It is asked what it is.
    pub fn given(name: &str, uri: TargetUri) -> Target {
        let place = uri.shown();
        Target::ask(name, uri, place, None)
    }

    /// Starts a server in a temporary folder.
    pub fn temporary(name: &str, product: TemporaryProduct, needs: &TemporaryNeeds) -> Result<Target, String> {
        let running = TemporaryServer::start(product, needs.clone()).map_err(|e| format!("{name}: {e}"))?;
        let uri = TargetUri { address: running.address(), database: "postgres".into(), password: None };
        Ok(Target::ask(name, uri, "temporary".into(), Some(running)))
    }

    /// A server that answers every message with prepared bytes, in this process: no server of this machine can give more.
    pub fn wire_limit() -> Result<Target, String> {
        let (address, folder) = canned::start().map_err(|e| format!("{WIRE_LIMIT}: {e}"))?;
        let version = "answers every message with prepared bytes".to_string();
        let place = "this process".to_string();
        Ok(Target {
            name: WIRE_LIMIT.into(),
            uri: TargetUri { address, database: "postgres".into(), password: None },
            facts: TargetFacts { name: WIRE_LIMIT.into(), version, place, ..TargetFacts::default() },
            product: None,
            running: None,
            wire: Some(folder),
        })
    }
    /// It has neither data nor anything else but answers.
    pub fn is_wire(&self) -> bool {
        self.wire.is_some()
    }

    fn ask(name: &str, uri: TargetUri, place: String, running: Option<TemporaryServer>) -> Target {
        let mut target = Target {
            name: name.to_string(),
            uri,
            facts: TargetFacts { name: name.to_string(), place, ..TargetFacts::default() },
            product: None,
            running,
            wire: None,
        };
        if let Err(e) = target.learn() {
            target.facts.problem = Some(e.to_string());
        }
        target
    }
    fn learn(&mut self) -> Result<(), ClientError> {
        let mut client = self.connect()?;
        self.facts.version = client.value("select version()")?.unwrap_or_default();
        self.product = match &self.facts.version {
            version if version.contains("KilnDB") => Some(ProductName::KilnDb),
            version if version.starts_with("PostgreSQL ") => Some(ProductName::Postgres),
            _ => None,
        };
        let changed = "select name, current_setting(name) from pg_settings \
             where source not in ('default', 'override', 'client', 'session') and setting is distinct from boot_val order by name";
        let answers = client.query(changed)?;
        let rows = answers.into_iter().flat_map(|answer| answer.rows);
        self.facts.settings = rows.filter_map(name_and_value).filter(|(name, _)| tells_something(name)).collect();
        Ok(())
    }

    pub fn connect(&self) -> Result<Client, ClientError> {
        Client::log_in(&self.uri.address, &self.uri.database, self.uri.password.as_deref())
    }
    /// Where clients go that connect in a way of their own. Errors: the target cannot be reached so.
    pub fn address_by(&self, way: Option<ConnectionName>) -> Result<Address, String> {
        let own = self.uri.address.clone();
        let Some(way) = way.filter(|_| !self.is_wire()) else { return Ok(own) };
        let is_socket = own.host.starts_with('/');
        let over_tcp = match &self.running {
            Some(running) => {
                let tls = TlsChoice::of_mode("require", None)?;
                Some(Address { tls, ..running.tcp_address() })
            }
            None => (!is_socket).then(|| own.clone()),
        };
        match (way, over_tcp) {
            (ConnectionName::Socket, _) if is_socket => Ok(own),
            (ConnectionName::Socket, _) => Err("the target is not reached through a Unix socket".into()),
            (_, None) => Err("the target is reached through a Unix socket, and not over TCP".into()),
            (ConnectionName::Tcp, Some(tcp)) => Ok(Address { tls: None, ..tcp }),
            (ConnectionName::Tls, Some(tcp)) => match tcp.tls.as_ref().map(TlsChoice::required) {
                Some(tls) => Ok(Address { tls: Some(tls), ..tcp }),
                None => Err("the target is not to be reached over TLS: its URI says sslmode=disable".into()),
            },
        }
    }
    /// It goes with this value.
    pub fn is_temporary(&self) -> bool {
        self.running.is_some()
    }
    pub fn pause(&self) {
        if let Some(running) = &self.running {
            running.with_server(Server::pause);
        }
    }
    pub fn go_on(&self) {
        if let Some(running) = &self.running {
            running.with_server(Server::go_on);
        }
    }
    /// Stops a temporary server and starts it again with its data; it stands still then. A given one stays as it is.
    pub fn restart(&self) -> Result<(), String> {
        let Some(running) = &self.running else { return Ok(()) };
        running.restart().map_err(|e| format!("it did not come back: {e}"))?;
        self.pause();
        Ok(())
    }
    /// Stops a temporary server, and checks what a KilnDB leaves in its data folder.
    pub fn end(self) -> Result<(), String> {
        let Some(running) = &self.running else { return Ok(()) };
        running.end().map_err(|e| format!("{}: {e}", self.name))
    }
    /// What its processes have used so far. None: they are not this machine's, or not known.
    pub fn process_use(&self) -> Option<ProcessUse> {
        self.running.as_ref()?.with_server(|server| ProcessUse::of_tree(server.pid()))
    }

    /// Whether so many sessions are too many for this machine: of a server that the lab has started, and that has a process for each.
    /// Else the system would end processes, and not only the server's.
    pub fn has_no_room_for(&self, sessions: usize) -> Option<String> {
        if !self.is_temporary() || self.product != Some(ProductName::Postgres) {
            return None;
        }
        let (needed, free) = (sessions as u64 * PROCESS_BYTES, usage::free_memory_bytes()?);
        (needed > free).then(|| {
            format!("{sessions} processes would need {} GB of memory, and {} GB are free", needed >> 30, free >> 30)
        })
    }

    /// Ends a temporary server, and its folders go: this process is about to end.
    pub fn take_away(&self) {
        if let Some(running) = &self.running {
            running.take_away();
        }
    }

    /// Ends all sessions that began with [`session_name`]: somebody wants to stop, and they may run for long.
    pub fn end_sessions(&self) {
        if self.is_wire() {
            return;
        }
        self.go_on();
        let ended = format!(
            "select pg_terminate_backend(pid) from pg_stat_activity where application_name = '{}' and pid <> pg_backend_pid()",
            session_name()
        );
        // A server that is gone has no sessions either.
        if let Ok(mut client) = self.connect() {
            let _ = client.query(&ended);
        }
    }
}

/// The application name of the lab's sessions: no other process has it.
pub fn session_name() -> String {
    format!("kilndb lab {}", std::process::id())
}

fn name_and_value(row: Vec<Option<String>>) -> Option<(String, String)> {
    let mut values = row.into_iter();
    Some((values.next()??, values.next()??))
}

/// Folders and addresses are of this day alone.
fn tells_something(name: &str) -> bool {
    const OF_PLACE: [&str; 9] = [
        "application_name",
        "config_file",
        "data_directory",
        "external_pid_file",
        "hba_file",
        "ident_file",
        "listen_addresses",
        "port",
        "unix_socket_directories",
    ];
    !OF_PLACE.contains(&name)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody listens there: the target has a problem, and an address all the same.
    fn at(uri: &str) -> Target {
        Target::given("here", TargetUri::read(uri).expect("a URI"))
    }

    #[test]
    fn a_given_target_is_reached_as_its_uri_says() {
        let tcp = at("postgresql://a@127.0.0.1:1/b");
        let plain = tcp.address_by(Some(ConnectionName::Tcp)).expect("over TCP");
        assert!(plain.tls.is_none() && tcp.address_by(None).expect("as it is").tls.is_some());
        // What is measured as TLS is never in the clear.
        let encrypted = tcp.address_by(Some(ConnectionName::Tls)).expect("over TLS");
        assert_eq!(encrypted.tls.map(|tls| tls.mode), Some("require".into()));
        let socket = tcp.address_by(Some(ConnectionName::Socket));
        assert_eq!(socket.err(), Some("the target is not reached through a Unix socket".into()));
        let clear = at("postgresql://a@127.0.0.1:1/b?sslmode=disable").address_by(Some(ConnectionName::Tls));
        assert!(clear.is_err_and(|e| e.contains("sslmode=disable")));
        let socket = at("postgresql://a@/b?host=/nowhere");
        assert_eq!(socket.address_by(Some(ConnectionName::Socket)).expect("its own").host, "/nowhere");
        for way in [ConnectionName::Tcp, ConnectionName::Tls] {
            assert!(socket.address_by(Some(way)).is_err_and(|e| e.contains("and not over TCP")));
        }
    }
}
