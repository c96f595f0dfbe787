//! ANALYZE that runs by itself: a thread that looks now and then which tables have changed much since they were analyzed,
//! and analyzes them one after another (docs/decisions/0045).
//!
//! Invariants
//! 1. The thread holds the instance only while it works: an instance that is dropped is gone soon.
//! 2. Nobody waits for an analysis: whoever wants a lock that it conflicts with ends it ([`AutoanalyzeRuntime`]).
//!
//! Must not know: how a sample is taken, what is made of it.

mod due;
mod runtime;

use crate::instance::Instance;
use crate::session::Session;
use due::DueTable;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::sync::atomic::{AtomicBool, Ordering};
use kilndb_base::sync::{Arc, JoinHandle, Mutex, PoisonError, Weak};
use kilndb_base::{Error, Result, Severity, sqlstate, work};
use kilndb_catalog::cache::Database;
use kilndb_context::Cluster;
use runtime::AutoanalyzeRuntime;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// The thread looks so often whether the settings say something else, or it is to end.
const LOOK_NANOS: u64 = 1_000_000_000;

/// The thread, as its instance has it. Dropping it ends the thread, which is not waited for.
pub(crate) struct Autoanalyzer {
    stop: Arc<AtomicBool>,
    wake: WakeHandle,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Autoanalyzer {
    pub(crate) fn start(instance: &Arc<Instance>) -> Result<Autoanalyzer> {
        let park = Arc::new(ThreadPark::new());
        let (stop, wake) = (Arc::new(AtomicBool::new(false)), park.wake_handle());
        let rounds = Rounds { instance: Arc::downgrade(instance), park, stop: stop.clone() };
        let thread = instance.cluster.env.spawn_less_urgent("autoanalyze", Box::new(move || rounds.run()))?;
        Ok(Autoanalyzer { stop, wake, thread: Mutex::new(Some(thread)) })
    }

    fn tell_to_end(&self) {
        self.stop.store(true, Ordering::Release);
        self.wake.wake();
    }

    /// Ends the thread, and waits until it has ended.
    pub(crate) fn end(&self) {
        self.tell_to_end();
        if let Some(thread) = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take() {
            // It says in the log what has gone wrong.
            let _ = thread.join();
        }
    }
}

impl Drop for Autoanalyzer {
    fn drop(&mut self) {
        self.tell_to_end();
    }
}

/// What the thread has of its own.
struct Rounds {
    instance: Weak<Instance>,
    park: Arc<ThreadPark>,
    stop: Arc<AtomicBool>,
}

impl Rounds {
    fn run(&self) {
        let mut rested_since = process_monotonic_nanos();
        while !self.stop.load(Ordering::Acquire) {
            // A wake-up without a reason makes a round look early, which harms nobody.
            let _ = self.park.park(Some(process_monotonic_nanos() + LOOK_NANOS));
            let Some(instance) = self.instance.upgrade() else { return };
            let naptime_nanos = instance.cluster.settings().number("autovacuum_naptime").max(1) as u64 * LOOK_NANOS;
            if process_monotonic_nanos().saturating_sub(rested_since) < naptime_nanos {
                continue;
            }
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.round(&instance))) {
                let text = panic.downcast_ref::<String>().map_or("", String::as_str);
                instance.cluster.log(Severity::Warning, &format!("automatic analyze failed: {text}"));
            }
            rested_since = process_monotonic_nanos();
        }
    }

    /// Every database in which something has changed.
    fn round(&self, instance: &Arc<Instance>) {
        let cluster = &instance.cluster;
        let settings = cluster.settings();
        if !settings.flag("autovacuum") || !settings.flag("track_counts") {
            return;
        }
        let databases = cluster.all_databases().unwrap_or_default();
        for database in databases {
            if self.stop.load(Ordering::Acquire) {
                return;
            }
            if cluster.statistics.changed_relations(database.oid).is_empty() {
                continue;
            }
            let name = database.name.clone();
            match self.analyze_database(instance, database) {
                Err(e) if !is_end(&e) => {
                    let message = format!("automatic analyze of database \"{name}\" failed: {}", e.message());
                    cluster.log(Severity::Warning, &message);
                }
                _ => {}
            }
        }
    }

    fn analyze_database(&self, instance: &Arc<Instance>, database: Arc<Database>) -> Result<()> {
        let runtime = AutoanalyzeRuntime::new(instance.cluster.clone(), self.park.clone(), self.stop.clone());
        let sessions = instance.cluster.sessions();
        sessions.add(runtime.control.clone());
        let done = work::under(&runtime, || {
            let mut session = Session::of_server(instance.clone(), database, &runtime)?;
            let done = analyze_all(&mut session, &instance.cluster, &runtime);
            session.close(&runtime);
            done
        });
        sessions.remove(runtime.control.process_id);
        done
    }
}

/// The server stops, or the database goes.
fn is_end(e: &Error) -> bool {
    e.sqlstate() == sqlstate::ADMIN_SHUTDOWN
}

/// All tables of the session's database that have changed enough.
fn analyze_all(session: &mut Session, cluster: &Cluster, runtime: &AutoanalyzeRuntime) -> Result<()> {
    let database = session.context.database.oid;
    for oid in cluster.statistics.changed_relations(database) {
        runtime.holds_nothing();
        session.context.begin_statement(runtime)?;
        let due = due::due_table(session, cluster, oid, runtime);
        session.rollback(runtime)?;
        let Some(table) = due? else { continue };
        let began = process_monotonic_nanos();
        let analyzed = analyze_one(session, &table, runtime);
        runtime.holds_nothing();
        match analyzed {
            Ok(true) => table.tell(cluster, process_monotonic_nanos() - began),
            Ok(false) => {}
            Err(e) => {
                session.rollback(runtime)?;
                if is_end(&e) {
                    return Err(e);
                }
                let message = format!("{}: automatic analyze of table \"{}\"", e.message(), table.name);
                cluster.log(Severity::Log, &message);
            }
        }
    }
    Ok(())
}

fn analyze_one(session: &mut Session, table: &DueTable, runtime: &AutoanalyzeRuntime) -> Result<bool> {
    session.context.begin_statement(runtime)?;
    session.context.update_activity(runtime, |a| {
        a.state = "active";
        a.query = format!("autovacuum: ANALYZE {}", table.shown_name);
    });
    runtime.holds(table.lock_tag());
    let analyzed = session.definitions("ANALYZE").analyze_by_itself(table.oid, runtime)?;
    if analyzed { session.commit(runtime) } else { session.rollback(runtime) }?;
    Ok(analyzed)
}
