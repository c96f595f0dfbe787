//! Clients that move a counter as fast as they get replies.
//!
//! Must not know: what a reply looks like.

use super::{CounterProduct, connect};
use crate::driver::{EndedTransaction, LoadFigures};
use mio::net::UnixStream;
use mio::{Events, Interest, Poll, Token};
use std::io::{self, ErrorKind, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A server that answers nobody for so long is taken for hung.
const PATIENCE: Duration = Duration::from_secs(60);

struct CounterClient {
    stream: UnixStream,
    request: Vec<u8>,
    received: Vec<u8>,
    sent: Instant,
}

/// When clients began, and when they are to end.
#[derive(Clone, Copy)]
struct CounterTimes {
    began: Instant,
    length: Duration,
}

pub(super) fn run(
    product: &dyn CounterProduct,
    socket: &Path,
    clients: usize,
    length: Duration,
) -> io::Result<LoadFigures> {
    // As many threads as the driver of scripts has.
    let threads = std::thread::available_parallelism().map_or(1, |cores| cores.get()).min(clients);
    let mut shares: Vec<Vec<CounterClient>> = (0..threads).map(|_| Vec::new()).collect();
    for client in 0..clients {
        shares[client % threads].push(CounterClient::open(product, socket)?);
    }
    let times = CounterTimes { began: Instant::now(), length };
    let mut all = LoadFigures::default();
    std::thread::scope(|scope| {
        let running: Vec<_> =
            shares.into_iter().map(|share| scope.spawn(move || drive(product, share, times))).collect();
        for thread in running {
            let figures = thread.join().map_err(|_| io::Error::other("a thread of clients has panicked"))?;
            all.add(figures?);
        }
        Ok::<(), io::Error>(())
    })?;
    Ok(all)
}

fn drive(
    product: &dyn CounterProduct,
    mut clients: Vec<CounterClient>,
    times: CounterTimes,
) -> io::Result<LoadFigures> {
    let (mut poll, mut figures) = (Poll::new()?, LoadFigures::default());
    for (at, client) in clients.iter_mut().enumerate() {
        poll.registry().register(&mut client.stream, Token(at), Interest::READABLE)?;
        client.send()?;
    }
    let (mut events, mut left) = (Events::with_capacity(clients.len()), clients.len());
    while left > 0 {
        poll.poll(&mut events, Some(PATIENCE))?;
        if events.is_empty() {
            return Err(io::Error::new(ErrorKind::TimedOut, "the server answers nobody any more"));
        }
        for event in &events {
            let client = &mut clients[event.token().0];
            if !client.receive(product)? {
                continue;
            }
            let at = times.began.elapsed();
            figures.ended(&EndedTransaction { at, latency: client.sent.elapsed(), changed_rows: 1 });
            figures.elapsed = at;
            match at < times.length {
                true => client.send()?,
                false => left -= 1,
            }
        }
    }
    Ok(figures)
}

impl CounterClient {
    fn open(product: &dyn CounterProduct, socket: &Path) -> io::Result<CounterClient> {
        let mut stream = connect(product, socket)?;
        let request = product.begin(&mut stream)?;
        stream.set_nonblocking(true)?;
        Ok(CounterClient { stream: UnixStream::from_std(stream), request, received: Vec::new(), sent: Instant::now() })
    }
    /// A request is so short that there is room for it.
    fn send(&mut self) -> io::Result<()> {
        self.sent = Instant::now();
        self.stream.write_all(&self.request)
    }
    /// Reads what there is. True: it was the whole reply.
    fn receive(&mut self, product: &dyn CounterProduct) -> io::Result<bool> {
        let mut buffer = [0; 256];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(count) => self.received.extend_from_slice(&buffer[..count]),
                Err(e) if e.kind() == ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        let Some(bytes) = product.reply(&self.received)? else { return Ok(false) };
        self.received.drain(..bytes);
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::process::TempDir;
    use std::os::unix::net::{UnixListener, UnixStream};
    use std::process::Command;
    use std::sync::atomic::{AtomicU64, Ordering};

    /// A byte is answered by two.
    struct Echo;

    impl CounterProduct for Echo {
        fn name(&self) -> &'static str {
            "echo"
        }
        fn program(&self) -> &'static str {
            "echo"
        }
        fn prepare(&self, _: &Path, _: &Path, _: bool) -> io::Result<Command> {
            Err(ErrorKind::Unsupported.into())
        }
        fn log_in(&self, _: &mut UnixStream) -> io::Result<()> {
            Ok(())
        }
        fn set_up(&self, _: &mut UnixStream) -> io::Result<()> {
            Ok(())
        }
        fn begin(&self, _: &mut UnixStream) -> io::Result<Vec<u8>> {
            Ok(b"?".to_vec())
        }
        fn reply(&self, received: &[u8]) -> io::Result<Option<usize>> {
            match received {
                [b'o', b'k', ..] => Ok(Some(2)),
                [] | [b'o'] => Ok(None),
                _ => Err(io::Error::other("refused")),
            }
        }
        fn value(&self, _: &mut UnixStream) -> io::Result<u64> {
            Ok(0)
        }
    }

    /// Answers so many connections until they end, each request in two pieces. How many requests there were.
    fn answer(listener: &UnixListener, connections: usize, words: [&[u8]; 2]) -> u64 {
        let requests = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..connections {
                let (mut stream, _) = listener.accept().expect("a connection");
                let requests = &requests;
                scope.spawn(move || {
                    while matches!(stream.read(&mut [0]), Ok(1)) {
                        requests.fetch_add(1, Ordering::Relaxed);
                        for word in words {
                            // Whoever has gone does not read any more.
                            let _ = stream.write_all(word);
                            std::thread::yield_now();
                        }
                    }
                });
            }
        });
        requests.into_inner()
    }

    #[test]
    fn each_reply_is_counted_once() {
        let folder = TempDir::new("counter").expect("a folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        std::thread::scope(|scope| {
            let server = scope.spawn(|| answer(&listener, 5, [b"o", b"k"]));
            let figures = run(&Echo, &socket, 5, Duration::from_millis(100)).expect("it runs");
            let requests = server.join().expect("it answers");
            assert!(requests > 5, "{requests}");
            assert_eq!((figures.transactions(), figures.changed_rows(), figures.failures()), (requests, requests, 0));
            assert!(figures.elapsed >= Duration::from_millis(100));
        });
    }

    #[test]
    fn a_refusal_ends_the_load() {
        let folder = TempDir::new("counter").expect("a folder");
        let socket = folder.path().join("socket");
        let listener = UnixListener::bind(&socket).expect("a socket");
        std::thread::scope(|scope| {
            scope.spawn(|| answer(&listener, 2, [b"n", b"o"]));
            let error = run(&Echo, &socket, 2, Duration::from_secs(60)).expect_err("it is refused");
            assert_eq!(error.to_string(), "refused");
        });
    }
}
