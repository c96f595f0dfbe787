//! Text and binary formats of values.
use crate::{Datum, EvalContext};
use kilndb_base::{Error, Oid, Result};

/// Text input, typmod applied as PostgreSQL's input functions do.
pub fn input(type_oid: Oid, text: &str, typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    let _ = (text, typmod, ctx);
    Err(Error::unsupported(format!("input of type {type_oid}")))
}
/// Appends the text form. Never called with NULL.
pub fn output(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    output_typmod(type_oid, -1, datum, out, ctx)
}
/// Like [`output`]; pads char(n) to its declared length.
pub fn output_typmod(type_oid: Oid, typmod: i32, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    let _ = (typmod, datum, out, ctx);
    Err(Error::unsupported(format!("output of type {type_oid}")))
}
/// Binary input.
pub fn receive(type_oid: Oid, bytes: &[u8], typmod: i32, ctx: &EvalContext) -> Result<Datum> {
    let _ = (bytes, typmod, ctx);
    Err(Error::unsupported(format!("binary input of type {type_oid}")))
}
/// Appends the binary form. Never called with NULL.
pub fn send(type_oid: Oid, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    send_typmod(type_oid, -1, datum, out, ctx)
}
/// Like [`send`]; pads char(n) to its declared length.
pub fn send_typmod(type_oid: Oid, typmod: i32, datum: &Datum, out: &mut Vec<u8>, ctx: &EvalContext) -> Result<()> {
    let _ = (typmod, datum, out, ctx);
    Err(Error::unsupported(format!("binary output of type {type_oid}")))
}
