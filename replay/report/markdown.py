"""The same as text for a bug report: Markdown, with names that cannot break out of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from replay import __version__
from replay.difference import KernelDifference, differences, step_differences, variant_differences
from replay.privacy import without_places
from replay.report import bisect as bisect_text
from replay.report import check as check_text
from replay.report import code as code_text
from replay.report import commands
from replay.report import compare as compare_text
from replay.report import evaluation as evaluation_text
from replay.report import run as run_text
from replay.report import tuning as tuning_text
from replay.report.history import render_history
from replay.text import Screen, number, shown

if TYPE_CHECKING:
    from replay.report.html.sources import Sources

_WIDE = Screen(200, False)
SHOWN_ROWS = 20  # of a comparison, whose code is shown


def render_markdown(sources: Sources) -> str:
    """Each part as the command would print it, after a line that says what it is; then where the code differs, and the
    commands that reproduce it."""
    return without_places("\n\n".join([*parts_of(sources), f"Written by replay {__version__}"]))


def parts_of(sources: Sources) -> Iterator[str]:
    """Of each finding."""
    files = sources.code
    for comparison in sources.comparisons:
        title, text = compare_text.headline(comparison), compare_text.render_comparison(comparison, _WIDE)
        code: list[KernelDifference] = []
        if files.given:
            code = [found for row in comparison.rows[:SHOWN_ROWS] for found in differences(row, files)]
        yield _part(title, text, code, commands.comparison_commands(comparison))
        if not files.given and (advice := code_text.code_advice(comparison)):
            yield plain(advice)
    for bisection in sources.bisections:
        title = bisect_text.answer(bisection)
        steps = bisection.steps if files.given else []
        code = [found for step in steps for found in step_differences(bisection, step, files)]
        yield _part(
            title,
            bisect_text.render_bisection(bisection, _WIDE),
            code,
            commands.bisection_commands(bisection),
        )
    for check in sources.checks:
        yield _part(
            check_text.headline(check),
            check_text.render_check(check, _WIDE),
            (),
            commands.check_commands(check),
        )
    for found in sources.evaluations:
        text = evaluation_text.render_evaluation(found, _WIDE)
        yield _part(evaluation_text.headline(found), text, (), commands.evaluation_commands(found))
    for tuning in sources.tunings:
        title, text = tuning_text.tuning_headline(tuning), tuning_text.render_tuning(tuning, _WIDE)
        yield _part(title, text, (), commands.tuning_commands(tuning))
    for view in sources.histories:
        yield _part(f"History of {number(len(view.series), 'series', 'series')}", render_history(view, _WIDE))
    for result in sources.results:
        kernels = ", ".join(shown(name, 80) for name in result.window.kernels[:4]) or shown(
            result.snapshot.file
        )
        title = f"{kernels}: {run_text.outputs(result)}"
        code = [] if result.variant is None else variant_differences(result.variant, files)
        yield _part(title, run_text.render_run(result, _WIDE), code, commands.result_commands(result))
        for name, text in [] if result.variant is None else code_text.sources_of(result.variant):
            source = fenced("\n".join(code_text.lines_of(text)), "cuda")
            yield f"<details><summary>Source {_html(name)}</summary>\n\n{source}\n\n</details>"


def _part(title: str, text: str, code: Iterable[KernelDifference] = (), reproduce: Iterable[str] = ()) -> str:
    # The first line of the text is the title once more.
    first, _, rest = text.partition("\n")
    parts = [
        f"### {plain(title)}",
        fenced(rest.strip("\n") if first.strip() == title.strip() else text, "text"),
    ]
    for found in code:
        parts += ["\n".join(_code(found))]
    if lines := list(reproduce):
        parts += ["To reproduce, with the files that are named here:", fenced("\n".join(lines), "sh")]
    return "\n\n".join(parts)


def _code(found: KernelDifference) -> Iterator[str]:
    """Folded, for it is long. A fence of "diff" has colours in most places that show Markdown."""
    summary = found.summary or next(iter(found.notes[-1:]), "the same")
    yield f"<details><summary>Code of {_html(found.kernel or 'the window')}: {_html(shown(summary, 300))}</summary>\n"
    if found.resources:
        yield "| of the machine code | A | B |\n| --- | ---: | ---: |"
        yield from (f"| {' | '.join(row)} |" for row in found.resources)
        yield ""
    yield from (f"{plain(shown(note, 400))}\n" for note in found.notes)
    for listing in found.listings:
        yield f"{plain(listing.summary)}\n"
        if listing.opcodes:
            yield f"{plain(code_text.opcodes(listing))}\n"
        if listing.lines:
            lines = [shown(line) for line in listing.lines]
            lines += [f"@ ... {listing.more:,} more lines"] if listing.more else []
            yield fenced("\n".join(lines), "diff") + "\n"
            yield f"{plain(code_text.LEGEND)}\n"
    yield "</details>"


def fenced(text: str, language: str) -> str:
    """A fence that is longer than any in the text: nothing in it is Markdown."""
    longest, run = 0, 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def plain(text: str) -> str:
    """Text of one line that is neither Markdown nor HTML."""
    return "".join(
        f"\\{character}" if character in r"\`*_{}[]<>()#+|&~" else character for character in shown(text)
    )


def _html(text: str) -> str:
    """Inside a tag of HTML, where no backslash helps."""
    return "".join(
        f"&#{ord(character)};" if not character.isalnum() and character != " " else character
        for character in shown(text)
    )
