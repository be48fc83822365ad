"""A snapshot as typed values: what `info`, `ls`, `dump` and `verify` show. Needs no CUDA and no numpy."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import field
from itertools import islice
from typing import TypeVar

from replay.errors import FormatError, ReplayError
from replay.records import dataclass
from replay.snapshot import schema
from replay.snapshot.container import SnapshotReader, VerifyReport
from replay.snapshot.schema import CHUNK_BYTES, Contents
from replay.snapshot.windows import choose_window, each_window, total

# Notes that tell the course of a capture. Every other code says that something is missing.
COURSE_NOTES = frozenset(
    {
        "WINDOW_OPEN",
        "WINDOW_CLOSE",
        "LAUNCH_MATCHED",
        "CHILD_PROCESS",
        "THREADS_BUSY",
        "COPIED_TO_COMPARE",
        "DEVICE_ERROR",
        "TRIGGER",
    }
)
MAX_SCANNED_NOTES = 20_000  # by `info`; the counts come from the summary
MAX_LISTED = 100_000  # kernels, images or allocations that are held in memory at once
MAX_DESCRIBED_IMAGE_BYTES = 128 << 20  # beyond it, `ls images` says only how large it is

T = TypeVar("T")


@dataclass(frozen=True)
class ElsewhereInfo:
    """Contents that the file only has references of. pieces, piece_bytes: in a store. weights_bytes: in files of
    weights. weights: names of those."""

    pieces: int = 0
    piece_bytes: int = 0
    weights_bytes: int = 0
    weights: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class SnapshotInfo:
    """What `replay info` shows. header, environment and summary are None when a damaged file has lost them.

    condition: "whole", or where the usable content ends. objects: kind -> number, from the index.
    problems: the first note of each code that says what is missing; of UNSUPPORTED_CALL, of each function.
    problem_counts: code -> number of such notes.
    windows: of a file with several, each with its summary; `summary` is then that of all.
    elsewhere: contents that the file has only references of, None when it has all.
    compilations: how a compiler made images, with --with-ir.
    """

    path: str
    file_bytes: int
    format_version: str
    whole: bool
    condition: str
    damages: list[str]
    header: schema.Header | None
    environment: schema.Environment | None
    summary: schema.Summary | None
    kernels: list[schema.Kernel]
    problems: list[schema.Note]
    problem_counts: dict[str, int]
    objects: dict[str, int]
    windows: list[WindowInfo] = field(default_factory=list)
    elsewhere: ElsewhereInfo | None = None
    compilations: list[schema.Compilation] = field(default_factory=list)


@dataclass(frozen=True)
class WindowInfo:
    """One window of several. summary: None when a damaged file has lost it."""

    number: int
    opened_by: str
    summary: schema.Summary | None


@dataclass(frozen=True)
class Verification:
    """Outcome of `replay verify`. missing: contents of which a memory chunk is damaged or not there, by name.
    elsewhere: what is wrong with contents that are elsewhere; None when these were not looked at."""

    path: str
    report: VerifyReport
    missing: list[str]
    elsewhere: list[str] | None = None

    @property
    def good(self) -> bool:
        """Whether the file is whole, every checksum holds and nothing it refers to is missing."""
        return self.report.good and not self.missing and not self.elsewhere


class Snapshot:
    """Typed view of the snapshot `path`; a context manager.

    tolerant: as in `SnapshotReader`. Every method raises FormatError for values that do not fit the schema.
    A file with several windows gives the objects of all of them until one is chosen.
    """

    def __init__(self, path: str | os.PathLike[str], *, tolerant: bool = False) -> None:
        self.reader = SnapshotReader(path, tolerant=tolerant)
        self.path = str(path)

    def __enter__(self) -> Snapshot:
        return self

    def __exit__(self, *ending: object) -> None:
        self.reader.close()

    def choose_window(self, number: int | None) -> None:
        """Give the objects of one window only. Raises UsageError when there is no such one, or several for None."""
        choose_window(self.reader, number)

    def windows(self) -> Iterator[WindowInfo]:
        """The windows of a file with several, in their order. `choose_window` is undone."""
        for window in each_window(self.reader):
            if window is not None:
                yield WindowInfo(window.number, window.opened_by, self.summary())

    def each_window(self) -> Iterator[schema.Window | None]:
        """Turns to one window after the other; None is that of a file with one."""
        return each_window(self.reader)

    def header(self) -> schema.Header | None:
        """Who wrote the file and when; None if it is lost."""
        return next(self._values("header", schema.Header), None)

    def environment(self) -> schema.Environment | None:
        """Where the capture ran; None if it is lost."""
        return next(self._values("environment", schema.Environment), None)

    def summary(self) -> schema.Summary | None:
        """What the packer counted; None in a truncated file."""
        return next(self._values("summary", schema.Summary), None)

    def kernels(self) -> Iterator[schema.Kernel]:
        """Kernels that the window launches."""
        return self._values("kernel", schema.Kernel)

    def images(self) -> Iterator[schema.Image]:
        """Module images, without their contents."""
        return self._values("image", schema.Image)

    def compilations(self) -> Iterator[schema.Compilation]:
        """How a compiler made images, without the texts."""
        return self._values("compilation", schema.Compilation)

    def calls(self, begin: int = 0) -> Iterator[schema.Call]:
        """Driver calls in order, setup and window. begin: before the call of this number, some that make nothing are
        left out: what lies far before it is not looked at."""
        if begin:
            return self._typed(self.reader.calls_from(begin), schema.Call)
        return self._values("call", schema.Call)

    def ranges(self) -> Iterator[schema.Range]:
        """Allocations, without their contents."""
        return self._values("range", schema.Range)

    def notes(self) -> Iterator[schema.Note]:
        """What the capture noted, in order."""
        return self._values("note", schema.Note)

    def pieces(self, contents: Contents) -> Iterator[tuple[int, bytes | None]]:
        """(length, bytes) of each chunk of `contents`; None instead of bytes for a chunk of zeros."""
        remaining = contents.size_bytes
        for digest in contents.chunk_digests():
            length = min(CHUNK_BYTES, remaining)
            remaining -= length
            yield length, None if digest == schema.ZERO_DIGEST else self.reader.chunk(digest, length)

    def read(self, contents: Contents, limit: int) -> bytes:
        """All bytes of `contents`. Raises FormatError beyond `limit`."""
        if contents.size_bytes > limit:
            raise FormatError(
                f"{contents.size_bytes} bytes where at most {limit} are expected", where=self.path
            )
        return b"".join(bytes(length) if data is None else data for length, data in self.pieces(contents))

    def info(self) -> SnapshotInfo:
        """What is in the file, without reading its calls, its memory or its census; of the chosen window, or of all."""
        windows = [] if self.reader.window_is_chosen else list(self.windows())
        summaries = [window.summary for window in windows if window.summary is not None]
        summary = total(summaries) if summaries else self.summary()
        kernels = list(islice(self.kernels(), MAX_LISTED)) if summary is None else summary.kernels
        problems, counts = self._problems(summary)
        header, environment = self.header(), self.environment()
        reader = self.reader
        return SnapshotInfo(
            self.path,
            reader.file_bytes,
            f"{reader.version[0]}.{reader.version[1]}",
            reader.condition.whole,
            str(reader.condition),
            [str(damage) for damage in reader.damages],
            header,
            environment,
            summary,
            kernels,
            problems,
            counts,
            {kind: found.count for kind, found in reader.kinds.items()},
            windows,
            self._elsewhere(),
            list(islice(self.compilations(), MAX_LISTED)),
        )

    def _elsewhere(self) -> ElsewhereInfo | None:
        if "reference" not in self.reader.kinds:
            return None
        pieces = piece_bytes = weights_bytes = 0
        for _, reference in self.reader.references():
            of_weights = sum(part.length for part in reference.parts if part.weights)
            weights_bytes += of_weights
            if not reference.parts:
                pieces, piece_bytes = pieces + 1, piece_bytes + reference.length
        names = [str(name) for name in self.reader.elsewhere.names]
        return ElsewhereInfo(pieces, piece_bytes, weights_bytes, names)

    def _problems(self, summary: schema.Summary | None) -> tuple[list[schema.Note], dict[str, int]]:
        """The first note of each code that says what is missing, and how many there are of each; for functions that
        are not captured, the first of each function.

        With a summary, which has the counts, reading ends as soon as each code was seen.
        """
        first: dict[tuple[str, str], schema.Note] = {}
        codes: set[str] = set()
        counts: dict[str, int] = {}
        wanted = None
        if summary is not None:
            counts = {code: count for code, count in summary.notes.items() if code not in COURSE_NOTES}
            wanted = set(counts)
        if wanted != set():
            for note in islice(self.notes(), MAX_SCANNED_NOTES):
                if note.code in COURSE_NOTES:
                    continue
                codes.add(note.code)
                first.setdefault((note.code, note.function if note.code == "UNSUPPORTED_CALL" else ""), note)
                if wanted is None:
                    counts[note.code] = counts.get(note.code, 0) + 1
                elif wanted <= codes and "UNSUPPORTED_CALL" not in codes:
                    break
        return list(first.values()), counts

    def verify(
        self, progress: Callable[[int], None] | None = None, *, everywhere: bool = False
    ) -> Verification:
        """Read everything once: every checksum, every object, and whether each chunk that is referred to is there.
        everywhere: read contents that are elsewhere, too."""
        report = self.reader.verify(progress)
        wrong = {damage.offset for damage in report.damages}
        sound = {number for number, frame in enumerate(self.reader.frames) if frame.offset not in wrong}
        missing = []
        try:
            for window in self.each_window():
                where = "" if window is None else f"window {window.number}, "
                for image in self.images():
                    if self._lacks(image.contents, sound):
                        missing.append(f"{where}image {image.digest}")
                for made in self.compilations():
                    missing += [
                        f"{where}{level} of image {made.image}"
                        for level, contents in made.levels.items()
                        if self._lacks(contents, sound)
                    ]
                for item in self.ranges():
                    for moment, contents in (("before", item.before), ("after", item.after)):
                        if contents is not None and self._lacks(contents, sound):
                            missing.append(f"{where}memory {item.id} ({moment})")
        except ReplayError as error:
            missing.append(error.what)
        return Verification(self.path, report, missing, list(self._wrong_elsewhere()) if everywhere else None)

    def _wrong_elsewhere(self) -> Iterator[str]:
        from replay.store.elsewhere import batches

        bring = self.reader.elsewhere.bring
        for batch in batches(self.reader.references()):
            try:
                bring(batch)
                continue
            except ReplayError:
                pass
            for item in batch:  # each by itself, to name it
                try:
                    bring([item])
                except ReplayError as error:
                    yield error.what

    def _lacks(self, contents: Contents, sound: set[int]) -> bool:
        stored = (digest for digest in contents.chunk_digests() if digest != schema.ZERO_DIGEST)
        return not all(self.reader.frame_of_chunk(digest) in sound for digest in stored)

    def _values(self, kind: str, wanted: type[T]) -> Iterator[T]:
        return self._typed(self.reader.objects(kind), wanted)

    def _typed(self, values: Iterator[object], wanted: type[T]) -> Iterator[T]:
        for value in values:
            try:
                yield schema.from_wire(wanted, value)
            except FormatError as error:
                if error.where is not None:
                    raise
                raise FormatError(
                    error.what, where=self.path, next="it was made by a broken or hostile writer"
                ) from None


def changed_bytes(item: schema.Range) -> int | None:
    """Bytes of chunks that differ between before and after; None when one of the two was not captured."""
    if item.before is None or item.after is None:
        return None
    pairs = zip(item.before.chunk_digests(), item.after.chunk_digests(), strict=False)
    return sum(
        min(CHUNK_BYTES, item.size_bytes - number * CHUNK_BYTES)
        for number, (before, after) in enumerate(pairs)
        if before != after
    )


def describe_images(opened: Snapshot) -> Iterator[tuple[schema.Image, str]]:
    """Each image with a line that says what is in it: targets and kernels, or why it cannot be read."""
    from replay import images

    for image in opened.images():
        try:
            data = opened.read(image.contents, MAX_DESCRIBED_IMAGE_BYTES)
            modules = images.read_image(data, limit=MAX_DESCRIBED_IMAGE_BYTES)
            kernels = {name for module in modules for name in module.kernels}
            targets = ", ".join(module.title for module in modules)
            yield image, f"{targets}: {len(kernels)} kernel{'s' if len(kernels) != 1 else ''}"
        except ReplayError as error:
            yield image, error.what
