//! Every built-in function of the catalog with large arguments: between two looks for a cancel request lies little work,
//! and a cancelled call ends.
//!
//! Work is the thread's processor time, in units of what looking at a byte takes on the same machine at the same time, and
//! the least of several tries: not the time that passes.

/// The server's own: a large block grows without being copied, as the C library's allocator does it within one step.
#[path = "../../server/src/large_blocks.rs"]
mod large_blocks;
mod support;

use kilndb_base::park::{Park, WakeHandle};
use kilndb_base::{Error, Oid, Result, sqlstate, work};
use kilndb_catalog::FunctionInfo;
use kilndb_catalog::builtin::BUILTINS;
use kilndb_catalog::value_host::CatalogHost;
use kilndb_types::{Datum, EvalContext, FormatSettings, functions, io, oids};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::Arc;
use support::TestCatalog;

#[global_allocator]
static ALLOCATOR: large_blocks::LargeBlocks<std::alloc::System> = large_blocks::LargeBlocks(std::alloc::System);

const INT4MULTIRANGE: Oid = 4451;
/// So much work may lie between two looks: as looking once at each byte of the long texts, without a pause, would be too
/// much. What is measured is half of it at most.
const UNITS_BETWEEN_LOOKS: u64 = 16_000_000;
/// A call that has asked so often is told that it is cancelled.
const CANCELLED_AFTER_LOOKS: u32 = 200;
/// Who takes notice hands the error on, at once or after freeing what he has.
const LOOKS_AFTER_CANCEL: u32 = 3;
const TRIES: usize = 4;

/// The processor time that the calling thread has used, in ns.
fn processor_nanos() -> u64 {
    let mut t = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `t` is a valid place for the answer.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut t) };
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// What looking at a million bytes takes now: a unit is a millionth of it.
fn million_units_nanos() -> u64 {
    let bytes: Vec<u8> = (0..1_000_000u32).map(|i| i as u8).collect();
    let begun = processor_nanos();
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3));
    let taken = processor_nanos() - begun;
    assert_ne!(std::hint::black_box(hash), 0);
    taken.max(1)
}

/// Takes notice of how much lies between two looks.
struct Watch {
    last_nanos: Cell<u64>,
    longest_nanos: Cell<u64>,
    looks: Cell<u32>,
}

impl Watch {
    fn note(&self) {
        let now = processor_nanos();
        self.longest_nanos.set(self.longest_nanos.get().max(now - self.last_nanos.get()));
        self.last_nanos.set(processor_nanos());
    }
}

impl Park for Watch {
    fn wake_handle(&self) -> WakeHandle {
        unreachable!("nobody waits here")
    }
    fn park(&self, _deadline_nanos: Option<u64>) -> Result<()> {
        Ok(())
    }
    fn park_uninterruptible(&self) {}
    fn checkpoint(&self) -> Result<()> {
        self.note();
        self.looks.set(self.looks.get() + 1);
        if self.looks.get() >= CANCELLED_AFTER_LOOKS {
            return Err(Error::new(sqlstate::QUERY_CANCELED, "canceled"));
        }
        Ok(())
    }
    fn run_apart(&self, f: &mut (dyn FnMut() + Send)) -> Result<()> {
        self.note();
        // It takes nobody's turn.
        f();
        self.last_nanos.set(processor_nanos());
        Ok(())
    }
}

/// Large values by the type of argument, and small ones of the other types.
struct Values {
    large: HashMap<Oid, Datum>,
    small: HashMap<Oid, Datum>,
}

impl Values {
    fn new(cx: &EvalContext<'_>) -> Values {
        let read = |oid: Oid, text: &str| io::input(oid, text, -1, cx).unwrap_or_else(|e| panic!("{oid}: {e:?}"));
        let list = |n: usize, element: &str| format!("{{{}{element}}}", format!("{element},").repeat(n - 1));
        let text = "ab cd\u{e9} ".repeat(2_000_000);
        let json = format!("[{}1]", r#"{"a": [1, "b", null]},"#.repeat(100_000));
        let words: Vec<String> = (0..30_000).map(|i| format!("w{i}")).collect();
        let ranges: Vec<String> = (0..50_000).map(|i| format!("[{},{})", 2 * i, 2 * i + 1)).collect();
        let ints = read(oids::INT4_ARRAY, &list(400_000, "7"));
        let large = [
            (oids::TEXT, Datum::text(&text)),
            (oids::BYTEA, Datum::Bytea(text.as_bytes().into())),
            (oids::NUMERIC, read(oids::NUMERIC, &format!("{}.{}", "7".repeat(20_000), "3".repeat(5_000)))),
            (oids::JSON, read(oids::JSON, &json)),
            (oids::JSONB, read(oids::JSONB, &json)),
            (oids::INT4_ARRAY, ints.clone()),
            (oids::ANYARRAY, ints.clone()),
            (oids::ANYCOMPATIBLEARRAY, ints),
            (oids::TEXT_ARRAY, read(oids::TEXT_ARRAY, &list(200_000, "abc"))),
            (oids::TSVECTOR, read(oids::TSVECTOR, &words.join(" "))),
            (oids::TSQUERY, read(oids::TSQUERY, &format!("{}b", "a & ".repeat(2_000)))),
            (oids::VARBIT, read(oids::VARBIT, &"10".repeat(2_000_000))),
            (oids::BIT, read(oids::VARBIT, &"10".repeat(2_000_000))),
            (oids::ANYMULTIRANGE, read(INT4MULTIRANGE, &format!("{{{}}}", ranges.join(",")))),
        ];
        let small = [
            (oids::INT2, "7"),
            (oids::INT4, "7"),
            (oids::INT8, "7"),
            (oids::BOOL, "true"),
            (oids::FLOAT8, "0.5"),
            (oids::FLOAT4, "0.5"),
            (oids::NAME, "pg_class"),
            (oids::CHAR, "a"),
            (oids::INTERVAL, "1 day"),
            (oids::TIMESTAMPTZ, "2026-01-01 00:00:00+00"),
            (oids::TIMESTAMP, "2026-01-01"),
            (oids::DATE, "2026-01-01"),
            (oids::TIME, "12:00"),
            (oids::JSONPATH, "$.**"),
            (oids::BPCHAR, "abc"),
            (oids::INET, "10.0.0.1"),
        ];
        let mut small: HashMap<Oid, Datum> = small.iter().map(|(oid, text)| (*oid, read(*oid, text))).collect();
        for polymorphic in [oids::ANYELEMENT, oids::ANYNONARRAY, oids::ANYCOMPATIBLE, oids::ANY] {
            small.insert(polymorphic, Datum::Int4(7));
        }
        small.insert(oids::OID, Datum::Oid(25));
        small.insert(oids::ANYRANGE, read(oids::INT4RANGE, "[1,5)"));
        Values { large: large.into_iter().collect(), small }
    }

    /// None: no argument can be large, or one is of a type that has no value here.
    fn arguments(&self, f: &FunctionInfo) -> Option<Vec<Datum>> {
        let is_large = f.arg_types.iter().any(|oid| self.large.contains_key(oid));
        let value = |oid: &Oid| self.large.get(oid).or_else(|| self.small.get(oid)).cloned();
        if is_large { f.arg_types.iter().map(value).collect() } else { None }
    }
}

/// How much lies between two looks at most, in units, and what is wrong with the call besides.
fn call(f: functions::ScalarFn, arguments: &[Datum], cx: &EvalContext<'_>) -> (u64, Option<String>) {
    let watch = Watch { last_nanos: Cell::new(processor_nanos()), longest_nanos: Cell::new(0), looks: Cell::new(0) };
    let units_before = million_units_nanos();
    watch.last_nanos.set(processor_nanos());
    let result = work::under(&watch, || {
        let result = f(cx, arguments);
        watch.note();
        result
    });
    let units = watch.longest_nanos.get() * 1_000_000 / units_before.max(million_units_nanos());
    let looks = watch.looks.get();
    let problem = match result {
        _ if looks < CANCELLED_AFTER_LOOKS => None,
        Err(e) if e.is_interruption() && looks <= CANCELLED_AFTER_LOOKS + LOOKS_AFTER_CANCEL => None,
        Err(e) if e.is_interruption() => {
            Some(format!("{} looks after it was cancelled", looks - CANCELLED_AFTER_LOOKS))
        }
        Err(e) => Some(format!("cancelled, it says {e:?}")),
        Ok(_) => Some("cancelled, it gives a result".to_string()),
    };
    (units, problem)
}

#[test]
fn large_arguments_leave_others_their_turn() {
    // The stack is as large as those of the server's statements.
    let all = || {
        let (catalog, format) = (TestCatalog { tables: HashMap::new() }, FormatSettings::default());
        let random_state = Cell::new([1, 2]);
        let cx = EvalContext {
            format: &format,
            transaction_timestamp: 0,
            statement_timestamp: 0,
            host: &CatalogHost(&catalog),
            random_state: &random_state,
            clock_was_read: None,
        };
        let values = Values::new(&cx);
        let mut functions: Vec<&Arc<FunctionInfo>> = BUILTINS.functions.values().collect();
        functions.sort_by_key(|f| f.oid);
        let (mut called, mut problems) = (0, Vec::new());
        for info in functions {
            let is_plain = info.kind == b'f' && !info.returns_set && info.volatility != b'v';
            let (true, Some(f), Some(arguments)) = (is_plain, functions::lookup(info.oid), values.arguments(info))
            else {
                continue;
            };
            called += 1;
            let (mut least, mut problem) = (u64::MAX, None);
            for _ in 0..TRIES {
                let (units, wrong) = call(f, &arguments, &cx);
                (least, problem) = (least.min(units), wrong);
                if least <= UNITS_BETWEEN_LOOKS || problem.is_some() {
                    break;
                }
            }
            if least > UNITS_BETWEEN_LOOKS {
                problem = Some(format!("{} million units between two looks", least / 1_000_000));
            }
            problems.extend(problem.map(|p| format!("{}:{} {:?}: {p}", info.name, info.oid, info.arg_types)));
        }
        (called, problems)
    };
    let thread = std::thread::Builder::new().stack_size(64 << 20).spawn(all).expect("a thread");
    let (called, problems) = thread.join().expect("no panic");
    assert!(called >= 400, "only {called} functions have been called");
    assert!(problems.is_empty(), "{} of {called} functions:\n{}", problems.len(), problems.join("\n"));
}
