//! Connections that send messages, most of them well-formed, many with a mutated body, and startup packets likewise.

use super::mutate::{self, Random};
use super::{Corpus, FuzzReport};
use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

const PER_CONNECTION: usize = 64;

pub fn message(kind: u8, body: &[u8]) -> Vec<u8> {
    let mut m = vec![kind];
    m.extend_from_slice(&(body.len() as u32 + 4).to_be_bytes());
    m.extend_from_slice(body);
    m
}

pub fn startup(parameters: &[u8]) -> Vec<u8> {
    let mut packet = (parameters.len() as u32 + 8).to_be_bytes().to_vec();
    packet.extend_from_slice(&0x0003_0000u32.to_be_bytes());
    packet.extend_from_slice(parameters);
    packet
}

pub(crate) const PARAMETERS: &[u8] = b"user\0postgres\0database\0postgres\0\0";

fn cstr(text: &str) -> Vec<u8> {
    [text.as_bytes(), b"\0"].concat()
}

/// A body as a client would send it.
fn body(random: &mut Random, corpus: &Corpus, kind: u8) -> Vec<u8> {
    let name = ["", "s", "p"][random.below(3)];
    match kind {
        b'Q' => cstr(corpus.any(random)),
        b'P' => {
            let types: &[u8] = [b"\0\0".as_slice(), b"\0\x01\0\0\0\x17", b"\0\x02\0\0\0\x19\0\0\0\0"][random.below(3)];
            [cstr(name), cstr(corpus.any(random)), types.to_vec()].concat()
        }
        b'B' => {
            let mut out = [cstr(["", "p"][random.below(2)]), cstr(name)].concat();
            let formats: &[u8] = [b"\0\0".as_slice(), b"\0\x01\0\x01", b"\0\x01\0\0"][random.below(3)];
            out.extend_from_slice(formats);
            let count = random.below(3);
            out.extend_from_slice(&(count as u16).to_be_bytes());
            for _ in 0..count {
                let value: &[u8] =
                    [b"1".as_slice(), b"\0\0\0\x07", b"x", b"", b"\0\0\0\0\0\0\0\x01", b"2020-01-01"][random.below(6)];
                out.extend_from_slice(&(value.len() as u32).to_be_bytes());
                out.extend_from_slice(value);
            }
            out.extend_from_slice([b"\0\0".as_slice(), b"\0\x01\0\x01"][random.below(2)]);
            out
        }
        b'D' | b'C' => [vec![b"SP"[random.below(2)]], cstr(name)].concat(),
        b'E' => [cstr(["", "p"][random.below(2)]), (random.below(3) as u32).to_be_bytes().to_vec()].concat(),
        b'd' => b"1\tx\t2\n3\ty".to_vec(),
        b'f' => cstr("no"),
        b'p' => cstr("secret"),
        _ => Vec::new(),
    }
}

fn random_message(random: &mut Random, corpus: &Corpus) -> Vec<u8> {
    // Extended query messages more often than the others; a Sync now and then lets them do something.
    const KINDS: &[u8] = b"QPPPBBBDDEEECHSSSSdcfFp";
    let kind = KINDS[random.below(KINDS.len())];
    let mut content = body(random, corpus, kind);
    if random.below(2) == 0 {
        mutate::bytes(random, corpus, &mut content);
    }
    if random.below(40) == 0 {
        content = (0..random.below(64)).map(|_| random.next() as u8).collect();
    }
    message(kind, &content)
}

/// A whole connection's bytes, and how many messages they are. What ends a connection comes last.
fn conversation(random: &mut Random, corpus: &Corpus) -> (Vec<u8>, u64) {
    if random.below(16) == 0 {
        let mut packet = startup(PARAMETERS);
        mutate::bytes(random, corpus, &mut packet);
        return (packet, 1);
    }
    let mut out = startup(PARAMETERS);
    let count = 1 + random.below(PER_CONNECTION);
    for _ in 0..count {
        out.extend(random_message(random, corpus));
    }
    let mut last = random_message(random, corpus);
    match random.below(4) {
        0 => mutate::bytes(random, corpus, &mut last),
        1 => last = message(b'X', b""),
        2 => last = (0..random.below(64)).map(|_| random.next() as u8).collect(),
        _ => {}
    }
    out.extend(last);
    (out, count as u64 + 2)
}

pub fn run(random: &mut Random, corpus: &Corpus, port: u16, messages: u64) -> Result<FuzzReport, String> {
    let mut report = FuzzReport::default();
    let mut buffer = vec![0; 1 << 16];
    while report.messages < messages {
        let mut socket =
            TcpStream::connect(("127.0.0.1", port)).map_err(|e| format!("the server takes no connections: {e}"))?;
        socket.set_read_timeout(Some(Duration::from_secs(10))).map_err(|e| e.to_string())?;
        let (bytes, count) = conversation(random, corpus);
        // A server that has had enough closes: that is an answer too.
        let _ = socket.write_all(&bytes);
        let _ = socket.shutdown(Shutdown::Write);
        loop {
            match socket.read(&mut buffer) {
                Ok(0) => break,
                Ok(_) => {}
                Err(e) if e.kind() == std::io::ErrorKind::WouldBlock => {
                    report.stuck.push(String::from_utf8_lossy(&bytes).into_owned());
                    break;
                }
                Err(_) => break,
            }
        }
        report.messages += count;
        report.connections += 1;
    }
    Ok(report)
}
