"""`replay baseline`: the times that later results are compared with."""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from replay.cli.common import Json, OfDevices, OfKernels, Quiet, ResultFolder


class Action(str, Enum):
    """What to do with the baseline."""

    set = "set"
    show = "show"


def baseline(
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="set it, or show it.")],
    folder: ResultFolder,
    kernel: OfKernels = "",
    device: OfDevices = "",
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Take the newest result of each kernel for its baseline, or show what is set.

    A result whose outputs were wrong is never taken.
    """
    from replay.errors import UsageError
    from replay.fleet.sharing.mirror import look_at
    from replay.history import baseline as store
    from replay.history.store import History, by_series
    from replay.report.history import render_baseline
    from replay.report.streams.json import print_result
    from replay.results.documents import BASELINE

    place = look_at(folder)
    marks = {mark.series: mark for mark in store.read(place.folder)}
    if action is Action.set:
        with History(place.folder) as history:
            history.update()
            entries = [
                entry for entry in history.entries(kernel, device) if entry.outputs not in ("wrong", "unsure")
            ]
        chosen = {key: store.mark_of(items[-1]) for key, items in by_series(entries).items()}
        if not chosen:
            raise UsageError("has no results with times that could be a baseline", where=place.name)
        marks.update(chosen)
        place.share(store.write(place.folder, list(marks.values())))
    shown = list(marks.values())
    brief = (lambda _: str(len(shown))) if quiet else None
    print_result(
        BASELINE, store.Baseline(shown), json, lambda _, screen: render_baseline(shown, screen), brief=brief
    )
