"""The memory of a snapshot as arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from replay.errors import LimitError, UsageError
from replay.inspection.dump import choose_ranges
from replay.outputs.elements import element_type, values
from replay.snapshot.contents import MAX_LISTED, changed_bytes
from replay.snapshot.contents import Snapshot as Contents
from replay.snapshot.schema import Range

if TYPE_CHECKING:
    import numpy
    from numpy.typing import NDArray

    Bytes = NDArray[numpy.uint8]

Moment = Literal["before", "after"]
MAXIMUM_BYTES = 1 << 38  # of one buffer; what a file claims beyond that is not asked of the system


class Buffer:
    """One allocation, variable or array of a snapshot: `snapshot.memory[3]`.

    Its contents are compressed in the file. They are unpacked once for each moment, when they are first asked for; all
    arrays, views and DLPack tensors of a moment share that memory. It can be written to; the file never changes.
    """

    def __init__(self, opened: Contents, item: Range) -> None:
        self._opened, self._item = opened, item
        self._bytes: dict[Moment, Bytes] = {}

    @property
    def id(self) -> int:
        """Its number, as `replay ls SNAP memory` shows it."""
        return self._item.id

    @property
    def name(self) -> str:
        """Of a variable of a module; "" for other memory."""
        return self._item.name

    @property
    def address(self) -> int:
        """Where it was in the application."""
        return self._item.address

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return self._item.size_bytes

    @property
    def kind(self) -> str:
        """device, managed, host, registered, global or array."""
        return self._item.kind

    @property
    def changed(self) -> bool:
        """Whether the window changed it. False as well where it was not captured at both moments."""
        before, after = self._item.before, self._item.after
        return before is not None and after is not None and before != after

    @property
    def changed_bytes(self) -> int | None:
        """How many bytes are in pieces of 256 KiB that the window changed, as `replay ls` counts them; None where it
        was not captured at both moments."""
        return changed_bytes(self._item)

    def bytes(self, moment: Moment = "before") -> Bytes:
        """Its contents before or after the window, as unsigned bytes. Raises UsageError where they were not captured,
        FormatError for a damaged file."""
        import numpy

        if moment not in ("before", "after"):
            raise UsageError(f"{moment!r} is no moment", where="moment", next="say before or after")
        if moment in self._bytes:
            return self._bytes[moment]
        contents = self._item.before if moment == "before" else self._item.after
        if contents is None:
            raise UsageError(
                f"memory {self.id} was not captured {moment} the window", where=self._opened.path,
                next=f"the other moment may have been: {'after' if moment == 'before' else 'before'}",
            )  # fmt: skip
        if contents.size_bytes > MAXIMUM_BYTES:
            raise LimitError(f"memory {self.id} has {contents.size_bytes} bytes", where=self._opened.path)
        found = numpy.zeros(contents.size_bytes, "u1")  # zeros take no memory until they are touched
        at = 0
        for length, data in self._opened.pieces(contents):
            if data is not None:
                found[at : at + length] = numpy.frombuffer(data, "u1")
            at += length
        self._bytes[moment] = found
        return found

    def numpy(self, dtype: str = "u8", moment: Moment = "before") -> NDArray[Any]:
        """Its contents as an array of one dimension.

        dtype: f16, f32, f64, i8 to i64, u8 to u64: a view of `bytes(moment)`. bf16, e4m3 and e5m2, which numpy has not,
        become a new array of float64 with the same numbers.
        """
        kind = element_type(dtype, "dtype")
        data = self.bytes(moment)
        if data.size % kind.size_bytes:
            raise UsageError(
                f"memory {self.id} has {data.size} bytes, no multiple of {kind.size_bytes}",
                where=f"dtype {dtype}",
            )
        if kind.kind == "float" and kind.numpy[1] == "u":
            return values(data, kind)  # type: ignore[no-any-return, arg-type]
        return data.view(kind.numpy)

    def __dlpack__(self, **options: Any) -> object:
        """The contents before the window as unsigned bytes, for `from_dlpack` of any library; of others, and of other
        types, use `from_dlpack(buffer.numpy(...))`."""
        return self.bytes().__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.bytes().__dlpack_device__()

    def __len__(self) -> int:
        return self.size_bytes

    def __repr__(self) -> str:
        name = f" {self.name}" if self.name else ""
        return f"<memory {self.id}{name}: {self.size_bytes} bytes of {self.kind} memory at {self.address:#x}>"


class Memory(Mapping[str, Buffer]):
    """The buffers of a window. `memory[3]`, `memory["3"]` by number, `memory["0x7f..."]` by an address, also inside,
    `memory["weights"]` by the name of a variable. Iterating gives the numbers, as text."""

    def __init__(self, opened: Contents) -> None:
        self._opened = opened
        self._ranges: list[Range] = []
        for item in opened.ranges():
            if len(self._ranges) == MAX_LISTED:
                raise LimitError(f"more than {MAX_LISTED} allocations", where=opened.path)
            self._ranges.append(item)
        self._buffers: dict[int, Buffer] = {}

    def __getitem__(self, key: str | int) -> Buffer:
        """Raises UsageError when there is no such memory, or more than one."""
        chosen = choose_ranges(self._ranges, [str(key)], "memory")
        if len(chosen) > 1:
            raise UsageError(
                f"{len(chosen)} buffers are meant", where=f"memory {key}",
                next=f"choose one by its number: {', '.join(str(item.id) for item in chosen[:8])}",
            )  # fmt: skip
        return self._buffer(chosen[0])

    def _buffer(self, item: Range) -> Buffer:
        return self._buffers.setdefault(item.id, Buffer(self._opened, item))

    def __contains__(self, key: object) -> bool:
        try:
            self[str(key)]
        except UsageError:
            return False
        return True

    def __iter__(self) -> Iterator[str]:
        return (str(item.id) for item in self._ranges)

    def __len__(self) -> int:
        return len(self._ranges)

    def at(self, address: int) -> tuple[Buffer, int] | None:
        """The buffer that `address` of the application is in, and the offset in it; None where there is none."""
        for item in self._ranges:
            if not item.array and 0 <= address - item.address < item.size_bytes:
                return self._buffer(item), address - item.address
        return None

    def __repr__(self) -> str:
        return f"<memory of {self._opened.path}: {len(self)} buffers>"
