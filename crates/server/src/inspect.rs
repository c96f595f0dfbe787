//! `kilndb inspect`: which structure the command line asks for, and its lines on standard output.
//!
//! Must not know: what the structures look like.

use crate::folder;
use kilndb_base::env::OsEnv;
use kilndb_base::{Lsn, RelationId, Result, RowId};
use kilndb_context::logged_changes;
use kilndb_storage::{Inspector, LogRange};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is to be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InspectedPart {
    Relations,
    Page { relation: u32, block: u32 },
    Log { from: Option<u64>, to: Option<u64> },
    Tree { relation: u32, keys: bool },
    Undo { relation: u32, block: u32, slot: u16 },
}

/// The words after `inspect`: what, the folder, and what the structure is found by.
pub fn parse(arguments: &[String]) -> Result<(PathBuf, InspectedPart), String> {
    let Some((what, rest)) = arguments.split_first() else {
        return Err("inspect needs to know what: relations, page, log, tree or undo".into());
    };
    let (mut data_dir, mut from, mut to, mut keys) = (None, None, None, false);
    let mut numbers = Vec::new();
    let mut rest = rest.iter();
    while let Some(word) = rest.next() {
        let mut value = || rest.next().ok_or_else(|| format!("option {word} needs a value"));
        match word.as_str() {
            "-D" => data_dir = Some(PathBuf::from(value()?)),
            "--from" if what == "log" => from = Some(parse_lsn(value()?)?),
            "--to" if what == "log" => to = Some(parse_lsn(value()?)?),
            "--keys" if what == "tree" => keys = true,
            option if option.starts_with('-') => return Err(format!("unknown option \"{option}\"")),
            number => numbers.push(number.parse::<u32>().map_err(|_| format!("invalid number \"{number}\""))?),
        }
    }
    let what = match (what.as_str(), numbers.as_slice()) {
        ("relations", []) => InspectedPart::Relations,
        ("page", [relation, block]) => InspectedPart::Page { relation: *relation, block: *block },
        ("page", _) => return Err("inspect page needs a relation and a block".into()),
        ("log", []) => InspectedPart::Log { from, to },
        ("tree", [relation]) => InspectedPart::Tree { relation: *relation, keys },
        ("tree", _) => return Err("inspect tree needs a relation".into()),
        ("undo", [relation, block, slot]) => {
            let slot = u16::try_from(*slot).map_err(|_| format!("invalid slot {slot}"))?;
            InspectedPart::Undo { relation: *relation, block: *block, slot }
        }
        ("undo", _) => return Err("inspect undo needs a relation, a block and a slot".into()),
        ("relations" | "log", _) => return Err(format!("inspect {what} needs no number")),
        _ => return Err(format!("inspect knows no \"{what}\", but relations, page, log, tree and undo")),
    };
    Ok((data_dir.ok_or("no data folder given (-D DIR)")?, what))
}
/// Reads an LSN as PostgreSQL writes one: two halves in hexadecimal digits.
fn parse_lsn(text: &str) -> Result<u64, String> {
    let invalid = || format!("invalid LSN \"{text}\"");
    let (high, low) = text.split_once('/').ok_or_else(invalid)?;
    let half = |digits: &str| u32::from_str_radix(digits, 16).map_err(|_| invalid());
    Ok(u64::from(half(high)?) << 32 | u64::from(half(low)?))
}

pub fn run(data_dir: &Path, what: &InspectedPart) -> Result<()> {
    folder::wait_for_end(data_dir);
    let inspector = Inspector::open(Arc::new(OsEnv), data_dir)?;
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let mut lines = |line: String| {
        if writeln!(out, "{line}").is_err() {
            // Whoever reads has seen enough, as `head` does.
            std::process::exit(0);
        }
    };
    match *what {
        InspectedPart::Relations => inspector.relations(&mut lines),
        InspectedPart::Page { relation, block } => inspector.page(RelationId(relation), block, &mut lines)?,
        InspectedPart::Log { from, to } => {
            let range = LogRange { from: from.map(Lsn), to: to.map(Lsn) };
            inspector.log(range, &logged_changes::in_words, &mut lines)?;
        }
        InspectedPart::Tree { relation, keys } => inspector.tree(RelationId(relation), keys, &mut lines)?,
        InspectedPart::Undo { relation, block, slot } => {
            inspector.undo(RelationId(relation), RowId { block, slot }, &mut lines)?;
        }
    }
    Ok(out.flush()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(line: &str) -> Result<(PathBuf, InspectedPart), String> {
        parse(&line.split_whitespace().map(str::to_string).collect::<Vec<_>>())
    }

    #[test]
    fn structures_are_named_with_what_they_are_found_by() {
        let whats = [
            ("relations -D d", InspectedPart::Relations),
            ("page -D d 12 3", InspectedPart::Page { relation: 12, block: 3 }),
            ("log -D d --from 1/2A", InspectedPart::Log { from: Some(0x1_0000_002a), to: None }),
            ("tree -D d 12 --keys", InspectedPart::Tree { relation: 12, keys: true }),
            ("undo 12 0 7 -D d", InspectedPart::Undo { relation: 12, block: 0, slot: 7 }),
        ];
        for (line, what) in whats {
            assert_eq!(parsed(line), Ok((PathBuf::from("d"), what)));
        }
    }

    #[test]
    fn what_is_not_understood_is_refused() {
        for line in ["", "page -D d 12", "tree -D d x", "log -D d --from 12", "undo -D d 1 2 70000", "page 1 2", "row"]
        {
            assert!(parsed(line).is_err(), "{line}");
        }
    }
}
