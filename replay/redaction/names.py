"""`--rename`: kernels get names that say nothing, in PTX and wherever the snapshot has them.

Other names change what compilers make of a text, and no name can be changed in machine code: machine code that comes
with its PTX is left out, and where there is no PTX, nothing is renamed.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

from replay.errors import EngineError, ImageError
from replay.images import Entry, read_container, read_image, read_ptx
from replay.images.fatbin import CONTAINER_MAGIC, container_of, container_size, with_payload
from replay.images.ptx import is_ptx
from replay.inspection.pieces import read_contents
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Image, Kernel, all_of
from replay.snapshot.windows import each_window

_SHORTEST_PART = 4  # of a name, that is looked for inside of others
_LONGEST_PREFIX = 16
_LONGEST_NAME = 16 << 10  # that others may be part of; the longest of compilers have some 2,000 characters
_MOST_PLACES = 200_000_000  # that parts are looked for at, in one text
# In quotes nothing is a name; with a point or % it is an instruction, a type, a directive or a register.
_TOKEN = re.compile(r'"[^"\n]*"|[\w$.%]+')
_IDENTIFIER = re.compile(r"[A-Za-z_$][\w$]*")


@dataclass
class Names:
    """of: kernel as the application has it -> its new name. words: likewise for what people read, such as demangled
    names. code: images of which machine code is left out, by digest."""

    of: dict[str, str] = field(default_factory=dict)
    words: dict[str, str] = field(default_factory=dict)
    code: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, reader: SnapshotReader) -> Names:
        """Of all kernels of all images, those of the windows first. Raises EngineError where one is not in PTX, and
        ImageError."""
        launched: dict[str, str] = {}
        every: dict[str, None] = {}
        texts: list[str] = []
        for _ in each_window(reader):
            launched.update((kernel.name, kernel.demangled) for kernel in all_of(reader, Kernel))
            for image in all_of(reader, Image):
                found = _texts(read_contents(reader, image.contents), image.digest)
                every.update(
                    (name, None) for text in found for name in read_ptx(text.encode("latin-1")).kernels
                )
                texts += found
        if missing := [name for name in launched if name not in every]:
            raise _only_machine_code(missing[0])
        prefix = "kernel_"
        while any(prefix in text for text in texts):
            prefix = f"a_{prefix}" if len(prefix) < _LONGEST_PREFIX else f"kernel_{secrets.token_hex(8)}_"
        made = cls({name: f"{prefix}{number}" for number, name in enumerate({**launched, **every}, 1)})
        for name, new in made.of.items():
            plain = launched.get(name) or name
            made.words.update({name: new, plain: new, plain.partition("(")[0].rpartition(" ")[2]: new})
        return made

    def text(self, text: str) -> str:
        """PTX with the new names, and with them in names that were made of the old ones."""
        parts = {name.removeprefix("_Z"): new for name, new in self.of.items()}
        parts = {part: new for part, new in parts.items() if len(part) >= _SHORTEST_PART}
        lengths = sorted({len(part) for part in parts}, reverse=True)
        known = dict(self.of)
        left = _MOST_PLACES

        def instead(found: re.Match[str]) -> str:
            nonlocal left
            token = found[0]
            if token not in known:
                left -= len(token) * len(lengths)
                if left < 0 or len(token) > _LONGEST_NAME and lengths:
                    raise ImageError("too many and too long names, in which others may be hidden")
                name, of_parameter, number = token.rpartition("_param_")
                if name in self.of:
                    known[token] = f"{self.of[name]}{of_parameter}{number}"
                else:
                    known[token] = _inside(token, parts, lengths) if _IDENTIFIER.fullmatch(token) else token
            return known[token]

        return _TOKEN.sub(instead, text)

    def sentence(self, text: str) -> str:
        """What people read."""
        for name in sorted(self.words, key=len, reverse=True):
            if name in text:
                text = re.sub(rf"(?<![\w$]){re.escape(name)}(?![\w$])", self.words[name], text)
        return text

    def image(self, data: bytes, digest: str) -> bytes:
        """An image with the new names, and without machine code."""
        if int.from_bytes(data[:4], "little") != CONTAINER_MAGIC:
            return self._ptx(data) if is_ptx(data) else data
        entries = read_container(data)
        kept = [entry for entry in entries if entry.kind not in ("cubin", "tileir")]
        if len(kept) < len(entries):
            self.code.append(digest)
        smaller = container_of(data, kept)
        changed: list[tuple[Entry, bytes | None, str]] = [
            (entry, self._ptx(entry.whole()), entry.file_name)
            for entry in read_container(smaller)
            if entry.kind == "ptx"
        ]
        return with_payload(smaller, changed)

    def _ptx(self, data: bytes) -> bytes:
        text, end, rest = data.partition(b"\0")
        return self.text(text.decode("latin-1")).encode("latin-1") + end + rest


def _inside(token: str, parts: Mapping[str, str], lengths: list[int]) -> str:
    """A name with the longest of the parts replaced at each place. lengths: of the parts, the longest first."""
    made, at = [], 0
    while at < len(token):
        part = next((token[at : at + length] for length in lengths if token[at : at + length] in parts), "")
        made.append(parts.get(part, token[at]))
        at += len(part) or 1
    return "".join(made)


def _texts(data: bytes, digest: str) -> list[str]:
    """All PTX of an image. Raises EngineError where it has kernels in machine code alone."""
    if int.from_bytes(data[:4], "little") != CONTAINER_MAGIC:
        if is_ptx(data):
            return [data.partition(b"\0")[0].decode("latin-1")]
        raise _only_machine_code(f"image {digest[:12]}")
    if container_size(data) < len(data.rstrip(b"\0")):
        raise ImageError("several fat binaries in one image, whose kernels are not renamed")
    texts = [entry.contents().decode("latin-1") for entry in read_container(data) if entry.kind == "ptx"]
    named = {name for text in texts for name in read_ptx(text.encode("latin-1")).kernels}
    missing = sorted({name for module in read_image(data) for name in module.kernels} - named)
    if missing or not texts:
        raise _only_machine_code(missing[0] if missing else f"image {digest[:12]}")
    return texts


def _only_machine_code(what: str) -> EngineError:
    return EngineError(f"{what} is there as machine code only, in which no name can be changed", where="--rename",
                       next="leave --rename out, or capture a program that was built with PTX")  # fmt: skip


def renamed_keys(counts: Mapping[str, int], names: Names) -> dict[str, int]:
    """`counts` by the new names of kernels."""
    return {names.of.get(name, name): count for name, count in counts.items()}
