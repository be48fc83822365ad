"""Text about the outputs of a replay: the verdict, and where and how they differ."""

from __future__ import annotations

from collections.abc import Iterator

from replay.images.demangle import demangle
from replay.inspection.readable import result_name
from replay.results.run.verification import (
    Fault,
    OutputDifference,
    OutputElements,
    OutputMismatch,
    OutputTolerance,
    Verification,
)
from replay.snapshot.schema import Fault as CapturedFault
from replay.text import number, shown, size, some

SHOWN_NAMES = 6
REASON_CHARACTERS = 800  # of why a verdict is unsure: it names memory

_VERDICTS = {
    "wrong": "DIFFER from the captured ones",
    "nondeterministic": "NONDETERMINISTIC: they differ between two replays of the same input",
    "unsure": "UNSURE",
    "not_compared": "not compared",
}


def finding(verification: Verification) -> str:
    """What was found, in words: of a fault whether it was reproduced, else "outputs " and the verdict on them."""
    if verification.fault is not None:
        return fault(verification.fault)
    return f"outputs {verdict(verification)}"


def fault(found: Fault) -> str:
    """`FAULT reproduced: CUDA_ERROR_ILLEGAL_ADDRESS in kernel poke`, or that it was not."""
    where = f" in kernel {shown(demangle(found.kernel), 100)}" if found.kernel else ""
    if found.reproduced:
        return f"FAULT reproduced: {found.found}{where}"
    there = f"{found.error or 'an error that is not known'} in the application"
    here = f", {found.found} here" if found.found else ""
    return f"FAULT NOT REPRODUCED: {there}{here}: {shown(found.reason, 400)}"


def fault_text(captured: CapturedFault) -> str:
    """How a window ended in an error in the application; follows "the window "."""
    call = f", which call {captured.call} {shown(captured.function)} returned" if captured.call else ""
    words = f": {shown(', '.join(map(str.strip, captured.words.splitlines())), REASON_CHARACTERS)}"
    when = "begins with" if captured.before else "ends in"
    return f"{when} {result_name(captured.result)}{call}{words if captured.words else ''}"


def _fault_lines(found: Fault) -> Iterator[tuple[str, str]]:
    """Beside `fault`: what the drivers say of it, and which calls met it."""
    calls = [
        f"{where} by call {call}" if call else f"{where} after the last call"
        for where, call in (("in the application", found.application_call), ("here", found.call))
        if found.reproduced or (found.found if where == "here" else found.error)
    ]
    if found.words:
        yield "fault", shown(found.words, REASON_CHARACTERS)
    if found.application_words and found.application_words != found.words:
        yield "in the application", shown(found.application_words, REASON_CHARACTERS)
    if calls:
        yield "met", ", ".join(calls)


def _extent(verification: Verification) -> str:
    return (
        f"{number(verification.buffers, 'buffer')}, {size(verification.compared_bytes)} compared bit by bit"
    )


def compared(verification: Verification) -> str:
    """What was compared, and whether it is equal; without a verdict."""
    found = _extent(verification)
    differing = verification.differing_bytes
    return found + (f": {number(differing, 'byte')} differ" if differing else ": all equal")


def verdict(verification: Verification) -> str:
    """The verdict on the outputs, in words; follows "outputs "."""
    compared = _extent(verification)
    different = len(verification.differences)
    if verification.verdict == "match" and not verification.within_tolerance:
        return f"match ({compared})"
    if verification.verdict == "match":
        return (
            f"match within {_distance(verification)}, not bit by bit ({different} of {compared}; "
            f"allowed: {_limits(verification.tolerance)})"
        )
    text = _VERDICTS[verification.verdict]
    if verification.verdict == "unsure":
        differ = verification.differing_bytes
        text += ": they differ from the captured ones" if differ else ": not all could be compared"
    if verification.reason and verification.verdict == "not_compared":
        return f"{text}: {shown(verification.reason)}"
    if verification.differing_bytes:
        text += f" in {number(verification.differing_bytes, 'byte')} of {number(different, 'buffer')} ({compared})"
    return text


def _distance(verification: Verification) -> str:
    """The largest distance of each type: `3 ULP (f32), 1 ULP (f16)`."""
    largest: dict[str, int] = {}
    for difference in verification.differences:
        for item in difference.elements:
            largest[item.dtype] = max(largest.get(item.dtype, 0), item.maximum_ulp)
    return ", ".join(f"{ulp:,} ULP ({dtype})" for dtype, ulp in largest.items()) or "the tolerance"


def _limits(tolerance: OutputTolerance | None) -> str:
    if tolerance is None:
        return "nothing"
    parts = [f"{tolerance.ulp:,} ULP"] if tolerance.ulp else []
    parts += [f"relative error {tolerance.relative:.2g}"] if tolerance.relative else []
    parts += [f"absolute error {tolerance.absolute:.2g}"] if tolerance.absolute else []
    return f"{' or '.join(parts)}, {tolerance.source}"


def tolerance_lines(verification: Verification) -> Iterator[tuple[str, str]]:
    """Facts beside the verdict."""
    if verification.fault is not None:
        yield from _fault_lines(verification.fault)
    if verification.verdict == "unsure":
        yield "why unsure", shown(verification.reason, REASON_CHARACTERS)
    tolerance = verification.tolerance
    if tolerance is not None and tolerance.source != "asked for":
        alike = all(item.tolerance == tolerance for item in verification.differences)
        limits = _limits(tolerance) if alike else f"by buffer, at most {_limits(tolerance)}"
        yield "tolerance", f"{limits}: {shown('; '.join(tolerance.reasons), 400)}{_kernels(tolerance)}"
    if verification.varying:
        names = some([shown(name, 100) for name in verification.varying], SHOWN_NAMES)
        yield "varying", f"between replays of the same input: {names}"
    if verification.saved:
        yield "saved", f"{number(len(verification.saved), 'file')} with expected and actual outputs"


def _kernels(tolerance: OutputTolerance) -> str:
    if not tolerance.kernels:
        return ""
    return f" (kernels: {some([shown(demangle(name), 60) for name in tolerance.kernels], SHOWN_NAMES)})"


def difference_lines(item: OutputDifference) -> Iterator[str]:
    """One buffer: how much of it differs and how far, and the first places."""
    yield (
        f"  {shown(item.label)}: {number(item.differing_bytes, 'byte')} of {item.compared_bytes:,} differ"
        + (f"; as {item.guess_dtype} (a guess) at most {item.guess_maximum_ulp} ULP, relative error "
           f"{item.guess_maximum_relative:.2g}" if item.guess_dtype else "")
        + (", all within the tolerance" if item.within_tolerance else "")
    )  # fmt: skip
    if item.tolerance is not None and item.tolerance.source != "asked for":
        yield f"    allowed here: {_limits(item.tolerance)}{_kernels(item.tolerance)}"
    for found in item.elements:
        origin = f": {shown(found.origin, 120)}" if found.origin else ""
        start = f" from offset {found.offset_bytes:,} on" if found.offset_bytes else ""
        special = f", {found.special:,} NaN or infinite on one side only" if found.special else ""
        distance = _how_far(found)
        yield (
            f"    as {found.dtype} ({found.source}{origin}){start}: {number(found.elements, 'element')} "
            f"{'differs' if found.elements == 1 else 'differ'}, {distance}{special}"
        )
    for place in item.mismatches:
        expected = _value(place.expected_value, place.expected)
        yield f"    {_where(place)}: expected {expected}, got {_value(place.actual_value, place.actual)}"


def _how_far(found: OutputElements) -> str:
    """How far elements are apart."""
    if not found.dtype.startswith(("f", "b", "e")):
        return f"by at most {found.maximum_ulp:,}"
    parts = [f"at most {found.maximum_ulp:,} ULP"]
    if found.elements > found.zeros + found.special:
        parts.append(f"relative error {found.maximum_relative:.2g}")
    if found.zeros:
        parts.append(f"{found.zeros:,} where 0 was expected, absolute error {found.maximum_absolute:.2g}")
    return ", ".join(parts)


def _where(place: OutputMismatch) -> str:
    at = f"offset {place.offset_bytes:,}" + (f" ({place.address:#x})" if place.address else "")
    at += f", element {place.element:,}" if place.element >= 0 else ""
    return at + (f" ({shown(place.place)})" if place.place else "")


def _value(value: str, held: str) -> str:
    return f"{value} ({held})" if value else held
