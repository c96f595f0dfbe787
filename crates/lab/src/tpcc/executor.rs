//! Sessions of one thread that take turns: whoever has something to read goes on.

use mio::{Events, Poll, Registry, Token};
use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

/// A server that answers nobody for so long is taken for hung.
const PATIENCE: Duration = Duration::from_secs(120);

/// What runs until it waits for its socket, which has been registered with its number as the token.
pub(super) type SessionTask<'a, T> = Pin<Box<dyn Future<Output = T> + 'a>>;

/// Runs `count` tasks, which `make` makes of their numbers, to their ends.
pub(super) fn run_tasks<'a, T>(
    count: usize,
    make: impl Fn(&Registry, Token) -> SessionTask<'a, T>,
) -> io::Result<Vec<T>> {
    let mut poll = Poll::new()?;
    let mut tasks = (0..count).map(|n| Some(make(poll.registry(), Token(n)))).collect::<Vec<_>>();
    // Nobody is woken but by events of sockets.
    let mut context = Context::from_waker(Waker::noop());
    let mut outcomes = Vec::with_capacity(count);
    let mut go_on = |number: usize, outcomes: &mut Vec<T>| {
        let Some(slot) = tasks.get_mut(number) else { return };
        if let Some(task) = slot
            && let std::task::Poll::Ready(outcome) = task.as_mut().poll(&mut context)
        {
            outcomes.push(outcome);
            *slot = None;
        }
    };
    (0..count).for_each(|number| go_on(number, &mut outcomes));
    let mut events = Events::with_capacity(count.max(1));
    while outcomes.len() < count {
        match poll.poll(&mut events, Some(PATIENCE)) {
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        if events.is_empty() {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "the server answers nobody any more"));
        }
        events.iter().for_each(|event| go_on(event.token().0, &mut outcomes));
    }
    Ok(outcomes)
}
