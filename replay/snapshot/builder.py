"""Raw capture -> snapshot, one for each process that had a window, with all of its windows.

Two passes over the records, window by window side by side: the first finds out what a window is and what it needs
(`survey.py`), the second writes its calls. Memory contents go straight from the blobs file into chunks. Memory is
bounded by what is alive and by what a window touched, not by the length of the capture or the size of its contents.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from replay import __version__
from replay.api.vocabulary import Effect, Moment
from replay.capture.decode import (
    BlobsFile,
    Decoder,
    Entered,
    Left,
    RawAttachment,
    RawCall,
    RawContents,
    RawCopy,
    RawNote,
)
from replay.capture.rawfile import RawFile
from replay.errors import DamagedError, FileError, FormatError, ReplayError, UsageError
from replay.snapshot import schema
from replay.snapshot.allocations import Allocation
from replay.snapshot.census import Spool, Targets, Words
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.contents_writer import ContentsWriter, Found, changed_bytes
from replay.snapshot.description import (
    architecture,
    describe_environment,
    describe_kernel,
    describe_perturbation,
)
from replay.snapshot.imagestore import ImageStore
from replay.snapshot.schema import INLINE_BYTES, Attachment, Contents, to_wire
from replay.snapshot.state import SetupCall
from replay.snapshot.survey import Survey, Surveyor, is_image, parameter_buffer
from replay.snapshot.tensor_maps import TensorMaps
from replay.snapshot.windows import Numbers, total

HEADER_FORMAT = "replay-snapshot"
HEADER_VERSION = 1

Advance = Callable[[int], None]


@dataclass(frozen=True)
class PackedSnapshot:
    """One snapshot that was written. summary: of all its windows together. windows: one, or several. rank: of the
    process in a distributed program, "" if it has none."""

    path: Path
    pid: int
    file_bytes: int
    summary: schema.Summary
    windows: list[schema.Window]
    rank: str = ""


@dataclass
class PackReport:
    """What became of a raw capture.

    skipped: one line for each process without a snapshot. problems: what went wrong, one line each.
    matched_launches: launches that the selection matched, in all processes. kernels_seen: the first kernels that were
    looked up by name. used_cuda: some process called the driver.
    """

    snapshots: list[PackedSnapshot] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    matched_launches: int = 0
    kernels_seen: list[str] = field(default_factory=list)
    used_cuda: bool = False
    calls: int = 0


def content_bytes(raw: Path) -> int:
    """Bytes of all blobs of a raw capture: what a progress line counts."""
    return sum(path.stat().st_size for path in raw.glob("blobs.*.bin"))


def pack(
    raw: Path,
    output: Path,
    advance: Advance = lambda _: None,
    *,
    full_images: bool = False,
    window: int | None = None,
) -> PackReport:
    """Write the snapshots of the raw capture `raw`: `output` for the application's own process or the first one that
    had a window, and `NAME.<pid>.rsnap` beside it for others; `NAME.rank<n>.rsnap` for all processes of a distributed
    program.

    No snapshot is written when no process had a window; the report then says what there was.
    advance: called with the number of content bytes that were stored. full_images: nothing is left out of large fat
    binaries. window: only this one of several, by its number (`schema.Window`).
    Raises FileError, FormatError or CaptureError when `raw` is no raw capture or `output` cannot be written, UsageError
    when there is no such window.
    """
    launcher = read_launcher(raw)
    report = PackReport()
    own = launcher.get("pid")
    named = False
    # The application's own process first: it gets the name that was asked for, if it had a window.
    for path in sorted(_record_files(raw), key=lambda path: _order(path, own)):
        with contextlib.ExitStack() as stack:
            process, written = _open(path, stack, report, full_images), None
            if process is None:
                continue
            label = f".{process.label}" if named else ""
            path = output.with_name(f"{output.stem}{label}{output.suffix}")
            with contextlib.suppress(_NoSuchWindow):
                written = _write(process, path, launcher, advance, window)
            process.report(report)
            report.problems += process.problems
            if written is not None:
                report.snapshots.append(written)
                named = True
    if window is not None and not named:
        raise UsageError(
            "there is no such window",
            where=f"--window {window}",
            next="pack all of them and list them: `replay ls`",
        )
    _name_after_ranks(report, output)
    return report


def _name_after_ranks(report: PackReport, output: Path) -> None:
    """Snapshots of several processes, each with a rank of its own."""
    ranks = {item.rank for item in report.snapshots}
    if len(report.snapshots) > 1 and len(ranks) == len(report.snapshots) and all(map(_is_rank, ranks)):
        for place, item in enumerate(report.snapshots):
            path = output.with_name(f"{output.stem}.rank{item.rank}{output.suffix}")
            item.path.replace(path)
            report.snapshots[place] = dataclasses.replace(item, path=path)


def _is_rank(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 8


def _order(path: Path, own: object) -> tuple[bool, int, str]:
    try:
        with RawFile(path) as raw:
            return raw.pid != own, raw.start_time_ns, path.name
    except ReplayError:
        return True, 0, path.name


def read_launcher(raw: Path) -> dict[str, Any]:
    """The content of launcher.json; empty when there is none, or none that can be read."""
    try:
        value = json.loads((raw / "launcher.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


@dataclass
class _Process:
    """One program that called the driver. label: "1234", or "1234.1" for what it became by exec.

    decoder, surveyor: of the first pass.
    """

    label: str
    raw: RawFile
    blobs: BlobsFile
    images: ImageStore
    decoder: Decoder
    surveyor: Surveyor
    problems: list[str] = field(default_factory=list)

    def report(self, report: PackReport) -> None:
        """What the first pass found, once it has come to its end."""
        surveyor = self.surveyor
        report.used_cuda = report.used_cuda or surveyor.calls > 0
        report.matched_launches += surveyor.matched_launches
        report.calls += surveyor.calls
        report.kernels_seen += surveyor.kernels_seen
        if not surveyor.survey.opened:
            stopped = [note.text for note in surveyor.survey.notes if note.code == "CAPTURE_STOPPED"]
            reason = f"capture stopped: {stopped[0]}" if stopped else "no launch that was asked for"
            report.skipped.append(f"process {self.label}: {reason} ({surveyor.calls} driver calls recorded)")


def _record_files(raw: Path) -> list[Path]:
    try:
        found = sorted(raw.glob("calls.*.bin")) if raw.is_dir() else None
    except OSError as error:
        raise FileError(error.strerror or str(error), where=raw) from None
    if found is None:
        what = "is no folder" if raw.exists() else "no such raw capture"
        raise FileError(what, where=raw, next="give the NAME.rcap folder that `replay capture` left")
    if not found and not (raw / "launcher.json").exists():
        raise FormatError("not a raw capture: it holds no calls.<pid>.bin", where=raw)
    return found


def _open(path: Path, stack: contextlib.ExitStack, report: PackReport, full_images: bool) -> _Process | None:
    try:
        raw = stack.enter_context(RawFile(path))
    except FormatError as error:
        report.problems.append(str(error))
        return None
    blobs = stack.enter_context(BlobsFile(path.with_name("blobs" + path.name.removeprefix("calls"))))
    images = ImageStore(blobs, full_images)
    label = path.name.removeprefix("calls.").removesuffix(".bin")
    return _Process(label, raw, blobs, images, Decoder(raw), Surveyor(images))


def _write(
    process: _Process, path: Path, launcher: dict[str, Any], advance: Advance, wanted: int | None
) -> PackedSnapshot | None:
    """The snapshot of a process; None when it had no window. wanted: only this window."""
    surveys = process.surveyor.windows(process.decoder)
    first = next(surveys, None)
    if first is None:
        return None
    several = not first.last and wanted is None
    numbers = Numbers()
    summaries: list[schema.Summary] = []
    windows: list[schema.Window] = []
    with contextlib.ExitStack() as stack:
        calls = _Calls(Decoder(stack.enter_context(RawFile(process.raw.path)), calls_only=True))
        writer = stack.enter_context(SnapshotWriter(path, several_windows=several))
        contents = stack.enter_context(ContentsWriter(writer, process.blobs, advance, several))
        build = _Build(process, launcher, writer, contents, path.parent)
        for place, survey in enumerate(itertools.chain([first], surveys), 1):
            window = numbers.window(survey.opened_by)
            if wanted is not None and window.number != wanted:
                continue
            if several and not survey.closed and not survey.window_calls:
                process.problems.append(
                    f"window {window.number} is left out: the application ended before its first call"
                )
                continue
            if several or not windows:
                windows.append(window)
                summaries.append(build.window(survey, calls.of_window(place), window if several else None))
        if not windows:
            raise _NoSuchWindow
    file_bytes = writer.statistics.file_bytes
    return PackedSnapshot(path, process.raw.pid, file_bytes, total(summaries), windows, build.rank)


class _NoSuchWindow(Exception):
    """The window that was asked for is none of this process."""


class _Build:
    """Writes one snapshot, window by window."""

    def __init__(
        self,
        process: _Process,
        launcher: dict[str, Any],
        writer: SnapshotWriter,
        contents: ContentsWriter,
        folder: Path,
    ) -> None:
        self._process = process
        self._survey = Survey()
        self._images = process.images
        self._launcher = launcher if launcher.get("pid") in (process.raw.pid, None) else {}
        self._selection = str(launcher.get("selection", ""))
        self._driver: dict[str, Any] = launcher.get("driver") or {}
        self._writer = writer
        self._contents = contents
        self._folder = folder
        self._environment: schema.Environment | None = None
        self.rank = ""
        self._stored_images: dict[str, schema.Image] = {}
        self._written_bytes = 0

    def _begin(self, survey: Survey) -> schema.Environment:
        """What belongs to all windows."""
        created = datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._put("header", schema.Header(HEADER_FORMAT, HEADER_VERSION, __version__, created))
        environment = describe_environment(survey.process, self._launcher, self._driver)
        self._put("environment", environment)
        self.rank = environment.details.get("rank", "")
        return environment

    def window(
        self, survey: Survey, calls: Iterator[RawCall], window: schema.Window | None
    ) -> schema.Summary:
        """One window, in the order of schema.py. window: what it is called, where there are several."""
        self._survey = survey
        environment = self._environment = self._environment or self._begin(survey)
        if window is not None:
            self._writer.begin_window(to_wire(window))
        self._written_bytes = 0
        stored_before = self._writer.statistics.stored_bytes
        setup = survey.setup
        sm = architecture(environment)
        images: dict[str, int] = {}
        for digest in self._used_images(setup):
            image = self._stored_images.get(digest) or self._images.write(self._writer, digest, sm)
            self._stored_images[digest] = image
            images[digest] = image.contents.size_bytes
            self._put("image", image)
        kernels = [
            describe_kernel(draft, self._images, sm, environment.emulated)
            for draft in survey.kernels.values()
        ]
        for kernel in kernels:
            self._put("kernel", kernel)
        self._derived_notes(sm)
        for item in setup:
            self._put_call(self._setup_call(item))
        spool = Spool(self._folder)
        try:
            targets = Targets(survey.touched, survey.handles, survey.tensor_maps)
            self._ranges(targets, spool)
            self._changes()
            self._window(calls, targets, spool)
            self._tensor_maps(survey.tensor_maps)
            for census in spool.objects():
                self._put("census", census)
        finally:
            spool.close()
        for note in survey.notes:
            self._writer.write("note", vars(note), flat=True)
        stored_bytes = self._writer.statistics.stored_bytes - stored_before
        summary = self._summary(len(setup), spool.words, kernels, images, stored_bytes)
        self._put("summary", summary)
        return summary

    def _put(self, kind: str, value: object) -> None:
        self._writer.write(kind, to_wire(value))

    def _put_call(self, call: schema.Call) -> None:
        """Like `_put`. There are millions of calls, all of the same shape, so only their attachments are looked at."""
        value: dict[str, Any] = vars(call) | {
            side: {key: item if type(item) is bytes else to_wire(item) for key, item in attachments.items()}
            for side, attachments in (("inputs", call.inputs), ("outputs", call.outputs))
        }
        for optional in ("result", "gpu_ns"):
            if value[optional] is None:
                del value[optional]
        if not call.by_capture:
            del value["by_capture"]
        self._writer.write("call", value, flat=True)

    # -- what is known about the machine and the images -----------------------------------------------------------

    def _used_images(self, setup: list[SetupCall]) -> list[str]:
        used = set(self._survey.images_used)
        for item in setup:
            if item.call is not None:
                used |= {
                    self._images.digest(attachment)
                    for key, attachment in item.call.inputs.items()
                    if is_image(item.call, key)
                }
        return sorted(used - {""})

    def _derived_notes(self, sm: int | None) -> None:
        survey = self._survey
        for digest in sorted({draft.image for draft in survey.kernels.values()} - {""}):
            missing = [
                name
                for name in self._images.writable_variables(digest, sm)
                if (digest, name) not in survey.globals_named
            ]
            if missing:
                shown = ", ".join(missing[:8]) + (f" and {len(missing) - 8} more" if len(missing) > 8 else "")
                text = f"image {digest[:12]}: {shown}; a replay starts from their initial values"
                survey.note("INCOMPLETE_GLOBALS", text)
        for problem in self._images.damaged:
            survey.note("IMAGE_UNKNOWN", problem)
        for problem in self._images.missing:
            survey.note("IMAGE_MISSING", problem)
        for call in self._process.decoder.open_calls.values() if survey.last else ():
            text = f"the application ended inside call {call.number} {call.function.symbol}"
            survey.note("CALL_IN_FLIGHT", text, call.number, call.function.symbol)
        if self._process.decoder.unknown_functions:
            text = f"{self._process.decoder.unknown_functions} calls of functions that this version does not know"
            survey.note("UNSUPPORTED_CALL", text)

    # -- calls ------------------------------------------------------------------------------------------------------

    def _setup_call(self, item: SetupCall) -> schema.Call:
        if item.call is not None:
            return self._call(item.call, "setup")
        assert item.current is not None
        symbol = "cuCtxPushCurrent_v2" if item.push else "cuCtxSetCurrent"
        return schema.Call(item.current.call, symbol, "setup", item.thread, [item.current.context], 0)

    def _call(self, call: RawCall, section: Any) -> schema.Call:
        return schema.Call(
            number=call.number,
            function=call.function.symbol,
            section=section,
            thread=call.thread,
            arguments=list(call.arguments),
            result=call.result,
            per_thread=call.per_thread,
            inputs=self._attachments(call, call.inputs),
            outputs=self._attachments(call, call.outputs),
            enter_ns=call.enter_ns,
            leave_ns=call.leave_ns,
            gpu_ns=self._survey.gpu_times_ns.get(call.number),
            by_capture=call.by_capture,
            in_capture=call.in_capture,
            kernels=self._survey.graph_kernels.get(call.number, {}),
        )

    def _attachments(self, call: RawCall, raw: dict[str, RawAttachment]) -> dict[str, Attachment]:
        stored: dict[str, Attachment] = {}
        for key, attachment in raw.items():
            if is_image(call, key):
                if digest := self._images.digest(attachment):
                    stored[key] = digest
                continue
            try:
                if attachment.length <= INLINE_BYTES:
                    stored[key] = self._process.blobs.read_attachment(attachment)
                elif attachment.data is not None:
                    stored[key] = self._inline_contents(attachment.data)
                else:
                    stored[key] = self._contents.attachment(attachment)
            except DamagedError as error:
                symbol = call.function.symbol
                self._survey.note("MEMORY_NOT_READ", f"what {key} pointed to: {error}", call.number, symbol)
        return stored

    def _inline_contents(self, data: bytes) -> Contents:
        digests = self._writer.write_chunks_from(data, 0, len(data), schema.CHUNK_BYTES)
        return Contents(len(data), b"".join(digest or schema.ZERO_DIGEST for digest in digests))

    def _window(self, calls: Iterator[RawCall], targets: Targets, spool: Spool) -> None:
        for call in calls:
            if call.by_capture and call.number not in self._survey.asked_by_capture:
                continue  # of a module that was there before: the replay asks for its variables by name
            self._put_call(self._call(call, "window"))
            if call.function.effect == Effect.LAUNCH:
                buffer = parameter_buffer(call)
                if buffer is not None and buffer.data is not None:
                    spool.add("call", call.number, targets.find_few(buffer.data, call.number))

    # -- memory -----------------------------------------------------------------------------------------------------

    def _tensor_maps(self, maps: TensorMaps) -> None:
        for encoded, number in maps.used.items():
            found = maps.known[encoded]
            call = self._call(found.call, "setup")
            self._put("tensor_map", schema.TensorMap(number, encoded, found.address, call))

    def _ranges(self, targets: Targets, spool: Spool) -> None:
        for number, item in enumerate(self._survey.touched, 1):

            def found(words: Words, number: int = number) -> None:
                spool.add("range", number, words)

            # Texels are no pointers.
            scanned = None if item.kind == "array" else targets
            before = self._stored(item, "before", item.before, scanned, found)
            after = self._stored(item, "after", item.after, None, found)
            self._written_bytes += changed_bytes(before, after)
            self._put(
                "range",
                schema.Range(
                    number, item.kind, item.placed_address, item.size_bytes, item.device,
                    item.context, item.born_call, item.died_call, before, after, item.name, item.owner,
                    item.host_flags, item.address if item.device_address else 0, item.array, item.function,
                    item.physical, item.properties, item.hints,
                ),
            )  # fmt: skip

    def _stored(
        self,
        item: Allocation,
        moment: str,
        read: list[RawContents | RawCopy],
        targets: Targets | None,
        found: Found,
    ) -> Contents | None:
        if not read:
            return None
        stored = self._contents.allocation(item, read, targets, found)
        if isinstance(stored, Contents):
            return stored
        self._survey.note("MEMORY_NOT_READ", f"contents {moment} the window at {item.address:#x}: {stored}")
        return None

    def _changes(self) -> None:
        for number, item in enumerate(self._survey.touched, 1):
            for piece in item.changes:
                stored: Attachment
                offset, blob = piece.address - item.address, piece.blob_offset
                if blob is None:
                    digests = schema.ZERO_DIGEST * -(-piece.length // schema.CHUNK_BYTES)
                    stored = (
                        bytes(piece.length)
                        if piece.length <= INLINE_BYTES
                        else Contents(piece.length, digests)
                    )
                else:
                    raw = RawAttachment(piece.length, None, blob, piece.check)
                    try:
                        if piece.length <= INLINE_BYTES:
                            stored = self._process.blobs.read_attachment(raw)
                        else:
                            stored = self._contents.attachment(raw)
                    except DamagedError as error:
                        text = f"what the host wrote at {piece.address:#x}: {error}"
                        self._survey.note("HOST_WRITES_UNKNOWN", text, piece.call)
                        continue
                moment: Any = "after" if piece.moment == Moment.SEEN else "before"
                self._put("change", schema.Change(number, piece.call, moment, offset, stored))

    # -- the end ----------------------------------------------------------------------------------------------------

    def _summary(
        self,
        setup_calls: int,
        census_words: int,
        kernels: list[schema.Kernel],
        images: dict[str, int],
        stored_bytes: int,
    ) -> schema.Summary:
        survey, ending = self._survey, self._process.decoder.ending
        return schema.Summary(
            selection=self._selection,
            state=ending.state if survey.last else "complete",
            state_text=self._state_text() if survey.last else "",
            opened_call=survey.opened_call,
            closed_call=survey.closed_call,
            launches=survey.launches,
            setup_calls=setup_calls,
            window_calls=survey.window_calls,
            memory_bytes=sum(item.size_bytes for item in survey.touched),
            stored_bytes=stored_bytes,
            written_bytes=self._written_bytes,
            census_words=census_words,
            ranges=len(survey.touched),
            kernels=kernels,
            images=images,
            functions=dict(survey.functions.most_common()),
            notes=dict(survey.note_counts),
            streams=len(survey.streams),
            threads=len(survey.threads),
            perturbation=describe_perturbation(survey.process, survey.process_before),
        )

    def _state_text(self) -> str:
        decoder, survey = self._process.decoder, self._survey
        ending = decoder.ending
        if ending.state == "complete":
            return ""
        if ending.state == "damaged":
            return f"damaged at offset {ending.offset} of {self._process.raw.path.name}: {ending.text}"
        stopped = [note.text for note in survey.notes if note.code == "CAPTURE_STOPPED"]
        text = f"ends after call {decoder.last_call}"
        if ending.text:
            text = f"{ending.text} after call {decoder.last_call}" + (f": {stopped[0]}" if stopped else "")
        flying = [
            f"call {call.number} in flight: {call.function.symbol}" for call in decoder.open_calls.values()
        ]
        if flying:
            text += f" ({', '.join(flying[:4])})"
        return text + ("; the window was closed before that" if survey.closed else "")


class _Calls:
    """The second pass: the calls of one window after the other, each with its answer, in the order in which they began.

    A call that waits for its answer holds back those that began after it.
    """

    def __init__(self, decoder: Decoder) -> None:
        self._found = self._all(decoder)
        self._next: tuple[int, RawCall] | None = None

    def of_window(self, window: int) -> Iterator[RawCall]:
        """The calls of a window, from 1; windows that came before it are passed over."""
        while True:
            item = self._next if self._next is not None else next(self._found, None)
            self._next = item
            if item is None or item[0] > window:
                return
            self._next = None
            if item[0] == window:
                yield item[1]

    @staticmethod
    def _all(decoder: Decoder) -> Iterator[tuple[int, RawCall]]:
        inside, window = False, 0
        waiting: dict[int, tuple[int, RawCall]] = {}  # in the order of their beginning
        answered: set[int] = set()
        for event in decoder.events():
            if isinstance(event, RawNote):
                if event.code == "WINDOW_OPEN":
                    inside, window = True, window + 1
                elif event.code == "WINDOW_CLOSE":
                    inside = False
            elif isinstance(event, Entered):
                if inside:
                    waiting[event.call.number] = (window, event.call)
            elif isinstance(event, Left) and event.call.number in waiting:
                answered.add(event.call.number)
                while waiting and (first := next(iter(waiting))) in answered:
                    answered.discard(first)
                    yield waiting.pop(first)
        yield from waiting.values()
