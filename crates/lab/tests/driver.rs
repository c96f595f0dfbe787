//! The driver of loads against a KilnDB: what scripts do is done, what fails is told, and rates are kept.

use kilndb_lab::client::{Address, Client};
use kilndb_lab::driver::{self, LoadFigures, LoadLength, LoadPlan, LoadProtocol};
use kilndb_lab::process::{self, Server, TempDir};
use kilndb_lab::script::{Script, VariableNames};
use std::time::Duration;

/// Four clients on two threads, ten transactions each.
fn plan(address: &Address, scripts: &[&str]) -> LoadPlan {
    let mut names = VariableNames::default();
    let read = |text: &&str| (Script::read("script", text, &mut names).expect("a script"), 1);
    let scripts = scripts.iter().map(read).collect();
    LoadPlan {
        clients: 4,
        threads: 2,
        scripts,
        names,
        length: LoadLength::Transactions(10),
        seed: 7,
        ..LoadPlan::new(address.clone(), "postgres")
    }
}

struct TestServer {
    server: Server,
    _folder: TempDir,
}

impl TestServer {
    fn start() -> TestServer {
        let folder = TempDir::new("driver").expect("a folder");
        let port = process::free_port().expect("a free port");
        let server = process::start_kilndb(&folder.path().join("data"), port, &[]).expect("the server starts");
        TestServer { server, _folder: folder }
    }
    fn address(&self) -> &Address {
        self.server.address()
    }
    fn client(&self) -> Client {
        Client::connect(self.address(), "postgres").expect("a connection")
    }
    fn run(&self, scripts: &[&str], change: impl FnOnce(&mut LoadPlan)) -> LoadFigures {
        let mut plan = plan(self.address(), scripts);
        change(&mut plan);
        driver::run(&plan).expect("it runs")
    }
}

const PROTOCOLS: [LoadProtocol; 3] = [LoadProtocol::Simple, LoadProtocol::Extended, LoadProtocol::Prepared];

#[test]
fn each_transaction_is_done_once_and_its_rows_are_counted() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table t (client int, n int, s text)").expect("a table");
    let script = "\\set n random(1, 5)\nbegin;\ninsert into t values (:client_id, :n, 'x');\nupdate t set s = 'a-b' || :n where client = :client_id and n = :n;\nend;\n";
    for protocol in PROTOCOLS {
        client.query("truncate t").expect("it is empty");
        let figures = server.run(&[script], |plan| plan.protocol = protocol);
        assert_eq!((figures.transactions(), figures.failures()), (40, 0), "{protocol:?}: {:?}", figures.first_error);
        assert_eq!(client.integer("select count(*) from t").expect("a count"), 40, "{protocol:?}");
        assert_eq!(client.integer("select count(distinct client) from t").expect("a count"), 4);
        assert_eq!(client.integer("select count(*) from t where s <> 'a-b' || n").expect("a count"), 0);
        // An insertion each, and the updates of what had been inserted by then.
        assert!(figures.changed_rows() >= 80, "{protocol:?}: {}", figures.changed_rows());
    }
}

#[test]
fn what_statements_give_becomes_variables() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table seen (a int, b text, c int)").expect("a table");
    let script = "select 7 as a, 'seven' as b \\gset x_\nselect 1 as c \\; select 2 as c \\aset\n\
        \\if :x_a = 7 and :c = 2\ninsert into seen values (:x_a, :x_b, :c);\n\\elif true\ninsert into seen values (0, 'wrong', 0);\n\\endif\n";
    for protocol in [LoadProtocol::Simple, LoadProtocol::Prepared] {
        client.query("truncate seen").expect("it is empty");
        // Several statements at once are for the simple protocol alone.
        let script = match protocol {
            LoadProtocol::Simple => script.replace(":x_b", "':x_b'"),
            _ => script.replace("select 1 as c \\; ", ""),
        };
        let figures = server.run(&[&script], |plan| plan.protocol = protocol);
        assert_eq!((figures.transactions(), figures.failures()), (40, 0), "{:?}", figures.first_error);
        let right = "select count(*) from seen where a = 7 and b = 'seven' and c = 2";
        assert_eq!(client.integer(right).expect("a count"), 40);
    }
}

#[test]
fn a_pipeline_is_answered_as_a_whole() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table p (n int)").expect("a table");
    let script = "\\startpipeline\ninsert into p values (1);\ninsert into p values (2);\n\\syncpipeline\ninsert into p values (3);\n\\endpipeline\nselect 1;\n";
    let figures = server.run(&[script], |_| {});
    assert_eq!((figures.transactions(), figures.changed_rows()), (40, 120), "{:?}", figures.first_error);
    assert_eq!(client.integer("select sum(n) from p").expect("a sum"), 240);
}

#[test]
fn failures_are_told_and_others_go_on() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table f (n int check (n <> 3))").expect("a table");
    let script = "\\set n random(1, 3)\nbegin;\ninsert into f values (:n);\nend;\n";
    let figures = server.run(&[script], |_| {});
    let rows = client.integer("select count(*) from f").expect("a count");
    assert_eq!((figures.transactions() as i64, figures.failures() as i64), (rows, 40 - rows));
    assert!((1..40).contains(&rows), "{rows}");
    assert_eq!(figures.errors.keys().collect::<Vec<_>>(), ["23514"]);
    let of_script = server.run(&["\\set n 1 / 0\n"], |_| {});
    assert_eq!((of_script.failures(), of_script.errors.get("script")), (40, Some(&40)));
    assert!(of_script.first_error.is_some_and(|e| e.contains("line 1: division by zero")));
    let open = server.run(&["begin;\n"], |_| {});
    assert_eq!(open.failures(), 40);
}

#[test]
fn serialization_failures_are_tried_again() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table r (n int); insert into r values (0)").expect("a row");
    let script = "begin isolation level repeatable read;\nselect n from r;\nupdate r set n = n + 1;\nend;\n";
    let figures = server.run(&[script], |plan| plan.tries = 1_000);
    assert_eq!((figures.transactions(), figures.failures()), (40, 0), "{:?}", figures.first_error);
    assert_eq!(client.integer("select n from r").expect("a number"), 40);
}

#[test]
fn a_rate_is_kept_and_waiting_counts() {
    let server = TestServer::start();
    let mut client = server.client();
    client.query("create table w (n int); insert into w values (0)").expect("a row");
    // One client, 50 transactions a second that take 5 ms: it keeps up. Of 1,000 a second it does not, and the waits grow.
    let script = "\\sleep 5 ms\nselect 1;\n";
    let run = |rate: f64| {
        server.run(&[script], |plan| {
            (plan.clients, plan.threads, plan.rate) = (1, 1, Some(rate));
            plan.length = LoadLength::After(Duration::from_secs(2));
        })
    };
    let slow = run(50.0);
    assert!((50..160).contains(&slow.transactions()), "{}", slow.transactions());
    let fast = run(1_000.0);
    assert!(
        fast.percentile_us(50.0) > 10 * slow.percentile_us(50.0),
        "{} {}",
        fast.percentile_us(50.0),
        slow.percentile_us(50.0)
    );
}

#[test]
fn a_server_that_dies_is_told_of() {
    let server = TestServer::start();
    let TestServer { server: running, _folder } = server;
    let address = running.address().clone();
    let killer = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(700));
        running.kill().expect("it is killed");
    });
    let plan = LoadPlan {
        clients: 3,
        threads: 1,
        protocol: LoadProtocol::Simple,
        length: LoadLength::After(Duration::from_secs(20)),
        ..plan(&address, &["select 1;\n"])
    };
    let figures = driver::run(&plan).expect("it ends");
    killer.join().expect("the thread ends");
    assert_eq!(figures.errors.get("08006"), Some(&3), "{:?}", figures.errors);
    assert!(driver::run(&plan).is_err(), "there is no server any more");
}
