//! One task at a time, virtual time, and every choice from a seed.
//!
//! A task is a coroutine ([`super::tasks`]); all of a scheduler's run on one thread. At each [`point`] (an access to an
//! atomic, a lock) the turn may pass to another task; when all of them wait, time goes on to the first moment that
//! somebody waits for. (After FoundationDB's simulation, Zhou et al., SIGMOD 2021, and the random choice of what runs
//! next in Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees", ASPLOS 2010.)
//!
//! Invariants
//! 1. Exactly one task of a scheduler has the turn; only it changes the state.
//! 2. The order of turns, and the time, follow from the seed and from what the tasks do: nothing here looks at a clock or
//!    an address (but whether two are the same).
//! 3. A task of a life that was ended never gets a turn again: its locks stay taken, its stack stays as it was, as after
//!    a `kill -9`. Nobody of another life may wait for it.
//!
//! Must not know: what the tasks do.

use super::{JoinHandle, tasks};
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The place of a task in its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId(usize);

/// Tasks that end together: a process of the simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ProcessLife(pub u32);

/// What a task waits for: a wake-up of an address, a moment, or whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct TaskWait {
    pub address: usize,
    pub deadline_nanos: Option<u64>,
}

struct Task {
    name: String,
    life: ProcessLife,
    has_ended: bool,
    /// Whether the wait that is over was ended by a wake-up.
    was_woken: bool,
}

struct SchedulerState {
    random: u64,
    now_nanos: u64,
    tasks: Vec<Task>,
    /// Who may have the next turn, in the order of their numbers.
    runnable: Vec<usize>,
    /// Who waits, in the order of their numbers. All who are in neither list never run again, by the thousand in the end.
    waiting: Vec<(usize, TaskWait)>,
    /// No deadline of those who wait comes before.
    first_deadline_nanos: u64,
    /// Who has the turn. None: nobody ever will again.
    running: Option<usize>,
    /// Lives that have ended.
    ended: Vec<ProcessLife>,
    turns: u64,
    trace: u64,
    /// On average so many points lie between two choices of the next task.
    points_between: u32,
    turns_max: u64,
}

/// Called when no task can ever run again, or none gets on.
pub type OnStandstill = Arc<dyn Fn(&Scheduler) + Send + Sync>;

pub struct Scheduler {
    state: Mutex<SchedulerState>,
}

/// How a seed's interleavings look.
#[derive(Clone, Copy, Debug)]
pub struct SchedulerPace {
    pub seed: u64,
    /// On average so many points lie between two choices of the next task.
    pub points_between: u32,
    /// Tasks that let each other go first for so many turns are taken for ones that never get on.
    pub turns_max: u64,
}

/// The task that has the turn.
struct CurrentTask {
    scheduler: Arc<Scheduler>,
    task: usize,
    life: ProcessLife,
}

thread_local! {
    static CURRENT: RefCell<Option<CurrentTask>> = const { RefCell::new(None) };
    static IS_TASK: Cell<bool> = const { Cell::new(false) };
    /// Points until the next choice. Of a thread that has no task it starts again and again.
    static POINTS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    /// How many reasons there are for the task not to be interrupted.
    static UNINTERRUPTED: Cell<u32> = const { Cell::new(0) };
}

/// A point costs so much virtual time, a look at the clock as well.
const NANOS_PER_POINT: u64 = 20;
const NANOS_PER_LOOK: u64 = 50;

fn mixed(mut hash: u64, value: u64) -> u64 {
    hash = (hash ^ value).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    hash ^ (hash >> 29)
}

impl SchedulerState {
    fn number(&mut self) -> u64 {
        // SplitMix64 (Steele, Lea, Flood 2014).
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
    fn below(&mut self, bound: u64) -> u64 {
        self.number() % bound.max(1)
    }
    /// How many points the task that gets the turn now has until the next choice: mostly a few, sometimes very many.
    fn points(&mut self) -> u32 {
        let mean = u64::from(self.points_between);
        let long = self.below(64) == 0;
        (1 + self.below(2 * mean) * if long { 50 } else { 1 }) as u32
    }
    fn end_life(&mut self, life: ProcessLife) {
        self.ended.push(life);
        let tasks = &self.tasks;
        self.runnable.retain(|at| tasks[*at].life != life);
        self.waiting.retain(|(at, _)| tasks[*at].life != life);
    }
    fn can_run(&mut self, task: usize, was_woken: bool) {
        self.tasks[task].was_woken = was_woken;
        if let Err(place) = self.runnable.binary_search(&task) {
            self.runnable.insert(place, task);
        }
    }
    fn stop_running(&mut self, task: usize) {
        if let Ok(place) = self.runnable.binary_search(&task) {
            self.runnable.remove(place);
        }
    }
    fn begin_waiting(&mut self, task: usize, waiting: TaskWait) {
        self.stop_running(task);
        let place = self.waiting.partition_point(|(at, _)| *at < task);
        self.waiting.insert(place, (task, waiting));
        self.first_deadline_nanos = self.first_deadline_nanos.min(waiting.deadline_nanos.unwrap_or(u64::MAX));
    }
    /// Whoever of those who wait `is_over` names can run.
    fn end_waits(&mut self, was_woken: bool, is_over: impl Fn(usize, &TaskWait) -> bool) {
        let over = self.waiting.extract_if(.., |(at, waiting)| is_over(*at, waiting));
        let over: Vec<usize> = over.map(|(at, _)| at).collect();
        over.into_iter().for_each(|at| self.can_run(at, was_woken));
    }
    /// The next moment that somebody waits for.
    fn next_moment(&self) -> Option<u64> {
        self.waiting.iter().filter_map(|(_, waiting)| waiting.deadline_nanos).min()
    }
    /// Chooses who has the next turn; time goes on if everybody waits.
    fn choose(&mut self) -> Option<usize> {
        loop {
            if self.first_deadline_nanos <= self.now_nanos {
                let now = self.now_nanos;
                self.end_waits(false, |_, waiting| waiting.deadline_nanos.is_some_and(|at| at <= now));
                self.first_deadline_nanos = self.next_moment().unwrap_or(u64::MAX);
            }
            if !self.runnable.is_empty() {
                let place = self.below(self.runnable.len() as u64) as usize;
                let chosen = self.runnable[place];
                self.turns += 1;
                self.trace = mixed(mixed(self.trace, chosen as u64), self.now_nanos);
                return Some(chosen);
            }
            self.now_nanos = self.now_nanos.max(self.next_moment()?);
        }
    }
    /// Time has passed, and somebody has the next turn.
    fn pass_on(&mut self) {
        self.now_nanos += 100 + NANOS_PER_POINT * u64::from(self.points_between);
        self.running = if self.turns < self.turns_max { self.choose() } else { None };
    }
    /// The tasks that may run again, each with what it waits for.
    fn living(&self) -> Vec<(usize, Option<TaskWait>)> {
        let waiting = self.waiting.iter().map(|(at, waiting)| (*at, Some(*waiting)));
        let mut living: Vec<_> = self.runnable.iter().map(|at| (*at, None)).chain(waiting).collect();
        living.sort_by_key(|(at, _)| *at);
        living
    }
    fn told(&self) -> String {
        let why = if self.turns < self.turns_max { "nobody can go on" } else { "nobody gets on" };
        let line = |(at, waiting): (usize, Option<TaskWait>)| {
            let Task { name, life, .. } = &self.tasks[at];
            match waiting {
                Some(waiting) => format!("{name} (life {}): {waiting:?}", life.0),
                None => format!("{name} (life {}): can run", life.0),
            }
        };
        std::iter::once(format!("{why}:")).chain(self.living().into_iter().map(line)).collect::<Vec<_>>().join("\n")
    }
}

impl Scheduler {
    /// Runs `f` as the first task, in life 0, until it has ended. Panics when nobody can go on, or has for more turns than
    /// the pace allows, and `on_standstill` returns.
    pub fn run<T: 'static>(
        pace: SchedulerPace,
        on_standstill: OnStandstill,
        f: impl FnOnce(&Arc<Scheduler>) -> T + 'static,
    ) -> T {
        let state = SchedulerState {
            random: pace.seed,
            now_nanos: 1_000_000_000,
            tasks: Vec::new(),
            runnable: Vec::new(),
            waiting: Vec::new(),
            first_deadline_nanos: u64::MAX,
            running: Some(0),
            ended: Vec::new(),
            turns: 0,
            trace: pace.seed,
            points_between: pace.points_between.max(1),
            turns_max: pace.turns_max,
        };
        let scheduler = Arc::new(Scheduler { state: Mutex::new(state) });
        let result = Rc::new(Cell::new(None));
        let (of_task, of_first) = (scheduler.clone(), result.clone());
        let first = scheduler.add("first", ProcessLife(0));
        let body = move || {
            enter(&of_task, first, ProcessLife(0));
            of_first.set(Some(catch_unwind(AssertUnwindSafe(|| f(&of_task)))));
            leave();
        };
        tasks::add(first, body).expect("there is memory for a stack");
        tasks::run(|| scheduler.state().running);
        match result.take() {
            Some(result) => {
                tasks::forget_all();
                result.unwrap_or_else(|panic| resume_unwind(panic))
            }
            None => {
                on_standstill(&scheduler);
                panic!("{}", scheduler.told())
            }
        }
    }
    fn state(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn add(&self, name: &str, life: ProcessLife) -> usize {
        let mut state = self.state();
        let number = state.tasks.len();
        state.tasks.push(Task { name: name.to_string(), life, has_ended: false, was_woken: false });
        if !state.ended.contains(&life) {
            state.can_run(number, false);
        }
        number
    }
    /// The tasks of that life never run again. Does not return if the caller is one of them.
    pub fn end_life(&self, life: ProcessLife) {
        self.state().end_life(life);
        if current_life() == Some(life) {
            pass_turn(|_, _| ());
        }
    }
    /// Why the run has come to a standstill, and what each task that may run again waits for, a line each.
    pub fn told(&self) -> String {
        self.state().told()
    }
    /// Writes to stderr where each task is. After a standstill only.
    pub fn tell_where(&self) {
        let name = |state: &SchedulerState, at: usize| (state.tasks[at].name.clone(), at);
        let living: Vec<_> = {
            let state = self.state();
            state.living().into_iter().map(|(at, _)| name(&state, at)).collect()
        };
        tasks::tell_where(&living);
    }
    /// How many turns there have been, and a hash of whose they were and when: the same in each run of a seed.
    pub fn trace(&self) -> (u64, u64) {
        let state = self.state();
        (state.turns, state.trace)
    }
    pub fn now_nanos(&self) -> u64 {
        self.state().now_nanos
    }
    /// A number of the seed's sequence.
    pub fn random(&self) -> u64 {
        self.state().number()
    }
}

/// The task runs, from its beginning.
fn enter(scheduler: &Arc<Scheduler>, task: usize, life: ProcessLife) {
    let points = scheduler.state().points();
    CURRENT.set(Some(CurrentTask { scheduler: scheduler.clone(), task, life }));
    UNINTERRUPTED.set(0);
    IS_TASK.set(true);
    POINTS_LEFT.set(points);
}

fn leave() {
    IS_TASK.set(false);
    CURRENT.set(None);
    POINTS_LEFT.set(u32::MAX);
}

/// Whether a scheduler says when this thread runs.
#[inline]
pub fn is_task() -> bool {
    IS_TASK.get()
}

/// `f` may not give the turn away.
fn of_current<T>(f: impl FnOnce(&CurrentTask) -> T) -> Option<T> {
    // A thread that ends asks from its destructors too, when `CURRENT` may be gone.
    if !is_task() {
        return None;
    }
    CURRENT.with_borrow(|current| current.as_ref().map(f))
}

pub fn current_life() -> Option<ProcessLife> {
    of_current(|current| current.life)
}

/// A place where another task may get its turn.
#[inline]
pub fn point() {
    let left = POINTS_LEFT.get();
    if left == 0 {
        points_are_over();
    } else {
        POINTS_LEFT.set(left - 1);
    }
}

#[cold]
fn points_are_over() {
    if !is_task() {
        POINTS_LEFT.set(u32::MAX);
    } else if UNINTERRUPTED.get() == 0 && !std::thread::panicking() {
        // While a task unwinds no other one runs: it would take the panic for its own.
        pass_turn(|_, _| ());
    }
}

/// `f` runs to its end before another task has its turn, unless it waits for one.
pub fn uninterrupted<T>(f: impl FnOnce() -> T) -> T {
    struct Counted;
    impl Drop for Counted {
        fn drop(&mut self) {
            UNINTERRUPTED.set(UNINTERRUPTED.get() - 1);
        }
    }
    UNINTERRUPTED.set(UNINTERRUPTED.get() + 1);
    let _counted = Counted;
    f()
}

/// `become_next` says what the task, which has the turn, is now; whoever is chosen gets the turn. Returns, when it is the
/// task again, whether a wake-up has ended its wait.
fn pass_turn(become_next: impl FnOnce(&mut SchedulerState, usize)) -> bool {
    let passed = of_current(|current| {
        let mut state = current.scheduler.state();
        assert_eq!(state.running, Some(current.task), "a task runs without having the turn");
        become_next(&mut state, current.task);
        state.pass_on();
        state.running == Some(current.task)
    });
    match passed {
        None => return false,
        Some(true) => {}
        Some(false) => suspend(),
    }
    of_current(|current| {
        let mut state = current.scheduler.state();
        POINTS_LEFT.set(state.points());
        state.tasks[current.task].was_woken
    })
    .unwrap_or(false)
}

/// The task stops until it has the turn again.
fn suspend() {
    let (current, uninterrupted) = (CURRENT.take(), UNINTERRUPTED.replace(0));
    leave();
    tasks::suspend();
    CURRENT.set(current);
    UNINTERRUPTED.set(uninterrupted);
    IS_TASK.set(true);
}

/// Waits. True: by a wake-up, not because the time was over.
pub fn wait(waiting: TaskWait) -> bool {
    pass_turn(|state, task| state.begin_waiting(task, waiting))
}

/// Lets at most `most` of the tasks that wait for the address run; which ones, the seed chooses.
pub fn wake(address: usize, most: usize) {
    of_current(|current| {
        let mut state = current.scheduler.state();
        let waits = |waiting: &TaskWait| waiting.address == address;
        let mut woken: Vec<usize> = state.waiting.iter().filter(|(_, w)| waits(w)).map(|(at, _)| *at).collect();
        if woken.is_empty() {
            return;
        }
        while woken.len() > most {
            let left_out = state.below(woken.len() as u64) as usize;
            woken.swap_remove(left_out);
        }
        state.end_waits(true, |at, _| woken.contains(&at));
    });
}

/// Another task has its turn, if there is one. False: the thread is no task.
pub fn give_way() -> bool {
    is_task() && {
        pass_turn(|_, _| ());
        true
    }
}

/// Lets the task sleep in virtual time; false: the thread is no task.
pub fn sleep(duration: Duration) -> bool {
    is_task() && {
        let until = now_nanos().saturating_add(duration.as_nanos() as u64);
        // No lock has this address.
        wait(TaskWait { address: 0, deadline_nanos: Some(until) });
        true
    }
}

/// The virtual time; 0 in a thread that is no task.
pub fn now_nanos() -> u64 {
    let looked = of_current(|current| {
        let mut state = current.scheduler.state();
        state.now_nanos += NANOS_PER_LOOK;
        state.now_nanos
    });
    looked.unwrap_or(0)
}

/// A task of the caller's scheduler, in the caller's life or in another.
pub fn spawn(
    name: &str,
    life: Option<ProcessLife>,
    body: impl FnOnce() + Send + 'static,
) -> std::io::Result<JoinHandle<()>> {
    let Some((scheduler, own_life)) = of_current(|current| (current.scheduler.clone(), current.life)) else {
        return Err(std::io::Error::other("only a task starts tasks"));
    };
    let life = life.unwrap_or(own_life);
    let task = scheduler.add(name, life);
    let result = Arc::new(Mutex::new(None));
    let of_task = result.clone();
    let body = move || {
        enter(&scheduler, task, life);
        let result = catch_unwind(AssertUnwindSafe(body));
        *of_task.lock().unwrap_or_else(|e| e.into_inner()) = Some(result);
        wake(end_address(task), usize::MAX);
        let mut state = scheduler.state();
        state.tasks[task].has_ended = true;
        state.stop_running(task);
        state.pass_on();
        drop(state);
        leave();
    };
    tasks::add(task, body)?;
    Ok(JoinHandle::of_task(TaskId(task), result))
}

/// What stands for the end of a task: no lock has an odd address.
fn end_address(task: usize) -> usize {
    task * 2 + 1
}

pub(super) fn wait_for_end(task: TaskId) {
    while !has_ended(task) {
        wait(TaskWait { address: end_address(task.0), deadline_nanos: None });
    }
}

/// True also where no task asks.
pub(super) fn has_ended(task: TaskId) -> bool {
    of_current(|current| current.scheduler.state().tasks[task.0].has_ended).unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex as SimMutex;
    use crate::sync::atomic::AtomicU64;
    use crate::sync::{Condvar, JoinHandle};
    use std::sync::atomic::Ordering::SeqCst;

    fn run<T: 'static>(seed: u64, f: impl FnOnce(&Arc<Scheduler>) -> T + 'static) -> T {
        Scheduler::run(SchedulerPace { seed, points_between: 3, turns_max: 1 << 20 }, Arc::new(|_| ()), f)
    }

    fn tasks(count: usize, body: impl Fn(usize) + Send + Sync + 'static) -> Vec<JoinHandle<()>> {
        let body = Arc::new(body);
        let start = |n| {
            let body = body.clone();
            spawn(&format!("task {n}"), None, move || body(n)).unwrap()
        };
        (0..count).map(start).collect()
    }

    /// Three tasks that each read a number and write it back, one larger.
    fn lost_updates(seed: u64) -> (u64, (u64, u64)) {
        run(seed, |scheduler| {
            let sum = Arc::new(AtomicU64::new(0));
            let of_tasks = sum.clone();
            let all = tasks(3, move |_| {
                for _ in 0..20 {
                    let seen = of_tasks.load(SeqCst);
                    of_tasks.store(seen + 1, SeqCst);
                }
            });
            all.into_iter().for_each(|t| t.join().unwrap());
            (sum.load(SeqCst), scheduler.trace())
        })
    }

    #[test]
    fn a_seed_replays_and_seeds_differ() {
        let results: Vec<_> = (0..20).map(lost_updates).collect();
        assert_eq!(results, (0..20).map(lost_updates).collect::<Vec<_>>());
        assert!(results.iter().any(|(sum, _)| *sum < 60), "no seed loses an update");
        let traces: std::collections::HashSet<u64> = results.iter().map(|(_, (_, trace))| *trace).collect();
        assert_eq!(traces.len(), 20);
    }

    #[test]
    fn a_mutex_keeps_others_out() {
        for seed in 0..20 {
            let sum = run(seed, |_| {
                let sum = Arc::new(SimMutex::new(0));
                let of_tasks = sum.clone();
                let all = tasks(3, move |_| {
                    for _ in 0..20 {
                        let mut sum = of_tasks.lock().unwrap();
                        let seen = *sum;
                        give_way();
                        *sum = seen + 1;
                    }
                });
                all.into_iter().for_each(|t| t.join().unwrap());
                *sum.lock().unwrap()
            });
            assert_eq!(sum, 60);
        }
    }

    #[test]
    #[should_panic(expected = "nobody gets on:\nfirst (life 0): can run\ntask 0 (life 0): can run")]
    fn tasks_that_let_each_other_go_first_for_ever_are_found() {
        run(1, |_| {
            let _all = tasks(1, |_| while give_way() {});
            while give_way() {}
        });
    }

    #[test]
    fn time_passes_only_when_all_wait() {
        let began = std::time::Instant::now();
        let passed = run(1, |_| {
            let before = now_nanos();
            let all = tasks(4, |n| assert!(sleep(Duration::from_secs(1000 * (n as u64 + 1)))));
            all.into_iter().for_each(|t| t.join().unwrap());
            now_nanos() - before
        });
        assert!((4_000_000_000_000..4_000_100_000_000).contains(&passed), "{passed}");
        assert!(began.elapsed() < Duration::from_secs(60));
    }

    #[test]
    fn a_condition_is_waited_for() {
        run(2, |_| {
            let pair = Arc::new((SimMutex::new(0), Condvar::new()));
            let of_tasks = pair.clone();
            let all = tasks(3, move |_| {
                *of_tasks.0.lock().unwrap() += 1;
                of_tasks.1.notify_all();
            });
            let mut count = pair.0.lock().unwrap();
            while *count < 3 {
                count = pair.1.wait(count).unwrap();
            }
            drop(count);
            let (_guard, result) = pair.1.wait_timeout(pair.0.lock().unwrap(), Duration::from_secs(5)).unwrap();
            assert!(result.timed_out());
            all.into_iter().for_each(|t| t.join().unwrap());
        });
    }

    #[test]
    fn who_has_ended_runs_no_more() {
        run(3, |scheduler| {
            let count = Arc::new(AtomicU64::new(0));
            let of_task = count.clone();
            let endless = move || loop {
                of_task.fetch_add(1, SeqCst);
                sleep(Duration::from_millis(1));
            };
            spawn("endless", Some(ProcessLife(1)), endless).unwrap();
            sleep(Duration::from_millis(100));
            scheduler.end_life(ProcessLife(1));
            let seen = count.load(SeqCst);
            assert!(seen > 10);
            sleep(Duration::from_millis(100));
            assert_eq!(count.load(SeqCst), seen);
        });
    }
}
