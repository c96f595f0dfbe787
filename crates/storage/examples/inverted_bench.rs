//! What writing and merging rows of an inverted index costs, new ones and others whose terms change:
//! `cargo run --release -p kilndb-storage --example inverted_bench -- [rows] [rows between merges] [updates]`.
use kilndb_base::env::OsEnv;
use kilndb_base::park::ThreadPark;
use kilndb_storage::*;
use std::sync::Arc;
use std::time::Instant;

/// As the words of random text over six letters and blanks: lengths fall off slowly, so most words are rare.
fn terms(random: &mut u64) -> Vec<Vec<u8>> {
    let mut next = |n: u64| {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % n
    };
    let mut terms: Vec<Vec<u8>> = Vec::new();
    let mut word = vec![1, 0];
    for _ in 0..512 {
        match next(12) {
            11 => {
                if word.len() > 2 {
                    terms.push(word);
                }
                word = vec![1, 0];
            }
            letter => word.push(b'a' + (letter / 2) as u8),
        }
    }
    terms.sort();
    terms.dedup();
    terms
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|a| a.parse::<u64>().expect("a number"));
    let (rows, between, updates) =
        (arguments.next().unwrap_or(100_000), arguments.next().unwrap_or(6_000), arguments.next().unwrap_or(0));
    let dir = std::env::temp_dir().join(format!("kilndb-inverted-bench-{}", std::process::id()));
    let config = EngineConfig {
        data_dir: dir.clone(),
        shared_buffers_bytes: 1 << 30,
        huge_pages: true,
        wal_buffers_bytes: 16 << 20,
        max_wal_size_bytes: 4 << 30,
        checkpoint_timeout_s: 300,
        checkpoint_completion_target: 0.9,
        wal_writer_delay_ms: 200,
        startup_progress_interval_ms: 0,
        limits: Default::default(),
        fsync: false,
        accept_lost_log: false,
        workers: 1,
        log: Arc::new(|_, _| {}),
    };
    let e = Engine::open(Arc::new(OsEnv), config).expect("an engine");
    let park = ThreadPark::new();
    let mut t = e.begin(Isolation::ReadCommitted, 0);
    let heap = e.create_relation(&mut t, RelationKind::Heap, Persistence::Logged).expect("a heap");
    let index = e.create_relation(&mut t, RelationKind::Inverted, Persistence::Logged).expect("an index");
    index.set_heap(heap.id());
    t.commit(CommitMode::Async, &park).expect("a commit");
    let mut random = 1;
    let (mut writing, mut merging, mut postings) = (0.0, 0.0, 0);
    let mut rids = Vec::new();
    let report = |what: &str, rows: u64, writing: &mut f64, merging: &mut f64, postings: &mut usize| {
        let of_row = |seconds: &mut f64| std::mem::take(seconds) * 1e6 / rows as f64;
        let terms = std::mem::take(postings) as f64 / rows as f64;
        println!(
            "{rows} {what}, {terms:.0} terms each: writing {:.1} µs a row, merging {:.1} µs a row, {:.0} MB",
            of_row(writing),
            of_row(merging),
            f64::from(index.pages()) * 8192.0 / 1e6
        );
    };
    for row in 0..rows + updates {
        if row == rows {
            report("rows", rows, &mut writing, &mut merging, &mut postings);
        }
        let terms = terms(&mut random);
        postings += terms.len();
        let began = Instant::now();
        let mut t = e.begin(Isolation::ReadCommitted, 0);
        if row < rows {
            let rid = heap.insert(&mut t, &[7; 500]).expect("a row");
            index.change_terms(&mut t, rid, TermChange::Inserted(&terms)).expect("its terms");
            rids.push(rid);
        } else {
            let rid = rids[(random >> 33) as usize % rids.len()];
            index.change_terms(&mut t, rid, TermChange::Updated(&terms)).expect("its terms");
        }
        t.commit(CommitMode::Async, &park).expect("a commit");
        writing += began.elapsed().as_secs_f64();
        if row % between == between - 1 {
            let began = Instant::now();
            index.index_flush(&park).expect("a merge");
            merging += began.elapsed().as_secs_f64();
        }
    }
    if updates > 0 {
        report("updates", updates, &mut writing, &mut merging, &mut postings);
    } else {
        report("rows", rows, &mut writing, &mut merging, &mut postings);
    }
    drop((heap, index));
    drop(e);
    let _ = std::fs::remove_dir_all(dir);
}
