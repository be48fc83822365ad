"""A driver function is declared in the table alone: other code asks for its columns, and names few functions."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import replay
from replay.api.functions import by_symbol

PACKAGE = Path(replay.__file__).parent
NAME = re.compile(r"cu(?!BLAS$|DNN$|FFT$|SPARSE$|SOLVER$|RAND$)[A-Z]\w*")  # of functions, not of libraries

# file -> the functions that it names, each as often as it does
EXCEPTIONS = {
    "pack/calls.py": "cuCtxSetCurrent cuCtxPushCurrent_v2",  # calls that sum up others
    "pack/contents/allocations.py": "cuMemHostGetDevicePointer_v2",  # where else host memory is
    "pack/survey/first_pass.py": "cuInit",  # whether it began
    "pack/survey/launches.py": "cuLaunchCooperativeKernel",  # an attribute of a launch
    "pack/survey/state.py": "cuInit",
    "inspection/requirements.py": "cuCtxEnablePeerAccess cuGraphConditionalHandleCreate",  # what a driver must have
    "engine/driver.py": "cuInit cuInit cuDevicePrimaryCtxRetain cuCtxCreate_v2",  # what fails when there is no room
    "engine/faults.py": "cuLogsDumpToMemory",  # asked for by name, as drivers have it that know no version
    # Calls of the engine's own among those of the window
    "engine/measuring/bracket.py": "cuEventRecord",
    "engine/measuring/launch_times.py": "cuEventRecord cuEventRecord cuEventElapsedTime cuEventElapsedTime "
    "cuEventCreate cuEventCreate cuEventSynchronize cuEventSynchronize",
    "engine/measuring/serialize.py": "cuEventRecord cuStreamWaitEvent",
    "engine/execution/window.py": "cuCtxSynchronize",
    # What a driver that takes notes answers, and what is not exported
    "export/exported.py": "cuInit cuDevice cuCtxGetCurrent cuCtxSetCurrent cuGraph cuMemPool cuMemGetDefaultMemPool "
    "cuMemGetMemPool cuMemSetMemPool cuGraphLaunch cuCtxCreate cuGreenCtx cuTexRef cuMulticast",
    "export/recording.py": "cuCtxGet cuMemHostGetDevicePointer cuCtxCreate cuCtxGetCurrent cuDeviceGetCount "
    "cuDeviceGet",
    # What a call is replaced with
    "engine/arguments/families/__init__.py": "cuModuleLoad cuModuleLoadData cuLibraryLoadFromFile cuLibraryLoadData "
    "cuIpcOpenEventHandle cuEventCreate",
    "engine/variants.py": "cuModuleLoadDataEx cuLibraryLoadData cuFuncSetAttribute cuKernelSetAttribute",
}


def sources() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE).as_posix()
        if not place.startswith("api/"):
            yield place, ast.parse(path.read_text())


def test_driver_functions_are_named_in_the_table_and_a_few_listed_places() -> None:
    found = {
        place: Counter(
            node.value
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and NAME.fullmatch(node.value)
        )
        for place, tree in sources()
    }
    assert {place: names for place, names in found.items() if names} == {
        place: Counter(names.split()) for place, names in EXCEPTIONS.items()
    }
    assert sum(len(names.split()) for names in EXCEPTIONS.values()) < 60


def test_functions_that_are_called_as_attributes_of_a_driver_are_in_the_table() -> None:
    called = {
        node.attr
        for _, tree in sources()
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and NAME.fullmatch(node.attr)
    }
    assert len(called) > 40
    assert called <= by_symbol().keys() | {"cuGetProcAddress", "cuGetProcAddress_v2"}
