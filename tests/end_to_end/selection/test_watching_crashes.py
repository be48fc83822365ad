"""`capture --when crash`: nobody waits for a launch, and the last ones are there however the application ends."""

from __future__ import annotations

import json
import random
import shutil
import struct
import sys
from collections import Counter

import pytest

from ..beginning import text_of

# The n-th launch of `increment` finds n - 1 in each word of its memory.
PROGRAM = """
    import os, signal, time

    PTX = b'''
    .visible .entry increment(.param .u64 p) {
        .reg .u64 %a, %o; .reg .u32 %i, %n, %x;
        ld.param.u64 %a, [p];
        mov.u32 %i, %ctaid.x; mov.u32 %n, %ntid.x; mov.u32 %x, %tid.x;
        mad.lo.u32 %i, %i, %n, %x; mul.wide.u32 %o, %i, 4; add.u64 %a, %a, %o;
        ld.global.u32 %x, [%a]; add.u32 %x, %x, 1; st.global.u32 [%a], %x;
        ret;
    }
    .visible .entry copy(.param .u64 p) {
        .reg .u64 %a; .reg .u32 %x;
        ld.param.u64 %a, [p]; ld.global.u32 %x, [%a]; st.global.u32 [%a+4], %x;
        ret;
    }'''
    WORDS = 64 << 10
    way, value = sys.argv[1], float(sys.argv[2])
    increment, copy = kernels(PTX, b"increment", b"copy")
    memory = int(check(cu.cuMemAlloc(WORDS * 4)))
    check(cu.cuMemsetD32(memory, 0, WORDS))
    other = int(check(cu.cuMemAlloc(4096)))
    streams = [check(cu.cuStreamCreate(1)) for _ in range(2)]

    def launch(place=memory, kernel=increment, blocks=WORDS // 256, stream=streams[0]):
        arguments = (place,), (ctypes.c_void_p,)
        check(cu.cuLaunchKernel(kernel, blocks, 1, 1, 256, 1, 1, 0, stream, arguments, 0))

    def end():
        os.kill(os.getpid(), signal.SIGKILL)

    if way == "killed":
        threading.Timer(value, end).start()
        print("begun", flush=True)
        while True:
            launch()
    for n in range(9):
        launch()
        if way == "aside":
            launch(other, copy, 1, streams[1])
    if way == "freed":
        check(cu.cuMemFree(memory))
    if way == "unloaded":
        check(cu.cuModuleUnload(check(cu.cuFuncGetModule(increment))))
    check(cu.cuCtxSynchronize())
    end()
"""


WORDS = 64 << 10


@pytest.fixture
def crash(replay):
    (replay.folder / "crashes.py").write_text(text_of(PROGRAM))

    def start(way, value=0.0, *selection):
        application = [sys.executable, "crashes.py", way, str(value)]
        replay.capture("--when", "crash", *selection, application=application, status=128 + 9)
        return json.loads(replay("info", "x.rsnap", "--json").stdout)

    return start


def words_before(replay, *window):
    """What the memory held before the launch: word -> how often."""
    shutil.rmtree(replay.folder / "dumped", ignore_errors=True)
    replay("dump", "x.rsnap", *window, "-o", "dumped")
    (path,) = (replay.folder / "dumped").glob("*before.npy")
    contents = path.read_bytes()[-WORDS * 4 :]
    return Counter(struct.unpack(f"<{WORDS}I", contents))


def without_wait(found):
    return int(found["summary"]["watched"].split()[0].replace(",", ""))


def test_the_last_launches_are_kept_and_nobody_waited_for_them(replay, crash):
    found = crash("ended", 0, "--ring", "3")
    assert found["summary"]["trigger"] == "crash: signal 9 ended the application"
    assert without_wait(found) == 8
    assert [window["number"] for window in found["windows"]] == [7, 8, 9]
    assert words_before(replay, "--window", "9") == {8: WORDS}
    assert "outputs of 3 of 3 windows match" in replay("run", "x.rsnap").stdout


def test_of_two_streams_the_last_launches_are_kept(replay, crash):
    found = crash("aside", 0, "--ring", "2")
    assert [window["number"] for window in found["windows"]] == [17, 18]
    assert words_before(replay, "--window", "17") == {8: WORDS}
    assert "outputs of 2 of 2 windows match" in replay("run", "x.rsnap").stdout


@pytest.mark.parametrize("way", ["freed", "unloaded"])
def test_what_the_last_launch_had_is_written_before_it_ends(replay, crash, way):
    crash(way)
    assert replay("ls", "x.rsnap", "notes").stdout.count("WINDOW_OPEN") == 1
    assert "launch 9" in replay("ls", "x.rsnap", "notes").stdout
    assert "outputs match" in replay("run", "x.rsnap").stdout


def test_a_kill_at_any_moment_leaves_the_last_launch_that_had_begun_whole(replay, crash):
    chance, launches = random.Random(25), []
    for _ in range(8):
        found = crash("killed", chance.uniform(0.01, 0.25))
        notes = json.loads(replay("ls", "x.rsnap", "notes", "--json").stdout)["notes"]
        (launch,) = (int(note["text"].split()[1]) for note in notes if note["code"] == "WINDOW_OPEN")
        launches.append(launch)
        assert (launch > 1) == bool(found["summary"]["watched"])
        assert words_before(replay) == {launch - 1: WORDS}
        ran = replay("run", "x.rsnap", status=None)
        assert "outputs match" in ran.stdout or "the launch had not ended" in " ".join(ran.stdout.split())
    assert sum(launch > 1 for launch in launches) >= 4


def test_a_launch_too_large_for_two_to_have_room_is_waited_for_and_kept(replay, crash):
    crash("ended", 0, "--ring", "1,800k")
    assert words_before(replay) == {8: WORDS}
    assert "outputs match" in replay("run", "x.rsnap").stdout
