"""Writes a snapshot with the contents that it has elsewhere: a file that needs no store any more."""

from __future__ import annotations

import os
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

from replay.errors import FileError, ReplayError
from replay.records import dataclass
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.container.objects import CHUNK_KINDS
from replay.snapshot.own import is_own, remember
from replay.snapshot.schema import ZERO_DIGEST, contents_in
from replay.store.model import Reference
from replay.text import size

Tell = Callable[[int, int], None]
KEPT = 2  # of one command: `compare` has two sides
_SLACK_BYTES = 1 << 20


@dataclass(frozen=True)
class Fetched:
    """A snapshot that was made whole. path: of the file that was written. pieces, fetched_bytes: what came from stores
    and weights. file_bytes: of the file now."""

    path: Path
    pieces: int
    fetched_bytes: int
    file_bytes: int


def fetch(path: Path, output: Path, tell: Tell = lambda done, total: None) -> Fetched:
    """Write the snapshot `path` whole into `output`, which may be the same file; that stays when it is whole.
    tell: called with the bytes that were fetched so far, and all of them.

    Raises FileError for what is nowhere, DamagedError for what is wrong.
    """
    with SnapshotReader(path) as reader:
        reader.require_whole()
        own = is_own(reader)
        wanted = dict(reader.references())
        if not wanted and output.exists() and output.samefile(path):
            return Fetched(output, 0, 0, reader.file_bytes)
        with SnapshotWriter(output, several_windows=reader.window_count > 0) as writer:
            _copy(reader, writer, wanted, tell)
    if own:
        remember(output)
    fetched = sum(item.length for item in wanted.values())
    return Fetched(output, len(wanted), fetched, writer.statistics.file_bytes)


def needed(reader: SnapshotReader) -> dict[bytes, Reference]:
    """The chunks elsewhere that the chosen window needs."""
    references = dict(reader.references())
    if not references or not reader.window_is_chosen:
        return references
    found = {}
    for kind, value in reader.chosen_objects():
        for contents in contents_in(value) if kind not in CHUNK_KINDS else ():
            for digest in contents.chunk_digests():
                base = reader.base_of(digest) if digest != ZERO_DIGEST else digest
                if base in references:
                    found[base] = references[base]
    return found


_kept: OrderedDict[tuple[str, int, int, tuple[bytes, ...]], int] = OrderedDict()


def whole_for_worker(
    reader: SnapshotReader, progress: Callable[[str], None] = lambda text: None
) -> tuple[str, tuple[int, ...]]:
    """A path by which a worker reads the snapshot, with all that the chosen window needs, and the descriptor that it
    has to inherit for it, if any. A file that has nothing elsewhere is its own.

    The whole one has no name in any folder and goes with this process. Raises as `fetch`.
    """
    own = os.path.abspath(reader.path)
    wanted = needed(reader)
    if not wanted:
        return own, ()
    status = os.stat(own)
    key = (own, status.st_ino, status.st_mtime_ns, tuple(sorted(wanted)))
    if key not in _kept:
        while len(_kept) >= KEPT:
            os.close(_kept.popitem(last=False)[1])
        _kept[key] = _without_name(reader, wanted, progress)
    _kept.move_to_end(key)
    return f"/proc/self/fd/{_kept[key]}", (_kept[key],)


def _without_name(
    reader: SnapshotReader, wanted: dict[bytes, Reference], progress: Callable[[str], None]
) -> int:
    import shutil
    import tempfile

    folder = _roomy_folder()
    needs = reader.file_bytes + sum(item.length for item in wanted.values()) + _SLACK_BYTES
    free = shutil.disk_usage(folder).free
    if needs > free:
        raise FileError(f"the whole snapshot needs {size(needs)} for a time, and {size(free)} are free", where=folder,
                        next="name another folder with TMPDIR, or write it where there is room: "
                             f"`replay fetch {reader.path} -o FILE`")  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="replay-", dir=folder) as place:
        path = Path(place) / "whole.rsnap"

        def tell(done: int, total: int) -> None:
            progress(f"fetching contents ({done >> 20} of {total >> 20} MiB)")

        with (
            SnapshotReader(reader.path) as every_window,
            SnapshotWriter(path, several_windows=reader.window_count > 0, durable=False) as writer,
        ):
            _copy(every_window, writer, wanted, tell)
        return os.open(path, os.O_RDONLY | os.O_CLOEXEC)


def _roomy_folder() -> str:
    """TMPDIR, or where temporary files may be large: /tmp is often in memory."""
    if os.environ.get("TMPDIR") or not os.access("/var/tmp", os.W_OK | os.X_OK):
        import tempfile

        return tempfile.gettempdir()
    return "/var/tmp"


def _copy(reader: SnapshotReader, writer: SnapshotWriter, wanted: dict[bytes, Reference], tell: Tell) -> None:
    """Everything, with the bytes of `wanted`. Other references stay what they are."""
    total = sum(item.length for item in wanted.values())
    done = 0
    try:
        for digest, data in reader.elsewhere.bring_all(wanted.items(), writer.in_order):
            writer.store([(digest, memoryview(data))])
            done += len(data)
            tell(done, total)
    except ReplayError as error:
        error.where = error.where or str(reader.path)
        raise
    for kind, value in reader.chosen_objects():
        if kind == "chunk":
            writer.store([(value[0], memoryview(reader.chunk(value[0])))])
        elif kind == "patch":
            writer.store_patch(*value)
        elif kind == "window":
            writer.begin_window(value)
        elif kind not in CHUNK_KINDS:
            writer.write(kind, value)
    left = [(digest, item) for digest, item in reader.references() if digest not in wanted]
    for digest, item in left:
        writer.store_reference(digest, item.length, item.parts)
    for name in reader.elsewhere.names if left else ():
        writer.store_weights(name)
