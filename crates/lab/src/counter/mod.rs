//! Servers that speak no SQL of PostgreSQL's and can count all the same: what becomes of a counter that everybody moves there, beside an
//! experiment that asks for it. They are started if they are installed, and go with this value.
//!
//! 1. All of them are driven in one way: few threads, sockets that do not wait, each client one request at a time.
//! 2. What counts is what the counter has moved by, and it must be as many as there were replies.
//!
//! Must not know: experiments, and how results are shown.

mod load;
mod mariadb;
mod redis;

use crate::driver::LoadFigures;
use crate::process::{Server, TempDir};
use crate::target::ProcessUse;
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// What a server of another kind is, and how it counts.
pub(crate) trait CounterProduct: Sync {
    fn name(&self) -> &'static str;
    /// The program whose presence says that it is installed.
    fn program(&self) -> &'static str;
    /// Makes what it needs in `folder`. What starts it there, to listen at `socket`.
    fn prepare(&self, folder: &Path, socket: &Path, is_durable: bool) -> io::Result<Command>;
    /// Introduces itself on a new connection.
    fn log_in(&self, stream: &mut UnixStream) -> io::Result<()>;
    /// Makes a counter that stands at zero.
    fn set_up(&self, stream: &mut UnixStream) -> io::Result<()>;
    /// Prepares a connection that has logged in for moving the counter, and says what moves it by one.
    fn begin(&self, stream: &mut UnixStream) -> io::Result<Vec<u8>>;
    /// The bytes of the first whole reply. None: the rest has not come. Errors: it is a refusal.
    fn reply(&self, received: &[u8]) -> io::Result<Option<usize>>;
    fn value(&self, stream: &mut UnixStream) -> io::Result<u64>;
}

static PRODUCTS: [&dyn CounterProduct; 2] = [&redis::Redis, &mariadb::MariaDb];

/// What a server is given to answer.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that runs.
pub struct CounterServer {
    product: &'static dyn CounterProduct,
    /// What its program says of itself.
    pub version: String,
    server: Server,
    socket: PathBuf,
    // After the server: fields are dropped in order.
    _folder: TempDir,
}

impl CounterServer {
    /// Starts those that are installed. Errors are by name, of those that do not start.
    pub fn installed(is_durable: bool) -> Vec<(&'static str, Result<CounterServer, String>)> {
        let start = |product: &&'static dyn CounterProduct| {
            let version = version_of(product.program())?;
            let started = CounterServer::start(*product, version, is_durable).map_err(|e| e.to_string());
            Some((product.name(), started))
        };
        PRODUCTS.iter().filter_map(start).collect()
    }

    fn start(product: &'static dyn CounterProduct, version: String, is_durable: bool) -> io::Result<CounterServer> {
        let folder = TempDir::new("lab-counter")?;
        let socket = folder.path().join("socket");
        let command = product.prepare(folder.path(), &socket, is_durable)?;
        let is_ready = || connect(product, &socket).is_ok();
        let server = Server::start_until(command, &folder.path().join("log"), PATIENCE, is_ready)?;
        product.set_up(&mut connect(product, &socket)?)?;
        Ok(CounterServer { product, version, server, socket, _folder: folder })
    }

    pub fn name(&self) -> &'static str {
        self.product.name()
    }
    pub fn process_use(&self) -> ProcessUse {
        ProcessUse::of_tree(self.server.pid())
    }

    /// So many clients move the counter for so long. The figures, and by how much it has moved.
    pub fn run(&self, clients: usize, length: Duration) -> io::Result<(LoadFigures, u64)> {
        let mut admin = connect(self.product, &self.socket)?;
        let before = self.product.value(&mut admin)?;
        let figures = load::run(self.product, &self.socket, clients, length)?;
        let after = self.product.value(&mut admin)?;
        Ok((figures, after.wrapping_sub(before)))
    }
}

fn connect(product: &dyn CounterProduct, socket: &Path) -> io::Result<UnixStream> {
    let mut stream = UnixStream::connect(socket)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    product.log_in(&mut stream)?;
    Ok(stream)
}

/// What a program says of its version, in one line. None: it is not there.
fn version_of(program: &str) -> Option<String> {
    let output = command(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    output.status.success().then(|| text.lines().next().unwrap_or_default().trim().to_string())
}

/// Runs a program that may be in one of the folders of servers, which are not on everybody's search path.
fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("PATH", std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/usr/local/sbin");
    command
}

/// A whole reply of a connection that waits.
fn ask(product: &dyn CounterProduct, stream: &mut UnixStream, request: &[u8]) -> io::Result<Vec<u8>> {
    stream.write_all(request)?;
    let (mut received, mut buffer) = (Vec::new(), [0; 1024]);
    loop {
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            count => received.extend_from_slice(&buffer[..count]),
        }
        if product.reply(&received)?.is_some() {
            return Ok(received);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[ignore = "wants redis-server and mariadb-server: make test-pages"]
    fn what_the_counter_moves_by_are_the_replies() {
        for is_durable in [false, true] {
            let installed = CounterServer::installed(is_durable);
            assert_eq!(installed.iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["Redis", "MariaDB"]);
            for (name, server) in installed {
                let server = server.unwrap_or_else(|e| panic!("{name}: {e}"));
                for clients in [1, 8] {
                    let (figures, moved) = server.run(clients, Duration::from_millis(300)).expect("it counts");
                    assert!(moved > 0, "{name}");
                    assert_eq!((figures.transactions(), figures.failures()), (moved, 0), "{name}");
                }
            }
        }
    }
}
