"""Applies a variant to the calls of a snapshot before any of them is prepared: other images, JIT options, geometry.

Pure: calls go in, calls come out, and all the rest of the engine replays them like captured ones. What a
variant changes was decided, and its interface compared, by the command (`replay/variants/`).
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Iterator
from dataclasses import field, replace
from typing import Any

from replay.api import graphs
from replay.api.functions import by_symbol
from replay.api.parts import find_part, find_struct, part_key, split_key
from replay.api.structs import SHAPE_FIELDS, CUlaunchConfig, geometry
from replay.api.vocabulary import LOADED_TYPES
from replay.errors import EngineError
from replay.inspection.launches import KernelNames, LaunchedKernel, named_arguments
from replay.records import dataclass
from replay.snapshot.schema import Attachment, Call

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
        # Of a module or library, for each new image: the one beside it
        self._beside: dict[tuple[int, str], int] = {}
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
            owner = row.owner
            if row.image_input:
                yield from self._load(call)
            elif row.gives is not None and row.gives.element == "CUmodule" and owner is not None:
                yield from self._module_of_library(call, arguments)
            elif row.gives_kernels and owner is not None and row.text is not None:
                yield self._function(call, owner.name, arguments)
                yield from self._allowed(call)
            elif row.gives_kernels and owner is not None and arguments.get(owner.name) in self._owners:
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
            name: beside.to_bytes(8, "little") for name in call.outputs if name == _given_name(call)
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

    def _function(self, call: Call, place: str, arguments: dict[str, int]) -> Call:
        """place: the parameter that is the module or library."""
        owner = arguments.get(place, 0)
        source = call.inputs.get("name")
        if owner not in self._owners or not isinstance(source, bytes):
            return call
        name = source.rstrip(b"\0").decode("utf-8", "replace")
        for item in self._owners[owner]:
            if name in item.names:
                call = replace(call, inputs={**call.inputs, "name": item.names[name].encode()})
            if name in item.second:
                beside = self._beside[owner, item.new_digest]
                call = replace(call, arguments=_put(call.arguments, _position(call.function, place), beside))
        return call

    def _allowed(self, call: Call) -> Iterator[Call]:
        """A kernel that gets more shared memory than every kernel may have must have been allowed it first."""
        handle = given_out(call)
        shapes = self._shapes.get(self._names.kernel(handle), ()) if call.result == 0 else ()
        for shape in shapes:
            if shape.what == "shared" and shape.value[0] > _ALWAYS_ALLOWED_BYTES:
                words = [handle, _MAXIMUM_DYNAMIC_SHARED, shape.value[0]]
                function = "cuFuncSetAttribute"
                if by_symbol()[call.function].takes("CUlibrary"):
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
        return with_shapes(call, shapes)

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
            changed = bytes(reshaped(node.fields, shapes))
            # Equal parameters are equal nodes: handle of the function, shape, and addresses of this process.
            data = data.replace(node.parameters, changed)
        return data


def with_shapes(call: Call, shapes: Iterable[Shape]) -> Call:
    """The launch of a kernel with another geometry."""
    config = find_struct(call.inputs, "config", CUlaunchConfig)
    if config is not None:
        return replace(call, inputs={**call.inputs, part_key("config", 0): bytes(reshaped(config, shapes))})
    row = by_symbol()[call.function].parameters
    arguments = named_arguments(call, (parameter.name for parameter in row))
    config = reshaped(CUlaunchConfig(*(arguments.get(name, 0) for name in SHAPE_FIELDS)), shapes)
    changed = [
        getattr(config, parameter.name) if parameter.name in SHAPE_FIELDS else word
        for parameter, word in zip(row, call.arguments, strict=False)
    ]
    return replace(call, arguments=changed)


def reshaped(given: Any, shapes: Iterable[Shape]) -> Any:
    """A copy of a struct that has a geometry, with another one."""
    made = type(given).from_buffer_copy(given)
    for shape in shapes:
        if shape.what == "shared":
            made.sharedMemBytes = shape.value[0]
        else:
            for axis, value in zip("XYZ", shape.value, strict=True):
                setattr(made, f"{shape.what}Dim{axis}", value)
    return made


def reshaped_geometry(
    grid: tuple[int, int, int], block: tuple[int, int, int], shared_bytes: int, shapes: Iterable[Shape]
) -> dict[str, Any]:
    """`grid`, `block` and `shared_bytes` of a launch as the shapes make them."""
    made = geometry(reshaped(CUlaunchConfig(*grid, *block, shared_bytes), shapes))
    return dict(zip(("grid", "block", "shared_bytes"), made, strict=True))


def _with_image(call: Call, digest: str | None, jit: tuple[tuple[int, int], ...]) -> Call:
    """A call that loads an image, as the one that takes options, with another image (None: its own) and options."""
    loader = by_symbol()[call.function]
    key = loader.image_input
    image = digest if digest is not None else find_part(call.inputs, key) or b""
    words = dict(zip((p.name for p in loader.parameters), call.arguments, strict=True))
    if loader.creates == "CUmodule":
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
        part_key(place, number): value for name, value in call.inputs.items()
        for parameter, number in (split_key(name),) if parameter == key and number
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
    row = by_symbol().get(call.function)
    return row is not None and row.creates in LOADED_TYPES and call.result == 0


def is_library_load(call: Call) -> bool:
    """Whether a call that loads an image makes a library of it."""
    return by_symbol()[call.function].creates == "CUlibrary"


def image_of(call: Call) -> Attachment | None:
    """What a call loads: the digest of an image."""
    return find_part(call.inputs, by_symbol()[call.function].image_input)


def _words(form: str, data: Attachment) -> list[int]:
    size = struct.calcsize(form)
    return (
        [word for (word,) in struct.iter_unpack(form, data[: len(data) // size * size])]
        if isinstance(data, bytes)
        else []
    )


def given_out(call: Call) -> int:
    """The captured handle that a call gave out; 0 when it is not known."""
    data = call.outputs.get(_given_name(call), b"")
    return int.from_bytes(data[:8], "little") if isinstance(data, bytes) else 0


def _given_name(call: Call) -> str:
    given = by_symbol()[call.function].gives
    return given.name if given is not None else ""


def _position(function: str, parameter: str) -> int:
    return next(i for i, item in enumerate(by_symbol()[function].parameters) if item.name == parameter)


def _put(words: list[int], place: int, value: int) -> list[int]:
    return [*words[:place], value, *words[place + 1 :]]
