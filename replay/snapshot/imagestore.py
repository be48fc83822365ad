"""Module images of a capture: found by content, written once."""

from __future__ import annotations

from blake3 import blake3

from replay.capture.decode import BlobsFile, RawAttachment
from replay.errors import DamagedError, ImageError
from replay.images import find_kernel, identify, read_image
from replay.images.model import KernelInfo
from replay.snapshot.container.writer import SnapshotWriter
from replay.snapshot.schema import CHUNK_BYTES, ZERO_DIGEST, Contents, Image

MAXIMUM_PARSED_BYTES = (
    512 << 20
)  # of an image that is read for its kernels; a larger one is stored all the same
_DIGEST_BYTES = 16


class ImageStore:
    """Digests of the images that calls refer to, and what the images declare."""

    def __init__(self, blobs: BlobsFile) -> None:
        self._blobs = blobs
        self._digests: dict[tuple[int, int], str] = {}  # place in the blobs file, length
        self._where: dict[str, RawAttachment] = {}
        self.damaged: list[str] = []

    def digest(self, attachment: RawAttachment) -> str:
        """The digest of an image, "" when its bytes are missing or damaged (`damaged` says why)."""
        key = (attachment.blob_offset, attachment.length)
        if attachment.data is None and key in self._digests:
            return self._digests[key]
        try:
            data = self._blobs.read_attachment(attachment)
        except DamagedError as error:
            self.damaged.append(str(error))
            digest = ""
        else:
            digest = blake3(data).hexdigest(length=_DIGEST_BYTES)
            self._where.setdefault(digest, attachment)
        if attachment.data is None:
            self._digests[key] = digest
        return digest

    def size(self, digest: str) -> int:
        """Bytes of an image."""
        return self._where[digest].length

    def write(self, writer: SnapshotWriter, digest: str) -> Image:
        """Store an image."""
        data = self._blobs.read_attachment(self._where[digest])
        digests = writer.write_chunks_from(data, 0, len(data), CHUNK_BYTES)
        contents = Contents(len(data), b"".join(item or ZERO_DIGEST for item in digests))
        kind = identify(data)
        return Image(digest, "unknown" if kind == "wrapper" else kind, contents)

    def kernel(self, digest: str, name: str, sm: int | None) -> KernelInfo | None:
        """What an image says of one of its kernels; None when it cannot be told."""
        data = self._readable(digest)
        try:
            return find_kernel(data, name, sm) if data else None
        except ImageError:
            return None

    def writable_variables(self, digest: str, sm: int | None) -> list[str]:
        """Names of the variables in an image that its kernels could write. Compiler-made ones are left out."""
        data = self._readable(digest)
        try:
            modules = read_image(data, sm) if data else []
        except ImageError:
            return []
        names = {
            name
            for module in modules
            for name, variable in module.variables.items()
            if variable.space == "global" and "$" not in name
        }
        return sorted(names)

    def _readable(self, digest: str) -> bytes:
        where = self._where.get(digest)
        if where is None or where.length > MAXIMUM_PARSED_BYTES:
            return b""
        return self._blobs.read_attachment(where)
