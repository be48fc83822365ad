"""The check `memory` tells what a program frees twice, where nothing begins, and never."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from conftest import Fresh

TWICE = """
one, other, kept = d.alloc(4096), d.alloc(4096), d.alloc(1024)
d.do("cuMemFree_v2", one)
print([d.cuMemFree_v2(at) for at in (one, other + 16, 64)])
d.do("cuMemFreeAsync", other, 0)
"""


def test_what_is_freed_twice_or_never_is_told(fresh: Fresh) -> None:
    done = fresh(TWICE, CHECKS="memory")
    assert "[1, 1, 1]" in done.stdout
    assert "fails: freed already: the 4,096-byte allocation at 0x" in done.stderr
    assert "fails: 16 bytes into the 4,096-byte allocation at 0x" in done.stderr
    assert "fails: no allocation begins there" in done.stderr
    assert "1,024 bytes were never freed, in 1 allocation\n" in done.stderr
    assert done.stderr.count("allocation at") == 3


def test_nothing_is_told_of_a_program_that_frees_all_once(fresh: Fresh) -> None:
    done = fresh("at = d.alloc(64)\nd.do('cuMemFree_v2', at)", CHECKS="memory")
    assert "memory:" not in done.stderr


def test_nothing_is_told_without_the_check(fresh: Fresh) -> None:
    done = fresh(TWICE, CHECKS="race")
    assert "memory:" not in done.stderr
