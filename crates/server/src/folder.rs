//! The data folder as the server's processes see it: it is made, and locked by whoever serves it.
//!
//! Invariants
//! 1. `kilndb.pid` names the supervisor, and is locked for as long as it or its engine lives.
//! 2. A folder whose supervisor has ended is free as soon as its engine, which the kernel kills, has ended too: who
//!    wants the folder waits for that.
//!
//! Must not know: what is in the folder.

use kilndb_base::{Error, Result, sqlstate};
use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// An engine that is killed gives its memory back first, which takes the kernel a while.
const ENGINE_ENDS_WITHIN: Duration = Duration::from_secs(30);
/// Bits of a folder's mode: others may change what is in it, or look at it.
const WRITTEN_BY_OTHERS: u32 = 0o022;
const READ_BY_OTHERS: u32 = 0o005;
const LOOK_EVERY: Duration = Duration::from_millis(2);

pub struct LockedFolder {
    pub file: File,
    /// Somebody's engine was still ending.
    pub has_waited: bool,
}

pub fn prepare(dir: &Path) -> Result<()> {
    let fail =
        |e: io::Error| Error::new(sqlstate::IO_ERROR, format!("could not use data folder \"{}\": {e}", dir.display()));
    DirBuilder::new().recursive(true).mode(0o700).create(dir).map_err(fail)?;
    let empty = std::fs::read_dir(dir).map_err(fail)?.next().is_none();
    let mode = std::fs::metadata(dir).map_err(fail)?.permissions().mode();
    if empty {
        return std::fs::set_permissions(dir, Permissions::from_mode(0o700)).map_err(fail);
    }
    if mode & WRITTEN_BY_OTHERS != 0 {
        let message = format!("data directory \"{}\" has invalid permissions", dir.display());
        return Err(Error::new(sqlstate::OBJECT_NOT_IN_PREREQUISITE_STATE, message).with_hint(
            "Permissions should be u=rwx (0700) or u=rwx,g=rx (0750): others may write there (chmod 700).",
        ));
    }
    if mode & READ_BY_OTHERS != 0 {
        // One of an earlier build. Whose it is not may still serve it, as in a container.
        let _ = std::fs::set_permissions(dir, Permissions::from_mode(0o700));
    }
    Ok(())
}

/// Tells which process serves the folder, and locks the file against other servers (storage locks the folder itself).
/// The kernel drops the lock with the last process that has the file.
pub fn lock(dir: &Path) -> Result<LockedFolder> {
    let path = dir.join("kilndb.pid");
    let fail = |e: io::Error| Error::new(sqlstate::IO_ERROR, format!("could not write \"{}\": {e}", path.display()));
    let file =
        OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(&path).map_err(fail)?;
    let Some(has_waited) = wait_for(&file, File::try_lock).map_err(fail)? else {
        let message = format!("data folder \"{}\" is in use by another kilndb server", dir.display());
        return Err(Error::new(sqlstate::OBJECT_IN_USE, message));
    };
    file.set_len(0).map_err(fail)?;
    file.write_all_at(format!("{}\n", std::process::id()).as_bytes(), 0).map_err(fail)?;
    Ok(LockedFolder { file, has_waited })
}

/// Returns once no engine without a supervisor is left, or at once where that cannot be known or a server is at work:
/// whoever then locks the folder finds out.
pub fn wait_for_end(dir: &Path) {
    if let Ok(file) = File::open(dir.join("kilndb.pid")) {
        // The lock goes with the file.
        let _ = wait_for(&file, File::try_lock_shared);
    }
}

/// Invariant 2. None: the lock belongs to a server that is at work; else whether it had to be waited for.
fn wait_for(
    file: &File,
    try_lock: impl Fn(&File) -> std::result::Result<(), TryLockError>,
) -> io::Result<Option<bool>> {
    let end = Instant::now() + ENGINE_ENDS_WITHIN;
    let mut has_waited = false;
    loop {
        match try_lock(file) {
            Ok(()) => return Ok(Some(has_waited)),
            Err(TryLockError::Error(e)) => return Err(e),
            Err(TryLockError::WouldBlock) if Instant::now() > end || is_at_work(file) => return Ok(None),
            Err(TryLockError::WouldBlock) => {
                has_waited = true;
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// Whether the process lives that the file names. In a container it may have had this process's own id.
fn is_at_work(file: &File) -> bool {
    let mut text = [0; 32];
    let length = file.read_at(&mut text, 0).unwrap_or(0);
    let pid = std::str::from_utf8(&text[..length]).ok().and_then(|t| t.trim().parse::<u32>().ok());
    // Another server is about to write its own there.
    let Some(pid) = pid else { return true };
    pid != std::process::id() && !is_dead(pid)
}

/// Whether a process has ended, also if nobody has waited for it yet. A process that cannot be looked at is not known
/// to be dead.
fn is_dead(pid: u32) -> bool {
    match std::fs::read_to_string(format!("/proc/{pid}/stat")) {
        // "pid (name) state …"; the name may have brackets in it.
        Ok(text) => text.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with(['Z', 'X'])),
        Err(_) => {
            // SAFETY: a system call without pointers, which sends nothing.
            let failed = unsafe { libc::kill(pid as libc::pid_t, 0) } != 0;
            failed && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_dead_is_known() {
        assert!(!is_dead(std::process::id()) && !is_dead(1));
        let mut command = std::process::Command::new("/proc/self/exe");
        let mut child = command.arg("--list").stdout(std::process::Stdio::null()).spawn().unwrap();
        let pid = child.id();
        let end = Instant::now() + Duration::from_secs(30);
        while !is_dead(pid) {
            assert!(Instant::now() < end, "a process that has ended counts as dead before it is waited for");
            std::thread::sleep(LOOK_EVERY);
        }
        child.wait().unwrap();
        assert!(is_dead(pid));
    }

    #[test]
    fn a_lock_is_waited_for_only_if_its_owner_is_dead() {
        let dir = std::env::temp_dir().join(format!("kilndb-folder-{}", std::process::id()));
        prepare(&dir).unwrap();
        let path = dir.join("kilndb.pid");
        let first = lock(&dir).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), format!("{}\n", std::process::id()));
        // Process 1 lives.
        std::fs::write(&path, "1\n").unwrap();
        assert!(lock(&dir).is_err());
        // No process has this number; the lock is given up a little later.
        std::fs::write(&path, "2147483646\n").unwrap();
        let other = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(100));
            drop(first);
        });
        wait_for_end(&dir);
        assert!(lock(&dir).is_ok());
        other.join().unwrap();
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
