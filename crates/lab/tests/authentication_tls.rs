//! Authentication over TLS: rules for encrypted connections, certificates of clients, channel binding.

#[path = "tls/authority.rs"]
#[allow(dead_code)]
mod authority;
#[path = "tls/client.rs"]
#[allow(dead_code)]
mod client;

use authority::{Authority, Issued, Purpose};
use client::TlsClient;
use kilndb_lab::client::{Address, Client, ClientError, Proof};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::proof::Binding;
use rustls::version::{TLS12, TLS13};
use sha2::{Digest, Sha256};

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

const RULES: &str = "\
host all postgres 127.0.0.1/32 trust
hostssl by_tls all 127.0.0.1/32 scram-sha-256
hostnossl by_tls all 127.0.0.1/32 reject
hostssl by_cert all 127.0.0.1/32 cert
hostssl by_map all 127.0.0.1/32 cert clientname=DN map=names
hostssl by_full all 127.0.0.1/32 scram-sha-256 clientcert=verify-full
hostssl by_ca all 127.0.0.1/32 trust clientcert=verify-ca
";

struct Secure {
    _folder: TempDir,
    authority: Authority,
    server: Server,
    /// `tls-server-end-point` of the server's certificate.
    end_point: Vec<u8>,
}

impl Secure {
    fn start() -> Secure {
        let authority = Authority::new("Authority");
        let folder = TempDir::new("authentication-tls").expect("a folder");
        let path = |name: &str| folder.path().join(name);
        let issued = authority.server("localhost", 1);
        issued.write(&path("server.crt"), &path("server.key"));
        std::fs::write(path("root.crt"), authority.pem()).expect("a file");
        let port = process::free_port().expect("a free port");
        let server =
            process::start_kilndb(&path("data"), port, &["authentication_delay_max=0"]).expect("the server starts");
        let files = [("cert", "server.crt"), ("key", "server.key"), ("ca", "root.crt")];
        let lines = files.map(|(kind, name)| format!("ssl_{kind}_file = '{}'\n", path(name).display()));
        std::fs::write(path("data/kilndb.conf"), format!("ssl = on\n{}", lines.concat())).expect("a file");
        std::fs::write(path("data/pg_hba.conf"), RULES).expect("a file");
        std::fs::write(path("data/pg_ident.conf"), "names \"/^CN=([a-z]+),O=Kilns$\" \\1\n").expect("a file");
        let mut plain = Client::connect(server.address(), "postgres").expect("a connection");
        plain.query("SELECT pg_reload_conf()").expect("a reload");
        let roles = "CREATE ROLE anna LOGIN PASSWORD 'secret'; CREATE ROLE gerd LOGIN PASSWORD 'secret'";
        plain.query(roles).expect("roles");
        for database in ["by_tls", "by_cert", "by_map", "by_full", "by_ca"] {
            plain.query(&format!("CREATE DATABASE {database}")).expect("a database");
        }
        Secure { end_point: end_point_of(&issued), _folder: folder, authority, server }
    }

    fn certificate(&self, name: &str) -> Issued {
        self.authority.client(&Purpose { name, serial: 7, is_expired: false })
    }

    fn log_in(&self, database: &str, role: &str, shown: Option<&Issued>, proof: Proof) -> Result<Client, ClientError> {
        let stream = TlsClient::new(&self.authority, &BOTH, shown).open(self.server.address().port)?;
        Client::over_with(stream, role, database, proof)
    }
}

/// The certificate's signature is by SHA-256, and so is the hash.
fn end_point_of(issued: &Issued) -> Vec<u8> {
    use rustls::pki_types::CertificateDer;
    use rustls::pki_types::pem::PemObject;
    let certificate = CertificateDer::from_pem_slice(issued.certificate.as_bytes()).expect("PEM");
    Sha256::digest(&certificate).to_vec()
}

fn password(password: &str, binding: Binding) -> Proof {
    Proof { password: Some(password.into()), binding }
}

fn refused(done: Result<Client, ClientError>) -> (String, String) {
    match done {
        Err(ClientError::Server(e)) => (e.code, e.message),
        Err(other) => panic!("{other}"),
        Ok(_) => panic!("is let in"),
    }
}

fn value(client: &mut Client, sql: &str) -> String {
    client.value(sql).expect(sql).unwrap_or_else(|| "null".into())
}

#[test]
fn passwords_are_bound_to_the_channel() {
    let secure = Secure::start();
    let by_tls = |proof| secure.log_in("by_tls", "anna", None, proof);
    let bound = || Binding::EndPoint(secure.end_point.clone());
    let mut client = by_tls(password("secret", bound())).expect("with channel binding");
    assert_eq!(value(&mut client, "SELECT system_user"), "scram-sha-256:anna");
    assert_eq!(value(&mut client, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"), "t");
    by_tls(password("secret", Binding::Unknown)).expect("without it");
    let wrong = ("28P01".to_string(), "password authentication failed for user \"anna\"".to_string());
    assert_eq!(refused(by_tls(password("x", bound()))), wrong);
    // Another certificate at the client's end, as somebody in the middle would show it.
    let other = Binding::EndPoint(vec![7; 32]);
    let (code, message) = refused(by_tls(password("secret", other)));
    assert_eq!((code.as_str(), message.as_str()), ("28000", "SCRAM channel binding check failed"));
    // Somebody in the middle has kept from the client that the server offers it.
    let (code, message) = refused(by_tls(password("secret", Binding::NotOffered)));
    assert_eq!((code.as_str(), message.as_str()), ("28000", "SCRAM channel binding negotiation error"));
    // Not encrypted.
    let at = Address { user: "anna".into(), ..secure.server.address().clone() };
    let (code, message) = refused(Client::log_in(&at, "by_tls", Some("secret")));
    let rejects =
        "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"anna\", database \"by_tls\", no encryption";
    assert_eq!((code.as_str(), message.as_str()), ("28000", rejects));
    let (code, message) = refused(secure.log_in("elsewhere", "anna", None, Proof::default()));
    let none = "no pg_hba.conf entry for host \"127.0.0.1\", user \"anna\", database \"elsewhere\", SSL encryption";
    assert_eq!((code.as_str(), message.as_str()), ("28000", none));
    secure.server.stop().expect("the server stops");
}

#[test]
fn certificates_say_who_somebody_is() {
    let secure = Secure::start();
    let (anna, gerd) = (secure.certificate("anna"), secure.certificate("gerd"));
    let secret = || password("secret", Binding::Unknown);
    let mut client = secure.log_in("by_cert", "anna", Some(&anna), Proof::default()).expect("anna's certificate");
    assert_eq!(value(&mut client, "SELECT system_user"), "cert:CN=anna,O=Kilns");
    secure.log_in("by_map", "gerd", Some(&gerd), Proof::default()).expect("by the distinguished name");
    secure.log_in("by_full", "anna", Some(&anna), secret()).expect("a certificate and a password");
    secure.log_in("by_ca", "anna", Some(&gerd), Proof::default()).expect("anybody's certificate");
    let failed = |what: &str, role: &str| format!("{what} authentication failed for user \"{role}\"");
    let certificate = "connection requires a valid client certificate".to_string();
    for (database, role, shown, proof, code, message) in [
        ("by_cert", "gerd", Some(&anna), Proof::default(), "28000", failed("certificate", "gerd")),
        ("by_map", "anna", Some(&gerd), Proof::default(), "28000", failed("certificate", "anna")),
        ("by_cert", "anna", None, Proof::default(), "28000", certificate.clone()),
        ("by_ca", "anna", None, Proof::default(), "28000", certificate.clone()),
        ("by_full", "anna", None, secret(), "28000", certificate),
        ("by_full", "anna", Some(&gerd), secret(), "28P01", failed("password", "anna")),
        ("by_full", "anna", Some(&anna), password("x", Binding::Unknown), "28P01", failed("password", "anna")),
        (
            "by_cert",
            "nobody",
            Some(&secure.certificate("nobody")),
            Proof::default(),
            "28000",
            "role \"nobody\" does not exist".into(),
        ),
    ] {
        let told = refused(secure.log_in(database, role, shown, proof));
        assert_eq!(told, (code.to_string(), message), "{role} into {database}");
    }
    secure.server.stop().expect("the server stops");
}
