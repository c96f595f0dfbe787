//! One client: its socket, its buffers, and the coroutine that runs its current step.

mod encrypted;

pub use encrypted::{HandshakeTurn, ReplyBytes};

use crate::connection_log;
use crate::crash;
use crate::protocol::{self, ProtocolState};
use crate::runtime::{ConnectionWake, CoroutineRuntime, SuspendReason, TIME_SLICE_NANOS};
use crate::sender::SendOutcome;
use crate::shared::ServerShared;
use crate::statement_stack::StatementStack;
use crate::tls::TlsSession;
use crate::tls::negotiation::Negotiation;
use corosensei::{Coroutine, CoroutineResult};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::memory;
use kilndb_base::park::{Wake, WakeHandle};
use kilndb_base::prefetch::prefetch;
use kilndb_base::stack::{DEPTH_MAX_BYTES, StackLimit, on_stack};
use kilndb_base::sync::atomic::Ordering;
use kilndb_base::worker_load::session_number;
use kilndb_context::client::SessionControl;
use kilndb_wire::{OutputBuffer, frontend};
use mio::event::Source;
use mio::net::{TcpStream, UnixStream};
use mio::{Interest, Registry, Token};
use std::cell::{Cell, Ref, RefCell};
use std::io::{ErrorKind, Read, Write};
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, RawFd};
use std::rc::Rc;
use std::sync::Arc;

/// Stacks kept for reuse per worker.
const POOLED_STACKS: usize = 256;
/// Unread input from which on a socket is left alone until the session has caught up, in bytes, if the first message is
/// whole: a client that sends faster than the server works must not fill its memory.
const INPUT_AHEAD_BYTES: usize = 256 * 1024;
/// So much is read from a socket, or written to it, until others have had their turn.
const MOVED_AT_ONCE_BYTES: usize = 1 << 20;
/// A message of this size gets its room at once, if there is any.
const LONG_MESSAGE_BYTES: usize = 1 << 20;
/// So much of a statement's output goes ahead of the rest when the session has to wait: what PostgreSQL's buffer holds.
const SENT_BEFORE_THE_END_BYTES: usize = 8192;
/// The longest message of somebody who has not proved who he is yet, in bytes.
const STRANGERS_MESSAGE_BYTES_MAX: usize = 65_536;
/// Buffers of idle sessions are given back above this size.
const IDLE_BUFFER_BYTES: usize = 1024;

pub enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
    /// The console, on behalf of a browser.
    Console(UnixStream, Box<ConsoleCall>),
}

/// On whose behalf the console asks, and where.
pub struct ConsoleCall {
    pub peer: ConsolePeer,
    /// The database that the session is to be in. The rules of pg_hba.conf are asked about the console and not about it.
    pub database: String,
}

/// Where somebody is for whom the console asks.
#[derive(Clone, Copy)]
pub struct ConsolePeer {
    /// The browser's end and the server's; None: it came through a Unix socket.
    pub ends: Option<(SocketAddr, SocketAddr)>,
    /// As [`Socket::peer_user_id`].
    pub user_id: Option<u32>,
}

impl Socket {
    fn read(&mut self, buf: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.read(buf),
            Socket::Unix(s) | Socket::Console(s, _) => s.read(buf),
        }
    }
    fn write(&mut self, buf: &[u8]) -> std::io::Result<usize> {
        match self {
            Socket::Tcp(s) => s.write(buf),
            Socket::Unix(s) | Socket::Console(s, _) => s.write(buf),
        }
    }
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(s) => s.as_fd(),
            Socket::Unix(s) | Socket::Console(s, _) => s.as_fd(),
        }
    }
    /// The database of a session of the console.
    fn console_database(&self) -> Option<String> {
        match self {
            Socket::Console(_, call) => Some(call.database.clone()),
            Socket::Tcp(_) | Socket::Unix(_) => None,
        }
    }
    /// The user of the operating system at the other end of a Unix-domain socket.
    pub fn peer_user_id(&self) -> Option<u32> {
        match self {
            Socket::Tcp(_) => None,
            Socket::Unix(socket) => user_at_other_end(socket.as_raw_fd()),
            Socket::Console(_, call) => call.peer.user_id,
        }
    }
    /// The client's end and the server's; None for a Unix-domain socket.
    pub fn ends(&self) -> Option<(SocketAddr, SocketAddr)> {
        match self {
            Socket::Tcp(s) => s.peer_addr().ok().zip(s.local_addr().ok()),
            Socket::Unix(_) => None,
            Socket::Console(_, call) => call.peer.ends,
        }
    }
}

/// The user of the operating system at the other end of a Unix-domain socket.
pub fn user_at_other_end(socket: RawFd) -> Option<u32> {
    let mut found = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    let place = (&raw mut found).cast();
    // SAFETY: a wrong descriptor makes the call fail; `place` and `length` describe `found`, which the call fills.
    let failed = unsafe { libc::getsockopt(socket, libc::SOL_SOCKET, libc::SO_PEERCRED, place, &mut length) };
    (failed == 0).then_some(found.uid)
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> std::io::Result<()> {
        match self {
            Socket::Tcp(s) => s.register(registry, token, interests),
            Socket::Unix(s) | Socket::Console(s, _) => s.register(registry, token, interests),
        }
    }
    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> std::io::Result<()> {
        match self {
            Socket::Tcp(s) => s.reregister(registry, token, interests),
            Socket::Unix(s) | Socket::Console(s, _) => s.reregister(registry, token, interests),
        }
    }
    fn deregister(&mut self, registry: &Registry) -> std::io::Result<()> {
        match self {
            Socket::Tcp(s) => s.deregister(registry),
            Socket::Unix(s) | Socket::Console(s, _) => s.deregister(registry),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConnectionState {
    Idle,
    Queued,
    Parked,
    WaitingForInput,
    WaitingForOutput,
    /// Nothing more will run; what is in the output buffer is still sent.
    Closed,
}

/// What the worker and the coroutine share. Both run on one thread; no borrow outlives a suspension but that of `output`
/// while a row is written, which the worker keeps away from.
pub struct ConnectionLink {
    pub input: RefCell<Vec<u8>>,
    /// Bytes of `input` that are used up.
    pub consumed: Cell<usize>,
    /// A message for which there is no memory: its kind and length.
    pub refused: Cell<Option<(u8, usize)>>,
    /// How many bytes of a refused message have not been read yet; they are thrown away.
    pub refused_bytes: Cell<usize>,
    pub output: RefCell<OutputBuffer>,
    /// Bytes of `output` that the socket has taken.
    pub written: Cell<usize>,
    pub end_of_input: Cell<bool>,
    pub write_failed: Cell<bool>,
    /// Before the startup packet, messages have no type byte.
    pub started: Cell<bool>,
    /// Counts against max_connections.
    pub admitted: Cell<bool>,
    /// A longer message is refused, in bytes: who has not proved who he is sends none.
    pub message_bytes_max: Cell<usize>,
    /// See [`Socket::peer_user_id`].
    pub peer_user_id: Cell<Option<u32>>,
    /// The database that the console's session is in; None: somebody else's session.
    pub console_database: Option<String>,
    /// A transaction block is open.
    pub in_block: Cell<bool>,
    /// What is in `output` is not to wait for more of it, should the session have to wait for something: it ends in a
    /// message that the client acts upon, or has asked for.
    pub is_urgent: Cell<bool>,
    /// How long the statement may run when its turn comes.
    pub slice_nanos: Cell<u64>,
    /// What was said of encryption before the startup packet.
    pub negotiation: Negotiation,
}

impl ConnectionLink {
    /// Whether a whole message (or an error in its head) is at the front of the input.
    pub fn has_message(&self) -> bool {
        if self.refused.get().is_some() {
            return self.refused_bytes.get() == 0;
        }
        let input = self.input.borrow();
        let rest = input.get(self.consumed.get()..).unwrap_or(&[]);
        if self.started.get() {
            self.is_too_long(rest) || !matches!(frontend::message_length(rest), Ok(None))
        } else {
            !matches!(frontend::startup_length(rest), Ok(None))
        }
    }
    /// Whether the message that begins here is one that is refused, whole or not.
    pub fn is_too_long(&self, rest: &[u8]) -> bool {
        frontend::announced_length(rest).is_some_and(|(_, length)| length > self.message_bytes_max.get())
    }
    /// Whatever the client has sent is of no use any more.
    pub fn drop_input(&self) {
        self.input.borrow_mut().clear();
        self.consumed.set(0);
    }
    fn unread_input(&self) -> usize {
        self.input.borrow().len() - self.consumed.get()
    }
    pub fn take_unread_input(&self) -> Vec<u8> {
        self.input.take().split_off(self.consumed.replace(0))
    }
    /// Takes in what the socket has had.
    fn receive(&self, bytes: &[u8]) {
        let dropped = bytes.len().min(self.refused_bytes.get());
        self.refused_bytes.set(self.refused_bytes.get() - dropped);
        let mut input = self.input.borrow_mut();
        input.extend_from_slice(&bytes[dropped..]);
        if self.started.get() && self.refused.get().is_none() {
            self.make_room_for_message(&mut input);
        }
    }
    /// A long message that has just begun gets its room in one piece, or is refused and read to its end.
    fn make_room_for_message(&self, input: &mut Vec<u8>) {
        let start = self.consumed.get();
        let present = input.len() - start;
        let Some((kind, length)) = frontend::announced_length(&input[start..]) else { return };
        if length < LONG_MESSAGE_BYTES
            || length > self.message_bytes_max.get()
            || present >= length
            || input.capacity() - start >= length
        {
            return;
        }
        input.drain(..start);
        self.consumed.set(0);
        // The session will hold it once more, or something made of it.
        if memory::is_room_for(2 * length) {
            input.reserve_exact(length - present);
        } else {
            *input = Vec::new();
            self.refused.set(Some((kind, length)));
            self.refused_bytes.set(length - present);
        }
    }
    /// Drops used bytes once they are many.
    pub fn trim_used(&self) {
        let used = self.consumed.get();
        if used >= INPUT_AHEAD_BYTES {
            self.input.borrow_mut().drain(..used);
            self.consumed.set(0);
        }
    }
    /// Bytes waiting to be sent. None can be sent while the session is in the midst of writing a row, which may take
    /// long and give way.
    pub fn pending_output(&self) -> usize {
        self.output.try_borrow().map_or(0, |output| output.buf.len() - self.written.get())
    }
}

type StepCoroutine = Coroutine<(), SuspendReason, ProtocolState, StatementStack>;

pub struct Connection {
    socket: Socket,
    link: Rc<ConnectionLink>,
    wake: Arc<ConnectionWake>,
    shared: Arc<ServerShared>,
    worker: usize,
    pub state: ConnectionState,
    /// The statement has had a whole time slice.
    pub is_long: bool,
    /// Whether the connection is among those whose replies are sent next.
    pub is_unsent: bool,
    /// The socket took no more of the output.
    is_blocked: bool,
    /// The poll tells of room for output, too.
    watches_output: bool,
    /// The protocol's state between steps; with the coroutine while one runs.
    step: Option<ProtocolState>,
    coroutine: Option<StepCoroutine>,
    /// The limit of the stack that the coroutine runs on, with what the session has set `max_stack_depth` to.
    stack_limit: StackLimit,
    /// The socket was left alone although it may have had more.
    left_unread: bool,
    /// The socket would have taken more of the output.
    left_unwritten: bool,
    /// Whether the connection is among those that the worker comes back to without an event.
    pub is_unfinished: bool,
    end_is_near: bool,
    control: Arc<SessionControl>,
    /// None: the connection is not encrypted, or not yet.
    tls: Option<Box<TlsSession>>,
    pub handshake: HandshakeTurn,
    /// When the timer that was set last for the idle session goes off.
    timer_nanos: u64,
}

impl Connection {
    pub fn new(socket: Socket, wake: Arc<ConnectionWake>, shared: Arc<ServerShared>, worker: usize) -> Connection {
        let control = shared.register_session(wake.clone(), Arc::new(wake.attention()), socket.ends());
        connection_log::received(&shared, &control);
        let peer_user_id = Cell::new(socket.peer_user_id());
        let console_database = socket.console_database();
        let limit_nanos =
            shared.instance.cluster.settings().number("authentication_timeout").max(1) as u64 * 1_000_000_000;
        control.idle_deadline_nanos.store(process_monotonic_nanos() + limit_nanos, Ordering::Relaxed);
        Connection {
            socket,
            link: Rc::new(ConnectionLink {
                input: RefCell::new(Vec::new()),
                consumed: Cell::new(0),
                refused: Cell::new(None),
                refused_bytes: Cell::new(0),
                output: RefCell::new(OutputBuffer::default()),
                written: Cell::new(0),
                end_of_input: Cell::new(false),
                write_failed: Cell::new(false),
                started: Cell::new(false),
                admitted: Cell::new(false),
                message_bytes_max: Cell::new(STRANGERS_MESSAGE_BYTES_MAX),
                peer_user_id,
                console_database,
                in_block: Cell::new(false),
                is_urgent: Cell::new(false),
                slice_nanos: Cell::new(TIME_SLICE_NANOS),
                negotiation: Negotiation::default(),
            }),
            wake,
            shared,
            worker,
            state: ConnectionState::Idle,
            is_long: false,
            is_unsent: false,
            is_blocked: false,
            watches_output: false,
            step: Some(ProtocolState::default()),
            coroutine: None,
            stack_limit: StackLimit::new(0, 0, DEPTH_MAX_BYTES),
            left_unread: false,
            left_unwritten: false,
            is_unfinished: false,
            end_is_near: false,
            control,
            tls: None,
            handshake: HandshakeTurn::NotDue,
            timer_nanos: 0,
        }
    }

    pub fn socket_mut(&mut self) -> &mut Socket {
        &mut self.socket
    }
    pub fn has_output(&self) -> bool {
        self.link.pending_output() > 0 || self.tls.as_ref().is_some_and(|tls| tls.has_pending())
    }
    pub fn has_message(&self) -> bool {
        self.link.has_message()
    }
    pub fn at_end(&self) -> bool {
        self.link.end_of_input.get() || self.link.write_failed.get()
    }
    pub fn broken(&self) -> bool {
        self.link.write_failed.get()
    }
    pub fn is_in_block(&self) -> bool {
        self.link.in_block.get()
    }
    /// Something is to be sent although the statement goes on: else the client would be woken for its beginning, and
    /// once more for its end.
    pub fn has_urgent_output(&self) -> bool {
        let pending = self.link.pending_output();
        pending > 0 && (self.link.is_urgent.get() || pending >= SENT_BEFORE_THE_END_BYTES)
    }
    /// What running the session will touch is on its way to the cache when this returns.
    pub fn prefetch(&self) {
        prefetch(&*self.link);
        prefetch(&*self.control);
        if let Some(step) = &self.step {
            step.prefetch();
        }
    }
    /// What is found only through what [`Connection::prefetch`] has asked for, which is there by now.
    pub fn prefetch_further(&self) {
        if let Some(step) = &self.step {
            step.prefetch_further();
        }
    }
    /// What tells its session from others, for helper threads.
    pub fn number(&self) -> u64 {
        let wake: WakeHandle = self.wake.clone();
        session_number(&wake)
    }
    pub fn take_early_wake(&self) -> bool {
        self.wake.is_set()
    }
    pub fn wants_attention(&self) -> bool {
        self.wake.take();
        self.control.terminate_requested.load(Ordering::Acquire) || self.control.refuse_long_idleness().is_err()
    }
    pub fn is_notified(&self) -> bool {
        self.control.is_notified()
    }
    /// When the worker is to look after this idle session, unless a timer for then (or earlier) runs already.
    pub fn idle_timer(&mut self) -> Option<u64> {
        let until = self.control.idle_until_nanos().filter(|_| self.state == ConnectionState::Idle)?;
        let now = process_monotonic_nanos();
        if self.timer_nanos > now && self.timer_nanos <= until {
            return None;
        }
        self.timer_nanos = until;
        Some(until)
    }
    pub fn request_terminate(&self) {
        self.control.terminate_requested.store(true, Ordering::Release);
        if self.state == ConnectionState::Parked {
            self.wake.wake();
        }
    }
    /// Whether a statement is under way.
    pub fn is_running(&self) -> bool {
        self.coroutine.is_some()
    }
    pub fn client_gone(&self) {
        self.request_terminate();
    }

    /// Reads what the socket has, unless the session is behind. `end_is_near`: the event told that the client has
    /// closed its side; no later one will.
    pub fn read_input(&mut self, scratch: &mut [u8], end_is_near: bool) {
        let mut left_bytes = MOVED_AT_ONCE_BYTES;
        self.left_unread = false;
        self.end_is_near |= end_is_near;
        if self.state == ConnectionState::Closed {
            return;
        }
        if self.tls.is_some() {
            return self.read_encrypted(scratch);
        }
        loop {
            let is_behind = self.link.unread_input() >= INPUT_AHEAD_BYTES && self.link.has_message();
            if is_behind || left_bytes == 0 {
                self.left_unread = true;
                return;
            }
            match self.socket.read(scratch) {
                Ok(0) => {
                    self.link.end_of_input.set(true);
                    return;
                }
                Ok(n) => {
                    self.link.receive(&scratch[..n]);
                    if !self.link.started.get() && self.begins_with_handshake() {
                        return self.read_encrypted(scratch);
                    }
                    left_bytes = left_bytes.saturating_sub(n);
                    // A short read has drained the socket: the next edge tells of more.
                    if n < scratch.len() && !self.end_is_near {
                        return;
                    }
                }
                Err(e) if e.kind() == ErrorKind::WouldBlock => return,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.link.end_of_input.set(true);
                    return;
                }
            }
        }
    }

    /// Reads on where the session was behind and has caught up, or others were to have their turn.
    pub fn read_on(&mut self, scratch: &mut [u8]) {
        if self.may_read_on() {
            self.read_input(scratch, false);
        }
    }
    fn may_read_on(&self) -> bool {
        self.left_unread
            && self.handshake == HandshakeTurn::NotDue
            && (self.link.unread_input() < INPUT_AHEAD_BYTES || !self.link.has_message())
    }
    /// Writes on where others were to have their turn.
    pub fn write_on(&mut self) {
        if self.left_unwritten {
            self.write_output();
        }
    }
    /// The worker is to come back without an event.
    pub fn has_more_to_move(&self) -> bool {
        self.left_unwritten || self.may_read_on()
    }

    /// The bytes to send next, and where to; of an encrypted connection those that [`Connection::prepare_reply`] has made.
    pub fn reply(&self) -> (BorrowedFd<'_>, ReplyBytes<'_>) {
        if let Some(tls) = &self.tls {
            return (self.socket.as_fd(), ReplyBytes::Encrypted(tls.pending()));
        }
        let written = self.link.written.get();
        let bytes = Ref::map(self.link.output.borrow(), |o| o.buf.get(written..).unwrap_or(&[]));
        (self.socket.as_fd(), ReplyBytes::Plain(bytes))
    }
    /// What came of sending [`Connection::reply`].
    pub fn sent(&mut self, outcome: SendOutcome) {
        match outcome {
            Some(Ok(n)) => {
                match &mut self.tls {
                    None => self.link.written.set(self.link.written.get() + n),
                    Some(tls) => tls.note_sent(n),
                }
                // The rest, or none.
                self.write_output();
            }
            Some(Err(e)) if e.kind() == ErrorKind::WouldBlock => self.is_blocked = true,
            // Whatever it was, writing tells it again.
            _ => self.write_output(),
        }
    }
    pub fn write_output(&mut self) {
        if self.tls.is_some() {
            return self.write_encrypted();
        }
        self.is_blocked = false;
        // A session that is writing a row says itself that there is something to send.
        let Ok(output) = self.link.output.try_borrow_mut() else { return };
        let mut written = self.link.written.get();
        let until = written + MOVED_AT_ONCE_BYTES;
        self.left_unwritten = false;
        while written < output.buf.len() {
            if written >= until {
                self.left_unwritten = true;
                break;
            }
            let end = output.buf.len().min(until);
            match self.socket.write(&output.buf[written..end]) {
                Ok(n) => written += n,
                Err(e) if e.kind() == ErrorKind::WouldBlock => {
                    self.is_blocked = true;
                    break;
                }
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(_) => {
                    self.link.write_failed.set(true);
                    written = output.buf.len();
                }
            }
        }
        drop(output);
        let written = self.note_written(written);
        if self.link.admitted.get() {
            crash::note(self.socket.as_fd().as_raw_fd(), written == 0);
        }
    }

    /// The first `written` bytes of the output, or all of them, are done with. Answers how many are still in the buffer.
    fn note_written(&mut self, written: usize) -> usize {
        let Ok(mut output) = self.link.output.try_borrow_mut() else { return written };
        let mut written = written;
        if written >= output.buf.len() {
            self.link.is_urgent.set(false);
            written = 0;
            output.buf.clear();
            if output.buf.capacity() > 64 * IDLE_BUFFER_BYTES {
                output.buf.shrink_to(IDLE_BUFFER_BYTES);
            }
        }
        self.link.written.set(written);
        written
    }

    /// Has the poll tell of room for output while, and only while, there is none. A client that takes a reply out of a
    /// Unix-domain socket makes room each time: the worker would be woken for it, and find nothing to do.
    pub fn watch_output(&mut self, registry: &Registry, token: Token) {
        if self.is_blocked == self.watches_output {
            return;
        }
        let interest = if self.is_blocked { Interest::READABLE | Interest::WRITABLE } else { Interest::READABLE };
        match registry.reregister(&mut self.socket, token, interest) {
            Ok(()) => self.watches_output = self.is_blocked,
            Err(_) => self.link.write_failed.set(true),
        }
    }

    pub fn keeps_up(&self) -> bool {
        self.control.keeps_up()
    }

    /// Runs the connection's next step until it ends (None) or is suspended, which it is after `slice_nanos` at the latest.
    pub fn run(&mut self, stacks: &mut Vec<StatementStack>, slice_nanos: u64) -> Option<SuspendReason> {
        self.link.slice_nanos.set(slice_nanos);
        if self.coroutine.is_none() {
            let Some(step) = self.step.take() else {
                self.state = ConnectionState::Closed;
                return None;
            };
            let Ok(stack) = stacks.pop().map_or_else(StatementStack::new, Ok) else {
                self.step = Some(step);
                self.state = ConnectionState::Closed;
                return None;
            };
            self.stack_limit = stack.limit(self.stack_limit.depth_bytes());
            let (link, wake, control) = (self.link.clone(), self.wake.clone(), self.control.clone());
            let (shared, worker) = (self.shared.clone(), self.worker);
            self.coroutine = Some(Coroutine::with_stack(stack, move |yielder, ()| {
                let runtime = CoroutineRuntime::new(yielder, link, wake, control, shared.clone(), worker);
                protocol::run_step(step, &runtime, &shared)
            }));
        }
        let coroutine = self.coroutine.as_mut()?;
        match on_stack(&mut self.stack_limit, || coroutine.resume(())) {
            CoroutineResult::Yield(why) => Some(why),
            CoroutineResult::Return(step) => {
                if let Some(done) = self.coroutine.take()
                    && stacks.len() < POOLED_STACKS
                {
                    let mut stack = done.into_stack();
                    if self.stack_limit.was_deep() {
                        stack.trim();
                    }
                    stacks.push(stack);
                }
                self.state = if step.finished() { ConnectionState::Closed } else { ConnectionState::Idle };
                if self.state == ConnectionState::Closed {
                    self.close_tls();
                } else if !self.link.started.get()
                    && let Some(order) = self.link.negotiation.take_order()
                {
                    self.begin_tls(order);
                }
                self.step = Some(step);
                self.trim_input();
                None
            }
        }
    }

    fn trim_input(&mut self) {
        let mut input = self.link.input.borrow_mut();
        let consumed = self.link.consumed.replace(0).min(input.len());
        input.drain(..consumed);
        if input.is_empty() && input.capacity() > 64 * IDLE_BUFFER_BYTES {
            input.shrink_to(IDLE_BUFFER_BYTES);
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        crash::forget(self.socket.as_fd().as_raw_fd());
        self.shared.unregister_session(self.control.process_id);
        self.shared.connection_ends();
        if self.link.admitted.get() {
            self.shared.dismiss();
        }
    }
}
