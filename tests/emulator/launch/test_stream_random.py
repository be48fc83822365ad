"""Random programs of kernels, fills, copies and host functions over every kind of stream, in both modes.

A program adds an event only where the rules of streams do not order two works already: order inside a stream, the
legacy default stream's with blocking streams, and what the host has waited for. So work that runs as late as it may
still leaves what the sequence of calls says.
"""

from __future__ import annotations

import ctypes
import random
import struct
from typing import TYPE_CHECKING

import driver_api as api
import pytest
from driver_api import Driver

if TYPE_CHECKING:
    from conftest import Fresh

# p[0] = p[0] * a + b
KERNEL = (
    api.HEADER
    + """
.visible .entry step(.param .u64 p, .param .u32 a, .param .u32 b)
{
  .reg .b32 %r<5>; .reg .b64 %rd1;
  ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [a]; ld.param.u32 %r2, [b];
  ld.global.u32 %r3, [%rd1]; mad.lo.u32 %r4, %r3, %r1, %r2; st.global.u32 [%rd1], %r4;
  ret;
}
"""
)
HOST_FUNCTION = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
WORDS = 6
HOST = "host"


class Program:
    """`after[s]`: the works that end before what comes next in stream s, or in the host's thread, begins. `ended[s]`:
    those that have ended when the last work of stream s has."""

    def __init__(self, cuda: Driver, seed: int) -> None:
        self.cuda, self.random = cuda, random.Random(seed)
        self.step = cuda.function(cuda.module(KERNEL), "step")
        self.memory = cuda.make("cuMemHostAlloc", 4 * WORDS, 0)
        self.words = (ctypes.c_uint32 * WORDS).from_address(self.memory)
        self.model = [0] * WORDS
        self.last: list[int] = [-1] * WORDS  # the work that touched the word last
        self.streams = {
            "blocking": cuda.make("cuStreamCreate", 0),
            "another": cuda.make("cuStreamCreate", 0),
            "free": cuda.make("cuStreamCreate", api.NON_BLOCKING),
            "legacy": self.random.choice([0, api.LEGACY_STREAM]),
            "thread": api.PER_THREAD_STREAM,
        }
        self.after: dict[str, set[int]] = {name: set() for name in [*self.streams, HOST]}
        self.ended: dict[str, set[int]] = {name: set() for name in self.streams}
        self.where: list[str] = []  # the stream of each work
        self.kept: list[object] = []

    def before_next(self, stream: str) -> set[int]:
        """The works that are ordered before the next one in the stream."""
        before = self.after[stream] | self.after[HOST]
        if stream == "legacy":
            return before.union(*[self.after[s] for s in self.streams if s != "free"])
        return before

    def begin(self, stream: str, words: list[int]) -> None:
        """Orders the next work in the stream after what touched the words, with events where nothing else does."""
        for word in words:
            needed = self.last[word]
            if needed < 0 or needed in self.before_next(stream):
                continue
            event = self.cuda.make("cuEventCreate", 2)
            source = self.where[needed]
            self.cuda.do("cuEventRecord", event, self.streams[source])
            self.cuda.do("cuStreamWaitEvent", self.streams[stream], event, 0)
            self.cuda.do("cuEventDestroy_v2", event)
            # An event in the legacy stream is a work of that stream, and so is a wait.
            reached = self.before_next(source)
            self.advance(source, reached)
            self.advance(stream, self.before_next(stream) | reached)

    def advance(self, stream: str, works: set[int]) -> None:
        self.after[stream] = set(works)
        self.ended[stream] = set(works)
        if stream == "legacy":
            for other in self.streams:
                if other != "free":
                    self.after[other] |= works

    def finish(self, stream: str, words: list[int]) -> None:
        work = len(self.where)
        self.where.append(stream)
        self.advance(stream, self.before_next(stream) | {work})
        for word in words:
            self.last[word] = work

    def work(self) -> None:
        stream, word = self.random.choice(list(self.streams)), self.random.randrange(WORDS)
        handle, address = self.streams[stream], self.memory + 4 * word
        kind = self.random.choice(["kernel", "kernel", "fill", "copy", "host", "write"])
        if kind == "copy":
            source = self.random.randrange(WORDS)
            self.begin(stream, [word, source])
            self.cuda.do("cuMemcpyDtoDAsync_v2", address, self.memory + 4 * source, 4, handle)
            self.model[word] = self.model[source]
            self.finish(stream, [word, source])
            return
        self.begin(stream, [word])
        value = self.random.getrandbits(32)
        if kind == "kernel":
            values = [address, ctypes.c_uint32(3), ctypes.c_uint32(value)]
            assert self.cuda.launch(self.step, [1], [1], values, stream=handle) == 0
            self.model[word] = (self.model[word] * 3 + value) & 0xFFFFFFFF
        elif kind == "fill":
            self.cuda.do("cuMemsetD32Async", address, value, 1, handle)
            self.model[word] = value
        elif kind == "write":
            self.cuda.do("cuStreamWriteValue32_v2", handle, address, value, 0)
            self.model[word] = value
        else:

            def change(_: object, word: int = word, value: int = value) -> None:
                self.words[word] = self.words[word] * 5 + value & 0xFFFFFFFF

            function = HOST_FUNCTION(change)
            self.kept.append(function)
            self.cuda.do("cuLaunchHostFunc", handle, function, None)
            self.model[word] = (self.model[word] * 5 + value) & 0xFFFFFFFF
        self.finish(stream, [word])

    def look(self) -> None:
        """The host waits in some way, and compares every word whose last work it has waited for."""
        stream = self.random.choice(list(self.streams))
        kind = self.random.choice(["stream", "event", "query", "context", "copy"])
        if kind == "stream":
            self.cuda.do("cuStreamSynchronize", self.streams[stream])
            # Waiting is no work, so between the legacy stream and others it orders nothing.
            self.after[HOST] |= self.ended[stream]
        elif kind in ("event", "query"):
            event = self.cuda.make("cuEventCreate", 2)
            self.cuda.do("cuEventRecord", event, self.streams[stream])
            self.advance(stream, self.before_next(stream))
            if kind == "event":
                self.cuda.do("cuEventSynchronize", event)
            else:
                while self.cuda.cuEventQuery(event) == api.NOT_READY:
                    pass
            self.cuda.do("cuEventDestroy_v2", event)
            self.after[HOST] |= self.after[stream]
        elif kind == "context":
            self.cuda.do("cuCtxSynchronize")
            self.after[HOST] |= set(range(len(self.where)))
        else:
            word = self.random.randrange(WORDS)
            self.begin("legacy", [word])
            (value,) = struct.unpack("I", self.cuda.read(self.memory + 4 * word, 4))
            assert value == self.model[word]
            self.finish("legacy", [word])
            self.after[HOST] |= self.after["legacy"]
        for word in range(WORDS):
            if self.last[word] in self.after[HOST]:
                assert self.words[word] == self.model[word], (kind, stream, word)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            if self.random.random() < 0.12:
                self.look()
            else:
                self.work()
        self.cuda.do("cuCtxSynchronize")
        assert list(self.words) == self.model
        for name in ("blocking", "another", "free"):
            self.cuda.do("cuStreamDestroy_v2", self.streams[name])
        self.cuda.do("cuMemFreeHost", self.memory)


@pytest.mark.parametrize("deferred", ["0", "1"])
def test_random_programs_over_every_kind_of_stream_leave_what_their_order_says(
    fresh: Fresh, deferred: str
) -> None:
    fresh(
        """
        from test_stream_random import Program
        for seed in range(40):
            try:
                Program(d, seed).run(80)
            except BaseException:
                print("seed", seed)
                raise
        """,
        DEFERRED=deferred,
    )
