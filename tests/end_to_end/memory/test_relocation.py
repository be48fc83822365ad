"""`replay run --shift`: with all memory moved on purpose outputs stay the same, or what keeps them from it is named."""

from __future__ import annotations

import json
import sys

import pytest

from replay.engine.contents.loading import SMALLEST_BYTES
from replay.snapshot.container import SnapshotReader, SnapshotWriter

from ..conftest import PROGRAMS, REPOSITORY

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
    "graph_update": "",
    "graph_while": "",
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


# -- every kind of memory ---------------------------------------------------------------------------------------------

KINDS = ("device", "pitched", "async", "pool", "managed", "pinned", "writecombined", "registered", "mapped")


def test_memory_of_every_kind_is_moved(replay, programs, emulator_dir):
    """And what a kernel reads from one kind into the other comes from where it is now."""
    program = programs.host(PROGRAMS / "memory_script.cpp", emulator_dir / "libcuda.so.1")
    lines = [f"alloc {slot} {kind} 3000\nfill {slot} {slot + 5}" for slot, kind in enumerate(KINDS)]
    lines += [f"scale {slot} 3 1\nsum {(slot + 1) % len(KINDS)} {slot}" for slot in range(len(KINDS))]
    (replay.folder / "script").write_text("\n".join([*lines, "wait"]) + "\n")
    replay.capture("--kernel", "sum", "--launch", "2-8", application=[str(program), "script"])
    result = shifted(replay)
    proof = result["relocation"]
    assert proof["verdict"] == "proven", proof
    assert proof["replays"][0]["moved_ranges"] == len(result["placement"]["ranges"])
    kinds = {item["kind"] for item in result["placement"]["ranges"]}
    assert {"device", "managed", "host", "registered"} <= kinds


def test_so_much_memory_of_every_kind_that_threads_load_it_is_moved(replay):
    """With arrays among it, which only one thread loads, pointers in each chunk, and a chunk at many places."""
    replay.capture(
        "--profiler-api", "--memory", "live", application=[sys.executable, str(PROGRAMS / "much_memory.py")]
    )
    result = shifted(replay)
    assert result["relocation"]["verdict"] == "proven", result["relocation"]
    assert result["relocation"]["replays"][0]["following_words"] > 10_000
    kinds = {item["kind"] for item in result["placement"]["ranges"]}
    assert kinds == {"device", "managed", "host", "registered", "array"}
    assert sum(item["size_bytes"] for item in result["placement"]["ranges"]) > 4 * SMALLEST_BYTES


@pytest.mark.parametrize("program", ["arrays.py", "textures.py", "tensor_maps.py", "wide_tensor_maps.py"])
def test_arrays_textures_of_memory_and_tensor_maps_find_it_where_it_is(replay, program, monkeypatch):
    if program == "wide_tensor_maps.py":
        monkeypatch.setenv("REPLAY_EMULATOR_COMPUTE_CAPABILITY", "10.0")
    replay.capture("--all", application=[sys.executable, str(PROGRAMS / program)])
    proof = shifted(replay)["relocation"]
    assert proof["verdict"] == "proven", proof
    assert proof["replays"][0]["moved_ranges"] > 3


def test_every_window_of_several_is_tried(replay):
    replay.capture("--kernel", "pointer_table", "--each", application=replay.application("pointer_table"))
    result = shifted(replay)
    assert [one["result"]["relocation"]["verdict"] for one in result["windows"]] == ["proven"] * 3


def test_memory_of_two_devices_is_moved(replay, programs, monkeypatch):
    monkeypatch.setenv("REPLAY_EMULATOR_DEVICES", "2")
    source = REPOSITORY / "tests" / "corpus" / "runtime" / "processes" / "several_devices.cu"
    replay.capture("--all", application=[str(programs.compile([source]))])
    result = shifted(replay)
    assert result["relocation"]["verdict"] == "proven", result["relocation"]
    assert {item["device"] for item in result["placement"]["ranges"]} == {0, 1}


def test_outputs_that_differ_anyway_must_differ_alike(replay):
    """Replayed with another kernel: what counts is what that leaves at the captured addresses."""
    replay.capture("--kernel", "vector_add", "--launch", "1", application=replay.application("vector_add"))
    ptx = replay.folder / "other.ptx"
    text = (replay.samples / "vector_add.ptx").read_text()
    assert "add.f32" in text
    ptx.write_text(text.replace("add.f32", "sub.f32"))
    result = shifted(replay, "x.rsnap", "--swap", f"vector_add={ptx}", status=1)
    assert result["verification"]["differing_digest"]
    assert result["relocation"]["verdict"] == "proven", result["relocation"]
    assert "differ from the captured ones" in result["relocation"]["reason"]


# -- what keeps memory from being moved -----------------------------------------------------------------------------


def proof_of(replay, kind, *selection, status):
    """The proof for a window of programs/pointers.py."""
    replay.capture(
        *(selection or ("--kernel", kind, "--memory", "live")),
        application=[sys.executable, str(PROGRAMS / "pointers.py"), kind],
    )
    return shifted(replay, status=status)["relocation"]


@pytest.mark.parametrize(
    ("kind", "form", "offset"),
    [("packed", "unaligned", 4), ("halves", "halves", 16)],
    ids=["packed", "halves"],
)
def test_a_pointer_that_the_census_cannot_see_is_caught_and_named(replay, kind, form, offset):
    proof = proof_of(replay, kind, status=1)
    assert proof["verdict"] == "failed"
    assert all("ILLEGAL_ADDRESS" in one["reason"] for one in proof["replays"])
    (word,) = proof["suspects"]
    assert (word["kind"], word["form"], word["place"], word["offset_bytes"]) == (
        "missed",
        form,
        "memory",
        offset,
    )
    assert word["confirmed"]
    assert proof["replays"][0]["touched"] == word["value"]


def test_of_words_that_look_like_missed_pointers_only_those_that_are_needed_are_confirmed(replay):
    (word,) = proof_of(replay, "decoy", status=1)["suspects"]
    assert (word["kind"], word["offset_bytes"], word["confirmed"]) == ("missed", 20, True)


def test_a_pointer_that_the_window_copies_in_unaligned_is_named(replay):
    proof = proof_of(replay, "packed", "--all", status=1)
    (word,) = proof["suspects"]
    assert (word["place"], word["offset_bytes"], word["confirmed"]) == ("host", 4, True)


def test_a_packed_pointer_in_the_parameters_of_a_graph_node_is_named(replay):
    proof = proof_of(replay, "graph", status=1)
    (word,) = proof["suspects"]
    assert (word["kind"], word["place"], word["form"], word["confirmed"]) == (
        "missed",
        "graph",
        "unaligned",
        True,
    )
    assert word["node"] == 1
    assert word["value"] == proof["replays"][0]["touched"]
    assert "node 1 of the graph" in word["site"]


def test_of_an_encoded_pointer_the_memory_that_it_points_to_is_named(replay):
    replay.capture(
        "--kernel",
        "xor",
        "--memory",
        "live",
        application=[sys.executable, str(PROGRAMS / "pointers.py"), "xor"],
    )
    text = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--shift", status=1).stdout
    assert "NOT RELOCATABLE" in text
    assert "in kernel xor" in text
    assert "a pointer to it was not patched" in text
    assert "no word of parameters or memory explains it" in text


@pytest.mark.parametrize("kind", ["scaled", "hashed"])
def test_a_number_that_looks_like_a_pointer_is_caught_and_named(replay, kind):
    proof = proof_of(replay, kind, status=1)
    assert proof["verdict"] == "failed"
    (word,) = proof["suspects"]
    assert (word["kind"], word["place"], word["offset_bytes"], word["confirmed"]) == (
        "false",
        "memory",
        56,
        True,
    )
    assert [one["words"][0]["offset_bytes"] for one in proof["replays"]] == [56, 56]


@pytest.mark.parametrize(("kind", "place"), [("seeded", "parameters"), ("node", "graph")])
def test_a_number_in_parameters_that_looks_like_a_pointer_is_caught_and_named(replay, kind, place):
    (word,) = proof_of(replay, kind, status=1)["suspects"]
    assert (word["kind"], word["place"], word["offset_bytes"], word["confirmed"]) == (
        "false",
        place,
        16,
        True,
    )


def test_numbers_of_which_each_alone_explains_a_part_are_confirmed_together(replay):
    proof = proof_of(replay, "several", status=1)
    assert [(word["place"], word["offset_bytes"], word["confirmed"]) for word in proof["suspects"]] == [
        ("memory", 56, True),
        ("memory", 72, True),
    ]


def test_outputs_that_are_made_of_addresses_are_not_blamed_on_numbers_alone(replay):
    replay.capture(
        "--kernel", "computed", "--memory", "live",
        application=[sys.executable, str(PROGRAMS / "pointers.py"), "computed"],
    )  # fmt: skip
    done = replay("run", "x.rsnap", "--driver", "emulator", "--no-timing", "--shift", status=1)
    text = " ".join(done.stdout.split())
    assert "(likely)" in text
    assert "the kernels compute with addresses" in text


@pytest.mark.parametrize("kind", ["plain", "address", "end"])
def test_pointers_that_are_known_and_outputs_that_hold_addresses_are_proven(replay, kind):
    proof = proof_of(replay, kind, status=0)
    assert proof["verdict"] == "proven", proof
    if kind == "address":
        assert proof["replays"][0]["following_words"] > 0


def test_a_census_that_lacks_one_word_is_caught_and_the_word_named(replay):
    """A snapshot rewritten without one of the pointers in its table."""
    replay.capture(
        "--kernel", "pointer_table", "--launch", "1", application=replay.application("pointer_table")
    )
    lost = rewrite_census(replay.folder / "x.rsnap", replay.folder / "y.rsnap")
    proof = shifted(replay, "y.rsnap", status=1)["relocation"]
    (word,) = proof["suspects"]
    assert (word["kind"], word["form"], word["range"], word["offset_bytes"]) == ("missed", "word", *lost)
    assert word["confirmed"]
    # At the captured addresses nothing needs patching, so nobody would have seen it.
    replay("run", "y.rsnap", "--driver", "emulator", "--no-timing")


def rewrite_census(source, target):
    """Copies a snapshot but for one word of the census of memory. Gives the range and offset of that word."""
    lost = None
    with SnapshotReader(source) as reader, SnapshotWriter(target) as writer:
        for kind, value in reader.chosen_objects():
            if kind == "chunk":
                writer.write_chunk(value[1])
                continue
            if kind == "census" and value["kind"] == "range" and lost is None:
                words = value["words"]
                lost = (value["site"], int.from_bytes(words[24:32], "little"))
                value = {**value, "words": words[:24] + words[48:]}
            writer.write(kind, value)
    return lost
