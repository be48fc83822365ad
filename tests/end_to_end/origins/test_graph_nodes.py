"""Where a kernel in a graph came from: the place that added or captured its node, not that which launches the graph."""

from __future__ import annotations

import json

import pytest

from .launching import written

BEGIN = """
    stream = check(cu.cuStreamCreate(1))
    def launch(value, to=None):
        arguments = (memory, value), (ctypes.c_void_p, ctypes.c_uint32)
        check(cu.cuLaunchKernel(mark, 1, 1, 1, 1, 1, 1, 0, to or stream, arguments, 0))
    def capture():
        check(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        launch(1)
        return check(cu.cuStreamEndCapture(stream))
    def add(graph):
        parameters = cu.CUDA_KERNEL_NODE_PARAMS()
        parameters.func = mark
        for name in ("gridDimX", "gridDimY", "gridDimZ", "blockDimX", "blockDimY", "blockDimZ"):
            setattr(parameters, name, 1)
        parameters.kernelParams = (memory, 2), (ctypes.c_void_p, ctypes.c_uint32)
        check(cu.cuGraphAddKernelNode(graph, None, 0, parameters))
        return graph
    def replay(graph):
        executable = check(cu.cuGraphInstantiate(graph, 0))
        check(cu.cuGraphLaunch(executable, stream))
        check(cu.cuStreamSynchronize(stream))
"""


def from_where(replay):
    """The Python functions that the kernel of the window is said to come from, the innermost first."""
    (kernel,) = json.loads(replay("ls", "x.rsnap", "kernels", "--json").stdout)["kernels"]
    return [frame["function"] for frame in kernel["origin"] if frame["domain"] is None]


@pytest.mark.parametrize(
    ("graph", "functions"),
    [
        ("capture()", ["launch", "capture", "<module>"]),
        ("add(check(cu.cuGraphCreate(0)))", ["add", "<module>"]),
        ("check(cu.cuGraphClone(capture()))", ["replay", "<module>"]),  # nobody has added the clone's node
    ],
)
def test_node_came_from_where_it_was_added_or_captured(replay, graph, functions):
    program = written(replay, BEGIN, f"    replay({graph})\n")
    replay.capture("--kernel", "^mark$", "--python-stacks", application=program)
    assert from_where(replay) == functions
    assert replay("run", "x.rsnap", "--quick").returncode == 0


def test_node_has_the_ranges_around_its_capture(replay):
    pytest.importorskip("nvtx", reason="needs nvtx: pip install 'gpu-replay[test]'")
    program = written(replay, BEGIN, """
        import nvtx
        with nvtx.annotate("captured in"):
            graph = capture()
        with nvtx.annotate("launched in"):
            replay(graph)
    """)  # fmt: skip
    replay.capture("--kernel", "^mark$", "--nvtx-stacks", application=program)
    assert "mark launched from NVTX range captured in" in replay("info", "x.rsnap").stdout


def test_place_of_the_launch_stays_that_of_the_call(replay):
    program = written(replay, BEGIN, "    replay(capture())\n")
    replay.capture("--kernel", "^mark$", "--python-stacks", application=program)
    calls = json.loads(replay("ls", "x.rsnap", "calls", "--json").stdout)["calls"]
    (launch,) = [
        call for call in calls if call["section"] == "window" and call["function"] == "cuGraphLaunch"
    ]
    assert [frame["function"] for frame in launch["origin"]] == ["replay", "<module>"]


def test_kernel_beside_the_one_that_is_asked_for_has_an_origin_too(replay):
    program = written(replay, BEGIN, """
        (other,) = kernels(PTX.replace(b"mark", b"other"), b"other")
        def beside(value):
            arguments = (memory, value), (ctypes.c_void_p, ctypes.c_uint32)
            check(cu.cuLaunchKernel(other, 1, 1, 1, 1, 1, 1, 0, stream, arguments, 0))
        beside(4)  # from here on it is known not to be asked for
        check(cu.cuStreamBeginCapture(stream, cu.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL))
        beside(5)
        launch(6)
        replay(check(cu.cuStreamEndCapture(stream)))
    """)  # fmt: skip
    replay.capture("--kernel", "^mark$", "--python-stacks", application=program)
    kernels = json.loads(replay("ls", "x.rsnap", "kernels", "--json").stdout)["kernels"]
    found = {kernel["name"]: [frame["function"] for frame in kernel["origin"]] for kernel in kernels}
    assert found == {"other": ["beside", "<module>"], "mark": ["launch", "<module>"]}
