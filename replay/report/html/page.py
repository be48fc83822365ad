"""The page: what it is made of, what it allows a browser to do, and its rendering."""

from __future__ import annotations

import base64
import datetime
import hashlib
import re
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from markupsafe import Markup

from replay import __version__
from replay.harmless import visible
from replay.privacy import without_places
from replay.report.html.bisection import bisection_section
from replay.report.html.check import check_section
from replay.report.html.compared import comparison_section
from replay.report.html.evaluation import evaluation_section
from replay.report.html.history import history_section
from replay.report.html.levels import levels_section
from replay.report.html.model import Section
from replay.report.html.plots import draw, points_for_each
from replay.report.html.result import result_section
from replay.report.html.sources import Sources
from replay.report.html.tuning import tuning_sections

if TYPE_CHECKING:
    import jinja2

# Notebooks have themes of their own, whatever the browser prefers.
_DARK_THEME = '[data-jp-theme-light="false"] &, .vscode-dark &'
_LONGEST_WORD, _SIGNS = 20, "_=:/,"
_SHORT_LINE = 34  # letters of a command on a telephone
_LIGHT_THEME = '[data-jp-theme-light="true"] &, .vscode-light &'


def sections_of(sources: Sources) -> list[Section]:
    """A section for each finding."""
    return [
        *(comparison_section(item, sources.code) for item in sources.comparisons),
        *(levels_section(item) for item in sources.differences),
        *(bisection_section(item, sources.code) for item in sources.bisections),
        *(check_section(item) for item in sources.checks),
        *(evaluation_section(item) for item in sources.evaluations),
        *(part for item in sources.tunings for part in tuning_sections(item, sources.code)),
        *(history_section(item) for item in sources.histories),
        *(result_section(item, sources.code, sources.results) for item in sources.results),
    ]


def render_page(sources: Sources, up: str = "") -> str:
    """The whole page as HTML. up: address of the page that led to it, "" none."""
    sections = sections_of(sources)
    figures = sum(section.figures() for section in sections)
    style = page_style()
    script = ""
    if figures:  # fifty kilobytes that a page without plots has no use for
        style = part("uplot/uPlot.min.css") + "\n" + style
        script = part("uplot/uPlot.iife.min.js") + "\n" + part("plots.js")
    points = points_for_each(figures)
    return assembled(
        "page.html.jinja",
        style,
        script,
        title=_title(sections),
        sections=sections,
        draw=lambda plot: draw(plot, points),
        up=up,
    )


def _title(sections: Sequence[Section]) -> str:
    """For the tab of a browser: the verdict comes first."""
    if not sections:
        return "replay: nothing to report"
    return " ".join(filter(None, (sections[0].verdict, sections[0].title)))


def assembled(
    template: str, style: str, script: str, numbers: Sequence[str] = (), /, **values: object
) -> str:
    """A page of a template, with this style, this script and that of the scheme, the only ones that it allows.
    numbers: texts without a name in them, for the template's `numbers`, which nothing has to be taken out of."""
    now = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes")
    # Stand for files of this package, whose digests the policy has, while the rest is made private.
    script = part("theme.js") + "\n" + script
    styled, scripted = secrets.token_hex(), secrets.token_hex()
    numbered = [secrets.token_hex() for _ in numbers]
    page = _rendered(
        template,
        policy=_policy(style, script),
        style=styled,
        script=scripted,
        numbers=numbered,
        version=__version__,
        now=now,
        **values,
    )
    page = visible(without_places(page)).replace(styled, style).replace(scripted, script)
    for token, text in zip(numbered, numbers, strict=True):
        page = page.replace(token, text)
    return page


def render_fragment(sections: Sequence[Section]) -> str:
    """Sections for a page of somebody else, such as a notebook: with a style that concerns nothing around them, and
    without scripts."""
    body = _rendered(
        "sections.html.jinja", sections=sections, draw=lambda plot: replace(draw(plot), data=Markup(""))
    )
    style = secrets.token_hex()
    fragment = f'<div class="replay-found"><style>{style}</style>{body}</div>'
    return visible(without_places(fragment)).replace(style, _scoped(page_style()))


def _scoped(style: str) -> str:
    """The page's style, for what is inside of a fragment."""
    light, dark = (style.split(":root {")[at].split("}")[0] for at in (1, 2))
    rules = style.replace(":root", "&").replace("\nbody {", "\n& {")
    themes = f"{_LIGHT_THEME} {{{light}}}\n{_DARK_THEME} {{{dark}}}"
    return f".replay-found {{\n{rules}\n{themes}\n}}"


def _rendered(template: str, /, **values: object) -> str:
    return str(_template(template).render(empty=Section("There is nothing to report."), **values))


@cache
def _template(name: str) -> jinja2.Template:
    """Compiled once: a site has thousands of pages, and that is most of the work of one."""
    import jinja2

    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(part), autoescape=True, trim_blocks=True, lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )  # fmt: skip
    environment.filters["breakable"], environment.filters["typed"] = _breakable, _typed
    return environment.get_template(name)


def _breakable(text: str) -> Markup:
    """Long words may go on in the next line after a sign. Names of places are taken out first: they are words, too."""
    return Markup("").join(
        Markup("{}<wbr>").format(part) if len(word) > _LONGEST_WORD and part[-1:] in _SIGNS else part
        for word in re.split(r"(\s+)", without_places(text))
        for part in re.split(f"(?<=[{re.escape(_SIGNS)}])", word)
    )


def _typed(command: str) -> Markup:
    """A command that breaks between words on a narrow screen. A word too long for a line also breaks after a sign, and
    in a part without one anywhere."""
    found = []
    for word in re.split(r"(\s+)", without_places(command)):
        parts = re.split(f"(?<=[{re.escape(_SIGNS)}])", word) if len(word) > _SHORT_LINE else [word]
        pattern = "{}" if word.isspace() or max(map(len, parts)) > _SHORT_LINE else "<code>{}</code>"
        found.append(Markup("<wbr>").join(Markup(pattern).format(part) for part in parts))  # noqa: S704
    return Markup("").join(found)


def _policy(style: str, script: str) -> str:
    """A content security policy that allows this style and this script, by their digests, and nothing else."""
    allowed = f"script-src {_digest(script)}; style-src {_digest(style)}"
    return f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def page_style() -> str:
    """That of every page."""
    return "\n".join(map(part, ("page.css", "drawing.css", "findings.css")))


@cache
def part(name: str) -> str:
    """A file of this package."""
    return resources.files(__package__).joinpath(name).read_text("utf-8")
