"""`capture --when error`: pointers come into memory that held none when it was searched."""

from __future__ import annotations

import json
import re
import sys

import pytest

from ..beginning import text_of

# `through` reads what the first word of the table leads to, and writes where the second leads.
PROGRAM = """

    PTX = b'''
    .visible .entry through(.param .u64 table, .param .u64 values) {
        .reg .u64 %t, %a, %v; .reg .u32 %x; .reg .pred %p;
        ld.param.u64 %t, [table]; ld.param.u64 %v, [values];
        ld.global.u64 %a, [%t]; setp.eq.u64 %p, %a, 0; @%p bra NEXT;
        ld.global.u32 %x, [%a]; st.global.u32 [%v], %x;
    NEXT:
        ld.global.u64 %a, [%t+8]; setp.eq.u64 %p, %a, 0; @%p bra DONE;
        st.global.u32 [%a], 7;
    DONE:
        ret;
    }
    .visible .entry store(.param .u64 table, .param .u64 a, .param .u64 b) {
        .reg .u64 %t, %a;
        ld.param.u64 %t, [table]; ld.param.u64 %a, [a]; st.global.u64 [%t], %a;
        ld.param.u64 %a, [b]; st.global.u64 [%t+8], %a;
        ret;
    }'''
    how, wrong = sys.argv[1], int(sys.argv[2])
    through, store = kernels(PTX, b"through", b"store")
    BYTES = 16384
    table, values, row = (int(check(cu.cuMemAlloc(BYTES))) for _ in range(3))
    table += BYTES - 16  # in the part that is searched last
    for memory in (table, values):
        check(cu.cuMemsetD32(memory, 0, 4))
    check(cu.cuMemsetD32(row, 5, BYTES // 4))

    def launch(kernel, *given):
        arguments = given, (ctypes.c_void_p,) * len(given)
        check(cu.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, 0, arguments, 0))

    for n in range(1, 31):
        words = row if n > 10 else 0, 1 << 40 if n == wrong else 0
        if how == "kernel":
            launch(store, table, *words)
        else:
            check(cu.cuMemcpyHtoD(table, (ctypes.c_uint64 * 2)(*words), 16))
        launch(through, table, values)
        check(cu.cuCtxSynchronize())
    """


def fault(replay, how, wrong):
    (replay.folder / "late.py").write_text(text_of(PROGRAM))
    application = [sys.executable, "late.py", how, str(wrong)]
    replay.capture("--when", "error", application=application, status=1)
    notes = json.loads(replay("ls", "x.rsnap", "notes", "--json").stdout)
    return [note["text"] for note in notes["notes"] if note["code"] == "MEMORY_NOT_READ"]


@pytest.mark.parametrize("how", ["copy", "kernel"])
def test_they_are_seen_soon_and_what_they_lead_to_is_captured(replay, how):
    assert not [text for text in fault(replay, how, 28) if "a pointer to it" in text]
    summary = json.loads(replay("info", "x.rsnap", "--json").stdout)["summary"]
    waited = re.search(r"; (\d+) waited for", summary["watched"])
    assert waited is not None
    assert int(waited[1]) < 10, "once more when they were seen, and not for each launch since"
    assert "FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS in kernel through" in replay("run", "x.rsnap").stdout


@pytest.mark.usefixtures("started_workers")
@pytest.mark.parametrize("how", ["copy", "kernel"])
def test_before_they_are_seen_what_is_missing_is_named(replay, how):
    missing = [text for text in fault(replay, how, 11) if "a pointer to it" in text]
    assert len(missing) == 1
    assert missing[0].startswith("16384 bytes at 0x")
    ran = replay("run", "x.rsnap", status=1).stdout
    assert "FAULT NOT REPRODUCED" in ran
    assert f"MEMORY_NOT_READ {missing[0]}" in " ".join(ran.split())
