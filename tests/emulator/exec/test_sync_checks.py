"""Barriers and operations of a warp that not all reach that must: found at their line, and not in the twin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from race_kernels import Pair, module
from race_suites import checked, script
from small_kernels import HEAD

if TYPE_CHECKING:
    from conftest import Fresh

PAIRS = [
    Pair("half_a_warp", """
  and.b32 %r1, %t, 16; setp.ne.u32 %p1, %r1, 0;
  @%p1 bra OTHER;
  --- bar.sync 0;  // first
  bra END;
OTHER:
  --- bar.sync 0;  // first
END:
  +++ bar.sync 0;
""", ("divergent_barrier",)),
    Pair("reduced", """
  setp.lt.u32 %p1, %t, 40; mov.u32 %r1, 0;
  +++ setp.lt.u32 %p1, %t, 64;
  @%p1 barrier.red.popc.aligned.u32 %r1, 1, %p1;  // first
  @!%p1 barrier.red.popc.aligned.u32 %r1, 1, %p1;  // first
""", ("divergent_barrier",)),
    Pair("not_aligned", """
  and.b32 %r1, %t, 16; setp.ne.u32 %p1, %r1, 0;
  @%p1 bra OTHER;
  +++ barrier.sync 0;
  --- barrier.sync.aligned 0;  // first
  bra END;
OTHER:
  +++ barrier.sync 0;
  --- barrier.sync.aligned 0;  // first
END:
""", ("divergent_barrier",)),
    Pair("shuffle", """
  and.b32 %r1, %t, 31; setp.lt.u32 %p1, %r1, 16;
  mov.u32 %r3, 0xffff;
  +++ mov.u32 %r3, 0xffffffff;
  shfl.sync.bfly.b32 %r2, %t, 1, 31, %r3;  // first
""", ("outside_its_mask",)),
    Pair("vote_after_a_branch", """
  setp.lt.u32 %p1, %t, 8;
  --- mov.u32 %r3, 0x7f;
  +++ activemask.b32 %r3;
  @!%p1 bra END;
  +++ mov.u32 %r3, 0xff;
  vote.sync.ballot.b32 %r2, %p1, %r3;  // first
END:
""", ("outside_its_mask",)),
    Pair("warp_barrier", """
  and.b32 %r1, %t, 31; mov.u32 %r3, 1; shl.b32 %r3, %r3, %r1;
  --- shl.b32 %r3, %r3, 1;
  bar.warp.sync %r3;  // first
""", ("outside_its_mask",)),
    Pair("tiles", """
  and.b32 %r1, %t, 24; mov.u32 %r3, 0xff; shl.b32 %r3, %r3, %r1;
  and.b32 %r1, %t, 7; setp.eq.u32 %p1, %r1, 7;
  --- @%p1 or.b32 %r3, %r3, 0xff;
  match.any.sync.b32 %r2, %t, %r3;  // first
""", ("masks_differ",)),
    Pair("other_registers", """
  setp.lt.u32 %p1, %t, 96;
  @%p1 bra OTHER;
  --- setmaxnreg.dec.sync.aligned.u32 24;  // first
  +++ setmaxnreg.dec.sync.aligned.u32 40;
  bra END;
OTHER:
  setmaxnreg.dec.sync.aligned.u32 40;  // first
END:
""", ("registers_differ",)),
    Pair("other_direction", """
  setp.lt.u32 %p1, %t, 32;
  setmaxnreg.dec.sync.aligned.u32 40;
  --- @%p1 setmaxnreg.dec.sync.aligned.u32 96;  // first
  --- @!%p1 setmaxnreg.inc.sync.aligned.u32 96;  // first
  +++ setmaxnreg.inc.sync.aligned.u32 96;
""", ("registers_differ",)),
    Pair("a_warp_that_sets_none", """
  setp.lt.u32 %p1, %t, 32;
  --- @!%p1 setmaxnreg.dec.sync.aligned.u32 40;  // first
  +++ setmaxnreg.dec.sync.aligned.u32 40;
""", ("registers_differ",)),
]  # fmt: skip
TEXT, MARKS = module(PAIRS)


@pytest.fixture(scope="module")
def kept() -> dict[str, dict[str, object]]:
    return {}


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_the_fault_is_found_at_its_line_and_the_twin_has_none(
    fresh: Fresh, tmp_path: Path, pair: Pair, kept
) -> None:
    if not kept:
        kept.update(checked(fresh, tmp_path, script(list(MARKS), text=TEXT), checks="sync"))
    found = kept[f"{pair.name}_fault"]
    assert {(item["check"], item["kind"]) for item in found["findings"]} == {("sync", pair.kinds[0])}
    assert {item["first"]["ptx_line"] for item in found["findings"]} <= MARKS[f"{pair.name}_fault"]["first"]
    assert {(item["second"], item["space"]) for item in found["findings"]} == {(None, "")}
    assert found["findings"][0]["first"]["block"] == [0, 0, 0]
    assert kept[f"{pair.name}_twin"]["findings"] == []


def test_threads_are_counted_and_the_first_is_named(fresh: Fresh, tmp_path: Path) -> None:
    launches = checked(fresh, tmp_path, script(["reduced_fault", "shuffle_fault"], text=TEXT), checks="sync")
    reduced, (shuffle,) = launches["reduced_fault"]["findings"], launches["shuffle_fault"]["findings"]
    assert [(item["count"], item["first"]["thread"]) for item in reduced] == [
        (2 * 8, [32, 0, 0]),
        (2 * 24, [40, 0, 0]),
    ]
    assert (shuffle["count"], shuffle["first"]["thread"]) == (2 * 4 * 16, [16, 0, 0])


SLOW_LANE = """
  setp.ne.u32 %p1, %t, 0; mov.u32 %r1, 0;
  @%p1 bra MEET;
LOOP:
  add.u32 %r1, %r1, 1; setp.lt.u32 %p2, %r1, 20000; atom.shared.add.u32 %r2, [%b], 1;
  @%p2 bra LOOP;
MEET:
  bar.sync 0;
"""
EARLY_RETURN = """
  setp.gt.u32 %p1, %t, 99;
  @%p1 bra END;
  bar.sync 0;
  st.shared.u32 [%a], %t;
END:
"""


@pytest.mark.parametrize("body", [SLOW_LANE, EARLY_RETURN], ids=["slow_lane", "early_return"])
def test_right_kernels_have_no_finding(fresh: Fresh, tmp_path: Path, body: str) -> None:
    text, _ = module([Pair("right", body)])
    found = checked(fresh, tmp_path, script(["right_fault"], text=text), checks="sync")["right_fault"]
    assert (found["status"], found["findings"]) == ("ok", [])


def test_who_has_left_need_not_come(fresh: Fresh, tmp_path: Path) -> None:
    text = HEAD + (
        ".visible .entry k() { .reg .b32 %r<4>; .reg .pred %p1; mov.u32 %r1, %tid.x; setp.gt.u32 %p1, %r1, 20;\n"
        "@%p1 exit; bar.sync 0; shfl.sync.bfly.b32 %r2, %r1, 1, 31, 0xffffffff; ret; }\n"
    )
    found = checked(fresh, tmp_path, script(["k"], text=text), checks="race,sync")["k"]
    assert found["findings"] == []


def test_both_checks_look_at_one_launch(fresh: Fresh, tmp_path: Path) -> None:
    pair = Pair("both", """
  st.shared.u32 [%b], %t;
  and.b32 %r1, %t, 16; setp.ne.u32 %p1, %r1, 0;
  @%p1 bra OTHER;
  bar.sync 0;
  bra END;
OTHER:
  bar.sync 0;
END:
""")  # fmt: skip
    text, _ = module([pair])
    found = checked(fresh, tmp_path, script(["both_fault"], text=text), checks="race,sync")["both_fault"]
    assert {item["check"] for item in found["findings"]} == {"race", "sync"}


def test_what_the_race_check_leaves_out_is_still_looked_at(fresh: Fresh, tmp_path: Path) -> None:
    pair = Pair("copies", """
  and.b32 %r1, %t, 16; setp.ne.u32 %p1, %r1, 0;
  @%p1 bra OTHER;
  bar.sync 0;
  bra END;
OTHER:
  bar.sync 0;
END:
  barrier.cluster.arrive; barrier.cluster.wait;
""")  # fmt: skip
    text, _ = module([pair])
    found = checked(fresh, tmp_path, script(["copies_fault"], text=text), checks="race,sync")["copies_fault"]
    assert [item["kind"] for item in found["findings"]] == ["divergent_barrier"] * 2
    assert [item["check"] for item in found["unchecked"]] == ["race"]


def test_without_a_file_it_is_told(fresh: Fresh) -> None:
    done = fresh(script(["half_a_warp_fault"], text=TEXT), CHECKS="sync")
    assert "sync: divergent_barrier, " in done.stderr
    assert "second" not in done.stderr
