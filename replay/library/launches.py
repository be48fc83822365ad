"""The launches of a snapshot, and their parameters."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, overload

from replay.errors import UsageError
from replay.inspection import launches as recorded
from replay.outputs.elements import element_type, values
from replay.snapshot.contents import Snapshot as Contents

if TYPE_CHECKING:
    from replay.library.memory import Buffer, Memory


class Parameter:
    """One parameter of one launch. offset, size_bytes: its place in the parameter buffer. data: its bytes."""

    def __init__(self, offset: int, data: bytes, memory: Memory) -> None:
        self.offset, self.data, self._memory = offset, data, memory

    @property
    def size_bytes(self) -> int:
        """How long it is."""
        return len(self.data)

    @property
    def integer(self) -> int:
        """Its bytes as an unsigned number."""
        return int.from_bytes(self.data, "little")

    def value(self, dtype: str) -> float | int:
        """As a number of this type, such as f32 or i32. Raises UsageError where the size is another one."""
        kind = element_type(dtype, "dtype")
        if kind.size_bytes != len(self.data):
            raise UsageError(f"the parameter has {len(self.data)} bytes", where=f"dtype {dtype}")
        found = values(self.data, kind)[0]
        return float(found) if kind.kind == "float" else int(found)

    @property
    def target(self) -> tuple[Buffer, int] | None:
        """The memory that it points to, and the offset there; None where it is no pointer to captured memory."""
        return self._memory.at(self.integer) if len(self.data) == 8 else None

    def __repr__(self) -> str:
        target = self.target
        where = "" if target is None else f", memory {target[0].id} + {target[1]}"
        return f"<parameter at {self.offset}: {self.data.hex()}{where}>"


class Launch:
    """One launch of a kernel. call: number of the driver call. kernel: its name in the image, "" where no call tells.
    image: digest of its module's image. parameters: None where they were not captured."""

    def __init__(self, found: recorded.Launch, memory: Memory) -> None:
        self.call, self.kernel, self.image = found.call, found.kernel, found.image
        self.grid, self.block, self.shared_bytes = found.grid, found.block, found.shared_bytes
        self.parameters: list[Parameter] | None = None
        if found.parameters is not None:
            self.parameters = [Parameter(item.offset, item.data, memory) for item in found.parameters]

    def __repr__(self) -> str:
        shape = f"grid {'x'.join(map(str, self.grid))}, block {'x'.join(map(str, self.block))}"
        return f"<launch of {self.kernel or 'an unknown kernel'}, call {self.call}: {shape}>"


class Launches:
    """The launches of a window, in order. They are read from the file as they are asked for: there may be a million."""

    def __init__(self, opened: Contents, memory: Memory) -> None:
        self._opened, self._memory = opened, memory
        self._length: int | None = None

    def __iter__(self) -> Iterator[Launch]:
        for found in recorded.launches(self._opened.calls(), list(self._opened.kernels())):
            yield Launch(found, self._memory)

    def __len__(self) -> int:
        if self._length is None:
            self._length = sum(1 for _ in recorded.launches(self._opened.calls(), ()))
        return self._length

    @overload
    def __getitem__(self, place: int) -> Launch: ...
    @overload
    def __getitem__(self, place: slice) -> list[Launch]: ...
    def __getitem__(self, place: int | slice) -> Launch | list[Launch]:
        if isinstance(place, slice):
            begin, end, step = place.indices(len(self))
            if step < 0:
                return list(self)[place]
            return list(islice(self, begin, end, step))
        at = place + len(self) if place < 0 else place
        found = next(islice(self, at, at + 1), None) if at >= 0 else None
        if found is None:
            raise IndexError(f"launch {place} of {len(self)}")
        return found

    def __repr__(self) -> str:
        return f"<{len(self)} launches of {self._opened.path}>"
