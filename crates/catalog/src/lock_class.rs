//! What the first word of a lock in storage's table says: the class of what is locked.

use kilndb_storage::LockTag;

/// Class of table locks in storage's lock table.
pub const RELATION_LOCK: u32 = LockTag::MOSTLY_SHARED;
/// Advisory locks with one key, and with two.
pub const ADVISORY_LOCK: u32 = 2;
pub const ADVISORY_PAIR_LOCK: u32 = 3;
