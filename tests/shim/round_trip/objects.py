"""Valid calls that make modules, contexts, pools and mappings."""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .launches import new_image, word

if TYPE_CHECKING:
    from replay.api.vocabulary import Function

    from .caller import Caller
    from .recorder import Recorder


def image_file(parameter: str) -> Callable[[Caller, Function], dict[str, int]]:
    def make(caller: Caller, function: Function) -> dict[str, int]:
        caller.files += 1
        path = caller.folder / f"{caller.files}.ptx"
        path.write_text(new_image(caller))
        return {parameter: caller.buffer(str(path).encode() + b"\0")}

    return make


def file_contents(position: int) -> Callable[[Recorder, Function, list[int]], Any]:
    def describe(recorder: Recorder, function: Function, words: list[int]) -> Any:
        text = ctypes.string_at(words[position]).decode()
        if not text.startswith("/"):
            return text  # an image that is in memory: what the replay was given
        with open(text) as file:
            return file.read()

    return describe


# Options that are numbers; the others point to buffers of the application.
_JIT_NUMBERS = (0, 1, 7, 8, 9, 11, 12, 14, 15)


_JIT_BUFFERS = frozenset((3, 4, 5, 6, 17, 18, 19))  # the engine asks for a log of its own


OPTIONS = {
    "options": ("optionValues", "numOptions"),
    "jitOptions": ("jitOptionsValues", "numJitOptions"),
    "libraryOptions": ("libraryOptionValues", "numLibraryOptions"),
}


def option_lists(caller: Caller, function: Function) -> dict[str, int]:
    given: dict[str, int] = {}
    names = {parameter.name for parameter in function.parameters}
    for keys, (values, count) in OPTIONS.items():
        if keys in names:
            chosen = (
                [1] if keys == "libraryOptions" else caller.rng.sample(_JIT_NUMBERS, caller.rng.randrange(4))
            )
            given[keys] = caller.buffer(struct.pack(f"<{len(chosen)}I", *chosen))
            given[values] = caller.buffer(
                struct.pack(f"<{len(chosen)}Q", *(caller.rng.getrandbits(8) for _ in chosen))
            )
            given[count] = len(chosen)
    return given


def option_pairs(recorder: Recorder, function: Function, words: list[int], keys: str) -> Any:
    given = dict(zip((p.name for p in function.parameters), words, strict=True))
    values, count = OPTIONS[keys]
    pairs = [
        (ctypes.c_uint32.from_address(given[keys] + 4 * place).value, word(given[values] + 8 * place))
        for place in range(given[count])
    ]
    return [pair for pair in pairs if keys == "libraryOptions" or pair[0] not in _JIT_BUFFERS]


def with_options(
    other: Callable[[Caller, Function], dict[str, int]],
) -> Callable[[Caller, Function], dict[str, int]]:
    return lambda caller, function: {**option_lists(caller, function), **other(caller, function)}


def low_pinned(caller: Caller, function: Function) -> dict[str, int]:
    """Its device address has 32 bits."""
    low = caller.recorder.memory.device(4096, low=True)
    return {"p": caller.make("cuMemHostRegister_v2", p=low, bytesize=4096)["p"]}


def registration(caller: Caller, function: Function) -> dict[str, int]:
    """Any flags but CU_MEMHOSTREGISTER_READ_ONLY: other calls write there."""
    return {"Flags": caller.rng.getrandbits(32) & ~8}


def creation_parameters(caller: Caller, function: Function) -> dict[str, int]:
    return {"ctxCreateParams": caller.buffer(bytes(24))}


def current_context(caller: Caller, function: Function) -> dict[str, int]:
    return {"ctx": caller.fresh("CUcontext")}


def variable(caller: Caller, function: Function) -> dict[str, int]:
    return {"name": caller.buffer(b"variable\0")}


def reserve(caller: Caller, function: Function) -> dict[str, int]:
    return {"size": 1 << 21, "alignment": 0, "addr": 0}


def mapping(caller: Caller, function: Function) -> dict[str, int]:
    return {
        "ptr": caller.reserved(),
        "size": 1 << 21,
        "offset": 0,
        "handle": caller.object("CUmemGenericAllocationHandle"),
    }


def unmapping(caller: Caller, function: Function) -> dict[str, int]:
    return {"ptr": caller.mapped(), "size": 1 << 21}


def pool_properties(caller: Caller, function: Function) -> dict[str, int]:
    """CUmemPoolProps with random contents, on the device there is, without the memory that Windows wants."""
    rest = caller.rng.randbytes(10) + bytes(54)  # the maximum, the usage; what is reserved
    return {"poolProps": caller.buffer(caller.rng.randbytes(8) + struct.pack("<IIQ", 1, 0, 0) + rest)}


def pool_access(caller: Caller, function: Function) -> dict[str, int]:
    """CUmemAccessDesc of the device there is, and of the host."""
    return {"map": caller.buffer(struct.pack("<6I", 1, 0, caller.rng.randrange(4), 2, 0, 3)), "count": 2}
