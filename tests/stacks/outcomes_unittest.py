"""Runs the unittest tests of an installed package and writes a line for each: outcome, name and cause, with tabs.

Outcomes are passed, failed and skipped; the cause of a failure is the first line of its message.

usage: python outcomes_unittest.py FILE PACKAGE
"""

import importlib
import pkgutil
import sys
import unittest


class Lines(unittest.TextTestResult):
    """Writes what became of a test at once, so that a run that is killed says how far it came."""

    file = sys.stdout

    def _write(self, outcome, test, err=None):
        cause = "" if err is None else f"{err[0].__name__}: {err[1]}".partition("\n")[0]
        print(outcome, test.id(), cause, sep="\t", file=self.file, flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self._write("passed", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._write("failed", test, err)

    def addError(self, test, err):
        super().addError(test, err)
        if err[0].__name__ == "Skipped":  # by pytest.importorskip
            self._write("skipped", test)
        else:
            self._write("failed", test, err)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._write("skipped", test)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self._write("passed", test)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._write("failed", test)


def main(path, package):
    folder = importlib.import_module(package).__path__
    names = sorted(module.name for module in pkgutil.walk_packages(folder, package + "."))
    tests = unittest.TestSuite(
        unittest.defaultTestLoader.loadTestsFromModule(importlib.import_module(name))
        for name in names
        if name.rpartition(".")[2].startswith("test")
    )
    with open(path, "w", encoding="utf-8") as Lines.file:
        unittest.TextTestRunner(verbosity=1, resultclass=Lines, buffer=True).run(tests)


if __name__ == "__main__":
    main(*sys.argv[1:])
