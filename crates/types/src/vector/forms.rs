//! Which functions have a vector form. A function's descriptor carries it.

use super::{VectorFn, arithmetic, compare, json, text};
use kilndb_base::Oid;

/// The vector form of a function, by its OID in pg_proc.
pub const fn form(function: Oid) -> Option<VectorFn> {
    Some(match function {
        // Comparisons of date, timestamp, timestamptz, time, numeric, float8, boolean, oid and "char".
        1086 | 2052 | 1152 | 1145 | 1718 | 293 | 60 | 184 | 61 | 2340 | 2366 => compare::plain::eq,
        1091 | 2053 | 1153 | 1106 | 1719 | 294 | 84 | 185 | 70 | 2343 | 2369 => compare::plain::ne,
        1087 | 2054 | 1154 | 1102 | 1722 | 295 | 56 | 716 | 1246 | 2338 | 2364 => compare::plain::lt,
        1088 | 2055 | 1155 | 1103 | 1723 | 296 | 1691 | 717 | 72 | 2339 | 2365 => compare::plain::le,
        1089 | 2057 | 1157 | 1104 | 1720 | 297 | 57 | 1638 | 73 | 2341 | 2367 => compare::plain::gt,
        1090 | 2056 | 1156 | 1105 | 1721 | 298 | 1692 | 1639 | 74 | 2342 | 2368 => compare::plain::ge,
        67 => compare::text::eq,
        157 => compare::text::ne,
        740 => compare::text::lt,
        741 => compare::text::le,
        742 => compare::text::gt,
        743 => compare::text::ge,
        1048 => compare::padded::eq,
        1053 => compare::padded::ne,
        1049 => compare::padded::lt,
        1050 => compare::padded::le,
        1051 => compare::padded::gt,
        1052 => compare::padded::ge,
        850 | 1569 => text::like,
        851 | 1570 => text::not_like,
        3478 => json::member,
        3214 => json::member_text,
        1258 => text::concatenate,
        1257 | 1317 => text::length,
        154 => arithmetic::int4_divide,
        466 => arithmetic::int8_divide,
        156 | 941 => arithmetic::int4_remainder,
        945 | 947 => arithmetic::int8_remainder,
        1274 | 1278 => arithmetic::int8_add,
        1275 | 1279 => arithmetic::int8_subtract,
        1276 | 1280 => arithmetic::int8_multiply,
        1277 | 1281 => arithmetic::int8_divide,
        1724 => arithmetic::numeric_add,
        1725 => arithmetic::numeric_subtract,
        1726 => arithmetic::numeric_multiply,
        218 => arithmetic::float8_add,
        219 => arithmetic::float8_subtract,
        216 => arithmetic::float8_multiply,
        217 => arithmetic::float8_divide,
        1141 => arithmetic::date_add,
        1142 => arithmetic::date_subtract,
        481 | 754 => arithmetic::to_int8,
        1740 | 1781 | 1782 => arithmetic::to_numeric,
        235 | 316 | 482 => arithmetic::to_float8,
        _ => return None,
    })
}
