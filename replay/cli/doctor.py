"""`replay doctor`: what is wrong with this machine, and how to cure it."""

from __future__ import annotations

from typing import Annotated, Optional

import typer

from replay.cli.common import Json, Quiet, driver_option


def doctor(
    driver: Annotated[Optional[str], driver_option("The driver to look at.")] = None,  # noqa: UP045
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Look at driver, devices, clocks, other processes, the shim, compilers and disk; name each problem and its cure.

    Changes nothing. Exit code 0: no problem. 1: there are problems.
    """
    from replay.doctor.checks import examine
    from replay.errors import ExitCode
    from replay.report.doctor import headline, render_examination
    from replay.report.json import print_document
    from replay.report.output import put
    from replay.results.documents import DOCTOR
    from replay.text import Screen

    result = examine(driver)
    if json:
        print_document(DOCTOR, result)
    elif quiet:
        put(headline(result))
    else:
        put(render_examination(result, Screen.of_stdout()))
    return ExitCode.GATE_FAILED if result.problems else ExitCode.DONE


def register(app: typer.Typer) -> None:
    """Add `replay doctor`."""
    app.command("doctor")(doctor)
