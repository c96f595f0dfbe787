//! A load that pgbench runs, with figures of the same kind: what the driver says can be held against it.
//!
//! 1. Latencies and seconds come from pgbench's log of each transaction; rows changed are not in it.
//! 2. A session may begin with settings alone (`set name = value`), which go by way of PGOPTIONS.
//!
//! Must not know: experiments.

use super::figures::EndedTransaction;
use super::{LoadFigures, LoadLength, LoadPlan, LoadProtocol};
use crate::postgres;
use crate::process::TempDir;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Runs a plan's one script, whose text is `script`. Errors: pgbench has failed, with its words.
pub fn run_pgbench(plan: &LoadPlan, script: &str) -> Result<LoadFigures, String> {
    let folder = TempDir::new("lab-pgbench").map_err(|e| e.to_string())?;
    let file = folder.path().join("script.sql");
    std::fs::write(&file, script).map_err(|e| e.to_string())?;
    let mut command = command(plan, &file)?;
    let output = command.current_dir(folder.path()).output().map_err(|e| format!("pgbench: {e}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        return Err(errors.lines().last().unwrap_or("pgbench has failed").to_string());
    }
    let mut figures = LoadFigures::default();
    let mut lines = Vec::new();
    for entry in std::fs::read_dir(folder.path()).map_err(|e| e.to_string())?.flatten() {
        if entry.file_name().to_string_lossy().starts_with("pgbench_log.") {
            let text = std::fs::read_to_string(entry.path()).map_err(|e| e.to_string())?;
            lines.extend(text.lines().filter_map(LogLine::read));
        }
    }
    let began_us = lines.iter().map(LogLine::began_us).min().unwrap_or(0);
    for line in &lines {
        let at = Duration::from_micros(line.ended_us - began_us);
        match line.latency_us {
            Some(latency_us) => {
                figures.ended(&EndedTransaction { at, latency: Duration::from_micros(latency_us), changed_rows: 0 });
            }
            None => figures.failed(at, "failed", "pgbench does not say why"),
        }
        figures.elapsed = figures.elapsed.max(at);
    }
    Ok(figures)
}

/// A transaction in pgbench's log: "client number latency script second microsecond", with `failed` for a latency.
struct LogLine {
    latency_us: Option<u64>,
    /// Since 1970.
    ended_us: u64,
}

impl LogLine {
    fn read(line: &str) -> Option<LogLine> {
        let fields: Vec<&str> = line.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
        Some(LogLine { latency_us: number(2), ended_us: number(4)? * 1_000_000 + number(5)? })
    }
    fn began_us(&self) -> u64 {
        self.ended_us.saturating_sub(self.latency_us.unwrap_or(0))
    }
}

fn command(plan: &LoadPlan, script: &Path) -> Result<Command, String> {
    let address = &plan.address;
    let mut command = Command::new(postgres::program("pgbench").map_err(|e| e.to_string())?);
    command.args(["-n", "-l", "-h", &address.host, "-p", &address.port.to_string(), "-U", &address.user]);
    command.args(["-c", &plan.clients.to_string(), "-j", &plan.threads.to_string()]);
    let protocol = match plan.protocol {
        LoadProtocol::Simple => "simple",
        LoadProtocol::Extended => "extended",
        LoadProtocol::Prepared => "prepared",
    };
    command.args(["-M", protocol, "--random-seed", &plan.seed.to_string(), "--max-tries", &plan.tries.to_string()]);
    match plan.length {
        LoadLength::After(time) => command.args(["-T", &time.as_secs().max(1).to_string()]),
        LoadLength::Transactions(count) => command.args(["-t", &count.to_string()]),
    };
    if let Some(rate) = plan.rate {
        command.args(["-R", &rate.to_string()]);
    }
    for (name, value) in &plan.presets {
        command.arg("-D").arg(format!("{name}={value}"));
    }
    command.arg("-f").arg(script).arg(&plan.database);
    command.env("PGOPTIONS", options(&plan.session)?);
    if let Some(password) = &plan.password {
        command.env("PGPASSWORD", password);
    }
    command.env("PGSSLMODE", address.tls.as_ref().map_or("disable", |choice| &choice.mode));
    if let Some(roots) = address.tls.as_ref().and_then(|choice| choice.roots.as_ref()) {
        command.env("PGSSLROOTCERT", roots);
    }
    Ok(command)
}

/// Settings as the server takes them from a command line.
fn options(session: &str) -> Result<String, String> {
    let mut options = String::new();
    for statement in session.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
        let setting = statement.strip_prefix("set ").and_then(|setting| setting.split_once('='));
        let (name, value) = setting.ok_or_else(|| format!("pgbench cannot begin a session with: {statement}"))?;
        let value = value.trim();
        let value = value.strip_prefix('\'').and_then(|value| value.strip_suffix('\'')).unwrap_or(value);
        let value = value.replace('\\', "\\\\").replace(' ', "\\ ");
        options.push_str(&format!("-c {}={value} ", name.trim()));
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_log_are_read() {
        let line = LogLine::read("0 199 2241 0 1175850568 995598").expect("a transaction");
        assert_eq!((line.latency_us, line.ended_us), (Some(2241), 1_175_850_568_995_598));
        assert_eq!(line.began_us(), 1_175_850_568_993_357);
        assert_eq!(LogLine::read("0 0 failed 0 1 2").expect("a transaction").latency_us, None);
    }

    #[test]
    fn sessions_begin_with_settings() {
        let session = "set application_name = 'a b'; set search_path = \"x\", public";
        assert_eq!(options(session).as_deref(), Ok("-c application_name=a\\ b -c search_path=\"x\",\\ public "));
        assert!(options("select 1").is_err());
    }
}
