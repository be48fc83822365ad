"""Which kernel of a snapshot a variant means."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

from replay.errors import EngineError, UsageError
from replay.images.demangle import demangle, short_name
from replay.snapshot.schema import Kernel
from replay.text import some
from replay.variants.model import Swap

SHOWN_KERNELS = 8
_IMAGE_DIGITS = 8  # of a digest, where kernels have the same name


def find_kernel(kernels: Sequence[Kernel], wanted: str, option: str) -> Kernel:
    """The one kernel that `wanted` means: its mangled, demangled or short name, else a regular expression that is found
    in one of them; `NAME@IMAGE` tells kernels of the same name apart by the first digits of their image's digest.

    Raises UsageError that names the candidates when there is none, or more than one.
    """
    name, _, image = wanted.rpartition("@")
    if name and re.fullmatch("[0-9a-f]{4,}", image):
        found = find_all([kernel for kernel in kernels if kernel.image.startswith(image)], name, option)
    else:
        found = find_all(kernels, wanted, option)
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(
            f"no kernel of the window matches {wanted!r}", where=option, next=f"it launches {shown(kernels)}"
        )
    raise UsageError(
        f"{len(found)} kernels of the window match {wanted!r}",
        where=option,
        next=f"choose one: {shown(found)}",
    )


def find_all(kernels: Iterable[Kernel], wanted: str, option: str) -> list[Kernel]:
    """Every kernel that `wanted` means; a name goes before an expression. Raises UsageError."""
    kernels = list(kernels)
    for names in (lambda item: (item.name, item.demangled), lambda item: (short_name(item.demangled),)):
        if found := [kernel for kernel in kernels if wanted in names(kernel)]:
            return found
    try:
        pattern = re.compile(wanted)
    except re.error as error:
        raise UsageError(f"{wanted!r} is no regular expression ({error})", where=option) from None
    return [kernel for kernel in kernels if pattern.search(kernel.name) or pattern.search(kernel.demangled)]


def only_kernel(kernels: Sequence[Kernel], option: str) -> Kernel:
    """The kernel of a window that launches one. Raises UsageError."""
    if len(kernels) == 1:
        return kernels[0]
    raise UsageError(
        f"the window launches {len(kernels)} kernels",
        where=option,
        next=f"say which, as KERNEL=...: {shown(kernels)}",
    )


def shown(kernels: Sequence[Kernel]) -> str:
    """Their names for a message, with the image where two have the same."""
    names = [kernel.demangled or kernel.name for kernel in kernels]
    texts = [
        f"{name}@{kernel.image[:_IMAGE_DIGITS]}" if names.count(name) > 1 else name
        for name, kernel in zip(names, kernels, strict=True)
    ]
    return some(texts, SHOWN_KERNELS) or "none"


def name_in(swap: Swap, kernel: Kernel, there: list[str]) -> str:
    """Which kernel of a file replaces one: that of the name given, its own, or the only one. Raises
    EngineError."""
    if swap.name:
        named = [name for name in there if swap.name in (name, demangle(name), short_name(demangle(name)))]
        if len(named) == 1:
            return named[0]
    elif kernel.name in there:
        return kernel.name
    elif len(there) == 1:
        return there[0]
    listed = ", ".join(there[:8]) + (" ..." if len(there) > 8 else "")
    wanted = swap.name or kernel.name
    raise EngineError(
        f"has no kernel {wanted}", where=swap.file,
        next=f"name one that it has, as {swap.kernel or kernel.name}={swap.file}@NAME: {listed}",
    )  # fmt: skip
