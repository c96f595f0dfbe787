#!/usr/bin/env python3
"""Runs statements that go deep, want much memory or take long, and says which of them hurt: ended the server, went on
after their time was up, or kept others waiting.

  run.py --kilndb PROGRAM [--only WORD] [--limit-ms N] [--beside N] [--out FILE] [--list]

The statements are those of the files beside this one (deep.sql, greedy.sql, long.sql; one a line), and calls of each
built-in function with large arguments, which are made from the function table: whatever takes a text, bytes, a
numeric, an array, json or a text search value gets a large one.

Each runs with statement_timeout; its delay is the time from then to its end. With --beside N, each of the statements
that took their whole time runs in N sessions at once, while another session asks point queries and a third connects
again and again. The server runs in a temporary folder, in a memory cgroup of 1.5 GB if there can be one; else its
largest resident size is said."""
import argparse
import json
import os
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

import psycopg

HERE = os.path.dirname(os.path.abspath(__file__))

# Values of each argument type: large ones first. A function is called with all that fit, one after the other.
LARGE = {
    "text": "repeat('ab cd\u00e9 ', 4000000)",
    "bytea": "convert_to(repeat('0123456789abcdef', 2000000), 'UTF8')",
    "numeric": "(repeat('7', 60000) || '.' || repeat('3', 10000))::numeric",
    "json": "('[' || repeat('{\"a\": [1, \"b\", null]},', 500000) || '1]')::json",
    "jsonb": "('[' || repeat('{\"a\": [1, \"b\", null]},', 500000) || '1]')::jsonb",
    "anyarray": "array_fill(7, array[2000000])",
    "anycompatiblearray": "array_fill(7, array[2000000])",
    "_text": "array_fill('abc'::text, array[2000000])",
    "_int4": "array_fill(7, array[2000000])",
    "tsvector": "array_to_tsvector(array(select 'w' || g from generate_series(1, 60000) g))",
    "tsquery": "(repeat('a & ', 5000) || 'b')::tsquery",
    "varbit": "repeat('10', 4000000)::varbit",
    "bit": "repeat('10', 4000000)::varbit",
    "anymultirange": "(select range_agg(int4range(2 * g, 2 * g + 1)) from generate_series(1, 200000) g)",
    "cstring": None,
}
SMALL = {
    "int2": "7::int2", "int4": "7", "int8": "7::int8", "bool": "true", "float8": "0.5::float8", "float4": "0.5::float4",
    "oid": "25::oid", "name": "'pg_class'::name", "anyelement": "7", "anycompatible": "7", "any": "7", "char": "'a'::\"char\"",
    "regconfig": "'english'::regconfig", "regdictionary": "'english_stem'::regdictionary", "interval": "interval '1 day'",
    "timestamptz": "now()", "timestamp": "now()::timestamp", "date": "current_date", "time": "localtime",
    "jsonpath": "'$.**'::jsonpath", "bpchar": "'abc'::bpchar", "anyrange": "int4range(1, 5)", "inet": "'10.0.0.1'::inet",
    "anynonarray": "7", "regclass": "'pg_class'::regclass",
}
# What does something to the server, waits by design, or has no end by design.
SKIPPED = re.compile(r"^(pg_|lo_|lo|set_config|setval|nextval|currval|lastval|dblink|query_to|table_to|schema_to|database_to|"
                     r"cursor_to|xml|xpath|ts_stat|generate_series|txid_|inet_|bt|hash|gin_|gist_|brin|spg|.*_in$|.*_recv$|"
                     r".*_out$|.*_send$|.*sel$|.*joinsel$|.*_support$|.*_transfn|.*_accum|.*_combine|.*serialize)")


MEMORY_BYTES = 1536 << 20


class MemoryGroup:
    """A control group of processes that may have so much memory together, if this user can make one."""

    def __init__(self):
        name, self.folder = f"kilndb-runaway-{os.getpid()}", None
        for root, limit in (("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")):
            folder = os.path.join(root, name)
            try:
                os.mkdir(folder)
            except OSError:
                continue
            self.folder = folder
            try:
                open(os.path.join(folder, limit), "w").write(str(MEMORY_BYTES))
                return
            except OSError:
                self.remove()

    def enter(self):
        """For a child process, before it becomes the server."""
        if self.folder:
            open(os.path.join(self.folder, "cgroup.procs"), "w").write(str(os.getpid()))

    def remove(self):
        if self.folder:
            os.rmdir(self.folder)
        self.folder = None


class Server:
    """KilnDB with its data in a temporary folder, and what it may use of memory."""

    def __init__(self, program):
        self.program, self.folder = os.path.abspath(program), tempfile.mkdtemp(prefix="kilndb-runaway-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.child, self.engine, self.group = None, None, MemoryGroup()

    def start(self):
        log = open(os.path.join(self.folder, "server.log"), "ab")
        command = [self.program, "serve", "-D", os.path.join(self.folder, "data"), "-h", "127.0.0.1", "-p", str(self.port),
                   "-c", "max_connections=300"]
        if not self.group.folder:
            command += ["-c", f"server_mem_limit={MEMORY_BYTES * 8 // 10 >> 10}kB"]
        self.child = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, preexec_fn=self.group.enter)
        self.connect().close()
        self.engine = self.engine_pid()

    def engine_pid(self):
        """The process that does the work: the supervisor's child."""
        try:
            pids = open(f"/proc/{self.child.pid}/task/{self.child.pid}/children").read().split()
            return int(pids[0]) if pids else None
        except OSError:
            return None

    def resident_kb(self, what="VmRSS"):
        try:
            status = open(f"/proc/{self.engine}/status").read()
            return int(re.search(what + r":\s+(\d+)", status).group(1))
        except (OSError, AttributeError):
            return 0

    def forget_peak(self):
        """The next largest size is that from now on."""
        try:
            open(f"/proc/{self.engine}/clear_refs", "w").write("5")
        except OSError:
            pass

    def has_crashed(self):
        """Another engine than before, or none."""
        before, self.engine = self.engine, self.engine_pid()
        return before != self.engine or self.child.poll() is not None

    def connect(self):
        """Waits for a server that is starting, or starting again."""
        end = time.time() + 60
        while True:
            try:
                return psycopg.connect(host="127.0.0.1", port=self.port, user="postgres", dbname="postgres",
                                       autocommit=True, connect_timeout=30)
            except psycopg.OperationalError:
                if time.time() > end or self.child.poll() is not None:
                    raise
                time.sleep(0.1)

    def stop(self):
        if self.child and self.child.poll() is None:
            self.child.send_signal(signal.SIGINT)
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
        time.sleep(0.2)
        self.group.remove()
        shutil.rmtree(self.folder, ignore_errors=True)


def from_files():
    for kind in ("deep", "greedy", "long"):
        path = os.path.join(HERE, kind + ".sql")
        for n, line in enumerate(open(path) if os.path.exists(path) else [], 1):
            line = line.strip()
            if line and not line.startswith("--"):
                # {NAME*COUNT}: a text so many times, for what no function can make.
                sql = re.sub(r"\{(.*?)\*(\d+)\}", lambda m: m.group(1) * int(m.group(2)), line)
                yield f"{kind}:{n}", sql, line


def from_functions(connection):
    """A call of each built-in function that takes something large."""
    rows = connection.execute(
        "select p.oid, p.proname, p.proretset, array(select t.typname from unnest(p.proargtypes) with ordinality a(o, n) "
        "join pg_type t on t.oid = a.o order by a.n)::text[] from pg_proc p where p.prokind = 'f' and p.oid < 10000 "
        "and p.provolatile <> 'v' order by p.oid").fetchall()
    for oid, name, is_set, types in rows:
        if SKIPPED.match(name) or not any(LARGE.get(t) for t in types):
            continue
        arguments = [LARGE.get(t) or SMALL.get(t) for t in types]
        if None in arguments:
            continue
        call = f'pg_catalog."{name}"({", ".join(arguments)})'
        sql = f"select count(*) from {call} f" if is_set else f"select {call} is null"
        yield f"{name}:{oid}", sql, sql


def run_one(server, connection, sql, limit_ms):
    """(outcome, seconds, SQLSTATE)."""
    begun = time.time()
    try:
        connection.execute(sql, prepare=False)
        return "done", time.time() - begun, ""
    except psycopg.Error as e:
        taken = time.time() - begun
        if e.sqlstate is None or e.sqlstate.startswith("57P"):
            time.sleep(0.5)
            return ("ended the server" if server.has_crashed() else "lost"), taken, e.sqlstate or ""
        return ("cancelled" if e.sqlstate == "57014" else "refused"), taken, e.sqlstate


def probe(what, port):
    """A process of its own, so that what the other sessions' client has to do is not taken for the server's delay: asks
    point queries or connects again and again until its input ends, then says each answer's ms as JSON."""
    options = dict(host="127.0.0.1", port=port, user="postgres", dbname="postgres", autocommit=True, connect_timeout=30)
    held = psycopg.connect(**options) if what == "points" else None
    answers = []
    print("ready", flush=True)
    while not select.select([sys.stdin], [], [], 0)[0]:
        begun = time.time()
        if held:
            held.execute("select v from runaway_points where id = 500").fetchone()
        else:
            psycopg.connect(**options).close()
        answers.append((time.time() - begun) * 1000)
    print(json.dumps(answers))


def beside(server, sql, limit_ms, sessions):
    """The longest answers to others, in ms, while so many sessions run the statement: (p99, connecting)."""
    stop = threading.Event()

    def greedy():
        with server.connect() as c:
            c.execute(f"set statement_timeout = {limit_ms}")
            while not stop.is_set():
                run_one(server, c, sql, limit_ms)

    probes = [subprocess.Popen([sys.executable, "-B", os.path.abspath(__file__), "--probe", what, "--port", str(server.port)],
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE) for what in ("points", "connecting")]
    [p.stdout.readline() for p in probes]
    threads = [threading.Thread(target=greedy) for _ in range(sessions)]
    [t.start() for t in threads]
    time.sleep(3 * limit_ms / 1000)
    points, connects = [sorted(json.loads(p.communicate()[0] or "[]")) for p in probes]
    stop.set()
    [t.join(60) for t in threads]
    return (points[int(len(points) * 0.99)] if points else float("inf")), max(connects, default=float("inf"))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--kilndb", help="the server's program")
    p.add_argument("--only", help="statements whose name or text has this word")
    p.add_argument("--limit-ms", type=int, default=300, help="statement_timeout (default 300)")
    p.add_argument("--beside", type=int, default=0, help="sessions that run each long statement at once")
    p.add_argument("--list", action="store_true", help="show the statements only")
    p.add_argument("--out", help="write all figures as JSON here")
    p.add_argument("--probe", choices=("points", "connecting"), help=argparse.SUPPRESS)
    p.add_argument("--port", type=int, help=argparse.SUPPRESS)
    a = p.parse_args()
    if a.probe:
        return probe(a.probe, a.port)
    if not a.kilndb:
        p.error("--kilndb PROGRAM is missing")
    server = Server(a.kilndb)
    results = []
    try:
        server.start()
        connection = server.connect()
        connection.execute("create table runaway_points (id int primary key, v text)")
        connection.execute("insert into runaway_points select g, 'v' from generate_series(1, 1000) g")
        statements = list(from_files()) + list(from_functions(connection))
        statements = [s for s in statements if not a.only or a.only in s[0] or a.only in s[2]]
        if a.list:
            [print(name, shown[:150], sep="\t") for name, _, shown in statements]
            return 0
        limit = f"set statement_timeout = {a.limit_ms}"
        connection.execute(limit)
        for name, sql, shown in statements:
            server.forget_peak()
            outcome, taken, state = run_one(server, connection, sql, a.limit_ms)
            row = {"name": name, "sql": shown[:200], "outcome": outcome, "ms": taken * 1000, "sqlstate": state,
                   "delay_ms": max(0, taken * 1000 - a.limit_ms), "peak_kb": server.resident_kb("VmHWM")}
            if outcome in ("lost", "ended the server"):
                connection = server.connect()
                server.has_crashed()
                connection.execute(limit)
            elif a.beside and row["ms"] > a.limit_ms / 2:
                row["point_p99_ms"], row["connect_ms"] = beside(server, sql, a.limit_ms, a.beside)
            results.append(row)
            if outcome in ("lost", "ended the server") or row["delay_ms"] > 200 or row.get("point_p99_ms", 0) > 50:
                print(f"{name:40} {outcome:16} {state:6} {row['ms']:8.0f} ms {row['peak_kb'] >> 10:6} MB"
                      + (f"  others: p99 {row['point_p99_ms']:.0f} ms, connecting {row['connect_ms']:.0f} ms"
                         if "point_p99_ms" in row else "") + f"  {shown[:70]}", flush=True)
        report(results, server)
    finally:
        server.stop()
        if a.out:
            json.dump(results, open(a.out, "w"), indent=1)
    bad = [r for r in results if r["outcome"] in ("lost", "ended the server") or r["delay_ms"] > 1000]
    return 1 if bad else 0


def report(results, server):
    delays = sorted(r["delay_ms"] for r in results if r["outcome"] == "cancelled")
    count = {o: sum(r["outcome"] == o for r in results) for o in ("done", "refused", "cancelled", "lost", "ended the server")}
    print(f"\n{len(results)} statements: " + ", ".join(f"{n} {o}" for o, n in count.items()))
    late = sum(r["delay_ms"] > 1000 for r in results)
    if delays:
        within = sum(d <= 200 for d in delays) * 100 / len(delays)
        print(f"cancelled within 200 ms: {within:.1f} %; longest delay {delays[-1]:.0f} ms; "
              f"{late} statements went on for more than 1 s after their time")
    time.sleep(2)
    print(f"resident at the end, idle: {server.resident_kb() >> 10} MB; largest {max(r['peak_kb'] for r in results) >> 10} MB")


if __name__ == "__main__":
    sys.exit(main())
