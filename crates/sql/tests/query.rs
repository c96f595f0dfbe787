//! Statements from text to rows.
mod support;
use support::Db;

fn people(name: &str) -> Db {
    let mut db = Db::new(name);
    db.table(
        "people",
        &[("id", "int4", true, None), ("name", "text", false, Some("'nobody'::text")), ("age", "int4", false, None)],
        &[("people_pkey", &["id"], true, true), ("people_age", &["age"], false, false)],
    );
    db.table("pets", &[("id", "int4", true, None), ("owner", "int4", false, None), ("kind", "text", false, None)], &[("pets_pkey", &["id"], true, true)]);
    db.run("INSERT INTO people VALUES (1, 'ann', 30), (2, 'bob', 40), (3, 'cid', NULL)");
    db.run("INSERT INTO pets VALUES (10, 1, 'cat'), (11, 1, 'dog'), (12, 2, 'emu'), (13, NULL, 'fox')");
    db
}

#[test]
fn select_and_write() {
    let db = people("basic");
    assert_eq!(db.rows("SELECT * FROM people WHERE id = 2"), ["2|bob|40"]);
    assert_eq!(db.rows("SELECT name FROM people ORDER BY age DESC NULLS LAST, id"), ["bob", "ann", "cid"]);
    assert_eq!(db.rows("SELECT count(*) FROM people"), ["3"]);
    assert_eq!(db.rows("SELECT count(*), count(age) FROM people WHERE id < 3"), ["2|2"]);
    assert_eq!(db.run("UPDATE people SET age = age + 1 WHERE id = 1"), 1);
    assert_eq!(db.rows("SELECT age FROM people WHERE id = 1"), ["31"]);
    assert_eq!(db.rows("SELECT id FROM people WHERE age = 31"), ["1"]);
    assert!(db.rows("SELECT id FROM people WHERE age = 30").is_empty());
    assert_eq!(db.rows("INSERT INTO people (id) VALUES (4) RETURNING *"), ["4|nobody|NULL"]);
    assert_eq!(db.run("DELETE FROM people WHERE id >= 4"), 1);
    assert_eq!(db.rows("SELECT 1 + 1, 'x' || 'y', NULL::int"), ["2|xy|NULL"]);
}

#[test]
fn joins_and_subqueries() {
    let db = people("joins");
    assert_eq!(
        db.rows("SELECT p.name, x.kind FROM people p JOIN pets x ON x.owner = p.id ORDER BY x.id"),
        ["ann|cat", "ann|dog", "bob|emu"]
    );
    assert_eq!(
        db.rows("SELECT p.name, x.kind FROM people p LEFT JOIN pets x ON x.owner = p.id ORDER BY p.id, x.id"),
        ["ann|cat", "ann|dog", "bob|emu", "cid|NULL"]
    );
    assert_eq!(
        db.rows("SELECT p.id, x.id FROM people p FULL JOIN pets x ON x.owner = p.id ORDER BY 1, 2"),
        ["1|10", "1|11", "2|12", "3|NULL", "NULL|13"]
    );
    assert_eq!(db.rows("SELECT name FROM people WHERE id IN (SELECT owner FROM pets WHERE kind <> 'emu')"), ["ann"]);
    assert_eq!(
        db.rows("SELECT name FROM people p WHERE NOT EXISTS (SELECT 1 FROM pets WHERE owner = p.id)"),
        ["cid"]
    );
    assert_eq!(db.rows("SELECT (SELECT count(*) FROM pets WHERE owner = p.id) FROM people p ORDER BY id"), ["2", "1", "0"]);
    assert_eq!(
        db.rows("SELECT owner, count(*) FROM pets GROUP BY owner HAVING count(*) > 1 ORDER BY 1"),
        ["1|2"]
    );
    assert_eq!(db.rows("SELECT DISTINCT owner FROM pets ORDER BY owner"), ["1", "2", "NULL"]);
    assert_eq!(db.rows("SELECT id FROM people UNION SELECT owner FROM pets ORDER BY 1"), ["1", "2", "3", "NULL"]);
    assert_eq!(db.rows("SELECT * FROM generate_series(1, 3) g, LATERAL (SELECT g * 2) d(x) ORDER BY g"), ["1|2", "2|4", "3|6"]);
    assert_eq!(
        db.rows("WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT n FROM t"),
        ["1", "2", "3", "4"]
    );
    assert_eq!(db.rows("SELECT name FROM people ORDER BY id LIMIT 1 OFFSET 1"), ["bob"]);
    assert_eq!(db.rows("SELECT id FROM people ORDER BY id DESC LIMIT 2"), ["3", "2"]);
    assert_eq!(db.rows("SELECT CASE WHEN age > 35 THEN 'old' ELSE 'new' END FROM people ORDER BY id"), ["new", "old", "new"]);
    assert_eq!(db.rows("SELECT generate_series(1, 2), id FROM people WHERE id < 3 ORDER BY id, 1"), ["1|1", "2|1", "1|2", "2|2"]);
}

#[test]
fn constraints_and_conflicts() {
    let mut db = people("constraints");
    let e = db.error("INSERT INTO people VALUES (1, 'x', 1)");
    assert_eq!(e.message(), "duplicate key value violates unique constraint \"people_pkey\"");
    assert_eq!(e.0.detail.as_deref(), Some("Key (id)=(1) already exists."));
    let e = db.error("INSERT INTO people (name) VALUES ('x')");
    assert_eq!(e.message(), "null value in column \"id\" of relation \"people\" violates not-null constraint");
    assert_eq!(e.0.detail.as_deref(), Some("Failing row contains (null, x, null)."));
    assert_eq!(db.run("INSERT INTO people VALUES (1, 'x', 1) ON CONFLICT DO NOTHING"), 0);
    assert_eq!(
        db.rows("INSERT INTO people VALUES (1, 'x', 1), (9, 'y', 2) ON CONFLICT (id) DO UPDATE SET name = excluded.name, age = people.age + excluded.age RETURNING *"),
        ["1|x|31", "9|y|2"]
    );
    db.foreign_key("pets", 2, "people", b'c');
    let e = db.error("INSERT INTO pets VALUES (20, 77, 'gnu')");
    assert_eq!(e.message(), "insert or update on table \"pets\" violates foreign key constraint \"pets_fkey\"");
    assert_eq!(e.0.detail.as_deref(), Some("Key (owner)=(77) is not present in table \"people\"."));
    assert_eq!(db.run("DELETE FROM people WHERE id = 1"), 1);
    assert_eq!(db.rows("SELECT count(*) FROM pets"), ["2"]);
    assert_eq!(db.rows("UPDATE pets SET kind = p.name FROM people p WHERE p.id = pets.owner RETURNING pets.id, kind"), ["12|bob"]);
    assert_eq!(db.rows("DELETE FROM pets USING people p WHERE p.id = owner RETURNING pets.*"), ["12|2|bob"]);
}

#[test]
fn messages() {
    let db = people("messages");
    let e = db.error("SELECT id + name FROM people");
    assert_eq!(e.message(), "operator does not exist: integer + text");
    assert_eq!(e.0.position, Some(11));
    let e = db.error("SELECT nam FROM people");
    assert_eq!(e.message(), "column \"nam\" does not exist");
    assert_eq!(e.0.position, Some(8));
    let e = db.error("SELECT * FROM nothing");
    assert_eq!(e.message(), "relation \"nothing\" does not exist");
    let e = db.error("SELECT name, count(*) FROM people");
    assert_eq!(e.message(), "column \"people.name\" must appear in the GROUP BY clause or be used in an aggregate function");
    let e = db.error("SELECT nofunc(1)");
    assert_eq!(e.message(), "function nofunc(integer) does not exist");
    let e = db.error("SELECT 'a'::int");
    assert_eq!(e.message(), "invalid input syntax for type integer: \"a\"");
    assert_eq!(e.0.position, Some(8));
}

#[test]
fn for_update_and_explain() {
    let db = people("locks");
    assert_eq!(db.rows("SELECT id FROM people WHERE id = 1 FOR UPDATE"), ["1"]);
    assert_eq!(db.rows("SELECT id FROM people ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED"), ["1"]);
    let plan = db.rows("EXPLAIN (COSTS OFF) SELECT name FROM people WHERE id = 1");
    assert_eq!(plan, ["Index Scan using people_pkey on people", "  Index Cond: (id = 1)"]);
}

#[test]
fn windows() {
    let db = people("windows");
    assert_eq!(
        db.rows("SELECT id, row_number() OVER (ORDER BY id DESC), rank() OVER (PARTITION BY owner ORDER BY kind) FROM pets ORDER BY id"),
        ["10|4|1", "11|3|2", "12|2|1", "13|1|1"]
    );
    assert_eq!(
        db.rows("SELECT id, count(*) OVER (ORDER BY id), lag(id) OVER w, first_value(id) OVER w FROM pets WINDOW w AS (ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW)"),
        ["10|1|NULL|10", "11|2|10|10", "12|3|11|11", "13|4|12|12"]
    );
}
