"""`replay capture`: run an application and write the launches asked for into a snapshot."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from replay.cli.common import Json, Quiet, driver_option, flag, option
from replay.cli.packing import External, Least, OwnWeights, WithIr

if TYPE_CHECKING:
    from replay.capture.selection import Selection
    from replay.drivers import Driver

# Words after the application's name are its own, also those that look like options.
CONTEXT = {"allow_interspersed_args": False}
# What help shows under which title
OPTIONS = {
    "Launches": (
        "kernel",
        "launch",
        "each",
        "everything",
        "source",
        "nvtx",
        "module",
        "operator",
        "profiler",
        "maximum_launches",
        "listing",
    ),
    "When something goes wrong": (
        "when",
        "ring",
        "ring_bandwidth",
        "maximum_snapshots",
        "interval",
        "keep",
        "share",
        "status",
    ),
    "Memory and images": ("memory", "maximum_bytes", "torch_blocks", "full_images"),
    "Where it is from": ("python_stacks", "nvtx_stacks", "torch_stacks", "with_ir"),
    "Output": ("output", "external", "least", "weights", "keep_raw", "keep_command_line", "json", "quiet"),
}
EXAMPLES = (
    "replay capture --list -- ./app",
    "replay capture --kernel attention --launch 3 -o x.rsnap -- python train.py",
)


def capture(
    application: Annotated[list[str], typer.Argument(metavar="-- APP ARGS...", help="The command to run.")],
    kernel: Annotated[
        str | None, option("REGEX", "Kernels by name, mangled or demangled.", show_default="any kernel")
    ] = None,
    launch: Annotated[
        str | None,
        option(
            "N|N-M|every:K",
            "Which of the matching launches, from 1; every:K is a snapshot of every K-th.",
            show_default="1",
        ),
    ] = None,
    each: Annotated[
        bool, flag("--each", "A snapshot for each of these launches (without --launch: of all).")
    ] = False,
    everything: Annotated[bool, flag("--all", "Everything from the first driver call on.")] = False,
    source: Annotated[
        str | None,
        option(
            "FILE[:LINE[-LINE]]",
            "Only launches that come from there: a Python frame of the launching thread is in these lines.",
            show_default="anywhere",
        ),
    ] = None,
    nvtx: Annotated[
        str | None,
        option(
            "NAME[@DOMAIN]",
            "Only inside NVTX ranges of this name; without --kernel and --launch, the whole first one.",
            show_default="anywhere",
        ),
    ] = None,
    module: Annotated[
        str | None,
        option(
            "PATH", "Likewise, inside this module of PyTorch (its forward) or XLA.", show_default="anywhere"
        ),
    ] = None,
    operator: Annotated[
        str | None,
        option("NAME", "Likewise, inside this operator of PyTorch or XLA.", "--op", show_default="anywhere"),
    ] = None,
    profiler: Annotated[
        bool, flag("--profiler-api", "Likewise, between cuProfilerStart and cuProfilerStop.")
    ] = False,
    listing: Annotated[
        bool, flag("--list", "Capture nothing; print which launches there are and how to capture them.")
    ] = False,
    memory: Annotated[
        str,
        option(
            "reachable|params|live",
            "Memory to copy: what parameters point to and what its contents point to, what parameters "
            "point to, or all that is allocated. With --when also SIZE: what watching takes at most.",
        ),
    ] = "reachable",
    maximum_bytes: Annotated[
        str | None, option("SIZE", "Copy at most so much.", "--max-bytes", show_default="no limit")
    ] = None,
    maximum_launches: Annotated[
        int | None, option("N", "End after N launches.", "--max-launches", show_default="no limit")
    ] = None,
    when: Annotated[
        str | None,
        option(
            "TRIGGER[,TRIGGER]",
            "Only launches that go wrong: error, nan, hang=30s, assert, crash, slower=2x, time=5ms, signal=USR1; "
            "several with a comma or `or`.",
            "--when",
            show_default="nothing is watched for",
        ),
    ] = None,
    ring: Annotated[
        str | None,
        option(
            "N|SIZE",
            "Keep this many launches up to the one that went wrong, each with at most SIZE.",
            "--ring",
            show_default="1 where a trigger needs it",
        ),
    ] = None,
    ring_bandwidth: Annotated[
        str | None,
        option(
            "SIZE",
            "Copy at most so much in a second for launches that are watched and not waited for.",
            "--ring-bandwidth",
            show_default="no limit",
        ),
    ] = None,
    maximum_snapshots: Annotated[
        int | None, option("N", "End watching after N of them.", "--max-snapshots", show_default="1")
    ] = None,
    interval: Annotated[
        str | None, option("TIME", "At most one snapshot in this time.", "--every", show_default="any")
    ] = None,
    keep: Annotated[
        str | None,
        option(
            "SIZE",
            "Remove the oldest snapshots beyond this size of all.",
            "--keep",
            show_default="all are kept",
        ),
    ] = None,
    share: Annotated[
        str | None,
        option(
            "SHARE",
            "Share of one processor that `replay` may use to write snapshots while the application runs.",
            "--cpu",
            show_default="5%",
        ),
    ] = None,
    status: Annotated[
        str | None,
        option(
            "FILE|-",
            "Write how it goes, a JSON line every 10 s and at each snapshot; - for stderr.",
            "--status",
            show_default="nothing is written",
        ),
    ] = None,
    driver: Annotated[str | None, driver_option("The driver that the application gets.")] = None,
    output: Annotated[
        Path | None, option("OUT.rsnap", "The snapshot to write.", "-o", "--output", show_default="APP.rsnap")
    ] = None,
    torch_blocks: Annotated[
        bool, flag("--torch-blocks", "Copy the blocks that PyTorch has in use, not the segments they lie in.")
    ] = False,
    python_stacks: Annotated[
        bool, flag("--python-stacks", "Keep from where in Python each launch came (--source does, too).")
    ] = False,
    nvtx_stacks: Annotated[
        bool, flag("--nvtx-stacks", "Keep in which NVTX ranges each launch was, with their payload.")
    ] = False,
    torch_stacks: Annotated[
        bool, flag("--torch-stacks", "Likewise, in which modules and operators of PyTorch.")
    ] = False,
    full_images: Annotated[
        bool,
        flag(
            "--full-images", "Keep all of module images: for other architectures, comments, debug sections."
        ),
    ] = False,
    keep_command_line: Annotated[
        bool,
        flag(
            "--keep-command-line",
            "Keep command line, paths and messages as they are, with values that look like secrets.",
        ),
    ] = False,
    keep_raw: Annotated[bool, flag("--keep-raw", "Keep the raw capture, OUT.rcap.")] = False,
    external: External = None,
    least: Least = None,
    weights: OwnWeights = None,
    with_ir: WithIr = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run an application and write the launches asked for into a snapshot.

    The application keeps its input and output; what `replay` has to say goes to stderr. With --json the last line of
    stdout is the report.

    Exit code: that of the application when it failed (128 + signal when it was killed); 3 when there is no snapshot.
    """
    from replay.cli.packing import (
        compiled,
        import_numpy_without_threads,
        pack_options,
        prepare_to_pack,
        taker,
    )

    import_numpy_without_threads()
    from replay.capture.selection import parse_selection
    from replay.capture.session import capture as run_capture
    from replay.capture.session import content_bytes, default_output
    from replay.cli.watching import lines_to, parse_live
    from replay.drivers import find_driver
    from replay.pack import PackReport, Written, pack
    from replay.report.capture import capture_value, render_capture, snapshot_lines
    from replay.report.streams.json import print_document
    from replay.report.streams.progress import GrowthLines, Progress
    from replay.results.documents import CAPTURE

    if listing and (
        everything or each or when is not None or launch is not None or output is not None or keep_raw
    ):
        from replay.errors import UsageError

        raise UsageError(
            "--list captures nothing", next="leave out --all, --each, --launch, --when, -o and --keep-raw"
        )
    selection = parse_selection(
        kernel=kernel,
        launch=launch,
        everything=everything,
        memory=memory,
        maximum_bytes=maximum_bytes,
        maximum_launches=maximum_launches,
        nvtx=nvtx,
        profiler=profiler,
        each=each,
        torch_blocks=torch_blocks,
        python_stacks=python_stacks,
        nvtx_stacks=nvtx_stacks,
        torch_stacks=torch_stacks,
        module=module,
        operator=operator,
        source=source,
        when=when,
        ring=ring,
        ring_bandwidth=ring_bandwidth,
        maximum_snapshots=maximum_snapshots,
        interval=interval,
    )
    chosen = find_driver(driver)
    if chosen.reason and not quiet:
        print(f"replay: {chosen.reason}", file=sys.stderr)

    live = parse_live(selection, keep, share, status)
    written = Written() if live is not None else None

    def packer(raw: Path, path: Path) -> PackReport:
        prepare_to_pack()
        with Progress("packing", content_bytes(raw), hidden=quiet or json) as progress:
            return pack(
                raw,
                path,
                progress.advance,
                full_images=full_images,
                elsewhere=elsewhere,
                compiled=compiled(with_ir),
                written=written,
            )

    if listing:
        return _list(application, selection, chosen, driver or "", json=json, quiet=quiet)

    def tell(packed: PackReport) -> None:
        if not quiet:
            for line in [text for item in packed.snapshots for text in snapshot_lines(item)]:
                print(f"replay: {line}", file=sys.stderr)
            print("replay: the application still runs", file=sys.stderr, flush=True)

    path = output if output is not None else default_output(application)
    copied = GrowthLines("copying memory of the application, {} so far", hidden=quiet or json)
    with taker(external, least, weights) as elsewhere, lines_to(live) as tell_event:
        report = run_capture(
            application,
            selection,
            chosen,
            path,
            keep_raw=keep_raw,
            keep_command_line=keep_command_line,
            packer=packer,
            pack_options=pack_options(external, least, weights, with_ir),
            on_written=tell,
            live=None if live is None else lambda raw: live.watching(lambda: packer(raw, path), tell_event),
            follow=(lambda size_bytes: copied.see(size_bytes, time.monotonic())) if copied.visible else None,
        )
    if not quiet or report.failure:
        for line in render_capture(report):
            print(f"replay: {line}", file=sys.stderr)
    if json:
        print_document(CAPTURE, capture_value(report), indent=None)
    return report.exit_code


def _list(
    application: list[str],
    selection: Selection,
    driver: Driver,
    driver_option: str,
    *,
    json: bool,
    quiet: bool,
) -> int:
    from replay.capture.launches import list_launches
    from replay.report.launches import launches_value, render_launches
    from replay.report.streams.json import print_document
    from replay.report.streams.output import put
    from replay.results.documents import LAUNCHES
    from replay.text import Screen, shown

    report = list_launches(application, selection, driver, driver_option)
    told = [report.application.told, *report.problems]
    if report.failure:
        told.append(f"{report.failure}; {report.advice}")
    for line in told:
        if line and (not quiet or report.failure):
            print(f"replay: {shown(line)}", file=sys.stderr)
    if json:
        print_document(LAUNCHES, launches_value(report), indent=None)
    elif report.processes:
        put(render_launches(report, Screen.of_stdout()))
    return report.exit_code
