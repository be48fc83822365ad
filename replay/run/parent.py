"""Replays a snapshot in a fresh worker process (`supervisor.py`), in another layout where an address is taken."""

from __future__ import annotations

import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from replay.drivers import Driver, find_driver
from replay.engine.placing import layouts
from replay.engine.placing.memory import STAY_ADVICE
from replay.errors import EngineError, ReplayError, UsageError, WorkerError
from replay.fetching.whole import whole_for_worker
from replay.inspection.kernels import captured_kernels
from replay.inspection.pieces import require_contents
from replay.outputs.tolerance import Tolerance
from replay.planning.spans import is_global, plan_spans
from replay.records import dataclass
from replay.results import schema
from replay.results.preflight import Finding, Preflight
from replay.results.run.origin import DriverFacts
from replay.run.challenge import Challenge
from replay.run.isolation import WorkerLog
from replay.run.result import (
    application_facts,
    assemble,
    ended_inside,
    snapshot_facts,
)
from replay.run.supervisor import WorkerProcess
from replay.snapshot.container import SnapshotReader
from replay.snapshot.own import is_own
from replay.snapshot.schema import Environment, Kernel, Range, all_of, first_of, from_wire, to_wire
from replay.snapshot.windows import choose_window
from replay.timing.stopping import StoppingParameters
from replay.variants.model import Variant
from replay.variants.planned import Plan, plan_of

DEFAULT_TIMEOUT_S = 300.0  # without any sign of progress
MAXIMUM_RESTARTS = 4  # each gives the worker another layout of addresses
MAXIMUM_REFUSALS = 2  # by the driver, which knows nothing of the layout and will hardly change its mind


@dataclass(frozen=True)
class RunOptions:
    """How to replay. timing: None for verification only. timeout_s: without a sign of progress from the worker.

    expand_graphs: launch graphs node by node. counters: what the built-in CPU driver counts; another driver is refused.
    window: number of the one to replay, in a snapshot that has several. caches: with which the window is timed.
    serialize: also run the work of its streams one after another. profile: replay once, for a profiler; timing is None.
    relocate: whether memory may be elsewhere where its captured address cannot be reserved.
    shift: number (from 1) of the way in which all memory is moved on purpose, 0 for not at all; census: what to change
    in the pointer census (`shift.change_census`).
    dtypes: element types of buffers, by number, address or name of the buffer. tolerance: of outputs; None for what
    follows from kernels and devices. save_outputs: folder for expected and actual outputs that differ; save_all: and
    for those that are equal. log_folder: keeps what the worker says. memory_limit_bytes: the worker is killed when it
    holds more memory of the host. variant: what is changed from the
    application; a driver or device that it names goes before those here. environment: what the worker's has beside or
    instead of this process's and the variant's. trust: the snapshot may do in its worker what its user may; else the
    worker is confined, but for a profiler. untrusted: the variant may be made to deceive; vary_inputs: on how many
    other inputs it is compared with the captured kernel; challenge: what was prepared for that.
    """

    driver: str | None = None
    device: int = 0
    timing: StoppingParameters | None = dataclasses.field(default_factory=StoppingParameters)
    timeout_s: float = DEFAULT_TIMEOUT_S
    best_effort: bool = False
    expand_graphs: bool = False
    counters: bool = False
    window: int | None = None
    caches: Literal["both", "cold", "hot"] = "both"
    serialize: bool = False
    profile: bool = False
    relocate: bool = True
    shift: int = 0
    census: dict[str, list[list[int | str]]] = dataclasses.field(default_factory=dict)
    dtypes: tuple[tuple[str, str], ...] = ()
    tolerance: Tolerance | None = None
    save_outputs: Path | None = None
    save_all: bool = False
    log_folder: Path | None = None
    memory_limit_bytes: int | None = None
    variant: Variant = Variant()
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    trust: bool = False
    untrusted: bool = False
    vary_inputs: int = 0
    challenge: Challenge | None = None


def run_snapshot(
    path: str | os.PathLike[str],
    options: RunOptions,
    progress: Callable[[str], None] = lambda text: None,
    start: Callable[..., WorkerProcess] = WorkerProcess,
    plan_of: Callable[..., Plan] = plan_of,
) -> schema.RunResult:
    """Replay the snapshot once in a worker and return its result, whether its outputs match or not.

    progress: called with the step that the worker is at. start: makes the worker. plan_of: plans the variant. Raises
    ReplayError: WorkerError when the worker died or hung, EngineError when the snapshot cannot be replayed here.
    """
    begin_s = time.monotonic()
    driver = find_driver(options.variant.driver or options.driver)
    device = options.device if options.variant.device is None else options.variant.device
    if options.counters and not driver.emulated:
        raise EngineError("only the built-in CPU driver counts instructions and memory accesses", where=driver.library,
                          next="add --driver emulator, or use a profiler on this driver")  # fmt: skip
    with SnapshotReader(path) as reader:
        reader.require_whole()
        own = is_own(reader)
        if options.profile and not (own or options.trust):
            raise UsageError(
                "the worker cannot be confined with a profiler inside, and somebody else may have made this snapshot",
                where=path,
                next="add --trust to let it do all that you may do",
            )
        choose_window(reader, options.window)
        facts = snapshot_facts(reader, options.window)
        require_contents(reader)
        environment = first_of(reader, Environment)
        application = application_facts(reader, environment)
        kernels = [kernel.demangled or kernel.name for kernel in all_of(reader, Kernel)]
        ended = ended_inside(reader)
        made_of = captured_kernels(reader)
        ranges = list(all_of(reader, Range))
        spans = plan_spans(ranges)
        plan = plan_of(options.variant, reader, driver, device, progress, options.untrusted)
        whole, opened = whole_for_worker(reader, progress)
    dtypes = declared_types(ranges, options.dtypes)
    request = {
        "snapshot": whole,
        "spans": [list(dataclasses.astuple(span)) for span in spans],
        "device": device,
        "emulated": driver.emulated,
        "library": str(driver.library),
        "confine": not options.trust and not options.profile,
        "best_effort": options.best_effort,
        "expand_graphs": options.expand_graphs,
        "relocate": False,
        "must_stay": not options.relocate,
        "hold": True,
        "counters": options.counters,
        "window": options.window,
        "shift": options.shift,
        "variables": [[item.address, item.size_bytes] for item in ranges if is_global(item)]
        if options.shift
        else [],
        "census": options.census,
        "dtypes": dtypes,
        "tolerance": None if options.tolerance is None else dataclasses.asdict(options.tolerance),
        "save_outputs": None if options.save_outputs is None else str(options.save_outputs.absolute()),
        "save_all": options.save_all,
        "timing": None if options.timing is None else dataclasses.asdict(options.timing),
        "caches": options.caches,
        "serialize": options.serialize,
        "profile": options.profile,
    }
    parts = ["worker", options.window, f"shift-{options.shift}" if options.shift else None]
    log = WorkerLog(options.log_folder, "-".join(str(part) for part in parts if part is not None))
    try:
        with plan.request() as (request["variant"], inherited), _challenged(options) as (told, files):
            request["challenge"] = told
            answer, given = _ask_workers(
                request, driver, options, progress, log, (*inherited, *files, *opened), own, start
            )
    except ReplayError as error:
        if error.where == whole:
            error.where = os.fspath(path)  # as it was named
        if isinstance(error, WorkerError) and ended:
            error.what += f"; the application, too, ended inside {ended}"
        raise
    finally:
        log.close()
    answer["variant"], answer["notes"] = plan.facts, [*plan.notes, *answer["notes"]]
    if answer.get("trust") is not None:
        answer["trust"]["checks"] = [*to_wire(list(plan.checks)), *answer["trust"]["checks"]]
    result = assemble(answer, facts, driver, application, kernels, given, options, time.monotonic() - begin_s)
    return dataclasses.replace(result, kernels=made_of)


@contextmanager
def _challenged(options: RunOptions) -> Iterator[tuple[dict[str, Any] | None, tuple[int, ...]]]:
    if options.challenge is None:
        yield None, ()
        return
    with options.challenge.request() as asked:
        yield asked


def dry_run(
    path: str | os.PathLike[str], options: RunOptions, progress: Callable[[str], None] = lambda text: None
) -> Preflight:
    """What the driver and the device lack for a snapshot. Nothing of it is executed. Raises as `run_snapshot`."""
    driver = find_driver(options.variant.driver or options.driver)
    device = options.device if options.variant.device is None else options.variant.device
    with SnapshotReader(path) as reader:
        reader.require_whole()
        choose_window(reader, options.window)
        facts = snapshot_facts(reader, options.window)
        plan = plan_of(options.variant, reader, driver, device, progress)
        whole, opened = whole_for_worker(reader, progress)
    request = {
        "dry_run": True,
        "replaced": [item.digest for item in plan.replacements if not item.second],
        "snapshot": whole,
        "device": device,
        "emulated": driver.emulated,
        "window": options.window,
    }
    log = WorkerLog(options.log_folder, "worker")
    try:
        answer, _ = _ask_workers(request, driver, options, progress, log, opened)
    finally:
        log.close()
    findings = [from_wire(Finding, item) for item in answer["findings"]]
    if plan.facts is not None:  # one that does not fit has ended this already
        findings.append(Finding("variant", plan.facts.text, "its interface fits", "ok"))
    return Preflight(
        facts,
        DriverFacts(
            driver.name, str(driver.library), answer["driver_version"], driver.emulated, driver.reason
        ),
        answer["device"],
        device,
        findings,
        all(item.state != "lacking" for item in findings),
    )


def _ask_workers(
    request: dict[str, Any],
    driver: Driver,
    options: RunOptions,
    progress: Callable[[str], None],
    log: WorkerLog,
    inherited: tuple[int, ...] = (),
    own: bool = False,
    start: Callable[..., WorkerProcess] = WorkerProcess,
) -> tuple[dict[str, Any], list[str]]:
    """The result, and the layouts of the address spaces of all workers; but in the last one an address was taken.
    own: this user captured the snapshot, so that a worker without randomisation may follow."""
    restarts = refusals = 0
    order = layouts.ORDER if options.trust or own else layouts.RANDOMISED_ORDER
    given: list[str] = []
    while True:
        last = restarts >= MAXIMUM_RESTARTS or refusals >= MAXIMUM_REFUSALS
        request["relocate"] = last and options.relocate
        layout = order[restarts % len(order)]
        worker = start(
            request,
            driver,
            options.timeout_s,
            progress,
            options.memory_limit_bytes,
            log,
            layout,
            inherited,
            {**dict(options.variant.environment), **options.environment},
        )
        try:
            answer = worker.run()
        except BaseException as error:
            _tell(worker.unconfined)
            log.step(f"ended: {error or type(error).__name__}")
            raise
        _tell(worker.unconfined)
        given.append(worker.layout)
        if answer is not None:
            log.step("ended with a result")
            notes = [*answer["notes"], *worker.unconfined, *([log.problem] if log.problem else [])]
            return {**answer, "notes": notes}, given
        if last:
            raise EngineError(f"memory cannot be placed as captured: {worker.taken}", where=request["snapshot"],
                              next=STAY_ADVICE)  # fmt: skip
        log.step("an address is taken, another worker tries")
        restarts += 1
        refusals += worker.refused_by_driver
        if worker.refused_at_start:
            request["hold"] = False


_told: set[str] = set()


def _tell(texts: list[str]) -> None:
    """Once in a command, however many replays it makes."""
    for text in texts:
        if text not in _told:
            _told.add(text)
            print(f"replay: {text}", file=sys.stderr)


def declared_types(ranges: list[Range], dtypes: tuple[tuple[str, str], ...]) -> list[tuple[int, str]]:
    """(range id, type name) of `--dtype BUF=TYPE`. Raises UsageError for a buffer or type that does not exist."""
    if not dtypes:
        return []
    from replay.inspection.dump import choose_ranges
    from replay.outputs.elements import element_type

    return [
        (range_.id, element_type(name, f"--dtype {selector}={name}").name)
        for selector, name in dtypes
        for range_ in choose_ranges(ranges, [selector], "--dtype")
    ]
