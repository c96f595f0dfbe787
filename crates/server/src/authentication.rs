//! A client proves who he is: which rule he meets, and the messages between the startup packet and the session.
//!
//! Invariants
//! 1. No stack is held between two messages: what is known so far is a [`Login`].
//! 2. What the client is told of a failure is the same whether the role exists or not; the reason is for the log.
//! 3. Nobody becomes a session before [`Answer::LetIn`].
//!
//! Must not know: what a session is.

use crate::machine;
use crate::runtime::CoroutineRuntime;
use crate::shared::ServerShared;
use kilndb_auth::hba::{CertificateName, ClientCertificate, ConnectionFacts, HbaRule, Method, RuleHost};
use kilndb_auth::names::Membership;
use kilndb_auth::password::{self, PasswordKind, PasswordMethod};
use kilndb_auth::scram::{self, ExchangeFacts, ScramExchange, ScramStep};
use kilndb_base::sync::Arc;
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::{Error, Result, Severity, sqlstate, work};
use kilndb_context::Cluster;
use kilndb_context::authentication::ConnectionRules;
use kilndb_sql::session::StartupOptions;
use kilndb_types::Datum;
use kilndb_wire::frontend;
use std::cell::OnceCell;
use std::net::IpAddr;

/// Microseconds from 1970 to 2000.
const POSTGRES_EPOCH_MICROS: i64 = 946_684_800_000_000;

/// What the connection itself says of the client.
pub struct PeerFacts {
    /// None: through the Unix socket.
    pub address: Option<IpAddr>,
    /// The user of the operating system at the other end of the Unix socket.
    pub user_id: Option<u32>,
    /// None: not encrypted.
    pub tls: Option<PeerTls>,
}

/// What encryption has proved.
pub struct PeerTls {
    /// `tls-server-end-point`.
    pub channel_binding: Option<Vec<u8>>,
    /// None: the client has shown no certificate.
    pub certificate: Option<PeerCertificate>,
}

/// Of a certificate that was verified.
pub struct PeerCertificate {
    pub common_name: Option<String>,
    pub distinguished_name: String,
}

/// What the connection says of its client.
fn peer_of(runtime: &CoroutineRuntime) -> PeerFacts {
    let tls = runtime.control.tls().map(|facts| PeerTls {
        channel_binding: facts.server_certificate_hash.as_deref().map(<[u8]>::to_vec),
        certificate: facts.client.as_ref().map(|client| PeerCertificate {
            common_name: client.common_name.clone(),
            distinguished_name: client.distinguished_name.clone(),
        }),
    });
    let activity = runtime.control.activity.lock().unwrap_or_else(|e| e.into_inner());
    let address = activity.client_addr.as_deref().and_then(|text| text.parse::<IpAddr>().ok());
    PeerFacts { address: address.map(|ip| ip.to_canonical()), user_id: runtime.link.peer_user_id.get(), tls }
}

/// The client's address; None through the Unix socket.
pub fn address_of(runtime: &CoroutineRuntime) -> Option<IpAddr> {
    peer_of(runtime).address
}

/// Why somebody is not let in.
pub struct Refusal {
    pub error: Error,
    /// For the log alone.
    pub log_detail: Option<String>,
    /// It was a password that was wrong.
    pub is_guess: bool,
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal { error, log_detail: None, is_guess: false }
    }
}

type Outcome<T> = std::result::Result<T, Refusal>;

/// What follows upon a message of the client's.
pub enum Answer {
    /// He has been asked something.
    Asked,
    LetIn,
}

/// Somebody who is being asked who he is.
pub struct Login {
    pub options: StartupOptions,
    /// Of the protocol.
    pub minor: u16,
    pub peer: PeerFacts,
    rules: Arc<ConnectionRules>,
    rule: Arc<HbaRule>,
    exchange: Exchange,
    /// The role's verifier, or why there is none.
    known: std::result::Result<String, String>,
    /// For the log: who he has proved to be, which need not be the role.
    pub identity: Option<String>,
}

enum Exchange {
    Nothing,
    Password,
    Md5([u8; 4]),
    /// The client chooses a mechanism.
    Mechanism,
    Scram(Box<ScramExchange>),
}

/// What rules ask.
struct ServerRuleHost<'a> {
    cluster: &'a Cluster,
    /// Asked for once, however many rules want it.
    name: OnceCell<Option<String>>,
}

impl Membership for ServerRuleHost<'_> {
    fn is_member(&self, role: &str, of: &str) -> Result<bool> {
        self.cluster.is_member(role, of)
    }
}
impl RuleHost for ServerRuleHost<'_> {
    fn own_addresses(&self) -> Vec<(IpAddr, IpAddr)> {
        machine::own_addresses()
    }
    fn verified_name(&self, address: IpAddr) -> Result<Option<String>> {
        if let Some(known) = self.name.get() {
            return Ok(known.clone());
        }
        // A server of names may let one wait: nobody else waits meanwhile.
        let found = work::apart(|| machine::verified_host_name(address))?;
        Ok(self.name.get_or_init(|| found).clone())
    }
}

/// Looks for the rule, and asks what it wants to know.
pub fn begin(
    options: StartupOptions,
    minor: u16,
    runtime: &CoroutineRuntime,
    shared: &ServerShared,
) -> Outcome<(Login, Answer)> {
    let cluster = &*shared.instance.cluster;
    let peer = peer_of(runtime);
    let rules = cluster.authentication.rules().ok_or_else(|| Error::internal("there are no rules yet"))?;
    let facts = ConnectionFacts {
        address: peer.address,
        is_encrypted: peer.tls.is_some(),
        database: &options.database,
        role: &options.user,
    };
    let host = ServerRuleHost { cluster, name: OnceCell::new() };
    let rule = match in_time(runtime, || rules.hba.find(&facts, &host))? {
        Some(rule) if rule.method == Method::Reject => return Err(rejected("pg_hba.conf rejects connection", &facts)),
        Some(rule) => rule.clone(),
        None => return Err(rejected("no pg_hba.conf entry", &facts)),
    };
    if rule.client_certificate.is_some() {
        check_certificate_is_there(&peer, cluster)?;
    }
    let known = if rule.method.asks_password() { known_password(cluster, &options.user)? } else { Err(String::new()) };
    let mut login = Login { options, minor, peer, rules, rule, exchange: Exchange::Nothing, known, identity: None };
    let answer = login.ask(runtime, shared)?;
    Ok((login, answer))
}

/// The client's address as messages have it.
fn shown_address(address: Option<IpAddr>) -> String {
    address.map_or("[local]".to_string(), |ip| ip.to_string())
}

fn rejected(what: &str, facts: &ConnectionFacts<'_>) -> Refusal {
    let encryption = if facts.is_encrypted { "SSL encryption" } else { "no encryption" };
    let message = format!(
        "{what} for host \"{}\", user \"{}\", database \"{}\", {encryption}",
        shown_address(facts.address),
        facts.role,
        facts.database
    );
    Error::new(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, message).into()
}

fn check_certificate_is_there(peer: &PeerFacts, cluster: &Cluster) -> Result<()> {
    if cluster.settings().get("ssl_ca_file").is_empty() {
        let message = "client certificates can only be checked if a root certificate store is available";
        return Err(Error::new(sqlstate::CONFIG_FILE_ERROR, message));
    }
    if peer.tls.as_ref().is_some_and(|tls| tls.certificate.is_some()) {
        return Ok(());
    }
    let message = "connection requires a valid client certificate";
    Err(Error::new(sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, message))
}

/// What a role's password is kept as. The inner Err says why it has none that would do.
fn known_password(cluster: &Cluster, name: &str) -> Result<std::result::Result<String, String>> {
    let Some(role) = cluster.role_row(name)? else {
        return Ok(Err(format!("Role \"{name}\" does not exist.")));
    };
    let Some(verifier) = role.text("rolpassword") else {
        return Ok(Err(format!("User \"{name}\" has no password assigned.")));
    };
    let now = cluster.env.unix_micros() - POSTGRES_EPOCH_MICROS;
    match role.get("rolvaliduntil") {
        Datum::TimestampTz(until) if *until < now => Ok(Err(format!("User \"{name}\" has an expired password."))),
        _ => Ok(Ok(verifier.to_string())),
    }
}

/// Runs `derive`, which may take long, within the time that authentication may take.
fn in_time<T>(runtime: &CoroutineRuntime, derive: impl FnOnce() -> Result<T>) -> Result<T> {
    let control = &runtime.control;
    let limit = control.idle_deadline_nanos.load(Ordering::Relaxed);
    control.statement_deadline_nanos.store(limit, Ordering::Relaxed);
    let done = derive();
    control.statement_deadline_nanos.store(0, Ordering::Relaxed);
    done.map_err(|e| if e.sqlstate() == sqlstate::QUERY_CANCELED { timed_out() } else { e })
}

/// Nobody has proved anything within `authentication_timeout`.
pub fn timed_out() -> Error {
    Error::new(sqlstate::QUERY_CANCELED, "canceling authentication due to timeout").with_severity(Severity::Fatal)
}

impl Login {
    pub fn rule(&self) -> &HbaRule {
        &self.rule
    }
    fn role(&self) -> &str {
        &self.options.user
    }

    fn ask(&mut self, runtime: &CoroutineRuntime, shared: &ServerShared) -> Outcome<Answer> {
        match self.rule.method {
            Method::Trust | Method::Cert => return self.pass(shared),
            Method::Reject => return Err(self.failed(None)),
            Method::Peer => {
                self.check_peer(runtime, shared)?;
                return self.pass(shared);
            }
            Method::Password => {
                runtime.link.output.borrow_mut().authentication_cleartext_password();
                self.exchange = Exchange::Password;
            }
            Method::Md5 if self.would_have_md5(shared) => {
                let mut challenge = [0; 4];
                shared.env.random_bytes(&mut challenge);
                runtime.link.output.borrow_mut().authentication_md5_password(challenge);
                self.exchange = Exchange::Md5(challenge);
            }
            Method::Md5 | Method::ScramSha256 => {
                let mechanisms = scram::mechanisms(self.channel_binding().is_some());
                runtime.link.output.borrow_mut().authentication_sasl(mechanisms);
                self.exchange = Exchange::Mechanism;
            }
        }
        runtime.link.is_urgent.set(true);
        Ok(Answer::Asked)
    }

    /// Whether the role's password is kept as MD5; a role without one is taken for one that was given it lately.
    fn would_have_md5(&self, shared: &ServerShared) -> bool {
        match &self.known {
            Ok(verifier) => password::classify(verifier) == PasswordKind::Md5,
            Err(_) => {
                let setting = shared.instance.cluster.settings();
                PasswordMethod::of_setting(setting.get("password_encryption")) == Some(PasswordMethod::Md5)
            }
        }
    }

    fn channel_binding(&self) -> Option<&[u8]> {
        self.peer.tls.as_ref()?.channel_binding.as_deref()
    }

    /// `message`: a whole one, with its kind.
    pub fn answer(&mut self, message: &[u8], runtime: &CoroutineRuntime, shared: &ServerShared) -> Outcome<Answer> {
        let (kind, body) = (message.first().copied().unwrap_or(0), message.get(5..).unwrap_or_default());
        if kind != b'p' {
            let what = if matches!(self.exchange, Exchange::Password | Exchange::Md5(_)) { "password" } else { "SASL" };
            let message = format!("expected {what} response, got message type {kind}");
            return Err(Error::new(sqlstate::PROTOCOL_VIOLATION, message).into());
        }
        match std::mem::replace(&mut self.exchange, Exchange::Nothing) {
            Exchange::Nothing => Err(Error::internal("nothing was asked").into()),
            Exchange::Password => {
                let given = given_password(body)?;
                let is_right = in_time(runtime, || self.verify(given, shared))?;
                self.judge(is_right, shared)
            }
            Exchange::Md5(challenge) => {
                let given = given_password(body)?;
                let is_right = match &self.known {
                    Ok(verifier) => password::verify_md5_answer(given, verifier, challenge),
                    Err(_) => {
                        password::verify_md5_answer(given, "", challenge);
                        false
                    }
                };
                self.judge(is_right, shared)
            }
            Exchange::Mechanism => {
                let (mechanism, payload) = frontend::decode_sasl_initial(body)?;
                let scram = ScramExchange::begin(mechanism, &self.exchange_facts(shared))?;
                if scram.has_unusable_verifier() {
                    self.known = Err(format!("User \"{}\" does not have a valid SCRAM secret.", self.role()));
                }
                self.step(scram, payload, runtime, shared)
            }
            Exchange::Scram(scram) => self.step(*scram, Some(body), runtime, shared),
        }
    }

    fn exchange_facts(&self, shared: &ServerShared) -> ExchangeFacts<'_> {
        let mut random = [0; scram::NONCE_BYTES];
        shared.env.random_bytes(&mut random);
        ExchangeFacts {
            role_name: &self.options.user,
            verifier: self.known.as_deref().ok(),
            channel_binding: self.channel_binding(),
            mock_nonce: &self.rules.mock_nonce,
            iterations: iterations(shared),
            random,
        }
    }

    fn step(
        &mut self,
        mut scram: ScramExchange,
        payload: Option<&[u8]>,
        runtime: &CoroutineRuntime,
        shared: &ServerShared,
    ) -> Outcome<Answer> {
        match scram.step(payload)? {
            ScramStep::Continue(data) => {
                runtime.link.output.borrow_mut().authentication_sasl_continue(&data);
                runtime.link.is_urgent.set(true);
                self.exchange = Exchange::Scram(Box::new(scram));
                Ok(Answer::Asked)
            }
            ScramStep::Done(data) => {
                runtime.link.output.borrow_mut().authentication_sasl_final(&data);
                self.judge(true, shared)
            }
            ScramStep::Failed => Err(self.failed(None)),
        }
    }

    /// Takes as long for a role that has no password as for one that has.
    fn verify(&self, given: &[u8], shared: &ServerShared) -> Result<bool> {
        match &self.known {
            Ok(verifier) => password::verify(given, verifier, self.role()),
            Err(_) => password::verify_nothing(given, iterations(shared)).map(|()| false),
        }
    }

    fn judge(&mut self, is_right: bool, shared: &ServerShared) -> Outcome<Answer> {
        if !is_right {
            let mismatch = format!("Password does not match for user \"{}\".", self.role());
            return Err(self.failed(Some(mismatch)));
        }
        self.identity = Some(self.options.user.clone());
        self.pass(shared)
    }

    fn check_peer(&mut self, runtime: &CoroutineRuntime, shared: &ServerShared) -> Outcome<()> {
        let user = self.peer.user_id.ok_or_else(|| Error::internal("the socket does not say who is at its end"))?;
        let user = in_time(runtime, || shared.user_names.of(user))?;
        self.identity = Some(user.clone());
        self.check_map(&user, shared)
    }

    fn check_map(&self, system_user: &str, shared: &ServerShared) -> Outcome<()> {
        let host = ServerRuleHost { cluster: &shared.instance.cluster, name: OnceCell::new() };
        let may = self.rules.ident.check(self.rule.map.as_deref(), self.role(), system_user, &host);
        may.map_err(|reason| self.failed(Some(reason)))
    }

    /// The last of what a rule may ask.
    fn pass(&mut self, shared: &ServerShared) -> Outcome<Answer> {
        if self.rule.client_certificate == Some(ClientCertificate::VerifyFull) {
            self.check_certificate(shared)?;
        }
        Ok(Answer::LetIn)
    }

    fn check_certificate(&mut self, shared: &ServerShared) -> Outcome<()> {
        let certificate = self.peer.tls.as_ref().and_then(|tls| tls.certificate.as_ref());
        let name = certificate.and_then(|c| match self.rule.certificate_name {
            CertificateName::CommonName => c.common_name.clone(),
            CertificateName::DistinguishedName => Some(c.distinguished_name.clone()),
        });
        let subject = certificate.map(|c| c.distinguished_name.clone());
        let Some(name) = name.filter(|name| !name.is_empty()) else {
            return Err(self.failed(Some("The client certificate contains no user name.".into())));
        };
        if self.rule.method == Method::Cert {
            self.identity = subject;
        }
        self.check_map(&name, shared)
    }

    /// The client is told that it has failed, the log why.
    fn failed(&self, reason: Option<String>) -> Refusal {
        let role = self.role();
        let (sqlstate, message) = match self.rule.method {
            Method::Password | Method::Md5 | Method::ScramSha256 => {
                (sqlstate::INVALID_PASSWORD, format!("password authentication failed for user \"{role}\""))
            }
            method => {
                let what = match method {
                    Method::Peer => "Peer",
                    Method::Cert => "certificate",
                    _ => "\"trust\"",
                };
                let message = format!("{what} authentication failed for user \"{role}\"");
                (sqlstate::INVALID_AUTHORIZATION_SPECIFICATION, message)
            }
        };
        let is_guess = self.rule.method.asks_password();
        let reason = if is_guess { self.known.as_ref().err().cloned().or(reason) } else { reason };
        let rule = &self.rule;
        let place =
            format!("Connection matched file \"{}\" line {}: \"{}\"", rule.file.display(), rule.line, rule.text);
        let log_detail = Some(reason.map_or(place.clone(), |reason| format!("{reason}\n{place}")));
        Refusal { error: Error::new(sqlstate, message), log_detail, is_guess }
    }
}

fn iterations(shared: &ServerShared) -> i32 {
    shared.instance.cluster.settings().number("scram_iterations").clamp(1, i64::from(i32::MAX)) as i32
}

fn given_password(body: &[u8]) -> Result<&[u8]> {
    let given = frontend::decode_password(body)?;
    if given.is_empty() {
        return Err(Error::new(sqlstate::INVALID_PASSWORD, "empty password returned by client"));
    }
    Ok(given)
}
