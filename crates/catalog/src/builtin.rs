//! PostgreSQL's built-in types, functions, operators, casts and system tables: facts of PostgreSQL 18, read from
//! `data/*.tsv` once per process and never changed.
//!
//! Invariants
//! 1. OIDs below [`FIRST_EXTENSION_OID`] are PostgreSQL's own; from there to [`FIRST_USER_OID`] those of what
//!    extensions bring.
//! 2. Everything here is immutable; what users make lives in the system tables only.

use super::model::*;
use kilndb_base::Oid;
use kilndb_base::hash::{HashMap, HashMapExt, HashSet};
use kilndb_base::sync::{Arc, LazyLock};

pub const FIRST_USER_OID: Oid = 16384;
pub const FIRST_EXTENSION_OID: Oid = 15000;
pub const PG_CATALOG: Oid = 11;
pub const PUBLIC: Oid = 2200;
pub(crate) const INFORMATION_SCHEMA: Oid = 13000;
pub const BOOTSTRAP_SUPERUSER: Oid = 10;

/// A table of facts: a header line, then rows of fields; None is NULL.
pub struct Tsv {
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<Option<&'static str>>>,
}

impl Tsv {
    fn parse(text: &'static str) -> Tsv {
        let mut lines = text.lines();
        let header = lines.next().unwrap_or("").split('\t').collect();
        let rows = lines
            .filter(|line| !line.is_empty())
            .map(|line| line.split('\t').map(|field| (field != "\\N").then_some(field)).collect())
            .collect();
        Tsv { header, rows }
    }
    pub fn column(&self, name: &str) -> usize {
        self.header.iter().position(|h| *h == name).unwrap_or(usize::MAX)
    }
}

macro_rules! tsv_files {
    ($($field:ident = $file:literal;)*) => {
        /// All files, parsed.
        pub struct BuiltinFiles { $(pub $field: Tsv,)* }
        pub static FILES: LazyLock<BuiltinFiles> = LazyLock::new(|| BuiltinFiles {
            $($field: Tsv::parse(include_str!(concat!("../data/", $file, ".tsv"))),)*
        });
    };
}
tsv_files! {
    pg_proc = "pg_proc"; own_proc = "own_proc"; pg_type = "pg_type"; pg_operator = "pg_operator"; pg_cast = "pg_cast";
    pg_aggregate = "pg_aggregate"; pg_opclass = "pg_opclass"; pg_opfamily = "pg_opfamily"; pg_amop = "pg_amop";
    pg_amproc = "pg_amproc"; pg_collation = "pg_collation"; catalog_columns = "catalog_columns";
    catalog_indexes = "catalog_indexes"; pg_settings = "pg_settings"; pg_ts_config = "pg_ts_config";
    pg_ts_config_map = "pg_ts_config_map"; pg_ts_dict = "pg_ts_dict"; pg_ts_parser = "pg_ts_parser";
    pg_ts_template = "pg_ts_template"; pg_range = "pg_range"; pg_ts_description = "pg_ts_description"; pg_description = "pg_description";
    extension_proc = "extension_proc"; extension_operator = "extension_operator"; extension_opfamily = "extension_opfamily";
    extension_opclass = "extension_opclass"; extension_amop = "extension_amop"; extension_amproc = "extension_amproc";
    extension_type = "extension_type"; extension_cast = "extension_cast"; extension_aggregate = "extension_aggregate";
    extension_ts_template = "extension_ts_template"; extension_ts_dict = "extension_ts_dict"; extension_am = "extension_am";
}

/// A system table's shape.
pub struct SystemTable {
    pub oid: Oid,
    pub name: &'static str,
    /// Whether all databases share one table.
    pub shared: bool,
    pub type_oid: Oid,
    pub columns: Vec<SystemColumn>,
    /// Where a column of that name is in `columns`.
    positions: HashMap<&'static str, usize>,
    pub indexes: Vec<SystemIndex>,
}
pub struct SystemColumn {
    pub name: &'static str,
    pub type_oid: Oid,
    pub typmod: i32,
    pub not_null: bool,
    pub collation: Oid,
}
pub struct SystemIndex {
    pub oid: Oid,
    pub name: &'static str,
    pub unique: bool,
    pub primary: bool,
    /// Positions in the table's columns.
    pub keys: Vec<usize>,
    pub opclasses: Vec<Oid>,
}

impl SystemTable {
    pub fn column(&self, name: &str) -> Option<usize> {
        self.positions.get(name).copied()
    }
}

pub struct Builtins {
    pub types: HashMap<Oid, Arc<TypeInfo>>,
    pub types_by_name: HashMap<&'static str, Oid>,
    pub functions: HashMap<Oid, Arc<FunctionInfo>>,
    pub functions_by_name: HashMap<&'static str, Vec<Arc<FunctionInfo>>>,
    pub operators: HashMap<Oid, Arc<OperatorInfo>>,
    pub operators_by_name: HashMap<&'static str, Vec<Arc<OperatorInfo>>>,
    pub casts: HashMap<(Oid, Oid), CastInfo>,
    pub tables: Vec<SystemTable>,
    /// btree strategy of an operator, by operator OID.
    pub btree_strategies: HashMap<Oid, u8>,
    /// (family of the default btree class, its input type) by type.
    pub btree_classes: HashMap<Oid, OperatorClass>,
    /// Default classes of the other methods, by method and input type.
    pub default_classes: HashMap<(Oid, Oid), Oid>,
    /// `<`, `=`, `>` of a family for (type, type).
    pub orderings: HashMap<Oid, OrderingOperators>,
}

#[derive(Clone, Copy, Debug)]
pub struct OperatorClass {
    pub oid: Oid,
    pub family: Oid,
    pub input_type: Oid,
}

pub static BUILTINS: LazyLock<Builtins> = LazyLock::new(load);

static LEAKPROOF: LazyLock<HashSet<Oid>> = LazyLock::new(|| {
    let file = &FILES.pg_proc;
    let (oid, leakproof) = (file.column("oid"), file.column("proleakproof"));
    file.rows.iter().filter(|row| flag(row[leakproof])).map(|row| number(row[oid])).collect()
});

/// Whether a built-in function tells nothing of its arguments but by its result: PostgreSQL's proleakproof.
pub fn is_leakproof(function: Oid) -> bool {
    LEAKPROOF.contains(&function)
}

pub fn number<T: std::str::FromStr + Default>(field: Option<&str>) -> T {
    field.and_then(|f| f.parse().ok()).unwrap_or_default()
}
fn flag(field: Option<&str>) -> bool {
    field == Some("t")
}
fn letter(field: Option<&str>) -> u8 {
    field.and_then(|f| f.bytes().next()).unwrap_or(0)
}
/// An oidvector (`1 2 3`) or an array (`{1,2,3}`) of OIDs.
pub(crate) fn oid_list(field: Option<&str>) -> Vec<Oid> {
    let text = field.unwrap_or("").trim_matches(['{', '}']);
    text.split([' ', ',']).filter(|t| !t.is_empty()).map(|t| t.parse().unwrap_or(0)).collect()
}
fn text_list(field: Option<&str>) -> Vec<String> {
    let text = field.unwrap_or("").trim_matches(['{', '}']);
    if text.is_empty() { Vec::new() } else { text.split(',').map(|t| t.trim_matches('"').to_string()).collect() }
}

fn load() -> Builtins {
    let types = load_types();
    let functions = load_functions();
    let operators = load_operators();
    let mut functions_by_name: HashMap<_, Vec<_>> = HashMap::new();
    for (name, f) in &functions {
        functions_by_name.entry(*name).or_default().push(f.clone());
    }
    let mut operators_by_name: HashMap<_, Vec<_>> = HashMap::new();
    for (name, o) in &operators {
        operators_by_name.entry(*name).or_default().push(o.clone());
    }
    let (btree_strategies, orderings, btree_classes) = load_btree();
    Builtins {
        types_by_name: types.iter().map(|(name, t)| (*name, t.oid)).collect(),
        types: types.into_iter().map(|(_, t)| (t.oid, t)).collect(),
        functions: functions.into_iter().map(|(_, f)| (f.oid, f)).collect(),
        functions_by_name,
        operators: operators.into_iter().map(|(_, o)| (o.oid, o)).collect(),
        operators_by_name,
        casts: load_casts(),
        tables: load_tables(),
        btree_strategies,
        btree_classes,
        default_classes: load_default_classes(),
        orderings,
    }
}

fn load_types() -> Vec<(&'static str, Arc<TypeInfo>)> {
    let file = &FILES.pg_type;
    let c = |name| file.column(name);
    let (oid, typname, typlen, typtype, cat, pref, elem, arr, rel, coll) = (
        c("oid"),
        c("typname"),
        c("typlen"),
        c("typtype"),
        c("typcategory"),
        c("typispreferred"),
        c("typelem"),
        c("typarray"),
        c("typrelid"),
        c("typcollation"),
    );
    let (subscript, typstorage) = (c("typsubscript"), c("typstorage"));
    file.rows
        .iter()
        // Row types of views exist only with their views.
        .filter(|r| number::<Oid>(r[oid]) < 12000)
        .map(|r| {
            let name = r[typname].unwrap_or("");
            // Fixed-length types that can be subscripted (point, name) have an element but are no arrays.
            let is_array = r[subscript] == Some("6179");
            let info = TypeInfo {
                oid: number(r[oid]),
                name: name.to_string(),
                schema_oid: PG_CATALOG,
                len: number(r[typlen]),
                storage: letter(r[typstorage]),
                kind: letter(r[typtype]),
                category: letter(r[cat]),
                preferred: flag(r[pref]),
                element: if is_array { number(r[elem]) } else { 0 },
                array: number(r[arr]),
                table_oid: number(r[rel]),
                collation: number(r[coll]),
                base_type: 0,
                typmod: -1,
                domain: None,
                range: kilndb_types::range::built_in(number(r[oid])),
                labels: Arc::from([]),
            };
            (name, Arc::new(info))
        })
        .collect()
}

fn load_functions() -> Vec<(&'static str, Arc<FunctionInfo>)> {
    let file = &FILES.pg_proc;
    let c = |name| file.column(name);
    let (
        oid,
        name,
        cost,
        rows,
        variadic,
        kind,
        strict,
        retset,
        volatile,
        rettype,
        args,
        all,
        modes,
        names,
        defaults,
        src,
        lang,
    ) = (
        c("oid"),
        c("proname"),
        c("procost"),
        c("prorows"),
        c("provariadic"),
        c("prokind"),
        c("proisstrict"),
        c("proretset"),
        c("provolatile"),
        c("prorettype"),
        c("proargtypes"),
        c("proallargtypes"),
        c("proargmodes"),
        c("proargnames"),
        c("proargdefaults"),
        c("prosrc"),
        c("prolang"),
    );
    let rows_of_both = file.rows.iter().chain(&FILES.own_proc.rows);
    rows_of_both
        .filter(|r| number::<Oid>(r[oid]) < 12000)
        .map(|r| {
            let info = FunctionInfo {
                oid: number(r[oid]),
                name: r[name].unwrap_or("").to_string(),
                schema_oid: PG_CATALOG,
                kind: letter(r[kind]),
                strict: flag(r[strict]),
                returns_set: flag(r[retset]),
                volatility: letter(r[volatile]),
                return_type: number(r[rettype]),
                arg_types: oid_list(r[args]),
                arg_names: text_list(r[names]),
                all_arg_types: oid_list(r[all]),
                arg_modes: text_list(r[modes]).iter().filter_map(|m| m.bytes().next()).collect(),
                variadic: number(r[variadic]),
                defaults: r[defaults].map(split_defaults).unwrap_or_default(),
                language: if r[lang] == Some("14") { "sql" } else { "internal" }.to_string(),
                source: r[src].unwrap_or("").to_string(),
                is_sql_body: false,
                cost: number(r[cost]),
                rows: number(r[rows]),
                owner: BOOTSTRAP_SUPERUSER,
                security_definer: false,
                config: Vec::new(),
            };
            (r[name].unwrap_or(""), Arc::new(info))
        })
        .collect()
}

/// `a, 'b, c'::text` at its top-level commas.
pub fn split_defaults(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    let (mut quoted, mut depth) = (false, 0);
    for ch in text.chars() {
        match ch {
            '\'' => quoted = !quoted,
            '(' | '[' if !quoted => depth += 1,
            ')' | ']' if !quoted => depth -= 1,
            ',' if !quoted && depth == 0 => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        if let Some(last) = parts.last_mut() {
            last.push(ch);
        }
    }
    parts.iter().map(|p| p.trim().to_string()).filter(|p| !p.is_empty()).collect()
}

fn load_operators() -> Vec<(&'static str, Arc<OperatorInfo>)> {
    let file = &FILES.pg_operator;
    let c = |name| file.column(name);
    let (restriction, join) = (c("oprrest"), c("oprjoin"));
    let (oid, name, merge, hash, left, right, result, com, neg, code) = (
        c("oid"),
        c("oprname"),
        c("oprcanmerge"),
        c("oprcanhash"),
        c("oprleft"),
        c("oprright"),
        c("oprresult"),
        c("oprcom"),
        c("oprnegate"),
        c("oprcode"),
    );
    file.rows
        .iter()
        .map(|r| {
            let info = OperatorInfo {
                oid: number(r[oid]),
                name: r[name].unwrap_or("").to_string(),
                schema_oid: PG_CATALOG,
                left: number(r[left]),
                right: number(r[right]),
                result: number(r[result]),
                function: number(r[code]),
                commutator: number(r[com]),
                negator: number(r[neg]),
                can_hash: flag(r[hash]),
                can_merge: flag(r[merge]),
                restriction: number(r[restriction]),
                join: number(r[join]),
            };
            (r[name].unwrap_or(""), Arc::new(info))
        })
        .collect()
}

fn load_casts() -> HashMap<(Oid, Oid), CastInfo> {
    let file = &FILES.pg_cast;
    let c = |name| file.column(name);
    let (source, target, func, context, method) =
        (c("castsource"), c("casttarget"), c("castfunc"), c("castcontext"), c("castmethod"));
    file.rows
        .iter()
        .map(|r| {
            let context = CastContext::of(letter(r[context]));
            let method = CastMethod::of(letter(r[method]), number(r[func]));
            ((number(r[source]), number(r[target])), CastInfo { context, method })
        })
        .collect()
}

fn load_tables() -> Vec<SystemTable> {
    let mut tables: Vec<SystemTable> = Vec::new();
    let file = &FILES.catalog_columns;
    for r in &file.rows {
        let oid = number(r[0]);
        if tables.last().is_none_or(|t| t.oid != oid) {
            tables.push(SystemTable {
                oid,
                name: r[1].unwrap_or(""),
                shared: flag(r[3]),
                type_oid: number(r[4]),
                columns: Vec::new(),
                positions: HashMap::new(),
                indexes: Vec::new(),
            });
        }
        let column = SystemColumn {
            name: r[6].unwrap_or(""),
            type_oid: number(r[7]),
            typmod: number(r[8]),
            not_null: flag(r[9]),
            collation: number(r[10]),
        };
        if let Some(t) = tables.last_mut() {
            t.positions.insert(column.name, t.columns.len());
            t.columns.push(column);
        }
    }
    for r in &FILES.catalog_indexes.rows {
        let table = number::<Oid>(r[2]);
        let keys: Vec<usize> = oid_list(r[5]).iter().map(|k| *k as usize - 1).collect();
        if let Some(t) = tables.iter_mut().find(|t| t.oid == table) {
            t.indexes.push(SystemIndex {
                oid: number(r[0]),
                name: r[1].unwrap_or(""),
                unique: flag(r[3]),
                primary: flag(r[4]),
                keys,
                opclasses: oid_list(r[6]),
            });
        }
    }
    tables
}

fn load_default_classes() -> HashMap<(Oid, Oid), Oid> {
    let mut classes = HashMap::new();
    for file in [&FILES.pg_opclass, &FILES.extension_opclass] {
        let c = |name| file.column(name);
        let (oid, method, intype, default) = (c("oid"), c("opcmethod"), c("opcintype"), c("opcdefault"));
        // A class that an extension has for a type that is built in is not there always.
        let is_of_own =
            |r: &Vec<Option<&str>>| number::<Oid>(r[oid]) < FIRST_EXTENSION_OID || is_of_extension(r[intype]);
        let rows = file.rows.iter().filter(|r| flag(r[default]) && is_of_own(r));
        classes.extend(rows.map(|r| ((number(r[method]), number(r[intype])), number(r[oid]))));
    }
    classes
}

/// Whether an OID is one of those that extensions bring.
fn is_of_extension(field: Option<&str>) -> bool {
    (FIRST_EXTENSION_OID..FIRST_USER_OID).contains(&number(field))
}

type BtreeFacts = (HashMap<Oid, u8>, HashMap<Oid, OrderingOperators>, HashMap<Oid, OperatorClass>);

fn load_btree() -> BtreeFacts {
    let mut facts = (HashMap::new(), HashMap::new(), HashMap::new());
    // Extensions have classes of this method for their own types only: those are there where the types are.
    add_btree(&FILES.pg_amop, &FILES.pg_opclass, &mut facts);
    add_btree(&FILES.extension_amop, &FILES.extension_opclass, &mut facts);
    facts
}

fn add_btree(amop: &Tsv, opclass: &Tsv, (strategies, orderings, classes): &mut BtreeFacts) {
    const BTREE: Option<&str> = Some("403");
    /// Of rows as they are stored: keys are made of what they mean.
    const RECORD_IMAGE_OPS: Option<&str> = Some("3194");
    let c = |name| amop.column(name);
    let (family, left, right, strategy, operator, method) =
        (c("amopfamily"), c("amoplefttype"), c("amoprighttype"), c("amopstrategy"), c("amopopr"), c("amopmethod"));
    let mut by_family: HashMap<(Oid, Oid, u8), Oid> = HashMap::new();
    for r in amop.rows.iter().filter(|r| r[method] == BTREE && r[family] != RECORD_IMAGE_OPS) {
        let (s, op): (u8, Oid) = (number(r[strategy]), number(r[operator]));
        // Pattern classes (text_pattern_ops) use other operators; the first family wins for shared ones.
        strategies.entry(op).or_insert(s);
        if r[left] == r[right] {
            by_family.insert((number(r[family]), number(r[left]), s), op);
        }
    }
    let c = |name| opclass.column(name);
    let (oid, method, family, intype, default) =
        (c("oid"), c("opcmethod"), c("opcfamily"), c("opcintype"), c("opcdefault"));
    for r in opclass.rows.iter().filter(|r| r[method] == BTREE && flag(r[default])) {
        let class = OperatorClass { oid: number(r[oid]), family: number(r[family]), input_type: number(r[intype]) };
        classes.insert(class.input_type, class);
        let operator = |s| by_family.get(&(class.family, class.input_type, s)).copied();
        if let (Some(less), Some(equal), Some(greater)) = (operator(1), operator(3), operator(5)) {
            orderings.insert(class.input_type, OrderingOperators { less, equal, greater });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn facts_are_all_there() {
        let b = &*BUILTINS;
        assert_eq!(b.types[&23].name, "int4");
        assert_eq!(b.types[&1007].element, 23);
        assert_eq!(b.orderings[&23].less, 97);
        assert_eq!(b.btree_strategies[&96], 3);
        let class = b.tables.iter().find(|t| t.name == "pg_class");
        assert!(class.is_some_and(|t| t.indexes.len() == 3 && t.columns.len() > 30));
        // Types that an extension brings have their classes, types that are built in none of an extension's.
        let citext = kilndb_types::citext::CITEXT;
        assert!(b.orderings.contains_key(&citext) && b.default_classes.contains_key(&(405, citext)));
        assert!(!b.default_classes.contains_key(&(2742, 23)));
        assert_eq!(split_defaults("'{}'::text[], f(1, 2)"), ["'{}'::text[]", "f(1, 2)"]);
    }
}
