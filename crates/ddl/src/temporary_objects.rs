//! A session's temporary schema, what makes a table global temporary, what happens to temporary tables at commit, and
//! their end.

use super::Definitions;
use crate::client::Runtime;
use crate::context::OnCommit;
use kilndb_base::{Error, Oid, Result, sqlstate};
use kilndb_bind::object_address::ObjectAddress;
use kilndb_catalog::builtin::BOOTSTRAP_SUPERUSER;
use kilndb_catalog::global::DELETE_ROWS_OPTION;
use kilndb_catalog::ids::*;
use kilndb_catalog::temporary::{TEMPORARY_SCHEMA, is_temporary};
use kilndb_catalog::{CatalogView, Table};
use kilndb_types::Datum;

impl Definitions<'_> {
    /// `pg_temp_N`, made at first use.
    pub(super) fn own_temporary_schema(&mut self, runtime: &dyn Runtime) -> Result<Oid> {
        if self.context().shared.temporary.schema().is_none() {
            let name = Datum::text(self.context().temporary_schema_name());
            self.write_catalog(runtime, |w| {
                let row = [
                    ("oid", Datum::Oid(TEMPORARY_SCHEMA)),
                    ("nspname", name),
                    ("nspowner", Datum::Oid(BOOTSTRAP_SUPERUSER)),
                ];
                w.insert(PG_NAMESPACE, &row).map(|_| ())
            })?;
            // The search path may name it.
            self.context_mut().forget_path();
        }
        Ok(TEMPORARY_SCHEMA)
    }

    /// An OID for a new object: the session's own for one of (or in) something temporary.
    pub(crate) fn new_oid(&mut self, belongs_to: Oid) -> Result<Oid> {
        if is_temporary(belongs_to) {
            Ok(self.context().shared.temporary.new_oid())
        } else {
            self.context().cluster.next_oid()
        }
    }

    /// ON COMMIT of a new table.
    pub(super) fn note_on_commit(
        &mut self,
        table: Oid,
        action: kilndb_syntax::raw::OnCommitAction::Type,
        persistence: u8,
    ) -> Result<()> {
        use kilndb_syntax::raw::OnCommitAction as A;
        if action != A::ONCOMMIT_NOOP && persistence != b't' {
            return Err(Error::new(
                sqlstate::INVALID_TABLE_DEFINITION,
                "ON COMMIT can only be used on temporary tables",
            ));
        }
        match action {
            A::ONCOMMIT_DROP => self.context_mut().transaction.on_commit.push((table, OnCommit::Drop)),
            A::ONCOMMIT_DELETE_ROWS => self.context_mut().transaction.on_commit.push((table, OnCommit::DeleteRows)),
            _ => {}
        }
        Ok(())
    }

    /// What is due at the commit for temporary tables.
    pub fn run_on_commit(&mut self, runtime: &dyn Runtime) -> Result<()> {
        if self.context().transaction.on_commit.is_empty() {
            return Ok(());
        }
        let due = self.context().transaction.on_commit.clone();
        let mut emptied = Vec::new();
        for (oid, action) in &due {
            if let Some(table) = self.context_mut().with_catalog(runtime, |host| host.reader.table_by_oid(*oid))?
                && *action == OnCommit::DeleteRows
            {
                emptied.push(table);
            }
        }
        for table in &emptied {
            self.refuse_to_empty(table, &due, runtime)?;
        }
        for table in &emptied {
            if self.context().shared.temporary.relation(&self.context().cluster.engine, table.storage)?.pages() > 0 {
                self.empty_table(table, runtime)?;
            }
        }
        for (oid, action) in due {
            if action == OnCommit::Drop {
                self.drop_table_by_oid(oid, runtime)?;
            }
        }
        Ok(())
    }

    /// A table that is emptied, with a foreign key to it from one that is not.
    fn refuse_to_empty(&mut self, table: &Table, due: &[(Oid, OnCommit)], runtime: &dyn Runtime) -> Result<()> {
        for key in &table.referenced_by {
            if due.contains(&(key.table, OnCommit::DeleteRows)) {
                continue;
            }
            let other = self.context_mut().table_by_oid(key.table, runtime)?;
            return Err(Error::unsupported("unsupported ON COMMIT and foreign key combination").with_detail(format!(
                "Table \"{}\" references \"{}\", but they do not have the same ON COMMIT setting.",
                other.name, table.name
            )));
        }
        Ok(())
    }

    /// DISCARD TEMP: all temporary tables, views, sequences and routines of the session, and its rows in global
    /// temporary tables.
    pub fn drop_own_temporary_objects(&mut self, runtime: &dyn Runtime) -> Result<()> {
        let relations =
            self.context().shared.temporary.scan(PG_CLASS).into_iter().filter(|r| !b"iIc".contains(&r.char("relkind")));
        let mut named: Vec<ObjectAddress> = relations.map(|r| ObjectAddress::object(PG_CLASS, r.oid("oid"))).collect();
        for (class, rows) in [PG_TYPE, PG_PROC].map(|class| (class, self.context().shared.temporary.scan(class))) {
            named.extend(rows.iter().map(|r| ObjectAddress::object(class, r.oid("oid"))));
        }
        self.delete_objects(&named, true, runtime)?;
        for (oid, storage) in self.context().shared.temporary.instances() {
            self.drop_storage(storage)?;
            self.context().shared.temporary.replace_instance(oid, None);
        }
        // Cascades within one's own scratch space are nobody's news.
        self.context().shared.scratch.notices.borrow_mut().clear();
        Ok(())
    }
}

/// Does `CREATE GLOBAL TEMPORARY …` or `INTO GLOBAL TEMPORARY …` stand before the relation's name at `location`? The
/// grammar keeps no trace of the word.
pub(super) fn says_global(source: &str, location: i32) -> bool {
    let before = usize::try_from(location).ok().and_then(|end| source.get(..end)).unwrap_or("");
    let text = without_comments(before).to_ascii_lowercase();
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    let words = words.strip_suffix(&["if", "not", "exists"]).unwrap_or(&words);
    let words = words.strip_suffix(&["table"]).unwrap_or(words);
    matches!(words, [.., "create" | "into", "global", "temporary" | "temp"])
}

fn without_comments(sql: &str) -> String {
    let (mut out, mut rest) = (String::new(), sql);
    while let Some(at) = rest.find("--").into_iter().chain(rest.find("/*")).min() {
        out.push_str(&rest[..at]);
        out.push(' ');
        let end = if rest[at..].starts_with("--") { "\n" } else { "*/" };
        rest = rest[at..].find(end).map_or("", |n| &rest[at + n + end.len()..]);
    }
    out + rest
}

/// ON COMMIT of a global temporary table, as it is kept.
pub(super) fn on_commit_option(action: kilndb_syntax::raw::OnCommitAction::Type) -> Result<String> {
    use kilndb_syntax::raw::OnCommitAction as A;
    if action == A::ONCOMMIT_DROP {
        return Err(Error::new(
            sqlstate::INVALID_TABLE_DEFINITION,
            "ON COMMIT DROP cannot be used on global temporary tables",
        ));
    }
    Ok(format!("{DELETE_ROWS_OPTION}={}", action == A::ONCOMMIT_DELETE_ROWS))
}

/// The definition of a global temporary table is everybody's.
pub(super) fn refuse_in_temporary_schema(schema: Oid) -> Result<()> {
    if is_temporary(schema) {
        return Err(Error::new(
            sqlstate::INVALID_TABLE_DEFINITION,
            "cannot create global temporary tables in temporary schemas",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::says_global;

    fn says(before: &str) -> bool {
        says_global(&format!("{before}t (a int)"), before.len() as i32)
    }

    #[test]
    fn the_word_global_is_found_before_the_name() {
        for text in [
            "create global temporary table ",
            "CREATE GLOBAL TEMP TABLE IF NOT EXISTS ",
            "create /* local */ global -- temp\n temporary\ttable ",
            "select 1; select 2 as a into global temp table ",
            "select 1 into global temporary ",
        ] {
            assert!(says(text), "{text}");
        }
        for text in [
            "create temporary table ",
            "create local temp table ",
            "select 'create global temporary table' into temp ",
            "-- global\ncreate temp table ",
            "",
        ] {
            assert!(!says(text), "{text}");
        }
    }
}
