//! plan_guard, seen from outside: statistics that mislead the planner under prepared statements.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, TempDir};
use std::time::Instant;

const SETTINGS: &[&str] = &["autovacuum=off"];

fn run(client: &mut Client, statements: &[&str]) {
    for sql in statements {
        client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e:?}"));
    }
}

/// Twenty statements: their texts, and the value that each is executed with.
fn statements() -> Vec<(String, u32)> {
    (0..5)
        .flat_map(|i| {
            [
                (
                    format!(
                        "select count(*), sum(l.qty) from customers c join orders o on o.customer = c.id
                         join lines l on l.order_id = o.id where c.region = $1 and l.qty <> {i}"
                    ),
                    7,
                ),
                (
                    format!(
                        "select count(*) from orders o join lines l on l.order_id = o.id
                         where o.kind = $1 and o.note <> 'x{i}'"
                    ),
                    3,
                ),
                (
                    format!(
                        "select count(*) from lines l join orders o on l.order_id = o.id
                         join customers c on c.id = o.customer where l.item = $1 and c.name <> 'x{i}'"
                    ),
                    9,
                ),
                (
                    format!(
                        "select o.id, sum(l.qty) from orders o join lines l on l.order_id = o.id
                         where o.day = $1 and o.kind <> {} group by o.id order by 2 desc, 1 limit 5",
                        i + 20
                    ),
                    9,
                ),
            ]
        })
        .collect()
}

fn prepare(client: &mut Client) {
    for (i, (sql, _)) in statements().iter().enumerate() {
        run(client, &[&format!("prepare s{i}(int) as {sql}")]);
    }
}

/// The median time of each statement's executions, in seconds.
fn medians(client: &mut Client, executions: usize) -> Vec<f64> {
    let statements = statements();
    let mut times = vec![Vec::new(); statements.len()];
    for _ in 0..executions {
        for (i, (_, value)) in statements.iter().enumerate() {
            let began = Instant::now();
            run(client, &[&format!("execute s{i}({value})")]);
            times[i].push(began.elapsed().as_secs_f64());
        }
    }
    times
        .into_iter()
        .map(|mut t| {
            t.sort_by(f64::total_cmp);
            t[t.len() / 2]
        })
        .collect()
}

/// What all statements answer, so that plans are seen to give the same rows.
fn answers(client: &mut Client) -> Vec<String> {
    let rows = |(i, (_, value)): (usize, &(String, u32))| {
        format!("{:?}", client.query(&format!("execute s{i}({value})")).expect("an answer"))
    };
    statements().iter().enumerate().map(rows).collect()
}

#[test]
fn a_former_plan_returns_when_statistics_mislead() {
    let folder = TempDir::new("plan-guard").expect("a temporary folder");
    let (data, port) = (folder.path().join("data"), process::free_port().expect("a free port"));
    let server = process::start_kilndb(&data, port, SETTINGS).expect("the server starts");
    let connect = || Client::connect(server.address(), "postgres").expect("a connection");
    let (mut guarded, mut plain) = (connect(), connect());
    run(
        &mut guarded,
        &[
            "create table customers (id int primary key, region int, name text)",
            "create table orders (id int primary key, customer int, kind int, day int, note text)",
            "create table lines (id int primary key, order_id int, item int, qty int)",
            "insert into customers select i, i % 50, 'c' || i from generate_series(1, 500) i",
            "insert into orders select i, i % 500 + 1, i % 10, i % 365, 'n' || i from generate_series(1, 10000) i",
            "insert into lines select i, i % 10000 + 1, i % 500, i % 7 from generate_series(1, 30000) i",
            "create index on customers (region)",
            "create index on orders (customer)",
            "create index on orders (kind)",
            "create index on orders (day)",
            "create index on lines (order_id)",
            "create index on lines (item)",
            "analyze customers, orders, lines",
            "set plan_guard = on",
        ],
    );
    prepare(&mut guarded);
    prepare(&mut plain);
    let right = answers(&mut guarded);
    let before = medians(&mut guarded, 8);
    // What is analyzed is not what is there afterwards.
    run(
        &mut guarded,
        &[
            "update orders set kind = -1, customer = -1, day = -1",
            "update lines set item = -1, order_id = -1",
            "analyze orders, lines",
            "update orders set kind = id % 10, customer = id % 500 + 1, day = id % 365",
            "update lines set item = id % 500, order_id = id % 10000 + 1",
        ],
    );
    medians(&mut guarded, 10);
    assert_eq!(answers(&mut guarded), right);
    let with_guard: f64 = medians(&mut guarded, 5).iter().sum();
    medians(&mut plain, 1);
    let without: f64 = medians(&mut plain, 3).iter().sum();
    let former: f64 = before.iter().sum();
    println!("before {former:.4} s, guarded {with_guard:.4} s, without a guard {without:.4} s");
    assert!(without > 5.0 * former, "the statistics do not mislead: {former} s before, {without} s now");
    assert!(with_guard < without / 3.0, "{with_guard} s with the guard, {without} s without, {former} s before");
    let returned: i64 =
        guarded.integer("select count(*) from pg_stat_plans where plan = 'former' and is_used").expect("pg_stat_plans");
    assert!(returned >= 5, "only {returned} plans have returned");
    // Another session that is watched too begins with what is known.
    run(&mut plain, &["set plan_guard = on"]);
    let shared: f64 = medians(&mut plain, 5).iter().sum();
    assert!(shared < without / 3.0, "{shared} s in another session, {without} s without");
    // A definition that changes ends it: the plan is not that of other indexes.
    run(&mut guarded, &["drop index lines_item_idx", "analyze customers, orders, lines"]);
    assert_eq!(answers(&mut guarded), right);
    drop(server);
}

/// Texts that share a plan by their shape, and a function's statement, both watched.
const OF_NAME: &str = "select count(*), sum(l.qty) from customers c join orders o on o.customer = c.id
    join lines l on l.order_id = o.id where c.name = ";

/// The median time of a statement with other values each time, in seconds.
fn median_of(client: &mut Client, executions: u32, text: impl Fn(u32) -> String) -> f64 {
    let mut times: Vec<f64> = (0..executions)
        .map(|i| {
            let began = Instant::now();
            run(client, &[&text(i)]);
            began.elapsed().as_secs_f64()
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}

#[test]
fn former_plans_return_for_texts_and_routines() {
    let folder = TempDir::new("plan-guard-texts").expect("a temporary folder");
    let (data, port) = (folder.path().join("data"), process::free_port().expect("a free port"));
    let server = process::start_kilndb(&data, port, SETTINGS).expect("the server starts");
    let connect = || Client::connect(server.address(), "postgres").expect("a connection");
    let (mut guarded, mut plain) = (connect(), connect());
    let function = format!(
        "create function of_name(wanted text) returns bigint language plpgsql as
         $$ declare n bigint; total bigint; begin {OF_NAME} wanted into n, total; return n; end $$"
    );
    run(
        &mut guarded,
        &[
            "create table customers (id int primary key, name text)",
            "create table orders (id int primary key, customer int)",
            "create table lines (id int primary key, order_id int, qty int)",
            "insert into customers select i, 'c' || i from generate_series(1, 500) i",
            "insert into orders select i, i % 500 + 1 from generate_series(1, 20000) i",
            "insert into lines select i, i % 20000 + 1, i % 7 from generate_series(1, 60000) i",
            "create index on customers (name)",
            "create index on orders (customer)",
            "create index on lines (order_id)",
            "analyze customers, orders, lines",
            &function,
            "set plan_guard = on",
        ],
    );
    let text = |i: u32| format!("{OF_NAME} 'c{}'", i % 400 + 1);
    let call = |i: u32| format!("select of_name('c{}')", i % 400 + 1);
    let before = [median_of(&mut guarded, 20, text), median_of(&mut guarded, 20, call)];
    // What is analyzed is not what is there afterwards.
    run(
        &mut guarded,
        &[
            "update orders set customer = -1",
            "update lines set order_id = -1",
            "analyze orders, lines",
            "update orders set customer = id % 500 + 1",
            "update lines set order_id = id % 20000 + 1",
        ],
    );
    median_of(&mut guarded, 12, text);
    median_of(&mut guarded, 12, call);
    let with_guard = [median_of(&mut guarded, 10, text), median_of(&mut guarded, 10, call)];
    let without = [median_of(&mut plain, 10, text), median_of(&mut plain, 10, call)];
    println!("before {before:?} s, guarded {with_guard:?} s, without a guard {without:?} s");
    for (way, ((before, guarded), without)) in before.into_iter().zip(with_guard).zip(without).enumerate() {
        assert!(without > 5.0 * before, "{way}: the statistics do not mislead: {before} s before, {without} s now");
        assert!(guarded < without / 3.0, "{way}: {guarded} s with the guard, {without} s without, {before} s before");
    }
    let returned = guarded.integer("select count(*) from pg_stat_plans where plan = 'former' and is_used");
    assert!(returned.expect("pg_stat_plans") >= 2, "the text's plan and the function's have returned");
    let same =
        "select of_name('c7') = (select count(*) from orders o join lines l on l.order_id = o.id where o.customer = 7)";
    assert_eq!(guarded.value(same).expect("an answer").as_deref(), Some("t"));
}
