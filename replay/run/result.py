"""The result of a replay: what the worker answered, and what the snapshot says of itself and of the application."""

from __future__ import annotations

import dataclasses
import datetime
from typing import TYPE_CHECKING, Any

from replay import __version__
from replay.drivers import Driver
from replay.results import schema
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import identity
from replay.snapshot.schema import Call, Environment, Note, Summary, from_wire
from replay.timing.fidelity import Conditions, fidelity

if TYPE_CHECKING:
    from replay.run.parent import RunOptions


def all_of(reader: SnapshotReader, kind: type[Any], name: str) -> list[Any]:
    """Objects of one kind, in their order."""
    return [from_wire(kind, value) for value in reader.objects(name)]


def first_of(reader: SnapshotReader, kind: type[Any], name: str) -> Any:
    """The first object of a kind; None if there is none."""
    value = reader.first(name)
    return None if value is None else from_wire(kind, value)


def ended_inside(reader: SnapshotReader) -> str:
    """The call of the window that did not return in the application; "" where all did."""
    notes: list[Note] = all_of(reader, Note, "note")
    return next((f"call {note.call} {note.function}" for note in notes if note.code == "CALL_IN_FLIGHT"), "")


def snapshot_facts(reader: SnapshotReader, window: int | None) -> schema.SnapshotFacts:
    """Which file it is."""
    summary = first_of(reader, Summary, "summary")
    return schema.SnapshotFacts(
        # Results are UTF-8, which not every name of a file is.
        file=reader.path.name.encode("utf-8", "backslashreplace").decode(),
        size_bytes=reader.file_bytes,
        identity=identity(reader),
        selection=summary.selection if summary else "",
        state=summary.state if summary else "complete",
        window=window,
    )


def application_facts(reader: SnapshotReader, environment: Environment | None) -> schema.ApplicationFacts:
    """Where the window ran when it was captured, and how long."""
    first_ns = last_ns = 0
    gpu_times_ns: list[int] = []
    for value in reader.objects("call"):
        call: Call = from_wire(Call, value)
        if call.section == "window" and call.leave_ns:
            first_ns = min(first_ns or call.enter_ns, call.enter_ns)
            last_ns = max(last_ns, call.leave_ns)
        if call.section == "window" and call.gpu_ns is not None:
            gpu_times_ns.append(call.gpu_ns)
    device = environment.devices[0].name if environment and environment.devices else ""
    return schema.ApplicationFacts(
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
    facts: schema.SnapshotFacts,
    driver: Driver,
    application: schema.ApplicationFacts,
    kernels: list[str],
    given: list[str],
    options: RunOptions,
    wall_s: float,
) -> schema.RunResult:
    """The result, from what the worker answered. given: layouts of the address spaces of all workers."""
    timings = {
        name: None if answer.get(name) is None else from_wire(schema.Timing, answer[name])
        for name in ("timing", "hot")
    }
    device = from_wire(schema.DeviceFacts, answer["device"])
    window = dataclasses.replace(from_wire(schema.WindowFacts, answer["window"]), kernels=kernels)
    placement = dataclasses.replace(
        from_wire(schema.Placement, answer["placement"]), restarts=len(given) - 1, layouts=given
    )
    launch_times = [from_wire(schema.LaunchTime, item) for item in answer.get("launch_times", [])]
    notes = list(answer["notes"])
    if answer["verification"]["verdict"] == "wrong" and application.device != answer["device"]["name"]:
        notes.append(
            f"captured on {application.device or 'another device'}: approximate operations and the order of atomics "
            "may differ between devices"
        )
    return schema.RunResult(
        format=schema.FORMAT,
        tool_version=__version__,
        created_utc=datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        snapshot=facts,
        driver=schema.DriverFacts(
            driver.name, str(driver.library), answer["driver_version"], driver.emulated, driver.reason
        ),
        device=device,
        placement=placement,
        window=window,
        verification=from_wire(schema.Verification, answer["verification"]),
        timing=timings["timing"],
        application=application,
        notes=notes,
        best_effort=options.best_effort,
        wall_s=round(wall_s, 3),
        nodes=[from_wire(schema.NodeTime, node) for node in answer.get("nodes", [])],
        variant=answer["variant"],
        counters=None if answer["counters"] is None else from_wire(schema.WindowCounters, answer["counters"]),
        hot=timings["hot"],
        launch_times=launch_times,
        profile=None if answer.get("profile") is None else from_wire(schema.Profile, answer["profile"]),
        serialized=None
        if answer.get("serialized") is None
        else from_wire(schema.Serialized, answer["serialized"]),
        restore=None if answer.get("restore") is None else from_wire(schema.Restore, answer["restore"]),
        fidelity=fidelity(
            launch_times,
            application,
            Conditions(
                device,
                answer["driver_version"],
                driver.emulated,
                window,
                placement,
                timings["timing"] or timings["hot"],
                options.expand_graphs,
                not options.variant.changes_nothing,
            ),
        ),
        relocation=None
        if answer["relocation"] is None
        else from_wire(schema.Relocation, answer["relocation"]),
    )
