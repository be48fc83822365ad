"""`capture --when` of launches that nobody waits for, in programs that do not make it easy: memory, modules and streams
that end right after a launch, an assertion, a disk that fills, a kill in the moment of a hit.
"""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import textwrap
import time

import pytest

from replay.errors import ExitCode

PROGRAM = """
    import ctypes, sys
    from cuda.bindings import driver as cu

    def check(answer):
        if answer[0] != cu.CUresult.CUDA_SUCCESS:
            sys.exit(int(answer[0]))
        return answer[1] if len(answer) == 2 else answer[1:]

    PTX = b'''.version 7.0
    .target sm_50
    .address_size 64
    .extern .func __assertfail (.param .b64 a, .param .b64 b, .param .b32 c, .param .b64 d, .param .b64 e);
    .visible .entry divide(.param .u64 p, .param .f32 v) {
        .reg .u64 %a; .reg .f32 %v, %o;
        ld.param.u64 %a, [p]; ld.param.f32 %v, [v];
        div.rn.f32 %o, %v, %v; st.global.f32 [%a], %o;
        ret;
    }
    .visible .entry wait(.param .u64 p, .param .u32 n) {
        .reg .u64 %a; .reg .u32 %n, %i, %v; .reg .pred %p;
        ld.param.u64 %a, [p]; ld.param.u32 %n, [n]; mov.u32 %i, 0;
    L: ld.volatile.global.u32 %v, [%a]; add.u32 %i, %i, 1; setp.ne.u32 %p, %i, %n; @%p bra L;
        ret;
    }
    .visible .entry holds(.param .u64 p, .param .u32 n) {
        .reg .u64 %a; .reg .u32 %n; .reg .pred %p;
        ld.param.u64 %a, [p]; ld.param.u32 %n, [n];
        st.global.u32 [%a], %n;
        setp.ne.u32 %p, %n, 7; @%p bra DONE;
        { .param .b64 a; st.param.b64 [a], %a; .param .b64 b; st.param.b64 [b], %a; .param .b32 c; st.param.b32 [c], 7;
          .param .b64 d; st.param.b64 [d], %a; .param .b64 e; st.param.b64 [e], 1;
          call.uni __assertfail, (a, b, c, d, e); }
    DONE: ret;
    }'''
    way = sys.argv[1]
    BYTES = int(sys.argv[2]) if len(sys.argv) > 2 else 4096
    check(cu.cuInit(0))
    context = check(cu.cuDevicePrimaryCtxRetain(0))
    check(cu.cuCtxSetCurrent(context))

    def new_module():
        module = check(cu.cuModuleLoadData(PTX))
        return module, {name: check(cu.cuModuleGetFunction(module, name)) for name in (b"divide", b"wait", b"holds")}

    module, kernels = new_module()

    def new_memory():
        memory = int(check(cu.cuMemAlloc(BYTES)))
        check(cu.cuMemsetD32(memory, 0x3f800000, BYTES // 4))
        return memory

    def launch(name, memory, value, stream=0):
        kind = ctypes.c_float if isinstance(value, float) else ctypes.c_uint32
        arguments = (memory, value), (ctypes.c_void_p, kind)
        check(cu.cuLaunchKernel(kernels[name], 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0))

    streams = [check(cu.cuStreamCreate(1)) for _ in range(3)]
    both, flag = [new_memory() for _ in range(3)], new_memory()
    for memory in both:
        launch(b"divide", memory, 2.0), launch(b"wait", memory, 1), launch(b"holds", memory, 1)
    check(cu.cuCtxSynchronize())
    # nine launches until here
    if way == "streams":  # each has its own memory
        for step in range(1, 21):
            for n, stream in enumerate(streams):
                launch(b"divide", both[n], 0.0 if (step, n) == (15, 1) else 2.0, stream)  # 9 + 14 * 3 + 2 = 53
    elif way == "shared":  # two of them the same
        for step in range(1, 21):
            launch(b"wait", both[0], 20000, streams[0])
            launch(b"divide", both[0], 0.0 if step == 15 else 2.0, streams[1])  # 9 + 14 * 2 + 2 = 39
    elif way == "freed":
        for step in range(1, 21):
            memory = new_memory()
            launch(b"wait", memory, 1)  # the first that reaches it
            launch(b"divide", memory, 0.0 if step == 15 else 2.0)  # 9 + 15 * 2 = 39
            check(cu.cuMemFree(memory))
    elif way == "unloaded":
        for step in range(1, 6):
            module, kernels = new_module()
            launch(b"divide", both[0], 2.0)
            launch(b"divide", both[0], 0.0 if step == 4 else 2.0)  # 9 + 4 * 2 = 17
            check(cu.cuModuleUnload(module))
    elif way == "hang":
        for step in range(1, 6):
            launch(b"wait", both[0], 5, streams[0])
            launch(b"wait", both[1], 0 if step == 3 else 5, streams[1])  # 9 + 2 * 3 + 2 = 17
            launch(b"divide", both[2], 2.0, streams[2])
    elif way == "assert":
        for step in range(1, 21):
            launch(b"holds", both[step % 3], 7 if step == 12 else 99)  # 9 + 12 = 21
            if step >= 12:
                check(cu.cuCtxSynchronize())
    elif way == "waiting":  # the first of two streams waits for a value that nobody writes
        GEQ = cu.CUstreamWaitValue_flags.CU_STREAM_WAIT_VALUE_GEQ.value
        check(cu.cuStreamWaitValue32(streams[0], flag, 0x40000000, GEQ))
        launch(b"divide", both[0], 2.0, streams[0])
        launch(b"holds", both[1], 7, streams[1])  # 11
        check(cu.cuStreamSynchronize(streams[1]))
    elif way == "often":
        import time
        for step in range(1, 400):
            launch(b"divide", both[0], 0.0 if step % 4 == 0 else 2.0)
            check(cu.cuMemsetD32(both[0], 0x3f800000, 1))
            time.sleep(0.005)
    elif way == "ends":  # at once, and says nothing to the driver
        launch(b"divide", both[0], 0.0)  # 10
    check(cu.cuCtxSynchronize())
    """


def command_of(replay, way, *arguments):
    (replay.folder / "ends.py").write_text(textwrap.dedent(PROGRAM))
    return [sys.executable, "ends.py", way, *map(str, arguments)]


def info(replay, name="x.rsnap"):
    return json.loads(replay("info", name, "--json").stdout)


@pytest.mark.parametrize(
    ("way", "ordinal"), [("streams", 53), ("shared", 39), ("freed", 39), ("unloaded", 17), ("ends", 10)]
)
def test_the_launch_that_made_the_nan_is_kept_whole(replay, way, ordinal):
    replay.capture("--when", "nan", application=command_of(replay, way))
    summary = info(replay)["summary"]
    assert summary["trigger"].startswith(f"nan launch {ordinal} of divide: a NaN of type f32")
    assert int(summary["watched"].split()[0].replace(",", "")) > 0
    notes = json.loads(replay("ls", "x.rsnap", "notes", "--json").stdout)["notes"]
    assert [note for note in notes if note["code"] == "MEMORY_NOT_READ"] == []
    assert "outputs match" in replay("run", "x.rsnap").stdout


def test_each_nan_is_kept_as_often_as_it_was_asked_for(replay):
    application = command_of(replay, "often")
    replay.capture("--when", "nan", "--max-snapshots", "3", application=application)
    triggers = [info(replay, path.name)["summary"]["trigger"] for path in replay.folder.glob("x*.rsnap")]
    assert len(triggers) >= 2
    assert all(trigger.startswith("nan launch") for trigger in triggers)
    ordinals = {int(trigger.split()[2]) for trigger in triggers}
    assert len(ordinals) == len(triggers)
    assert {(ordinal - 9) % 4 for ordinal in ordinals} == {0}


@pytest.mark.usefixtures("started_workers")
def test_an_assertion_is_kept_with_the_launches_before_it(replay):
    application = command_of(replay, "assert")
    replay.capture("--when", "assert", "--ring", "3", application=application, status=710 % 256)
    found = info(replay)
    assert found["summary"]["trigger"] == "assert launch 21 of holds: the device reports error 710"
    assert len(found["windows"]) == 3
    assert (
        "FAULT reproduced: CUDA_ERROR_ASSERT in kernel holds"
        in replay("run", "x.rsnap", "--window", "21").stdout
    )


@pytest.mark.usefixtures("started_workers")
def test_a_launch_that_has_not_begun_is_not_blamed(replay):
    replay.capture("--when", "error", application=command_of(replay, "waiting"), status=710 % 256)
    assert info(replay)["summary"]["trigger"].startswith("assert launch 11 of holds")


def test_of_several_streams_the_launch_that_does_not_end_is_kept(replay):
    command = replay.capture_command(
        "--when", "hang=1s or error", output="x.rsnap", application=command_of(replay, "hang")
    )
    process = replay.start(command)
    deadline = time.monotonic() + 60
    while not (replay.folder / "x.rsnap").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert process.poll() is None, "the application is let alone"
    assert info(replay)["summary"]["trigger"].startswith("hang launch 17 of wait: it has not ended after 1 s")
    done = replay("run", "x.rsnap", "--timeout", "2s", status=int(ExitCode.COULD_NOT))
    assert "the application, too, ended inside" in done.stderr


def test_a_disk_that_fills_in_the_moment_of_a_hit_stops_the_capture_and_not_the_application(replay):
    command = replay.capture_command(
        "--when", "nan", output="x.rsnap", application=command_of(replay, "streams", 8 << 20)
    )
    for limit in ("27000", "20000"):  # KiB: of the three first launches and half of the hit, and of less
        done = replay.start(["bash", "-c", f'ulimit -f {limit}; exec "$@"', "limited", *command])
        said = done.communicate(timeout=90)[1]
        assert "Traceback" not in said
        assert "capture stopped: contents could not be written" in said
        assert "nothing was seen to go wrong" not in said
        assert "the application ended with" not in said


def test_a_kill_in_the_moment_of_a_hit_leaves_what_was_written(replay):
    chance = random.Random(25)
    for attempt in range(12):
        command = replay.capture_command(
            *("--when", "error", "--ring", "2"),
            output=f"{attempt}.rsnap",
            application=[
                "bash",
                "-c",
                'echo $$ > pid; exec "$@"',
                "told",
                *replay.application("goes_wrong", "fault"),
            ],
        )
        process = replay.start(command)
        assert process.stdout is not None
        for line in process.stdout:
            if "goes wrong" in line:
                break
        time.sleep(chance.uniform(0, 0.012))
        with contextlib.suppress(subprocess.CalledProcessError):
            subprocess.run(
                ["kill", "-9", (replay.folder / "pid").read_text().strip()], check=True, capture_output=True
            )
        said = process.communicate(timeout=90)[1]
        assert "Traceback" not in said
        if (replay.folder / f"{attempt}.rsnap").exists():
            replay("verify", f"{attempt}.rsnap")
            trigger = info(replay, f"{attempt}.rsnap")["summary"]["trigger"]
            assert trigger.startswith("error launch 57 of scatter")
            assert "FAULT reproduced" in replay("run", f"{attempt}.rsnap", "--window", "57").stdout
        else:
            assert "nothing was seen to go wrong" in said
