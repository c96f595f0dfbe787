//! Words for parts of structures.
//!
//! Must not know: files, the command line.

use crate::heap::page as hp;
use crate::page::PAGE;
use crate::undo::record::{CHUNK, UndoKind, UndoRecord};
use kilndb_base::RowId;

/// The name of a variant: `IndexInsert` as "index insert".
pub fn in_words(variant: &impl std::fmt::Debug) -> String {
    let mut words = String::new();
    for c in format!("{variant:?}").chars() {
        if c.is_uppercase() && !words.is_empty() {
            words.push(' ');
        }
        words.extend(c.to_lowercase());
    }
    words
}
/// The first bytes, as many as one line has room for.
pub fn hex(bytes: &[u8]) -> String {
    const MOST: usize = 64;
    let mut shown: String = bytes.iter().take(MOST).map(|b| format!("{b:02x}")).collect();
    if bytes.len() > MOST {
        shown += &format!("… ({} bytes)", bytes.len());
    }
    if shown.is_empty() { "(empty)".into() } else { shown }
}
pub fn row(rid: u64) -> String {
    let RowId { block, slot } = RowId::from_u64(rid);
    format!("({block},{slot})")
}
pub(crate) fn undo_place(address: u64) -> String {
    if address == 0 {
        return "no undo".into();
    }
    let (chunk, rest) = (address / CHUNK, address % CHUNK);
    format!("undo {address:#x} (chunk {chunk}, page {}, offset {})", rest / PAGE as u64, rest % PAGE as u64)
}
/// A version word in words.
pub fn version(word: u64) -> String {
    if word & hp::PIECE != 0 {
        return format!("piece of row {}", row(word & 0xffff_ffff_ffff));
    }
    let mut shown = match word & hp::ADDRESS {
        0 => "version of old, visible to all".to_string(),
        address => format!("version with {}", undo_place(address)),
    };
    let flags = [(hp::DELETED, "deleted"), (hp::KEY_CHANGED, "key changed"), (hp::FORWARD, "in pieces")];
    for (_, name) in flags.iter().filter(|(flag, _)| word & flag != 0) {
        shown += &format!(", {name}");
    }
    shown
}
/// An undo record in words.
pub fn record(u: &UndoRecord) -> String {
    let rid = RowId { block: u.block, slot: u.slot };
    let mut shown = format!(
        "{} by transaction {}, command {}, relation {}, row {}",
        in_words(&u.kind),
        u.xid,
        u.command,
        u.rel,
        row(rid.to_u64())
    );
    match (u.kind, u.patch()) {
        (UndoKind::Update, Ok((off, cut, old))) => {
            shown += &format!("; before, bytes {off} to {} were {}", off + cut, hex(old));
        }
        _ if !u.data.is_empty() => shown += &format!("; data {}", hex(&u.data)),
        _ => {}
    }
    if u.old_word != 0 {
        shown += &format!("; replaced {}", version(u.old_word));
    }
    shown + &format!("; the transaction's record before it: {}", undo_place(u.prev))
}
