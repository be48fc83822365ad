"""One search, from the snapshot to the smallest that was found; goes on where an earlier one was interrupted."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from replay.compare.rounds import RoundLimits
from replay.errors import FileError, GateFailed, UsageError
from replay.minimising.laboratory import BudgetOver, Laboratory
from replay.minimising.model import Minimisation
from replay.minimising.passes.passes import Passes
from replay.minimising.state_file import State
from replay.minimising.symptoms.command import Command
from replay.minimising.symptoms.crash import Crash
from replay.minimising.symptoms.side import Side
from replay.minimising.symptoms.sighting import Symptom
from replay.minimising.symptoms.slower import Slower
from replay.minimising.symptoms.wrong import Nondeterministic, Wrong, WrongBeside
from replay.results.workplace import workplace
from replay.run.parent import RunOptions
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity
from replay.snapshot.schema import Call, Range, all_of
from replay.snapshot.windows import choose_window, windows_of
from replay.timing.stopping import StoppingParameters
from replay.variants.model import Variant

SYMPTOMS = ("slower", "wrong", "crash", "nondeterministic", "finding", "exec=CMD")


@dataclass(frozen=True)
class MinimiseOptions:
    """symptom: one of SYMPTOMS. run: how both sides are replayed, but for a and b, their variants. timing: of slower.
    maximum_replays, budget_s: None for no limit."""

    symptom: str
    run: RunOptions
    a: Variant = Variant()
    b: Variant = Variant()
    timing: StoppingParameters = StoppingParameters()  # noqa: RUF009 (frozen)
    minimum_effect: float = 0.01
    maximum_replays: int | None = None
    budget_s: float | None = None


def minimise(
    path: Path, output: Path, options: MinimiseOptions, progress: Callable[[str], None] = lambda text: None
) -> Minimisation:
    """Write the smallest snapshot that still shows the symptom into `output`. At any time that file shows it, once it
    is there; the state of the search is beside it until that has ended.

    Raises UsageError, FormatError, GateFailed when the snapshot does not show it, EngineError when it cannot be looked
    at, FileError.
    """
    begin_s = time.monotonic()
    symptom = _symptom(options, progress)
    if output.exists() and path.exists() and os.path.samefile(path, output):
        raise FileError("is the snapshot itself", where=output, next="give another name with -o")
    with SnapshotReader(path) as reader:
        reader.require_whole()
        known = [window.number for window in windows_of(reader)]
        if options.run.window is not None:
            choose_window(reader, options.run.window)
        question = {
            "snapshot": identity(reader), "symptom": options.symptom, "a": str(options.a), "b": str(options.b),
            "driver": options.run.driver, "device": options.run.device, "window": options.run.window,
        }  # fmt: skip
    windows: list[int | None] = [options.run.window] if options.run.window is not None else [*known] or [None]
    state = State.of(output, question)
    with workplace(output) as folder:
        laboratory = Laboratory(
            path, output, folder, symptom, state, progress, options.maximum_replays, options.budget_s
        )
        if state.first is None:
            laboratory.begin(windows)
            state.save()
        else:
            laboratory.go_on()
        before = _counts(path, laboratory.cuts.window)
        passes = Passes(laboratory, _asked(options))
        reason = ""
        try:
            passes.run()
        except BudgetOver as over:
            reason = str(over)
        looks, shown = laboratory.finish()
        after = _counts(output, laboratory.cuts.window)
    if not shown:
        raise GateFailed(
            f"the last look at it does not show the symptom, which comes and goes ({looks} looks)", where=output,
            next="it did when it was written; begin again with another output",
        )  # fmt: skip
    if reason:
        state.save()
    else:
        state.remove()
    return Minimisation(
        output, symptom.name, laboratory.first.what, laboratory.original_bytes, os.stat(output).st_size, looks, shown,
        laboratory.votes, laboratory.replays, round(time.monotonic() - begin_s, 3), not reason, reason,
        (before[0], after[0]), (before[1], after[1]), laboratory.passes(not reason), passes.notes,
    )  # fmt: skip


def _asked(options: MinimiseOptions) -> RunOptions:
    """How the CPU driver is asked what is touched: as the side whose outputs are expected is replayed."""
    beside = options.symptom in ("slower", "wrong")
    variant = options.a if beside or options.a != Variant() else options.b
    return replace(options.run, driver="emulator", variant=replace(variant, driver="", device=None))


def _counts(path: Path, window: int | None) -> tuple[int, int]:
    """Calls in the window, and ranges."""
    with SnapshotReader(path) as reader:
        choose_window(reader, window if reader.window_count else None)
        calls = sum(call.section == "window" for call in all_of(reader, Call))
        return calls, sum(1 for _ in all_of(reader, Range))


def _symptom(options: MinimiseOptions, progress: Callable[[str], None]) -> Symptom:
    """Raises UsageError."""
    kind, equals, command = options.symptom.partition("=")
    if (kind == "exec") != bool(equals) or kind not in {name.partition("=")[0] for name in SYMPTOMS}:
        raise UsageError(
            f"{options.symptom!r} is no symptom", where="--symptom", next=f"one of {', '.join(SYMPTOMS)}"
        )
    beside = options.a != options.b
    if kind == "slower" and not beside:
        raise UsageError(
            "slower than what?", where="--symptom slower", next="give the slow side as --b VARIANT"
        )
    if kind not in ("slower", "wrong") and options.a != Variant() != options.b:
        raise UsageError(f"{kind} has one side", where="--a and --b", next="give one of them")
    if kind == "exec":
        if not command.strip():
            raise UsageError("no command", where="--symptom exec=", next="write exec='COMMAND ARGUMENTS'")
        return Command(command, options.run.timeout_s)
    a, b = (
        Side(replace(options.run, variant=variant), progress, str(variant))
        for variant in (options.a, options.b)
    )
    if kind == "slower":
        limits = RoundLimits(options.minimum_effect)
        return Slower(a, b, limits, progress)
    if kind == "wrong":
        return WrongBeside(a, b) if beside else Wrong(a)
    a = b if options.a == Variant() else a
    if kind == "nondeterministic":
        return Nondeterministic(a)
    if kind == "finding":
        a = Side(replace(a.options, driver="emulator"), progress, a.text)
    return Crash(a, kind == "finding")
