"""The code of the kernels of a window: their PTX, with the source lines that it names, and machine code where the user
has a tool that shows it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache

from replay import images
from replay.difference.machine import Disassembler
from replay.errors import ReplayError
from replay.harmless import escaped
from replay.images.model import KernelInfo
from replay.images.ptx import statements
from replay.images.ptx_accesses import UNKNOWN, Accesses, accesses_of
from replay.images.ptx_body import kernel_body
from replay.inspection.pieces import read_contents
from replay.overview.levels import level_codes, shown_line
from replay.overview.model import MAXIMUM_LINES, Code, CodeLine
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Compilation, Image, all_of

MAXIMUM_IMAGE_BYTES = 64 << 20
_ENTRY = re.compile(r"\.entry\s+([A-Za-z_$%][\w$%]*)")
_FILE = re.compile(r'^[ \t]*\.file[ \t]+(\d{1,9})[ \t]+"([^"\n]{0,4096})"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d{1,9})\s+(\d{1,9})")


class Images:
    """The images of the window that a reader is at, read when somebody asks."""

    def __init__(self, reader: SnapshotReader) -> None:
        self._reader = reader
        self._images = {image.digest: image for image in all_of(reader, Image)}
        self._compilations = {made.image: made for made in all_of(reader, Compilation)}
        self._disassembler: Disassembler | None = None

    @lru_cache(maxsize=4)  # noqa: B019 (lives as long as the page is made)
    def _modules(self, digest: str) -> list[tuple[str, bytes]]:
        image = self._images.get(digest)
        if image is None or image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
            return []
        return list(images.usable_modules(read_contents(self._reader, image.contents), None))

    def info(self, kernel: str, digest: str) -> KernelInfo | None:
        """What the image says of a kernel; None where it cannot be read or has none."""
        image = self._images.get(digest)
        if image is None or image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
            return None
        try:
            return images.find_kernel(read_contents(self._reader, image.contents), kernel)
        except ReplayError:
            return None

    @lru_cache(maxsize=4096)  # noqa: B019
    def accesses(self, kernel: str, digest: str) -> Accesses:
        """What a kernel does with its pointers, UNKNOWN where no PTX says."""
        try:
            for kind, data in self._modules(digest):
                if kind == "ptx" and (body := kernel_body(data, kernel)) is not None:
                    return accesses_of(body)
        except ReplayError:
            pass
        return UNKNOWN

    def codes(self, kernel: str, digest: str) -> list[Code]:
        """IR where it was kept, PTX and machine code. The tool that shows machine code is the user's, and only those on
        this machine are run."""
        try:
            modules = self._modules(digest)
        except ReplayError as error:
            return [Code("code", why_not=f"The image cannot be read: {escaped(error.what)}.")]
        if digest not in self._images:
            return [Code("code", why_not="The image was not captured.")]
        made = self._compilations.get(digest)
        return [
            *(level_codes(self._reader, made) if made is not None else ()),
            _ptx([data for kind, data in modules if kind == "ptx"], kernel),
            self._machine(modules, kernel),
        ]

    def _machine(self, modules: list[tuple[str, bytes]], kernel: str) -> Code:
        cubins = [data for kind, data in modules if kind == "cubin"]
        if not cubins:
            return Code("machine code", why_not="The image holds PTX only; the driver compiles it.")
        if self._disassembler is None:
            self._disassembler = Disassembler()
        tool = self._disassembler
        if not tool.name:
            return Code(
                "machine code",
                why_not="Neither nvdisasm nor cuobjdump is on this machine; they come with the CUDA toolkit.",
            )
        for cubin in reversed(cubins):
            try:
                if kernel in images.read_cubin(cubin).kernels:
                    target = images.target_of(cubin)[0]
                    lines = [CodeLine(shown_line(text), place) for text, place in tool.listing(cubin, kernel)]
                    return _limited(f"machine code for {escaped(target)}, by {tool.name}", lines)
            except ReplayError as error:
                return Code("machine code", why_not=f"{escaped(str(error))}")
        return Code("machine code", why_not="No cubin of the image has this kernel.")


def _ptx(texts: list[bytes], kernel: str) -> Code:
    if not texts:
        return Code("PTX", why_not="The image holds no PTX.")
    for data in reversed(texts):
        text = data.partition(b"\0")[0].decode("latin-1")
        try:
            target, version = images.target_of(data)
            for header, body in statements(text):
                found = _ENTRY.search(header) if body is not None else None
                if found is not None and body is not None and found[1] == kernel:
                    files = dict(_FILE.findall(text))
                    lines = list(_marked(text[slice(*body)], files))
                    return _limited(f"PTX {version} for {target}", lines)
        except ReplayError as error:
            return Code("PTX", why_not=f"The PTX cannot be read: {escaped(error.what)}.")
    return Code("PTX", why_not="The PTX of the image has no such kernel.")


def _marked(body: str, files: dict[str, str]) -> Iterator[CodeLine]:
    """Each line that is code, with the source line where that is another one."""
    place = last = ""
    for line in body.split("\n"):
        if found := _LOC.match(line):
            name = files.get(found[1], "").replace("\\", "/").rpartition("/")[2]
            place = f"{escaped(name[:80]) or 'file ' + found[1]}:{found[2]}"
        elif line.strip() and not line.lstrip().startswith("//"):
            yield CodeLine(shown_line(line), place if place != last else "")
            last = place


def _limited(what: str, lines: list[CodeLine]) -> Code:
    return Code(what, lines[:MAXIMUM_LINES], max(0, len(lines) - MAXIMUM_LINES))
