//! A cluster that an earlier build has made opens, keeps every definition, and knows what each of them needs.

use kilndb_lab::client::{Client, ClientError};
use kilndb_lab::process::{self, TempDir};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Made by the last build that kept no dependencies of columns: tests/clusters/before-layers.sql says with what.
const BEFORE_LAYERS: &str = "before-layers.tar.xz";

fn unpack(name: &str, data: &Path) {
    let archive = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clusters").join(name);
    std::fs::create_dir(data).expect("a folder for the cluster");
    let done = Command::new("tar").arg("-xJf").arg(&archive).arg("-C").arg(data).status().expect("tar runs");
    assert!(done.success(), "{} is unpacked", archive.display());
}

fn rows(client: &mut Client, sql: &str) -> Vec<String> {
    let answers = client.query(sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
    let cells = |row: &Vec<Option<String>>| {
        row.iter().map(|cell| cell.clone().unwrap_or_else(|| "NULL".into())).collect::<Vec<_>>().join(" ")
    };
    answers.iter().flat_map(|answer| answer.rows.iter().map(cells)).collect()
}

fn refusal(client: &mut Client, sql: &str) -> String {
    match client.query(sql) {
        Err(ClientError::Server(e)) => format!("{} {}", e.code, e.detail.unwrap_or(e.message)),
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn a_cluster_from_before_columns_had_dependencies_opens() {
    let folder = TempDir::new("older").expect("a temporary folder");
    let data: PathBuf = folder.path().join("data");
    unpack(BEFORE_LAYERS, &data);
    // As it is: opened in memory alone, it is brought up to date there.
    process::check_kilndb(&data).expect("nothing is wrong with the cluster");

    let port = process::free_port().expect("a free port");
    let server = process::start_kilndb(&data, port, &[]).expect("the server starts");
    let mut client = Client::connect(server.address(), "postgres").expect("a connection");
    let definitions = "select 'constraint', conname::text from pg_constraint where oid >= 16384 union all \
        select 'relation ' || relkind::text, relname from pg_class where oid >= 16384 \
            and relnamespace not in ('pg_catalog'::regnamespace, 'information_schema'::regnamespace) union all \
        select 'routine', proname from pg_proc where oid >= 16384 union all \
        select 'type ' || typtype::text, typname from pg_type where oid >= 16384 and typtype not in ('b', 'c') union all \
        select 'trigger', tgname from pg_trigger where not tgisinternal union all \
        select 'default', count(*)::text from pg_attrdef order by 1, 2";
    let found = rows(&mut client, definitions);
    let expected =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/clusters/before-layers.txt"))
            .expect("the list of definitions");
    assert_eq!(found.join("\n"), expected.trim_end());

    // Views of the system that are newer than the cluster.
    assert_eq!(rows(&mut client, "select count(*) from pg_stat_plans"), ["0"]);
    assert_eq!(rows(&mut client, "select bytes >= snapshots_bytes from kiln_stat_undo"), ["t"]);
    assert_eq!(rows(&mut client, "select id, a, b, g from t order by id"), ["1 5 one 10", "2 12 two 24", "3 3 x 6"]);
    assert_eq!(rows(&mut client, "select x from w order by 1"), ["4", "6", "13"]);
    assert_eq!(rows(&mut client, "select body(4), f(1), count(*) from sc.iv"), ["2 2 0"]);
    assert_eq!(rows(&mut client, "select * from ty"), ["y x NULL NULL {x}"]);

    // What needs what, which that build did not keep.
    let because = |detail: &str| format!("2BP01 {detail}");
    assert_eq!(
        refusal(&mut client, "alter table t drop column a"),
        because(
            "column g of table t depends on column a of table t\nview v depends on column a of table t\n\
             view w depends on view v\nfunction body(integer) depends on view v\n\
             view grouped depends on column a of table t\nfunction pr(integer) depends on column a of table t\n\
             trigger tr on table t depends on column a of table t"
        )
    );
    server.stop().expect("the server stops");
    process::check_kilndb(&data).expect("nothing is wrong afterwards");
}
