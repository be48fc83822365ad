"""Compiles a kernel with a chosen Triton, from any level of its IR or from Python, in a process of its own.

A Triton is what is installed beside replay, a folder that holds the package `triton`, or a wheel that is fetched and
kept whole in `$XDG_CACHE_HOME/gpu-replay/triton/VERSION-PYTHON/`. No device is asked: Triton is told the target.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import field, replace
from pathlib import Path
from typing import Any

from replay.errors import EngineError, UsageError
from replay.reading import parse_json, read_file
from replay.records import dataclass
from replay.variants.assemblers import assemble_with
from replay.variants.assemblers.tools import PTXAS, TRITON, Tool, cache_folder
from replay.variants.assemblers.wheels import NOT_UNPACKED, download, room_for
from replay.variants.compilers.tools import refusal, run_tool
from replay.variants.images import BuiltImage

MAXIMUM_SOURCE_BYTES = 16 << 20
MAXIMUM_TOLD_BYTES = 1 << 20
MAXIMUM_WHEEL_BYTES = 4 << 30  # unpacked
_FETCH_TIMEOUT_S, _COMPILE_TIMEOUT_S = 900, 600
_VERSION = re.compile(r"\d(\.\d{1,3}){0,2}")
_OWN_VERSION = re.compile(r"^__version__ = ['\"]([\w.+]+)['\"]", re.M)
_TYPE = re.compile(r"(\w+): (!tt\.ptr<)?(\w+)")
_TYPES = {
    "f16": "fp16",
    "bf16": "bf16",
    "f32": "fp32",
    "f64": "fp64",
    "f8E5M2": "fp8e5",
    "f8E4M3FN": "fp8e4nv",
}
_MOST_SCRATCH = 2

# Triton is large, may be of another version than one that is loaded here, and a .py is the user's program.
_CHILD = Path(__file__).with_name("triton_child.py")


@dataclass(frozen=True)
class Triton:
    """One that can be used here. folder: which holds the package. version: "3.6.0"."""

    folder: Path
    version: str


@dataclass(frozen=True)
class Asked:
    """What is compiled. file: its name, for people. kernel, signature: as captured; a .py needs the signature.
    constants: by name; what the kernel has none of is an option of Triton. captured: options of the capture."""

    file: str
    text: bytes
    kernel: str
    signature: tuple[str, ...] = ()
    path: Path | None = None  # of a .py, which may import what is beside it
    constants: tuple[tuple[str, str], ...] = ()
    llvm_options: str = ""
    captured: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Built:
    """PTX, and the dynamic shared memory that its launches need, None where that is not told."""

    image: BuiltImage
    shared_bytes: int | None


def installed() -> list[Triton]:
    """Every version on this machine that this Python can load, newest first: its own first, then fetched ones."""
    found: dict[str, Triton] = {}
    for folder in [*map(Path, filter(None, sys.path)), *sorted(cache_folder(TRITON).glob(f"*-{_python()}"))]:
        if (item := _at(folder)) is not None:
            found.setdefault(item.version, item)
    return sorted(found.values(), key=lambda item: _numbers(item.version), reverse=True)


def find(choice: str, progress: Callable[[str], None] = lambda text: None) -> Triton:
    """That of a path, or of a version; "" for the newest one that is here. Raises UsageError, EngineError."""
    if choice and ("/" in choice or Path(choice).is_dir()):
        folders = (Path(choice), Path(choice, "python"), Path(choice).parent)
        found = next((item for folder in folders if (item := _at(folder.absolute()))), None)
        if found is None:
            raise UsageError("holds no package triton", where=f"--triton {choice}",
                             next="give the folder that has triton/__init__.py in it, built")  # fmt: skip
        return found
    if choice and not _VERSION.fullmatch(choice):
        raise UsageError(
            f"{choice!r} is no version", where="--triton", next='it takes one as "3.6", or a folder'
        )
    parts = choice.split(".") if choice else []
    here = next((item for item in installed() if item.version.split(".")[: len(parts)] == parts), None)
    if here is not None:
        return here
    if not choice:
        raise EngineError(
            "Triton is not on this machine", where="--swap", next="name one: --triton 3.6 fetches it"
        )
    progress(f"fetching Triton {choice}")
    return _fetch(choice)


def compile_with(
    triton: Triton, asked: Asked, architecture: int, options: dict[str, int], want_ptx: bool, parameters: int
) -> Built:
    """The image of one kernel for a device of this architecture: PTX, or machine code by the ptxas of this Triton.
    parameters: how many the captured kernel has; those at the end for scratch memory that no code uses are made as
    many. Raises BuildError, EngineError."""
    suffix = Path(asked.file).suffix
    if "num_warps" in options and suffix in (".ttgir", ".llir"):
        raise UsageError(
            f"{suffix} has its number of warps in it", where="--num-warps", next="give .ttir or .py"
        )
    with tempfile.TemporaryDirectory(prefix="replay-triton-") as folder:
        source = asked.path or Path(folder, f"kernel{suffix}")
        if asked.path is None:
            source.write_bytes(asked.text)
        types, aligned = _types(asked) if suffix == ".py" else ({}, [])
        used = options if suffix in (".ttgir", ".llir") else {**asked.captured, **options}
        request = {
            "triton": str(triton.folder), "source": str(source), "folder": folder, "architecture": architecture,
            "options": used, "kernel": asked.kernel, "types": types, "aligned": aligned,
            "constants": list(asked.constants), "llvm_options": _llvm_words(asked.llvm_options),
        }  # fmt: skip
        told = _answer(triton, request, asked.file)
        ptx = read_file(Path(folder, "kernel.ptx"), MAXIMUM_SOURCE_BYTES)
    ptx = with_parameters(ptx, asked.kernel, parameters)
    chosen = [f"{name.replace('_', '-')}={value}" for name, value in options.items()]
    chosen += [f"{name}={value}" for name, value in asked.constants]
    words = " ".join([*chosen, *_llvm_words(asked.llvm_options)])
    compiler = f"Triton {told.get('version', triton.version)} sm_{architecture} {words}".rstrip()
    image = BuiltImage(ptx, asked.file, compiler, source_text=asked.text)
    if not want_ptx:
        made_by = assemble_with(PTXAS, _ptxas(triton, architecture), ptx, asked.file, architecture)
        image = replace(made_by, compiler=f"{compiler}, {made_by.compiler}", source_text=asked.text)
    shared = told.get("shared")
    return Built(image, shared if isinstance(shared, int) else None)


def configurations_of(triton: Triton, file: Path, kernel: str) -> list[dict[str, str]]:
    """What @triton.autotune of a kernel in a .py has, each name -> value. The file is run. Raises BuildError."""
    with tempfile.TemporaryDirectory(prefix="replay-triton-") as folder:
        request = {
            "triton": str(triton.folder),
            "source": str(file.absolute()),
            "folder": folder,
            "kernel": kernel,
        }
        told = _answer(triton, {**request, "configurations": True}, file.name)
    found = told.get("configurations")
    return [
        {str(name): str(value) for name, value in item.items()}
        for item in (found if isinstance(found, list) else [])
        if isinstance(item, dict)
    ]


def _answer(triton: Triton, request: dict[str, Any], file: str) -> dict[str, Any]:
    """What Triton says in a process of its own. Raises BuildError."""
    folder = request["folder"]
    command = [sys.executable, "-I", str(_CHILD), json.dumps({"configurations": False, **request})]
    ran = run_tool(command, _COMPILE_TIMEOUT_S)
    said = (ran.log + ran.output.decode("utf-8", "replace")).replace(f"{folder}{os.sep}", "")
    said = _plain(said, of_program=file.endswith(".py"))
    told = Path(folder, "told.json")
    if ran.status != 0 or not told.is_file():
        raise refusal(
            f"Triton {triton.version} refused {file}: {_why(said)}", replace(ran, log=said), where="--triton"
        )
    found = parse_json(read_file(told, MAXIMUM_TOLD_BYTES), "told.json")
    return found if isinstance(found, dict) else {}


def _llvm_words(text: str) -> list[str]:
    """Each begins with a dash. Raises UsageError."""
    try:
        words = shlex.split(text)
    except ValueError as error:
        raise UsageError(f"{text[:60]!r} cannot be read ({error})", where="--llvm-options") from None
    if wrong := [word for word in words if not word.startswith("-")]:
        raise UsageError(
            f"{wrong[0][:60]!r} is no option",
            where="--llvm-options",
            next="write it as LLVM does: -disable-lsr",
        )
    return words


def with_parameters(ptx: bytes, kernel: str, wanted: int) -> bytes:
    """PTX whose kernel has so many parameters, where it lacks or has only pointers at the end that no code reads: from
    3.3 on Triton hands over one to scratch memory, from 3.5 on two."""
    found = re.search(rb"\.entry\s+" + re.escape(kernel.encode()) + rb"\s*\(([^)]*)\)", ptx)
    if found is None:
        return ptx
    given = [item.strip() for item in found[1].split(b",") if item.strip()]
    name = kernel.encode() + b"_param_"
    for place in range(len(given), min(wanted, len(given) + _MOST_SCRATCH)):
        given.append(b".param .u64 .ptr .global .align 1 " + name + b"%d" % place)
    rest = ptx[found.end() :]
    while (
        len(given) > wanted
        and b".u64" in given[-1]
        and not re.search(re.escape(name + b"%d" % (len(given) - 1)) + rb"\b", rest)
    ):
        given.pop()
    return ptx[: found.start(1)] + b"\n\t" + b",\n\t".join(given) + b"\n" + ptx[found.end(1) :]


def _types(asked: Asked) -> tuple[dict[str, str], list[str]]:
    """Names of parameters with Triton's words for their types, and those that are multiples of 16."""
    if not asked.signature:
        raise EngineError("the types of the kernel's parameters are not known", where=asked.file,
                          next="capture with --with-ir, or give .ttir")  # fmt: skip
    types, aligned = {}, []
    for line in asked.signature:
        found = _TYPE.match(line)
        if found is None:
            raise EngineError(f"a parameter of this type cannot be named: {line[:80]}", where=asked.file,
                              next="give .ttir")  # fmt: skip
        types[found[1]] = ("*" if found[2] else "") + _TYPES.get(found[3], found[3])
        aligned += [found[1]] if "tt.divisibility = 16" in line else []
    return types, aligned


def _plain(said: str, *, of_program: bool) -> str:
    """What Triton says, without places in its own sources. of_program: the user's, who wants to know where."""
    lines = [line for line in said.splitlines() if line.strip() and not line.startswith("Traceback")]
    return "\n".join(line for line in lines if of_program or not line.startswith("  "))


def _why(said: str) -> str:
    """The first that a compiler calls an error, else the end."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    if told := [line for line in lines if "error: " in line]:
        return told[0][:300]
    errors = [
        line
        for line in lines
        if re.match(r"(\w+(\.\w+)*(Error|Exception)|error)\b", line) or "error:" in line
    ]
    if len(errors) > 1 and (place := re.search(r": (at \d+:\d+):$", errors[-1])):
        return f"{errors[-2]} ({place[1]})"[:300]
    return (errors or lines or ["it says nothing"])[-1][:300]


def _ptxas(triton: Triton, architecture: int) -> Tool:
    folder = triton.folder / "triton" / "backends" / "nvidia" / "bin"
    names = ("ptxas-blackwell", "ptxas") if architecture >= 100 else ("ptxas",)
    path = next((folder / name for name in names if (folder / name).is_file()), folder / "ptxas")
    from replay.variants.assemblers.tools import asked

    if not path.is_file():
        raise EngineError("this Triton has no ptxas", where=str(triton.folder), next="add --ptxas VERSION")
    return asked(PTXAS, path)


def _at(folder: Path) -> Triton | None:
    path = folder / "triton" / "__init__.py"
    if not path.is_file() or not any((folder / "triton" / "_C").glob("libtriton*")):
        return None
    found = _OWN_VERSION.search(read_file(path, 1 << 20).decode("utf-8", "replace"))
    return Triton(folder, found[1]) if found else None


def _fetch(version: str) -> Triton:
    with room_for(TRITON):
        place = cache_folder(TRITON)
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".fetch-", dir=place) as folder:
            there = [item.version for item in installed()]
            download(TRITON, version, [TRITON.requirement(version)], Path(folder), there, _FETCH_TIMEOUT_S)
            return _unpacked(next(Path(folder).glob("*.whl")), Path(folder, "new"), place)


def _unpacked(wheel: Path, new: Path, place: Path) -> Triton:
    try:
        with zipfile.ZipFile(wheel) as archive:
            if sum(item.file_size for item in archive.infolist()) > MAXIMUM_WHEEL_BYTES:
                raise EngineError(
                    "the wheel is larger than a Triton can be", where=wheel.name, next="name another version"
                )
            archive.extractall(new)
    except NOT_UNPACKED as error:
        raise EngineError(
            f"the wheel cannot be unpacked ({str(error)[:80]})", where=wheel.name, next="fetch it again"
        ) from None
    for path in (new / "triton" / "backends" / "nvidia" / "bin").glob("*"):
        path.chmod(0o755)
    found = _at(new)
    if found is None:
        raise EngineError(
            "the wheel holds no Triton for this machine", where=wheel.name, next="name another version"
        )
    target = place / f"{found.version}-{_python()}"
    try:
        os.replace(new, target)
    except OSError:  # another command may have fetched it at the same time
        if _at(target) is None:
            raise
    return Triton(target, found.version)


def _python() -> str:
    return f"cp{sys.version_info[0]}{sys.version_info[1]}"


def _numbers(version: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", version)]
