"""`replay difference`: the first level of IR at which two compilers part."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import Json, Quiet, Verbose, Window, option, path_or_url

EXAMPLES = (
    "replay difference triton34.rsnap triton39.rsnap",
    "replay difference old.ttgir new.ttgir",
    "replay difference a.rsnap b.rsnap --kernel row_sums --level ptx",
)


def difference(
    a: Annotated[
        Path,
        typer.Argument(
            metavar="A",
            help="A snapshot, or a .ttir, .ttgir, .llir, .ptx, .cubin or .fatbin.",
            parser=path_or_url,
        ),
    ],
    b: Annotated[Path, typer.Argument(metavar="B", help="The other side.", parser=path_or_url)],
    kernel: Annotated[str, option("NAME", "Only this kernel.", "--kernel")] = "",
    level: Annotated[
        str, option("LEVEL", "Only this level: source, ttir, ttgir, llir, ptx or sass.", "--level")
    ] = "",
    window: Window = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> None:
    """Say at which level of its IR a kernel first differs between two sides, and how.

    Snapshots of `capture --with-ir` have all levels of Triton; others have PTX or machine code. Names of values,
    registers and labels, their numbers and lines of sources do not count. Machine code is shown by nvdisasm or
    cuobjdump of the CUDA toolkit, where one is there. Nothing is run.
    """
    from replay.difference.levels import level_differences
    from replay.report.levels import render_levels, render_levels_brief
    from replay.report.streams.json import print_result
    from replay.results.documents import DIFFERENCE

    found = level_differences(a, b, kernel=kernel, level=level, window=window)
    print_result(DIFFERENCE, found, json, render_levels, brief=render_levels_brief if quiet else None)
