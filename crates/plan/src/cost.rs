//! What ways to find, join, sort and group rows cost, in the unit of PostgreSQL's cost parameters: the sequential read
//! of a page from disk. The formulas follow PostgreSQL's ("Planner Cost Constants", `costsize.c`) where the executors
//! do the same, with two differences: a page that fits into memory costs the processor's time alone, and an entry of an
//! index leads to its row in one step.
//!
//! Invariants
//! 1. Costs of all kinds of nodes are made here, in the same unit.
//! 2. What a setting turns off costs [`kilndb_catalog::PlannerSettings::penalty`] more, and stays possible.
//!
//! Must not know: which conditions and expressions there are, only how many.

use super::Planner;
use kilndb_catalog::planner_settings::{CostParameters, PlannerSettings};

/// A page that is in memory, whether it is the next one or any.
const RESIDENT_PAGE: f64 = 0.1;
/// The search from the root of a tree to a leaf, in operators. PostgreSQL charges 50 for each page on the way.
const DESCENT_OPERATORS: f64 = 80.0;
/// A tuple that an operator hands on, as a share of one that a scan reads.
const HANDED_ON: f64 = 0.5;
/// Rows of a sort that find room in memory (work_mem is not known here).
const SORT_MEMORY_ROWS: f64 = 100_000.0;

/// The costs of one statement.
#[derive(Clone, Copy)]
pub(crate) struct CostModel {
    parameters: CostParameters,
    /// How many pages may be in memory.
    buffer_pages: f64,
    /// Costs may have penalties in them, of nodes that a setting turns off.
    has_penalties: bool,
}

/// A table as its scans see it.
#[derive(Clone, Copy)]
pub(crate) struct TableSize {
    pub rows: f64,
    pub pages: f64,
}

impl TableSize {
    /// The table as it may be soon. A table that is nearly empty may be a queue: a plan that reads all of it would be a
    /// bad one when it fills, and is not made anew then. PostgreSQL assumes ten pages of tables that it has not counted.
    pub fn grown(self) -> TableSize {
        const PAGES: f64 = 10.0;
        const ROWS: f64 = 600.0;
        if self.pages >= PAGES { self } else { TableSize { rows: self.rows.max(ROWS), pages: PAGES } }
    }
}

/// What a search in a tree finds.
#[derive(Clone, Copy)]
pub(crate) struct TreeSearch {
    /// Entries that the search reads.
    pub entries: f64,
    /// Ranges of the tree, each with a descent of its own.
    pub ranges: f64,
    pub index_pages: f64,
    /// How far the order of the entries is that of the rows in the table: from -1 to 1.
    pub correlation: f64,
    /// The operators of the conditions on the rows that the index does not answer.
    pub filters: f64,
}

impl Planner<'_> {
    pub(crate) fn costs(&self) -> CostModel {
        let settings = self.catalog.planner_settings();
        CostModel {
            parameters: settings.costs,
            buffer_pages: self.engine.buffer_pages() as f64,
            has_penalties: settings.has_penalties(),
        }
    }
}

impl CostModel {
    /// What one page of so many costs, the next one or any.
    fn page(&self, of: f64, from_disk: f64) -> f64 {
        let resident = if of <= self.buffer_pages { 1.0 } else { self.buffer_pages / of };
        resident * from_disk.min(RESIDENT_PAGE) + (1.0 - resident) * from_disk
    }
    fn filters(&self, count: usize) -> f64 {
        count as f64 * self.parameters.cpu_operator
    }
    fn operators(&self, count: f64) -> f64 {
        count * self.parameters.cpu_operator
    }

    pub fn seq_scan(&self, table: TableSize, filters: f64) -> f64 {
        let row = self.parameters.cpu_tuple + self.operators(filters);
        table.pages * self.page(table.pages, self.parameters.seq_page) + table.rows * row
    }

    /// A row whose place is known.
    pub fn row_by_id(&self) -> f64 {
        RESIDENT_PAGE + 2.0 * self.parameters.cpu_tuple
    }

    pub fn filter(&self, rows: f64, filters: f64) -> f64 {
        rows * self.operators(filters)
    }

    /// Finding entries, without their rows.
    pub fn tree_search(&self, table: TableSize, search: TreeSearch) -> f64 {
        let p = &self.parameters;
        let share = (search.entries / table.rows.max(1.0)).min(1.0);
        let leaves = (share * search.index_pages).max(search.ranges);
        search.ranges * DESCENT_OPERATORS * p.cpu_operator
            + leaves * self.page(search.index_pages, p.random_page)
            + search.entries * (p.cpu_index_tuple + p.cpu_operator)
    }

    pub fn index_scan(&self, table: TableSize, search: TreeSearch) -> f64 {
        let p = &self.parameters;
        let share = (search.entries / table.rows.max(1.0)).min(1.0);
        let index = self.tree_search(table, search);
        // As many pages as rows that lie anywhere, or one after the other (Mackert and Lohman, 1989).
        let (pages, entries) = (table.pages.max(1.0), search.entries);
        let scattered = (2.0 * pages * entries / (2.0 * pages + entries)).min(pages).ceil();
        let (sequential, random) = (self.page(pages, p.seq_page), self.page(pages, p.random_page));
        let most = scattered * random;
        let least = (share * pages).max(1.0) * sequential;
        let ordered = search.correlation * search.correlation;
        let heap = most + ordered * (least.min(most) - most);
        // A row out of order is a miss of the processor's cache.
        let row = p.cpu_tuple * (1.0 + (1.0 - ordered)) + self.operators(search.filters);
        index + heap + entries * row
    }

    /// Sorting rows that are there.
    pub fn sort(&self, rows: f64) -> f64 {
        let rows = rows.max(2.0);
        let p = &self.parameters;
        let spilled = if rows > SORT_MEMORY_ROWS { rows * p.cpu_tuple } else { 0.0 };
        2.0 * p.cpu_operator * rows * rows.log2() + rows * p.cpu_tuple * HANDED_ON + spilled
    }

    /// The part of a sort that keeps the first `limit` rows only.
    pub fn top_rows(&self, rows: f64, limit: f64) -> f64 {
        2.0 * self.parameters.cpu_operator * rows.max(2.0) * limit.clamp(2.0, rows.max(2.0)).log2()
    }

    /// Sorting rows that come in so many groups, each of which is sorted by itself.
    pub fn sort_in_groups(&self, rows: f64, groups: f64) -> f64 {
        let per_group = (rows / groups).max(2.0);
        let p = &self.parameters;
        groups * (self.sort(per_group) + p.cpu_tuple) + rows * p.cpu_operator
    }

    /// Hashing `build` rows and looking `probe` rows up, of which `matches` pairs come out.
    pub fn hash_join(&self, probe: f64, build: f64, matches: f64, keys: usize) -> f64 {
        let p = &self.parameters;
        let key = keys as f64 * p.cpu_operator;
        // Measured: a row costs a lookup in a table that is in no cache of the processor.
        build * (key + p.cpu_tuple * 2.0) + probe * (key + p.cpu_tuple * 1.5) + matches * p.cpu_tuple
    }

    /// Judging each pair of rows, the inner ones kept in memory.
    pub fn loop_pairs(&self, outer: f64, inner: f64, conditions: usize) -> f64 {
        outer * inner * (self.parameters.cpu_tuple * HANDED_ON + self.filters(conditions))
    }

    /// Running the inner side of a nested loop, which costs `inner` each time, once per outer row.
    pub fn loop_runs(&self, outer: f64, inner: f64) -> f64 {
        let penalties = if self.has_penalties { PlannerSettings::penalties_of(inner) } else { 0.0 };
        outer * (self.parameters.cpu_tuple * HANDED_ON + inner - penalties) + penalties
    }

    /// Merging two sides that are sorted, of which `matches` pairs come out.
    pub fn merge_join(&self, left: f64, right: f64, matches: f64, keys: usize) -> f64 {
        let p = &self.parameters;
        (left + right) * (self.filters(keys) + p.cpu_tuple * HANDED_ON) + matches * p.cpu_tuple * HANDED_ON
    }

    /// Looking up what was found with the same values before; `found` rows are kept of each.
    pub fn cached_runs(&self, calls: f64, misses: f64, inner: f64, found: f64) -> f64 {
        let p = &self.parameters;
        let kept = misses * (p.cpu_tuple + found * p.cpu_tuple * HANDED_ON);
        calls * (p.cpu_tuple + p.cpu_operator) + misses * inner + kept
    }

    /// Grouping rows whose groups follow one another.
    pub fn sorted_groups(&self, rows: f64, groups: f64, keys: usize, aggregates: usize) -> f64 {
        rows * (self.filters(keys) + self.filters(aggregates)) + groups * self.parameters.cpu_tuple
    }

    /// Hashing rows into groups.
    pub fn hash_groups(&self, rows: f64, groups: f64, keys: usize, aggregates: usize) -> f64 {
        let p = &self.parameters;
        rows * (self.filters(keys) + self.filters(aggregates) + p.cpu_tuple * HANDED_ON) + groups * p.cpu_tuple
    }
}

/// Reading that many rows of a table, of so many pages, in their order, for a bitmap.
pub(crate) fn rows_in_order(rows: f64, pages: f64) -> f64 {
    let fetched = (2.0 * pages * rows / (2.0 * pages + rows)).min(pages).max(1.0);
    // The more of the table, the less is saved by leaving out the rest.
    fetched * (0.09 + 0.01 * fetched / pages.max(1.0)) + rows * 0.015
}

/// Sorting the entries of one index by their rows, for a bitmap.
pub(crate) fn sorted_entries(entries: f64) -> f64 {
    entries * 0.003 + 0.6
}

/// Looking for so many conditions in an inverted index. `is_telling`: their terms leave few rows each.
pub(crate) fn inverted_search(conditions: usize, rows: f64, is_telling: bool) -> f64 {
    0.4 + if is_telling { 0.25 } else { 0.3 } * conditions as f64 + rows * 0.005
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(buffer_pages: f64) -> CostModel {
        CostModel { parameters: CostParameters::default(), buffer_pages, has_penalties: false }
    }

    #[test]
    fn what_is_turned_off_counts_once_and_what_is_large_each_time() {
        let (mut costs, inner) = (model(1000.0), 1e10 + 5.0);
        assert!(costs.loop_runs(20.0, inner) > 20.0 * inner);
        costs.has_penalties = true;
        assert!(costs.loop_runs(20.0, inner) < 2e10);
    }
    fn search(entries: f64) -> TreeSearch {
        TreeSearch { entries, ranges: 1.0, index_pages: 3000.0, correlation: 0.0, filters: 0.0 }
    }
    const TABLE: TableSize = TableSize { rows: 1e6, pages: 10_000.0 };

    #[test]
    fn few_rows_are_looked_up_and_most_are_read() {
        let m = model(1e6);
        assert!(m.index_scan(TABLE, search(10.0)) < 2.0);
        assert!(m.index_scan(TABLE, search(10_000.0)) < m.seq_scan(TABLE, 1.0));
        assert!(m.index_scan(TABLE, search(900_000.0)) > m.seq_scan(TABLE, 1.0));
    }

    #[test]
    fn pages_on_disk_cost_more() {
        let (memory, disk) = (model(1e6), model(100.0));
        assert!(disk.seq_scan(TABLE, 1.0) > memory.seq_scan(TABLE, 1.0));
        assert!(disk.index_scan(TABLE, search(100.0)) > 50.0 * memory.index_scan(TABLE, search(100.0)) / 10.0);
        let ordered = TreeSearch { correlation: 1.0, ..search(10_000.0) };
        assert!(disk.index_scan(TABLE, ordered) < disk.index_scan(TABLE, search(10_000.0)));
    }

    #[test]
    fn the_smaller_side_is_hashed() {
        let m = model(1e6);
        assert!(m.hash_join(1e6, 10.0, 1e6, 1) < m.hash_join(10.0, 1e6, 1e6, 1));
    }
}
