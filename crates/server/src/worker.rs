//! A worker: one thread, one event loop, many sessions.
//!
//! Invariants
//! 1. A connection belongs to one worker from accept to close; its coroutine never leaves the thread.
//! 2. While a coroutine is suspended nobody holds a borrow of the connection's [`Link`] cells.
//! 3. A wake-up is mail in the worker's inbox: it is never lost, and costs a system call only if the worker sleeps.
//!
//! Must not know: SQL. It moves bytes and resumes coroutines.

use crate::connection::{Connection, ConnectionState, HandshakeTurn, Socket};
use crate::lull::LullWatch;
use crate::memory::MemoryWatch;
use crate::runtime::{ConnectionWake, SHORT_SLICE_NANOS, SuspendReason, TIME_SLICE_NANOS};
use crate::sender::{self, SendOutcome, Sender};
use crate::shared::ServerShared;
use crate::short_load::{ShortLoad, TurnsBy};
use crate::statement_stack::StatementStack;
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::sync::atomic::{AtomicBool, Ordering};
use kilndb_base::sync::{Arc, Mutex};
use kilndb_base::worker_load::{LoadedBy, WorkerLoad};
use mio::{Events, Interest, Poll, Token, Waker};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

const WAKER: Token = Token(usize::MAX);
/// Sessions resumed between two looks at the sockets, and sockets looked at each time: what is read is used while it is
/// in the processor's cache.
const RESUMES_PER_POLL: usize = 64;
/// Which of the sessions that have just got a message has its memory fetched while another one's turn begins.
const FETCHED_AHEAD: usize = 2;
/// Replies wait this long for those of other sessions: sent together they wake the clients' threads less often.
const REPLY_DELAY_NANOS: u64 = 50_000;
/// How much longer replies wait for each session that is queued, in nanoseconds, which is about what that session's
/// turn takes: the more clients there are, the more it costs them to be woken for one reply, and the less a delay adds
/// to their latency.
const REPLY_DELAY_PER_QUEUED_NANOS: u64 = 10_000;
const REPLY_DELAY_MAX_NANOS: u64 = 2_000_000;
/// A flush of the log begins when no session can run, so that all that have come to their commit share it; or after so
/// long, if there is always one that can.
const FLUSH_DELAY_NANOS: u64 = 200_000;
/// Sessions that have been in the middle of a long statement leave the processor to the others for so many times as long
/// as they had it.
const SHORT_TURNS_FIRST: u64 = 8;
/// The number of replies from which on one system call for all costs less than one for each.
const SENT_TOGETHER: usize = 3;
/// Steps of handshakes, which are long computations of strangers, leave the processor to the sessions for so many times
/// as long as they had it.
const SESSIONS_FIRST: u64 = 8;
/// Bytes read from a socket at once.
const READ_CHUNK_BYTES: usize = 64 * 1024;

pub enum WorkerMessage {
    Connection(Socket),
    Wake {
        token: usize,
        generation: u64,
    },
    /// Asks for a look at a session that is idle; the others look by themselves before they are.
    Attention {
        token: usize,
        generation: u64,
    },
}

/// How other threads reach a worker.
pub struct WorkerInbox {
    mail: Mutex<Vec<WorkerMessage>>,
    waker: Waker,
    sleeping: AtomicBool,
    /// A hint that looking into `mail` pays.
    has_mail: AtomicBool,
}

impl WorkerInbox {
    pub fn send(&self, mail: WorkerMessage) {
        self.mail.lock().unwrap_or_else(|e| e.into_inner()).push(mail);
        self.has_mail.store(true, Ordering::Release);
        if self.sleeping.swap(false, Ordering::SeqCst) {
            // A failed wake-up is caught by the poll's own time limit.
            let _ = self.waker.wake();
        }
    }
    pub fn nudge(&self) {
        let _ = self.waker.wake();
    }
}

pub struct Worker {
    index: usize,
    shared: Arc<ServerShared>,
    poll: Poll,
    inbox: Arc<WorkerInbox>,
    connections: Vec<Option<Connection>>,
    generations: Vec<u64>,
    free: Vec<usize>,
    ready: VecDeque<usize>,
    /// Sessions whose wait is over. They go first: others may wait for what they hold.
    woken: VecDeque<usize>,
    /// Sessions whose time slice was over. One of them runs between two looks at the sockets, so that a short statement
    /// waits for one slice at most, however many long ones there are; and while there are short ones only now and then.
    sliced: VecDeque<usize>,
    /// The same for those that must keep up with the others: one of them has a whole slice in each round.
    keeping_up: VecDeque<usize>,
    /// When one of `sliced` runs though others can.
    sliced_from_nanos: u64,
    short_load: ShortLoad,
    /// What helper threads know of it.
    told_load: Arc<WorkerLoad>,
    /// In this round: a session had its turn that was not in the middle of a long statement, and how long others had it.
    round_has_short: bool,
    round_long_nanos: u64,
    /// (deadline, token, generation) of parked sessions; entries may be stale.
    timers: BinaryHeap<Reverse<(u64, usize, u64)>>,
    stacks: Vec<StatementStack>,
    scratch: Vec<u8>,
    /// Connections of which there is more to read or to write, once others have had their turn.
    unfinished: Vec<usize>,
    /// Connections whose TLS handshake can go on, and when one of them does though sessions have their turns.
    handshakes: VecDeque<usize>,
    handshakes_from_nanos: u64,
    /// Sessions with replies to send, and when the first of these is to go at the latest.
    unsent: Vec<usize>,
    unsent_until_nanos: u64,
    sender: Sender,
    sent: Vec<SendOutcome>,
    /// When the flush of the log that sessions wait for begins at the latest; 0: none is wanted.
    flush_from_nanos: u64,
    lulls: LullWatch,
    memory_watch: MemoryWatch,
}

/// How much of a session's statement a turn has done: to its end or until it waits, or as much as it may at once.
#[derive(PartialEq, Eq)]
enum TurnLength {
    Short,
    Long,
}

/// What a worker is made of before it has a thread.
pub struct WorkerSeat {
    index: usize,
    shared: Arc<ServerShared>,
    poll: Poll,
    inbox: Arc<WorkerInbox>,
}

impl WorkerSeat {
    pub fn new(index: usize, shared: Arc<ServerShared>) -> std::io::Result<WorkerSeat> {
        let poll = Poll::new()?;
        let waker = Waker::new(poll.registry(), WAKER)?;
        let inbox = Arc::new(WorkerInbox {
            mail: Mutex::new(Vec::new()),
            waker,
            sleeping: AtomicBool::new(false),
            has_mail: AtomicBool::new(false),
        });
        Ok(WorkerSeat { index, shared, poll, inbox })
    }

    pub fn inbox(&self) -> Arc<WorkerInbox> {
        self.inbox.clone()
    }
}

impl Worker {
    /// Runs on the calling thread until the server stops.
    pub fn work(seat: WorkerSeat) {
        crate::allocator::keep_freed_blocks();
        let WorkerSeat { index, shared, poll, inbox } = seat;
        let told_load = shared.instance.cluster.helpers.add_worker();
        let worker = Worker {
            index,
            shared,
            poll,
            inbox,
            connections: Vec::new(),
            generations: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            woken: VecDeque::new(),
            sliced: VecDeque::new(),
            keeping_up: VecDeque::new(),
            sliced_from_nanos: 0,
            short_load: ShortLoad::default(),
            told_load,
            round_has_short: false,
            round_long_nanos: 0,
            timers: BinaryHeap::new(),
            stacks: Vec::new(),
            scratch: vec![0; READ_CHUNK_BYTES],
            unfinished: Vec::new(),
            handshakes: VecDeque::new(),
            handshakes_from_nanos: 0,
            unsent: Vec::new(),
            unsent_until_nanos: 0,
            sender: Sender::new(),
            sent: Vec::new(),
            flush_from_nanos: 0,
            lulls: LullWatch::default(),
            memory_watch: MemoryWatch::default(),
        };
        worker.run();
    }

    /// Runs until the server stops and all sessions are gone.
    fn run(mut self) {
        let mut events = Events::with_capacity(RESUMES_PER_POLL);
        loop {
            self.read_mail();
            if self.shared.stopping() {
                self.stop_sessions();
                if self.free.len() == self.connections.len() {
                    return;
                }
            }
            self.sleep(&mut events);
            let awake_nanos = process_monotonic_nanos();
            for event in &events {
                if event.token() != WAKER {
                    self.socket_event(event.token().0, event.is_writable(), event.is_read_closed());
                }
            }
            self.read_mail();
            self.move_more();
            self.fire_timers();
            (self.round_has_short, self.round_long_nanos) = (false, 0);
            self.resume_short();
            let now = process_monotonic_nanos();
            let busy_nanos = (now - awake_nanos).saturating_sub(self.round_long_nanos);
            if let Some(by) = self.short_load.add(busy_nanos, now, self.round_has_short) {
                self.tell_load(by);
            }
            if let Some(token) = self.keeping_up.pop_front() {
                self.send_replies();
                self.resume(token, TIME_SLICE_NANOS);
            }
            self.resume_sliced();
            self.shake_hands();
            if !self.has_short_turns() || process_monotonic_nanos() >= self.unsent_until_nanos {
                self.send_replies();
            }
            self.memory_watch.keep_within_limit();
        }
    }

    fn tell_load(&self, by: TurnsBy) {
        self.told_load.set(match by {
            TurnsBy::Nobody => LoadedBy::Nobody,
            TurnsBy::Several => LoadedBy::Several,
            TurnsBy::One(token) => match self.connections.get(token) {
                Some(Some(c)) => LoadedBy::One(c.number()),
                _ => LoadedBy::Nobody,
            },
        });
    }

    /// Sessions that have something to do have a turn each: nearly all are not in the middle of a long statement.
    fn resume_short(&mut self) {
        for turn in 0..RESUMES_PER_POLL {
            if self.inbox.has_mail.load(Ordering::Acquire) {
                self.read_mail();
            }
            let Some(token) = self.next_session(turn) else { return };
            if let Some(Some(c)) = self.ready.get(FETCHED_AHEAD - 1).and_then(|t| self.connections.get(*t)) {
                c.prefetch_further();
            }
            // A session that streams to a fast client is ready again at once: who has just sent a message waits for
            // no more than one of its turns.
            if self.resume(token, TIME_SLICE_NANOS) == TurnLength::Long {
                return;
            }
        }
    }

    /// One session whose time slice was over goes on, if no other can, or if its time has come: all of them together
    /// have a ninth of the processor. Beside others its slice is short; and beside many it has no more than that
    /// even while none of the others can go on, since those that wait for the log, or for their clients, soon can.
    fn resume_sliced(&mut self) {
        let Some(token) = self.sliced.front().copied() else { return };
        let now = process_monotonic_nanos();
        if now < self.sliced_from_nanos && (self.short_load.is_heavy_for(token) || self.has_short_turns()) {
            return;
        }
        self.sliced.pop_front();
        self.send_replies();
        self.resume(token, if self.short_load.is_over(now) { TIME_SLICE_NANOS } else { SHORT_SLICE_NANOS });
        let after = process_monotonic_nanos();
        self.sliced_from_nanos = after + (after - now) * SHORT_TURNS_FIRST;
    }

    /// One connection takes the next step of its TLS handshake: all of them together have a ninth of the processor, unless
    /// sessions leave it more.
    fn shake_hands(&mut self) {
        if self.handshakes.is_empty()
            || (self.has_short_turns() && process_monotonic_nanos() < self.handshakes_from_nanos)
        {
            return;
        }
        if !self.next_handshake().is_zero() {
            return;
        }
        self.send_replies();
        let now = process_monotonic_nanos();
        let Some(token) = self.handshakes.pop_front() else { return };
        let Some(Some(c)) = self.connections.get_mut(token) else { return };
        c.shake_hands();
        let after = process_monotonic_nanos();
        self.handshakes_from_nanos = after + (after - now) * SESSIONS_FIRST;
        self.reconsider(token);
    }

    fn has_short_turns(&self) -> bool {
        !(self.ready.is_empty() && self.woken.is_empty() && self.keeping_up.is_empty() && self.unfinished.is_empty())
    }

    /// Every fourth turn belongs to those that have just arrived.
    fn next_session(&mut self, turn: usize) -> Option<usize> {
        if turn % 4 == 3 {
            return self.ready.pop_front().or_else(|| self.woken.pop_front());
        }
        self.woken.pop_front().or_else(|| self.ready.pop_front())
    }

    /// Waits until there is something to do.
    fn sleep(&mut self, events: &mut Events) {
        if self.has_short_turns() {
            let _ = self.poll.poll(events, Some(Duration::ZERO));
            return self.memory_watch.give_back(false);
        }
        if self.shared.instance.cluster.engine.is_flush_wanted() {
            if self.finds_work(events) {
                return;
            }
            self.begin_flush(true);
            // Some of those who have waited for it may be here.
            if self.inbox.has_mail.load(Ordering::Acquire) {
                return;
            }
        }
        let rest = self.next_turn();
        if rest.is_zero() {
            return self.sleep_until(Duration::ZERO, events);
        }
        let began_nanos = process_monotonic_nanos();
        if !self.look_for_work(began_nanos, rest, events) {
            self.sleep_until(self.next_turn(), events);
        }
        self.lulls.note(process_monotonic_nanos() - began_nanos);
    }

    /// Looks for messages as long as that pays and there is no other turn. True: there is something to do.
    fn look_for_work(&mut self, began_nanos: u64, rest: Duration, events: &mut Events) -> bool {
        let until_nanos = began_nanos + self.lulls.looking_nanos().min(rest.as_nanos() as u64);
        while process_monotonic_nanos() < until_nanos {
            if self.finds_work(events) {
                return true;
            }
            // A client on the same machine may need the processor for what is looked for.
            kilndb_base::sync::yield_now();
        }
        false
    }

    fn finds_work(&mut self, events: &mut Events) -> bool {
        let _ = self.poll.poll(events, Some(Duration::ZERO));
        !events.is_empty() || self.inbox.has_mail.load(Ordering::Acquire)
    }

    fn sleep_until(&mut self, mut limit: Duration, events: &mut Events) {
        if !limit.is_zero() {
            self.inbox.sleeping.store(true, Ordering::SeqCst);
            if !self.inbox.mail.lock().unwrap_or_else(|e| e.into_inner()).is_empty() {
                limit = Duration::ZERO;
            }
        }
        if limit.is_zero() {
            let _ = self.poll.poll(events, Some(limit));
        } else {
            self.told_load.set_asleep(process_monotonic_nanos());
            // EINTR and the like only make the round shorter.
            let _ = self.poll.poll(events, Some(limit));
            self.told_load.set_awake();
        }
        self.inbox.sleeping.store(false, Ordering::SeqCst);
        self.memory_watch.give_back(events.is_empty() && !limit.is_zero());
    }

    /// Flushes the log when those who wait for it have waited long enough, or there is nobody else to wait for.
    fn begin_flush(&mut self, is_idle: bool) {
        self.shared.instance.cluster.engine.begin_flush(is_idle);
        self.flush_from_nanos = 0;
    }

    /// While sessions run, a flush that is wanted begins after a while.
    fn look_after_flush(&mut self) {
        if !self.shared.instance.cluster.engine.is_flush_wanted() {
            self.flush_from_nanos = 0;
            return;
        }
        let now = process_monotonic_nanos();
        if self.flush_from_nanos == 0 {
            self.flush_from_nanos = now + FLUSH_DELAY_NANOS;
        } else if now >= self.flush_from_nanos {
            self.begin_flush(false);
        }
    }

    /// How long handshakes wait if no session has its turn.
    fn next_handshake(&self) -> Duration {
        if self.handshakes.is_empty() {
            return Duration::MAX;
        }
        if !self.short_load.is_heavy() {
            return Duration::ZERO;
        }
        Duration::from_nanos(self.handshakes_from_nanos.saturating_sub(process_monotonic_nanos()))
    }

    /// How long there is nothing to do unless somebody sends something.
    fn next_turn(&self) -> Duration {
        self.next_session_turn().min(self.next_handshake())
    }

    fn next_session_turn(&self) -> Duration {
        match self.sliced.front() {
            None => self.next_timer(),
            Some(token) if !self.short_load.is_heavy_for(*token) => Duration::ZERO,
            Some(_) => {
                let rest = self.sliced_from_nanos.saturating_sub(process_monotonic_nanos());
                Duration::from_nanos(rest).min(self.next_timer())
            }
        }
    }

    fn next_timer(&self) -> Duration {
        let longest = Duration::from_millis(500);
        match self.timers.peek() {
            None => longest,
            Some(Reverse((deadline, _, _))) => {
                Duration::from_nanos(deadline.saturating_sub(process_monotonic_nanos())).min(longest)
            }
        }
    }

    fn fire_timers(&mut self) {
        if self.timers.is_empty() {
            return;
        }
        let now = process_monotonic_nanos();
        while let Some(&Reverse((deadline, token, generation))) = self.timers.peek() {
            if deadline > now {
                break;
            }
            self.timers.pop();
            self.wake(token, generation);
        }
    }

    fn read_mail(&mut self) {
        self.inbox.has_mail.store(false, Ordering::Release);
        let mail = std::mem::take(&mut *self.inbox.mail.lock().unwrap_or_else(|e| e.into_inner()));
        for letter in mail {
            match letter {
                WorkerMessage::Connection(socket) => self.accept(socket),
                WorkerMessage::Wake { token, generation } => self.wake(token, generation),
                WorkerMessage::Attention { token, generation } => self.attend(token, generation),
            }
        }
    }

    fn accept(&mut self, mut socket: Socket) {
        let token = self.free.pop().unwrap_or_else(|| {
            self.connections.push(None);
            self.generations.push(0);
            self.connections.len() - 1
        });
        let registered = self.poll.registry().register(&mut socket, Token(token), Interest::READABLE);
        if registered.is_err() {
            self.shared.connection_ends();
            self.free.push(token);
            return;
        }
        let wake = Arc::new(ConnectionWake::new(self.inbox.clone(), token, self.generations[token]));
        let mut connection = Connection::new(socket, wake, self.shared.clone(), self.index);
        // It has so long for its startup packet.
        if let Some(deadline) = connection.idle_timer() {
            self.timers.push(Reverse((deadline, token, self.generations[token])));
        }
        self.connections[token] = Some(connection);
    }

    /// A parked session may go on.
    fn wake(&mut self, token: usize, generation: u64) {
        if self.generations.get(token) != Some(&generation) {
            return;
        }
        if let Some(Some(c)) = self.connections.get_mut(token) {
            if c.state == ConnectionState::Parked {
                c.state = ConnectionState::Queued;
                self.woken.push_back(token);
            }
            // An idle session is woken to be told of its termination or of a timeout.
            else if c.state == ConnectionState::Idle && c.wants_attention() {
                c.state = ConnectionState::Queued;
                self.ready.push_back(token);
            } else if let Some(deadline) = c.idle_timer() {
                self.timers.push(Reverse((deadline, token, generation)));
            }
        }
    }

    fn attend(&mut self, token: usize, generation: u64) {
        if self.generations.get(token) == Some(&generation)
            && let Some(Some(c)) = self.connections.get_mut(token)
            && c.state == ConnectionState::Idle
            && c.is_notified()
        {
            c.state = ConnectionState::Queued;
            self.ready.push_back(token);
        }
    }

    fn socket_event(&mut self, token: usize, writable: bool, end_of_input: bool) {
        let Some(Some(c)) = self.connections.get_mut(token) else { return };
        c.prefetch();
        if writable && c.has_output() {
            c.write_output();
        }
        c.read_input(&mut self.scratch, end_of_input);
        self.reconsider(token);
    }

    /// Reads and writes the next part of what is long.
    fn move_more(&mut self) {
        for token in std::mem::take(&mut self.unfinished) {
            let Some(Some(c)) = self.connections.get_mut(token) else { continue };
            c.is_unfinished = false;
            c.write_on();
            self.reconsider(token);
        }
    }

    /// Queues the connection if what it waits for is there; closes it if it is broken.
    fn reconsider(&mut self, token: usize) {
        let Some(Some(c)) = self.connections.get_mut(token) else { return };
        c.watch_output(self.poll.registry(), Token(token));
        c.read_on(&mut self.scratch);
        if c.has_more_to_move() && !std::mem::replace(&mut c.is_unfinished, true) {
            self.unfinished.push(token);
        }
        if c.handshake == HandshakeTurn::Due {
            c.handshake = HandshakeTurn::Queued;
            self.handshakes.push_back(token);
        }
        let go = match c.state {
            ConnectionState::Idle => c.has_message() || c.at_end(),
            ConnectionState::WaitingForInput => c.has_message() || c.at_end(),
            ConnectionState::WaitingForOutput => !c.has_output() || c.broken(),
            ConnectionState::Parked | ConnectionState::Queued | ConnectionState::Closed => false,
        };
        if go {
            // A COPY from the client that had whole slices goes on as the long statement that it is, or it would stand
            // back behind its own load.
            let is_long_copy = c.is_long && c.state == ConnectionState::WaitingForInput;
            c.state = ConnectionState::Queued;
            if is_long_copy { &mut self.sliced } else { &mut self.ready }.push_back(token);
        } else if c.state == ConnectionState::Closed && (!c.has_output() || c.broken()) {
            self.close(token);
        } else if matches!(c.state, ConnectionState::Parked | ConnectionState::Queued) && c.is_running() && c.at_end() {
            // The client is gone: whatever it waits for or computes is not worth going on with.
            c.client_gone();
        }
    }

    fn resume(&mut self, token: usize, slice_nanos: u64) -> TurnLength {
        let Some(Some(c)) = self.connections.get_mut(token) else { return TurnLength::Short };
        let long_from_nanos = c.is_long.then(process_monotonic_nanos);
        let outcome = c.run(&mut self.stacks, slice_nanos);
        match outcome {
            None => c.is_long = false,
            Some(SuspendReason::Slice) => c.is_long = true,
            _ => {}
        }
        match long_from_nanos {
            Some(from) => self.round_long_nanos += process_monotonic_nanos() - from,
            // It has turned out to be the first turn of a long statement.
            None if c.is_long => self.round_long_nanos += slice_nanos,
            None => {
                self.round_has_short = true;
                self.short_load.note_turn(token);
            }
        }
        let turn = if matches!(outcome, Some(SuspendReason::Output)) { TurnLength::Long } else { TurnLength::Short };
        self.look_after_flush();
        let Some(Some(c)) = self.connections.get_mut(token) else { return TurnLength::Short };
        match outcome {
            None => {
                if let Some(deadline) = c.idle_timer() {
                    self.timers.push(Reverse((deadline, token, self.generations[token])));
                }
            }
            Some(SuspendReason::Park { deadline_nanos }) => {
                c.state = ConnectionState::Parked;
                if let Some(deadline) = deadline_nanos {
                    self.timers.push(Reverse((deadline, token, self.generations[token])));
                }
                if c.take_early_wake() {
                    c.state = ConnectionState::Queued;
                    self.woken.push_back(token);
                }
                if !c.has_urgent_output() {
                    self.reconsider(token);
                    return TurnLength::Short;
                }
            }
            Some(SuspendReason::Slice) => {
                c.state = ConnectionState::Queued;
                if c.keeps_up() { &mut self.keeping_up } else { &mut self.sliced }.push_back(token);
                if c.has_urgent_output() && !std::mem::replace(&mut c.is_unsent, true) {
                    self.unsent.push(token);
                }
                self.send_replies();
                return TurnLength::Long;
            }
            Some(SuspendReason::Input) => c.state = ConnectionState::WaitingForInput,
            Some(SuspendReason::Output) => c.state = ConnectionState::WaitingForOutput,
        }
        if !c.has_output() {
            self.reconsider(token);
            return turn;
        }
        let now = process_monotonic_nanos();
        // Within a transaction block others may wait for what the client does next.
        let queued = if c.is_in_block() { 0 } else { self.ready.len() as u64 };
        let until = now + (REPLY_DELAY_NANOS + queued * REPLY_DELAY_PER_QUEUED_NANOS).min(REPLY_DELAY_MAX_NANOS);
        self.unsent_until_nanos = if self.unsent.is_empty() { until } else { self.unsent_until_nanos.min(until) };
        // Once, whatever it has to send by then: twice in one call would be sent twice.
        if !std::mem::replace(&mut c.is_unsent, true) {
            self.unsent.push(token);
        }
        if now >= self.unsent_until_nanos {
            self.send_replies();
        }
        turn
    }

    fn send_replies(&mut self) {
        let mut unsent = std::mem::take(&mut self.unsent);
        if unsent.len() >= SENT_TOGETHER && self.sender.is_available() {
            for tokens in unsent.chunks(sender::AT_ONCE) {
                self.send_together(tokens);
            }
        }
        for token in unsent.drain(..) {
            let Some(Some(c)) = self.connections.get_mut(token) else { continue };
            c.is_unsent = false;
            if c.has_output() {
                c.write_output();
            }
            self.reconsider(token);
        }
        self.unsent = unsent;
    }
    fn send_together(&mut self, tokens: &[usize]) {
        for token in tokens {
            if let Some(Some(c)) = self.connections.get_mut(*token) {
                c.prepare_reply();
            }
        }
        let open = |token: usize| self.connections.get(token)?.as_ref().filter(|c| c.has_output());
        let (tokens, replies): (Vec<_>, Vec<_>) = tokens.iter().filter_map(|t| Some((*t, open(*t)?.reply()))).unzip();
        self.sender.send(&replies, &mut self.sent);
        drop(replies);
        for (token, sent) in tokens.into_iter().zip(self.sent.drain(..)) {
            if let Some(Some(c)) = self.connections.get_mut(token) {
                c.sent(sent);
            }
        }
    }

    fn close(&mut self, token: usize) {
        if let Some(mut c) = self.connections[token].take() {
            if c.is_unsent {
                // The number may be another connection's before the next replies are sent.
                self.unsent.retain(|t| *t != token);
            }
            // The descriptor goes with the socket; deregistering only tidies up.
            let _ = self.poll.registry().deregister(c.socket_mut());
            self.generations[token] += 1;
            self.free.push(token);
        }
    }

    fn stop_sessions(&mut self) {
        for token in 0..self.connections.len() {
            let Some(c) = self.connections[token].as_mut() else { continue };
            c.request_terminate();
            if c.state == ConnectionState::Idle || c.state == ConnectionState::WaitingForInput {
                c.state = ConnectionState::Queued;
                self.ready.push_back(token);
            }
        }
    }
}
