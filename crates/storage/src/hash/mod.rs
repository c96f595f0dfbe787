//! Hash indexes: a B-link tree whose keys are the hash codes of rows' keys (docs/decisions/0043).
//!
//! Invariants
//! 1. An entry's key is the code of its row's key, [`code::CODE_BYTES`] long. Equal keys have equal codes for ever: codes
//!    are on disk.
//! 2. Different keys may have one code, so a row that is found is compared with what was sought.
//! 3. Everything that storage does with an index's keys, it does with codes: entries, undo records, locks of
//!    serializable transactions.
//!
//! Must not know: what keys mean, how the tree works.

pub(crate) mod code;
pub mod method;
