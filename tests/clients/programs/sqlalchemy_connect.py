"""SQLAlchemy over psycopg 3: what every program here does. See ../connections.py for what it prints."""
import os
import sys

from sqlalchemy import URL, Column, Integer, MetaData, String, Table, bindparam, create_engine, func, select, text
from sqlalchemy.exc import OperationalError

url = URL.create("postgresql+psycopg", os.environ["PGUSER"], os.environ["PGPASSWORD"], os.environ["PGHOST"], int(os.environ["PGPORT"]),
                 os.environ["PGDATABASE"], {"sslmode": os.environ["PGSSLMODE"], "sslrootcert": os.environ["PGSSLROOTCERT"]})
engine = create_engine(url, connect_args={"prepare_threshold": 0})
try:
    connection = engine.connect()
except OperationalError as e:
    print("refused", getattr(e.orig, "sqlstate", None) or "", str(e.orig).replace("\n", " "))
    sys.exit(3)
table = Table("t", MetaData(), Column("a", Integer, primary_key=True), Column("b", String), prefixes=["TEMPORARY"])
with connection:
    print("session", *connection.execute(text("select current_user, ssl from pg_stat_ssl where pid = pg_backend_pid()")).one())
    statement = select(bindparam("a", type_=Integer) + 1, bindparam("b", type_=String) + "!")
    for number in range(8):
        row = connection.execute(statement, {"a": number, "b": "käse"}).one()
    print("prepared", *row)
    connection.rollback()
    table.create(connection)
    connection.commit()
    with connection.begin():
        connection.execute(table.insert(), {"a": 1, "b": "one"})
    transaction = connection.begin()
    connection.execute(table.insert(), {"a": 2, "b": "two"})
    transaction.rollback()
    print("transaction", *connection.execute(select(func.count(), func.min(table.c.b)).select_from(table)).one())
