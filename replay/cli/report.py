"""`replay report`: a page, text for a bug report, or a trace, of what other commands found."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from replay.cli.common import Json, Open, Quiet, Window, flag, option, show_page

if TYPE_CHECKING:
    from replay.report.html.sources import Sources
    from replay.results.written_files import WrittenFile


def report(
    inputs: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE...",
            help="Results (.rres), folders or URLs of them, and what `compare`, `bisect` and `check` write with -o. "
            "Snapshots and images (.ptx, .cubin, .fatbin) beside them are where the code of the sides is looked up.",
        ),
    ],
    output: Annotated[Path | None, option("PAGE.html", "Write an HTML page.", "-o", "--output")] = None,
    markdown: Annotated[bool, flag("--markdown", "Print Markdown for a bug report.")] = False,
    chrome_trace: Annotated[
        Path | None,
        option(
            "TRACE.json",
            "Write launches and copies of snapshots and results for Perfetto or chrome://tracing.",
        ),
    ] = None,
    window: Window = None,
    show: Open = False,
    json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Make an offline HTML page, Markdown, or a trace, of comparisons, bisections, gates, histories and results.

    The page is one file and loads nothing; it can be attached to a bug report. Snapshots alone have a page:
    timeline, map of memory, kernels, what a replay needs, what is missing.

    With the snapshots that were compared it also shows where the PTX of the sides differs, and their machine code where
    nvdisasm or cuobjdump is installed: replay report c.json before.rsnap after.rsnap -o page.html
    """
    from replay.beside import SHARED, require_place
    from replay.errors import UsageError
    from replay.report.html.sources import read_sources
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.results.documents import REPORT
    from replay.results.store import write_whole
    from replay.results.written_files import ReportPrinted

    if output is None and not markdown and chrome_trace is None:
        raise UsageError(
            "nothing to make",
            next="-o PAGE.html writes a page, --markdown prints text, --chrome-trace TRACE.json writes a trace",
        )
    if show and output is None:
        raise UsageError("there is no page to open", where="--open", next="-o PAGE.html writes one")
    for path in (output, chrome_trace):
        if path is not None:
            require_place(path)
    sources = read_sources(inputs)
    files, text = [], ""
    if chrome_trace is not None:
        write_whole(chrome_trace, _trace(sources))
        files.append(_written(chrome_trace, "trace", quiet))
    alone = bool(sources.snapshots) and not sources.findings
    if (markdown or (output is not None and not alone)) and not sources.findings:
        raise UsageError(
            "nothing to report on: a snapshot by itself is no finding",
            next="name what `replay compare`, `bisect`, `check` or `run -o` wrote, too; -o PAGE.html shows a snapshot",
        )
    if output is not None:
        page = _page_of_snapshots(sources, window) if alone else _page(sources)
        write_whole(output, page.encode("utf-8", "backslashreplace"), SHARED)
        files.append(_written(output, "page", quiet))
        if show:
            show_page(output)
    if markdown:
        from replay.report.markdown import render_markdown

        text = render_markdown(sources)
    if json:
        print_document(REPORT, ReportPrinted(files, text))
    elif markdown:
        put(text)


def _page(sources: Sources) -> str:
    from replay.report.html.page import render_page

    return render_page(sources)


def _page_of_snapshots(sources: Sources, window: int | None) -> str:
    from replay.report.html.snapshot.page import render_snapshots

    return render_snapshots(sources.snapshots, window)


def _trace(sources: Sources) -> bytes:
    import json

    from replay.errors import UsageError
    from replay.report.trace import Trace, result_trace, snapshot_trace

    if not sources.snapshots and not sources.results:
        raise UsageError(
            "--chrome-trace draws snapshots and results, and none is named",
            next="replay report SNAP.rsnap --chrome-trace TRACE.json",
        )
    trace = Trace()
    for path in sources.snapshots:
        snapshot_trace(trace, path)
    for result in sources.results:
        result_trace(trace, result)
    if trace.left_out:
        print(f"replay: {trace.left_out:,} events had no room in the trace", file=sys.stderr)
    return json.dumps(trace.document(), separators=(",", ":"), allow_nan=False).encode()


def _written(path: Path, kind: Literal["page", "trace"], quiet: bool) -> WrittenFile:
    from replay.results.written_files import WrittenFile
    from replay.text import shown, size

    size_bytes = path.stat().st_size
    if not quiet:
        print(f"replay: wrote {shown(path)} ({size(size_bytes)})", file=sys.stderr)
    return WrittenFile(path, kind, size_bytes)
