//! COPY in both directions, in its formats, with the client's own side of it: the same client for both servers.
//!
//! Both servers read the same files, which the first one has written, so each must understand the other's format.

use super::super::turns::ComparedServer;
use super::measure::{SessionPair, TurnDone, ask, statements};
use super::report::ExecutionRow;
use super::script::{RowBounds, RowFilter, Script, scripts};
use crate::bench::plans::answers::rows_of;
use kilndb_lab::client::Client;
use kilndb_lab::process::TempDir;
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::PathBuf;
use std::time::Instant;

const SCRIPT: &str = include_str!("../../../execution/copy.sql");
/// What is sent in a message of the protocol.
const CHUNK_BYTES: usize = 1 << 16;
const BINARY_SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// The signature, flags and the length of an extension that nobody has.
const BINARY_HEADER_BYTES: usize = 19;
/// What a table has, in few values.
const SUMS: &str = "select count(*), sum(id), sum(account), sum(amount), min(placed), max(placed), min(changed), max(changed), sum(ratio), \
     count(ratio), sum(length(label)), count(note), sum(length(note)), count(distinct note)";

/// A format with the rows of its two directions.
struct CopyFormat {
    name: &'static str,
    options: &'static str,
    out: Option<RowBounds>,
    back: Option<RowBounds>,
}

/// The formats of which somebody wants a row.
fn formats(filter: &RowFilter) -> Vec<CopyFormat> {
    let row = |direction: &str, name: &str| {
        let bounds = RowBounds::new(&format!("COPY {direction}, {name}"), 0.5, 0.25);
        // CSV is told, so that it is seen if it becomes slower than the others.
        let bounds = if name == "CSV" { RowBounds { must: None, aim: None, ..bounds } } else { bounds };
        filter.has(&bounds.name).then_some(bounds)
    };
    let all = [("text", ""), ("binary", "(format binary)"), ("CSV", "(format csv)")];
    let formats = all.map(|(name, options)| CopyFormat { name, options, out: row("out", name), back: row("in", name) });
    formats.into_iter().filter(|format| format.out.is_some() || format.back.is_some()).collect()
}

/// What came out of a server, whatever the order of its rows. Each row is a message.
#[derive(Default)]
struct OutSums {
    bytes: u64,
    sum: u64,
}

impl OutSums {
    fn add(&mut self, message: &[u8]) {
        self.bytes += message.len() as u64;
        // A scan of a large table may begin anywhere, and the first row comes behind the header of the binary format.
        let header = if message.starts_with(BINARY_SIGNATURE) { BINARY_HEADER_BYTES } else { 0 };
        let row = message.get(header..).unwrap_or(message);
        let (words, rest) = row.as_chunks::<8>();
        let mut hash = 0;
        let mut mix = |word: u64| hash = (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        words.iter().for_each(|word| mix(u64::from_le_bytes(*word)));
        rest.iter().for_each(|byte| mix(u64::from(*byte)));
        self.sum = self.sum.wrapping_add(hash);
    }
}

/// A measurement of COPY: the formats, and the folder of the files.
struct CopyMeasurement {
    formats: Vec<CopyFormat>,
    folder: TempDir,
}

impl CopyMeasurement {
    fn file(&self, format: &CopyFormat) -> PathBuf {
        self.folder.path().join(format.name)
    }

    fn write_files(&self, client: &mut Client) -> Result<(), String> {
        for format in &self.formats {
            let mut file = BufWriter::new(File::create(self.file(format)).map_err(|e| e.to_string())?);
            copy_out(client, format, |row| file.write_all(row))?;
            file.flush().map_err(|e| e.to_string())?;
        }
        Ok(())
    }

    fn turn(&self, client: &mut Client) -> Result<TurnDone, String> {
        let mut done = TurnDone::default();
        for format in &self.formats {
            if let Some(bounds) = &format.out {
                let mut sums = OutSums::default();
                let began = Instant::now();
                copy_out(client, format, |row| {
                    sums.add(row);
                    Ok(())
                })?;
                done.time(bounds, began.elapsed().as_secs_f64());
                let sums = vec![Some(sums.bytes.to_string()), Some(sums.sum.to_string())];
                done.answers.push((bounds.name.clone(), vec![sums]));
            }
            if let Some(bounds) = &format.back {
                let file = File::open(self.file(format)).map_err(|e| e.to_string())?;
                let began = Instant::now();
                copy_in(client, format, file)?;
                done.time(bounds, began.elapsed().as_secs_f64());
                let sums = rows_of(ask(client, &format!("{SUMS} from copied_back"))?, true);
                done.answers.push((bounds.name.clone(), sums));
                // What follows finds the buffers without changed pages of another table.
                ask(client, "truncate copied_back")?;
                ask(client, "checkpoint")?;
            }
        }
        Ok(done)
    }
}

fn copy_out(client: &mut Client, format: &CopyFormat, row: impl FnMut(&[u8]) -> io::Result<()>) -> Result<(), String> {
    let sql = format!("copy copied to stdout {}", format.options);
    client.copy_out(&sql, row).map_err(|e| format!("{sql}: {e}"))
}

fn copy_in(client: &mut Client, format: &CopyFormat, mut file: File) -> Result<(), String> {
    let sql = format!("copy copied_back from stdin {}", format.options);
    let mut chunk = vec![0; CHUNK_BYTES];
    let write = |out: &mut dyn Write| {
        loop {
            match file.read(&mut chunk)? {
                0 => return Ok(()),
                length => out.write_all(&chunk[..length])?,
            }
        }
    };
    client.copy_in(&sql, write).map_err(|e| format!("{sql}: {e}"))
}

/// Measures COPY, if somebody wants a row of it.
pub(super) fn run(
    sides: [&ComparedServer; 2],
    filter: &RowFilter,
    (rows, turns): (u32, usize),
) -> Result<Vec<ExecutionRow>, String> {
    let formats = formats(filter);
    let Some(script) = scripts(SCRIPT, rows).pop().filter(|_| !formats.is_empty()) else { return Ok(Vec::new()) };
    let folder = TempDir::new("bench-copy").map_err(|e| e.to_string())?;
    measure(sides, &script, &CopyMeasurement { formats, folder }, turns)
}

fn measure(
    sides: [&ComparedServer; 2],
    script: &Script,
    measurement: &CopyMeasurement,
    turns: usize,
) -> Result<Vec<ExecutionRow>, String> {
    let mut pair = SessionPair::new(sides)?;
    eprintln!("{}: loading", script.name);
    let sums = pair.each(false, |client, n| {
        statements(client, &script.once)?;
        if n == 0 {
            measurement.write_files(client)?;
        }
        Ok(rows_of(ask(client, &format!("{SUMS} from copied"))?, true))
    })?;
    pair.turns(turns, true, |client, n| {
        let mut done = measurement.turn(client)?;
        // What has come in is what has gone out.
        if let Some((what, _)) = done.answers.iter().find(|(what, rows)| what.contains(" in, ") && *rows != sums[n]) {
            return Err(format!("{what}: other rows than those that were written"));
        }
        done.answers.push(("rows of the table".into(), sums[n].clone()));
        Ok(done)
    })?;
    pair.each(false, |client, _| statements(client, &script.end))?;
    Ok(pair.into_rows())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sums(rows: &[&str]) -> (u64, u64) {
        let mut sums = OutSums::default();
        rows.iter().for_each(|row| sums.add(row.as_bytes()));
        (sums.bytes, sums.sum)
    }

    #[test]
    fn the_order_of_rows_is_free_and_their_bytes_are_not() {
        assert_eq!(sums(&["1\ta row of text\n", "2\n"]), sums(&["2\n", "1\ta row of text\n"]));
        assert_ne!(sums(&["1\ta row of text\n", "2\n"]).1, sums(&["1\ta row of texu\n", "2\n"]).1);
        assert_ne!(sums(&["12\n", "3\n"]).1, sums(&["1\n", "23\n"]).1);
    }

    #[test]
    fn any_row_may_come_first_in_the_binary_format() {
        let header = [BINARY_SIGNATURE, &[0; 8]].concat();
        let sum = |first: &[u8], second: &[u8]| {
            let mut sums = OutSums::default();
            [&[&header, first].concat()[..], second].iter().for_each(|row| sums.add(row));
            sums.sum
        };
        assert_eq!(sum(b"one row", b"another one"), sum(b"another one", b"one row"));
        assert_ne!(sum(b"one row", b"another one"), sum(b"one rov", b"another one"));
    }

    #[test]
    fn the_rows_that_are_wanted_say_which_formats_there_are() {
        let names = |text: &str| {
            let formats = formats(&RowFilter::new(&[text.to_string()]));
            formats.iter().map(|f| (f.name, f.out.is_some(), f.back.is_some())).collect::<Vec<_>>()
        };
        assert_eq!(names("copy in, text"), [("text", false, true)]);
        assert_eq!(names("binary"), [("binary", true, true)]);
        assert_eq!(names("copy").len(), 3);
        assert!(names("window").is_empty());
        assert!(
            formats(&RowFilter::default()).iter().all(|f| f.name != "CSV" || f.out.as_ref().unwrap().must.is_none())
        );
    }
}
