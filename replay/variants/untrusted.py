"""What an image of an untrusted candidate may not hold: work that it starts itself, and memory or output of its own.

A kernel reaches the device's runtime only through functions that its module lacks or that were linked into it. Whatever
is called by such a name is refused, but for what ends the kernel.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from replay import images
from replay.errors import EngineError
from replay.images.cubin import function_names
from replay.images.ptx import function_of, statements
from replay.images.ptx_body import without_comments
from replay.results.run.trust import TrustCheck
from replay.variants.images import BuiltImage

# Of the device runtime, linked into a cubin or called by PTX: launches, streams, memory (CUDA C++ Programming Guide,
# "CUDA Dynamic Parallelism"; "Formatted Output"; "Dynamic Global Memory Allocation and Operations")
_OWN_WORK = re.compile(r"cuda[A-Z]|cnp[A-Z]|__cuda_syscall|__cudaCDP|__cuda_cdp")
_WHAT = {
    "vprintf": "prints, which takes time of the host and memory of the device",
    "printf": "prints, which takes time of the host and memory of the device",
    "malloc": "takes memory that nothing restores between two runs",
    "free": "takes memory that nothing restores between two runs",
}
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_ENDS = ("__assertfail", "__trap", "abort")


class Refused(EngineError):
    """An untrusted candidate with something in it that none may have."""


def refuse_own_work(image: BuiltImage, architecture: int | None) -> TrustCheck:
    """Raises Refused for the first function that the image may not call."""
    for kind, contents in images.usable_modules(image.data, architecture):
        for name in _reached(kind, contents):
            if why := _why(name):
                raise Refused(
                    f"the candidate {why}", where=f"{image.source}: {name}",
                    next="leave it out, or replay without --untrusted",
                )  # fmt: skip
    return TrustCheck("image", True, f"{image.source} starts no work, and takes no memory, of its own")


def _why(name: str) -> str:
    if name in _ENDS:
        return ""
    if _OWN_WORK.match(name):
        return "starts work of its own, which no time covers"
    return _WHAT.get(name, "calls a function that it does not have")


def _reached(kind: str, contents: bytes) -> Iterator[str]:
    """Names of functions that a module calls and has not, or that are the device runtime's."""
    if kind == "cubin":
        defined, absent = function_names(contents)
        yield from sorted(absent)
        yield from sorted(name for name in defined if _OWN_WORK.match(name) or name in _WHAT)
        return
    text = without_comments(contents.partition(b"\0")[0].decode("latin-1"))
    declared: dict[str, None] = {}
    there: set[str] = set()
    mentioned: set[str] = set()
    for header, body in statements(text):
        function = function_of(header)
        if function is not None and body is None:
            declared[function[0]] = None
        elif function is not None and body is not None:
            there.add(function[0])
            mentioned.update(
                _NAME.findall(text[slice(*body)])
            )  # also one whose address is taken, for a call by it
        else:
            mentioned.update(_NAME.findall(header.partition("=")[2]))
    known = (name for name in mentioned if _OWN_WORK.match(name) or name in _WHAT)
    yield from (name for name in dict.fromkeys([*declared, *sorted(known)]) if name in mentioned - there)
