//! Guards that end what threads of a `std::thread::scope` do.
//!
//! Such a scope waits for its threads, also when the step after their start fails: threads that work until a server
//! dies or a flag is set would be waited for without end. A guard, made before the first step that can fail, ends them
//! on every way out.

use crate::client::Client;
use crate::process::Server;
use std::sync::atomic::{AtomicBool, Ordering};

/// Sets a flag when it goes out of scope.
pub struct SetAtEnd<'a>(pub &'a AtomicBool);

impl Drop for SetAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// Sends a server SIGKILL when it goes out of scope. `killed` is set just before: a client that loses its connection
/// afterwards has seen what it was to see.
pub struct KillAtEnd<'a> {
    pub server: &'a Server,
    pub killed: &'a AtomicBool,
}

impl Drop for KillAtEnd<'_> {
    fn drop(&mut self) {
        self.killed.store(true, Ordering::SeqCst);
        // A server that has ended already is as good: its clients lose their connections too.
        let _ = self.server.signal(libc::SIGKILL);
    }
}

/// A client's connection; None: the server was killed before it got through.
pub fn connect_unless(server: &Server, killed: &AtomicBool) -> Option<Client> {
    match Client::connect(server.address(), "postgres") {
        Ok(client) => Some(client),
        Err(_) if killed.load(Ordering::SeqCst) => None,
        Err(e) => panic!("no connection: {e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::process::{Command, Stdio};
    use std::time::Duration;

    #[test]
    fn a_failed_step_ends_threads_that_wait_for_a_flag() {
        let stop = AtomicBool::new(false);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let _guard = SetAtEnd(&stop);
                scope.spawn(|| {
                    while !stop.load(Ordering::SeqCst) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                });
                panic!("a step fails");
            });
        }));
        assert!(failed.is_err(), "the failure is not hidden");
    }

    #[test]
    fn a_failed_step_ends_threads_that_wait_for_a_server() {
        // What the thread reads ends when the process does.
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("a process");
        let mut output = child.stdout.take().expect("a pipe");
        let _input = child.stdin.take();
        let server = Server::of_child(child);
        let killed = AtomicBool::new(false);
        let failed = catch_unwind(AssertUnwindSafe(|| {
            std::thread::scope(|scope| {
                let _guard = KillAtEnd { server: &server, killed: &killed };
                scope.spawn(|| std::io::copy(&mut output, &mut std::io::sink()));
                panic!("a step fails");
            });
        }));
        assert!(failed.is_err() && killed.load(Ordering::SeqCst));
    }
}
