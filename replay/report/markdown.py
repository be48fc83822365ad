"""The same as text for a bug report: Markdown, with names that cannot break out of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from replay.report import bisect as bisect_text
from replay.report import compare as compare_text
from replay.report import run as run_text
from replay.report.history import render_history
from replay.report.text import Screen

if TYPE_CHECKING:
    from replay.report.html.sources import Sources

_WIDE = Screen(200, False)


def render_markdown(sources: Sources) -> str:
    """Each part as the command would print it, behind a line that says what it is."""
    return "\n\n".join(_parts(sources))


def _parts(sources: Sources) -> Iterator[str]:
    for comparison in sources.comparisons:
        yield _part(compare_text.headline(comparison), compare_text.render_comparison(comparison, _WIDE))
    for bisection in sources.bisections:
        title = bisect_text.answer(bisection) if bisection.steps else "nothing was found"
        yield _part(title, bisect_text.render_bisection(bisection, _WIDE))
    for view in sources.histories:
        yield _part(f"History of {len(view.series)} series", render_history(view, _WIDE))
    for result in sources.results:
        yield _part(run_text.outputs(result), run_text.render_run(result, _WIDE))


def _part(title: str, text: str) -> str:
    """A fence that is longer than any in the text: nothing in it is Markdown."""
    longest, run = 0, 0
    for character in text:
        run = run + 1 if character == "`" else 0
        longest = max(longest, run)
    fence = "`" * max(3, longest + 1)
    heading = "".join(
        f"\\{character}" if character in r"\`*_{}[]<>()#+-.!|&" else character for character in title
    )
    return f"### {heading}\n\n{fence}text\n{text}\n{fence}"
