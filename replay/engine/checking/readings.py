"""What is known of the element types of captured memory, and how far they may differ: for `outputs/comparison.py`.

A type is declared (`--dtype`), or that of an array's format, or inferred from the loads and stores of the kernels that
were launched with a pointer to it. Inferring reads PTX, so it waits for the first buffer that differs.
"""

from __future__ import annotations

import bisect
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from itertools import chain, islice
from typing import Protocol

from replay.api.functions import by_symbol
from replay.api.vocabulary import LOADED_TYPES
from replay.engine.checking.allowances import Allowances, Operations
from replay.engine.checking.copied_types import Places, copies, copy_of, part, spread
from replay.errors import ReplayError
from replay.images import identify, read_container
from replay.images.ptx_accesses import Accesses, accesses_of
from replay.images.ptx_body import KernelBody, kernel_body
from replay.images.ptx_types import types_of, variable_types
from replay.inspection.launches import KernelNames, Launch, launches, named_arguments
from replay.inspection.pieces import read_contents
from replay.outputs import approximate
from replay.outputs.comparison import Reading
from replay.outputs.elements import TYPES, ElementType, Region
from replay.outputs.tolerance import Tolerance, largest_of
from replay.planning.spans import is_array, is_global
from replay.snapshot.calls import Calls
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Environment, Image, Kernel, Range, all_of, first_of

DECLARED, ARRAY_FORMAT, INFERRED = "declared", "array format", "inferred from PTX"
MAXIMUM_LAUNCHES = 20_000  # that are looked at
MAXIMUM_IMAGE_BYTES = 256 << 20
_ARRAY_TYPES = {  # by CUarray_format
    0x01: "u8", 0x02: "u16", 0x03: "u32", 0x08: "i8", 0x09: "i16", 0x0A: "i32", 0x10: "f16", 0x20: "f32",
}  # fmt: skip


@dataclass(frozen=True)
class ReplayDevice:
    """The device that replays."""

    emulated: bool
    compute_capability: str


class Recorded(Protocol):
    """What a snapshot recorded of one window, as `Program` has it. `kinds`: one call of each kind, setup and window."""

    @property
    def reader(self) -> SnapshotReader: ...
    @property
    def ranges(self) -> dict[int, Range]: ...
    @property
    def images(self) -> dict[str, Image]: ...
    @property
    def setup(self) -> Sequence[Call]: ...
    @property
    def window(self) -> Calls: ...
    def kinds(self) -> Iterator[Call]: ...


@dataclass(eq=False)
class Readings:
    """declared: types by range id. asked_for: tolerance; None for the one that follows from the kernels and the
    devices."""

    program: Recorded
    declared: Mapping[int, ElementType]
    asked_for: Tolerance | None
    here: ReplayDevice | None = None
    _bodies: dict[tuple[str, str], KernelBody | None] = field(default_factory=dict)
    _accesses: dict[tuple[str, str], Accesses] = field(default_factory=dict)
    _applied: list[Tolerance | None] = field(default_factory=list)  # to what differed

    def of(self, range_: Range) -> Reading:
        """Of one range."""
        return self._reading(self.regions(range_), self.tolerance_of(range_))

    def _reading(self, regions: Sequence[Region], tolerance: Tolerance | None) -> Reading:
        self._applied.append(tolerance)
        return Reading(regions, tolerance)

    @property
    def applied(self) -> Tolerance | None:
        """The tolerance that was asked for, or the largest of those of the buffers that differed."""
        return self.asked_for if self.asked_for is not None else largest_of(self._applied)

    def tolerance_of(self, range_: Range | None) -> Tolerance | None:
        """How far elements of a range may differ; None where every bit must agree. range_: None where it is not known
        where contents come from."""
        if self.asked_for is not None or self._allowances is None:
            return self.asked_for
        return self._allowances.largest if range_ is None else self._allowances.of(range_.id)

    @cached_property
    def _allowances(self) -> Allowances | None:
        """None on the same kind of device as in the capture."""
        if self.here is None:
            return None
        environment = first_of(self.program.reader, Environment)
        if environment is None or not environment.devices:
            return None
        captured = environment.devices[0].compute_capability
        same = environment.emulated == self.here.emulated and (
            self.here.emulated or captured == self.here.compute_capability
        )
        if same:
            return None
        here = self.here.emulated

        def operations(launch: Launch) -> Operations:
            body = self._body(launch.kernel, launch.image)
            if body is None:
                return Operations()
            key = (launch.kernel, launch.image)
            if key not in self._accesses:
                self._accesses[key] = accesses_of(body)
            found = approximate.uses(body.instructions, _threads(launch), environment.emulated, here)
            return Operations(frozenset(found), self._accesses[key])

        program = self.program
        return Allowances(program.ranges.values(), self._launches, copies(program.window.kinds()), operations)

    def of_part(self, range_: Range, offset: int, size_bytes: int) -> Reading:
        """Of some bytes of a range, as a buffer of their own."""
        regions = part(self.regions(range_), offset, size_bytes, 0)
        return self._reading(regions, self.tolerance_of(range_))

    def of_copy(self, call: Call) -> Reading:
        """Of what a call copied to memory of the host."""
        copy = copy_of(call)
        place = None if copy is None else self._places.find(copy.source)
        if copy is None or place is None:
            return self._reading((), self.tolerance_of(None))
        return self.of_part(*place, copy.size_bytes)

    @cached_property
    def _places(self) -> Places:
        return Places(self.program.ranges.values())

    def regions(self, range_: Range) -> list[Region]:
        """The parts of a range whose element type is known."""
        certain = self._certain(range_)
        return self._inferred.get(range_.id, []) if certain is None else certain

    def _certain(self, range_: Range) -> list[Region] | None:
        """Of what was declared, or is an array; None for all others."""
        if range_.id in self.declared:
            return [_whole(range_, self.declared[range_.id], DECLARED)]
        if range_.array is not None:
            known = _ARRAY_TYPES.get(range_.array.format)
            return [] if known is None else [_whole(range_, TYPES[known], ARRAY_FORMAT)]
        return None

    # -- inferring ----------------------------------------------------------------------------------------------

    @cached_property
    def _launches(self) -> list[Launch]:
        program = self.program
        kernels = all_of(program.reader, Kernel)
        return list(islice(launches(chain(program.setup, program.window), kernels), MAXIMUM_LAUNCHES))

    @cached_property
    def _inferred(self) -> dict[int, list[Region]]:
        """Regions by range id. Each begins where a pointer parameter points to, and ends where the next one begins."""
        ranges = sorted(
            (item for item in self.program.ranges.values() if not is_array(item)),
            key=lambda item: item.address,
        )
        starts = [item.address for item in ranges]
        # (range id, offset) -> type -> origin
        said: dict[tuple[int, int], dict[str, str]] = defaultdict(dict)
        for launch in self._launches:
            for offset, name, pointer in self._pointers(launch):
                place = bisect.bisect_right(starts, pointer) - 1
                if place >= 0 and pointer < ranges[place].address + ranges[place].size_bytes:
                    held = said[ranges[place].id, pointer - ranges[place].address]
                    held.setdefault(name, f"{launch.kernel[:80]}, parameter at byte {offset}")
            for variable, name in self._variable_types(launch.kernel, launch.image).items():
                for number in self._variables[launch.image][variable]:
                    said[number, 0].setdefault(name, f"{launch.kernel[:80]}, variable {variable[:80]}")
        by_range: dict[int, list[int]] = defaultdict(list)
        for number, offset in sorted(said):
            by_range[number].append(offset)
        found: dict[int, list[Region]] = {}
        for range_ in ranges:
            places = by_range.get(range_.id, [])
            regions = []
            for offset, end in zip(places, [*places[1:], range_.size_bytes], strict=False):
                types = said[range_.id, offset]
                if len(types) == 1:
                    ((name, origin),) = types.items()
                    size = TYPES[name].size_bytes
                    if offset % size == 0 and end - offset >= size:
                        end = offset + (end - offset) // size * size
                        regions.append(Region(offset, end, TYPES[name], INFERRED, origin))
            if regions:
                found[range_.id] = _joined(regions)
        for range_ in self.program.ranges.values():
            if (certain := self._certain(range_)) is not None:
                found[range_.id] = certain
        return spread(found, self.program.ranges.values(), self.program.window.kinds())

    def _pointers(self, launch: Launch) -> Iterator[tuple[int, str, int]]:
        """(offset in the parameter buffer, element type, address) of each parameter whose target's type is known."""
        if launch.parameters is None:
            return
        for offset, name in self._types(launch.kernel, launch.image).items():
            for parameter in launch.parameters:
                inside = offset - parameter.offset
                if 0 <= inside <= len(parameter.data) - 8:
                    yield offset, name, int.from_bytes(parameter.data[inside : inside + 8], "little")

    @cached_property
    def _variables(self) -> dict[str, dict[str, list[int]]]:
        """Image -> name of a variable -> ids of its ranges."""
        program, follow = self.program, KernelNames()
        table = by_symbol()
        for call in program.kinds():
            function = table.get(call.function)
            if function is not None and function.creates in LOADED_TYPES:
                follow.follow(call, named_arguments(call, (item.name for item in function.parameters)))
        found: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
        for range_ in program.ranges.values():
            if is_global(range_) and range_.name and (image := follow.image(range_.owner)):
                found[image][range_.name].append(range_.id)
        return found

    @lru_cache(maxsize=1024)  # noqa: B019 (lives as long as the process)
    def _variable_types(self, kernel: str, image: str) -> dict[str, str]:
        variables = self._variables.get(image)
        body = self._body(kernel, image) if variables else None
        return {} if body is None or variables is None else variable_types(body, variables)

    @lru_cache(maxsize=1024)  # noqa: B019
    def _types(self, kernel: str, image: str) -> dict[int, str]:
        body = self._body(kernel, image)
        return {} if body is None else types_of(body)

    def _body(self, kernel: str, image: str) -> KernelBody | None:
        """The kernel's PTX; None where the image has none."""
        key = (kernel, image)
        if key not in self._bodies:
            try:
                texts = self._texts(image)
                self._bodies[key] = next(
                    (body for text in texts if (body := kernel_body(text, kernel))), None
                )
            except ReplayError:  # what cannot be read says nothing of types
                self._bodies[key] = None
        return self._bodies[key]

    @lru_cache(maxsize=4)  # noqa: B019
    def _texts(self, digest: str) -> list[bytes]:
        image = self.program.images.get(digest)
        if image is None or image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
            return []
        data = read_contents(self.program.reader, image.contents)
        kind = identify(data)
        if kind == "ptx":
            return [data]
        entries = read_container(data) if kind == "fatbin" else []
        return [entry.contents() for entry in entries if entry.kind == "ptx"]


def _whole(range_: Range, type_: ElementType, source: str) -> Region:
    return Region(0, range_.size_bytes // type_.size_bytes * type_.size_bytes, type_, source)


def _joined(regions: list[Region]) -> list[Region]:
    """Neighbours of one type as one."""
    joined: list[Region] = []
    for region in regions:
        if joined and joined[-1].end == region.start and joined[-1].type == region.type:
            last = joined[-1]
            joined[-1] = Region(last.start, region.end, last.type, last.source, last.origin)
        else:
            joined.append(region)
    return joined


def _threads(launch: Launch) -> int:
    return math.prod(max(extent, 1) for extent in (*launch.grid, *launch.block))
