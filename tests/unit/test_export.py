"""Exported programs: what of a stranger's snapshot reaches their text, and what is refused."""

from __future__ import annotations

import ast
from dataclasses import replace

import pytest

from replay.errors import EngineError
from replay.export import cuda, python
from replay.export.plan import plan_export
from replay.export.rendering import comment
from replay.export.steps import Call, Compare
from replay.snapshot.container import SnapshotReader

from .snapshot_factory import CONTEXT, vector_add

HOSTILE = 'k"); system("true"); /* \\\n#include "/etc/passwd"\n*/ \'\'\' """ {} %s \u2028 ??/'


def planned(factory, tmp_path):
    with SnapshotReader(factory.write(tmp_path / "x.rsnap")) as reader:
        return plan_export(reader)


def test_the_steps_are_the_calls_of_the_window(tmp_path):
    plan = planned(vector_add(64), tmp_path)
    assert [step.function.symbol for step in plan.window if isinstance(step, Call)] == ["cuLaunchKernel"]
    assert [step.function.symbol for step in plan.setup] == ["cuModuleLoadData", "cuModuleGetFunction"]
    assert len([step for step in plan.compares if isinstance(step, Compare)]) == 3
    assert len(plan.restores) == 1  # only what the window writes


def test_names_of_a_stranger_never_become_code(tmp_path):
    factory = vector_add(64)
    factory.kernels[0] = replace(factory.kernels[0], name=HOSTILE, demangled=HOSTILE)
    get = next(number for number, call in enumerate(factory.calls) if call.function == "cuModuleGetFunction")
    factory.calls[get] = replace(factory.calls[get], inputs={"name": HOSTILE.encode()})
    factory.ranges[0] = replace(factory.ranges[0], name=HOSTILE)
    plan = planned(factory, tmp_path)
    plan.name = HOSTILE
    text, renderer = cuda.render(plan)
    assert "system" not in "".join(line.split("//")[0] for line in text.splitlines())
    assert not any(line.rstrip().endswith("\\") for line in text.splitlines())
    assert [line for line in text.splitlines() if line.startswith("#")] == ['#include "export.h"']
    assert text.isascii()
    script, _ = python.render(plan)
    assert script.isascii()
    calls = [node.func for node in ast.walk(ast.parse(script)) if isinstance(node, ast.Call)]
    assert "system" not in {getattr(function, "id", getattr(function, "attr", "")) for function in calls}
    assert all(name.replace("-", "").replace(".", "").isalnum() for name in renderer.files)


@pytest.mark.parametrize("text", [HOSTILE, "a\\", "a\r\nb", "*/", "??/\n", "\x1b[31m"])
def test_a_comment_stays_a_comment(text):
    found = comment(text)
    assert "\n" not in found
    assert not set(found) & set("\\\"'`{}/\r\x1b")


def test_a_function_that_is_not_exported_is_named(tmp_path):
    factory = vector_add(64)
    factory.call("cuCtxCreate_v2", [0x7F00, 0, 0], outputs={"pctx": (CONTEXT + 1).to_bytes(8, "little")})
    with pytest.raises(EngineError, match="context of its own"):
        planned(factory, tmp_path)


def test_a_window_that_ended_in_a_fault_is_refused(tmp_path):
    factory = vector_add(64)
    factory.call("cuCtxSynchronize", [], result=700)
    with pytest.raises(EngineError, match="does not survive"):
        planned(factory, tmp_path)
