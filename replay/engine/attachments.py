"""What captured calls were given, as bytes of the snapshot."""

from __future__ import annotations

from collections.abc import Mapping

from replay.api.parts import find_part
from replay.errors import EngineError
from replay.inspection.pieces import read_contents
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Attachment, Call, Contents, Image

MAXIMUM_BUFFER_BYTES = 1 << 30  # of one argument; a larger one is not believed


class Attachments:
    """Reads attachments of calls. variants: images that no snapshot holds, by digest."""

    def __init__(
        self, reader: SnapshotReader, images: Mapping[str, Image], variants: Mapping[str, bytes]
    ) -> None:
        self._reader, self._images, self._variants = reader, images, variants

    def read(self, attachment: Attachment) -> bytes:
        """The bytes of an attachment, wherever they are. Raises EngineError."""
        if isinstance(attachment, bytes):
            return attachment
        if isinstance(attachment, Contents):
            if attachment.size_bytes > MAXIMUM_BUFFER_BYTES:
                raise EngineError(f"an attachment has {attachment.size_bytes} bytes")
            return read_contents(self._reader, attachment)
        if attachment in self._variants:
            return self._variants[attachment]
        image = self._images.get(attachment)
        if image is None:
            raise EngineError(
                f"the image {attachment[:12]} is not in the snapshot",
                next="capture again; `replay info` shows the notes",
            )
        return read_contents(self._reader, image.contents)

    def optional(self, call: Call, name: str, part: int = 0) -> bytes | None:
        """An input of a call; None when it was not recorded."""
        found = find_part(call.inputs, name, part)
        return None if found is None else self.read(found)

    def required(self, call: Call, name: str, part: int = 0) -> bytes:
        """An input of a call that must have been recorded."""
        found = self.optional(call, name, part)
        if found is None:
            raise EngineError(
                f"what {name} pointed to was not captured",
                where=f"call {call.number} {call.function}",
                next="capture again",
            )
        return found
