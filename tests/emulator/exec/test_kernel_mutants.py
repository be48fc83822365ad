"""Kernels with something wrong are refused or end, twice in the same way; fuzz_kernels.py by hand does thousands."""

from __future__ import annotations

from pathlib import Path

import fuzz_kernels
import kernel_mutants


def test_mutants_of_kernels_end_with_a_reason(emulator_dir: Path) -> None:
    found, results = fuzz_kernels.fuzz(str(emulator_dir / "libcuda.so.1"), 0, 100, timeout_ms=50)
    assert not found
    assert sum(results.values()) == 100
    # Most parse, and some of these run.
    assert sum(count for result, count in results.items() if result.startswith("0/0/")) > 50
    assert sum(count for result, count in results.items() if "/0/0" in result[3:]) > 10


def test_a_seed_names_one_mutant() -> None:
    texts = [kernel_mutants.mutant(seed) for seed in range(50)]
    assert texts == [kernel_mutants.mutant(seed) for seed in range(50)]
    assert len(set(texts)) > 45
