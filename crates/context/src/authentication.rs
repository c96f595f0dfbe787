//! Who may connect, and how he proves who he is: the rules of `pg_hba.conf` and `pg_ident.conf` that are in force.
//!
//! Invariants
//! 1. Rules are taken over from files that are right as a whole; else those before stay in force.
//! 2. While the server listens for other machines, no rule that is in force lets somebody from there in unasked.
//!
//! Must not know: messages, sockets, how somebody proves something (`kilndb_auth` does).

use crate::log::{LogRecord, LogSink, Verbosity};
use crate::settings::ServerSettings;
use kilndb_auth::hba::{HbaRule, HbaRules, Method, ParseFacts};
use kilndb_auth::ident::IdentMaps;
use kilndb_auth::lines::AuthFiles;
use kilndb_auth::names::{Pattern, Patterns};
use kilndb_base::env::{Env, OpenMode};
use kilndb_base::sync::{Arc, RwLock};
use kilndb_base::{Error, Result, Severity, sqlstate};
use std::io;
use std::net::IpAddr;
use std::path::{Path, PathBuf};

/// What the answers to roles that do not exist are made from; it stays the same as long as the cluster.
pub const NONCE_FILE: &str = "authentication.nonce";

/// What a connection is judged by.
pub struct ConnectionRules {
    pub hba: HbaRules,
    pub ident: IdentMaps,
    pub mock_nonce: [u8; 32],
}

/// None as long as nobody has asked for rules: sessions of the server's own are not let in by any.
#[derive(Default)]
pub struct Authentication {
    rules: RwLock<Option<Arc<ConnectionRules>>>,
}

/// The files, by way of the environment.
pub struct RuleFiles<'a>(pub &'a dyn Env);

impl AuthFiles for RuleFiles<'_> {
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.0.open(path, OpenMode::ReadOnly)?;
        let mut bytes = vec![0; file.len()? as usize];
        let filled = file.read_at(&mut bytes, 0)?;
        bytes.truncate(filled);
        Ok(bytes)
    }
    fn list(&self, folder: &Path) -> io::Result<Vec<PathBuf>> {
        self.0.list_dir(folder)
    }
}

/// PostgreSQL's regular expressions.
pub struct RulePatterns;
struct RulePattern(kilndb_types::pattern::Pattern);

impl Pattern for RulePattern {
    fn find(&self, text: &str) -> Result<Option<Option<String>>> {
        self.0.first_group(text)
    }
}
impl Patterns for RulePatterns {
    fn compile(&self, text: &str) -> std::result::Result<std::sync::Arc<dyn Pattern>, String> {
        match kilndb_types::pattern::Pattern::compile(text) {
            Ok(pattern) => Ok(std::sync::Arc::new(RulePattern(pattern))),
            Err(e) => Err(e.message().trim_start_matches("invalid regular expression: ").to_string()),
        }
    }
}

/// What lines are judged by under these settings.
pub fn parse_facts(settings: &ServerSettings) -> ParseFacts<'static> {
    ParseFacts { patterns: &RulePatterns, has_tls: settings.flag("ssl") }
}

pub fn hba_path(settings: &ServerSettings) -> PathBuf {
    PathBuf::from(settings.get("hba_file"))
}
pub fn ident_path(settings: &ServerSettings) -> PathBuf {
    PathBuf::from(settings.get("ident_file"))
}

fn tell(log: &dyn LogSink, e: &Error) {
    log.write(&LogRecord { fields: &e.0, statement: None, verbosity: Verbosity::Default, session: None });
}

impl Authentication {
    pub fn rules(&self) -> Option<Arc<ConnectionRules>> {
        self.rules.read().unwrap_or_else(|e| e.into_inner()).clone()
    }
    fn take_over(&self, rules: ConnectionRules) {
        *self.rules.write().unwrap_or_else(|e| e.into_inner()) = Some(Arc::new(rules));
    }

    /// Reads the files when the server starts, which it does not without rules.
    pub fn start(&self, env: &dyn Env, folder: &Path, settings: &ServerSettings, log: &dyn LogSink) -> Result<()> {
        let mock_nonce = mock_nonce(env, folder)?;
        let hba = load_hba(env, settings, log)?.ok_or_else(|| {
            let message = format!("could not load {}", hba_path(settings).display());
            Error::new(sqlstate::CONFIG_FILE_ERROR, message).with_severity(Severity::Fatal)
        })?;
        // Without maps only those cannot log in who need one.
        let ident = load_ident(env, settings, log).unwrap_or_default();
        self.take_over(ConnectionRules { hba, ident, mock_nonce });
        Ok(())
    }

    /// As [`Authentication::start`] after a crash of a server that had rules which are lost: if the files are not right by
    /// now, the server starts all the same, and lets nobody in until they are and are read again.
    pub fn start_again(
        &self,
        env: &dyn Env,
        folder: &Path,
        settings: &ServerSettings,
        log: &dyn LogSink,
    ) -> Result<()> {
        let Err(e) = self.start(env, folder, settings, log) else { return Ok(()) };
        tell(log, &e.with_severity(Severity::Log));
        log.tell(Severity::Warning, "nobody is let in until the rules of authentication are right and are read again");
        let mock_nonce = mock_nonce(env, folder)?;
        self.take_over(ConnectionRules { hba: HbaRules::default(), ident: IdentMaps::default(), mock_nonce });
        Ok(())
    }

    /// Reads the files again; what is not right is told, and stays as it was.
    pub fn reload(&self, env: &dyn Env, settings: &ServerSettings, log: &dyn LogSink) {
        let Some(before) = self.rules() else { return };
        let not_reloaded = |path: PathBuf| {
            log.tell(Severity::Log, &format!("{} was not reloaded", path.display()));
        };
        let hba = load_hba(env, settings, log).unwrap_or_else(|e| {
            tell(log, &e.with_severity(Severity::Log));
            None
        });
        let ident = load_ident(env, settings, log);
        if hba.is_none() {
            not_reloaded(hba_path(settings));
        }
        if ident.is_none() {
            not_reloaded(ident_path(settings));
        }
        self.take_over(ConnectionRules {
            hba: hba.unwrap_or_else(|| before.hba.clone()),
            ident: ident.unwrap_or_else(|| before.ident.clone()),
            mock_nonce: before.mock_nonce,
        });
    }
}

/// None: the file is not right, which the log has been told. Err: it is, and nobody may listen with it.
fn load_hba(env: &dyn Env, settings: &ServerSettings, log: &dyn LogSink) -> Result<Option<HbaRules>> {
    let (rules, told) = HbaRules::load(&RuleFiles(env), &hba_path(settings), &parse_facts(settings));
    told.iter().for_each(|e| tell(log, e));
    rules.map(|rules| refuse_trusted_strangers(settings, &rules).map(|()| rules)).transpose()
}

fn load_ident(env: &dyn Env, settings: &ServerSettings, log: &dyn LogSink) -> Option<IdentMaps> {
    let (maps, told) = IdentMaps::load(&RuleFiles(env), &ident_path(settings), &parse_facts(settings));
    told.iter().for_each(|e| tell(log, e));
    maps
}

/// Whether only this machine reaches the address.
fn is_loopback(address: &str) -> bool {
    address == "localhost" || address.parse::<IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback())
}

/// Invariant 2.
fn refuse_trusted_strangers(settings: &ServerSettings, rules: &HbaRules) -> Result<()> {
    let Some(address) = settings.listen_addresses().into_iter().find(|address| !is_loopback(address)) else {
        return Ok(());
    };
    let is_trusting = |rule: &&Arc<HbaRule>| rule.method == Method::Trust && rule.reaches_strangers();
    let Some(rule) = rules.rules.iter().find(is_trusting) else { return Ok(()) };
    let message = format!(
        "cannot listen on \"{address}\" while line {} of configuration file \"{}\" trusts whoever connects from other \
         machines",
        rule.line,
        rule.file.display()
    );
    Err(Error::new(sqlstate::CONFIG_FILE_ERROR, message).with_hint(
        "Write \"scram-sha-256\" in place of \"trust\" in that line and give the roles passwords, or listen on 127.0.0.1 alone.",
    ))
}

/// The cluster's secret for the salts of roles that do not exist; it is drawn when it is asked for first.
fn mock_nonce(env: &dyn Env, folder: &Path) -> Result<[u8; 32]> {
    let path = folder.join(NONCE_FILE);
    let failed = |e: io::Error| Error::new(sqlstate::IO_ERROR, format!("could not use \"{}\": {e}", path.display()));
    let file = env.open(&path, OpenMode::Create).map_err(failed)?;
    let mut nonce = [0; 32];
    if file.read_at(&mut nonce, 0).map_err(failed)? < nonce.len() {
        env.random_bytes(&mut nonce);
        file.write_at(&nonce, 0).map_err(failed)?;
        file.sync_data().map_err(failed)?;
        env.sync_dir(folder).map_err(failed)?;
    }
    Ok(nonce)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loopback_addresses() {
        for address in ["127.0.0.1", "::1", "localhost", "127.3.2.1"] {
            assert!(is_loopback(address), "{address}");
        }
        for address in ["*", "0.0.0.0", "::", "10.0.0.1", "example.org", ""] {
            assert!(!is_loopback(address), "{address}");
        }
    }
}
