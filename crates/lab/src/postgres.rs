//! PostgreSQL, to compare with: where its programs are, and a server of it in a temporary folder.
//!
//! Only version 18 or later will do: it is what KilnDB says it is, its pg_dump refuses servers newer than itself, and
//! figures held against an older one say nothing. Debian 12 has 15, so scripts/setup.sh fetches one.

use crate::client::Address;
use crate::process::Server;
use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The oldest major version that will do.
pub const MAJOR: u32 = 18;

/// A program of PostgreSQL 18 or later: in `PGBIN` if the environment has that, else what scripts/setup.sh has fetched,
/// of Debian's packages, or on the search path. The error names what there is instead.
pub fn program(name: &str) -> io::Result<PathBuf> {
    // Asking a program for its version starts it, and a benchmark asks hundreds of times.
    static FOUND: Mutex<BTreeMap<String, PathBuf>> = Mutex::new(BTreeMap::new());
    let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(path) = found.get(name) {
        return Ok(path.clone());
    }
    let path = find(name, &folders())?;
    found.insert(name.to_string(), path.clone());
    Ok(path)
}

/// The first folder's program that is new enough.
fn find(name: &str, folders: &[PathBuf]) -> io::Result<PathBuf> {
    let mut older = Vec::new();
    for path in folders.iter().map(|folder| folder.join(name)) {
        match version_of(&path) {
            Some(version) if version >= MAJOR => return Ok(path),
            Some(version) => older.push(format!("{} is of PostgreSQL {version}", path.display())),
            None => {}
        }
    }
    let instead = if older.is_empty() { String::new() } else { format!(" ({})", older.join(", ")) };
    Err(io::Error::other(format!(
        "no {name} of PostgreSQL {MAJOR} or later{instead}: run scripts/setup.sh test postgres, or name a folder in PGBIN"
    )))
}

/// Where programs of PostgreSQL may be, the ones to be preferred first.
fn folders() -> Vec<PathBuf> {
    if let Some(folder) = std::env::var_os("PGBIN") {
        return vec![folder.into()];
    }
    let fetched = tools_folder().map(|folder| folder.join("postgres-18/bin"));
    let packages =
        std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten().map(|f| f.path().join("bin"));
    let path = std::env::var_os("PATH").unwrap_or_default();
    fetched.into_iter().chain(packages).chain(std::env::split_paths(&path)).collect()
}

/// A Python with psycopg, whose libpq speaks TLS; that of psql is one without.
pub fn python_with_psycopg() -> io::Result<PathBuf> {
    let path = tools_folder().map(|folder| folder.join("python/bin/python"));
    path.filter(|path| path.is_file())
        .ok_or_else(|| io::Error::other("there is no Python with psycopg: run scripts/setup.sh test"))
}

/// Where scripts/setup.sh puts what it fetches: the rule is that of scripts/tools-folder.sh.
fn tools_folder() -> Option<PathBuf> {
    if let Some(folder) = std::env::var_os("KILNDB_TOOLS").filter(|folder| !folder.is_empty()) {
        return Some(folder.into());
    }
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } == 0 {
        return Some("/var/cache/kilndb".into());
    }
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let cache = cache.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cache")));
    cache.map(|folder| folder.join("kilndb"))
}

/// The major version that a program tells: `pg_dump (PostgreSQL) 18.1`.
fn version_of(program: &Path) -> Option<u32> {
    let output = Command::new(program).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let digits: String = text.split("(PostgreSQL) ").nth(1)?.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

/// Where the cluster of a folder has its files.
pub fn data_folder(folder: &Path) -> PathBuf {
    folder.join("pg")
}

/// Creates a PostgreSQL cluster in `folder` unless it has one, and starts it, as another user when this one is root.
pub fn start(folder: &Path, port: u16, settings: &[&str]) -> io::Result<Server> {
    let data = data_folder(folder);
    let user = unprivileged_user()?;
    if let Some((uid, gid)) = user {
        std::os::unix::fs::chown(folder, Some(uid), Some(gid))?;
    }
    let as_user = |name: &str| {
        let mut command = Command::new(program(name)?);
        if let Some((uid, gid)) = user {
            command.uid(uid).gid(gid);
        }
        command.current_dir(folder);
        Ok::<_, io::Error>(command)
    };
    if !data.join("PG_VERSION").exists() {
        let made = as_user("initdb")?
            .args(["-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C.UTF-8", "-D"])
            .arg(&data)
            .output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("initdb: {}", String::from_utf8_lossy(&made.stderr))));
        }
    }
    let mut command = as_user("postgres")?;
    command.arg("-D").arg(&data).args(["-h", "127.0.0.1", "-p", &port.to_string(), "-k", ""]);
    for setting in settings {
        command.args(["-c", setting]);
    }
    Server::start(command, Address::local(port), &folder.join("postgres.log"), Duration::from_secs(60))
}

/// PostgreSQL refuses to run as root: the user `postgres`, else `nobody`.
fn unprivileged_user() -> io::Result<Option<(u32, u32)>> {
    // SAFETY: no arguments, cannot fail.
    if unsafe { libc::geteuid() } != 0 {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    for name in ["postgres", "nobody"] {
        for line in users.lines() {
            let fields: Vec<&str> = line.split(':').collect();
            if let [user, _, uid, gid, ..] = fields[..]
                && user == name
                && let (Ok(uid), Ok(gid)) = (uid.parse(), gid.parse())
            {
                return Ok(Some((uid, gid)));
            }
        }
    }
    Err(io::Error::other("no user to run PostgreSQL as"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TempDir;
    use std::os::unix::fs::PermissionsExt;

    /// A program that says what `psql --version` would say.
    fn psql(folder: &Path, version: &str) -> PathBuf {
        std::fs::create_dir_all(folder).expect("a folder");
        let path = folder.join("psql");
        std::fs::write(&path, format!("#!/bin/sh\necho 'psql (PostgreSQL) {version}'\n")).expect("a script");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("a mode");
        path
    }

    #[test]
    fn an_older_version_is_refused_and_named() {
        let temp = TempDir::new("postgres-versions").expect("a temporary folder");
        let (old, new) = (temp.path().join("old"), temp.path().join("new"));
        let (old_psql, new_psql) = (psql(&old, "15.20 (Debian 15.20-0)"), psql(&new, "19devel"));
        assert_eq!(find("psql", &[old.clone(), new]).ok(), Some(new_psql));
        let error = find("psql", &[old]).expect_err("15 is too old").to_string();
        assert!(error.contains(&format!("{} is of PostgreSQL 15", old_psql.display())), "{error}");
        let error = find("psql", &[]).expect_err("there is none").to_string();
        assert!(error.starts_with("no psql of PostgreSQL 18 or later: run"), "{error}");
    }
}
