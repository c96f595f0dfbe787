//! `pg_hba.conf`: which connections are let in, and how they prove who they are.
//!
//! Invariants
//! 1. The first rule that matches a connection decides; without one it is refused.
//! 2. Rules are taken over from a file only if all of its lines are right.

mod parse;

use crate::lines::{AuthFiles, TokenLine, read_lines};
use crate::names::{Membership, NameRule, Patterns};
use kilndb_base::{Error, Result, Severity, sqlstate};
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionKind {
    Local,
    Host,
    HostSsl,
    HostNoSsl,
    HostGssEnc,
    HostNoGssEnc,
}

impl ConnectionKind {
    pub fn name(self) -> &'static str {
        match self {
            ConnectionKind::Local => "local",
            ConnectionKind::Host => "host",
            ConnectionKind::HostSsl => "hostssl",
            ConnectionKind::HostNoSsl => "hostnossl",
            ConnectionKind::HostGssEnc => "hostgssenc",
            ConnectionKind::HostNoGssEnc => "hostnogssenc",
        }
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AddressRule {
    All,
    /// The client's address has this name, and the name that address; with a dot before it: a name that ends so.
    HostName(String),
    SameHost,
    SameNet,
    Network {
        address: IpAddr,
        mask: IpAddr,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Trust,
    Reject,
    ScramSha256,
    Md5,
    Password,
    Cert,
    Peer,
}

impl Method {
    pub fn name(self) -> &'static str {
        match self {
            Method::Trust => "trust",
            Method::Reject => "reject",
            Method::ScramSha256 => "scram-sha-256",
            Method::Md5 => "md5",
            Method::Password => "password",
            Method::Cert => "cert",
            Method::Peer => "peer",
        }
    }
    /// Whether a password decides.
    pub fn asks_password(self) -> bool {
        matches!(self, Method::ScramSha256 | Method::Md5 | Method::Password)
    }
}

/// What is asked of the client's certificate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ClientCertificate {
    /// Some authority that is trusted has signed it.
    VerifyCa,
    /// And it names the role, or what maps to it.
    VerifyFull,
}

/// Which name of the certificate that is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CertificateName {
    CommonName,
    DistinguishedName,
}

#[derive(Clone)]
pub struct HbaRule {
    pub file: PathBuf,
    pub line: u32,
    pub text: String,
    pub kind: ConnectionKind,
    pub databases: Vec<NameRule>,
    pub roles: Vec<NameRule>,
    /// None: through the Unix socket.
    pub address: Option<AddressRule>,
    pub method: Method,
    pub map: Option<String>,
    pub client_certificate: Option<ClientCertificate>,
    pub certificate_name: CertificateName,
}

/// A connection that asks to be let in.
pub struct ConnectionFacts<'a> {
    /// None: through the Unix socket.
    pub address: Option<IpAddr>,
    pub is_encrypted: bool,
    pub database: &'a str,
    pub role: &'a str,
}

/// What rules ask of the world.
pub trait RuleHost: Membership {
    /// The machine's own addresses with their networks' masks.
    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)>;
    /// The name that an address has, if that name has the address too. Errors: who asks has been cancelled.
    fn verified_name(&self, address: IpAddr) -> Result<Option<String>>;
}

/// Whether a host's name is the one of a rule, or ends as that says.
fn is_host_name(name: &str, wanted: &str) -> bool {
    match name.len().checked_sub(wanted.len()) {
        Some(before) if wanted.starts_with('.') => {
            before > 0 && name.get(before..).is_some_and(|end| end.eq_ignore_ascii_case(wanted))
        }
        _ => name.eq_ignore_ascii_case(wanted),
    }
}

impl HbaRule {
    fn matches(&self, facts: &ConnectionFacts<'_>, host: &dyn RuleHost) -> Result<bool> {
        Ok(self.matches_connection(facts)
            && self.matches_address(facts, host)?
            && self.matches_database(facts, host)?
            && any(&self.roles, |role| role.is_role(facts.role, host))?)
    }
    fn matches_connection(&self, facts: &ConnectionFacts<'_>) -> bool {
        match self.kind {
            ConnectionKind::Local => facts.address.is_none(),
            ConnectionKind::Host | ConnectionKind::HostNoGssEnc => facts.address.is_some(),
            ConnectionKind::HostSsl => facts.address.is_some() && facts.is_encrypted,
            ConnectionKind::HostNoSsl => facts.address.is_some() && !facts.is_encrypted,
            ConnectionKind::HostGssEnc => false,
        }
    }
    fn matches_address(&self, facts: &ConnectionFacts<'_>, host: &dyn RuleHost) -> Result<bool> {
        let (Some(rule), Some(address)) = (&self.address, facts.address) else { return Ok(true) };
        let of_host = |with_net: bool| {
            host.own_addresses()
                .into_iter()
                .any(|(own, mask)| if with_net { is_in_network(address, own, mask) } else { address == own })
        };
        Ok(match rule {
            AddressRule::All => true,
            AddressRule::SameHost => of_host(false),
            AddressRule::SameNet => of_host(true),
            AddressRule::Network { address: network, mask } => is_in_network(address, *network, *mask),
            AddressRule::HostName(wanted) => {
                host.verified_name(address)?.is_some_and(|name| is_host_name(&name, wanted))
            }
        })
    }
    fn matches_database(&self, facts: &ConnectionFacts<'_>, host: &dyn RuleHost) -> Result<bool> {
        any(&self.databases, |name| {
            let token = &name.token;
            if token.is_keyword("all") {
                Ok(true)
            } else if token.is_keyword("sameuser") {
                Ok(facts.database == facts.role)
            } else if token.is_keyword("samegroup") || token.is_keyword("samerole") {
                host.is_member(facts.role, facts.database)
            } else if token.is_keyword("replication") {
                // There is no replication.
                Ok(false)
            } else {
                name.is_name(facts.database)
            }
        })
    }

    /// Whether it lets in somebody who comes through the network from another machine.
    pub fn reaches_strangers(&self) -> bool {
        match &self.address {
            None | Some(AddressRule::SameHost) => false,
            Some(AddressRule::HostName(name)) if name.eq_ignore_ascii_case("localhost") => false,
            Some(AddressRule::All | AddressRule::SameNet | AddressRule::HostName(_)) => {
                self.kind != ConnectionKind::HostGssEnc
            }
            Some(AddressRule::Network { address, mask }) => {
                self.kind != ConnectionKind::HostGssEnc && !is_loopback_network(*address, *mask)
            }
        }
    }

    /// Options as pg_hba_file_rules shows them.
    pub fn options(&self) -> Vec<String> {
        let map = self.map.as_ref().map(|map| format!("map={map}"));
        let certificate = self.client_certificate.map(|asked| match asked {
            ClientCertificate::VerifyCa => "clientcert=verify-ca".to_string(),
            ClientCertificate::VerifyFull => "clientcert=verify-full".to_string(),
        });
        map.into_iter().chain(certificate).collect()
    }
}

fn any<T>(list: &[T], mut matches: impl FnMut(&T) -> Result<bool>) -> Result<bool> {
    for item in list {
        if matches(item)? {
            return Ok(true);
        }
    }
    Ok(false)
}

fn is_in_network(address: IpAddr, network: IpAddr, mask: IpAddr) -> bool {
    match (address, network, mask) {
        (IpAddr::V4(a), IpAddr::V4(n), IpAddr::V4(m)) => (a.to_bits() ^ n.to_bits()) & m.to_bits() == 0,
        (IpAddr::V6(a), IpAddr::V6(n), IpAddr::V6(m)) => (a.to_bits() ^ n.to_bits()) & m.to_bits() == 0,
        _ => false,
    }
}

fn is_loopback_network(network: IpAddr, mask: IpAddr) -> bool {
    match (network, mask) {
        (IpAddr::V4(n), IpAddr::V4(m)) => n.is_loopback() && m.to_bits() >> 24 == 0xff,
        (IpAddr::V6(n), IpAddr::V6(m)) => n.is_loopback() && m.to_bits() == u128::MAX,
        _ => false,
    }
}

/// What a file says line by line, right or wrong.
pub struct HbaLine {
    pub line: TokenLine,
    pub rule: Option<HbaRule>,
    /// What is wrong, or why the rule never matches.
    pub error: Option<LineError>,
}

/// Something wrong with a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LineError {
    pub message: String,
    pub hint: Option<&'static str>,
}

impl LineError {
    fn new(message: impl Into<String>) -> LineError {
        LineError { message: message.into(), hint: None }
    }
    /// As the log is told.
    pub fn told(&self, line: &TokenLine) -> Error {
        let place = format!("line {} of configuration file \"{}\"", line.number, line.file.display());
        let told = Error::notice(sqlstate::CONFIG_FILE_ERROR, Severity::Log, &self.message).with_context(place);
        match self.hint {
            Some(hint) => told.with_hint(hint),
            None => told,
        }
    }
}

/// What the lines are judged by.
pub struct ParseFacts<'a> {
    pub patterns: &'a dyn Patterns,
    /// `ssl` is on.
    pub has_tls: bool,
}

/// Err: the file itself cannot be read.
pub fn read_file(files: &dyn AuthFiles, path: &Path, facts: &ParseFacts<'_>) -> Result<Vec<HbaLine>, String> {
    let lines = read_lines(files, path)?;
    let judged = lines.into_iter().map(|line| {
        if let Some(message) = &line.error {
            let error = Some(LineError::new(message.clone()));
            return HbaLine { line, rule: None, error };
        }
        match parse::rule_of(&line, facts) {
            Ok((rule, error)) => HbaLine { line, rule: Some(rule), error },
            Err(error) => HbaLine { line, rule: None, error: Some(error) },
        }
    });
    Ok(judged.collect())
}

/// The rules that are in force.
#[derive(Clone, Default)]
pub struct HbaRules {
    pub rules: Vec<Arc<HbaRule>>,
}

impl HbaRules {
    /// Reads a file. The second result is what the log is to be told; without the first the file is not taken over.
    pub fn load(files: &dyn AuthFiles, path: &Path, facts: &ParseFacts<'_>) -> (Option<HbaRules>, Vec<Error>) {
        let log = |message: String| Error::notice(sqlstate::CONFIG_FILE_ERROR, Severity::Log, message);
        let lines = match read_file(files, path, facts) {
            Ok(lines) => lines,
            Err(message) => return (None, vec![log(message)]),
        };
        let mut told: Vec<Error> =
            lines.iter().filter_map(|l| l.error.as_ref().map(|error| error.told(&l.line))).collect();
        if lines.iter().any(|l| l.rule.is_none()) {
            return (None, told);
        }
        if lines.is_empty() {
            told.push(log(format!("configuration file \"{}\" contains no entries", path.display())));
            return (None, told);
        }
        (Some(HbaRules { rules: lines.into_iter().filter_map(|l| l.rule.map(Arc::new)).collect() }), told)
    }

    /// The rule that decides about a connection.
    pub fn find(&self, facts: &ConnectionFacts<'_>, host: &dyn RuleHost) -> Result<Option<&Arc<HbaRule>>> {
        for rule in &self.rules {
            if rule.matches(facts, host)? {
                return Ok(Some(rule));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
pub(crate) mod tests;
