"""Stacks of Python frames, out of the texts of a raw capture that anybody may have written."""

from __future__ import annotations

from replay.inspection.origins import own_frames
from replay.pack.origins import KeptOrigins
from replay.pack.survey.stacks import Stacks
from replay.pack.texts import Texts


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
        (3, "a.py", "f"),
        (9, "a.py", "<module>"),
    ]
    assert (origins, stacks.cut, stacks.present) == ([(7, 5, 1)], {1}, {5: 1})


def test_frames_of_the_interpreter_itself_are_left_out():
    stacks, _ = taken("frame.1=3\ta.py\tf", "frame.2=-1\t<shim>\t<interpreter trampoline>", "stack.1=1 2")
    assert stacks.stacks == {1: (1,)}


def test_what_makes_no_sense_is_not_known():
    stacks, origins = taken(
        "frame.x=3\ta.py\tf", "frame.1=a\tb\tc", "stack.1=1 2", "stack.2=-1", "origin.7=5 1", "origin.8=no"
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
