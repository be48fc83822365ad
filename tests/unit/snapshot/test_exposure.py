"""What `info --privacy` finds in a snapshot."""

from __future__ import annotations

import random
import struct
from pathlib import Path

import pytest

from replay.inspection.exposure import exposure
from replay.inspection.texts import Texts, kind_of
from replay.report.privacy import render_exposure
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import CHUNK_BYTES
from replay.text import Screen

from ..helpers.snapshot_factory import vector_add

PROMPT = "please write to ada@example.org about the merger"
rng = random.Random(3)


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("zeros", bytes(8192)),
        ("text", (PROMPT + "\n").encode() * 200),
        ("floats", struct.pack("<2048f", *(rng.gauss(0, 1) for _ in range(2048)))),
        ("floats", struct.pack("<2048e", *(rng.gauss(0, 1) for _ in range(2048)))),
        ("floats", struct.pack("<1024d", *(rng.gauss(0, 1) for _ in range(1024)))),
        ("floats", struct.pack("<2048f", *(rng.gauss(0, 1) * (n % 5 == 0) for n in range(2048)))),
        ("random", rng.randbytes(8192)),
        ("other", struct.pack("<2048I", *range(2048))),
        ("other", struct.pack("<1024Q", *(0x7F0000000000 + 256 * n for n in range(1024)))),
    ],
)
def test_kinds_of_contents(kind: str, data: bytes) -> None:
    assert kind_of(data)[0] == kind


def test_texts_of_one_and_two_bytes_are_found_and_noise_is_none() -> None:
    texts = Texts()
    texts.scan(rng.randbytes(1 << 20))
    assert texts.count <= 2
    noise = texts.count
    texts.scan(b"\0\1" + PROMPT.encode() + b"\0\0" + "nothing much to see here".encode("utf-16-le") + b"\xff")
    assert texts.count == noise + 2
    assert texts.suspicious == 1
    assert texts.samples[0] == PROMPT
    assert "nothing much to see here" in texts.samples


def test_hostile_texts_take_bounded_time_and_room() -> None:
    texts = Texts()
    texts.scan((b"a sentence of words\0" * 20_000)[:CHUNK_BYTES])
    texts.scan(b"x" * CHUNK_BYTES)
    assert texts.count == 501
    assert len(texts.samples) <= 6
    assert max(map(len, texts.samples)) <= 120


def test_everything_that_can_be_read_is_told(tmp_path: Path) -> None:
    snapshot = vector_add(1000)
    half = PROMPT.encode().ljust(1 << 16, b"\0") + rng.randbytes(CHUNK_BYTES)
    snapshot.range(0x3100_0000_0000, half, half)
    with Snapshot(snapshot.write(tmp_path / "x.rsnap")) as opened:
        found = exposure(opened)
    assert found.range_count == len(snapshot.ranges)
    assert found.ranges[0].texts.samples == [PROMPT], "what is most telling comes first"
    assert found.names["kernels"] == ["vector_add"]
    assert "vector_add" in found.names["texts given to calls"]
    kinds = found.contents.bytes_by_kind
    assert set(kinds) >= {"floats", "other"}
    shown = render_exposure(found, Screen(200, False))
    assert PROMPT in shown
    assert "1 like secrets, paths or addresses" in shown


def test_of_very_many_calls_it_says_how_many_were_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = vector_add(1000).write(tmp_path / "x.rsnap")
    for most, told in ((1, True), (1000, False)):
        monkeypatch.setattr("replay.inspection.exposure.MAX_CALLS", most)
        with Snapshot(path) as opened:
            assert any("first" in note for note in exposure(opened).notes) == told
