"""redux.sync of f32, for all lanes and for some."""

from __future__ import annotations

import driver_api
import numpy as np
import pytest
from small_kernels import module, run, words

NAN = 0x7FFFFFFF
CASES = {
    "random": np.random.default_rng(3).normal(size=32).astype("f4").view("u4"),
    "one NaN": np.where(np.arange(32) == 5, 0xFFC12345, 0x3F800000),
    "only NaN": np.full(32, 0x7FC00001),
    "zeros": np.where(np.arange(32) % 2, 0x80000000, 0),
    "infinities": np.where(np.arange(32) % 3, 0xFF800000, 0x7F800000),
}


def expected(bits: np.ndarray, maximum: bool, magnitudes: bool, nan: bool) -> int:
    """By sign and magnitude, which orders -0 before 0."""
    if magnitudes:
        bits = bits & 0x7FFFFFFF
    numbers = [int(one) for one in bits if (one & 0x7FFFFFFF) <= 0x7F800000]
    if not numbers or (nan and len(numbers) < len(bits)):
        return NAN
    key = lambda one: -(one & 0x7FFFFFFF) - 1 if one >> 31 else one  # noqa: E731
    return max(numbers, key=key) if maximum else min(numbers, key=key)


@pytest.mark.parametrize("name", CASES)
def test_redux_of_floats(cuda: driver_api.Driver, name: str) -> None:
    bits, forms = CASES[name].astype("u4"), [(m, a, n) for m in (0, 1) for a in (0, 1) for n in (0, 1)]
    body = "mul.wide.u32 %rd3, %t, 4; add.u64 %rd4, %rd0, %rd3; add.u64 %rd5, %rd1, %rd3; ld.global.f32 %f0, [%rd4];"
    for k, (maximum, magnitudes, nan) in enumerate(forms):
        opcode = f"redux.sync.{'max' if maximum else 'min'}{'.abs' * magnitudes}{'.NaN' * nan}.f32"
        body += f"\n{opcode} %f1, %f0, 0xffffffff; st.global.f32 [%rd5 + {256 * k}], %f1;"
        body += f"\nsetp.lt.u32 %p1, %t, 9; @%p1 {opcode} %f1, %f0, 0x1ff; st.global.f32 [%rd5 + {256 * k + 128}], %f1;"
    out = words(cuda, [0] * (64 * len(forms)))
    assert run(cuda, module(body), [words(cuda, bits.tolist()), out]) == 0
    found = np.array(cuda.words(out, 64 * len(forms))).reshape(len(forms), 2, 32)
    for k, form in enumerate(forms):
        whole, part = expected(bits, *map(bool, form)), expected(bits[:9], *map(bool, form))
        assert set(found[k, 0].tolist()) == {whole}, form
        assert found[k, 1].tolist() == [part] * 9 + [whole] * 23, form
