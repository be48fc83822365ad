"""Stretches of plain calls go through a loop in C: the same calls, in the same order, with the same errors."""

from __future__ import annotations

import ctypes

import pytest

from replay.drivers import submission_library
from replay.engine.arguments.prepared import Prepared
from replay.engine.execution.submission import WORDS, Batch, in_batches
from replay.engine.translation.translation import Late
from replay.errors import EngineError
from replay.snapshot.schema import Call

pytestmark = pytest.mark.skipif(
    submission_library() is None, reason="the submission loop is not built: run `make setup`"
)


class Recorder:
    """Functions for a driver's, which say what they were called with."""

    def __init__(self):
        self.calls = []
        self.answers = {}

    def function(self, name, *types):
        def run(*words):
            self.calls.append((name, *words))
            return self.answers.get(len(self.calls), 0)

        return ctypes.CFUNCTYPE(ctypes.c_int32, *types)(run)


@pytest.fixture
def recorder():
    return Recorder()


def prepared(number, function, arguments, context=0, **words):
    return Prepared(Call(number, "cuLaunchKernel", "window", 1, [], 0), context, function, arguments, **words)


def nothing_late(value, where):
    raise AssertionError(f"{where} asks for {value}")


def kinds(items):
    return [len(item.items) if isinstance(item, Batch) else item.call.number for item in items]


def test_calls_reach_their_functions_in_order_with_every_width_of_argument(recorder):
    wide = recorder.function(
        "wide",
        ctypes.c_uint8,
        ctypes.c_uint16,
        ctypes.c_uint32,
        ctypes.c_uint64,
        ctypes.c_void_p,
        *[ctypes.c_uint64] * 7,
    )
    none = recorder.function("none")
    values = [0xFE, 0xFEDC, 0xFEDCBA98, 2**64 - 1]
    arguments = [ctypes.c_uint8(values[0]), ctypes.c_uint16(values[1]), ctypes.c_uint32(values[2]),
                 ctypes.c_uint64(values[3]), None, *map(ctypes.c_uint64, range(7))]  # fmt: skip
    window = [prepared(1, wide, arguments), prepared(2, none, []), prepared(3, wide, arguments)]
    (batch,) = in_batches(window, [True] * 3, ())
    assert batch.submit(nothing_late) is None
    assert recorder.calls == [
        ("wide", *values, None, *range(7)),
        ("none",),
        ("wide", *values, None, *range(7)),
    ]


def test_what_needs_python_is_between_batches(recorder):
    plain = recorder.function("plain", ctypes.c_uint64)
    calls = [prepared(number, plain, [ctypes.c_uint64(number)]) for number in range(1, 9)]
    calls[2].then.append(lambda: None)
    calls[5].function = lambda word: 0
    assert kinds(in_batches(calls, [True] * 8, ())) == [2, 3, 2, 6, 2]


def test_a_call_around_which_memory_changes_is_by_itself(recorder):
    plain = recorder.function("plain", ctypes.c_uint64)
    calls = [prepared(number, plain, [ctypes.c_uint64(number)]) for number in range(1, 6)]
    assert kinds(in_batches(calls, [True] * 5, {3})) == [2, 3, 2]


def test_a_batch_is_of_one_context(recorder):
    plain = recorder.function("plain", ctypes.c_uint64)
    calls = [prepared(number, plain, [ctypes.c_uint64(number)], context=number > 2) for number in range(1, 5)]
    assert kinds(in_batches(calls, [True] * 4, ())) == [2, 2]


@pytest.mark.parametrize("argument", [ctypes.c_float(1), (ctypes.c_uint32 * 3)(), b"text"])
def test_arguments_that_are_not_one_word_are_left_to_python(recorder, argument):
    function = recorder.function("other", ctypes.c_void_p)
    calls = [prepared(number, function, [argument]) for number in range(3)]
    assert kinds(in_batches(calls, [True] * 3, ())) == [0, 1, 2]


def test_more_words_than_a_row_has_are_left_to_python(recorder):
    function = recorder.function("long", *[ctypes.c_uint64] * (WORDS + 1))
    calls = [prepared(number, function, [ctypes.c_uint64(0)] * (WORDS + 1)) for number in range(3)]
    assert kinds(in_batches(calls, [True] * 3, ())) == [0, 1, 2]


def test_the_first_failure_that_counts_ends_a_batch_and_is_named(recorder):
    plain = recorder.function("plain", ctypes.c_uint64)
    calls = [prepared(number, plain, [ctypes.c_uint64(number)]) for number in range(1, 6)]
    recorder.answers = {2: 600, 4: 700}  # of which the first is a call whose result depends on time
    (batch,) = in_batches(calls, [True, False, True, True, True], ())
    assert batch.submit(nothing_late) == (calls[3], 700)
    assert len(recorder.calls) == 4


def test_what_the_window_makes_is_looked_up_once_for_each_submission(recorder):
    plain = recorder.function("plain", ctypes.c_uint64, ctypes.c_uint64)
    elsewhere = (ctypes.c_uint64 * 1)()
    calls = [prepared(number, plain, [ctypes.c_uint64(number), 0]) for number in range(1, 4)]
    for call, stream in zip(calls, (7, 8, 7), strict=True):
        call.late_arguments.append(Late(1, "CUstream", stream))
    calls[1].late_words.append(Late(ctypes.addressof(elsewhere), "CUstream", 7))
    (batch,) = in_batches(calls, [True] * 3, ())
    asked = []

    def live(value, where):
        asked.append((value.captured, where))
        return 100 * len(asked) + value.captured

    assert batch.submit(live) is None
    assert recorder.calls == [("plain", 1, 107), ("plain", 2, 208), ("plain", 3, 107)]
    assert elsewhere[0] == 107
    assert asked == [(7, "call 1 cuLaunchKernel"), (8, "call 2 cuLaunchKernel")]
    assert batch.submit(live) is None
    assert recorder.calls[3:] == [("plain", 1, 307), ("plain", 2, 408), ("plain", 3, 307)]


def test_an_object_that_is_not_there_is_an_error_before_any_call(recorder):
    plain = recorder.function("plain", ctypes.c_uint64)
    calls = [prepared(number, plain, [0]) for number in (1, 2)]
    for call in calls:
        call.late_arguments.append(Late(0, "CUstream", 7))
    (batch,) = in_batches(calls, [True] * 2, ())

    def live(value, where):
        raise EngineError("uses a stream that is not there", where=where)

    with pytest.raises(EngineError, match="not there") as raised:
        batch.submit(live)
    assert raised.value.where == "call 1 cuLaunchKernel"
    assert recorder.calls == []


@pytest.mark.parametrize(("c_type", "must"), [("CUgraphExec", True), ("CUstream", False)])
def test_what_may_change_or_fail_is_looked_up_for_each_call(recorder, c_type, must):
    plain = recorder.function("plain", ctypes.c_uint64)
    calls = [prepared(number, plain, [0]) for number in (1, 2)]
    for call in calls:
        call.late_arguments.append(Late(0, c_type, 7))
    assert kinds(in_batches(calls, [must] * 2, ())) == [1, 2]
