"""`replay run --shift`: with all memory moved on purpose outputs stay the same, or what keeps them from it is named."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.usefixtures("replay")


def shifted(replay, snapshot="x.rsnap", *arguments, status=0):
    """The result of `replay run --shift`."""
    done = replay(
        "run", snapshot, "--driver", "emulator", "--no-timing", "--shift", "--json", *arguments, status=status
    )
    return json.loads(done.stdout)


SAMPLES = {
    "pointer_table": "pointer_table",  # pointers in memory and in structs
    "hidden_state": "account",  # variables of modules, one a pointer
    "memory_kinds": "accumulate",  # managed, pools, one memory at two addresses
    "reduce": "reduce",  # pinned memory
    "graph_update": "",
    "texture_filter": "",
}


@pytest.mark.parametrize("sample", SAMPLES)
def test_samples_are_proven_relocatable(replay, sample):
    selection = ["--kernel", SAMPLES[sample]] if SAMPLES[sample] else ["--all"]
    replay.capture(*selection, application=replay.application(sample))
    result = shifted(replay)
    proof = result["relocation"]
    assert proof["verdict"] == "proven", proof
    assert [one["verdict"] for one in proof["replays"]] == ["match", "match"]
    assert all(one["unmoved_ranges"] == 0 for one in proof["replays"])
    with_addresses = [item for item in result["placement"]["ranges"] if item["how"] != "handle"]
    assert all(one["moved_ranges"] == len(with_addresses) for one in proof["replays"])
    # The replay that is shown and timed is the one at the captured addresses.
    assert result["placement"]["relocated_ranges"] == 0
