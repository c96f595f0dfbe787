//! The engine's process: opens the instance, starts workers, accepts connections, waits for a signal, stops.
//!
//! Its sockets are its supervisor's (`crate::supervisor`), which starts another engine when this one crashes.

use crate::cli::ServeOptions;
use crate::code_pages;
use crate::crash;
use crate::handover::Handover;
use crate::listen::{self, Dealer};
use crate::log::write as log_line;
use crate::memory;
use crate::shared::Shared;
use crate::signals;
use crate::supervisor;
use crate::worker::{Seat, Worker};
use kilndb_base::env::{Env, OsEnv, raise_descriptor_limit};
use kilndb_base::{Result, Severity};
use kilndb_sql::{Instance, InstanceOptions};
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
    let config = Instance::read_config(&options.data_dir, &options.command_line_settings())?;
    if is_restart && !config.flag("restart_after_crash") {
        log_line(Severity::Log, "shutting down because \"restart_after_crash\" is off");
        std::process::exit(supervisor::NO_RESTART_STATUS);
    }
    if is_restart {
        log_line(Severity::Log, "all server processes terminated; reinitializing");
    }
    if config.get("huge_pages") != "off" {
        // Before there are threads that would have to wait for it.
        code_pages::gather();
    }
    memory::limit_statements(&config, log_line);
    let port = config.port();
    let log: Arc<dyn Fn(Severity, &str) + Send + Sync> = Arc::new(log_or_end);
    let instance = Instance::open(InstanceOptions {
        env: env.clone(),
        data_dir: options.data_dir.clone(),
        workers,
        log,
        config,
        accept_lost_log: options.accept_lost_log,
        limits: Default::default(),
        languages: vec![Arc::new(kilndb_plpgsql::PlPgSql)],
    })?;

    let shared = Arc::new(Shared::new(instance.clone(), env.clone()));
    let mut inboxes = Vec::new();
    let mut threads = Vec::new();
    for index in 0..workers {
        let seat = Seat::new(index, shared.clone())?;
        inboxes.push(seat.inbox());
        threads.push(env.spawn(&format!("worker {index}"), Box::new(move || Worker::work(seat)))?);
    }
    let dealer = Arc::new(Dealer::new(inboxes));
    for listener in inherited.tcp {
        let (dealer, shared) = (dealer.clone(), shared.clone());
        env.spawn("accept tcp", Box::new(move || listen::accept_tcp(listener, dealer, shared)))?;
    }
    for listener in inherited.unix {
        let (dealer, shared) = (dealer.clone(), shared.clone());
        env.spawn("accept unix", Box::new(move || listen::accept_unix(listener, dealer, shared)))?;
    }
    log_line(
        Severity::Log,
        &format!("KilnDB {} on port {port} is ready to accept connections", env!("CARGO_PKG_VERSION")),
    );

    let reports = inherited.reports.as_ref();
    report(reports, supervisor::READY);
    wait_for_stop(&instance, reports);
    shared.stop();
    dealer.nudge_all();
    for thread in threads {
        if thread.join().is_err() {
            log_line(Severity::Warning, "a worker thread failed");
        }
    }
    instance.shutdown()?;
    log_line(Severity::Log, "database system is shut down");
    Ok(())
}

/// Until a signal says that the server is to stop in good order; one that says at once ends it here.
fn wait_for_stop(instance: &Instance, reports: Option<&UnixStream>) {
    loop {
        match signals::wait() {
            libc::SIGHUP => {
                log_line(Severity::Log, "received SIGHUP, reloading configuration files");
                if let Err(e) = instance.reload_settings() {
                    log_line(Severity::Log, e.message());
                }
                report(reports, supervisor::RELOADED);
            }
            libc::SIGQUIT => {
                log_line(Severity::Log, "received immediate shutdown request");
                std::process::exit(1);
            }
            _ => {
                log_line(Severity::Log, "received fast shutdown request");
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

/// A panic is that of storage: nothing more can be made durable. Ending here, before anybody who waits is woken, no
/// client is told of a commit that is not durable; the next start recovers.
fn log_or_end(severity: Severity, message: &str) {
    log_line(severity, message);
    if severity >= Severity::Panic {
        crash::tell_clients();
        std::process::exit(supervisor::STORAGE_PANIC_STATUS);
    }
}
