#!/usr/bin/env python3
"""Writes crates/catalog/data/extension_*.tsv: what the extensions of a PostgreSQL server put into the catalogs.

Usage: extension-facts.py PSQL_ARGUMENTS... (a database that has the extensions). OIDs are given out here, once and for all:
databases keep them. What belongs to GiST, or to types that do not exist here, is left out.
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
EXTENSIONS = {"pg_trgm": 15000, "btree_gin": 15100, "hstore": 15600, "citext": 15800, "pgcrypto": 15910, "unaccent": 15950,
              "bloom": 15960, "btree_gist": 16000, "uuid-ossp": 16030}
TABLES = {
    "proc": ("pg_proc", "oid proname prolang procost prorows provariadic prokind proisstrict proretset provolatile proparallel "
             "proleakproof pronargs pronargdefaults prorettype proargtypes proallargtypes proargmodes proargnames proargdefaults prosrc probin prosqlbody"),
    "operator": ("pg_operator", "oid oprname oprkind oprcanmerge oprcanhash oprleft oprright oprresult oprcom oprnegate oprcode oprrest oprjoin"),
    "opfamily": ("pg_opfamily", "oid opfmethod opfname"),
    "opclass": ("pg_opclass", "oid opcmethod opcname opcfamily opcintype opcdefault opckeytype"),
    "amop": ("pg_amop", "oid amopfamily amoplefttype amoprighttype amopstrategy amoppurpose amopopr amopmethod amopsortfamily"),
    "amproc": ("pg_amproc", "oid amprocfamily amproclefttype amprocrighttype amprocnum amproc"),
    "type": ("pg_type", "oid typname typlen typbyval typtype typcategory typispreferred typisdefined typdelim typrelid typsubscript typelem typarray "
             "typinput typoutput typreceive typsend typmodin typmodout typanalyze typalign typstorage typcollation"),
    "cast": ("pg_cast", "oid castsource casttarget castfunc castcontext castmethod"),
    "ts_template": ("pg_ts_template", "oid tmplname tmplinit tmpllexize"),
    "ts_dict": ("pg_ts_dict", "oid dictname dicttemplate dictinitoption"),
    "am": ("pg_am", "oid amname amhandler amtype"),
    "aggregate": ("pg_aggregate", "aggfnoid aggkind aggnumdirectargs aggtransfn aggfinalfn aggcombinefn aggsortop aggtranstype agginitval"),
}
# Columns that hold OIDs of other rows, one or several of them.
LINKS = set("oid oprcom oprnegate oprcode amopfamily amopopr amprocfamily amproc opcfamily oprrest oprjoin prorettype provariadic proargtypes "
            "proallargtypes oprleft oprright oprresult amoplefttype amoprighttype amproclefttype amprocrighttype opcintype typsubscript typelem "
            "typarray typinput typoutput typreceive typsend castsource casttarget castfunc aggfnoid aggtransfn aggcombinefn aggsortop "
            "aggtranstype tmplinit tmpllexize dicttemplate opfmethod opcmethod amopmethod amhandler".split())
FUNCTIONS = set("oprcode oprrest oprjoin amproc typsubscript typinput typoutput typreceive typsend typmodin typmodout typanalyze aggfnoid "
                "aggtransfn aggfinalfn aggcombinefn tmplinit tmpllexize amhandler".split())
LEFT_OUT = ["gtrgm", "money", "ghstore", "gbt", "gist_"]
# Methods whose operator classes exist here, those aside that an extension brings itself.
METHODS = {403, 405, 2742}


def ask(sql):
    out = subprocess.run(["psql", *sys.argv[1:], "-XAtq", "-F", "\t", "-P", "null=\\N", "-c", sql], capture_output=True, text=True, check=True)
    return [line.split("\t") for line in out.stdout.splitlines()]


files = {name: [["extension", *columns.split()]] for name, (_, columns) in TABLES.items()}
for extension, next_oid in EXTENSIONS.items():
    rows = {}
    for name, (table, columns) in TABLES.items():
        # A body in SQL syntax is kept as the SELECT of what it returns.
        as_text = {"prosqlbody": "regexp_replace(pg_get_function_sqlbody(t.oid), '^RETURN', 'SELECT')"}
        select = ", ".join(f"t.{c}::oid" if c in FUNCTIONS else as_text.get(c, f"t.{c}") for c in columns.split())
        member = "SELECT objid FROM pg_depend WHERE deptype = 'e' AND refobjid = (SELECT oid FROM pg_extension WHERE extname = '%s') AND classid = '%s'::regclass"
        if name in ("amop", "amproc"):
            where = f"t.{name}family IN ({member % (extension, 'pg_opfamily')})"
        elif name == "aggregate":
            where = f"t.aggfnoid IN ({member % (extension, 'pg_proc')})"
        else:
            where = f"t.oid IN ({member % (extension, table)})"
        order = columns.split()[0]
        found = [dict(zip(columns.split(), row)) for row in ask(f"SELECT {select} FROM {table} t WHERE {where} ORDER BY t.{order}")]
        rows[name] = found
    left_out = lambda name: any(word in name for word in LEFT_OUT)
    methods = METHODS | {int(m["oid"]) for m in rows["am"]}
    families = {f["oid"] for f in rows["opfamily"] if int(f["opfmethod"]) in methods and not left_out(f["opfname"])}
    rows["opfamily"] = [f for f in rows["opfamily"] if f["oid"] in families]
    rows["opclass"] = [f for f in rows["opclass"] if f["opcfamily"] in families]
    rows["amop"] = [f for f in rows["amop"] if f["amopfamily"] in families]
    rows["amproc"] = [f for f in rows["amproc"] if f["amprocfamily"] in families]
    rows["proc"] = [f for f in rows["proc"] if not left_out(f["proname"])]
    rows["type"] = [f for f in rows["type"] if not left_out(f["typname"])]
    moved = {}
    for name in TABLES:
        for row in rows[name] if "oid" in TABLES[name][1].split() else []:
            moved[row["oid"]] = str(next_oid)
            next_oid += 1
    for name in TABLES:
        for row in rows[name]:
            values = [re.sub(r"\d+", lambda n: moved.get(n[0], n[0]), v) if c in LINKS else v for c, v in row.items()]
            files[name].append([extension, *values])
    print(extension, "up to", next_oid)
for name, lines in files.items():
    (ROOT / f"crates/catalog/data/extension_{name}.tsv").write_text("".join("\t".join(line) + "\n" for line in lines))
