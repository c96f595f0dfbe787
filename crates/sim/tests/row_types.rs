//! Values of row types, stored before and after the types' attributes changed, as they are read after a crash and after
//! a restart.

use kilndb_lab::client::Client;
use kilndb_lab::process::{self, Server, TempDir};

fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    let answers = client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let cells = |row: &Vec<Option<String>>| {
        row.iter().map(|cell| cell.clone().unwrap_or_else(|| "NULL".into())).collect::<Vec<_>>().join(" ")
    };
    answers.iter().flat_map(|answer| answer.rows.iter().map(cells)).collect()
}

fn connect(server: &Server) -> Client {
    Client::connect(server.address(), "postgres").expect("a connection")
}

#[test]
fn stored_rows_are_read_by_the_attributes_that_there_are_after_a_crash() {
    let folder = TempDir::new("row-types").expect("a temporary folder");
    let data = folder.path().join("data");
    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let mut client = connect(&server);
    for sql in [
        "create type c as (a int, b text, d int)",
        "create table u (id int, v c, many c[]); create unique index on u (v)",
        "insert into u values (1, (1, 'x', 10), array[(1, 'p', 11)::c, null])",
        "alter type c drop attribute b",
        "insert into u values (2, (2, 20), array[(2, 22)::c])",
        "alter type c add attribute e text",
        "insert into u values (3, (3, 30, 'z'), null)",
        "checkpoint",
        "alter type c drop attribute a",
        "insert into u values (4, (40, 'y'), '{}')",
    ] {
        client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    // Not committed when the server goes.
    let mut other = connect(&server);
    for sql in ["begin", "alter type c drop attribute e", "insert into u values (5, row(50), null)"] {
        other.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    }
    server.kill().expect("the server is killed");

    let expected = ["1 (10,) {\"(11,)\",NULL}", "2 (20,) {\"(22,)\"}", "3 (30,z) NULL", "4 (40,y) {}"];
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let mut client = connect(&server);
    assert_eq!(rows(&mut client, "select * from u order by id"), expected);
    let by_index = "set enable_seqscan = off; select id from u where v = row(20, null)::c";
    assert_eq!(rows(&mut client, by_index), ["2"]);
    client.query("update u set v.e = 'new' where id = 2").expect("a change");
    client.query("alter type c add attribute f int, drop attribute d").expect("another change");
    server.stop().expect("the server stops");
    process::check_kilndb(&data).expect("nothing is wrong afterwards");

    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let mut client = connect(&server);
    let found = rows(&mut client, "select id, v from u order by id");
    assert_eq!(found, ["1 (,)", "2 (new,)", "3 (z,)", "4 (y,)"]);
    server.stop().expect("the server stops");
}
