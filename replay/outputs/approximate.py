"""Which operations of a kernel may give other bits on another kind of device, and how far off each may be.

Bounds are those of "Parallel Thread Execution ISA", section 9.7.3 and 9.7.4 (Floating Point Instructions, Half
Precision): on each side the result is at most that far from the exact one. The error of an output depends on the values
(cancellation makes relative errors grow without limit), so the sum over the distinct operations of a kernel is an
allowance, not a proof, and is always shown. docs/cpu-driver-instructions.md has the CPU driver's own errors.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from replay.images.ptx_body import Instruction
from replay.outputs.tolerance import Tolerance
from replay.records import dataclass

F32_ULP = 2.0**-23  # relative, at most
_HALF_ULP = {"f16": 2.0**-10, "bf16": 2.0**-7, "f32": F32_ULP, "f64": 2.0**-52}

# (operation, type) -> relative error, absolute error, on a GPU. Two f16 or bf16 in one register are as one.
BOUNDS: dict[tuple[str, str], tuple[float, float]] = {
    ("ex2.approx", "f32"): (2 * F32_ULP, 0.0),
    ("lg2.approx", "f32"): (2.0**-22, 2.0**-22),  # absolute for arguments in (0.5, 2)
    ("rcp.approx", "f32"): (F32_ULP, 0.0),
    ("sqrt.approx", "f32"): (2.0**-23, 0.0),
    ("rsqrt.approx", "f32"): (2.0**-22.9, 0.0),
    ("sin.approx", "f32"): (0.0, 2.0**-20.5),  # in [-2 pi, 2 pi]
    ("cos.approx", "f32"): (0.0, 2.0**-20.5),
    ("tanh.approx", "f32"): (2.0**-11, 0.0),
    ("div.approx", "f32"): (2 * F32_ULP, 0.0),
    ("div.full", "f32"): (2 * F32_ULP, 0.0),
    ("ex2.approx", "f16"): (2.0**-9.9, 0.0),
    ("ex2.approx", "bf16"): (2.0**-7, 0.0),
    ("tanh.approx", "f16"): (0.0, 2.0**-10.987),
    ("tanh.approx", "bf16"): (0.0, 2.0**-8),
    # Only of the upper word; no bound is documented, its last bit is taken
    ("rcp.approx", "f64"): (2.0**-20, 0.0),
    ("rsqrt.approx", "f64"): (2.0**-20, 0.0),
}
_CPU_DRIVER_RELATIVE = F32_ULP  # at most, of any of these
_TENSOR = ("mma", "wmma", "wgmma", "tcgen05")
# Of a matrix product whose inner dimension is this: a kernel's text does not say how often its loops turn.
_PRODUCTS_OF_A_SUM = 16_384
_SHAPE = re.compile(r"m\d+n\d+k(\d+)")


@dataclass(frozen=True)
class Use:
    """One sort of operation in a kernel: how far two devices may be apart in it."""

    text: str
    relative: float = 0.0
    absolute: float = 0.0


def uses(
    instructions: Iterable[Instruction], threads: int, captured_emulated: bool, emulated: bool
) -> list[Use]:
    """What of a kernel's instructions may differ, each sort once. threads: of the launch, which bounds how many atomics
    meet."""
    found: dict[str, Use] = {}
    multiplies = adds = False
    for item in instructions:
        opcode = item.opcode
        type_ = next(
            (part.removesuffix("x2") for part in reversed(opcode) if part.removesuffix("x2") in _HALF_ULP), ""
        )
        name = ".".join(opcode[:2])
        if bound := BOUNDS.get((name, type_)):
            text = f"{name}.{type_}"
            if text not in found:
                sides = 2 - captured_emulated - emulated
                own = (captured_emulated + emulated) * _CPU_DRIVER_RELATIVE
                found[text] = Use(text, sides * bound[0] + own, sides * bound[1])
        elif opcode[0] in ("atom", "red") and "add" in opcode and type_:
            # The order is another one each time. Rounding errors of a sum in random order grow with the root of how
            # many there are (Higham, Accuracy and Stability of Numerical Algorithms, section 4.2).
            found.setdefault(
                "atomics",
                Use(
                    f"atomic additions of {type_} by {threads:,} threads",
                    math.sqrt(threads) * _HALF_ULP[type_],
                ),
            )
        elif opcode[0] in _TENSOR:
            if sums := matrix_sums(opcode):
                found.setdefault(sums.text, sums)
        elif len(opcode) > 1 and opcode[-1] in ("f32", "f64") and not {"rn", "rz", "rm", "rp"} & set(opcode):
            multiplies |= opcode[0] == "mul"
            adds |= opcode[0] in ("add", "sub")
    if multiplies and adds and captured_emulated != emulated:
        found["fused"] = Use("products and sums that ptxas may fuse", F32_ULP)
    return list(found.values())


def matrix_sums(opcode: tuple[str, ...]) -> Use | None:
    """Sums of matrix products, whose order is not documented: of f32 and f64 one unit for each instruction that a sum
    goes through, since they may all be cut off to one side; of f16, which is rounded, the root of as many. None for
    integers, and for what multiplies nothing."""
    shape = next((found for part in opcode if (found := _SHAPE.fullmatch(part))), None)
    multiplies = opcode[0] == "mma" or "mma" in opcode or "mma_async" in opcode
    if not multiplies or (shape is None and opcode[0] != "tcgen05"):
        return None
    # The first type is that of the sum; tcgen05 has it in a descriptor.
    type_ = next((part for part in opcode if part in ("f16", "f32", "f64", "s32")), "f32")
    if opcode[0] == "tcgen05":
        type_ = "f32"
    if type_ == "s32":
        return None
    steps = _PRODUCTS_OF_A_SUM / (int(shape[1]) if shape else 16)
    units = math.sqrt(steps) if type_ == "f16" else steps
    text = f"sums of matrix products in {type_} ({opcode[0]}), of up to {_PRODUCTS_OF_A_SUM:,}"
    return Use(text, absolute=units * _HALF_ULP[type_])


def allowance(found: Iterable[Use]) -> Tolerance | None:
    """The sum of the operations' tolerances, each counted once; None when nothing may differ."""
    distinct = {use.text: use for use in found}
    relative = sum(use.relative for use in distinct.values())
    absolute = sum(use.absolute for use in distinct.values())
    if not relative and not absolute:
        return None
    reasons = [use.text for use in distinct.values()]
    # One unit in the last place, since a difference in a wider type may turn the rounding to a narrower one.
    return Tolerance(1, relative, absolute, "op table", tuple(reasons), scaled=True)
