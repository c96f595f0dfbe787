//! A session that waits without a thread of its own: prepared statements in the extended protocol, in batches.
//!
//! A batch is statements that need nothing of each other's answers. Whether they go to the server as one, or each waits
//! for the one before it, is the session's [`RoundTrips`]: what the transactions do is the same.

use super::data::Cents;
use super::statement::PreparedStatement;
use crate::client::{ClientError, Fields, extended};
use crate::session_socket::{SessionLogin, SessionSocket};
use mio::{Interest, Registry, Token};
use std::future::poll_fn;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::task::Poll;

/// A value on its way to the server, in text format.
#[derive(Clone, Copy)]
pub(super) enum Parameter<'a> {
    Number(u32),
    Text(&'a str),
    /// A numeric with two digits after the point.
    Money(i64),
}

/// When a session waits for the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RoundTrips {
    /// After each statement, as a driver without batches does.
    Statements,
    /// After each batch of statements (a pipeline).
    Batches,
}

/// A session's socket and the answers to its last batch, which stay where they arrived.
pub(super) struct TpccSession {
    stream: SessionSocket,
    round_trips: RoundTrips,
    output: Vec<u8>,
    /// What has arrived is in `input[..filled]`; of it, messages up to `used` have been read.
    input: Vec<u8>,
    filled: usize,
    used: usize,
    /// Where the values of all rows are; None: null.
    values: Vec<Option<Range<usize>>>,
    /// The values of each row.
    rows: Vec<Range<usize>>,
    /// The rows of each statement.
    answers: Vec<Range<usize>>,
    /// Statements of the batch so far.
    queued: usize,
    /// Something has been sent, and nothing read since.
    is_awaited: bool,
    /// The batch has been sent and answered: the next statement begins another one.
    is_answered: bool,
}

impl TpccSession {
    /// A session that has logged in, which waits. Events of it have `token`.
    pub(super) fn connect(
        login: &SessionLogin<'_>,
        round_trips: RoundTrips,
        (registry, token): (&Registry, Token),
    ) -> Result<TpccSession, ClientError> {
        let mut stream = SessionSocket::open(login)?;
        stream.source().register(registry, token, Interest::READABLE)?;
        Ok(TpccSession {
            stream,
            round_trips,
            output: Vec::new(),
            input: vec![0; 16 * 1024],
            filled: 0,
            used: 0,
            values: Vec::new(),
            rows: Vec::new(),
            answers: Vec::new(),
            queued: 0,
            is_awaited: false,
            is_answered: false,
        })
    }

    /// Prepares all statements.
    pub(super) async fn prepare(&mut self, statements: &[PreparedStatement]) -> Result<(), ClientError> {
        for statement in statements {
            extended(&mut self.output, b'P', format!("{}\0{}\0\0\0", statement.name, statement.sql).as_bytes());
        }
        extended(&mut self.output, b'S', b"");
        self.exchange().await?;
        self.is_answered = true;
        Ok(())
    }

    /// Adds a statement to the batch. Returns the number of its answer in the batch.
    pub(super) async fn queue(
        &mut self,
        statement: &PreparedStatement,
        parameters: &[Parameter<'_>],
    ) -> Result<usize, ClientError> {
        if self.is_answered {
            self.forget_answers();
        }
        self.bind(statement, parameters);
        // Execute without a limit of rows.
        extended(&mut self.output, b'E', &[0; 5]);
        self.queued += 1;
        if self.round_trips == RoundTrips::Statements {
            extended(&mut self.output, b'S', b"");
            self.exchange().await?;
        }
        Ok(self.queued - 1)
    }

    /// Has all statements of the batch answered.
    pub(super) async fn send(&mut self) -> Result<(), ClientError> {
        self.is_answered = true;
        if !self.output.is_empty() {
            extended(&mut self.output, b'S', b"");
            self.exchange().await?;
        }
        Ok(())
    }

    /// Runs a statement, the last one of its batch. Returns the number of its answer.
    pub(super) async fn run(
        &mut self,
        statement: &PreparedStatement,
        parameters: &[Parameter<'_>],
    ) -> Result<usize, ClientError> {
        let answer = self.queue(statement, parameters).await?;
        self.send().await?;
        Ok(answer)
    }

    fn forget_answers(&mut self) {
        self.input.copy_within(self.used..self.filled, 0);
        self.filled -= self.used;
        self.used = 0;
        self.values.clear();
        self.rows.clear();
        self.answers.clear();
        self.queued = 0;
        self.is_answered = false;
    }

    fn bind(&mut self, statement: &PreparedStatement, parameters: &[Parameter<'_>]) {
        let out = &mut self.output;
        out.extend_from_slice(b"B\0\0\0\0\0");
        let begin = out.len() - 5;
        out.extend_from_slice(statement.name.as_bytes());
        out.extend_from_slice(b"\0\0\0");
        out.extend_from_slice(&(parameters.len() as u16).to_be_bytes());
        for parameter in parameters {
            let at = out.len();
            out.extend_from_slice(&[0; 4]);
            // Writing to a Vec cannot fail.
            let _ = match parameter {
                Parameter::Number(number) => write!(out, "{number}"),
                Parameter::Text(text) => out.write_all(text.as_bytes()),
                Parameter::Money(cents) => write!(out, "{}", Cents(*cents)),
            };
            let length = (out.len() - at - 4) as u32;
            out[at..at + 4].copy_from_slice(&length.to_be_bytes());
        }
        out.extend_from_slice(b"\0\0");
        let length = (out.len() - begin) as u32;
        out[begin..begin + 4].copy_from_slice(&length.to_be_bytes());
    }

    /// Sends what is to be sent and reads up to ReadyForQuery.
    async fn exchange(&mut self) -> Result<(), ClientError> {
        // A few kilobytes at most are on their way at once, for which a socket always has room.
        let sent = self.stream.write_all(&self.output).and_then(|()| self.stream.flush());
        self.output.clear();
        sent?;
        self.is_awaited = true;
        let mut refused = None;
        loop {
            while let Some((kind, body)) = self.message() {
                match kind {
                    b'D' => self.row(body)?,
                    b'C' => {
                        let from = self.answers.last().map_or(0, |answer| answer.end);
                        self.answers.push(from..self.rows.len());
                    }
                    b'E' => refused = Some(Fields(&self.input[body]).error()?),
                    b'Z' => return refused.map_or(Ok(()), |error| Err(ClientError::Server(error))),
                    _ => {}
                }
            }
            self.receive().await?;
        }
    }

    /// The next message, if it is there as a whole: its kind and where its body is.
    fn message(&mut self) -> Option<(u8, Range<usize>)> {
        let head = self.input[self.used..self.filled].first_chunk::<5>()?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let (body, end) = (self.used + 5, self.used + 1 + length);
        if end > self.filled || end < body {
            return None;
        }
        let kind = head[0];
        self.used = end;
        Some((kind, body..end))
    }

    fn row(&mut self, body: Range<usize>) -> io::Result<()> {
        let mut fields = Fields(&self.input[body.clone()]);
        let columns = fields.int16()?;
        let first = self.values.len();
        let mut at = body.start + 2;
        for _ in 0..columns {
            at += 4;
            match usize::try_from(fields.int32()?) {
                Ok(length) => {
                    fields.take(length)?;
                    self.values.push(Some(at..at + length));
                    at += length;
                }
                Err(_) => self.values.push(None),
            }
        }
        self.rows.push(first..self.values.len());
        Ok(())
    }

    async fn receive(&mut self) -> io::Result<()> {
        if self.filled == self.input.len() {
            self.input.resize(2 * self.filled, 0);
        }
        let (stream, room, is_awaited) = (&mut self.stream, &mut self.input[self.filled..], &mut self.is_awaited);
        let read = poll_fn(|_| {
            // The answer to what has just been sent is not here yet: the event tells when it is.
            if std::mem::take(is_awaited) {
                return Poll::Pending;
            }
            loop {
                match stream.read(room) {
                    Ok(0) => return Poll::Ready(Err(ErrorKind::UnexpectedEof.into())),
                    Err(e) if e.kind() == ErrorKind::WouldBlock => return Poll::Pending,
                    Err(e) if e.kind() == ErrorKind::Interrupted => {}
                    read => return Poll::Ready(read),
                }
            }
        });
        self.filled += read.await?;
        Ok(())
    }

    /// How many rows a statement of the batch has returned.
    pub(super) fn row_count(&self, answer: usize) -> usize {
        self.answers.get(answer).map_or(0, Range::len)
    }

    /// A column's value in a row of an answer; an error if there is none or it is null.
    pub(super) fn text(&self, answer: usize, row: usize, column: usize) -> Result<&str, ClientError> {
        let row = self.answers.get(answer).and_then(|rows| self.rows[rows.clone()].get(row));
        let value = row.and_then(|values| self.values[values.clone()].get(column).cloned().flatten());
        value
            .and_then(|range| std::str::from_utf8(&self.input[range]).ok())
            .ok_or_else(|| other(format!("no value in row {row:?} of answer {answer}, column {column}")))
    }

    pub(super) fn number(&self, answer: usize, row: usize, column: usize) -> Result<u32, ClientError> {
        let text = self.text(answer, row, column)?;
        text.parse().map_err(|_| other(format!("not a number: {text}")))
    }

    /// A numeric with two digits after the point, in cents.
    pub(super) fn money(&self, answer: usize, row: usize, column: usize) -> Result<i64, ClientError> {
        let text = self.text(answer, row, column)?;
        cents(text).ok_or_else(|| other(format!("not an amount of money: {text}")))
    }
}

fn other(message: String) -> ClientError {
    ClientError::Io(io::Error::other(message))
}

fn cents(text: &str) -> Option<i64> {
    let (whole, part) = text.split_once('.')?;
    let magnitude = whole.trim_start_matches('-').parse::<i64>().ok()? * 100 + part.parse::<i64>().ok()?;
    (part.len() == 2).then_some(if whole.starts_with('-') { -magnitude } else { magnitude })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_is_read_and_written() {
        for amount in [0, 7, -7, 100, -12_345, 999_999] {
            assert_eq!(cents(&Cents(amount).to_string()), Some(amount));
        }
        assert_eq!([cents("1"), cents("1.5"), cents("x.00")], [None; 3]);
    }
}
