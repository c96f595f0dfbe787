//! The registry of access methods of indexes: what users name after USING, and what it can do.
//!
//! An access method is a name for a kind of storage relation ([`AccessMethod::kind`]), with PostgreSQL's rules for that
//! name. Brin indexes are trees in all but their name, and no scan uses them (docs/compatibility.md). So are hash indexes that
//! an earlier build has made, but scans use those.
//!
//! Invariants
//! 1. Whoever uses or defines an index asks for properties here, never for a method by its name.
//!
//! Must not know: syntax, plans.

use kilndb_base::Oid;
use kilndb_storage::{IndexContents, RelationKind};

/// The method of indexes that say none, and of keys and orders that are nobody's index.
pub const BTREE_METHOD: Oid = 403;
pub const HASH_METHOD: Oid = 405;

/// What the value of a storage parameter must be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OptionValue {
    Any,
    Boolean,
    Between(i64, i64),
}

#[derive(PartialEq, Eq, Debug)]
pub struct AccessMethod {
    pub oid: Oid,
    pub name: &'static str,
    /// The function that pg_am names.
    pub handler: Oid,
    /// What its indexes are in storage; None: the method exists by its name only.
    pub kind: Option<RelationKind>,
    /// Scans use the order of its keys; ASC, DESC and NULLS FIRST may be said of them.
    pub is_ordered: bool,
    /// Scans find the rows of a whole key. Without an order they may find others too, and whoever scans compares.
    pub finds_keys: bool,
    pub can_be_unique: bool,
    pub can_include: bool,
    pub can_have_several_columns: bool,
    pub can_cluster: bool,
    /// Strategies of operator families have numbers up to this one; 0: they are the class's own affair.
    pub strategies: i32,
    /// Support functions have numbers up to this one.
    pub functions: i32,
    /// The number of the function that reads a class's options.
    pub options_function: i32,
    /// A family may say by which other family an operator orders.
    pub orders_by_operator: bool,
    /// A class may keep values of another type than the column's.
    pub can_store_other_type: bool,
    /// Storage parameters.
    pub options: &'static [(&'static str, OptionValue)],
}

const fn by_name_only(oid: Oid, name: &'static str, handler: Oid) -> AccessMethod {
    AccessMethod {
        oid,
        name,
        handler,
        kind: None,
        is_ordered: false,
        finds_keys: false,
        can_be_unique: false,
        can_include: false,
        can_have_several_columns: true,
        can_cluster: false,
        strategies: 0,
        functions: 0,
        options_function: 0,
        orders_by_operator: false,
        can_store_other_type: true,
        options: &[],
    }
}

/// Storage parameters of bloom: bits of a row's signature, and how many of them each column sets. An inverted index has no
/// signatures, so they are kept to be shown.
static BLOOM_OPTIONS: [(&str, OptionValue); 33] = {
    let mut options = [("length", OptionValue::Between(1, 4096)); 33];
    let mut column = 1;
    while column < options.len() {
        options[column] = (BLOOM_COLUMNS[column - 1], OptionValue::Between(1, 4095));
        column += 1;
    }
    options
};
#[rustfmt::skip]
const BLOOM_COLUMNS: [&str; 32] = [
    "col1", "col2", "col3", "col4", "col5", "col6", "col7", "col8", "col9", "col10", "col11", "col12", "col13", "col14", "col15", "col16",
    "col17", "col18", "col19", "col20", "col21", "col22", "col23", "col24", "col25", "col26", "col27", "col28", "col29", "col30", "col31", "col32",
];

/// All access methods of indexes, in the order of pg_am; those that extensions bring are last.
pub(crate) static ACCESS_METHODS: [AccessMethod; 7] = [
    AccessMethod {
        kind: Some(RelationKind::BTree),
        is_ordered: true,
        finds_keys: true,
        can_be_unique: true,
        can_include: true,
        can_cluster: true,
        strategies: 5,
        functions: 6,
        options_function: 5,
        can_store_other_type: false,
        options: &[("fillfactor", OptionValue::Any), ("deduplicate_items", OptionValue::Boolean)],
        ..by_name_only(BTREE_METHOD, "btree", 330)
    },
    AccessMethod {
        kind: Some(RelationKind::Hash),
        finds_keys: true,
        can_have_several_columns: false,
        strategies: 1,
        functions: 3,
        options_function: 3,
        can_store_other_type: false,
        options: &[("fillfactor", OptionValue::Any)],
        ..by_name_only(HASH_METHOD, "hash", 331)
    },
    AccessMethod {
        can_cluster: true,
        functions: 12,
        options_function: 10,
        orders_by_operator: true,
        ..by_name_only(783, "gist", 332)
    },
    AccessMethod {
        kind: Some(RelationKind::Inverted),
        functions: 7,
        options_function: 7,
        options: &[
            ("fastupdate", OptionValue::Boolean),
            ("gin_pending_list_limit", OptionValue::Between(64, 2_147_483_647)),
        ],
        ..by_name_only(2742, "gin", 333)
    },
    AccessMethod { functions: 7, options_function: 7, orders_by_operator: true, ..by_name_only(4000, "spgist", 334) },
    AccessMethod {
        kind: Some(RelationKind::BTree),
        functions: 15,
        options_function: 5,
        options: &[("autosummarize", OptionValue::Boolean), ("pages_per_range", OptionValue::Between(1, 131_072))],
        ..by_name_only(3580, "brin", 335)
    },
    AccessMethod {
        kind: Some(RelationKind::Inverted),
        strategies: 1,
        functions: 2,
        options_function: 2,
        can_store_other_type: false,
        options: &BLOOM_OPTIONS,
        ..by_name_only(15969, "bloom", 15960)
    },
];

impl AccessMethod {
    pub fn named(name: &str) -> Option<&'static AccessMethod> {
        ACCESS_METHODS.iter().find(|method| method.name == name)
    }
    pub(crate) fn of_oid(oid: Oid) -> Option<&'static AccessMethod> {
        ACCESS_METHODS.iter().find(|method| method.oid == oid)
    }
    /// The access method with this OID. An OID that is no access method's counts as that of the usual one, as indexes
    /// of system tables do.
    pub fn of(oid: Oid) -> &'static AccessMethod {
        AccessMethod::of_oid(oid).unwrap_or(&ACCESS_METHODS[0])
    }
    /// Whether indexes of any method have such a storage parameter.
    pub fn some_has_option(name: &str) -> bool {
        ACCESS_METHODS.iter().any(|method| method.options.iter().any(|(option, _)| *option == name))
    }
    /// What its indexes are in storage.
    pub fn storage_kind(&self) -> RelationKind {
        self.kind.unwrap_or(RelationKind::BTree)
    }
    /// Each row has many terms in an index, rather than one key.
    pub fn has_terms(&self) -> bool {
        self.storage_kind().method().is_some_and(|method| method.contents == IndexContents::Terms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_can_do_no_more_than_their_storage() {
        for method in &ACCESS_METHODS {
            assert_eq!(AccessMethod::named(method.name), Some(method));
            assert_eq!(AccessMethod::of_oid(method.oid), Some(method));
            let Some(kind) = method.kind else { continue };
            let storage = kind.method().unwrap();
            assert!(!method.is_ordered || storage.is_ordered, "{}", method.name);
            assert!(!method.can_be_unique || storage.can_be_unique, "{}", method.name);
        }
    }
}
