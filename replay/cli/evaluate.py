"""`replay evaluate`: judge a candidate for a captured kernel."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Device,
    DocumentFile,
    Json,
    MinimumEffect,
    Quick,
    Quiet,
    ReplayDriver,
    RoundBudget,
    Rounds,
    Samples,
    SnapshotPath,
    Timeout,
    Tolerance,
    VaryInputs,
    Window,
    flag,
    option,
    seconds,
)
from replay.cli.compare import FailOn

if TYPE_CHECKING:
    from collections.abc import Callable

    from replay.results.evaluation import Evaluated

# Values that a command line has where nothing is said
_UNSAID = {"tolerance": "auto", "device": 0, "timeout_s": 300.0}

# What help shows under which title
OPTIONS = {
    "Candidate": ("kernel", "tolerance", "trusted", "vary_inputs"),
    "Verdict": ("minimum_effect", "fail_on", "rounds", "budget"),
    "Replay": ("session", "driver", "device", "window", "samples", "quick", "timeout"),
    "Output": ("output", "json", "quiet"),
}
EXAMPLES = (
    "replay evaluate x.rsnap candidate.cu --json",
    "replay evaluate x.rsnap candidate.ptx --session /tmp/x.sock --fail-on slower",
)


def evaluate(
    snapshot: SnapshotPath,
    candidate: Annotated[
        Path, typer.Argument(metavar="CANDIDATE", help="A .cu, PTX, cubin or fat binary with the kernel.")
    ],
    kernel: Annotated[
        str, option("KERNEL", "Which kernel of the window it replaces.", show_default="by its name")
    ] = "",
    tolerance: Tolerance = "auto",
    minimum_effect: MinimumEffect = 0.01,
    fail_on: Annotated[
        list[FailOn] | None,
        option("|".join(FailOn.__members__), "Exit 1 for this verdict; repeatable. WRONG always does."),
    ] = None,
    rounds: Rounds = None,
    budget: RoundBudget = "",
    trusted: Annotated[
        bool, flag("--trusted", "It is yours: leave out what is checked of one that may deceive.")
    ] = False,
    vary_inputs: VaryInputs = None,
    session: Annotated[
        Path | None, option("SOCKET", "Ask the `replay serve` that listens there, which is warm.")
    ] = None,
    driver: ReplayDriver = None,
    device: Device = 0,
    window: Window = None,
    samples: Samples = None,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: DocumentFile = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Judge a candidate for a captured kernel: correct or not and where, faster or not, and what to do next.

    It is built once, its outputs are compared with the captured ones, and it is timed in rounds beside the captured
    kernel. It is taken for one that may be made to deceive, unless --trusted says otherwise.

    Exit code 0: it was judged, and is correct. 1: it is WRONG, or a verdict that --fail-on names. 3: it FAILED (it does
    not compile, fit or end), or nothing can be judged here.
    """
    from dataclasses import replace

    from replay.beside import require_place
    from replay.cli.common import reproduction
    from replay.errors import ExitCode
    from replay.report.evaluation import brief, render_evaluation
    from replay.report.streams.json import print_result
    from replay.report.streams.progress import StageLine
    from replay.results.documents import EVALUATION
    from replay.results.json import write_document

    if output is not None:
        require_place(output)
    asked = {"tolerance": tolerance, "device": device, "samples": samples, "quick": quick, "driver": driver}
    asked |= {"timeout_s": seconds(timeout, "--timeout"), "vary_inputs": vary_inputs}
    asked |= {"trust": None} if trusted else {}
    limits = {"minimum_effect": minimum_effect, "rounds": rounds,
              "budget_s": seconds(budget, "--budget") if budget else None}  # fmt: skip
    with StageLine(hidden=quiet or json) as line:
        if session is None:
            found = _here(snapshot, window, candidate, kernel, line.show, {**limits, **asked})
        else:
            found = _there(session, snapshot, window, candidate, kernel, {**limits, **asked})
    found = replace(found, command=reproduction())
    if output is not None:
        write_document(output, EVALUATION, found)
    print_result(EVALUATION, found, json, render_evaluation, brief=brief if quiet else None)
    if found.verdict == "FAILED":
        return ExitCode.COULD_NOT
    gates = {"WRONG", *(item.value.upper() for item in fail_on or ())}
    return ExitCode.GATE_FAILED if found.verdict in gates else ExitCode.DONE


def _here(
    snapshot: Path,
    window: int | None,
    candidate: Path,
    kernel: str,
    progress: Callable[[str], None],
    choices: dict[str, Any],
) -> Evaluated:
    """In fresh processes."""
    from replay.library.snapshot import Snapshot

    with Snapshot(snapshot, window) as opened:
        return opened.evaluate(candidate, kernel, progress=progress, **choices).data


def _there(
    socket: Path, snapshot: Path, window: int | None, candidate: Path, kernel: str, choices: dict[str, Any]
) -> Evaluated:
    """By a server, whose own options hold where none are given here."""
    from replay.library.serving import Client

    name = snapshot.name if window is None else f"{snapshot.name}#{window}"
    given = {
        key: value
        for key, value in choices.items()
        if key == "trust" or not (value is None or value is False or value == _UNSAID.get(key))
    }
    with Client(socket) as client:
        return client.evaluate(name, candidate, kernel, **given).data
