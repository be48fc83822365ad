"""`replay capture --list`: which launches there are, without capturing one."""

from __future__ import annotations

import json
import shlex

import pytest

from replay.errors import ExitCode

# Launches `bump` from several threads with two geometries, and once into a stream capture when the driver can.
THREADS = """
    import sys, threading
    import numpy as np
    from driver_calls import check, cu, function, launch, load, start, words

    PTX = '''
    .visible .entry bump(.param .u64 p) {
        .reg .u64 %a; .reg .u32 %v;
        ld.param.u64 %a, [p];
        atom.global.add.u32 %v, [%a], 1;
        ret;
    }'''

    context = start()
    module = load(PTX)
    bump = function(module, "bump")
    memory = check(cu.cuMemAlloc(4))
    check(cu.cuMemsetD32(memory, 0, 1))

    def work(launches):
        check(cu.cuCtxSetCurrent(context))
        stream = check(cu.cuStreamCreate(1))
        for n in range(launches):
            block = 64 if n % 4 == 0 else 32
            launch(bump, memory, block=block, stream=stream)
        check(cu.cuStreamSynchronize(stream))
        check(cu.cuStreamDestroy(stream))

    threads = [threading.Thread(target=work, args=(40,)) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    print("total", int(words(memory, 1)[0]), flush=True)
    if "die" in sys.argv:
        import os, signal
        os.kill(os.getpid(), signal.SIGKILL)
    if "reset" in sys.argv:
        check(cu.cuDevicePrimaryCtxReset(0))
"""


@pytest.fixture
def threads_program(program):
    return program(THREADS)


def listed(replay, *application, status=0):
    done = replay("capture", "--driver", "emulator", "--list", "--json", "--", *application, status=status)
    document = json.loads(done.stdout.splitlines()[-1])
    assert document["schema"] == "replay.launches/1"
    assert document["times_are_modelled"] is True
    assert not list(replay.folder.glob("*.rcap"))
    assert not list(replay.folder.glob("*.rsnap"))
    return done, document


def test_list_counts_launches_by_kernel_and_geometry(replay):
    _, document = listed(replay, *replay.application("two_streams"))
    (process,) = document["processes"]
    rows = {row["kernel"]: row for row in process["rows"]}
    assert set(rows) == {"produce", "consume"}
    assert {row["launches"] for row in rows.values()} == {4}
    assert process["launches"] == 8
    assert rows["produce"]["block"] == [128, 1, 1]
    assert rows["produce"]["grid"] == [79, 1, 1]
    assert all(row["timed"] and row["mean_ns"] > 0 for row in rows.values())
    assert all(row["shortest_ns"] <= row["mean_ns"] <= row["longest_ns"] for row in rows.values())


def test_command_that_the_list_gives_captures_the_row(replay):
    _, document = listed(replay, *replay.application("two_streams"))
    for row in document["processes"][0]["rows"]:
        words = shlex.split(row["command"])
        assert words[:2] == ["replay", "capture"]
        place = words.index("--")
        replay(*words[1:place], "-o", "row.rsnap", *words[place:])
        summary = json.loads(replay("info", "--json", "row.rsnap").stdout)
        assert row["kernel"] in json.dumps(summary)
        assert "outputs match" in replay.run("row.rsnap").stdout


def test_launches_of_many_threads_are_all_counted(replay, threads_program):
    done, document = listed(replay, *threads_program)
    (process,) = document["processes"]
    rows = {tuple(row["block"]): row for row in process["rows"]}
    assert rows[(64, 1, 1)]["launches"] == 80
    assert rows[(32, 1, 1)]["launches"] == 240
    assert rows[(64, 1, 1)]["first"] == 1
    assert process["launches"] == 320
    assert f"total {80 * 64 + 240 * 32}" in done.stdout


def test_list_survives_sigkill(replay, threads_program):
    done, document = listed(replay, *threads_program, "die", status=137)
    assert document["processes"][0]["launches"] == 320
    assert "SIGKILL" in done.stderr


def test_list_survives_the_end_of_its_context(replay, threads_program):
    _, document = listed(replay, *threads_program, "reset")
    assert all(row["timed"] for row in document["processes"][0]["rows"])


def test_kernel_expression_narrows_the_list(replay):
    done = replay(
        "capture", "--driver", "emulator", "--list", "--kernel", "^cons", "--",
        *replay.application("two_streams"),
    )  # fmt: skip
    assert "consume" in done.stdout
    assert "produce" not in done.stdout
    assert "modelled" in done.stdout


def test_forked_child_has_a_list_of_its_own(replay):
    _, document = listed(replay, *replay.application("crash", "fork"))
    assert len({process["pid"] for process in document["processes"]}) == len(document["processes"])


def test_nothing_launched_is_said_so(replay):
    done, document = listed(replay, *replay.application("crash", "no-cuda"), status=ExitCode.COULD_NOT)
    assert "CUDA" in done.stderr
    assert document["processes"] == []


def test_list_takes_no_output(replay):
    done = replay("capture", "--list", "-o", "x.rsnap", "--", "true", status=ExitCode.USAGE)
    assert "--list" in done.stderr
