"""Calls every function of the table that is kept, with random valid arguments, and writes down what a capture must say.

usage: call_rows.py {always|window} SEED OUTPUT.json
"""

from __future__ import annotations

import ctypes
import json
import platform
import random
import struct
import sys
from pathlib import Path
from typing import Any

from replay.api import functions
from replay.api.vocabulary import Effect, Function, Keep, Parameter, Role

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
import graph_descriptions as described  # noqa: E402

CURRENT_CONTEXT = 0xC0DE0  # of the fake driver
PTX = b"// made up\n.version 8.0\n.target sm_90\n.address_size 64\n"


def elf(rng: random.Random) -> bytes:
    """An ELF whose last byte belongs to a section, as the shim has to find out."""
    body = rng.randbytes(rng.choice([100, 9000]))
    sections = struct.pack("<IIQQQQIIQQ", 0, 1, 0, 0, 64, len(body), 0, 0, 1, 0)
    header = b"\x7fELF\x02\x01\x01" + bytes(9)
    header += struct.pack("<HHIQQQIHHHHHH", 2, 190, 1, 0, 0, 64 + len(body), 0, 64, 56, 0, 64, 1, 0)
    return header + body + sections


def container(rng: random.Random) -> bytes:
    body = rng.randbytes(8 * rng.randrange(1, 2000))
    return struct.pack("<IHHQ", 0xBA55ED50, 1, 16, len(body)) + body


class Caller:
    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.kept: list[Any] = []  # buffers that calls point to
        self.launched: set[int] = set()
        # For addresses of 32 bits: MAP_PRIVATE, MAP_ANONYMOUS and MAP_32BIT, or a hint where there is no such flag.
        mmap = ctypes.CDLL(None).mmap
        mmap.restype, mmap.argtypes = (
            ctypes.c_uint64,
            [ctypes.c_uint64, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
        )
        flags = 0x22 | (0x40 if platform.machine() == "x86_64" else 0)
        hints = [0, *range(0x20000000, 0xF0000000, 0x10000000)]  # one may be taken
        self.low = next(found for hint in hints if (found := mmap(hint, 1 << 20, 3, flags, -1, 0)) < 2**32)

    def buffer(self, data: bytes) -> int:
        holder = ctypes.create_string_buffer(data, max(len(data), 1))
        self.kept.append(holder)
        return ctypes.addressof(holder)

    def images(self) -> tuple[int, dict[int, bytes]]:
        """(pointer, {part: bytes})"""
        kind = self.rng.choice(["ptx", "elf", "container", "wrapper", "relocatable"])
        if kind == "ptx":
            text = PTX + b"//" + b"x" * self.rng.choice([0, 5000])
            return self.buffer(text + b"\0"), {0: text}
        data = elf(self.rng) if kind == "elf" else container(self.rng)
        if kind in ("elf", "container"):
            return self.buffer(data), {0: data}
        parts = {0: data}
        table = 0
        if kind == "relocatable":
            parts.update({part: container(self.rng) for part in (1, 2)})
            table = self.buffer(struct.pack("<QQQ", self.buffer(parts[1]), self.buffer(parts[2]), 0))
        version = 2 if kind == "relocatable" else 1
        return self.buffer(struct.pack("<IIQQ", 0x466243B1, version, self.buffer(data), table)), parts

    def count(self, function: Function, parameter: Parameter, words: list[int]) -> int:
        value = parameter.count.scale
        for position in parameter.count.parameters:
            counter = function.parameters[position]
            pointed = counter.role in (Role.OUT, Role.INOUT)
            # How many the caller has room for; the fake driver leaves it at that.
            value *= self.room if pointed else words[position]
        return value

    def call(
        self, function: Function, symbol: str, given: dict[str, tuple[int, dict[int, bytes]]]
    ) -> dict[str, Any]:
        """One call. `given`: (word, attachments of ENTER by part) of parameters that are not random."""
        rng = self.rng
        words: list[int] = []
        for parameter in function.parameters:
            if parameter.name in given:
                words.append(given[parameter.name][0])
            elif parameter.role == Role.ADDRESS:
                words.append(self.low if parameter.size_bytes == 4 else self.buffer(bytes(32768)))
            elif parameter.role in (Role.HANDLE, Role.OPAQUE, Role.HOST_ADDRESS):
                words.append(rng.randrange(2**20, 2**62))
            elif parameter.kind == "integer" and parameter.size_bytes == 8:
                words.append(rng.choice([0, 1, 3, 64, 4096, 4097, 9000]))
            elif parameter.kind in ("integer", "struct"):
                words.append(rng.randrange(0, 2 ** (8 * parameter.size_bytes - 1)))
            else:
                words.append(0)
        # A count of elements of an input stays small; so does a device ordinal.
        for parameter in function.parameters:
            if parameter.role in (Role.IN, Role.OUT, Role.INOUT):
                for position in parameter.count.parameters:
                    if function.parameters[position].name not in given:
                        words[position] = rng.randrange(0, 600 if rng.random() < 0.2 else 6)
            if parameter.role in (Role.HOST_READ, Role.HOST_WRITE):
                for position in parameter.count.parameters:
                    words[position] = rng.choice([0, 1, 7, 4096, 4097, 20000])
        counters = {place for parameter in function.parameters for place in parameter.count.parameters}
        self.room = rng.randrange(1, 6)
        entered: dict[str, bytes] = {}
        outputs: list[tuple[int, Parameter, int]] = []
        for position, parameter in enumerate(function.parameters):
            if parameter.name in given:
                word, parts = given[parameter.name]
                entered.update({f"{position},{part}": data for part, data in parts.items()})
                if parameter.role in (Role.OUT, Role.INOUT) and word:
                    outputs.append(
                        (
                            position,
                            parameter,
                            self.count(function, parameter, words) * parameter.element_bytes,
                        )
                    )
                continue
            if parameter.role == Role.STRING:
                text = "".join(rng.choice("abcdefgh_µ") for _ in range(rng.choice([0, 1, 20, 5000]))).encode()
                words[position], entered[f"{position},0"] = self.buffer(text + b"\0"), text
            elif parameter.role == Role.IMAGE:
                words[position], parts = self.images()
                entered.update({f"{position},{part}": data for part, data in parts.items()})
            elif parameter.role in (Role.IN, Role.INOUT, Role.HOST_READ):
                size = self.count(function, parameter, words) * (
                    parameter.element_bytes if parameter.role != Role.HOST_READ else 1
                )
                data = rng.randbytes(size)
                if position in counters:
                    data = self.room.to_bytes(size, "little")
                words[position] = self.buffer(data)
                if size or parameter.role == Role.HOST_READ:
                    entered[f"{position},0"] = data
            if parameter.role in (Role.OUT, Role.INOUT, Role.HOST_WRITE):
                size = self.count(function, parameter, words) * (
                    parameter.element_bytes if parameter.role != Role.HOST_WRITE else 1
                )
                if parameter.role != Role.INOUT:
                    # The application may pass NULL for an output that it does not want.
                    words[position] = self.buffer(rng.randbytes(max(size, 8))) if rng.random() < 0.9 else 0
                if words[position] and (parameter.role != Role.HOST_WRITE or function.synchronizes):
                    outputs.append((position, parameter, size))
        result = self.invoke(function, symbol, words)
        left = {}
        if result == 0:
            left = {f"{position},0": ctypes.string_at(words[position], size) for position, _, size in outputs}
        return {
            "symbol": symbol,
            "arguments": words,
            "result": result,
            "entered": {key: data.hex() for key, data in entered.items()},
            "left": {key: data.hex() for key, data in left.items()},
        }

    @staticmethod
    def by_value(parameter: Parameter) -> Any:
        """A type that is passed as a struct of this size is."""
        fields = [("words", ctypes.c_uint32 * (parameter.size_bytes // 4))]
        return type("Struct", (ctypes.Structure,), {"_fields_": fields})

    def invoke(self, function: Function, symbol: str, words: list[int]) -> int:
        """Calls it, and makes `words` what the record must hold: sign-extended where the type is signed."""
        types = []
        for position, parameter in enumerate(function.parameters):
            signed = parameter.c_type in ("int", "CUdevice")
            size = parameter.size_bytes
            if size > 8:
                types.append(self.by_value(parameter))
                continue
            kind = {1: ctypes.c_uint8, 2: ctypes.c_uint16, 4: ctypes.c_uint32, 8: ctypes.c_uint64}[size]
            types.append(ctypes.c_int32 if signed else kind)
            if signed and self.rng.random() < 0.3 and not parameter.name.startswith(("num", "grid")):
                words[position] = -self.rng.randrange(1, 1000)
        entry = getattr(self.driver, symbol)
        entry.argtypes, entry.restype = types, ctypes.c_int
        given = [
            kind.from_address(word) if issubclass(kind, ctypes.Structure) else word
            for kind, word in zip(types, words, strict=True)
        ]
        result = entry(*given)
        words[:] = [word & 0xFFFFFFFFFFFFFFFF for word in words]
        return result

    # ---- named exceptions ------------------------------------------------------------------------------------------

    def given_for(self, function: Function) -> dict[str, tuple[int, dict[int, bytes]]]:
        symbol, rng = function.symbol, self.rng
        if symbol == "cuCtxCreate_v4":
            data = struct.pack("<QiIQ", 0, 0, 0, 0)
            return {"ctxCreateParams": (self.buffer(data), {0: data})}
        if function.effect == Effect.LAUNCH:
            return self.launch(function)
        if function.effect == Effect.GRAPH_NODE:
            return self.graph_call(symbol)
        if "3DBatch" in symbol or symbol == "cuMemcpy3DWithAttributesAsync":
            return self.boxes(1 if symbol.endswith("AttributesAsync") else rng.choice([1, 3]))
        if symbol.startswith("cuMemcpyBatch"):
            return self.batch()
        if "Memcpy2D" in symbol or "Memcpy3D" in symbol:
            return {"pCopy": self.rows_copy("3D" in symbol)}
        if symbol in ("cuMemcpy", "cuMemcpyAsync", "cuMemcpyWithAttributesAsync"):
            size = rng.choice([1, 4096, 5000])
            data = rng.randbytes(size)
            return {
                "src": (self.buffer(data), {1: data}),
                "dst": (self.buffer(bytes(size)), {}),
                "size" if "Attributes" in symbol else "ByteCount": (size, {}),
            }
        if symbol in ("cuModuleGetGlobal", "cuModuleGetGlobal_v2"):
            return {"name": (self.buffer(b"counters\0"), {0: b"counters"})}
        if symbol in ("cuModuleGetFunction", "cuLibraryGetKernel"):
            out = function.parameters[0].name
            return {out: (self.buffer(bytes(8)), {})}
        if symbol in ("cuModuleLoad", "cuLibraryLoadFromFile"):
            name = function.parameters[1].name
            return {name: (self.buffer(b"/no/such/file\0"), {0: b"/no/such/file"})}
        if function.effect in (
            Effect.ALLOC,
            Effect.MANAGED_ALLOC,
            Effect.HOST_ALLOC,
            Effect.GLOBAL,
            Effect.IMPORT,
        ):
            return {function.parameters[0].name: (self.buffer(bytes(8)), {})}
        return {}

    def kernel(self, name: bytes) -> int:
        handle = ctypes.c_uint64()
        entry = self.driver.cuModuleGetFunction
        entry.argtypes = [ctypes.c_uint64] * 3  # as `invoke` leaves them
        entry(ctypes.addressof(handle), 77, self.buffer(name + b"\0"))
        return handle.value

    def launch(self, function: Function) -> dict[str, tuple[int, dict[int, bytes]]]:
        rng = self.rng
        handle = self.kernel(b"four_words")
        # The first launch of a handle says what the driver answers for the first ten attributes: the fake one fills
        # every output with one byte.
        attributes_of_kernel = b"".join(struct.pack("<iI", number, 0x50505050) for number in range(10))
        given: dict[str, tuple[int, dict[int, bytes]]] = {
            "f": (handle, {} if handle in self.launched else {1: attributes_of_kernel})
        }
        self.launched.add(handle)
        values = [rng.randbytes(8) for _ in range(4)]
        packed = b"".join(values)
        layout = struct.pack("<8I", 0, 8, 8, 8, 16, 8, 24, 8)
        has_extra = any(parameter.name == "extra" for parameter in function.parameters)
        if has_extra and rng.random() < 0.5:
            size = self.buffer(struct.pack("<Q", len(packed)))
            extra = self.buffer(struct.pack("<5Q", 1, self.buffer(packed), 2, size, 0))
            given["kernelParams"], given["extra"] = (0, {}), (extra, {0: packed})
        else:
            pointers = struct.pack("<4Q", *(self.buffer(value) for value in values))
            given["kernelParams"] = (self.buffer(pointers), {0: packed, 1: layout})
            if has_extra:
                given["extra"] = (0, {})
        if function.symbol == "cuLaunchKernelEx":
            count = rng.choice([0, 1, 3])
            attributes = rng.randbytes(72 * count)
            config = struct.pack("<7I4xQQI4x", 2, 1, 1, 32, 1, 1, 128, 0, self.buffer(attributes), count)
            given["config"] = (self.buffer(config), {0: config, **({1: attributes} if count else {})})
        return given

    def graph_call(self, symbol: str) -> dict[str, tuple[int, dict[int, bytes]]]:
        """Parameters for a node of an executable graph: as the application passes them, and as they are described."""
        rng, target, source = self.rng, self.buffer(bytes(4096)), self.buffer(bytes(4096))
        node, context = rng.randrange(2**20, 2**62), rng.randrange(2**20, 2**62)

        def given(name: str, kind: int, passed: bytes, parts: list[tuple[int, bytes]]) -> dict[str, Any]:
            whole = described.description(described.graph(described.node(node, kind, parts)), CURRENT_CONTEXT)
            return {"hNode": (node, {}), name: (self.buffer(passed), {1: whole})}

        copy = described.copy_3d(target, source, rng.randrange(1, 4096))
        fill = struct.pack("<QQIIQQ", target, 0, rng.randrange(256), 1, rng.randrange(1, 4096), 1)
        whole_copy = struct.pack("<iiQ", 0, 0, context) + copy
        if symbol.endswith(("RecordNodeSetEvent", "WaitNodeSetEvent")):
            kind, event = 6 if "Wait" in symbol else 7, rng.randrange(2**20, 2**62)
            parts = [(described.PARAMETERS, struct.pack("<Q", event))]
            return {"event": (event, given("", kind, b"", parts)[""][1]), "hNode": (node, {})}
        if symbol == "cuGraphExecMemcpyNodeSetParams":
            parts = [(described.PARAMETERS, whole_copy)]
            return given("copyParams", 1, copy, parts) | {"ctx": (context, {})}
        if symbol == "cuGraphExecMemsetNodeSetParams":
            parts = [(described.PARAMETERS, fill + struct.pack("<Q", context))]
            return given("memsetParams", 2, fill, parts) | {"ctx": (context, {})}
        if symbol == "cuGraphExecNodeSetParams":
            passed = struct.pack("<I12x", 1) + whole_copy + bytes(24)
            return given("nodeParams", 1, passed, [(described.PARAMETERS, whole_copy)])
        if symbol == "cuGraphExecHostNodeSetParams":
            host = struct.pack("<QQ", target, source)
            return given("nodeParams", 3, host, [(described.PARAMETERS, host)])
        if symbol == "cuGraphExecBatchMemOpNodeSetParams":
            operations = b"".join(
                struct.pack("<I4xQQI4xQQ", 2, target + 8 * n, rng.randrange(2**32), 0, 0, 0) for n in range(3)
            )
            batch = struct.pack("<QI4xQI4x", context, 3, self.buffer(operations), 0)
            parts = [(described.PARAMETERS, batch), (described.OPERATIONS, operations)]
            return given("nodeParams", 12, batch, parts)
        if symbol.startswith("cuGraphExecKernelNodeSetParams"):
            handle, values = self.kernel(b"four_words"), [rng.randbytes(8) for _ in range(4)]
            pointers = self.buffer(struct.pack("<4Q", *map(self.buffer, values)))
            second = symbol.endswith("_v2")
            passed = described.kernel_parameters(handle, 2, 32, pointers, context if second else 0)
            parts = [
                (described.PARAMETERS, passed),
                (described.NAME, b"four_words"),
                (described.BUFFER, b"".join(values)),
                (described.LAYOUT, struct.pack("<8I", 0, 8, 8, 8, 16, 8, 24, 8)),
                (described.KERNEL, b"".join(struct.pack("<iI", number, 0x50505050) for number in range(10))),
            ]
            return given("nodeParams", 0, passed if second else passed[:56], parts)
        return {}

    def batch(self) -> dict[str, tuple[int, dict[int, bytes]]]:
        """Copies out of pageable memory."""
        sizes = [self.rng.choice([1, 9, 5000]) for _ in range(self.rng.choice([1, 4]))]
        data = [self.rng.randbytes(size) for size in sizes]
        places = [self.buffer(item) for item in data]
        arrays = [
            struct.pack(f"<{len(sizes)}Q", *words) for words in ([0xABC000] * len(sizes), places, sizes)
        ]
        positions = struct.pack(f"<{len(sizes)}Q", *range(len(sizes)))
        return {
            "dsts": (self.buffer(arrays[0]), {0: arrays[0]}),
            "srcs": (self.buffer(arrays[1]), {0: arrays[1], 1: b"".join(data), 2: positions}),
            "sizes": (self.buffer(arrays[2]), {0: arrays[2]}),
            "count": (len(sizes), {}),
        }

    def boxes(self, count: int) -> dict[str, tuple[int, dict[int, bytes]]]:
        """Copies of boxes that lie in larger ones of pageable memory."""
        operations, packed = b"", b""
        for _ in range(count):
            width, height, depth = self.rng.choice([1, 16]), self.rng.choice([1, 5]), self.rng.choice([1, 3])
            pitch, rows = width + 3, height + 2
            image = self.rng.randbytes(pitch * rows * depth)
            packed += b"".join(
                image[(z * rows + line) * pitch :][:width] for z in range(depth) for line in range(height)
            )
            operations += struct.pack("<I4xQQQIi", 1, self.buffer(image), pitch, rows, 0, 0)
            operations += struct.pack("<I4xQQQIi", 1, 0xABC000, 0, 0, 0, 0)
            operations += struct.pack("<QQQII", width, height, depth, 1, 0)
        positions = struct.pack(f"<{count}Q", *range(count))
        given = (self.buffer(operations), {0: operations, 1: packed, 2: positions})
        return {"opList": given, "op": given, "numOps": (count, {})}

    def rows_copy(self, three: bool) -> tuple[int, dict[int, bytes]]:
        """Host rows to an array: source rows lie in a larger image."""
        rng = self.rng
        width, height, depth = (
            rng.choice([1, 16, 100]),
            rng.choice([1, 5, 60]),
            rng.choice([1, 3]) if three else 1,
        )
        x, y, pitch, rows = 3, 2, width + 3 + rng.choice([0, 13]), height + 2
        image = rng.randbytes(pitch * rows * depth)
        packed = b"".join(
            image[(z * rows + y + line) * pitch + x :][:width] for z in range(depth) for line in range(height)
        )
        host = self.buffer(image)
        if three:
            source = struct.pack("<QQQQI4xQQQQQQ", x, y, 0, 0, 1, host, 0, 0, 0, pitch, rows)
            target = struct.pack("<QQQQI4xQQQQQQ", 0, 0, 0, 0, 3, 0, 0, 0xABC, 0, 0, 0)
            data = source + target + struct.pack("<QQQ", width, height, depth)
        else:
            source = struct.pack("<QQI4xQQQQ", x, y, 1, host, 0, 0, pitch)
            target = struct.pack("<QQI4xQQQQ", 0, 0, 3, 0, 0, 0xABC, 0)
            data = source + target + struct.pack("<QQ", width, height)
        return self.buffer(data), {0: data, 1: packed}


def main() -> None:
    which, seed, output = sys.argv[1], int(sys.argv[2]), sys.argv[3]
    caller = Caller(seed)
    keep = Keep.ALWAYS if which == "always" else Keep.WINDOW
    rows = [function for function in functions.listed_functions() if function.keep == keep]
    caller.rng.shuffle(rows)
    caller.driver.cuInit(0)
    expected = []
    for function in rows:
        for symbol in filter(None, (function.symbol, function.twin)):
            expected.append(caller.call(function, symbol, caller.given_for(function)))
            if function.symbol == "cuMemcpy":  # the destination is pageable host memory, too
                words = expected[-1]["arguments"]
                expected[-1]["left"]["0,2"] = ctypes.string_at(words[0], words[2]).hex()
            expected[-1]["variable"] = function.effect == Effect.GLOBAL
            expected[-1]["imported"] = function.effect == Effect.IMPORT
            # A struct by value has no address that the caller knows.
            expected[-1]["unknown"] = [n for n, p in enumerate(function.parameters) if p.size_bytes > 8]
    with open(output, "w") as file:
        json.dump(expected, file)


main()
