//! Parses, binds and plans a text over a small catalog: any text gives plans or an error that points into the text.

#[path = "parse.rs"]
#[allow(dead_code)]
mod parse;
#[path = "../../crates/exec/tests/support/mod.rs"]
mod support;

use support::Db;

thread_local! {
    static DB: Db = open();
}

fn open() -> Db {
    // A folder for each thread.
    let mut db = Db::new(&format!("fuzz-{:?}", std::thread::current().id()));
    db.table(
        "people",
        &[
            ("id", "int4", true, None),
            ("name", "text", false, Some("'nobody'::text")),
            ("age", "int8", false, None),
            ("born", "date", false, None),
        ],
        &[("people_pkey", &["id"], true, true), ("people_age", &["age"], false, false)],
    );
    db.table(
        "pets",
        &[
            ("id", "int4", true, None),
            ("owner", "int4", false, None),
            ("weight", "numeric", false, None),
            ("names", "_text", false, None),
        ],
        &[("pets_pkey", &["id"], true, true)],
    );
    db.foreign_key("pets", 2, "people", b'c');
    // Nothing is written any more, and the process may end without a word.
    db.forget_folder();
    db
}

pub fn run(data: &[u8]) {
    let Ok(sql) = std::str::from_utf8(data) else { return };
    if let Err(e) = plan(sql) {
        parse::check_position(&e, sql);
        assert!(e.sqlstate() != kilndb_base::sqlstate::INTERNAL_ERROR, "{e:?}");
    }
}

pub fn plan(sql: &str) -> kilndb_base::Result<()> {
    DB.with(|db| db.try_plan(sql))
}
