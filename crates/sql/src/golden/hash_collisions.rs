//! Keys with the same hash code are told apart, whatever looks for them.

use super::Shower;
use crate::session::temporary_instance::TemporaryInstance;
use kilndb_base::{Result, work};
use kilndb_catalog::CatalogView;
use kilndb_catalog::key_range::append;
use kilndb_storage::RelationKind;
use kilndb_types::Datum;
use std::collections::HashMap;

/// Two integers with the same code in the index of table `item`.
fn colliding_integers(shower: &mut Shower) -> Result<(i32, i32)> {
    let (session, runtime) = (&mut shower.session, &shower.runtime);
    work::under(runtime, || {
        session.begin_block(runtime)?;
        let table = session.context.with_catalog(runtime, |host| host.reader.table_by_name(None, "item"))?;
        session.commit(runtime)?;
        let index = table.expect("a table").indexes[0].clone();
        let mut by_code = HashMap::new();
        for n in 0..1_000_000 {
            let mut key = Vec::new();
            append(&index.keys[0], &Datum::Int4(n), &mut key)?;
            if let Some(other) = by_code.insert(RelationKind::Hash.kept_key(&key).into_owned(), n) {
                return Ok((other, n));
            }
        }
        panic!("no two of a million integers have one code");
    })
}

#[test]
fn rows_with_one_code_are_told_apart() {
    let cluster = TemporaryInstance::open("hash-collisions");
    let mut shower = Shower::connect(&cluster).unwrap();
    shower.query("create table item (id int, name text); create index on item using hash (id)").unwrap();
    let (a, b) = colliding_integers(&mut shower).unwrap();
    let setup = format!(
        "insert into item values ({a}, 'a'), ({b}, 'b'), ({a}, 'another a');
         insert into item select -i, 'more' from generate_series(1, 500) i; analyze item; set enable_seqscan = off"
    );
    shower.query(&setup).unwrap();
    let mut check = |sql: &str, expected: &[&str]| {
        let sql = sql.replace("$a", &a.to_string()).replace("$b", &b.to_string());
        let rows: Vec<String> = shower.query(&sql).unwrap().into_iter().map(|row| row.join("|")).collect();
        assert_eq!(rows, expected, "{sql}");
    };
    check("select name from item where id = $a order by name", &["a", "another a"]);
    check("select name from item where id = $b", &["b"]);
    check("select name from item where id in ($b, $a) order by name", &["a", "another a", "b"]);
    check(
        "select v, name from (values ($a), ($b)) v (v) join item on id = v order by name",
        &[&format!("{a}|a"), &format!("{a}|another a"), &format!("{b}|b")],
    );
    check("update item set id = $b where name = 'a'", &[]);
    check("select name from item where id = $b order by name", &["a", "b"]);
    check("select name from item where id = $a", &["another a"]);
    check(
        "begin; update item set id = $a where id = $b; select name from item where id = $a order by name",
        &["a", "another a", "b"],
    );
    check("rollback; select name from item where id = $a", &["another a"]);
    check("delete from item where id = $a", &[]);
    check("select name from item where id in ($a, $b) order by name", &["a", "b"]);
    let Shower { mut session, runtime } = shower;
    work::under(&runtime, || session.close(&runtime));
}
