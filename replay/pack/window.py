"""Writes one snapshot, window by window, in the order of schema.py."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from replay import __version__
from replay.pack.blocks import CallBlocks
from replay.pack.calls import CallWriter, Item
from replay.pack.contents.census import Spool, Targets
from replay.pack.contents.memory import MemoryWriter
from replay.pack.contents.tensor_maps import TensorMaps
from replay.pack.contents.writer import ContentsWriter
from replay.pack.description import (
    architecture,
    describe_environment,
    describe_kernel,
    describe_perturbation,
)
from replay.pack.ending import add_notes, state_of, state_text
from replay.pack.origins import KeptOrigins
from replay.pack.process import Process
from replay.pack.survey import Survey, is_image
from replay.pack.texts import Texts
from replay.pack.triton_cache import TritonCache
from replay.raw.events import RawCall
from replay.snapshot import schema
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import to_wire

HEADER_FORMAT = "replay-snapshot"
HEADER_VERSION = 1


class WindowWriter:
    """Writes one snapshot, window by window."""

    def __init__(
        self,
        process: Process,
        launcher: dict[str, Any],
        writer: SnapshotWriter,
        contents: ContentsWriter,
        folder: Path,
        compiled: TritonCache | None = None,
    ) -> None:
        self._process = process
        self._images = process.images
        self._launcher = launcher
        self._launched = launcher.get("pid") in (process.raw.pid, None)
        self._texts = Texts(bool(launcher.get("keep_command_line")))
        self._selection = self._texts.line(str(launcher.get("selection", "")))
        self._writer = writer
        self._contents = contents
        self._calls = CallWriter(process, writer, contents, self._texts)
        self._origins = KeptOrigins(process.first_pass.origins, self._texts)
        self._folder = folder
        self._compiled = compiled
        self._environment: schema.Environment | None = None
        self.rank = ""
        self._stored_images: dict[str, schema.Image] = {}
        self._stored_compilations: dict[str, schema.Compilation | None] = {}

    def _begin(self, survey: Survey) -> schema.Environment:
        """What belongs to all windows."""
        created = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._put("header", schema.Header(HEADER_FORMAT, HEADER_VERSION, __version__, created))
        environment = describe_environment(survey.process, self._launcher, self._launched, self._texts)
        self._put("environment", environment)
        self.rank = environment.details.get("rank", "")
        return environment

    def window(self, survey: Survey, calls: Iterator[Item], window: schema.Window | None) -> schema.Summary:
        """One window, in the order of schema.py. window: what it is called, where there are several."""
        self._calls.survey = survey
        environment = self._environment = self._environment or self._begin(survey)
        if window is not None:
            self._writer.begin_window(to_wire(window))
        stored_before = self._writer.statistics.stored_bytes
        setup = survey.setup
        sm = architecture(environment)
        images: dict[str, int] = {}
        for digest in self._used_images(survey):
            image = self._stored_images.get(digest) or self._images.write(self._writer, digest, sm)
            self._stored_images[digest] = image
            images[digest] = image.contents.size_bytes
            self._put("image", image)
        self._compilations(images)
        kernels = [
            describe_kernel(draft, self._images, sm, environment.emulated, self._origins.frames(draft.stack))
            for draft in survey.kernels.values()
        ]
        for kernel in kernels:
            self._put("kernel", kernel)
        add_notes(self._process, survey, sm)
        for item in setup:
            self._calls.put(self._calls.of_setup(item))
        spool = Spool(self._folder)
        try:
            targets = Targets(survey.touched, survey.handles, survey.tensor_maps)
            memory = MemoryWriter(survey, self._process, self._writer, self._contents)
            memory.ranges(targets, spool)
            memory.changes()
            words_in_blocks = self._window(survey, calls, targets, spool)
            self._tensor_maps(survey.tensor_maps)
            for census in spool.objects():
                self._put("census", census)
            for origins in self._origins.objects(survey.origins):
                self._put("origins", origins)
        finally:
            spool.close()
        for note in survey.notes:
            self._writer.write(
                "note", vars(note) | {"text": self._texts.note(note.code, note.text)}, flat=True
            )
        stored_bytes = self._writer.statistics.stored_bytes - stored_before
        summary = self._summary(
            survey,
            len(setup),
            memory.written_bytes,
            spool.words + words_in_blocks,
            kernels,
            images,
            stored_bytes,
        )
        self._put("summary", summary)
        return summary

    def _compilations(self, digests: Iterable[str]) -> None:
        if self._compiled is None:
            return
        known = self._stored_compilations
        for digest in digests:
            if digest not in known:
                data = self._images.data(digest)
                known[digest] = self._compiled.compilation(digest, data, self._writer, self._texts)
            if (found := known[digest]) is not None:
                self._put("compilation", found)

    def _put(self, kind: str, value: object) -> None:
        self._writer.write(kind, to_wire(value))

    def _used_images(self, survey: Survey) -> list[str]:
        used = set(survey.images_used)
        for item in survey.setup:
            if item.call is not None:
                used |= {
                    self._images.digest(attachment)
                    for key, attachment in item.call.inputs.items()
                    if is_image(item.call, key)
                }
        return sorted(used - {""})

    def _window(self, survey: Survey, calls: Iterator[Item], targets: Targets, spool: Spool) -> int:
        """How many words of the census are in blocks."""
        blocks = CallBlocks(
            self._writer, self._calls.of_window, targets, spool, survey.gpu_times_ns, survey.window_calls
        )
        for item in calls:
            if not isinstance(item, RawCall):
                blocks.put_rows(*item)
            elif not item.by_capture or item.number in survey.asked_by_capture:
                blocks.put(
                    item
                )  # else of a module that was there before: the replay asks for its variables by name
        blocks.flush()
        return blocks.words

    def _tensor_maps(self, maps: TensorMaps) -> None:
        for encoded, number in maps.used.items():
            found = maps.known[encoded]
            call = self._calls.converted(found.call, "setup")
            self._put("tensor_map", schema.TensorMap(number, encoded, found.address, call))

    def _summary(
        self,
        survey: Survey,
        setup_calls: int,
        written_bytes: int,
        census_words: int,
        kernels: list[schema.Kernel],
        images: dict[str, int],
        stored_bytes: int,
    ) -> schema.Summary:
        return schema.Summary(
            selection=self._selection,
            state=state_of(self._process) if survey.last else "complete",
            state_text=self._texts.message(state_text(self._process, survey)) if survey.last else "",
            opened_call=survey.opened_call,
            closed_call=survey.closed_call,
            launches=survey.launches,
            setup_calls=setup_calls,
            window_calls=survey.window_calls,
            memory_bytes=sum(item.size_bytes for item in survey.touched),
            stored_bytes=stored_bytes,
            written_bytes=written_bytes,
            census_words=census_words,
            ranges=len(survey.touched),
            kernels=kernels,
            images=images,
            functions=dict(survey.functions.most_common()),
            notes=dict(survey.note_counts),
            streams=len(survey.streams),
            threads=len(survey.threads),
            perturbation=describe_perturbation(survey.process, survey.process_before),
            fault=survey.fault and replace(survey.fault, words=self._texts.message(survey.fault.words)),
            trigger=self._texts.message(survey.trigger),
            not_watched=self._texts.message(survey.not_watched),
            watched=self._texts.message(survey.watched),
        )
