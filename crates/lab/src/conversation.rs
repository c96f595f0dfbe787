//! Conversations: the messages that go to a server, and those that a real PostgreSQL answered.
//!
//! A conversation (`tests/protocol/NAME.msg`) has lines to send, which begin with `>` and go out together, and below
//! them what comes back up to the last ReadyForQuery that they ask for (or the end of the connection), which begins
//! with `<`:
//!
//! ```text
//! # A comment.
//! > parse s1 select $1::int4
//! > bind - s1 params=7 results=1
//! > execute -
//! > sync
//! < 1
//! < 2
//! < D \x00000007
//! < C SELECT 1
//! < Z I
//! ```
//!
//! To send: `start NAME=VALUE…` (another connection in place of the one there is; the first one needs no such line),
//! `query SQL`, `parse NAME SQL` (`NAME(23,25)` with types), `bind PORTAL STATEMENT`, then any of `params=`, `formats=`
//! and `results=` with values between commas, `describe S NAME`, `describe P NAME`, `execute PORTAL ROWS`,
//! `close S NAME`, `close P NAME`, `call OID`, then any of `params=`, `formats=` and `result=`, `sync`, `flush`,
//! `data TEXT`, `done`, `fail TEXT`, `raw KIND HEX`. `-` is the empty name.
//!
//! What comes back is told by the message's letter and what is in it. Values of columns are text, or hexadecimal if they
//! have bytes that do not print. The settings that a start tells of are sorted, without the version.

use crate::client::{Address, Client, Fields};
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::TcpStream;
use std::path::Path;
use std::time::Duration;

/// The longest that a message may take to come.
const PATIENCE: Duration = Duration::from_secs(20);

/// Compares a conversation with what its file says. Answers the number of its turns.
pub fn run_file(path: &Path, address: &Address, engine: &str) -> Result<usize, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let turns = turns_of(&text);
    let found = converse(path, &turns, address, engine)?;
    let mut differences = String::new();
    for (turn, found) in turns.iter().zip(&found) {
        if turn.answer != *found {
            let _ = writeln!(
                differences,
                "{}:{}\nexpected:\n{}\nfound:\n{}\n",
                path.display(),
                turn.line,
                turn.answer.join("\n"),
                found.join("\n")
            );
        }
    }
    if differences.is_empty() { Ok(turns.len()) } else { Err(differences) }
}

/// The file's text with the answers that came.
pub fn record_file(path: &Path, address: &Address, engine: &str) -> Result<String, String> {
    let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
    let turns = turns_of(&text);
    let found = converse(path, &turns, address, engine)?;
    let mut recorded = String::new();
    let lines: Vec<&str> = text.lines().collect();
    for (number, line) in lines.iter().enumerate().filter(|(_, line)| !line.starts_with('<')) {
        recorded.push_str(line);
        recorded.push('\n');
        if let Some(at) = turns.iter().position(|turn| turn.last_sent == number) {
            for answer in &found[at] {
                let _ = writeln!(recorded, "< {answer}");
            }
        }
    }
    Ok(recorded)
}

/// What is sent at once, and what comes back.
struct ConversationTurn<'a> {
    /// The line of the first thing sent, from 1.
    line: usize,
    /// The line of the last thing sent, from 0.
    last_sent: usize,
    sent: Vec<&'a str>,
    answer: Vec<String>,
}

fn turns_of(text: &str) -> Vec<ConversationTurn<'_>> {
    let mut turns: Vec<ConversationTurn<'_>> = Vec::new();
    let mut is_open = false;
    for (number, line) in text.lines().enumerate() {
        if let Some(sent) = line.strip_prefix("> ") {
            if !is_open {
                turns.push(ConversationTurn {
                    line: number + 1,
                    last_sent: number,
                    sent: Vec::new(),
                    answer: Vec::new(),
                });
            }
            is_open = true;
            if let Some(turn) = turns.last_mut() {
                turn.sent.push(sent);
                turn.last_sent = number;
            }
        } else {
            is_open = false;
            if let (Some(answer), Some(turn)) = (line.strip_prefix("< "), turns.last_mut()) {
                turn.answer.push(answer.to_string());
            }
        }
    }
    turns
}

fn converse(
    path: &Path,
    turns: &[ConversationTurn<'_>],
    address: &Address,
    engine: &str,
) -> Result<Vec<Vec<String>>, String> {
    let name = path.file_stem().unwrap_or_default().to_string_lossy().replace(|c: char| !c.is_alphanumeric(), "_");
    let database = format!("msg_{engine}_{name}");
    let mut maker = Client::connect(address, "postgres").map_err(|e| e.to_string())?;
    maker.query(&format!("drop database if exists {database}")).map_err(|e| e.to_string())?;
    maker.query(&format!("create database {database}")).map_err(|e| e.to_string())?;
    let mut talker = ProtocolTalker { address, database, connection: None };
    let mut answers = Vec::new();
    for turn in turns {
        let answer = talker.take(turn).map_err(|e| format!("{}:{}: {e}", path.display(), turn.line))?;
        answers.push(answer);
    }
    Ok(answers)
}

struct ProtocolTalker<'a> {
    address: &'a Address,
    database: String,
    connection: Option<TcpStream>,
}

impl ProtocolTalker<'_> {
    fn take(&mut self, turn: &ConversationTurn<'_>) -> io::Result<Vec<String>> {
        let mut answer = Vec::new();
        let mut sent = turn.sent.as_slice();
        if let Some(settings) = sent.first().and_then(|line| line.strip_prefix("start")) {
            self.start(settings)?;
            self.read(1, &mut answer)?;
            let count = answer.iter().take_while(|line| !line.starts_with("K")).count();
            answer[..count].sort();
            answer.retain(|line| !line.starts_with("S server_version="));
            sent = &sent[1..];
        } else if self.connection.is_none() {
            self.start("")?;
            self.read(1, &mut Vec::new())?;
        }
        let (mut bytes, mut ends) = (Vec::new(), 0);
        for line in sent {
            let (kind, body) = message_of(line)?;
            ends += usize::from(b"QSF".contains(&kind));
            bytes.push(kind);
            bytes.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
            bytes.extend_from_slice(&body);
        }
        if !bytes.is_empty() {
            let stream = self.connection.as_mut().ok_or_else(|| io::Error::other("the connection has ended"))?;
            stream.write_all(&bytes)?;
            self.read(ends, &mut answer)?;
        }
        Ok(answer)
    }

    fn start(&mut self, settings: &str) -> io::Result<()> {
        let mut stream = TcpStream::connect((self.address.host.as_str(), self.address.port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        let own = [("user", self.address.user.as_str()), ("database", self.database.as_str())];
        let given = settings.split_whitespace().filter_map(|pair| pair.split_once('='));
        for (name, value) in given.clone().chain(own.into_iter().filter(|(n, _)| given.clone().all(|(g, _)| g != *n))) {
            body.extend_from_slice(name.as_bytes());
            body.push(0);
            body.extend_from_slice(value.as_bytes());
            body.push(0);
        }
        body.push(0);
        stream.write_all(&(body.len() as u32 + 4).to_be_bytes())?;
        stream.write_all(&body)?;
        self.connection = Some(stream);
        Ok(())
    }

    /// Reads so many times up to ReadyForQuery.
    fn read(&mut self, mut ends: usize, answer: &mut Vec<String>) -> io::Result<()> {
        while ends > 0 {
            let Some(stream) = &mut self.connection else { return Ok(()) };
            let mut head = [0_u8; 5];
            if let Err(e) = stream.read_exact(&mut head) {
                if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
                    return Err(e);
                }
                answer.push("end of connection".to_string());
                self.connection = None;
                return Ok(());
            }
            let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
            let mut body = vec![0; length.saturating_sub(4)];
            stream.read_exact(&mut body)?;
            ends -= usize::from(head[0] == b'Z');
            answer.push(shown(head[0], &body)?);
        }
        Ok(())
    }
}

/// The type byte and the body of what a line says.
fn message_of(line: &str) -> io::Result<(u8, Vec<u8>)> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    let mut words = rest.split(' ');
    let name = |word: Option<&str>| match word.unwrap_or("-") {
        "-" => vec![0],
        word => [word.as_bytes(), &[0]].concat(),
    };
    let text = |text: &str| text.replace("\\n", "\n").replace("\\t", "\t").into_bytes();
    Ok(match word {
        "query" => (b'Q', [&text(rest)[..], &[0]].concat()),
        "parse" => {
            let (statement, sql) = rest.split_once(' ').unwrap_or((rest, ""));
            let (statement, types) =
                statement.strip_suffix(')').and_then(|s| s.split_once('(')).unwrap_or((statement, ""));
            let types: Vec<u32> = types.split(',').filter_map(|t| t.parse().ok()).collect();
            let mut body = [name(Some(statement)), text(sql), vec![0]].concat();
            body.extend_from_slice(&(types.len() as u16).to_be_bytes());
            types.iter().for_each(|t| body.extend_from_slice(&t.to_be_bytes()));
            (b'P', body)
        }
        "bind" => {
            let mut body = [name(words.next()), name(words.next())].concat();
            let options = Options::of(words);
            body.extend(options.formats("formats"));
            body.extend(options.values("params")?);
            body.extend(options.formats("results"));
            (b'B', body)
        }
        "call" => {
            let function: u32 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            let options = Options::of(words);
            let mut body = function.to_be_bytes().to_vec();
            body.extend(options.formats("formats"));
            body.extend(options.values("params")?);
            // There is one result, and no count of them.
            let result: i16 = options.of_name("result").first().and_then(|n| n.parse().ok()).unwrap_or(0);
            body.extend_from_slice(&result.to_be_bytes());
            (b'F', body)
        }
        "describe" | "close" => {
            let kind = words.next().unwrap_or("").as_bytes().to_vec();
            (if word == "describe" { b'D' } else { b'C' }, [kind, name(words.next())].concat())
        }
        "execute" => {
            let portal = name(words.next());
            let rows: u32 = words.next().and_then(|n| n.parse().ok()).unwrap_or(0);
            (b'E', [&portal[..], &rows.to_be_bytes()].concat())
        }
        "sync" => (b'S', Vec::new()),
        "flush" => (b'H', Vec::new()),
        "data" => (b'd', text(rest)),
        "done" => (b'c', Vec::new()),
        "fail" => (b'f', [rest.as_bytes(), &[0]].concat()),
        "raw" => {
            let kind = words.next().and_then(|w| w.bytes().next()).unwrap_or(0);
            (kind, bytes_of(words.next().unwrap_or(""))?)
        }
        other => return Err(io::Error::other(format!("no such message: {other}"))),
    })
}

/// What a line says as `name=value,value…`.
struct Options<'a>(Vec<(&'a str, &'a str)>);

impl<'a> Options<'a> {
    fn of(words: impl Iterator<Item = &'a str>) -> Options<'a> {
        Options(words.filter_map(|word| word.split_once('=')).collect())
    }

    fn of_name(&self, wanted: &str) -> Vec<&'a str> {
        self.0.iter().filter(|(name, _)| *name == wanted).flat_map(|(_, values)| values.split(',')).collect()
    }

    /// Format codes, with their count.
    fn formats(&self, wanted: &str) -> Vec<u8> {
        let codes: Vec<i16> = self.of_name(wanted).iter().filter_map(|code| code.parse().ok()).collect();
        let count = (codes.len() as u16).to_be_bytes().to_vec();
        [count, codes.iter().flat_map(|c| c.to_be_bytes()).collect()].concat()
    }

    /// Values with their lengths, and their count.
    fn values(&self, wanted: &str) -> io::Result<Vec<u8>> {
        let values = self.of_name(wanted);
        let mut body = (values.len() as u16).to_be_bytes().to_vec();
        for value in values {
            let bytes = match value {
                "NULL" => {
                    body.extend_from_slice(&(-1_i32).to_be_bytes());
                    continue;
                }
                value => value.strip_prefix("\\x").map_or(Ok(value.as_bytes().to_vec()), bytes_of)?,
            };
            body.extend_from_slice(&(bytes.len() as u32).to_be_bytes());
            body.extend_from_slice(&bytes);
        }
        Ok(body)
    }
}

fn bytes_of(hex: &str) -> io::Result<Vec<u8>> {
    let digits: Vec<u32> = hex.chars().filter_map(|c| c.to_digit(16)).collect();
    if digits.len() != hex.len() || !digits.len().is_multiple_of(2) {
        return Err(io::Error::other(format!("not hexadecimal: {hex}")));
    }
    Ok(digits.chunks(2).map(|pair| (pair[0] * 16 + pair[1]) as u8).collect())
}

/// A message in words: its letter and its contents.
fn shown(kind: u8, body: &[u8]) -> io::Result<String> {
    let mut fields = Fields(body);
    let mut line = String::from(char::from(kind));
    match kind {
        b'R' => write_to(&mut line, fields.int32()?),
        b'S' => write_to(&mut line, format!("{}={}", fields.string()?, fields.string()?)),
        b'C' => write_to(&mut line, fields.string()?),
        b'Z' => write_to(&mut line, char::from(fields.take(1)?[0])),
        b'T' => {
            for _ in 0..fields.int16()? {
                let name = fields.string()?;
                fields.take(6)?;
                let oid = fields.int32()? as u32;
                fields.take(6)?;
                write_to(&mut line, format!("{name}:{oid}:{}", fields.int16()?));
            }
        }
        b't' => {
            for _ in 0..fields.int16()? {
                write_to(&mut line, fields.int32()?);
            }
        }
        b'D' => {
            for i in 0..fields.int16()? {
                let value = match usize::try_from(fields.int32()?) {
                    Ok(length) => readable(fields.take(length)?),
                    Err(_) => "NULL".to_string(),
                };
                write_to(&mut line, if i == 0 { value } else { format!("| {value}") });
            }
        }
        b'd' => write_to(&mut line, readable(body)),
        b'V' => {
            let length = fields.int32()?;
            write_to(
                &mut line,
                usize::try_from(length).map_or(Ok("NULL".to_string()), |n| fields.take(n).map(readable))?,
            );
        }
        b'G' | b'H' => {
            write_to(&mut line, fields.take(1)?[0]);
            for _ in 0..fields.int16()? {
                write_to(&mut line, fields.int16()?);
            }
        }
        b'A' => {
            fields.take(4)?;
            write_to(&mut line, format!("{} {}", fields.string()?, fields.string()?));
        }
        b'E' | b'N' => write_to(&mut line, fields.report()?),
        // What is in it differs from connection to connection.
        b'K' => {}
        _ if body.is_empty() => {}
        _ => write_to(&mut line, readable(body)),
    }
    Ok(line)
}

fn write_to(line: &mut String, what: impl std::fmt::Display) {
    let _ = write!(line, " {what}");
}

fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if text.chars().all(|c| !c.is_control() || c == '\n' || c == '\t') => {
            text.replace('\n', "\\n").replace('\t', "\\t")
        }
        _ => bytes.iter().fold("\\x".to_string(), |hex, b| format!("{hex}{b:02x}")),
    }
}

impl Fields<'_> {
    /// An error or a notice, without the places in the server's source.
    fn report(&mut self) -> io::Result<String> {
        let mut text = String::new();
        loop {
            let kind = self.take(1)?[0];
            if kind == 0 {
                return Ok(text);
            }
            let value = self.string()?.replace('\n', "\\n");
            match kind {
                b'V' => text = value,
                b'C' | b'M' => write_to(&mut text, value),
                b'S' | b'F' | b'L' | b'R' => {}
                other => write_to(&mut text, format!("[{}: {value}]", char::from(other))),
            }
        }
    }
}
