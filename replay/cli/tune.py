"""`replay tune`: which configuration of a captured kernel is best?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Device,
    Json,
    MinimumEffect,
    Quick,
    Quiet,
    ReplayDriver,
    RoundBudget,
    Rounds,
    Samples,
    SnapshotPath,
    Timeout,
    Tolerance,
    Trust,
    Verbose,
    Window,
    option,
    seconds,
)

# What help shows under which title
OPTIONS = {
    "Configurations": ("config", "configs", "grid", "triton"),
    "Verdict": ("tolerance", "minimum_effect", "rounds", "budget"),
    "Replay": ("driver", "device", "window", "samples", "quick", "timeout", "trust"),
    "Output": ("output", "json", "verbose", "quiet"),
}
EXAMPLES = (
    "replay tune x.rsnap --config num_warps=4 --config num_warps=8",
    "replay tune x.rsnap kernel.py --grid 'cdiv(n, BLOCK)'",
)


def tune(
    snapshot: SnapshotPath,
    source: Annotated[
        Path | None,
        typer.Argument(
            metavar="NAME.py", help="Its @triton.jit function. It is run. Left out: the captured IR."
        ),
    ] = None,
    config: Annotated[
        list[str] | None,
        option("NAME=VALUE,...", "A configuration: BLOCK=128,num_warps=4. May be repeated.", "--config"),
    ] = None,
    configs: Annotated[
        Path | None,
        option(
            "FILE.json",
            "Configurations: a list of objects, or a NAME.autotune.json of Triton's cache.",
            "--configs",
        ),
    ] = None,
    grid: Annotated[
        str,
        option(
            "EXPR|captured", "The grid of a configuration: 'cdiv(n, BLOCK)'; captured: that of the launch."
        ),
    ] = "",
    triton: Annotated[
        str, option("VERSION|DIR", "With this Triton.", show_default="the newest one here")
    ] = "",
    tolerance: Tolerance = "auto",
    minimum_effect: MinimumEffect = 0.01,
    rounds: Rounds = None,
    budget: RoundBudget = "",
    driver: ReplayDriver = None,
    device: Device = 0,
    window: Window = None,
    samples: Samples = None,
    quick: Quick = False,
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    output: Annotated[
        Path | None,
        option("PAGE.html|FILE.json", "Write a page, or the JSON document, to a file.", "-o", "--output"),
    ] = None,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Run all configurations of a Triton kernel on the captured inputs, and say which is best, and by how much.

    Without --config and --configs they are those of @triton.autotune in NAME.py. Each is compiled, its outputs are
    checked, and all are timed in rounds next to each other and to the kernel as captured. What is within --min-effect
    of the fastest, or cannot be told from it, is a tie.

    Exit code 0: there is a best one, or a tie. 3: the kernel as captured cannot be replayed or timed
    here, or no configuration could be tried.
    """
    from dataclasses import replace

    from replay.beside import require_place
    from replay.cli.common import reproduction
    from replay.compare.rounds import RoundLimits
    from replay.errors import ExitCode
    from replay.library.options import run_options
    from replay.report.streams.json import print_result
    from replay.report.streams.progress import StageLine
    from replay.report.tuning import render_tuning, tuning_headline
    from replay.results.documents import TUNING
    from replay.results.json import write_document
    from replay.tuning.configurations import parse_configuration, read_configurations
    from replay.tuning.tune import tune as run_tune

    if output is not None:
        require_place(output)
    found = [parse_configuration(text) for text in config or ()]
    if configs is not None:
        found += read_configurations(configs)
    options = run_options(
        driver=driver, device=device, window=window, samples=samples, quick=quick, caches="cold",
        tolerance=tolerance, timeout_s=seconds(timeout, "--timeout"), trust=True if trust else None,
    )  # fmt: skip
    limits = RoundLimits(minimum_effect, rounds, seconds(budget, "--budget") if budget else None)
    with StageLine(hidden=quiet or json) as line:
        result = run_tune(
            snapshot, found, options, file=source, triton=triton, grid=grid, limits=limits,
            progress=line.show,
        )  # fmt: skip
    result = replace(result, command=reproduction())
    if output is not None and output.suffix == ".html":
        from replay.beside import SHARED
        from replay.report.html.page import render_page
        from replay.report.html.sources import Sources
        from replay.results.store import write_whole

        page = render_page(Sources(tunings=[result]))
        write_whole(output, page.encode("utf-8", "backslashreplace"), SHARED)
    elif output is not None:
        write_document(output, TUNING, result)
    print_result(TUNING, result, json, render_tuning, brief=tuning_headline if quiet else None)
    return ExitCode.DONE
