"""Copies that take only what changed hold what copies of everything hold."""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import time
from pathlib import Path

import pytest

from replay.snapshot.contents import Snapshot

# Random parts of buffers change between the launches and inside them; buffers come and go. The kernel reaches one of
# them through a table in memory, so the pointers in parts that did not change have to be followed, too. What the memory
# held before and after each launch is written into the file that is named last.
RANDOM = """
    import hashlib, json, random, sys
    import numpy as np
    from driver_calls import check, cu, function, launch, load, start

    PTX = '''
    .visible .entry change(.param .u64 p, .param .u64 t, .param .u32 i) {
        .reg .u64 %p, %t, %q, %k; .reg .u32 %i, %v;
        ld.param.u64 %p, [p]; ld.param.u64 %t, [t]; ld.param.u32 %i, [i];
        mul.wide.u32 %k, %i, 8; add.u64 %t, %t, %k; ld.global.u64 %q, [%t];
        mov.u32 %v, %tid.x; mul.wide.u32 %k, %v, 4; add.u64 %p, %p, %k; add.u64 %q, %q, %k;
        ld.global.u32 %v, [%p]; add.u32 %v, %v, %i; st.global.u32 [%p], %v; st.global.u32 [%q], %v;
        ret;
    }'''

    def digests(which):
        found = {}
        for address, size in [*buffers[which], (tables[which], 1_200_000)]:
            data = np.zeros(size, np.uint8)
            check(cu.cuMemcpyDtoH(data.ctypes.data, address, size))
            found[int(address)] = hashlib.sha256(data).hexdigest()
        return found

    seen = {}
    seed, contexts = int(sys.argv[1]), int(sys.argv[2])
    rng = random.Random(seed)
    bits = np.random.default_rng(seed)
    made = [start()]
    while len(made) < contexts:
        try:
            made.append(check(cu.cuCtxCreate(0, 0)))
        except TypeError:
            made.append(check(cu.cuCtxCreate(None, 0, 0)))
    kernels, buffers, tables = [], [], []
    for context in made:
        check(cu.cuCtxSetCurrent(context))
        module = load(PTX)
        kernels.append(function(module, "change"))
        sizes = [5_000_000, 1_300_008, 40_000, 2_000_000]
        found = [(check(cu.cuMemAlloc(size)), size) for size in sizes]
        for address, size in found:
            data = bits.integers(0, 1 << 32, size // 4, np.uint32)
            check(cu.cuMemcpyHtoD(address, data.ctypes.data, data.nbytes))
        buffers.append(found)
        table = check(cu.cuMemAlloc(1_200_000))
        check(cu.cuMemsetD8(table, 0, 1_200_000))
        tables.append(table)
    for step in range(1, int(sys.argv[3]) + 1):
        which = rng.randrange(contexts)
        check(cu.cuCtxSetCurrent(made[which]))
        place = rng.randrange(len(buffers[which]))
        address, size = buffers[which][place]
        if rng.random() < 0.25:  # the same address may come back, with other contents
            check(cu.cuMemFree(address))
            size = rng.choice([size, size // 2 // 16 * 16, 3_000_016])
            address = check(cu.cuMemAlloc(size))
            check(cu.cuMemsetD8(address, step, size))
            buffers[which][place] = (address, size)
        for _ in range(rng.randrange(3)):
            begin = rng.randrange(size - 70_000) if size > 70_000 else 0
            data = bits.integers(0, 256, rng.randrange(1, min(60_000, size)), np.uint8)
            check(cu.cuMemcpyHtoD(int(address) + begin, data.ctypes.data, data.nbytes))
        other = int(buffers[which][rng.randrange(4)][0]) + rng.randrange(9_000) // 4 * 4
        if rng.random() < 0.5 or step == 1:
            place = np.array([other], np.uint64)
            check(cu.cuMemcpyHtoD(int(tables[which]) + 8 * step, place.ctypes.data, 8))
            last = step
        entry = np.zeros(1, np.uint64)
        for slot in range(step, 0, -1):  # the last one that was written, if what it points to still exists
            check(cu.cuMemcpyDtoH(entry.ctypes.data, int(tables[which]) + 8 * slot, 8))
            if any(int(a) <= entry[0] and int(entry[0]) + 512 <= int(a) + s for a, s in buffers[which]):
                break
        else:
            slot = step
            place = np.array([int(buffers[which][2][0])], np.uint64)
            check(cu.cuMemcpyHtoD(int(tables[which]) + 8 * slot, place.ctypes.data, 8))
        begin = rng.randrange(size - 512) // 4 * 4
        before = digests(which)
        launch(kernels[which], int(address) + begin, tables[which], np.uint32(slot), block=96)
        seen[step] = [before, digests(which)]
    with open(sys.argv[4], "w") as file:
        json.dump(seen, file)
"""

# Eight threads change their own parts of one large buffer and of a small one each.
THREADS = """
    import threading
    import numpy as np
    from driver_calls import BUMP, check, cu, function, launch, load, start, words

    context = start()
    module = load(BUMP)
    bump = function(module, "bump")
    shared = check(cu.cuMemAlloc(8 << 20))
    check(cu.cuMemsetD8(shared, 1, 8 << 20))
    totals = []

    def work(number):
        check(cu.cuCtxSetCurrent(context))
        stream = check(cu.cuStreamCreate(1))
        place = int(shared) + number * (1 << 20) + 4096
        for _ in range(3):
            launch(bump, place, stream=stream)
        check(cu.cuStreamSynchronize(stream))
        totals.append(int(words(place, 1)[0]))

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert totals == [0x01010104] * 8, totals
"""


def memory_of(folder, name):
    """By window and address: digests of what each range held before and after."""
    found = {}
    with Snapshot(folder / name) as opened:
        for window in opened.each_window():
            for item in opened.ranges():
                assert item.before is not None
                assert item.after is not None
                digests = [
                    hashlib.sha256(opened.read(contents, 1 << 30)).hexdigest()
                    for contents in (item.before, item.after)
                ]
                found.setdefault(window.number if window else 0, {})[item.address] = digests
    return found


def sizes_of(folder, name, number=None):
    with Snapshot(folder / name) as opened:
        opened.choose_window(number)
        return sorted(item.size_bytes for item in opened.ranges())


@pytest.mark.parametrize(("seed", "contexts"), [(1, 1), (2, 2)])
def test_copies_of_changes_hold_what_whole_copies_hold(replay, program, seed, contexts):
    launches = 7
    seen = replay.folder / "seen.json"
    application = program(RANDOM, seed, contexts, launches, seen)
    replay.capture("--kernel", "change", "--each", application=application, output="changes.rsnap")
    expected = json.loads(seen.read_text())
    found = memory_of(replay.folder, "changes.rsnap")
    assert list(found) == list(range(1, launches + 1))
    for launch, ranges in found.items():
        before, after = expected[str(launch)]
        assert ranges == {address: [before[str(address)], after[str(address)]] for address in ranges}
    selected = ("--kernel", "change", "--launch", str(launches))
    replay.capture(*selected, application=application, output="whole.rsnap")
    expected = sizes_of(replay.folder, "whole.rsnap")
    assert len(expected) >= 2
    assert sizes_of(replay.folder, "changes.rsnap", launches) == expected
    replay("run", "changes.rsnap", "--driver", "emulator", "--no-timing", "-q")


def test_threads_share_a_buffer_of_which_each_changes_a_part(replay, program):
    replay.capture("--kernel", "bump", "--each", application=program(THREADS))
    summary = json.loads(replay("info", "x.rsnap", "--json").stdout)["summary"]
    assert summary["launches"] == 24
    # The buffer once, and a piece for each of the launches.
    assert summary["stored_bytes"] <= (8 << 20) + 24 * (256 << 10) + (64 << 10)
    # On a loaded machine a thread may stay inside the driver for longer than the gate waits, which a note says.
    notes = json.loads(replay("ls", "x.rsnap", "notes", "--json").stdout)["notes"]
    disturbed = {note["window"] for note in notes if note["code"] == "THREADS_BUSY"}
    done = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--json", status=None)
    verdicts = {
        window["number"]: window["result"]["verification"]["verdict"]
        for window in json.loads(done.stdout)["windows"]
    }
    assert {verdict for number, verdict in verdicts.items() if number not in disturbed} <= {"match"}


# Launches without end over a buffer of which each changes a part; says how many there were.
ENDLESS = """
    import sys
    import numpy as np
    from driver_calls import BUMP, check, cu, function, launch, load, start

    start()
    bump = function(load(BUMP), "bump")
    data = check(cu.cuMemAlloc(16 << 20))
    check(cu.cuMemsetD8(data, 1, 16 << 20))
    number = 0
    while True:
        launch(bump, int(data) + number * 300_000 // 4 * 4 % (15 << 20))
        number += 1
        open(sys.argv[1], "w").write(str(number))
"""


@pytest.mark.parametrize("seed", range(3))
def test_windows_before_a_kill_inside_a_copy_are_whole(replay, program, seed):
    counter = replay.folder / "counter"
    command = replay.capture_command(
        "--kernel", "bump", "--each", output="x.rsnap", application=program(ENDLESS, counter)
    )
    process = replay.start(command)
    deadline = time.monotonic() + 100
    while time.monotonic() < deadline and not (counter.exists() and int(counter.read_text() or 0) >= 3):
        time.sleep(0.01)
    time.sleep(random.Random(seed).random() * 0.3)
    (application,) = children_of(process.pid)
    os.kill(application, signal.SIGKILL)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 137, errors
    assert replay("verify", "x.rsnap").returncode == 0
    with Snapshot(replay.folder / "x.rsnap") as opened:
        held = None
        for window in opened.windows():
            assert window.summary is not None
        for _ in opened.each_window():
            (item,) = opened.ranges()
            if held is not None and item.before is not None:
                assert item.before == held  # nothing ran between two windows
            held = item.after
        assert opened.reader.window_count > 1


def children_of(pid):
    return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
