"""How a snapshot is replayed: what commands and programs may choose, and the `RunOptions` that come of it."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypedDict

from replay.errors import UsageError
from replay.inspection.folder import new_folder
from replay.outputs.tolerance import parse as parse_tolerance
from replay.run.parent import DEFAULT_TIMEOUT_S, RunOptions
from replay.timing.stopping import QUICK, RIGOROUS, StoppingParameters
from replay.variants.model import Variant, make_variant
from replay.variants.model import parse as parse_variant

if TYPE_CHECKING:
    from typing_extensions import Unpack

PathLike = str | os.PathLike[str]
MAXIMUM_VARIED = 16
Shape = int | tuple[int, ...] | str


class VariantChoices(TypedDict, total=False):
    """What is changed from the application. swap: kernel -> file with another one, or texts as after `--swap`. ptxas,
    tileiras, triton: a version or a path. num_warps, num_stages: that Triton is asked for. constant: of the kernel,
    name -> value. llvm_options: of Triton's LLVM. jit: option -> value. grid,
    block: numbers, or kernel -> numbers. shared: bytes of dynamic shared memory, or kernel -> bytes. env: variables of
    the process that replays."""

    swap: Mapping[str, PathLike] | Iterable[str] | str
    ptxas: str
    tileiras: str
    triton: str
    num_warps: int
    num_stages: int
    constant: Mapping[str, object] | Iterable[str] | str
    llvm_options: str
    jit: Mapping[str, object] | Iterable[str] | str
    grid: Mapping[str, Shape] | Iterable[str] | Shape
    block: Mapping[str, Shape] | Iterable[str] | Shape
    shared: Mapping[str, int] | Iterable[str] | int | str
    env: Mapping[str, str]


class SideChoices(VariantChoices, total=False):
    """A side of a comparison: a variant, and the driver and device that it is replayed on."""

    driver: str
    device: int


class RunChoices(VariantChoices, total=False):
    """How a snapshot is replayed. Each is the option of `replay run` of the same name; docs/run.md describes them.

    caches: cold, hot or both. timeout_s: time without progress. dtypes: buffer -> element type. save_outputs: a new
    folder for outputs that differ. logs: a folder for what the worker says. memory_limit_bytes: of the worker.
    trust: True does not confine the worker; False: the variant may be made to deceive (docs/evaluation.md).
    vary_inputs: on how many other inputs it is compared with the captured kernel. shift: move all memory on purpose,
    twice.
    """

    driver: str | None
    device: int
    samples: int | None
    quick: bool
    rigorous: bool
    timing: bool
    caches: Literal["both", "cold", "hot"]
    serialize: bool
    profile: bool
    timeout_s: float
    trust: bool | None
    vary_inputs: int | None
    best_effort: bool
    expand_graphs: bool
    counters: bool
    relocate: bool
    shift: bool
    dtypes: Mapping[str, str] | Iterable[tuple[str, str]]
    tolerance: str
    save_outputs: PathLike | None
    save_all: bool
    logs: PathLike | None
    memory_limit_bytes: int | None
    window: int | None


Side = Variant | SideChoices | str | None
VARIANT_NAMES = tuple(VariantChoices.__annotations__)
SIDE_NAMES = (*VARIANT_NAMES, *("driver", "device"))


_OPTIONAL = type(None)
_TYPES: dict[str, tuple[type, ...]] = {
    **dict.fromkeys(("driver",), (str, _OPTIONAL)),
    **dict.fromkeys(("tolerance", "caches", "triton", "llvm_options", *Variant.ASSEMBLERS), (str,)),
    **dict.fromkeys(("samples", "memory_limit_bytes", "window", "vary_inputs"), (int, _OPTIONAL)),
    **dict.fromkeys(("device", "num_warps", "num_stages"), (int,)),
    "timeout_s": (int, float),
    **{name: (bool,) for name, kind in RunChoices.__annotations__.items() if "bool" in str(kind)},
    "trust": (bool, _OPTIONAL),
}


def _check_types(choices: Mapping[str, object]) -> None:
    """What a client of `replay serve` says may be anything."""
    for name, kinds in _TYPES.items():
        value = choices.get(name, None if _OPTIONAL in kinds else kinds[0]())
        is_kind = isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
        if not is_kind or (isinstance(value, (int, float)) and not 0 <= value < 1 << 63):
            raise UsageError(f"{str(value)[:60]!r} is no value of this choice", where=name)
        if value == 0 and name in choices and name in ("samples", "window", "timeout_s"):
            raise UsageError("has to be more than 0", where=name)


def run_options(**choices: Unpack[RunChoices]) -> RunOptions:
    """The options of one replay. Raises UsageError where choices exclude each other, or make no sense."""
    for name in choices.keys() - RunChoices.__annotations__.keys():
        _refuse(name, RunChoices.__annotations__)
    _check_types(choices)
    quick, rigorous, samples = (
        choices.get("quick", False),
        choices.get("rigorous", False),
        choices.get("samples"),
    )
    caches, serialize, profile = (
        choices.get("caches", "both"),
        choices.get("serialize", False),
        choices.get("profile", False),
    )
    save_outputs, save_all = choices.get("save_outputs"), choices.get("save_all", False)
    if save_all and save_outputs is None:
        raise UsageError("--save-all needs --save-outputs DIR")
    if quick and rigorous:
        raise UsageError("--quick and --rigorous exclude each other")
    sampled = quick or rigorous or samples or caches != "both" or serialize
    if profile and (sampled or choices.get("shift", False) or choices.get("counters", False)):
        raise UsageError(
            "--profile and --sanitizer replay once, and time nothing",
            next="leave out --quick, --rigorous, --samples, --cold, --hot, --serialize, --shift and --counters",
        )
    timing = choices.get("timing", True) and not profile
    if not timing and sampled:
        raise UsageError(
            "--no-timing takes no samples",
            next="leave out --quick, --rigorous, --samples, --cold, --hot and --serialize",
        )
    if caches not in ("both", "cold", "hot"):
        raise UsageError(f"{caches!r} is no choice", where="caches", next="use both, cold or hot")
    parameters = QUICK if quick else RIGOROUS if rigorous else StoppingParameters()
    untrusted, vary_inputs = _distrust(choices, profile or bool(choices.get("shift")))
    dtypes = choices.get("dtypes", ())
    logs = choices.get("logs")
    variant: Any = {name: value for name, value in choices.items() if name in VARIANT_NAMES}
    return RunOptions(
        driver=choices.get("driver"),
        device=choices.get("device", 0),
        timing=replace(parameters, fixed_samples=samples) if timing else None,
        timeout_s=choices.get("timeout_s", DEFAULT_TIMEOUT_S),
        trust=choices.get("trust") is True,
        untrusted=untrusted,
        vary_inputs=vary_inputs,
        best_effort=choices.get("best_effort", False),
        relocate=choices.get("relocate", True),
        expand_graphs=choices.get("expand_graphs", False),
        counters=choices.get("counters", False),
        window=choices.get("window"),
        serialize=serialize,
        profile=profile,
        caches=caches,
        dtypes=tuple(dtypes.items() if isinstance(dtypes, Mapping) else dtypes),
        tolerance=parse_tolerance(choices.get("tolerance", "auto")),
        save_outputs=new_folder(None if save_outputs is None else Path(save_outputs)),
        save_all=save_all,
        log_folder=None if logs is None else Path(logs),
        memory_limit_bytes=choices.get("memory_limit_bytes"),
        variant=variant_of(variant),
    )


def _distrust(choices: RunChoices, otherwise: bool) -> tuple[bool, int]:
    """Whether the variant is untrusted, and on how many other inputs it is tried. otherwise: it is replayed in a way
    that has no room for that."""
    untrusted, given = choices.get("trust") is False, choices.get("vary_inputs")
    vary_inputs = int(untrusted) if given is None else given
    if vary_inputs > MAXIMUM_VARIED:
        raise UsageError(f"at most {MAXIMUM_VARIED} other inputs are tried", where="--vary-inputs")
    if otherwise and (untrusted or vary_inputs):
        raise UsageError("--untrusted and --vary-inputs go neither with --shift nor with --profile")
    if choices.get("best_effort", False) and untrusted:
        raise UsageError("--untrusted leaves nothing out", next="leave out --best-effort")
    return untrusted, vary_inputs


def variant_of(given: Side) -> Variant:
    """A variant of what a program says: nothing, the text that `--a` and `--b` take, or choices by name."""
    if given is None:
        return Variant()
    if isinstance(given, Variant):
        return given
    if isinstance(given, str):
        return parse_variant(given)
    for name in given.keys() - {*SIDE_NAMES}:
        _refuse(name, SIDE_NAMES)
    return make_variant(
        driver=given.get("driver", ""),
        device=given.get("device"),
        swap=_texts(given.get("swap")),
        ptxas=given.get("ptxas", ""),
        tileiras=given.get("tileiras", ""),
        triton=given.get("triton", ""),
        num_warps=given.get("num_warps", 0),
        num_stages=given.get("num_stages", 0),
        constant=_texts(given.get("constant")),
        llvm_options=given.get("llvm_options", ""),
        jit=_texts(given.get("jit")),
        grid=_texts(given.get("grid")),
        block=_texts(given.get("block")),
        shared=_texts(given.get("shared")),
        env=_texts(given.get("env")),
    )


def _refuse(name: str, known: Iterable[str]) -> None:
    raise UsageError(f"there is no choice {name!r}", next=f"use {', '.join(known)}")


def _texts(given: object) -> list[str]:
    """As the command line has it: each a word after the option."""
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [f"{key}={_text(value)}" if key else _text(value) for key, value in given.items()]
    if isinstance(given, tuple) and given and all(isinstance(item, int) for item in given):
        return [_text(given)]
    if isinstance(given, (str, int, os.PathLike)):
        return [_text(given)]
    return [_text(item) for item in given]  # type: ignore[attr-defined]


def _text(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return ",".join(map(str, value))
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
