"""What a redaction may say of its proof."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from replay.redaction.proof import Prover
from replay.results.run.timing import KernelCounters, WindowCounters

from ..helpers.result_factory import make_result

COUNTED = KernelCounters("vector_add", 1, 100, {"instructions": 10})


@pytest.mark.parametrize(
    ("counters", "kernels", "state"),
    [
        (WindowCounters(COUNTED, [COUNTED]), ["vector_add"], "same"),
        (WindowCounters(KernelCounters("", 0, 0, {})), ["vector_add"], "outputs"),
        (None, ["vector_add"], "outputs"),
        (WindowCounters(KernelCounters("", 0, 0, {})), [], "same"),
    ],
)
def test_control_flow_is_called_the_same_only_where_it_was_counted(
    counters: WindowCounters | None, kernels: list[str], state: str
) -> None:
    prover = Prover(Path("x.rsnap"), "emulator", lambda text: None)
    result = make_result(counters=counters)
    prover.originals[None] = replace(result, window=replace(result.window, kernels=kernels))
    proof = prover.proof()
    assert proof.state == state
    assert ("counted" in proof.reason) == (state == "outputs")
