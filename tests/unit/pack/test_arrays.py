"""Arrays, objects and references in the packer: what a snapshot's setup makes again, and which words are handles."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from replay.api.vocabulary import Moment
from replay.pack import pack
from replay.snapshot.contents import Snapshot
from replay.snapshot.schema import Census, from_wire

from ..helpers.raw_writer import MODULE, RawWriter, word

BASE, TABLE = 0xA77A << 48, 0x7F00_0000_0000
ARRAY_A, ARRAY_B, ARRAY_C = 0x5500_0000_0100, 0x5500_0000_0200, 0x5500_0000_0300
TEXTURE_A, TEXTURE_B, SURFACE = 3, 0x5500_0000_0500, 0x5500_0000_0600


class Program:
    """A capture in the making."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.writer = RawWriter(folder)
        self.writer.start()
        self.bases = 0

    def array(self, handle: int) -> int:
        """16 x 8 floats; the address of its contents."""
        base = BASE + 0x20000 * self.bases
        self.bases += 1
        described = struct.pack("<QQQIII4x", 16, 8, 0, 0x20, 1, 2)
        laid_out = struct.pack("<QQQIIQQQ", base, 512, 1, 0, 0, 64, 8, 1)
        outputs = {"pHandle": word(handle), "pHandle.1": laid_out}
        self.writer.call("cuArray3DCreate_v2", [1, 2], {"pAllocateArray": described}, outputs)
        return base

    def object(self, handle: int, array: int, kind: str = "Tex") -> int:
        described = struct.pack("<I4xQ", 0, array).ljust(144, b"\0")
        arguments, inputs = [1, 2, 3, 0], {"pResDesc": described, "pTexDesc": bytes(104)}
        if kind == "Surf":
            arguments, inputs = [1, 2], {"pResDesc": described}
        return self.writer.call(f"cu{kind}ObjectCreate", arguments, inputs, {f"p{kind}Object": word(handle)})

    def finish(self) -> Packed:
        self.writer.close_window()
        self.writer.close()
        return Packed(self.folder)


class Packed:
    """What is in the snapshot."""

    def __init__(self, folder: Path) -> None:
        output = folder.with_suffix(".rsnap")
        pack(folder, output)
        with Snapshot(output) as opened:
            self.setup = [call for call in opened.calls() if call.section == "setup"]
            self.ranges = list(opened.ranges())
            census = [from_wire(Census, item) for item in opened.reader.objects("census")]
        self.handles = {
            (item.kind, item.site): list(struct.iter_unpack("<QQII", item.words))
            for item in census
            if item.kind.endswith("_handles")
        }

    def made(self, symbol: str) -> list[bytes]:
        return [next(iter(call.outputs.values())) for call in self.setup if call.function == symbol]


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path / "x.rcap")


def test_only_objects_that_the_window_reaches_are_made_again(program: Program) -> None:
    base = program.array(ARRAY_A)
    program.array(ARRAY_B)
    program.object(TEXTURE_A, ARRAY_A)
    program.object(TEXTURE_B, ARRAY_B)
    program.object(SURFACE, ARRAY_A, "Surf")
    number = program.writer.open_window()
    program.writer.contents(base, bytes(range(256)) * 2, Moment.BEFORE, number)
    program.writer.launch(word(TEXTURE_A), [(0, 8)])
    packed = program.finish()
    assert packed.made("cuArray3DCreate_v2") == [word(ARRAY_A)]
    # The surface is over memory that was reached, so the kernel may have found its handle anywhere.
    assert packed.made("cuTexObjectCreate") == [word(TEXTURE_A)]
    assert packed.made("cuSurfObjectCreate") == [word(SURFACE)]
    (item,) = packed.ranges
    assert (item.kind, item.owner, item.size_bytes) == ("array", ARRAY_A, 512)
    assert str(item.array) == "2D 16 x 8, float x 1"
    assert packed.handles == {("call_handles", number): [(0, TEXTURE_A, 0, 1)]}


def test_handles_in_memory_are_words_of_the_census_unless_they_may_be_numbers(program: Program) -> None:
    program.writer.allocate(TABLE, 64)
    base = program.array(ARRAY_A)
    program.object(TEXTURE_A, ARRAY_A)
    program.object(SURFACE, ARRAY_A, "Surf")
    number = program.writer.open_window()
    table = struct.pack("<8Q", 0, TEXTURE_A, SURFACE, 1, TEXTURE_B, 0, 0, SURFACE)
    program.writer.contents(TABLE, table, Moment.BEFORE, number)
    program.writer.contents(base, bytes(512), Moment.BEFORE, number)
    program.writer.launch(word(TABLE), [(0, 8)])
    packed = program.finish()
    (site,) = [item.id for item in packed.ranges if item.address == TABLE]
    assert packed.handles == {("range_handles", site): [(16, SURFACE, 0, 2), (56, SURFACE, 0, 2)]}


def test_texels_are_no_pointers(program: Program) -> None:
    program.writer.allocate(TABLE, 64)
    base = program.array(ARRAY_A)
    program.object(TEXTURE_A, ARRAY_A)
    number = program.writer.open_window()
    program.writer.contents(base, word(TABLE) * 64, Moment.BEFORE, number)
    program.writer.launch(word(TEXTURE_A) + word(base), [(0, 8), (8, 8)])
    packed = program.finish()
    assert [item.kind for item in packed.ranges] == ["array"]


def test_a_reference_keeps_its_last_binding_and_every_setting(program: Program) -> None:
    for handle in (ARRAY_A, ARRAY_B, ARRAY_C):
        program.array(handle)
    writer = program.writer
    writer.call("cuModuleGetTexRef", [1, MODULE, 2], {"name": b"picture"}, {"pTexRef": word(0x7E)})
    writer.call("cuTexRefSetArray", [0x7E, ARRAY_A, 1])
    modes = [writer.call("cuTexRefSetAddressMode", [0x7E, dimension, 1]) for dimension in (0, 1)]
    writer.call("cuTexRefSetFilterMode", [0x7E, 0])
    linear = writer.call("cuTexRefSetFilterMode", [0x7E, 1])
    writer.call("cuTexRefSetAddress_v2", [0, 0x7E, TABLE, 64])
    bound = writer.call("cuTexRefSetArray", [0x7E, ARRAY_B, 1])
    writer.open_window()
    writer.launch(b"", [])
    packed = program.finish()
    changes = [call.number for call in packed.setup if call.function.startswith("cuTexRefSet")]
    assert changes == [*modes, linear, bound]
    assert packed.made("cuArray3DCreate_v2") == [word(ARRAY_B)]


def test_an_array_that_is_made_again_under_its_old_handle_is_another_one(program: Program) -> None:
    first = program.array(ARRAY_A)
    writer = program.writer
    number = writer.open_window()
    writer.contents(first, b"\1" * 512, Moment.BEFORE, number)
    writer.launch(b"", [])
    writer.contents(first, b"\2" * 512, Moment.AFTER, number)
    ended = writer.call("cuArrayDestroy", [ARRAY_A])
    second = program.array(ARRAY_A)
    made = writer.number
    writer.contents(second, b"\3" * 512, Moment.BEFORE, made + 1)
    writer.launch(b"", [])
    writer.contents(second, b"\4" * 512, Moment.AFTER, made + 1)
    old, new = program.finish().ranges
    assert (old.owner, old.born_call, old.died_call) == (ARRAY_A, None, ended)
    assert (new.owner, new.born_call, new.died_call) == (ARRAY_A, made, None)
    assert old.address != new.address
