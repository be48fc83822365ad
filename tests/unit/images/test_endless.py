"""PTX that is made to keep whoever reads it busy: every reader comes to an end in time that grows with the text alone.

With time that grows with its square, each of these would take hours."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

LIMIT_S, MEMORY_BYTES = 60, 3 << 30
READERS = """
import sys
from replay.errors import ImageError
from replay.images.ptx import read_ptx, shared_declared
from replay.images.ptx_accesses import accesses_of
from replay.images.ptx_body import kernel_body
from replay.images.ptx_types import types_of
from replay.images.stripped import stripped, texts_of_ptx
from replay.minimising.candidates.text import bodies, functions
from replay.redaction.names import Names
from replay.redaction.taint.flows import flow_of

HEAD = ".version 8.0\\n.target sm_80\\n.address_size 64\\n"
KERNEL = HEAD + ".visible .entry k(.param .u64 p)\\n{\\nBODY\\n}\\n"
N = 300_000


def body_of(text):
    found = kernel_body(text.encode("latin-1"), "k")
    return found and (types_of(found), accesses_of(found))


text = eval(sys.argv[1])
for read in (
    flow_of, functions, bodies, body_of,
    lambda text: read_ptx(text.encode("latin-1")), lambda text: shared_declared(text.encode("latin-1"), "k"),
    lambda text: stripped(text.encode("latin-1")), lambda text: stripped(text.encode("latin-1"), lines=True),
    lambda text: list(texts_of_ptx(text.encode("latin-1"))),
    lambda text: Names({"k" * n: f"kernel_{n}" for n in range(4, 60)}).text(text),
):
    try:
        read(text)
    except ImageError:
        pass
print("read")
"""
TEXTS = {
    "blanks after .func": 'HEAD + ".func" + N * " " + "= ;"',
    "a comment after .func": 'HEAD + ".func /*" + N * "x" + "*/ = ;"',
    "parentheses that stay open": 'HEAD + (N // 8) * ".func ( " + ";"',
    "a long name before what is no name": 'HEAD + ".func f(" + N * "a" + " !) { }"',
    "brackets that stay open": 'KERNEL.replace("BODY", "mov.b32 " + (N // 2) * "[ " + ";")',
    "braces of vectors that stay open": 'KERNEL.replace("BODY", "mov.b32 " + (N // 2) * "( " + ";")',
    "many registers": 'KERNEL.replace("BODY", (N // 20) * ".reg .f32 %a<99999999>;")',
    "registers of many names": 'KERNEL.replace("BODY", "".join(f".reg .f32 %a{n}x<99999>;" for n in range(N // 20)))',
    "many operands": 'KERNEL.replace("BODY", "mov.b32 {" + ",".join(f"%r{n}" for n in range(N // 6)) + "}, {"'
                     ' + ",".join(f"%s{n}" for n in range(N // 6)) + "};")',
    "labels": 'KERNEL.replace("BODY", (N // 2) * "L:" + "ret;")',
    "a label without its colon": 'KERNEL.replace("BODY", N * "L" + "ret")',
    "comments": 'KERNEL.replace("BODY", (N // 4) * "/**/" + "ret;")',
    "comments that stay open": 'KERNEL + (N // 2) * "/*"',
    "quotes": 'KERNEL.replace("BODY", N * chr(34))',
    "source lines": 'KERNEL.replace("BODY", (N // 6) * ".loc 1 ")',
    "files": 'HEAD + (N // 6) * ".file 1" + N * " "',
    "braces": 'HEAD + N * "{" + N * "}"',
    "functions": 'HEAD + (N // 20) * ".func f() { ret; }\\n"',
    "kernels of one name": 'HEAD + (N // 20) * ".entry k() { ret; }\\n"',
    "names inside of names": 'KERNEL.replace("BODY", N * "k" + ";")',
    "instructions": 'KERNEL.replace("BODY", (N // 20) * "add.u32 %a, %a, %a;\\n")',
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_every_reader_comes_to_an_end(name: str) -> None:
    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_CPU, (LIMIT_S, LIMIT_S))
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))

    done = subprocess.run(
        [sys.executable, "-c", READERS, TEXTS[name]], preexec_fn=limited, capture_output=True, text=True
    )
    assert done.stdout == "read\n", done.stderr[-2000:]
