"""Many results in one file of a history."""

from __future__ import annotations

import dataclasses

import msgpack
import pytest
import zstandard

from replay.cli import main
from replay.compare.sides import holds_results
from replay.errors import FormatError, UsageError
from replay.history import packs
from replay.history.series import look
from replay.history.store import History, append
from replay.report.history import render_history
from replay.results.run.variant import CapturedKernel

from .test_history import WIDE, fill, result


def packed(folder):
    with History(folder) as history:
        history.update()
        return history.pack()


def entries(folder):
    """Of each result what the index has, but for where it is."""
    with History(folder) as history:
        history.update()
        found = [
            dataclasses.replace(entry, path=entry.path.rpartition("/")[2]) for entry in history.entries()
        ]
    return sorted(found, key=lambda entry: (entry.created_utc, entry.path))


@pytest.fixture
def folder(tmp_path):
    there = tmp_path / "results"
    fill(there, [1000, 1010, 990])
    fill(there / "other", [500, 510], kernel="scale")
    return there


def test_a_pack_says_what_its_results_say(folder):
    before = entries(folder)
    assert packed(folder) == (5, 1)
    assert [path.suffix for path in folder.iterdir() if path.is_file()] == [".rpack"]
    assert entries(folder) == before
    with History(folder) as history:
        assert history.update() == 0
        assert [entry.median_ns for entry in history.entries(kernel="scale")] == [500, 510]
        pack, _, name = history.entries(kernel="scale")[0].path.partition("/")
    assert pack.endswith(".rpack")
    assert name.startswith("other/")


def test_results_come_out_of_packs_byte_for_byte(folder, tmp_path):
    before = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*.rres")}
    packed(folder)
    assert main(["history", str(folder), "--unpack", str(tmp_path / "out")]) == 0
    out = tmp_path / "out"
    assert {path.relative_to(out): path.read_bytes() for path in out.rglob("*.rres")} == before
    with History(folder) as history, pytest.raises(UsageError, match="is there already"):
        packs.unpack(history.packs(), out)


def test_any_zstd_and_msgpack_library_reads_a_pack(folder):
    packed(folder)
    (path,) = folder.glob("*.rpack")
    with path.open("rb") as file:
        stream = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        table, *results = msgpack.Unpacker(stream)
    assert table["format"] == "replay.results/1"
    assert [item["format"] for item in results] == ["replay.result/1"] * 5


def test_later_results_are_beside_the_packs(folder):
    packed(folder)
    append(folder, result(1005, 9))
    assert [entry.median_ns for entry in entries(folder) if entry.kernel == "vector_add"] == [
        1000,
        1010,
        990,
        1005,
    ]
    assert packed(folder) == (1, 1)
    assert packed(folder) == (0, 0)
    assert len(entries(folder)) == 6


def test_what_is_no_result_stays_where_it_is(folder):
    (folder / "notes.rres").write_text("no result")
    assert packed(folder) == (5, 1)
    with History(folder) as history:
        history.update()
        assert [path for path, _ in history.problems] == ["notes.rres"]


def test_a_result_that_is_also_in_a_pack_counts_once(folder):
    """As when packing was interrupted after the pack was written."""
    kept = {path: path.read_bytes() for path in folder.rglob("*.rres")}
    before = entries(folder)
    packed(folder)
    for path, data in kept.items():
        path.write_bytes(data)
    assert entries(folder) == before


def test_a_large_folder_becomes_several_packs(folder, monkeypatch):
    monkeypatch.setattr(packs, "MOST_RESULTS", 2)
    before = entries(folder)
    assert packed(folder) == (5, 3)
    assert entries(folder) == before


def test_an_interruption_leaves_whole_packs_in_the_index(folder, monkeypatch):
    monkeypatch.setattr(packs, "MOST_RESULTS", 2)
    packed(folder)
    read, looked = packs.read_table, []

    def interrupted(path):
        looked.append(path)
        if len(looked) == 3:
            raise KeyboardInterrupt
        return read(path)

    with monkeypatch.context() as patch, History(folder) as history:
        patch.setattr("replay.history.store.read_table", interrupted)
        with pytest.raises(KeyboardInterrupt):
            history.update()
    with History(folder) as history:
        assert history.update() in (1, 2)  # of five in packs of two, in no order
        assert len(history.entries()) == 5


def test_a_pack_that_is_gone_is_forgotten(folder):
    packed(folder)
    assert len(entries(folder)) == 5
    next(folder.glob("*.rpack")).unlink()
    assert entries(folder) == []


def rewritten(folder, change):
    """The pack of a folder with another table."""
    packed(folder)
    (path,) = folder.glob("*.rpack")
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    table = msgpack.unpackb(decompressor.decompress(path.read_bytes()))
    rest = decompressor.unused_data
    change(table)
    path.write_bytes(zstandard.compress(msgpack.packb(table)) + rest)
    return path


def first(field, value):
    """A change of the first row of a column, or of what the first series has in common."""

    def change(table):
        series = table["series"][0]
        if field in packs.COLUMNS:
            series[field][0] = value
        else:
            series[field] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        first("name", "../outside.rres"),
        first("name", "/tmp/outside.rres"),
        first("name", "a/../../outside.rres"),
        first("name", ".hidden.rres"),
        first("name", "a\nb.rres"),
        first("name", "program.py"),
        first("offset", -1),
        first("offset", 1 << 63),
        first("offset", 1 << 40),
        first("size_bytes", 1 << 40),
        first("median_ns", -1.0),
        first("median_ns", float("nan")),
        first("median_ns", "fast"),
        first("samples", 1 << 63),
        first("created_utc", "x" * 41),
        first("kernel", 5),
        first("window", "1"),
        first("name", 7),
        lambda table: table["series"][0].pop("outputs"),
        lambda table: table["series"][0]["outputs"].append("match"),
        lambda table: table.update(series="none"),
        lambda table: table.update(series=[5]),
        lambda table: table.update(format="replay.results/2"),
    ],
)
def test_a_hostile_pack_is_named_and_nothing_of_it_is_used(folder, tmp_path, change):
    path = rewritten(folder, change)
    with History(folder) as history:
        history.update()
        assert history.problems == [(path.name, "is no pack of results")]
        assert history.entries() == []
    with pytest.raises(FormatError):
        packs.unpack([path], tmp_path / "out")
    assert not [*tmp_path.rglob("outside.rres")]


def test_what_a_later_version_adds_to_a_pack_is_left_out(folder):
    before = entries(folder)
    rewritten(folder, first("clock_mhz", 1980))
    assert entries(folder) == before


@pytest.mark.parametrize("name", ["device", "launched_from"])
def test_texts_of_a_pack_are_harmless(folder, name):
    rewritten(folder, first(name, "a\x1b[31m"))
    with History(folder) as history:
        history.update()
        assert all(getattr(entry, name).isprintable() for entry in history.entries())


def test_a_series_says_where_the_kernels_of_its_newest_result_were_launched(tmp_path):
    one, two = CapturedKernel("vector_add", launched_from="m.py:3 (f)"), CapturedKernel("scale")
    fill(tmp_path, [1000], kernels=[dataclasses.replace(one, launched_from="m.py:1 (f)")])
    append(tmp_path, result(1010, 5, kernels=[one]))
    fill(tmp_path, [900], kernel="both", kernels=[two, one])
    for _ in range(2):  # as files of their own, and in a pack
        assert {item.kernel: item.launched_from for item in look(tmp_path).series} == {
            "vector_add": "m.py:3 (f)",
            "both": "vector_add from m.py:3 (f)",
        }
        text = render_history(look(tmp_path), WIDE)
        assert "  vector_add: launched from m.py:3 (f)\n" in f"{text}\n"
        packed(tmp_path)
    append(tmp_path, result(1020, 9))
    assert look(tmp_path).series[1].launched_from == ""  # the newest does not say


@pytest.mark.parametrize("length", [0, 3, 60])
def test_a_pack_that_is_cut_short_is_named(folder, length):
    packed(folder)
    (path,) = folder.glob("*.rpack")
    path.write_bytes(path.read_bytes()[:length])
    with History(folder) as history:
        history.update()
        assert [name for name, _ in history.problems] == [path.name]


def test_a_comparison_says_how_to_get_results_out_of_packs(folder):
    packed(folder)
    with pytest.raises(UsageError) as caught:
        holds_results(folder)
    assert "--unpack" in str(caught.value.next)


def test_packing_is_a_command(folder, capsys):
    assert main(["history", str(folder), "--pack"]) == 0
    assert capsys.readouterr().out == "5 results in 1 new pack\n"
    assert main(["history", str(folder), "--pack", "--json"]) == 2
