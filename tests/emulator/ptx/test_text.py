"""What a PTX text may say at module scope and in bodies, and the words for what it may not."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from driver_api import Driver
from places import KERNELS

DIRECTIVES = """.version 9.0
.target sm_90a, texmode_independent, debug
.address_size 64
@@DWARF .section .debug, "x"
.file 1 "a.cu", 1700000000, 1234
.file 2 "b.cuh"
.pragma "nounroll", "other";
.extern .shared .align 16 .b8 dynamic[];
.common .global .align 4 .u32 shared_by_all;
.weak .global .align 4 .u32 maybe = 3, other[2] = {1, 2};
.global .attribute(.managed) .align 8 .u64 managed;
.global .attribute(.unified(12, 34)) .u32 unified;
.global .u64 pointers[2] = {managed, generic(maybe)+4};
.func (.param .b32 r) real (.param .b32 x) .noreturn ;
.weak .func (.param .b32 r) alias (.param .b32 x);
.visible .func (.param .b32 r) real (.param .b32 x) .attribute(.unified(1,2)) .abi_preserve 8
{
  .reg .b32 %r1; ld.param.b32 %r1, [x]; st.param.b32 [r], %r1; ret;
}
.alias alias, real;
.visible .entry k(.param .u64 .ptr .global .align 8 p)
.maxntid 128, 1, 1 .minnctapersm 2 .maxnreg 64 .pragma "x";
{
  .reg .b32 %r<4>; .reg .b64 %rd<4>; .reg .pred %p<2>;
  .loc 1 10 3
  .loc 2 5 1, function_name $L__info_string0, inlined_at 1 10 3
  .pragma "nounroll";
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, 1;
targets: .branchtargets L0, L1;
proto: .callprototype (.param .b32 _) _ (.param .b32 _);
choice: .calltargets real;
  brx.idx %r1, targets;
L0: mov.u32 %r1, 100;
L1: { .param .b32 a; .param .b32 b; st.param.b32 [a], 42; call.uni (b), alias, (a); ld.param.b32 %r2, [b]; }
  st.global.u32 [%rd1], %r2;
  ret;
}
.section .debug_str { $L__info_string0: .b8 95, 90, 0 }
"""


def log_of(cuda: Driver, text: str | bytes) -> tuple[int, str]:
    log, options, values = ctypes.create_string_buffer(400), (ctypes.c_int * 2)(5, 6), (ctypes.c_void_p * 2)()
    values[0], values[1] = ctypes.addressof(log), 400
    error = cuda.cuModuleLoadDataEx(api.out(api.handle()), text, 2, options, values)
    return error, log.value.decode(errors="replace")


def test_every_directive_is_read(cuda: Driver):
    error, log = log_of(cuda, DIRECTIVES)
    assert error == 0, log
    out = cuda.alloc(4)
    module = cuda.module(DIRECTIVES)
    assert cuda.launch(cuda.function(module, "k"), (1,), (1,), [out]) == 0
    assert cuda.words(out, 1) == [42]
    address = api.handle()
    cuda.do("cuModuleGetGlobal_v2", api.out(address), None, module, "other")
    assert cuda.words(address.value, 2) == [1, 2]


def test_elements_of_arrays_have_addresses(cuda: Driver):
    text = """.global .u32 words[4] = {1, 2, 3, 4};
.visible .entry k(.param .u64 p)
{
  .reg .b32 %r; .reg .b64 %rd<3>; .shared .b64 wide[8];
  ld.param.u64 %rd0, [p];
  mov.u64 %rd1, words[2]; ld.global.u32 %r, [%rd1]; st.global.u32 [%rd0], %r;
  ld.global.u32 %r, words[1]; st.global.u32 [%rd0+4], %r;
  mov.u64 %rd1, wide[3]; mov.u64 %rd2, wide; sub.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd0+8], %rd1;
  ret;
}
"""
    out = cuda.alloc(12)
    module = cuda.module(api.HEADER + text)
    assert cuda.launch(cuda.function(module, "k"), (1,), (1,), [out]) == 0
    assert cuda.words(out, 3) == [3, 2, 24]


@pytest.mark.parametrize("sm", [50, 52, 61, 70, 75, 80, 86, 89, 90])
def test_targets_up_to_the_device_are_taken(cuda: Driver, sm: int):
    assert log_of(cuda, api.VECTOR_ADD.replace("sm_80", f"sm_{sm}")) == (0, "")


def body(text: str) -> str:
    return (
        api.HEADER
        + ".visible .entry k(.param .u64 p)\n{\n .reg .b32 %r<4>; .reg .pred %p1;\n"
        + text
        + "\n}\n"
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (".version 8.0\n.target sm_80\n.address_size 32\n", "line 3, column 15: addresses of 32 bits"),
        (".version x\n", "line 1, column 10: expected a number"),
        (".version 8.0\n.target gpu\n", "line 2, column 9: unknown target 'gpu'"),
        (".version 8.0\n", "no .target directive"),
        (".target sm_80\n.version 8.0\n", "line 1, column 1"),
        (api.HEADER + ".global .u32 a;\n.global .u32 a;\n", "line 5, column 14: 'a' is defined twice, first on line 4"),
        (api.HEADER + ".global .u64 p = nowhere;\n", "line 4, column 18: the initial value of 'p' names 'nowhere'"),
        (api.HEADER + ".frob .u32 a;\n", "line 4, column 1: unknown directive '.frob'"),
        (api.HEADER + "/* no end", "line 4, column 1: a comment that is never closed"),
        (body(" add.u32 %r1, %r2;\n ret;"), "line 7, column 2: add.u32 with 2 operands; it takes 3"),
        (body(" mov.u32 %r9, 1;"), "line 7, column 10: the register '%r9' is not declared"),
        (body(" mov.u32 %r1, 1\n ret;"), "line 8, column 2: expected ';' after an instruction, found 'r'"),
        (body("L: L: ret;"), "line 7, column 4: the label 'L' is defined twice"),
        (body(" bra nowhere;"), "line 7, column 6: 'nowhere' is not defined"),
        (body(" @%r1 bra L; L:"), "line 7, column 3: '%r1' after '@' is no predicate register"),
        (body(" .reg .b32 %r<9>;"), "line 7, column 12: the register '%r' is declared twice"),
        (body(" .reg .b32 %z<4000000000>;"), "more than 1048576 registers"),
        (body(" { { ret; }"), "'{' is never closed"),
        (body(" ret; }"), "line 8, column 1: expected a directive"),
        (body(" .global .u32 x;"), "module scope only"),
        (body(" ld.global.u32 %r1, [unknown_variable];"), "line 7, column 22: 'unknown_variable' is not defined"),
        (body(" .shared .b32 x[4]; mov.u32 %r1, x[%p1];"), "line 7, column 36: a register of type .pred"),
        (body(" .reg .v2 .u32 v; mov.u32 %r1, v.z;"), "'v' has no component .z"),
        (body(" .reg .v4 .f64 v;"), "a vector register of 4 elements of type .f64"),
        (body(" st.global.u32 [%r1], {{{{{{1}}}}}};"), "operands nested too deeply"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told_at_load_with_line_and_column(cuda: Driver, text: str, message: str):
    error, log = log_of(cuda, text)
    assert error == api.INVALID_PTX
    assert message in log


def test_a_later_version_has_an_error_of_its_own(cuda: Driver):
    assert log_of(cuda, api.VECTOR_ADD.replace(".version 8.0", ".version 12.3"))[0] == 222


def test_damaged_texts_load_or_are_refused_and_their_kernels_end(fresh):
    """Mutations of real nvcc output: a result every time, and the process lives."""
    done = fresh(
        f"""
        import random, re
        whole = open({str(KERNELS / "kernels.ptx")!r}).read()
        head = whole[: whole.index(".visible .entry")]
        found = re.findall(r"\\.visible \\.entry.*?\\n}}\\n", whole, re.S)
        bodies = [head + b for b in found if "call" not in b]
        words = "0 -1 4294967296 18446744073709551616 {{ }} ( ) [ ] ; , @ : < > %r1 %rd1 %p1 /* \\" bra".split()
        words += ["ret;", "trap;", ".reg .b32 %z<1000000>;", ".v4", ".f64"]
        words += [".shared .b8 q[1099511627776];", ".local .b8 q[1099511627776];"]
        noise, loaded = random.Random(11), 0
        for case in range(700):
            tokens = re.findall(r"[\\w$%.]+|\\s+|.", noise.choice(bodies), re.S)
            for _ in range(noise.randint(1, 2)):
                at = noise.randrange(len(tokens))
                kind = noise.randrange(5)
                if kind == 0: del tokens[at]
                elif kind == 1: tokens.insert(at, noise.choice(tokens))
                elif kind == 2: tokens[at] = noise.choice(words)
                elif kind == 3: tokens[at] = noise.choice(tokens)
                else: del tokens[at : None if noise.random() < 0.1 else at + 2]
            module = handle()
            error = d.cuModuleLoadData(out(module), "".join(tokens))
            assert error in (0, 2, 200, 218), (case, error)
            if error:
                continue
            loaded += 1
            function, count = handle(), ctypes.c_uint()
            d.do("cuModuleGetFunctionCount", out(count), module)
            if count.value == 0:
                continue
            d.do("cuModuleEnumerateFunctions", out(function), 1, module)
            buffer = d.alloc(65536)
            d.launch(function.value, (2,), (64,), [buffer] * 16)
            if d.cuCtxSynchronize():
                d.do("cuCtxDestroy_v2", d.context) if case < 0 else d.cuDevicePrimaryCtxReset_v2(0)
                d.start()
        print(loaded > 50)
        """,
        TIMEOUT="100",
        QUIET="1",
    )
    assert done.stdout == "True\n", done.stderr[-2000:]
