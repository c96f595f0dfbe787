//! What comes before any load: an idle session's memory, and pgbench's tables.

use super::turns::{BenchStage, ServerTurn};
use super::{BenchOptions, command};
use kilndb_lab::client::Client;
use kilndb_lab::statistics::Better;
use std::path::Path;
use std::time::{Duration, Instant};

const IDLE_SESSIONS: usize = 500;
/// Loading is timed at a scale that takes a second, in a database of its own.
const TIMED_SCALE: u32 = 5;
const TIMED_DATABASE: &str = "timed";

/// All parts use the tables that this leaves.
pub(super) fn stages(options: &BenchOptions) -> Vec<BenchStage> {
    let scale = options.scale;
    let row = format!("pgbench -i -s {TIMED_SCALE}, seconds");
    vec![
        // Before anything else, and once: what earlier sessions leave free would hide it.
        BenchStage::new("memory of an idle session, kB", idle_memory).turns(1).unjudged(),
        // In new files too: what they were before decides in which steps they grow.
        BenchStage::new("disk size after load, MB", move |turn| {
            turn.execute(&["checkpoint"])?;
            let before = folder_bytes(&turn.side.data);
            fill(turn, scale, "postgres")?;
            turn.execute(&["checkpoint"])?;
            let grown = folder_bytes(&turn.side.data).saturating_sub(before);
            turn.put(&format!("disk size after load of scale {scale}, MB"), Better::Less, grown as f64 / 1e6);
            Ok(())
        })
        .turns(1),
        BenchStage::new(&row.clone(), move |turn| {
            let began = Instant::now();
            fill(turn, TIMED_SCALE, TIMED_DATABASE)?;
            turn.put(&row, Better::Less, began.elapsed().as_secs_f64());
            Ok(())
        })
        .begin(|turn| turn.execute(&[&format!("create database {TIMED_DATABASE}")]))
        .end(|turn| turn.execute(&[&format!("drop database {TIMED_DATABASE}")])),
    ]
}

fn fill(turn: &ServerTurn<'_>, scale: u32, database: &str) -> Result<(), String> {
    let mut pgbench = command("pgbench", &turn.side.at)?;
    let output = pgbench.args(["-i", "-q", "-s", &scale.to_string(), database]).output().map_err(|e| e.to_string())?;
    if output.status.success() {
        return Ok(());
    }
    Err(format!("pgbench -i: {}", String::from_utf8_lossy(&output.stderr)))
}

/// Growth of the server's proportional memory per session that has run one statement and now does nothing.
fn idle_memory(turn: &mut ServerTurn<'_>) -> Result<(), String> {
    let pid = turn.side.server.pid();
    // The first sessions fill caches that all share.
    let warm: Vec<Client> = sessions(turn, 20)?;
    let before = memory_kb(pid);
    let idle = sessions(turn, IDLE_SESSIONS)?;
    std::thread::sleep(Duration::from_millis(500));
    let after = memory_kb(pid);
    drop((warm, idle));
    let each = after.saturating_sub(before) as f64 / IDLE_SESSIONS as f64;
    turn.put("memory of an idle session, kB", Better::Less, each);
    Ok(())
}

fn sessions(turn: &ServerTurn<'_>, count: usize) -> Result<Vec<Client>, String> {
    let mut sessions = Vec::new();
    for number in 1..=count {
        let mut client = turn.connect()?;
        client.query(&format!("select relname from pg_class where oid = {number}")).map_err(|e| e.to_string())?;
        sessions.push(client);
    }
    Ok(sessions)
}

/// Proportional set size of a process and its children.
fn memory_kb(pid: u32) -> u64 {
    let own = std::fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap_or_default();
    let own = own
        .lines()
        .find_map(|l| l.strip_prefix("Pss:"))
        .and_then(|l| l.trim().trim_end_matches(" kB").parse().ok())
        .unwrap_or(0);
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    own + children.split_whitespace().filter_map(|c| c.parse().ok()).map(memory_kb).sum::<u64>()
}

/// Bytes on disk below a folder, the log's files aside.
fn folder_bytes(folder: &Path) -> u64 {
    use std::os::unix::fs::MetadataExt;
    let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
    let mut bytes = 0;
    for entry in entries.flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        let name = entry.file_name();
        if metadata.is_dir() && name != "wal" && name != "pg_wal" && name != "log" {
            bytes += folder_bytes(&entry.path());
        } else if metadata.is_file() {
            bytes += metadata.blocks() * 512;
        }
    }
    bytes
}
