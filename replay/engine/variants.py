"""Applies a variant to the calls of a snapshot before any of them is prepared: other images, JIT options, geometry.

Pure: calls go in, calls come out, and all the rest of the engine replays them as if they had been captured so. What a
variant comes to was decided, and its interface compared, by the command (`replay/variants/`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from replay.api import graphs, structs
from replay.api.functions import by_symbol
from replay.errors import EngineError
from replay.inspection.launches import KernelNames, LaunchedKernel, named_arguments
from replay.snapshot.schema import Attachment, Call

# function -> the input that is the image, in modules and in libraries
_MODULE_LOADS = {"cuModuleLoad": "fname.1", "cuModuleLoadData": "image", "cuModuleLoadDataEx": "image",
                 "cuModuleLoadFatBinary": "fatCubin"}  # fmt: skip
_LIBRARY_LOADS = {"cuLibraryLoadData": "code", "cuLibraryLoadFromFile": "fileName.1"}
_LOADS = {**_MODULE_LOADS, **_LIBRARY_LOADS}
_GETTERS = {"cuModuleGetFunction": "hmod", "cuLibraryGetKernel": "library"}
_GIVEN_OUT = ("module", "library", "pMod")  # outputs that are the handle
_ENUMERATORS = {"cuModuleEnumerateFunctions": "mod", "cuLibraryEnumerateKernels": "lib"}
_SHAPE = struct.Struct("<7I")  # grid, block, dynamic shared memory, as everywhere in the driver
_SHAPE_NAMES = tuple(
    name for name, *_ in structs.CUlaunchConfig._fields_[:7]
)  # as parameters of cuLaunchKernel, too
_NODE_SHAPE_OFFSET = 8  # in CUDA_KERNEL_NODE_PARAMS

# What a kernel may have without cuFuncSetAttribute: CUDA C++ Programming Guide, "Shared Memory"
_ALWAYS_ALLOWED_BYTES = 48 << 10
_MAXIMUM_DYNAMIC_SHARED = 8  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

# Captured handles of modules that no application loaded. No driver hands out such values: they are no addresses.
_BESIDE = 0xFFFF_FE00_0000_0000


@dataclass(frozen=True)
class Replacement:
    """The image `digest` of the snapshot makes room for `image`, to which the module's variables belong from then on.

    names: the kernels that come from it, captured -> new name. others: kernels that the new image lacks and that come
    from the captured one, loaded beside it. beside: the captured image stays that of the module, with its variables,
    and the new one is loaded beside it. Where several make room for one image, all of them are beside it.
    """

    digest: str
    new_digest: str
    image: bytes
    names: dict[str, str] = field(default_factory=dict)
    others: tuple[str, ...] = ()
    beside: bool = False

    @property
    def second(self) -> frozenset[str]:
        """Captured names of the kernels that come from the module beside the first."""
        return frozenset(self.names if self.beside else self.others)


@dataclass(frozen=True)
class Shape:
    """Another geometry for the launches of one kernel. what: grid, block or shared."""

    what: str
    kernel: LaunchedKernel
    value: tuple[int, int, int]


@dataclass(frozen=True)
class Changes:
    """What a variant changes. jit: CUjit_option and value, for every image that has to be compiled."""

    replacements: tuple[Replacement, ...] = ()
    jit: tuple[tuple[int, int], ...] = ()
    shapes: tuple[Shape, ...] = ()

    def images(self) -> dict[str, bytes]:
        """The new images by digest."""
        return {item.new_digest: item.image for item in self.replacements}


def read_changes(request: dict[str, Any] | None) -> Changes:
    """What the command asks for; the images are in files that it opened."""
    if not request:
        return Changes()
    replacements = [
        Replacement(
            item["digest"], item["new_digest"], os.pread(item["descriptor"], item["bytes"], 0), item["names"],
            tuple(item["others"]), item["beside"],
        )
        for item in request["replacements"]
    ]  # fmt: skip
    shapes = [
        Shape(item["what"], LaunchedKernel(item["name"], item["image"]), tuple(item["value"]))
        for item in request["shapes"]
    ]
    return Changes(tuple(replacements), tuple((a, b) for a, b in request["jit"]), tuple(shapes))


def apply(calls: Iterable[Call], changes: Changes) -> list[Call]:
    """The calls of setup and window, in order, as the variant wants them. Raises EngineError."""
    return list(_Rewriting(changes).run(calls)) if changes != Changes() else list(calls)


class _Rewriting:
    """A fold over the calls that knows which handle is a module of which image, and which kernel of which name."""

    def __init__(self, changes: Changes) -> None:
        self._jit = changes.jit
        self._replacements: dict[str, list[Replacement]] = {}
        for item in changes.replacements:
            self._replacements.setdefault(item.digest, []).append(item)
        self._shapes: dict[LaunchedKernel, list[Shape]] = {}
        for shape in changes.shapes:
            self._shapes.setdefault(shape.kernel, []).append(shape)
        self._owners: dict[int, list[Replacement]] = {}  # module or library -> what its image makes room for
        self._beside: dict[
            tuple[int, str], int
        ] = {}  # of a module or library, for each new image: the one beside it
        self._given_out = 0
        self._names = KernelNames()

    def run(self, calls: Iterable[Call]) -> Iterator[Call]:
        table = by_symbol()
        for call in calls:
            row = table.get(call.function)
            if row is None:
                yield call
                continue
            arguments = named_arguments(call, (parameter.name for parameter in row.parameters))
            self._names.follow(call, arguments)
            if call.function in _LOADS:
                yield from self._load(call)
            elif call.function == "cuLibraryGetModule":
                yield from self._module_of_library(call, arguments)
            elif call.function in _GETTERS:
                yield self._function(call, arguments)
                yield from self._allowed(call)
            elif call.function in _ENUMERATORS and arguments.get(_ENUMERATORS[call.function]) in self._owners:
                raise EngineError(
                    "the application got the kernels of this module by counting them, which a swap may change",
                    where=f"call {call.number} {call.function}", next="swap an image whose kernels are got by name",
                )  # fmt: skip
            else:
                yield self._reshape(call, arguments)

    # -- images -------------------------------------------------------------------------------------------------

    def _load(self, call: Call) -> Iterator[Call]:
        image = image_of(call)
        handle = given_out(call)
        self._owners.pop(handle, None)
        replacements = self._replacements.get(image) if isinstance(image, str) else None
        captured = _with_image(call, None, self._jit) if self._jit else call
        if not replacements or call.result != 0:
            yield captured
            return
        self._owners[handle] = replacements
        first = replacements[0]
        yield captured if first.beside else _with_image(call, first.new_digest, self._jit)
        for item in replacements:
            if item.second:
                new = _with_image(call, item.new_digest, self._jit)
                yield self._second(new if item.beside else captured, handle, item)

    def _second(self, call: Call, handle: int, replacement: Replacement) -> Call:
        """The same call once more, giving out a handle of its own."""
        self._given_out += 1
        beside = self._beside[handle, replacement.new_digest] = _BESIDE + self._given_out
        outputs: dict[str, Attachment] = {
            name: beside.to_bytes(8, "little") for name in _GIVEN_OUT if name in call.outputs
        }
        return replace(call, outputs=outputs, gpu_ns=None)

    def _module_of_library(self, call: Call, arguments: dict[str, int]) -> Iterator[Call]:
        yield call
        library = arguments.get("library", 0)
        if library not in self._owners or call.result != 0:
            return
        handle = given_out(call)
        self._owners[handle] = self._owners[library]
        place = _position(call.function, "library")
        for item in self._owners[library]:
            if item.second:
                second = self._second(call, handle, item)
                beside = self._beside[library, item.new_digest]
                yield replace(second, arguments=_put(call.arguments, place, beside))

    def _function(self, call: Call, arguments: dict[str, int]) -> Call:
        owner = arguments.get(_GETTERS[call.function], 0)
        source = call.inputs.get("name")
        if owner not in self._owners or not isinstance(source, bytes):
            return call
        name = source.rstrip(b"\0").decode("utf-8", "replace")
        for item in self._owners[owner]:
            if name in item.names:
                call = replace(call, inputs={**call.inputs, "name": item.names[name].encode()})
            if name in item.second:
                place = _position(call.function, _GETTERS[call.function])
                call = replace(
                    call, arguments=_put(call.arguments, place, self._beside[owner, item.new_digest])
                )
        return call

    def _allowed(self, call: Call) -> Iterator[Call]:
        """A kernel that gets more shared memory than every kernel may have must have been allowed it first."""
        given = next((name for name in ("hfunc", "pKernel") if name in call.outputs), "")
        data = call.outputs.get(given)
        handle = int.from_bytes(data, "little") if isinstance(data, bytes) else 0
        shapes = self._shapes.get(self._names.kernel(handle), ()) if call.result == 0 else ()
        for shape in shapes:
            if shape.what == "shared" and shape.value[0] > _ALWAYS_ALLOWED_BYTES:
                words = [handle, _MAXIMUM_DYNAMIC_SHARED, shape.value[0]]
                function = "cuFuncSetAttribute"
                if given == "pKernel":
                    function, words = "cuKernelSetAttribute", [*words[1:], handle, 0]
                yield replace(call, function=function, arguments=words, inputs={}, outputs={})

    # -- geometry -----------------------------------------------------------------------------------------------

    def _reshape(self, call: Call, arguments: dict[str, int]) -> Call:
        if not self._shapes:
            return call
        key = graphs.DESCRIBED.get(call.function)
        description = call.inputs.get(key) if key else None
        if key and isinstance(description, bytes):
            return replace(call, inputs={**call.inputs, key: self._described(call, description)})
        shapes = self._shapes.get(self._names.kernel(arguments.get("f", 0))) if "f" in arguments else None
        if not shapes:
            return call
        for name, offset in (("config", 0), ("config.0", 0), ("f.3", 0)):
            data = call.inputs.get(name)
            if isinstance(data, bytes) and len(data) >= offset + _SHAPE.size:
                inputs = {**call.inputs, name: reshaped(data, offset, shapes)}
                return replace(call, inputs=inputs)
        words = _SHAPE.pack(*(arguments.get(name, 0) for name in _SHAPE_NAMES))
        values = dict(zip(_SHAPE_NAMES, _SHAPE.unpack(reshaped(words, 0, shapes)), strict=True))
        row = by_symbol()[call.function].parameters
        changed = [
            values.get(parameter.name, word) for parameter, word in zip(row, call.arguments, strict=False)
        ]
        return replace(call, arguments=changed)

    def _described(self, call: Call, data: bytes) -> bytes:
        """The description of a graph with other shapes in its kernel nodes."""
        try:
            nodes = list(graphs.parse_description(data).graph.all_nodes())
        except ValueError as error:
            raise EngineError(str(error), where=f"call {call.number} {call.function}") from None
        for node in nodes:
            if node.type != graphs.NodeType.KERNEL or not node.parameters:
                continue
            shapes = self._shapes.get(self._names.kernel(node.function[1]), [])
            changed = reshaped(node.parameters, _NODE_SHAPE_OFFSET, shapes)
            # Equal parameters are equal nodes: handle of the function, shape, and addresses of this process.
            data = data.replace(node.parameters, changed)
        return data


def reshaped(data: bytes, offset: int, shapes: Iterable[Shape]) -> bytes:
    """Bytes that hold a grid, a block and the shared memory from `offset` on, with other values."""
    words = list(_SHAPE.unpack_from(data, offset))
    for shape in shapes:
        if shape.what == "shared":
            words[6] = shape.value[0]
        else:
            start = 0 if shape.what == "grid" else 3
            words[start : start + 3] = shape.value
    return data[:offset] + _SHAPE.pack(*words) + data[offset + _SHAPE.size :]


def reshaped_geometry(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, shapes: Iterable[Shape]
) -> dict[str, Any]:
    """`grid`, `block` and `shared_bytes` of a launch as the shapes make them."""
    words = _SHAPE.unpack(reshaped(_SHAPE.pack(*grid, *block, shared_bytes), 0, shapes))
    return {"grid": words[:3], "block": words[3:6], "shared_bytes": words[6]}


def _with_image(call: Call, digest: str | None, jit: tuple[tuple[int, int], ...]) -> Call:
    """A call that loads an image, as the one that takes options, with another image (None: its own) and options."""
    key = _LOADS[call.function]
    image = digest if digest is not None else call.inputs.get(key, call.inputs.get(f"{key}.0", b""))
    words = dict(zip((p.name for p in by_symbol()[call.function].parameters), call.arguments, strict=True))
    if call.function in _MODULE_LOADS:
        function, names, place, handle = (
            "cuModuleLoadDataEx",
            ("options", "optionValues", "numOptions"),
            "image",
            "module",
        )
    else:
        names = ("jitOptions", "jitOptionsValues", "numJitOptions")
        function, place, handle = "cuLibraryLoadData", "code", "library"
    keys, values = (call.inputs.get(name, b"") for name in names[:2])
    options = dict(zip(_words("<I", keys), _words("<Q", values), strict=False)) | dict(jit)
    given = {handle: words.get(handle, 1), place: 1, names[0]: 1, names[1]: 1, names[2]: len(options)}
    kept = {name: value for name, value in call.inputs.items() if name.startswith("libraryOption")}
    parts = {} if digest is not None else {
        f"{place}.{name.rpartition('.')[2]}": value for name, value in call.inputs.items()
        if name.startswith(f"{key}.") and name != f"{key}.0" and key.count(".") == 0
    }  # fmt: skip
    inputs: dict[str, Attachment] = {
        **kept, **parts, place: image,
        names[0]: b"".join(struct.pack("<I", option) for option in options),
        names[1]: b"".join(struct.pack("<Q", value) for value in options.values()),
    }  # fmt: skip
    row = by_symbol()[function].parameters
    return replace(
        call,
        function=function,
        arguments=[given.get(item.name, words.get(item.name, 0)) for item in row],
        inputs=inputs,
    )


def loads_image(call: Call) -> bool:
    """Whether a call loads a module or a library, and did so in the application."""
    return call.function in _LOADS and call.result == 0


def is_library_load(call: Call) -> bool:
    """Whether a call that loads an image makes a library of it."""
    return call.function in _LIBRARY_LOADS


def image_of(call: Call) -> Attachment | None:
    """What a call loads: the digest of an image."""
    key = _LOADS[call.function]
    return call.inputs.get(key, call.inputs.get(f"{key}.0"))


def _words(form: str, data: Attachment) -> list[int]:
    size = struct.calcsize(form)
    return (
        [word for (word,) in struct.iter_unpack(form, data[: len(data) // size * size])]
        if isinstance(data, bytes)
        else []
    )


def given_out(call: Call) -> int:
    """The captured handle of the module or library that a call loaded or named; 0 when it is not known."""
    data = next((call.outputs[name] for name in _GIVEN_OUT if name in call.outputs), b"")
    return int.from_bytes(data[:8], "little") if isinstance(data, bytes) else 0


def _position(function: str, parameter: str) -> int:
    return next(i for i, item in enumerate(by_symbol()[function].parameters) if item.name == parameter)


def _put(words: list[int], place: int, value: int) -> list[int]:
    return [*words[:place], value, *words[place + 1 :]]
