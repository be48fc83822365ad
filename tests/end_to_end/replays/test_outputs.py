"""Outputs that differ are named, in the type of their elements, with what they are and should be; and nothing that
somebody changed in a snapshot passes for a match."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy
import pytest

from replay.errors import ExitCode

from ..rewriting import flip_bit, rewrite, swap_image

_made: list[Path] = []  # once per worker


@pytest.fixture
def added(replay, tmp_path_factory):
    """A snapshot of vector_add: three buffers of floats, c = a + b."""
    if not _made:
        path = tmp_path_factory.mktemp("added") / "x.rsnap"
        replay.capture(
            "--kernel", "vector_add", application=replay.application("vector_add"), output=str(path)
        )
        _made.append(path)
    return _made[0]


def ranges(replay, snapshot):
    return json.loads(replay("ls", str(snapshot), "memory", "--json").stdout)["memory"]


def written(replay, snapshot):
    """The allocation that the window changes."""
    (found,) = (item for item in ranges(replay, snapshot) if item["before"] != item["after"])
    return found


def run(replay, snapshot, *arguments, status=ExitCode.GATE_FAILED):
    return replay("run", snapshot, "--driver", "emulator", "--no-timing", *arguments, status=status)


def one_line(done):
    """What a command printed, however wide."""
    return " ".join(done.stdout.split())


def verification(replay, snapshot, *arguments, status=ExitCode.GATE_FAILED):
    return json.loads(run(replay, snapshot, "--json", *arguments, status=status).stdout)["verification"]


# -- mutations ----------------------------------------------------------------------------------------------------


def test_one_bit_of_an_input_is_caught_and_the_output_named(replay, added):
    output = written(replay, added)
    source = next(item for item in ranges(replay, added) if item["id"] != output["id"])
    flip_bit(added, replay.folder / "x.rsnap", source["id"], 4 * 77 + 2, ("before", "after"))
    replay("verify", "x.rsnap")  # the file itself is whole
    found = verification(replay, "x.rsnap")
    assert found["verdict"] == "wrong"
    (difference,) = found["differences"]
    assert difference["address"] == output["address"]
    assert difference["elements"][0]["dtype"] == "f32"
    assert difference["elements"][0]["source"] == "inferred from PTX"
    assert difference["elements"][0]["elements"] == 1
    assert difference["mismatches"][0]["element"] == 77


def test_one_bit_of_what_a_kernel_changes_in_place_is_caught(replay, good_snapshot):
    buffer = written(replay, good_snapshot)
    flip_bit(good_snapshot, replay.folder / "x.rsnap", buffer["id"], 4 * 5, ("before",))
    (difference,) = verification(replay, "x.rsnap")["differences"]
    assert difference["address"] == buffer["address"]
    assert difference["elements"][0]["dtype"] == "i32"


def test_swapped_binary_is_caught_by_its_digest(replay, added):
    swap_image(
        added, replay.folder / "x.rsnap", lambda data: data.replace(b"add.f32", b"sub.f32"), keep_digest=True
    )
    done = run(replay, "x.rsnap", status=ExitCode.COULD_NOT)
    assert "is not the one that the application loaded" in done.stderr
    done = run(replay, "x.rsnap", "--best-effort")
    assert "outputs DIFFER" in done.stdout
    assert "best effort" in done.stdout


def scaled(data):
    """One or two units in the last place more."""
    return data.replace(b"st.global.f32", b"mul.f32 %f3, %f3, 0f3F800001; st.global.f32")


def test_swapped_binary_whose_digest_fits_is_caught_by_its_outputs(replay, added):
    swap_image(added, replay.folder / "x.rsnap", scaled)
    replay("verify", "x.rsnap")
    (difference,) = verification(replay, "x.rsnap")["differences"]
    assert difference["address"] == written(replay, added)["address"]


def test_one_bit_of_a_variable_is_told_in_the_type_that_its_kernel_gives_it(replay):
    replay.capture("--kernel", "account", "--launch", "2", application=replay.application("hidden_state"))
    (number,) = [item["id"] for item in ranges(replay, "x.rsnap") if item["name"] == "launches"]
    flip_bit(replay.folder / "x.rsnap", replay.folder / "y.rsnap", number, 0, ("before",))
    text = one_line(run(replay, "y.rsnap"))
    assert "as i32 (inferred from PTX: account, variable launches)" in text
    assert "expected 2 (02000000), got 1 (01000000)" in text
    assert "1 word of the outputs was taken for a pointer" in text  # once, though it was replayed twice


def test_a_buffer_that_the_capture_says_is_not_written_is_named_without_timing_too(replay, added):
    output = written(replay, added)

    def edit(kind, value, chunks):
        return (
            {**value, "after": value["before"]} if kind == "range" and value["id"] == output["id"] else value
        )

    rewrite(added, replay.folder / "x.rsnap", edit)
    assert "was written at offset 0x0, where the capture saw no change" in one_line(run(replay, "x.rsnap"))


# -- types and tolerances -----------------------------------------------------------------------------------------


def near(replay, added, target="x.rsnap", ulp=3):
    """The snapshot with one float of the golden output moved by some units in the last place."""
    output = written(replay, added)["id"]

    def edit(kind, value, chunks):
        if kind != "range" or value["id"] != output:
            return value
        data = chunks.read(value["after"])
        word = int.from_bytes(data[400:404], "little") + ulp
        data[400:404] = word.to_bytes(4, "little")
        return {**value, "after": chunks.write(bytes(data))}

    rewrite(added, replay.folder / target, edit)
    return output


def test_tolerance_that_was_asked_for_is_told_with_the_verdict(replay, added):
    near(replay, added)
    done = run(replay, "x.rsnap", "--tolerance", "3ulp", status=ExitCode.DONE)
    assert "outputs match within 3 ULP (f32), not bit by bit" in done.stdout
    assert "allowed: 3 ULP, asked for" in done.stdout
    found = verification(replay, "x.rsnap", "--tolerance", "3ulp", status=ExitCode.DONE)
    assert (found["verdict"], found["within_tolerance"], found["differing_bytes"]) == ("match", True, 1)
    assert "DIFFER" in run(replay, "x.rsnap", "--tolerance", "2ulp").stdout
    assert "DIFFER" in run(replay, "x.rsnap").stdout


def test_declared_type_wins_over_the_inferred_one(replay, added):
    number = near(replay, added)
    done = run(replay, "x.rsnap", "--dtype", f"{number}=f16")
    assert "as f16 (declared)" in done.stdout
    done = run(replay, "x.rsnap", "--dtype", "99=f16", status=ExitCode.USAGE)
    assert "no such memory" in done.stderr
    done = run(replay, "x.rsnap", "--dtype", f"{number}=f17", status=ExitCode.USAGE)
    assert "no element type" in done.stderr


def as_if_from_a_gpu(source, target, ptx=lambda data: data):
    swap_image(source, target.with_suffix(".tmp"), ptx)

    def edit(kind, value, chunks):
        return {**value, "emulated": False} if kind == "environment" else value

    rewrite(target.with_suffix(".tmp"), target, edit)


def test_snapshot_of_a_gpu_may_be_off_by_what_its_approximate_operations_allow(replay, added):
    """The product of an approximate reciprocal: the golden output is moved as a GPU's table might."""
    near(replay, added, "near.rsnap", ulp=2)

    def approximate(data):
        return data.replace(b"add.f32 \t%f3, %f2, %f1;", b"add.f32 %f3, %f2, %f1; rcp.approx.f32 %f1, %f3;")

    as_if_from_a_gpu(replay.folder / "near.rsnap", replay.folder / "x.rsnap", approximate)
    done = run(replay, "x.rsnap", status=ExitCode.DONE)
    assert "outputs match within 2 ULP (f32), not bit by bit" in done.stdout
    assert "op table: rcp.approx.f32" in done.stdout
    assert "DIFFER" in run(replay, "x.rsnap", "--tolerance", "bitwise").stdout
    as_if_from_a_gpu(replay.folder / "near.rsnap", replay.folder / "exact.rsnap")
    assert "DIFFER" in run(replay, "exact.rsnap").stdout  # an exact kernel has no tolerance
    near(replay, added, "far.rsnap", ulp=200)
    as_if_from_a_gpu(replay.folder / "far.rsnap", replay.folder / "x.rsnap", approximate)
    assert "DIFFER" in run(replay, "x.rsnap").stdout


# -- saving -------------------------------------------------------------------------------------------------------


def test_saved_outputs_are_what_was_expected_and_what_came(replay, added):
    number = near(replay, added)
    done = run(replay, "x.rsnap", "--save-outputs", "out", "--tolerance", "3ulp", status=ExitCode.DONE)
    assert "saved" in done.stdout
    folder = replay.folder / "out"
    expected = numpy.load(folder / f"memory-{number:04d}-expected.npy")
    actual = numpy.load(folder / f"memory-{number:04d}-actual.npy")
    assert expected.dtype == numpy.float32
    assert numpy.flatnonzero(expected != actual).tolist() == [100]
    assert (folder / f"memory-{number:04d}-actual.bin").read_bytes() == actual.tobytes()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["schema"] == "replay.outputs/1"
    assert {path.name for path in folder.iterdir()} == {
        "manifest.json", *(file["file"] for buffer in manifest["buffers"] for file in buffer["files"])
    }  # fmt: skip


def test_all_outputs_are_saved_on_request_and_no_file_is_replaced(replay, added):
    shutil.copy(added, replay.folder / "x.rsnap")
    run(replay, "x.rsnap", "--save-outputs", "out", "--save-all", status=ExitCode.DONE)
    manifest = json.loads((replay.folder / "out" / "manifest.json").read_text())
    assert len(manifest["buffers"]) == 3
    assert all(buffer["differing_bytes"] == 0 for buffer in manifest["buffers"])
    done = run(replay, "x.rsnap", "--save-outputs", "out", status=ExitCode.COULD_NOT)
    assert "not empty" in done.stderr


def test_equal_outputs_leave_only_the_manifest(replay, added):
    shutil.copy(added, replay.folder / "x.rsnap")
    run(replay, "x.rsnap", "--save-outputs", "out", status=ExitCode.DONE)
    assert [path.name for path in (replay.folder / "out").iterdir()] == ["manifest.json"]


def test_buffers_that_vary_between_replays_are_named(replay, added):
    """A kernel whose outputs hold the time."""

    def count(data):
        use = b".reg .b32 %now; mov.u32 %now, %globaltimer_lo; cvt.rn.f32.u32 %f3, %now; "
        return data.replace(b"st.global.f32", use + b"st.global.f32")

    swap_image(added, replay.folder / "x.rsnap", count)
    found = verification(replay, "x.rsnap")
    assert found["verdict"] == "nondeterministic"
    assert found["varying"] == [difference["label"] for difference in found["differences"]]
    assert "varying" in run(replay, "x.rsnap").stdout


def test_what_a_window_copies_to_the_host_has_the_type_of_its_source(replay):
    """The whole program, with the copy that brings the results to the host."""
    replay.capture("--all", application=replay.application("vector_add"))
    run(replay, "x.rsnap", status=ExitCode.DONE)
    swap_image(replay.folder / "x.rsnap", replay.folder / "y.rsnap", scaled)
    host = [
        item for item in verification(replay, "y.rsnap")["differences"] if item["label"].startswith("host")
    ]
    assert {element["dtype"] for item in host for element in item["elements"]} == {"f32"}
    assert (
        "match within 2 ULP (f32)"
        in run(replay, "y.rsnap", "--tolerance", "2ulp", status=ExitCode.DONE).stdout
    )
