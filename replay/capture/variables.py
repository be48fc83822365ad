"""Answers the interposer while the application runs: its questions for the variables of module images, and it keeps
memory that the application shares.

An image may be a compressed fat binary, which is not taken apart inside the application. The interposer says where the
image is; the answer is the names of its variables. A file that holds an image is kept open from then on, so that
`pack` can read it even if the application deletes it.

Question: `magic "RCAPVARS" | u32 version 1 | u32 storage | u32 architecture (90 for 9.0, 0 unknown) | u32 data_bytes |
u64 offset | u64 length | u32 check | u32 kernel_bytes`, then `data_bytes` bytes: the image itself (INLINE), the name of
the blobs file (BLOB), or the reference to a file as FORMAT.md has it (FILE). Then the name of a kernel, if it is asked
for that: the answer is `OFFSET TYPE` for each pointer in its parameters that leads to floating-point numbers of a type
that its PTX tells, 0 to 3 for f16, bf16, f32 and f64. Answer: `u32 state | u32 bytes`, then the
names, each with its NUL. State 0: here they are; 1: the image cannot be read from there; 2: it says nothing. One
question for each connection.

With `magic "RCAPRING"` comes a descriptor of memory, to be kept until the application has ended (`ring.py`), and as
data the name of the blobs file. The answer is state 0.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from pathlib import Path

from replay.api.vocabulary import VARIABLES_SOCKET, Storage
from replay.capture.ring import add_last_launches
from replay.errors import ImageError, ReplayError
from replay.images import usable_modules, variable_names
from replay.images.ptx_body import kernel_body
from replay.images.ptx_types import types_of
from replay.raw.attachments import file_attachment, keep_file, read_from_file

_QUESTION = struct.Struct("<8sIIIIQQII")
_ANSWER = struct.Struct("<II")
_MAGIC, _RING_MAGIC, _VERSION = b"RCAPVARS", b"RCAPRING", 1
_ANSWERED, _GONE, _SAYS_NOTHING = 0, 1, 2
_TIMEOUT_S = 30.0  # for the rest of a question that has begun
MAXIMUM_DATA_BYTES = 1 << 20
MAXIMUM_IMAGE_BYTES = 1 << 30
MAXIMUM_ANSWER_BYTES = 4 << 20
MAXIMUM_NAME_BYTES = 1 << 16
MAXIMUM_RINGS = 256
_FLOATS = ("f16", "bf16", "f32", "f64")


class VariableService:
    """Context manager: listens in the folder of a raw capture until it is left. Where no socket can be made there, it
    answers nothing, and the capture goes on without."""

    def __init__(self, raw: Path) -> None:
        self._raw = raw
        self._rings: dict[str, int] = {}  # the name of the blobs file -> descriptor
        self._rings_change = threading.Lock()  # others share memory while one that has ended is looked at
        self._socket: socket.socket | None = None
        self._thread: threading.Thread | None = None

    def __enter__(self) -> VariableService:
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        folder = -1
        try:
            # A path in a socket's address is short, so the folder is named through its descriptor.
            folder = os.open(self._raw, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
            listener.bind(f"/proc/self/fd/{folder}/{VARIABLES_SOCKET}")
            listener.listen(64)
        except OSError:
            listener.close()
            return self
        finally:
            if folder >= 0:
                os.close(folder)
        self._socket = listener
        self._thread = threading.Thread(target=self._serve, args=(listener,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *ending: object) -> None:
        if self._socket is None or self._thread is None:
            return
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)  # wakes `accept`
        self._thread.join(_TIMEOUT_S)
        self._socket.close()
        while self._rings:
            os.close(self._rings.popitem()[1])
        with contextlib.suppress(OSError):
            (self._raw / VARIABLES_SOCKET).unlink()

    def add_last_launches(self, pid: int) -> None:
        """A signal has ended this process: what it shared becomes part of the raw capture."""
        with self._rings_change:
            for blobs, descriptor in self._rings.items():
                add_last_launches(self._raw, blobs, descriptor, pid)

    def _serve(self, listener: socket.socket) -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection, contextlib.suppress(OSError, MemoryError):
                connection.settimeout(_TIMEOUT_S)
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        begin, descriptors, _, _ = socket.recv_fds(connection, _QUESTION.size, 1)
        try:
            fields = _QUESTION.unpack(begin + _receive(connection, _QUESTION.size - len(begin)))
            if fields[0] == _RING_MAGIC and descriptors:
                self._keep(connection, fields, descriptors)
        finally:
            for descriptor in descriptors:
                os.close(descriptor)
        magic, version, storage, architecture, data_bytes, offset, length, check, kernel_bytes = fields
        if magic != _MAGIC or version != _VERSION or data_bytes > MAXIMUM_DATA_BYTES:
            return
        if kernel_bytes > MAXIMUM_NAME_BYTES:
            return
        data = _receive(connection, data_bytes)
        kernel = _receive(connection, kernel_bytes).decode("latin-1")
        try:
            image = self._image(storage, data, offset, length, check)
        except (ReplayError, OSError, ValueError, struct.error):
            connection.sendall(_ANSWER.pack(_GONE, 0))
            return
        try:
            sm = architecture or None
            names = _element_types(image, kernel, sm) if kernel else variable_names(image, sm)
        except ImageError:
            connection.sendall(_ANSWER.pack(_SAYS_NOTHING, 0))
            return
        text = b"".join(name.encode("utf-8", "surrogateescape") + b"\0" for name in names)
        if len(text) > MAXIMUM_ANSWER_BYTES:
            text = text[: text.rindex(b"\0", 0, MAXIMUM_ANSWER_BYTES) + 1]
        connection.sendall(_ANSWER.pack(_ANSWERED, len(text)) + text)

    def _keep(self, connection: socket.socket, fields: tuple[int, ...], descriptors: list[int]) -> None:
        """Takes over one of the descriptors."""
        blobs = os.fsdecode(_receive(connection, min(fields[4], MAXIMUM_NAME_BYTES)))
        self._require_blobs(blobs)
        with self._rings_change:
            if len(self._rings) >= MAXIMUM_RINGS and blobs not in self._rings:
                raise OSError("too many processes share memory")
            before, self._rings[blobs] = self._rings.get(blobs), descriptors.pop()
        if before is not None:
            os.close(before)
        connection.sendall(_ANSWER.pack(_ANSWERED, 0))

    @staticmethod
    def _require_blobs(name: str) -> None:
        if Path(name).name != name or not name.startswith("blobs."):
            raise OSError(f"no blobs file: {name!r}")

    def _image(self, storage: int, data: bytes, offset: int, length: int, check: int) -> bytes:
        if length > MAXIMUM_IMAGE_BYTES:
            raise OSError(f"an image of {length} bytes")
        if storage == Storage.INLINE:
            return data
        if storage == Storage.FILE:
            attachment = file_attachment(data, length, check)
            assert attachment.file is not None
            keep_file(attachment.file)
            return read_from_file(attachment, attachment.file)
        if storage != Storage.BLOB:
            raise OSError(f"no place of an image: {storage}")
        name = os.fsdecode(data)
        self._require_blobs(name)
        with open(self._raw / name, "rb") as file:
            return os.pread(file.fileno(), length, offset)


def _element_types(image: bytes, kernel: str, sm: int | None) -> list[str]:
    """`OFFSET TYPE` of pointers among the parameters of a kernel. Raises ImageError."""
    for kind, contents in usable_modules(image, sm):
        body = kernel_body(contents, kernel) if kind == "ptx" else None
        if body is not None:
            return [
                f"{offset} {_FLOATS.index(type_)}"
                for offset, type_ in types_of(body).items()
                if type_ in _FLOATS
            ]
    return []


def _receive(connection: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise OSError("the question ends early")
        data += piece
    return data
