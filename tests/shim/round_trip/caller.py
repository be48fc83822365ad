"""Makes random but valid calls of every captured function, under the shim, and writes down what the driver was asked.

usage: python -m round_trip.caller {window|setup} SEED FOLDER

The functions, the roles and the counts are those of the table; `recipes.py` has the rest. The recorder is
the driver of the application, under the real shim.
"""

from __future__ import annotations

import ctypes
import pickle
import random
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import fakes  # noqa: E402

from replay.api.functions import by_symbol, listed_functions  # noqa: E402
from replay.api.vocabulary import HANDLE_TYPES, Effect, Function, Keep, Parameter, Role  # noqa: E402
from round_trip import exceptions, launches, recipes  # noqa: E402
from round_trip.graph_caller import GraphCaller  # noqa: E402
from round_trip.recorder import PRIMARY_CONTEXT, RESOURCE, Recorder  # noqa: E402

CALLS = 3  # of each symbol
FREED_BY = {
    Effect.FREE: "cuMemAlloc_v2",
    Effect.HOST_FREE: "cuMemHostAlloc",
    Effect.HOST_UNREGISTER: "cuMemHostRegister_v2",
}
_APPEARS = (
    Effect.ALLOC, Effect.HOST_ALLOC, Effect.HOST_REGISTER, Effect.MANAGED_ALLOC, Effect.IMPORT, Effect.GLOBAL,
)  # fmt: skip
_DISAPPEARS = (Effect.FREE, Effect.HOST_FREE, Effect.HOST_UNREGISTER, Effect.UNMAP)
EXECUTABLE_GRAPHS = (Effect.GRAPH, Effect.GRAPH_UPDATE, Effect.GRAPH_NODE, Effect.GRAPH_ENABLE)
_EFFECTS_OF_GRAPHS = (*EXECUTABLE_GRAPHS, Effect.GRAPH_LAUNCH, Effect.BEGIN_CAPTURE, Effect.END_CAPTURE)
_OF_GRAPHS = ("cuGraphExecDestroy", "cuGraphUpload", "cuGraphUpload_ptsz")
_COUNTED = (Role.IN, Role.OUT, Role.INOUT)


def captured_functions() -> list[Function]:
    """What these tests are about."""
    return [
        function
        for function in listed_functions()
        if function.keep in (Keep.WINDOW, Keep.ALWAYS) and not function.unsupported
    ]


def described_functions() -> list[Function]:
    """Functions that need no record of their own, because the graph that they build is described."""
    return [function for function in listed_functions() if function.described and not function.unsupported]


class Caller:
    def __init__(self, seed: int, folder: Path) -> None:
        self.rng = random.Random(seed)
        self.folder = folder
        self.files = 0
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.recorder = Recorder(fakes.recorded_symbols(), 0x7000_0000_0000)
        self.recorder.expects = self._expected
        self.driver.recording_driver_calls(self.recorder.hook)
        self.calls: list[
            tuple[str, list[int], int]
        ] = []  # symbol, words, result: the application's own, in order
        self._kept: list[Any] = []
        self._pending: tuple[str, list[int]] | None = None
        self._objects: dict[str, list[int]] = {}
        self._blocks: list[tuple[int, int]] = []
        self._low_blocks: list[int] = []
        self._pinned: list[int] = []
        self._mapped: list[int] = []
        self._untouched: list[int] = []
        self._made_from: dict[int, list[int]] = {}
        self.in_window = False

    # -- calling ------------------------------------------------------------------------------------------------------

    def _expected(self, symbol: str, words: list[int]) -> int | None:
        """The application's call is the one with its own words; the shim's have others."""
        if self._pending is None:
            return None
        wanted, given = self._pending
        if symbol != wanted:
            return None
        for parameter, word, ours in zip(by_symbol()[symbol].parameters, words, given, strict=True):
            if parameter.size_bytes <= 8 and word != ours & ((1 << 8 * parameter.size_bytes) - 1):
                return None
        self._pending = None
        return len(self.calls)

    def call(self, symbol: str, words: list[int]) -> int:
        function = by_symbol()[symbol]
        types, values = [], []
        for parameter, word in zip(function.parameters, words, strict=True):
            kind = _ctype(parameter)
            types.append(kind)
            if issubclass(kind, ctypes.Structure):
                values.append(
                    kind.from_buffer_copy(ctypes.string_at(word, parameter.size_bytes))
                    if parameter.size_bytes > 8
                    else kind.from_buffer_copy(word.to_bytes(8, "little"))
                )
            elif parameter.kind == "float":
                values.append(kind.from_buffer_copy(word.to_bytes(parameter.size_bytes, "little")))
            else:
                values.append(word)
        entry = getattr(self.driver, symbol)
        entry.argtypes, entry.restype = types, ctypes.c_int
        self._pending = (symbol, words)
        result = int(entry(*values))
        assert self._pending is None, f"{symbol} did not reach the driver as it was called"
        self.calls.append((symbol, words, result))
        return result

    def words_for(self, symbol: str, **given: int) -> list[int]:
        """The arguments of a valid call."""
        function = by_symbol()[symbol]
        recipe = recipes.RECIPES.get(function.symbol)
        if recipe is None and function.effect == Effect.LAUNCH:
            recipe = launches.launch
        return self._words(function, {**(recipe(self, function) if recipe else {}), **given})

    def make(self, symbol: str, **given: int) -> dict[str, int]:
        """One valid call. Gives the argument words by name."""
        function = by_symbol()[symbol]
        words = self.words_for(symbol, **given)
        result = self.call(symbol, words)
        assert result == 0, f"{symbol} was refused with {result}: {self.recorder.errors}"
        named = dict(zip((p.name for p in function.parameters), words, strict=True))
        self._keep_objects(function, named)
        self._after(function, named)
        return named

    def _after(self, function: Function, named: dict[str, int]) -> None:
        """What the calls that follow need: a current context, objects that are still there."""
        if function.meaning.startswith(("cuCtxCreate", "cuCtxPush", "cuCtxPop", "cuCtxSetCurrent", "cuCtxDetach",
                                        "cuCtxDestroy", "cuCtxAttach")):  # fmt: skip
            self.call("cuCtxSetCurrent", [self.main])
        if function.effect == Effect.DESTROY:
            self._forget(named[function.parameters[function.effect_terms[0].parameters[0]].name])
        elif function.effect == Effect.END_OF_CONTEXT:
            self._forget(named.get("ctx", PRIMARY_CONTEXT))
        if function.effect == Effect.MAP:
            self._mapped.append(named["ptr"])
            self.call("cuMemsetD8_v2", [named["ptr"], 0, 64])
        if function.effect in _APPEARS:
            # Only memory that the window touches is in a snapshot.
            parameter = function.parameters[function.effect_terms[0].parameters[0]]
            address = named[parameter.name]
            if parameter.role == Role.OUT:
                address = int.from_bytes(ctypes.string_at(address, parameter.element_bytes), "little")
            if self.in_window:
                self.call("cuMemsetD8_v2", [address, 0, 8])
            else:
                self._untouched.append(address)
        if function.effect in _DISAPPEARS:
            address = named[function.parameters[function.effect_terms[0].parameters[0]].name]
            self._untouched = [other for other in self._untouched if other != address]
        if function.effect == Effect.UNMAP:
            self._mapped.remove(named["ptr"])

    def _forget(self, handle: int) -> None:
        """An object ends, and with it what was made from it."""
        for handles in self._objects.values():
            if handle in handles:
                handles.remove(handle)
        for child in self._made_from.pop(handle, ()):
            self._forget(child)

    def _keep_objects(self, function: Function, named: dict[str, int]) -> None:
        parents = [
            named[parameter.name] for parameter in function.parameters if parameter.role == Role.HANDLE
        ]
        for parameter in function.parameters:
            kept = parameter.element in HANDLE_TYPES or parameter.element == RESOURCE
            size = parameter.element_bytes
            count = (
                self._count(function, parameter, list(named.values()))
                if parameter.role == Role.OUT and kept
                else 0
            )
            for place in range(count if named[parameter.name] else 0):
                data = ctypes.string_at(named[parameter.name] + place * size, size)
                handle = int.from_bytes(data, "little")
                if handle and handle not in self._objects.setdefault(parameter.element, []):
                    self._objects[parameter.element].append(handle)
                    for parent in parents:
                        self._made_from.setdefault(parent, []).append(handle)

    # -- values -------------------------------------------------------------------------------------------------------

    def buffer(self, data: bytes) -> int:
        holder = ctypes.create_string_buffer(data, max(len(data), 1))
        self._kept.append(holder)
        return ctypes.addressof(holder)

    def block(self, size: int = 64) -> int:
        """Device memory with at least `size` bytes from the address on."""
        if not self._blocks or self.rng.random() < 0.02 or size > 1 << 15:
            bytes_ = max(1 << 16, size)
            base = self._output("cuMemAlloc_v2", "dptr", 8, bytesize=bytes_)
            self._blocks.append((base, bytes_))
            if bytes_ > 1 << 16:
                return base
        base, bytes_ = self.rng.choice(self._blocks)
        return base + 8 * self.rng.randrange((bytes_ - size) // 8 + 1)

    def low_block(self) -> int:
        if not self._low_blocks:
            base = self._output("cuMemAlloc", "dptr", 4, bytesize=1 << 16)
            self._low_blocks.append(base)
        return self._low_blocks[0] + 8 * self.rng.randrange(100)

    def pinned(self) -> int:
        if not self._pinned:
            base = self._output("cuMemHostAlloc", "pp", 8, bytesize=1 << 16)
            self._pinned.append(base)
        return self._pinned[0]

    def reserved(self) -> int:
        return self._output("cuMemAddressReserve", "ptr", 8)

    def mapped(self) -> int:
        if not self._mapped:
            self.make("cuMemMap")
        return self._mapped[-1]

    def _output(self, symbol: str, name: str, size: int, **given: int) -> int:
        return int.from_bytes(ctypes.string_at(self.make(symbol, **given)[name], size), "little")

    def object(self, c_type: str) -> int:
        """A living object of this type."""
        if not self._objects.get(c_type):
            self.fresh(c_type)
        return self.rng.choice(self._objects[c_type])

    def fresh(self, c_type: str) -> int:
        """A new one."""
        symbol = recipes.MAKERS.get(c_type) or _first_maker(c_type)
        if not symbol:
            self._objects[c_type] = [self.rng.randrange(2**20, 2**40)]
            return self._objects[c_type][0]
        function = by_symbol()[symbol]
        name = next(p.name for p in function.parameters if p.role == Role.OUT and p.element == c_type)
        return self._output(symbol, name, 8)

    def resource(self) -> bytes:
        if not self._objects.get(RESOURCE):
            self.make("cuDeviceGetDevResource")
        return self.rng.choice(self._objects[RESOURCE][-8:]).to_bytes(144, "little")

    def _words(self, function: Function, chosen: dict[str, int]) -> list[int]:
        terms = [parameter.count for parameter in function.parameters] + list(function.effect_terms)
        terms += [
            term for touch in function.touches for term in (touch.row_bytes, touch.rows, touch.pitch_bytes)
        ]
        counters = {place for term in terms for place in term.parameters}
        words: list[int] = []
        for position, parameter in enumerate(function.parameters):
            if parameter.name in chosen:
                words.append(chosen[parameter.name])
            else:
                words.append(self._scalar(function, position, parameter, position in counters))
        for position, parameter in enumerate(function.parameters):
            counted_already = parameter.role in _COUNTED and words[position]
            if parameter.name not in chosen and not counted_already:
                self._point(function, position, parameter, words, position in counters)
        return words

    def _scalar(self, function: Function, position: int, parameter: Parameter, counts: bool) -> int:
        rng, role = self.rng, parameter.role
        if role == Role.HANDLE:
            if _ends(function):
                return self.fresh(parameter.c_type)
            if parameter.c_type == "CUstream" and rng.random() < 0.25:
                return rng.randrange(3)
            return self.object(parameter.c_type)
        if role == Role.ADDRESS:
            if function.effect in FREED_BY:
                low = parameter.size_bytes == 4
                return self._output(
                    "cuMemAlloc" if low else "cuMemAlloc_v2", "dptr", parameter.size_bytes, bytesize=512
                )
            return self.low_block() if parameter.size_bytes == 4 else self.block(8192)
        if role == Role.HOST_ADDRESS:
            if function.effect == Effect.HOST_FREE:
                return self._output("cuMemHostAlloc", "pp", 8, bytesize=512)
            if function.effect == Effect.HOST_REGISTER:
                return int(self.recorder.memory.host(4096))
            if function.effect == Effect.HOST_UNREGISTER:
                return self.make("cuMemHostRegister_v2", bytesize=512)["p"]
            return self.pinned()
        if role == Role.OPAQUE:
            return rng.randrange(2**20, 2**40)
        if role != Role.VALUE:
            return 0
        if parameter.c_type == "CUdevice":
            return 0
        if counts:
            return rng.randrange(1, 64) if function.effect_terms or function.touches else rng.randrange(1, 5)
        if parameter.c_type == "CUmemLocation":
            return 1  # device 0
        return rng.getrandbits(8 * parameter.size_bytes)

    def _point(
        self, function: Function, position: int, parameter: Parameter, words: list[int], counts: bool
    ) -> None:
        rng, role = self.rng, parameter.role
        if parameter.kind == "struct" and role == Role.IN:
            words[position] = self.buffer(_understood(parameter) or rng.randbytes(parameter.size_bytes))
        elif role == Role.STRING:
            words[position] = self.buffer(
                "".join(rng.choice("abcµ_") for _ in range(rng.randrange(30))).encode() + b"\0"
            )
        elif role == Role.IMAGE:
            words[position] = self.buffer(launches.new_image(self).encode() + b"\0")
        elif role in _COUNTED and counts:
            words[position] = self.buffer(rng.randrange(1, 5).to_bytes(parameter.element_bytes, "little"))
        elif role == Role.OUT:
            words[position] = self.buffer(
                bytes(max(8, self._count(function, parameter, words) * parameter.element_bytes))
            )
        elif role in (Role.IN, Role.INOUT):
            words[position] = self.buffer(
                b"".join(
                    _understood(parameter) or self._element(parameter)
                    for _ in range(self._count(function, parameter, words))
                )
            )
        elif role in (Role.HOST_READ, Role.HOST_WRITE):
            words[position] = self.buffer(rng.randbytes(self._count(function, parameter, words)))
        elif role == Role.CUSTOM:
            raise LookupError(f"recipes.py has no recipe for {parameter.name} of {function.symbol}")

    def _count(self, function: Function, parameter: Parameter, words: list[int]) -> int:
        product = parameter.count.scale
        for place in parameter.count.parameters:
            counter = function.parameters[place]
            word = words[place]
            if counter.role in _COUNTED:
                if not word:
                    self._point(function, place, counter, words, True)
                word = int.from_bytes(ctypes.string_at(words[place], counter.element_bytes), "little")
            product *= word
        return product

    def _element(self, parameter: Parameter) -> bytes:
        if parameter.element in HANDLE_TYPES:
            return self.object(parameter.element).to_bytes(8, "little")
        if parameter.element == "CUdeviceptr":
            return self.block().to_bytes(8, "little")
        if parameter.element == "CUdevResource":
            return self.resource()
        return self.rng.randbytes(parameter.element_bytes)

    # -- runs ---------------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self.call("cuInit", [0])
        self.main = self._new_main()

    def open_window(self) -> None:
        self.call("cuProfilerStart", [])
        self.in_window = True
        for address in self._untouched:
            self.call("cuMemsetD8_v2", [address, 0, 8])

    def use_objects(self) -> None:
        """One call for each object there is, so that the setup has to make it again."""
        for c_type, handles in sorted(self._objects.items()):
            users = sorted((f for f in captured_functions() if _takes(f, c_type)), key=_ends)
            for handle in list(handles) if users else ():
                if handle in self._objects.get(c_type, ()):
                    user = users[0]
                    name = next(p.name for p in user.parameters if p.c_type == c_type)
                    self.make(user.symbol, **{name: handle})

    def _new_main(self) -> int:
        out = self.buffer(bytes(8))
        self.call("cuCtxCreate_v2", [out, 0, 0])
        handle = int.from_bytes(ctypes.string_at(out, 8), "little")
        self._objects["CUcontext"] = [handle]
        return handle

    def everything(self, functions: list[Function]) -> None:
        todo = [symbol for f in functions for symbol in (f.symbol, f.twin) if symbol for _ in range(CALLS)]
        self.rng.shuffle(todo)
        graphs = GraphCaller(self)
        graphs.captures()
        self._objects["CUgraphExec"] = graphs.everything()
        for symbol in todo:
            if by_symbol()[symbol].effect in _EFFECTS_OF_GRAPHS or symbol in _OF_GRAPHS:
                continue  # by GraphCaller
            if symbol not in ("cuInit", "cuProfilerStop") and (self.in_window or symbol != "cuProfilerStart"):
                self.make(symbol)


def _takes(function: Function, c_type: str) -> bool:
    by_value = any(p.role == Role.HANDLE and p.c_type == c_type for p in function.parameters)
    return (
        by_value and function.effect not in EXECUTABLE_GRAPHS and function.symbol not in exceptions.EXCEPTIONS
    )


def _ends(function: Function) -> bool:
    """Whether a call ends the object that it is given."""
    return function.effect in (Effect.DESTROY, Effect.END_OF_CONTEXT)


def _understood(parameter: Parameter) -> bytes:
    """Of structs that a replay looks into, since they say how much memory is read; b"": any bytes do."""
    names = f"{parameter.c_type} {parameter.element}"
    if "CUDA_RESOURCE_DESC" in names:
        return bytes(144)  # an array, and none
    if "CUDA_ARRAY_DESCRIPTOR" in names:
        return (1).to_bytes(8, "little") * 2 + (1).to_bytes(4, "little") * 2  # one byte
    return b""


def _first_maker(c_type: str) -> str:
    """ "": no captured function makes such objects, so nothing that is replayed depends on them."""
    for function in captured_functions():
        for parameter in function.parameters:
            if parameter.role == Role.OUT and parameter.element == c_type and not parameter.count.parameters:
                return function.symbol
    return ""


def _ctype(parameter: Parameter) -> Any:
    if parameter.kind == "float":
        return {4: ctypes.c_float, 8: ctypes.c_double}[parameter.size_bytes]
    if parameter.kind == "struct":
        return type(
            "Struct",
            (ctypes.Structure,),
            {"_fields_": [("w", ctypes.c_uint32 * (parameter.size_bytes // 4))]},
        )
    return {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}[
        parameter.size_bytes
    ]


def main() -> None:
    which, seed, folder = sys.argv[1], int(sys.argv[2]), Path(sys.argv[3])
    caller = Caller(seed, folder)
    functions = [f for f in captured_functions() if f.symbol not in exceptions.EXCEPTIONS]
    try:
        if which == "window":
            caller.open_window()
        caller.begin()
        caller.everything([f for f in functions if which == "window" or f.keep == Keep.ALWAYS])
        if which == "setup":
            caller.open_window()
            caller.use_objects()
        caller.call("cuProfilerStop", [])
    finally:
        caller.driver.recording_driver_calls(None)  # the shim goes on when Python has ended
    assert not caller.recorder.errors, caller.recorder.errors
    with open(folder / "asked.pickle", "wb") as file:
        pickle.dump((caller.calls, caller.recorder.asked), file)


if __name__ == "__main__":
    main()
