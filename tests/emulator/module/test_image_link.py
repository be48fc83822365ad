"""Several PTX texts as one module: cuLink*, and programs built with -rdc=true."""

from __future__ import annotations

import ctypes
import os
import subprocess
from pathlib import Path

import driver_api as api
import pytest
from driver_api import Driver
from places import KERNELS

PTX_INPUT, FATBINARY_INPUT, LIBRARY_INPUT = 1, 2, 4
LINKED = KERNELS / "linked"

USES = (
    api.HEADER
    + """
.extern .global .align 4 .u32 counter;
.extern .func (.param .b32 r) twice (.param .b32 x);
.global .align 4 .u32 own = 7;
.visible .entry first(.param .u64 p)
{
  .reg .b32 %r<5>; .reg .b64 %rd1;
  ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [counter]; ld.global.u32 %r4, [own];
  { .param .b32 a; .param .b32 b; st.param.b32 [a], %r1;
    call.uni (b), twice, (a); ld.param.b32 %r2, [b]; }
  add.u32 %r3, %r2, %r4;
  st.global.u32 [%rd1], %r3;
  ret;
}
"""
)
DEFINES = (
    api.HEADER
    + """
.visible .global .align 4 .u32 counter = 21;
.global .align 4 .u32 own = 1000;
.visible .func (.param .b32 r) twice (.param .b32 x)
{
  .reg .b32 %r<3>; .reg .b64 %rd1;
  ld.param.b32 %r1, [x]; add.u32 %r2, %r1, %r1; st.param.b32 [r], %r2; ret;
}
.visible .entry second(.param .u64 p)
{
  .reg .b32 %r1; .reg .b64 %rd1;
  ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [own]; st.global.u32 [%rd1], %r1; ret;
}
"""
)


class Link:
    """A linker with both log buffers."""

    def __init__(self, cuda: Driver, size: int = 400) -> None:
        self.cuda = cuda
        self.errors, self.information = ctypes.create_string_buffer(size), ctypes.create_string_buffer(size)
        self.options, self.values = (ctypes.c_int * 4)(5, 6, 3, 4), (ctypes.c_void_p * 4)()
        self.values[0], self.values[1] = ctypes.addressof(self.errors), size
        self.values[2], self.values[3] = ctypes.addressof(self.information), size
        self.state = api.handle()
        cuda.do("cuLinkCreate_v2", 4, self.options, self.values, api.out(self.state))

    def add(self, text: str, name: str, kind: int = PTX_INPUT) -> int:
        data = text.encode() + b"\0"
        return self.cuda.cuLinkAddData_v2(self.state, kind, data, len(data), name, 0, None, None)

    def complete(self) -> tuple[int, bytes]:
        image, size = ctypes.c_void_p(), ctypes.c_size_t()
        error = self.cuda.cuLinkComplete(self.state, api.out(image), api.out(size))
        return error, ctypes.string_at(image, size.value) if not error else b""


def linked(cuda: Driver, *texts: str) -> tuple[int, bytes, str]:
    link = Link(cuda)
    for number, text in enumerate(texts):
        assert link.add(text, f"{number}.ptx") == 0
    error, image = link.complete()
    return error, image, link.errors.value.decode()


def result(cuda: Driver, function: int) -> int:
    out = cuda.alloc(4)
    assert cuda.launch(function, (1,), (1,), [out]) == 0
    return cuda.words(out, 1)[0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_names_are_resolved_across_texts_and_static_ones_kept_apart(cuda: Driver, order):
    error, image, _ = linked(cuda, *[(USES, DEFINES)[k] for k in order])
    assert error == 0
    module = cuda.make("cuModuleLoadData", image)
    assert result(cuda, cuda.function(module, "first")) == 2 * 21 + 7
    assert result(cuda, cuda.function(module, "second")) == 1000
    library = cuda.make("cuLibraryLoadData", image, None, None, 0, None, None, 0)
    count = ctypes.c_uint()
    cuda.do("cuLibraryGetKernelCount", api.out(count), library)
    assert count.value == 2
    assert result(cuda, cuda.make("cuLibraryGetKernel", library, "second")) == 1000
    cuda.do("cuLibraryUnload", library)


def test_two_strong_definitions_are_an_error_that_names_both_texts(cuda: Driver):
    error, _, log = linked(cuda, DEFINES, DEFINES)
    assert error == api.INVALID_PTX
    assert "defined a second time" in log
    assert "0.ptx" in log
    assert "1.ptx" in log


def test_a_function_may_be_declared_with_a_result_that_it_does_not_give(cuda: Driver):
    """As numba-cuda declares `void` functions of others; the result is not defined."""
    silent = DEFINES.replace(".func (.param .b32 r) twice", ".func twice").replace(
        "st.param.b32 [r], %r2; ", ""
    )
    error, image, _ = linked(cuda, USES, silent)
    assert error == 0
    module = cuda.make("cuModuleLoadData", image)
    out = cuda.alloc(4)
    assert cuda.launch(cuda.function(module, "first"), (1,), (1,), [out]) == 0
    cuda.do("cuCtxSynchronize")
    assert result(cuda, cuda.function(module, "second")) == 1000


def test_unresolved_names_are_an_error_in_the_log_with_its_size(cuda: Driver):
    link = Link(cuda)
    assert link.add(USES, "uses.ptx") == 0
    assert link.complete()[0] == api.INVALID_PTX
    log = link.errors.value.decode()
    assert "line 11, column 47: unresolved: 'counter'" in log
    assert link.values[1] == len(log)
    short = Link(cuda, 10)
    short.add(USES, "uses.ptx")
    short.complete()
    assert len(short.errors.value) == 9
    assert cuda.cuModuleLoadData(api.out(api.handle()), USES) == api.INVALID_PTX


@pytest.mark.parametrize(
    ("first", "second", "value"),
    [("weak", "visible", 2), ("visible", "weak", 1), ("weak", "weak", 1), ("common", "visible", 2)],
)
def test_a_strong_definition_wins_over_weak_and_common_ones(cuda: Driver, first, second, value):
    def text(linkage: str, number: int) -> str:
        initial = "" if linkage == "common" else f" = {number}"
        return api.HEADER + f".{linkage} .global .align 4 .u32 v{initial};\n"

    reader = (
        ".visible .entry read(.param .u64 p) { .reg .b32 %r1; .reg .b64 %rd1; ld.param.u64 %rd1, [p];"
        " ld.global.u32 %r1, [v]; st.global.u32 [%rd1], %r1; ret; }"
    )
    error, image, log = linked(cuda, text(first, 1) + reader, text(second, 2))
    assert error == 0, log
    assert result(cuda, cuda.function(cuda.make("cuModuleLoadData", image), "read")) == value


def test_the_largest_common_symbol_is_the_one(cuda: Driver):
    texts = [api.HEADER + f".common .global .align 4 .b8 v[{size}];\n" for size in (16, 64, 32)]
    error, image, _ = linked(cuda, *texts)
    size = ctypes.c_size_t()
    module = cuda.make("cuModuleLoadData", image)
    cuda.do("cuModuleGetGlobal_v2", None, api.out(size), module, "v")
    assert (error, size.value) == (0, 64)


def test_inputs_that_hold_no_ptx_are_refused_with_words(cuda: Driver):
    link = Link(cuda)
    assert link.add("\x7fELF" + "0" * 100, "a.cubin", 0) == api.NO_BINARY_FOR_GPU
    assert "SASS" in link.errors.value.decode()
    assert Link(cuda).add("!<arch>\n", "a.a", LIBRARY_INPUT) == api.NOT_SUPPORTED
    broken = Link(cuda)
    assert broken.add(USES.replace("ret;", "ret"), "broken.ptx") == api.INVALID_PTX
    assert broken.errors.value.startswith(b"broken.ptx: line ")
    assert Link(cuda).complete()[0] == api.INVALID_VALUE


def test_a_damaged_linked_image_is_refused(cuda: Driver):
    _, image, _ = linked(cuda, USES, DEFINES)
    for size in range(0, len(image), 97):
        assert cuda.cuModuleLoadData(api.out(api.handle()), image[:size] + b"\0") != 0, size
    for wrong in (b"// linked PTX texts: 0\n", b"// linked PTX texts: 99999999999\n// text of bytes: 9 x\n"):
        assert cuda.cuModuleLoadData(api.out(api.handle()), wrong + b"\0") == api.INVALID_IMAGE


def test_a_program_of_two_objects_with_relocatable_device_code(programs, emulator_dir: Path):
    sources = [LINKED / "first.cu", LINKED / "second.cu"]
    program = programs.compile(sources, "-rdc=true", architecture="80")
    done = subprocess.run(
        [program],
        env={**os.environ, "LD_LIBRARY_PATH": str(emulator_dir)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout == "no error 1003 1008 1570 228\n", done.stderr


@pytest.mark.parametrize(
    ("options", "values", "error"),
    [([7], [4], 0), ([7], [5], 1), ([9, 1], [80, 64], 1), ([19], [0], 0), ([19], [1], 801), ([70], [0], 1)],
)
def test_jit_options_are_checked(cuda: Driver, options, values, error):
    ids, words = (ctypes.c_int * len(options))(*options), (ctypes.c_void_p * len(values))(*values)
    assert cuda.cuModuleLoadDataEx(api.out(api.handle()), api.VECTOR_ADD, len(options), ids, words) == error


MAX_REGISTERS = 0


def registers(cuda: Driver, module: int, name: str) -> int:
    return cuda.integer("cuFuncGetAttribute", 4, cuda.function(module, name))


def test_a_limit_of_registers_is_what_the_function_has_then(cuda: Driver):
    usual = registers(cuda, cuda.module(api.VECTOR_ADD), "vector_add")
    limit = usual - 3
    options, values = (ctypes.c_int * 1)(MAX_REGISTERS), (ctypes.c_void_p * 1)(limit)
    loaded, library, kernel, state = api.handle(), api.handle(), api.handle(), api.handle()
    cuda.do("cuModuleLoadDataEx", api.out(loaded), api.VECTOR_ADD, 1, options, values)
    assert registers(cuda, loaded.value, "vector_add") == limit
    cuda.do("cuLibraryLoadData", api.out(library), api.VECTOR_ADD, options, values, 1, None, None, 0)
    cuda.do("cuLibraryGetKernel", api.out(kernel), library, "vector_add")
    assert cuda.integer("cuFuncGetAttribute", 4, kernel) == limit
    for texts in ([api.VECTOR_ADD], [api.VECTOR_ADD, api.VARIABLES]):
        cuda.do("cuLinkCreate_v2", 1, options, values, api.out(state))
        for text in texts:
            cuda.do("cuLinkAddData_v2", state, PTX_INPUT, text, len(text), None, 0, None, None)
        image, size = ctypes.c_void_p(), ctypes.c_size_t()
        cuda.do("cuLinkComplete", state, api.out(image), api.out(size))
        cuda.do("cuModuleLoadData", api.out(loaded), image)
        assert registers(cuda, loaded.value, "vector_add") == limit
    values[0] = 255  # more than it needs changes nothing
    cuda.do("cuModuleLoadDataEx", api.out(loaded), api.VECTOR_ADD, 1, options, values)
    assert registers(cuda, loaded.value, "vector_add") == usual
