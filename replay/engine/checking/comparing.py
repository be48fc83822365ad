"""What memory holds, compared with what was captured.

The first comparison covers every byte that was captured afterwards, whatever is restored between runs of the window.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from blake3 import blake3

from replay.engine.checking.readings import Readings
from replay.engine.contents.arrays import texel_at
from replay.engine.contents.live import ZEROS
from replay.engine.session import Session
from replay.engine.translation.words import spans_mask, where_it_agrees, where_it_stands, with_live_handles
from replay.inspection.pieces import describe, pieces, read_chunk
from replay.outputs.comparison import BufferComparison
from replay.snapshot.schema import CHUNK_BYTES, DIGEST_BYTES, ZERO_DIGEST, Change, Range


class Comparing:
    """Compares memory of a session. readings: the types of elements. on_difference: called with label, range id (0:
    host memory), offset, and what was captured, expected and found there.

    handle_words: words of outputs that hold another handle here than in the application. taken_for_host, left_alone:
    bytes by buffer, of the checked pass: taken for the host's by `compare_seen`; those that only the device can have
    written, or another thread of the host while one waited, and that the replay leaves as they were. written_elsewhere:
    by range id, offsets of chunks that a replay wrote although they are captured as unchanged.
    """

    def __init__(
        self,
        session: Session,
        readings: Readings,
        on_difference: Callable[[str, int, int, bytes, bytes, bytes], None],
    ) -> None:
        self.contents, self.translation, self._progress = (
            session.contents,
            session.translation,
            session.progress,
        )
        self._ranges, self.readings, self.on_difference = session.program.ranges, readings, on_difference
        # Captured addresses that outputs may hold at any byte
        sites = session.program.census.hosts.values()
        self._followed = {word.target for site in sites for word in site.chosen if word.target is not None}
        self.handle_words = 0
        self.taken_for_host: dict[str, int] = {}
        self.left_alone: dict[str, int] = {}
        self.written_elsewhere: dict[int, list[int]] = {}

    def compare_seen(self, change: Change, data: bytes, number: int) -> tuple[BufferComparison, bytes]:
        """Compare what the application saw with what is there. Bytes that the host may have written, and that the
        replay has left as they were, do not count (`taken_for_host`). Also gives a digest of what is there."""
        range_ = self._ranges[change.range]
        when = "after" if change.moment == "after" else "before"
        label = f"{describe(range_)} as seen {when} call {number}"
        reading = partial(self.readings.of_part, range_, change.offset, len(data))
        result = BufferComparison(label, range_.address + change.offset, len(data), reading=reading)
        if not self.contents.is_here(range_):
            return result, b""
        actual = self.contents.read(range_, change.offset, len(data))
        captured, data = data, self.following(data, actual)
        if actual == data:
            result.add_equal(len(data))
            return result, b""
        if range_.id in self.contents.mirrors:
            import numpy

            then = bytes(self.contents.mirrors[range_.id][change.offset : change.offset + len(data)])
            was, now, want = (numpy.frombuffer(item, "u1") for item in (then, actual, data))
            left = (now == was) & (now != want)
            of_host = left
            if change.undecided is not None:
                undecided = spans_mask(change.undecided, len(data))
                # Where a mailbox was looked at, the host may have put back what the device had written.
                of_host = undecided & (now != want) & ((now == was) | (want == was))
                if silent := int(numpy.count_nonzero(left & ~undecided)):
                    name = describe(range_)
                    self.left_alone[name] = self.left_alone.get(name, 0) + silent
            if count := int(numpy.count_nonzero(of_host)):
                name = describe(range_)
                self.taken_for_host[name] = self.taken_for_host.get(name, 0) + count
            data = numpy.where(of_host, now, want).tobytes()
        result.add(0, data, actual)
        if data != actual:
            self.on_difference(label, range_.id, change.offset, captured, data, actual)
        return result, blake3(actual).digest(length=DIGEST_BYTES)

    def compare(self, range_: Range, actual_digests: dict[tuple[int, int], bytes]) -> BufferComparison:
        """Compare a range with its `after` contents. Digests of differing pieces are put into `actual_digests` by
        (range id, offset), so that two replays can be compared with each other."""
        shape = range_.array
        result = BufferComparison(
            describe(range_), range_.address, range_.size_bytes, reading=partial(self.readings.of, range_)
        )
        if shape is not None:
            result.address, result.place = 0, partial(texel_at, shape)
        for offset, expected, actual, digest in self.compared(range_):
            self._progress(f"comparing {result.label}")
            if expected is None:
                result.add_equal(len(actual))
                continue
            result.add(offset, expected, actual)
            if expected != actual:
                actual_digests[range_.id, offset] = digest
                assert range_.after is not None
                captured = range_.after.chunk_digests()[offset // CHUNK_BYTES]
                held = read_chunk(self.contents.reader, captured, len(actual))
                self.on_difference(describe(range_), range_.id, offset, held, expected, actual)
        return result

    def compared(self, range_: Range) -> Iterator[tuple[int, bytes | None, bytes, bytes]]:
        """(offset, expected, actual, digest of the actual) of each piece of a range; expected is None where it equals
        the actual one for certain."""
        assert range_.after is not None
        for offset, digest, size in pieces(range_.after):
            actual = self.contents.read(range_, offset, size)
            actual_digest = (
                ZERO_DIGEST if actual == ZEROS[:size] else blake3(actual).digest(length=DIGEST_BYTES)
            )
            if actual_digest == digest:
                yield offset, None, actual, actual_digest
                continue
            expected = self.contents.as_here(range_, offset, digest, size)
            if expected != actual and not self.contents.copies.is_copied(range_.id, offset):
                self.written_elsewhere.setdefault(range_.id, []).append(offset)
            if expected != actual:
                # Pointers that the window itself wrote stand in no census of what was there before.
                expected = self.expected_here(expected, actual)
            yield offset, expected, actual, actual_digest

    def expected_here(self, expected: bytes, actual: bytes) -> bytes:
        """`following`, with live handles of objects where the actual bytes have them."""
        expected, count = with_live_handles(
            self.following(expected, actual), actual, self.translation.handles.here
        )
        self.handle_words += count
        return expected

    def following(self, expected: bytes, actual: bytes) -> bytes:
        """`expected` with the words that look like pointers to moved memory made to follow it where the actual ones
        did: the window itself wrote them, so no census has them."""
        guess, _ = self.translation.guess(expected)
        followed, count = where_it_agrees(expected, guess, actual)
        self.contents.guessed_words += count
        for captured in self._followed:
            live = self.translation.addresses.find(captured)
            if live is not None:
                followed = where_it_stands(
                    followed, actual, captured.to_bytes(8, "little"), live.to_bytes(8, "little")
                )
        return followed
