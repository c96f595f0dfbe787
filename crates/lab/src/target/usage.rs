//! What a server's processes use, as Linux tells it (proc(5)).
//!
//! 1. Processor time of children that have ended is their parent's: PostgreSQL's backends come and go.
//! 2. Memory that processes share is counted once: that of the one which shares the most.
//!
//! Must not know: servers.

use std::collections::BTreeMap;

/// What a process and all that it has started have used.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProcessUse {
    pub cpu_s: f64,
    pub memory_bytes: u64,
}

/// One process.
struct ProcessRow {
    parent: u32,
    /// Clock ticks of itself and of its children that have ended.
    ticks: u64,
}

impl ProcessUse {
    pub fn of_tree(root: u32) -> ProcessUse {
        let rows = processes();
        let is_of_tree = |pid: u32| {
            let mut at = pid;
            // A process is never its own ancestor, but ids may be given anew while they are read.
            for _ in 0..rows.len() {
                match rows.get(&at) {
                    _ if at == root => return true,
                    Some(row) => at = row.parent,
                    None => return false,
                }
            }
            false
        };
        let (mut ticks, mut own_bytes, mut shared_bytes) = (0, 0, 0);
        for (pid, row) in rows.iter().filter(|(pid, _)| is_of_tree(**pid)) {
            ticks += row.ticks;
            let (resident, shared) = memory(*pid).unwrap_or_default();
            own_bytes += resident.saturating_sub(shared);
            shared_bytes = shared_bytes.max(shared);
        }
        ProcessUse { cpu_s: ticks as f64 / ticks_per_second(), memory_bytes: own_bytes + shared_bytes }
    }
}

fn processes() -> BTreeMap<u32, ProcessRow> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter_map(|pid| Some((pid, process(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)?))).collect()
}

/// "pid (name) state parent …": the name may have blanks and brackets in it.
fn process(status: &str) -> Option<ProcessRow> {
    let fields: Vec<&str> = status.rsplit_once(')')?.1.split_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    // utime, stime, cutime and cstime.
    let ticks = (11..15).filter_map(number).sum();
    Some(ProcessRow { parent: u32::try_from(number(1)?).ok()?, ticks })
}

/// Resident bytes, and those of them that are shared.
fn memory(pid: u32) -> Option<(u64, u64)> {
    let pages = std::fs::read_to_string(format!("/proc/{pid}/statm")).ok()?;
    let mut numbers = pages.split_whitespace().map(|number| number.parse::<u64>().ok());
    // SAFETY: a question without memory of ours.
    let page_bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    let (resident, shared) = (numbers.nth(1)??, numbers.next()??);
    Some((resident * page_bytes, shared * page_bytes))
}

/// Memory that programs can have without anything being written elsewhere. None: the system does not tell.
pub(super) fn free_memory_bytes() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    Some(line.split_whitespace().next()?.parse::<u64>().ok()? * 1024)
}

fn ticks_per_second() -> f64 {
    // SAFETY: a question without memory of ours.
    unsafe { libc::sysconf(libc::_SC_CLK_TCK) as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_line_of_proc_is_read() {
        let row = process("7 (a (b) c) S 3 7 7 0 -1 4194560 1 2 3 4 100 20 30 4 20 0 1 0 5 6 7").expect("a process");
        assert_eq!((row.parent, row.ticks), (3, 154));
    }

    #[test]
    fn there_is_memory() {
        assert!(free_memory_bytes().is_some_and(|bytes| bytes > 1 << 20));
    }

    #[test]
    fn a_child_counts_to_its_parent() {
        let before = ProcessUse::of_tree(std::process::id());
        assert!(before.memory_bytes > 1 << 20, "{before:?}");
        let burn = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        Command::new("sh").args(["-c", burn]).status().expect("a shell");
        let after = ProcessUse::of_tree(std::process::id());
        assert!(after.cpu_s > before.cpu_s + 0.02, "{before:?} {after:?}");
    }
}
