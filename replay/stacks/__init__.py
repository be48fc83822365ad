"""What makes Python stacks hand over PTX, which the built-in CPU driver runs, instead of machine code, which it cannot.

The table here is the only place that knows: `replay capture` gives it to applications that run on the CPU driver, and
`eval "$(python -m replay.stacks)"` to a shell. Every entry is a documented setting of the stack but one: numba-cuda has
none, so `hook/sitecustomize.py` makes it link as it does where nvJitLink is not installed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from replay.drivers import Driver

_HERE = Path(__file__).resolve().parent


def environment(base: Mapping[str, str], driver: Driver) -> dict[str, str]:
    """The variables to add to `base` for a program that runs on `driver`: none unless that is the CPU driver.

    A variable that `base` has is kept, but PYTHONPATH is extended.
    """
    if not driver.emulated:
        return {}
    ptxas = str(_HERE / "ptxas")
    wanted = {
        "TRITON_PTXAS_PATH": ptxas,
        "TRITON_PTXAS_BLACKWELL_PATH": ptxas,
        "CUPY_COMPILE_WITH_PTX": "1",
    }
    if driver.folder is not None:
        wanted["TRITON_LIBCUDA_PATH"] = str(driver.folder)
        wanted["DRJIT_LIBCUDA_PATH"] = str(driver.library)  # which looks in no other place
    added = {name: value for name, value in wanted.items() if name not in base}
    hook = str(_HERE / "hook")
    if os.pathsep not in hook:  # which PYTHONPATH cannot hold
        paths = [path for path in base.get("PYTHONPATH", "").split(os.pathsep) if path and path != hook]
        added["PYTHONPATH"] = os.pathsep.join([hook, *paths])
    return added


def torch_hooks(
    base: Mapping[str, str], driver: Driver, *, blocks: bool, ranges: Sequence[str]
) -> dict[str, str]:
    """The variables with which Pythons of the application tell the blocks of PyTorch (replay.hints.torch), and where in
    the program they are (replay.hints.torch_ranges). ranges: domains of these."""
    hook = str(_HERE / "hook")
    paths = [path for path in base.get("PYTHONPATH", "").split(os.pathsep) if path and path != hook]
    return {
        "PYTHONPATH": os.pathsep.join([hook, *paths]),
        "REPLAY_HOOK_TORCH_BLOCKS": str(int(blocks)),
        "REPLAY_HOOK_TORCH_RANGES": ",".join(ranges),
        "REPLAY_HOOK_NVJITLINK": "1" if driver.emulated else "0",
    }
