//! A client that may go away at any moment: one socket, messages as bytes.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::AsRawFd;
use std::time::Duration;

pub struct RawConnection {
    socket: TcpStream,
    pub process_id: i32,
}

/// How a client goes away without a word.
#[derive(Clone, Copy, Debug)]
pub enum Leaving {
    /// FIN.
    Close,
    /// RST.
    Reset,
    /// FIN of the sending side only; the socket stays, and nothing is read from it.
    HalfClose,
}

fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = vec![kind];
    bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

impl RawConnection {
    /// Connects, and waits until the server is ready for a query.
    pub fn connect(port: u16, user: &str) -> io::Result<RawConnection> {
        let mut raw = RawConnection::begin(port, user)?;
        raw.wait_for(b'Z')?;
        Ok(raw)
    }

    /// Connects and sends the startup packet.
    pub fn begin(port: u16, user: &str) -> io::Result<RawConnection> {
        let socket = TcpStream::connect(("127.0.0.1", port))?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(Duration::from_secs(60)))?;
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for text in ["user", user, "database", "postgres", ""] {
            body.extend_from_slice(text.as_bytes());
            body.push(0);
        }
        let mut raw = RawConnection { socket, process_id: 0 };
        raw.send(&message(b'?', &body)[1..])?;
        Ok(raw)
    }

    pub fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.socket.write_all(bytes)
    }

    pub fn query(&mut self, sql: &str) -> io::Result<()> {
        self.send(&message(b'Q', format!("{sql}\0").as_bytes()))
    }

    /// Parse, Bind and Execute of so many rows, and Flush: the portal stays open.
    pub(crate) fn open_portal(&mut self, sql: &str, rows: u32) -> io::Result<()> {
        let mut bytes = message(b'P', format!("\0{sql}\0\0\0").as_bytes());
        bytes.extend(message(b'B', &[0; 8]));
        bytes.extend(message(b'E', &[&[0], &rows.to_be_bytes()[..]].concat()));
        bytes.extend(message(b'H', b""));
        self.send(&bytes)
    }

    pub fn copy_data(&mut self, data: &[u8]) -> io::Result<()> {
        self.send(&message(b'd', data))
    }

    /// The next message.
    pub fn read(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.socket.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        self.socket.read_exact(&mut body)?;
        if head[0] == b'K' && body.len() >= 4 {
            self.process_id = i32::from_be_bytes([body[0], body[1], body[2], body[3]]);
        }
        Ok((head[0], body))
    }

    /// Reads up to a message of that kind; an error message on the way is an error.
    pub fn wait_for(&mut self, kind: u8) -> io::Result<Vec<u8>> {
        loop {
            let (found, body) = self.read()?;
            if found == kind {
                return Ok(body);
            }
            if found == b'E' {
                return Err(io::Error::other(fields(&body)));
            }
        }
    }

    /// The value of a query's one row.
    pub fn value(&mut self, sql: &str) -> io::Result<String> {
        self.query(sql)?;
        let row = self.wait_for(b'D')?;
        self.wait_for(b'Z')?;
        Ok(String::from_utf8_lossy(row.get(6..).unwrap_or(&[])).into_owned())
    }

    /// A clean end.
    pub(crate) fn terminate(mut self) {
        // It may be gone already.
        let _ = self.send(&message(b'X', b""));
    }

    /// Goes away. A socket that is closed by half is answered: it must be kept until it is to be forgotten.
    pub fn leave(self, how: Leaving) -> Option<TcpStream> {
        match how {
            Leaving::Close => None,
            Leaving::Reset => {
                let linger = libc::linger { l_onoff: 1, l_linger: 0 };
                let size = size_of::<libc::linger>() as libc::socklen_t;
                // SAFETY: the descriptor is open, and the option's value is of the size told.
                unsafe {
                    libc::setsockopt(
                        self.socket.as_raw_fd(),
                        libc::SOL_SOCKET,
                        libc::SO_LINGER,
                        (&raw const linger).cast(),
                        size,
                    );
                }
                None
            }
            Leaving::HalfClose => {
                // Closed already is as good.
                let _ = self.socket.shutdown(Shutdown::Write);
                Some(self.socket)
            }
        }
    }
}

/// SQLSTATE and message of an ErrorResponse.
pub fn fields(body: &[u8]) -> String {
    let field = |kind: u8| {
        let found = body.split(|b| *b == 0).find(|f| f.first() == Some(&kind));
        found.map_or(String::new(), |f| String::from_utf8_lossy(&f[1..]).into_owned())
    };
    format!("{} {}", field(b'C'), field(b'M'))
}
