"""Module images of a capture: found by content, written once."""

from __future__ import annotations

from blake3 import blake3

from replay.errors import DamagedError, ImageError
from replay.images import find_kernel, identify, image_size, variable_names
from replay.images.fatbin import container_of, read_container, usable_entries
from replay.images.model import KernelInfo
from replay.images.stripped import stripped
from replay.raw.attachments import BlobsFile, FilePlace, RawAttachment
from replay.raw.events import RawImage
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents, Image

# Of an image that is read for its kernels; a larger one is stored all the same
MAXIMUM_PARSED_BYTES = 512 << 20
# Fat binaries up to this size are kept whole: they cost little and may meet another device
LARGE_BYTES = 1 << 20
_DIGEST_BYTES = 16


class ImageStore:
    """Digests of the images that calls refer to, and what the images declare."""

    def __init__(self, blobs: BlobsFile, full: bool = False) -> None:
        """full: nothing is left out of fat binaries, and no text of images is overwritten."""
        self._blobs = blobs
        self._full = full
        self._digests: dict[object, str] = {}  # by place and length
        self._where: dict[str, RawAttachment] = {}
        self._kernels: dict[tuple[str, str], KernelInfo | None] = {}  # for the one device of the capture
        self._variables: dict[str, list[str]] = {}
        self.damaged: list[str] = []
        self._missing: dict[object, str] = {}
        self._copies: dict[tuple[FilePlace, int], RawAttachment] = {}

    @property
    def missing(self) -> list[str]:
        """What became of images whose bytes cannot be read."""
        return list(self._missing.values())

    def copied(self, image: RawImage) -> str:
        """Take an image that was in a file from its copy. Gives its digest."""
        self._copies[image.file, image.copy.length] = image.copy
        key = (image.file, 0, image.copy.length)
        self._digests.pop(key, None)
        self._missing.pop(key, None)
        return self.digest(RawAttachment(image.copy.length, None, file=image.file))

    def read(self, attachment: RawAttachment) -> bytes:
        """The bytes of any attachment of the capture. Raises DamagedError when they are missing or damaged."""
        return self._blobs.read_attachment(attachment)

    def digest(self, attachment: RawAttachment) -> str:
        """The digest of an image, "" when its bytes cannot be read (`damaged` and `missing` say why)."""
        key = (attachment.file, attachment.blob_offset, attachment.length)
        if attachment.data is None and key in self._digests:
            return self._digests[key]
        try:
            data = self._read(attachment)
        except DamagedError as error:
            if attachment.file is None:
                self.damaged.append(str(error))
            else:
                self._missing[key] = str(error)
            digest = ""
        else:
            digest = blake3(data).hexdigest(length=_DIGEST_BYTES)
            self._where.setdefault(digest, attachment)
        if attachment.data is None:
            self._digests[key] = digest
        return digest

    def write(self, writer: SnapshotWriter, digest: str, sm: int | None) -> Image:
        """Store an image without texts for people; of a large fat binary what a device of architecture `sm` (90 for
        9.0) can use."""
        data = self._read(self._where[digest])
        loaded_bytes = len(data)
        left_out: list[str] = []
        kind = identify(data)
        if kind == "fatbin" and sm is not None and len(data) > LARGE_BYTES and not self._full:
            data, left_out = _usable(data, sm)
        data, texts = (data, []) if self._full else _stripped(data)
        return Image(
            digest,
            "unknown" if kind == "wrapper" else kind,
            written(data, writer),
            left_out,
            loaded_bytes if left_out else 0,
            texts,
            blake3(data).hexdigest(length=_DIGEST_BYTES) if left_out or texts else "",
        )

    def _read(self, attachment: RawAttachment) -> bytes:
        if attachment.file is not None and (attachment.file, attachment.length) in self._copies:
            attachment = self._copies[attachment.file, attachment.length]
        data = self._blobs.read_attachment(attachment)
        # The raw capture may come from a stranger: of the files of this machine it gets nothing but module images.
        if attachment.file is not None:
            try:
                whole = image_size(data) == len(data)
            except ImageError:
                whole = False
            if not whole:
                raise DamagedError(
                    f"holds no module image at byte {attachment.file.offset}", where=attachment.file.path
                )
        return data

    def kernel(self, digest: str, name: str, sm: int | None) -> KernelInfo | None:
        """What an image says of one of its kernels; None when it cannot be told."""
        if (digest, name) not in self._kernels:
            data = self.data(digest)
            try:
                found = find_kernel(data, name, sm) if data else None
            except ImageError:
                found = None
            self._kernels[digest, name] = found
        return self._kernels[digest, name]

    def writable_variables(self, digest: str, sm: int | None) -> list[str]:
        """Names of the variables in an image that its kernels could write."""
        if digest in self._variables:
            return self._variables[digest]
        data = self.data(digest)
        try:
            found = variable_names(data, sm, writable=True) if data else []
        except ImageError:
            found = []
        self._variables[digest] = found
        return found

    def data(self, digest: str) -> bytes:
        """The bytes of an image, b"" of one that was not captured or is too large to be read."""
        where = self._where.get(digest)
        if where is None or where.length > MAXIMUM_PARSED_BYTES:
            return b""
        return self._read(where)


def _stripped(data: bytes) -> tuple[bytes, list[str]]:
    try:
        return stripped(data) if len(data) <= MAXIMUM_PARSED_BYTES else (data, [])
    except ImageError:
        return data, []


def _usable(data: bytes, sm: int) -> tuple[bytes, list[str]]:
    try:
        entries = read_container(data)
        kept = usable_entries(entries, sm)
    except ImageError:
        return data, []
    if len(kept) == len(entries):
        return data, []
    held = {id(item) for item in kept}
    left_out = dict.fromkeys(item.target for item in entries if id(item) not in held)
    return container_of(data, kept), list(left_out)


def written(data: bytes, writer: SnapshotWriter) -> Contents:
    """Bytes that are no memory, such as an image, in chunks. Raises FileError."""
    with writer.of_contents(len(data)):
        digests = writer.write_chunks_from(data, 0, len(data), CHUNK_BYTES)
    return Contents(len(data), b"".join(item or ZERO_DIGEST for item in digests))
