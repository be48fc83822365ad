"""A captured call, ready to run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import Any

from replay.api.extents import Extent
from replay.engine.translation.handles import STREAM_CONSTANTS
from replay.engine.translation.translation import Late
from replay.records import dataclass
from replay.snapshot.schema import Attachment, Call

NO_EXTENT = Extent(0, 0)


@dataclass
class HostOutput:
    """Host memory that a call wrote, and what was captured."""

    label: str
    address: int
    expected: Attachment
    size_bytes: int


@dataclass
class Prepared:
    """`context` is the captured context that the call runs in; 0: none is known."""

    call: Call
    context: int
    function: Callable[..., int]
    arguments: list[Any]
    late_arguments: list[Late] = field(default_factory=list)
    late_words: list[Late] = field(default_factory=list)
    first: list[Callable[[], None]] = field(default_factory=list)  # run before the driver is called
    # Of each array of handles that the call gives out: buffer, C type, captured handles
    outputs: list[tuple[Any, str, list[int]]] = field(default_factory=list)
    then: list[Callable[[], None]] = field(default_factory=list)  # run after success
    host_outputs: list[HostOutput] = field(default_factory=list)
    keep: list[Any] = field(default_factory=list)  # buffers that the arguments point to
    creates: bool = False  # objects that somebody must destroy
    commands: int = 1  # that it puts into its stream, at most
    symbol: str = ""  # of the driver function that is called; "": the captured one

    @property
    def where(self) -> str:
        """The call for people."""
        return f"call {self.call.number} {self.call.function}"

    def late_handle(self, position: int, c_type: str, captured: int) -> int:
        """A handle argument. It is looked up when the call runs: the window may make it anew each time."""
        if captured and not (c_type == "CUstream" and captured in STREAM_CONSTANTS):
            self.late_arguments.append(Late(position, c_type, captured))
            return 0
        return captured

    def late_word(
        self,
        address: int,
        c_type: str,
        captured: int,
        extent: Extent = NO_EXTENT,
        argument: str = "",
        write: bool = False,
    ) -> None:
        """A handle or address inside a buffer, at the live `address`; the rest as in `Late`."""
        self.late_words.append(Late(address, c_type, captured, extent, argument, write))
