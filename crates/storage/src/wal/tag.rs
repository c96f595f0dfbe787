//! The bytes that say what a log record is, and what an operation in it is: one table for each, which both writing and
//! reading use. docs/format.md has the same tables; a test holds them together.
//!
//! Must not know: what follows the byte.

/// Makes an enum of tags: the bytes on disk, the names that docs/format.md gives them, and the way back from a byte.
macro_rules! tags {
    ($(#[$about:meta])* $name:ident { $($(#[$doc:meta])* $tag:ident = $byte:literal $words:literal,)* }) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[repr(u8)]
        pub enum $name {
            $($(#[$doc])* $tag = $byte,)*
        }
        impl $name {
            /// All tags, in the order of their bytes.
            #[cfg(test)]
            pub const ALL: &[$name] = &[$($name::$tag,)*];
            pub const fn byte(self) -> u8 {
                self as u8
            }
            /// The tag of a byte; None: no such tag is known.
            #[inline]
            pub(crate) const fn of_byte(byte: u8) -> Option<$name> {
                match byte {
                    $($byte => Some($name::$tag),)*
                    _ => None,
                }
            }
            /// The name that docs/format.md has for it.
            pub const fn words(self) -> &'static str {
                match self {
                    $($name::$tag => $words,)*
                }
            }
        }
    };
}

tags! {
    /// What a record is: the low four bits of its first byte. What bits 4 to 7 mean depends on the kind; the last kinds
    /// have bit 4 set as part of what they are ([`RecordKind::of_head`]).
    RecordKind {
        Change = 0x01 "change",
        /// Bits 4 to 7 of the first byte: the undo record's kind; 0: it is in a byte that follows.
        ChangeWithUndo = 0x02 "change with undo",
        Compensation = 0x03 "compensation",
        /// Bit 4: a purge is due. Bit 5: what the transaction has changed in the catalogs follows.
        Commit = 0x04 "commit",
        Abort = 0x05 "abort",
        PurgeDone = 0x06 "purge done",
        Create = 0x07 "create",
        Extent = 0x08 "extent",
        Drop = 0x09 "drop",
        Chunk = 0x0a "undo chunk",
        ChunkGone = 0x0b "undo chunk gone, or used without being logged",
        /// Bit 4: each row of the heap has one entry.
        Belongs = 0x0c "belongs",
        Link = 0x0d "link",
        Initial = 0x0e "initial",
        Durable = 0x0f "durable",
        Truncate = 0x18 "truncate",
        Doom = 0x19 "doom",
    }
}
const _: () = assert!(RecordKind::FLAG == 1 << 4 && RecordKind::SECOND_FLAG == 1 << 5);
const _: () = assert!(RecordKind::Doom.byte() == RecordKind::Drop.byte() | RecordKind::FLAG);
const _: () = assert!(RecordKind::Truncate.byte() == RecordKind::Extent.byte() | RecordKind::FLAG);

impl RecordKind {
    /// Bit 4 of a first byte.
    pub const FLAG: u8 = 0x10;
    /// Bit 5 of a first byte.
    pub(crate) const SECOND_FLAG: u8 = 0x20;

    /// The kind by a record's first byte; None: no such kind is known.
    #[inline]
    pub(crate) const fn of_head(head: u8) -> Option<RecordKind> {
        match RecordKind::of_byte(head & 0x0f) {
            Some(RecordKind::Drop) if head & RecordKind::FLAG != 0 => Some(RecordKind::Doom),
            Some(RecordKind::Extent) if head & RecordKind::FLAG != 0 => Some(RecordKind::Truncate),
            kind => kind,
        }
    }
}

tags! {
    /// What an operation on a page is: the byte behind its relation and block.
    OpTag {
        Init = 1 "init",
        Put = 2 "put item",
        PutMany = 3 "put many",
        Patch = 4 "patch",
        Word = 5 "word",
        Free = 6 "free slot",
        FreeRange = 7 "free range",
        TreeInsert = 8 "tree insert",
        TreeRemove = 9 "tree remove",
        TreeReplace = 10 "tree replace",
        TreeImage = 11 "tree image",
        TreeCut = 12 "tree cut",
        Cell = 13 "cell",
        PatchMany = 14 "patch many",
        WordMany = 15 "word many",
        TreeExtend = 16 "tree extend",
        TreeAppend = 17 "tree append",
        TreeDropFront = 18 "tree drop front",
        TreeChangeMany = 19 "tree change many",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first cells of the rows of the table in docs/format.md that has this head line.
    fn rows_of_table(head: &str) -> Vec<String> {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/format.md");
        let text = std::fs::read_to_string(path).unwrap();
        let rows = text.lines().skip_while(|line| *line != head).skip(2);
        let rows = rows.take_while(|line| line.starts_with('|'));
        rows.map(|line| line.split('|').nth(1).unwrap_or_default().trim().to_string()).collect()
    }

    #[test]
    fn the_format_lists_all_kinds_of_records() {
        let expected: Vec<String> = RecordKind::ALL
            .iter()
            .map(|kind| {
                assert_eq!(RecordKind::of_head(kind.byte()), Some(*kind));
                let flag = if kind.byte() & RecordKind::FLAG == 0 { "" } else { ", bit 4 set:" };
                format!("{}{flag} {}", kind.byte() & 0x0f, kind.words())
            })
            .collect();
        let mut listed = rows_of_table("| kind | body |");
        // What other bits mean stands behind the name.
        listed.iter_mut().for_each(|row| row.truncate(row.find(" (").unwrap_or(row.len())));
        let mut sorted = expected.clone();
        sorted.sort();
        listed.sort();
        assert_eq!(listed, sorted);
    }

    #[test]
    fn the_format_lists_all_operations() {
        let expected: Vec<String> = OpTag::ALL.iter().map(|tag| format!("{} {}", tag.byte(), tag.words())).collect();
        assert_eq!(rows_of_table("| tag | operation |"), expected);
        assert!(OpTag::ALL.iter().all(|tag| OpTag::of_byte(tag.byte()) == Some(*tag)));
    }

    #[test]
    fn bits_beside_the_kind_do_not_change_it() {
        for kind in RecordKind::ALL {
            for high in 0..16u8 {
                let with = RecordKind::of_head(kind.byte() & 0x0f | high << 4);
                let may_differ =
                    matches!(kind, RecordKind::Drop | RecordKind::Doom | RecordKind::Extent | RecordKind::Truncate);
                assert!(with == Some(*kind) || may_differ, "{kind:?} with {high:x}");
            }
        }
        assert_eq!(RecordKind::of_head(0), None);
    }
}
