//! The files of rules that a cluster begins with: `pg_hba.conf` and `pg_ident.conf`.
//!
//! A new cluster lets the operating system's user that owns it be any role through the Unix socket, and whoever is on the
//! machine through its loopback addresses; `kilndb init` writes what it is told instead.
//!
//! Must not know: how rules are read.

use crate::log::ServerLog;
use crate::machine;
use kilndb_base::env::{Env, OpenMode};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::Cluster;
use kilndb_context::authentication::{NONCE_FILE, hba_path, ident_path};
use kilndb_context::log::LogSink;
use std::io;
use std::path::Path;

/// The map of the default rule for the Unix socket.
const OWNER_MAP: &str = "owner";
const ROOT: &str = "root";

/// How connections of each kind prove who they are.
#[derive(Clone, Debug)]
pub struct RuleMethods {
    /// Through the Unix socket. None: the cluster's owner is known by the operating system.
    pub local: Option<String>,
    /// From the machine's loopback addresses.
    pub host: String,
}

/// Whether no cluster has been made in the folder yet.
pub fn is_new_cluster(env: &dyn Env, folder: &Path) -> Result<bool> {
    Ok(!env.exists(&folder.join("control")).map_err(|e| failed("control", &e))?)
}

fn failed(what: &str, e: &io::Error) -> Error {
    Error::new(sqlstate::IO_ERROR, format!("could not use \"{what}\": {e}"))
}

/// Writes the files if they are missing: for a new cluster, and for one of an earlier build, whose socket only its owner
/// and root could write to.
pub fn provide(env: &dyn Env, cluster: &Cluster, is_new: bool, log: &ServerLog) -> Result<()> {
    let settings = cluster.settings();
    let folder = &cluster.data_dir;
    let has_had_rules = env.exists(&folder.join(NONCE_FILE)).map_err(|e| failed(NONCE_FILE, &e))?;
    let hba = hba_path(&settings);
    let has_rules = env.exists(&hba).map_err(|e| failed("pg_hba.conf", &e))?;
    if has_had_rules || has_rules || settings.source("hba_file") != "override" {
        return Ok(());
    }
    let mut owners = vec![machine::own_user_name()];
    if !is_new && owners[0] != ROOT {
        owners.push(ROOT.to_string());
    }
    write_files(env, &hba, &ident_path(&settings), &RuleMethods { local: None, host: "trust".into() }, &owners)?;
    let message = format!(
        "enabling \"trust\" authentication for local connections: whoever is on this machine may be any role; {} says so",
        hba.display()
    );
    log.tell(Severity::Warning, &message);
    Ok(())
}

/// Writes both files.
pub fn write(env: &dyn Env, hba: &Path, ident: &Path, methods: &RuleMethods) -> Result<()> {
    write_files(env, hba, ident, methods, &[machine::own_user_name()])
}

/// `owners`: the operating system's users who may be any role.
fn write_files(env: &dyn Env, hba: &Path, ident: &Path, methods: &RuleMethods, owners: &[String]) -> Result<()> {
    write_file(env, ident, &ident_text(owners))?;
    write_file(env, hba, &hba_text(methods))
}

fn write_file(env: &dyn Env, path: &Path, text: &str) -> Result<()> {
    let written = env.open(path, OpenMode::Truncate).and_then(|file| {
        file.write_at(text.as_bytes(), 0)?;
        file.sync_data()
    });
    written.map_err(|e| failed(&path.display().to_string(), &e))
}

fn hba_text(methods: &RuleMethods) -> String {
    let local = methods.local.clone().unwrap_or(format!("peer map={OWNER_MAP}"));
    let host = &methods.host;
    format!(
        "# Who may connect, and how he proves who he is: the first line that matches decides, and without one the\n\
         # connection is refused. The syntax is that of PostgreSQL's pg_hba.conf. Changes count after SIGHUP or\n\
         # SELECT pg_reload_conf(); pg_hba_file_rules shows what is wrong with them.\n\
         #\n\
         # For other machines, write for instance (and let the server listen there):\n\
         # host    all             all             10.0.0.0/8              scram-sha-256\n\
         \n\
         # TYPE  DATABASE        USER            ADDRESS                 METHOD\n\
         local   all             all                                     {local}\n\
         host    all             all             127.0.0.1/32            {host}\n\
         host    all             all             ::1/128                 {host}\n"
    )
}

fn ident_text(owners: &[String]) -> String {
    let mut text = String::from(
        "# Which roles somebody may be whom the operating system (peer) or his certificate (cert) names. The syntax is\n\
         # that of PostgreSQL's pg_ident.conf; pg_ident_file_mappings shows what is wrong with changes.\n\
         \n\
         # MAPNAME       SYSTEM-USERNAME         DATABASE-USERNAME\n",
    );
    for owner in owners {
        let is_plain = owner.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        let owner = if is_plain { owner.clone() } else { format!("\"{}\"", owner.replace('"', "\"\"")) };
        text += &format!("{OWNER_MAP:<15} {owner:<23} all\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_rules_are_right() {
        let text = hba_text(&RuleMethods { local: None, host: "trust".into() });
        assert!(text.contains("peer map=owner\n") && text.contains("127.0.0.1/32            trust\n"), "{text}");
        let text = ident_text(&["o'neil".into(), "root".into()]);
        assert!(
            text.contains("\"o'neil\"") && text.ends_with("owner           root                    all\n"),
            "{text}"
        );
    }
}
