//! The views of progress, seen by another session while the work is going on.

use kilndb_lab::client::Client;
use kilndb_lab::guard::SetAtEnd;
use kilndb_lab::process::{self, Server, TempDir};
use std::sync::atomic::{AtomicBool, Ordering};

const ROWS: i64 = 1_000_000;

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}

/// What the one row of `question` (integers) said again and again while `work` ran. Nothing may be left afterwards.
fn watch(server: &Server, work: &str, question: &str) -> Vec<Vec<i64>> {
    let is_done = AtomicBool::new(false);
    let mut observer = connect(server);
    let mut ask = || -> Vec<Vec<i64>> {
        let answers = observer.query(question).unwrap_or_else(|e| panic!("{question}: {e:?}"));
        let rows = answers.into_iter().flat_map(|a| a.rows);
        rows.map(|row| row.into_iter().map(|v| v.and_then(|v| v.parse().ok()).unwrap_or(-1)).collect()).collect()
    };
    let seen = std::thread::scope(|scope| {
        let worker = scope.spawn(|| {
            let _guard = SetAtEnd(&is_done);
            connect(server).query(work).map(|_| ())
        });
        let mut seen = Vec::new();
        while !is_done.load(Ordering::SeqCst) {
            seen.append(&mut ask());
        }
        worker.join().expect("a client panicked").unwrap_or_else(|e| panic!("{work}: {e:?}"));
        seen
    });
    assert!(ask().is_empty(), "{work}: it is over");
    seen
}

/// Some of the way was seen: `column` grows, and never beyond `total`.
fn is_progress(seen: &[Vec<i64>], column: usize, total: i64) {
    let figures: Vec<i64> = seen.iter().map(|row| row[column]).collect();
    assert!(figures.is_sorted(), "{figures:?}");
    assert!(figures.iter().all(|n| *n <= total), "more than {total}: {figures:?}");
    assert!(figures.iter().any(|n| *n > 0 && *n < total), "nothing between 0 and {total}: {figures:?}");
}

#[test]
fn long_work_tells_how_far_it_is() {
    let folder = TempDir::new("progress").expect("a temporary folder");
    let server = process::start_kilndb(&folder.path().join("data"), process::free_port().expect("a free port"), &[])
        .expect("the server starts");
    let mut client = connect(&server);
    let file = folder.path().join("rows").display().to_string();
    for sql in [
        "create table watched (a int, b text)".into(),
        format!("insert into watched select i, 'row ' || i from generate_series(1, {ROWS}) i"),
    ] {
        client.query(&sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }

    let copy = "select tuples_processed, bytes_processed, bytes_total from pg_stat_progress_copy where relid = 'watched'::regclass";
    let seen = watch(
        &server,
        &format!("copy watched to '{file}'"),
        &format!("{copy} and command = 'COPY TO' and type = 'FILE'"),
    );
    is_progress(&seen, 0, ROWS);
    let bytes = std::fs::metadata(&file).expect("the file is there").len() as i64;
    is_progress(&seen, 1, bytes);

    client.query("truncate watched").expect("an empty table");
    let seen = watch(
        &server,
        &format!("copy watched from '{file}'"),
        &format!("{copy} and command = 'COPY FROM' and type = 'FILE'"),
    );
    is_progress(&seen, 0, ROWS);
    is_progress(&seen, 1, bytes);
    assert!(seen.iter().all(|row| row[2] == bytes), "bytes_total is the file's size");

    let index = "select blocks_done, blocks_total, tuples_done, tuples_total from pg_stat_progress_create_index \
                 where relid = 'watched'::regclass and command = 'CREATE INDEX'";
    let seen = watch(&server, "create index on watched (b)", index);
    let blocks =
        client.integer("select pg_relation_size('watched') / current_setting('block_size')::int").expect("a size");
    is_progress(&seen, 0, blocks);
    is_progress(&seen, 2, ROWS);

    let seen = watch(
        &server,
        "alter table watched alter a type bigint",
        "select heap_tuples_scanned, heap_tuples_written from pg_stat_progress_cluster \
         where relid = 'watched'::regclass and command = 'ALTER TABLE' and phase = 'seq scanning heap'",
    );
    is_progress(&seen, 0, ROWS);
    let blocks =
        client.integer("select pg_relation_size('watched') / current_setting('block_size')::int").expect("a size");

    let seen = watch(
        &server,
        "analyze watched",
        "select sample_blks_scanned, sample_blks_total from pg_stat_progress_analyze where relid = 'watched'::regclass",
    );
    is_progress(&seen, 0, blocks);
    assert!(server.stop().expect("a clean stop").success());
}
