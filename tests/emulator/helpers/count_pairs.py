"""Counts the kernels with a known fault that have a twin without it, by check.

usage: cd tests/emulator; PYTHONPATH=.:helpers:exec python -P helpers/count_pairs.py
"""

from __future__ import annotations

import test_init_checks
import test_init_global
import test_launch_races
import test_number_checks
import test_sync_checks
from race_suites import SUITES


def counts() -> dict[str, int]:
    """Pairs of each check."""
    return {
        "race": sum(len(suite.pairs) for suite in SUITES)
        + len(test_launch_races.RACES)
        + len(test_launch_races.CALLS)
        + len(test_launch_races.NODES),
        "init": len(test_init_checks.PAIRS) + len(test_init_global.CASES),
        "sync": len(test_sync_checks.PAIRS),
        "numbers": len(test_number_checks.PAIRS),
    }


if __name__ == "__main__":
    found = counts()
    print(*(f"{check} {count}" for check, count in found.items()), f"all {sum(found.values())}", sep="\n")
