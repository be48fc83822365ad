"""What a row of the table is made of, and how a row and the facts of the headers become a Function."""

from __future__ import annotations

from functools import partial
from typing import Any

from replay.records import dataclass

from .vocabulary import HANDLE_TYPES, Effect, Function, Keep, Parameter, Replayed, Role, Term, Touch, Work

NEVER, WINDOW, ALWAYS, FOLLOWED = Keep.NEVER, Keep.WINDOW, Keep.ALWAYS, Keep.FOLLOWED
PLACED, RECORDED = Replayed.PLACED, Replayed.RECORDED
LEFT_OUT, REFUSED = Replayed.LEFT_OUT, Replayed.REFUSED


@dataclass(frozen=True)
class _Override:
    """What a row says of a parameter. count: a product, such as "N*4"."""

    role: Role
    count: str = "1"


# Of elements that the driver reads, writes, or both; of bytes of the host
inputs, outputs, updated, host_read, host_write = (
    partial(_Override, role) for role in (Role.IN, Role.OUT, Role.INOUT, Role.HOST_READ, Role.HOST_WRITE)
)

IMAGE = _Override(Role.IMAGE)
HOST = _Override(Role.HOST_ADDRESS)
OPAQUE = _Override(Role.OPAQUE)
CUSTOM = _Override(Role.CUSTOM)


@dataclass(frozen=True)
class _Touch:
    """A `Touch` with products and names of parameters."""

    address: str
    row_bytes: str
    rows: str = "1"
    pitch: str = "0"
    each: str = ""
    write: bool = True

    def of(self, positions: dict[str, int], symbol: str) -> Touch:
        row_bytes, rows, pitch = (
            _term(text, positions, symbol) for text in (self.row_bytes, self.rows, self.pitch)
        )
        each = positions[self.each] if self.each else None
        return Touch(positions[self.address], row_bytes, rows, pitch, each, self.write)


def reads(address: str, size: str) -> _Touch:
    """The call reads so many bytes there."""
    return _Touch(address, size, write=False)


def writes(address: str, row_bytes: str, rows: str = "1", pitch: str = "0") -> _Touch:
    """The call writes rows of so many bytes there, `pitch` apart."""
    return _Touch(address, row_bytes, rows, pitch)


def each(addresses: str, sizes: str) -> _Touch:
    """Of an array of addresses and one of sizes: the call touches so many bytes at each."""
    return _Touch(addresses, "0", each=sizes)


# id, symbol, keep, effect, its arguments, roles and flags
Row = tuple[int, str, Keep, Effect, tuple[str, ...], dict[str, Any]]
ROWS: list[Row] = []


def F(id: int, symbol: str, keep: Keep, effect: Effect = Effect.NONE, *arguments: str, **words: Any) -> None:
    """One row. `arguments` belong to `effect`: products such as "N*4" or "pPitch*Height". `words` are the roles of
    parameters by name, and the flags of `Function`; `out_of_scope` gives the reason, as `unsupported` does. `touches`
    says how far the call reaches from the addresses that it is given, where the effect does not tell that exactly."""
    ROWS.append((id, symbol, keep, effect, arguments, words))


# Effects whose terms are an address and the bytes there, with what the call does to them
_REACHING = {Effect.WRITE: True, Effect.READ: False}

# What these did is in place before the first call, or described with the graph that a stream was captured into.
_REPLAYED = {
    **dict.fromkeys(
        (Effect.ALLOC, Effect.FREE, Effect.HOST_ALLOC, Effect.HOST_FREE, Effect.HOST_REGISTER, Effect.HOST_UNREGISTER,
         Effect.MANAGED_ALLOC, Effect.MAP, Effect.UNMAP, Effect.IMPORT), Replayed.PLACED),
    **dict.fromkeys((Effect.BEGIN_CAPTURE, Effect.END_CAPTURE), Replayed.RECORDED),
}  # fmt: skip

# How names begin -> what the calls give a device to do
_WORK = {
    "cuMemcpy": Work.COPY, "cuMemset": Work.FILL, "cuMemPrefetch": Work.PREFETCH, "cuMemDiscard": Work.DISCARD,
    "cuStreamWriteValue": Work.WRITE_VALUE, "cuStreamWaitValue": Work.WAIT_VALUE, "cuStreamBatchMemOp": Work.VALUES,
}  # fmt: skip

# Columns that a version which has been replaced has of the newer one, unless its row says otherwise.
_INHERITED = (
    "replayed", "creates", "may_fail", "polls", "queues", "hint", "of_current", "sets", "getter", "managed", "replaces",
    "undoes", "waits", "node", "enter", "leave", "after",
)  # fmt: skip
_FLAGS = (
    "custom",
    "synchronizes",
    "unsupported",
    "out_of_scope",
    "shares",
    "same_as",
    "described",
    *_INHERITED,
)


def _term(text: str, positions: dict[str, int], symbol: str) -> Term:
    parameters: list[int] = []
    scale = 1
    for factor in text.split("*"):
        if factor.isdigit():
            scale *= int(factor)
        elif factor in positions:
            parameters.append(positions[factor])
        else:
            raise ValueError(f"{symbol}: no parameter named {factor!r}")
    return Term(tuple(parameters), scale)


def _default_role(c_type: str, kind: str, element_bytes: int, size_bytes: int) -> Role | None:
    """The role that the C type tells; None where only a person can say."""
    if c_type in ("CUdeviceptr", "CUdeviceptr_v1"):
        return Role.ADDRESS
    if c_type in HANDLE_TYPES:
        return Role.HANDLE
    if kind == "struct" and size_bytes > 8:
        return Role.IN  # its word in a record is its address then
    if kind != "pointer":
        return Role.VALUE
    if not c_type.endswith("*"):
        return Role.OPAQUE  # a function pointer or a handle that nothing here follows
    if c_type == "const char *":
        return Role.STRING
    if element_bytes == 0 or c_type in ("void **", "char *", "const char **", "const void **"):
        return None
    return Role.IN if c_type.startswith("const ") else Role.OUT


def function_of(
    row: Row | None,
    symbol: str,
    facts: dict[str, Any],
    types: dict[str, list[Any]],
    twin: dict[str, Any] | None,
    newer: Row | None = None,
) -> Function:
    """newer: the row that this one is the same as."""
    id, _, keep, effect, arguments, words = row or (0, symbol, Keep.WINDOW, Effect.NONE, (), {})
    inherited = {name: newer[5][name] for name in _INHERITED if name in newer[5]} if newer else {}
    words = inherited | words
    flags = {name: words.pop(name) for name in _FLAGS if name in words}
    flags.setdefault("replayed", _REPLAYED.get(effect, Replayed.CALLED))
    flags["work"] = next((work for name, work in _WORK.items() if symbol.startswith(name)), Work.NONE)
    touches: tuple[_Touch, ...] = words.pop("touches", ())
    if not touches and effect in _REACHING:
        touches = (_Touch(arguments[0], arguments[1], write=_REACHING[effect]),)
    elif not touches and effect == Effect.COPY:
        touches = (writes(arguments[0], arguments[2]), reads(arguments[1], arguments[2]))
    if "out_of_scope" in flags:
        flags.update(unsupported=flags["out_of_scope"], out_of_scope=True)
    positions = {name: position for position, (_, name) in enumerate(facts["parameters"])}
    if unknown := words.keys() - positions.keys():
        raise ValueError(f"{symbol}: no parameter named {', '.join(sorted(unknown))}")
    parameters = []
    for c_type, name in facts["parameters"]:
        kind, size_bytes, element_bytes = types[c_type]
        is_pointer = kind == "pointer" and c_type.endswith("*")
        element = c_type[:-1].replace("const ", "").strip() if is_pointer else ""
        element = "" if element == "void" else element
        override: _Override | None = words.get(name)
        role = override.role if override else _default_role(c_type, kind, element_bytes, size_bytes)
        if role is None:
            if row and keep != Keep.NEVER:
                raise ValueError(f"{symbol}: say what the pointer {name} ({c_type}) means")
            role = Role.OPAQUE
        count = _term(override.count, positions, symbol) if override else Term()
        each_bytes = (element_bytes or 1) if is_pointer else size_bytes if role == Role.IN else 0
        parameters.append(Parameter(name, c_type, role, kind, size_bytes, each_bytes, element, count))
    if row is None:
        flags["unsupported"] = "not in the table"
    creates, sets = flags.get("creates"), flags.get("sets")
    if creates and not any(p.role == Role.OUT and p.element == creates for p in parameters):
        raise ValueError(f"{symbol}: no parameter receives a {creates}")
    if sets and sets not in positions:
        raise ValueError(f"{symbol}: no parameter named {sets!r}")
    return Function(
        id=id,
        symbol=symbol,
        name=facts["name"],
        since=facts["since"],
        twin=twin["symbol"] if twin else "",
        twin_since=twin["since"] if twin else 0,
        releases=tuple(facts["releases"]),
        parameters=tuple(parameters),
        keep=keep,
        effect=effect,
        effect_terms=tuple(_term(text, positions, symbol) for text in arguments),
        touches=tuple(item.of(positions, symbol) for item in touches),
        **flags,
    )
