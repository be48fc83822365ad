"""Differences between the code of two sides: what is folded, what is shown, and what strangers cannot make it do."""

from __future__ import annotations

import random
import re
import stat
import struct
from pathlib import Path

import pytest
from blake3 import blake3

from replay.cli import main
from replay.difference import CodeFiles, differences, step_differences
from replay.difference import listing as listings
from replay.difference.listing import CodeLine, aligned, difference
from replay.difference.machine import Disassembler
from replay.difference.ptx import ptx_lines
from replay.images import image_digest
from replay.images.cubin import _sections
from replay.results import comparison, documents
from replay.results.bisection import BisectedCandidate, Bisection, Step
from replay.results.comparison import ComparedKernel, ComparedRow, ComparedSide, Comparison
from replay.results.json import document

from ..helpers.image_factory import make_cubin
from ..helpers.snapshot_factory import SAMPLES, vector_add

SOURCE = (SAMPLES / "vector_add" / "vector_add.ptx").read_bytes()


def renumbered(ptx: bytes) -> bytes:
    """The same code with other registers and labels, comments and lines of a source."""
    text = re.sub(r"%(rd|r|f|p)(\d+)", lambda found: f"%{found[1]}{int(found[2]) + 7}", ptx.decode())
    text = re.sub(r"%(rd|r|f|p)<(\d+)>", lambda found: f"%{found[1]}<{int(found[2]) + 7}>", text)
    text = text.replace("$L__BB0_", "$L__BB9_").replace("ret;", "/* the\nend */ .loc 1 7 3\n\tret; // really")
    return text.encode()


def test_renumbering_and_what_is_for_debuggers_is_folded():
    found = difference("PTX", ptx_lines(SOURCE, "vector_add"), ptx_lines(renumbered(SOURCE), "vector_add"))
    assert found.same
    assert found.lines == []
    assert found.summary == f"PTX: the same {found.count_a} lines"


def test_another_operand_is_a_difference_although_the_line_looks_alike():
    changed = renumbered(SOURCE).replace(b"%f10, %f9, %f8", b"%f10, %f9, %f9")
    assert changed != renumbered(SOURCE)
    found = difference("PTX", ptx_lines(SOURCE, "vector_add"), ptx_lines(changed, "vector_add"))
    assert (found.added, found.removed) == (1, 1)
    assert [line for line in found.lines if line[0] in "+-"] == [
        "- add.f32 %f3, %f2, %f1;",
        "+ add.f32 %f3, %f2, %f2;",
    ]


def test_of_lines_that_look_alike_the_one_with_the_same_register_stays():
    name = re.compile(r"%r\d+")
    b = ["mov %r1, 32;", "add %r2, %r1, %r1;", "mul %r3, %r1, %r1;"]
    a = ["mov %r0, 32;", *b]  # B left out the first of two moves
    found = difference("PTX", *([CodeLine.of(line, name) for line in side] for side in (a, b)))
    assert (found.removed, found.added) == (1, 0)
    assert [line for line in found.lines if line[0] in "+-"] == ["- mov %r0, 32;"]


def test_an_instruction_that_was_put_in_is_written_with_the_registers_of_a():
    changed = renumbered(SOURCE).replace(b"add.f32", b"mul.f32 %f11, %f9, %f9;\n\tadd.f32")
    found = difference("PTX", ptx_lines(SOURCE, "vector_add"), ptx_lines(changed, "vector_add"))
    assert [line for line in found.lines if line[0] in "+-"] == ["+ mul.f32 %f11', %f2, %f2;"]
    assert found.opcodes == [("mul.f32", 0, 1)]
    assert found.lines[0].startswith("@ line ")


@pytest.mark.parametrize("seed", range(200))
def test_an_alignment_holds_every_line_of_both_sides_once_and_in_order(seed):
    chosen = random.Random(seed)
    a, b = ([chosen.choice("abc") for _ in range(chosen.randrange(14))] for _ in range(2))
    pairs = aligned(a, b)
    assert [at for at, _ in pairs if at is not None] == list(range(len(a)))
    assert [at for _, at in pairs if at is not None] == list(range(len(b)))
    assert all(a[at] == b[other] for at, other in pairs if at is not None and other is not None)


def test_an_alignment_is_as_short_as_can_be():
    assert sum(None in pair for pair in aligned("abcabba", "cbabac")) == 5  # the example of Myers' paper


def test_what_is_too_different_is_counted_and_not_aligned(monkeypatch):
    monkeypatch.setattr(listings, "MAXIMUM_EDITS", 20)
    a, b = ([CodeLine.of(f"{name}.{at};", None) for at in range(30)] for name in ("add", "mul"))
    found = difference("PTX", a, b)
    assert found.too_different
    assert not found.same
    assert "too different" in found.summary
    assert len(found.opcodes) == listings.SHOWN_OPCODES


def test_long_differences_end_with_the_number_of_further_lines(monkeypatch):
    monkeypatch.setattr(listings, "SHOWN_LINES", 10)
    a, b = ([CodeLine.of(f"{name} x;", None)] * 30 for name in ("add", "mul"))
    found = difference("PTX", a, b)
    assert len(found.lines) == 10
    assert found.more == 51


def side(snapshot: str, kernel: ComparedKernel, variant: str = "") -> ComparedSide:
    return ComparedSide(snapshot, None, variant, kernels=[kernel])


def row(a: ComparedSide, b: ComparedSide) -> ComparedRow:
    return ComparedRow("vector_add", a, b, "SLOWER")


def kernel_of(image: bytes) -> ComparedKernel:
    # The factory of snapshots writes the longer digests of the first version.
    digest = blake3(image).hexdigest() if image.rstrip(b"\0") == SOURCE else image_digest(image)
    return ComparedKernel("vector_add", image=digest)


@pytest.fixture
def snapshot(tmp_path):
    factory = vector_add(64)
    factory.write(tmp_path / "a.rsnap")
    return tmp_path / "a.rsnap"


@pytest.fixture
def captured(snapshot):
    from replay.snapshot.contents import Snapshot

    with Snapshot(snapshot) as opened:
        image = next(opened.images())
        return opened.read(image.contents, 1 << 20)


def test_a_side_is_found_by_the_digest_of_its_image(tmp_path, snapshot, captured):
    changed = captured.rstrip(b"\0").replace(b"add.f32", b"sub.f32")
    (tmp_path / "b.ptx").write_bytes(changed)
    compared = row(side("a.rsnap", kernel_of(captured)), side("a.rsnap", kernel_of(changed), "swap=gone.ptx"))
    found = differences(compared, CodeFiles([snapshot], [tmp_path / "b.ptx"]))[0]
    assert found.notes == []
    assert (found.listings[0].added, found.listings[0].removed) == (1, 1)


def test_a_file_of_a_variant_is_only_taken_as_it_was_compared(tmp_path, snapshot, captured):
    file = tmp_path / "b.ptx"
    file.write_bytes(captured.rstrip(b"\0").replace(b"add.f32", b"sub.f32"))
    compared = row(
        side("a.rsnap", kernel_of(captured)), side("a.rsnap", kernel_of(file.read_bytes()), f"swap={file}")
    )
    assert differences(compared, CodeFiles([snapshot], []))[0].listings[0].added == 1
    file.write_bytes(captured.rstrip(b"\0").replace(b"add.f32", b"max.f32"))
    found = differences(compared, CodeFiles([snapshot], []))[0]
    assert found.listings == []
    assert "is not what was compared" in found.notes[0]


def test_what_is_missing_is_named(tmp_path, captured):
    (tmp_path / "b.ptx").write_bytes(captured)
    compared = row(side("x.rsnap", kernel_of(b"1")), side("x.rsnap", kernel_of(b"2"), "ptxas=12.6"))
    notes = differences(compared, CodeFiles([], [tmp_path / "b.ptx"]))[0].notes
    assert "x.rsnap has it" in notes[0]
    assert "x.rsnap was not named" in notes[1]


def test_no_compiler_that_a_comparison_names_is_run(tmp_path, snapshot, captured):
    program = tmp_path / "ptxas"
    program.write_text(f"#!/bin/sh\ntouch {tmp_path}/was-run\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    compared = row(side("a.rsnap", kernel_of(captured)), side("a.rsnap", kernel_of(b"2"), f"ptxas={program}"))
    found = differences(compared, CodeFiles([snapshot], []))[0]
    assert "only by its version" in found.notes[0]
    assert not (tmp_path / "was-run").exists()


def test_both_sides_of_a_step_are_compared(tmp_path, snapshot, captured):
    (tmp_path / "b.ptx").write_bytes(captured.rstrip(b"\0").replace(b"add.f32", b"sub.f32"))
    variants = ("", f"swap={tmp_path / 'b.ptx'}")
    candidates = [BisectedCandidate(text, text, at) for at, text in enumerate(variants)]
    step = Step(0, 1, 0.99, "SLOWER", 1.05, 1.04, 1.06)
    result = Bisection("", "1", "", "a.rsnap", "module=...", "slower", candidates, [step], 10)
    found = step_differences(result, step, CodeFiles([snapshot], []))
    assert [item.listings[0].added for item in found] == [1]
    assert "was not named" in step_differences(result, step, CodeFiles([], []))[0].notes[0]


FAKE = """#!/bin/sh
echo '	.headerflags	@"EF_CUDA_SM90"'
echo '.text.other:'
echo '        /*0000*/                   EXIT ;'
echo '.text.k:'
echo '        /*0000*/                   LDC R1, c[0x0][0x28] ;'
if grep -q second "$2"; then echo '        /*0010*/                   STL.64 [R1+0x8], R14 ;'; fi
echo '        /*0020*/              @!P0 BRA `(.L_x_1) ;'
echo '.L_x_1:'
echo '        /*0030*/                   EXIT ;'
echo '        /*0040*/                   NOP;'
"""


@pytest.fixture
def disassembler(tmp_path, monkeypatch):
    """A program in the place of the user's, that prints what such a program prints."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "nvdisasm").write_text(FAKE)
    (folder / "nvdisasm").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def two_cubins(tmp_path):
    files = []
    for name, registers in (("first", 40), ("second", 56)):
        data = bytearray(
            make_cubin().replace(
                struct.pack("<BBHII", 4, 0x2F, 8, 1, 42), struct.pack("<BBHII", 4, 0x2F, 8, 1, registers)
            )
        )
        code = next(section for section in _sections(bytes(data)) if section.name == ".text.k")
        data[code.offset : code.offset + len(name)] = name.encode()
        file = tmp_path / f"{name}.cubin"
        file.write_bytes(data)
        files.append(file)
    return files


def compared_cubins(files):
    sides = [side("x.rsnap", ComparedKernel("k", image=image_digest(file.read_bytes()))) for file in files]
    return differences(row(*sides), CodeFiles([], files))[0]


def test_machine_code_is_shown_by_the_users_own_tool(tmp_path, disassembler):
    found = compared_cubins(two_cubins(tmp_path))
    assert ("registers", "40", "56") in found.resources
    assert ("bytes of machine code", "64", "64") in found.resources
    assert [line for line in found.listings[0].lines if line[0] in "+-"] == ["+ STL.64 [R1+0x8], R14'"]
    assert found.listings[0].count_a == 4
    assert "nvdisasm" in found.listings[0].summary


def test_without_a_tool_there_are_sizes_digests_and_resources(tmp_path, monkeypatch):
    monkeypatch.setattr("replay.difference.machine.find_tools", lambda name: [])
    found = compared_cubins(two_cubins(tmp_path))
    assert found.listings == []
    assert "nvdisasm or cuobjdump" in found.notes[0]
    assert {what: (a, b) for what, a, b in found.resources}["registers"] == ("40", "56")


def test_a_tool_that_fails_is_a_note(tmp_path, disassembler):
    (tmp_path / "bin" / "nvdisasm").write_text("#!/bin/sh\necho 'nvdisasm fatal: no' >&2\nexit 3\n")
    assert "ended with status 3" in compared_cubins(two_cubins(tmp_path)).notes[0]
    assert Disassembler().name == "nvdisasm"


@pytest.mark.parametrize(
    "data", [b"", b".version 8.0\n.target sm_90\n.visible .entry k(){" * 3, b"\x7fELF" + bytes(200)]
)
def test_damaged_images_are_notes(tmp_path, data, captured):
    (tmp_path / "a.ptx").write_bytes(captured)
    sides = [
        side("x.rsnap", ComparedKernel("vector_add", image=image_digest(image))) for image in (captured, data)
    ]
    files = CodeFiles([], [tmp_path / "a.ptx"])
    files._places = {image_digest(captured): tmp_path / "a.ptx", image_digest(data): tmp_path / "b.ptx"}
    (tmp_path / "b.ptx").write_bytes(data)
    found = differences(row(*sides), files)[0]
    assert found.listings == []
    assert found.notes[0].startswith("B: ")


def compared_file(tmp_path, captured) -> Path:
    """The JSON of a comparison of a snapshot with a variant that changes one instruction."""
    changed = captured.rstrip(b"\0").replace(b"add.f32", b"sub.f32")
    (tmp_path / "b.ptx").write_bytes(changed)
    rows = [row(side("a.rsnap", kernel_of(captured)), side("a.rsnap", kernel_of(changed), "swap=gone.ptx"))]
    found = Comparison(comparison.FORMAT, "1", "2026-01-01T00:00:00", 0.01, rows)
    (tmp_path / "c.json").write_text(document(documents.COMPARISON, found))
    return tmp_path / "c.json"


def test_page_markdown_and_explanation_show_it(tmp_path, snapshot, captured, capsys):
    names = [str(path) for path in (compared_file(tmp_path, captured), snapshot, tmp_path / "b.ptx")]
    assert main(["report", *names, "-o", str(tmp_path / "page.html"), "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "```diff\n@ line " in text
    assert "\n+ sub.f32 %f3, %f2, %f1;\n" in text
    page = (tmp_path / "page.html").read_text()
    assert '<td class="added"><code>sub.f32 %f3, %f2, %f1;</code></td>' in page
    assert main(["explain", *names]) == 0
    assert "Code of vector_add: PTX: 1 of 29 lines of A are not in B" in " ".join(
        capsys.readouterr().out.split()
    )


def test_without_the_files_they_are_named(tmp_path, captured, capsys):
    name = str(compared_file(tmp_path, captured))
    for command in (["report", name, "--markdown"], ["explain", name]):
        assert main(command) == 0
        text = " ".join(capsys.readouterr().out.split())
        assert "name the snapshots, too: replay report C.json a.rsnap -o PAGE.html" in text.replace("\\", "")
    assert main(["explain", str(tmp_path / "b.ptx")]) == 2


def test_an_image_that_is_none_is_refused(tmp_path, captured):
    (tmp_path / "x.cubin").write_bytes(b"nonsense")
    name = str(compared_file(tmp_path, captured))
    assert main(["report", name, str(tmp_path / "x.cubin"), "--markdown"]) == 3
