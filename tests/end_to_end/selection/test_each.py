"""A window for each launch, all in one snapshot: each replays what its own launch did, and can be cut out."""

from __future__ import annotations

import json

import pytest

from replay.errors import ExitCode

# Adds n to a word, n = 1, 2, ...; between the launches memory, streams and modules come and go.
CHANGING = """
    import os, signal, sys
    import numpy as np
    from driver_calls import check, cu, function, launch, load, start, words

    PTX = '''
    .global .u32 calls;
    .visible .entry add(.param .u64 p, .param .u32 v) {
        .reg .u64 %a, %c; .reg .u32 %v, %o;
        ld.param.u64 %a, [p]; ld.param.u32 %v, [v];
        ld.global.u32 %o, [%a]; add.u32 %o, %o, %v; st.global.u32 [%a], %o;
        ld.global.u32 %o, [calls]; add.u32 %o, %o, 1; st.global.u32 [calls], %o;
        ret;
    }'''

    context = start()
    module = load(PTX)
    add = function(module, "add")
    calls, _ = check(cu.cuModuleGetGlobal(module, b"calls"))
    memory = check(cu.cuMemAlloc(4096))
    check(cu.cuMemsetD32(memory, 7, 1024))
    for n in range(1, 9):
        if n == 4:  # the same addresses may come back
            check(cu.cuMemFree(memory))
            memory = check(cu.cuMemAlloc(8192))
            check(cu.cuMemsetD32(memory, 1000, 2048))
        if n == 6:
            check(cu.cuModuleUnload(module))
            module = load(PTX)
            add = function(module, "add")
            calls, _ = check(cu.cuModuleGetGlobal(module, b"calls"))
        stream = check(cu.cuStreamCreate(n % 2))
        if n == 7 and "die" in sys.argv:
            os.kill(os.getpid(), signal.SIGKILL)
        launch(add, memory, np.uint32(n), stream=stream)
        check(cu.cuStreamSynchronize(stream))
        check(cu.cuStreamDestroy(stream))
    print("sum", words(memory, 1)[0])
"""

# Eight threads, each with memory of its own.
THREADS = """
    import threading
    import numpy as np
    from driver_calls import BUMP, check, cu, function, launch, load, start, words

    context = start()
    module = load(BUMP)
    bump = function(module, "bump")
    totals = []

    def work():
        check(cu.cuCtxSetCurrent(context))
        memory = check(cu.cuMemAlloc(4))
        check(cu.cuMemsetD32(memory, 0, 1))
        stream = check(cu.cuStreamCreate(1))
        for _ in range(2):
            launch(bump, memory, stream=stream)
        check(cu.cuStreamSynchronize(stream))
        totals.append(int(words(memory, 1)[0]))

    threads = [threading.Thread(target=work) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("totals", sorted(totals))
"""


def windows_of(replay, name="x.rsnap"):
    return [
        window["number"] for window in json.loads(replay("ls", name, "windows", "--json").stdout)["windows"]
    ]


def launches_of(replay, window=None, name="x.rsnap"):
    chosen = [] if window is None else ["--window", str(window)]
    calls = json.loads(replay("ls", name, "calls", "--json", *chosen).stdout)["calls"]
    return [call for call in calls if call["section"] == "window" and call["function"] == "cuLaunchKernel"]


def replays_equal(replay, name="x.rsnap", window=None):
    chosen = [] if window is None else ["--window", str(window)]
    done = replay("run", name, "--driver", "emulator", "--no-timing", "--json", *chosen)
    result = json.loads(done.stdout)
    results = [result] if "verification" in result else [item["result"] for item in result["windows"]]
    verified = [result["verification"] for result in results]
    return all(item["verdict"] == "match" and item["compared_bytes"] > 0 for item in verified)


def test_every_launch_has_a_window_that_replays_it(replay, program):
    done = replay.capture("--kernel", "add", "--each", application=program(CHANGING))
    assert "sum 1030" in done.stdout
    assert [path.name for path in replay.folder.glob("*.rsnap")] == ["x.rsnap"]
    assert windows_of(replay) == list(range(1, 9))
    for n in range(1, 9):
        (launch,) = launches_of(replay, n)
        assert int.from_bytes(bytes.fromhex(launch["inputs"]["kernelParams.0"])[8:12], "little") == n
        assert launch["gpu_ns"] > 0
    assert replays_equal(replay)
    kernel = json.loads(replay("info", "x.rsnap", "--window", "6", "--json").stdout)["summary"]["kernels"][0]
    assert kernel["attributes"]["max_threads"] == 1024
    assert "every checksum matches" in replay("verify", "x.rsnap").stdout


def test_a_window_can_be_cut_out(replay, program):
    replay.capture("--kernel", "add", "--each", "--keep-raw", application=program(CHANGING))
    replay("extract", "x.rsnap", "--window", "5", "-o", "five.rsnap")
    replay("pack", "x.rcap", "--window", "5", "-o", "packed.rsnap")
    for name in ("five.rsnap", "packed.rsnap"):
        assert windows_of(replay, name) == []
        (launch,) = launches_of(replay, name=name)
        assert launch == {**launches_of(replay, 5)[0], "window": None}
        assert replays_equal(replay, name)
        assert replay("verify", name).returncode == 0
    memory = [replay("ls", name, "memory", "--json").stdout for name in ("five.rsnap", "packed.rsnap")]
    assert memory[0] == memory[1]


def test_what_needs_one_window_says_which_there_are(replay, program):
    replay.capture("--kernel", "add", "--each", application=program(CHANGING))
    for command in (
        ["dump", "x.rsnap", "-o", "d"],
        ["run", "x.rsnap", "-o", "r.rres", "--driver", "emulator"],
    ):
        done = replay(*command, status=ExitCode.USAGE)
        assert "has 8 windows: 1, 2, 3, 4, 5, 6, ..." in done.stderr
        assert "--window" in done.stderr
    assert "has no window 9" in replay("info", "x.rsnap", "--window", "9", status=ExitCode.USAGE).stderr
    replay("dump", "x.rsnap", "-o", "d", "--window", "3")
    assert "memory-0001-before.npy" in {path.name for path in (replay.folder / "d").iterdir()}


@pytest.mark.parametrize(
    ("selection", "ordinals"),
    [
        (["--launch", "every:3"], [3, 6]),
        (["--launch", "2-4", "--each"], [2, 3, 4]),
        (["--each", "--max-launches", "2"], [1, 2]),
    ],
)
def test_selection_of_each(replay, program, selection, ordinals):
    replay.capture("--kernel", "add", *selection, application=program(CHANGING))
    assert windows_of(replay) == ordinals
    assert replays_equal(replay)


def test_each_of_one_launch_is_a_file_with_one_window(replay, program):
    replay.capture("--kernel", "add", "--launch", "5", "--each", application=program(CHANGING))
    assert windows_of(replay) == []
    assert len(launches_of(replay)) == 1
    assert replays_equal(replay)


def test_windows_before_sigkill_are_whole(replay, program):
    replay.capture("--kernel", "add", "--each", application=[*program(CHANGING), "die"], status=137)
    assert windows_of(replay) == list(range(1, 7))
    assert replays_equal(replay)


@pytest.mark.parametrize("attempt", range(2))
def test_launches_of_many_threads_have_one_window_each_or_share_one(replay, program, attempt):
    done = replay.capture("--kernel", "bump", "--each", application=program(THREADS))
    assert "totals [2, 2, 2, 2, 2, 2, 2, 2]" in done.stdout
    assert len(windows_of(replay)) > 1
    assert len(launches_of(replay)) == 16
    assert replays_equal(replay)


def test_all_is_one_window(replay):
    done = replay.capture("--all", "--each", application=["true"], status=ExitCode.USAGE)
    assert "--each" in done.stderr
