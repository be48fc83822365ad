"""Exported programs: what of a stranger's snapshot reaches their text, and what is refused."""

from __future__ import annotations

import ast
import ctypes
import re
import struct
from dataclasses import replace

import pytest

from replay.api import structs
from replay.errors import EngineError
from replay.export import cuda, python
from replay.export.folder import export
from replay.export.plan import plan_export
from replay.export.recording import RecordingDriver
from replay.export.rendering import comment
from replay.export.steps import Call, Compare, Inside
from replay.snapshot.container import SnapshotReader

from ..helpers.snapshot_factory import CONTEXT, vector_add

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


def test_progress_is_told_up_to_the_last_byte(tmp_path):
    told = []
    path = vector_add(64).write(tmp_path / "x.rsnap")
    done = export(path, "cuda", tmp_path / "out", force=False, window=None, progress=told.append)
    assert told[0] == "reading the calls of the window"
    assert "100 % of" in told[-1]
    assert done.size_bytes == sum(file.stat().st_size for file in (tmp_path / "out").iterdir())


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
    directives = [line for line in text.splitlines() if line.startswith("#")]
    assert directives[0] == '#include "export.h"'
    assert all(re.fullmatch(r"#define (cu[A-Za-z0-9_]+) driver_\1\(\)", line) for line in directives[1:])
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
    factory.call("cuTexRefCreate", [0x7F00], outputs={"pTexRef": (CONTEXT + 1).to_bytes(8, "little")})
    with pytest.raises(EngineError, match="texture references are not exported"):
        planned(factory, tmp_path)


def test_a_context_that_no_call_made_is_refused(tmp_path):
    factory = vector_add(64)
    factory.call("cuCtxSetCurrent", [CONTEXT + 1])
    factory.call("cuCtxSynchronize", [])
    with pytest.raises(EngineError, match="no recorded call created"):
        planned(factory, tmp_path)


def test_an_image_that_holds_pointers_of_another_process_is_not_followed(tmp_path):
    factory = vector_add(64)
    wrapper = struct.pack("<IIQQ", 0x466243B1, 2, 0x1000, 0x2000)
    digest = factory.image(wrapper)
    load = next(number for number, call in enumerate(factory.calls) if call.function == "cuModuleLoadData")
    factory.calls[load] = replace(factory.calls[load], inputs={"image": digest})
    with pytest.raises(EngineError, match="holds pointers of another process"):
        planned(factory, tmp_path)


def test_of_host_memory_only_the_bytes_that_are_copied_are_read():
    """The pointer is far before them."""
    recorder = RecordingDriver(lambda address, size_bytes=1: False)
    data = (ctypes.c_char * 8).from_buffer_copy(b"12345678")
    assert recorder.keep(data)
    copy = structs.CUDA_MEMCPY3D()
    copy.srcMemoryType, copy.dstMemoryType = 1, 2
    copy.srcXInBytes, copy.srcY, copy.srcPitch, copy.srcHeight = 1 << 20, 1 << 10, 1 << 21, 1 << 11
    copy.srcHost = ctypes.addressof(data) - (1 << 20) - (1 << 31)
    copy.dstDevice, copy.dstPitch, copy.dstHeight = 0x3000_0000_0000, 8, 1
    copy.WidthInBytes, copy.Height, copy.Depth = 8, 1, 1
    recorder.function("cuMemcpy3D_v2")(ctypes.addressof(copy))
    (step,) = recorder.steps
    source, struct_block = step.blocks
    assert source.data == b"12345678"
    assert (
        structs.CUDA_MEMCPY3D.srcHost.offset,
        Inside(source.number, -(1 << 20) - (1 << 31)),
    ) in struct_block.words


def test_a_window_that_ended_in_a_fault_is_exported_up_to_it(tmp_path):
    factory = vector_add(64)
    factory.call("cuCtxSynchronize", [], result=700)
    factory.call("cuMemFree_v2", [0x1000], result=700)
    plan = planned(factory, tmp_path)
    calls = [step.function.symbol for step in plan.window if isinstance(step, Call)]
    assert calls == ["cuLaunchKernel", "cuCtxSynchronize"]
    assert (plan.error, plan.error_call) == (700, f"call {factory.calls[-2].number} cuCtxSynchronize")
    assert plan.compares == plan.clean_up == []
    assert "take_contexts, 700, " in cuda.render(plan)[0]
    assert "ERROR, ERROR_CALL = 700, 'call " in python.render(plan)[0]


def test_a_reader_finds_names_and_parameters_in_the_text_and_images_in_files(tmp_path):
    plan = planned(vector_add(64), tmp_path)
    for back_end, literal in ((cuda, '"vector_add"'), (python, 'b"vector_add"')):
        text, renderer = back_end.render(plan)
        assert literal in text
        assert "parameters: 0x" in text
        assert 'read_image("image-1.ptx")' in text
        assert b".entry vector_add" in renderer.files["image-1.ptx"].data
