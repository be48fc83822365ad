"""Other names of kernels, in PTX and in images."""

from __future__ import annotations

from pathlib import Path

import pytest

from replay.errors import EngineError
from replay.images import read_container, read_ptx
from replay.redaction.names import Names
from replay.snapshot.container import SnapshotReader, SnapshotWriter
from replay.snapshot.schema import Header, Image, Kernel, to_wire

from ..helpers.image_factory import make_container, make_cubin, make_entry
from ..helpers.saxpy_snapshot import store

PTX = """.version 7.0
.target sm_70
.address_size 64
.global .u64 table[1] = {_Z5scalePfi};
.visible .entry _Z5scalePfi(.param .u64 _Z5scalePfi_param_0, .param .u32 _Z5scalePfi_param_1) {
  .shared .b8 _ZZ5scalePfiE4sums[64];
  .pragma "_Z5scalePfi";
  .reg .u64 %k; .reg .f32 %add;
  ld.param.u64 %k, [_Z5scalePfi_param_0];
  add.f32 %add, %add, %add;
$L_add: ret;
}
.visible .entry k(.param .u64 k_param_0) { .reg .pred %k; @%k bra kept; kept: ret; }
.visible .entry _Z5scalePfi_twice() { ret; }
"""
NAMES = Names({"_Z5scalePfi": "kernel_1", "k": "kernel_2", "_Z5scalePfi_twice": "kernel_3"})


def test_kernels_parameters_and_what_is_inside_of_them_are_renamed() -> None:
    text = NAMES.text(PTX)
    assert list(read_ptx(text.encode()).kernels) == ["kernel_1", "kernel_2", "kernel_3"]
    assert text.replace('.pragma "_Z5scalePfi"', "").count("5scale") == 0
    assert "table[1] = {kernel_1}" in text
    assert "kernel_1_param_1" in text
    assert "_ZZkernel_1E4sums" in text
    for same in (
        "add.f32 %add, %add, %add",
        "$L_add:",
        ".reg .pred %k; @%k bra kept; kept:",
        "kernel_2_param_0",
    ):
        assert same in text


@pytest.mark.parametrize("packing", ["", "zstd", "lz4"])
def test_machine_code_beside_ptx_is_left_out(packing: str) -> None:
    names = Names({"k": "kernel_1"})
    ptx = PTX.encode() + bytes(-len(PTX) % 8 + 8)
    data = make_container(
        make_entry(2, 90, make_cubin()), make_entry(1, 70, ptx, packing=packing, name=b"x.cu")
    )
    (entry,) = read_container(names.image(data, "digest"))
    assert (entry.kind, entry.file_name) == ("ptx", "x.cu")
    assert "kernel_1" in read_ptx(entry.contents()).kernels
    assert names.code == ["digest"]


def names_in(path: Path, image: bytes, kernel: str) -> Names:
    """Of a snapshot with one image and one kernel."""
    with SnapshotWriter(path) as writer:
        writer.write("header", to_wire(Header("replay-snapshot", 1, "0.1.0", "2026-11-21T01:12:00Z")))
        writer.write("image", to_wire(Image("ab" * 16, "unknown", store(writer, image))))
        writer.write("kernel", to_wire(Kernel(kernel, "", "ab" * 16, [], 1, [1, 1, 1], [1, 1, 1], 0)))
    with SnapshotReader(path) as reader:
        return Names.read(reader)


def test_names_are_new_in_the_texts_and_those_of_the_window_come_first(tmp_path: Path) -> None:
    text = PTX.replace("$L_add", "kernel_x") + ".visible .entry saxpy() { ret; }\n"
    names = names_in(tmp_path / "x.rsnap", text.encode() + b"\0", "saxpy")
    assert names.of["saxpy"] == "a_kernel_1"
    assert names.sentence("launch of saxpy, not of saxpys") == "launch of a_kernel_1, not of saxpys"


@pytest.mark.parametrize(
    "image",
    [
        make_cubin(),
        make_container(make_entry(2, 90, make_cubin())),
        make_container(make_entry(2, 90, make_cubin()), make_entry(1, 70, PTX.replace("k(", "l(").encode())),
    ],
)
def test_what_is_there_as_machine_code_only_is_refused(tmp_path: Path, image: bytes) -> None:
    with pytest.raises(EngineError, match="machine code only"):
        names_in(tmp_path / "x.rsnap", image, "_Z5scalePfi")
