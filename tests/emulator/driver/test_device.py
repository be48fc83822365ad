"""cuInit, versions and devices."""

from __future__ import annotations

import ctypes

import driver_api as api
import pytest
from driver_api import Driver

MULTIPROCESSOR_COUNT, MAJOR, MINOR, WARP_SIZE, OPTIN_SHARED = 16, 75, 76, 10, 97


def test_every_call_before_init_is_refused(fresh):
    done = fresh(
        """
        import subprocess, sys
        script = "from driver_api import *; d = Driver(%r); print(d.cuDeviceGetCount(out(handle())))" % d.library._name
        print(subprocess.run([sys.executable, "-c", script], capture_output=True, text=True).stdout)
        """
    )
    assert int(done.stdout) == api.NOT_INITIALIZED


def test_init_refuses_flags(library: Driver):
    assert library.cuInit(1) == api.INVALID_VALUE


def test_device_answers_like_a_hopper(library: Driver):
    assert library.integer("cuDeviceGetCount") == 1
    assert library.integer("cuDeviceGetAttribute", MAJOR, 0) == 9
    assert library.integer("cuDeviceGetAttribute", MINOR, 0) == 0
    assert library.integer("cuDeviceGetAttribute", WARP_SIZE, 0) == 32
    assert library.integer("cuDeviceGetAttribute", OPTIN_SHARED, 0) == 232448
    name = ctypes.create_string_buffer(64)
    library.do("cuDeviceGetName", name, 64, 0)
    assert name.value == b"Emulated CPU device"
    assert library.make("cuDeviceTotalMem_v2", 0) % (2 << 20) == 0


def test_every_attribute_of_the_headers_has_an_answer(library: Driver):
    for attribute in range(1, 147):
        assert library.cuDeviceGetAttribute(api.out(ctypes.c_int()), attribute, 0) == api.SUCCESS, attribute
    assert library.cuDeviceGetAttribute(api.out(ctypes.c_int()), 100000, 0) == api.INVALID_VALUE


@pytest.mark.parametrize("ordinal", [-1, 1, 1000])
def test_wrong_ordinal_is_an_invalid_device(library: Driver, ordinal: int):
    assert library.cuDeviceGet(api.out(ctypes.c_int()), ordinal) == api.INVALID_DEVICE
    assert library.cuDeviceGetAttribute(api.out(ctypes.c_int()), MAJOR, ordinal) == api.INVALID_DEVICE


def test_null_results_are_refused(library: Driver):
    for name, arguments in {
        "cuDriverGetVersion": (None,),
        "cuDeviceGet": (None, 0),
        "cuDeviceGetCount": (None,),
        "cuDeviceGetAttribute": (None, MAJOR, 0),
        "cuDeviceTotalMem_v2": (None, 0),
        "cuDeviceGetUuid_v2": (None, 0),
    }.items():
        assert getattr(library, name)(*arguments) == api.INVALID_VALUE, name


def test_pci_address_leads_back_to_its_device(library: Driver):
    text = ctypes.create_string_buffer(32)
    library.do("cuDeviceGetPCIBusId", text, 32, 0)
    assert library.integer("cuDeviceGetByPCIBusId", text.value.decode()) == 0
    assert library.cuDeviceGetByPCIBusId(api.out(ctypes.c_int()), "0000:00:00.0") == api.INVALID_DEVICE


def test_settings_choose_devices_capability_and_version(fresh):
    done = fresh(
        """
        uuids = set()
        for i in range(d.integer("cuDeviceGetCount")):
            uuid = ctypes.create_string_buffer(16)
            d.do("cuDeviceGetUuid_v2", uuid, i)
            uuids.add(uuid.raw)
        print(len(uuids), d.integer("cuDriverGetVersion"), d.integer("cuDeviceGetAttribute", 75, 2),
              d.integer("cuDeviceGetAttribute", 76, 2), d.integer("cuDeviceGetAttribute", 16, 2),
              d.make("cuDeviceTotalMem_v2", 1))
        """,
        DEVICES="3",
        DRIVER_VERSION="12040",
        COMPUTE_CAPABILITY="8.6",
        MULTIPROCESSORS="5",
        MEMORY_BYTES=str(64 << 20),
    )
    assert done.stdout.split() == ["3", "12040", "8", "6", "5", str(64 << 20)]


def test_no_devices_is_an_error_of_init(fresh):
    assert fresh("print(d.cuInit(0))", DEVICES="0").stdout.strip() == str(api.NO_DEVICE)


def test_forked_child_is_told_that_it_cannot_use_the_driver(fresh):
    done = fresh(
        """
        import os
        if os.fork() == 0:
            print(d.cuMemAlloc_v2(out(handle()), 64), d.cuInit(0), flush=True)
            os._exit(0)
        os.wait()
        print(d.cuMemAlloc_v2(out(handle()), 64))
        """
    )
    assert done.stdout.split() == [str(api.NOT_INITIALIZED), str(api.NOT_INITIALIZED), "0"]


@pytest.mark.parametrize(
    ("capability", "cooperative", "managed", "nor", "clusters", "ratio", "window"),
    [
        ("5.2", 0, 0, 0, 0, 32, 0),
        ("6.0", 1, 1, 0, 0, 2, 0),
        ("7.5", 1, 1, 1, 0, 32, 0),
        ("8.6", 1, 1, 1, 0, 64, 128 << 20),
        ("9.0", 1, 1, 1, 1, 2, 128 << 20),
        ("12.0", 1, 1, 1, 1, 64, 128 << 20),
    ],
)
def test_features_come_with_their_capability(
    fresh, capability: str, cooperative: int, managed: int, nor: int, clusters: int, ratio: int, window: int
):
    numbers = [95, 89, 123, 120, 87, 109]
    script = f"print(*[d.integer('cuDeviceGetAttribute', n, 0) for n in {numbers}], d.cuCtxGetLimit(out(handle()), 3))"
    done = fresh(script, COMPUTE_CAPABILITY=capability)
    depth = 0 if float(capability) < 9 else 215  # nesting depth: documented as unsupported from 9.0 on
    expected = [cooperative, managed, nor, clusters, ratio, window, depth]
    assert [int(word) for word in done.stdout.split()] == expected


def test_widest_linear_texture(library: Driver):
    assert library.make("cuDeviceGetTexture1DLinearMaxWidth", 0x20, 4, 0) == 1 << 28
    assert library.cuDeviceGetTexture1DLinearMaxWidth(api.out(api.handle()), 0x20, 3, 0) == api.INVALID_VALUE
    assert library.cuDeviceGetTexture1DLinearMaxWidth(api.out(api.handle()), 0x20, 4, 7) == api.INVALID_DEVICE


def test_atomics_between_devices_and_host(fresh):
    done = fresh(
        """
        operations, results = (ctypes.c_int * 2)(0, 10), (ctypes.c_uint * 2)()
        print(d.cuDeviceGetHostAtomicCapabilities(results, operations, 2, 0), list(results))
        print(d.cuDeviceGetP2PAtomicCapabilities(results, operations, 2, 0, 1), list(results))
        print(d.cuDeviceGetP2PAtomicCapabilities(results, operations, 2, 1, 1))
        operations[1] = 99
        print(d.cuDeviceGetHostAtomicCapabilities(results, operations, 2, 0))
        """,
        DEVICES="2",
    )
    assert done.stdout.splitlines() == ["0 [0, 0]", "0 [31, 31]", "101", "1"]
