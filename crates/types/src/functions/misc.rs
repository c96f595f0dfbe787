//! What fits nowhere else.

use super::get;
use crate::{Datum, EvalContext};
use kilndb_base::Result;

scalars! {
    fn oidtoi8(_c; a: oid) = i64::from(a);
    fn xid8toxid(_c; a: big) = a as u32;
}
/// Elements of a VARIADIC call: spread out, or one array.
fn nulls(args: &[Datum]) -> (usize, usize) {
    let list: &[Datum] = match args {
        [Datum::Array(a)] => &a.elements,
        _ => args,
    };
    let n = list.iter().filter(|d| d.is_null()).count();
    (n, list.len() - n)
}
pub fn pg_num_nulls(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(nulls(args).0 as i32))
}
pub fn pg_num_nonnulls(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(Datum::Int4(nulls(args).1 as i32))
}
/// Size as our row format would store it, with a length word for what varies.
pub fn pg_column_size(_ctx: &EvalContext<'_>, args: &[Datum]) -> Result<Datum> {
    Ok(match get::arg(args, 0)? {
        Datum::Null => Datum::Null,
        Datum::Bool(_) | Datum::Char(_) => Datum::Int4(1),
        Datum::Int2(_) => Datum::Int4(2),
        Datum::Int4(_) | Datum::Float4(_) | Datum::Oid(_) | Datum::Date(_) => Datum::Int4(4),
        Datum::Tid(..) | Datum::MacAddr(_) => Datum::Int4(6),
        Datum::TimeTz(..) => Datum::Int4(12),
        Datum::Interval(_) | Datum::Uuid(_) => Datum::Int4(16),
        Datum::Text(s) => Datum::Int4(s.len() as i32 + if s.len() < 127 { 1 } else { 4 }),
        Datum::Bytea(s) | Datum::Jsonb(s) => Datum::Int4(s.len() as i32 + if s.len() < 127 { 1 } else { 4 }),
        Datum::Inet(v) => Datum::Int4(3 + v.bytes().len() as i32),
        Datum::Numeric(n) => Datum::Int4(3 + n.digits().len() as i32 * 2),
        value @ (Datum::Range(_) | Datum::Multirange(_)) => Datum::Int4(crate::width::stored_width(0, value) as i32),
        _ => Datum::Int4(8),
    })
}
