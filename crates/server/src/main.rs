//! The program `kilndb`: command line, signals, sockets, worker threads and the coroutines on them.
//!
//! Invariants
//! 1. The supervisor does no work of the database: it keeps the sockets and starts the engine again after a crash.
//! 2. A session belongs to one worker thread; what it runs is a coroutine, which waits without holding the thread.
//! 3. A client's message ends its own session at the worst, never the server.
//!
//! Must not know: what a statement means.

mod allocator;
mod apart;
mod authentication;
mod check;
mod cli;
mod code_pages;
mod connection;
mod connection_log;
mod console;
mod crash;
mod folder;
mod guesses;
mod handover;
mod init;
mod inspect;
mod large_blocks;
mod listen;
mod log;
mod lull;
mod machine;
mod memory;
mod notify;
mod protocol;
mod rule_files;
mod runtime;
mod sender;
mod serve;
mod shared;
mod short_load;
mod signals;
mod statement_stack;
mod supervisor;
mod tls;
mod worker;

use std::process::ExitCode;

type Allocator =
    allocator::FreeListAllocator<allocator::CountingAllocator<large_blocks::LargeBlocks<mimalloc::MiMalloc>>>;

#[global_allocator]
static ALLOCATOR: Allocator =
    allocator::FreeListAllocator(allocator::CountingAllocator(large_blocks::LargeBlocks(mimalloc::MiMalloc)));

/// The kernel's name of a process that was started by way of /proc/self/exe is `exe`: who looks for servers, as pkill
/// does, looks for `kilndb`.
fn name_process() {
    // SAFETY: the name is a constant that ends in a zero.
    unsafe { libc::prctl(libc::PR_SET_NAME, c"kilndb".as_ptr()) };
}

fn main() -> ExitCode {
    name_process();
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let done = match cli::parse(&arguments) {
        Ok(cli::Command::Help) => {
            print!("{}", cli::HELP);
            return ExitCode::SUCCESS;
        }
        Ok(cli::Command::Version) => {
            println!(
                "kilndb {} (PostgreSQL {} protocol and dialect)",
                env!("CARGO_PKG_VERSION"),
                kilndb_context::SERVER_VERSION
            );
            return ExitCode::SUCCESS;
        }
        Ok(cli::Command::Serve(options)) => return supervisor::serve(options).unwrap_or_else(|e| failed(&e)),
        Ok(cli::Command::Engine(handover, options)) => serve::serve(options, handover),
        Ok(cli::Command::Check { data_dir }) => return check::check(&data_dir).unwrap_or_else(|e| failed(&e)),
        Ok(cli::Command::Init(options)) => init::init(options),
        Ok(cli::Command::Inspect { data_dir, what }) => inspect::run(&data_dir, &what),
        Ok(cli::Command::Lab(arguments)) => return told(kilndb_lab::command::run(&arguments)),
        Ok(cli::Command::Top(arguments)) => return told(kilndb_lab::top::run(&arguments)),
        Err(message) => {
            eprintln!("kilndb: {message}\nTry \"kilndb --help\" for more information.");
            return ExitCode::from(2);
        }
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => failed(&e),
    }
}

/// Of commands that see servers from outside, whose errors are words.
fn told(done: Result<(), String>) -> ExitCode {
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("kilndb: {message}");
            ExitCode::FAILURE
        }
    }
}

fn failed(e: &kilndb_base::Error) -> ExitCode {
    eprintln!("kilndb: {}", e.message());
    if let Some(detail) = &e.0.detail {
        eprintln!("DETAIL:  {detail}");
    }
    if let Some(hint) = &e.0.hint {
        eprintln!("HINT:  {hint}");
    }
    ExitCode::FAILURE
}
