"""Stacks of Python frames, out of the texts of a raw capture that anybody may have written."""

from __future__ import annotations

from replay.inspection.origins import origin_text, own_frames, shorter
from replay.pack.origins import KeptOrigins
from replay.pack.survey.stacks import Stacks
from replay.pack.texts import Texts
from replay.snapshot.schema import Frame


def taken(*lines):
    stacks, origins = Stacks(), []
    for line in lines:
        key, _, text = line.partition("=")
        kind, _, number = key.partition(".")
        stacks.take(kind, number, text, origins)
    return stacks, origins


def test_launches_have_the_frames_of_their_stack():
    stacks, origins = taken(
        "frame.1=3\ta.py\tf", "frame.2=9\ta.py\t<module>", "stack.1=1 2 +", "origin.7=5 1"
    )
    assert [stacks.frames[number] for number in stacks.stacks[1]] == [
        Frame("a.py", 3, "f"),
        Frame("a.py", 9, "<module>"),
    ]
    assert (origins, stacks.cut, stacks.present) == ([(7, 5, 1)], {1}, {5: 1})


def test_frames_of_the_interpreter_itself_are_left_out():
    stacks, _ = taken("frame.1=3\ta.py\tf", "frame.2=-1\t<shim>\t<interpreter trampoline>", "stack.1=1 2")
    assert stacks.stacks == {1: (1,)}


def test_ranges_come_after_frames():
    stacks, _ = taken("frame.1=3\ta.py\tf", "range.2=7\t-0.5\ttraining\tstep", "stack.1=1 2 +")
    frames = [stacks.frames[number] for number in stacks.stacks[1]]
    assert frames == [Frame("a.py", 3, "f"), Frame("", -1, "step", "training", "-0.5", 7)]
    assert origin_text(frames) == "a.py:3 (f), in NVTX range step@training (payload -0.5, category 7)"


def test_shorter_origin_keeps_ranges():
    frames = [Frame(f"{name}.py", 1) for name in "abcd"] + [Frame("", -1, name, "") for name in "efgh"]
    text = origin_text(frames, 16)
    assert shorter(text, 2) == "a.py:1, called by b.py:1, in NVTX range e, in NVTX range f"
    assert shorter(origin_text(frames[4:], 16), 1) == "NVTX range e"


def test_what_makes_no_sense_is_not_known():
    stacks, origins = taken(
        "frame.x=3\ta.py\tf",
        "frame.1=a\tb\tc",
        "range.1=x\t\t\t",
        "range.2=1\t%s\t\t",
        "stack.1=1 2",
        "stack.2=-1",
        "origin.7=5 1",
        "origin.8=no",
    )
    assert (stacks.frames, stacks.stacks, origins) == ({}, {}, [(7, 5, 0)])


def test_frames_of_packages_are_told_wherever_their_environment_is():
    stacks, _ = taken(
        "frame.1=3\t/elsewhere/v/lib/python3.11/site-packages/triton/launch.py\tcall",
        "frame.2=9\t/elsewhere/mine/train.py\tstep",
        "stack.1=1 2",
    )
    frames = KeptOrigins(stacks, Texts(keep=False)).frames(1)
    assert [frame.file for frame in frames] == ["site-packages/triton/launch.py", "train.py"]
    assert [frame.file for frame in own_frames(frames)] == ["train.py"]
