//! The protocol's flow: startup, simple and extended query, COPY, termination.
//!
//! Invariants
//! 1. A message is processed completely or the session ends; after an error in the extended protocol
//!    messages are skipped up to Sync.
//! 2. A panic ends the session, not the server.
//! 3. Who has not proved who he is has no session; what he sends is looked at by `crate::authentication` alone.

use crate::authentication::{self, Answer, Login, Refusal};
use crate::connection_log::{self, SetupTimes};
use crate::runtime::CoroutineRuntime;
use crate::shared::ServerShared;
use crate::tls::negotiation;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::memory::{self, MemoryAccount};
use kilndb_base::park::Park;
use kilndb_base::prefetch::prefetch;
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::work::under;
use kilndb_base::{Error, Oid, Result, Severity, sqlstate};
use kilndb_context::client::{Client, CopyStream, FieldInfo, MessageMaker, Remarks, WaitKind};
use kilndb_sql::session::{BindRequest, FunctionCallRequest, Session, StartupOptions};
use kilndb_wire::backend::FieldDescription;
use kilndb_wire::{Frontend, OutputBuffer, Startup, frontend};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Output above this is sent before more is produced.
pub const OUTPUT_LIMIT_BYTES: usize = 128 * 1024;

/// A longer message that is alone in the buffer is not copied out of it: the buffers are exchanged.
const COPIED_BYTES: usize = 64 * 1024;

#[derive(Default)]
pub struct ProtocolState {
    phase: SessionPhase,
    /// The message in work; kept for its capacity.
    message: Vec<u8>,
    skip_to_sync: bool,
    /// What the session's transaction holds, between steps.
    memory: MemoryAccount,
}

#[derive(Default)]
enum SessionPhase {
    #[default]
    Startup,
    /// The client is proving who he is.
    Authenticating(Box<Proving>),
    /// He has not, which the log knows; he is told when his time has come.
    Refused(Box<Error>),
    Ready(Box<Session>),
    Finished,
}

/// Somebody between the startup packet and the session.
struct Proving {
    login: Login,
    began_nanos: u64,
}

impl ProtocolState {
    pub fn prefetch(&self) {
        if let SessionPhase::Ready(session) = &self.phase {
            prefetch(&**session);
        }
    }
    pub fn prefetch_further(&self) {
        if let SessionPhase::Ready(session) = &self.phase {
            session.prefetch_further();
        }
    }
    pub fn finished(&self) -> bool {
        matches!(self.phase, SessionPhase::Finished)
    }
}

/// Works off the messages that are there. Runs on a coroutine.
pub fn run_step(mut step: ProtocolState, runtime: &CoroutineRuntime, shared: &Arc<ServerShared>) -> ProtocolState {
    let outcome = catch_unwind(AssertUnwindSafe(|| under(runtime, || work_on_account(&mut step, runtime, shared))));
    let end = match outcome {
        Ok(Ok(())) => return step,
        Ok(Err(e)) => e,
        Err(panic) => {
            let text = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("unknown");
            Error::internal(format!("internal error: {text}"))
        }
    };
    // Nobody reads an error of a client that has gone.
    if !is_client_gone(&end) {
        let end = end.with_severity(Severity::Fatal);
        match &mut step.phase {
            SessionPhase::Ready(session) => {
                session.log_error(&end, text_of(&step.message, session).as_deref(), runtime)
            }
            SessionPhase::Refused(_) => {}
            _ => connection_log::failed(shared, &runtime.control, &end),
        }
        runtime.link.output.borrow_mut().error_or_notice(&end.0);
    }
    if let SessionPhase::Ready(mut session) = std::mem::take(&mut step.phase) {
        connection_log::disconnected(shared, &runtime.control, &session);
        let closed = catch_unwind(AssertUnwindSafe(|| session.close(runtime)));
        if closed.is_err() {
            shared.instance.cluster.log(Severity::Warning, "a session failed while it was closed");
        }
    }
    step.phase = SessionPhase::Finished;
    step
}

/// What ends a session whose client has said goodbye, hung up, or said nothing in time.
pub fn client_gone() -> Error {
    Error::new(sqlstate::CONNECTION_FAILURE, "connection to client lost").with_severity(Severity::Fatal)
}

/// Whether `end` is [`client_gone`]. A routine may raise the same SQLSTATE, but never with this severity.
fn is_client_gone(end: &Error) -> bool {
    end.0.severity == Severity::Fatal && end.sqlstate() == sqlstate::CONNECTION_FAILURE
}

/// Works with the account of the session's transaction.
fn work_on_account(step: &mut ProtocolState, runtime: &CoroutineRuntime, shared: &Arc<ServerShared>) -> Result<()> {
    memory::replace(step.memory);
    let done = work(step, runtime, shared);
    step.memory = memory::account();
    done
}

fn work(step: &mut ProtocolState, runtime: &CoroutineRuntime, shared: &Arc<ServerShared>) -> Result<()> {
    loop {
        if runtime.control.terminate_requested.load(Ordering::Acquire) {
            if !matches!(step.phase, SessionPhase::Ready(_)) {
                return Err(client_gone());
            }
            return Err(Error::new(sqlstate::ADMIN_SHUTDOWN, "terminating connection due to administrator command")
                .with_severity(Severity::Fatal));
        }
        if let SessionPhase::Refused(error) = &step.phase {
            runtime.link.drop_input();
            if runtime.link.end_of_input.get() || runtime.link.write_failed.get() {
                return Err(client_gone());
            }
            return runtime.control.refuse_long_idleness().map_err(|_| (**error).clone());
        }
        if !next_message(&mut step.message, runtime)? {
            if runtime.link.end_of_input.get() || runtime.link.write_failed.get() {
                if let SessionPhase::Ready(session) = &step.phase
                    && session.status() != b'I'
                {
                    session.log_message("unexpected EOF on client connection with an open transaction".into());
                }
                return Err(client_gone());
            }
            let session = match &mut step.phase {
                SessionPhase::Ready(session) => session,
                SessionPhase::Authenticating(_) => {
                    return runtime.control.refuse_long_idleness().map_err(|_| authentication::timed_out());
                }
                // Whoever has said nothing in time is not known to understand an error.
                _ => return runtime.control.refuse_long_idleness().map_err(|_| client_gone()),
            };
            session.deliver_notifications(runtime, &mut WireClient { runtime })?;
            return runtime.control.refuse_long_idleness();
        }
        let message = std::mem::take(&mut step.message);
        let done = match &mut step.phase {
            SessionPhase::Startup => take_on(&mut step.phase, startup(&message, runtime, shared), runtime, shared),
            SessionPhase::Authenticating(proving) => {
                let answer = proving.login.answer(&message, runtime, shared);
                let SessionPhase::Authenticating(proving) = std::mem::take(&mut step.phase) else {
                    return Err(Error::internal("somebody proves who he is, and does not"));
                };
                take_on(&mut step.phase, answer.map(|answer| Some((proving, answer))), runtime, shared)
            }
            // Looked after above.
            SessionPhase::Refused(_) => Ok(()),
            SessionPhase::Ready(session) => dispatch(session, &mut step.skip_to_sync, &message, runtime),
            SessionPhase::Finished => Err(client_gone()),
        };
        step.message = message;
        if step.message.capacity() > 64 * 1024 {
            step.message = Vec::new();
        }
        done?;
    }
}

fn no_room_for_message(length: usize) -> Error {
    Error::new(sqlstate::OUT_OF_MEMORY, "out of memory")
        .with_detail(format!("There is no room for a message of {} kB.", length >> 10))
}

/// Takes the next whole message out of the input; false if there is none yet. Of one that was refused there is its kind.
fn next_message(message: &mut Vec<u8>, runtime: &CoroutineRuntime) -> Result<bool> {
    let link = &runtime.link;
    if let Some((kind, _)) = link.refused.get() {
        message.clear();
        message.push(kind);
        return Ok(link.has_message());
    }
    link.trim_used();
    let mut input = link.input.borrow_mut();
    let start = link.consumed.get();
    let rest = &input[start..];
    if link.started.get() && link.is_too_long(rest) {
        return Err(Error::new(sqlstate::PROTOCOL_VIOLATION, "invalid message length"));
    }
    let length = if link.started.get() {
        frontend::message_length(rest)?.map(|(_, length)| length)
    } else {
        frontend::startup_length(rest)?
    };
    let Some(length) = length else {
        input.drain(..start);
        link.consumed.set(0);
        return Ok(false);
    };
    message.clear();
    if start == 0 && input.len() == length && length > COPIED_BYTES {
        std::mem::swap(message, &mut input);
        return Ok(true);
    }
    message.extend_from_slice(&rest[..length]);
    link.consumed.set(start + length);
    Ok(true)
}

/// A step of somebody who is no session yet. `None`: he has only asked for what is not there.
fn take_on(
    phase: &mut SessionPhase,
    done: std::result::Result<Option<(Box<Proving>, Answer)>, Refusal>,
    runtime: &CoroutineRuntime,
    shared: &Arc<ServerShared>,
) -> Result<()> {
    match done {
        Ok(None) => {}
        Ok(Some((proving, Answer::Asked))) => *phase = SessionPhase::Authenticating(proving),
        Ok(Some((proving, Answer::LetIn))) => *phase = SessionPhase::Ready(let_in(*proving, runtime, shared)?),
        Err(refusal) => *phase = SessionPhase::Refused(refuse(refusal, runtime, shared)?),
    }
    Ok(())
}

/// The log is told at once, the client when his time has come.
fn refuse(refusal: Refusal, runtime: &CoroutineRuntime, shared: &Arc<ServerShared>) -> Result<Box<Error>> {
    if is_client_gone(&refusal.error) {
        return Err(refusal.error);
    }
    let error = refusal.error.with_severity(Severity::Fatal);
    let told = match refusal.log_detail {
        Some(detail) => error.clone().with_detail(detail),
        None => error.clone(),
    };
    connection_log::failed(shared, &runtime.control, &told);
    let now = process_monotonic_nanos();
    let delay_nanos = if refusal.is_guess {
        let most = shared.instance.cluster.settings().number("authentication_delay_max").max(0) as u64;
        shared.guesses.wrong(authentication::address_of(runtime), now, most * 1_000_000)
    } else {
        0
    };
    runtime.control.idle_deadline_nanos.store(now + delay_nanos, Ordering::Relaxed);
    Ok(Box::new(error))
}

fn startup(
    packet: &[u8],
    runtime: &CoroutineRuntime,
    shared: &Arc<ServerShared>,
) -> std::result::Result<Option<(Box<Proving>, Answer)>, Refusal> {
    let (minor, parameters) = match frontend::decode_startup(packet)? {
        Startup::Ssl => return Ok(negotiation::answer_ssl_request(runtime, shared).map(|()| None)?),
        Startup::GssEncryption => return Ok(negotiation::answer_gss_request(runtime, shared).map(|()| None)?),
        Startup::Cancel { process_id, secret } => {
            shared.cancel(process_id, secret);
            return Err(client_gone().into());
        }
        Startup::Startup { minor, parameters, .. } => (minor, parameters),
    };
    runtime.link.started.set(true);
    if shared.stopping() {
        return Err(Error::new(sqlstate::CANNOT_CONNECT_NOW, "the database system is shutting down").into());
    }
    let unknown: Vec<&str> = parameters.iter().map(|(n, _)| *n).filter(|n| n.starts_with("_pq_.")).collect();
    if minor > 2 || !unknown.is_empty() {
        runtime.link.output.borrow_mut().negotiate_protocol_version(2, &unknown);
    }
    let options = StartupOptions::from_parameters(&parameters)?;
    connection_log::introduced(&runtime.control, &options);
    let began_nanos = process_monotonic_nanos();
    let (login, answer) = authentication::begin(options, minor, runtime, shared)?;
    Ok(Some((Box::new(Proving { login, began_nanos }), answer)))
}

/// He has proved who he is, and becomes a session.
fn let_in(proving: Proving, runtime: &CoroutineRuntime, shared: &Arc<ServerShared>) -> Result<Box<Session>> {
    let Proving { mut login, began_nanos } = proving;
    let authentication_nanos = process_monotonic_nanos() - began_nanos;
    connection_log::authenticated(shared, &runtime.control, &login);
    runtime.link.output.borrow_mut().authentication_ok();
    let left = shared.admit()?;
    runtime.link.admitted.set(true);
    shared.introduced(runtime.control.process_id);
    runtime.control.idle_deadline_nanos.store(0, Ordering::Relaxed);
    runtime.link.message_bytes_max.set(usize::MAX);
    if let Some(database) = &runtime.link.console_database {
        login.options.database.clone_from(database);
    }
    let mut session = Session::connect(shared.instance.clone(), login.options, runtime)?;
    session.refuse_reserved_place(left)?;
    connection_log::authorized(shared, &runtime.control, &session, &SetupTimes { authentication_nanos });
    session.send_first_notices(&mut WireClient { runtime });
    let mut output = runtime.link.output.borrow_mut();
    for (name, value) in session.reported_parameters() {
        output.parameter_status(&name, &value);
    }
    let secret_bytes = if login.minor >= 2 { 32 } else { 4 };
    output.backend_key_data(runtime.control.process_id, runtime.control.tell_secret(secret_bytes));
    output.ready_for_query(session.status());
    runtime.link.is_urgent.set(true);
    Ok(Box::new(session))
}

fn dispatch(session: &mut Session, skip_to_sync: &mut bool, message: &[u8], runtime: &CoroutineRuntime) -> Result<()> {
    let kind = message.first().copied().unwrap_or(0);
    if *skip_to_sync && !b"SX".contains(&kind) {
        return Ok(());
    }
    let mut client = WireClient { runtime };
    let done = match runtime.link.refused.take() {
        Some((_, length)) => Err(no_room_for_message(length)),
        None => frontend::decode(message).and_then(|m| perform(session, m, runtime, &mut client)),
    };
    let ready = kind == b'S' || kind == b'Q' || kind == b'F';
    if let Err(e) = done {
        if e.0.severity >= Severity::Fatal {
            return Err(e);
        }
        let e = session.explain_error(e);
        session.log_error(&e, text_of(message, session).as_deref(), runtime);
        session.abort_statement(runtime)?;
        runtime.link.output.borrow_mut().error_or_notice(&e.0);
        *skip_to_sync = !ready;
    }
    if ready {
        *skip_to_sync = false;
        session.deliver_notifications(runtime, &mut client)?;
        session.report_settings(&mut client);
        let in_block = session.status() != b'I';
        runtime.link.in_block.set(in_block);
        if !in_block {
            // What is left of a transaction's memory is the session's, or everybody's.
            memory::set_held(0);
        }
        runtime.link.output.borrow_mut().ready_for_query(session.status());
        runtime.link.is_urgent.set(true);
    }
    Ok(())
}

/// The statement's text, as far as the message has or names it.
fn text_of(message: &[u8], session: &Session) -> Option<Arc<str>> {
    match frontend::decode(message).ok()? {
        Frontend::Query(sql) | Frontend::Parse { sql, .. } => Some(sql.into()),
        Frontend::Bind(b) => session.prepared_text(b.statement),
        Frontend::Describe { portal: false, name } => session.prepared_text(name),
        _ => None,
    }
}

fn perform(
    session: &mut Session,
    message: Frontend<'_>,
    runtime: &CoroutineRuntime,
    client: &mut WireClient<'_>,
) -> Result<()> {
    match message {
        Frontend::Query(sql) => session.simple_query(sql, runtime, client),
        Frontend::Parse { name, sql, param_types } => {
            session.parse(name, sql, &param_types, runtime)?;
            client.output(|o| o.parse_complete());
            Ok(())
        }
        Frontend::Bind(b) => {
            let request = BindRequest {
                portal: b.portal,
                statement: b.statement,
                param_formats: &b.param_formats,
                params: &b.params,
                result_formats: &b.result_formats,
            };
            session.bind(&request, runtime, client)?;
            client.output(|o| o.bind_complete());
            Ok(())
        }
        Frontend::Describe { portal: true, name } => session.describe_portal(name, client),
        Frontend::Describe { portal: false, name } => session.describe_statement(name, runtime, client),
        Frontend::Execute { portal, max_rows } => {
            let limit = u64::try_from(max_rows).ok().filter(|n| *n > 0);
            session.execute(portal, limit, runtime, client)
        }
        Frontend::Close { portal, name } => {
            session.close_named(portal, name);
            client.output(|o| o.close_complete());
            Ok(())
        }
        Frontend::Sync => session.sync(runtime, client),
        Frontend::Flush => {
            runtime.link.is_urgent.set(true);
            Ok(())
        }
        Frontend::Terminate => Err(client_gone()),
        // Left over from a COPY that failed: the client had not heard of it yet.
        Frontend::CopyData(_) | Frontend::CopyDone | Frontend::CopyFail(_) => Ok(()),
        Frontend::Password(_) => {
            let message = format!("invalid frontend message type {}", b'p');
            Err(Error::new(sqlstate::PROTOCOL_VIOLATION, message).with_severity(Severity::Fatal))
        }
        Frontend::FunctionCall(call) => {
            let request = FunctionCallRequest {
                function: call.function,
                argument_formats: &call.argument_formats,
                arguments: &call.arguments,
                result_format: call.result_format,
            };
            let value = session.function_call(&request, runtime, client)?;
            client.output(|o| o.function_call_response(value.as_deref()));
            Ok(())
        }
    }
}

/// The client's end of the session, over the connection's buffers.
pub struct WireClient<'a> {
    runtime: &'a CoroutineRuntime,
}

impl WireClient<'_> {
    fn output<R>(&self, f: impl FnOnce(&mut kilndb_wire::OutputBuffer) -> R) -> R {
        f(&mut self.runtime.link.output.borrow_mut())
    }
}

/// Messages that are made apart from a connection's output.
struct WireMessages;

/// Appends messages to `out` as to a connection's output.
fn append_messages<R>(out: &mut Vec<u8>, make: impl FnOnce(&mut OutputBuffer) -> R) -> R {
    let mut buffer = OutputBuffer { buf: std::mem::take(out) };
    let made = make(&mut buffer);
    *out = buffer.buf;
    made
}

impl MessageMaker for WireMessages {
    fn data_row(
        &self,
        count: usize,
        write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        append_messages(out, |o| o.data_row(count, write))
    }
    fn copy_data(&self, data: &[u8], out: &mut Vec<u8>) {
        append_messages(out, |o| o.copy_data(data));
    }
}

impl Client for WireClient<'_> {
    fn row_description(&mut self, fields: &[FieldInfo<'_>]) {
        let fields = fields.iter().map(|f| FieldDescription {
            name: f.name,
            table_oid: f.table_oid,
            attnum: f.attnum,
            type_oid: f.type_oid,
            type_len: f.type_len,
            typmod: f.typmod,
            format: f.format,
        });
        self.output(|o| o.row_description(fields));
    }
    fn no_data(&mut self) {
        self.output(|o| o.no_data());
    }
    fn parameter_description(&mut self, types: &[Oid]) {
        self.output(|o| o.parameter_description(types));
    }
    fn data_row(&mut self, count: usize, write: &mut dyn FnMut(usize, &mut Vec<u8>) -> Result<bool>) -> Result<()> {
        self.output(|o| o.data_row(count, write))?;
        self.throttle()
    }
    fn command_complete(&mut self, tag: &str) {
        self.output(|o| o.command_complete(tag));
    }
    fn empty_query(&mut self) {
        self.output(|o| o.empty_query_response());
    }
    fn portal_suspended(&mut self) {
        self.output(|o| o.portal_suspended());
    }
    fn messages(&self) -> Option<&'static dyn MessageMaker> {
        Some(&WireMessages)
    }
    fn send_made(&mut self, messages: &[u8]) -> Result<()> {
        self.output(|o| o.buf.extend_from_slice(messages));
        self.throttle()
    }
}

impl Remarks for WireClient<'_> {
    fn notice(&mut self, notice: &Error) {
        self.output(|o| o.error_or_notice(&notice.0));
    }
    fn parameter_status(&mut self, name: &str, value: &str) {
        self.output(|o| o.parameter_status(name, value));
    }
    fn notification(&mut self, process_id: i32, channel: &str, payload: &str) {
        self.output(|o| o.notification(process_id, channel, payload));
    }
    fn throttle(&mut self) -> Result<()> {
        while self.runtime.link.pending_output() > OUTPUT_LIMIT_BYTES {
            self.runtime.wait_for_client(WaitKind::ClientWrite);
            if self.runtime.link.write_failed.get() || self.runtime.link.end_of_input.get() {
                return Err(client_gone());
            }
            self.runtime.checkpoint()?;
        }
        Ok(())
    }
}

impl CopyStream for WireClient<'_> {
    fn copy_in_begin(&mut self, binary: bool, columns: usize) -> Result<()> {
        self.output(|o| o.copy_response(b'G', binary, columns));
        Ok(())
    }
    fn copy_in_read(&mut self, data: &mut Vec<u8>) -> Result<bool> {
        let mut message = Vec::new();
        loop {
            while !next_message(&mut message, self.runtime)? {
                let link = &self.runtime.link;
                if link.end_of_input.get() {
                    return Err(Error::new(
                        sqlstate::PROTOCOL_VIOLATION,
                        "unexpected EOF on client connection with an open transaction",
                    )
                    .with_severity(Severity::Fatal));
                }
                self.runtime.wait_for_client(WaitKind::ClientRead);
                self.runtime.checkpoint()?;
            }
            if let Some((_, length)) = self.runtime.link.refused.take() {
                return Err(no_room_for_message(length));
            }
            match frontend::decode(&message)? {
                Frontend::CopyData(bytes) => {
                    data.extend_from_slice(bytes);
                    return Ok(true);
                }
                Frontend::CopyDone => return Ok(false),
                Frontend::CopyFail(why) => {
                    return Err(Error::new(sqlstate::QUERY_CANCELED, format!("COPY from stdin failed: {why}")));
                }
                Frontend::Flush | Frontend::Sync => {}
                Frontend::Terminate => return Err(client_gone()),
                _ => {
                    return Err(Error::new(
                        sqlstate::PROTOCOL_VIOLATION,
                        format!("unexpected message type 0x{:02X} during COPY from stdin", message[0]),
                    )
                    .with_severity(Severity::Fatal));
                }
            }
        }
    }
    fn copy_out_begin(&mut self, binary: bool, columns: usize) {
        self.output(|o| o.copy_response(b'H', binary, columns));
    }
    fn copy_out_data(&mut self, data: &[u8]) -> Result<()> {
        self.output(|o| o.copy_data(data));
        self.throttle()
    }
    fn copy_out_end(&mut self) {
        self.output(|o| o.copy_done());
    }
}
