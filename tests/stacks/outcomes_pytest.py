"""A plugin of pytest that writes the lines of outcomes_unittest.py into the file that REPLAY_TEST_OUTCOMES names.

A test whose process died counts as failed: pytest-xdist (`-n 1`) reports it so, and goes on in another process.
"""

import os

DIED = "its process died"
_file = None


def pytest_configure(config):
    global _file
    if hasattr(config, "workerinput"):  # the controller has the reports of all workers
        return
    if getattr(config.option, "maxworkerrestart", ...) is None:
        # Its default is 4, after which it leaves out the other tests.
        config.option.maxworkerrestart = "1000000"
    _file = open(os.environ["REPLAY_TEST_OUTCOMES"], "a", encoding="utf-8")  # noqa: SIM115


def pytest_collection_modifyitems(items):
    # pytest-xdist knows tests by their number, and a worker that it starts for one that died collects them again.
    # Without one order tests run twice or never; those that a project makes of a set of classes have none.
    items.sort(key=lambda item: item.nodeid)


def pytest_collection_finish(session):
    if _file is not None and session.config.option.collectonly:
        for item in session.items:
            print("collected", item.nodeid, item.path, sep="\t", file=_file, flush=True)


def pytest_collectreport(report):
    if report.failed:  # its tests are in nobody's list
        _write(report)


def pytest_runtest_logreport(report):
    if report.outcome != "passed" or report.when == "call":
        _write(report)


def _write(report):
    if _file is None:
        return
    cause = ""
    if report.outcome == "failed":
        crash = getattr(report.longrepr, "reprcrash", None)
        text = DIED if "crashed while running" in str(report.longrepr) else str(report.longrepr)
        cause = (crash.message if crash else text).partition("\n")[0]
    print(report.outcome, report.nodeid, cause, sep="\t", file=_file, flush=True)


def pytest_unconfigure():
    if _file is not None:
        _file.close()
