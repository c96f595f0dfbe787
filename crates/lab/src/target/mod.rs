//! Targets: servers that experiments run on, given ones and temporary ones.
//!
//! 1. A target that cannot be reached is a target with a problem, and no error: experiments on the others go on.
//! 2. Temporary servers stand still (SIGSTOP) unless it is their turn, and go with this value.
//! 3. What a session of the lab begins with says who it is, so that all of them can be ended.
//!
//! Must not know: experiments.

mod uri;
mod usage;

pub use uri::{TargetUri, percent_decoded};
pub use usage::ProcessUse;

use crate::client::{Client, ClientError};
use crate::experiment::ProductName;
use crate::process::{self, Server, TempDir};
use crate::results::TargetFacts;
use std::path::Path;

/// What temporary servers are told: as many sessions as experiments have, and what is usual for the rest.
const SETTINGS: [&str; 4] = ["max_connections=10500", "shared_buffers=1GB", "max_wal_size=4GB", "autovacuum=on"];

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
}

struct TemporaryServer {
    server: Server,
    // After the server: fields are dropped in order.
    folders: [TempDir; 2],
}

/// What is started where no target is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TemporaryProduct {
    KilnDb,
    Postgres,
}

impl Target {
    /// A server that somebody has given. It is asked what it is.
    pub fn given(name: &str, uri: TargetUri) -> Target {
        let place = uri.shown();
        Target::ask(name, uri, place, None)
    }

    /// Starts a server in a temporary folder.
    pub fn temporary(product: TemporaryProduct) -> Result<Target, String> {
        let (name, short) = match product {
            TemporaryProduct::KilnDb => ("KilnDB", "kilndb"),
            TemporaryProduct::Postgres => ("PostgreSQL", "postgres"),
        };
        let fail = |e: std::io::Error| format!("{name}: {e}");
        let folder = TempDir::new(&format!("lab-{short}")).map_err(fail)?;
        let sockets = TempDir::for_sockets().map_err(fail)?;
        let port = process::free_port().map_err(fail)?;
        let socket = format!("unix_socket_directories={}", sockets.path().display());
        let settings: Vec<&str> = SETTINGS.into_iter().chain([socket.as_str()]).collect();
        let mut server = match product {
            TemporaryProduct::KilnDb => start_kilndb(&folder.path().join("data"), port, &settings),
            TemporaryProduct::Postgres => crate::postgres::start(folder.path(), port, &settings),
        }
        .map_err(fail)?;
        server.reach_in(sockets.path());
        let uri = TargetUri { address: server.address().clone(), database: "postgres".into(), password: None };
        let running = TemporaryServer { server, folders: [folder, sockets] };
        Ok(Target::ask(name, uri, "temporary".into(), Some(running)))
    }

    fn ask(name: &str, uri: TargetUri, place: String, running: Option<TemporaryServer>) -> Target {
        let mut target = Target {
            name: name.to_string(),
            uri,
            facts: TargetFacts { name: name.to_string(), place, ..TargetFacts::default() },
            product: None,
            running,
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
    /// It goes with this value.
    pub fn is_temporary(&self) -> bool {
        self.running.is_some()
    }
    pub fn pause(&self) {
        if let Some(running) = &self.running {
            running.server.pause();
        }
    }
    pub fn go_on(&self) {
        if let Some(running) = &self.running {
            running.server.go_on();
        }
    }
    /// What its processes have used so far. None: they are not this machine's, or not known.
    pub fn process_use(&self) -> Option<ProcessUse> {
        self.running.as_ref().map(|running| ProcessUse::of_tree(running.server.pid()))
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
            running.server.end_at_once();
            running.folders.iter().for_each(TempDir::remove);
        }
    }

    /// Ends all sessions that began with [`session_name`]: somebody wants to stop, and they may run for long.
    pub fn end_sessions(&self) {
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

/// Starts KilnDB: this very program, if it is one, so that the lab needs nothing beside it.
fn start_kilndb(data: &Path, port: u16, settings: &[&str]) -> std::io::Result<Server> {
    let own = std::env::current_exe()?;
    if std::env::var_os("KILNDB").is_none() && own.file_name().is_some_and(|name| name == "kilndb") {
        return process::start_program(&own, data, port, settings);
    }
    process::start_kilndb(data, port, settings)
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
