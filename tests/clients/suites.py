"""Suites of clients' own, as shipped, on PostgreSQL 18 and on KilnDB, and what of the first passes on the second.

Invariants:
1. A suite is its release's; nothing of it is changed and none of it is kept in this repository.
2. A test passes on a server if its every outcome there is "passed". Only tests that pass on PostgreSQL count; one that has no outcome on
   KilnDB, because a set-up failed or a run was cut off, has not passed there."""
import collections
import os
import re
import signal
import subprocess
import tempfile

from servers import Kilndb, Postgres, command

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST = 0.94
# A run that takes longer is cut off.
RUN_SECONDS = 3600

# SQLAlchemy asks for them in its README.unittests.rst, Django for none of them.
SETTINGS = ["max_prepared_transactions = 10", "fsync = off", "max_connections = 100"]


class Suite:
    name = ""
    databases = {}

    folder = ""

    def prepare(self, python, server):
        """Databases and what is in them before the suite comes."""
        for database, statements in self.databases.items():
            program = ("import psycopg, sys\n"
                       "with psycopg.connect(host='127.0.0.1', port=sys.argv[1], user='postgres', dbname=sys.argv[2], autocommit=True) as c:\n"
                       "    for statement in sys.argv[3:]: c.execute(statement)")
            command(python, "-c", program, str(server.port), "postgres", f"create database {database}")
            command(python, "-c", program, str(server.port), database, *statements)

    def words(self, clients, server, quick):
        """Python's arguments for each run: a suite has more than one where a failing set-up ends a run."""
        raise NotImplementedError

    def run(self, clients, server, outcomes, log, quick):
        python = os.path.join(clients, "python/bin/python")
        self.prepare(python, server)
        environment = {name: value for name, value in os.environ.items() if not name.startswith("PG")}
        environment |= {"KILNDB_OUTCOMES": outcomes, "KILNDB_PORT": str(server.port), "PYTHONPATH": f"{HERE}:{os.path.join(clients, self.name)}",
                        "LC_ALL": "C.UTF-8",
                        "PYTHONDONTWRITEBYTECODE": "1"}
        for words in self.words(clients, server, quick):
            with open(log, "ab") as f:
                child = subprocess.Popen([python, *words], cwd=os.path.join(clients, self.folder), env=environment, stdin=subprocess.DEVNULL,
                                         stdout=f, stderr=f, start_new_session=True)
            try:
                child.wait(RUN_SECONDS)
            except subprocess.TimeoutExpired:
                print(f"{self.name} on {server.name}: cut off after {RUN_SECONDS} s")
            finally:
                # Its workers, too.
                try:
                    os.killpg(child.pid, signal.SIGKILL)
                except ProcessLookupError:
                    pass
                child.wait()


class Sqlalchemy(Suite):
    """Tests that use a database (--backend-only); the others never talk to a server."""

    name, folder = "sqlalchemy", "sqlalchemy"
    databases = {"sqlalchemy": ["create extension hstore", "create extension citext", "create schema test_schema",
                                "create schema test_schema_2"]}
    QUICK = ["test/dialect/postgresql/test_query.py", "test/dialect/postgresql/test_on_conflict.py", "test/engine/test_transaction.py",
             "test/sql/test_returning.py", "test/sql/test_insert_exec.py"]

    def words(self, clients, server, quick):
        # Nobody asks for the password, but some tests want one to be there.
        uri = f"postgresql+psycopg://postgres:secret@127.0.0.1:{server.port}/sqlalchemy"
        # Without a limit the suite stops at its 250th failure.
        return [["-m", "pytest", "-q", "--backend-only", "--maxfail=1000000", "--tb=short", "-p", "outcomes", "-p", "no:cacheprovider",
                 "-n", "2", "--dburi", uri, *(self.QUICK if quick else [])]]


class Django(Suite):
    """The labels of tests that use a database much: of the rest most is about templates, forms and HTTP."""

    name, folder = "django", "django/tests"
    LABELS = """
        aggregation aggregation_regress annotations auth_tests backends basic bulk_create composite_pk constraints contenttypes_tests
        custom_columns custom_lookups custom_managers custom_methods custom_migration_operations custom_pk datatypes dates datetimes
        db_typecasts db_utils dbshell defer defer_regress delete delete_regress distinct_on_fields empty expressions
        expressions_case expressions_window extra_regress field_defaults field_subclassing filtered_relation fixtures fixtures_regress
        force_insert_update foreign_object from_db_value generic_relations generic_relations_regress get_earliest_or_latest
        get_object_or_404 get_or_create indexes introspection known_related_objects lookup m2m_and_m2o m2m_intermediary
        m2m_multiple m2m_recursive m2m_regress m2m_signals m2m_through m2m_through_regress m2o_recursive managers_regress many_to_many
        many_to_one many_to_one_null max_lengths migrate_signals migration_test_data_persistence migrations migrations2 model_enums
        model_forms model_formsets model_formsets_regress model_indexes model_inheritance model_inheritance_regress
        model_options model_package model_regress multiple_database mutually_referential nested_foreign_keys null_fk null_fk_ordering
        null_queries one_to_one or_lookups order_with_respect_to ordering pagination prefetch_related properties proxy_model_inheritance
        proxy_models queries queryset_pickle raw_query reserved_names reverse_lookup save_delete_hooks schema select_for_update
        select_related select_related_onetoone select_related_regress serializers sessions_tests sites_framework string_lookup
        swappable_models timezones transaction_hooks transactions unmanaged_models update update_only_fields validation xor_lookups
        """.split()
    # The set-up of each of these wants extensions or ICU's collations: where one is missing no test of the label runs, nor of any that run
    # with it. What does not run has not passed.
    ALONE = ["db_functions", "inspectdb", "model_fields", "postgres_tests"]
    QUICK = ["basic", "bulk_create", "constraints", "introspection", "transactions", "many_to_many", "update", "indexes"]

    def words(self, clients, server, quick):
        runtests = ["runtests.py", "--settings=django_settings", "--noinput", "--parallel=1"]
        return [runtests + self.QUICK] if quick else [runtests + self.LABELS, *(runtests + [label] for label in self.ALONE)]


ALL = [Sqlalchemy(), Django()]


def outcomes_of(path):
    """{test: (its worst outcome, why)}"""
    worst = {}
    order = ["passed", "skipped", "failed"]
    if os.path.exists(path):
        for line in open(path, errors="replace"):
            outcome, test, reason = (line.rstrip("\n").split("\t", 2) + ["", ""])[:3]
            # SQLAlchemy puts the server's version into the names of tests.
            test = re.sub(r"_postgresql\+psycopg_[0-9_]+", "", test)
            if outcome in order and order.index(outcome) >= order.index(worst.get(test, ("passed",))[0]):
                worst[test] = (outcome, reason)
    return worst


def compare(suite, clients, quick, out):
    """Runs a suite on both and says what fails on KilnDB alone. True: enough passes."""
    if not all(os.path.isdir(os.path.join(clients, name)) for name in ("python", suite.folder)):
        print(f"SKIPPED {suite.name}: it could not be installed here (scripts/clients.sh says why)")
        return True
    with tempfile.TemporaryDirectory(prefix="kilndb-clients-outcomes-") as folder:
        folder = out or folder
        os.makedirs(folder, exist_ok=True)
        results = []
        for kind in (Postgres, Kilndb):
            path = os.path.join(folder, f"{suite.name}-{kind.name.lower()}")
            for old in (path + ".outcomes", path + ".log"):
                if os.path.exists(old):
                    os.remove(old)
            with kind(settings=SETTINGS) as server:
                suite.run(clients, server, path + ".outcomes", path + ".log", quick)
                if not server.alive():
                    print(f"{suite.name}: {kind.name} has ended meanwhile")
            results.append(outcomes_of(path + ".outcomes"))
            counts = collections.Counter(outcome for outcome, _ in results[-1].values())
            print(f"{suite.name} on {kind.name}: {', '.join(f'{number} {outcome}' for outcome, number in sorted(counts.items()))}", flush=True)
            if not results[-1]:
                print(open(path + ".log", errors="replace").read()[-2000:])
    return judge(suite, *results)


def judge(suite, postgres, kilndb):
    expected = [test for test, (outcome, _) in postgres.items() if outcome == "passed"]
    missed = sorted(test for test in expected if kilndb.get(test, ("did not run",))[0] != "passed")
    for test in missed:
        outcome, reason = kilndb.get(test, ("did not run", ""))
        print(f"  {outcome} on KilnDB alone: {test}: {reason[:300]}")
    share = 1 - len(missed) / len(expected) if expected else 0.0
    print(f"{suite.name}: {len(expected) - len(missed)} of {len(expected)} tests that pass on PostgreSQL pass on KilnDB: {share:.2%}"
          f" (at least {LEAST:.0%} must)")
    return share >= LEAST
