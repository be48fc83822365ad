"""Runs the configurations of a captured kernel on the captured inputs, and says which is best."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from replay import __version__
from replay.bisect.candidates import Candidate
from replay.bisect.laboratory import ReplayLaboratory
from replay.bisect.stages import SkippedError
from replay.compare.rounds import Observation, RoundLimits
from replay.compare.sides import SnapshotWindow, windows_at
from replay.compare.verdict import Verdict
from replay.errors import CancelledError, EngineError, ReplayError, UsageError
from replay.results.tuning import FORMAT, Tuned, Tuning
from replay.run.parent import RunOptions
from replay.snapshot.container import SnapshotReader
from replay.snapshot.windows import choose_window
from replay.text import now_utc
from replay.tuning.beside import comparison_of
from replay.tuning.configurations import Configuration, distinct, of_mapping, shown
from replay.tuning.contest import REFERENCE, Contest, hold, ratio_of
from replay.tuning.poison import with_poison
from replay.tuning.question import Question, question_of
from replay.variants.assemblers.wheels import CacheError
from replay.variants.model import Variant
from replay.variants.planned import KeptPlans

Progress = Callable[[str], None]


def tune(
    path: Path,
    given: Sequence[Configuration],
    options: RunOptions,
    *,
    file: Path | None = None,
    triton: str = "",
    grid: str = "",
    limits: RoundLimits | None = None,
    progress: Progress = lambda text: None,
) -> Tuning:
    """given: configurations; with none those of @triton.autotune in `file`, a .py that is run. options: how each is
    replayed, without a variant. grid: an expression, or "captured". Raises UsageError, EngineError."""
    begin_s = time.monotonic()
    limits = limits or RoundLimits()
    with SnapshotReader(path) as reader:
        reader.require_whole()
        choose_window(reader, options.window)
        question = question_of(reader)
    _require_program(file)
    found = distinct(
        given or _of_file(file, question.kernel.name, triton, progress),
        "--config and --configs" if given or file is None else file.name,
    )
    if not found:
        raise UsageError(
            "there is no configuration to try", where=path,
            next="name them: --config BLOCK=128,num_warps=4, --configs FILE.json, or a .py with @triton.autotune",
        )  # fmt: skip
    # All before any is compiled: a mistake on the command line is told at once.
    variants = [Variant(), *(question.variant(item, file, triton, grid) for item in found)]
    from replay.variants.compilers.triton import find

    find(triton, progress)
    names = ["", *map(shown, found)]
    candidates = [Candidate(name, str(variant)) for name, variant in zip(names, variants, strict=True)]
    laboratory = ReplayLaboratory(path, options, candidates, "slower", progress, plan=KeptPlans())
    same_as, broken = _built(laboratory, variants, question, progress)
    _require_some(broken, len(found), path)
    kept = [at for at in range(len(candidates)) if at not in same_as and at not in broken]
    unwritten, unknown = with_poison(laboratory, kept, progress)
    kept = [at for at in kept if at not in unwritten]

    def observe(at: int) -> Observation:
        try:
            return laboratory.time(at)
        except (CancelledError, CacheError):
            raise
        except ReplayError as error:
            raise error if isinstance(error, SkippedError) else SkippedError(str(error)) from None

    contest = hold(observe, kept, limits, say=progress)
    if REFERENCE in contest.ended:
        raise EngineError(
            f"the captured kernel itself is no measure here: {contest.ended[REFERENCE][1]}", where=path,
            next="`replay run` shows more of it",
        )  # fmt: skip
    contest.ended |= broken | unwritten
    _require_some(contest.ended, len(found), path)
    tuned = [
        _tuned(at, names[at], variants[at], contest, laboratory, same_as.get(at))
        for at in range(len(candidates))
    ]
    best = contest.best or REFERENCE
    ties = [
        at for at, item in enumerate(tuned) if item.verdict in ("SAME", "UNSURE") and at not in contest.ended
    ]
    first = laboratory.results[REFERENCE]
    window = _window(path, options.window)
    timed = [at for at in kept if at != REFERENCE and len(contest.observed.get(at, ())) > 1]
    return Tuning(
        format=FORMAT,
        tool_version=__version__,
        created_utc=now_utc(),
        snapshot=path.name,
        kernel=question.kernel.demangled or question.kernel.name,
        verdict="TIE" if ties else "BEST",
        best=best,
        ties=ties,
        configurations=tuned,
        minimum_effect=limits.minimum_effect,
        window=options.window,
        file="" if file is None else file.name,
        grid_expression=grid,
        rounds=contest.rounds,
        source=first.timing.source if first.timing is not None else "",
        device=first.device.name,
        driver=first.driver.choice,
        driver_version=first.driver.version,
        notes=[unknown] * bool(unknown)
        + [f"rounds were repeated: {why}" for why in dict.fromkeys(contest.spoiled)],
        wall_s=round(time.monotonic() - begin_s, 3),
        compared=comparison_of(window, contest, timed, candidates, laboratory, limits) if timed else None,
    )


def _of_file(file: Path | None, kernel: str, triton: str, progress: Progress) -> list[Configuration]:
    if file is None:
        return []
    from replay.variants.compilers.triton import configurations_of, find

    progress(f"reading the configurations of {file.name}")
    return [of_mapping(item, file.name) for item in configurations_of(find(triton, progress), file, kernel)]


def _require_program(file: Path | None) -> None:
    """Raises UsageError."""
    if file is not None and not (file.suffix == ".py" and file.is_file()):
        what = "is no .py" if file.is_file() else "is no file"
        raise UsageError(
            what, where=file,
            next="name the .py of the kernel's @triton.jit function, or leave it out for the captured IR",
        )  # fmt: skip


def _require_some(ended: dict[int, tuple[str, str]], count: int, path: Path) -> None:
    """Raises EngineError where none of the configurations could be run: the kernel as captured is no best one then."""
    failed = [reason for verdict, reason in ended.values() if verdict == "FAILED"]
    if len(failed) == count:
        raise EngineError(f"no configuration could be tried: {failed[0]}", where=path)


def _window(path: Path, number: int | None) -> SnapshotWindow:
    return next(item for item in windows_at(path) if number is None or item.window == number)


def _built(
    laboratory: ReplayLaboratory, variants: Sequence[Variant], question: Question, progress: Progress
) -> tuple[dict[int, int], dict[int, tuple[str, str]]]:
    """Configuration -> the one before it of equal code and geometry; and those that do not compile, with the reason."""
    same_as: dict[int, int] = {}
    broken: dict[int, tuple[str, str]] = {}
    seen: dict[str, int] = {}
    for at in range(REFERENCE + 1, len(laboratory.candidates)):
        if variants[at].changes_nothing:
            same_as[at] = REFERENCE
            continue
        progress(f"building configuration {at} of {len(laboratory.candidates) - 1}")
        try:
            identity = laboratory.identity(at)
        except SkippedError as error:
            broken[at] = "FAILED", str(error)
            continue
        if _as_captured(laboratory, at, question):
            same_as[at] = REFERENCE
        elif identity and (before := seen.setdefault(identity, at)) != at:
            same_as[at] = before
    return same_as, broken


def _as_captured(laboratory: ReplayLaboratory, at: int, question: Question) -> bool:
    facts, made = laboratory.facts.get(at), laboratory.made_of.get(at, [])
    if facts is None or facts.geometry or not question.code or len(made) != 1:
        return False
    return laboratory.code_of(at) == [question.code]


def _tuned(
    at: int,
    name: str,
    variant: Variant,
    contest: Contest,
    laboratory: ReplayLaboratory,
    same_as: int | None,
) -> Tuned:
    made = next(iter(laboratory.made_of.get(at, [])), None)
    found = Tuned(
        configuration=name,
        variant=str(variant),
        verdict="MERGED",
        grid=[number for shape in variant.geometry if shape.what == "grid" for number in shape.value],
        same_as=same_as,
        registers=None if made is None else made.registers,
        shared_bytes=None if made is None else made.shared_bytes,
    )
    if same_as is not None:
        return found
    times = sorted(item.time_ns for item in contest.observed.get(at, ()))
    if at in contest.ended:
        verdict, reason = contest.ended[at]
    elif at == contest.best:
        verdict, reason = "BEST", ""
    else:
        judged = contest.judged.get(at)
        verdict = Verdict.UNSURE.value if judged is None else judged.verdict.value
        reason = "" if judged is None or judged.verdict is Verdict.SLOWER else judged.reason
    ratio = ratio_of(contest, REFERENCE, at) if at != REFERENCE and at not in contest.ended else None
    return replace(
        found,
        verdict=verdict,
        reason=reason,
        time_ns=times[len(times) // 2] if times and at not in contest.ended else None,
        ratio=None if ratio is None else ratio[0],
        low=None if ratio is None else ratio[1],
        high=None if ratio is None else ratio[2],
        rounds=len(times),
    )
