//! A small blocking client of PostgreSQL's protocol: simple queries, prepared statements, text format, passwords.

use crate::proof::{self, Binding, Scram};
use crate::tls::{self, TlsChoice};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where a server listens.
#[derive(Clone, Debug)]
pub struct Address {
    /// A host name, or the folder of a Unix socket (it begins with `/`).
    pub host: String,
    pub port: u16,
    pub user: String,
    /// How connections over TCP are encrypted; None: not at all.
    pub tls: Option<TlsChoice>,
}

impl Address {
    pub fn local(port: u16) -> Self {
        Address { host: "127.0.0.1".into(), port, user: "postgres".into(), tls: None }
    }
}

/// An error the server reported.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServerError {
    pub severity: String,
    pub code: String,
    pub message: String,
    pub detail: Option<String>,
}

#[derive(Debug)]
pub enum ClientError {
    Io(io::Error),
    Server(ServerError),
}

impl From<io::Error> for ClientError {
    fn from(e: io::Error) -> Self {
        ClientError::Io(e)
    }
}

impl fmt::Display for ClientError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ClientError::Io(e) => write!(f, "connection: {e}"),
            ClientError::Server(e) => write!(f, "{} {}", e.code, e.message),
        }
    }
}

/// What one statement answered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Names and type oids of the columns.
    pub columns: Vec<(String, u32)>,
    pub rows: Vec<Vec<Option<String>>>,
    /// The command tag.
    pub tag: String,
}

/// The first value of the last statement's first row.
pub(crate) fn first_value(answers: &[Answer]) -> Option<&str> {
    answers.last()?.rows.first()?.first()?.as_deref()
}

fn as_integer(value: Option<&str>, sql: &str) -> Result<i64, ClientError> {
    let number = value.and_then(|v| v.parse().ok());
    number.ok_or_else(|| ClientError::Io(io::Error::other(format!("not an integer: {sql}"))))
}

/// `1/A0`: the bytes before a place in the log.
fn log_position(lsn: &str) -> Option<u64> {
    let (high, low) = lsn.split_once('/')?;
    Some(u64::from_str_radix(high, 16).ok()? << 32 | u64::from_str_radix(low, 16).ok()?)
}

/// Somebody who runs statements, over a socket or in the server's own process.
pub trait Connection {
    /// Runs a text of one or more statements.
    fn query(&mut self, sql: &str) -> Result<Vec<Answer>, ClientError>;
    /// Parses a statement under a name.
    fn prepare(&mut self, name: &str, sql: &str) -> Result<(), ClientError>;
    /// Runs a prepared statement with parameters in text format.
    fn execute(&mut self, name: &str, parameters: &[String]) -> Result<Vec<Answer>, ClientError>;
    /// Lets time pass between two statements.
    fn pause(&mut self, time: Duration);
    /// The one value of a one-row answer, a number.
    fn integer(&mut self, sql: &str) -> Result<i64, ClientError> {
        let answers = self.query(sql)?;
        as_integer(first_value(&answers), sql)
    }
}

impl Connection for Client {
    fn query(&mut self, sql: &str) -> Result<Vec<Answer>, ClientError> {
        Client::query(self, sql)
    }
    fn prepare(&mut self, name: &str, sql: &str) -> Result<(), ClientError> {
        Client::prepare(self, name, sql)
    }
    fn execute(&mut self, name: &str, parameters: &[String]) -> Result<Vec<Answer>, ClientError> {
        Client::execute(self, name, parameters)
    }
    fn pause(&mut self, time: Duration) {
        std::thread::sleep(time);
    }
}

trait Stream: Read + Write + Send {}
impl<T: Read + Write + Send> Stream for T {}

pub struct Client {
    stream: BufReader<Box<dyn Stream>>,
    /// `I` idle, `T` in a transaction, `E` in a failed one.
    pub status: u8,
    /// Notices and warnings since somebody took them.
    pub notices: Vec<ServerError>,
    /// Notifications since somebody took them.
    pub notifications: Vec<Notification>,
    /// Who logs in, and what the server is answered if it asks.
    credentials: Credentials,
    /// Somebody else has the connection now.
    is_handed_over: bool,
}

struct Credentials {
    user: String,
    proof: Proof,
    scram: Option<Scram>,
}

/// What a client has to show.
#[derive(Clone, Default)]
pub struct Proof {
    pub password: Option<String>,
    pub binding: Binding,
}

/// What NOTIFY sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notification {
    /// The sender's process id.
    pub sender: i32,
    pub channel: String,
    pub payload: String,
}

impl Client {
    pub fn connect(address: &Address, database: &str) -> Result<Client, ClientError> {
        Client::log_in(address, database, None)
    }

    /// As [`Client::connect`], with a password if the server asks for one.
    pub fn log_in(address: &Address, database: &str, password: Option<&str>) -> Result<Client, ClientError> {
        let stream: Box<dyn Stream> = if address.host.starts_with('/') {
            Box::new(UnixStream::connect(format!("{}/.s.PGSQL.{}", address.host, address.port))?)
        } else {
            let stream = TcpStream::connect((address.host.as_str(), address.port))?;
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(120)))?;
            Box::new(tls::open(address, stream)?)
        };
        let proof = Proof { password: password.map(str::to_string), ..Proof::default() };
        Client::over_with(stream, &address.user, database, proof)
    }

    /// Connects over a stream that somebody has opened, and perhaps encrypted.
    pub fn over(stream: impl Read + Write + Send + 'static, user: &str, database: &str) -> Result<Client, ClientError> {
        Client::over_with(stream, user, database, Proof::default())
    }

    /// As [`Client::over`], with what there is to show if the server asks.
    pub fn over_with(
        stream: impl Read + Write + Send + 'static,
        user: &str,
        database: &str,
        proof: Proof,
    ) -> Result<Client, ClientError> {
        let stream: Box<dyn Stream> = Box::new(stream);
        let mut client = Client {
            stream: BufReader::new(stream),
            status: b'I',
            notices: Vec::new(),
            notifications: Vec::new(),
            credentials: Credentials { user: user.into(), proof, scram: None },
            is_handed_over: false,
        };
        client.start(user, database)?;
        Ok(client)
    }

    /// The connection goes on with somebody else, who has the stream too: the server is not told that it ends.
    pub fn hand_over(mut self) {
        self.is_handed_over = true;
    }

    /// Sends messages as they are, without waiting for answers.
    pub fn send_raw(&mut self, messages: &[u8]) -> io::Result<()> {
        self.stream.get_mut().write_all(messages)
    }

    fn start(&mut self, user: &str, database: &str) -> Result<(), ClientError> {
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        for (name, value) in [("user", user), ("database", database), ("client_encoding", "UTF8")] {
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            body.extend_from_slice(value.as_bytes());
            body.push(0);
        }
        body.push(0);
        let mut message = (body.len() as u32 + 4).to_be_bytes().to_vec();
        message.extend_from_slice(&body);
        self.stream.get_mut().write_all(&message)?;
        self.answers().map(|_| ())
    }

    /// Runs a text of one or more statements.
    pub fn query(&mut self, sql: &str) -> Result<Vec<Answer>, ClientError> {
        self.send(sql)?;
        self.answers()
    }

    /// Sends a simple query without waiting for its answer.
    pub fn send(&mut self, sql: &str) -> Result<(), ClientError> {
        let mut message = vec![b'Q'];
        message.extend_from_slice(&(sql.len() as u32 + 5).to_be_bytes());
        message.extend_from_slice(sql.as_bytes());
        message.push(0);
        self.stream.get_mut().write_all(&message)?;
        Ok(())
    }

    /// Runs a COPY FROM STDIN with what `write` writes.
    pub fn copy_in(
        &mut self,
        sql: &str,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), ClientError> {
        self.send(sql)?;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'G' => break,
                b'E' => return Err(self.refused(&body)?),
                b'N' => self.notices.push(Fields(&body).error()?),
                _ => {}
            }
        }
        let mut data = BufWriter::with_capacity(1 << 16, CopyData(self.stream.get_mut()));
        write(&mut data)?;
        data.flush()?;
        drop(data);
        self.stream.get_mut().write_all(b"c\0\0\0\x04")?;
        self.answers().map(|_| ())
    }

    /// The error that a COPY has ended with, whose other messages are read to their end.
    fn refused(&mut self, body: &[u8]) -> Result<ClientError, ClientError> {
        let refused = Fields(body).error()?;
        self.answers()?;
        Ok(ClientError::Server(refused))
    }

    /// Runs a COPY TO STDOUT; `take` gets what each message brings, which is a row.
    pub fn copy_out(&mut self, sql: &str, mut take: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), ClientError> {
        self.send(sql)?;
        let mut body = Vec::new();
        loop {
            match self.message_into(&mut body)? {
                b'd' => take(&body)?,
                b'c' => return self.answers().map(|_| ()),
                b'E' => return Err(self.refused(&body)?),
                b'N' => self.notices.push(Fields(&body).error()?),
                _ => {}
            }
        }
    }

    /// Parses a statement under a name.
    pub fn prepare(&mut self, name: &str, sql: &str) -> Result<(), ClientError> {
        let mut messages = Vec::new();
        extended(&mut messages, b'P', format!("{name}\0{sql}\0\0\0").as_bytes());
        extended(&mut messages, b'S', b"");
        self.stream.get_mut().write_all(&messages)?;
        self.answers().map(|_| ())
    }

    /// Runs a prepared statement with parameters in text format.
    pub fn execute(&mut self, name: &str, parameters: &[String]) -> Result<Vec<Answer>, ClientError> {
        let mut bind = format!("\0{name}\0\0\0").into_bytes();
        bind.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            bind.extend_from_slice(&(parameter.len() as u32).to_be_bytes());
            bind.extend_from_slice(parameter.as_bytes());
        }
        bind.extend_from_slice(&[0, 0]);
        let mut messages = Vec::new();
        extended(&mut messages, b'B', &bind);
        extended(&mut messages, b'D', b"P\0");
        extended(&mut messages, b'E', &[0; 5]);
        extended(&mut messages, b'S', b"");
        self.stream.get_mut().write_all(&messages)?;
        self.answers()
    }

    /// The one value of a one-row answer.
    pub fn value(&mut self, sql: &str) -> Result<Option<String>, ClientError> {
        Ok(first_value(&self.query(sql)?).map(str::to_string))
    }

    pub fn integer(&mut self, sql: &str) -> Result<i64, ClientError> {
        as_integer(first_value(&self.query(sql)?), sql)
    }

    /// Where the server's log ends, in bytes. Errors: the server has none, or does not tell.
    pub fn log_position(&mut self) -> Result<u64, ClientError> {
        let text = self.value("select pg_current_wal_lsn()")?.unwrap_or_default();
        let found = log_position(&text);
        found.ok_or_else(|| ClientError::Io(io::Error::other(format!("not a place in the log: {text}"))))
    }

    /// Reads up to ReadyForQuery.
    pub fn answers(&mut self) -> Result<Vec<Answer>, ClientError> {
        let mut answers = Vec::new();
        let mut current = Answer::default();
        let mut error = None;
        loop {
            let (kind, body) = self.message()?;
            let mut reader = Fields(&body);
            match kind {
                b'T' => current.columns = reader.row_description()?,
                b'D' => current.rows.push(reader.data_row()?),
                b'C' => {
                    current.tag = reader.string()?;
                    answers.push(std::mem::take(&mut current));
                }
                b'I' => answers.push(std::mem::take(&mut current)),
                b'E' => {
                    let reported = reader.error()?;
                    if reported.severity == "FATAL" || reported.severity == "PANIC" {
                        return Err(ClientError::Server(reported));
                    }
                    error = Some(reported);
                }
                b'N' => self.notices.push(reader.error()?),
                b'A' => self.notifications.push(reader.notification()?),
                b'G' => self.stream.get_mut().write_all(b"f\0\0\0\x09test\0")?,
                b'Z' => {
                    self.status = reader.take(1)?[0];
                    return match error {
                        Some(e) => Err(ClientError::Server(e)),
                        None => Ok(answers),
                    };
                }
                b'R' => {
                    let request = reader.int32()?;
                    self.prove(request, reader.0)?;
                }
                _ => {}
            }
        }
    }

    /// Answers what the server wants to know of the client.
    fn prove(&mut self, request: i32, data: &[u8]) -> Result<(), ClientError> {
        if request == 0 {
            return Ok(());
        }
        let Credentials { user, proof: Proof { password: Some(password), binding }, scram } = &mut self.credentials
        else {
            return Err(ClientError::Io(io::Error::other("the server asks for a password")));
        };
        let text = String::from_utf8_lossy(data).into_owned();
        let mut answer = match request {
            3 => password.clone().into_bytes(),
            5 => proof::md5_answer(user, password, data).into_bytes(),
            10 => {
                let begun = scram.insert(Scram::new(password, &nonce(), binding.clone()));
                let first = begun.first();
                let length = (first.len() as u32).to_be_bytes();
                [binding.mechanism().as_bytes(), b"\0", &length[..], first.as_bytes()].concat()
            }
            11 => match scram {
                Some(begun) => begun.last(&text)?.into_bytes(),
                None => return Err(ClientError::Io(io::Error::other("an exchange that was not begun"))),
            },
            12 if scram.as_ref().is_some_and(|begun| begun.is_servers(&text)) => return Ok(()),
            12 => return Err(ClientError::Io(io::Error::other("the server does not know the password"))),
            other => return Err(ClientError::Io(io::Error::other(format!("authentication request {other}")))),
        };
        if request < 10 {
            answer.push(0);
        }
        let mut message = Vec::new();
        extended(&mut message, b'p', &answer);
        self.stream.get_mut().write_all(&message)?;
        Ok(())
    }

    /// Waits for a notification while no statement is under way.
    pub fn notification(&mut self) -> Result<Notification, ClientError> {
        loop {
            if !self.notifications.is_empty() {
                return Ok(self.notifications.remove(0));
            }
            let (kind, body) = self.message()?;
            match kind {
                b'A' => self.notifications.push(Fields(&body).notification()?),
                b'E' => return Err(ClientError::Server(Fields(&body).error()?)),
                _ => {}
            }
        }
    }

    fn message(&mut self) -> Result<(u8, Vec<u8>), ClientError> {
        let mut body = Vec::new();
        let kind = self.message_into(&mut body)?;
        Ok((kind, body))
    }

    /// Reads a message into a buffer that may have been used before.
    fn message_into(&mut self, body: &mut Vec<u8>) -> Result<u8, ClientError> {
        let mut head = [0_u8; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        body.resize(length.saturating_sub(4), 0);
        self.stream.read_exact(body)?;
        Ok(head[0])
    }
}

/// Text that no other exchange has.
fn nonce() -> String {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let nanos = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos());
    BASE64_STANDARD.encode(format!("{}-{nanos}-{number}", std::process::id()))
}

/// Sends what is written as data of a COPY, one message for each write.
struct CopyData<W: Write>(W);

impl<W: Write> Write for CopyData<W> {
    fn write(&mut self, data: &[u8]) -> io::Result<usize> {
        let mut message = Vec::with_capacity(data.len() + 5);
        extended(&mut message, b'd', data);
        self.0.write_all(&message)?;
        Ok(data.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.0.flush()
    }
}

/// Appends a message of the extended protocol.
pub fn extended(messages: &mut Vec<u8>, kind: u8, body: &[u8]) {
    messages.push(kind);
    messages.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    messages.extend_from_slice(body);
}

impl Drop for Client {
    fn drop(&mut self) {
        if !self.is_handed_over {
            let _ = self.stream.get_mut().write_all(b"X\0\0\0\x04");
        }
    }
}

/// Reads the fields of one message.
pub(crate) struct Fields<'a>(pub(crate) &'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn take(&mut self, n: usize) -> io::Result<&'a [u8]> {
        if n > self.0.len() {
            return Err(io::Error::other("message too short"));
        }
        let (head, tail) = self.0.split_at(n);
        self.0 = tail;
        Ok(head)
    }

    pub(crate) fn int16(&mut self) -> io::Result<i16> {
        let b = self.take(2)?;
        Ok(i16::from_be_bytes([b[0], b[1]]))
    }

    pub(crate) fn int32(&mut self) -> io::Result<i32> {
        let b = self.take(4)?;
        Ok(i32::from_be_bytes([b[0], b[1], b[2], b[3]]))
    }

    pub(crate) fn string(&mut self) -> io::Result<String> {
        let end = self.0.iter().position(|&b| b == 0).ok_or_else(|| io::Error::other("unterminated string"))?;
        let text = String::from_utf8_lossy(self.take(end)?).into_owned();
        self.take(1)?;
        Ok(text)
    }

    pub(crate) fn row_description(&mut self) -> io::Result<Vec<(String, u32)>> {
        let n = self.int16()?;
        let mut columns = Vec::new();
        for _ in 0..n {
            let name = self.string()?;
            self.take(6)?;
            let oid = self.int32()? as u32;
            self.take(8)?;
            columns.push((name, oid));
        }
        Ok(columns)
    }

    pub(crate) fn data_row(&mut self) -> io::Result<Vec<Option<String>>> {
        let n = self.int16()?;
        let mut row = Vec::new();
        for _ in 0..n {
            let length = self.int32()?;
            row.push(match usize::try_from(length) {
                Ok(length) => Some(String::from_utf8_lossy(self.take(length)?).into_owned()),
                Err(_) => None,
            });
        }
        Ok(row)
    }

    fn notification(&mut self) -> io::Result<Notification> {
        Ok(Notification { sender: self.int32()?, channel: self.string()?, payload: self.string()? })
    }

    pub(crate) fn error(&mut self) -> io::Result<ServerError> {
        let mut error = ServerError::default();
        loop {
            let kind = self.take(1)?[0];
            if kind == 0 {
                return Ok(error);
            }
            let text = self.string()?;
            match kind {
                b'V' => error.severity = text,
                b'C' => error.code = text,
                b'M' => error.message = text,
                b'D' => error.detail = Some(text),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_write_of_a_copy_is_a_message() {
        let mut sent = Vec::new();
        CopyData(&mut sent).write_all(b"1|a\n").expect("memory can be written to");
        CopyData(&mut sent).write_all(b"2").expect("memory can be written to");
        assert_eq!(sent, b"d\0\0\0\x081|a\nd\0\0\0\x052");
    }

    #[test]
    fn places_in_the_log_are_numbers() {
        assert_eq!(log_position("1/A0"), Some((1 << 32) + 160));
        assert_eq!(log_position("none"), None);
    }
}
