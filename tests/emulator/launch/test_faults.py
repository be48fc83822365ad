"""Illegal accesses: the error, the poisoned context, and what the message names."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from places import KERNELS

FAULTS = KERNELS / "faults.ptx"

# access(p, offset): reads or writes `what` at p + offset. recurse(): calls itself for ever.
HAND = (
    api.HEADER
    + """
.visible .entry access(.param .u64 p)
{
  .reg .b64 %rd<3>; .reg .b32 %r<3>; .reg .b16 %h1; .shared .align 8 .b8 s[64]; .local .align 8 .b8 l[64];
  ld.param.u64 %rd1, [p];
  WHAT
  ret;
}
.func again (.param .b64 n)
{
  .reg .b64 %rd1; .local .b8 big[4096];
  ld.param.b64 %rd1, [n];
  { .param .b64 m; st.param.b64 [m], %rd1; call.uni again, (m); }
  ret;
}
.visible .entry recurse()
{
  { .param .b64 m; st.param.b64 [m], 1; call.uni again, (m); }
  ret;
}
"""
)


def faulted(fresh, script: str) -> tuple[list[str], str]:
    """What the script printed, and the driver's words. It prints the error, then what a later call gives."""
    done = fresh(
        f"""
        module = d.module(open({str(FAULTS)!r}).read())
        p = d.alloc(4096)
        def run(name, *values, grid=1, block=32, module=module):
            d.launch(d.function(module, name), (grid,), (block,), values)
            print(d.cuCtxSynchronize(), d.cuMemAlloc_v2(out(handle()), 4))
        """
        + script
    )
    return done.stdout.split(), done.stderr


def test_past_the_end_names_the_line_the_thread_and_the_allocation(fresh):
    printed, words = faulted(fresh, '\n        run("past", p, ctypes.c_int(2000), grid=40)')
    assert printed == ["700", "700"]
    assert "illegal write of 4 bytes at 0x" in words
    assert ": 0 bytes past the end of the 4,096-byte allocation at 0x" in words
    assert "in kernel past, faults.cu:8 (PTX line " in words
    assert "block (32,0,0), thread (0,0,0)" in words


def test_an_inlined_function_names_both_lines(fresh):
    printed, words = faulted(fresh, '\n        run("inlined", p, ctypes.c_int(1026), block=1)')
    assert printed == ["700", "700"]
    assert "8 bytes past the end of the 4,096-byte allocation" in words
    assert "faults.cu:3, inlined at faults.cu:11 (PTX line 6" in words


def test_a_null_pointer_and_a_demangled_name(fresh):
    printed, words = faulted(fresh, '\n        run("_Z5typedIdEvPT_", 0, block=1)')
    assert printed == ["700", "700"]
    assert "illegal write of 8 bytes at 0x0: a null pointer" in words
    assert "in kernel void typed<double>(double*) [_Z5typedIdEvPT_], faults.cu:14 (PTX line" in words


def test_a_freed_allocation_is_named(fresh):
    printed, words = faulted(
        fresh, '\n        q = d.alloc(12345); d.do("cuMemFree_v2", q); run("_Z5typedIdEvPT_", q + 8, block=1)'
    )
    assert printed == ["700", "700"]
    assert "8 bytes into the 12,345-byte allocation at 0x" in words
    assert "which was freed" in words


def test_memory_that_kernels_may_only_read_is_called_so(fresh):
    printed, words = faulted(
        fresh,
        """
        import mmap
        page = mmap.mmap(-1, 4096); address = ctypes.addressof(ctypes.c_char.from_buffer(page))
        d.do("cuMemHostRegister_v2", address, 4096, 8)  # CU_MEMHOSTREGISTER_READ_ONLY
        run("_Z5typedIdEvPT_", address, block=1)
        """,
    )
    assert printed == ["700", "700"]
    assert "in memory that kernels may only read: inside the 4,096-byte" in words


def test_a_kernel_writes_constants_through_their_address_and_later_ones_read_them(cuda):
    """As on a GPU, where the address that the host is given is one of device memory: hashcat fills its constants so."""
    module = cuda.module(
        api.HEADER
        + """
        .const .align 4 .b8 table[64] = {7};
        .visible .entry fill(.param .u64 to) {
          .reg .b64 %rd1; .reg .b32 %r<3>;
          ld.param.u64 %rd1, [to]; ld.const.u32 %r1, [table]; mad.lo.u32 %r2, %r1, 3, 4;
          st.global.u32 [%rd1+8], %r2; ret;
        }
        .visible .entry read(.param .u64 to) {
          .reg .b64 %rd1; .reg .b32 %r1;
          ld.param.u64 %rd1, [to]; ld.const.u32 %r1, [table+8]; st.global.u32 [%rd1], %r1; ret;
        }
        """
    )
    table, size = ctypes.c_uint64(), ctypes.c_size_t()
    cuda.do("cuModuleGetGlobal_v2", api.out(table), api.out(size), module, b"table")
    out = cuda.alloc(4)
    for kernel, to in (("fill", table.value), ("read", out)):
        cuda.launch(cuda.function(module, kernel), (1,), (1,), [to])
    assert cuda.words(out, 1) == [25]


@pytest.mark.parametrize(
    ("what", "error", "named"),
    [
        ("st.global.u64 [%rd1+4], %rd2;", 716, "misaligned address: 8 bytes at 0x"),
        ("st.global.u64 [%rd1+4], %rd2;", 716, "in memory: inside the "),
        ("ld.global.u32 %r1, [%rd1+-4];", 700, "illegal read of 4 bytes"),
        ("st.shared.u32 [s+128], %r1;", 700, "in shared memory, where the block has 64 bytes"),
        (
            "mov.u32 %r1, 9; ld.local.u32 %r2, [%r1+1];",
            716,
            "misaligned address: 4 bytes at 0xa in local memory",
        ),
        ("mov.u32 %r1, 4000000; ld.local.u32 %r2, [%r1];", 700, "in local memory, where a thread has"),
        ("add.u64 %rd1, %rd1, 1099511627776; ld.global.u16 %h1, [%rd1];", 700, "far from every allocation"),
    ],
)
def test_every_kind_of_access(fresh, what: str, error: int, named: str):
    text = HAND.replace("WHAT", what)
    printed, words = faulted(fresh, f'\n        run("access", p, block=1, module=d.module({text!r}))')
    assert printed == [str(error)] * 2
    assert named in words
    assert "in kernel access, PTX line 9, block (0,0,0), thread (0,0,0)" in words


def test_calls_without_an_end_are_a_stack_error(fresh):
    text = HAND.replace("WHAT", "")
    printed, words = faulted(fresh, f'\n        run("recurse", block=1, module=d.module({text!r}))')
    assert printed == ["714", "714"]  # CUDA_ERROR_HARDWARE_STACK_ERROR
    assert "stack overflow" in words
