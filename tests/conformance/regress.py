#!/usr/bin/env python3
"""Score a server with PostgreSQL's own regression suite (src/test/regress), statement by statement.

  regress.py --mirror DIR --port P [--host H] [--files a,b,c] [--show N] [--out report.json]

The suite is read out of a fetched git mirror into a temporary folder and run with psql as pg_regress
runs it, one file after the other in schedule order.  A statement counts as matched when the text psql
printed after it is the text in expected/NAME.out (or the best of its _1.out ... alternates)."""
import collections
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import common
import psqlsplit

# Everything not listed here is 'other': geometry and network types, catalog sanity checks, BRIN,
# SP-GiST/GiST, FDWs, publications, XML, large objects, collations, extended statistics, tests of
# psql-only or C-only things, and the like.
CORE = set("""
test_setup boolean char name varchar text int2 int4 int8 oid float4 float8 bit numeric uuid enum money
strings md5 numerology date time timetz timestamp timestamptz interval horology tstypes regex
expressions errors unicode mvcc xid txid comments
copy copyselect copydml copyencoding copy2 insert insert_conflict
create_misc create_procedure create_table create_type create_schema create_index create_view
index_including create_function_sql constraints triggers select inherit typed_table vacuum
drop_if_exists updatable_views select_into select_distinct select_distinct_on select_implicit
select_having subselect union case join join_hash aggregates transactions random portals portals_p2
arrays btree_index hash_index hash_func update delete namespace prepared_xacts gin privileges matview
lock rowsecurity groupingsets identity generated_stored generated_virtual create_table_like async merge
tsrf tid tidscan tidrangescan incremental_sort create_role roleattributes rules psql psql_crosstab
select_views foreign_key dependency guc bitmapops combocid tsearch tsdicts window functional_deps
advisory_lock equivclass json jsonb json_encoding jsonpath jsonpath_encoding jsonb_jsonpath sqljson
sqljson_queryfuncs sqljson_jsontable plancache limit plpgsql temp domain rangefuncs prepare truncate
alter_table sequence polymorphism rowtypes returning with partition_join partition_prune hash_part
indexing partition_aggregate partition_info tuplesort explain memoize predicate fast_default
replica_identity
""".split())

# What a file needs besides test_setup when only some files are run (from parallel_schedule's remarks).
DEPS = {"multirangetypes": ["rangetypes"], "geometry": ["point", "lseg", "line", "box", "path", "polygon", "circle"],
        "horology": ["date", "time", "timetz", "timestamp", "timestamptz", "interval"],
        "join": ["create_misc"], "aggregates": ["create_aggregate"], "with": ["create_misc"],
        "select_parallel": ["create_misc"], "select_views": ["create_view"], "psql": ["create_am"],
        "amutils": ["geometry", "create_index_spgist", "hash_index", "brin"], "event_trigger": ["create_am"]}

ERR = re.compile(r"^(?:psql:[^:]*:\d+: )?(ERROR|FATAL|PANIC):  (.*)")
LOST = re.compile(r"server closed the connection unexpectedly|connection to server was lost|"
                  r"terminating connection because of crash|could not (send|receive) data")


def body_of(stmt):
    return re.sub(r"(?m)^\s*--.*$", "", "\n".join(stmt)).strip().lower()


def classify(stmt, exp, act):
    """Why a statement did not match."""
    if act is None:
        return "not_reached"
    ee = [m[2] for m in map(ERR.match, exp) if m]
    ae = [m[2] for m in map(ERR.match, act) if m]
    if ae and not ee:
        return "unexpected_error"
    if ee and not ae:
        return "missing_error"
    if ee and ee != ae:
        return "different_error"
    if ee:
        return "error_detail"                   # same message; LINE, DETAIL, HINT or CONTEXT differ
    body = body_of(stmt)
    if body.startswith("explain"):
        return "plan"
    if body.startswith("\\"):
        return "psql_meta"
    if sorted(exp) == sorted(act):
        return "row_order"
    return "output"


def last_line(statement):
    """A statement in a few words, without its leading comments."""
    body = [l for l in (statement or "?").split("\n") if not l.lstrip().startswith("--")] or ["?"]
    return " ".join(" ".join(body).split())[:90]


def load_expected(folder, name):
    """[(file name, text)]: NAME.out and its alternates."""
    out = []
    for suffix in [""] + [f"_{i}" for i in range(10)]:
        p = os.path.join(folder, "expected", f"{name}{suffix}.out")
        if os.path.exists(p):
            out.append((f"{name}{suffix}.out", open(p, encoding="utf-8", errors="replace").read()))
    return out


def score(folder, name, actual, baseline):
    """The best of the expected files: (matched, total, left out, file, [failures], EXPLAINs).  The
    baseline's statements (those that fail on real PostgreSQL too, for want of regress.so) are left out."""
    sql = open(os.path.join(folder, "sql", f"{name}.sql"), encoding="utf-8", errors="replace").read()
    best = None
    for fname, text in load_expected(folder, name):
        pieces = psqlsplit.split_script(sql, text)[0]
        exp, act = psqlsplit.results(pieces, text), psqlsplit.results(pieces, actual)
        b = baseline.get(fname)
        out = set(b["failing"]) if b and b["statements"] == len(pieces) else set()
        fails = [(n, p, e, x) for n, (p, e, x) in enumerate(zip(pieces, exp, act)) if e != x and n not in out]
        total = len(pieces) - len(out)
        good = total - len(fails)
        if best and total < best[2] / 2 and fails:
            continue                            # a cut-short alternate counts only if it fits exactly
        key = (good / total if total else 0, good)
        if best is None or key > best[0]:
            explains = sum(n not in out and body_of(p).startswith("explain") for n, p in enumerate(pieces))
            best = (key, good, total, len(out), fname, fails, explains)
    if best is None:
        return 0, 0, 0, None, [], 0
    return best[1:]


class Runner:
    def __init__(self, a, folder, psql):
        self.a, self.folder, self.psql = a, folder, psql
        self.results = a.results or tempfile.mkdtemp(prefix="regress-out-")
        os.makedirs(self.results, exist_ok=True)
        os.chmod(self.results, 0o777)
        opts = "-c intervalstyle=postgres_verbose"
        self.env = common.base_env(a, PGTZ="America/Los_Angeles", PGDATESTYLE="Postgres, MDY",
                                   PGOPTIONS=opts, PG_ABS_SRCDIR=folder, PG_ABS_BUILDDIR=folder,
                                   PG_LIBDIR=a.libdir or folder, PG_DLSUFFIX=".so")
        self.skips_copy_data = self.probe_copy()

    def probe_copy(self):
        """Does this psql (18.6 and later) skip to \\. after a COPY FROM STDIN that failed?"""
        try:
            p = subprocess.run([self.psql, "-X", "-A", "-t", "-q", "-d", self.a.maintdb], env=self.env, text=True,
                               input="copy nosuch_table from stdin;\nselect 1;\n\\.\n", capture_output=True, timeout=15)
        except subprocess.TimeoutExpired:
            return False
        return not p.stdout.strip()

    def setup_database(self):
        """As pg_regress prepares it, and rid of the cluster-wide things an earlier run left."""
        err = common.fresh_database(self.a, self.psql, "regression")
        if err:
            print(f"create database regression: {err}")
        for kind, q in (("role", "select rolname from pg_roles where rolname like 'regress\\_%'"),
                        ("tablespace", "select spcname from pg_tablespace where spcname like 'regress\\_%'")):
            rc, out = common.quick_sql(self.a, self.psql, q)
            for n in out.split() if rc == 0 else []:
                common.quick_sql(self.a, self.psql, f'drop {kind} if exists "{n}"')
        for s in ("lc_messages TO 'C'", "lc_monetary TO 'C'", "lc_numeric TO 'C'", "lc_time TO 'C'",
                  "bytea_output TO 'hex'", "timezone_abbreviations TO 'Default'"):
            common.quick_sql(self.a, self.psql, f"alter database regression set {s}")
        return err

    def run(self, name):
        """Run one file: a dict of output, seconds, psql's last exit status, and what broke where.
        After a hang or a lost connection the rest of the file is run in a new session (--resume)."""
        a = self.a
        sql = open(os.path.join(self.folder, "sql", f"{name}.sql"), encoding="utf-8", errors="surrogateescape").read()
        expected = load_expected(self.folder, name)
        expected = expected[0][1] if expected else ""
        if self.skips_copy_data:
            sql = psqlsplit.guard_copies(sql, expected)
        pieces = psqlsplit.split_script(sql, expected)[0]
        lines = sql.split("\n")
        r = dict(output="", seconds=0.0, status=None, breaks=[])
        start = 0
        for attempt in range(a.resume + 1):
            script = "\n".join(lines[start:])
            if start:                                   # psql's variables are set again, unseen by the server
                script = "\n".join(l for l in lines[:start] if re.match(r"\\(set|getenv|pset)\b", l)) + "\n" + script
            out, secs, rc, timed_out = self.psql_run(name, script)
            r["output"] += out + "\n"
            r["seconds"] += secs
            r["status"] = rc
            down = not common.server_alive(a, self.psql)
            lost = rc != 0 and (rc == 2 or bool(LOST.search(out)))
            if not (timed_out or down or lost):
                break
            if down:
                kind = "hung server" if timed_out and common.port_open(a) else "crash"
            else:
                kind = "timeout" if timed_out else "lost"
            reached = [k for k, x in enumerate(psqlsplit.results(pieces, r["output"])) if x is not None]
            at = pieces[reached[-1]] if reached else None
            r["breaks"].append(dict(kind=kind, statement="\n".join(at) if at else None))
            if timed_out and not down:
                common.quick_sql(a, self.psql, "select pg_terminate_backend(pid) from pg_stat_activity "
                                               "where datname = 'regression' and pid <> pg_backend_pid()")
            if attempt == a.resume or at is None or at.end <= start or at.end >= len(lines):
                break
            if down and not common.revive(a, self.psql):
                break
            if not common.server_alive(a, self.psql, "regression"):
                break                                   # the database went with the server
            start = at.end
        with open(os.path.join(self.results, f"{name}.out"), "w", encoding="utf-8", errors="replace") as f:
            f.write(r["output"])
        return r

    def psql_run(self, name, script):
        cmd = [self.psql, "-X", "-a", "-q", "-d", "regression", "-v", "HIDE_TABLEAM=on",
               "-v", "HIDE_TOAST_COMPRESSION=on"]
        if shutil.which("stdbuf"):                      # so that a killed psql has printed all that it got
            cmd = ["stdbuf", "-oL"] + cmd
        inp, outp = (os.path.join(self.results, f"{name}.{x}") for x in ("sql", "out"))
        with open(inp, "w", encoding="utf-8", errors="surrogateescape") as f:
            f.write(script)
        t0, timed_out = time.time(), False
        with open(inp, "rb") as fin, open(outp, "wb") as fout:
            p = subprocess.Popen(cmd, stdin=fin, stdout=fout, stderr=subprocess.STDOUT,
                                 env=dict(self.env, PGAPPNAME=f"pg_regress/{name}"), cwd=self.folder,
                                 start_new_session=True, umask=0)       # the server writes to psql's files too
            try:
                rc = p.wait(self.a.timeout)
            except subprocess.TimeoutExpired:
                timed_out = True
                os.killpg(p.pid, signal.SIGKILL)
                rc = p.wait()
        return open(outp, encoding="utf-8", errors="replace").read(), time.time() - t0, rc, timed_out


def parser():
    ap = common.arg_parser(__doc__)
    ap.add_argument("--files", help="only these (comma-separated; what they depend on is run first, unscored)")
    ap.add_argument("--skip", default="", help="leave these out")
    ap.add_argument("--timeout", type=float, default=60, help="seconds a file may take")
    ap.add_argument("--resume", type=int, default=3, metavar="N",
                    help="after a hang or a lost connection go on with the file's next statement, at most N times")
    ap.add_argument("--libdir", help="folder with regress.so, if there is one")
    ap.add_argument("--results", help="keep the outputs in this folder")
    ap.add_argument("--baseline", default=os.path.join(common.HERE, "regress_baseline.json"),
                    help="statements that cannot pass without regress.so (default regress_baseline.json; '' for none)")
    ap.add_argument("--write-baseline", metavar="FILE", help="make such a file from this run (of real PostgreSQL)")
    ap.add_argument("--show", type=int, default=0, metavar="N", help="print the first N failures of each file")
    ap.add_argument("--keep", type=int, default=200, help="failures kept per file in the report")
    return ap


def choose(a, schedule):
    """The files to run in order, and those of them that are run for others' sake."""
    skip = set(a.skip.split(",")) - {""}
    if not a.files:
        return [t for t in schedule if t not in skip], set()
    want = a.files.split(",")
    unknown = set(want) - set(schedule)
    if unknown:
        sys.exit(f"no such test: {', '.join(sorted(unknown))}")
    need = set(want) | {"test_setup"}
    for f in want:
        if schedule.index(f) > schedule.index("create_index"):
            need.add("create_index")
    while more := {d for f in need for d in DEPS.get(f, [])} - need:
        need |= more
    return [t for t in schedule if t in need], need - set(want)


def run_file(a, r, name, setup):
    """Run one file, reviving the server first if need be: (result, note)."""
    if not common.server_alive(a, r.psql) and not common.revive(a, r.psql):
        return dict(output="", seconds=0.0, status=None, breaks=[]), "NOT RUN: server down"
    if not common.server_alive(a, r.psql, "regression"):
        setup()                                                 # the database went with the server
        if name != "test_setup":
            r.run("test_setup")
    res = r.run(name)
    return res, "; ".join(f"{b['kind'].upper()} at: " + last_line(b["statement"]) for b in res["breaks"])


def row_of(a, name, scored, res, note, scores):
    """What the report says of a file."""
    good, total, left_out, fname, fails, explains = scores
    hist = collections.Counter(classify(p, e, x) for _, p, e, x in fails)
    if fname and fname != f"{name}.out":
        note += f" ({fname})"
    bad_explains = sum(body_of(p).startswith("explain") for _, p, _, _ in fails)
    kinds = [b["kind"] for b in res["breaks"]]
    return dict(file=name, group="core" if name in CORE else "other", scored=scored, note=note.strip(),
                matched=good, total=total, left_out=left_out,
                loose=good + hist["row_order"] + hist["error_detail"],
                plain=[good - explains + bad_explains, total - explains],
                pct=round(common.pct(good, total), 2), seconds=round(res["seconds"], 2),
                psql_status=res["status"], timed_out="timeout" in kinds,
                crashed=bool({"crash", "hung server"} & set(kinds)), not_run=note.startswith("NOT RUN"),
                connection_lost="lost" in kinds, breaks=res["breaks"], expected=fname, kinds=dict(hist),
                failures=[dict(n=n, kind=classify(p, e, x), statement="\n".join(p), expected="\n".join(e),
                               actual=None if x is None else "\n".join(x)) for n, p, e, x in fails[:a.keep]])


def unexpected_errors(fails):
    """The messages of errors that should have been others, or none; names in them left out."""
    for _, p, e, x in fails:
        if classify(p, e, x) in ("unexpected_error", "different_error"):
            m = next(m for m in map(ERR.match, x) if m)
            yield re.sub(r'"[^"]*"', '"…"', m[2])


def print_row(a, row, width):
    print(f"{row['file']:{width}}  {row['matched']:>5}/{row['total']:<5}  {row['pct']:>6.1f}  {row['seconds']:>6.1f}  "
          f"{'(dependency) ' if not row['scored'] else ''}{row['note']}", flush=True)
    for f in row["failures"][:a.show]:
        print(f"    [{f['kind']}] " + f["statement"].replace("\n", "\n      "))
        print("      expected: " + f["expected"].replace("\n", "\n                ")[:1500])
        print("      actual:   " + (f["actual"] or str(f["actual"])).replace("\n", "\n                ")[:1500])


def totals_of(sel):
    def names(what):
        return [x["file"] for x in sel if x[what]]
    m, t = sum(x["matched"] for x in sel), sum(x["total"] for x in sel)
    plain = [sum(x["plain"][k] for x in sel) for k in (0, 1)]
    return dict(files=len(sel), perfect=sum(x["matched"] == x["total"] for x in sel), matched=m, total=t,
                pct=round(common.pct(m, t), 2), loose_pct=round(common.pct(sum(x["loose"] for x in sel), t), 2),
                no_explain_pct=round(common.pct(*plain), 2), seconds=round(sum(x["seconds"] for x in sel), 1),
                crashed=names("crashed"), connection_lost=names("connection_lost"), timed_out=names("timed_out"),
                not_run=names("not_run"))


def print_totals(label, k):
    print(f"{label:10} {k['files']:4} files ({k['perfect']} perfect)  {k['matched']:>6}/{k['total']:<6} "
          f"{k['pct']:6.2f} % (loosely {k['loose_pct']:.2f}, without EXPLAIN {k['no_explain_pct']:.2f})  {k['seconds']:6.1f} s"
          f"  crashed {len(k['crashed'])}, lost {len(k['connection_lost'])}, timed out {len(k['timed_out'])}, "
          f"not run {len(k['not_run'])}")


def run(a):
    """Run the suite; the report."""
    psql = common.find_psql(a.psql)
    version, vnum = common.server_version(a, psql)
    mirror = common.find_mirror(a.mirror)
    ref, label = common.pg_ref(mirror, a.ref, vnum)
    tmp = tempfile.mkdtemp(prefix="regress-src-")
    os.chmod(tmp, 0o755)
    folder = common.extract(mirror, ref, "src/test/regress", tmp)
    os.makedirs(os.path.join(folder, "results"), exist_ok=True)
    subprocess.run(["chmod", "-R", "a+rwX", folder])            # the server reads data/ and writes results/
    print(f"server {version}; {common.bin_version(psql)}; tests of {label}")

    todo, unscored = choose(a, common.read_schedule(os.path.join(folder, "parallel_schedule")))
    baseline = {}
    if a.baseline and os.path.exists(a.baseline) and not a.write_baseline:
        baseline = json.load(open(a.baseline))["files"]
    r = Runner(a, folder, psql)
    setup_errors = []

    def setup():
        setup_errors.append(r.setup_database())
    setup()
    rows, t_start, failing = [], time.time(), {}
    errors, kinds = collections.Counter(), collections.Counter()
    width = max(map(len, todo))
    print(f"\n{'file':{width}}  {'matched':>11}  {'%':>6}  {'sec':>6}  notes")
    for name in todo:
        res, note = run_file(a, r, name, setup)
        scores = score(folder, name, res["output"], baseline)
        row = row_of(a, name, name not in unscored, res, note, scores)
        rows.append(row)
        good, total, left_out, fname, fails, _ = scores
        failing[fname] = dict(statements=total + left_out, failing=[x[0] for x in fails])
        if row["scored"]:
            kinds.update(row["kinds"])
            errors.update(unexpected_errors(fails))
        print_row(a, row, width)

    if a.write_baseline:
        with open(a.write_baseline, "w") as f:
            json.dump(dict(server=version, ref=label, files={k: v for k, v in failing.items() if v["failing"]}), f)
    scored = [x for x in rows if x["scored"]]
    print()
    totals = {g: totals_of([x for x in scored if g in ("all", x["group"])]) for g in ("core", "other", "all")}
    for g, label2 in (("core", "core OLTP"), ("other", "other"), ("all", "all")):
        print_totals(label2, totals[g])
    print(f"left out by the baseline: {sum(x['left_out'] for x in scored)} statements")
    print("\nwhy statements did not match: " + ", ".join(f"{k} {n}" for k, n in kinds.most_common()))
    if errors:
        print("commonest errors that were not expected:")
        for e, n in errors.most_common(25):
            print(f"  {n:5}  {e[:150]}")
    report = dict(server=version, psql=common.bin_version(psql), ref=label, setup_error=setup_errors[-1],
                  seconds=round(time.time() - t_start, 1), totals=totals, kinds=dict(kinds),
                  unexpected_errors=errors.most_common(200), files=rows)
    common.save_report(a, report)
    shutil.rmtree(tmp, ignore_errors=True)
    if not a.results:
        shutil.rmtree(r.results, ignore_errors=True)
    return report


if __name__ == "__main__":
    run(parser().parse_args())
