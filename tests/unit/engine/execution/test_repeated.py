"""Calls that repeat are read, translated and submitted as columns, with the same outcome as one by one."""

from __future__ import annotations

import ctypes
import random
import struct
from array import array

import numpy as np
import pytest

from replay.api.parts import PARAMETERS
from replay.drivers import submission_library
from replay.engine.arguments.prepared import Prepared
from replay.engine.census import Census, Word
from replay.engine.execution.repeated import PreparedRepeats, divided
from replay.engine.execution.submission import Marks
from replay.engine.execution.window import Window
from replay.engine.placing.addresses import AddressMap
from replay.engine.placing.pieces import Placed
from replay.engine.translation.translation import Late
from replay.engine.translation.words import patch_columns, patch_words
from replay.errors import EngineError
from replay.planning.spans import Span
from replay.snapshot import schema
from replay.snapshot.calls import Calls, Repeats, read_calls
from replay.snapshot.schema import Call, Range, all_of, to_wire

BASE, ELSEWHERE = 0x7000_0000_0000, 0x5000_0000_0000
LAYOUT = struct.pack("<4I", 0, 8, 8, 4)
SEEDS = range(20)


class Source:
    """The objects of a snapshot, as its reader gives them."""

    def __init__(self, calls, census=()):
        self._of = {"call": calls, "census": census}

    def objects_and_blocks(self, kind):
        return self.objects(kind)

    def objects(self, kind):
        return (as_read(to_wire(item)) if not isinstance(item, dict) else item for item in self._of[kind])


def as_read(value):
    if isinstance(value, dict):
        return {key: as_read(item) for key, item in value.items()}
    return tuple(map(as_read, value)) if isinstance(value, list) else value


def launch(number, word=0, count=0, function=5, stream=0, **more):
    arguments = [function, 1, 1, 1, 32, 1, 1, 0, stream, 99, 0]
    inputs = {PARAMETERS: struct.pack("<QI", word, count), "kernelParams.1": LAYOUT}
    return Call(number, "cuLaunchKernel", "window", 1, arguments, 0, inputs=inputs, enter_ns=10 * number,
                leave_ns=10 * number + 5, **more)  # fmt: skip


def addresses(dice):
    """Spans that are here and elsewhere, variables inside and between them, and some that come and go."""
    placed, at = [], BASE
    for _ in range(6):
        size = 0x1000 * dice.randint(1, 4)
        live = at if dice.random() < 0.3 else ELSEWHERE + (at - BASE) + 0x100_0000
        placed.append(Placed(Span(at, size, False), live, "relocated"))
        at += size + dice.choice((0, 0x1000))
    found = AddressMap(placed)
    for _ in range(4):
        start, size = BASE + 16 * dice.randrange(0x1200), 16 * dice.randint(1, 40)
        what = dice.randrange(4)
        if what == 0:
            found.expect(start, size)
        elif what == 1:
            found.mark_reused(start, size)
        else:
            found.bind(start, size, ELSEWHERE + dice.randrange(1 << 20))
    return found


def words_near(dice, count):
    near = [BASE + dice.randrange(-0x100, 0x1_8000) for _ in range(count)]
    edges = [BASE + 0x1000 * dice.randrange(20) for _ in range(count)]
    return [*near, *edges, 0, 1, 2**64 - 1]


@pytest.mark.parametrize("seed", SEEDS)
def test_many_addresses_are_found_as_one_by_one(seed):
    dice = random.Random(seed)
    found, words = addresses(dice), words_near(dice, 300)
    live, known = found.find_all(np.array(words, "<u8"))
    for word, there, settled in zip(words, live.tolist(), known.tolist(), strict=True):
        alone = None if found.may_change(word) else found.find(word)
        assert (there if settled else None) == alone, hex(word)


@pytest.mark.parametrize("seed", SEEDS)
def test_columns_are_patched_as_words_one_by_one(seed):
    dice = random.Random(seed)
    places, targets = addresses(dice), words_near(dice, 100)
    data, words, at = bytearray(), [], 0
    for target in targets:
        at += 8 + dice.choice((0, 0, 4, 3))
        data += bytes(at - len(data))
        held = target if dice.random() < 0.8 else dice.randrange(1 << 64)
        data += held.to_bytes(8, "little")
        if not places.may_change(target):
            words.append(Word(at, target))
    expected = bytearray(data)
    patch_words(expected, 0, words, places)
    columns = np.frombuffer(bytes(data), "u1").copy()
    offsets = np.array([word.offset for word in words], "<i8")
    patch_columns(columns, offsets, np.array([word.target for word in words], "<u8"), places)
    assert columns.tobytes() == bytes(expected)
    assert bytes(expected) != bytes(data)


def random_calls(dice):
    number = 0
    for _ in range(300):
        number += dice.choice((1, 1, 1, 2, 7))
        kind = dice.random()
        if kind < 0.02:
            yield Call(number, "cuStreamQuery", "window", 1, [7], dice.choice((0, 600)))
        elif kind < 0.04:
            yield Call(number, "cuLaunchKernel", "window", 1, [5, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0], 700)
        elif kind < 0.1:
            yield Call(number, "cuEventRecord", "window", 1, [3, 7], 0, enter_ns=number)
        else:
            gpu_ns = 123 if dice.random() < 0.1 else None
            yield launch(number, dice.randrange(1 << 40), number, dice.choice((5, 6)), gpu_ns=gpu_ns)


@pytest.mark.parametrize("seed", SEEDS)
def test_calls_are_the_same_in_columns(seed):
    dice = random.Random(seed)
    source = Source(list(random_calls(dice)))
    expected, found = list(all_of(source, Call)), Calls(read_calls(source))
    assert any(isinstance(part, Repeats) for part in found.parts)
    assert list(found) == expected
    assert [found[at] for at in range(-len(expected), len(expected))] == expected * 2
    numbers = set(dice.sample(range(700), 60))
    apart = found.apart(numbers)
    assert list(apart) == expected
    alone = {part.number for part in apart.parts if isinstance(part, Call)}
    assert numbers & {call.number for call in expected} <= alone
    assert {call.function for call in found.kinds()} == {call.function for call in expected}


@pytest.mark.parametrize(
    "change", [{"number": 3}, {"number": -1}, {"enter_ns": 1 << 70}, {"result": 700}, {"in_capture": True}]
)
def test_what_does_not_follow_is_by_itself(change):
    calls = [launch(number) for number in range(1, 9)]
    source = Source(calls)
    values = list(source.objects("call"))
    values[5] = {**values[5], **change}
    found = Calls(read_calls(Source(values)))
    assert list(found) == list(all_of(Source(values), Call))
    assert sum(isinstance(part, Call) for part in found.parts) >= 1


def test_words_of_parameters_that_point_to_no_range_are_refused():
    one = schema.Census("call", 7, struct.pack("<QQII", 0, 0x1001, 3, 0))
    ranges = {3: Range(3, "device", BASE, 0x1000, 0, 1)}
    with pytest.raises(EngineError, match="census of call 7 points outside"):
        Census().read(Source((), [one]), ranges, ())
    with pytest.raises(EngineError, match="census of call 7 points outside"):
        Census().read(Source((), [one]), {4: ranges[3]}, ())


class Translated:
    """As much of a Translation as columns need."""

    def __init__(self, census, places):
        self.census, self.addresses = census, places

    def patch_columns(self, data, at, targets):
        patch_columns(data, at, targets, self.addresses)


def repeated(count=8):
    """Launches whose parameters point to memory that is elsewhere, all but one, of two kernels by turns."""
    calls = [launch(number, BASE + 8 * number, number, 5 + number % 2) for number in range(1, count + 1)]
    census = Census()
    ranges = {3: Range(3, "device", BASE, 0x1000, 0, 1)}
    words = [
        schema.Census("call", one.number, struct.pack("<QQII", 0, 8 * one.number, 3, 0)) for one in calls
    ]
    census.read(Source((), words), ranges, ())
    (repeats,) = read_calls(Source(calls))
    return repeats, Translated(
        census, AddressMap([Placed(Span(BASE, 0x1000, False), ELSEWHERE, "relocated")])
    )


def test_a_call_with_words_of_other_sorts_is_by_itself():
    repeats, translation = repeated(20)
    translation.census.calls.setdefault(9)
    assert [len(part) if isinstance(part, Repeats) else part.number for part in divided(repeats, translation)] == [
        8, 9, 11,
    ]  # fmt: skip
    translation.addresses.mark_reused(BASE + 8 * 5, 1)
    assert [one.number for one in divided(repeats, translation) if isinstance(one, Call)] == [5, 6, 7, 8, 9]


@pytest.mark.skipif(submission_library() is None, reason="the submission loop is not built: run `make setup`")
def test_every_call_gets_its_own_parameters_and_the_first_failure_is_named():
    repeats, translation = repeated()
    seen, answers = [], {}

    @ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_uint64] * 11)
    def driver(function, *rest):
        pointers = (ctypes.c_void_p * 2).from_address(rest[8])
        word, count = (ctypes.cast(one, ctypes.POINTER(kind)).contents.value
                       for one, kind in zip(pointers, (ctypes.c_uint64, ctypes.c_uint32), strict=True))  # fmt: skip
        seen.append((function, word, count, rest[7]))
        return answers.get(len(seen), 0)

    templates = {}
    for template, at, _, _ in repeats.places():
        call = repeats.call(at)
        arguments = [ctypes.c_uint64(word) for word in call.arguments]
        late = [Late(8, "CUstream", 70 + template)]
        templates[template] = Prepared(call, 0, driver, arguments, late, symbol="cuLaunchKernel")
    prepared = PreparedRepeats(repeats, templates, translation)
    expected = [(5 + n % 2, ELSEWHERE + 8 * n, n, 1070 + (n + 1) % 2) for n in range(1, 9)]
    assert prepared.submit(lambda late, where: 1000 + late.captured) is None
    assert seen == expected
    window = Window([prepared])
    seen.clear()
    for _, part in window.cut((3, 5, 6)):
        if isinstance(part, PreparedRepeats):
            assert part.submit(lambda late, where: 1000 + late.captured) is None
        else:
            part.arguments[8] = 1000 + part.late_arguments[0].captured
            assert part.function(*(getattr(word, "value", word) for word in part.arguments)) == 0
    assert seen == expected
    seen.clear()
    answers[5] = 719
    item, code = prepared.submit(lambda late, where: 1000 + late.captured)
    assert (item.call.number, item.where, code) == (5, "call 5 cuLaunchKernel", 719)
    assert len(seen) == 5


@pytest.mark.skipif(submission_library() is None, reason="the submission loop is not built: run `make setup`")
def test_marks_are_around_their_calls_and_the_one_that_fails_is_named():
    repeats, translation = repeated()
    seen, fails = [], set()

    @ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_uint64] * 11)
    def driver(function, *rest):
        seen.append("call")
        return 0

    @ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_uint64, ctypes.c_uint64)
    def record(event, stream):
        seen.append((event, stream))
        return 700 if event in fails else 0

    templates = {
        number: Prepared(repeats.call(at), 0, driver, [ctypes.c_uint64(0)] * 11, symbol="cuLaunchKernel")
        for number, at, _, _ in repeats.places()
    }
    mark = Prepared(Call(-1, "cuEventRecord", "window", 1, [], 0), 0, record, [])
    words = array("Q", [10, 11, 20, 21])
    plain = PreparedRepeats(repeats, templates, translation)
    prepared = plain.marked(Marks(mark, array("I", [0, 5]), words, {0: 70, 1: 71}))
    live = lambda late, where: 1000 + late.captured  # noqa: E731
    expected = [(10, 1070), "call", (11, 1070), *["call"] * 4, (20, 1071), "call", (21, 1071), *["call"] * 2]
    for _ in range(2):
        assert prepared.submit(live) is None
        assert seen == expected
        seen.clear()
    assert plain.submit(live) is None
    assert seen == ["call"] * 8
    for event, calls in ((20, 5), (21, 6)):
        seen.clear()
        fails = {event}
        assert prepared.submit(live) == (mark, 700)
        assert seen.count("call") == calls
