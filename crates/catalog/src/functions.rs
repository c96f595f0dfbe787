//! Which of PostgreSQL's functions this build runs.

use kilndb_base::Oid;
use kilndb_types::{aggregates, functions};

/// Set-returning functions and aggregates that the executor runs itself.
const OWN: &[Oid] = &[
    1066, 1067, 1068, 1069, 3259, 3260, 938, 939, 2331, 1191, 1192, 2765, 2766, 6160, 6161, 2803, 2147,
    // Text search: unnest, ts_token_type, ts_parse, ts_debug.
    3322, 3713, 3714, 3715, 3716, 6183, 6184, // Ranges' constructors, unnest.
    3840, 3841, 3844, 3845, 3933, 3934, 3937, 3938, 3941, 3942, 3945, 3946, 4280, 4281, 4282, 4283, 4284, 4285, 4286,
    4287, 4288, 4289, 4290, 4291, 4292, 4293, 4294, 4295, 4296, 4297, 4298, 1293,
    // satisfies_hash_partition.
    5028, // pg_snapshot_xip.
    2947, 5064, // Window functions.
    3100, 3101, 3102, 3103, 3104, 3105, 3106, 3107, 3108, 3109, 3110, 3111, 3112, 3113, 3114,
];

/// False: a call fails, unless the session answers it.
pub fn is_implemented(oid: Oid) -> bool {
    is_routine(oid)
        || OWN.contains(&oid)
        || kilndb_types::json::sets::SETS.contains(&oid)
        || functions::lookup(oid).is_some()
        || aggregates::new_with_types(oid, &[]).is_some()
}

// Built-in functions that run statements or fire as triggers.
pub const REWRITE: Oid = 3685;
pub const STATISTICS: Oid = 3689;
pub const STATISTICS_OF_WEIGHTS: Oid = 3690;
pub const UPDATE_BY_NAME: Oid = 3752;
pub const UPDATE_BY_COLUMN: Oid = 3753;

/// Those that are called like users' functions, by their OIDs.
pub fn is_routine(oid: Oid) -> bool {
    matches!(oid, REWRITE | STATISTICS | STATISTICS_OF_WEIGHTS | UPDATE_BY_NAME | UPDATE_BY_COLUMN)
}
