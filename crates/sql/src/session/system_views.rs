//! Makes the system views when a cluster is made.

use super::{Session, StartupOptions};
use crate::client::{Activity, Runtime, SessionControl};
use crate::host::StatementHost;
use crate::instance::Instance;
use kilndb_base::park::{Park, ThreadPark, WakeHandle};
use kilndb_base::{Error, Result};
use kilndb_catalog::bootstrap::TEMPLATE1;
use kilndb_syntax::Node;
use std::sync::Arc;

const SYSTEM_VIEWS: &str = include_str!("../../data/system_views.sql");

/// Runs a session on the thread that starts the server.
pub(crate) struct StartRuntime {
    park: ThreadPark,
    control: SessionControl,
}

impl StartRuntime {
    pub(crate) fn new() -> StartRuntime {
        let park = ThreadPark::new();
        let control = SessionControl::new(0, Vec::new(), park.wake_handle(), park.wake_handle(), Activity::default());
        StartRuntime { park, control }
    }
}

impl Park for StartRuntime {
    fn wake_handle(&self) -> WakeHandle {
        self.park.wake_handle()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        self.park.park(deadline_nanos)
    }
    fn park_uninterruptible(&self) {
        self.park.park_uninterruptible();
    }
    fn checkpoint(&self) -> Result<()> {
        Ok(())
    }
}

impl Runtime for StartRuntime {
    fn control(&self) -> &SessionControl {
        &self.control
    }
    fn worker(&self) -> usize {
        0
    }
}

/// In template1, in one transaction.
pub(crate) fn create_system_views(instance: Arc<Instance>) -> Result<()> {
    let runtime = StartRuntime::new();
    let options =
        StartupOptions { user: "postgres".to_string(), database: "template1".to_string(), settings: Vec::new() };
    let mut session = Session::connect(instance, options, &runtime)?;
    debug_assert_eq!(session.context.database.oid, TEMPLATE1);
    let made = run_view_script(&mut session, &runtime);
    session.close(&runtime);
    made
}

/// Gives the system views the definitions of this build, and makes those that are not there, in the open transaction.
pub(super) fn renew_views(session: &mut Session, runtime: &dyn Runtime) -> Result<()> {
    add_missing_views(session, runtime)?;
    session.context.catalogs.allow_system_objects = true;
    let script = kilndb_syntax::parse(&SYSTEM_VIEWS.replace("CREATE VIEW", "CREATE OR REPLACE VIEW"))?;
    for statement in script.statements() {
        let Node::ViewStmt(view) = statement.node() else { continue };
        session.definitions("CREATE VIEW").create_view(view, statement.source(), runtime)?;
        if let Some(txn) = &mut session.context.transaction.txn {
            txn.next_command();
        }
    }
    Ok(())
}

/// Makes the system views that are not there, in the open transaction.
fn add_missing_views(session: &mut Session, runtime: &dyn Runtime) -> Result<()> {
    let script = kilndb_syntax::parse(SYSTEM_VIEWS)?;
    session.context.catalogs.allow_system_objects = true;
    for statement in script.statements() {
        let Node::ViewStmt(view) = statement.node() else {
            return Err(Error::internal("the script of system views has something else in it"));
        };
        let (schema, name) = view.view().map_or((None, None), |named| (named.schemaname(), named.relname()));
        let found = |host: &StatementHost<'_>| host.reader.find_relation(schema, name.unwrap_or(""));
        if session.context.with_catalog(runtime, found)?.is_some() {
            continue;
        }
        session.definitions("CREATE VIEW").create_view(view, statement.source(), runtime)?;
        if let Some(txn) = &mut session.context.transaction.txn {
            txn.next_command();
        }
    }
    Ok(())
}

fn run_view_script(session: &mut Session, runtime: &dyn Runtime) -> Result<()> {
    session.begin_block(runtime)?;
    add_missing_views(session, runtime)?;
    super::upgrade::add_missing_grants(session, runtime)?;
    // The text search objects that the system comes with can be dropped, so others are held by them like users'.
    let problems = session.definitions("CREATE VIEW").settle_all_definitions(runtime)?;
    if let Some(problem) = problems.into_iter().next() {
        return Err(Error::internal(problem));
    }
    session.commit(runtime)
}
