//! Redis: INCR, with nothing written or with each change in its log before the reply.

use super::{CounterProduct, ask, command};
use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

pub(super) struct Redis;

const COUNTER: &str = "counter";

/// A request in RESP.
fn request(words: &[&str]) -> Vec<u8> {
    let mut text = format!("*{}\r\n", words.len());
    words.iter().for_each(|word| text.push_str(&format!("${}\r\n{word}\r\n", word.len())));
    text.into_bytes()
}

impl CounterProduct for Redis {
    fn name(&self) -> &'static str {
        "Redis"
    }
    fn program(&self) -> &'static str {
        "redis-server"
    }
    fn prepare(&self, folder: &Path, socket: &Path, is_durable: bool) -> io::Result<Command> {
        let mut command = command(self.program());
        command.arg("--port").arg("0").arg("--unixsocket").arg(socket).arg("--dir").arg(folder);
        command.args(["--maxclients", "10000", "--save", "", "--daemonize", "no"]);
        command.args(["--appendonly", if is_durable { "yes" } else { "no" }, "--appendfsync", "always"]);
        Ok(command)
    }
    fn log_in(&self, stream: &mut UnixStream) -> io::Result<()> {
        ask(self, stream, &request(&["PING"])).map(drop)
    }
    fn set_up(&self, stream: &mut UnixStream) -> io::Result<()> {
        ask(self, stream, &request(&["SET", COUNTER, "0"])).map(drop)
    }
    fn begin(&self, _: &mut UnixStream) -> io::Result<Vec<u8>> {
        Ok(request(&["INCR", COUNTER]))
    }
    fn reply(&self, received: &[u8]) -> io::Result<Option<usize>> {
        let Some(end) = received.windows(2).position(|pair| pair == b"\r\n") else { return Ok(None) };
        match received[0] {
            b':' | b'+' => Ok(Some(end + 2)),
            _ => Err(io::Error::other(String::from_utf8_lossy(&received[..end]).into_owned())),
        }
    }
    fn value(&self, stream: &mut UnixStream) -> io::Result<u64> {
        // A number is one line; what GET says of it are two.
        let reply = ask(self, stream, &request(&["INCRBY", COUNTER, "0"]))?;
        let text = String::from_utf8_lossy(&reply).trim_start_matches(':').trim().to_string();
        text.parse().map_err(|_| io::Error::other(format!("no number: {text}")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_told_apart() {
        assert_eq!(request(&["INCR", "c"]), b"*2\r\n$4\r\nINCR\r\n$1\r\nc\r\n");
        assert_eq!(Redis.reply(b":12\r").expect("no refusal"), None);
        assert_eq!(Redis.reply(b":12\r\n+PO").expect("no refusal"), Some(5));
        assert!(Redis.reply(b"-ERR no\r\n").expect_err("a refusal").to_string().contains("-ERR no"));
    }
}
