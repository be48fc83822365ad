"""What is tuned: the kernel of a window, its configurations as variants, and the grid of each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from replay.bisect.laboratory import ptx_code
from replay.errors import ReplayError, UsageError
from replay.images import usable_modules
from replay.inspection.kernels import captured_kernels
from replay.inspection.launches import Launch, launches
from replay.inspection.pieces import read_contents
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Compilation, Image, Kernel, all_of
from replay.tuning.configurations import OPTIONS, Configuration
from replay.tuning.configurations import shown as described
from replay.tuning.grids import grid_of
from replay.variants.kernels import shown
from replay.variants.model import TRITON_NUMBERS, Dimensions, Geometry, Swap, Variant, parse

AS_CAPTURED = "captured"  # of --grid: whatever the configuration
_SCALAR = re.compile(r"(\w+): i(8|16|32|64)\b")


@dataclass(frozen=True)
class Question:
    """One kernel of one window. names: what an expression of its grid may name, of its captured launches: parameters
    that are integers, and one that Triton made a constant of is none of them. code: a digest of what was captured, ""
    where it is not known."""

    kernel: Kernel
    grid: Dimensions
    names: dict[str, int]
    code: str
    grids: int = 1  # how many different ones its launches have

    def variant(self, configuration: Configuration, file: Path | None, triton: str, grid: str) -> Variant:
        """A configuration as a variant. Raises UsageError where its grid is not known, or needs a source."""
        constants = tuple((name, value) for name, value in configuration.items() if name not in OPTIONS)
        shape = self._grid(configuration, dict(constants), file, grid)
        made = Variant(
            swaps=() if file is None else (Swap(self.kernel.name, str(file)),),
            geometry=() if shape == self.grid else (Geometry("grid", self.kernel.name, shape),),
            triton=triton,
            constants=constants,
            num_warps=int(configuration.get("num_warps", "0")),
            num_stages=int(configuration.get("num_stages", "0")),
        )
        # Its text goes into results and to replays: what reads otherwise there is another variant, such as one with a
        # variable of the environment in it.
        if parse(str(made)) != made:
            raise UsageError(
                f"{described(configuration)[:80]} cannot be written as a variant",
                next="leave out commas and semicolons in values, and in names of files and folders",
            )  # fmt: skip
        return made

    def _grid(
        self, configuration: Configuration, constants: dict[str, str], file: Path | None, grid: str
    ) -> Dimensions:
        own = [name for name in constants if name not in TRITON_NUMBERS]
        if own and file is None:
            raise UsageError(
                f"{own[0]} is a number in the captured IR", where="--config",
                next="name the source, whose constants have names: replay tune SNAP KERNEL.py",
            )  # fmt: skip
        if grid == AS_CAPTURED or (not grid and not own):
            return self.grid
        if not grid:
            raise UsageError(
                f"whether the grid follows {', '.join(own)} is not known", where="--config",
                next="say what the program has, as --grid 'cdiv(n, BLOCK)', or --grid captured where it does not",
            )  # fmt: skip
        if self.grids > 1:
            raise UsageError(
                f"the launches of {self.kernel.name} have {self.grids} different grids", where="--grid",
                next="capture one launch",
            )  # fmt: skip
        numbers = {
            name: int(value) for name, value in configuration.items() if re.fullmatch(r"-?\d{1,18}", value)
        }
        return grid_of(grid, {**self.names, **numbers})


def question_of(reader: SnapshotReader) -> Question:
    """Of the only kernel of the window: times of several would be of all. reader: at the window. Raises UsageError."""
    kernels = list(all_of(reader, Kernel))
    if len(kernels) != 1:
        raise UsageError(
            f"the window launches {len(kernels)} kernels ({shown(kernels)})" if kernels else "launches no kernel",
            where=reader.path, next="capture a launch of one: `replay capture --kernel NAME --with-ir`",
        )  # fmt: skip
    kernel = kernels[0]
    found = [
        item
        for item in launches(all_of(reader, Call), kernels)
        if (item.kernel, item.image) == (kernel.name, kernel.image)
    ]
    if not found:
        raise UsageError(
            f"the window launches {kernel.name} in a graph alone", where=reader.path,
            next="capture it outside a graph",
        )  # fmt: skip
    made = next((item for item in all_of(reader, Compilation) if item.image == kernel.image), None)
    signature = made.signature if made is not None else []
    return Question(
        kernel,
        found[0].grid,
        _names(found, signature),
        _code(reader, kernel),
        len({item.grid for item in found}),
    )


def _names(found: Sequence[Launch], signature: Sequence[str]) -> dict[str, int]:
    """Integers that all launches were given alike, by name. Of a signature that has other parameters than the launch in
    it, such as descriptors of tensors, none is told."""
    values: dict[str, set[int]] = {}
    for launch in found:
        parameters = launch.parameters or []
        if len(parameters) < len(signature) or any("tensordesc" in line for line in signature):
            return {}
        for line, parameter in zip(signature, parameters, strict=False):
            scalar = _SCALAR.match(line)
            if scalar is None and "!tt.ptr" not in line:
                continue
            if scalar is not None and int(scalar[2]) == 8 * parameter.size:
                values.setdefault(scalar[1], set()).add(int.from_bytes(parameter.data, "little", signed=True))
    return {name: one.pop() for name, one in values.items() if len(one) == 1}


def _code(reader: SnapshotReader, kernel: Kernel) -> str:
    """As `code_of` of a variant has it: of machine code, else of PTX."""
    made = [
        item for item in captured_kernels(reader) if (item.name, item.image) == (kernel.name, kernel.image)
    ]
    if made and made[0].code:
        return made[0].code
    image = next((item for item in all_of(reader, Image) if item.digest == kernel.image), None)
    try:
        data = b"" if image is None else read_contents(reader, image.contents)
        found = [contents for kind, contents in usable_modules(data, None) if kind == "ptx"]
    except ReplayError:
        return ""
    return ptx_code(found[0], kernel.demangled or kernel.name) if len(found) == 1 else ""
