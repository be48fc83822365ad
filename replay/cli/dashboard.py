"""`replay dashboard`: a static site about a fleet."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Open, Quiet, flag, option, show_page

EXAMPLES = ("replay dashboard results -o site",)


def dashboard(
    results: Annotated[
        str, typer.Argument(metavar="RESULTS", help="The folder of all nights of a fleet, or its URL.")
    ],
    output: Annotated[Path, option("DIR", "The folder of the site.", "-o", "--output")] = Path("site"),
    parquet: Annotated[bool, flag("--parquet", "Write fleet.parquet, too (needs pyarrow).")] = False,
    show: Open = False,
    quiet: Quiet = False,
) -> int:
    """Write a site of files about the last night of a fleet: no server, nothing is loaded from elsewhere.

    What changed comes first, by owner; then a matrix of kernels and devices, and a page for each kernel over time.
    """
    from itertools import chain

    from replay.beside import SHARED
    from replay.errors import FileError
    from replay.fleet.canaries import courses
    from replay.fleet.planning import nights
    from replay.fleet.sharing.mirror import open_place
    from replay.fleet.verdicts import verdicts
    from replay.history.series import look
    from replay.report.fleet import fleet_parquet
    from replay.report.html.dashboard.site import files_of
    from replay.report.streams.output import put
    from replay.report.streams.progress import StageLine
    from replay.results.store import write_whole
    from replay.text import number

    count = 0
    with StageLine(hidden=quiet) as line:
        line.show("reading results")
        place = open_place(results)
        place.look(place.folder, now=True)
        every, left_out = nights(place)
        found = verdicts(every[-1], every[-2] if len(every) > 1 else None, left_out)
        site = files_of(found, look(place.folder), courses(every[-1].folder.parent, found.devices))
        extra = [("fleet.parquet", fleet_parquet(found))] if parquet else []
        for name, contents in chain(extra, ((name, text.encode()) for name, text in site)):
            path = output / name
            try:
                path.parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise FileError.of(error, path.parent) from None
            write_whole(path, contents, SHARED)
            count += 1
            line.show(f"{count:,} files")
    if not quiet:
        put(f"{number(count, 'file')} in {output}; open {output / 'index.html'}")
    if show:
        show_page(output / "index.html")
    return 0
