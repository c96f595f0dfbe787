//! A database of films in the manner of the Join Order Benchmark: what is frequent is very frequent, and columns depend on one another. The
//! same from run to run, and loaded by COPY.
//!
//! Must not know: who asks which queries.

mod rows;
mod words;

use crate::client::Client;
use crate::filled_tables::FilledTables;
use rows::FilmData;

const TABLES: &str = include_str!("schema.sql");
const INDEXES: &str = include_str!("indexes.sql");

/// Fewer films would not have a company of each country.
pub const FILMS_MIN: u32 = 1_000;
pub const FILMS_MAX: u32 = 1_000_000;

/// Creates and fills the tables where a session creates tables, and then their keys, indexes and statistics.
pub fn fill(client: &mut Client, films: u32) -> Result<(), String> {
    let data = FilmData::new(films);
    let tables = FilledTables { create: TABLES, names: &rows::TABLES, copy_options: "", keys: INDEXES };
    tables.fill(client, |table, out| data.write(table, out))
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
