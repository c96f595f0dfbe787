//! The command line.

use crate::handover::Handover;
use crate::init::PasswordSource;
use crate::inspect;
use std::ffi::OsString;
use std::path::PathBuf;

pub const HELP: &str = "\
kilndb is a database server for hot data that speaks PostgreSQL's protocol and dialect.

Usage:
  kilndb init -D DIR [-U NAME] [-A METHOD] [--auth-local METHOD] [--auth-host METHOD] [-W | --pwfile FILE]
  kilndb serve -D DIR [-h HOST] [-p PORT] [-k SOCKET_DIR] [-c NAME=VALUE]... [--accept-lost-log]
  kilndb check -D DIR
  kilndb inspect relations|log|page|tree|undo -D DIR [...]
  kilndb lab list|run|report|compare [...]
  kilndb top [URI] [--interval SECONDS] [--once]
  kilndb --version
  kilndb --help

init    makes a cluster in DIR, which is missing or empty
  -U, --username NAME     what the superuser is called (default: postgres)
  -A, --auth METHOD       how connections prove who they are: trust, scram-sha-256, md5, password, reject;
                          through the Unix socket also peer (default: peer there, trust from 127.0.0.1 and ::1)
  --auth-local METHOD     the same through the Unix socket alone
  --auth-host METHOD      the same from 127.0.0.1 and ::1 alone
  -W, --pwprompt          asks for the superuser's password
  --pwfile FILE           reads it from the first line of a file

serve   starts the server; makes the cluster if DIR is missing or empty
  -D DIR          where the data is
  -h HOST         address to listen on (default 127.0.0.1)
  -p PORT         port, and the number in the Unix socket's name (default 5432)
  -k SOCKET_DIR   folder of the Unix socket (default: none)
  -c NAME=VALUE   a setting, as in DIR/kilndb.conf
  --accept-lost-log
                  a damaged log is taken for one that ends there, instead of
                  refusing to start: what follows is lost, and what is left
                  may contradict itself

check   verifies every structure of a cluster that no server has open; exit 1 if something is wrong

inspect shows a structure of a cluster that no server has open in words, and writes nothing;
        RELATION is a table's or an index's pg_class.relfilenode
  inspect relations -D DIR            what the last checkpoint notes
  inspect log  -D DIR [--from LSN] [--to LSN]
                                      records of the log, from where recovery would begin
  inspect page -D DIR RELATION BLOCK  a page: its header, and rows or entries
  inspect tree -D DIR RELATION [--keys]
                                      an index: levels, nodes, how full they are, keys
  inspect undo -D DIR RELATION BLOCK SLOT
                                      the versions of a row

lab     runs experiments on this and other servers side by side, and reports which choice is the fast one:
        \"kilndb lab help\" says more

top     shows what a server does in the terminal, until Ctrl-C
";

/// The word for an engine that a supervisor starts.
pub const ENGINE: &str = "engine";

#[derive(Clone, Debug)]
pub struct ServeOptions {
    pub data_dir: PathBuf,
    pub host: Option<String>,
    pub port: Option<u16>,
    pub socket_dir: Option<PathBuf>,
    pub settings: Vec<(String, String)>,
    pub accept_lost_log: bool,
}

impl ServeOptions {
    /// The arguments that these options are made of.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut all = vec!["-D".into(), self.data_dir.clone().into_os_string()];
        if let Some(host) = &self.host {
            all.extend(["-h".into(), host.into()]);
        }
        if let Some(port) = self.port {
            all.extend(["-p".into(), port.to_string().into()]);
        }
        if let Some(dir) = &self.socket_dir {
            all.extend(["-k".into(), dir.into()]);
        }
        for (name, value) in &self.settings {
            all.extend(["-c".into(), format!("{name}={value}").into()]);
        }
        if self.accept_lost_log {
            all.push("--accept-lost-log".into());
        }
        all
    }

    /// Settings of the command line; the last of a name counts.
    pub fn command_line_settings(&self) -> Vec<(String, String)> {
        let mut settings = self.settings.clone();
        if let Some(host) = &self.host {
            settings.push(("listen_addresses".into(), host.clone()));
        }
        if let Some(port) = self.port {
            settings.push(("port".into(), port.to_string()));
        }
        if let Some(dir) = &self.socket_dir {
            settings.push(("unix_socket_directories".into(), dir.display().to_string()));
        }
        settings
    }
}

#[derive(Clone, Debug)]
pub struct InitOptions {
    pub data_dir: PathBuf,
    pub user_name: String,
    pub auth_local: Option<String>,
    pub auth_host: Option<String>,
    pub password: Option<PasswordSource>,
}

#[derive(Debug)]
pub enum Command {
    Help,
    Version,
    Init(InitOptions),
    Serve(ServeOptions),
    /// What a supervisor starts (`crate::supervisor`); not for people, and so not in the help.
    Engine(Handover, ServeOptions),
    Check {
        data_dir: PathBuf,
    },
    Inspect {
        data_dir: PathBuf,
        what: inspect::InspectedPart,
    },
    /// The lab reads its own arguments.
    Lab(Vec<String>),
    /// As the lab.
    Top(Vec<String>),
}

pub fn parse(arguments: &[String]) -> Result<Command, String> {
    match arguments.first().map(String::as_str) {
        None | Some("--help" | "-?" | "help") => Ok(Command::Help),
        Some("--version" | "-V") => Ok(Command::Version),
        Some("init") => parse_init(&arguments[1..]).map(Command::Init),
        Some("serve") => parse_serve(&arguments[1..]).map(Command::Serve),
        Some(ENGINE) => {
            let handover = arguments.get(1).ok_or("nothing was handed over")?.parse()?;
            Ok(Command::Engine(handover, parse_serve(&arguments[2..])?))
        }
        Some("check") => {
            let options = parse_serve(&arguments[1..])?;
            Ok(Command::Check { data_dir: options.data_dir })
        }
        Some("inspect") => {
            let (data_dir, what) = inspect::parse(&arguments[1..])?;
            Ok(Command::Inspect { data_dir, what })
        }
        Some("top") => Ok(Command::Top(arguments[1..].to_vec())),
        Some("lab") => Ok(Command::Lab(arguments[1..].to_vec())),
        Some(other) => Err(format!("unknown command \"{other}\"")),
    }
}

fn parse_init(arguments: &[String]) -> Result<InitOptions, String> {
    let mut data_dir = None;
    let mut options = InitOptions {
        data_dir: PathBuf::new(),
        user_name: "postgres".into(),
        auth_local: None,
        auth_host: None,
        password: None,
    };
    let (mut auth_local, mut auth_host) = (None, None);
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        // `--name=value` and `--name value` are the same.
        let (flag, attached) = match argument.split_once('=').filter(|(flag, _)| flag.starts_with("--")) {
            Some((flag, value)) => (flag, Some(value.to_string())),
            None => (argument.as_str(), None),
        };
        let mut value =
            || attached.clone().or_else(|| rest.next().cloned()).ok_or_else(|| format!("option {flag} needs a value"));
        match flag {
            "-D" | "--pgdata" => data_dir = Some(PathBuf::from(value()?)),
            "-U" | "--username" => options.user_name = value()?,
            "-A" | "--auth" => {
                let method = value()?;
                (options.auth_local, options.auth_host) = (Some(method.clone()), Some(method));
            }
            "--auth-local" => auth_local = Some(value()?),
            "--auth-host" => auth_host = Some(value()?),
            "--pwfile" | "-W" | "--pwprompt" if options.password.is_some() => {
                return Err("password prompt and password file cannot be specified together".into());
            }
            "--pwfile" => options.password = Some(PasswordSource::File(value()?.into())),
            "-W" | "--pwprompt" => options.password = Some(PasswordSource::Prompt),
            other => return Err(format!("unknown option \"{other}\"")),
        }
    }
    // What is said of one kind wins, wherever it stands.
    options.auth_local = auth_local.or(options.auth_local);
    options.auth_host = auth_host.or(options.auth_host);
    options.data_dir = data_dir.ok_or("no data folder given (-D DIR)")?;
    Ok(options)
}

fn parse_serve(arguments: &[String]) -> Result<ServeOptions, String> {
    let mut data_dir = None;
    let mut options = ServeOptions {
        data_dir: PathBuf::new(),
        host: None,
        port: None,
        socket_dir: None,
        settings: Vec::new(),
        accept_lost_log: false,
    };
    let mut rest = arguments.iter();
    while let Some(flag) = rest.next() {
        let mut value = || rest.next().cloned().ok_or_else(|| format!("option {flag} needs a value"));
        match flag.as_str() {
            "-D" => data_dir = Some(PathBuf::from(value()?)),
            "-h" => options.host = Some(value()?),
            "-p" => {
                let text = value()?;
                options.port = Some(text.parse().map_err(|_| format!("invalid port number \"{text}\""))?);
            }
            "-k" => options.socket_dir = Some(PathBuf::from(value()?)),
            "-c" => {
                let text = value()?;
                let (name, setting) =
                    text.split_once('=').ok_or_else(|| format!("-c needs NAME=VALUE, not \"{text}\""))?;
                options.settings.push((name.trim().to_string(), setting.to_string()));
            }
            "--accept-lost-log" => options.accept_lost_log = true,
            other => return Err(format!("unknown option \"{other}\"")),
        }
    }
    options.data_dir = data_dir.ok_or("no data folder given (-D DIR)")?;
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        text.split_whitespace().map(str::to_string).collect()
    }

    #[test]
    fn serve_takes_its_options() {
        let Ok(Command::Serve(o)) = parse(&words("serve -D d -p 5433 -c fsync=off")) else { panic!() };
        assert_eq!((o.port, o.settings), (Some(5433), vec![("fsync".into(), "off".into())]));
        assert!(!o.accept_lost_log);
        let Ok(Command::Serve(o)) = parse(&words("serve --accept-lost-log -D d")) else { panic!() };
        assert!(o.accept_lost_log);
    }

    #[test]
    fn options_go_on_as_arguments() {
        let line = "serve -D d -h * -p 5433 -k /run/k -c fsync=off -c work_mem=4MB --accept-lost-log";
        let Ok(Command::Serve(o)) = parse(&words(line)) else { panic!() };
        let again: Vec<String> = o.arguments().into_iter().map(|a| a.into_string().unwrap()).collect();
        assert_eq!(again, words(line)[1..]);
        let Ok(Command::Engine(_, o)) = parse(&words(&format!("engine supervisor=1 {}", &line[6..]))) else { panic!() };
        assert_eq!(o.command_line_settings().len(), 5);
        assert!(parse(&words("engine -D d")).is_err());
    }

    #[test]
    fn init_takes_its_options() {
        let line = "init -D d --username=anna --auth-local peer -A scram-sha-256 --pwfile=p";
        let Ok(Command::Init(o)) = parse(&words(line)) else { panic!() };
        assert_eq!((o.user_name.as_str(), o.auth_local.as_deref()), ("anna", Some("peer")));
        assert_eq!(o.auth_host.as_deref(), Some("scram-sha-256"));
        assert_eq!(o.password, Some(PasswordSource::File("p".into())));
        for wrong in ["init", "init -D d -W --pwfile p", "init -D d --frob", "init -D"] {
            assert!(parse(&words(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_is_unknown_is_refused() {
        assert!(parse(&words("serve -D d --frob")).is_err());
        assert!(parse(&words("serve")).is_err());
        assert!(parse(&words("serve -D d -p 99999")).is_err());
    }
}
