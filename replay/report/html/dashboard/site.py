"""All files of the site. Addresses are digests of names, so that a link shows the same kernel every night."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

from replay.history.series import HistoryView, Series
from replay.report.fleet import fleet_csv, junit, metrics_of
from replay.report.html.dashboard.front import Course, front_page
from replay.report.html.page import render_page
from replay.report.html.sources import Sources
from replay.results.documents import FLEET
from replay.results.fleet import Fleet
from replay.results.json import document

FILES = ("fleet.csv", "fleet.json", "fleet.prom", "junit.xml")


def files_of(
    night: Fleet, history: HistoryView, canaries: Mapping[tuple[str, str], Course]
) -> Iterator[tuple[str, str]]:
    """Name in the site, text. history: results of all nights. The first page comes last."""
    of: dict[str, list[Series]] = {}
    for series in history.series:
        of.setdefault(series.kernel, []).append(series)
    pages = {kernel: f"kernel/{_digest(kernel)}.html" for kernel in of}
    for kernel, found in of.items():
        view = HistoryView(history.folder, found, sum(len(item.points) for item in found))
        yield pages[kernel], render_page(Sources(histories=[view]), up="../index.html")
    yield "fleet.csv", fleet_csv(night)
    yield "fleet.json", document(FLEET, night) + "\n"
    yield "fleet.prom", metrics_of(night)
    yield "junit.xml", junit(night)
    yield "index.html", front_page(night, pages, canaries, FILES)


def _digest(kernel: str) -> str:
    return hashlib.sha256(kernel.encode("utf-8", "surrogatepass")).hexdigest()[:16]
