"""Captured handles and the live ones that stand for them, and which captured context is current where.

A captured handle value may be used again by the application after its object was destroyed, so the latest one wins:
calls are replayed in their recorded order.
"""

from __future__ import annotations

from replay.api.functions import by_symbol
from replay.api.vocabulary import HANDLE_TYPES, Role
from replay.errors import EngineError
from replay.snapshot.schema import Call

# CUstream values that name no object: default, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
_STREAM_CONSTANTS = (0, 1, 2)

# The C type of a parameter -> the types whose handles it takes, in the order in which they are tried. The driver
# takes a CUkernel where a CUfunction is asked for.
_ACCEPTED: dict[str, tuple[str, ...]] = {"CUfunction": ("CUfunction", "CUkernel")}


class HandleMap:
    """Captured value -> live value, by C type of the handle."""

    def __init__(self) -> None:
        self._live: dict[tuple[str, int], int] = {}
        self._left_out: dict[tuple[str, int], str] = {}  # by which call it would have been made

    def bind(self, c_type: str, captured: int, live: int) -> None:
        """Say that `live` stands for `captured` from now on. NULL stays NULL."""
        if captured and not (c_type == "CUstream" and captured in _STREAM_CONSTANTS):
            self._live[c_type, captured] = live

    def forget(self, c_type: str, captured: int) -> None:
        """The object was destroyed."""
        self._live.pop((c_type, captured), None)

    def leave_out(self, call: Call) -> None:
        """A call that would give out objects is not replayed: whoever uses them is told so."""
        function = by_symbol().get(call.function)
        for parameter in function.parameters if function is not None else ():
            if parameter.role == Role.OUT and parameter.element in HANDLE_TYPES:
                for captured in captured_handles(call, parameter.name):
                    self._left_out[parameter.element, captured] = f"call {call.number} {call.function}"

    def state(self) -> dict[tuple[str, int], int]:
        """What is bound now, for `return_to`."""
        return dict(self._live)

    def return_to(self, state: dict[tuple[str, int], int]) -> None:
        """Bind what was bound when `state` was taken, and nothing else."""
        self._live = dict(state)

    def find(self, c_type: str, captured: int) -> int | None:
        """The live handle; None when no replayed call made it."""
        if captured == 0 or (c_type == "CUstream" and captured in _STREAM_CONSTANTS):
            return captured
        for accepted in _ACCEPTED.get(c_type, (c_type,)):
            live = self._live.get((accepted, captured))
            if live is not None:
                return live
        return None

    def live(self, c_type: str, captured: int, where: object = None) -> int:
        """The live handle. Raises EngineError when no replayed call made it."""
        found = self.find(c_type, captured)
        if found is None:
            for accepted in _ACCEPTED.get(c_type, (c_type,)):
                if maker := self._left_out.get((accepted, captured)):
                    raise EngineError(f"uses the {accepted} of {maker}, which was left out", where=where)
            raise EngineError(
                f"uses the {c_type} {captured:#x}, which no recorded call created",
                where=where,
                next="capture again with a window that includes its creation, for example with `--all`",
            )
        return found


class ThreadContexts:
    """Which captured context is current in which captured thread, from the calls that change it."""

    def __init__(self) -> None:
        self._stacks: dict[int, list[int]] = {}
        self._any = 0  # for a thread of which nothing is known: the context seen last

    def current(self, thread: int) -> int:
        """The captured context; 0 when no context was seen yet."""
        stack = self._stacks.get(thread)
        return stack[-1] if stack else self._any

    def saw(self, context: int) -> None:
        """A context exists, though it may be current nowhere."""
        self._any = self._any or context

    def follow(self, call: Call) -> bool:
        """Take over what a call does to its thread's stack. True if that is all that the call does."""
        stack = self._stacks.setdefault(call.thread, [])
        symbol = by_symbol()[call.function].meaning
        if symbol == "cuCtxSetCurrent":
            del stack[-1:]
            if call.arguments[0]:
                stack.append(call.arguments[0])
                self._any = call.arguments[0]
        elif symbol == "cuCtxPushCurrent_v2":
            stack.append(call.arguments[0])
            self._any = call.arguments[0]
        elif symbol == "cuCtxPopCurrent_v2":
            del stack[-1:]
        else:
            if symbol.startswith("cuCtxCreate") and len(created := captured_handles(call, "pctx")) == 1:
                stack.append(created[0])
                self._any = created[0]
            elif symbol == "cuCtxDestroy_v2":
                if stack and stack[-1] == call.arguments[0]:
                    stack.pop()
                if self._any == call.arguments[0]:
                    self._any = 0
            elif symbol == "cuDevicePrimaryCtxRetain":
                for context in captured_handles(call, "pctx"):
                    self.saw(context)
            return False
        return True


def captured_handles(call: Call, parameter: str) -> list[int]:
    """The handles that a call gave out through an array of 8-byte elements."""
    data = call.outputs.get(parameter, b"")
    if not isinstance(data, bytes):
        return []
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data) - 7, 8)]
