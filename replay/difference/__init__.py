"""Where the code of two sides differs: PTX, machine code as the user's own disassembler shows it, and resources."""

from replay.difference.code_files import CodeFiles
from replay.difference.kernels import (
    KernelDifference,
    differences,
    source_difference,
    step_differences,
    variant_differences,
)
from replay.difference.listing import Listing

__all__ = [
    "CodeFiles",
    "KernelDifference",
    "Listing",
    "differences",
    "source_difference",
    "step_differences",
    "variant_differences",
]
