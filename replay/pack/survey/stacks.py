"""Stacks of Python frames and NVTX ranges that launches came from, as a process tells them (raw/FORMAT.md)."""

from __future__ import annotations

import re
from dataclasses import field

from replay.records import dataclass
from replay.snapshot.schema import Frame

ORIGIN_TEXTS = frozenset(("frame", "range", "stack", "origin"))
MAXIMUM_STACKS = 65536  # and as many frames: interposer/objects/origins.c

_OF_THE_INTERPRETER = (-1, "<shim>")  # where C calls Python, in CPython 3.12
_FRAME = re.compile(r"(-?[0-9]{1,9})\t([^\t]*)\t([^\t]*)")
_RANGE = re.compile(r"([0-9]{1,10})\t([-+.0-9a-z]{0,32})\t([^\t]*)\t([^\t]*)")
_STACK = re.compile(r"[0-9]{1,9}(?: [0-9]{1,9}){0,127}( \+)?")  # 64 frames and 64 ranges at most
_ORIGIN = re.compile(r"([0-9]{1,10}) ([0-9]{1,9})")


@dataclass
class Stacks:
    """frames: frames and ranges by number; stacks: numbers of these, the innermost first. cut: stacks that lack their
    outermost frames. present: the stack of each thread's last launch in the window."""

    frames: dict[int, Frame] = field(default_factory=dict)
    stacks: dict[int, tuple[int, ...]] = field(default_factory=dict)
    cut: set[int] = field(default_factory=set)
    present: dict[int, int] = field(default_factory=dict)

    def take(self, kind: str, number: str, text: str, origins: list[tuple[int, int, int]]) -> None:
        """A line `KIND.NUMBER=TEXT`. One that makes no sense is passed over: what it tells is not known. origins: of
        the window, as (call, thread, stack)."""
        if not number.isdecimal() or len(number) > 19:
            return
        if kind == "frame" and (frame := _FRAME.fullmatch(text)) and len(self.frames) < MAXIMUM_STACKS:
            self.frames[int(number)] = Frame(frame[2], int(frame[1]), frame[3])
        elif kind == "range" and (found := _RANGE.fullmatch(text)) and len(self.frames) < MAXIMUM_STACKS:
            self.frames[int(number)] = Frame("", -1, found[4], found[3], found[2], int(found[1]))
        elif kind == "stack" and (stack := _STACK.fullmatch(text)) and len(self.stacks) < MAXIMUM_STACKS:
            frames = tuple(map(int, text.removesuffix(" +").split()))
            if all(frame in self.frames for frame in frames):
                self.stacks[int(number)] = tuple(
                    frame
                    for frame in frames
                    if (self.frames[frame].line, self.frames[frame].file) != _OF_THE_INTERPRETER
                )
                if stack[1]:
                    self.cut.add(int(number))
        elif kind == "origin" and (origin := _ORIGIN.fullmatch(text)):
            thread, of_stack = int(origin[1]), int(origin[2])
            of_stack = of_stack if of_stack in self.stacks else 0
            self.present[thread] = of_stack
            origins.append((int(number), thread, of_stack))
