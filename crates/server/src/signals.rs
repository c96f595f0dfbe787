//! Signals that the server acts upon: blocked in every thread, and taken where somebody waits for them.
//!
//! Must not know: what a signal makes a process do.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};

const TAKEN: [libc::c_int; 4] = [libc::SIGTERM, libc::SIGINT, libc::SIGQUIT, libc::SIGHUP];

/// Threads inherit the mask, and so do programs that are started; only who waits for the signals takes them.
pub fn block() {
    let set = set_of(&TAKEN);
    // SAFETY: `set` is an initialised signal set.
    unsafe {
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
        libc::signal(libc::SIGPIPE, libc::SIG_IGN);
        // A file that may not grow any more is an error of whoever writes to it.
        libc::signal(libc::SIGXFSZ, libc::SIG_IGN);
    }
}

fn set_of(signals: &[libc::c_int]) -> libc::sigset_t {
    // SAFETY: sigemptyset initialises the set before it is used.
    unsafe {
        let mut set = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        set
    }
}

/// The next signal; all have been blocked.
pub fn wait() -> libc::c_int {
    let set = set_of(&TAKEN);
    let mut signal = 0;
    // SAFETY: both pointers are valid for the call.
    while unsafe { libc::sigwait(&set, &mut signal) } != 0 {}
    signal
}

/// As PostgreSQL's log has it: `Segmentation fault`.
pub fn describe(signal: libc::c_int) -> String {
    // SAFETY: strsignal answers a text that lasts until the next call; nobody else calls it.
    unsafe {
        let text = libc::strsignal(signal);
        if text.is_null() {
            return "unrecognized signal".into();
        }
        std::ffi::CStr::from_ptr(text).to_string_lossy().into_owned()
    }
}

/// The signals that [`wait`] waits for, and the end of child processes, as a descriptor that can be polled.
pub struct SignalFd(OwnedFd);

impl SignalFd {
    pub fn new() -> io::Result<SignalFd> {
        let set = set_of(&[&TAKEN[..], &[libc::SIGCHLD]].concat());
        // SAFETY: `set` is initialised. The default action keeps a child that has ended until it is waited for, also
        // if whoever has started this process did not care for its own children.
        unsafe {
            libc::signal(libc::SIGCHLD, libc::SIG_DFL);
            libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
            match libc::signalfd(-1, &set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) {
                -1 => Err(io::Error::last_os_error()),
                fd => Ok(SignalFd(OwnedFd::from_raw_fd(fd))),
            }
        }
    }

    /// The next signal, if there is one.
    pub fn take(&self) -> Option<libc::c_int> {
        use std::os::fd::AsRawFd;
        // SAFETY: the structure is plain numbers, and as long as is told.
        unsafe {
            let mut info: libc::signalfd_siginfo = std::mem::zeroed();
            let length = std::mem::size_of_val(&info);
            let got = libc::read(self.0.as_raw_fd(), (&raw mut info).cast(), length);
            (got == length as isize).then_some(info.ssi_signo as libc::c_int)
        }
    }
}

impl AsFd for SignalFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
