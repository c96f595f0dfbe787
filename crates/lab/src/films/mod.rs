//! A database of films in the manner of the Join Order Benchmark: what is frequent is very frequent, and columns depend on one another. The
//! same from run to run, and loaded by COPY.
//!
//! Must not know: who asks which queries.

mod rows;
mod words;

use crate::client::Client;
use rows::FilmData;

const TABLES: &str = include_str!("schema.sql");
const INDEXES: &str = include_str!("indexes.sql");

/// Fewer films would not have a company of each country.
pub const FILMS_MIN: u32 = 1_000;
pub const FILMS_MAX: u32 = 1_000_000;

/// Creates and fills the tables where a session creates tables, and then their keys, indexes and statistics.
pub fn fill(client: &mut Client, films: u32) -> Result<(), String> {
    query(client, TABLES)?;
    let data = FilmData::new(films);
    for table in rows::TABLES {
        let copy = format!("copy {table} from stdin");
        client.copy_in(&copy, |out| data.write(table, out)).map_err(|e| format!("{copy}: {e}"))?;
    }
    query(client, INDEXES)?;
    query(client, &format!("vacuum analyze {}", rows::TABLES.join(", ")))
}

fn query(client: &mut Client, sql: &str) -> Result<(), String> {
    client.query(sql).map(drop).map_err(|e| format!("{sql}: {e}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn rows_are_the_same_each_time_and_skewed() {
        let table = |name| {
            let mut out = Vec::new();
            FilmData::new(FILMS_MIN).write(name, &mut out).expect("to memory");
            String::from_utf8(out).expect("text")
        };
        assert_eq!(table("cast_info"), table("cast_info"));
        let mut counts = BTreeMap::new();
        let keywords = table("movie_keyword");
        keywords.lines().for_each(|line| *counts.entry(line.rsplit('\t').next()).or_insert(0) += 1);
        let most = counts.values().max().expect("there are keywords");
        assert!(most * counts.len() > 5 * keywords.lines().count(), "the most frequent of {} has {most}", counts.len());
    }
}
