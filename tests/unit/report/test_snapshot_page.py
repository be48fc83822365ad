"""The page of a snapshot: what it says of calls, memory, kernels and what is missing; what a stranger's file can do."""

from __future__ import annotations

import json
import re
import struct
from array import array
from pathlib import Path

import numpy as np
import pytest

from replay.cli import main
from replay.errors import UsageError
from replay.overview import calls as columns
from replay.overview import contents, memory
from replay.overview import origins as came_from
from replay.overview.look import look
from replay.overview.model import Branch
from replay.report.html.snapshot.origins import flames
from replay.report.html.snapshot.page import render_snapshots
from replay.snapshot.schema import CHUNK_BYTES, Census, Frame, Note, Origins

from ..helpers.saxpy_snapshot import write_snapshot
from ..helpers.snapshot_factory import THREAD, SnapshotFactory, vector_add
from .test_browser import HOSTILE_NAMES

GOLDEN = sorted((Path(__file__).parents[2] / "golden" / "snapshots").glob("*.rsnap"))
PTX = b""".version 8.0
.target sm_80
.address_size 64
.visible .entry twice(.param .u64 data)
{
  .reg .u64 %data;
  .reg .f32 %value;
  .loc 1 12 3
  ld.param.u64 %data, [data];
  .loc 1 13 9
  ld.global.f32 %value, [%data];
  add.f32 %value, %value, %value;
  .loc 1 14 3
  st.global.f32 [%data], %value;
  ret;
}
.file 1 "/home/somebody/secret-project/twice.cu"
"""


@pytest.fixture
def added(tmp_path) -> Path:
    return vector_add().write(tmp_path / "added.rsnap")


def blocks(page: str, name: str) -> list:
    found = re.findall(rf'<script type="application/json" class="{name}">(.*?)</script>', page, re.DOTALL)
    return [json.loads(text) for text in found]


def test_a_snapshot_alone_has_a_page(tmp_path, added, capsys):
    page = tmp_path / "page.html"
    assert main(["report", str(added), "-o", str(page)]) == 0
    text = page.read_text()
    assert "<h1>1 launch of vector_add</h1>" in text
    assert "Everything that the window reaches was captured." in text
    assert "Content-Security-Policy" in text
    for heading in ("Timeline", "Memory", "Kernels", "What a replay needs", "What is missing", "Capture"):
        assert f"<h2>{heading}</h2>" in text
    assert f"<code>replay</code> <code>run</code> <code>{added.name}</code>" in text


@pytest.mark.parametrize("path", GOLDEN, ids=lambda path: path.stem)
def test_every_released_format_has_a_page(path):
    page = render_snapshots([path])
    assert page.count('<article class="snapshot"') == (3 if path.stem == "format-2.0" else 1)


def test_a_window_of_several_is_chosen(tmp_path):
    path = next(path for path in GOLDEN if path.stem == "format-2.0")
    assert "window 2 (launch 2)" in render_snapshots([path], 2)
    assert "window 1 (launch 1)" not in render_snapshots([path], 2)
    with pytest.raises(UsageError, match="has no window 9"):
        render_snapshots([path], 9)


def test_memory_says_who_writes_it_what_it_holds_and_what_changed(added):
    (found,) = look(added)
    a, b, c = found.memory.allocations
    assert [(use.how, use.name) for use in a.uses] == [("reads", "vector_add")]
    assert [(use.how, use.name) for use in c.uses] == [("writes", "vector_add")]
    assert (a.changed_bytes, b.changed_bytes) == (0, 0)
    assert c.changed_bytes == c.range.size_bytes
    assert a.sample is not None
    assert c.sample is not None
    assert (a.sample.moment, c.sample.moment) == ("before", "after")
    assert {item.regions[0].type.name for item in (a, b, c)} == {"f32"}
    assert (a.sample.least, a.sample.greatest) == (0.0, 999.0)
    assert sum(a.sample.bins) == a.sample.count == 100_003
    assert a.sample.changed == bytes(len(a.sample.cells))  # both moments are known, and equal
    assert max(c.sample.changed) > 200


def test_pointers_in_memory_are_the_edges_of_the_graph(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    target = factory.range(0x3000_0000_0000, bytes(64), bytes(64))
    table = factory.range(0x3000_0010_0000, struct.pack("<QQ", target.address, target.address + 8), bytes(16))
    words = struct.pack("<QQIIQQII", 0, 0, target.id, 0, 8, 8, target.id, 0)
    factory.census.append(Census("range", table.id, words))
    factory.launch(struct.pack("<Q", table.address), [(0, 8)], 1, 32)
    (found,) = look(factory.write(tmp_path / "x.rsnap"))
    held = {item.range.id: item for item in found.memory.allocations}
    assert held[table.id].points_to == [(target.id, 2)]
    assert held[target.id].pointed_by == [(table.id, 2)]
    assert found.memory.words == 2


def test_large_memory_is_sampled_and_the_page_says_so(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    chunks = 100
    data = np.arange(chunks * CHUNK_BYTES // 4, dtype="<f4").tobytes()
    item = factory.range(0x3000_0000_0000, data, data)
    factory.launch(struct.pack("<Q", item.address), [(0, 8)], 1, 32)
    path = factory.write(tmp_path / "x.rsnap")
    (found,) = look(path)
    sample = found.memory.allocations[0].sample
    assert sample is not None
    assert sample.pieces == (contents.SAMPLED_CHUNKS, chunks)
    assert sample.row_offsets[0] == 0
    assert sample.row_offsets[-1] == (chunks - 1) * CHUNK_BYTES
    assert sample.greatest == chunks * CHUNK_BYTES // 4 - 1
    (allocations,) = blocks(render_snapshots([path]), "allocations")
    assert allocations[0]["sample"]["pieces"] == [contents.SAMPLED_CHUNKS, chunks]


@pytest.mark.parametrize("value", [float("nan"), float("inf"), -float("inf"), 1e308, 5e-324])
def test_numbers_that_are_none_do_not_break_the_sample(tmp_path, value):
    factory = SnapshotFactory()
    text = PTX.replace(b".f32", b".f64").replace(b"twice(.param .u64", b"twice(.param .u64")
    factory.set_up(text, "twice")
    data = array("d", [value, -value, 0.0] * 100).tobytes()
    item = factory.range(0x3000_0000_0000, data, data)
    factory.launch(struct.pack("<Q", item.address), [(0, 8)], 1, 32)
    path = factory.write(tmp_path / "x.rsnap")
    (found,) = look(path)
    sample = found.memory.allocations[0].sample
    assert sample is not None
    assert sample.element == "f64"
    assert sample.nans + sample.infinities + sum(sample.bins) + sample.below + sample.above == sample.count
    render_snapshots([path])  # as JSON, too


def test_code_has_source_lines_and_no_path(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    item = factory.range(0x3000_0000_0000, bytes(64), bytes(64))
    factory.launch(struct.pack("<Q", item.address), [(0, 8)], 1, 32)
    factory.kernels = vector_add(8).kernels
    factory.kernels[0] = type(factory.kernels[0])(
        "twice", "twice", factory.images[0].digest, [], 1, [1, 1, 1], [32, 1, 1], 0
    )
    path = factory.write(tmp_path / "x.rsnap")
    (found,) = look(path)
    lines = [(line.place, line.text.strip()) for line in found.kernels[0].codes[0].lines if line.place]
    assert lines == [
        ("twice.cu:12", "ld.param.u64 %data, [data];"),
        ("twice.cu:13", "ld.global.f32 %value, [%data];"),
        ("twice.cu:14", "st.global.f32 [%data], %value;"),
    ]
    assert "secret-project" not in render_snapshots([path])
    assert found.kernels[0].codes[1].why_not == "The image holds PTX only; the driver compiles it."


def test_what_is_missing_is_said_at_the_top(tmp_path):
    factory = vector_add(64)
    factory.notes.append(Note("UNSUPPORTED_CALL", "nobody knows it", 3, "cuSomething"))
    factory.range(0x3100_0000_0000, bytes(64), None)
    page = render_snapshots([factory.write(tmp_path / "x.rsnap")])
    assert "2 things could not be captured" in page
    assert "nobody knows it" in page
    assert "1 allocation after the window" in page


def test_calls_are_columns_with_their_streams_and_waits(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    item = factory.range(0x3000_0000_0000, bytes(64), bytes(64))
    for stream in (0x51, 0x52):
        factory.launch(struct.pack("<Q", item.address), [(0, 8)], 1, 32, stream=stream)
    factory.call("cuEventRecord", [0xE1, 0x51])
    factory.call("cuStreamWaitEvent", [0x52, 0xE1, 0])
    factory.call("cuEventSynchronize", [0xE1])
    path = factory.write(tmp_path / "x.rsnap")
    (found,) = look(path)
    timeline = found.timeline
    assert [timeline.kinds[at].sort for at in timeline.which] == [
        "launch",
        "launch",
        "order",
        "order",
        "wait",
    ]
    assert [timeline.kinds[at].stream for at in timeline.which] == [0x51, 0x52, 0x51, 0x52, None]
    assert timeline.arrows == [(2, 3), (2, 4)]
    page = render_snapshots([path])
    (texts,), (data,) = blocks(page, "texts"), blocks(page, "columns")
    assert [name + handle for _, name, handle in texts["rows"]] == [
        "thread 1",
        "stream 1 0x51",
        "stream 2 0x52",
    ]
    assert texts["timed"] is True
    assert len(data["which"]) == 5


def test_repeated_launches_are_counted_without_an_object_for_each(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    items = [factory.range(0x3000_0000_0000 + at * 4096, bytes(64), bytes(64)) for at in range(3)]
    for at in range(300):
        factory.launch(struct.pack("<Q", items[at % 3].address), [(0, 8)], 1, 32)
    (found,) = look(factory.write(tmp_path / "x.rsnap"))
    assert [[(use.how, use.times) for use in item.uses] for item in found.memory.allocations] == [
        [("reads and writes", 100)]
    ] * 3
    assert len(found.timeline.which) == 300
    assert len(found.timeline.kinds) == 1


def traced(tmp_path: Path, origins: Origins, launches: int = 4) -> Path:
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    item = factory.range(0x3000_0000_0000, bytes(64), bytes(64))
    for _ in range(launches):
        factory.launch(struct.pack("<Q", item.address), [(0, 8)], 1, 32)
    factory.origins.append(origins)
    return factory.write(tmp_path / "traced.rsnap")


FRAMES = [
    Frame("app/model.py", 7, "forward"),
    Frame("app/train.py", 20, "main"),
    Frame("site-packages/t/x.py", 3, "f"),
]


def test_launches_are_shown_by_the_frames_that_they_came_from(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    last = len(factory.calls) + 4
    path = traced(tmp_path, Origins(FRAMES, [[0, 2, 1], [1]], [[1, THREAD, 1], [last, THREAD, 2]]))
    (found,) = look(path)
    root = found.origins
    assert root is not None
    assert (root.launches, root.weight, root.timed) == (4, 4, False)
    (main,) = (one for one in root.branches.values())
    assert (main.name, main.place, main.launches) == ("main (train.py:20)", "app/train.py:20 (main)", 4)
    assert {one.name: one.launches for one in main.branches.values()} == {
        "forward (model.py:7)": 3,
        "twice": 1,
    }
    page = render_snapshots([path])
    assert "app/model.py:7 (forward): 3 launches, 75 %" in page
    assert "app/model.py:7 (forward), called by app/train.py:20 (main)" in page


def test_a_snapshot_without_frames_has_no_such_part(added):
    (found,) = look(added)
    assert found.origins is None
    assert "Where launches came from" not in render_snapshots([added])


@pytest.mark.parametrize(
    "origins",
    [Origins([], [[0], [-1, 10**12]], [[1, THREAD, 1]]), Origins(FRAMES, [[0]], [[1, THREAD, 9], [5], [2, -1, 1]]),
     Origins(FRAMES, [[0] * 20_000], [[1, THREAD, 1]]), Origins(FRAMES, [[0]], [[10**15, THREAD, 1]] * 3)],
)  # fmt: skip
def test_frames_that_make_no_sense_harm_no_page(tmp_path, origins):
    assert "<h1>4 launches" in render_snapshots([traced(tmp_path, origins)])


def test_widths_are_shares_and_narrow_ones_are_drawn_as_one():
    root = Branch("all launches", "", 1000, 1000.0)
    for at, weight in enumerate([500, 300, 190, *[1] * 10]):
        root.branches[str(at), ""] = Branch(str(at), "", weight, weight)
    boxes = re.findall(r'<rect class="frame[^>]*x="([0-9.]+)%"[^>]* width="([0-9.]+)%"', flames(root))
    assert [(float(x), float(width)) for x, width in boxes] == [
        (0, 100),
        (0, 50),
        (50, 30),
        (80, 19),
        (99, 1),
    ]
    assert "10 others: 10 launches, 1 %" in flames(root)
    assert flames(Branch("all launches", "", 0, 0, branches={("a", ""): Branch("a", "")})).count("<rect") == 1


def test_a_window_without_calls_says_so(tmp_path):
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    assert "The window makes no calls." in render_snapshots([factory.write(tmp_path / "x.rsnap")])


def test_many_stacks_are_put_together(tmp_path, monkeypatch):
    monkeypatch.setattr(came_from, "MOST_PATHS", 2)
    frames = [Frame("a.py", line, "f") for line in range(8)]
    launches = [[number, THREAD, 1 + number % 8] for number in range(1, 40)]
    (found,) = look(traced(tmp_path, Origins(frames, [[at] for at in range(8)], launches), 16))
    assert found.origins is not None
    assert sorted(one.launches for one in found.origins.branches.values()) == [2, 2, 12]
    assert ("others", "") in found.origins.branches


@pytest.mark.parametrize("name", HOSTILE_NAMES)
def test_a_hostile_name_is_text_everywhere(tmp_path, name):
    page = render_snapshots([write_snapshot(tmp_path / "x.rsnap", hostile_name=name)])
    assert "<script>alert" not in page
    assert "<img" not in page
    assert page.count("<script") == 4  # columns, texts, allocations, and the page's own


def test_a_page_stays_small_whatever_the_file_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(columns, "MAXIMUM_SHOWN", 50)
    monkeypatch.setattr(memory, "MAXIMUM_ALLOCATIONS", 5)
    monkeypatch.setattr(contents, "LOOKED_AT", 2)
    factory = SnapshotFactory()
    factory.set_up(PTX, "twice")
    items = [factory.range(0x3000_0000_0000 + at * 4096, bytes(64 + at), None) for at in range(20)]
    for at in range(200):
        factory.launch(struct.pack("<Q", items[at % 20].address), [(0, 8)], 1, 32)
    path = factory.write(tmp_path / "x.rsnap")
    (found,) = look(path)
    assert len(found.timeline.which) == 50
    assert len(found.memory.allocations) == 5
    assert sum(item.sample is not None for item in found.memory.allocations) == 2
    page = render_snapshots([path])
    assert "The first 50 of 200 calls are shown." in page
    assert "15 smaller allocations" in page
    assert "the page holds no more contents" in page


def test_a_damaged_file_is_shown_as_far_as_it_goes(tmp_path, added):
    data = added.read_bytes()
    cut = tmp_path / "cut.rsnap"
    cut.write_bytes(data[: len(data) * 2 // 3])
    assert "The file is damaged" in render_snapshots([cut])
