"""What each function says before cuInit, and after it found no device, beside what the CPU driver says."""

from __future__ import annotations

from pathlib import Path

import pytest
from calling import results_of
from conftest import RealDriver

from replay.api import functions

NOT_INITIALIZED, NO_DEVICE, INVALID_HANDLE = 3, 100, 400
# Functions that look at their arguments first, all of them 0 or pointers to zeros here, and what they think of them:
# CUDA_ERROR_INVALID_VALUE, INVALID_DEVICE, INVALID_CONTEXT, CONTEXT_IS_DESTROYED, INVALID_RESOURCE_TYPE, and a crash.
ARGUMENTS_FIRST = {1, 101, 201, 709, 914, "signal 11"}
# Functions that look first at handles, which are pointers to zeros here: some releases do so.
HANDLES_FIRST = {
    "cuLaunchKernelEx", "cuStreamGetCtx", "cuStreamGetCtx_v2", "cuKernelGetAttribute", "cuKernelGetFunction",
    "cuKernelGetLibrary", "cuKernelSetAttribute", "cuKernelSetCacheConfig",
}  # fmt: skip
# Functions of streams that the CPU driver does not have (docs/cpu-driver.md).
NOT_IMPLEMENTED = {
    "cuSignalExternalSemaphoresAsync", "cuWaitExternalSemaphoresAsync", "cuStreamBatchMemOp", "cuStreamWaitValue32",
    "cuStreamWaitValue64", "cuStreamWriteValue32", "cuStreamWriteValue64", "cuStreamGetGreenCtx",
}  # fmt: skip
# These do nothing, successfully, with zeros.
NOTHING_DONE = {
    "cuGraphKernelNodeGetParams", "cuGraphKernelNodeGetParams_v2", "cuLinkDestroy", "cuThreadExchangeStreamCaptureMode",
    "cuFuncGetName", "cuKernelGetName",
}  # fmt: skip


def symbols() -> dict[str, list[int]]:
    """Which parameters are pointers, by symbol."""
    return {
        symbol: [parameter.kind == "pointer" for parameter in function.parameters]
        for symbol, function in functions.by_symbol().items()
        if symbol != "cuInit"
    }


@pytest.mark.parametrize("initialise", [False, True], ids=["before cuInit", "after cuInit found no device"])
def test_results(real: RealDriver, emulator_dir: Path, initialise: bool) -> None:
    """Equal, but for what the real driver says of arguments before it looks whether it was started."""
    asked = symbols()
    theirs = results_of(str(real.library), asked, initialise, {})
    environment = {
        "REPLAY_EMULATOR_DRIVER_VERSION": str(real.version),
        "REPLAY_EMULATOR_DEVICES": "0",
    }
    ours = results_of(str(emulator_dir / "libcuda.so.1"), asked, initialise, environment)
    assert ours.get("cuInit") == theirs.get("cuInit") == (NO_DEVICE if initialise else None)
    both = ours.keys() & theirs.keys()
    assert len(both) > 500

    def explained(name: str) -> bool:
        if ours[name] not in (NOT_INITIALIZED, 500):
            return False
        if theirs[name] == INVALID_HANDLE:
            return name.removesuffix("_ptsz") in HANDLES_FIRST | NOT_IMPLEMENTED
        return theirs[name] in ARGUMENTS_FIRST or (theirs[name] == 0 and name in NOTHING_DONE)

    different = {name: (ours[name], theirs[name]) for name in both if ours[name] != theirs[name]}
    assert {name: results for name, results in sorted(different.items()) if not explained(name)} == {}
    assert len(both) - len(different) > 400


@pytest.mark.parametrize("stream", [0, 1, 2], ids=["default", "legacy", "per thread"])
def test_default_streams_are_not_refused_without_a_device(
    real: RealDriver, emulator_dir: Path, stream: int
) -> None:
    """As streams that do not exist are, by the same functions."""
    asked: dict[str, list[int]] = {
        "cuStreamSynchronize": [stream],
        "cuStreamQuery": [stream],
        "cuMemsetD8Async": [0, 0, 0, stream],
    }
    devices = {"REPLAY_EMULATOR_DEVICES": "0"}
    for library in (str(real.library), str(emulator_dir / "libcuda.so.1")):
        answers = results_of(library, asked, True, devices)
        assert answers == {"cuInit": NO_DEVICE, **dict.fromkeys(asked, NOT_INITIALIZED)}
