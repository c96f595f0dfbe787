//! Tests of statements made at random: KilnDB, with a PostgreSQL or another build beside it if there is to be one, and the
//! seeds to try.

use crate::client::Client;
use crate::postgres;
use crate::process::{self, Server, TempDir};
use std::ops::Range;
use std::path::Path;

/// A number from the environment. Panics if what is there is none.
pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |n| n.parse().unwrap_or_else(|_| panic!("{name} is no number: {n}")))
}

/// The seeds that `KILNDB_SEED` and `KILNDB_SEEDS` say: so many from 1 on, unless they do.
pub fn seeds(count: u64) -> Range<u64> {
    let first = number("KILNDB_SEED", 1);
    first..first + number("KILNDB_SEEDS", count)
}

/// What KilnDB is compared with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum ComparedServer {
    /// If `KILNDB_DIFFERENTIAL` is set.
    Postgres,
    /// The build of KilnDB whose program `KILNDB_BEFORE` names.
    Build,
}

/// KilnDB, and what it is compared with if there is to be one, each in a folder of its own.
pub struct BothServers {
    kilndb: Server,
    other: Option<(ComparedServer, Server)>,
    _folders: [TempDir; 2],
}

impl BothServers {
    /// Panics if a server does not start.
    pub fn start(name: &str) -> BothServers {
        let folders = [name.to_string(), format!("{name}-other")].map(|name| TempDir::new(&name).expect("a folder"));
        let free_port = || process::free_port().expect("a free port");
        let kilndb = process::start_kilndb(&folders[0].path().join("data"), free_port(), &[]).expect("KilnDB");
        let other = if let Some(program) = std::env::var_os("KILNDB_BEFORE") {
            let data = folders[1].path().join("data");
            let build = process::start_program(Path::new(&program), &data, free_port(), &[]).expect("the build before");
            Some((ComparedServer::Build, build))
        } else if std::env::var_os("KILNDB_DIFFERENTIAL").is_some() {
            let postgres = postgres::start(folders[1].path(), free_port(), &[]).expect("PostgreSQL");
            Some((ComparedServer::Postgres, postgres))
        } else {
            None
        };
        BothServers { kilndb, other, _folders: folders }
    }
    pub fn compared(&self) -> Option<ComparedServer> {
        self.other.as_ref().map(|(compared, _)| *compared)
    }
    /// A connection to each, which `prepare` has been at work with.
    pub fn connect(&self, prepare: impl Fn(&mut Client)) -> (Client, Option<Client>) {
        let connect = |server: &Server| {
            let mut client = Client::connect(server.address(), "postgres").expect("a connection");
            prepare(&mut client);
            client
        };
        (connect(&self.kilndb), self.other.as_ref().map(|(_, server)| connect(server)))
    }
    /// Ends both. Panics if KilnDB's end is not an orderly one.
    pub fn stop(self) {
        drop(self.other);
        self.kilndb.stop().expect("an orderly end");
    }
}
