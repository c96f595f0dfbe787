//! Functions of pg_snapshot and txid_snapshot.

use crate::snapshot::SnapshotText;
use crate::{Datum, io, oids::PG_SNAPSHOT};
use kilndb_base::Result;

fn parsed(text: &str) -> Result<SnapshotText> {
    SnapshotText::parse(text)
}
/// Transactions that a snapshot does not see: the rows of txid_snapshot_xip and pg_snapshot_xip.
pub fn running(args: &[Datum], as_xid8: bool) -> Result<Vec<Datum>> {
    let snapshot = parsed(super::get::text(super::get::arg(args, 0)?)?)?;
    Ok(snapshot.running.iter().map(|v| if as_xid8 { Datum::U64(*v) } else { Datum::Int8(*v as i64) }).collect())
}

scalars! {
    fn pg_snapshot_in(c; t: text) = io::input(PG_SNAPSHOT, t, -1, c)?;
    fn pg_snapshot_out(_c; a: text) = a;
    fn pg_snapshot_send(_c; a: text) = { let mut out = Vec::new(); parsed(a)?.send(&mut out); out };
    fn p5062_xmin(_c; a: text) = parsed(a)?.xmin;
    fn p5063_xmax(_c; a: text) = parsed(a)?.xmax;
    fn p5065_visible(_c; xid: big, a: text) = parsed(a)?.sees(xid);
    fn p2945_xmin(_c; a: text) = parsed(a)?.xmin as i64;
    fn p2946_xmax(_c; a: text) = parsed(a)?.xmax as i64;
    fn p2948_visible(_c; xid: int8, a: text) = parsed(a)?.sees(xid as u64);
}
