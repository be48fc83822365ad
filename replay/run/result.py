"""The result of a replay: what the worker answered, and what the snapshot says of itself and of the application."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeVar

from replay import __version__
from replay.drivers import Driver
from replay.results import schema
from replay.results.run.origin import ApplicationFacts, DeviceFacts, DriverFacts, SnapshotFacts, WindowFacts
from replay.results.run.placement import Placement, Relocation
from replay.results.run.timing import (
    LaunchTime,
    NodeTime,
    Profile,
    Restore,
    Serialized,
    Timing,
    WindowCounters,
)
from replay.results.run.trust import Trust
from replay.results.run.verification import Verification
from replay.snapshot.calls import read_calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity
from replay.snapshot.schema import Call, Environment, Note, Summary, all_of, first_of, from_wire
from replay.text import now_utc
from replay.timing.fidelity import Conditions, fidelity

if TYPE_CHECKING:
    from replay.run.parent import RunOptions

T = TypeVar("T")


def ended_inside(reader: SnapshotReader) -> str:
    """What of the window did not end in the application: a call that did not return, or the launch that `--when hang`
    kept it for; "" where all did."""
    inside = (note for note in all_of(reader, Note) if note.code == "CALL_IN_FLIGHT")
    summary = first_of(reader, Summary)
    kept_for = "" if summary is None else summary.trigger
    launch = kept_for.removeprefix("hang ").partition(":")[0] if kept_for.startswith("hang ") else ""
    return next((f"call {note.call} {note.function}" for note in inside), launch)


def snapshot_facts(reader: SnapshotReader, window: int | None) -> SnapshotFacts:
    """Which file it is."""
    summary = first_of(reader, Summary)
    return SnapshotFacts(
        # Results are UTF-8, which not every name of a file is.
        file=reader.path.name.encode("utf-8", "backslashreplace").decode(),
        size_bytes=reader.file_bytes,
        identity=identity(reader),
        selection=summary.selection if summary else "",
        state=summary.state if summary else "complete",
        window=window,
    )


def application_facts(reader: SnapshotReader, environment: Environment | None) -> ApplicationFacts:
    """Where the window ran when it was captured, and how long."""
    first_ns = last_ns = 0
    gpu_times_ns: list[int] = []
    for part in read_calls(reader):
        if (part if isinstance(part, Call) else part.templates[0]).section != "window":
            continue
        if isinstance(part, Call):
            times: Iterable[tuple[int, int]] = [(part.enter_ns, part.leave_ns)]
            gpu_times_ns += [] if part.gpu_ns is None else [part.gpu_ns]
        else:
            columns = part.columns
            times = zip(columns.enter_ns, columns.leave_ns, strict=True)
            gpu_times_ns += part.gpu_ns.values()
        for enter_ns, leave_ns in times:
            if leave_ns:
                first_ns = min(first_ns or enter_ns, enter_ns)
                last_ns = max(last_ns, leave_ns)
    device = environment.devices[0].name if environment and environment.devices else ""
    return ApplicationFacts(
        device=device,
        driver_version=environment.driver_version if environment else 0,
        emulated=environment.emulated if environment else False,
        host_ns=last_ns - first_ns if first_ns and last_ns >= first_ns else None,
        command=list(environment.command) if environment else [],
        gpu_ns=sum(gpu_times_ns) if gpu_times_ns else None,
        timed_launches=len(gpu_times_ns),
    )


def assemble(
    answer: dict[str, Any],
    facts: SnapshotFacts,
    driver: Driver,
    application: ApplicationFacts,
    kernels: list[str],
    given: list[str],
    options: RunOptions,
    wall_s: float,
) -> schema.RunResult:
    """The result, from what the worker answered. given: layouts of the address spaces of all workers."""

    def part(kind: type[T], name: str) -> T | None:
        return None if answer.get(name) is None else from_wire(kind, answer[name])

    timing, hot = part(Timing, "timing"), part(Timing, "hot")
    device = from_wire(DeviceFacts, answer["device"])
    window = dataclasses.replace(from_wire(WindowFacts, answer["window"]), kernels=kernels)
    placement = dataclasses.replace(
        from_wire(Placement, answer["placement"]), restarts=len(given) - 1, layouts=given
    )
    launch_times = [from_wire(LaunchTime, item) for item in answer.get("launch_times", [])]
    notes = list(answer["notes"])
    if answer["verification"]["verdict"] == "wrong" and application.device != answer["device"]["name"]:
        notes.append(
            f"captured on {application.device or 'another device'}: approximate operations and the order of atomics "
            "may differ between devices"
        )
    return schema.RunResult(
        format=schema.FORMAT,
        tool_version=__version__,
        created_utc=now_utc(),
        snapshot=facts,
        driver=DriverFacts(
            driver.name, str(driver.library), answer["driver_version"], driver.emulated, driver.reason
        ),
        device=device,
        placement=placement,
        window=window,
        verification=from_wire(Verification, answer["verification"]),
        timing=timing,
        application=application,
        notes=notes,
        best_effort=options.best_effort,
        wall_s=round(wall_s, 3),
        nodes=[from_wire(NodeTime, node) for node in answer.get("nodes", [])],
        variant=answer["variant"],
        counters=part(WindowCounters, "counters"),
        hot=hot,
        launch_times=launch_times,
        profile=part(Profile, "profile"),
        serialized=part(Serialized, "serialized"),
        restore=part(Restore, "restore"),
        fidelity=fidelity(
            launch_times,
            application,
            Conditions(
                device,
                answer["driver_version"],
                driver.emulated,
                window,
                placement,
                timing or hot,
                options.expand_graphs,
                not options.variant.changes_nothing,
            ),
        ),
        relocation=part(Relocation, "relocation"),
        trust=part(Trust, "trust"),
    )
