//! Metrics in the text format of Prometheus (its documentation, "Exposition formats").
//!
//! 1. The last column of a metric's query is its value, the others are labels with the columns' names.
//! 2. A metric whose query fails is left out, and counted in `kilndb_console_failed_metrics`.
//!
//! Must not know: HTTP.

use super::http::HttpResponse;
use kilndb_lab::client::{Answer, Client, ClientError};
use std::fmt::Write;

struct ConsoleMetric {
    name: &'static str,
    kind: MetricKind,
    help: &'static str,
    sql: &'static str,
}

#[derive(Clone, Copy)]
enum MetricKind {
    /// It only grows, until the server starts anew.
    Counter,
    Gauge,
    /// The query's rows are buckets in their order: the upper bound, and of all that is below it the number and the sum.
    Histogram,
}

use MetricKind::{Counter, Gauge, Histogram};

const fn metric(name: &'static str, kind: MetricKind, help: &'static str, sql: &'static str) -> ConsoleMetric {
    ConsoleMetric { name, kind, help, sql }
}

const METRICS: [ConsoleMetric; 21] = [
    metric("kilndb_up", Gauge, "The server answers.", "select 1"),
    metric(
        "kilndb_start_time_seconds",
        Gauge,
        "When the server started, since 1970.",
        "select extract(epoch from pg_postmaster_start_time())",
    ),
    metric(
        "kilndb_commits_total",
        Counter,
        "Transactions that were committed.",
        "select datname as database, xact_commit from pg_stat_database where datname is not null",
    ),
    metric(
        "kilndb_rollbacks_total",
        Counter,
        "Transactions that were rolled back.",
        "select datname as database, xact_rollback from pg_stat_database where datname is not null",
    ),
    metric(
        "kilndb_rows_changed_total",
        Counter,
        "Rows that were inserted, updated and deleted.",
        "select d.datname as database, c.change, c.n from pg_stat_database d, \
         lateral (values ('insert', d.tup_inserted), ('update', d.tup_updated), ('delete', d.tup_deleted)) c (change, n) where d.datname is not null",
    ),
    // Bounds that are powers of two of a microsecond.
    metric(
        "kilndb_commit_duration_seconds",
        Histogram,
        "How long commits took, of one in sixteen and the first in each 10 ms of each worker.",
        "select coalesce(trim_scale(to_us / 1000000.0)::text, '+Inf') as le, samples, total_us / 1000000.0 from \
         (select to_us, sum(samples) over below as samples, sum(total_us) over below as total_us from kiln_stat_commits window below as (order by from_us)) c \
         where to_us is null or to_us & (to_us - 1) = 0 order by to_us nulls last",
    ),
    metric(
        "kilndb_deadlocks_total",
        Counter,
        "Deadlocks that were found.",
        "select datname as database, deadlocks from pg_stat_database where datname is not null",
    ),
    metric(
        "kilndb_temporary_bytes_total",
        Counter,
        "Bytes of temporary files.",
        "select datname as database, temp_bytes from pg_stat_database where datname is not null",
    ),
    metric(
        "kilndb_database_size_bytes",
        Gauge,
        "Sizes of the databases.",
        "select datname as database, pg_database_size(oid) from pg_database where datallowconn",
    ),
    metric(
        "kilndb_sessions",
        Gauge,
        "Sessions by what they do.",
        "select coalesce(state, 'none') as state, count(*) from pg_stat_activity group by 1",
    ),
    metric(
        "kilndb_waiting_sessions",
        Gauge,
        "Active sessions by what they wait for.",
        "select wait_event_type as type, wait_event as event, count(*) from pg_stat_activity where state = 'active' and wait_event is not null group by 1, 2",
    ),
    metric(
        "kilndb_oldest_transaction_seconds",
        Gauge,
        "How long the oldest transaction has been open, whose snapshot may hold versions.",
        "select coalesce(extract(epoch from max(clock_timestamp() - xact_start)), 0) from pg_stat_activity where pid <> pg_backend_pid()",
    ),
    metric("kilndb_undo_bytes", Gauge, "Earlier versions of rows.", "select bytes from kiln_stat_undo"),
    metric(
        "kilndb_undo_kept_bytes",
        Gauge,
        "Earlier versions of rows, by what they are kept for.",
        "select k.kept, k.bytes from kiln_stat_undo u, lateral (values ('transactions', u.transactions_bytes), ('snapshots', u.snapshots_bytes)) k (kept, bytes)",
    ),
    metric(
        "kilndb_inverted_index_pending_bytes",
        Gauge,
        "What inverted indexes have yet to merge.",
        "select schemaname as schema, relname as table, indexrelname as index, pending_bytes from kiln_stat_inverted_indexes order by pending_bytes desc limit 20",
    ),
    metric("kilndb_log_records_total", Counter, "Records of the log.", "select wal_records from pg_stat_wal"),
    metric("kilndb_log_bytes_total", Counter, "Bytes of the log.", "select wal_bytes from pg_stat_wal"),
    metric(
        "kilndb_checkpoints_total",
        Counter,
        "Checkpoints by what they were begun for.",
        "select c.cause, c.n from pg_stat_checkpointer s, lateral (values ('time', s.num_timed), ('request', s.num_requested)) c (cause, n)",
    ),
    metric(
        "kilndb_checkpoint_pages_total",
        Counter,
        "Pages that checkpoints have written.",
        "select buffers_written from pg_stat_checkpointer",
    ),
    metric(
        "kilndb_hot_row_updates_per_second",
        Gauge,
        "The rows that are updated the most, by samples.",
        "select schemaname as schema, relname as table, row_tid as row, updates_per_second from kiln_stat_hot_rows order by updates_per_second desc limit 10",
    ),
    metric(
        "kilndb_row_waiters",
        Gauge,
        "Sessions that wait for a row, by table.",
        "select schemaname as schema, relname as table, sum(waiters) from kiln_stat_hot_rows group by 1, 2 having sum(waiters) > 0",
    ),
];

pub(super) fn text(client: &mut Client) -> Result<HttpResponse, ClientError> {
    let (mut text, mut failed) = (String::new(), 0);
    for metric in &METRICS {
        match client.query(metric.sql) {
            Ok(answers) => metric.write(&answers.into_iter().next_back().unwrap_or_default(), &mut text),
            Err(ClientError::Server(_)) => failed += 1,
            Err(e) => return Err(e),
        }
    }
    let own = metric("kilndb_console_failed_metrics", Gauge, "Metrics that could not be asked for.", "");
    own.write(&Answer { rows: vec![vec![Some(failed.to_string())]], ..Answer::default() }, &mut text);
    Ok(HttpResponse::metrics(text))
}

impl ConsoleMetric {
    fn write(&self, answer: &Answer, text: &mut String) {
        let kind = match self.kind {
            Counter => "counter",
            Gauge => "gauge",
            Histogram => "histogram",
        };
        // Writing to a string never fails.
        let _ = write!(text, "# HELP {} {}\n# TYPE {} {kind}\n", self.name, self.help, self.name);
        if let Histogram = self.kind {
            return self.write_buckets(answer, text);
        }
        for row in &answer.rows {
            let Some((Some(value), labels)) = row.split_last() else { continue };
            let labels: Vec<String> =
                answer.columns.iter().zip(labels).map(|((name, _), value)| label(name, value)).collect();
            let braced = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
            let _ = writeln!(text, "{}{braced} {value}", self.name);
        }
    }

    /// The last bucket has all, so that its number and sum are those of the histogram.
    fn write_buckets(&self, answer: &Answer, text: &mut String) {
        for row in &answer.rows {
            let [bound, Some(count), _] = row.as_slice() else { continue };
            let _ = writeln!(text, "{}_bucket{{{}}} {count}", self.name, label("le", bound));
        }
        if let Some([_, Some(count), Some(sum)]) = answer.rows.last().map(Vec::as_slice) {
            let _ = write!(text, "{}_sum {sum}\n{}_count {count}\n", self.name, self.name);
        }
    }
}

fn label(name: &str, value: &Option<String>) -> String {
    let value = value.as_deref().unwrap_or_default();
    format!("{name}=\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_and_values_are_written() {
        let answer = Answer {
            columns: vec![("table".into(), 25), ("n".into(), 20)],
            rows: vec![vec![Some("a\"b\\\n".into()), Some("7".into())], vec![None, None], vec![None, Some("8".into())]],
            tag: String::new(),
        };
        let mut text = String::new();
        metric("x_total", Counter, "Help.", "").write(&answer, &mut text);
        assert_eq!(
            text,
            "# HELP x_total Help.\n# TYPE x_total counter\nx_total{table=\"a\\\"b\\\\\\n\"} 7\nx_total{table=\"\"} 8\n"
        );
    }

    #[test]
    fn a_histogram_has_buckets_a_sum_and_a_count() {
        let bucket = |bound: &str, count: &str, sum: &str| [bound, count, sum].map(|value| Some(value.into())).to_vec();
        let rows = vec![bucket("0.001", "3", "0.002"), bucket("+Inf", "4", "1.5")];
        let mut text = String::new();
        metric("x_seconds", Histogram, "Help.", "").write(&Answer { rows, ..Answer::default() }, &mut text);
        assert_eq!(
            text,
            "# HELP x_seconds Help.\n# TYPE x_seconds histogram\nx_seconds_bucket{le=\"0.001\"} 3\nx_seconds_bucket{le=\"+Inf\"} 4\n\
             x_seconds_sum 1.5\nx_seconds_count 4\n"
        );
    }

    #[test]
    fn names_are_those_that_prometheus_takes() {
        for metric in &METRICS {
            assert!(
                metric.name.starts_with("kilndb_") && metric.name.bytes().all(|c| c.is_ascii_lowercase() || c == b'_')
            );
            assert_eq!(metric.name.ends_with("_total"), matches!(metric.kind, Counter), "{}", metric.name);
        }
    }
}
