//! Built-in functions that code refers to by name.

use kilndb_base::Oid;

// Functions that run statements or fire as triggers.
pub const REWRITE: Oid = 3685;
pub const STATISTICS: Oid = 3689;
pub const STATISTICS_OF_WEIGHTS: Oid = 3690;
pub const UPDATE_BY_NAME: Oid = 3752;
pub const UPDATE_BY_COLUMN: Oid = 3753;

// Procedures of this server's own.
pub const PARTITION_TABLE: Oid = 9901;
pub const PARTITION_TABLE_BY_HASH: Oid = 9902;

#[cfg(test)]
mod tests {
    use crate::builtin::BUILTINS;
    use kilndb_types::functions::descriptor::{FunctionKind, descriptors};

    /// JSON_OBJECT, JSON_ARRAY and a sequence as a table, which are syntax, and have no rows in pg_proc.
    const UNNAMED: std::ops::RangeInclusive<kilndb_base::Oid> = 9911..=9915;

    #[test]
    fn descriptors_say_what_pg_proc_says() {
        let is_listed = |oid: &kilndb_base::Oid| (1..12_000).contains(oid) && !UNNAMED.contains(oid);
        assert!(UNNAMED.into_iter().all(|oid| !BUILTINS.functions.contains_key(&oid)));
        for d in descriptors().iter().filter(|d| is_listed(&d.oid)) {
            let Some(info) = BUILTINS.functions.get(&d.oid) else { panic!("{} is not in pg_proc", d.name) };
            let facts = (info.name.as_str(), info.strict, info.volatility);
            assert_eq!((d.name, d.strict, d.volatility.letter()), facts, "OID {}", d.oid);
            let (returns_set, kind) = match d.kind {
                FunctionKind::Rows(_) | FunctionKind::SessionRows(_) => (true, b'f'),
                FunctionKind::Aggregate(_) => (false, b'a'),
                FunctionKind::Window(_) => (false, b'w'),
                FunctionKind::Routine => (info.returns_set, info.kind),
                _ => (false, b'f'),
            };
            assert_eq!((info.returns_set, info.kind), (returns_set, kind), "{}", d.name);
        }
    }
}
