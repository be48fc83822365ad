"""Where the code of a side is: in the files that the user named beside a comparison, found by the digest of its image,
or made of them once more as the variant says.

A comparison may come from a stranger. So nothing that it names is run: no compiler at a path, none that would have to
be fetched; and a file that it names is only taken where a snapshot was named by the user, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from replay import images
from replay.errors import EngineError, ReplayError
from replay.images.demangle import demangle
from replay.results.comparison import ComparedKernel
from replay.results.run.variant import KeptImage
from replay.snapshot.contents import MAX_LISTED, Snapshot
from replay.variants.images import SOURCE_SUFFIXES, BuiltImage, kept_data, read_image_file
from replay.variants.kernels import find_kernel
from replay.variants.model import Variant, parse

MAXIMUM_IMAGE_BYTES = 256 << 20


@dataclass(frozen=True)
class Code:
    """An image that holds a kernel. spills: bytes stored and loaded, where a compiler said so just now. named: it is in
    a file that the user named, and not only in a result, which may come from a stranger: no tool is run on that."""

    image: bytes
    kernel: str  # mangled
    spills: tuple[int, int] | None = None
    named: bool = True


class CodeFiles:
    """snapshots, files: what the user named, opened when they are needed. kept: images that the results hold."""

    def __init__(
        self, snapshots: Sequence[Path], files: Sequence[Path], kept: Iterable[KeptImage] = ()
    ) -> None:
        self._kept = {item.loaded_digest or item.digest: item for item in kept}
        self._snapshots = list(snapshots)
        self._files = list(files)
        self._places: dict[str, Path] | None = None  # digest -> snapshot or image
        self._built: dict[tuple[Path, str], dict[str, Code]] = {}

    @property
    def given(self) -> bool:
        """Whether there is anything to look into."""
        return bool(self._snapshots or self._files or self._kept)

    def kernel(self, kernel: ComparedKernel, snapshot: str, variant: str) -> Code | str:
        """The code of a kernel of a side, or why it is not known. snapshot: file name of the side's. Raises ReplayError
        for a file that was named and cannot be read."""
        if self._places is None:
            self._places = dict(self._all_places())
        try:
            return self._kernel(kernel, Path(snapshot).name, variant)
        except ReplayError as error:
            return str(error)

    def _kernel(self, kernel: ComparedKernel, snapshot: str, variant: str) -> Code | str:
        found = self._by_digest(kernel.image)
        if found is not None:
            name = mangled_in(found, kernel.name)
            code = Code(found, name, named=self.is_named(kernel.image))
            return code if name else f"{kernel.name} is not in its image"
        if variant:
            built = self.variant(snapshot, variant)
            if isinstance(built, str):
                return built
            for name, code in built.items():
                if kernel.name in (name, demangle(name)):
                    same = not kernel.image or images.image_digest(code.image) == kernel.image
                    return code if same else f"what {variant} gives now is not what was compared"
            return f"{kernel.name} is not what {variant} gives"
        wanted = f"image {kernel.image[:12]}" if kernel.image else "its image was not captured"
        return f"{wanted}, which is in none of the files that were named; {snapshot} has it"

    def variant(self, snapshot: str, variant: str) -> dict[str, Code] | str:
        """The kernels of a window under a variant, by mangled name, or why they are not known."""
        named = [path for path in self._snapshots if path.name == Path(snapshot).name] or self._snapshots
        if not named:
            return f"{Path(snapshot).name} was not named"
        key = (named[0], variant)
        try:
            if key not in self._built:
                self._built[key] = dict(_kernels_of(named[0], parse(variant)))
        except ReplayError as error:
            return str(error)
        return self._built[key]

    def is_named(self, digest: str) -> bool:
        """Whether an image is in one of the files."""
        return digest in (self._places or {})

    def image(self, digest: str) -> bytes | None:
        """An image, if it is in one of the files or was kept. Raises ReplayError for a file that cannot be read."""
        if self._places is None:
            self._places = dict(self._all_places())
        return self._by_digest(digest)

    def _by_digest(self, digest: str) -> bytes | None:
        path = (self._places or {}).get(digest)
        if path is None:
            return kept_data(self._kept[digest]) if digest in self._kept else None
        if path.suffix != ".rsnap":
            return read_image_file(str(path)).data
        return _captured(path, digest)

    def _all_places(self) -> Iterator[tuple[str, Path]]:
        for path in self._snapshots:
            with Snapshot(path, tolerant=True) as opened:
                for count, image in enumerate(opened.images()):
                    if count >= MAX_LISTED:
                        break
                    yield image.digest, path
        for path in self._files:
            yield read_image_file(str(path)).digest, path


def mangled_in(image: bytes, name: str) -> str:
    """The mangled name of a kernel in an image; "" when it is not there. name: mangled or demangled."""
    for module in images.read_image(image):
        for found in module.kernels:
            if name in (found, demangle(found)):
                return found
    return ""


def _captured(path: Path, digest: str) -> bytes | None:
    with Snapshot(path, tolerant=True) as opened:
        for image in opened.images():
            if image.digest == digest:
                return opened.read(image.contents, MAXIMUM_IMAGE_BYTES)
    return None


def _kernels_of(path: Path, variant: Variant) -> Iterator[tuple[str, Code]]:
    """Each kernel that the snapshot launches, with the image that the variant gives it. Raises ReplayError."""
    with Snapshot(path, tolerant=True) as opened:
        kernels = {(kernel.name, kernel.image): kernel for kernel in opened.kernels()}
        environment = opened.environment()
    capability = environment.devices[0].compute_capability if environment and environment.devices else None
    architecture = _architecture(capability)
    swapped: dict[tuple[str, str], BuiltImage] = {}
    for swap in variant.swaps:
        if swap.file.endswith(SOURCE_SUFFIXES):
            raise EngineError("is a source, which is not compiled for a report", where=swap.file,
                              next="name the image that was made of it")  # fmt: skip
        image = read_image_file(swap.file)
        there = [kernel for kernel in kernels.values() if mangled_in(image.data, kernel.name)]
        meant = find_kernel(list(kernels.values()), swap.kernel, "swap") if swap.kernel else None
        for kernel in [meant] if meant else there:
            swapped[kernel.name, kernel.image] = image
    assembled: dict[str, BuiltImage] = {}
    for key, kernel in kernels.items():
        image = swapped.get(key) or BuiltImage(_captured(path, kernel.image) or b"", path.name)
        if not image.data:
            continue
        if variant.assemblers:
            if image.digest not in assembled:
                assembled[image.digest] = _assembled(image, variant, architecture)
            image = assembled[image.digest]
        name = mangled_in(image.data, kernel.name) or _only(image.data)
        if name:
            yield kernel.name, Code(image.data, name, image.spills.get(name))


def _only(image: bytes) -> str:
    """The only kernel of an image that has one: a swap may give it another name."""
    names = {name for module in images.read_image(image) for name in module.kernels}
    return names.pop() if len(names) == 1 else ""


def _assembled(image: BuiltImage, variant: Variant, architecture: int | None) -> BuiltImage:
    from replay.variants.assemblers import assemble_with
    from replay.variants.assemblers.tools import ASSEMBLERS, installed, is_version, newest_of

    sm = architecture or max((_number(module.target) for module in images.read_image(image.data)), default=0)
    for name, choice in variant.assemblers.items():
        kind = ASSEMBLERS[name]
        modules = image.sources(kind.kind, sm)
        if not modules:
            continue
        if not is_version(choice):
            raise EngineError(
                "a compiler is run for a report only by its version, not by a path", where=choice
            )
        tool = newest_of(installed(kind), choice)
        if tool is None:
            raise EngineError(f"{name} {choice} is not on this machine")
        if len(modules) != 1:
            raise EngineError(f"{len(modules)} modules of {kind.takes} in the image", where=image.source)
        return assemble_with(kind, tool, modules[0], image.source, sm, variant.jit)
    raise EngineError("nothing in the image that a chosen assembler takes", where=image.source)


def _architecture(capability: object) -> int | None:
    digits = re.sub(r"\D", "", str(capability or ""))
    return int(digits) if digits and len(digits) <= 4 else None


def _number(target: str) -> int:
    return int(re.sub(r"\D", "", target) or 0)
