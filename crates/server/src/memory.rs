//! How much memory the server may take, and giving back what it does not need any more.
//!
//! Must not know: sessions, statements.

use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use kilndb_base::{Severity, memory};
use kilndb_context::settings::ServerSettings;
use std::path::Path;

/// What the server's statements, caches and buffers take at most of the memory that the machine or its container has,
/// in percent. The rest is for the kernel, the C parser's fragments, and what allocators keep in reserve.
const PERCENT_OF_MACHINE: u64 = 80;
/// Statements may hold so much, however small the machine is.
const LEAST_BYTES: u64 = 64 << 20;
/// A worker that has freed so much gives it back to the system when it has had nothing to do ...
const WORTH_GIVING_BACK_BYTES: u64 = 16 << 20;
/// ... for so long: the next statement of the same kind finds the memory there.
const GIVE_BACK_AFTER_NANOS: u64 = 1_000_000_000;
/// A busy worker looks at the server's memory so often at most, ...
const LOOK_EVERY_NANOS: u64 = 10_000_000;
/// ... and only if it has allocated or freed so much since.
const WORTH_LOOKING_BYTES: u64 = 1 << 20;
/// Collecting may take one of so many nanoseconds of a worker that is busy.
const COLLECTING_ONE_OF: u64 = 10;

/// What the server may have resident, and what of that statements may hold.
static LIMIT_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
static STATEMENT_BYTES: AtomicU64 = AtomicU64::new(u64::MAX);
/// The server has more resident than it may: allocators keep what statements have freed.
static IS_ABOVE_LIMIT: AtomicBool = AtomicBool::new(false);

/// Tells all computations how much they may hold together: `server_mem_limit` without the shared buffers.
pub fn limit_statements(config: &ServerSettings, log: impl Fn(Severity, &str)) {
    let limit_bytes = match config.number("server_mem_limit") as u64 {
        0 => machine_bytes() / 100 * PERCENT_OF_MACHINE,
        limit_kb => limit_kb << 10,
    };
    let buffer_bytes = config.number("shared_buffers") as u64 * 8192;
    let statement_bytes = limit_bytes.saturating_sub(buffer_bytes);
    if statement_bytes < LEAST_BYTES {
        let message = format!(
            "\"shared_buffers\" ({} MB) leaves little of the server's memory ({} MB) to statements: they get {} MB",
            buffer_bytes >> 20,
            limit_bytes >> 20,
            LEAST_BYTES >> 20
        );
        log(Severity::Warning, &message);
    }
    LIMIT_BYTES.store(limit_bytes.max(buffer_bytes.saturating_add(LEAST_BYTES)), Ordering::Relaxed);
    STATEMENT_BYTES.store(statement_bytes.max(LEAST_BYTES), Ordering::Relaxed);
    memory::limit_sum(statement_bytes.max(LEAST_BYTES));
}

/// The memory of the machine, or less if the process is in a control group that may have less, or has a limit of its
/// own address space.
fn machine_bytes() -> u64 {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let group_limits = groups.lines().flat_map(limits_of_group);
    let own_limit = address_space_bytes();
    total_bytes().into_iter().chain(group_limits).chain(own_limit).min().unwrap_or(u64::MAX)
}

fn total_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? << 10)
}

fn address_space_bytes() -> Option<u64> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is a valid place for the answer.
    let done = unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) };
    (done == 0 && limit.rlim_cur != libc::RLIM_INFINITY).then_some(limit.rlim_cur)
}

/// What the control group of a line of /proc/self/cgroup and those above it may have. A group that cannot be seen (from
/// inside of a container its own is the root) sets no limit, but the root is looked at in any case.
fn limits_of_group(line: &str) -> Vec<u64> {
    let mut fields = line.splitn(3, ':');
    let (Some(_), Some(controllers), Some(path)) = (fields.next(), fields.next(), fields.next()) else {
        return Vec::new();
    };
    let (root, file) = match controllers {
        "" => ("/sys/fs/cgroup", "memory.max"),
        list if list.split(',').any(|c| c == "memory") => ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
        _ => return Vec::new(),
    };
    let group = Path::new(root).join(path.trim_start_matches('/'));
    let folders = group.ancestors().take_while(|folder| folder.starts_with(root));
    let texts = folders.filter_map(|folder| std::fs::read_to_string(folder.join(file)).ok());
    texts.filter_map(|text| text.trim().parse().ok()).collect()
}

/// What the process has resident that is its own, not a file's.
fn resident_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut fields = text.split(' ').skip(1).map(str::parse::<u64>);
    let (resident, of_files) = (fields.next()?.ok()?, fields.next()?.ok()?);
    // SAFETY: the call has no conditions.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
    Some(resident.saturating_sub(of_files) * u64::try_from(page_bytes).ok()?)
}

/// Gives back what the calling thread's allocator keeps, and `malloc`'s of all threads.
fn collect() {
    memory::forget_freed();
    // SAFETY: both functions may be called at any time; the first looks after the calling thread's blocks.
    unsafe {
        libmimalloc_sys::mi_collect(true);
        libc::malloc_trim(0);
    }
}

/// One worker's care for the server's memory.
#[derive(Default)]
pub struct MemoryWatch {
    /// The moment before which the worker does not look again, in monotonic nanoseconds.
    look_after_nanos: u64,
    /// When it began to have nothing to do; zero: it has something to do.
    idle_since_nanos: u64,
}

impl MemoryWatch {
    /// Called by a worker whose wait for something to do is over, with or without it: gives memory back that it has
    /// freed, if that is much and the worker has had nothing to do for a while.
    pub fn give_back(&mut self, is_idle: bool) {
        if !is_idle || memory::freed_bytes() < WORTH_GIVING_BACK_BYTES {
            self.idle_since_nanos = 0;
            return;
        }
        let now_nanos = process_monotonic_nanos();
        if self.idle_since_nanos == 0 {
            self.idle_since_nanos = now_nanos;
        } else if now_nanos - self.idle_since_nanos >= GIVE_BACK_AFTER_NANOS {
            collect();
            judge(resident_bytes());
        }
    }

    /// Called by a worker between turns. What statements hold is counted, what allocators keep
    /// beside it is not. So a server that has more resident than it may gives back what it can, and allows statements so
    /// much less as it is still above.
    pub fn keep_within_limit(&mut self) {
        if memory::moved_bytes() < WORTH_LOOKING_BYTES && !IS_ABOVE_LIMIT.load(Ordering::Relaxed) {
            return;
        }
        let now_nanos = process_monotonic_nanos();
        if now_nanos < self.look_after_nanos {
            return;
        }
        self.look_after_nanos = now_nanos + LOOK_EVERY_NANOS;
        memory::forget_moved();
        if judge(resident_bytes()) {
            collect();
            judge(resident_bytes());
            // Where much is held and little can be given back, collecting takes a small part of the time.
            let collected_nanos = process_monotonic_nanos() - now_nanos;
            self.look_after_nanos += COLLECTING_ONE_OF * collected_nanos;
        }
    }
}

/// Adjusts what statements may hold to what the server takes, and tells whether that is above its limit.
fn judge(resident_bytes: Option<u64>) -> bool {
    let above = resident_bytes.unwrap_or(0).saturating_sub(LIMIT_BYTES.load(Ordering::Relaxed));
    let was_above = IS_ABOVE_LIMIT.swap(above > 0, Ordering::Relaxed);
    if above > 0 || was_above {
        let statement_bytes = STATEMENT_BYTES.load(Ordering::Relaxed);
        memory::limit_sum(statement_bytes.saturating_sub(above).max(LEAST_BYTES));
    }
    above > 0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_resident_is_seen() {
        let before = resident_bytes().unwrap();
        assert!(before > 100 << 10);
        let touched = vec![1u8; 64 << 20];
        assert!(resident_bytes().unwrap() >= before + (32 << 20), "{}", touched.len());
    }

    #[test]
    fn there_is_a_machine() {
        assert!(total_bytes().unwrap() > 1 << 20);
        assert!(machine_bytes() <= total_bytes().unwrap());
        assert!(limits_of_group("12:cpu,cpuacct:/").is_empty());
        assert!(limits_of_group("nonsense").is_empty());
    }
}
