"""`replay doctor`: what is wrong with this machine, and how to cure it."""

from __future__ import annotations

from typing import Annotated

from replay.cli.common import Json, Quiet, driver_option


def doctor(
    driver: Annotated[str | None, driver_option("The driver to look at.")] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Look at driver, devices, clocks, other processes, the shim, compilers and disk; name each problem and its cure.

    Changes nothing. Exit code 0: no problem. 1: there are problems.
    """
    from replay.doctor.checks import examine
    from replay.errors import ExitCode
    from replay.report.doctor import headline, render_examination
    from replay.report.streams.json import print_result
    from replay.results.documents import DOCTOR

    result = examine(driver)
    print_result(DOCTOR, result, json, render_examination, brief=headline if quiet else None)
    return ExitCode.GATE_FAILED if result.problems else ExitCode.DONE
