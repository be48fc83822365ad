"""Text of `replay bisect`."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence

from replay.results.bisection import BisectedCandidate, Bisection, Step
from replay.text import MODELLED, Column, Screen, flow, heading, number, percent, shown, table
from replay.variants.wording import lowered

SHOWN_CANDIDATES = 60
SHOWN_LOGS = 3
SHOWN_LOG_LINES = 4
_BAR = 20
_LONGEST_COMMON = 12


def render_bisection(result: Bisection, screen: Screen) -> str:
    """The answer in plain words, then each candidate with what was seen of it."""
    verdict = "" if not result.steps else "SLOWER" if result.symptom == "slower" else "WRONG"
    parts = [heading(answer(result), screen, verdict)]
    parts += [flow(f"  {line}", screen) for line in more(result)] if result.steps else []
    parts += ["", table(_columns(result), _rows(result, screen), screen)]
    parts += screen.rest(result.candidates, SHOWN_CANDIDATES, "candidate")
    parts += _logs(result, screen)
    notes = [*lowered(kernel for item in result.candidates for kernel in item.kernels), *result.notes]
    if result.source == "modelled":
        notes.append(MODELLED)
    if notes:
        parts += ["", *(flow(f"  {shown(text, 400)}", screen) for text in notes)]
    return "\n".join(parts)


def answer(result: Bisection) -> str:
    """One line: "first bad: ptxas 12.8 (last good ptxas 12.6): +6.2 % [5.7, 6.8], 40 -> 56 registers"."""
    if not result.steps:
        has_code = any(item.identity and not item.skipped for item in result.candidates)
        return f"nothing was searched: {classes(result) if has_code or not result.ended else result.ended}"
    largest = max(result.steps, key=lambda step: abs((step.ratio or 1) - 1))
    return _step(result, largest)


def _step(result: Bisection, step: Step) -> str:
    bad, good = (_named(result.candidates[at]) for at in (step.first_bad, step.last_good))
    sure = "" if step.verdict in ("SLOWER", "symptom") else ", not confirmed"
    text = f"first bad{sure}: {bad} (last good {good})"
    if step.ratio is not None and step.low is not None and step.high is not None:
        text += f": {percent(step.ratio)} [{percent(step.low)}, {percent(step.high)}]"
    elif result.symptom != "slower":
        text += f": {result.symptom}"
    changes = list(_changes(result.candidates[step.last_good], result.candidates[step.first_bad]))
    return ", ".join([text, *changes])


def _named(item: BisectedCandidate) -> str:
    subject = f' "{shown(item.subject, 100)}"' if item.subject else ""
    return shown(item.label, 200) + subject


_MADE_OF = {
    "registers": "registers",
    "shared_bytes": "bytes of static shared memory",
    "local_bytes": "bytes of stack",
    "spill_store_bytes": "bytes of spill stores",
    "spill_load_bytes": "bytes of spill loads",
}


def _changes(good: BisectedCandidate, bad: BisectedCandidate) -> Iterator[str]:
    """What the kernels of both are made of, where it differs: "40 -> 56 registers"."""
    pairs = list(zip(good.kernels, bad.kernels, strict=False))
    for a, b in pairs:
        name = f" in {shown(b.name, 60)}" if len(pairs) > 1 else ""
        for field, words in _MADE_OF.items():
            before, after = getattr(a, field), getattr(b, field)
            if before is not None and after is not None and before != after:
                yield f"{before} -> {after} {words}{name}"


def classes(result: Bisection) -> str:
    """How many kinds of machine code there are."""
    built = [item for item in result.candidates if item.identity and not item.skipped]
    kinds = len({item.identity for item in built})
    return f"{number(kinds, 'kind')} of machine code in {number(len(built), 'candidate')}"


def short(labels: list[str]) -> list[str]:
    """Without the words that all begin with, where these are so long that a table would cut off what differs."""
    common = os.path.commonprefix(labels)
    common = common[: max(common.rfind(character) + 1 for character in " =/:")]
    return labels if len(common) <= _LONGEST_COMMON else [f"…{label[len(common) :]}" for label in labels]


def _logs(result: Bisection, screen: Screen) -> Iterator[str]:
    """The beginnings of what compilers said of those that were left out; the ends of what commands said of the pair
    that was found, and of those that they could not tell."""
    told = [item for item in result.candidates if item.log]
    lines = slice(SHOWN_LOG_LINES)
    if result.over.startswith("exec="):
        pairs = [at for step in result.steps for at in (step.first_bad, step.last_good)]
        told = [item for item in [*(result.candidates[at] for at in pairs), *told] if item.log]
        told = [
            item
            for at, item in enumerate(told)
            if item not in told[:at] and (at < len(pairs) or item.skipped)
        ]
        lines = slice(-SHOWN_LOG_LINES, None)
    if screen.verbose:
        lines = slice(None)
    for item in told[: screen.most(SHOWN_LOGS)]:
        yield f"  log of {shown(item.label, 200)}:"
        yield from (f"    {shown(line, 200)}" for line in item.log.splitlines()[lines])
    yield from screen.rest(told, SHOWN_LOGS, "log")


def more(result: Bisection) -> Iterator[str]:
    largest = max(result.steps, key=lambda step: abs((step.ratio or 1) - 1))
    for step in result.steps:
        if step is not largest:
            yield f"another step, {_step(result, step)}"
    for step in result.steps:
        if step.verdict not in ("SLOWER", "symptom"):
            yield f"the pair by itself was {step.verdict} when it was measured again: take this with care"
        if step.between:
            names = ", ".join(shown(result.candidates[at].label, 60) for at in step.between[:6])
            yield f"{number(len(step.between), 'candidate')} between could not be observed: {names}"
    share = sum(step.share for step in result.steps if step.share is not None)
    total = "" if result.ratio is None else f"; {percent(result.ratio)} between the ends"
    if result.ratio is not None and len(result.steps) > 1:
        total += f", of which these steps are {100 * share:.0f} %"
    certain = min(step.probability for step in result.steps)
    over = number(len(result.candidates), "candidate")
    if certain == 1 and result.symptom != "slower":
        yield f"{number(result.rounds, 'run')} over {over}; no outcome varied, and both of the pair were run twice"
        return
    yield f"{number(result.rounds, 'round')} over {over}, {100 * certain:.1f} % sure{total}"


def _columns(result: Bisection) -> list[Column]:
    if not result.steps:
        return [
            Column(""),
            Column("candidate", cut="middle"),
            Column("registers", "right"),
            Column("code"),
            Column(""),
        ]
    return [
        Column("", "right"),
        Column("candidate", cut="middle"),
        Column("rounds", "right"),
        Column("against good" if result.symptom == "slower" else "shows it", "right"),
        Column("interval of 95 %", "right", if_filled=True, spare=True),
        Column("first bad?", "right"),
        Column("", if_filled=True, spare=True),
        Column("", if_filled=True),
    ]


def _rows(result: Bisection, screen: Screen) -> Iterator[list[str]]:
    bad = {step.first_bad for step in result.steps}
    labels = short([item.label for item in result.candidates])
    rows = zip(labels, result.candidates, strict=True)
    names = [" ".join(filter(None, (label, item.date, item.subject))) for label, item in rows]
    for at, item in enumerate(result.candidates[: screen.most(SHOWN_CANDIDATES)]):
        if not result.steps:
            yield ["", shown(names[at], 200), *made_of(item), said(item, at, labels)]
            continue
        yield [
            ">" if at in bad else "",
            shown(names[at], 200),
            str(len(item.observations)) if item.observations else "",
            seen(item, result.symptom),
            "" if item.low is None or item.high is None else f"{percent(item.low)} .. {percent(item.high)}",
            f"{100 * item.probability:.1f} %" if item.probability >= 0.0005 else "",
            "#" * round(item.probability * _BAR),
            said(item, at, labels),
        ]


def made_of(item: BisectedCandidate) -> tuple[str, str]:
    """Registers and the beginning of the code's digest, of each kernel that differs from the one before it."""
    registers = dict.fromkeys(
        str(kernel.registers) for kernel in item.kernels if kernel.registers is not None
    )
    code = dict.fromkeys((kernel.code or kernel.image)[:8] for kernel in item.kernels)
    return "/".join(registers), shown("/".join(code))


def seen(item: BisectedCandidate, symptom: str) -> str:
    if not item.observations:
        return ""
    mean = sum(item.observations) / len(item.observations)
    if symptom != "slower":
        return f"{100 * mean:.0f} %"
    return percent(math.exp(mean))


def said(item: BisectedCandidate, at: int, labels: Sequence[str]) -> str:
    """Why it was not observed itself. labels: of all candidates."""
    if item.skipped:
        return f"skipped: {shown(item.skipped, 120)}"
    if item.group != at:
        return f"same code as {shown(labels[item.group], 60)}"
    return ""
