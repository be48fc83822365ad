"""What a snapshot asks for, found without a driver, and whether a device and driver have it."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest

from replay.engine.preflight.findings import Available, judge, refuse
from replay.errors import EngineError
from replay.inspection.requirements import (
    CLUSTER_LAUNCH,
    COOPERATIVE_LAUNCH,
    EVERYTHING,
    MAX_SHARED_MEMORY_PER_BLOCK_OPTIN,
    MAX_THREADS_PER_BLOCK,
    VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED,
    ImageNeed,
    Limits,
    find_requirements,
)
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Note, from_wire

from ..helpers.snapshot_factory import CONTEXT, vector_add

GPU = Available(
    13000,
    False,
    1,
    0,
    "Test GPU",
    90,
    80 << 30,
    79 << 30,
    {VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: 1},
    host_bytes=1 << 40,
)
CPU = replace(GPU, emulated=True, name="CPU", total_bytes=8 << 30)


@pytest.fixture
def needs(tmp_path):
    """Requirements of a snapshot made by hand; `limits` as in `find_requirements`."""

    def find(factory=None, limits=EVERYTHING):
        with SnapshotReader((factory or vector_add()).write(tmp_path / "x.rsnap")) as reader:
            return find_requirements(reader, limits)

    return find


def lacking(findings):
    return [item for item in findings if item.state == "lacking"]


def with_image(needs, **facts):
    return replace(needs, images=[ImageNeed("ab" * 16, "fatbin", kernels=["scale"], **facts)])


def test_requirements_name_memory_code_and_driver(needs):
    found = needs()
    assert sum(found.device_bytes.values()) == 2 << 20  # three neighbours in one granule
    assert found.restore_bytes > 0
    assert found.images[0].ptx == [("compute_75", "7.0")]
    assert found.devices == [0]
    assert "cuLaunchKernel" in found.functions
    assert "cuMemAlloc_v2" not in found.functions  # memory is placed, not allocated again
    assert found.captured_capability == "9.0"
    assert not found.partial


def test_calls_that_were_read_already_say_the_same(tmp_path):
    with SnapshotReader(vector_add().write(tmp_path / "x.rsnap")) as reader:
        calls = [from_wire(Call, value) for value in reader.objects("call")]
        assert find_requirements(reader, known=calls) == find_requirements(reader)


def test_what_was_not_looked_at_is_told(needs):
    found = needs(limits=Limits(2, 1, 10))
    assert len(found.partial) == 3
    assert not found.images[0].known
    assert [item.state for item in judge(found, GPU) if item.item.startswith("image")] == ["unknown"]


def test_snapshot_that_fits_lacks_nothing(needs):
    assert not lacking(judge(needs(), GPU))
    assert not lacking(judge(needs(), CPU))


@pytest.mark.parametrize(
    ("here", "words"),
    [
        (
            replace(GPU, total_bytes=1 << 20, free_bytes=None),
            "larger than the device: 2.* Test GPU has 1 MiB",
        ),
        (replace(GPU, free_bytes=1 << 20), "too little memory of the device is free"),
        (replace(CPU, host_bytes=1 << 20), "larger than that of this machine"),
        (
            replace(GPU, attributes={VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED: 0}),
            "lacks virtual memory management",
        ),
        (
            replace(GPU, missing_functions=["cuLaunchKernelEx"], driver_version=11000),
            "newer driver.*cuLaunchKernelEx",
        ),
    ],
)
def test_each_lack_has_its_own_words(needs, here, words):
    (found,) = lacking(judge(needs(), here))
    with pytest.raises(EngineError, match=words):
        refuse([found], "x.rsnap", False, lambda text: None)


@pytest.mark.parametrize(
    ("here", "image", "state"),
    [
        (GPU, {"cubins": ["sm_90"]}, "ok"), (GPU, {"cubins": ["sm_80"]}, "lacking"),
        (GPU, {"cubins": ["sm_90a"]}, "ok"),
        (replace(GPU, capability=89), {"cubins": ["sm_80"]}, "ok"),
        (replace(GPU, capability=80), {"cubins": ["sm_86"]}, "lacking"),
        (replace(GPU, capability=103), {"cubins": ["sm_100a"]}, "lacking"),
        (replace(GPU, capability=103), {"cubins": ["sm_100f"]}, "ok"),
        (GPU, {"cubins": ["sm_80"], "ptx": [("compute_80", "8.0")]}, "ok"),
        (GPU, {"ptx": [("compute_100", "8.8")]}, "lacking"), (GPU, {"ptx": [("compute_90", "9.1")]}, "lacking"),
        (replace(GPU, driver_version=13010), {"ptx": [("compute_90", "9.1")]}, "ok"),
        (CPU, {"cubins": ["sm_90"]}, "lacking"), (CPU, {"ptx": [("compute_100", "8.8")]}, "lacking"),
        (CPU, {"ptx": [("compute_90a", "9.9")]}, "ok"),
        (replace(GPU, driver_version=14000), {"ptx": [("compute_90", "9.9")]}, "ok"),
        (replace(GPU, driver_version=13040), {"ptx": [("compute_90", "9.9")]}, "lacking"), (GPU, {}, "lacking"),
        (GPU, {"cubins": ["sm_80"], "required": False}, "differs"), (GPU, {"known": False}, "unknown"),
    ],
)  # fmt: skip
def test_code_is_held_against_device_and_driver(needs, here, image, state):
    (found,) = (item for item in judge(with_image(needs(), **image), here) if item.item.startswith("image"))
    assert found.state == state


def test_image_that_lacks_code_says_what_it_has_and_what_capture_left_out(needs):
    found = with_image(needs(), cubins=["sm_80"], left_out=["compute_90"])
    (item,) = lacking(judge(found, GPU))
    assert "scale" in item.item
    assert "sm_80" in item.text
    assert "this device is sm_90" in item.text
    assert "--full-images" in item.advice


def test_launch_attributes_and_shared_memory_ask_for_features(needs):
    factory = vector_add()
    factory.kernels[0] = replace(
        factory.kernels[0],
        launch_attributes=["CLUSTER_DIMENSION 4x1x1", "COOPERATIVE 1"],
        shared_bytes=200_000,
    )
    found = {item.attribute: item for item in needs(factory).features}
    assert found[CLUSTER_LAUNCH].why == "vector_add is launched with CLUSTER_DIMENSION 4x1x1"
    assert COOPERATIVE_LAUNCH in found
    assert found[MAX_SHARED_MEMORY_PER_BLOCK_OPTIN].minimum == 200_000
    assert found[MAX_THREADS_PER_BLOCK].minimum == 256
    small = replace(GPU, attributes={**dict.fromkeys(found, 1), MAX_SHARED_MEMORY_PER_BLOCK_OPTIN: 101_376})
    texts = [item.text for item in lacking(judge(needs(factory), small))]
    assert any("200,000 are needed and it has 101,376" in text for text in texts)


def test_calls_that_cannot_be_replayed_are_found_without_a_driver(needs):
    factory = vector_add()
    factory.notes.append(Note("UNSUPPORTED_CALL", "cannot be captured", 1, "cuFooBar"))
    factory.call("cuLaunchHostFunc", [0, 0x1234, 0])
    found = lacking(judge(needs(factory), GPU))
    assert [item.item for item in found] == ["calls", "calls"]
    assert "cuLaunchHostFunc" in found[0].text
    assert "cuFooBar" in found[1].text


def test_best_effort_turns_lacks_into_notes(needs):
    notes = []
    refuse(judge(needs(), replace(GPU, free_bytes=1)), "x", True, notes.append)
    assert notes == [
        "goes on without device memory: needs 2 MiB, and 390.6 KiB to restore, here: 80 GiB, 1 B free"
    ]


def test_newer_driver_of_the_capture_is_told_and_no_lack_by_itself(needs):
    found = replace(needs(), captured_driver=13030)
    (driver,) = (item for item in judge(found, GPU) if item.item == "driver")
    assert driver.state == "differs"
    assert "13.3" in driver.text


def test_image_that_failed_to_load_in_the_application_is_not_asked_for(needs):
    factory = vector_add()
    digest = factory.image(b".version 99.0\n.target sm_999\n")
    factory.call("cuModuleLoadData", [0x7F08, 0x7F10], section="setup", result=209, inputs={"image": digest},
                 outputs={"module": struct.pack("<Q", 0)})  # fmt: skip
    assert len(needs(factory).images) == 1


def test_devices_that_cannot_reach_each_other_are_lacking(needs):
    def window(devices):
        factory = vector_add()
        for ordinal in range(1, devices):
            factory.call("cuDevicePrimaryCtxRetain", [0x7F00, ordinal], section="setup")
        factory.call("cuCtxEnablePeerAccess", [CONTEXT, 0], section="setup")
        return factory

    assert not needs(window(1)).peers  # one device has no peer
    both, three = needs(window(2)), needs(window(3))
    assert (both.peers, both.devices) == ("cuCtxEnablePeerAccess", [0, 1])
    two = replace(GPU, devices=2, apart=[])
    assert [item.state for item in judge(both, two) if item.item == "peer access"] == ["ok"]
    apart = replace(two, apart=[(0, 1)])
    (found,) = (item for item in judge(both, apart) if item.item == "peer access")
    assert (found.state, found.here) == ("lacking", "not to the memory 0 of 1")
    assert "--device 0" in found.advice
    (found,) = (item for item in judge(three, replace(apart, devices=3)) if item.item == "peer access")
    assert found.state == "unknown"


def test_stream_memory_operations_ask_for_their_attributes(needs):
    def features(function, flags, result=0):
        factory = vector_add()
        factory.call(function, [0, 0x1000, 1, flags], result=result)
        return {item.attribute for item in needs(factory).features} & {122, 123}

    assert features("cuStreamWaitValue32_v2", 1) == set()
    assert features("cuStreamWaitValue32_v2", 3 | 1 << 30) == {123}
    assert features("cuStreamWaitValue64_v2", 0) == {122}
    assert features("cuStreamWriteValue64_v2", 3) == {122}
    assert features("cuStreamWaitValue64_v2", 0, result=801) == set()


def test_several_devices_on_fewer_is_told(needs):
    found = replace(needs(), devices=[0, 3])
    assert [item.state for item in judge(found, GPU) if item.item == "devices"] == ["differs"]
    assert [item.state for item in judge(found, replace(GPU, devices=4)) if item.item == "devices"] == ["ok"]


def test_attribute_numbers_are_those_of_the_header():
    assert (VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED, CLUSTER_LAUNCH, MAX_SHARED_MEMORY_PER_BLOCK_OPTIN) == (
        102,
        120,
        97,
    )
