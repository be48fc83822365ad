"""Messages between `replay serve` and its clients. Each is its length (4 bytes, big endian) and a msgpack map."""

from __future__ import annotations

import socket
import struct
from importlib import import_module
from typing import Any

import msgpack

from replay import errors
from replay.errors import FormatError, LimitError, ReplayError
from replay.snapshot.schema import from_wire, to_wire

VERSION = 1
MAXIMUM_REQUEST_BYTES = 1 << 20
MAXIMUM_ANSWER_BYTES = 256 << 20
_LENGTH = struct.Struct(">I")
_NAMES = "surrogateescape"  # a name of a file may be no UTF-8
# Errors of the library that are not of `replay.errors`, and where they are from
_ELSEWHERE = {
    "CacheError": "replay.variants.assemblers.wheels",
    "InterfaceMismatch": "replay.variants.interface",
    "NotExecutable": "replay.variants.planned",
    "Refused": "replay.variants.untrusted",
}


def send(connection: socket.socket, value: dict[str, Any]) -> None:
    """One message."""
    data = msgpack.packb(value, use_bin_type=True, unicode_errors=_NAMES)
    connection.sendall(_LENGTH.pack(len(data)) + data)


def receive(connection: socket.socket, limit: int) -> dict[str, Any] | None:
    """The next message; None where the other side has gone. Raises FormatError, LimitError."""
    head = _exactly(connection, _LENGTH.size)
    if head is None:
        return None
    (length,) = _LENGTH.unpack(head)
    if length > limit:
        raise LimitError(f"a message of {length} bytes, at most {limit} are read")
    data = _exactly(connection, length)
    if data is None:
        return None
    try:
        value = msgpack.unpackb(data, raw=False, strict_map_key=True, unicode_errors=_NAMES)
    except (ValueError, RecursionError, msgpack.exceptions.ExtraData) as error:
        raise FormatError(f"no msgpack: {error}") from None
    if not isinstance(value, dict):
        raise FormatError("a message is a map")
    return value


def _exactly(connection: socket.socket, length: int) -> bytes | None:
    data = bytearray()
    while len(data) < length:
        piece = connection.recv(min(1 << 20, length - len(data)))
        if not piece:
            return None
        data += piece
    return bytes(data)


def failure(error: ReplayError) -> dict[str, Any]:
    """The answer that says what went wrong."""
    fields = {"exit_code": int(error.exit_code), "kind": type(error).__name__, "what": error.what,
              "where": error.where, "next": error.next, "details": error.details}  # fmt: skip
    if (facts := getattr(error, "facts", None)) is not None:
        fields["facts"] = to_wire(facts)
    return {"version": VERSION, "error": fields}


def raised(fields: Any) -> ReplayError:
    """The error that the server raised, with all that it knows. A FormatError where `fields` are none of one."""
    if not isinstance(fields, dict) or not isinstance(fields.get("what"), str):
        return FormatError("an answer has a result, or an error", where="the server")
    name = str(fields.get("kind"))
    kind = getattr(import_module(_ELSEWHERE[name]) if name in _ELSEWHERE else errors, name, ReplayError)
    kind = kind if isinstance(kind, type) and issubclass(kind, ReplayError) else ReplayError
    error = kind.__new__(kind)
    ReplayError.__init__(error, fields["what"], where=fields.get("where"), next=fields.get("next"))
    if details := fields.get("details"):
        error.details = str(details)
    if "facts" in fields:
        try:
            _with_facts(error, fields["facts"])
        except (TypeError, ValueError, KeyError, AttributeError):
            return FormatError("an error has facts that are none", where="the server")
    return error


def _with_facts(error: ReplayError, facts: Any) -> None:
    from replay.results.run.variant import VariantFacts
    from replay.variants.interface import Fact, InterfaceMismatch
    from replay.variants.planned import NotExecutable

    if isinstance(error, InterfaceMismatch):
        error.facts = [from_wire(Fact, item) for item in facts]
    elif isinstance(error, NotExecutable):
        error.facts = from_wire(VariantFacts, facts)
