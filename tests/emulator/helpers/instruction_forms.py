"""Which form of the operation list (emulator/exec/operations/operations.def) an opcode of a test stands for."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

SOURCE = Path(__file__).resolve().parents[3] / "emulator" / "instructions.py"
ROUNDINGS = {"rn", "rz", "rm", "rp"}
# Types that are written in one place of an opcode only.
TYPES = re.compile(r"[busf](8|16|32|64)|bf16|[usb]?f?(16|32)x2|bf16x2|tf32|pred")
CONVERT_ORDER = (
    *("pack", "rni", "rzi", "rmi", "rpi", "rna", "rs", "ftz", "relu", "satfinite"),
    *("scaled::n2::ue8m0", "sat"),
)


def instructions() -> ModuleType:
    specification = importlib.util.spec_from_file_location("emulator_instructions", SOURCE)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    sys.modules[specification.name] = module
    # Dataclasses look their module up, so it is there already.
    specification.loader.exec_module(module)
    return module


def canonical(opcode: str, sources: int) -> set[str]:
    """The forms of the table that executing `opcode` uses."""
    mnemonic, *modifiers = opcode.split(".")
    if mnemonic == "cvt":
        kept = [m for m in modifiers if m not in ROUNDINGS]
        named = [name for name in CONVERT_ORDER if name in kept]
        return {".".join(["cvt", *named, *(m for m in kept if m not in named)])}
    if mnemonic == "atom":
        return {".".join(["atom", *(m for m in modifiers if m not in ("global", "shared", "noftz"))])}
    if mnemonic == "set":
        mnemonic, modifiers = "setp", [m for n, m in enumerate(modifiers) if n != len(modifiers) - 2]
    modifiers = [m for m in modifiers if not (mnemonic == "setp" and m in ("and", "or", "xor"))]
    if mnemonic == "slct":
        *ftz, kind, by = modifiers
        return {f"selp.{kind}", ".".join(["setp", "ge", *ftz, by])}
    if mnemonic == "setp":
        last = modifiers[-1]
        return {".".join([mnemonic, *modifiers[:-1], last[:-2] if last in ("f16x2", "bf16x2") else last])}
    modifiers = [m for m in modifiers if m not in ROUNDINGS]
    adjusting = [m for m in ("relu", "ftz", "sat") if m in modifiers]
    modifiers = [m for m in modifiers if m not in adjusting]
    first_type = next((n for n, m in enumerate(modifiers) if TYPES.fullmatch(m)), len(modifiers))
    modifiers[first_type:first_type] = adjusting
    if mnemonic in ("min", "max") and sources == 3:
        mnemonic += "3"
    return {".".join([mnemonic, *modifiers])}
