"""How far each buffer may be off on another kind of device: by the operations of the kernels that write it, and of
those that wrote what these read, through the window in its order. Pure: follows launches and copies, replays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import field, replace

from replay.engine.checking.copied_types import Copy, Places
from replay.images.ptx_accesses import UNKNOWN, Accesses
from replay.inspection.launches import Launch
from replay.outputs.approximate import Use, allowance
from replay.outputs.tolerance import Tolerance, largest_of
from replay.records import dataclass
from replay.snapshot.schema import Range

_Uses = frozenset[Use]


@dataclass(frozen=True)
class Operations:
    """What a launch does that may differ, and to which memory. accesses: UNKNOWN where there is no PTX."""

    uses: _Uses = frozenset()
    accesses: Accesses = UNKNOWN


@dataclass
class _Flow:
    """What the contents of a buffer went through. writers: of each kernel that wrote it, all that came into what it
    wrote then."""

    uses: _Uses = frozenset()
    writers: set[tuple[str, _Uses]] = field(default_factory=set)

    def write(self, kernel: str, carried: _Uses) -> None:
        """Other parts of the buffer may have kept what they held."""
        self.uses |= carried
        self.writers.add((kernel, carried))


class Allowances:
    """The tolerance of each range; the largest of those of the kernels that write it."""

    def __init__(
        self,
        ranges: Iterable[Range],
        launches: Iterable[Launch],
        copies: Iterable[Copy],
        operations: Callable[[Launch], Operations],
    ) -> None:
        self._places = Places(ranges)
        self._flows: dict[int, _Flow] = {}
        self._anywhere = _Flow()  # of kernels that may write to any memory
        steps: list[Launch | Copy] = [*launches, *copies]
        for step in sorted(steps, key=lambda item: item.call):
            if isinstance(step, Copy):
                self._copy(step)
            else:
                self._launch(step, operations(step))

    def of(self, range_id: int) -> Tolerance | None:
        """None where every bit must agree."""
        flow = self._flows.get(range_id, _Flow())
        return _largest(flow.writers | self._anywhere.writers)

    @property
    def largest(self) -> Tolerance | None:
        """Of any memory at all: for what is of unknown origin."""
        writers = set(self._anywhere.writers)
        for flow in self._flows.values():
            writers |= flow.writers
        return _largest(writers)

    def _held(self, range_id: int) -> _Uses:
        flow = self._flows.get(range_id)
        return self._anywhere.uses | (flow.uses if flow is not None else frozenset())

    def _copy(self, copy: Copy) -> None:
        source, target = self._places.find(copy.source), self._places.find(copy.target)
        if source is None or target is None:
            return
        if carried := self._held(source[0].id):
            flow = self._flows.setdefault(target[0].id, _Flow())
            # What wrote the source counts as what wrote the copy.
            for kernel, uses in self._flows.get(source[0].id, _Flow()).writers | self._anywhere.writers:
                flow.writers.add((kernel, uses))
            flow.uses |= carried

    def _launch(self, launch: Launch, operations: Operations) -> None:
        accesses = operations.accesses
        pointed = dict(self._pointed(launch))
        carried = operations.uses
        if accesses.reads_anywhere or launch.parameters is None:
            for flow in (*self._flows.values(), self._anywhere):
                carried |= flow.uses
        # What is written in part keeps the rest, but a kernel that reads what it writes hands it on.
        for offset in accesses.reads & pointed.keys():
            carried |= self._held(pointed[offset])
        if not carried:
            return
        if accesses.writes_anywhere or launch.parameters is None:
            self._anywhere.write(launch.kernel, carried)
            return
        for range_id in {pointed[offset] for offset in accesses.writes & pointed.keys()}:
            self._flows.setdefault(range_id, _Flow()).write(launch.kernel, carried)

    def _pointed(self, launch: Launch) -> Iterable[tuple[int, int]]:
        """(offset in the parameter buffer, id of the range) of each aligned word that points to captured memory."""
        for parameter in launch.parameters or ():
            for inside in range(-parameter.offset % 8, len(parameter.data) - 7, 8):
                found = self._places.find(int.from_bytes(parameter.data[inside : inside + 8], "little"))
                if found is not None:
                    yield parameter.offset + inside, found[0].id


def _largest(writers: Iterable[tuple[str, _Uses]]) -> Tolerance | None:
    by_uses: dict[_Uses, list[str]] = {}
    for kernel, uses in writers:
        by_uses.setdefault(uses, []).append(kernel)
    found = []
    for uses, kernels in by_uses.items():
        tolerance = allowance(sorted(uses, key=lambda use: use.text))
        if tolerance is not None:
            found.append(replace(tolerance, kernels=tuple(sorted(set(kernels)))))
    return largest_of(found)
