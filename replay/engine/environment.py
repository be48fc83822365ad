"""The environment of a worker: one table of what CUDA and this program read. Nothing else of the user's is in it.

What is in a process's environment can be read by what runs in it: tokens and passwords that other programs are given
there are none of a replay's business.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from replay.drivers import SONAME, Driver

# Names; one that ends in `*` means all that begin with the rest.
_PASSED = {
    "the loader": ("LD_LIBRARY_PATH", "LD_PRELOAD"),
    "Python, before it knows the request": (
        "PYTHONHOME", "PYTHONPLATLIBDIR", "PYTHONSAFEPATH", "PYTHONUTF8", "PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE",
        "PYTHONPYCACHEPREFIX", "PYTHONMALLOC", "LANG", "LC_ALL", "LC_CTYPE",
    ),
    "this program and its CPU driver": ("REPLAY_*",),
    "NVIDIA's driver, as the CUDA programming guide lists them": (
        "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "CUDA_MANAGED_FORCE_DEVICE_ALLOC", "CUDA_CACHE_DISABLE",
        "CUDA_CACHE_PATH", "CUDA_CACHE_MAXSIZE", "CUDA_FORCE_PTX_JIT", "CUDA_DISABLE_PTX_JIT", "CUDA_FORCE_JIT",
        "CUDA_DISABLE_JIT", "CUDA_LAUNCH_BLOCKING", "CUDA_DEVICE_MAX_CONNECTIONS",
        "CUDA_DEVICE_MAX_COPY_CONNECTIONS", "CUDA_SCALE_LAUNCH_QUEUES", "CUDA_GRAPHS_USE_NODE_PRIORITY",
        "CUDA_DEVICE_WAITS_ON_EXCEPTION", "CUDA_DEVICE_DEFAULT_PERSISTING_L2_CACHE_PERCENTAGE_LIMIT",
        "CUDA_DISABLE_PERF_BOOST", "CUDA_AUTO_BOOST", "CUDA_MODULE_LOADING", "CUDA_MODULE_DATA_LOADING",
        "CUDA_BINARY_LOADER_THREAD_COUNT", "CUDA_ERROR_LEVEL", "CUDA_LOG_FILE",
    ),
    "its service for several processes (MPS)": (
        "CUDA_MPS_PIPE_DIRECTORY", "CUDA_MPS_LOG_DIRECTORY", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE",
        "CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING", "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT",
        "CUDA_MPS_CLIENT_PRIORITY",
    ),
    "builds of the CPU driver with a sanitizer": ("ASAN_OPTIONS", "LSAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"),
}  # fmt: skip
_NOT_PASSED = "REPLAY_CAPTURE_"  # nothing is captured in a worker

# Threads that start with a library would be outside of Landlock. What one snapshot has the driver compile must not be
# what it takes for another program's code: the driver's cache on the disk is that of all the user's programs.
_CONFINED = {"OPENBLAS_NUM_THREADS": "1", "CUDA_CACHE_DISABLE": "1"}


def worker_environment(
    driver: Driver, confined: bool = True, environ: Mapping[str, str] = os.environ
) -> dict[str, str]:
    """The environment in which the worker's loader finds `driver`, and nothing is captured. confined: reduced to the
    table; else all of `environ`, as a profiler needs it."""
    environment = {
        name: value
        for name, value in environ.items()
        if (not confined or _is_passed(name)) and not name.startswith(_NOT_PASSED)
    }
    preloaded = [item for item in environment.pop("LD_PRELOAD", "").replace(":", " ").split()
                 if "libreplay_interposer" not in item]  # fmt: skip
    if driver.folder is not None:
        before = environment.get("LD_LIBRARY_PATH", "")
        environment["LD_LIBRARY_PATH"] = f"{driver.folder}:{before}" if before else str(driver.folder)
        if driver.library.name != SONAME:
            preloaded.append(str(driver.library))  # its soname satisfies every later search for libcuda.so.1
    if preloaded:
        environment["LD_PRELOAD"] = " ".join(preloaded)
    return environment | _CONFINED if confined else environment


def _is_passed(name: str) -> bool:
    return any(
        name.startswith(known[:-1]) if known.endswith("*") else name == known
        for names in _PASSED.values()
        for known in names
    )
