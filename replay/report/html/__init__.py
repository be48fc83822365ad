"""One offline page of comparisons, bisections, gates, histories and results. Everything in it is escaped: names come
from strangers. Its policy allows only its own script, and it loads nothing."""

from replay.report.html.page import render_page
from replay.report.html.sources import Sources, read_sources

__all__ = ["Sources", "read_sources", "render_page"]
