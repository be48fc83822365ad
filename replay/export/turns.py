"""Places of memory that takes turns at its addresses, and the steps in which it comes and leaves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.clusters import parts_of
from replay.engine.placing.mappings import Backing, Home
from replay.engine.placing.memory import outside
from replay.engine.placing.pieces import Part, Placed
from replay.engine.placing.turns import Turns
from replay.engine.program import Program
from replay.export.recording import RecordingDriver
from replay.export.steps import AT_START, HELD, LATER, ExportPlan, Place, Turn
from replay.planning.spans import Span


class ExportedTurns(Turns):
    """Notes down what it would do. place_of: of a stretch, as a place that is there always."""

    def __init__(
        self,
        program: Program,
        plan: ExportPlan,
        recorder: RecordingDriver,
        addresses: AddressMap,
        spans: Iterable[Span],
        place_of: Callable[[Span, int, int], Place],
    ) -> None:
        spans = [span for span in spans if span.cluster]
        stays = [span for span in spans if span.stay]
        placed = [
            Placed(span, span.address, "same_address", parts=() if span.stay else parts_of(span, stays, 0))
            for span in spans
        ]
        super().__init__(
            recorder, program.stays, placed, addresses, _home, Backing(recorder, program.families)
        )
        self.all_placed = placed
        self._recorder = recorder
        recorder.steps = []  # those of the start are not wanted: places say what is there then
        self._numbers: dict[Part | int, int] = {}
        self.expect(program.ranges.values())
        here, absent = self.now
        self._plan_places(plan, placed, here, absent, place_of)

    def _plan_places(
        self,
        plan: ExportPlan,
        placed: Sequence[Placed],
        here: set[int],
        absent: set[Part],
        place_of: Callable[[Span, int, int], Place],
    ) -> None:
        from dataclasses import replace

        held: list[tuple[int, int]] = []
        for item in placed:
            for part in item.parts:
                place = place_of(item.span, part.address, part.size_bytes)
                held.append((part.address, part.address + part.size_bytes))
                if part.turns:
                    self._numbers[part] = len(plan.places)
                    place = replace(place, turn=LATER if part in absent else AT_START)
                plan.places.append(place)
        for item in placed:
            if not item.span.stay:
                continue
            for start, end in outside(item.span, sorted(held)):
                plan.places.append(Place(start, end - start, True, turn=HELD))
                held.append((start, end))
            self._numbers[item.span.stay] = len(plan.places)
            turn = AT_START if item.span.stay in here else LATER
            plan.places.append(
                replace(place_of(item.span, item.span.address, item.span.size_bytes), turn=turn)
            )

    def _note(self, key: Part | int, comes: bool) -> None:
        if key in self._numbers:
            self._recorder.steps.append(Turn(self._numbers[key], comes))

    def pin(self, number: int) -> None:
        self._note(number, True)

    def unpin(self, number: int) -> None:
        self._note(number, False)

    def unmap(self, part: Part) -> None:
        self._note(part, False)

    def map(self, part: Part) -> None:
        self._note(part, True)


def _home(span: Span) -> Home:
    return Home(span.device, (span.device,))
