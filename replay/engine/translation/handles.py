"""Captured handles and the live ones that stand for them.

A captured handle value may be used again by the application after its object was destroyed, so the latest one wins:
calls are replayed in their recorded order.
"""

from __future__ import annotations

from collections.abc import Container

from replay.api.functions import by_symbol
from replay.api.vocabulary import HANDLE_TYPES, Role
from replay.errors import EngineError
from replay.snapshot.schema import Call

# CUstream values that name no object: default, CU_STREAM_LEGACY, CU_STREAM_PER_THREAD
STREAM_CONSTANTS = (0, 1, 2)

# The C type of a parameter -> the types whose handles it takes, in the order in which they are tried. The driver
# takes a CUkernel where a CUfunction is asked for.
_ACCEPTED: dict[str, tuple[str, ...]] = {"CUfunction": ("CUfunction", "CUkernel")}


class HandleMap:
    """Captured value -> live value, by C type of the handle.

    made: what calls have created and nobody has destroyed since: calls of the setup, later those of one run of the
    window. permanent: what the setup made, which every run of the window needs. here: the live handles that stood for
    those captured ones that are `certain` to be handles wherever they are found.
    """

    def __init__(self, certain: Container[int] = ()) -> None:
        self._live: dict[tuple[str, int], int] = {}
        self._left_out: dict[tuple[str, int], str] = {}  # by which call it would have been made
        self._certain = certain
        self.here: dict[int, set[int]] = {}
        self.made: dict[tuple[str, int], int] = {}
        self.permanent: set[tuple[str, int]] = set()
        self._of_setup: dict[tuple[str, int], int] = {}

    def bind(self, c_type: str, captured: int, live: int) -> None:
        """Say that `live` stands for `captured` from now on. NULL stays NULL."""
        if captured and not (c_type == "CUstream" and captured in STREAM_CONSTANTS):
            self._live[c_type, captured] = live
            if captured in self._certain:
                self.here.setdefault(captured, set()).add(live)

    def forget(self, c_type: str, captured: int) -> None:
        """The object was destroyed."""
        self._live.pop((c_type, captured), None)
        self.made.pop((c_type, captured), None)

    def is_permanent(self, c_type: str, captured: int) -> bool:
        """Whether an object lives as long as the replay; the default streams do."""
        default_stream = c_type == "CUstream" and captured in STREAM_CONSTANTS
        return default_stream or (c_type, captured) in self.permanent

    def setup_is_done(self) -> None:
        """What is created from now on is the window's."""
        self.permanent = set(self.made)
        self.made.clear()
        self.remember()

    def remember(self) -> None:
        """A run of the window begins with what is bound now."""
        self._of_setup = dict(self._live)

    def begin_again(self) -> None:
        """Another run of the window begins, as `remember` was told."""
        self.made.clear()
        self._live = dict(self._of_setup)

    def leave_out(self, call: Call) -> None:
        """A call that would give out objects is not replayed: whoever uses them is told so."""
        function = by_symbol().get(call.function)
        for parameter in function.parameters if function is not None else ():
            if parameter.role == Role.OUT and parameter.element in HANDLE_TYPES:
                for captured in captured_handles(call, parameter.name):
                    self._left_out[parameter.element, captured] = f"call {call.number} {call.function}"

    def find(self, c_type: str, captured: int) -> int | None:
        """The live handle; None when no replayed call made it."""
        if captured == 0 or (c_type == "CUstream" and captured in STREAM_CONSTANTS):
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


def captured_handles(call: Call, parameter: str) -> list[int]:
    """The handles that a call gave out through an array of 8-byte elements."""
    data = call.outputs.get(parameter, b"")
    if not isinstance(data, bytes):
        return []
    return [int.from_bytes(data[at : at + 8], "little") for at in range(0, len(data) - 7, 8)]
