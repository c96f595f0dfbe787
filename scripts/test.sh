#!/usr/bin/env bash
# Builds once, runs every test, ends with one line "N passed, N failed".
set -uo pipefail
cd "$(dirname "$0")/.."

log=$(mktemp)
trap 'rm -f "$log"' EXIT

if ! cargo fmt --all --check >/dev/null; then
    echo "not formatted: run cargo fmt --all" >&2
    echo "0 passed, 1 failed"
    exit 1
fi
if ! cargo clippy --locked --workspace --exclude kilndb-simulation --all-targets -- -D warnings; then
    echo "clippy has something to say: see above" >&2
    echo "0 passed, 1 failed"
    exit 1
fi
# The tests start the server as a program, so it is built first, in the same profile as they are.
if ! cargo build --locked --workspace --exclude kilndb-simulation --bins; then
    echo "0 passed, 1 failed"
    exit 1
fi
# The simulation is a build of its own: the program that the other tests start is the one that ships.
cargo test --locked --workspace --exclude kilndb-simulation --no-fail-fast 2>&1 | tee "$log"
status=${PIPESTATUS[0]}
cargo test --locked -p kilndb-simulation --no-fail-fast 2>&1 | tee -a "$log"
status=$((status + PIPESTATUS[0]))

count() { awk -v what="$1" '/^test result:/ { for (i = 2; i <= NF; i++) if ($i ~ "^" what) n += $(i - 1) } END { print n + 0 }' "$log"; }
passed=$(count passed)
failed=$(count failed)
# A test program that dies or does not compile reports no result of its own.
if [ "$status" -ne 0 ] && [ "$failed" -eq 0 ]; then
    failed=1
fi
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
