"""A snapshot with noise: which words decide, the noise, outputs anew, and the proof; or which buffer broke it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from replay.errors import EngineError, GateFailed, ImageError, UsageError
from replay.images import usable_modules
from replay.inspection.dump import choose_ranges
from replay.inspection.pieces import read_contents
from replay.redaction.model import RedactedBuffer
from replay.redaction.noising import Choices
from replay.redaction.proof import Prover
from replay.redaction.rewriting import MAXIMUM_IMAGE_BYTES, Images, rewrite
from replay.redaction.values import FORMATS
from replay.redaction.words import Touches, Words, words_of
from replay.run.parent import declared_types
from replay.run.touched import runs_of
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Change, Image, Range, all_of, first_of

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

    def write(self) -> tuple[Images, list[RedactedBuffer]]:
        """Write it. Raises GateFailed when it does not do the same."""
        for buffer, name in self.dtypes:
            if name not in FORMATS:
                raise UsageError(f"{name!r} is no floating-point type", where=f"--dtype {buffer}={name}",
                                 next=f"one of {', '.join(FORMATS)}")  # fmt: skip
        with SnapshotReader(self.path) as reader:
            reader.require_whole()
            if reader.window_count:
                raise UsageError("has several windows", where=self.path,
                                 next="cut one out with `replay extract`, and redact that")  # fmt: skip
            if first_of(reader, Change) is not None:
                raise EngineError("the host writes into memory inside the window, which noise would not fit",
                                  where=self.path, next="use --level paths or shapes")  # fmt: skip
            ranges = list(all_of(reader, Range))
            kept = (
                {item.id: "--keep" for item in choose_ranges(ranges, self.keep, "--keep")}
                if self.keep
                else {}
            )
            declared = dict(declared_types(ranges, self.dtypes))
            texts = list(_ptx(reader))
        choices = Choices(self._words(texts), kept, declared, self.trusted)
        images, why = self._made(choices)
        if not why:
            return images, list(choices.buffers.values())
        cures = [item for item in choices.buffers.values() if item.noise_bytes or item.zeroed_bytes]
        for item in cures[:MAXIMUM_TRIALS]:
            trial = Choices(
                choices.words, {**kept, item.id: "--keep"}, declared, self.trusted, choices.secret
            )
            if not self._made(trial)[1]:
                raise GateFailed(f"the redacted snapshot does not do the same: {why}", where=item.what,
                                 next=f"give --keep {item.id}, with which it does")  # fmt: skip
        raise GateFailed(f"the redacted snapshot does not do the same: {why}", where=self.path,
                         next="keeping one buffer alone does not cure it: give --keep for several")  # fmt: skip

    def _words(self, texts: list[str]) -> Words:
        touched = self.candidate.parent / "touched"
        nothing = runs_of(())
        try:
            result = self.prover.replay(self.path, None, counters=False, touched=touched)
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

    def _made(self, choices: Choices) -> tuple[Images, str]:
        """Written with outputs of a replay; and what it does otherwise."""
        choices.outputs = None
        rewrite(self.path, self.candidate, choices.level())
        outputs = self.candidate.parent / "outputs"
        shutil.rmtree(outputs, ignore_errors=True)
        try:
            self.prover.replay(self.candidate, None, save=outputs)
        except EngineError as error:
            return Images(), f"it cannot be replayed: {error.what}"
        choices.outputs = outputs
        images = rewrite(self.path, self.candidate, choices.level())
        return images, self.prover.difference(self.candidate, None)


def _ptx(reader: SnapshotReader) -> Iterator[str]:
    for image in all_of(reader, Image):
        if image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
            continue
        try:
            for kind, data in usable_modules(read_contents(reader, image.contents), None):
                if kind == "ptx":
                    yield data.partition(b"\0")[0].decode("latin-1")
        except ImageError:
            continue  # a kernel of it, if one runs, is not followed
