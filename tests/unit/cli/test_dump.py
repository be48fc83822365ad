"""`replay dump`: everything comes out as it was captured, and nothing outside of the folder is touched."""

from __future__ import annotations

import json
import shutil
import struct
from pathlib import Path

import pytest

from replay.snapshot.container import SnapshotWriter

from ..helpers.command import run
from ..helpers.saxpy_snapshot import IMAGE_DIGEST, PTX


def test_dump_writes_everything_and_numpy_reads_it(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    numpy = pytest.importorskip("numpy", reason="needs numpy: pip install numpy")
    folder = snapshot.parent / "out"
    assert run("dump", snapshot, "-o", folder) == 0
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [
            f"image-{IMAGE_DIGEST}.ptx",
            "manifest.json",
            "parameters.json",
            *(f"memory-{number:04d}-{moment}.npy" for number in (1, 2) for moment in ("before", "after")),
        ]
    )
    assert (folder / f"image-{IMAGE_DIGEST}.ptx").read_bytes() == PTX
    x = numpy.load(folder / "memory-0001-before.npy")
    assert (x.dtype, x.shape) == (numpy.uint8, (2_400_000,))
    after = numpy.load(folder / "memory-0002-after.npy")
    assert (after[:1_200_000] == x[:1_200_000]).all()
    assert not after[1_200_000:].any()
    assert not numpy.load(folder / "memory-0002-before.npy").any()
    (launch,) = json.loads((folder / "parameters.json").read_text())["launches"]
    assert launch["kernel"] == "_Z5saxpyifPKfPf"
    assert launch["grid"] == [2344, 1, 1]
    assert [parameter["points_to"] for parameter in launch["parameters"]] == [
        None,
        None,
        "memory 1 + 0",
        "memory 2 + 0",
    ]
    assert struct.unpack("<f", bytes.fromhex(launch["parameters"][1]["bytes"])) == (2.0,)
    manifest = json.loads((folder / "manifest.json").read_text())
    assert len(manifest["files"]) == 6
    assert manifest["skipped"] == []


@pytest.mark.parametrize("selector", ["2", "0x7f0001000000", "0x7f0001249eff"])
def test_dump_of_one_buffer_with_a_type(snapshot: Path, selector: str) -> None:
    numpy = pytest.importorskip("numpy", reason="needs numpy: pip install numpy")
    folder = snapshot.parent / "out"
    assert run("dump", snapshot, "-o", folder, "--buffer", selector, "--dtype", "float32") == 0
    assert sorted(path.name for path in folder.glob("*.npy")) == [
        "memory-0002-after.npy",
        "memory-0002-before.npy",
    ]
    assert numpy.load(folder / "memory-0002-after.npy").dtype == numpy.float32


@pytest.mark.parametrize(
    "options",
    [
        ["--buffer", "9"],
        ["--buffer", "0x10"],
        ["--buffer", "nosuch"],
        ["--image", "ffff"],
        ["--dtype", "object"],
        ["--dtype", "nosuch"],
        ["--dtype", "V4"],
        ["--dtype", "complex128", "--buffer", "1", "--buffer", "2", "--dtype", "S7"],
    ],
)
def test_dump_of_what_is_not_there_is_2_and_writes_nothing(
    snapshot: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("dump", snapshot, "-o", snapshot.parent / "out", *options) == 2
    assert capsys.readouterr().err.count("\n") == 1
    assert not (snapshot.parent / "out").exists()


def test_dump_never_replaces_without_force_and_then_writes_nothing(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = snapshot.parent / "out"
    for existing in ("manifest.json", "memory-0002-after.npy", f"image-{IMAGE_DIGEST}.ptx"):
        folder.mkdir()
        (folder / existing).write_text("mine")
        assert run("dump", snapshot, "-o", folder) == 3
        assert "--force" in capsys.readouterr().err
        assert [path.name for path in folder.iterdir()] == [existing]
        assert run("dump", snapshot, "-o", folder, "--force") == 0
        assert (folder / existing).read_bytes() != b"mine"
        capsys.readouterr()
        shutil.rmtree(folder)


def test_dump_follows_no_link_out_of_the_folder(snapshot: Path) -> None:
    outside = snapshot.parent / "outside"
    outside.write_text("mine")
    folder = snapshot.parent / "out"
    folder.mkdir()
    (folder / "memory-0001-before.npy").symlink_to(outside)
    (folder / "memory-0001-after.npy").symlink_to(snapshot.parent / "dangling")
    assert run("dump", snapshot, "-o", folder, "-q") == 3
    assert run("dump", snapshot, "-o", folder, "-q", "--force") == 0
    assert outside.read_text() == "mine"
    assert not (snapshot.parent / "dangling").exists()
    assert not (folder / "memory-0001-before.npy").is_symlink()


def test_dump_of_hostile_names_stays_in_the_folder(tmp_path: Path) -> None:
    from replay.snapshot import schema

    path = tmp_path / "deep" / "x.rsnap"
    path.parent.mkdir()
    with SnapshotWriter(path) as out:
        digest = out.write_chunk(b"x" * 10)
        contents = schema.Contents(10, digest)
        for name in ("../../escape", "/etc/passwd", "a\0b", "-rf", "..", "x" * 5000, "\n"):
            for number in (1, 1, 5):
                item = schema.Range(number, "global", 4096, 10, 0, 1, before=contents, name=name)
                out.write("range", schema.to_wire(item))
        for digest_text in ("../../../tmp/evil", "/", "", "\0"):
            out.write("image", schema.to_wire(schema.Image(digest_text, "ptx", contents)))
    folder = tmp_path / "deep" / "out"
    assert run("dump", path, "-o", folder, "-q") == 0
    assert sorted(
        entry.name for entry in tmp_path.rglob("*") if entry.is_file() and folder not in entry.parents
    ) == ["x.rsnap"]
    assert len(list(folder.iterdir())) == 21 + 4 + 2
    assert all(len(entry.name) < 120 for entry in folder.iterdir())


def test_dump_of_a_huge_buffer_of_zeros_takes_no_space(tmp_path: Path) -> None:
    from replay.snapshot import schema

    count = 64 << 10  # chunks: 16 GiB
    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        contents = schema.Contents(count * schema.CHUNK_BYTES, bytes(16 * count))
        out.write(
            "range",
            schema.to_wire(schema.Range(1, "device", 4096, contents.size_bytes, 0, 1, before=contents)),
        )
    assert run("dump", tmp_path / "x.rsnap", "-o", tmp_path / "out", "-q") == 0
    status = (tmp_path / "out" / "memory-0001-before.npy").stat()
    assert status.st_size == contents.size_bytes + 128
    assert status.st_blocks * 512 < 1 << 20


def test_dump_of_one_chunk_repeated_beyond_the_disk_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from replay.snapshot import schema

    with SnapshotWriter(tmp_path / "x.rsnap") as out:
        digest = out.write_chunk(b"x" * schema.CHUNK_BYTES)
        contents = schema.Contents(schema.CHUNK_BYTES << 4, digest * (1 << 4))
        out.write(
            "range",
            schema.to_wire(schema.Range(1, "device", 1 << 40, contents.size_bytes, 0, 1, before=contents)),
        )
    space = shutil.disk_usage(tmp_path)._replace(free=4 << 20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: space)
    assert run("dump", tmp_path / "x.rsnap", "-o", tmp_path / "out") == 3
    assert "4 MiB are to be written and 3.8 MiB are free" in capsys.readouterr().err
    assert list((tmp_path / "out").iterdir()) == []


def test_dump_of_a_damaged_file_writes_what_is_whole_and_is_3(
    snapshot: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from replay.snapshot.container import SnapshotReader

    with SnapshotReader(snapshot) as reader:
        chunks = max(reader.frames, key=lambda frame: frame.compressed_bytes)
    data = bytearray(snapshot.read_bytes())
    data[chunks.offset + chunks.compressed_bytes // 2] ^= 1
    snapshot.write_bytes(data)
    folder = snapshot.parent / "out"
    assert run("dump", snapshot, "-o", folder) == 3
    assert "left out: memory-0001-before.npy" in capsys.readouterr().err
    assert not (folder / "memory-0001-before.npy").exists()
    assert (folder / "memory-0002-before.npy").exists()  # zeros, which no frame holds
    assert json.loads((folder / "manifest.json").read_text())["skipped"]
