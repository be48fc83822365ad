"""Outputs: other ones than captured, other ones than those of another side, or other ones each time."""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

from replay.errors import EngineError
from replay.minimising.symptoms.side import Side
from replay.minimising.symptoms.sighting import Candidate, Sighting, Symptom
from replay.outputs.elements import TYPES, values
from replay.results.run.verification import OutputMismatch, Verification


class Wrong(Symptom):
    """One element that a replay leaves otherwise than the application did: it must stay as wrong, bit by bit."""

    def __init__(self, side: Side) -> None:
        super().__init__("wrong", side)
        self._side = side

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """A replay; and one more where other outputs differ, too, once they are those that it left."""
        found, alone = self._look(candidate, first)
        if first is None or not found.shown or found.key != first.key or alone:
            return found
        return self._look(candidate, first)[0]

    def _look(self, candidate: Candidate, first: Sighting | None) -> tuple[Sighting, bool]:
        try:
            result, outputs = self._side.replay_saving(candidate)
        except EngineError as error:
            return Sighting(False, f"it cannot be replayed: {error.what}", could_not=True), True
        verification = result.verification
        if verification.verdict not in ("wrong", "unsure"):
            return Sighting(False, f"outputs {verification.verdict}"), True
        if first is None:
            return self._chosen(verification, outputs.ranges), True
        number, offset, expected, actual = first.key
        path = outputs.ranges.get(int(number))
        if path is None:
            return Sighting(False, "the element is not wrong any more"), True
        at, size = int(offset), len(expected) // 2
        if _read(path, at, size) != actual or _read(_expected(path), at, size) != expected:
            return Sighting(False, "the element is wrong in another way"), True
        alone = verification.differing_bytes <= size and not verification.results
        if not alone:
            candidate.remake(replace(outputs, kept=[(int(number), at, bytes.fromhex(expected))]))
        return replace(first), alone

    def _chosen(self, verification: Verification, saved: dict[int, Path]) -> Sighting:
        """The element that is looked at from now on: the one that differs most, of those that are known by place."""
        for difference in verification.differences:
            if difference.within_tolerance or not difference.address or not difference.mismatches:
                continue
            place = max(difference.mismatches, key=lambda item: abs(_change(item)))
            size = len(place.expected) // 2
            number = next(
                (number for number, path in saved.items()
                 if path.stat().st_size == difference.size_bytes
                 and _read(path, place.offset_bytes, size) == place.actual
                 and _read(_expected(path), place.offset_bytes, size) == place.expected),
                None,
            )  # fmt: skip
            if number is not None:
                what = f"{difference.label} at offset {place.offset_bytes}: {_shown(place)}"
                key = [str(number), str(place.offset_bytes), place.expected, place.actual]
                return Sighting(True, what, key, place=(place.address, size))
        return Sighting(False, "no memory of the device differs beyond its tolerance")


class WrongBeside(Symptom):
    """Outputs of side B that differ from those of side A, in the same buffer and of the same sort."""

    def __init__(self, a: Side, b: Side) -> None:
        super().__init__("wrong", a, b)
        self._a, self._b = a, b

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """A replay of A, whose outputs become the expected ones, and one of B."""
        try:
            if why := take_outputs(self._a, candidate):
                return Sighting(False, f"A: {why}")
            verification = self._b.replay(candidate).verification
        except EngineError as error:
            return Sighting(False, f"it cannot be replayed: {error.what}", could_not=True)
        if verification.verdict not in ("wrong", "unsure"):
            return Sighting(False, f"outputs of B against those of A: {verification.verdict}")
        wanted = first.key[0] if first is not None else None
        for difference in verification.differences:
            if (
                difference.within_tolerance
                or wanted not in (None, difference.label)
                or not difference.mismatches
            ):
                continue
            place = max(difference.mismatches, key=lambda item: abs(_change(item)))
            special = sum(item.special for item in difference.elements)
            what = f"{difference.label} at offset {place.offset_bytes}: {_shown(place)}"
            key = [difference.label, "NaN or infinite" if special else "finite"]
            return Sighting(
                True, what, key, 0.0 if special else _change(place), (place.address, len(place.expected) // 2)
            )
        return Sighting(False, "another buffer differs")


class Nondeterministic(Symptom):
    """Two replays of the same input leave a buffer otherwise."""

    noisy = True

    def __init__(self, side: Side) -> None:
        super().__init__("nondeterministic", side)
        self._side = side

    def look(self, candidate: Candidate, first: Sighting | None) -> Sighting:
        """One replay; what else differs becomes what is expected."""
        try:
            result, outputs = self._side.replay_saving(candidate)
        except EngineError as error:
            return Sighting(False, f"it cannot be replayed: {error.what}", could_not=True)
        verification = result.verification
        label = first.key[0] if first is not None else next(iter(verification.varying), "")
        if verification.verdict != "nondeterministic" or label not in verification.varying:
            return Sighting(False, f"outputs {verification.verdict}")
        if first is not None and (outputs.ranges or outputs.hosts):
            candidate.remake(outputs)
        places = (
            item.mismatches[0] for item in verification.differences if item.label == label and item.mismatches
        )
        place = next(((item.address, len(item.expected) // 2) for item in places), None)
        return Sighting(True, f"{label} differs between two replays", [label], place=place)


def take_outputs(side: Side, candidate: Candidate) -> str:
    """Expect from now on what a side leaves. Why that cannot be; "" where it can. Raises EngineError."""
    result, outputs = side.replay_saving(candidate)
    verdict = result.verification.verdict
    if verdict not in ("match", "wrong", "unsure"):
        return f"outputs {verdict}"
    if verdict != "match":
        candidate.remake(outputs)
    return ""


def _expected(path: Path) -> Path:
    return path.with_name(path.name.replace("-actual", "-expected"))


def _read(path: Path, offset: int, size: int) -> str:
    with open(path, "rb") as file:
        file.seek(offset)
        return file.read(size).hex()


def _change(place: OutputMismatch) -> float:
    """Actual less expected, of elements whose type is known and of words otherwise."""
    type_ = TYPES.get(place.dtype)
    expected, actual = bytes.fromhex(place.expected), bytes.fromhex(place.actual)
    if type_ is not None and len(expected) == type_.size_bytes:
        change = float(values(actual, type_)[0]) - float(values(expected, type_)[0])
        return change if change == change else float("inf")
    if len(expected) == 4:  # may be a float
        old, new = (struct.unpack("<f", data)[0] for data in (expected, actual))
        if all(1e-30 < abs(value) < 1e30 or value == 0 for value in (old, new)):
            return float(new - old)
    return float(int.from_bytes(actual, "little") - int.from_bytes(expected, "little"))


def _shown(place: OutputMismatch) -> str:
    if place.dtype:
        return f"{place.actual_value} for {place.expected_value} ({place.dtype})"
    return f"bytes {place.actual} for {place.expected}"
