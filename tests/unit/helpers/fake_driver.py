"""A driver of Python objects: records every call, answers from a table, hands out handles and memory.

Memory is real memory of this process, so that copies and buffers can be looked at.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from replay.api.functions import by_symbol
from replay.api.vocabulary import HANDLE_TYPES, Role
from replay.engine.driver import Driver


def number(value: Any) -> int:
    """An argument as the driver would see it."""
    if value is None:
        return 0
    if isinstance(value, (int, float)):
        return int(value)
    if isinstance(value, ctypes._SimpleCData):
        return int(value.value or 0)
    if isinstance(value, bytes):
        return ctypes.cast(value, ctypes.c_void_p).value or 0
    return ctypes.addressof(value)


# What this driver cannot say: an answer to each question would never end the questions.
_UNKNOWN = dict.fromkeys(("cuFuncGetParamInfo", "cuKernelGetParamInfo"), 801)  # CUDA_ERROR_NOT_SUPPORTED


class FakeDriver(Driver):
    """calls: (symbol, arguments as numbers), in order. answers: symbol -> function of the arguments, or a CUresult."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[str, list[int]]] = []
        self.answers: dict[str, Any] = _UNKNOWN | answers
        self.next_handle = 0x1000

    def function(self, symbol: str, per_thread: bool = False) -> Callable[..., int]:
        row = by_symbol()[symbol]

        def run(*arguments: Any) -> int:
            assert len(arguments) == len(row.parameters), symbol
            words = [number(argument) for argument in arguments]
            self.calls.append((symbol, words))
            answer = self.answers.get(symbol, 0)
            if callable(answer):
                answer = answer(*words)
            if isinstance(answer, int) and answer:
                return answer
            for parameter, word in zip(row.parameters, words, strict=True):
                if word and parameter.role == Role.OUT and parameter.element in HANDLE_TYPES:
                    ctypes.c_uint64.from_address(word).value = self.next_handle
                    self.next_handle += 0x10
            return 0

        return run

    def error_name(self, code: int) -> str:
        return f"ERROR_{code}"

    def own(self, symbol: str) -> None:
        return None

    def symbols(self) -> list[str]:
        return [symbol for symbol, _ in self.calls]

    def last(self, symbol: str) -> list[int]:
        return next(words for name, words in reversed(self.calls) if name == symbol)


def store(address: int, value: int) -> int:
    """Write a 64-bit answer and succeed."""
    ctypes.c_uint64.from_address(address).value = value
    return 0
