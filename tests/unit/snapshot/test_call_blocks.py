"""Blocks of calls: columns come back as they were, and a block that was changed by hand does no harm."""

from __future__ import annotations

import contextlib
import random
import resource
from array import array
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.api.parts import PARAMETERS
from replay.errors import DamagedError, FileError, LimitError, ReplayError
from replay.pack import blocks, pack, room
from replay.snapshot import calls, kept
from replay.snapshot.calls import Repeats, read_calls
from replay.snapshot.container import SnapshotReader, SnapshotWriter, frames
from replay.snapshot.container.blocks import MAX_SPREAD_BYTES, Block
from replay.snapshot.container.columns import pack_column, unpack_column
from replay.snapshot.contents import Snapshot
from replay.snapshot.repeated_blocks import repeats_of

from .test_repeated_calls import Program


@pytest.mark.parametrize(
    "words",
    [
        [5],
        [7] * 9,
        [0, (1 << 64) - 1, 0, 1 << 63],
        [3, 1, 2] * 400,
        [(1 << 47) + 4096 * (n % 5) for n in range(1000)],
        [(1 << 47) + 4096 * (n * n % 1013) for n in range(3000)],
        [n * 0x9E3779B97F4A7C15 % (1 << 64) for n in range(300)],
    ],
    ids=["one", "equal", "extremes", "small", "few", "many", "noise"],
)
def test_a_column_comes_back(words: list[int]) -> None:
    packed = pack_column(np.array(words, np.uint64))
    assert unpack_column(packed, len(words)).tolist() == words
    for wrong in (packed[:-1], packed + b"\0", b"", bytes((10,)) + packed[1:]):
        with pytest.raises(DamagedError):
            unpack_column(wrong, len(words))


def test_pointers_that_repeat_take_a_byte_each() -> None:
    words = np.array([(1 << 47) + (n % 7) ** 3 * 4096 for n in range(5000)], np.uint64)
    assert len(pack_column(words)) < 5100


@pytest.fixture(scope="module")
def value(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A block as it is in a file."""
    folder = tmp_path_factory.mktemp("block")
    writer = Program(folder / "raw.rcap", 5).run(300, 1)
    writer.close()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(blocks, "FEWEST_CALLS", 1)
        pack(folder / "raw.rcap", folder / "x.rsnap")
    with SnapshotReader(folder / "x.rsnap") as reader:
        assert reader.version == (4, 0)
        found = dict(next(reader.objects("calls")))
    assert len(Block(found)) > 200
    return found


def changed(value: Any, choose: random.Random) -> Any:
    """The same with something in it that does not belong there."""
    if isinstance(value, dict) and value and choose.random() < 0.9:
        key = choose.choice([*value])
        if choose.random() < 0.1:
            return {other: item for other, item in value.items() if other != key}
        return {**value, key: changed(value[key], choose)}
    if isinstance(value, (list, tuple)) and value and choose.random() < 0.85:
        place = choose.randrange(len(value))
        return (
            *value[:place],
            *([] if choose.random() < 0.1 else [changed(value[place], choose)]),
            *value[place + 1 :],
        )
    if isinstance(value, bytes) and value and choose.random() < 0.8:
        data = bytearray(value)
        data[choose.randrange(min(len(data), 40))] = choose.randrange(256)
        return bytes(data)
    return choose.choice(
        [None, -1, 1 << 64, 1 << 70, "", "x", b"", b"12345678", [], {}, 1.5, [[]], 3, 100_000]
    )


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_block_gives_calls_or_an_error_of_ours(value: dict[str, Any], seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(5):
        wrong = changed(value, choose)
        try:
            block = Block(wrong)
            block.check()
            count = sum(1 for _ in block.calls())
            census = list(block.census())
        except ReplayError:
            continue
        assert count == len(block)
        assert all(len(item["words"]) % 24 == 0 for item in census)


def test_a_block_that_asks_for_more_than_it_holds_is_refused(value: dict[str, Any]) -> None:
    rows = 65536
    column = pack_column(np.array([1], np.uint64))
    large = {**value["templates"][0], "arguments": [0] * 100_000}
    wide = {**value["templates"][0], "inputs": {"kernelParams.0": bytes(1 << 20)}}
    many = [("arguments", "", 0, column)] * 5000
    asking = [(large, [("arguments", "", 0, column)]), (wide, [("inputs", "kernelParams.0", 0, column)]),
              (value["templates"][0], many)]  # fmt: skip
    for template, varying in asking:
        wrong = {
            **value, "order": bytes(2 * rows), "numbers": column, "enter_ns": column, "leave_ns": column,
            "templates": [template], "varying": [varying], "pointers": [[]], "others": [], "gpu_ns": [],
        }  # fmt: skip
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with pytest.raises(DamagedError):
            list(Block(wrong).calls())
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000


def test_verify_finds_a_block_that_makes_no_sense(value: dict[str, Any], tmp_path: Path) -> None:
    for name, wrong in (("good", value), ("bad", {**value, "numbers": value["numbers"][:-1]})):
        with SnapshotWriter(tmp_path / f"{name}.rsnap") as writer:
            writer.write("calls", wrong)
        with SnapshotReader(tmp_path / f"{name}.rsnap") as reader:
            assert reader.verify().good == (name == "good")


def test_calls_from_a_number_on_leave_out_only_what_comes_before_it(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(blocks, "FEWEST_CALLS", 1)
    monkeypatch.setattr(blocks, "BLOCK_BYTES", 20 << 10)
    Program(tmp_path / "raw.rcap", 9).run(500, 1).close()
    pack(tmp_path / "raw.rcap", tmp_path / "x.rsnap")
    with Snapshot(tmp_path / "x.rsnap") as opened:
        every = list(opened.calls())
        begin = every[400].number
        some = list(opened.calls(begin))
        assert opened.reader.kinds["calls"].count > 3
    assert [call for call in some if call.number >= begin] == [call for call in every if call.number >= begin]
    assert len(some) < len(every) - 100
    made = [call for call in every if call.function in ("cuModuleGetFunction", "cuEventCreate")]
    assert [call for call in some if call in made] == made


def test_a_disk_without_room_is_told_before_anything_is_written(tmp_path: Path, monkeypatch: Any) -> None:
    Program(tmp_path / "raw.rcap", 2).run(50, 1).close()
    needed = room.most_bytes(tmp_path / "raw.rcap")
    assert needed >= sum(path.stat().st_size for path in (tmp_path / "raw.rcap").glob("calls.*"))
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: type("Usage", (), {"free": needed - 1}))
    with pytest.raises(FileError, match="may need .* are free") as caught:
        pack(tmp_path / "raw.rcap", tmp_path / "x.rsnap")
    assert "--ignore-space" in str(caught.value.next)
    assert [path.name for path in tmp_path.iterdir()] == ["raw.rcap"]
    assert pack(tmp_path / "raw.rcap", tmp_path / "x.rsnap", ignore_space=True).snapshots
    monkeypatch.setattr(room.shutil, "disk_usage", lambda _: type("Usage", (), {"free": needed}))
    assert pack(tmp_path / "raw.rcap", tmp_path / "y.rsnap").snapshots


def standing_for(value: dict[str, Any], rows: int, parameters: bytes, **more: Any) -> dict[str, Any]:
    """A small block of many calls of one template."""
    columns = {
        name: pack_column(np.arange(1, rows + 1, dtype=np.uint64))
        for name in ("numbers", "enter_ns", "leave_ns")
    }
    launch = next(one for one in value["templates"] if PARAMETERS in one["inputs"])
    template = {**launch, "inputs": {**launch["inputs"], PARAMETERS: parameters}}
    return {
        **columns, "order": bytes(2 * rows), "templates": [template], "varying": [[]], "pointers": [[]],
        "bases": [], "gpu_ns": [], "others": [], **more,
    }  # fmt: skip


def repeats(value: dict[str, Any]) -> list[Any]:
    class Source:
        def objects_and_blocks(self, kind: str) -> Any:
            return iter([Block(value)])

    return list(read_calls(Source()))


def test_small_blocks_with_large_parameters_are_refused(value: dict[str, Any]) -> None:
    column = pack_column(np.array([1], np.uint64))
    rows = MAX_SPREAD_BYTES // 4096
    words = [[(PARAMETERS, word, column) for word in range(512)]]
    for count in (rows, rows + 1):
        bases = [(1, 0x1000)]
        pointing = standing_for(value, count, bytes(4096), pointers=words, bases=bases)
        for wrong in (pointing, standing_for(value, count, bytes(4096))):
            if count == rows:
                Block(wrong)
            else:
                with pytest.raises(LimitError):
                    Block(wrong)
    for twice in ({"pointers": [words[0][:1] * 2]}, {"varying": [[("inputs", PARAMETERS, 0, column)] * 2]}):
        with pytest.raises(DamagedError):
            Block(standing_for(value, 10, bytes(4096), **twice))


def test_a_block_with_more_than_its_calls_need_is_refused(value: dict[str, Any]) -> None:
    """A few bytes of a file become millions of pairs: of times, of bases, of templates."""
    found = standing_for(value, 4, bytes(16), gpu_ns=[(row, 7) for row in range(4)])
    template = found["templates"][0]
    Block(found)
    for wrong in (
        {"gpu_ns": [(row, 7) for row in range(5)]},
        {"bases": [(1, 0x1000)]},
        {"templates": [template] * 5, "varying": [[]] * 5, "pointers": [[]] * 5},
    ):
        with pytest.raises(DamagedError):
            Block({**found, **wrong})


def test_timed_calls_in_many_parts_take_no_time_for_each_pair(value: dict[str, Any]) -> None:
    """Every fifth call is by itself, so that each part would look at the times of all."""

    class Counted(dict[int, int]):
        looks = 0

        def items(self) -> Any:
            Counted.looks += len(self)
            return super().items()

    rows = 2000
    order = np.zeros(rows, "<u2")
    order[::5] = 1
    found = standing_for(value, rows, bytes(16), gpu_ns=[(row, 7) for row in range(rows)])
    failed = {**found["templates"][0], "result": 1}
    found.update(
        order=order.tobytes(), templates=[*found["templates"], failed], varying=[[], []], pointers=[[], []]
    )
    block = Block(found)
    block.gpu_ns = Counted(block.gpu_ns)
    parts = list(repeats_of(block, lambda one: one["result"] == 0))
    assert len(parts) == 2 * rows // 5
    assert sum(len(part.gpu_ns) if isinstance(part, Repeats) else "gpu_ns" in part for part in parts) == rows
    assert Counted.looks == 0


def test_a_file_of_more_calls_than_any_has_is_refused(
    value: dict[str, Any], tmp_path: Path, monkeypatch: Any
) -> None:
    block = standing_for(value, 1000, bytes(16))
    with SnapshotWriter(tmp_path / "x.rsnap") as writer:
        for _ in range(3):
            writer.write("calls", block)
    for most, refused in ((3000, False), (2999, True)):
        monkeypatch.setattr(frames, "MAX_CALLS_IN_BLOCKS", most)
        for read in (
            lambda reader: [list(one.calls()) for one in reader.objects_and_blocks("call")],
            lambda reader: [list(reader.objects(kind)) for kind in ("call", "census", "call")],
            lambda reader: list(reader.calls_from(1)),
        ):
            with SnapshotReader(tmp_path / "x.rsnap") as reader:
                if refused:
                    with pytest.raises(LimitError, match="2,999"):
                        read(reader)
                else:
                    read(reader)
                assert reader.verify().good != refused
    with SnapshotWriter(tmp_path / "y.rsnap") as writer:
        writer.write("calls", block)
        writer.write("calls", block)
        with pytest.raises(LimitError):
            writer.write("calls", block)


def test_calls_that_repeat_are_together_only_so_far(value: dict[str, Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(calls, "_LONGEST", 100)
    single = list(Block(standing_for(value, 250, bytes(16))).calls())

    class Source:
        def objects_and_blocks(self, kind: str) -> Any:
            return iter(single)

    parts = list(read_calls(Source()))
    assert [len(part) for part in parts] == [100, 100, 50]
    monkeypatch.setattr(calls, "_LARGEST_PARAMETERS", 16 * 30)
    assert {len(part) for part in read_calls(Source()) if isinstance(part, Repeats)} == {31}


def test_columns_that_are_packed_are_the_same_again(value: dict[str, Any], monkeypatch: Any) -> None:
    whole = [call for part in repeats(value) for call in (part.calls() if isinstance(part, Repeats) else ())]
    monkeypatch.setattr(kept, "MAXIMUM_WHOLE_BYTES", 0)
    monkeypatch.setattr(kept, "_SMALLEST_BYTES", 0)
    parts = [part for part in repeats(value) if isinstance(part, Repeats)]
    others = [kept.Kept(array("q", [1])), kept.Kept(np.empty(0, "<u8"), bytearray())]
    assert len(kept._used) == 1  # the last one; all others are packed
    assert whole
    assert [call for part in parts for call in part.calls()] == whole
    assert [part.call(len(part) - 1).number for part in parts] == [part.last for part in parts]
    assert others[0].get() == (array("q", [1]),)
    words, nothing = others[1].get()
    assert (len(words), words.dtype, nothing) == (0, np.dtype("<u8"), bytearray())


def test_what_nobody_holds_is_not_kept(monkeypatch: Any) -> None:
    monkeypatch.setattr(kept, "MAXIMUM_WHOLE_BYTES", 3 << 16)
    columns = [kept.Kept(bytearray(1 << 16)) for _ in range(2)]
    before = kept._whole_bytes
    for _ in range(5):
        kept.Kept(bytearray(1 << 16))
    assert kept._whole_bytes == before
    assert all(one._packed is None for one in columns)


@pytest.mark.parametrize("seed", range(40))
def test_a_changed_block_gives_repeats_or_an_error_of_ours(value: dict[str, Any], seed: int) -> None:
    choose = random.Random(seed)
    for _ in range(5):
        wrong = changed(value, choose)
        with contextlib.suppress(ReplayError):
            found = repeats(wrong)
            assert sum(len(one) if isinstance(one, Repeats) else 1 for one in found) == len(Block(wrong))


def test_arguments_that_are_no_words_are_damage(value: dict[str, Any]) -> None:
    """Of a call that is by itself, too."""
    column = pack_column(np.array([1], np.uint64))
    wrong = standing_for(value, 5, bytes(16), varying=[[("arguments", "", 0, column)]])
    wrong["templates"][0].update(arguments=[-1] * 11, result=1)
    with pytest.raises(ReplayError):
        repeats(wrong)
