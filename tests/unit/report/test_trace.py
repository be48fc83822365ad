"""The trace of a window: what Perfetto and chrome://tracing need is there, and no time is more than it is."""

from __future__ import annotations

import dataclasses
import json
from collections import defaultdict
from pathlib import Path

import pytest

from replay.cli import main
from replay.report import trace as tracing
from replay.report.trace import Trace, result_trace, snapshot_trace
from replay.results.run.timing import LaunchTime
from replay.results.store import write_result
from replay.snapshot.schema import Call, Range

from .test_report import HOSTILE, timed

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "snapshots").glob("*.rsnap"))
PHASES = {
    "X": {"ts", "dur", "cat"},
    "i": {"ts", "s"},
    "M": {"args"},
    "C": {"ts", "args"},
    "s": {"ts", "id"},
    "f": {"ts", "id", "bp"},
}


def checked(trace: Trace) -> list[dict]:
    """The events, after a look at each as the format describes it."""
    document = json.loads(json.dumps(trace.document(), allow_nan=False))
    events = document["traceEvents"]
    named = {(event["pid"], event["tid"]) for event in events if event["name"] == "thread_name"}
    rows = defaultdict(list)
    for event in events:
        assert {"ph", "name", "pid", "tid"} | PHASES[event["ph"]] <= set(event), event
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        if event["ph"] == "M":
            continue
        assert event["ts"] >= 0
        if event["ph"] == "C":
            assert all(isinstance(value, int) and value >= 0 for value in event["args"].values())
            continue
        assert (event["pid"], event["tid"]) in named
        if event["ph"] == "X":
            assert event["dur"] >= 0
            rows[event["pid"], event["tid"]].append((event["ts"], event["dur"]))
    for spans in rows.values():  # those of one row may hold each other, but never overlap
        for (begin, duration), (following, _) in zip(spans, spans[1:], strict=False):
            assert begin + duration <= following + 0.0011
    for event in events:  # an end of an arrow that is in no event is dropped by whoever draws it
        if event["ph"] in "sf":
            spans = rows[event["pid"], event["tid"]]
            assert any(
                begin - 0.0011 <= event["ts"] <= begin + duration + 0.0011 for begin, duration in spans
            ), event
    flows = [event["id"] for event in events if event["ph"] in "sf"]
    assert all(flows.count(number) == 2 for number in flows)
    return events


def titles(events: list[dict], kind: str = "process_name") -> list[str]:
    return [event["args"]["name"] for event in events if event["name"] == kind]


def call(number: int, function: str, arguments: list[int], **more) -> Call:
    moment = number * 10_000
    return Call(number, function, "window", 7, arguments, 0, enter_ns=5_000_000 + moment,
                leave_ns=5_000_000 + moment + 4_000, **more)  # fmt: skip


LAUNCH = [0, 1, 1, 1, 32, 1, 1, 0]


@pytest.fixture
def window() -> list[Call]:
    """Two launches in one stream, of which the first ends after the call of the second; a copy after both."""
    return [
        call(1, "cuMemsetD32Async", [0x1000, 0, 16, 0x77]),
        call(2, "cuLaunchKernel", [*LAUNCH, 0x77, 0, 0], gpu_ns=25_000),
        call(3, "cuLaunchKernel", [*LAUNCH, 0x77, 0, 0], gpu_ns=3_000),
        call(4, "cuMemcpyDtoHAsync_v2", [0x2000, 0x1000, 64, 0x77]),
        call(5, "cuLaunchKernel", [*LAUNCH, 0, 0, 0]),
        call(6, "cuLaunchKernel", [*LAUNCH, 0, 0, 0], gpu_ns=1_000, in_capture=True),
        call(7, "cuStreamSynchronize", [0x77]),
    ]


def test_a_window_has_calls_by_thread_and_work_by_stream(window):
    trace = Trace()
    tracing._window(trace, "x.rsnap", "measured", window)
    events = checked(trace)
    assert len([event for event in events if event.get("cat") == "call"]) == 7
    assert titles(events, "thread_name") == ["thread 7", "stream 0x77", "default stream"]
    work = [event for event in events if event.get("cat") == "launch" and event["ph"] == "X"]
    assert [(event["ts"], event["dur"]) for event in work] == [
        (10.0, 25.0),
        (35.0, 3.0),
    ]  # the second has to wait
    untimed = [event for event in events if event.get("cat") == "untimed"]
    assert [(event["name"], event["args"].get("bytes")) for event in untimed] == [
        ("cuMemsetD32Async", 64), ("cuMemcpyDtoHAsync_v2", 64), ("cuLaunchKernel", None)]  # fmt: skip
    assert untimed[1]["ts"] == 38.0


def test_memory_that_comes_and_goes_is_a_counter(window):
    ranges = [
        Range(1, "device", 0x1000, 256, 0, 0),
        Range(2, "device", 0x2000, 64, 0, 0, born_call=2, died_call=4),
        Range(3, "managed", 0x3000, 8, 0, 0, died_call=4),
    ]
    trace = Trace()
    tracing._window(trace, "x.rsnap", "measured", window, ranges)
    counters = [event for event in checked(trace) if event["ph"] == "C"]
    assert [(event["ts"], event["args"]) for event in counters] == [
        (0.0, {"device, bytes": 256, "managed, bytes": 8}),
        (10.0, {"device, bytes": 320, "managed, bytes": 8}),
        (30.0, {"device, bytes": 256, "managed, bytes": 0}),
    ]


def test_an_arrow_goes_from_the_call_that_records_an_event_to_those_that_wait(window):
    calls = [
        call(1, "cuStreamWaitEvent", [0x77, 0xE1, 0]),  # nothing was recorded yet
        call(2, "cuEventRecord", [0xE1, 0x77]),
        call(3, "cuStreamWaitEvent", [0x78, 0xE1, 0]),
        call(4, "cuEventSynchronize", [0xE1]),
    ]
    trace = Trace()
    tracing._window(trace, "x.rsnap", "measured", calls)
    flows = [(event["ph"], event["ts"]) for event in checked(trace) if event.get("cat") == "event"]
    assert flows == [("s", 10.0), ("f", 20.0), ("s", 10.0), ("f", 30.0)]


def test_what_is_not_known_is_said(window):
    trace = Trace()
    tracing._window(trace, "x.rsnap", "modelled", window)
    assert titles(checked(trace)) == [
        "host, under capture: x.rsnap",
        "GPU, modelled: x.rsnap",
    ]
    for event in trace.events:
        if event.get("cat") in ("launch", "untimed") and event["ph"] in "Xi":
            assert "not" in event["args"]["duration"] or event["args"]["begin"] == "not known"


def replayed():
    launches = [
        LaunchTime(4, "cuLaunchKernel", HOSTILE, 0, 1000.0, 900.0, 1100, [1000], [900]),
        LaunchTime(5, "cuGraphLaunch", "", 0x55, 500.0, None, None),
        LaunchTime(6, "cuLaunchKernel", "_Z3addPfi", 0, 250.0, 200.0, None),
    ]
    return dataclasses.replace(timed(1750, HOSTILE), launch_times=launches)


def test_a_result_has_a_process_for_each_sort_of_time():
    trace = Trace()
    result_trace(trace, replayed())
    events = checked(trace)
    assert [title.partition(":")[0] for title in titles(events)] == [
        "replay cold, modelled",
        "replay hot, modelled",
        "application, measured",
    ]
    first = [
        event
        for event in events
        if event["pid"] == tracing._FIRST_PROCESS and event["ph"] == "X" and event["cat"] == "launch"
    ]
    assert [(event["ts"], event["dur"]) for event in first] == [(0.0, 1.0), (1.0, 0.5), (1.5, 0.25)]
    assert first[2]["name"] == "add(float*, int)"
    assert [event["args"]["duration"] for event in events if event["ph"] == "i"].count("not timed") == 3
    assert next(event for event in events if event.get("cat") == "window")["dur"] == 1.75


def test_a_host_time_is_not_drawn_as_one_of_the_device():
    result = replayed()
    trace = Trace()
    result_trace(
        trace,
        dataclasses.replace(result, timing=dataclasses.replace(result.timing, gpu=None, gpu_time_ns=[])),
    )
    assert not [event for event in checked(trace) if event.get("cat") == "window"]


def test_a_long_window_ends_with_a_statement(window, monkeypatch):
    monkeypatch.setattr(tracing, "MAXIMUM_EVENTS", 10)
    trace = Trace()
    tracing._window(trace, "x.rsnap", "measured", window)
    assert trace.left_out > 0
    assert trace.document()["otherData"] == {"events left out": trace.left_out}


def test_the_command_writes_a_trace(tmp_path, capsys):
    write_result(tmp_path / "r.rres", replayed())
    output = tmp_path / "t.json"
    assert main(["report", str(tmp_path / "r.rres"), "--chrome-trace", str(output)]) == 0
    assert json.loads(output.read_text())["displayTimeUnit"] == "ns"
    assert main(["report", str(tmp_path), "--chrome-trace", str(output)]) == 2
    assert "none is named" in capsys.readouterr().err
    (tmp_path / "x.rsnap").write_bytes(b"nonsense")
    assert main(["report", str(tmp_path / "x.rsnap"), "--chrome-trace", str(output)]) == 3


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_golden_snapshot_makes_a_trace(path):
    trace = Trace()
    snapshot_trace(trace, path)
    assert any(event.get("cat") == "call" for event in checked(trace))
