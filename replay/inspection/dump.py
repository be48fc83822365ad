"""Writes buffers, images and launch parameters of a snapshot into a folder, and nothing outside of it.

Names are made here, never taken from the snapshot; each file is created new, without following a link. Buffers are
written chunk by chunk, and zeros as holes, so neither memory nor disk depends on what a snapshot claims.
"""

from __future__ import annotations

import bisect
import os
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import field, replace
from functools import partial
from itertools import islice
from pathlib import Path

from replay import images
from replay.errors import FileError, LimitError, ReplayError, UsageError
from replay.images.fatbin import MAX_ENTRY_BYTES
from replay.inspection.folder import OutputFolder
from replay.inspection.launches import Launch, launches
from replay.records import dataclass
from replay.results.documents import DUMP, PARAMETERS
from replay.results.json import document, streamed
from replay.results.written_files import DumpedLaunch, DumpedParameter
from replay.snapshot.contents import MAX_LISTED, Snapshot
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Compilation, Contents, Image, Range
from replay.snapshot.schema.compilation import LEVELS, MAXIMUM_TEXT_BYTES

NAME_LENGTH = 60
FIXED_NAMES = ("manifest.json", "parameters.json")

_NPY_MAGIC = b"\x93NUMPY\x01\x00"
_NPY_ALIGNMENT = 64


@dataclass(frozen=True)
class DumpedFile:
    """One file that was written. what: "memory", "image", "image entry", "IR", "parameters"."""

    name: str
    what: str
    bytes: int
    details: dict[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class DumpResult:
    """Everything that was written, and what could not be, with the reason."""

    folder: str
    files: list[DumpedFile]
    skipped: list[str]


@dataclass(frozen=True)
class _Buffer:
    item: Range
    moment: str
    contents: Contents
    name: str


def dump(
    opened: Snapshot,
    folder: Path,
    *,
    buffers: Sequence[str] = (),
    image_digests: Sequence[str] = (),
    dtype: str = "uint8",
    force: bool = False,
    progress: Callable[[int], None] | None = None,
) -> DumpResult:
    """Write into `folder`, which is created when missing.

    buffers: ids, addresses (0x..., also inside an allocation), handles of arrays or names of globals; image_digests:
    beginnings of digests. When either is given, only those are written; else everything and the parameters of every
    launch.
    dtype: numpy name of the element type of the .npy files. force: replace existing files.
    Raises UsageError for a selector that matches nothing or a type that does not fit, FileError when a file exists or
    the disk is too small. A buffer or image that is damaged in the snapshot is left out and named in the result.
    """
    everything = not buffers and not image_digests
    ranges = list(islice(opened.ranges(), MAX_LISTED + 1))
    if len(ranges) > MAX_LISTED:
        raise LimitError(f"more than {MAX_LISTED} allocations", where=opened.path)
    chosen = ranges if everything else choose_ranges(ranges, buffers)
    chosen_images = _choose_images(list(islice(opened.images(), MAX_LISTED)), image_digests, everything)
    descriptor, item_bytes = element_type(dtype)
    targets = [target for item in chosen for target in _buffers(item)]
    for target in targets:
        if target.contents.size_bytes % item_bytes:
            raise UsageError(
                f"memory {target.item.id} has {target.contents.size_bytes} bytes, no multiple of {item_bytes}",
                where=f"--dtype {dtype}",
                next="choose the buffers with --buffer, or another type",
            )
    compilations: dict[str, list[Compilation]] = {}
    for made in islice(opened.compilations(), MAX_LISTED):
        compilations.setdefault(made.image, []).append(made)
    steps: list[tuple[str, Callable[[OutputFolder], list[DumpedFile]]]] = []
    for target in targets:
        steps.append((target.name, partial(_write_buffer, opened, target, descriptor, item_bytes, progress)))
    for image in chosen_images:
        steps.append((f"image {image.digest[:32]!r}", partial(_write_image, opened, image)))
        for made in compilations.get(image.digest, ()):
            steps.append((f"IR of image {image.digest[:32]!r}", partial(_write_levels, opened, image, made)))
    if everything:
        steps.append(("parameters", partial(_write_parameters, opened, ranges)))
    result = DumpResult(str(folder), [], [])
    output = OutputFolder(folder, force)
    try:
        output.refuse_existing(
            [*(what for what, _ in steps), *FIXED_NAMES], [f"{_label(i)}." for i in chosen_images]
        )
        needed = sum(_stored_bytes(target.contents) for target in targets)
        output.check_space(needed, "choose less (--buffer, --image) or another disk")
        for what, write in steps:
            try:
                result.files.extend(write(output))
            except FileError:
                raise  # the folder's trouble, not the snapshot's
            except ReplayError as error:
                result.skipped.append(f"{what}: {error.what}")
        with output.create("manifest.json") as (file, _):
            file.write(document(DUMP, replace(result, folder=".")).encode())
        return result
    finally:
        output.close()


def element_type(dtype: str) -> tuple[str, int]:
    """The .npy descriptor and size in bytes of a numpy type name. Raises UsageError. Imports numpy only when needed."""
    if dtype == "uint8":
        return "|u1", 1
    try:
        import numpy
    except ImportError:
        raise UsageError(
            "numpy is needed for this", where=f"--dtype {dtype}", next="pip install numpy"
        ) from None
    try:
        found = numpy.dtype(dtype)
    except TypeError:
        found = None
    if found is None or found.kind not in "biufc" or not found.itemsize:
        raise UsageError(
            "not a numeric numpy type",
            where=f"--dtype {dtype}",
            next="give one like float16, float32 or int32",
        )
    return found.newbyteorder("<").str, found.itemsize


# -- choosing -----------------------------------------------------------------------------------------------


def choose_ranges(ranges: list[Range], selectors: Sequence[str], option: str = "--buffer") -> list[Range]:
    """Memory by its number or its address (also inside it), arrays by their handle, variables by their name.

    Raises UsageError, which names `option`, for a selector that matches nothing.
    """
    chosen: dict[int, Range] = {}
    for selector in selectors:
        if re.fullmatch(r"0[xX][0-9a-fA-F]+", selector):
            address = int(selector, 16)
            found = [
                item
                for item in ranges
                if (
                    item.owner == address
                    if item.array
                    else 0 <= address - item.address < max(1, item.size_bytes)
                )
            ]
        elif selector.isdecimal():
            found = [item for item in ranges if item.id == int(selector)]
        else:
            found = [item for item in ranges if item.name and item.name == selector]
        if not found:
            raise UsageError(
                "no such memory", where=f"{option} {selector}", next="see `replay ls SNAP memory`"
            )
        chosen.update((id(item), item) for item in found)
    return list(chosen.values())


def _choose_images(found: list[Image], selectors: Sequence[str], everything: bool) -> list[Image]:
    if everything:
        return found
    chosen: dict[int, Image] = {}
    for selector in selectors:
        matching = [image for image in found if selector and image.digest.startswith(selector)]
        if not matching:
            raise UsageError("no such image", where=f"--image {selector}", next="see `replay ls SNAP images`")
        chosen.update((id(image), image) for image in matching)
    return list(chosen.values())


def _buffers(item: Range) -> Iterator[_Buffer]:
    label = f"memory-{item.id:04d}" + (f"-{_safe(item.name)}" if item.name else "")
    for moment, contents in (("before", item.before), ("after", item.after)):
        if contents is not None:
            yield _Buffer(item, moment, contents, f"{label}-{moment}.npy")


def _stored_bytes(contents: Contents) -> int:
    """Bytes that are not in chunks of zeros."""
    stored = sum(digest != ZERO_DIGEST for digest in contents.chunk_digests())
    return min(stored * CHUNK_BYTES, contents.size_bytes)


def _label(image: Image) -> str:
    return f"image-{_safe(image.digest)[:32]}"


def _safe(text: str) -> str:
    """`text` as part of a file name: letters, digits and _ only, and not too long."""
    return re.sub(r"[^A-Za-z0-9_]+", "_", text)[:NAME_LENGTH]


# -- writing ------------------------------------------------------------------------------------------------


def npy_header(descriptor: str, count: int) -> bytes:
    """Header of a version 1.0 .npy file with a one-dimensional array (numpy.lib.format)."""
    text = f"{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({count},), }}"
    padding = -(len(_NPY_MAGIC) + 2 + len(text) + 1) % _NPY_ALIGNMENT
    text += " " * padding + "\n"
    return _NPY_MAGIC + struct.pack("<H", len(text)) + text.encode("ascii")


def _write_buffer(
    opened: Snapshot,
    target: _Buffer,
    descriptor: str,
    item_bytes: int,
    progress: Callable[[int], None] | None,
    output: OutputFolder,
) -> list[DumpedFile]:
    with output.create(target.name) as (file, name):
        file.write(npy_header(descriptor, target.contents.size_bytes // item_bytes))
        for length, data in opened.pieces(target.contents):
            if data is None:
                file.seek(length, os.SEEK_CUR)
            else:
                file.write(data)
            if progress:
                progress(length)
        file.truncate(file.tell())
    item = target.item
    details = {"id": item.id, "address": f"{item.owner if item.array else item.address:#x}", "kind": item.kind,
               "name": item.name}  # fmt: skip
    if item.array is not None:
        # The contents are those of the parts, rows and slices without padding.
        details["array"] = {**vars(item.array), "parts": [vars(part) for part in item.array.parts]}
    return [DumpedFile(name, "memory", target.contents.size_bytes, {**details, "moment": target.moment})]


def _write_image(opened: Snapshot, image: Image, output: OutputFolder) -> list[DumpedFile]:
    data = opened.read(image.contents, MAX_ENTRY_BYTES)
    label = _label(image)
    suffix = images.file_suffix(data)
    # The NUL that ends PTX in memory is no part of a text file.
    parts = [(label + suffix, data.rstrip(b"\0") if suffix == ".ptx" else data, "")]
    if suffix == ".fatbin":
        usable = [entry for entry in images.read_container(data) if entry.kind in ("ptx", "cubin", "tileir")]
        parts += [
            (f"{label}.{entry.target}{images.SUFFIXES[entry.kind]}", entry.contents(), entry.target)
            for entry in usable
        ]
    files = []
    for wanted, content, target in parts:
        with output.create(wanted) as (file, name):
            file.write(content)
        details: dict[str, object] = {"digest": image.digest, "target": target}
        files.append(DumpedFile(name, "image entry" if target else "image", len(content), details))
    return files


def _write_levels(
    opened: Snapshot, image: Image, made: Compilation, output: OutputFolder
) -> list[DumpedFile]:
    """What a compiler made an image of: a file for each level."""
    files = []
    for level in LEVELS:
        contents = made.levels.get(level)
        if contents is None:
            continue
        data = opened.read(contents, MAXIMUM_TEXT_BYTES)
        with output.create(f"{_label(image)}.{level}") as (file, name):
            file.write(data)
        details: dict[str, object] = {"digest": image.digest, "compiler": made.compiler, "level": level}
        files.append(DumpedFile(name, "IR", len(data), details))
    return files


def _write_parameters(opened: Snapshot, ranges: list[Range], output: OutputFolder) -> list[DumpedFile]:
    """parameters.json: for each launch of the window its kernel, geometry and the bytes of each parameter."""
    ordered = sorted(ranges, key=lambda item: item.address)
    starts = [item.address for item in ordered]

    def target(data: bytes) -> str | None:
        address = int.from_bytes(data, "little")
        place = bisect.bisect_right(starts, address) - 1
        if len(data) != 8 or place < 0 or address >= ordered[place].address + ordered[place].size_bytes:
            return None
        return f"memory {ordered[place].id} + {address - ordered[place].address}"

    def described(launch: Launch) -> DumpedLaunch:
        parameters = None
        if launch.parameters is not None:
            parameters = [
                DumpedParameter(item.offset, item.size, item.data.hex(), target(item.data))
                for item in launch.parameters
            ]
        return DumpedLaunch(**{**vars(launch), "parameters": parameters})

    with output.create("parameters.json") as (file, name):
        found = launches(opened.calls(), opened.kernels())
        for line in streamed(PARAMETERS, map(described, found)):
            file.write(line.encode() + b"\n")
        written = file.tell()
    return [DumpedFile(name, "parameters", written)]
