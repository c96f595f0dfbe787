//! Which object a row of the system tables defines, and which of its columns say what the object needs.
//!
//! Must not know: how dependencies are found, or written.

use super::ids::*;
use super::store::shape;
use kilndb_base::Oid;
use kilndb_types::Datum;
use kilndb_types::row::encode_self_describing;

/// A system table whose rows define objects.
struct DefinitionTable {
    table: Oid,
    /// The class of the objects that its rows define.
    class: Oid,
    /// The column with the object's OID.
    object: &'static str,
    /// A row with other values in one of these needs something else. Nothing else that changes in it matters.
    deciding: &'static [&'static str],
}

const fn of(table: Oid, class: Oid, object: &'static str, deciding: &'static [&'static str]) -> DefinitionTable {
    DefinitionTable { table, class, object, deciding }
}

const DEFINITION_TABLES: &[DefinitionTable] = &[
    of(PG_CLASS, PG_CLASS, "oid", &["relnamespace", "relkind", "relispartition", "reltype"]),
    of(PG_ATTRIBUTE, PG_CLASS, "attrelid", &["atttypid", "attcollation", "attisdropped"]),
    of(PG_INDEX, PG_CLASS, "indexrelid", &["indkey", "indclass", "indcollation", "indexprs", "indpred"]),
    of(PG_INHERITS, PG_CLASS, "inhrelid", &["inhparent"]),
    of(PG_PARTITIONED_TABLE, PG_CLASS, "partrelid", &["partattrs", "partclass", "partexprs"]),
    of(PG_TYPE, PG_TYPE, "oid", &["typnamespace", "typbasetype", "typdefault", "typdefaultbin", "typcollation"]),
    of(PG_RANGE, PG_TYPE, "rngtypid", &["rngsubtype", "rngsubopc", "rngsubdiff", "rngcanonical"]),
    of(
        PG_CONSTRAINT,
        PG_CONSTRAINT,
        "oid",
        &["conrelid", "contypid", "conkey", "confrelid", "confkey", "conindid", "conparentid", "conbin"],
    ),
    // An index that is a constraint's needs that, and its columns no longer.
    of(PG_CONSTRAINT, PG_CLASS, "conindid", &["conindid"]),
    of(PG_ATTRDEF, PG_ATTRDEF, "oid", &["adrelid", "adnum", "adbin"]),
    of(PG_REWRITE, PG_REWRITE, "oid", &["ev_class", "ev_action"]),
    of(PG_TRIGGER, PG_TRIGGER, "oid", &["tgrelid", "tgparentid", "tgfoid", "tgconstraint", "tgattr", "tgqual"]),
    of(PG_POLICY, PG_POLICY, "oid", &["polrelid", "polqual", "polwithcheck"]),
    of(
        PG_PROC,
        PG_PROC,
        "oid",
        &["pronamespace", "prorettype", "proargtypes", "proallargtypes", "proargdefaults", "prosqlbody", "prosupport"],
    ),
    of(PG_OPCLASS, PG_OPCLASS, "oid", &["opcnamespace", "opcfamily", "opcintype"]),
    of(PG_OPFAMILY, PG_OPFAMILY, "oid", &["opfnamespace"]),
    of(PG_COLLATION, PG_COLLATION, "oid", &["collnamespace"]),
    of(PG_EXTENSION, PG_EXTENSION, "oid", &["extnamespace"]),
    of(PG_STATISTIC_EXT, PG_STATISTIC_EXT, "oid", &["stxrelid", "stxnamespace", "stxkeys", "stxexprs"]),
    of(PG_TS_CONFIG, PG_TS_CONFIG, "oid", &["cfgnamespace", "cfgparser"]),
    of(PG_TS_CONFIG_MAP, PG_TS_CONFIG, "mapcfg", &["mapdict"]),
    of(PG_TS_DICT, PG_TS_DICT, "oid", &["dictnamespace", "dicttemplate"]),
    of(PG_TS_PARSER, PG_TS_PARSER, "oid", &["prsnamespace"]),
    of(PG_TS_TEMPLATE, PG_TS_TEMPLATE, "oid", &["tmplnamespace"]),
];

/// The objects (class, OID) that a written row defines, if what they need may have changed. `old`: the row before an
/// update.
pub(crate) fn defined_objects(table: Oid, old: Option<&[Datum]>, row: &[Datum]) -> Vec<(Oid, Oid)> {
    let Ok(shape) = shape(table) else { return Vec::new() };
    let value =
        |row: &[Datum], name: &str| shape.table.column(name).and_then(|i| row.get(i)).cloned().unwrap_or(Datum::Null);
    let deciding = |definition: &DefinitionTable, row: &[Datum]| {
        let values: Vec<Datum> = definition.deciding.iter().map(|name| value(row, name)).collect();
        let mut bytes = Vec::new();
        encode_self_describing(&values, &mut bytes);
        bytes
    };
    let defined = |definition: &DefinitionTable| match value(row, definition.object) {
        Datum::Oid(0) => None,
        Datum::Oid(object) if old.is_none_or(|old| deciding(definition, old) != deciding(definition, row)) => {
            Some((definition.class, object))
        }
        _ => None,
    };
    DEFINITION_TABLES.iter().filter(|d| d.table == table).filter_map(defined).collect()
}

/// The classes of objects whose dependencies follow from their rows.
pub fn derived_classes() -> impl Iterator<Item = Oid> {
    DEFINITION_TABLES.iter().filter(|d| d.table == d.class).map(|d| d.class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_column_exists() {
        for definition in DEFINITION_TABLES {
            let shape = shape(definition.table).expect("a system table");
            for name in definition.deciding.iter().chain([&definition.object]) {
                assert!(shape.table.column(name).is_some(), "{} has no {name}", shape.table.name);
            }
        }
    }
}
