"""What the kernels of a replay are made of, and what was changed from the application."""

from __future__ import annotations

from dataclasses import field

from replay.records import dataclass


@dataclass(frozen=True)
class CompiledKernel:
    """What a kernel is made of. name: mangled. registers: of a thread. shared_bytes: static, that the kernel declares;
    reserved_shared_bytes: what the system keeps in each block beside it. local_bytes: stack frame of a thread.
    spill_store_bytes, spill_load_bytes: what ptxas said. code: digest of only its machine code, hex, which two builds
    may have in common; "" for PTX and where it is not known. lowered: that its PTX, newer than the ptxas, was given to
    it as an older version, in words. All others are None where they are not known, as registers of PTX."""

    name: str
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    spill_store_bytes: int | None = None
    spill_load_bytes: int | None = None
    code: str = ""
    reserved_shared_bytes: int | None = None
    lowered: str = ""


@dataclass(frozen=True)
class CapturedKernel(CompiledKernel):
    """A kernel of the snapshot. image: digest of the image of its module. launched_from: frames of Python that its
    first launch came from, the innermost first, "" where the capture did not keep them; defined_at: file and line of
    its source, "" where that is not known."""

    image: str = ""
    launched_from: str = ""
    defined_at: str = ""


@dataclass(frozen=True)
class VariantKernel(CompiledKernel):
    """A kernel of an image that a variant put in. same_code: its machine code is that of the captured image; None: not
    known. replaces: mangled name of the captured kernel that it replaces, "" in results that do not say."""

    same_code: bool | None = None
    replaces: str = ""


@dataclass(frozen=True)
class VariantImage:
    """An image that a variant put in the place of a captured one. replaces, digest: of the two, hex. kind: ptx, cubin
    or fatbin. source: file name, or the captured image. compiler: what made it of the source, "" if it was taken as it
    is. target: the architecture it is for. beside: the captured module stays, and only the kernels named here come from
    this one. same: it has the same bytes as the captured image."""

    replaces: str
    digest: str
    kind: str
    size_bytes: int
    source: str
    compiler: str = ""
    target: str = ""
    beside: bool = False
    same: bool = False
    kernels: list[VariantKernel] = field(default_factory=list)


@dataclass(frozen=True)
class KeptImage:
    """A module image, so that its code can be shown when its file is gone. digest: hex. contents: base64 of a zstd
    frame, empty where it was left out. left_out: why. source_text: of the source that was compiled, "" for other
    images. source_digest: hex. loaded_digest: of a captured one whose texts packing overwrote, what the application
    loaded; "" where that is `digest`."""

    digest: str
    size_bytes: int
    contents: str = ""
    source_text: str = ""
    source_digest: str = ""
    left_out: str = ""
    loaded_digest: str = ""


@dataclass(frozen=True)
class VariantFacts:
    """What was changed from the application. text: the variant as `replay run` can be given it again.
    kept: the images that were put in, and those that they replaced."""

    text: str
    images: list[VariantImage] = field(default_factory=list)
    jit: list[str] = field(default_factory=list)
    geometry: list[str] = field(default_factory=list)
    kept: list[KeptImage] = field(default_factory=list)
