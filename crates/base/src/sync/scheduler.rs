//! One task at a time, virtual time, and every choice from a seed.
//!
//! A task is a thread of the operating system that runs only while it has the turn; so what is local to a thread stays
//! so. At each [`point`] (an access to an atomic, a lock) the turn may pass to another task; when all of them wait, time
//! goes on to the first moment that somebody waits for. (After FoundationDB's simulation, Zhou et al., SIGMOD 2021, and
//! the random choice of what runs next in Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees",
//! ASPLOS 2010.)
//!
//! Invariants
//! 1. Exactly one task of a scheduler has the turn; only it, or a thread that is no task before the first turn, changes
//!    the state.
//! 2. The order of turns, and the time, follow from the seed and from what the tasks do: nothing here looks at a clock,
//!    an address (but whether two are the same) or the operating system's order of threads.
//! 3. A task of a life that was ended never gets a turn again: its locks stay taken, its stack stays as it was, as after
//!    a `kill -9`. Nobody of another life may wait for it.
//!
//! Must not know: what the tasks do.

use super::JoinHandle;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// The place of a task in its scheduler.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskId(usize);

/// Tasks that end together: a process of the simulated machine.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Life(pub u32);

/// What a task waits for: a wake-up of an address, a moment, or whichever comes first.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    pub address: usize,
    pub deadline_nanos: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
enum TaskState {
    Runnable,
    Waiting(Waiting),
    Ended,
}

struct Task {
    name: String,
    life: Life,
    state: TaskState,
    /// Whether the wait that is over was ended by a wake-up.
    was_woken: bool,
    turn: Arc<Turn>,
}

/// How a thread learns that it has the turn.
struct Turn {
    has_it: AtomicBool,
    thread: Mutex<Option<std::thread::Thread>>,
}

struct SchedulerState {
    random: u64,
    now_nanos: u64,
    tasks: Vec<Task>,
    /// Tasks that may run again, in the order of their numbers: all others stay in `tasks`, by the thousand in the end.
    living: Vec<usize>,
    running: usize,
    /// Lives that have ended.
    ended: Vec<Life>,
    turns: u64,
    trace: u64,
    /// On average so many points lie between two choices of the next task.
    points_between: u32,
}

/// Called instead of a turn when no task can ever run again, with what each waits for.
pub type OnStandstill = Arc<dyn Fn(&str) + Send + Sync>;

pub struct Scheduler {
    state: Mutex<SchedulerState>,
    on_standstill: OnStandstill,
}

/// How a seed's interleavings look.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub seed: u64,
    /// On average so many points lie between two choices of the next task.
    pub points_between: u32,
}

struct Current {
    scheduler: Arc<Scheduler>,
    task: usize,
    life: Life,
    turn: Arc<Turn>,
}

thread_local! {
    static CURRENT: RefCell<Option<Current>> = const { RefCell::new(None) };
    static IS_TASK: Cell<bool> = const { Cell::new(false) };
    /// Points until the next choice. Of a thread that is no task it starts again and again.
    static POINTS_LEFT: Cell<u32> = const { Cell::new(u32::MAX) };
    /// How many reasons there are not to be interrupted.
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
    fn is_runnable(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, TaskState::Runnable)
    }
    fn end_life(&mut self, life: Life) {
        self.ended.push(life);
        let tasks = &self.tasks;
        self.living.retain(|at| tasks[*at].life != life);
    }
    /// Whoever waited for a moment that has come.
    fn end_waits(&mut self) {
        let now = self.now_nanos;
        for at in &self.living {
            let task = &mut self.tasks[*at];
            if let TaskState::Waiting(Waiting { deadline_nanos: Some(at), .. }) = task.state
                && at <= now
            {
                (task.state, task.was_woken) = (TaskState::Runnable, false);
            }
        }
    }
    /// The next moment that somebody waits for.
    fn next_moment(&self) -> Option<u64> {
        self.living
            .iter()
            .filter_map(|at| match self.tasks[*at].state {
                TaskState::Waiting(waiting) => waiting.deadline_nanos,
                _ => None,
            })
            .min()
    }
    /// Chooses who has the next turn; time goes on if everybody waits. None: nobody ever will.
    fn choose(&mut self) -> Option<usize> {
        loop {
            self.end_waits();
            let runnable = self.living.iter().filter(|at| self.is_runnable(**at)).count();
            if runnable > 0 {
                let place = self.below(runnable as u64) as usize;
                let chosen = *self.living.iter().filter(|at| self.is_runnable(**at)).nth(place)?;
                self.running = chosen;
                self.turns += 1;
                self.trace = mixed(mixed(self.trace, chosen as u64), self.now_nanos);
                return Some(chosen);
            }
            self.now_nanos = self.now_nanos.max(self.next_moment()?);
        }
    }
    fn standstill(&self) -> String {
        let lines = self.living.iter().map(|at| &self.tasks[*at]);
        lines.map(|t| format!("{} (life {}): {:?}", t.name, t.life.0, t.state)).collect::<Vec<_>>().join("\n")
    }
}

impl Turn {
    fn new() -> Arc<Turn> {
        Arc::new(Turn { has_it: AtomicBool::new(false), thread: Mutex::new(None) })
    }
    fn give(&self) {
        self.has_it.store(true, Ordering::Release);
        if let Some(thread) = &*self.thread.lock().unwrap_or_else(|e| e.into_inner()) {
            thread.unpark();
        }
    }
    fn await_it(&self) {
        while !self.has_it.swap(false, Ordering::AcqRel) {
            std::thread::park();
        }
    }
}

impl Scheduler {
    /// Runs `f` as the first task, in the calling thread, in life 0.
    pub fn run<T>(pace: Pace, on_standstill: OnStandstill, f: impl FnOnce(&Arc<Scheduler>) -> T) -> T {
        let state = SchedulerState {
            random: pace.seed,
            now_nanos: 1_000_000_000,
            tasks: Vec::new(),
            living: Vec::new(),
            running: 0,
            ended: Vec::new(),
            turns: 0,
            trace: pace.seed,
            points_between: pace.points_between.max(1),
        };
        let scheduler = Arc::new(Scheduler { state: Mutex::new(state), on_standstill });
        let turn = scheduler.add("first", Life(0)).1;
        enter(&scheduler, 0, Life(0), turn);
        let result = f(&scheduler);
        leave();
        result
    }
    fn state(&self) -> MutexGuard<'_, SchedulerState> {
        self.state.lock().unwrap_or_else(|e| e.into_inner())
    }
    fn add(&self, name: &str, life: Life) -> (usize, Arc<Turn>) {
        let turn = Turn::new();
        let task =
            Task { name: name.to_string(), life, state: TaskState::Runnable, was_woken: false, turn: turn.clone() };
        let mut state = self.state();
        let number = state.tasks.len();
        state.tasks.push(task);
        if !state.ended.contains(&life) {
            state.living.push(number);
        }
        (number, turn)
    }
    /// The tasks of that life never run again. Does not return if the caller is one of them.
    pub fn end_life(&self, life: Life) {
        self.state().end_life(life);
        if current_life() == Some(life) {
            pass_turn(TaskState::Ended);
        }
    }
    /// What each task that may run again waits for, a line each.
    pub fn told(&self) -> String {
        self.state().standstill()
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

fn enter(scheduler: &Arc<Scheduler>, task: usize, life: Life, turn: Arc<Turn>) {
    *turn.thread.lock().unwrap_or_else(|e| e.into_inner()) = Some(std::thread::current());
    let points = scheduler.state().points();
    CURRENT.with(|c| *c.borrow_mut() = Some(Current { scheduler: scheduler.clone(), task, life, turn }));
    IS_TASK.set(true);
    POINTS_LEFT.set(points);
}

fn leave() {
    IS_TASK.set(false);
    CURRENT.with(|c| *c.borrow_mut() = None);
    POINTS_LEFT.set(u32::MAX);
}

/// Does a scheduler say when this thread runs?
#[inline]
pub fn is_task() -> bool {
    IS_TASK.get()
}

pub fn current_life() -> Option<Life> {
    CURRENT.with(|c| c.borrow().as_ref().map(|current| current.life))
}

/// The scheduler of this task.
fn current() -> Option<Arc<Scheduler>> {
    // A thread that ends asks from its destructors too, when `CURRENT` may be gone.
    if !is_task() {
        return None;
    }
    CURRENT.with(|c| c.borrow().as_ref().map(|current| current.scheduler.clone()))
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
    } else if UNINTERRUPTED.get() == 0 {
        pass_turn(TaskState::Runnable);
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

/// The task is as `next` says; whoever is chosen gets the turn. Returns whether a wake-up has ended the wait.
fn pass_turn(next: TaskState) -> bool {
    let Some((scheduler, task, turn)) =
        CURRENT.with(|c| c.borrow().as_ref().map(|c| (c.scheduler.clone(), c.task, c.turn.clone())))
    else {
        return false;
    };
    let mut state = scheduler.state();
    assert_eq!(state.running, task, "a task runs without having the turn");
    state.tasks[task].state = next;
    if matches!(next, TaskState::Ended) {
        state.living.retain(|at| *at != task);
    }
    state.now_nanos += 100 + NANOS_PER_POINT * u64::from(state.points_between);
    let Some(chosen) = state.choose() else {
        let told = state.standstill();
        drop(state);
        (scheduler.on_standstill)(&told);
        // Whoever is told of it ends the process; this task has nothing to go on for.
        loop {
            std::thread::park();
        }
    };
    if chosen == task {
        let points = state.points();
        let woken = state.tasks[task].was_woken;
        POINTS_LEFT.set(points);
        return woken;
    }
    state.tasks[chosen].turn.clone().give();
    drop(state);
    if matches!(next, TaskState::Ended) && scheduler.has_ended_itself(task) {
        return false;
    }
    turn.await_it();
    let mut state = scheduler.state();
    let points = state.points();
    POINTS_LEFT.set(points);
    state.tasks[task].was_woken
}

impl Scheduler {
    /// The thread of that task is over (and not only its life).
    fn has_ended_itself(&self, task: usize) -> bool {
        let state = self.state();
        !state.ended.contains(&state.tasks[task].life)
    }
}

/// Waits. True: by a wake-up, not because the time was over.
pub fn wait(waiting: Waiting) -> bool {
    pass_turn(TaskState::Waiting(waiting))
}

/// Of those who wait for the address, so many (by the seed's choice) can run.
pub fn wake(address: usize, most: usize) {
    let Some(scheduler) = current() else { return };
    let mut state = scheduler.state();
    let waits = |t: &Task| matches!(t.state, TaskState::Waiting(w) if w.address == address);
    let mut waiting: Vec<usize> = state.living.iter().copied().filter(|at| waits(&state.tasks[*at])).collect();
    while waiting.len() > most {
        let left_out = state.below(waiting.len() as u64) as usize;
        waiting.swap_remove(left_out);
    }
    for at in waiting {
        (state.tasks[at].state, state.tasks[at].was_woken) = (TaskState::Runnable, true);
    }
}

/// Another task has its turn, if there is one. False: the thread is no task.
pub fn give_way() -> bool {
    is_task() && {
        pass_turn(TaskState::Runnable);
        true
    }
}

/// False: the thread is no task.
pub fn sleep(duration: Duration) -> bool {
    is_task() && {
        let until = now_nanos().saturating_add(duration.as_nanos() as u64);
        // No lock has this address.
        wait(Waiting { address: 0, deadline_nanos: Some(until) });
        true
    }
}

/// The virtual time; 0 in a thread that is no task.
pub fn now_nanos() -> u64 {
    let Some(scheduler) = current() else { return 0 };
    let mut state = scheduler.state();
    state.now_nanos += NANOS_PER_LOOK;
    state.now_nanos
}

/// A task of the caller's scheduler, in the caller's life or in another.
pub fn spawn(name: &str, life: Option<Life>, body: impl FnOnce() + Send + 'static) -> std::io::Result<JoinHandle<()>> {
    let Some(scheduler) = current() else {
        return Err(std::io::Error::other("only a task starts tasks"));
    };
    let life = life.or(current_life()).unwrap_or(Life(0));
    let (task, turn) = scheduler.add(name, life);
    let builder = std::thread::Builder::new().name(name.to_string()).stack_size(crate::stack::STACK_BYTES);
    let thread = builder.spawn(move || {
        *turn.thread.lock().unwrap_or_else(|e| e.into_inner()) = Some(std::thread::current());
        turn.await_it();
        enter(&scheduler, task, life, turn.clone());
        let result = catch_unwind(AssertUnwindSafe(body));
        wake(end_address(task), usize::MAX);
        IS_TASK.set(false);
        POINTS_LEFT.set(u32::MAX);
        pass_turn(TaskState::Ended);
        leave();
        if let Err(panic) = result {
            resume_unwind(panic);
        }
    })?;
    Ok(JoinHandle { thread, task: Some(TaskId(task)) })
}

/// What stands for the end of a task: no lock has an odd address.
fn end_address(task: usize) -> usize {
    task * 2 + 1
}

/// Until the task has ended. Its thread may not have yet, by a little.
pub(super) fn wait_for_end(task: TaskId) {
    let Some(scheduler) = current() else { return };
    while !matches!(scheduler.state().tasks[task.0].state, TaskState::Ended) {
        wait(Waiting { address: end_address(task.0), deadline_nanos: None });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sync::Mutex as SimMutex;
    use crate::sync::atomic::AtomicU64;
    use crate::sync::{Condvar, JoinHandle};
    use std::sync::atomic::Ordering::SeqCst;

    fn run<T>(seed: u64, f: impl FnOnce(&Arc<Scheduler>) -> T) -> T {
        let standstill: OnStandstill = Arc::new(|told| panic!("nobody can go on:\n{told}"));
        Scheduler::run(Pace { seed, points_between: 3 }, standstill, f)
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
            spawn("endless", Some(Life(1)), endless).unwrap();
            sleep(Duration::from_millis(100));
            scheduler.end_life(Life(1));
            let seen = count.load(SeqCst);
            assert!(seen > 10);
            sleep(Duration::from_millis(100));
            assert_eq!(count.load(SeqCst), seen);
        });
    }
}
