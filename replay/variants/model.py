"""A variant: one choice of driver, device, module image, compiler, JIT options and launch geometry. Plain values.

Its text is stable: `parse(text)` gives an equal variant, whatever the version that wrote it, so that it can be kept in
a result, on a command line and in a list of candidates. Words are `key=value`, quoted as a shell quotes them. What a
user may write instead (`--key value`, `key:value`, commas between words, a file alone) is read, too, and never written.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from pathlib import Path
from typing import ClassVar

from replay.errors import UsageError
from replay.patterns import compiled_later
from replay.records import dataclass
from replay.variants.jit import JitOption, parse_jit

TRITON_NUMBERS = ("num_warps", "num_stages", "num_ctas", "maxnreg")  # its options that are whole numbers
_ENVIRONMENT_NAME = compiled_later("[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_PROGRAM = compiled_later(r"\.py\b(?![/.\w])")
MAXIMUM_DIMENSION = (1 << 31) - 1  # gridDim.x; the driver knows the limits of a device

Dimensions = tuple[int, int, int]


@dataclass(frozen=True)
class Swap:
    """The module image of `kernel` is taken from `file`. kernel: its name or a regular expression, "" for every one
    that has its name in the file. name: the kernel of the file that replaces it, "" for the one of its name."""

    kernel: str
    file: str
    name: str = ""

    def __str__(self) -> str:
        file = f"{self.file}@{self.name}" if self.name else self.file
        return f"{self.kernel}={file}" if self.kernel else file


@dataclass(frozen=True)
class Geometry:
    """What a launch of `kernel` gets instead of the captured value: blocks, threads, or bytes of dynamic shared memory.
    kernel: as in Swap; "" for the only kernel."""

    what: str  # grid, block, shared
    kernel: str
    value: Dimensions

    def __str__(self) -> str:
        text = str(self.value[0]) if self.what == "shared" else ",".join(map(str, self.value))
        return f"{self.kernel}={text}" if self.kernel else text


@dataclass(frozen=True)
class Variant:
    """What is changed from the application. Everything empty: as captured.

    ptxas, tileiras: a version ("13.1", "12.9.86") or the path of one; "" for none: images are loaded as they are.
    triton: likewise, or the folder that holds it; num_warps, num_stages: what it is asked for, 0 as captured.
    constants: of the kernel by name (`tl.constexpr`), or other options of Triton. llvm_options: of LLVM in it.
    environment: what the replaying process has in addition to or instead of this one's.
    """

    driver: str = ""
    device: int | None = None
    swaps: tuple[Swap, ...] = ()
    ptxas: str = ""
    jit: tuple[JitOption, ...] = ()
    geometry: tuple[Geometry, ...] = field(default=())
    environment: tuple[tuple[str, str], ...] = ()
    tileiras: str = ""
    triton: str = ""
    num_warps: int = 0
    num_stages: int = 0
    constants: tuple[tuple[str, str], ...] = ()
    llvm_options: str = ""

    SHAPES: ClassVar = ("grid", "block", "shared")
    ASSEMBLERS: ClassVar = ("ptxas", "tileiras")

    @property
    def changes_nothing(self) -> bool:
        """Whether the window is replayed as it was captured, on whatever driver and device."""
        return not (self.swaps or self.assemblers or self.recompiles or self.jit or self.geometry)

    @property
    def recompiles(self) -> bool:
        """Whether Triton makes kernels: of its files among the swaps; without one, those that are not swapped again."""
        return bool(self.triton or self.triton_options or self.constants or self.llvm_options)

    @property
    def triton_options(self) -> dict[str, int]:
        """As Triton calls them."""
        chosen = {"num_warps": self.num_warps, "num_stages": self.num_stages}
        return {name: value for name, value in chosen.items() if value}

    @property
    def assemblers(self) -> dict[str, str]:
        """Which are chosen, by name."""
        chosen = {name: getattr(self, name) for name in self.ASSEMBLERS}
        return {name: choice for name, choice in chosen.items() if choice}

    def __str__(self) -> str:
        """The stable text; "" when nothing is chosen."""
        words = [f"driver={self.driver}"] if self.driver else []
        words += [f"device={self.device}"] if self.device is not None else []
        words += [f"swap={swap}" for swap in self.swaps]
        words += [f"{name}={choice}" for name, choice in self.assemblers.items()]
        words += [f"triton={self.triton}"] if self.triton else []
        words += [f"{name.replace('_', '-')}={value}" for name, value in self.triton_options.items()]
        words += [f"constant={name}={value}" for name, value in self.constants]
        words += [f"llvm-options={self.llvm_options}"] if self.llvm_options else []
        words += [f"jit={','.join(map(str, self.jit))}"] if self.jit else []
        words += [f"{shape.what}={shape}" for shape in self.geometry]
        words += [f"env={name}={value}" for name, value in self.environment]
        return shlex.join(words)


def parse(text: str) -> Variant:
    """The variant of a text such as `swap=gemm=new.ptx jit=opt-level=2`. Raises UsageError."""
    given: dict[str, list[str]] = {}
    for key, value in _words(text):
        if key not in _OBSOLETE:
            given.setdefault(key, []).append(value)
    for key in ("driver", "device", "triton", "llvm-options", *_NUMBERS, *Variant.ASSEMBLERS):
        if len(given.get(key, [])) > 1:
            raise UsageError(f"the variant names {key} twice", where=text)
    return make_variant(
        driver=given.get("driver", [""])[0],
        device=None if "device" not in given else _whole(given["device"][0], "device"),
        swap=given.get("swap", ()),
        ptxas=given.get("ptxas", [""])[0],
        tileiras=given.get("tileiras", [""])[0],
        triton=given.get("triton", [""])[0],
        num_warps=_whole(given.get("num-warps", ["0"])[0], "num-warps"),
        num_stages=_whole(given.get("num-stages", ["0"])[0], "num-stages"),
        constant=given.get("constant", ()),
        llvm_options=given.get("llvm-options", [""])[0],
        jit=given.get("jit", ()),
        **{what: given.get(what, ()) for what in Variant.SHAPES},
        env=given.get("env", ()),
    )


_NUMBERS = ("num-warps", "num-stages")
_SPELLINGS = {
    "ptxas": "ptxas=13.0", "swap": "swap=[KERNEL=]FILE[@NAME]", "driver": "driver=DIR", "device": "device=N",
    "tileiras": "tileiras=13.1", "triton": "triton=3.6", "num-warps": "num-warps=8", "num-stages": "num-stages=2",
    "constant": "constant=BLOCK=128", "llvm-options": "llvm-options=-disable-lsr",
    "jit": "jit=opt-level=2", "grid": "grid=[KERNEL=]X,Y,Z",
    "block": "block=[KERNEL=]X,Y,Z", "shared": "shared=[KERNEL=]BYTES", "env": "env=NAME=VALUE",
}  # fmt: skip
_ALSO = {"module": "swap"}  # as `bisect --over` calls it
_OBSOLETE = ("lower-ptx",)  # in texts of results; PTX that is newer than a ptxas is lowered for it anyway
_AS_CAPTURED = ("captured", "as-captured", "none")
_KEYS = (*_SPELLINGS, *_ALSO, *_OBSOLETE)
_BETWEEN = compiled_later(rf"[,;](?=(?:--)?(?:{'|'.join(_KEYS)})[=:])")
_KEY = compiled_later(rf"(?:--)?({'|'.join(_KEYS)})(?:[=:](.*))?", re.S)


def _words(text: str) -> Iterator[tuple[str, str]]:
    """Key and value of each word of a variant. Raises UsageError."""
    try:
        words = [part for word in shlex.split(text) for part in _BETWEEN.split(word)]
    except ValueError as error:
        raise UsageError(f"the variant {text!r} cannot be read ({error})") from None
    if len(words) == 1 and words[0] in _AS_CAPTURED:
        return
    rest = iter(words)
    for word in rest:
        found = _KEY.fullmatch(word)
        if found is not None:
            value = found[2] if found[2] is not None else next(rest, "")
            if value:
                yield _ALSO.get(found[1], found[1]), value
                continue
        elif _names_file(word):
            yield "swap", word
            continue
        like = f"; for this one, ptxas={word}" if _LIKE_VERSION.fullmatch(word) else ""
        raise UsageError(
            f"{word!r} is no part of a variant",
            next=f"write {', '.join(_SPELLINGS.values())}; several with a blank between{like}",
        )


_LIKE_VERSION = compiled_later(r"\d{2}(\.\d+){0,2}")


def _names_file(word: str) -> bool:
    """Whether a word without a key is [KERNEL=]FILE[@NAME]."""
    try:
        parse_swap(word)
    except UsageError:
        return False
    return True


def make_variant(
    *,
    driver: str = "",
    device: int | None = None,
    swap: Iterable[str] = (),
    ptxas: str = "",
    tileiras: str = "",
    triton: str = "",
    num_warps: int = 0,
    num_stages: int = 0,
    constant: Iterable[str] = (),
    llvm_options: str = "",
    jit: Iterable[str] = (),
    grid: Iterable[str] = (),
    block: Iterable[str] = (),
    shared: Iterable[str] = (),
    env: Iterable[str] = (),
) -> Variant:
    """A variant of the values as they are on a command line. Raises UsageError."""
    shapes = [
        parse_geometry(what, text)
        for what, texts in zip(Variant.SHAPES, (grid, block, shared), strict=True)
        for text in texts
    ]
    for number, shape in enumerate(shapes):
        if any((shape.what, shape.kernel) == (other.what, other.kernel) for other in shapes[:number]):
            raise UsageError(f"--{shape.what} is given twice for the same kernel", where=shape.kernel or None)
    return Variant(
        driver, device, tuple(map(parse_swap, swap)), ptxas, parse_jit(jit), tuple(shapes),
        tuple(map(parse_environment, env)), tileiras, triton, num_warps, num_stages,
        _constants(constant), llvm_options.strip(),
    )  # fmt: skip


def _constants(texts: Iterable[str]) -> tuple[tuple[str, str], ...]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not value or not _ENVIRONMENT_NAME.fullmatch(name):
            raise UsageError(
                f"{text[:60]!r} is no constant", where="--constant", next="write NAME=VALUE, as BLOCK=128"
            )
        if _BETWEEN.search(value):
            raise UsageError(
                f"{text[:60]!r} has another word of a variant in it",
                where="--constant",
                next="write them apart",
            )
        if found.setdefault(name, value) != value:
            raise UsageError(f"{name} has two values, {found[name]} and {value}", where="--constant")
    return tuple(found.items())


def parse_environment(text: str) -> tuple[str, str]:
    """`NAME=VALUE`. Raises UsageError."""
    name, equals, value = text.partition("=")
    if not equals or not _ENVIRONMENT_NAME.fullmatch(name):
        raise UsageError(f"{text!r} is no environment variable", next="write env=NAME=VALUE")
    return name, value


def parse_swap(text: str, is_file: Callable[[str], bool] = lambda name: Path(name).is_file()) -> Swap:
    """`KERNEL=FILE`, `KERNEL=FILE@NAME` or `FILE`. All may hold "=" and "@": the longest name in front of a file that
    exists is the kernel's, and what follows such a file is the name in it.

    Raises UsageError when there is no such file.
    """
    places = [place for place, character in enumerate(text) if character == "="]
    for place in [*(place for place in reversed(places) if place), -1]:
        kernel, file = text[: max(place, 0)], text[place + 1 :]
        if is_file(file):
            return Swap(kernel, file)
        file, at, name = file.rpartition("@")
        if at and name and is_file(file):
            return Swap(kernel, file, name)
    name = text[places[0] + 1 :] if places else text
    what = "it is a folder" if Path(name).is_dir() else "there is no such file"
    raise UsageError(what, where=f"--swap {name}", next="--swap takes [KERNEL=]FILE, or KERNEL=FILE@NAME")


def refuse_program(text: str, where: object) -> None:
    """Who proposes candidates is not always the user, and a .py is run by the Triton that compiles it. text: with names
    of files. Raises UsageError."""
    if _PROGRAM.search(text):
        raise UsageError(
            "is a program, which is not executed here", where=where,
            next="save its kernel's PTX (Triton: `asm['ptx']`, Numba: `inspect_asm()`)",
        )  # fmt: skip


def parse_geometry(what: str, text: str) -> Geometry:
    """`X,Y,Z` (or `X`, `X,Y`; of shared memory BYTES), with `KERNEL=` in front where it is for one.

    Raises UsageError.
    """
    kernel, _, numbers = text.rpartition("=")
    parts = [_whole(part, what) for part in numbers.split(",")]
    if len(parts) > (1 if what == "shared" else 3):
        raise UsageError(f"has {len(parts)} numbers", where=f"--{what} {text}")
    if what == "shared":
        return Geometry(what, kernel, (parts[0], 0, 0))
    if not all(parts):
        raise UsageError("a dimension of 0", where=f"--{what} {text}")
    x, y, z = [*parts, 1, 1][:3]
    return Geometry(what, kernel, (x, y, z))


def _whole(text: str, what: str) -> int:
    digits = text.strip()
    if not digits.isascii() or not digits.isdigit():
        raise UsageError(f"{text!r} is no whole number", where=f"--{what}")
    if int(digits[:11]) > MAXIMUM_DIMENSION:
        raise UsageError(f"{text!r} is more than it can be, {MAXIMUM_DIMENSION:,}", where=f"--{what}")
    return int(digits)
