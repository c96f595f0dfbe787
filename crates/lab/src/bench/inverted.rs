//! A GIN index beside updates that do not touch it, and what it costs and finds (experiment 2).

use super::{Better, Figures, Options, connect, execute, median, pgbench};
use kilndb_lab::process::{Server, TempDir};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

const DOCUMENTS: u32 = 200_000;
/// Texts that new documents are made of.
const TEXTS: u32 = 20_000;
const LIMITS_KB: [u32; 3] = [64, 4096, 131_072];
const CLIENTS: [u32; 3] = [4, 16, 64];

const RANDOM_TEXT: &str = "CREATE OR REPLACE FUNCTION public.gen_rand_str(integer) RETURNS text LANGUAGE sql STRICT AS $function$ select string_agg(a[random()*6+1],'') from generate_series(1,$1), (select array['a','b','c','d','e','f',' ']) t(a); $function$";

const UPDATE_OTHER: &str = "\\set id random(1,{documents})\nupdate test set crt_time=now() where id=:id;\n";
const INSERT: &str =
    "\\set n random(1,{texts})\ninsert into test select 0, to_tsvector(t), now() from texts where n = :n;\n";
const UPDATE_INDEXED: &str = "\\set id random(1,{documents})\n\\set n random(1,{texts})\nupdate test set info = (select to_tsvector(t) from texts where n = :n) where id=:id;\n";

/// What is looked for; the words are ones that there are in many thousand random texts.
const SEARCHES: [(&str, &str); 4] = [
    ("one rare word", "select count(*) from test where info @@ to_tsquery('fbcad')"),
    ("two words ANDed", "select count(*) from test where info @@ to_tsquery('fb & dc')"),
    ("a phrase", "select count(*) from test where info @@ to_tsquery('fb <-> dc')"),
    ("a prefix", "select count(*) from test where info @@ to_tsquery('fbcad:*')"),
];

/// What a run was like, second by second.
struct Seconds {
    tps: f64,
    median: f64,
    worst: f64,
    worst_latency_ms: f64,
    empty: usize,
}

struct Bench<'a> {
    engine: &'static str,
    options: &'a Options,
    server: &'a Server,
    folder: TempDir,
    /// Transactions a second of updates: beside the GIN, without it, of all limits and numbers of clients.
    with: Vec<f64>,
    without: Vec<f64>,
    all: Vec<f64>,
    /// Seconds without a commit in all of them.
    empty: usize,
}

/// Both servers take turns, row by row: what is held against each other was measured within minutes of each other. The
/// other one stands still meanwhile, autovacuum and all.
pub(super) fn in_turns(
    options: &Options,
    figures: &mut Figures,
    servers: [(&'static str, &Server); 2],
) -> Result<(), String> {
    let mut benches = Vec::new();
    for (engine, server) in servers {
        let folder = TempDir::new("bench-inverted").map_err(|e| e.to_string())?;
        benches.push(Bench {
            engine,
            options,
            server,
            folder,
            with: Vec::new(),
            without: Vec::new(),
            all: Vec::new(),
            empty: 0,
        });
    }
    let mut each = |stage: &dyn Fn(&mut Bench<'_>, &mut Figures) -> Result<(), String>| {
        benches.iter_mut().try_for_each(|bench| {
            // What the other one has left in the system's cache is not written in this one's time.
            let _ = std::process::Command::new("sync").status();
            bench.server.go_on();
            let done = stage(bench, figures);
            bench.server.pause();
            done
        })
    };
    servers.iter().for_each(|(_, server)| server.pause());
    each(&|bench, figures| bench.documents(figures))?;
    each(&|bench, figures| bench.searches(figures, ""))?;
    each(&|bench, figures| bench.pending_searches(figures))?;
    for limit in LIMITS_KB {
        each(&|bench, _| bench.begin_updates(limit))?;
        for clients in CLIENTS {
            each(&|bench, figures| bench.updates(figures, limit, clients))?;
        }
    }
    each(&|bench, figures| bench.long_updates(figures))?;
    each(&|bench, _| bench.begin_without())?;
    for _ in 0..3 {
        each(&|bench, _| bench.with_and_without())?;
    }
    each(&|bench, figures| bench.end_updates(figures))?;
    each(&|bench, figures| bench.new_documents(figures))?;
    let done = each(&|bench, figures| bench.updates_of_indexed(figures));
    servers.iter().for_each(|(_, server)| server.go_on());
    done
}

impl Bench<'_> {
    fn put(&self, figures: &mut Figures, row: &str, better: Better, value: f64) {
        figures.put(self.engine, row, better, value);
    }
    fn documents(&self, figures: &mut Figures) -> Result<(), String> {
        let fill =
            format!("insert into documents select generate_series(1,{DOCUMENTS}), to_tsvector(gen_rand_str(512))");
        let texts = format!("insert into texts select n, gen_rand_str(512) from generate_series(1,{TEXTS}) n");
        let begin = [
            "create table documents (id int, info tsvector)",
            RANDOM_TEXT,
            "create table texts (n int primary key, t text)",
        ];
        execute(self.server, &begin)?;
        let mut admin = connect(self.server)?;
        // The same texts for everybody.
        super::execute_with(&mut admin, &["select setseed(0.25)", &fill, &texts])?;
        let seconds = self.fresh()?;
        self.put(figures, &format!("GIN index on {DOCUMENTS} documents, seconds"), Better::Less, seconds);
        let bytes = admin.integer("select pg_relation_size('idx_test_info')").map_err(|e| e.to_string())?;
        self.put(figures, "the same, size, MB", Better::Less, bytes as f64 / 1e6);
        Ok(())
    }
    /// The table as the experiment begins with it. What it took to build its GIN index, in seconds.
    fn fresh(&self) -> Result<f64, String> {
        let fill = "insert into test select id, info, now() from documents";
        execute(
            self.server,
            &[
                "drop table if exists test",
                "create table test(id int, info tsvector, crt_time timestamp)",
                fill,
                "vacuum analyze test",
            ],
        )?;
        let began = Instant::now();
        execute(self.server, &["create index idx_test_info on test using gin (info)"])?;
        let seconds = began.elapsed().as_secs_f64();
        execute(self.server, &["create index idx_test_id on test (id)", "vacuum analyze test", "checkpoint"])?;
        Ok(seconds)
    }
    fn searches(&self, figures: &mut Figures, beside: &str) -> Result<(), String> {
        for (name, sql) in SEARCHES {
            let mut admin = connect(self.server)?;
            let mut times = Vec::new();
            let rounds = 21;
            for _ in 0..rounds {
                let began = Instant::now();
                admin.integer(sql).map_err(|e| format!("{sql}: {e}"))?;
                times.push(began.elapsed().as_secs_f64() * 1000.0);
            }
            self.put(figures, &format!("search for {name}{beside}, ms"), Better::Less, median(times));
        }
        Ok(())
    }
    fn begin_updates(&self, limit_kb: u32) -> Result<(), String> {
        // PostgreSQL spares the index rows that have been updated before: then there is room for a new version beside
        // the old one.
        self.fresh()?;
        execute(self.server, &[&format!("alter index idx_test_info set (gin_pending_list_limit = {limit_kb})")])
    }
    fn updates(&mut self, figures: &mut Figures, limit_kb: u32, clients: u32) -> Result<(), String> {
        let run = self.run(UPDATE_OTHER, clients, self.options.duration_s, false)?;
        self.empty += run.empty;
        self.all.push(run.tps);
        self.put(
            figures,
            &format!("update of the other column, limit {limit_kb} kB, {clients} clients, tps"),
            Better::More,
            run.tps,
        );
        Ok(())
    }
    fn long_updates(&mut self, figures: &mut Figures) -> Result<(), String> {
        let mean = self.all.iter().sum::<f64>() / self.all.len() as f64;
        self.put(
            figures,
            "update of the other column, mean of all limits and numbers of clients, tps",
            Better::More,
            mean,
        );
        let run = self.run(UPDATE_OTHER, 64, self.smooth_seconds(), true)?;
        self.empty += run.empty;
        let of_it = format!("update of the other column, 64 clients, {} s with a checkpoint", self.smooth_seconds());
        self.put(
            figures,
            &format!("{of_it}: worst second, % of the median"),
            Better::More,
            100.0 * run.worst / run.median,
        );
        self.put(figures, &format!("{of_it}: worst latency, ms"), Better::Less, run.worst_latency_ms);
        Ok(())
    }
    /// The same table without the index.
    fn begin_without(&self) -> Result<(), String> {
        execute(
            self.server,
            &[
                "create table without as select * from test",
                "create index on without (id)",
                "vacuum analyze without",
                "checkpoint",
            ],
        )
    }
    fn with_and_without(&mut self) -> Result<(), String> {
        let with = self.run(UPDATE_OTHER, 64, self.options.duration_s, false)?;
        let without = self.run(&UPDATE_OTHER.replace("test", "without"), 64, self.options.duration_s, false)?;
        self.with.push(with.tps);
        self.without.push(without.tps);
        Ok(())
    }
    fn end_updates(&mut self, figures: &mut Figures) -> Result<(), String> {
        let (with, without) = (median(std::mem::take(&mut self.with)), median(std::mem::take(&mut self.without)));
        self.put(figures, "update of the other column, 64 clients, tps", Better::More, with);
        self.put(figures, "the same without a GIN index, tps", Better::More, without);
        self.put(
            figures,
            "updates beside a GIN index, all runs: seconds without a commit",
            Better::Less,
            self.empty as f64,
        );
        execute(self.server, &["drop table without"])
    }
    fn new_documents(&self, figures: &mut Figures) -> Result<(), String> {
        let seconds = self.smooth_seconds();
        execute(self.server, &["alter index idx_test_info reset (gin_pending_list_limit)"])?;
        let run = self.run(INSERT, 16, seconds, false)?;
        self.put(
            figures,
            &format!("new documents, 16 clients, {seconds} s: median second, rows"),
            Better::More,
            run.median,
        );
        self.put(figures, "the same: worst second, % of the median", Better::More, 100.0 * run.worst / run.median);
        self.put(figures, "the same: seconds without a commit", Better::Less, run.empty as f64);
        Ok(())
    }
    /// For as long: PostgreSQL takes what is pending to its place in one go now and then, and a short run meets that or
    /// does not.
    fn updates_of_indexed(&self, figures: &mut Figures) -> Result<(), String> {
        let seconds = self.smooth_seconds();
        // Whoever put in more new documents would have the larger index here.
        self.fresh()?;
        let run = self.run(UPDATE_INDEXED, 16, seconds, false)?;
        self.put(
            figures,
            &format!("update of the indexed column, 16 clients, {seconds} s, tps"),
            Better::More,
            run.tps,
        );
        Ok(())
    }
    /// While there are equally many documents everywhere.
    fn pending_searches(&self, figures: &mut Figures) -> Result<(), String> {
        // As much as there is room for is pending, where there is a limit.
        let fill = format!("insert into test select 0, to_tsvector(t), now() from texts where n <= {}", TEXTS / 2);
        execute(self.server, &["alter index idx_test_info set (gin_pending_list_limit = 131072)", &fill])?;
        self.searches(figures, ", much of it pending")?;
        execute(
            self.server,
            &[
                "select gin_clean_pending_list('idx_test_info')",
                "alter index idx_test_info reset (gin_pending_list_limit)",
            ],
        )
    }
    /// Long enough for what happens now and then.
    fn smooth_seconds(&self) -> u32 {
        if self.options.duration_s >= 10 { 60 } else { 3 * self.options.duration_s }
    }
    fn run(&self, script: &str, clients: u32, seconds: u32, checkpoint: bool) -> Result<Seconds, String> {
        let text = script.replace("{documents}", &DOCUMENTS.to_string()).replace("{texts}", &TEXTS.to_string());
        let file = self.folder.path().join("script.sql");
        std::fs::write(&file, text).map_err(|e| e.to_string())?;
        let logs = TempDir::new("bench-inverted-log").map_err(|e| e.to_string())?;
        let prefix = logs.path().join("log");
        let options = Options { duration_s: seconds, ..self.options.clone() };
        let (file, prefix) = (file.to_string_lossy(), prefix.to_string_lossy());
        let arguments = ["-M", "prepared", "-f", &file, "-l", "--aggregate-interval=1", "--log-prefix", &prefix];
        let run = std::thread::scope(|scope| {
            let running = scope.spawn(|| pgbench(self.server.address(), &options, clients, &arguments));
            if checkpoint {
                std::thread::sleep(Duration::from_secs(u64::from(seconds) / 2));
                execute(self.server, &["checkpoint"])?;
            }
            running.join().map_err(|_| "pgbench was not waited for".to_string())?
        })?;
        Ok(Seconds { tps: run.tps, ..by_second(&logs)? })
    }
}

/// From the logs of all threads: second, transactions, sum and sum of squares of latencies, least and greatest latency
/// in µs.
fn by_second(logs: &TempDir) -> Result<Seconds, String> {
    let mut counts: BTreeMap<u64, u64> = BTreeMap::new();
    let mut worst_us = 0u64;
    for file in std::fs::read_dir(logs.path()).map_err(|e| e.to_string())?.flatten() {
        let text = std::fs::read_to_string(file.path()).map_err(|e| e.to_string())?;
        for line in text.lines() {
            let fields: Vec<u64> = line.split(' ').map_while(|f| f.parse().ok()).collect();
            if let [second, count, _, _, _, greatest, ..] = fields[..] {
                *counts.entry(second).or_default() += count;
                worst_us = worst_us.max(greatest);
            }
        }
    }
    // The first and the last are parts of seconds; in a very short run they are all there is.
    let (first, last) = match (counts.keys().next(), counts.keys().next_back()) {
        (Some(first), Some(last)) if last - first >= 2 => (first + 1, last - 1),
        (Some(first), Some(last)) => (*first, *last),
        _ => return Err("pgbench has logged nothing".into()),
    };
    let seconds: Vec<f64> = (first..=last).map(|s| counts.get(&s).copied().unwrap_or(0) as f64).collect();
    Ok(Seconds {
        tps: 0.0,
        worst: seconds.iter().copied().fold(f64::INFINITY, f64::min),
        empty: seconds.iter().filter(|s| **s == 0.0).count(),
        median: median(seconds),
        worst_latency_ms: worst_us as f64 / 1000.0,
    })
}
