"""`replay run`: replay a snapshot in a fresh process, check its outputs and time it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from replay.cli.common import Json, Quiet, SnapshotPath

SCHEMA = "replay.run/1"


def run(
    snapshot: SnapshotPath,
    driver: Annotated[
        Optional[str],  # noqa: UP045 (typer on Python 3.10)
        typer.Option(
            metavar="system|emulator|DIR",
            help="The driver to replay on.",
            show_default="a GPU's if there is one",
        ),
    ] = None,
    device: Annotated[int, typer.Option(min=0, help="Ordinal of the device.")] = 0,
    samples: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--samples",
            "--rounds",
            "--iterations",
            min=1,
            help="Take exactly so many samples.",
            show_default="until stable",
        ),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer samples, for a first look.")] = False,
    rigorous: Annotated[
        bool, typer.Option("--rigorous", help="More samples and a tighter limit on noise.")
    ] = False,
    timing: Annotated[
        bool, typer.Option("--timing/--no-timing", help="Time the window, or only check it.")
    ] = True,
    timeout: Annotated[
        float,
        typer.Option(min=0.1, metavar="S", help="Seconds without progress after which the worker is killed."),
    ] = 300.0,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Leave out what cannot be replayed instead of refusing.")
    ] = False,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters", help="Print what the built-in CPU driver counts: instructions, sectors, conflicts."
        ),
    ] = False,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "-o",
            "--output",
            metavar="R.rres",
            help="Write the result, raw samples included.",
            show_default=False,
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Replay a snapshot in a fresh process, check its outputs bit by bit and time it.

    Exit code 0: the outputs match. 1: they differ. 3: the snapshot could not be replayed.
    """
    from dataclasses import replace

    from replay.engine.run import RunOptions, run_snapshot
    from replay.errors import ExitCode, UsageError
    from replay.report.json import document
    from replay.report.progress import StageLine
    from replay.report.run import outputs, render_run
    from replay.report.text import Screen
    from replay.results.store import require_place, write_result
    from replay.timing.stopping import QUICK, RIGOROUS, StoppingParameters

    if quick and rigorous:
        raise UsageError("--quick and --rigorous exclude each other")
    if not timing and (quick or rigorous or samples):
        raise UsageError("--no-timing takes no samples", next="leave out --quick, --rigorous and --samples")
    parameters = QUICK if quick else RIGOROUS if rigorous else StoppingParameters()
    options = RunOptions(
        driver=driver,
        device=device,
        timing=replace(parameters, fixed_samples=samples) if timing else None,
        timeout_s=timeout,
        best_effort=best_effort,
        counters=counters,
    )
    if output is not None:
        require_place(output)
    with StageLine(hidden=quiet or json) as line:
        result = run_snapshot(snapshot, options, line.show)
    if result.driver.reason and not quiet:
        print(f"replay: {result.driver.reason}", file=sys.stderr)
    if output is not None:
        write_result(output, result)
    if json:
        print(document(SCHEMA, result))
    elif quiet:
        print(outputs(result))
    else:
        print(render_run(result, Screen.of_stdout()))
    matches = result.verification.verdict in ("match", "not_compared")
    return ExitCode.DONE if matches else ExitCode.GATE_FAILED


def register(app: typer.Typer) -> None:
    """Add `replay run`."""
    app.command("run")(run)
