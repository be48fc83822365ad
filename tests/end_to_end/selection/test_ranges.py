"""Windows that NVTX ranges and the profiler functions of the driver bound. The nvtx package brings the real NVTX."""

from __future__ import annotations

import json
import sys

import pytest

from replay.errors import ExitCode

from ..beginning import text_of

nvtx = pytest.importorskip("nvtx", reason="needs nvtx: pip install 'gpu-replay[test]'")

# Adds 1, 10, 100, ... in launches of which some are inside ranges, and says what the sum is.
PROGRAM = """
    import numpy as np
    import nvtx

    PTX = b'''
    .visible .entry add(.param .u64 p, .param .u32 v) {
        .reg .u64 %a; .reg .u32 %v, %o;
        ld.param.u64 %a, [p]; ld.param.u32 %v, [v];
        ld.global.u32 %o, [%a]; add.u32 %o, %o, %v; st.global.u32 [%a], %o;
        ret;
    }
    .visible .entry other(.param .u64 p, .param .u32 v) { ret; }'''

    add, other = kernels(PTX, b"add", b"other")
    memory = check(cu.cuMemAlloc(4))
    check(cu.cuMemsetD32(memory, 0, 1))

    def launch(value, kernel=add):
        pointer, number = np.array([int(memory)], np.uint64), np.array([value], np.uint32)
        arguments = np.array([pointer.ctypes.data, number.ctypes.data], np.uint64)
        check(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments.ctypes.data, 0))

    launch(1)
    with nvtx.annotate("outer"):
        launch(10)
        with nvtx.annotate("step", domain="training"):
            launch(100)
            launch(0, other)
            with nvtx.annotate("step", domain="training"):  # in itself
                launch(1000)
        with nvtx.annotate("step"):
            launch(10000)
    identifier = nvtx.start_range("loose", domain="threads")
    launch(100000)
    thread = threading.Thread(target=lambda: nvtx.end_range(identifier))
    thread.start()
    thread.join()
    check(cu.cuProfilerStart())
    check(cu.cuProfilerStart())
    launch(1000000)
    check(cu.cuProfilerStop())
    launch(10000000)
    host = np.zeros(1, np.uint32)
    check(cu.cuMemcpyDtoH(host.ctypes.data, memory, 4))
    print("sum", host[0])
"""


@pytest.fixture
def program(replay):
    path = replay.folder / "ranges.py"
    path.write_text(text_of(PROGRAM))
    return [sys.executable, str(path)]


def launched_values(replay):
    """What the launches of the snapshot add, in order: the second parameter of each."""
    lines = json.loads(replay("ls", "x.rsnap", "calls", "--json").stdout)
    found = []
    for call in lines["calls"]:
        if call["section"] == "window" and call["function"] == "cuLaunchKernel":
            packed = bytes.fromhex(call["inputs"]["kernelParams.0"])
            found.append(int.from_bytes(packed[8:12], "little"))
    return found


@pytest.mark.parametrize(
    ("selection", "values"),
    [
        (["--nvtx", "outer"], [10, 100, 0, 1000, 10000]),
        (["--nvtx", "step@training"], [100, 0, 1000]),
        (["--nvtx", "step"], [100, 0, 1000]),  # the first range of that name, whatever its domain
        (["--nvtx", "loose@threads"], [100000]),
        (["--profiler-api"], [1000000]),
        (["--nvtx", "outer", "--kernel", "^add$"], [10]),
        (["--nvtx", "outer", "--kernel", "^add$", "--launch", "2-3"], [100, 0, 1000]),
        (["--nvtx", "step", "--kernel", "^add$", "--launch", "3"], [10000]),  # of all its ranges
        (["--nvtx", "outer", "--launch", "2"], [100]),
        (["--nvtx", "outer", "--max-launches", "2"], [10, 100]),
    ],
)
def test_range_bounds_the_window(replay, program, selection, values):
    done = replay.capture(*selection, application=program)
    assert "sum 11111111" in done.stdout
    assert launched_values(replay) == values
    assert "outputs match" in replay.run().stdout


@pytest.mark.parametrize(
    "selection", [["--nvtx", "never"], ["--nvtx", "step@other"], ["--nvtx", "oute"], ["--nvtx", ""]]
)
def test_range_that_never_begins_is_said_so(replay, program, selection):
    status = ExitCode.USAGE if selection[1] == "" else ExitCode.COULD_NOT
    done = replay.capture(*selection, application=program, status=status)
    assert "--nvtx" in done.stderr
    assert not (replay.folder / "x.rsnap").exists()


def test_list_of_a_range(replay, program):
    done = replay("capture", "--driver", "emulator", "--list", "--json", "--nvtx", "outer", "--", *program)
    (process,) = json.loads(done.stdout.splitlines()[-1])["processes"]
    assert {row["kernel"]: row["launches"] for row in process["rows"]} == {"add": 4, "other": 1}
