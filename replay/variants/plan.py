"""What a variant changes in one snapshot: images read or built, interfaces compared, all before anything runs.

Order: the kernels that are meant; files read and sources compiled; PTX assembled; then interfaces, variables and
geometry compared with what the snapshot asks for. Raises InterfaceMismatch with both sides.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace

from replay import settings
from replay.drivers import Driver
from replay.engine.preflight.findings import machine_code_runs, ptx_compiles
from replay.engine.variants import Replacement, Shape, reshaped_geometry
from replay.errors import EngineError, ImageError, UsageError
from replay.images.model import KernelInfo, Parameter
from replay.inspection.launches import LaunchedKernel
from replay.inspection.pieces import read_contents
from replay.results.run.trust import TrustCheck
from replay.results.run.variant import KeptImage, VariantFacts, VariantImage
from replay.snapshot.container import SnapshotReader
from replay.snapshot.schema import Call, Image, Kernel, Range, all_of
from replay.text import number
from replay.variants import device
from replay.variants.assemblers import assemble_with
from replay.variants.assemblers.tools import ASSEMBLERS, Assembler, Tool, find
from replay.variants.compilers.sandbox import Sandbox
from replay.variants.images import SOURCE_SUFFIXES, BuiltImage, describe, keep, read_image_file
from replay.variants.interface import GEOMETRY, Fact, Launched, compare_interfaces, compare_variables, refuse
from replay.variants.kernels import find_kernel, name_in, only_kernel, shown
from replay.variants.model import Geometry, Swap, Variant
from replay.variants.planned import NotExecutable, Plan
from replay.variants.triton import SUFFIXES, Built, TritonKernels, refuse_untrusted
from replay.variants.usage import ImageUse, image_uses, launched

Progress = Callable[[str], None]

_HOW_TO_HAVE = {
    "ptxas": "capture a build that includes PTX (`-gencode arch=compute_XX,code=[sm_XX,compute_XX]`)",
    "tileiras": "capture a build that hands Tile IR to the driver, and not a cubin",
}


def plan_variant(
    variant: Variant,
    reader: SnapshotReader,
    driver: Driver,
    ordinal: int,
    progress: Progress = lambda text: None,
    untrusted: bool = False,
) -> Plan:
    """Read, build and compare, for a variant that changes something. reader: at the window that is replayed. untrusted:
    it may be made to deceive. Raises UsageError, EngineError, ImageError."""
    return _Planning(variant, reader, driver, ordinal, progress, untrusted).plan()


class _Planning:
    def __init__(
        self,
        variant: Variant,
        reader: SnapshotReader,
        driver: Driver,
        ordinal: int,
        progress: Progress,
        untrusted: bool,
    ) -> None:
        self._variant = variant
        self._reader = reader
        self._driver = driver
        self._progress = progress
        self._kernels = list(all_of(reader, Kernel))
        self._images = {image.digest: image for image in all_of(reader, Image)}
        calls = list(all_of(reader, Call))
        self._uses = image_uses(calls, list(all_of(reader, Range)))
        self._launches = launched(calls, self._kernels)
        self._captured: dict[str, BuiltImage] = {}
        decides = variant.swaps or variant.assemblers or variant.geometry or variant.recompiles
        self._architecture = device.architecture(driver, ordinal) if decides else None
        self._notes: list[str] = []
        self._untrusted = untrusted
        self._sandbox = Sandbox() if untrusted or settings.SANDBOX.value() else None
        self._checks: list[TrustCheck] = []
        self._triton: TritonKernels | None = None

    def plan(self) -> Plan:
        """The whole order of the module's docstring."""
        assembled = " ".join(f"--{name}" for name in self._variant.assemblers)
        shapes = [self._shape(item) for item in self._variant.geometry]
        built: Built = {}
        if self._untrusted:
            refuse_untrusted(self._variant)
        for swap in self._variant.swaps:
            self._swap(swap, built)
        if self._variant.recompiles and not any(swap.file.endswith(SUFFIXES) for swap in self._variant.swaps):
            self._recompile(built)
        if self._triton is not None:
            shapes += self._triton.shapes(self._kernels, built, shapes)
        if assembled:
            self._assemble(built)
        replacements, images = [], []
        for digest, stand_ins in built.items():
            for image, names in stand_ins.values():
                replacement = self._fit(digest, image, names, alone=len(stand_ins) == 1)
                if assembled and replacement.beside:
                    self._notes.append(
                        f"{assembled} assembled {image.source}, and not the captured image beside it"
                    )
                self._compare(digest, image, replacement, shapes)
                replacements.append(replacement)
                images.append((digest, image, replacement))
        self._compare_shapes(shapes, built, replacements)
        described = [self._described(*item) for item in images]
        geometry = [f"{shape.what} of {shape.kernel.name}: {_shown(shape)}" for shape in shapes]
        jit = self._variant.jit
        if jit and self._driver.emulated:
            self._notes.append(
                "the built-in CPU driver has no compiler: JIT options were passed on and changed nothing"
            )
        result = VariantFacts(
            str(self._variant), described, [str(option) for option in jit], geometry, self._kept(images)
        )
        machine_code = [item for _, item, _ in images if not item.runs_as_ptx(self._architecture)]
        if machine_code and self._driver.emulated:
            source = machine_code[0].source
            kind = "Tile IR" if machine_code[0].kind == "tileir" else "a cubin"
            what, option = f"{source} is {kind}", "--swap"
            if assembled:
                what, option = "assembled and not run", assembled
            raise NotExecutable(
                f"{what}: the built-in CPU driver executes only PTX", result, where=option,
                next="replay on a GPU (--driver system), or swap in PTX or a .cu",
            )  # fmt: skip
        pairs = tuple((option.number, option.value) for option in jit)
        return Plan(tuple(replacements), tuple(shapes), pairs, result, tuple(self._notes), self._all_checks())

    def _all_checks(self) -> tuple[TrustCheck, ...]:
        if self._sandbox is None or not self._sandbox.used:
            return tuple(self._checks)
        missing = "; ".join(self._sandbox.missing)
        text = missing or "it was compiled without a network, and without files but those of compilers"
        return (*self._checks, TrustCheck("compiler", not missing, text))

    # -- what is meant ------------------------------------------------------------------------------------------

    def _shape(self, item: Geometry) -> Shape:
        option = f"--{item.what}"
        named = item.kernel and find_kernel(self._kernels, item.kernel, option)
        kernel = named or only_kernel(self._kernels, option)
        return Shape(item.what, LaunchedKernel(kernel.name, kernel.image), item.value)

    def _triton_kernels(self) -> TritonKernels:
        if self._triton is None:
            assert self._architecture is not None
            want_ptx = self._driver.emulated or bool(self._variant.ptxas)
            self._triton = TritonKernels(
                self._variant, self._reader, self._architecture, want_ptx, self._interface, self._progress
            )
        return self._triton

    def _recompile(self, built: Built) -> None:
        """The kernels that no file replaces."""
        left = [kernel for kernel in self._kernels if kernel.image not in built]
        for kernel in left:
            self._stand_in(
                Swap(kernel.name, ""), self._triton_kernels().of_snapshot(kernel), kernel, kernel.name, built
            )

    def _swap(self, swap: Swap, built: Built) -> None:
        if swap.file.endswith(SUFFIXES):
            named = swap.kernel and find_kernel(self._kernels, swap.kernel, "--swap")
            kernel = named or only_kernel(self._kernels, "--swap")
            image = self._triton_kernels().of_file(swap.file, kernel)
            there = image.kernel_names(self._architecture)
            self._stand_in(swap, image, kernel, name_in(swap, kernel, there), built)
            return
        image = self._build(swap.file)
        self._loads(image)
        if self._untrusted:
            from replay.variants.untrusted import refuse_own_work

            self._checks.append(refuse_own_work(image, self._architecture))
        there = image.kernel_names(self._architecture)
        if not there:
            raise ImageError(f"has no kernel for sm_{self._architecture}", where=swap.file)
        for kernel in self._meant(swap, there):
            self._stand_in(swap, image, kernel, name_in(swap, kernel, there), built)

    def _stand_in(self, swap: Swap, image: BuiltImage, kernel: Kernel, new_name: str, built: Built) -> None:
        """`new_name` of the image replaces the kernel."""
        if not kernel.image or kernel.image not in self._images:
            raise EngineError(
                "the image of this kernel was not captured, so nothing can replace it", where=kernel.name
            )
        images = built.setdefault(kernel.image, {})
        for known, names in images.values():
            if kernel.name in names and (known.digest, names[kernel.name]) != (image.digest, new_name):
                raise UsageError(
                    f"{kernel.demangled or kernel.name} is swapped twice",
                    where=f"--swap {swap}",
                    next="give one file",
                )
        images.setdefault(image.digest, (image, {}))[1][kernel.name] = new_name

    def _meant(self, swap: Swap, there: list[str]) -> list[Kernel]:
        """One kernel; or, where none is named, all of one captured module that the file has."""
        if swap.kernel:
            return [find_kernel(self._kernels, swap.kernel, "--swap")]
        named = [kernel for kernel in self._kernels if kernel.name in there]
        if named and len({kernel.image for kernel in named}) == 1:
            return named
        if not named and len(there) == 1 and len(self._kernels) == 1:
            return self._kernels[:1]
        if named:
            what = f"{swap.file} has {len(named)} of the kernels that the window launches, of several modules"
        else:
            what = f"{swap.file} has none of the kernels that the window launches"
        raise UsageError(
            what, where="--swap", next=f"say which, as KERNEL={swap.file}: {shown(self._kernels)}"
        )

    def _loads(self, image: BuiltImage) -> None:
        """Raises EngineError when the device takes no part of an image."""
        architecture = self._architecture
        assert architecture is not None
        modules = image.modules(architecture)
        for module in modules:
            fits = machine_code_runs if module.kind == "cubin" else ptx_compiles
            if module.kind == "tileir" or fits(module.target, architecture):
                return
        has = ", ".join(
            f"machine code for {item.target}" if item.kind == "cubin" else f"PTX for {item.target}"
            for item in modules
        )
        raise EngineError(
            f"holds {has or 'no code'}, which a device of sm_{architecture} cannot run", where=image.source,
            next=f"compile it for this device, such as with `nvcc -ptx -arch=compute_{architecture}`",
        )  # fmt: skip

    def _build(self, file: str) -> BuiltImage:
        if file.endswith(SOURCE_SUFFIXES):
            from replay.variants.compilers.cuda_source import compile_source

            assert self._architecture is not None
            self._progress(f"compiling {os.path.basename(file)}")
            want_ptx = self._driver.emulated or bool(self._variant.ptxas)
            return compile_source(file, self._architecture, want_ptx=want_ptx, sandbox=self._sandbox)
        return read_image_file(file)

    def _assemble(self, built: Built) -> None:
        """Every image that a launched kernel is from, by the chosen assembler that takes it."""
        without: list[str] = []
        tools = [(ASSEMBLERS[name], find(ASSEMBLERS[name], choice, self._progress))
                 for name, choice in self._variant.assemblers.items()]  # fmt: skip
        for digest in dict.fromkeys(kernel.image for kernel in self._kernels):
            swapped = list(built.get(digest, {}).values())
            sources: list[tuple[BuiltImage | None, dict[str, str]]] = [*swapped] or [
                (self._original(digest), {})
            ]
            built[digest] = {}
            for image, names in sources:
                made = image and self._assembled(image, digest, tools)
                if image is None or made is None:
                    without.append(digest[:8] or "not captured")
                else:
                    built[digest][made.digest] = (replace(made, source_text=image.source_text), names)
        if without:
            takes = " or ".join(kind.takes for kind, _ in tools)
            raise EngineError(
                f"{number(len(without), 'image')} that the window needs: no {takes} in {', '.join(without[:4])}",
                where=" ".join(f"--{kind.name}" for kind, _ in tools), next=_HOW_TO_HAVE[tools[0][0].name],
            )  # fmt: skip

    def _assembled(
        self, image: BuiltImage, digest: str, tools: list[tuple[Assembler, Tool]]
    ) -> BuiltImage | None:
        assert self._architecture is not None
        for kind, tool in tools:
            sources = image.sources(kind.kind, self._architecture)
            if len(sources) > 1:
                raise EngineError(
                    f"image {digest[:8]} holds {len(sources)} modules of {kind.takes} to be linked with each other",
                    where=f"--{kind.name}", next="build it without relocatable device code, or swap in a cubin",
                )  # fmt: skip
            if sources:
                self._progress(f"assembling image {digest[:8]} with {kind.name} {tool.version}")
                how = self._architecture, self._variant.jit, self._sandbox
                return assemble_with(kind, tool, sources[0], image.source, *how)
        return None

    def _original(self, digest: str) -> BuiltImage | None:
        """A captured image; None when it is not in the snapshot."""
        if digest not in self._captured and digest in self._images:
            data = read_contents(self._reader, self._images[digest].contents)
            self._captured[digest] = BuiltImage(data, f"captured image {digest[:8]}")
        return self._captured.get(digest)

    # -- whether it fits ----------------------------------------------------------------------------------------

    def _fit(self, digest: str, image: BuiltImage, names: dict[str, str], alone: bool) -> Replacement:
        """Which kernels come from where: whatever the new image has comes from it, unless others share variables. Where
        a module has several images, each gives the kernels that were named for it, beside the captured one; an image
        with none of the captured variables is beside it, too, so that those stay where the capture had them."""
        if not alone:
            return Replacement(digest, image.digest, image.data, names, (), beside=True)
        there = set(image.kernel_names(self._architecture))
        use = self._uses.get(digest, ImageUse())
        asked = [*use.kernels, *(kernel.name for kernel in self._kernels if kernel.image == digest)]
        given = names
        names = {**{name: name for name in asked if name in there}, **names}
        others = tuple(dict.fromkeys(name for name in asked if name not in names))
        self._refuse_more(digest, image, given, names)
        launched_others = [k.name for k in self._kernels if k.image == digest and k.name in others]
        own = use.variables and not use.variables.keys() & image.variables(self._architecture).keys()
        beside = bool(launched_others or own)
        return Replacement(digest, image.digest, image.data, names, () if beside else others, beside)

    def _refuse_more(
        self, digest: str, image: BuiltImage, given: dict[str, str], names: dict[str, str]
    ) -> None:
        """An untrusted file replaces only what it was given for, and not the kernels around that."""
        launched = {kernel.name for kernel in self._kernels if kernel.image == digest}
        more = sorted((launched & names.keys()) - given.keys())
        if self._untrusted and more:
            raise EngineError(
                f"the candidate also has {more[0]}, which the window launches and it was not given for",
                where=image.source, next="leave it out, or swap without naming a kernel",
            )  # fmt: skip

    def _compare(self, digest: str, image: BuiltImage, replacement: Replacement, shapes: list[Shape]) -> None:
        facts = self._variables(digest, image, replacement)
        for kernel in self._kernels:
            if kernel.image != digest or kernel.name not in replacement.names:
                continue
            name = replacement.names[kernel.name]
            info = image.known_kernel(name, self._architecture)
            if info is None:
                raise ImageError(f"has no kernel {name}", where=image.source)
            captured = self._original(digest)
            if captured is not None and captured.sources("tileir", self._architecture or 0):
                # Tile programs are launched with blocks of one thread; how many there are, their compiler decides.
                info = replace(info, required_threads=None)
            launches = self._launched(kernel, shapes)
            facts = compare_interfaces(self._interface(kernel), info, launches, self._architecture) + facts
            refuse(facts, kernel.demangled or kernel.name, image.source)

    def _variables(self, digest: str, image: BuiltImage, replacement: Replacement) -> list[Fact]:
        used = self._uses.get(digest, ImageUse()).variables
        there = image.variables(self._architecture)
        if replacement.beside:
            both = [name for name in used if name in there]
            rest = [k.name for k in self._kernels if k.image == digest and k.name not in replacement.names]
            text = f"shared with {rest[0]}, which comes from another image" if rest else ""
            return [
                Fact(f"variable {name}", f"{used[name]} bytes", f"{there[name].size} bytes", text)
                for name in both
            ]
        for name, size_bytes in used.items():
            if name in there and 0 < size_bytes < there[name].size:
                self._notes.append(
                    f"variable {name} has {there[name].size} bytes in {image.source} and {size_bytes} as captured: "
                    "what comes after these keeps its initial value"
                )
        return compare_variables(used.items(), there)

    def _compare_shapes(self, shapes: list[Shape], built: Built, replacements: list[Replacement]) -> None:
        for key in dict.fromkeys(shape.kernel for shape in shapes):
            kernel = next(k for k in self._kernels if (k.name, k.image) == (key.name, key.image))
            if kernel.image not in built or not any(
                key.name in item.names for item in replacements if item.digest == kernel.image
            ):
                info = self._interface(kernel)
                facts = compare_interfaces(info, info, self._launched(kernel, shapes), self._architecture)
                refuse(facts, kernel.demangled or kernel.name, GEOMETRY)

    def _launched(self, kernel: Kernel, shapes: list[Shape]) -> list[Launched]:
        key = kernel.name, kernel.image
        mine = [shape for shape in shapes if (shape.kernel.name, shape.kernel.image) == key]
        return [
            replace(item, **reshaped_geometry(item.grid, item.block, item.shared_bytes, mine))
            for item in self._launches.get(key, [])
        ]

    def _interface(self, kernel: Kernel) -> KernelInfo:
        """Of a captured kernel: what the driver said in the application goes before what the image says."""
        original = self._original(kernel.image)
        info = None
        try:
            if original is not None:
                info = original.kernel(kernel.name, self._architecture)
        except ImageError as error:
            self._notes.append(f"the captured image of {kernel.name} cannot be read: {error.what}")
        slots = tuple(Parameter(slot.offset_bytes, slot.size_bytes) for slot in kernel.parameters)
        total = max((slot.offset + slot.size for slot in slots), default=0)
        base = info or KernelInfo(kernel.name, (), 0)
        shared = kernel.attributes.get("static_shared_bytes")
        if slots or info is None:
            base = replace(base, parameters=slots, parameter_bytes=total)
        return replace(base, shared_bytes=base.shared_bytes if base.shared_bytes is not None else shared)

    def _kept(self, images: list[tuple[str, BuiltImage, Replacement]]) -> list[KeptImage]:
        """The new images first: the captured ones are in the snapshot, too."""
        captured = {digest: item for digest, *_ in images if (item := self._original(digest)) is not None}
        loaded = {item.digest: digest for digest, item in captured.items() if item.digest != digest}
        found = keep([*(image for _, image, _ in images), *captured.values()])
        return [replace(item, loaded_digest=loaded.get(item.digest, "")) for item in found]

    def _described(self, digest: str, image: BuiltImage, replacement: Replacement) -> VariantImage:
        original = self._original(digest)
        kernels = [
            describe(image, new, self._architecture, original, old)
            for old, new in replacement.names.items()
            if any((kernel.name, kernel.image) == (old, digest) for kernel in self._kernels)
        ]
        modules = image.modules(self._architecture)
        return VariantImage(
            replaces=digest, digest=image.digest, kind=image.kind, size_bytes=len(image.data), source=image.source,
            compiler=image.compiler, target=modules[0].target if modules else "", beside=replacement.beside,
            same=original is not None and original.data.rstrip(b"\0") == image.data.rstrip(b"\0"), kernels=kernels,
        )  # fmt: skip


def _shown(shape: Shape) -> str:
    return f"{shape.value[0]} bytes" if shape.what == "shared" else " x ".join(map(str, shape.value))
