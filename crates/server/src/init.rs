//! `kilndb init`: makes a cluster, and says who may connect to it.
//!
//! Must not know: how a cluster is made (`kilndb_sql::Instance` does).

use crate::cli::InitOptions;
use crate::folder;
use crate::rule_files::{self, RuleMethods};
use kilndb_auth::password::{self, PasswordMethod, SALT_BYTES};
use kilndb_base::env::{Env, OsEnv};
use kilndb_base::park::ThreadPark;
use kilndb_base::sync::Arc;
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_context::authentication::{hba_path, ident_path};
use kilndb_context::settings::ServerSettings;
use kilndb_context::{Cluster, ClusterOptions};
use kilndb_sql::Instance;
use std::io::{self, BufRead, Write};
use std::os::fd::AsRawFd;
use std::path::Path;

/// Where a password comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PasswordSource {
    /// The first line of a file.
    File(std::path::PathBuf),
    /// The terminal.
    Prompt,
}

pub fn init(options: InitOptions) -> Result<()> {
    let methods = methods_of(&options)?;
    if options.user_name.starts_with("pg_") {
        let message =
            format!("superuser name \"{}\" is disallowed; role names cannot begin with \"pg_\"", options.user_name);
        return Err(Error::new(sqlstate::RESERVED_NAME, message));
    }
    let password = options.password.as_ref().map(read_password).transpose()?;
    let folder = &options.data_dir;
    if std::fs::read_dir(folder).is_ok_and(|mut inside| inside.next().is_some()) {
        let message = format!("directory \"{}\" exists but is not empty", folder.display());
        return Err(Error::new(sqlstate::OBJECT_IN_USE, message).with_hint(
            "If you want to create a new database system, either remove or empty the directory, or run kilndb init with \
             another one.",
        ));
    }
    folder::prepare(folder)?;
    let _lock = folder::lock(folder)?;
    let env: Arc<dyn Env> = Arc::new(OsEnv);
    let config = Cluster::read_config(folder, &[])?;
    let verifier = password.map(|password| verifier_of(&*env, &config, &password, &options.user_name)).transpose()?;
    make_cluster(&env, folder, &config, &options.user_name, verifier.as_deref())?;
    rule_files::write(&*env, &hba_path(&config), &ident_path(&config), &methods)?;
    if options.auth_local.is_none() && options.auth_host.is_none() {
        eprintln!(
            "kilndb: warning: enabling \"trust\" authentication for local connections\nHINT:  You can change this by \
             editing pg_hba.conf or using the option --auth, or --auth-local and --auth-host, the next time you run init."
        );
    }
    println!("Success. You can now start the database server using:\n\n    kilndb serve -D {}\n", folder.display());
    Ok(())
}

fn make_cluster(
    env: &Arc<dyn Env>,
    folder: &Path,
    config: &ServerSettings,
    user_name: &str,
    verifier: Option<&str>,
) -> Result<()> {
    let cluster = ClusterOptions {
        env: env.clone(),
        data_dir: folder.to_path_buf(),
        workers: 1,
        log: Arc::new(|severity: Severity, message: &str| {
            if severity >= Severity::Warning {
                eprintln!("kilndb: {}: {message}", severity.as_str().to_lowercase());
            }
        }),
        config: config.clone(),
        accept_lost_log: false,
        limits: Default::default(),
    };
    let instance = Instance::open(cluster, vec![Arc::new(kilndb_plpgsql::PlPgSql)])?;
    instance.cluster.set_first_superuser(user_name, verifier, &ThreadPark::new())?;
    instance.shutdown()
}

fn verifier_of(env: &dyn Env, config: &ServerSettings, password: &str, user_name: &str) -> Result<String> {
    let mut salt = [0; SALT_BYTES];
    env.random_bytes(&mut salt);
    let method = PasswordMethod::of_setting(config.get("password_encryption")).unwrap_or(PasswordMethod::ScramSha256);
    password::encrypt(password, method, user_name, config.number("scram_iterations") as i32, salt)
}

/// What may stand in a line for the Unix socket, and in one for the network.
const LOCAL_METHODS: [&str; 7] = ["trust", "reject", "scram-sha-256", "md5", "password", "peer", "ident"];
const HOST_METHODS: [&str; 5] = ["trust", "reject", "scram-sha-256", "md5", "password"];

fn methods_of(options: &InitOptions) -> Result<RuleMethods> {
    let check = |method: &Option<String>, known: &[&str], kind: &str| match method {
        Some(method) if !known.contains(&method.as_str()) => {
            let message = format!("invalid authentication method \"{method}\" for \"{kind}\" connections");
            Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message))
        }
        _ => Ok(()),
    };
    check(&options.auth_local, &LOCAL_METHODS, "local")?;
    check(&options.auth_host, &HOST_METHODS, "host")?;
    let asks = |method: &Option<String>| {
        method.as_deref().is_some_and(|method| ["scram-sha-256", "md5", "password"].contains(&method))
    };
    let is_asked_everywhere = asks(&options.auth_local) && asks(&options.auth_host);
    if is_asked_everywhere && options.password.is_none() {
        let message = "must specify a password for the superuser to enable password authentication";
        return Err(Error::new(sqlstate::INVALID_PARAMETER_VALUE, message));
    }
    // `ident` is the older word for what the owner's map is for.
    let local = options.auth_local.clone().filter(|method| method != "peer" && method != "ident");
    Ok(RuleMethods { local, host: options.auth_host.clone().unwrap_or_else(|| "trust".into()) })
}

fn read_password(source: &PasswordSource) -> Result<String> {
    let password = match source {
        PasswordSource::File(path) => {
            let failed = |e: io::Error| {
                let message = format!("could not read password from file \"{}\": {e}", path.display());
                Error::new(sqlstate::IO_ERROR, message)
            };
            let text = std::fs::read_to_string(path).map_err(failed)?;
            text.lines().next().unwrap_or_default().to_string()
        }
        PasswordSource::Prompt => {
            let first = prompt("Enter new superuser password: ")?;
            if prompt("Enter it again: ")? != first {
                return Err(Error::new(sqlstate::INVALID_PASSWORD, "Passwords didn't match."));
            }
            first
        }
    };
    if password.is_empty() {
        return Err(Error::new(sqlstate::INVALID_PASSWORD, "the superuser's password is empty"));
    }
    Ok(password)
}

/// Reads a line from the terminal, which does not show it.
fn prompt(text: &str) -> Result<String> {
    let failed = |e: io::Error| Error::new(sqlstate::IO_ERROR, format!("could not read a password: {e}"));
    let terminal = std::fs::File::options().read(true).write(true).open("/dev/tty").map_err(failed)?;
    (&terminal).write_all(text.as_bytes()).map_err(failed)?;
    let fd = terminal.as_raw_fd();
    // SAFETY: numbers, for which zeros are values.
    let mut before: libc::termios = unsafe { std::mem::zeroed() };
    // SAFETY: the descriptor is open, and `before` is a place for what the call writes.
    let is_terminal = unsafe { libc::tcgetattr(fd, &mut before) } == 0;
    let mut silent = before;
    silent.c_lflag &= !libc::ECHO;
    if is_terminal {
        // SAFETY: the descriptor is open, and `silent` came from tcgetattr.
        unsafe { libc::tcsetattr(fd, libc::TCSAFLUSH, &silent) };
    }
    let mut line = String::new();
    let read = io::BufReader::new(&terminal).read_line(&mut line);
    if is_terminal {
        // SAFETY: as above.
        unsafe { libc::tcsetattr(fd, libc::TCSAFLUSH, &before) };
        // The line's end was not shown either.
        let _ = (&terminal).write_all(b"\n");
    }
    read.map_err(failed)?;
    Ok(line.trim_end_matches(['\n', '\r']).to_string())
}
