"""What ptxas makes of PTX."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

from replay.errors import EngineError
from replay.images import read_ptx
from replay.variants.assemblers.running import assembled, flags_of
from replay.variants.assemblers.tools import Tool
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.compilers.tools import refusal
from replay.variants.images import BuiltImage
from replay.variants.jit import JitOption

_COMPILING = re.compile(r"Compiling entry function '([^']+)'")
_PROPERTIES = re.compile(r"Function properties for (\S+)")
_SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
_NEWEST = re.compile(r"[Uu]nsupported \.version [\d.]+; current version is '([\d.]+)'")

# What the options of the driver's compiler are called here; the others it has not
_OPTIONS: dict[str, Callable[[int], list[str]]] = {
    "opt-level": lambda value: [f"-O{value}"],
    "max-registers": lambda value: [f"--maxrregcount={value}"],
    "lineinfo": lambda value: ["--generate-line-info"] if value else [],
    "debug-info": lambda value: ["--device-debug"] if value else [],
    "cache-mode": lambda value: [f"--def-load-cache={('', 'cg', 'ca')[value]}"] if value else [],
}


def assemble(
    tool: Tool,
    text: bytes,
    source: str,
    architecture: int,
    options: Iterable[JitOption] = (),
    sandbox: Sandbox | None = None,
) -> BuiltImage:
    """The cubin of a PTX text for a device. Where its .version is newer than this ptxas, the newest one that it knows
    is tried: a newer front end names an ISA of which it mostly uses nothing new. sandbox: for a stranger's text. Raises
    BuildError, ImageError."""
    target = _target(text, source, architecture)
    flags = [f"-arch={target}", *flags_of("ptxas", _OPTIONS, options)]
    command = [str(tool.path), "-v", *flags]
    ran, data = assembled(command, "kernel.ptx", text.rstrip(b"\0") + b"\n", sandbox)
    newest = _NEWEST.search(ran.log)
    lowered = ""
    if ran.status != 0 and newest:
        version = read_ptx(text).version
        lowered = f"PTX {version} was given to ptxas {tool.version} as {newest[1]}, the newest that it knows"
        text = re.sub(rb"(?m)^(\s*\.version\s+)[\d.]+", rb"\g<1>" + newest[1].encode(), text, count=1)
        ran, data = assembled(command, "kernel.ptx", text.rstrip(b"\0") + b"\n", sandbox)
    if ran.status != 0 or not data:
        tried = f" ({lowered})" if lowered else ""
        raise refusal(
            f"ptxas {tool.version} refused {source}: {ran.first_error}{tried}", ran, where="--ptxas",
            next="give a newer one" if lowered else None,
        )  # fmt: skip
    return BuiltImage(data, source, f"ptxas {tool.version} {' '.join(flags)}", spills(ran.log), lowered)


def spills(log: str) -> dict[str, tuple[int, int]]:
    """Bytes of spill stores and loads of each kernel, from what `ptxas -v` says."""
    found: dict[str, tuple[int, int]] = {}
    kernel = described = ""
    for line in log.splitlines():
        if match := _COMPILING.search(line):
            kernel = match[1]
        elif match := _PROPERTIES.search(line):
            described = match[1]
        elif (match := _SPILLS.search(line)) and kernel and described == kernel:
            found[kernel] = int(match[1]), int(match[2])
    return found


def _target(text: bytes, source: str, architecture: int) -> str:
    target = read_ptx(text).target
    number = int(re.sub(r"\D", "", target))
    suffix = target.lstrip("sm_0123456789")
    if suffix == "a" and number != architecture or number > architecture:
        raise EngineError(f"its PTX is for {target}, the device is sm_{architecture}", where=source)
    return f"sm_{architecture}{suffix if number == architecture else ''}"
