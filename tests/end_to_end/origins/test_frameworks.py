"""Texts that frameworks write into NVTX ranges: shown in words, and chosen by.

No framework runs here: the program pushes the names that XLA makes (`MakeInstructionTitle` and `MakeTitle` of its
nvtx_with_cuda_kernels.cc) and those of PyTorch's `emit_nvtx`, through the real NVTX.
"""

from __future__ import annotations

import re

import pytest

from .launching import launches, ranges, written

pytest.importorskip("nvtx", reason="needs nvtx: pip install 'gpu-replay[test]'")

XLA = """
    import nvtx
    scope = "jit(step)/jit(main)/" + "/".join(f"layers_{n}" for n in range(12))  # long, as those of real models
    def thunk(name, value):
        with nvtx.annotate(f"Thunk:#name={scope}/{name},hlo_op={name},unique_hlo_op_id={value}#", domain="TSL"):
            by_bindings(value)
    def module(name, *operations):
        with nvtx.annotate(f"XlaModule:#prefix=jit(step),hlo_module={name},program_id=3#", domain="TSL"):
            for operation in operations:
                thunk(*operation)
    module("jit_step", ("fusion", 1), ("fusion.1", 2))
    module("jit_step.1", ("fusion", 3), ("loop_add_fusion", 4))
    with nvtx.annotate("Thunk:#hlo_op=fusion,unique_hlo_op_id=5#"):  # of no domain: not XLA's
        by_bindings(5)
"""
EMITTED = """
    import nvtx
    def inside(value, *names):
        for name in names:
            nvtx.push_range(name)
        by_bindings(value)
        for name in names:
            nvtx.pop_range()
    region, graph = "Torch-Compiled Region: 0/1, op_id = 7", f"## Call CompiledFxGraph f{'x' * 51} ##, op_id = 9"
    inside(1, region, graph)
    inside(2, "aten::mm, seq = 4, op_id = 11")
    inside(3, "aten::mm_like, op_id = 12")
"""


@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--op", "fusion"], [1]),
        (["--op", "fusion", "--launch", "2"], [3]),
        (["--op", "loop_add_fusion"], [4]),
        (["--module", "jit_step"], [1, 2]),
        (["--module", "jit_step.1"], [3, 4]),
        (["--op", "jit_step"], []),
    ],
)
def test_module_and_operation_of_xla_choose_launches(replay, words, values):
    done = replay.capture(*words, application=written(replay, XLA), status=0 if values else 3)
    if values:
        assert [value for value, _ in launches(replay)] == values
    else:
        assert "--op jit_step: PyTorch or XLA entered no such place" in done.stderr


def test_operator_of_emit_nvtx_chooses_launches(replay):
    replay.capture("--op", "aten::mm", application=written(replay, EMITTED))
    assert [value for value, _ in launches(replay)] == [2]


def test_what_frameworks_say_is_shown_wherever_ranges_are(replay):
    words = ("--kernel", "^mark$", "--launch", "3", "--nvtx-stacks")
    replay.capture(*words, application=written(replay, XLA))
    assert len(ranges(replay)) == 1
    scope = "jit(step)/jit(main)/" + "/".join(f"layers_{n}" for n in range(12))
    line = f"XLA operation fusion ({scope}/fusion), in XLA module jit_step.1 (jit(step))"
    assert len(line) > 120
    for command in (("info",), ("ls", "kernels"), ("ls", "calls")):
        shown = replay(command[0], "x.rsnap", *command[1:]).stdout
        assert "".join(line.split()) in "".join(shown.split()), command
    replay.run("x.rsnap", "-o", "x.rres", "--history", "results")
    replay("compare", "x.rsnap", "--driver", "emulator", "--a", "block=1", "--b", "block=2", "-o", "c.json")
    replay("report", "x.rres", "c.json", "-o", "page.html")
    replay("report", "x.rsnap", "-o", "view.html")
    for page in ("page.html", "view.html"):
        assert "XLA operation fusion (jit(step)/" in (replay.folder / page).read_text(), page


def test_graphs_and_operators_of_torch_are_named(replay):
    words = ("--kernel", "^mark$", "--launch", "1-3", "--nvtx-stacks")
    replay.capture(*words, application=written(replay, EMITTED))
    shown = " ".join(replay("ls", "x.rsnap", "calls").stdout.split())
    assert f"Inductor graph f{'x' * 51}, in compiled region 0/1" in shown
    assert re.search(r"from operator aten::mm\s", shown)
