//! `kilndb-simulation`: runs seeds, each in a process of its own, and tells which of them failed. docs/simulation.md.

use kilndb_base::planted::{self, BUGS, PlantedBug};
use kilndb_base::sync::Arc;
use kilndb_base::sync::scheduler::Scheduler;
use kilndb_simulation::parts;
use kilndb_simulation::run::{RunOptions, Verdict, run_seed};
use std::io::{Read, Write};
use std::process::{Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

const HELP: &str =
    "kilndb-simulation [--seed FIRST] [--seeds COUNT] [--seconds TIME] [--plant NAME] [--twice] [--jobs COUNT]
                  [--without PART,…] [--rounds MOST] [--shrink]
  --seed FIRST     the first seed; without it one that the clock gives
  --seeds COUNT    so many seeds (1 with --seed alone)
  --seconds TIME   seeds until the time is over
  --plant NAME     with this fault put in; ends with the first seed that finds it (--plant list: their names)
  --twice          each seed twice: both runs must have the same trace
  --jobs COUNT     so many at once; as many as there are cores without it
  --without PARTS  leaves workloads out (--without list: their names)
  --rounds MOST    at most so many rounds
  --shrink         leaves out of a seed that fails what can be left out, while it or one of the next seeds fails";

/// A run that takes longer has come to a place where it waits for nothing that the scheduler knows.
const RUN_LIMIT: Duration = Duration::from_secs(300);

/// What a run does less than it could.
#[derive(Clone, Default, Debug, PartialEq)]
struct OmittedParts {
    without: Vec<String>,
    rounds: Option<u64>,
}

impl OmittedParts {
    /// What is left out, as options of this program.
    fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if !self.without.is_empty() {
            words.extend(["--without".to_string(), self.without.join(",")]);
        }
        words.extend(self.rounds.iter().flat_map(|most| ["--rounds".to_string(), most.to_string()]));
        words
    }
}

#[derive(Clone, Default)]
struct Options {
    seed: Option<u64>,
    seeds: Option<u64>,
    seconds: Option<u64>,
    plant: Option<String>,
    twice: bool,
    jobs: Option<usize>,
    shrink: bool,
    less: OmittedParts,
    /// Internal: run this seed in this process.
    one: Option<u64>,
}

fn options() -> Result<Options, String> {
    let mut options = Options::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let flag = match word.as_str() {
            "--twice" => Some(&mut options.twice),
            "--shrink" => Some(&mut options.shrink),
            _ => None,
        };
        if let Some(flag) = flag {
            *flag = true;
            continue;
        }
        let value = words.next().ok_or_else(|| format!("{word} wants a value\n{HELP}"))?;
        let number = || value.parse::<u64>().map_err(|_| format!("{word}: \"{value}\" is no number"));
        match word.as_str() {
            "--seed" => options.seed = Some(number()?),
            "--seeds" => options.seeds = Some(number()?),
            "--seconds" => options.seconds = Some(number()?),
            "--jobs" => options.jobs = Some(number()?.max(1) as usize),
            "--one" => options.one = Some(number()?),
            "--plant" => options.plant = Some(value),
            "--without" => options.less.without = value.split(',').map(str::to_string).collect(),
            "--rounds" => options.less.rounds = Some(number()?),
            _ => return Err(format!("unknown option {word}\n{HELP}")),
        }
    }
    Ok(options)
}

fn bug(name: &str) -> Result<PlantedBug, String> {
    let known = BUGS.iter().find(|(known, _)| *known == name);
    known.map(|(_, bug)| *bug).ok_or_else(|| format!("no fault is called {name}"))
}

fn main() -> ExitCode {
    match options().and_then(|options| run(&options)) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("{e}");
            ExitCode::from(2)
        }
    }
}

/// Runs the seeds; true: nothing was found, or what was planted.
fn run(options: &Options) -> Result<bool, String> {
    if options.plant.as_deref() == Some("list") {
        BUGS.iter().for_each(|(name, _)| println!("{name}"));
        return Ok(true);
    }
    if options.less.without == ["list"] {
        parts::all().iter().for_each(|name| println!("{name}"));
        return Ok(true);
    }
    if let Some(unknown) = options.less.without.iter().find(|name| !parts::all().contains(name)) {
        return Err(format!("no part of a run is called {unknown}"));
    }
    if let Some(name) = &options.plant {
        planted::plant(bug(name)?);
    }
    match options.one {
        Some(seed) => run_here(seed, &options.less),
        None if options.shrink => shrink(options),
        None => Campaign::new(options)?.run(),
    }
}

/// Runs a seed and ends the process.
fn run_here(seed: u64, less: &OmittedParts) -> ! {
    let standstill = move |scheduler: &Scheduler| {
        if std::env::var_os("KILNDB_TELL").is_some() {
            scheduler.tell_where();
        }
        end(&Verdict { seed, failure: Some(scheduler.told()), ..Verdict::default() })
    };
    let run = RunOptions { seed, without: less.without.clone(), rounds: less.rounds };
    let verdict = run_seed(&run, Arc::new(standstill));
    end(&verdict)
}

/// What was killed is still there, in tasks that never run again: the process ends without them.
fn end(verdict: &Verdict) -> ! {
    let Verdict { turns, trace, virtual_ms, kills, transactions, indexes_compared, .. } = verdict;
    println!("{trace} {turns} {virtual_ms} {kills} {transactions} {indexes_compared}");
    if let Some(failure) = &verdict.failure {
        println!("{failure}");
    }
    let _ = std::io::stdout().flush();
    std::process::exit(i32::from(verdict.failure.is_some()))
}

/// What a seed's process has told.
#[derive(Clone, Debug, Default, PartialEq)]
struct SeedReport {
    /// Trace, turns, virtual milliseconds, kills, transactions, indexes compared.
    numbers: Vec<u64>,
    failure: Option<String>,
}

/// How many seeds are tried of a smaller run: with fewer tasks all of its interleaving is another one.
const SHRINK_SEEDS: u64 = 24;

/// Leaves out one part after the other, while the seed, or one of those that follow it, fails. True: it does not fail.
fn shrink(options: &Options) -> Result<bool, String> {
    let seed = options.seed.ok_or("--shrink wants --seed")?;
    let fails = |less: &OmittedParts| {
        let options = Options { less: less.clone(), ..options.clone() };
        (seed..seed + SHRINK_SEEDS).find_map(|seed| Some((seed, run_apart(seed, &options).failure?)))
    };
    let Some(mut smallest) = fails(&options.less) else { return Ok(true) };
    let mut less = options.less.clone();
    for rounds in 1..4 {
        let fewer = OmittedParts { rounds: Some(rounds), ..less.clone() };
        if let Some(failure) = fails(&fewer) {
            (less, smallest) = (fewer, failure);
            break;
        }
    }
    for part in parts::all() {
        let mut fewer = less.clone();
        fewer.without.push(part.clone());
        if let Some(failure) = fails(&fewer) {
            (less, smallest) = (fewer, failure);
            println!("without {part}: seed {} fails", smallest.0);
        }
    }
    println!("--seed {} {}\n{}", smallest.0, less.words().join(" "), smallest.1);
    Ok(false)
}

struct Campaign {
    options: Options,
    next: AtomicU64,
    end: u64,
    deadline: Option<Instant>,
    sum: Mutex<CampaignSum>,
}

#[derive(Default)]
struct CampaignSum {
    seeds: u64,
    virtual_ms: u64,
    kills: u64,
    transactions: u64,
    failed: Vec<u64>,
}

impl Campaign {
    fn new(options: &Options) -> Result<Campaign, String> {
        let clock = || std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        let first = options.seed.unwrap_or_else(|| clock().as_micros() as u64);
        let usual = if options.seconds.is_some() { u64::MAX / 2 } else { 1 };
        let end = first.checked_add(options.seeds.unwrap_or(usual)).ok_or("the seeds end")?;
        let deadline = options.seconds.map(|s| Instant::now() + Duration::from_secs(s));
        Ok(Campaign { options: options.clone(), next: AtomicU64::new(first), end, deadline, sum: Mutex::default() })
    }

    fn run(&self) -> Result<bool, String> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let began = Instant::now();
        std::thread::scope(|scope| {
            for _ in 0..self.options.jobs.unwrap_or(cores) {
                scope.spawn(|| self.work());
            }
        });
        let sum = self.sum.lock().unwrap_or_else(|e| e.into_inner());
        println!(
            "{} seeds in {} s: {:.1} s simulated, {} kills, {} transactions; {} failed{}",
            sum.seeds,
            began.elapsed().as_secs(),
            sum.virtual_ms as f64 / 1e3,
            sum.kills,
            sum.transactions,
            sum.failed.len(),
            if sum.failed.is_empty() { String::new() } else { format!(": {:?}", sum.failed) }
        );
        Ok(sum.failed.is_empty() != self.options.plant.is_some())
    }

    fn is_over(&self) -> bool {
        let found = || !self.sum.lock().unwrap_or_else(|e| e.into_inner()).failed.is_empty();
        self.deadline.is_some_and(|end| Instant::now() >= end) || self.options.plant.is_some() && found()
    }

    fn work(&self) {
        while !self.is_over() {
            let seed = self.next.fetch_add(1, Ordering::Relaxed);
            if seed >= self.end {
                break;
            }
            let mut told = run_apart(seed, &self.options);
            if self.options.twice && told.failure.is_none() {
                let again = run_apart(seed, &self.options);
                if again != told {
                    told.failure = Some(format!("two runs of it differ: {:?}, then {:?}", told.numbers, again));
                }
            }
            let mut sum = self.sum.lock().unwrap_or_else(|e| e.into_inner());
            let number = |at: usize| told.numbers.get(at).copied().unwrap_or(0);
            sum.seeds += 1;
            sum.virtual_ms += number(2);
            sum.kills += number(3);
            sum.transactions += number(4);
            if let Some(failure) = told.failure {
                sum.failed.push(seed);
                println!("seed {seed}: {failure}");
            }
        }
    }
}

/// Runs a seed in a process of its own.
fn run_apart(seed: u64, options: &Options) -> SeedReport {
    let mut command = Command::new("/proc/self/exe");
    command.args(["--one", &seed.to_string()]).stdin(Stdio::null()).stdout(Stdio::piped());
    command.args(options.less.words());
    if let Some(name) = &options.plant {
        command.args(["--plant", name]);
    }
    let failed = |failure: String| SeedReport { numbers: Vec::new(), failure: Some(failure) };
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(e) => return failed(format!("cannot be started: {e}")),
    };
    let Some(mut stdout) = child.stdout.take() else { return failed("has no output".into()) };
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        let _ = stdout.read_to_string(&mut text);
        text
    });
    let until = Instant::now() + RUN_LIMIT;
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) => break status,
            Ok(None) if Instant::now() < until => std::thread::sleep(Duration::from_millis(5)),
            _ => {
                let _ = child.kill();
                let _ = child.wait();
                return failed(format!("did not come to its end within {} s", RUN_LIMIT.as_secs()));
            }
        }
    };
    let text = reader.join().unwrap_or_default();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    let numbers = first.split(' ').filter_map(|n| n.parse().ok()).collect();
    let failure = (!status.success()).then(|| match rest.trim() {
        "" => format!("ended with {status}"),
        told => told.to_string(),
    });
    SeedReport { numbers, failure }
}
