//! TLS from outside: a server with certificates made for the test, clients that behave and clients that do not.

#[path = "tls/authority.rs"]
mod authority;
#[path = "tls/client.rs"]
mod client;

use authority::{Authority, Issued, Purpose, write_secret};
use client::{GSS_REQUEST, SSL_REQUEST, TlsClient, rest, startup_packet, tcp};
use kilndb_lab::client::{Address, Client};
use kilndb_lab::driver::{self, LoadLength, LoadPlan, LoadProtocol};
use kilndb_lab::postgres;
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::script::{Script, VariableNames};
use kilndb_lab::target::TargetUri;
use rustls::version::{TLS12, TLS13};
use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

const BOTH: [&rustls::SupportedProtocolVersion; 2] = [&TLS12, &TLS13];

/// A server with TLS.
struct Secure {
    folder: TempDir,
    port: u16,
    authority: Authority,
    server: Server,
}

/// A folder with the server's certificate and key, before there is a server.
fn prepare(authority: &Authority) -> TempDir {
    let folder = TempDir::new("tls").expect("a temporary folder");
    let issued = authority.server("localhost", 1);
    issued.write(&folder.path().join("server.crt"), &folder.path().join("server.key"));
    std::fs::write(folder.path().join("root.crt"), authority.pem()).expect("a file");
    folder
}

impl Secure {
    fn start(settings: &[&str]) -> Secure {
        let authority = Authority::new("Authority");
        let folder = prepare(&authority);
        Secure::start_in(folder, authority, settings)
    }
    fn start_in(folder: TempDir, authority: Authority, settings: &[&str]) -> Secure {
        let port = process::free_port().expect("a free port");
        let data = folder.path().join("data");
        // The command line's settings cannot be reloaded: TLS is switched on in the file.
        let server = process::start_kilndb(&data, port, settings).expect("the server starts");
        let files = ["cert", "key"].map(|kind| {
            let name = folder.path().join(if kind == "cert" { "server.crt" } else { "server.key" });
            format!("ssl_{kind}_file = '{}'\n", name.display())
        });
        std::fs::write(data.join("kilndb.conf"), format!("ssl = on\n{}", files.concat())).expect("a file");
        let secure = Secure { folder, port, authority, server };
        secure.reload();
        secure
    }
    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }
    fn add_setting(&self, line: &str) {
        let conf = self.path("data/kilndb.conf");
        let text = std::fs::read_to_string(&conf).expect("a file");
        std::fs::write(conf, format!("{text}{line}\n")).expect("a file");
    }
    /// By pg_reload_conf(), which has done it when it answers.
    fn reload(&self) {
        let mut plain = Client::connect(self.server.address(), "postgres").expect("a connection");
        plain.query("select pg_reload_conf()").expect("it reloads");
    }
    fn client(&self) -> TlsClient {
        TlsClient::new(&self.authority, &BOTH, None)
    }
    fn log(&self) -> String {
        std::fs::read_to_string(self.path("data.log")).unwrap_or_default()
    }
    fn wait_for_log(&self, text: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.log().contains(text) {
            assert!(Instant::now() < end, "\"{text}\" is not in the log:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn row(client: &mut Client, sql: &str) -> Vec<String> {
    let answers = client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let row = answers.into_iter().next_back().and_then(|a| a.rows.into_iter().next()).unwrap_or_default();
    row.into_iter().map(|value| value.unwrap_or_else(|| "null".into())).collect()
}

const OWN_ROW: &str = "select ssl, version, cipher, bits, client_dn, client_serial, issuer_dn from pg_stat_ssl \
     where pid = pg_backend_pid()";

#[test]
fn sessions_are_encrypted_and_the_view_says_how() {
    let secure = Secure::start(&["trace_connection_negotiation=on"]);
    let mut plain = Client::connect(secure.server.address(), "postgres").expect("a connection");
    assert_eq!(row(&mut plain, OWN_ROW), ["f", "null", "null", "null", "null", "null", "null"]);
    assert_eq!(row(&mut plain, "show ssl"), ["on"]);
    for (version, name) in [(&TLS12, "TLSv1.2"), (&TLS13, "TLSv1.3")] {
        let mut client = TlsClient::new(&secure.authority, &[version], None);
        let cipher = if name == "TLSv1.3" { "TLS_AES_256_GCM_SHA384" } else { "ECDHE-ECDSA-AES256-GCM-SHA384" };
        let own = ["t", name, cipher, "256", "null", "null", "null"];
        assert_eq!(row(&mut client.connect(secure.port).expect("a connection"), OWN_ROW), own);
        // Without having asked: the protocol must be agreed on.
        let refused = client.shake_hands(tcp(secure.port)).map(rest);
        assert!(refused.is_err() || refused.is_ok_and(|rest| rest.is_empty()));
        client.config.alpn_protocols = vec![b"postgresql".to_vec()];
        let direct = client.shake_hands(tcp(secure.port)).expect("a handshake");
        let mut direct = Client::over(direct, "postgres", "postgres").expect("a connection");
        assert_eq!(row(&mut direct, OWN_ROW), own);
        client.config.alpn_protocols = vec![b"http/1.1".to_vec()];
        assert!(client.connect(secure.port).is_err(), "another protocol was agreed on");
    }
    let count = "select count(*) from pg_stat_ssl where ssl";
    let two = [secure.client().connect(secure.port), secure.client().connect(secure.port)];
    assert_eq!(row(&mut plain, count), ["2"]);
    drop(two);
    for line in [
        "received direct SSL connection request without ALPN protocol negotiation extension",
        "direct SSL connection accepted",
        "could not accept SSL connection: no application protocol",
        "SSLRequest accepted",
    ] {
        secure.wait_for_log(line);
    }
}

#[test]
fn much_goes_both_ways() {
    let secure = Secure::start(&[]);
    for version in BOTH {
        let mut client =
            TlsClient::new(&secure.authority, &[version], None).connect(secure.port).expect("a connection");
        client.query("drop table if exists t; create table t (id int, text text)").expect("a table");
        let rows = 60_000;
        client
            .copy_in("copy t from stdin", |data| {
                (0..rows).try_for_each(|id| writeln!(data, "{id}\t{}", "x".repeat(100 + id % 300)))
            })
            .expect("it takes the rows");
        let sum = (0..rows).map(|id| 100 + id % 300).sum::<usize>().to_string();
        assert_eq!(row(&mut client, "select count(*), sum(length(text)) from t"), [rows.to_string(), sum]);
        let answers = client.query("select text from t order by id").expect("all rows");
        let lengths = answers[0].rows.iter().map(|row| row[0].as_ref().map_or(0, |text| text.len()));
        assert!(lengths.eq((0..rows).map(|id| 100 + id % 300)), "the rows are other ones");
        client.query("copy t to stdout").expect("all rows");
        // One row that is longer than any record, and than what is encrypted at once.
        let long = client.value("select repeat('kiln', 5000000)").expect("a long value").unwrap_or_default();
        assert_eq!(long.len(), 20_000_000);
        let query = format!("insert into t values (-1, '{}')", "y".repeat(5_000_000));
        client.query(&query).expect("a long statement");
        assert_eq!(row(&mut client, "select length(text) from t where id = -1"), ["5000000"]);
        // Many messages at once.
        let one = |n: usize| [&b"Q"[..], &[0, 0, 0, 18], format!("select {n:06}\0").as_bytes()].concat();
        let messages: Vec<u8> = (0..5000).flat_map(one).collect();
        client.send_raw(&messages).expect("the server reads");
        for n in 0..5000 {
            let answers = client.answers().expect("an answer");
            assert_eq!(answers[0].rows[0][0].as_deref(), Some(n.to_string().as_str()));
        }
    }
}

#[test]
fn what_was_sent_before_the_handshake_does_not_count() {
    let secure = Secure::start(&[]);
    // Whoever is in between sends a startup packet along with the client's request.
    let mut stream = tcp(secure.port);
    stream.write_all(&[&SSL_REQUEST[..], &startup_packet(0)].concat()).expect("the server reads");
    let answer = rest(stream);
    assert_eq!(answer.first(), Some(&b'S'));
    assert!(answer.len() <= 8, "there is more than an alert: {answer:?}");
    secure.wait_for_log("could not accept SSL connection: wrong version number");
    // The handshake itself may come along with the request.
    let mut stream = tcp(secure.port);
    let mut connection = secure.client().connection();
    let mut early = SSL_REQUEST.to_vec();
    connection.write_tls(&mut early).expect("memory");
    stream.write_all(&early).expect("the server reads");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).expect("a handshake");
    }
    let stream = rustls::StreamOwned::new(connection, stream);
    assert_eq!(Client::over(stream, "postgres", "postgres").expect("a connection").integer("select 7").expect("7"), 7);
    // Requests that are refused, and repeated.
    let refusal = |sent: &[u8]| {
        let mut stream = tcp(secure.port);
        stream.write_all(sent).expect("the server reads");
        String::from_utf8_lossy(&rest(stream)).into_owned()
    };
    let answer = refusal(&[&GSS_REQUEST[..], &startup_packet(0)].concat());
    assert!(answer.starts_with('N') && answer.contains("received unencrypted data after GSSAPI encryption request"));
    secure.add_setting("ssl = off");
    secure.reload();
    let answer = refusal(&[&SSL_REQUEST[..], &startup_packet(0)].concat());
    assert!(answer.starts_with('N') && answer.contains("C08P01\0Mreceived unencrypted data after SSL request\0"));
    let mut stream = tcp(secure.port);
    for request in [SSL_REQUEST, GSS_REQUEST] {
        stream.write_all(&request).expect("the server reads");
        let mut answer = [0];
        stream.read_exact(&mut answer).expect("an answer");
        assert_eq!(answer, *b"N");
    }
    stream.write_all(&SSL_REQUEST).expect("the server reads");
    let answer = String::from_utf8_lossy(&rest(stream)).into_owned();
    assert!(
        answer.contains("C0A000\0Munsupported frontend protocol 1234.5679: server supports 3.0 to 3.2"),
        "{answer}"
    );
}

#[test]
fn handshakes_that_are_none_hurt_nobody() {
    let secure = Secure::start(&[]);
    let asked = |sent: &[u8]| {
        let mut stream = tcp(secure.port);
        stream.write_all(&SSL_REQUEST).expect("the server reads");
        stream.read_exact(&mut [0]).expect("an answer");
        // The server may have hung up on the first bytes of it.
        let _ = stream.write_all(sent);
        stream
    };
    let mut hello = Vec::new();
    secure.client().connection().write_tls(&mut hello).expect("memory");
    // Garbage of all kinds; a record that never ends; one that is cut short.
    for garbage in [&b"GET / HTTP/1.1\r\n\r\n"[..], &[0x16, 3, 1, 0xff, 0xff], &[0xff; 40_000], &[0x16, 3, 1, 0, 0]] {
        let stream = asked(garbage);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(stream);
    }
    // A message of 16 MB is announced: it is not waited for.
    let mut stream = asked(&[0x16, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff]);
    let _ = stream.write_all(&vec![0; 100_000]);
    rest(stream);
    for cut in [1, 5, 50, hello.len() - 1] {
        drop(asked(&hello[..cut]));
    }
    secure.wait_for_log("could not accept SSL connection: EOF detected");
    // Random damage to a good beginning.
    for at in 0..hello.len().min(200) {
        let mut damaged = hello.clone();
        damaged[at] ^= 0x55;
        let stream = asked(&damaged);
        let _ = stream.shutdown(std::net::Shutdown::Write);
        rest(stream);
    }
    // A byte at a time is slow, and no failure.
    let mut stream = asked(&[]);
    let mut connection = secure.client().connection();
    let mut hello = Vec::new();
    connection.write_tls(&mut hello).expect("memory");
    for byte in hello {
        stream.write_all(&[byte]).expect("the server reads");
    }
    while connection.is_handshaking() {
        connection.complete_io(&mut stream).expect("a handshake");
    }
    let stream = rustls::StreamOwned::new(connection, stream);
    assert_eq!(Client::over(stream, "postgres", "postgres").expect("a connection").integer("select 7").expect("7"), 7);
    assert!(!secure.log().contains("panicked"), "{}", secure.log());
}

#[test]
fn versions_are_limited() {
    let secure = Secure::start(&[]);
    secure.add_setting("ssl_min_protocol_version = 'TLSv1.3'");
    secure.reload();
    let old = TlsClient::new(&secure.authority, &[&TLS12], None);
    assert!(old.connect(secure.port).is_err());
    secure.wait_for_log("could not accept SSL connection: unsupported protocol");
    secure.wait_for_log("does not support any SSL protocol version between TLSv1.3 and TLSv1.3.");
    secure.client().connect(secure.port).expect("TLS 1.3 is left");
    // What cannot be had leaves the old rules, and the log says so.
    secure.add_setting("ssl_max_protocol_version = 'TLSv1.2'");
    secure.reload();
    secure.wait_for_log("could not set SSL protocol version range");
    secure.wait_for_log("SSL configuration was not reloaded");
    secure.client().connect(secure.port).expect("TLS 1.3 is left");
    secure
        .add_setting("ssl_min_protocol_version = 'TLSv1.2'\nssl_ciphers = 'ECDHE+CHACHA20'\nssl_groups = 'secp384r1'");
    secure.reload();
    let mut client = old.connect(secure.port).expect("a connection");
    assert_eq!(row(&mut client, OWN_ROW)[..3], ["t", "TLSv1.2", "ECDHE-ECDSA-CHACHA20-POLY1305"]);
}

#[test]
fn certificates_of_clients_are_verified() {
    let secure = Secure::start(&[]);
    std::fs::write(secure.path("root.crl"), secure.authority.revocation_list(&[13])).expect("a file");
    secure.add_setting(&format!("ssl_ca_file = '{}'", secure.path("root.crt").display()));
    secure.add_setting(&format!("ssl_crl_file = '{}'", secure.path("root.crl").display()));
    secure.reload();
    let purpose = |serial, is_expired| Purpose { name: "potter", serial, is_expired };
    for version in BOTH {
        let connect =
            |issued: &Issued| TlsClient::new(&secure.authority, &[version], Some(issued)).connect(secure.port);
        let mut client = connect(&secure.authority.client(&purpose(11, false))).expect("a connection");
        let own = row(&mut client, OWN_ROW);
        assert_eq!(own[4..], ["/O=Kilns/CN=potter", "11", "/CN=Authority"]);
        // Nobody has to show one.
        secure.client().connect(secure.port).expect("a connection");
        let refused = |issued: &Issued, why: &str| {
            let outcome = connect(issued).map(|_| ());
            assert!(outcome.is_err(), "accepted: {why}");
            secure.wait_for_log("could not accept SSL connection: certificate verify failed");
            secure.wait_for_log(&format!("Client certificate verification failed at depth 0: {why}."));
        };
        refused(&secure.authority.client(&purpose(12, true)), "certificate has expired");
        refused(&secure.authority.client(&purpose(13, false)), "certificate revoked");
        let other = Authority::new("Somebody else");
        refused(&other.client(&purpose(14, false)), "unable to get local issuer certificate");
        // Of the same name, but another key.
        let impostor = Authority::new("Authority");
        refused(&impostor.client(&purpose(15, false)), "unable to get local issuer certificate");
        refused(&other.own(), "self-signed certificate");
        let of_server = secure.authority.server("potter", 16);
        refused(&of_server, "unsuitable certificate purpose");
    }
    // A folder of lists serves as well, and none of it may be missing.
    let folder = secure.path("lists");
    std::fs::create_dir(&folder).expect("a folder");
    std::fs::write(folder.join("others"), Authority::new("Somebody else").revocation_list(&[1])).expect("a file");
    secure.add_setting(&format!("ssl_crl_file = ''\nssl_crl_dir = '{}'", folder.display()));
    secure.reload();
    let good = secure.authority.client(&purpose(11, false));
    let good = TlsClient::new(&secure.authority, &BOTH, Some(&good));
    assert!(good.connect(secure.port).is_err(), "there is no list of its authority");
    secure.wait_for_log("unable to get certificate CRL.");
    std::fs::write(folder.join("own"), secure.authority.revocation_list(&[13])).expect("a file");
    secure.reload();
    good.connect(secure.port).expect("a connection");
    secure.wait_for_log("subject \"/O=Kilns/CN=potter\", serial number 13, issuer \"/CN=Authority\".");
}

#[test]
fn certificates_are_read_again_while_sessions_live() {
    let secure = Secure::start(&[]);
    let mut old = secure.client().connect(secure.port).expect("a connection");
    let next = Authority::new("Next authority");
    let next_client = TlsClient::new(&next, &BOTH, None);
    assert!(next_client.connect(secure.port).is_err(), "a certificate of nobody's");
    let (certificate, key) = (secure.path("server.crt"), secure.path("server.key"));
    next.server("localhost", 2).write(&certificate, &key);
    // By the signal this time.
    secure.server.signal(libc::SIGHUP).expect("a signal");
    secure.wait_for_log("received SIGHUP, reloading configuration files");
    let end = Instant::now() + Duration::from_secs(20);
    while next_client.connect(secure.port).is_err() {
        assert!(Instant::now() < end, "the certificate is still the old one");
    }
    assert!(secure.client().connect(secure.port).is_err(), "the old certificate is still shown");
    assert_eq!(old.integer("select 7").expect("the session lives"), 7);
    // A file that is no certificate, a key that is another one's, one that others may read: the old ones stay.
    let refused = |why: &str| {
        secure.reload();
        secure.wait_for_log(why);
        next_client.connect(secure.port).expect("the old certificate stays");
    };
    std::fs::write(&certificate, "nothing\n").expect("a file");
    refused(&format!("could not load server certificate file \"{}\": no start line", certificate.display()));
    next.server("localhost", 3).write(&certificate, &secure.path("other.key"));
    refused("check of private key failed: key values mismatch");
    next.server("localhost", 4).write(&certificate, &key);
    set_mode(&key, 0o644);
    refused(&format!("private key file \"{}\" has group or world access", key.display()));
    std::fs::remove_file(&key).expect("a file");
    refused(&format!("could not access private key file \"{}\": No such file or directory", key.display()));
    assert_eq!(secure.log().matches("SSL configuration was not reloaded").count(), 4);
    // Off and on.
    next.server("localhost", 5).write(&certificate, &key);
    secure.add_setting("ssl = off");
    secure.reload();
    let mut stream = tcp(secure.port);
    stream.write_all(&SSL_REQUEST).expect("the server reads");
    let mut answer = [0];
    stream.read_exact(&mut answer).expect("an answer");
    assert_eq!(answer, *b"N");
    // A handshake without asking is not answered.
    assert!(next_client.shake_hands(tcp(secure.port)).is_err());
    assert_eq!(old.integer("select 7").expect("the session lives"), 7);
    secure.add_setting("ssl = on");
    secure.reload();
    next_client.connect(secure.port).expect("a connection");
}

fn set_mode(path: &std::path::Path, mode: u32) {
    use std::os::unix::fs::PermissionsExt;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("permissions can be set");
}

#[test]
fn a_server_does_not_start_without_what_it_is_to_show() {
    let authority = Authority::new("Authority");
    let folder = prepare(&authority);
    let port = process::free_port().expect("a free port");
    let (certificate, key) = (folder.path().join("server.crt"), folder.path().join("server.key"));
    let files = [format!("ssl_cert_file={}", certificate.display()), format!("ssl_key_file={}", key.display())];
    let failure = |settings: &[&str]| {
        let all = [&["ssl=on"], settings].concat();
        let started = process::start_kilndb(&folder.path().join("data"), port, &all);
        started.err().map(|e| e.to_string()).unwrap_or_default()
    };
    let with_files = |more: &str| failure(&[&files[0], &files[1], more]);
    let missing = failure(&[]);
    assert!(
        missing.contains("could not load server certificate file \"server.crt\": No such file or directory"),
        "{missing}"
    );
    let refused = with_files("ssl_passphrase_command=echo secret");
    assert!(refused.contains("\"ssl_passphrase_command\" is not supported by this server"), "{refused}");
    let refused = with_files("ssl_crl_file=none.crl");
    assert!(refused.is_empty(), "without ssl_ca_file it cannot matter: {refused}");
    let refused = with_files("ssl_ca_file=none.crt");
    assert!(
        refused.contains("could not load root certificate file \"none.crt\": No such file or directory"),
        "{refused}"
    );
    set_mode(&key, 0o604);
    let refused = with_files("ssl_ca_file=");
    assert!(refused.contains("has group or world access"), "{refused}");
    assert!(refused.contains("DETAIL:  File must have permissions u=rw (0600) or less"), "{refused}");
    write_secret(&key, "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n");
    let refused = with_files("ssl_ca_file=");
    assert!(refused.contains("it has a passphrase"), "{refused}");
}

#[test]
fn after_a_crash_nobody_who_asks_for_tls_goes_without() {
    let secure = Secure::start(&[]);
    std::fs::remove_file(secure.path("server.crt")).expect("a file");
    let engine = secure.server.engine_pid().expect("an engine");
    // SAFETY: a system call without pointers; the engine is our server's.
    unsafe { libc::kill(engine as libc::pid_t, libc::SIGKILL) };
    secure.wait_for_log("all server processes terminated; reinitializing");
    let end = Instant::now() + Duration::from_secs(60);
    while Client::connect(secure.server.address(), "postgres").is_err() {
        assert!(Instant::now() < end, "the server is not there again:\n{}", secure.log());
        std::thread::sleep(Duration::from_millis(20));
    }
    secure.wait_for_log("could not load server certificate file");
    let mut stream = tcp(secure.port);
    stream.write_all(&SSL_REQUEST).expect("the server reads");
    let answer = String::from_utf8_lossy(&rest(stream)).into_owned();
    assert!(answer.contains("could not initialize SSL connection: SSL context not set up"), "{answer}");
    assert!(secure.client().shake_hands(tcp(secure.port)).is_err());
    secure.authority.server("localhost", 2).write(&secure.path("server.crt"), &secure.path("server.key"));
    secure.reload();
    secure.client().connect(secure.port).expect("a connection");
}

/// The process id and the secret of BackendKeyData, from the answers to a startup packet.
fn key_data(answers: &[u8]) -> (Vec<u8>, Vec<u8>) {
    let mut rest = answers;
    while let Some(head) = rest.first_chunk::<5>() {
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if head[0] == b'K' {
            return (rest[5..9].to_vec(), rest[9..length + 1].to_vec());
        }
        rest = &rest[length + 1..];
    }
    panic!("there is no BackendKeyData");
}

fn cancel_request(process_id: &[u8], secret: &[u8]) -> Vec<u8> {
    [&(12 + secret.len() as u32).to_be_bytes()[..], &[4, 210, 22, 46], process_id, secret].concat()
}

#[test]
fn statements_are_cancelled_over_tls_by_keys_of_either_length() {
    let secure = Secure::start(&[]);
    for (minor, secret_bytes) in [(0, 4), (2, 32)] {
        let mut stream = secure.client().open(secure.port).expect("a handshake");
        stream.write_all(&startup_packet(minor)).expect("the server reads");
        let mut answers = vec![0; 65_536];
        let mut length = 0;
        while !answers[..length].ends_with(b"Z\0\0\0\x05I") {
            length += stream.read(&mut answers[length..]).expect("an answer");
        }
        let (process_id, secret) = key_data(&answers[..length]);
        assert_eq!(secret.len(), secret_bytes);
        stream.write_all(b"Q\0\0\0\x19select pg_sleep(600)\0").expect("the server reads");
        let cancel = |secret: &[u8]| {
            let mut stream = secure.client().open(secure.port).expect("a handshake");
            stream.write_all(&cancel_request(&process_id, secret)).expect("the server reads");
            assert_eq!(rest(stream), b"", "a cancel request has no answer");
        };
        // A part of the secret is not the secret, nor is anything longer.
        cancel(&secret[..secret.len() - 1]);
        cancel(&secret[..3]);
        cancel(&[&secret[..], &[0]].concat());
        let mut other = secret.clone();
        other[0] ^= 1;
        cancel(&other);
        let mut plain = Client::connect(secure.server.address(), "postgres").expect("a connection");
        let busy = "select count(*) from pg_stat_activity where query like 'select pg_sleep%' and state = 'active'";
        assert_eq!(row(&mut plain, busy), ["1"]);
        cancel(&secret);
        let mut answer = [0; 200];
        let mut length = 0;
        while !answer[..length].ends_with(b"Z\0\0\0\x05I") {
            length += stream.read(&mut answer[length..]).expect("an answer");
        }
        assert!(String::from_utf8_lossy(&answer).contains("canceling statement due to user request"));
    }
}

/// Runs statements by libpq; prints their rows, or why there is no connection.
const LIBPQ: &str = "
import sys, psycopg
try:
    with psycopg.connect(sys.argv[1], autocommit=True, connect_timeout=20) as connection:
        for sql in sys.argv[2:]:
            print(connection.execute(sql).fetchall())
except psycopg.Error as error:
    print('error:', error)
";

#[test]
fn libpq_connects_and_refuses_as_it_does_with_postgresql() {
    let python = postgres::python_with_psycopg().expect("psycopg");
    let secure = Secure::start(&[]);
    let other = Authority::new("Somebody else");
    std::fs::write(secure.path("other.crt"), other.pem()).expect("a file");
    let run = |options: &str| {
        let conninfo =
            format!("host=localhost hostaddr=127.0.0.1 port={} user=postgres dbname=postgres {options}", secure.port);
        let output = Command::new(&python).args(["-c", LIBPQ, &conninfo, OWN_ROW]).output().expect("Python runs");
        String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
    };
    let (root, wrong) = (secure.path("root.crt"), secure.path("other.crt"));
    let (root, wrong) = (root.display(), wrong.display());
    let encrypted = "[(True, 'TLSv1.3', 'TLS_AES_256_GCM_SHA384', 256, None, None, None)]\n";
    for options in [
        "sslmode=prefer".to_string(),
        "sslmode=require".to_string(),
        format!("sslmode=verify-full sslrootcert={root}"),
        format!("sslmode=verify-full sslrootcert={root} sslnegotiation=direct"),
        format!("sslmode=verify-ca sslrootcert={root} hostaddr=127.0.0.1 host=elsewhere"),
    ] {
        assert_eq!(run(&options), encrypted, "{options}");
    }
    assert_eq!(run("sslmode=disable"), "[(False, None, None, None, None, None, None)]\n");
    let refused = run(&format!("sslmode=verify-full sslrootcert={wrong}"));
    assert!(refused.contains("certificate verify failed"), "{refused}");
    secure.wait_for_log("could not accept SSL connection: tlsv1 alert unknown ca");
    let refused = run(&format!("sslmode=verify-full sslrootcert={root} host=elsewhere"));
    assert!(refused.contains("does not match host name \"elsewhere\""), "{refused}");
    let old = run("sslmode=require ssl_min_protocol_version=TLSv1.2 ssl_max_protocol_version=TLSv1.2");
    assert!(old.contains("'TLSv1.2', 'ECDHE-ECDSA-AES256-GCM-SHA384'"), "{old}");
    secure.add_setting("ssl = off");
    secure.reload();
    let refused = run("sslmode=require");
    assert!(refused.contains("server does not support SSL, but SSL was required"), "{refused}");
}

/// By modes as libpq has them, and more in one message and one answer than a record of TLS holds.
#[test]
fn the_labs_own_clients_are_encrypted_as_they_are_told() {
    let (secure, folder) = (Secure::start(&[]), TempDir::new("plain").expect("a folder"));
    let port = process::free_port().expect("a free port");
    // A server without TLS.
    let plain = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
    let other = secure.path("other.crt");
    std::fs::write(&other, Authority::new("Other").pem()).expect("a file");
    let uri = |port: u16, host: &str, rest: &str| {
        let text = format!("postgresql://postgres@{host}:{port}/postgres?{rest}");
        TargetUri::read(&text).expect("a URI").address
    };
    let of_roots = |mode: &str, file: &str| format!("sslmode={mode}&sslrootcert={}", secure.path(file).display());
    let ssl = |address: &Address| {
        let mut client = Client::connect(address, "postgres").map_err(|e| e.to_string())?;
        client.value("select ssl from pg_stat_ssl where pid = pg_backend_pid()").map_err(|e| e.to_string())
    };
    for (host, rest, is_encrypted) in [
        ("localhost", "sslmode=disable", "f"),
        ("localhost", "", "t"),
        ("127.0.0.1", "sslmode=require", "t"),
        ("127.0.0.1", &of_roots("verify-ca", "root.crt"), "t"),
        ("localhost", &of_roots("verify-full", "root.crt"), "t"),
    ] {
        assert_eq!(ssl(&uri(secure.port, host, rest)), Ok(Some(is_encrypted.to_string())), "{host} {rest}");
    }
    assert_eq!(ssl(&uri(plain.address().port, "localhost", "")), Ok(Some("f".to_string())));
    for (port, host, rest, told) in [
        (plain.address().port, "localhost", "sslmode=require", "does not speak TLS"),
        (secure.port, "localhost", &of_roots("verify-ca", "other.crt"), "certificate"),
        (secure.port, "localhost", &of_roots("require", "other.crt"), "certificate"),
        (secure.port, "127.0.0.1", &of_roots("verify-full", "root.crt"), "certificate"),
    ] {
        let error = ssl(&uri(port, host, rest)).expect_err("nobody gets in");
        assert!(error.contains(told), "{rest}: {error}");
    }
    let text = "x".repeat(300_000);
    let script = format!(
        "select repeat('{text}', 3);\n\
         insert into seen select length('{text}'), ssl from pg_stat_ssl where pid = pg_backend_pid();\n"
    );
    let mut client = secure.client().connect(secure.port).expect("a connection");
    client.query("create table seen (bytes int, ssl bool)").expect("a table");
    let mut names = VariableNames::default();
    let script = Script::read("script", &script, &mut names).expect("a script");
    let plan = LoadPlan {
        clients: 3,
        threads: 2,
        protocol: LoadProtocol::Simple,
        scripts: vec![(script, 1)],
        names,
        length: LoadLength::Transactions(5),
        ..LoadPlan::new(uri(secure.port, "localhost", "sslmode=require"), "postgres")
    };
    let figures = driver::run(&plan).expect("it runs");
    assert_eq!((figures.transactions(), figures.first_error), (15, None));
    let seen = row(&mut client, "select count(*), min(bytes), max(bytes), bool_and(ssl) from seen");
    assert_eq!(seen, ["15", "300000", "300000", "t"]);
}

#[test]
fn a_handshake_has_as_long_as_a_startup_packet() {
    let secure = Secure::start(&["authentication_timeout=1"]);
    let mut stays = secure.client().connect(secure.port).expect("a connection");
    let since = Instant::now();
    let mut hello = Vec::new();
    secure.client().connection().write_tls(&mut hello).expect("memory");
    let half_open = [&hello[..], &hello[..100], &[]].map(|sent| {
        let mut stream = tcp(secure.port);
        stream.write_all(&[&SSL_REQUEST[..], sent].concat()).expect("the server reads");
        stream
    });
    // The handshake is over, and nothing follows.
    let silent = secure.client().open(secure.port).expect("a handshake");
    half_open.into_iter().for_each(|stream| _ = rest(stream));
    assert_eq!(rest(silent), b"");
    assert!(since.elapsed() >= Duration::from_millis(900), "closed after {:?} already", since.elapsed());
    assert!(since.elapsed() < Duration::from_secs(20), "closed after {:?} only", since.elapsed());
    assert_eq!(stays.integer("select 7").expect("a session that has started stays"), 7);
}

#[test]
fn idle_sessions_keep_little() {
    const SESSIONS: usize = 200;
    let secure = Secure::start(&["max_connections=500"]);
    let pid = secure.server.engine_pid().expect("an engine");
    let connect = |is_encrypted: bool| {
        let mut client = match is_encrypted {
            true => secure.client().connect(secure.port).expect("a connection"),
            false => Client::connect(secure.server.address(), "postgres").expect("a connection"),
        };
        client.query("select 1").expect("a row");
        client
    };
    // What there is once is there.
    drop([connect(true), connect(false)]);
    let each = |of: &mut dyn FnMut()| {
        let before = resident_bytes(pid);
        of();
        resident_bytes(pid).saturating_sub(before) / SESSIONS as u64
    };
    let (mut plain, mut encrypted) = (Vec::new(), Vec::new());
    let of_plain = each(&mut || plain.extend((0..SESSIONS).map(|_| connect(false))));
    let of_encrypted = each(&mut || encrypted.extend((0..SESSIONS).map(|_| connect(true))));
    // What a session needs while it sends much is kept as little as without TLS.
    let much = |sessions: &mut Vec<Client>| {
        for client in sessions {
            client.query("select repeat('x', 100000) from generate_series(1, 20)").expect("rows");
        }
    };
    let (of_busy_plain, of_busy) = (each(&mut || much(&mut plain)), each(&mut || much(&mut encrypted)));
    println!("idle: {of_plain} bytes, encrypted {of_encrypted}; after much output {of_busy_plain} and {of_busy} more");
    assert!(of_encrypted < of_plain + (24 << 10), "{of_encrypted} bytes, and {of_plain} without TLS");
    assert!(
        of_busy < of_busy_plain + (24 << 10),
        "{of_busy} bytes are left of much output, {of_busy_plain} without TLS"
    );
}

/// The memory of a process that is its own, in bytes.
fn resident_bytes(pid: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("a process");
    let line = text.lines().find_map(|line| line.strip_prefix("RssAnon:")).expect("it says how much it has");
    line.split_whitespace().next().and_then(|kb| kb.parse::<u64>().ok()).expect("a number") << 10
}

#[test]
fn many_half_open_handshakes_take_little() {
    const STRANGERS: usize = 2000;
    /// Of memory, for each.
    const LIMIT_BYTES: u64 = 32 << 10;
    kilndb_base::env::raise_descriptor_limit();
    let secure = Secure::start(&["authentication_timeout=600"]);
    let mut client = secure.client().connect(secure.port).expect("a connection");
    client.query("create table t as select 1 as id").expect("a table");
    let pid = secure.server.engine_pid().expect("an engine");
    let half_open = |whole: bool| {
        let mut stream = tcp(secure.port);
        stream.write_all(&SSL_REQUEST).expect("the server reads");
        stream.read_exact(&mut [0]).expect("an answer");
        let mut hello = Vec::new();
        secure.client().connection().write_tls(&mut hello).expect("memory");
        // Some have sent a part of their first message, the others wait for what follows the server's answer.
        stream.write_all(&hello[..if whole { hello.len() } else { 100 }]).expect("the server reads");
        stream
    };
    // What there is once is there.
    drop((0..50).map(|n| half_open(n % 2 == 0)).collect::<Vec<_>>());
    let before = resident_bytes(pid);
    let strangers: Vec<_> = (0..STRANGERS).map(|n| half_open(n % 2 == 0)).collect();
    let mut longest = Duration::ZERO;
    for _ in 0..200 {
        let since = Instant::now();
        assert_eq!(client.integer("select id from t").expect("an answer"), 1);
        longest = longest.max(since.elapsed());
    }
    let each = resident_bytes(pid).saturating_sub(before) / STRANGERS as u64;
    println!("{each} bytes for each half-open handshake; the longest of 200 queries took {longest:?}");
    assert!(each < LIMIT_BYTES, "{each} bytes for each");
    assert!(longest < Duration::from_secs(1), "a query took {longest:?}");
    drop(strangers);
}
