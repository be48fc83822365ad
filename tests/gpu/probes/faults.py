"""Kernels that must fail, each in a process of its own; prints as JSON, for each kind, what the driver answered: the
synchronisation, the allocation after it, and both in a new context."""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys

HEADER = ".version 7.8\n.target sm_52\n.address_size 64\n"
BEGIN = (
    ".visible .entry f(.param .u64 p)\n{\n  .reg .b64 %rd<4>; .reg .b32 %r<4>;\n  ld.param.u64 %rd1, [p];\n"
)
AGAIN = """.func again (.param .b64 n)
{
  .reg .b64 %rd1; .local .b8 big[4096];
  ld.param.b64 %rd1, [n];
  { .param .b64 m; st.param.b64 [m], %rd1; call.uni again, (m); }
  ret;
}
"""
KINDS = {
    "none": "st.global.u32 [%rd1], 7;",
    "write far past the end": "add.u64 %rd2, %rd1, 0x100000000000; st.global.u32 [%rd2], 7;",
    "read at 0": "mov.u64 %rd2, 0; ld.global.u32 %r1, [%rd2]; st.global.u32 [%rd1], %r1;",
    "write not aligned": "add.u64 %rd2, %rd1, 2; st.global.u32 [%rd2], 7;",
    "shared not aligned": "mov.u32 %r1, 2; st.shared.u32 [%r1], 7;",
    "shared far past the end": "mov.u32 %r1, 0x1000000; st.shared.u32 [%r1], 7;",
    "atomic not aligned": "add.u64 %rd2, %rd1, 1; atom.global.add.u32 %r1, [%rd2], 7;",
    "trap": "trap;",
    "calls without an end": "{ .param .b64 m; st.param.b64 [m], %rd1; call.uni again, (m); }",
    "null pointer of a kernel": "mov.u64 %rd2, 0; st.u32 [%rd2], 7;",
}


def fault(kind: str) -> list[int]:
    """What the driver answers around a launch of this kind."""
    driver = ctypes.CDLL("libcuda.so.1")
    context, module, function, pointer = (ctypes.c_void_p() for _ in range(4))
    text = HEADER + (AGAIN if "again" in KINDS[kind] else "") + BEGIN + f"  {KINDS[kind]}\n  ret;\n}}\n"

    def do(name: str, *arguments: object) -> None:
        if error := getattr(driver, name)(*arguments):
            raise SystemExit(f"{name} gives {error}")

    do("cuInit", 0)
    do("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
    do("cuCtxSetCurrent", context)
    do("cuModuleLoadData", ctypes.byref(module), text.encode())
    do("cuModuleGetFunction", ctypes.byref(function), module, b"f")
    do("cuMemAlloc_v2", ctypes.byref(pointer), ctypes.c_size_t(4096))
    values = (ctypes.c_void_p * 1)(ctypes.addressof(pointer))
    do("cuLaunchKernel", function, 1, 1, 1, 1, 1, 1, 0, None, values, None)
    after, other = ctypes.c_void_p(), ctypes.c_void_p()
    answers = [driver.cuCtxSynchronize(), driver.cuMemAlloc_v2(ctypes.byref(after), ctypes.c_size_t(4096))]
    answers.append(driver.cuCtxCreate_v2(ctypes.byref(other), 0, 0))
    answers.append(driver.cuMemAlloc_v2(ctypes.byref(after), ctypes.c_size_t(4096)))
    return answers


def main() -> None:
    if len(sys.argv) > 1:
        print(json.dumps(fault(sys.argv[1])))
        return
    found: dict[str, object] = {}
    for kind in KINDS:
        done = subprocess.run([sys.executable, __file__, kind], capture_output=True, text=True, timeout=30)
        lines = done.stdout.strip().splitlines()
        found[kind] = json.loads(lines[-1]) if done.returncode == 0 and lines else done.stderr.strip()[-200:]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
