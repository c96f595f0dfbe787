//! The fuzz target of fuzz/targets/log_records.rs over changed records and random bytes, repeatable.

#[path = "../../../../fuzz/generate.rs"]
#[allow(dead_code)]
mod generate;

use super::record::{PageOp, PageTarget, Record, encode, encode_change, encode_compensate};
use crate::btree::node;
use crate::entry_changes::EntryChange;
use crate::fuzz_log_records::run;
use crate::undo::entries::{LeafChange, put_change};
use crate::undo::many::{RowSpan, put_shape};
use crate::undo::record::{KINDS, UndoKind, UndoRecord};
use generate::Generator;

/// Of operations on several rows: slots 70, 71, 75.
const FIRST: usize = 70;
const SLOTS: [u8; 3] = [75, 0, 0b10_0011];
/// One span for each row; and the same for all.
static SHAPES: kilndb_base::sync::LazyLock<[Vec<u8>; 2]> = kilndb_base::sync::LazyLock::new(|| {
    let span = |off, old, new| RowSpan { off, old, new };
    let mut both = [Vec::new(), Vec::new()];
    for (shape, spans) in both.iter_mut().zip([[span(1, 1, 2); 3], [span(0, 2, 3), span(1, 4, 0), span(2, 0, 5)]]) {
        put_shape(shape, &[(70, spans[0]), (71, spans[1]), (75, spans[2])]);
    }
    both
});

/// A retired entry without a stamp, a new one, and one with a stamp.
static ENTRIES: kilndb_base::sync::LazyLock<Vec<u8>> = kilndb_base::sync::LazyLock::new(|| {
    let mut changes = Vec::new();
    for (what, replaced) in [(EntryChange::Retire, 0), (EntryChange::Insert, 0), (EntryChange::Retire, 1 << 56 | 77)] {
        put_change(&mut changes, &LeafChange { what, idx: 1, rid: 0x10_0002, replaced, key: b"key" });
    }
    changes
});

/// One of every operation.
fn operations<'a>(random: &mut Generator, bytes: &'a [u8], entry: &'a [u8]) -> Vec<PageOp<'a>> {
    let word = random.next() & 0x0f00_ffff_ffff_ffff;
    let (slot, off) = (random.below(400), random.below(6000));
    let patch = |cut: usize, new| PageOp::Patch { slot, word, off, cut, old: &[], new };
    vec![
        PageOp::Init { kind: random.byte(), level: 1 },
        PageOp::Put { slot, word, body: bytes },
        PageOp::PutMany { first: slot, word: 0, rows: bytes },
        patch(bytes.len(), bytes),
        patch(bytes.len() + 1, bytes),
        PageOp::Word { slot, word },
        PageOp::Free { slot },
        PageOp::FreeRange { first: slot, last: slot + 3, word },
        PageOp::TreeInsert { idx: slot, entry },
        PageOp::TreeRemove { idx: slot },
        PageOp::TreeReplace { idx: slot, entry },
        PageOp::TreeExtend { idx: slot, tail: bytes },
        PageOp::TreeImage { level: 1, image: bytes },
        PageOp::TreeCut { idx: slot, right: random.next() as u32, high: bytes },
        PageOp::TreeAppend { right: random.next() as u32, high: entry, entries: bytes },
        PageOp::TreeDropFront { count: slot, low: entry },
        PageOp::Cell { bytes },
        PageOp::TreeChangeMany { stamp: word, changes: &ENTRIES },
        PageOp::PatchMany { first: FIRST, shape: &SHAPES[0], word, old: &[], new: &[5; 6] },
        PageOp::PatchMany { first: FIRST, shape: &SHAPES[1], word, old: &[], new: &[5; 8] },
        PageOp::WordMany { first: FIRST, slots: &SLOTS, word },
    ]
}

fn change(random: &mut Generator, kind: UndoKind) -> Vec<u8> {
    let bytes = random.bytes(30);
    let entry = node::build(&random.bytes(20), random.next() & 0xffff_ffff_ffff, None, 0);
    let address = random.next() >> 8 | 1;
    let target = PageTarget { rel: random.next() as u32, block: random.byte().into() };
    let (slot, word) = (random.below(400), address | 1 << 56);
    let first = match kind {
        UndoKind::Insert | UndoKind::PieceInsert => PageOp::Put { slot, word, body: &bytes },
        UndoKind::Update => PageOp::Patch { slot, word, off: 3, cut: bytes.len(), old: &bytes, new: &entry },
        UndoKind::UpdateMany if slot % 2 == 0 => {
            PageOp::PatchMany { first: FIRST, shape: &SHAPES[0], word, old: &[4; 3], new: &[5; 6] }
        }
        UndoKind::UpdateMany => PageOp::PatchMany { first: FIRST, shape: &SHAPES[1], word, old: &[4; 6], new: &[5; 8] },
        UndoKind::DeleteMany => PageOp::WordMany { first: FIRST, slots: &SLOTS, word },
        UndoKind::IndexChangeMany => PageOp::TreeChangeMany { stamp: word, changes: &ENTRIES },
        UndoKind::Delete | UndoKind::Lock => PageOp::Word { slot, word },
        _ => PageOp::TreeInsert { idx: slot, entry: &entry },
    };
    let undo = UndoRecord {
        kind,
        mode: random.byte() & 3,
        command: random.next() as u32,
        xid: random.next(),
        prev: address - 1,
        old_word: random.next() & 0x0f00_ffff_ffff_ffff,
        rel: 9,
        block: 10,
        slot: 11,
        data: random.bytes(20),
    };
    let mut out = Vec::new();
    encode_change(
        &mut out,
        undo.xid,
        Some((address, &undo)),
        &[(target, first), (target, PageOp::TreeRemove { idx: slot })],
    );
    out
}

/// One of every kind of record.
fn records(random: &mut Generator) -> Vec<Vec<u8>> {
    let bytes = random.bytes(30);
    let entry = node::build(&random.bytes(20), random.next() & 0xffff_ffff_ffff, Some(7), 8);
    let target = PageTarget { rel: random.next() as u32, block: random.byte().into() };
    let ops: Vec<_> = operations(random, &bytes, &entry).into_iter().map(|op| (target, op)).collect();
    let (xid, rel, number) = (random.next(), random.next() as u32, random.next());
    let mut all = vec![
        encode(&Record::Commit { xid, purge: true, drops: vec![rel, 0, 7], catalog_changes: &[] }),
        encode(&Record::Commit { xid, purge: false, drops: Vec::new(), catalog_changes: &[] }),
        encode(&Record::Commit { xid, purge: true, drops: vec![rel, 0], catalog_changes: &bytes }),
        encode(&Record::Abort { xid }),
        encode(&Record::PurgeDone { xid }),
        encode(&Record::Create { xid, rel, kind: 1, persistence: 2 }),
        encode(&Record::Extent { rel, index: 3, start: 4 }),
        encode(&Record::Drop { rel }),
        encode(&Record::Chunk { number, page: rel }),
        encode(&Record::ChunkGone { number }),
        encode(&Record::Belongs { rel, heap: 9, has_all_rows: number % 2 == 1 }),
        encode(&Record::Link { to: number }),
        encode(&Record::Durable { to: number }),
        encode(&Record::Initial { rel, bytes: b"seventeen bytes.." }),
    ];
    let mut out = Vec::new();
    for op in ops.chunks(1).chain([&ops[..]]) {
        encode_change(&mut out, xid, None, op);
        all.push(out.clone());
        encode_compensate(&mut out, xid, number, op);
        all.push(out.clone());
    }
    all.extend(KINDS.iter().map(|kind| change(random, *kind)));
    all
}

#[test]
fn records_come_back() {
    let mut random = Generator(1);
    for _ in 0..20 {
        for record in records(&mut random) {
            assert!(super::record::decode(&record).is_ok(), "{record:?}");
            run(&record);
        }
    }
}

#[test]
fn changed_records_are_refused_or_come_back() {
    let mut random = Generator(2);
    for _ in 0..100 {
        let all = records(&mut random);
        let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        for record in &all {
            let mut data = record.clone();
            random.mutate(&mut data, &parts);
            run(&data);
        }
    }
}

#[test]
fn random_bytes_are_refused_or_come_back() {
    let mut random = Generator(3);
    for _ in 0..5_000 {
        let mut data = random.bytes(60);
        if let Some(first) = data.first_mut() {
            *first = (*first % 13) | *first & 0xf0;
        }
        run(&data);
    }
}
