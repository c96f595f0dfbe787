"""Programs of clients connect to a server with SCRAM-SHA-256 and `sslmode=verify-full`.

Each program takes PGHOST, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGSSLMODE, PGSSLROOTCERT and PGCHANNELBINDING from its environment. It
connects, asks pg_stat_ssl about itself, executes a prepared statement with parameters eight times, commits one row and rolls another
back, and prints `session ROLE SSL`, `prepared NUMBER TEXT` and `transaction ROWS TEXT`. If it is not let in it prints `refused`, the
SQLSTATE if a server has told one, and the client's words, and exits with 3."""
import os
import shutil
import subprocess
from collections import namedtuple

from servers import PASSWORD, Certificates

HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAMS = os.path.join(HERE, "programs")
EXPECTED = [("session client true", "session client True", "session client t"), ("prepared 8 käse!",), ("transaction 1 one",)]

# A program with its arguments, and the files without which it cannot run.
Client = namedtuple("Client", "name words needs")
# What is other than in a connection that is let in, and if it is not let in: the server's SQLSTATE ("": the client has refused the
# server), and words of which the client says one.
Case = namedtuple("Case", "name change state words")

CASES = [
    Case("right password", {}, None, ()),
    Case("channel binding", {"PGCHANNELBINDING": "require"}, None, ()),
    Case("wrong password", {"PGPASSWORD": "wrong"}, "28P01", ("password authentication failed",)),
    Case("unknown role", {"PGUSER": "nobody_here"}, "28P01", ("password authentication failed",)),
    Case("wrong CA", {"PGSSLROOTCERT": "other"}, "", ("certificate", "unable to verify", "unknownissuer", "path")),
    Case("wrong name", {"PGHOST": "127.0.0.1"}, "", ("certificate", "hostname", "127.0.0.1", "not valid for")),
]

PSQL = """select 'session', current_user, ssl from pg_stat_ssl where pid = pg_backend_pid();
prepare named as select 'prepared', $1::int + 1, $2::text || '!';
execute named(7, 'käse');
create temporary table t (a int primary key, b text);
begin; insert into t values (1, 'one'); commit;
begin; insert into t values (2, 'two'); rollback;
select 'transaction', count(*), min(b) from t;
"""


def clients(folder):
    """What scripts/clients.sh and scripts/setup.sh may have brought."""
    python = os.path.join(folder, "python/bin/python")
    node, java = os.path.join(folder, "node"), shutil.which("java") or "java"
    jars = ":".join([os.path.join(folder, "pgjdbc"), os.path.join(folder, "pgjdbc/*")])
    program = lambda name: os.path.join(PROGRAMS, name)
    return [
        Client("psql", [shutil.which("psql") or "psql", "-XAtqF", " ", "-v", "ON_ERROR_STOP=1"], [shutil.which("psql")]),
        Client("psycopg 3", [python, "-B", program("psycopg_connect.py")], [python]),
        Client("SQLAlchemy", [python, "-B", program("sqlalchemy_connect.py")], [python]),
        Client("pgjdbc", [java, "-Dfile.encoding=UTF-8", "-Dstdout.encoding=UTF-8", "-cp", jars, "Connect"],
               [shutil.which("java"), os.path.join(folder, "pgjdbc/Connect.class")]),
        Client("pgx", [os.path.join(folder, "pgx/connect")], [os.path.join(folder, "pgx/connect")]),
        Client("node-postgres", [os.path.join(node, "bin/node"), program("connect.js"), node], [os.path.join(node, "bin/node")]),
        Client("tokio-postgres", [os.path.join(folder, "tokio/connect")], [os.path.join(folder, "tokio/connect")]),
    ]


def ask(client, server, case, certificates):
    """Runs the program of a client and returns what is wrong with what it does, or None."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
    environment |= {"PGHOST": "localhost", "PGPORT": str(server.port), "PGUSER": "client", "PGPASSWORD": PASSWORD, "PGDATABASE": "postgres",
                    "PGSSLMODE": "verify-full", "PGSSLROOTCERT": certificates.ca, "PGCONNECT_TIMEOUT": "20", "PGCLIENTENCODING": "UTF8",
                    "LC_ALL": "C.UTF-8"}
    environment |= case.change
    if environment["PGSSLROOTCERT"] == "other":
        environment["PGSSLROOTCERT"] = certificates.other_ca
    done = subprocess.run(client.words, env=environment, input=PSQL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120)
    lines = done.stdout.splitlines()
    told = f"exit code {done.returncode}, {done.stdout[-500:]!r}"
    if case.state is None:
        right = len(lines) == len(EXPECTED) and all(line in good for line, good in zip(lines, EXPECTED))
        return None if right and done.returncode == 0 else told
    if client.name == "psql":
        # psql tells no state; its code 2 is for connections.
        right = done.returncode == 2
    else:
        refused = [line for line in lines if line.startswith("refused ")]
        right = done.returncode == 3 and len(refused) == 1 and state_of(refused[0]) in states(client, case)
    return None if right and any(word in done.stdout.lower() for word in case.words) else told


def state_of(line):
    word = line.split(" ")[1]
    return word if len(word) == 5 and word.isalnum() and word.isupper() else ""


def states(client, case):
    """libpq tells psycopg no state of a connection that failed; pgjdbc has one of its own for connections that fail."""
    if client.name in ("psycopg 3", "SQLAlchemy"):
        return {case.state, ""}
    return {case.state, "08006", "08001"} if client.name == "pgjdbc" and not case.state else {case.state}


def prepare(server, run_sql):
    quoted = PASSWORD.replace("'", "''")
    run_sql(server, f"create role client login password '{quoted}'")


def run(servers, folder, certificates):
    """All clients against all servers: (passed, failed, skipped)."""
    passed = failed = skipped = 0
    for client in clients(folder):
        if not all(need and os.path.exists(need) for need in client.needs):
            print(f"SKIPPED {client.name}: it could not be installed here (scripts/clients.sh says why)")
            skipped += 1
            continue
        for server in servers:
            for case in CASES:
                wrong = ask(client, server, case, certificates)
                if wrong:
                    failed += 1
                    print(f"FAILED {client.name}, {case.name}, {server.name}: {wrong}")
                else:
                    passed += 1
        print(f"{client.name}: done", flush=True)
    return passed, failed, skipped
