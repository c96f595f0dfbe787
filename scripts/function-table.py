#!/usr/bin/env python3
"""Writes crates/types/src/functions/table.rs: pg_proc OID -> Rust function.

A Rust function named as prosrc is taken for it; `p<oid>_name` for the OID; families of comparison, hash and
cast functions map to one generic function each.
"""
import pathlib
import re

root = pathlib.Path(__file__).resolve().parent.parent
src = root / "crates/types/src/functions"
lines = (root / "crates/catalog/data/pg_proc.tsv").read_text().splitlines()
head = lines[0].split("\t")
procs = [dict(zip(head, line.split("\t"))) for line in lines[1:]]

found, by_oid = {}, {}
for path in sorted(src.glob("*.rs")):
    if path.stem in ("mod", "table", "compare", "convert"):
        continue
    text = path.read_text()
    blocks = re.findall(r"^\s+fn (\w+)\(\w+;", text, re.M) + re.findall(
        r"^pub fn (\w+)\(\w+: &EvalContext<'_>, \w+: &\[Datum\]\)", text, re.M)
    for name in blocks:
        m = re.match(r"p(\d+)_", name)
        if m:
            by_oid[int(m.group(1))] = f"{path.stem}::{name}"
        else:
            found[name] = f"{path.stem}::{name}"

TYPES = (
    "bool char name int2 int4 int8 int24 int42 int28 int82 int48 int84 text bpchar oid xid xid8 cid tid float4 float8 "
    "float48 float84 date time timetz timestamp timestamptz interval numeric uuid bytea bit varbit array record "
    "oidvector pg_lsn jsonb nameeqtext enum text_pattern bpchar_pattern record_image btrecord nametext textname text_ bttext tsvector tsquery network macaddr macaddr8 range multirange"
).split()
OPS = {"eq": "eq", "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "cmp": "cmp"}
family = {}
for t in TYPES:
    for suffix, op in OPS.items():
        for sep in ("", "_"):
            family[f"{t}{sep}{suffix}"] = f"compare::any_{op}"
            family[f"bt{t}{sep}{suffix}"] = f"compare::any_{op}"
    for w in ("larger", "smaller"):
        for sep in ("", "_"):
            family[f"{t}{sep}{w}"] = f"compare::any_{w}"
for a, b in (("date", "timestamp"), ("date", "timestamptz"), ("timestamp", "timestamptz")):
    for op in OPS:
        family[f"{a}_{op}_{b}"] = family[f"{b}_{op}_{a}"] = f"compare::any_{op}"
for a, b in (("name", "text"), ("text", "name")):
    for op in OPS:
        family[f"{a}{op}{b}"] = f"compare::any_{op}"
family["btarraycmp"] = family["btrecordcmp"] = family["btrecordimagecmp"] = "compare::any_cmp"
family["xidneq"] = "compare::any_ne"
family["pg_wal_lsn_diff"] = "numeric::pg_lsn_mi"
family["boollt"], family["boolgt"] = "compare::any_lt", "compare::any_gt"
for w in ("int4", "int2", "int8", "float4", "float8", "oid", "char", "name", "text", "bpchar", "tid", "bytea", "date",
          "bool", "xid", "xid8", "cid", "enum"):
    family[f"hash{w}"] = "hashing::any_hash"
    family[f"hash{w}extended"] = "hashing::any_hash_extended"
family["hash_aclitem"], family["hash_aclitem_extended"] = "hashing::any_hash", "hashing::any_hash_extended"
for w in ("inet", "macaddr", "macaddr8"):
    family[f"hash{w}"] = "hashing::any_hash"
    family[f"hash{w}extended"] = "hashing::any_hash_extended"
for w in ("numeric", "array", "record", "range", "multirange"):
    family[f"hash_{w}"] = "hashing::any_hash"
    family[f"hash_{w}_extended"] = "hashing::any_hash_extended"
for w in ("jsonb", "time", "timetz", "timestamp", "timestamptz", "interval", "uuid", "pg_lsn"):
    family[f"{w}_hash"] = "hashing::any_hash"
    family[f"{w}_hash_extended"] = "hashing::any_hash_extended"
CASTS = {
    "to_int2": "i4toi2 int82 ftoi2 dtoi2 numeric_int2 bytea_int2",
    "to_int4": "i2toi4 int84 ftoi4 dtoi4 numeric_int4 bool_int4 chartoi4 bytea_int4",
    "to_int8": "int28 int48 ftoi8 dtoi8 numeric_int8 oidtoi8 bytea_int8",
    "to_float4": "i2tof i4tof i8tof dtof numeric_float4",
    "to_float8": "i2tod i4tod i8tod ftod numeric_float8",
    "to_numeric": "int2_numeric int4_numeric int8_numeric float4_numeric float8_numeric",
    "to_bool": "int4_bool",
    "to_oid": "i8tooid",
    "to_text": "name_text char_text booltext bpchar_text",
    "to_bpchar": "char_bpchar name_bpchar",
    "to_name": "text_name bpchar_name",
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
for w in ("", "_no_start", "_no_n", "_no_endoption", "_no_flags", "_no_subexpr"):
    family[f"regexp_instr{w}"] = "regex::any_regexp_instr"
    family[f"regexp_substr{w}"] = "regex::any_regexp_substr"
for target, names in CASTS.items():
    for name in names.split():
        family[name] = f"convert::{target}"

# What depends on the time zone is not there yet.
for w in ("exists", "match", "query_array", "query_first"):
    family[f"jsonb_path_{w}_tz"] = f"jsonpath::jsonb_path_{w}"

for w in ("timestamp", "time", "timetz"):
    family[f"overlaps_{w}"] = "datetime::any_overlaps"
for oid in (1305, 1306, 1307, 1309, 1310, 1311, 2042, 2043, 2044):
    by_oid[oid] = "datetime::any_overlaps"

rows = []
for p in procs:
    oid = int(p["oid"])
    if p["prokind"] != "f" or p["proretset"] == "t":
        continue
    target = by_oid.get(oid)
    if target is None and p["prolang"] != "14":
        target = found.get(p["prosrc"]) or family.get(p["prosrc"])
    if p["proname"] == "text" and p["prosrc"] == "rtrim1":
        target = "convert::same"
    if target:
        rows.append((oid, target))
rows.sort()
out = ["//! pg_proc OIDs and the functions behind them. Written by scripts/function-table.py.\n",
       "use super::*;\n", "#[rustfmt::skip]", "pub fn lookup(oid: Oid) -> Option<ScalarFn> {", "    Some(match oid {"]
groups = {}
for oid, target in rows:
    groups.setdefault(target, []).append(str(oid))
for target, oids in groups.items():
    out.append(f"        {' | '.join(oids)} => {target},")
out += ["        _ => return None,", "    })", "}", ""]
(src / "table.rs").write_text("\n".join(out))
print(len(rows), "functions")
