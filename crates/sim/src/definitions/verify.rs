//! What is there after a crash, held against what a session knows.

use super::model::{Index, Model, SHARED, Table, parent_name, shared_name};
use kilndb_lab::client::Connection;
use std::collections::{BTreeMap, BTreeSet};

type TableRows = BTreeMap<i64, Vec<String>>;

fn ask(client: &mut dyn Connection, sql: &str) -> Result<Vec<Vec<String>>, String> {
    let answers = client.query(sql).map_err(|e| format!("{sql}: {e}"))?;
    let rows = answers.into_iter().flat_map(|a| a.rows);
    Ok(rows.map(|row| row.into_iter().map(Option::unwrap_or_default).collect()).collect())
}
fn numbers(rows: Vec<Vec<String>>) -> Result<Vec<i64>, String> {
    rows.iter().map(|row| row[0].parse().map_err(|_| format!("not a number: {row:?}"))).collect()
}

pub(crate) fn ledger(client: &mut dyn Connection, session: usize) -> Result<u64, String> {
    let found = ask(client, &format!("select number from ledger where session = {session}"))?;
    found.first().and_then(|row| row[0].parse().ok()).ok_or_else(|| format!("session {session} has no row: {found:?}"))
}

/// Everything of the session is as the model has it. Returns how many indexes were compared.
pub fn session(client: &mut dyn Connection, session: usize, model: &Model) -> Result<usize, String> {
    let names = ask(
        client,
        &format!("select relname from pg_class where relkind = 'r' and relname ~ '^s{session}_' order by 1"),
    )?;
    let names: BTreeSet<String> = names.into_iter().map(|row| row[0].clone()).collect();
    let expected: BTreeSet<String> = model.tables.keys().cloned().collect();
    if names != expected {
        return Err(format!("session {session}: there are {names:?}, there should be {expected:?}"));
    }
    let mut compared = 0;
    for (name, table) in &model.tables {
        let found = definition(client, name)?;
        if found != table.definition() {
            return Err(format!("{name} is {found}, it should be {}", table.definition()));
        }
        compared += agrees(client, name, table, "")?;
    }
    for (n, table) in model.shared.iter().enumerate() {
        let own = format!(" and id >= {} and id < {}", table.base, table.base + super::model::WIDTH);
        compared += agrees(client, &shared_name(n), table, &own)?;
    }
    let mut whole = Table::new(0, 0, "");
    model.tables.values().filter(|t| t.is_attached).for_each(|t| whole.rows.extend(t.rows.clone()));
    Ok(compared + agrees(client, &parent_name(session), &whole, "")?)
}

fn indexes(client: &mut dyn Connection, name: &str) -> Result<Vec<(String, Index)>, String> {
    let sql = format!(
        "select indexrelid::regclass, pg_get_indexdef(indexrelid), indisvalid and indisready from pg_index where indrelid = '{name}'::regclass"
    );
    let found = ask(client, &sql)?.into_iter().map(|row| match (Index::of(&row[1]), row[2].as_str()) {
        (Some(index), "t") => Ok((row[0].clone(), index)),
        _ => Err(format!("{name}: an index that nobody made, or not to its end: {row:?}")),
    });
    found.collect()
}

fn definition(client: &mut dyn Connection, name: &str) -> Result<String, String> {
    let columns = ask(
        client,
        &format!(
            "select attname, atttypid::regtype from pg_attribute where attrelid = '{name}'::regclass and attnum > 0 and not attisdropped order by attname"
        ),
    )?;
    let names: Vec<&str> = columns.iter().map(|c| c[0].as_str()).collect();
    let of = columns.iter().find(|c| c[0] == "v").map_or("", |c| c[1].as_str());
    let class =
        ask(client, &format!("select relpersistence, relispartition from pg_class where oid = '{name}'::regclass"))?;
    let checks = ask(
        client,
        &format!("select count(*) from pg_constraint where contype = 'c' and conrelid = '{name}'::regclass"),
    )?;
    let constraints = ask(
        client,
        &format!("select contype from pg_constraint where contype in ('p', 'u') and conrelid = '{name}'::regclass"),
    )?;
    let indexes: BTreeSet<Index> = indexes(client, name)?.into_iter().map(|(_, index)| index).collect();
    let wanted = indexes.iter().filter(|i| matches!(i, Index::Key | Index::UniqueT)).count();
    if constraints.len() != wanted {
        return Err(format!("{name} has the indexes {indexes:?} for the constraints {constraints:?}"));
    }
    Ok(format!(
        "{} v={of} unlogged={} attached={} checks={} {indexes:?}",
        names.join(","),
        class[0][0] == "u",
        class[0][1] == "t",
        checks[0][0]
    ))
}

/// The rows that a scan finds are those of the table, and so are those that each index leads to.
fn agrees(client: &mut dyn Connection, name: &str, table: &Table, own: &str) -> Result<usize, String> {
    ask(
        client,
        "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off; set enable_seqscan = on",
    )?;
    let x = if table.has_x { ", x" } else { "" };
    let found = ask(client, &format!("select id, v, t, w{x} from {name} where true{own}"))?;
    let count = found.len();
    let mut rows = TableRows::new();
    for mut row in found {
        let id = row[0].parse().map_err(|_| format!("{name}: no id: {row:?}"))?;
        rows.insert(id, row.split_off(1));
    }
    let mut expected = TableRows::new();
    for (id, row) in &table.rows {
        let mut values = vec![row.v.to_string(), row.t(*id), row.w()];
        values.extend(table.has_x.then(|| row.x.to_string()));
        expected.insert(*id, values);
    }
    if rows != expected || count != expected.len() {
        let differs = rows.keys().chain(expected.keys()).find(|id| rows.get(id) != expected.get(id));
        let brief =
            |rows: &TableRows| differs.and_then(|id| rows.get(id)).map(|r| (r[0].clone(), r[1].clone(), r[2].len()));
        return Err(format!(
            "{name} has {count} rows instead of {}: row {differs:?} is {:?} instead of {:?}",
            expected.len(),
            brief(&rows),
            brief(&expected)
        ));
    }
    let indexes = indexes(client, name)?;
    for (index_name, index) in &indexes {
        through(client, name, index_name, *index, own)?;
    }
    Ok(indexes.len())
}

/// An index scan finds what a sequential scan finds, in both directions.
fn through(client: &mut dyn Connection, name: &str, index_name: &str, index: Index, own: &str) -> Result<(), String> {
    let condition = index.condition();
    let sql = format!("select id from {name} where {condition}{own}");
    // Sorted here, lest an order leads to another index.
    let sorted = |mut ids: Vec<i64>| {
        ids.sort_unstable();
        ids
    };
    ask(
        client,
        "set enable_indexscan = off; set enable_bitmapscan = off; set enable_indexonlyscan = off; set enable_seqscan = on",
    )?;
    let by_scan = sorted(numbers(ask(client, &sql)?)?);
    ask(client, "set enable_indexscan = on; set enable_seqscan = off")?;
    let column = condition.split(" >= ").next().unwrap_or_default();
    for direction in ["", "desc"] {
        let ordered = format!("{sql} order by {column} {direction}");
        let by_index = sorted(numbers(ask(client, &ordered)?)?);
        if by_scan != by_index {
            let missing: Vec<_> = by_scan.iter().filter(|id| by_index.binary_search(id).is_err()).take(5).collect();
            return Err(format!(
                "{name}: {index_name} leads to {} rows {direction}, a scan to {}; missing: {missing:?}",
                by_index.len(),
                by_scan.len()
            ));
        }
        let plan: String = ask(client, &format!("explain {ordered}"))?.concat().concat();
        if own.is_empty() && !by_scan.is_empty() && !plan.contains("Index") {
            return Err(format!("{ordered} does not go through {index_name}: {plan}"));
        }
    }
    Ok(())
}

/// Catalogs agree with each other, and nothing is there that belongs to a session of before.
pub fn catalogs(client: &mut dyn Connection) -> Result<(), String> {
    for (what, sql) in [
        ("temporary relations", "select oid::text from pg_class where relpersistence = 't' and relkind <> 'S'"),
        (
            "columns of no relation",
            "select attrelid::text from pg_attribute a where not exists (select from pg_class c where c.oid = a.attrelid)",
        ),
        (
            "indexes of no relation",
            "select indexrelid::text from pg_index i where not exists (select from pg_class c where c.oid = i.indrelid) or not exists (select from pg_class c where c.oid = i.indexrelid)",
        ),
        (
            "constraints of no relation",
            "select conname from pg_constraint k where conrelid <> 0 and not exists (select from pg_class c where c.oid = k.conrelid)",
        ),
        (
            "defaults of no relation",
            "select oid::text from pg_attrdef d where not exists (select from pg_class c where c.oid = d.adrelid)",
        ),
        (
            "types of no relation",
            "select typname from pg_type t where typrelid <> 0 and not exists (select from pg_class c where c.oid = t.typrelid)",
        ),
        (
            "partitions of no relation",
            "select inhrelid::text from pg_inherits i where not exists (select from pg_class c where c.oid = i.inhrelid) or not exists (select from pg_class c where c.oid = i.inhparent)",
        ),
        ("large tables", "select relname from pg_class where relname ~ '^s[0-9]+_large'"),
    ] {
        let found = ask(client, sql)?;
        if !found.is_empty() {
            return Err(format!("{what}: {found:?}"));
        }
    }
    // Rows of the shared tables, as all sessions together see them.
    for n in 0..SHARED {
        let name = shared_name(n);
        for (index_name, index) in indexes(client, &name)? {
            through(client, &name, &index_name, index, "")?;
        }
    }
    Ok(())
}
