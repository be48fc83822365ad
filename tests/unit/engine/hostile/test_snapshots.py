"""Snapshots that somebody made to reach memory of whoever replays them: `run` and `export` refuse each, and name the
call and the argument."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import graph_descriptions as written
import pytest

from replay.api import structs
from replay.api.functions import by_symbol
from replay.api.graphs import NodeType
from replay.errors import EngineError, ReplayError
from replay.export.plan import plan_export
from replay.snapshot.container import SnapshotReader

from ...helpers.small_snapshots import BASE, increment, u64
from ...helpers.snapshot_factory import CONTEXT, SnapshotFactory

PINNED, OTHER, PINNED_BYTES = 0x3600_0000_0000, 0x3600_0100_0000, 8192
STREAM, GRAPH = 0x51, 0x61
HERE, AWAY = 1 << 12, 1 << 30


def copy_3d(**fields: int) -> bytes:
    copy = structs.CUDA_MEMCPY3D(WidthInBytes=16, Height=1, Depth=1, srcPitch=16, dstPitch=16)
    for name, value in fields.items():
        setattr(copy, name, value)
    return bytes(copy)


def to_pinned(**fields: int) -> bytes:
    """From device memory, which is as it should be, into pinned memory."""
    words = {"srcMemoryType": 2, "srcDevice": BASE, "dstMemoryType": 1, "dstHost": PINNED, "WidthInBytes": 4}
    return copy_3d(**{**words, **fields})


def from_pinned(**fields: int) -> bytes:
    words = {"dstMemoryType": 2, "dstDevice": BASE, "srcMemoryType": 1, "srcHost": PINNED, "WidthInBytes": 4}
    return copy_3d(**{**words, **fields})


def three_dimensions(data: bytes) -> Callable[[SnapshotFactory], None]:
    return lambda factory: void(factory.call("cuMemcpy3D_v2", [1], inputs={"pCopy.0": data}))


def void(_: object) -> None:
    """Forget the call that a factory gives back."""


def two_dimensions(factory: SnapshotFactory) -> None:
    copy = structs.CUDA_MEMCPY2D(
        srcMemoryType=4, srcDevice=PINNED, srcPitch=1 << 20, dstMemoryType=2, dstDevice=BASE, dstPitch=4,
        WidthInBytes=4, Height=1 << 10,
    )  # fmt: skip
    factory.call("cuMemcpy2D_v2", [1], inputs={"pCopy.0": bytes(copy)})


def linear(function: str, *arguments: int, **attachments: bytes) -> Callable[[SnapshotFactory], None]:
    return lambda factory: void(factory.call(function, list(arguments), inputs=dict(attachments)))


def batch(factory: SnapshotFactory) -> None:
    inputs = {
        "dsts": u64(BASE),
        "srcs": u64(PINNED),
        "sizes": u64(AWAY),
        "attrs": bytes(24),
        "attrsIdxs": u64(0),
    }
    inputs["attrs"] = struct.pack("<I", 1).ljust(24, b"\0")
    factory.call("cuMemcpyBatchAsync", [1, 1, 1, 1, 1, 1, 1, 0, STREAM], inputs=inputs)


def boxes(factory: SnapshotFactory) -> None:
    side = struct.pack("<I4xQQQIi", 1, PINNED, AWAY, 4, 0, 0)
    target = struct.pack("<I4xQQQIi", 1, BASE, 0, 0, 0, 0)
    box = (side + target + struct.pack("<3Q", 4, 2, 1)).ljust(112, b"\0")
    factory.call("cuMemcpy3DBatchAsync_v2", [1, 1, 0, STREAM], inputs={"opList": box})


def node(kind: NodeType, parameters: bytes) -> Callable[[SnapshotFactory], None]:
    def add(factory: SnapshotFactory) -> None:
        parts = [(written.PARAMETERS, parameters)]
        description = written.description(written.graph(written.node(1, kind, parts)))
        factory.call(
            "cuGraphInstantiateWithFlags", [1, 2, 0],
            inputs={"hGraph.1": description}, outputs={"phGraphExec": u64(GRAPH)},
        )  # fmt: skip
        factory.call("cuGraphLaunch", [GRAPH, 0])

    return add


def operation(kind: int, address: int) -> Callable[[SnapshotFactory], None]:
    data = struct.pack("<I4xQQ", kind, address, 1).ljust(48, b"\0")
    return linear("cuStreamBatchMemOp_v2", 0, 1, 1, 0, paramArray=data)


def wrapper(factory: SnapshotFactory) -> None:
    image = factory.image(struct.pack("<IIQQ", 0x466243B1, 1, PINNED, 0))
    factory.call("cuModuleLoadData", [1, 2], inputs={"image": image}, outputs={"module": u64(0xD7)})


_COPY_NODE = bytes(16)  # flags, reserved, context, in front of CUDA_MEMCPY3D
_FILL = struct.pack("<QQIIQQQ", BASE, 1 << 20, 0, 1, 4, 1 << 10, 0)

# name -> what is added to the window, and what the refusal says
HOSTILE: dict[str, tuple[Callable[[SnapshotFactory], None], str]] = {
    "target-x": (three_dimensions(to_pinned(dstXInBytes=AWAY)), "cuMemcpy3D_v2.*pCopy->dstHost"),
    "target-z": (three_dimensions(to_pinned(dstZ=3, dstPitch=1 << 20, dstHeight=1)), "3D_v2.*dstHost"),
    "target-depth": (
        three_dimensions(to_pinned(Depth=1 << 8, dstPitch=1 << 16, dstHeight=1, srcPitch=4, srcHeight=1)),
        "cuMemcpy3D_v2.*pCopy->dstHost",
    ),
    "source-x": (three_dimensions(from_pinned(srcXInBytes=AWAY)), "cuMemcpy3D_v2.*pCopy->srcHost"),
    "source-y-overflow": (
        three_dimensions(from_pinned(srcY=1 << 63, srcPitch=2)), "cuMemcpy3D_v2.*pCopy->srcHost"
    ),
    "pitch": (two_dimensions, "cuMemcpy2D_v2.*pCopy->srcDevice"),
    "batch": (batch, "cuMemcpyBatchAsync.*srcs"),
    "batch-of-boxes": (boxes, "cuMemcpy3DBatchAsync_v2.*opList.*src"),
    "copy-node": (
        node(NodeType.MEMCPY, _COPY_NODE + from_pinned(srcXInBytes=AWAY)), "srcHost of a memcpy node"
    ),
    "fill-node": (node(NodeType.MEMSET, _FILL), "dst of a memset node"),
    "two-spans": (linear("cuMemcpyDtoH_v2", PINNED, BASE, OTHER - PINNED + 64), "cuMemcpyDtoH_v2.*dstHost"),
    "short-attachment": (
        linear("cuMemcpyHtoD_v2", BASE, 0x7F00_0000, AWAY, srcHost=b"four"), "cuMemcpyHtoD_v2.*srcHost"
    ),
    "end-of-a-span": (linear("cuMemsetD8_v2", BASE + (2 << 20), 1, 16), "cuMemsetD8_v2.*dstDevice"),
    "rows-of-a-fill": (
        linear("cuMemsetD2D8_v2", BASE, 1 << 20, 1, 4, 1 << 10), "cuMemsetD2D8_v2.*dstDevice"
    ),
    "value": (operation(2, BASE + (2 << 20)), "cuStreamBatchMemOp_v2.*operation 0"),
    "unknown-operation": (operation(8, PINNED), "cuStreamBatchMemOp_v2.*operation 8"),
    "pointers-for-an-image": (wrapper, "cuModuleLoadData.*pointers of another process"),
}  # fmt: skip


def hostile(name: str) -> SnapshotFactory:
    factory = increment()
    for address in (PINNED, OTHER):
        factory.range(address, bytes(PINNED_BYTES), bytes(PINNED_BYTES), kind="host")
    factory.call("cuStreamCreate", [1, 1], section="setup", outputs={"phStream": u64(STREAM)})
    HOSTILE[name][0](factory)
    return factory


@pytest.mark.parametrize("name", HOSTILE)
def test_export_refuses_it(name: str, tmp_path: Path) -> None:
    with (
        SnapshotReader(hostile(name).write(tmp_path / "x.rsnap")) as reader,
        pytest.raises(EngineError, match=f"(?s){HOSTILE[name][1]}|is not exported"),
    ):
        plan_export(reader)


@pytest.mark.parametrize("name", HOSTILE)
def test_run_refuses_it(name: str, replayed: Callable[..., object]) -> None:
    with pytest.raises(ReplayError, match=f"(?s){HOSTILE[name][1]}"):
        replayed(hostile(name), timing=None)


@pytest.mark.parametrize(
    "function", ["cuDevicePrimaryCtxRetain", "cuCtxSetCurrent", "cuCtxSetLimit", "cuMemcpyHtoD_v2"]
)
@pytest.mark.parametrize("section", ["setup", "window"])
def test_a_call_without_arguments_is_refused_or_left_out(
    function: str, section: Literal["setup", "window"], tmp_path: Path, replayed: Callable[..., object]
) -> None:
    factory = increment()
    words = [1] * len(by_symbol()[function].parameters)
    whole = factory.call(function, words, section=section, outputs={"pctx": u64(CONTEXT)})
    factory.calls[-1] = replace(whole, arguments=[])
    path = factory.write(tmp_path / "x.rsnap")
    with (
        SnapshotReader(path) as reader,
        pytest.raises(EngineError, match=f"has 0 arguments, {function} takes"),
    ):
        plan_export(reader)
    with pytest.raises(ReplayError, match=f"has 0 arguments, {function} takes"):
        replayed(factory, timing=None)
    result = replayed(factory, timing=None, best_effort=True)
    assert any("has 0 arguments" in note for note in result.notes)  # type: ignore[attr-defined]
    assert result.verification.verdict == "match"  # type: ignore[attr-defined]


def test_the_same_snapshot_without_a_hostile_call_replays(replayed: Callable[..., object]) -> None:
    HOSTILE["none"] = (three_dimensions(to_pinned(dstXInBytes=HERE, dstPitch=PINNED_BYTES)), "")
    try:
        factory = hostile("none")
    finally:
        del HOSTILE["none"]
    outcome = replayed(factory, timing=None).verification  # type: ignore[attr-defined]
    assert (outcome.verdict, outcome.differing_bytes) == (
        "wrong",
        1,
    )  # what it copied, which no capture had seen


def test_host_memory_as_large_as_the_address_space_ends_an_export(tmp_path: Path) -> None:
    """Every buffer of the exporting process lies at a captured address then."""
    factory = SnapshotFactory()
    factory.call("cuDevicePrimaryCtxRetain", [1, 0], section="setup", outputs={"pctx": u64(CONTEXT)})
    factory.range(BASE, bytes(4), b"four")
    for address in (0x5000_0000_0000, 0x6000_0000_0000, 0x7000_0000_0000):
        factory.range(address, None, None, kind="host", size_bytes=1 << 44)
    factory.call("cuMemcpyHtoD_v2", [BASE, 0x1000, 4], inputs={"srcHost": b"four"})
    path = factory.write(tmp_path / "x.rsnap")
    with SnapshotReader(path) as reader, pytest.raises(EngineError, match="lies at"):
        plan_export(reader)
