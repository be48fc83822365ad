"""Prepares the process of a command that packs and ends. Import nothing here that brings numpy."""

from __future__ import annotations

import ctypes
import gc
import os
from typing import TYPE_CHECKING, Annotated

from replay.cli.common import flag, option

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from replay.pack.triton_cache import TritonCache
    from replay.store.taking import Taker

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8  # of glibc's malloc.h
_OBJECTS_BETWEEN_COLLECTIONS = 50_000
_LINEAR_ALGEBRA_THREADS = "OPENBLAS_NUM_THREADS"


External = Annotated[
    str | None,
    option(
        "STORE",
        "Put large contents into this folder or URL, and only references into the snapshot.",
        "--external",
    ),
]
Least = Annotated[
    str | None,
    option(
        "SIZE",
        "With --external or --weights: buffers and images from this size on.",
        "--min",
        show_default="16M",
    ),
]
OwnWeights = Annotated[
    list[str] | None,
    option(
        "FILE|ID",
        "Refer to what is equal to tensors of this safetensors file, folder or Hugging Face model. May be repeated.",
        "--weights",
    ),
]

WithIr = Annotated[
    bool, flag("--with-ir", "Keep Triton's IR of the images, from its cache on the disk (TRITON_CACHE_DIR).")
]


def compiled(with_ir: bool) -> TritonCache | None:
    """Where IR is looked for; None where the option does not ask for it."""
    if not with_ir:
        return None
    from replay.pack.triton_cache import TritonCache, cache_folders

    return TritonCache(cache_folders())


def taker(
    external: str | None, least: str | None, weights: list[str] | None
) -> AbstractContextManager[Taker | None]:
    """What the options ask for; None where they ask for nothing."""
    from contextlib import nullcontext

    from replay.errors import UsageError
    from replay.text import parse_size

    if external is None and not weights:
        if least is not None:
            raise UsageError("--min needs --external STORE or --weights FILE")
        return nullcontext()
    from replay.store.taking import MINIMUM_BYTES, Taker

    return Taker(external, weights or (), MINIMUM_BYTES if least is None else parse_size(least, "--min"))


def pack_options(
    external: str | None, least: str | None, weights: list[str] | None, with_ir: bool = False
) -> str:
    """The same options on a command line, a blank before each."""
    given = [("--external", external), ("--min", least), *(("--weights", text) for text in weights or ())]
    words = "".join(f" {name} {text}" for name, text in given if text is not None)
    return words + " --with-ir" * with_ir


def import_numpy_without_threads() -> None:
    """Import numpy, without the threads that its linear algebra starts at once and that nothing here needs: they spin.

    The environment stays as it is: an application under capture inherits it.
    """
    if _LINEAR_ALGEBRA_THREADS in os.environ:
        return
    os.environ[_LINEAR_ALGEBRA_THREADS] = "1"
    try:
        import numpy  # noqa: F401
    finally:
        del os.environ[_LINEAR_ALGEBRA_THREADS]


def prepare_to_pack() -> None:
    """Settle the memory of a process that is about to pack. It holds for the whole process and raises what that keeps.

    The C library uses freed blocks of a few megabytes again instead of giving each back to the kernel: packing asks for
    one after the other, and their page faults took a fifth of its time. Does nothing where there is no mallopt.
    The collector of cyclic garbage leaves out what was imported and comes less often: packing makes no cycles.
    """
    gc.freeze()
    gc.set_threshold(_OBJECTS_BETWEEN_COLLECTIONS)
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    for parameter, value in (
        (_M_ARENA_MAX, 1),
        (_M_MMAP_THRESHOLD, 32 << 20),
        (_M_TRIM_THRESHOLD, 512 << 20),
    ):
        mallopt(parameter, value)
