"""A plugin of pytest that writes the lines of outcomes_unittest.py into the file that REPLAY_TEST_OUTCOMES names.

A test whose process died counts as failed: pytest-xdist reports it so.
"""

import os

_outcomes = {}


def pytest_runtest_logreport(report):
    before = _outcomes.get(report.nodeid)
    if report.outcome == "failed" or before is None or (before == "passed" and report.outcome == "skipped"):
        _outcomes[report.nodeid] = report.outcome


def pytest_sessionfinish(session):
    if hasattr(session.config, "workerinput"):  # the controller has the reports of all workers
        return
    with open(os.environ["REPLAY_TEST_OUTCOMES"], "w", encoding="utf-8") as file:
        for name, outcome in sorted(_outcomes.items()):
            print(outcome, name, file=file)
