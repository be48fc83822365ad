"""What the readers of module images give back. Plain values; sizes and offsets in bytes."""

from __future__ import annotations

from dataclasses import field
from typing import Literal

from replay.records import dataclass

ImageKind = Literal["ptx", "cubin", "fatbin", "tileir", "wrapper", "unknown"]


@dataclass(frozen=True)
class Parameter:
    """One kernel parameter in the parameter buffer. name and alignment are known from PTX only ("" and 0 otherwise)."""

    offset: int
    size: int
    alignment: int = 0
    name: str = ""
    is_pointer: bool = False  # declared `.ptr`; a parameter that is not may still hold a pointer


@dataclass(frozen=True)
class KernelInfo:
    """One kernel of an image. None where the image does not say.

    shared_bytes: static, that the kernel declares. reserved_shared_bytes: what the system keeps in each block beside it
    (CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK), as machine code of sm_90 and later counts it; the limits of
    devices do not. local_bytes: stack frame of one thread.
    """

    name: str
    parameters: tuple[Parameter, ...]
    parameter_bytes: int
    registers: int | None = None
    shared_bytes: int | None = None
    local_bytes: int | None = None
    max_threads: tuple[int, int, int] | None = None
    required_threads: tuple[int, int, int] | None = None
    required_cluster: tuple[int, int, int] | None = None
    reserved_shared_bytes: int = 0


@dataclass(frozen=True)
class GlobalVariable:
    """A variable in device memory that lives as long as its module."""

    name: str
    size: int
    space: Literal["global", "const"]
    initialised: bool
    managed: bool = False
    alignment: int = 0
    offset: int | None = None  # of the initial value in a cubin's file


@dataclass(frozen=True)
class ModuleInfo:
    """Kernels and variables of one PTX text, one cubin, or Tile IR, whose variables are not read.

    target: "sm_90a", "" of Tile IR; version: the PTX ISA version "8.5", the ABI of a cubin, "13.1" of Tile IR.
    """

    kind: Literal["ptx", "cubin", "tileir"]
    target: str
    version: str
    kernels: dict[str, KernelInfo] = field(default_factory=dict)
    variables: dict[str, GlobalVariable] = field(default_factory=dict)

    @property
    def title(self) -> str:
        """ "ptx sm_90a", "cubin sm_90", "Tile IR 13.1"."""
        return f"Tile IR {self.version}" if self.kind == "tileir" else f"{self.kind} {self.target}"
