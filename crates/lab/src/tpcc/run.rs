//! A load: terminals that run the mix until their time is over, and what came of it.

use super::TpccSize;
use super::executor::{SessionTask, run_tasks};
use super::session::{RoundTrips, TpccSession};
use super::statement;
use super::transactions::{Ended, OrderKey, Terminal};
use crate::client::ClientError;
use crate::random::RowRandom;
use crate::session_socket::SessionLogin;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TpccKind {
    NewOrder,
    Payment,
    OrderStatus,
    Delivery,
    StockLevel,
}

impl TpccKind {
    pub const ALL: [TpccKind; 5] =
        [TpccKind::NewOrder, TpccKind::Payment, TpccKind::OrderStatus, TpccKind::Delivery, TpccKind::StockLevel];
    /// How many of a hundred transactions are of each kind.
    const MIX: [i64; 5] = [45, 43, 4, 4, 4];

    fn draw(random: &mut RowRandom) -> TpccKind {
        let mut left = random.between(1, 100);
        let drawn = TpccKind::ALL.into_iter().zip(TpccKind::MIX).find(|(_, share)| {
            left -= share;
            left <= 0
        });
        drawn.map_or(TpccKind::NewOrder, |(kind, _)| kind)
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TpccLoad {
    pub size: TpccSize,
    pub terminals: u32,
    /// Threads that the terminals are spread over.
    pub threads: u32,
    pub time: Duration,
    pub round_trips: RoundTrips,
    pub seed: u64,
}

/// What came of a load.
#[derive(Default, Debug)]
pub struct TpccRun {
    /// Transactions that were done, by kind; those given up on purpose are not among them.
    pub done: [u64; 5],
    /// Transactions that were rolled back for the sake of others: when, and their SQLSTATE (40001, 40P01).
    pub refused: Vec<(Duration, String)>,
    /// The orders whose entry was acknowledged: warehouse, district and number.
    pub orders: Vec<OrderKey>,
    /// When each of them was acknowledged, and what entering it took.
    pub entries: Vec<OrderEntry>,
    pub time: Duration,
}

/// The entry of an order, in times since the load began.
#[derive(Clone, Copy, Debug)]
pub struct OrderEntry {
    pub at: Duration,
    pub took: Duration,
}

/// What a load and whoever waits for it know of each other.
#[derive(Clone, Copy)]
pub struct TpccControl<'a> {
    /// The terminals are to stop, or have nobody left to talk to.
    pub is_over: &'a AtomicBool,
    /// Orders so far.
    pub entered: &'a AtomicU64,
}

impl TpccRun {
    fn add(&mut self, other: TpccRun) {
        for (sum, done) in self.done.iter_mut().zip(other.done) {
            *sum += done;
        }
        self.refused.extend(other.refused);
        self.orders.extend(other.orders);
        self.entries.extend(other.entries);
    }
}

/// Runs a load until its time is over or `is_over` is set. A connection that is lost after that is no error: whoever
/// kills a server says so before.
pub fn run(login: &SessionLogin<'_>, load: &TpccLoad, control: TpccControl<'_>) -> Result<TpccRun, String> {
    let threads = load.threads.clamp(1, load.terminals.max(1));
    let began = Instant::now();
    let watch = TpccWatch { began, ends: began + load.time, control };
    let mut sum = TpccRun::default();
    std::thread::scope(|scope| {
        let handles: Vec<_> = (0..threads)
            .map(|thread| {
                let count = (load.terminals + threads - 1 - thread) / threads;
                let first = u64::from(thread) << 32;
                scope.spawn(move || terminals(login, load, (first, count as usize), watch))
            })
            .collect();
        for handle in handles {
            let run = handle.join().map_err(|_| "a thread of terminals panicked".to_string())?;
            run?.into_iter().for_each(|run| sum.add(run));
        }
        Ok::<(), String>(())
    })?;
    sum.time = began.elapsed();
    Ok(sum)
}

/// When terminals began and stop.
#[derive(Clone, Copy)]
struct TpccWatch<'a> {
    began: Instant,
    ends: Instant,
    control: TpccControl<'a>,
}

impl TpccWatch<'_> {
    fn is_over(&self) -> bool {
        self.control.is_over.load(Ordering::SeqCst)
    }
    fn has_ended(&self) -> bool {
        self.is_over() || Instant::now() >= self.ends
    }
}

/// The terminals of one thread, and what came of each.
fn terminals(
    login: &SessionLogin<'_>,
    load: &TpccLoad,
    (first, count): (u64, usize),
    watch: TpccWatch<'_>,
) -> Result<Vec<TpccRun>, String> {
    let make = |registry: &mio::Registry, token: mio::Token| {
        let session = TpccSession::connect(login, load.round_trips, (registry, token));
        let random = RowRandom::of_row(load.seed, first + token.0 as u64);
        Box::pin(async move {
            let mut run = TpccRun::default();
            let done = match session {
                Ok(session) => work(session, (load.size, random), watch, &mut run).await,
                Err(e) => Err(e),
            };
            match done {
                Err(ClientError::Io(e)) if is_lost_connection(&e) && watch.is_over() => Ok(run),
                done => done.map(|()| run).map_err(|e| e.to_string()),
            }
        }) as SessionTask<'_, Result<TpccRun, String>>
    };
    run_tasks(count, make).map_err(|e| e.to_string())?.into_iter().collect()
}

fn is_lost_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof};
    [BrokenPipe, ConnectionRefused, ConnectionReset, UnexpectedEof].contains(&error.kind())
}

/// One terminal's transactions until the end.
async fn work(
    mut session: TpccSession,
    (size, mut random): (TpccSize, RowRandom),
    watch: TpccWatch<'_>,
    run: &mut TpccRun,
) -> Result<(), ClientError> {
    session.prepare(statement::ALL).await?;
    let mut terminal = Terminal { session: &mut session, random: &mut random, size };
    while !watch.has_ended() {
        let kind = TpccKind::draw(terminal.random);
        let began = Instant::now();
        match terminal.transact(kind).await {
            Ok(Ended::GivenUp) => continue,
            Ok(Ended::Entered(order)) => {
                run.orders.push(order);
                run.entries.push(OrderEntry { at: watch.began.elapsed(), took: began.elapsed() });
                watch.control.entered.fetch_add(1, Ordering::Relaxed);
            }
            Ok(Ended::Committed) => {}
            Err(ClientError::Server(e)) if e.code == "40001" || e.code == "40P01" => {
                run.refused.push((watch.began.elapsed(), e.code));
                continue;
            }
            Err(e) => return Err(e),
        }
        run.done[kind as usize] += 1;
    }
    Ok(())
}
