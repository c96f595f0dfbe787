#!/usr/bin/env python3
"""Runs PostgreSQL's regression suite and isolation specs against KilnDB, and holds what matched against scores.json.

  run.py --mirror DIR --kilndb PROGRAM [--record] [--only regress|isolation] [--files a,b,c] [--out FOLDER]

The score of a file is how many of its statements (regress) or permutations (isolation) print what PostgreSQL prints.
Recorded scores only go up: a file below its score, in each of two runs, is a failure, and --record writes the lower
score of two runs where that is higher than what is recorded. So a statement whose result varies is in no score.

The server runs in a temporary folder and is started again after a crash. The suites' files are PostgreSQL's: they
come out of the mirror each time, and none is kept."""
import argparse
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import common
import isolation
import regress

SCORES = os.path.join(common.HERE, "scores.json")
SUITES = {"regress": regress, "isolation": isolation}


class Server:
    """KilnDB with its data in a temporary folder."""

    def __init__(self, program):
        self.program = os.path.abspath(program)
        self.folder = tempfile.mkdtemp(prefix="kilndb-conformance-")
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            self.port = s.getsockname()[1]
        self.child, self.started = None, 0.0

    def start(self):
        """Start it, in place of one that hangs. One that was just started may still be recovering."""
        if self.child and self.child.poll() is None and time.time() < self.started + 30:
            return
        self.stop(signal.SIGKILL)
        self.started = time.time()
        log = open(os.path.join(self.folder, "server.log"), "ab")
        self.child = subprocess.Popen([self.program, "serve", "-D", os.path.join(self.folder, "data"), "-h", "127.0.0.1",
                                       "-p", str(self.port)], stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def wait(self, seconds=60):
        end = time.time() + seconds
        while time.time() < end:
            if self.child.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                time.sleep(0.1)
        log = open(os.path.join(self.folder, "server.log"), errors="replace").read()
        sys.exit(f"the server does not start:\n{log[-2000:]}")

    def stop(self, how=signal.SIGINT):
        if self.child and self.child.poll() is None:
            self.child.send_signal(how)
            try:
                self.child.wait(60)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


def run_suite(a, suite, number):
    """One run of a suite, on a cluster of its own: {file: matched}, and the name of what was run."""
    server = Server(a.kilndb)
    try:
        server.start()
        server.wait()
        words = ["--host", "127.0.0.1", "--port", str(server.port), "--mirror", a.mirror]
        words += ["--files", a.files] if a.files else []
        words += ["--out", os.path.join(a.out, f"{suite}-{number}.json")] if a.out else []
        options = SUITES[suite].parser().parse_args(words)
        options.restart_cmd, options.restart_wait = server.start, 90
        report = SUITES[suite].run(options)
    finally:
        server.stop()
        shutil.rmtree(server.folder, ignore_errors=True)
    rows = [row for row in report["files"] if row.get("scored", True)]
    return {row["file"]: row["matched"] for row in rows}, report["ref"]


def lower(recorded, found):
    """The files that are below their scores. One that was recorded and is not there any more is."""
    return [f for f in recorded if found.get(f, -1) < recorded[f]]


def best(one, other):
    return {f: max(one.get(f, -1), other.get(f, -1)) for f in one | other}


def worst(one, other):
    return {f: min(one.get(f, 0), other.get(f, 0)) for f in one | other}


def check(a, suite, recorded, ref):
    """Compare; the complaints."""
    found, of = run_suite(a, suite, 1)
    if ref and of != ref:
        return [f"{suite}: the scores are of PostgreSQL {ref}'s tests, these are {of}'s"]
    if a.files:
        recorded = {f: recorded[f] for f in a.files.split(",") if f in recorded}
    if lower(recorded, found):
        print(f"\nonce more, because of {', '.join(lower(recorded, found))}\n", flush=True)
        found = best(found, run_suite(a, suite, 2)[0])
    higher = [f for f in found if found[f] > recorded.get(f, -1)]
    if higher:
        print(f"\n{suite}: higher than recorded (make conformance RECORD=1 records it): {', '.join(sorted(higher))}")
    return [f"{suite}/{f}: {recorded[f]} matched, now {found.get(f, 'it is not there')}" for f in lower(recorded, found)]


def record(a, suite, recorded):
    """The scores to be recorded, and of what."""
    found, ref = run_suite(a, suite, 1)
    again, _ = run_suite(a, suite, 2)
    varying = [f for f in found if found[f] != again.get(f)]
    if varying:
        print(f"\n{suite}: two runs differ, the lower counts: {', '.join(varying)}")
    return best(recorded, worst(found, again)), ref


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--mirror", default="", help="PostgreSQL's repository with REL_18_STABLE")
    ap.add_argument("--kilndb", required=True, help="the program")
    ap.add_argument("--record", action="store_true", help="write higher scores")
    ap.add_argument("--only", choices=SUITES, help="one of the suites")
    ap.add_argument("--files", help="only these files of it")
    ap.add_argument("--out", help="a folder for the full reports")
    a = ap.parse_args()
    if not a.mirror:
        sys.exit("make conformance needs MIRROR=, a git directory or work tree of PostgreSQL's repository; this makes one:\n"
                 f"  {common.HOW_TO_CLONE}")
    if a.files and (a.record or not a.only):
        sys.exit("--files goes with --only, and not with --record")
    common.find_mirror(a.mirror)
    common.find_psql()
    if a.out:
        os.makedirs(a.out, exist_ok=True)
    scores = json.load(open(SCORES)) if os.path.exists(SCORES) else {}
    complaints = []
    for suite in [a.only] if a.only else SUITES:
        recorded = scores.get(suite, {})
        if a.record:
            scores[suite], scores["postgresql"] = record(a, suite, recorded)
            # After each suite, so that an interrupted run leaves what it has.
            with open(SCORES, "w") as f:
                json.dump(scores, f, indent=1, sort_keys=True)
                f.write("\n")
        else:
            complaints += check(a, suite, recorded, scores.get("postgresql"))
    for complaint in complaints:
        print(f"lower than recorded: {complaint}")
    sys.exit(1 if complaints else 0)


if __name__ == "__main__":
    main()
