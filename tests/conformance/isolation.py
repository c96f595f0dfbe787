#!/usr/bin/env python3
"""Score a server with PostgreSQL's isolation tests (src/test/isolation), permutation by permutation.

  isolation.py --mirror DIR --port P [--host H] [--files a,b,c] [--show N] [--out report.json]

The spec files are parsed here and run over libpq (psycopg.pq) with one connection per session, the way
isolationtester runs them; what it would have printed is compared with expected/NAME.out, one
permutation at a time.  Whether a step waits for a lock is asked of
pg_isolation_test_session_is_blocked(), else pg_blocking_pids(), else pg_locks, else guessed from time."""
import collections
import os
import re
import select
import shutil
import sys
import tempfile
import time

import common

try:
    from psycopg import pq
except ImportError:
    sys.exit("psycopg 3 is missing: run scripts/setup.sh conformance")


# ------------------------------------------------------------------------------ the spec files

class Spec:
    def __init__(self):
        self.setups, self.teardown, self.sessions, self.permutations = [], None, [], []


TOKEN = re.compile(r'\s+|#[^\n\r]*|(?P<id>[A-Za-z_\x80-\U0010ffff][\w$\x80-\U0010ffff]*)|"(?P<q>(?:[^"\n]|"")*)"|'
                   r'\{[ \t\r\f]*(?P<sql>[^}]*?)[ \t\r\f]*\}|(?P<int>\d+)|(?P<p>[,()*])')


def tokens(text):
    pos, out = 0, []
    while pos < len(text):
        m = TOKEN.match(text, pos)
        if not m:
            raise ValueError(f"spec syntax error near {text[pos:pos + 30]!r}")
        pos = m.end()
        kind = m.lastgroup
        if kind == "q":
            out.append(("id", m["q"].replace('""', '"'), False))
        elif kind:
            out.append((kind, m[kind], kind == "id"))
    return out


def parse_spec(text):
    toks, i, spec = tokens(text), 0, Spec()

    def word(w):
        return i < len(toks) and toks[i] == ("id", w, True)

    def take(kind):
        nonlocal i
        if i >= len(toks) or toks[i][0] != kind:
            raise ValueError(f"spec: expected {kind} at token {i}")
        i += 1
        return toks[i - 1][1]

    while word("setup"):
        i += 1
        spec.setups.append(take("sql"))
    if word("teardown"):
        i += 1
        spec.teardown = take("sql")
    while word("session"):
        i += 1
        s = dict(name=take("id"), setup=None, steps=[], teardown=None)
        if word("setup"):
            i += 1
            s["setup"] = take("sql")
        while word("step"):
            i += 1
            name = take("id")
            s["steps"].append((name, take("sql")))
        if word("teardown"):
            i += 1
            s["teardown"] = take("sql")
        spec.sessions.append(s)
    keywords = {"permutation", "session", "setup", "step", "teardown"}
    while word("permutation"):
        i += 1
        perm = []
        while i < len(toks) and toks[i][0] == "id" and not (toks[i][2] and toks[i][1] in keywords):
            name, blockers = take("id"), []
            if i < len(toks) and toks[i][:2] == ("p", "("):
                i += 1
                while True:
                    if toks[i][:2] == ("p", "*"):
                        i += 1
                        blockers.append(("once", None, 0))
                    else:
                        other = take("id")
                        if word("notices"):
                            i += 1
                            blockers.append(("notices", other, int(take("int"))))
                        else:
                            blockers.append(("step", other, 0))
                    if toks[i][:2] == ("p", ","):
                        i += 1
                        continue
                    if toks[i][:2] != ("p", ")"):
                        raise ValueError("spec: expected )")
                    i += 1
                    break
            perm.append((name, blockers))
        spec.permutations.append(perm)
    if i != len(toks):
        raise ValueError(f"spec: unexpected {toks[i][1]!r}")
    if not spec.permutations:                           # every interleaving, in isolationtester's order
        def recurse(piles, acc):
            found = False
            for k, s in enumerate(spec.sessions):
                if piles[k] < len(s["steps"]):
                    found = True
                    piles[k] += 1
                    recurse(piles, acc + [(s["steps"][piles[k] - 1][0], [])])
                    piles[k] -= 1
            if not found:
                spec.permutations.append(acc)
        recurse([0] * len(spec.sessions), [])
    return spec


# ------------------------------------------------------------------------ libpq, and its printing

class Lost(Exception):
    """The permutation cannot go on: a connection died or a step never finished."""


def text(b):
    return b.decode("utf-8", "replace") if b else ""


def format_result(res):
    """PQprint(header, align, fieldSep '|'), whose idea of a numeric column decides the alignment."""
    nf, nt = res.nfields, res.ntuples
    if not nf:
        return ""
    names = [res.fname(j) for j in range(nf)]
    width = [len(n) for n in names]
    notnum = [False] * nf
    rows = []
    for i in range(nt):
        row = []
        for j in range(nf):
            v = res.get_value(i, j)
            if not v:
                row.append(b"")
                continue
            if not notnum[j]:
                last = v[-1:]
                if v.strip(b"0123456789.Ee -") or v[:1] in b"Ee" or not last.isdigit():
                    notnum[j] = True
            width[j] = max(width[j], len(v))
            row.append(v)
        rows.append(row)

    def line(vals):
        return "|".join(text(v.ljust(width[j]) if notnum[j] else v.rjust(width[j])) for j, v in enumerate(vals))
    out = [line(names), "+".join("-" * w for w in width)] + [line(r) for r in rows]
    return "\n".join(out) + f"\n({nt} row{'' if nt == 1 else 's'})\n\n"


class Conn:
    def __init__(self, a, name, out, appname):
        self.name, self.out = name, out
        self.pg = pq.PGconn.connect(common.conninfo(a, "isolation_regression",
                                                    application_name=appname).encode())
        if self.pg.status != pq.ConnStatus.OK:
            raise Lost(f"connection failed: {text(self.pg.error_message).strip()}")
        self.active, self.notices = None, 0
        self.pid = self.pg.backend_pid
        self.pg.notice_handler = self.on_notice

    def on_notice(self, res):
        if self.out is not None:
            self.out.append(f"{self.name}: {text(res.error_message)}")
        self.notices += 1

    def wait(self, seconds):
        """Wait until the command is done, or seconds pass: done?"""
        end = time.time() + seconds
        try:
            while self.pg.is_busy():
                left = end - time.time()
                if left <= 0:
                    return False
                if select.select([self.pg.socket], [], [], min(left, 1))[0]:
                    self.pg.consume_input()
        except Exception as e:
            raise Lost(f"{self.name}: {str(e).strip()}")
        return True

    def results(self):
        out = []
        while True:
            r = self.pg.get_result()
            if r is None:
                return out
            out.append(r)
            if r.status in (pq.ExecStatus.COPY_IN, pq.ExecStatus.COPY_OUT, pq.ExecStatus.COPY_BOTH):
                raise Lost("COPY in a spec")

    def exec(self, sql, seconds):
        """Run SQL to its end: the last result, as PQexec gives it."""
        try:
            self.pg.send_query(sql.encode())
        except Exception as e:
            raise Lost(f"{self.name}: {str(e).strip()}")
        if not self.wait(seconds):
            self.cancel()
            if not self.wait(5):
                raise Lost(f"{self.name}: no answer in {seconds:g} s")
        rs = self.results()
        bad = [r for r in rs if r.status == pq.ExecStatus.FATAL_ERROR]
        if self.pg.status != pq.ConnStatus.OK:
            raise Lost(f"{self.name}: connection lost")
        return bad[0] if bad else (rs[-1] if rs else None)

    def cancel(self):
        try:
            self.pg.get_cancel().cancel()
        except Exception:
            pass

    def close(self):
        try:
            self.pg.finish()
        except Exception:
            pass


# ---------------------------------------------------------------------------- the lock-wait probe

class Probe:
    """Says whether a session is waiting; picks the best question the server can answer."""

    def __init__(self, a, ctl, sessions):
        self.a, self.ctl, self.sessions = a, ctl, sessions
        pids = ",".join(str(s.pid) for s in sessions)
        for self.how, q in (("pg_isolation_test_session_is_blocked",
                             "select pg_catalog.pg_isolation_test_session_is_blocked({pid}, '{{" + pids + "}}')"),
                            ("pg_blocking_pids",
                             "select pg_catalog.pg_blocking_pids({pid}) && '{{" + pids + "}}'::int[]"),
                            ("pg_locks", "select exists (select 1 from pg_catalog.pg_locks "
                                         "where pid = {pid} and not granted)")):
            if a.probe and a.probe != self.how:
                continue
            self.q = q
            r = ctl.exec(q.format(pid=sessions[0].pid), 5)
            if r is not None and r.status == pq.ExecStatus.TUPLES_OK and r.ntuples == 1 and \
                    r.get_value(0, 0) in (b"t", b"f"):
                return
        self.how, self.q = "time", None

    def blocked(self, conn, waited):
        if self.q is None:
            return waited > self.a.wait_guess
        if waited > self.a.stall:
            return True                             # the probe cannot be right: go on
        r = self.ctl.exec(self.q.format(pid=conn.pid), 10)
        return r is not None and r.status == pq.ExecStatus.TUPLES_OK and r.get_value(0, 0) == b"t"


# -------------------------------------------------------------------------------- isolationtester

class Tester:
    def __init__(self, a, spec, name):
        self.a, self.spec, self.name = a, spec, name
        self.steps = {n: (k, sql) for k, s in enumerate(spec.sessions) for n, sql in s["steps"]}
        self.ctl, self.conns, self.out = None, [], []
        self.how = None

    def connect(self):
        self.close()
        # Each connection appends to whatever list self.out is when a notice arrives.
        tester = self

        class Out(list):
            def append(self, s):
                tester.out.append(s)
        app = f"isolation/{self.name}"
        self.ctl = Conn(self.a, "control connection", None, f"{app}/control connection")
        self.conns = []
        for s in self.spec.sessions:
            self.conns.append(Conn(self.a, s["name"], Out(), f"{app}/{s['name']}"))
        self.probe = Probe(self.a, self.ctl, self.conns)
        self.how = self.probe.how

    def close(self):
        for c in [self.ctl] + self.conns:
            if c:
                c.close()
        self.ctl, self.conns = None, []

    def say(self, s):
        self.out.append(s)

    def run_sql(self, conn, sql, what):
        r = conn.exec(sql, self.a.step_timeout * 3)
        if r is not None and r.status == pq.ExecStatus.TUPLES_OK:
            self.say(format_result(r))
        elif r is not None and r.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
            self.say(f"{what} failed: {text(r.error_message)}")
            return False
        return True

    def permutation(self, perm):
        """Run one permutation; its output.  Raises Lost (with self.out so far) if it cannot go on."""
        self.out = ["starting permutation: " + " ".join(n for n, _ in perm) + "\n"]
        failed = False
        for sql in self.spec.setups:
            if not self.run_sql(self.ctl, sql, "setup"):
                failed = True
        for s, c in zip(self.spec.sessions, self.conns):
            if s["setup"] is not None and not self.run_sql(c, s["setup"], f"setup of session {s['name']}"):
                failed = True
        waiting = []
        if not failed:
            for n, b in perm:
                self.step(dict(name=n, blockers=[list(x) for x in b], sql=self.steps[n][1],
                               conn=self.conns[self.steps[n][0]]), waiting)
            self.try_all(waiting, nonblock=False)
            if waiting:
                raise Lost("failed to complete permutation due to mutually-blocking steps")
        for s, c in zip(self.spec.sessions, self.conns):
            if s["teardown"] is not None:
                self.run_sql(c, s["teardown"], f"teardown of session {s['name']}")
        if self.spec.teardown is not None:
            self.run_sql(self.ctl, self.spec.teardown, "teardown")
        return "".join(self.out)

    def step(self, p, waiting):
        c = p["conn"]
        t0 = time.time()
        while c.active is not None:
            old = c.active
            if not self.try_step(old, nonblock=False, retry=True):
                waiting.remove(old)
            self.try_all(waiting, nonblock=True)
            if c.active is not None and time.time() - t0 > 2 * self.a.step_timeout:
                raise Lost(f"step {c.active['name']} timed out")
        try:
            c.pg.send_query(p["sql"].encode())
        except Exception as e:
            raise Lost(f"failed to send query for step {p['name']}: {str(e).strip()}")
        c.active = p
        p["sent"] = time.time()
        for b in p["blockers"]:
            if b[0] == "notices":
                b[2] += self.conns[self.steps[b[1]][0]].notices
        mustwait = self.try_step(p, nonblock=True, retry=False)
        self.try_all(waiting, nonblock=True)
        if mustwait:
            waiting.append(p)

    def try_all(self, waiting, nonblock):
        while True:
            before, notices, blocker = len(waiting), sum(c.notices for c in self.conns), False
            for p in list(waiting):
                if self.try_step(p, nonblock, retry=True):
                    blocker = blocker or bool(p["blockers"])
                else:
                    waiting.remove(p)
            if not blocker or (len(waiting) == before and sum(c.notices for c in self.conns) == notices):
                return

    def has_blocker(self, p):
        for kind, other, target in p["blockers"]:
            if kind == "step":
                act = self.conns[self.steps[other][0]].active
                if act is not None and act["name"] == other:
                    return True
            elif kind == "notices" and self.conns[self.steps[other][0]].notices < target:
                return True
        return False

    def try_step(self, p, nonblock, retry):
        """False once the step is complete and printed, True while it is not."""
        c, waiting_line = p["conn"], f"step {p['name']}: {p['sql']} <waiting ...>\n"
        if not retry and any(b[0] == "once" for b in p["blockers"]):
            self.say(waiting_line)
            return True
        t0, cancelled = time.time(), False
        while not c.wait(0.010):
            if nonblock and self.probe.blocked(c, time.time() - p["sent"] if retry else time.time() - t0):
                if c.wait(0.001):
                    break
                if not retry:
                    self.say(waiting_line)
                return True
            td = time.time() - t0
            if td > self.a.step_timeout and not cancelled:
                self.say(f"isolationtester: canceling step {p['name']} after {td:.0f} seconds\n")
                c.cancel()
                cancelled = True
            if td > self.a.step_timeout * 1.5:
                raise Lost(f"step {p['name']} timed out after {td:.0f} seconds")
        if self.has_blocker(p):
            if not retry:
                self.say(waiting_line)
            return True
        self.say(f"step {p['name']}: <... completed>\n" if retry else f"step {p['name']}: {p['sql']}\n")
        for r in c.results():
            if r.status == pq.ExecStatus.TUPLES_OK:
                self.say(format_result(r))
            elif r.status == pq.ExecStatus.FATAL_ERROR:
                sev, msg = r.error_field(pq.DiagnosticField.SEVERITY), r.error_field(pq.DiagnosticField.MESSAGE_PRIMARY)
                self.say(f"{text(sev)}:  {text(msg)}\n" if sev and msg else f"{text(r.error_message)}\n")
            elif r.status not in (pq.ExecStatus.COMMAND_OK, pq.ExecStatus.EMPTY_QUERY):
                self.say(f"unexpected result status: {r.status.name}\n")
        try:
            c.pg.consume_input()
        except Exception:
            pass                                    # the next use of the connection will tell
        while (n := c.pg.notifies()) is not None:
            who = next((x.name for x in self.conns if x.pid == n.be_pid), f"PID {n.be_pid}")
            self.say(f"{c.name}: NOTIFY \"{text(n.relname)}\" with payload \"{text(n.extra)}\" from {who}\n")
        c.active = None
        return False


# --------------------------------------------------------------------------------------- scoring

def norm(block):
    return [l.rstrip() for l in block.split("\n") if l.strip()]


def loose(lines):
    """The same with the notes on waiting taken out and the rest in any order."""
    out = []
    for l in lines:
        l = re.sub(r" <waiting \.\.\.>$", "", l)
        if not re.match(r"step \S+: <\.\.\. completed>$", l):
            out.append(l)
    return sorted(out)


def expected_blocks(folder, name):
    """[{permutation header: [blocks]}], one per expected file."""
    files = []
    for s in [""] + [f"_{i}" for i in range(10)]:
        p = os.path.join(folder, "expected", f"{name}{s}.out")
        if os.path.exists(p):
            d = collections.defaultdict(list)
            for b in re.split(r"(?m)^(?=starting permutation:)", open(p, encoding="utf-8").read())[1:]:
                d[b.split("\n", 1)[0]].append(norm(b))
            files.append(d)
    return files


def run_file(a, folder, name, psql):
    spec = parse_spec(open(os.path.join(folder, "specs", f"{name}.spec"), encoding="utf-8").read())
    exps = expected_blocks(folder, name)
    t = Tester(a, spec, name)
    row = dict(file=name, total=len(spec.permutations), matched=0, loose=0, crashed=False, notes=[], failures=[])
    t0, seen, connected = time.time(), collections.Counter(), False
    for perm in spec.permutations:
        head = "starting permutation: " + " ".join(n for n, _ in perm)
        k = seen[head]
        seen[head] += 1
        wants = [e[head][k] for e in exps if len(e.get(head, [])) > k]
        note = ""
        if time.time() - t0 > a.timeout:
            note = "not run: the file's time is up"
            got = [head]
        else:
            try:
                if not connected:
                    t.connect()
                    connected = True
                got = norm(t.permutation(perm))
            except Lost as e:
                note = " ".join(str(e).split())
                got = norm("".join(t.out) or head) + [f"(harness: {note})"]
                t.close()
                connected = False
                common.quick_sql(a, psql, "select pg_terminate_backend(pid) from pg_stat_activity "
                                          "where datname = 'isolation_regression'")
                if not common.server_alive(a, psql):
                    row["crashed"] = True
                    note += "; SERVER DOWN"
                    common.revive(a, psql)
                if not common.server_alive(a, psql, "isolation_regression"):
                    common.fresh_database(a, psql, "isolation_regression")
                else:
                    cleanup(a, spec)
        good = got in wants
        row["matched"] += good
        row["loose"] += good or any(loose(got) == loose(w) for w in wants)
        if not good:
            row["failures"].append(dict(permutation=head, note=note, expected="\n".join(wants[0]) if wants else None,
                                        actual="\n".join(got)))
            if note:
                row["notes"].append(note)
    t.close()
    row.update(seconds=round(time.time() - t0, 2), probe=t.how)
    return row


def cleanup(a, spec):
    """After a permutation that broke off: run the teardowns so the next one can set up."""
    try:
        c = Conn(a, "cleanup", None, "isolation/cleanup")
        if spec.teardown:
            c.exec(spec.teardown, 10)
        c.close()
    except Lost:
        pass


def parser():
    ap = common.arg_parser(__doc__)
    ap.add_argument("--files", help="only these specs (comma-separated)")
    ap.add_argument("--skip", default="", help="leave these out")
    ap.add_argument("--timeout", type=float, default=120, help="seconds a spec file may take")
    ap.add_argument("--step-timeout", type=float, default=15, help="seconds a step may take before it is cancelled")
    ap.add_argument("--wait-guess", type=float, default=0.3, help="without any probe: a step not done by then waits")
    ap.add_argument("--stall", type=float, default=5, help="a step not done by then waits, whatever the probe says")
    ap.add_argument("--probe", choices=("pg_isolation_test_session_is_blocked", "pg_blocking_pids", "pg_locks", "time"),
                    help="force this way of telling that a step waits")
    ap.add_argument("--show", type=int, default=0, metavar="N", help="print the first N failures of each spec")
    return ap


def run(a):
    """Run the specs; the report."""
    psql = common.find_psql(a.psql)
    version, vnum = common.server_version(a, psql)
    mirror = common.find_mirror(a.mirror)
    ref, label = common.pg_ref(mirror, a.ref, vnum)
    tmp = tempfile.mkdtemp(prefix="isolation-src-")
    folder = common.extract(mirror, ref, "src/test/isolation", tmp)
    schedule = common.read_schedule(os.path.join(folder, "isolation_schedule"))
    todo = a.files.split(",") if a.files else [s for s in schedule if s not in a.skip.split(",")]
    print(f"server {version}; tests of {label}")
    err = common.fresh_database(a, psql, "isolation_regression")
    if err:
        print(f"create database isolation_regression: {err}")
    for s in ("lc_messages TO 'C'", "lc_monetary TO 'C'", "lc_numeric TO 'C'", "lc_time TO 'C'",
              "bytea_output TO 'hex'", "timezone_abbreviations TO 'Default'"):
        common.quick_sql(a, psql, f"alter database isolation_regression set {s}")
    os.environ.update(PGTZ="America/Los_Angeles", PGDATESTYLE="Postgres, MDY", LC_MESSAGES="C",
                      PGOPTIONS="-c intervalstyle=postgres_verbose")

    width = max(map(len, todo))
    print(f"\n{'spec':{width}}  {'matched':>9}  {'%':>6}  {'loose':>5}  {'sec':>6}  notes")
    rows = []
    for name in todo:
        if not common.server_alive(a, psql) and not common.revive(a, psql):
            row = dict(file=name, total=0, matched=0, loose=0, crashed=True, notes=["NOT RUN: server down"],
                       failures=[], seconds=0, probe=None)
            try:
                row["total"] = len(parse_spec(open(os.path.join(folder, "specs", f"{name}.spec")).read()).permutations)
            except (OSError, ValueError):
                pass
        else:
            row = run_file(a, folder, name, psql)
        rows.append(row)
        notes = collections.Counter(row["notes"])
        pct = common.pct(row["matched"], row["total"])
        print(f"{name:{width}}  {row['matched']:>4}/{row['total']:<4}  {pct:>6.1f}  "
              f"{row['loose']:>5}  {row['seconds']:>6.1f}  {'CRASHED ' if row['crashed'] else ''}"
              + "; ".join(f"{n}x {t[:100]}" if n > 1 else t[:100] for t, n in notes.most_common(3)), flush=True)
        for f in row["failures"][:a.show]:
            print("      expected: " + (f["expected"] or "?").replace("\n", "\n                "))
            print("      actual:   " + f["actual"].replace("\n", "\n                "))
    m, l, t = (sum(r[k] for r in rows) for k in ("matched", "loose", "total"))
    tot = dict(files=len(rows), perfect=sum(r["matched"] == r["total"] for r in rows), matched=m, loose=l, total=t,
               pct=round(common.pct(m, t), 2), loose_pct=round(common.pct(l, t), 2),
               seconds=round(sum(r["seconds"] for r in rows), 1), crashed=[r["file"] for r in rows if r["crashed"]],
               probes=dict(collections.Counter(r["probe"] for r in rows)))
    print(f"\n{tot['files']} specs ({tot['perfect']} perfect): {m}/{t} permutations = {tot['pct']} % "
          f"(loosely {l} = {tot['loose_pct']} %), {tot['seconds']} s, crashed {len(tot['crashed'])}; "
          f"waits told by {tot['probes']}")
    report = dict(server=version, ref=label, totals=tot, files=rows)
    common.save_report(a, report)
    shutil.rmtree(tmp, ignore_errors=True)
    return report


if __name__ == "__main__":
    run(parser().parse_args())
