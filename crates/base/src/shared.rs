//! Long texts and bytes to share: `Arc::from` copies at once, which for a gigabyte takes longer than others may wait.
//!
//! Invariant: what is handed out has been written in full.
//!
//! Must not know: what the bytes mean.

use crate::Result;
use crate::work::{PIECE_BYTES, step};
use std::sync::Arc;

/// A copy of the bytes that is made piece by piece. Fails if the statement is cancelled meanwhile.
pub fn bytes(bytes: &[u8]) -> Result<Arc<[u8]>> {
    if bytes.len() <= PIECE_BYTES {
        return Ok(Arc::from(bytes));
    }
    let mut shared = Arc::<[u8]>::new_uninit_slice(bytes.len());
    let room = Arc::get_mut(&mut shared).unwrap_or(&mut []);
    assert_eq!(room.len(), bytes.len(), "a new value is nobody else's");
    for (room, piece) in room.chunks_mut(PIECE_BYTES).zip(bytes.chunks(PIECE_BYTES)) {
        step(piece.len())?;
        room.write_copy_of_slice(piece);
    }
    // SAFETY: room and bytes are equally long, and so are their pieces, all of which have been written.
    Ok(unsafe { shared.assume_init() })
}

/// Copies a text in pieces.
pub fn text(text: &str) -> Result<Arc<str>> {
    let shared = bytes(text.as_bytes())?;
    // SAFETY: the bytes are a text's, and `str` has the layout of `[u8]`.
    Ok(unsafe { Arc::from_raw(Arc::into_raw(shared) as *const str) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_what_they_were_made_of() {
        for len in [0, 1, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let source: String = ('a'..='z').cycle().take(len).collect();
            let (copy, other) = (text(&source).unwrap(), bytes(source.as_bytes()).unwrap());
            assert_eq!(*copy, *source);
            assert_eq!(*other, *source.as_bytes());
            assert_eq!(*copy.clone(), *copy);
        }
    }
}
