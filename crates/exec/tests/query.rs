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
    db.table(
        "pets",
        &[("id", "int4", true, None), ("owner", "int4", false, None), ("kind", "text", false, None)],
        &[("pets_pkey", &["id"], true, true)],
    );
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
    assert_eq!(db.rows("SELECT name FROM people p WHERE NOT EXISTS (SELECT 1 FROM pets WHERE owner = p.id)"), ["cid"]);
    assert_eq!(
        db.rows("SELECT (SELECT count(*) FROM pets WHERE owner = p.id) FROM people p ORDER BY id"),
        ["2", "1", "0"]
    );
    assert_eq!(db.rows("SELECT owner, count(*) FROM pets GROUP BY owner HAVING count(*) > 1 ORDER BY 1"), ["1|2"]);
    assert_eq!(db.rows("SELECT DISTINCT owner FROM pets ORDER BY owner"), ["1", "2", "NULL"]);
    assert_eq!(db.rows("SELECT id FROM people UNION SELECT owner FROM pets ORDER BY 1"), ["1", "2", "3", "NULL"]);
    assert_eq!(
        db.rows("SELECT * FROM generate_series(1, 3) g, LATERAL (SELECT g * 2) d(x) ORDER BY g"),
        ["1|2", "2|4", "3|6"]
    );
    assert_eq!(
        db.rows("WITH RECURSIVE t(n) AS (VALUES (1) UNION ALL SELECT n + 1 FROM t WHERE n < 4) SELECT n FROM t"),
        ["1", "2", "3", "4"]
    );
    assert_eq!(db.rows("SELECT name FROM people ORDER BY id LIMIT 1 OFFSET 1"), ["bob"]);
    assert_eq!(db.rows("SELECT id FROM people ORDER BY id DESC LIMIT 2"), ["3", "2"]);
    assert_eq!(
        db.rows("SELECT CASE WHEN age > 35 THEN 'old' ELSE 'new' END FROM people ORDER BY id"),
        ["new", "old", "new"]
    );
    assert_eq!(
        db.rows("SELECT generate_series(1, 2), id FROM people WHERE id < 3 ORDER BY id, 1"),
        ["1|1", "2|1", "1|2", "2|2"]
    );
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
    assert_eq!(
        db.rows("UPDATE pets SET kind = p.name FROM people p WHERE p.id = pets.owner RETURNING pets.id, kind"),
        ["12|bob"]
    );
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
    assert_eq!(
        e.message(),
        "column \"people.name\" must appear in the GROUP BY clause or be used in an aggregate function"
    );
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

#[test]
fn more_syntax() {
    let db = people("more");
    let cases: &[(&str, &[&str])] = &[
        ("SELECT sum(age), avg(age), min(name), max(id) FROM people", &["70|35.0000000000000000|ann|3"]),
        ("SELECT owner, array_agg(kind ORDER BY kind DESC) FROM pets WHERE owner = 1 GROUP BY owner", &["1|{dog,cat}"]),
        ("SELECT string_agg(kind, ',' ORDER BY id) FILTER (WHERE id > 10) FROM pets", &["dog,emu,fox"]),
        (
            "SELECT owner, kind, count(*), grouping(owner, kind) FROM pets WHERE owner = 1 GROUP BY ROLLUP (owner, kind) ORDER BY 1, 2",
            &["1|cat|1|0", "1|dog|1|0", "1|NULL|2|1", "NULL|NULL|2|3"],
        ),
        ("SELECT DISTINCT ON (owner) owner, kind FROM pets ORDER BY owner, id DESC", &["1|dog", "2|emu", "NULL|fox"]),
        ("VALUES (1, 'a'), (2, 'b') ORDER BY 1 DESC", &["2|b", "1|a"]),
        ("SELECT id FROM people WHERE (id, name) = (2, 'bob')", &["2"]),
        ("SELECT id FROM people WHERE (id, name) < (2, 'zzz') ORDER BY 1", &["1", "2"]),
        ("SELECT id FROM people WHERE id BETWEEN 2 AND 3 AND name LIKE 'b%'", &["2"]),
        ("SELECT id FROM people WHERE id IN (3, 1) ORDER BY id", &["1", "3"]),
        ("SELECT id FROM people WHERE id = ANY (ARRAY[2, 7])", &["2"]),
        (
            "SELECT coalesce(age, 0), nullif(id, 2), greatest(id, 2), least(id, 2) FROM people ORDER BY id",
            &["30|1|2|1", "40|NULL|2|2", "0|3|3|2"],
        ),
        ("SELECT (ARRAY[10,20,30])[2], (ARRAY[1,2,3,4])[2:3]", &["20|{2,3}"]),
        ("SELECT 1 = ALL (SELECT id FROM people WHERE id = 1), 5 > ANY (SELECT id FROM people)", &["t|t"]),
        ("SELECT ARRAY(SELECT id FROM people ORDER BY id)", &["{1,2,3}"]),
        ("SELECT x.n, y.n FROM (VALUES (1), (2)) x(n) CROSS JOIN (VALUES (3)) y(n) ORDER BY 1", &["1|3", "2|3"]),
        ("SELECT id, p.name FROM people p JOIN (SELECT id, kind FROM pets) q USING (id)", &[]),
        ("SELECT * FROM people NATURAL JOIN (SELECT 2 AS id, 'x' AS tag) s", &["2|bob|40|x"]),
        (
            "WITH a AS (SELECT id FROM people WHERE id < 3), b AS (SELECT id FROM a) SELECT a.id + b.id FROM a, b ORDER BY 1",
            &["2", "3", "3", "4"],
        ),
        ("WITH del AS (DELETE FROM pets WHERE id = 13 RETURNING id) SELECT * FROM del", &["13"]),
        ("SELECT count(*) FROM pets", &["3"]),
        ("SELECT id FROM people EXCEPT SELECT owner FROM pets", &["3"]),
        ("SELECT id FROM people INTERSECT SELECT owner FROM pets ORDER BY 1", &["1", "2"]),
        ("SELECT a FROM unnest(ARRAY['x','y']) WITH ORDINALITY t(a, n) ORDER BY n DESC", &["y", "x"]),
        ("SELECT id FROM people ORDER BY age IS NULL, age DESC FETCH FIRST 1 ROWS WITH TIES", &["2"]),
        ("UPDATE people SET (name, age) = ('zed', 1) WHERE id = 3 RETURNING old.name, new.name", &["cid|zed"]),
        ("UPDATE people SET (name, age) = (SELECT 'q', 2) WHERE id = 3 RETURNING name, age", &["q|2"]),
        ("SELECT people FROM people WHERE id = 3", &["(3,q,2)"]),
        ("SELECT count(*) FROM generate_series(1, 100000) g WHERE g % 2 = 0", &["50000"]),
        ("SELECT extract(year FROM date '2024-03-04'), date '2024-03-04' + 1", &["2024|2024-03-05"]),
        ("SELECT CASE 2 WHEN 1 THEN 'a' WHEN 2 THEN 'b' END, NOT true OR NULL", &["b|NULL"]),
        ("SELECT 'abc' IS DISTINCT FROM NULL, 1.5 + 2, 7 / 2, 2 ^ 3, 'a' < 'b'", &["t|3.5|3|8|t"]),
        ("SELECT id FROM people p WHERE EXISTS (SELECT 1 FROM pets WHERE owner = p.id AND kind = 'dog')", &["1"]),
        ("SELECT max(n) FROM (SELECT owner, count(*) AS n FROM pets GROUP BY owner) s", &["2"]),
        ("SELECT substring('hello' from 2 for 3), position('l' in 'hello'), trim('  x '), upper('a')", &["ell|3|x|A"]),
        (
            "SELECT t.* FROM people p, LATERAL (SELECT kind FROM pets WHERE owner = p.id ORDER BY id LIMIT 1) t ORDER BY 1",
            &["cat", "emu"],
        ),
        (
            "SELECT p.id, k.kind FROM people p LEFT JOIN LATERAL (SELECT kind FROM pets WHERE owner = p.id ORDER BY id LIMIT 1) k ON true ORDER BY 1",
            &["1|cat", "2|emu", "3|NULL"],
        ),
        ("SELECT ctid, tableoid IS NOT NULL FROM people WHERE id = 1", &["(0,1)|t"]),
        ("SELECT id FROM people WHERE ctid = '(0,2)'", &["2"]),
        ("SELECT id FROM people WHERE id > 1 AND id <= 9223372036854775807 ORDER BY id", &["2", "3"]),
        ("INSERT INTO pets SELECT id + 100, id, 'new' FROM people RETURNING id", &["101", "102", "103"]),
        ("SELECT (p).name FROM people p WHERE id = 1", &["ann"]),
        ("SELECT row(1, 'a'), array[[1,2],[3,4]]", &["(1,a)|{{1,2},{3,4}}"]),
        ("SELECT format('%s-%s', 1, 'x'), concat('a', 1, NULL)", &["1-x|a1"]),
        ("SELECT '2 days'::interval, '{1,2}'::int[], 'abc'::varchar(2)", &["2 days|{1,2}|ab"]),
        (
            "SELECT sum(count(*)) OVER (ORDER BY owner) FROM pets WHERE owner IS NOT NULL GROUP BY owner ORDER BY owner",
            &["3", "5", "6"],
        ),
    ];
    let mut bad = Vec::new();
    for (sql, expected) in cases {
        match db.try_run(sql, &[]) {
            Ok((rows, _)) if rows == *expected => {}
            Ok((rows, _)) => bad.push(format!("{sql}\n   {rows:?}\n   {expected:?}")),
            Err(e) => bad.push(format!("{sql}\n   {e:?}")),
        }
    }
    assert!(bad.is_empty(), "{}", bad.join("\n"));
}

/// On a stack of 1 MB too deep nesting is an error, never a crash.
#[test]
fn deep_nesting_is_an_error() {
    let db = people("deep");
    let mut seen = 0;
    for depth in [200, 5000] {
        let texts = [
            format!("SELECT 1{}", " + 1".repeat(depth)),
            format!("SELECT {}1{}", "abs(".repeat(depth.min(1500)), ")".repeat(depth.min(1500))),
            format!("SELECT {}1{}", "(SELECT ".repeat(depth.min(800)), ")".repeat(depth.min(800))),
            format!("SELECT 1{}", " UNION SELECT 1".repeat(depth.min(3000))),
            format!("SELECT * FROM people {}", "JOIN people USING (id) ".repeat(depth.min(60))),
            format!("SELECT {}1{}", "CASE WHEN true THEN ".repeat(depth.min(800)), " END".repeat(depth.min(800))),
        ];
        for sql in texts {
            let Ok(script) = kilndb_syntax::parse(&sql) else { continue };
            let statement = script.statements().remove(0);
            let (catalog, engine) = (&db.catalog, &db.engine);
            let result = std::thread::scope(|s| {
                std::thread::Builder::new()
                    .stack_size(1 << 20)
                    .spawn_scoped(s, || {
                        let mut types = Vec::new();
                        let bound = kilndb_bind::bind(&statement, catalog, &mut types)?;
                        kilndb_plan::plan_with(bound, types, catalog, engine).map(|p| p.nodes)
                    })
                    .unwrap()
                    .join()
                    .unwrap()
            });
            if let Err(e) = result {
                seen += usize::from(e.sqlstate().as_str() == "54001");
            }
        }
    }
    assert!(seen > 0);
}
