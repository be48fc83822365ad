"""Replays a snapshot in a fresh worker process and watches over it. Never loads CUDA into this process.

A worker that hangs, faults, holds too much memory or is killed becomes a WorkerError; nothing of it is left behind: it
runs in a process group of its own, leaves no core file and no temporary file, and dies with this process.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import json
import os
import selectors
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from blake3 import blake3

from replay import __version__, settings
from replay.compare.tolerance import Tolerance
from replay.drivers import SONAME, Driver, find_driver
from replay.engine.isolation import SAMPLE_INTERVAL_S, MemoryWatch, WorkerLog
from replay.engine.placing import layouts
from replay.engine.placing.memory import STAY_ADVICE, is_global, plan_spans
from replay.errors import EngineError, ExitCode, GateFailed, ReplayError, TruncatedError, WorkerError
from replay.results import schema
from replay.results.preflight import Finding, Preflight
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Environment, Kernel, Range, Summary, from_wire
from replay.snapshot.windows import choose_window
from replay.timing.fidelity import Conditions, fidelity
from replay.timing.stopping import StoppingParameters
from replay.variants.model import Variant
from replay.variants.plan import plan_variant

DEFAULT_TIMEOUT_S = 300.0  # without any sign of progress
MAXIMUM_RESTARTS = 4  # each gives the worker another layout of addresses
MAXIMUM_REFUSALS = 2  # by the driver, which knows nothing of the layout and will hardly change its mind
MAXIMUM_RESULT_BYTES = 256 << 20  # of one message
_LOG_LINES = 40
_CPU_DRIVER = "replay CPU driver: "  # how the built-in driver's messages begin
_TRAILER_BYTES = 4096

# The worker must find the same modules as this process, whatever the current folder holds.
_BOOTSTRAP = "import sys; sys.path[:] = {path!r}; from replay.engine.worker import main; main()"


@dataclass(frozen=True)
class RunOptions:
    """How to replay. timing: None for verification only. timeout_s: without a sign of progress from the worker.

    expand_graphs: launch graphs node by node. counters: what the built-in CPU driver counts; another driver is refused.
    window: number of the one to replay, in a snapshot that has several. caches: with which the window is timed.
    serialize: also run the work of its streams one after another. profile: replay once, for a profiler; timing is None.
    relocate: whether memory may be elsewhere where its captured address cannot be had.
    shift: number (from 1) of the way in which all memory is moved on purpose, 0 for not at all; census: what to change
    in the pointer census (`shift.change_census`).
    dtypes: element types of buffers, by number, address or name of the buffer. tolerance: of outputs; None for what
    follows from kernels and devices. save_outputs: folder for expected and actual outputs that differ; save_all: and
    for those that are equal. log_folder: keeps what the worker says. memory_limit_bytes: the worker is killed when it
    holds more memory of the host. variant: what is done otherwise than in the
    application; a driver or device that it names goes before those here. environment: what the worker's has beside or
    instead of this process's and the variant's.
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


def run_snapshot(
    path: str | os.PathLike[str], options: RunOptions, progress: Callable[[str], None] = lambda text: None
) -> schema.RunResult:
    """Replay the snapshot once in a worker and return its result, whether its outputs match or not.

    progress: called with the step that the worker is at. Raises ReplayError: WorkerError when the worker died or hung,
    EngineError when the snapshot cannot be replayed here.
    """
    begin_s = time.monotonic()
    driver = find_driver(options.variant.driver or options.driver)
    device = options.device if options.variant.device is None else options.variant.device
    if options.counters and not driver.emulated:
        raise EngineError("only the built-in CPU driver counts instructions and memory accesses", where=driver.library,
                          next="add --driver emulator, or use a profiler on this driver")  # fmt: skip
    with SnapshotReader(path) as reader:
        if not reader.condition.whole:
            raise TruncatedError(f"ends early, or its index is damaged: {reader.condition}", where=path,
                               next="make it again with `replay pack`, or get the file again")  # fmt: skip
        choose_window(reader, options.window)
        facts = _snapshot_facts(reader, options.window)
        environment = _first(reader, Environment, "environment")
        application = _application(reader, environment)
        kernels = [kernel.demangled or kernel.name for kernel in _all(reader, Kernel, "kernel")]
        ranges = _all(reader, Range, "range")
        spans = plan_spans(ranges)
        plan = plan_variant(options.variant, reader, driver, device, progress)
    dtypes = declared_types(ranges, options.dtypes)
    request = {
        "snapshot": str(Path(path).absolute()),
        "spans": [list(dataclasses.astuple(span)) for span in spans],
        "device": device,
        "emulated": driver.emulated,
        "best_effort": options.best_effort,
        "expand_graphs": options.expand_graphs,
        "relocate": False,
        "must_stay": not options.relocate,
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
        with plan.request() as (request["variant"], inherited):
            answer, given = _ask_workers(request, driver, options, progress, log, inherited)
    finally:
        log.close()
    answer["variant"], answer["notes"] = plan.facts, [*plan.notes, *answer["notes"]]
    return _result(answer, facts, driver, application, kernels, given, options, time.monotonic() - begin_s)


def dry_run(
    path: str | os.PathLike[str], options: RunOptions, progress: Callable[[str], None] = lambda text: None
) -> Preflight:
    """What the driver and the device lack for a snapshot. Nothing of it is executed. Raises as `run_snapshot`."""
    driver = find_driver(options.variant.driver or options.driver)
    device = options.device if options.variant.device is None else options.variant.device
    with SnapshotReader(path) as reader:
        if not reader.condition.whole:
            raise TruncatedError(f"ends early, or its index is damaged: {reader.condition}", where=path,
                               next="make it again with `replay pack`, or get the file again")  # fmt: skip
        choose_window(reader, options.window)
        facts = _snapshot_facts(reader, options.window)
        plan = plan_variant(options.variant, reader, driver, device, progress)
    request = {
        "dry_run": True,
        "replaced": [item.digest for item in plan.replacements if not item.second],
        "snapshot": str(Path(path).absolute()),
        "device": device,
        "emulated": driver.emulated,
        "window": options.window,
    }
    log = WorkerLog(options.log_folder, "worker")
    try:
        answer, _ = _ask_workers(request, driver, options, progress, log)
    finally:
        log.close()
    findings = [from_wire(Finding, item) for item in answer["findings"]]
    if plan.facts is not None:  # one that does not fit has ended this already
        findings.append(Finding("variant", plan.facts.text, "its interface fits", "ok"))
    return Preflight(
        facts,
        schema.DriverFacts(
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
) -> tuple[dict[str, Any], list[str]]:
    """The result, and the layouts of the address spaces of all workers; but in the last one an address was taken."""
    restarts = refusals = 0
    given: list[str] = []
    while True:
        last = restarts >= MAXIMUM_RESTARTS or refusals >= MAXIMUM_REFUSALS
        request["relocate"] = last and options.relocate
        layout = layouts.ORDER[restarts % len(layouts.ORDER)]
        worker = Worker(
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
            log.step(f"ended: {error or type(error).__name__}")
            raise
        given.append(worker.layout)
        if answer is not None:
            log.step("ended with a result")
            notes = [*answer["notes"], *([log.problem] if log.problem else [])]
            return {**answer, "notes": notes}, given
        if last:
            raise EngineError(f"memory cannot be had where it was captured: {worker.taken}", where=request["snapshot"],
                              next=STAY_ADVICE)  # fmt: skip
        log.step("an address is taken, another worker tries")
        restarts += 1
        refusals += worker.refused_by_driver


def declared_types(ranges: list[Range], dtypes: tuple[tuple[str, str], ...]) -> list[tuple[int, str]]:
    """(range id, type name) of `--dtype BUF=TYPE`. Raises UsageError for a buffer or type that does not exist."""
    if not dtypes:
        return []
    from replay.compare.elements import element_type
    from replay.inspection.dump import choose_ranges

    return [
        (range_.id, element_type(name, f"--dtype {selector}={name}").name)
        for selector, name in dtypes
        for range_ in choose_ranges(ranges, [selector], "--dtype")
    ]


class Worker:
    """One worker process: started, watched, and gone when `run` returns, whatever happens."""

    def __init__(
        self,
        request: dict[str, Any],
        driver: Driver,
        timeout_s: float,
        progress: Callable[[str], None],
        memory_limit_bytes: int | None = None,
        log: WorkerLog | None = None,
        layout: str = layouts.ORDER[0],
        inherited: tuple[int, ...] = (),
        environment: dict[str, str] | None = None,
    ) -> None:
        """inherited: open files that the request names. environment: beside or instead of this process's."""
        self._environment = environment or {}
        self._inherited = inherited
        self._memory_limit_bytes = memory_limit_bytes
        self._kept = log or WorkerLog(None, "")
        self.layout = layout  # of its address space: what is asked for, and when it runs what it got
        self._request = request
        self._driver = driver
        self._timeout_s = timeout_s
        self._progress = progress
        self._stage = "starting"
        self.refused_by_driver = False
        self.taken = ""  # which address, and why
        self._log: deque[str] = deque(maxlen=_LOG_LINES)
        self._partial_line = b""

    def run(self) -> dict[str, Any] | None:
        """The worker's result; None when an address was taken and another worker should try. Raises ReplayError."""
        read_end, write_end = os.pipe()
        try:
            process = self._start(write_end)
        except OSError as error:
            os.close(read_end)
            raise WorkerError(
                f"the worker cannot be started ({error.strerror})", where=sys.executable
            ) from None
        finally:
            os.close(write_end)
        try:
            answer = self._watch(process, read_end)
            if self._request.get("profile"):
                self._let_end(process)
            return answer
        finally:
            os.close(read_end)
            _end(process)

    def _start(self, write_end: int) -> subprocess.Popen[bytes]:
        request = {**self._request, "parent": os.getpid(), "descriptor": write_end}
        path = [entry for entry in sys.path if entry]
        with layouts.started_in(self.layout) as self.layout:
            process = subprocess.Popen(
                [sys.executable, "-c", _BOOTSTRAP.format(path=path)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env={**worker_environment(self._driver), **self._environment},
                pass_fds=(write_end, *self._inherited),
                start_new_session=True,
            )
        assert process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it died at once; the watch will say how
            process.stdin.write(json.dumps(request).encode())
            process.stdin.close()
        return process

    def _watch(self, process: subprocess.Popen[bytes], read_end: int) -> dict[str, Any] | None:
        assert process.stdout is not None
        pending = bytearray()
        last_sign_s = time.monotonic()
        memory = MemoryWatch(process.pid, self._memory_limit_bytes)
        with selectors.DefaultSelector() as selector:
            selector.register(read_end, selectors.EVENT_READ)
            selector.register(process.stdout, selectors.EVENT_READ)
            while True:
                left_s = self._timeout_s - (time.monotonic() - last_sign_s)
                if left_s <= 0:
                    raise self._hung()
                if held := memory.exceeded():
                    raise self._too_large(held, memory.limit_bytes)
                for key, _ in selector.select(min(left_s, SAMPLE_INTERVAL_S)):
                    data = os.read(key.fd, 1 << 20)
                    if key.fd != read_end:
                        # What a kernel prints is no sign of progress.
                        self._take_log(data)
                        if not data:
                            selector.unregister(key.fileobj)
                        continue
                    if not data:
                        raise self._died(process)
                    last_sign_s = time.monotonic()
                    pending += data
                    if len(pending) > MAXIMUM_RESULT_BYTES:
                        raise WorkerError("the worker's result is larger than any can be", next="report this")
                    *lines, rest = pending.split(b"\n")
                    pending = bytearray(rest)
                    for line in lines:
                        message = json.loads(line)
                        if "result" in message:
                            self._drain_log(process)
                            result = dict(message["result"])
                            return {**result, "notes": [*result["notes"], *self._said()]}
                        if "taken" in message:
                            self.refused_by_driver = bool(message["by_driver"])
                            self.taken = str(message["taken"])
                            return None
                        if "error" in message:
                            self._drain_log(process)
                            self._show_log()
                            raise _error(message["error"], self._said())
                        self._stage = message.get("stage", self._stage)
                        self._kept.step(self._stage)
                        self._progress(str(message.get("progress", self._stage)))

    def _let_end(self, process: subprocess.Popen[bytes]) -> None:
        """A profiler writes what it has seen when the process ends; so this one ends by itself."""
        deadline_s = time.monotonic() + self._timeout_s
        while process.poll() is None and time.monotonic() < deadline_s:
            self._drain_log(process)
            time.sleep(0.01)

    def _take_log(self, data: bytes, end: bool = False) -> None:
        self._kept.printed(data)
        data += b"\n" if end else b""
        *lines, self._partial_line = (self._partial_line + data).split(b"\n")
        self._partial_line = self._partial_line[-4096:]
        self._log.extend(line[-4096:].decode("utf-8", "replace") for line in lines)

    def _drain_log(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        os.set_blocking(process.stdout.fileno(), False)
        with contextlib.suppress(BlockingIOError):
            while data := os.read(process.stdout.fileno(), 1 << 16):
                self._take_log(data)
        self._take_log(b"", end=True)

    def _said(self) -> list[str]:
        """What the CPU driver wrote about an error: each message with its indented continuation."""
        found: list[str] = []
        speaking = False
        for line in self._log:
            if line.startswith(_CPU_DRIVER):
                speaking = True
                found.append(line)
            elif speaking and line.startswith(" "):
                found[-1] += f", {line.strip()}"
            else:
                speaking = False
        return list(dict.fromkeys(found))

    def _show_log(self) -> None:
        if settings.TRACEBACK.value():
            print("\n".join(self._log), file=sys.stderr)

    def _hung(self) -> WorkerError:
        return WorkerError(
            f"the worker made no progress for {self._timeout_s:g} s while {self._stage}, and was killed",
            where=self._request["snapshot"],
            next="a kernel may wait for something that is not in the snapshot; --timeout allows more time",
        )

    def _too_large(self, held: int, limit: int) -> WorkerError:
        return WorkerError(
            f"the worker held {held >> 20} MiB of the host's memory while {self._stage}, more than the limit of "
            f"{limit >> 20} MiB, and was killed",
            where=self._request["snapshot"],
            next="--memory-limit SIZE allows more; on the CPU driver, device memory is memory of the host",
        )

    def _died(self, process: subprocess.Popen[bytes]) -> WorkerError:
        try:
            status = process.wait(5)
        except subprocess.TimeoutExpired:
            status = 0
        self._drain_log(process)
        self._show_log()
        if status < 0:
            name = signal.Signals(-status).name if -status in list(signal.Signals) else f"signal {-status}"
            how = f"was ended by {name}"
        else:
            how = f"ended with status {status} and without a result"
        said = next((line for line in reversed(self._log) if line.strip()), "")
        advice = {
            signal.SIGKILL: "it may have been killed for its use of memory",
            signal.SIGSEGV: "the driver faulted; try another with --driver, and report this with the snapshot",
        }
        return WorkerError(
            f"the worker {how} while {self._stage}" + (f"; it said: {said[:300]}" if said else ""),
            where=self._request["snapshot"],
            next=advice.get(signal.Signals(-status)) if -status in list(signal.Signals) else None,
        )


def worker_environment(driver: Driver) -> dict[str, str]:
    """The environment in which the worker's loader finds `driver`, and nothing is captured."""
    environment = dict(os.environ)
    preloaded = [item for item in environment.pop("LD_PRELOAD", "").replace(":", " ").split()
                 if "libreplay_interposer" not in item]  # fmt: skip
    for name in [name for name in environment if name.startswith("REPLAY_CAPTURE_")]:
        del environment[name]
    if driver.folder is not None:
        before = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = f"{driver.folder}:{before}" if before else str(driver.folder)
        if driver.library.name != SONAME:
            preloaded.append(str(driver.library))  # its soname satisfies every later search for libcuda.so.1
    if preloaded:
        environment["LD_PRELOAD"] = " ".join(preloaded)
    return environment


def _end(process: subprocess.Popen[bytes]) -> None:
    """Nothing of the worker's process group is left afterwards."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)  # start_new_session made it the leader of its group
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def _error(message: dict[str, Any], said: list[str]) -> ReplayError:
    kind = GateFailed if message["code"] == ExitCode.GATE_FAILED else EngineError
    what = message["what"] + (f" ({said[-1].removeprefix(_CPU_DRIVER)})" if said else "")
    return kind(what, where=message["where"], next=message["next"])


def _all(reader: SnapshotReader, kind: type[Any], name: str) -> list[Any]:
    return [from_wire(kind, value) for value in reader.objects(name)]


def _first(reader: SnapshotReader, kind: type[Any], name: str) -> Any:
    value = reader.first(name)
    return None if value is None else from_wire(kind, value)


def _snapshot_facts(reader: SnapshotReader, window: int | None) -> schema.SnapshotFacts:
    # The end of the file holds the digest of its index, which holds the digest of every frame.
    with open(reader.path, "rb") as file:
        file.seek(max(0, reader.file_bytes - _TRAILER_BYTES))
        identity = blake3(file.read(_TRAILER_BYTES)).hexdigest(length=16)
    summary = _first(reader, Summary, "summary")
    return schema.SnapshotFacts(
        file=reader.path.name,
        size_bytes=reader.file_bytes,
        identity=identity,
        selection=summary.selection if summary else "",
        state=summary.state if summary else "complete",
        window=window,
    )


def _application(reader: SnapshotReader, environment: Environment | None) -> schema.ApplicationFacts:
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


def _result(
    answer: dict[str, Any],
    facts: schema.SnapshotFacts,
    driver: Driver,
    application: schema.ApplicationFacts,
    kernels: list[str],
    given: list[str],
    options: RunOptions,
    wall_s: float,
) -> schema.RunResult:
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
            ),
        ),
        relocation=None
        if answer["relocation"] is None
        else from_wire(schema.Relocation, answer["relocation"]),
    )


__all__ = ["RunOptions", "Worker", "run_snapshot", "worker_environment"]
