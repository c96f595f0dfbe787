//! `kilndb serve`: opens the instance, starts workers and listeners, waits for a signal, stops.

use crate::cli::ServeOptions;
use crate::code_pages;
use crate::listen::{self, Dealer};
use crate::shared::Shared;
use crate::worker::{Seat, Worker};
use kilndb_base::env::{Env, OsEnv, raise_descriptor_limit};
use kilndb_base::{Error, Result, Severity, sqlstate};
use kilndb_sql::{Instance, InstanceOptions};
use std::os::fd::AsRawFd;
use std::path::Path;
use std::sync::Arc;

pub fn serve(options: ServeOptions) -> Result<()> {
    block_signals();
    raise_descriptor_limit();
    let env: Arc<dyn Env> = Arc::new(OsEnv);
    prepare_data_dir(&options.data_dir)?;
    let _lock = lock_data_dir(&options.data_dir)?;
    let workers = std::thread::available_parallelism().map_or(2, |n| n.get());
    let mut settings = options.settings.clone();
    if let Some(host) = &options.host {
        settings.push(("listen_addresses".into(), host.clone()));
    }
    if let Some(port) = options.port {
        settings.push(("port".into(), port.to_string()));
    }
    if let Some(dir) = &options.socket_dir {
        settings.push(("unix_socket_directories".into(), dir.display().to_string()));
    }
    let config = Instance::read_config(&options.data_dir, &settings)?;
    if config.get("huge_pages") != "off" {
        // Before there are threads that would have to wait for it.
        code_pages::gather();
    }
    // Ports first: a taken one must not cost a recovery.
    let port = config.port();
    let tcp: Vec<_> =
        config.listen_addresses().iter().map(|host| listen::bind_tcp(host, port)).collect::<Result<_>>()?;
    let unix: Vec<_> =
        config.socket_directories().iter().map(|dir| listen::bind_unix(Path::new(dir), port)).collect::<Result<_>>()?;
    let log: Arc<dyn Fn(Severity, &str) + Send + Sync> = Arc::new(log_or_end);
    let instance = Instance::open(InstanceOptions {
        env: env.clone(),
        data_dir: options.data_dir.clone(),
        workers,
        log,
        config,
        accept_lost_log: options.accept_lost_log,
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
    let socket_paths: Vec<_> = unix.iter().map(|(_, path)| path.clone()).collect();
    for listener in tcp {
        let (dealer, shared) = (dealer.clone(), shared.clone());
        env.spawn("accept tcp", Box::new(move || listen::accept_tcp(listener, dealer, shared)))?;
    }
    for (listener, _) in unix {
        let (dealer, shared) = (dealer.clone(), shared.clone());
        env.spawn("accept unix", Box::new(move || listen::accept_unix(listener, dealer, shared)))?;
    }
    log_line(
        Severity::Log,
        &format!("KilnDB {} on port {port} is ready to accept connections", env!("CARGO_PKG_VERSION")),
    );

    let signal = wait_for_signal();
    for path in &socket_paths {
        // Already gone is as good.
        let _ = std::fs::remove_file(path);
    }
    if signal == libc::SIGQUIT {
        log_line(Severity::Log, "received immediate shutdown request");
        std::process::exit(1);
    }
    log_line(Severity::Log, "received fast shutdown request");
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

/// A panic is that of storage: nothing more can be made durable. Ending here, before anybody who waits is woken, no
/// client is told anything; the next start recovers.
fn log_or_end(severity: Severity, message: &str) {
    log_line(severity, message);
    if severity >= Severity::Panic {
        std::process::exit(1);
    }
}

fn log_line(severity: Severity, message: &str) {
    eprintln!("{}:  {message}", severity.as_str());
}

fn prepare_data_dir(dir: &Path) -> Result<()> {
    let fail = |e: std::io::Error| {
        Error::new(sqlstate::IO_ERROR, format!("could not use data folder \"{}\": {e}", dir.display()))
    };
    std::fs::create_dir_all(dir).map_err(fail)?;
    use std::os::unix::fs::PermissionsExt;
    let empty = std::fs::read_dir(dir).map_err(fail)?.next().is_none();
    if empty {
        std::fs::set_permissions(dir, std::fs::Permissions::from_mode(0o700)).map_err(fail)?;
    }
    Ok(())
}

/// Tells which process serves the folder, and locks the file against older servers, which lock nothing else (storage
/// locks the folder itself). The kernel drops the lock with the process.
fn lock_data_dir(dir: &Path) -> Result<std::fs::File> {
    let path = dir.join("kilndb.pid");
    let fail =
        |e: std::io::Error| Error::new(sqlstate::IO_ERROR, format!("could not write \"{}\": {e}", path.display()));
    let file =
        std::fs::OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).map_err(fail)?;
    // SAFETY: the descriptor is open.
    if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } != 0 {
        let message = format!("data folder \"{}\" is in use by another kilndb server", dir.display());
        return Err(Error::new(sqlstate::OBJECT_IN_USE, message));
    }
    use std::os::unix::fs::FileExt;
    file.set_len(0).map_err(fail)?;
    file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0).map_err(fail)?;
    Ok(file)
}

/// Threads inherit the mask, so only `wait_for_signal` takes them.
fn block_signals() {
    let set = stop_signals();
    // SAFETY: `set` is an initialised signal set.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // A file that may not grow any more is an error of whoever writes to it.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

fn stop_signals() -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT] {
            libc::sigaddset(&mut set, signal);
        }
        set
    }
}

fn wait_for_signal() -> i32 {
    let set = stop_signals();
    let mut signal = 0;
    // SAFETY: both pointers are valid for the call.
    while unsafe { libc::sigwait(&set, &mut signal) } != 0 {}
    signal
}
