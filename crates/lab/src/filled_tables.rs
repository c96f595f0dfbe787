//! Tables that are made, filled by COPY, and given their keys and statistics, where a session creates tables.
//!
//! Must not know: what is in them.

use crate::client::Client;
use std::io::{self, Write};

/// What tables are like.
pub(crate) struct FilledTables<'t> {
    pub create: &'t str,
    /// Those that are referred to come first.
    pub names: &'t [&'t str],
    /// What follows COPY's FROM STDIN.
    pub copy_options: &'t str,
    /// Keys and indexes.
    pub keys: &'t str,
}

impl FilledTables<'_> {
    /// Makes them with the rows that `write` has for each.
    pub fn fill(
        &self,
        client: &mut Client,
        write: impl Fn(&str, &mut dyn Write) -> io::Result<()>,
    ) -> Result<(), String> {
        query(client, self.create)?;
        for table in self.names {
            let copy = format!("copy {table} from stdin {}", self.copy_options);
            client.copy_in(&copy, |out| write(table, out)).map_err(|e| format!("{copy}: {e}"))?;
        }
        query(client, self.keys)?;
        query(client, &format!("vacuum analyze {}", self.names.join(", ")))
    }
}

/// Runs a statement, and names it if it fails.
pub(crate) fn query(client: &mut Client, sql: &str) -> Result<(), String> {
    client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}"))
}
