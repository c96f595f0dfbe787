//! A client and its session in one: statements go to the session without a wire, answers come as a client would have
//! understood them.

use crate::machine::{Process, WORKERS};
use kilndb_base::park::{Park, ThreadPark, Wake, WakeHandle};
use kilndb_base::sync::scheduler;
use kilndb_base::sync::{Arc, Condvar, Mutex, MutexGuard};
use kilndb_base::{Error, Oid, Result, Severity, sqlstate, work};
use kilndb_context::client::{Activity, Client, CopyStream, FieldInfo, Remarks, Runtime, SessionControl};
use kilndb_lab::client::{Answer, ClientError, Connection, ServerError};
use kilndb_sql::Instance;
use kilndb_sql::session::{BindRequest, Session, StartupOptions};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How a session waits that has a task of its own.
struct ThreadRuntime {
    park: ThreadPark,
    control: Arc<SessionControl>,
    worker: usize,
}

/// Nobody is idle here who would have to be woken.
struct NoAttention;
impl Wake for NoAttention {
    fn wake(&self) {}
}

impl ThreadRuntime {
    fn park_until(&self, deadline_nanos: Option<u64>, for_lock: bool) -> Result<()> {
        self.control.check_interrupts()?;
        let lock_timeout = self.control.lock_timeout_nanos.load(Ordering::Relaxed);
        let lock_deadline = (for_lock && deadline_nanos.is_none() && lock_timeout != 0)
            .then(|| scheduler::now_nanos().saturating_add(lock_timeout));
        let ends = [&self.control.statement_deadline_nanos, &self.control.transaction_deadline_nanos];
        let ends = ends.iter().map(|end| end.load(Ordering::Relaxed)).filter(|end| *end != 0);
        self.park.park(ends.chain(deadline_nanos.or(lock_deadline)).min())?;
        self.control.check_interrupts()?;
        if lock_deadline.is_some_and(|end| scheduler::now_nanos() >= end) {
            return Err(Error::new(sqlstate::LOCK_NOT_AVAILABLE, "canceling statement due to lock timeout"));
        }
        Ok(())
    }
}

impl Park for ThreadRuntime {
    fn wake_handle(&self) -> WakeHandle {
        self.park.wake_handle()
    }
    fn park(&self, deadline_nanos: Option<u64>) -> Result<()> {
        self.park_until(deadline_nanos, deadline_nanos.is_none())
    }
    fn park_for_lock(&self, deadline_nanos: u64) -> Result<()> {
        self.park_until(Some(deadline_nanos), true)
    }
    fn park_uninterruptible(&self) {
        self.park.park_uninterruptible();
    }
    fn checkpoint(&self) -> Result<()> {
        scheduler::point();
        self.control.check_interrupts()
    }
}

impl Runtime for ThreadRuntime {
    fn control(&self) -> &SessionControl {
        &self.control
    }
    fn worker(&self) -> usize {
        self.worker
    }
}

/// Understands what the session says.
#[derive(Default)]
struct AnswerListener {
    answers: Vec<Answer>,
    current: Answer,
}

impl Client for AnswerListener {
    fn row_description(&mut self, fields: &[FieldInfo<'_>]) {
        self.current.columns = fields.iter().map(|f| (f.name.to_string(), f.type_oid)).collect();
    }
    fn no_data(&mut self) {}
    fn parameter_description(&mut self, _types: &[Oid]) {}
    fn data_row(&mut self, count: usize, write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>) -> Result<()> {
        let mut row = Vec::with_capacity(count);
        for column in 0..count {
            let mut bytes = Vec::new();
            let is_value = write(column, &mut bytes)?;
            row.push(is_value.then(|| String::from_utf8_lossy(&bytes).into_owned()));
        }
        self.current.rows.push(row);
        Ok(())
    }
    fn command_complete(&mut self, tag: &str) {
        self.current.tag = tag.to_string();
        self.answers.push(std::mem::take(&mut self.current));
    }
    fn empty_query(&mut self) {
        self.answers.push(std::mem::take(&mut self.current));
    }
    fn portal_suspended(&mut self) {}
}

impl Remarks for AnswerListener {
    fn notice(&mut self, _notice: &Error) {}
    fn parameter_status(&mut self, _name: &str, _value: &str) {}
    fn notification(&mut self, _process_id: i32, _channel: &str, _payload: &str) {}
    fn throttle(&mut self) -> Result<()> {
        Ok(())
    }
}

impl CopyStream for AnswerListener {
    fn copy_in_begin(&mut self, _binary: bool, _columns: usize) -> Result<()> {
        Err(Error::new(sqlstate::QUERY_CANCELED, "the simulation has no rows for COPY"))
    }
    fn copy_in_read(&mut self, _data: &mut Vec<u8>) -> Result<bool> {
        Ok(false)
    }
    fn copy_out_begin(&mut self, _binary: bool, _columns: usize) {}
    fn copy_out_data(&mut self, _data: &[u8]) -> Result<()> {
        Ok(())
    }
    fn copy_out_end(&mut self) {}
}

/// What a client asks.
enum ClientRequest {
    Query(String),
    Prepare { name: String, sql: String },
    Execute { name: String, parameters: Vec<String> },
    Terminate,
}

impl ClientRequest {
    fn text(&self) -> Option<String> {
        match self {
            ClientRequest::Query(sql) | ClientRequest::Prepare { sql, .. } => Some(sql.clone()),
            ClientRequest::Execute { name, parameters } => Some(format!("execute {name} {parameters:?}")),
            ClientRequest::Terminate => None,
        }
    }
}

type ClientResponse = std::result::Result<Vec<Answer>, ClientError>;

/// What lies between a client and its session. A client outlives the process that its session is in.
#[derive(Default)]
pub struct Channel {
    state: Mutex<ChannelState>,
    changed: Condvar,
}

#[derive(Default)]
struct ChannelState {
    request: Option<ClientRequest>,
    response: Option<ClientResponse>,
    is_lost: bool,
    /// What was asked last, until it is answered.
    asked: Option<String>,
    /// Nothing more is asked.
    is_closing: bool,
}

impl Channel {
    fn state(&self) -> MutexGuard<'_, ChannelState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    /// The process has ended.
    pub fn lose(&self) {
        self.state().is_lost = true;
        self.changed.notify_all();
    }
    pub(crate) fn open_statement(&self) -> Option<String> {
        self.state().asked.clone()
    }
    /// The client finds the connection lost when it asks next.
    pub fn close(&self) {
        self.state().is_closing = true;
    }
    fn ask(&self, request: ClientRequest) -> ClientResponse {
        let mut state = self.state();
        if state.is_closing {
            return Err(ClientError::Io(std::io::Error::other("the connection is closed")));
        }
        state.asked = request.text();
        state.request = Some(request);
        self.changed.notify_all();
        loop {
            if let Some(response) = state.response.take() {
                state.asked = None;
                return response;
            }
            if state.is_lost {
                return Err(ClientError::Io(std::io::Error::other("the process has ended")));
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }
    fn next_request(&self) -> ClientRequest {
        let mut state = self.state();
        loop {
            if let Some(request) = state.request.take() {
                return request;
            }
            state = self.changed.wait(state).unwrap_or_else(|e| e.into_inner());
        }
    }
    fn answer(&self, response: ClientResponse) {
        self.state().response = Some(response);
        self.changed.notify_all();
    }
}

/// A client's end of a session.
pub struct SimConnection {
    channel: Arc<Channel>,
    process: Arc<Process>,
}

/// admin_shutdown: `pg_terminate_backend`.
const TERMINATED: &str = "57P01";

fn told(e: &Error) -> ClientError {
    ClientError::Server(ServerError {
        severity: if e.0.severity >= Severity::Fatal { "FATAL" } else { "ERROR" }.to_string(),
        code: e.sqlstate().as_str().to_string(),
        message: e.message().to_string(),
        detail: None,
    })
}

impl SimConnection {
    pub fn connect(process: &Arc<Process>) -> std::result::Result<SimConnection, ClientError> {
        let lost = || ClientError::Io(std::io::Error::other("no process is there"));
        let Some(Ok(instance)) = process.instance() else { return Err(lost()) };
        let channel = Arc::new(Channel::default());
        if !process.keep(&channel) {
            return Err(lost());
        }
        SimConnection::over(process, channel, instance)
    }
    /// Connects to a process even if it takes no clients any more.
    pub(crate) fn connect_late(process: &Arc<Process>) -> std::result::Result<SimConnection, ClientError> {
        let lost = || ClientError::Io(std::io::Error::other("no process is there"));
        let Some(Ok(instance)) = process.instance() else { return Err(lost()) };
        SimConnection::over(process, Arc::default(), instance)
    }
    fn over(
        process: &Arc<Process>,
        channel: Arc<Channel>,
        instance: Arc<Instance>,
    ) -> std::result::Result<SimConnection, ClientError> {
        let (of_session, number) = (channel.clone(), process.next_session());
        let serve = move || serve(&instance, &of_session, number);
        scheduler::spawn(&format!("session {number}"), Some(process.life), serve)?;
        let mut connection = SimConnection { channel, process: process.clone() };
        connection.query("select 1").map(|_| connection)
    }
    /// A client that somebody ends, or that the machine's troubles keep from its work, gives its connection up.
    fn ask(&self, request: ClientRequest) -> ClientResponse {
        self.process.wait_for_quiet_to_end();
        let response = self.channel.ask(request);
        if self.process.is_killed() {
            return Err(ClientError::Io(std::io::Error::other("the process has ended")));
        }
        match response {
            Err(ClientError::Server(e)) if e.code == TERMINATED || self.process.is_excused(&e.code) => {
                Err(ClientError::Io(std::io::Error::other(format!("{} {}", e.code, e.message))))
            }
            done => done,
        }
    }
}

impl Connection for SimConnection {
    fn query(&mut self, sql: &str) -> ClientResponse {
        self.ask(ClientRequest::Query(sql.to_string()))
    }
    fn prepare(&mut self, name: &str, sql: &str) -> std::result::Result<(), ClientError> {
        self.ask(ClientRequest::Prepare { name: name.to_string(), sql: sql.to_string() }).map(|_| ())
    }
    fn execute(&mut self, name: &str, parameters: &[String]) -> ClientResponse {
        self.ask(ClientRequest::Execute { name: name.to_string(), parameters: parameters.to_vec() })
    }
    fn pause(&mut self, time: Duration) {
        scheduler::sleep(time);
    }
}

impl Drop for SimConnection {
    fn drop(&mut self) {
        self.channel.state().request = Some(ClientRequest::Terminate);
        self.channel.changed.notify_all();
    }
}

/// A session from its start to its end.
fn serve(instance: &Arc<Instance>, channel: &Channel, number: u32) {
    let park = ThreadPark::new();
    let wake = park.wake_handle();
    let attention: WakeHandle = Arc::new(NoAttention);
    let control = SessionControl::new(1000 + number as i32, vec![0; 32], wake, attention, Activity::default());
    let runtime = ThreadRuntime { park, control: Arc::new(control), worker: number as usize % WORKERS };
    instance.cluster.sessions().add(runtime.control.clone());
    let options = StartupOptions { user: "postgres".into(), database: "postgres".into(), settings: Vec::new() };
    let connected = work::under(&runtime, || Session::connect(instance.clone(), options, &runtime));
    let mut session = match connected {
        Ok(session) => session,
        Err(e) => return channel.answer(Err(told(&e))),
    };
    loop {
        let request = channel.next_request();
        if matches!(request, ClientRequest::Terminate) {
            break;
        }
        let done = catch_unwind(AssertUnwindSafe(|| perform(&mut session, &runtime, request)));
        let done = done.unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string));
            Err(told(&Error::internal(format!("panic: {}", text.unwrap_or_default()))))
        });
        let is_last = matches!(&done, Err(ClientError::Server(e)) if e.severity == "FATAL");
        channel.answer(done);
        if is_last {
            break;
        }
    }
    work::under(&runtime, || session.close(&runtime));
    instance.cluster.sessions().remove(runtime.control.process_id);
}

/// A request up to where a client would be answered with ReadyForQuery.
fn perform(session: &mut Session, runtime: &ThreadRuntime, request: ClientRequest) -> ClientResponse {
    let mut listener = AnswerListener::default();
    let done = work::under(runtime, || {
        let mut done = step(session, runtime, &mut listener, &request);
        if let Err(e) = done {
            let e = session.explain_error(e);
            session.abort_statement(runtime)?;
            done = Err(e);
        }
        if !matches!(request, ClientRequest::Query(_)) {
            done = done.and(session.sync(runtime, &mut listener));
        }
        session.deliver_notifications(runtime, &mut listener)?;
        session.report_settings(&mut listener);
        done
    });
    done.map(|()| listener.answers).map_err(|e| told(&e))
}

fn step(
    session: &mut Session,
    runtime: &ThreadRuntime,
    client: &mut AnswerListener,
    request: &ClientRequest,
) -> Result<()> {
    match request {
        ClientRequest::Query(sql) => session.simple_query(sql, runtime, client),
        ClientRequest::Prepare { name, sql } => session.parse(name, sql, &[], runtime),
        ClientRequest::Execute { name, parameters } => {
            let params: Vec<Option<&[u8]>> = parameters.iter().map(|p| Some(p.as_bytes())).collect();
            let request =
                BindRequest { portal: "", statement: name, param_formats: &[], params: &params, result_formats: &[] };
            session.bind(&request, runtime, client)?;
            session.describe_portal("", client)?;
            session.execute("", None, runtime, client)
        }
        ClientRequest::Terminate => Ok(()),
    }
}
