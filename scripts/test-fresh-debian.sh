#!/usr/bin/env bash
# Makes a Debian 12 of nothing but its base (debootstrap's minbase: no procps, no psql), puts git, make and Rust into it,
# and runs there what a user would: a clone of this repository's last commit, `make run` until the server answers
# `select 1`, and the first minutes of `make test`. Root only. What is not committed is not tested.
#
#   scripts/test-fresh-debian.sh [--minutes N] [--test COMMAND] [--mirror URL] [--keep]
#
#   --minutes N     how long the tests may take (default 30, the build included); a run that is cut off then is as good as its tests so far
#   --test COMMAND  what is run in the clone instead of `make test`, for example
#                   'scripts/setup.sh build test && cargo test -p kilndb-sim --test stop'
#   --mirror URL    Debian's mirror (default: the one this machine uses)
#   --keep          leave the root folder where it is, to look around in (with chroot)
#
# Rust is this machine's: the toolchain that `rustc --print sysroot` names is mounted read-only, and the packages that
# cargo has downloaded are copied, so neither rustup nor rustup's server is needed. The machine's settings for the
# network (resolver, certificates, pip, Maven, cargo) are copied too.
#
# Mounts and processes are in namespaces of their own: they go when the script does, however it ends.
set -euo pipefail

here=$(cd "$(dirname "$0")/.." && pwd)
minutes=30 test_command='make test' mirror='' keep=no
SOURCE=/root/kilndb
PORT=25432

fail() {
    echo "test-fresh-debian: $*" >&2
    exit 1
}

# A command in the new root, in the clone, with nothing of this shell's environment but the network's.
in_root() {
    local kept=() name
    for name in http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY SSL_CERT_FILE SSL_CERT_DIR PIP_CERT PIP_INDEX_URL; do
        [ -z "${!name:-}" ] || kept+=("$name=${!name}")
    done
    chroot "$root" /usr/bin/env -i "${kept[@]}" HOME=/root TERM=dumb LANG=C.UTF-8 \
        PATH=/opt/rust/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        /bin/bash -c "cd $SOURCE 2>/dev/null || cd /; $1"
}

# What follows runs inside of the namespaces.
inside() {
    local sysroot
    sysroot=$(rustc --print sysroot)
    mount --make-rprivate /
    mount --bind "$root" "$root"
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    mkdir -p "$root/opt/rust"
    mount --bind -o ro "$sysroot" "$root/opt/rust"

    echo "== git and make"
    in_root 'apt-get update -q && apt-get install -q -y --no-install-recommends git make' >"$root/apt.log" 2>&1 ||
        { tail -20 "$root/apt.log"; fail "apt-get does not work"; }
    in_root 'for program in kill psql ps; do ! type -P $program || exit 1; done' || fail "the base has more than it should"
    git clone -q --no-hardlinks "file://$here" "$root$SOURCE"

    echo "== make run"
    try_server
    echo "== $test_command, for at most $minutes minutes"
    try_tests
}

try_server() {
    local log=$root/run.log make asked
    in_root "exec make run PORT=$PORT" >"$log" 2>&1 &
    make=$!
    # A release build on a slow machine takes its time; a failed one ends this at once.
    until grep -q 'ready to accept connections' "$log" 2>/dev/null; do
        kill -0 "$make" 2>/dev/null || { tail -30 "$log"; fail "make run has ended"; }
        sleep 2
    done
    grep 'psql' "$log" || fail "make run does not say how to get a client"
    in_root 'scripts/setup.sh test'
    asked=$(in_root "\$(scripts/tools-folder.sh)/postgres-18/bin/psql -h 127.0.0.1 -p $PORT -U postgres -Atc 'select 1'")
    [ "$asked" = 1 ] || fail "select 1 answers \"$asked\""
    echo "select 1 answers $asked"
    # Of all processes of this namespace only the server has this name.
    in_root 'for p in /proc/[0-9]*; do [ "$(cat $p/comm)" != kilndb ] || kill -TERM "${p#/proc/}"; done'
    wait "$make" || true
    grep -q 'database system is shut down' "$log" || { tail -30 "$log"; fail "the server was not stopped cleanly"; }
    echo "stopped"
}

try_tests() {
    local log=$root/test.log status=0
    # What timeout does not reach ends with the namespace.
    timeout --kill-after=10 "$((minutes * 60))" "$0" --chroot "$root" "$test_command" >"$log" 2>&1 || status=$?
    grep -E '^test result|FAILED|panicked' "$log" || true
    if grep -qE '^test result: FAILED|\.\.\. FAILED$|panicked at' "$log"; then
        fail "a test has failed"
    fi
    case $status in
    0) echo "all of it has passed" ;;
    124 | 137)
        grep -q '^test .* ok$' "$log" || { tail -30 "$log"; fail "no test has run in $minutes minutes"; }
        echo "the time is up: $(grep -c '^test .* ok$' "$log") tests have passed so far, none has failed"
        ;;
    *)
        tail -30 "$log"
        fail "\"$test_command\" ended with $status"
        ;;
    esac
}

case "${1:-}" in
--inside)
    root=$2 minutes=$3 test_command=$4
    inside
    exit
    ;;
--chroot)
    root=$2
    in_root "$3"
    exit
    ;;
esac

while [ $# -gt 0 ]; do
    case "$1" in
    --minutes) minutes=$2 && shift 2 ;;
    --test) test_command=$2 && shift 2 ;;
    --mirror) mirror=$2 && shift 2 ;;
    --keep) keep=yes && shift ;;
    *) fail "unknown option $1" ;;
    esac
done
[ "$(id -u)" -eq 0 ] || fail "only root can make a root folder"
command -v rustc >/dev/null || fail "there is no Rust on this machine to take along"
command -v debootstrap >/dev/null || apt-get install -q -y --no-install-recommends debootstrap >/dev/null ||
    fail "there is no debootstrap"
if [ -z "$mirror" ]; then
    mirror=$(apt-get indextargets --format '$(SITE) $(RELEASE) $(COMPONENT)' 2>/dev/null |
        awk '$2 == "bookworm" && $3 == "main" { print $1; exit }')
fi

root=$(mktemp -d /var/tmp/kilndb-fresh-XXXXXX)
[ "$keep" = yes ] && echo "the root folder is $root" || trap 'rm -rf --one-file-system "$root"' EXIT
trap 'exit 1' INT TERM HUP
chmod 755 "$root"
echo "== debootstrap"
debootstrap --variant=minbase bookworm "$root" "${mirror:-http://deb.debian.org/debian}" >"$root.log" 2>&1 ||
    { tail -20 "$root.log"; rm -f "$root.log"; fail "debootstrap does not work"; }
rm -f "$root.log"
for file in /etc/resolv.conf /etc/hosts /etc/pip.conf /etc/maven/settings.xml /etc/ssl "$HOME/.m2/settings.xml" \
    /etc/apt/apt.conf.d/*proxy*; do
    [ -e "$file" ] || continue
    mkdir -p "$root$(dirname "$file")"
    cp -aL "$file" "$root$(dirname "$file")/"
done
# The package ca-certificates, which others bring along, would replace what is in /etc/ssl by its own and these.
if [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    mkdir -p "$root/usr/local/share/ca-certificates"
    cp /etc/ssl/certs/ca-certificates.crt "$root/usr/local/share/ca-certificates/machine.crt"
fi
cargo_home=${CARGO_HOME:-$HOME/.cargo}
mkdir -p "$root/root/.cargo"
for part in config.toml config registry; do
    [ ! -e "$cargo_home/$part" ] || cp -a "$cargo_home/$part" "$root/root/.cargo/"
done
# As a child, so that the trap is there to clean up after it.
unshare --mount --pid --fork --kill-child -- "$0" --inside "$root" "$minutes" "$test_command"
