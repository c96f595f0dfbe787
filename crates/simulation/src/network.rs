//! The network between simulated machines: bytes take their time, a cut holds them back until it is mended, and a killed
//! process closes its ends.
//!
//! Invariants
//! 1. What has been written to a connection is read in that order, or the connection breaks and nothing more is read.
//! 2. A reader waits through `kilndb_base::sync`, so that time goes on for it.

use kilndb_base::network::{NetworkListener, NetworkStream};
use kilndb_base::sync::scheduler::{self, ProcessLife, Scheduler};
use kilndb_base::sync::{Arc, Condvar, Mutex, MutexGuard, Weak};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::time::Duration;

/// Bytes take so long at most.
const MOST_MICROS: u64 = 2_000;
/// While the network is cut, a reader looks so often whether it still is.
const CUT_LOOK: Duration = Duration::from_millis(1);

/// All connections between machines.
#[derive(Clone)]
pub struct Network(Arc<NetworkParts>);

struct NetworkParts {
    scheduler: Arc<Scheduler>,
    state: Mutex<NetworkState>,
}

#[derive(Default)]
struct NetworkState {
    entrances: BTreeMap<String, Arc<SimListener>>,
    /// Both ends of each connection, with the process that has it.
    ends: Vec<(ProcessLife, Weak<SimStream>)>,
    is_cut: bool,
    next_port: u16,
}

/// One direction of a connection.
#[derive(Default)]
struct Pipe {
    state: Mutex<PipeState>,
    changed: Condvar,
}

#[derive(Default)]
struct PipeState {
    /// Pieces, with the moment at which each is there.
    pieces: VecDeque<(u64, Vec<u8>)>,
    is_closed: bool,
}

struct SimStream {
    network: Network,
    incoming: Arc<Pipe>,
    outgoing: Arc<Pipe>,
}

struct SimListener {
    network: Network,
    life: ProcessLife,
    address: String,
    waiting: Mutex<Backlog>,
    changed: Condvar,
}

#[derive(Default)]
struct Backlog {
    ends: VecDeque<Arc<SimStream>>,
    is_closed: bool,
}

fn broken(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::ConnectionReset, what)
}

impl Pipe {
    fn state(&self) -> MutexGuard<'_, PipeState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn close(&self) {
        self.state().is_closed = true;
        self.changed.notify_all();
    }
}

impl Network {
    pub fn new(scheduler: &Arc<Scheduler>) -> Network {
        let state = Mutex::new(NetworkState { next_port: 20_000, ..NetworkState::default() });
        Network(Arc::new(NetworkParts { scheduler: scheduler.clone(), state }))
    }

    fn state(&self) -> MutexGuard<'_, NetworkState> {
        self.0.state.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn delay_nanos(&self) -> u64 {
        (1 + self.0.scheduler.random() % MOST_MICROS) * 1000
    }

    /// While it is cut, nothing gets through; it comes later.
    pub fn cut(&self, is_cut: bool) {
        self.state().is_cut = is_cut;
    }

    /// Connections break: what is under way is lost.
    #[cfg(test)]
    fn break_all(&self) {
        let ends: Vec<Arc<SimStream>> = self.state().ends.drain(..).filter_map(|(_, end)| end.upgrade()).collect();
        for end in ends {
            end.incoming.state().pieces.clear();
            end.close();
        }
    }

    /// A process is gone: its connections are closed, and nobody reaches it any more.
    pub fn end_life(&self, life: ProcessLife) {
        let mut state = self.state();
        let (gone, left): (Vec<_>, Vec<_>) = state.ends.drain(..).partition(|(owner, _)| *owner == life);
        state.ends = left;
        let entrances: Vec<Arc<SimListener>> = state.entrances.values().filter(|e| e.life == life).cloned().collect();
        drop(state);
        gone.iter().filter_map(|(_, end)| end.upgrade()).for_each(|end| end.close());
        entrances.iter().for_each(|entrance| entrance.close());
    }

    pub fn connect(&self, life: ProcessLife, address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
        let until = scheduler::now_nanos() + limit.as_nanos() as u64;
        scheduler::sleep(Duration::from_nanos(self.delay_nanos()));
        while self.state().is_cut {
            if scheduler::now_nanos() >= until {
                return Err(io::Error::new(io::ErrorKind::TimedOut, "the network is cut"));
            }
            scheduler::sleep(CUT_LOOK);
        }
        let refused = || io::Error::new(io::ErrorKind::ConnectionRefused, format!("nobody listens at {address}"));
        let entrance = self.state().entrances.get(address).cloned().ok_or_else(refused)?;
        let pipes: [Arc<Pipe>; 2] = Default::default();
        let [near, far] = [(0, 1), (1, 0)].map(|(incoming, outgoing)| {
            let (incoming, outgoing) = (pipes[incoming].clone(), pipes[outgoing].clone());
            Arc::new(SimStream { network: self.clone(), incoming, outgoing })
        });
        let mut waiting = entrance.waiting();
        if waiting.is_closed {
            return Err(refused());
        }
        waiting.ends.push_back(far.clone());
        drop(waiting);
        entrance.changed.notify_all();
        let mut state = self.state();
        state.ends.retain(|(_, end)| end.strong_count() > 0);
        state.ends.push((life, Arc::downgrade(&near)));
        state.ends.push((entrance.life, Arc::downgrade(&far)));
        Ok(near)
    }

    /// Port 0: one that nobody has.
    pub fn listen(&self, life: ProcessLife, address: &str) -> io::Result<Arc<dyn NetworkListener>> {
        let mut state = self.state();
        let address = match address.strip_suffix(":0") {
            Some(host) => {
                state.next_port += 1;
                format!("{host}:{}", state.next_port)
            }
            None => address.to_string(),
        };
        if state.entrances.contains_key(&address) {
            return Err(io::Error::new(io::ErrorKind::AddrInUse, format!("somebody listens at {address}")));
        }
        let (network, waiting, changed) = (self.clone(), Mutex::default(), Condvar::new());
        let entrance = Arc::new(SimListener { network, life, address: address.clone(), waiting, changed });
        state.entrances.insert(address, entrance.clone());
        Ok(entrance)
    }
}

impl SimListener {
    fn waiting(&self) -> MutexGuard<'_, Backlog> {
        self.waiting.lock().unwrap_or_else(|e| e.into_inner())
    }
}

impl NetworkListener for SimListener {
    fn accept(&self) -> io::Result<Arc<dyn NetworkStream>> {
        let mut waiting = self.waiting();
        loop {
            if let Some(end) = waiting.ends.pop_front() {
                return Ok(end);
            }
            if waiting.is_closed {
                return Err(broken("the listener is closed"));
            }
            waiting = self.changed.wait(waiting).unwrap_or_else(|e| e.into_inner());
        }
    }
    fn address(&self) -> io::Result<String> {
        Ok(self.address.clone())
    }
    fn close(&self) {
        self.network.state().entrances.remove(&self.address);
        let mut waiting = self.waiting();
        waiting.is_closed = true;
        let refused = std::mem::take(&mut waiting.ends);
        drop(waiting);
        refused.iter().for_each(|end| end.close());
        self.changed.notify_all();
    }
}

impl NetworkStream for SimStream {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            while self.network.state().is_cut && !self.incoming.state().is_closed {
                scheduler::sleep(CUT_LOOK);
            }
            let mut state = self.incoming.state();
            let Some((there_at, piece)) = state.pieces.front_mut() else {
                if state.is_closed {
                    return Ok(0);
                }
                drop(self.incoming.changed.wait(state));
                continue;
            };
            let now = scheduler::now_nanos();
            if *there_at > now {
                let left = Duration::from_nanos(*there_at - now);
                drop(state);
                scheduler::sleep(left);
                continue;
            }
            let length = piece.len().min(buf.len());
            buf[..length].copy_from_slice(&piece[..length]);
            piece.drain(..length);
            if piece.is_empty() {
                state.pieces.pop_front();
            }
            return Ok(length);
        }
    }
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        let there_at = scheduler::now_nanos() + self.network.delay_nanos();
        let mut state = self.outgoing.state();
        if state.is_closed {
            return Err(broken("the other end is closed"));
        }
        // Later pieces do not overtake earlier ones.
        let there_at = state.pieces.back().map_or(there_at, |(before, _)| there_at.max(*before));
        if !bytes.is_empty() {
            state.pieces.push_back((there_at, bytes.to_vec()));
        }
        drop(state);
        self.outgoing.changed.notify_all();
        Ok(())
    }
    fn close(&self) {
        self.incoming.close();
        self.outgoing.close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use kilndb_base::sync::scheduler::SchedulerPace;

    const SERVER: ProcessLife = ProcessLife(1);
    const CLIENT: ProcessLife = ProcessLife(2);
    const LIMIT: Duration = Duration::from_secs(1);

    fn simulate<T: 'static>(seed: u64, f: impl FnOnce(&Network) -> T + 'static) -> T {
        let pace = SchedulerPace { seed, points_between: 8, turns_max: u64::MAX };
        Scheduler::run(pace, Arc::new(|_| ()), move |scheduler| f(&Network::new(scheduler)))
    }

    /// Sends back what it reads, until the connection ends.
    fn echo(network: &Network) -> String {
        let listener = network.listen(SERVER, "a:0").unwrap();
        let address = listener.address().unwrap();
        let serve = move || {
            while let Ok(stream) = listener.accept() {
                let mut buffer = [0; 7];
                while let Ok(length @ 1..) = stream.read(&mut buffer) {
                    if stream.write_all(&buffer[..length]).is_err() {
                        break;
                    }
                }
            }
        };
        scheduler::spawn("echo", Some(SERVER), serve).unwrap();
        address
    }

    fn read_exactly(stream: &Arc<dyn NetworkStream>, length: usize) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut done = 0;
        while done < length {
            match stream.read(&mut bytes[done..])? {
                0 => return Err(broken("ended")),
                more => done += more,
            }
        }
        Ok(bytes)
    }

    #[test]
    fn bytes_come_in_their_order() {
        for seed in 1..20 {
            simulate(seed, |network| {
                let stream = network.connect(CLIENT, &echo(network), LIMIT).unwrap();
                let sent: Vec<u8> = (0..100).collect();
                sent.chunks(9).for_each(|piece| stream.write_all(piece).unwrap());
                assert_eq!(read_exactly(&stream, 100).unwrap(), sent);
            });
        }
    }

    #[test]
    fn what_is_cut_off_comes_later() {
        simulate(1, |network| {
            let stream = network.connect(CLIENT, &echo(network), LIMIT).unwrap();
            network.cut(true);
            stream.write_all(b"later").unwrap();
            assert!(network.connect(CLIENT, "a:20001", Duration::from_millis(5)).is_err());
            let mended = network.clone();
            let mend = move || {
                scheduler::sleep(Duration::from_secs(3));
                mended.cut(false);
            };
            scheduler::spawn("mend", Some(CLIENT), mend).unwrap();
            let began = scheduler::now_nanos();
            assert_eq!(read_exactly(&stream, 5).unwrap(), b"later");
            assert!(scheduler::now_nanos() - began >= 3_000_000_000);
        });
    }

    #[test]
    fn a_killed_process_closes_its_ends() {
        simulate(1, |network| {
            let address = echo(network);
            let stream = network.connect(CLIENT, &address, LIMIT).unwrap();
            stream.write_all(b"x").unwrap();
            assert_eq!(read_exactly(&stream, 1).unwrap(), b"x");
            network.end_life(SERVER);
            assert!(read_exactly(&stream, 1).is_err());
            assert!(stream.write_all(b"x").is_err());
            assert!(network.connect(CLIENT, &address, LIMIT).is_err());
        });
    }

    #[test]
    fn what_breaks_is_lost() {
        simulate(1, |network| {
            let stream = network.connect(CLIENT, &echo(network), LIMIT).unwrap();
            stream.write_all(b"x").unwrap();
            network.break_all();
            assert!(read_exactly(&stream, 1).is_err());
        });
    }
}
