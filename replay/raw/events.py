"""What a raw capture tells, one event after another, as `decode.py` gives them out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from replay.api.parts import find_bytes
from replay.api.vocabulary import Function, Moment, Role
from replay.raw.attachments import FilePlace, RawAttachment
from replay.raw.columns import Rows
from replay.raw.copies import RawCopy
from replay.records import dataclass


@dataclass
class RawCall:
    """One driver call. `result` is None until its LEAVE was read, and stays so if the application ended inside it.

    Keys of `inputs` and `outputs` are those of `schema.Call`. in_window is for whoever follows the windows.
    by_capture: the interposer made the call itself. in_capture: it went into a stream capture, so nothing ran.
    of_class: `columns.Rows` of the same block have more calls of this class; -1: there are none.
    """

    number: int
    function: Function
    per_thread: bool
    thread: int
    arguments: tuple[int, ...]
    inputs: dict[str, RawAttachment]
    enter_ns: int
    outputs: dict[str, RawAttachment] = field(default_factory=dict)
    result: int | None = None
    leave_ns: int = 0
    in_window: bool = False
    by_capture: bool = False
    in_capture: bool = False
    of_class: int = -1

    def argument(self, name: str, default: int = 0) -> int:
        """The word of a parameter; `default` when the function has none of that name."""
        for parameter, word in zip(self.function.parameters, self.arguments, strict=True):
            if parameter.name == name:
                return word
        return default

    def output_word(self, name: str) -> int | None:
        """The u64 (or shorter) that the driver stored through an OUT pointer; None when it is not known."""
        found = find_bytes(self.outputs, name) or b""
        return int.from_bytes(found, "little") if 0 < len(found) <= 8 else None

    def handles(self) -> Iterator[tuple[str, int]]:
        """(C type, word) of the handles that are given by value, in the order of the parameters."""
        for parameter, word in zip(self.function.parameters, self.arguments, strict=True):
            if parameter.role == Role.HANDLE:
                yield parameter.c_type, word


@dataclass(frozen=True)
class Entered:
    """The application called a function; the driver has not answered yet."""

    call: RawCall


@dataclass(frozen=True)
class Left:
    """The driver answered: `call` is the object of its Entered, now with result and outputs."""

    call: RawCall


@dataclass(frozen=True)
class RawContents:
    """One piece of memory contents. `blob_offset` is None for zeros. `call`: see Moment."""

    call: int
    thread: int
    address: int
    length: int
    blob_offset: int | None
    base: int
    allocation_bytes: int
    moment: Moment
    check: int


@dataclass(frozen=True)
class RawNote:
    """`code` is a name of NoteCode, or "NOTE_<n>" for one that this version does not know."""

    code: str
    text: str
    call: int
    function: str


@dataclass(frozen=True)
class ProcessText:
    """The key=value lines of a PROCESS record."""

    values: dict[str, str]


@dataclass(frozen=True)
class RawImage:
    """The image that was in `file` is `copy` now: the file is gone."""

    file: FilePlace
    copy: RawAttachment


Event = Entered | Left | Rows | RawContents | RawCopy | RawImage | RawNote | ProcessText
