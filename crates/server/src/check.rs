//! `kilndb check`: every structure of a cluster that no server has open, and every definition in it.
//!
//! Storage looks at pages, trees and the log (`kilndb_storage::check_report`). Definitions are looked at by opening the
//! cluster in memory alone ([`OverlayEnv`]): each view, default, check, index, body is bound again, and what it refers to
//! compared with what pg_depend says.

use kilndb_base::env::{Env, OsEnv};
use kilndb_base::overlay::OverlayEnv;
use kilndb_base::sync::Arc;
use kilndb_base::{Result, Severity};
use kilndb_context::ClusterOptions;
use kilndb_context::settings::ServerSettings;
use kilndb_sql::Instance;
use std::path::Path;
use std::process::ExitCode;

/// Prints what is wrong with the cluster, and ends with 1 if something is.
pub fn check(data_dir: &Path) -> Result<ExitCode> {
    let env: Arc<dyn Env> = Arc::new(OsEnv);
    crate::folder::wait_for_end(data_dir);
    let mut report = kilndb_storage::check_report(env.clone(), data_dir.to_path_buf())?;
    if report.problems.is_empty() {
        match definition_problems(env, data_dir) {
            Ok(problems) => report.problems.extend(problems),
            Err(e) => report.problems.push(format!("the cluster does not open: {}", e.message())),
        }
    } else {
        report.unchecked.push("definitions, since there is damage to what they are in".into());
    }
    for what in &report.unchecked {
        println!("not checked: {what}");
    }
    for problem in &report.problems {
        println!("{problem}");
    }
    let folder = data_dir.display();
    Ok(match report.problems.len() {
        0 => {
            println!("{folder}: no problems found");
            ExitCode::SUCCESS
        }
        n => {
            println!("{folder}: {n} problems found");
            ExitCode::FAILURE
        }
    })
}

/// Definitions whose stored dependencies are not those that binding them finds. Only for a cluster without other
/// problems, which was shut down cleanly: nothing has to be replayed in memory then.
fn definition_problems(env: Arc<dyn Env>, data_dir: &Path) -> Result<Vec<String>> {
    let options = ClusterOptions {
        env: Arc::new(OverlayEnv::new(env)),
        data_dir: data_dir.to_path_buf(),
        workers: 1,
        // What opening has to say is not what is asked for here: what goes wrong comes back as an error.
        log: Arc::new(|_: Severity, _: &str| {}),
        config: ServerSettings::default(),
        accept_lost_log: false,
        limits: Default::default(),
    };
    let instance = Instance::open(options, vec![Arc::new(kilndb_plpgsql::PlPgSql)])?;
    let problems = instance.check_definitions();
    instance.cluster.shutdown()?;
    problems
}
