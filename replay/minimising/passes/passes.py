"""All passes, in their order."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from replay.errors import ImageError
from replay.images import usable_modules
from replay.inspection.launches import Launch, launches
from replay.inspection.pieces import read_contents
from replay.minimising.candidates.cuts import Dimensions, Fill, Piece
from replay.minimising.candidates.text import bodies, functions
from replay.minimising.laboratory import Laboratory
from replay.minimising.passes.contents import stretches, unread
from replay.minimising.passes.halving import halve, smallest
from replay.minimising.passes.known import (
    Touched,
    feeding,
    is_launch,
    reached,
    read_by,
    touched,
    variables_of,
    with_dependents,
    without_use,
)
from replay.run.parent import RunOptions
from replay.run.touched import runs_of
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Census, Image, Kernel, Range, all_of
from replay.snapshot.windows import choose_window

MAXIMUM_RESHAPED = 16  # launches that get a smaller grid one by one
_NO_CODE = ("//", ".loc", ".file", ".section")


@dataclass
class Contents:
    """What is left now, without its chunks."""

    calls: list[Call]
    ranges: list[Range]
    census: list[Census]
    kernels: list[Kernel]
    images: list[Image]

    @property
    def window(self) -> list[Call]:
        """Its calls."""
        return [call for call in self.calls if call.section == "window"]


@dataclass
class Passes:
    """options: how replays are made on the CPU driver that say what is touched."""

    laboratory: Laboratory
    options: RunOptions
    notes: list[str] = field(default_factory=list)

    def run(self) -> None:
        """All of them. Raises BudgetOver."""
        for name, do in (
            ("unread memory", self._unread),
            ("calls", self._calls),
            ("grid", self._grid),  # in front of what takes many replays: it makes them short
            ("setup calls", self._setup),
            ("memory", self._memory),
            ("shared memory", self._shared),
            ("values", self._values),
            ("images", self._images),
            ("PTX functions", self._functions),
            ("PTX lines", self._lines),
        ):
            self.laboratory.run_pass(name, do)

    def _now(self) -> Contents:
        laboratory = self.laboratory
        with SnapshotReader(laboratory.best) as reader:
            choose_window(reader, laboratory.cuts.window if reader.window_count else None)
            gone = laboratory.cuts
            return Contents(
                [call for call in all_of(reader, Call) if call.number not in gone.calls],
                [item for item in all_of(reader, Range) if item.id not in gone.ranges],
                list(all_of(reader, Census)), list(all_of(reader, Kernel)), list(all_of(reader, Image)),
            )  # fmt: skip

    def _without(self, what: str, smaller: bool = True) -> Callable[[Iterable[object]], bool]:
        """Tries the cuts with more of one kind."""

        def attempt(items: Iterable[object]) -> bool:
            cuts = self.laboratory.cuts
            more = replace(cuts, **{what: getattr(cuts, what) | frozenset(items)})
            return self.laboratory.attempt(more, smaller=smaller)

        return attempt

    def _touched(self) -> Touched | None:
        laboratory = self.laboratory
        window = laboratory.cuts.window if laboratory.best == laboratory.source else None
        laboratory.progress(f"asking the CPU driver what is touched: {laboratory.best.name}")
        laboratory.symptom.others += 1
        return touched(laboratory.best, self.options, window, laboratory.folder)

    # -- memory and calls ---------------------------------------------------------------------------------------

    def _unread(self) -> None:
        """What the CPU driver says that nothing reads, at once: it makes all that follows faster."""
        laboratory, found = self.laboratory, self._touched()
        if not laboratory.symptom.compares:
            outputs = replace(laboratory.cuts, outputs=False)
            if found is None or not laboratory.attempt(replace(outputs, pieces=self._pieces(found))):
                laboratory.attempt(outputs)
        if found is None:
            self.notes.append("what is touched is not known: the window does not run on the CPU driver")
        else:
            self._without("pieces")(self._pieces(found))

    def _pieces(self, found: Touched) -> frozenset[Piece]:
        now = self._now()
        place = self.laboratory.first.place
        shown = [] if place is None else [[place[0], sum(place)]]  # which must stay, read or not
        read = runs_of([read_by(now.window, found), shown, variables_of(now.ranges)])
        return self.laboratory.cuts.pieces | frozenset(unread(now.ranges, now.window, read))

    def _calls(self) -> None:
        now, first = self._now(), self.laboratory.first
        window = now.window
        order = [call for call in window if is_launch(call)]
        found = self._touched() if len(window) > 1 else None
        attempt = self._without("calls", smaller=False)  # outputs that a fill overwrote may be larger
        for last in self._at_fault(order, found):
            assert found is not None
            gone = feeding(window, found.launches, first.place, last, variables_of(now.ranges))
            kept = [call for call in now.calls if call.number not in gone]
            if not any(call.section == "window" for call in kept):
                continue
            needed = self._needed(now, kept)
            if attempt(gone | without_use(kept, "window", needed)) or attempt(gone):
                break
        now = self._now()
        numbers = {call.number for call in now.window}

        def without(part: list[int]) -> bool:
            gone = with_dependents(now.calls, part)
            return not numbers <= gone | self.laboratory.cuts.calls and attempt(gone)

        halve([call.number for call in now.window], without)

    def _at_fault(self, order: list[Call], found: Touched | None) -> list[int | None]:
        """Launches of which one may be at fault; None for what is seen at a place in memory. Nothing where the launches
        that the CPU driver told of are not those of the window."""
        first, count = self.laboratory.first, len(found.launches) if found is not None else 0
        if first.call is not None or first.place is not None:
            return [first.call] if count in (len(order), 2 * len(order)) else []
        if self.laboratory.symptom.compares or not 0 < count <= len(order):
            return []
        return [
            call.number for call in order[count - 1 : count + 1]
        ]  # an error ends it in this one or the next

    def _needed(self, now: Contents, calls: list[Call]) -> set[int]:
        here = reached(calls, now.ranges, now.census)
        return {item.born_call for item in now.ranges if item.id in here and item.born_call is not None}

    def _setup(self) -> None:
        now = self._now()
        attempt = self._without("calls")
        attempt(without_use(now.calls, "setup", self._needed(now, now.calls)))
        now = self._now()
        window = {call.number for call in now.window}
        halve(
            [call.number for call in now.calls if call.section == "setup"],
            lambda part: not window & (gone := with_dependents(now.calls, part)) and attempt(gone),
        )

    def _memory(self) -> None:
        now = self._now()
        attempt = self._without("ranges")
        numbers = {call.number for call in now.calls}
        kept = reached(now.calls, now.ranges, now.census)
        attempt(item.id for item in now.ranges if item.id not in kept and item.born_call not in numbers)
        self._unread_now()
        halve([item.id for item in self._now().ranges], attempt)

    def _unread_now(self) -> None:
        if (found := self._touched()) is not None:
            self._without("pieces")(self._pieces(found))

    def _values(self) -> None:
        """Zeros for what is left, or a few bytes again and again."""
        plan: tuple[tuple[Fill, int], ...] = (("zeros", 4096), ("zeros", 256), ("pattern", 256))
        for fill, least in plan:
            now = self._now()
            with SnapshotReader(self.laboratory.best) as reader:
                choose_window(reader, self.laboratory.cuts.window if reader.window_count else None)
                pieces = stretches(reader, now.ranges, now.window, now.census, fill, least)
            halve(pieces, self._without("pieces"))

    # -- shapes -------------------------------------------------------------------------------------------------

    def _launches(self) -> list[Launch]:
        now = self._now()
        found = launches(now.calls, now.kernels)
        return [item for item in found if item.grid != (0, 0, 0)]

    def _grid(self) -> None:
        found = [item for item in self._launches() if item.grid != (1, 1, 1)]
        if found and not self._reshaped(grids={item.call: (1, 1, 1) for item in found}):
            for item in found[:MAXIMUM_RESHAPED]:
                x, y, z = item.grid
                z = smallest(z, 1, lambda value: self._reshaped(grids={item.call: (x, y, value)}))  # noqa: B023
                y = smallest(y, 1, lambda value: self._reshaped(grids={item.call: (x, value, z)}))  # noqa: B023
                smallest(x, 1, lambda value: self._reshaped(grids={item.call: (value, y, z)}))  # noqa: B023
        if self.laboratory.cuts.grids:
            self._unread_now()

    def _shared(self) -> None:
        for item in self._launches()[:MAXIMUM_RESHAPED]:
            smallest(item.shared_bytes, 0, lambda value: self._reshaped(shared={item.call: value}))  # noqa: B023

    def _reshaped(
        self, grids: dict[int, Dimensions] | None = None, shared: dict[int, int] | None = None
    ) -> bool:
        cuts = self.laboratory.cuts
        changed = replace(
            cuts,
            grids=tuple(sorted({**dict(cuts.grids), **(grids or {})}.items())),
            shared=tuple(sorted({**dict(cuts.shared), **(shared or {})}.items())),
        )
        return self.laboratory.attempt(changed, smaller=False)

    # -- images -------------------------------------------------------------------------------------------------

    def _texts(self) -> dict[str, str]:
        """The PTX of each image that is nothing else."""
        with SnapshotReader(self.laboratory.best) as reader:
            choose_window(reader, self.laboratory.cuts.window if reader.window_count else None)
            return {
                image.digest: read_contents(reader, image.contents).partition(b"\0")[0].decode("latin-1")
                for image in all_of(reader, Image)
                if image.kind == "ptx"
            }

    def _images(self) -> None:
        """The one PTX of a container that has the kernels."""
        now = self._now()
        with SnapshotReader(self.laboratory.best) as reader:
            choose_window(reader, self.laboratory.cuts.window if reader.window_count else None)
            for image in now.images:
                if image.kind == "ptx":
                    continue
                names = [kernel.name for kernel in now.kernels if kernel.image == image.digest]
                try:
                    modules = usable_modules(read_contents(reader, image.contents), None)
                    texts = [data for kind, data in modules if kind == "ptx"]
                except ImageError as error:
                    self.notes.append(f"image {image.digest[:12]} stays as it is: {error.what}")
                    continue
                for number, text in enumerate(texts):
                    cuts = self.laboratory.cuts
                    if all(name.encode() in text for name in names) and self.laboratory.attempt(
                        replace(cuts, images=(*cuts.images, (image.digest, number)))
                    ):
                        break

    def _functions(self) -> None:
        names = {kernel.name for kernel in self._now().kernels}
        for digest, text in self._texts().items():
            try:
                found = functions(text)
            except ImageError:
                continue
            attempt = self._without("lines")
            halve(
                [place for name, place in found.items() if name not in names],
                lambda part: attempt((digest, line) for first, end in part for line in range(first, end)),  # noqa: B023
            )

    def _lines(self) -> None:
        for digest, text in self._texts().items():
            lines = text.split("\n")
            attempt = self._without("lines")
            comments = [
                (digest, number) for number, line in enumerate(lines) if line.strip().startswith(_NO_CODE)
            ]
            if comments:
                attempt(comments)
            try:
                inside = {line for first, end in bodies(text) for line in range(first, end)}
            except ImageError:
                continue
            gone = set(self.laboratory.cuts.lines)
            left = [
                (digest, number) for number in sorted(inside)
                if lines[number].strip() and (digest, number) not in gone
            ]  # fmt: skip
            halve(left, lambda part: _is_balanced(lines[number] for _, number in part) and attempt(part))  # noqa: B023


def _is_balanced(lines: Iterable[str]) -> bool:
    """Whether no brace is left alone when these lines go."""
    open_, text = 0, "".join(lines)
    for brace in re.findall("[{}]", text):
        open_ += 1 if brace == "{" else -1
        if open_ < 0:
            return False
    return not open_
