"""Calls as people read them, and the struct layouts that this needs."""

from __future__ import annotations

import ctypes
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from replay.api import structs
from replay.api.functions import listed_functions
from replay.api.launch_attributes import describe_attributes
from replay.inspection.readable import describe, result_name
from replay.snapshot.schema import Call, Contents

from ..helpers.raw_writer import word


def call(function, arguments, result=0, **words):
    return Call(1, function, "window", 1, arguments, result, **words)


def test_struct_sizes_are_those_of_the_headers():
    facts, checked = structs.facts(), 0
    for structure, (size, _, fields) in facts["structs"].items():
        made = getattr(structs, structure)
        assert ctypes.sizeof(made) == size
        assert all(getattr(made, name).offset == offset for name, offset, *_ in fields if name)
        for name in (f"{structure} *", f"const {structure} *"):
            if name in facts["types"]:
                assert facts["types"][name][2] == size, name
                checked += 1
    assert checked >= 20
    assert ctypes.sizeof(structs.CUtensorMap) == structs.TENSOR_MAP_BYTES


def test_a_name_that_is_no_field_is_refused():
    with pytest.raises(AttributeError):
        structs.CUlaunchConfig().stream = 1
    with pytest.raises(AttributeError, match="no struct CUnothing"):
        structs.CUnothing  # noqa: B018


CONFIG = struct.pack("<7I4xQQI4x", 1, 2, 3, 4, 5, 6, 7, 1, 0xDEAD, 1)
CLUSTER = struct.pack("<I4x3I52x", 4, 2, 1, 1)
COPY = struct.pack("<QQIxxxxQQQQQQIxxxxQQQQQQ", 0, 0, 1, 0xAA, 0, 0, 520, 0, 0, 2, 0, 0xBB, 0, 1024, 520, 150)

READABLE = [
    (
        call("cuMemAlloc_v2", [0x7FFF, 1024], outputs={"dptr": word(0x7F0000)}),
        "cuMemAlloc_v2(dptr=[0x7f0000], bytesize=1024) -> SUCCESS",
    ),
    (
        call("cuModuleGetFunction", [1, 0x55, 2], 500, inputs={"name": b"add\x1b[2J"}),
        'cuModuleGetFunction(hfunc=0x1, hmod=0x55, name="add\\x1b[2J") -> CUDA_ERROR_NOT_FOUND',
    ),
    (
        call("cuStreamSynchronize", [2], None, per_thread=True),
        "cuStreamSynchronize_ptsz(hStream=CU_STREAM_PER_THREAD) -> did not return",
    ),
    (
        call(
            "cuLaunchKernelEx",
            [1, 2, 3, 0],
            inputs={"config.0": CONFIG, "config.1": CLUSTER, "kernelParams.0": bytes(12)},
        ),
        (
            "cuLaunchKernelEx(config={grid 1x2x3, block 4x5x6, shared 7, stream CU_STREAM_LEGACY, "
            "CLUSTER_DIMENSION 2x1x1}, f=0x2, kernelParams=<12 bytes>, extra=NULL) -> SUCCESS"
        ),
    ),
    (
        call("cuMemcpy2D_v2", [1], inputs={"pCopy.0": COPY}),
        "cuMemcpy2D_v2(pCopy={dst device 0xbb pitch 1024, src host 0xaa pitch 520, 520x150}) -> SUCCESS",
    ),
    (
        call("cuMemcpyHtoD_v2", [0xA0, 0xB0, 9], inputs={"srcHost": Contents(0, b"")}),
        "cuMemcpyHtoD_v2(dstDevice=0xa0, srcHost=0xb0 <0 bytes>, ByteCount=9) -> SUCCESS",
    ),
    (
        call("cuModuleLoadData", [1, 2], inputs={"image": "0123456789abcdef"}),
        "cuModuleLoadData(module=0x1, image=image 0123456789ab) -> SUCCESS",
    ),
    (call("cuNotThere", [1, 255], 12345), "cuNotThere(0x1, 0xff) -> CUresult 12345"),
    (call("cuMemsetD32_v2", [0xA0], 1), "cuMemsetD32_v2(dstDevice=0xa0) -> CUDA_ERROR_INVALID_VALUE"),
]


@pytest.mark.parametrize(("value", "expected"), READABLE, ids=lambda value: getattr(value, "function", ""))
def test_calls_read_like_code(value, expected):
    assert describe(value) == expected


def test_results_have_their_names():
    assert result_name(0) == "SUCCESS"
    assert result_name(700) == "CUDA_ERROR_ILLEGAL_ADDRESS"
    assert result_name(None) == "did not return"
    assert result_name(-5) == "CUresult -5"


attachments = st.one_of(st.binary(max_size=300), st.text(max_size=20), st.just(Contents(0, b"")))


@settings(deadline=None)
@given(st.data())
def test_no_call_that_a_stranger_made_up_breaks_the_listing(data):
    function = data.draw(st.sampled_from(listed_functions()))
    names = [parameter.name for parameter in function.parameters]
    keys = st.sampled_from([f"{name}{suffix}" for name in names for suffix in ("", ".0", ".1")] or ["x"])
    made_up = call(
        function.symbol,
        data.draw(st.lists(st.integers(0, 2**64 - 1), max_size=len(names) + 2)),
        data.draw(st.integers(-(2**31), 2**31)),
        inputs=data.draw(st.dictionaries(keys, attachments, max_size=4)),
        outputs=data.draw(st.dictionaries(keys, attachments, max_size=4)),
    )
    assert describe(made_up).isprintable()


ATTRIBUTES = [
    (0, b"", "IGNORE"),
    (
        1,
        struct.pack("<QQfII", 0x7F00, 4096, 0.25, 2, 0),
        "ACCESS_POLICY_WINDOW 0x7f00 4096 bytes hit 0.25 PERSISTING miss NORMAL",
    ),
    (2, word(1), "COOPERATIVE 1"),
    (3, word(4), "SYNCHRONIZATION_POLICY BLOCKING_SYNC"),
    (4, struct.pack("<3I", 4, 2, 1), "CLUSTER_DIMENSION 4x2x1"),
    (5, word(2), "CLUSTER_SCHEDULING_POLICY_PREFERENCE LOAD_BALANCING"),
    (6, word(1), "PROGRAMMATIC_STREAM_SERIALIZATION 1"),
    (7, struct.pack("<Qii", 0xE0, 0, 1), "PROGRAMMATIC_EVENT 0xe0 flags 0 at block start"),
    (8, struct.pack("<i", -3), "PRIORITY -3"),
    (9, bytes((1, 2)), "MEM_SYNC_DOMAIN_MAP default 1 remote 2"),
    (10, word(1), "MEM_SYNC_DOMAIN REMOTE"),
    (11, struct.pack("<3I", 8, 2, 1), "PREFERRED_CLUSTER_DIMENSION 8x2x1"),
    (12, struct.pack("<Qi", 0xE8, 1), "LAUNCH_COMPLETION_EVENT 0xe8 flags 1"),
    (13, word(1), "DEVICE_UPDATABLE_KERNEL_NODE 1"),
    (14, word(75), "PREFERRED_SHARED_MEMORY_CARVEOUT 75"),
    (16, word(1), "NVLINK_UTIL_CENTRIC_SCHEDULING 1"),
    (17, word(2), "PORTABLE_CLUSTER_SIZE_MODE ALLOW_NON_PORTABLE"),
    (18, word(9), "SHARED_MEMORY_MODE 9"),
    (99, b"\x01\x02", "attribute 99 (unknown) 0102"),
]


@pytest.mark.parametrize(
    ("identifier", "value", "text"), ATTRIBUTES, ids=[text.split()[0] for *_, text in ATTRIBUTES]
)
def test_launch_attribute_has_its_name_and_its_value(identifier, value, text):
    assert describe_attributes(struct.pack("<I4x64s", identifier, value)) == [text]


def test_every_launch_attribute_of_the_headers_has_a_text():
    assert {identifier for identifier, *_ in ATTRIBUTES} - {99} == {
        int(item) for item in structs.LaunchAttributeId
    }
