#!/usr/bin/env bash
# Installs what is missing and nothing else. Arguments: the groups wanted.
#   build     C compiler and libclang (the SQL grammar is PostgreSQL's own C code)
#   test      psql, pgbench and Python
#   postgres  a PostgreSQL server to compare with
set -euo pipefail

wanted=()

need() { wanted+=("$@"); }

has_command() {
    command -v "$1" >/dev/null 2>&1 || compgen -G "/usr/lib/postgresql/*/bin/$1" >/dev/null
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
        has_command psql || need postgresql-client-15
        # pgbench comes with the server's package.
        has_command pgbench || need postgresql-15
        command -v python3 >/dev/null 2>&1 || need python3
        ;;
    postgres)
        has_command initdb || need postgresql-15
        ;;
    *)
        echo "setup: unknown group \"$group\"" >&2
        exit 2
        ;;
    esac
done

[ ${#wanted[@]} -eq 0 ] && exit 0

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
# The package would create and start a cluster of its own, which nobody here wants.
if [[ " ${wanted[*]} " == *" postgresql-15 "* ]] && [ ! -e /etc/postgresql-common/createcluster.conf ]; then
    "${as_root[@]}" mkdir -p /etc/postgresql-common
    echo 'create_main_cluster = false' | "${as_root[@]}" tee /etc/postgresql-common/createcluster.conf >/dev/null
fi
install() { "${as_root[@]}" apt-get install -y --no-install-recommends -o Dpkg::Options::=--force-confold "$@"; }
if ! install "${wanted[@]}" >/dev/null 2>&1; then
    "${as_root[@]}" apt-get update
    install "${wanted[@]}" || {
        echo "setup: could not install: ${wanted[*]}" >&2
        exit 1
    }
fi
