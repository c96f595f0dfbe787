//! The simulated disk, and the process that has it.
use super::Rng;
use kilndb_base::Severity;
#[allow(unused_imports)]
pub use kilndb_sim::disk::{DiskFault, SimEnv, SimPark, while_alive};
use kilndb_sim::random::Chooser;
use kilndb_storage::EngineConfig;
use std::path::PathBuf;
use std::sync::Arc;

impl Chooser for Rng {
    fn below(&mut self, n: u64) -> u64 {
        Rng::below(self, n)
    }
}

/// The configuration of a process that ends when its engine says that it must.
pub fn simulated_process(env: &Arc<SimEnv>, buffers: u64) -> EngineConfig {
    let process = env.clone();
    let log = move |severity: Severity, text: &str| {
        if std::env::var_os("KILNDB_TELL").is_some() {
            eprintln!("{severity:?}: {text}");
        }
        if severity >= Severity::Panic {
            process.kill();
        }
    };
    EngineConfig { fsync: true, log: Arc::new(log), ..super::config(PathBuf::from("/sim"), buffers) }
}
