"""Whose machine code is inside a snapshot, as far as the names of kernels say."""

from __future__ import annotations

import re

from replay.errors import ReplayError
from replay.images import read_image
from replay.images.demangle import demangle
from replay.redaction.model import BinaryImage
from replay.snapshot.contents import MAX_DESCRIBED_IMAGE_BYTES, Snapshot

# What the names of their kernels have in common; more than one may fit.
_OWNERS = {
    "cuBLAS": r"cublas|gemv[NT]Sp|gemmk1_|sm\d+_xmma_gemm|ampere_\w*gemm|volta_\w*gemm|turing_\w*gemm",
    "cuDNN": r"cudnn|_cudnn|xmma_(?:fprop|dgrad|wgrad)",
    "cuFFT": r"\b(?:regular|vector|multi_bluestein)_fft\b|cufft",
    "cuSPARSE": r"cusparse",
    "cuSOLVER": r"cusolver",
    "cuRAND": r"curand",
    "NCCL": r"nccl",
    "NPP": r"\bnpp",
    "TensorRT": r"tensorrt|nvinfer|genericReformat|myelin",
    "CUTLASS": r"cutlass",
    "CUB and Thrust": r"\bcub::|\bthrust::",
    "PyTorch": r"\bat::|\bc10::|torch",
    "JAX and XLA": r"\b(?:loop_|input_|wrapped_)\w*fusion|\bxla",
    "FlashAttention": r"flash_(?:fwd|bwd|attn)",
}
_PATTERNS = {owner: re.compile(pattern, re.IGNORECASE) for owner, pattern in _OWNERS.items()}


def binaries(opened: Snapshot) -> list[BinaryImage]:
    """Images with machine code, of all windows."""
    found: dict[str, BinaryImage] = {}
    for _ in opened.each_window():
        for image in opened.images():
            if image.digest in found or image.kind == "ptx":
                continue
            names: set[str] = set()
            machine = True
            try:
                data = opened.read(image.contents, MAX_DESCRIBED_IMAGE_BYTES)
                modules = read_image(data, limit=MAX_DESCRIBED_IMAGE_BYTES)
                machine = any(module.kind != "ptx" for module in modules)
                names = {name for module in modules for name in module.kernels}
            except ReplayError:
                pass  # what cannot be read is named all the same
            if machine:
                text = "\n".join(demangle(name) for name in names)
                owners = [owner for owner, pattern in _PATTERNS.items() if pattern.search(text)]
                found[image.digest] = BinaryImage(
                    image.digest, image.kind, image.contents.size_bytes, owners, len(names)
                )
    return list(found.values())
