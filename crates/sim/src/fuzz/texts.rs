//! Connections that send mutated SQL texts, many before they wait for the answers.

use super::messages::{PARAMETERS, message, startup};
use super::mutate::{self, Random};
use super::{Corpus, FuzzReport};
use std::io::{BufReader, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

const BATCH: usize = 16;
/// Tables, settings and prepared statements of the session go after so many batches.
const BATCHES_PER_SCHEMA: u64 = 8;
const SENTINEL: &str = "end of batch";

struct Connection {
    stream: BufReader<TcpStream>,
}

/// What came of one answered text: the SQLSTATE and message of its error, if it had one.
type StatementOutcome = Option<(String, String)>;

impl Connection {
    fn open(port: u16) -> std::io::Result<Connection> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(10)))?;
        let mut connection = Connection { stream: BufReader::with_capacity(1 << 16, stream) };
        connection.stream.get_mut().write_all(&startup(PARAMETERS))?;
        while connection.next()?.0 != b'Z' {}
        Ok(connection)
    }

    fn next(&mut self) -> std::io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        let mut body = vec![0; length.saturating_sub(4)];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }

    /// Sends texts, each followed by a ROLLBACK so that none decides about the next, and reads what becomes of them.
    /// A COPY FROM eats the ROLLBACK behind it, so answers are matched by what the ROLLBACKs say.
    fn batch(&mut self, texts: &[String]) -> std::io::Result<Vec<StatementOutcome>> {
        let mut out = Vec::new();
        for text in texts {
            out.extend(message(b'Q', &[text.as_bytes(), b"\0"].concat()));
            out.extend(message(b'Q', b"rollback\0"));
        }
        out.extend(message(b'Q', format!("select '{SENTINEL}'\0").as_bytes()));
        self.stream.get_mut().write_all(&out)?;
        let (mut outcomes, mut error, mut at_end) = (Vec::new(), None, false);
        loop {
            let (kind, body) = self.next()?;
            match kind {
                b'E' => error = Some(fields(&body)),
                b'G' => self.stream.get_mut().write_all(&message(b'f', b"no\0"))?,
                b'D' => at_end |= body.ends_with(SENTINEL.as_bytes()),
                b'Z' if at_end => return Ok(outcomes),
                b'Z' => outcomes.push(error.take()),
                _ => {}
            }
        }
    }
}

fn fields(body: &[u8]) -> (String, String) {
    let find = |tag: u8| {
        let field = body.split(|b| *b == 0).find(|f| f.first() == Some(&tag));
        field.map_or_else(String::new, |f| String::from_utf8_lossy(&f[1..]).into_owned())
    };
    (find(b'C'), find(b'M'))
}

fn setup(client: u64) -> Vec<String> {
    [
        "discard all".to_string(),
        "reset session authorization".to_string(),
        format!("drop schema if exists fuzz{client} cascade"),
        format!("create schema fuzz{client}"),
        format!("set search_path = fuzz{client}, public"),
        "set synchronous_commit = off".to_string(),
        "create table t (a int primary key, b text, c numeric)".to_string(),
        "insert into t values (1, 'one', 1.5), (2, null, 10), (3, 'x', null)".to_string(),
    ]
    .into()
}

pub fn run(random: &mut Random, corpus: &Corpus, port: u16, client: u64, texts: u64) -> Result<FuzzReport, String> {
    let mut report = FuzzReport::default();
    let mut connection: Option<Connection> = None;
    let mut batches = 0;
    while report.texts < texts {
        let open = match connection.take() {
            Some(open) => open,
            None => {
                report.connections += 1;
                batches = 0;
                match Connection::open(port) {
                    Ok(open) => open,
                    Err(e) => {
                        // What another client sent may be the reason: the report shows both.
                        report.stuck.push(format!("the server takes no connections: {e}"));
                        return Ok(report);
                    }
                }
            }
        };
        let open = connection.insert(open);
        if batches % BATCHES_PER_SCHEMA == 0 && open.batch(&setup(client)).is_err() {
            connection = None;
            continue;
        }
        batches += 1;
        let batch: Vec<String> = (0..BATCH).map(|_| mutate::text(random, corpus)).collect();
        report.texts += batch.len() as u64;
        match open.batch(&batch) {
            Ok(outcomes) => count(&mut report, &batch, &outcomes),
            Err(e) => {
                if e.kind() == std::io::ErrorKind::WouldBlock {
                    report.stuck.push(batch.join("\n;;\n"));
                }
                connection = None;
            }
        }
    }
    Ok(report)
}

/// What PostgreSQL says, with the same SQLSTATE: of a number that stands for no text search object (`0::regconfig`), of a
/// kind of objects that acldefault() does not know, of a value that would be larger than a gigabyte, of a trigger's function
/// that is no trigger's.
fn is_postgres_own(text: &str) -> bool {
    let own = [
        "cache lookup failed for text search ",
        "unrecognized object type abbreviation: ",
        "invalid memory alloc request size ",
        "tsvector_update_trigger: ",
        "forbidden call of thesaurus or nested call",
    ];
    own.iter().any(|start| text.starts_with(start))
}

fn count(report: &mut FuzzReport, batch: &[String], outcomes: &[StatementOutcome]) {
    let exact = outcomes.len() == 2 * batch.len();
    for (i, outcome) in outcomes.iter().enumerate() {
        if let (Some((code, _)), 0) = (outcome, i % 2) {
            *report.errors.entry(code.clone()).or_default() += 1;
        }
        match outcome {
            Some((code, text)) if code.starts_with("XX") && !is_postgres_own(text) => {
                let sql = if exact { batch[i / 2].clone() } else { batch.join("\n;;\n") };
                report.internal_errors.entry(format!("{code} {text}")).or_insert(sql);
            }
            None if i % 2 == 0 => report.succeeded += 1,
            _ => {}
        }
    }
}
