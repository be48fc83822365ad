"""Launches of graphs: selected by the kernels in them, replayed whole and node by node, changed inside the window."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest
import toolchain

from ..conftest import REPOSITORY

HELPERS = str(REPOSITORY / "tests" / "emulator" / "helpers")
CORPUS = REPOSITORY / "tests" / "corpus"

pytestmark = pytest.mark.skipif(
    os.environ.get("REPLAY_TEST_DRIVER", "emulator") != "emulator",
    reason="needs REPLAY_TEST_DRIVER=emulator: its programs are linked with the CPU driver",
)

RANDOM = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes, driver_api, random_graphs
driver = driver_api.Driver("libcuda.so.1")
driver.start()
random_graphs.check(driver, range(int(sys.argv[2]), int(sys.argv[3])))
"""


@pytest.fixture
def nodes_program(programs: toolchain.Programs, emulator_dir: Path) -> list[str]:
    """Every kind of node, changed in every way: tests/corpus/driver/graph_nodes.cpp."""
    return [str(programs.host(CORPUS / "driver" / "graph_nodes.cpp", emulator_dir / "libcuda.so.1"))]


@pytest.fixture
def warm_program(programs: toolchain.Programs) -> list[str]:
    """A graph as frameworks use it: tests/corpus/runtime/graphs/graph_warm.cu."""
    return [str(programs.compile([CORPUS / "runtime" / "graphs" / "graph_warm.cu"]))]


def both_ways_match(replay) -> None:
    """The graph as a whole, and its nodes one by one; each often enough for the memory to be restored."""
    for options in ((), ("--expand-graphs",)):
        done = replay.run("x.rsnap", *options)
        assert "outputs match" in done.stdout, done.stdout


@pytest.mark.parametrize("first", [0, 8])
def test_random_graphs_in_every_form_replay_bit_for_bit(replay, first: int):
    """Built by hand, nested, and captured from streams; launched on two streams; updated; read back in the window."""
    application = [sys.executable, "-c", RANDOM, HELPERS, str(first), str(first + 8)]
    replay.capture("--all", application=application)
    both_ways_match(replay)


@pytest.mark.parametrize(
    "launches", ["3", "9", "14", "2-12", "15-20"], ids=["copies", "children", "memory", "changes", "events"]
)
def test_a_window_among_graphs_of_every_kind_of_node(replay, nodes_program: list[str], launches: str):
    """What made and changed the graphs is before the window, or inside it."""
    replay.capture("--kernel", "axpb", "--launch", launches, application=nodes_program)
    both_ways_match(replay)


def test_a_graph_launched_long_after_everything_that_it_came_from_is_gone(replay, warm_program: list[str]):
    """Warm-up launches 1 and 2 of `add`; the capture runs nothing; 3 to 8 are launches of the graph."""
    replay.capture("--kernel", "add", "--launch", "6", application=warm_program)
    calls = json.loads(replay("ls", "x.rsnap", "calls", "--section", "window", "--json").stdout)["calls"]
    assert [call["function"] for call in calls] == ["cuGraphLaunch"]
    kernels = {name[:11]: count for name, count in calls[0]["kernels"].items()}
    assert kernels == {"_Z6linearPf": 2, "_Z4reluPfi": 1, "_Z3addPfPKf": 1}
    listing = replay("ls", "x.rsnap", "calls").stdout
    assert "linear(float*, float const*, float const*, int) x2" in listing
    assert "BeginCapture" not in listing
    info = json.loads(replay("info", "x.rsnap", "--json").stdout)
    assert {kernel["name"][:11]: kernel["launches"] for kernel in info["kernels"]} == kernels
    both_ways_match(replay)
    result = json.loads(replay.run("x.rsnap", "--expand-graphs", "--json").stdout)
    assert [node["name"][:11] for node in result["nodes"]] == [
        "_Z6linearPf", "_Z4reluPfi", "_Z6linearPf", "_Z3addPfPKf",
    ]  # fmt: skip
    assert all(node["gpu_ns"] > 0 for node in result["nodes"])


def test_ordinals_count_the_kernels_in_graphs_in_the_order_of_their_nodes(replay, warm_program: list[str]):
    """4 launches of `linear` by the warm-up, then two by each launch of the graph."""
    done = replay.capture("--kernel", "linear", "--launch", "8-9", application=warm_program)
    assert "8 launches" in done.stderr, "two launches of a graph with four kernels"
    calls = json.loads(replay("ls", "x.rsnap", "calls", "--section", "window", "--json").stdout)["calls"]
    assert [call["function"] for call in calls if "Launch" in call["function"]] == ["cuGraphLaunch"] * 2
    both_ways_match(replay)


def test_the_list_counts_launches_by_graphs_and_none_into_a_capture(replay, warm_program: list[str]):
    done = replay("capture", "--list", "--driver", "emulator", "--json", "--", *warm_program)
    (process,) = json.loads(done.stdout.splitlines()[-1])["processes"]
    rows = {row["kernel"][:7]: row["launches"] for row in process["rows"]}
    assert rows == {"_Z6line": 16, "_Z4relu": 8, "_Z3addP": 8, "_Z4step": 20}
    assert process["launches_in_graphs"] == 24
    assert process["launches"] == 52


def test_calls_into_a_stream_capture_are_marked_and_not_replayed(replay, warm_program: list[str]):
    replay.capture("--all", application=warm_program)
    lines = replay("ls", "x.rsnap", "calls", "--section", "window").stdout.splitlines()
    into = [line for line in lines if "into a stream capture" in line]
    begin = next(n for n, line in enumerate(lines) if "cuStreamBeginCapture" in line)
    end = next(n for n, line in enumerate(lines) if "cuStreamEndCapture" in line)
    assert len([line for line in lines[begin:end] if "cuLaunchKernel" in line]) == 4
    assert {line for line in lines[begin:end] if "cuLaunchKernel" in line} <= set(into)
    names = {line.split()[2].partition("(")[0] for line in into}
    assert {"cuMemAllocAsync", "cuMemFreeAsync", "cuEventRecord", "cuStreamWaitEvent"} <= names
    assert not [line for line in into if line in lines[:begin] or line in lines[end:]]
    both_ways_match(replay)


def test_each_launch_of_a_graph_can_have_a_window_of_its_own(replay, warm_program: list[str]):
    replay.capture("--kernel", "add", "--launch", "every:2", application=warm_program)
    assert "outputs of 4 of 4 windows match" in replay.run().stdout


MANY_CHANGES = """
import sys
sys.path.insert(0, sys.argv[1])
import ctypes, driver_api, graph_api
driver = driver_api.Driver("libcuda.so.1")
driver.start()
function = driver.function(driver.module('''.version 7.0
.target sm_70
.address_size 64
.visible .entry set_value(.param .u64 out, .param .u32 value) {
  .reg .b64 %out; .reg .b32 %value;
  ld.param.u64 %out, [out]; ld.param.u32 %value, [value];
  st.global.u32 [%out], %value;
  ret;
}
'''), "set_value")
out, value = ctypes.c_uint64(driver.alloc(4096)), ctypes.c_uint32(7)
values = (ctypes.c_void_p * 2)(ctypes.addressof(out), ctypes.addressof(value))
node = graph_api.KernelNode(function, (1, 1, 1), (1, 1, 1), 0, ctypes.addressof(values), None, None, None)
graph = driver.make("cuGraphCreate", 0)
kernel = driver.make("cuGraphAddKernelNode_v2", graph, None, 0, ctypes.byref(node))
executable = driver.make("cuGraphInstantiateWithFlags", graph, 0)
driver.do("cuGraphLaunch", executable, 0)
for value.value in range(1, int(sys.argv[2]) + 1):
    driver.do("cuGraphExecKernelNodeSetParams_v2", executable, kernel, ctypes.byref(node))
    driver.do("cuGraphNodeSetEnabled", executable, kernel, value.value % 2)
    driver.do("cuGraphNodeSetEnabled", executable, kernel, 1)
    driver.do("cuGraphExecUpdate_v2", executable, graph, (ctypes.c_char * 64)())
    driver.do("cuGraphExecKernelNodeSetParams_v2", executable, kernel, ctypes.byref(node))
driver.do("cuGraphLaunch", executable, 0)
driver.do("cuCtxSynchronize")
print(driver.words(out.value, 1)[0])
"""


def test_changes_while_no_window_is_open_do_not_grow_the_capture(replay):
    """Tens of thousands of changes between two launches; the window finds the last ones, in their order."""
    sizes = {}
    for updates in (10, 10_000):
        application = [sys.executable, "-c", MANY_CHANGES, HELPERS, str(updates)]
        name = f"{updates}.rsnap"
        options = ("--kernel", "set_value", "--launch", "2", "--keep-raw")
        done = replay.capture(*options, application=application, output=name)
        assert done.stdout == f"{updates}\n"
        (calls,) = (replay.folder / f"{updates}.rcap").glob("calls.*.bin")
        sizes[updates] = calls.stat().st_size
        listing = json.loads(replay("ls", name, "calls", "--json").stdout)["calls"]
        names = [call["function"] for call in listing]
        assert [name for name in names if name.startswith(("cuGraphExec", "cuGraphNode"))] == [
            "cuGraphNodeSetEnabled", "cuGraphExecUpdate_v2", "cuGraphExecKernelNodeSetParams_v2",
        ]  # fmt: skip
        for expand in ((), ("--expand-graphs",)):
            assert "outputs match" in replay.run(name, *expand).stdout
    assert sizes[10_000] - sizes[10] < 4096, sizes


def test_a_host_node_is_refused_by_name_or_left_out_on_request(replay, programs: toolchain.Programs):
    program = programs.compile([CORPUS / "runtime" / "graphs" / "graph_explicit.cu"])
    done = replay.capture("--kernel", "add", "--launch", "1", application=[str(program)])
    assert "UNSUPPORTED_CALL" in done.stderr
    refused = replay.run(status=3)
    assert "a host node: a host function is the application's own code" in refused.stderr
    done = replay.run("x.rsnap", "--best-effort", status=None)
    assert "a graph that the window launches has a host node" in done.stdout
    assert "outputs" in done.stdout


def test_what_the_window_changes_is_undone_between_iterations(replay):
    """Two launches with a change of a parameter between them; the first must find the parameter of the setup again."""
    replay.capture("--kernel", "combine", "--launch", "2-3", application=replay.application("graph_update"))
    calls = json.loads(replay("ls", "x.rsnap", "calls", "--section", "window", "--json").stdout)["calls"]
    assert [call["function"] for call in calls] == [
        "cuGraphLaunch", "cuGraphExecKernelNodeSetParams_v2", "cuGraphLaunch",
    ]  # fmt: skip
    both_ways_match(replay)


SYMBOLS = """
import ctypes, sys
sys.path.insert(0, sys.argv[1])
import driver_api as api, graph_api, random_graphs

driver = api.Driver("libcuda.so.1")
driver.start()
machine = random_graphs.Machine(driver)
graphs = machine.graphs
x, y = machine.banks[0][:2]
machine.reset(0)

def parameters(k):
    return graph_api.kernel_node(machine.mix, 1, 8, [x, y, ctypes.c_uint32(8), ctypes.c_uint32(k)])

def build(k):
    graph = graphs.create()
    node = graphs.kernel(graph, [], machine.mix, 1, 8, [x, y, ctypes.c_uint32(8), ctypes.c_uint32(k)])
    return graph, node

expected = list(range(8))
def check(k):
    for i in range(8):
        expected[i] = (3 * expected[i] + 1000 + i + k) & 0xFFFFFFFF
    assert driver.words(x, 8) == expected, (k, driver.words(x, 8), expected)

makers = {
    "cuGraphInstantiate": lambda e, g: driver.do("cuGraphInstantiate", e, g, None, None, 0),
    "cuGraphInstantiate_v2": lambda e, g: driver.do("cuGraphInstantiate_v2", e, g, None, None, 0),
    "cuGraphInstantiateWithFlags": lambda e, g: driver.do("cuGraphInstantiateWithFlags", e, g, ctypes.c_uint64(1)),
    "cuGraphInstantiateWithParams": lambda e, g: driver.do(
        "cuGraphInstantiateWithParams", e, g, (ctypes.c_uint64 * 4)()
    ),
    "cuGraphInstantiateWithParams_ptsz": lambda e, g: driver.do(
        "cuGraphInstantiateWithParams_ptsz", e, g, (ctypes.c_uint64 * 4)()
    ),
}
launches = ("cuGraphLaunch", "cuGraphLaunch_ptsz")
for number, (name, make) in enumerate(makers.items()):
    graph, node = build(number)
    executable = ctypes.c_uint64()
    make(api.out(executable), graph)
    driver.do("cuGraphUpload", executable.value, 0)
    driver.do(launches[number % 2], executable.value, 0)
    check(number)
    for change in ("cuGraphExecKernelNodeSetParams", "cuGraphExecKernelNodeSetParams_v2"):
        changed, kept = parameters(number + 100)
        driver.do(change, executable.value, node, api.out(changed))
        driver.do("cuGraphLaunch", executable.value, 0)
        check(number + 100)
    other, _ = build(number + 200)
    error_node, outcome = ctypes.c_uint64(), ctypes.c_int(-1)
    driver.do("cuGraphExecUpdate", executable.value, other, api.out(error_node), api.out(outcome))
    driver.do("cuGraphLaunch", executable.value, 0)
    check(number + 200)
    driver.do("cuGraphExecDestroy", executable.value)
print("ok")
"""


@pytest.mark.parametrize(
    "selection", [("--all",), ("--kernel", "mix", "--launch", "3"), ("--kernel", "mix", "--launch", "8-13")]
)
def test_every_version_of_the_functions_that_make_change_and_launch_graphs(
    replay, selection: tuple[str, ...]
):
    application = [sys.executable, "-c", SYMBOLS, HELPERS]
    done = replay.capture(*selection, application=application)
    assert "ok" in done.stdout
    both_ways_match(replay)
