"""The driver for programs that ask it one question each: through ctypes alone, so that nothing is done for them."""

from __future__ import annotations

import ast
import ctypes
import os
import signal
from collections.abc import Callable
from typing import Any

HEADER = ".version 7.8\n.target sm_70\n.address_size 64\n"
WAIT_S = 20


class Refused(Exception):
    """The driver refused what the question needs first."""


def word(value: int = 0) -> Any:
    return ctypes.c_uint64(value)


class Driver:
    """A libcuda.so.1 with a primary context of device 0 current."""

    def __init__(self, device: int = 0) -> None:
        self.library = ctypes.CDLL("libcuda.so.1")
        self.do("cuInit", 0)
        self.use(device)

    def use(self, device: int) -> None:
        context = word()
        self.do("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
        self.do("cuCtxSetCurrent", context)

    def ask(self, name: str, *arguments: Any) -> int:
        return int(getattr(self.library, name)(*arguments))

    def do(self, name: str, *arguments: Any) -> None:
        if error := self.ask(name, *arguments):
            raise Refused(f"{name} gives {error}")

    def made(self, name: str, *arguments: Any) -> Any:
        """What a function with these further arguments puts at its first."""
        found = word()
        self.do(name, ctypes.byref(found), *arguments)
        return found

    def allocate(self, size: int) -> Any:
        return self.made("cuMemAlloc_v2", word(size))

    def module(self, text: str) -> Any:
        return self.made("cuModuleLoadData", (HEADER + text).encode())

    def function(self, text: str) -> Any:
        """The kernel f of a text."""
        return self.made("cuModuleGetFunction", self.module(text), b"f")

    def launch(self, function: Any, *values: int, shared_bytes: int = 0, threads: int = 1) -> int:
        """Of one block; what the launch and the wait after it answer."""
        words = [word(value) for value in values]
        pointers = (ctypes.c_void_p * len(words))(*(ctypes.addressof(item) for item in words))
        shape = (1, 1, 1, threads, 1, 1, shared_bytes)
        return self.ask("cuLaunchKernel", function, *shape, None, pointers, None) or self.ask(
            "cuCtxSynchronize"
        )

    def read(self, address: int, size: int) -> bytes:
        found = ctypes.create_string_buffer(size)
        self.do("cuMemcpyDtoH_v2", found, word(address), word(size))
        return found.raw


def kernel(body: str, before: str = "") -> str:
    """A kernel f of two parameters, which are in %rd1 and %rd2."""
    registers = ".reg .b64 %rd<8>; .reg .b32 %r<8>; .reg .pred %p<2>;"
    loads = "ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [b];"
    return f"{before}\n.visible .entry f(.param .u64 a, .param .u64 b)\n{{ {registers} {loads}\n{body}\nret; }}\n"


def apart(question: Callable[..., Any], *arguments: Any) -> Any:
    """The answer of a process of its own, or what ended that. Not for one that has started the driver."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(WAIT_S)
        try:
            answer = question(*arguments)
        except Refused as problem:
            answer = str(problem)
        except BaseException as problem:
            answer = f"{type(problem).__name__}: {problem}"
        os.write(writing, repr(answer).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        text = file.read()
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return f"signal {os.WTERMSIG(status)}"
    return ast.literal_eval(text)
