//! What a supervisor hands over, as one word: descriptors and its process id, to the engine that it starts, and before
//! that, when it has bound its sockets, to itself.
//!
//! Invariants
//! 1. A descriptor has the same number in both processes: it is open before the engine is started and not moved.
//! 2. Each number is adopted once; nobody else in the engine knows it.
//! 3. An engine does not outlive its supervisor: the kernel kills it (SIGKILL) when the supervisor ends, and an engine
//!    whose supervisor has ended before it could ask for that ends by itself.
//!
//! Must not know: what the sockets are bound to, and what the engine does.

use kilndb_base::{Error, Result, sqlstate};
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::str::FromStr;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Handover {
    /// The supervisor's process id.
    pub supervisor: i32,
    /// The locked `kilndb.pid`: locked until both processes have closed it.
    pub lock: Option<RawFd>,
    /// Where the engine says how it is.
    pub reports: Option<RawFd>,
    pub tcp: Vec<RawFd>,
    pub unix: Vec<RawFd>,
    /// Another engine has crashed before.
    pub is_restart: bool,
}

/// What was handed over, as values.
pub struct AdoptedDescriptors {
    /// The lock of the data folder, to be held for as long as the process lives.
    pub lock: Option<OwnedFd>,
    pub reports: Option<UnixStream>,
    pub tcp: Vec<TcpListener>,
    pub unix: Vec<UnixListener>,
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "supervisor={},restart={}", self.supervisor, u8::from(self.is_restart))?;
        self.lock.iter().try_for_each(|fd| write!(f, ",lock={fd}"))?;
        self.reports.iter().try_for_each(|fd| write!(f, ",reports={fd}"))?;
        self.tcp.iter().try_for_each(|fd| write!(f, ",tcp={fd}"))?;
        self.unix.iter().try_for_each(|fd| write!(f, ",unix={fd}"))
    }
}

impl FromStr for Handover {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Handover, String> {
        let mut handover = Handover::default();
        for part in text.split(',') {
            let wrong = || format!("\"{part}\" cannot be handed over");
            let (name, number) = part.split_once('=').ok_or_else(wrong)?;
            let number: i32 = number.parse().map_err(|_| wrong())?;
            match name {
                "supervisor" => handover.supervisor = number,
                "restart" => handover.is_restart = number != 0,
                "lock" => handover.lock = Some(number),
                "reports" => handover.reports = Some(number),
                "tcp" => handover.tcp.push(number),
                "unix" => handover.unix.push(number),
                _ => return Err(wrong()),
            }
        }
        let all: Vec<RawFd> = handover.descriptors().collect();
        let is_new = |(i, fd): (usize, &RawFd)| *fd > libc::STDERR_FILENO && !all[..i].contains(fd);
        match all.iter().enumerate().all(is_new) {
            true => Ok(handover),
            false => Err(format!("the descriptors of \"{text}\" contradict themselves")),
        }
    }
}

impl Handover {
    fn descriptors(&self) -> impl Iterator<Item = RawFd> {
        self.lock.iter().chain(&self.reports).chain(&self.tcp).chain(&self.unix).copied()
    }

    /// Between fork and exec.
    pub fn keep_in_child(&self) -> io::Result<()> {
        self.die_with_supervisor()?;
        self.keep_in_exec()
    }
    /// Before exec: what is handed over stays open, and signals that are the server's wait.
    pub fn keep_in_exec(&self) -> io::Result<()> {
        crate::signals::block();
        self.descriptors().try_for_each(|fd| set_close_on_exec(fd, false))
    }

    /// Invariant 3.
    fn die_with_supervisor(&self) -> io::Result<()> {
        // SAFETY: system calls without pointers.
        unsafe {
            if libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 {
                return Err(io::Error::last_os_error());
            }
            if libc::getppid() != self.supervisor {
                return Err(io::Error::other("the supervisor has ended"));
            }
        }
        Ok(())
    }

    /// Takes what was handed over to an engine. No thread may have been started before.
    pub fn adopt_as_engine(self) -> Result<AdoptedDescriptors> {
        // The engine asks once more to die with its supervisor: a program file with capabilities loses that in exec.
        self.die_with_supervisor().map_err(failed)?;
        self.adopt()
    }

    /// Takes what a process has handed over to itself.
    pub fn adopt(self) -> Result<AdoptedDescriptors> {
        // Who is to have it next is told then. This fails for a number that is not open.
        self.descriptors().try_for_each(|fd| set_close_on_exec(fd, true)).map_err(failed)?;
        // SAFETY: the descriptors are open, and nobody else in this process has them (invariant 2): it was started to
        // get them, and has opened nothing itself yet.
        unsafe {
            Ok(AdoptedDescriptors {
                lock: self.lock.map(|fd| OwnedFd::from_raw_fd(fd)),
                reports: self.reports.map(|fd| UnixStream::from_raw_fd(fd)),
                tcp: self.tcp.into_iter().map(|fd| TcpListener::from_raw_fd(fd)).collect(),
                unix: self.unix.into_iter().map(|fd| UnixListener::from_raw_fd(fd)).collect(),
            })
        }
    }
}

fn failed(e: io::Error) -> Error {
    Error::new(sqlstate::IO_ERROR, format!("could not take over from a supervisor: {e}"))
}

fn set_close_on_exec(fd: RawFd, is_set: bool) -> io::Result<()> {
    // SAFETY: a system call without pointers; a number that is not open is an error.
    match unsafe { libc::fcntl(fd, libc::F_SETFD, if is_set { libc::FD_CLOEXEC } else { 0 }) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_over_survives_its_text() {
        let mut some = Handover { supervisor: 77, lock: Some(3), reports: Some(4), ..Handover::default() };
        (some.tcp, some.unix, some.is_restart) = (vec![5, 6], vec![7], true);
        assert_eq!(some.to_string().parse(), Ok(some));
        assert_eq!("supervisor=1,restart=0".parse(), Ok(Handover { supervisor: 1, ..Handover::default() }));
    }

    #[test]
    fn contradictions_are_refused() {
        for text in ["", "tcp", "tcp=x", "frob=3", "tcp=3,unix=3", "tcp=2", "lock=-1"] {
            assert!(text.parse::<Handover>().is_err(), "{text}");
        }
    }
}
