//! The engine's process: opens the instance, starts workers, accepts connections, waits for a signal, stops.
//!
//! Its sockets are its supervisor's (`crate::supervisor`), which starts another engine when this one crashes.

use crate::cli::ServeOptions;
use crate::code_pages;
use crate::console;
use crate::crash;
use crate::handover::Handover;
use crate::listen::{self, ConnectionDealer};
use crate::log::ServerLog;
use crate::memory;
use crate::rule_files;
use crate::shared::ServerShared;
use crate::signals;
use crate::supervisor;
use crate::tls::TlsSwitch;
use crate::worker::{Worker, WorkerSeat};
use kilndb_base::env::{Env, OsEnv, raise_descriptor_limit};
use kilndb_base::{Result, Severity};
use kilndb_context::authentication::Authentication;
use kilndb_context::log::{LogRecord, LogSink};
use kilndb_context::settings::ServerSettings;
use kilndb_context::{Cluster, ClusterOptions};
use kilndb_sql::Instance;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

pub fn serve(options: ServeOptions, handover: Handover) -> Result<()> {
    signals::block();
    let is_restart = handover.is_restart;
    let inherited = handover.adopt_as_engine()?;
    crash::tell_clients_on_signals();
    raise_descriptor_limit();
    let env: Arc<dyn Env> = Arc::new(OsEnv);
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get());
    let config = Cluster::read_config(&options.data_dir, &options.command_line_settings())?;
    let log = Arc::new(ServerLog::new(env.clone(), options.data_dir.clone()));
    log.configure(&config);
    if is_restart && !config.flag("restart_after_crash") {
        log.tell(Severity::Log, "shutting down because \"restart_after_crash\" is off");
        std::process::exit(supervisor::NO_RESTART_STATUS);
    }
    if is_restart {
        log.tell(Severity::Log, "all server processes terminated; reinitializing");
    }
    if config.get("huge_pages") != "off" {
        // Before there are threads that would have to wait for it.
        code_pages::gather();
    }
    // After code_pages::gather, before there is much to say.
    log.start_writer()?;
    memory::limit_statements(&config, |severity, message| log.tell(severity, message));
    let port = config.port();
    let is_new = rule_files::is_new_cluster(&*env, &options.data_dir)?;
    // Before recovery, which may take long: a certificate that is not there ends the start.
    let tls = Arc::new(TlsSwitch::start(&config, &options.data_dir, is_restart, &*log)?);
    let cluster = ClusterOptions {
        env: env.clone(),
        data_dir: options.data_dir.clone(),
        workers,
        log: Arc::new(EndsOnPanic(log.clone())),
        config,
        accept_lost_log: options.accept_lost_log,
        limits: Default::default(),
    };
    let instance = Instance::open(cluster, vec![Arc::new(kilndb_plpgsql::PlPgSql)])?;

    rule_files::provide(&*env, &instance.cluster, is_new, &log)?;
    let settings = instance.cluster.settings();
    let authentication = &instance.cluster.authentication;
    let start = if is_restart { Authentication::start_again } else { Authentication::start };
    start(authentication, &*env, &options.data_dir, &settings, &*log)?;
    instance.start_autoanalyze()?;

    let (switch, sink) = (tls.clone(), log.clone());
    instance.cluster.on_reload(Arc::new(move |settings| switch.reload(settings, &*sink)));
    let shared = Arc::new(ServerShared::new(instance.clone(), env.clone(), tls));
    let mut inboxes = Vec::new();
    let mut threads = Vec::new();
    for index in 0..workers {
        let seat = WorkerSeat::new(index, shared.clone())?;
        inboxes.push(seat.inbox());
        threads.push(env.spawn(&format!("worker {index}"), Box::new(move || Worker::work(seat)))?);
    }
    let dealer = Arc::new(ConnectionDealer::new(inboxes));
    for listener in inherited.tcp {
        let (dealer, shared) = (dealer.clone(), shared.clone());
        env.spawn("accept tcp", Box::new(move || listen::accept_tcp(listener, dealer, shared)))?;
    }
    for listener in inherited.unix {
        let (dealer, shared) = (dealer.clone(), shared.clone());
        env.spawn("accept unix", Box::new(move || listen::accept_unix(listener, dealer, shared)))?;
    }
    let console = settings.get("console_listen").to_string();
    console::start(&console, &dealer, &shared)?;
    if !console.is_empty() {
        log.tell(Severity::Log, &format!("the console listens on {console}"));
    }
    log.tell(
        Severity::Log,
        &format!("KilnDB {} on port {port} is ready to accept connections", env!("CARGO_PKG_VERSION")),
    );

    let reports = inherited.reports.as_ref();
    report(reports, supervisor::READY);
    wait_for_stop(&instance, &log, reports);
    shared.stop();
    dealer.nudge_all();
    for thread in threads {
        if thread.join().is_err() {
            log.tell(Severity::Warning, "a worker thread failed");
        }
    }
    instance.shutdown()?;
    log.tell(Severity::Log, "database system is shut down");
    log.flush();
    Ok(())
}

/// Until a signal says that the server is to stop in good order; one that says at once ends it here.
fn wait_for_stop(instance: &Instance, log: &ServerLog, reports: Option<&UnixStream>) {
    loop {
        match signals::wait() {
            libc::SIGHUP => {
                log.tell(Severity::Log, "received SIGHUP, reloading configuration files");
                if let Err(e) = instance.cluster.reload_settings() {
                    log.tell(Severity::Log, e.message());
                }
                report(reports, supervisor::RELOADED);
            }
            libc::SIGQUIT => {
                log.tell(Severity::Log, "received immediate shutdown request");
                log.flush();
                std::process::exit(1);
            }
            _ => {
                log.tell(Severity::Log, "received fast shutdown request");
                return;
            }
        }
    }
}

fn report(mut reports: Option<&UnixStream>, what: u8) {
    if let Some(reports) = &mut reports {
        // Without a supervisor there is no engine either.
        let _ = reports.write_all(&[what]);
    }
}

/// The log of an engine, which does not go on after a panic. That is storage's: nothing more can be made durable. Ending
/// here, before anybody who waits is woken, no client is told of a commit that is not durable; the next start recovers.
struct EndsOnPanic(Arc<ServerLog>);

impl LogSink for EndsOnPanic {
    fn write(&self, record: &LogRecord<'_>) {
        self.0.write(record);
        self.end_on(record.fields.severity);
    }
    fn tell(&self, severity: Severity, message: &str) {
        self.0.tell(severity, message);
        self.end_on(severity);
    }
    fn configure(&self, settings: &ServerSettings) {
        self.0.configure(settings);
    }
    fn is_congested(&self) -> bool {
        self.0.is_congested()
    }
}

impl EndsOnPanic {
    fn end_on(&self, severity: Severity) {
        if severity >= Severity::Panic {
            self.0.flush();
            crash::tell_clients();
            std::process::exit(supervisor::STORAGE_PANIC_STATUS);
        }
    }
}
