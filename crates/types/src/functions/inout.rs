//! Input, output and send functions that SQL may call by name.

use crate::{Datum, EvalContext, io, oids::*};
use kilndb_base::{Oid, Result};

fn send(c: &EvalContext, t: Oid, d: &Datum) -> Result<Vec<u8>> {
    let mut out = Vec::new();
    io::send(t, d, &mut out, c)?;
    Ok(out)
}

scalars! {
    fn boolsend(c; v: any) = send(c, BOOL, v)?;
    fn int2send(c; v: any) = send(c, INT2, v)?;
    fn int4send(c; v: any) = send(c, INT4, v)?;
    fn int8send(c; v: any) = send(c, INT8, v)?;
    fn float4send(c; v: any) = send(c, FLOAT4, v)?;
    fn float8send(c; v: any) = send(c, FLOAT8, v)?;
    fn oidsend(c; v: any) = send(c, OID, v)?;
    fn numeric_send(c; v: any) = send(c, NUMERIC, v)?;
    fn textsend(c; v: any) = send(c, TEXT, v)?;
    fn byteasend(c; v: any) = send(c, BYTEA, v)?;
    fn uuid_send(c; v: any) = send(c, UUID, v)?;
    fn date_send(c; v: any) = send(c, DATE, v)?;
    fn time_send(c; v: any) = send(c, TIME, v)?;
    fn timetz_send(c; v: any) = send(c, TIMETZ, v)?;
    fn timestamp_send(c; v: any) = send(c, TIMESTAMP, v)?;
    fn timestamptz_send(c; v: any) = send(c, TIMESTAMPTZ, v)?;
    fn interval_send(c; v: any) = send(c, INTERVAL, v)?;
    fn boolin(c; v: text) = io::input(BOOL, v, -1, c)?;
    fn int2in(c; v: text) = io::input(INT2, v, -1, c)?;
    fn int4in(c; v: text) = io::input(INT4, v, -1, c)?;
    fn int8in(c; v: text) = io::input(INT8, v, -1, c)?;
    fn float4in(c; v: text) = io::input(FLOAT4, v, -1, c)?;
    fn float8in(c; v: text) = io::input(FLOAT8, v, -1, c)?;
    fn oidin(c; v: text) = io::input(OID, v, -1, c)?;
    fn textin(c; v: text) = io::input(TEXT, v, -1, c)?;
    fn byteain(c; v: text) = io::input(BYTEA, v, -1, c)?;
    fn uuid_in(c; v: text) = io::input(UUID, v, -1, c)?;
    fn date_in(c; v: text) = io::input(DATE, v, -1, c)?;
    fn boolout(c; v: any) = io::output_string(BOOL, v, c)?;
    fn int2out(c; v: any) = io::output_string(INT2, v, c)?;
    fn int4out(c; v: any) = io::output_string(INT4, v, c)?;
    fn int8out(c; v: any) = io::output_string(INT8, v, c)?;
    fn float4out(c; v: any) = io::output_string(FLOAT4, v, c)?;
    fn float8out(c; v: any) = io::output_string(FLOAT8, v, c)?;
    fn oidout(c; v: any) = io::output_string(OID, v, c)?;
    fn textout(c; v: any) = io::output_string(TEXT, v, c)?;
    fn byteaout(c; v: any) = io::output_string(BYTEA, v, c)?;
    fn uuid_out(c; v: any) = io::output_string(UUID, v, c)?;
    fn date_out(c; v: any) = io::output_string(DATE, v, c)?;
    fn numeric_out(c; v: any) = io::output_string(NUMERIC, v, c)?;
    fn timestamp_out(c; v: any) = io::output_string(TIMESTAMP, v, c)?;
    fn timestamptz_out(c; v: any) = io::output_string(TIMESTAMPTZ, v, c)?;
    fn interval_out(c; v: any) = io::output_string(INTERVAL, v, c)?;
    fn time_out(c; v: any) = io::output_string(TIME, v, c)?;
    fn timetz_out(c; v: any) = io::output_string(TIMETZ, v, c)?;
    fn tidout(c; v: any) = io::output_string(TID, v, c)?;
    fn tidsend(c; v: any) = send(c, TID, v)?;
    fn xidin(c; v: text) = io::input(XID, v, -1, c)?;
    fn xidout(c; v: any) = io::output_string(XID, v, c)?;
    fn xidsend(c; v: any) = send(c, XID, v)?;
    fn cidin(c; v: text) = io::input(CID, v, -1, c)?;
    fn cidout(c; v: any) = io::output_string(CID, v, c)?;
    fn cidsend(c; v: any) = send(c, CID, v)?;
    fn xid8in(c; v: text) = io::input(XID8, v, -1, c)?;
    fn xid8out(c; v: any) = io::output_string(XID8, v, c)?;
    fn xid8send(c; v: any) = send(c, XID8, v)?;
    fn pg_lsn_in(c; v: text) = io::input(PG_LSN, v, -1, c)?;
    fn pg_lsn_out(c; v: any) = io::output_string(PG_LSN, v, c)?;
    fn pg_lsn_send(c; v: any) = send(c, PG_LSN, v)?;
}
