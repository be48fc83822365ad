"""Random programs of memory operations over several streams, against numpy: in both modes, with and without
poison. The programs order what has to be ordered (events between streams, waits before the host looks) and
nothing more, so that work may run as late as the driver likes."""

from __future__ import annotations

import ctypes
import random

import driver_api as api
import numpy as np
import pytest
from array_api import U8, create
from copy_api import ARRAY, DEVICE, HOST, UNIFIED, Copy2D, Copy3D
from driver_api import Driver

STREAMS = 3
KINDS = ("device", "pool", "managed", "pinned", "pageable", "array")


class Buffer:
    """One piece of memory and what it must hold; `bytes` of a known length, an array's are one box of u8."""

    def __init__(self, cuda: Driver, kind: str, size: int, stream: int) -> None:
        self.kind, self.size, self.keep = kind, size, None
        self.shape = (size, 1, 1)
        if kind == "device":
            self.handle = cuda.alloc(size)
        elif kind == "pool":
            self.handle = cuda.make("cuMemAllocAsync", size, stream)
        elif kind == "managed":
            self.handle = cuda.make("cuMemAllocManaged", size, 1)
        elif kind == "pinned":
            self.handle = cuda.make("cuMemHostAlloc", size, 0)
        elif kind == "pageable":
            self.keep = ctypes.create_string_buffer(size)
            self.handle = ctypes.addressof(self.keep)
        else:
            self.shape = (32, 8, size // 256)
            self.handle = create(cuda, *self.shape, kind=U8)
        self.model = np.zeros(size, np.uint8)
        self.last = -1  # the stream of the last operation that touched it

    def free(self, cuda: Driver, stream: int) -> None:
        if self.kind == "array":
            cuda.do("cuArrayDestroy", self.handle)
        elif self.kind == "pool":
            cuda.do("cuMemFreeAsync", self.handle, stream)
        elif self.kind == "pinned":
            cuda.do("cuMemFreeHost", self.handle)
        elif self.kind != "pageable":
            cuda.do("cuMemFree_v2", self.handle)


class Program:
    def __init__(self, cuda: Driver, seed: int) -> None:
        self.cuda, self.random = cuda, random.Random(seed)
        flags = [self.random.choice([0, 1]) for _ in range(STREAMS)]
        self.streams = [cuda.make("cuStreamCreate", flag) for flag in flags]
        self.buffers: list[Buffer] = []
        self.values = np.random.default_rng(seed)

    def order(self, stream: int, *buffers: Buffer) -> None:
        """Lets `stream` run after whatever last touched the buffers. Pageable memory needs none of it: copies from
        it are staged at the call, and copies to it have ended at return."""
        for buffer in buffers:
            if buffer.kind == "pageable":
                continue
            if buffer.last not in (-1, stream):
                event = self.cuda.make("cuEventCreate", 0)
                self.cuda.do("cuEventRecord", event, self.streams[buffer.last])
                self.cuda.do("cuStreamWaitEvent", self.streams[stream], event, 0)
                self.cuda.do("cuEventDestroy_v2", event)
            buffer.last = stream

    def settle(self, *buffers: Buffer) -> None:
        """Waits until nothing is under way that touches the buffers."""
        for buffer in buffers:
            if buffer.last != -1:
                self.cuda.do("cuStreamSynchronize", self.streams[buffer.last])
                buffer.last = -1

    def allocate(self) -> None:
        kind, stream = self.random.choice(KINDS), self.random.randrange(STREAMS)
        size = self.random.choice([512, 4096, 768, 1 << 14])
        buffer = Buffer(self.cuda, kind, size, self.streams[stream])
        if kind == "pool":
            buffer.last = stream
        self.overwrite(buffer)
        self.buffers.append(buffer)

    def overwrite(self, buffer: Buffer) -> None:
        """New contents from the host, by a synchronous copy."""
        data = self.values.integers(0, 256, buffer.size, np.uint8)
        self.settle(buffer)
        if buffer.kind in ("pinned", "pageable"):
            ctypes.memmove(buffer.handle, data.tobytes(), buffer.size)
        elif buffer.kind == "array":
            width, height, depth = buffer.shape
            self.cuda.do("cuMemcpy3D_v2", api.out(Copy3D(
                source_type=HOST, source_host=data.ctypes.data, source_pitch=width, source_height=height,
                destination_type=ARRAY, destination_array=buffer.handle, width=width, rows=height, depth=depth,
            )))  # fmt: skip
        else:
            self.cuda.write(buffer.handle, data.tobytes())
        self.cuda.do("cuStreamSynchronize", 0)  # the copy may return before it has arrived
        buffer.model[:] = data

    def check(self, buffer: Buffer) -> None:
        self.settle(buffer)
        result = np.zeros(buffer.size, np.uint8)
        if buffer.kind in ("pinned", "pageable"):
            ctypes.memmove(result.ctypes.data, buffer.handle, buffer.size)
        elif buffer.kind == "array":
            width, height, depth = buffer.shape
            self.cuda.do("cuMemcpy3D_v2", api.out(Copy3D(
                source_type=ARRAY, source_array=buffer.handle, destination_type=HOST,
                destination_host=result.ctypes.data, destination_pitch=width, destination_height=height,
                width=width, rows=height, depth=depth,
            )))  # fmt: skip
        else:
            self.cuda.do("cuMemcpyDtoH_v2", result.ctypes.data, buffer.handle, buffer.size)
        assert np.array_equal(result, buffer.model), buffer.kind

    def fill(self, buffer: Buffer) -> None:
        if buffer.kind in ("pageable", "array"):
            return
        element = self.random.choice([1, 2, 4])
        width, height = self.random.randrange(1, 9), self.random.randrange(1, 5)
        pitch = (width + self.random.randrange(4)) * element
        start = self.random.randrange((buffer.size - pitch * height) // element) * element
        value, stream = self.random.getrandbits(8 * element), self.random.randrange(STREAMS)
        self.order(stream, buffer)
        name, handle = f"D2D{8 * element}", self.streams[stream]
        if height == 1:
            arguments = (f"cuMemsetD{8 * element}Async", buffer.handle + start, value, width, handle)
        else:
            arguments = (f"cuMemset{name}Async", buffer.handle + start, pitch, value, width, height, handle)
        self.cuda.do(*arguments)
        pattern = np.frombuffer(value.to_bytes(element, "little") * width, np.uint8)
        for row in range(height):
            buffer.model[start + row * pitch :][: pattern.size] = pattern

    def copy_linear(self, to: Buffer, source: Buffer) -> None:
        size = self.random.randrange(1, min(to.size, source.size))
        at, start = self.random.randrange(to.size - size), self.random.randrange(source.size - size)
        stream = self.random.randrange(STREAMS)
        self.order(stream, to, source)
        self.cuda.do("cuMemcpyAsync", to.handle + at, source.handle + start, size, self.streams[stream])
        to.model[at : at + size] = source.model[start : start + size].copy()

    def copy_box(self, to: Buffer, source: Buffer, *, flat: bool) -> None:
        width, height = self.random.randrange(1, 17), self.random.randrange(1, 5)
        depth = 1 if flat else self.random.randrange(1, 3)
        fields: dict[str, int] = {"width": width, "height" if flat else "rows": height}
        if not flat:
            fields["depth"] = depth
        places = []
        for side, buffer in (("source", source), ("destination", to)):
            if buffer.kind == "array":
                pitch, rows, slices = buffer.shape
                fields |= {f"{side}_type": ARRAY, f"{side}_array": buffer.handle}
            else:
                pitch, rows = width + self.random.randrange(5), height + self.random.randrange(3)
                slices = buffer.size // (pitch * rows)
                host = buffer.kind in ("pinned", "pageable")
                unified = buffer.kind != "pageable" and self.random.random() < 0.5
                fields |= {f"{side}_type": UNIFIED if unified else HOST if host else DEVICE}
                fields |= {f"{side}_{'host' if host and not unified else 'device'}": buffer.handle}
                fields |= {f"{side}_pitch": pitch} | ({} if flat else {f"{side}_height": rows})
            x = self.random.randrange(pitch - width + 1)
            y = self.random.randrange(rows - height + 1)
            z = 0 if flat else self.random.randrange(slices - depth + 1)
            fields |= {f"{side}_x": x, f"{side}_y": y} | ({} if flat else {f"{side}_z": z})
            places.append((((z * rows) + y) * pitch + x, pitch, pitch * rows))
        stream = self.random.randrange(STREAMS)
        self.order(stream, to, source)
        structure = (Copy2D if flat else Copy3D)(**fields)
        name = "cuMemcpy2DAsync_v2" if flat else "cuMemcpy3DAsync_v2"
        self.cuda.do(name, api.out(structure), self.streams[stream])
        (start, pitch, slice_bytes), (at, to_pitch, to_slice_bytes) = places
        old = source.model.copy()
        for z in range(depth):
            for y in range(height):
                row = old[start + z * slice_bytes + y * pitch :][:width]
                to.model[at + z * to_slice_bytes + y * to_pitch :][:width] = row

    def step(self) -> None:
        choice = self.random.random()
        if len(self.buffers) < 4 or (choice < 0.1 and len(self.buffers) < 12):
            return self.allocate()
        to, source = self.random.sample(self.buffers, 2)
        if choice < 0.2:
            # The host reads a pageable source at the call, and may change it at once afterwards.
            self.overwrite(to)
        elif choice < 0.3:
            self.check(to)
        elif choice < 0.35:
            self.buffers.remove(to)
            stream = self.random.randrange(STREAMS)
            self.order(stream, to)
            if to.kind == "pinned":
                self.settle(to)
            to.free(self.cuda, self.streams[stream])
        elif choice < 0.55:
            self.fill(to)
        elif choice < 0.75 and "array" not in (to.kind, source.kind):
            self.copy_linear(to, source)
        else:
            self.copy_box(to, source, flat=choice < 0.88)
        return None


def run(cuda: Driver, seed: int, steps: int) -> None:
    program = Program(cuda, seed)
    for _ in range(steps):
        program.step()
    for buffer in program.buffers:
        program.check(buffer)


@pytest.mark.parametrize("poison", ["0", "1"])
@pytest.mark.parametrize("deferred", ["0", "1"])
def test_random_programs_leave_what_numpy_says(fresh, deferred: str, poison: str):
    done = fresh(
        """
        from test_memory_random import *
        for seed in range(40):
            try:
                run(d, seed, 150)
            except BaseException as problem:
                raise SystemExit(f"seed {seed}: {problem!r}")
        print("done")
        """,
        DEFERRED=deferred,
        POISON=poison,
    )
    assert done.stdout.strip() == "done"
