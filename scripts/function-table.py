#!/usr/bin/env python3
"""Writes the registry of functions: crates/types/src/functions/table.rs (a descriptor for each function that is there)
and crates/context/src/host/session_function/table.rs (the handlers of the session's own). With --check it writes nothing and
fails if one of them is not as it would write it.

What PostgreSQL says of a function is in crates/catalog/data/pg_proc.tsv (extension_proc.tsv for extensions, own_proc.tsv for what PostgreSQL does not have). What it
runs is found in the sources:

  crates/types/src/functions/*.rs           `fn prosrc(ctx; a: text) = ...` in scalars!, or a plain ScalarFn
  the same, and crates/types/src/json       `pub(crate) fn prosrc(call: RowsCall<'_>) -> Result<FunctionRows>`: returns a set
  aggregates! anywhere in crates/types/src  `fn name(types; oid, ...) = ...`
  session_functions!, session_rows!         in crates/context/src: `fn proname(call) = ...`: all functions of that name

`p<oid>_name` is the function of that OID alone. Families of functions that share a handler, and what the planner has to
know of a function, are listed here.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TYPES = ROOT / "crates/types/src"
FUNCTIONS = TYPES / "functions"
SESSION = ROOT / "crates/context/src"

OPERATORS = "eq ne lt le gt ge cmp".split()
# Their comparisons and hashes are those of the values, whatever the type.
COMPARED = (
    "bool char name int2 int4 int8 int24 int42 int28 int82 int48 int84 text oid xid xid8 cid tid float4 float8 float48 float84 "
    "date time timetz timestamp timestamptz interval numeric uuid bytea bit varbit array record oidvector pg_lsn jsonb nameeqtext "
    "enum text_pattern btrecord nametext textname text_ bttext tsvector tsquery network macaddr macaddr8 range "
    "multirange hstore"
).split()
HASHED = {
    "hash{}": "int4 int2 int8 float4 float8 oid char name text tid bytea date bool xid xid8 cid enum inet macaddr macaddr8",
    "hash_{}": "aclitem numeric array record range multirange",
    "{}_hash": "hstore jsonb time timetz timestamp timestamptz interval uuid pg_lsn",
}
CASTS = {
    "to_int2": "i4toi2 int82 ftoi2 dtoi2 numeric_int2 bytea_int2",
    "to_int4": "i2toi4 int84 ftoi4 dtoi4 numeric_int4 bool_int4 chartoi4 bytea_int4",
    "to_int8": "int28 int48 ftoi8 dtoi8 numeric_int8 oidtoi8 bytea_int8",
    "to_float4": "i2tof i4tof i8tof dtof numeric_float4",
    "to_float8": "i2tod i4tod i8tod ftod numeric_float8",
    "to_numeric": "int2_numeric int4_numeric int8_numeric float4_numeric float8_numeric",
    "to_bool": "int4_bool",
    "to_oid": "i8tooid",
    "to_text": "name_text char_text booltext",
    "to_bpchar": "char_bpchar name_bpchar",
    "to_name": "text_name",
    "bpchar_to_name": "bpchar_name",
    "to_char_type": "i4tochar text_char",
    "to_date_type": "timestamp_date timestamptz_date",
    "to_timestamp_type": "date_timestamp timestamptz_timestamp",
    "to_timestamptz": "date_timestamptz timestamp_timestamptz",
    "to_time": "timestamp_time timestamptz_time interval_time timetz_time",
    "to_timetz": "time_timetz timestamptz_timetz",
    "to_interval": "time_interval",
    "to_bytea": "int2_bytea int4_bytea int8_bytea",
    "length_varchar": "varchar",
    "length_bpchar": "bpchar",
    "length_numeric": "numeric",
    "length_timestamp": "timestamp_scale",
    "length_timestamptz": "timestamptz_scale",
    "length_time": "time_scale",
    "length_timetz": "timetz_scale",
    "length_interval": "interval_scale",
    "length_bit": "bit",
    "length_varbit": "varbit",
}
TRIGRAMS = {
    "show_trgm": "show_trgm", "similarity": "similarity", "similarity_op": "similarity_op", "similarity_dist": "similarity_dist",
    **{f"{strict}word_similarity{suffix}": f"{strict}word{suffix}" for strict in ("", "strict_")
       for suffix in ("", "_op", "_commutator_op", "_dist_op", "_dist_commutator_op")},
}
WINDOW = ("row_number rank dense_rank percent_rank cume_dist ntile lag lag_with_offset lag_with_offset_and_default lead "
          "lead_with_offset lead_with_offset_and_default first_value last_value nth_value").split()
# What syntax calls and no statement can name: pg_proc does not have them.
UNNAMED = [{"oid": str(oid), "proname": name, "prosrc": "", "prolang": "12", "prokind": "f", "proretset": "f", "proisstrict": "f", "provolatile": "s"}
           for oid, name in ((9911, "json_object"), (9912, "json_object"), (9913, "json_array"), (9914, "json_array"), (9915, "sequence_row"))]
# Functions that run statements or are triggers, those that the binder replaces, and those that the executor computes
# from more than their arguments.
ELSEWHERE = {
    **dict.fromkeys((3685, 3689, 3690, 3752, 3753, 9901, 9902), "Routine"),
    **dict.fromkeys((1619, 3162, 3528, 3529, 3531), "Binder"),
    5028: "HashPartition",
}


def support():
    """What the binder and the planner have to know of functions, by OID."""
    facts = {}
    for op, oids in {
        "Eq": (63, 65, 467, 158, 159, 474, 852, 1850, 1856),
        "Ne": (144, 145, 468, 164, 165, 475, 853, 1851, 1857),
        "Lt": (64, 66, 469, 160, 161, 476, 854, 1852, 1858),
        "Gt": (146, 147, 470, 162, 163, 477, 855, 1853, 1859),
        "Le": (148, 149, 471, 166, 167, 478, 856, 1854, 1860),
        "Ge": (150, 151, 472, 168, 169, 479, 857, 1855, 1861),
    }.items():
        facts.update(dict.fromkeys(oids, f"CompareIntegers(IntOp::{op})"))
    # Of results int4, then int8.
    for op, by_width in {
        "Plus": ((177, 178, 179), (463, 837, 841, 1274, 1278)),
        "Minus": ((181, 182, 183), (464, 838, 942, 1275, 1279)),
        "Times": ((141, 170, 171), (465, 839, 943, 1276, 1280)),
        "Divide": ((154, 172, 173), (466, 840, 948, 1277, 1281)),
        "Modulo": ((156, 941), (945, 947)),
    }.items():
        for width, oids in zip(("Int4", "Int8"), by_width):
            facts.update(dict.fromkeys(oids, f"IntegerArithmetic(Arithmetic::{op}, IntWidth::{width})"))
    facts.update(dict.fromkeys((378, 379, 1193, 1286), "MakesArray"))
    facts.update(dict.fromkeys((9911, 9912, 9913, 9914, 3176, 3787, 3198, 3200, 3271, 3273, 3204, 3490, 3960, 3209, 6338, 15628, 15636), "WantsTypes"))
    facts.update(dict.fromkeys((1299, 2647, 2648, 2649), "Clock"))
    json_sets = (1179, 3205, 3208, 3219, 3465, 3475, 3491, 3931, 3932, 3955, 3957, 3958, 3959, 3961, 3969, 4006)
    facts.update(dict.fromkeys(json_sets, "SeesDomains"))
    facts[1199] = "SessionZone"
    facts[1619] = "TypeOf"
    facts[3162] = "CollationOf"
    shown = (438, 440, 1285, 1290, 2003, 2004, 3058, 3059, 3539, 3540)
    facts.update(dict.fromkeys(shown, "ShowsArguments"))
    return facts


def rows_of(name):
    lines = (ROOT / f"crates/catalog/data/{name}.tsv").read_text().splitlines()
    head = lines[0].split("\t")
    return [dict(zip(head, line.split("\t"))) for line in lines[1:]]


def shared():
    """Handlers of several functions, by prosrc."""
    family = {}
    for t in COMPARED:
        for prefix in ("", "bt"):
            for sep in ("", "_"):
                family.update({f"{prefix}{t}{sep}{op}": f"compare::any_{op}" for op in OPERATORS})
                family.update({f"{t}{sep}{w}": f"compare::any_{w}" for w in ("larger", "smaller")})
    for op in OPERATORS:
        for a, b in (("date", "timestamp"), ("date", "timestamptz"), ("timestamp", "timestamptz")):
            family[f"{a}_{op}_{b}"] = family[f"{b}_{op}_{a}"] = f"compare::any_{op}"
        family[f"name{op}text"] = family[f"text{op}name"] = f"compare::any_{op}"
        for name in (f"bpchar{op}", f"bpchar_pattern_{op}", f"btbpchar_pattern_{op}"):
            family[name] = f"compare::bpchar_{op}"
    family.update({f"bpchar_{w}": f"compare::bpchar_{w}" for w in ("larger", "smaller")})
    family.update({f"record_image_{op}": f"compare::image_{op}" for op in OPERATORS})
    for name in ("btarraycmp", "btrecordcmp"):
        family[name] = "compare::any_cmp"
    family["btrecordimagecmp"] = "compare::image_cmp"
    family["xidneq"] = "compare::any_ne"
    family["pg_wal_lsn_diff"] = "numeric::pg_lsn_mi"
    for pattern, types in HASHED.items():
        for t in types.split():
            name, sep = pattern.format(t), "_" if "_" in pattern else ""
            family[name], family[f"{name}{sep}extended"] = "hashing::any_hash", "hashing::any_hash_extended"
    family["hashoidvector"] = "hashing::hashoidvector"
    family["hashbpchar"], family["hashbpcharextended"] = "hashing::bpchar_hash", "hashing::bpchar_hash_extended"
    for w in ("", "_no_start", "_no_n", "_no_endoption", "_no_flags", "_no_subexpr"):
        family[f"regexp_instr{w}"] = "regex::any_regexp_instr"
        family[f"regexp_substr{w}"] = "regex::any_regexp_substr"
    for target, names in CASTS.items():
        family.update(dict.fromkeys(names.split(), f"convert::{target}"))
    # What depends on the time zone is not there yet.
    for w in ("exists", "match", "query_array", "query_first"):
        family[f"jsonb_path_{w}_tz"] = f"jsonpath::jsonb_path_{w}"
    for w in ("timestamp", "time", "timetz"):
        family[f"overlaps_{w}"] = "datetime::any_overlaps"
    for kind in ("json", "jsonb"):
        for suffix in ("", "_opt", "_byid", "_byid_opt"):
            by_id, rest = ("_byid", suffix[5:]) if suffix.startswith("_byid") else ("", suffix)
            family[f"ts_headline_{kind}{by_id}{rest}"] = f"textsearch_json::ts_headline{suffix}"
        for by_id in ("", "_byid"):
            family[f"{kind}_string_to_tsvector{by_id}"] = f"textsearch_json::strings_to_tsvector{by_id}"
            family[f"{kind}_to_tsvector{by_id}"] = f"textsearch_json::parts_to_tsvector{by_id}"
    return family


# Files whose functions are not named for prosrc.
NOT_BY_NAME = ("mod", "table", "descriptor", "rows", "compare", "convert", "hashing", "trigram", "textsearch_json")


def handlers():
    """Scalar functions and those that return sets, by prosrc or OID."""
    scalars, sets = {}, {}

    def note(found, name, path):
        own = re.match(r"p(\d+)_", name)
        key = int(own.group(1)) if own else name
        assert key not in found, f"{path} and {found.get(key)} are both for {key}"
        found[key] = path

    for path in sorted(FUNCTIONS.glob("*.rs")):
        if path.stem not in NOT_BY_NAME:
            text = re.sub(r"^aggregates! \{\n.*?^\}", "", path.read_text(), flags=re.M | re.S)
            for name in re.findall(r"^\s+fn (\w+)\(\w+;", text, re.M) + re.findall(
                    r"^pub(?:\(\w+\))? fn (\w+)\(\w+: &EvalContext<'_>, \w+: &\[Datum\]\)", text, re.M):
                note(scalars, name, f"{path.stem}::{name}")
    for path in sorted([*FUNCTIONS.glob("*.rs"), *(TYPES / "json").glob("*.rs")]):
        module = path.stem if path.parent == FUNCTIONS else f"crate::json::{path.stem}"
        text = path.read_text()
        for name in re.findall(r"^pub(?:\(\w+\))? fn (\w+)\(\w+: RowsCall<'_>\) -> Result<FunctionRows>", text, re.M) + re.findall(
                r"^    fn (\w+)\(\w+, \w+\) =", text, re.M):
            note(sets, name, f"{module}::{name}")
    scalars.update(dict.fromkeys((1305, 1306, 1307, 1309, 1310, 1311, 2042, 2043, 2044), "datetime::any_overlaps"))
    scalars[401] = "convert::bpchar_to_text"
    return scalars, sets


def aggregates():
    """Aggregates by OID."""
    found = {}
    for path in sorted(TYPES.rglob("*.rs")):
        module = "::".join(path.relative_to(TYPES).with_suffix("").parts)
        for block in re.findall(r"^aggregates! \{\n(.*?)^\}", path.read_text(), re.M | re.S):
            for name, oids in re.findall(r"fn (\w+)\(\w+;([\d,\s]+)\)", block):
                found.update({int(oid): f"crate::{module}::{name}" for oid in oids.replace(",", " ").split()})
    return found


def of_session(macro):
    """(key, path) of the handlers in blocks of a macro; the key is a proname or an OID."""
    found = []
    for path in sorted(SESSION.rglob("*.rs")):
        parts = list(path.relative_to(SESSION).with_suffix("").parts)
        module = "::".join(["crate", *(parts[:-1] if parts[-1] == "mod" else parts)])
        for block in re.findall(rf"^{macro}! \{{\n(.*?)^\}}", path.read_text(), re.M | re.S):
            for name in re.findall(r"^    fn (\w+)\(\w+\) =", block, re.M):
                own = re.match(r"p(\d+)_", name)
                found.append((int(own.group(1)) if own else name, f"{module}::{name}"))
    return found


def descriptors():
    scalars, sets = handlers()
    families, by_aggregate, facts = shared(), aggregates(), support()
    scalar_session, set_session = of_session("session_functions"), of_session("session_rows")
    rows, used, tables = [], set(), {"Session": [], "SessionRows": []}

    def session(kind, handlers, p):
        oid = int(p["oid"])
        for key, path in handlers:
            if key in (oid, p["proname"]):
                used.add(key)
                tables[kind].append((oid, path))
                return f"{kind}(SessionFunction({len(tables[kind]) - 1}))"
        return None

    def kind_of(p):
        oid, source, is_sql = int(p["oid"]), p["prosrc"], p["prolang"] == "14"
        if oid in ELSEWHERE:
            return ELSEWHERE[oid]
        if p["prokind"] == "a":
            return by_aggregate.get(oid) and f"Aggregate({by_aggregate[oid]})"
        if p["prokind"] == "w":
            assert source.startswith("window_"), p
            name = source.removeprefix("window_")
            return f"Window(WindowFunction::{''.join(w.title() for w in name.split('_'))})" if name in WINDOW else None
        if p["proretset"] == "t":
            found = sets.get(oid) or (not is_sql and sets.get(source))
            used.update((oid, source))
            return f"Rows({found})" if found else session("SessionRows", set_session, p)
        if re.match(r"(multi)?range_constructor\d", source):
            return "RangeConstructor"
        found = scalars.get(oid)
        used.add(oid)
        if source in TRIGRAMS:
            found = f"trigram::{TRIGRAMS[source]}"
        elif not found and not is_sql:
            found = scalars.get(source) or families.get(source)
            used.add(source)
        return f"Scalar({found})" if found else session("Session", scalar_session, p)

    # WHERE CURRENT OF calls a function that pg_proc does not have.
    current_of = {"oid": "0", "proname": "current of", "proisstrict": "t", "provolatile": "s"}
    inner = session("Session", scalar_session, current_of)
    if inner:
        rows.append((current_of, inner))
    rows += [(p, kind_of(p)) for p in UNNAMED]
    for name in ("pg_proc", "own_proc", "extension_proc"):
        for p in rows_of(name):
            kind = kind_of(p) if p["prokind"] in "fawp" else None
            if kind:
                rows.append((p, kind))
    lost = [k for k in [*scalars, *sets, *(key for key, _ in scalar_session + set_session)] if k not in used]
    assert not lost, f"no function of pg_proc is called {lost}"
    rows.sort(key=lambda row: int(row[0]["oid"]))
    return rows, facts, tables


VOLATILITY = {"i": "Immutable", "s": "Stable", "v": "Volatile"}
WRITTEN = "Written by scripts/function-table.py."


def texts():
    rows, facts, tables = descriptors()
    out = [f"//! The functions that are there, by OID. {WRITTEN}\n", "use super::descriptor::FunctionKind::*;", "use super::descriptor::Support::*;",
           "use super::descriptor::Volatility::*;", "use super::descriptor::*;", "use super::*;\n", "#[rustfmt::skip]",
           f"pub(super) static DESCRIPTORS: [FunctionDescriptor; {len(rows)}] = ["]
    for p, kind in rows:
        strict = "true" if p["proisstrict"] == "t" else "false"
        fact = facts.pop(int(p["oid"]), "Plain")
        out.append(f'    f({p["oid"]}, "{p["proname"]}", {VOLATILITY[p["provolatile"]]}, {strict}, {kind}, {fact}),')
    assert not facts, f"facts about functions that are not there: {facts}"
    out += ["];", ""]
    types = "\n".join(out)
    out = [f"//! Handlers of the session's own functions, with the OIDs that they are for. {WRITTEN}\n",
           "use super::{SessionFn, SessionRowsFn};", "use kilndb_base::Oid;"]
    for constant, handler, kind in (("FUNCTIONS", "SessionFn", "Session"), ("ROWS", "SessionRowsFn", "SessionRows")):
        list_ = tables[kind]
        out += ["", "#[rustfmt::skip]", f"pub(super) static {constant}: [(Oid, {handler}); {len(list_)}] = ["]
        out += [f"    ({oid}, {path})," for oid, path in list_] + ["];"]
    return {FUNCTIONS / "table.rs": types, SESSION / "host/session_function/table.rs": "\n".join(out) + "\n"}


def main():
    stale = []
    for path, text in texts().items():
        if "--check" in sys.argv:
            if not path.exists() or path.read_text() != text:
                stale.append(str(path.relative_to(ROOT)))
        else:
            path.write_text(text)
    if stale:
        sys.exit(f"not as scripts/function-table.py writes them: {', '.join(stale)}")


if __name__ == "__main__":
    main()
