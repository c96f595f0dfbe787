//! Extensions that can be created: what they are, and the rows of system tables that they bring (docs/decisions/0024).
//!
//! Types are among it: their values are described as those of built-in types are (`types::types::TypeDescriptor`), and their
//! rows, with those of casts, operators and operator classes, are files like the functions' (docs/decisions/0056).
//!
//! Invariants
//! 1. What an extension brings has the same OIDs in every database, between [`FIRST_EXTENSION_OID`] and the first
//!    user's.
//! 2. It is there in databases whose system tables have its rows, and nowhere else.

use super::AccessMethod;
use super::bootstrap::fill_from;
use super::builtin::{BUILTINS, FILES, FIRST_EXTENSION_OID, FIRST_USER_OID, Tsv, number};
use super::ids::*;
use super::store::CatalogWriter;
use super::text_search::TextSearchKind;
use kilndb_base::sync::LazyLock;
use kilndb_base::{Oid, Result};
use kilndb_types::inverted::InvertedClass;
use kilndb_types::{Datum, EvalContext, oids};

pub struct Extension {
    pub name: &'static str,
    pub version: &'static str,
    pub comment: &'static str,
    /// The schema that it is always in.
    pub schema: Option<&'static str>,
    /// Whoever may create things in the database may create it.
    pub trusted: bool,
}

impl Extension {
    pub fn is_relocatable(&self) -> bool {
        self.schema.is_none()
    }
}

pub const PLPGSQL: &str = "plpgsql";

pub const EXTENSIONS: [Extension; 10] = [
    Extension {
        name: "bloom",
        version: "1.0",
        comment: "bloom access method - signature file based index",
        schema: None,
        trusted: false,
    },
    Extension {
        name: "btree_gin",
        version: "1.3",
        comment: "support for indexing common datatypes in GIN",
        schema: None,
        trusted: true,
    },
    Extension {
        name: "btree_gist",
        version: "1.8",
        comment: "support for indexing common datatypes in GiST",
        schema: None,
        trusted: true,
    },
    Extension {
        name: "citext",
        version: "1.8",
        comment: "data type for case-insensitive character strings",
        schema: None,
        trusted: true,
    },
    Extension {
        name: "hstore",
        version: "1.8",
        comment: "data type for storing sets of (key, value) pairs",
        schema: None,
        trusted: true,
    },
    Extension {
        name: "pg_trgm",
        version: "1.6",
        comment: "text similarity measurement and index searching based on trigrams",
        schema: None,
        trusted: true,
    },
    Extension { name: "pgcrypto", version: "1.4", comment: "cryptographic functions", schema: None, trusted: true },
    Extension {
        name: PLPGSQL,
        version: "1.0",
        comment: "PL/pgSQL procedural language",
        schema: Some("pg_catalog"),
        trusted: true,
    },
    Extension {
        name: "unaccent",
        version: "1.1",
        comment: "text search dictionary that removes accents",
        schema: None,
        trusted: true,
    },
    Extension {
        name: "uuid-ossp",
        version: "1.1",
        comment: "generate universally unique identifiers (UUIDs)",
        schema: None,
        trusted: true,
    },
];

pub fn extension(name: &str) -> Option<&'static Extension> {
    EXTENSIONS.iter().find(|e| e.name == name)
}

/// Whether an object belongs to an extension.
pub fn is_member(oid: Oid) -> bool {
    (FIRST_EXTENSION_OID..FIRST_USER_OID).contains(&oid)
}

/// Whether an extension or a user has made the object, so that rows of the system tables describe it and it may go.
pub fn may_go(oid: Oid) -> bool {
    oid >= FIRST_EXTENSION_OID
}

/// An operator class of inverted indexes.
pub struct InvertedOperatorClass {
    pub oid: Oid,
    /// Its access method.
    pub method: Oid,
    pub input_type: Oid,
    pub is_default: bool,
    pub class: InvertedClass,
}

pub(crate) static INVERTED_CLASSES: LazyLock<Vec<InvertedOperatorClass>> = LazyLock::new(|| {
    let file = &FILES.extension_opclass;
    let (oid, input, is_default) = (file.column("oid"), file.column("opcintype"), file.column("opcdefault"));
    let method = file.column("opcmethod");
    let of_row = |r: &Vec<Option<&str>>| {
        let input_type = number(r[input]);
        let class = match r[0] {
            Some("pg_trgm") => InvertedClass::Trigram,
            Some("hstore") => InvertedClass::Hstore,
            Some("bloom") => InvertedClass::Hashed(input_type),
            _ => InvertedClass::Ordered(input_type),
        };
        InvertedOperatorClass {
            oid: number(r[oid]),
            method: number(r[method]),
            input_type,
            is_default: r[is_default] == Some("t"),
            class,
        }
    };
    file.rows.iter().filter(|r| AccessMethod::of(number(r[method])).has_terms()).map(of_row).collect()
});

/// System tables of members, with the indexes that find them by OID.
pub const MEMBER_TABLES: [(Oid, Oid); 9] = [
    (PG_PROC, PG_PROC_OID_INDEX),
    (PG_OPERATOR, PG_OPERATOR_OID_INDEX),
    (PG_OPFAMILY, PG_OPFAMILY_OID_INDEX),
    (PG_OPCLASS, PG_OPCLASS_OID_INDEX),
    (PG_TYPE, PG_TYPE_OID_INDEX),
    (PG_CAST, PG_CAST_OID_INDEX),
    (PG_TS_TEMPLATE, PG_TS_TEMPLATE_OID_INDEX),
    (PG_TS_DICT, PG_TS_DICT_OID_INDEX),
    (PG_AM, PG_AM_OID_INDEX),
];

/// The members of extensions that one system table describes.
struct MemberFile {
    table: Oid,
    file: &'static Tsv,
    /// The columns with a member's schema and owner; None: such members have none.
    schema: Option<&'static str>,
    owner: Option<&'static str>,
}

fn files() -> [MemberFile; 9] {
    let of_schema = |table, file, schema, owner| MemberFile { table, file, schema: Some(schema), owner: Some(owner) };
    [
        of_schema(PG_TYPE, &FILES.extension_type, "typnamespace", "typowner"),
        of_schema(PG_PROC, &FILES.extension_proc, "pronamespace", "proowner"),
        of_schema(PG_OPERATOR, &FILES.extension_operator, "oprnamespace", "oprowner"),
        of_schema(PG_OPFAMILY, &FILES.extension_opfamily, "opfnamespace", "opfowner"),
        of_schema(PG_OPCLASS, &FILES.extension_opclass, "opcnamespace", "opcowner"),
        MemberFile { table: PG_CAST, file: &FILES.extension_cast, schema: None, owner: None },
        MemberFile {
            table: PG_TS_TEMPLATE,
            file: &FILES.extension_ts_template,
            schema: Some("tmplnamespace"),
            owner: None,
        },
        MemberFile { table: PG_AM, file: &FILES.extension_am, schema: None, owner: None },
        of_schema(PG_TS_DICT, &FILES.extension_ts_dict, "dictnamespace", "dictowner"),
    ]
}

/// The column with the schema of a member; None: such members are in none.
pub fn schema_column(table: Oid) -> Option<&'static str> {
    files().iter().find(|f| f.table == table)?.schema
}

/// Members as (system table, OID).
pub fn members(name: &str) -> Vec<(Oid, Oid)> {
    let of_file = |MemberFile { table, file, .. }: MemberFile| {
        file.rows.iter().filter(|r| r[0] == Some(name)).map(move |r| (table, number(r[1]))).collect::<Vec<_>>()
    };
    files().into_iter().flat_map(of_file).collect()
}

/// Names of the types.
pub fn type_names(name: &str) -> Vec<&'static str> {
    let file = &FILES.extension_type;
    let typname = file.column("typname");
    file.rows.iter().filter(|r| r[0] == Some(name)).filter_map(|r| r[typname]).collect()
}

/// The collation of a type that is built in or that an extension brings; 0: it has none.
pub fn collation_of_type(oid: Oid) -> Oid {
    if !is_member(oid) {
        return BUILTINS.types.get(&oid).map_or(0, |t| t.collation);
    }
    let file = &FILES.extension_type;
    let (of, collation) = (file.column("oid"), file.column("typcollation"));
    file.rows.iter().find(|r| number::<Oid>(r[of]) == oid).map_or(0, |r| number(r[collation]))
}

/// Names of the text search objects of one kind.
pub fn text_search_names(name: &str, kind: TextSearchKind) -> Vec<&'static str> {
    let (table, _, _, column, _) = kind.table();
    let Some(member) = files().into_iter().find(|f| f.table == table) else { return Vec::new() };
    let column = member.file.column(column);
    member.file.rows.iter().filter(|r| r[0] == Some(name)).filter_map(|r| r[column]).collect()
}

/// Signatures of the functions: name and types of the arguments.
pub fn signatures(name: &str) -> Vec<(&'static str, Vec<Oid>)> {
    let file = &FILES.extension_proc;
    let (proname, args) = (file.column("proname"), file.column("proargtypes"));
    file.rows
        .iter()
        .filter(|r| r[0] == Some(name))
        .map(|r| (r[proname].unwrap_or(""), super::builtin::oid_list(r[args])))
        .collect()
}

/// Writes the rows of all that the extension brings.
pub fn insert_members(
    writer: &mut CatalogWriter<'_>,
    name: &str,
    schema: Oid,
    owner: Oid,
    eval: &EvalContext<'_>,
) -> Result<()> {
    let is_its = |r: &[Option<&str>]| r.first() == Some(&Some(name));
    for MemberFile { table, file, schema: in_schema, owner: owned_by } in files() {
        let mut extra = Vec::new();
        extra.extend(in_schema.map(|column| (column, Datum::Oid(schema))));
        extra.extend(owned_by.map(|column| (column, Datum::Oid(owner))));
        if table == PG_TYPE {
            extra.push(("typtypmod", Datum::Int4(-1)));
        }
        fill_from(writer, table, file, eval, &is_its, &extra)?;
    }
    fill_from(writer, PG_AGGREGATE, &FILES.extension_aggregate, eval, &is_its, &[])?;
    fill_from(writer, PG_AMOP, &FILES.extension_amop, eval, &is_its, &[])?;
    fill_from(writer, PG_AMPROC, &FILES.extension_amproc, eval, &is_its, &[])
}

/// The row of pg_extension, its comment, and who belongs to it.
pub fn insert_extension(
    writer: &mut CatalogWriter<'_>,
    oid: Oid,
    e: &Extension,
    schema: Oid,
    owner: Oid,
    members: &[(Oid, Oid)],
) -> Result<()> {
    let row = [
        ("oid", Datum::Oid(oid)),
        ("extname", Datum::text(e.name)),
        ("extowner", Datum::Oid(owner)),
        ("extnamespace", Datum::Oid(schema)),
        ("extrelocatable", Datum::Bool(e.is_relocatable())),
        ("extversion", Datum::text(e.version)),
    ];
    writer.insert(PG_EXTENSION, &row)?;
    let comment = [
        ("objoid", Datum::Oid(oid)),
        ("classoid", Datum::Oid(PG_EXTENSION)),
        ("objsubid", Datum::Int4(0)),
        ("description", Datum::text(e.comment)),
    ];
    writer.insert(PG_DESCRIPTION, &comment)?;
    for (table, member) in members {
        let row = [
            ("classid", Datum::Oid(*table)),
            ("objid", Datum::Oid(*member)),
            ("refclassid", Datum::Oid(PG_EXTENSION)),
            ("refobjid", Datum::Oid(oid)),
            ("deptype", Datum::Char(b'e')),
        ];
        writer.insert(PG_DEPEND, &row)?;
    }
    Ok(())
}

/// The default class of a method for a type that is no domain.
pub fn default_inverted_class(method: Oid, type_oid: Oid, is_enum: bool) -> Option<Oid> {
    let fits = |c: &&InvertedOperatorClass| {
        c.is_default && c.method == method && (c.input_type == type_oid || is_enum && c.input_type == oids::ANYENUM)
    };
    INVERTED_CLASSES.iter().find(fits).map(|c| c.oid)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_have_oids_of_their_own() {
        let mut all: Vec<Oid> = EXTENSIONS.iter().flat_map(|e| members(e.name)).map(|m| m.1).collect();
        assert!(all.len() > 150 && all.iter().all(|oid| is_member(*oid)));
        let count = all.len();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        for class in [InvertedClass::Trigram, InvertedClass::Hstore] {
            assert_eq!(INVERTED_CLASSES.iter().filter(|c| c.class == class).count(), 1);
        }
    }

    #[test]
    fn types_are_those_that_have_descriptors() {
        let file = &FILES.extension_type;
        let (oid, element) = (file.column("oid"), file.column("typelem"));
        for row in &file.rows {
            let is_array = number::<Oid>(row[element]) != 0;
            assert_eq!(kilndb_types::types::descriptor(number(row[oid])).is_none(), is_array, "{row:?}");
        }
        let described = kilndb_types::types::descriptors().filter(|ty| is_member(ty.oid)).count();
        assert_eq!(described * 2, file.rows.len());
    }
}
