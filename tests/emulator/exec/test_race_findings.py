"""What a finding of a race says, and which kernels are named as not checked."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from block_order_kernels import last_block
from race_kernels import Pair, module
from race_suites import COPIES, GLOBAL, SHARED, both_lines, checked, faults, lines_of, script
from small_kernels import HEAD

from replay.run.findings import read_findings

if TYPE_CHECKING:
    from conftest import Fresh

NEIGHBOUR = next(pair for pair in SHARED.pairs if pair.name == "neighbour")


def test_writes_of_the_same_value_are_told_apart(fresh: Fresh, tmp_path: Path) -> None:
    for suite, told in ((SHARED, [(True, False), (True, True)]), (GLOBAL, [(True, False)])):
        found = checked(fresh, tmp_path, suite.script(["different_values_twin"]))["different_values_twin"]
        assert [(item["same_value"], item["one_warp"]) for item in found["findings"]] == told
        assert {item["kind"] for item in found["findings"]} == {"write_after_write"}


def test_a_load_that_threads_of_a_block_share_is_none(fresh: Fresh, tmp_path: Path) -> None:
    """Each lane loads the value, and one stores what it makes of it. Loaded by another line it is a race."""
    shared = "  ld.global.u32 %r1, [%d];\n"
    own = "  @%z ld.global.u32 %r1, [%d];\n  @!%z ld.global.u32 %r2, [%d];\n"
    store = "  add.u32 %r1, %r1, 1;\n  @%z st.global.u32 [%d], %r1;"
    text, _ = module([Pair("together", shared + store), Pair("apart", own + store)], GLOBAL.frame)
    found = checked(fresh, tmp_path, script(["together_fault", "apart_fault"], text, block=32, values="data"))
    assert found["together_fault"]["findings"] == []
    assert {item["kind"] for item in found["apart_fault"]["findings"]} == {"write_after_read"}


def test_a_finding_names_the_source(fresh: Fresh, tmp_path: Path) -> None:
    text, marks = module([NEIGHBOUR])
    located = text.replace(".address_size 64", '.address_size 64\n.file 1 "/home/somebody/tile.cu"', 1)
    located = located.replace(
        "  st.shared.u32 [%a], %t;  // first", "  .loc 1 41 3\n  st.shared.u32 [%a], %t;"
    )
    found = checked(fresh, tmp_path, script(list(marks), located))["neighbour_fault"]["findings"][0]
    assert (found["first"]["file"], found["first"]["line"]) == ("tile.cu", 41)
    assert (found["second"]["file"], found["second"]["line"]) == ("tile.cu", 41)


def test_a_source_whose_name_is_no_ascii_has_its_name(fresh: Fresh, tmp_path: Path) -> None:
    text, marks = module([NEIGHBOUR])
    named = text.replace(".address_size 64", '.address_size 64\n.file 1 "/home/x/\\303\\251.cu"', 1)
    named = named.replace("  st.shared.u32 [%a], %t;  // first", "  .loc 1 41 3\n  st.shared.u32 [%a], %t;")
    checked(fresh, tmp_path, script(list(marks), named))
    found = read_findings(tmp_path / "findings").findings[0]
    assert [side.file for side in found.sides] == ["\u00e9.cu", "\u00e9.cu"]


VALUES = [
    Pair("read", "mov.u32 %r1, 7; @%p1 bra END; mov.u32 %r1, 9;\nEND:\n  st.shared.u32 [%a], %r1;\n"
         "  xor.b32 %r2, %t, 33; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %b;\n  ld.shared.u32 %r3, [%r2];"),
    Pair("written", "  setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 40; mov.u32 %r1, 5;\n"
         "  @%p1 st.shared.u32 [%b], %r1;\n  @%p2 st.shared.u32 [%b], %t;"),
    Pair("overwritten", """
  setp.eq.u32 %p1, %t, 0; setp.eq.u32 %p2, %t, 40; setp.eq.u32 %p3, %t, 80; mov.u32 %r1, 6;
  @%p3 st.shared.u32 [%b], %r1;
  bar.sync 0;
  @%p1 ld.shared.u32 %r2, [%b];
  @%p2 st.shared.u32 [%b], %t;
"""),
]  # fmt: skip


def test_a_finding_has_the_values_and_who_wrote_what_was_read(fresh: Fresh, tmp_path: Path) -> None:
    text, _ = module(VALUES)
    found = checked(fresh, tmp_path, script([f"{pair.name}_fault" for pair in VALUES], text))
    items = {name: item["findings"][0] for name, item in found.items()}
    assert (items["read_fault"]["value"], items["read_fault"]["new_value"]) == ("0x00000009", "")
    assert items["read_fault"]["writer"] is None
    assert (items["written_fault"]["value"], items["written_fault"]["new_value"]) == (
        "0x00000005",
        "0x00000028",
    )
    last = items["overwritten_fault"]
    assert (last["kind"], last["value"], last["new_value"]) == (
        "write_after_read",
        "0x00000006",
        "0x00000028",
    )
    assert last["writer"]["thread"] == [80, 0, 0]
    assert last["writer"]["instruction"] == "@%p3 st.shared.u32 [%b], %r1;"


# Block 0 tells the others of what it wrote; one reads it, and another writes over it.
TOLD = """
  @!%z bra END;
  setp.eq.u32 %p1, %c, 0; setp.eq.u32 %p2, %c, 1; setp.eq.u32 %p4, %c, 3; mov.u32 %r1, 1;
  @%p1 bra TELL;
POLL:
  ld.acquire.gpu.global.u32 %r2, [%g]; setp.eq.u32 %p3, %r2, 0;
  @%p3 bra POLL;
  @%p2 ld.global.u32 %r3, [%g+64];
  @%p4 st.global.u32 [%g+64], %r1;
  bra END;
TELL:
  st.global.u32 [%g+64], 9;
  st.release.gpu.global.u32 [%g], %r1;
END:
"""


def test_the_writer_of_what_another_block_read_is_told(fresh: Fresh, tmp_path: Path) -> None:
    text, _ = module([Pair("k", TOLD)], GLOBAL.frame)
    found = checked(fresh, tmp_path, script(["k_fault"], text, GLOBAL.grid, GLOBAL.block, GLOBAL.values))
    (one,) = found["k_fault"]["findings"]
    assert (one["kind"], one["value"], one["new_value"]) == ("write_after_read", "0x00000009", "0x00000001")
    assert (one["writer"]["instruction"], one["writer"]["block"]) == ("st.global.u32 [%g+64], 9;", [0, 0, 0])


def test_a_copy_is_told_from_an_access(fresh: Fresh, tmp_path: Path) -> None:
    found = checked(fresh, tmp_path, COPIES.script(["own_group_fault", "producer_fault"]))
    for name, told in (("own_group_fault", True), ("producer_fault", False)):
        assert {item["asynchronous"] for item in found[name]["findings"]} == {told}


def test_without_a_file_findings_are_told(fresh: Fresh) -> None:
    done = fresh(SHARED.script(["neighbour_fault"]), CHECKS="race")
    assert "race: read_after_write of 4 bytes of shared memory at tile + " in done.stderr
    assert "in kernel neighbour_fault" in done.stderr


def test_an_unknown_check_is_refused(fresh: Fresh) -> None:
    done = fresh("print(d.context)", CHECKS="race,races")
    assert "None" in done.stdout
    assert "there is no check races" in done.stderr


CLUSTER = "barrier.cluster.arrive; barrier.cluster.wait;"


def test_kernels_whose_shared_memory_is_not_checked_are_named(fresh: Fresh, tmp_path: Path) -> None:
    text = HEAD + (
        ".visible .entry k() { .reg .b32 %r<4>; .shared .align 16 .b8 tile[64];\n"
        f"mov.u32 %r1, tile; mov.u32 %r2, %tid.x; st.shared.u32 [%r1], %r2; {CLUSTER} ret; }}\n"
    )
    found = checked(fresh, tmp_path, script(["k"], text))["k"]
    assert found["findings"] == []
    assert "it uses barrier.cluster, " in found["unchecked"][0]["why"]


def test_kernels_whose_threads_are_ordered_in_another_way_are_named(fresh: Fresh, tmp_path: Path) -> None:
    text, _ = module([Pair("k", last_block(CLUSTER, "membar.gl;\n  atom.global.add.u32"))], GLOBAL.frame)
    found = checked(fresh, tmp_path, script(["k_twin"], text, GLOBAL.grid, GLOBAL.block, GLOBAL.values))[
        "k_twin"
    ]
    assert (found["status"], found["findings"]) == ("ok", [])
    (left_out,) = found["unchecked"]
    assert "it uses barrier.cluster, " in left_out["why"]


@pytest.mark.parametrize("other", ["cp.async.wait_all;", "wgmma.fence.sync.aligned;"])
def test_other_order_does_not_hide_races_between_blocks(fresh: Fresh, tmp_path: Path, other: str) -> None:
    text, marks = module([Pair("k", f"{other}\n" + last_block("bar.sync 0;"))], GLOBAL.frame)
    text = text.replace("sm_90", "sm_90a")
    found = checked(fresh, tmp_path, script(["k_fault"], text, GLOBAL.grid, GLOBAL.block, GLOBAL.values))
    assert lines_of(faults(found["k_fault"])[0]) in both_lines(marks["k_fault"])
