"""`replay run`: replay a snapshot in a fresh process, check its outputs and time it."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT_S,
    Json,
    Quick,
    Quiet,
    ReplayDriver,
    SnapshotPath,
    Timeout,
    Trust,
    Window,
)
from replay.cli.group import in_groups

# What help shows under which title
OPTIONS = {
    "Checks": (
        "dtype", "tolerance", "save_outputs", "save_all", "shift", "dry_run", "best_effort",
    ),
    "Timing": (
        "samples", "quick", "rigorous", "timing", "caches", "serialize", "profile", "counters", "expand_graphs",
    ),
    "Variants": ("swap", "ptxas", "jit", "grid", "block", "shared"),
    "Placement": (
        "driver", "device", "window", "relocate", "placement", "memory_limit", "timeout", "trust",
    ),
    "Output": ("output", "history", "log_folder", "json", "quiet"),
}  # fmt: skip
EXAMPLES = (
    "replay run x.rsnap --quick",
    "replay run x.rsnap --swap attention=new.cu -o new.rres",
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from replay.results.schema import RunResult
    from replay.run.parent import RunOptions
    from replay.snapshot.schema import Window as SnapshotWindow


def run(
    snapshot: SnapshotPath,
    driver: ReplayDriver = None,
    device: Annotated[int, typer.Option(min=0, metavar="N", help="Ordinal of the device.")] = 0,
    samples: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option(
            "--samples",
            "--rounds",
            "--iterations",
            min=1,
            metavar="N",
            help="Take exactly so many samples.",
            show_default="until stable",
        ),
    ] = None,
    quick: Quick = False,
    rigorous: Annotated[
        bool, typer.Option("--rigorous", help="More samples and a tighter limit on noise.")
    ] = False,
    timing: Annotated[
        bool, typer.Option("--timing/--no-timing", help="Time the window, or only check it.")
    ] = True,
    caches: Annotated[
        Optional[bool],  # noqa: UP045
        typer.Option(
            "--cold/--hot",
            help="Time it with cold caches only, or with hot ones only.",
            show_default="both",
        ),
    ] = None,
    serialize: Annotated[
        bool,
        typer.Option("--serialize", help="Also run the work of all streams one after another, and compare."),
    ] = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Replay exactly once, without timing, for a profiler around it.")
    ] = False,
    timeout: Timeout = DEFAULT_TIMEOUT_S,
    trust: Trust = False,
    best_effort: Annotated[
        bool, typer.Option("--best-effort", help="Leave out what cannot be replayed instead of refusing.")
    ] = False,
    expand_graphs: Annotated[
        bool, typer.Option("--expand-graphs", help="Launch the nodes of graphs one by one.")
    ] = False,
    counters: Annotated[
        bool,
        typer.Option(
            "--counters", help="Print what the built-in CPU driver counts: instructions, sectors, conflicts."
        ),
    ] = False,
    shift: Annotated[
        bool,
        typer.Option(
            "--shift", help="Move all memory on purpose, twice, and say whether outputs stay the same."
        ),
    ] = False,
    relocate: Annotated[
        bool,
        typer.Option(
            "--relocate/--no-relocate", help="Move memory whose captured address cannot be had, or refuse."
        ),
    ] = True,
    placement: Annotated[
        bool, typer.Option("--placement", help="Print where each captured range is in the replay.")
    ] = False,
    dtype: Annotated[
        Optional[list[str]],  # noqa: UP006, UP045
        typer.Option(
            "--dtype",
            metavar="BUF=TYPE",
            help="Element type of a buffer (number, address or name as in `ls SNAP memory`): f16, bf16, f32, f64, "
            "e4m3, e5m2, i8 to i64, u8 to u64. May be repeated.",
            show_default=False,
        ),
    ] = None,
    tolerance: Annotated[
        str,
        typer.Option(
            metavar="auto|bitwise|T",
            help="How far outputs may be off: `4ulp`, `1e-5` (relative), `abs=1e-6`, several with commas.",
        ),
    ] = "auto",
    save_outputs: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="DIR",
            help="Write expected and actual outputs that differ into this new folder.",
            show_default=False,
        ),
    ] = None,
    save_all: Annotated[
        bool, typer.Option("--save-all", help="With --save-outputs: also outputs that are equal.")
    ] = False,
    memory_limit: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="SIZE",
            help="Host memory, such as 16G, beyond which the worker is killed.",
            show_default="90 % of the machine's",
        ),
    ] = None,
    log_folder: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option("--in", metavar="DIR", help="Keep the worker's log in this folder.", show_default=False),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run", help="Say what this driver and device lack for the snapshot; execute nothing."
        ),
    ] = False,
    window: Window = None,
    swap: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="KERNEL=FILE",
            help="Take a kernel from this cubin, PTX, fat binary or .cu.",
            show_default=False,
        ),
    ] = None,
    ptxas: Annotated[
        str, typer.Option(metavar="VERSION|PATH", help="Assemble the PTX of the kernels with this ptxas.")
    ] = "",
    jit: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="OPTION=VALUE,...",
            help="Options of the driver's PTX compiler, as opt-level=2,lineinfo.",
            show_default=False,
        ),
    ] = None,
    grid: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="[KERNEL=]X,Y,Z", help="Launch with another grid.", show_default=False),
    ] = None,
    block: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(metavar="[KERNEL=]X,Y,Z", help="Launch with another block.", show_default=False),
    ] = None,
    shared: Annotated[
        Optional[list[str]],  # noqa: UP045
        typer.Option(
            metavar="[KERNEL=]BYTES",
            help="Launch with more or less dynamic shared memory.",
            show_default=False,
        ),
    ] = None,
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "-o",
            "--output",
            metavar="R.rres",
            help="Write the result, raw samples included.",
            show_default=False,
        ),
    ] = None,
    history: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            metavar="DIR", help="Add the result to this folder, for `replay history`.", show_default=False
        ),
    ] = None,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Replay a snapshot in a fresh process, check its outputs bit by bit and time it.

    Of a snapshot with several windows each is replayed, in a process of its own; -o and --counters need --window.

    Exit code 0: the outputs match, or the error that the window ended in was reproduced. 1: they differ, it was not, or
    nothing could be compared. 3: the snapshot could not be replayed.
    """
    from dataclasses import replace

    from replay.errors import ExitCode, UsageError
    from replay.inspection.folder import new_folder
    from replay.outputs.tolerance import parse
    from replay.report.json import print_document
    from replay.report.output import put
    from replay.report.progress import StageLine
    from replay.report.relocation import fails_to_move
    from replay.report.run import render_run, verdicts
    from replay.report.times import restores_wrongly
    from replay.results import documents
    from replay.results.store import require_place, write_result
    from replay.run.isolation import parse_size
    from replay.run.parent import RunOptions, run_snapshot
    from replay.snapshot.windows import list_windows
    from replay.text import Screen
    from replay.timing.stopping import QUICK, RIGOROUS, StoppingParameters
    from replay.variants.model import make_variant
    from replay.variants.plan import NotExecutable

    if save_all and save_outputs is None:
        raise UsageError("--save-all needs --save-outputs DIR")
    if quick and rigorous:
        raise UsageError("--quick and --rigorous exclude each other")
    if profile and (quick or rigorous or samples or caches is not None or serialize or shift or counters):
        raise UsageError(
            "--profile replays once, and times nothing",
            next="leave out --quick, --rigorous, --samples, --cold, --hot, --serialize, --shift and --counters",
        )
    timing = timing and not profile
    if not timing and (quick or rigorous or samples or caches is not None or serialize):
        raise UsageError(
            "--no-timing takes no samples",
            next="leave out --quick, --rigorous, --samples, --cold, --hot and --serialize",
        )
    parameters = QUICK if quick else RIGOROUS if rigorous else StoppingParameters()
    options = RunOptions(
        driver=driver,
        device=device,
        timing=replace(parameters, fixed_samples=samples) if timing else None,
        timeout_s=timeout,
        trust=trust,
        best_effort=best_effort,
        relocate=relocate,
        expand_graphs=expand_graphs,
        counters=counters,
        window=window,
        serialize=serialize,
        profile=profile,
        caches="both" if caches is None else "cold" if caches else "hot",
        dtypes=tuple(_dtype(text) for text in dtype or ()),
        tolerance=parse(tolerance),
        save_outputs=new_folder(save_outputs),
        save_all=save_all,
        log_folder=log_folder,
        memory_limit_bytes=None if memory_limit is None else parse_size(memory_limit, "--memory-limit"),
        variant=make_variant(
            swap=swap or (),
            ptxas=ptxas,
            jit=jit or (),
            grid=grid or (),
            block=block or (),
            shared=shared or (),
        ),
    )
    run_once = run_snapshot
    if shift:
        from replay.run.relocation import run_and_prove as run_once  # brings in numpy
    run_once = _with_command(run_once)
    if dry_run:
        return _look(snapshot, options, json=json, quiet=quiet)
    if output is not None:
        require_place(output)
    if window is None and output is None and not counters and (windows := list_windows(snapshot)):
        if history is not None:
            run_once = _kept(run_once, history)
        return _run_all(snapshot, windows, options, run_once, json=json, quiet=quiet)
    with StageLine(hidden=quiet or json) as line:
        try:
            result = run_once(snapshot, options, line.show)
        except NotExecutable as error:
            if json:
                print_document(documents.RUN_VARIANT, error.facts)
            raise
    if result.driver.reason and not quiet:
        print(f"replay: {result.driver.reason}", file=sys.stderr)
    if output is not None:
        write_result(output, result)
    if history is not None:
        from replay.history.store import append

        append(history, result)
    if json:
        print_document(documents.RUN, result)
    elif quiet:
        put(verdicts(result))
    else:
        put(render_run(result, Screen.of_stdout(), placement=placement))
    matches = result.verification.passes and not fails_to_move(result) and not restores_wrongly(result)
    return ExitCode.DONE if matches else ExitCode.GATE_FAILED


def _look(snapshot: Path, options: RunOptions, *, json: bool, quiet: bool) -> int:
    """`--dry-run`: of a snapshot with several windows, the one that was chosen or each."""
    from dataclasses import replace

    from replay.errors import ExitCode
    from replay.report.json import print_document
    from replay.report.output import put
    from replay.report.preflight import render_preflight
    from replay.results import documents
    from replay.run.parent import dry_run
    from replay.snapshot.windows import list_windows
    from replay.text import Screen

    numbers: list[int | None] = [window.number for window in list_windows(snapshot)]
    chosen = numbers if numbers and options.window is None else [options.window]
    found = [dry_run(snapshot, replace(options, window=number)) for number in chosen]
    if json and len(found) > 1:
        print_document(documents.PREFLIGHT_WINDOWS, found)
    elif json:
        print_document(documents.PREFLIGHT, found[0])
    elif not quiet:
        put("\n\n".join(render_preflight(one, Screen.of_stdout()) for one in found))
    return ExitCode.DONE if all(one.can_run for one in found) else ExitCode.COULD_NOT


def _dtype(text: str) -> tuple[str, str]:
    """BUF and TYPE of `--dtype BUF=TYPE`."""
    from replay.errors import UsageError

    buffer, equals, name = text.rpartition("=")
    if not equals or not buffer or not name:
        raise UsageError(f"{text[:60]!r} is not BUF=TYPE", where="--dtype", next="give for example 3=f16")
    return buffer, name


def _with_command(run_once: Callable[..., RunResult]) -> Callable[..., RunResult]:
    """As `run_once`; each result says how to come to it again."""
    from dataclasses import replace

    from replay.cli.common import reproduction

    return lambda *arguments: replace(run_once(*arguments), command=reproduction())


def _kept(run_once: Callable[..., RunResult], folder: Path) -> Callable[..., RunResult]:
    """As `run_once`; each result is added to a folder."""
    from replay.history.store import append

    def run(*arguments: object) -> RunResult:
        result = run_once(*arguments)
        append(folder, result)
        return result

    return run


def _run_all(
    snapshot: Path,
    windows: list[SnapshotWindow],
    options: RunOptions,
    run_once: Callable[..., RunResult],
    *,
    json: bool,
    quiet: bool,
) -> int:
    """Every window of a snapshot that has several. One that cannot be replayed does not keep the others from it."""
    from dataclasses import replace

    from replay.errors import ExitCode, ReplayError
    from replay.report.json import print_document
    from replay.report.output import put
    from replay.report.progress import StageLine
    from replay.report.relocation import fails_to_move
    from replay.report.run import render_window_results
    from replay.report.times import restores_wrongly
    from replay.results import documents
    from replay.results.schema import WindowResult
    from replay.text import Screen

    results: list[WindowResult] = []
    with StageLine(hidden=quiet or json) as line:
        for window in windows:
            title = f"window {window.number} ({len(results) + 1} of {len(windows)}): "
            try:
                folder = options.save_outputs
                chosen = replace(
                    options,
                    window=window.number,
                    save_outputs=folder and folder / f"window-{window.number}",
                )
                result = run_once(snapshot, chosen, lambda text, title=title: line.show(title + text))
                results.append(WindowResult(window.number, result))
            except ReplayError as error:
                results.append(WindowResult(window.number, None, str(error)))
    done = [item.result for item in results if item.result is not None]
    if done and done[0].driver.reason and not quiet:
        print(f"replay: {done[0].driver.reason}", file=sys.stderr)
    if json:
        print_document(documents.RUN_WINDOWS, results)
    else:
        put(render_window_results(str(snapshot), results, quiet, Screen.of_stdout()))
    if len(done) < len(results):
        return ExitCode.COULD_NOT
    matches = all(
        result.verification.passes and not fails_to_move(result) and not restores_wrongly(result)
        for result in done
    )
    return ExitCode.DONE if matches else ExitCode.GATE_FAILED


def register(app: typer.Typer) -> None:
    """Add `replay run`."""
    app.command("run", cls=in_groups(OPTIONS, EXAMPLES))(run)
