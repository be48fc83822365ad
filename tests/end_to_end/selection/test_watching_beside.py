"""`capture --when error` beside what is not watched: captures of streams, and launches in a pause."""

from __future__ import annotations

import json
import sys

import pytest

from replay.errors import ExitCode

from ..beginning import text_of

PROGRAM = """
    import os, signal, time

    PTX = b'''
    .visible .entry innocent(.param .u64 p, .param .u32 n) {
        .reg .u64 %a; ld.param.u64 %a, [p]; st.global.u32 [%a], 7; ret;
    }
    .visible .entry culprit(.param .u64 p, .param .u32 n) {
        .reg .u64 %a; .reg .u32 %n; .reg .pred %p;
        ld.param.u64 %a, [p]; ld.param.u32 %n, [n];
    L: sub.u32 %n, %n, 1; setp.ne.u32 %p, %n, 0; @%p bra L;
        st.global.u32 [%a], %n; ret;
    }'''

    innocent, culprit = kernels(PTX, b"innocent", b"culprit")
    stream = check(cu.cuStreamCreate(1))
    memory = int(check(cu.cuMemAlloc(4096)))

    def launch(kernel, place=memory, turns=5, stream=stream):
        arguments = (place, turns), (ctypes.c_void_p, ctypes.c_uint32)
        return cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0)[0]

    for step in range(int(sys.argv[2])):
        launch(innocent), launch(culprit)
        check(cu.cuCtxSynchronize())
    if sys.argv[1] == "capture":
        captured = check(cu.cuStreamCreate(1))
        check(cu.cuStreamBeginCapture(captured, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        launch(innocent, stream=captured), launch(innocent)
        check(cu.cuStreamEndCapture(captured))
        check(cu.cuCtxSynchronize())
    else:
        os.kill(os.getpid(), signal.SIGUSR1)
        launch(innocent)  # asked for: a hit, and a pause after it

        def fault():
            check(cu.cuCtxSetCurrent(context))
            launch(culprit, 16, 30_000_000)

        thread = threading.Thread(target=fault)
        thread.start()
        time.sleep(0.3)
        launch(innocent), launch(innocent)
        thread.join()
        sys.exit(cu.cuCtxSynchronize()[0] != 0)
"""


@pytest.fixture
def watch(replay):
    def run(way, steps, *selection, status):
        (replay.folder / "beside.py").write_text(text_of(PROGRAM))
        application = [sys.executable, "beside.py", way, str(steps)]
        return replay.capture(*selection, application=application, status=status)

    return run


@pytest.mark.parametrize("steps", [1, 3])  # before any copy was made, and after
def test_the_capture_of_a_stream_is_not_disturbed(watch, steps):
    done = watch("capture", steps, "--when", "error", status=int(ExitCode.COULD_NOT))
    assert "CUDA_ERROR" not in done.stderr
    assert "nothing was seen to go wrong" in done.stderr


def test_a_launch_after_one_in_a_pause_is_not_blamed_for_it(replay, watch):
    watch("pause", 3, "--when", "error,signal=USR1", "--max-snapshots", "5", status=1)
    triggers = [
        json.loads(replay("info", path.name, "--json").stdout)["summary"]["trigger"]
        for path in replay.folder.glob("*.rsnap")
    ]
    assert [trigger.split()[0] for trigger in triggers] == ["signal"]
