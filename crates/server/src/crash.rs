//! The last words of an engine that crashes: its clients are told, with SQLSTATE 57P02, before it ends.
//!
//! A table has one byte for each descriptor, which says whether a session's socket is behind it. When a fatal signal
//! arrives (or storage panics) a message that was made beforehand is sent to all of them.
//!
//! Invariants
//! 1. What runs in a signal handler allocates nothing, takes no lock, and touches only atomics and the kernel: whoever
//!    was interrupted may hold any lock, and memory may be damaged.
//! 2. The signal has its former effect afterwards: the process ends by it (with a core dump where that is wanted), and
//!    its parent sees which it was.
//! 3. A descriptor is in the table from its session's first reply until before it is closed.
//! 4. No message goes into the middle of another: a socket that has taken only a part of what is to be sent is left out.
//!
//! Must not know: sessions, statements. Handlers run on the alternate stack that std gives each of its threads: a stack
//! that has overflowed has no room for one.

use kilndb_base::sync::OnceLock;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU8, AtomicUsize, Ordering};
use std::os::fd::RawFd;

/// Descriptors from here on are not told; few systems allow so many. Only bytes that are used cost memory.
const DESCRIPTORS: usize = 1 << 20;
const NOT_A_SESSION: u8 = 0;
const BETWEEN_MESSAGES: u8 = 1;
const WITHIN_A_MESSAGE: u8 = 2;

static SOCKETS: [AtomicU8; DESCRIPTORS] = [const { AtomicU8::new(NOT_A_SESSION) }; DESCRIPTORS];
/// No session's socket has a descriptor from here on.
static END: AtomicUsize = AtomicUsize::new(0);

const SIGNALS: [libc::c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGABRT, libc::SIGILL, libc::SIGFPE];
/// What the signals did before.
static FORMER: OnceLock<[libc::sigaction; SIGNALS.len()]> = OnceLock::new();
/// Set by the one thread that tells the clients; others that crash meanwhile wait until it has.
static IS_BEGUN: AtomicBool = AtomicBool::new(false);
static IS_DONE: AtomicBool = AtomicBool::new(false);

/// PostgreSQL's words.
const FIELDS: &[u8] = b"SFATAL\0VFATAL\0C57P02\0\
Mterminating connection because of crash of another server process\0\
DThe postmaster has commanded this server process to roll back the current transaction and exit, \
because another server process exited abnormally and possibly corrupted shared memory.\0\
HIn a moment you should be able to reconnect to the database and repeat your command.\0\0";

/// An ErrorResponse.
static MESSAGE: [u8; FIELDS.len() + 5] = {
    let mut message = [0; FIELDS.len() + 5];
    message[0] = b'E';
    let length = (FIELDS.len() as u32 + 4).to_be_bytes();
    let mut i = 0;
    while i < FIELDS.len() + 4 {
        message[i + 1] = if i < 4 { length[i] } else { FIELDS[i - 4] };
        i += 1;
    }
    message
};

/// The socket of a session has taken what was to be sent, or not all of it yet.
pub fn note(socket: RawFd, has_taken_all: bool) {
    let state = if has_taken_all { BETWEEN_MESSAGES } else { WITHIN_A_MESSAGE };
    let Some(place) = usize::try_from(socket).ok().and_then(|fd| SOCKETS.get(fd)) else { return };
    // Neighbours in the table belong to other workers: it is written to only when something changes.
    if place.load(Ordering::Relaxed) != state {
        place.store(state, Ordering::Release);
        END.fetch_max(socket as usize + 1, Ordering::AcqRel);
    }
}

/// The socket is about to be closed.
pub fn forget(socket: RawFd) {
    if let Some(place) = usize::try_from(socket).ok().and_then(|fd| SOCKETS.get(fd)) {
        place.store(NOT_A_SESSION, Ordering::Release);
    }
}

/// Tells all clients that the server has crashed, once. The process must end now.
pub fn tell_clients() {
    if IS_BEGUN.swap(true, Ordering::AcqRel) {
        // Whoever began it is at it still, or has itself crashed: it is waited for, but not for ever.
        let pause = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        for _ in 0..1000 {
            if IS_DONE.load(Ordering::Acquire) {
                return;
            }
            // SAFETY: the structure is valid; what is left of the pause is not asked for.
            unsafe { libc::nanosleep(&pause, std::ptr::null_mut()) };
        }
        return;
    }
    let end = END.load(Ordering::Acquire).min(DESCRIPTORS);
    for (fd, place) in SOCKETS.iter().enumerate().take(end) {
        if place.load(Ordering::Acquire) == BETWEEN_MESSAGES {
            // SAFETY: the message is static. A descriptor that was closed meanwhile is an error, which nobody minds; so
            // is a socket that is full.
            unsafe {
                libc::send(fd as RawFd, MESSAGE.as_ptr().cast(), MESSAGE.len(), libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL)
            };
        }
    }
    IS_DONE.store(true, Ordering::Release);
}

/// Makes fatal signals tell the clients first. Called before there are other threads.
pub fn tell_clients_on_signals() {
    FORMER.get_or_init(|| {
        // SAFETY: the structures are plain data, filled before they are used; `handle` does only what a handler may
        // (invariant 1). SA_ONSTACK falls back on the current stack in a thread without an alternate one.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            // A fatal signal within the handler ends the process at once.
            SIGNALS.iter().for_each(|s| _ = libc::sigaddset(&mut action.sa_mask, *s));
            SIGNALS.map(|signal| {
                let mut former: libc::sigaction = std::mem::zeroed();
                libc::sigaction(signal, &action, &mut former);
                former
            })
        }
    });
}

extern "C" fn handle(signal: libc::c_int, info: *mut libc::siginfo_t, _: *mut libc::c_void) {
    tell_clients();
    // SAFETY: the kernel hands over a valid description.
    let is_fault = !info.is_null() && unsafe { (*info).si_code } > 0;
    let former = FORMER.get().and_then(|all| Some(all[SIGNALS.iter().position(|s| *s == signal)?]));
    // SAFETY: only system calls that a handler may make. A fault happens again when this returns, and meets what there
    // was before: std's handler, which says when a thread has overflowed its stack, or the default. What somebody has
    // sent does not come again by itself: it is sent to this thread, and acts as soon as this returns.
    unsafe {
        match former {
            Some(former) if is_fault => {
                libc::sigaction(signal, &former, std::ptr::null_mut());
            }
            _ => {
                libc::signal(signal, libc::SIG_DFL);
                libc::syscall(libc::SYS_tgkill, libc::getpid(), libc::syscall(libc::SYS_gettid), signal);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corosensei::stack::DefaultStack;
    use corosensei::{Coroutine, CoroutineResult};
    use std::io::{Read, Write};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::UnixStream;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::{Command, Stdio};

    /// The variable that tells a test's process how it is to crash.
    const HOW: &str = "KILNDB_TEST_CRASH";

    #[test]
    fn the_message_is_whole() {
        assert_eq!(MESSAGE[0], b'E');
        assert_eq!(u32::from_be_bytes(MESSAGE[1..5].try_into().unwrap()) as usize, MESSAGE.len() - 1);
        let fields: Vec<&[u8]> = MESSAGE[5..].split(|b| *b == 0).collect();
        assert_eq!(fields.iter().map(|f| f.first().copied().unwrap_or(0)).collect::<Vec<_>>(), b"SVCMDH\0\0");
        assert_eq!(fields[2], b"C57P02");
    }

    /// What the next test runs in a process of its own; it is no test by itself. Descriptor 0 is a session's socket.
    #[test]
    fn crash_as_told() {
        let Ok(how) = std::env::var(HOW) else { return };
        tell_clients_on_signals();
        note(0, how != "within");
        let thread = std::thread::spawn(move || match how.as_str() {
            "overflow" => overflow_of_a_coroutine(),
            "abort" => std::process::abort(),
            "thread" => assert_ne!(deeper(u64::MAX), 1),
            // SAFETY: not safe at all.
            _ => unsafe { std::ptr::without_provenance_mut::<u8>(8).write_volatile(1) },
        });
        thread.join().unwrap();
    }

    #[inline(never)]
    fn deeper(n: u64) -> u64 {
        let room = std::hint::black_box([n; 64]);
        if n == 0 { 0 } else { deeper(n - 1) + room[n as usize % 64] }
    }

    fn overflow_of_a_coroutine() {
        let stack = DefaultStack::new(64 * 1024).unwrap();
        let mut coroutine = Coroutine::<(), (), u64>::with_stack(stack, |_, ()| deeper(u64::MAX));
        assert!(matches!(coroutine.resume(()), CoroutineResult::Return(1)));
    }

    #[test]
    fn clients_are_told_and_the_signal_has_its_effect() {
        for (how, signal, is_told) in [
            ("fault", libc::SIGSEGV, true),
            ("abort", libc::SIGABRT, true),
            ("overflow", libc::SIGSEGV, true),
            // std says so and aborts.
            ("thread", libc::SIGABRT, true),
            ("within", libc::SIGSEGV, false),
        ] {
            let (mut client, server) = UnixStream::pair().unwrap();
            let mut command = Command::new("/proc/self/exe");
            command.args(["crash::tests::crash_as_told", "--exact", "--test-threads=1"]).env(HOW, how);
            command.stdin(Stdio::from(std::os::fd::OwnedFd::from(server))).stdout(Stdio::null());
            let no_core = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: a system call on a structure of the closure's own.
            unsafe { command.pre_exec(move || Ok(_ = libc::setrlimit(libc::RLIMIT_CORE, &no_core))) };
            let output = command.output().unwrap();
            drop(command);
            assert_eq!(output.status.signal(), Some(signal), "{how}: {output:?}");
            let mut got = Vec::new();
            client.read_to_end(&mut got).unwrap();
            assert_eq!(got, if is_told { &MESSAGE[..] } else { b"" }, "{how}");
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(said.contains("has overflowed its stack"), how == "thread", "{how}: {said}");
        }
    }

    #[test]
    fn a_socket_that_is_closed_is_forgotten() {
        let (a, mut b) = UnixStream::pair().unwrap();
        let place = &SOCKETS[a.as_raw_fd() as usize];
        note(a.as_raw_fd(), true);
        assert_eq!(place.load(Ordering::Relaxed), BETWEEN_MESSAGES);
        note(a.as_raw_fd(), false);
        assert_eq!(place.load(Ordering::Relaxed), WITHIN_A_MESSAGE);
        forget(a.as_raw_fd());
        assert_eq!(place.load(Ordering::Relaxed), NOT_A_SESSION);
        assert!(END.load(Ordering::Relaxed) > a.as_raw_fd() as usize);
        note(-1, true);
        note(RawFd::MAX, true);
        b.write_all(b"x").unwrap();
    }
}
