//! A statement's rows, printed by several threads and handed on by the session in the order of the table.

use super::columns::ColumnBatch;
use super::context::*;
use super::morsels::{MorselResult, MorselRun};
use super::outcomes::Spares;
use super::parts::begin_morsels;
use super::state::NodeState;
use kilndb_base::Result;
use kilndb_base::sync::Arc;

impl MorselResult for PrintedRows {
    fn bytes(&self) -> usize {
        self.bytes.len()
    }
}

pub(crate) struct PrintedRun {
    run: MorselRun<PrintedRows>,
    spare: Spares<PrintedRows>,
}

impl PrintedRun {
    /// None: one thread reads all.
    pub fn begin(
        printer: Arc<dyn RowPrinter>,
        (input, is_used): (&mut NodeState, &[bool]),
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<Option<PrintedRun>> {
        let (wanted, spare) = (is_used.to_vec(), Spares::<PrintedRows>::default());
        let theirs = spare.clone();
        let print = move |input: &mut NodeState, out: &mut PrintedRows, rt: &mut RunState, cx: &mut ExecContext<'_>| {
            *out = theirs.take();
            let mut batch = ColumnBatch::default();
            while input.fill_columns((&mut batch, &wanted), rt, cx)? {
                let (columns, rows) = batch.parts();
                printer.print(columns, rows, &cx.eval, out)?;
            }
            Ok(())
        };
        let node = input.node().id;
        let run = begin_morsels((input, is_used, node), Arc::new(print), rt, cx)?;
        Ok(run.map(|run| PrintedRun { run, spare }))
    }

    /// Hands all rows to the sink; how many.
    pub fn hand_out(
        &mut self,
        sink: &mut dyn RowSink,
        input: &mut NodeState,
        rt: &mut RunState,
        cx: &mut ExecContext<'_>,
    ) -> Result<u64> {
        let mut handed = 0;
        while let Some(mut rows) = self.run.next(input, rt, cx)? {
            handed += rows.rows;
            sink.printed(&rows)?;
            rows.clear();
            self.spare.put(rows);
        }
        Ok(handed)
    }
}
