"""`replay capture`: run an application and write the launches asked for into a snapshot."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from replay.cli.common import Json, Quiet, driver_option

if TYPE_CHECKING:
    from replay.capture.selection import Selection
    from replay.drivers import Driver


def capture(
    application: Annotated[
        list[str], typer.Argument(metavar="-- APP ARGS...", help="The command to run.", show_default=False)
    ],
    kernel: Annotated[
        Optional[str],  # noqa: UP045 (typer on Python 3.10)
        typer.Option(
            metavar="REGEX", help="Kernels by name, mangled or demangled.", show_default="any kernel"
        ),
    ] = None,
    launch: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="N|N-M|every:K",
            help="Which of the matching launches, from 1; every:K is a snapshot of every K-th.",
            show_default="1",
        ),
    ] = None,
    each: Annotated[
        bool,
        typer.Option("--each", help="A snapshot for each of these launches (without --launch: of all)."),
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="Everything from the first driver call on.")
    ] = False,
    nvtx: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option(
            metavar="NAME[@DOMAIN]",
            help="Only inside NVTX ranges of this name; without --kernel and --launch, the whole first one.",
            show_default="anywhere",
        ),
    ] = None,
    profiler: Annotated[
        bool,
        typer.Option("--profiler-api", help="Likewise, between cuProfilerStart and cuProfilerStop."),
    ] = False,
    listing: Annotated[
        bool,
        typer.Option(
            "--list", help="Capture nothing; print which launches there are and how to capture them."
        ),
    ] = False,
    memory: Annotated[
        str,
        typer.Option(
            metavar="reachable|params|live",
            help="Memory to copy: what parameters and the contents behind them point to, what parameters point to, "
            "or all that is allocated.",
        ),
    ] = "reachable",
    maximum_bytes: Annotated[
        Optional[str],  # noqa: UP045
        typer.Option("--max-bytes", metavar="SIZE", help="Copy at most so much.", show_default="no limit"),
    ] = None,
    maximum_launches: Annotated[
        Optional[int],  # noqa: UP045
        typer.Option("--max-launches", metavar="N", help="End after N launches.", show_default="no limit"),
    ] = None,
    no_device_hash: Annotated[
        bool,
        typer.Option(
            "--no-device-hash",
            help="Copy everything to find what changed, instead of asking a small kernel on the device.",
        ),
    ] = False,
    driver: Annotated[Optional[str], driver_option("The driver that the application gets.")] = None,  # noqa: UP045
    output: Annotated[
        Optional[Path],  # noqa: UP045
        typer.Option(
            "-o", "--output", metavar="OUT.rsnap", help="The snapshot to write.", show_default="APP.rsnap"
        ),
    ] = None,
    torch_blocks: Annotated[
        bool,
        typer.Option(
            "--torch-blocks", help="Copy the blocks that PyTorch has in use, not the segments they lie in."
        ),
    ] = False,
    full_images: Annotated[
        bool,
        typer.Option("--full-images", help="Keep all of large fat binaries, also for other architectures."),
    ] = False,
    keep_command_line: Annotated[
        bool,
        typer.Option(
            "--keep-command-line",
            help="Keep the command line as it is: with the home folder, and values that look like secrets.",
        ),
    ] = False,
    keep_raw: Annotated[bool, typer.Option("--keep-raw", help="Keep the raw capture, OUT.rcap.")] = False,
    json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run an application and write the launches asked for into a snapshot.

    The application keeps its input and output; what `replay` has to say goes to stderr. With --json the last line of
    stdout is the report.

    Exit code: that of the application when it failed (128 + signal when it was killed); 3 when there is no snapshot.
    """
    from replay.cli.packing import import_numpy_without_threads, prepare_to_pack

    import_numpy_without_threads()
    from replay.capture.selection import parse_selection
    from replay.capture.session import capture as run_capture
    from replay.capture.session import content_bytes, default_output
    from replay.drivers import find_driver
    from replay.pack import PackReport, pack
    from replay.report.capture import capture_value, render_capture
    from replay.report.json import print_document
    from replay.report.progress import GrowthLines, Progress
    from replay.results.documents import CAPTURE

    if listing and (everything or each or launch is not None or output is not None or keep_raw):
        from replay.errors import UsageError

        raise UsageError(
            "--list captures nothing", next="leave out --all, --each, --launch, -o and --keep-raw"
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
        device_hash=not no_device_hash,
        torch_blocks=torch_blocks,
    )
    chosen = find_driver(driver)
    if chosen.reason and not quiet:
        print(f"replay: {chosen.reason}", file=sys.stderr)

    def packer(raw: Path, path: Path) -> PackReport:
        prepare_to_pack()
        with Progress("packing", content_bytes(raw), hidden=quiet or json) as progress:
            return pack(raw, path, progress.advance, full_images=full_images)

    if listing:
        return _list(application, selection, chosen, driver or "", json=json, quiet=quiet)

    path = output if output is not None else default_output(application)
    copied = GrowthLines("copying memory of the application, {} so far", hidden=quiet or json)
    report = run_capture(
        application,
        selection,
        chosen,
        path,
        keep_raw=keep_raw,
        keep_command_line=keep_command_line,
        packer=packer,
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
    from replay.report.json import print_document
    from replay.report.launches import launches_value, render_launches
    from replay.report.output import put
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


def register(app: typer.Typer) -> None:
    """Add `replay capture`."""
    # Words behind the application's name are its own, also those that look like options.
    app.command("capture", context_settings={"allow_interspersed_args": False})(capture)
