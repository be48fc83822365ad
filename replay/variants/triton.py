"""Kernels that a chosen Triton makes for a variant: of a file that the user names, or of the IR in the snapshot."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from replay.engine.variants import Shape
from replay.errors import EngineError, UsageError
from replay.images.model import KernelInfo
from replay.inspection.launches import LaunchedKernel
from replay.inspection.pieces import read_contents
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Compilation, Kernel, all_of
from replay.text import number
from replay.variants.images import BuiltImage, read_file
from replay.variants.model import TRITON_NUMBERS, Variant

if TYPE_CHECKING:
    from replay.variants.compilers.triton import Asked, Triton

SUFFIXES = (".ttir", ".ttgir", ".llir", ".py")
_LEVEL = "ttir"  # of the snapshot: the first that Triton takes as a file
# digest of a captured image -> what replaces it: digest of a new one -> it, and kernels, captured -> new name
Built = dict[str, dict[str, tuple[BuiltImage, dict[str, str]]]]
_SWITCHES = ("enable_fp_fusion",)
_HOW = "capture it with --with-ir, or name a file: --swap KERNEL=FILE.ttir"


class TritonKernels:
    """Of one variant. shapes: what its launches need that differs from the capture."""

    def __init__(
        self, variant: Variant, reader: SnapshotReader, architecture: int, want_ptx: bool,
        interface: Callable[[Kernel], KernelInfo], progress: Callable[[str], None],
    ) -> None:  # fmt: skip
        self._variant, self._reader, self._progress = variant, reader, progress
        self._architecture, self._want_ptx, self._interface = architecture, want_ptx, interface
        self._triton: Triton | None = None
        self._shared: dict[str, int] = {}  # digest of an image -> dynamic shared memory of its launches

    def of_file(self, file: str, kernel: Kernel) -> BuiltImage:
        """What replaces the kernel. A .py is run: the user names it. Raises FileError, BuildError, EngineError."""
        from replay.variants.compilers.triton import Asked

        made = self._compilation(kernel)
        signature = tuple(made.signature) if made is not None else ()
        own = Path(file).absolute() if file.endswith(".py") else None
        return self._built(Asked(Path(file).name, read_file(file), kernel.name, signature, own), kernel)

    def of_snapshot(self, kernel: Kernel) -> BuiltImage:
        """The captured IR of a kernel, compiled again. Raises EngineError where there is none."""
        from replay.variants.compilers.triton import MAXIMUM_SOURCE_BYTES, Asked

        made = self._compilation(kernel)
        contents = made.levels.get(_LEVEL) if made is not None else None
        if contents is None or contents.size_bytes > MAXIMUM_SOURCE_BYTES:
            raise EngineError("the snapshot has no IR of this kernel", where=kernel.name, next=_HOW)
        text = read_contents(self._reader, contents)
        return self._built(Asked(f"{kernel.image[:8]}.{_LEVEL}", text, kernel.name), kernel)

    def shapes(self, kernels: Sequence[Kernel], built: Built, given: Sequence[Shape]) -> list[Shape]:
        """What the launches of all that was built need otherwise, unless the user has said it."""
        asked = {(shape.what, shape.kernel) for shape in given}
        return [
            shape
            for kernel in kernels
            for image, names in built.get(kernel.image, {}).values()
            if kernel.name in names
            for shape in self._shapes(kernel, image, names[kernel.name])
            if (shape.what, shape.kernel) not in asked
        ]

    def _shapes(self, kernel: Kernel, image: BuiltImage, name: str) -> Iterator[Shape]:
        """Another number of warps is another block, and another Triton may need other shared memory."""
        info = image.kernel(name, self._architecture)
        threads = info.required_threads if info is not None else None
        here = LaunchedKernel(kernel.name, kernel.image)
        if threads is not None and list(threads) != kernel.block:
            yield Shape("block", here, (threads[0], threads[1], threads[2]))
        shared = self._shared.get(image.digest)
        if shared is not None and shared != kernel.shared_bytes:
            yield Shape("shared", here, (shared, 0, 0))

    def _compilation(self, kernel: Kernel) -> Compilation | None:
        return next((item for item in all_of(self._reader, Compilation) if item.image == kernel.image), None)

    def _captured_options(self, kernel: Kernel) -> dict[str, int]:
        """What the application asked Triton for, as far as its cache has it."""
        made = self._compilation(kernel)
        texts = made.options if made is not None else {}
        numbers = {name: int(texts[name]) for name in TRITON_NUMBERS if texts.get(name, "").isdecimal()}
        return {**numbers, **{name: texts[name] == "True" for name in _SWITCHES if texts.get(name)}}

    def _built(self, asked: Asked, kernel: Kernel) -> BuiltImage:
        from replay.variants.compilers.triton import compile_with, find

        if self._triton is None:
            self._triton = find(self._variant.triton, self._progress)
        self._progress(f"compiling {asked.file} with Triton {self._triton.version}")
        parameters = len(self._interface(kernel).parameters)
        asked = replace(
            asked,
            captured=self._captured_options(kernel),
            constants=self._variant.constants,
            llvm_options=self._variant.llvm_options,
        )
        made = compile_with(
            self._triton, asked, self._architecture, self._variant.triton_options, self._want_ptx, parameters
        )
        if made.shared_bytes is not None:
            self._shared[made.image.digest] = made.shared_bytes
        return made.image


def refuse_untrusted(variant: Variant) -> None:
    """Triton runs with all rights of the user, and so does a .py. Raises UsageError."""
    files = [swap.file for swap in variant.swaps if swap.file.endswith(SUFFIXES)]
    if files or variant.recompiles:
        what = f"{number(len(files), 'file')} for Triton" if files else "--triton"
        raise UsageError(
            f"--untrusted compiles nothing with Triton ({what})", next="swap in the PTX that it makes"
        )
