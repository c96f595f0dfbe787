//! An instance in a folder of its own, for tests that look at what sessions keep.

use crate::instance::Instance;
use kilndb_base::Severity;
use kilndb_base::env::OsEnv;
use kilndb_base::sync::Arc;
use kilndb_context::ClusterOptions;
use kilndb_context::settings::ServerSettings;
use std::path::PathBuf;

/// Ends its cluster and removes its folder when it goes.
pub(crate) struct TemporaryInstance {
    pub instance: Arc<Instance>,
    folder: PathBuf,
}

impl TemporaryInstance {
    /// `name` tells the folder from those of other tests in the same process.
    pub fn open(name: &str) -> TemporaryInstance {
        let folder = std::env::temp_dir().join(format!("kilndb-{name}-{}", std::process::id()));
        let options = ClusterOptions {
            env: Arc::new(OsEnv),
            data_dir: folder.clone(),
            workers: 1,
            log: Arc::new(|_: Severity, _: &str| {}),
            config: ServerSettings::default(),
            accept_lost_log: false,
            limits: Default::default(),
        };
        TemporaryInstance { instance: Instance::open(options, Vec::new()).unwrap(), folder }
    }
}

impl Drop for TemporaryInstance {
    fn drop(&mut self) {
        let ended = self.instance.cluster.shutdown();
        let _ = std::fs::remove_dir_all(&self.folder);
        // A second panic would hide the first.
        if !std::thread::panicking() {
            ended.expect("a cluster that ends");
        }
    }
}
