"""`replay fleet`: a corpus over many devices, every night."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from replay.cli.common import DocumentFile, Json, Quiet, Verbose, flag, option
from replay.cli.steps import BISECT, LOCAL, ON

if TYPE_CHECKING:
    from replay.fleet.night import Night
    from replay.fleet.verdicts import Standing
    from replay.library.steps import Search
    from replay.results.fleet import FleetProblem

EXAMPLES = (
    "replay fleet run corpus --matrix night.toml --results results",
    "replay fleet run corpus --matrix night.toml --results results --bisect ptxas=12.6..13.0 --budget 2h",
    "replay fleet status results --follow",
    "replay fleet drain results gpu07",
    "replay fleet retry results",
)
OPTIONS = {
    "Run": ("matrix", "results", "on", "night", "confirm", "junit_file"),
    "Search": ("bisect", "budget"),
    "Work": ("kind", "slot", "node"),
    "Output": ("follow", "output", "json", "verbose", "quiet"),
}


class Action(str, Enum):
    """What to do."""

    run = "run"
    status = "status"
    retry = "retry"
    drain = "drain"
    work = "work"


class Confirm(str, Enum):
    """Who repeats what changed."""

    node = "node"
    none = "none"


def fleet(
    action: Annotated[
        Action, typer.Argument(metavar="|".join(Action.__members__), help="What to do, see below.")
    ],
    place: Annotated[
        str, typer.Argument(metavar="DIR", help="The corpus to run; else the results, or their URL.")
    ],
    names: Annotated[
        list[str] | None, typer.Argument(metavar="NAME", help="Nodes to drain; units or devices to retry.")
    ] = None,
    matrix: Annotated[Path | None, option("FILE.toml", "What is compared with what, and where.")] = None,
    results: Annotated[str, option("DIR|URL", "Where all results go, of every night.")] = "fleet",
    on: Annotated[str, ON] = LOCAL,
    night: Annotated[
        str, option("NAME", "Which night.", show_default="the one that has not ended, else a new one")
    ] = "",
    confirm: Annotated[
        Confirm, option("node|none", "Let another device repeat what changed, or not.")
    ] = Confirm.node,
    junit_file: Annotated[Path | None, option("FILE.xml", "Write JUnit XML.", "--junit")] = None,
    bisect: Annotated[str, BISECT] = "",
    budget: Annotated[str, option("TIME", "No part of the search is begun that would end later.")] = "",
    kind: Annotated[str, option("NAME", "Of device, that a worker is for.")] = "",
    slot: Annotated[int, option("N", "Which of the workers of its kind it is.", min=0)] = 0,
    node: Annotated[str, option("NAME", "How this machine is called.", show_default="its host name")] = "",
    follow: Annotated[bool, flag("--follow", "Show the status until the night is over.")] = False,
    output: DocumentFile = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Compare variants of every window of a corpus on many devices, and say what changed.

    run: begin a night, or go on with it. status: how far it is, or what it found. retry: try again what was given up.
    drain: begin nothing on a node any more. work: one worker, which engines start.

    Exit code 0: no alerts. 1: alerts. 3: something was left undone.
    """
    from replay.beside import require_place

    for path in (output, junit_file):
        if path is not None:
            require_place(path)
    outputs = _Outputs(output, junit_file, json, quiet)
    if action is Action.run:
        return _run(Path(place), matrix, results, on, night, confirm, outputs, bisect, budget)
    if action is Action.work:
        return _work(place, kind, slot, node)
    from replay.fleet.planning import nights
    from replay.fleet.sharing.mirror import open_place

    every, left_out = nights(open_place(place))
    found = [item for item in every if not night or item.folder.name == night]
    if not found:
        from replay.errors import UsageError

        raise UsageError(f"has no night {night!r}", where=place)
    if action is Action.status:
        return _status(found, left_out, follow, outputs)
    return _change(action, found[-1], names or [], quiet or json)


class _Outputs(NamedTuple):
    document: Path | None
    junit_file: Path | None
    json: bool
    quiet: bool


def _run(
    corpus: Path,
    matrix: Path | None,
    results: str,
    on: str,
    name: str,
    confirm: Confirm,
    outputs: _Outputs,
    bisect: str,
    budget: str,
) -> int:
    import math

    from replay.cli.common import reproduction, seconds
    from replay.errors import FileError, UsageError
    from replay.fleet.coordinator import coordinate
    from replay.fleet.engines import engine
    from replay.fleet.planning import begin, nights
    from replay.fleet.sharing.mirror import open_place
    from replay.report.streams.progress import StageLine

    if matrix is None:
        raise UsageError("nothing says what to compare", next="--matrix FILE.toml; docs/fleet.md shows one")
    if budget and not bisect:
        raise UsageError(
            "bounds a search, and none is asked for", where="--budget", next="add --bisect KIND=..."
        )
    budget_s = seconds(budget, "--budget") if budget else math.inf
    steps: list[str] = []
    search = None
    if bisect:
        from replay.library.steps import Search

        search = Search(bisect, on, budget_s, command=reproduction())
        search.require()
    workers, shared = engine(on), open_place(results)
    with StageLine(hidden=outputs.json or outputs.quiet) as line:
        line.show("looking at the corpus")
        night = begin(shared, corpus, matrix, name=name, confirm=confirm is Confirm.node)

        def show(now: Standing) -> None:
            line.show(f"{night.folder.name}: {now.done:,} of {now.units:,} units, {now.running} at work")

        troubles = coordinate(night, workers, progress=show)
        if search is not None:
            more, steps = _search(dataclasses.replace(search, say=line.show), night)
            troubles += more
    every, left_out = nights(shared)
    place = next((at for at, item in enumerate(every) if item.folder == night.folder), None)
    if place is None:
        raise FileError("is not there any more", where=night.address, next="run the same command again")
    return _tell(every[: place + 1], left_out, outputs, troubles, steps)


def _search(search: Search, night: Night) -> tuple[list[str], list[str]]:
    """What went wrong with workers, and what to print."""
    from replay.cli.steps import write_steps
    from replay.fleet.verdicts import verdicts
    from replay.library.steps import search_night
    from replay.report.bisect import answer

    told = verdicts(night)
    caused, troubles = search_night(search, night, told)
    for item in caused:
        night.caused(item.unit, answer(item.found))
    steps = write_steps(night.folder / "causes", caused, {case.unit: case for case in told.cases})
    for path in sorted((night.folder / "causes").iterdir()):
        night.place.share(path)
    return troubles, steps


def _work(address: str, kind: str, slot: int, node: str) -> int:
    import os

    from replay.fleet.planning import night_at
    from replay.fleet.worker import ends_politely, work

    with ends_politely(os.getppid()) as stopping:
        work(night_at(address), kind, slot, node=node, stopping=stopping)
    return 0


def _status(found: Sequence[Night], left_out: Sequence[FleetProblem], follow: bool, outputs: _Outputs) -> int:
    import time

    from replay.fleet.verdicts import is_over, status
    from replay.report.fleet import render_status
    from replay.report.streams.json import print_result
    from replay.report.streams.output import put
    from replay.results.documents import FLEET
    from replay.text import Screen

    while not is_over(found[-1]):
        now = status(found[-1])
        if not follow:
            print_result(FLEET, now, outputs.json, render_status)
            return 0
        put(render_status(now, Screen.of_stdout()) + "\n")
        time.sleep(2)
    return _tell(found, left_out, outputs, [], [])


def _tell(
    found: Sequence[Night],
    left_out: Sequence[FleetProblem],
    outputs: _Outputs,
    troubles: list[str],
    steps: list[str],
) -> int:
    """What the last of these nights found. left_out: nights that cannot be read. steps: what is printed of searches."""
    from replay.beside import SHARED
    from replay.errors import ExitCode
    from replay.fleet.verdicts import verdicts
    from replay.report.fleet import headline, junit, render_fleet
    from replay.report.streams.json import print_result
    from replay.report.streams.output import put
    from replay.results.documents import FLEET
    from replay.results.json import write_document
    from replay.results.store import write_whole

    for night in found[-2:]:
        night.look(now=True)
    told = verdicts(found[-1], found[-2] if len(found) > 1 else None, left_out)
    told = dataclasses.replace(told, notes=[*troubles, *told.notes])
    if outputs.document is not None:
        write_document(outputs.document, FLEET, told)
    if outputs.junit_file is not None:
        write_whole(outputs.junit_file, junit(told).encode(), SHARED)
    print_result(FLEET, told, outputs.json, render_fleet, brief=headline if outputs.quiet else None)
    if steps and not (outputs.json or outputs.quiet):
        put("\n".join(steps))
    if told.alerts:
        return ExitCode.GATE_FAILED
    return ExitCode.DONE if told.done == told.units else ExitCode.COULD_NOT


def _change(action: Action, night: Night, names: list[str], quiet: bool) -> int:
    from replay.errors import UsageError
    from replay.fleet.canaries import forget
    from replay.fleet.night import Who
    from replay.report.streams.output import put
    from replay.text import number

    night.look(now=True)
    if action is Action.drain:
        if not names:
            raise UsageError("names no node", next="`replay fleet status DIR` lists them")
        for name in names:
            night.drain(name)
        said = f"{number(len(names), 'node')} drained: what is being done there is finished, nothing is begun"
    else:
        known = {unit.id for unit in night.plan.units}
        files = {f"{item.node}.{item.device}": Who(item.node, item.device).file for item in night.devices()}
        if unknown := [name for name in names if name not in known and name not in files]:
            raise UsageError(
                f"has no unit or device {unknown[0]!r}", where=night.folder,
                next="`replay fleet status DIR` lists nodes and devices; write NODE.DEVICE",
            )  # fmt: skip
        units = [name for name in names if name in known]
        devices = [files[name] for name in names if name in files]
        for device in devices:
            forget(night.folder, device, night.place)
        count = night.retry(units, devices)
        said = f"{number(count, 'attempt or exclusion', 'attempts and exclusions')} forgotten; `fleet run` goes on"
    if not quiet:
        put(said)
    return 0
