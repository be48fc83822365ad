"""The section of a bisection: the first bad candidate, all of them in their order, how the search narrowed, and which
were built alike."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from markupsafe import Markup

from replay.difference import CodeFiles, step_differences
from replay.report import bisect as bisect_text
from replay.report.commands import bisection_commands
from replay.report.html.cells import interval_cell
from replay.report.html.charts import bar
from replay.report.html.code import code_section
from replay.report.html.drawing import Drawing
from replay.report.html.model import MAXIMUM_ROWS, Key, Listing, Section, Table, facts, more
from replay.results.bisection import BisectedCandidate, Bisection, SearchRound
from replay.text import MODELLED, duration, number, percent, shown

SHOWN_ROUNDS = 300
SHOWN_LOGS = 20
SHOWN_LOG_LINES = 200
_LABEL = 200
_END_LABEL = 24
_ROUND_PIXELS = 16
_HIGHEST = 520


def bisection_section(result: Bisection, files: CodeFiles) -> Section:
    """The answer and what it rests on."""
    verdict = "SLOWER" if result.symptom == "slower" else "WRONG"
    section = Section(bisect_text.answer(result), verdict if result.steps else "UNSURE")
    if result.source == "modelled":
        section.lines.append(MODELLED)
    labels = _labels(result)
    section.key = list(_key(result, labels))
    section.lines += [shown(text) for text in (bisect_text.more(result) if result.steps else ())]
    if result.ended:
        section.lines.append(shown(result.ended, 400))
    where = facts(result.device, result.driver, result.driver_version, result.created_utc)
    where.rows.append(["searched", shown(result.over, 400)])
    section.tables.append(("Where and over what", where))
    section.parts = [
        _candidates(result, labels),
        *_course(result, labels),
        *_codes(result, labels),
        *_logs(result),
    ]
    section.notes += [shown(text) for text in result.notes]
    for step in result.steps if files.given else ():
        found = step_differences(result, step, files)
        section.details += map(code_section, found)
        if not found:
            section.notes.append("The kernels of last good and first bad have the same images.")
    if not files.given and result.steps and result.snapshot:
        section.notes.append(
            f"For the difference of their code, name the snapshot, too: {shown(result.snapshot)}"
        )
    section.commands = bisection_commands(result)
    return section


def _labels(result: Bisection) -> list[str]:
    """Of the candidates, without the words that all begin with."""
    return [shown(label, _LABEL) for label in bisect_text.short([item.label for item in result.candidates])]


def _key(result: Bisection, labels: Sequence[str]) -> Iterator[Key]:
    for step in result.steps:
        yield Key("first bad", labels[step.first_bad], f"last good: {labels[step.last_good]}")
        if step.ratio is not None and step.low is not None and step.high is not None:
            note = f"between {percent(step.low)} and {percent(step.high)}"
            yield Key("change", percent(step.ratio), note)
        yield Key("probability", f"{100 * step.probability:.1f} %", shown(result.stopped, 200))


def _named(item: BisectedCandidate) -> str:
    return " ".join(filter(None, (shown(item.label), shown(item.date, 20), shown(item.subject, 200))))


def _candidates(result: Bisection, labels: Sequence[str]) -> Section:
    """A row for each, in their order: what it is made of, what was seen of it, and whether it is the first bad one."""
    part = Section("The candidates in their order")
    slower = result.symptom == "slower"
    found = [
        value
        for item in result.candidates
        for value in (item.ratio, item.low, item.high)
        if value is not None
    ]
    # An interval of two rounds is wide; it may go beyond the axis.
    reach = 2 * max(
        (abs(item.ratio - 1) for item in result.candidates if item.ratio is not None), default=0.0
    )
    axis = (1 - reach, 1 + reach)
    against = "against good" if slower else "shows it"
    titles = ["candidate", "date", "subject", "registers", "code", "rounds", "time", against, "interval", "first bad?",
              "drawn", "note"]  # fmt: skip
    table = Table(titles)
    bad = {step.first_bad for step in result.steps}
    for at, item in enumerate(result.candidates[:MAXIMUM_ROWS]):
        likely = item.probability >= 0.0005
        table.rows.append([
            labels[at],
            shown(item.date, 20),
            shown(item.subject, 200),
            *bisect_text.made_of(item),
            len(item.observations) or "",
            "" if item.time_ns is None else duration(item.time_ns),
            bisect_text.seen(item, result.symptom),
            _interval(item, axis),
            f"{100 * item.probability:.1f} %" if likely else "",
            bar(item.probability, f"{100 * item.probability:.1f} %") if item.probability >= 0.01 else "",
            "first bad" if at in bad else bisect_text.said(item, at, labels),
        ])  # fmt: skip
    caption = f"{number(len(result.candidates), 'candidate')}, the good end first"
    if slower and found:
        caption += ". Interval: 95 %, of the time against that of the good end, which is the upright line"
    if any(label.startswith("…") for label in labels):
        first = shown(result.candidates[0].label, 2 * _LABEL)
        caption += f". …: what all begin with, the first one is {first}"
    part.tables.append((caption, table.without_empty()))
    part.notes += more(result.candidates, MAXIMUM_ROWS, "candidates")
    return part


def _interval(item: BisectedCandidate, axis: tuple[float, float]) -> Markup | str:
    if item.ratio is None:
        return ""
    low, high = (item.ratio if end is None else end for end in (item.low, item.high))
    words = percent(item.ratio) if item.low is None else f"{percent(low)} to {percent(high)}"
    return interval_cell((low, item.ratio, high), axis, 1.0, words)


def _course(result: Bisection, labels: Sequence[str]) -> Iterator[Section]:
    """How the probability gathered around one candidate, search by search."""
    searches: dict[tuple[int, int], list[SearchRound]] = {}
    for one in result.course:
        searches.setdefault((one.good, one.bad), []).append(one)
    if not searches:
        return
    part = Section("How the search narrowed")
    if result.stopped:
        part.lines.append(f"It stopped: {shown(result.stopped, 200)}.")
    for (good, bad), rounds in searches.items():
        ends = f"{labels[good]} to {labels[bad]}"
        caption = (
            f"{number(len(rounds), 'round')} from {ends}, the first one on top. Band: where the first bad candidate is "
            "with 95 %. Upright stroke: the likeliest one. Dot: the candidate that was observed."
        )
        part.drawings.append((caption, _funnel(result, labels, good, bad, rounds[:SHOWN_ROUNDS])))
    table = Table(["round", "observed", "seen", "likeliest first bad", "probability", "with 95 % from", "to"])
    for place, one in enumerate(result.course[:SHOWN_ROUNDS], 1):
        table.rows.append([
            place, labels[one.candidate], _seen(one, result.symptom), labels[one.first_bad],
            f"{100 * one.probability:.1f} %", labels[one.low], labels[one.high],
        ])  # fmt: skip
    rounds_table = Section("Round by round")
    rounds_table.tables.append(("What each round said", table))
    rounds_table.is_folded = True
    rounds_table.notes += more(result.course, SHOWN_ROUNDS, "rounds")
    part.details.append(rounds_table)
    yield part


def _seen(one: SearchRound, symptom: str) -> str:
    if symptom == "slower":
        return percent(math.exp(min(one.observation, 100.0)))
    return "shows it" if one.observation else "does not show it"


def _funnel(
    result: Bisection, labels: Sequence[str], good: int, bad: int, rounds: Sequence[SearchRound]
) -> Markup:
    step = max(2.0, min(_ROUND_PIXELS, _HIGHEST / len(rounds)))
    top, bottom = 22.0, 22.0 + step * len(rounds)
    last = rounds[-1]
    found = labels[last.first_bad]
    sure = f"with a probability of {100 * last.probability:.1f} %"
    label = f"After {number(len(rounds), 'round')} the first bad candidate is {found}, {sure}"
    drawing = Drawing(int(bottom) + 8, label)
    count = bad - good + 1

    def x(at: float) -> float:
        return min(1.0, max(0.0, (at - good) / count))

    drawing.text(0.0, 12, _beginning(labels[good]), "start")
    drawing.text(1.0, 12, _beginning(labels[bad]), "end")
    drawing.line("grid", 0, top - 4, 1, top - 4)
    for place, one in enumerate(rounds):
        y = top + step * (place + 0.5)
        half = max(1.0, step * 0.36)
        title = f"round {place + 1}: {100 * one.probability:.1f} %"
        drawing.box("likely", x(one.low), y - half, x(one.high + 1), y + half, title)
        middle = x(one.first_bad + 0.5)
        drawing.line("likeliest", middle, y - half, middle, y + half)
        shows = one.observation > 0 if result.symptom != "slower" else None
        style = "a" if shows is None else "b" if shows else "plain"
        drawing.dot(
            style,
            x(one.candidate + 0.5),
            y,
            labels[one.candidate],
            min(4.0, step / 3),
        )
    return drawing.markup()


def _beginning(label: str) -> str:
    """As much of a label as two have room beside each other on a telephone, cut between words where that can be."""
    if len(label) <= _END_LABEL:
        return label
    kept = label[: _END_LABEL - 1]
    return (kept[: kept.rfind(" ")] if " " in kept else kept) + "…"


def _codes(result: Bisection, labels: Sequence[str]) -> Iterator[Section]:
    """What is made of each kind of machine code, and which candidates have it."""
    groups: dict[int, list[tuple[BisectedCandidate, str]]] = {}
    for item, label in zip(result.candidates, labels, strict=True):
        if not item.skipped:
            groups.setdefault(item.group, []).append((item, label))
    known = [items for items in groups.values() if items[0][0].kernels or items[0][0].identity]
    if not known:
        return
    table = Table(
        [
            "kernel",
            "code",
            "registers",
            "shared",
            "stack",
            "spill stores",
            "spill loads",
            "candidates",
            "from",
            "to",
        ]
    )
    for items in known:
        (first, label), last = items[0], items[-1][1]
        which = [len(items), label, "" if len(items) == 1 else last]
        for kernel in first.kernels:
            figures = (kernel.registers, kernel.shared_bytes, kernel.local_bytes, kernel.spill_store_bytes,
                       kernel.spill_load_bytes)  # fmt: skip
            code = shown((kernel.code or kernel.image)[:12])
            table.rows.append(
                [
                    shown(kernel.name, 200),
                    code,
                    *("" if value is None else value for value in figures),
                    *which,
                ]
            )
        if not first.kernels:
            table.rows.append(["", shown(first.identity, 12), "", "", "", "", "", *which])
    part = Section("Machine code")
    merged = sum(len(items) - 1 for items in known)
    said = f"{bisect_text.classes(result)}; neighbours with equal code are one candidate"
    said += f", so {number(merged, 'candidate was', 'candidates were')} not measured" if merged else ""
    part.tables.append((said, Table(table.titles, table.rows[:MAXIMUM_ROWS]).without_empty()))
    part.notes += more(table.rows, MAXIMUM_ROWS, "rows")
    yield part


def _logs(result: Bisection) -> Iterator[Section]:
    """What compilers and commands said, folded."""
    told = [item for item in result.candidates if item.log]
    if not told:
        return
    part = Section("What compilers and commands said")
    for item in told[:SHOWN_LOGS]:
        detail = Section(_named(item))
        lines = item.log.splitlines()
        detail.listings.append(Listing("", [f" {shown(line, 400)}" for line in lines[-SHOWN_LOG_LINES:]]))
        detail.is_folded = True
        part.details.append(detail)
    part.notes += more(told, SHOWN_LOGS, "logs")
    yield part
