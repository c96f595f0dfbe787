//! A thread of the driver: its clients, their sockets and their clocks.

use super::link::LoadLink;
use super::load_client::{ClientState, LoadClient, ThreadShare};
use super::{LoadFigures, LoadLength, LoadPlan, LoadStart};
use crate::script::ScriptRandom;
use mio::{Events, Poll, Token};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Events that are taken at once, and bytes.
const EVENTS: usize = 1024;
const READ_BYTES: usize = 64 * 1024;

/// Runs the clients with the numbers `number`, `number + threads` and so on to their end.
pub(super) fn run(
    plan: &LoadPlan,
    (number, threads): (usize, usize),
    start: &LoadStart,
) -> Result<LoadFigures, String> {
    let mut poll = Poll::new().map_err(|e| e.to_string())?;
    let connected = connect(plan, (number, threads), &poll);
    if connected.is_err() {
        start.has_failed.store(true, Ordering::SeqCst);
    }
    // The others wait for all, whatever has happened.
    start.ready.wait();
    let mut clients = connected?;
    if start.has_failed.load(Ordering::SeqCst) {
        return Ok(LoadFigures::default());
    }
    let began = Instant::now();
    let ends = match plan.length {
        LoadLength::After(time) => Some(began + time),
        LoadLength::Transactions(_) => None,
    };
    let mut share = ThreadShare {
        plan,
        figures: LoadFigures::default(),
        began,
        ends,
        next_due: began,
        random: ScriptRandom::of_seed(plan.seed ^ (number as u64) << 32),
        text: String::new(),
        shown: 0,
        ended: 0,
    };
    let mut clocks: BinaryHeap<Reverse<(Instant, usize)>> = BinaryHeap::new();
    let mut left = clients.len();
    let mut go_on: Vec<usize> = (0..clients.len()).collect();
    let mut events = Events::with_capacity(EVENTS);
    let mut buffer = vec![0; READ_BYTES];
    loop {
        for at in go_on.drain(..) {
            left -= usize::from(step(&mut clients[at], at, &mut share, &mut clocks, &poll));
        }
        share.show_ended();
        if left == 0 {
            break;
        }
        let now = Instant::now();
        let wait = clocks.peek().map(|Reverse((when, _))| when.saturating_duration_since(now));
        match poll.poll(&mut events, wait) {
            Ok(()) => {}
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e.to_string()),
        }
        for event in &events {
            let at = event.token().0;
            let client = &mut clients[at];
            if client.state == ClientState::Ended {
                continue;
            }
            if event.is_readable() {
                match client.link.read(&mut buffer, event.is_read_closed()) {
                    Ok(()) => client.take_replies(plan),
                    Err(e) => {
                        client.take_replies(plan);
                        client.lost(&e.to_string(), &mut share);
                        left -= 1;
                        continue;
                    }
                }
            }
            go_on.push(at);
        }
        let now = Instant::now();
        while let Some(Reverse((when, at))) = clocks.peek().copied()
            && when <= now
        {
            clocks.pop();
            go_on.push(at);
        }
    }
    share.figures.elapsed = began.elapsed();
    Ok(share.figures)
}

fn connect(plan: &LoadPlan, (number, threads): (usize, usize), poll: &Poll) -> Result<Vec<LoadClient>, String> {
    let mut clients = Vec::new();
    for client in (number..plan.clients).step_by(threads) {
        let mut link = LoadLink::open(plan)?;
        link.register(poll.registry(), Token(clients.len())).map_err(|e| e.to_string())?;
        clients.push(LoadClient::new(link, client, plan));
    }
    Ok(clients)
}

/// Lets a client go on and sends what it has to say. True: it has ended.
fn step(
    client: &mut LoadClient,
    at: usize,
    share: &mut ThreadShare<'_>,
    clocks: &mut BinaryHeap<Reverse<(Instant, usize)>>,
    poll: &Poll,
) -> bool {
    if client.state == ClientState::Ended {
        return false;
    }
    client.go_on(Instant::now(), share);
    if let ClientState::Due(when) | ClientState::Sleeping(when) = client.state {
        clocks.push(Reverse((when, at)));
    }
    if !client.link.output.is_empty()
        && let Err(e) = client.link.flush(poll.registry(), Token(at))
    {
        client.lost(&e.to_string(), share);
    }
    client.state == ClientState::Ended
}
