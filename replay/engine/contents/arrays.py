"""Contents of CUDA arrays: moved piece by piece through cuMemcpy3D, since an array has no address.

Where a piece is follows from the shape in the snapshot: the parts (mipmap levels, planes) one after another, their
rows and slices without padding.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

from replay.api.extents import CHANNEL_BYTES
from replay.api.structs import CUDA_MEMCPY3D, MemoryType
from replay.engine.driver import CU_STREAM_LEGACY, Driver
from replay.errors import EngineError
from replay.records import dataclass
from replay.snapshot.schema import ArrayShape, Range


@dataclass(frozen=True)
class Box:
    """A stretch of the contents that one copy moves: bytes, rows and slices from (x_bytes, y, z) of a part on."""

    part: int
    x_bytes: int
    y: int
    z: int
    width_bytes: int
    rows: int
    slices: int

    @property
    def size_bytes(self) -> int:
        """What is copied."""
        return self.width_bytes * self.rows * self.slices


def boxes(shape: ArrayShape, offset: int, size_bytes: int) -> Iterator[Box]:
    """The stretch of `size_bytes` from `offset` on as boxes: the rest of a row, of a slice, whole slices, and so on."""
    start = 0
    for number, part in enumerate(shape.parts):
        end = start + part.size_bytes
        slice_bytes = part.width_bytes * part.rows
        while size_bytes > 0 and offset < end:
            z, inside = divmod(offset - start, slice_bytes)
            y, x_bytes = divmod(inside, part.width_bytes)
            left = min(size_bytes, end - offset)
            if x_bytes or left < part.width_bytes:
                box = Box(number, x_bytes, y, z, min(part.width_bytes - x_bytes, left), 1, 1)
            elif y or left < slice_bytes:
                box = Box(number, 0, y, z, part.width_bytes, min(part.rows - y, left // part.width_bytes), 1)
            else:
                box = Box(number, 0, 0, z, part.width_bytes, part.rows, left // slice_bytes)
            yield box
            offset += box.size_bytes
            size_bytes -= box.size_bytes
        start = end
    if size_bytes:
        raise EngineError(f"{size_bytes} bytes lie past the end of an array")


def texel_at(shape: ArrayShape, offset: int) -> str:
    """The element that holds the byte at `offset`, for people: `x 3, y 4, z 0, channel 1, level 2`."""
    for part in shape.parts:
        if offset >= part.size_bytes:
            offset -= part.size_bytes
            continue
        z, inside = divmod(offset, part.width_bytes * part.rows)
        y, x_bytes = divmod(inside, part.width_bytes)
        planar = any(item.plane for item in shape.parts)
        channel_bytes = CHANNEL_BYTES.get(shape.format, 0)
        element_bytes = channel_bytes * max(shape.channels, 1) or _element_bytes(shape)
        x = x_bytes // element_bytes if element_bytes and not planar else x_bytes
        words = [f"{'byte' if planar or not element_bytes else 'x'} {x}", f"y {y}", f"z {z}"]
        if channel_bytes and not planar:
            words.append(f"channel {x_bytes % element_bytes // channel_bytes}")
        if len({item.level for item in shape.parts}) > 1:
            words.append(f"level {part.level}")
        if planar:
            words.append(f"plane {part.plane}")
        return ", ".join(words)
    return ""


def _element_bytes(shape: ArrayShape) -> int:
    """From the first row, where the format is not one of whole channels."""
    return shape.parts[0].width_bytes // shape.width if shape.width > 0 else 0


@dataclass
class LiveArrays:
    """Moves contents of arrays. find: the live handle for a C type and a captured handle, None when there is none.
    inside: makes a captured context current for a while; arrays are copied in that of their own."""

    driver: Driver
    find: Callable[[str, int], int | None]
    inside: Callable[[int], AbstractContextManager[None]] = lambda context: nullcontext()

    def exists(self, range_: Range) -> bool:
        """Whether a replayed call made the array."""
        shape = range_.array
        return shape is not None and bool(self.find(shape.handle_type, range_.owner))

    def read(self, range_: Range, offset: int, size_bytes: int, address: int) -> None:
        """Copy contents to host memory at `address`."""
        self._move(range_, offset, size_bytes, address, MemoryType.HOST, into_array=False)

    def write(self, range_: Range, offset: int, size_bytes: int, address: int) -> None:
        """Copy host memory at `address` into the array."""
        self._move(range_, offset, size_bytes, address, MemoryType.HOST, into_array=True)

    def copy_aside(self, range_: Range, offset: int, size_bytes: int, address: int) -> None:
        """Copy contents to device memory at `address`."""
        self._move(range_, offset, size_bytes, address, MemoryType.DEVICE, into_array=False)

    def bring_back(self, range_: Range, offset: int, size_bytes: int, address: int) -> None:
        """Copy device memory at `address` into the array, in the order of the default stream."""
        self._move(range_, offset, size_bytes, address, MemoryType.DEVICE, into_array=True, enqueue=True)

    def _move(
        self,
        range_: Range,
        offset: int,
        size_bytes: int,
        address: int,
        memory: MemoryType,
        *,
        into_array: bool,
        enqueue: bool = False,
    ) -> None:
        shape = range_.array
        if shape is None:
            raise EngineError(f"range {range_.id} is no array")
        with self.inside(range_.context):
            self._move_boxes(
                range_, shape, boxes(shape, offset, size_bytes), address, memory, into_array, enqueue
            )

    def _move_boxes(
        self,
        range_: Range,
        shape: ArrayShape,
        pieces: Iterator[Box],
        address: int,
        memory: MemoryType,
        into_array: bool,
        enqueue: bool,
    ) -> None:
        part, handle = -1, 0
        for box in pieces:
            if box.part != part:
                part, handle = box.part, self._part(range_, shape, box.part)
            description = CUDA_MEMCPY3D(WidthInBytes=box.width_bytes, Height=box.rows, Depth=box.slices)
            array_side, memory_side = ("dst", "src") if into_array else ("src", "dst")
            fields = {
                f"{array_side}MemoryType": MemoryType.ARRAY, f"{array_side}Array": handle,
                f"{array_side}XInBytes": box.x_bytes, f"{array_side}Y": box.y, f"{array_side}Z": box.z,
                f"{memory_side}MemoryType": memory, f"{memory_side}Pitch": box.width_bytes,
                f"{memory_side}Height": box.rows,
                f"{memory_side}{'Host' if memory == MemoryType.HOST else 'Device'}": address,
            }  # fmt: skip
            for name, value in fields.items():
                setattr(description, name, value)
            if enqueue:
                self.driver.cuMemcpy3DAsync_v2(ctypes.addressof(description), 0)
            else:
                self.driver.cuMemcpy3D_v2(ctypes.addressof(description))
            address += box.size_bytes
        if not enqueue:  # in the context of the array, which is not the one that others wait in
            self.driver.cuStreamSynchronize(CU_STREAM_LEGACY)

    def _part(self, range_: Range, shape: ArrayShape, number: int) -> int:
        handle = self.find(shape.handle_type, range_.owner)
        if not handle:
            raise EngineError(
                f"the array {range_.owner:#x} is made by no recorded call", next="capture again with `--all`"
            )
        part = shape.parts[number]
        if shape.handle_type == "CUmipmappedArray":
            handle = self.driver.cuMipmappedArrayGetLevel(handle, part.level)
        if any(item.plane for item in shape.parts):
            handle = self.driver.cuArrayGetPlane(handle, part.plane)
        return handle
