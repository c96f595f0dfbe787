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

/// KilnDB, and what it is compared with, each in a folder of its own: PostgreSQL if `KILNDB_DIFFERENTIAL` is set, the build of
/// KilnDB whose program `KILNDB_BEFORE` names.
pub struct BothServers {
    kilndb: Server,
    postgres: Option<Server>,
    before: Option<Server>,
    _folders: [TempDir; 3],
}

/// A connection to each.
pub struct BothClients {
    pub kilndb: Client,
    pub postgres: Option<Client>,
    pub before: Option<Client>,
}

impl BothServers {
    /// Panics if a server does not start.
    pub fn start(name: &str) -> BothServers {
        let folders =
            ["", "-postgres", "-before"].map(|kind| TempDir::new(&format!("{name}{kind}")).expect("a folder"));
        let free_port = || process::free_port().expect("a free port");
        let kilndb = process::start_kilndb(&folders[0].path().join("data"), free_port(), &[]).expect("KilnDB");
        let is_compared = std::env::var_os("KILNDB_DIFFERENTIAL").is_some();
        let postgres = is_compared.then(|| postgres::start(folders[1].path(), free_port(), &[]).expect("PostgreSQL"));
        let before = std::env::var_os("KILNDB_BEFORE").map(|program| {
            let data = folders[2].path().join("data");
            process::start_program(Path::new(&program), &data, free_port(), &[]).expect("the build before")
        });
        BothServers { kilndb, postgres, before, _folders: folders }
    }
    /// A connection to each, which `prepare` has been at work with.
    pub fn connect(&self, prepare: impl Fn(&mut Client)) -> BothClients {
        let connect = |server: &Server| {
            let mut client = Client::connect(server.address(), "postgres").expect("a connection");
            prepare(&mut client);
            client
        };
        BothClients {
            kilndb: connect(&self.kilndb),
            postgres: self.postgres.as_ref().map(connect),
            before: self.before.as_ref().map(connect),
        }
    }
    /// Ends all. Panics if KilnDB's end is not an orderly one.
    pub fn stop(self) {
        drop((self.postgres, self.before));
        self.kilndb.stop().expect("an orderly end");
    }
}
