"""All files of the site. Addresses are digests of names, so that a link shows the same kernel every night."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from replay.report.fleet import csv_of, junit, metrics_of
from replay.report.html.dashboard.front import Course, front_page
from replay.report.html.page import render_page
from replay.report.html.sources import Sources
from replay.results.documents import FLEET
from replay.results.fleet import Fleet
from replay.results.json import document

if TYPE_CHECKING:
    from replay.history.series import HistoryView

FILES = ("fleet.csv", "fleet.json", "fleet.prom", "junit.xml")


def files_of(
    night: Fleet, history: HistoryView | None, canaries: Mapping[tuple[str, str], Course]
) -> Iterator[tuple[str, str]]:
    """Name in the site, text. history: results of all nights. The first page comes last."""
    of: dict[str, list[object]] = {}
    for series in history.series if history is not None else ():
        of.setdefault(series.kernel, []).append(series)
    pages = {kernel: f"kernel/{_digest(kernel)}.html" for kernel in of}
    for kernel, found in of.items():
        yield pages[kernel], render_page(Sources(histories=[_view(history, found)]))
    yield "fleet.csv", csv_of(night)
    yield "fleet.json", document(FLEET, night) + "\n"
    yield "fleet.prom", metrics_of(night)
    yield "junit.xml", junit(night)
    yield "index.html", front_page(night, pages, canaries, FILES)


def _view(history: HistoryView | None, series: list[object]) -> HistoryView:
    from replay.history.series import HistoryView, Series

    assert history is not None
    found = [item for item in series if isinstance(item, Series)]
    return HistoryView(history.folder, found, sum(len(item.points) for item in found))


def _digest(kernel: str) -> str:
    return hashlib.sha256(kernel.encode("utf-8", "surrogatepass")).hexdigest()[:16]
