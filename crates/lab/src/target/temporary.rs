//! The lab's own servers, in temporary folders.
//!
//! 1. A server keeps its port, its sockets and its data when it is started again.
//! 2. Nobody waits for a server that is being started again but those that ask for it.
//!
//! Must not know: experiments.

use super::TemporaryProduct;
use crate::client::Address;
use crate::process::{self, Server, TempDir};
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What temporary servers are told: as many sessions as experiments have, and what is usual for the rest.
const SETTINGS: [&str; 4] = ["max_connections=10500", "shared_buffers=1GB", "max_wal_size=4GB", "autovacuum=on"];

pub(super) struct TemporaryServer {
    product: TemporaryProduct,
    port: u16,
    /// None: it has ended, or did not come back.
    server: Mutex<Option<Server>>,
    // After the server: fields are dropped in order.
    folder: TempDir,
    sockets: TempDir,
}

impl TemporaryServer {
    pub fn start(product: TemporaryProduct) -> io::Result<TemporaryServer> {
        let folder = TempDir::new("lab-server")?;
        let (sockets, port) = (TempDir::for_sockets()?, process::free_port()?);
        let server = TemporaryServer { product, port, server: Mutex::new(None), folder, sockets };
        let running = server.launch()?;
        *server.server.lock().unwrap_or_else(PoisonError::into_inner) = Some(running);
        Ok(server)
    }
    /// Where it is reached, before and after it has been started again.
    pub fn address(&self) -> Address {
        Address { host: self.sockets.path().display().to_string(), ..Address::local(self.port) }
    }

    fn launch(&self) -> io::Result<Server> {
        let socket = format!("unix_socket_directories={}", self.sockets.path().display());
        let settings: Vec<&str> = SETTINGS.into_iter().chain([socket.as_str()]).collect();
        match &self.product {
            TemporaryProduct::KilnDb(program) => process::start_program(program, &self.data(), self.port, &settings),
            TemporaryProduct::Postgres => crate::postgres::start(self.folder.path(), self.port, &settings),
        }
    }
    /// The data folder of a KilnDB.
    fn data(&self) -> PathBuf {
        self.folder.path().join("data")
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
