//! The lab's own servers, in temporary folders.
//!
//! 1. A server keeps its port, its sockets and its data when it is started again.
//! 2. Nobody waits for a server that is being started again but those that ask for it.
//!
//! Must not know: experiments.

use super::{TemporaryProduct, certificate};
use crate::client::{Address, Client};
use crate::process::{self, Server, TempDir};
use crate::tls::TlsChoice;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What temporary servers are told: as many sessions as experiments have, and what is usual for the rest.
const SETTINGS: [&str; 4] = ["max_connections=10500", "shared_buffers=1GB", "max_wal_size=4GB", "autovacuum=on"];

/// What servers have beside that, since experiments of the run ask for it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TemporaryNeeds {
    /// Of the form `name=value`.
    pub settings: Vec<String>,
    /// Lines of pg_hba.conf, before all others.
    pub rules: Vec<String>,
    /// They speak TLS.
    pub certificate: bool,
}

/// What a server is given to speak TLS once it has been told to.
const TLS_PATIENCE: Duration = Duration::from_secs(30);

pub(super) struct TemporaryServer {
    product: TemporaryProduct,
    needs: TemporaryNeeds,
    port: u16,
    /// None: it has ended, or did not come back.
    server: Mutex<Option<Server>>,
    // After the server: fields are dropped in order.
    folder: TempDir,
    sockets: TempDir,
}

impl TemporaryServer {
    pub fn start(product: TemporaryProduct, needs: TemporaryNeeds) -> io::Result<TemporaryServer> {
        let folder = TempDir::new("lab-server")?;
        let (sockets, port) = (TempDir::for_sockets()?, process::free_port()?);
        let server = TemporaryServer { product, needs, port, server: Mutex::new(None), folder, sockets };
        let running = server.launch()?;
        *server.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        server.put_rules()?;
        if server.needs.certificate {
            server.switch_tls_on()?;
        }
        Ok(server)
    }
    fn put_rules(&self) -> io::Result<()> {
        if self.needs.rules.is_empty() {
            return Ok(());
        }
        let file = self.data().join("pg_hba.conf");
        let rules = std::fs::read_to_string(&file)?;
        std::fs::write(&file, format!("{}\n{rules}", self.needs.rules.join("\n")))?;
        self.tell("select pg_reload_conf()")
    }
    /// A PostgreSQL that was built without TLS goes on without: whoever asks it for that is told then.
    fn switch_tls_on(&self) -> io::Result<()> {
        certificate::provide(&self.data())?;
        match self.tell("alter system set ssl = on") {
            Err(_) if self.product == TemporaryProduct::Postgres => return Ok(()),
            done => done?,
        }
        self.tell("select pg_reload_conf()")?;
        let encrypted =
            Address { tls: TlsChoice::of_mode("require", None).map_err(io::Error::other)?, ..self.tcp_address() };
        let ends = Instant::now() + TLS_PATIENCE;
        while let Err(e) = Client::connect(&encrypted, "postgres") {
            if Instant::now() > ends {
                return Err(io::Error::other(format!("it does not speak TLS: {e}")));
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(())
    }
    fn tell(&self, sql: &str) -> io::Result<()> {
        let mut client = Client::connect(&self.address(), "postgres").map_err(|e| io::Error::other(e.to_string()))?;
        client.query(sql).map(drop).map_err(|e| io::Error::other(format!("{sql}: {e}")))
    }
    /// Where it is reached, before and after it has been started again.
    pub fn address(&self) -> Address {
        Address { host: self.sockets.path().display().to_string(), ..Address::local(self.port) }
    }

    /// As [`TemporaryServer::address`], over TCP and in the clear.
    pub fn tcp_address(&self) -> Address {
        Address::local(self.port)
    }

    fn launch(&self) -> io::Result<Server> {
        let socket = format!("unix_socket_directories={}", self.sockets.path().display());
        let settings: Vec<&str> = SETTINGS
            .into_iter()
            .chain([socket.as_str()])
            .chain(self.needs.settings.iter().map(String::as_str))
            .collect();
        match &self.product {
            TemporaryProduct::KilnDb(program) => process::start_program(program, &self.data(), self.port, &settings),
            TemporaryProduct::Postgres => crate::postgres::start(self.folder.path(), self.port, &settings),
        }
    }
    fn data(&self) -> PathBuf {
        match &self.product {
            TemporaryProduct::KilnDb(_) => self.folder.path().join("data"),
            TemporaryProduct::Postgres => crate::postgres::data_folder(self.folder.path()),
        }
    }

    /// None: it does not run.
    pub fn with_server<T>(&self, action: impl FnOnce(&Server) -> T) -> Option<T> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(action)
    }
    pub fn restart(&self) -> io::Result<()> {
        let mut server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.take().map_or(Ok(()), stop)?;
        *server = Some(self.launch()?);
        Ok(())
    }
    /// Ends it without a last checkpoint, and its folders go.
    pub fn take_away(&self) {
        self.with_server(Server::end_at_once);
        self.folder.remove();
        self.sockets.remove();
    }
    pub fn end(&self) -> io::Result<()> {
        self.server.lock().unwrap_or_else(PoisonError::into_inner).take().map_or(Ok(()), stop)?;
        match &self.product {
            TemporaryProduct::KilnDb(program) => process::check_program(program, &self.data()),
            TemporaryProduct::Postgres => Ok(()),
        }
    }
}

/// A server that stands still hears nothing.
fn stop(server: Server) -> io::Result<()> {
    server.go_on();
    match server.stop()? {
        status if status.success() => Ok(()),
        status => Err(io::Error::other(format!("it ended with {status}"))),
    }
}

/// This very program, if it is KilnDB's, so that the lab needs nothing beside it; else the one built beside it.
pub fn own_kilndb() -> io::Result<PathBuf> {
    let own = std::env::current_exe()?;
    if std::env::var_os("KILNDB").is_none() && own.file_name().is_some_and(|name| name == "kilndb") {
        return Ok(own);
    }
    process::kilndb_program()
}
