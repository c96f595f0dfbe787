//! MariaDB: a prepared UPDATE of the one row of a table, with the log written at each commit or once a second. Messages are those of
//! "Client/Server Protocol" in its knowledge base: a length of three bytes, a number, and what the message says.

use super::{CounterProduct, ask, command};
use std::io::{self, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

pub(super) struct MariaDb;

const QUERY: u8 = 3;
const PREPARE: u8 = 22;
const EXECUTE: u8 = 23;
const HEAD_BYTES: usize = 4;
/// CLIENT_MYSQL, PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH.
const CAPABILITIES: u32 = 1 | 1 << 9 | 1 << 15 | 1 << 19;
const MESSAGE_MAX_BYTES: u32 = 1 << 24;
const UTF8MB4: u8 = 45;

fn message(number: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes = (body.len() as u32).to_le_bytes()[..3].to_vec();
    bytes.push(number);
    bytes.extend_from_slice(body);
    bytes
}

fn request(kind: u8, body: &[u8]) -> Vec<u8> {
    message(0, &[&[kind], body].concat())
}

/// The length of a message that begins here. None: its head has not come.
fn length(received: &[u8]) -> Option<usize> {
    let head = received.get(..3)?;
    Some(HEAD_BYTES + u32::from_le_bytes([head[0], head[1], head[2], 0]) as usize)
}

/// The server's words in an error's body.
fn refusal(body: &[u8]) -> io::Error {
    io::Error::other(String::from_utf8_lossy(body.get(3..).unwrap_or_default()).into_owned())
}

fn read_message(stream: &mut UnixStream) -> io::Result<Vec<u8>> {
    let mut head = [0; HEAD_BYTES];
    stream.read_exact(&mut head)?;
    let mut body = vec![0; length(&head).unwrap_or(HEAD_BYTES) - HEAD_BYTES];
    stream.read_exact(&mut body)?;
    match body.first() {
        Some(0xff) => Err(refusal(&body)),
        _ => Ok(body),
    }
}

/// Who logs in: `root`, without a password.
fn introduction() -> Vec<u8> {
    let mut body = CAPABILITIES.to_le_bytes().to_vec();
    body.extend_from_slice(&MESSAGE_MAX_BYTES.to_le_bytes());
    body.push(UTF8MB4);
    body.extend_from_slice(&[0; 23]);
    body.extend_from_slice(b"root\0\0mysql_native_password\0");
    message(1, &body)
}

impl CounterProduct for MariaDb {
    fn name(&self) -> &'static str {
        "MariaDB"
    }
    fn program(&self) -> &'static str {
        "mariadbd"
    }
    fn prepare(&self, folder: &Path, socket: &Path, is_durable: bool) -> io::Result<Command> {
        let data = folder.join("data");
        let made = command("mariadb-install-db")
            .args(["--no-defaults", "--skip-test-db", "--auth-root-authentication-method=normal"])
            .arg(format!("--datadir={}", data.display()))
            .output()?;
        if !made.status.success() {
            return Err(io::Error::other(format!("mariadb-install-db: {}", String::from_utf8_lossy(&made.stderr))));
        }
        let mut command = command(self.program());
        command.args(["--no-defaults", "--skip-networking", "--skip-grant-tables"]);
        command.args(["--max-connections=10000", "--innodb-buffer-pool-size=1G"]);
        command.arg(format!("--innodb-flush-log-at-trx-commit={}", u8::from(is_durable)));
        command.arg(format!("--datadir={}", data.display())).arg(format!("--socket={}", socket.display()));
        // SAFETY: no arguments, cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            command.arg("--user=root");
        }
        Ok(command)
    }
    fn log_in(&self, stream: &mut UnixStream) -> io::Result<()> {
        read_message(stream)?;
        stream.write_all(&introduction())?;
        match read_message(stream)?.first() {
            Some(0) => Ok(()),
            _ => Err(io::Error::other("the server wants to know more")),
        }
    }
    fn set_up(&self, stream: &mut UnixStream) -> io::Result<()> {
        for sql in [
            "create database if not exists lab",
            "create table lab.tbl (id int primary key, cnt bigint not null, ts timestamp(6)) engine = innodb",
            "insert into lab.tbl values (1, 0, now(6))",
        ] {
            ask(self, stream, &request(QUERY, sql.as_bytes()))?;
        }
        Ok(())
    }
    fn begin(&self, stream: &mut UnixStream) -> io::Result<Vec<u8>> {
        let sql = "update lab.tbl set cnt = cnt + 1, ts = now(6) where id = 1";
        stream.write_all(&request(PREPARE, sql.as_bytes()))?;
        let prepared = read_message(stream)?;
        let number = prepared.get(1..5).ok_or_else(|| io::Error::other("no number of a prepared statement"))?;
        // No cursor, once.
        Ok(request(EXECUTE, &[number, &[0], &1_u32.to_le_bytes()].concat()))
    }
    fn reply(&self, received: &[u8]) -> io::Result<Option<usize>> {
        let Some(bytes) = length(received).filter(|bytes| received.len() >= *bytes) else { return Ok(None) };
        match received.get(HEAD_BYTES) {
            Some(0xff) => Err(refusal(&received[HEAD_BYTES..bytes])),
            _ => Ok(Some(bytes)),
        }
    }
    fn value(&self, stream: &mut UnixStream) -> io::Result<u64> {
        stream.write_all(&request(QUERY, b"select cnt from lab.tbl"))?;
        // The number of columns, the column, an end, the row, an end.
        let messages = (0..5).map(|_| read_message(stream)).collect::<io::Result<Vec<_>>>()?;
        let text = String::from_utf8_lossy(messages[3].get(1..).unwrap_or_default()).into_owned();
        text.parse().map_err(|_| io::Error::other(format!("no number: {text}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_a_length_and_a_number() {
        assert_eq!(request(QUERY, b"x"), [2, 0, 0, 0, 3, b'x']);
        assert_eq!(MariaDb.reply(&[7, 0, 0, 1, 0, 1]).expect("no refusal"), None);
        assert_eq!(MariaDb.reply(&[2, 0, 0, 1, 0, 1, 9]).expect("no refusal"), Some(6));
        let refused = [7, 0, 0, 1, 0xff, 0x28, 4, b'#', b'n', b'o', b'!'];
        assert!(MariaDb.reply(&refused).expect_err("a refusal").to_string().contains("no!"));
    }
}
