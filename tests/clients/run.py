#!/usr/bin/env python3
"""Clients of PostgreSQL against KilnDB, and against PostgreSQL 18 for comparison: docs/clients.md.

  run.py --kilndb PROGRAM --tools FOLDER --postgres FOLDER [--only connections,sqlalchemy,django] [--quick] [--out FOLDER]

Connections must all do what is expected, on both servers. Of what passes of a suite on PostgreSQL, at least 94 % must pass on KilnDB.
Servers run in temporary folders, on free ports, and are gone at the end."""
import argparse
import os
import signal
import sys
import tempfile

import connections
import suites
from servers import Certificates, Kilndb, Postgres

PARTS = ["connections", "sqlalchemy", "django"]


def run_sql(python):
    """Statements by psycopg, whose libpq has TLS, as the superuser."""
    from servers import PASSWORD, command

    program = "import psycopg, sys; psycopg.connect(autocommit=True).execute(sys.argv[1])"

    def run(server, statement):
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {"PGHOST": "localhost", "PGPORT": str(server.port), "PGUSER": "postgres", "PGDATABASE": "postgres",
                        "PGPASSWORD": PASSWORD, "PGSSLMODE": "verify-full", "PGSSLROOTCERT": server.tls.ca}
        command(python, "-c", program, statement, env=environment)

    return run


def run_connections(clients, postgres):
    with tempfile.TemporaryDirectory(prefix="kilndb-clients-certificates-") as folder:
        certificates = Certificates(folder)
        with Kilndb(tls=certificates) as kilndb, Postgres(tls=certificates) as other:
            for server in (kilndb, other):
                connections.prepare(server, run_sql(os.path.join(clients, "python/bin/python")))
            passed, failed, skipped = connections.run([kilndb, other], clients, certificates)
    print(f"connections: {passed} passed, {failed} failed; {skipped} of {len(connections.clients(clients))} clients skipped")
    return failed == 0


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("--kilndb", required=True)
    parser.add_argument("--tools", required=True)
    parser.add_argument("--postgres", required=True)
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out")
    a = parser.parse_args()
    parts = a.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"unknown: {' '.join(unknown)}")
    # Servers and folders are removed when this program is ended, too.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: sys.exit(1))
    Kilndb.program, Postgres.programs = os.path.abspath(a.kilndb), os.path.abspath(a.postgres)
    clients = os.path.join(os.path.abspath(a.tools), "clients")
    good = True
    if "connections" in parts:
        good = run_connections(clients, a.postgres) and good
    for suite in suites.ALL:
        if suite.name in parts:
            good = suites.compare(suite, clients, a.quick, a.out) and good
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
