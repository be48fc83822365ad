"""Where memory ends: to the byte, or in the pieces in which a GPU hands it out."""

from __future__ import annotations

import ctypes
import struct

import driver_api as api
import pytest

# access(p, to): one access, at p or in 40 bytes of shared memory and what the launch adds to them.
KERNEL = (
    api.HEADER.replace("sm_80", "sm_75")
    + """
.visible .entry access(.param .u64 p, .param .u64 to)
{
  .reg .b64 %rd<4>; .reg .b32 %r<4>; .shared .align 8 .b8 s[40];
  ld.param.u64 %rd1, [p]; ld.param.u64 %rd2, [to];
  mov.u64 %rd3, s; cvta.shared.u64 %rd3, %rd3;
  mov.u32 %r1, 7;
  WHAT
  mov.u32 %r3, %total_smem_size; st.global.u32 [%rd2], %r3;
  ret;
}
"""
)


def access(
    fresh, what: str, script: str = "p = 0", dynamic: int = 0, **settings: str
) -> tuple[list[str], str]:
    """The error of the launch and %total_smem_size, and the driver's words. The script makes `p`."""
    done = fresh(
        f"""
        to = d.alloc(4)
        {script}
        function = d.function(d.module({KERNEL.replace("WHAT", what)!r}), "access")
        d.launch(function, (1,), (1,), (p, to), shared_bytes={dynamic})
        error = d.cuCtxSynchronize()
        print(error, d.words(to, 1)[0] if error == 0 else "-")
        """,
        **settings,
    )
    return done.stdout.split(), done.stderr


@pytest.mark.parametrize(
    ("capability", "dynamic", "end"),
    # PTX ISA, %total_smem_size: multiples of 256 bytes before sm_80, of 128 from there on.
    [("7.5", 0, 256), ("7.5", 240, 512), ("8.0", 0, 128), ("9.0", 88, 128), ("9.0", 89, 256)],
)
def test_shared_memory_ends_where_a_gpu_ends_it(fresh, capability: str, dynamic: int, end: int):
    inside = (
        f"ld.shared.u32 %r1, [s+{end - 4}]; st.shared.u32 [s+{end - 4}], %r1; ld.u32 %r1, [%rd3+{end - 4}];"
    )
    assert access(fresh, inside, dynamic=dynamic, COMPUTE_CAPABILITY=capability)[0] == ["0", str(end)]
    printed, words = access(
        fresh, f"ld.shared.u32 %r1, [s+{end}];", dynamic=dynamic, COMPUTE_CAPABILITY=capability
    )
    assert printed == ["700", "-"]
    assert f"at 0x{end:x} in shared memory, where the block has {40 + dynamic} bytes" in words
    assert (f"of which a GPU makes {end}" in words) == (40 + dynamic != end)


def test_shared_memory_ends_at_the_byte_where_that_is_asked_for(fresh):
    assert access(fresh, "ld.shared.u32 %r1, [s+36];", EXACT_SHARED="1")[0] == ["0", "128"]
    printed, words = access(fresh, "ld.shared.u32 %r1, [s+40];", EXACT_SHARED="1")
    assert printed == ["700", "-"]
    assert "at 0x28 in shared memory, where the block has 40 bytes\n" in words
    assert access(fresh, "ld.u32 %r1, [%rd3+40];", EXACT_SHARED="1")[0] == ["700", "-"]


def test_what_follows_shared_memory_is_the_blocks_own_and_begins_as_zero(fresh):
    done = fresh(
        f"""
        to = d.alloc(4)
        what = ".reg .pred %p1; ld.shared.u32 %r1, [s+64]; add.u32 %r1, %r1, 1; st.shared.u32 [s+64], %r1;"
        text = {KERNEL!r}.replace("WHAT", what + "setp.ne.u32 %p1, %r1, 1; @%p1 trap;")
        d.launch(d.function(d.module(text), "access"), (64,), (1,), (0, to))
        print(d.cuCtxSynchronize())
        """,
        THREADS="1",
    )
    assert done.stdout.split() == ["0"]


SMALL = "p = d.alloc(4000)"  # in a block with others
ODD = "p = d.alloc(3996)"
LARGE = "p = d.alloc(4 << 20)"  # in pages of its own
NAMED = "REPLAY_EMULATOR_LENIENT=1 lets it pass, as a GPU does where its pages reach"


@pytest.mark.parametrize(
    ("place", "offset"),
    [(SMALL, 4000), (ODD, 3992), (SMALL, 5000), (LARGE, 4 << 20), (LARGE, -4096), (SMALL, -4)],
)
@pytest.mark.parametrize(
    "what", ["ld.global.u32 %r1, [%rd1]", "st.global.u32 [%rd1], %r1", "red.global.add.u32 [%rd1], 1"]
)
def test_an_access_next_to_an_allocation_passes_only_where_that_is_asked_for(
    fresh, place: str, offset: int, what: str
):
    what = f"add.s64 %rd1, %rd1, {offset // 4 * 4}; {what};"
    if place == ODD:  # over the end
        what = "ld.global.u64 %rd1, [%rd1+3992];"
    printed, words = access(fresh, what, place)
    assert printed == ["700", "-"]
    assert NAMED in words
    assert access(fresh, what, place, LENIENT="1")[0] == ["0", "128"]


def test_an_access_far_from_an_allocation_never_passes(fresh):
    for offset in (64 << 20, -(64 << 20)):
        what = f"add.s64 %rd1, %rd1, {offset}; ld.global.u32 %r1, [%rd1];"
        for settings in ({}, {"LENIENT": "1"}):
            printed, words = access(fresh, what, LARGE, **settings)
            assert printed == ["700", "-"]
            assert "REPLAY_EMULATOR_LENIENT" not in words


def test_pinned_and_registered_memory_stay_exact_where_more_passes(fresh):
    """Of what the host owns no neighbour is the device's to touch."""
    read = "ld.global.u32 %r1, [%rd1+8192];"
    register = "import mmap; m = mmap.mmap(-1, 16384); p = ctypes.addressof(ctypes.c_char.from_buffer(m)); "
    register += 'd.do("cuMemHostRegister_v2", p, 4096, 0)'
    for place in ('p = d.make("cuMemHostAlloc", 4096, 0)', register):
        assert access(fresh, read, place, LENIENT="1")[0] == ["700", "-"]
        printed, words = access(fresh, read, place)
        assert printed == ["700", "-"]
        assert "REPLAY_EMULATOR_LENIENT" not in words


def test_copies_of_the_host_stay_exact_where_more_passes(fresh):
    done = fresh(
        "p = d.alloc(4000); print(d.cuMemsetD8_v2(p, 1, 4001), d.cuMemsetD8_v2(p, 1, 4000))", LENIENT="1"
    )
    assert done.stdout.split() == ["1", "0"]


def test_a_host_address_is_called_one(fresh):
    """A kernel that is handed a pointer of the host's, the commonest mistake of beginners."""
    place = "import ctypes; b = ctypes.create_string_buffer(64 << 20); p = ctypes.addressof(b)"
    printed, words = access(fresh, "ld.global.u32 %r1, [%rd1];", place)
    assert printed == ["700", "-"]
    assert "memory of the host that no device can reach (cuMemHostRegister, or a copy)" in words


def test_parameters_lie_where_32_bits_reach(cuda):
    """As Triton 3.9 reads the members of a tensor descriptor."""
    module = cuda.module(
        api.HEADER
        + """
        .visible .entry k(.param .u64 to, .param .align 64 .b8 d[128])
        {
          .reg .b64 %rd<5>; .reg .b32 %r<4>;
          ld.param.u64 %rd1, [to];
          mov.b32 %r1, d; cvt.u64.u32 %rd2, %r1; cvta.param.u64 %rd3, %rd2;
          ld.u32 %r2, [%rd3+100]; ld.param.u32 %r3, [%rd2+104]; add.u32 %r2, %r2, %r3;
          st.global.u32 [%rd1], %r2; ret;
        }
        """
    )
    out = cuda.alloc(4)
    for value in (7, 1000):
        bytes_of = ctypes.create_string_buffer(struct.pack("32I", *[value + k for k in range(32)]), 128)
        assert cuda.launch(cuda.function(module, "k"), (1,), (1,), [out, bytes_of]) == 0
        assert cuda.words(out, 1) == [2 * value + 51]
