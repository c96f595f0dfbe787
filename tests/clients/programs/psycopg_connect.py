"""psycopg 3: what every program here does. See ../connections.py for what it prints."""
import sys

import psycopg

try:
    connection = psycopg.connect(connect_timeout=20)
except psycopg.OperationalError as e:
    # The state is only known of a server's own errors.
    print("refused", e.sqlstate or "", str(e).replace("\n", " "))
    sys.exit(3)
with connection:
    print("session", *connection.execute("select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()").fetchone())
    for number in range(8):
        row = connection.execute("select %s::int + 1, %s::text || '!'", (number, "käse"), prepare=True).fetchone()
    print("prepared", *row)
    connection.commit()
    connection.execute("create temporary table t (a int primary key, b text)")
    connection.commit()
    connection.execute("insert into t values (%s, %s)", (1, "one"))
    connection.commit()
    connection.execute("insert into t values (%s, %s)", (2, "two"))
    connection.rollback()
    print("transaction", *connection.execute("select count(*), min(b) from t").fetchone())
