"""Accesses of a whole warp that are looked at together give what looking at each lane gives, in random kernels.

A block that has initialised an mbarrier has each lane of each access looked at.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from mbarrier_kernels import FRAME
from race_kernels import Pair, module
from race_suites import checked, script

if TYPE_CHECKING:
    from conftest import Fresh

KERNELS, BLOCK = 16, 128
CAREFUL = "+++ @%z mbarrier.init.shared.b64 [%k], 1;"
ORDERS = ["bar.sync 0;"] * 3 + ["bar.warp.sync -1;"] * 2 + ["membar.cta;", "bar.sync 1;"]
OF_COPIES = [
    "cp.async.wait_all; bar.sync 0;",
    "cp.async.wait_all;",
    "cp.async.commit_group;",
    "cp.async.wait_group 1;",
]
COPY = "cp.async.ca.shared.global [%r2+{at}], [%g], {bytes};"
# Where threads access words of so many bytes: each its own one, then one for several.
APART = [
    "mul.lo.u32 %r2, %t, {bytes};",
    "mul.lo.u32 %r2, %t, 33; and.b32 %r2, %r2, 127; mul.lo.u32 %r2, %r2, {bytes};",
    "xor.b32 %r2, %t, {any}; mul.lo.u32 %r2, %r2, {bytes};",
    "sub.u32 %r2, 127, %t; mul.lo.u32 %r2, %r2, {bytes};",
    "add.u32 %r2, %t, {any}; mul.lo.u32 %r2, %r2, {bytes};",
]
TOGETHER = [
    "and.b32 %r2, %t, 31; mul.lo.u32 %r2, %r2, {bytes};",
    "and.b32 %r2, %t, 15; mul.lo.u32 %r2, %r2, {bytes};",
    "shr.u32 %r2, %t, {shift}; mul.lo.u32 %r2, %r2, {bytes};",
    "mov.u32 %r2, 0;",
]
OPERATIONS = {
    4: ["ld.shared.u32 %r3, [%r2+{at}];", "st.shared.u32 [%r2+{at}], %t;", "ld.volatile.shared.u32 %r3, [%r2+{at}];",
        "atom.shared.add.u32 %r3, [%r2+{at}], 1;", "ld.u32 %r3, [%rd1+{at}];", "st.u32 [%rd1+{at}], %t;"],
    8: ["ld.shared.v2.u32 {{%r3, %r4}}, [%r2+{at}];", "st.shared.v2.u32 [%r2+{at}], {{%t, %r5}};"],
    16: ["st.shared.v4.u32 [%r2+{at}], {{%t, %r5, %t, %r5}};"],
}  # fmt: skip
OFTEN = 6  # times that plain loads and stores of words are as frequent as others


def access(choice: random.Random, places: list[str]) -> list[str]:
    bytes_each = choice.choice([4, 4, 4, 8, 16])
    place = choice.choice(places).format(
        bytes=bytes_each, shift=choice.choice([1, 3, 4]), any=choice.randrange(128)
    )
    guard = choice.choice(["", "", "@%p1 ", "@!%p1 "])
    operations = OPERATIONS[bytes_each][:2] * OFTEN + OPERATIONS[bytes_each] + [COPY]
    first, step = 16 * choice.randrange(40), choice.choice([0, 16, 64])
    return [
        f"{place} and.b32 %r2, %r2, {2048 - bytes_each}; add.u32 %r2, %r2, %b;",
        "cvt.u64.u32 %rd1, %r2; cvta.shared.u64 %rd1, %rd1;",
        f"setp.lt.u32 %p1, %t, {choice.choice([1, 16, 31, 32, 64, 100])};",
        *(
            guard + choice.choice(operations).format(at=first + step * turn, bytes=bytes_each)
            for turn in range(choice.choice([1, 2, 4]))
        ),
    ]


def kernel(choice: random.Random, name: str, places: list[str]) -> Pair:
    barriers = choice.choice([0.1, 0.3, 0.5])
    lines = [CAREFUL]
    orders = choice.choice([ORDERS, ORDERS + OF_COPIES])
    for _ in range(choice.randrange(4, 24)):
        lines += [choice.choice(orders)] if choice.random() < barriers else access(choice, places)
    return Pair(name, "\n".join(lines))


def relative(item: dict[str, Any], first_line: int) -> list[dict[str, Any]]:
    """The findings, with lines that count from one of the kernel."""
    for found in item["findings"]:
        for side in ("first", "second", "writer"):
            if found[side]:
                found[side]["ptx_line"] -= first_line
    return item["findings"]


def compare(fresh: Fresh, folder: Path, pairs: list[Pair], without: str = "") -> int:
    """How many findings there are, which are the same for both kernels of each pair; but for those of one kind."""
    text, marks = module(pairs, FRAME)
    run = script(list(marks), text, block=BLOCK, values="data, maps")
    items = checked(fresh, folder, run, THREADS="2")
    begins = {name: text[: text.index(f".entry {name}(")].count("\n") for name in marks}
    count = 0
    for pair in pairs:
        plain, careful = (
            relative(items[f"{pair.name}_{end}"], begins[f"{pair.name}_{end}"] + extra)
            for end, extra in (("fault", 0), ("twin", 1))
        )
        plain, careful = ([one for one in found if one["kind"] != without] for found in (plain, careful))
        assert plain == careful, pair.text(twin=False)
        count += len(plain)
    return count


# Of many lanes that read one word two are kept, and not always the same two.
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("places", "without"),
    [(APART, ""), (APART + TOGETHER, "write_after_read")],
    ids=["each its own", "some together"],
)
def test_random_kernels(fresh: Fresh, tmp_path: Path, places: list[str], without: str, seed: int) -> None:
    choice = random.Random(seed)
    pairs = [kernel(choice, f"k{k}", places) for k in range(KERNELS)]
    assert compare(fresh, tmp_path, pairs, without) > KERNELS


def test_more_reads_than_are_kept_before_a_write(fresh: Fresh, tmp_path: Path) -> None:
    body = f"""
  {CAREFUL}
  st.shared.u32 [%a], %t;
  bar.sync 0;
  ld.shared.u32 %r2, [%a];
  mov.u32 %r1, 0; shl.b32 %r4, %t, 3; and.b32 %r4, %r4, 508; add.u32 %r4, %r4, %b;
LOOP:
  ld.shared.u32 %r3, [%r4+1024];
  add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 1500;
  @%p1 bra LOOP;
  xor.b32 %r2, %t, 65; shl.b32 %r2, %r2, 2; add.u32 %r2, %r2, %b;
  st.shared.u32 [%r2], %t;
"""
    assert compare(fresh, tmp_path, [Pair("many", body)]) > 0


def test_a_store_is_the_writer_where_a_copy_was_before_it(fresh: Fresh, tmp_path: Path) -> None:
    body = f"""
  {CAREFUL}
  cp.async.ca.shared.global [%a], [%o], 4;
  cp.async.wait_all;
  bar.sync 0;
  st.shared.u32 [%a], %t;
  bar.sync 0;
  ld.shared.u32 %r2, [%a];
  st.shared.u32 [%x], %t;
"""
    assert compare(fresh, tmp_path, [Pair("stored", body)]) > 0
