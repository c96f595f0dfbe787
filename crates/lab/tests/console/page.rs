//! The console's page in a browser, while the server is at work.

use crate::ConsoleServer;
use crate::browser::{DESK_PX, LOOK_SCRIPT, Look, PHONE_PX, PageColours, Scheme, chromium, picture_path};
use crate::devtools::BrowserPage;
use kilndb_lab::client::Client;
use kilndb_lab::guard::SetAtEnd;
use serde::Deserialize;
use serde_json::Value;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::Scope;
use std::time::{Duration, Instant};

/// The tables that clients work on: one row that all want, a queue, partitions, texts with an inverted index.
const TABLES: &str = "\
    create table seat (id int primary key, taken int); insert into seat select n, 0 from generate_series(1, 50) n; \
    create table account (id int primary key, balance int); insert into account select n, 0 from generate_series(1, 10) n; \
    create table job (id bigint generated always as identity primary key, made timestamptz default clock_timestamp(), task text); \
    create table reading (id bigint generated always as identity, device int, value int) partition by hash (device); \
    create table note (id bigint generated always as identity primary key, words text[]); create index on note using gin (words); \
    do $$ begin for i in 0..31 loop \
        execute format('create table reading_%s partition of reading for values with (modulus 32, remainder %s)', i, i); \
    end loop; end $$";

/// A statement that a client says again and again, with a pause behind each.
struct Load {
    statement: &'static str,
    clients: usize,
    pause_ms: u64,
}

static SEAT_42: Load = Load { statement: "update seat set taken = taken + 1 where id = 42", clients: 3, pause_ms: 1 };

static OTHER_LOADS: [Load; 5] = [
    Load { statement: "insert into job (task) select 'a task' from generate_series(1, 4)", clients: 1, pause_ms: 5 },
    Load {
        statement: "delete from job where id in (select id from job order by id limit 4 for update skip locked)",
        clients: 1,
        pause_ms: 5,
    },
    Load {
        statement: "insert into reading (device, value) select random() * random() * 100, 7",
        clients: 1,
        pause_ms: 5,
    },
    Load {
        statement: "select count(*) from generate_series(1, 100000) where pg_sleep(0) is not null",
        clients: 1,
        pause_ms: 300,
    },
    Load { statement: "insert into note (words) values (array['one', 'word', 'or', 'two'])", clients: 1, pause_ms: 20 },
];

/// One page at a time: how soon something is shown is measured.
fn only_browser() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn no_chromium() {
    eprintln!("there is no Chromium: the console is not looked at");
}

impl Load {
    /// Begins, and goes on until the flag is set.
    fn begin<'scope>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        server: &'scope ConsoleServer,
        is_over: &'scope AtomicBool,
    ) {
        for _ in 0..self.clients {
            scope.spawn(move || {
                let mut client = server.client();
                while !is_over.load(Ordering::Relaxed) {
                    client.query(self.statement).unwrap_or_else(|e| panic!("{}: {e}", self.statement));
                    std::thread::sleep(Duration::from_millis(self.pause_ms));
                }
            });
        }
    }
}

/// Sessions that hold a row, wait for it, and keep an old snapshot, as long as they are connected.
fn hold_things(server: &ConsoleServer) -> Vec<Client> {
    let (mut holder, mut first, mut second, mut reader) =
        (server.client(), server.client(), server.client(), server.client());
    holder.query("begin; update account set balance = 1 where id = 7").expect("it is held");
    for waiter in [&mut first, &mut second] {
        waiter.send("update account set balance = balance + 1 where id = 7 and balance < 1000000").expect("it is sent");
    }
    reader.query("begin isolation level repeatable read; select count(*) from seat").expect("a snapshot");
    vec![holder, first, second, reader]
}

fn url(server: &ConsoleServer) -> String {
    format!("http://{}/", server.place)
}

/// The texts of a table's cells, row by row; null: it is not there.
fn cells(table: &str) -> String {
    format!(
        "(() => {{ const rows = [...document.querySelectorAll('[data-table=\"{table}\"] tr')].slice(1); \
         return rows.map(row => [...row.cells].map(cell => cell.textContent)); }})()"
    )
}

fn has_seat_42(rows: &Value) -> bool {
    let is_it = |row: &Value| row[0] == "public.seat" && row.as_array().is_some_and(|row| row.contains(&"42".into()));
    rows.as_array().is_some_and(|rows| rows.iter().any(is_it))
}

#[test]
fn a_planted_hot_row_is_shown_within_two_seconds() {
    let Some(program) = chromium() else { return no_chromium() };
    let _one = only_browser();
    let server = ConsoleServer::start();
    server.client().query(TABLES).expect("tables");
    let mut page = BrowserPage::start(&program);
    page.open(&url(&server));
    page.wait_for("document.getElementById('state')?.textContent", |state| {
        state.as_str().is_some_and(|state| state.starts_with("as of"))
    });
    assert!(!has_seat_42(&page.value(&cells("hot_rows"))));
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = SetAtEnd(&is_over);
        // From the first update, on a page that is open.
        SEAT_42.begin(scope, &server, &is_over);
        let (_, of_updates) = page.wait_for(&cells("hot_rows"), has_seat_42);
        // From the request for the page, while the updates go on.
        page.value("window.isTheOldOne = true");
        let began = Instant::now();
        page.open(&url(&server));
        page.wait_for(&format!("window.isTheOldOne ? [] : {}", cells("hot_rows")), has_seat_42);
        let of_page = began.elapsed();
        eprintln!("shown {of_updates:?} after the first update, {of_page:?} after the page was asked for");
        assert!(of_updates.max(of_page) < Duration::from_secs(2), "{of_updates:?}, {of_page:?}");
    });
    assert!(page.problems().is_empty(), "{:#?}", page.problems());
}

#[derive(Deserialize)]
struct Findings {
    look: Look,
    colours: PageColours,
}

fn findings(page: &mut BrowserPage) -> Findings {
    let script = format!(
        "(() => {{ {LOOK_SCRIPT}\n[page, view] = [document, window];\n\
         document.querySelectorAll('details').forEach(details => details.setAttribute('open', ''));\n\
         return {{ look: look(), colours: colours(document.body) }}; }})()"
    );
    let found = page.value(&script);
    serde_json::from_value(found.clone()).unwrap_or_else(|e| panic!("{e}: {found}"))
}

/// The sections that have something to show under this load.
const FULL_TABLES: [&str; 12] = [
    "hot_rows",
    "queues",
    "sessions",
    "undo",
    "snapshots",
    "locks",
    "statements",
    "slow_statements",
    "tables",
    "inverted_indexes",
    "log",
    "checkpoints",
];

/// What the page says of throughput now, once it is another than before.
fn assert_updates_itself(page: &mut BrowserPage) {
    let rates = "[...document.querySelectorAll('#rates dd')].map(rate => rate.textContent).join(' ')";
    page.value("window.isStillTheSame = true");
    let (first, _) = page.wait_for(rates, |rates| rates != "");
    let (second, _) = page.wait_for(rates, |rates| *rates != first);
    let (_, lasts) = page.wait_for(rates, |rates| *rates != first && *rates != second);
    assert!(lasts < Duration::from_secs(5), "{first}, {second}");
    assert_eq!(page.value("window.isStillTheSame"), true, "nobody has loaded it anew");
    let points = "document.querySelector('#chart path').getAttribute('d').split('L').length";
    page.wait_for(points, |points| points.as_u64().is_some_and(|points| points >= 3));
}

/// A plan that somebody reads stays open while the page goes on.
fn assert_plans_stay_open(page: &mut BrowserPage) {
    let state = "document.getElementById('state').textContent";
    let open = "[...document.querySelectorAll('[data-table=slow_statements] details[open] pre')].map(plan => plan.textContent).join()";
    page.value("document.querySelector('[data-table=slow_statements] details').open = true");
    let plan = page.value(open);
    assert!(plan.as_str().is_some_and(|plan| !plan.is_empty()), "{plan}");
    for _ in 0..2 {
        let before = page.value(state);
        page.wait_for(state, |now| *now != before);
    }
    assert_eq!(page.value(open), plan);
}

/// Half of the commits and 99 % of them, as figures and as lines; rows that come into the queue and go.
fn assert_shows_rates(page: &mut BrowserPage) {
    let figures = "[...document.querySelectorAll('[data-rate=p50] dd, [data-rate=p99] dd')].filter(figure => / ms$/.test(figure.textContent)).length";
    page.wait_for(figures, |figures| *figures == 2);
    for line in ["path:not(.second)", "path.second"] {
        let points = format!("document.querySelector('#latency-chart {line}').getAttribute('d').split('L').length");
        page.wait_for(&points, |points| points.as_u64().is_some_and(|points| points >= 3));
    }
    let is_busy = |row: &Value| {
        let number = |at: usize| row[at].as_str().and_then(|text| text.replace(',', "").parse::<f64>().ok());
        row[0] == "public.job" && number(2) > Some(0.0) && number(3) > Some(0.0) && number(4) >= Some(0.0)
    };
    page.wait_for(&cells("queues"), |rows| rows.as_array().is_some_and(|rows| rows.iter().any(is_busy)));
}

fn assert_shows_the_load(page: &mut BrowserPage) {
    for table in FULL_TABLES {
        page.wait_for(&cells(table), |rows| rows.as_array().is_some_and(|rows| !rows.is_empty()));
    }
    page.wait_for(&cells("hot_rows"), has_seat_42);
    let waits = |rows: &Value| rows.to_string().matches("update account set balance = balance + 1").count() == 2;
    let (locks, _) = page.wait_for(&cells("locks"), waits);
    // Who holds it stands above those that wait for him.
    let cell = |row: usize, column: usize| locks[row][column].as_str().unwrap_or_default().to_string();
    assert!(!cell(0, 0).contains('└') && cell(0, 4).contains("set balance = 1 where id = 7"), "{locks}");
    assert!((1..=2).all(|row| cell(row, 0).trim_start().starts_with('└')), "{locks}");
    let squares = page.value("document.querySelectorAll('#partitions .heat span').length");
    assert_eq!(squares, 32, "a square for each partition");
    let changed = "[...document.querySelectorAll('#partitions .heat span')].filter(part => Number(part.style.opacity) > 0.5).length";
    page.wait_for(changed, |changed| changed.as_u64().is_some_and(|changed| changed > 0));
}

#[test]
fn the_page_under_load_can_be_read_at_both_widths_light_and_dark() {
    let Some(program) = chromium() else { return no_chromium() };
    let _one = only_browser();
    let server = ConsoleServer::start();
    server.client().query(TABLES).expect("tables");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let _over = SetAtEnd(&is_over);
        SEAT_42.begin(scope, &server, &is_over);
        OTHER_LOADS.iter().for_each(|load| load.begin(scope, &server, &is_over));
        let _held = hold_things(&server);
        let mut page = BrowserPage::start(&program);
        page.set_look((DESK_PX, 900), Scheme::Light);
        page.open(&url(&server));
        assert_shows_the_load(&mut page);
        assert_updates_itself(&mut page);
        assert_shows_rates(&mut page);
        assert_plans_stay_open(&mut page);
        for width_px in [DESK_PX, PHONE_PX] {
            for scheme in [Scheme::Light, Scheme::Dark] {
                page.set_look((width_px, 900), scheme);
                let of = format!("the console at {width_px} px, {scheme:?}");
                let found = findings(&mut page);
                if let Some(picture) = picture_path("console", width_px, scheme) {
                    take_picture(&mut page, width_px, scheme, picture);
                }
                found.look.assert_readable(width_px, &of);
                found.colours.assert_contrast(scheme, &of);
            }
        }
        assert!(page.problems().is_empty(), "{:#?}", page.problems());
    });
}

/// For whoever wants to look, with plans folded as they are at first.
fn take_picture(page: &mut BrowserPage, width_px: u32, scheme: Scheme, into: PathBuf) {
    page.value("document.querySelectorAll('details').forEach(details => { details.open = false; })");
    let height_px = page.value("document.documentElement.scrollHeight").as_u64().unwrap_or(900);
    page.set_look((width_px, u32::try_from(height_px).unwrap_or(900)), scheme);
    page.picture(&into);
    page.set_look((width_px, 900), scheme);
}
