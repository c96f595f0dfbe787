//! Functions and operators by pg_proc OID.
//!
//! A Rust function carries the name that pg_proc's prosrc has, or is called `p<oid>_...`. `descriptor.rs` says what is
//! known of a function, `table.rs` (written by `scripts/function-table.py`) has a row for each.
//!
//! Invariants
//! 1. A strict function is never called with a NULL; one that is not strict deals with them itself.
//! 2. A wrong argument type is an internal error, never a panic.

use crate::acl::AclItem;
use crate::network::Inet;
use crate::numeric::Numeric;
use crate::range::{Multirange, Range};
use crate::{Array, Datum, EvalContext, Interval};
use kilndb_base::{Error, Result, shared};
use kilndb_fulltext::{TsQuery, TsVector};
use std::sync::Arc;

/// Defines functions: `fn name(ctx; a: int4, b: text) = expression;`. Each argument is read by the getter of
/// that name in [`get`]; the result is whatever turns into a [`Datum`].
macro_rules! scalars {
    ($( $(#[$doc:meta])* fn $name:ident($ctx:ident; $($arg:ident : $getter:ident),* $(,)?) = $body:expr; )*) => { $(
        $(#[$doc])*
        #[allow(unused_assignments, unused_mut, unused_variables)]
        pub fn $name($ctx: &$crate::EvalContext<'_>, args: &[$crate::Datum]) -> kilndb_base::Result<$crate::Datum> {
            let mut at = 0;
            $(
                let $arg = $crate::functions::get::$getter($crate::functions::get::arg(args, at)?)?;
                at += 1;
            )*
            $crate::functions::IntoDatum::into_datum($body)
        }
    )* };
}

pub mod acl;
pub mod arithmetic;
pub mod array;
pub mod bits;
pub mod bytea;
mod citext;
pub mod compare;
pub mod convert;
pub mod datetime;
pub mod descriptor;
mod distance;
pub mod float;
pub mod hashing;
pub(crate) mod hstore;
pub mod inout;
pub mod int;
pub mod json;
pub mod json_constructor;
pub mod jsonb;
pub mod jsonpath;
pub(crate) mod limits;
pub mod misc;
pub(crate) mod money;
pub mod network;
pub mod numeric;
mod pgcrypto;
pub mod range;
pub mod regex;
pub mod rows;
pub mod sizes;
pub mod snapshot;
pub mod string;
mod table;
pub mod textsearch;
pub mod textsearch_json;
pub mod tochar;
mod trigram;
mod uuid_ossp;

pub use descriptor::{
    FunctionDescriptor, FunctionKind, SessionFunction, aggregate, descriptor, is_routine, lookup, support,
};

pub type ScalarFn = fn(&EvalContext<'_>, &[Datum]) -> Result<Datum>;

/// What function bodies may return.
pub trait IntoDatum {
    /// Fails if the statement is cancelled while a long value is copied.
    fn into_datum(self) -> Result<Datum>;
}
macro_rules! into_datum {
    ($($ty:ty => |$v:ident| $e:expr;)*) => { $(
        impl IntoDatum for $ty {
            fn into_datum(self) -> Result<Datum> {
                let $v = self;
                Ok($e)
            }
        }
    )* };
}
into_datum! {
    Datum => |v| v;
    bool => |v| Datum::Bool(v);
    i16 => |v| Datum::Int2(v);
    i32 => |v| Datum::Int4(v);
    i64 => |v| Datum::Int8(v);
    f32 => |v| Datum::Float4(v);
    f64 => |v| Datum::Float8(v);
    u32 => |v| Datum::Oid(v);
    u64 => |v| Datum::U64(v);
    &str => |v| Datum::Text(shared::text(v)?);
    String => |v| Datum::Text(shared::text(&v)?);
    Arc<str> => |v| Datum::Text(v);
    &[u8] => |v| Datum::Bytea(shared::bytes(v)?);
    Vec<u8> => |v| Datum::Bytea(shared::bytes(&v)?);
    Numeric => |v| Datum::Numeric(v);
    Interval => |v| Datum::Interval(Arc::new(v));
    Array => |v| Datum::Array(Arc::new(v));
    [u8; 16] => |v| Datum::Uuid(v);
    Inet => |v| Datum::Inet(v);
    [u8; 6] => |v| Datum::MacAddr(v);
    [u8; 8] => |v| Datum::MacAddr8(v);
    TsVector => |v| Datum::TsVector(Arc::new(v));
    TsQuery => |v| Datum::TsQuery(Arc::new(v));
}
impl<T: IntoDatum> IntoDatum for Option<T> {
    fn into_datum(self) -> Result<Datum> {
        self.map_or(Ok(Datum::Null), T::into_datum)
    }
}

/// Argument getters, named for the SQL types.
pub mod get {
    use super::*;

    #[cold]
    fn missing() -> Error {
        Error::internal("function called with too few arguments")
    }
    #[cold]
    fn wrong(want: &str, d: &Datum) -> Error {
        Error::internal(format!("function wants {want}, got {d:?}"))
    }
    pub fn arg(args: &[Datum], at: usize) -> Result<&Datum> {
        args.get(at).ok_or_else(missing)
    }
    pub fn any(d: &Datum) -> Result<&Datum> {
        Ok(d)
    }
    macro_rules! getters {
        ($($name:ident -> $ty:ty { $($pat:pat => $e:expr),* $(,)? })*) => { $(
            pub fn $name(d: &Datum) -> Result<$ty> {
                match d { $($pat => Ok($e),)* _ => Err(wrong(stringify!($name), d)) }
            }
        )* };
    }
    getters! {
        boolean -> bool { Datum::Bool(v) => *v }
        character -> u8 { Datum::Char(v) => *v }
        int2 -> i16 { Datum::Int2(v) => *v }
        int4 -> i32 { Datum::Int4(v) => *v, Datum::Int2(v) => i32::from(*v) }
        int8 -> i64 { Datum::Int8(v) => *v, Datum::Int4(v) => i64::from(*v), Datum::Int2(v) => i64::from(*v) }
        float4 -> f32 { Datum::Float4(v) => *v }
        float8 -> f64 { Datum::Float8(v) => *v, Datum::Float4(v) => f64::from(*v) }
        oid -> u32 { Datum::Oid(v) => *v }
        text -> &str { Datum::Text(v) => v }
        bytea -> &[u8] { Datum::Bytea(v) => v }
        jsonb -> &[u8] { Datum::Jsonb(v) => v }
        date -> i32 { Datum::Date(v) => *v }
        time -> i64 { Datum::Time(v) => *v }
        timetz -> (i64, i32) { Datum::TimeTz(v, z) => (*v, *z) }
        timestamp -> i64 { Datum::Timestamp(v) => *v, Datum::TimestampTz(v) => *v }
        interval -> Interval { Datum::Interval(v) => **v }
        numeric -> &Numeric { Datum::Numeric(v) => v }
        uuid -> &[u8; 16] { Datum::Uuid(v) => v }
        big -> u64 { Datum::U64(v) => *v }
        array -> &Array { Datum::Array(v) => v }
        tsvector -> &TsVector { Datum::TsVector(v) => v }
        tsquery -> &TsQuery { Datum::TsQuery(v) => v }
        inet -> &Inet { Datum::Inet(v) => v }
        macaddr -> &[u8; 6] { Datum::MacAddr(v) => v }
        macaddr8 -> &[u8; 8] { Datum::MacAddr8(v) => v }
        aclitem -> &AclItem { Datum::AclItem(v) => v }
        range -> &Range { Datum::Range(v) => v }
        multirange -> &Multirange { Datum::Multirange(v) => v }
    }
}
