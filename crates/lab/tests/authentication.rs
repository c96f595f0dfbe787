//! Who is let in, by which rule of pg_hba.conf, with which password, and what the others are told: PostgreSQL's SQLSTATE
//! and words. The matrix is also asked of PostgreSQL itself (`KILNDB_AUTHENTICATION_POSTGRES=1`).

use kilndb_lab::client::{Address, Client, ClientError};
use kilndb_lab::postgres;
use kilndb_lab::process::{self, Server, TempDir};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const ROLES: &str = "SET password_encryption = 'scram-sha-256'; CREATE ROLE anna LOGIN PASSWORD 'secret'; \
    CREATE ROLE carl LOGIN PASSWORD 'secret' VALID UNTIL '2001-01-01'; CREATE ROLE dora LOGIN; \
    CREATE ROLE eve NOLOGIN PASSWORD 'secret'; CREATE ROLE frank LOGIN PASSWORD 'secret' CONNECTION LIMIT 0; \
    CREATE ROLE gerd LOGIN PASSWORD 'secret' VALID UNTIL 'infinity'; \
    CREATE ROLE \"é\" LOGIN PASSWORD 'I\u{AD}X'; \
    SET password_encryption = 'md5'; CREATE ROLE bob LOGIN PASSWORD 'secret'";

const RULES: &str = r#"local all all trust
host all postgres 127.0.0.1/32 trust
host by_scram,missing all 127.0.0.1/32 scram-sha-256
host by_md5 all 127.0.0.1/32 md5
host by_password all 127.0.0.1/32 password
host by_trust all 127.0.0.1/32 trust
host by_reject all 127.0.0.1/32 reject
host by_name "/^(an|ge).*$",+dora 127.0.0.0/8 trust
host by_name bob 127.0.0.1 255.255.255.255 reject
host sameuser all samehost trust
host by_limit,by_closed all 127.0.0.1/32 trust
"#;

/// (database, role, password, None if that is let in, else the SQLSTATE and the message).
type Row = (&'static str, &'static str, Option<&'static str>, Option<(&'static str, &'static str)>);

fn matrix() -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    let right = Some("secret");
    for database in ["by_scram", "by_md5", "by_password"] {
        for role in ["anna", "gerd"] {
            rows.push((database, role, right, None));
        }
        rows.push((database, "é", Some("IX"), None));
        rows.push((
            database,
            "anna",
            Some("Secret"),
            Some(("28P01", "password authentication failed for user \"anna\"")),
        ));
        rows.push((database, "carl", right, Some(("28P01", "password authentication failed for user \"carl\""))));
        rows.push((database, "dora", right, Some(("28P01", "password authentication failed for user \"dora\""))));
        rows.push((database, "nobody", right, Some(("28P01", "password authentication failed for user \"nobody\""))));
        rows.push((database, "eve", right, Some(("28000", "role \"eve\" is not permitted to log in"))));
        rows.push((database, "eve", Some("x"), Some(("28P01", "password authentication failed for user \"eve\""))));
        rows.push((database, "frank", right, Some(("53300", "too many connections for role \"frank\""))));
        rows.push((database, "bob", Some("x"), Some(("28P01", "password authentication failed for user \"bob\""))));
    }
    rows.push(("by_scram", "bob", right, Some(("28P01", "password authentication failed for user \"bob\""))));
    rows.push(("by_md5", "bob", right, None));
    rows.push(("by_password", "bob", right, None));
    rows.push(("by_password", "anna", Some(""), Some(("28P01", "empty password returned by client"))));
    rows.push(("missing", "anna", right, Some(("3D000", "database \"missing\" does not exist"))));
    rows.push(("missing", "anna", Some("x"), Some(("28P01", "password authentication failed for user \"anna\""))));
    for role in ["anna", "carl", "dora"] {
        rows.push(("by_trust", role, None, None));
    }
    for role in ["anna", "gerd", "dora"] {
        rows.push(("by_name", role, None, None));
    }
    rows.push(("carl", "carl", None, None));
    let rejects =
        "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"bob\", database \"by_name\", no encryption";
    rows.push(("by_name", "bob", None, Some(("28000", rejects))));
    let none = "no pg_hba.conf entry for host \"127.0.0.1\", user \"carl\", database \"by_name\", no encryption";
    rows.push(("by_name", "carl", None, Some(("28000", none))));
    rows.push(("by_limit", "anna", None, Some(("53300", "too many connections for database \"by_limit\""))));
    rows.push(("by_limit", "postgres", None, None));
    let closed = "database \"by_closed\" is not currently accepting connections";
    rows.push(("by_closed", "postgres", None, Some(("55000", closed))));
    rows.push(("by_trust", "nobody", None, Some(("28000", "role \"nobody\" does not exist"))));
    rows.push(("by_trust", "eve", None, Some(("28000", "role \"eve\" is not permitted to log in"))));
    rows.push(("by_trust", "frank", None, Some(("53300", "too many connections for role \"frank\""))));
    let rejects =
        "pg_hba.conf rejects connection for host \"127.0.0.1\", user \"anna\", database \"by_reject\", no encryption";
    rows.push(("by_reject", "anna", right, Some(("28000", rejects))));
    let none = "no pg_hba.conf entry for host \"127.0.0.1\", user \"anna\", database \"elsewhere\", no encryption";
    rows.push(("elsewhere", "anna", right, Some(("28000", none))));
    rows
}

fn log_in(at: &Address, database: &str, role: &str, password: Option<&str>) -> Result<Client, ClientError> {
    Client::log_in(&Address { user: role.into(), ..at.clone() }, database, password)
}

/// SQLSTATE and message of a refusal.
fn refusal(at: &Address, database: &str, role: &str, password: Option<&str>) -> (String, String) {
    match log_in(at, database, role, password) {
        Ok(_) => panic!("{role} is let into {database}"),
        Err(ClientError::Server(e)) => {
            assert_eq!(e.severity, "FATAL", "{}", e.message);
            // The client is not told why.
            assert_eq!(e.detail, None, "{}", e.message);
            (e.code, e.message)
        }
        Err(other) => panic!("{role}, {database}: {other}"),
    }
}

fn prepare(server: &Server) {
    let mut client = Client::connect(server.address(), "postgres").expect("the superuser connects");
    client.query(ROLES).expect("roles");
    for database in ["by_scram", "by_md5", "by_password", "by_trust", "by_name", "carl"] {
        client.query(&format!("CREATE DATABASE {database}")).expect("a database");
    }
    client.query("CREATE DATABASE by_limit").expect("a database");
    client.query("CREATE DATABASE by_closed").expect("a database");
    client.query("ALTER DATABASE by_limit CONNECTION LIMIT 0").expect("a limit");
    client.query("ALTER DATABASE by_closed ALLOW_CONNECTIONS false").expect("no connections");
}

fn write_rules(server: &Server, rules: &str) {
    let mut client = Client::connect(server.address(), "postgres").expect("the superuser connects");
    let path = client.value("SHOW hba_file").expect("hba_file").expect("a path");
    std::fs::write(path, rules).expect("the file of rules is written");
    client.query("SELECT pg_reload_conf()").expect("a reload");
}

/// PostgreSQL reads its files again in another process than the one that was asked.
fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(30);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn ask_matrix(server: &Server) {
    prepare(server);
    write_rules(server, RULES);
    let at = server.address();
    wait_for("the rules are in force", || {
        log_in(at, "by_reject", "anna", None).is_err_and(|e| e.to_string().contains("rejects"))
    });
    for (database, role, password, refused) in matrix() {
        match refused {
            None => {
                let mut client = log_in(at, database, role, password)
                    .unwrap_or_else(|e| panic!("{role} with {password:?} into {database}: {e}"));
                let user = client.value("SELECT current_user").expect("a query").expect("a name");
                assert_eq!(user, role);
                let method = match database {
                    "by_trust" | "by_name" | "carl" | "by_limit" => None,
                    "by_scram" => Some(format!("scram-sha-256:{role}")),
                    other => Some(format!("{}:{role}", other.trim_start_matches("by_"))),
                };
                assert_eq!(client.value("SELECT system_user").expect("a query"), method);
            }
            Some((code, message)) => {
                let told = refusal(at, database, role, password);
                assert_eq!(told, (code.into(), message.into()), "{role} with {password:?} into {database}");
            }
        }
    }
}

fn start(folder: &Path, settings: &[&str]) -> Server {
    let port = process::free_port().expect("a free port");
    process::start_kilndb(&folder.join("data"), port, settings).expect("the server starts")
}

/// Waits until the log has this text: lines are written by a thread of their own.
fn wait_for_log(folder: &Path, text: &str) {
    wait_for(&format!("the log says: {text}"), || log_of(folder).contains(text));
}

fn log_of(folder: &Path) -> String {
    std::fs::read_to_string(folder.join("data.log")).expect("the log")
}

#[test]
fn rules_methods_and_passwords() {
    let folder = TempDir::new("authentication").expect("a folder");
    let server = start(folder.path(), &["authentication_delay_max=0"]);
    ask_matrix(&server);
    // The reason is in the log, and only there.
    for reason in [
        "Role \"nobody\" does not exist.",
        "User \"carl\" has an expired password.",
        "User \"dora\" has no password assigned.",
        "User \"bob\" does not have a valid SCRAM secret.",
        "Connection matched file",
        "line 3: \"host by_scram,missing all 127.0.0.1/32 scram-sha-256\"",
    ] {
        wait_for_log(folder.path(), reason);
    }
    let log = log_of(folder.path());
    assert!(!log.replace("SCRAM secret", "").contains("secret"), "a password is in the log");
    server.stop().expect("the server stops");
}

#[test]
fn postgresql_answers_the_same() {
    if std::env::var_os("KILNDB_AUTHENTICATION_POSTGRES").is_none() {
        eprintln!("not asked for (KILNDB_AUTHENTICATION_POSTGRES)");
        return;
    }
    let folder = TempDir::new("authentication-pg").expect("a folder");
    let port = process::free_port().expect("a free port");
    let server = postgres::start(folder.path(), port, &["log_connections=all"]).expect("PostgreSQL starts");
    ask_matrix(&server);
    server.stop().expect("the server stops");
}

#[test]
fn a_broken_file_leaves_the_rules_before() {
    let folder = TempDir::new("authentication-reload").expect("a folder");
    let server = start(folder.path(), &["authentication_delay_max=0", "log_connections=all"]);
    prepare(&server);
    let at = server.address();
    write_rules(&server, RULES);
    assert!(log_in(at, "by_trust", "anna", None).is_ok());
    write_rules(&server, &RULES.replace("by_trust all 127.0.0.1/32 trust", "by_trust all 127.0.0.1/33 trust"));
    assert!(log_in(at, "by_trust", "anna", None).is_ok(), "the rules before are in force");
    wait_for_log(folder.path(), "invalid CIDR mask in address \"127.0.0.1/33\"");
    wait_for_log(folder.path(), "line 6 of configuration file");
    wait_for_log(folder.path(), "pg_hba.conf was not reloaded");
    let mut client = Client::connect(at, "postgres").expect("the superuser connects");
    let wrong = client.query("SELECT line_number, rule_number, error FROM pg_hba_file_rules WHERE error IS NOT NULL");
    let wrong = wrong.expect("a view").remove(0).rows;
    assert_eq!(wrong, [[Some("6".into()), None, Some("invalid CIDR mask in address \"127.0.0.1/33\"".into())]]);
    let shown = client.query("SELECT rule_number, type, database, user_name, address, netmask, auth_method FROM pg_hba_file_rules WHERE line_number = 3");
    let shown: Vec<String> = shown.expect("a view").remove(0).rows.remove(0).into_iter().flatten().collect();
    assert_eq!(shown, ["3", "host", "{by_scram,missing}", "{all}", "127.0.0.1", "255.255.255.255", "scram-sha-256"]);
    // SIGHUP does the same as pg_reload_conf.
    let path = client.value("SHOW hba_file").expect("hba_file").expect("a path");
    std::fs::write(path, RULES.replace("by_trust all 127.0.0.1/32 trust", "by_trust all 127.0.0.1/32 reject"))
        .expect("written");
    server.signal(libc::SIGHUP).expect("a signal");
    wait_for("the new rule is in force", || log_in(at, "by_trust", "anna", None).is_err());
    wait_for_log(folder.path(), "connection authenticated: user=\"anna\" method=trust (");
    wait_for_log(folder.path(), "pg_hba.conf:6)");
    // A crash while the file is broken: the server is there, and lets nobody in who is in no rule.
    let path = client.value("SHOW hba_file").expect("hba_file").expect("a path");
    std::fs::write(&path, "magic\n").expect("written");
    let engine = server.engine_pid().expect("an engine");
    // SAFETY: a system call without pointers; the engine is the server's child and runs.
    unsafe { libc::kill(engine as libc::pid_t, libc::SIGKILL) };
    wait_for(
        "the server is back",
        || matches!(log_in(at, "by_trust", "anna", None), Err(ClientError::Server(e)) if e.message.starts_with("no pg_hba.conf entry")),
    );
    std::fs::write(&path, RULES).expect("written");
    server.signal(libc::SIGHUP).expect("a signal");
    wait_for("the rules are read again", || log_in(at, "by_trust", "anna", None).is_ok());
    server.stop().expect("the server stops");
}

fn message(kind: Option<u8>, body: &[u8]) -> Vec<u8> {
    let mut message: Vec<u8> = kind.into_iter().collect();
    message.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    message.extend_from_slice(body);
    message
}

/// Sends a startup packet and gives the body of the first message with that kind.
fn first_message(port: u16, role: &str, database: &str) -> (TcpStream, u8, Vec<u8>) {
    let mut socket = TcpStream::connect(("127.0.0.1", port)).expect("the server accepts connections");
    socket.set_read_timeout(Some(Duration::from_secs(60))).expect("a timeout");
    let body = [&[0, 3, 0, 0], format!("user\0{role}\0database\0{database}\0\0").as_bytes()].concat();
    socket.write_all(&message(None, &body)).expect("the server reads");
    let (kind, body) = read_message(&mut socket);
    (socket, kind, body)
}

fn read_message(socket: &mut TcpStream) -> (u8, Vec<u8>) {
    let mut head = [0; 5];
    socket.read_exact(&mut head).expect("a message");
    let mut body = vec![0; u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize - 4];
    socket.read_exact(&mut body).expect("the message's body");
    (head[0], body)
}

/// What SCRAM's server says first to a nonce.
fn server_first(port: u16, role: &str) -> String {
    let (mut socket, kind, body) = first_message(port, role, "by_scram");
    assert_eq!((kind, &body[..]), (b'R', &b"\0\0\0\x0aSCRAM-SHA-256\0\0"[..]));
    let first = b"n,,n=,r=abc";
    let body = [b"SCRAM-SHA-256\0\0\0\0", &[first.len() as u8][..], first].concat();
    socket.write_all(&message(Some(b'p'), &body)).expect("the server reads");
    let (kind, body) = read_message(&mut socket);
    assert_eq!((kind, &body[..4]), (b'R', &[0, 0, 0, 11][..]));
    String::from_utf8(body[4..].to_vec()).expect("text")
}

#[test]
fn unknown_roles_look_like_known_ones() {
    let folder = TempDir::new("authentication-unknown").expect("a folder");
    let server = start(folder.path(), &["authentication_delay_max=0"]);
    let port = server.address().port;
    prepare(&server);
    write_rules(&server, RULES);
    let salt = |text: &str| text.split(',').find_map(|part| part.strip_prefix("s=")).expect("a salt").to_string();
    let iterations = |text: &str| text.split(',').next_back().expect("a number").to_string();
    let (known, unknown) = (server_first(port, "anna"), server_first(port, "nobody"));
    assert_eq!((salt(&known).len(), iterations(&known)), (salt(&unknown).len(), iterations(&unknown)));
    // An unknown role has the same salt each time, also after a restart, and none that it shares.
    assert_eq!(salt(&unknown), salt(&server_first(port, "nobody")));
    assert_ne!(salt(&unknown), salt(&server_first(port, "nobody2")));
    server.stop().expect("the server stops");
    let server = start(folder.path(), &["authentication_delay_max=0"]);
    assert_eq!(salt(&unknown), salt(&server_first(server.address().port, "nobody")));
    // A nonce is good for one exchange.
    assert_ne!(known, server_first(server.address().port, "anna"));
    server.stop().expect("the server stops");
}

#[test]
fn nobody_waits_for_ever_or_sends_what_he_likes() {
    let folder = TempDir::new("authentication-timeout").expect("a folder");
    let server = start(folder.path(), &["authentication_timeout=1", "authentication_delay_max=0"]);
    let port = server.address().port;
    prepare(&server);
    write_rules(&server, RULES);
    let fields_of = |body: &[u8]| String::from_utf8_lossy(body).replace('\0', "|");
    let since = Instant::now();
    let (mut socket, _, _) = first_message(port, "anna", "by_scram");
    let (kind, body) = read_message(&mut socket);
    assert_eq!(kind, b'E');
    assert!(fields_of(&body).contains("|C57014|Mcanceling authentication due to timeout|"), "{}", fields_of(&body));
    assert!(since.elapsed() >= Duration::from_millis(900), "{:?}", since.elapsed());
    for (database, sent, wanted) in [
        ("by_scram", message(Some(b'Q'), b"select 1\0"), "|C08P01|Mexpected SASL response, got message type 81|"),
        (
            "by_password",
            message(Some(b'Q'), b"select 1\0"),
            "|C08P01|Mexpected password response, got message type 81|",
        ),
        ("by_password", message(Some(b'p'), b"secret"), "|C08P01|Minvalid password packet size|"),
        (
            "by_scram",
            message(Some(b'p'), b"X\0\0\0\0\0"),
            "|C08P01|Mclient selected an invalid SASL authentication mechanism|",
        ),
        ("by_scram", vec![b'p', 0x3f, 0, 0, 0, b'a'], "|C08P01|Minvalid message length|"),
    ] {
        let (mut socket, _, _) = first_message(port, "anna", database);
        socket.write_all(&sent).expect("the server reads");
        let (kind, body) = read_message(&mut socket);
        assert_eq!(kind, b'E');
        assert!(fields_of(&body).contains(wanted), "{} for {wanted}", fields_of(&body));
        let mut rest = Vec::new();
        socket.read_to_end(&mut rest).expect("the server closes the connection");
        assert!(rest.is_empty());
    }
    server.stop().expect("the server stops");
}

#[test]
fn guesses_are_answered_later_and_later() {
    let folder = TempDir::new("authentication-delay").expect("a folder");
    let server = start(folder.path(), &["authentication_delay_max=400"]);
    prepare(&server);
    write_rules(&server, RULES);
    let at = server.address();
    let mut took = Vec::new();
    for _ in 0..6 {
        let since = Instant::now();
        assert_eq!(refusal(at, "by_scram", "anna", Some("x")).0, "28P01");
        took.push(since.elapsed());
    }
    // 0, 50, 100, 200, 400, 400 ms.
    assert!(took[5] >= Duration::from_millis(400) && took[3] >= Duration::from_millis(200), "{took:?}");
    // Who knows the password does not wait.
    let since = Instant::now();
    log_in(at, "by_scram", "anna", Some("secret")).expect("anna is let in");
    assert!(since.elapsed() < Duration::from_millis(350), "{:?}", since.elapsed());
    // Somebody who hangs up while he waits takes nothing with him.
    for _ in 0..20 {
        let (mut socket, _, _) = first_message(at.port, "anna", "by_password");
        socket.write_all(&message(Some(b'p'), b"x\0")).expect("the server reads");
        socket.write_all(&message(Some(b'p'), b"secret\0")).expect("the server reads");
    }
    log_in(at, "by_scram", "anna", Some("secret")).expect("anna is let in");
    server.stop().expect("the server stops");
}

/// The program's output after it has failed.
fn failure(arguments: &[&str], folder: &Path) -> String {
    let mut command = Command::new(process::kilndb_program().expect("the program"));
    let output = command.args(arguments).current_dir(folder).output().expect("it runs");
    assert!(!output.status.success(), "{arguments:?}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn init(arguments: &[&str], folder: &Path) -> String {
    let mut command = Command::new(process::kilndb_program().expect("the program"));
    let output =
        command.arg("init").args(["-D", "data"]).args(arguments).current_dir(folder).output().expect("it runs");
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    errors
}

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).expect("a file").permissions().mode() & 0o777
}

#[test]
fn init_makes_a_cluster_that_asks() {
    let folder = TempDir::new("authentication-init").expect("a folder");
    std::fs::write(folder.path().join("password"), "s3cret\nmore\n").expect("a file");
    let told = failure(&["init", "-D", "data", "-A", "scram-sha-256"], folder.path());
    assert!(told.contains("must specify a password for the superuser to enable password authentication"), "{told}");
    let told = failure(&["init", "-D", "data", "-A", "magic"], folder.path());
    assert!(told.contains("invalid authentication method \"magic\" for \"local\" connections"), "{told}");
    let told = init(&["-U", "boss", "--auth=scram-sha-256", "--pwfile", "password"], folder.path());
    assert!(!told.contains("trust"), "{told}");
    let told = failure(&["init", "-D", "data"], folder.path());
    assert!(told.contains("directory \"data\" exists but is not empty"), "{told}");
    let data = folder.path().join("data");
    assert_eq!(mode_of(&data), 0o700);
    for entry in std::fs::read_dir(&data).expect("the folder").flatten() {
        let mode = mode_of(&entry.path());
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", entry.path().display());
    }
    let port = process::free_port().expect("a free port");
    let mut server = Command::new(process::kilndb_program().expect("the program"));
    server.args(["serve", "-D", "data", "-p", &port.to_string(), "-k"]).arg(folder.path()).current_dir(folder.path());
    let mut server = server.stderr(std::process::Stdio::null()).spawn().expect("the server starts");
    let at = Address { user: "boss".into(), ..Address::local(port) };
    wait_for("the server answers", || Client::log_in(&at, "postgres", Some("s3cret")).is_ok());
    assert_eq!(refusal(&at, "postgres", "boss", Some("x")).0, "28P01");
    assert_eq!(refusal(&at, "postgres", "postgres", Some("s3cret")).0, "28P01");
    let socket = Address { host: folder.path().display().to_string(), ..at };
    assert_eq!(refusal(&socket, "postgres", "boss", Some("x")).0, "28P01");
    let mut client = Client::log_in(&socket, "postgres", Some("s3cret")).expect("through the socket");
    assert_eq!(client.value("SELECT rolname FROM pg_roles WHERE oid = 10").expect("a role").as_deref(), Some("boss"));
    assert_eq!(
        client.value("SELECT rolsuper FROM pg_roles WHERE rolname = current_user").expect("a role").as_deref(),
        Some("t")
    );
    // SAFETY: a system call without pointers; the child has not been waited for.
    unsafe { libc::kill(server.id() as libc::pid_t, libc::SIGTERM) };
    server.wait().expect("the server stops");
}

#[test]
fn the_owner_is_known_by_the_operating_system() {
    let folder = TempDir::new("authentication-peer").expect("a folder");
    let socket = format!("unix_socket_directories={}", folder.path().display());
    let mut server = start(folder.path(), &[&socket, "log_connections=all"]);
    let hba = std::fs::read_to_string(folder.path().join("data/pg_hba.conf")).expect("the rules");
    assert!(hba.contains("peer map=owner"), "{hba}");
    wait_for_log(folder.path(), "enabling \"trust\" authentication for local connections");
    let socket = folder.path().join(format!(".s.PGSQL.{}", server.address().port));
    assert_eq!(mode_of(&socket), 0o777);
    server.reach_in(folder.path());
    let at = server.address();
    let mut client = Client::connect(at, "postgres").expect("the owner is let in");
    client.query("CREATE ROLE anna LOGIN").expect("a role");
    log_in(at, "postgres", "anna", None).expect("the owner may be any role");
    let ident = client.value("SELECT count(*) FROM pg_ident_file_mappings WHERE map_name = 'owner' AND error IS NULL");
    assert_eq!(ident.expect("a view").as_deref(), Some("1"));
    // Without the map he is himself alone.
    write_rules(&server, "local postgres postgres peer map=owner\nlocal all all peer\n");
    let (code, told) = refusal(at, "postgres", "anna", None);
    assert_eq!((code.as_str(), told.as_str()), ("28000", "Peer authentication failed for user \"anna\""));
    wait_for_log(folder.path(), "provided user name (anna) and authenticated user name (");
    wait_for_log(folder.path(), "connection authenticated: identity=");
    server.stop().expect("the server stops");
}

#[test]
fn strangers_are_not_trusted() {
    let folder = TempDir::new("authentication-strangers").expect("a folder");
    let data = folder.path().join("data");
    init(&[], folder.path());
    let port = process::free_port().expect("a free port").to_string();
    std::fs::write(data.join("pg_hba.conf"), "local all all peer\nhost all all all trust\n").expect("rules");
    let told = failure(&["serve", "-D", "data", "-h", "0.0.0.0", "-p", &port], folder.path());
    assert!(told.contains("cannot listen on \"0.0.0.0\" while line 2 of configuration file"), "{told}");
    assert!(told.contains("Write \"scram-sha-256\" in place of \"trust\""), "{told}");
    std::fs::write(data.join("pg_hba.conf"), "local all all magic\n").expect("rules");
    let told = failure(&["serve", "-D", "data", "-p", &port], folder.path());
    assert!(told.contains("invalid authentication method \"magic\""), "{told}");
    assert!(told.contains("could not load") && told.contains("pg_hba.conf"), "{told}");
    std::fs::remove_file(data.join("pg_hba.conf")).expect("removed");
    let told = failure(&["serve", "-D", "data", "-p", &port], folder.path());
    assert!(told.contains("pg_hba.conf"), "a file that was there is not made again: {told}");
    std::fs::set_permissions(&data, std::fs::Permissions::from_mode(0o770)).expect("a mode");
    let told = failure(&["serve", "-D", "data", "-p", &port], folder.path());
    assert!(told.contains("has invalid permissions"), "{told}");
}

#[test]
fn psql_logs_in() {
    let Ok(psql) = postgres::program("psql") else {
        eprintln!("there is no psql to try");
        return;
    };
    let folder = TempDir::new("authentication-psql").expect("a folder");
    let server = start(folder.path(), &["authentication_delay_max=0"]);
    prepare(&server);
    write_rules(&server, RULES);
    let run = |database: &str, role: &str, password: &str| {
        let port = server.address().port.to_string();
        let mut command = Command::new(&psql);
        command.args([
            "-X",
            "-w",
            "-h",
            "127.0.0.1",
            "-p",
            &port,
            "-U",
            role,
            "-d",
            database,
            "-Atc",
            "select current_user",
        ]);
        let output = command.env("PGPASSWORD", password).output().expect("psql runs");
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_string()
    };
    assert_eq!(run("by_scram", "anna", "secret"), "anna");
    assert_eq!(run("by_scram", "é", "I\u{AD}X"), "é");
    assert_eq!(run("by_md5", "bob", "secret"), "bob");
    assert_eq!(run("by_password", "anna", "secret"), "anna");
    let refused = run("by_scram", "anna", "x");
    assert!(refused.ends_with("FATAL:  password authentication failed for user \"anna\""), "{refused}");
    server.stop().expect("the server stops");
}
