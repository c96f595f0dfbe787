//! Connections to other processes, as [`crate::env::Env`] gives them: bytes in order, both ways, until an end is closed.
//!
//! The server's own clients do not come this way: thousands of their sockets are waited for at once. What comes this way
//! has a thread of its own at each end, as copies of the data will.
//!
//! Must not know: what the bytes mean.

use crate::sync::Arc;
use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream, ToSocketAddrs};
use std::os::fd::AsRawFd;
use std::time::Duration;

/// One end of a connection. All methods may be called from several threads at once.
pub trait NetworkStream: Send + Sync {
    /// Waits for at least one byte and takes as many as are there. 0: the other end is closed, and all it has written has
    /// been read.
    fn read(&self, buf: &mut [u8]) -> io::Result<usize>;
    /// Writes all of `bytes`; that the other end has them is not said.
    fn write_all(&self, bytes: &[u8]) -> io::Result<()>;
    /// Ends the connection at both ends; whoever waits in a method of this one is woken with an error or 0.
    fn close(&self);
}

/// An address at which others may connect.
pub trait NetworkListener: Send + Sync {
    /// Waits for the next connection. An error once the listener is closed.
    fn accept(&self) -> io::Result<Arc<dyn NetworkStream>>;
    /// Where it is to be reached: of a port that was left open, the one that it got.
    fn address(&self) -> io::Result<String>;
    /// No more connections; whoever waits for one is woken.
    fn close(&self);
}

/// Connects through TCP to "host:port", within `limit` for each address that the host has.
pub(crate) fn connect_tcp(address: &str, limit: Duration) -> io::Result<Arc<dyn NetworkStream>> {
    let mut last = io::Error::new(io::ErrorKind::NotFound, format!("\"{address}\" has no address"));
    for resolved in address.to_socket_addrs()? {
        match TcpStream::connect_timeout(&resolved, limit) {
            Ok(stream) => return TcpConnection::wrap(stream),
            Err(e) => last = e,
        }
    }
    Err(last)
}

/// Listens through TCP at "host:port"; port 0: one that is free.
pub(crate) fn listen_tcp(address: &str) -> io::Result<Arc<dyn NetworkListener>> {
    Ok(Arc::new(TcpAcceptor(TcpListener::bind(address)?)))
}

struct TcpConnection(TcpStream);

impl TcpConnection {
    fn wrap(stream: TcpStream) -> io::Result<Arc<dyn NetworkStream>> {
        stream.set_nodelay(true)?;
        Ok(Arc::new(TcpConnection(stream)))
    }
}

impl NetworkStream for TcpConnection {
    fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        loop {
            match (&self.0).read(buf) {
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                done => return done,
            }
        }
    }
    fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        (&self.0).write_all(bytes)
    }
    fn close(&self) {
        // It may be closed already.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

struct TcpAcceptor(TcpListener);

impl NetworkListener for TcpAcceptor {
    fn accept(&self) -> io::Result<Arc<dyn NetworkStream>> {
        let (stream, _) = self.0.accept()?;
        TcpConnection::wrap(stream)
    }
    fn address(&self) -> io::Result<String> {
        Ok(self.0.local_addr()?.to_string())
    }
    fn close(&self) {
        // SAFETY: the descriptor is open for as long as `self` lives; shutting a listener down wakes who waits in accept.
        unsafe { libc::shutdown(self.0.as_raw_fd(), libc::SHUT_RDWR) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_until_the_end_is_closed() {
        let listener = listen_tcp("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        let client = std::thread::spawn(move || {
            let stream = connect_tcp(&address, Duration::from_secs(5)).unwrap();
            stream.write_all(b"hello").unwrap();
            let mut answer = [0; 16];
            let length = stream.read(&mut answer).unwrap();
            stream.close();
            answer[..length].to_vec()
        });
        let served = listener.accept().unwrap();
        let mut bytes = Vec::new();
        while bytes.len() < 5 {
            let mut buffer = [0; 3];
            let length = served.read(&mut buffer).unwrap();
            bytes.extend_from_slice(&buffer[..length]);
        }
        assert_eq!(bytes, b"hello");
        served.write_all(b"good bye").unwrap();
        assert!(b"good bye".starts_with(&client.join().unwrap()));
        assert_eq!(served.read(&mut [0; 8]).unwrap_or(0), 0);
    }

    #[test]
    fn whoever_waits_is_woken_by_a_close() {
        let listener = listen_tcp("127.0.0.1:0").unwrap();
        let client = connect_tcp(&listener.address().unwrap(), Duration::from_secs(5)).unwrap();
        let served = listener.accept().unwrap();
        let waits = [
            std::thread::spawn({
                let listener = listener.clone();
                move || listener.accept().is_err()
            }),
            std::thread::spawn(move || client.read(&mut [0; 8]).unwrap_or(0) == 0),
        ];
        std::thread::sleep(Duration::from_millis(20));
        listener.close();
        served.close();
        for wait in waits {
            assert!(wait.join().unwrap());
        }
    }

    #[test]
    fn nobody_listens_there() {
        let listener = listen_tcp("127.0.0.1:0").unwrap();
        let address = listener.address().unwrap();
        drop(listener);
        assert!(connect_tcp(&address, Duration::from_secs(5)).is_err());
        assert!(connect_tcp("nowhere", Duration::from_secs(5)).is_err());
    }
}
