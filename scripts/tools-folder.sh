#!/usr/bin/env bash
# Prints the folder for programs that the tests and benchmarks need and no package of Debian has. It is outside of the
# repository, so all clones share it and `cargo clean` leaves it alone. crates/lab/src/postgres.rs follows the same rule.
set -euo pipefail
if [ -n "${KILNDB_TOOLS:-}" ]; then
    echo "$KILNDB_TOOLS"
elif [ "$(id -u)" -eq 0 ]; then
    # PostgreSQL refuses to run as root, and the user it runs as cannot read root's home.
    echo /var/cache/kilndb
else
    echo "${XDG_CACHE_HOME:-$HOME/.cache}/kilndb"
fi
