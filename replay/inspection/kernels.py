"""What the kernels of a window are made of: what the driver said in the application, and what their images hold."""

from __future__ import annotations

from replay import images
from replay.errors import ReplayError
from replay.images.cubin import machine_code
from replay.inspection.origins import origin_text
from replay.inspection.pieces import read_contents
from replay.results.run.variant import CapturedKernel
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Compilation, Image, Kernel, all_of

_MOST_FRAMES = 16  # of a launch, the innermost first
MAXIMUM_IMAGE_BYTES = 64 << 20  # of an image that is looked into; each replay of a comparison asks


def captured_kernels(reader: SnapshotReader) -> list[CapturedKernel]:
    """Of the window that `reader` is at, in its order."""
    found = {image.digest: image for image in all_of(reader, Image)}
    places = {made.image: made.place for made in all_of(reader, Compilation)}
    return [
        _made_of(reader, kernel, found, places.get(kernel.image, "")) for kernel in all_of(reader, Kernel)
    ]


def _made_of(reader: SnapshotReader, kernel: Kernel, found: dict[str, Image], place: str) -> CapturedKernel:
    known = kernel.attributes
    return CapturedKernel(
        kernel.name,
        known.get("registers"),
        known.get("static_shared_bytes"),
        known.get("local_bytes"),
        code=_code(reader, kernel.name, found.get(kernel.image)),
        image=kernel.image,
        launched_from=origin_text(kernel.origin, _MOST_FRAMES),
        defined_at=place,
    )


# Of (image, kernel); a comparison asks for the same ones again and again.
_CODES: dict[tuple[str, str], str] = {}


def _code(reader: SnapshotReader, name: str, image: Image | None) -> str:
    if image is None or image.contents.size_bytes > MAXIMUM_IMAGE_BYTES:
        return ""
    key = image.digest, name
    if key not in _CODES:
        try:
            _CODES[key] = _digest(read_contents(reader, image.contents), name)
        except ReplayError:  # an image that cannot be read is reported elsewhere
            _CODES[key] = ""
    return _CODES[key]


def _digest(data: bytes, name: str) -> str:
    """Of the code for the first architecture that has the kernel."""
    for kind, contents in images.usable_modules(data, None):
        if kind == "cubin" and (code := machine_code(contents, name)):
            return images.image_digest(code)
    return ""
