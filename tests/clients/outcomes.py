"""A plug-in of pytest that appends each test's outcome to the file that KILNDB_OUTCOMES names: passed, failed or skipped, the test, and a
failure's last line, with tabs between. A test that is cut off has no line."""
import os


def pytest_runtest_logreport(report):
    path = os.environ.get("KILNDB_OUTCOMES")
    # With pytest-xdist the workers report, too; what counts is said by the process that they work for.
    if not path or "PYTEST_XDIST_WORKER" in os.environ:
        return
    if report.when == "call" or report.outcome != "passed":
        reason = ""
        if report.outcome == "failed":
            crash = getattr(report.longrepr, "reprcrash", None)
            reason = " ".join((crash.message if crash else str(report.longrepr)).split())[:1000]
        with open(path, "a") as f:
            f.write(f"{report.outcome}\t{report.nodeid}\t{reason}\n")
