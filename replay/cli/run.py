"""`replay run`: replay a snapshot in a fresh process, check its outputs and time it."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.common import (
    DEFAULT_TIMEOUT,
    Device,
    Json,
    Offline,
    Quick,
    Quiet,
    ReplayDriver,
    SnapshotPath,
    Stores,
    Timeout,
    Trust,
    Untrusted,
    VaryInputs,
    Verbose,
    Weights,
    Window,
    flag,
    option,
    seconds,
    trusted,
)

# What help shows under which title
OPTIONS = {
    "Checks": (
        "dtype", "tolerance", "untrusted", "vary_inputs", "save_outputs", "save_all", "shift", "dry_run",
        "best_effort",
    ),
    "Timing": (
        "samples", "quick", "rigorous", "timing", "caches", "serialize", "profile", "sanitizer", "counters",
        "expand_graphs",
    ),
    "Variants": (
        "swap", "ptxas", "tileiras", "triton", "num_warps", "num_stages", "constant", "llvm_options", "jit", "grid",
        "block", "shared",
    ),
    "Placement": (
        "driver", "device", "window", "relocate", "placement", "memory_limit", "timeout", "trust",
    ),
    "Contents elsewhere": ("store", "weights", "offline"),
    "Output": ("output", "history", "logs", "json", "verbose", "quiet"),
}  # fmt: skip
EXAMPLES = ("replay run x.rsnap --quick", "replay run x.rsnap --swap attention=new.cu -o new.rres")

if TYPE_CHECKING:
    from replay.results.schema import WindowResult
    from replay.run.parent import RunOptions


def run(
    snapshot: SnapshotPath,
    driver: ReplayDriver = None,
    device: Device = 0,
    samples: Annotated[
        int | None, option("N", "Take exactly so many samples.", min=1, show_default="until stable")
    ] = None,
    quick: Quick = False,
    rigorous: Annotated[bool, flag("--rigorous", "More samples and a tighter limit on noise.")] = False,
    timing: Annotated[bool, flag("--timing/--no-timing", "Time the window, or only check it.")] = True,
    caches: Annotated[
        bool | None,
        typer.Option(
            "--cold/--hot", help="Time it with cold caches only, or with hot ones only.", show_default="both"
        ),
    ] = None,
    serialize: Annotated[
        bool, flag("--serialize", "Also run the work of all streams one after another, and compare.")
    ] = False,
    profile: Annotated[
        bool, flag("--profile", "Replay exactly once, without timing, for a profiler around it.")
    ] = False,
    sanitizer: Annotated[
        str,
        option(
            "TOOL",
            "Replay once under compute-sanitizer's memcheck, initcheck, racecheck or synccheck.",
            "--sanitizer",
        ),
    ] = "",
    timeout: Timeout = DEFAULT_TIMEOUT,
    trust: Trust = False,
    untrusted: Untrusted = False,
    vary_inputs: VaryInputs = None,
    best_effort: Annotated[
        bool, flag("--best-effort", "Leave out what cannot be replayed instead of refusing.")
    ] = False,
    expand_graphs: Annotated[bool, flag("--expand-graphs", "Launch the nodes of graphs one by one.")] = False,
    counters: Annotated[
        bool,
        flag("--counters", "Print what the built-in CPU driver counts: instructions, sectors, conflicts."),
    ] = False,
    shift: Annotated[
        bool, flag("--shift", "Move all memory on purpose, twice, and say whether outputs stay the same.")
    ] = False,
    relocate: Annotated[
        bool,
        flag("--relocate/--no-relocate", "Move memory whose captured address cannot be reserved, or refuse."),
    ] = True,
    placement: Annotated[
        bool, flag("--placement", "Print where each captured range is in the replay.")
    ] = False,
    dtype: Annotated[
        list[str] | None,
        option(
            "BUF=TYPE",
            "Element type of a buffer (number, address or name as in `ls SNAP memory`): f16, bf16, "
            "f32, f64, e4m3, e5m2, i8 to i64, u8 to u64. May be repeated.",
            "--dtype",
        ),
    ] = None,
    tolerance: Annotated[
        str,
        option(
            "auto|bitwise|T",
            "How far outputs may be off: `4ulp`, `1e-5` (relative), `abs=1e-6`, several with commas.",
        ),
    ] = "auto",
    save_outputs: Annotated[
        Path | None, option("DIR", "Write expected and actual outputs that differ into this new folder.")
    ] = None,
    save_all: Annotated[
        bool, flag("--save-all", "With --save-outputs: also outputs that are equal.")
    ] = False,
    memory_limit: Annotated[
        str | None,
        option(
            "SIZE",
            "Host memory, such as 16G, beyond which the worker is killed.",
            show_default="90 % of the machine's",
        ),
    ] = None,
    logs: Annotated[Path | None, option("DIR", "Keep the worker's log in this folder.")] = None,
    dry_run: Annotated[
        bool, flag("--dry-run", "Say what this driver and device lack for the snapshot; execute nothing.")
    ] = False,
    window: Window = None,
    swap: Annotated[
        list[str] | None, option("KERNEL=FILE", "Take a kernel from this cubin, PTX, fat binary or .cu.")
    ] = None,
    ptxas: Annotated[str, option("VERSION|PATH", "Assemble the PTX of the kernels with this ptxas.")] = "",
    tileiras: Annotated[
        str, option("VERSION|PATH", "Assemble the Tile IR of the kernels with this tileiras.")
    ] = "",
    triton: Annotated[
        str,
        option(
            "VERSION|DIR", "Compile the kernels again with this Triton, from IR of the capture or --swap."
        ),
    ] = "",
    num_warps: Annotated[int, option("N", "With so many warps a block.", "--num-warps", min=0)] = 0,
    num_stages: Annotated[int, option("N", "With so many stages of loops.", "--num-stages", min=0)] = 0,
    constant: Annotated[
        list[str] | None,
        option(
            "NAME=VALUE",
            "A tl.constexpr of a swapped .py, or an option of Triton, as maxnreg=64. May be repeated.",
        ),
    ] = None,
    llvm_options: Annotated[
        str, option("TEXT", "With these options of the LLVM in Triton, as -disable-lsr.", "--llvm-options")
    ] = "",
    jit: Annotated[
        list[str] | None,
        option("OPTION=VALUE,...", "Options of the driver's PTX compiler, as opt-level=2,lineinfo."),
    ] = None,
    grid: Annotated[list[str] | None, option("[KERNEL=]X,Y,Z", "Launch with another grid.")] = None,
    block: Annotated[list[str] | None, option("[KERNEL=]X,Y,Z", "Launch with another block.")] = None,
    shared: Annotated[
        list[str] | None, option("[KERNEL=]BYTES", "Launch with more or less dynamic shared memory.")
    ] = None,
    output: Annotated[
        Path | None, option("R.rres", "Write the result, raw samples included.", "-o", "--output")
    ] = None,
    history: Annotated[
        str | None, option("DIR|URL", "Add the result to this folder, for `replay history`.")
    ] = None,
    store: Stores = None,
    weights: Weights = None,
    offline: Offline = False,
    json: Json = False,
    verbose: Verbose = False,
    quiet: Quiet = False,
) -> int:
    """Replay a snapshot in a fresh process, check its outputs bit by bit and time it.

    Of a snapshot with several windows each is replayed, in a process of its own; -o and --counters need --window.

    Exit code 0: the outputs match, or the error that the window ended in was reproduced. 1: they differ, it was not, or
    nothing could be compared. 3: the snapshot could not be replayed.
    """
    from functools import partial

    from replay.beside import require_place
    from replay.cli.common import reproduction
    from replay.errors import ExitCode, UsageError
    from replay.library.options import run_options
    from replay.library.result import replay_each, replayer
    from replay.report.run import holds, render_run, verdicts
    from replay.report.streams.json import print_document, print_result
    from replay.report.streams.progress import StageLine
    from replay.results import documents
    from replay.results.store import write_result
    from replay.snapshot.windows import list_windows
    from replay.text import parse_size
    from replay.variants.planned import NotExecutable

    if sanitizer and dry_run:
        raise UsageError(
            "--dry-run executes nothing that --sanitizer could watch", next="leave out one of the two"
        )
    options = run_options(
        driver=driver, device=device, samples=samples, quick=quick, rigorous=rigorous, timing=timing,
        caches="both" if caches is None else "cold" if caches else "hot", serialize=serialize,
        profile=profile or bool(sanitizer),
        timeout_s=seconds(timeout, "--timeout"), trust=trusted(trust, untrusted), vary_inputs=vary_inputs,
        best_effort=best_effort, expand_graphs=expand_graphs,
        counters=counters, shift=shift, relocate=relocate, dtypes=[_dtype(text) for text in dtype or ()],
        tolerance=tolerance, save_outputs=save_outputs, save_all=save_all, logs=logs, window=window,
        memory_limit_bytes=None if memory_limit is None else parse_size(memory_limit, "--memory-limit"),
        swap=swap or (), ptxas=ptxas, tileiras=tileiras, triton=triton, num_warps=num_warps, num_stages=num_stages,
        constant=constant or (), llvm_options=llvm_options, jit=jit or (), grid=grid or (), block=block or (),
        shared=shared or (),
    )  # fmt: skip
    if sanitizer:
        return _sanitized(snapshot, sanitizer, options, json=json, quiet=quiet)
    if dry_run:
        return _look(snapshot, options, json=json, quiet=quiet)
    if output is not None:
        require_place(output)
    run_once = replayer(shift=shift, command=reproduction(), history=history)
    if window is None and output is None and not counters and (windows := list_windows(snapshot)):
        with StageLine(hidden=quiet or json) as line:
            results = replay_each(snapshot, windows, options, run_once, line.show)
        return _print_all(snapshot, results, json=json, quiet=quiet)
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
    text = partial(render_run, placement=placement)
    print_result(documents.RUN, result, json, text, brief=verdicts if quiet else None)
    return ExitCode.DONE if holds(result) else ExitCode.GATE_FAILED


def _look(snapshot: Path, options: "RunOptions", *, json: bool, quiet: bool) -> int:
    """`--dry-run`: of a snapshot with several windows, the one that was chosen or each."""
    from dataclasses import replace

    from replay.errors import ExitCode
    from replay.report.run.preflight import render_preflight
    from replay.report.streams.json import nothing, print_result
    from replay.results import documents
    from replay.run.parent import dry_run
    from replay.snapshot.windows import list_windows

    numbers: list[int | None] = [window.number for window in list_windows(snapshot)]
    chosen = numbers if numbers and options.window is None else [options.window]
    found = [dry_run(snapshot, replace(options, window=number)) for number in chosen]
    several = len(found) > 1
    print_result(
        documents.PREFLIGHT_WINDOWS if several else documents.PREFLIGHT,
        found if several else found[0],
        json,
        lambda _, screen: "\n\n".join(render_preflight(one, screen) for one in found),
        brief=nothing if quiet else None,
    )
    return ExitCode.DONE if all(one.can_run for one in found) else ExitCode.COULD_NOT


def _sanitized(snapshot: Path, tool: str, options: "RunOptions", *, json: bool, quiet: bool) -> int:
    """`--sanitizer`: this very command, once, with compute-sanitizer around it."""
    from replay.cli.common import reproduction
    from replay.errors import ExitCode
    from replay.report.findings import render_brief, render_check
    from replay.report.streams.json import print_result
    from replay.results.documents import FINDINGS
    from replay.run.sanitizer import check_with_sanitizer

    words = reproduction()
    at = next(k for k, word in enumerate(words) if word.partition("=")[0] == "--sanitizer")
    del words[at : at + (1 if "=" in words[at] else 2)]
    words += ["--profile", "--quiet"]
    driver = options.variant.driver or options.driver
    found = check_with_sanitizer(snapshot, tool, words, driver, options.timeout_s)
    print_result(FINDINGS, found, json, render_check, brief=render_brief if quiet else None)
    return ExitCode.GATE_FAILED if found.has_faults else ExitCode.DONE


def _dtype(text: str) -> tuple[str, str]:
    """BUF and TYPE of `--dtype BUF=TYPE`."""
    from replay.errors import UsageError

    buffer, equals, name = text.rpartition("=")
    if not equals or not buffer or not name:
        raise UsageError(f"{text[:60]!r} is not BUF=TYPE", where="--dtype", next="give for example 3=f16")
    return buffer, name


def _print_all(snapshot: Path, results: "list[WindowResult]", *, json: bool, quiet: bool) -> int:
    """Of every window of a snapshot that has several."""
    from functools import partial

    from replay.errors import ExitCode
    from replay.report.run import holds, render_window_results
    from replay.report.streams.json import print_result
    from replay.results import documents

    done = [item.result for item in results if item.result is not None]
    if done and done[0].driver.reason and not quiet:
        print(f"replay: {done[0].driver.reason}", file=sys.stderr)
    text = partial(render_window_results, str(snapshot), quiet=quiet)
    print_result(documents.RUN_WINDOWS, results, json, text)
    if len(done) < len(results):
        return ExitCode.COULD_NOT
    return ExitCode.DONE if all(map(holds, done)) else ExitCode.GATE_FAILED
