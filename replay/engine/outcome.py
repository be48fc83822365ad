"""What the worker does with a session, and the result that it reports: plain maps of `results/schema.py`."""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from replay.api.functions import by_symbol
from replay.api.vocabulary import Effect
from replay.engine.challenge.challenges import Challenges
from replay.engine.challenge.varied import open_varied
from replay.engine.checking.comparing import Comparing
from replay.engine.checking.parameters import check_parameters
from replay.engine.checking.readings import Readings, ReplayDevice
from replay.engine.checking.verified import Verified
from replay.engine.checking.verifying import Verifier
from replay.engine.confinement import confine
from replay.engine.driver import Driver, management_library
from replay.engine.execution.lanes import is_launch, is_work, lane_of
from replay.engine.measuring.counters import SETTING, read_counters
from replay.engine.measuring.profiling import replay_for_profiler
from replay.engine.measuring.stamps import warm_up
from replay.engine.measuring.timed import Timed, time_session
from replay.engine.messages import Messages
from replay.engine.preflight.findings import judge, look, refuse
from replay.engine.program import Program
from replay.engine.relocation.placement import MovedWords, placement
from replay.engine.relocation.shift import change_census
from replay.engine.session import (
    ATTRIBUTE_BUS_BITS,
    ATTRIBUTE_L2_BYTES,
    ATTRIBUTE_MAJOR,
    ATTRIBUTE_MINOR,
    ATTRIBUTE_MULTIPROCESSORS,
    MAXIMUM_RESULT_NOTES,
    Session,
)
from replay.engine.variants import read_changes
from replay.errors import EngineError
from replay.inspection.requirements import find_requirements
from replay.outputs.comparison import BufferComparison, found_errors
from replay.outputs.elements import TYPES
from replay.outputs.tolerance import Tolerance
from replay.planning.families import GRANULE_BYTES
from replay.planning.spans import Span
from replay.results.run.origin import DeviceFacts, WindowFacts
from replay.results.run.timing import NodeTime
from replay.results.run.verification import (
    OutputDifference,
    OutputElements,
    OutputMismatch,
    OutputTolerance,
    Verification,
)
from replay.snapshot.container import SnapshotReader
from replay.snapshot.doubts import doubts
from replay.snapshot.schema import to_wire
from replay.timing.clocks import Clocks

_CHANGES_NOTHING = (
    "the captured window leaves all memory as it found it, so outputs that match do not show that the variant does its "
    "work: --untrusted fills them with other bytes first"
)

if TYPE_CHECKING:
    from replay.engine.checking.saving import OutputSaver

MAXIMUM_ERROR_MAPS = 16  # buffers of a result that say where they differ


def execute_request(
    driver: Driver,
    reader: SnapshotReader,
    request: dict[str, Any],
    spans: list[Span],
    taken: dict[Span, str],
    messages: Messages,
    targets: dict[Span, int] | None = None,
) -> dict[str, Any]:
    """Verify and time the snapshot as `request` asks. Returns the parts of a RunResult that the worker knows.

    targets: where the spans go in a replay with all memory moved; None: to their captured addresses."""
    messages.stage("reading the snapshot")
    changes = read_changes(request.get("variant"))
    program = Program(reader, request["best_effort"], request.get("expand_graphs", False), changes)
    program.untrusted = request.get("challenge") is not None
    if request.get("census"):
        change_census(program, request["census"])
    messages.stage("looking at what the snapshot needs")
    needs = find_requirements(reader, known=program.kinds())
    replaced = {item.digest for item in changes.replacements if not item.second}
    needs = replace(needs, images=[image for image in needs.images if image.digest not in replaced])
    here = look(driver, request["device"], request["emulated"], needs, memory=False)
    refuse(judge(needs, here), reader.path, request["best_effort"], program.left_out.append)
    # What they open, they open before the worker is confined.
    management = None if request["emulated"] else management_library()
    saver = None
    if request.get("save_outputs"):
        from replay.engine.checking.saving import OutputSaver

        saver = OutputSaver.into(request["save_outputs"], request.get("save_all", False))
    asked = request.get("challenge")
    challenges = Challenges(asked, open_varied(asked, request["window"]) if asked else ())
    session = Session(
        driver,
        program,
        device=request["device"],
        spans=spans,
        taken=taken,
        relocate=request["relocate"],
        targets=targets,
        stage=messages.stage,
        progress=messages.progress,
        confine=lambda: _confine(driver, request, messages),
    )
    check_parameters(session)
    _refuse_unknown_state(session, request)
    device = device_facts(driver, session.device, session.devices.ordinal)
    clocks = Clocks(management, device["uuid"])
    moved_words = MovedWords()
    readings = Readings(
        program,
        {number: TYPES[name] for number, name in request.get("dtypes", [])},
        tolerance_of(request.get("tolerance")),
        ReplayDevice(request["emulated"], device["compute_capability"]),
    )
    comparing = Comparing(session, readings, moved_words.add)
    verifier = Verifier(session, comparing, saver)
    if request["timing"] is not None:
        session.contents.copies.remember_loaded()
    profile = None
    challenges.begin(session, comparing, verifier)
    if request.get("profile"):
        verified, profile = replay_for_profiler(session, verifier)
    else:
        verified = verifier.verify()
    # Before the window runs on other inputs, which is counted as well.
    counters = read_counters(Path(os.environ[SETTING]), verified.replays) if request["counters"] else None
    if not request.get("profile"):
        challenges.try_inputs(verified)
    differing_digest = moved_words.digest  # before timing, which compares once more
    if saver is not None:
        saver.finish()
    timed = Timed()
    nodes: list[NodeTime] = []
    notes = list(session.notes) + program.left_out + list(dict.fromkeys(verified.refused))
    notes += saver.skipped if saver is not None else []
    matches = verified.verdict == "match" and program.varied
    if matches and program.ranges and not challenges.there and not _leaves_anything(program):
        notes.append(_CHANGES_NOTHING)
    if request["timing"] is not None:
        if not verified.not_timed:
            timed = time_session(session, comparing, verified, clocks, request, messages, challenges)
            notes += timed.notes
            if program.expand_graphs and timed.can_go_on:
                nodes = time_nodes(session, messages)
            # Of wrong outputs, random bytes that were not written differ each time.
            if timed.can_go_on and not (challenges.there and verified.verdict == "wrong"):
                challenges.run_plainly()
                verifier.verify_again(verified)
        else:
            notes.append(f"not timed: {verified.not_timed}")
    facts = window_facts(session)
    challenges.judge_times(timed.cold, timed.hot, facts.launches, emulated=request["emulated"])
    if program.fault is not None and not session.memory.ends.active and program.ranges:
        notes.append(
            f"memory is placed in pieces of {GRANULE_BYTES >> 20} MiB here, so an access just past the end of an "
            "allocation need not fault; on the built-in CPU driver allocations end where they did"
        )
    if timed.restore is None:  # which says the same
        notes += session.found_written
    if count := verified.handle_words:
        what = "1 word of the outputs holds" if count == 1 else f"{count:,} words of the outputs hold"
        notes.append(f"{what} the handle of a texture or surface object, which has another one here")
    if (count := verified.guessed_words) and targets is None:
        what = "1 word of the outputs was taken for a pointer" if count == 1 else ""
        what = what or f"{count:,} words of the outputs were taken for pointers"
        notes.append(f"{what} to moved memory (a guess)")
    state = clocks.state()
    notes += capture_notes(session)
    verified.doubt(
        [*doubts(session.program.notes, session.program.ranges.values()), *program.doubts],
        varied=program.varied,
        threads=len({item.thread for item in program.kinds()}),
    )
    if verified.host_text and verified.verdict == "match":
        notes.append(verified.host_text)
    return {
        "driver_version": driver.cuDriverGetVersion(),
        "device": to_wire(DeviceFacts(**device, clocks=state, clocks_unavailable=clocks.unavailable)),
        "placement": to_wire(placement(session)),
        "relocation": None
        if targets is None
        else to_wire(moved_words.outcome(session, verified, request["shift"])),
        "window": to_wire(facts),
        "timing": to_wire(timed.cold),
        "hot": to_wire(timed.hot),
        "launch_times": to_wire(timed.launches),
        "serialized": to_wire(timed.serialized),
        "profile": to_wire(profile),
        "restore": to_wire(timed.restore),
        "verification": to_wire(
            replace(verification(verified, readings.applied, saver), differing_digest=differing_digest)
        ),
        "notes": notes,
        "nodes": to_wire(nodes),
        "counters": to_wire(counters),
        "trust": to_wire(challenges.facts(timed.cold is not None or timed.hot is not None)),
    }


def _leaves_anything(program: Program) -> bool:
    """Whether the captured window changes any memory that is compared."""
    return any(item.after is not None for item in program.ranges.values())


def _refuse_unknown_state(session: Session, request: dict[str, Any]) -> None:
    """A variant whose own variables cannot be restored would be timed from what its last run left in them. Of captured
    modules, the capture told which variables it did not find."""
    names = session.variables_not_found
    if names and session.program.varied and request["timing"] is not None:
        raise EngineError(
            f"the variant cannot be timed: the driver does not find its variable {names[0]} by name"
            + (f" (and {len(names) - 1} more)" if len(names) > 1 else "")
            + ", so what one run leaves in it would be there in the next",
            next="declare it without `static` (in PTX, .visible), or check only the outputs with --no-timing",
        )


def _confine(driver: Driver, request: dict[str, Any], messages: Messages) -> None:
    """Confines this process unless the request leaves that out, and tells what could not be confined."""
    if not request["confine"]:
        return
    if not request["emulated"]:
        warm_up(driver)
    results = [Path(request["save_outputs"])] if request.get("save_outputs") else []
    for name in (
        SETTING,
        "REPLAY_EMULATOR_TOUCHED",
        "REPLAY_EMULATOR_FINDINGS",
        "CUDA_LOG_FILE",
    ):  # files that the driver writes for the user, who named them
        if path := os.environ.get(name):
            if name != "CUDA_LOG_FILE":
                path = path.replace("%p", str(os.getpid()))  # as the CPU driver does
            with suppress(OSError):
                Path(path).touch()
                results.append(Path(path))
    messages.send(unconfined=confine(Path(request["library"]), results))


def device_facts(driver: Driver, device: int, ordinal: int) -> dict[str, Any]:
    """Name, capability and size of the device."""
    name = ctypes.create_string_buffer(256)
    driver.cuDeviceGetName(name, 256, device)
    uuid = ctypes.create_string_buffer(16)
    driver.cuDeviceGetUuid_v2(uuid, device)
    text = uuid.raw.hex()

    def attribute(number: int) -> int:
        return int(driver.cuDeviceGetAttribute(number, device))

    return {
        "ordinal": ordinal,
        "name": name.value.decode("utf-8", "replace"),
        "compute_capability": f"{attribute(ATTRIBUTE_MAJOR)}.{attribute(ATTRIBUTE_MINOR)}",
        "uuid": f"GPU-{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}",
        "total_memory_bytes": driver.cuDeviceTotalMem_v2(device),
        "multiprocessors": attribute(ATTRIBUTE_MULTIPROCESSORS),
        "l2_cache_bytes": attribute(ATTRIBUTE_L2_BYTES),
        "memory_bus_bits": attribute(ATTRIBUTE_BUS_BITS),
    }


def window_facts(session: Session) -> WindowFacts:
    """What was replayed."""
    launches = [(item, count) for item, _, _, count in session.window.kinds() if is_launch(item)]
    return WindowFacts(
        calls=len(session.program.window),
        # A graph launches every kernel in it; how many were switched on is known from the capture.
        launches=sum(
            sum(item.call.kernels.values())
            if by_symbol()[item.call.function].effect == Effect.GRAPH_LAUNCH
            else count
            for item, count in launches
        ),
        kernels=[],
        skipped_calls=session.skipped,
        threads=len({call_.thread for call_ in session.program.window.kinds()}),
        streams=len({lane_of(item) for item, *_ in session.window.kinds() if is_work(item)}),
    )


def tolerance_of(value: dict[str, Any] | None) -> Tolerance | None:
    """What the request says of it."""
    if value is None:
        return None
    return Tolerance(**{**value, "reasons": tuple(value["reasons"]), "kernels": tuple(value["kernels"])})


def verification(
    verified: Verified, tolerance: Tolerance | None = None, saver: OutputSaver | None = None
) -> Verification:
    """The comparison as it is reported."""
    different = [item for item in verified.comparisons if not item.equal]
    return Verification(
        verdict=verified.verdict,  # type: ignore[arg-type]
        buffers=len(verified.comparisons),
        compared_bytes=sum(item.compared_bytes for item in verified.comparisons),
        differing_bytes=sum(item.differing_bytes for item in different),
        differences=[_difference(item, at < MAXIMUM_ERROR_MAPS) for at, item in enumerate(different)],
        results=verified.results,
        unverified=verified.unverified,
        reason=verified.reason,
        replays=verified.replays,
        tolerance=_tolerance(tolerance),
        within_tolerance=verified.within_tolerance,
        varying=verified.varying,
        saved=list(saver.saved) if saver is not None else [],
        fault=verified.fault,
        no_outputs=verified.no_outputs,
    )


def _tolerance(item: Tolerance | None) -> OutputTolerance | None:
    if item is None or item.bitwise:
        return None
    return OutputTolerance(
        item.ulp, item.relative, item.absolute, item.source, list(item.reasons), list(item.kernels)
    )


def _difference(item: BufferComparison, with_map: bool) -> OutputDifference:
    mismatches = [
        OutputMismatch(
            place.offset,
            item.address + place.offset if item.address else 0,
            place.expected.hex(),
            place.actual.hex(),
            place.place,
            place.element,
            place.type.name if place.type else "",
            *place.values,
        )
        for place in item.mismatches
    ]
    guess = item.guess
    return OutputDifference(
        label=item.label,
        address=item.address,
        size_bytes=item.size_bytes,
        compared_bytes=item.compared_bytes,
        differing_bytes=item.differing_bytes,
        mismatches=mismatches,
        guess_dtype=guess.dtype if guess else "",
        guess_maximum_ulp=guess.maximum_ulp if guess else 0,
        guess_maximum_relative=guess.maximum_relative if guess else 0.0,
        elements=[
            OutputElements(
                region.type.name,
                region.source,
                region.origin,
                region.start,
                found.elements,
                found.maximum_ulp,
                found.maximum_relative,
                found.maximum_absolute,
                found.special,
                found.beyond,
                found.zeros,
            )
            for region, found in item.regions.items()
        ],
        within_tolerance=item.acceptable,
        tolerance=_tolerance(item.tolerance),
        errors=found_errors(item) if with_map else [],
    )


def time_nodes(session: Session, messages: Messages) -> list[NodeTime]:
    """One pass over the window with an event before and after the work of each node of each graph."""
    messages.stage("timing the nodes of graphs")
    session.restore()
    session.synchronize()
    return session.executor.graphs.runner.time_nodes(session.run_window)


def capture_notes(session: Session) -> list[str]:
    """Notes of the capture that say what is missing, in the order of the capture, so many at most."""
    silent = ("WINDOW_OPEN", "WINDOW_CLOSE", "LAUNCH_MATCHED", "CHILD_PROCESS", "DEVICE_ERROR")
    left_out = " ".join(session.program.left_out)  # which says the same of them
    texts = [
        f"{note.code} {f'{note.function}: ' if note.function else ''}{note.text}".strip()
        for note in session.program.notes
        if note.code not in silent
        and not (note.code == "UNSUPPORTED_CALL" and note.function and note.function in left_out)
    ]
    unique = list(dict.fromkeys(texts))
    if len(unique) > MAXIMUM_RESULT_NOTES:
        more = len(unique) - MAXIMUM_RESULT_NOTES
        unique = [*unique[:MAXIMUM_RESULT_NOTES], f"and {more} more; `replay ls SNAPSHOT notes` lists them"]
    if any(by_symbol()[call_.function].twin and call_.per_thread for call_ in session.program.window.kinds()):
        threads = {call_.thread for call_ in session.program.window.kinds() if call_.per_thread}
        if len(threads) > 1:
            unique.append("per-thread default streams of several threads are replayed as one stream")
    return unique
