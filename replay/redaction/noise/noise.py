"""A snapshot with noise: which words decide, the noise, outputs anew, and the proof; or which buffer broke it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

from replay.errors import EngineError, GateFailed, ImageError, UsageError
from replay.images import usable_modules
from replay.inspection.dump import choose_ranges
from replay.inspection.pieces import read_contents
from replay.redaction.model import RedactedBuffer
from replay.redaction.names import Names
from replay.redaction.noise.level import Choices, Noising
from replay.redaction.noise.values import FORMATS
from replay.redaction.proof import Prover
from replay.redaction.rewriting import MAXIMUM_IMAGE_BYTES, Images, rewrite
from replay.redaction.taint.words import Touches, Words, words_of
from replay.run.parent import declared_types
from replay.run.touched import runs_of
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Change, Image, Range, all_of, first_of
from replay.snapshot.windows import choose_window, each_window

MAXIMUM_TRIALS = 16  # buffers of which it is tried whether keeping them cures a redaction


@dataclass
class Noise:
    """One redaction into `candidate`, whose folder is private."""

    path: Path
    candidate: Path
    prover: Prover
    keep: tuple[str, ...]
    dtypes: tuple[tuple[str, str], ...]
    trusted: bool
    names: Names | None = None
    _secret: bytes = field(default_factory=lambda: os.urandom(32))

    def write(self) -> tuple[Images, list[RedactedBuffer]]:
        """Write it. Raises GateFailed when it does not do the same."""
        for buffer, name in self.dtypes:
            if name not in FORMATS:
                raise UsageError(f"{name!r} is no floating-point type", where=f"--dtype {buffer}={name}",
                                 next=f"one of {', '.join(FORMATS)}")  # fmt: skip
        with SnapshotReader(self.path) as reader:
            reader.require_whole()
            numbers = [None if window is None else window.number for window in each_window(reader)]
            every = [item for _ in each_window(reader) for item in all_of(reader, Range)]
            choose_ranges(every, self.keep, "--keep")
            declared_types(every, self.dtypes)  # refuses what is in no window
            several = [self._choices(reader, number) for number in numbers]
        images, why = self._made(several)
        if not why:
            return images, [item for choices in several for item in choices.buffers.values()]
        found = [item for choices in several for item in choices.buffers.values()]
        cures = {item.id: item for item in found if item.noise_bytes or item.zeroed_bytes}
        for item in list(cures.values())[:MAXIMUM_TRIALS]:
            trial = [
                replace(choices, kept={**choices.kept, item.id: "--keep"}, outputs=None, buffers={})
                for choices in several
            ]
            if not self._made(trial)[1]:
                raise GateFailed(f"the redacted snapshot does not do the same: {why}", where=item.what,
                                 next=f"give --keep {item.id}, with which it does")  # fmt: skip
        raise GateFailed(f"the redacted snapshot does not do the same: {why}", where=self.path,
                         next="keeping one buffer alone does not cure it: give --keep for several")  # fmt: skip

    def _choices(self, reader: SnapshotReader, window: int | None) -> Choices:
        """What may change in one window. Turns the reader to it."""
        choose_window(reader, window)
        if first_of(reader, Change) is not None:
            raise EngineError("the host writes into memory inside the window, which noise would not fit",
                              where=self.path, next="use --level paths or shapes")  # fmt: skip
        ranges = list(all_of(reader, Range))
        kept = {item.id: "--keep" for selector in self.keep for item in _chosen(ranges, selector)}
        declared = {item.id: type_ for selector, type_ in self.dtypes for item in _chosen(ranges, selector)}
        words = self._words(list(ptx_of(reader)), window)
        return Choices(words, kept, declared, self.trusted, self._secret, window=window)

    def _words(self, texts: list[str], window: int | None) -> Words:
        touched = self.candidate.parent / "touched"
        touched.unlink(missing_ok=True)
        nothing = runs_of(())
        try:
            result = self.prover.replay(self.path, window, counters=False, touched=touched)
            if result.placement.moved:
                raise EngineError("memory is elsewhere than it was captured, so its words are not known",
                                  where=self.path, next="try again")  # fmt: skip
            return words_of(Touches.read_file(touched), texts)
        except (EngineError, ImageError) as error:
            if self.trusted:
                return Words(nothing, {}, nothing, f"which words decide is not known ({error.what})")
            named = "name what may change with --dtype BUF=TYPE and --trust-dtype"
            error.next = f"{error.next}; or {named}" if error.next else named
            raise

    def _made(self, several: list[Choices]) -> tuple[Images, str]:
        """Written with outputs of replays; and what it does otherwise."""
        outputs = self.candidate.parent / "outputs"
        shutil.rmtree(outputs, ignore_errors=True)
        outputs.mkdir()
        self._write(several)
        for number, choices in enumerate(several):
            try:
                self.prover.replay(self.candidate, choices.window, save=outputs / str(number))
            except EngineError as error:
                return Images(), f"it cannot be replayed: {error.what}"
        for number, choices in enumerate(several):
            choices.outputs = outputs / str(number)
        images = self._write(several)
        whys = (self.prover.difference(self.candidate, choices.window) for choices in several)
        return images, next(filter(None, whys), "")

    def _write(self, several: list[Choices]) -> Images:
        """Each window by its own choices."""
        windows = iter(several)
        return rewrite(
            self.path,
            self.candidate,
            lambda reader, writer: Noising(reader, writer, next(windows)),
            self.names,
        )


def _chosen(ranges: list[Range], selector: str) -> list[Range]:
    """Those of one window; none where it is in another one."""
    try:
        return choose_ranges(ranges, [selector])
    except UsageError:
        return []


def ptx_of(reader: SnapshotReader) -> Iterator[str]:
    """The PTX texts of the images of a window."""
    for image in all_of(reader, Image):
        if image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
            continue
        try:
            for kind, data in usable_modules(read_contents(reader, image.contents), None):
                if kind == "ptx":
                    yield data.partition(b"\0")[0].decode("latin-1")
        except ImageError:
            continue  # a kernel of it, if one runs, is not followed
