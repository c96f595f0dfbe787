"""What the conformance scripts share: reading PostgreSQL's tests out of a git mirror, finding psql, and
asking the server under test a quick question."""
import argparse
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time

MAJOR = 18
HERE = os.path.dirname(os.path.abspath(__file__))
HOW_TO_CLONE = ("git clone --bare --single-branch --branch REL_18_STABLE "
                "https://git.postgresql.org/git/postgresql.git postgresql.git")


# ---------------------------------------------------------------------------------- arguments

def arg_parser(doc):
    p = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--host", default=os.environ.get("PGHOST", "127.0.0.1"), help="host or socket folder")
    p.add_argument("--port", type=int, default=int(os.environ.get("PGPORT", "5432")))
    p.add_argument("--user", default=os.environ.get("PGUSER", "postgres"), help="a superuser (default postgres)")
    p.add_argument("--password", default=os.environ.get("PGPASSWORD", ""))
    p.add_argument("--maintdb", default="postgres", help="database to connect to for CREATE DATABASE")
    p.add_argument("--out", help="write the full report as JSON here")
    p.add_argument("--restart-cmd", help="shell command that (re)starts the server after a crash")
    p.add_argument("--restart-wait", type=float, default=20, help="seconds to wait for a crashed server to come back")
    p.add_argument("--mirror", required=True,
                   help="PostgreSQL's repository with REL_18_STABLE: a git directory or a work tree")
    p.add_argument("--ref", help="revision to test with (default: see pg_ref)")
    p.add_argument("--psql", help="psql to use (default: see find_psql)")
    return p


def base_env(a, **extra):
    """A process environment with every PG* variable taken from the arguments only."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("PG")}
    env.update(PGHOST=a.host, PGPORT=str(a.port), PGUSER=a.user, PGCONNECT_TIMEOUT="10")
    if a.password:
        env["PGPASSWORD"] = a.password
    for k in ("LANGUAGE", "LC_ALL"):
        env.pop(k, None)
    env["LC_MESSAGES"] = "C"
    env.update(extra)
    return env


def conninfo(a, dbname=None, **kw):
    d = dict(host=a.host, port=a.port, user=a.user, dbname=dbname or a.maintdb, connect_timeout=10)
    if a.password:
        d["password"] = a.password
    d.update(kw)
    return " ".join("%s='%s'" % (k, str(v).replace("\\", "\\\\").replace("'", "\\'")) for k, v in d.items())


# ------------------------------------------------------------------------------------ mirrors

def git(mirror, *args, text=True, **kw):
    return subprocess.run(["git", "--git-dir", mirror, *args], check=True, capture_output=True,
                          text=text, **kw).stdout


def _has(mirror, spec):
    return subprocess.run(["git", "--git-dir", mirror, "cat-file", "-e", spec],
                          capture_output=True).returncode == 0


def find_mirror(given):
    """The git directory of a bare repository or of a work tree."""
    for c in (given, os.path.join(given, ".git")):
        if os.path.isfile(os.path.join(c, "HEAD")):
            return c
    sys.exit(f"{given} is no git directory of PostgreSQL's repository; this makes one:\n  {HOW_TO_CLONE}")


def server_version(a, psql):
    """(text, (major, minor)) as the server reports it, or ('?', None)."""
    rc, out = quick_sql(a, psql, "SHOW server_version")
    m = re.match(r"(\d+)(?:\.(\d+))?", out.strip()) if rc == 0 else None
    return (out.strip() or "?"), ((int(m[1]), int(m[2] or 0)) if m else None)


def pg_ref(mirror, given, version):
    """The revision to test with, and what to call it: the one given, else the release of 18 that the server reports,
    else 18.0. Branches go on, and expected output with them: a score is of one revision."""
    if given:
        return given, given
    tags = git(mirror, "tag", "-l", "REL_18_*").split()
    branch = next((b for b in ("REL_18_STABLE", "refs/remotes/origin/REL_18_STABLE")
                   if _has(mirror, b + "^{commit}")), None)
    for minor in dict.fromkeys([version[1] if version and version[0] == MAJOR else 0, 0]):
        if f"REL_18_{minor}" in tags:
            return f"REL_18_{minor}", f"18.{minor}"
        if branch:                                      # without tags: the commit that stamped the release
            c = git(mirror, "log", branch, "-1", "--format=%H", "--fixed-strings", f"--grep=Stamp 18.{minor}.").strip()
            if c:
                return c, f"18.{minor}"
    sys.exit(f"{mirror} has no release of PostgreSQL 18 (REL_18_STABLE with its history); "
             f"this makes one:\n  {HOW_TO_CLONE}")


def extract(mirror, ref, path, into):
    """Unpack `path` of revision `ref` under the temporary folder `into`."""
    os.makedirs(into, exist_ok=True)
    tar = subprocess.Popen(["git", "--git-dir", mirror, "archive", ref, path], stdout=subprocess.PIPE)
    subprocess.run(["tar", "-x", "-C", into], stdin=tar.stdout, check=True)
    if tar.wait():
        sys.exit(f"could not read {path} of {ref} from {mirror}")
    return os.path.join(into, path)


def read_schedule(path):
    tests = []
    for line in open(path):
        if line.startswith("test:"):
            tests += line[5:].split()
    return tests


# ------------------------------------------------------------------------- clients and server

def find_psql(given=None):
    """The psql given, of PGBIN, that scripts/setup.sh has fetched, or on the search path; of version 18 or later, which
    prints what PostgreSQL 18's expected output has."""
    tools = subprocess.run([os.path.join(HERE, "../../scripts/tools-folder.sh")], capture_output=True, text=True).stdout
    pgbin = os.environ.get("PGBIN")
    candidates = [given] if given else [os.path.join(pgbin, "psql")] if pgbin else [
        os.path.join(tools.strip(), "postgres-18/bin/psql"), shutil.which("psql")]
    for c in candidates:
        if c and os.access(c, os.X_OK):
            m = re.search(r"\(PostgreSQL\) (\d+)", bin_version(c))
            if m and int(m[1]) >= MAJOR:
                return c
    sys.exit(f"no psql {MAJOR} or later ({', '.join(filter(None, candidates))}): run scripts/setup.sh test")


def bin_version(path):
    return subprocess.run([path, "--version"], capture_output=True, text=True).stdout.strip()


def quick_sql(a, psql, sql, db=None, timeout=10):
    """Run SQL through psql: (exit status, output).  A hang counts as a failure."""
    try:
        p = subprocess.run([psql, "-X", "-A", "-t", "-q", "-d", db or a.maintdb, "-c", sql],
                           env=base_env(a), capture_output=True, text=True, timeout=timeout,
                           stdin=subprocess.DEVNULL)
        return p.returncode, p.stdout + p.stderr
    except subprocess.TimeoutExpired:
        return 124, "timed out"


def port_open(a, timeout=3):
    try:
        if a.host.startswith("/"):
            s = socket.socket(socket.AF_UNIX)
            s.settimeout(timeout)
            s.connect(f"{a.host}/.s.PGSQL.{a.port}")
        else:
            s = socket.create_connection((a.host, a.port), timeout)
        s.close()
        return True
    except OSError:
        return False


def server_alive(a, psql, db=None, timeout=10):
    return quick_sql(a, psql, "select 1", db, timeout)[1].strip() == "1"


def revive(a, psql):
    """The server stopped answering: run the restart hook, wait; True once it answers again."""
    end, again = time.time() + a.restart_wait, 0
    while True:
        if server_alive(a, psql, timeout=5):
            return True
        if time.time() > end:
            return False
        if time.time() > again:                         # a first try may meet the old server's remains
            if callable(a.restart_cmd):
                a.restart_cmd()
            elif a.restart_cmd:
                subprocess.run(a.restart_cmd, shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
            again = time.time() + 5
        time.sleep(0.5)


def fresh_database(a, psql, name):
    """Drop and create a database, whatever an earlier run left in it; falls back to simpler spellings.
    Returns an error text or ''."""
    def ask(sql, db=None):
        rc, out = quick_sql(a, psql, sql, db, timeout=60)
        return [l for l in out.split("\n") if l] if rc == 0 else []
    ask(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
    for gid in ask(f"select quote_literal(gid) from pg_prepared_xacts where database = '{name}'"):
        ask(f"rollback prepared {gid}", name)
    rc, err = quick_sql(a, psql, f'drop database if exists "{name}"', timeout=60)
    if rc:
        for sub in ask("select quote_ident(subname) from pg_subscription s join pg_database d on d.oid = subdbid "
                       f"where datname = '{name}'"):
            for how in ("disable", "set (slot_name = none)"):
                ask(f"alter subscription {sub} {how}", name)
            ask(f"drop subscription {sub}", name)
        rc, err = quick_sql(a, psql, f'drop database if exists "{name}" with (force)', timeout=60)
    if rc:                                              # at least out of the way
        quick_sql(a, psql, f'alter database "{name}" rename to "{name}_{int(time.time())}"')
    for opts in (" template=template0", ""):
        rc, err = quick_sql(a, psql, f'create database "{name}"{opts}', timeout=60)
        if rc == 0:
            return ""
    return err.strip()


def save_report(a, report):
    if a.out:
        with open(a.out, "w") as f:
            json.dump(report, f, indent=1, ensure_ascii=False)
        print(f"\nreport: {a.out}")


def pct(n, d):
    return 100.0 * n / d if d else 0.0
