"""Modules and operators of PyTorch around launches: the real PyTorch's hooks, on its CPU build, and launches through
cuda.bindings."""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

from .launching import launches, ranges, written

pytestmark = pytest.mark.timeout(600)  # PyTorch takes its time to be imported
_TORCH = find_spec("torch")
needs_torch = pytest.mark.skipif(_TORCH is None, reason="needs torch: its CPU build is enough")

MARK_IN_OPERATOR = """
    import torch

    @torch.library.custom_op("mine::mark", mutates_args=())
    def mark_in_operator(x: torch.Tensor, value: int) -> torch.Tensor:
        by_bindings(value)
        return x.clone()

    mark_in_operator.register_fake(lambda x, value: x.clone())
"""
MODEL = (
    MARK_IN_OPERATOR
    + """
    mark_in_operator.register_autograd(lambda context, gradient: (mark_in_operator(gradient, 9), None))

    class Attention(torch.nn.Module):
        def __init__(self, value):
            super().__init__()
            self.value = value
            self.project = torch.nn.Linear(2, 2)

        def forward(self, x):
            by_bindings(self.value)
            return mark_in_operator(self.project(x), self.value + 1)

    class Failing(torch.nn.Module):
        def forward(self, x):
            raise ValueError

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.ModuleDict({"attention": Attention(n)}) for n in (1, 3))
            self.failing = Failing()

        def forward(self, x):
            try:
                self.failing(x)
            except ValueError:
                pass
            for layer in self.layers:
                x = layer["attention"](x)
            by_bindings(5)
            return x

    by_bindings(6)
    Model()(torch.ones(2, 2)).sum().backward()
    by_bindings(7)
"""
)


@needs_torch
def test_launches_have_modules_and_operators(replay):
    replay.capture(
        "--kernel", "^mark$", "--launch", "1-9", "--torch-stacks", application=written(replay, MODEL)
    )
    found = {
        value: [(domain.removeprefix("torch."), name) for domain, name, _, _ in of_launch]
        for value, of_launch in ranges(replay).items()
    }
    model, marked = ("module", "Model"), ("operator", "mine::mark")
    first, second = ("module", "layers.0.attention"), ("module", "layers.1.attention")
    assert found == {
        6: [], 1: [first, model], 2: [marked, first, model], 3: [second, model], 4: [marked, second, model],
        5: [model], 9: [marked], 7: [],
    }  # fmt: skip


@needs_torch
@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--module", "layers.1.attention"], [3, 4]),
        (["--op", "mine::mark", "--kernel", "mark", "--launch", "2"], [4]),
    ],
)
def test_module_and_operator_choose_launches(replay, words, values):
    done = replay.capture(*words, application=written(replay, MODEL))
    assert [value for value, _ in launches(replay)] == values
    assert replay("run", "x.rsnap", "--quick").returncode == 0
    assert "are not known" not in done.stderr


@needs_torch
def test_hooks_of_modules_leave_compiled_programs_whole(replay):
    program = written(
        replay,
        """
        import torch
        class Model(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = torch.nn.Linear(2, 2)
            def forward(self, x):
                return self.inner(x).relu()
        graphs = []
        def backend(graph, inputs):
            graphs.append(graph)
            def run(*arguments):
                by_bindings(len(graphs))
                return graph(*arguments)
            return run
        compiled = torch.compile(Model(), backend=backend, fullgraph=True)
        compiled(torch.ones(2, 2))
        compiled(torch.ones(2, 2))
    """,
    )
    replay.capture("--module", "Model", application=program)
    assert [value for value, _ in launches(replay)] == [1]


def test_program_that_imports_no_torch_is_left_alone(replay):
    program = written(replay, "by_bindings(1)\nassert 'torch' not in sys.modules\n")
    replay.capture("--kernel", "^mark$", "--torch-stacks", application=program)
    assert ranges(replay) == {1: []}


def test_module_that_is_never_entered_is_said_so(replay):
    done = replay.capture("--module", "layers.0", application=written(replay, "by_bindings(1)\n"), status=3)
    assert "--module layers.0: PyTorch or XLA entered no such place" in done.stderr


@needs_torch
def test_code_of_inductor_says_graph_and_operators(replay):
    """The real Inductor on its CPU build, which calls an operator that launches."""
    program = written(replay, MARK_IN_OPERATOR, """

        def first(x):
            return mark_in_operator(x @ x, 1) @ x

        def second(x):
            return mark_in_operator(x @ x @ x, 2)

        torch.compile(first)(torch.ones(2, 2))
        torch.compile(second)(torch.ones(2, 2))
    """)  # fmt: skip
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(replay.folder / "inductor")}
    words = ("--kernel", "^mark$", "--launch", "1-2", "--python-stacks")
    replay.capture(*words, application=program, env={**os.environ, **cache})
    told = {value: [frame["told"] for frame in frames if frame["told"]] for value, frames in launches(replay)}
    assert told == {
        1: ["Inductor graph 0_inference, mine.mark"],
        2: ["Inductor graph 1_inference, mine.mark"],
    }
    assert ".py:" in (shown := " ".join(replay("ls", "x.rsnap", "calls").stdout.split()))
    assert "call: Inductor graph 1_inference, mine.mark)" in shown


def is_for_cuda():
    """Whether PyTorch was built for CUDA, with no import of it."""
    version = Path(_TORCH.origin).with_name("version.py").read_text() if _TORCH is not None else ""
    return re.search(r"^cuda\b.*= '", version, re.MULTILINE) is not None


@pytest.mark.skipif(not is_for_cuda(), reason="needs torch for CUDA: its NVTX")
def test_ranges_of_emit_nvtx_are_those_of_the_table(replay):
    """PyTorch itself pushes them, from a build for CUDA; waiting for a device, with which it begins, is left out."""
    program = written(replay, MARK_IN_OPERATOR, """
        compiled = torch.compile(lambda x: mark_in_operator(x @ x, 1))
        torch.cuda.synchronize = lambda device=None: None
        with torch.autograd.profiler.emit_nvtx():
            compiled(torch.ones(2, 2))
            by_bindings(2)
    """)  # fmt: skip
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(replay.folder / "inductor")}
    words = ("--kernel", "^mark$", "--launch", "1-2", "--nvtx-stacks")
    replay.capture(*words, application=program, env=environment)
    shown = " ".join(replay("ls", "x.rsnap", "kernels").stdout.split())
    assert re.search(r"mark launched from operator mine::mark, in .*in Inductor graph f[a-z2-7]{51}\b", shown)
    found = ranges(replay)
    assert found[1][-1][1].startswith("Torch-Compiled Region: 0/0, op_id = ")
    assert found[2] == []
