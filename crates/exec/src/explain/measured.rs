//! The measurements that EXPLAIN shows beside the plan's tree: times, pages and log, and the cost of sending the result
//! to the client.

use crate::{NodeCounter, RemovedPartitions, RowSink};
use kilndb_base::env::process_monotonic_nanos;
use kilndb_base::{Oid, Result};
use kilndb_bind::ir::ExplainSerialize;
use kilndb_storage::accesses::{self, Accesses, PageAccesses};
use kilndb_types::{Datum, EvalContext, io};
use std::fmt::Write;

/// The measurements of a run, if there was one.
pub struct Measurements<'a> {
    pub counters: Option<&'a [NodeCounter]>,
    pub removed: &'a RemovedPartitions,
    pub execution_ms: Option<f64>,
    pub serialized: Option<SerializeMeasurements>,
}

/// What EXPLAIN (SERIALIZE) has measured.
#[derive(Clone, Copy, Default)]
pub(crate) struct SerializeMeasurements {
    pub nanos: u64,
    pub bytes: u64,
    pub accesses: Accesses,
    pub format: ExplainSerialize,
}

impl SerializeMeasurements {
    pub(crate) fn format_name(&self) -> &'static str {
        if self.format == ExplainSerialize::Binary { "binary" } else { "text" }
    }
}

/// Takes the rows of the statement that is analyzed: makes messages of them, if wanted, and throws them away.
pub struct Serializer<'a> {
    total: SerializeMeasurements,
    columns: &'a [(Oid, i32)],
    eval: EvalContext<'a>,
    buffer: Vec<u8>,
}

impl<'a> Serializer<'a> {
    pub fn new(format: ExplainSerialize, columns: &'a [(Oid, i32)], eval: EvalContext<'a>) -> Serializer<'a> {
        Serializer {
            total: SerializeMeasurements { format, ..SerializeMeasurements::default() },
            columns,
            eval,
            buffer: Vec::new(),
        }
    }
    /// None: SERIALIZE was not asked for.
    pub(crate) fn into_total(self) -> Option<SerializeMeasurements> {
        (self.total.format != ExplainSerialize::None).then_some(self.total)
    }
}

impl RowSink for Serializer<'_> {
    fn row(&mut self, values: &[Datum]) -> Result<()> {
        let as_text = match self.total.format {
            ExplainSerialize::None => return Ok(()),
            ExplainSerialize::Text => true,
            ExplainSerialize::Binary => false,
        };
        let (started_nanos, before) = (process_monotonic_nanos(), accesses::now());
        self.buffer.clear();
        for (value, (type_oid, typmod)) in values.iter().zip(self.columns).filter(|(value, _)| !value.is_null()) {
            if as_text {
                io::output_typmod(*type_oid, *typmod, value, &mut self.buffer, &self.eval)?;
            } else {
                io::send_typmod(*type_oid, *typmod, value, &mut self.buffer, &self.eval)?;
            }
        }
        // The number of columns, and the length of each.
        let heads = 2 + 4 * self.columns.len().min(values.len());
        self.total.bytes += (heads + self.buffer.len()) as u64;
        self.total.nanos += process_monotonic_nanos() - started_nanos;
        self.total.accesses.add(&accesses::now().since(&before));
        Ok(())
    }
}

/// A counter that is shown in the text format if it is not 0, and its name in the other ones.
type NamedCount = (&'static str, &'static str, u64);

fn figures_of(pages: PageAccesses, names: [&'static str; 4]) -> [NamedCount; 4] {
    let [hit, read, dirtied, written] = names;
    [
        ("hit", hit, pages.hit),
        ("read", read, pages.read),
        ("dirtied", dirtied, pages.dirtied),
        ("written", written, pages.written),
    ]
}

fn buffer_figures(a: &Accesses) -> [(&'static str, Vec<NamedCount>); 3] {
    let shared = ["Shared Hit Blocks", "Shared Read Blocks", "Shared Dirtied Blocks", "Shared Written Blocks"];
    let local = ["Local Hit Blocks", "Local Read Blocks", "Local Dirtied Blocks", "Local Written Blocks"];
    let temporary =
        [("read", "Temp Read Blocks", a.temporary_read()), ("written", "Temp Written Blocks", a.temporary_written())];
    [
        ("shared", figures_of(a.shared(), shared).to_vec()),
        ("local", figures_of(a.local(), local).to_vec()),
        ("temp", temporary.to_vec()),
    ]
}

/// Full page images are always 0: the log has none.
fn log_figures(a: &Accesses) -> [NamedCount; 4] {
    let full = ("buffers full", "WAL Buffers Full", a.log_buffers_full());
    [("records", "WAL Records", a.log_records()), ("fpi", "WAL FPI", 0), ("bytes", "WAL Bytes", a.log_bytes()), full]
}

fn shown(figures: &[NamedCount]) -> Option<String> {
    let mut text = String::new();
    for (name, _, n) in figures.iter().filter(|f| f.2 > 0) {
        let _ = write!(text, " {name}={n}");
    }
    (!text.is_empty()).then_some(text)
}

/// `Buffers: …`; None: there is nothing to tell.
pub(crate) fn buffers_line(a: &Accesses) -> Option<String> {
    let parts: Vec<String> =
        buffer_figures(a).iter().filter_map(|(kind, figures)| Some(format!(" {kind}{}", shown(figures)?))).collect();
    (!parts.is_empty()).then(|| format!("Buffers:{}", parts.join(",")))
}

pub fn log_line(a: &Accesses) -> Option<String> {
    shown(&log_figures(a)).map(|text| format!("WAL:{text}"))
}

/// Names and numbers for the formats that show them all.
pub(crate) fn buffer_properties(a: &Accesses) -> Vec<(&'static str, u64)> {
    buffer_figures(a).into_iter().flat_map(|(_, figures)| figures).map(|(_, name, n)| (name, n)).collect()
}

pub(crate) fn log_properties(a: &Accesses) -> impl Iterator<Item = (&'static str, u64)> {
    log_figures(a).into_iter().map(|(_, name, n)| (name, n))
}

/// Does the node look something up in an index, and tells how often?
pub(crate) fn is_index_search(label: &str) -> bool {
    ["Index Scan", "Bitmap Index Scan"].iter().any(|kind| label.starts_with(kind))
}
