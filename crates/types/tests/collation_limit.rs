//! Rules of collations are kept as long as the process: this file has a process of its own, as it uses all that there are.

use kilndb_base::sqlstate;
use kilndb_types::collation::rules;
use kilndb_types::{Datum, key, oids};

#[test]
fn a_collation_too_many_is_refused() {
    let swedish = rules("sv", true).unwrap();
    let refused =
        (0..100_000).find_map(|n| rules(&format!("und-x-n{n}"), true).err()).expect("there is an end of them");
    assert_eq!(refused.sqlstate(), sqlstate::PROGRAM_LIMIT_EXCEEDED);
    // Those that there are stay what they were, for all types.
    assert!(std::ptr::eq(rules("sv", true).unwrap(), swedish));
    for ty in [oids::TEXT, oids::BPCHAR, oids::TEXT_ARRAY, 50_000] {
        assert!(key::compare(swedish.order_type(ty), &Datum::text("z"), &Datum::text("ä")).is_lt());
    }
}
